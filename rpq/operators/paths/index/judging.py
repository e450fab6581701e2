"""The protocol between an index and its judge.

The table of an index holds walks, and marks the cells whose walks may not make their pair an answer. The *judge* of the
index decides whether these pairs are answers. There are two judges: `NoDoubt`, for which every pair of the table is an
answer, and `SimpleJudge` (`rpq/operators/paths/simple/simple_judge.py`). Kernels ask for the judge only if something is in
doubt (they return NEED_JUDGE or NEED_CROSSING), so tuples without doubt cost the same with either judge.

A judge may need much time for some roots, and has a budget for each. A root that exceeds it is *set aside*: it has no
answers until none of its pairs is in doubt or until it is restored. All indexes have the methods for such roots, even if
there can be none.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

import numpy as np

from rpq.language.protocol import Overrun
from rpq.operators.paths.index import kernels
from rpq.operators.paths.index.layout import Index, IndexState
from rpq.stream.chunk import Chunk
from rpq.stream.window import Window


class DoubtFigures(NamedTuple):
    """The counts of a judge.

    `conflicted_roots`, `pairs_in_doubt` and `roots_set_aside` are numbers of the present; the others grow. A pair that a
    delete frees from doubt counts until the slide changes.
    """

    conflicts: int = 0
    conflicted_roots: int = 0
    pairs_in_doubt: int = 0
    searches: int = 0
    roots_set_aside: int = 0
    unblocked_pairs: int = 0
    broken_paths: int = 0
    replaced_paths: int = 0
    cleared_roots: int = 0


class JudgedIndex(Protocol):
    """The part of an index that its judge may use."""

    @property
    def window(self) -> Window:
        """The window of the query."""

    @property
    def index(self) -> Index:
        """The current arrays, some of which are replaced when they grow."""

    @property
    def view(self) -> Any:
        """The view of the arrays for kernels."""

    @property
    def state(self) -> IndexState:
        """The counters and positions named in `layout`."""

    def walks(self) -> np.ndarray:
        """Return the pairs that the table answers, source << 32 | target. O(size of the index)."""

    def cross_table(self, slide: int, order: int) -> None:
        """Advance the table to an absolute slide, with events of that order."""

    def write_paths(self, first: int) -> None:
        """Write the witnesses of the current event, whose rows begin at `first`."""

    def run(self, kernel: str, *arguments: Any) -> None:
        """Call a kernel of the index until it is done, and do what it asks for in between."""

    def provide(self, code: int) -> None:
        """Do what a kernel asked for. The memory guard may refuse memory."""

    def guarded_growth(self) -> AbstractContextManager[None]:
        """Return a context in which the memory guard is asked before arrays grow; it may refuse."""


class Judge(Protocol):
    """The decision which walks of a table make their pair an answer."""

    walks_return: bool
    """True if a walk may return to its root; otherwise kernels exclude such walks from the table."""
    doubts: bool
    """True if cells can be in doubt; then kernels mark them and ask the judge."""

    def serve(self, index: JudgedIndex) -> None:
        """Attach the judge to an index, before any other call. A judge serves one index."""

    @property
    def nbytes(self) -> int:
        """The number of bytes held."""

    def make_room(self, vertices: int, edges: int) -> None:
        """Make room for vertex and edge ids up to these numbers."""

    # --- where rows are judged -------------------------------------------------------------------------------

    def judge_tuple(self, chunk: Chunk, i: int) -> None:
        """Judge the rows of a tuple that the table has applied."""

    def cross(self, slide: int, order: int) -> None:
        """Advance to an absolute slide, in place of `JudgedIndex.cross_table`, and judge the rows."""

    def judge_load(self, *, quiet: bool) -> None:
        """Judge the rows of a load. The rows of a `quiet` load are dropped."""

    def write_paths(self) -> int:
        """Write the witnesses of the current event from row RESUME on; return a code of the kernels."""

    # --- present state ---------------------------------------------------------------------------------------

    def answers_among(self, walks: np.ndarray) -> np.ndarray:
        """Return those of some pairs of the table that are answers."""

    def path_of(self, source: int, target: int) -> np.ndarray | None:
        """Return the steps of the known path of an answer, first to last; None if that is the walk of the table."""

    def figures(self) -> DoubtFigures:
        """Return the counts of the judge, and the current numbers of pairs in doubt."""

    def set_figures(self, *, conflicts: int, searches: int) -> None:
        """Set the counts to go on from."""

    # --- roots that are set aside ----------------------------------------------------------------------------

    @property
    def aside_roots(self) -> dict[int, int]:
        """The roots that are set aside, and the size at which each was set aside."""

    def set_aside(self, roots: dict[int, int]) -> None:
        """Make the next load set aside those of these roots that meet a conflict, with the given sizes."""

    def pop_overruns(self) -> list[Overrun]:
        """Return the roots that have exceeded their budget since the last call."""

    def restore_root(self, root: int) -> bool:
        """Restore a root, with rows for its answers, and return whether it was set aside. It may exceed its budget again."""

    def forget_roots(self, roots: np.ndarray) -> None:
        """Forget vertices that are no longer roots; the table still has their cells."""

    def check(self) -> None:
        """Assert every invariant, between tuples. Slow."""


# --- the judge of an index whose table is always right ------------------------------------------------------
#
# The table is always right for walks, and for simple paths where the automaton has no states in conflict: then a walk that
# does not return to its root always has a simple path (`conflicts.py`). Tuples never call this judge, so it costs nothing.

class NoDoubt:
    """The judge that accepts every pair of the table as an answer and never sets a root aside.

    `walks_return` is true if walks that return to their root are in the table.
    """

    doubts = False
    nbytes = 0

    def __init__(self, *, walks_return: bool = True) -> None:
        self.walks_return = walks_return

    def serve(self, index: JudgedIndex) -> None:
        """Attach the judge to an index. `Judge` describes this method and those below."""
        self._index = index

    def make_room(self, vertices: int, edges: int) -> None:
        """Do nothing: this judge stores nothing about vertices and edges."""

    def judge_tuple(self, chunk: Chunk, i: int) -> None:
        """Raise an `AssertionError`: no kernel asks for this."""
        raise AssertionError("nothing in this index is in doubt")

    def cross(self, slide: int, order: int) -> None:
        """Advance the table to an absolute slide."""
        self._index.cross_table(slide, order)

    def judge_load(self, *, quiet: bool) -> None:
        """Do nothing: all rows stay."""

    def write_paths(self) -> int:
        """Write the walks of the table."""
        return int(kernels.write_paths(self._index.view))

    def answers_among(self, walks: np.ndarray) -> np.ndarray:
        """Return all of `walks`."""
        return walks

    def path_of(self, source: int, target: int) -> np.ndarray | None:
        """Return None: the table has the path."""
        return None

    def figures(self) -> DoubtFigures:
        """Return zeros."""
        return DoubtFigures()

    def set_figures(self, *, conflicts: int, searches: int) -> None:
        """Do nothing: this judge counts nothing."""

    @property
    def aside_roots(self) -> dict[int, int]:
        """An empty mapping."""
        return {}

    def set_aside(self, roots: dict[int, int]) -> None:
        """Do nothing: no root meets a conflict."""

    def pop_overruns(self) -> list[Overrun]:
        """Return an empty list."""
        return []

    def restore_root(self, root: int) -> bool:
        """Return False: no root is ever set aside."""
        return False

    def forget_roots(self, roots: np.ndarray) -> None:
        """Do nothing: this judge stores nothing about roots."""

    def check(self) -> None:
        """Do nothing: this judge has no state."""
