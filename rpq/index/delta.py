"""The Δ index of one query, or of one partition of its roots: owns the memory that the kernels work on.

The layout is explained in `layout.py`; inserting in `insert.py`, deleting in `delete.py`, slides in `expiry.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rpq.blocks import LANES
from rpq.errors import QueryError
from rpq.index import kernels, layout
from rpq.index.check import check_index
from rpq.index.witness import STEP
from rpq.index.layout import Chunk, Graph, Index, Output, Program, Queue, Table
from rpq.lists import grown, lists_bytes, new_lists, with_count
from rpq.snapshot import Edges
from rpq.views import view
from rpq.window import Window

_NEVER = np.iinfo(np.int64).max
_CELL_TYPES = (np.uint8, np.uint16, np.uint32, np.int64)

Guard = Callable[[int, int], None]
"""Called with the bytes that the index is about to need and its place in the chunk; raises where that is too much."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """Answer changes of one chunk, as vertex ids.

    Rows `ends[i - 1] : ends[i]` of `pairs` (int64, source << 32 | target) belong to event i, which has a time, a
    kind (1 added, -1 removed) and a place in the order of the chunk. With witnesses, row r's path is
    `paths[path_ends[r - 1] : path_ends[r]]`, last step first, a step being edge << 1 | against.
    """

    pairs: np.ndarray
    times: np.ndarray
    ends: np.ndarray
    kinds: np.ndarray
    orders: np.ndarray
    paths: np.ndarray
    path_ends: np.ndarray

    def counts(self) -> np.ndarray:
        """Rows added and rows removed."""
        if not len(self.ends):
            return np.zeros(2, np.int64)
        lengths = self.ends.copy()
        lengths[1:] -= self.ends[:-1]
        removed = lengths[self.kinds < 0].sum()
        return np.array([self.ends[-1] - removed, removed], np.int64)


class DeltaIndex:
    """Spanning trees of one query for the roots that `is_root` admits.

    `capacity` is the initial number of rows and blocks: small ones make every growth path run. Not
    thread-safe; several indexes may run in several threads, kernels release the GIL.
    """

    def __init__(
        self,
        program: Program,
        window: Window,
        *,
        explicit: bool = False,
        witness: bool = False,
        simple: bool = False,
        capacity: int = 256,
        guard: Guard | None = None,
    ) -> None:
        self.window = window
        self.guard: Guard = guard if guard is not None else lambda size, place: None
        self._capacity = capacity
        span = -(-window.size // window.slide) + 1
        cell = next((t for t in _CELL_TYPES if span <= np.iinfo(t).max - np.iinfo(t).max // 50 - 1), None)
        if cell is None:
            raise QueryError(
                f"a window of {window.size} has too many slides of {window.slide}; take a larger slide"
            )
        self.cell = np.dtype(cell)
        ceiling = int(np.iinfo(cell).max)
        settings = np.zeros(layout.SETTINGS_FIELDS, np.int64)
        settings[layout.SIZE] = window.size
        settings[layout.SLIDE] = window.slide
        settings[layout.RANGE] = span
        settings[layout.CEILING] = ceiling
        settings[layout.RANK_SHIFT] = max(0, span.bit_length() - 8)
        settings[layout.EXPLICIT] = explicit
        settings[layout.SWEEP_EVERY] = max(1, span // 8)
        settings[layout.WITNESS] = witness
        settings[layout.SIMPLE] = simple
        settings[layout.JUDGED] = simple and len(program.later_state) > 0
        supports = witness or bool(settings[layout.JUDGED])
        classes, states = (int(n) for n in program.classes[:2])
        state = np.zeros(layout.STATE_FIELDS, np.int64)
        state[layout.QUEUED] = -1
        state[layout.BLOCKS] = 1  # block 0 means none
        state[layout.NEXT_BOUNDARY] = _NEVER
        self.index = Index(
            program=program,
            graph=Graph(
                expiry=np.zeros(0, self.cell),
                linked=np.zeros(0, np.uint8),
                out=new_lists(0, capacity),
                into=new_lists(0, capacity if supports else 0),
            ),
            table=Table(
                values=_aligned(capacity * LANES, self.cell),
                hops=_aligned(capacity * LANES if supports else 0, np.dtype(np.uint8)),
                suspect=np.zeros(capacity if supports else 0, np.uint64),
                taken=np.zeros(capacity if supports else 0, np.uint64),
                doubt=np.zeros(capacity if settings[layout.JUDGED] else 0, np.uint64),
                row_of=np.zeros(0, np.int32),
                node=np.full(capacity, -1, np.int64),
                low=np.full(capacity, _NEVER, np.int64),
                pending=np.zeros(capacity, np.uint64),
                base=np.zeros(capacity, np.int64),
                span=np.zeros(capacity, np.int32),
                directory=new_lists(capacity, capacity),
                slot_of=np.zeros(0, np.int32),
                slot_vertex=np.zeros(0, np.int32),
                is_root=np.zeros(0, np.uint8),
                is_target=np.zeros(0, np.uint8),
                free_rows=np.zeros(capacity, np.int32),
                free_regions=np.full(layout.REGION_CLASSES, -1, np.int32),
                chain=np.zeros(capacity, np.int32),
                free_slots=np.zeros(0, np.int32),
                conflicted=np.zeros(1, np.uint64),
                aside=np.zeros(1, np.uint64),
                blocked=np.zeros(1, np.uint64),
            ),
            queue=Queue(
                head=np.full(layout.BUCKETS, -1, np.int32),
                next=np.zeros(capacity, np.int32),
                previous=np.zeros(capacity, np.int32),
                rank=np.full(capacity, -1, np.int16),
                number=np.zeros(2, np.int64),
                block=np.zeros(2, np.int64),
                suspects=np.zeros(capacity if supports else 0, np.int64),
                taken=np.zeros(capacity if supports else 0, np.int64),
            ),
            output=Output(
                pairs=np.zeros(max(2 * LANES, capacity), np.int64),
                event_time=np.zeros(capacity, np.int64),
                event_end=np.zeros(capacity, np.int64),
                event_kind=np.zeros(capacity, np.int8),
                event_tuple=np.zeros(capacity, np.int64),
                paths=np.zeros(capacity if witness else 0, np.int64),
                path_end=np.zeros(max(2 * LANES, capacity) if witness else 0, np.int64),
            ),
            state=state,
            settings=settings,
            latency=np.zeros(layout.LATENCY_BUCKETS, np.int64),
        )

    # --- what it is ------------------------------------------------------------------------------------------

    @property
    def index(self) -> Index:
        """The arrays; to replace some is to replace the whole."""
        return self._index

    @index.setter
    def index(self, index: Index) -> None:
        self._index = index
        self._held_view: Any = None

    @property
    def _view(self) -> Any:
        if self._held_view is None:
            self._note_capacities()
            self._held_view = view(self._index)
        return self._held_view

    @property
    def state(self) -> np.ndarray:
        """The counters and positions named in `layout`."""
        return self.index.state

    @property
    def keeps_supports(self) -> bool:
        """Whether hop counts and in-edges are kept."""
        return len(self.index.table.hops) > 0

    @property
    def buffer_bytes(self) -> int:
        """Of `nbytes`, those of the buffer for the rows of one chunk."""
        return sum(array.nbytes for array in self.index.output)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        flat = [*self.index.table, *self.index.graph, *self.index.queue, *self.index.output]
        return sum(lists_bytes(part) if isinstance(part, tuple) else part.nbytes for part in flat)

    def live(self) -> tuple[int, int, int]:
        """Cells, answers and edges that are alive now. O(size of the index)."""
        cells, answers = kernels.count_live(self._view)
        return int(cells), int(answers), int((self.index.graph.expiry > self.state[layout.NOW]).sum())

    def answers(self) -> np.ndarray:
        """The current answers, source << 32 | target. O(size of the index)."""
        return kernels.live_pairs(self._view)

    # --- what it does ----------------------------------------------------------------------------------------

    def set_labels(self, forward: np.ndarray, inverse: np.ndarray) -> None:
        """The transition classes of every label id (int16, -1 none)."""
        program = self.index.program._replace(forward=forward, inverse=inverse)
        self.index = self.index._replace(program=program)

    def make_room(self, vertices: int, edges: int, is_root: np.ndarray, is_target: np.ndarray) -> None:
        """Let vertex and edge ids up to these numbers be used; the flags are the engine's own arrays."""
        graph, table = self.index.graph, self.index.table
        classes, states = (int(n) for n in self.index.program.classes[:2])
        if edges > len(graph.expiry):
            more = edges - len(graph.expiry)
            graph = graph._replace(
                expiry=np.concatenate([graph.expiry, np.zeros(more, self.cell)]),
                linked=np.concatenate([graph.linked, np.zeros(more, np.uint8)]),
            )
        if vertices > len(table.slot_of):
            more = vertices - len(table.slot_of)
            graph = graph._replace(
                out=with_count(graph.out, vertices * classes), into=with_count(graph.into, vertices * classes)
            )
            none = np.full(more, -1, np.int32)
            numbers = layout.block_numbers(vertices)
            table = table._replace(
                row_of=np.concatenate([table.row_of, np.full(more * states, -1, np.int32)]),
                slot_of=np.concatenate([table.slot_of, none]),
                slot_vertex=np.concatenate([table.slot_vertex, none]),
                conflicted=_longer(table.conflicted, numbers - len(table.conflicted), 0),
                aside=_longer(table.aside, numbers - len(table.aside), 0),
                blocked=_longer(table.blocked, numbers - len(table.blocked), 0),
                free_slots=np.concatenate([table.free_slots, none]),
            )
            self.index = self.index._replace(
                queue=self.index.queue._replace(number=np.zeros(numbers, np.int64), block=np.zeros(numbers, np.int64))
            )
        table = table._replace(is_root=is_root, is_target=is_target)
        if any(new is not old for new, old in zip((*graph, *table), (*self.index.graph, *self.index.table), strict=True)):
            self.index = self.index._replace(graph=graph, table=table)

    def apply(self, chunk: Chunk, edges: Edges) -> None:
        """Apply the tuples of a chunk, whose edges are in `edges`; `part` has the answer changes."""
        self._begin_output()
        self.state[layout.TUPLE] = 0
        tuples = view(chunk)
        while (code := int(kernels.apply_chunk(self._view, tuples, len(chunk.timestamp)))) != layout.DONE:
            if code == layout.NEED_SUPPORTS:
                self.keep_supports(edges)
            elif code == layout.NEED_CROSSING:
                i = int(self.state[layout.TUPLE])
                self._cross(int(chunk.timestamp[i]) // self.window.slide, 2 * i)
            elif code == layout.NEED_JUDGE:
                self._judge(chunk, int(self.state[layout.TUPLE]))
            else:
                self._provide(code)

    def part(self, *, before: int | None = None) -> Part:
        """The answer changes of the last call, or those `before` a tuple of it; the next call overwrites them."""
        output, state = self.index.output, self.state
        events = int(state[layout.EVENTS])
        if before is not None:
            events = int(np.searchsorted(output.event_tuple[:events], 2 * before))
        rows = int(output.event_end[events - 1]) if events else 0
        return Part(
            pairs=output.pairs[:rows],
            times=output.event_time[:events],
            ends=output.event_end[:events],
            kinds=output.event_kind[:events],
            orders=output.event_tuple[:events],
            paths=output.paths[: state[layout.PATHS]],
            path_ends=output.path_end[:rows],
        )

    def advance(self, time: int) -> Part:
        """Move the stream time without a tuple."""
        self._begin_output()
        while (code := int(kernels.advance(self._view, time))) != layout.DONE:
            if code == layout.NEED_CROSSING:
                self._cross(time // self.window.slide, 0)
            else:
                self._provide(code)
        return self.part()

    def load(self, chunk: Chunk, slides: np.ndarray, *, quiet: bool = False) -> Part:
        """Enter edges that expire at these absolute slides; the answers that they make are one event, now."""
        self._begin_output()
        self._load(chunk, slides - self.state[layout.BASE], quiet=quiet)
        self._loaded(quiet=quiet)
        if self.index.settings[layout.WITNESS] and not quiet:
            self._write_paths(0)
        kernels.end_event(self._view, self.state[layout.TIME], 1, 1)
        return self.part()

    def slides(self, edges: np.ndarray) -> np.ndarray:
        """The absolute expiry slides of edges; at or below the current slide where the index does not hold them."""
        return self.index.graph.expiry[edges].astype(np.int64) + self.state[layout.BASE]

    def witness(self, source: int, target: int, edges: Edges) -> np.ndarray | None:
        """The steps of a path that answers (source, target), first to last, or None. Keeps supports from now on."""
        if not self.keeps_supports:
            self.keep_supports(edges)
        length, steps = kernels.walk_back(self._view, source, target)
        if length > 0 and self.index.settings[layout.SIMPLE]:
            length = kernels.erase_loops(target, steps, length)
        return steps[:length][::-1] & STEP if length > 0 else None

    def sweep(self) -> None:
        """Let go of everything that has left the window."""
        kernels.sweep(self._view)

    def keep_supports(self, edges: Edges) -> None:
        """Build the index anew with hop counts and in-edges, which deletes and witnesses need. O(size of the index)."""
        graph, table, state = self.index.graph, self.index.table, self.state
        self.guard(self.nbytes + self.nbytes // 4, int(state[layout.TUPLE]))
        held = np.flatnonzero(graph.expiry > state[layout.NOW])
        relative = graph.expiry[held].astype(np.int64)
        blocks = len(table.values) // LANES
        room = max(16, 2 * len(held))
        self.index = self.index._replace(
            graph=Graph(
                expiry=np.zeros_like(graph.expiry),
                linked=np.zeros_like(graph.linked),
                out=new_lists(len(graph.out.start), room),
                into=new_lists(len(graph.into.start), room),
            ),
            table=table._replace(
                hops=_aligned(blocks * LANES, np.dtype(np.uint8)),
                suspect=np.zeros(blocks, np.uint64),
                taken=np.zeros(blocks, np.uint64),
                row_of=np.full_like(table.row_of, -1),
                node=np.full_like(table.node, -1),
                directory=new_lists(len(table.node), len(table.directory.entries)),
                pending=np.zeros_like(table.pending),
                span=np.zeros_like(table.span),
                free_regions=np.full_like(table.free_regions, -1),
                slot_of=np.full_like(table.slot_of, -1),
                slot_vertex=np.full_like(table.slot_vertex, -1),
            ),
            queue=self.index.queue._replace(suspects=np.zeros(blocks, np.int64), taken=np.zeros(blocks, np.int64)),
        )
        saved = state[[layout.TUPLE, layout.RESUME]]
        for field in (layout.SLOTS, layout.FREE_SLOTS, layout.ROWS, layout.FREE_ROWS):
            state[field] = 0
        state[layout.BLOCKS] = 1
        chunk = Chunk(
            source=edges.source[held],
            target=edges.target[held],
            label=edges.label[held],
            timestamp=np.zeros(len(held), np.int64),
            delete=np.zeros(len(held), np.uint8),
            edge=held.astype(np.int32),
        )
        self._load(chunk, relative, quiet=True)
        state[[layout.TUPLE, layout.RESUME]] = saved

    # --- memory ----------------------------------------------------------------------------------------------

    def _load(self, chunk: Chunk, relative: np.ndarray, *, quiet: bool) -> None:
        order = np.argsort(-relative, kind="stable")
        ordered = Chunk(*(array[order] for array in chunk))
        self.state[layout.TUPLE] = 0
        self.state[layout.QUIET] = quiet
        tuples = view(ordered)
        while (code := int(kernels.load_edges(self._view, tuples, relative[order]))) != layout.DONE:
            self._provide(code)
        self.state[layout.QUIET] = 0

    def _note_capacities(self) -> None:
        """Tell the kernels, which see pointers, how long the arrays are."""
        index, state = self.index, self.state
        state[layout.VERTICES] = len(index.table.slot_of)
        state[layout.EDGES] = len(index.graph.expiry)
        state[layout.ROW_CAPACITY] = len(index.table.node)
        state[layout.BLOCK_CAPACITY] = len(index.table.values) // LANES
        state[layout.OUT_CAPACITY] = len(index.output.pairs)
        state[layout.EVENT_CAPACITY] = len(index.output.event_time)
        state[layout.PATH_CAPACITY] = len(index.output.paths)
        state[layout.PATH_END_CAPACITY] = len(index.output.path_end)
        state[layout.SUPPORTS] = len(index.table.hops) > 0

    def _begin_output(self) -> None:
        for field in (layout.OUT, layout.EVENTS, layout.EVENT_OUT, layout.PATHS):
            self.state[field] = 0
        self.state[layout.RESUME] = 0

    def _cross(self, slide: int, order: int) -> None:
        """Make an absolute slide the current one, with the events of that order."""
        while (code := int(kernels.cross(self._view, slide, order))) != layout.DONE:
            self._provide(code)

    def _judge(self, chunk: Chunk, i: int) -> None:
        """Let a tuple's rows be those of simple paths: see `rpq.simple`."""
        raise AssertionError("this index has no roots with conflicts")

    def _loaded(self, *, quiet: bool) -> None:
        """Let the rows of a load be those of simple paths."""

    def _write_paths(self, first: int) -> None:
        """Write the witnesses of the current event, whose rows begin at `first`."""
        self.state[layout.RESUME] = first
        while (code := int(kernels.write_paths(self._view))) != layout.DONE:
            self._provide(code)

    def _provide(self, code: int) -> None:
        """Do what a kernel asked for, by half of what there is; the guard may refuse."""
        index, table, queue = self.index, self.index.table, self.index.queue
        self.guard(self.nbytes + self.nbytes // 4, int(self.state[layout.TUPLE]))
        if code == layout.NEED_LINKS:
            graph = index.graph
            room = max(64, 4 * int(max(graph.out.length.max(), graph.into.length.max(initial=0))))
            into = grown(graph.into, room) if len(graph.into.entries) else graph.into
            self.index = index._replace(graph=graph._replace(out=grown(graph.out, room), into=into))
        elif code == layout.NEED_ROWS:
            more = max(16, len(table.node) // 2)
            self.index = index._replace(
                table=table._replace(
                    node=_longer(table.node, more, -1),
                    low=_longer(table.low, more, _NEVER),
                    directory=with_count(table.directory, len(table.node) + more),
                    pending=_longer(table.pending, more, 0),
                    base=_longer(table.base, more, 0),
                    span=_longer(table.span, more, 0),
                    free_rows=_longer(table.free_rows, more, 0),
                ),
                queue=queue._replace(
                    next=_longer(queue.next, more, -1),
                    previous=_longer(queue.previous, more, -1),
                    rank=_longer(queue.rank, more, -1),
                ),
            )
        elif code == layout.NEED_BLOCKS:
            held = len(table.values) // LANES
            # Enough for the largest region, of one and a half times all block numbers, that a row may ask for.
            more = max(16, held // 2, 2 * (int(self.state[layout.SLOTS]) // LANES + 1))
            with_supports = more if self.keeps_supports else 0
            self.index = index._replace(
                table=table._replace(
                    values=_aligned((held + more) * LANES, self.cell, table.values),
                    hops=_aligned((held + with_supports) * LANES, np.dtype(np.uint8), table.hops)
                    if with_supports
                    else table.hops,
                    suspect=_longer(table.suspect, with_supports, 0),
                    taken=_longer(table.taken, with_supports, 0),
                    doubt=_longer(table.doubt, more if index.settings[layout.JUDGED] else 0, 0),
                    chain=_longer(table.chain, more, -1),
                ),
                queue=queue._replace(
                    suspects=_longer(queue.suspects, with_supports, 0), taken=_longer(queue.taken, with_supports, 0)
                ),
            )
        elif code == layout.NEED_DIRECTORY:
            numbers = 2 * (int(self.state[layout.SLOTS]) // LANES + 1)
            directory = grown(table.directory, 64 + 2 * numbers)
            self.index = index._replace(table=table._replace(directory=directory))
        elif code == layout.NEED_OUTPUT:
            output = index.output
            rows, events = len(output.pairs), len(output.event_time)
            paths = rows if len(output.path_end) else 0
            self.index = index._replace(
                output=output._replace(
                    pairs=_longer(output.pairs, rows // 2 + LANES, 0),
                    event_time=_longer(output.event_time, events // 2 + 16, 0),
                    event_end=_longer(output.event_end, events // 2 + 16, 0),
                    event_kind=_longer(output.event_kind, events // 2 + 16, 0),
                    event_tuple=_longer(output.event_tuple, events // 2 + 16, 0),
                    path_end=_longer(output.path_end, paths // 2 + LANES if paths else 0, 0),
                )
            )
        elif code == layout.NEED_PATHS:
            output = index.output
            self.index = index._replace(
                output=output._replace(
                    paths=_longer(output.paths, max(256, len(output.paths)), 0),
                    path_end=_longer(output.path_end, max(0, len(output.pairs) - len(output.path_end)), 0),
                )
            )
        else:
            raise AssertionError(f"a kernel returned {code}")

    def _check(self) -> None:
        """Assert every structural invariant, between tuples. O(size of the index × degree)."""
        check_index(self.index)


def _longer(array: np.ndarray, more: int, fill: int) -> np.ndarray:
    return np.concatenate([array, np.full(more, fill, array.dtype)]) if more else array


def _aligned(count: int, dtype: np.dtype, content: np.ndarray | None = None) -> np.ndarray:
    """`count` cells that start at a cache line, so that a block of bytes is one; untouched beyond the content."""
    raw = np.empty(count * dtype.itemsize + LANES, np.uint8)
    offset = -raw.ctypes.data % LANES
    array = raw[offset : offset + count * dtype.itemsize].view(dtype)
    if content is not None:
        array[: len(content)] = content
    return array
