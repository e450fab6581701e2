"""Counters of a stream: from the shares, beside their rows, into Spark's progress of the micro-batch.

`observe` sums them up, for `StreamingQueryProgress.observedMetrics` and the event log, over packed rows
(`rpq.spark.stream.packed_rows`), of which there are few.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

import pandas as pd
import pyarrow as pa

from rpq.spark.parquet_content import ParquetContent
from rpq.spark.shipping import Shipped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SUMMED = ("hits", "catch_ups", "rebuilds", "memory")
"""Figures of which each share has its own: how it came by its engine, and the bytes of its worker's engines."""

SAME = ("tuples", "unread", "late", "window")
"""Figures that are the same in all shares: tuples, those whose label no query reads, those that came too late, and the
tuples in the log of the window.
"""

FIGURES = (*SAME, *SUMMED)


def observe_figures(packed: DataFrame, name: str) -> DataFrame:
    """The same, of which the number of rows and the figures are observed under a name."""
    from pyspark.sql import functions as sql

    same = [sql.coalesce(sql.max(one), sql.lit(0)).alias(one) for one in SAME]
    rows = sql.coalesce(sql.sum("count"), sql.lit(0)).alias("rows")
    summed = [sql.coalesce(sql.sum(one), sql.lit(0)).alias(one) for one in SUMMED]
    return packed.observe(name, *same, rows, *summed)


SCHEMA = ", ".join(["rows binary", "count bigint", *(f"{name} bigint" for name in FIGURES)])

MOST_ROWS = 1 << 16
"""Answer changes in an Arrow stream: a few megabytes."""


class PackedRows(NamedTuple):
    """Packed rows, and how many they are."""

    rows: bytes
    row_count: int


class RowPacker(Protocol):
    """Packs the answer changes of a share in a micro-batch."""

    def add(self, changes: pa.Table) -> Iterator[PackedRows]:
        """These answer changes, or earlier ones, or nothing yet. O(bytes)."""

    def finish(self) -> Iterator[PackedRows]:
        """What is left, at the end."""


class StreamPacking(Shipped):
    """Begins to pack answer changes as Arrow streams."""

    def __call__(self) -> RowPacker:
        return _StreamPacker()


class FilePacking(Shipped):
    """Begins to pack answer changes as the contents of Parquet files (`rpq.spark.parquet_content`)."""

    def __init__(self, *, microseconds: int | None) -> None:
        self._microseconds = microseconds

    def __call__(self) -> RowPacker:
        return _FilePacker(self._microseconds)


class _StreamPacker:
    def add(self, changes: pa.Table) -> Iterator[PackedRows]:
        for start in range(0, len(changes), MOST_ROWS):
            rows = changes.slice(start, MOST_ROWS).combine_chunks()
            out = pa.BufferOutputStream()
            with pa.ipc.new_stream(out, rows.schema) as writer:
                writer.write_table(rows)
            yield PackedRows(out.getvalue().to_pybytes(), len(rows))

    def finish(self) -> Iterator[PackedRows]:
        yield from ()


class _FilePacker:
    def __init__(self, microseconds: int | None) -> None:
        self._microseconds = microseconds
        self._file = ParquetContent(microseconds=microseconds)

    def add(self, changes: pa.Table) -> Iterator[PackedRows]:
        if len(changes):
            self._file.write(changes)
        if self._file.is_full:
            yield from self.finish()

    def finish(self) -> Iterator[PackedRows]:
        file, self._file = self._file, ParquetContent(microseconds=self._microseconds)
        if file.rows:
            yield PackedRows(file.finish().to_pybytes(), file.rows)


def row_frames(all_packed: Iterable[PackedRows]) -> Iterator[pd.DataFrame]:
    """Packed rows as frames of one row each."""
    for rows, count in all_packed:
        yield _frame(rows, count, {})


def figures_frame(figures: Mapping[str, int]) -> pd.DataFrame:
    """The figures of a share as a frame without rows."""
    return _frame(None, 0, figures)


class RowUnpacker(Shipped):
    """What a task runs: takes Arrow streams, gives rows.  For `mapInArrow`."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for value in batch["rows"]:
                if value.is_valid:
                    with pa.ipc.open_stream(value.as_buffer()) as reader:
                        yield from reader


def _frame(rows: bytes | None, count: int, figures: Mapping[str, int]) -> pd.DataFrame:
    told = {name: [figures.get(name, 0)] for name in FIGURES}
    return pd.DataFrame({"rows": pd.Series([rows], dtype=object), "count": [count], **told})
