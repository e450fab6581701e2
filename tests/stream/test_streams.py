"""Tuples that carry the name of a stream: all queries read the merged stream, in which names play no part.

patterns.md 2.4
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

import rpq
from rpq.readers import ColumnNames, WhereError, open_reader, parse_where

W = rpq.Window(size=10, slide=1)
ROWS = {"source": ["x", "y", "x"], "target": ["y", "z", "y"], "label": ["a", "b", "a"], "timestamp": [1, 2, 3]}
OPS = {**ROWS, "op": ["+", "+", "-"]}
NAMES = ["one", None, "two"]


def engine() -> rpq.Engine:
    return rpq.Engine(rpq.Query("?x a ?y . ?y b ?z", window=W), rpq.Query("a/b", window=W))


WANTED = engine().push(OPS).rows()


@pytest.mark.parametrize(
    "names",
    [
        NAMES,
        pa.array(NAMES),
        pa.array(NAMES).dictionary_encode(),
        pd.Series(NAMES),
        pd.Series(NAMES, dtype="category"),
        [None, float("nan"), pd.NA],
        pa.nulls(3),
        ["", "", "s"],
        pa.array(["", "", "s"]),
    ],
    ids=lambda names: type(names).__name__,
)
def test_names_of_streams_play_no_part(names: Any) -> None:
    assert len(WANTED) == 4  # one edge, which the delete of another stream takes away
    assert engine().push(**OPS, stream=names).rows() == WANTED
    assert engine().push({**OPS, "stream": names}).rows() == WANTED
    one_by_one = engine()
    found = []
    for row in range(3):
        single = {name: [values[row]] for name, values in OPS.items()}
        found += one_by_one.push(single, stream="one").rows()
    assert found == WANTED


def test_a_whole_batch_may_be_of_one_stream() -> None:
    for data in (OPS, pa.table(OPS), pa.record_batch(OPS), pd.DataFrame(OPS), pl.DataFrame(OPS)):
        assert engine().push(data, stream="answers").rows() == WANTED
    assert engine().push(**OPS, stream="answers").rows() == WANTED
    assert engine().push(pa.table({**OPS, "stream": NAMES})).rows() == WANTED


@pytest.mark.parametrize(
    ("data", "options", "row", "message"),
    [
        ({**OPS, "stream": ["one", 5, "two"]}, {}, 1, "row 1: column 'stream': 5 is of type int; the names of streams"),
        ({**OPS, "stream": ["one", None, "\ud800"]}, {}, 2, "row 2: column 'stream': .* lone surrogate"),
        ({**OPS, "stream": pa.array([1, 2, 3])}, {}, None, "column 'stream' is of type int64; the names of streams"),
        ({**OPS, "stream": ["one"]}, {}, None, "the columns are of different lengths"),
        ({**OPS, "stream": NAMES}, {"stream": "one"}, None, "have a column 'stream', and stream names one for all"),
        (OPS, {"stream": 5}, None, "a stream is named by text: 5 is of type int"),
        (OPS, {"stream": ["one"]}, None, "a stream is named by text"),
    ],
)
def test_what_is_no_name_is_refused(data: Any, options: Any, row: int | None, message: str) -> None:
    pushed = engine()
    with pytest.raises(rpq.InputError, match=message) as caught:
        pushed.push(data, **options)
    assert caught.value.row == row
    assert caught.value.changes.rows() == [one for one in WANTED if row is not None and one.timestamp <= row]
    rest = {name: values[row or 0 :] for name, values in OPS.items()}
    assert [*caught.value.changes.rows(), *pushed.push(rest).rows()] == WANTED


# --- files ------------------------------------------------------------------------------------------------------------


def read(*paths: Path, **options: Any) -> list[dict[str, Any]]:
    return [row for batch in open_reader("edges", map(str, paths), **options) for row in batch.columns.to_pylist()]


@pytest.fixture(params=["csv", "jsonl with a bad line", "parquet", "quoted.csv"])
def with_streams(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A file whose three tuples have the streams one, none and two, whichever way blocks of it are read."""
    kind = request.param.partition(" ")[0]
    path = tmp_path / f"edges.{kind}"
    table = pa.table({**ROWS, "stream": NAMES})
    match kind:
        case "parquet":
            pa.parquet.write_table(table, path)
        case "jsonl":
            lines = [pd.Series(row).to_json() for row in table.to_pylist()]
            path.write_text("\n".join([*lines, *(["{}"] if request.param != kind else [])]) + "\n")
        case "csv" | "tsv":
            table.to_pandas().to_csv(path, index=False, sep="," if kind == "csv" else "\t")
        case _:
            path.write_text('stream,source,target,label,timestamp\n"one",x,y,a,1\n"",y,z,b,2\n"two",x,y,a,"3"\n')
    return path


def test_a_column_of_streams_is_read(with_streams: Path, tmp_path: Path) -> None:
    rows = pa.table({**ROWS, "stream": NAMES}).to_pylist()
    without = {name: value for name, value in rows[1].items() if name != "stream"}  # where no tuple of a batch has one
    assert read(with_streams, on_error="skip") == rows
    assert read(with_streams, on_error="skip", where=parse_where("stream == 'two'")) == rows[2:]
    assert read(with_streams, on_error="skip", where=parse_where("stream is null")) in ([rows[1]], [without])
    plain = tmp_path / "plain.txt"
    plain.write_text("u v a 2\n")
    merged = read(with_streams, plain, on_error="skip")
    assert [row["stream"] for row in merged] == ["one", None, None, "two"]
    with pytest.raises(rpq.InputError, match="has a column 'stream', but the input is assigned to the stream 's'"):
        read(with_streams, on_error="skip", streams=["s"])


def test_a_column_of_streams_may_have_another_name(tmp_path: Path) -> None:
    path = tmp_path / "edges.csv"
    path.write_text("source,target,label,timestamp,stream,feed\nx,y,a,1,one,\nx,y,a,2,,two\n")
    assert [row.get("stream") for row in read(path, columns=ColumnNames.parse("stream=feed"))] == [None, "two"]
    with pytest.raises(rpq.InputError, match="'strem' is not a column of a tuple: .*did you mean 'stream'?"):
        ColumnNames.parse("strem=feed")


def test_without_a_header_there_are_no_streams(tmp_path: Path) -> None:
    path = tmp_path / "edges.txt"
    path.write_text("x y a 1\n")
    assert read(path) == [{"source": "x", "target": "y", "label": "a", "timestamp": 1}]
    with pytest.raises(WhereError, match="unknown column 'stream'"):
        read(path, where=parse_where("stream == 'one'"))
    assert [row.get("stream") for row in read(path, path, streams=["s", None])] == ["s", None]
    with pytest.raises(rpq.InputError, match="there are 1 inputs, but streams for 2"):
        read(path, streams=["s", None])
    with pytest.raises(rpq.InputError, match="the format yago has no streams; the names of streams can be set for edges"):
        open_reader("yago", [str(path)], streams=["s"])


def test_a_stream_that_is_no_text_is_a_bad_line(tmp_path: Path) -> None:
    path = tmp_path / "edges.jsonl"
    path.write_text('{"source": "x", "target": "y", "label": "a", "timestamp": 1, "stream": 5}\n')
    with pytest.raises(rpq.InputError, match=r"edges.jsonl:1: column 'stream': 5 is not text"):
        read(path)
    path = tmp_path / "edges.parquet"
    pa.parquet.write_table(pa.table({**ROWS, "stream": [1, 2, 3]}), path)
    with pytest.raises(rpq.InputError, match="column 'stream' has the type int64; expected text"):
        read(path)


def test_edges_without_time_need_no_timestamps(tmp_path: Path) -> None:
    edges = {"source": "x", "target": "y", "label": "a"}
    for name, text in (
        ("three.txt", "x y a\n"),
        ("four.txt", "x y a soon\n"),
        ("five.txt", "x y a 1 +\n"),
        ("header.csv", "label,target,source\na,y,x\n"),
        ("times.csv", "label,timestamp,target,source\na,soon,y,x\n"),
        ("lines.jsonl", '{"source": "x", "target": "y", "label": "a", "timestamp": "soon"}\n'),
    ):
        path = tmp_path / name
        path.write_text(text)
        (row,) = read(path, columns=ColumnNames(timed=False))
        assert {key: row[key] for key in edges} == edges, name
    (tmp_path / "two.txt").write_text("x y\n")
    with pytest.raises(rpq.InputError, match="expected source, target, label"):
        read(tmp_path / "two.txt", columns=ColumnNames(timed=False))
