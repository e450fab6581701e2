"""How many tuples are pushed at once: so many that a round neither takes long nor brings more rows than are soon sent."""

from __future__ import annotations

FIRST_ROUND, LEAST_ROUND, MOST_ROUND = 4096, 16, 100_000
"""Tuples of a round: of the first, and of the smallest and largest that it may become."""

ROUND_SECONDS, ROUND_ROWS = 0.25, 1 << 18
"""Time that a round is meant to take, and rows that it is meant to bring, at most."""


class RoundSize:
    """Grows and shrinks with what rounds have taken; `most` is how many tuples the next one may have.

    >>> size = RoundSize()
    >>> size.took(size.most, rows=0, seconds=0.01)
    >>> size.most
    16384
    """

    def __init__(self) -> None:
        self.most = FIRST_ROUND

    def took(self, tuples: int, *, rows: int, seconds: float) -> None:
        """Note what a round of so many tuples has brought, and how long it took."""
        growth = min(ROUND_ROWS / max(rows, 1), ROUND_SECONDS / max(seconds, 1e-9), 4.0)
        if tuples and (growth < 1 or tuples >= self.most):
            self.most = min(MOST_ROUND, max(LEAST_ROUND, int(tuples * growth)))
