"""The tuples of a chunk in an index of cells: the edges of the window, and what they change."""

import numpy as np

from rpq.compiled.arrays.lists import append, reserve, truncate
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
    NEED_PATHS,
    NEED_SUPPORTS,
    POINTER,
    REFILLING,
    WITNESSING,
)
from rpq.operators.paths.index.tuples import apply_each, clock_at, enter_each, move_clock, window_slide
from rpq.operators.paths.index.witness import erase_loops, walk_back
from rpq.stream.edges.outcomes import DELETED, leaving_slide, outcome_of


@njit(cache=True, nogil=True)
def cross_to(index, slide, order):
    """Advance to an absolute slide, and report the rows that leave if required."""
    if index.settings.explicit:
        return expire(index, slide, order)
    cross(index, slide)
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def _cross(index, own, slide, order):
    """Advance to an absolute slide, unless a judge has to do so."""
    fields = index.state
    if fields.conflicted > 0:
        fields.next_slide, fields.next_order = slide, order
        return np.int64(NEED_CROSSING)
    return cross_to(index, slide, order)


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
def begin_insert(index, edge, time, u, v, forward, inverse):
    """Enter the edge of an insert, or raise the slide of an edge in the window. `phase` tells afterwards whether cells may
    grow."""
    fields, settings, graph = index.state, index.settings, index.graph
    slide = leaving_slide(clock_at(index, time), settings.size, settings.slide)
    is_late = edge < 0 or slide <= fields.base + fields.now
    expiry, inside = np.int64(0), np.int64(0)
    if not is_late:
        expiry, inside = np.int64(graph.expiry[edge]), window_slide(index, edge)
    # An insert of an edge that it evicts from a count window refreshes the edge.
    outcome = outcome_of(False, inside > fields.now or fields.was_inside != 0, is_late)
    if is_late or expiry > settings.ceiling:
        fields.outcomes[outcome] += 1
        if not is_late:
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
    fields.is_new_edge = 1 if inside <= fields.now else 0
    slide -= fields.base
    if slide > expiry:
        graph.expiry[edge] = slide
        fields.edge_slide = slide
        fields.phase = INSERTING
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def begin_delete(index, edge, needed):
    """Remove the edge of a delete from the window. If cells may fall, `phase` is LOSING afterwards, and `edge_slide` the
    slide up to which the edge lasted; but if a code is `needed` for that, return it and change nothing."""
    fields, graph = index.state, index.graph
    expiry = np.int64(graph.expiry[edge]) if edge >= 0 else np.int64(0)
    is_static = expiry > index.settings.ceiling
    outcome = outcome_of(True, edge >= 0 and window_slide(index, edge) > fields.now, False)
    if outcome == DELETED and not is_static and needed != DONE:
        return np.int64(needed)
    fields.outcomes[outcome] += 1
    if is_static:
        graph.window_expiry[edge] = 0
    elif outcome == DELETED:
        graph.expiry[edge] = 0
        fields.edge_slide = expiry
        fields.phase = LOSING
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def _begin(index, own, chunk, i, u, v, forward, inverse):
    fields, edge = index.state, np.int64(chunk.edge[i])
    if not chunk.delete[i]:
        return begin_insert(index, edge, chunk.timestamp[i], u, v, forward, inverse)
    code = begin_delete(index, edge, DONE if fields.supports else NEED_SUPPORTS)
    if fields.phase == LOSING:
        waiting = np.int64(0)
        if forward >= 0:
            waiting = suspect_step(index, waiting, u, v, forward, fields.edge_slide)
        if inverse >= 0:
            waiting = suspect_step(index, waiting, v, u, inverse, fields.edge_slide)
        remove_unsupported(index, waiting)
        refill(index)
        fields.phase = REFILLING
    return code


@njit(cache=True, nogil=True)
def _resume(index, own, chunk, i, count, u, v, forward, inverse):
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
def apply_chunk(index, own, chunk, count):
    """Apply the tuples of a chunk. Return DONE, or a code for what Python must do before the next call."""
    return apply_each(index, own, chunk, count, _cross, _begin, _resume)


@njit(cache=True, nogil=True)
def advance(index, own, time):
    """Advance the stream time. Returns codes as `apply_chunk` does."""
    return move_clock(index, own, time, np.int64(0), _cross)


@njit(cache=True, nogil=True)
def load_edges(index, own, chunk, slides):
    """Enter the edges of a chunk with these relative slides, of which descending ones are the cheapest. Returns codes as
    `apply_chunk` does."""
    return enter_each(index, own, chunk, slides, _enter)


@njit(cache=True, nogil=True)
def _enter(index, own, edge, slide, u, v, forward, inverse):
    if not index.graph.is_linked[edge]:
        code = link(index, edge, u, v, forward, inverse)
        if code != DONE:
            return code
    index.graph.expiry[edge] = slide
    return raise_edge(index, u, v, forward, inverse, slide)
