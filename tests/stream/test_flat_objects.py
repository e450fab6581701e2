"""Plain objects of JSON, read by a kernel, are what Python reads; whatever is not plain is left to others."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rpq.readers import ColumnNames
from rpq.readers.text.jsonlines import JsonLayout
from rpq.stream.arrays.fields import FieldError
from rpq.stream.arrays.flat_objects import ObjectKey, read_flat_objects

KEYS = (
    ObjectKey("source", "text"),
    ObjectKey("time", "integer"),
    ObjectKey("op", "text", False),
    ObjectKey("delete", "boolean", False),
)
PLAIN = [
    b'{"source": "a", "time": 1}', b'{"time":-20,"source":"a longer name, of no end","op":"-"}',
    b'{ "op" : null,\t"source": "", "time": 0, "more": true, "and": false , "z": null, "n": -5, "t": "x y" }',
    '{"source": "é😀", "time": 999999999999999999}'.encode(), b'{"source": "12345678", "time": -0}',
    b'{"source": "{}:,", "time": 7, "sourc": "x", "sourcee": 8}',
    b'{"source": "a", "time": 1, "delete": true}', b'{"delete":false , "source": "a", "time": 1}',
    b'{"source": "a", "delete": "true", "time": 1}', b'{"source": "a", "time": 1, "delete": "0"}',
    b'{"source": "a", "time": 1, "delete": null}', b'{"source": "a", "time": 1, "delete": "1" , "op": null}',
    b'{"a": 1.5, "b": -0.25e-3,"source": "a","c":0E9, "time": 7, "d": 12e+4 , "e": -7.0}',
]  # fmt: skip
OTHERS = [
    b"", b"{}", b" {}", b"[1]", b"nonsense", b'{"source": "a"}', b'{"source": "a", "time": 1} ',
    b'{"source": "a", "time": 1',
    b'{"source": "a", "time": 1.5}', b'{"source": "a", "time": 1e3}', b'{"source": "a", "time": "1"}',
    b'{"source": 1, "time": 1}', b'{"source": null, "time": 1}', b'{"source": "a", "time": 01}',
    b'{"source": "a", "time": +1}', b'{"source": "a", "time": -}', b'{"source": "a", "time": 9223372036854775808}',
    b'{"source": "\\u0061", "time": 1}', b'{"source": "a\tb", "time": 1}', b'{"source": "a", "time": 1, "source": "b"}',
    b'{"source": "a", "time": 1, "op": null, "op": "-"}', b'{"source": "a", "time": 1,}', b'{"source": "a" "time": 1}',
    b'{"source": "a", "time": 1, "delete": 1}', b'{"source": "a", "time": 1, "delete": "t"}',
    b'{"source": "a", "time": 1, "delete": truee}', b'{"source": "a", "time": 1, "delete": "true}',
    b'{"source": "a", "time": 1, "delete": "11"}', b'{"source": "a", "time": 1, "delete": ""}',
    b'{"source": "a", "time": 1, "x": [1]}', b'{"source": "a", "time": 1, "x": tru}',
    b'{"source": "a", "time": 1, "x": nulll}', b'{"source": "a", "time": 1, "x": 1.}',
    b'{"source": "a", "time": 1, "x": .5}', b'{"source": "a", "time": 1, "x": 1e}', b'{"source": "a", "time": 1, "x": 1e+}',
    b'{"source": "a", "time": 1, "x": 01.5}', b'{"source": "a", "time": 1, "x": 1.5.5}',
    b'{"source": "a", "time": 1, "x": NaN}',
    b'{"source": "a", "time": 1}}', b'{"source": "a", "time": 1}{"source": "a", "time": 1}', b'{source: "a", "time": 1}',
    b'{"\\u0073ource": "a", "time": 1}', b'{"source"; "a", "time": 1}', b'{"source": \'a\', "time": 1}', b'{"source',
    b'{"source": "a", "time": 1, "x\\"": 2}', b'\xef\xbb\xbf{"source": "a", "time": 1}',
]  # fmt: skip


def exact(line: bytes) -> tuple:
    found = json.loads(line)
    deletes = {"true": True, "1": True, "false": False, "0": False}
    return found["source"], found["time"], found.get("op"), deletes.get(found.get("delete"), found.get("delete"))


def read(lines: list[bytes]) -> list[tuple] | None:
    columns = read_flat_objects(b"\n".join(lines) + b"\n", KEYS)
    return None if columns is None else list(zip(*(column.to_pylist() for column in columns), strict=True))


@given(st.lists(st.sampled_from(PLAIN), min_size=1, max_size=30))
def test_plain_objects_are_what_python_reads(lines) -> None:
    assert read(lines) == [exact(line) for line in lines]
    without_end = read_flat_objects(b"\n".join(lines), KEYS)
    assert [column.to_pylist() for column in without_end] == [list(column) for column in zip(*read(lines), strict=True)]


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("place", [1])
def test_one_that_is_not_plain_leaves_all_to_others(other, place) -> None:
    lines = [PLAIN[0]] * 3
    lines.insert(place, other)
    assert read(lines) is None


SPECIAL = b'{}":,\\ \t\n\r0-9.eEnulltrue\x00\x1f\x7f\x80\xff[]'


@given(
    lines=st.lists(st.sampled_from(PLAIN), min_size=1, max_size=4),
    place=st.integers(0, 10_000),
    byte=st.sampled_from(SPECIAL),
    how=st.sampled_from(["replace", "insert", "remove"]),
)
@example(lines=[PLAIN[0]] * 2, place=26, byte=ord("\n"), how="replace")
def test_what_is_read_of_damaged_lines_is_what_they_say(lines, place, byte, how) -> None:
    data = bytearray(b"\n".join(lines) + b"\n")
    place %= len(data)
    data[place : place + (how != "insert")] = b"" if how == "remove" else bytes([byte])
    columns = read_flat_objects(bytes(data), KEYS)
    if columns is None:
        return
    damaged = bytes(data).removesuffix(b"\n").split(b"\n")
    layout = JsonLayout(names=ColumnNames.parse("timestamp=time,target=source", label="x"))
    assert {len(column) for column in columns} == {len(damaged)}
    for number, line in enumerate(damaged):
        source, time, op, delete = (column[number] for column in columns)
        try:
            text = source.as_py()
        except UnicodeDecodeError:
            continue  # it is looked at by whoever asks for text
        if not text or (op.is_valid and op.as_py() not in ("+", "-")):
            continue  # no such name, no such operation: it was read well all the same
        if op.is_valid and delete.is_valid:
            continue  # both at once are refused elsewhere
        try:
            found = layout.read(line)
        except FieldError as error:
            raise AssertionError(f"{line!r} was read, but {error}") from error
        is_delete = op.as_py() == "-" or delete.as_py() is True
        assert (found["target"], found["timestamp"], found["delete"]) == (text, time.as_py(), is_delete)


def test_keys_that_cannot_stand_there_plainly_are_left_to_others() -> None:
    assert read_flat_objects(b'{"a\\"": "x"}', [ObjectKey('a"', "text")]) is None
    assert read_flat_objects(b'{"a\\"": "x"}', [ObjectKey('a\\"', "text")]) is None
    assert read_flat_objects(b'{"a": "x"}', [ObjectKey("a", "text"), ObjectKey("a", "text")]) is None
    assert read_flat_objects(b"", [ObjectKey("a", "text")]) is None
    assert read_flat_objects('{"é": "x"}'.encode(), [ObjectKey("é", "text")])[0].to_pylist() == ["x"]


def test_objects_of_many_keys_in_changing_orders() -> None:
    keys = [ObjectKey(f"k{number}", "text" if number % 2 else "integer", number % 2 == 0) for number in range(20)]
    objects = [
        {f"k{number}": f"v{row}" if number % 2 else row for number in sorted(range(20), key=lambda one: one * row % 21)}
        | {f"other {number}": number for number in range(row)}
        for row in range(1, 60)
    ]
    found = read_flat_objects("\n".join(map(json.dumps, objects)).encode(), keys)
    for key, column in zip(keys, found, strict=True):
        assert column.to_pylist() == [one[key.name] for one in objects]
