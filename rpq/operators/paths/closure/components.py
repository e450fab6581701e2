"""Components and rows of bits, computed from the edges in the window.

Tarjan's algorithm over the product nodes that roots reach numbers the components against their topological order. One
pass over them from the highest number then joins the row of each into those of its successors. O(links + rows).
"""

import numpy as np

from rpq.compiled.arrays.words import join
from rpq.compiled.kernel_cache import njit
from rpq.operators.paths.closure.layout import (
    COMPONENT_CAPACITY,
    COMPONENTS,
    COMPUTED,
    EXTRAS,
    FIRST,
    NEED_COMPONENTS,
    NEED_NODES,
    NEED_SUCCESSORS,
    NEED_WORDS,
    NEEDED,
    NODE_CAPACITY,
    QUEUED,
    SETTLED,
    STALE,
    SUCCESSOR_CAPACITY,
    WALKED,
    WORDS,
)
from rpq.operators.paths.index.layout import DONE, NOW, SLOTS, STATE_BITS
from rpq.operators.paths.index.rows import ZERO, lane_of, slide_of
from rpq.operators.paths.program import CLASSES, STATES


@njit(cache=True, nogil=True)
def compute(index, closure):
    """Compute components and rows anew; return a code of progress, with all to be done again where memory lacks."""
    fields = closure.fields
    forget(index, closure)
    if fields[WORDS] * 64 < index.state[SLOTS]:
        return np.int64(NEED_WORDS)
    visited = _find_components(index, closure)
    if visited < 0:
        return np.int64(NEED_NODES)
    fields[WALKED] += visited
    fields[NEEDED] = fields[COMPONENTS]
    if fields[COMPONENTS] >= fields[COMPONENT_CAPACITY]:
        _give_up(index, closure, visited)
        return np.int64(NEED_COMPONENTS)
    code = _join_rows(index, closure)
    if code != DONE:
        return code
    fields[SETTLED] = fields[COMPONENTS]
    fields[STALE] = 0
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def forget(index, closure):
    """Take the component from every product node."""
    fields, states = closure.fields, index.program.sizes[STATES]
    for i in range(np.int64(closure.member_first[fields[COMPONENTS]])):
        node = closure.member[i]
        index.table.row_of[(node >> 16) * states + (node & STATE_BITS)] = -1
    for field in (COMPONENTS, SETTLED, EXTRAS, QUEUED, FIRST):
        fields[field] = 0
    closure.member_first[0] = 0
    fields[STALE] = 1


# --- Tarjan -------------------------------------------------------------------------------------------------
#
# While the search runs, `row_of` has -2 - its number for a visited node whose component is not known.

@njit(cache=True, nogil=True)
def _find_components(index, closure):
    """Find the components of all product nodes that a root reaches; return their number, or -1 without room."""
    program, table, graph = index.program, index.table, index.graph
    classes, states = program.sizes[CLASSES], program.sizes[STATES]
    visited = np.int64(0)
    for slot in range(index.state[SLOTS]):
        root = np.int64(table.slot_vertex[slot])
        if root < 0 or not table.is_root[root]:
            continue
        for first_class in range(classes):
            state = np.int64(program.start_target[first_class])
            if state < 0:
                continue
            links = root * classes + first_class
            start = np.int64(graph.out.start[links])
            for place in range(start, start + np.int64(graph.out.length[links])):
                link = graph.out.entries[place]
                if slide_of(graph, link) <= index.state[NOW]:
                    continue
                if table.row_of[(link >> 32) * states + state] == -1:
                    visited = _search(index, closure, (link >> 32) << 16 | state, visited)
                    if visited < 0:
                        return visited
    return visited


@njit(cache=True, nogil=True)
def _give_up(index, closure, visited):
    """Leave no trace of a search that ran out of room."""
    states = index.program.sizes[STATES]
    for i in range(visited):
        node = closure.node[i]
        index.table.row_of[(node >> 16) * states + (node & STATE_BITS)] = -1
    closure.fields[COMPONENTS] = 0
    closure.member_first[0] = 0
    return np.int64(-1)


@njit(cache=True, nogil=True)
def _search(index, closure, node, visited):
    """Find the components of what a product node reaches; return the number of visited nodes, or -1 without room."""
    program, graph, row_of, fields = index.program, index.graph, index.table.row_of, closure.fields
    classes, states, now = program.sizes[CLASSES], program.sizes[STATES], index.state[NOW]
    depth, waiting = np.int64(0), np.int64(0)
    entering = node
    while True:
        if entering >= 0:
            if visited >= fields[NODE_CAPACITY]:
                return _give_up(index, closure, visited)
            state = entering & STATE_BITS
            row_of[(entering >> 16) * states + state] = -2 - visited
            closure.node[visited] = entering
            closure.lowest[visited] = visited
            closure.waiting[waiting] = visited
            waiting += 1
            closure.path[depth] = visited
            leave = np.int64(program.leave_first[state])
            closure.leave[depth] = leave
            closure.place[depth] = 0
            depth += 1
            visited += 1
            entering = np.int64(-1)
        present = np.int64(closure.path[depth - 1])
        vertex, state = closure.node[present] >> 16, closure.node[present] & STATE_BITS
        leave, place = np.int64(closure.leave[depth - 1]), np.int64(closure.place[depth - 1])
        lowest = np.int64(closure.lowest[present])
        last = np.int64(program.leave_first[state + 1])
        while leave < last:
            links = vertex * classes + program.leave_class[leave]
            target_state = np.int64(program.leave_target[leave])
            start, length = np.int64(graph.out.start[links]), np.int64(graph.out.length[links])
            while place < length:
                link = graph.out.entries[start + place]
                place += 1
                if slide_of(graph, link) <= now:
                    continue
                at = np.int64(row_of[(link >> 32) * states + target_state])
                if at == -1:
                    entering = (link >> 32) << 16 | target_state
                    break
                if at < 0:
                    lowest = min(lowest, -2 - at)
            if entering >= 0:
                break
            leave += 1
            place = np.int64(0)
        closure.lowest[present] = lowest
        if entering >= 0:
            closure.leave[depth - 1] = leave
            closure.place[depth - 1] = place
            continue
        depth -= 1
        if lowest == present:
            waiting = _close(index, closure, present, waiting)
        else:
            above = np.int64(closure.path[depth - 1])
            closure.lowest[above] = min(np.int64(closure.lowest[above]), lowest)
        if depth == 0:
            return visited


@njit(cache=True, nogil=True)
def _close(index, closure, first, waiting):
    """Make a component of the nodes that wait, down to the first of it; return how many are left."""
    fields, states = closure.fields, index.program.sizes[STATES]
    component = fields[COMPONENTS]
    # Components beyond the room for them are counted, and not written.
    has_room = component < fields[COMPONENT_CAPACITY]
    end = np.int64(closure.member_first[component]) if has_room else np.int64(0)
    accepting = np.int64(0)
    while True:
        waiting -= 1
        number = np.int64(closure.waiting[waiting])
        node = closure.node[number]
        index.table.row_of[(node >> 16) * states + (node & STATE_BITS)] = component
        if has_room:
            closure.member[end] = node
            end += 1
            accepting += np.int64(index.program.accepting[node & STATE_BITS])
        if number == first:
            break
    if has_room:
        closure.member_first[component + 1] = end
        closure.accepting[component] = accepting
    fields[COMPONENTS] = component + 1
    return waiting


# --- rows ---------------------------------------------------------------------------------------------------

@njit(cache=True, nogil=True)
def _join_rows(index, closure):
    program, table, graph, fields = index.program, index.table, index.graph, closure.fields
    classes, states, now, words = program.sizes[CLASSES], program.sizes[STATES], index.state[NOW], fields[WORDS]
    count = fields[COMPONENTS]
    for word in range(count * words):
        closure.rows[word] = ZERO
    for component in range(count):
        closure.seen[component] = -1
        closure.is_queued[component] = 0
        closure.extra_head[component] = -1
    for slot in range(index.state[SLOTS]):
        root = np.int64(table.slot_vertex[slot])
        if root < 0 or not table.is_root[root]:
            continue
        for first_class in range(classes):
            state = np.int64(program.start_target[first_class])
            if state < 0:
                continue
            links = root * classes + first_class
            start = np.int64(graph.out.start[links])
            for place in range(start, start + np.int64(graph.out.length[links])):
                link = graph.out.entries[place]
                if slide_of(graph, link) > now:
                    reached = np.int64(table.row_of[(link >> 32) * states + state])
                    closure.rows[reached * words + (slot >> 6)] |= lane_of(slot)
    found, walked, joined = 0, np.int64(0), np.int64(0)
    for component in range(count - 1, -1, -1):
        closure.next_first[component] = found
        for i in range(np.int64(closure.member_first[component]), np.int64(closure.member_first[component + 1])):
            vertex, state = closure.member[i] >> 16, closure.member[i] & STATE_BITS
            for leave in range(program.leave_first[state], program.leave_first[state + 1]):
                links = vertex * classes + program.leave_class[leave]
                target_state = np.int64(program.leave_target[leave])
                start = np.int64(graph.out.start[links])
                length = np.int64(graph.out.length[links])
                walked += length
                for place in range(start, start + length):
                    link = graph.out.entries[place]
                    if slide_of(graph, link) <= now:
                        continue
                    target = np.int64(table.row_of[(link >> 32) * states + target_state])
                    if target == component or closure.seen[target] == component:
                        continue
                    closure.seen[target] = component
                    if found >= fields[SUCCESSOR_CAPACITY]:
                        return np.int64(NEED_SUCCESSORS)
                    closure.next[found] = target
                    found += 1
                    for word in range(0, words, 8):
                        join(closure.rows, target * words + word, closure.rows, component * words + word)
                    joined += words
        closure.next_end[component] = found
    fields[WALKED] += walked
    fields[COMPUTED] += joined + count * words
    return np.int64(DONE)
