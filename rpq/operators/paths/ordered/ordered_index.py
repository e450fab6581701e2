"""The index of an ordered path query, or of one partition of its roots. It calls the kernels and gives them memory.

It shares the table, its rows, slides and answers with the Δ index, but fills the table in another way, which `timeline.py`
explains. Edges are in the timeline, not in adjacency lists.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from rpq.compiled.arrays.lanes import LANES
from rpq.compiled.growth import request
from rpq.compiled.views import lengthen, view
from rpq.language.protocol import PATH_TOO_LONG
from rpq.language.time_order import TimeOrder
from rpq.operators.paths.index import layout
from rpq.operators.paths.index.check import free_slots, stored_cells
from rpq.operators.paths.index.delta_index import DeltaIndex
from rpq.operators.paths.index.layout import Index
from rpq.operators.paths.index.path_delta import PathSteps
from rpq.operators.paths.ordered import kernels
from rpq.operators.paths.ordered.edge_paths import COMPLETE
from rpq.operators.paths.ordered.layers import MOST_STATES, clear_last_layer, layered, lengths_of
from rpq.operators.paths.ordered.timeline import (
    NEED_COPIES,
    NEED_DELETE,
    NEED_FOUND,
    NEED_LATE,
    NEED_LAYERS,
    NEED_SHORTEST,
    NEED_STEPS,
    NEED_TIMELINE,
    NEED_VECTORS,
    NEED_WITNESS,
    Timeline,
    TimelineNode,
    entries_up_to,
    new_timeline,
    newest_entry,
    note_capacities,
    remove,
    timeline_bytes,
    with_departures,
    with_more_copies,
    with_more_entries,
    with_more_scratch,
    with_vertices,
    without_scratch,
)
from rpq.operators.paths.ordered.witness import ParallelTimes, expiry_of_answer, find_path
from rpq.operators.paths.program import Program
from rpq.stream.chunk import Chunk
from rpq.stream.edges.snapshot import Edges
from rpq.stream.window import AnyWindow, CountWindow, Window

_TREES = 512
"""The number of roots whose trees grow at a time."""
_LAYERS = 4
"""The number of edges that are counted at first, if lengths are asked for (`layers.py`)."""
_FEW = 16
"""The capacity up to which one edge is counted at first, so that tests reach the next layers."""


class OrderedIndex(DeltaIndex):
    """An index of the paths whose edges follow one another in time, strictly or not, optionally within a gap and a span."""

    def __init__(
        self,
        program: Program,
        window: AnyWindow,
        *,
        order: TimeOrder,
        has_length: bool = False,
        capacity: int = 256,
        **options: Any,
    ) -> None:
        self._uncounted = program
        layers, edge_count = 1 if capacity <= _FEW else _LAYERS, np.zeros(0, np.int64)
        if has_length:
            program, edge_count = layered(program, layers)
            options["supports"] = True  # for marks
        gap, span = cast(tuple[int | None, int | None], (order.max_gap, order.max_span))  # in units of the stream
        self._timeline = new_timeline(strict=order.is_strict, gap=gap, span=span, capacity=capacity)
        # The latest first edge decides whether a path goes on within a span, if it also decides when the path leaves.
        tells_times = gap is None and span is not None and isinstance(window, Window)
        self._timeline.fields.scans = (gap is not None or span is not None) and not tells_times
        self._states = program.sizes.states
        super().__init__(program, window, tells_times=tells_times, capacity=capacity, **options)
        self.index.settings.unlisted = 1
        self.index.settings.marks = has_length
        self._timeline = self._timeline._replace(edge_count=edge_count, vectors=np.zeros(0, self.cell))
        self._timeline.fields.most_edges = layers + 1
        self._timeline.fields.in_order = isinstance(window, Window)  # otherwise edges leave by numbers
        if isinstance(window, CountWindow) and order.max_gap is not None:
            self._set_timeline(with_departures(self._timeline, 2 * self._states))

    # --- state -----------------------------------------------------------------------------------------------

    @property
    def timeline(self) -> Timeline:
        """The edges in the order of time."""
        return self._timeline

    def _set_timeline(self, timeline: Timeline) -> None:
        if timeline is not self._timeline:
            self._timeline = timeline
            if self._views is not None:  # the index is the same, and its view costs more
                self._views = self._views[0], self._own_view(self._views[0])

    @property
    def _kernels(self) -> Any:
        return kernels

    def _own_view(self, index: Any) -> Any:
        """Return the view of the timeline."""
        if self.index.settings.marks and (rows := len(self.index.output.pairs)) > len(self._timeline.length):
            self._timeline = self._timeline._replace(length=lengthen(self._timeline.length, rows))
            self._walk_lengths = self._timeline.length
        note_capacities(self._timeline)
        return view(self._timeline)

    @property
    def nbytes(self) -> int:
        """The number of bytes held."""
        return super().nbytes + timeline_bytes(self._timeline)

    def live(self) -> tuple[int, int, int]:
        """Return the numbers of cells, answers and edges that are alive now. O(size of the index)."""
        cells, answers, _ = super().live()
        return cells, answers, len(self.edge_times().time)

    def edge_times(self) -> ParallelTimes:
        """Return the edges in the window. O(edges)."""
        line, count = self._timeline, self._timeline.fields.count
        live = np.flatnonzero(line.slide[:count] > self._now)
        columns = line.time, line.slide, line.source, line.target, line.label, line.edge
        return ParallelTimes(*(column[live] for column in columns))

    @property
    def _now(self) -> int:
        """The largest slide of entries that have left the window; if cells tell times, slides of entries do so too."""
        return int(self.state.base + self.state.now)

    # --- changes ---------------------------------------------------------------------------------------------

    def make_room(self, vertices: int, edges: int, is_root: np.ndarray, is_target: np.ndarray) -> None:
        """Make room for vertex and edge ids up to these numbers. The flags are the engine's own arrays."""
        super().make_room(vertices, edges, is_root, is_target)
        self._set_timeline(with_vertices(self._timeline, vertices, self._states))

    def _complete_tuple(self, code: int) -> None:
        """Find the rows of the current tuple as far as kernels do not, and their paths."""
        assert self._chunk is not None
        chunk, i = self._chunk[0], self.state.tuple
        if code == NEED_LATE:
            self._raise_late_entry(int(chunk.timestamp[i]))
        elif code == NEED_DELETE:
            self._delete(int(chunk.edge[i]))
        if self.index.settings.witness and code != NEED_DELETE and not self.index.settings.marks:
            self.write_paths(self.state.event_out)
        self.state.phase = COMPLETE

    def _raise_late_entry(self, time: int) -> None:
        """Raise the cells of bounded paths through the last entry of a time, if it is not the newest."""
        place = int(entries_up_to(self.views[1], time)) - 1
        self.run("find_later_steps", place)
        self._order_steps()
        self.run("raise_steps", place)

    def _order_steps(self) -> None:
        """Sort the steps, or nodes, and remove duplicates."""
        line = self._timeline
        steps = np.unique(line.steps[: line.fields.step_count])
        line.steps[: len(steps)] = steps
        line.fields.step_count = len(steps)

    def _delete(self, edge: int) -> None:
        """Remove the entries of an edge of the graph if paths are bounded, and report the lost pairs.

        All rows to which paths through an entry may lead are recomputed.
        """
        lost = [np.zeros(0, np.int64)]
        while (place := int(newest_entry(self.views[1], edge, self._now))) >= 0:
            self.run("find_later_nodes", place)
            self._order_steps()
            remove(self.views[1], place)
            self._timeline.fields.found_paths = self._timeline.fields.raised_count = 0
            self.run("renew_rows")
            lost.append(self._timeline.found_node[: self._timeline.fields.found_paths].copy())
        self._report_lost(np.unique(np.concatenate(lost)))

    def _report_lost(self, pairs: np.ndarray) -> None:
        pairs = pairs[: kernels.retain_lost_pairs(self.view, pairs, len(pairs))]
        while self.state.out + len(pairs) > len(self.index.output.pairs):
            self.provide(layout.NEED_OUTPUT)
        out = self.state.out
        self.index.output.pairs[out : out + len(pairs)] = pairs
        self.state.out += len(pairs)

    def _load(self, chunk: Chunk, relative: np.ndarray, *, quiet: bool) -> None:
        """Enter edges, including parallel edges, the oldest first."""
        program = self.index.program
        is_read = (program.forward[chunk.label] >= 0) | (program.inverse[chunk.label] >= 0)
        live = np.flatnonzero(is_read & (relative > self.state.now))
        live = live[np.argsort(chunk.timestamp[live], kind="stable")]
        if self.index.settings.step > 1:  # the times in a slide differ
            relative = chunk.timestamp + self.index.settings.size - self.state.base
        columns = chunk.timestamp, relative + self.state.base, chunk.source, chunk.target, chunk.label, chunk.edge
        marks = bool(self.index.settings.marks)
        self._enter(ParallelTimes(*(column[live] for column in columns)), relative[live], quiet=quiet and not marks)
        if marks:
            self.state.quiet = quiet
            self.run("settle", self.state.time, 1)
            self.state.quiet = 0

    def _grow(self, roots: np.ndarray) -> None:
        self._find_trees(roots)
        if self.index.settings.marks:
            self.run("settle", self.state.time, 0)

    def _find_trees(self, roots: np.ndarray) -> None:
        """Find the paths of roots.

        O(edges of the window) for each `_TREES` roots; with scans back also for each edge to which their paths lead.
        """
        kernels.end_moment(*self.views)
        if not self._timeline.fields.scans:
            at_a_time = LANES if self.index.settings.marks else _TREES  # layers make the vectors of each root larger
            for begin in range(0, len(roots), at_a_time):
                self.run("find_trees", np.ascontiguousarray(roots[begin : begin + at_a_time]))
                self.run("raise_vectors")
            return
        is_root = self.index.table.is_root
        all_roots = is_root.copy()
        is_root[:] = 0
        is_root[roots] = 1
        self._timeline.fields.raised_count = self._timeline.fields.first
        try:
            self.run("raise_entries")
        finally:
            is_root[:] = all_roots

    def _add_layers(self) -> None:
        """Count a quarter more edges, and find the paths of the roots that reached the last layer.

        O(size of the table), and what `_find_trees` costs for these roots.
        """
        kernels.end_moment(*self.views)
        mask = np.zeros_like(self.index.table.conflicted_roots)
        clear_last_layer(*self.views, mask)
        slots = np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little"))
        program, table, line = self.index.program, self.index.table, self._timeline
        layers = line.fields.most_edges - 1
        layers += max(1, layers // 4)
        counting, edge_count = layered(self._uncounted, layers)
        vertices, old_states, states = len(line.hits), self._states, len(edge_count)
        if states > MOST_STATES:
            self.guard(PATH_TOO_LONG, self._place)
        with self.guarded_growth():
            request(vertices * (states * TimelineNode.dtype().itemsize + (states - old_states) * table.row_of.itemsize))
            row_of = np.full((vertices, states), -1, np.int32)
            row_of[:, :old_states] = table.row_of.reshape(-1, old_states)
            line = line._replace(nodes=TimelineNode.zeros(vertices * states), edge_count=edge_count)
        line.fields.most_edges, self._states = layers + 1, states
        if line.fields.departures_of_entry:
            line = with_departures(line, 2 * states)
        self._timeline = line
        counting = counting._replace(forward=program.forward, inverse=program.inverse)
        self.index = self.index._replace(program=counting, table=table._replace(row_of=row_of.ravel()))
        self._find_trees(table.slot_vertex[slots].astype(np.int64))

    def lengths_of(self, pairs: np.ndarray) -> np.ndarray:
        found = np.zeros(len(pairs), np.int64)
        lengths_of(*self.views, pairs, found)
        return found

    def drop(self, roots: np.ndarray) -> None:
        """Drop roots and their trees without reporting rows. O(size of the index)."""
        kernels.end_moment(*self.views)
        super().drop(roots)

    def load_static(self, chunk: Chunk) -> None:
        """Ignore static edges, which have no timestamp and lie on no ordered path."""

    def sweep(self) -> None:
        """Release everything that has left the window."""
        kernels.end_moment(*self.views)
        kernels.sweep(*self.views)
        self._set_timeline(without_scratch(with_more_entries(self._timeline, self._now)))

    def provide(self, code: int) -> None:
        """Do what a kernel asked for. The guard may refuse memory."""
        if code in (NEED_LATE, NEED_DELETE, NEED_WITNESS):
            self._complete_tuple(code)
            return
        if code == NEED_LAYERS:
            self._add_layers()
            return
        if code == NEED_SHORTEST:
            self.write_paths(self.state.event_out)
            return
        if code not in (NEED_TIMELINE, NEED_COPIES, NEED_FOUND, NEED_VECTORS, NEED_STEPS):
            super().provide(code)
            return
        with self.guarded_growth():
            if code == NEED_TIMELINE:
                self._set_timeline(with_more_entries(self._timeline, self._now))
            elif code == NEED_COPIES:
                self._set_timeline(with_more_copies(self._timeline))
            else:
                self._set_timeline(with_more_scratch(self._timeline, code))

    def witness(self, source: int, target: int, edges: Edges | None = None) -> PathSteps | None:
        """Return a path that answers (source, target), with timestamps, or None."""
        if not self.index.table.is_root[source]:
            return None
        ends = self.index.program.accepting_states
        if self.index.settings.marks:
            ends = ends[self._timeline.edge_count[ends] == self.lengths_of(np.array([source << 32 | target]))]
        expiry = int(expiry_of_answer(self.view, source, target, ends))
        if not expiry:
            return None
        return find_path(self.index, self._timeline, self.edge_times(), source, target, ends=ends, expiry=expiry)

    def write_paths(self, first: int) -> None:
        """Write the witnesses of the current event, whose rows begin at `first`."""
        for row in range(first, self.state.out):
            pair = int(self.index.output.pairs[row])
            found = self.witness(pair >> 32, pair & layout.LOW_HALF)
            assert found is not None
            steps = found.steps[::-1]
            begin = self.state.paths
            while begin + len(steps) > len(self.index.output.paths) or row >= len(self.index.output.path_end):
                self.provide(layout.NEED_PATHS)
            self.index.output.paths[begin : begin + len(steps)] = steps
            self.state.paths = self.index.output.path_end[row] = begin + len(steps)

    def _check(self) -> None:
        """Assert every structural invariant, between tuples. O(edges² of the window)."""
        check_ordered(self.index, self._timeline)


# --- invariants, for the tests: plain Python, slow, obvious --------------------------------------------------


_Path = tuple[int, int, int]
"""A path: the time of its first edge, the time of its last edge, and the slide up to which the path lasts."""


def expected_cells(index: Index, timeline: Timeline) -> dict[tuple[int, int, int], int]:
    """Return the values of all cells by (vertex, state, root), computed from all paths, the oldest edges first."""
    program, state = index.program, index.state
    strict, gap, span = timeline.fields.strict, timeline.fields.gap, timeline.fields.span
    base, now, ceiling = state.base, state.now, index.settings.ceiling
    first_entry, count = timeline.fields.first, timeline.fields.count
    columns = (timeline.time, timeline.slide, timeline.source, timeline.target, timeline.label)
    entries = list(zip(*(column[first_entry:count].tolist() for column in columns), strict=True))
    assert [entry[0] for entry in entries] == sorted(entry[0] for entry in entries), "entries are not in the order of time"
    entries = [(time, min(slide - base, ceiling), u, v, label) for time, slide, u, v, label in entries if slide - base > now]
    paths: dict[tuple[int, int, int], set[_Path]] = {}
    for time in sorted({entry[0] for entry in entries}):
        while True:
            new: dict[tuple[int, int, int], set[_Path]] = {}
            for _, slide, source, target, label in (entry for entry in entries if entry[0] == time):
                for classes, u, v in ((program.forward, source, target), (program.inverse, target, source)):
                    one = int(classes[label])
                    if one < 0:
                        continue
                    start = int(program.start_target[one])
                    if start >= 0 and index.table.is_root[u]:
                        new.setdefault((v, start, u), set()).add((time, time, slide))
                    for step in range(program.step_first[one], program.step_first[one + 1]):
                        before, after = int(program.step_source[step]), int(program.step_target[step])
                        for (vertex, at, root), own_paths in paths.items():
                            if (vertex, at) != (u, before):
                                continue
                            for first, last, width in own_paths:
                                if (last < time or not strict) and time - last <= gap and time - first <= span:
                                    new.setdefault((v, after, root), set()).add((first, time, min(width, slide)))
            grown = False
            for key, found in new.items():
                if not found <= paths.get(key, set()):
                    paths.setdefault(key, set()).update(found)
                    grown = True
            if strict or not grown:
                break
    return {key: max(width for _, _, width in found) for key, found in paths.items()}


def check_ordered(index: Index, timeline: Timeline) -> None:
    """Assert that storage is consistent, and that every cell has the value of its best path."""
    state, table = index.state, index.table
    assert state.phase == layout.IDLE, "a tuple is half done"
    copies = timeline.copies[: timeline.fields.copies].tolist()
    cells = stored_cells(index, foreign_blocks=copies)
    found = {(vertex, at, int(table.slot_vertex[slot])): value for (vertex, at, slot), (value, _) in cells.items()}
    expected = expected_cells(index, timeline)
    assert found == expected, f"cells differ: {set(found.items()) ^ set(expected.items())}"
    count = timeline.fields.count
    if count:
        assert timeline.time[count - 1] <= timeline.fields.moment, "an edge is younger than the latest moment"
    used = [slot for slot in range(state.slots) if table.slot_vertex[slot] >= 0]
    free = free_slots(index)
    assert sorted(used + free) == list(range(state.slots)), "slots leak or are shared"
    if index.settings.marks:
        _check_marks(index, timeline, cells)


def _check_marks(index: Index, timeline: Timeline, cells: dict[tuple[int, int, int], tuple[int, int]]) -> None:
    """Assert that each pair was reported with the number of edges of its shortest path, and that all these are counted."""
    fields = timeline.fields
    assert not (fields.has_new_rows or fields.settled or fields.changed), "an event is half reported"
    accepted = sorted((vertex, slot, state) for vertex, state, slot in cells if index.program.accepting[state])
    first = {(vertex, slot): state for vertex, slot, state in reversed(accepted) if index.table.is_target[vertex]}
    marked = [(vertex, slot, state) for vertex, slot, state in accepted if cells[vertex, state, slot][1]]
    assert marked == sorted((*pair, state) for pair, state in first.items()), "marks are not at the shortest paths"
    counts = {int(timeline.edge_count[state]) for state in first.values()}
    assert fields.most_edges not in counts, "a path is longer than the automaton counts"
