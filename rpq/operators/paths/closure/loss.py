"""The removal of bits: by a delete, and in explicit windows at a boundary at which edges leave.

At a boundary, components and rows are recomputed, and the pairs that have disappeared are reported (`recompute`). A delete
first examines the components that its edge joined.

1. Another edge between the same components takes its place; within a component it is enough that the ends of the deleted
   edge still reach each other. If they do not, the component falls apart, and everything is recomputed.
2. Otherwise the bits of the roots that reached the end through the edge are doubted there. A doubted bit stays if a
   predecessor has it whose support cannot be circular: a predecessor that the edge does not lead to, or one that precedes
   the component in the topological order. Edges inserted since the computation may violate that order; it holds above
   `fields.upward`, the highest component that such an edge leads to. All other doubted bits are removed, and doubted at the
   successors.
3. A bit that a component lost although another predecessor still has it is entered again from all predecessors, and pushed.
4. The bits that are still missing are reported.

Only the report can lack memory, after step 3: the delete is applied once, and reported when there is room for the rows.
"""

import numpy as np

from rpq.compiled.arrays.lists import append, reserve
from rpq.compiled.arrays.words import WORDS as WORDS_AT_ONCE
from rpq.compiled.arrays.words import lacking
from rpq.compiled.intrinsics import trailing_zeros
from rpq.compiled.kernel_cache import njit
from rpq.operators.paths.closure.components import compute
from rpq.operators.paths.closure.layout import NEED_EARLIER, STAGE_COMPUTED, STAGE_COPIED, STAGE_IDLE
from rpq.operators.paths.closure.push import enqueue, next_successor, push_pending, successors
from rpq.operators.paths.index.apply import begin_delete
from rpq.operators.paths.index.layout import (
    DONE,
    IDLE,
    LOSING,
    LOW_HALF,
    NEED_LINKS,
    NEED_OUTPUT,
    NEED_SUPPORTS,
    REFILLING,
    STATE_BITS,
)
from rpq.operators.paths.index.rows import ONE, ZERO, in_edges, lane_of, next_in_edge, skip_transition, slide_of

_LOST = np.uint8(1)  # bits of it are in `lost_bits`
_UNCERTAIN = np.uint8(2)  # some of which may come back
_DOWNSTREAM = np.uint8(4)  # the deleted edge leads to it
"""The values of `Closure.touch` for a component."""


# --- all anew ------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def recompute(index, closure):
    """Recompute components and rows, and report the pairs that have disappeared. Call it again after a code."""
    fields = closure.fields
    if fields.stage == STAGE_IDLE:
        if not fields.keeps_earlier:
            return np.int64(NEED_EARLIER)
        _copy_rows(index, closure)
        fields.stage = STAGE_COPIED
    if fields.stage == STAGE_COPIED:
        code = compute(index, closure)
        if code != DONE:
            return code
        fields.stage = STAGE_COMPUTED
    code = _report_lost_pairs(index, closure)
    if code == DONE:
        fields.stage = STAGE_IDLE
    return code


@njit(cache=True, nogil=True)
def _copy_rows(index, closure):
    """Copy components and rows before they are recomputed."""
    program, fields = index.program, closure.fields
    count, accepting, states = fields.components, program.sizes.accepting, program.sizes.states
    fields.lost_components = count
    for component in range(count + 1):
        closure.lost_member_first[component] = closure.member_first[component]
    for component in range(count):
        if closure.accepting_nodes[component] == 0:
            continue
        for word in range(component * fields.words, (component + 1) * fields.words):
            closure.lost_bits[word] = closure.rows[word]
        for i in range(np.int64(closure.member_first[component]), np.int64(closure.member_first[component + 1])):
            node = closure.member[i]
            closure.lost_member[i] = node
            if accepting > 1:
                for j in range(accepting):
                    place = (node >> 16) * states + program.accepting_states[j]
                    closure.lost_component[i * accepting + j] = index.table.row_of[place]
        closure.touch[component] = 1


@njit(cache=True, nogil=True)
def _report_lost_pairs(index, closure):
    """Write the pairs of the old rows that are no longer answers. Return NEED_OUTPUT if there is no room."""
    program, table, fields = index.program, index.table, closure.fields
    count, words, accepting = fields.lost_components, fields.words, program.sizes.accepting
    index.state.out = index.state.event_out
    for component in range(count):
        if not closure.touch[component]:
            continue
        base = component * words
        for i in range(np.int64(closure.lost_member_first[component]), np.int64(closure.lost_member_first[component + 1])):
            vertex, state = closure.lost_member[i] >> 16, closure.lost_member[i] & STATE_BITS
            if not program.accepting[state] or not table.is_target[vertex]:
                continue
            row = np.int64(table.row_of[vertex * program.sizes.states + state]) * words
            for first in range(0, words, WORDS_AT_ONCE):
                if row >= 0:
                    if lacking(closure.lost_bits, base + first, closure.rows, row + first, closure.scratch, first) == 0:
                        continue
                else:
                    for word in range(first, first + WORDS_AT_ONCE):
                        closure.scratch[word] = closure.lost_bits[base + word]
                if index.state.out + 64 * WORDS_AT_ONCE > index.state.out_capacity:
                    return np.int64(NEED_OUTPUT)
                for word in range(first, first + WORDS_AT_ONCE):
                    bits = closure.scratch[word]
                    if bits == ZERO:
                        continue
                    for j in range(accepting if accepting > 1 else 0):
                        other = np.int64(program.accepting_states[j])
                        other_component = np.int64(table.row_of[vertex * program.sizes.states + other])
                        if other_component >= 0:
                            bits &= ~closure.rows[other_component * words + word]
                        other_component = np.int64(closure.lost_component[i * accepting + j])
                        if other < state and other_component >= 0:
                            bits &= ~closure.lost_bits[other_component * words + word]
                    _write(index, vertex, word, bits)
    for component in range(count):
        closure.touch[component] = 0
    return np.int64(DONE)


@njit(cache=True, nogil=True, forceinline=True)
def _write(index, vertex, word, bits):
    if index.state.quiet:
        return
    out = index.state.out
    while bits != ZERO:
        index.output.pairs[out] = np.int64(index.table.slot_vertex[word * 64 + trailing_zeros(bits)]) << 32 | vertex
        out += 1
        bits &= bits - ONE
    index.state.out = out


# --- deletes -------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def begin_loss(index, closure, edge, u, v, forward, inverse):
    """Apply a delete. Set `phase` to the next step: REFILLING to recompute everything, LOSING to report the lost pairs."""
    fields = index.state
    code = NEED_SUPPORTS if not fields.backward else NEED_EARLIER if not closure.fields.keeps_earlier else DONE
    code = begin_delete(index, edge, code)
    if fields.phase != LOSING:
        return code
    fields.phase = IDLE
    closure.fields.queue_head = 0
    if (forward >= 0 and _divides(index, closure, u, v, forward)) or (
        inverse >= 0 and _divides(index, closure, v, u, inverse)
    ):
        fields.phase = REFILLING
        return np.int64(DONE)
    if forward >= 0:
        _doubt_step(index, closure, u, v, forward)
    if inverse >= 0:
        _doubt_step(index, closure, v, u, inverse)
    if closure.fields.queue_length > 0:
        if closure.fields.upward >= 0:
            _mark_successors(index, closure)
        _remove_unsupported(index, closure)
        _restore_supported(index, closure)
        fields.phase = LOSING
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def _divides(index, closure, u, v, transition_class):
    """Return whether a component falls apart now that an edge has left the graph."""
    program, row_of = index.program, index.table.row_of
    states = program.sizes.states
    for step in range(program.step_first[transition_class], program.step_first[transition_class + 1]):
        source, target = np.int64(program.step_source[step]), np.int64(program.step_target[step])
        component = np.int64(row_of[u * states + source])
        if component >= 0 and component == row_of[v * states + target] and component < closure.fields.settled:
            if not _reaches(index, closure, component, u << 16 | source, v << 16 | target):
                return True
    return False


@njit(cache=True, nogil=True)
def _reaches(index, closure, component, source, target):
    """Return whether a node reaches another one within their component. Searches from the two nodes take turns."""
    program, graph, row_of, node = index.program, index.graph, index.table.row_of, closure.node
    classes, states, now = program.sizes.classes, program.sizes.states, index.state.now
    if source == target:
        return True
    # Nodes visited by a search have -2 or -3 in place of their component, and are listed from either end of `node`.
    last = closure.fields.node_capacity - 1
    first, count, before, found = np.int64(0), np.int64(1), last, np.int64(1)
    node[0], node[last] = source, target
    row_of[(source >> 16) * states + (source & STATE_BITS)] = -2
    row_of[(target >> 16) * states + (target & STATE_BITS)] = -3
    meets = False
    while not meets and first < count and last - before < found:
        vertex, state = node[first] >> 16, node[first] & STATE_BITS
        first += 1
        for leave in range(program.leave_first[state], program.leave_first[state + 1]):
            links = vertex * classes + program.leave_class[leave]
            start = np.int64(graph.out.start[links])
            for place in range(start, start + np.int64(graph.out.length[links])):
                link = graph.out.entries[place]
                if slide_of(graph, link) <= now:
                    continue
                neighbour = (link >> 32) * states + np.int64(program.leave_target[leave])
                if row_of[neighbour] == component:
                    row_of[neighbour] = -2
                    node[count] = (link >> 32) << 16 | np.int64(program.leave_target[leave])
                    count += 1
                meets |= row_of[neighbour] == -3
        if meets:
            break
        vertex, state = node[before] >> 16, node[before] & STATE_BITS
        before -= 1
        edge = in_edges(index, vertex, state)
        while True:
            edge = next_in_edge(index, vertex, state, edge, now)
            if edge.link < 0:
                break
            if edge.source_state == 0:
                edge = skip_transition(edge)
                continue
            neighbour = edge.source * states + edge.source_state
            if row_of[neighbour] == component:
                row_of[neighbour] = -3
                node[last - found] = edge.source << 16 | edge.source_state
                found += 1
            meets |= row_of[neighbour] == -2
    closure.fields.walked_links += 2 * (count + found)  # approximate number of nodes and links
    for i in range(count):
        row_of[(node[i] >> 16) * states + (node[i] & STATE_BITS)] = component
    for i in range(last - found + 1, last + 1):
        row_of[(node[i] >> 16) * states + (node[i] & STATE_BITS)] = component
    return meets


@njit(cache=True, nogil=True)
def _doubt_step(index, closure, u, v, transition_class):
    """Doubt the bits that one step over an edge that has left the graph supported."""
    program, table, fields = index.program, index.table, closure.fields
    states, words = program.sizes.states, fields.words
    start = np.int64(program.start_target[transition_class])
    slot = np.int64(table.slot_of[u])
    if start >= 0 and slot >= 0 and table.is_root[u]:
        reached = np.int64(table.row_of[v * states + start])
        if reached >= 0 and not _is_entered(index, u, reached):
            first = slot >> 9 << 3
            for word in range(first, first + 8):
                closure.scratch[word] = ZERO
            closure.scratch[slot >> 6] = lane_of(slot)
            _doubt(closure, reached, closure.scratch, np.int64(0), first, first + 8)
    for step in range(program.step_first[transition_class], program.step_first[transition_class + 1]):
        source = np.int64(table.row_of[u * states + program.step_source[step]])
        target = np.int64(table.row_of[v * states + program.step_target[step]])
        if source < 0 or target < 0 or source == target or _is_linked(index, closure, source, target):
            continue
        _unlink(closure, source, target)
        _doubt(closure, target, closure.rows, source * words, np.int64(0), words)


@njit(cache=True, nogil=True)
def _is_entered(index, root, component):
    """Return whether an edge leads from a root to a component."""
    program, graph, row_of = index.program, index.graph, index.table.row_of
    classes, states = program.sizes.classes, program.sizes.states
    for first_class in range(classes):
        state = np.int64(program.start_target[first_class])
        if state < 0:
            continue
        start = np.int64(graph.out.start[root * classes + first_class])
        for place in range(start, start + np.int64(graph.out.length[root * classes + first_class])):
            link = graph.out.entries[place]
            if row_of[(link >> 32) * states + state] == component and slide_of(graph, link) > index.state.now:
                return True
    return False


@njit(cache=True, nogil=True)
def _is_linked(index, closure, source, target):
    """Return whether an edge leads from one component to another, from the edges of the smaller one."""
    program, graph, row_of, first = index.program, index.graph, index.table.row_of, closure.member_first
    classes, states, now = program.sizes.classes, program.sizes.states, index.state.now
    if first[source + 1] - first[source] <= first[target + 1] - first[target]:
        for i in range(np.int64(first[source]), np.int64(first[source + 1])):
            vertex, state = closure.member[i] >> 16, closure.member[i] & STATE_BITS
            for leave in range(program.leave_first[state], program.leave_first[state + 1]):
                links = vertex * classes + program.leave_class[leave]
                start = np.int64(graph.out.start[links])
                closure.fields.walked_links += np.int64(graph.out.length[links])
                for place in range(start, start + np.int64(graph.out.length[links])):
                    link = graph.out.entries[place]
                    if row_of[(link >> 32) * states + program.leave_target[leave]] == target and slide_of(graph, link) > now:
                        return True
        return False
    for i in range(np.int64(first[target]), np.int64(first[target + 1])):
        vertex, state = closure.member[i] >> 16, closure.member[i] & STATE_BITS
        edge = in_edges(index, vertex, state)
        while True:
            edge = next_in_edge(index, vertex, state, edge, now)
            if edge.link < 0:
                break
            closure.fields.walked_links += 1
            if edge.source_state == 0:
                edge = skip_transition(edge)
            elif row_of[edge.source * states + edge.source_state] == source:
                return True
    return False


@njit(cache=True, nogil=True)
def _unlink(closure, source, target):
    """Remove a component from the successors of another."""
    if source >= closure.fields.settled:
        return
    end = np.int64(closure.successor_end[source])
    for i in range(np.int64(closure.successor_first[source]), end):
        if closure.successor[i] == target:
            closure.successor[i] = closure.successor[end - 1]
            closure.successor_end[source] = end - 1
            break
    previous, extra = np.int64(-1), np.int64(closure.extra_head[source])
    while extra >= 0:
        next_extra = np.int64(closure.extra_next[extra])
        if closure.extra_to[extra] != target:
            previous = extra
        elif previous < 0:
            closure.extra_head[source] = next_extra
        else:
            closure.extra_next[previous] = next_extra
        extra = next_extra


@njit(cache=True, nogil=True, forceinline=True)
def _doubt(closure, component, bits, source, low, high):
    """Doubt the bits of a component that are also in the row which begins at `source`."""
    base = component * closure.fields.words
    closure.fields.pushed_words += high - low
    some = ZERO
    for word in range(low, high):
        some |= bits[source + word] & closure.rows[base + word]
    if some != ZERO:
        enqueue(closure, component, bits, source, low, high)


@njit(cache=True, nogil=True)
def _mark_successors(index, closure):
    """Mark the components that components with doubted bits lead to."""
    fields = closure.fields
    for i in range(fields.queue_length):
        component = np.int64(closure.queue[i])  # nothing has been taken from the queue yet
        closure.touch[component] = _DOWNSTREAM
        closure.touched_components[i] = component
    fields.touched_count = fields.queue_length
    begun = 0
    while begun < fields.touched_count:
        walk = successors(index, closure, np.int64(closure.touched_components[begun]))
        while True:
            walk = next_successor(index, closure, walk)
            if walk.target < 0:
                break
            fields.walked_links += 1
            if closure.touch[walk.target] == 0:
                closure.touch[walk.target] = _DOWNSTREAM
                closure.touched_components[fields.touched_count] = walk.target
                fields.touched_count += 1
        begun += 1


@njit(cache=True, nogil=True)
def _remove_unsupported(index, closure):
    """Check the doubted bits until none is left. Remove those without support."""
    fields = closure.fields
    words = fields.words
    while fields.queue_length > 0:
        component = np.int64(closure.queue[fields.queue_head])
        base, low, high = component * words, np.int64(closure.low[component]), np.int64(closure.high[component])
        closure.is_queued[component] = 0
        fields.queue_head = fields.queue_head + 1 if fields.queue_head + 1 < fields.component_capacity else 0
        fields.queue_length -= 1
        for word in range(low, high):
            closure.scratch[word] = closure.pending[base + word] & closure.rows[base + word]
        is_uncertain = _discard_supported(index, closure, component, low, high, False)
        some = ZERO
        for word in range(low, high):
            some |= closure.scratch[word]
        if some == ZERO:
            continue
        if closure.touch[component] == 0:
            closure.touched_components[fields.touched_count] = component
            fields.touched_count += 1
        if closure.touch[component] & _LOST == 0:
            for word in range(base, base + words):
                closure.lost_bits[word] = ZERO
        closure.touch[component] |= _LOST
        if is_uncertain:
            closure.touch[component] |= _UNCERTAIN
        for word in range(low, high):
            closure.lost_bits[base + word] |= closure.scratch[word]
            closure.rows[base + word] &= ~closure.scratch[word]
        walk = successors(index, closure, component)
        while True:
            walk = next_successor(index, closure, walk)
            if walk.target < 0:
                break
            _doubt(closure, walk.target, closure.scratch, np.int64(0), low, high)


@njit(cache=True, nogil=True)
def _discard_supported(index, closure, component, low, high, by_all):
    """Clear the scratch bits that a root or a predecessor of a component supports. Unless `by_all`, only certain support
    counts.

    Return whether a predecessor whose support did not count has some of the remaining bits.
    """
    table, fields = index.table, closure.fields
    states, words, now = index.program.sizes.states, fields.words, index.state.now
    above, marks = max(component, fields.upward), fields.upward >= 0
    is_uncertain, last = False, np.int64(-1)
    for i in range(np.int64(closure.member_first[component]), np.int64(closure.member_first[component + 1])):
        vertex, state = closure.member[i] >> 16, closure.member[i] & STATE_BITS
        edge = in_edges(index, vertex, state)
        while True:
            edge = next_in_edge(index, vertex, state, edge, now)
            if edge.link < 0:
                break
            fields.walked_links += 1
            if edge.source_state == 0:
                slot = np.int64(table.slot_of[edge.source])
                if slot >= 64 * low and slot < 64 * high and table.is_root[edge.source]:
                    closure.scratch[slot >> 6] &= ~lane_of(slot)
                continue
            predecessor = np.int64(table.row_of[edge.source * states + edge.source_state])
            if predecessor < 0 or predecessor == component or predecessor == last:
                continue
            last = predecessor
            some = ZERO
            if by_all or above < predecessor < fields.settled or (marks and closure.touch[predecessor] == 0):
                for word in range(low, high):
                    closure.scratch[word] &= ~closure.rows[predecessor * words + word]
                    some |= closure.scratch[word]
                if some == ZERO:
                    return False
            elif not is_uncertain:
                for word in range(low, high):
                    some |= closure.scratch[word] & closure.rows[predecessor * words + word]
                is_uncertain = some != ZERO
    return is_uncertain


@njit(cache=True, nogil=True)
def _restore_supported(index, closure):
    """Enter and push the bits that predecessors still support. The bits that are missing remain in `lost_bits`."""
    fields = closure.fields
    words = fields.words
    for i in range(fields.touched_count):
        component = np.int64(closure.touched_components[i])
        if closure.touch[component] & _UNCERTAIN == 0:
            continue
        base = component * words
        for word in range(words):
            closure.scratch[word] = closure.lost_bits[base + word]
        _discard_supported(index, closure, component, np.int64(0), words, True)
        some = ZERO
        for word in range(words):
            closure.scratch[word] = closure.lost_bits[base + word] & ~closure.scratch[word] & ~closure.rows[base + word]
            closure.rows[base + word] |= closure.scratch[word]
            some |= closure.scratch[word]
        if some != ZERO:
            enqueue(closure, component, closure.scratch, np.int64(0), np.int64(0), words)
    quiet = index.state.quiet
    index.state.quiet = 1
    push_pending(index, closure)  # this reaches nothing new, so there is enough memory
    index.state.quiet = quiet
    for i in range(fields.touched_count):
        base = np.int64(closure.touched_components[i]) * words
        if closure.touch[np.int64(closure.touched_components[i])] & _LOST == 0:
            continue
        for word in range(base, base + words):
            closure.lost_bits[word] &= ~closure.rows[word]


@njit(cache=True, nogil=True)
def report_loss(index, closure):
    """Write the pairs that a delete removed. Return NEED_OUTPUT if there is no room for them."""
    program, table, fields = index.program, index.table, closure.fields
    words, states, accepting = fields.words, program.sizes.states, program.sizes.accepting
    index.state.out = index.state.event_out
    for j in range(fields.touched_count):
        component = np.int64(closure.touched_components[j])
        if closure.accepting_nodes[component] == 0 or closure.touch[component] & _LOST == 0:
            continue
        for word in range(words):
            lost = closure.lost_bits[component * words + word]
            if lost == ZERO:
                continue
            for i in range(np.int64(closure.member_first[component]), np.int64(closure.member_first[component + 1])):
                vertex, state = closure.member[i] >> 16, closure.member[i] & STATE_BITS
                if not program.accepting[state] or not table.is_target[vertex]:
                    continue
                if index.state.out + 64 > index.state.out_capacity:
                    return np.int64(NEED_OUTPUT)
                bits = lost
                for k in range(accepting if accepting > 1 else 0):
                    other = np.int64(program.accepting_states[k])
                    other_component = np.int64(table.row_of[vertex * states + other])
                    if other_component >= 0:
                        bits &= ~closure.rows[other_component * words + word]
                        if other < state and closure.touch[other_component] & _LOST != 0:
                            bits &= ~closure.lost_bits[other_component * words + word]
                _write(index, vertex, word, bits)
    for j in range(fields.touched_count):
        closure.touch[np.int64(closure.touched_components[j])] = 0
    fields.touched_count = 0
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def reverse_links(index):
    """Insert all links into the lists by target, which must be empty. Return NEED_LINKS if there is no room for all."""
    graph, classes = index.graph, index.program.sizes.classes
    for vertex in range(index.state.vertices):
        for transition_class in range(classes):
            links = vertex * classes + transition_class
            start = np.int64(graph.out.start[links])
            for place in range(start, start + np.int64(graph.out.length[links])):
                link = graph.out.entries[place]
                reverse = (link >> 32) * classes + transition_class
                if not reserve(graph.into, reverse, 1):
                    return np.int64(NEED_LINKS)
                append(graph.into, reverse, vertex << 32 | link & LOW_HALF)
    return np.int64(DONE)
