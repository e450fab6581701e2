"""Kernels that raise cells of the table along an edge, from a row or a root, and copy blocks for edges of one moment."""

import numpy as np

from rpq.compiled.arrays.lanes import LANES, live, raise_block, reaching
from rpq.compiled.kernel_cache import njit
from rpq.operators.paths.index.layout import DONE, NEED_BLOCKS, NEED_OUTPUT
from rpq.operators.paths.index.rows import (
    ZERO,
    block_count,
    copy_block,
    find,
    lane_of,
    make_block,
    make_cell,
    make_row,
    nth_block,
    release_region,
    report_new,
    root_slot,
    row_at,
    take_region,
)
from rpq.operators.paths.ordered.timeline import NEED_COPIES, ended_by, place_of


@njit(cache=True, nogil=True)
def previous_block(timeline, row, number):
    """Return the copy of a block from before the present moment, or -1 if the moment has not changed the block."""
    serial, places = timeline.fields.serial, 2 * timeline.fields.copy_capacity
    key = row << 32 | number
    place = place_of(key, places)
    while timeline.copy_serial[place] == serial:
        if timeline.copy_key[place] == key:
            return timeline.copy_block[place]
        place = (place + 1) & (places - 1)
    return np.int64(-1)


@njit(cache=True, nogil=True)
def _copy_once(index, timeline, row, number, block):
    """Copy a block that the present moment is about to change, unless there is a copy. Return a code."""
    fields = timeline.fields
    serial, places = fields.serial, 2 * fields.copy_capacity
    key = row << 32 | number
    place = place_of(key, places)
    while timeline.copy_serial[place] == serial:
        if timeline.copy_key[place] == key:
            return np.int64(DONE)
        place = (place + 1) & (places - 1)
    if fields.copies >= fields.copy_capacity:
        return np.int64(NEED_COPIES)
    copy = take_region(index, np.int64(0))
    if copy < 0:
        return np.int64(NEED_BLOCKS)
    copy_block(index, block, copy)
    timeline.copy_key[place] = key
    timeline.copy_serial[place] = serial
    timeline.copy_block[place] = copy
    timeline.copies[fields.copies] = copy
    fields.copies += 1
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def close_moment(index, timeline):
    """Release the copies. Further edges of the present moment now count as late."""
    fields = timeline.fields
    for i in range(fields.copies):
        release_region(index.table, timeline.copies[i], np.int64(0))
    fields.copies = 0
    fields.serial += 1
    fields.is_open = 0


@njit(cache=True, nogil=True)
def raise_cell(index, timeline, root, vertex, state, slide, copies):
    """Raise the cell of a root in row (vertex, state) to a relative slide. With `copies`, copy its block first."""
    program, table, fields = index.program, index.table, index.state
    if fields.out + LANES > fields.out_capacity:
        return np.int64(NEED_OUTPUT)
    slot = root_slot(index, root)
    cell = make_cell(index, slot, vertex, state)
    if cell < 0:
        return -cell
    row, number = row_at(index, vertex, state), slot >> 6
    old_value = np.int64(table.values[cell])
    if slide <= old_value or slide <= fields.now:
        return np.int64(DONE)
    if copies:
        code = _copy_once(index, timeline, row, number, cell // LANES)
        if code != DONE:
            return code
    table.values[cell] = slide
    table.low[row] = min(table.low[row], slide)
    timeline.fields.has_grown = 1
    fields.steps += 1
    if old_value <= fields.now and program.accepting[state]:
        report_new(index, vertex, state, number, lane_of(slot))
    return np.int64(DONE)


@njit(cache=True, nogil=True, forceinline=True)
def _raise_block(table, target, source, slide, ended, now):
    """Raise a block by the cells of another one above `ended`. Return masks of the lanes that grew, and that became live."""
    was_live = live(table.values, target, now) if ended > now else ZERO
    grew, fresh = raise_block(table.values, target, source, slide, ended)
    return grew, fresh & ~was_live


@njit(cache=True, nogil=True)
def raise_row(index, timeline, source, vertex, state, slide, copies):
    """Raise row (vertex, state) by the paths of a row that an edge with a relative slide may continue. With `copies`, copy
    blocks first."""
    program, table, fields = index.program, index.table, index.state
    now, ended = fields.now, ended_by(timeline, slide, fields.now)
    count = block_count(table, source)
    if count == 0:
        return np.int64(DONE)
    row = row_at(index, vertex, state)
    if row < 0:
        row = make_row(index, vertex, state)
        if row < 0:
            return -row
    accepts = program.accepting[state] != 0
    reads_copies = timeline.fields.strict != 0 and timeline.fields.copies > 0
    grown, first = False, np.int64(0)
    if not copies and not reads_copies and table.span[source] > 0:
        # In most cases the blocks are side by side in both rows, and are not copied.
        first = min(count, np.int64(table.span[row]))
        if accepts:
            first = min(first, (fields.out_capacity - fields.out) // LANES)
        base, base_of_source = table.base[row], table.base[source]
        for number in range(first):
            grew, fresh = _raise_block(table, base + number, base_of_source + number, slide, ended, now)
            if grew != ZERO:
                grown = True
                if accepts and fresh != ZERO:
                    report_new(index, vertex, state, np.int64(number), fresh)
    code = np.int64(DONE)
    for i in range(first, count):
        number, source_block = nth_block(table, source, i)
        if reads_copies:
            copy = previous_block(timeline, source, number)
            source_block = copy if copy >= 0 else source_block
        block = find(table, row, number)
        if block < 0:
            if live(table.values, source_block, ended) == ZERO:
                continue
            block = make_block(index, row, number)
            if block < 0:
                code = -block
                break
        if accepts and fields.out + LANES > fields.out_capacity:
            code = np.int64(NEED_OUTPUT)
            break
        raises = live(table.values, source_block, ended) & ~reaching(table.values, source_block, block, slide, ended)
        if copies and raises != ZERO:
            code = _copy_once(index, timeline, row, number, block)
            if code != DONE:
                break
        grew, fresh = _raise_block(table, block, source_block, slide, ended, now)
        if grew != ZERO:
            grown = True
            if accepts and fresh != ZERO:
                report_new(index, vertex, state, number, fresh)
    fields.steps += count
    if grown:
        timeline.fields.has_grown = 1
        table.low[row] = min(table.low[row], table.low[source], slide)
    return code
