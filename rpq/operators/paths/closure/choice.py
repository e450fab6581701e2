"""The choice between bits and cells, by the work that they do.

Both count their work, so the choice does not depend on how busy a machine is. It is made between chunks, whenever as
much work has been done as a change costs. An index of cells first estimates the cost of bits: computing components anew at
every boundary must alone cost less than a fifth of what cells cost. Then it tries bits, and goes back to cells if bits turn
out to cost more; each further trial has to wait four times as long. The cost of cells during a trial is estimated from
the words that bits push: the ratio of the two is measured at the change, and varies less than either.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

STEP = 9.3
"""Nanoseconds of a step of 64 cells; this and the times below are fitted to measurements (`TUNING.md` of the Δ index)."""
PUSHED_WORD = 3.3
COMPUTED_WORD = 0.23
WALKED = 10.5
"""Nanoseconds of a node or a link when components are computed."""
_PERIOD = 2e6
"""Nanoseconds of work between two choices."""
_LARGEST_PART = 0.2
"""The largest ratio of the work of computing components to that of cells at which bits are tried."""
_TOLERANCE = 0.9
"""The largest ratio of the work of bits to that of cells at which bits are kept."""
_LONGEST = 10 * _PERIOD
"""The longest period in nanoseconds while cells stay: short periods say little about a stream."""
INSERT = 100.0
"""Nanoseconds that an insert costs more with bits than with cells."""


class Size(NamedTuple):
    """The size of a Δ index as far as it decides what bits would cost."""

    nodes: int
    edges: int
    slots: int
    steps_an_edge: float
    nbytes: int
    """The bytes of blocks."""
    keeps_earlier: bool
    """True if bits would have room for what an event takes."""

    @property
    def words(self) -> int:
        """The words of a row of bits."""
        return self.slots // 64 + 8

    def computation(self) -> float:
        """Return the nanoseconds that computing components once may take."""
        walked = self.nodes + self.edges * self.steps_an_edge
        return walked * (WALKED + COMPUTED_WORD * self.words)

    def fits(self) -> bool:
        """Return whether rows of bits take no more memory than cells; they grow by half."""
        return 1.5 * bytes_of_rows(self.nodes * self.words, keeps_earlier=self.keeps_earlier) <= self.nbytes


def bytes_of_rows(words: int, *, keeps_earlier: bool) -> int:
    """Return the bytes of rows of so many words, of the words to push, and of those that an event removes if these are kept.

    >>> bytes_of_rows(10, keeps_earlier=False), bytes_of_rows(10, keeps_earlier=True)
    (160, 240)
    """
    return words * (24 if keeps_earlier else 16)


class Choice:
    """The state of the choice of one index."""

    def __init__(self) -> None:
        self._period = _PERIOD
        self._work = 0.0
        self._inserts = 0
        self._slide = 0
        self._cells_each = 0.0
        """Nanoseconds of work of cells for each insert, when they were measured last."""
        self._cells_a_push = 0.0
        """The ratio of the work of cells to that of pushing words; 0 until the first period of bits is over."""
        self._pushed = 0.0
        self._loss = 0.0
        """Nanoseconds that bits have cost beyond what cells would."""

    def begin(self, work: float, inserts: int, slide: int) -> None:
        """Begin a period, with the work and the inserts so far."""
        self._work, self._inserts, self._slide = work, inserts, slide

    def is_due(self, work: float) -> bool:
        """Return whether a period is over."""
        return work - self._work >= self._period

    def prefers_bits(self, work: float, inserts: int, slide: int, size: Size) -> bool:
        """Return whether an index of cells should try bits; a period is over."""
        spent, came = work - self._work, max(1, inserts - self._inserts)
        self._cells_each = spent / came
        boundaries = min(slide - self._slide, came)
        is_cheap = boundaries * size.computation() < _LARGEST_PART * spent
        if is_cheap and size.fits():
            self._cells_a_push = self._pushed = self._loss = 0.0
            return True
        if self._period < _LONGEST:
            self._period *= 1.25
        return False

    def prefers_cells(self, work: float, pushed: float, inserts: int, change: Callable[[], float]) -> bool:
        """Return whether an index of bits should go back to cells; a period is over.

        `pushed` is the work of pushing words since the change, a part of all `work`, and `change` returns the work of going
        back: only when bits have cost that much more than cells would, the index goes back.
        """
        came = max(1, inserts - self._inserts)
        pushed_each = (pushed - self._pushed) / came
        self._pushed = pushed
        if self._cells_a_push == 0:
            self._cells_a_push = self._cells_each / max(1.0, pushed_each)
        loss = (work - self._work) / came + INSERT - _TOLERANCE * self._cells_a_push * pushed_each
        self._loss = max(0.0, self._loss + loss * came)
        return self._loss > 0 and self._loss > change()

    def postpone(self, work: float = 0.0) -> None:
        """Make the next trial wait four times as long, and for four times the work of a change."""
        self._period = 4 * max(self._period, work)
