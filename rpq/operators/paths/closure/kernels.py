"""The kernels of the index of bits that Python calls, with views of the index, of its bits and of a chunk."""

import numpy as np

from rpq.compiled.intrinsics import population, trailing_zeros
from rpq.compiled.kernel_cache import njit
from rpq.operators.paths.closure.components import compute, forget
from rpq.operators.paths.closure.layout import STAGE_IDLE
from rpq.operators.paths.closure.loss import begin_loss, recompute, report_loss, reverse_links
from rpq.operators.paths.closure.push import push_edge
from rpq.operators.paths.closure.witness import search_path
from rpq.operators.paths.index.apply import begin_insert, link
from rpq.operators.paths.index.expiry import boundary_time, cross
from rpq.operators.paths.index.layout import DONE, IDLE, INSERTING, NEED_OUTPUT, REFILLING, STATE_BITS
from rpq.operators.paths.index.rows import ONE, ZERO, end_event, root_slot
from rpq.operators.paths.index.tuples import apply_each, enter_each, move_clock


@njit(cache=True, nogil=True)
def apply_chunk(index, closure, chunk, count):
    """Apply the tuples of a chunk. Return DONE, or a code for what Python must do before the next call."""
    return apply_each(index, closure, chunk, count, _cross, _begin, _resume)


@njit(cache=True, nogil=True)
def advance(index, closure, time):
    """Advance the stream time. Returns codes as `apply_chunk` does."""
    return move_clock(index, closure, time, np.int64(0), _cross)


@njit(cache=True, nogil=True)
def load_edges(index, closure, chunk, slides):
    """Enter the edges of a chunk with these relative slides; `settle` computes the components. Returns a code."""
    closure.fields.stale = 1
    return enter_each(index, closure, chunk, slides, _enter)


@njit(cache=True, nogil=True)
def _enter(index, closure, edge, slide, u, v, forward, inverse):
    if not index.graph.is_linked[edge]:
        code = link(index, edge, u, v, forward, inverse)
        if code != DONE:
            return code
    index.graph.expiry[edge] = slide
    start, is_root = index.program.start_target, index.table.is_root
    if forward >= 0 and start[forward] >= 0 and is_root[u]:
        root_slot(index, u)
    if inverse >= 0 and start[inverse] >= 0 and is_root[v]:
        root_slot(index, v)
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def _begin(index, closure, chunk, i, u, v, forward, inverse):
    fields, bits = index.state, closure.fields
    if bits.stale or _is_scattered(closure):
        code = compute(index, closure)
        if code != DONE:
            return code
    if chunk.delete[i]:
        return begin_loss(index, closure, np.int64(chunk.edge[i]), u, v, forward, inverse)
    code = begin_insert(index, np.int64(chunk.edge[i]), chunk.timestamp[i], u, v, forward, inverse)
    if fields.phase == INSERTING:
        if fields.is_new_edge:
            bits.earliest_expiry = min(bits.earliest_expiry, fields.base + fields.edge_slide)
        else:
            fields.phase = IDLE  # the slides of pairs are not needed
    return code


@njit(cache=True, nogil=True)
def _resume(index, closure, chunk, i, count, u, v, forward, inverse):
    if index.state.phase == INSERTING:
        return push_edge(index, closure, u, v, forward, inverse)
    if index.state.phase == REFILLING:
        return recompute(index, closure)
    return report_loss(index, closure)


@njit(cache=True, nogil=True)
def _is_scattered(closure):
    """Return whether enough edges have arrived since the components were computed that recomputing them pays off."""
    fields = closure.fields
    return fields.extras + fields.components - fields.settled > max(np.int64(1024), 2 * fields.settled)


@njit(cache=True, nogil=True)
def _cross(index, closure, slide, order):
    """Advance to an absolute slide. In an explicit window, report the pairs that leave, boundary by boundary."""
    fields, settings, bits = index.state, index.settings, closure.fields
    if not settings.explicit:
        if slide >= bits.earliest_expiry:
            bits.stale = 1
        cross(index, slide)
        return np.int64(DONE)
    last = slide - fields.base
    if last < 0 or last > settings.ceiling:
        last = np.int64(settings.ceiling)
    # While a stage is set, `now` is the boundary that is being reported; before it, nothing leaves unreported.
    while bits.stage != STAGE_IDLE or bits.earliest_expiry <= fields.base + last:
        if bits.stage == STAGE_IDLE:
            if fields.events + 2 > fields.event_capacity:
                return np.int64(NEED_OUTPUT)
            bits.old_now = fields.now
            fields.now = bits.earliest_expiry - fields.base
        code = recompute(index, closure)
        if code != DONE:
            return code
        end_event(index, boundary_time(index, fields.now), -1, order)
    cross(index, slide)
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def settle(index, closure):
    """Compute components and rows if they are out of date. Returns codes as `apply_chunk` does."""
    return compute(index, closure) if closure.fields.stale else np.int64(DONE)


@njit(cache=True, nogil=True)
def keep_in_edges(index):
    """Insert all edges into the lists of in-edges, which must be empty, also after a code. Returns codes as `apply_chunk`
    does."""
    return reverse_links(index)


@njit(cache=True, nogil=True)
def dissolve(index, closure):
    """Remove all product nodes from their components."""
    forget(index, closure)


@njit(cache=True, nogil=True)
def find_path(index, closure, source, target):
    """Return the steps of a path that answers a pair, first to last: (their number or -1, steps)."""
    return search_path(index, closure, source, target)


@njit(cache=True, nogil=True)
def count_live(index, closure):
    """Return the number of pairs of a root and a product node, and the number of answers."""
    fields = closure.fields
    words, cells, answers = fields.words, np.int64(0), np.int64(0)
    for component in range(fields.components):
        first, end = np.int64(closure.member_first[component]), np.int64(closure.member_first[component + 1])
        if index.program.sizes.accepting == 1:  # then all answers of a component have the same roots
            roots, ends = np.int64(0), np.int64(0)
            for word in range(words):
                roots += population(closure.rows[component * words + word])
            for i in range(first, end):
                node = closure.member[i]
                ends += index.program.accepting[node & STATE_BITS] and index.table.is_target[node >> 16]
            cells += roots * (end - first)
            answers += roots * ends
            continue
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
    """Return the bits of a product node that are answers and are not counted at another state of its vertex."""
    program, vertex, state = index.program, node >> 16, node & STATE_BITS
    if not program.accepting[state] or not index.table.is_target[vertex]:
        return ZERO
    states = program.sizes.states
    for j in range(program.sizes.accepting):
        other = np.int64(program.accepting_states[j])
        other_component = np.int64(index.table.row_of[vertex * states + other])
        if other < state and other_component >= 0:
            bits &= ~closure.rows[other_component * closure.fields.words + word]
    return bits


@njit(cache=True, nogil=True)
def live_pairs(index, closure, first, end, limit, mask, numbers):
    """Return answers and the next vertex, as `live_pairs` of `rpq.operators.paths.index.answers` does."""
    count, following = _scan(index, closure, first, end, limit, mask, numbers, np.empty(0, np.int64))
    pairs = np.empty(count, np.int64)
    if count:
        _scan(index, closure, first, following, count, mask, numbers, pairs)
    return pairs, following


@njit(cache=True, nogil=True)
def _scan(index, closure, first, end, limit, mask, numbers, pairs):
    """Write pairs as `live_pairs` does, or count them without room for any. Return their number and the next vertex."""
    program, table, words = index.program, index.table, closure.fields.words
    found = np.int64(0)
    for vertex in range(first, end):
        if found >= limit:
            return found, vertex
        for j in range(program.sizes.accepting):
            state = np.int64(program.accepting_states[j])
            component = np.int64(table.row_of[vertex * program.sizes.states + state])
            if component < 0:
                continue
            chosen = len(numbers) > 0
            for i in range(len(numbers) if chosen else words):
                word = numbers[i] if chosen else np.int64(i)
                bits = closure.rows[component * words + word]
                if chosen:
                    bits &= mask[word]
                if bits != ZERO:
                    bits = _answers(index, closure, component, vertex << 16 | state, word, bits)
                if len(pairs) == 0:
                    found += population(bits)
                    continue
                while bits != ZERO:
                    slot = word * 64 + trailing_zeros(bits)
                    bits &= bits - ONE
                    pairs[found] = np.int64(table.slot_vertex[slot]) << 32 | vertex
                    found += 1
    return found, np.int64(end)


@njit(cache=True, nogil=True)
def count_by_root(index, closure, cells, answers):
    """Add the product nodes that each root reaches to its place in `cells`, and its answers to that in `answers` (int64)."""
    fields = closure.fields
    words = fields.words
    for component in range(fields.components):
        first, end = np.int64(closure.member_first[component]), np.int64(closure.member_first[component + 1])
        for word in range(words):
            bits = closure.rows[component * words + word]
            for i in range(first, end):
                if bits == ZERO:
                    break
                _count(index, cells, bits, word)
                _count(index, answers, _answers(index, closure, component, closure.member[i], word, bits), word)


@njit(cache=True, nogil=True)
def _count(index, counts, bits, word):
    """Add one to the count of each root whose bit is set in a word."""
    while bits != ZERO:
        counts[index.table.slot_vertex[word * 64 + trailing_zeros(bits)]] += 1
        bits &= bits - ONE
