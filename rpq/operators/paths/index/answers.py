"""Kernels that read the table: the numbers of live cells and of answers, and answers in the order of their ends."""

import numpy as np

from rpq.compiled.arrays.lanes import LANES, live
from rpq.compiled.intrinsics import population, trailing_zeros
from rpq.compiled.kernel_cache import njit
from rpq.operators.paths.index.rows import NEVER, ONE, ZERO, block_count, find, node_of, nth_block, row_at, unshared_lanes


@njit(cache=True, nogil=True)
def count_live(index):
    """Return the numbers of live cells and of answers."""
    table, program, now = index.table, index.program, index.state.now
    cells = 0
    answers = 0
    for row in range(index.state.rows):
        if table.node[row] < 0:
            continue
        vertex, state = node_of(table, row)
        counts = program.accepting[state] and table.is_target[vertex]
        for i in range(block_count(table, row)):
            number, block = nth_block(table, row, i)
            lanes = live(table.values, block, now)
            cells += population(lanes)
            if counts:
                answers += population(unshared_lanes(index, vertex, state, number, lanes, now, NEVER))
    return cells, answers


@njit(cache=True, nogil=True)
def count_by_root(index, cells, answers):
    """Add the live cells and the answers of each root to its places in `cells` and `answers` (int64 a vertex)."""
    table, program, now = index.table, index.program, index.state.now
    for row in range(index.state.rows):
        if table.node[row] < 0:
            continue
        vertex, state = node_of(table, row)
        counts = program.accepting[state] and table.is_target[vertex]
        for i in range(block_count(table, row)):
            number, block = nth_block(table, row, i)
            lanes = live(table.values, block, now)
            of_answers = unshared_lanes(index, vertex, state, number, lanes, now, NEVER) if counts else ZERO
            while lanes != ZERO:
                lane = lanes & (~lanes + ONE)
                root = table.slot_vertex[number * LANES + trailing_zeros(lanes)]
                lanes &= lanes - ONE
                cells[root] += 1
                answers[root] += of_answers & lane != ZERO


@njit(cache=True, nogil=True)
def live_pairs(index, first, end, limit, mask, numbers):
    """Return the answers, source << 32 | target, with ends from vertex `first` up to `end`, and the next vertex.

    It stops after the vertex with which there are `limit` answers. With `numbers` of blocks, only the roots in these blocks
    whose bits are set in `mask` (uint64 a block number) have answers.
    """
    count, following = _scan(index, first, end, limit, mask, numbers, np.empty(0, np.int64))
    pairs = np.empty(count, np.int64)
    if count:
        _scan(index, first, following, count, mask, numbers, pairs)
    return pairs, following


@njit(cache=True, nogil=True)
def _scan(index, first, end, limit, mask, numbers, pairs):
    """Write pairs as `live_pairs` does, or count them without room for any. Return their number and the next vertex."""
    table, program, now = index.table, index.program, index.state.now
    found = np.int64(0)
    for vertex in range(first, end):
        if found >= limit:
            return found, vertex
        if not table.is_target[vertex]:
            continue
        for j in range(program.sizes.accepting):
            state = np.int64(program.accepting_states[j])
            row = row_at(index, vertex, state)
            if row < 0:
                continue
            chosen = len(numbers) > 0
            for i in range(len(numbers) if chosen else block_count(table, row)):
                if chosen:
                    number = numbers[i]
                    block = find(table, row, number)
                    if block < 0:
                        continue
                    lanes = live(table.values, block, now) & mask[number]
                else:
                    number, block = nth_block(table, row, i)
                    lanes = live(table.values, block, now)
                lanes = unshared_lanes(index, vertex, state, number, lanes, now, NEVER)
                if len(pairs) == 0:
                    found += population(lanes)
                    continue
                while lanes != ZERO:
                    slot = number * LANES + trailing_zeros(lanes)
                    lanes &= lanes - ONE
                    pairs[found] = np.int64(table.slot_vertex[slot]) << 32 | vertex
                    found += 1
    return found, np.int64(end)
