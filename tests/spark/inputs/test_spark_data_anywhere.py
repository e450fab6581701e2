"""Data where teams have it: URIs that are none of local files, wildcards, folders that tell columns, tables, data frames.

semantics.md S8
"""

from __future__ import annotations

import datetime as dt
import gzip
import json
import os
import time
from collections import Counter

import pytest

pytest.importorskip("pyspark", reason="the extra spark is not installed")
pytest.importorskip("pandas")

import pyarrow as pa
import pyarrow.parquet as pq

import rpq
import rpq.spark as pipeline
from rpq.readers import open_reader
from rpq.spark.columns import parse_column_names
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


@pytest.mark.long
def test_a_stream_of_text_with_times(session, tmp_path):
    """The first one that is there tells; what is neither integer nor time is said before anything starts."""
    (tmp_path / "in").mkdir()
    file, names = tmp_path / "in" / "0.csv", parse_column_names("timestamp=at", None)
    for stamp, kind in (("5", "bigint"), ("2024-05-01T12:00:00Z", "timestamp"), ("2024-05-01", "timestamp"), ("", "bigint")):
        file.write_text(f"source,target,label,at\nx,y,a,{stamp}\n")
        on_error = "stop" if stamp else "skip"
        edges = file_edges(session, str(tmp_path / "in"), "csv", names=names, on_error=on_error).edges
        assert edges.schema["at"].dataType.simpleString() == kind
    file.write_text("source,target,label,at\nx,y,a,soon\n")
    with pytest.raises(rpq.InputError, match="0.csv:2: column 'timestamp': 'soon' is not an integer; expected"):
        file_edges(session, str(tmp_path / "in"), "csv", names=names)
    lines = [",".join([*row[:3], written(row)[:20]]) for row in ROWS]
    file.write_text("\n".join(["source,target,label,at", *lines]))
    edges = file_edges(session, str(tmp_path / "in"), "csv", names=names).edges
    durations = rpq.Query(QUERY.expression, window=rpq.Window(size="40s", slide="5s"), semantics="explicit")
    changes = pipeline.rpq_changes(edges, durations, columns="timestamp=at")
    writer = changes.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "state"))
    writer.trigger(availableNow=True).start(str(tmp_path / "rows")).awaitTermination()
    found = session.read.parquet(str(tmp_path / "rows"))
    whole = found.selectExpr("query", "source", "target", "unix_seconds(timestamp)", "op").collect()
    inserts = [(*row[:4], "+") for row in ROWS]
    assert Counter(map(tuple, whole)) == Counter(map(tuple, rpq.Engine(QUERY).push_rows(inserts).rows()))


QUOTED = "source,target,label,timestamp,number\n" + """\
"a""b",y,a,1,2
"c, d",z,a,2,3
"e
f",y,b\\,2,5
x,y,a,3,9
x,z,a,3,8
"""


def test_a_stream_of_text_has_the_rows_of_its_lines(session, tmp_path):
    """Quotes, line ends in them and backslashes are read as by `rpq run`; a column may order tuples of one timestamp."""
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "0.csv").write_text(QUOTED)
    bad = 'x,y,a,4,1,more\nx\nx,z,a,soon,2\n"x"z",y,a,4,4\n'
    (folder / "1.csv").write_text(QUOTED.splitlines()[0] + "\n" + bad + "ok,y,a,5,3\n")
    every = rpq.Query("!()", window=rpq.Window(size=40, slide=5))
    found = []
    for on_error in ("skip", "stop"):
        edges = file_edges(session, str(folder), "csv", max_files=2, sequence="number", on_error=on_error).edges
        changes = pipeline.rpq_changes(edges, every, partitions=1, sequence="number", on_error=on_error)
        state = str(tmp_path / on_error)
        stream = changes.writeStream.format("memory").queryName("text").option("checkpointLocation", state)
        try:
            stream.trigger(availableNow=True).start().awaitTermination()
        except Exception as error:  # that of Spark
            assert on_error == "stop" and "1.csv:2: found 6 fields, expected 5: source" in plain_message(error)
        else:
            found = [tuple(row) for row in session.table("text").collect()]
    engine = rpq.Engine(every)
    whole = [row for batch in open_reader("edges", folder / "0.csv") for row in engine.push(batch.columns).rows()]
    assert Counter(found) == Counter([*map(tuple, whole), ("!()", "ok", "y", 5, "+")])
    (folder / "0.csv").write_text("target,source,label,timestamp,number\nx,y,a,1,1\n")
    (folder / "1.csv").write_text(QUOTED)
    read = file_edges(session, str(folder), "csv").first_edges().select("source", "target", "timestamp").collect()
    files = [open_reader("edges", folder / f"{number}.csv") for number in range(2)]
    columns = [batch.columns.select(["source", "target", "timestamp"]) for file in files for batch in file]
    assert Counter(map(tuple, read)) == Counter(tuple(row.values()) for batch in columns for row in batch.to_pylist())
    assert ("y", "x", 1) in read


@pytest.mark.long
def test_a_file_that_appears_later_may_be_older(session, tmp_path):
    """Copies may keep the time of the original; by default Spark ignores files that are a week older than the newest one."""
    folder, query = tmp_path / "in", rpq.Query("a+", window=QUERY.window)
    folder.mkdir()
    for number, (edge, days) in enumerate((("x,y,a,1", 0), ("y,z,a,2", 30))):
        file, modified = folder / f"{number}.csv", time.time() - days * 86_400
        file.write_text(f"source,target,label,timestamp\n{edge}\n")
        os.utime(file, (modified, modified))
        edges = file_edges(session, str(folder), "csv").edges
        writer = pipeline.rpq_changes(edges, query, partitions=2).writeStream.format("parquet")
        writer = writer.option("checkpointLocation", str(tmp_path / "state")).trigger(availableNow=True)
        writer.start(str(tmp_path / "rows")).awaitTermination()
    rows = session.read.parquet(str(tmp_path / "rows")).select("source", "target")
    assert Counter(map(tuple, rows.collect())) == Counter([("x", "y"), ("y", "z"), ("x", "z")])


@pytest.mark.long
def test_a_stream_of_text_with_several_line_ends_and_other_bytes(session, tmp_path):
    """A carriage return at the end of a line is no part of a name; text that is not UTF-8 is a bad line.

    So is a time to which the size of the window cannot be added.
    """
    folder, asked = tmp_path / "in", rpq.Query("a", window=QUERY.window)
    folder.mkdir()
    lines = ["timestamp,source,target,label", "1,x,y,a\r", "2,y,z,a", '3,z,w,"a"\r', "4,z,v,a\r"]
    (folder / "0.csv").write_bytes("\n".join(lines).encode())
    engine = rpq.Engine(asked)
    whole = [row for batch in open_reader("edges", folder / "0.csv") for row in engine.push(batch.columns).rows()]
    assert [row.target for row in whole] == ["y", "z", "w", "v"]
    more = b"5,M\xfcller,y,a\n6,M\xf6ller,y,a\n7,M\xc3\xbcller,y,a\n9223372036854775807,x,y,a\n"
    (folder / "1.csv").write_bytes(b"timestamp,source,target,label\n" + more)
    found = []
    for on_error in ("skip", "stop"):
        edges = file_edges(session, str(folder), "csv", max_files=2, on_error=on_error).edges
        changes = pipeline.rpq_changes(edges, asked, partitions=2, on_error=on_error)
        writer = changes.writeStream.format("parquet").option("checkpointLocation", f"{tmp_path}/{on_error}-state")
        query = writer.trigger(availableNow=True).start(f"{tmp_path}/{on_error}")
        if on_error == "skip":
            query.awaitTermination()
            found = [tuple(row) for row in session.read.parquet(f"{tmp_path}/skip").collect()]
        else:
            with pytest.raises(Exception, match="is not UTF-8 text"):
                query.awaitTermination()
    assert Counter(found) == Counter([*map(tuple, whole), ("a", "Müller", "y", 7, "+")])


@pytest.mark.long
def test_a_stream_of_text_with_byte_order_marks(session, tmp_path):
    """As spreadsheets export them, with the names of columns in quotes or without."""
    folder, names = tmp_path / "in", ["source", "target", "label", "timestamp"]
    folder.mkdir()
    for number, header in enumerate((",".join(names), ",".join(f'"{name}"' for name in names))):
        (folder / "0.csv").write_text(f"\ufeff{header}\nx,y,a,5\n", encoding="utf-8")
        edges, existing, *_ = file_edges(session, str(folder), "csv")
        assert edges.columns == existing().columns == [*names, "op"]
        stream = edges.writeStream.format("memory").queryName(f"marked{number}").trigger(availableNow=True).start()
        stream.awaitTermination()
        assert session.table(f"marked{number}").collect() == [("x", "y", "a", 5, "+")]
    (folder / "0.csv").write_text("")
    with pytest.raises(PipelineError, match="its .csv files are empty; expected a header"):
        file_edges(session, str(folder), "csv")


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
    edges = file_edges(session, str(folder), "parquet").edges
    writer = pipeline.rpq_changes(edges, QUERY, partitions=2).writeStream.format("parquet")
    writer = writer.option("checkpointLocation", str(tmp_path / "state")).trigger(availableNow=True)
    writer.start(str(tmp_path / "rows")).awaitTermination()
    assert rows_of(session.read.parquet(str(tmp_path / "rows"))) == Counter(map(tuple, expected))
