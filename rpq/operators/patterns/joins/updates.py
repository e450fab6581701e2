"""The application of a stream: kernels cross boundaries, enter and remove edges, and write the rows of each change.

One edge of one relation changes at a time. An edge that enters is added to its relation, then its solutions are enumerated.
The solutions of an edge that leaves (by a delete, at a time boundary, or because a count window is full) are enumerated,
then the edge is removed. Meanwhile `PlanState.edge` is the edge, so that a call that stopped because the output was full
resumes there.

The changes of derived relations (the pairs of path atoms) do not follow from the tuples: the caller passes them as events in
order (`Changes`). At a boundary they are applied together with the edges that leave at that moment, in a tuple after the
edges.
"""

from __future__ import annotations

import numpy as np

from rpq.compiled.cycle_counter import count_ticks, has_passed
from rpq.compiled.intrinsics import cycles, prefetch_at
from rpq.compiled.kernel_cache import njit
from rpq.operators.patterns.joins.conditions import change_conditions
from rpq.operators.patterns.joins.delta_join import enumerate_edge
from rpq.operators.patterns.joins.supports import change_supports
from rpq.operators.patterns.relations.adjacency import place_of
from rpq.operators.patterns.relations.edges import (
    drop_edge,
    enter_window,
    find,
    find_labelled,
    label_of,
    leave_window,
    make_edge,
    make_younger,
    prefetch_edge,
    prefetch_record,
    stored_label,
)
from rpq.operators.patterns.relations.wheel import NEVER, first_edge, next_slide, slide_after
from rpq.operators.patterns.tables import (
    CHANGING,
    COUNT_WINDOW,
    CROSSING,
    DONE,
    EVICTING,
    LEAVING,
    LOW,
    NEED_TIME,
    NO_LABEL,
    NUMBERED,
    TIME_WINDOW,
    UNNUMBERED,
)
from rpq.stream.edges.outcomes import DELETED, INSERTED, NOT_HELD, outcome_of, outcome_without_edge

AHEAD = 12
"""The number of tuples by which prefetching is ahead."""
EDGES_BETWEEN_CHECKS = 1 << 12
"""The number of edges that leave, a power of two, after which a kernel looks whether its deadline has passed."""
CACHED = 1 << 16
"""The number of entries up to which a table fits into a cache, so that prefetching for edges that leave does not pay."""


@njit(cache=True, nogil=True, forceinline=True)
def _has_supports(relations, edge):
    """Return whether support lists depend on an edge."""
    return relations.relation[relations.edge[edge].relation].first_support >= 0


@njit(cache=True, nogil=True, forceinline=True)
def _count(relations, plans, relation, outcome):
    """Count the outcome of a tuple, in total and for its relation."""
    plans.state.outcomes[outcome] += 1
    relations.relation[relation].outcomes[outcome] += 1


@njit(cache=True, nogil=True, forceinline=True)
def _begin(relations, plans, edge, sign):
    """Begin the change by an edge that enters or leaves."""
    plans.state.edge = edge
    plans.state.seed = relations.relation[relations.edge[edge].relation].first_seed
    plans.state.step = -1
    plans.state.sign = sign


@njit(cache=True, nogil=True, forceinline=True)
def _insert_stages(relations, plans, edge):
    """Return the stages that an edge which has entered passes before it is enumerated: + 1 supports, + 2 conditions."""
    return (1 if _has_supports(relations, edge) else 0) + (2 if plans.conditions.state.is_enabled != 0 else 0)


@njit(cache=True, nogil=True)
def _continue_removal(relations, plans, output, explicit_only):
    """Report the rows that the current edge removes, then remove the edge, then update the conditions. Return a code."""
    edge, shared = plans.state.edge, plans.conditions.state
    if shared.is_removal == 0:
        code = enumerate_edge(relations, plans, output, edge, explicit_only)
        if code != DONE:
            return code
        if _has_supports(relations, edge):
            change_supports(relations, edge, False)
        if shared.is_enabled != 0:
            record = relations.edge[edge]
            shared.gone_source = record.source
            shared.gone_target = record.target
            shared.gone_relation = record.relation
            shared.is_removal = 1
        drop_edge(relations, edge)
    if shared.is_removal != 0:
        relation, source, target = shared.gone_relation, shared.gone_source, shared.gone_target
        code = change_conditions(relations, plans.conditions, relation, source, target, False)
        if code != DONE:
            return code
        shared.is_removal = 0
    plans.state.edge = 0
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def _continue_insert(relations, plans, output):
    """Update supports and conditions for the current edge, which is in its relation, and report the rows that it adds."""
    state = plans.state
    edge = state.edge
    if state.insert_stages & 1:
        code = change_supports(relations, edge, True)
        if code != DONE:
            return code
        state.insert_stages &= ~1
    if state.insert_stages & 2:
        record = relations.edge[edge]
        code = change_conditions(relations, plans.conditions, record.relation, record.source, record.target, True)
        if code != DONE:
            return code
        state.insert_stages = 0
    code = enumerate_edge(relations, plans, output, edge, False)
    if code == DONE:
        state.edge = 0
    return code


@njit(cache=True, nogil=True, forceinline=True)
def _prefetch_edge_and_ends(relations, relation, source, target, label):
    """Prefetch the place of an edge in the table, and the records of its vertices."""
    prefetch_edge(relations, relation, source, target, label)
    prefetch_at(relations.lists, place_of(relations, source, np.int64(0)))
    prefetch_at(relations.lists, place_of(relations, target, np.int64(0)))


@njit(cache=True, nogil=True, forceinline=True)
def _prefetch_pair(relations, relation, changes, place, end):
    """Prefetch the memory for later pairs of an event."""
    if place + 2 * AHEAD < end:
        pair = changes.pairs[place + 2 * AHEAD]
        _prefetch_edge_and_ends(relations, relation, pair >> 32, pair & LOW, np.int64(NO_LABEL))
    if place + AHEAD < end:
        pair = changes.pairs[place + AHEAD]
        prefetch_record(relations, relation, pair >> 32, pair & LOW)


@njit(cache=True, nogil=True)
def apply_derived_event(relations, plans, output, changes):
    """Apply the next event of the derived relations. Return a code."""
    state = plans.state
    event = state.change
    relation = np.int64(changes.relation[event])
    enters = changes.sign[event] > 0
    # The pairs before `change_pair` are applied. While `state.edge` is not 0, its change has begun, and a call that resumes
    # goes on with it.
    while state.change_pair < changes.end[event]:
        if state.edge == 0:
            pair = changes.pairs[state.change_pair]
            _prefetch_pair(relations, relation, changes, state.change_pair, changes.end[event])
            if enters:
                never, no_label = np.int64(NEVER), np.int64(NO_LABEL)
                edge = make_edge(relations, relation, pair >> 32, pair & LOW, no_label, state.event_time, never)
                if edge < 0:
                    return -edge
                _begin(relations, plans, edge, 1)
                state.insert_stages = _insert_stages(relations, plans, edge)
                state.outcomes[INSERTED] += 1
            else:
                _begin(relations, plans, find(relations, relation, pair >> 32, pair & LOW), -1)
                state.outcomes[DELETED] += 1
            state.is_derived = 1
        if enters:
            code = _continue_insert(relations, plans, output)
        else:
            code = _continue_removal(relations, plans, output, state.order & 1 == 0)
        if code != DONE:
            return code
        state.is_derived = 0
        state.change_pair += 1
    event += 1
    state.change = event
    has_next = event < state.changes
    state.change_order = changes.order[event] if has_next else np.int64(NEVER)
    state.change_pair = changes.first[event] if has_next else np.int64(0)
    return np.int64(DONE)


@njit(cache=True, nogil=True, forceinline=True)
def _prefetch_removal(relations, edge):
    """Prefetch the memory for removing an edge. Return the edge that leaves after it, or 0."""
    if edge == 0:
        return edge
    record = relations.edge[edge]
    _prefetch_edge_and_ends(relations, record.relation, record.source, record.target, stored_label(relations, edge))
    return record.next


@njit(cache=True, nogil=True)
def expire_slide(relations, plans, output, window, limit):
    """Remove the edges that leave a window at slides up to `limit`. Return a code."""
    if plans.state.edge != 0:
        code = _continue_removal(relations, plans, output, True)
        if code != DONE:
            return code
    # The edges that expire before the cursor's slide have left.
    while next_slide(relations, window, limit) != NEVER:
        later = first_edge(relations, window) if relations.state.mask >= CACHED else np.int64(0)
        for _ in range(AHEAD):
            later = _prefetch_removal(relations, later)
        # The slot of the slide has only edges that have not left, so a call resumes from the slot and `state.edge` alone.
        # `later` is the next edge to prefetch, or 0.
        while True:
            if plans.state.expired_edges & (EDGES_BETWEEN_CHECKS - 1) == 0 and has_passed(plans.deadline):
                return np.int64(NEED_TIME)
            edge = first_edge(relations, window)
            if edge == 0:
                break
            later = _prefetch_removal(relations, later)
            plans.state.expired_edges += 1
            if relations.edge[edge].is_static != 0:
                leave_window(relations, edge)
                continue
            _begin(relations, plans, edge, -1)
            code = _continue_removal(relations, plans, output, True)
            if code != DONE:
                return code
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def cross_to(relations, plans, output, changes, time):
    """Process the time boundaries of all windows up to a stream time, in the order of time. Each moment is one event."""
    state = relations.state
    if plans.state.is_derived != 0:
        code = apply_derived_event(relations, plans, output, changes)
        if code != DONE:
            return code
    elif plans.state.edge != 0:
        code = _continue_removal(relations, plans, output, True)
        if code != DONE:
            return code
    # Everything before the moment that is found next has changed. If a moment was interrupted, it is found again: the
    # cursors and `state.change` say what is left of it.
    while True:
        moment = np.int64(NEVER)
        for window in range(state.windows):
            fields = relations.window[window]
            if fields.kind == TIME_WINDOW:
                slide = next_slide(relations, window, time // fields.slide)
                if slide != NEVER:
                    moment = min(moment, slide * fields.slide)
        if plans.state.change_order <= plans.state.order:
            moment = min(moment, changes.time[plans.state.change])
        if moment == NEVER:
            break
        plans.state.event_time = moment
        for window in range(state.windows):
            fields = relations.window[window]
            if fields.kind == TIME_WINDOW and fields.cursor * fields.slide == moment:
                code = expire_slide(relations, plans, output, window, fields.cursor)
                if code != DONE:
                    return code
        while plans.state.change_order <= plans.state.order and changes.time[plans.state.change] == moment:
            code = apply_derived_event(relations, plans, output, changes)
            if code != DONE:
                return code
    state.stream_time = time
    next_boundary = np.int64(NEVER)
    for window in range(state.windows):
        fields = relations.window[window]
        if fields.kind == TIME_WINDOW:
            next_boundary = min(next_boundary, fields.cursor * fields.slide)
    state.next_boundary = next_boundary
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def start_clock(relations, time):
    """Set the stream time to that of the first tuple, which crosses no boundary."""
    state = relations.state
    state.has_time = 1
    state.stream_time = time
    next_boundary = np.int64(NEVER)
    for window in range(state.windows):
        fields = relations.window[window]
        if fields.kind == TIME_WINDOW:
            fields.cursor = time // fields.slide + 1
            next_boundary = min(next_boundary, fields.cursor * fields.slide)
    state.next_boundary = next_boundary


@njit(cache=True, nogil=True, forceinline=True)
def _insert(relations, plans, output, relation, source, target, label, time, number):
    """Enter an edge into a relation, or refresh it. `number` is its position in the window: the time, or a count."""
    state = plans.state
    if state.edge == 0:
        window = relations.relation[relation].window
        expires = slide_after(relations, window, number)
        if expires < relations.window[window].cursor:
            _count(relations, plans, relation, outcome_of(False, False, True))
            return np.int64(DONE)
        if source == target and relations.relation[relation].is_loopless != 0:
            return np.int64(DONE)
        edge = find_labelled(relations, relation, source, target, label)
        if edge != 0:
            is_held = relations.edge[edge].expires != NOT_HELD
            if is_held:
                make_younger(relations, edge, time, expires)
            else:
                enter_window(relations, edge, time, expires)
            _count(relations, plans, relation, outcome_of(False, is_held, False))
            return np.int64(DONE)
        edge = make_edge(relations, relation, source, target, label, time, expires)
        if edge < 0:
            return -edge
        _count(relations, plans, relation, outcome_of(False, False, False))
        _begin(relations, plans, edge, 1)
        state.insert_stages = _insert_stages(relations, plans, edge)
    return _continue_insert(relations, plans, output)


@njit(cache=True, nogil=True)
def _evict(relations, plans, output, tuples, i):
    """Assign an insert its number in each count window that reads it, and remove the edges that are then too old.

    Call this before the edge enters any relation, so that no solution is reported that holds only in between. An edge that
    is present is refreshed first, so that it does not evict itself.
    """
    state = plans.state
    label = np.int64(tuples.label[i])
    first, end = np.int64(relations.count_window_first[label]), np.int64(relations.count_window_first[label + 1])
    if first == end:
        return np.int64(DONE)
    if state.stage == UNNUMBERED:
        for place in range(first, end):
            relations.window[np.int64(relations.count_window[place])].number += 1
        source, target = np.int64(tuples.source[i]), np.int64(tuples.target[i])
        for place in range(np.int64(relations.reader_first[label]), np.int64(relations.reader_first[label + 1])):
            relation = np.int64(relations.reader[place])
            window = relations.relation[relation].window
            fields = relations.window[window]
            if fields.kind == COUNT_WINDOW:
                edge = find_labelled(relations, relation, source, target, label_of(relations, relation, label))
                if edge != 0 and relations.edge[edge].expires != NOT_HELD:
                    expires = slide_after(relations, window, fields.number)
                    make_younger(relations, edge, tuples.timestamp[i], expires)
        state.stage = NUMBERED
    # The count windows before `state.reader` have lost the edges that are too old; `stage` prevents a call that resumes from
    # numbering the insert again.
    while first + state.reader < end:
        window = np.int64(relations.count_window[first + state.reader])
        fields = relations.window[window]
        code = expire_slide(relations, plans, output, window, fields.number // fields.slide)
        if code != DONE:
            return code
        state.reader += 1
    state.reader = 0
    state.stage = UNNUMBERED
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def _delete(relations, plans, output, relation, source, target, label):
    """Delete an edge from a relation. Return a code."""
    state = plans.state
    if state.edge == 0:
        edge = find_labelled(relations, relation, source, target, label)
        is_held = edge != 0 and relations.edge[edge].expires != NOT_HELD
        _count(relations, plans, relation, outcome_of(True, is_held, False))
        if not is_held:
            return np.int64(DONE)
        if relations.edge[edge].is_static != 0:
            leave_window(relations, edge)
            return np.int64(DONE)
        _begin(relations, plans, edge, -1)
    return _continue_removal(relations, plans, output, False)


@njit(cache=True, nogil=True, forceinline=True)
def _count_without_edge(relations, plans, relation, is_delete, time):
    """Count a tuple whose edge no query accepts and no relation contains."""
    window = relations.relation[relation].window
    is_late = slide_after(relations, window, time) < relations.window[window].cursor
    _count(relations, plans, relation, outcome_without_edge(is_delete, is_late))
    return np.int64(DONE)


@njit(cache=True, nogil=True, forceinline=True)
def _prefetch_tuple(relations, tuples, i):
    """Prefetch the memory for a later tuple."""
    label = np.int64(tuples.label[i])
    if label >= 0 and tuples.source[i] >= 0 and relations.reader_first[label] < relations.reader_first[label + 1]:
        source, target = np.int64(tuples.source[i]), np.int64(tuples.target[i])
        relation = np.int64(relations.reader[relations.reader_first[label]])
        _prefetch_edge_and_ends(relations, relation, source, target, label_of(relations, relation, label))


@njit(cache=True, nogil=True)
def apply_tuples(relations, plans, output, tuples, count, changes):
    """Apply the tuples of a chunk from `state.tuple` on.

    Return DONE, or a code for what Python must do before it repeats the call, which resumes.
    """
    state = plans.state
    now = np.int64(0)  # reading the counter takes as long as a small tuple, so the end of a tuple is the start of the next
    # The tuples before `state.tuple` are applied and counted. `state.phase` says how much of this one is done,
    # `state.reader` and `state.edge` how far the phase is.
    while state.tuple < count:
        i = state.tuple
        label = np.int64(tuples.label[i])
        is_read = label >= 0 and (
            relations.reader_first[label] < relations.reader_first[label + 1]
            or relations.count_window_first[label] < relations.count_window_first[label + 1]
        )
        ticks = changes.ticks[i] if i < state.timed_tuples else np.int64(0)
        is_timed = is_read or ticks != 0
        if state.phase == CROSSING:
            if is_timed and state.tuple_start == 0:
                state.tuple_start = now if now != 0 else cycles()
                if state.tuple_start > plans.deadline[0]:
                    state.tuple_start = 0
                    return np.int64(NEED_TIME)
            time = tuples.timestamp[i]
            if i + AHEAD < count:
                _prefetch_tuple(relations, tuples, i + AHEAD)
            if relations.state.has_time == 0:
                start_clock(relations, time)
            elif time >= relations.state.next_boundary or state.change_order <= 2 * i:
                state.order = 2 * i
                code = cross_to(relations, plans, output, changes, max(time, relations.state.stream_time))
                if code != DONE:
                    return code
            relations.state.stream_time = max(relations.state.stream_time, time)
            state.order = 2 * i + 1
            state.event_time = relations.state.stream_time
            state.phase = EVICTING
        now = np.int64(0)
        if is_read and state.phase == EVICTING:
            if relations.state.count_windows != 0 and tuples.delete[i] == 0:
                code = _evict(relations, plans, output, tuples, i)
                if code != DONE:
                    return code
            state.phase = LEAVING
        # Derived events up to the first that adds edges come before the change of the tuple's own edge, the others after it.
        while state.phase != CHANGING and state.change_order <= 2 * i + 1 and changes.sign[state.change] < 0:
            code = apply_derived_event(relations, plans, output, changes)
            if code != DONE:
                return code
        state.phase = CHANGING
        if is_read:
            source, target = np.int64(tuples.source[i]), np.int64(tuples.target[i])
            # The relations before `state.reader` have changed. This one has in part if `state.edge` is not 0. `state.reader`
            # stays at the end while later events are applied.
            while relations.reader_first[label] + state.reader < relations.reader_first[label + 1]:
                relation = np.int64(relations.reader[relations.reader_first[label] + state.reader])
                window, label_number = relations.relation[relation].window, label_of(relations, relation, label)
                if source < 0:
                    code = _count_without_edge(relations, plans, relation, tuples.delete[i] != 0, tuples.timestamp[i])
                elif tuples.delete[i] != 0:
                    code = _delete(relations, plans, output, relation, source, target, label_number)
                else:
                    time = tuples.timestamp[i]
                    number = time
                    if relations.window[window].kind == COUNT_WINDOW:
                        number = relations.window[window].number
                    code = _insert(relations, plans, output, relation, source, target, label_number, time, number)
                if code != DONE:
                    return code
                state.reader += 1
        while state.change_order <= 2 * i + 1:
            code = apply_derived_event(relations, plans, output, changes)
            if code != DONE:
                return code
        if is_timed:
            now = np.int64(cycles())
            count_ticks(plans.latency, now - state.tuple_start + ticks)
            state.tuple_start = 0
        state.reader = 0
        state.phase = CROSSING
        state.tuple += 1
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def advance_to(relations, plans, output, time, changes):
    """Advance the stream time without a tuple. Return a code of `apply_tuples`."""
    if relations.state.has_time == 0:
        start_clock(relations, time)
    elif time >= relations.state.next_boundary or plans.state.change_order == 0:
        code = cross_to(relations, plans, output, changes, max(time, relations.state.stream_time))
        if code != DONE:
            return code
    relations.state.stream_time = max(relations.state.stream_time, time)
    return np.int64(DONE)
