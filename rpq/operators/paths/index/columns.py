"""The order of columns: roots that reach common vertices get neighbouring columns, so that rows have few blocks.

A root gets a free column when its first edge arrives. If many small graphs share a stream, such as those of tenants, the
columns of a row are then scattered over as many blocks. No row has roots of two weakly connected components, so the columns
of each component belong side by side.
"""

import numpy as np

from rpq.compiled.arrays.lanes import LANES, live
from rpq.compiled.intrinsics import trailing_zeros
from rpq.compiled.kernel_cache import njit
from rpq.operators.paths.index.layout import DONE, Index
from rpq.operators.paths.index.rows import ONE, ZERO, block_count, find, make_block, make_row, node_of, nth_block

_GAIN = 1.5
"""The least ratio of the blocks of rows to those that they would have in another order at which this pays off."""


def components(source: np.ndarray, target: np.ndarray, count: int) -> np.ndarray:
    """Return the lowest vertex of its weakly connected component for each of `count` vertices. O(edges + vertices)."""
    component = np.arange(count)
    _find_components(source, target, component)
    return component


@njit(cache=True, nogil=True)
def _find_components(source, target, component):
    for i in range(len(source)):
        one, other = _lowest(component, np.int64(source[i])), _lowest(component, np.int64(target[i]))
        component[max(one, other)] = min(one, other)
    for vertex in range(len(component)):
        component[vertex] = component[component[vertex]]  # that of a lower vertex, which is known already


@njit(cache=True, nogil=True, forceinline=True)
def _lowest(component, vertex):
    """Return the lowest known vertex of a component, and shorten the way to it."""
    while component[vertex] != vertex:
        component[vertex] = component[component[vertex]]
        vertex = component[vertex]
    return vertex


def better_order(index: Index, component: np.ndarray) -> np.ndarray | None:
    """Return the slots of roots in an order in which rows have far fewer blocks, or None: those of a component together."""
    table, rows = index.table, index.state.rows
    slots = np.flatnonzero(table.slot_vertex[: index.state.slots] >= 0)
    of_slot = component[table.slot_vertex[slots]]
    sizes = np.bincount(of_slot, minlength=len(component))
    ends = np.cumsum(sizes)
    is_used = table.node[:rows] >= 0
    of_row = component[table.node[:rows][is_used] >> 16]
    blocks = np.where(table.span[:rows] > 0, table.span[:rows], table.directory.length[:rows])[is_used]
    # All columns of a component: a row with fewer blocks is likely to keep as many.
    needed = np.minimum(blocks, (ends[of_row] - 1 >> 6) - (ends[of_row] - sizes[of_row] >> 6) + 1)
    return slots[np.argsort(of_slot, kind="stable")] if blocks.sum() > _GAIN * needed.sum() else None


@njit(cache=True, nogil=True)
def copy_cells(index, other, rows, slots):
    """Copy the live cells in some rows of another index, whose slots have the numbers `slots` here. Return a code."""
    table, old = index.table, other.table
    # A call after a code continues with the last row that was made.
    for i in range(max(np.int64(0), index.state.rows - 1), len(rows)):
        row = rows[i]
        vertex, state = node_of(old, row)
        copy = np.int64(table.row_of[vertex * index.program.sizes.states + state])
        if copy < 0:
            copy = make_row(index, vertex, state)
            if copy < 0:
                return -copy
            table.low[copy] = old.low[row]
        last, block = np.int64(-1), np.int64(-1)
        for j in range(block_count(old, row)):
            number, source = nth_block(old, row, j)
            lanes = live(old.values, source, index.state.now)
            while lanes != ZERO:
                lane = trailing_zeros(lanes)
                lanes &= lanes - ONE
                slot = slots[number * LANES + lane]
                if slot >> 6 != last:
                    last = slot >> 6
                    block = find(table, copy, last)
                    if block < 0:
                        block = make_block(index, copy, last)
                        if block < 0:
                            return -block
                cell = block * LANES + (slot & (LANES - 1))
                table.values[cell] = old.values[source * LANES + lane]
                if index.state.supports:
                    table.hops[cell] = old.hops[source * LANES + lane]
    return np.int64(DONE)
