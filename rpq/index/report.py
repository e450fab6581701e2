"""What the index holds now: its live cells and its answers."""

import numpy as np
from numba import njit

from rpq.blocks import live, population
from rpq.index.layout import NOW, POINTER, ROWS
from rpq.index.rows import LANES, ONE, ZERO, find, row_at, trailing_zeros


@njit(cache=True, nogil=True)
def _first_answers(index, vertex, state, number, lanes):
    """The lanes of an accepting state that no lower accepting state of the vertex holds."""
    table = index.table
    for i in range(index.program.classes[2]):
        other = np.int64(index.program.accepting_states[i])
        if other >= state or lanes == ZERO:
            break
        row = row_at(index, vertex, other)
        place = find(table, row, number) if row >= 0 else np.int64(-1)
        if place >= 0:
            lanes &= ~live(table.values, table.directory.entries[place] & POINTER, index.state[NOW])
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
        vertex = table.node[row] // program.classes[1]
        state = table.node[row] - vertex * program.classes[1]
        counts = program.accepting[state] and table.is_target[vertex]
        start = table.directory.start[row]
        for place in range(start, start + np.int64(table.directory.length[row])):
            entry = table.directory.entries[place]
            if entry != 0:
                lanes = live(table.values, entry & POINTER, index.state[NOW])
                cells += population(lanes)
                if counts:
                    answers += population(_first_answers(index, vertex, state, entry >> 32, lanes))
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
        vertex = table.node[row] // program.classes[1]
        state = table.node[row] - vertex * program.classes[1]
        if not program.accepting[state] or not table.is_target[vertex]:
            continue
        start = table.directory.start[row]
        for place in range(start, start + np.int64(table.directory.length[row])):
            entry = table.directory.entries[place]
            if entry == 0:
                continue
            lanes = live(table.values, entry & POINTER, index.state[NOW])
            lanes = _first_answers(index, vertex, state, entry >> 32, lanes)
            while lanes != ZERO:
                slot = (entry >> 32) * LANES + trailing_zeros(lanes)
                lanes &= lanes - ONE
                pairs[found] = np.int64(table.slot_vertex[slot]) << 32 | vertex
                found += 1
    return pairs
