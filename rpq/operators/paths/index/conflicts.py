"""Simple paths in the index: no walk continues from its root, and cells that a conflict puts in doubt are marked.

A simple path from x never visits x again, so under simple path semantics the cells (x, t) of root x stay empty: the table
holds the *walks that do not return to their root*. That alone makes it exact where every cycle can be left out, and where
only the root was in conflict (`a/b*`, `(a|b)/c*`). A simple cycle returns to x at its end, in the cell (x, closing state) of
root x, which no other root has and from which no step continues (`program.py`). So everything below about a path to y also
holds with y = x, and a cycle may be in doubt like any path.

State t *makes a conflict after* state r if a non-empty word leads from r to t, and [r] ⊉ [t]. A root *meets a
conflict* at v while its cell (v, r) is alive and a live cell (u, s) steps to (v, t), where t makes a conflict after r and
a walk may visit (v, r) and then (u, s): a non-empty word leads from r to s, or they are the same cell. (v, t) is the
*later* cell. So in `a/b/c*` an edge b is the last of no conflict, unless it leads from a vertex to itself. A cell is
*in doubt* while it is the later cell of a conflict or a walk of its root may reach it through one.

**Why it is exact.** Let a walk of x end in an accepting cell that is not in doubt: then none of its cells is the later
one of a conflict, so where it visits w in s and again in t, [s] ⊇ [t]. Remove its cycles from the front: at each vertex,
continue from where the walk leaves it for the last time. The state r in which the resulting path reaches a vertex of the
walk and the state q in which the walk reaches it satisfy [r] ⊇ [q]: [r] ⊇ [q] ⊇ [q'] where a cycle from q to q' is left out,
and a step keeps it. At the end q accepts, hence r does. So such a pair has a simple path, and the table answers it. For
every other pair (`lanes_in_doubt`: a live accepting cell of it is in doubt) the table only shows that a walk exists.

**How it is maintained.** `Table.doubt` has one bit per cell, which is not set for dead cells (between tuples), and is
closed: an edge in the window passes the doubt of a cell on to every cell that it leads to. A push carries the doubt of its
source, and marks the conflicts of its step; when a cell comes alive, the steps into the other cells of its vertex are
examined again. A block to which doubt was added is pushed like one that grew. Refreshing or deleting an edge creates no
doubt. A cell keeps its doubt until it dies or the slide changes, when all doubt is recomputed from the remaining conflicts
(`mark_conflicts`): a bit may be out of date for a while, which costs a search but no answer. Accepting cells that an insert
puts in doubt are listed (`Queue.to_search`), since a pair that was an answer before has to be searched.

All of this works on 64 roots at a time, and costs nothing where no state makes a conflict.
"""

import numpy as np

from rpq.compiled.arrays.lanes import live
from rpq.compiled.intrinsics import population
from rpq.compiled.kernel_cache import njit
from rpq.operators.paths.index.layout import LOW_HALF, REFILLING
from rpq.operators.paths.index.rows import (
    ONE,
    ZERO,
    block_at,
    block_count,
    enqueue,
    find,
    in_edges,
    lane_of,
    next_in_edge,
    node_of,
    nth_block,
    row_at,
    skip_transition,
)

EVERY = np.uint64(2**64 - 1)


@njit(cache=True, nogil=True, forceinline=True)
def own_slot(index, vertex):
    """Return the slot of a vertex as a root, whose cell in its own rows is treated separately; -1 where paths may be
    walks."""
    return np.int64(index.table.slot_of[vertex]) if index.settings.simple else np.int64(-1)


@njit(cache=True, nogil=True, forceinline=True)
def barred_lanes(index, state, number, own):
    """Return the lanes of block `number` that stay empty in a row of a vertex whose slot as a root is `own`.

    In the closing state all lanes but the vertex's own stay empty, in the other states only its own.
    """
    lane = lane_of(own) if number == own >> 6 and own >= 0 else ZERO
    return ~lane if state == index.program.sizes.closing else lane


@njit(cache=True, nogil=True)
def lanes_in_doubt(index, vertex, number):
    """Return the lanes with a live accepting cell of the vertex that is in doubt."""
    program, table = index.program, index.table
    lanes = ZERO
    for i in range(program.sizes.accepting):
        block = block_at(index, vertex, np.int64(program.accepting_states[i]), number)
        if block >= 0 and table.doubt[block] != ZERO:
            lanes |= table.doubt[block] & live(table.values, block, index.state.now)
    return lanes


@njit(cache=True, nogil=True, forceinline=True)
def has_bit(words, slot):
    """Return whether a set of roots (uint64 a block number) contains a root. It contains no root without a slot."""
    return slot >= 0 and (words[slot >> 6] >> np.uint64(slot & 63)) & ONE != ZERO


@njit(cache=True, nogil=True)
def in_doubt(index, slot, target):
    """Return whether a pair has a walk now but the table does not answer it. The root of the pair has that slot."""
    return (lanes_in_doubt(index, target, slot >> 6) >> np.uint64(slot & 63)) & ONE != ZERO


@njit(cache=True, nogil=True, forceinline=True)
def makes_conflicts(index, vertex, state, from_vertex, from_state):
    """Return whether a step between two product nodes may be the last one to the later cell of a conflict."""
    program = index.program
    step = from_state * program.sizes.states + state
    return program.earlier_first[step + 1] > program.earlier_first[step] or (
        vertex == from_vertex and program.earlier_loop[step] != 0
    )


@njit(cache=True, nogil=True)
def _lanes_in_conflict(index, vertex, state, from_vertex, from_state, number):
    """Return the lanes for which such a step from a live cell reaches the later cell of a conflict."""
    program, table = index.program, index.table
    step = from_state * program.sizes.states + state
    if vertex == from_vertex and program.earlier_loop[step]:
        return EVERY
    lanes = ZERO
    for i in range(program.earlier_first[step], program.earlier_first[step + 1]):
        block = block_at(index, vertex, np.int64(program.earlier_state[i]), number)
        if block >= 0:
            lanes |= live(table.values, block, index.state.now)
    return lanes


@njit(cache=True, nogil=True)
def _later_cells(index, vertex, state, number, lanes):
    """Return the live lanes of a product node that are the later cell of a conflict."""
    program, table, now = index.program, index.table, index.state.now
    found, passed, loops = ZERO, ZERO, False
    transition = np.int64(-1)
    edge = in_edges(index, vertex, state)
    while True:
        edge = next_in_edge(index, vertex, state, edge, now)
        if edge.link < 0:
            return found
        if edge.transition != transition:
            transition = edge.transition
            if edge.source_state != 0:
                passed = _lanes_in_conflict(index, vertex, state, np.int64(-1), edge.source_state, number)
                loops = program.earlier_loop[edge.source_state * program.sizes.states + state] != 0
        wanted = lanes & ~found
        if edge.source != vertex or not loops:
            wanted &= passed
        if edge.source_state == 0 or (wanted == ZERO and not loops):
            edge = skip_transition(edge)
        elif wanted != ZERO:
            block = block_at(index, edge.source, edge.source_state, number)
            if block >= 0:
                found |= wanted & live(table.values, block, now)


@njit(cache=True, nogil=True)
def _mark_doubt(index, row, number, block, lanes):
    """Mark live cells as in doubt, and list them if they accept."""
    table, fields = index.table, index.state
    table.doubt[block] |= lanes
    # Refilling cells that a delete took out creates no new doubt.
    if index.program.accepting[node_of(table, row)[1]] and fields.phase != REFILLING:
        if table.new_doubt[block] == ZERO:
            index.queue.to_search[fields.to_search] = row << 32 | number
            fields.to_search += 1
        table.new_doubt[block] |= lanes


@njit(cache=True, nogil=True)
def _schedule_doubt(index, row, number):
    """Enqueue a row, behind all rows that grew, to push the doubt of a block."""
    program, table = index.program, index.table
    _, state = node_of(table, row)
    if program.leave_first[state + 1] > program.leave_first[state]:
        table.pending[row] |= ONE << np.uint64(number & 63)
        enqueue(index.queue, index.state, row, np.int64(0))


@njit(cache=True, nogil=True)
def _count_conflicts(index, number, lanes):
    """Record the roots that meet a conflict."""
    table, fields = index.table, index.state
    lanes &= ~table.conflicted_roots[number]
    table.conflicted_roots[number] |= lanes
    fields.conflicted += population(lanes)
    fields.conflicts += population(lanes)


@njit(cache=True, nogil=True)
def bring_doubt(index, row, count, from_vertex, from_state):
    """Push the doubt of blocks into a row. Return the pending bits of the blocks whose doubt grew.

    The blocks are those in the queue's scratch, which were just pushed into the row. The step adds its own doubt.
    """
    table, queue, now = index.table, index.queue, index.state.now
    vertex, state = node_of(table, row)
    may_meet = makes_conflicts(index, vertex, state, from_vertex, from_state)
    pending = ZERO
    for i in range(count):
        number, source = queue.number[i], queue.block[i]
        if table.doubt[source] == ZERO and not may_meet:
            continue
        block = find(table, row, number)
        if block < 0:
            continue
        # All cells that the source reaches are alive, except the cell of a root at itself.
        open_lanes = ~table.doubt[block] & live(table.values, block, now)
        lanes = table.doubt[source] & open_lanes
        if may_meet:
            conflict_lanes = open_lanes & live(table.values, source, now)
            if conflict_lanes != ZERO:
                conflict_lanes &= _lanes_in_conflict(index, vertex, state, from_vertex, from_state, number)
                _count_conflicts(index, number, conflict_lanes)
                lanes |= conflict_lanes
        if lanes != ZERO:
            _mark_doubt(index, row, number, block, lanes)
            pending |= ONE << np.uint64(number & 63)
    return pending


@njit(cache=True, nogil=True)
def note_conflicts(index, vertex, state, number, lanes):
    """Mark the cells of a vertex that have become the later ones of a conflict because other cells of it have come alive."""
    program, table = index.program, index.table
    for i in range(program.later_first[state], program.later_first[state + 1]):
        later_state = np.int64(program.later_state[i])
        row = row_at(index, vertex, later_state)
        block = find(table, row, number) if row >= 0 else np.int64(-1)
        if block >= 0:
            conflict_lanes = lanes & live(table.values, block, index.state.now) & ~table.doubt[block]
            if conflict_lanes != ZERO:
                conflict_lanes = _later_cells(index, vertex, later_state, number, conflict_lanes)
            if conflict_lanes != ZERO:
                _count_conflicts(index, number, conflict_lanes)
                _mark_doubt(index, row, number, block, conflict_lanes)
                _schedule_doubt(index, row, number)


@njit(cache=True, nogil=True)
def unblocking_lanes(index, number, block):
    """Return the lanes of a live block that an edge leads from, for the roots with pairs that have a walk and no simple
    path."""
    table = index.table
    if table.blocked_roots[number] == ZERO:
        return ZERO
    return table.blocked_roots[number] & ~table.suspended_roots[number] & live(table.values, block, index.state.now)


@njit(cache=True, nogil=True)
def _may_unblock(index, u, transition_class):
    program, table = index.program, index.table
    slot = np.int64(table.slot_of[u])
    if program.start_target[transition_class] >= 0 and has_bit(table.blocked_roots, slot):
        return True
    for step in range(program.step_first[transition_class], program.step_first[transition_class + 1]):
        row = row_at(index, u, np.int64(program.step_source[step]))
        if row >= 0:
            for i in range(block_count(table, row)):
                number, block = nth_block(table, row, i)
                if unblocking_lanes(index, number, block) != ZERO:
                    return True
    return False


@njit(cache=True, nogil=True)
def concerns_doubt(index, u, v, forward, inverse):
    """Return whether the current insert, of an edge u -> v, may change an answer that is in doubt."""
    table, fields = index.table, index.state
    if fields.to_search > 0:
        return True
    for row in range(fields.event_out, fields.out):
        slot = np.int64(table.slot_of[index.output.pairs[row] >> 32])
        if has_bit(table.conflicted_roots, slot):
            if has_bit(table.suspended_roots, slot) or in_doubt(index, slot, index.output.pairs[row] & LOW_HALF):
                return True
    if forward >= 0 and _may_unblock(index, u, forward):
        return True
    return inverse >= 0 and _may_unblock(index, v, inverse)


@njit(cache=True, nogil=True)
def live_conflicts(index, found):
    """Set the bits of the roots that meet a conflict now in `found` (uint64 a block number). O(size of the index)."""
    table = index.table
    for row in range(index.state.rows):
        if table.node[row] >= 0:
            vertex, state = node_of(table, row)
            for i in range(block_count(table, row)):
                number, block = nth_block(table, row, i)
                lanes = live(table.values, block, index.state.now) & ~found[number]
                if lanes != ZERO:
                    found[number] |= _later_cells(index, vertex, state, number, lanes)


@njit(cache=True, nogil=True)
def mark_conflicts(index, found):
    """Set the bits that `live_conflicts` sets, and put exactly the later cells of these conflicts in doubt.

    The caller pushes the pending blocks. O(size of the index).
    """
    table = index.table
    for row in range(index.state.rows):
        if table.node[row] >= 0:
            vertex, state = node_of(table, row)
            for i in range(block_count(table, row)):
                number, block = nth_block(table, row, i)
                table.doubt[block] = ZERO
                lanes = live(table.values, block, index.state.now)
                if lanes != ZERO:
                    lanes = _later_cells(index, vertex, state, number, lanes)
                if lanes != ZERO:
                    found[number] |= lanes
                    _mark_doubt(index, row, number, block, lanes)
                    _schedule_doubt(index, row, number)


@njit(cache=True, nogil=True)
def drop_doubt(index, roots):
    """Clear the doubt of all cells of the roots in `roots` (uint64 a block number). O(blocks of the index)."""
    table = index.table
    for row in range(index.state.rows):
        if table.node[row] >= 0:
            for i in range(block_count(table, row)):
                number, block = nth_block(table, row, i)
                table.doubt[block] &= ~roots[number]


@njit(cache=True, nogil=True)
def forget_new_doubt(index):
    """Forget which accepting cells came into doubt."""
    table, fields = index.table, index.state
    for i in range(fields.to_search):
        entry = index.queue.to_search[i]
        table.new_doubt[find(table, entry >> 32, entry & LOW_HALF)] = ZERO
    fields.to_search = 0
