"""An index of bits or of cells, whichever costs less: it may change from one to the other between any two tuples.

Both have the same graph, slots and output. A change to cells builds the trees of all roots; a change to bits computes the
components. Neither reports rows. A call that needs more than the set of reached pairs changes the index to cells.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

from rpq.compiled.arrays.lanes import LANES
from rpq.compiled.arrays.lists import lists_bytes
from rpq.compiled.growth import request
from rpq.compiled.views import view
from rpq.errors import MemoryLimitError
from rpq.operators.paths.closure import kernels, layout
from rpq.operators.paths.closure.check import check_closure
from rpq.operators.paths.closure.choice import (
    COMPUTED_WORD,
    LOADED_BYTES,
    PUSHED_WORD,
    STEP,
    WALKED_LINK,
    Choice,
    Size,
    bytes_of_rows,
)
from rpq.operators.paths.closure.layout import Closure, blocks_of_cells, closure_bytes, new_closure, with_more_memory
from rpq.operators.paths.index import kernels as cell_kernels
from rpq.operators.paths.index.columns import better_order, components, copy_cells
from rpq.operators.paths.index.delta_index import DeltaIndex
from rpq.operators.paths.index.layout import BY_NOTHING, DONE, IDLE, INSERTING, NEED_SUPPORTS, with_in_edges, without_rows
from rpq.operators.paths.index.path_delta import PathDelta, PathSteps
from rpq.operators.paths.program import Program
from rpq.stream.chunk import Chunk
from rpq.stream.edges.outcomes import DELETED, INSERTED, REFRESHED
from rpq.stream.edges.snapshot import Edges
from rpq.stream.window import AnyWindow

_FEW_EDGES = 1024
"""The number of edges below which a window is loaded as cells, in less time than the kernels of bits take to load."""

_FEW_BLOCKS = 2048
"""The order of columns is first examined when there are twice as many blocks of cells."""


class ClosureIndex(DeltaIndex):
    """A Δ index of walks that may keep bits in place of cells; rows have no witnesses."""

    def __init__(self, program: Program, window: AnyWindow, *, capacity: int = 256, **options: Any) -> None:
        self._closure: Closure | None = None
        self._capacity = capacity
        self._choice = Choice()
        self._cells_bytes = 0  # the most bytes of cells that bits have replaced
        self._blocks_in_order = _FEW_BLOCKS  # when the order of columns was last examined
        self._bytes_beside = 0  # of the arrays that are retained until a change has succeeded
        super().__init__(program, window, capacity=capacity, **options)

    @property
    def has_bits(self) -> bool:
        """True if the index keeps bits, False if it keeps cells."""
        return self._closure is not None

    @property
    def _kernels(self) -> Any:
        return cell_kernels if self._closure is None else kernels

    def _own_view(self, index: Any) -> Any:
        return index if self._closure is None else view(self._closure)

    def _set_closure(self, closure: Closure | None) -> None:
        if (closure is None) != (self._closure is None):
            self._bound.clear()
        self._closure = closure
        self.index = self.index._replace()  # a new object tells measurements of memory that arrays have changed

    # --- the change from one to the other --------------------------------------------------------------------

    def use_bits(self) -> None:
        """Change from cells to bits. Raises `MemoryLimitError`, and then keeps cells. O(edges × roots / 512)."""
        if self._closure is not None:
            return
        cells, state, nbytes = self.index, bytes(self.state), super().nbytes
        self._cells_bytes = self.state.blocks * self._block_bytes
        self.index = without_rows(cells, self._capacity)
        self._bytes_beside = nbytes - super().nbytes
        try:
            self._begin_bits()
        except MemoryLimitError:
            self._forget_bits()
            self.index = cells
            ctypes.memmove(ctypes.addressof(self.state), state, len(state))
            raise
        finally:
            self._bytes_beside = 0

    def _begin_bits(self) -> None:
        """Create the arrays of bits, and compute their components."""
        closure = new_closure(
            capacity=self._capacity,
            slots=self.state.slots,
            accepting=self.index.program.sizes.accepting,
            keeps_earlier=self._keeps_earlier,
        )
        self._set_closure(closure)
        while (code := int(kernels.settle(*self.views))) != DONE:
            self._provide_bits(code)

    @property
    def _keeps_earlier(self) -> bool:
        """True if bits must record what an event removes."""
        return bool(self.index.settings.explicit) or len(self.index.graph.into.entries) > 0

    def use_cells(self) -> None:
        """Change from bits to cells. Raises `MemoryLimitError`, and then keeps bits. O(size of the index)."""
        if self._closure is None:
            return
        self._forget_bits()
        vertices = self.index.table.slot_vertex[: self.state.slots]
        roots = vertices[vertices >= 0].astype(np.int64)
        self.state.quiet = 1
        try:
            self.run("grow_trees", roots)
        except MemoryLimitError:
            self.index = without_rows(self.index, self._capacity)
            with self._without_guard():  # they had room
                self._begin_bits()
            raise
        finally:
            self.state.quiet = 0

    @contextmanager
    def _without_guard(self) -> Iterator[None]:
        guard, self.guard = self.guard, lambda size, place: None
        try:
            yield
        finally:
            self.guard = guard

    def _forget_bits(self) -> None:
        kernels.dissolve(*self.views)
        self._set_closure(None)

    def _has_settled_bits(self) -> bool:
        """Compute the components if necessary. Return whether the index still has bits: without enough memory, it changes to
        cells."""
        if self._closure is not None:
            self.run("settle")
        return self._closure is not None

    # --- state -----------------------------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        """The number of bytes held."""
        bits = closure_bytes(self._closure) if self._closure is not None else 0
        return super().nbytes + bits + self._bytes_beside

    def live(self) -> tuple[int, int, int]:
        """Return the numbers of live cells, answers and edges. O(size of the index)."""
        if not self._has_settled_bits():
            return super().live()
        cells, answers = kernels.count_live(*self.views)
        return int(cells), int(answers), self._live_edges()

    def _walks(self, first: int, end: int, limit: int, mask: np.ndarray, numbers: np.ndarray) -> tuple[np.ndarray, int]:
        if not self._has_settled_bits():
            return super()._walks(first, end, limit, mask, numbers)
        pairs, following = kernels.live_pairs(*self.views, first, end, limit, mask, numbers)
        return pairs, int(following)

    def count_by_root(self, cells: np.ndarray, answers: np.ndarray) -> None:
        """Add the product nodes that each root reaches and its answers to its places in two arrays (int64 a vertex)."""
        if not self._has_settled_bits():
            super().count_by_root(cells, answers)
            return
        kernels.count_by_root(*self.views, cells, answers)

    def witness(self, source: int, target: int, edges: Edges) -> PathSteps | None:
        """Return a path that answers (source, target), or None."""
        if not self._has_settled_bits():
            return super().witness(source, target, edges)
        length, steps = kernels.find_path(*self.views, source, target)
        return PathSteps(steps) if length > 0 else None

    # --- changes ---------------------------------------------------------------------------------------------

    def _review(self, count: int) -> None:
        """Change from bits to cells or back, or the order of columns, if this is expected to take less work or memory."""
        state = self.state
        state.tuple = count - 1  # it is the last tuple that exceeds a limit on time
        if self._closure is None and state.blocks > 2 * max(self._blocks_in_order, state.rows - state.free_rows):
            assert self._chunk is not None
            with suppress(MemoryLimitError):  # there is no room for a copy
                self.order_columns(self._chunk[1])
            self._blocks_in_order = max(_FEW_BLOCKS, state.blocks)
        work = self._work()
        outgrows = self._closure is not None and self._outgrows_cells(self._closure)
        if not outgrows and not self._choice.is_due(work):
            return
        inserts = state.outcomes[INSERTED] + state.outcomes[REFRESHED]
        try:
            if self._closure is not None:
                push_work = PUSHED_WORD * float(self._closure.fields.pushed_words)
                if outgrows or self._choice.prefers_cells(work, push_work, inserts, self._change):
                    steps = state.steps
                    self.use_cells()
                    self._choice.postpone(STEP * float(state.steps - steps))
            elif self._choice.prefers_bits(work, inserts, self.current, self._size()):
                self.use_bits()
        except MemoryLimitError:  # there is no room for a change
            self._choice.postpone()
            self._cells_bytes = max(self._cells_bytes, self.nbytes)
        self._choice.begin(self._work(), inserts, self.current)

    def order_columns(self, edges: Edges) -> None:
        """Give roots other columns if rows of cells then have far fewer blocks. Raises `MemoryLimitError`, and then changes
        nothing. O(size of the index)."""
        old, state = self.index, self.state
        live = np.flatnonzero(old.graph.expiry > state.now)
        slots = better_order(old, components(edges.source[live], edges.target[live], len(old.table.slot_of)))
        if slots is None:
            return
        with self.guarded_growth():
            request(state.blocks * self._block_bytes)
        rows = np.flatnonzero(old.table.node[: state.rows] >= 0)
        number_of = np.empty(state.slots, np.int64)
        number_of[slots] = np.arange(len(slots))
        vertices = old.table.slot_vertex[slots]
        self.index = without_rows(old, len(rows), supports=self.keeps_supports)
        table = self.index.table
        table.slot_of[vertices] = number_of[slots]
        table.slot_vertex[: state.slots] = -1
        table.slot_vertex[: len(slots)] = vertices
        state.slots, state.free_slot = len(slots), 0
        other = view(old)
        with self._without_guard():  # it has granted more
            while (code := int(copy_cells(self.view, other, rows, number_of))) != DONE:
                self.provide(code)

    def _outgrows_cells(self, closure: Closure) -> bool:
        """Return whether rows of bits take more memory than blocks of cells would. O(1) until they have grown."""
        fields = closure.fields
        words = fields.components * fields.words
        row_bytes = bytes_of_rows(words, keeps_earlier=bool(fields.keeps_earlier))
        if row_bytes > self._cells_bytes:
            self._cells_bytes = max(self._cells_bytes, blocks_of_cells(closure) * self._block_bytes)
        return row_bytes > self._cells_bytes

    def _change(self) -> float:
        """Return the approximate work of a change from bits to cells, in nanoseconds."""
        assert self._closure is not None
        if self.index.settings.moved_by == BY_NOTHING:
            return math.inf  # all work since the beginning would have to be repeated
        size = self._size()
        nodes = int(self._closure.member_first[self._closure.fields.components])
        return STEP * blocks_of_cells(self._closure) * (1 + size.edges * size.steps_an_edge / max(1, nodes))

    @property
    def _block_bytes(self) -> int:
        """The bytes of a block of cells, with hop counts where there are deletes."""
        return LANES * (self.index.table.values.itemsize + (1 if self.state.backward else 0))

    def _work(self) -> float:
        """Return the work done so far by the current kind of index, in nanoseconds."""
        if self._closure is None:
            return STEP * float(self.state.steps)
        fields = self._closure.fields
        words = PUSHED_WORD * float(fields.pushed_words) + COMPUTED_WORD * float(fields.joined_words)
        return words + WALKED_LINK * float(fields.walked_links)

    def _size(self) -> Size:
        program, state = self.index.program, self.state
        return Size(
            nodes=state.rows - state.free_rows,
            edges=self._live_edges(),
            slots=state.slots,
            steps_an_edge=len(program.step_source) / program.sizes.classes,
            nbytes=state.blocks * self._block_bytes,
            keeps_earlier=self._keeps_earlier,
        )

    def _withdraw(self) -> None:
        """Undo the changes that the current tuple, or the boundary before it, has made so far."""
        assert self._closure is not None
        state, expiry, bits = self.state, self.index.graph.expiry, self._closure.fields
        edge = -1 if self._chunk is None or state.phase == IDLE else int(self._chunk[0].edge[state.tuple])
        if bits.stage != layout.STAGE_IDLE and state.phase == IDLE:
            state.now = bits.old_now
        elif state.phase == INSERTING:  # an edge that was not in the window
            expiry[edge] = 0
            state.outcomes[INSERTED] -= 1
        elif state.phase != IDLE:
            expiry[edge] = state.edge_slide
            state.outcomes[DELETED] -= 1
        state.out = state.event_out
        state.phase = IDLE

    def _keep_in_edges(self) -> None:
        """Build the lists of in-edges, which deletes need, and maintain them from now on. O(edges)."""
        room = 64 + 2 * int(self.index.graph.out.length.sum())
        while True:
            self.index = with_in_edges(self.index, room)
            if kernels.keep_in_edges(self.view) == DONE:
                return
            room *= 2

    def load(self, chunk: Chunk, *slides: np.ndarray, quiet: bool = False) -> PathDelta:
        """Insert edges that expire at these absolute slides. The resulting answers are one event at the current time."""
        self.use_cells()
        if not (quiet and self._can_load_bits(chunk)):
            return super().load(chunk, *slides, quiet=quiet)
        self.use_bits()
        delta = super().load(chunk, *slides, quiet=True)
        if self._has_settled_bits() and self._closure is not None:  # otherwise there was no room
            boundaries = len(np.unique(slides[0]))
            is_cheap = self._choice.begins_with_bits(self._work(), len(chunk.edge), boundaries)
            if not is_cheap or self._outgrows_cells(self._closure):
                try:
                    self.use_cells()
                except MemoryLimitError:
                    self._choice.postpone()
            self._choice.begin(self._work(), 0, self.current)
        return delta

    def _can_load_bits(self, chunk: Chunk) -> bool:
        """Return whether an empty index may load a window as bits: rows with a bit for each end would take little memory."""
        if self.state.slots or len(chunk.edge) < _FEW_EDGES or self.index.settings.moved_by == BY_NOTHING:
            return False
        ends = len(np.unique(np.concatenate([chunk.source, chunk.target])))
        words = ends * self.index.program.sizes.states * (ends // 64 + 8)
        return bytes_of_rows(words, keeps_earlier=self._keeps_earlier) <= LOADED_BYTES * len(chunk.edge)

    def grow(self, roots: np.ndarray) -> PathDelta:
        """Make new roots of vertices. Their answers are one event at the current time."""
        if self._closure is not None:
            self._choice.postpone()  # more roots are likely to follow
        self.use_cells()
        return super().grow(roots)

    def drop(self, roots: np.ndarray) -> None:
        """Remove roots and their trees without reporting rows. O(size of the index)."""
        self.use_cells()
        super().drop(roots)

    def provide(self, code: int) -> None:
        """Do what a kernel asked for. Without memory for bits, change to cells, which then continue in their place."""
        if self._closure is None:
            super().provide(code)
            return
        try:
            self._provide_bits(code)
        except MemoryLimitError:
            self._withdraw()
            self._choice.postpone()
            self.use_cells()

    def _provide_bits(self, code: int) -> None:
        assert self._closure is not None
        if code < layout.NEED_WORDS and code != NEED_SUPPORTS:
            super().provide(code)
            return
        with self.guarded_growth():
            if code != NEED_SUPPORTS:
                self._set_closure(with_more_memory(self._closure, code, self.state.slots))
                return
            request(2 * lists_bytes(self.index.graph.out))
        self._keep_in_edges()

    def sweep(self) -> None:
        """Release the memory of everything that has left the window."""
        self._has_settled_bits()
        super().sweep()

    def _check(self) -> None:
        """Assert every structural invariant, between tuples. O(size of the index × degree)."""
        if not self._has_settled_bits():
            super()._check()
            return
        assert self._closure is not None
        check_closure(self.index, self._closure)
