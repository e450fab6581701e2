"""Answer changes of a streaming DataFrame of edges.

The plan replicates every edge, packed in envelopes, to every root partition.  Each partition maintains the trees of its own
roots in a stateful processor (`rpq.spark.stream.processor`), which returns packed rows.  Users should know the following:

**Order.**  Spark guarantees no order within a micro-batch.  The tuples of a micro-batch are applied by timestamp; ties by
the sequence column if there is one, otherwise deletes before inserts.  The rows are those of the engine for the stream in
this order, whatever the number of partitions, and whatever happened between two micro-batches, such as the loss of a worker
or a restart from the checkpoint.  A different division into micro-batches gives a different order if tuples are out of order
across the boundaries of micro-batches.

**Late tuples.**  The stream time is the largest timestamp seen so far.  A tuple of a later micro-batch with a smaller
timestamp is applied on arrival while its timestamp is inside the window; an older insert is dropped and counted as `late`
in the state.  A delete is applied whatever its timestamp.  There are no other rules: a watermark set with `withWatermark`
neither drops tuples nor delays rows, and the result has no watermark.  `max_delay` does delay: tuples wait in the state
until the delay has passed.

**Time** advances with tuples.  Nothing expires while a stream is idle; a tuple with a label that no query uses serves as a
clock tick.

**State** needs the RocksDB state store.  The checkpoint records the queries, the number of shares and everything else that
rows depend on (`rpq.spark.stream.stream_identity`): a restart with other values is refused, except after `rescale`.  The
output mode is append, so any sink can be used.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import rpq
from rpq.spark import envelopes
from rpq.spark.columns import (
    Identity,
    drop_bad_tuples,
    edge_columns,
    edge_model,
    latest_timestamp,
    parse_column_names,
    property_names,
    queries_in_unit,
    row_schema,
    timestamps_as_times,
)
from rpq.spark.division import check_sizes, label_readers, partition_keys
from rpq.spark.envelopes import Packer, numbered_property
from rpq.spark.errors import PipelineError
from rpq.spark.jvm import hadoop_files
from rpq.spark.jvm.connect import check_classic
from rpq.spark.jvm.session import (
    STATE_STORE,
    STATE_STORE_KEY,
    share_count,
    task_threads,
    warn_of_shuffle_partitions,
)
from rpq.spark.jvm.shipped_files import equip_driver
from rpq.spark.record_edges import record_columns, rules_of
from rpq.spark.shipping import ship_value
from rpq.spark.stream import packed_rows, stream_identity
from rpq.spark.stream.packed_rows import RowUnpacker, observe_figures
from rpq.spark.stream.rescale import SINK_LOG, Move, plan_move
from rpq.spark.stream.stream_identity import check_supported
from rpq.stream.durations import DurationError, parse_duration

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from rpq.readers.column_names import ColumnNames
    from rpq.readers.text.edge_rules import EdgeRules


def rpq_changes(
    edges: DataFrame,
    *queries: rpq.Query,
    partitions: int | None = None,
    sequence: str | None = None,
    time_unit: str | None = None,
    on_error: str = "stop",
    memory_limit: int | None = None,
    checkpoint: str | None = None,
    output: str | None = None,
    counts: str | None = "rpq",
    max_delay: int | str = 0,
    columns: str | None = None,
    label: str | None = None,
    identity: Identity = "triple",
    sizes: Mapping[str, int] | None = None,
    edges_from: str | None = None,
) -> DataFrame:
    """Return the answer changes of `queries` over `edges`: query, columns of the queries (source, target), timestamp, op.

    `edges` has the columns source, target (both text, or both integers), label (text), timestamp (an integer, a
    timestamp or a date) and optionally op ("+" or "-") or delete (boolean); without op and delete, all tuples are inserts.
    Properties of edges that queries read are columns too, under their own names; other columns are ignored.  `time_unit`
    is the unit of integers, and without it windows over integers are integers.  Timestamps and dates become numbers in
    `time_unit` (s, ms or, by default, us); windows are durations or such numbers, and the rows have timestamps again.
    `sequence` is the name of an integer column that orders tuples of one timestamp.

    `columns` lists the names of these columns in `edges`, as in `rpq run`: "source=user,target=item,timestamp=ts".
    `label` is the label of all edges if there is no column for it.  `edges_from` is the path of a file of rules, as for
    `rpq run --edges-from`, in place of both: each row has several edges or none, with text as vertices.

    `identity` determines when two inserts are the same edge, like `edges` of `rpq.Engine`: with equal source, label and
    target, or never ("parallel"), or with equal values in the column `edge` ("id").  If an insert replaces an edge with its
    properties or its id, a `sequence` is required, because the last of several inserts of one timestamp counts.

    `partitions` is the number of shares into which the work is divided by root vertices, by default one per task slot of the
    cluster; each share has as many threads as a task has cores (`spark.task.cpus`).  The first start of a stream fixes
    `spark.sql.shuffle.partitions` as the number of its tasks; if this differs from the number of shares, a warning contains
    the setting to write.  `on_error="skip"` leaves out tuples with a null, an unknown op, text that is not UTF-8, or a
    timestamp whose sum with the size of a window exceeds 64 bits; otherwise they end the query.  `memory_limit` (bytes)
    applies to all engines of a process together: on Linux, the process of a share on an executor; elsewhere, a worker.

    With a `max_delay` (a duration, or a number in the unit of timestamps), tuples wait until a tuple has arrived that is
    later by this delay, and are applied in the order of time, whichever micro-batch they arrived in; a tuple that arrives
    after that is out of order, or late.  The last tuples of a stream wait for later tuples.

    `sizes` are numbers of edges by label, counted or estimated, by which [patterns are divided](#how-patterns-are-divided);
    without them all labels count as equally large.  A checkpoint records them: a stream that continues without `sizes` has
    those of before.

    `checkpoint` is the folder in which the stream will store its state, and `output` the folder of its rows.  If they are
    specified, everything that rows depend on is recorded in the checkpoint, and compared before Spark starts.  `counts` is
    the name of the figures in `StreamingQueryProgress.observedMetrics` (tuples, late tuples, rows, …; None: no figures);
    with `on_error="skip"`, `rpq_rejected` (after another name) has the number of bad tuples as `rejected`.
    Raises `PipelineError` for unsuitable columns, settings or checkpoints.

    >>> import rpq
    >>> from rpq.spark import open_session, rpq_changes
    >>> columns = "source string, target string, label string, timestamp timestamp"
    >>> edges = open_session().readStream.schema(columns).parquet("incoming")  # doctest: +SKIP
    >>> query = rpq.Query("a2q/c2a*", window=rpq.Window(size="30d", slide="1d"))
    >>> changes = rpq_changes(edges, query, partitions=4)  # doctest: +SKIP
    >>> changes.writeStream.option("checkpointLocation", "state").start("rows")  # doctest: +SKIP
    """
    from rpq.spark.stream.inspected import InspectedProcessor  # these import PySpark
    from rpq.spark.stream.processor import AnswerChanges

    check_supported(queries, identity)
    _check_ties(queries, identity, sequence)
    session = edges.sparkSession
    if checkpoint is not None:
        check_classic(session, "checkpoint=…", "leave it out (queries and shares are then compared when a micro-batch runs)")
    equip_driver(session)
    if on_error not in ("stop", "skip"):
        raise PipelineError(f"on_error is {on_error!r}; expected stop or skip")
    if session.conf.get(STATE_STORE_KEY, "") != STATE_STORE:
        raise PipelineError(
            f"the state needs RocksDB; set it with spark.conf.set({STATE_STORE_KEY!r}, {STATE_STORE!r}) "
            "or use the session of rpq.spark.open_session()"
        )
    shares = share_count(session, partitions)
    has_ids = identity == "id"
    names = parse_column_names(columns, label, has_ids=has_ids)
    properties = property_names(queries)
    rules = rules_of(edges_from, columns, label)
    options: Any = {"sequence": sequence, "time_unit": time_unit or "us", "properties": properties, "has_ids": has_ids}
    if rules is None:
        tuples, kind, is_time, types = edge_columns(edges, names=names, **options)
    else:
        tuples, kind, is_time, types = record_columns(edges, rules, stops=on_error == "stop", **options)
    keys = partition_keys(shares)
    unit = time_unit or ("us" if is_time else None)
    resolved_queries = queries_in_unit(queries, unit)
    if on_error == "skip":
        id_column = numbered_property(len(properties)) if has_ids else None
        tuples = drop_bad_tuples(tuples, latest=latest_timestamp(resolved_queries), id_column=id_column, counts=counts)
    model = edge_model(resolved_queries, identity, kind, time_unit=unit, properties=types, is_time=is_time)
    delay = _parse_delay(max_delay, unit)
    moved: Move | None = None
    known_sizes = check_sizes(sizes or {})
    if checkpoint is not None:
        if sizes is None:
            known_sizes = (stream_identity.read(session, checkpoint) or {}).get("sizes", {})
        about = stream_identity.describe_stream(
            resolved_queries,
            shares=shares,
            vertices=kind,
            time_unit=unit,
            is_time=is_time,
            sequence=sequence,
            on_error=on_error,
            sizes=known_sizes,
            max_delay=delay,
            columns=_columns_identity(names, label, rules),
            output=None if output is None else hadoop_files.qualify(session, output),
            edges=identity,
            properties=types,
        )
        content = stream_identity.begin(session, checkpoint, about)
        moved = None if content is None else plan_move(session, checkpoint, content, resolved_queries, keys, model)
    warn_of_shuffle_partitions(session, shares)
    processor = AnswerChanges(
        resolved_queries,
        numbers={key: number for number, key in enumerate(keys)},
        threads=task_threads(session),
        memory_limit=memory_limit,
        counts=counts is not None,
        max_delay=delay,
        moved=None if moved is None else ship_value(session, moved.state),
        edges=model,
        sizes=known_sizes,
    )
    every = keys if moved is None else [*keys, *moved.retired_keys]
    # A tuple that no query reads advances the time when it is applied, which is not known yet if it has to wait; if edges
    # have ids, an insert with any label may replace an edge.
    packer = Packer(None if delay or has_ids else label_readers(resolved_queries), model.columns)
    packed = (
        _replicate(tuples.mapInArrow(packer, envelopes.SCHEMA), every)
        .groupBy("partition")
        .transformWithStateInPandas(
            InspectedProcessor(processor),
            outputStructType=packed_rows.SCHEMA,
            outputMode="Append",
            timeMode="None",
        )
    )
    observed = packed if counts is None else observe_figures(packed, counts)
    rows = observed.mapInArrow(RowUnpacker(), row_schema(queries, kind, types, is_time=is_time))
    return rows.withColumn("timestamp", timestamps_as_times(time_unit or "us")) if is_time else rows


class WriterOptions(TypedDict, total=False):
    """The options of `rpq_changes`, except for the places of its state and its rows."""

    partitions: int | None
    sequence: str | None
    time_unit: str | None
    on_error: str
    memory_limit: int | None
    counts: str | None
    max_delay: int | str
    columns: str | None
    label: str | None
    identity: Identity
    sizes: Mapping[str, int] | None
    edges_from: str | None


class ChangesOptions(WriterOptions, total=False):
    """The options of `rpq_changes`."""

    checkpoint: str | None
    output: str | None


def stream_to(
    edges: DataFrame, output: str | None, *queries: rpq.Query, checkpoint: str, **options: Unpack[WriterOptions]
) -> DataStreamWriter:
    """Return a writer of the rows of `rpq_changes`, with its checkpoint; its `start()` begins or continues the stream.

    The rows go to Parquet files in the folder `output`, by Spark's file sink.  With None the writer has no sink yet: choose
    one by its `foreachBatch`, `format` or `toTable`.  The writer accepts a trigger and a name; other options are those of
    `rpq_changes`.  Raises `PipelineError` if the folder has the rows of a stream with another checkpoint.

    >>> import rpq
    >>> from rpq.spark import open_session, stream_to
    >>> columns = "source string, target string, label string, timestamp timestamp"
    >>> edges = open_session().readStream.schema(columns).parquet("incoming")  # doctest: +SKIP
    >>> query = rpq.Query("a2q/c2a*", window=rpq.Window(size="30d", slide="1d"))
    >>> writer = stream_to(edges, "rows", query, checkpoint="state")  # doctest: +SKIP
    >>> writer.trigger(availableNow=True).start().awaitTermination()  # doctest: +SKIP
    """
    check_supported(queries, options.get("identity", "triple"))
    _check_ties(queries, options.get("identity", "triple"), options.get("sequence"))
    check_classic(edges.sparkSession, "stream_to", "write the stream of rpq_changes, to files or with foreachBatch")
    if output is not None:
        _check_same_stream(edges.sparkSession, output, checkpoint)
    changes = rpq_changes(edges, *queries, checkpoint=checkpoint, output=output, **options)
    writer = changes.writeStream.option("checkpointLocation", checkpoint).outputMode("append")
    return writer if output is None else writer.format("parquet").option("path", output)


def _check_same_stream(session: SparkSession, output: str, checkpoint: str) -> None:
    """Raise `PipelineError` if a folder has the rows of a stream other than that of a checkpoint.

    Otherwise Spark's file sink would take the micro-batches of the new stream for written.
    """
    log = hadoop_files.join(output, SINK_LOG)
    if hadoop_files.exists(session, hadoop_files.join(checkpoint, "offsets")) or not hadoop_files.exists(session, log):
        return
    if any(name[0].isdecimal() for name in hadoop_files.list_names(session, log)):
        raise PipelineError(
            f"{output}: has the rows of another stream, and {checkpoint} is a new checkpoint: choose another folder, or use "
            "the checkpoint of these rows"
        )


def _columns_identity(names: ColumnNames | None, label: str | None, rules: EdgeRules | None) -> dict[str, str | None] | None:
    if rules is not None:
        return {"edges_from": rules.digest}
    return None if names is None else {"label constant": label, **dict(sorted(names.renamed))}


def _check_ties(queries: Sequence[rpq.Query], identity: str, sequence: str | None) -> None:
    """Raise `PipelineError` if an insert may replace one of the same timestamp, and no sequence orders the two."""
    properties = property_names(queries)
    if sequence is not None or identity == "parallel" or (identity == "triple" and not properties):
        return
    what = f"with its properties ({', '.join(properties)}) " if identity == "triple" else ""
    by = "its id" if identity == "id" else "its source, label and target"
    raise PipelineError(
        f"an insert replaces the edge with {by}, {what}and Spark does not keep the order of inserts of one timestamp: name "
        "a column of integers that orders them (sequence=…, --sequence), or let each insert be an edge of its own "
        "(identity='parallel', --edges parallel)"
    )


def _replicate(packed: DataFrame, keys: list[int]) -> DataFrame:
    """Return every envelope once for each partition key."""
    from pyspark.sql import functions as sql

    every = sql.array(*[sql.lit(key).cast("int") for key in keys])
    return packed.select(sql.explode(every).alias("partition"), "edges")


def _parse_delay(value: int | str, unit: str | None) -> int:
    """Return a delay in the unit of timestamps, which are plain numbers if `unit` is None."""
    try:
        delay = parse_duration(value, unit=unit) if isinstance(value, str) else operator.index(value)
    except (DurationError, TypeError) as error:
        raise PipelineError(f"max_delay is {value!r}: {error}") from error
    if delay < 0:
        raise PipelineError(f"max_delay is {value!r}; expected 0 or more")
    return delay
