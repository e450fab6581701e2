"""The kernels of the index of bits that Python calls, with views of the index, of its bits and of a chunk."""

import numpy as np

from rpq.compiled.cycle_counter import count_ticks
from rpq.compiled.intrinsics import cycles, population, trailing_zeros
from rpq.compiled.kernel_cache import njit
from rpq.operators.paths.closure.components import compute, forget
from rpq.operators.paths.closure.layout import COMPONENTS, EXTRAS, LEAVING, SETTLED, STALE, WORDS
from rpq.operators.paths.closure.push import push_edge
from rpq.operators.paths.index.apply import begin_delete, begin_insert, start_clock
from rpq.operators.paths.index.expiry import cross
from rpq.operators.paths.index.layout import (
    BASE,
    DONE,
    EDGE_SLIDE,
    ENTERED,
    EVENT_CAPACITY,
    EVENTS,
    HAS_TIME,
    IDLE,
    INSERTING,
    NEED_OUTPUT,
    NEXT_BOUNDARY,
    OUTCOMES,
    PHASE,
    SLIDE,
    STARTED,
    STATE_BITS,
    TIME,
    TIMED,
    TUPLE,
)
from rpq.operators.paths.index.rows import ONE, ZERO, end_event
from rpq.operators.paths.program import ACCEPTING, STATES
from rpq.stream.edges.outcomes import IRRELEVANT


@njit(cache=True, nogil=True)
def apply_chunk(index, closure, chunk, count):
    """Apply the tuples of a chunk from TUPLE on; return DONE, or what Python must do before the next call."""
    fields, program = index.state, index.program
    while fields[TUPLE] < count:
        i = fields[TUPLE]
        label = np.int64(chunk.label[i])
        forward = np.int64(program.forward[label])
        inverse = np.int64(program.inverse[label])
        u, v = np.int64(chunk.source[i]), np.int64(chunk.target[i])
        if fields[PHASE] == IDLE:
            relevant = forward >= 0 or inverse >= 0
            if relevant:
                if fields[EVENTS] >= fields[EVENT_CAPACITY]:
                    return np.int64(NEED_OUTPUT)
                fields[STARTED] = cycles()
            _move_clock(index, closure, chunk.timestamp[i])
            if not relevant:
                fields[OUTCOMES + IRRELEVANT] += 1
                fields[TUPLE] += 1
                continue
            code = np.int64(DONE)
            if chunk.delete[i]:
                code = begin_delete(index, chunk, i, u, v, forward, inverse)
            else:
                if closure.fields[STALE] or _is_scattered(closure):
                    code = compute(index, closure)
                if code == DONE:
                    code = begin_insert(index, chunk, i, u, v, forward, inverse)
            if code != DONE:
                return code
            if fields[PHASE] == INSERTING and not fields[ENTERED]:
                fields[PHASE] = IDLE  # nobody asks how young a pair is
            if fields[PHASE] == INSERTING:
                closure.fields[LEAVING] = min(closure.fields[LEAVING], fields[BASE] + fields[EDGE_SLIDE])
        if fields[PHASE] == INSERTING:
            code = push_edge(index, closure, u, v, forward, inverse)
            if code != DONE:
                return code
            fields[PHASE] = IDLE
            end_event(index, fields[TIME], 1, 2 * i + 1)
        spent = cycles() - fields[STARTED]
        count_ticks(index.latency, spent)
        if i < fields[TIMED]:
            index.spent[i] += spent
        fields[TUPLE] += 1
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def _is_scattered(closure):
    """Return whether so much has come since components were computed that computing them anew pays."""
    fields = closure.fields
    return fields[EXTRAS] + fields[COMPONENTS] - fields[SETTLED] > max(np.int64(1024), 2 * fields[SETTLED])


@njit(cache=True, nogil=True)
def _move_clock(index, closure, time):
    """Make `time` the stream time if it is larger. What leaves on the way leaves in silence."""
    fields, settings = index.state, index.settings
    if not fields[HAS_TIME]:
        start_clock(index, time)
    elif time > fields[TIME]:
        if time >= fields[NEXT_BOUNDARY]:
            slide = time // settings[SLIDE]
            if slide >= closure.fields[LEAVING]:
                closure.fields[STALE] = 1
            cross(index, slide)
        fields[TIME] = time


@njit(cache=True, nogil=True)
def advance(index, closure, time):
    """Move the stream time."""
    _move_clock(index, closure, time)


@njit(cache=True, nogil=True)
def settle(index, closure):
    """Compute components and rows if that has to be done; codes as `apply_chunk`."""
    return compute(index, closure) if closure.fields[STALE] else np.int64(DONE)


@njit(cache=True, nogil=True)
def dissolve(index, closure):
    """Take the component from every product node."""
    forget(index, closure)


@njit(cache=True, nogil=True)
def count_live(index, closure):
    """Return (pairs of a root and a product node, answers)."""
    fields = closure.fields
    words, cells, answers = fields[WORDS], np.int64(0), np.int64(0)
    for component in range(fields[COMPONENTS]):
        first, end = np.int64(closure.member_first[component]), np.int64(closure.member_first[component + 1])
        for word in range(words):
            bits = closure.rows[component * words + word]
            if bits == ZERO:
                continue
            cells += population(bits) * (end - first)
            for i in range(first, end):
                answers += population(_answers(index, closure, component, closure.member[i], word, bits))
    return cells, answers


@njit(cache=True, nogil=True)
def _answers(index, closure, component, node, word, bits):
    """Return those bits of a product node that are answers and are not counted at another state of its vertex."""
    program, vertex, state = index.program, node >> 16, node & STATE_BITS
    if not program.accepting[state] or not index.table.is_target[vertex]:
        return ZERO
    states = program.sizes[STATES]
    for j in range(program.sizes[ACCEPTING]):
        other = np.int64(program.accepting_states[j])
        beside = np.int64(index.table.row_of[vertex * states + other])
        if other < state and beside >= 0:
            bits &= ~closure.rows[beside * closure.fields[WORDS] + word]
    return bits


@njit(cache=True, nogil=True)
def live_pairs(index, closure):
    """Return the current answers, source << 32 | target."""
    fields = closure.fields
    words = fields[WORDS]
    pairs = np.empty(count_live(index, closure)[1], np.int64)
    found = 0
    for component in range(fields[COMPONENTS]):
        for i in range(np.int64(closure.member_first[component]), np.int64(closure.member_first[component + 1])):
            node = closure.member[i]
            for word in range(words):
                bits = closure.rows[component * words + word]
                if bits != ZERO:
                    bits = _answers(index, closure, component, node, word, bits)
                while bits != ZERO:
                    slot = word * 64 + trailing_zeros(bits)
                    bits &= bits - ONE
                    pairs[found] = np.int64(index.table.slot_vertex[slot]) << 32 | node >> 16
                    found += 1
    return pairs


@njit(cache=True, nogil=True)
def count_cells(index, closure, cells):
    """Add the product nodes that each root reaches to its place in `cells` (int64 a vertex)."""
    fields = closure.fields
    words = fields[WORDS]
    for component in range(fields[COMPONENTS]):
        size = np.int64(closure.member_first[component + 1]) - np.int64(closure.member_first[component])
        for word in range(words):
            bits = closure.rows[component * words + word]
            while bits != ZERO:
                cells[index.table.slot_vertex[word * 64 + trailing_zeros(bits)]] += size
                bits &= bits - ONE
