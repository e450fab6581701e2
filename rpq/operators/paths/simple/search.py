"""The search for one simple path.

`_connect` searches a walk from the end of a path to a target that avoids the vertices of the path. The search is
breadth-first from both ends at once: the side with fewer waiting nodes takes the next step. There are three outcomes.

* One side has no more nodes to expand: there is no such walk, hence no simple path. The cost is that of the smaller side:
  where every walk passes through the target, the side of the root ends at once.
* The walk visits no vertex twice, or it visits none twice after its cycles are removed and still spells a word. This is the
  usual outcome, since a shortest walk repeats a vertex only in states that are in conflict.
* Otherwise the path is extended by one edge in every possible way, depth first, and each extended path is connected in turn.
  This part is exponential in the worst case (the problem is NP-hard) and needs the memory of one path. It counts the nodes
  that it expands against a budget.

A cycle is a path whose target is the root: the side of the target begins there in the closing state, the side of the root
ends at any step into an accepting state, and neither side visits the root otherwise.

The side of the target visits only live cells of the root. The first attempt takes only edges that last as long as the root's
best walk to the target, so the path usually lasts as long as possible. The path and the cost do not depend on slots or hop
counts, hence not on the other roots in the same index.
"""

from typing import NamedTuple

import numpy as np

from rpq.compiled.cycle_counter import has_passed
from rpq.compiled.intrinsics import wraps_around
from rpq.compiled.kernel_cache import njit
from rpq.compiled.views import Record, int64
from rpq.operators.paths.index.layout import LOW_HALF
from rpq.operators.paths.index.rows import cell_at, in_edges, next_in_edge, slide_of

EVERY = np.uint64(2**64 - 1)

# Outcomes.
NONE = 0
FOUND = 1
UNDECIDED = 2
OVER_BUDGET = 3
OUT_OF_TIME = 4

WORK_BETWEEN_CHECKS = 1 << 10
"""The number of expanded nodes, a power of two, after which a search looks whether its deadline has passed."""


class SearchState(Record):
    """The progress of a search."""

    _fields_ = (
        ("stamp", int64),
        ("work", int64),  # nodes expanded
        ("length", int64),  # steps of the path that was found
        ("reachable", int64),  # nodes that the side of the root reached if it expanded all of them, else 0
    )


class Scratch(NamedTuple):
    """Scratch memory of one search; a node is vertex * states + state."""

    stamp_ahead: np.ndarray  # int64 a node: stamp of the search that reached it
    stamp_back: np.ndarray  # int64 a node
    from_ahead: np.ndarray  # int64 a node: the node before it
    from_back: np.ndarray  # int64 a node: the node after it
    step_ahead: np.ndarray  # int64 a node: class << 32 | edge << 1 | against, of the step into it
    step_back: np.ndarray  # int64 a node: the same of the step out of it
    queue_ahead: np.ndarray  # int64 a node
    queue_back: np.ndarray  # int64 a node
    place_in_walk: np.ndarray  # int64 a vertex: its place in the walk, or -1
    is_on_path: np.ndarray  # uint8 a vertex: on the path
    walk: np.ndarray  # int64 2 a node: steps
    walk_vertex: np.ndarray  # int64 2 a node: the vertex after each step
    path: np.ndarray  # int64 2 a node: steps of the path, edge << 1 | against
    node: np.ndarray  # int64 a vertex: the node at each depth
    leave: np.ndarray  # int64 a vertex: next transition to try at each depth
    place: np.ndarray  # int64 a vertex: next edge to try at each depth
    fields: SearchState


def new_scratch(vertices: int, states: int) -> Scratch:
    """Return scratch memory for vertex ids below a number."""
    nodes = max(1, vertices * states)

    def room(count: int) -> np.ndarray:
        return np.zeros(count, np.int64)

    return Scratch(
        stamp_ahead=room(nodes),
        stamp_back=room(nodes),
        from_ahead=room(nodes),
        from_back=room(nodes),
        step_ahead=room(nodes),
        step_back=room(nodes),
        queue_ahead=room(nodes + 1),
        queue_back=room(nodes + 1),
        place_in_walk=np.full(vertices + 1, -1, np.int64),
        is_on_path=np.zeros(vertices + 1, np.uint8),
        walk=room(2 * nodes + 2),
        walk_vertex=room(2 * nodes + 2),
        path=room(2 * nodes + 2),
        node=room(vertices + 2),
        leave=room(vertices + 2),
        place=room(vertices + 2),
        fields=SearchState(),
    )


@njit(cache=True, nogil=True, forceinline=True)
def value_at(index, vertex, state, slot):
    """Return the value of a root's cell for a product node; 0 if there is none."""
    cell = cell_at(index, vertex, state, slot)
    return np.int64(index.table.values[cell]) if cell >= 0 else np.int64(0)


@njit(cache=True, nogil=True)
def best_value(index, slot, target):
    """Return the relative slide up to which the root of a slot has an answering walk to the target."""
    best = np.int64(0)
    for i in range(index.program.sizes.accepting):
        best = max(best, value_at(index, target, np.int64(index.program.accepting_states[i]), slot))
    return best


@njit(cache=True, nogil=True)
def _next_state(program, state, transition_class):
    for leave in range(program.leave_first[state], program.leave_first[state + 1]):
        if program.leave_class[leave] == transition_class:
            return np.int64(program.leave_target[leave])
    return np.int64(-1)


@njit(cache=True, nogil=True)
def _join(index, scratch, depth, start, middle, target):
    """Append the walk through a node that both sides reached to the path, without cycles. Return FOUND or UNDECIDED."""
    program = index.program
    states = program.sizes.states
    length = np.int64(0)
    node = middle
    while node != start:
        length += 1
        node = scratch.from_ahead[node]
    node = middle
    for i in range(length - 1, -1, -1):
        scratch.walk[i] = scratch.step_ahead[node]
        scratch.walk_vertex[i] = node // states
        node = scratch.from_ahead[node]
    node = middle
    while node // states != target or node == start:
        scratch.walk[length] = scratch.step_back[node]
        node = scratch.from_back[node]
        scratch.walk_vertex[length] = node // states
        length += 1
    # Remove the steps between two visits of a vertex.
    size = np.int64(0)
    for i in range(length):
        vertex = scratch.walk_vertex[i]
        if scratch.place_in_walk[vertex] >= 0:
            again = scratch.place_in_walk[vertex]
            for j in range(again + 1, size):
                scratch.place_in_walk[scratch.walk_vertex[j]] = -1
            size = again + 1
        else:
            scratch.walk[size] = scratch.walk[i]
            scratch.walk_vertex[size] = vertex
            scratch.place_in_walk[vertex] = size
            size += 1
    for j in range(size):
        scratch.place_in_walk[scratch.walk_vertex[j]] = -1
    state = start % states
    for j in range(size):
        state = _next_state(program, state, scratch.walk[j] >> 32)
        if state < 0:
            return np.int64(UNDECIDED)
    if not program.accepting[state]:
        return np.int64(UNDECIDED)
    for j in range(size):
        scratch.path[depth + j] = scratch.walk[j] & LOW_HALF
    scratch.fields.length = depth + size
    return np.int64(FOUND)


@njit(cache=True, nogil=True)
def _connect(index, scratch, depth, slot, target, floor, budget):
    """Complete the path that ends at `scratch.node[depth]` over edges that last to `floor` or longer."""
    program, graph = index.program, index.graph
    classes, states = program.sizes.classes, program.sizes.states
    fields = scratch.fields
    fields.stamp += 1
    stamp = fields.stamp
    start = scratch.node[depth]
    scratch.stamp_ahead[start] = stamp
    scratch.queue_ahead[0] = start
    ahead, ahead_end = np.int64(0), np.int64(1)
    back, back_end = np.int64(0), np.int64(0)
    for i in range(program.sizes.accepting):
        state = np.int64(program.accepting_states[i])
        if value_at(index, target, state, slot) >= floor:
            node = target * states + state
            scratch.stamp_back[node] = stamp
            scratch.queue_back[back_end] = node
            back_end += 1
    while ahead < ahead_end and back < back_end:
        fields.work += 1
        if fields.work > budget:
            return np.int64(OVER_BUDGET)
        if fields.work & (WORK_BETWEEN_CHECKS - 1) == 0 and has_passed(index.deadline):
            return np.int64(OUT_OF_TIME)
        if ahead_end - ahead <= back_end - back:
            node = scratch.queue_ahead[ahead]
            ahead += 1
            vertex = node // states
            state = node - vertex * states
            for leave in range(program.leave_first[state], program.leave_first[state + 1]):
                transition_class = np.int64(program.leave_class[leave])
                links = vertex * classes + transition_class
                to_state = np.int64(program.leave_target[leave])
                if to_state == program.sizes.closing:
                    continue
                first = np.int64(graph.out.start[links])
                for place in range(first, first + np.int64(graph.out.length[links])):
                    link = graph.out.entries[place]
                    to = link >> 32
                    if slide_of(graph, link) < floor or (scratch.is_on_path[to] and to != target):
                        continue
                    reached = to * states + to_state
                    if scratch.stamp_ahead[reached] == stamp or (to == target and not program.accepting[to_state]):
                        continue
                    scratch.stamp_ahead[reached] = stamp
                    scratch.from_ahead[reached] = node
                    scratch.step_ahead[reached] = transition_class << 32 | (link & LOW_HALF)
                    if to == target or scratch.stamp_back[reached] == stamp:
                        return _join(index, scratch, depth, start, reached, target)
                    scratch.queue_ahead[ahead_end] = reached
                    ahead_end += 1
        else:
            node = scratch.queue_back[back]
            back += 1
            vertex = node // states
            state = node - vertex * states
            edge = in_edges(index, vertex, state)
            while True:
                edge = next_in_edge(index, vertex, state, edge, floor - 1)
                if edge.link < 0:
                    break
                reached = edge.source * states + edge.source_state
                if scratch.stamp_back[reached] == stamp or (edge.source == target and reached != start):
                    continue
                if reached != start:
                    if edge.source_state == 0 or scratch.is_on_path[edge.source]:
                        continue
                    if value_at(index, edge.source, edge.source_state, slot) < floor:
                        continue
                scratch.stamp_back[reached] = stamp
                scratch.from_back[reached] = node
                transition_class = np.int64(program.enter_class[edge.transition])
                scratch.step_back[reached] = transition_class << 32 | (edge.link & LOW_HALF)
                if scratch.stamp_ahead[reached] == stamp:
                    return _join(index, scratch, depth, start, reached, target)
                scratch.queue_back[back_end] = reached
                back_end += 1
    fields.reachable = ahead_end if ahead == ahead_end else 0
    return np.int64(NONE)


@njit(cache=True, nogil=True)
def _extend(index, scratch, slot, target, floor, budget):
    """Try every longer path, depth first. `is_on_path` is unchanged afterwards."""
    program, graph = index.program, index.graph
    classes, states = program.sizes.classes, program.sizes.states
    depth = np.int64(0)
    scratch.leave[0] = program.leave_first[scratch.node[0] % states]
    scratch.place[0] = 0
    outcome = np.int64(NONE)
    while depth >= 0:
        node = scratch.node[depth]
        vertex = node // states
        state = node - vertex * states
        if scratch.leave[depth] == program.leave_first[state + 1]:
            if depth > 0:
                scratch.is_on_path[vertex] = 0
            depth -= 1
            continue
        leave = scratch.leave[depth]
        links = vertex * classes + np.int64(program.leave_class[leave])
        is_twin = program.leave_target[leave] == program.sizes.closing
        if is_twin or scratch.place[depth] >= np.int64(graph.out.length[links]):
            scratch.leave[depth] += 1
            scratch.place[depth] = 0
            continue
        link = graph.out.entries[np.int64(graph.out.start[links]) + scratch.place[depth]]
        scratch.place[depth] += 1
        to = link >> 32
        if slide_of(graph, link) < floor or (scratch.is_on_path[to] and to != target):
            continue
        to_state = np.int64(program.leave_target[leave])
        scratch.path[depth] = link & LOW_HALF
        if to == target:
            if program.accepting[to_state]:
                scratch.fields.length = depth + 1
                outcome = np.int64(FOUND)
                break
            continue
        depth += 1
        scratch.node[depth] = to * states + to_state
        scratch.is_on_path[to] = 1
        outcome = _connect(index, scratch, depth, slot, target, floor, budget)
        if outcome == FOUND or outcome >= OVER_BUDGET:
            break
        if outcome == NONE:
            scratch.is_on_path[to] = 0
            depth -= 1
        else:
            scratch.leave[depth] = program.leave_first[to_state]
            scratch.place[depth] = 0
        outcome = np.int64(NONE)
    for i in range(1, depth + 1):
        scratch.is_on_path[scratch.node[i] // states] = 0
    return outcome


@wraps_around
@njit(cache=True, nogil=True, forceinline=True)
def vertex_bit(vertex):
    """Return the bit of a vertex in a word that represents a set of vertices."""
    return np.uint64(1) << ((np.uint64(vertex) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(58))


@njit(cache=True, nogil=True)
def origins(scratch, states):
    """Return, after NONE, the bits of vertices from one of which a new edge must lead to make a path; all bits if they are
    unknown.

    If the side of the root expanded all its nodes, it reached all vertices that are reachable without passing through the
    target, and a path must leave this set by a new edge. This holds until such an edge arrives, since the removal of an edge
    only makes the set smaller.
    """
    count = scratch.fields.reachable
    if count == 0 or count > 64:
        return EVERY
    bits = np.uint64(0)
    for i in range(count):
        bits |= vertex_bit(scratch.queue_ahead[i] // states)
    return bits


@njit(cache=True, nogil=True)
def find_path(index, scratch, source, target, budget):
    """Search a simple path that answers (source, target). Return NONE, FOUND (the path is in `scratch.path`), OVER_BUDGET or
    OUT_OF_TIME."""
    slot = np.int64(index.table.slot_of[source])
    scratch.fields.length = 0
    scratch.fields.reachable = 0
    if slot < 0:
        return np.int64(NONE)
    now = index.state.now
    best = best_value(index, slot, target)
    if best <= now:
        return np.int64(NONE)
    scratch.node[0] = source * index.program.sizes.states
    scratch.is_on_path[source] = 1
    outcome = np.int64(UNDECIDED)
    if best > now + 1:
        outcome = _connect(index, scratch, np.int64(0), slot, target, best, budget)
    if outcome == UNDECIDED or outcome == NONE:
        outcome = _connect(index, scratch, np.int64(0), slot, target, now + 1, budget)
    if outcome == UNDECIDED:
        outcome = _extend(index, scratch, slot, target, now + 1, budget)
        # The side that ended there began behind a longer path.
        scratch.fields.reachable = 0
    scratch.is_on_path[source] = 0
    return outcome
