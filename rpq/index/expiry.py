"""Crossing slide boundaries: answers that leave, the sweep, moving the base of the cells."""

import numpy as np
from numba import njit

from rpq.blocks import LANES, live
from rpq.index.layout import (
    BASE,
    BLOCKS,
    CEILING,
    EDGES,
    FREE_ROWS,
    FREE_SLOTS,
    NEXT_BOUNDARY,
    NOW,
    POINTER,
    RANGE,
    ROWS,
    SLIDE,
    SLOTS,
    STATE_BITS,
    SUPPORTS,
    SWEEP_EVERY,
    SWEPT,
    VERTICES,
)
from rpq.index.rows import (
    DENSE,
    ZERO,
    block_count,
    find,
    make_sparse,
    node_of,
    nth_block,
    release_blocks,
    release_region,
    row_at,
)
from rpq.lists import truncate

_NEVER = np.iinfo(np.int64).max


@njit(cache=True, nogil=True)
def cross(index, slide):
    """Make `slide` (absolute) the current one. Cells up to it are dead from here on."""
    fields, settings = index.state, index.settings
    passed = slide - fields[BASE]
    # A difference that overflows is a jump past everything as well.
    if passed < 0 or passed > settings[CEILING] - settings[RANGE]:
        _rebase(index, slide, passed)
    fields[NOW] = slide - fields[BASE]
    if slide < _NEVER // settings[SLIDE]:
        fields[NEXT_BOUNDARY] = (slide + 1) * settings[SLIDE]
    else:
        fields[NEXT_BOUNDARY] = _NEVER
    if slide - fields[SWEPT] >= settings[SWEEP_EVERY] or slide < fields[SWEPT]:
        sweep(index)


@njit(cache=True, nogil=True)
def _rebase(index, slide, passed):
    """Make `slide` the new base: subtract what has passed from every cell, stopping at 0."""
    table, graph, fields = index.table, index.graph, index.state
    ceiling = index.settings[CEILING]
    if passed < 0 or passed >= ceiling:
        passed = ceiling
    _subtract(table.values, fields[BLOCKS] * LANES, passed)
    _subtract(graph.expiry, fields[EDGES], passed)
    for row in range(fields[ROWS]):
        if table.low[row] != _NEVER:
            table.low[row] = max(np.int64(0), table.low[row] - passed)
    fields[BASE] = slide


@njit(cache=True, nogil=True)
def _subtract(values, count, amount):
    for i in range(count):
        values[i] = max(np.int64(values[i]) - amount, np.int64(0))


@njit(cache=True, nogil=True)
def sweep(index):
    """Collect blocks and rows without a live cell, links of edges that are gone, slots of empty trees."""
    _sweep_rows(index)
    graph = index.graph
    lists = index.state[VERTICES] * index.program.classes[0]
    _sweep_links(graph, graph.out, lists, index.state[NOW])
    if index.state[SUPPORTS]:
        _sweep_links(graph, graph.into, lists, index.state[NOW])
    for edge in range(index.state[EDGES]):
        if graph.linked[edge] and np.int64(graph.expiry[edge]) <= index.state[NOW]:
            graph.linked[edge] = 0
            graph.expiry[edge] = 0
    _sweep_slots(index)
    index.state[SWEPT] = index.state[BASE] + index.state[NOW]


@njit(cache=True, nogil=True)
def _sweep_rows(index):
    table, fields, directory = index.table, index.state, index.table.directory
    now = fields[NOW]
    for row in range(fields[ROWS]):
        if table.node[row] < 0:
            continue
        kept = np.int64(0)
        if table.span[row] > 0:
            for block in range(table.base[row], table.base[row] + np.int64(table.span[row])):
                if live(table.values, block, now) != ZERO:
                    kept += 1
            if kept * 2 * DENSE < np.int64(table.span[row]) and kept > 0:
                make_sparse(index, row, kept)
        else:
            start = directory.start[row]
            for place in range(start, start + np.int64(directory.length[row])):
                entry = directory.entries[place]
                if live(table.values, entry & POINTER, now) == ZERO:
                    release_region(table, entry & POINTER, np.int64(0))
                else:
                    directory.entries[start + kept] = entry
                    kept += 1
            directory.length[row] = kept
        if kept == 0:
            release_blocks(table, row)
            vertex, state = node_of(table, row)
            table.row_of[vertex * index.program.classes[1] + state] = -1
            table.node[row] = -1
            table.free_rows[fields[FREE_ROWS]] = row
            fields[FREE_ROWS] += 1


@njit(cache=True, nogil=True)
def _sweep_links(graph, lists, count, now):
    for i in range(count):
        length = np.int64(lists.length[i])
        if length == 0:
            continue
        start = lists.start[i]
        kept = np.int64(0)
        for place in range(start, start + length):
            link = lists.entries[place]
            if np.int64(graph.expiry[(link >> 1) & POINTER]) > now:
                lists.entries[start + kept] = link
                kept += 1
        if kept < length:
            truncate(lists, i, kept)


@njit(cache=True, nogil=True)
def _sweep_slots(index):
    """A tree is empty when its root has no first edge left; from the back, so that low slots are given out first."""
    program, table, fields = index.program, index.table, index.state
    classes = program.classes[0]
    for slot in range(fields[SLOTS] - 1, -1, -1):
        vertex = np.int64(table.slot_vertex[slot])
        if vertex < 0:
            continue
        needed = False
        for first_class in range(classes):
            if program.start_target[first_class] >= 0 and index.graph.out.length[vertex * classes + first_class] > 0:
                needed = True
        if not needed:
            table.slot_of[vertex] = -1
            table.slot_vertex[slot] = -1
            table.free_slots[fields[FREE_SLOTS]] = slot
            fields[FREE_SLOTS] += 1


@njit(cache=True, nogil=True)
def anything_expires(index, now):
    """Whether an accepting row may hold a cell that is alive and dies at `now` (relative)."""
    for row in range(index.state[ROWS]):
        if index.table.low[row] <= now and index.table.node[row] >= 0:
            if index.program.accepting[index.table.node[row] & STATE_BITS]:
                return True
    return False


@njit(cache=True, nogil=True)
def expiring_pairs(index, now):
    """The answers that die with the slides up to `now` (relative): (relative slides, pairs), unsorted.

    A pair dies with the largest cell among the accepting states of its target; of equal ones the lowest
    state reports it.
    """
    program, table, fields = index.program, index.table, index.state
    slides = np.empty(1024, np.int64)
    pairs = np.empty(1024, np.int64)
    found = 0
    for row in range(fields[ROWS]):
        if table.node[row] < 0 or table.low[row] > now:
            continue
        vertex, state = node_of(table, row)
        if not program.accepting[state]:
            continue
        low = np.int64(_NEVER)
        for i in range(block_count(table, row)):
            number, block = nth_block(table, row, i)
            if found + LANES > len(pairs):
                slides = np.concatenate((slides, np.empty_like(slides)))
                pairs = np.concatenate((pairs, np.empty_like(pairs)))
            first = block * LANES
            for lane in range(LANES):
                value = np.int64(table.values[first + lane])
                if value > now:
                    low = min(low, value)
                elif value > fields[NOW] and table.is_target[vertex]:
                    if _outlasts_others(index, vertex, state, number, lane, value):
                        slides[found] = value
                        source = np.int64(table.slot_vertex[number * LANES + lane])
                        pairs[found] = source << 32 | vertex
                        found += 1
        table.low[row] = low
    return slides[:found], pairs[:found]


@njit(cache=True, nogil=True)
def _outlasts_others(index, vertex, state, number, lane, value):
    table = index.table
    for i in range(index.program.classes[2]):
        other = np.int64(index.program.accepting_states[i])
        if other != state:
            row = row_at(index, vertex, other)
            block = find(table, row, number) if row >= 0 else np.int64(-1)
            if block >= 0:
                held = np.int64(table.values[block * LANES + lane])
                if held > value or (held == value and other < state):
                    return False
    return True
