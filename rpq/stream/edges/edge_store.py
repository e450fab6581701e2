"""The memory layout of the snapshot graph, and the kernels over it.

An edge is (source, label, target); a hash table (`rpq/compiled/arrays/hashing.py`) maps it to a dense id. Labels that are
read over the same windows form a *group* with one horizon: an edge is there by its time if its timestamp is larger. It may
also be there because a count window holds it (`CountedWindows`), and an edge that is *static* keeps its place without being
in any window.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from rpq.compiled.arrays.hashing import clear, first_candidate, home_of, id_at, next_candidate, put, put_new
from rpq.compiled.arrays.lengthening import lengthen_fields
from rpq.compiled.intrinsics import prefetch_at, wraps_around
from rpq.compiled.kernel_cache import njit
from rpq.compiled.views import Record, int64, view
from rpq.stream.edges.outcomes import (
    DELETED,
    INSERTED,
    IRRELEVANT,
    LATE,
    NEVER,
    NOT_HELD,
    PASSED_BY,
    REFRESHED,
    leaving_slide,
    outcome_of,
    outcome_without_edge,
    stronger,
)
from rpq.stream.window import CountWindow

LONG_AGO = np.iinfo(np.int64).min
TIMELESS = int(LONG_AGO) + 1
"""The timestamp, in the graph, of static edges that are inserted like those of an unbounded window."""
NEVER_BY_TIME = NEVER - 1
"""The horizon of labels that count windows alone read: no edge is there by its time."""


class EdgeCounts(Record):
    """The ids given out, the stream time, and the lengths of the arrays."""

    _fields_ = (
        ("count", int64),  # ids given out so far (high water)
        ("free", int64),  # ids that are free
        ("time", int64),  # stream time, if HAS_TIME
        ("has_time", int64),
        ("next_move", int64),  # stream time at which a horizon may move
        ("new_edges", int64),  # edges entered since the last collection
        ("table", int64),  # entries of the hash table
        ("vertices", int64),  # entries of `degree`
        ("windows", int64),
        ("groups", int64),
        ("free_edge", int64),  # the next free id + 1, 0 for none; `Edges.target` leads to the others
    )


STATIC = 1 << 30
HOLDERS = STATIC - 1
"""The bits of `Edges.holders` that count the windows which hold the edge; the bit above them is set where it is static."""


class Edges(NamedTuple):
    """The arrays of the snapshot graph."""

    source: np.ndarray  # int32 an edge, -1 free
    target: np.ndarray  # int32 an edge; of a free id the next free one + 1, 0 for none
    label: np.ndarray  # int32 an edge
    timestamp: np.ndarray  # int64 an edge, the smallest int64 once deleted
    holders: np.ndarray  # int32 an edge: what holds it but its time, see `HOLDERS`
    table: np.ndarray  # int32: from hashes to edges, see `rpq/compiled/arrays/hashing.py`
    degree: np.ndarray  # int32 a vertex: edges that name it
    label_degree: np.ndarray  # int32 a label: edges that have it
    fields: EdgeCounts


class Horizons(NamedTuple):
    """The bounds by which edges are still in some window."""

    size: np.ndarray  # int64 a window; BY_COUNT and UNBOUNDED for those that are none of time
    slide: np.ndarray  # int64 a window
    member: np.ndarray  # uint8, groups × windows: the group's labels are read over the window
    is_read: np.ndarray  # uint8 a label: it is read over any window
    horizon: np.ndarray  # int64 a group: edges with a timestamp up to here have left every window of time
    group: np.ndarray  # int32 a label
    lost: np.ndarray  # int64 a label: largest timestamp of a lost insert, the smallest int64 for none
    passed_by: np.ndarray  # int64 a label of the merged stream: the same of inserts that were passed by, in any stream


BY_COUNT, UNBOUNDED = 0, -1


@njit(cache=True, nogil=True)
def move_horizons(edges, horizons):
    """Set the horizons and the time at which they may move next, without overflow."""
    fields = edges.fields
    time, windows, groups = fields.time, fields.windows, fields.groups
    following = np.int64(NEVER)
    for group in range(groups):
        horizons.horizon[group] = NEVER
    for window in range(windows):
        size, slide = horizons.size[window], horizons.slide[window]
        if size in (BY_COUNT, UNBOUNDED):
            bound = np.int64(NEVER_BY_TIME) if size == BY_COUNT else np.int64(LONG_AGO)
            for group in range(groups):
                if horizons.member[group * windows + window]:
                    horizons.horizon[group] = min(horizons.horizon[group], bound)
            continue
        into = time % slide
        boundary = time - into if time >= LONG_AGO + into else np.int64(LONG_AGO)
        bound = boundary - size if boundary >= LONG_AGO + size else np.int64(LONG_AGO)
        for group in range(groups):
            if horizons.member[group * windows + window]:
                horizons.horizon[group] = min(horizons.horizon[group], bound)
        following = min(following, time + (slide - into) if time <= NEVER - (slide - into) else np.int64(NEVER))
    fields.next_move = following


@njit(cache=True, nogil=True)
def advance(edges, horizons, time):
    fields = edges.fields
    if not fields.has_time or time > fields.time:
        fields.time = time
        if not fields.has_time or time >= fields.next_move:
            fields.has_time = 1
            move_horizons(edges, horizons)


@wraps_around
@njit(cache=True, nogil=True, forceinline=True)
def key_hash(u, label, v):
    h = np.uint64(u) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(v) * np.uint64(0xC2B2AE3D27D4EB4F)
    h = (h ^ (h >> np.uint64(29))) + np.uint64(label) * np.uint64(0x165667B19E3779F9)
    h *= np.uint64(0xBF58476D1CE4E5B9)
    return h ^ (h >> np.uint64(32))


@njit(cache=True, nogil=True, forceinline=True)
def probe(edges, h, u, label, v):
    """Return the place of an edge in the table; a negative one, for `put`, if it is not there."""
    entries = edges.fields.table
    place = first_candidate(edges.table, entries, h)
    while place >= 0:
        edge = id_at(edges.table, place)
        if edges.source[edge] == u and edges.target[edge] == v and edges.label[edge] == label:
            break
        place = next_candidate(edges.table, entries, place)
    return place


@njit(cache=True, nogil=True, forceinline=True)
def prefetch_edge_of(edges, u, label, v):
    """Ask for the memory that finding or entering an edge will need."""
    prefetch_at(edges.table, home_of(edges.fields.table, key_hash(u, label, v)))
    prefetch_at(edges.degree, u)
    prefetch_at(edges.degree, v)


@njit(cache=True, nogil=True, forceinline=True)
def in_window(edges, horizon, edge):
    """Return whether any window holds an edge, by its time or as one of the last inserts."""
    return edges.timestamp[edge] > horizon or edges.holders[edge] & HOLDERS != 0


@njit(cache=True, nogil=True)
def insert(edges, horizons, u, v, label, time):
    """Enter an edge or raise its timestamp. Return its id, and whether it was in a window."""
    fields = edges.fields
    horizon = horizons.horizon[horizons.group[label]]
    h = key_hash(u, label, v)
    place = probe(edges, h, u, label, v)
    if place >= 0:
        edge = id_at(edges.table, place)
        before = edges.timestamp[edge]
        present = in_window(edges, horizon, edge)
        if not present:
            horizons.lost[label] = max(horizons.lost[label], before)
        edges.timestamp[edge] = max(before, time) if present else time
        return edge, present
    if fields.free > 0:
        edge = fields.free_edge - 1
        fields.free_edge = edges.target[edge]
        fields.free -= 1
    else:
        edge = fields.count
        fields.count += 1
    edges.source[edge] = u
    edges.target[edge] = v
    edges.label[edge] = label
    edges.timestamp[edge] = time
    edges.holders[edge] = 0
    put(edges.table, place, edge)
    edges.degree[u] += 1
    edges.degree[v] += 1
    edges.label_degree[label] += 1
    fields.new_edges += 1
    return edge, False


@njit(cache=True, nogil=True)
def fill_table(edges):
    entries = edges.fields.table
    clear(edges.table, entries)
    for edge in range(edges.fields.count):
        if edges.source[edge] >= 0:
            h = key_hash(np.int64(edges.source[edge]), np.int64(edges.label[edge]), np.int64(edges.target[edge]))
            put_new(edges.table, entries, h, edge)


# --- count windows: their edges, and evictions --------------------------------------------------------------
#
# A count window numbers the inserts that it meets, and holds an edge until the slide, in numbers, at which its last insert
# leaves. Its edges are a list in the order of their last inserts, which is the order in which they leave: a refresh moves an
# edge to the end, an eviction takes from the front, both O(1). A list costs sixteen bytes an edge that the graph has room
# for. Queries that number the same inserts share a window here.

COUNTED = 0  # the one field of `CountArrays.fields`: the number of windows


class CountArrays(NamedTuple):
    """The arrays of all count windows; the entry of an edge and a window is at edge · windows + window."""

    size: np.ndarray  # int64 a window: inserts
    step: np.ndarray  # int64 a window
    number: np.ndarray  # int64 a window: the inserts that it has numbered
    first: np.ndarray  # int32 a window: the edge that leaves first, -1 none
    last: np.ndarray  # int32 a window
    leaves: np.ndarray  # int64 an edge and window: the slide at which it leaves, or NOT_HELD
    previous: np.ndarray  # int32 an edge and window: the edge before it, -1 none
    next: np.ndarray  # int32 an edge and window
    group_first: np.ndarray  # int32 a group of labels + 1: the windows over which they are read, in `group_window`
    group_window: np.ndarray  # int32
    fields: np.ndarray  # int64[1]


class CountedWindows:
    """The count windows of a graph, by keys."""

    def __init__(self) -> None:
        self.keys: list[Hashable] = []
        self.arrays = CountArrays(
            size=np.zeros(0, np.int64),
            step=np.zeros(0, np.int64),
            number=np.zeros(0, np.int64),
            first=np.zeros(0, np.int32),
            last=np.zeros(0, np.int32),
            leaves=np.zeros(0, np.int64),
            previous=np.zeros(0, np.int32),
            next=np.zeros(0, np.int32),
            group_first=np.zeros(1, np.int32),
            group_window=np.zeros(0, np.int32),
            fields=np.zeros(1, np.int64),
        )

    @property
    def arrays(self) -> CountArrays:
        """The arrays that the kernels work on; assigning them replaces all."""
        return self._arrays

    @arrays.setter
    def arrays(self, arrays: CountArrays) -> None:
        self._arrays = arrays
        self.view: Any = view(arrays)

    @property
    def nbytes(self) -> int:
        """The number of bytes held."""
        return sum(array.nbytes for array in self.arrays)

    def settle(self, windows: dict[Hashable, CountWindow], edges: int, holders: np.ndarray) -> None:
        """Set the windows. New windows have numbered no insert, and edges of removed windows are released.

        `holders` is `Edges.holders` of the graph, which has room for so many `edges`. O(edges · windows) where windows came
        or went.
        """
        keys = list(windows)
        if keys == self.keys:
            return
        old, width = self.arrays, len(self.keys)
        # A column behind the last stands for a window that is new.
        columns = [self.keys.index(key) if key in self.keys else width for key in keys]

        def with_new(array: np.ndarray, fill: int) -> np.ndarray:
            return np.append(array, np.array(fill, array.dtype))[columns]

        def rearrange(array: np.ndarray, fill: int) -> np.ndarray:
            table = array.reshape(edges, width)
            table = np.concatenate([table, np.full((edges, 1), fill, array.dtype)], axis=1)
            return np.ascontiguousarray(table[:, columns]).ravel()

        leaves = rearrange(old.leaves, NOT_HELD)
        holders &= ~np.int32(HOLDERS)
        holders += (leaves.reshape(edges, len(keys)) != NOT_HELD).sum(axis=1, dtype=np.int32)
        self.keys = keys
        self.arrays = old._replace(
            size=np.array([window.size for window in windows.values()], np.int64),
            step=np.array([window.step for window in windows.values()], np.int64),
            number=with_new(old.number, 0),
            first=with_new(old.first, -1),
            last=with_new(old.last, -1),
            leaves=leaves,
            previous=rearrange(old.previous, -1),
            next=rearrange(old.next, -1),
            fields=np.array([len(keys)], np.int64),
        )

    def set_groups(self, groups: Sequence[Sequence[int]]) -> None:
        """Set the windows `groups[i]` over which the labels of group i are read."""
        first = np.zeros(len(groups) + 1, np.int32)
        np.cumsum([len(windows) for windows in groups], out=first[1:])
        windows = np.array([window for some in groups for window in some], np.int32)
        self.arrays = self.arrays._replace(group_first=first, group_window=windows)

    def make_room(self, more: int) -> None:
        """Make room for more edges."""
        count, arrays = more * len(self.keys), self.arrays
        if count:
            self.arrays = lengthen_fields(arrays, count, leaves=NOT_HELD, previous=-1, next=-1)

    def number_of(self, key: Hashable) -> int:
        """Return the number of inserts that a window has numbered."""
        return int(self.arrays.number[self.keys.index(key)])

    def slides(self, key: Hashable, edges: np.ndarray) -> np.ndarray:
        """Return the slides at which edges leave a window, NOT_HELD for those that it does not hold."""
        found: np.ndarray = self.arrays.leaves[edges * len(self.keys) + self.keys.index(key)]
        return found

    def holds(self, window: int, edge: int) -> bool:
        """Return whether the window with a number holds an edge."""
        return self.arrays.leaves.item(edge * len(self.keys) + window) != NOT_HELD

    def fill(self, key: Hashable, number: int, edges: np.ndarray, slides: np.ndarray, holders: np.ndarray) -> None:
        """Fill an empty window with its number of inserts and the edges that leave at these slides."""
        window = self.keys.index(key)
        self.arrays.number[window] = number
        order = np.argsort(slides, kind="stable")
        _fill(self.view, window, edges[order].astype(np.int64), slides[order], holders)

    def _check(self, holders: np.ndarray, live: np.ndarray) -> None:
        """Assert that lists, slides and edges agree; `live` are the edges that have an id."""
        arrays, windows = self.arrays, len(self.keys)
        leaves = arrays.leaves.reshape(-1, windows) if windows else np.zeros((len(holders), 0), np.int64)
        assert len(leaves) == len(holders), "the count windows have room for other edges than the graph"
        assert ((leaves != NOT_HELD).sum(axis=1) == holders & HOLDERS).all(), "an edge is held by more windows, or by fewer"
        for window in range(windows):
            listed, at, before = [], int(arrays.first[window]), -1
            while at >= 0:
                assert arrays.previous[at * windows + window] == before, f"edge {at} comes after {before}"
                listed.append(at)
                before, at = at, int(arrays.next[at * windows + window])
            assert arrays.last[window] == before, "the list of a count window ends elsewhere"
            mine = leaves[:, window]
            assert sorted(listed) == np.flatnonzero(mine != NOT_HELD).tolist(), "a count window lists other edges"
            assert (np.diff(mine[listed]) >= 0).all(), "a count window lists its edges in another order"
            assert set(listed) <= set(live.tolist()), "a count window holds an edge that has no id"
            bound = int(arrays.number[window]) // int(arrays.step[window])
            assert all(mine[listed] > bound), "a count window holds an edge that has left"
            assert len(listed) < arrays.size[window] + arrays.step[window], "a count window holds too many edges"


@njit(cache=True, nogil=True)
def _append(counted, window, edge):
    windows = counted.fields[COUNTED]
    last = np.int64(counted.last[window])
    counted.previous[edge * windows + window] = last
    counted.next[edge * windows + window] = -1
    if last >= 0:
        counted.next[last * windows + window] = edge
    else:
        counted.first[window] = edge
    counted.last[window] = edge


@njit(cache=True, nogil=True)
def _unlink_edge(counted, window, edge):
    windows = counted.fields[COUNTED]
    before = np.int64(counted.previous[edge * windows + window])
    after = np.int64(counted.next[edge * windows + window])
    if before >= 0:
        counted.next[before * windows + window] = after
    else:
        counted.first[window] = after
    if after >= 0:
        counted.previous[after * windows + window] = before
    else:
        counted.last[window] = before


@njit(cache=True, nogil=True)
def _fill(counted, window, edges, slides, holders):
    for i in range(len(edges)):
        counted.leaves[edges[i] * counted.fields[COUNTED] + window] = slides[i]
        holders[edges[i]] += 1
        _append(counted, window, edges[i])


@njit(cache=True, nogil=True)
def is_counted(counted, group):
    """Return whether the labels of a group are read over any count window."""
    return counted.fields[COUNTED] != 0 and counted.group_first[group] != counted.group_first[group + 1]


@njit(cache=True, nogil=True)
def number_insert(edges, horizons, counted, group, edge):
    """Assign an insert its number in each window that reads it, and evict the edges that are then too old."""
    windows = counted.fields[COUNTED]
    for place in range(np.int64(counted.group_first[group]), np.int64(counted.group_first[group + 1])):
        window = np.int64(counted.group_window[place])
        counted.number[window] += 1
        number, step = counted.number[window], counted.step[window]
        if counted.leaves[edge * windows + window] == NOT_HELD:
            edges.holders[edge] += 1
        else:
            _unlink_edge(counted, window, edge)
        _append(counted, window, edge)
        counted.leaves[edge * windows + window] = leaving_slide(number, counted.size[window], step)
        while True:
            oldest = np.int64(counted.first[window])
            if counted.leaves[oldest * windows + window] > number // step:
                break
            _unlink_edge(counted, window, oldest)
            counted.leaves[oldest * windows + window] = NOT_HELD
            edges.holders[oldest] -= 1
            label = np.int64(edges.label[oldest])
            if not in_window(edges, horizons.horizon[horizons.group[label]], oldest):
                horizons.lost[label] = max(horizons.lost[label], edges.timestamp[oldest])


@njit(cache=True, nogil=True)
def delete_from_windows(edges, counted, group, edge):
    """Remove an edge from all count windows."""
    windows = counted.fields[COUNTED]
    for place in range(np.int64(counted.group_first[group]), np.int64(counted.group_first[group + 1])):
        window = np.int64(counted.group_window[place])
        if counted.leaves[edge * windows + window] != NOT_HELD:
            _unlink_edge(counted, window, edge)
            counted.leaves[edge * windows + window] = NOT_HELD
            edges.holders[edge] -= 1


# --- kernels that apply tuples to the graph -----------------------------------------------------------------

AHEAD = 12
"""Tuples ahead for which memory is asked."""
CACHED_ENTRIES = 1 << 17
"""Entries of a table that is in a cache anyway, where asking ahead only costs."""


@njit(cache=True, nogil=True, forceinline=True)
def _resolve_tuple(edges, horizons, counted, chunk, i):
    """Apply a tuple, to whose time the graph has moved."""
    time = chunk.timestamp[i]
    label = np.int64(chunk.label[i])
    group = np.int64(horizons.group[label])
    horizon = horizons.horizon[group]
    chunk.edge[i] = -1
    if horizon == NEVER:
        result = np.int64(IRRELEVANT)
        if not chunk.delete[i]:
            horizons.lost[label] = max(horizons.lost[label], time)
    elif chunk.source[i] < 0:
        result = outcome_without_edge(chunk.delete[i] != 0, time <= horizon)
        if result == LATE:
            horizons.lost[label] = max(horizons.lost[label], time)
    elif chunk.delete[i]:
        u, v = np.int64(chunk.source[i]), np.int64(chunk.target[i])
        place = probe(edges, key_hash(u, label, v), u, label, v)
        edge = id_at(edges.table, place) if place >= 0 else np.int64(-1)
        result = outcome_of(True, edge >= 0 and in_window(edges, horizon, edge), False)
        if result == DELETED:
            edges.timestamp[edge] = LONG_AGO
            if edges.holders[edge] & HOLDERS != 0:
                delete_from_windows(edges, counted, group, edge)
            chunk.edge[i] = edge
    else:
        is_late = time <= horizon and not is_counted(counted, group)
        present = False
        if is_late:
            horizons.lost[label] = max(horizons.lost[label], time)
        else:
            edge, present = insert(edges, horizons, np.int64(chunk.source[i]), np.int64(chunk.target[i]), label, time)
            chunk.edge[i] = edge
            if is_counted(counted, group):
                number_insert(edges, horizons, counted, group, edge)
        result = outcome_of(False, present, is_late)
    return result


@njit(cache=True, nogil=True)
def resolve(edges, horizons, counted, chunk, count, outcome, outcomes):
    looks_ahead = edges.fields.table > CACHED_ENTRIES
    for i in range(count):
        if looks_ahead and i + AHEAD < count and chunk.source[i + AHEAD] >= 0:
            later = i + AHEAD
            source, target = np.int64(chunk.source[later]), np.int64(chunk.target[later])
            prefetch_edge_of(edges, source, np.int64(chunk.label[later]), target)
        advance(edges, horizons, chunk.timestamp[i])
        result = _resolve_tuple(edges, horizons, counted, chunk, i)
        _note_outcome(horizons, chunk, i, result, outcome, outcomes)


@njit(cache=True, nogil=True, forceinline=True)
def _note_outcome(horizons, chunk, i, result, outcome, outcomes):
    """Note the outcome of a tuple of the merged stream."""
    outcome[i] = result
    outcomes[result] += 1
    if result == PASSED_BY:
        label = np.int64(chunk.label[i])
        horizons.passed_by[label] = max(horizons.passed_by[label], chunk.timestamp[i])


@njit(cache=True, nogil=True)
def lose_unread(horizons, chunk, count):
    """Note the timestamps of inserts whose labels no query reads."""
    for i in range(count):
        label = np.int64(chunk.label[i])
        if not horizons.is_read[label] and chunk.delete[i] == 0:
            horizons.lost[label] = max(horizons.lost[label], chunk.timestamp[i])


@njit(cache=True, nogil=True)
def lose_labels(horizons, labels, delete, timestamp):
    """Note the timestamps of inserts with label ids that no query reads, one a tuple, -1 for none."""
    for i in range(len(labels)):
        label = np.int64(labels[i])
        if label >= 0 and delete[i] == 0:
            horizons.lost[label] = max(horizons.lost[label], timestamp[i])


@njit(cache=True, nogil=True)
def _holds(edges, horizons, u, label, v):
    """Return whether an edge is in any window."""
    place = probe(edges, key_hash(u, label, v), u, label, v)
    if place < 0:
        return False
    return in_window(edges, horizons.horizon[np.int64(horizons.group[label])], id_at(edges.table, place))


@njit(cache=True, nogil=True)
def resolve_with_streams(edges, horizons, counted, chunk, named, is_named, count, outcome, outcomes):
    for i in range(count):
        advance(edges, horizons, chunk.timestamp[i])
        result = _resolve_tuple(edges, horizons, counted, chunk, i)
        if not is_named[i]:
            named.edge[i] = chunk.edge[i]
        else:
            merged, of_stream = result, _resolve_tuple(edges, horizons, counted, named, i)
            result = stronger(merged, of_stream)
            if result == INSERTED and (merged == LATE or of_stream == LATE):
                # One of the two refuses it, and may have a younger one all the same.
                label = np.int64(chunk.label[i]) if merged == LATE else np.int64(named.label[i])
                if _holds(edges, horizons, np.int64(chunk.source[i]), label, np.int64(chunk.target[i])):
                    result = np.int64(REFRESHED)
        _note_outcome(horizons, chunk, i, result, outcome, outcomes)
