"""Outputs: what a CSV reader and a Parquet reader get back, and going on after a crash."""

import csv
import gzip
import io
import json
import os
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpq.cli.outputs import sinks
from rpq.files.destinations import BorrowedFile
from rpq.rows.table_formats import JSON_LINES
from tests.twins import examples


def changes(rows, vertex_type=None):
    """A table as the engine hands it over: more columns than an output has, in another order."""
    source, target, timestamp, op, path = zip(*rows) if rows else ((), (), (), (), ())
    vertex_type = vertex_type or pa.string()
    return pa.table(
        {
            "query": pa.array(["q"] * len(rows), pa.string()),
            "path": pa.array(path, pa.string()),
            "target": pa.array(target, vertex_type),
            "source": pa.array(source, vertex_type),
            "timestamp": pa.array(timestamp, pa.int64()),
            "op": pa.array(op, pa.string()),
        }
    )


def numbered(start, end):
    return changes([(f"s{i}", f"t{i}", i, "+", f'["s{i}", "a", "t{i}"]') for i in range(start, end)])


jsons = st.none() | st.text(st.sampled_from('ab"\\/\r\n\t\x00\x1f\x7fé0\u2028'), max_size=5)
texts = st.text(st.sampled_from('ab ,"\r\n\té0'), max_size=5)


@examples(500)
@given(
    st.lists(st.tuples(texts, texts, st.integers(-(2**63), 2**63 - 1), st.sampled_from("+-"), texts), max_size=6),
    st.data(),
)
def test_csv_is_what_a_csv_reader_reads(rows, data):
    start = data.draw(st.integers(0, len(rows)))
    file = io.BytesIO()
    sink = sinks.TextSink(BorrowedFile(file), (*sinks.COLUMNS, "path"))
    sink.write(changes(rows).slice(start))
    sink.close()
    read = list(csv.reader(io.StringIO(file.getvalue().decode(), newline="")))
    assert read[0] == ["source", "target", "timestamp", "op", "path"]
    assert read[1:] == [[source, target, str(time), op, path] for source, target, time, op, path in rows[start:]]


@examples(500)
@given(
    st.lists(st.tuples(jsons, jsons, st.integers(-(2**63), 2**63 - 1), st.sampled_from("+-"), jsons), max_size=6),
    st.data(),
)
def test_json_lines_are_what_a_json_reader_reads(rows, data):
    start = data.draw(st.integers(0, len(rows)))
    file = io.BytesIO()
    sink = sinks.TextSink(BorrowedFile(file), (*sinks.COLUMNS, "path"), lines=JSON_LINES)
    sink.write(changes(rows).slice(start))
    sink.close()
    lines = file.getvalue().decode().split("\n")
    assert lines.pop() == ""
    assert [tuple(json.loads(line).items()) for line in lines] == [
        tuple(zip(("source", "target", "timestamp", "op", "path"), row)) for row in rows[start:]
    ]


def test_csv_reaches_the_file_at_each_write(tmp_path):
    path = tmp_path / "out.csv"
    sink = sinks.open_sink(str(path), grows=True)
    for number in range(2):
        sink.write(numbered(number, number + 1))
        assert path.read_text().splitlines()[-1] == f"s{number},t{number},{number},+"


def test_json_lines_keep_numbers_and_tell_what_is_missing():
    file = io.BytesIO()
    sink = sinks.TextSink(BorrowedFile(file), sinks.COLUMNS, lines=JSON_LINES)
    sink.write(changes([(7, None, 3, "+", "")], pa.int64()))
    assert file.getvalue() == b'{"source": 7, "target": null, "timestamp": 3, "op": "+"}\n'


def test_csv_quotes_only_where_needed():
    file = io.BytesIO()
    sink = sinks.TextSink(BorrowedFile(file), sinks.COLUMNS)
    sink.write(changes([("007", "x y", -1, "+", ""), ("a,b", 'say "hi"', 2, "-", "")]))
    sink.write(changes([(7, 8, 3, "+", "")], pa.int64()))
    assert file.getvalue().decode() == 'source,target,timestamp,op\n007,x y,-1,+\n"a,b","say ""hi""",2,-\n7,8,3,+\n'


@pytest.mark.parametrize("vertex_type", [pa.int64(), pa.string()])
def test_parquet_keeps_types_and_makes_row_groups(tmp_path, vertex_type):
    path = str(tmp_path / "out.parquet")
    sink = sinks.ParquetSink(path, sinks.COLUMNS, row_group_rows=10)
    vertices = [1, 2] if vertex_type == pa.int64() else ["1", "2"]
    for time in range(12):
        sink.write(changes([(*vertices, time, "+", ""), (*vertices, time, "-", "")], vertex_type))
    assert not os.path.exists(path)  # never half a file
    sink.close()
    assert os.listdir(tmp_path) == ["out.parquet"]
    read = pq.ParquetFile(path)
    assert read.metadata.num_row_groups == 3
    assert read.schema_arrow.types == [vertex_type, vertex_type, pa.int64(), pa.string()]
    assert read.read()["timestamp"].to_pylist() == [time for time in range(12) for _ in range(2)]


@pytest.mark.parametrize("name", ["out", "out.txt", "out.csv.bz2", "csv", "out.gz"])
def test_another_ending_is_refused(tmp_path, name):
    with pytest.raises(sinks.SinkError, match=r"expected a name that ends in \.csv, \.parquet"):
        sinks.open_sink(str(tmp_path / name))


def test_a_folder_that_is_missing_is_said(tmp_path):
    for name in ("out.csv", "out.parquet"):
        with pytest.raises(sinks.SinkError, match="cannot be written"):
            sinks.open_sink(str(tmp_path / "nowhere" / name))


def unpacked(path):
    data = Path(path).read_bytes()
    if path.endswith(".gz"):
        data = gzip.decompress(data)
    if path.endswith(".zst"):
        data = pa.CompressedInputStream(io.BytesIO(data), "zstd").read()
    return data.decode()


def term(written):
    """The text of a vertex that is no term of RDF, as outputs of RDF write it."""
    return re.fullmatch("<urn:rpq:text:(.*)>", written)[1]


def read_rows(path):
    if path.endswith(".parquet"):
        return pq.read_table(path)["source"].to_pylist()
    if ".tsv" in path:
        assert unpacked(path).startswith("?source\t?target\t?timestamp\t?op\n")
        return [term(line.split("\t")[0]) for line in unpacked(path).splitlines()[1:]]
    if ".nq" in path:
        return [term(line.split(" ")[0]) for line in unpacked(path).splitlines()]
    if ".srjl" in path:
        return [term(f"<{json.loads(line)['source']['value']}>") for line in unpacked(path).splitlines()]
    if path.endswith(".srj"):
        bindings = json.loads(unpacked(path))["results"]["bindings"]
        return [term(f"<{binding['source']['value']}>") for binding in bindings]
    if ".jsonl" in path:
        return [json.loads(line)["source"] for line in unpacked(path).splitlines()]
    return [row["source"] for row in csv.DictReader(io.StringIO(unpacked(path), newline=""))]


@pytest.mark.parametrize("name", [f"out{ending}" for ending in sinks.ENDINGS])
@pytest.mark.parametrize("closed", [False, True], ids=["killed", "closed"])
def test_going_on_cuts_what_was_written_after_the_commit(tmp_path, name, closed):
    """0 … 5 | commit | 5 … 8 | killed or closed; going on behind the commit with 10 … 12, and again"""
    path = str(tmp_path / name)
    sink = sinks.open_sink(path, resumable=True)
    sink.write(numbered(0, 3))
    sink.write(numbered(3, 5))
    position = sink.position()
    sink.write(numbered(5, 8))
    if closed:
        sink.close()
        assert read_rows(path) == [f"s{i}" for i in range(8)]
    else:
        sink.position()  # on disk, but nobody remembered
        del sink
    again = sinks.open_sink(path, resumable=True, position=position)
    again.write(numbered(10, 12))
    position = again.position()
    again.close()
    assert read_rows(path) == ["s0", "s1", "s2", "s3", "s4", "s10", "s11"]
    once_more = sinks.open_sink(path, resumable=True, position=position)
    once_more.write(numbered(20, 21))
    once_more.close()
    assert read_rows(path) == ["s0", "s1", "s2", "s3", "s4", "s10", "s11", "s20"]
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("name", [f"out{ending}" for ending in sinks.ENDINGS])
def test_going_on_without_the_old_output_is_refused(tmp_path, name):
    path = str(tmp_path / name)
    sink = sinks.open_sink(path, resumable=True)
    sink.write(numbered(0, 5))
    position = sink.position()
    sink.close()
    with pytest.raises(sinks.SinkError, match="was changed"):
        sinks.open_sink(path, resumable=True, position=position + 1)
    os.remove(path)
    with pytest.raises(sinks.SinkError, match="is missing"):
        sinks.open_sink(path, resumable=True, position=position)


class Kinds(tuple):
    """Columns that tell what their values are."""

    kinds = ("vertex", "count", "text")


@pytest.mark.parametrize("ending", [".tsv", ".srjl", ".csv"])
def test_what_was_computed_is_a_literal_and_no_vertex(tmp_path, ending):
    path = str(tmp_path / f"out{ending}")
    sink = sinks.open_sink(path, Kinds(("g", "n", "mean")))
    rows = pa.table({"g": ["bob", None], "n": [2, 1], "mean": ["2.5", None], "timestamp": [7, 8], "op": ["+", "-"]})
    sink.write(pa.concat_tables([rows.slice(0, 0), rows.slice(0, 1), rows.slice(1, 0), rows.slice(1)]))
    sink.close()
    integer = {"type": "literal", "datatype": "http://www.w3.org/2001/XMLSchema#integer"}
    if ending == ".srjl":
        assert [json.loads(line) for line in unpacked(path).splitlines()] == [
            {
                "g": {"type": "uri", "value": "urn:rpq:text:bob"},
                "n": integer | {"value": "2"},
                "mean": {"type": "literal", "value": "2.5"},
                "timestamp": integer | {"value": "7"},
                "op": {"type": "literal", "value": "+"},
            },
            {"n": integer | {"value": "1"}, "timestamp": integer | {"value": "8"}, "op": {"type": "literal", "value": "-"}},
        ]
    else:
        lines = {
            ".tsv": ['<urn:rpq:text:bob>\t2\t"2.5"\t7\t"+"', '\t1\t\t8\t"-"'],
            ".csv": ["bob,2,2.5,7,+", ",1,,8,-"],
        }
        assert unpacked(path).splitlines()[1:] == lines[ending]


def test_rows_that_are_no_triples_are_left_out_of_n_quads(tmp_path):
    path = str(tmp_path / "out.nq")
    sink = sinks.open_sink(path, ("subject", "predicate", "object"))
    names = ("subject", "predicate", "object")
    rows = [("a:s", "a:p", '"x"@fr'), ('"x"', "a:p", "a:o"), ("a:s", '"p"', "a:o"), ("a:s", "_:p", "a:o")]
    rows.append(("_:s", "a:p", None))
    columns = {name: pa.array(values, pa.string()) for name, values in zip(names, zip(*rows))}
    rest = {"timestamp": [1] * len(rows), "op": ["="] * len(rows), "query": ["q"] * len(rows)}
    sink.write(pa.table(columns | rest))
    count = {"subject": ["a:s"], "predicate": ["a:count"], "object": [7]}
    sink.write(pa.table({**count, "timestamp": [-2], "op": ["-"], "query": ["q"]}))
    sink.close()
    assert unpacked(path).splitlines() == [
        '<a:s> <a:p> "x"@fr <urn:rpq:answer:1> .',
        '<a:s> <a:count> "7"^^<http://www.w3.org/2001/XMLSchema#integer> <urn:rpq:delete:-2> .',
    ]
