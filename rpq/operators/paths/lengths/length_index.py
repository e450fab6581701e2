"""The index of a path query with lengths, or of one partition of its roots. It calls the kernels and gives them memory.

It shares the table, its rows, slots, edges and answers with the Δ index; only the cells have another meaning, which
`progress.py` explains.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rpq.compiled.growth import request
from rpq.compiled.views import view
from rpq.operators.paths.index import layout
from rpq.operators.paths.index.check import edges_of, stored_cells
from rpq.operators.paths.index.delta_index import CELL_TYPES, DeltaIndex
from rpq.operators.paths.index.layout import Index
from rpq.operators.paths.index.path_delta import PathSteps
from rpq.operators.paths.lengths import kernels
from rpq.operators.paths.lengths.progress import NEED_WIDER, NOTHING, LengthChanges, new_progress, with_room
from rpq.operators.paths.program import Program
from rpq.stream.chunk import Chunk
from rpq.stream.edges.snapshot import Edges
from rpq.stream.window import AnyWindow

_FEW = 16
"""The capacity up to which an index begins with cells for very short lengths, so that tests reach the wider cells."""
_SHORT = 3


def _zero(cell: np.dtype) -> int:
    """Return the cell of the empty walk: one more than the largest cell, and at most the largest number of 64 bits."""
    return min(int(np.iinfo(cell).max) + 1, 2**63 - 1)


class LengthIndex(DeltaIndex):
    """An index of the lengths of shortest walks. Its rows are explicit: a changed length is a row of each kind."""

    def __init__(
        self, program: Program, window: AnyWindow, *, capacity: int = 256, explicit: bool = True, **options: Any
    ) -> None:
        self._begins_short = capacity <= _FEW
        self._loaded = np.zeros(0, np.int64)  # the relative slides of edges that are being loaded
        super().__init__(program, window, capacity=capacity, explicit=explicit, supports=True, **options)
        table = self.index.table
        self.index = self.index._replace(table=table._replace(hops=np.zeros(len(table.values), self.cell)))
        rows, pairs = len(table.node), len(self.index.output.pairs)
        self._progress = new_progress(rows, pairs)
        self._set_cells(_zero(self.cell))

    def _cells_for(self, span: int) -> tuple[np.dtype, int] | None:
        """Return the narrowest type of cells of which half the values are enough for the slides, and the largest slide."""
        for cell in CELL_TYPES:
            largest = int(np.iinfo(cell).max)
            if span <= largest // 2 - largest // 100 - 2:
                is_short = self._begins_short and cell is not np.int64
                return np.dtype(cell), largest - _SHORT if is_short else largest // 2
        return None

    def _set_cells(self, zero: int) -> None:
        """Set the cells of the empty walk and of the longest one."""
        fields = self._progress.fields
        fields.zero, fields.lowest = zero, self.index.settings.ceiling + 1

    @property
    def _kernels(self) -> Any:
        return kernels

    def _own_view(self, index: Any) -> Any:
        """Return the view of the progress, with as much room as the arrays of the index have now."""
        self._progress = with_room(self._progress, len(self._index.table.node), len(self._index.output.pairs))
        self._walk_lengths = self._progress.length
        return view(self._progress)

    @property
    def nbytes(self) -> int:
        """The number of bytes held."""
        return super().nbytes + sum(array.nbytes for array in self._progress)

    # --- changes ---------------------------------------------------------------------------------------------

    def _load(self, chunk: Chunk, relative: np.ndarray, *, quiet: bool) -> None:
        self._loaded = relative
        self._enter(chunk, relative, quiet=quiet)

    def write_paths(self, first: int) -> None:
        """Do nothing: the kernels that find rows write their paths."""

    # --- present state ---------------------------------------------------------------------------------------

    def lengths_of(self, pairs: np.ndarray) -> np.ndarray:
        found = np.zeros(len(pairs), np.int64)
        kernels.lengths_of(*self.views, pairs, found)
        return found

    def witness(self, source: int, target: int, edges: Edges) -> PathSteps | None:
        """Return a shortest path that answers (source, target), or None."""
        if not self.index.table.is_target[target]:
            return None
        length, steps = kernels.walk_back(*self.views, source, target)
        return PathSteps(steps[:length][::-1]) if length > 0 else None

    # --- memory ----------------------------------------------------------------------------------------------

    def provide(self, code: int) -> None:
        """Provide the memory that a kernel requested. The guard may refuse it."""
        if code != NEED_WIDER:
            super().provide(code)
            return
        with self.guarded_growth():  # cells are twice as wide, and there are three copies
            request(6 * (self.index.table.values.nbytes + self.index.table.hops.nbytes))
        self._widen()

    def _widen(self) -> None:
        """Make cells wider, for longer walks and more slides."""
        index, old_zero, old_ceiling = self.index, self._progress.fields.zero, self.index.settings.ceiling
        self.cell = np.dtype(CELL_TYPES[[np.dtype(kind) for kind in CELL_TYPES].index(self.cell) + 1])
        zero = _zero(self.cell)
        ceiling = zero // 2

        def lengths(cells: np.ndarray) -> np.ndarray:
            wide = cells.astype(self.cell)
            return np.where(wide > old_ceiling, wide + self.cell.type(zero - old_zero), self.cell.type(0))

        expiry, window_expiry = (array.astype(self.cell) for array in (index.graph.expiry, index.graph.window_expiry))
        expiry[expiry > old_ceiling] = ceiling + 1
        index.settings.ceiling = ceiling
        self._set_cells(zero)
        self._loaded[self._loaded > old_ceiling] = ceiling + 1
        self._bound.clear()
        self.index = index._replace(
            graph=index.graph._replace(expiry=expiry, window_expiry=window_expiry),
            table=index.table._replace(values=lengths(index.table.values), hops=lengths(index.table.hops)),
        )

    def _check(self) -> None:
        """Assert every structural invariant, between tuples. O(size of the index × degree)."""
        check_lengths(self.index, self._progress)


# --- invariants, for the tests: plain Python, slow, obvious --------------------------------------------------


def check_lengths(index: Index, progress: LengthChanges) -> None:
    """Assert that storage is consistent, that every cell is the length of a shortest walk, and that this was reported."""
    state, table, program = index.state, index.table, index.program
    assert state.phase == layout.IDLE, "a tuple is half done"
    fields = progress.fields
    assert fields.stage == NOTHING and not (fields.changed_rows or fields.place), "a change is half done"
    assert fields.waiting_order < 0, "rows wait for the end of an event"
    assert not progress.changed_blocks.any(), "a row of the table is noted as changed between tuples"
    assert (index.queue.head == -1).all(), "the queue is not empty"
    blocks = state.blocks
    assert not table.suspect[:blocks].any(), "a cell is suspect between tuples"
    assert not table.removed_cells[:blocks].any(), "a cell is noted as removed between tuples"
    cells = stored_cells(index)
    assert all(value > index.settings.ceiling for value, _ in cells.values()), "a cell is no length"
    unreported = {key for key, (value, reported) in cells.items() if program.accepting[key[1]] and reported != value}
    assert not unreported, f"lengths differ from those that were reported, at {unreported}"
    edges = edges_of(index, index.graph.out)
    mirrored = {(v, c, u, link): slide for (u, c, v, link), slide in edges.items()}
    assert edges_of(index, index.graph.into) == mirrored, "in-edges are not the out-edges turned round"
    found = {key: value for key, (value, _) in cells.items()}
    assert found == _nearest_cells(index, progress, edges), "cells are not those of shortest walks"


def _nearest_cells(
    index: Index, progress: LengthChanges, edges: dict[tuple[int, int, int, int], int]
) -> dict[tuple[int, int, int], int]:
    """Return the cells of shortest walks to each (vertex, state) from each root, by its slot: Bellman and Ford's."""
    program, table, weight = index.program, index.table, progress.weight
    zero, lowest = progress.fields.zero, progress.fields.lowest

    def behind(edge: int, cell: int) -> int:
        if weight.dtype == np.float64:
            cost = np.int64(zero - cell).view(np.float64) + weight[edge]
            return zero - int(cost.view(np.int64))
        return max(cell - (1 if weight.dtype == np.int8 else int(weight[edge])), lowest)

    outgoing: dict[int, list[tuple[int, int, int]]] = {}
    found: dict[tuple[int, int, int], int] = {}
    for u, c, v, link in edges:
        edge = link >> 1
        outgoing.setdefault(u, []).append((c, v, edge))
        if program.start_target[c] >= 0 and table.is_root[u]:
            assert table.slot_of[u] >= 0, f"root {u} has no slot"
            key = v, int(program.start_target[c]), int(table.slot_of[u])
            found[key] = max(found.get(key, 0), behind(edge, zero))
    pending = [*found]
    while pending:
        u, s, slot = pending.pop()
        for c, v, edge in outgoing.get(u, []):
            for leave in range(program.leave_first[s], program.leave_first[s + 1]):
                key = v, int(program.leave_target[leave]), slot
                if program.leave_class[leave] == c and (cell := behind(edge, found[u, s, slot])) > found.get(key, 0):
                    found[key] = cell
                    pending.append(key)
    return found
