"""The number of edges of shortest paths in an order in time: an automaton that counts edges, and rows with lengths.

The layered automaton has a state for each state of the expression and each number of edges with which paths reach it, up to
some number. In its last layer, that of paths with more edges, it counts no more. So the index of ordered paths finds for
each number of edges whether there is a path, whatever tuples come, and the length of a pair is the number of edges of its
first accepting state with a live cell. If a pair has a path in the last layer alone, there are too few layers (NEED_LAYERS):
Python adds some, and finds the paths of the roots that reached the last one. How many are needed, only the stream tells:
with a gap, even a path between two vertices may have to go round a cycle any number of times, to wait for the next edge.

* **Marks**: a pair that was reported has a mark, in `Table.hops`, at the cell of the state with whose length it was. This is
  the first of its live cells in the order of states, which is that of layers. So its length changes only if the cell of the
  mark dies, or another one before it comes alive. These pairs are noted in the output while cells change.
* **Rows**: at the end of a tuple or a boundary, `settle` moves the marks of the noted pairs, and replaces the pairs by rows:
  first those with the old lengths, then those with the new ones.
"""

from __future__ import annotations

import itertools

import numpy as np

from rpq.compiled.arrays.lanes import LANES, live
from rpq.compiled.kernel_cache import njit
from rpq.operators.paths.index.expiry import boundary_time, count_dying, cross, next_death, report_dying
from rpq.operators.paths.index.layout import DONE, LOW_HALF, NEED_OUTPUT, STATE_BITS
from rpq.operators.paths.index.rows import block_count, cell_at, end_event, nth_block
from rpq.operators.paths.ordered.timeline import NEED_LAYERS, NEED_SHORTEST
from rpq.operators.paths.program import Program, ProgramSizes

MOST_STATES = STATE_BITS
"""The largest number of states of an automaton."""

_NO_PATH = -1


def layered(program: Program, layers: int) -> tuple[Program, np.ndarray]:
    """Return the automaton that counts up to `layers` edges, and the number of edges of each state (int64).

    The states of more edges, if there are any, come last, with the number `layers + 1`. Tables that paths in an order do not
    use stay those of the automaton.
    """
    steps = [*zip(program.step_source.tolist(), program.step_target.tolist(), strict=True)]
    following: dict[int, set[int]] = {}
    for source, target in steps:
        following.setdefault(source, set()).add(target)
    numbers: dict[tuple[int, int], int] = {}  # of the states, by the state of the expression and the number of edges
    reached = {int(state) for state in program.start_target if state >= 0}
    for layer in range(1, layers + 1):
        for state in sorted(reached):
            numbers[state, layer] = len(numbers) + 1
        reached = {target for state in reached for target in following.get(state, ())}
    waiting = sorted(reached)
    while waiting:
        state = waiting.pop()
        if (state, layers + 1) not in numbers:
            numbers[state, layers + 1] = len(numbers) + 1
            waiting += following.get(state, ())
    of_state: dict[int, list[int]] = {}  # the numbers of edges with which a state is reached
    for state, edges in numbers:
        of_state.setdefault(state, []).append(edges)
    counting = [
        [
            (numbers[source, edges], numbers[target, min(edges + 1, layers + 1)])
            for source, target in steps[first:end]
            for edges in of_state.get(source, ())
        ]
        for first, end in itertools.pairwise(program.step_first.tolist())
    ]
    accepting = np.array([0, *(program.accepting[state] for state, _ in numbers)], np.uint8)
    flat = np.array([pair for of_class in counting for pair in of_class], np.int32).reshape(-1, 2)
    found = program._replace(
        sizes=ProgramSizes(program.sizes.classes, len(accepting), accepting.sum(), -1),
        step_first=np.cumsum([0, *map(len, counting)], dtype=np.int32),
        step_source=flat[:, 0].copy(),
        step_target=flat[:, 1].copy(),
        start_target=np.array([numbers.get((int(state), 1), -1) for state in program.start_target], np.int32),
        accepting=accepting,
        accepting_states=np.flatnonzero(accepting).astype(np.int32),
    )
    return found, np.array([0, *(edges for _, edges in numbers)], np.int64)


@njit(cache=True, nogil=True)
def clear_last_layer(index, timeline, roots):
    """Clear the cells of the last layer, and note in `roots` (uint64 a block number) the slots that had any."""
    table, now = index.table, index.state.now
    for row in range(index.state.rows):
        if table.node[row] < 0 or timeline.edge_count[table.node[row] & STATE_BITS] != timeline.fields.most_edges:
            continue
        for i in range(block_count(table, row)):
            number, block = nth_block(table, row, i)
            roots[number] |= live(table.values, block, now)
            for cell in range(block * LANES, (block + 1) * LANES):
                table.values[cell] = 0


@njit(cache=True, nogil=True)
def _first_cells(index, pair):
    """Return the first accepting state in which a pair has a live cell, that cell, the state with its mark, and that cell;
    -1 for none."""
    program, table, now = index.program, index.table, index.state.now
    slot, vertex = np.int64(table.slot_of[pair >> 32]), pair & LOW_HALF
    state = cell = old_state = old_cell = np.int64(-1)
    if slot < 0:
        return state, cell, old_state, old_cell
    for i in range(program.sizes.accepting):
        one = np.int64(program.accepting_states[i])
        place = cell_at(index, vertex, one, slot)
        if place < 0:
            continue
        if state < 0 and np.int64(table.values[place]) > now:
            state, cell = one, place
        if old_state < 0 and table.hops[place] != 0:
            old_state, old_cell = one, place
        if state >= 0 and old_state >= 0:
            break
    return state, cell, old_state, old_cell


@njit(cache=True, nogil=True)
def _move_marks(index, timeline):
    """Move the marks of the pairs noted in an event, and collect those with another length. Return a code, after which the
    next call continues.

    The pairs collected take the place of those noted, with `old length << 32 | new length` as their lengths.
    """
    fields, notes, output = index.state, timeline.fields, index.output
    while fields.event_out + notes.settled < fields.out:
        pair = output.pairs[fields.event_out + notes.settled]
        state, cell, old_state, old_cell = _first_cells(index, pair)
        new, old = np.int64(0), np.int64(0)
        if state >= 0:
            new = timeline.edge_count[state]
            if new == notes.most_edges:
                return np.int64(NEED_LAYERS)
        notes.settled += 1
        if state == old_state:
            continue  # the pair was noted twice
        if old_state >= 0:
            old = timeline.edge_count[old_state]
            index.table.hops[old_cell] = 0
        if state >= 0:
            index.table.hops[cell] = 1
        if new != old:
            output.pairs[fields.event_out + notes.changed] = pair
            timeline.length[fields.event_out + notes.changed] = old << 32 | new
            notes.changed += 1
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def settle(index, timeline, time, order):
    """Replace the pairs that were noted in an event by rows with their old and new lengths. Return a code, after which the
    next call continues."""
    fields, notes, output = index.state, timeline.fields, index.output
    if notes.has_new_rows == 0:
        code = _move_marks(index, timeline)
        if code != DONE:
            return code
        first, count = fields.event_out, np.int64(0) if fields.quiet else notes.changed
        # Another event, that of a tuple behind a boundary, may follow before the next check.
        if first + 3 * count > fields.out_capacity or fields.events + 3 > fields.event_capacity:
            return np.int64(NEED_OUTPUT)
        fields.out = first
        notes.settled = notes.changed = 0
        behind = first + 2 * count  # the rows
        for place in range(count):
            output.pairs[behind + place] = output.pairs[first + place]
            timeline.length[behind + place] = timeline.length[first + place]
        for place in range(behind, behind + count):
            _write_row(index, timeline, output.pairs[place], timeline.length[place] >> 32)
        end_event(index, time, np.int64(-1), order)
        for place in range(behind, behind + count):
            _write_row(index, timeline, output.pairs[place], timeline.length[place] & LOW_HALF)
        notes.has_new_rows = 1
        if index.settings.witness and fields.out > fields.event_out:
            return np.int64(NEED_SHORTEST)
    notes.has_new_rows = 0
    end_event(index, time, np.int64(1), order)
    return np.int64(DONE)


@njit(cache=True, nogil=True, forceinline=True)
def _write_row(index, timeline, pair, length):
    """Append a row, unless there was or is no path."""
    if length != 0:
        fields = index.state
        index.output.pairs[fields.out] = pair
        timeline.length[fields.out] = length
        fields.out += 1


@njit(cache=True, nogil=True)
def cross_with_lengths(index, timeline, slide, order):
    """Advance to an absolute slide, boundary by boundary, and report the lengths that change on the way. Return a code,
    after which the next call resumes."""
    fields = index.state
    code = settle(index, timeline, boundary_time(index, fields.now), order)  # what remains of the boundary before a code
    if code != DONE:
        return code
    last = slide - fields.base
    if last < 0 or last > index.settings.ceiling:
        last = index.settings.ceiling
    while True:
        dying = next_death(index)
        if dying > last:
            break
        dying += -dying % index.settings.step  # to the next boundary
        if fields.out + count_dying(index, dying) > fields.out_capacity:
            return np.int64(NEED_OUTPUT)
        report_dying(index, dying)
        fields.now = dying
        code = settle(index, timeline, boundary_time(index, dying), order)
        if code != DONE:
            return code
    cross(index, slide)
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def lengths_of(index, timeline, pairs, found):
    """Write the lengths of some pairs, root << 32 | end; `_NO_PATH` for a pair that no path joins."""
    for i in range(len(pairs)):
        state, _, _, _ = _first_cells(index, pairs[i])
        found[i] = timeline.edge_count[state] if state >= 0 else _NO_PATH
