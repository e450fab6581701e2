"""The kernels of ordered paths that Python calls, with views of an index, of its timeline and of a chunk.

The newest edge is applied by a row operation for each transition (`_raise_edge`), and `edge_paths.py` computes late inserts
and deletes. Where cells do not tell which paths an edge may continue (`timeline.py`), the newest edge is applied by a scan
back from it (`_raise_paths`) if any path leads to it. There `raise_steps` and `renew_rows` compute late inserts and deletes:
they first find the steps that can follow the edge. After a late insert, each of these steps raises the cells to which it
leads; after a delete, the rows to which they lead are computed again from the timeline.
"""

import numpy as np

from rpq.compiled.arrays.lanes import LANES, live
from rpq.compiled.intrinsics import population, trailing_zeros
from rpq.compiled.kernel_cache import njit
from rpq.operators.paths.index.apply import begin_delete, cross_to
from rpq.operators.paths.index.expiry import is_sweep_due, note_sweep, sweep_rows
from rpq.operators.paths.index.layout import DONE, IDLE, INSERTING, LOSING, WITNESSING
from rpq.operators.paths.index.rows import ONE, ZERO, block_count, free_slot, nth_block, row_at
from rpq.operators.paths.index.tuples import apply_each, clock_at, move_clock
from rpq.operators.paths.ordered.cells import close_moment, raise_cell, raise_row
from rpq.operators.paths.ordered.edge_paths import (
    RAISING,
    RAISING_FOUND,
    RENEWING,
    REPORTING,
    SETTLING,
    delete_edge,
    find_trees,  # noqa: F401  `OrderedIndex` calls it by its name here
    is_answer,
    raise_late_edge,
    raise_vectors,  # noqa: F401
)
from rpq.operators.paths.ordered.layers import cross_with_lengths, settle
from rpq.operators.paths.ordered.scans import arrive, scan_back, scan_forward, width_of_root
from rpq.operators.paths.ordered.timeline import (
    NEED_DELETE,
    NEED_FOUND,
    NEED_LATE,
    NEED_STEPS,
    NEED_TIMELINE,
    NEED_WITNESS,
    UNLIMITED,
    begin_scan,
    enter,
    entries_up_to,
    mark_of,
    skip_expired_entries,
)
from rpq.stream.edges.outcomes import LATE, leaving_slide, outcome_of


@njit(cache=True, nogil=True, forceinline=True)
def _value_of(index, slide):
    """Return a relative slide as the value of a cell."""
    return min(slide, index.settings.ceiling)


@njit(cache=True, nogil=True)
def _raise_edge(index, timeline, u, v, transition_class, slide, copies):
    """Raise the cells to which the newest edge leads in one direction, by row operations."""
    program = index.program
    state = np.int64(program.start_target[transition_class])
    if state >= 0 and index.table.is_root[u]:
        code = raise_cell(index, timeline, u, v, state, slide, copies)
        if code != DONE:
            return code
    for step in range(program.step_first[transition_class], program.step_first[transition_class + 1]):
        row = row_at(index, u, np.int64(program.step_source[step]))
        if row >= 0:
            code = raise_row(index, timeline, row, v, np.int64(program.step_target[step]), slide, copies)
            if code != DONE:
                return code
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def _raise_hits(index, timeline, vertex, state):
    """Raise the cells of the roots that the last scan found in row (vertex, state)."""
    for i in range(timeline.fields.hits):
        root = timeline.hits[i]
        code = raise_cell(index, timeline, root, vertex, state, width_of_root(index, timeline, root), False)
        if code != DONE:
            return code
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def _has_path(index, vertex, state):
    """Return whether row (vertex, state) has a live cell of a root."""
    table = index.table
    row = row_at(index, vertex, state)
    if row < 0:
        return False
    for i in range(block_count(table, row)):
        number, block = nth_block(table, row, i)
        lanes = live(table.values, block, index.state.now)
        while lanes != ZERO:  # while trees grow, slots of others are no roots
            if table.is_root[table.slot_vertex[number * LANES + trailing_zeros(lanes)]]:
                return True
            lanes &= lanes - ONE
    return False


@njit(cache=True, nogil=True)
def _raise_paths(index, timeline, u, v, transition_class, time, slide):
    """Raise the cells of paths that end with an edge in one direction, by scans back from it.

    What such a path is without the edge is one too, and has a cell.
    """
    program = index.program
    state = np.int64(program.start_target[transition_class])
    if state >= 0 and index.table.is_root[u]:
        code = raise_cell(index, timeline, u, v, state, slide, False)
        if code != DONE:
            return code
    for step in range(program.step_first[transition_class], program.step_first[transition_class + 1]):
        if not _has_path(index, u, np.int64(program.step_source[step])):
            continue
        scan_back(index, timeline, u, np.int64(program.step_source[step]), time, slide, False)
        code = _raise_hits(index, timeline, v, np.int64(program.step_target[step]))
        if code != DONE:
            return code
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def _raise_entry(index, timeline, place, copies):
    """Raise the cells to which an entry, of the newest moment, leads in both its directions."""
    program = index.program
    slide = _value_of(index, timeline.slide[place] - index.state.base)
    if slide <= index.state.now:
        return np.int64(DONE)
    forward = np.int64(program.forward[timeline.label[place]])
    inverse = np.int64(program.inverse[timeline.label[place]])
    u, v = np.int64(timeline.source[place]), np.int64(timeline.target[place])
    code = np.int64(DONE)
    if timeline.fields.scans != 0:
        if forward >= 0:
            code = _raise_paths(index, timeline, u, v, forward, timeline.time[place], slide)
        if code == DONE and inverse >= 0:
            code = _raise_paths(index, timeline, v, u, inverse, timeline.time[place], slide)
        return code
    if forward >= 0:
        code = _raise_edge(index, timeline, u, v, forward, slide, copies)
    if code == DONE and inverse >= 0:
        code = _raise_edge(index, timeline, v, u, inverse, slide, copies)
    return code


@njit(cache=True, nogil=True)
def raise_entries(index, timeline):
    """Raise the cells to which entries lead, from number RAISED_COUNT on, by scans back. Return a code, after which the next
    call continues."""
    fields = timeline.fields
    while fields.raised_count < fields.count:
        code = _raise_last_entry(index, timeline, fields.raised_count, False)
        if code != DONE:
            return code
        fields.raised_count += 1
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def _raise_last_entry(index, timeline, last, copies):
    """Raise the cells to which an entry leads and, if edges of one moment may follow each other, their successors.

    Entries before it have raised theirs. After a code, the call can be repeated: HAS_GROWN, which the caller clears before
    the first call, records whether a cell grew.
    """
    fields = timeline.fields
    code = _raise_entry(index, timeline, last, copies)
    if code != DONE or fields.strict != 0:
        return code
    first = entries_up_to(timeline, timeline.time[last] - 1)
    label, loop = timeline.label[last], timeline.source[last] == timeline.target[last]
    follows_itself = loop or (index.program.forward[label] >= 0 and index.program.inverse[label] >= 0)  # there and back
    if fields.scans != 0:
        fields.has_grown = 1  # scans find whole paths: one may matter although its last step raised no cell
    while (first < last or follows_itself) and fields.has_grown != 0:
        fields.has_grown = 0
        for place in range(first, last + 1):
            code = _raise_entry(index, timeline, place, False)
            if code != DONE:
                fields.has_grown = 1
                return code
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def _begin(index, timeline, chunk, i, u, v, forward, inverse):
    fields, settings, graph, notes = index.state, index.settings, index.graph, timeline.fields
    edge, moment = np.int64(chunk.edge[i]), chunk.timestamp[i]
    if chunk.delete[i]:
        begin_delete(index, edge, DONE)
        if fields.phase == LOSING:
            close_moment(index, timeline)
        return np.int64(DONE)
    slide = leaving_slide(clock_at(index, moment), settings.size, settings.slide)
    outcome = outcome_of(False, False, edge < 0 or slide <= fields.base + fields.now)  # edges are parallel: each is new
    if outcome == LATE:
        fields.outcomes[outcome] += 1
        return np.int64(DONE)
    if notes.count >= notes.capacity:
        return np.int64(NEED_TIMELINE)
    fields.outcomes[outcome] += 1
    graph.expiry[edge] = max(_value_of(index, slide - fields.base), np.int64(graph.expiry[edge]))
    is_out_of_order = moment < notes.moment or (moment == notes.moment and notes.strict != 0 and notes.is_open == 0)
    if moment > notes.moment:
        close_moment(index, timeline)
        notes.moment = moment
        notes.is_open = 1
    enter(timeline, moment, slide, u, v, np.int64(chunk.label[i]), edge)
    notes.has_grown = 0
    if is_out_of_order:
        close_moment(index, timeline)
    fields.phase = RAISING if is_out_of_order else INSERTING
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def _needs_copies(timeline, chunk, i, count, is_read_back):
    """Return whether edges of the moment, or another transition of this edge, may read the rows that this edge changes."""
    if timeline.fields.strict == 0 or timeline.fields.scans != 0:
        return False
    return is_read_back or i + 1 >= count or chunk.timestamp[i + 1] <= chunk.timestamp[i]


@njit(cache=True, nogil=True)
def _resume(index, timeline, chunk, i, count, u, v, forward, inverse):
    if index.state.phase != SETTLING:
        code = _change(index, timeline, chunk, i, count, u, v, forward, inverse)
        if code != DONE or index.settings.marks == 0:
            return code
        index.state.phase = SETTLING
    return settle(index, timeline, index.state.time, 2 * i + 1)


@njit(cache=True, nogil=True)
def _change(index, timeline, chunk, i, count, u, v, forward, inverse):
    """Change the cells for a tuple from its phase on. Return a code."""
    fields = index.state
    if fields.phase == RAISING or fields.phase == RAISING_FOUND:
        if timeline.fields.scans != 0:
            return np.int64(NEED_LATE)
        code = raise_late_edge(index, timeline, entries_up_to(timeline, chunk.timestamp[i]) - 1)
        if code != DONE:
            return code
        fields.phase = WITNESSING
    elif fields.phase == LOSING or fields.phase == RENEWING or fields.phase == REPORTING:
        return np.int64(NEED_DELETE) if timeline.fields.scans != 0 else delete_edge(index, timeline, np.int64(chunk.edge[i]))
    elif fields.phase == INSERTING:
        # Without copies the moment is over: if another edge of it comes nevertheless, it is treated as late.
        copies = _needs_copies(timeline, chunk, i, count, u == v or (forward >= 0 and inverse >= 0))
        code = _raise_last_entry(index, timeline, timeline.fields.count - 1, copies)
        if code != DONE:
            return code
        if not copies and timeline.fields.scans == 0:
            timeline.fields.is_open = 0
        fields.phase = WITNESSING
    has_paths = index.settings.witness != 0 and index.settings.marks == 0
    return np.int64(NEED_WITNESS if fields.phase == WITNESSING and has_paths else DONE)


@njit(cache=True, nogil=True)
def _cross(index, timeline, slide, order):
    close_moment(index, timeline)
    if index.settings.marks != 0:
        code = cross_with_lengths(index, timeline, slide, order)
    else:
        code = cross_to(index, slide, order)
    if code == DONE:
        skip_expired_entries(timeline, slide)
        if is_sweep_due(index, slide):
            sweep(index, timeline)
    return code


@njit(cache=True, nogil=True)
def apply_chunk(index, timeline, chunk, count):
    """Apply the tuples of a chunk, ordered by its timestamps. Return DONE, or a code for what Python must do first."""
    return apply_each(index, timeline, chunk, count, _cross, _begin, _resume)


@njit(cache=True, nogil=True)
def advance(index, timeline, time):
    """Advance the stream time. Return a code of `apply_chunk`."""
    return move_clock(index, timeline, time, np.int64(0), _cross)


@njit(cache=True, nogil=True)
def sweep(index, timeline):
    """Collect blocks and rows without a live cell, and slots of roots at which no path begins any more.

    There must be no copies.
    """
    table, program, fields, current = index.table, index.program, index.state, index.state.base + index.state.now
    sweep_rows(index)
    mark = mark_of(begin_scan(timeline))
    for place in range(timeline.fields.first, timeline.fields.count):
        if timeline.slide[place] <= current:
            continue
        forward, inverse = program.forward[timeline.label[place]], program.inverse[timeline.label[place]]
        if forward >= 0 and program.start_target[forward] >= 0:
            timeline.marks[timeline.source[place]] = mark
        if inverse >= 0 and program.start_target[inverse] >= 0:
            timeline.marks[timeline.target[place]] = mark
    for slot in range(fields.slots - 1, -1, -1):  # from the end, so that low slots are assigned first
        vertex = np.int64(table.slot_vertex[slot])
        if vertex >= 0 and timeline.marks[vertex] != mark:
            free_slot(index, slot)
    note_sweep(index)


@njit(cache=True, nogil=True)
def load_edges(index, timeline, entries, slides):
    """Enter earlier edges with their relative slides, the oldest first. Return a code of `apply_chunk`. `state.tuple` counts
    finished edges."""
    fields, graph, notes = index.state, index.graph, timeline.fields
    while fields.tuple < len(slides):
        i = fields.tuple
        if fields.phase == IDLE:
            edge = np.int64(entries.edge[i])
            u, v, label = np.int64(entries.source[i]), np.int64(entries.target[i]), np.int64(entries.label[i])
            if notes.count >= notes.capacity:
                return np.int64(NEED_TIMELINE)
            slide = _value_of(index, slides[i])
            graph.expiry[edge] = max(slide, np.int64(graph.expiry[edge]))
            if entries.time[i] > notes.moment:
                close_moment(index, timeline)
                notes.moment = entries.time[i]
                notes.is_open = 1
            enter(timeline, entries.time[i], entries.slide[i], u, v, label, edge)
            notes.has_grown = 0
            fields.phase = INSERTING
        copies = notes.strict != 0 and timeline.fields.scans == 0
        code = _raise_last_entry(index, timeline, notes.count - 1, copies)
        if code != DONE:
            return code
        fields.phase = IDLE
        fields.tuple += 1
    return np.int64(DONE)


# --- late inserts and deletes ---------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def end_moment(index, timeline):
    """Release the copies of the present moment."""
    close_moment(index, timeline)


@njit(cache=True, nogil=True)
def _arrive_with(index, timeline, u, v, transition_class, time):
    program = index.program
    states = program.sizes.states
    if program.start_target[transition_class] >= 0:
        arrive(timeline, v * states + program.start_target[transition_class], time)
    for step in range(program.step_first[transition_class], program.step_first[transition_class + 1]):
        arrive(timeline, v * states + program.step_target[step], time)


@njit(cache=True, nogil=True)
def find_later_steps(index, timeline, place):
    """Note the steps that may follow an entry. Return a code of `scan_forward`, which notes them."""
    program = index.program
    u, v = np.int64(timeline.source[place]), np.int64(timeline.target[place])
    label, time = timeline.label[place], timeline.time[place]
    begin_scan(timeline)
    if program.forward[label] >= 0:
        _arrive_with(index, timeline, u, v, np.int64(program.forward[label]), time)
    if program.inverse[label] >= 0:
        _arrive_with(index, timeline, v, u, np.int64(program.inverse[label]), time)
    timeline.fields.raised_count = -1
    return scan_forward(index, timeline, time)


@njit(cache=True, nogil=True)
def _target_of_step(index, timeline, step):
    """Return the source vertex of a step, its target vertex, and the state at the target."""
    program = index.program
    states = program.sizes.states
    place, source = (step >> 1) // states, (step >> 1) % states
    u, v = np.int64(timeline.source[place]), np.int64(timeline.target[place])
    label = timeline.label[place]
    transition_class = np.int64(program.forward[label])
    if step & 1:
        u, v = v, u
        transition_class = np.int64(program.inverse[label])
    state = np.int64(-1)
    for one in range(program.step_first[transition_class], program.step_first[transition_class + 1]):
        if program.step_source[one] == source:
            state = np.int64(program.step_target[one])
    return u, v, state


@njit(cache=True, nogil=True)
def raise_steps(index, timeline, place):
    """Raise the cells of paths that end with an entry or with a step noted after it. Return a code of `apply_chunk`.

    RAISED_COUNT is the number of finished steps, -1 at first. After a code, the next call continues with the next step.
    """
    fields, states = timeline.fields, index.program.sizes.states
    if fields.raised_count < 0:
        program = index.program
        slide = _value_of(index, timeline.slide[place] - index.state.base)
        u, v, label = np.int64(timeline.source[place]), np.int64(timeline.target[place]), timeline.label[place]
        code = np.int64(DONE)
        if program.forward[label] >= 0:
            code = _raise_paths(index, timeline, u, v, np.int64(program.forward[label]), timeline.time[place], slide)
        if code == DONE and program.inverse[label] >= 0:
            code = _raise_paths(index, timeline, v, u, np.int64(program.inverse[label]), timeline.time[place], slide)
        if code != DONE:
            return code
        fields.raised_count = 0
    while fields.raised_count < fields.step_count:
        step = timeline.steps[fields.raised_count]
        entry = (step >> 1) // states
        slide = _value_of(index, timeline.slide[entry] - index.state.base)
        u, v, state = _target_of_step(index, timeline, step)
        scan_back(index, timeline, u, (step >> 1) % states, timeline.time[entry], slide, False)
        code = _raise_hits(index, timeline, v, state)
        if code != DONE:
            return code
        fields.raised_count += 1
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def find_later_nodes(index, timeline, place):
    """Note in `steps` the product nodes to which paths through an entry may lead (vertex * states + state), some twice.

    Return a code. Unless it is DONE, the call must be repeated.
    """
    program, fields = index.program, timeline.fields
    states = program.sizes.states
    code = find_later_steps(index, timeline, place)
    if code != DONE:
        return code
    if fields.step_count + 2 * states > fields.step_capacity:
        return np.int64(NEED_STEPS)
    for one in range(fields.step_count):
        _, vertex, state = _target_of_step(index, timeline, timeline.steps[one])
        timeline.steps[one] = vertex * states + state
    u, v, label = np.int64(timeline.source[place]), np.int64(timeline.target[place]), timeline.label[place]
    for state in range(1, states):
        for against in range(2):
            transition_class = np.int64(program.inverse[label]) if against else np.int64(program.forward[label])
            if transition_class < 0:
                continue
            is_target = program.start_target[transition_class] == state
            for one in range(program.step_first[transition_class], program.step_first[transition_class + 1]):
                is_target = is_target or program.step_target[one] == state
            if is_target:
                timeline.steps[fields.step_count] = (u if against else v) * states + state
                fields.step_count += 1
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def _note_best(index, timeline, first):
    """Note the best value of each root that the last scan found. `first` is the number of the scan before these scans."""
    for i in range(timeline.fields.hits):
        root = timeline.hits[i]
        _note_value(timeline, root, width_of_root(index, timeline, root), first)


@njit(cache=True, nogil=True)
def _note_value(timeline, root, value, first):
    if timeline.best_scan[root] != first + 1:
        timeline.best_scan[root] = first + 1
        timeline.best[root] = value
    else:
        timeline.best[root] = max(timeline.best[root], value)


@njit(cache=True, nogil=True)
def _values_at(index, timeline, vertex, state):
    """Find the value of every root in a row from the timeline. Return a number: a root with this number in `best_scan` has
    its value in `best`."""
    program, fields = index.program, timeline.fields
    first = fields.scan
    if fields.span == UNLIMITED:
        scan_back(index, timeline, vertex, state, np.int64(0), index.settings.ceiling, True)
        _note_best(index, timeline, first)
        return first + 1
    begin_scan(timeline)
    for place in range(fields.first, fields.count):
        slide = _value_of(index, timeline.slide[place] - index.state.base)
        if slide <= index.state.now:
            continue
        for against in range(2):
            u, v = np.int64(timeline.source[place]), np.int64(timeline.target[place])
            label = timeline.label[place]
            transition_class = np.int64(program.inverse[label]) if against else np.int64(program.forward[label])
            if against:
                u, v = v, u
            if v != vertex or transition_class < 0:
                continue
            if program.start_target[transition_class] == state and index.table.is_root[u]:
                _note_value(timeline, u, slide, first)
            for one in range(program.step_first[transition_class], program.step_first[transition_class + 1]):
                if program.step_target[one] == state:
                    scan_back(index, timeline, u, np.int64(program.step_source[one]), timeline.time[place], slide, False)
                    _note_best(index, timeline, first)
    return first + 1


@njit(cache=True, nogil=True)
def renew_rows(index, timeline):
    """Recompute the cells in the rows of the nodes in `steps` after a delete. Return a code.

    The accepting pairs whose cells died are added to `found_node`, and counted in FOUND_PATHS. RAISED_COUNT is the number of
    finished rows; the next call continues with the next row.
    """
    table, fields = index.table, timeline.fields
    while fields.raised_count < fields.step_count:
        row = np.int64(table.row_of[timeline.steps[fields.raised_count]])
        if row >= 0:
            cells = np.int64(0)
            for i in range(block_count(table, row)):
                _, block = nth_block(table, row, i)
                cells += population(live(table.values, block, index.state.now))
            if fields.found_paths + cells > fields.found_capacity:
                return np.int64(NEED_FOUND)
            if cells > 0:
                _renew_row(index, timeline, row, timeline.steps[fields.raised_count])
        fields.raised_count += 1
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def _renew_row(index, timeline, row, node):
    program, table, fields, now = index.program, index.table, timeline.fields, index.state.now
    states = program.sizes.states
    vertex, state = node // states, node % states
    number_of_scan = _values_at(index, timeline, vertex, state)
    accepts = program.accepting[state] != 0
    for i in range(block_count(table, row)):
        number, block = nth_block(table, row, i)
        for lane in range(LANES):
            cell = block * LANES + lane
            if np.int64(table.values[cell]) <= now:
                continue
            root = np.int64(table.slot_vertex[number * LANES + lane])
            value = timeline.best[root] if timeline.best_scan[root] == number_of_scan else np.int64(0)
            table.values[cell] = value
            if value > now:
                table.low[row] = min(table.low[row], value)
            elif accepts:
                timeline.found_node[fields.found_paths] = root << 32 | vertex
                fields.found_paths += 1


@njit(cache=True, nogil=True)
def retain_lost_pairs(index, pairs, count):
    """Filter pairs in place: retain those that are no longer answers, or may have other lengths, and may be reported.

    Return their number.
    """
    size = np.int64(0)
    for i in range(count):
        root, vertex = pairs[i] >> 32, pairs[i] & 0xFFFFFFFF
        if index.table.is_target[vertex] and (index.settings.marks != 0 or not is_answer(index, root, vertex)):
            pairs[size] = pairs[i]
            size += 1
    return size
