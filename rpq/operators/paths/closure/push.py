"""The insertion of an edge: new bits are pushed along the successors of components until nothing changes."""

from typing import NamedTuple

import numpy as np

from rpq.compiled.arrays.words import join, lacking
from rpq.compiled.cycle_counter import WORK_BETWEEN_CHECKS, has_passed
from rpq.compiled.intrinsics import population, trailing_zeros
from rpq.compiled.kernel_cache import njit
from rpq.operators.paths.closure.layout import NEED_COMPONENTS, NEED_EXTRAS, NEED_NODES, NEED_WORDS
from rpq.operators.paths.index.layout import DONE, NEED_OUTPUT, NEED_TIME, STATE_BITS
from rpq.operators.paths.index.rows import ONE, ZERO, lane_of, root_slot, slide_of


@njit(cache=True, nogil=True)
def push_edge(index, closure, u, v, forward, inverse):
    """Push the bits that a new edge supports in both of its directions, until nothing changes."""
    code = push_pending(index, closure)  # first the words that an interrupted call has left
    if code == DONE and forward >= 0:
        code = _push_step(index, closure, u, v, forward)
    if code == DONE and inverse >= 0:
        code = _push_step(index, closure, v, u, inverse)
    return code


@njit(cache=True, nogil=True)
def _push_step(index, closure, u, v, transition_class):
    program, table, fields = index.program, index.table, closure.fields
    states, words = program.sizes.states, fields.words
    start = np.int64(program.start_target[transition_class])
    if start >= 0 and table.is_root[u]:
        if table.slot_of[u] < 0 and index.state.free_slot == 0 and index.state.slots >= 64 * words:
            return np.int64(NEED_WORDS)
        component = _component_at(index, closure, v, start)
        if component < 0:
            return -component
        slot = root_slot(index, u)
        if closure.rows[component * words + (slot >> 6)] & lane_of(slot) == ZERO:
            first = slot >> 9 << 3
            for word in range(first, first + 8):
                closure.scratch[word] = ZERO
            closure.scratch[slot >> 6] = lane_of(slot)
            code = _accept(index, closure, component, first, first + 8)
            if code != DONE:
                return code
    for step in range(program.step_first[transition_class], program.step_first[transition_class + 1]):
        source = np.int64(table.row_of[u * states + program.step_source[step]])
        if source < 0:
            continue
        target = _component_at(index, closure, v, np.int64(program.step_target[step]))
        if target < 0:
            return -target
        if source == target:
            continue
        if target < fields.settled and (source < target or source >= fields.settled):
            fields.upward = max(fields.upward, target)
        if source < fields.settled:
            head = np.int64(closure.extra_head[source])
            if head < 0 or closure.extra_to[head] != target:
                if fields.extras >= fields.extra_capacity:
                    return np.int64(NEED_EXTRAS)
                closure.extra_to[fields.extras] = target
                closure.extra_next[fields.extras] = head
                closure.extra_head[source] = fields.extras
                fields.extras += 1
        code = _offer(index, closure, target, closure.rows, source * words, np.int64(0), words)
        if code != DONE:
            return code
    return push_pending(index, closure)


@njit(cache=True, nogil=True)
def _component_at(index, closure, vertex, state):
    """Return the component of a product node; create it if there is none. Without room, return minus a code."""
    place, fields = vertex * index.program.sizes.states + state, closure.fields
    component = np.int64(index.table.row_of[place])
    if component >= 0:
        return component
    component = fields.components
    if component + 1 >= fields.component_capacity:
        fields.found_components = component
        return np.int64(-NEED_COMPONENTS)
    end = np.int64(closure.member_first[component])
    if end >= fields.node_capacity:
        return np.int64(-NEED_NODES)
    closure.member[end] = vertex << 16 | state
    closure.member_first[component + 1] = end + 1
    closure.accepting_nodes[component] = np.int64(index.program.accepting[state])
    closure.is_queued[component] = 0
    for word in range(component * fields.words, (component + 1) * fields.words):
        closure.rows[word] = ZERO
    fields.components += 1
    index.table.row_of[place] = component
    return component


@njit(cache=True, nogil=True)
def push_pending(index, closure):
    """Push the pending bits of components, in the order in which the components were enqueued."""
    program, graph, fields = index.program, index.graph, closure.fields
    classes, words = program.sizes.classes, fields.words
    next_check = fields.pushed_words + WORK_BETWEEN_CHECKS
    # Rows lack only what components in the queue have pending. A component leaves the queue when all its successors have its
    # words, so a call after a code pushes some twice; a bit enters a row once, and its pairs are written at that time.
    while fields.queue_length > 0:
        if fields.pushed_words > next_check and index.state.quiet == 0:
            next_check = fields.pushed_words + WORK_BETWEEN_CHECKS
            if has_passed(index.deadline):
                return np.int64(NEED_TIME)
        component = np.int64(closure.queue[fields.queue_head])
        source, low, high = component * words, np.int64(closure.low[component]), np.int64(closure.high[component])
        if component < fields.settled:
            for i in range(np.int64(closure.successor_first[component]), np.int64(closure.successor_end[component])):
                code = _offer(index, closure, np.int64(closure.successor[i]), closure.pending, source, low, high)
                if code != DONE:
                    return code
            extra = np.int64(closure.extra_head[component])
            while extra >= 0:
                code = _offer(index, closure, np.int64(closure.extra_to[extra]), closure.pending, source, low, high)
                if code != DONE:
                    return code
                extra = np.int64(closure.extra_next[extra])
        else:
            node = closure.member[np.int64(closure.member_first[component])]
            vertex, state = node >> 16, node & STATE_BITS
            for leave in range(program.leave_first[state], program.leave_first[state + 1]):
                links = vertex * classes + program.leave_class[leave]
                target_state = np.int64(program.leave_target[leave])
                start = np.int64(graph.out.start[links])
                for place in range(start, start + np.int64(graph.out.length[links])):
                    link = graph.out.entries[place]
                    slide = slide_of(graph, link)
                    if slide <= index.state.now:
                        continue
                    fields.earliest_expiry = min(fields.earliest_expiry, index.state.base + slide)
                    target = _component_at(index, closure, link >> 32, target_state)
                    if target < 0:
                        return -target
                    if target < fields.settled:
                        fields.upward = max(fields.upward, target)
                    if target != component:
                        code = _offer(index, closure, target, closure.pending, source, low, high)
                        if code != DONE:
                            return code
        closure.is_queued[component] = 0
        fields.queue_head = fields.queue_head + 1 if fields.queue_head + 1 < fields.component_capacity else 0
        fields.queue_length -= 1
    return np.int64(DONE)


class Walk(NamedTuple):
    """The position of an iteration over the successors of a component."""

    component: np.int64
    target: np.int64  # -1 after the last one
    place: np.int64  # of the next entry of `successor`, or of the next link
    end: np.int64  # behind the last, of the links of this transition
    extra: np.int64  # the next entry of the chain
    leave: np.int64  # the next transition, for a component that came later


@njit(cache=True, nogil=True, forceinline=True)
def successors(index, closure, component):
    """Begin an iteration over the successors of a component. The same successor may occur several times."""
    no = np.int64(-1)
    if component < closure.fields.settled:
        first, end = np.int64(closure.successor_first[component]), np.int64(closure.successor_end[component])
        return Walk(component, no, first, end, np.int64(closure.extra_head[component]), no)
    state = closure.member[np.int64(closure.member_first[component])] & STATE_BITS
    return Walk(component, no, np.int64(0), np.int64(0), no, np.int64(index.program.leave_first[state]))


@njit(cache=True, nogil=True, forceinline=True)
def next_successor(index, closure, walk):
    """Advance to the next successor. `target` is -1 after the last one."""
    program, graph = index.program, index.graph
    component, end, extra, leave = walk.component, walk.end, walk.extra, walk.leave
    place = walk.place
    if component < closure.fields.settled:
        if place < end:
            return Walk(component, np.int64(closure.successor[place]), place + 1, end, extra, leave)
        if extra >= 0:
            return Walk(component, np.int64(closure.extra_to[extra]), place, end, np.int64(closure.extra_next[extra]), leave)
        return Walk(component, np.int64(-1), place, end, extra, leave)
    node = closure.member[np.int64(closure.member_first[component])]
    vertex, state = node >> 16, node & STATE_BITS
    last = np.int64(program.leave_first[state + 1])
    while True:
        while place < end:
            link = graph.out.entries[place]
            place += 1
            if slide_of(graph, link) > index.state.now:
                node_place = (link >> 32) * program.sizes.states + program.leave_target[leave - 1]
                target = np.int64(index.table.row_of[node_place])
                if target >= 0 and target != component:
                    return Walk(component, target, place, end, extra, leave)
        if leave >= last:
            return Walk(component, np.int64(-1), place, end, extra, leave)
        links = vertex * program.sizes.classes + program.leave_class[leave]
        place = np.int64(graph.out.start[links])
        end = place + np.int64(graph.out.length[links])
        leave += 1


@njit(cache=True, nogil=True, forceinline=True)
def _offer(index, closure, component, bits, source, low, high):
    """Add the words from `low` to `high` of the row that begins at `source` to a component."""
    rows, scratch, target = closure.rows, closure.scratch, component * closure.fields.words
    closure.fields.pushed_words += high - low
    first, last = high, low
    for word in range(low, high, 8):
        if lacking(bits, source + word, rows, target + word, scratch, word) != 0:
            first = min(first, word)
            last = word + 8
    if first >= last:
        return np.int64(DONE)
    return _accept(index, closure, component, first, last)


@njit(cache=True, nogil=True)
def _accept(index, closure, component, low, high):
    """Enter the bits of the scratch words, which are new to a component, report their pairs, and enqueue the component."""
    rows, scratch = closure.rows, closure.scratch
    base = component * closure.fields.words
    if closure.accepting_nodes[component] > 0 and index.state.quiet == 0:
        count = np.int64(0)
        for word in range(low, high):
            count += population(scratch[word])
        if index.state.out + count * np.int64(closure.accepting_nodes[component]) > index.state.out_capacity:
            return np.int64(NEED_OUTPUT)
        _report(index, closure, component, low, high)
    for word in range(low, high, 8):
        join(rows, base + word, scratch, word)
    enqueue(closure, component, scratch, np.int64(0), low, high)
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def enqueue(closure, component, bits, source, low, high):
    """Add words of the row that begins at `source` to the words that a component has to push."""
    pending, fields = closure.pending, closure.fields
    base = component * fields.words
    if not closure.is_queued[component]:
        place = fields.queue_head + fields.queue_length
        if place >= fields.component_capacity:
            place -= fields.component_capacity
        closure.queue[place] = component
        closure.is_queued[component] = 1
        fields.queue_length += 1
        closure.low[component] = low
        closure.high[component] = high
        for word in range(low, high):
            pending[base + word] = bits[source + word]
        return
    old_low, old_high = np.int64(closure.low[component]), np.int64(closure.high[component])
    for word in range(low, old_low):
        pending[base + word] = ZERO
    for word in range(old_high, high):
        pending[base + word] = ZERO
    closure.low[component] = min(old_low, low)
    closure.high[component] = max(old_high, high)
    for word in range(low, high, 8):
        join(pending, base + word, bits, source + word)


@njit(cache=True, nogil=True)
def _report(index, closure, component, low, high):
    """Write the pairs of new bits of a component for its accepting nodes. There must be room."""
    program, table, roots = index.program, index.table, closure.roots
    pairs, states = index.output.pairs, program.sizes.states
    count = np.int64(0)
    for word in range(low, high):
        bits = closure.scratch[word]
        while bits != ZERO:
            roots[count] = np.int64(table.slot_vertex[word * 64 + trailing_zeros(bits)]) << 32
            count += 1
            bits &= bits - ONE
    for i in range(np.int64(closure.member_first[component]), np.int64(closure.member_first[component + 1])):
        vertex, state = closure.member[i] >> 16, closure.member[i] & STATE_BITS
        if not program.accepting[state] or not table.is_target[vertex]:
            continue
        is_alone = True
        if program.sizes.accepting > 1:
            for j in range(program.sizes.accepting):
                other = np.int64(program.accepting_states[j])
                is_alone &= other == state or table.row_of[vertex * states + other] < 0
        out = index.state.out
        if is_alone:
            for j in range(count):
                pairs[out + j] = roots[j] | vertex
            index.state.out = out + count
        else:
            _report_unshared(index, closure, component, vertex, state, low, high)


@njit(cache=True, nogil=True)
def unshared_bits(index, closure, component, vertex, state, word, bits):
    """Return the new bits of a node that no other accepting state of its vertex has and that no lower accepting state
    gets."""
    program, states = index.program, index.program.sizes.states
    for j in range(program.sizes.accepting):
        other = np.int64(program.accepting_states[j])
        if other == state:
            continue
        other_component = np.int64(index.table.row_of[vertex * states + other])
        if other_component == component:
            if other < state:
                return ZERO
        elif other_component >= 0:
            bits &= ~closure.rows[other_component * closure.fields.words + word]
    return bits


@njit(cache=True, nogil=True)
def _report_unshared(index, closure, component, vertex, state, low, high):
    pairs = index.output.pairs
    out = index.state.out
    for word in range(low, high):
        bits = closure.scratch[word]
        if bits != ZERO:
            bits = unshared_bits(index, closure, component, vertex, state, word, bits)
        while bits != ZERO:
            pairs[out] = np.int64(index.table.slot_vertex[word * 64 + trailing_zeros(bits)]) << 32 | vertex
            out += 1
            bits &= bits - ONE
    index.state.out = out
