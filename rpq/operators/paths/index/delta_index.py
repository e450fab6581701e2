"""The Δ index of one query, or of one partition of its roots. It calls the kernels, gives them memory and returns rows.

`layout.py` explains the layout of the memory; `insert.py` contains the insertion of edges, `delete.py` their deletion,
`expiry.py` slides. A judge decides which walks make an answer (`judging.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from rpq.compiled.cycle_counter import ticks_per_second
from rpq.compiled.growth import guarded_growth, request
from rpq.compiled.stopwatch import compiling_seconds
from rpq.compiled.views import bound, view
from rpq.errors import QueryError
from rpq.language.protocol import OUT_OF_TIME, ROW_COPIES, Guard, Overrun
from rpq.operators.paths.index import answers, kernels, layout
from rpq.operators.paths.index.check import check_index
from rpq.operators.paths.index.columns import components
from rpq.operators.paths.index.judging import DoubtFigures, Judge, NoDoubt
from rpq.operators.paths.index.layout import (
    LOW_HALF,
    Index,
    index_bytes,
    new_index,
    note_capacities,
    with_more_memory,
    with_room,
    without_cells,
)
from rpq.operators.paths.index.path_delta import PathDelta, PathSteps
from rpq.operators.paths.program import Program
from rpq.rows.weighted_rows import WeightedRows
from rpq.stream.chunk import NO_DETAILS, Chunk, ChunkDetails
from rpq.stream.edges.outcomes import NEVER, NOT_HELD
from rpq.stream.edges.snapshot import Edges
from rpq.stream.window import AnyWindow, CountWindow, Window

CELL_TYPES = (np.uint8, np.uint16, np.uint32, np.int64)


def cell_type(span: int) -> np.dtype | None:
    """Return the smallest type of cells for windows that touch `span` slides, or None if no type is large enough."""
    return next((np.dtype(t) for t in CELL_TYPES if span <= np.iinfo(t).max - np.iinfo(t).max // 50 - 1), None)


_STEP = 1 << 20
"""The least number of rows after which kernels return, so that the rows of one event are counted."""

_BATCH = 256
"""The number of tuples from which on a chunk may trigger a change of the index, so that single tuples never wait for one."""

NO_LIMIT = np.iinfo(np.int64).max
_NOTHING = Window(size=1, slide=1)
"""In place of an unbounded window: a window over the number 0 alone."""
_EVERY_ROOT, _EVERY_NUMBER = np.zeros(0, np.uint64), np.zeros(0, np.int64)


class DeltaIndex:
    """Spanning trees of one query for the roots that `is_root` admits.

    `judge` decides which walks make an answer; without a judge, all do. The roots of an index of a reversed expression are
    targets; with `is_reversed`, its rows are (source, target) nevertheless. With `supports`, in-edges are maintained from
    the beginning, not from the first delete on. With `tells_times`, cells of a window of time have a value for each time in
    place of each slide. `capacity` is the initial number of rows and blocks: tests use small ones to reach every growth. The
    class is not thread-safe, but several indexes may run in several threads, since kernels release the GIL.
    """

    def __init__(
        self,
        program: Program,
        window: AnyWindow,
        *,
        explicit: bool = False,
        witness: bool = False,
        judge: Judge | None = None,
        is_reversed: bool = False,
        supports: bool = False,
        tells_times: bool = False,
        capacity: int = 256,
        guard: Guard | None = None,
        check_rows: Callable[[int, int], None] | None = None,
        deadline: np.ndarray | None = None,
    ) -> None:
        self._counts = isinstance(window, CountWindow)
        self._is_silent = self._counts and not explicit
        self._net: PathDelta | None = None
        self._walk_lengths: np.ndarray | None = None  # of the pairs in the output, if the index has them
        self._overruns: list[Overrun] = []
        self.is_reversed = is_reversed
        self._check_rows = check_rows
        self.guard: Guard = guard if guard is not None else lambda size, place: None
        settings = layout.IndexSettings()
        if isinstance(window, CountWindow):
            window, settings.moved_by = window.numbers, layout.BY_INSERTS
        elif not isinstance(window, Window):
            window, settings.moved_by = _NOTHING, layout.BY_NOTHING
        self.window = window
        step = window.slide if tells_times else 1
        span = (-(-window.size // window.slide) + 1) * step
        fitting = self._cells_for(span)
        if fitting is None:
            raise QueryError(f"a window of {window.size} has too many slides of {window.slide}; take a larger slide")
        self.cell, ceiling = fitting
        settings.size = window.size
        settings.slide = window.slide // step
        settings.step = step
        settings.range = span
        settings.ceiling = ceiling
        settings.rank_shift = max(0, span.bit_length() - 8)
        # Rows that expire silently in a count window may return with the insert; then neither change is reported.
        settings.explicit = explicit or self._counts
        settings.sweep_every = max(1, span // 8)
        settings.witness = witness
        self.judge: Judge = NoDoubt() if judge is None else judge
        settings.simple = not self.judge.walks_return
        settings.judged = self.judge.doubts
        self._waiting: Chunk | None = None  # static edges that the next load enters
        self._place_of_load: int | None = None  # the tuple of a chunk that makes the index reload its edges
        self._chunk: tuple[Chunk, Edges] | None = None  # the output has its changes
        self._bound: dict[str, Any] = {}  # kernels for the types of the views that they had last
        supports = supports or witness or self.judge.doubts
        index = new_index(program, settings, self.cell, supports=supports, capacity=capacity)
        self.index = index if deadline is None else index._replace(deadline=deadline)
        self.judge.serve(self)

    @property
    def _kernels(self) -> Any:
        """The kernels of this kind of index: `apply_chunk`, `advance` and others that return codes."""
        return kernels

    def _own_view(self, index: Any) -> Any:
        """Return the view for kernels of what this kind of index has besides the Δ index; `index` is the view of that."""
        return index

    def _cells_for(self, span: int) -> tuple[np.dtype, int] | None:
        """Return the narrowest type of cells for a window with this number of slides, and the largest slide; None without
        such a type."""
        cell = cell_type(span)
        # The value above the largest slide is for cells that never expire.
        return None if cell is None else (cell, int(np.iinfo(cell).max) - (2 if cell == np.int64 else 1))

    # --- state -----------------------------------------------------------------------------------------------

    @property
    def index(self) -> Index:
        """The arrays of the graph; assigning them replaces all."""
        return self._index

    @index.setter
    def index(self, index: Index) -> None:
        self._index = index
        self._views: tuple[Any, Any] | None = None

    @property
    def views(self) -> tuple[Any, Any]:
        """The views for kernels: of the arrays, and of what this kind of index has besides."""
        if self._views is None:
            note_capacities(self._index)
            of_index = view(self._index)
            self._views = of_index, self._own_view(of_index)
        return self._views

    @property
    def view(self) -> Any:
        """The view of the arrays for kernels."""
        return self.views[0]

    @property
    def state(self) -> layout.IndexState:
        """The counters and positions named in `layout`."""
        return self.index.state

    @property
    def time(self) -> int:
        """The stream time."""
        return self.state.time

    @property
    def current(self) -> int:
        """The slide up to which edges have left the window."""
        return int(self.state.base + self.state.now) // self.index.settings.step

    @property
    def keeps_supports(self) -> bool:
        """True if hop counts and in-edges are kept."""
        return len(self.index.table.hops) > 0

    @property
    def buffer_bytes(self) -> int:
        """The part of `nbytes` that the buffer for the rows of one chunk occupies."""
        return sum(array.nbytes for array in self.index.output)

    @property
    def nbytes(self) -> int:
        """The number of bytes held."""
        return index_bytes(self.index) + self.judge.nbytes

    def live(self) -> tuple[int, int, int]:
        """Return the numbers of live cells, answers and edges. O(size of the index)."""
        cells, walks = answers.count_live(self.view)
        count = len(self.answers()) if self.state.conflicted else int(walks)
        return int(cells), count, self._live_edges()

    def _live_edges(self) -> int:
        return int((self._in_window(self.index.graph) > self.state.now).sum())

    def _in_window(self, graph: layout.Graph) -> np.ndarray:
        """Return the slide at which each edge leaves the window, relative to the base; an edge may leave the window without
        expiring."""
        if not len(graph.window_expiry):
            return graph.expiry
        return np.where(graph.expiry > self.index.settings.ceiling, graph.window_expiry, graph.expiry)

    def walks(self) -> np.ndarray:
        """Return the pairs that the table answers, source << 32 | target. O(size of the index)."""
        return self._walks(0, len(self.index.table.slot_of), NO_LIMIT, _EVERY_ROOT, _EVERY_NUMBER)[0]

    def _walks(self, first: int, end: int, limit: int, mask: np.ndarray, numbers: np.ndarray) -> tuple[np.ndarray, int]:
        """Return pairs of the table in the order of their ends, and the end to go on from, as `answers.live_pairs` does."""
        pairs, following = answers.live_pairs(self.view, first, end, limit, mask, numbers)
        return pairs, int(following)

    def count_by_root(self, cells: np.ndarray, answers_of: np.ndarray) -> None:
        """Add the product nodes that each root reaches and its answers to its places in two arrays (int64 a vertex)."""
        answers.count_by_root(self.view, cells, answers_of)

    def answers(
        self, *, roots: np.ndarray | None = None, first: int = 0, end: int = NO_LIMIT, limit: int = NO_LIMIT
    ) -> np.ndarray:
        """Return the current answers, root << 32 | end, in the order of their ends.

        They are the answers of some `roots`, with ends from `first` up to `end`, and stop after the end with which there are
        `limit` of them. O(vertices + answers returned), and for the last end all of its answers; with roots, also
        O(vertices × blocks of the roots).
        """
        mask, numbers = _EVERY_ROOT, _EVERY_NUMBER
        if roots is not None:
            mask = self._mask_of(roots)
            numbers = np.flatnonzero(mask)
            if not len(numbers):
                return np.zeros(0, np.int64)
        end = min(end, len(self.index.table.slot_of))
        found: list[np.ndarray] = []
        count = 0
        while first < end and count < limit:
            walks, first = self._walks(first, end, limit - count, mask, numbers)
            found.append(self.judge.answers_among(walks))
            count += len(found[-1])
        return found[0] if len(found) == 1 else np.concatenate([np.zeros(0, np.int64), *found])

    def figures(self) -> DoubtFigures:
        """Return the counts of the judge, and the number of pairs in doubt. O(pairs in doubt)."""
        return self.judge.figures()

    def set_figures(self, *, conflicts: int, searches: int) -> None:
        """Set the counts from which to continue."""
        self.judge.set_figures(conflicts=conflicts, searches=searches)

    @property
    def aside_roots(self) -> dict[int, int]:
        """The roots that are set aside, and the number of nodes after which each was set aside."""
        return self.judge.aside_roots

    @property
    def may_overrun(self) -> bool:
        """True if a root can ever exceed its budget."""
        return self.judge.doubts

    # --- changes ---------------------------------------------------------------------------------------------

    def count_from(self, number: int) -> None:
        """Set the number of the last insert of an empty index over a count window."""
        if self._counts:
            self.state.clock, self.state.base = number, number // self.window.slide

    def set_labels(self, forward: np.ndarray, inverse: np.ndarray, numbered: np.ndarray) -> None:
        """Set the transition classes of every label id (int16, -1: none), and which inserts a count window numbers (uint8).

        The arrays are the caller's own, which continue to grow.
        """
        program = self.index.program._replace(forward=forward, inverse=inverse)
        self.index = self.index._replace(program=program, numbered=numbered)

    def make_room(self, vertices: int, edges: int, is_root: np.ndarray, is_target: np.ndarray) -> None:
        """Make room for vertex and edge ids up to these numbers. The flags are the engine's own arrays."""
        index = with_room(self.index, vertices, edges, is_root, is_target)
        if index is not self.index:
            self.index = index
        self.judge.make_room(vertices, edges)

    def add_ticks_to(self, ticks: np.ndarray, count: int) -> None:
        """Add the ticks of each of the next `count` tuples to its entry of `ticks` (int64)."""
        self.state.timed_tuples = count
        if self.index.ticks is not ticks:
            self.index = self.index._replace(ticks=ticks)

    def apply(self, chunk: Chunk, tuples: Any, edges: Edges, details: ChunkDetails = NO_DETAILS) -> None:
        """Apply the tuples of a chunk (and of its view), whose edges are in `edges`. `delta` returns the changes of the
        answers.

        The `details` are for other workers, and are ignored.
        """
        self._begin_output()
        self._chunk = chunk, edges
        state, count = self._index.state, len(chunk.timestamp)
        state.tuple = 0
        if self._counts:
            state.numbered = 0
        if "apply_chunk" not in self._bound:
            self._bound["apply_chunk"] = bound(self._kernels.apply_chunk, *self.views, tuples, 1)
        self.run("apply_chunk", tuples, count)
        if count >= _BATCH:
            self._review(count)

    def _review(self, count: int) -> None:
        """Revise how the index stores paths, after a chunk of `count` tuples. Most kinds have no choice."""

    def run(self, kernel: str, *arguments: Any) -> None:
        """Call one of `_kernels` until it is done, and do what it asks for in between."""
        while (code := (self._bound.get(kernel) or getattr(self._kernels, kernel))(*self.views, *arguments)) != layout.DONE:
            compiled = compiling_seconds()
            self.provide(code)
            if compiling_seconds() > compiled:  # do not count the time for loading a kernel as the time of this tuple
                self.state.tuple_start += int((compiling_seconds() - compiled) * ticks_per_second())

    @property
    def has_rows(self) -> bool:
        """True if `delta` is not empty."""
        return bool(self._index.state.events) and (not self._counts or len(self.delta()) > 0)

    def delta(self, *, before: int | None = None) -> PathDelta:
        """Return the changes of answers by the last call, or those `before` a tuple of it. The next call overwrites them."""
        output, state = self._index.output, self._index.state
        events = state.events
        if before is not None:
            events = int(np.searchsorted(output.event_tuple[:events], 2 * before))
        rows = int(output.event_end[events - 1]) if events else 0
        delta = PathDelta(
            pairs=output.pairs[:rows],
            times=output.event_time[:events],
            ends=output.event_end[:events],
            kinds=output.event_kind[:events],
            orders=output.event_tuple[:events],
            paths=output.paths[: state.paths],
            path_ends=output.path_end[:rows],
            is_reversed=self.is_reversed,
            walk_lengths=None if self._walk_lengths is None else self._walk_lengths[:rows],
        )
        if self._counts:
            self._net = delta = self._net_rows(delta) if self._net is None else self._net
        return delta

    def _net_rows(self, rows: PathDelta) -> PathDelta:
        """Return the rows of a count window, in which the rows of a boundary belong to the insert that crosses it.

        A row that an eviction removes and its insert adds again is neither, and without explicit windows no eviction has
        rows, except those of a root that it sets aside.
        """
        is_eviction = (rows.orders % 2 == 0) & (self._chunk is not None)
        if not is_eviction.any():
            return rows
        orders, lengths = rows.orders | 1, rows.lengths()
        weights = np.repeat(rows.kinds.astype(np.int64), lengths)
        is_kept = np.zeros(len(rows), bool)
        is_kept[WeightedRows(rows.ids.values, weights, np.repeat(orders, lengths)).net_places()[0]] = True
        if self._is_silent:
            is_silent = np.repeat(is_eviction, lengths)
            self._overruns += self.judge.pop_overruns()
            if self._overruns:
                aside = {(overrun.place, overrun.root) for overrun in self._overruns}
                of_rows = zip(np.repeat(orders // 2, lengths).tolist(), (rows.pairs >> 32).tolist(), strict=True)
                is_silent &= [pair not in aside for pair in of_rows]
            is_kept &= ~is_silent
        self.state.added -= (~is_kept & (weights > 0)).sum()
        self.state.removed -= (~is_kept & (weights < 0)).sum()
        return rows.without_evictions(is_kept, orders)

    def advance(self, time: int) -> PathDelta:
        """Advance the stream time without a tuple."""
        self._begin_output()
        self.run("advance", time)
        return self.delta()

    def load(self, chunk: Chunk, *slides: np.ndarray, quiet: bool = False) -> PathDelta:
        """Insert edges that expire at these absolute slides. The resulting answers are one event at the current time."""
        self._begin_output()
        self._load(*self._with_static(chunk, self._relative(*slides)), quiet=quiet)
        self.judge.judge_load(quiet=quiet)
        if self.index.settings.witness and not quiet:
            self.write_paths(self.state.event_out)
        kernels.end_event(self.view, self.state.time, 1, 1)
        return self.delta()

    def grow(self, roots: np.ndarray) -> PathDelta:
        """Make new roots of vertices. Their answers are one event at the current time.

        If the memory guard refuses, they do not become roots.
        """
        self.index.table.is_root[roots] = 1
        self._begin_output()
        self.state.tuple = 0
        try:
            self._grow(roots)
            self.judge.judge_load(quiet=False)
        except BaseException:
            self.drop(roots)
            raise
        kernels.end_event(self.view, self.state.time, 1, 0)
        return self.delta()

    def _grow(self, roots: np.ndarray) -> None:
        self.run("grow_trees", roots)

    def drop(self, roots: np.ndarray) -> None:
        """Remove roots and their trees without reporting rows. O(size of the index)."""
        self.index.table.is_root[roots] = 0
        mask = self._mask_of(roots)
        self.judge.forget_roots(roots)
        kernels.drop_trees(self.view, mask)

    def _mask_of(self, roots: np.ndarray) -> np.ndarray:
        """Return the slots of some roots as bits, a word for each block number."""
        slot_of = self.index.table.slot_of
        slots = slot_of[roots[roots < len(slot_of)]]
        mask = np.zeros_like(self.index.table.conflicted_roots)
        for slot in slots[slots >= 0].tolist():
            mask[slot >> 6] |= np.uint64(1 << (slot & 63))
        return mask

    def _relative(self, slides: np.ndarray) -> np.ndarray:
        """Return absolute slides relative to the base, as cells have them."""
        if self.index.settings.moved_by == layout.BY_NOTHING:
            return np.where(slides == NEVER, 1, 0)
        return slides * self.index.settings.step - self.state.base

    def load_static(self, chunk: Chunk) -> None:
        """Add edges that never expire. The next `load`, which is the first one, inserts them."""
        self._waiting = chunk

    def _with_static(self, chunk: Chunk, relative: np.ndarray) -> tuple[Chunk, np.ndarray]:
        """Return edges and their relative slides, together with the static edges. An edge of both kinds is static."""
        static, self._waiting = self._waiting, None
        if static is None:
            return chunk, relative
        graph = self.index.graph
        window_expiry = np.zeros_like(graph.expiry)
        is_static = np.isin(chunk.edge, static.edge)
        window_expiry[chunk.edge[is_static]] = np.maximum(relative[is_static], 0)
        self.index = self.index._replace(graph=graph._replace(window_expiry=window_expiry))
        never = np.full(len(static.edge), self.index.settings.ceiling + 1, np.int64)
        both = zip(chunk, static, strict=True)
        joined = Chunk(*(np.concatenate([mine[~is_static], theirs]) for mine, theirs in both))
        return joined, np.concatenate([relative[~is_static], never])

    def slides(self, edges: np.ndarray) -> np.ndarray:
        """Return the absolute slides at which edges leave the window; for edges outside the window, values up to the current
        slide."""
        found = self._in_window(self.index.graph)[edges].astype(np.int64)
        if self.index.settings.moved_by == layout.BY_NOTHING:
            return np.where(found > self.state.now, NEVER, NOT_HELD)
        return -(-(found + self.state.base) // self.index.settings.step)

    def lengths_of(self, pairs: np.ndarray) -> np.ndarray:
        """Return the lengths of some answers, root << 32 | end; 0 for a pair that is not an answer."""
        raise NotImplementedError("only an index of lengths has them")

    def witness(self, source: int, target: int, edges: Edges) -> PathSteps | None:
        """Return a path that answers (source, target), or None. Supports are maintained from now on."""
        if not len(self.judge.answers_among(np.array([source << 32 | target]))):
            return None
        path = self.judge.path_of(source, target)
        if path is not None:
            return PathSteps(path)
        if not self.keeps_supports:
            self.keep_supports(edges)
        length, steps = kernels.walk_back(self.view, source, target)
        if length > 0 and self.index.settings.simple:
            length = kernels.erase_loops(target, steps, length)
        return PathSteps(steps[:length][::-1] & LOW_HALF) if length > 0 else None

    def set_aside(self, roots: dict[int, int]) -> None:
        """Make the next load set aside the roots among these that meet a conflict. The values are sizes in nodes."""
        self.judge.set_aside(roots)

    def restore_root(self, root: int) -> bool:
        """Restore a root, and return whether it was set aside. `delta` returns its answers. It may exceed its budget
        again."""
        self._begin_output()
        return self.judge.restore_root(root)

    def pop_overruns(self) -> list[Overrun]:
        """Return the roots that have exceeded their budget since the last call."""
        overruns, self._overruns = [*self._overruns, *self.judge.pop_overruns()], []
        return overruns

    def sweep(self) -> None:
        """Release the memory of everything that has left the window."""
        kernels.sweep(self.view)

    def keep_supports(self, edges: Edges) -> None:
        """Rebuild the index with hop counts and in-edges, which deletes and witnesses need. O(size of the index)."""
        graph, state = self.index.graph, self.state
        live = np.flatnonzero(graph.expiry > state.now)
        relative = graph.expiry[live].astype(np.int64)
        saved = state.tuple
        with self.guarded_growth():
            request(index_bytes(self.index))
        self.index = without_cells(self.index, len(live))
        chunk = Chunk(
            source=edges.source[live],
            target=edges.target[live],
            label=edges.label[live],
            timestamp=np.zeros(len(live), np.int64),
            delete=np.zeros(len(live), np.uint8),
            edge=live.astype(np.int32),
        )
        self._place_of_load = saved
        try:
            self._load(chunk, relative, quiet=True)
        finally:
            self._place_of_load = None
            state.tuple = saved

    # --- steps, some of them for the judge, and memory -------------------------------------------------------

    def _load(self, chunk: Chunk, relative: np.ndarray, *, quiet: bool) -> None:
        program, (source, target, label, *_) = self.index.program, chunk
        is_read = (program.forward[label] >= 0) | (program.inverse[label] >= 0)
        component = components(source[is_read], target[is_read], len(self.index.table.slot_of))
        order = np.lexsort((-relative, component[source]))  # the order of components is that of columns
        self._enter(Chunk(*(array[order] for array in chunk)), relative[order], quiet=quiet)

    def _enter(self, edges: Any, slides: np.ndarray, *, quiet: bool) -> None:
        """Enter edges, given as columns, that expire at these relative slides."""
        self.state.tuple = 0
        self.state.quiet = quiet
        self.run("load_edges", view(edges), slides)
        self.state.quiet = 0

    def _begin_output(self) -> None:
        state, self._chunk, self._net = self._index.state, None, None
        state.out = state.events = state.event_out = state.paths = state.next_path = 0
        if len(self._index.output.pairs) > _STEP:
            self._index.state.out_capacity = 0
            self._open_output(0)

    def _open_output(self, rows: int) -> bool:
        """Raise the number of output rows that kernels may write above this one. Return False if it is larger already."""
        state, room = self._index.state, min(len(self._index.output.pairs), rows + max(_STEP, rows // 2))
        is_more = room > state.out_capacity
        if is_more:
            state.out_capacity = room
        return bool(is_more)

    def cross_table(self, slide: int, order: int) -> None:
        """Advance the table to an absolute slide, with events of that order."""
        self.run("cross", slide, order)

    def write_paths(self, first: int) -> None:
        """Write the witnesses of the current event, whose rows begin at `first`."""
        self.state.next_path = first
        while (code := self.judge.write_paths()) != layout.DONE:
            self.provide(code)

    def provide(self, code: int) -> None:
        """Do what a kernel asked for. The guard may refuse memory."""
        if code == layout.NEED_TIME:
            self.guard(OUT_OF_TIME, self._place)
            return
        if code == layout.NEED_CROSSING:
            self.judge.cross(self.state.next_slide, self.state.next_order)
            return
        if code in (layout.NEED_SUPPORTS, layout.NEED_JUDGE):
            assert self._chunk is not None
            chunk, edges = self._chunk
            if code == layout.NEED_SUPPORTS:
                self.keep_supports(edges)
            else:
                self.judge.judge_tuple(chunk, self.state.tuple)
            return
        later = 0
        if code == layout.NEED_OUTPUT:
            rows = self.state.out
            if self._check_rows is not None:
                self._check_rows(rows - self.state.event_out, self.state.tuple)
            if self._open_output(rows):
                return
            later = ROW_COPIES * rows * self.index.output.pairs.itemsize
        with self.guarded_growth(later):
            self.index = with_more_memory(self.index, code)

    @property
    def _place(self) -> int:
        """The tuple of the chunk that is being applied."""
        return self.state.tuple if self._place_of_load is None else self._place_of_load

    def guarded_growth(self, later: int = 0) -> AbstractContextManager[None]:
        """Return a context in which the memory guard is asked before arrays grow; it may refuse.

        `later` is a number of bytes that will be needed after the growth.
        """
        place, granted = self._place, self.nbytes // 4
        self.guard(granted + later, place)
        return guarded_growth(lambda more: self.guard(more + later, place), granted=granted)

    def _check(self) -> None:
        """Assert every structural invariant, between tuples. O(size of the index × degree)."""
        check_index(self.index)
        self.judge.check()
