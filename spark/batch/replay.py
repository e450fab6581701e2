"""Batch replay: the answer changes of a prepared data set, or of any data frame of edges, divided over tasks.

A replay is divided by time: each task evaluates a chunk of the stream, after it has taken in what the windows need of the
tuples before (`rpq.spark.batch.chunks`).  Where time gives fewer chunks than there are tasks, the roots of each chunk are
divided, too, for patterns their edges as well (`rpq.spark.division`).  The rows are those of `rpq run` over the same data,
whatever the number of tasks.  Only Spark reads the data, from any location that it supports.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import pyarrow as pa

import rpq
from rpq.errors import QueryError
from rpq.language.readings import properties_of, refuse_edge_values
from rpq.rows.typed_columns import kinds_of
from rpq.run.time_division import TimeDivision
from rpq.spark.batch.chunks import PARTS_SCHEMA, PLACE, SLICES_SCHEMA, TIMES, ChunkEngines, Divider, Slicer, plan_chunks
from rpq.spark.batch.node_records import collect_nodes, property_types
from rpq.spark.columns import (
    Identity,
    check_supported_values,
    edge_columns,
    edge_model,
    has_usual_op,
    parse_column_names,
    property_names,
    queries_in_unit,
    quote_name,
    row_schema,
    timestamps_as_times,
)
from rpq.spark.division import EdgeDivision, check_sizes
from rpq.spark.errors import PipelineError
from rpq.spark.jvm import hadoop_files
from rpq.spark.jvm.connect import check_classic
from rpq.spark.jvm.data_sets import VERTICES, edges_in, statistics_in
from rpq.spark.jvm.session import share_count, task_threads
from rpq.spark.jvm.shipped_files import equip_driver
from rpq.spark.parquet_content import ParquetContent, contents_writer
from rpq.spark.record_edges import record_columns, rules_of
from rpq.stream.durations import NANOSECONDS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from rpq.readers.column_names import ColumnNames
    from rpq.readers.text.edge_rules import EdgeRules
    from rpq.spark.columns import EdgeColumns

_TIMES = "us"

BatchFunction = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""A function for `mapInArrow`."""


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
    edges: Identity = "triple",
    sizes: Mapping[str, int] | None = None,
    edges_from: str | None = None,
    nodes: DataFrame | None = None,
) -> DataFrame:
    """Return the answer changes of `queries` over the prepared data set `data`: query, source, target, timestamp, op.

    Queries of one call have the same columns, such as source, target and length.

    `data` is any URI that Spark reads, or a data frame with the columns of edges, as for `rpq_changes`.  The tuples of a
    data frame are first sorted by time, ties by the integers of the column `sequence`; those of files have their order.
    Rows within a partition of the result are in time order, except with `names`, by which the numbers of a data set prepared
    with ids are replaced by names again.  `partitions` is the largest number of tasks, by default one per task slot, each of
    which has `spark.task.cpus` threads.  A task evaluates a part of the time; if most windows are long for that, fewer parts
    of the time are divided by the roots of paths, or the edges of patterns, as well.  This call reads the data, to find the
    times at which to divide it.

    `columns` and `label` are the names of the columns in the data, and `edges_from` is a file of rules, as in `rpq_changes`;
    with `edges="id"` the data has a column `edge` too, with the ids of edges.  `memory_limit` (bytes) applies to
    each share.  Windows may be durations if timestamps are times, if the data set records the unit of its timestamps, or if
    `time_unit` (s, ms, us, ns) specifies it.  Properties of edges that queries read are columns of the data, under their
    own names; with `edges="parallel"` each insert is an edge of its own, and with `edges="id"` each id is, as paths in time
    order require.  `sizes` are numbers of edges by label, by which patterns are divided, in place of those in the statistics
    of a prepared data set.  `nodes` are records of nodes as `Engine.push_nodes` takes them, merged by time with the tuples;
    they pass through the driver, and each task has all.  Raises `PipelineError` for unsuitable data
    or options.

    >>> import rpq
    >>> from rpq.spark import open_session, replay
    >>> query = rpq.Query("a2q+", window=rpq.Window(size="30d", slide="1d"))
    >>> changes = replay(open_session(), "data", query, partitions=4)  # doctest: +SKIP
    >>> changes.columns  # doctest: +SKIP
    ['query', 'source', 'target', 'timestamp', 'op']
    """
    named = parse_column_names(columns, label, has_ids=edges == "id")
    rules = rules_of(edges_from, columns, label)
    of_data = (sequence, time_unit, named, edges, sizes, rules, nodes)
    plan = _plan_replay(spark, data, queries, partitions, memory_limit, *of_data)
    changes = plan.parts.mapInArrow(RowBatches(plan.engines), plan.schema)
    if plan.is_time:
        changes = changes.withColumn("timestamp", timestamps_as_times(plan.unit))
    if names:
        if not isinstance(data, str):
            raise PipelineError("names are available only for a data set that was prepared with ids, not for a data frame")
        return _with_names(changes, queries[0].columns, hadoop_files.join(data, VERTICES))
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
    edges: Identity = "triple",
    sizes: Mapping[str, int] | None = None,
    edges_from: str | None = None,
    nodes: DataFrame | None = None,
) -> dict[tuple[str, str], int]:
    """Write the rows of `replay` to the folder `output` as Parquet, and return the number of rows by query and op.

    This is several times as fast as writing the data frame of `replay`: the tasks write the files in Python, and the JVM
    only copies their content.  `output` is any URI that Spark can write to, and must not exist.  The options are those of
    `replay`.

    >>> import rpq
    >>> from rpq.spark import open_session, replay_to
    >>> query = rpq.Query("a2q+", window=rpq.Window(size="30d", slide="1d"))
    >>> replay_to(open_session(), "data", "rows", query)  # doctest: +SKIP
    {('a2q+', '+'): 1204, ('a2q+', '-'): 0}
    """
    check_classic(spark, "replay_to", "write the data frame of replay, replay(…).write.parquet(…)")
    named = parse_column_names(columns, label, has_ids=edges == "id")
    rules = rules_of(edges_from, columns, label)
    if hadoop_files.exists(spark, output):
        raise PipelineError(f"{output}: exists already; remove it or choose another name")
    of_data = (sequence, time_unit, named, edges, sizes, rules, nodes)
    plan = _plan_replay(spark, data, queries, partitions, memory_limit, *of_data)
    addition: Any = _RowCounts()  # not a subclass of a PySpark class, so that this module can be imported without PySpark
    row_counts = spark.sparkContext.accumulator(Counter({(query.name, op): 0 for query in queries for op in "+-"}), addition)
    microseconds = NANOSECONDS[plan.unit] // NANOSECONDS["us"] if plan.is_time else None
    contents = plan.parts.mapInArrow(RowFiles(plan.engines, row_counts, microseconds=microseconds), "value string")
    try:
        contents_writer(contents).text(output)  # files appear when all of them are complete
        if not hadoop_files.rename_endings(spark, output, ".txt", ".parquet"):
            none = spark.createDataFrame([], plan.schema)
            if plan.is_time:
                none = none.withColumn("timestamp", timestamps_as_times(plan.unit))
            none.write.mode("append").parquet(output)
    except BaseException:
        with suppress(Exception):
            spark.sparkContext.cancelAllJobs()
            hadoop_files.remove(spark, output)  # it did not exist before
        raise
    return dict(row_counts.value)


def check_query_columns(queries: Iterable[rpq.Query], edges: str, where: str) -> None:
    """Raise `QueryError` for queries that need properties or ids of edges, which an input does not have.

    `where` names the input, as in "on Spark".

    >>> query = rpq.Query("a+", window=rpq.UnboundedWindow(), order="increasing")
    >>> check_query_columns([query], "parallel", "on Spark")
    """
    for query in queries:
        if edges == "triple" or properties_of(query):
            refuse_edge_values([query], where)


class _Replay(NamedTuple):
    """The plan of a replay."""

    parts: DataFrame
    """The parts of slices, a partition for each task, in order within it (`PARTS_SCHEMA`)."""
    engines: ChunkEngines
    schema: str  # of the rows, as Spark writes it
    is_time: bool
    unit: str  # the unit of the integers to which times are converted


def _plan_replay(
    spark: SparkSession,
    data: str | DataFrame,
    queries: Sequence[rpq.Query],
    partitions: int | None,
    memory_limit: int | None,
    sequence: str | None,
    time_unit: str | None,
    named: ColumnNames | None,
    identity: Identity,
    sizes: Mapping[str, int] | None,
    rules: EdgeRules | None,
    nodes: DataFrame | None,
) -> _Replay:
    if identity not in get_args(Identity):
        raise PipelineError(f"edges is 'triple', 'parallel' or 'id', not {identity!r}")
    try:
        check_supported_values(queries, identity)
    except QueryError as error:
        raise PipelineError(str(error)) from error
    if not queries:
        raise PipelineError("no query: expected at least one rpq.Query")
    if sequence is not None and isinstance(data, str):
        raise PipelineError(
            f"sequence is {sequence!r}, which orders the tuples of a data frame, but files define the order of theirs: "
            f"leave it out, or pass spark.read.parquet({data!r})"
        )
    count = share_count(spark, partitions)
    equip_driver(spark)
    unit = time_unit or _TIMES
    tuples = _read_tuples(spark, data, queries, sequence, time_unit, unit, named, identity, rules)
    sizes = tuples.sizes if sizes is None else check_sizes(sizes)
    columns, resolved_queries = tuples.columns, tuples.queries
    division: TimeDivision | None
    try:
        division = TimeDivision(resolved_queries)
    except QueryError:  # the roots alone are divided
        division = None
    has_ids = identity == "id"  # an insert with any label may replace an edge, so every task needs all tuples
    slicer = Slicer(resolved_queries, [*columns.properties], division, whole=has_ids)
    # Slices are evaluated twice, and must be the same: they remain on the executors until the result is discarded.
    slices = columns.tuples.mapInArrow(slicer, SLICES_SCHEMA).localCheckpoint(eager=False)
    of_slices = slices.select(*PLACE, *TIMES).orderBy(*PLACE).collect()
    plan = plan_chunks([row.asDict() for row in of_slices], division, most=count)
    shares = count // len(plan.chunks)
    properties = {**columns.properties, **({} if nodes is None else property_types(nodes))}
    engines = ChunkEngines(
        resolved_queries,
        plan.chunks,
        shares=shares,
        threads=task_threads(spark),
        memory_limit=memory_limit,
        edges=edge_model(
            queries, identity, columns.vertex, time_unit=tuples.unit, properties=properties, is_time=columns.is_time
        ),
        sizes=sizes,
        nodes=None if nodes is None else collect_nodes(nodes, vertex=columns.vertex, unit=unit, is_time=columns.is_time),
    )
    parts = {(row["file"], row["row"]): of_slice for row, of_slice in zip(of_slices, plan.parts, strict=True)}
    divider = Divider(parts, engines.keys, shares, EdgeDivision(resolved_queries, shares, sizes, whole=has_ids))
    divided = slices.mapInArrow(divider, PARTS_SCHEMA).repartition(len(engines.keys), "partition")
    schema = row_schema(queries, columns.vertex, properties, is_time=columns.is_time)
    in_order = divided.sortWithinPartitions("partition", *PLACE, "is_own")
    return _Replay(in_order, engines, schema, columns.is_time, unit)


class _Tuples(NamedTuple):
    """The tuples in the order of the stream, or with their places, and the queries with windows in their unit."""

    columns: EdgeColumns
    queries: Sequence[rpq.Query]
    unit: str | None  # the unit of timestamps, if it is known
    sizes: Mapping[str, int]  # the numbers of tuples by label, if the data set has recorded them


def _read_tuples(
    spark: SparkSession,
    data: str | DataFrame,
    queries: Sequence[rpq.Query],
    sequence: str | None,
    time_unit: str | None,
    unit: str,
    named: ColumnNames | None,
    identity: Identity,
    rules: EdgeRules | None,
) -> _Tuples:
    from pyspark.sql import functions as sql

    options: Any = {"sequence": sequence, "time_unit": unit, "properties": property_names(queries)}
    options["has_ids"] = identity == "id"
    read: Callable[..., EdgeColumns] = partial(edge_columns, names=named, **options)
    if rules is not None:
        read = partial(record_columns, rules=rules, **options)
    sizes: Mapping[str, int] = {}
    if isinstance(data, str):
        statistics = statistics_in(spark, data)
        timestamp_unit = time_unit or statistics.get("time_unit")
        sizes = {label: int(one["tuples"]) for label, one in statistics.get("labels", {}).items()}
        columns = read(edges_in(spark, data, has_op=rules is None and has_usual_op(named)))
    else:
        timestamp_unit = time_unit
        columns = read(data, with_place=False)
        order = [sql.col(name) for name in ("timestamp", *(["sequence"] if sequence else []))]
        columns = columns._replace(tuples=columns.tuples.orderBy(*order, sql.col("op") == "+"))
    if "row" not in columns.tuples.columns:
        places = {"file": sql.lit(None).cast("string"), "row": sql.monotonically_increasing_id()}
        columns = columns._replace(tuples=columns.tuples.withColumns(places))
    timestamp_unit = unit if columns.is_time else timestamp_unit
    return _Tuples(columns, queries_in_unit(queries, timestamp_unit, has_nodes=True), timestamp_unit, sizes)


def _with_names(changes: DataFrame, columns: Sequence[str], folder: str) -> DataFrame:
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as sql

    try:
        vertices = changes.sparkSession.read.parquet(folder)
        vertices.schema  # noqa: B018  # Spark Connect looks for the files here
    except AnalysisException as missing:
        raise PipelineError(
            f"{folder}: is missing; names are available only for a data set that was prepared with ids"
        ) from missing
    ends = [column for column, kind in zip(columns, kinds_of(columns), strict=True) if kind == "vertex"]
    for column in ends:
        named = vertices.select(sql.col("id").alias(column), sql.col("name").alias(f"{column}_name"))
        changes = changes.join(named, column, "left")  # in a row of OPTIONAL a vertex may be missing
    shown = [sql.col(f"{one}_name").alias(one) if one in ends else sql.col(quote_name(one)) for one in columns]
    return changes.select("query", *shown, "timestamp", "op")


CHANGE_ROWS = 1 << 16
"""The largest number of answer changes passed to Spark at once."""


class RowBatches:
    """A function for `mapInArrow` that returns answer changes as batches of rows."""

    def __init__(self, engines: ChunkEngines) -> None:
        self._engines = engines

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for changes in self._engines.changes(batches):
            yield from self._engines.rows(changes).to_batches(max_chunksize=CHANGE_ROWS)


class RowFiles:
    """A function for `mapInArrow` that returns answer changes as the contents of Parquet files.

    The accumulator `row_counts` receives the numbers of rows by query and op; `microseconds` is that of `ParquetContent`.
    """

    def __init__(self, engines: ChunkEngines, row_counts: Any, *, microseconds: int | None) -> None:
        self._engines = engines
        self._row_counts = row_counts
        self._microseconds = microseconds

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        file = ParquetContent(microseconds=self._microseconds)
        found: Counter[tuple[str, str]] = Counter()
        for changes in self._engines.changes(batches):
            if len(changes):
                rows = self._engines.rows(changes)
                file.write(rows)
                counts = rows.group_by(["query", "op"]).aggregate([([], "count_all")])
                found.update({(one["query"], one["op"]): one["count_all"] for one in counts.to_pylist()})
            if file.is_full:
                yield _as_text(file.finish())
                file = ParquetContent(microseconds=self._microseconds)
        if file.rows:
            yield _as_text(file.finish())
        self._row_counts.add(found)


def _as_text(content: pa.Buffer) -> pa.RecordBatch:
    """Return a batch with one value: bytes declared as text, which Spark's text sink writes unchanged."""
    ends = pa.py_buffer(pa.array([0, content.size], pa.int32()).buffers()[1])
    return pa.RecordBatch.from_arrays([pa.StringArray.from_buffers(1, ends, content)], ["value"])


class _RowCounts:
    """The sum of counters by (query, op): an accumulator parameter of Spark, which calls the methods by name."""

    def zero(self, value: Counter[tuple[str, str]]) -> Counter[tuple[str, str]]:
        """Return an empty counter."""
        return Counter()

    def addInPlace(  # noqa: N802  # PySpark's name
        self, value1: Counter[tuple[str, str]], value2: Counter[tuple[str, str]]
    ) -> Counter[tuple[str, str]]:
        """Add the second counter to the first, and return it."""
        value1.update(value2)
        return value1
