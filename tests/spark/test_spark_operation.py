"""A stream on Spark as somebody runs it: checkpoints that know whose they are, figures, memory, signals, no litter."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the extra spark is not installed")
pytest.importorskip("pandas")

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.streaming.tws_tester import TwsTester

import rpq
import rpq.spark as pipeline
from rpq.spark.columns import parse_column_names
from rpq.spark.division import counted_labels, engine_bytes, partition_keys
from rpq.spark.envelopes import pack
from rpq.spark.errors import PipelineError, plain_message
from rpq.spark.jvm import hadoop_files
from rpq.spark.jvm.session import check_java
from rpq.spark.stream import processor, stream_identity
from rpq.spark.stream.file_edges import file_edges
from rpq.spark.stream.processor import AnswerChanges, EngineCache
from rpq.spark.stream.run import label_sizes

try:
    check_java()
except PipelineError as missing:
    pytest.skip(str(missing), allow_module_level=True)

COLUMNS = "source string, target string, label string, timestamp bigint"


def query(expression: str = "a/b*", *, size: int = 10, slide: int = 5, **options) -> rpq.Query:
    return rpq.Query(expression, window=rpq.Window(size=size, slide=slide), **options)


def incoming(folder: Path, *files: list[tuple]) -> Path:
    """A folder with Parquet files, the first the oldest."""
    folder.mkdir()
    for number, rows in enumerate(files):
        names = ["source", "target", "label", "timestamp", "op"][: len(rows[0])]
        columns = [pa.array(column) for column in zip(*rows, strict=True)]
        pq.write_table(pa.Table.from_arrays(columns, names=names), folder / f"{number}.parquet")
        os.utime(folder / f"{number}.parquet", (10**9 + number,) * 2)
    return folder


def test_a_checkpoint_of_another_stream_says_what_differs(session, tmp_path):
    """Before Spark starts a job; whatever rows depend on, and all that differs."""
    edges = session.createDataFrame([("x", "y", "a", 1)], COLUMNS)
    numbered = edges.selectExpr("*", "1 as place")
    both = query(), query("b", paths="simple")
    state = str(tmp_path / "state")
    begun = {"partitions": 2, "checkpoint": state, "output": str(tmp_path / "rows")}
    pipeline.rpq_changes(edges, *both, **begun)
    pipeline.rpq_changes(edges, *both, **begun)
    assert json.loads((tmp_path / "state" / "rpq.json").read_text())["shares"] == 2
    tracker = session.sparkContext.statusTracker()
    jobs = len(tracker.getJobIdsForGroup())
    timed = edges.selectExpr("source", "target", "label", "timestamp_seconds(timestamp) as timestamp")
    for frame, queries, options, message in (
        (edges, both, {"partitions": 5}, r"the number of shares was 2, is 5"),
        (edges, both, {"output": str(tmp_path / "other")}, r"the output was \".*/rows\", is \".*/other\""),
        (edges, both[:1], {}, r"it has a query 'b', which is missing now"),
        (edges, (query(size=11), both[1]), {}, r"window of query 'a/b\*' was .*10.*, is .*11"),
        (edges, (query(semantics="explicit"), both[1]), {}, r"semantics of query 'a/b\*' was .implicit., is .explicit."),
        (edges, (both[0], query("b", paths="simple", simple_budget=7)), {}, r"simple_budget of query 'b' was \d+, is 7"),
        (numbered, both, {"sequence": "place"}, r"the column of the sequence was none, is \"place\""),
        (timed, both, {"time_unit": "s"}, r"the time unit was none, is \"s\""),
        (edges.selectExpr("1L as source", "2L as target", "label", "timestamp"), both, {}, r"the type of vertices was"),
    ):
        with pytest.raises(PipelineError, match=rf"belongs to another stream: .*{message}"):
            pipeline.rpq_changes(frame, *queries, **{**begun, **options})
    assert len(tracker.getJobIdsForGroup()) == jobs
    (tmp_path / "state" / "rpq.json").write_text("{")
    with pytest.raises(PipelineError, match=r"rpq\.json: cannot be read: .*Checksum"):
        pipeline.rpq_changes(edges, *both, **begun)
    (tmp_path / "state" / ".rpq.json.crc").unlink()
    with pytest.raises(PipelineError, match=r"rpq\.json is damaged"):
        pipeline.rpq_changes(edges, *both, **begun)


def test_another_division_of_a_pattern_is_refused_by_name(session, tmp_path):
    """A single share divides nothing."""
    edges = session.createDataFrame([("x", "y", "a", 1)], COLUMNS)
    chain, place = query("?x a ?y . ?y b ?z . ?z c ?w", name="chain"), tmp_path / "state" / "rpq.json"
    begun = {"partitions": 4, "checkpoint": str(tmp_path / "state")}
    pipeline.rpq_changes(edges, chain, **begun)
    content = json.loads(place.read_text())
    assert content["division"] == {"chain": {"y": 2, "z": 2}}
    stream_identity.replace(session, begun["checkpoint"], {**content, "division": {"chain": {"y": 4}}})
    with pytest.raises(PipelineError, match=r'division of patterns was {"chain": {"y": 4}}, is {"chain": {"y": 2, "z": 2}}'):
        pipeline.rpq_changes(edges, chain, **begun)
    assert stream_identity.division_of([chain], 1) == {}


def test_a_checkpoint_knows_the_sizes_that_shape_a_division(session, tmp_path):
    """A stream continues with them if none are given; others are refused until they are changed by rescaling."""
    edges = session.createDataFrame([("x", "y", "a", 1)], COLUMNS)
    chain, place = query("?x a ?y . ?y b ?z . ?z c ?w", name="chain"), tmp_path / "state" / "rpq.json"
    begun = {"partitions": 4, "checkpoint": str(tmp_path / "state")}
    with pytest.raises(PipelineError, match=r"sizes: 'a' is -1; expected the number of its edges"):
        pipeline.rpq_changes(edges, chain, **begun, sizes={"a": -1})
    pipeline.rpq_changes(edges, chain, **begun, sizes={"c": 1, "a": 900})
    content = json.loads(place.read_text())
    assert (content["sizes"], content["division"]) == ({"a": 900, "c": 1}, {"chain": {"y": 4}})
    pipeline.rpq_changes(edges, chain, **begun)
    assert json.loads(place.read_text()) == content
    with pytest.raises(PipelineError, match=r'the sizes of labels was {"a": 900, "c": 1}, is {"a": 1}'):
        pipeline.rpq_changes(edges, chain, **begun, sizes={"a": 1})
    assert pipeline.rescale(session, begun["checkpoint"], sizes={})["sizes"] == {}
    assert json.loads(place.read_text())["division"] == {"chain": {"y": 2, "z": 2}}
    pipeline.rpq_changes(edges, chain, **begun, sizes={})


def test_labels_are_counted_in_the_files_that_are_there(session, tmp_path):
    """Of those that divide patterns; a label that does not occur is small, and without a label nothing is known."""
    rows = [(f"v{number}", "w", "a" if number % 4 else "b", number) for number in range(40)]
    existing = file_edges(session, str(incoming(tmp_path / "in", rows[:30], rows[30:]))).first_edges
    labels = counted_labels([query("?x a ?y . ?y b ?z . ?z c ?w"), query("?x d ?y"), query("e/f*")], 4)
    assert label_sizes(existing(), None, labels) == {"a": 30, "b": 10, "c": 1}
    assert label_sizes(existing(), None, ["y"]) == {}
    kinds = existing().withColumnRenamed("label", "kind")
    assert label_sizes(kinds, parse_column_names("label=kind", None), ["b"]) == {"b": 10}
    assert label_sizes(kinds, parse_column_names(None, "a"), ["a", "b"]) == {}


def test_what_a_checkpoint_knows_is_there_whenever_a_machine_dies(session, tmp_path):
    """If a file system has to remove the old file first, the new file exists under another name meanwhile."""
    state = str(tmp_path / "state")
    stream_identity.replace(session, state, {"queries": {}, "shares": 1})
    before = (tmp_path / "state" / "rpq.json").read_text()
    for path in (tmp_path / "state").iterdir():
        path.unlink()
    (tmp_path / "state" / "rpq.json.partial").write_text(before)
    assert stream_identity.read(session, state) == json.loads(before)
    (tmp_path / "state" / "rpq.json.partial").write_text(before[:20])
    assert stream_identity.read(session, state) is None
    stream_identity.replace(session, state, {"queries": {}, "shares": 2})
    assert stream_identity.read(session, state) == {"queries": {}, "shares": 2, "format": 1}


def test_a_checkpoint_that_was_begun_without_is_left_to_the_workers(session, tmp_path):
    (tmp_path / "state" / "offsets").mkdir(parents=True)
    edges = session.createDataFrame([("x", "y", "a", 1)], COLUMNS)
    pipeline.rpq_changes(edges, query(), checkpoint=str(tmp_path / "state"))
    assert not (tmp_path / "state" / stream_identity.FILE).exists()


def test_figures_are_in_the_progress_of_every_micro_batch(session, tmp_path):
    """The c is read by nobody, and b at 1 comes when the window has passed it."""
    folder = incoming(
        tmp_path / "in",
        [("x", "y", "a", 1), ("y", "z", "b", 2), ("p", "q", "c", 3)],
        [("y", "w", "b", 30), ("u", "v", "b", 1), ("x", "y", "a", 31)],
    )
    schema = session.read.parquet(str(folder)).schema
    edges = session.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))
    changes = pipeline.rpq_changes(edges, query(semantics="explicit"))
    writer = changes.writeStream.format("parquet").option("path", str(tmp_path / "rows"))
    stream = writer.option("checkpointLocation", str(tmp_path / "state")).trigger(availableNow=True).start()
    stream.awaitTermination()
    found = {one.batchId: one.observedMetrics["rpq"].asDict() for one in stream.recentProgress if one.numInputRows}
    assert [found[batch]["tuples"] for batch in (0, 1)] == [3, 3]
    assert [found[batch]["unread"] for batch in (0, 1)] == [1, 0]
    assert [found[batch]["late"] for batch in (0, 1)] == [0, 0]
    assert [found[batch]["rows"] for batch in (0, 1)] == [2, 4]
    assert [found[batch]["window"] for batch in (0, 1)] == [2, 2]
    assert found[1]["hits"] + found[1]["catch_ups"] + found[1]["rebuilds"] == 2
    assert found[1]["memory"] > 0
    rows = session.read.parquet(str(tmp_path / "rows"))
    assert rows.count() == 6 and rows.where("query is null").count() == 0


def test_bad_tuples_that_a_stream_leaves_out_are_counted(session, tmp_path):
    edges = [("x", "y", "a", 1, "+"), ("", "z", "b", 2, "+")], [("y", "z", "b", 2, "?"), ("y", "w", "b", 2, None)]
    folder = incoming(tmp_path / "in", *edges)
    reader = session.readStream.schema(session.read.parquet(str(folder)).schema).option("maxFilesPerTrigger", 1)
    changes = pipeline.rpq_changes(reader.parquet(str(folder)), query(), on_error="skip", counts="figures")
    writer = changes.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "state"))
    stream = writer.trigger(availableNow=True).start()
    stream.awaitTermination()
    found = [one.observedMetrics["figures_rejected"]["rejected"] for one in stream.recentProgress if one.numInputRows]
    assert found == [1, 2]


def test_deletes_that_a_given_schema_would_turn_into_inserts_are_refused(session, tmp_path):
    folder = str(incoming(tmp_path / "in", [("x", "y", "a", 1, "+"), ("x", "y", "a", 2, "-")]))
    schema = "source string, target string, label string, timestamp bigint"
    stream = session.readStream.schema(schema).parquet(folder)
    with pytest.raises(PipelineError, match="column 'op' of .* the schema of the data frame lacks it"):
        pipeline.rpq_changes(stream, query())
    with pytest.raises(PipelineError, match="column 'op' of .* the schema of the data frame lacks it"):
        pipeline.replay(session, session.read.schema(schema).parquet(folder), query())
    dropped = session.readStream.schema(f"{schema}, op string").parquet(folder).drop("op")
    pipeline.rpq_changes(dropped, query())


def test_a_bad_tuple_ends_a_stream_with_its_file_and_row(session, tmp_path):
    folder = incoming(tmp_path / "in", [("x", "y", "a", 1, "+"), ("y", "z", "b", 2, "?")])
    edges = session.readStream.schema(session.read.parquet(str(folder)).schema).parquet(str(folder))
    writer = pipeline.rpq_changes(edges, query()).writeStream.format("noop")
    stream = writer.option("checkpointLocation", str(tmp_path / "state")).trigger(availableNow=True).start()
    with pytest.raises(Exception, match="0.parquet") as caught:
        stream.awaitTermination()
    said = plain_message(caught.value)
    assert "/in/0.parquet: row 2: column 'op': '?' is not an operation" in said, said


WINDOW = ["--window", "10", "--slide", "5"]


REPLAY = ["replay", "a", *WINDOW, "--output", "rows", "--input"]
MISSING = ": there is no such file or folder"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([*REPLAY, "missing"], f"--input missing{MISSING}"),
        (["prepare", "--input", "missing/*.tsv", "--output", "rows"], f"--input missing/*.tsv{MISSING}"),
        (["stream", *REPLAY[1:], "missing", "--checkpoint", "state"], f"--input missing{MISSING}"),
        (
            [*REPLAY, "edges.csv"],
            "edges.csv: is not a Parquet file; expected a data set, or other Parquet files with its columns. Files of lines "
            "are prepared first: rpq spark prepare --input edges.csv --output DATA_SET",
        ),
        ([*REPLAY, "lines"], "rpq spark prepare --input lines --output DATA_SET"),
        ([*REPLAY, "empty"], "empty: the folder contains no files"),
        (["replay", "a/(b", *REPLAY[2:], "data"], "a/(b"),
        ([*REPLAY, "data", "--archives", "gone.tar.gz#env"], "archives: gone.tar.gz: there is no such file"),
        ([*REPLAY, "data"], "Spark needs Java 17 or newer; JAVA_HOME is"),
        ([*REPLAY, "s3a://in/data"], "Spark needs Java 17 or newer; JAVA_HOME is"),
    ],
)
def test_what_is_wrong_is_said_before_spark_starts(rpq, monkeypatch, tmp_path, words, said):
    """There is no Java here, which comes last."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    (tmp_path / "edges.csv").write_text("source,target,label,timestamp\nx,y,a,1\n")
    (tmp_path / "lines").mkdir()
    (tmp_path / "lines" / "edges.csv").write_text("source,target,label,timestamp\nx,y,a,1\n")
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "_rejected").mkdir()
    incoming(tmp_path / "data", [("x", "y", "a", 1)])
    status, _, err = rpq("spark", *words)
    assert status == 2 and said in " ".join(err.split()), err


def test_a_damaged_file_is_named_with_its_cause(session, tmp_path):
    """Whether Spark reads the columns from it or only a task reads it; and lines that somebody else's file system has."""
    whole = incoming(tmp_path / "in", [("x", "y", "a", 1, "+")]) / "0.parquet"
    for name in ("other.parquet", "last"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.parquet").write_bytes(whole.read_bytes()[:-50])
    (tmp_path / "last" / "0.parquet").write_bytes(whole.read_bytes())
    said = []
    for data, options in (("other.parquet", {}), ("last", {}), ("last", {"label": "a", "columns": "timestamp=timestamp"})):
        with pytest.raises(Exception) as caught:
            pipeline.replay(session, str(tmp_path / data), query(), **options).collect()
        said.append(plain_message(caught.value))
    assert all("1.parquet" in one and "not a parquet file" in one.lower() for one in said), said
    lines = tmp_path / "lines.csv"
    lines.write_text("source,target,label,timestamp\nx,y,a,1\n")
    with pytest.raises(PipelineError, match="lines.csv is not a Parquet file.*rpq spark prepare --input .*lines.csv"):
        pipeline.replay(session, str(lines), query())


def test_memory_is_that_of_all_engines_of_a_worker(monkeypatch):
    """Three shares in one worker: with little memory the others make room, and are built again when it is their turn."""
    question, keys = query("a*", size=1000), partition_keys(3)
    numbers = {key: number for number, key in enumerate(keys)}

    def run(limit: int | None) -> tuple[list[int], int]:
        cache = EngineCache()
        monkeypatch.setattr(processor, "cache", cache)
        testers = {key: TwsTester(AnswerChanges([question], numbers=numbers, memory_limit=limit)) for key in keys}
        for batch in range(3):
            columns = {"source": [str(n % 40) for n in range(400)], "target": [str(n * 7 % 41) for n in range(400)]}
            columns |= {"label": ["a"] * 400, "timestamp": [batch] * 400, "op": ["+"] * 400}
            (envelope,) = (one["edges"][0].as_py() for one in pack([pa.record_batch(columns)], [question]))
            for key, tester in testers.items():
                tester.testInPandas(key, pd.DataFrame({"edges": [envelope]}))
                engine = cache._idle[tester.peekValueState("record", key)[2]][1]
                if limit is not None:
                    assert engine._evaluation.guard.limit + cache.nbytes - engine_bytes(engine) == limit
        return [engine_bytes(engine) for _, engine in cache._idle.values()], sum(
            tester.peekValueState("record", key)[fields.index("rebuilds")] for key, tester in testers.items()
        )

    fields = [field.name for field in processor.fields(processor.PartitionRecord)]
    sizes, rebuilds = run(None)
    assert len(sizes) == 3 and rebuilds == 0
    sizes, rebuilds = run(2 * max(sizes) + 1000)
    assert len(sizes) < 3 and rebuilds > 0
    with pytest.raises(rpq.MemoryLimitError):
        run(10_000)


def test_an_active_session_keeps_its_settings(session):
    zone, shuffle = "spark.sql.session.timeZone", "spark.sql.shuffle.partitions"
    before = session.conf.get(zone)
    session.conf.set(zone, "Europe/Berlin")
    try:
        again = pipeline.open_session(master="local[1]")
        assert again is session and again.sparkContext.master == "local[2]"
        assert (again.conf.get(zone), again.conf.get(shuffle)) == ("Europe/Berlin", "2")
    finally:
        session.conf.set(zone, before)


def test_files_by_the_session(session, tmp_path):
    uri = f"file://{tmp_path}/a/b"
    assert not hadoop_files.exists(session, uri)
    assert hadoop_files.read_text(session, uri) is None
    for text in ("grün", "again"):
        hadoop_files.write_text(session, uri, text)
        assert hadoop_files.read_text(session, str(tmp_path / "a" / "b")) == text
    assert [name for name in hadoop_files.list_names(session, str(tmp_path / "a")) if not name.endswith(".crc")] == ["b"]
    assert hadoop_files.is_folder(session, f"file://{tmp_path}/a") and not hadoop_files.is_folder(session, uri)
    assert hadoop_files.qualify(session, str(tmp_path / "x")) == f"file:{tmp_path}/x"
    hadoop_files.remove(session, f"file://{tmp_path}/a")
    assert not (tmp_path / "a").exists()


@pytest.mark.long
def test_ctrl_c_ends_a_stream_cleanly(tmp_path):
    """With the status that says so, and a checkpoint that can be gone on with."""
    folder = incoming(tmp_path / "in", [("x", "y", "a", 1), ("y", "z", "b", 2)])
    places = ["--input", str(folder), "--output", str(tmp_path / "rows"), "--checkpoint", str(tmp_path / "state")]
    command = [sys.executable, "-m", "rpq.cli", "spark", "stream", "a/b*", "--window", "10", "--slide", "5", *places]
    process = subprocess.Popen([*command, "--master", "local[1]"], stderr=subprocess.PIPE, text=True)
    commits = tmp_path / "state" / "commits"
    while process.poll() is None and not (commits / "0").exists():
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    said = process.communicate()[1]
    assert process.returncode == 130, said
    assert "interrupted" in said and "Traceback" not in said
    assert sorted(row["target"] for row in pq.read_table(tmp_path / "rows").to_pylist()) == ["y", "z"]


@pytest.mark.long
def test_a_stream_goes_on_with_the_shares_it_was_begun_with(tmp_path):
    """On another number of cores too; other options are refused in a sentence that says which."""
    folder = incoming(tmp_path / "in", [("x", "y", "a", 1)])
    places = ["--input", str(folder), "--output", str(tmp_path / "rows"), "--checkpoint", str(tmp_path / "state")]
    command = [sys.executable, "-m", "rpq.cli", "spark", "stream", "--slide", "5", *places, "--once"]
    for more, status, message in (
        (["a/b*", "--window", "10", "--master", "local[2]"], 0, "end of the input"),
        (["a/b*", "--window", "10", "--master", "local[1]"], 0, "end of the input"),
        (["a/b*", "--window", "20", "--master", "local[1]"], 1, "window of query 'a/b*' was"),
    ):
        done = subprocess.run([*command, *more], capture_output=True, text=True, check=False)
        assert done.returncode == status and message in done.stderr, done.stderr
    assert json.loads((tmp_path / "state" / "rpq.json").read_text())["shares"] == 2


@pytest.mark.long
def test_a_task_with_several_cores_is_one_share_with_as_many_threads(tmp_path):
    folder = incoming(tmp_path / "in", [(f"v{n % 9}", f"v{n % 7}", "ab"[n % 2], n) for n in range(500)])
    command = [sys.executable, "-m", "rpq.cli", "spark", "replay", "a/b*", "--window", "50", "--slide", "5"]
    command += ["--input", str(folder), "--output", str(tmp_path / "rows"), "--stats", str(tmp_path / "stats")]
    command += ["--master", "local[2]", "--conf", "spark.task.cpus=2"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "by 1 share," in done.stderr, done.stderr
    rows = sorted(tuple(row.values()) for row in pq.read_table(tmp_path / "rows").to_pylist())
    engine = rpq.Engine(query(size=50))
    assert rows == sorted(map(tuple, engine.push(pq.read_table(folder / "0.parquet")).rows()))


@pytest.mark.long
def test_a_stream_goes_on_while_its_folder_is_empty(rpq_on_spark, tmp_path):
    """With the columns that its first files had."""
    folder = incoming(tmp_path / "in", [("x", "y", "a", 1)])
    places = ["--input", str(folder), "--output", str(tmp_path / "rows"), "--checkpoint", str(tmp_path / "state")]
    command = ["spark", "stream", "a/b*", *WINDOW, "--once", *places]
    status, _, said = rpq_on_spark(*command)
    assert status == 0, said
    (folder / "0.parquet").unlink()
    status, _, said = rpq_on_spark(*command)
    assert status == 0 and "tuples      0 in 0 micro-batches" in said, said
    (tmp_path / "state" / "rpq-files.json").write_text("{}")
    (tmp_path / "state" / ".rpq-files.json.crc").unlink()
    status, _, said = rpq_on_spark(*command)
    assert status == 1 and "rpq-files.json is damaged" in said
