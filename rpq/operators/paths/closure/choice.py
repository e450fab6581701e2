"""The choice between bits and cells, by the work that they do.

Both indexes count their work, so the choice does not depend on the load of the machine. It is made between chunks, each time
the work since the last choice reaches the cost of a change. An index of cells first estimates the cost of bits: recomputing
the components at every boundary must cost less than a fifth of the work of cells. It then tries bits, and changes back to
cells if bits turn out to cost more. Each further trial waits four times as long as the one before. The cost of cells during
a trial is estimated from the words that bits push: the ratio of the two is measured at the change, and varies less than
either.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

STEP = 9.3
"""Nanoseconds per step of 64 cells. This and the times below are fitted to measurements (`TUNING.md` of the Δ index)."""
PUSHED_WORD = 3.3
COMPUTED_WORD = 0.23
WALKED_LINK = 10.5
"""Nanoseconds per node or link when components are computed."""
_PERIOD = 2e6
"""The nanoseconds of work between two choices."""
_LARGEST_PART = 0.2
"""The largest ratio of the work of computing components to that of cells at which bits are tried."""
_TOLERANCE = 0.9
"""The largest ratio of the work of bits to that of cells at which bits are kept."""
_LONGEST = 10 * _PERIOD
"""The longest period of cells in nanoseconds. Short periods say little about a stream."""
_LOADED_EACH = 1200.0
"""The largest work per insert of computing the components, in nanoseconds, at which a window that was loaded keeps bits."""
_LOADED_RATIO = 4.0
"""The ratio of the work of cells to that of pushing words where none was measured, which is a low one."""
LOADED_BYTES = 1024
"""The most bytes of rows for each edge of a window that is loaded at once as bits."""
INSERT = 100.0
"""The additional nanoseconds of an insert with bits in place of cells."""


class Size(NamedTuple):
    """The size of a Δ index, as far as the cost of bits depends on it."""

    nodes: int
    edges: int
    slots: int
    steps_an_edge: float
    nbytes: int
    """The bytes of blocks."""
    keeps_earlier: bool
    """True if bits would need room for what an event removes."""

    @property
    def words(self) -> int:
        """The words of a row of bits."""
        return self.slots // 64 + 8

    def computation(self) -> float:
        """Return an estimate of the nanoseconds for computing the components once."""
        links = self.nodes + self.edges * self.steps_an_edge
        return links * (WALKED_LINK + COMPUTED_WORD * self.words)

    def fits(self) -> bool:
        """Return whether rows of bits take no more memory than cells, even after they have grown by half."""
        return 1.5 * bytes_of_rows(self.nodes * self.words, keeps_earlier=self.keeps_earlier) <= self.nbytes


def bytes_of_rows(words: int, *, keeps_earlier: bool) -> int:
    """Return the bytes of rows with this number of words, of the words to push, and, if these are kept, of the words that an
    event removes.

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
        """The nanoseconds of work of cells per insert in the last measurement."""
        self._cells_a_push = 0.0
        """The ratio of the work of cells to that of pushing words; 0 until the first period of bits is over."""
        self._push_work = 0.0
        self._loss = 0.0
        """The nanoseconds that bits have cost in excess of the estimate for cells."""

    def begin(self, work: float, inserts: int, slide: int) -> None:
        """Begin a period, given the work and the number of inserts so far."""
        self._work, self._inserts, self._slide = work, inserts, slide

    def is_due(self, work: float) -> bool:
        """Return whether a period is over."""
        return work - self._work >= self._period

    def prefers_bits(self, work: float, inserts: int, slide: int, size: Size) -> bool:
        """Return whether an index of cells should try bits, at the end of a period."""
        period_work, period_inserts = work - self._work, max(1, inserts - self._inserts)
        self._cells_each = period_work / period_inserts
        boundaries = min(slide - self._slide, period_inserts)
        is_cheap = boundaries * size.computation() < _LARGEST_PART * period_work
        if is_cheap and size.fits():
            self._cells_a_push = self._push_work = self._loss = 0.0
            return True
        if self._period < _LONGEST:
            self._period *= 1.25
        return False

    def begins_with_bits(self, work: float, inserts: int, boundaries: int) -> bool:
        """Return whether an index whose window was loaded as bits should keep them.

        `work` is that of computing the components. The edges of these inserts leave at that many boundaries.
        """
        self._cells_a_push, self._push_work, self._loss = _LOADED_RATIO, 0.0, 0.0
        return boundaries * work < _LOADED_EACH * inserts

    def prefers_cells(self, work: float, push_work: float, inserts: int, change: Callable[[], float]) -> bool:
        """Return whether an index of bits should change back to cells, at the end of a period.

        `push_work` is the work of pushing words since the change, which is a part of `work`. `change` returns the work of
        changing back: the index does so only when the excess cost of bits has reached it.
        """
        period_inserts = max(1, inserts - self._inserts)
        push_work_each = (push_work - self._push_work) / period_inserts
        self._push_work = push_work
        if self._cells_a_push == 0:
            self._cells_a_push = self._cells_each / max(1.0, push_work_each)
        loss = (work - self._work) / period_inserts + INSERT - _TOLERANCE * self._cells_a_push * push_work_each
        self._loss = max(0.0, self._loss + loss * period_inserts)
        return self._loss > 0 and self._loss > change()

    def postpone(self, work: float = 0.0) -> None:
        """Make the next trial wait four times as long, and for four times the work of a change."""
        self._period = 4 * max(self._period, work)
