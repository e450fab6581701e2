"""A path for an answer, found in the index by following predecessors back to the root."""

import numpy as np

from rpq.compiled.kernel_cache import njit
from rpq.operators.paths.index.rows import cell_at, in_edges, next_in_edge, row_at


@njit(cache=True, nogil=True)
def walk_back(index, source, target, steps):
    """Write the steps of a path from `source` to `target`, last first. Return their number, or -1 if the pair is not an
    answer.

    The path begins at the accepting state that lives longest and follows supports, so it lasts as long as the answer. The
    lower 32 bits of a step are `edge << 1 | against`, the upper ones the vertex before it. The `into` lists are required.
    """
    program, table = index.program, index.table
    slot = np.int64(table.slot_of[source])
    if slot < 0:
        return np.int64(-1), steps
    best = np.int64(index.state.now)
    end_state = np.int64(-1)
    for i in range(program.sizes.accepting):
        state = np.int64(program.accepting_states[i])
        cell = cell_at(index, target, state, slot)
        if cell >= 0 and np.int64(table.values[cell]) > best:
            best = np.int64(table.values[cell])
            end_state = state
    if end_state < 0:
        return np.int64(-1), steps
    length, steps = _follow_supports(index, source, slot, target, end_state, steps)
    if length < 0:
        length, steps = _search_back(index, source, slot, target, end_state, steps)
    return length, steps


@njit(cache=True, nogil=True)
def _follow_supports(index, source, slot, vertex, state, steps):
    """Follow from each cell the latest predecessor that supports it, back to the root. Return the number of steps, or -1 if
    a cell has no support.

    A support is strictly larger, or as large with fewer hops, so no node is visited twice and no visits need to be recorded.
    Only a cell whose hop count is saturated may have no support. O(length × degree), usually less, since the edge that last
    raised a row is the latest one.
    """
    table = index.table
    length = np.int64(0)
    while True:
        cell = cell_at(index, vertex, state, slot)
        own_value, hops = np.int64(table.values[cell]), np.int64(table.hops[cell])
        support, support_state = np.int64(-1), np.int64(-1)
        edge = in_edges(index, vertex, state, -1)
        while support < 0:
            edge = next_in_edge(index, vertex, state, edge, own_value - 1)
            if edge.link < 0:
                break
            if edge.source_state == 0:
                supports = edge.source == source
            else:
                supports = False
                cell = cell_at(index, edge.source, edge.source_state, slot)
                if cell >= 0:
                    value = np.int64(table.values[cell])
                    supports = value > own_value or (value == own_value and np.int64(table.hops[cell]) < hops)
            if supports:
                support, support_state = edge.link, edge.source_state
        if support < 0:
            return np.int64(-1), steps
        if length >= len(steps):
            steps = np.concatenate((steps, np.empty_like(steps)))
        steps[length] = support
        length += 1
        if support_state == 0:
            return length, steps
        vertex, state = support >> 32, support_state


@njit(cache=True, nogil=True)
def _search_back(index, source, slot, target, end_state, steps):
    """Return the same as `_follow_supports` by a depth-first search over the live cells of the root, better predecessors
    first.

    It visits a product node at most once, and cannot fail, because a live cell has a path.
    """
    table, states = index.table, index.program.sizes.states
    now = index.state.now
    visited = np.zeros(index.state.rows, np.uint8)
    trail = np.empty(64, np.int64)  # the node at each depth
    trail[0] = target * states + end_state
    visited[row_at(index, target, end_state)] = 1
    depth = 0
    while True:
        vertex = trail[depth] // states
        state = trail[depth] - vertex * states
        own_cell = cell_at(index, vertex, state, slot)
        own_value = np.int64(table.values[own_cell])
        best_value, best_hops, best_node, best_step = np.int64(-1), np.int64(1 << 30), np.int64(-1), np.int64(-1)
        edge = in_edges(index, vertex, state)
        while True:
            edge = next_in_edge(index, vertex, state, edge, now)
            if edge.link < 0:
                break
            if edge.source_state == 0:
                if edge.source == source and edge.slide >= own_value:
                    # The root itself is the best predecessor.
                    if depth >= len(steps):
                        steps = np.concatenate((steps, np.empty_like(steps)))
                    steps[depth] = edge.link
                    return np.int64(depth + 1), steps
                continue
            cell = cell_at(index, edge.source, edge.source_state, slot)
            if cell < 0 or visited[row_at(index, edge.source, edge.source_state)]:
                continue
            value = np.int64(table.values[cell])
            if min(edge.slide, value) < own_value:
                continue
            # The best predecessor is strictly larger, or the nearest to one that is.
            hops = np.int64(table.hops[cell]) if index.state.supports else np.int64(0)
            if value > own_value:
                hops = np.int64(-1)
            if hops < best_hops or (hops == best_hops and value > best_value):
                best_value, best_hops = value, hops
                best_node, best_step = edge.source * states + edge.source_state, edge.link
        if best_node < 0:
            # A dead end of the search: every predecessor was visited. Back up.
            depth -= 1
            continue
        if depth >= len(steps):
            steps = np.concatenate((steps, np.empty_like(steps)))
        steps[depth] = best_step
        depth += 1
        if depth >= len(trail):
            trail = np.concatenate((trail, np.empty_like(trail)))
        trail[depth] = best_node
        visited[row_at(index, best_node // states, best_node % states)] = 1


@njit(cache=True, nogil=True)
def erase_loops(target, steps, length):
    """Remove the cycles of a walk to `target`, as `walk_back` gives it, in place; return the number of steps.

    The labels of the remaining steps are a word of the language if the pair is not in doubt (see `conflicts.py`). A walk
    from `target` itself stays a cycle.
    """
    walk = np.empty(length, np.int64)
    count = 0
    place = length - 1
    while place >= 0:
        vertex = steps[place] >> 32
        if vertex == target and place < length - 1:
            break
        for later in range(place):
            # Continue from where the walk leaves the vertex for the last time.
            if steps[later] >> 32 == vertex:
                place = later
                break
        walk[count] = steps[place]
        count += 1
        place -= 1
    for i in range(count):
        steps[i] = walk[count - 1 - i]
    return count
