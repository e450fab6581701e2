"""A stream that runs to the end of its input or until it is interrupted, as by `rpq spark stream`."""

from __future__ import annotations

import time
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

import rpq
from rpq.readers.text.line_layout import INTEGER
from rpq.spark.columns import Identity, quote_name
from rpq.spark.console import REFRESH_SECONDS, Progress, exit_status, summary_text
from rpq.spark.errors import PipelineError
from rpq.spark.jvm import hadoop_files
from rpq.spark.jvm.data_sets import lacks_op, with_op_of_files
from rpq.spark.stream.plan import stream_to
from rpq.stream.arrays.fields import time_kind

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery

    from rpq.readers.column_names import ColumnNames

COUNTS = "rpq"
"""The name of the figures in Spark's progress."""

LATE_SHARE = 0.01
"""The share of late tuples above which a run ends with a warning."""

_OF_ENDING: Mapping[str, Mapping[str, str]] = {
    "csv": {"sep": ",", "unescapedQuoteHandling": "SKIP_VALUE"},
    "tsv": {"sep": "\t"},
}
"""Layouts by the ending of files.  Text behind the quote that ends a field is an error between commas, where the value
becomes null, and a part of the field between tabs."""

_TEXT_LAYOUT: Mapping[str, Any] = {
    "header": True,
    "escape": '"',
    "multiLine": True,
    "enforceSchema": False,
    "columnPruning": False,
}
"""The layout of text files as in `rpq.readers.text`: quotes in a field are doubled, and such a field may span lines.

Without `enforceSchema` Spark compares the header of each file with the columns; otherwise it would go by their order.
Without `columnPruning` it counts the fields of a row, which it otherwise does not if some column is not read.
"""


_MAX_FILE_AGE = "365d"
"""How much older than the newest file that was read a file may be when it appears; older ones are ignored.

By default Spark ignores files that are a week older, such as copies that keep the time of the original.  It has the names of
all files of this age in memory.
"""


class Stream:
    """A stream of queries over a streaming DataFrame of edges, into a folder of Parquet files."""

    def __init__(
        self,
        edges: DataFrame,
        queries: Sequence[rpq.Query],
        *,
        partitions: int,
        sequence: str | None,
        time_unit: str | None,
        on_error: str,
        checkpoint: str,
        output: str,
        max_delay: str = "0",
        columns: str | None = None,
        label: str | None = None,
        identity: Identity = "triple",
        sizes: Mapping[str, int] | None = None,
        edges_from: str | None = None,
    ) -> None:
        self._session = edges.sparkSession
        self._checkpoint = checkpoint
        self._writer = stream_to(
            edges,
            output,
            *queries,
            checkpoint=checkpoint,
            partitions=partitions,
            sequence=sequence,
            time_unit=time_unit or "us",
            on_error=on_error,
            counts=COUNTS,
            max_delay=max_delay,
            columns=columns,
            label=label,
            identity=identity,
            sizes=sizes,
            edges_from=edges_from,
        )

    @staticmethod
    def edges(
        session: SparkSession,
        folder: str,
        files: str,
        max_files: int,
        *,
        timestamps: Collection[str] = ("timestamp",),
        sequence: str | None = None,
        on_error: str = "stop",
        has_op: bool = True,
    ) -> tuple[DataFrame, Callable[[], DataFrame]]:
        """Return a stream of the files that appear in a folder, the oldest first, with the columns of the existing files.

        Return also the existing files as a data frame.  In text files the first value determines whether the columns
        `timestamps` contain integers or times, and the column `sequence` contains integers.  A line of them that is no row
        with these columns ends the stream, or is left out if `on_error` is "skip".  With `has_op` the column op of Parquet
        is that of each file (`with_op_of_files`).
        """
        if not hadoop_files.is_folder(session, folder):
            raise PipelineError(f"{folder}: there is no such folder")
        now = session.read
        later = session.readStream.option("maxFilesPerTrigger", max_files).option("maxFileAge", _MAX_FILE_AGE)
        names = hadoop_files.list_names(session, folder)
        if not any(name.endswith(files) and not name.startswith(("_", ".")) for name in names):
            raise PipelineError(f"{folder}: has no .{files} file yet; the first file determines the columns")
        if files == "parquet":
            existing = now.parquet(folder)
            if has_op and lacks_op(existing.schema):
                return with_op_of_files(later, folder, existing.schema), lambda: existing
            return later.schema(existing.schema).parquet(folder), lambda: existing
        layout = {**_TEXT_LAYOUT, **_OF_ENDING[files]}
        text = now.options(**layout).csv(folder)
        if not text.columns:
            raise PipelineError(f"{folder}: its .{files} files are empty; expected a header")
        first, last = text.columns[0], text.columns[-1]
        named = text.withColumnRenamed(first, _without_mark(first))
        types = {name: _kind_of_times(named, name, folder) for name in timestamps}
        if sequence is not None:
            types[sequence] = "bigint"
        kinds = [types.get(name, "string") for name in named.columns]
        schema = ", ".join(f"{quote_name(name)} {kind}" for name, kind in zip(text.columns, kinds, strict=True))
        mode = "DROPMALFORMED" if on_error == "skip" else "FAILFAST"
        lines = later.schema(schema).options(**layout, mode=mode).csv(folder)
        checked = {
            name: _checked_text(name, is_last=name == last, on_error=on_error)
            for name, kind in lines.dtypes
            if kind == "string"
        }
        return lines.withColumns(checked).withColumnRenamed(first, named.columns[0]), lambda: named

    def run(self, *, once: bool, shown: bool) -> dict[str, Any]:
        """Run until no files are left (with `once`) or until interrupted, and return the figures."""
        started = time.perf_counter()
        writer = self._writer.trigger(availableNow=True) if once else self._writer
        query = writer.start()
        progress, ended, status = Progress(shown=shown), "end of the input", 0
        totals = _Totals()
        try:
            while not query.awaitTermination(REFRESH_SECONDS):  # type: ignore[arg-type]  # it takes fractions
                self._watch(query, totals, progress, started)
        except KeyboardInterrupt as interrupt:
            ended, status = "interrupted", exit_status(interrupt)
            query.stop()
        finally:
            progress.clear()
        self._watch(query, totals, progress, started)
        progress.clear()
        seconds = sorted(totals.seconds)
        if totals.late > LATE_SHARE * totals.tuples:
            click.echo(
                f"warning: {totals.late:,} of {totals.tuples:,} tuples arrived too late for every window, and were dropped",
                err=True,
            )
        return {
            "ended": ended,
            "status": status,
            "batches": len(seconds),
            "tuples": totals.tuples,
            "late": totals.late,
            "rows": totals.rows,
            "batch_seconds_median": seconds[len(seconds) // 2] if seconds else None,
            "batch_seconds_longest": seconds[-1] if seconds else None,
            "partitions": partition_records(self._session, self._checkpoint),
            "total_seconds": time.perf_counter() - started,
        }

    def _watch(self, query: StreamingQuery, totals: _Totals, progress: Progress, started: float) -> None:
        for one in query.recentProgress:
            totals.add(one)
        if totals.seconds:
            progress.show(
                f"{len(totals.seconds):,} micro-batches, {totals.tuples:,} tuples, "
                f"{totals.tuples / (time.perf_counter() - started):,.0f} edges/s, the last took {totals.seconds[-1]:.1f} s"
            )
        else:
            progress.show("waiting for the first micro-batch …")

    @staticmethod
    def summary(figures: dict[str, Any]) -> str:
        """Return the figures as lines of text."""
        late = max((one["late"] for one in figures["partitions"]), default=0)
        counts = {name: sum(one[name] for one in figures["partitions"]) for name in ("hits", "catch_ups", "rebuilds")}
        median, longest = figures["batch_seconds_median"], figures["batch_seconds_longest"]
        return summary_text(
            {
                "ended": figures["ended"],
                "tuples": f"{figures['tuples']:,} in {figures['batches']:,} micro-batches",
                "late": f"{late:,} in all" if late else "",
                "rows": f"{figures['rows']:,}" if figures["rows"] else "",
                "batches": f"{median:.1f} s, the longest {longest:.1f} s" if figures["batches"] else "",
                "index": f"reused {counts['hits']:,} times, caught up {counts['catch_ups']:,}, "
                f"rebuilt {counts['rebuilds']:,}",
                "time": f"{figures['total_seconds']:.1f} s",
            }
        )


class _Totals:
    """Figures of all micro-batches of a run so far, which may be millions: sums, and the seconds of each micro-batch."""

    def __init__(self) -> None:
        self.seconds = array("d")
        self.tuples = self.late = self.rows = 0
        self._latest = -1

    def add(self, progress: StreamingQueryProgress) -> None:
        """Add a micro-batch, unless it has no tuples or was added before."""
        if not progress.numInputRows or progress.batchId <= self._latest:
            return
        self._latest = progress.batchId
        counted = progress.observedMetrics.get(COUNTS)
        self.tuples += progress.numInputRows
        self.late += counted["late"] if counted else 0
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


_MARK = "\ufeff"
_REPLACEMENT = "\ufffd"
"""The character that Spark reads in place of bytes that are not UTF-8."""


def _without_mark(name: str) -> str:
    """Return the name of the first column without the byte order mark of its file, which Spark takes for a part of it.

    >>> _without_mark("\\ufeffsource"), _without_mark('\\ufeff"source"'), _without_mark("source")
    ('source', 'source', 'source')
    """
    plain = name.removeprefix(_MARK)
    is_quoted = plain != name and len(plain) > 1 and plain[0] == plain[-1] == '"'
    return plain[1:-1].replace('""', '"') if is_quoted else plain


def _checked_text(name: str, *, is_last: bool, on_error: str) -> Column:
    """Return a column of text, without the end of a line that ends in CRLF in a file whose first line ends in LF.

    Text that is not UTF-8 is an error, or null if `on_error` is "skip".  Columns that are not read are not checked.
    """
    from pyspark.sql import functions as sql

    column = sql.col(quote_name(name))
    text = column
    if is_last:
        text = sql.when(column.endswith("\r"), sql.regexp_replace(column, "\r\\z", "")).otherwise(column)
    problem = sql.concat(sql.lit(f"column {name!r}: "), text, sql.lit(" is not UTF-8 text"))
    wrong = sql.lit(None).cast("string") if on_error == "skip" else sql.raise_error(problem)
    return sql.when(text.contains(_REPLACEMENT), wrong).otherwise(text)


def _kind_of_times(text: DataFrame, column: str, folder: str) -> str:
    """Return the type of the timestamps of text, by the first value.  Raises `PipelineError` if this is no timestamp."""
    if column not in text.columns:
        return "bigint"  # a missing column is reported where columns are resolved
    first = text.select(quote_name(column)).where(f"{quote_name(column)} is not null").first()
    if first is None or INTEGER.fullmatch(first[0].strip()):
        return "bigint"
    if time_kind(first[0].strip()) is None:
        raise PipelineError(
            f"{folder}: column {column!r}: {first[0]!r} is not a timestamp; expected an integer, or a time as in "
            "2024-05-01T12:00:00Z"
        )
    return "timestamp"


def partition_records(session: SparkSession, checkpoint: str) -> list[dict[str, Any]]:
    """Return the figures of every partition in the state (`rpq.spark.stream.processor.Record`), without the texts."""
    try:
        state = session.read.format("statestore").option("stateVarName", "record").load(checkpoint)
        rows = state.selectExpr("value.*").drop("history", "parts", "identity").collect()
    except Exception as error:  # a stream that has not finished a micro-batch has no state
        if not type(error).__module__.startswith("pyspark"):
            raise
        return []
    return [row.asDict() for row in rows]
