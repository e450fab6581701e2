"""Simple paths in the index: no walk comes back to its root, and roots that meet a conflict are noted.

A simple path from x never visits x again, so under simple path semantics the cells (x, t) of root x stay empty: the
table holds the *walks that do not come back to their root*. That alone makes it exact where every cycle can be left
out, and where only the root was in conflict (`a/b*`, `(a|b)/c*`).

Two states s, t are *in conflict* if a non-empty word leads from one to the other, say from s to t, and [s] ⊉ [t]. A
root *meets a conflict* at v while its cells (v, s) and (v, t) are both alive. As long as a root meets none, every
walk in its tree shrinks to a simple path: where it visits v first in s and later in t, [s] ⊇ [t], so the cycle is
left out and the rest of the word is read from s; what remains is again a walk of the tree. So its answers are
those of the table. Detection is 64 roots at a time, and only for states that are in conflict with another.
"""

import numpy as np
from numba import njit

from rpq.blocks import live, population
from rpq.index.layout import CONFLICTED, CONFLICTS, NOW, ROWS, SIMPLE
from rpq.index.rows import ZERO, block_count, find, node_of, nth_block, row_at


@njit(cache=True, nogil=True, forceinline=True)
def own_slot(index, vertex):
    """The slot of which a row of the vertex must not hold a cell, or -1."""
    return np.int64(index.table.slot_of[vertex]) if index.settings[SIMPLE] else np.int64(-1)


@njit(cache=True, nogil=True)
def _in_conflict(index, vertex, state, number):
    """The lanes that hold the vertex in a state that is in conflict with this one."""
    program, table = index.program, index.table
    lanes = ZERO
    for i in range(program.partner_first[state], program.partner_first[state + 1]):
        row = row_at(index, vertex, np.int64(program.partner_state[i]))
        block = find(table, row, number) if row >= 0 else np.int64(-1)
        if block >= 0:
            lanes |= live(table.values, block, index.state[NOW])
    return lanes


@njit(cache=True, nogil=True)
def note_conflicts(index, vertex, state, number, lanes):
    """Note the roots whose cells, just come alive, meet a conflict."""
    conflicted, fields = index.table.conflicted, index.state
    lanes &= ~conflicted[number]
    if lanes != ZERO:
        met = lanes & _in_conflict(index, vertex, state, number)
        conflicted[number] |= met
        fields[CONFLICTED] += population(met)
        fields[CONFLICTS] += population(met)


@njit(cache=True, nogil=True)
def live_conflicts(index, found):
    """Set in `found` (uint64 a block number) the bits of the roots that meet a conflict now. O(size of the index)."""
    program, table = index.program, index.table
    for row in range(index.state[ROWS]):
        if table.node[row] < 0:
            continue
        vertex, state = node_of(table, row)
        if program.partner_first[state + 1] == program.partner_first[state]:
            continue
        for i in range(block_count(table, row)):
            number, block = nth_block(table, row, i)
            lanes = live(table.values, block, index.state[NOW]) & ~found[number]
            if lanes != ZERO:
                found[number] |= lanes & _in_conflict(index, vertex, state, number)
