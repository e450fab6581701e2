"""The loop over the tuples of a chunk."""

import numpy as np

from rpq.compiled.arrays.lists import append, reserve, truncate
from rpq.compiled.cycle_counter import count_ticks
from rpq.compiled.intrinsics import cycles
from rpq.compiled.kernel_cache import njit
from rpq.operators.paths.index.conflicts import concerns_doubt
from rpq.operators.paths.index.delete import refill, remove_unsupported, report_lost, suspect_step
from rpq.operators.paths.index.expiry import cross, expire
from rpq.operators.paths.index.insert import fixpoint, raise_step
from rpq.operators.paths.index.layout import (
    DONE,
    IDLE,
    INSERTING,
    JUDGING,
    LOSING,
    LOW_HALF,
    NEED_CROSSING,
    NEED_JUDGE,
    NEED_LINKS,
    NEED_OUTPUT,
    NEED_PATHS,
    NEED_SUPPORTS,
    NEED_TIME,
    POINTER,
    REFILLING,
    WITNESSING,
)
from rpq.operators.paths.index.rows import end_event
from rpq.operators.paths.index.witness import erase_loops, walk_back
from rpq.stream.edges.outcomes import ABSENT, DELETED, INSERTED, IRRELEVANT, leaving_slide, outcome_of


@njit(cache=True, nogil=True)
def start_clock(index, time):
    """Set the stream time at the first tuple, without crossing a boundary."""
    fields, settings = index.state, index.settings
    fields.has_time = 1
    fields.time = time
    fields.base = time // settings.slide
    fields.last_sweep = fields.base
    cross(index, fields.base)


@njit(cache=True, nogil=True)
def cross_to(index, slide, order):
    """Advance to an absolute slide, and report the rows that leave if required."""
    if index.settings.explicit:
        return expire(index, slide, order)
    cross(index, slide)
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def move_clock(index, time, order):
    """Make `time` the stream time if it is larger, crossing boundaries, whose events have this place in the chunk."""
    fields, settings = index.state, index.settings
    if not fields.has_time:
        start_clock(index, time)
    elif time > fields.time:
        if time >= fields.next_boundary:
            slide = time // settings.slide
            if fields.conflicted > 0:
                return np.int64(NEED_CROSSING)
            code = cross_to(index, slide, order)
            if code != DONE:
                return code
        fields.time = time
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def link(index, edge, u, v, forward, inverse):
    """Insert an edge into the adjacency lists. If a pool is full, change nothing and return NEED_LINKS."""
    graph, classes = index.graph, index.program.sizes.classes
    both = 2 if u == v and forward == inverse else 1
    backward = index.state.backward != 0
    if forward >= 0:
        if not reserve(graph.out, u * classes + forward, both):
            return np.int64(NEED_LINKS)
        if backward and not reserve(graph.into, v * classes + forward, both):
            return np.int64(NEED_LINKS)
    if inverse >= 0:
        if not reserve(graph.out, v * classes + inverse, both):
            return np.int64(NEED_LINKS)
        if backward and not reserve(graph.into, u * classes + inverse, both):
            return np.int64(NEED_LINKS)
    if forward >= 0:
        append(graph.out, u * classes + forward, v << 32 | edge << 1)
        if backward:
            append(graph.into, v * classes + forward, u << 32 | edge << 1)
    if inverse >= 0:
        append(graph.out, v * classes + inverse, u << 32 | edge << 1 | 1)
        if backward:
            append(graph.into, u * classes + inverse, v << 32 | edge << 1 | 1)
    graph.is_linked[edge] = 1
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def _drop_link(lists, i, edge):
    first = np.int64(lists.start[i])
    count = np.int64(0)
    for place in range(first, first + np.int64(lists.length[i])):
        if (lists.entries[place] >> 1) & POINTER != edge:
            lists.entries[first + count] = lists.entries[place]
            count += 1
    truncate(lists, i, count)


@njit(cache=True, nogil=True)
def unlink(index, edge, u, v, forward, inverse):
    """Remove an edge from the adjacency lists."""
    graph, classes = index.graph, index.program.sizes.classes
    backward = index.state.backward != 0
    if forward >= 0:
        _drop_link(graph.out, u * classes + forward, edge)
        if backward:
            _drop_link(graph.into, v * classes + forward, edge)
    if inverse >= 0:
        _drop_link(graph.out, v * classes + inverse, edge)
        if backward:
            _drop_link(graph.into, u * classes + inverse, edge)
    graph.is_linked[edge] = 0


@njit(cache=True, nogil=True)
def raise_edge(index, u, v, forward, inverse, slide):
    """Raise the cells to which an edge leads in either direction, until nothing changes."""
    code = np.int64(DONE)
    if forward >= 0:
        code = raise_step(index, u, v, forward, slide)
    if code == DONE and inverse >= 0:
        code = raise_step(index, v, u, inverse, slide)
    if code == DONE:
        code = fixpoint(index)
    return code


@njit(cache=True, nogil=True)
def begin_insert(index, chunk, i, u, v, forward, inverse):
    """Enter the edge of an insert, or raise the slide of an edge in the window. `phase` tells afterwards whether cells may
    grow."""
    fields, settings, graph = index.state, index.settings, index.graph
    edge = np.int64(chunk.edge[i])
    slide = leaving_slide(chunk.timestamp[i], settings.size, settings.slide)
    is_late = edge < 0 or slide <= fields.base + fields.now
    expiry = np.int64(0) if is_late else np.int64(graph.expiry[edge])
    is_static = expiry > settings.ceiling
    inside = np.int64(graph.window_expiry[edge]) if is_static else expiry
    outcome = outcome_of(False, inside > fields.now, is_late)
    if is_late or is_static:
        fields.outcomes[outcome] += 1
        if is_static:
            graph.window_expiry[edge] = max(inside, slide - fields.base)
        return np.int64(DONE)
    if settings.judged and graph.is_linked[edge] and expiry <= fields.now:
        # Move it to the end of its list, as if a sweep had removed it first: searches follow this order.
        unlink(index, edge, u, v, forward, inverse)
    if not graph.is_linked[edge]:
        code = link(index, edge, u, v, forward, inverse)
        if code != DONE:
            return code
    fields.outcomes[outcome] += 1
    fields.is_new_edge = 1 if outcome == INSERTED else 0
    slide -= fields.base
    if slide > expiry:
        graph.expiry[edge] = slide
        fields.edge_slide = slide
        fields.phase = INSERTING
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def begin_delete(index, chunk, i, u, v, forward, inverse):
    fields, graph = index.state, index.graph
    edge = np.int64(chunk.edge[i])
    expiry = np.int64(graph.expiry[edge]) if edge >= 0 else np.int64(0)
    is_static = expiry > index.settings.ceiling
    inside = np.int64(graph.window_expiry[edge]) if is_static else expiry
    outcome = outcome_of(True, inside > fields.now, False)
    if outcome == DELETED and not is_static and not fields.supports:
        return np.int64(NEED_SUPPORTS)
    fields.outcomes[outcome] += 1
    if is_static:
        graph.window_expiry[edge] = 0
    if is_static or outcome == ABSENT:
        return np.int64(DONE)
    graph.expiry[edge] = 0
    waiting = np.int64(0)
    if forward >= 0:
        waiting = suspect_step(index, waiting, u, v, forward, expiry)
    if inverse >= 0:
        waiting = suspect_step(index, waiting, v, u, inverse, expiry)
    remove_unsupported(index, waiting)
    refill(index)
    fields.phase = REFILLING
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def _resume(index, u, v, forward, inverse):
    """Complete the current tuple, from its phase on."""
    fields = index.state
    if fields.phase == INSERTING:
        code = raise_edge(index, u, v, forward, inverse, fields.edge_slide)
        if code != DONE:
            return code
        fields.next_path = fields.event_out
        fields.phase = WITNESSING if index.settings.witness else IDLE
        if index.settings.judged and fields.is_new_edge and fields.conflicted > 0:
            if concerns_doubt(index, u, v, forward, inverse):
                fields.phase = JUDGING
    if fields.phase == REFILLING:
        quiet = fields.quiet
        fields.quiet = 1
        code = fixpoint(index)
        fields.quiet = quiet
        if code != DONE:
            return code
        fields.next_lost = 0
        fields.phase = LOSING
    if fields.phase == LOSING:
        code = report_lost(index)
        if code != DONE:
            return code
        fields.phase = JUDGING if fields.conflicted > 0 else IDLE
    if fields.phase == JUDGING:
        return np.int64(NEED_JUDGE)
    if fields.phase == WITNESSING:
        code = write_paths(index)
        if code != DONE:
            return code
        fields.phase = IDLE
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def write_paths(index):
    """Write a witness for each row of the current event, from row NEXT_PATH on."""
    fields, output = index.state, index.output
    steps = np.empty(64, np.int64)
    while fields.next_path < fields.out:
        pair = output.pairs[fields.next_path]
        length, steps = walk_back(index, pair >> 32, pair & LOW_HALF, steps)
        if index.settings.simple:
            length = erase_loops(pair & LOW_HALF, steps, length)
        if fields.paths + length > fields.path_capacity or fields.next_path >= fields.path_end_capacity:
            return np.int64(NEED_PATHS)
        for j in range(length):
            output.paths[fields.paths + j] = steps[j] & LOW_HALF
        fields.paths += length
        output.path_end[fields.next_path] = fields.paths
        fields.next_path += 1
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def apply_tuples(index, chunk, count):
    """Apply the tuples of a chunk from `state.tuple` on. Return DONE, or a code for what Python must do first."""
    fields, program = index.state, index.program
    while fields.tuple < count:
        i = fields.tuple
        label = np.int64(chunk.label[i])
        forward = np.int64(program.forward[label])
        inverse = np.int64(program.inverse[label])
        if fields.phase == IDLE:
            relevant = forward >= 0 or inverse >= 0
            if relevant:
                if fields.events >= fields.event_capacity:
                    return np.int64(NEED_OUTPUT)
                fields.tuple_start = cycles()
                if fields.tuple_start > index.deadline[0]:
                    return np.int64(NEED_TIME)
            code = move_clock(index, chunk.timestamp[i], 2 * i)
            if code != DONE:
                return code
            if not relevant:
                fields.outcomes[IRRELEVANT] += 1
                fields.tuple += 1
                continue
            u = np.int64(chunk.source[i])
            v = np.int64(chunk.target[i])
            if chunk.delete[i]:
                code = begin_delete(index, chunk, i, u, v, forward, inverse)
            else:
                code = begin_insert(index, chunk, i, u, v, forward, inverse)
            if code != DONE:
                return code
        if fields.phase != IDLE:
            code = _resume(index, np.int64(chunk.source[i]), np.int64(chunk.target[i]), forward, inverse)
            if code != DONE:
                return code
            end_event(index, fields.time, -1 if chunk.delete[i] else 1, 2 * i + 1)
        ticks = cycles() - fields.tuple_start
        count_ticks(index.latency, ticks)
        if i < fields.timed_tuples:
            index.ticks[i] += ticks
        fields.tuple += 1
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def load_tuples(index, chunk, slides, count):
    """Insert edges with their relative slides, without crossing boundaries or counting tuples. Descending slides are the
    cheapest."""
    fields, program, graph = index.state, index.program, index.graph
    while fields.tuple < count:
        i = fields.tuple
        edge = np.int64(chunk.edge[i])
        forward = np.int64(program.forward[chunk.label[i]])
        inverse = np.int64(program.inverse[chunk.label[i]])
        if forward >= 0 or inverse >= 0:
            u = np.int64(chunk.source[i])
            v = np.int64(chunk.target[i])
            if not graph.is_linked[edge]:
                code = link(index, edge, u, v, forward, inverse)
                if code != DONE:
                    return code
            graph.expiry[edge] = slides[i]
            code = raise_edge(index, u, v, forward, inverse, slides[i])
            if code != DONE:
                return code
        fields.tuple += 1
    return np.int64(DONE)
