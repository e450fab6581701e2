"""Scans over the timeline: backward from an edge for all roots, forward from an edge for all that follows from it.

A *backward* scan visits the entries before an edge, the latest first, and notes for product nodes whether a path departs from
them that leads to the edge. The latest first edge of a root, which is what its cell is for, is the first one that it meets:
this is the latest departure of Wu et al. (Path problems in temporal graphs, PVLDB 7(9), 2014, section 4.2), for all sources in
one pass. With a gap the earliest departure decides whether an edge may come before it, with none any later one does. A
path lasts as long as the first of its edges to leave, its *width*: in windows of time its first edge, in others any.

Under a strict order an edge must not depart at the time of its successor. Of every product node the last two departures are
kept therefore, with other timestamps: `time_at`, `time_before`. Under the other order the entries of one timestamp are
visited again until nothing changes.
"""

import numpy as np

from rpq.compiled.kernel_cache import njit
from rpq.operators.paths.index.layout import BASE, NOW
from rpq.operators.paths.ordered.timeline import (
    COUNT,
    EARLIEST,
    FIRST,
    GAP,
    HITS,
    LAST,
    SCAN,
    SPAN,
    STRICT,
    UNLIMITED,
    entries_before,
    entries_up_to,
)
from rpq.operators.paths.program import STATES


@njit(cache=True, nogil=True, forceinline=True)
def _width_at(timeline, node, time, end):
    """Return up to which slide a path departs from a node after an edge at `time`; 0 if none does."""
    fields = timeline.fields
    if timeline.seen[node] != fields[SCAN]:
        return np.int64(0)
    departure, width = timeline.time_at[node], timeline.width[node]
    if fields[STRICT] != 0 and departure == time:
        departure, width = timeline.time_before[node], timeline.width_before[node]
    if width > 0 and node != end and fields[GAP] != UNLIMITED and departure - time > fields[GAP]:
        return np.int64(0)
    return width


@njit(cache=True, nogil=True, forceinline=True)
def _depart(timeline, node, time, width, is_root):
    """Note that a path departs from a node at `time`, which is not above those noted before; return whether that is news."""
    fields = timeline.fields
    if timeline.seen[node] != fields[SCAN]:
        timeline.seen[node] = fields[SCAN]
        timeline.time_at[node] = time
        timeline.width[node] = width
        timeline.width_before[node] = 0
        return True
    is_wider = width > timeline.width[node]
    if not is_wider and (is_root or fields[GAP] == UNLIMITED or timeline.time_at[node] == time):
        return False
    if timeline.time_at[node] != time:
        timeline.time_before[node] = timeline.time_at[node]
        timeline.width_before[node] = timeline.width[node]
        timeline.time_at[node] = time
    timeline.width[node] = max(width, timeline.width[node])
    return True


@njit(cache=True, nogil=True)
def _depart_along(index, timeline, vertex, following, transition_class, time, slide, end):
    """Note the paths that depart with an edge from a vertex to the following one; return whether there are news."""
    program, fields = index.program, timeline.fields
    states = program.sizes[STATES]
    news = False
    for step in range(program.step_first[transition_class], program.step_first[transition_class + 1]):
        width = _width_at(timeline, following * states + program.step_target[step], time, end)
        if width > 0 and _depart(timeline, vertex * states + program.step_source[step], time, min(width, slide), False):
            fields[LAST] = time
            news = True
    state = np.int64(program.start_target[transition_class])
    if state >= 0 and index.table.is_root[vertex]:
        width = _width_at(timeline, following * states + state, time, end)
        if width > 0:
            is_new = timeline.seen[vertex * states] != fields[SCAN]
            if _depart(timeline, vertex * states, time, min(width, slide), True) and is_new:
                timeline.hits[fields[HITS]] = vertex
                fields[HITS] += 1
    return news


@njit(cache=True, nogil=True)
def _depart_at(index, timeline, place, end):
    program = index.program
    time, slide = timeline.time[place], timeline.slide[place] - index.state[BASE]
    if slide <= index.state[NOW]:
        return False
    forward = np.int64(program.forward[timeline.label[place]])
    inverse = np.int64(program.inverse[timeline.label[place]])
    source, target = np.int64(timeline.source[place]), np.int64(timeline.target[place])
    news = False
    if forward >= 0 and _depart_along(index, timeline, source, target, forward, time, slide, end):
        news = True
    if inverse >= 0 and _depart_along(index, timeline, target, source, inverse, time, slide, end):
        news = True
    return news


@njit(cache=True, nogil=True)
def scan_back(index, timeline, vertex, state, time, width, is_end):
    """Find the roots with a path to a product node after which an edge at `time` may come, and that lasts up to `width`.

    Their number is in HITS, they are in `hits`, and the slide up to which the path of each lasts, relative to the base, is
    the width at its start state. With `is_end` the path ends at the node, whatever the time, and no span is looked at.
    O(edges before), with a gap or a span O(edges within these).
    """
    fields = timeline.fields
    states = index.program.sizes[STATES]
    fields[SCAN] += 1
    fields[HITS] = 0
    node = vertex * states + state
    timeline.seen[node] = fields[SCAN]
    timeline.time_at[node] = UNLIMITED if is_end else time
    timeline.width[node] = width
    timeline.width_before[node] = 0
    fields[LAST] = UNLIMITED if is_end else time
    end = node if is_end else np.int64(-1)
    strict = fields[STRICT] != 0
    lowest = np.int64(EARLIEST)
    if not is_end and fields[SPAN] != UNLIMITED and time > EARLIEST + fields[SPAN]:
        lowest = time - fields[SPAN]
    if is_end:
        place = fields[COUNT] - 1
    elif strict:
        place = entries_before(timeline, time) - 1
    else:
        place = entries_up_to(timeline, time) - 1
    first = fields[FIRST]
    while place >= first:
        departure = timeline.time[place]
        if departure < lowest:
            break
        if not is_end and fields[GAP] != UNLIMITED and fields[LAST] - departure > fields[GAP]:
            break
        if strict:
            _depart_at(index, timeline, place, end)
            place -= 1
            continue
        begin = place
        while begin > first and timeline.time[begin - 1] == departure:
            begin -= 1
        news = True
        while news:
            news = False
            for one in range(place, begin - 1, -1):
                if _depart_at(index, timeline, one, end):
                    news = True
        place = begin - 1


@njit(cache=True, nogil=True, forceinline=True)
def width_of_root(index, timeline, root):
    """Return the slide up to which the path of a root lasts that the last scan found."""
    return timeline.width[root * index.program.sizes[STATES]]


@njit(cache=True, nogil=True, forceinline=True)
def _arrives(timeline, node, time):
    """Return whether a path arrives at a node after which an edge at `time` may come."""
    fields = timeline.fields
    if timeline.seen[node] != fields[SCAN]:
        return False
    arrival, is_there = timeline.time_at[node], True
    if fields[STRICT] != 0 and arrival == time:
        arrival, is_there = timeline.time_before[node], timeline.width_before[node] > 0
    return is_there and (fields[GAP] == UNLIMITED or time - arrival <= fields[GAP])


@njit(cache=True, nogil=True)
def arrive(timeline, node, time):
    """Note that a path arrives at a node at `time`, which is not below those noted before; return whether that is news."""
    fields = timeline.fields
    if timeline.seen[node] != fields[SCAN]:
        timeline.seen[node] = fields[SCAN]
        timeline.time_at[node] = time
        timeline.width_before[node] = 0
        return True
    if timeline.time_at[node] == time or fields[GAP] == UNLIMITED:
        return False
    timeline.time_before[node] = timeline.time_at[node]
    timeline.width_before[node] = 1
    timeline.time_at[node] = time
    return True


@njit(cache=True, nogil=True)
def _longer(array):
    return np.concatenate((array, np.empty_like(array)))


@njit(cache=True, nogil=True)
def _follow(index, timeline, place, against, steps, count):
    """Note the transitions of an entry in one direction that follow from what was noted; (news, steps, their number)."""
    program = index.program
    states = program.sizes[STATES]
    label = timeline.label[place]
    transition_class = np.int64(program.inverse[label]) if against else np.int64(program.forward[label])
    news = False
    if transition_class < 0:
        return news, steps, count
    vertex, following = np.int64(timeline.source[place]), np.int64(timeline.target[place])
    if against:
        vertex, following = following, vertex
    time = timeline.time[place]
    for step in range(program.step_first[transition_class], program.step_first[transition_class + 1]):
        if not _arrives(timeline, vertex * states + program.step_source[step], time):
            continue
        if arrive(timeline, following * states + program.step_target[step], time):
            news = True
        if count + 1 > len(steps):
            steps = _longer(steps)
        steps[count] = (np.int64(place) * states + program.step_source[step]) * 2 + against
        count += 1
    return news, steps, count


@njit(cache=True, nogil=True)
def scan_forward(index, timeline, time):
    """Return the steps that follow from the nodes noted with `arrive` in the present scan, and from each other.

    A step is (entry * states + state before) * 2 + 1 if it is taken against the edge; some may come twice. No span is looked at.
    O(edges since `time`).
    """
    fields = timeline.fields
    strict = fields[STRICT] != 0
    steps = np.empty(64, np.int64)
    count = np.int64(0)
    place = entries_up_to(timeline, time) if strict else entries_before(timeline, time)
    while place < fields[COUNT]:
        arrival = timeline.time[place]
        end = place + 1
        while not strict and end < fields[COUNT] and timeline.time[end] == arrival:
            end += 1
        news = True
        before = count
        while news:
            news = False
            count = before
            for one in range(place, end):
                if timeline.slide[one] - index.state[BASE] <= index.state[NOW]:
                    continue
                for against in range(2):
                    is_new, steps, count = _follow(index, timeline, one, against, steps, count)
                    news = news or is_new
            if strict:
                break
        place = end
    return steps[:count]
