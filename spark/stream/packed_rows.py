"""The output of the stateful processor: answer changes packed in a binary column, and the figures of the share.

A stateful processor returns pandas frames, in which text is Python objects: four of the five values of a row.  Packed, tens
of thousands of rows are one value: an Arrow stream, which the next step converts to columns without accessing single rows.
Beside the packed rows are their number and, once per micro-batch, the figures of the share.  `observe_figures` aggregates
these for Spark's progress, over the few packed rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import pandas as pd
import pyarrow as pa

from rpq.spark.shipping import ShippedObject

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SUMMED = ("hits", "catch_ups", "rebuilds", "memory")
"""Figures that differ between shares: how each obtained its engine, and the bytes of its worker's engines."""

SAME = ("tuples", "unread", "late", "window")
"""Figures that are equal in all shares: all tuples, tuples whose label no query reads, late tuples, tuples in the log."""

FIGURES = (*SAME, *SUMMED)


def observe_figures(packed: DataFrame, name: str) -> DataFrame:
    """Return the data frame with the number of rows and the figures observed under a name.

    The figures appear in `StreamingQueryProgress.observedMetrics` and in the event log.
    """
    from pyspark.sql import functions as sql

    same = [sql.coalesce(sql.max(one), sql.lit(0)).alias(one) for one in SAME]
    rows = sql.coalesce(sql.sum("count"), sql.lit(0)).alias("rows")
    summed = [sql.coalesce(sql.sum(one), sql.lit(0)).alias(one) for one in SUMMED]
    return packed.observe(name, *same, rows, *summed)


SCHEMA = ", ".join(["rows binary", "count bigint", *(f"{name} bigint" for name in FIGURES)])

MAX_ROWS = 1 << 16
"""The largest number of answer changes in an Arrow stream, a few megabytes."""


class PackedRows(NamedTuple):
    """Packed rows and their number."""

    rows: bytes
    row_count: int


def pack_rows(changes: pa.Table) -> Iterator[PackedRows]:
    """Yield answer changes as Arrow streams. O(bytes)."""
    for start in range(0, len(changes), MAX_ROWS):
        rows = changes.slice(start, MAX_ROWS).combine_chunks()
        out = pa.BufferOutputStream()
        with pa.ipc.new_stream(out, rows.schema) as writer:
            writer.write_table(rows)
        yield PackedRows(out.getvalue().to_pybytes(), len(rows))


def row_frames(all_packed: Iterable[PackedRows]) -> Iterator[pd.DataFrame]:
    """Yield packed rows as data frames with a single row each."""
    for rows, count in all_packed:
        yield _frame(rows, count, {})


def figures_frame(figures: Mapping[str, int]) -> pd.DataFrame:
    """Return the figures of a share as a data frame of one row, without packed rows."""
    return _frame(None, 0, figures)


class RowUnpacker(ShippedObject):
    """A function for `mapInArrow` that turns Arrow streams into rows."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for value in batch["rows"]:
                if value.is_valid:
                    with pa.ipc.open_stream(value.as_buffer()) as reader:
                        yield from reader


def _frame(rows: bytes | None, count: int, figures: Mapping[str, int]) -> pd.DataFrame:
    columns = {name: [figures.get(name, 0)] for name in FIGURES}
    return pd.DataFrame({"rows": pd.Series([rows], dtype=object), "count": [count], **columns})
