"""The loop over the tuples of a chunk, the clock, and the loading of a window: the same for every kind of index.

The functions here are inlined into the kernels of each kind, which pass what differs as kernels:

* `cross(index, own, slide, order)` advances to an absolute slide; events on the way have this place in the chunk.
* `begin(index, own, chunk, i, u, v, forward, inverse)` applies tuple i, an edge from u to v with these transition
  classes, to the edges of the window, and sets `state.phase` if cells may change.
* `resume(index, own, chunk, i, count, u, v, forward, inverse)` completes tuple i from its phase on.

Each returns DONE, or a code for what Python must do before the next call. `own` is the view of what a kind of index has
besides the Δ index, or again the view of the Δ index.

The *clock* is what moves the window: the time, or in a count window the number of the last insert, so that a count window is
a time window over the numbers of inserts. Over an unbounded window it stands still.
"""

import numpy as np

from rpq.compiled.cycle_counter import count_ticks
from rpq.compiled.intrinsics import cycles
from rpq.compiled.kernel_cache import njit
from rpq.operators.paths.index.expiry import cross as cross_table
from rpq.operators.paths.index.layout import BY_INSERTS, BY_TIME, DONE, IDLE, NEED_OUTPUT, NEED_TIME
from rpq.operators.paths.index.rows import end_event
from rpq.stream.edges.outcomes import IRRELEVANT


@njit(cache=True, nogil=True, inline="always")
def apply_each(index, own, chunk, count, cross, begin, resume):
    """Apply the tuples of a chunk from `state.tuple` on. Return DONE, or a code."""
    fields, program = index.state, index.program
    # At each turn, all tuples before `tuple` are complete, and `phase` is what remains to be done for that tuple. The rows
    # from `event_out` on are those of the current event. A code changes none of that, so the next call continues here.
    while fields.tuple < count:
        i = fields.tuple
        label = np.int64(chunk.label[i])
        forward, inverse = np.int64(program.forward[label]), np.int64(program.inverse[label])
        relevant, begins = forward >= 0 or inverse >= 0, fields.phase == IDLE
        if begins:
            if relevant:
                if fields.events >= fields.event_capacity:
                    return np.int64(NEED_OUTPUT)
                fields.tuple_start = cycles()
                if fields.tuple_start > index.deadline[0]:
                    return np.int64(NEED_TIME)
            if index.settings.moved_by == BY_INSERTS and fields.numbered <= i:
                _number_tuple(index, chunk, i, relevant)
            code = move_clock(index, own, chunk.timestamp[i], 2 * i, cross)
            if code != DONE:
                return code
            if not relevant:
                fields.outcomes[IRRELEVANT] += 1
                fields.tuple += 1
                continue
        u, v = np.int64(chunk.source[i]), np.int64(chunk.target[i])
        if begins:
            code = begin(index, own, chunk, i, u, v, forward, inverse)
            if code != DONE:
                return code
        if fields.phase != IDLE:
            code = resume(index, own, chunk, i, count, u, v, forward, inverse)
            if code != DONE:
                return code
            fields.phase = IDLE
            end_event(index, fields.time, -1 if chunk.delete[i] else 1, 2 * i + 1)
        ticks = cycles() - fields.tuple_start
        count_ticks(index.latency, ticks)
        if i < fields.timed_tuples:
            index.ticks[i] += ticks
        fields.tuple += 1
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def _number_tuple(index, chunk, i, relevant):
    """Advance the clock of a count window if tuple i is an insert that it counts."""
    fields, edge = index.state, np.int64(chunk.edge[i])
    fields.numbered = i + 1  # the number of a tuple is taken once, although it may be begun again after a code
    fields.was_inside = 1 if relevant and edge >= 0 and window_slide(index, edge) > fields.now else 0
    if chunk.delete[i] == 0 and index.numbered[chunk.label[i]] != 0:
        fields.clock += 1


@njit(cache=True, nogil=True, forceinline=True)
def window_slide(index, edge):
    """Return the relative slide at which an edge leaves the window; a static edge may be in the window too."""
    expiry = np.int64(index.graph.expiry[edge])
    return np.int64(index.graph.window_expiry[edge]) if expiry > index.settings.ceiling else expiry


@njit(cache=True, nogil=True, forceinline=True)
def clock_at(index, time):
    """Return the clock at a time."""
    return time if index.settings.moved_by == BY_TIME else index.state.clock


@njit(cache=True, nogil=True, forceinline=True)
def _slide_at(index, clock):
    """Return the slide of the last boundary up to a clock."""
    slide = clock // index.settings.slide
    return slide - slide % index.settings.step


@njit(cache=True, nogil=True, inline="always")
def move_clock(index, own, time, order, cross):
    """Advance the stream time if `time` is larger, and cross the boundaries up to its clock. Return DONE, or a code.

    The events of the boundaries have this place in the chunk.
    """
    fields, clock, code = index.state, clock_at(index, time), np.int64(DONE)
    if not fields.has_time:
        fields.has_time = 1
        fields.time = time
        fields.base = _slide_at(index, clock)
        fields.last_sweep = fields.base
        cross_table(index, fields.base)
    fields.time = max(fields.time, time)
    if clock >= fields.next_boundary:  # which `cross` moves beyond the clock when it is done
        code = cross(index, own, _slide_at(index, clock), order)
    return code


@njit(cache=True, nogil=True, inline="always")
def enter_each(index, own, chunk, slides, enter):
    """Enter the edges of a chunk with these relative slides from `state.tuple` on, without crossing boundaries or counting
    tuples. Return DONE, or a code.

    `enter(index, own, edge, slide, u, v, forward, inverse)` may be called again for the same edge after a code.
    """
    fields, program = index.state, index.program
    while fields.tuple < len(slides):
        i = fields.tuple
        forward, inverse = np.int64(program.forward[chunk.label[i]]), np.int64(program.inverse[chunk.label[i]])
        if forward >= 0 or inverse >= 0:
            u, v = np.int64(chunk.source[i]), np.int64(chunk.target[i])
            code = enter(index, own, np.int64(chunk.edge[i]), slides[i], u, v, forward, inverse)
            if code != DONE:
                return code
        fields.tuple += 1
    return np.int64(DONE)
