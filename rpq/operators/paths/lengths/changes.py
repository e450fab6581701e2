"""Kernels that raise, remove and fill cells that are lengths (`progress.py` explains them)."""

import numpy as np

from rpq.compiled.arrays.lanes import LANES, cell_behind, clear, highest, live, nearer, raise_nearer
from rpq.compiled.cycle_counter import WORK_BETWEEN_CHECKS, has_passed
from rpq.compiled.kernel_cache import njit
from rpq.operators.paths.index.insert import EVERY, gather, has_out
from rpq.operators.paths.index.layout import BUCKETS, DONE, LOW_HALF, NEED_TIME, POINTER, STATE_BITS
from rpq.operators.paths.index.rows import (
    ONE,
    ZERO,
    block_at,
    block_count,
    dequeue,
    enqueue,
    find,
    in_edges,
    lane_of,
    make_block,
    make_cell,
    make_row,
    next_in_edge,
    node_of,
    nth_block,
    root_slot,
    row_at,
    slide_of,
)
from rpq.operators.paths.lengths.progress import NEED_WIDER


@njit(cache=True, nogil=True, forceinline=True)
def _rank(progress, cell):
    """Return the bucket of a cell. The nearest cells have the highest bucket."""
    fields = progress.fields
    place = ((fields.zero - cell) >> fields.rank_shift) - fields.rank_first
    return max(np.int64(0), BUCKETS - 1 - max(np.int64(0), place))


@njit(cache=True, nogil=True, forceinline=True)
def _edge_of(link):
    return (link >> 1) & POINTER


@njit(cache=True, nogil=True, forceinline=True)
def behind(progress, edge, cell):
    """Return the cell behind an edge from the cell before it."""
    return cell_behind(progress.weight, edge, cell, progress.fields.zero, progress.fields.lowest)


@njit(cache=True, nogil=True, forceinline=True)
def _raise(index, progress, edge, block, source):
    """Raise a block over an edge from the block `source`. Return masks of lanes as `raise_nearer`."""
    fields = progress.fields
    return raise_nearer(index.table.values, progress.weight, block, source, edge, fields.zero, fields.lowest)


@njit(cache=True, nogil=True, forceinline=True)
def _nearer(index, progress, edge, block, source):
    """Return the lanes of a block that an edge from the block `source` makes what they are, as `nearer`."""
    fields = progress.fields
    return nearer(index.table.values, progress.weight, block, source, edge, fields.zero, fields.lowest)


@njit(cache=True, nogil=True, forceinline=True)
def _note_change(index, progress, row, number):
    """Note that a block of a row differs from what was reported, if the row is of an accepting state."""
    if not index.program.accepting[index.table.node[row] & STATE_BITS]:
        return
    if progress.changed_blocks[row] == ZERO:
        progress.changed_rows[progress.fields.changed_rows] = row
        progress.fields.changed_rows += 1
    progress.changed_blocks[row] |= ONE << np.uint64(number & 63)


@njit(cache=True, nogil=True, forceinline=True)
def _schedule(index, progress, row, number, block, lanes):
    """Enqueue a row to push some lanes of a block that grew, if an edge leads on from it."""
    vertex, state = node_of(index.table, row)
    if has_out(index, vertex, state):
        index.table.pending[row] |= ONE << np.uint64(number & 63)
        enqueue(index.queue, index.state, row, _rank(progress, highest(index.table.values, block, lanes)))


@njit(cache=True, nogil=True)
def _make_row(index, vertex, state):
    """Create a row. Return it, or minus a `NEED_` code."""
    row = make_row(index, vertex, state)
    if row >= 0:
        index.table.low[row] = 0
    return row


@njit(cache=True, nogil=True)
def raise_root(index, progress, edge, root, vertex, state):
    """Raise the cell of a root to what the edge from it to a product node makes of it."""
    table = index.table
    if not table.is_root[root]:
        return np.int64(DONE)
    slot = root_slot(index, root)
    cell = make_cell(index, slot, vertex, state)
    if cell < 0:
        return -cell
    row, number = row_at(index, vertex, state), slot >> 6
    table.low[row] = 0
    first = behind(progress, edge, progress.fields.zero)
    if np.int64(table.values[cell]) >= first:
        return np.int64(DONE)
    table.values[cell] = first
    index.state.steps += 1
    _note_change(index, progress, row, number)
    _schedule(index, progress, row, number, cell // LANES, lane_of(slot))
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def _raise_row(index, progress, edge, count, vertex, state):
    """Raise row (vertex, state) by the `count` blocks in the queue's scratch, over an edge."""
    table, queue = index.table, index.queue
    ceiling = index.settings.ceiling
    row = row_at(index, vertex, state)
    if row < 0:
        row = _make_row(index, vertex, state)
        if row < 0:
            return -row
    for i in range(count):
        number, source = queue.number[i], queue.block[i]
        block = find(table, row, number)
        if block < 0:
            if live(table.values, source, ceiling) == ZERO:
                continue
            block = make_block(index, row, number)
            if block < 0:
                return -block
        grew, lacking = _raise(index, progress, edge, block, source)
        if grew != ZERO:
            _note_change(index, progress, row, number)
            _schedule(index, progress, row, number, block, grew)
        if lacking != ZERO:
            return np.int64(NEED_WIDER)
    index.state.steps += count
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def _push_row(index, progress, row, rank):
    """Push the pending blocks of a row along the out-edges of its vertex."""
    program, graph, table, queue, fields = index.program, index.graph, index.table, index.queue, index.state
    vertex, state = node_of(table, row)
    pending = table.pending[row]
    table.pending[row] = ZERO
    count = gather(table, queue, row, pending)
    for leave in range(program.leave_first[state], program.leave_first[state + 1]):
        links = vertex * program.sizes.classes + program.leave_class[leave]
        start = np.int64(graph.out.start[links])
        for place in range(start, start + np.int64(graph.out.length[links])):
            link = graph.out.entries[place]
            if slide_of(graph, link) <= fields.now:
                continue
            target = np.int64(program.leave_target[leave])
            code = _raise_row(index, progress, _edge_of(link), count, link >> 32, target)
            if code != DONE:
                table.pending[row] |= pending
                enqueue(queue, fields, row, rank)
                return code
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def push(index, progress):
    """Push rows, the nearest first, until none is pending. Return a code, after which the call can be repeated."""
    next_check = index.state.steps + WORK_BETWEEN_CHECKS
    # Cells lack only what pending rows still push to them.
    while True:
        if index.state.steps > next_check:
            next_check = index.state.steps + WORK_BETWEEN_CHECKS
            if has_passed(index.deadline):
                return np.int64(NEED_TIME)
        row = dequeue(index.queue, index.state)
        if row < 0:
            return np.int64(DONE)
        # The bucket that the row was taken from: `dequeue` leaves it in TOP_BUCKET.
        code = _push_row(index, progress, row, index.state.top_bucket)
        if code != DONE:
            return code


@njit(cache=True, nogil=True)
def raise_step(index, progress, edge, u, v, transition_class):
    """Follow an edge u -> v of a transition class from every root that reaches u in a state with such a transition."""
    program = index.program
    state = np.int64(program.start_target[transition_class])
    if state >= 0:
        code = raise_root(index, progress, edge, u, v, state)
        if code != DONE:
            return code
    for step in range(program.step_first[transition_class], program.step_first[transition_class + 1]):
        row = row_at(index, u, np.int64(program.step_source[step]))
        if row >= 0:
            count = gather(index.table, index.queue, row, EVERY)
            code = _raise_row(index, progress, edge, count, v, np.int64(program.step_target[step]))
            if code != DONE:
                return code
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def raise_edge(index, progress, edge, u, v, forward, inverse):
    """Follow an edge in both its directions. Afterwards, the cells that grew are pending."""
    code = np.int64(DONE)
    if forward >= 0:
        code = raise_step(index, progress, edge, u, v, forward)
    if code == DONE and inverse >= 0:
        code = raise_step(index, progress, edge, v, u, inverse)
    return code


# --- lost edges -----------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True, forceinline=True)
def _suspect(index, progress, row, number, block, lanes):
    """Enqueue cells to be checked, which a lost edge or a lost cell may have supported."""
    if lanes != ZERO:
        table = index.table
        table.suspect[block] |= lanes
        table.pending[row] |= ONE << np.uint64(number & 63)
        enqueue(index.queue, index.state, row, _rank(progress, highest(table.values, block, lanes)))


@njit(cache=True, nogil=True)
def suspect_step(index, progress, edge, u, v, transition_class):
    """Enqueue the cells that a lost edge u -> v of a transition class may have supported."""
    program, table = index.program, index.table
    start_target = np.int64(program.start_target[transition_class])
    slot = np.int64(table.slot_of[u])
    if start_target >= 0 and slot >= 0:
        row = row_at(index, v, start_target)
        block = find(table, row, slot >> 6) if row >= 0 else np.int64(-1)
        first = behind(progress, edge, progress.fields.zero)
        if block >= 0 and np.int64(table.values[block * LANES + (slot & (LANES - 1))]) == first:
            _suspect(index, progress, row, slot >> 6, block, lane_of(slot))
    for step in range(program.step_first[transition_class], program.step_first[transition_class + 1]):
        source = row_at(index, u, np.int64(program.step_source[step]))
        target = row_at(index, v, np.int64(program.step_target[step]))
        if source < 0 or target < 0:
            continue
        for i in range(block_count(table, source)):
            number, source_block = nth_block(table, source, i)
            block = find(table, target, number)
            if block >= 0:
                _suspect(index, progress, target, number, block, _nearer(index, progress, edge, block, source_block)[0])


@njit(cache=True, nogil=True)
def next_loss(index):
    """Return the relative slide at which the next edge leaves the window, or `ceiling` + 1 if none ever does. O(edges)."""
    graph, now, first = index.graph, index.state.now, index.settings.ceiling + 1
    for edge in range(index.state.edges):
        slide = np.int64(graph.expiry[edge])
        if now < slide < first:
            first = slide
    return first


@njit(cache=True, nogil=True)
def suspect_expired_edges(index, progress, slide):
    """Enqueue the cells that edges which leave at a relative slide may have supported. O(edges)."""
    graph, lists, classes = index.graph, index.graph.out, index.program.sizes.classes
    for i in range(index.state.vertices * classes):
        u = i // classes
        start = np.int64(lists.start[i])
        for place in range(start, start + np.int64(lists.length[i])):
            link = lists.entries[place]
            if slide_of(graph, link) == slide:
                suspect_step(index, progress, _edge_of(link), u, link >> 32, i - u * classes)


@njit(cache=True, nogil=True)
def _unsupported_lanes(index, progress, vertex, state, number, block, lanes):
    """Return the lanes of a block that no predecessor supports."""
    table = index.table
    edge = in_edges(index, vertex, state)
    while lanes != ZERO:
        edge = next_in_edge(index, vertex, state, edge, index.state.now)
        if edge.link < 0:
            break
        index.state.steps += 1
        if edge.source_state == 0:
            slot = np.int64(table.slot_of[edge.source])
            if slot >= 0 and slot >> 6 == number and table.is_root[edge.source]:
                first = behind(progress, _edge_of(edge.link), progress.fields.zero)
                if np.int64(table.values[block * LANES + (slot & (LANES - 1))]) == first:
                    lanes &= ~lane_of(slot)
        else:
            source_block = block_at(index, edge.source, edge.source_state, number)
            if source_block >= 0:
                lanes &= ~_nearer(index, progress, _edge_of(edge.link), block, source_block)[1]
    return lanes


@njit(cache=True, nogil=True)
def _remove_unsupported_of(index, progress, row, number, block):
    """Check the suspect cells of a block. Remove those without a support, and suspect the cells that they may support."""
    program, graph, table, fields = index.program, index.graph, index.table, index.state
    lanes = table.suspect[block] & live(table.values, block, index.settings.ceiling)
    table.suspect[block] = ZERO
    vertex, state = node_of(table, row)
    if lanes != ZERO:
        lanes = _unsupported_lanes(index, progress, vertex, state, number, block, lanes)
    if lanes == ZERO:
        return
    if table.removed_cells[block] == ZERO:
        index.queue.depleted_blocks[fields.depleted] = row << 32 | number
        fields.depleted += 1
    table.removed_cells[block] |= lanes
    for leave in range(program.leave_first[state], program.leave_first[state + 1]):
        links = vertex * program.sizes.classes + program.leave_class[leave]
        first = np.int64(graph.out.start[links])
        for place in range(first, first + np.int64(graph.out.length[links])):
            link = graph.out.entries[place]
            if slide_of(graph, link) <= fields.now:
                continue
            target = row_at(index, link >> 32, np.int64(program.leave_target[leave]))
            fed = find(table, target, number) if target >= 0 else np.int64(-1)
            if fed >= 0:
                fields.steps += 1
                follow, _ = _nearer(index, progress, _edge_of(link), fed, block)
                _suspect(index, progress, target, number, fed, lanes & follow)
    clear(table.values, block, lanes)
    _note_change(index, progress, row, number)


@njit(cache=True, nogil=True)
def remove_unsupported(index, progress):
    """Check suspect cells until none is left."""
    table, queue = index.table, index.queue
    # Cells that are not suspect have a support, or lie behind suspect ones. A support is nearer than the cell that it
    # supports, so there are no cycles, and supports need not be counted. Where an edge costs nothing, the cells at its ends
    # may be equal: then none supports the other, both are removed, and filled again.
    while True:
        row = dequeue(queue, index.state)
        if row < 0:
            return
        pending = table.pending[row]
        table.pending[row] = ZERO
        # An edge from a vertex to itself may make blocks of this row pending again.
        for i in range(block_count(table, row)):
            number, block = nth_block(table, row, i)
            if (pending >> np.uint64(number & 63)) & ONE != ZERO and table.suspect[block] != ZERO:
                _remove_unsupported_of(index, progress, row, number, block)


@njit(cache=True, nogil=True)
def fill(index, progress):
    """Fill the blocks that lost cells from their predecessors. Afterwards, the cells that grew are pending. Return a code,
    after which the call can be repeated."""
    table, fields = index.table, index.state
    # No cell becomes nearer than it was before the loss, so nothing is allocated.
    for i in range(fields.depleted):
        row, number = index.queue.depleted_blocks[i] >> 32, index.queue.depleted_blocks[i] & LOW_HALF
        block = find(table, row, number)
        vertex, state = node_of(table, row)
        filled = ZERO
        edge = in_edges(index, vertex, state)
        while True:
            edge = next_in_edge(index, vertex, state, edge, fields.now)
            if edge.link < 0:
                break
            fields.steps += 1
            if edge.source_state == 0:
                slot = np.int64(table.slot_of[edge.source])
                if slot >= 0 and slot >> 6 == number and table.is_root[edge.source]:
                    cell = block * LANES + (slot & (LANES - 1))
                    first = behind(progress, _edge_of(edge.link), progress.fields.zero)
                    if np.int64(table.values[cell]) < first:
                        table.values[cell] = first
                        filled |= lane_of(slot)
            else:
                source_block = block_at(index, edge.source, edge.source_state, number)
                if source_block >= 0:
                    grew, lacking = _raise(index, progress, _edge_of(edge.link), block, source_block)
                    filled |= grew
                    if lacking != ZERO:
                        if filled != ZERO:
                            _schedule(index, progress, row, number, block, filled)
                        return np.int64(NEED_WIDER)
        if filled != ZERO:
            _schedule(index, progress, row, number, block, filled)
    for i in range(fields.depleted):
        block = find(table, index.queue.depleted_blocks[i] >> 32, index.queue.depleted_blocks[i] & LOW_HALF)
        table.removed_cells[block] = ZERO
    fields.depleted = 0
    return np.int64(DONE)
