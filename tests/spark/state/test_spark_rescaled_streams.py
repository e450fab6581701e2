"""Streams of files on a real Spark that go on with other shares and other queries; the rows of a local engine.

semantics.md S7, S9
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the extra spark is not installed")
pytest.importorskip("pandas")

import pyarrow as pa
import pyarrow.parquet as pq

import rpq
import rpq.spark as pipeline
from rpq.spark.errors import PipelineError
from rpq.spark.jvm.session import check_java

try:
    check_java()
except PipelineError as missing:
    pytest.skip(str(missing), allow_module_level=True)

NAMES = ("source", "target", "label", "timestamp", "op")
Row = tuple[str, str, str, int, str]
COMPACT_INTERVAL = "spark.sql.streaming.fileSink.log.compactInterval"


@pytest.fixture(scope="module")
def session(session):
    """The session of all tests; its file sinks compact their logs at every third micro-batch, which sees gaps in them."""
    session.conf.set(COMPACT_INTERVAL, "3")
    yield session
    session.conf.unset(COMPACT_INTERVAL)


def query(expression: str, *, size: int, **options: str) -> rpq.Query:
    return rpq.Query(expression, window=rpq.Window(size=size, slide=5), **options)


BEFORE = (query("a/b*", size=40, semantics="explicit"), query("b", size=40))
AFTER = (BEFORE[0], query("a+/b", size=30, semantics="explicit"))


def batch(number: int) -> list[Row]:
    """Some tuples with deletes, a micro-batch each."""
    made = []
    for place in range(30):
        n = number * 30 + place
        made.append((f"v{n % 7}", f"v{n * n % 11}", "aabc"[n % 4], n // 3, "-" if n % 9 == 8 else "+"))
    return made


def arrives(folder: Path, number: int) -> None:
    """Move a file into the folder of the stream."""
    folder.mkdir(exist_ok=True)
    columns = dict(zip(NAMES, map(list, zip(*batch(number), strict=True)), strict=True))
    pq.write_table(pa.table(columns), folder / f"{number}.parquet")
    os.utime(folder / f"{number}.parquet", (10**9 + number,) * 2)


def local_rows(engine: rpq.Engine, numbers: range) -> Counter:
    found: Counter = Counter()
    for number in numbers:
        ordered = sorted(batch(number), key=lambda row: (row[3], row[4] == "+"))
        found.update(map(tuple, engine.push_rows(ordered).rows()))
    return found


def rows_in(folder: Path) -> Counter:
    """The rows that a sink was told to have, file by file."""
    output = [
        json.loads(line)["path"]
        for log in (folder / "_spark_metadata").iterdir()
        if not log.name.startswith(".")
        for line in log.read_text().splitlines()[1:]
    ]
    assert output
    files = {path.removeprefix("file://") for path in output}
    return Counter(tuple(row.values()) for path in files for row in pq.read_table(path).to_pylist())


def test_other_shares_and_other_queries(session, tmp_path):
    places = {"checkpoint": str(tmp_path / "state"), "output": str(tmp_path / "rows")}

    def go_on(queries: tuple[rpq.Query, ...], shares: int) -> None:
        schema = session.read.parquet(str(tmp_path / "in")).schema
        edges = session.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
        writer = pipeline.stream_to(edges, places["output"], *queries, partitions=shares, checkpoint=places["checkpoint"])
        writer.trigger(availableNow=True).start().awaitTermination()

    engine, wanted = rpq.Engine(*BEFORE), Counter()
    for number in range(2):
        arrives(tmp_path / "in", number)
    go_on(BEFORE, 2)
    wanted += local_rows(engine, range(2))
    with pytest.raises(PipelineError, match=r"the number of shares was 2, is 3.*rpq spark rescale"):
        pipeline.rpq_changes(session.createDataFrame([batch(0)[0]], [*NAMES]), *BEFORE, partitions=3, **places)
    with pytest.raises(PipelineError, match=r"that no query has read \(label 'c'\)"):
        pipeline.rescale(session, places["checkpoint"], query("c", size=40))
    shares = 3
    if not hasattr(session, "_streamingCheckpointManager"):
        with pytest.raises(PipelineError, match=r"another number of shares needs Spark 4\.2 or newer"):
            pipeline.rescale(session, places["checkpoint"], *AFTER, partitions=3)
        shares = 2
    figures = pipeline.rescale(session, places["checkpoint"], *AFTER, partitions=shares)
    assert figures["shares"] == (2, shares) and figures["added"] == ["a+/b"]
    wanted.update(map(tuple, engine.register(AFTER[1]).rows()))
    engine.unregister("b")
    assert sum(wanted.values()) > sum(local_rows(rpq.Engine(*BEFORE), range(2)).values()), "nothing is there to begin with"
    for number in range(2, 4):
        arrives(tmp_path / "in", number)
    before = session.conf.get("spark.sql.shuffle.partitions")
    session.conf.set("spark.sql.shuffle.partitions", shares)
    try:
        go_on(AFTER, shares)
    finally:
        session.conf.set("spark.sql.shuffle.partitions", before)
    wanted += local_rows(engine, range(2, 4))
    assert rows_in(tmp_path / "rows") == wanted
    state = session.read.format("statestore").option("stateVarName", "record").load(places["checkpoint"])
    assert state.groupBy("partition_id").count().count() == shares == state.count()


@pytest.mark.long
def test_the_command_from_two_shares_to_five_to_one(tmp_path):
    """With queries of a file; a stream that is started as it was is told to be rescaled."""

    def call(*words: object, status: int = 0) -> str:
        command = [sys.executable, "-m", "rpq.cli", "spark", *map(str, words), "--master", "local[2]"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == status, done.stderr
        return done.stderr

    def written(name: str, queries: tuple[rpq.Query, ...]) -> Path:
        lines = [{"query": one.name, "window": one.window.size, "slide": 5, "semantics": one.semantics} for one in queries]
        (tmp_path / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
        return tmp_path / name

    before, after = written("before.jsonl", BEFORE), written("after.jsonl", AFTER)
    places = ["--input", tmp_path / "in", "--output", tmp_path / "rows", "--checkpoint", tmp_path / "state", "--once"]
    for number in range(3):
        arrives(tmp_path / "in", number)
    call("stream", "--queries", before, *places)
    engine = rpq.Engine(*BEFORE)
    wanted = local_rows(engine, range(3))
    assert "2 before, 5 now" in call("rescale", tmp_path / "state", "--partitions", 5)
    for number in range(3, 14):  # a file sink looks at all of its log at the tenth
        arrives(tmp_path / "in", number)
    call("stream", "--queries", before, *places)
    wanted += local_rows(engine, range(3, 14))
    assert "'b', which is missing now" in call("stream", "--queries", after, *places, status=1)
    output = call("rescale", tmp_path / "state", "--partitions", 1, "--queries", after)
    assert "5 before, 1 now" in output and "new         a+/b" in output and "removed     b" in output
    wanted.update(map(tuple, engine.register(AFTER[1]).rows()))
    engine.unregister("b")
    for number in range(14, 17):
        arrives(tmp_path / "in", number)
    call("stream", "--queries", after, *places)
    wanted += local_rows(engine, range(14, 17))
    assert rows_in(tmp_path / "rows") == wanted
    call("rescale", tmp_path / "state", status=2)
