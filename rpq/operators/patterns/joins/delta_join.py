"""The delta join: the solutions that one changing edge adds or removes.

An edge that enters (and is in its relation already) or leaves (and is still in it) is bound to every atom that reads its
relation, one after the other: a *seed*. The other variables are bound in the order of the plan. A step compares the lengths
of the lists of all atoms that reach its variable from a bound vertex. The shortest list *proposes* its entries; the other
atoms are *probed* in the hash table (Ngo et al. 2014; datafrog's count, propose, intersect). Before the join goes on with a
value, the *look-ahead* checks by one comparison of bits that every further atom at the value has some edge.

The rule of `alt` and `neu` (differential dataflow): a solution that uses the changing edge in several atoms has it as
a seed in each. So atoms before the seed do not use that edge, and the solution is found once, from the first of them. Plans
mark these atoms; `is_changing` alone decides whether an edge may be used.

Rows are written a vector at a time. The rows from one list of the last variable differ in one column only. So a row is one
load of an entry, one blend into the bound values, and one store of a whole vector, eight or sixteen columns wide; the next
row overwrites the values behind the row. Wider rows are written column by column.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

from rpq.compiled.cycle_counter import WORK_BETWEEN_CHECKS, has_passed
from rpq.compiled.kernel_cache import njit
from rpq.operators.patterns.joins.conditions import holds
from rpq.operators.patterns.joins.seeds import choose_seeds, next_candidate
from rpq.operators.patterns.relations.adjacency import list_length, place_of, span
from rpq.operators.patterns.relations.edges import find
from rpq.operators.patterns.tables import DONE, LOW, NEED_OUTPUT, NEED_TIME, OUT

WIDEST = 16
"""The columns of the widest vector. Arrays from which rows are read, or to which they are written, have as much spare
room."""
_I32 = ir.IntType(32)
_I64 = ir.IntType(64)


def _vector_rows(lanes):
    @intrinsic
    def write(typingctx, values, at, binding, columns, slot, lists, first, count):
        """Write `count` rows: the binding, with the neighbour of an entry in one slot."""

        def codegen(context, builder, signature, args):
            values, at, binding, columns, slot, lists, first, count = args
            vector = ir.VectorType(_I32, lanes)
            undefined = ir.Constant(vector, ir.Undefined)
            zero = ir.Constant(_I32, 0)
            everywhere = ir.Constant(ir.VectorType(_I32, lanes), [0] * lanes)

            def splat(scalar):
                return builder.shuffle_vector(builder.insert_element(undefined, scalar, zero), undefined, everywhere)

            bound = builder.load(builder.bitcast(binding, vector.as_pointer()))
            bound.align = 4
            numbers = ir.Constant(vector, list(range(lanes)))
            varies = builder.icmp_signed("==", numbers, splat(builder.trunc(slot, _I32)))
            with cgutils.for_range(builder, count) as loop:
                entry = builder.load(builder.gep(lists, [builder.add(first, loop.index)]))
                neighbour = builder.trunc(builder.lshr(entry, ir.Constant(_I64, 32)), _I32)
                row = builder.select(varies, splat(neighbour), bound)
                place = builder.gep(values, [builder.add(at, builder.mul(loop.index, columns))])
                builder.store(row, builder.bitcast(place, vector.as_pointer())).align = 4
            return context.get_dummy_value()

        i64 = types.int64
        return types.void(values, i64, binding, i64, i64, lists, i64, i64), codegen

    return write


_write_8 = _vector_rows(8)
_write_16 = _vector_rows(16)


@njit(cache=True, nogil=True, forceinline=True)
def _write_columns(values, at, binding, columns, slot, lists, first, count):
    for i in range(count):
        for column in range(columns):
            values[at + column] = binding[column]
        if slot < columns:
            values[at + slot] = lists[first + i] >> 32
        at += columns


if config.DISABLE_JIT:
    write_rows = _write_columns
else:

    @njit(cache=True, nogil=True, forceinline=True)
    def write_rows(values, at, binding, columns, slot, lists, first, count):
        """Write a row for each of `count` entries, with its neighbour in `slot`."""
        if columns <= 8:
            _write_8(values, at, binding, columns, slot, lists, first, count)
        elif columns <= WIDEST:
            _write_16(values, at, binding, columns, slot, lists, first, count)
        else:
            _write_columns(values, at, binding, columns, slot, lists, first, count)


@njit(cache=True, nogil=True, forceinline=True)
def write_row(values, at, binding, columns):
    """Write the bound values as one row."""
    for column in range(columns):
        values[at + column] = binding[column]


UNLIMITED = 1 << 62


@njit(cache=True, nogil=True, forceinline=True)
def is_changing(plans, edge, before_change):
    """Return whether an atom must not use an edge: the atom is before the seed, and the edge is the one that changes."""
    return before_change != 0 and edge == plans.state.edge


@njit(cache=True, nogil=True)
def _passes_tests(relations, plans, first, end):
    """Return whether all atoms with two bound ends have an edge, and all slots that must differ do."""
    for i in range(first, end):
        test = plans.test[i]
        one, other = np.int64(plans.binding[test.source_slot]), np.int64(plans.binding[test.target_slot])
        if test.relation < 0:
            if one == other:
                return False
        else:
            edge = find(relations, test.relation, one, other)
            if edge == 0 or is_changing(plans, edge, test.before_change):
                return False
    return True


_ROUNDING = 1e-14
"""A bound of the error of a sum, relative to the absolute values of its terms: each takes a few roundings of 1.1e-16."""
_TINY = 1e-300
"""A bound of the error of numbers near the least ones that floats represent."""


@njit(cache=True, nogil=True)
def _may_hold(plans, first, end):
    """Return whether comparisons of values of bound edges may hold. What compares a missing value may."""
    numbers, columns = plans.numbers, plans.state.number_columns
    for i in range(first, end):
        comparison = plans.comparison[i]
        total, size = 0.0, 0.0
        for place in range(comparison.terms, comparison.terms_end):
            term = plans.term[place]
            summand = term.factor[0]
            if term.slot >= 0:
                summand *= numbers[np.int64(plans.binding[term.slot]) * columns + term.column]
            total += summand
            size += abs(summand)
        if total > _ROUNDING * size + _TINY:
            return False
    return True


@njit(cache=True, nogil=True, forceinline=True)
def _has_bits(relations, plans, first, end):
    """Return whether vertices have the bits that the look-ahead requires."""
    for i in range(first, end):
        look = plans.look[i]
        vertex = np.int64(plans.binding[look.slot])
        if relations.lists[place_of(relations, vertex, look.word)] & look.bits != look.bits:
            return False
    return True


@njit(cache=True, nogil=True, forceinline=True)
def _count(relations, plans, number):
    """Return the number of values that an atom would propose: the length of its list."""
    reach = plans.reach[number]
    vertex = np.int64(plans.binding[reach.slot])
    return list_length(relations.lists[place_of(relations, vertex, reach.cell)])


@njit(cache=True, nogil=True, forceinline=True)
def _propose(relations, plans, number, depth):
    """Open the frame of a step with its shortest list, which proposes values."""
    step, frame = plans.step[number], plans.frame[depth]
    proposer = step.reach
    if step.reach_end > step.reach + 1:
        shortest = _count(relations, plans, proposer)
        for other in range(step.reach + 1, step.reach_end):
            length = _count(relations, plans, other)
            if length < shortest:
                shortest, proposer = length, other
    reach = plans.reach[proposer]
    frame.position, frame.end = span(relations, np.int64(plans.binding[reach.slot]), reach.cell)
    frame.proposer = proposer


@njit(cache=True, nogil=True, forceinline=True)
def _intersect(relations, plans, number, proposer, entry):
    """Bind the value of a proposed entry. Return whether the other atoms and all tests of the step accept it."""
    step, value = plans.step[number], entry >> 32
    if step.needs != 0 and relations.lists[place_of(relations, value, step.needs_word)] & step.needs != step.needs:
        return False
    if step.condition != 0 and not holds(plans.conditions, step.condition, value):
        return False
    plans.binding[step.binds] = value
    if step.is_plain != 0:
        return True
    if step.compares != step.compares_end and not _may_hold(plans, step.compares, step.compares_end):
        return False
    if not _has_bits(relations, plans, step.more, step.more_end):
        return False
    for other in range(step.reach, step.reach_end):
        reach, edge = plans.reach[other], entry & LOW
        if other != proposer:
            bound_value = np.int64(plans.binding[reach.slot])
            if reach.side == OUT:
                edge = find(relations, reach.relation, bound_value, value)
            else:
                edge = find(relations, reach.relation, value, bound_value)
            if edge == 0:
                return False
        if is_changing(plans, edge, reach.before_change):
            return False
    return _passes_tests(relations, plans, step.probes, step.probes_end)


@njit(cache=True, nogil=True, forceinline=True)
def _room(output, columns, rows):
    """Return the number of rows for which the output has room. If `rows` do not fit, values that nobody reads are freed."""
    if columns <= 0:
        return np.int64(UNLIMITED)
    state = output.state
    room = (state.value_room - state.values) // columns
    if room < rows and state.overwritten_values + state.values <= state.overwrite_limit:
        state.overwritten_values += state.values
        state.values = 0
        room = state.value_room // columns
    return room


@njit(cache=True, nogil=True)
def _begin_run(plans, output, query):
    """Continue the last run if it has this query and event, otherwise begin a new one. Return False without room."""
    now, state = plans.state, output.state
    if state.runs > 0:
        last = output.runs[state.runs - 1]
        if last.query == query and last.order == now.order and last.sign == now.sign and last.time == now.event_time:
            return True
    if state.runs == 0 or output.runs[state.runs - 1].rows != 0:
        if state.runs >= state.run_room:
            return False
        state.runs += 1
    run = output.runs[state.runs - 1]
    run.query = query
    run.order = now.order
    run.time = now.event_time
    run.sign = now.sign
    run.values = state.values
    run.rows = 0
    return True


@njit(cache=True, nogil=True, forceinline=True)
def _count_rows(output, columns, rows):
    """Count rows that were written."""
    output.runs[output.state.runs - 1].rows += rows
    output.state.values += rows * columns


@njit(cache=True, nogil=True, forceinline=True)
def _enumerate_last_step(relations, plans, output, seed, number, depth):
    """Write a row for each value of the last variable. Return DONE, or NEED_OUTPUT, with the place in the frame."""
    step, frame, columns = plans.step[number], plans.frame[depth], seed.columns
    position, end = frame.position, frame.end
    if position == end:
        return np.int64(DONE)
    if not _begin_run(plans, output, seed.query):
        return np.int64(NEED_OUTPUT)
    room = _room(output, columns, end - position)
    at = output.state.values
    if step.is_plain != 0:
        rows = min(end - position, room)
        write_rows(output.values, at, plans.binding, columns, step.binds, relations.lists, position, rows)
        position += rows
    else:
        rows = np.int64(0)
        proposer = frame.proposer
        # The accepted values of entries from `frame.position` to before `position` are written: `rows` rows, up to `at`.
        while position < end and rows < room:
            if _intersect(relations, plans, number, proposer, relations.lists[position]):
                write_row(output.values, at, plans.binding, columns)
                at += columns
                rows += 1
            position += 1
    _count_rows(output, columns, rows)
    seed.written_rows += rows
    seed.visited_values += position - frame.position - rows
    frame.position = position
    return np.int64(DONE if position == end else NEED_OUTPUT)


@njit(cache=True, nogil=True, forceinline=True)
def _begin_seed(relations, plans, seed, edge):
    """Bind an edge to a seed. Return whether there can be solutions."""
    source, target = relations.edge[edge].source, relations.edge[edge].target
    if seed.source >= 0 and seed.source != source:
        return False
    if seed.target >= 0 and seed.target != target:
        return False
    if seed.is_loop != 0 and source != target:
        return False
    for i in range(seed.constants, seed.constants_end):
        plans.binding[plans.constant[i].slot] = plans.constant[i].vertex
    plans.binding[seed.source_slot] = source
    plans.binding[seed.target_slot] = target
    if seed.label_slot >= 0:
        plans.binding[seed.label_slot] = relations.edge[edge].place[OUT]
    if not _has_bits(relations, plans, seed.looks, seed.looks_end):
        return False
    if not _may_hold(plans, seed.compares, seed.compares_end):
        return False
    return _passes_tests(relations, plans, seed.tests, seed.tests_end)


@njit(cache=True, nogil=True)
def _walk(relations, plans, output, seed):
    """Enumerate the remaining rows of a seed, from the current step on. Return DONE, NEED_OUTPUT or NEED_TIME."""
    first, last = seed.steps, seed.steps_end - 1
    step = plans.state.step
    work = np.int64(0)
    # Each earlier step is bound to the entry before the `position` of its frame; the frame of `step` has the next entry to
    # try. Lists, bindings and frames do not change between calls, so a call resumes from `state.step`.
    while step >= first:
        depth = step - first
        if work > WORK_BETWEEN_CHECKS:
            work = np.int64(0)
            if has_passed(plans.deadline):
                plans.state.step = step
                return np.int64(NEED_TIME)
        if step == last:
            work += plans.frame[depth].end - plans.frame[depth].position
            if _enumerate_last_step(relations, plans, output, seed, step, depth) != DONE:
                plans.state.step = step
                return np.int64(NEED_OUTPUT)
            step -= 1
            continue
        frame = plans.frame[depth]
        first_position, end, proposer = frame.position, frame.end, frame.proposer
        position = first_position
        while position < end and not _intersect(relations, plans, step, proposer, relations.lists[position]):
            position += 1
        work += position - first_position + 1
        seed.visited_values += position - first_position + 1
        if position == end:
            step -= 1
            continue
        frame.position = position + 1
        step += 1
        _propose(relations, plans, step, depth + 1)
    return np.int64(DONE)


@njit(cache=True, nogil=True, forceinline=True)
def _write_seed_row(plans, output, seed):
    """Write the row of a seed that binds all variables."""
    if not _begin_run(plans, output, seed.query) or _room(output, seed.columns, np.int64(1)) < 1:
        return np.int64(NEED_OUTPUT)
    write_row(output.values, output.state.values, plans.binding, seed.columns)
    _count_rows(output, seed.columns, 1)
    seed.written_rows += 1
    return np.int64(DONE)


@njit(cache=True, nogil=True, forceinline=True)
def _enumerate(relations, plans, output, seed, edge):
    """Write the rows of an edge in a seed, from where the previous call stopped. Return a code of `_walk`."""
    if plans.state.step < 0:
        if not _begin_seed(relations, plans, seed, edge):
            return np.int64(DONE)
        if seed.steps == seed.steps_end:
            return _write_seed_row(plans, output, seed)
        _propose(relations, plans, seed.steps, np.int64(0))
        plans.state.step = seed.steps
    code = _walk(relations, plans, output, seed)
    if code == DONE:
        plans.state.step = -1
    return code


@njit(cache=True, nogil=True)
def enumerate_edge(relations, plans, output, number, explicit_only):
    """Write the rows of an edge from the current seed on.

    Return DONE, NEED_OUTPUT or NEED_TIME, after which the same call resumes.
    """
    state, shared = plans.state, plans.conditions.state
    if shared.is_enabled != 0 and shared.has_candidates == 0:
        edge = relations.edge[number]
        choose_seeds(plans, edge.relation, edge.source, edge.target)
        shared.has_candidates = 1
        state.seed = next_candidate(plans.conditions)
    # The seeds before `state.seed` are done; `state.step` and the frames say how many rows of this one are. Candidates are
    # chosen once (`has_candidates`), so a call that resumes goes on with the same seeds.
    while state.seed >= 0:
        seed = plans.seed[state.seed]
        if not explicit_only or seed.is_explicit != 0:
            code = _enumerate(relations, plans, output, seed, number)
            if code != DONE:
                return code
        state.seed = next_candidate(plans.conditions) if shared.is_enabled != 0 else seed.next
    shared.has_candidates = 0
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def enumerate_edges(relations, plans, output, number, relation):
    """Write the rows of all edges of a seed's relation. From any seed of a pattern, this writes every solution once.

    No edge is changing (`state.edge` is 0), so every atom may use every edge. The enumeration continues with edge
    `state.answer`. Return a code of `enumerate_edge`.
    """
    state, seed = plans.state, plans.seed[number]
    # The rows of the edges before `state.answer` are written; `state.step` and the frames say how many of its own.
    while state.answer < relations.state.edges:
        if relations.edge[state.answer].relation == relation:
            code = _enumerate(relations, plans, output, seed, state.answer)
            if code != DONE:
                return code
        state.answer += 1
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def enumerate_at_records(relations, plans, output, number, relation, side):
    """Write the rows of the edges of a seed's relation at the vertices of records, from `state.answer` on.

    The node that the seed needs at its source (`side` 0) or target (1) holds at these vertices alone, so no other edge has
    solutions. Return a code of `enumerate_edge`.
    """
    state, seed = plans.state, plans.seed[number]
    # The rows at the records before `state.answer` in the chain are written, and those of the first `state.answer_place`
    # edges at this one. Neither the chain nor the lists change between calls.
    while state.answer != 0:
        record = plans.conditions.record[state.answer]
        position, end = span(relations, record.vertex, relations.relation[relation].cell[side])
        while position + state.answer_place < end:
            edge = relations.lists[position + state.answer_place] & LOW
            code = _enumerate(relations, plans, output, seed, edge)
            if code != DONE:
                return code
            state.answer_place += 1
        state.answer_place = 0
        state.answer = record.next
    return np.int64(DONE)
