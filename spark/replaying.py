"""Batch replay: answer changes of a prepared data set, or of any data frame of edges, the roots divided over tasks.

Every share gets all tuples that some query reads, packed (`rpq.spark.envelopes`), in the order of the stream, and has an
engine that answers for its part of the roots.  The rows are those of `rpq run` over the same data, whatever the number of
shares.  Nothing is read but by Spark, so that data may lie wherever Spark reads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import rpq
from rpq.spark import hadoop_files
from rpq.spark.change_schema import schema_of
from rpq.spark.classic import check_classic
from rpq.spark.edge_columns import UNITS, edge_columns, names_given, time_again
from rpq.spark.envelopes import PLACED_SCHEMA, PlacedPacker
from rpq.spark.errors import PipelineError
from rpq.spark.in_numbers import in_numbers
from rpq.spark.parquet_content import contents_writer
from rpq.spark.partitions import partition_keys
from rpq.spark.prepared import VERTICES, edges_in, statistics_in
from rpq.spark.shares import RowBatches, RowFiles, Share
from rpq.spark.slots import shares_of, task_threads
from rpq.spark.whole_files import are_whole, packed_files, vertex_of_tuples
from rpq.stream.durations import NANOSECONDS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from rpq.readers.column_names import ColumnNames

_TIMES = "us"


def replay(
    spark: SparkSession,
    data: str | DataFrame,
    *queries: rpq.Query,
    partitions: int | None = None,
    names: bool = False,
    memory_limit: int | None = None,
    sequence: str | None = None,
    time_unit: str | None = None,
    columns: str | None = None,
    label: str | None = None,
) -> DataFrame:
    """The answer changes of `queries` over the prepared data set `data`: query, source, target, timestamp, op.

    `data` is whatever URI Spark reads, or a data frame with the columns of edges (as `rpq_changes` takes it), whose tuples
    are put in the order of time first, ties by the integers of the column `sequence`.  Within a partition of the result rows
    are in time order.  `partitions` are the shares into which the roots are divided, one a task slot unless given; with
    `spark.task.cpus` each has as many threads.  With `names` the numbers of a data set prepared with ids become names again.
    `columns` and `label` are the names that the data has for the columns, as in `rpq_changes`.  `memory_limit` (bytes) is
    for each share.  Windows may be durations where timestamps are times, the data set tells the unit of its timestamps, or
    `time_unit` (s, ms, us, ns) does.  Raises `PipelineError` where something does not fit.

    >>> import rpq
    >>> from rpq.spark import open_session, replay
    >>> query = rpq.Query("a2q+", window=rpq.Window(size="30d", slide="1d"))
    >>> changes = replay(open_session(), "data", query, partitions=4)  # doctest: +SKIP
    >>> changes.columns  # doctest: +SKIP
    ['query', 'source', 'target', 'timestamp', 'op']
    """
    named = names_given(columns, label)
    asked = _asked(spark, data, queries, partitions, memory_limit, sequence, time_unit, named)
    changes = asked.envelopes.mapInArrow(RowBatches(asked.share), schema_of(queries, asked.vertex))
    if asked.is_time:
        changes = changes.withColumn("timestamp", time_again(asked.unit))
    if names:
        if not isinstance(data, str):
            raise PipelineError("names can be had only of a data set that was prepared with ids, not of a data frame")
        return _named(changes, queries[0].columns, hadoop_files.inside(data, VERTICES))
    return changes


def replay_to(
    spark: SparkSession,
    data: str | DataFrame,
    output: str,
    *queries: rpq.Query,
    partitions: int | None = None,
    memory_limit: int | None = None,
    sequence: str | None = None,
    time_unit: str | None = None,
    columns: str | None = None,
    label: str | None = None,
) -> dict[tuple[str, str], int]:
    """Write the rows of `replay` to the folder `output` as Parquet; how many there are by query and op.

    Several times as fast as to write the data frame, for the files are made by the tasks in Python: through the JVM goes
    their content.  `output` is whatever URI Spark writes to, and must not be there.  Options are those of `replay`.

    >>> import rpq
    >>> from rpq.spark import open_session, replay_to
    >>> query = rpq.Query("a2q+", window=rpq.Window(size="30d", slide="1d"))
    >>> replay_to(open_session(), "data", "rows", query)  # doctest: +SKIP
    {('a2q+', '+'): 1204, ('a2q+', '-'): 0}
    """
    from rpq.spark.counts import Counts

    named = names_given(columns, label)
    asked = _asked(spark, data, queries, partitions, memory_limit, sequence, time_unit, named)
    if hadoop_files.exists(spark, output):
        raise PipelineError(f"{output}: exists already; remove it or choose another name")
    counted = spark.sparkContext.accumulator(Counter({(query.name, op): 0 for query in queries for op in "+-"}), Counts())
    microseconds = NANOSECONDS[asked.unit] // NANOSECONDS["us"] if asked.is_time else None
    contents = asked.envelopes.mapInArrow(
        RowFiles(asked.share, counted=counted, microseconds=microseconds), "value string"
    )
    try:
        contents_writer(contents).text(output)  # files appear when all of them are whole
        if not hadoop_files.rename_endings(spark, output, ".txt", ".parquet"):
            none = spark.createDataFrame([], schema_of(queries, asked.vertex))
            if asked.is_time:
                none = none.withColumn("timestamp", time_again(asked.unit))
            none.write.mode("append").parquet(output)
    except BaseException:
        with suppress(Exception):
            spark.sparkContext.cancelAllJobs()
            hadoop_files.remove(spark, output)  # it was not there before
        raise
    return dict(counted.value)


class _Asked(NamedTuple):
    """A replay that can begin."""

    envelopes: DataFrame  # partition, file, row, edges: those of a partition in order
    share: Share
    vertex: str
    is_time: bool
    unit: str  # of the integers that times become


def _asked(
    spark: SparkSession,
    data: str | DataFrame,
    queries: Sequence[rpq.Query],
    partitions: int | None,
    memory_limit: int | None,
    sequence: str | None,
    time_unit: str | None,
    named: ColumnNames | None,
) -> _Asked:
    from pyspark.sql import functions as sql

    check_classic(spark)
    if not queries:
        raise PipelineError("no query: expected at least one rpq.Query")
    count = shares_of(spark, partitions)
    unit = time_unit if time_unit in UNITS else _TIMES
    stream = _packed(spark, data, queries, sequence=sequence, time_unit=time_unit, unit=unit, named=named)
    keys = partition_keys(count)
    every = sql.explode(sql.array(*[sql.lit(key).cast("int") for key in keys])).alias("partition")
    envelopes = (
        stream.envelopes.select(every, "file", "row", "edges")
        .repartition(count, "partition")
        .sortWithinPartitions("partition", "file", "row")
    )
    share = Share(
        stream.queries,
        numbers={key: number for number, key in enumerate(keys)},
        threads=task_threads(spark),
        memory_limit=memory_limit,
    )
    return _Asked(envelopes, share, stream.vertex, stream.is_time, unit)


class _Packed(NamedTuple):
    """The stream once, in envelopes with their places, and the queries with their windows in its numbers."""

    envelopes: DataFrame
    queries: Sequence[rpq.Query]
    vertex: str
    is_time: bool


def _packed(
    spark: SparkSession,
    data: str | DataFrame,
    queries: Sequence[rpq.Query],
    *,
    sequence: str | None,
    time_unit: str | None,
    unit: str,
    named: ColumnNames | None,
) -> _Packed:
    from pyspark.sql import functions as sql

    if not isinstance(data, str):
        columns = edge_columns(data, sequence=sequence, time_unit=unit, with_place=False, names=named)
        order = [sql.col(name) for name in ("timestamp", *(["sequence"] if sequence else []))]
        tuples = columns.tuples.orderBy(*order, sql.col("op") == "+")
        told = time_unit
    else:
        edges = edges_in(spark, data)
        told = time_unit or statistics_in(spark, data).get("time_unit")
        vertex = vertex_of_tuples(edges) if named is None and sequence is None else None
        if vertex is not None and are_whole(spark, data):
            known = in_numbers(queries, told)
            return _Packed(packed_files(spark, data, vertex, known), known, vertex, False)
        columns = edge_columns(edges, sequence=sequence, time_unit=unit, names=named)
        tuples = columns.tuples
    known = in_numbers(queries, unit if columns.is_time else told)
    return _Packed(tuples.mapInArrow(PlacedPacker(known), PLACED_SCHEMA), known, columns.vertex, columns.is_time)


def _named(changes: DataFrame, columns: Sequence[str], folder: str) -> DataFrame:
    from pyspark.sql import functions as sql

    if not hadoop_files.exists(changes.sparkSession, folder):
        raise PipelineError(f"{folder}: is missing; names can be had only of a data set that was prepared with ids")
    vertices = changes.sparkSession.read.parquet(folder)
    for column in columns:
        named = vertices.select(sql.col("id").alias(column), sql.col("name").alias(f"{column}_name"))
        changes = changes.join(named, column)
    return changes.select("query", *(sql.col(f"{column}_name").alias(column) for column in columns), "timestamp", "op")
