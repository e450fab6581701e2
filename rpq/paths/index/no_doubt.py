"""The judge of an index whose table is always right.

So it is for walks, and for simple paths where the automaton has no states in conflict: then a walk that does not come back
to its root always has a simple path (`conflicts.py`). It is asked nothing for any tuple, and costs nothing.
"""

from __future__ import annotations

import numpy as np

from rpq.paths.index import kernels
from rpq.paths.index.judging import DoubtFigures, JudgedIndex
from rpq.queries.protocol import Overrun
from rpq.stream.chunk import Chunk


class NoDoubt:
    """Every pair of the table is an answer, and no root is ever set aside.

    `walks_return` tells whether walks that come back to their root are in the table.
    """

    doubts = False
    nbytes = 0

    def __init__(self, *, walks_return: bool = True) -> None:
        self.walks_return = walks_return

    def serve(self, index: JudgedIndex) -> None:
        """See `Judge`, as for all that follows."""
        self._index = index

    def make_room(self, vertices: int, edges: int) -> None:
        """Nothing is kept of vertices and edges."""

    def judge_tuple(self, chunk: Chunk, i: int) -> None:
        """No kernel asks for this."""
        raise AssertionError("nothing in this index is in doubt")

    def cross(self, slide: int, order: int) -> None:
        """The table does it alone."""
        self._index.cross_table(slide, order)

    def judge_load(self, *, quiet: bool) -> None:
        """All rows stay."""

    def write_paths(self) -> int:
        """Write the walks of the table."""
        return int(kernels.write_paths(self._index.view))

    def answered(self, walks: np.ndarray) -> np.ndarray:
        """All of them."""
        return walks

    def path_of(self, source: int, target: int) -> np.ndarray | None:
        """The table has it."""
        return None

    def figures(self) -> DoubtFigures:
        """Zeros."""
        return DoubtFigures()

    def set_figures(self, *, conflicts: int, searches: int) -> None:
        """There is nothing to count."""

    @property
    def aside(self) -> dict[int, int]:
        """None."""
        return {}

    def set_aside(self, roots: dict[int, int]) -> None:
        """None of them meets a conflict."""

    def take_overruns(self) -> list[Overrun]:
        """None."""
        return []

    def restore_root(self, root: int) -> bool:
        """It was not set aside."""
        return False

    def forget_roots(self, roots: np.ndarray) -> None:
        """Nothing was known."""

    def check(self) -> None:
        """There is nothing to check."""
