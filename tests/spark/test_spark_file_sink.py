"""The folder that a stream writes its rows to: each micro-batch once, by Spark's log of it and by its files alone."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the extra spark is not installed")
pytest.importorskip("pandas")

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

import rpq
import rpq.spark as pipeline
from rpq.spark import parquet_content
from rpq.spark.errors import PipelineError
from rpq.spark.jvm.session import check_java
from rpq.spark.stream.file_sink import FileSink, SinkLog
from rpq.spark.stream.packed_rows import FilePacking

try:
    check_java()
except PipelineError as missing:
    pytest.skip(str(missing), allow_module_level=True)

NAMES = ("source", "target", "label", "timestamp")
QUERY = rpq.Query("a/b*", window=rpq.Window(size=40, slide=5))
COMPACT_INTERVAL = "spark.sql.streaming.fileSink.log.compactInterval"


@pytest.fixture(scope="module")
def session(session):
    """The session of all tests; its file sinks compact their logs at every third micro-batch, which sees gaps in them."""
    session.conf.set(COMPACT_INTERVAL, "3")
    yield session
    session.conf.unset(COMPACT_INTERVAL)


def batch(number: int, *, labels: str = "ab") -> list[tuple[str, str, str, int]]:
    """Tuples of a micro-batch, in the order of time."""
    chooser = random.Random(number)
    return [
        (f"v{chooser.randrange(12)}", f"v{chooser.randrange(12)}", chooser.choice(labels), 30 * number + place // 2)
        for place in range(60)
    ]


def arrive(folder: Path, numbers: Iterable[int], **options: str) -> None:
    """Files of micro-batches, in the order of their ages."""
    folder.mkdir(exist_ok=True)
    for number in numbers:
        columns = zip(*batch(number, **options), strict=True)
        pq.write_table(pa.table(dict(zip(NAMES, map(list, columns), strict=True))), folder / f"{number}.parquet")
        os.utime(folder / f"{number}.parquet", (10**9 + number,) * 2)


def incoming(session, folder: Path):
    schema = session.read.parquet(str(folder / "in")).schema
    return session.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))


def go_on(session, folder: Path) -> None:
    """Take in what is new."""
    writer = pipeline.stream_to(incoming(session, folder), str(folder / "rows"), QUERY, checkpoint=str(folder / "state"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    assert not [*(folder / "rows").glob("_writing*")]


def wanted(numbers: Iterable[int]) -> Counter:
    engine = rpq.Engine(QUERY)
    return Counter(tuple(row) for number in numbers for row in engine.push_rows(batch(number)).rows())


def by_log(session, folder: Path) -> Counter:
    """The rows as Spark reads them."""
    return Counter(map(tuple, session.read.parquet(str(folder / "rows")).collect()))


def by_files(folder: Path) -> Counter:
    """The rows as a reader finds them that knows of files alone."""
    names = [str(path) for path in (folder / "rows").glob("*.parquet")]
    return Counter(tuple(row.values()) for row in ds.dataset(names).to_table().to_pylist())


@pytest.mark.long
def test_a_stream_of_sparks_own_sink_goes_on(session, tmp_path):
    arrive(tmp_path / "in", range(3))
    places = {"checkpoint": str(tmp_path / "state"), "output": str(tmp_path / "rows")}
    writer = pipeline.rpq_changes(incoming(session, tmp_path), QUERY, **places).writeStream.format("parquet")
    writer = writer.option("checkpointLocation", places["checkpoint"]).trigger(availableNow=True)
    writer.start(places["output"]).awaitTermination()
    assert by_log(session, tmp_path) == by_files(tmp_path) == wanted(range(3))
    arrive(tmp_path / "in", range(3, 6))
    go_on(session, tmp_path)
    assert by_log(session, tmp_path) == by_files(tmp_path) == wanted(range(6))
    arrive(tmp_path / "in", range(6, 7))
    writer = pipeline.rpq_changes(incoming(session, tmp_path), QUERY, **places).writeStream.format("parquet")
    writer = writer.option("checkpointLocation", places["checkpoint"]).trigger(availableNow=True)
    writer.start(places["output"]).awaitTermination()
    assert by_log(session, tmp_path) == by_files(tmp_path) == wanted(range(7))


def test_what_has_to_be_done_again_is_there_once(session, tmp_path):
    """A driver that was lost before it told of the end of a micro-batch, and one that was lost while it wrote."""
    arrive(tmp_path / "in", range(3))
    go_on(session, tmp_path)
    rows, state = tmp_path / "rows", tmp_path / "state"
    before = {path.name: path.read_bytes() for path in rows.glob("*.parquet")}
    for name in ("2", ".2.crc"):
        (state / "commits" / name).unlink(missing_ok=True)
    go_on(session, tmp_path)
    assert {path.name: path.read_bytes() for path in rows.glob("*.parquet")} == before
    # Now it had neither told its log.
    for name in ("2", ".2.crc"):
        (state / "commits" / name).unlink(missing_ok=True)
    for log in (rows / "_spark_metadata").iterdir():
        if log.name.strip(".").split(".")[0] == "2":
            log.unlink()
    (rows / "part-0000000002-00009-x.parquet").write_bytes(next(iter(before.values())))
    (rows / "_writing-x").mkdir()
    (rows / "_writing-x" / "part-00000-x.txt").write_text("left over")
    go_on(session, tmp_path)
    assert by_log(session, tmp_path) == by_files(tmp_path) == wanted(range(3))
    assert len([*rows.glob("*.parquet")]) == len(before)


def sink_of(folder: Path) -> FileSink:
    return FileSink(str(folder / "rows"), empty="query string, source string, timestamp bigint", is_time=False)


def contents(session, *names: str):
    """A micro-batch of a file with these rows."""
    packer = FilePacking(microseconds=None)()
    table = pa.table({"query": ["q"] * len(names), "source": names, "timestamp": [1] * len(names)})
    (file,) = [*packer.add(table), *packer.finish()]
    return session.createDataFrame([(bytearray(file.rows),)], "rows binary").selectExpr("cast(rows as string) as value")


def found(session, folder: Path) -> tuple[list[str], list[str]]:
    """The sources of the rows as Spark reads them, and as one does who looks at files alone."""
    by_spark = session.read.parquet(str(folder / "rows")).toPandas()["source"]
    by_name = ds.dataset([str(path) for path in (folder / "rows").glob("*.parquet")]).to_table()["source"]
    return sorted(by_spark), sorted(by_name.to_pylist())


def test_of_two_drivers_at_one_micro_batch_one_counts(session, tmp_path, monkeypatch):
    """One is slow, another is started in its place: whoever tells the log first has written it, as a whole."""
    slow, other = sink_of(tmp_path), sink_of(tmp_path)
    slow(contents(session, "before"), 0)
    moved, add = [], SinkLog.add

    def late(log, number, files):
        if not moved:  # it has moved its file, when the other begins
            moved.extend((tmp_path / "rows").glob("part-0000000001-*.parquet"))
            other(contents(session, "x", "y"), 1)
        return add(log, number, files)

    monkeypatch.setattr(SinkLog, "add", late)
    with pytest.raises(PipelineError, match="another stream writes to it and has committed micro-batch 1"):
        slow(contents(session, "y", "x"), 1)
    assert len(moved) == 1 and not moved[0].exists()
    assert found(session, tmp_path) == (["before", "x", "y"], ["before", "x", "y"])
    other(contents(session, "z"), 2)
    assert found(session, tmp_path) == (["before", "x", "y", "z"], ["before", "x", "y", "z"])


@pytest.mark.parametrize("is_told", [False, True])
def test_what_a_driver_leaves_that_dies_before_it_has_tidied_up_goes(session, tmp_path, monkeypatch, is_told):
    sink_of(tmp_path)(contents(session, "before"), 0)
    add = SinkLog.add

    def dies(log, number, files):
        if is_told:
            add(log, number, files)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(SinkLog, "add", dies)
        sink_of(tmp_path)(contents(session, "x"), 1)
    (tmp_path / "rows" / "part-0000000001-00000-older.parquet").write_bytes(b"of an attempt before")
    sink_of(tmp_path)(contents(session, "x"), 1)
    assert found(session, tmp_path) == (["before", "x"], ["before", "x"])


def test_folders_of_similar_names_are_left_alone(session, tmp_path):
    """Whatever a name would mean where wildcards are read."""
    for name in ("rows[ab]", "rowsa", "rows*"):
        FileSink(str(tmp_path / name), empty="", is_time=False)(contents(session, name), 0)
    FileSink(str(tmp_path / "rows[ab]"), empty="", is_time=False)(contents(session, "again"), 0)
    (tmp_path / "rows[ab]").rename(tmp_path / "rows")
    assert [len([*(tmp_path / name).glob("*.parquet")]) for name in ("rows", "rowsa", "rows*")] == [1, 1, 1]


def test_a_folder_belongs_to_one_checkpoint(session, tmp_path):
    """A new one, or an old copy of it, would have micro-batches that the folder has already: they would not be written."""
    arrive(tmp_path / "in", range(2))
    go_on(session, tmp_path)
    edges = incoming(session, tmp_path)
    with pytest.raises(PipelineError, match="rows: has the rows of another stream, and .*/new is a new checkpoint"):
        pipeline.stream_to(edges, str(tmp_path / "rows"), QUERY, checkpoint=str(tmp_path / "new"))
    assert not (tmp_path / "new").exists()
    with pytest.raises(PipelineError, match="has micro-batches up to 1, but the next one is number 0"):
        sink_of(tmp_path)(contents(session, "x"), 0)
    assert by_log(session, tmp_path) == by_files(tmp_path) == wanted(range(2))


@pytest.mark.long
def test_a_stream_without_rows_has_a_schema(session, tmp_path):
    arrive(tmp_path / "in", range(2), labels="c")
    go_on(session, tmp_path)
    found = session.read.parquet(str(tmp_path / "rows"))
    columns = [("query", "string"), ("source", "string"), ("target", "string"), ("timestamp", "bigint"), ("op", "string")]
    assert found.dtypes == columns and found.count() == 0
    assert len([*(tmp_path / "rows").glob("*.parquet")]) == 1, "a file says it, once"
    arrive(tmp_path / "in", range(2, 4))
    go_on(session, tmp_path)
    assert by_log(session, tmp_path) == by_files(tmp_path) == wanted(range(2, 4))
    assert session.read.parquet(str(tmp_path / "rows")).dtypes == columns


@pytest.mark.long
def test_times_are_times_again(session, tmp_path):
    from pyspark.sql import functions as sql

    arrive(tmp_path / "in", range(1))
    edges = incoming(session, tmp_path).withColumn("timestamp", sql.timestamp_seconds("timestamp"))
    query = rpq.Query("a/b*", window=rpq.Window(size="40s", slide="5s"))
    for unit, name in (("s", "seconds"), ("ms", "milliseconds")):
        places = {"checkpoint": str(tmp_path / f"state of {name}"), "time_unit": unit}
        writer = pipeline.stream_to(edges, str(tmp_path / name), query, **places)
        writer.trigger(availableNow=True).start().awaitTermination()
        found = session.read.parquet(str(tmp_path / name))
        assert dict(found.dtypes)["timestamp"] == "timestamp"
        rows = found.selectExpr("query", "source", "target", "unix_seconds(timestamp)", "op").collect()
        assert Counter(map(tuple, rows)) == wanted(range(1))


def test_two_streams_do_not_write_to_one_folder(session, tmp_path, monkeypatch):
    """The one that is second to tell of a micro-batch ends, and its rows are not told of."""
    none = session.createDataFrame([], "value string")
    one, other = sink_of(tmp_path), sink_of(tmp_path)
    one(none, 0)
    one(none, 1)
    other(none, 1)  # the same stream, that was not told of the end
    one(none, 2)
    monkeypatch.setattr(SinkLog, "latest", 1)  # as it was when the other looked
    with pytest.raises(PipelineError, match="another stream writes to it and has committed micro-batch 2"):
        other(none, 2)


def test_large_files_are_ended(monkeypatch):
    monkeypatch.setattr(parquet_content, "FILE_BYTES", 2000)
    monkeypatch.setattr(parquet_content, "ROW_GROUP_ROWS", 40)
    table = pa.table({"source": [f"v{number * 7919 % 1000}" for number in range(400)], "timestamp": [*range(400)]})
    packer = FilePacking(microseconds=1000)()
    files = [file for start in range(0, 400, 20) for file in packer.add(table.slice(start, 20))]
    files += [*packer.add(table.slice(0, 0)), *packer.finish(), *packer.finish()]
    found = [pq.read_table(pa.BufferReader(file.rows + parquet_content.END_OF_FILE.encode())) for file in files]
    assert len(found) > 2 and [len(one) for one in found] == [file.row_count for file in files]
    whole = pa.concat_tables(found)
    assert whole["source"].to_pylist() == table["source"].to_pylist()
    assert whole["timestamp"].cast(pa.int64()).to_pylist() == [1000 * one for one in range(400)]


def test_row_groups_end_by_bytes_too(monkeypatch):
    """So that files of long names do not grow far beyond where they should end."""
    monkeypatch.setattr(parquet_content, "FILE_BYTES", 20_000)
    monkeypatch.setattr(parquet_content, "ROW_GROUP_BYTES", 10_000)
    chooser = random.Random(1)
    packer, sizes = FilePacking(microseconds=None)(), []
    for number in range(300):
        table = pa.table({"source": [chooser.randbytes(200).hex()], "timestamp": [number]})
        sizes += [len(file.rows) for file in packer.add(table)]
    assert len(sizes) > 2 and max(sizes) < 40_000
