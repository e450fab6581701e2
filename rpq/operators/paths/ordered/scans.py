"""Scans over the timeline: backward from an edge for all roots, forward from an edge for all that follows from it.

A *backward* scan visits the entries before an edge, the latest first. It notes at which product nodes a path departs that
leads to the edge. The cell of a root stands for the path whose first edge is the latest, and the scan finds this path first:
this is the latest departure of Wu et al. (Path problems in temporal graphs, PVLDB 7(9), 2014), for all sources in one pass.
With a gap, the earliest departure from a node decides whether an edge may precede it; without a gap, any later departure
does. A path lasts as long as the edge of it that leaves first, which is its *width*: in windows of time that is its first
edge, in others it may be any. So in a count window with a gap, the path from a product node that lasts longest may depart
too late. There departures are noted one by one, in a list that retains only those whose paths last longer than the paths of
all earlier departures.

Under a strict order, an edge must not depart at the time of its successor. Therefore the last two departures from every
product node are stored, with different timestamps: `time` and `previous_time`. Under the other order, the entries of one
timestamp are visited again until nothing changes.
"""

from typing import Any, NamedTuple

import numpy as np

from rpq.compiled.kernel_cache import njit
from rpq.operators.paths.index.layout import DONE
from rpq.operators.paths.ordered.timeline import (
    EARLIEST,
    NEED_STEPS,
    UNLIMITED,
    begin_scan,
    entries_leaving_by,
    entries_up_to,
    mark_of,
)


class _Scan(NamedTuple):
    """The constants of a scan back."""

    number: int
    mark: int
    strict: bool
    gap: int
    lists: bool  # departures are noted one by one
    end: Any  # int: the node at which paths end, whatever the time; -1 for none
    base: int
    now: int


@njit(cache=True, nogil=True, forceinline=True)
def _width_at(timeline, scan, node, time):
    """Return the largest slide up to which a path lasts that departs from a node after an edge at `time`; 0 if none does."""
    found = timeline.nodes[node]
    if found.scan != scan.number:
        return np.int64(0)
    if scan.lists:
        return found.width if node == scan.end else _width_in_list(timeline, scan, found.previous_width, time)
    departure, width = found.time, found.width
    if scan.strict and departure == time:
        departure, width = found.previous_time, found.previous_width
    if scan.gap != UNLIMITED and width > 0 and node != scan.end and departure - time > scan.gap:
        return np.int64(0)
    return width


@njit(cache=True, nogil=True)
def _width_in_list(timeline, scan, last, time):
    """Return the largest slide up to which a path lasts that departs within the gap after `time`; 0 if none does."""
    width = np.int64(0)
    while last > 0:
        departure = timeline.departures[last]
        if departure.time - time > scan.gap:
            break
        if not scan.strict or departure.time != time:
            width = max(width, departure.width)
        last = departure.previous
    return width


@njit(cache=True, nogil=True)
def _depart_from_list(timeline, node, time, width):
    """Note that a path departs from a node at `time`, which is not above those noted before. Return whether that is new."""
    found, fields = timeline.nodes[node], timeline.fields
    last = found.previous_width
    found.width = max(found.width, width)
    if last > 0 and timeline.departures[last].time == time:
        if width <= timeline.departures[last].width:
            return False
        timeline.departures[last].width = width
        return True
    if last > 0:  # a path that departs later matters only if it lasts longer
        best, previous = timeline.departures[last].width, timeline.departures[last].previous
        while previous > 0 and timeline.departures[previous].width <= best:
            previous = timeline.departures[previous].previous
        timeline.departures[last].previous = previous
    fields.departures += 1
    departure = timeline.departures[fields.departures]
    departure.time = time
    departure.width = width
    departure.previous = last
    found.time = time
    found.previous_width = fields.departures
    return True


@njit(cache=True, nogil=True, forceinline=True)
def _depart(timeline, scan, node, time, width, is_root):
    """Note that a path departs from a node at `time`, which is not above those noted before. Return whether that is new."""
    found = timeline.nodes[node]
    if found.scan != scan.number:
        found.scan = scan.number
        found.time = time
        found.width = width
        found.previous_width = 0
        return is_root or not scan.lists or _depart_from_list(timeline, node, time, width)
    if scan.lists and not is_root:
        return _depart_from_list(timeline, node, time, width)
    best = found.width
    departure = found.time
    if width <= best and (is_root or scan.gap == UNLIMITED or departure == time):
        return False
    if departure != time:
        found.previous_time = departure
        found.previous_width = best
        found.time = time
    found.width = max(width, best)
    return True


@njit(cache=True, nogil=True, forceinline=True)
def _depart_along(index, timeline, scan, vertex, following, transition_class, time, slide):
    """Note the paths that depart with an edge from a vertex to the following one. Return whether any is new."""
    program = index.program
    states = program.sizes.states
    news = False
    for step in range(program.step_first[transition_class], program.step_first[transition_class + 1]):
        width = _width_at(timeline, scan, following * states + program.step_target[step], time)
        if width > 0:
            node = vertex * states + program.step_source[step]
            timeline.marks[vertex] = scan.mark
            if _depart(timeline, scan, node, time, min(width, slide), False):
                news = True
    state = np.int64(program.start_target[transition_class])
    if state >= 0:
        width = _width_at(timeline, scan, following * states + state, time)
        if width > 0 and index.table.is_root[vertex]:
            is_new = timeline.nodes[vertex * states].scan != scan.number
            if _depart(timeline, scan, vertex * states, time, min(width, slide), True) and is_new:
                timeline.hits[timeline.fields.hits] = vertex
                timeline.fields.hits += 1
    return news


@njit(cache=True, nogil=True, forceinline=True)
def _depart_at(index, timeline, scan, place):
    program = index.program
    source, target = np.int64(timeline.source[place]), np.int64(timeline.target[place])
    if timeline.marks[target] != scan.mark and timeline.marks[source] != scan.mark:
        return False
    time, slide = timeline.time[place], timeline.slide[place] - scan.base
    if slide <= scan.now:
        return False
    label = timeline.label[place]
    forward, inverse = np.int64(program.forward[label]), np.int64(program.inverse[label])
    news = False
    if forward >= 0 and _depart_along(index, timeline, scan, source, target, forward, time, slide):
        news = True
    if inverse >= 0 and _depart_along(index, timeline, scan, target, source, inverse, time, slide):
        news = True
    return news


@njit(cache=True, nogil=True)
def scan_back(index, timeline, vertex, state, time, width, is_end):
    """Find the roots with a path to a product node that an edge at `time` may follow, and that lasts up to `width`.

    The roots are in `hits`, and their number is in HITS. The slide up to which the path of a root lasts, relative to the
    base, is the width at its start state. With `is_end`, the path ends at the node, whatever the time, and the span is
    ignored. Entries with a slide below LOWEST_SLIDE are skipped. O(earlier edges), with a gap or a span O(edges within it).
    """
    fields = timeline.fields
    states = index.program.sizes.states
    mark = mark_of(begin_scan(timeline))
    fields.hits = 0
    node = vertex * states + state
    timeline.marks[vertex] = mark
    found = timeline.nodes[node]
    found.scan = fields.scan
    found.time = UNLIMITED if is_end else time
    found.width = width
    found.previous_width = 0
    lists = fields.departures_of_entry > 0
    fields.departures = 0
    if lists:
        _depart_from_list(timeline, node, found.time, width)
    last = time  # the earliest departure so far
    end = node if is_end else np.int64(-1)
    strict, gap, skipped = fields.strict != 0, fields.gap, fields.skipped_entry
    now = max(index.state.now, fields.lowest_slide - 1)
    scan = _Scan(fields.scan, mark, strict, gap, lists, end, index.state.base, now)
    first = entries_leaving_by(timeline, index.state.base + now) if fields.in_order != 0 else fields.first
    if not is_end and fields.span != UNLIMITED and time > EARLIEST + fields.span:
        first = max(first, entries_up_to(timeline, time - fields.span - 1))
    if is_end:
        latest = fields.count - 1
    else:
        latest = entries_up_to(timeline, time - 1 if strict else time) - 1
    place, has_gap = latest, not is_end and gap != UNLIMITED
    while place >= first:
        is_reached = timeline.marks[timeline.target[place]] == mark or timeline.marks[timeline.source[place]] == mark
        if not is_reached and not has_gap:
            place -= 1  # most entries do not lead to a node that was reached
            continue
        departure = timeline.time[place]
        if has_gap and last - departure > gap:
            break
        if strict or not is_reached:
            if place != skipped and _depart_at(index, timeline, scan, place):
                last = departure
            place -= 1
            continue
        begin = place
        while begin > first and timeline.time[begin - 1] == departure:
            begin -= 1
        while place < latest and timeline.time[place + 1] == departure:
            place += 1
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
    """Return the slide up to which the path of a root that the last scan found lasts."""
    return timeline.nodes[root * index.program.sizes.states].width


@njit(cache=True, nogil=True, forceinline=True)
def _arrives(timeline, node, time):
    """Return whether a path arrives at a node that an edge at `time` may follow."""
    fields = timeline.fields
    found = timeline.nodes[node]
    if found.scan != fields.scan:
        return False
    arrival, is_found = found.time, True
    if fields.strict != 0 and arrival == time:
        arrival, is_found = found.previous_time, found.previous_width > 0
    return is_found and (fields.gap == UNLIMITED or time - arrival <= fields.gap)


@njit(cache=True, nogil=True)
def arrive(timeline, node, time):
    """Note that a path arrives at a node at `time`, which is not below earlier arrivals. Return whether that is new."""
    fields = timeline.fields
    found = timeline.nodes[node]
    if found.scan != fields.scan:
        found.scan = fields.scan
        found.time = time
        found.previous_width = 0
        return True
    if found.time == time or fields.gap == UNLIMITED:
        return False
    found.previous_time = found.time
    found.previous_width = 1
    found.time = time
    return True


@njit(cache=True, nogil=True)
def _follow(index, timeline, place, against):
    """Note the transitions of an entry in one direction that can follow others. Return 1 if any is new, -1 without room."""
    program, fields = index.program, timeline.fields
    states = program.sizes.states
    label = timeline.label[place]
    transition_class = np.int64(program.inverse[label]) if against else np.int64(program.forward[label])
    news = np.int64(0)
    if transition_class < 0:
        return news
    vertex, following = np.int64(timeline.source[place]), np.int64(timeline.target[place])
    if against:
        vertex, following = following, vertex
    time = timeline.time[place]
    for step in range(program.step_first[transition_class], program.step_first[transition_class + 1]):
        if not _arrives(timeline, vertex * states + program.step_source[step], time):
            continue
        if fields.step_count >= fields.step_capacity:
            return np.int64(-1)
        if arrive(timeline, following * states + program.step_target[step], time):
            news = np.int64(1)
        timeline.steps[fields.step_count] = (np.int64(place) * states + program.step_source[step]) * 2 + against
        fields.step_count += 1
    return news


@njit(cache=True, nogil=True)
def scan_forward(index, timeline, time):
    """Note in `steps` the steps that can follow the nodes noted with `arrive` in the present scan, and each other.

    A step is (entry * states + state before) * 2, + 1 if it leads against the edge; some may occur twice. The span is
    ignored. Return DONE, or NEED_STEPS if there was no room; the call must then be repeated. O(edges since `time`).
    """
    fields = timeline.fields
    strict = fields.strict != 0
    fields.step_count = 0
    place = entries_up_to(timeline, time if strict else time - 1)
    while place < fields.count:
        arrival = timeline.time[place]
        end = place + 1
        while not strict and end < fields.count and timeline.time[end] == arrival:
            end += 1
        news = True
        first_step = fields.step_count
        while news:
            news = False
            fields.step_count = first_step
            for one in range(place, end):
                if timeline.slide[one] - index.state.base <= index.state.now:
                    continue
                for against in range(2):
                    found = _follow(index, timeline, one, against)
                    if found < 0:
                        return np.int64(NEED_STEPS)
                    news = news or found > 0
            if strict:
                break
        place = end
    return np.int64(DONE)
