"""Counters of a stream: from the partitions, among the rows, into Spark's progress of the micro-batch.

A row without a query tells one figure of one partition: its name is the op, its value the timestamp.  `observe` sums them up
for `StreamingQueryProgress.observedMetrics` and the event log, and they go no further.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pandas as pd

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SUMMED = ("hits", "catch_ups", "rebuilds", "memory")
"""Figures of which each partition has its own: how it came by its engine, and the bytes of its worker's engines."""

SAME = ("tuples", "unread", "late", "window")
"""Figures that are the same in all partitions: tuples, those whose label no query reads, those that came too late, and the
tuples in the log of the window.
"""


def count_rows(counted: Mapping[str, int], columns: Sequence[str]) -> pd.DataFrame:
    """The rows that tell these figures, beside rows with these columns."""
    size = len(counted)
    nothing = {name: pd.Series([None] * size, dtype=object) for name in ("query", *columns)}
    return pd.DataFrame({**nothing, "timestamp": list(counted.values()), "op": list(counted)})


def observed(changes: DataFrame, name: str) -> DataFrame:
    """The rows that are answer changes; their number and the figures are observed under a name."""
    from pyspark.sql import functions as sql

    def figure(op: str) -> Column:
        return sql.when(sql.col("query").isNull() & (sql.col("op") == op), sql.col("timestamp"))

    whole = [sql.coalesce(sql.sum(figure(one)), sql.lit(0)).alias(one) for one in SUMMED]
    same = [sql.coalesce(sql.max(figure(one)), sql.lit(0)).alias(one) for one in SAME]
    rows = sql.count(sql.col("query")).alias("rows")
    return changes.observe(name, *same, rows, *whole).where(sql.col("query").isNotNull())
