"""What the index holds now: its live cells and its answers."""

import numpy as np

from rpq.arrays.lanes import live
from rpq.compiled.intrinsics import population, trailing_zeros
from rpq.compiled.kernel_cache import njit
from rpq.paths.index.layout import NOW, ROWS
from rpq.paths.index.rows import LANES, ONE, ZERO, block_count, find, node_of, nth_block, row_at
from rpq.paths.program import ACCEPTING


@njit(cache=True, nogil=True)
def _first_answers(index, vertex, state, number, lanes):
    """The lanes of an accepting state that no lower accepting state of the vertex holds."""
    table = index.table
    for i in range(index.program.sizes[ACCEPTING]):
        other = np.int64(index.program.accepting_states[i])
        if other >= state or lanes == ZERO:
            break
        row = row_at(index, vertex, other)
        block = find(table, row, number) if row >= 0 else np.int64(-1)
        if block >= 0:
            lanes &= ~live(table.values, block, index.state[NOW])
    return lanes


@njit(cache=True, nogil=True)
def count_live(index):
    """(live cells, answers)."""
    table, program = index.table, index.program
    cells = 0
    answers = 0
    for row in range(index.state[ROWS]):
        if table.node[row] < 0:
            continue
        vertex, state = node_of(table, row)
        counts = program.accepting[state] and table.is_target[vertex]
        for i in range(block_count(table, row)):
            number, block = nth_block(table, row, i)
            lanes = live(table.values, block, index.state[NOW])
            cells += population(lanes)
            if counts:
                answers += population(_first_answers(index, vertex, state, number, lanes))
    return cells, answers


@njit(cache=True, nogil=True)
def live_pairs(index):
    """The current answers, source << 32 | target."""
    table, program = index.table, index.program
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
            lanes = live(table.values, block, index.state[NOW])
            lanes = _first_answers(index, vertex, state, number, lanes)
            while lanes != ZERO:
                slot = number * LANES + trailing_zeros(lanes)
                lanes &= lanes - ONE
                pairs[found] = np.int64(table.slot_vertex[slot]) << 32 | vertex
                found += 1
    return pairs
