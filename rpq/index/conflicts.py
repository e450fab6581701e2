"""Simple paths in the index: no walk comes back to its root, and what a conflict puts in doubt is marked.

A simple path from x never visits x again, so under simple path semantics the cells (x, t) of root x stay empty: the
table holds the *walks that do not come back to their root*. That alone makes it exact where every cycle can be left
out, and where only the root was in conflict (`a/b*`, `(a|b)/c*`).

State t *makes a conflict after* state s if a non-empty word leads from s to t, and [s] ⊉ [t]. A root *meets a
conflict* at v while its cells (v, s) and (v, t) are both alive; (v, t) is the *later* of the two. A cell is *in doubt*
while a walk of its root may come to it through the later cell of a conflict, or it is one.

**Why it is exact.** Let a walk of x end in an accepting cell that is not in doubt: then none of its cells is the later
one of a conflict, so where it visits w in s and again in t, [s] ⊇ [t]. Leave out its cycles from the front: at each
vertex, go on from where the walk leaves it for the last time. The state r in which the path so made comes to a vertex
of the walk, and the state q in which the walk does, keep [r] ⊇ [q]: [r] ⊇ [q] ⊇ [q'] where a cycle from q to q' is left
out, and a step keeps it. At the end q accepts, hence r does. So such a pair has a simple path, and the table answers
it. Of every other pair (`doubted`: some live accepting cell of it is in doubt) the table only says that there is a walk.

**How it is kept.** `Table.doubt` has a bit a cell, none for dead cells (between tuples), and is closed: an edge in
the window takes the doubt of a cell to every cell that it leads to. When a cell comes alive, the later cells of its
conflicts are marked; a push takes the doubt of its source along, and a block that it adds doubt to is pushed on as one
that grew. An edge refreshed and an edge deleted make no doubt. A cell keeps its doubt until it dies or the slide
changes, when all doubt is found anew from the conflicts that are left (`mark_conflicts`): a bit may be out of date for
a while, which costs a search and no answer. Accepting cells that come into doubt are listed while an insert goes on,
since a pair that was an answer till then is to be searched.

All of it is 64 roots at a time, and costs nothing where no state makes a conflict.
"""

import numpy as np
from numba import njit

from rpq.blocks import live, population
from rpq.index.layout import CONFLICTED, CONFLICTS, EVENT_OUT, NOW, OUT, PHASE, REFILLING, ROWS, SIMPLE, TAKEN
from rpq.index.rows import ONE, ZERO, block_count, enqueue, find, node_of, nth_block, row_at

_NUMBER = (1 << 32) - 1


@njit(cache=True, nogil=True, forceinline=True)
def own_slot(index, vertex):
    """The slot of which a row of the vertex must not hold a cell, or -1."""
    return np.int64(index.table.slot_of[vertex]) if index.settings[SIMPLE] else np.int64(-1)


@njit(cache=True, nogil=True)
def doubted(index, vertex, number):
    """The lanes with a live accepting cell of the vertex that is in doubt."""
    program, table = index.program, index.table
    lanes = ZERO
    for i in range(program.classes[2]):
        row = row_at(index, vertex, np.int64(program.accepting_states[i]))
        block = find(table, row, number) if row >= 0 else np.int64(-1)
        if block >= 0 and table.doubt[block] != ZERO:
            lanes |= table.doubt[block] & live(table.values, block, index.state[NOW])
    return lanes


@njit(cache=True, nogil=True, forceinline=True)
def has_bit(words, slot):
    """Whether a root is among some, which are given as uint64 a block number; one without a slot is not."""
    return slot >= 0 and (words[slot >> 6] >> np.uint64(slot & 63)) & ONE != ZERO


@njit(cache=True, nogil=True)
def in_doubt(index, slot, target):
    """Whether a pair, whose root has that slot, has a walk now and the table does not answer it."""
    return (doubted(index, target, slot >> 6) >> np.uint64(slot & 63)) & ONE != ZERO


@njit(cache=True, nogil=True)
def _later(index, vertex, state, number):
    """The lanes for which a cell of the vertex in this state, if it is alive, is the later one of a conflict."""
    program, table = index.program, index.table
    lanes = ZERO
    for i in range(program.earlier_first[state], program.earlier_first[state + 1]):
        row = row_at(index, vertex, np.int64(program.earlier_state[i]))
        block = find(table, row, number) if row >= 0 else np.int64(-1)
        if block >= 0:
            lanes |= live(table.values, block, index.state[NOW])
    return lanes


@njit(cache=True, nogil=True)
def _doubt(index, row, number, block, lanes):
    """Mark live cells, and list them if they accept."""
    table, fields = index.table, index.state
    table.doubt[block] |= lanes
    # Refilling what a delete took out makes no doubt, and uses the list itself.
    if index.program.accepting[node_of(table, row)[1]] and fields[PHASE] != REFILLING:
        if table.taken[block] == ZERO:
            index.queue.taken[fields[TAKEN]] = row << 32 | number
            fields[TAKEN] += 1
        table.taken[block] |= lanes


@njit(cache=True, nogil=True)
def _push_doubt(index, row, number):
    """Let a row wait, behind all that grew, to push the doubt of a block."""
    program, table = index.program, index.table
    _, state = node_of(table, row)
    if program.leave_first[state + 1] > program.leave_first[state]:
        table.pending[row] |= ONE << np.uint64(number & 63)
        enqueue(index.queue, index.state, row, np.int64(0))


@njit(cache=True, nogil=True)
def bring_doubt(index, row, number, source, block):
    """Take the doubt of a block, which was just pushed into another, along; whether it added any."""
    table = index.table
    # What the source reaches is alive, but for the cell of a root at itself.
    lanes = table.doubt[source] & ~table.doubt[block] & live(table.values, block, index.state[NOW])
    if lanes == ZERO:
        return False
    _doubt(index, row, number, block, lanes)
    return True


@njit(cache=True, nogil=True)
def note_conflicts(index, row, number, block, lanes):
    """Note the conflicts of cells that have just come alive: the roots, and the later cells."""
    program, table, fields = index.program, index.table, index.state
    vertex, state = node_of(table, row)
    met = lanes & _later(index, vertex, state, number)
    if met != ZERO:
        # No need to push: the block grew.
        _doubt(index, row, number, block, met)
    for i in range(program.later_first[state], program.later_first[state + 1]):
        later = row_at(index, vertex, np.int64(program.later_state[i]))
        held = find(table, later, number) if later >= 0 else np.int64(-1)
        if held >= 0:
            also = lanes & live(table.values, held, fields[NOW])
            met |= also
            also &= ~table.doubt[held]
            if also != ZERO:
                _doubt(index, later, number, held, also)
                _push_doubt(index, later, number)
    met &= ~table.conflicted[number]
    table.conflicted[number] |= met
    fields[CONFLICTED] += population(met)
    fields[CONFLICTS] += population(met)


@njit(cache=True, nogil=True)
def unblocking(index, number, held):
    """The lanes of a live block that an edge leads out of, of the roots with pairs that have a walk and no path."""
    table = index.table
    if table.blocked[number] == ZERO:
        return ZERO
    return table.blocked[number] & ~table.aside[number] & live(table.values, held, index.state[NOW])


@njit(cache=True, nogil=True)
def _may_unblock(index, u, transition_class):
    program, table = index.program, index.table
    slot = np.int64(table.slot_of[u])
    if program.start_target[transition_class] >= 0 and has_bit(table.blocked, slot):
        return True
    for step in range(program.step_first[transition_class], program.step_first[transition_class + 1]):
        row = row_at(index, u, np.int64(program.step_source[step]))
        if row >= 0:
            for i in range(block_count(table, row)):
                number, held = nth_block(table, row, i)
                if unblocking(index, number, held) != ZERO:
                    return True
    return False


@njit(cache=True, nogil=True)
def concerns_doubt(index, u, v, forward, inverse):
    """Whether the insert that goes on, of an edge u -> v, changes or may change anything of which the table is not sure."""
    table, fields = index.table, index.state
    if fields[TAKEN] > 0:
        return True
    for row in range(fields[EVENT_OUT], fields[OUT]):
        slot = np.int64(table.slot_of[index.output.pairs[row] >> 32])
        if has_bit(table.conflicted, slot):
            if has_bit(table.aside, slot) or in_doubt(index, slot, index.output.pairs[row] & _NUMBER):
                return True
    if forward >= 0 and _may_unblock(index, u, forward):
        return True
    return inverse >= 0 and _may_unblock(index, v, inverse)


@njit(cache=True, nogil=True)
def live_conflicts(index, found):
    """Set in `found` (uint64 a block number) the bits of the roots that meet a conflict now. O(size of the index)."""
    program, table = index.program, index.table
    for row in range(index.state[ROWS]):
        if table.node[row] < 0:
            continue
        vertex, state = node_of(table, row)
        if program.earlier_first[state + 1] == program.earlier_first[state]:
            continue
        for i in range(block_count(table, row)):
            number, block = nth_block(table, row, i)
            lanes = live(table.values, block, index.state[NOW]) & ~found[number]
            if lanes != ZERO:
                found[number] |= lanes & _later(index, vertex, state, number)


@njit(cache=True, nogil=True)
def mark_conflicts(index, found):
    """As `live_conflicts`; and put in doubt the later cells of the conflicts there are now, and no others.

    The caller pushes what is pending. O(size of the index).
    """
    program, table = index.program, index.table
    for row in range(index.state[ROWS]):
        if table.node[row] < 0:
            continue
        vertex, state = node_of(table, row)
        makes_conflicts = program.earlier_first[state + 1] > program.earlier_first[state]
        for i in range(block_count(table, row)):
            number, block = nth_block(table, row, i)
            table.doubt[block] = ZERO
            if makes_conflicts:
                lanes = live(table.values, block, index.state[NOW])
                if lanes != ZERO:
                    lanes &= _later(index, vertex, state, number)
                if lanes != ZERO:
                    found[number] |= lanes
                    _doubt(index, row, number, block, lanes)
                    _push_doubt(index, row, number)


@njit(cache=True, nogil=True)
def drop_doubt(index, roots):
    """Let no cell of the roots in `roots` (uint64 a block number) be in doubt. O(blocks of the index)."""
    table = index.table
    for row in range(index.state[ROWS]):
        if table.node[row] >= 0:
            for i in range(block_count(table, row)):
                number, block = nth_block(table, row, i)
                table.doubt[block] &= ~roots[number]


@njit(cache=True, nogil=True)
def empty_list(index):
    """Forget which accepting cells came into doubt."""
    table, fields = index.table, index.state
    for i in range(fields[TAKEN]):
        entry = index.queue.taken[i]
        table.taken[find(table, entry >> 32, entry & _NUMBER)] = ZERO
    fields[TAKEN] = 0
