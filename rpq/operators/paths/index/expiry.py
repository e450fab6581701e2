"""Kernels that cross slide boundaries: they report the answers that leave, sweep the index, and change the base of the
cells."""

import numpy as np

from rpq.compiled.arrays.lanes import LANES, live, lowest
from rpq.compiled.arrays.lists import truncate
from rpq.compiled.intrinsics import population
from rpq.compiled.kernel_cache import njit
from rpq.operators.paths.index.conflicts import lanes_in_doubt
from rpq.operators.paths.index.layout import BY_TIME, DONE, NEED_OUTPUT, POINTER, STATE_BITS
from rpq.operators.paths.index.rows import (
    DENSE,
    NEVER,
    ZERO,
    block_count,
    end_event,
    free_slot,
    make_sparse,
    node_of,
    nth_block,
    release_blocks,
    release_region,
    slide_of,
    unshared_lanes,
    write_pairs,
)
from rpq.stream.edges.outcomes import INSERTED, REFRESHED


@njit(cache=True, nogil=True)
def cross(index, slide):
    """Advance to an absolute slide. Cells up to it are dead from now on."""
    fields, settings = index.state, index.settings
    passed = slide - fields.base
    # A difference that overflows also is a jump past everything.
    if passed < 0 or passed > settings.ceiling - settings.range:
        _rebase(index, slide, passed)
    fields.now = slide - fields.base
    if slide <= NEVER // settings.slide - settings.step:
        fields.next_boundary = (slide + settings.step) * settings.slide
    else:
        fields.next_boundary = NEVER
    if not settings.unlisted and is_sweep_due(index, slide):
        sweep(index)


@njit(cache=True, nogil=True)
def boundary_time(index, slide):
    """Return the time of a boundary at a relative slide: in a count window that of the tuple which crosses it."""
    if index.settings.moved_by != BY_TIME:
        return index.state.time
    return (index.state.base + slide) * index.settings.slide


@njit(cache=True, nogil=True)
def is_sweep_due(index, slide):
    """Return whether enough slides have passed since the last sweep and another sweep pays off."""
    swept = index.state.last_sweep
    return (slide - swept >= index.settings.sweep_every and _pays_to_sweep(index)) or slide < swept


@njit(cache=True, nogil=True)
def _pays_to_sweep(index):
    """Return whether enough edges have arrived since the last sweep to justify a scan of the whole index."""
    fields = index.state
    came = fields.outcomes[INSERTED] + fields.outcomes[REFRESHED] - fields.last_sweep_inserts
    return came * 16 >= fields.edges


@njit(cache=True, nogil=True)
def _rebase(index, slide, passed):
    """Make `slide` the new base: subtract the passed slides from every cell that expires, stopping at 0."""
    table, graph, fields = index.table, index.graph, index.state
    ceiling = index.settings.ceiling
    if passed < 0 or passed >= ceiling:
        passed = ceiling
    _subtract(table.values, fields.blocks * LANES, passed, ceiling)
    _subtract(graph.expiry, fields.edges, passed, ceiling)
    if fields.statics != 0:
        _subtract(graph.window_expiry, fields.edges, passed, ceiling)
    for row in range(fields.rows):
        if table.low[row] <= ceiling:
            table.low[row] = max(np.int64(0), table.low[row] - passed)
    fields.base = slide


@njit(cache=True, nogil=True)
def _subtract(values, count, amount, ceiling):
    for i in range(count):
        value = np.int64(values[i])
        values[i] = value if value > ceiling else max(value - amount, np.int64(0))


@njit(cache=True, nogil=True)
def sweep(index):
    """Release blocks and rows without a live cell, links of edges that have left, and slots of empty trees."""
    sweep_rows(index)
    graph = index.graph
    lists = index.state.vertices * index.program.sizes.classes
    _sweep_links(graph, graph.out, lists, index.state.now)
    if index.state.backward:
        _sweep_links(graph, graph.into, lists, index.state.now)
    for edge in range(index.state.edges):
        if graph.is_linked[edge] and np.int64(graph.expiry[edge]) <= index.state.now:
            graph.is_linked[edge] = 0
            graph.expiry[edge] = 0
    _sweep_slots(index)
    note_sweep(index)


@njit(cache=True, nogil=True)
def note_sweep(index):
    """Record a sweep at this slide."""
    index.state.last_sweep = index.state.base + index.state.now
    index.state.last_sweep_inserts = index.state.outcomes[INSERTED] + index.state.outcomes[REFRESHED]


@njit(cache=True, nogil=True)
def sweep_rows(index):
    """Release blocks without a live cell, and rows without a block."""
    table, fields, directory = index.table, index.state, index.table.directory
    now = fields.now
    for row in range(fields.rows):
        if table.node[row] < 0:
            continue
        live_blocks = np.int64(0)
        if table.span[row] > 0:
            for block in range(table.base[row], table.base[row] + np.int64(table.span[row])):
                if live(table.values, block, now) != ZERO:
                    live_blocks += 1
            if live_blocks * 2 * DENSE < np.int64(table.span[row]) and live_blocks > 0:
                make_sparse(index, row, live_blocks)
        else:
            start = np.int64(directory.start[row])
            for place in range(start, start + np.int64(directory.length[row])):
                entry = directory.entries[place]
                if live(table.values, entry & POINTER, now) == ZERO:
                    release_region(table, entry & POINTER, np.int64(0))
                else:
                    directory.entries[start + live_blocks] = entry
                    live_blocks += 1
            directory.length[row] = live_blocks
        if live_blocks == 0:
            release_blocks(table, row)
            vertex, state = node_of(table, row)
            table.row_of[vertex * index.program.sizes.states + state] = -1
            table.node[row] = -1
            table.free_rows[fields.free_rows] = row
            fields.free_rows += 1


@njit(cache=True, nogil=True)
def _sweep_links(graph, lists, count, now):
    for i in range(count):
        length = np.int64(lists.length[i])
        if length == 0:
            continue
        start = np.int64(lists.start[i])
        live_links = np.int64(0)
        for place in range(start, start + length):
            link = lists.entries[place]
            if slide_of(graph, link) > now:
                lists.entries[start + live_links] = link
                live_links += 1
        if live_links < length:
            truncate(lists, i, live_links)


@njit(cache=True, nogil=True)
def _sweep_slots(index):
    """Free the slots of roots without a first edge, from the back, so that low slots are assigned first."""
    program, table, fields = index.program, index.table, index.state
    classes = program.sizes.classes
    for slot in range(fields.slots - 1, -1, -1):
        vertex = np.int64(table.slot_vertex[slot])
        if vertex < 0:
            continue
        needed = False
        for first_class in range(classes):
            if program.start_target[first_class] >= 0 and index.graph.out.length[vertex * classes + first_class] > 0:
                needed = True
        if not needed:
            free_slot(index, slot)


@njit(cache=True, nogil=True)
def expire(index, slide, order):
    """Advance to an absolute slide, boundary by boundary, and write a removed row for every answer that expires on the way.

    Return NEED_OUTPUT if there is no room for the rows of the next boundary (and for the event of the tuple after it); the
    next call resumes after the reported boundaries. A row is scanned only after its lower bound has been passed; the scan
    makes the bound exact.
    """
    fields = index.state
    last = slide - fields.base
    if last < 0 or last > index.settings.ceiling:
        last = index.settings.ceiling
    while True:
        dying = next_death(index)
        if dying > last:
            break
        dying += -dying % index.settings.step  # to the next boundary
        if fields.out + count_dying(index, dying) > fields.out_capacity or fields.events + 2 > fields.event_capacity:
            return np.int64(NEED_OUTPUT)
        report_dying(index, dying)
        end_event(index, boundary_time(index, dying), -1, order)
    cross(index, slide)
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def next_death(index):
    """Return a relative slide before which no answer expires."""
    table, accepting = index.table, index.program.accepting
    first = np.int64(NEVER)
    for row in range(index.state.rows):
        if table.low[row] < first and table.node[row] >= 0 and accepting[table.node[row] & STATE_BITS]:
            first = table.low[row]
    # A bound may be out of date: the answer from which it was computed has expired and was reported.
    return max(first, index.state.now + 1)


@njit(cache=True, nogil=True)
def _dying_lanes(index, vertex, state, number, block, dying):
    """Return the pairs of a block that expire at a slide, with marks those whose marked cell expires.

    A pair with several accepting states belongs to the lowest.
    """
    table, before = index.table, dying - index.settings.step
    lanes = live(table.values, block, before) & ~live(table.values, block, dying)
    if index.settings.marks:
        return lanes & live(table.hops, block, np.int64(0))
    lanes = unshared_lanes(index, vertex, state, number, lanes, before, dying)
    if lanes & table.conflicted_roots[number] != ZERO:
        # In these lanes the answers differ from the table.
        lanes &= ~(table.conflicted_roots[number] & (table.suspended_roots[number] | lanes_in_doubt(index, vertex, number)))
    return lanes


@njit(cache=True, nogil=True)
def count_dying(index, dying):
    """Return the room that the rows of one boundary may need."""
    table, accepting = index.table, index.program.accepting
    before, count = dying - index.settings.step, np.int64(0)
    for row in range(index.state.rows):
        if table.low[row] <= dying and table.node[row] >= 0 and accepting[table.node[row] & STATE_BITS]:
            for i in range(block_count(table, row)):
                _, block = nth_block(table, row, i)
                count += population(live(table.values, block, before) & ~live(table.values, block, dying))
    return count


@njit(cache=True, nogil=True)
def report_dying(index, dying):
    """Write the pairs that expire at a slide, and make the lower bounds of their rows exact."""
    table, accepting = index.table, index.program.accepting
    for row in range(index.state.rows):
        if table.low[row] > dying or table.node[row] < 0:
            continue
        vertex, state = node_of(table, row)
        if not accepting[state]:
            continue
        low = np.int64(NEVER)
        for i in range(block_count(table, row)):
            number, block = nth_block(table, row, i)
            if table.is_target[vertex]:
                write_pairs(index, vertex, number, _dying_lanes(index, vertex, state, number, block, dying))
            if live(table.values, block, dying) != ZERO:
                low = min(low, lowest(table.values, block, dying))
        table.low[row] = low
