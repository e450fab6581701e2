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

from typing import TYPE_CHECKING

import rpq
from rpq.spark.change_schema import schema_of
from rpq.spark.classic import check_classic
from rpq.spark.edge_columns import time_again
from rpq.spark.file_sink import FileSink, refuse_other_rows
from rpq.spark.packed_changes import packed_changes
from rpq.spark.packed_rows import RowUnpacker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter


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
    timestamp or a date) and optionally op ("+" or "-") or delete (boolean), without which all are inserts; others are not
    read.  Of a timestamp or date, windows are durations, or numbers in `time_unit` (s, ms, us), and the rows carry
    timestamps again.  `sequence` names an integer column that orders tuples of one timestamp.

    `columns` are the names that `edges` has for these, as in `rpq run`: "source=user,target=item,timestamp=ts", and `label`
    that of all edges where there is no column for it.

    `partitions` divides the work by root vertices: one share a task slot of the cluster unless given, with as many threads
    as a task has cores (`spark.task.cpus`).  The first start of a stream takes `spark.sql.shuffle.partitions` as the number
    of its tasks for good: a warning says what to write where that is another number.  `on_error="skip"` leaves out tuples
    with a null or an unknown op, which otherwise end the query.  `memory_limit` (bytes) is for all engines of a process:
    that of a share on an executor (on Linux), or a worker.

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
    changes = packed_changes(
        edges,
        queries,
        partitions=partitions,
        sequence=sequence,
        time_unit=time_unit,
        on_error=on_error,
        memory_limit=memory_limit,
        checkpoint=checkpoint,
        output=output,
        counts=counts,
        max_delay=max_delay,
        columns=columns,
        label=label,
        as_files=False,
    )
    rows = changes.rows.mapInArrow(RowUnpacker(), schema_of(queries, changes.vertex))
    return rows.withColumn("timestamp", time_again(time_unit)) if changes.is_time else rows


def stream_to(
    edges: DataFrame,
    output: str,
    *queries: rpq.Query,
    checkpoint: str,
    partitions: int | None = None,
    sequence: str | None = None,
    time_unit: str = "us",
    on_error: str = "stop",
    memory_limit: int | None = None,
    counts: str | None = "rpq",
    max_delay: int | str = 0,
    columns: str | None = None,
    label: str | None = None,
) -> DataStreamWriter:
    """A writer of the rows of `rpq_changes` to the folder `output` as Parquet: its `start()` begins the stream, or goes on.

    Much faster than to write the data frame, for the files are made by the tasks in Python: through the JVM goes their
    content.  `output` and `checkpoint` are whatever URIs Spark writes to.  The folder is that of a file sink of Spark's: its
    log (`_spark_metadata`) tells readers which files are whole, each micro-batch once; a stream that Spark's own sink has
    written so far goes on in it.  A trigger and a name may be given to the writer, other options are those of `rpq_changes`.

    >>> import rpq
    >>> from rpq.spark import open_session, stream_to
    >>> columns = "source string, target string, label string, timestamp timestamp"
    >>> edges = open_session().readStream.schema(columns).parquet("incoming")  # doctest: +SKIP
    >>> query = rpq.Query("a2q/c2a*", window=rpq.Window(size="30d", slide="1d"))
    >>> writer = stream_to(edges, "rows", query, checkpoint="state")  # doctest: +SKIP
    >>> writer.trigger(availableNow=True).start().awaitTermination()  # doctest: +SKIP
    """
    check_classic(edges.sparkSession)
    refuse_other_rows(edges.sparkSession, output, checkpoint)
    changes = packed_changes(
        edges,
        queries,
        partitions=partitions,
        sequence=sequence,
        time_unit=time_unit,
        on_error=on_error,
        memory_limit=memory_limit,
        checkpoint=checkpoint,
        output=output,
        counts=counts,
        max_delay=max_delay,
        columns=columns,
        label=label,
        as_files=True,
    )
    sink = FileSink(output, empty=schema_of(queries, changes.vertex), is_time=changes.is_time)
    contents = changes.rows.where("rows is not null").selectExpr("cast(rows as string) as value")
    return contents.writeStream.foreachBatch(sink).option("checkpointLocation", checkpoint).outputMode("append")
