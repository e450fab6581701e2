"""The oracle for `hold`: which rows are told, by hand, from the rows of the same query without it.

nodes.md 4, semantics.md S19
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence

Row = tuple[Hashable, ...]
"""The values of a row, its time and its op."""


class HeldAnswers:
    """The answers of one query: since when each has held, and those that were told.

    A row of time t is full at t + hold. With reports a moment is over when the time is later; otherwise when it is reached.
    """

    def __init__(self, hold: int, *, has_reports: bool = False) -> None:
        self.hold, self.has_reports = hold, has_reports
        self.waiting: list[tuple[int, Row]] = []
        self.told: Counter[Row] = Counter()

    def advance(self, time: int, rows: Sequence[Row]) -> list[Row]:
        """The time is `time` or later; return what is told, where the boundaries, or reports, until then have these rows."""
        told: list[Row] = []
        for moment in sorted({row[-2] for row in rows}):
            told += self._fill(moment - 1)
            told += self.change([row for row in rows if row[-2] == moment])
        return told + self._fill(time - 1 if self.has_reports else time)

    def _fill(self, time: int) -> list[Row]:
        """Tell what is full at `time` or before."""
        full = [(since, row) for since, row in self.waiting if since + self.hold <= time]
        self.waiting = [(since, row) for since, row in self.waiting if since + self.hold > time]
        self.told.update(row for _, row in full)
        return [(*row, since + self.hold, "+") for since, row in full]

    def change(self, rows: Sequence[Row]) -> list[Row]:
        """Apply the rows of one event; return what is told."""
        told: list[Row] = []
        for *values, time, op in rows:
            row = tuple(values)
            if op == "+":
                self.waiting.append((time, row))
                continue
            youngest = max((place for place, (_, one) in enumerate(self.waiting) if one == row), default=None)
            if youngest is not None:
                del self.waiting[youngest]
            else:
                assert self.told[row] > 0, f"{row} leaves, and was not there"
                self.told[row] -= 1
                told.append((*row, time, "-"))
        return told
