"""The search for a path of an answer: rows of bits record what a root reaches, but not by which path.

A breadth-first search from the root follows the edges that stay in the window up to some slide, and skips components from
which the target cannot be reached. A binary search over slides finds a path that lasts as long as the answer.
"""

import numpy as np

from rpq.compiled.kernel_cache import njit
from rpq.operators.paths.index.layout import LOW_HALF, STATE_BITS
from rpq.operators.paths.index.rows import NEVER, slide_of


@njit(cache=True, nogil=True)
def search_path(index, closure, source, target):
    """Return the steps of a path from `source` to `target`, first to last: (their number or -1, steps).

    A step is `edge << 1 | against`. O(edges that the root reaches × log slides). It may allocate: no tuple waits for it.
    """
    room = np.int64(closure.member_first[closure.fields.components])
    nodes, predecessor, link_to = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    components = np.empty(room, np.int64)
    steps, length = np.empty(0, np.int64), np.int64(-1)
    lasting = np.int64(index.state.now)  # the last slide of the known path
    beyond = lasting + index.settings.range + 2  # the upper bound of the search; only static edges stay longer
    least = lasting + 1
    while least < beyond:
        place = _search(index, closure, source, target, least, nodes, components, predecessor, link_to)
        if place >= 0:
            lasting, length, at = np.int64(NEVER), np.int64(0), place
            while at >= 0:
                lasting = min(lasting, slide_of(index.graph, link_to[at]))
                length += 1
                at = predecessor[at]
            steps, at = np.empty(length, np.int64), place
            for i in range(length - 1, -1, -1):
                steps[i] = link_to[at] & LOW_HALF
                at = predecessor[at]
        elif length < 0:
            break
        else:
            beyond = least
        least = lasting + (beyond - lasting + 1) // 2
    return length, steps


@njit(cache=True, nogil=True)
def _search(index, closure, source, target, least, nodes, components, predecessor, link_to):
    """Search from a root along edges that stay up to a slide. Return the place of an accepting node of the target, or -1.

    `link_to` contains the link to the node at each place, and `predecessor` the place of its predecessor, -1 for the root.
    """
    program, graph, row_of = index.program, index.graph, index.table.row_of
    classes, states = program.sizes.classes, program.sizes.states
    if index.table.slot_of[source] < 0 or not index.table.is_root[source]:
        return np.int64(-1)
    lowest = np.int64(-1)
    if closure.fields.extras == 0 and closure.fields.components == closure.fields.settled:
        lowest = np.int64(NEVER)  # steps lead to lower numbers
        for j in range(program.sizes.accepting):
            component = np.int64(row_of[target * states + program.accepting_states[j]])
            lowest = min(lowest, component) if component >= 0 else lowest
    count, begun, found = np.int64(0), np.int64(-1), np.int64(-1)
    while begun < count and found < 0:
        vertex, state, ways = source, np.int64(0), classes
        first = np.int64(0)
        if begun >= 0:
            vertex, state = nodes[begun] >> 16, nodes[begun] & STATE_BITS
            if vertex == target and program.accepting[state]:
                found = begun
                break
            first, ways = np.int64(program.leave_first[state]), np.int64(program.leave_first[state + 1])
        for way in range(first, ways):
            following = np.int64(program.start_target[way] if begun < 0 else program.leave_target[way])
            if following < 0:
                continue
            links = vertex * classes + np.int64(way if begun < 0 else program.leave_class[way])
            start = np.int64(graph.out.start[links])
            for place in range(start, start + np.int64(graph.out.length[links])):
                link = graph.out.entries[place]
                at = (link >> 32) * states + following
                component = np.int64(row_of[at])
                if component >= 0 and component >= lowest and slide_of(graph, link) >= least:
                    nodes[count], components[count] = (link >> 32) << 16 | following, component
                    predecessor[count], link_to[count] = begun, link
                    row_of[at] = -2  # it has been visited
                    count += 1
        begun += 1
    for i in range(count):
        row_of[(nodes[i] >> 16) * states + (nodes[i] & STATE_BITS)] = components[i]
    return found
