"""JSON lines: columns by name, exact places of errors, and a quick way that gives what the exact way gives.

semantics.md S13
"""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpq.errors import InputError
from rpq.readers import ColumnNames, open_reader
from rpq.readers.source import LineBlock
from rpq.readers.text.jsonlines import JsonLayout, JsonLines, parse_exact
from tests.twins import examples

FIRST = {"source": "a", "target": "b", "label": "x", "timestamp": 1}


def lines(*objects: object) -> str:
    return "".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in objects)


@pytest.fixture
def opened(tmp_path):
    def open_text(text: str | bytes, format: str = "jsonl", **options):
        path = tmp_path / "stream.jsonl"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return open_reader(format, path, **options)

    return open_text


def rows(reader) -> list[dict]:
    return [row for batch in reader for row in batch.columns.to_pylist()]


@pytest.mark.parametrize("format", ["jsonl", "edges"])
def test_objects_are_tuples(opened, format):
    text = lines(FIRST, {**FIRST, "op": "-", "other": {"deep": [1]}}, "", {**FIRST, "op": None, "timestamp": -3})
    assert rows(opened(text, format)) == [
        {**FIRST, "delete": False},
        {**FIRST, "delete": True},
        {**FIRST, "timestamp": -3, "delete": False},
    ]


def test_a_whole_number_may_be_written_with_an_exponent_or_a_fraction(opened):
    text = lines({**FIRST, "timestamp": 100}, {**FIRST, "timestamp": 7}, {**FIRST, "timestamp": 3.0}).replace("100", "1e2")
    assert [row["timestamp"] for row in rows(opened(text))] == [100, 7, 3]


def test_vertices_may_be_integers_and_then_are_all_integers(opened):
    integers = {**FIRST, "source": 7, "target": 2**60}
    (batch,) = opened(lines(integers, {**integers, "target": -1}))
    assert batch.columns.schema.field("source").type == pa.int64()
    assert batch.columns["target"].to_pylist() == [2**60, -1]
    with pytest.raises(InputError, match=r"column 'source': \"a\" is not an integer; expected .* earlier objects"):
        rows(opened(lines(integers, FIRST)))


def test_files_with_text_and_with_integers_do_not_go_together(tmp_path):
    (tmp_path / "one").write_text(lines({**FIRST, "source": 1, "target": 2}))
    (tmp_path / "two").write_text("a b x 1\n")
    with pytest.raises(InputError, match="vertices are text, but integers in"):
        open_reader("edges", [tmp_path / "one", tmp_path / "two"])


@pytest.mark.parametrize(
    ("bad", "column", "message"),
    [
        ('{"source": "a", ', None, "is not JSON: .* at character 17"),
        ("[1, 2]", None, r"\[1, 2\] is not an object"),
        ({**FIRST, "source": None}, "source", "is null; expected a value"),
        ({"source": "a", "target": "b", "timestamp": 1}, "label", "is missing; found 'source', 'target'"),
        ({**FIRST, "source": 5}, "source", "5 is not text; expected a name in quotes"),
        ({**FIRST, "source": ""}, "source", "is empty"),
        ({**FIRST, "label": True}, "label", "true is not text"),
        ({**FIRST, "timestamp": "3"}, "timestamp", "is not an integer"),
        ({**FIRST, "timestamp": 3.5}, "timestamp", "3.5 is not an integer"),
        ({**FIRST, "timestamp": 1e18}, "timestamp", "is not an integer"),
        ({**FIRST, "timestamp": True}, "timestamp", "true is not an integer"),
        ({**FIRST, "timestamp": 2**63}, "timestamp", "does not fit 64 bits"),
        ({**FIRST, "op": "insert"}, "op", "is not an operation"),
        ('{"source":"a","source":"b","target":"b","label":"x","timestamp":1}', "source", "twice"),
        ('{"source":"\\ud800","target":"b","label":"x","timestamp":1}', "source", "is not UTF-8"),
        (b'{"source":"\xff","target":"b","label":"x","timestamp":1}', "source", "is not UTF-8"),
        ("[" * 100_000, None, "cannot be read as JSON: its values are nested too deeply"),
        ('{"source":"a","target":"b","label":"x","timestamp":' + "9" * 5000 + "}", None, "a number has thousands of digits"),
        ('{"source": "a",\n"target": "b", "label": "x", "timestamp": 1}', None, "is not JSON"),
    ],
)
def test_a_bad_line_is_placed_and_everything_before_it_is_delivered(opened, bad, column, message):
    bad = bad if isinstance(bad, bytes) else (bad if isinstance(bad, str) else json.dumps(bad)).encode()
    text = lines(FIRST, FIRST).encode() + b"\n" + bad + b"\n" + lines({**FIRST, "timestamp": 9}).encode()
    delivered = []
    with pytest.raises(InputError, match=message) as caught:
        for batch in opened(text):
            delivered += batch.columns["timestamp"].to_pylist()
    assert delivered == [1, 1]
    assert (caught.value.line, caught.value.column) == (4, column)
    reader = opened(text, on_error="skip")
    assert [row["timestamp"] for row in rows(reader)] == [1, 1, 9]
    assert reader.rejected == 1 + (b"\n" in bad)


def test_times_and_names(opened):
    text = lines(
        {"user": "a", "item": "b", "ts": "2024-05-01T12:00:00Z"}, {"user": "a", "item": "b", "ts": "2024-05-01T12:00:01Z"}
    )
    columns = ColumnNames.parse("source=user,target=item,timestamp=ts", label="x")
    reader = opened(text, columns=columns, time_unit="s")
    assert reader.time_unit == "s"
    assert [row["timestamp"] for row in rows(reader)] == [1714564800, 1714564801]
    with pytest.raises(InputError, match=":2: column 'ts': 5 is not a time"):
        rows(opened(lines(json.loads(text.splitlines()[0]), {"user": "a", "item": "b", "ts": 5}), columns=columns))


NAMES = ["a", "", "é", "\u2028", 'q"', "\\", "😀", "2024-01-01"]
values = st.sampled_from([*NAMES, None, 0, 1, -1, 2**63, 2.5, True, [], {"a": 1}])
objects = st.fixed_dictionaries(
    {
        "source": st.sampled_from(NAMES),
        "target": st.sampled_from(NAMES),
        "label": st.sampled_from("xyz"),
        "timestamp": st.integers(-5, 5),
    },
    optional={
        "op": st.sampled_from(["+", "-", None, None, "?"]),
        "delete": st.sampled_from([True, False, True, False, None, "true", "FALSE", " 1", "0", "t", 1]),
        "w": values,
        "z": values,
    },
)


@examples(1000)
@given(
    found=st.lists(objects, min_size=1, max_size=6),
    ascii_only=st.booleans(),
    end=st.sampled_from(["\n", "\r\n", "\n\n", " \n", "}{\n"]),
    further=st.sampled_from([(), ("w",), ("w", "z")]),
)
def test_what_the_quick_way_accepts_the_exact_way_reads_the_same(found, ascii_only, end, further):
    data = "".join(json.dumps(one, ensure_ascii=ascii_only) + end for one in found).encode()
    layout = JsonLayout(names=ColumnNames(), further=further)
    quick = JsonLines(layout)._parse_plain(data)
    if quick is not None:
        exact = parse_exact(LineBlock(data, 1), layout, stop=False)
        assert exact.errors == []
        assert exact.data_lines == quick.data_lines == len(quick)
        assert ("delete" in quick.columns) == ("delete" in exact.columns)
        for name, column in exact.columns.items():
            if not name.startswith("="):
                assert quick.columns[name].to_pylist() == column.to_pylist()


@pytest.mark.parametrize(
    ("name", "pair"), [("w", [1, 2.5]), ("w", [None, 3]), ("delete", [True, False]), ("delete", ["true", "0"])]
)
def test_ordinary_lines_take_the_quick_way(name, pair):
    parser = JsonLines(JsonLayout(names=ColumnNames(), further=("w",)))
    assert parser._parse_plain(lines(*({**FIRST, name: value} for value in pair)).encode()) is not None


def test_where_blocks_are_cut_does_not_matter(opened):
    text = lines(
        *({**FIRST, "source": f"v{number}", "timestamp": number} if number % 50 else "bad" for number in range(1, 500))
    )
    found = []
    for batch_rows in (3, 1 << 17):
        reader = opened(text, on_error="skip", batch_rows=batch_rows)
        found.append((rows(reader), reader.rejected, reader.rejections))
    assert found[0] == found[1]
    assert found[0][1] == 9
    assert np.all([":50: is not JSON" in found[0][2][0]])
