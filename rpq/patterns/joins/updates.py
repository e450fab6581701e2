"""The application of a stream: boundaries are crossed, edges entered and removed, and the rows of each change written.

One edge of one relation changes at a time. An edge that enters is entered and then enumerated, an edge that leaves (by a
delete, at a time boundary, or because a count window is full) is enumerated and then removed. AT_EDGE names it
meanwhile, so that a call that stopped where the output was full goes on there.

The changes of derived relations (the pairs of path atoms) do not follow from the tuples here: they are passed in as events
in order (`Changes`). At a boundary they come with the edges that leave at that moment, in a tuple after the edges.
"""

from __future__ import annotations

import numpy as np

from rpq.compiled.cycle_counter import count_ticks
from rpq.compiled.intrinsics import cycles
from rpq.compiled.kernel_cache import njit
from rpq.compiled.prefetching import prefetch_at
from rpq.patterns.joins.conditions import change_conditions
from rpq.patterns.joins.delta_join import enumerate_edge
from rpq.patterns.joins.supports import change_supports
from rpq.patterns.relations.edges import (
    drop_edge,
    enter_window,
    find,
    leave_window,
    make_edge,
    make_younger,
    prefetch_edge,
    prefetch_record,
)
from rpq.patterns.relations.wheel import NEVER, first_edge, next_slide, slide_after
from rpq.patterns.tables import (
    ABSENT,
    ABSENT_FROM_WINDOW,
    AT_EDGE,
    AT_SEED,
    AT_STEP,
    CHANGE,
    CHANGE_ORDER,
    CHANGE_PAIR,
    CHANGES,
    CHANGING,
    COUNT_WINDOW,
    COUNT_WINDOWS,
    COUNTED,
    CROSSING,
    CURSOR,
    DELETED,
    DERIVING,
    DONE,
    EDGE,
    EDGE_LONG,
    ENTERING,
    EVENT_TIME,
    EVICTING,
    EXPIRED,
    EXPIRES,
    GONE_RELATION,
    GONE_SOURCE,
    GONE_TARGET,
    HAS_TIME,
    INSERTED,
    KIND,
    LATE,
    LEAVING,
    LOOPLESS,
    LOW,
    MASK,
    NEXT,
    NEXT_BOUNDARY,
    NUMBER,
    NUMBERED,
    ON,
    ORDER,
    PHASE,
    READ,
    REFRESHED,
    RELATION,
    RELATION_FIELDS,
    SEED,
    SIGN,
    SLIDE,
    SOURCE,
    STAGE,
    STARTED,
    STATIC,
    STREAM_TIME,
    STRIDE,
    SUPPORT,
    TAKING_OUT,
    TARGET,
    TIME_WINDOW,
    TIMED,
    TUPLE,
    UNNUMBERED,
    WINDOW,
    WINDOW_FIELDS,
    WINDOWS,
)

AHEAD = 12
"""The number of tuples that are prefetched ahead."""
CACHED = 1 << 16
"""Tables up to this number of entries are in a cache, so that prefetching for edges that leave only costs."""


@njit(cache=True, nogil=True, forceinline=True)
def _has_supports(relations, edge):
    """Return whether support lists depend on an edge."""
    relation = np.int64(relations.edge[edge * EDGE + RELATION])
    return relations.relation[relation * RELATION_FIELDS + SUPPORT] >= 0


@njit(cache=True, nogil=True, forceinline=True)
def _count(relations, plans, relation, outcome):
    """Count the outcome of a tuple, in total and for its relation."""
    plans.state[outcome] += 1
    relations.relation[relation * RELATION_FIELDS + COUNTED + outcome - INSERTED] += 1


@njit(cache=True, nogil=True, forceinline=True)
def _begin(relations, plans, edge, sign):
    """Begin the change by an edge that enters or leaves."""
    relation = np.int64(relations.edge[edge * EDGE + RELATION])
    plans.state[AT_EDGE] = edge
    plans.state[AT_SEED] = relations.relation[relation * RELATION_FIELDS + SEED]
    plans.state[AT_STEP] = -1
    plans.state[SIGN] = sign


@njit(cache=True, nogil=True, forceinline=True)
def _entering(relations, plans, edge):
    """Return what must be changed for an edge that entered, before it is enumerated."""
    return (1 if _has_supports(relations, edge) else 0) + (2 if plans.conditions.state[ON] != 0 else 0)


@njit(cache=True, nogil=True)
def _go_on_leaving(relations, plans, output, explicit_only):
    """Report the rows that the current edge takes, then remove it, then update the conditions."""
    edge, shared = plans.state[AT_EDGE], plans.conditions.state
    if shared[TAKING_OUT] == 0:
        code = enumerate_edge(relations, plans, output, edge, explicit_only)
        if code != DONE:
            return code
        if _has_supports(relations, edge):
            change_supports(relations, edge, False)
        if shared[ON] != 0:
            shared[GONE_SOURCE] = relations.edge[edge * EDGE + SOURCE]
            shared[GONE_TARGET] = relations.edge[edge * EDGE + TARGET]
            shared[GONE_RELATION] = relations.edge[edge * EDGE + RELATION]
            shared[TAKING_OUT] = 1
        drop_edge(relations, edge)
    if shared[TAKING_OUT] != 0:
        gone = shared[GONE_SOURCE], shared[GONE_TARGET]
        code = change_conditions(relations, plans.conditions, shared[GONE_RELATION], gone[0], gone[1], False)
        if code != DONE:
            return code
        shared[TAKING_OUT] = 0
    plans.state[AT_EDGE] = 0
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def _go_on_entering(relations, plans, output):
    """Report the rows that the current edge brings, which is in its relation."""
    state = plans.state
    edge = state[AT_EDGE]
    if state[ENTERING] & 1:
        code = change_supports(relations, edge, True)
        if code != DONE:
            return code
        state[ENTERING] &= ~1
    if state[ENTERING] & 2:
        source, target = np.int64(relations.edge[edge * EDGE + SOURCE]), np.int64(relations.edge[edge * EDGE + TARGET])
        relation = np.int64(relations.edge[edge * EDGE + RELATION])
        code = change_conditions(relations, plans.conditions, relation, source, target, True)
        if code != DONE:
            return code
        state[ENTERING] = 0
    code = enumerate_edge(relations, plans, output, edge, False)
    if code == DONE:
        state[AT_EDGE] = 0
    return code


@njit(cache=True, nogil=True, forceinline=True)
def _look_ahead_of_pair(relations, relation, changes, place, end):
    """Prefetch the memory that later pairs of an event need."""
    stride = relations.state[STRIDE]
    if place + 2 * AHEAD < end:
        pair = changes.pairs[place + 2 * AHEAD]
        prefetch_edge(relations, relation, pair >> 32, pair & LOW)
        prefetch_at(relations.lists, (pair >> 32) * stride)
        prefetch_at(relations.lists, (pair & LOW) * stride)
    if place + AHEAD < end:
        pair = changes.pairs[place + AHEAD]
        prefetch_record(relations, relation, pair >> 32, pair & LOW)


@njit(cache=True, nogil=True)
def change_derived(relations, plans, output, changes):
    """Apply the next event of the derived relations."""
    state = plans.state
    event = state[CHANGE]
    relation = np.int64(changes.relation[event])
    comes = changes.sign[event] > 0
    while state[CHANGE_PAIR] < changes.end[event]:
        if state[AT_EDGE] == 0:
            pair = changes.pairs[state[CHANGE_PAIR]]
            _look_ahead_of_pair(relations, relation, changes, state[CHANGE_PAIR], changes.end[event])
            if comes:
                never = np.int64(NEVER)
                edge = make_edge(relations, relation, pair >> 32, pair & LOW, state[EVENT_TIME], never)
                if edge < 0:
                    return -edge
                _begin(relations, plans, edge, 1)
                state[ENTERING] = _entering(relations, plans, edge)
                state[INSERTED] += 1
            else:
                _begin(relations, plans, find(relations, relation, pair >> 32, pair & LOW), -1)
                state[DELETED] += 1
            state[DERIVING] = 1
        if comes:
            code = _go_on_entering(relations, plans, output)
        else:
            code = _go_on_leaving(relations, plans, output, state[ORDER] & 1 == 0)
        if code != DONE:
            return code
        state[DERIVING] = 0
        state[CHANGE_PAIR] += 1
    event += 1
    state[CHANGE] = event
    more = event < state[CHANGES]
    state[CHANGE_ORDER] = changes.order[event] if more else np.int64(NEVER)
    state[CHANGE_PAIR] = changes.first[event] if more else np.int64(0)
    return np.int64(DONE)


@njit(cache=True, nogil=True, forceinline=True)
def _look_ahead_of_leaving(relations, edge):
    """Prefetch the memory that removing an edge needs; return the edge that leaves after it, or 0."""
    if edge == 0:
        return edge
    record = edge * EDGE
    source, target = np.int64(relations.edge[record + SOURCE]), np.int64(relations.edge[record + TARGET])
    stride = relations.state[STRIDE]
    prefetch_edge(relations, np.int64(relations.edge[record + RELATION]), source, target)
    prefetch_at(relations.lists, source * stride)
    prefetch_at(relations.lists, target * stride)
    return np.int64(relations.edge[record + NEXT])


@njit(cache=True, nogil=True)
def expire_slide(relations, plans, output, window, limit):
    """Remove what leaves a window at slides up to `limit`."""
    if plans.state[AT_EDGE] != 0:
        code = _go_on_leaving(relations, plans, output, True)
        if code != DONE:
            return code
    while next_slide(relations, window, limit) != NEVER:
        later = first_edge(relations, window) if relations.state[MASK] >= CACHED else np.int64(0)
        for _ in range(AHEAD):
            later = _look_ahead_of_leaving(relations, later)
        while True:
            edge = first_edge(relations, window)
            if edge == 0:
                break
            later = _look_ahead_of_leaving(relations, later)
            plans.state[EXPIRED] += 1
            if relations.edge[edge * EDGE + STATIC] != 0:
                leave_window(relations, edge)
                continue
            _begin(relations, plans, edge, -1)
            code = _go_on_leaving(relations, plans, output, True)
            if code != DONE:
                return code
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def cross_to(relations, plans, output, changes, time):
    """Process the time boundaries of all windows up to a stream time, in order of time; each moment is one event."""
    state, windows = relations.state, relations.window
    if plans.state[DERIVING] != 0:
        code = change_derived(relations, plans, output, changes)
        if code != DONE:
            return code
    elif plans.state[AT_EDGE] != 0:
        code = _go_on_leaving(relations, plans, output, True)
        if code != DONE:
            return code
    while True:
        moment = np.int64(NEVER)
        for window in range(state[WINDOWS]):
            base = window * WINDOW_FIELDS
            if windows[base + KIND] == TIME_WINDOW:
                slide = next_slide(relations, window, time // windows[base + SLIDE])
                if slide != NEVER:
                    moment = min(moment, slide * windows[base + SLIDE])
        if plans.state[CHANGE_ORDER] <= plans.state[ORDER]:
            moment = min(moment, changes.time[plans.state[CHANGE]])
        if moment == NEVER:
            break
        plans.state[EVENT_TIME] = moment
        for window in range(state[WINDOWS]):
            base = window * WINDOW_FIELDS
            if windows[base + KIND] == TIME_WINDOW and windows[base + CURSOR] * windows[base + SLIDE] == moment:
                code = expire_slide(relations, plans, output, window, windows[base + CURSOR])
                if code != DONE:
                    return code
        while plans.state[CHANGE_ORDER] <= plans.state[ORDER] and changes.time[plans.state[CHANGE]] == moment:
            code = change_derived(relations, plans, output, changes)
            if code != DONE:
                return code
    state[STREAM_TIME] = time
    following = np.int64(NEVER)
    for window in range(state[WINDOWS]):
        base = window * WINDOW_FIELDS
        if windows[base + KIND] == TIME_WINDOW:
            following = min(following, windows[base + CURSOR] * windows[base + SLIDE])
    state[NEXT_BOUNDARY] = following
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def start_clock(relations, time):
    """Set the stream time by the first tuple, which crosses nothing."""
    state, windows = relations.state, relations.window
    state[HAS_TIME] = 1
    state[STREAM_TIME] = time
    following = np.int64(NEVER)
    for window in range(state[WINDOWS]):
        base = window * WINDOW_FIELDS
        if windows[base + KIND] == TIME_WINDOW:
            windows[base + CURSOR] = time // windows[base + SLIDE] + 1
            following = min(following, windows[base + CURSOR] * windows[base + SLIDE])
    state[NEXT_BOUNDARY] = following


@njit(cache=True, nogil=True, forceinline=True)
def _insert(relations, plans, output, relation, source, target, time, number):
    """Enter an edge into a relation, or refresh it. `number` is what its window goes by: the time, or a count."""
    state = plans.state
    if state[AT_EDGE] == 0:
        base = relations.relation[relation * RELATION_FIELDS + WINDOW] * WINDOW_FIELDS
        expires = slide_after(relations, relations.relation[relation * RELATION_FIELDS + WINDOW], number)
        if expires < relations.window[base + CURSOR]:
            _count(relations, plans, relation, LATE)
            return np.int64(DONE)
        if source == target and relations.relation[relation * RELATION_FIELDS + LOOPLESS] != 0:
            return np.int64(DONE)
        edge = find(relations, relation, source, target)
        if edge != 0:
            if relations.long[edge * EDGE_LONG + EXPIRES] == ABSENT_FROM_WINDOW:
                enter_window(relations, edge, time, expires)
                _count(relations, plans, relation, INSERTED)
            else:
                make_younger(relations, edge, time, expires)
                _count(relations, plans, relation, REFRESHED)
            return np.int64(DONE)
        edge = make_edge(relations, relation, source, target, time, expires)
        if edge < 0:
            return -edge
        _count(relations, plans, relation, INSERTED)
        _begin(relations, plans, edge, 1)
        state[ENTERING] = _entering(relations, plans, edge)
    return _go_on_entering(relations, plans, output)


@njit(cache=True, nogil=True)
def _evict(relations, plans, output, tuples, i):
    """Give an insert its number in each count window that numbers it, and remove what is too old then.

    This comes before the edge enters any relation, so that no solution is seen that holds only in between. An edge that is
    present is refreshed before that, so that it does not evict itself.
    """
    state = plans.state
    label = np.int64(tuples.label[i])
    first, end = np.int64(relations.numbered_first[label]), np.int64(relations.numbered_first[label + 1])
    if first == end:
        return np.int64(DONE)
    if state[STAGE] == UNNUMBERED:
        for place in range(first, end):
            relations.window[np.int64(relations.numbered[place]) * WINDOW_FIELDS + NUMBER] += 1
        source, target = np.int64(tuples.source[i]), np.int64(tuples.target[i])
        for place in range(np.int64(relations.reader_first[label]), np.int64(relations.reader_first[label + 1])):
            relation = np.int64(relations.reader[place])
            window = relations.relation[relation * RELATION_FIELDS + WINDOW]
            base = window * WINDOW_FIELDS
            if relations.window[base + KIND] == COUNT_WINDOW:
                edge = find(relations, relation, source, target)
                if edge != 0 and relations.long[edge * EDGE_LONG + EXPIRES] != ABSENT_FROM_WINDOW:
                    expires = slide_after(relations, window, relations.window[base + NUMBER])
                    make_younger(relations, edge, tuples.timestamp[i], expires)
        state[STAGE] = NUMBERED
    while first + state[READ] < end:
        window = np.int64(relations.numbered[first + state[READ]])
        base = window * WINDOW_FIELDS
        limit = relations.window[base + NUMBER] // relations.window[base + SLIDE]
        code = expire_slide(relations, plans, output, window, limit)
        if code != DONE:
            return code
        state[READ] += 1
    state[READ] = 0
    state[STAGE] = UNNUMBERED
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def _delete(relations, plans, output, relation, source, target):
    """Delete an edge from a relation."""
    state = plans.state
    if state[AT_EDGE] == 0:
        edge = find(relations, relation, source, target)
        if edge == 0 or relations.long[edge * EDGE_LONG + EXPIRES] == ABSENT_FROM_WINDOW:
            _count(relations, plans, relation, ABSENT)
            return np.int64(DONE)
        _count(relations, plans, relation, DELETED)
        if relations.edge[edge * EDGE + STATIC] != 0:
            leave_window(relations, edge)
            return np.int64(DONE)
        _begin(relations, plans, edge, -1)
    return _go_on_leaving(relations, plans, output, False)


@njit(cache=True, nogil=True, forceinline=True)
def _look_ahead(relations, tuples, i):
    """Prefetch the memory that a later tuple needs."""
    label = np.int64(tuples.label[i])
    if label >= 0 and relations.reader_first[label] < relations.reader_first[label + 1]:
        source, target = np.int64(tuples.source[i]), np.int64(tuples.target[i])
        stride = relations.state[STRIDE]
        prefetch_at(relations.lists, source * stride)
        prefetch_at(relations.lists, target * stride)
        prefetch_edge(relations, np.int64(relations.reader[relations.reader_first[label]]), source, target)


@njit(cache=True, nogil=True)
def apply_tuples(relations, plans, output, tuples, count, changes):
    """Apply the tuples of a chunk from TUPLE on; return DONE, or what Python must do before the same call goes on."""
    state = plans.state
    now = np.int64(0)  # reading the counter takes as long as a small tuple, so where one ends the next one begins
    while state[TUPLE] < count:
        i = state[TUPLE]
        label = np.int64(tuples.label[i])
        is_read = label >= 0 and (
            relations.reader_first[label] < relations.reader_first[label + 1]
            or relations.numbered_first[label] < relations.numbered_first[label + 1]
        )
        spent = changes.spent[i] if i < state[TIMED] else np.int64(0)
        is_timed = is_read or spent != 0
        if state[PHASE] == CROSSING:
            if is_timed and state[STARTED] == 0:
                state[STARTED] = now if now != 0 else cycles()
            time = tuples.timestamp[i]
            if i + AHEAD < count:
                _look_ahead(relations, tuples, i + AHEAD)
            if relations.state[HAS_TIME] == 0:
                start_clock(relations, time)
            elif time >= relations.state[NEXT_BOUNDARY] or state[CHANGE_ORDER] <= 2 * i:
                state[ORDER] = 2 * i
                code = cross_to(relations, plans, output, changes, max(time, relations.state[STREAM_TIME]))
                if code != DONE:
                    return code
            relations.state[STREAM_TIME] = max(relations.state[STREAM_TIME], time)
            state[ORDER] = 2 * i + 1
            state[EVENT_TIME] = relations.state[STREAM_TIME]
            state[PHASE] = EVICTING
        now = np.int64(0)
        if is_read and state[PHASE] == EVICTING:
            if relations.state[COUNT_WINDOWS] != 0 and tuples.delete[i] == 0:
                code = _evict(relations, plans, output, tuples, i)
                if code != DONE:
                    return code
            state[PHASE] = LEAVING
        while state[PHASE] != CHANGING and state[CHANGE_ORDER] <= 2 * i + 1 and changes.sign[state[CHANGE]] < 0:
            code = change_derived(relations, plans, output, changes)
            if code != DONE:
                return code
        state[PHASE] = CHANGING
        if is_read:
            source, target = np.int64(tuples.source[i]), np.int64(tuples.target[i])
            while relations.reader_first[label] + state[READ] < relations.reader_first[label + 1]:
                relation = np.int64(relations.reader[relations.reader_first[label] + state[READ]])
                window = relations.relation[relation * RELATION_FIELDS + WINDOW]
                if tuples.delete[i] != 0:
                    code = _delete(relations, plans, output, relation, source, target)
                else:
                    time = tuples.timestamp[i]
                    number = time
                    if relations.window[window * WINDOW_FIELDS + KIND] == COUNT_WINDOW:
                        number = relations.window[window * WINDOW_FIELDS + NUMBER]
                    code = _insert(relations, plans, output, relation, source, target, time, number)
                if code != DONE:
                    return code
                state[READ] += 1
        while state[CHANGE_ORDER] <= 2 * i + 1:
            code = change_derived(relations, plans, output, changes)
            if code != DONE:
                return code
        if is_timed:
            now = np.int64(cycles())
            count_ticks(plans.latency, now - state[STARTED] + spent)
            state[STARTED] = 0
        state[READ] = 0
        state[PHASE] = CROSSING
        state[TUPLE] += 1
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def advance_to(relations, plans, output, time, changes):
    """Move the stream time without a tuple; the codes are those of `apply_tuples`."""
    if relations.state[HAS_TIME] == 0:
        start_clock(relations, time)
    elif time >= relations.state[NEXT_BOUNDARY] or plans.state[CHANGE_ORDER] == 0:
        code = cross_to(relations, plans, output, changes, max(time, relations.state[STREAM_TIME]))
        if code != DONE:
            return code
    relations.state[STREAM_TIME] = max(relations.state[STREAM_TIME], time)
    return np.int64(DONE)
