"""The paths through an edge that is inserted late or deleted, for many roots at once, where cells tell which go on.

A late insert changes the cells of the paths through the edge. Their roots are found in the row at its source, or by a scan
back. From the edge on, the paths are followed forward over the later entries, with a vector of the roots for each product
node. Before a delete, those roots are discarded that have another path to the end of the edge which arrives no later and
lasts as long, because their cells do not change. The paths of the other roots are followed again over the window without
the edge or, if the edge led to few product nodes, a scan goes back from each of these. Cells with the value of a path
through the edge get the value found.

Vectors have the layout of rows of the table: a column for each root, in the order of slots, in blocks of 64 cells.
"""

from typing import NamedTuple

import numpy as np

from rpq.compiled.arrays.lanes import LANES, live, raise_block, reaching
from rpq.compiled.intrinsics import trailing_zeros
from rpq.compiled.kernel_cache import njit
from rpq.operators.paths.index.layout import DONE, LOSING, NEED_OUTPUT
from rpq.operators.paths.index.rows import ONE, ZERO, block_count, cell_at, find, nth_block, root_slot, row_at
from rpq.operators.paths.ordered.cells import raise_cell
from rpq.operators.paths.ordered.scans import scan_back, width_of_root
from rpq.operators.paths.ordered.timeline import (
    EARLIEST,
    NEED_FOUND,
    NEED_VECTORS,
    UNLIMITED,
    begin_scan,
    ended_by,
    entries_up_to,
    mark_of,
    newest_entry,
    remove,
)

NO_NODE = -1
_SCANS = 2
"""The number of scans back that take no longer than following 64 roots over the window."""

# Values of `IndexState.phase` besides those of `rpq.operators.paths.index.layout`.
RAISING = 6  # an insert out of order: find the paths through it
RAISING_FOUND = 7  # raise the cells to which these paths lead
RENEWING = 8  # a delete: recompute the cells that had a path through the edge
REPORTING = 9  # report the lost pairs
COMPLETE = 10  # end the event
SETTLING = 11  # report the pairs with other lengths


# --- vectors --------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True, forceinline=True)
def _width(timeline):
    """Return the number of blocks of a vector."""
    return (timeline.fields.columns + LANES - 1) >> 6


@njit(cache=True, nogil=True)
def _new_vector(timeline, node):
    """Return a new empty vector, or -1 if there is no room."""
    fields = timeline.fields
    vector, width = fields.vectors, _width(timeline)
    if vector >= fields.vector_capacity or (vector + 1) * width > fields.vector_blocks:
        return np.int64(-1)
    timeline.vector_node[vector] = node
    for cell in range(vector * width * LANES, (vector + 1) * width * LANES):
        timeline.vectors[cell] = 0
    fields.vectors += 1
    return vector


@njit(cache=True, nogil=True, forceinline=True)
def _vector_of(timeline, node):
    """Return the vector of a node, a new one if it has none. Return -1 if there is no room."""
    found = timeline.nodes[node]
    if found.scan == timeline.fields.scan:
        return found.width
    vector = _new_vector(timeline, node)
    if vector >= 0:
        found.scan = timeline.fields.scan
        found.time = EARLIEST
        found.width = vector
        found.previous_width = -1
    return vector


@njit(cache=True, nogil=True)
def _copy_previous(timeline, node, time):
    """Copy the vector of a node before the moment `time` changes it. Return False if there is no room."""
    found = timeline.nodes[node]
    if found.time == time:
        return True
    copy = found.previous_width
    if copy < 0:
        copy = _new_vector(timeline, np.int64(NO_NODE))
        if copy < 0:
            return False
        found.previous_width = copy
    found.time = time
    cells = _width(timeline) * LANES
    source, target = found.width * cells, copy * cells
    for cell in range(cells):
        timeline.vectors[target + cell] = timeline.vectors[source + cell]
    return True


@njit(cache=True, nogil=True, forceinline=True)
def _raise_vector(timeline, target, source, width, slide, ended):
    """Raise a vector by the values of another one above `ended`, limited to a slide. Return whether it grew."""
    grown = ZERO
    for block in range(width):
        grew, _ = raise_block(timeline.vectors, target * width + block, source * width + block, slide, ended)
        grown |= grew
    return grown != ZERO


@njit(cache=True, nogil=True, forceinline=True)
def _follow(program, timeline, u, v, transition_class, time, slide, keeps, replay):
    """Follow an edge from u to v. Return 1 if a vector grew, 0 if none did, -1 if there is no room."""
    states = replay.states
    grown, ended = np.int64(0), ended_by(timeline, slide, replay.now)
    for step in range(program.step_first[transition_class], program.step_first[transition_class + 1]):
        source = timeline.nodes[u * states + program.step_source[step]]
        if source.scan != replay.scan:
            continue
        source_block = source.previous_width if source.time == time else source.width
        target = v * states + program.step_target[step]
        vector = _vector_of(timeline, target)
        if vector < 0 or (keeps and not _copy_previous(timeline, target, time)):
            return np.int64(-1)
        timeline.marks[v] = replay.mark
        if _raise_vector(timeline, vector, source_block, replay.width, slide, ended):
            grown = np.int64(1)
    if replay.begins and program.start_target[transition_class] >= 0 and timeline.nodes[u * states].scan == replay.scan:
        target = v * states + program.start_target[transition_class]
        vector = _vector_of(timeline, target)
        if vector < 0 or (keeps and not _copy_previous(timeline, target, time)):
            return np.int64(-1)
        timeline.marks[v] = replay.mark
        cell = vector * replay.width * LANES + timeline.nodes[u * states].width
        if slide > np.int64(timeline.vectors[cell]):
            timeline.vectors[cell] = slide
            grown = np.int64(1)
    return grown


class _Replay(NamedTuple):
    """The constants of following all entries."""

    scan: int
    mark: int
    states: int
    width: int
    now: int
    begins: bool


@njit(cache=True, nogil=True, forceinline=True)
def _follow_entry(index, timeline, place, time, is_followed, replay):
    """Follow an entry in both its directions; return what `_follow` returns. With `is_followed`, entries of its time may
    follow it."""
    program, strict = index.program, timeline.fields.strict != 0
    slide = min(timeline.slide[place] - index.state.base, index.settings.ceiling)
    if slide <= replay.now:
        return np.int64(0)
    u, v, label = np.int64(timeline.source[place]), np.int64(timeline.target[place]), timeline.label[place]
    forward, inverse = np.int64(program.forward[label]), np.int64(program.inverse[label])
    keeps = strict and (is_followed or u == v or (forward >= 0 and inverse >= 0))
    grown = np.int64(0)
    if forward >= 0:
        grown = _follow(program, timeline, u, v, forward, time, slide, keeps, replay)
    if grown >= 0 and inverse >= 0:
        back = _follow(program, timeline, v, u, inverse, time, slide, keeps, replay)
        grown = back if back < 0 else max(grown, back)
    return grown


@njit(cache=True, nogil=True)
def _follow_entries(index, timeline, place, begins):
    """Follow the entries from a place on, in the order of time. Return a code. With `begins`, paths of roots begin there."""
    program, fields = index.program, timeline.fields
    strict, entries = fields.strict != 0, fields.count
    now = index.state.now
    mark = mark_of(fields.scan)
    replay = _Replay(fields.scan, mark, program.sizes.states, _width(timeline), now, begins)
    while place < entries:
        if timeline.marks[timeline.source[place]] != mark and timeline.marks[timeline.target[place]] != mark:
            place += 1  # most entries lead from nothing that was reached
            continue
        time = timeline.time[place]
        end = place + 1
        if strict:
            is_followed = end < entries and timeline.time[end] == time
            if _follow_entry(index, timeline, place, time, is_followed, replay) < 0:
                return np.int64(NEED_VECTORS)
            place = end
            continue
        while end < entries and timeline.time[end] == time:
            end += 1
        while place > 0 and timeline.time[place - 1] == time:
            place -= 1
        news = True
        while news:
            news = False
            for one in range(place, end):
                grown = _follow_entry(index, timeline, one, time, False, replay)
                if grown < 0:
                    return np.int64(NEED_VECTORS)
                news = news or grown > 0
        place = end
    return np.int64(DONE)


# --- paths through an edge ------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _note_path(timeline, node, root, value):
    fields = timeline.fields
    if fields.found_paths >= fields.found_capacity:
        return False
    timeline.found_node[fields.found_paths] = node
    timeline.found_root[fields.found_paths] = root
    timeline.found_value[fields.found_paths] = value
    fields.found_paths += 1
    return True


@njit(cache=True, nogil=True)
def _leads_to(index, timeline, first, vertex):
    """Return whether an entry from a place on leads to a vertex."""
    program = index.program
    for one in range(first, timeline.fields.count):
        if timeline.target[one] == vertex and program.forward[timeline.label[one]] >= 0:
            return True
        if timeline.source[one] == vertex and program.inverse[timeline.label[one]] >= 0:
            return True
    return False


@njit(cache=True, nogil=True)
def _note_row(index, timeline, vertex, state, slide, node):
    """Note the roots in a row, whose paths an edge continues to a node. Return False if there is no room."""
    table, ended = index.table, ended_by(timeline, slide, index.state.now)
    row = row_at(index, vertex, state)
    if row < 0:
        return True
    for i in range(block_count(table, row)):
        number, block = nth_block(table, row, i)
        if live(table.values, block, ended) == ZERO:
            continue
        for lane in range(LANES):
            value = np.int64(table.values[block * LANES + lane])
            if value > ended:
                root = np.int64(table.slot_vertex[number * LANES + lane])
                if not _note_path(timeline, node, root, min(value, slide)):
                    return False
    return True


@njit(cache=True, nogil=True)
def _find_roots_through(index, timeline, place):
    """Note the roots with a path through an entry, by the node to which it leads. Return False if there is no room."""
    program, fields = index.program, timeline.fields
    states = program.sizes.states
    time, label = timeline.time[place], timeline.label[place]
    slide = min(timeline.slide[place] - index.state.base, index.settings.ceiling)
    fields.found_paths = 0
    for against in range(2):
        transition_class = np.int64(program.inverse[label]) if against else np.int64(program.forward[label])
        if transition_class < 0:
            continue
        u, v = np.int64(timeline.source[place]), np.int64(timeline.target[place])
        if against:
            u, v = v, u
        state = np.int64(program.start_target[transition_class])
        if state >= 0 and index.table.is_root[u] and not _note_path(timeline, v * states + state, u, slide):
            return False
        # If no later edge leads to u, its rows are what they were before the edge.
        is_unchanged = not _leads_to(index, timeline, entries_up_to(timeline, time - 1), u)
        for step in range(program.step_first[transition_class], program.step_first[transition_class + 1]):
            source = np.int64(program.step_source[step])
            node = v * states + program.step_target[step]
            if is_unchanged:
                if not _note_row(index, timeline, u, source, slide, node):
                    return False
                continue
            scan_back(index, timeline, u, source, time, slide, False)
            for i in range(fields.hits):
                root = timeline.hits[i]
                if not _note_path(timeline, node, root, width_of_root(index, timeline, root)):
                    return False
    return True


@njit(cache=True, nogil=True)
def _discard_unaffected_roots(index, timeline, place):
    """Discard roots with another path that arrives at the node no later than an entry and lasts as long."""
    fields = timeline.fields
    states, count = index.program.sizes.states, fields.found_paths
    time = timeline.time[place] + (1 if fields.strict != 0 else 0)
    size, first = np.int64(0), np.int64(0)
    fields.skipped_entry = place
    while first < count:
        node, last = timeline.found_node[first], first
        lowest = timeline.found_value[first]
        while last < count and timeline.found_node[last] == node:
            lowest = min(lowest, timeline.found_value[last])
            last += 1
        fields.lowest_slide = lowest
        scan_back(index, timeline, node // states, node % states, time, index.settings.ceiling, False)
        for one in range(first, last):
            root, value = timeline.found_root[one], timeline.found_value[one]
            if timeline.nodes[root * states].scan != fields.scan or width_of_root(index, timeline, root) < value:
                timeline.found_node[size] = node
                timeline.found_root[size] = root
                timeline.found_value[size] = value
                size += 1
        first = last
    fields.skipped_entry = -1
    fields.lowest_slide = 0
    fields.found_paths = size


@njit(cache=True, nogil=True)
def _set_columns(index, timeline, roots, count):
    """Assign columns to roots, which have slots, and store them as the widths of the start states in a new scan."""
    table, fields, states = index.table, timeline.fields, index.program.sizes.states
    fields.vectors = 0
    scan, slots, columns = begin_scan(timeline), index.state.slots, np.int64(0)
    is_few = count * count < slots
    for one in range(count):
        node = timeline.nodes[roots[one] * states]
        if node.scan == scan:
            continue
        node.scan = scan
        if is_few:
            slot, place = np.int64(table.slot_of[roots[one]]), columns
            while place > 0 and timeline.column_slot[place - 1] > slot:
                timeline.column_slot[place] = timeline.column_slot[place - 1]
                place -= 1
            timeline.column_slot[place] = slot
            columns += 1
    if not is_few:
        for candidate in range(slots):
            root = np.int64(table.slot_vertex[candidate])
            if root >= 0 and timeline.nodes[root * states].scan == scan:
                timeline.column_slot[columns] = candidate
                columns += 1
    for column in range(columns):
        root = np.int64(table.slot_vertex[timeline.column_slot[column]])
        timeline.nodes[root * states].width = column
        timeline.marks[root] = mark_of(scan)
    fields.columns = columns


@njit(cache=True, nogil=True)
def _find_paths_of_entry(index, timeline, place, is_delete):
    """Compute the vectors of the paths through an entry, with columns. After a code, the call must be repeated.

    The vector of a node has for each root the largest relative slide up to which a path from the root through the entry to
    the node lasts, 0 if there is none. With `is_delete`, the edge is about to be deleted, and roots with another path to its
    end that arrives no later and lasts as long are discarded.
    """
    fields = timeline.fields
    fields.vectors = fields.raised_count = fields.columns = 0
    if not _find_roots_through(index, timeline, place):
        return np.int64(NEED_FOUND)
    if is_delete:
        _discard_unaffected_roots(index, timeline, place)
    if fields.found_paths == 0:
        return np.int64(DONE)
    for one in range(fields.found_paths):
        root_slot(index, timeline.found_root[one])
    _set_columns(index, timeline, timeline.found_root, fields.found_paths)
    cells, states = _width(timeline) * LANES, index.program.sizes.states
    for one in range(fields.found_paths):
        vector = _vector_of(timeline, timeline.found_node[one])
        if vector < 0:
            return np.int64(NEED_VECTORS)
        timeline.marks[timeline.found_node[one] // states] = mark_of(fields.scan)
        cell = vector * cells + timeline.nodes[timeline.found_root[one] * states].width
        timeline.vectors[cell] = max(np.int64(timeline.vectors[cell]), timeline.found_value[one])
    time = timeline.time[place]
    first = entries_up_to(timeline, time if fields.strict != 0 else time - 1)
    return _follow_entries(index, timeline, first, False)


@njit(cache=True, nogil=True)
def find_trees(index, timeline, roots):
    """Compute the vectors of the paths of roots from the beginning of the window on. Return what `_find_paths_of_entry`
    returns."""
    program, fields = index.program, timeline.fields
    states, now = program.sizes.states, index.state.base + index.state.now
    fields.vectors = fields.raised_count = fields.columns = fields.found_paths = 0
    begin_scan(timeline)
    for root in roots:
        timeline.nodes[root * states].scan = fields.scan
    for place in range(fields.first, fields.count):
        if timeline.slide[place] <= now:
            continue
        label = timeline.label[place]
        for against in range(2):
            transition_class = np.int64(program.inverse[label]) if against else np.int64(program.forward[label])
            root = np.int64(timeline.target[place]) if against else np.int64(timeline.source[place])
            if transition_class < 0 or program.start_target[transition_class] < 0:
                continue
            if timeline.nodes[root * states].scan == fields.scan:
                timeline.nodes[root * states].scan = 0  # a root is noted once
                if not _note_path(timeline, np.int64(NO_NODE), root, np.int64(0)):
                    return np.int64(NEED_FOUND)
    if fields.found_paths == 0:
        return np.int64(DONE)
    for one in range(fields.found_paths):
        root_slot(index, timeline.found_root[one])
    _set_columns(index, timeline, timeline.found_root, fields.found_paths)
    return _follow_entries(index, timeline, fields.first, True)


@njit(cache=True, nogil=True)
def raise_vectors(index, timeline):
    """Raise the cells of the table to the values of vectors. Return a code of `apply_chunk`. RAISED_COUNT counts the
    finished vectors."""
    table, fields, now = index.table, timeline.fields, index.state.now
    states, cells = index.program.sizes.states, _width(timeline) * LANES
    while fields.raised_count < fields.vectors:
        node = timeline.vector_node[fields.raised_count]
        if node != NO_NODE:
            vertex, state = node // states, node % states
            row, number, block = row_at(index, vertex, state), np.int64(-1), np.int64(-1)
            for column in range(fields.columns):
                value = np.int64(timeline.vectors[fields.raised_count * cells + column])
                if value <= now:
                    continue
                slot = timeline.column_slot[column]
                if row >= 0:
                    if slot >> 6 != number:
                        number = slot >> 6
                        block = find(table, row, number)
                    if block >= 0 and np.int64(table.values[block * LANES + (slot & (LANES - 1))]) >= value:
                        continue
                code = raise_cell(index, timeline, np.int64(table.slot_vertex[slot]), vertex, state, value, False)
                if code != DONE:
                    return code
                row, number = row_at(index, vertex, state), np.int64(-1)
        fields.raised_count += 1
    return np.int64(DONE)


# --- deletes --------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _renew_cells(index, timeline, edge_vectors):
    """Set cells with the value of a path through a deleted edge to the value of the other paths. Return a code.

    The first `edge_vectors` vectors are those of the paths. The accepting pairs that are no longer answers are added to
    `found_node`, and counted in FOUND_PATHS. After a code, the next call continues.

    The values of the other paths are found by a scan back from each product node or, if there are many nodes or a span
    decides which paths go on, by following the paths of the roots from the beginning of the window on.
    """
    fields, states, width = timeline.fields, index.program.sizes.states, _width(timeline)
    fields.vectors = edge_vectors
    follows = edge_vectors > _SCANS * width or fields.span != UNLIMITED
    if follows:
        code = _follow_roots(index, timeline)
        if code != DONE:
            return code
    while fields.raised_count < edge_vectors:
        node = timeline.vector_node[fields.raised_count]
        if node != NO_NODE:
            if fields.found_paths + fields.columns > fields.found_capacity:
                return np.int64(NEED_FOUND)
            if follows:
                _renew_row(index, timeline, fields.raised_count, node)
            else:
                scan_back(index, timeline, node // states, node % states, np.int64(0), index.settings.ceiling, True)
                _renew_row_by_scan(index, timeline, fields.raised_count, node)
        fields.raised_count += 1
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def _follow_roots(index, timeline):
    """Follow the roots of the columns from the beginning of the window on. Return a code of `_follow_entries`."""
    table, states, scan = index.table, index.program.sizes.states, begin_scan(timeline)
    for column in range(timeline.fields.columns):
        vertex = np.int64(table.slot_vertex[timeline.column_slot[column]])
        root = timeline.nodes[vertex * states]
        root.scan = scan
        root.width = column
        timeline.marks[vertex] = mark_of(scan)
    return _follow_entries(index, timeline, timeline.fields.first, True)


@njit(cache=True, nogil=True)
def _renew_row(index, timeline, vector, node):
    """Set the cells of a row that have the values of a vector to those of the vector that the node has now."""
    now, ceiling, width, other_vector = index.state.now, index.settings.ceiling, _width(timeline), np.int64(-1)
    if timeline.nodes[node].scan == timeline.fields.scan:
        other_vector = timeline.nodes[node].width
    for one in range(width):
        block = vector * width + one
        lanes = live(timeline.vectors, block, now)
        if other_vector >= 0:  # cells to which other paths give the same value do not change
            lanes &= ~reaching(timeline.vectors, block, other_vector * width + one, ceiling, now)
        while lanes != ZERO:
            lane = trailing_zeros(lanes)
            lanes &= lanes - ONE
            value = np.int64(0)
            if other_vector >= 0:
                value = np.int64(timeline.vectors[(other_vector * width + one) * LANES + lane])
            old_value = np.int64(timeline.vectors[block * LANES + lane])
            _renew_cell(index, timeline, node, timeline.column_slot[one * LANES + lane], old_value, value)


@njit(cache=True, nogil=True)
def _renew_row_by_scan(index, timeline, vector, node):
    """Set the cells of a row that have the values of a vector to the widths of the last scan."""
    now, states, cells = index.state.now, index.program.sizes.states, _width(timeline) * LANES
    for column in range(timeline.fields.columns):
        old_value, slot = np.int64(timeline.vectors[vector * cells + column]), timeline.column_slot[column]
        if old_value > now:
            found = timeline.nodes[np.int64(index.table.slot_vertex[slot]) * states]
            value = found.width if found.scan == timeline.fields.scan else np.int64(0)
            _renew_cell(index, timeline, node, slot, old_value, value)


@njit(cache=True, nogil=True, forceinline=True)
def _renew_cell(index, timeline, node, slot, old_value, value):
    """Set the cell of a slot to a value if it has the value `old_value`, and note the pair if it is no longer an answer."""
    program, table, fields, states = index.program, index.table, timeline.fields, index.program.sizes.states
    vertex, state, row = node // states, node % states, np.int64(table.row_of[node])
    cell = find(table, row, slot >> 6) * LANES + (slot & (LANES - 1))
    if np.int64(table.values[cell]) != old_value or value >= old_value:
        return
    table.values[cell] = value
    if value > index.state.now:
        table.low[row] = min(table.low[row], value)
    elif program.accepting[state] != 0 and table.is_target[vertex] != 0:
        root = np.int64(table.slot_vertex[slot])
        if table.hops[cell] != 0 if index.settings.marks else not is_answer(index, root, vertex):
            timeline.found_node[fields.found_paths] = root << 32 | vertex
            fields.found_paths += 1


@njit(cache=True, nogil=True)
def is_answer(index, root, vertex):
    """Return whether a root has a live cell in an accepting state of a vertex."""
    program, table = index.program, index.table
    slot = np.int64(table.slot_of[root])
    if slot < 0:
        return False
    for i in range(program.sizes.accepting):
        cell = cell_at(index, vertex, np.int64(program.accepting_states[i]), slot)
        if cell >= 0 and np.int64(table.values[cell]) > index.state.now:
            return True
    return False


# --- tuples ---------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def raise_late_edge(index, timeline, place):
    """Raise the cells of paths through an entry that is not the newest, with the codes and phases of `apply_chunk`."""
    fields = index.state
    if fields.phase == RAISING:
        code = _find_paths_of_entry(index, timeline, place, False)
        if code != DONE:
            return code
        fields.phase = RAISING_FOUND
    return raise_vectors(index, timeline)


@njit(cache=True, nogil=True)
def delete_edge(index, timeline, edge):
    """Remove the entries of an edge of the graph, and report the lost pairs, with the codes and phases of `apply_chunk`."""
    fields, output = index.state, index.output
    while True:
        if fields.phase == LOSING:
            place = newest_entry(timeline, edge, fields.base + fields.now)
            if place < 0:
                return np.int64(DONE)
            code = _find_paths_of_entry(index, timeline, place, True)
            if code != DONE:
                return code
            remove(timeline, place)
            timeline.fields.found_paths = 0
            timeline.fields.edge_vectors = timeline.fields.vectors
            fields.phase = RENEWING
        if fields.phase == RENEWING:
            if timeline.fields.edge_vectors > 0:
                code = _renew_cells(index, timeline, timeline.fields.edge_vectors)
                if code != DONE:
                    return code
            fields.phase = REPORTING
        if fields.out + timeline.fields.found_paths > fields.out_capacity:
            return np.int64(NEED_OUTPUT)
        for one in range(timeline.fields.found_paths):
            output.pairs[fields.out] = timeline.found_node[one]
            fields.out += 1
        fields.phase = LOSING
