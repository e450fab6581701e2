"""Kernels for rows of the Δ index: rows, blocks and slots, the queue, reports of answers, and walks over in-edges."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rpq.compiled.arrays.lanes import LANES, live
from rpq.compiled.arrays.lists import append, reserve, truncate
from rpq.compiled.intrinsics import trailing_zeros
from rpq.compiled.kernel_cache import njit
from rpq.operators.paths.index.layout import BUCKETS, NEED_BLOCKS, NEED_DIRECTORY, NEED_ROWS, POINTER, STATE_BITS

ZERO = np.uint64(0)
ONE = np.uint64(1)
NEVER = np.iinfo(np.int64).max
DENSE = 3
"""A row is dense if it has more than one in DENSE of all block numbers."""


@njit(cache=True, nogil=True, forceinline=True)
def find(table, row, number):
    """Return block `number` of a row, or -1."""
    span = np.int64(table.span[row])
    if span > 0:
        return table.base[row] + number if number < span else np.int64(-1)
    directory = table.directory
    low = np.int64(directory.start[row])
    high = low + np.int64(directory.length[row])
    while high - low > 4:
        middle = (low + high) >> 1
        if directory.entries[middle] >> 32 <= number:
            low = middle
        else:
            high = middle
    for place in range(low, high):
        if directory.entries[place] >> 32 == number:
            return directory.entries[place] & POINTER
    return np.int64(-1)


@njit(cache=True, nogil=True, forceinline=True)
def block_count(table, row):
    """Return the number of blocks of a row."""
    span = np.int64(table.span[row])
    return span if span > 0 else np.int64(table.directory.length[row])


@njit(cache=True, nogil=True, forceinline=True)
def nth_block(table, row, i):
    """Return the number and the block of the i-th block of a row."""
    if table.span[row] > 0:
        return np.int64(i), table.base[row] + i
    entry = table.directory.entries[np.int64(table.directory.start[row]) + i]
    return entry >> 32, entry & POINTER


@njit(cache=True, nogil=True, forceinline=True)
def row_at(index, vertex, state):
    """Return the row of a product node, or -1."""
    return np.int64(index.table.row_of[vertex * index.program.sizes.states + state])


@njit(cache=True, nogil=True, forceinline=True)
def block_at(index, vertex, state, number):
    """Return block `number` of the row of a product node, or -1."""
    row = row_at(index, vertex, state)
    return find(index.table, row, number) if row >= 0 else np.int64(-1)


@njit(cache=True, nogil=True, forceinline=True)
def cell_at(index, vertex, state, slot):
    """Return the cell of a root, by its slot, in the row of a product node: its place in `Table.values`, or -1."""
    block = block_at(index, vertex, state, slot >> 6)
    return block * LANES + (slot & (LANES - 1)) if block >= 0 else np.int64(-1)


@njit(cache=True, nogil=True, forceinline=True)
def lane_of(slot):
    """Return the bit of a slot in the mask of its block."""
    return ONE << np.uint64(slot & (LANES - 1))


@njit(cache=True, nogil=True, forceinline=True)
def slide_of(graph, link):
    """Return the relative expiry slide of the edge of a link."""
    return np.int64(graph.expiry[(link >> 1) & POINTER])


@njit(cache=True, nogil=True, forceinline=True)
def node_of(table, row):
    """Return the vertex and the state of a row."""
    return table.node[row] >> 16, table.node[row] & STATE_BITS


@njit(cache=True, nogil=True)
def make_row(index, vertex, state):
    """Return a new empty row for a product node, or minus a `NEED_` code if there is no room."""
    table, fields = index.table, index.state
    if fields.free_rows > 0:
        fields.free_rows -= 1
        row = np.int64(table.free_rows[fields.free_rows])
    elif fields.rows < fields.row_capacity:
        row = fields.rows
        fields.rows += 1
    else:
        return np.int64(-NEED_ROWS)
    table.node[row] = vertex << 16 | state
    table.row_of[vertex * index.program.sizes.states + state] = row
    table.low[row] = NEVER
    table.span[row] = 0
    table.pending[row] = ZERO
    index.queue.rank[row] = -1
    return row


@njit(cache=True, nogil=True, forceinline=True)
def region_size(region_class):
    """Return the number of blocks in a region of a class: 1, (1), 2, 3, 4, 6, 8, 12, …."""
    return ((2 + (region_class & 1)) << (region_class >> 1)) >> 1


@njit(cache=True, nogil=True)
def _region_class(blocks):
    """Return the smallest class whose regions have room for this number of blocks."""
    region_class = np.int64(0)
    while region_size(region_class) < blocks:
        region_class += 2 if region_class == 0 else 1
    return region_class


@njit(cache=True, nogil=True)
def take_region(index, region_class):
    """Return the first block of an empty region, or -1 if there is none."""
    table, fields = index.table, index.state
    size = region_size(region_class)
    block = np.int64(table.free_regions[region_class])
    if block >= 0:
        table.free_regions[region_class] = table.chain[block]
    elif fields.blocks + size <= fields.block_capacity:
        block = fields.blocks
        fields.blocks += size
    else:
        return np.int64(-1)
    for cell in range(block * LANES, (block + size) * LANES):
        table.values[cell] = 0
    if index.state.supports:
        for cell in range(block * LANES, (block + size) * LANES):
            table.hops[cell] = 0
    if index.settings.judged:
        for taken in range(block, block + size):
            table.doubt[taken] = ZERO
            table.new_doubt[taken] = ZERO
    return block


@njit(cache=True, nogil=True)
def release_region(table, block, region_class):
    """Return a region to the free regions of its class."""
    table.chain[block] = table.free_regions[region_class]
    table.free_regions[region_class] = block


@njit(cache=True, nogil=True)
def copy_block(index, source, target):
    """Copy the cells of a block with their supports and doubts, if there are any."""
    table = index.table
    for lane in range(LANES):
        table.values[target * LANES + lane] = table.values[source * LANES + lane]
    if index.state.supports:
        for lane in range(LANES):
            table.hops[target * LANES + lane] = table.hops[source * LANES + lane]
    if index.settings.judged:
        table.doubt[target] = table.doubt[source]
        table.new_doubt[target] = table.new_doubt[source]


@njit(cache=True, nogil=True)
def _make_dense(index, row, numbers):
    """Store the blocks of a row side by side, for block numbers below `numbers`; return False if there is no room."""
    table = index.table
    region_class = _region_class(numbers)
    region = take_region(index, region_class)
    if region < 0:
        return False
    for i in range(block_count(table, row)):
        number, block = nth_block(table, row, i)
        copy_block(index, block, region + number)
    release_blocks(table, row)
    table.base[row] = region
    table.span[row] = region_size(region_class)
    return True


@njit(cache=True, nogil=True)
def release_blocks(table, row):
    """Release all blocks of a row."""
    if table.span[row] > 0:
        release_region(table, table.base[row], _region_class(np.int64(table.span[row])))
        table.span[row] = 0
    else:
        for i in range(np.int64(table.directory.length[row])):
            _, block = nth_block(table, row, i)
            release_region(table, block, np.int64(0))
        truncate(table.directory, row, 0)


@njit(cache=True, nogil=True)
def make_sparse(index, row, count):
    """List the `kept` live blocks of a dense row in its directory, if there is room."""
    table, directory = index.table, index.table.directory
    base = table.base[row]
    span = np.int64(table.span[row])
    if not reserve(directory, row, count) or index.state.blocks + count > index.state.block_capacity:
        return
    for number in range(span):
        if live(table.values, base + number, index.state.now) != ZERO:
            block = take_region(index, np.int64(0))
            copy_block(index, base + number, block)
            append(directory, row, number << 32 | block)
    release_region(table, base, _region_class(span))
    table.span[row] = 0


@njit(cache=True, nogil=True)
def make_block(index, row, number):
    """Add an empty block `number` to a row that lacks it; return the block, or minus a `NEED_` code."""
    table, fields, directory = index.table, index.state, index.table.directory
    numbers = (fields.slots + LANES - 1) >> 6
    length = np.int64(directory.length[row])
    if table.span[row] > 0 or (length + 1) * DENSE >= numbers:
        if not _make_dense(index, row, numbers):
            return np.int64(-NEED_BLOCKS)
        return table.base[row] + number
    if not reserve(directory, row, 1):
        return np.int64(-NEED_DIRECTORY)
    block = take_region(index, np.int64(0))
    if block < 0:
        return np.int64(-NEED_BLOCKS)
    start = np.int64(directory.start[row])
    place = start + length
    while place > start and directory.entries[place - 1] >> 32 > number:
        directory.entries[place] = directory.entries[place - 1]
        place -= 1
    directory.entries[place] = number << 32 | block
    directory.length[row] += 1
    return block


@njit(cache=True, nogil=True, forceinline=True)
def make_cell(index, slot, vertex, state):
    """Return the cell of a slot in the row of a product node, after making the row and block; or minus a `NEED_` code."""
    row = row_at(index, vertex, state)
    if row < 0:
        row = make_row(index, vertex, state)
        if row < 0:
            return row
    block = find(index.table, row, slot >> 6)
    if block < 0:
        block = make_block(index, row, slot >> 6)
        if block < 0:
            return block
    return block * LANES + (slot & (LANES - 1))


@njit(cache=True, nogil=True)
def root_slot(index, vertex):
    """Return the slot of a root; assign one if it has none."""
    table, fields = index.table, index.state
    slot = np.int64(table.slot_of[vertex])
    if slot >= 0:
        return slot
    if fields.free_slot > 0:
        slot = fields.free_slot - 1
        fields.free_slot = -1 - np.int64(table.slot_vertex[slot])
    else:
        slot = fields.slots
        fields.slots += 1
    table.slot_of[vertex] = slot
    table.slot_vertex[slot] = vertex
    return slot


@njit(cache=True, nogil=True, forceinline=True)
def free_slot(index, slot):
    """Free the slot of a root, which is the next to be assigned."""
    table, fields = index.table, index.state
    table.slot_of[table.slot_vertex[slot]] = -1
    table.slot_vertex[slot] = -1 - fields.free_slot
    fields.free_slot = slot + 1


@njit(cache=True, nogil=True, forceinline=True)
def rank_of(index, slide):
    """Return the bucket of an expiry slide."""
    return min(np.int64(BUCKETS - 1), (slide - index.state.now) >> index.settings.rank_shift)


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
    """Enqueue a row in bucket `rank`, or leave it in its present one if that is higher."""
    present = queue.rank[row]
    if present >= rank:
        return
    if present >= 0:
        _unlink(queue, row)
    first = queue.head[rank]
    queue.rank[row] = rank
    queue.next[row] = first
    queue.previous[row] = -1 - rank
    if first >= 0:
        queue.previous[first] = row
    queue.head[rank] = row
    if rank > fields.top_bucket:
        fields.top_bucket = rank


@njit(cache=True, nogil=True, forceinline=True)
def dequeue(queue, fields):
    """Remove and return a row of the highest bucket, or -1 if no row waits."""
    rank = fields.top_bucket
    while rank >= 0 and queue.head[rank] < 0:
        rank -= 1
    fields.top_bucket = rank
    if rank < 0:
        return np.int64(-1)
    row = np.int64(queue.head[rank])
    _unlink(queue, row)
    queue.rank[row] = -1
    return row


@njit(cache=True, nogil=True)
def unshared_lanes(index, vertex, state, number, lanes, lower, higher):
    """Return those of some lanes of an accepting state that are in no other accepting state of the vertex.

    In lower states the cells above slide `lower` count, in higher states those above `higher` (NEVER: no cells). So a pair
    in several states is returned once: with NEVER, for the lowest of them.
    """
    program, table = index.program, index.table
    for i in range(program.sizes.accepting):
        other = np.int64(program.accepting_states[i])
        if lanes == ZERO or (other > state and higher == NEVER):
            break
        if other != state:
            block = block_at(index, vertex, other, number)
            if block >= 0:
                lanes &= ~live(table.values, block, lower if other < state else higher)
    return lanes


@njit(cache=True, nogil=True, forceinline=True)
def write_pairs(index, vertex, number, lanes):
    """Append a row to the output for each lane. There must be room for 64 rows."""
    table, output, fields = index.table, index.output, index.state
    out = fields.out
    while lanes != ZERO:
        slot = number * LANES + trailing_zeros(lanes)
        lanes &= lanes - ONE
        output.pairs[out] = np.int64(table.slot_vertex[slot]) << 32 | vertex
        out += 1
    fields.out = out


@njit(cache=True, nogil=True, forceinline=True)
def report_new(index, vertex, state, number, lanes):
    """Report the pairs of lanes that came alive in an accepting state, unless they were answers already.

    With marks, all are reported that are not alive in a lower one.
    """
    if index.state.quiet or not index.table.is_target[vertex]:
        return
    if index.program.sizes.accepting > 1:
        now = index.state.now
        lanes = unshared_lanes(index, vertex, state, number, lanes, now, NEVER if index.settings.marks else now)
    write_pairs(index, vertex, number, lanes)


@njit(cache=True, nogil=True)
def end_event(index, time, kind, order):
    """End the event of the rows since the last event, with a time and an operation. There must be room for one event."""
    fields, output = index.state, index.output
    rows = fields.out - fields.event_out
    if rows > 0:
        event = fields.events
        output.event_time[event] = time
        output.event_end[event] = fields.out
        output.event_kind[event] = kind
        output.event_tuple[event] = order
        fields.events += 1
        fields.event_out = fields.out
        if kind > 0:
            fields.added += rows
        else:
            fields.removed += rows


# --- the walk over the edges into a product node: deletes, conflicts, witnesses and searches follow it backward
#
#     edge = in_edges(index, vertex, state)
#     while True:
#         edge = next_in_edge(index, vertex, state, edge, now)
#         if edge.link < 0:
#             break
#         ...
#
# yields, transition by transition, every edge that lasts beyond a slide, and the product node from which it comes. The
# record is dissolved when the kernels are inlined, so it costs nothing (`TUNING.md`). Needs the `into` lists.


class InEdge(NamedTuple):
    """An edge into a product node, and the position in the walk over all of its in-edges."""

    link: int  # source << 32 | edge << 1 | against; -1: there is no further edge
    source: int
    source_state: int  # 0: the source is the root itself, which has no row
    slide: int  # the relative expiry slide of the edge
    transition: int  # the place in `Program.enter_source`
    next: int  # the place of the next link of this transition
    left: int  # the number of remaining links of this transition
    direction: int  # 1: in the order in which the edges arrived, -1: the latest first


@njit(cache=True, nogil=True, forceinline=True)
def in_edges(index, vertex, state, direction=1):
    """Return an iteration over the edges into a product node, before its first edge."""
    before = np.int64(index.program.enter_first[state]) - 1
    zero = np.int64(0)
    return InEdge(np.int64(-1), zero, zero, zero, before, zero, zero, np.int64(direction))


@njit(cache=True, nogil=True, forceinline=True)
def next_in_edge(index, vertex, state, edge, above):
    """Return the next edge that lasts beyond slide `above`."""
    program, graph = index.program, index.graph
    transition, place, left, source_state = edge.transition, edge.next, edge.left, edge.source_state
    while True:
        while left > 0:
            link = graph.into.entries[place]
            place += edge.direction
            left -= 1
            slide = slide_of(graph, link)
            if slide > above:
                return InEdge(link, link >> 32, source_state, slide, transition, place, left, edge.direction)
        transition += 1
        if transition >= program.enter_first[state + 1]:
            zero = np.int64(0)
            return InEdge(np.int64(-1), zero, zero, zero, transition, zero, zero, edge.direction)
        source_state = np.int64(program.enter_source[transition])
        links = vertex * program.sizes.classes + program.enter_class[transition]
        left = np.int64(graph.into.length[links])
        place = np.int64(graph.into.start[links]) + (left - 1 if edge.direction < 0 else 0)


@njit(cache=True, nogil=True, forceinline=True)
def skip_transition(edge):
    """Return the iteration after all edges of the current transition."""
    return InEdge(
        edge.link, edge.source, edge.source_state, edge.slide, edge.transition, edge.next, np.int64(0), edge.direction
    )
