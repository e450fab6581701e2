"""The insertion of an edge: row operations, pushed along out-edges until nothing changes.

Pacaci et al. (2020), section 3.1, with bottleneck timestamps (the largest over paths of the smallest over
edges) and for 64 roots at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rpq.compiled.arrays.lanes import LANES, clear, live, prefetch, raise_block, raise_block_with_hops
from rpq.compiled.cycle_counter import WORK_BETWEEN_CHECKS, has_passed
from rpq.compiled.intrinsics import trailing_zeros
from rpq.compiled.kernel_cache import njit
from rpq.operators.paths.index.conflicts import barred_lanes, bring_doubt, forget_new_doubt, note_conflicts, own_slot
from rpq.operators.paths.index.layout import BUCKETS, DONE, NEED_OUTPUT, NEED_TIME
from rpq.operators.paths.index.rows import (
    ONE,
    ZERO,
    block_count,
    dequeue,
    enqueue,
    find,
    free_slot,
    lane_of,
    make_block,
    make_cell,
    make_row,
    node_of,
    nth_block,
    rank_of,
    report_new,
    root_slot,
    row_at,
    slide_of,
)

EVERY = np.uint64(2**64 - 1)


class RowPush(NamedTuple):
    """The part of a row that is pushed to others: `count` of its blocks, copied to the queue's scratch memory."""

    vertex: int
    state: int
    low: int  # no live cell of the row is below
    count: int  # type: ignore[assignment]  # not the method of tuples
    rank: int  # the bucket of the row, a bound of the pushed values


class ProductStep(NamedTuple):
    """A step of the product graph into (vertex, state), over an edge that lasts to `slide`."""

    vertex: int
    state: int
    slide: int


@njit(cache=True, nogil=True, forceinline=True)
def has_out(index, vertex, state):
    """Return whether an edge leads on from a product node."""
    program, out = index.program, index.graph.out
    for leave in range(program.leave_first[state], program.leave_first[state + 1]):
        if out.length[vertex * program.sizes.classes + program.leave_class[leave]] > 0:
            return True
    return False


@njit(cache=True, nogil=True, forceinline=True)
def _schedule(index, push, step, row, pending):
    """Enqueue the row that a step leads to, after some of its blocks grew."""
    table = index.table
    table.low[row] = min(table.low[row], min(push.low, step.slide))
    if has_out(index, step.vertex, step.state):
        table.pending[row] |= pending
        enqueue(index.queue, index.state, row, min(push.rank, rank_of(index, step.slide)))


@njit(cache=True, nogil=True, forceinline=True)
def _raise_dense(index, push, step, row):
    """Raise a row that has all the blocks, like `_raise_row`, if paths may be walks.

    Nearly all steps are of this kind, so this function does nothing else.
    """
    table, queue = index.table, index.queue
    now = index.state.now
    supports = index.state.supports != 0
    accepts = index.program.accepting[step.state] != 0
    base = table.base[row]
    pending = ZERO
    for i in range(push.count):
        number = queue.number[i]
        if supports:
            grew, fresh = raise_block_with_hops(table.values, table.hops, base + number, queue.block[i], step.slide, now)
        else:
            grew, fresh = raise_block(table.values, base + number, queue.block[i], step.slide, now)
        if grew != ZERO:
            pending |= ONE << np.uint64(number & 63)
            if accepts and fresh != ZERO:
                report_new(index, step.vertex, step.state, number, fresh)
    index.state.steps += push.count
    if pending != ZERO:
        _schedule(index, push, step, row, pending)


@njit(cache=True, nogil=True, forceinline=True)
def _has_own_cell(index, push, own):
    """Return whether the pushed row has a live cell in the slot of a root. In the closing state, it can have no other live
    cell."""
    if own < 0:
        return False
    for i in range(push.count):
        if index.queue.number[i] == own >> 6:
            return index.table.values[index.queue.block[i] * LANES + (own & 63)] > index.state.now
    return False


@njit(cache=True, nogil=True, forceinline=True)
def _raise_row(index, push, step):
    """Raise the row that a step leads to by the pushed row, with values limited to the slide of the step."""
    program, table, queue, fields = index.program, index.table, index.queue, index.state
    now = fields.now
    own = own_slot(index, step.vertex)
    closes = step.state == program.sizes.closing
    if closes and not _has_own_cell(index, push, own):
        return np.int64(DONE)
    row = row_at(index, step.vertex, step.state)
    if row < 0:
        row = make_row(index, step.vertex, step.state)
        if row < 0:
            return -row
    accepts = program.accepting[step.state] != 0
    judged = index.settings.judged != 0
    in_conflict = judged and program.later_first[step.state + 1] > program.later_first[step.state]
    pending = ZERO
    code = np.int64(DONE)
    base, span = table.base[row], np.int64(table.span[row])
    for i in range(push.count):
        number = queue.number[i]
        if closes and number != own >> 6:
            continue
        source = queue.block[i]
        block = base + number if number < span else find(table, row, number)
        if block < 0:
            if live(table.values, source, now) == ZERO:
                continue
            block = make_block(index, row, number)
            if block < 0:
                code = -block
                break
            base, span = table.base[row], np.int64(table.span[row])
        if accepts and fields.out + LANES > fields.out_capacity:
            code = np.int64(NEED_OUTPUT)
            break
        if fields.supports:
            grew, fresh = raise_block_with_hops(table.values, table.hops, block, source, step.slide, now)
        else:
            grew, fresh = raise_block(table.values, block, source, step.slide, now)
        if number == own >> 6:
            barred = grew & barred_lanes(index, step.state, number, own)
            if barred != ZERO:
                clear(table.values, block, barred)
                grew &= ~barred
                fresh &= ~barred
        if grew != ZERO:
            if in_conflict and fresh != ZERO:
                note_conflicts(index, step.vertex, step.state, number, fresh)
            pending |= ONE << np.uint64(number & 63)
            if accepts and fresh != ZERO:
                report_new(index, step.vertex, step.state, number, fresh)
    fields.steps += push.count
    if judged and code == DONE:
        pending |= bring_doubt(index, row, push.count, push.vertex, push.state)
    if pending != ZERO:
        _schedule(index, push, step, row, pending)
    return code


@njit(cache=True, nogil=True, forceinline=True)
def gather(table, queue, row, pending):
    """Copy the blocks of a row whose numbers have their bits set to the scratch memory. Return the number of blocks."""
    count = 0
    span = np.int64(table.span[row])
    if span > 0:
        base = table.base[row]
        while pending != ZERO:
            number = trailing_zeros(pending)
            pending &= pending - ONE
            while number < span:
                queue.number[count] = number
                queue.block[count] = base + number
                count += 1
                number += 64
    else:
        for i in range(np.int64(table.directory.length[row])):
            number, block = nth_block(table, row, i)
            if (pending >> np.uint64(number & 63)) & ONE:
                queue.number[count] = number
                queue.block[count] = block
                count += 1
    return count


@njit(cache=True, nogil=True, forceinline=True)
def push_row(index, row, rank):
    """Push the pending blocks of a row along the out-edges of its vertex."""
    program, graph, table, queue, fields = index.program, index.graph, index.table, index.queue, index.state
    now = fields.now
    classes = program.sizes.classes
    vertex, state = node_of(table, row)
    low = table.low[row]
    pending = table.pending[row]
    table.pending[row] = ZERO
    count = gather(table, queue, row, pending)
    first_number = queue.number[0]
    highest = first_number
    for i in range(1, count):
        highest = max(highest, queue.number[i])
    walks = index.settings.simple == 0
    closing = np.int64(program.sizes.closing)
    push = RowPush(vertex, state, low, count, rank)
    for leave in range(program.leave_first[state], program.leave_first[state + 1]):
        links = vertex * classes + program.leave_class[leave]
        target_state = np.int64(program.leave_target[leave])
        if target_state == closing:
            continue  # such steps are made with those into the accepting state, which have the same edges
        closes = closing >= 0 and program.accepting[target_state] != 0
        start = np.int64(graph.out.start[links])
        end = start + np.int64(graph.out.length[links])
        # Prefetch the target blocks some edges ahead: they are scattered, and each load would wait for memory.
        for place in range(start, end):
            target = row_at(index, graph.out.entries[place] >> 32, target_state)
            if target >= 0:
                ahead = table.base[target] + first_number
                prefetch(table.values, ahead)
                prefetch(table.values, ahead + 1)
        for place in range(start, end):
            link = graph.out.entries[place]
            slide = slide_of(graph, link)
            if slide <= now:
                continue
            step = ProductStep(link >> 32, target_state, slide)
            target = row_at(index, step.vertex, target_state)
            has_all = target >= 0 and highest < table.span[target]
            if walks and has_all and fields.out + LANES * count <= fields.out_capacity:
                _raise_dense(index, push, step, target)
                continue
            code = _raise_row(index, push, step)
            if closes and code == DONE:
                # Hardly any of these returns to its root.
                own = own_slot(index, step.vertex)
                if own >= 0 and (pending >> np.uint64((own >> 6) & 63)) & ONE != ZERO:
                    code = _raise_row(index, push, ProductStep(step.vertex, closing, slide))
            if code != DONE:
                table.pending[row] |= pending
                enqueue(queue, fields, row, rank)
                return code
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def fixpoint(index):
    """Push rows until none is pending."""
    fields = index.state
    next_check = fields.steps + WORK_BETWEEN_CHECKS
    # Cells lack only what pending rows still push to them. A row never pushes larger slides than it received, so the buckets
    # are emptied from above in one pass. A call after a code continues: raising a cell twice changes nothing, and a pair is
    # reported when its cell comes alive, which happens once.
    while True:
        if fields.steps > next_check:
            next_check = fields.steps + WORK_BETWEEN_CHECKS
            if has_passed(index.deadline):
                return np.int64(NEED_TIME)
        row = dequeue(index.queue, fields)
        if row < 0:
            return np.int64(DONE)
        # The bucket of the row, which `dequeue` leaves in TOP_BUCKET.
        code = push_row(index, row, fields.top_bucket)
        if code != DONE:
            return code


@njit(cache=True, nogil=True)
def raise_root(index, root, vertex, state, slide):
    """Raise the own cell of a root in row (vertex, state), for an edge out of the start state. Return a code of progress."""
    program, table, fields = index.program, index.table, index.state
    if not table.is_root[root]:
        return np.int64(DONE)
    if root == vertex and index.settings.simple:
        if program.sizes.closing < 0 or not program.accepting[state]:
            return np.int64(DONE)
        state = program.sizes.closing
    if fields.out + LANES > fields.out_capacity:
        return np.int64(NEED_OUTPUT)
    slot = root_slot(index, root)
    cell = make_cell(index, slot, vertex, state)
    if cell < 0:
        return -cell
    row, number = row_at(index, vertex, state), slot >> 6
    before = np.int64(table.values[cell])
    if slide <= before:
        return np.int64(DONE)
    table.values[cell] = slide
    if fields.supports:
        table.hops[cell] = 0
    table.low[row] = min(table.low[row], slide)
    fields.steps += 1
    if before <= fields.now:
        lane = lane_of(slot)
        if program.accepting[state]:
            report_new(index, vertex, state, number, lane)
        if index.settings.judged:
            note_conflicts(index, vertex, state, number, lane)
    if has_out(index, vertex, state):
        table.pending[row] |= ONE << np.uint64(number & 63)
        enqueue(index.queue, fields, row, rank_of(index, slide))
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def raise_step(index, u, v, transition_class, slide):
    """Follow an edge u -> v of a transition class in every tree that contains u in a state with such a transition."""
    program, table = index.program, index.table
    if program.start_target[transition_class] >= 0:
        code = raise_root(index, u, v, np.int64(program.start_target[transition_class]), slide)
        if code != DONE:
            return code
    for step in range(program.step_first[transition_class], program.step_first[transition_class + 1]):
        state = np.int64(program.step_source[step])
        row = row_at(index, u, state)
        if row >= 0:
            push = RowPush(u, state, table.low[row], gather(table, index.queue, row, EVERY), np.int64(BUCKETS - 1))
            code = _raise_row(index, push, ProductStep(v, np.int64(program.step_target[step]), slide))
            if code != DONE:
                return code
    return np.int64(DONE)


# --- whole trees, if not every vertex is a root -------------------------------------------------------------
#
# The adjacency lists contain all edges in the window, whichever vertices are roots. So the tree of a vertex that becomes a
# root later is built from them, and has the cells that it would have had.


@njit(cache=True, nogil=True)
def grow_trees(index, own, roots):
    """Build the trees of vertices that become roots from their first edges. Returns codes as `apply_chunk` does."""
    program, out = index.program, index.graph.out
    classes = program.sizes.classes
    for i in range(len(roots)):
        root = np.int64(roots[i])
        for transition_class in range(classes):
            state = np.int64(program.start_target[transition_class])
            if state < 0:
                continue
            links = root * classes + transition_class
            first = np.int64(out.start[links])
            for place in range(first, first + np.int64(out.length[links])):
                link = out.entries[place]
                slide = slide_of(index.graph, link)
                if slide > index.state.now:
                    code = raise_root(index, root, link >> 32, state, slide)
                    if code != DONE:
                        return code
    return fixpoint(index)


@njit(cache=True, nogil=True)
def drop_trees(index, mask):
    """Clear the cells of the roots in `mask` (uint64 a block number) and their pending work, which frees their slots."""
    table, fields = index.table, index.state
    while dequeue(index.queue, fields) >= 0:
        pass
    if index.settings.judged:
        forget_new_doubt(index)
    for row in range(fields.rows):
        if table.node[row] < 0:
            continue
        table.pending[row] = ZERO
        for i in range(block_count(table, row)):
            number, block = nth_block(table, row, i)
            lanes = mask[number]
            if lanes == ZERO:
                continue
            for lane in range(LANES):
                if (lanes >> np.uint64(lane)) & ONE != ZERO:
                    table.values[block * LANES + lane] = 0
            if index.settings.judged:
                table.doubt[block] &= ~lanes
    for slot in range(fields.slots - 1, -1, -1):
        vertex = np.int64(table.slot_vertex[slot])
        if vertex >= 0 and (mask[slot >> 6] >> np.uint64(slot & 63)) & ONE != ZERO:
            free_slot(index, slot)
