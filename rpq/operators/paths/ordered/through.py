"""The paths through an edge that comes late or goes, for many roots at once, where neither a gap nor a span bounds them.

What a late insert changes is what the paths through it bring: its roots are found by a scan back, and from the edge
on the paths are followed forward over the entries after it, a vector of the roots for each product node. Those cells
can change by a delete whose value is that of a path through the edge: they are *suspects*. Their roots are followed
anew over the whole window, without the edge.
"""

import numpy as np

from rpq.compiled.kernel_cache import njit
from rpq.operators.paths.index.layout import BASE, CEILING, DONE, NOW
from rpq.operators.paths.index.rows import cell_at
from rpq.operators.paths.ordered.cells import raise_cell
from rpq.operators.paths.ordered.scans import scan_back, width_of_root
from rpq.operators.paths.ordered.timeline import (
    COUNT,
    EARLIEST,
    FIRST,
    HITS,
    ROOM,
    SCAN,
    SKIPPED,
    STRICT,
    entries_before,
    entries_up_to,
)
from rpq.operators.paths.program import STATES

NO_NODE = -1


@njit(cache=True, nogil=True)
def _longer(array):
    return np.concatenate((array, np.empty_like(array)))


@njit(cache=True, nogil=True, forceinline=True)
def _row_of(timeline, scan, node, rows, nodes, count):
    """Return the row of a node in `rows`, made if there is none, and their number; there is room for one."""
    if timeline.seen[node] == scan:
        return timeline.width[node], count
    timeline.seen[node] = scan
    timeline.time_at[node] = EARLIEST
    timeline.width[node] = count
    timeline.width_before[node] = -1
    nodes[count] = node
    rows[count, :] = 0
    return count, count + 1


@njit(cache=True, nogil=True)
def _keep_before(timeline, node, time, rows, nodes, count):
    """Keep what the row of a node was before the moment `time`, which is about to change it; return the number of rows."""
    if timeline.time_at[node] == time:
        return count
    timeline.time_at[node] = time
    before = timeline.width_before[node]
    if before < 0:
        before = count
        nodes[before] = NO_NODE
        timeline.width_before[node] = before
        count += 1
    rows[before, :] = rows[timeline.width[node], :]
    return count


@njit(cache=True, nogil=True)
def _raise_vector(rows, target, source, limit):
    """Raise a vector by another one, with values limited; return whether it grew."""
    most = limit[0]
    lower, upper = rows[source], rows[target]
    changed = most ^ most
    for column in range(len(upper)):
        value = lower[column]
        value = min(most, value)
        old = upper[column]
        value = max(old, value)
        changed |= value ^ old
        upper[column] = value
    return changed != 0


@njit(cache=True, nogil=True, forceinline=True)
def _follow(index, timeline, scan, u, v, transition_class, time, limit, keeps, stamp, rows, nodes, count):
    """Take an edge from u to v: (whether a vector grew, the number of rows). There is room for two rows a transition."""
    program = index.program
    states = program.sizes[STATES]
    grown = False
    for step in range(program.step_first[transition_class], program.step_first[transition_class + 1]):
        source = u * states + program.step_source[step]
        if timeline.seen[source] != scan:
            continue
        carried = timeline.width[source]
        if timeline.time_at[source] == time:
            carried = timeline.width_before[source]
        target = v * states + program.step_target[step]
        row, count = _row_of(timeline, scan, target, rows, nodes, count)
        if keeps:
            count = _keep_before(timeline, target, time, rows, nodes, count)
        if _raise_vector(rows, row, carried, limit):
            grown = True
    state = np.int64(program.start_target[transition_class])
    if state >= 0 and timeline.best_scan[u] == stamp:
        target = v * states + state
        row, count = _row_of(timeline, scan, target, rows, nodes, count)
        if keeps:
            count = _keep_before(timeline, target, time, rows, nodes, count)
        if limit[0] > rows[row, timeline.best[u]]:
            rows[row, timeline.best[u]] = limit[0]
            grown = True
    return grown, count


@njit(cache=True, nogil=True)
def _follow_all(index, timeline, place, stamp, rows, nodes, count):
    """Take the entries from a place on, in the order of time; return the number of rows, -1 where there is no room.

    Edges out of the roots that `stamp` marks in `best_scan` begin paths; -1 for none.
    """
    program, fields = index.program, timeline.fields
    strict, scan, entries = fields[STRICT] != 0, fields[SCAN], fields[COUNT]
    base, now, ceiling = index.state[BASE], index.state[NOW], index.settings[CEILING]
    most = 4 * program.sizes[STATES]
    limit = np.empty(1, rows.dtype)
    while place < entries:
        time = timeline.time[place]
        end = place + 1
        while end < entries and timeline.time[end] == time:
            end += 1
        news = True
        while news:
            news = False
            for one in range(place, end):
                slide = timeline.slide[one] - base
                if slide <= now:
                    continue
                if count + most > len(nodes):
                    return np.int64(-1)
                label = timeline.label[one]
                forward, inverse = np.int64(program.forward[label]), np.int64(program.inverse[label])
                u, v = np.int64(timeline.source[one]), np.int64(timeline.target[one])
                keeps = strict and (end > place + 1 or u == v or (forward >= 0 and inverse >= 0))
                limit[0] = min(slide, ceiling)
                if forward >= 0:
                    grown, count = _follow(
                        index, timeline, scan, u, v, forward, time, limit, keeps, stamp, rows, nodes, count
                    )
                    news = news or grown
                if inverse >= 0:
                    grown, count = _follow(
                        index, timeline, scan, v, u, inverse, time, limit, keeps, stamp, rows, nodes, count
                    )
                    news = news or grown
            if strict:
                break
        place = end
    return count


@njit(cache=True, nogil=True)
def _columns(timeline, stamp, found, count):
    """Give each root among those found a column, noted in `best`; return the roots by column."""
    roots = np.empty(max(np.int64(1), count), np.int64)
    columns = np.int64(0)
    for i in range(count):
        root = found[i, 1]
        if timeline.best_scan[root] != stamp:
            timeline.best_scan[root] = stamp
            timeline.best[root] = columns
            roots[columns] = root
            columns += 1
    return roots[:columns]


@njit(cache=True, nogil=True)
def _noted(found, count, node, root, value):
    if count >= len(found):
        found = _longer(found)
    found[count, 0] = node
    found[count, 1] = root
    found[count, 2] = value
    return found, count + 1


@njit(cache=True, nogil=True)
def paths_through(index, timeline, place, zero, is_going):
    """Follow the paths through an entry: (roots, nodes, vectors).

    A row of `vectors`, which have the type of `zero`, has for each of the roots the largest relative slide up to which a
    path of it through the entry to the node lasts, 0 if there is none; rows without a node are scratch. Where the edge
    `is_going`, roots are left out that have another path to where it leads which arrives no later and lasts as long: nothing
    of theirs changes.
    """
    program, fields = index.program, timeline.fields
    states = program.sizes[STATES]
    stamp = fields[SCAN] + 1
    time, label = timeline.time[place], timeline.label[place]
    slide = min(timeline.slide[place] - index.state[BASE], index.settings[CEILING])
    found, count = np.empty((64, 3), np.int64), np.int64(0)
    for against in range(2):
        transition_class = np.int64(program.inverse[label]) if against else np.int64(program.forward[label])
        if transition_class < 0:
            continue
        u, v = np.int64(timeline.source[place]), np.int64(timeline.target[place])
        if against:
            u, v = v, u
        state = np.int64(program.start_target[transition_class])
        if state >= 0 and index.table.is_root[u]:
            found, count = _noted(found, count, v * states + state, u, slide)
        for step in range(program.step_first[transition_class], program.step_first[transition_class + 1]):
            scan_back(index, timeline, u, np.int64(program.step_source[step]), time, slide, False)
            node = v * states + program.step_target[step]
            for i in range(fields[HITS]):
                root = timeline.hits[i]
                found, count = _noted(found, count, node, root, width_of_root(index, timeline, root))
    if is_going:
        count = _without_others(index, timeline, place, found, count)
    roots = _columns(timeline, stamp, found, count)
    first = entries_up_to(timeline, time) if fields[STRICT] != 0 else entries_before(timeline, time)
    room = max(fields[ROOM], 64 + 4 * states)
    while True:
        fields[SCAN] += 1
        rows, nodes, made = np.empty((room, len(roots)), zero.dtype), np.empty(room, np.int64), np.int64(0)
        for i in range(count):
            row, made = _row_of(timeline, fields[SCAN], found[i, 0], rows, nodes, made)
            column = timeline.best[found[i, 1]]
            rows[row, column] = max(np.int64(rows[row, column]), found[i, 2])
        if len(roots) > 0:
            made = _follow_all(index, timeline, first, -1, rows, nodes, made)
        if made >= 0:
            return roots, nodes[:made], rows[:made]
        room *= 2
        fields[ROOM] = room


@njit(cache=True, nogil=True)
def _without_others(index, timeline, place, found, count):
    """Leave out what another path gives as well that arrives at the node up to the time of an entry; return the rest."""
    fields = timeline.fields
    states = index.program.sizes[STATES]
    time = timeline.time[place] + (1 if fields[STRICT] != 0 else 0)
    kept, first = np.int64(0), np.int64(0)
    fields[SKIPPED] = place
    while first < count:
        node = found[first, 0]
        scan_back(index, timeline, node // states, node % states, time, index.settings[CEILING], False)
        last = first
        while last < count and found[last, 0] == node:
            root, value = found[last, 1], found[last, 2]
            if timeline.seen[root * states] != fields[SCAN] or width_of_root(index, timeline, root) < value:
                found[kept, :] = found[last, :]
                kept += 1
            last += 1
        first = last
    fields[SKIPPED] = -1
    return kept


@njit(cache=True, nogil=True)
def raise_vectors(index, timeline, roots, nodes, rows, done):
    """Raise the cells of the table to the values of vectors; codes as `apply_chunk`, `done` (int64[1]) counts nodes."""
    states = index.program.sizes[STATES]
    while done[0] < len(nodes):
        node = nodes[done[0]]
        if node != NO_NODE:
            vertex, state = node // states, node % states
            for column in range(len(roots)):
                value = np.int64(rows[done[0], column])
                if value > index.state[NOW]:
                    code = raise_cell(index, timeline, roots[column], vertex, state, value, False)
                    if code != DONE:
                        return code
        done[0] += 1
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def suspects(index, roots, nodes, rows, columns):
    """Note in `columns` (uint8) the roots of cells with the value of their vector; return (row, column) of each cell."""
    table, states = index.table, index.program.sizes[STATES]
    found, count = np.empty((64, 2), np.int64), np.int64(0)
    for row in range(len(nodes)):
        if nodes[row] == NO_NODE:
            continue
        vertex, state = nodes[row] // states, nodes[row] % states
        for column in range(len(roots)):
            value = np.int64(rows[row, column])
            if value <= index.state[NOW]:
                continue
            cell = cell_at(index, vertex, state, np.int64(table.slot_of[roots[column]]))
            if np.int64(table.values[cell]) == value:
                columns[column] = 1
                if count >= len(found):
                    found = _longer(found)
                found[count, 0] = row
                found[count, 1] = column
                count += 1
    return found[:count]


@njit(cache=True, nogil=True)
def renew_cells(index, timeline, roots, nodes, found, columns, zero):
    """Compute suspects again, whose roots are flagged in `columns`; return the accepting pairs that died."""
    program, table, fields = index.program, index.table, timeline.fields
    states, now = program.sizes[STATES], index.state[NOW]
    fields[SCAN] += 1
    stamp = fields[SCAN]
    width = np.int64(0)
    for column in range(len(roots)):
        if columns[column]:
            timeline.best_scan[roots[column]] = stamp
            timeline.best[roots[column]] = width
            width += 1
    room = max(fields[ROOM], 64 + 4 * states)
    while True:
        rows = np.empty((room, width), zero.dtype)
        if _follow_all(index, timeline, fields[FIRST], stamp, rows, np.empty(room, np.int64), np.int64(0)) >= 0:
            break
        room *= 2
        fields[ROOM] = room
        fields[SCAN] += 1
    lost, count = np.empty(len(found), np.int64), np.int64(0)
    for i in range(len(found)):
        node, root = nodes[found[i, 0]], roots[found[i, 1]]
        vertex, state = node // states, node % states
        value = np.int64(0)
        if timeline.seen[node] == fields[SCAN]:
            value = np.int64(rows[timeline.width[node], timeline.best[root]])
        cell = cell_at(index, vertex, state, np.int64(table.slot_of[root]))
        table.values[cell] = value
        if value > now:
            row = index.table.row_of[node]
            table.low[row] = min(table.low[row], value)
        elif program.accepting[state]:
            lost[count] = root << 32 | vertex
            count += 1
    return lost[:count]
