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
with `withWatermark` neither drops tuples nor delays rows here, and the result carries none.  A `max_delay` does: tuples
wait in the state until it has passed.

**Time** moves with tuples.  A stream that is quiet lets nothing expire; a tuple with a label that no query uses
serves as a clock tick.

**State** needs the RocksDB state store.  Queries, the number of shares and all else that rows depend on belong to the
checkpoint (`rpq.spark.stream_identity`): a restart with others is refused, but after `rescale`.  Output mode is append, so
that every sink will do.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

import rpq
from rpq.spark import envelopes, hadoop_files, packed_rows, stream_identity
from rpq.spark.carried import carried
from rpq.spark.change_schema import schema_of
from rpq.spark.classic import check_classic
from rpq.spark.edge_columns import edge_columns, names_given, time_again, without_bad
from rpq.spark.envelopes import Packer
from rpq.spark.errors import PipelineError
from rpq.spark.in_numbers import in_numbers
from rpq.spark.packed_rows import RowUnpacker
from rpq.spark.partitions import partition_keys
from rpq.spark.rescaling import Moving, moving
from rpq.spark.slots import shares_of, task_threads, warn_of_shuffle_partitions
from rpq.spark.spark_session import STATE_STORE, STATE_STORE_KEY
from rpq.spark.stream_counts import observed
from rpq.spark.unfit_for_streams import refuse_unfit
from rpq.stream.durations import DurationError, parse_duration

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def rpq_changes(
    edges: DataFrame,
    *queries: rpq.Query,
    partitions: int | None = None,
    sequence: str | None = None,
    time_unit: str = "us",
    on_error: str = "stop",
    memory_limit: int | None = None,
    checkpoint: str | None = None,
    output: str | None = None,
    counts: str | None = "rpq",
    max_delay: int | str = 0,
    columns: str | None = None,
    label: str | None = None,
) -> DataFrame:
    """The answer changes of `queries` over `edges`: columns query, those of the queries (source, target), timestamp, op.

    `edges` has the columns source, target (both text, or both integers), label (text), timestamp (an integer, a
    timestamp or a date) and optionally op ("+" or "-", without it all are inserts); others are not read.  Of a
    timestamp or date, windows are durations, or numbers in `time_unit` (s, ms, us), and the rows carry timestamps
    again.  `sequence` names
    an integer column that orders tuples of one timestamp.

    `columns` are the names that `edges` has for these, as in `rpq run`: "source=user,target=item,timestamp=ts", and `label`
    that of all edges where there is no column for it.

    `partitions` divides the work by root vertices: one share a task slot of the cluster unless given, with as many threads
    as a task has cores (`spark.task.cpus`).  The first start of a stream takes `spark.sql.shuffle.partitions` as the number
    of its tasks for good: a warning says what to write where that is another number.  `on_error="skip"` leaves out tuples
    with a null or an unknown op, which otherwise end the query.  `memory_limit` (bytes) is for all engines of a worker.

    With a `max_delay` (a duration, or a number in the unit of timestamps) tuples wait until one has come that is so much
    later, and are applied in the order of time whichever micro-batch brought them; what comes later than that is out of
    order, or late.  The last of a stream wait for more.

    `checkpoint` is where the stream will keep its state, and `output` what it will write to, if you say so: what rows depend
    on is then kept there, and compared before Spark starts anything.  `counts` is the name of the figures in
    `StreamingQueryProgress.observedMetrics` (tuples, late ones, rows, …; None: no figures).  Raises `PipelineError` where
    columns, settings or the checkpoint do not fit.

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
    check_classic(session)
    refuse_unfit(queries)
    if on_error not in ("stop", "skip"):
        raise PipelineError(f"on_error is {on_error!r}; expected stop or skip")
    if session.conf.get(STATE_STORE_KEY, "") != STATE_STORE:
        raise PipelineError(
            f"the state needs RocksDB; set it with spark.conf.set({STATE_STORE_KEY!r}, {STATE_STORE!r}) "
            "or take the session of rpq.spark.open_session()"
        )
    shares = shares_of(session, partitions)
    names = names_given(columns, label)
    tuples, kind, is_time = edge_columns(edges, sequence=sequence, time_unit=time_unit, names=names)
    if on_error == "skip":
        tuples = without_bad(tuples)
    keys = partition_keys(shares)
    known = in_numbers(queries, time_unit if is_time else None)
    delay = _delay(max_delay, time_unit if is_time else None)
    moved: Moving | None = None
    if checkpoint is not None:
        about = stream_identity.described(
            known,
            shares=shares,
            vertices=kind,
            time_unit=time_unit if is_time else None,
            sequence=sequence,
            on_error=on_error,
            max_delay=delay,
            columns=None if names is None else {"label constant": label, **dict(sorted(names.renamed))},
            output=None if output is None else hadoop_files.qualified(session, output),
        )
        content = stream_identity.begin(session, checkpoint, about)
        moved = None if content is None else moving(session, checkpoint, content, known, keys)
    warn_of_shuffle_partitions(session, shares)
    processor = AnswerChanges(
        known,
        numbers={key: number for number, key in enumerate(keys)},
        threads=task_threads(session),
        memory_limit=memory_limit,
        counts=counts is not None,
        max_delay=delay,
        moved=None if moved is None else carried(session, moved.state),
    )
    every = keys if moved is None else [*keys, *moved.retired]
    # What nobody reads tells the time at which it is applied, which is not known yet where it is to wait.
    packer = Packer(None if delay else known)
    packed = (
        _replicated(tuples.mapInArrow(packer, envelopes.SCHEMA), every)
        .groupBy("partition")
        .transformWithStateInPandas(
            processor,
            outputStructType=packed_rows.SCHEMA,
            outputMode="Append",
            timeMode="None",
        )
    )
    if counts is not None:
        packed = observed(packed, counts)
    changes = packed.mapInArrow(RowUnpacker(), schema_of(queries, kind))
    return changes.withColumn("timestamp", time_again(time_unit)) if is_time else changes


def _replicated(packed: DataFrame, keys: list[int]) -> DataFrame:
    """Every envelope once for each partition."""
    from pyspark.sql import functions as sql

    every = sql.array(*[sql.lit(key).cast("int") for key in keys])
    return packed.select(sql.explode(every).alias("partition"), "edges")


def _delay(given: int | str, unit: str | None) -> int:
    """A delay in the integers of timestamps, which have a unit or are plain numbers."""
    try:
        delay = parse_duration(given, unit=unit) if isinstance(given, str) else operator.index(given)
    except (DurationError, TypeError) as error:
        raise PipelineError(f"max_delay is {given!r}: {error}") from error
    if delay < 0:
        raise PipelineError(f"max_delay is {given!r}; expected 0 or more")
    return delay
