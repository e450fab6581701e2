"""Rows of the Δ index: finding and making rows, blocks and slots, the queue, and reporting new answers."""

import numpy as np
from numba import njit

from rpq.blocks import LANES, live, trailing_zeros
from rpq.index.layout import (
    BLOCK_CAPACITY,
    BLOCKS,
    BUCKETS,
    FREE_BLOCKS,
    FREE_ROWS,
    FREE_SLOTS,
    NEED_BLOCKS,
    NEED_DIRECTORY,
    NEED_ROWS,
    NOW,
    OUT,
    POINTER,
    QUEUED,
    QUIET,
    RANK_SHIFT,
    ROW_CAPACITY,
    ROWS,
    SLOTS,
)
from rpq.lists import _release_region, _take_region, reserve

ZERO = np.uint64(0)
ONE = np.uint64(1)
NEVER = np.iinfo(np.int64).max


@njit(cache=True, nogil=True, forceinline=True)
def find(table, row, number):
    """Where block `number` of a row stands in the directory's pool, or -1."""
    directory = table.directory
    start = directory.start[row]
    length = np.int64(directory.length[row])
    if table.direct[row]:
        if number < length and directory.entries[start + number] != 0:
            return start + number
        return np.int64(-1)
    low = start
    high = start + length
    while high - low > 4:
        middle = (low + high) >> 1
        if directory.entries[middle] >> 32 <= number:
            low = middle
        else:
            high = middle
    for place in range(low, high):
        if directory.entries[place] >> 32 == number:
            return place
    return np.int64(-1)


@njit(cache=True, nogil=True, forceinline=True)
def row_at(index, vertex, state):
    """The row of a product node, or -1."""
    return np.int64(index.table.row_of[vertex * index.program.classes[1] + state])


@njit(cache=True, nogil=True)
def make_row(index, vertex, state):
    """A new empty row for a product node; minus a `NEED_` code where there is no room."""
    table, fields = index.table, index.state
    if fields[FREE_ROWS] > 0:
        fields[FREE_ROWS] -= 1
        row = np.int64(table.free_rows[fields[FREE_ROWS]])
    elif fields[ROWS] < fields[ROW_CAPACITY]:
        row = fields[ROWS]
        fields[ROWS] += 1
    else:
        return np.int64(-NEED_ROWS)
    node = vertex * index.program.classes[1] + state
    table.node[row] = node
    table.row_of[node] = row
    table.low[row] = NEVER
    table.direct[row] = 0
    index.queue.rank[row] = -1
    return row


@njit(cache=True, nogil=True)
def _rebuild_directory(table, row, numbers, extra):
    """Give a row a region for `extra` more blocks of `numbers`, as a list or direct; False where the pool is full."""
    directory = table.directory
    start = directory.start[row]
    length = np.int64(directory.length[row])
    held = np.int64(directory.size_class[row])
    blocks = np.int64(0)
    for place in range(start, start + length):
        if directory.entries[place] != 0:
            blocks += 1
    direct = (blocks + extra) * 4 >= numbers
    needed = numbers if direct else blocks + extra
    wanted = np.int64(0)
    while (1 << wanted) < needed:
        wanted += 1
    region = _take_region(directory, wanted)
    if region < 0:
        return False
    if direct:
        for place in range(region, region + (1 << wanted)):
            directory.entries[place] = 0
    kept = np.int64(0)
    for place in range(start, start + length):
        entry = directory.entries[place]
        if entry != 0:
            directory.entries[region + (entry >> 32 if direct else kept)] = entry
            kept += 1
    if held >= 0:
        _release_region(directory, start, held)
    directory.start[row] = region
    directory.size_class[row] = wanted
    directory.length[row] = 1 << wanted if direct else kept
    table.direct[row] = 1 if direct else 0
    return True


@njit(cache=True, nogil=True)
def make_block(index, row, number):
    """Give a row an empty block `number`; its place in the directory, or minus a `NEED_` code."""
    table, fields, directory = index.table, index.state, index.table.directory
    if fields[FREE_BLOCKS] == 0 and fields[BLOCKS] >= fields[BLOCK_CAPACITY]:
        return np.int64(-NEED_BLOCKS)
    numbers = (fields[SLOTS] + LANES - 1) >> 6
    length = np.int64(directory.length[row])
    if table.direct[row]:
        if number >= length and not _rebuild_directory(table, row, numbers, 1):
            return np.int64(-NEED_DIRECTORY)
    elif (length + 1) * 4 >= numbers:
        if not _rebuild_directory(table, row, numbers, 1):
            return np.int64(-NEED_DIRECTORY)
    elif not reserve(directory, row, 1):
        return np.int64(-NEED_DIRECTORY)

    if fields[FREE_BLOCKS] > 0:
        fields[FREE_BLOCKS] -= 1
        block = np.int64(table.free_blocks[fields[FREE_BLOCKS]])
    else:
        block = fields[BLOCKS]
        fields[BLOCKS] += 1
    for cell in range(block * LANES, block * LANES + LANES):
        table.values[cell] = 0

    start = directory.start[row]
    if table.direct[row]:
        place = start + number
    else:
        if directory.length[row] + 1 > 1 << directory.size_class[row]:
            # The directory was direct and has just become a list without room for one more: cannot be,
            # `_rebuild_directory` counted it in.
            raise AssertionError("a directory without room")
        place = start + directory.length[row]
        while place > start and directory.entries[place - 1] >> 32 > number:
            directory.entries[place] = directory.entries[place - 1]
            place -= 1
        directory.length[row] += 1
    directory.entries[place] = number << 32 | block
    return place


@njit(cache=True, nogil=True)
def root_slot(index, vertex):
    """The slot of a root, given out now if it has none."""
    table, fields = index.table, index.state
    slot = np.int64(table.slot_of[vertex])
    if slot >= 0:
        return slot
    if fields[FREE_SLOTS] > 0:
        fields[FREE_SLOTS] -= 1
        slot = np.int64(table.free_slots[fields[FREE_SLOTS]])
    else:
        slot = fields[SLOTS]
        fields[SLOTS] += 1
    table.slot_of[vertex] = slot
    table.slot_vertex[slot] = vertex
    return slot


@njit(cache=True, nogil=True, forceinline=True)
def rank_of(index, slide):
    """The bucket of an expiry slide."""
    return min(np.int64(BUCKETS - 1), (slide - index.state[NOW]) >> index.settings[RANK_SHIFT])


@njit(cache=True, nogil=True, forceinline=True)
def _unlink(queue, row):
    following = queue.next[row]
    previous = queue.previous[row]
    if previous < 0:
        queue.head[-1 - previous] = following
    else:
        queue.next[previous] = following
    if following >= 0:
        queue.previous[following] = previous


@njit(cache=True, nogil=True, forceinline=True)
def enqueue(queue, fields, row, rank):
    """Let a row wait in bucket `rank`, or in its present one if that is higher."""
    held = queue.rank[row]
    if held >= rank:
        return
    if held >= 0:
        _unlink(queue, row)
    first = queue.head[rank]
    queue.rank[row] = rank
    queue.next[row] = first
    queue.previous[row] = -1 - rank
    if first >= 0:
        queue.previous[first] = row
    queue.head[rank] = row
    if rank > fields[QUEUED]:
        fields[QUEUED] = rank


@njit(cache=True, nogil=True, forceinline=True)
def dequeue(queue, fields):
    """Take a row out of the highest bucket; -1 where none waits."""
    rank = fields[QUEUED]
    while rank >= 0 and queue.head[rank] < 0:
        rank -= 1
    fields[QUEUED] = rank
    if rank < 0:
        return np.int64(-1)
    row = np.int64(queue.head[rank])
    _unlink(queue, row)
    queue.rank[row] = -1
    return row


@njit(cache=True, nogil=True)
def without_other_answers(index, vertex, state, number, lanes):
    """The lanes that no other accepting state of the vertex holds."""
    program, table = index.program, index.table
    for i in range(program.classes[2]):
        other = np.int64(program.accepting_states[i])
        if other != state:
            row = row_at(index, vertex, other)
            if row >= 0:
                place = find(table, row, number)
                if place >= 0:
                    block = table.directory.entries[place] & POINTER
                    lanes &= ~live(table.values, block, index.state[NOW])
                    if lanes == ZERO:
                        break
    return lanes


@njit(cache=True, nogil=True, forceinline=True)
def write_pairs(index, vertex, number, lanes):
    """Append a row to the output for each lane; there is room for 64."""
    table, output, fields = index.table, index.output, index.state
    out = fields[OUT]
    while lanes != ZERO:
        slot = number * LANES + trailing_zeros(lanes)
        lanes &= lanes - ONE
        output.pairs[out] = np.int64(table.slot_vertex[slot]) << 32 | vertex
        out += 1
    fields[OUT] = out


@njit(cache=True, nogil=True, forceinline=True)
def report_new(index, vertex, state, number, lanes):
    """Report the pairs of lanes that came alive in an accepting state, unless they were answers already."""
    if index.state[QUIET] or not index.table.is_target[vertex]:
        return
    if index.program.classes[2] > 1:
        lanes = without_other_answers(index, vertex, state, number, lanes)
    write_pairs(index, vertex, number, lanes)
