"""Components and rows of bits, computed from the edges in the window.

Tarjan's algorithm over the product nodes that roots reach numbers the components in reverse topological order. On the way it
finds the successors of each component; the successors of nodes without a component wait on a stack. One pass over the
components then joins the row of each component into the rows of its successors. O(links + rows).
"""

import numpy as np

from rpq.compiled.arrays.words import join
from rpq.compiled.kernel_cache import njit
from rpq.operators.paths.closure.layout import NEED_COMPONENTS, NEED_NODES, NEED_SUCCESSORS, NEED_WORDS
from rpq.operators.paths.index.layout import DONE, STATE_BITS
from rpq.operators.paths.index.rows import NEVER, ZERO, lane_of, slide_of


@njit(cache=True, nogil=True)
def compute(index, closure):
    """Recompute components and rows. Return a code; after a code that asks for memory, the next call starts from the
    beginning."""
    fields = closure.fields
    forget(index, closure)
    if fields.words * 64 < index.state.slots:
        return np.int64(NEED_WORDS)
    code = _find_components(index, closure)
    fields.found_components = fields.components
    if code == DONE and fields.components >= fields.component_capacity:
        code = np.int64(NEED_COMPONENTS)
    if code != DONE:
        _clear_search(index, closure)
        return code
    _join_rows(closure)
    fields.settled = fields.components
    fields.stale = 0
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def forget(index, closure):
    """Remove all product nodes from their components."""
    fields, states = closure.fields, index.program.sizes.states
    for i in range(np.int64(closure.member_first[fields.components])):
        node = closure.member[i]
        index.table.row_of[(node >> 16) * states + (node & STATE_BITS)] = -1
    fields.components = fields.settled = fields.extras = 0
    fields.queue_length = fields.queue_head = 0
    fields.visited_nodes = fields.successors = 0
    fields.earliest_expiry = NEVER
    fields.upward = -1
    closure.member_first[0] = 0
    fields.stale = 1


@njit(cache=True, nogil=True)
def _clear_search(index, closure):
    """Remove all traces of a search that ran out of room."""
    fields, states = closure.fields, index.program.sizes.states
    for i in range(fields.visited_nodes):
        node = closure.node[i]
        index.table.row_of[(node >> 16) * states + (node & STATE_BITS)] = -1
    fields.components = 0


# --- Tarjan -------------------------------------------------------------------------------------------------
#
# While the search runs, `row_of` has -2 - its number for a visited node whose component is not known. Components beyond the
# room for them are counted, and not written.


@njit(cache=True, nogil=True)
def _find_components(index, closure):
    """Find the components of all product nodes that a root reaches, and the roots with an edge into each component."""
    program, table, graph, fields = index.program, index.table, index.graph, closure.fields
    classes, states, words = program.sizes.classes, program.sizes.states, fields.words
    earliest = np.int64(NEVER)
    for slot in range(index.state.slots):
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
                slide = slide_of(graph, link)
                if slide <= index.state.now:
                    continue
                earliest = min(earliest, slide)
                reached = np.int64(table.row_of[(link >> 32) * states + state])
                if reached == -1:
                    code = _search(index, closure, (link >> 32) << 16 | state)
                    if code != DONE:
                        return code
                    reached = fields.components - 1
                if reached < fields.component_capacity:
                    closure.rows[reached * words + (slot >> 6)] |= lane_of(slot)
    if earliest != NEVER:
        fields.earliest_expiry = min(fields.earliest_expiry, index.state.base + earliest)
    fields.walked_links += fields.visited_nodes
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def _search(index, closure, node):
    """Find the components of all product nodes that a product node reaches. Its own component is found last."""
    program, graph, row_of, fields = index.program, index.graph, index.table.row_of, closure.fields
    classes, states, now = program.sizes.classes, program.sizes.states, index.state.now
    visited, top = fields.visited_nodes, fields.successor_capacity
    depth, height, walked, earliest = np.int64(0), np.int64(0), np.int64(0), np.int64(NEVER)
    entry = node
    while True:
        if entry >= 0:
            if visited >= fields.node_capacity:
                fields.visited_nodes = visited
                return np.int64(NEED_NODES)
            state = entry & STATE_BITS
            row_of[(entry >> 16) * states + state] = -2 - visited
            closure.node[visited] = entry
            closure.lowest[visited] = visited
            closure.node_stack[height] = visited
            height += 1
            closure.path[depth] = visited
            closure.leave[depth] = np.int64(program.leave_first[state])
            closure.place[depth] = 0
            closure.top[depth] = top
            depth += 1
            visited += 1
            entry = np.int64(-1)
        present = np.int64(closure.path[depth - 1])
        vertex, state = closure.node[present] >> 16, closure.node[present] & STATE_BITS
        leave, place = np.int64(closure.leave[depth - 1]), np.int64(closure.place[depth - 1])
        lowest = np.int64(closure.lowest[present])
        last = np.int64(program.leave_first[state + 1])
        while leave < last:
            links = vertex * classes + program.leave_class[leave]
            target_state = np.int64(program.leave_target[leave])
            start, length = np.int64(graph.out.start[links]), np.int64(graph.out.length[links])
            if top - fields.successors <= length - place:
                fields.visited_nodes = visited
                return np.int64(NEED_SUCCESSORS)
            while place < length:
                link = graph.out.entries[start + place]
                place += 1
                walked += 1
                slide = slide_of(graph, link)
                if slide <= now:
                    continue
                earliest = min(earliest, slide)
                at = np.int64(row_of[(link >> 32) * states + target_state])
                if at >= 0:
                    top -= 1
                    closure.successor[top] = at
                elif at == -1:
                    entry = (link >> 32) << 16 | target_state
                    break
                else:
                    lowest = min(lowest, -2 - at)
            if entry >= 0:
                break
            leave += 1
            place = np.int64(0)
        closure.lowest[present] = lowest
        if entry >= 0:
            closure.leave[depth - 1] = leave
            closure.place[depth - 1] = place
            continue
        depth -= 1
        if lowest == present:
            height = _close(index, closure, present, height, top, np.int64(closure.top[depth]))
            top = np.int64(closure.top[depth])
            if depth > 0:
                top -= 1
                closure.successor[top] = fields.components - 1
        else:
            above = np.int64(closure.path[depth - 1])
            closure.lowest[above] = min(np.int64(closure.lowest[above]), lowest)
        if depth == 0:
            break
    fields.visited_nodes = visited
    fields.walked_links += walked
    if earliest != NEVER:
        fields.earliest_expiry = min(fields.earliest_expiry, index.state.base + earliest)
    return np.int64(DONE)


@njit(cache=True, nogil=True, forceinline=True)
def _close(index, closure, first, height, top, bottom):
    """Make a component of the height nodes from the top of the stack down to the first one of the component. Return the
    number of nodes that still wait.

    Its successors are on the stack at the end of `successor`, from `top` to `bottom`, with duplicates.
    """
    fields, states, words = closure.fields, index.program.sizes.states, closure.fields.words
    component = fields.components
    fields.components = component + 1
    has_room = component < fields.component_capacity
    end = np.int64(closure.member_first[component]) if has_room else np.int64(0)
    accepting = np.int64(0)
    while True:
        height -= 1
        number = np.int64(closure.node_stack[height])
        node = closure.node[number]
        index.table.row_of[(node >> 16) * states + (node & STATE_BITS)] = component
        if has_room:
            closure.member[end] = node
            end += 1
            accepting += np.int64(index.program.accepting[node & STATE_BITS])
        if number == first:
            break
    if not has_room:
        return height
    closure.member_first[component + 1] = end
    closure.accepting_nodes[component] = accepting
    closure.is_queued[component] = 0
    closure.extra_head[component] = -1
    closure.last_predecessor[component] = -1
    found = fields.successors
    closure.successor_first[component] = found
    for place in range(top, bottom):
        target = np.int64(closure.successor[place])
        if closure.last_predecessor[target] != component:
            closure.last_predecessor[target] = component
            closure.successor[found] = target
            found += 1
    closure.successor_end[component] = found
    fields.successors = found
    for word in range(component * words, (component + 1) * words):
        closure.rows[word] = ZERO
    return height


# --- rows ---------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _join_rows(closure):
    fields = closure.fields
    words = fields.words
    # A step leads to a lower number, so from the highest one down a row is complete when it is joined into others.
    for component in range(fields.components - 1, -1, -1):
        for i in range(np.int64(closure.successor_first[component]), np.int64(closure.successor_end[component])):
            target = np.int64(closure.successor[i])
            for word in range(0, words, 8):
                join(closure.rows, target * words + word, closure.rows, component * words + word)
    fields.joined_words += (fields.successors + fields.components) * words
