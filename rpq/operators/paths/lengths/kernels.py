"""The kernels of lengths that Python calls, with views of an index, of its progress and of a chunk."""

import numpy as np

from rpq.compiled.arrays.lanes import LANES, differing
from rpq.compiled.cycle_counter import count_ticks
from rpq.compiled.intrinsics import cycles, trailing_zeros
from rpq.compiled.kernel_cache import njit
from rpq.operators.paths.index.apply import begin_insert, link, start_clock
from rpq.operators.paths.index.expiry import cross
from rpq.operators.paths.index.layout import (
    BASE,
    CEILING,
    DONE,
    EVENT_CAPACITY,
    EVENTS,
    HAS_TIME,
    IDLE,
    INSERTING,
    IS_NEW_EDGE,
    LOSING,
    LOW_HALF,
    NEED_OUTPUT,
    NEED_PATHS,
    NEED_TIME,
    NEXT_BOUNDARY,
    NEXT_PATH,
    NOW,
    OUT,
    OUT_CAPACITY,
    OUTCOMES,
    PATH_CAPACITY,
    PATH_END_CAPACITY,
    PATHS,
    PHASE,
    QUIET,
    SLIDE,
    TIME,
    TIMED_TUPLES,
    TUPLE,
    TUPLE_START,
    WITNESS,
)
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
)
from rpq.operators.paths.lengths.changes import (
    fill,
    next_loss,
    push,
    raise_edge,
    remove_unsupported,
    suspect_expired_edges,
    suspect_step,
)
from rpq.operators.paths.lengths.progress import (
    BLOCK,
    CHANGED_ROWS,
    FILLING,
    NEW_ROWS,
    NOTHING,
    OLD_ROWS,
    PATHS_OF_ROWS,
    PLACE,
    PUSHING,
    RECORDING,
    STAGE,
    TOP,
)
from rpq.operators.paths.program import ACCEPTING
from rpq.stream.edges.outcomes import ABSENT, IRRELEVANT, outcome_of

OLD_LENGTHS, NEW_LENGTHS = np.bool_(False), np.bool_(True)
"""Which lengths `_write_rows` writes. Literals would not do: numba compiles a kernel for each literal argument."""

SETTLING = LOSING
"""A value of PHASE: stages of the current change (`progress.STAGE`) remain to be done."""


# --- from changes to rows -------------------------------------------------------------------------------------

@njit(cache=True, nogil=True)
def _nearest(index, cells, vertex, number, lane):
    """Return the largest cell of a pair in all accepting states. `cells` are the present ones, or those last reported."""
    program, found = index.program, np.int64(0)
    for i in range(program.sizes[ACCEPTING]):
        block = block_at(index, vertex, np.int64(program.accepting_states[i]), number)
        if block >= 0:
            found = max(found, np.int64(cells[block * LANES + lane]))
    return found


@njit(cache=True, nogil=True)
def _lanes_of_lowest_state(index, vertex, state, number, lanes):
    """Return those of some lanes in which no lower accepting state differs from the reported cells."""
    program, table = index.program, index.table
    for i in range(program.sizes[ACCEPTING]):
        lower = np.int64(program.accepting_states[i])
        if lower >= state or lanes == ZERO:
            break
        block = block_at(index, vertex, lower, number)
        if block >= 0:
            lanes &= ~differing(table.values, table.hops, block)
    return lanes


@njit(cache=True, nogil=True)
def _write_block(index, progress, vertex, number, lanes, are_new):
    """Append the pairs of some lanes with a length that differs: the new lengths, or the old ones."""
    table, output, fields = index.table, index.output, index.state
    top = progress.fields[TOP]
    while lanes != ZERO:
        lane = trailing_zeros(lanes)
        lanes &= lanes - ONE
        old = _nearest(index, table.hops, vertex, number, lane)
        new = _nearest(index, table.values, vertex, number, lane)
        cell = new if are_new else old
        if old != new and cell != 0:
            output.pairs[fields[OUT]] = np.int64(table.slot_vertex[number * LANES + lane]) << 32 | vertex
            progress.length[fields[OUT]] = top + 1 - cell
            fields[OUT] += 1


@njit(cache=True, nogil=True)
def _write_rows(index, progress, are_new):
    """Append the rows of all pairs that changed since the last report. The call can be repeated after NEED_OUTPUT."""
    table, stages = index.table, progress.fields
    while stages[PLACE] < stages[CHANGED_ROWS]:
        row = np.int64(progress.changed_rows[stages[PLACE]])
        vertex, state = node_of(table, row)
        changed = progress.changed_blocks[row]
        while table.is_target[vertex] and stages[BLOCK] < block_count(table, row):
            number, block = nth_block(table, row, stages[BLOCK])
            if (changed >> np.uint64(number & 63)) & ONE != ZERO:
                if index.state[OUT] + LANES > index.state[OUT_CAPACITY]:
                    return np.int64(NEED_OUTPUT)
                lanes = differing(table.values, table.hops, block)
                if lanes != ZERO and index.program.sizes[ACCEPTING] > 1:
                    lanes = _lanes_of_lowest_state(index, vertex, state, number, lanes)
                _write_block(index, progress, vertex, number, lanes, are_new)
            stages[BLOCK] += 1
        stages[PLACE] += 1
        stages[BLOCK] = 0
    stages[PLACE] = 0
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def _record_rows(index, progress):
    """Record the cells that changed as reported."""
    table, stages = index.table, progress.fields
    for place in range(stages[CHANGED_ROWS]):
        row = np.int64(progress.changed_rows[place])
        for i in range(block_count(table, row)):
            number, block = nth_block(table, row, i)
            if (progress.changed_blocks[row] >> np.uint64(number & 63)) & ONE != ZERO:
                for cell in range(block * LANES, (block + 1) * LANES):
                    table.hops[cell] = table.values[cell]
        progress.changed_blocks[row] = ZERO
    stages[CHANGED_ROWS] = 0


@njit(cache=True, nogil=True)
def _walk_back(index, progress, root, target, steps):
    """Write the steps of a shortest walk from a root to a target, the last first. Return (their number or -1, steps).

    A step is `edge << 1 | against`. Each step back is the latest edge from a predecessor that is one edge nearer to the
    root: O(length × degree).
    """
    program, table = index.program, index.table
    slot = np.int64(table.slot_of[root])
    if slot < 0:
        return np.int64(-1), steps
    best, state = np.int64(0), np.int64(-1)
    for i in range(program.sizes[ACCEPTING]):
        accepting = np.int64(program.accepting_states[i])
        cell = cell_at(index, target, accepting, slot)
        if cell >= 0 and np.int64(table.values[cell]) > best:
            best, state = np.int64(table.values[cell]), accepting
    if best == 0:
        return np.int64(-1), steps
    length = progress.fields[TOP] + 1 - best
    if length > len(steps):
        steps = np.empty(length, np.int64)
    vertex, value = target, best
    for place in range(length):
        edge = in_edges(index, vertex, state, -1)
        while True:
            edge = next_in_edge(index, vertex, state, edge, index.state[NOW])
            if edge.link < 0:
                return np.int64(-1), steps  # never: a live cell has a support
            if edge.source_state == 0:
                if edge.source == root and value == progress.fields[TOP]:
                    break
            else:
                cell = cell_at(index, edge.source, edge.source_state, slot)
                if cell >= 0 and np.int64(table.values[cell]) == value + 1 and value < progress.fields[TOP]:
                    break
        steps[place] = edge.link & LOW_HALF
        vertex, state, value = edge.source, edge.source_state, value + 1
    return length, steps


@njit(cache=True, nogil=True)
def _write_paths(index, progress):
    """Write a shortest walk for each row of the current event, from row NEXT_PATH on. Return a code."""
    fields, output = index.state, index.output
    steps = np.empty(64, np.int64)
    while fields[NEXT_PATH] < fields[OUT]:
        pair = output.pairs[fields[NEXT_PATH]]
        length, steps = _walk_back(index, progress, pair >> 32, pair & LOW_HALF, steps)
        if fields[PATHS] + length > fields[PATH_CAPACITY] or fields[NEXT_PATH] >= fields[PATH_END_CAPACITY]:
            return np.int64(NEED_PATHS)
        for j in range(length):
            output.paths[fields[PATHS] + j] = steps[j]
        fields[PATHS] += length
        output.path_end[fields[NEXT_PATH]] = fields[PATHS]
        fields[NEXT_PATH] += 1
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def _settle(index, progress, time, order):
    """Complete the current change from its stage on: first all cells, then its rows, as events of `time`. Return a code."""
    fields, stages = index.state, progress.fields
    if stages[STAGE] == FILLING:
        code = fill(index, progress)
        if code != DONE:
            return code
        stages[STAGE] = PUSHING
    if stages[STAGE] == PUSHING:
        code = push(index, progress)
        if code != DONE:
            return code
        stages[STAGE] = RECORDING if fields[QUIET] else OLD_ROWS
    if stages[STAGE] == OLD_ROWS:
        if fields[EVENTS] + 2 > fields[EVENT_CAPACITY]:
            return np.int64(NEED_OUTPUT)
        code = _write_rows(index, progress, OLD_LENGTHS)
        if code != DONE:
            return code
        end_event(index, time, np.int64(-1), order)
        fields[NEXT_PATH] = fields[OUT]
        stages[STAGE] = NEW_ROWS
    if stages[STAGE] == NEW_ROWS:
        code = _write_rows(index, progress, NEW_LENGTHS)
        if code != DONE:
            return code
        stages[STAGE] = PATHS_OF_ROWS if index.settings[WITNESS] else RECORDING
    if stages[STAGE] == PATHS_OF_ROWS:
        code = _write_paths(index, progress)
        if code != DONE:
            return code
        stages[STAGE] = RECORDING
    if not fields[QUIET]:
        end_event(index, time, np.int64(1), order)
    _record_rows(index, progress)
    stages[STAGE] = NOTHING
    return np.int64(DONE)


# --- time and tuples ------------------------------------------------------------------------------------------

@njit(cache=True, nogil=True)
def _expire(index, progress, slide, order):
    """Cross to an absolute slide, boundary by boundary. Return a code, after which the next call resumes."""
    fields, settings = index.state, index.settings
    last = slide - fields[BASE]
    if last < 0 or last > settings[CEILING]:
        last = settings[CEILING]
    while True:
        if progress.fields[STAGE] == NOTHING:
            next_slide = next_loss(index)
            if next_slide > last:
                break
            fields[NOW] = next_slide
            suspect_expired_edges(index, progress, next_slide)
            remove_unsupported(index, progress)
            progress.fields[STAGE] = FILLING
        code = _settle(index, progress, (fields[BASE] + fields[NOW]) * settings[SLIDE], order)
        if code != DONE:
            return code
    cross(index, slide)
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def _move_clock(index, progress, time, order):
    """Make `time` the stream time if it is larger. `order` is the place in the chunk of the boundaries that it crosses."""
    fields = index.state
    if not fields[HAS_TIME]:
        start_clock(index, time)
    elif time > fields[TIME]:
        if time >= fields[NEXT_BOUNDARY]:
            code = _expire(index, progress, time // index.settings[SLIDE], order)
            if code != DONE:
                return code
        fields[TIME] = time
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def _begin_delete(index, progress, chunk, i, u, v, forward, inverse):
    fields, graph = index.state, index.graph
    edge = np.int64(chunk.edge[i])
    expiry = np.int64(graph.expiry[edge]) if edge >= 0 else np.int64(0)
    is_static = expiry > index.settings[CEILING]
    window_expiry = np.int64(graph.window_expiry[edge]) if is_static else expiry
    outcome = outcome_of(True, window_expiry > fields[NOW], False)
    fields[OUTCOMES + outcome] += 1
    if is_static:
        graph.window_expiry[edge] = 0
    if is_static or outcome == ABSENT:
        return
    graph.expiry[edge] = 0
    if forward >= 0:
        suspect_step(index, progress, u, v, forward)
    if inverse >= 0:
        suspect_step(index, progress, v, u, inverse)
    remove_unsupported(index, progress)
    progress.fields[STAGE] = FILLING
    fields[PHASE] = SETTLING


@njit(cache=True, nogil=True)
def apply_chunk(index, progress, chunk, count):
    """Apply the tuples of a chunk from TUPLE on. Return DONE, or a code for what Python must do before the next call."""
    fields, program = index.state, index.program
    while fields[TUPLE] < count:
        i = fields[TUPLE]
        label = np.int64(chunk.label[i])
        forward, inverse = np.int64(program.forward[label]), np.int64(program.inverse[label])
        u, v = np.int64(chunk.source[i]), np.int64(chunk.target[i])
        if fields[PHASE] == IDLE:
            relevant = forward >= 0 or inverse >= 0
            if relevant:
                fields[TUPLE_START] = cycles()
                if fields[TUPLE_START] > index.deadline[0]:
                    return np.int64(NEED_TIME)
            code = _move_clock(index, progress, chunk.timestamp[i], 2 * i)
            if code != DONE:
                return code
            if not relevant:
                fields[OUTCOMES + IRRELEVANT] += 1
                fields[TUPLE] += 1
                continue
            if chunk.delete[i]:
                _begin_delete(index, progress, chunk, i, u, v, forward, inverse)
            else:
                code = begin_insert(index, chunk, i, u, v, forward, inverse)
                if code != DONE:
                    return code
                if fields[PHASE] == INSERTING and not fields[IS_NEW_EDGE]:
                    fields[PHASE] = IDLE  # the edge was in the window, and stays longer
        if fields[PHASE] == INSERTING:
            code = raise_edge(index, progress, u, v, forward, inverse)
            if code != DONE:
                return code
            progress.fields[STAGE] = PUSHING
            fields[PHASE] = SETTLING
        if fields[PHASE] == SETTLING:
            code = _settle(index, progress, fields[TIME], 2 * i + 1)
            if code != DONE:
                return code
            fields[PHASE] = IDLE
        ticks = cycles() - fields[TUPLE_START]
        count_ticks(index.latency, ticks)
        if i < fields[TIMED_TUPLES]:
            index.ticks[i] += ticks
        fields[TUPLE] += 1
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def load_edges(index, progress, chunk, slides):
    """Enter the edges of a chunk with these relative slides, without expiry and counts. Report the answers as one event."""
    fields, program, graph = index.state, index.program, index.graph
    while fields[TUPLE] < len(slides):
        i = fields[TUPLE]
        edge = np.int64(chunk.edge[i])
        forward, inverse = np.int64(program.forward[chunk.label[i]]), np.int64(program.inverse[chunk.label[i]])
        if forward >= 0 or inverse >= 0:
            u, v = np.int64(chunk.source[i]), np.int64(chunk.target[i])
            if not graph.is_linked[edge]:
                code = link(index, edge, u, v, forward, inverse)
                if code != DONE:
                    return code
            graph.expiry[edge] = slides[i]
            if slides[i] > fields[NOW]:
                code = raise_edge(index, progress, u, v, forward, inverse)
                if code != DONE:
                    return code
            progress.fields[STAGE] = PUSHING
        fields[TUPLE] += 1
    if progress.fields[STAGE] == NOTHING:
        return np.int64(DONE)
    return _settle(index, progress, fields[TIME], np.int64(1))


@njit(cache=True, nogil=True)
def advance(index, progress, time):
    """Advance the stream time. Return a code of `apply_chunk`."""
    return _move_clock(index, progress, time, np.int64(0))


@njit(cache=True, nogil=True)
def lengths_of(index, progress, pairs, found):
    """Write the lengths of some answers, root << 32 | end; 0 for a pair that is not an answer."""
    table = index.table
    for i in range(len(pairs)):
        root, vertex = pairs[i] >> 32, pairs[i] & LOW_HALF
        slot = np.int64(table.slot_of[root])
        cell = np.int64(0)
        if slot >= 0:
            cell = _nearest(index, table.values, vertex, slot >> 6, slot & (LANES - 1))
        found[i] = progress.fields[TOP] + 1 - cell if cell != 0 else 0


@njit(cache=True, nogil=True)
def walk_back(index, progress, root, target):
    """Return the steps of a witness, the last first, as (their number or -1, steps)."""
    return _walk_back(index, progress, root, target, np.empty(64, np.int64))
