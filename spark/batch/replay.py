"""Batch replay: the answer changes of a prepared data set, or of any data frame of edges, divided over tasks.

Every share receives the tuples that some query reads, for patterns only those of its cell (`rpq.spark.division`), packed in
envelopes (`rpq.spark.envelopes`) and in the order of the stream, and has an engine that answers for its roots and rows.
The rows are those of `rpq run` over the same data, whatever the number of shares.  Only Spark reads the data, from any
location that it supports.  If a data set is small, the driver packs it, and the tasks receive the envelopes with their
function.  Then a replay is a single step, and the command takes little longer than Spark's start.

Spark would read Parquet into rows, each with the name of its file, and convert them back to columns for Python, which takes
more than a microsecond per tuple.  A file whose columns are exactly those of tuples is therefore passed on as bytes, and a
task reads it with Arrow.  Large files are read as rows, because a single task would read the whole file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import pyarrow as pa
import pyarrow.parquet as pq

import rpq
from rpq.engine.engine import Engine
from rpq.errors import InputError, QueryError
from rpq.language.hypercube import Share
from rpq.language.readings import properties_of, refuse_edge_values
from rpq.rows.changes import Changes
from rpq.rows.typed_columns import kinds_of
from rpq.spark.columns import (
    TRIPLES,
    UNITS,
    EdgeModel,
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
from rpq.spark.division import EdgeDivision, check_sizes, label_readers, partition_keys, share_limit
from rpq.spark.envelopes import (
    DIVIDED_SCHEMA,
    PLACED_SCHEMA,
    ROWS,
    Divider,
    LabelReader,
    PlacedPacker,
    engine_columns,
    pack_file,
    unpack,
)
from rpq.spark.errors import PipelineError
from rpq.spark.jvm import hadoop_files
from rpq.spark.jvm.connect import check_classic, is_connect
from rpq.spark.jvm.data_sets import VERTICES, edges_in, file_sizes, schema_in, statistics_in
from rpq.spark.jvm.session import share_count, task_threads
from rpq.spark.jvm.shipped_files import equip_driver
from rpq.spark.parquet_content import ParquetContent, contents_writer
from rpq.spark.record_edges import record_columns, rules_of
from rpq.spark.shipping import ShippedObject, ShippedValue, ship_value
from rpq.stream.arrays.fields import DELETE, EDGE
from rpq.stream.arrays.plain_columns import TEXT, TEXTS, plain_type, with_plain_columns
from rpq.stream.durations import NANOSECONDS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

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
) -> DataFrame:
    """Return the answer changes of `queries` over the prepared data set `data`: query, source, target, timestamp, op.

    Queries of one call have the same columns, such as source, target and length.

    `data` is any URI that Spark reads, or a data frame with the columns of edges, as for `rpq_changes`.  The tuples of a
    data frame are first sorted by time, ties by the integers of the column `sequence`; those of files have their order.
    Rows within a partition of the result are in time order, except with `names`, by which the numbers of a data set prepared
    with ids are replaced by names again.  `partitions` is the number of shares into which queries are divided, by default
    one per task slot; each share has `spark.task.cpus` threads.

    `columns` and `label` are the names of the columns in the data, and `edges_from` is a file of rules, as in `rpq_changes`;
    with `edges="id"` the data has a column `edge` too, with the ids of edges.  `memory_limit` (bytes) applies to
    each share.  Windows may be durations if timestamps are times, if the data set records the unit of its timestamps, or if
    `time_unit` (s, ms, us, ns) specifies it.  Properties of edges that queries read are columns of the data, under their
    own names; with `edges="parallel"` each insert is an edge of its own, and with `edges="id"` each id is, as paths in time
    order require.  `sizes` are numbers of edges by label, by which patterns are divided, in place of those in the statistics
    of a prepared data set.  Raises `PipelineError` for unsuitable data or options.

    >>> import rpq
    >>> from rpq.spark import open_session, replay
    >>> query = rpq.Query("a2q+", window=rpq.Window(size="30d", slide="1d"))
    >>> changes = replay(open_session(), "data", query, partitions=4)  # doctest: +SKIP
    >>> changes.columns  # doctest: +SKIP
    ['query', 'source', 'target', 'timestamp', 'op']
    """
    named = parse_column_names(columns, label, has_ids=edges == "id")
    rules = rules_of(edges_from, columns, label)
    plan = _plan_replay(spark, data, queries, partitions, memory_limit, sequence, time_unit, named, edges, sizes, rules)
    changes = plan.apply(spark, RowBatches(plan.share), plan.schema)
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
    plan = _plan_replay(spark, data, queries, partitions, memory_limit, sequence, time_unit, named, edges, sizes, rules)
    if hadoop_files.exists(spark, output):
        raise PipelineError(f"{output}: exists already; remove it or choose another name")
    addition: Any = _RowCounts()  # not a subclass of a PySpark class, so that this module can be imported without PySpark
    row_counts = spark.sparkContext.accumulator(Counter({(query.name, op): 0 for query in queries for op in "+-"}), addition)
    microseconds = NANOSECONDS[plan.unit] // NANOSECONDS["us"] if plan.is_time else None
    row_files = RowFiles(plan.share, row_counts=row_counts, microseconds=microseconds)
    contents = plan.apply(spark, row_files, "value string")
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

    envelopes: DataFrame | Mapping[int, Sequence[bytes]]
    """Rows (partition, file, row, edges), in order within a partition, or the envelopes of a small data set by partition."""
    share: ReplayShare
    schema: str  # of the rows, as Spark writes it
    is_time: bool
    unit: str  # the unit of the integers to which times are converted

    def apply(self, spark: SparkSession, function: BatchFunction, schema: str) -> DataFrame:
        """Return the output of a function for `mapInArrow` over the envelopes, in a task for each share."""
        if not isinstance(self.envelopes, Mapping):
            return self.envelopes.mapInArrow(function, schema)
        values: dict[int, ShippedValue] = {}
        for envelopes in self.envelopes.values():
            if id(envelopes) not in values:  # shares of an undivided stream have the same envelopes
                values[id(envelopes)] = ship_value(spark, envelopes)
        shares = [(key, values[id(envelopes)]) for key, envelopes in self.envelopes.items()]
        return spark.range(0, len(shares), 1, len(shares)).mapInArrow(SuppliedShares(function, shares), schema)


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
) -> _Replay:
    from pyspark.sql import functions as sql

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
    unit = time_unit if time_unit in UNITS else _TIMES
    stream = _pack_stream(
        spark,
        data,
        queries,
        sequence=sequence,
        time_unit=time_unit,
        unit=unit,
        named=named,
        identity=identity,
        rules=rules,
    )
    if sizes is not None:
        stream = stream._replace(sizes=check_sizes(sizes))
    keys = partition_keys(count)
    division = EdgeDivision(stream.queries, count, stream.sizes, whole=identity == "id")
    divider = Divider(division.rows, keys) if division.is_divided else None
    envelopes: DataFrame | Mapping[int, Sequence[bytes]]
    if not isinstance(stream.envelopes, list):
        if divider is not None:
            copies = stream.envelopes.mapInArrow(divider, DIVIDED_SCHEMA)
        else:
            every = sql.explode(sql.array(*[sql.lit(key).cast("int") for key in keys])).alias("partition")
            copies = stream.envelopes.select(every, "file", "row", "edges")
        envelopes = copies.repartition(count, "partition").sortWithinPartitions("partition", "file", "row")
    elif divider is not None:
        divided = [batch["edges"].to_pylist() for batch in divider(stream.envelopes)]
        envelopes = {key: [parts[place] for parts in divided] for place, key in enumerate(keys)}
    else:
        whole = [edges for batch in stream.envelopes for edges in batch["edges"].to_pylist()]
        envelopes = dict.fromkeys(keys, whole)
    share = ReplayShare(
        stream.queries,
        numbers={key: number for number, key in enumerate(keys)},
        threads=task_threads(spark),
        memory_limit=memory_limit,
        edges=edge_model(
            queries, identity, time_unit=stream.unit, properties=stream.properties, is_time=stream.is_time
        ),
        sizes=stream.sizes,
    )
    schema = row_schema(queries, stream.vertex, stream.properties, is_time=stream.is_time)
    return _Replay(envelopes, share, schema, stream.is_time, unit)


class _PackedStream(NamedTuple):
    """One copy of the stream, as envelopes with their places, and the queries with windows in the unit of timestamps."""

    envelopes: DataFrame | list[pa.RecordBatch]  # batches of this process if the data set is small
    queries: Sequence[rpq.Query]
    vertex: str
    is_time: bool
    unit: str | None  # the unit of timestamps, if it is known
    properties: Mapping[str, str]  # the types of properties, as Spark writes them
    sizes: Mapping[str, int]  # the numbers of tuples by label, if the data set has recorded them


def _pack_stream(
    spark: SparkSession,
    data: str | DataFrame,
    queries: Sequence[rpq.Query],
    *,
    sequence: str | None,
    time_unit: str | None,
    unit: str,
    named: ColumnNames | None,
    identity: Identity,
    rules: EdgeRules | None,
) -> _PackedStream:
    from pyspark.sql import functions as sql

    has_ids = identity == "id"
    properties = property_names(queries)
    sizes: Mapping[str, int] = {}
    options: Any = {"sequence": sequence, "time_unit": unit, "properties": properties, "has_ids": has_ids}
    read: Callable[..., EdgeColumns] = partial(edge_columns, names=named, **options)
    if rules is not None:
        read = partial(record_columns, rules=rules, **options)
    if not isinstance(data, str):
        columns = read(data, with_place=False)
        order = [sql.col(name) for name in ("timestamp", *(["sequence"] if sequence else []))]
        tuples = columns.tuples.orderBy(*order, sql.col("op") == "+")
        timestamp_unit = time_unit
    else:
        statistics = statistics_in(spark, data)
        timestamp_unit = time_unit or statistics.get("time_unit")
        sizes = {label: int(one["tuples"]) for label, one in statistics.get("labels", {}).items()}
        is_plain = named is None and rules is None and not properties and not has_ids
        vertex = plain_vertex_type(schema_in(spark, data)) if is_plain else None
        if vertex is not None and can_read_whole(spark, data):
            resolved_queries = queries_in_unit(queries, timestamp_unit)
            envelopes = read_whole_files(spark, data, FilePacker(label_readers(resolved_queries), vertex))
            return _PackedStream(envelopes, resolved_queries, vertex, False, timestamp_unit, {}, sizes)
        columns = read(edges_in(spark, data, has_op=rules is None and has_usual_op(named)))
        tuples = columns.tuples
    timestamp_unit = unit if columns.is_time else timestamp_unit
    resolved_queries = queries_in_unit(queries, timestamp_unit)
    # If edges have ids, an insert with any label may replace an edge.
    readers = None if has_ids else label_readers(resolved_queries)
    packer = PlacedPacker(readers, [*properties, *([EDGE] if has_ids else [])])
    envelopes = tuples.mapInArrow(packer, PLACED_SCHEMA)
    kind, is_time = columns.vertex, columns.is_time
    return _PackedStream(envelopes, resolved_queries, kind, is_time, timestamp_unit, columns.properties, sizes)


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


PUSHED_ROWS = 1 << 14
"""The number of tuples pushed at once, whose answer changes are in memory together."""

CHANGE_ROWS = 1 << 16
"""The largest number of answer changes passed to Spark at once."""


class ReplayShare(ShippedObject):
    """The queries and settings with which the tasks of a replay run a share.

    `numbers` maps the keys of partitions to the numbers of shares; `memory_limit` (bytes) applies to each share.  `sizes`
    are the numbers of edges by label, which shape the division of patterns.
    """

    def __init__(
        self,
        queries: Sequence[rpq.Query],
        *,
        numbers: Mapping[int, int],
        threads: int,
        memory_limit: int | None,
        edges: EdgeModel = TRIPLES,
        sizes: Mapping[str, int] | None = None,
    ) -> None:
        self.queries = tuple(queries)
        self._sizes = dict(sizes or {})
        self._numbers = dict(numbers)
        self._threads = threads
        self._memory_limit = memory_limit
        self._edges = edges

    def rows(self, changes: Changes) -> pa.Table:
        """Return answer changes as a table, in which properties have the types of their columns."""
        return self._edges.cast(changes.to_arrow())

    def changes(
        self, batches: Iterable[pa.RecordBatch], *, at_end: Callable[[Engine], None] | None = None
    ) -> Iterator[Changes]:
        """Yield the answer changes of rows (partition, …, edges) of one or more partitions, one partition after the other.

        The tuples of a partition are envelopes in the order of the stream.  `at_end` is called with the engine of each
        partition after its last tuple.
        """
        key, engine = None, None
        for batch in batches:
            for partition, envelope in zip(batch["partition"].to_pylist(), batch["edges"], strict=True):
                if engine is None or partition != key:
                    if engine is not None and at_end is not None:
                        at_end(engine)
                    key, engine = partition, self._engine(self._numbers[partition])
                tuples = unpack([envelope.as_buffer()], keeps_order=True)
                table = engine_columns(tuples.table)
                for start in range(0, len(table), PUSHED_ROWS):
                    yield engine.push(table.slice(start, PUSHED_ROWS))
                if tuples.tick is not None and (engine.time is None or tuples.tick > engine.time):
                    yield engine.advance(tuples.tick)
        if engine is not None and at_end is not None:
            at_end(engine)

    def _engine(self, number: int) -> Engine:
        return Engine(
            *self.queries,
            share=Share.of(number, len(self._numbers), self._sizes),
            threads=self._threads,
            memory_limit=share_limit(self._memory_limit, threads=self._threads),
            **self._edges.engine_options,
        )


class RowBatches:
    """A function for `mapInArrow` that returns answer changes as batches of rows."""

    def __init__(self, share: ReplayShare) -> None:
        self._share = share

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for changes in self._share.changes(batches):
            yield from self._share.rows(changes).to_batches(max_chunksize=CHANGE_ROWS)


class RowFiles:
    """A function for `mapInArrow` that returns answer changes as the contents of Parquet files.

    The accumulator `row_counts` receives the numbers of rows by query and op; `microseconds` is that of `ParquetContent`.
    """

    def __init__(self, share: ReplayShare, *, row_counts: Any, microseconds: int | None) -> None:
        self._share = share
        self._row_counts = row_counts
        self._microseconds = microseconds

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        file = ParquetContent(microseconds=self._microseconds)
        found: Counter[tuple[str, str]] = Counter()

        def count(engine: Engine) -> None:
            for query in engine.queries:
                figures = engine.statistics(query.name)
                found.update({(query.name, "+"): figures.rows_added, (query.name, "-"): figures.rows_removed})

        for changes in self._share.changes(batches, at_end=count):
            if len(changes):
                file.write(self._share.rows(changes))
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


MAX_WHOLE_BYTES = 1 << 26
"""The size of the largest file that is read as a whole; three copies of the file are in memory for a moment."""

_TUPLE = {"source": None, "target": None, "label": "string", "timestamp": "bigint", "op": "string"}
_ARROW = {"bigint": pa.int64(), "string": pa.string()}


def plain_vertex_type(schema: StructType) -> str | None:
    """Return the type of the vertices if the columns of a table are exactly those of tuples, otherwise None."""
    kinds = {field.name: field.dataType.simpleString() for field in schema}
    vertex = kinds.get("source")
    is_plain = vertex in _ARROW and kinds == {name: kind or vertex for name, kind in _TUPLE.items()}
    return vertex if is_plain else None


def can_read_whole(session: SparkSession, data: str) -> bool:
    """Return whether the files at a URI contain all columns, with none in names of folders (`label=a`), and are small."""
    sizes = file_sizes(session, data)
    return max(sizes.values()) <= MAX_WHOLE_BYTES and not any("=" in uri for uri in sizes)


SMALL_BYTES = 1 << 23
"""The size of a data set that the driver packs, instead of a task: then a replay is a single step of Spark."""


def read_whole_files(session: SparkSession, data: str, pack: FilePacker) -> DataFrame | list[pa.RecordBatch]:
    """Return the tuples of the Parquet files at a URI as envelopes with places, in batches if the data set is small."""
    sizes = {} if is_connect(session) else file_sizes(session, data)
    if sizes and sum(sizes.values()) <= SMALL_BYTES:
        uris = sorted(sizes, key=hadoop_files.file_key)
        contents = ((uri, hadoop_files.last_bytes(session, uri, sizes[uri])) for uri in uris)
        return list(pack(pa.record_batch({"path": [uri], "content": [content]}) for uri, content in contents))
    files = session.read.format("binaryFile").option("recursiveFileLookup", True).load(data)
    return files.select("path", "content").mapInArrow(pack, PLACED_SCHEMA)


class SuppliedShares(ShippedObject):
    """A function for `mapInArrow` that receives numbers of shares, and applies another function to their envelopes.

    `shares` are the keys and envelopes of shares by number; a task fetches only those of its own shares.
    """

    def __init__(self, function: BatchFunction, shares: Sequence[tuple[int, ShippedValue]]) -> None:
        self._function = function
        self._shares = tuple(shares)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return self._function(self._supply(batches))

    def _supply(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for key, envelopes in map(self._shares.__getitem__, batch["id"].to_pylist()):
                for edges in envelopes.value:
                    yield pa.record_batch({"partition": [key], "edges": pa.array([edges], pa.binary())})


class FilePacker(ShippedObject):
    """A function for `mapInArrow` that turns whole Parquet files into envelopes with their places."""

    def __init__(self, queries: Sequence[LabelReader], vertex: str) -> None:
        self._queries = tuple(queries)
        self._types = {name: _ARROW[kind or vertex] for name, kind in _TUPLE.items()}

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for path, content in zip(batch["path"].to_pylist(), batch["content"], strict=True):
                tuples = self._tuples(path, pa.BufferReader(content.as_buffer()))
                yield from pack_file(tuples, path, self._queries)

    def _tuples(self, path: str, content: pa.BufferReader) -> Iterator[pa.Table]:
        try:
            with pq.ParquetFile(content) as file:
                self._check(path, file.schema_arrow)
                for batch in file.iter_batches(batch_size=ROWS, columns=list(self._types)):
                    tuples = pa.Table.from_batches([with_plain_columns(batch)]).select(list(self._types))
                    yield tuples.cast(pa.schema(list(self._types.items())))
        except (pa.ArrowInvalid, OSError) as problem:
            raise InputError(f"{path}: cannot be read as Parquet: {problem}", file=path) from problem

    def _check(self, path: str, schema: pa.Schema) -> None:
        """Raise `InputError` if a file has other columns than the file whose schema Spark has read."""
        if DELETE in schema.names:
            raise InputError(f"{path}: has a column {DELETE!r}, which other files lack", file=path, column=DELETE)
        for name, kind in self._types.items():
            place = schema.get_field_index(name)
            found = None if place < 0 else schema.field(place).type
            if found is None or not _has_type(found, kind):
                has = "is missing" if found is None else f"is of type {found}"
                raise InputError(f"{path}: column {name!r} {has}; other files have {kind}", file=path, column=name)


def _has_type(column_type: pa.DataType, kind: pa.DataType) -> bool:
    """Return whether a column type is an integer type, or text, according to `kind`."""
    column_type = plain_type(column_type)
    return bool(pa.types.is_integer(column_type)) if kind == pa.int64() else column_type in (TEXT, TEXTS)
