"""The delta join: the solutions that one changing edge brings or takes.

An edge that enters (and is in its relation already) or leaves (and is in it still) is bound to every atom that reads its
relation, one after the other: a *seed*. The other variables are bound in the order of the plan. A step asks each atom
that reaches its variable from a bound vertex for the length of its list; the shortest *proposes* its entries, the
others are *probed* in the hash table (Ngo et al. 2014; datafrog's count, propose, intersect). Before a value is
descended into, the *look-ahead* checks that every further atom at it has some edge, which is one comparison of bits.

The rule of `alt` and `neu` (differential dataflow): a solution that uses the changing edge in several atoms has it as
a seed in each. So atoms before the seed do not use that edge, and the solution is found once, from the first of them. Plans
mark these atoms; whether an edge may be used is decided in `is_changing` and nowhere else.

The walk keeps its place in each list in `Plans.frame`, one frame a step, so that it can stop where the output is full
and go on later.

Rows are written a vector at a time. The rows that one list of the last variable gives differ in one column only. So a row
is one load of an entry, one blend into the bound values, and one store of a whole vector, eight or sixteen columns wide:
what it writes behind the row is overwritten by the next one. Wider rows are written column by column.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

from rpq.compiled.kernel_cache import njit
from rpq.patterns.joins.conditions import holds
from rpq.patterns.joins.seeds import choose_seeds, next_candidate
from rpq.patterns.relations.adjacency import list_length, span
from rpq.patterns.relations.edges import find
from rpq.patterns.tables import (
    ANSWER_PLACE,
    ARENA,
    AT_ANSWER,
    AT_EDGE,
    AT_SEED,
    AT_STEP,
    BEFORE_CHANGE,
    BINDS,
    CELL,
    CHOSEN,
    COLUMNS,
    CONDITION,
    DONE,
    EDGE,
    EDGES,
    END,
    EVENT_TIME,
    EXPLICIT,
    FIXED,
    FIXED_END,
    FRAME,
    FROM,
    HELD_VERTEX,
    IS_FROM,
    IS_TO,
    LOOK_BITS,
    LOOK_FIELDS,
    LOOK_SLOT,
    LOOK_WORD,
    LOOKED,
    LOOKS,
    LOOKS_END,
    LOW,
    MORE,
    MORE_END,
    NEED_OUTPUT,
    NEEDS,
    NEEDS_WORD,
    NEXT_OF_NODE,
    NEXT_SEED,
    ON,
    ORDER,
    PLAIN,
    POSITION,
    PROBES,
    PROBES_END,
    PROPOSER,
    QUERY,
    REACH,
    REACH_CELL,
    REACH_END,
    REACH_FIELDS,
    REACH_RELATION,
    REACH_SIDE,
    REACH_SLOT,
    RECORD,
    RELATION,
    RELATION_FIELDS,
    RUN,
    RUN_ORDER,
    RUN_QUERY,
    RUN_ROOM,
    RUN_ROWS,
    RUN_SIGN,
    RUN_TIME,
    RUN_VALUES,
    RUNS,
    SAME,
    SEED_FIELDS,
    SIGN,
    SOURCE,
    STEP_FIELDS,
    STEPS,
    STEPS_END,
    STRIDE,
    TARGET,
    TEST_BEFORE,
    TEST_FIELDS,
    TEST_FROM,
    TEST_RELATION,
    TEST_TO,
    TESTS,
    TESTS_END,
    TO,
    VALUE_ROOM,
    VALUES,
    WRITTEN,
)

WIDEST = 16
"""The columns of a vector; arrays from which rows are read, or to which they are written, have this much spare room."""
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
def _write_any(values, at, binding, columns, slot, lists, first, count):
    for i in range(count):
        for column in range(columns):
            values[at + column] = binding[column]
        if slot < columns:
            values[at + slot] = lists[first + i] >> 32
        at += columns


if config.DISABLE_JIT:
    write_rows = _write_any
else:

    @njit(cache=True, nogil=True, forceinline=True)
    def write_rows(values, at, binding, columns, slot, lists, first, count):
        """Write a row for each of `count` entries, with its neighbour in `slot`."""
        if columns <= 8:
            _write_8(values, at, binding, columns, slot, lists, first, count)
        elif columns <= WIDEST:
            _write_16(values, at, binding, columns, slot, lists, first, count)
        else:
            _write_any(values, at, binding, columns, slot, lists, first, count)


@njit(cache=True, nogil=True, forceinline=True)
def write_row(values, at, binding, columns):
    """Write the bound values as one row."""
    for column in range(columns):
        values[at + column] = binding[column]


UNLIMITED = 1 << 62


@njit(cache=True, nogil=True, forceinline=True)
def is_changing(plans, edge, before_change):
    """Return whether an atom must not use an edge: the atom is before the seed, and the edge is the one that changes."""
    return before_change != 0 and edge == plans.state[AT_EDGE]


@njit(cache=True, nogil=True)
def _passes_tests(relations, plans, first, end):
    """Return whether all atoms hold whose ends are both bound, and all slots that must differ do."""
    binding = plans.binding
    for i in range(first, end):
        test = i * TEST_FIELDS
        one, other = np.int64(binding[plans.test[test + TEST_FROM]]), np.int64(binding[plans.test[test + TEST_TO]])
        relation = plans.test[test + TEST_RELATION]
        if relation < 0:
            if one == other:
                return False
        else:
            edge = find(relations, relation, one, other)
            if edge == 0 or is_changing(plans, edge, plans.test[test + TEST_BEFORE]):
                return False
    return True


@njit(cache=True, nogil=True, forceinline=True)
def _has_bits(relations, plans, first, end):
    """Return whether vertices have the bits that the look-ahead requires."""
    for i in range(first, end):
        look = i * LOOK_FIELDS
        vertex = np.int64(plans.binding[plans.look[look + LOOK_SLOT]])
        bits = plans.look[look + LOOK_BITS]
        if relations.lists[vertex * relations.state[STRIDE] + plans.look[look + LOOK_WORD]] & bits != bits:
            return False
    return True


@njit(cache=True, nogil=True, forceinline=True)
def _open_step(relations, plans, step, depth):
    """Open the frame of a step: the shortest list proposes."""
    lists, reaches = relations.lists, plans.reach
    stride = relations.state[STRIDE]
    first, end = plans.step[step * STEP_FIELDS + REACH], plans.step[step * STEP_FIELDS + REACH_END]
    reach = first * REACH_FIELDS
    cell = np.int64(plans.binding[reaches[reach + REACH_SLOT]]) * stride + reaches[reach + REACH_CELL]
    proposer = first
    if end > first + 1:
        shortest = list_length(lists[cell])
        for other in range(first + 1, end):
            reach = other * REACH_FIELDS
            there = np.int64(plans.binding[reaches[reach + REACH_SLOT]]) * stride + reaches[reach + REACH_CELL]
            length = list_length(lists[there])
            if length < shortest:
                shortest, proposer, cell = length, other, there
    frame = depth * FRAME
    plans.frame[frame + POSITION], plans.frame[frame + END] = span(lists, relations.state[ARENA], cell)
    plans.frame[frame + PROPOSER] = proposer


@njit(cache=True, nogil=True, forceinline=True)
def _accepts(relations, plans, step, proposer, entry):
    """Bind the value of a proposed entry; return whether the other atoms and all tests of the step accept it."""
    lists, reaches, binding = relations.lists, plans.reach, plans.binding
    base = step * STEP_FIELDS
    value = entry >> 32
    needs = plans.step[base + NEEDS]
    if needs != 0 and lists[value * relations.state[STRIDE] + plans.step[base + NEEDS_WORD]] & needs != needs:
        return False
    condition = plans.step[base + CONDITION]
    if condition != 0 and not holds(plans.conditions, condition, value):
        return False
    binding[plans.step[base + BINDS]] = value
    if plans.step[base + PLAIN] != 0:
        return True
    if not _has_bits(relations, plans, plans.step[base + MORE], plans.step[base + MORE_END]):
        return False
    for other in range(plans.step[base + REACH], plans.step[base + REACH_END]):
        reach = other * REACH_FIELDS
        edge = entry & LOW
        if other != proposer:
            relation, bound = reaches[reach + REACH_RELATION], np.int64(binding[reaches[reach + REACH_SLOT]])
            if reaches[reach + REACH_SIDE] == 0:
                edge = find(relations, relation, bound, value)
            else:
                edge = find(relations, relation, value, bound)
            if edge == 0:
                return False
        if is_changing(plans, edge, reaches[reach + BEFORE_CHANGE]):
            return False
    return _passes_tests(relations, plans, plans.step[base + PROBES], plans.step[base + PROBES_END])


@njit(cache=True, nogil=True, forceinline=True)
def _room(output, columns):
    """Return how many rows the output has room for."""
    return (output.state[VALUE_ROOM] - output.state[VALUES]) // columns if columns > 0 else np.int64(UNLIMITED)


@njit(cache=True, nogil=True)
def _begin_run(plans, output, query):
    """Continue the last run if it has this query and event, else begin a new one; return False without room."""
    state, runs = output.state, output.runs
    last = (state[RUNS] - 1) * RUN
    if (
        last >= 0
        and runs[last + RUN_QUERY] == query
        and runs[last + RUN_ORDER] == plans.state[ORDER]
        and runs[last + RUN_SIGN] == plans.state[SIGN]
        and runs[last + RUN_TIME] == plans.state[EVENT_TIME]
    ):
        return True
    if last < 0 or runs[last + RUN_ROWS] != 0:
        if state[RUNS] >= state[RUN_ROOM]:
            return False
        last += RUN
        state[RUNS] += 1
    runs[last + RUN_QUERY] = query
    runs[last + RUN_ORDER] = plans.state[ORDER]
    runs[last + RUN_TIME] = plans.state[EVENT_TIME]
    runs[last + RUN_SIGN] = plans.state[SIGN]
    runs[last + RUN_VALUES] = state[VALUES]
    runs[last + RUN_ROWS] = 0
    return True


@njit(cache=True, nogil=True, forceinline=True)
def _count_rows(output, columns, rows):
    """Count rows that were written."""
    state = output.state
    output.runs[(state[RUNS] - 1) * RUN + RUN_ROWS] += rows
    state[VALUES] += rows * columns


@njit(cache=True, nogil=True, forceinline=True)
def _last_step(relations, plans, output, seed, step, depth, query, columns):
    """Write a row for each value of the last variable; return DONE, or NEED_OUTPUT with the frame where it stopped."""
    lists = relations.lists
    frame = depth * FRAME
    position, end = plans.frame[frame + POSITION], plans.frame[frame + END]
    if position == end:
        return np.int64(DONE)
    if not _begin_run(plans, output, query):
        return np.int64(NEED_OUTPUT)
    slot = plans.step[step * STEP_FIELDS + BINDS]
    room = _room(output, columns)
    at = output.state[VALUES]
    if plans.step[step * STEP_FIELDS + PLAIN] != 0:
        rows = min(end - position, room)
        write_rows(output.values, at, plans.binding, columns, slot, lists, position, rows)
        position += rows
    else:
        rows = np.int64(0)
        proposer = plans.frame[frame + PROPOSER]
        while position < end and rows < room:
            if _accepts(relations, plans, step, proposer, lists[position]):
                write_row(output.values, at, plans.binding, columns)
                at += columns
                rows += 1
            position += 1
    _count_rows(output, columns, rows)
    plans.seed[seed + WRITTEN] += rows
    plans.seed[seed + LOOKED] += position - plans.frame[frame + POSITION] - rows
    plans.frame[frame + POSITION] = position
    return np.int64(DONE if position == end else NEED_OUTPUT)


@njit(cache=True, nogil=True, forceinline=True)
def _begin_seed(relations, plans, seed, edge):
    """Bind an edge to a seed; return whether there can be solutions."""
    base = seed * SEED_FIELDS
    seeds, binding = plans.seed, plans.binding
    source = np.int64(relations.edge[edge * EDGE + SOURCE])
    target = np.int64(relations.edge[edge * EDGE + TARGET])
    if seeds[base + IS_FROM] >= 0 and seeds[base + IS_FROM] != source:
        return False
    if seeds[base + IS_TO] >= 0 and seeds[base + IS_TO] != target:
        return False
    if seeds[base + SAME] != 0 and source != target:
        return False
    for i in range(seeds[base + FIXED], seeds[base + FIXED_END]):
        binding[plans.fixed[2 * i]] = plans.fixed[2 * i + 1]
    binding[seeds[base + FROM]] = source
    binding[seeds[base + TO]] = target
    if not _has_bits(relations, plans, seeds[base + LOOKS], seeds[base + LOOKS_END]):
        return False
    return _passes_tests(relations, plans, seeds[base + TESTS], seeds[base + TESTS_END])


@njit(cache=True, nogil=True)
def _walk(relations, plans, output, seed):
    """Enumerate the rest of a seed, from the step in AT_STEP on."""
    base = seed * SEED_FIELDS
    first = plans.seed[base + STEPS]
    last = plans.seed[base + STEPS_END] - 1
    query, columns = plans.seed[base + QUERY], plans.seed[base + COLUMNS]
    lists = relations.lists
    step = plans.state[AT_STEP]
    while step >= first:
        depth = step - first
        if step == last:
            if _last_step(relations, plans, output, base, step, depth, query, columns) != DONE:
                plans.state[AT_STEP] = step
                return np.int64(NEED_OUTPUT)
            step -= 1
            continue
        frame = depth * FRAME
        position, end = plans.frame[frame + POSITION], plans.frame[frame + END]
        proposer = plans.frame[frame + PROPOSER]
        began = position
        while position < end and not _accepts(relations, plans, step, proposer, lists[position]):
            position += 1
        plans.seed[base + LOOKED] += position - began + 1
        if position == end:
            step -= 1
            continue
        plans.frame[frame + POSITION] = position + 1
        step += 1
        _open_step(relations, plans, step, depth + 1)
    return np.int64(DONE)


@njit(cache=True, nogil=True, forceinline=True)
def _write_one(plans, output, seed):
    """Write the row of a seed that binds all variables."""
    columns = plans.seed[seed + COLUMNS]
    if not _begin_run(plans, output, plans.seed[seed + QUERY]) or _room(output, columns) < 1:
        return np.int64(NEED_OUTPUT)
    write_row(output.values, output.state[VALUES], plans.binding, columns)
    _count_rows(output, columns, 1)
    plans.seed[seed + WRITTEN] += 1
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def enumerate_edge(relations, plans, output, edge, explicit_only):
    """Write the rows of an edge from seed AT_SEED on; return DONE, or NEED_OUTPUT, after which the same call goes on."""
    state, shared = plans.state, plans.conditions.state
    if shared[ON] != 0 and shared[CHOSEN] == 0:
        relation, source = np.int64(relations.edge[edge * EDGE + RELATION]), np.int64(relations.edge[edge * EDGE + SOURCE])
        choose_seeds(plans, relation, source, np.int64(relations.edge[edge * EDGE + TARGET]))
        shared[CHOSEN] = 1
        state[AT_SEED] = next_candidate(plans.conditions)
    seed = state[AT_SEED]
    while seed >= 0:
        base = seed * SEED_FIELDS
        first, end = plans.seed[base + STEPS], plans.seed[base + STEPS_END]
        code = np.int64(DONE)
        if state[AT_STEP] >= 0:
            code = _walk(relations, plans, output, seed)
        elif (not explicit_only or plans.seed[base + EXPLICIT] != 0) and _begin_seed(relations, plans, seed, edge):
            if first == end:
                code = _write_one(plans, output, base)
            else:
                _open_step(relations, plans, first, 0)
                state[AT_STEP] = first
                code = _walk(relations, plans, output, seed)
        if code != DONE:
            state[AT_SEED] = seed
            return code
        state[AT_STEP] = -1
        seed = next_candidate(plans.conditions) if shared[ON] != 0 else plans.seed[base + NEXT_SEED]
    state[AT_SEED] = -1
    shared[CHOSEN] = 0
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def enumerate_all(relations, plans, output, seed, relation):
    """Write the rows of all edges of a seed's relation: every solution once, whichever seed of the pattern it is.

    No edge is changing (AT_EDGE is 0), so every atom may use every edge. The enumeration goes on from edge AT_ANSWER; the
    codes are those of `enumerate_edge`.
    """
    state = plans.state
    base = seed * SEED_FIELDS
    first, end = plans.seed[base + STEPS], plans.seed[base + STEPS_END]
    while state[AT_ANSWER] < relations.state[EDGES]:
        edge = state[AT_ANSWER]
        code = np.int64(DONE)
        if state[AT_STEP] >= 0:
            code = _walk(relations, plans, output, seed)
        elif relations.edge[edge * EDGE + RELATION] == relation and _begin_seed(relations, plans, seed, edge):
            if first == end:
                code = _write_one(plans, output, base)
            else:
                _open_step(relations, plans, first, 0)
                state[AT_STEP] = first
                code = _walk(relations, plans, output, seed)
        if code != DONE:
            return code
        state[AT_STEP] = -1
        state[AT_ANSWER] += 1
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def enumerate_around(relations, plans, output, seed, relation, side):
    """Write the rows of the edges of a seed's relation at the vertices of records from AT_ANSWER on.

    At these vertices the node holds that the seed needs at its source (`side` 0) or target (1), so no other edge has
    solutions. The codes are those of `enumerate_edge`.
    """
    state, conditions = plans.state, plans.conditions
    base = seed * SEED_FIELDS
    first, end = plans.seed[base + STEPS], plans.seed[base + STEPS_END]
    cell = relations.relation[relation * RELATION_FIELDS + CELL + side]
    while state[AT_ANSWER] != 0:
        record = state[AT_ANSWER] * RECORD
        vertex = np.int64(conditions.record[record + HELD_VERTEX])
        position, behind = span(relations.lists, relations.state[ARENA], vertex * relations.state[STRIDE] + cell)
        while position + state[ANSWER_PLACE] < behind:
            edge = relations.lists[position + state[ANSWER_PLACE]] & LOW
            code = np.int64(DONE)
            if state[AT_STEP] >= 0:
                code = _walk(relations, plans, output, seed)
            elif _begin_seed(relations, plans, seed, edge):
                if first == end:
                    code = _write_one(plans, output, base)
                else:
                    _open_step(relations, plans, first, 0)
                    state[AT_STEP] = first
                    code = _walk(relations, plans, output, seed)
            if code != DONE:
                return code
            state[AT_STEP] = -1
            state[ANSWER_PLACE] += 1
        state[ANSWER_PLACE] = 0
        state[AT_ANSWER] = np.int64(conditions.record[record + NEXT_OF_NODE])
    return np.int64(DONE)
