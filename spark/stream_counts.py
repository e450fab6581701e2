"""Counters of a stream: from the shares, beside their rows, into Spark's progress of the micro-batch.

`observe` sums them up, for `StreamingQueryProgress.observedMetrics` and the event log, over packed rows
(`rpq.spark.packed_rows`), of which there are few.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SUMMED = ("hits", "catch_ups", "rebuilds", "memory")
"""Figures of which each share has its own: how it came by its engine, and the bytes of its worker's engines."""

SAME = ("tuples", "unread", "late", "window")
"""Figures that are the same in all shares: tuples, those whose label no query reads, those that came too late, and the
tuples in the log of the window.
"""

FIGURES = (*SAME, *SUMMED)


def observed(packed: DataFrame, name: str) -> DataFrame:
    """The same, of which the number of rows and the figures are observed under a name."""
    from pyspark.sql import functions as sql

    same = [sql.coalesce(sql.max(one), sql.lit(0)).alias(one) for one in SAME]
    rows = sql.coalesce(sql.sum("count"), sql.lit(0)).alias("rows")
    summed = [sql.coalesce(sql.sum(one), sql.lit(0)).alias(one) for one in SUMMED]
    return packed.observe(name, *same, rows, *summed)
