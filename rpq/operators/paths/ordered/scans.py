"""Scans over the timeline: backward from an edge for all roots, forward from an edge for all that follows from it.

A *backward* scan visits the entries before an edge, the latest first, and notes for product nodes whether a path
departs from them that leads to the edge. The latest first edge of a root, which is what its cell is for, is the first
one that it meets: this is the latest departure of Wu et al. (Path problems in temporal graphs, PVLDB 7(9), 2014), for
all sources in one pass. With a gap the earliest departure decides whether an edge may come before it, with none any
later one does. A path lasts as long as the first of its edges to leave, its *width*: in windows of time its first
edge, in others any.

Under a strict order an edge must not depart at the time of its successor. Of every product node the last two
departures are kept therefore, with other timestamps: `time_at`, `time_before`. Under the other order the entries of
one timestamp are visited again until nothing changes.
"""

from typing import Any, NamedTuple

import numpy as np

from rpq.compiled.kernel_cache import njit
from rpq.operators.paths.index.layout import BASE, NOW
from rpq.operators.paths.ordered.timeline import (
    COUNT,
    EARLIEST,
    FIRST,
    GAP,
    HITS,
    SCAN,
    SKIPPED,
    SPAN,
    STRICT,
    UNLIMITED,
    entries_before,
    entries_up_to,
)
from rpq.operators.paths.program import STATES


class _Scan(NamedTuple):
    """The constants of a scan back."""

    number: int
    strict: bool
    gap: int
    end: Any  # int: the node at which paths end, whatever the time; -1 for none
    base: int
    now: int


@njit(cache=True, nogil=True, forceinline=True)
def _width_at(timeline, scan, node, time):
    """Return up to which slide a path departs from a node after an edge at `time`; 0 if none does."""
    if timeline.seen[node] != scan.number:
        return np.int64(0)
    departure, width = timeline.time_at[node], timeline.width[node]
    if scan.strict and departure == time:
        departure, width = timeline.time_before[node], timeline.width_before[node]
    if scan.gap != UNLIMITED and width > 0 and node != scan.end and departure - time > scan.gap:
        return np.int64(0)
    return width


@njit(cache=True, nogil=True, forceinline=True)
def _depart(timeline, scan, node, time, width, is_root):
    """Note that a path departs from a node at `time`, which is not above those noted before; return whether that is news."""
    if timeline.seen[node] != scan.number:
        timeline.seen[node] = scan.number
        timeline.time_at[node] = time
        timeline.width[node] = width
        timeline.width_before[node] = 0
        return True
    best = timeline.width[node]
    departure = timeline.time_at[node]
    if width <= best and (is_root or scan.gap == UNLIMITED or departure == time):
        return False
    if departure != time:
        timeline.time_before[node] = departure
        timeline.width_before[node] = best
        timeline.time_at[node] = time
    timeline.width[node] = max(width, best)
    return True


@njit(cache=True, nogil=True, forceinline=True)
def _depart_along(index, timeline, scan, vertex, following, transition_class, time, slide):
    """Note the paths that depart with an edge from a vertex to the following one; return whether there are news."""
    program = index.program
    states = program.sizes[STATES]
    news = False
    for step in range(program.step_first[transition_class], program.step_first[transition_class + 1]):
        width = _width_at(timeline, scan, following * states + program.step_target[step], time)
        if width > 0:
            node = vertex * states + program.step_source[step]
            if _depart(timeline, scan, node, time, min(width, slide), False):
                news = True
    state = np.int64(program.start_target[transition_class])
    if state >= 0:
        width = _width_at(timeline, scan, following * states + state, time)
        if width > 0 and index.table.is_root[vertex]:
            is_new = timeline.seen[vertex * states] != scan.number
            if _depart(timeline, scan, vertex * states, time, min(width, slide), True) and is_new:
                timeline.hits[timeline.fields[HITS]] = vertex
                timeline.fields[HITS] += 1
    return news


@njit(cache=True, nogil=True, forceinline=True)
def _depart_at(index, timeline, scan, place):
    program = index.program
    time, slide = timeline.time[place], timeline.slide[place] - scan.base
    if slide <= scan.now:
        return False
    label = timeline.label[place]
    forward, inverse = np.int64(program.forward[label]), np.int64(program.inverse[label])
    source, target = np.int64(timeline.source[place]), np.int64(timeline.target[place])
    news = False
    if forward >= 0 and _depart_along(index, timeline, scan, source, target, forward, time, slide):
        news = True
    if inverse >= 0 and _depart_along(index, timeline, scan, target, source, inverse, time, slide):
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
    last = time  # the earliest departure so far
    end = node if is_end else np.int64(-1)
    strict, gap, skipped = fields[STRICT] != 0, fields[GAP], fields[SKIPPED]
    scan = _Scan(fields[SCAN], strict, gap, end, index.state[BASE], index.state[NOW])
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
        if not is_end and gap != UNLIMITED and last - departure > gap:
            break
        if strict:
            if place != skipped and _depart_at(index, timeline, scan, place):
                last = departure
            place -= 1
            continue
        begin = place
        while begin > first and timeline.time[begin - 1] == departure:
            begin -= 1
        news = True
        while news:
            news = False
            for one in range(place, begin - 1, -1):
                if one != skipped and _depart_at(index, timeline, scan, one):
                    news = True
                    last = departure
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

    A step is (entry * states + state before) * 2, + 1 if it is taken against the edge; some may come twice. No span is
    looked at.
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
