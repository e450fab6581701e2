"""Counts that tasks add up, for an accumulator of Spark."""

from __future__ import annotations

from collections import Counter

from pyspark.accumulators import AccumulatorParam

Counted = Counter[tuple[str, str]]
"""How many rows there are by query and op."""


class Counts(AccumulatorParam[Counted]):
    """Adds counters up."""

    def zero(self, value: Counted) -> Counted:
        """Nothing counted."""
        return Counter()

    def addInPlace(self, value1: Counted, value2: Counted) -> Counted:  # noqa: N802
        """Add the second to the first."""
        value1.update(value2)
        return value1
