"""The kernels of lengths that Python calls, with views of an index, of its progress and of a chunk."""

import numpy as np

from rpq.compiled.arrays.lanes import LANES, differing
from rpq.compiled.intrinsics import trailing_zeros
from rpq.compiled.kernel_cache import njit
from rpq.operators.paths.index.apply import begin_delete, begin_insert, link
from rpq.operators.paths.index.expiry import boundary_time, cross
from rpq.operators.paths.index.layout import DONE, IDLE, INSERTING, LOSING, LOW_HALF, NEED_OUTPUT, NEED_PATHS
from rpq.operators.paths.index.rows import (
    ONE,
    ZERO,
    block_at,
    block_count,
    cell_at,
    end_event,
    in_edges,
    next_in_edge,
    node_of,
    nth_block,
    row_at,
)
from rpq.operators.paths.index.tuples import apply_each, enter_each, move_clock
from rpq.operators.paths.lengths.changes import (
    behind,
    fill,
    next_loss,
    push,
    raise_edge,
    remove_unsupported,
    suspect_expired_edges,
    suspect_step,
)
from rpq.operators.paths.lengths.progress import (
    FILLING,
    NEW_ROWS,
    NOTHING,
    OLD_ROWS,
    PATHS_OF_ROWS,
    PUSHING,
    RECORDING,
    TOO_LARGE,
)

NO_WALK = -1
"""In place of the length of a pair that no walk joins."""

OLD_LENGTHS, NEW_LENGTHS = np.bool_(False), np.bool_(True)
"""Which lengths `_write_rows` writes. Literals would not do: numba compiles a kernel for each literal argument."""


# --- from changes to rows -------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _nearest(index, cells, vertex, number, lane):
    """Return the largest cell of a pair in all accepting states. `cells` are the present ones, or those last reported."""
    program, found = index.program, np.int64(0)
    for i in range(program.sizes.accepting):
        block = block_at(index, vertex, np.int64(program.accepting_states[i]), number)
        if block >= 0:
            found = max(found, np.int64(cells[block * LANES + lane]))
    return found


@njit(cache=True, nogil=True)
def _lanes_of_lowest_state(index, vertex, state, number, lanes):
    """Return those of some lanes in which no lower accepting state differs from the reported cells."""
    program, table = index.program, index.table
    for i in range(program.sizes.accepting):
        lower = np.int64(program.accepting_states[i])
        if lower >= state or lanes == ZERO:
            break
        block = block_at(index, vertex, lower, number)
        if block >= 0:
            lanes &= ~differing(table.values, table.hops, block)
    return lanes


@njit(cache=True, nogil=True)
def _write_block(index, progress, vertex, number, lanes, are_new):
    """Append the pairs of some lanes with a length that differs: the new lengths, or the old ones. Return False for a cost
    that does not fit."""
    table, output, fields = index.table, index.output, index.state
    zero = progress.fields.zero
    while lanes != ZERO:
        lane = trailing_zeros(lanes)
        lanes &= lanes - ONE
        old = _nearest(index, table.hops, vertex, number, lane)
        new = _nearest(index, table.values, vertex, number, lane)
        cell = new if are_new else old
        if old != new and cell != 0:
            if cell == progress.fields.too_large:
                return False
            output.pairs[fields.out] = np.int64(table.slot_vertex[number * LANES + lane]) << 32 | vertex
            progress.length[fields.out] = zero - cell
            fields.out += 1
    return True


@njit(cache=True, nogil=True)
def _write_rows(index, progress, are_new):
    """Append the rows of all pairs that changed since the last report. The call can be repeated after NEED_OUTPUT."""
    table, stages = index.table, progress.fields
    while stages.place < stages.changed_rows:
        row = np.int64(progress.changed_rows[stages.place])
        vertex, state = node_of(table, row)
        changed = progress.changed_blocks[row]
        while table.is_target[vertex] and stages.block < block_count(table, row):
            number, block = nth_block(table, row, stages.block)
            if (changed >> np.uint64(number & 63)) & ONE != ZERO:
                if index.state.out + LANES > index.state.out_capacity:
                    return np.int64(NEED_OUTPUT)
                lanes = differing(table.values, table.hops, block)
                if lanes != ZERO and index.program.sizes.accepting > 1:
                    lanes = _lanes_of_lowest_state(index, vertex, state, number, lanes)
                if not _write_block(index, progress, vertex, number, lanes, are_new):
                    return np.int64(TOO_LARGE)
            stages.block += 1
        stages.place += 1
        stages.block = 0
    stages.place = 0
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def _record_rows(index, progress):
    """Record the cells that changed as reported."""
    table, stages = index.table, progress.fields
    for place in range(stages.changed_rows):
        row = np.int64(progress.changed_rows[place])
        for i in range(block_count(table, row)):
            number, block = nth_block(table, row, i)
            if (progress.changed_blocks[row] >> np.uint64(number & 63)) & ONE != ZERO:
                for cell in range(block * LANES, (block + 1) * LANES):
                    table.hops[cell] = table.values[cell]
        progress.changed_blocks[row] = ZERO
    stages.changed_rows = 0


@njit(cache=True, nogil=True)
def _walk_back(index, progress, root, target, steps):
    """Write the steps of a shortest walk from a root to a target, the last first. Return (their number or -1, steps).

    A step is `edge << 1 | against`. Each step back is the latest edge from a predecessor that is nearer to the root, and
    makes the cell what it is: O(length × degree). Where edges cost nothing, such a one may follow behind cells that are no
    nearer: these are searched in breadth, each once.
    """
    program, table, zero = index.program, index.table, progress.fields.zero
    slot = np.int64(table.slot_of[root])
    if slot < 0:
        return np.int64(-1), steps
    best, state = np.int64(0), np.int64(-1)
    for i in range(program.sizes.accepting):
        accepting = np.int64(program.accepting_states[i])
        cell = cell_at(index, target, accepting, slot)
        if cell >= 0 and np.int64(table.values[cell]) > best:
            best, state = np.int64(table.values[cell]), accepting
    if best == 0:
        return np.int64(-1), steps
    # A place of the search is a row of the table, the place behind it, and the step between the two.
    search = np.empty((64, 3), np.int64)
    search[0] = row_at(index, target, state), -1, 0
    progress.fields.searches += 1
    progress.searched[search[0, 0]] = progress.fields.searches
    place, count, end = np.int64(0), np.int64(1), np.int64(-1)
    while end < 0:
        if place == count:
            return np.int64(-1), steps  # never: a live cell has a walk
        vertex, state = node_of(table, search[place, 0])
        value = np.int64(table.values[cell_at(index, vertex, state, slot)])
        edge = in_edges(index, vertex, state, -1)
        while True:
            edge = next_in_edge(index, vertex, state, edge, index.state.now)
            if edge.link < 0:
                place += 1
                break
            step = edge.link & LOW_HALF
            if edge.source_state == 0:
                if edge.source == root and value == behind(progress, step >> 1, zero):
                    end = place
                    last = step
                    break
                continue
            cell = cell_at(index, edge.source, edge.source_state, slot)
            if cell < 0 or table.values[cell] == 0:
                continue
            before = np.int64(table.values[cell])
            if before < value or behind(progress, step >> 1, before) != value:
                continue
            row = row_at(index, edge.source, edge.source_state)
            if progress.searched[row] == progress.fields.searches:
                continue
            progress.searched[row] = progress.fields.searches
            if count == len(search):
                longer = np.empty((2 * count, 3), np.int64)
                longer[:count] = search
                search = longer
            search[count] = row, place, step
            count += 1
            if before > value:
                place = count - 1
                break
    length = np.int64(1)
    place = end
    while search[place, 1] >= 0:
        place = search[place, 1]
        length += 1
    if length > len(steps):
        steps = np.empty(length, np.int64)
    steps[length - 1] = last
    place = end
    for i in range(length - 1):
        steps[length - 2 - i] = search[place, 2]
        place = search[place, 1]
    return length, steps


@njit(cache=True, nogil=True)
def _write_paths(index, progress):
    """Write a shortest walk for each row of the current event, from row NEXT_PATH on. Return a code."""
    fields, output = index.state, index.output
    steps = np.empty(64, np.int64)
    while fields.next_path < fields.out:
        pair = output.pairs[fields.next_path]
        length, steps = _walk_back(index, progress, pair >> 32, pair & LOW_HALF, steps)
        if fields.paths + length > fields.path_capacity or fields.next_path >= fields.path_end_capacity:
            return np.int64(NEED_PATHS)
        for j in range(length):
            output.paths[fields.paths + j] = steps[j]
        fields.paths += length
        output.path_end[fields.next_path] = fields.paths
        fields.next_path += 1
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def _settle(index, progress, time, order, reports):
    """Complete the current change from its stage on: first all cells, then its rows, as events of `time`. Return a code.

    Unless it `reports`, the rows wait for those of the next change.
    """
    fields, stages = index.state, progress.fields
    if stages.stage == FILLING:
        code = fill(index, progress)
        if code != DONE:
            return code
        stages.stage = PUSHING
    if stages.stage == PUSHING:
        code = push(index, progress)
        if code != DONE:
            return code
        if not reports:
            stages.stage, stages.waiting_order, stages.waiting_time = NOTHING, order, time
            return np.int64(DONE)
        stages.stage = RECORDING if fields.quiet else OLD_ROWS
    if stages.stage == OLD_ROWS:
        if fields.events + 2 > fields.event_capacity:
            return np.int64(NEED_OUTPUT)
        code = _write_rows(index, progress, OLD_LENGTHS)
        if code != DONE:
            return code
        end_event(index, time, np.int64(-1), order)
        fields.next_path = fields.out
        stages.stage = NEW_ROWS
    if stages.stage == NEW_ROWS:
        code = _write_rows(index, progress, NEW_LENGTHS)
        if code != DONE:
            return code
        stages.stage = PATHS_OF_ROWS if index.settings.witness else RECORDING
    if stages.stage == PATHS_OF_ROWS:
        code = _write_paths(index, progress)
        if code != DONE:
            return code
        stages.stage = RECORDING
    if not fields.quiet:
        end_event(index, time, np.int64(1), order)
    _record_rows(index, progress)
    stages.stage = NOTHING
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def flush(index, progress):
    """Report the rows that wait for the end of their event. Return a code, after which the next call resumes."""
    stages = progress.fields
    if stages.waiting_order < 0:
        return np.int64(DONE)
    if stages.stage == NOTHING:
        stages.stage = OLD_ROWS
    code = _settle(index, progress, stages.waiting_time, stages.waiting_order, True)
    if code == DONE:
        stages.waiting_order = -1
    return code


# --- time and tuples ------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _cross(index, progress, slide, order):
    """Cross to an absolute slide, boundary by boundary. Return a code, after which the next call resumes."""
    fields, settings = index.state, index.settings
    code = flush(index, progress)
    if code != DONE:
        return code
    last = slide - fields.base
    if last < 0 or last > settings.ceiling:
        last = settings.ceiling
    # While a stage is set, `now` is the boundary that is being reported; before it, nothing leaves unreported.
    while True:
        if progress.fields.stage == NOTHING:
            next_slide = next_loss(index)
            if next_slide > last:
                break
            fields.now = next_slide
            suspect_expired_edges(index, progress, next_slide)
            remove_unsupported(index, progress)
            progress.fields.stage = FILLING
        code = _settle(index, progress, boundary_time(index, fields.now), order, True)
        if code != DONE:
            return code
    cross(index, slide)
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def _begin(index, progress, chunk, i, u, v, forward, inverse):
    fields, stages, edge = index.state, progress.fields, np.int64(chunk.edge[i])
    if stages.waiting_order >= 0 and stages.waiting_order != 2 * progress.first[i] + 1:
        code = flush(index, progress)
        if code != DONE:
            return code
    if not chunk.delete[i]:
        code = begin_insert(index, edge, chunk.timestamp[i], u, v, forward, inverse)
        if fields.phase == INSERTING and not fields.is_new_edge:
            fields.phase = IDLE  # the edge was in the window, and stays longer
        return code
    begin_delete(index, edge, DONE)
    if fields.phase == LOSING:
        if forward >= 0:
            suspect_step(index, progress, edge, u, v, forward)
        if inverse >= 0:
            suspect_step(index, progress, edge, v, u, inverse)
        remove_unsupported(index, progress)
        progress.fields.stage = FILLING
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def _resume(index, progress, chunk, i, count, u, v, forward, inverse):
    fields = index.state
    if fields.phase == INSERTING:
        code = raise_edge(index, progress, np.int64(chunk.edge[i]), u, v, forward, inverse)
        if code != DONE:
            return code
        progress.fields.stage = PUSHING
        fields.phase = LOSING  # the stages of the change remain
    if progress.fields.has_events:
        return _settle(index, progress, fields.time, 2 * progress.first[i] + 1, False)
    return _settle(index, progress, fields.time, 2 * i + 1, True)


@njit(cache=True, nogil=True)
def apply_chunk(index, progress, chunk, count):
    """Apply the tuples of a chunk. Return DONE, or a code for what Python must do before the next call."""
    return apply_each(index, progress, chunk, count, _cross, _begin, _resume)


@njit(cache=True, nogil=True)
def advance(index, progress, time):
    """Advance the stream time. Return a code of `apply_chunk`."""
    return move_clock(index, progress, time, np.int64(0), _cross)


@njit(cache=True, nogil=True)
def load_edges(index, progress, chunk, slides):
    """Enter the edges of a chunk with these relative slides, without expiry and counts. Report the answers as one event."""
    code = enter_each(index, progress, chunk, slides, _enter)
    if code != DONE or progress.fields.stage == NOTHING:
        return code
    return _settle(index, progress, index.state.time, np.int64(1), True)


@njit(cache=True, nogil=True)
def _enter(index, progress, edge, slide, u, v, forward, inverse):
    progress.fields.stage = PUSHING
    if not index.graph.is_linked[edge]:
        code = link(index, edge, u, v, forward, inverse)
        if code != DONE:
            return code
    index.graph.expiry[edge] = slide
    return raise_edge(index, progress, edge, u, v, forward, inverse) if slide > index.state.now else np.int64(DONE)


@njit(cache=True, nogil=True)
def lengths_of(index, progress, pairs, found):
    """Write the lengths or costs of some answers, root << 32 | end; `NO_WALK` for a pair that is not an answer."""
    table = index.table
    for i in range(len(pairs)):
        root, vertex = pairs[i] >> 32, pairs[i] & LOW_HALF
        slot = np.int64(table.slot_of[root])
        cell = np.int64(0)
        if slot >= 0:
            cell = _nearest(index, table.values, vertex, slot >> 6, slot & (LANES - 1))
        found[i] = progress.fields.zero - cell if cell != 0 else NO_WALK


@njit(cache=True, nogil=True)
def walk_back(index, progress, root, target):
    """Return the steps of a witness, the last first, as (their number or -1, steps)."""
    return _walk_back(index, progress, root, target, np.empty(64, np.int64))
