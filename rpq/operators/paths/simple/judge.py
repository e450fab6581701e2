"""The kernels that judge the walk answers in doubt.

Every function returns DONE or, if the store or the output is full, a code for the memory that Python must provide before it
calls the function again, which then resumes. A root that exceeds its budget is suspended immediately ("set aside" in
messages): nothing more is searched for it, and Python writes its rows.
"""

import numpy as np

from rpq.compiled.arrays.lanes import LANES, live
from rpq.compiled.cycle_counter import has_passed
from rpq.compiled.intrinsics import trailing_zeros
from rpq.compiled.kernel_cache import njit
from rpq.operators.paths.index.conflicts import forget_new_doubt, has_bit, in_doubt, unblocking_lanes
from rpq.operators.paths.index.layout import DONE, LOW_HALF, NEED_OUTPUT, NEED_PATHS, NEED_TIME
from rpq.operators.paths.index.rows import (
    NEVER,
    ONE,
    ZERO,
    block_count,
    find,
    lane_of,
    node_of,
    nth_block,
    row_at,
    unshared_lanes,
)
from rpq.operators.paths.index.witness import erase_loops, walk_back
from rpq.operators.paths.simple.certificates import (
    BLOCKED,
    STAGE_DOUBT,
    STAGE_ROWS,
    STAGE_UNBLOCK,
    block,
    certify,
    enter,
    entry_of,
    has_room,
    holds,
    remove,
)
from rpq.operators.paths.simple.search import (
    FOUND,
    NONE,
    OUT_OF_TIME,
    OVER_BUDGET,
    best_value,
    find_path,
    origins,
    vertex_bit,
)

NEED_ROOM = 32
"""The code for a full store."""


@njit(cache=True, nogil=True)
def _search(index, certificates, scratch, pair, budget):
    """Search a path for a pair and store the result. Return DONE, NEED_ROOM or NEED_TIME."""
    source = pair >> 32
    slot = np.int64(index.table.slot_of[source])
    fields = certificates.fields
    stamp = fields.stamp
    if not has_room(certificates, 0):
        return np.int64(NEED_ROOM)
    if has_bit(index.table.suspended_roots, slot):
        return np.int64(DONE)
    if has_passed(index.deadline):
        return np.int64(NEED_TIME)
    spent = certificates.expansions[source] if certificates.expansion_stamp[source] == stamp else np.int64(0)
    scratch.fields.work = 0
    outcome = find_path(index, scratch, source, pair & LOW_HALF, budget - spent)
    if outcome == OUT_OF_TIME:
        return np.int64(NEED_TIME)
    length = scratch.fields.length if outcome == FOUND else np.int64(0)
    if not has_room(certificates, length):
        return np.int64(NEED_ROOM)
    fields.searches += 1
    spent += scratch.fields.work
    certificates.expansions[source] = spent
    certificates.expansion_stamp[source] = stamp
    if outcome == OVER_BUDGET:
        index.table.suspended_roots[slot >> 6] |= lane_of(slot)
        certificates.overdrawn_root[fields.overdrawn] = source
        certificates.overdrawn_work[fields.overdrawn] = spent
        fields.overdrawn += 1
        return np.int64(DONE)
    entry = enter(certificates, pair)
    certificates.search_stamp[entry] = stamp
    if outcome == NONE:
        certificates.origins[entry] = origins(scratch, index.program.sizes.states)
        block(certificates, entry)
        index.table.blocked_roots[slot >> 6] |= lane_of(slot)
        return np.int64(DONE)
    slide = np.int64(1 << 62)
    for i in range(length):
        slide = min(slide, np.int64(index.graph.expiry[scratch.path[i] >> 1]))
    if certificates.slide[entry] == BLOCKED:
        certificates.answer_stamp[entry] = stamp
    if slide <= index.settings.ceiling:
        slide += index.state.base
    else:
        slide = np.int64(1 << 62)  # only static edges
    certify(certificates, entry, scratch.path, length, slide)
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def judge_new_pairs(index, certificates, scratch, budget):
    """Remove the rows without a simple path from the current event, whose rows are pairs with a new walk.

    A pair of a suspended root gets a blocked entry, because it was not an answer before.
    """
    table, output, state, fields = index.table, index.output, index.state, certificates.fields
    if fields.next_row < state.event_out:
        fields.next_row = state.event_out
        fields.rows_end = state.event_out
    while fields.next_row < state.out:
        pair = output.pairs[fields.next_row]
        slot = np.int64(table.slot_of[pair >> 32])
        keep = True
        judged = has_bit(table.conflicted_roots, slot)
        if judged and (has_bit(table.suspended_roots, slot) or in_doubt(index, slot, pair & LOW_HALF)):
            code = _search(index, certificates, scratch, pair, budget)
            if code != DONE:
                return code
            entry = entry_of(certificates, pair)
            if entry < 0 and certificates.expansion_stamp[pair >> 32] == fields.stamp:
                enter(certificates, pair)
            keep = entry >= 0 and certificates.slide[entry] != BLOCKED
        if keep:
            output.pairs[fields.rows_end] = pair
            fields.rows_end += 1
        fields.next_row += 1
    state.out = fields.rows_end
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def judge_lost_pairs(index, certificates):
    """Remove the rows that were not answers from the current event, whose rows are pairs that lost their walk. A pair that
    was not in doubt was an answer."""
    table, output, state = index.table, index.output, index.state
    end = state.event_out
    for row in range(state.event_out, state.out):
        pair = output.pairs[row]
        slot = np.int64(table.slot_of[pair >> 32])
        keep = True
        if has_bit(table.conflicted_roots, slot):
            entry = entry_of(certificates, pair)
            keep = not has_bit(table.suspended_roots, slot)
            if entry >= 0:
                keep = certificates.slide[entry] != BLOCKED
                remove(certificates, entry)
        if keep:
            output.pairs[end] = pair
            end += 1
    state.out = end


@njit(cache=True, nogil=True)
def search_pairs_in_doubt(index, certificates, scratch, budget):
    """Search the pairs that came into doubt and have no entry yet. They were answers until now."""
    table, state = index.table, index.state
    for i in range(state.to_search):
        row, number = index.queue.to_search[i] >> 32, index.queue.to_search[i] & LOW_HALF
        lanes = table.new_doubt[find(table, row, number)]
        vertex, _ = node_of(table, row)
        if not table.is_target[vertex]:
            continue
        while lanes != ZERO:
            pair = np.int64(table.slot_vertex[number * LANES + trailing_zeros(lanes)]) << 32 | vertex
            lanes &= lanes - ONE
            if entry_of(certificates, pair) < 0:
                code = _search(index, certificates, scratch, pair, budget)
                if code != DONE:
                    return code
                entry = entry_of(certificates, pair)
                if entry >= 0:
                    certificates.answer_stamp[entry] = 0
    forget_new_doubt(index)
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def _unblock_root(index, certificates, scratch, root, u, budget):
    """Search the blocked pairs of a root that a new edge out of u may unblock. Pairs with a path become rows."""
    output, state = index.output, index.state
    stamp = certificates.fields.stamp
    slot = np.int64(index.table.slot_of[root])
    entry = certificates.root_chain[root]
    previous = np.int64(-1)
    has_blocked = False
    origin = vertex_bit(u)
    while entry >= 0:
        next_entry = certificates.next_blocked[entry]
        counts = certificates.key[entry] >= 0 and certificates.slide[entry] == BLOCKED
        if counts and certificates.search_stamp[entry] != stamp and certificates.origins[entry] & origin != ZERO:
            if state.out >= state.out_capacity:
                return np.int64(NEED_OUTPUT)
            code = _search(index, certificates, scratch, certificates.key[entry], budget)
            if code != DONE:
                return code
            if has_bit(index.table.suspended_roots, slot):
                return np.int64(DONE)
            if certificates.slide[entry] != BLOCKED:
                output.pairs[state.out] = certificates.key[entry]
                state.out += 1
                certificates.fields.unblocked_pairs += 1
                counts = False
        if counts:
            previous = entry
            has_blocked = True
        else:
            certificates.is_chained[entry] = 0
            if previous < 0:
                certificates.root_chain[root] = next_entry
            else:
                certificates.next_blocked[previous] = next_entry
        entry = next_entry
    if not has_blocked:
        index.table.blocked_roots[slot >> 6] &= ~lane_of(slot)
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def unblock_step(index, certificates, scratch, u, v, transition_class, budget):
    """Search again the blocked pairs for which a new edge u -> v of a transition class may have made a path."""
    program, table = index.program, index.table
    slot = np.int64(table.slot_of[u])
    if program.start_target[transition_class] >= 0 and has_bit(table.blocked_roots, slot):
        code = _unblock_root(index, certificates, scratch, u, u, budget)
        if code != DONE:
            return code
    for step in range(program.step_first[transition_class], program.step_first[transition_class + 1]):
        row = row_at(index, u, np.int64(program.step_source[step]))
        if row < 0:
            continue
        for i in range(block_count(table, row)):
            number, block = nth_block(table, row, i)
            lanes = unblocking_lanes(index, number, block)
            while lanes != ZERO:
                lane = trailing_zeros(lanes)
                lanes &= lanes - ONE
                root = np.int64(table.slot_vertex[number * LANES + lane])
                if root != v or program.sizes.closing >= 0:
                    code = _unblock_root(index, certificates, scratch, root, u, budget)
                    if code != DONE:
                        return code
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def judge_insert(index, certificates, scratch, u, v, forward, inverse, budget):
    """Judge the changes that a new edge u -> v of these transition classes makes (-1: none)."""
    fields = certificates.fields
    code = np.int64(DONE)
    if fields.stage == STAGE_ROWS:
        code = judge_new_pairs(index, certificates, scratch, budget)
        if code != DONE:
            return code
        fields.stage = STAGE_DOUBT
    if fields.stage == STAGE_DOUBT:
        code = search_pairs_in_doubt(index, certificates, scratch, budget)
        if code != DONE:
            return code
        fields.stage = STAGE_UNBLOCK
    if forward >= 0:
        code = unblock_step(index, certificates, scratch, u, v, forward, budget)
    if code == DONE and inverse >= 0:
        code = unblock_step(index, certificates, scratch, v, u, inverse, budget)
    return code


@njit(cache=True, nogil=True)
def _replace(index, certificates, scratch, entry, budget):
    """Search another path in place of a broken one. A pair without a path becomes a row of the event.

    A pair that is no longer in doubt needs no path.
    """
    output, state, fields = index.output, index.state, certificates.fields
    if state.out >= state.out_capacity:
        return np.int64(NEED_OUTPUT)
    pair = certificates.key[entry]
    source = pair >> 32
    slot = np.int64(index.table.slot_of[source])
    if has_bit(index.table.suspended_roots, slot):
        return np.int64(DONE)
    if slot >= 0 and best_value(index, slot, pair & LOW_HALF) > state.now:
        if not in_doubt(index, slot, pair & LOW_HALF):
            remove(certificates, entry)
            return np.int64(DONE)
        code = _search(index, certificates, scratch, pair, budget)
        if code != DONE:
            return code
        if has_bit(index.table.suspended_roots, slot):
            return np.int64(DONE)
    else:
        remove(certificates, entry)
    fields.broken_paths += 1
    if certificates.slide[entry] != BLOCKED:
        fields.replaced_paths += 1
    else:
        output.pairs[state.out] = pair
        state.out += 1
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def replace_paths_over(index, certificates, scratch, edge, budget):
    """Replace the paths over an edge that was deleted."""
    fields = certificates.fields
    if fields.step_of == 0:
        fields.step_of = certificates.edge_chain[edge] + 1
    while fields.step_of > 0:
        place = fields.step_of - 1
        next_place = certificates.chain[place]
        if holds(certificates, place):
            code = _replace(index, certificates, scratch, certificates.owner[place], budget)
            if code != DONE:
                return code
        # Zero would start again, with a chain of obsolete steps.
        fields.step_of = next_place + 1
    certificates.edge_chain[edge] = -1
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def replace_expired_paths(index, certificates, scratch, capacity, budget):
    """Replace the paths that expire with the current slide."""
    now = index.state.base + index.state.now
    for entry in range(capacity):
        slide = certificates.slide[entry]
        if slide <= now and slide != BLOCKED and certificates.key[entry] >= 0:
            code = _replace(index, certificates, scratch, entry, budget)
            if code != DONE:
                return code
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def write_paths(index, certificates):
    """Write a simple path for each row of the current event, from row NEXT_PATH on."""
    state, output = index.state, index.output
    steps = np.empty(64, np.int64)
    while state.next_path < state.out:
        pair = output.pairs[state.next_path]
        entry = entry_of(certificates, pair)
        certified = entry >= 0 and certificates.slide[entry] != BLOCKED
        if certified:
            length = certificates.length[entry]
        else:
            length, steps = walk_back(index, pair >> 32, pair & LOW_HALF, steps)
            length = np.int64(erase_loops(pair & LOW_HALF, steps, length))
        if state.paths + length > state.path_capacity or state.next_path >= state.path_end_capacity:
            return np.int64(NEED_PATHS)
        for i in range(length):
            if certified:
                step = certificates.step[certificates.path_start[entry] + length - 1 - i]
            else:
                step = steps[i] & LOW_HALF
            output.paths[state.paths + i] = step
        state.paths += length
        output.path_end[state.next_path] = state.paths
        state.next_path += 1
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def next_expiry(certificates, capacity):
    """Return the earliest absolute slide at which a path expires."""
    slide = np.int64(np.iinfo(np.int64).max)
    for entry in range(capacity):
        if certificates.slide[entry] != BLOCKED and certificates.key[entry] >= 0:
            slide = min(slide, certificates.slide[entry])
    return slide


@njit(cache=True, nogil=True)
def forget_certain_pairs(index, certificates, capacity):
    """Remove the entries of pairs that are no longer in doubt: the table answers them, or they have no walk."""
    for entry in range(capacity):
        pair = certificates.key[entry]
        if pair >= 0:
            slot = np.int64(index.table.slot_of[pair >> 32])
            if slot < 0 or not in_doubt(index, slot, pair & LOW_HALF):
                remove(certificates, entry)


@njit(cache=True, nogil=True)
def has_answers(index, certificates, pairs):
    """Return for each of some pairs with a walk whether it has a simple path and a root that is not suspended."""
    table = index.table
    found = np.ones(len(pairs), np.bool_)
    for i in range(len(pairs)):
        slot = np.int64(table.slot_of[pairs[i] >> 32])
        if has_bit(table.conflicted_roots, slot):
            if has_bit(table.suspended_roots, slot):
                found[i] = False
            elif in_doubt(index, slot, pairs[i] & LOW_HALF):
                entry = entry_of(certificates, pairs[i])
                found[i] = entry >= 0 and certificates.slide[entry] != BLOCKED
    return found


@njit(cache=True, nogil=True)
def pairs_of(index, roots):
    """Return the walk answers of the roots in `roots` (uint64 a block number), source << 32 | target."""
    program, table = index.program, index.table
    now = index.state.now
    pairs = np.empty(256, np.int64)
    found = 0
    for row in range(index.state.rows):
        if table.node[row] < 0:
            continue
        vertex, state = node_of(table, row)
        if not program.accepting[state] or not table.is_target[vertex]:
            continue
        for i in range(block_count(table, row)):
            number, block = nth_block(table, row, i)
            if roots[number] == ZERO:
                continue
            lanes = roots[number] & live(table.values, block, now)
            lanes = unshared_lanes(index, vertex, state, number, lanes, now, NEVER)
            if found + LANES > len(pairs):
                pairs = np.concatenate((pairs, np.empty_like(pairs)))
            while lanes != ZERO:
                slot = number * LANES + trailing_zeros(lanes)
                lanes &= lanes - ONE
                pairs[found] = np.int64(table.slot_vertex[slot]) << 32 | vertex
                found += 1
    return pairs[:found]
