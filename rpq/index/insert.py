"""Inserting an edge: row operations, pushed along out-edges to the fixpoint.

Pacaci et al. (2020), section 3.1, with bottleneck timestamps (the largest over paths of the smallest over
edges) and for 64 roots at once. Every function here can be called again after a `NEED_` code: raising a
cell twice changes nothing, and a pair is reported when its cell comes alive, which happens once.
"""

import numpy as np
from numba import njit

from rpq.blocks import LANES, live, raise_block, raise_block_with_hops
from rpq.index.layout import (
    DONE,
    NEED_OUTPUT,
    NOW,
    OUT,
    OUT_CAPACITY,
    PENDING,
    POINTER,
    QUEUED,
    STEPS,
    SUPPORTS,
)
from rpq.index.rows import (
    ONE,
    ZERO,
    dequeue,
    enqueue,
    find,
    make_block,
    make_row,
    rank_of,
    report_new,
    root_slot,
    row_at,
)


@njit(cache=True, nogil=True, forceinline=True)
def _raise_row(index, vertex, state, slide, low, rank, count):
    """Raise row (vertex, state) from the `count` blocks in the queue's scratch, cut to an edge's slide."""
    program, table, queue, fields = index.program, index.table, index.queue, index.state
    directory = table.directory
    now = fields[NOW]
    row = row_at(index, vertex, state)
    if row < 0:
        row = make_row(index, vertex, state)
        if row < 0:
            return -row
    leaves = program.leave_first[state + 1] > program.leave_first[state]
    accepts = program.accepting[state] != 0
    code = DONE
    any_grew = False
    for i in range(count):
        number = queue.number[i]
        source = queue.block[i]
        place = find(table, row, number)
        if place < 0:
            if live(table.values, source, now) == ZERO:
                continue
            place = make_block(index, row, number)
            if place < 0:
                code = -place
                break
        if accepts and fields[OUT] + LANES > fields[OUT_CAPACITY]:
            code = np.int64(NEED_OUTPUT)
            break
        block = directory.entries[place] & POINTER
        if fields[SUPPORTS]:
            grew, fresh = raise_block_with_hops(table.values, table.hops, block, source, slide, now)
        else:
            grew, fresh = raise_block(table.values, block, source, slide, now)
        if grew != ZERO:
            any_grew = True
            if leaves:
                directory.entries[place] |= PENDING
            if accepts and fresh != ZERO:
                report_new(index, vertex, state, number, fresh)
    fields[STEPS] += count
    if any_grew:
        table.low[row] = min(table.low[row], min(low, slide))
        if leaves:
            enqueue(queue, fields, row, rank)
    return code


@njit(cache=True, nogil=True, forceinline=True)
def _gather(index, row, only_pending):
    """Copy the blocks of a row, or the pending ones, whose mark is taken off, to the scratch; their count."""
    table, queue, directory = index.table, index.queue, index.table.directory
    start = directory.start[row]
    count = 0
    for place in range(start, start + np.int64(directory.length[row])):
        entry = directory.entries[place]
        if (entry & PENDING) if only_pending else (entry != 0):
            queue.number[count] = entry >> 32
            queue.block[count] = entry & POINTER
            count += 1
            if only_pending:
                directory.entries[place] = entry & ~PENDING
    return count


@njit(cache=True, nogil=True)
def push_row(index, row, rank):
    """Push the pending blocks of a row along the out-edges of its vertex."""
    program, graph, table, queue = index.program, index.graph, index.table, index.queue
    now = index.state[NOW]
    classes, states = program.classes[0], program.classes[1]
    node = table.node[row]
    vertex = node // states
    state = node - vertex * states
    low = table.low[row]
    count = _gather(index, row, True)
    for leave in range(program.leave_first[state], program.leave_first[state + 1]):
        links = vertex * classes + program.leave_class[leave]
        start = graph.out.start[links]
        for place in range(start, start + np.int64(graph.out.length[links])):
            link = graph.out.entries[place]
            slide = np.int64(graph.expiry[(link >> 1) & POINTER])
            if slide > now:
                reached = min(rank, rank_of(index, slide))
                code = _raise_row(
                    index, link >> 32, np.int64(program.leave_target[leave]), slide, low, reached, count
                )
                if code != DONE:
                    for i in range(count):
                        table.directory.entries[find(table, row, queue.number[i])] |= PENDING
                    enqueue(queue, index.state, row, rank)
                    return code
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def fixpoint(index):
    """Push rows until none is pending."""
    fields = index.state
    while True:
        row = dequeue(index.queue, fields)
        if row < 0:
            return np.int64(DONE)
        # The bucket that the row was taken from: `dequeue` leaves it in QUEUED.
        code = push_row(index, row, fields[QUEUED])
        if code != DONE:
            return code


@njit(cache=True, nogil=True)
def _raise_root(index, root, vertex, state, slide):
    """An edge out of the start state: one cell, the root's own, of row (vertex, state)."""
    program, table, fields = index.program, index.table, index.state
    if not table.is_root[root]:
        return np.int64(DONE)
    if fields[OUT] + LANES > fields[OUT_CAPACITY]:
        return np.int64(NEED_OUTPUT)
    slot = root_slot(index, root)
    row = row_at(index, vertex, state)
    if row < 0:
        row = make_row(index, vertex, state)
        if row < 0:
            return -row
    number = slot >> 6
    place = find(table, row, number)
    if place < 0:
        place = make_block(index, row, number)
        if place < 0:
            return -place
    cell = (table.directory.entries[place] & POINTER) * LANES + (slot & (LANES - 1))
    held = np.int64(table.values[cell])
    if slide <= held:
        return np.int64(DONE)
    table.values[cell] = slide
    if fields[SUPPORTS]:
        table.hops[cell] = 0
    table.low[row] = min(table.low[row], slide)
    fields[STEPS] += 1
    if held <= fields[NOW] and program.accepting[state]:
        report_new(index, vertex, state, number, ONE << np.uint64(slot & (LANES - 1)))
    if program.leave_first[state + 1] > program.leave_first[state]:
        table.directory.entries[place] |= PENDING
        enqueue(index.queue, fields, row, rank_of(index, slide))
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def raise_step(index, u, v, transition_class, slide):
    """Follow an edge u -> v of a transition class from every tree that holds u in a fitting state."""
    program, table = index.program, index.table
    if program.start_target[transition_class] >= 0:
        code = _raise_root(index, u, v, np.int64(program.start_target[transition_class]), slide)
        if code != DONE:
            return code
    for step in range(program.step_first[transition_class], program.step_first[transition_class + 1]):
        row = row_at(index, u, np.int64(program.step_source[step]))
        if row >= 0:
            count = _gather(index, row, False)
            code = _raise_row(
                index,
                v,
                np.int64(program.step_target[step]),
                slide,
                table.low[row],
                rank_of(index, slide),
                count,
            )
            if code != DONE:
                return code
    return np.int64(DONE)
