"""The deletion of an edge: cells that lost their support are removed and filled again.

A cell is supported by a predecessor (w, s) through an edge if min(row(w, s), slide(edge)) is no less than the
cell, and the predecessor is larger, or equal with fewer hops. That order is well founded, so a cell with a
support has a path from its root; no parent pointer is needed. (The paper keeps one and searches the subtree
below a deleted tree edge; here a cell may have any number of supports and falls only when it has none.)

1. Mark as suspect every cell that the deleted edge may have supported.
2. Check the suspect cells: a cell without support is removed, and every cell that it may have supported becomes suspect.
3. Fill the cells that were removed from the remaining predecessors, and push the cells that grew, until nothing changes.
4. Report the pairs of the cells that stayed empty and are not alive in another accepting state.
"""

import numpy as np

from rpq.compiled.arrays.lanes import LANES, clear, live, raise_block_with_hops, reaching, supported
from rpq.compiled.kernel_cache import njit
from rpq.operators.paths.index.conflicts import barred_lanes, own_slot
from rpq.operators.paths.index.layout import DONE, LOW_HALF, NEED_OUTPUT, STATE_BITS
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
    rank_of,
    row_at,
    slide_of,
    unshared_lanes,
    write_pairs,
)


@njit(cache=True, nogil=True, forceinline=True)
def _suspect(index, waiting, row, number, block, lanes):
    """Push suspect cells on the stack. Return its new height."""
    if lanes != ZERO:
        if index.table.suspect[block] == ZERO:
            index.queue.suspects[waiting] = row << 32 | number
            waiting += 1
        index.table.suspect[block] |= lanes
    return waiting


@njit(cache=True, nogil=True)
def suspect_step(index, waiting, u, v, transition_class, slide):
    """Do step 1 for one direction of a deleted edge that lasted to `slide`. Return the new height of the stack."""
    program, table = index.program, index.table
    now = index.state.now
    start_target = np.int64(program.start_target[transition_class])
    if start_target >= 0 and u == v and program.sizes.closing >= 0:
        start_target = program.sizes.closing
    slot = np.int64(table.slot_of[u])
    if start_target >= 0 and slot >= 0:
        row = row_at(index, v, start_target)
        if row >= 0:
            block = find(table, row, slot >> 6)
            if block >= 0:
                waiting = _suspect(index, waiting, row, slot >> 6, block, lane_of(slot))
    for step in range(program.step_first[transition_class], program.step_first[transition_class + 1]):
        source = row_at(index, u, np.int64(program.step_source[step]))
        target = row_at(index, v, np.int64(program.step_target[step]))
        if source < 0 or target < 0:
            continue
        for i in range(block_count(table, source)):
            number, carried = nth_block(table, source, i)
            block = find(table, target, number)
            if block >= 0:
                lanes = reaching(table.values, block, carried, slide, now)
                waiting = _suspect(index, waiting, target, number, block, lanes)
    return waiting


@njit(cache=True, nogil=True)
def _unsupported_lanes(index, vertex, state, number, block, lanes):
    """Return the lanes of a block that no predecessor supports."""
    table, now = index.table, index.state.now
    edge = in_edges(index, vertex, state)
    while lanes != ZERO:
        edge = next_in_edge(index, vertex, state, edge, now)
        if edge.link < 0:
            break
        index.state.steps += 1
        if edge.source_state == 0:
            slot = np.int64(table.slot_of[edge.source])
            if slot >= 0 and slot >> 6 == number:
                if np.int64(table.values[block * LANES + (slot & (LANES - 1))]) <= edge.slide:
                    lanes &= ~lane_of(slot)
        else:
            carried = block_at(index, edge.source, edge.source_state, number)
            if carried >= 0:
                lanes &= ~supported(table.values, table.hops, block, carried, edge.slide)
    return lanes


@njit(cache=True, nogil=True)
def remove_unsupported(index, waiting):
    """Do step 2: check suspect cells until none is left."""
    program, graph, table, queue, fields = index.program, index.graph, index.table, index.queue, index.state
    classes = program.sizes.classes
    now = fields.now
    # All cells outside the stack have a support, or lie behind a cell in it. Because every cell that a removed one may have
    # supported is checked, it is safe that a cell with a saturated hop count supports nothing.
    while waiting > 0:
        waiting -= 1
        entry = queue.suspects[waiting]
        row = entry >> 32
        number = entry & LOW_HALF
        block = find(table, row, number)
        lanes = table.suspect[block] & live(table.values, block, now)
        table.suspect[block] = ZERO
        vertex, state = node_of(table, row)
        if lanes != ZERO:
            lanes = _unsupported_lanes(index, vertex, state, number, block, lanes)
        if lanes == ZERO:
            continue
        if table.removed_cells[block] == ZERO:
            queue.depleted_blocks[fields.depleted] = entry
            fields.depleted += 1
        table.removed_cells[block] |= lanes
        for leave in range(program.leave_first[state], program.leave_first[state + 1]):
            links = vertex * classes + program.leave_class[leave]
            first = np.int64(graph.out.start[links])
            for place in range(first, first + np.int64(graph.out.length[links])):
                link = graph.out.entries[place]
                slide = slide_of(graph, link)
                if slide <= now:
                    continue
                target = row_at(index, link >> 32, np.int64(program.leave_target[leave]))
                fed = find(table, target, number) if target >= 0 else np.int64(-1)
                if fed >= 0:
                    fields.steps += 1
                    looked_at = lanes & reaching(table.values, fed, block, slide, now)
                    waiting = _suspect(index, waiting, target, number, fed, looked_at)
        clear(table.values, block, lanes)


@njit(cache=True, nogil=True)
def _refill_block(index, row, number):
    """Raise a block from all its predecessors. Return the largest rank among the raised cells, or -1."""
    table, now = index.table, index.state.now
    block = find(table, row, number)
    vertex, state = node_of(table, row)
    barred = barred_lanes(index, state, number, own_slot(index, vertex))
    rank = np.int64(-1)
    edge = in_edges(index, vertex, state)
    while True:
        edge = next_in_edge(index, vertex, state, edge, now)
        if edge.link < 0:
            return rank
        index.state.steps += 1
        low = edge.slide
        grew = False
        if edge.source_state == 0:
            slot = np.int64(table.slot_of[edge.source])
            if slot >= 0 and slot >> 6 == number and lane_of(slot) & barred == ZERO:
                cell = block * LANES + (slot & (LANES - 1))
                if edge.slide > np.int64(table.values[cell]):
                    table.values[cell] = edge.slide
                    table.hops[cell] = 0
                    grew = True
        else:
            from_row = row_at(index, edge.source, edge.source_state)
            carried = find(table, from_row, number) if from_row >= 0 else np.int64(-1)
            if carried >= 0:
                lanes, _ = raise_block_with_hops(table.values, table.hops, block, carried, edge.slide, now)
                low = min(edge.slide, table.low[from_row])
                if lanes & barred != ZERO:
                    clear(table.values, block, lanes & barred)
                grew = lanes & ~barred != ZERO
        if grew:
            rank = max(rank, rank_of(index, edge.slide))
            table.low[row] = min(table.low[row], low)


@njit(cache=True, nogil=True)
def refill(index):
    """Do step 3 except for the pushes, which the caller makes."""
    program, table, queue, fields = index.program, index.table, index.queue, index.state
    # No cell is suspect any more: one that is still to be checked must not fill another. No cell ends higher than it was
    # before the delete, so nothing is allocated.
    for i in range(fields.depleted):
        row = queue.depleted_blocks[i] >> 32
        number = queue.depleted_blocks[i] & LOW_HALF
        rank = _refill_block(index, row, number)
        state = table.node[row] & STATE_BITS
        if rank >= 0 and program.leave_first[state + 1] > program.leave_first[state]:
            table.pending[row] |= ONE << np.uint64(number & 63)
            enqueue(queue, fields, row, rank)


@njit(cache=True, nogil=True)
def _report_lost(index, row, number):
    """Write the pairs of a block that are no longer answers."""
    program, table, fields = index.program, index.table, index.state
    vertex, state = node_of(table, row)
    if not program.accepting[state] or not table.is_target[vertex] or fields.quiet:
        return
    block = find(table, row, number)
    lanes = table.removed_cells[block] & ~live(table.values, block, fields.now)
    lanes = unshared_lanes(index, vertex, state, number, lanes, fields.now, fields.now)
    for i in range(program.sizes.accepting):
        lower = np.int64(program.accepting_states[i])
        if lower >= state or lanes == ZERO:
            break
        other_block = block_at(index, vertex, lower, number)
        if other_block >= 0:
            # It was removed there too, and is reported there.
            lanes &= ~table.removed_cells[other_block]
    write_pairs(index, vertex, number, lanes)


@njit(cache=True, nogil=True)
def report_lost(index):
    """Do step 4."""
    table, queue, fields = index.table, index.queue, index.state
    while fields.next_lost < fields.depleted:
        if fields.out + LANES > fields.out_capacity:
            return np.int64(NEED_OUTPUT)
        entry = queue.depleted_blocks[fields.next_lost]
        _report_lost(index, entry >> 32, entry & LOW_HALF)
        fields.next_lost += 1
    for i in range(fields.depleted):
        block = find(table, queue.depleted_blocks[i] >> 32, queue.depleted_blocks[i] & LOW_HALF)
        if index.settings.judged:
            # Cells that are alive again keep their doubt.
            table.doubt[block] &= ~table.removed_cells[block] | live(table.values, block, fields.now)
        table.removed_cells[block] = ZERO
    fields.depleted = 0
    return np.int64(DONE)
