"""Batch replay: answer changes of a prepared data set, the roots divided over tasks.

A task reads the data set itself, from beginning to end, with an engine that answers for its share of the roots.  No
edge is shuffled, and the rows are those of `rpq run` over the same folder, whatever the number of partitions.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

import rpq
from rpq.spark.change_schema import schema_of
from rpq.spark.errors import PipelineError
from rpq.spark.in_numbers import in_numbers
from rpq.spark.preparing import VERTICES, read_statistics, vertex_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PUSHED_ROWS = 1 << 14
"""Tuples pushed at once: their answer changes are in memory together."""

CHANGE_ROWS = 1 << 16
"""Answer changes handed to Spark at once."""


def replay(
    spark: SparkSession,
    data: str,
    *queries: rpq.Query,
    partitions: int | None = None,
    names: bool = False,
    memory_limit: int | None = None,
) -> DataFrame:
    """The answer changes of `queries` over the prepared data set `data`: query, source, target, timestamp, op.

    Every node must see the folder under this name.  Within a partition rows are in time order.  `partitions` is
    the number of cores unless given; each reads all edges and keeps a snapshot graph of its own.  With `names` the
    numbers of a data set prepared with ids become names again.  `memory_limit` (bytes) is for each partition.  Windows
    may be durations where the format of the data set tells the unit of its timestamps.

    >>> import rpq
    >>> from rpq.spark import open_session, replay
    >>> query = rpq.Query("a2q+", window=rpq.Window(size="30d", slide="1d"))
    >>> changes = replay(open_session(), "data", query, partitions=4)  # doctest: +SKIP
    >>> changes.columns  # doctest: +SKIP
    ['query', 'source', 'target', 'timestamp', 'op']
    """
    if not queries:
        raise PipelineError("no query: expected at least one rpq.Query")
    count = spark.sparkContext.defaultParallelism if partitions is None else partitions
    if count < 1:
        raise PipelineError(f"partitions is {count}; expected at least 1")
    data = os.path.abspath(data)
    kind = vertex_type(data)
    task = ShareReplayer(data, in_numbers(queries, read_statistics(data).get("time_unit")), count, memory_limit)
    changes = spark.range(0, count, 1, count).mapInArrow(task, schema_of(queries, kind))
    return _named(changes, queries[0].columns, os.path.join(data, VERTICES)) if names else changes


class ShareReplayer:
    """What a task runs: takes rows (id), the numbers of shares, and gives the answer changes of each share."""

    def __init__(self, data: str, queries: Iterable[rpq.Query], shares: int, memory_limit: int | None) -> None:
        self._data = data
        self._queries = tuple(queries)
        self._shares = shares
        self._memory_limit = memory_limit

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from rpq.readers import open_reader

        for batch in batches:
            for number in batch["id"].to_pylist():
                engine = rpq.Engine(*self._queries, share=(number, self._shares), memory_limit=self._memory_limit)
                for changes in engine.run(open_reader("edges", self._data, batch_rows=PUSHED_ROWS)):
                    yield from changes.to_arrow().to_batches(max_chunksize=CHANGE_ROWS)


def _named(changes: DataFrame, columns: Sequence[str], folder: str) -> DataFrame:
    from pyspark.sql import functions as sql

    if not os.path.isdir(folder):
        raise PipelineError(f"{folder}: is missing; names can be had only of a data set that was prepared with ids")
    vertices = changes.sparkSession.read.parquet(folder)
    for column in columns:
        named = vertices.select(sql.col("id").alias(column), sql.col("name").alias(f"{column}_name"))
        changes = changes.join(named, column)
    return changes.select("query", *(sql.col(f"{column}_name").alias(column) for column in columns), "timestamp", "op")
