"""The kernels of ordered paths that Python calls, with views of an index, of its timeline and of a chunk.

An edge that is the newest goes in with a row operation for each transition (`_raise_edge`), or, where a gap or a span
bounds the paths, with a scan back from it (`_raise_paths`). Inserts out of order and deletes are computed in
`through.py`, and where paths are bounded by `raise_late` and `renew_row`: forward from the edge the steps that can
follow are found; for a late insert each of them raises what it leads to, and after a delete the rows that they lead
to are read from the timeline.
"""

import numpy as np

from rpq.compiled.arrays.lanes import LANES
from rpq.compiled.cycle_counter import count_ticks
from rpq.compiled.intrinsics import cycles
from rpq.compiled.kernel_cache import njit
from rpq.operators.paths.index.apply import link, move_clock
from rpq.operators.paths.index.layout import (
    BASE,
    CEILING,
    DONE,
    EVENT_CAPACITY,
    EVENTS,
    HAS_TIME,
    IDLE,
    INSERTING,
    LOSING,
    NEED_OUTPUT,
    NEXT_BOUNDARY,
    NOW,
    OUTCOMES,
    PHASE,
    SIZE,
    SLIDE,
    STARTED,
    TIME,
    TIMED,
    TUPLE,
    WITNESS,
    WITNESSING,
)
from rpq.operators.paths.index.rows import block_count, cell_at, end_event, nth_block, row_at
from rpq.operators.paths.ordered.cells import close_moment, raise_cell, raise_row
from rpq.operators.paths.ordered.scans import arrive, scan_back, scan_forward, width_of_root
from rpq.operators.paths.ordered.timeline import (
    CAPACITY,
    COUNT,
    FIRST,
    GAP,
    GREW,
    HITS,
    IS_OPEN,
    MOMENT,
    NEED_DELETE,
    NEED_LATE,
    NEED_TIMELINE,
    NEED_WITNESS,
    SCAN,
    SPAN,
    STRICT,
    UNLIMITED,
    enter,
    entries_before,
    skip_left,
)
from rpq.operators.paths.program import ACCEPTING, STATES
from rpq.stream.outcomes import ABSENT, DELETED, INSERTED, IRRELEVANT, LATE, leaving_slide

RAISING = 6  # a value of PHASE: Python raises what a late insert changes


@njit(cache=True, nogil=True, forceinline=True)
def _is_bounded(timeline):
    return timeline.fields[GAP] != UNLIMITED or timeline.fields[SPAN] != UNLIMITED


@njit(cache=True, nogil=True, forceinline=True)
def _value_of(index, slide):
    """Return a relative slide as a cell can hold it."""
    return min(slide, index.settings[CEILING])


@njit(cache=True, nogil=True)
def _raise_edge(index, timeline, u, v, transition_class, slide, copies):
    """Raise what an edge that comes last leads to in one direction, by row operations."""
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
def _raise_found(index, timeline, vertex, state):
    """Raise the cells of the roots that the last scan found in row (vertex, state)."""
    for i in range(timeline.fields[HITS]):
        root = timeline.hits[i]
        code = raise_cell(index, timeline, root, vertex, state, width_of_root(index, timeline, root), False)
        if code != DONE:
            return code
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def _raise_paths(index, timeline, u, v, transition_class, time, slide):
    """Raise what paths that end with an edge in one direction lead to, by scans back from it."""
    program = index.program
    state = np.int64(program.start_target[transition_class])
    if state >= 0 and index.table.is_root[u]:
        code = raise_cell(index, timeline, u, v, state, slide, False)
        if code != DONE:
            return code
    for step in range(program.step_first[transition_class], program.step_first[transition_class + 1]):
        scan_back(index, timeline, u, np.int64(program.step_source[step]), time, slide, False)
        code = _raise_found(index, timeline, v, np.int64(program.step_target[step]))
        if code != DONE:
            return code
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def _raise_entry(index, timeline, place, copies):
    """Raise what an entry leads to in both its directions; the newest one, or of the newest moment."""
    program = index.program
    slide = _value_of(index, timeline.slide[place] - index.state[BASE])
    if slide <= index.state[NOW]:
        return np.int64(DONE)
    forward = np.int64(program.forward[timeline.label[place]])
    inverse = np.int64(program.inverse[timeline.label[place]])
    u, v = np.int64(timeline.source[place]), np.int64(timeline.target[place])
    code = np.int64(DONE)
    if _is_bounded(timeline):
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
def raise_newest(index, timeline, copies):
    """Raise what the last entry leads to. Where edges of a moment may follow each other, so do those that it changes.

    May be called again after it returned a code: what grew is noted in GREW, which the caller has cleared before.
    """
    fields = timeline.fields
    newest = fields[COUNT] - 1
    code = _raise_entry(index, timeline, newest, copies)
    if code != DONE or fields[STRICT] != 0:
        return code
    first = entries_before(timeline, timeline.time[newest])
    if _is_bounded(timeline):  # scans find whole paths, and a path may matter that raised nothing by itself
        for place in range(first, newest):
            code = _raise_entry(index, timeline, place, False)
            if code != DONE:
                return code
        return np.int64(DONE)
    label, loop = timeline.label[newest], timeline.source[newest] == timeline.target[newest]
    follows_itself = loop or (index.program.forward[label] >= 0 and index.program.inverse[label] >= 0)  # there and back
    while (first < newest or follows_itself) and fields[GREW] != 0:
        fields[GREW] = 0
        for place in range(first, newest + 1):
            code = _raise_entry(index, timeline, place, False)
            if code != DONE:
                fields[GREW] = 1
                return code
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def _begin_insert(index, timeline, chunk, i, moment, forward, inverse):
    fields, settings, graph, notes = index.state, index.settings, index.graph, timeline.fields
    edge = np.int64(chunk.edge[i])
    slide = leaving_slide(chunk.timestamp[i], settings[SIZE], settings[SLIDE])
    if edge < 0 or slide <= fields[BASE] + fields[NOW]:
        fields[OUTCOMES + LATE] += 1
        return np.int64(DONE)
    if notes[COUNT] >= notes[CAPACITY]:
        return np.int64(NEED_TIMELINE)
    u, v = np.int64(chunk.source[i]), np.int64(chunk.target[i])
    if not graph.linked[edge]:
        code = link(index, edge, u, v, forward, inverse)
        if code != DONE:
            return code
    fields[OUTCOMES + INSERTED] += 1
    graph.expiry[edge] = max(_value_of(index, slide - fields[BASE]), np.int64(graph.expiry[edge]))
    is_late = moment < notes[MOMENT] or (moment == notes[MOMENT] and notes[STRICT] != 0 and notes[IS_OPEN] == 0)
    if moment > notes[MOMENT]:
        close_moment(index, timeline)
        notes[MOMENT] = moment
        notes[IS_OPEN] = 1
    enter(timeline, moment, slide, u, v, np.int64(chunk.label[i]), edge)
    notes[GREW] = 0
    fields[PHASE] = RAISING if is_late else INSERTING
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def _needs_copies(timeline, times, i, count, is_read_back):
    """Return whether edges of the moment, or another transition of this edge, may read what it changes."""
    if timeline.fields[STRICT] == 0 or _is_bounded(timeline):
        return False
    return is_read_back or i + 1 >= count or times.timestamp[i + 1] <= times.timestamp[i]


@njit(cache=True, nogil=True)
def apply_chunk(index, timeline, chunk, times, count):
    """Apply the tuples of a chunk from TUPLE on; return DONE, or what Python must do before the next call.

    Their order in time is that of the timestamps of the chunk `times`.
    """
    fields, program, notes = index.state, index.program, timeline.fields
    while fields[TUPLE] < count:
        i = fields[TUPLE]
        label = np.int64(chunk.label[i])
        forward = np.int64(program.forward[label])
        inverse = np.int64(program.inverse[label])
        if fields[PHASE] == IDLE:
            relevant = forward >= 0 or inverse >= 0
            if relevant:
                if fields[EVENTS] >= fields[EVENT_CAPACITY]:
                    return np.int64(NEED_OUTPUT)
                fields[STARTED] = cycles()
            code = _move_clock(index, timeline, chunk.timestamp[i], 2 * i)
            if code != DONE:
                return code
            if not relevant:
                fields[OUTCOMES + IRRELEVANT] += 1
                fields[TUPLE] += 1
                continue
            if chunk.delete[i]:
                edge = np.int64(chunk.edge[i])
                if edge < 0 or np.int64(index.graph.expiry[edge]) <= fields[NOW]:
                    fields[OUTCOMES + ABSENT] += 1
                else:
                    fields[OUTCOMES + DELETED] += 1
                    fields[PHASE] = LOSING
            else:
                code = _begin_insert(index, timeline, chunk, i, times.timestamp[i], forward, inverse)
                if code != DONE:
                    return code
        if fields[PHASE] == RAISING:
            return np.int64(NEED_LATE)
        if fields[PHASE] == LOSING:
            return np.int64(NEED_DELETE)
        if fields[PHASE] == INSERTING:
            is_read_back = chunk.source[i] == chunk.target[i] or (forward >= 0 and inverse >= 0)
            copies = _needs_copies(timeline, times, i, count, is_read_back)
            code = raise_newest(index, timeline, copies)
            if code != DONE:
                return code
            if not copies and not _is_bounded(timeline):
                notes[IS_OPEN] = 0
            if index.settings[WITNESS] != 0:
                fields[PHASE] = WITNESSING
        if fields[PHASE] == WITNESSING:
            return np.int64(NEED_WITNESS)
        finish_tuple(index, chunk, i)
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def finish_tuple(index, chunk, i):
    """End the event of a tuple, and go on to the next one."""
    fields = index.state
    if fields[PHASE] != IDLE:
        end_event(index, fields[TIME], -1 if chunk.delete[i] else 1, 2 * i + 1)
        fields[PHASE] = IDLE
    spent = cycles() - fields[STARTED]
    count_ticks(index.latency, spent)
    if i < fields[TIMED]:
        index.spent[i] += spent
    fields[TUPLE] += 1


@njit(cache=True, nogil=True)
def _move_clock(index, timeline, time, order):
    fields = index.state
    crosses = fields[HAS_TIME] == 0 or (time > fields[TIME] and time >= fields[NEXT_BOUNDARY])
    if crosses:
        close_moment(index, timeline)
    code = move_clock(index, time, order)
    if code == DONE and crosses:
        skip_left(timeline, fields[BASE] + fields[NOW])
    return code


@njit(cache=True, nogil=True)
def advance(index, timeline, time):
    """Move the stream time; codes as `apply_chunk`."""
    return _move_clock(index, timeline, time, 0)


@njit(cache=True, nogil=True)
def load_entries(index, timeline, entries, count):
    """Enter edges, the oldest first, that were there before; codes as `apply_chunk`, and what was done is in TUPLE."""
    fields, program, graph, notes = index.state, index.program, index.graph, timeline.fields
    while fields[TUPLE] < count:
        i = fields[TUPLE]
        if fields[PHASE] == IDLE:
            edge = np.int64(entries.edge[i])
            u, v, label = np.int64(entries.source[i]), np.int64(entries.target[i]), np.int64(entries.label[i])
            if notes[COUNT] >= notes[CAPACITY]:
                return np.int64(NEED_TIMELINE)
            if not graph.linked[edge]:
                code = link(index, edge, u, v, np.int64(program.forward[label]), np.int64(program.inverse[label]))
                if code != DONE:
                    return code
            slide = _value_of(index, entries.slide[i] - fields[BASE])
            graph.expiry[edge] = max(slide, np.int64(graph.expiry[edge]))
            if entries.time[i] > notes[MOMENT]:
                close_moment(index, timeline)
                notes[MOMENT] = entries.time[i]
                notes[IS_OPEN] = 1
            enter(timeline, entries.time[i], entries.slide[i], u, v, label, edge)
            notes[GREW] = 0
            fields[PHASE] = INSERTING
        copies = notes[STRICT] != 0 and not _is_bounded(timeline)
        code = raise_newest(index, timeline, copies)
        if code != DONE:
            return code
        fields[PHASE] = IDLE
        fields[TUPLE] += 1
    return np.int64(DONE)


# --- what comes out of order ----------------------------------------------------------------------------------

@njit(cache=True, nogil=True)
def end_moment(index, timeline):
    """Release the copies of the present moment."""
    close_moment(index, timeline)


@njit(cache=True, nogil=True)
def _arrive_with(index, timeline, u, v, transition_class, time):
    program = index.program
    states = program.sizes[STATES]
    if program.start_target[transition_class] >= 0:
        arrive(timeline, v * states + program.start_target[transition_class], time)
    for step in range(program.step_first[transition_class], program.step_first[transition_class + 1]):
        arrive(timeline, v * states + program.step_target[step], time)


@njit(cache=True, nogil=True)
def steps_after(index, timeline, u, v, label, time):
    """Return the steps that may follow an edge, as `scan_forward`."""
    program = index.program
    timeline.fields[SCAN] += 1
    if program.forward[label] >= 0:
        _arrive_with(index, timeline, u, v, np.int64(program.forward[label]), time)
    if program.inverse[label] >= 0:
        _arrive_with(index, timeline, v, u, np.int64(program.inverse[label]), time)
    return scan_forward(index, timeline, time)


@njit(cache=True, nogil=True)
def _target_of_step(index, timeline, step):
    """Return the vertex from which a step leads, that to which it leads, and the state there."""
    program = index.program
    states = program.sizes[STATES]
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
def raise_late(index, timeline, place, steps, done):
    """Raise what the paths lead to that end with an entry or with a step after it; codes as `apply_chunk`.

    `done` (int64[1]) is the number of steps that are done, -1 at first, from where the next call goes on.
    """
    states = index.program.sizes[STATES]
    if done[0] < 0:
        program = index.program
        slide = _value_of(index, timeline.slide[place] - index.state[BASE])
        u, v, label = np.int64(timeline.source[place]), np.int64(timeline.target[place]), timeline.label[place]
        code = np.int64(DONE)
        if program.forward[label] >= 0:
            code = _raise_paths(index, timeline, u, v, np.int64(program.forward[label]), timeline.time[place], slide)
        if code == DONE and program.inverse[label] >= 0:
            code = _raise_paths(index, timeline, v, u, np.int64(program.inverse[label]), timeline.time[place], slide)
        if code != DONE:
            return code
        done[0] = 0
    while done[0] < len(steps):
        step = steps[done[0]]
        after = (step >> 1) // states
        slide = _value_of(index, timeline.slide[after] - index.state[BASE])
        u, v, state = _target_of_step(index, timeline, step)
        scan_back(index, timeline, u, (step >> 1) % states, timeline.time[after], slide, False)
        code = _raise_found(index, timeline, v, state)
        if code != DONE:
            return code
        done[0] += 1
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def nodes_after(index, timeline, u, v, label, time):
    """Return the product nodes to which paths through an edge may lead (vertex * states + state), some twice."""
    program = index.program
    states = program.sizes[STATES]
    steps = steps_after(index, timeline, u, v, label, time)
    nodes = np.empty(len(steps) + 2 * states, np.int64)
    count = np.int64(0)
    for step in steps:
        _, vertex, state = _target_of_step(index, timeline, step)
        nodes[count] = vertex * states + state
        count += 1
    for state in range(1, states):
        for against in range(2):
            transition_class = np.int64(program.inverse[label]) if against else np.int64(program.forward[label])
            if transition_class < 0:
                continue
            is_target = program.start_target[transition_class] == state
            for one in range(program.step_first[transition_class], program.step_first[transition_class + 1]):
                is_target = is_target or program.step_target[one] == state
            if is_target:
                nodes[count] = (u if against else v) * states + state
                count += 1
    return nodes[:count]


@njit(cache=True, nogil=True)
def _note_best(index, timeline, first):
    """Note the best value of each root that the last scan found; `first` is the number of the first of these scans."""
    for i in range(timeline.fields[HITS]):
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
    """Find the value of every root in a row from the timeline: in `best`, where `best_scan` is the returned number."""
    program, fields = index.program, timeline.fields
    first = fields[SCAN]
    if fields[SPAN] == UNLIMITED:
        scan_back(index, timeline, vertex, state, np.int64(0), index.settings[CEILING], True)
        _note_best(index, timeline, first)
        return first + 1
    fields[SCAN] += 1
    for place in range(fields[FIRST], fields[COUNT]):
        slide = _value_of(index, timeline.slide[place] - index.state[BASE])
        if slide <= index.state[NOW]:
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
def renew_row(index, timeline, node, lost):
    """Compute the cells of a row again after a delete; return (accepting pairs that died, their array)."""
    program, table, fields = index.program, index.table, index.state
    states = program.sizes[STATES]
    vertex, state = node // states, node % states
    count = np.int64(0)
    row = row_at(index, vertex, state)
    if row < 0:
        return count, lost
    number_of_scan = _values_at(index, timeline, vertex, state)
    accepts = program.accepting[state] != 0
    now = fields[NOW]
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
                if count >= len(lost):
                    lost = np.concatenate((lost, np.empty_like(lost)))
                lost[count] = root << 32 | vertex
                count += 1
    return count, lost


@njit(cache=True, nogil=True)
def is_answer(index, root, vertex):
    """Return whether an accepting state of a vertex holds a root."""
    program, table = index.program, index.table
    slot = np.int64(table.slot_of[root])
    if slot < 0:
        return False
    for i in range(program.sizes[ACCEPTING]):
        cell = cell_at(index, vertex, np.int64(program.accepting_states[i]), slot)
        if cell >= 0 and np.int64(table.values[cell]) > index.state[NOW]:
            return True
    return False


@njit(cache=True, nogil=True)
def keep_lost(index, pairs, count):
    """Keep of pairs those that are answers no more and may be reported, in place; return their number."""
    kept = np.int64(0)
    for i in range(count):
        root, vertex = pairs[i] >> 32, pairs[i] & 0xFFFFFFFF
        if index.table.is_target[vertex] and not is_answer(index, root, vertex):
            pairs[kept] = pairs[i]
            kept += 1
    return kept
