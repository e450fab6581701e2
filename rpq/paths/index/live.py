"""What the index holds now: its live cells and its answers."""

import numpy as np

from rpq.arrays.lanes import LANES, live
from rpq.compiled.intrinsics import population, trailing_zeros
from rpq.compiled.kernel_cache import njit
from rpq.paths.index.layout import NOW, ROWS
from rpq.paths.index.rows import NEVER, ONE, ZERO, block_count, held_by_no_other, node_of, nth_block


@njit(cache=True, nogil=True)
def count_live(index):
    """(live cells, answers)."""
    table, program, now = index.table, index.program, index.state[NOW]
    cells = 0
    answers = 0
    for row in range(index.state[ROWS]):
        if table.node[row] < 0:
            continue
        vertex, state = node_of(table, row)
        counts = program.accepting[state] and table.is_target[vertex]
        for i in range(block_count(table, row)):
            number, block = nth_block(table, row, i)
            lanes = live(table.values, block, now)
            cells += population(lanes)
            if counts:
                answers += population(held_by_no_other(index, vertex, state, number, lanes, now, NEVER))
    return cells, answers


@njit(cache=True, nogil=True)
def live_pairs(index):
    """The current answers, source << 32 | target."""
    table, program, now = index.table, index.program, index.state[NOW]
    pairs = np.empty(count_live(index)[1], np.int64)
    found = 0
    for row in range(index.state[ROWS]):
        if table.node[row] < 0:
            continue
        vertex, state = node_of(table, row)
        if not program.accepting[state] or not table.is_target[vertex]:
            continue
        for i in range(block_count(table, row)):
            number, block = nth_block(table, row, i)
            lanes = live(table.values, block, now)
            lanes = held_by_no_other(index, vertex, state, number, lanes, now, NEVER)
            while lanes != ZERO:
                slot = number * LANES + trailing_zeros(lanes)
                lanes &= lanes - ONE
                pairs[found] = np.int64(table.slot_vertex[slot]) << 32 | vertex
                found += 1
    return pairs


@njit(cache=True, nogil=True)
def count_cells(index, cells):
    """Add the live cells of each root to its place in `cells` (int64 a vertex)."""
    table, now = index.table, index.state[NOW]
    for row in range(index.state[ROWS]):
        if table.node[row] < 0:
            continue
        for i in range(block_count(table, row)):
            number, block = nth_block(table, row, i)
            lanes = live(table.values, block, now)
            while lanes != ZERO:
                slot = number * LANES + trailing_zeros(lanes)
                lanes &= lanes - ONE
                cells[table.slot_vertex[slot]] += 1
