"""Answer changes of a streaming DataFrame of edges.

Every edge goes to every root partition; a partition keeps the trees of its own roots (`rpq.spark.processor`).  What a user
should know:

**Order.**  Spark gives no order within a micro-batch.  The tuples of one are applied by timestamp; ties by the
sequence column if one is named, else deletes before inserts.  The rows are those that the engine would give for the
stream so ordered, whatever the number of partitions, and whatever happened between two micro-batches: a worker lost, a
restart from the checkpoint.  Another cut into micro-batches is another order, if tuples are out of order across it.

**Late tuples.**  The stream time is the largest timestamp seen so far.  A tuple of a later micro-batch with a smaller
timestamp is applied as it comes while its timestamp is inside the window; an insert older than that is dropped
(counted as `late` in the state).  A delete is applied whatever its timestamp.  That is the only rule: a watermark set
with `withWatermark` neither drops tuples nor delays rows here, and the result carries none.

**Time** moves with tuples.  A stream that is quiet lets nothing expire; a tuple with a label that no query uses
serves as a clock tick.

**State** needs the RocksDB state store.  The number of partitions and the queries belong to the checkpoint: a restart
with others is refused.  Output mode is append, so that every sink will do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import rpq
from rpq.spark import envelopes
from rpq.spark.change_schema import schema_of
from rpq.spark.errors import PipelineError
from rpq.spark.in_numbers import in_numbers
from rpq.spark.partitions import partition_keys
from rpq.spark.spark_session import STATE_STORE, STATE_STORE_KEY
from rpq.stream.durations import NANOSECONDS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

_REQUIRED = ("source", "target", "label", "timestamp")
_UNITS = ("s", "ms", "us")


def rpq_changes(
    edges: DataFrame,
    *queries: rpq.Query,
    partitions: int | None = None,
    sequence: str | None = None,
    time_unit: str = "us",
    on_error: str = "stop",
    memory_limit: int | None = None,
) -> DataFrame:
    """The answer changes of `queries` over `edges`: columns query, those of the queries (source, target), timestamp, op.

    `edges` has the columns source, target (both text, or both integers), label (text), timestamp (an integer, a
    timestamp or a date) and optionally op ("+" or "-", without it all are inserts); others are not read.  Of a
    timestamp or date, windows are durations, or numbers in `time_unit` (s, ms, us), and the rows carry timestamps
    again.  `sequence` names
    an integer column that orders tuples of one timestamp.

    `partitions` divides the work by root vertices: the number of shuffle partitions unless given, and best the
    same.  `on_error="skip"` leaves out tuples with a null or an unknown op, which otherwise end the query.
    `memory_limit` (bytes) is for each partition.  Raises `PipelineError` where columns or settings do not fit.

    >>> import rpq
    >>> from rpq.spark import open_session, rpq_changes
    >>> columns = "source string, target string, label string, timestamp timestamp"
    >>> edges = open_session().readStream.schema(columns).parquet("incoming")  # doctest: +SKIP
    >>> query = rpq.Query("a2q/c2a*", window=rpq.Window(size="30d", slide="1d"))
    >>> changes = rpq_changes(edges, query, partitions=4)  # doctest: +SKIP
    >>> changes.writeStream.option("checkpointLocation", "state").start("rows")  # doctest: +SKIP
    """
    from rpq.spark.processor import AnswerChanges

    session = edges.sparkSession
    if not queries:
        raise PipelineError("no query: expected at least one rpq.Query")
    names = [query.name for query in queries]
    if len(set(names)) < len(names):
        raise PipelineError(f"two queries have the same name: {', '.join(names)}; give them different ones")
    if on_error not in ("stop", "skip"):
        raise PipelineError(f"on_error is {on_error!r}; expected stop or skip")
    if any(query.paths == "simple" and query.on_budget == "set_aside" for query in queries):
        raise PipelineError(
            "on_budget is 'set_aside': a worker that rebuilds its index from the window does not know which roots were; "
            "leave it at 'error', with a larger simple_budget"
        )
    for query in queries:
        if (report := getattr(query, "report", "change")) != "change":
            raise PipelineError(
                f"query {query.name!r}: report={report!r} does not run on a stream of Spark, whose state does not have the "
                "report before; leave it at 'change'"
            )
    if session.conf.get(STATE_STORE_KEY, "") != STATE_STORE:
        raise PipelineError(
            f"the state needs RocksDB; set it with spark.conf.set({STATE_STORE_KEY!r}, {STATE_STORE!r}) "
            "or take the session of rpq.spark.open_session()"
        )
    if partitions is None:
        partitions = int(session.conf.get("spark.sql.shuffle.partitions", "200") or 200)
    if partitions < 1:
        raise PipelineError(f"partitions is {partitions}; expected at least 1")
    tuples, kind, is_time = _tuples(edges, sequence=sequence, time_unit=time_unit)
    if on_error == "skip":
        tuples = _without_bad(tuples)
    keys = partition_keys(partitions)
    processor = AnswerChanges(
        in_numbers(queries, time_unit if is_time else None),
        numbers={key: number for number, key in enumerate(keys)},
        memory_limit=memory_limit,
    )
    changes = (
        _replicated(tuples.mapInArrow(envelopes.pack, envelopes.SCHEMA), keys)
        .groupBy("partition")
        .transformWithStateInPandas(
            processor,
            outputStructType=schema_of(queries, kind),
            outputMode="Append",
            timeMode="None",
        )
    )
    return changes.withColumn("timestamp", _time_again(time_unit)) if is_time else changes


def _replicated(packed: DataFrame, keys: list[int]) -> DataFrame:
    """Every envelope once for each partition."""
    from pyspark.sql import functions as sql

    every = sql.array(*[sql.lit(key).cast("int") for key in keys])
    return packed.select(sql.explode(every).alias("partition"), "edges")


def _tuples(edges: DataFrame, *, sequence: str | None, time_unit: str) -> tuple[DataFrame, str, bool]:
    """The columns of edges in the types of envelopes, the type of vertices, and whether timestamps were typed."""
    from pyspark.sql import functions as sql
    from pyspark.sql import types

    found: dict[str, DataType] = {field.name: field.dataType for field in edges.schema.fields}
    wanted = (*_REQUIRED, *([sequence] if sequence else []))
    for name in wanted:
        if name not in found:
            raise PipelineError(
                f"no column {name!r}: expected {', '.join(wanted)} and optionally op, found {', '.join(found)}"
            )
    kinds = {"bigint" if _is_integer(found[name]) else found[name].simpleString() for name in ("source", "target")}
    if kinds not in ({"bigint"}, {"string"}):
        raise PipelineError(
            f"source and target are of type {' and '.join(sorted(kinds))}; expected both integers or both text"
        )
    (kind,) = kinds
    for name in ("label", *(["op"] if "op" in found else [])):
        if not isinstance(found[name], types.StringType):
            raise PipelineError(f"column {name!r} is of type {found[name].simpleString()}; expected text")
    if sequence and not _is_integer(found[sequence]):
        raise PipelineError(f"column {sequence!r} is of type {found[sequence].simpleString()}; a sequence is an integer")
    is_time = isinstance(found["timestamp"], (types.TimestampType, types.TimestampNTZType, types.DateType))
    if not is_time and not _is_integer(found["timestamp"]):
        raise PipelineError(
            f"column 'timestamp' is of type {found['timestamp'].simpleString()}; expected an integer, a timestamp or a date"
        )
    if is_time and time_unit not in _UNITS:
        raise PipelineError(f"time_unit is {time_unit!r}; expected one of {', '.join(_UNITS)}")
    stamp: Column = _time_as_number(time_unit) if is_time else sql.col("timestamp").cast("bigint")
    columns = [
        sql.col("source").cast(kind),
        sql.col("target").cast(kind),
        sql.col("label"),
        stamp.alias("timestamp"),
        sql.col("op") if "op" in found else sql.lit("+").alias("op"),
    ]
    if sequence:
        columns.append(sql.col(sequence).cast("bigint").alias("sequence"))
    return edges.select(*columns), kind, is_time


def _is_integer(kind: Any) -> bool:
    from pyspark.sql import types

    return isinstance(kind, (types.ByteType, types.ShortType, types.IntegerType, types.LongType))


def _time_as_number(unit: str) -> Column:
    from pyspark.sql import functions as sql

    numbers = {"s": sql.unix_seconds, "ms": sql.unix_millis, "us": sql.unix_micros}
    return numbers[unit](sql.col("timestamp").cast("timestamp"))


def _time_again(unit: str) -> Column:
    from pyspark.sql import functions as sql

    return sql.timestamp_micros(sql.col("timestamp") * (NANOSECONDS[unit] // NANOSECONDS["us"]))


def _without_bad(tuples: DataFrame) -> DataFrame:
    from pyspark.sql import functions as sql

    good = sql.col("op").isin("+", "-")
    for name in tuples.columns:
        good = good & sql.col(name).isNotNull()
    return tuples.where(good)
