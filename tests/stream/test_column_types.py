"""Columns of tuples in every layout that Arrow has: text, numbers and truth are taken at every door, the rest refused.

semantics.md S12, S13
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet as pq

import rpq
from rpq.readers import WhereError, open_reader, parse_where
from rpq.stream.arrays.plain_columns import plain, plain_type

LONG = "a name of more than twelve bytes"
TUPLES = {
    "source": ["x", LONG, LONG, "x"],
    "target": [LONG, "z", "z", LONG],
    "label": ["a", "a", "a", "a"],
    "timestamp": [1, 2, 3, 4],
}
OPS = ["+", "+", "-", "+"]
ROWS = [
    ("q", "x", LONG, 1, "+"),
    ("q", LONG, "z", 2, "+"),
    ("q", "x", "z", 2, "+"),
    ("q", LONG, "z", 3, "-"),
    ("q", "x", "z", 3, "-"),
]


class Word(pa.ExtensionType):
    """Text of somebody's own type."""

    def __init__(self) -> None:
        super().__init__(pa.string_view(), "tests.word")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> Word:
        return cls()


def of_runs(values: pa.Array, *, index: pa.DataType | None = None) -> pa.Array:
    """A run-end-encoded array, cut at both ends; a run a value."""
    around = pa.concat_arrays([values[:1], values, values[-1:]])
    ends = pa.array(range(1, len(around) + 1), index or pa.int32())
    return pa.RunEndEncodedArray.from_arrays(ends, around)[1:-1]


def coded(values: pa.Array, index: pa.DataType) -> pa.Array:
    """A dictionary array, of whose dictionary the last entry is used by nobody."""
    words = list(dict.fromkeys(values.to_pylist()))
    dictionary = pa.array([*words, words[0]], values.type)
    return pa.DictionaryArray.from_arrays(pa.array([words.index(one) for one in values.to_pylist()], index), dictionary)


def with_a_byte_behind_offsets(values: pa.Array) -> pa.Array:
    """The same texts, the buffer of whose offsets is no multiple of an offset in size."""
    valid, offsets, data = values.buffers()
    longer = pa.py_buffer(offsets.to_pybytes()[: 4 * len(values) + 4] + b"x")
    return pa.Array.from_buffers(values.type, len(values), [valid, longer, data])


Layout = Callable[[list[Any]], pa.Array | pa.ChunkedArray]
TEXTS: dict[str, Layout] = {
    "string": pa.array,
    "string with a byte behind its offsets": lambda values: with_a_byte_behind_offsets(pa.array(values, pa.string())),
    "large": lambda values: pa.array(values, pa.large_string()),
    "view in chunks": lambda values: pa.chunked_array([values[:1], [], values[1:]], pa.string_view()),
    "dictionary of int8": lambda values: coded(pa.array(values), pa.int8()),
    "dictionary of views": lambda values: coded(pa.array(values, pa.string_view()), pa.uint32()),
    "dictionaries in chunks": lambda values: pa.chunked_array([coded(pa.array([one]), pa.int32()) for one in values]),
    "runs of a dictionary": lambda values: of_runs(coded(pa.array(values), pa.int32()), index=pa.int64()),
    "json": lambda values: pa.ExtensionArray.from_storage(pa.json_(pa.string()), pa.array(values)),
    "own type": lambda values: pa.ExtensionArray.from_storage(Word(), pa.array(values, pa.string_view())),
}
if not hasattr(pa, "json_"):  # older than Arrow 19
    del TEXTS["json"]
TRUTHS: dict[str, Layout] = {
    "bool": pa.array,
    "dictionary": lambda values: coded(pa.array(values), pa.int8()),
    "runs": lambda values: of_runs(pa.array(values)),
    "bool8": lambda values: pa.ExtensionArray.from_storage(pa.bool8(), pa.array(list(map(int, values)), pa.int8())),
}
NUMBERS: dict[str, Layout] = {
    "int8": lambda values: pa.array(values, pa.int8()),
    "uint64": lambda values: pa.array(values, pa.uint64()),
    "dictionary": lambda values: coded(pa.array(values, pa.int32()), pa.uint8()),
    "runs": lambda values: of_runs(pa.array(values, pa.int64())),
    "opaque": lambda values: pa.ExtensionArray.from_storage(
        pa.opaque(pa.int16(), "number", "maker"), pa.array(values, pa.int16())
    ),
}
UNFIT: dict[str, pa.Array] = {
    "binary_view": pa.array([b"x"] * 4, pa.binary_view()),
    "uuid": pa.array([b"x" * 16] * 4, pa.uuid()),
    "double": pa.array([1.0] * 4),
    "decimal128": pa.array([Decimal(1)] * 4, pa.decimal128(5)),
    "list<": pa.array([["x"]] * 4),
    "list_view": pa.array([["x"]] * 4, pa.list_view(pa.string())),
    "duration": pa.array([1] * 4, pa.duration("s")),
    "dictionary<values=double": pa.array([1.0] * 4).dictionary_encode(),
    "run_end_encoded": of_runs(pa.array([1.0] * 4)),
}


def engine(**options: Any) -> rpq.Engine:
    return rpq.Engine(rpq.Query("a+", window=rpq.Window(size=10, slide=1), name="q"), **options)


@pytest.mark.parametrize("column", ["source", "label", "op"])
@pytest.mark.parametrize("layout", TEXTS)
def test_text_in_any_layout(layout: str, column: str) -> None:
    given = {**TUPLES, "op": OPS, "stream": ["s"] * 4}
    table = pa.table({**given, column: TEXTS[layout](given[column])})
    assert engine().push(table).rows() == ROWS
    one_by_one = engine()
    assert [row for at in range(4) for row in one_by_one.push(table.slice(at, 1))] == ROWS
    by_batches = engine()
    assert [row for batch in table.to_batches() for row in by_batches.push(batch)] == ROWS


@pytest.mark.parametrize("layout", TRUTHS)
def test_truth_in_any_layout(layout: str) -> None:
    table = pa.table({**TUPLES, "delete": TRUTHS[layout]([op == "-" for op in OPS])})
    assert engine().push(table).rows() == ROWS


@pytest.mark.parametrize("layout", NUMBERS)
def test_numbers_in_any_layout(layout: str) -> None:
    numbers = {"source": [1, 2], "target": [2, 3], "timestamp": [1, 2]}
    table = pa.table({name: NUMBERS[layout](values) for name, values in numbers.items()} | {"label": ["a", "a"]})
    assert engine().push(table).rows() == [("q", 1, 2, 1, "+"), ("q", 2, 3, 2, "+"), ("q", 1, 3, 2, "+")]


@pytest.mark.parametrize("kind", [pa.timestamp("ms", "UTC"), pa.timestamp("ns"), pa.date32(), pa.date64()], ids=str)
@pytest.mark.parametrize("wrap", [lambda days: days.dictionary_encode(), of_runs], ids=["dictionary", "runs"])
def test_times_in_any_layout(kind: pa.DataType, wrap: Callable[[pa.Array], pa.Array]) -> None:
    day = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    days = pa.array([day + datetime.timedelta(days=n) for n in range(4)], pa.timestamp("s", "UTC")).cast(kind)
    daily = rpq.Query("a+", window=rpq.Window(size="30d", slide="1d"), name="q")
    expected = rpq.Engine(daily).push({**TUPLES, "timestamp": days}).rows()
    assert len(expected) == 3 and rpq.Engine(daily).push({**TUPLES, "timestamp": wrap(days)}).rows() == expected


@pytest.mark.parametrize("column", ["source", "label", "timestamp", "delete"])
@pytest.mark.parametrize("kind", UNFIT)
def test_what_no_column_of_a_tuple_holds_is_refused_by_its_name(kind: str, column: str) -> None:
    running = engine()
    for rows in (4, 1):
        with pytest.raises(rpq.InputError, match=f"column '{column}' is of type .*{kind}") as caught:
            running.push(pa.table({**TUPLES, column: UNFIT[kind]})[:rows])
        assert (caught.value.column, len(caught.value.changes)) == (column, 0)
    assert running.push({**TUPLES, "op": OPS}).rows() == ROWS


@pytest.mark.parametrize(
    ("column", "values", "hint"),
    [
        ("timestamp", 4 * ["2024-05-01T12:00:00Z"], "datetime.fromisoformat"),
        ("timestamp", pa.array(4 * ["2024-05-01T12:00:00Z"]), r"cast\(pyarrow.timestamp"),
        ("source", 4 * [uuid.UUID(int=1)], "str makes text"),
        ("source", pa.array(4 * [16 * b"a"], pa.binary(16)), "cast it to text"),
    ],
)
def test_texts_of_times_and_uuids_get_advice(column: str, values: Any, hint: str) -> None:
    with pytest.raises(rpq.InputError, match=f"column '{column}'.* is of type .*{hint}"):
        engine().push({**TUPLES, column: values})


def test_nothing_at_all_is_of_any_type() -> None:
    for kind in (pa.null(), pa.float64(), pa.string_view(), pa.binary_view(), pa.list_view(pa.string())):
        assert engine().push(pa.table({name: pa.array([], kind) for name in TUPLES})).rows() == []
        missing = {**TUPLES, "target": pa.array([None] * 4, kind)}
        with pytest.raises(rpq.InputError, match="row 0: column 'target': nothing is given"):
            engine().push(missing)


@pytest.mark.parametrize("layout", TEXTS)
def test_missing_and_static_values_in_any_layout(layout: str) -> None:
    if "dictionar" not in layout:  # whose nulls stand among the indices
        with pytest.raises(rpq.InputError, match="row 1: column 'target': nothing is given") as caught:
            engine().push({**TUPLES, "target": TEXTS[layout](["y", None, "z", "w"])})
        assert len(caught.value.changes) == 1
    running = engine()
    running.load_static({name: TEXTS[layout](values[:1]) for name, values in TUPLES.items() if name != "timestamp"})
    assert running.push({name: values[1:2] for name, values in TUPLES.items()}).added == 3


def test_text_that_is_none_in_other_layouts() -> None:
    broken = pa.array([b"\xff"] * 4, pa.binary()).view(pa.string())
    for array in (coded(pa.array(["x"] * 4), pa.int8()), broken):
        bad = array if array is broken else pa.DictionaryArray.from_arrays(array.indices, broken[:2], safe=False)
        with pytest.raises(rpq.InputError, match="column 'source' .*UTF8"):
            engine().push({**TUPLES, "source": bad})


def test_text_that_is_none_in_long_columns() -> None:
    """Long columns of text are checked in another way than short ones."""
    rows = 3_000
    texts = [f"x{number}" for number in range(rows)]
    valid = pa.array(["before", *texts])[1:]  # a slice of a longer array
    columns = {"source": valid, "target": valid, "label": pa.array(["a"] * rows), "timestamp": pa.array(range(rows))}
    assert engine().push(pa.record_batch(columns)).added == rows
    words = pa.array(["ä", *texts[1:]])
    assert engine().push(pa.record_batch({**columns, "source": words})).added == rows
    _, ends, data = pa.array(texts).buffers()
    places = [*memoryview(ends).cast("i")[: rows + 1]]
    places[7] += 900  # before the end of the text that comes before
    unordered = pa.Array.from_buffers(pa.string(), rows, [None, pa.py_buffer(np.array(places, np.int32)), data])
    for bad in (unordered, pa.array([b"x"] * 2_000 + [b"\xff"] * 1_000).view(pa.string())):
        for name in ("source", "target", "label"):
            with pytest.raises(rpq.InputError, match=f"column '{name}' .*cannot be read"):
                engine().push(pa.record_batch({**columns, name: bad}))
    for value, reason in (("", "is empty"), (None, "nothing is given")):
        with pytest.raises(rpq.InputError, match=f"row 2000: column 'target': .*{reason}"):
            engine().push(pa.record_batch({**columns, "target": pa.array([*texts[:2_000], value, *texts[2_001:]])}))


def test_events_that_go_on_in_another_layout() -> None:
    given = {**TUPLES, "event": ["g", "g", "h", "h"]}
    views = pa.table({name: c if name == "timestamp" else pa.array(c, pa.string_view()) for name, c in given.items()})
    coded_label = pa.table({**TUPLES, "label": pa.array(["a"] * 4).dictionary_encode(), "event": ["h", "h", "i", "i"]})
    times = pa.array([5, 6, 7, 8])
    coded_label = coded_label.set_column(3, "timestamp", times)
    running = rpq.Engine(rpq.Query("a+", window=rpq.Window(size=10, slide=1), name="q"), events="window")
    assert len(list(running.run([views, coded_label]))) == 3
    assert running.time == 8


@pytest.mark.parametrize("layout", TEXTS)
def test_plain_once_is_plain_for_good(layout: str) -> None:
    given = TEXTS[layout](["x", "y", "x"])
    array = plain(given)
    assert array.type == plain_type(given.type) and array.to_pylist() == ["x", "y", "x"]
    assert plain(array) is array and plain_type(array.type) == array.type


# --- files ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["arrow", "parquet"])
@pytest.mark.parametrize("layout", TEXTS)
def test_files_of_any_layout(layout: str, suffix: str, tmp_path: Any) -> None:
    given = {**TUPLES, "op": OPS, "stream": ["s"] * 4, "kind": ["k", "l", "k", "k"]}
    table = pa.table({name: values if name == "timestamp" else TEXTS[layout](values) for name, values in given.items()})
    path = str(tmp_path / f"edges.{suffix}")
    try:
        if suffix == "parquet":
            pq.write_table(table, path)
        else:
            with pa.ipc.new_file(path, table.schema) as file:
                file.write_table(table.combine_chunks() if "dictionaries" in layout else table)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as problem:
        pytest.skip(f"Arrow writes no such file: {problem}")
    reader = open_reader("edges", [path], where=parse_where("kind = 'k' or op = '+'"))
    batches = [batch.columns for batch in reader]
    assert all(plain_type(field.type) == field.type for batch in batches for field in batch.schema)
    running = engine()
    assert [row for batch in batches for row in running.push(batch)] == ROWS
    other = open_reader("edges", [path], where=parse_where("starts_with(kind, 'l')"))
    assert [len(batch) for batch in other] == [2]  # a delete passes, whatever the condition says


FILTERED: dict[str, pa.Array] = {
    "double": pa.array([1.5, 2.5, 3.5, 4.5]),
    "runs of double": of_runs(pa.array([1.5, 2.5, 3.5, 4.5])),
    "dictionary of double": pa.array([1.5, 2.5, 3.5, 4.5]).dictionary_encode(),
    "runs of decimals": of_runs(pa.array([Decimal("1.5"), Decimal("2.5"), Decimal("3.5"), Decimal("4.5")])),
    "opaque integers": NUMBERS["opaque"]([1, 2, 3, 4]),
    "uint64": pa.array([1, 2, 3, 2**64 - 1], pa.uint64()),
}


@pytest.mark.parametrize("layout", FILTERED)
def test_filters_on_numbers_of_any_layout(layout: str, tmp_path: Any) -> None:
    truth = [True, True, None, True]
    path = str(tmp_path / "edges.arrow")
    table = pa.table({**TUPLES, "amount": FILTERED[layout], "sure": of_runs(pa.array(truth)), "note": UNFIT["binary_view"]})
    with pa.ipc.new_file(path, table.schema) as file:
        file.write_table(table)
    reader = open_reader("edges", [path], where=parse_where("amount >= 2 and amount < 4 and sure"))
    assert [batch.columns["timestamp"].to_pylist() for batch in reader] == [[2]] and reader.undecided == 1
    with pytest.raises(WhereError, match="'note' has the type binary_view"):
        open_reader("edges", [path], where=parse_where("note = 'x'"))


@pytest.mark.parametrize("kind", ["binary_view", "list_view", "run_end_encoded", "uuid", "double", "decimal128"])
def test_files_with_what_no_column_holds(kind: str, tmp_path: Any) -> None:
    table = pa.table({**TUPLES, "target": UNFIT[kind]})
    with pa.ipc.new_file(str(tmp_path / "edges.arrow"), table.schema) as file:
        file.write_table(table)
    with pytest.raises(rpq.InputError, match=f"column 'target' has the type .*{kind}.*expected integers or text"):
        open_reader("edges", [str(tmp_path / "edges.arrow")])


# --- a server ------------------------------------------------------------------------------------------------
