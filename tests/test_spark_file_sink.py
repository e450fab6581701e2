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
from rpq.spark.file_sink import FileSink
from rpq.spark.java import check_java
from rpq.spark.packed_rows import AsFiles
from rpq.spark.sink_log import SinkLog

try:
    check_java()
except PipelineError as missing:
    pytest.skip(str(missing), allow_module_level=True)

NAMES = ("source", "target", "label", "timestamp")
QUERY = rpq.Query("a/b*", window=rpq.Window(size=40, slide=5))


@pytest.fixture(scope="module")
def session():
    settings = {"spark.sql.streaming.fileSink.log.compactInterval": "3"}  # which looks whether the log has gaps
    made = pipeline.open_session(master="local[2]", settings=settings)
    yield made
    made.stop()


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
    assert not (folder / "rows" / "_writing").exists()


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


def test_a_stream_of_sparks_own_sink_goes_on(session, tmp_path):
    arrive(tmp_path / "in", range(4))
    places = {"checkpoint": str(tmp_path / "state"), "output": str(tmp_path / "rows")}
    writer = pipeline.rpq_changes(incoming(session, tmp_path), QUERY, **places).writeStream.format("parquet")
    writer = writer.option("checkpointLocation", places["checkpoint"]).trigger(availableNow=True)
    writer.start(places["output"]).awaitTermination()
    assert by_log(session, tmp_path) == by_files(tmp_path) == wanted(range(4))
    arrive(tmp_path / "in", range(4, 9))
    go_on(session, tmp_path)
    assert by_log(session, tmp_path) == by_files(tmp_path) == wanted(range(9))
    arrive(tmp_path / "in", range(9, 11))
    writer = pipeline.rpq_changes(incoming(session, tmp_path), QUERY, **places).writeStream.format("parquet")
    writer = writer.option("checkpointLocation", places["checkpoint"]).trigger(availableNow=True)
    writer.start(places["output"]).awaitTermination()
    assert by_log(session, tmp_path) == by_files(tmp_path) == wanted(range(11))


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
    (rows / "part-0000000002-00009.parquet").write_bytes(next(iter(before.values())))
    (rows / "_writing").mkdir()
    (rows / "_writing" / "part-00000-x.txt").write_text("left over")
    go_on(session, tmp_path)
    assert by_log(session, tmp_path) == by_files(tmp_path) == wanted(range(3))
    assert {path.name for path in rows.glob("*.parquet")} == set(before)


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
    contents = session.createDataFrame([], "value string")
    one, other = (FileSink(str(tmp_path / "rows"), empty="source string, timestamp bigint", is_time=False) for _ in "12")
    one(contents, 0)
    one(contents, 1)
    other(contents, 1)  # the same stream, that was not told of the end
    one(contents, 2)
    monkeypatch.setattr(SinkLog, "latest", 1)  # as it was when the other looked
    with pytest.raises(PipelineError, match="another stream writes to it, which has told of micro-batch 2"):
        other(contents, 2)


def test_large_files_are_ended(monkeypatch):
    monkeypatch.setattr(parquet_content, "FILE_BYTES", 2000)
    monkeypatch.setattr(parquet_content, "ROW_GROUP_ROWS", 40)
    table = pa.table({"source": [f"v{number * 7919 % 1000}" for number in range(400)], "timestamp": [*range(400)]})
    packer = AsFiles(microseconds=1000)()
    files = [file for start in range(0, 400, 20) for file in packer.packed(table.slice(start, 20))]
    files += [*packer.packed(table.slice(0, 0)), *packer.rest(), *packer.rest()]
    found = [pq.read_table(pa.BufferReader(file.rows + parquet_content.END_OF_FILE.encode())) for file in files]
    assert len(found) > 2 and [len(one) for one in found] == [file.row_count for file in files]
    whole = pa.concat_tables(found)
    assert whole["source"].to_pylist() == table["source"].to_pylist()
    assert whole["timestamp"].cast(pa.int64()).to_pylist() == [1000 * one for one in range(400)]
