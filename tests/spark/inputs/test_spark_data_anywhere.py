"""Data where teams have it: URIs that are none of local files, wildcards, folders that tell columns, tables, data frames.

semantics.md S8
"""

from __future__ import annotations

import datetime as dt
import gzip
import json
import os
from collections import Counter

import pytest

pytest.importorskip("pyspark", reason="the extra spark is not installed")
pytest.importorskip("pandas")

import pyarrow as pa
import pyarrow.parquet as pq

import rpq
import rpq.spark as pipeline
from rpq.readers import open_reader
from rpq.spark.errors import PipelineError, plain_message
from rpq.spark.jvm.data_sets import edges_in, statistics_in
from rpq.spark.jvm.session import check_java
from rpq.spark.stream.file_edges import file_edges

try:
    check_java()
except PipelineError as missing:
    pytest.skip(str(missing), allow_module_level=True)

QUERY = rpq.Query("a/b*", window=rpq.Window(size=40, slide=5), semantics="explicit")
ROWS = [(f"v{n % 7}", f"v{n * n % 11}", "ab"[n % 2], n // 3, "-" if n % 9 == 8 else "+") for n in range(120)]
COLUMNS = ("source", "target", "label", "timestamp", "op")


@pytest.fixture
def mounted(session, tmp_path) -> str:
    """A folder under Hadoop's viewfs: names of which local file calls know nothing."""
    # A mount table of its own: Hadoop keeps a file system as it was first.
    table = tmp_path.name.replace("_", "")
    hadoop = session._jsc.hadoopConfiguration()
    hadoop.set(f"fs.viewfs.mounttable.{table}.link./here", f"file://{tmp_path}")
    return f"viewfs://{table}/here"


def local_rows() -> Counter:
    return Counter(map(tuple, rpq.Engine(QUERY).push_rows(ROWS).rows()))


def rows_of(frame) -> Counter:
    return Counter(tuple(row) for row in frame.select("query", "source", "target", "timestamp", "op").collect())


def tuples(frame) -> Counter:
    return Counter(tuple(row) for row in frame.select(*COLUMNS).collect())


def test_lines_are_prepared_wherever_they_are(session, mounted, tmp_path):
    """Several files by a wildcard, one of them compressed, with headers, a bad line and ties, as of local files."""
    lines = ["\t".join(map(str, row)) for row in ROWS]
    (tmp_path / "in").mkdir()
    texts = ["\t".join(COLUMNS) + "\n" + "\n".join([*lines[:50], "nonsense", *lines[50:70]]), "\n".join(lines[70:]) + "\n"]
    (tmp_path / "in" / "1.tsv").write_text(texts[0])
    (tmp_path / "in" / "2.tsv.gz").write_bytes(gzip.compress(texts[1].encode()))
    statistics = pipeline.prepare(session, f"{mounted}/in/*.tsv*", f"{mounted}/data", partitions=2)
    assert statistics == statistics_in(session, f"{mounted}/data")
    assert statistics["tuples"] == len(ROWS) and statistics["rejected"] == 1
    (bad,) = [json.loads(line) for file in (tmp_path / "data" / "_rejected").glob("*.json") for line in file.open()]
    assert bad["file"].endswith("in/1.tsv") and bad["line"] == 52 and bad["text"] == "nonsense"
    found = [row for one in open_reader("edges", str(tmp_path / "data")) for row in one.columns.to_pylist()]
    by_name = [(one["source"], one["target"], one["label"], one["timestamp"], "+-"[one["delete"]]) for one in found]
    assert by_name == ROWS
    assert rows_of(pipeline.replay(session, f"{mounted}/data", QUERY)) == local_rows()
    assert not (tmp_path / "data" / "_staged").exists()
    with pytest.raises(rpq.InputError, match=r"in/1\.tsv:52: "):
        pipeline.prepare(session, [f"{mounted}/in/1.tsv"], f"{mounted}/other", on_error="stop")
    assert not (tmp_path / "other").exists()
    with pytest.raises(PipelineError, match="there is no such file"):
        pipeline.prepare(session, [f"{mounted}/in/*.csv"], f"{mounted}/other")


@pytest.mark.long
def test_folders_that_tell_columns_and_names_of_columns(session, mounted, tmp_path):
    """Hive-style folders, columns by other names, times: prepared, replayed and streamed."""
    at = [dt.datetime.fromtimestamp(row[3], dt.UTC) for row in ROWS]
    for label in "ab":
        places = [n for n, row in enumerate(ROWS) if row[2] == label]
        columns = {"who": [ROWS[n][0] for n in places], "what": [ROWS[n][1] for n in places]}
        columns |= {"at": pa.array([at[n] for n in places], pa.timestamp("us", "UTC")), "op": [ROWS[n][4] for n in places]}
        folder = tmp_path / "in" / f"kind={label}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({**columns, "n": places}), folder / "0.parquet")
    names = {"columns": "source=who,target=what,label=kind,timestamp=at"}
    statistics = pipeline.prepare(session, f"{mounted}/in", f"{mounted}/data", time_unit="s", **names)
    assert statistics["time_unit"] == "s" and statistics["tuples"] == len(ROWS)
    assert tuples(edges_in(session, f"{mounted}/data")) == Counter(ROWS)
    durations = rpq.Query(QUERY.expression, window=rpq.Window(size="40s", slide="5s"), semantics="explicit")
    frame = session.read.parquet(f"{mounted}/in")
    found = pipeline.replay(session, frame, durations, sequence="n", time_unit="s", **names)
    assert found.schema["timestamp"].dataType.simpleString() == "timestamp"
    whole = found.selectExpr("query", "source", "target", "unix_seconds(timestamp)", "op")
    assert Counter(tuple(row) for row in whole.collect()) == local_rows()
    edges = session.readStream.schema(frame.schema).option("recursiveFileLookup", False).parquet(f"{mounted}/in")
    changes = pipeline.rpq_changes(edges, durations, sequence="n", time_unit="s", **names)
    writer = changes.writeStream.format("parquet").option("checkpointLocation", f"{mounted}/state")
    writer.trigger(availableNow=True).start(f"{mounted}/rows").awaitTermination()
    streamed = session.read.parquet(f"{mounted}/rows")
    whole = streamed.selectExpr("query", "source", "target", "unix_seconds(timestamp)", "op")
    assert Counter(tuple(row) for row in whole.collect()) == local_rows()
    with pytest.raises(PipelineError, match="column 'when' is missing; expected .*, found who"):
        pipeline.replay(session, frame, durations, columns="source=who,target=what,label=kind,timestamp=when")
    with pytest.raises(PipelineError, match="did you mean 'label'"):
        pipeline.rpq_changes(edges, durations, columns="lable=kind")
    with pytest.raises(PipelineError, match="sequence is 'n', which orders the tuples of a data frame"):
        pipeline.replay(session, f"{mounted}/in", durations, sequence="n", **names)
    with pytest.raises(PipelineError, match="time_unit is 'ns'; expected one of s, ms, us"):
        pipeline.replay(session, frame, durations, sequence="n", time_unit="ns", **names)


def test_a_data_frame_is_prepared_and_read_as_one(session, tmp_path):
    """Rows that are no tuples are set aside; `format("rpq")` gives the files in order, with times if they are wanted."""
    wrong = [(None, "y", "a", 1, "+"), ("x", "y", "a", 1, "?")]
    schema = "source string, target string, label string, timestamp bigint, op string"
    frame = session.createDataFrame([*wrong, *ROWS], schema)
    folder = str(tmp_path / "data")
    statistics = pipeline.prepare(session, frame, folder, partitions=2, time_unit="s")
    assert (statistics["tuples"], statistics["rejected"], statistics["time_unit"]) == (len(ROWS), 2, "s")
    found = session.read.format("rpq").load(folder)
    assert found.schema.simpleString() == ("struct<source:string,target:string,label:string,timestamp:bigint,op:string>")
    assert [tuple(row) for row in found.collect()] == ROWS
    times = session.read.format("rpq").option("times", "true").load(folder)
    assert times.selectExpr("unix_seconds(max(timestamp))").collect() == [(39,)]
    assert rows_of(pipeline.replay(session, found, QUERY, partitions=2)).total() > 0
    with pytest.raises(Exception, match="is not a prepared data set"):
        session.read.format("rpq").load(str(tmp_path)).collect()
    with pytest.raises(rpq.InputError, match="column 'source'"):
        pipeline.prepare(session, frame, str(tmp_path / "other"), on_error="stop")


@pytest.mark.long
def test_replays_of_files_in_any_order_of_their_times(session, mounted, tmp_path):
    """A folder of files has the order of their names; late tuples, chunks with and without shares, and what is wrong."""
    pattern = rpq.Query("?x a ?y . ?y b ?z", window=QUERY.window)
    assert (cube := pattern.hypercube) is not None and cube.is_divided
    by_roots = rpq.Query("a/b*", window=QUERY.window, paths="simple", on_budget="set_aside")
    (tmp_path / "in").mkdir()

    def put(number: int, rows: list[tuple]) -> None:
        columns = dict(zip(COLUMNS, map(list, zip(*rows, strict=True)), strict=True))
        pq.write_table(pa.table(columns), tmp_path / "in" / f"{number}.parquet", row_group_size=7)

    later = [(*row[:3], row[3] + 40 * n, row[4]) for n in range(10) for row in ROWS]
    rows = [*later[100:150], *later[:100], *later[150:]]
    for number, begin in enumerate(range(0, len(rows), 50)):
        put(number + 100, rows[begin : begin + 50])
    for partitions in (1, 2, 7):
        for query in (QUERY, pattern, by_roots):
            found = pipeline.replay(session, f"{mounted}/in", query, partitions=partitions).collect()
            expected = list(map(tuple, rpq.Engine(query).push_rows(rows).rows()))
            assert Counter(map(tuple, found)) == Counter(expected)
            if partitions == 2 and query is QUERY:  # chunks of time alone
                assert [row["timestamp"] for row in found] == [row[-2] for row in expected]
    put(200, [("x", "y", "a", 9999, "?")])
    with pytest.raises(Exception, match="is not an operation") as caught:
        rows_of(pipeline.replay(session, f"{mounted}/in", QUERY))
    assert "/in/200.parquet: row 1: column 'op': '?' is not an operation" in plain_message(caught.value)


def written(row: tuple) -> str:
    """A tuple as a line with a time, as its columns are called otherwise, and none for the label."""
    at = dt.datetime.fromtimestamp(row[3], dt.UTC).isoformat().replace("+00:00", "Z")
    return f"{at},{row[1]},{row[4]},{row[0]}"


@pytest.mark.long
def test_lines_with_other_names_and_with_times(session, mounted, tmp_path):
    """Local ones and others, compressed or not, as `rpq run` takes them; times become numbers of the unit."""
    (tmp_path / "in").mkdir()
    rows = [row for row in ROWS if row[2] == "a"]
    for number, some in enumerate((rows[:20], rows[20:])):
        text = "at,to,op,from\n" + "".join(f"{written(row)}\n" for row in some)
        (tmp_path / "in" / f"{number}.csv").write_text(text)
    names = {"columns": "source=from,target=to,timestamp=at", "label": "a", "time_unit": "s"}
    for folder, where in (("local", str(tmp_path)), ("mounted", mounted)):
        inputs = [f"{where}/in/{number}.csv" for number in range(2)]
        statistics = pipeline.prepare(session, inputs, f"{where}/{folder}", **names)
        assert (statistics["tuples"], statistics["rejected"], statistics["time_unit"]) == (len(rows), 0, "s")
        assert tuples(edges_in(session, f"{where}/{folder}")) == Counter(rows)
    wrong = names | {"columns": "source=fom,target=to,timestamp=at"}
    with pytest.raises(rpq.InputError, match="column 'fom': is missing; .*did you mean 'from'"):
        pipeline.prepare(session, inputs[0].replace(mounted, str(tmp_path)), f"{tmp_path}/other", **wrong)
    with pytest.raises(rpq.InputError, match="column 'fom': is missing; .*did you mean 'from'"):
        pipeline.prepare(session, inputs[0], f"{mounted}/other", **wrong)
    with pytest.raises(PipelineError, match="columns and label apply to Parquet, data frames and the format 'edges'"):
        pipeline.prepare(session, inputs[0], f"{mounted}/other", format="stackoverflow", **names)
    (tmp_path / "in" / "naive.csv").write_text("at,to,op,from\n2024-05-01,x,+,y\n")
    with pytest.raises(rpq.InputError, match=r"naive\.csv: its times have no zone, but those of .*0\.csv have one"):
        pipeline.prepare(session, [f"{tmp_path}/in/0.csv", f"{tmp_path}/in/naive.csv"], f"{tmp_path}/other", **names)


QUOTED = "source,target,label,timestamp,number\n" + """\
"a""b",y,a,1,2
"c, d",z,a,2,3
"e
f",y,b\\,2,5
x,y,a,3,9
x,z,a,3,8
"""


@pytest.mark.long
@pytest.mark.parametrize("column", ["op", "delete"])
def test_deletes_that_only_later_files_have(session, mounted, tmp_path, column: str):
    """A column that the first file lacks says in the others what is deleted, as in a folder that `rpq run` reads."""
    folder = tmp_path / "in"
    folder.mkdir()
    first = {"source": ["x", "y"], "target": ["y", "z"], "label": ["a", "b"], "timestamp": [1, 2]}
    deletes = {"op": ["-", "+"], "delete": [True, False]}[column]
    second = {"source": ["x", "u"], "target": ["y", "v"], "label": ["a", "a"], "timestamp": [3, 4], column: deletes}
    for number, columns in enumerate((first, second)):
        pq.write_table(pa.table(columns), folder / f"{number}.parquet")
        os.utime(folder / f"{number}.parquet", (10**9 + number,) * 2)
    engine = rpq.Engine(QUERY)
    expected = [row for one in open_reader("edges", str(folder)) for row in engine.push(one.columns).rows()]
    assert sorted(row.op for row in expected) == ["+", "+", "+", "-", "-"]
    assert rows_of(pipeline.replay(session, str(folder), QUERY, partitions=2)) == Counter(map(tuple, expected))
    statistics = pipeline.prepare(session, f"{mounted}/in", f"{mounted}/data")
    assert (statistics["tuples"], statistics["deletes"]) == (4, 1)
    edges = file_edges(session, str(folder)).edges
    writer = pipeline.rpq_changes(edges, QUERY, partitions=2).writeStream.format("parquet")
    writer = writer.option("checkpointLocation", str(tmp_path / "state")).trigger(availableNow=True)
    writer.start(str(tmp_path / "rows")).awaitTermination()
    assert rows_of(session.read.parquet(str(tmp_path / "rows"))) == Counter(map(tuple, expected))


@pytest.mark.ci
def test_deletes_of_debezium_in_columns_are_not_read_as_inserts(session, tmp_path):
    rows = [("x", "y", "a", 1, False), ("x", "y", "a", 2, True)]
    frame = session.createDataFrame(rows, "source string, target string, label string, timestamp bigint, __deleted boolean")
    frame.write.parquet(str(tmp_path / "in"))
    query = rpq.Query("a", window=rpq.Window(size=10, slide=1))
    for data in (frame, str(tmp_path / "in")):
        with pytest.raises(PipelineError, match="column '__deleted' says which rows are deletes of Debezium"):
            pipeline.replay(session, data, query)
        found = pipeline.replay(session, data, query, columns="delete=__deleted", partitions=1).collect()
        assert sorted((row["timestamp"], row["op"]) for row in found) == [(1, "+"), (2, "-")]
    rules = "timestamp = 'timestamp'\n[[edge]]\nlabel = 'a'\nsource = 'source'\ntarget = 'target'\n"
    (tmp_path / "edges.toml").write_text(rules)
    with pytest.raises(PipelineError, match="column '__deleted' says which records are deletes of Debezium"):
        pipeline.replay(session, frame, query, edges_from=str(tmp_path / "edges.toml"))
