"""How long it takes from when a tuple could be pushed until what came of it is committed, or acknowledged."""

from __future__ import annotations

import time
from bisect import bisect_left

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Seconds: the upper ends of the counts, of which one more is for what took longer."""


class LatencyCounts:
    """Counts of tuples by latency; O(rounds)."""

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.sum = 0.0
        self._waiting: list[tuple[int, float]] = []

    def copy(self) -> LatencyCounts:
        """The counts so far."""
        other = LatencyCounts()
        other.counts, other.sum = list(self.counts), self.sum
        return other

    def note(self, count: int, since: float) -> None:
        """So many tuples have been in the engine since then."""
        if count:
            self._waiting.append((count, since))

    def committed(self) -> None:
        """All that was noted is committed now."""
        now = time.monotonic()
        for count, since in self._waiting:
            seconds = now - since
            self.counts[bisect_left(BOUNDS, seconds)] += count
            self.sum += count * seconds
        self._waiting = []
