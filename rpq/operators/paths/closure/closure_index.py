"""An index that is one of bits or of cells, whichever costs less: it may change between any two tuples.

Both have the same graph, slots and output. Bits become cells by raising the trees of all roots, cells bits by
computing components; neither makes rows. Whoever needs more than to know what is reached makes cells of bits.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np

from rpq.compiled.arrays.lanes import LANES
from rpq.compiled.cycle_counter import ticks_per_second
from rpq.compiled.kernel_cache import reason_to_compile
from rpq.compiled.stopwatch import compiling_seconds
from rpq.compiled.views import bound, view
from rpq.errors import MemoryLimitError
from rpq.language.protocol import Guard
from rpq.operators.paths.closure import kernels, layout
from rpq.operators.paths.closure.check import check_closure
from rpq.operators.paths.closure.choice import COMPUTED_WORD, PUSHED_WORD, STEP, WALKED, Choice, Size
from rpq.operators.paths.closure.layout import Closure, closure_bytes, new_closure, with_more
from rpq.operators.paths.index import kernels as cell_kernels
from rpq.operators.paths.index.delta_index import DeltaIndex, PathDelta
from rpq.operators.paths.index.judging import Judge
from rpq.operators.paths.index.layout import (
    BACKWARD,
    BLOCKS,
    DONE,
    EXPLICIT,
    FREE_ROWS,
    NEED_SUPPORTS,
    OUTCOMES,
    QUIET,
    ROWS,
    SLOTS,
    STARTED,
    STEPS,
    with_in_edges,
    without_rows,
)
from rpq.operators.paths.index.numbered_index import NumberedIndex
from rpq.operators.paths.program import ACCEPTING, CLASSES, Program
from rpq.stream.chunk import Chunk
from rpq.stream.edges.outcomes import INSERTED, REFRESHED
from rpq.stream.edges.snapshot import Edges
from rpq.stream.window import AnyWindow, Window

_BATCH = 256
"""The tuples of a chunk that is large enough for a change: the time of a single one shall not have it."""


class ClosureIndex(DeltaIndex):
    """A Δ index of walks that may keep bits in place of cells; rows have no witnesses."""

    def __init__(self, program: Program, window: Window, *, capacity: int = 256, **options: Any) -> None:
        self._closure: Closure | None = None
        self._closure_view: Any = None
        self._capacity = capacity
        self._apply_bits: Any = None  # bound when the first chunk comes to bits
        self._choice = Choice()
        super().__init__(program, window, capacity=capacity, **options)

    @property
    def has_bits(self) -> bool:
        """True if the index keeps bits, False if it keeps cells."""
        return self._closure is not None

    @property
    def _bits(self) -> Any:
        """The bits as the kernels take them."""
        if self._closure_view is None:
            self._closure_view = view(self._closure)
        return self._closure_view

    def _set_closure(self, closure: Closure | None) -> None:
        self._closure = closure
        self._closure_view = None

    # --- the change from one to the other --------------------------------------------------------------------

    def compiles_bits(self, tuples: Any) -> bool:
        """Return whether kernels of bits would have to be compiled; none is loaded. `tuples` is the view of any chunk."""
        closure = view(new_closure(capacity=1, slots=0, accepting=1, keeps_earlier=False))
        calls: tuple[tuple[Any, *tuple[Any, ...]], ...] = (
            (kernels.apply_chunk, tuples, 1),
            (kernels.advance, 0),
            (kernels.settle,),
            (kernels.dissolve,),
            (kernels.count_live,),
            (kernels.live_pairs,),
            (kernels.count_cells, np.zeros(1, np.int64)),
        )
        return reason_to_compile(kernels.keep_in_edges, self.view) is not None or any(
            reason_to_compile(kernel, self.view, closure, *others) is not None for kernel, *others in calls
        )

    def use_bits(self) -> None:
        """Keep bits from now on. O(edges × roots / 512)."""
        if self._closure is not None:
            return
        self.index = without_rows(self.index, self._capacity)
        closure = new_closure(
            capacity=self._capacity,
            slots=int(self.state[SLOTS]),
            accepting=int(self.index.program.sizes[ACCEPTING]),
            keeps_earlier=bool(self.index.settings[EXPLICIT]) or len(self.index.graph.into.entries) > 0,
        )
        self._set_closure(closure)
        self._settle()

    def use_cells(self) -> None:
        """Keep cells from now on. O(size of the index)."""
        if self._closure is None:
            return
        self._forget_bits()
        vertices = self.index.table.slot_vertex[: self.state[SLOTS]]
        roots = vertices[vertices >= 0].astype(np.int64)
        self.state[QUIET] = 1
        try:
            while (code := int(cell_kernels.grow_trees(self.view, roots))) != DONE:
                self.provide(code)
        except MemoryLimitError:
            self.use_bits()
            raise
        finally:
            self.state[QUIET] = 0

    def _forget_bits(self) -> None:
        kernels.dissolve(self.view, self._bits)
        self._set_closure(None)

    def keep_supports(self, edges: Edges) -> None:
        """Build the index anew with cells, hop counts and in-edges. O(size of the index)."""
        if self._closure is not None:
            self._forget_bits()
        super().keep_supports(edges)

    def _settle(self) -> None:
        while (code := int(kernels.settle(self.view, self._bits))) != DONE:
            self.provide(code)

    # --- state -----------------------------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        """The number of bytes held."""
        return super().nbytes + (closure_bytes(self._closure) if self._closure is not None else 0)

    def live(self) -> tuple[int, int, int]:
        """Return Cells, answers and edges that are alive now. O(size of the index)."""
        if self._closure is None:
            return super().live()
        self._settle()
        cells, answers = kernels.count_live(self.view, self._bits)
        return int(cells), int(answers), self._live_edges()

    def walks(self) -> np.ndarray:
        """Return the pairs that are answers, source << 32 | target. O(size of the index)."""
        if self._closure is None:
            return super().walks()
        self._settle()
        pairs: np.ndarray = kernels.live_pairs(self.view, self._bits)
        return pairs

    def count_cells(self, cells: np.ndarray) -> None:
        """Add the product nodes that each root reaches now to its place in `cells` (int64 a vertex)."""
        if self._closure is None:
            super().count_cells(cells)
            return
        self._settle()
        kernels.count_cells(self.view, self._bits, cells)

    # --- changes ---------------------------------------------------------------------------------------------

    def _apply_rest(self, chunk: Chunk, tuples: Any, edges: Edges) -> None:
        count = len(chunk.timestamp)
        if self._closure is not None:
            self._apply_to_bits(tuples, count)
        else:
            super()._apply_rest(chunk, tuples, edges)
        if count >= _BATCH:
            self._choose(edges)

    def _choose(self, edges: Edges) -> None:
        """Change from bits to cells or back where that promises less work."""
        work = self._work()
        if not self._choice.is_due(work):
            return
        state = self.state
        inserts = int(state[OUTCOMES + INSERTED] + state[OUTCOMES + REFRESHED])
        if self._closure is not None:
            pushed = PUSHED_WORD * float(self._closure.fields[layout.PUSHED])
            if self._choice.prefers_cells(work, pushed, inserts):
                self._choice.postpone()
                with suppress(MemoryLimitError):  # bits it is, then
                    if self.state[BACKWARD]:
                        self.keep_supports(edges)  # deletes need them
                    else:
                        self.use_cells()
        elif self._choice.prefers_bits(work, inserts, self.current, self._size()):
            self.use_bits()
        self._choice.begin(self._work(), inserts, self.current)

    def _work(self) -> float:
        """Return the work of the present kind of index so far, in nanoseconds."""
        if self._closure is None:
            return STEP * float(self.state[STEPS])
        fields = self._closure.fields
        words = PUSHED_WORD * float(fields[layout.PUSHED]) + COMPUTED_WORD * float(fields[layout.COMPUTED])
        return words + WALKED * float(fields[layout.WALKED])

    def _size(self) -> Size:
        table, program, state = self.index.table, self.index.program, self.state
        return Size(
            nodes=int(state[ROWS] - state[FREE_ROWS]),
            edges=self._live_edges(),
            slots=int(state[SLOTS]),
            steps_an_edge=len(program.step_source) / int(program.sizes[CLASSES]),
            nbytes=int(state[BLOCKS]) * LANES * table.values.itemsize,
        )

    def _apply_to_bits(self, tuples: Any, count: int) -> None:
        """Apply the tuples of a chunk."""
        if self._apply_bits is None:
            self._apply_bits = bound(kernels.apply_chunk, self.view, self._bits, tuples, 1)
        while (code := self._apply_bits(self.view, self._bits, tuples, count)) != DONE:
            compiled = compiling_seconds()
            self.provide(code)
            if compiling_seconds() > compiled:
                self.state[STARTED] += int((compiling_seconds() - compiled) * ticks_per_second())

    def _keep_in_edges(self) -> None:
        """Keep in-edges from now on, which deletes need. O(edges)."""
        room = 64 + 2 * int(self.index.graph.out.length.sum())
        while True:
            self.index = with_in_edges(self.index, room)
            if kernels.keep_in_edges(self.view) == DONE:
                return
            room *= 2

    def advance(self, time: int) -> PathDelta:
        """Move the stream time without a tuple."""
        if self._closure is None:
            return super().advance(time)
        self._begin_output()
        while (code := int(kernels.advance(self.view, self._bits, time))) != DONE:
            self.provide(code)
        return self.delta()

    def load(self, chunk: Chunk, *slides: np.ndarray, quiet: bool = False) -> PathDelta:
        """Enter edges that expire at these absolute slides; the answers that they make are one event, now."""
        self.use_cells()
        return super().load(chunk, *slides, quiet=quiet)

    def grow(self, roots: np.ndarray) -> PathDelta:
        """Make vertices roots that were none; their answers are one event, at the present time."""
        self.use_cells()
        return super().grow(roots)

    def drop(self, roots: np.ndarray) -> None:
        """Drop roots with their trees, without rows. O(size of the index)."""
        self.use_cells()
        super().drop(roots)

    def provide(self, code: int) -> None:
        """Give a kernel the memory that it asked for; the guard may refuse."""
        if self._closure is None or (code < layout.NEED_WORDS and code != NEED_SUPPORTS):
            super().provide(code)
            return
        self.request_memory()
        if code == NEED_SUPPORTS:
            self._keep_in_edges()
            return
        self._set_closure(with_more(self._closure, code, int(self.state[SLOTS])))

    def sweep(self) -> None:
        """Release everything that has left the window."""
        if self._closure is not None:
            self._settle()
        super().sweep()

    def _check(self) -> None:
        """Assert every structural invariant, between tuples. O(size of the index × degree)."""
        if self._closure is None:
            super()._check()
            return
        self._settle()
        check_closure(self.index, self._closure)


def index_over(
    window: AnyWindow,
    program: Program,
    *,
    explicit: bool = False,
    witness: bool = False,
    judge: Judge | None = None,
    turned: bool = False,
    capacity: int = 256,
    guard: Guard | None = None,
) -> DeltaIndex:
    """Return the index of an expression over a window of any kind."""
    options: dict[str, Any] = {"witness": witness, "judge": judge, "turned": turned, "capacity": capacity, "guard": guard}
    if isinstance(window, Window):
        if not witness and (judge is None or (judge.walks_return and not judge.doubts)):
            return ClosureIndex(program, window, explicit=explicit, **options)
        return DeltaIndex(program, window, explicit=explicit, **options)
    return NumberedIndex(program, window, explicit=explicit, **options)
