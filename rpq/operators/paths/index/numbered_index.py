"""The Δ index over windows that do not depend on time: count windows and unbounded ones.

A count window is a time window over the numbers of inserts. So this is a Δ index whose clock is the number of the last
insert. The rows that the index reports at a boundary, before the insert that crosses it, belong to the event of that insert:
the rows of both are netted. In an unbounded window all inserts have the number 0, so that no boundary is ever crossed.

The inserts that are numbered are those with labels of the expression, unless it is one of several that are evaluated over
one window (`numbers_of`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rpq.compiled.kernel_cache import njit
from rpq.compiled.views import Record, bound, int64, view
from rpq.language.protocol import Overrun
from rpq.operators.paths.index.delta_index import DeltaIndex, PathDelta
from rpq.operators.paths.program import Program
from rpq.rows.delta import ends_after_filter
from rpq.rows.weighted_rows import WeightedRows
from rpq.stream.chunk import NO_DETAILS, Chunk, ChunkDetails
from rpq.stream.edges.outcomes import NEVER, NOT_HELD, leaving_slide, outcome_of
from rpq.stream.edges.snapshot import Edges
from rpq.stream.window import CountWindow, UnboundedWindow, Window

_NOTHING = Window(size=1, slide=1)
"""A window over the number 0 alone."""


class _NumberingState(Record):
    """The window, the number of the last insert, and counts."""

    _fields_ = (
        ("size", int64),
        ("step", int64),  # 0: the window is unbounded
        ("number", int64),  # of the last insert
        ("own_labels", int64),  # 1: inserts of the labels of the expression are numbered; 0: of the labels in `numbered`
        ("outcomes", int64 * 2),  # the numbers of inserts with the outcomes INSERTED and REFRESHED
    )


class _Numbering(NamedTuple):
    """The numbers of inserts: the last number, and the slide at which each edge leaves."""

    leaves: np.ndarray  # int64 an edge: the slide at which it leaves, in numbers
    numbered: np.ndarray  # uint8 a label
    progress: _NumberingState


class NumberedIndex(DeltaIndex):
    """A Δ index over a count window or an unbounded window."""

    def __init__(
        self, program: Program, window: CountWindow | UnboundedWindow, *, explicit: bool = False, **options: Any
    ) -> None:
        counts = isinstance(window, CountWindow)
        numbers = window.numbers if isinstance(window, CountWindow) else _NOTHING
        # Rows that expire silently may return with the insert; then neither change is reported.
        super().__init__(program, numbers, explicit=counts, **options)
        self._counts = counts
        self._is_silent = counts and not explicit
        self._numbering = _Numbering(
            leaves=np.full(0, NOT_HELD, np.int64),
            numbered=np.zeros(0, np.uint8),
            progress=_NumberingState(size=numbers.size, step=numbers.slide if counts else 0, own_labels=1),
        )
        self.index.settings.counts = counts
        self._numbering_view: Any = view(self._numbering)
        self._single: tuple[Chunk, Any] | None = None  # a chunk of one tuple, and the view of its clock, which is reused
        self._net: PathDelta | None = None
        self._overruns: list[Overrun] = []

    @property
    def nbytes(self) -> int:
        """The number of bytes held."""
        return super().nbytes + self._numbering.leaves.nbytes

    def live(self) -> tuple[int, int, int]:
        """Return the numbers of live cells, answers and edges. O(size of the index)."""
        cells, answers, _ = super().live()
        return cells, answers, int((self._numbering.leaves > self.current).sum())

    @property
    def number(self) -> int:
        """The number of the last insert."""
        return self._numbering.progress.number

    @property
    def current(self) -> int:
        """The slide up to which edges have left the window, in numbers."""
        return self.number // self.window.slide if self._counts else NOT_HELD

    def count_from(self, number: int) -> None:
        """Set the number of the last insert of an empty index."""
        self._numbering.progress.number = number

    def numbers_of(self, numbered: np.ndarray) -> None:
        """Set the flags (uint8) of the label ids whose inserts are numbered, if one window serves several expressions.

        The caller owns the array and continues to fill it; it is as long as the other arrays of labels.
        """
        self._numbering.progress.own_labels = 0
        self._numbering = self._numbering._replace(numbered=numbered)
        self._numbering_view = view(self._numbering)

    def make_room(self, vertices: int, edges: int, is_root: np.ndarray, is_target: np.ndarray) -> None:
        """Make room for vertex and edge ids up to these numbers. The flags are the engine's own arrays."""
        super().make_room(vertices, edges, is_root, is_target)
        leaves = self._numbering.leaves
        if (more := edges - len(leaves)) > 0:
            self._numbering = self._numbering._replace(leaves=np.concatenate([leaves, np.full(more, NOT_HELD, np.int64)]))
            self._numbering_view = view(self._numbering)

    def apply(
        self, chunk: Chunk, tuples: Any, edges: Edges, details: ChunkDetails = NO_DETAILS, *, clock: Any = None
    ) -> None:
        """Apply the tuples of a chunk, whose edges are in `edges`. `delta` returns the changes of the answers."""
        count = len(chunk.timestamp)
        if self._single is not None and self._single[0] is chunk:
            clock = self._single[1]
        else:
            clock = view(chunk._replace(timestamp=np.empty(count, np.int64)))
            self._single = (chunk, clock) if count == 1 else None
        arguments = self.view, tuples, clock, self._numbering_view, count
        if "number" not in self._bound:
            self._bound["number"] = bound(_number, *arguments)
        self._bound["number"](*arguments)
        super().apply(chunk, tuples, edges, clock=clock)
        # An insert of an edge that it would evict refreshes the edge.
        self.state.outcomes[:2] = self._numbering.progress.outcomes[:]

    def advance(self, time: int) -> PathDelta:
        """Advance the stream time without a tuple: nothing leaves."""
        self._begin_output()
        self.run("advance", time, self.number)
        return self.delta()

    def load(self, chunk: Chunk, *slides: np.ndarray, quiet: bool = False) -> PathDelta:
        """Insert edges that leave at these slides, in numbers. The resulting answers are one event at the current time."""
        (mine,) = slides
        program = self.index.program
        is_read = (program.forward[chunk.label] >= 0) | (program.inverse[chunk.label] >= 0)
        is_inside = is_read & (mine > self.current)
        np.maximum.at(self._numbering.leaves, chunk.edge[is_inside], mine[is_inside])  # the last of parallel edges to leave
        inner = mine if self._counts else np.where(mine == NEVER, 1, 0)
        return super().load(chunk, inner, quiet=quiet)

    def slides(self, edges: np.ndarray) -> np.ndarray:
        """Return the slides at which edges leave, in numbers; for edges outside the window, values up to the current
        slide."""
        found: np.ndarray = self._numbering.leaves[edges]
        return found

    def pop_overruns(self) -> list[Overrun]:
        """Return the roots that have exceeded their budget since the last call."""
        self._note_overruns()
        taken, self._overruns = self._overruns, []
        return taken

    # --- output ----------------------------------------------------------------------------------------------

    @property
    def has_rows(self) -> bool:
        """True if `delta` is not empty."""
        return super().has_rows and len(self.delta()) > 0

    def delta(self, *, before: int | None = None) -> PathDelta:
        """Return the changes of answers by the last call, or those `before` a tuple of it. The next call overwrites them."""
        if self._net is None:
            self._net = self._net_rows(super().delta(before=before))
        return self._net

    def _begin_output(self) -> None:
        super()._begin_output()
        self._net = None

    def _note_overruns(self) -> None:
        self._overruns += self.judge.pop_overruns()

    def _net_rows(self, raw: PathDelta) -> PathDelta:
        """Return rows without those that an eviction removes and its insert adds again."""
        is_eviction = (raw.orders % 2 == 0) & self._is_applied
        if not is_eviction.any():
            return raw
        orders = raw.orders | 1
        lengths = raw.lengths()
        weights, events = np.repeat(raw.kinds.astype(np.int64), lengths), np.repeat(orders, lengths)
        mask = np.zeros(len(raw), bool)
        mask[WeightedRows(raw.ids.values, weights, events).net_places()[0]] = True
        if self._is_silent:
            mask &= ~self._silent_rows(raw, is_eviction)
        ends = ends_after_filter(mask, raw.ends)
        some = np.diff(ends, prepend=0) > 0
        added = np.repeat(raw.kinds > 0, raw.lengths())
        self.state.added -= (~mask & added).sum()
        self.state.removed -= (~mask & ~added).sum()
        paths, path_ends = _current_paths(raw, added, mask) if len(raw.path_ends) else (raw.paths, raw.path_ends)
        return PathDelta(
            pairs=raw.pairs[mask],
            times=raw.times[some],
            ends=ends[some],
            kinds=raw.kinds[some],
            orders=orders[some],
            paths=paths,
            path_ends=path_ends,
            is_reversed=raw.is_reversed,
            walk_lengths=None if raw.walk_lengths is None else raw.walk_lengths[mask],
        )

    def _silent_rows(self, raw: PathDelta, is_eviction: np.ndarray) -> np.ndarray:
        """Return the mask of the rows that only an eviction removes, without the rows of a root that it sets aside, which
        are reported."""
        silent = np.repeat(is_eviction, raw.lengths())
        self._note_overruns()
        if self._overruns:
            place = np.repeat(raw.orders // 2, raw.lengths())
            aside = {(overrun.place, overrun.root) for overrun in self._overruns}
            silent &= [pair not in aside for pair in zip(place.tolist(), (raw.pairs >> 32).tolist(), strict=True)]
        return silent


def _current_paths(raw: PathDelta, added: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the witnesses of the remaining rows, and their ends."""
    lengths = np.zeros(len(raw.pairs), np.int64)
    lengths[added] = np.diff(raw.path_ends[added], prepend=0)
    path_mask = np.repeat(mask, lengths)
    return raw.paths[: len(path_mask)][path_mask], np.cumsum(lengths[mask])


@njit(cache=True, nogil=True)
def _number(index, chunk, clock, numbering, count):
    """Assign numbers to the inserts of a chunk, which move the window in place of times."""
    forward, inverse = index.program.forward, index.program.inverse
    progress, leaves = numbering.progress, numbering.leaves
    size, step, number = progress.size, progress.step, progress.number
    own = progress.own_labels != 0
    for i in range(count):
        label = np.int64(chunk.label[i])
        is_read = forward[label] >= 0 or inverse[label] >= 0
        if is_read if own else numbering.numbered[label] != 0:
            edge = np.int64(chunk.edge[i])
            if chunk.delete[i] != 0:
                if edge >= 0 and is_read:
                    leaves[edge] = NOT_HELD
            else:
                current = number // step if step > 0 else np.int64(NOT_HELD)
                number += 1 if step > 0 else 0
                if is_read and edge >= 0:  # over an unbounded window it may be passed by
                    progress.outcomes[outcome_of(False, leaves[edge] > current, False)] += 1
                    leaves[edge] = leaving_slide(number, size, step) if step > 0 else np.int64(NEVER)
        clock.timestamp[i] = number
    progress.number = number
