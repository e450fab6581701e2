"""A stream that runs to the end of its input or until it is interrupted, as by `rpq spark stream`."""

from __future__ import annotations

import time
from array import array
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from rpq.spark.columns import quote_name, rejected_metric

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from rpq.readers.column_names import ColumnNames

COUNTS = "rpq"
"""The name of the figures in Spark's progress."""

LOOK_SECONDS = 0.2
"""How often a run looks whether its stream has ended."""

LATE_SHARE = 0.01
"""The share of late tuples above which a run ends with a warning."""


def run_stream(writer: DataStreamWriter, session: SparkSession, checkpoint: str, *, once: bool) -> dict[str, Any]:
    """Run a stream until no files are left (with `once`) or until it is interrupted, and return the figures."""
    started = time.perf_counter()
    query = (writer.trigger(availableNow=True) if once else writer).start()
    totals, ended = _Totals(), "end of the input"
    try:
        while query.isActive:
            time.sleep(LOOK_SECONDS)  # where Ctrl-C finds the program, and not in a call of the JVM
            totals.add_all(query)
        query.awaitTermination()  # which raises the error of the stream
    except KeyboardInterrupt:
        ended = "interrupted"
        query.stop()
    totals.add_all(query)
    seconds = sorted(totals.seconds)
    if totals.late > LATE_SHARE * totals.tuples:
        click.echo(
            f"warning: {totals.late:,} of {totals.tuples:,} tuples arrived too late for every window, and were dropped",
            err=True,
        )
    return {
        "ended": ended,
        "batches": len(seconds),
        "tuples": totals.tuples,
        "late": totals.late,
        "rejected": totals.rejected,
        "rows": totals.rows,
        "batch_seconds_median": seconds[len(seconds) // 2] if seconds else None,
        "batch_seconds_longest": seconds[-1] if seconds else None,
        "partitions": partition_records(session, checkpoint),
        "total_seconds": time.perf_counter() - started,
    }


def stream_summary(figures: dict[str, Any]) -> dict[str, str]:
    """Return the figures of a run as texts by their names; empty texts have nothing to say."""
    late = max((one["late"] for one in figures["partitions"]), default=0)
    counts = {name: sum(one[name] for one in figures["partitions"]) for name in ("hits", "catch_ups", "rebuilds")}
    median, longest = figures["batch_seconds_median"], figures["batch_seconds_longest"]
    return {
        "ended": figures["ended"],
        "tuples": f"{figures['tuples']:,} in {figures['batches']:,} micro-batches",
        "late": f"{late:,} in all" if late else "",
        "rejected": f"{figures['rejected']:,} bad tuples" if figures["rejected"] else "",
        "rows": f"{figures['rows']:,}" if figures["rows"] else "",
        "batches": f"{median:.1f} s, the longest {longest:.1f} s" if figures["batches"] else "",
        "index": f"reused {counts['hits']:,} times, caught up {counts['catch_ups']:,}, rebuilt {counts['rebuilds']:,}",
        "time": f"{figures['total_seconds']:.1f} s",
    }


class _Totals:
    """Figures of all micro-batches of a run so far, which may be millions: sums, and the seconds of each micro-batch."""

    def __init__(self) -> None:
        self.seconds = array("d")
        self.tuples = self.late = self.rejected = self.rows = 0
        self._latest = -1

    def add_all(self, query: StreamingQuery) -> None:
        """Add the micro-batches of a stream that have ended since the last call."""
        for progress in query.recentProgress:
            self._add(progress)

    def _add(self, progress: StreamingQueryProgress) -> None:
        """Add a micro-batch, unless it has no tuples or was added before."""
        if not progress.numInputRows or progress.batchId <= self._latest:
            return
        self._latest = progress.batchId
        counted = progress.observedMetrics.get(COUNTS)
        self.tuples += counted["tuples"] if counted else progress.numInputRows  # rows of text are lines, headers included
        self.late += counted["late"] if counted else 0
        rejected = progress.observedMetrics.get(rejected_metric(COUNTS))
        self.rejected += rejected["rejected"] if rejected else 0
        self.rows += counted["rows"] if counted else 0
        self.seconds.append(progress.durationMs.get("triggerExecution", 0) / 1000)


SAMPLE_TUPLES = 20_000
"""The number of tuples by which the labels of a new stream are counted."""


def label_sizes(edges: DataFrame, names: ColumnNames | None, labels: Sequence[str]) -> dict[str, int]:
    """Return how many of the first tuples of a data frame have each of some labels, at least one; none if no tuple has any.

    `names` are those of the columns.
    """
    if names is not None and names.constant_label is not None:
        return {}
    column = "label" if names is None else names["label"]
    counts = Counter(row[0] for row in edges.select(quote_name(column)).limit(SAMPLE_TUPLES).collect())
    return {label: max(counts[label], 1) for label in labels} if any(counts[label] for label in labels) else {}


def partition_records(session: SparkSession, checkpoint: str) -> list[dict[str, Any]]:
    """Return the figures of every partition in the state (`rpq.spark.stream.processor.PartitionRecord`), not the texts."""
    try:
        state = session.read.format("statestore").option("stateVarName", "record").load(checkpoint)
        rows = state.selectExpr("value.*").drop("history", "parts", "identity").collect()
    except Exception as error:  # a stream that has not finished a micro-batch has no state
        if not type(error).__module__.startswith("pyspark"):
            raise
        return []
    return [row.asDict() for row in rows]
