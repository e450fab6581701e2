"""Files of a stream on Spark are read as by `rpq run`, or refused in words that say why: text, its types, its restarts."""

from __future__ import annotations

import bz2
import datetime as dt
import gzip
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the extra spark is not installed")
pytest.importorskip("pandas")

import pyarrow as pa
import pyarrow.parquet as pq

import rpq
import rpq.spark as pipeline
from rpq.errors import InputError
from rpq.readers import open_reader
from rpq.readers.text.edge_rules import EdgeRules
from rpq.spark.columns import parse_column_names
from rpq.spark.errors import PipelineError, plain_message
from rpq.spark.line_blocks import check_is_text
from rpq.spark.stream.file_edges import file_edges

HEADER = "source,target,label,timestamp"
TEXTS = {
    "unnamed columns": "source,,target,label,timestamp,\nx,1,y,a,1,2\n",
    "duplicate columns that are not read": "n,source,n,target,label,timestamp\n1,x,2,y,a,1\n",
    "a header in another case": "Source,TARGET,label,Timestamp\nx,y,a,1\n",
    "another column in another case": f"{HEADER},Note,note\nx,y,a,1,2,3\n",
    "a column in two cases": f"{HEADER},Label\nx,y,a,1,b\n",
    "comments": f"# about\n\n#\n{HEADER}\nx,y,a,1\n# in between\nx,z,a,2\n#x,y,a,3\n",
    "blanks": f"{HEADER},op\nx,y,a, 1 , + \n x ,y,a,\t2,-\nx,y,a,+3,+\n",
    "no header": "x,y,a,1\nx,z,a,2,-\n",
    "tabs": 'source\ttarget\tlabel\ttimestamp\n"x\ty"\t"q"@en\ta\t1\n',
    "line ends": f'{HEADER}\r\n"x\r\ny",y,a,1\r\n"x\ny",y,b,2\nx,y,b,3\r\n',
    "a byte order mark": f"\ufeff{HEADER}\nx,y,a,1",
    "a quoted header": '"source","target","label","timestamp"\n"x ""y""",y,a,1\n',
    "a replacement character": f"{HEADER}\n\ufffd,y,a,1\n",
    "empty lines": f"\n\n{HEADER}\n\nx,y,a,1\n \n\n",
    "only a header": f"{HEADER}\n",
    "only a comment": "# nothing yet\n",
    "deletes": f"{HEADER},delete\nx,y,a,1,TRUE\nx,y,a,2, 0\n",
    "another order": "timestamp,label,target,source\n1,a,y,x\n",
    "bad lines": f"{HEADER}\nx,y,a,1\nx,,a,2\nx,y,a\nx,y,a,0x3\nx,y,a,1e3\nx,y,a,2024-05-01\nx,y,a,4\n",
    "an open quote": f'{HEADER}\n"x,y,a,1\nx,y,a,2\n',
    "text behind a quote": f'{HEADER}\n"x"z,y,a,1\nx,y,a,2\n',
    "bytes that are not UTF-8": f"{HEADER}\nM\udcfcller,y,a,1\nMüller,y,a,2\n",
    "deletes of Debezium": f"{HEADER},__deleted\nx,y,a,1,true\n",
}


def written(folder: Path, name: str, text: str) -> Path:
    """A file, with surrogates in place of bytes that are not UTF-8."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(text.encode("utf-8", "surrogateescape"))
    return folder / name


def tuples_of_run(path: Path, *, on_error: str = "stop", **options: Any) -> Counter | str:
    """The tuples that `rpq run` reads, with a row of nulls for each bad line, or the message with which it ends."""
    found: Counter = Counter()
    try:
        reader = open_reader("edges", [str(path)], on_error=on_error, **options)
        for batch in reader:
            for row in batch.columns.to_pylist():
                ends = (row["source"], row["target"], row["label"], row["timestamp"])
                found[*ends, "-" if row.get("delete") else "+"] += 1
        found[(None,) * 5] += reader.rejected
    except InputError as error:
        return str(error)
    return found


def streamed(session, frame, name: str) -> Counter:
    """The rows of a streaming data frame."""
    frame.writeStream.format("memory").queryName(name).trigger(availableNow=True).start().awaitTermination()
    return Counter(map(tuple, session.table(name).collect()))


@pytest.mark.ci
def test_text_is_read_as_by_the_command(session, tmp_path):
    """All of them in one stream, where bad lines are rows of nulls; each file by its own header."""
    expected: Counter = Counter()
    for number, (name, text) in enumerate(TEXTS.items()):
        path = written(tmp_path / "in", f"{number:02d} {name}.csv", text)
        expected += tuples_of_run(path, on_error="skip")
    (tmp_path / "in" / "packed.csv.gz").write_bytes(gzip.compress(f"{HEADER}\nx,y,packed,1\n".encode()))
    expected["x", "y", "packed", 1, "+"] += 1
    assert expected.total() > 25
    found = file_edges(session, str(tmp_path / "in"), "csv", on_error="skip", max_files=100)
    columns = ["source", "target", "label", "timestamp", "op"]
    assert found.edges.columns == columns
    assert streamed(session, found.edges, "texts") == expected
    assert Counter(map(tuple, found.first_edges().collect())) == expected


@pytest.mark.ci
def test_text_that_the_command_refuses_is_refused(session, tmp_path):
    """With its words, for the first line before anything starts, and for later lines in the task that reads them."""
    refused = {name: message for name, text in TEXTS.items() if isinstance(message := outcome(tmp_path, name, text), str)}
    assert len(refused) == 6
    at_start = set()
    for number, (name, message) in enumerate(refused.items()):
        frame = None
        with pytest.raises(Exception) as caught:  # that of Spark, if a task raises it
            frame = file_edges(session, str(tmp_path / name), "csv").edges
            streamed(session, frame, f"refused{number}")
        assert plain_message(caught.value).endswith(message.removeprefix(str(tmp_path / name)))
        if frame is None:
            at_start.add(name)
    assert at_start == {"a column in two cases", "deletes of Debezium"}


def outcome(folder: Path, name: str, text: str) -> Counter | str:
    return tuples_of_run(written(folder / name, "0.csv", text))


@pytest.mark.ci
def test_columns_are_named_and_added(session, tmp_path):
    """Names of columns, a label for all, ids of edges and a sequence; columns that only some files have."""
    names = parse_column_names("source=from,target=to,timestamp=at,edge=tx,delete=gone", "pays", has_ids=True)
    first = "at,to,from,tx,gone,n\n2024-05-01,y,x,t1,false,7\n2024-05-02T00:00:00.5,,,t1,1, +8 \n"
    written(tmp_path / "in", "0.csv", first)
    written(tmp_path / "in", "1.csv", "n,tx,from,to,at,gone\n9,t2,u,v,2024-05-03,0\nten,t3,u,v,2024-05-03,0\n")
    found = file_edges(
        session, str(tmp_path / "in"), "csv", names=names, sequence="n", has_ids=True, on_error="skip", max_files=2
    )
    frame = found.edges.selectExpr("`from`", "`to`", "unix_millis(at)", "gone", "tx", "n")
    day = 86_400_000
    begin = 19_844 * day
    assert streamed(session, frame, "named") == Counter(
        [
            ("x", "y", begin, False, "t1", 7),
            (None, None, begin + day + 500, True, "t1", 8),
            ("u", "v", begin + 2 * day, False, "t2", 9),
            ("u", "v", begin + 2 * day, False, "t3", None),
        ]
    )
    stopping = file_edges(session, str(tmp_path / "in"), "csv", names=names, sequence="n", has_ids=True, max_files=2)
    with pytest.raises(Exception, match=r"1\.csv: column 'n': 'ten' is not an integer"):
        streamed(session, stopping.edges, "sequence")
    for sequence, message in (
        ("m", "sequence is 'm': .*0.csv:1: column 'm': is missing"),
        ("from", "sequence is 'from', which is a column of tuples"),
        ("source", "sequence is 'source': .*0.csv:1: column 'source': is missing"),
    ):
        with pytest.raises(PipelineError, match=message):
            file_edges(session, str(tmp_path / "in"), "csv", names=names, sequence=sequence, has_ids=True)
    written(tmp_path / "other", "0.csv", "source,target,label,timestamp,at\nx,y,a,2,1\n")
    names = parse_column_names("timestamp=at", None)
    edges = file_edges(session, str(tmp_path / "other"), "csv", names=names, sequence="timestamp").first_edges()
    assert edges.select("at", "timestamp").collect() == [(1, 2)]


@pytest.mark.long
def test_records_of_text_are_edges_by_rules(session, rpq_on_spark, tmp_path):
    """As by `rpq run`, from lines of fields and from JSON lines, whose timestamps are text."""
    rules = tmp_path / "edges.toml"
    rules.write_text(
        "timestamp = 'at'\n[[edge]]\nlabel = 'a'\nsource = 'from'\ntarget = 'to'\n"
        "[[edge]]\nlabel = 'b'\nsource = 'to'\ntarget = 'by'\n"
    )
    written(tmp_path / "in", "0.csv", "from,,to,by,at\nx,1,y,z,2024-05-01\n\nx,1,w,,2024-05-02\n")
    written(tmp_path / "in", "1.csv", json.dumps({"from": "p", "to": 7, "by": "q", "at": "2024-05-03"}) + "\n")
    paths = [str(path) for path in sorted((tmp_path / "in").iterdir())]
    read = open_reader("edges", paths, rules=EdgeRules.read(str(rules)))
    engine = rpq.Engine(rpq.Query("a/b", window=rpq.Window(size="10d", slide="1d"), name="q"), time_unit="us")
    expected = Counter((row.source, row.target, row.op) for batch in read for row in engine.push(batch.columns).rows())
    assert expected == Counter([("x", "z", "+"), ("p", "q", "+")])
    options = ["--files", "csv", "--edges-from", str(rules), "--window", "10d", "--slide", "1d", "--once"]
    options += ["--max-files", "2"]
    places = ["--input", tmp_path / "in", "--output", tmp_path / "rows", "--checkpoint", tmp_path / "state"]
    command = ["spark", "stream", "a/b", *options, *map(str, places)]
    for _ in range(2):
        status, _, said = rpq_on_spark(*command)
        assert status == 0, said
        rows = pq.read_table(tmp_path / "rows").to_pylist()
        assert Counter((row["source"], row["target"], row["op"]) for row in rows) == expected
    rules.write_text(rules.read_text().replace("'b'", "'c'"))
    status, _, said = rpq_on_spark(*command)
    assert status == 1 and "the names of columns was" in said


@pytest.mark.long
def test_a_stream_goes_on_while_its_folder_is_empty(session, rpq_on_spark, tmp_path):
    """With the types that its first files had, whatever comes next: here a file of times that has no timestamp yet."""
    folder = tmp_path / "in"
    folder.mkdir()
    places = ["--input", folder, "--output", tmp_path / "rows", "--checkpoint", tmp_path / "state"]
    command = ["spark", "stream", "a/b*", "--window", "10d", "--slide", "1d", "--files", "csv", "--once", *map(str, places)]
    first = dt.datetime(2024, 5, 1, tzinfo=dt.UTC)

    def arrive(number: int, edges: list[tuple[str, str, str]]) -> None:
        path = folder / f"{number}.csv"
        times = [first + dt.timedelta(hours=number)] * len(edges)
        lines = [",".join([*edge, time.isoformat()]) for edge, time in zip(edges, times, strict=True)]
        path.write_text("\n".join([HEADER, *lines]))

    status, _, said = rpq_on_spark(*command)
    assert status == 1 and "has no .csv file yet; the first file determines the columns" in said
    for number, edges in enumerate(([("x", "y", "a")], [], None, [("y", "z", "b")])):
        for path in folder.iterdir():
            path.unlink()
        if edges is not None:
            arrive(number, edges)
        status, _, said = rpq_on_spark(*command)
        assert status == 0, said
        assert re.search(rf"tuples +{len(edges or ())} in {int(bool(edges))} micro-batches", said) or edges == [], said
    rows = pq.read_table(tmp_path / "rows").to_pylist()
    assert [(row["source"], row["target"], row["timestamp"]) for row in rows] == [
        ("x", "y", first), ("x", "z", first + dt.timedelta(hours=3))
    ]  # fmt: skip
    (tmp_path / "state" / "rpq-files.json").write_text("{}")
    (tmp_path / "state" / ".rpq-files.json.crc").unlink()
    status, _, said = rpq_on_spark(*command)
    assert status == 1 and "rpq-files.json is damaged" in said


@pytest.mark.long
def test_a_refused_start_does_not_change_the_types_of_a_stream(session, rpq_on_spark, tmp_path):
    """A checkpoint of a former release has no types: they are those of the files, if these are of the same stream."""
    file = written(tmp_path / "in", "0.csv", f"{HEADER}\nx,y,a,1\n")
    places = ["--input", tmp_path / "in", "--output", tmp_path / "rows", "--checkpoint", tmp_path / "state"]
    command = ["spark", "stream", "a", "--window", "10", "--slide", "1", "--files", "csv", "--once", *map(str, places)]
    assert rpq_on_spark(*command)[0] == 0
    types = tmp_path / "state" / "rpq-files.json"
    stored = types.read_text()
    types.unlink()
    (tmp_path / "state" / ".rpq-files.json.crc").unlink()
    file.write_text(f"{HEADER}\nx,y,a,2024-05-01\n")
    status, _, said = rpq_on_spark(*command)
    assert status == 1 and "the time unit was none" in said
    assert not types.exists()
    file.write_text(f"{HEADER}\nx,y,a,1\n")
    written(tmp_path / "in", "1.csv", f"{HEADER}\nx,z,a,2\n")
    status, _, said = rpq_on_spark(*command)
    assert status == 0, said
    assert types.read_text() == stored
    assert {row["target"] for row in pq.read_table(tmp_path / "rows").to_pylist()} == {"y", "z"}


@pytest.mark.ci
def test_a_folder_in_the_folder_is_not_a_file(session, tmp_path):
    """Spark does not read it, whatever its name."""
    (tmp_path / "in").mkdir()
    written(tmp_path / "in" / "0.csv", "part-0.csv", "from,to\n")
    written(tmp_path / "in", "1.csv", f"{HEADER}\nx,y,a,1\n")
    found = file_edges(session, str(tmp_path / "in"), "csv")
    assert streamed(session, found.edges, "nested") == Counter({("x", "y", "a", 1, "+"): 1})


@pytest.mark.ci
def test_files_that_do_not_agree_are_refused(session, tmp_path):
    """Those that `rpq run` does not read together, and those that Spark takes for something else."""
    written(tmp_path / "in", "0.csv", f"{HEADER}\nx,y,a,2024-05-01\n")
    second = tmp_path / "in" / "1.csv"
    pq.write_table(pa.table({"source": ["x"], "target": ["y"], "label": ["a"], "timestamp": [1]}), tmp_path / "parquet")
    for number, (content, message) in enumerate(
        (
            (b"x,y,a,2024-05-01T12:00Z\n", "1.csv: its timestamps are times with a zone, those of the first file"),
            (b"x,y,a,7\n", "1.csv:1: column 'timestamp': '7' is not a time; expected one such as"),
            (b'{"source": 1, "target": 2, "label": "a", "timestamp": "2024-05-01"}\n', "1.csv: vertices are integers"),
            (gzip.compress(b"x,y,a,2024-05-01\n"), "1.csv: is compressed with gzip; Spark needs a name that ends in .gz"),
            ((tmp_path / "parquet").read_bytes(), "1.csv: is Parquet; expected lines of text"),
        )
    ):
        second.unlink(missing_ok=True)
        frame = file_edges(session, str(tmp_path / "in"), "csv", max_files=2).edges
        second.write_bytes(content)
        with pytest.raises(Exception, match=message):
            streamed(session, frame, f"disagreeing{number}")
    (tmp_path / "in" / "0.csv").unlink()
    for content, message in (((tmp_path / "parquet").read_bytes(), "is Parquet"), (bz2.compress(b"x"), "with bzip2")):
        second.write_bytes(content)
        with pytest.raises(InputError, match=message):
            file_edges(session, str(tmp_path / "in"), "csv")
    with pytest.raises(InputError, match=r"Spark does not read xz; compress the file with gzip"):
        check_is_text("a.csv.xz", b"\xfd7zXZ\0")
    check_is_text("a.csv", b"PAR1,BZ,a,1")


@pytest.mark.ci
def test_a_file_that_is_divided_between_tasks_is_refused(session, tmp_path):
    """A later part would be read without its header; the command sets what prevents it."""
    written(tmp_path / "in", "0.csv", f"{HEADER}\n" + "x,y,a,1\n" * 10_000)
    frame = file_edges(session, str(tmp_path / "in"), "csv").edges
    settings = {"spark.sql.files.maxPartitionBytes": "10000", "spark.sql.files.openCostInBytes": "0"}
    before = {name: session.conf.get(name) for name in settings}
    try:
        for name, value in settings.items():
            session.conf.set(name, value)
        with pytest.raises(Exception, match=r"0\.csv: is divided between tasks, but a stream reads whole files of text"):
            streamed(session, frame, "divided")
    finally:
        for name, value in before.items():
            session.conf.set(name, value)
    assert streamed(session, frame, "whole") == Counter({("x", "y", "a", 1, "+"): 10_000})


@pytest.mark.long
def test_times_without_a_zone_are_in_utc(session, tmp_path):
    """Whatever the time zone of the session: also those that its clocks leave out or have twice."""
    stamps = [dt.datetime(2024, 3, 10, 2, 30), dt.datetime(2024, 11, 3, 1, 30)]
    stamps.append(dt.datetime(1969, 12, 31, 23, 59, 59, 999_999))
    micros = [(stamp - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1) for stamp in stamps]
    rows = {"source": ["x"] * 3, "target": ["u", "v", "w"], "label": ["a"] * 3}
    pq.write_table(pa.table({**rows, "timestamp": pa.array(stamps, pa.timestamp("us"))}), tmp_path / "times.parquet")
    days = [stamp.date() for stamp in stamps]
    pq.write_table(pa.table({**rows, "timestamp": pa.array(days)}), tmp_path / "days.parquet")
    window = rpq.Window(size="100d", slide="1d")
    pipeline.register_functions(session)
    before = session.conf.get("spark.sql.session.timeZone")
    try:
        session.conf.set("spark.sql.session.timeZone", "America/New_York")
        for name, expected in (
            ("times", micros),
            ("days", [(day - dt.date(1970, 1, 1)).days * 86_400_000_000 for day in days]),
        ):
            for unit, size in (("us", 1), ("ms", 1_000), ("s", 1_000_000)):
                frame = session.read.parquet(str(tmp_path / f"{name}.parquet"))
                query = rpq.Query("a", window=window)
                found = pipeline.replay(session, frame, query, time_unit=unit, partitions=1).where("op = '+'")
                rows_found = found.selectExpr("target", "unix_micros(timestamp)").collect()
                wanted = {target: value // size * size for target, value in zip("uvw", expected, strict=True)}
                assert dict(map(tuple, rows_found)) == wanted
            session.read.parquet(str(tmp_path / f"{name}.parquet")).createOrReplaceTempView("stamped")
            function = "rpq_changes(TABLE(stamped), 'a', '100d', '1d')"
            rows_found = session.sql(f"SELECT target, unix_micros(timestamp) FROM {function} WHERE op = '+'").collect()
            assert dict(map(tuple, rows_found)) == dict(zip("uvw", expected, strict=True))
    finally:
        session.conf.set("spark.sql.session.timeZone", before)


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
