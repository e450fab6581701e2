"""The writer of `stream_to`: its folder belongs to one checkpoint, its times are times, and its sink may be another."""

from __future__ import annotations

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

ROWS = [("x", "y", "a", 1), ("y", "z", "b", 2), ("z", "y", "b", 3)]
EXPECTED = Counter((target, time, "+") for target, time in (("y", 1), ("z", 2)))


@pytest.fixture
def edges(session, tmp_path: Path):
    """A stream of some edges, whose timestamps are times."""
    (tmp_path / "in").mkdir()
    columns = dict(zip(("source", "target", "label", "timestamp"), map(list, zip(*ROWS)), strict=True))
    pq.write_table(pa.table(columns), tmp_path / "in" / "0.parquet")
    schema = session.read.parquet(str(tmp_path / "in")).schema
    stream = session.readStream.schema(schema).parquet(str(tmp_path / "in"))
    return stream.selectExpr("source", "target", "label", "timestamp_seconds(timestamp) as timestamp")


QUERY = rpq.Query("a/b*", window=rpq.Window(size="40s", slide="5s"), name="q")


def test_rows_are_in_files_whose_folder_belongs_to_one_checkpoint(session, edges, tmp_path: Path) -> None:
    rows = str(tmp_path / "rows")
    writer = pipeline.stream_to(edges, rows, QUERY, checkpoint=str(tmp_path / "state"), time_unit="s")
    writer.trigger(availableNow=True).start().awaitTermination()
    found = session.read.parquet(rows)
    assert dict(found.dtypes)["timestamp"] == "timestamp"
    assert Counter(map(tuple, found.selectExpr("target", "unix_seconds(timestamp)", "op").collect())) == EXPECTED
    with pytest.raises(PipelineError, match="rows: has the rows of another stream, and .*/new is a new checkpoint"):
        pipeline.stream_to(edges, rows, QUERY, checkpoint=str(tmp_path / "new"), time_unit="s")
    assert not (tmp_path / "new").exists()


def test_another_sink_needs_the_checkpoint_once(edges, tmp_path: Path) -> None:
    batches: list[Counter] = []
    writer = pipeline.stream_to(edges, None, QUERY, checkpoint=str(tmp_path / "state"), time_unit="s")

    def collect(frame, number: int) -> None:
        batches.append(Counter(map(tuple, frame.selectExpr("target", "unix_seconds(timestamp)", "op").collect())))

    writer.foreachBatch(collect).trigger(availableNow=True).start().awaitTermination()
    assert sum(batches, Counter()) == EXPECTED
    assert (tmp_path / "state" / "rpq.json").exists() and (tmp_path / "state" / "commits" / "0").exists()


def test_time_unit_is_the_unit_of_integers_as_in_replays(session, tmp_path: Path) -> None:
    """Windows may be durations then; without it they are refused."""
    (tmp_path / "in").mkdir()
    columns = dict(zip(("source", "target", "label", "timestamp"), map(list, zip(*ROWS)), strict=True))
    pq.write_table(pa.table(columns), tmp_path / "in" / "0.parquet")
    data = session.read.parquet(str(tmp_path / "in"))
    stream = session.readStream.schema(data.schema).parquet(str(tmp_path / "in"))
    state, rows = str(tmp_path / "state"), str(tmp_path / "rows")
    with pytest.raises(PipelineError, match="timestamps are plain numbers: .*time_unit"):
        pipeline.stream_to(stream, rows, QUERY, checkpoint=state)
    writer = pipeline.stream_to(stream, rows, QUERY, checkpoint=state, time_unit="s", max_delay="0s")
    writer.trigger(availableNow=True).start().awaitTermination()
    replayed = data.transform(pipeline.changes(QUERY, time_unit="s"))
    assert session.read.parquet(rows).dtypes == replayed.dtypes
    assert Counter(map(tuple, session.read.parquet(rows).collect())) == Counter(map(tuple, replayed.collect()))
    assert replayed.count() == EXPECTED.total()
