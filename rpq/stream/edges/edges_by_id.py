"""Edges that are known by an id, whatever their ends: which are held, and what becomes of their labels.

Several edges may have equal ends and labels, while the snapshot graph has each (source, label, target) once, with the
largest timestamp. `EdgesById` knows the current version of each edge and returns for tuples the *operations* on that graph:
the inserts and deletes of (source, label, target) that the tuple amounts to, also under the derived labels whose conditions
the edge satisfies. Where an edge leaves (another version replaces it, or it is deleted) and another one with equal ends has
the same label, the operations bring the timestamp of the youngest that is left: a delete, and an insert with that timestamp.
For labels of queries to which every edge counts (`is_ordered`) these are the inserts of all that are left.

The edges with equal ends and label are a *group*, a list with the youngest first. An insert in the order of time goes to
the front, and what is left of a label is found from the front: O(1) unless edges with equal ends satisfy other conditions.

Names of edges are in a dictionary like that of vertices, whose ids index the arrays here. An edge that has left the longest
window counts as absent, and `collect` releases its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from rpq.compiled.arrays.hashing import clear, first_candidate, id_at, new_table, next_candidate, put, table_size
from rpq.compiled.kernel_cache import njit
from rpq.compiled.views import Record, int64, view
from rpq.stream.chunk import DELETE_UNLESS_NEWER, Chunk
from rpq.stream.edges.edge_store import key_hash
from rpq.stream.edges.edge_versions import ABSENT_VERSION
from rpq.stream.names.vertices import VertexDictionary


class _GroupCounts(Record):
    """The groups, the length of the table, and the largest timestamp of a lost insert."""

    _fields_ = (
        ("groups", int64),
        ("entries", int64),
        ("lost", int64),
    )


class _BufferCounts(Record):
    """The number of operations, and the room."""

    _fields_ = (
        ("count", int64),
        ("room", int64),
    )


class _Arrays(NamedTuple):
    """The versions by the id of the edge, the groups by number, and the table that finds groups."""

    group: np.ndarray  # int32 an edge, -1 where there is none
    timestamp: np.ndarray  # int64 an edge, ABSENT_VERSION where it is not there
    derived_set: np.ndarray  # int32 an edge: the number of the set of derived labels that it has
    younger: np.ndarray  # int32 an edge: the next younger of its group, -1 for the youngest
    older: np.ndarray  # int32 an edge
    source: np.ndarray  # int32 a group
    label: np.ndarray  # int32 a group
    target: np.ndarray  # int32 a group
    youngest: np.ndarray  # int32 a group, -1 where it is empty
    table: np.ndarray  # int32, see `rpq/compiled/arrays/hashing.py`
    fields: _GroupCounts


class _Tuples(NamedTuple):
    """The columns of tuples besides their chunk, and the sets of derived labels."""

    edge: np.ndarray  # int32 a tuple: the id of its edge, -1 for a delete without one
    derived_set: np.ndarray  # int32 a tuple: the set of derived labels that its insert has
    all_derived: np.ndarray  # int32 a tuple: the set of all derived labels of its label, for deletes without an id
    bound: np.ndarray  # int64 a tuple: the timestamp up to which edges have left every window
    is_read: np.ndarray  # uint8 a label id
    is_ordered: np.ndarray  # uint8 a label id: every edge counts, not the youngest of those with equal ends alone
    first: np.ndarray  # int64 a set: its place in `label`, and the end behind the last set
    label: np.ndarray  # int32: the derived labels of all sets


class PriorEdges(NamedTuple):
    """The state of the edge of each tuple before it."""

    timestamp: np.ndarray  # int64: of the edge, or of the youngest that a delete removes; ABSENT_VERSION where none is held
    label: np.ndarray  # int32: its label; that of the tuple where none is held


class Operations(NamedTuple):
    """Inserts and deletes of (source, label, target) in the order of their tuples; deletes have the time of the tuple."""

    source: np.ndarray  # int32
    label: np.ndarray  # int32
    target: np.ndarray  # int32
    timestamp: np.ndarray  # int64
    delete: np.ndarray  # uint8
    row: np.ndarray  # int64: the tuple


class _Buffer(NamedTuple):
    """The operations so far."""

    operations: Operations
    fields: _BufferCounts


class EdgesById:
    """The edges of the longest window by id.

    >>> edges = EdgesById(capacity=4)
    >>> ids, zero = edges.name(pa.array([7, 7])), np.zeros(2, np.int32)
    >>> chunk = Chunk(zero, np.array([1, 2], np.int32), zero, np.array([3, 5]), np.zeros(2, np.uint8), zero)
    >>> sets = np.zeros(2, np.int64), np.zeros(0, np.int32)
    >>> before, operations = edges.apply(
    ...     chunk, ids, derived_set=zero, all_derived=zero, bound=np.full(2, -10), is_read=np.ones(1, np.uint8),
    ...     is_ordered=np.zeros(1, np.uint8), sets=sets,
    ... )
    >>> int(before.timestamp[1]), list(zip(operations.row.tolist(), operations.target.tolist(), operations.delete.tolist()))
    (3, [(0, 1, 0), (1, 1, 1), (1, 2, 0)])
    """

    def __init__(self, *, capacity: int = 1024) -> None:
        self.names = VertexDictionary(capacity=capacity)
        """The names of edges by id."""
        self._capacity = capacity
        self._set(
            _Arrays(
                group=np.full(capacity, -1, np.int32),
                timestamp=np.full(capacity, ABSENT_VERSION, np.int64),
                derived_set=np.zeros(capacity, np.int32),
                younger=np.full(capacity, -1, np.int32),
                older=np.full(capacity, -1, np.int32),
                source=np.zeros(capacity, np.int32),
                label=np.zeros(capacity, np.int32),
                target=np.zeros(capacity, np.int32),
                youngest=np.full(capacity, -1, np.int32),
                table=new_table(capacity),
                fields=_GroupCounts(lost=ABSENT_VERSION),
            )
        )
        self._used_after_collect = 0

    def _set(self, arrays: _Arrays) -> None:
        arrays.fields.entries = len(arrays.table)
        self._arrays = arrays
        self._view: Any = view(arrays)

    @property
    def nbytes(self) -> int:
        """The number of bytes held."""
        return sum(array.nbytes for array in self._arrays) + self.names.nbytes

    @property
    def lost(self) -> int:
        """The largest timestamp of an edge that came too late or has left, ABSENT_VERSION for none."""
        return self._arrays.fields.lost

    @lost.setter
    def lost(self, timestamp: int) -> None:
        self._arrays.fields.lost = timestamp

    def name(self, ids: pa.Array) -> np.ndarray:
        """Return the ids (int32) of names of edges, new ones for new names; -1 for null. O(total length)."""
        is_there = np.asarray(ids.is_valid()).astype(np.uint8)
        if not is_there.any():
            return np.full(len(ids), -1, np.int32)
        filled = ids if not ids.null_count else ids.fill_null(0 if pa.types.is_integer(ids.type) else "")
        return self.names.intern(filled, is_there)[0]

    def apply(
        self,
        chunk: Chunk,
        edge: np.ndarray,
        *,
        derived_set: np.ndarray,
        all_derived: np.ndarray,
        bound: np.ndarray,
        is_read: np.ndarray,
        is_ordered: np.ndarray,
        sets: tuple[np.ndarray, np.ndarray],
    ) -> tuple[PriorEdges, Operations]:
        """Apply tuples in order. Return what their edges were before, and the operations on labels that are read.

        `edge` are the ids of their edges, -1 for deletes without one; the other arguments are the fields of `_Tuples`.
        O(tuples + operations), and O(edges with equal ends) where those of other conditions are younger than what is left.
        """
        count = len(edge)
        self._make_room(count)
        first, label = sets
        tuples = view(_Tuples(edge, derived_set, all_derived, bound, is_read, is_ordered, first, label))
        before = PriorEdges(np.full(count, ABSENT_VERSION, np.int64), chunk.label.copy())
        room, at = 4 * count + 16, 0
        buffer = _new_buffer(room)
        chunk_view, before_view = view(chunk), view(before)
        while True:
            at = replace_edges(self._view, chunk_view, tuples, before_view, view(buffer), at, count)
            if at == count:
                break
            lengths = np.diff(first)
            longest = int(lengths.max(initial=0))
            # How many edges stay beside one that leaves is found by trying again: the room at least doubles.
            buffer = _longer_buffer(buffer, 2 * buffer.fields.room + 3 * (longest + 1))
        made = buffer.fields.count
        return before, Operations(*(column[:made] for column in buffer.operations))

    def _make_room(self, more: int) -> None:
        arrays = self._arrays
        room, edges = len(arrays.group), len(self.names.names.length)
        if edges > room:
            added = edges - room
            arrays = arrays._replace(
                group=np.concatenate([arrays.group, np.full(added, -1, np.int32)]),
                timestamp=np.concatenate([arrays.timestamp, np.full(added, ABSENT_VERSION, np.int64)]),
                derived_set=np.concatenate([arrays.derived_set, np.zeros(added, np.int32)]),
                younger=np.concatenate([arrays.younger, np.full(added, -1, np.int32)]),
                older=np.concatenate([arrays.older, np.full(added, -1, np.int32)]),
            )
        groups = arrays.fields.groups
        added = groups + more - len(arrays.source)
        if added > 0:
            added = max(added, len(arrays.source) // 2)
            arrays = arrays._replace(
                source=np.concatenate([arrays.source, np.zeros(added, np.int32)]),
                label=np.concatenate([arrays.label, np.zeros(added, np.int32)]),
                target=np.concatenate([arrays.target, np.zeros(added, np.int32)]),
                youngest=np.concatenate([arrays.youngest, np.full(added, -1, np.int32)]),
            )
        if arrays is self._arrays:
            return
        self._set(arrays)
        if table_size(len(arrays.source)) > len(arrays.table):
            self._set(arrays._replace(table=new_table(len(arrays.source))))
            fill_group_table(self._view)

    # --- what is held --------------------------------------------------------------------------------------------

    def _linked_ids(self) -> np.ndarray:
        """Return the ids of the edges that were not deleted, those that have left included. O(ids)."""
        return np.flatnonzero(self._arrays.group >= 0)

    def live(self, bound: int) -> np.ndarray:
        """Return the ids of the edges with a timestamp above a bound. O(ids)."""
        return np.flatnonzero((self._arrays.group >= 0) & (self._arrays.timestamp > bound))

    def columns(self, ids: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return source, label, target, timestamp and set of derived labels of edges."""
        arrays = self._arrays
        group = arrays.group[ids]
        ends = (arrays.source[group], arrays.label[group], arrays.target[group])
        return (*ends, arrays.timestamp[ids], arrays.derived_set[ids])

    def all_columns(self) -> tuple[np.ndarray, ...]:
        """Return the same columns of all edges, those that have left included. O(ids)."""
        return self.columns(self._linked_ids())

    def ends(self) -> tuple[np.ndarray, ...]:
        """Return source, label and target of all edges, those that have left included. O(ids)."""
        return self.all_columns()[:3]

    def latest_departure(self, bound: int) -> int:
        """Return the largest timestamp of an edge that came too late or has left, by a bound at present. O(ids)."""
        timestamps = self._arrays.timestamp[self._linked_ids()]
        return max(self.lost, int(timestamps[timestamps <= bound].max(initial=ABSENT_VERSION)))

    def youngest_first(self, source: int, label: int, target: int) -> Iterator[int]:
        """Yield the ids of the edges with these ends and label, those that have left included."""
        group = group_number(self._view, source, label, target)
        edge = int(self._arrays.youngest[group]) if group >= 0 else -1
        while edge >= 0:
            yield edge
            edge = int(self._arrays.older[edge])

    def derived_set(self, edge: int) -> int:
        """Return the set of derived labels of an edge."""
        return int(self._arrays.derived_set[edge])

    def are_held(self, ids: np.ndarray, timestamps: np.ndarray) -> np.ndarray:
        """Return which edges have a current version with the timestamp given for them."""
        is_there = ids >= 0
        found: np.ndarray = is_there & (self._arrays.group[ids] >= 0) & (self._arrays.timestamp[ids] == timestamps)
        return found

    @property
    def wants_collection(self) -> bool:
        """True if enough edges and groups have arrived since the last collection to pay for another one."""
        used = max(self._arrays.fields.groups, self.names.live)
        return used > 2 * max(self._capacity, self._used_after_collect)

    def collect(self, bound: int) -> None:
        """Forget the edges with a timestamp up to a bound, with their names. O(ids)."""
        self.lost = self.latest_departure(bound)
        arrays, live = self._arrays, self.live(bound)
        columns = self.columns(live)
        is_gone = self.names.names.length[: self.names.count] >= 0
        is_gone[live] = False
        self.names.release(np.flatnonzero(is_gone).astype(np.int32))
        for array, nothing in zip(arrays[:5], (-1, ABSENT_VERSION, 0, -1, -1), strict=True):
            array[:] = nothing
        self._enter(live, columns)
        self._used_after_collect = max(arrays.fields.groups, self.names.live)

    def release_others(self, ids: Iterable[Any]) -> None:
        """Release all names but those of these ids, where the edges themselves are held elsewhere. O(ids)."""
        is_gone = self.names.names.length[: self.names.count] >= 0
        is_gone[np.array([*ids], np.int64)] = False
        self.names.release(np.flatnonzero(is_gone).astype(np.int32))

    def _enter(self, ids: np.ndarray, columns: tuple[np.ndarray, ...]) -> None:
        """Replace all groups by the groups of these edges. O(edges · log edges)."""
        source, label, target, timestamp, derived_set = columns
        order = np.argsort(timestamp, kind="stable")
        self._arrays.fields.groups = 0
        clear_groups(self._view)
        self._make_room(len(ids))
        self._arrays.derived_set[ids] = derived_set
        ends = Chunk(
            source=np.ascontiguousarray(source[order], np.int32),
            target=np.ascontiguousarray(target[order], np.int32),
            label=np.ascontiguousarray(label[order], np.int32),
            timestamp=timestamp[order].astype(np.int64),
            delete=np.zeros(len(ids), np.uint8),
            edge=ids[order].astype(np.int32),
        )
        link_edges(self._view, view(ends), len(ids))

    def renumber(self, numbers: np.ndarray) -> None:
        """Replace the numbers of sets of derived labels by others."""
        self._arrays.derived_set[:] = numbers[self._arrays.derived_set]

    def load(self, names: pa.Array, columns: tuple[np.ndarray, ...]) -> np.ndarray:
        """Set the edges with these different names, and their columns, in a new object; return the ids of these names.

        O(edges · log edges).
        """
        ids = self.name(names)
        self._make_room(len(ids))
        self._enter(ids, columns)
        return ids

    def _check(self) -> None:
        """Assert that names, versions, groups and the table agree."""
        self.names._check()
        arrays = self._arrays
        groups = arrays.fields.groups
        keys = list(zip(*(array[:groups].tolist() for array in (arrays.source, arrays.label, arrays.target)), strict=True))
        assert len(set(keys)) == groups, "two groups have equal ends and labels"
        numbers = np.sort(arrays.table[arrays.table > 0] - 1)
        assert numbers.tolist() == list(range(groups)), "a group is not in the table"
        listed = []
        for group in range(groups):
            edge, before = int(arrays.youngest[group]), -1
            while edge >= 0:
                assert arrays.group[edge] == group, "an edge is listed in a group that is not its own"
                assert arrays.younger[edge] == before, "a list leads back to another edge"
                assert before < 0 or arrays.timestamp[edge] <= arrays.timestamp[before], "an older edge comes first"
                listed.append(edge)
                edge, before = int(arrays.older[edge]), edge
        assert sorted(listed) == self._linked_ids().tolist(), "an edge is in no list, or in two"
        ungrouped = np.setdiff1d(np.arange(len(arrays.group)), listed)
        assert (arrays.timestamp[ungrouped] == ABSENT_VERSION).all(), "an edge without a group has a timestamp"
        named = self.names.names.length[: self.names.count] >= 0
        assert named[listed].all(), "an edge has no name"


def _new_buffer(room: int) -> _Buffer:
    types = (np.int32, np.int32, np.int32, np.int64, np.uint8, np.int64)
    return _Buffer(Operations(*(np.zeros(room, kind) for kind in types)), _BufferCounts(room=room))


def _longer_buffer(buffer: _Buffer, room: int) -> _Buffer:
    longer, made = _new_buffer(room), buffer.fields.count
    for column, values in zip(longer.operations, buffer.operations, strict=True):
        column[:made] = values[:made]
    longer.fields.count = made
    return longer


@njit(cache=True, nogil=True)
def clear_groups(edges):
    clear(edges.table, edges.fields.entries)


@njit(cache=True, nogil=True)
def fill_group_table(edges):
    """Put all groups into the table, which is emptied first."""
    entries = edges.fields.entries
    clear(edges.table, entries)
    for group in range(edges.fields.groups):
        h = key_hash(np.int64(edges.source[group]), np.int64(edges.label[group]), np.int64(edges.target[group]))
        place = first_candidate(edges.table, entries, h)
        while place >= 0:
            place = next_candidate(edges.table, entries, place)
        put(edges.table, place, group)


@njit(cache=True, nogil=True)
def _find_group(edges, u, label, v):
    """Return the place of a group in the table; a negative one, for `put`, if it is not there."""
    entries = edges.fields.entries
    place = first_candidate(edges.table, entries, key_hash(u, label, v))
    while place >= 0:
        group = id_at(edges.table, place)
        if edges.source[group] == u and edges.target[group] == v and edges.label[group] == label:
            break
        place = next_candidate(edges.table, entries, place)
    return place


@njit(cache=True, nogil=True)
def group_number(edges, u, label, v):
    """Return the group of these ends and label, -1 if there is none."""
    place = _find_group(edges, u, label, v)
    return np.int64(id_at(edges.table, place)) if place >= 0 else np.int64(-1)


@njit(cache=True, nogil=True)
def _group_of(edges, u, label, v):
    """Return the group of these ends and label, which is made if there is none."""
    place = _find_group(edges, u, label, v)
    if place >= 0:
        return id_at(edges.table, place)
    group = edges.fields.groups
    edges.fields.groups = group + 1
    edges.source[group] = u
    edges.label[group] = label
    edges.target[group] = v
    edges.youngest[group] = -1
    put(edges.table, place, group)
    return group


@njit(cache=True, nogil=True)
def _link(edges, edge, group):
    """Enter an edge into the list of a group, before those that are not younger."""
    time = edges.timestamp[edge]
    before, after = np.int64(-1), np.int64(edges.youngest[group])
    while after >= 0 and edges.timestamp[after] > time:
        before, after = after, np.int64(edges.older[after])
    edges.group[edge] = group
    edges.younger[edge] = before
    edges.older[edge] = after
    if before >= 0:
        edges.older[before] = edge
    else:
        edges.youngest[group] = edge
    if after >= 0:
        edges.younger[after] = edge


@njit(cache=True, nogil=True)
def _unlink(edges, edge):
    """Take an edge out of its group."""
    before, after = np.int64(edges.younger[edge]), np.int64(edges.older[edge])
    if before >= 0:
        edges.older[before] = after
    else:
        edges.youngest[np.int64(edges.group[edge])] = after
    if after >= 0:
        edges.younger[after] = before
    edges.group[edge] = -1
    edges.younger[edge] = -1
    edges.older[edge] = -1


@njit(cache=True, nogil=True)
def link_edges(edges, tuples, count):
    """Enter edges, the oldest first, into the groups of their ends and labels."""
    for i in range(count):
        edge = np.int64(tuples.edge[i])
        edges.timestamp[edge] = tuples.timestamp[i]
        u, label, v = np.int64(tuples.source[i]), np.int64(tuples.label[i]), np.int64(tuples.target[i])
        _link(edges, edge, _group_of(edges, u, label, v))


@njit(cache=True, nogil=True)
def _emit(out, u, label, v, time, delete, row):
    made = out.fields.count
    out.fields.count = made + 1
    out.operations.source[made] = u
    out.operations.label[made] = label
    out.operations.target[made] = v
    out.operations.timestamp[made] = time
    out.operations.delete[made] = delete
    out.operations.row[made] = row


@njit(cache=True, nogil=True)
def _has(tuples, number, label):
    """Return whether a set of derived labels, which are sorted, has a label."""
    low, high = tuples.first[number], tuples.first[number + 1]
    while low < high:
        middle = (low + high) // 2
        if tuples.label[middle] < label:
            low = middle + 1
        else:
            high = middle
    return low < tuples.first[number + 1] and tuples.label[low] == label


@njit(cache=True, nogil=True)
def _group_length(edges, group):
    """Return the number of edges in a group."""
    length, edge = 0, np.int64(edges.youngest[group]) if group >= 0 else np.int64(-1)
    while edge >= 0:
        length += 1
        edge = np.int64(edges.older[edge])
    return length


@njit(cache=True, nogil=True)
def _leave_label(edges, tuples, out, group, label, is_derived, left, bound, time, row):
    """Emit the operations on a label of a group after an edge with the timestamp `left` has left the group."""
    if tuples.is_ordered[label]:
        u, v = np.int64(edges.source[group]), np.int64(edges.target[group])
        _emit(out, u, label, v, time, 1, row)
        rest = np.int64(edges.youngest[group])
        while rest >= 0 and edges.timestamp[rest] > bound:
            if not is_derived or _has(tuples, edges.derived_set[rest], label):
                _emit(out, u, label, v, edges.timestamp[rest], 0, row)
            rest = np.int64(edges.older[rest])
        return
    rest = np.int64(edges.youngest[group])
    while rest >= 0 and edges.timestamp[rest] > bound and is_derived and not _has(tuples, edges.derived_set[rest], label):
        rest = np.int64(edges.older[rest])
    best = edges.timestamp[rest] if rest >= 0 else np.int64(ABSENT_VERSION)
    if best >= left:
        return
    u, v = np.int64(edges.source[group]), np.int64(edges.target[group])
    _emit(out, u, label, v, time, 1, row)
    if best > bound:
        _emit(out, u, label, v, best, 0, row)


@njit(cache=True, nogil=True)
def _is_ordered(tuples, label, number):
    """Return whether every edge counts under a label or one of a set of derived labels."""
    found = tuples.is_ordered[label] != 0
    for j in range(tuples.first[number], tuples.first[number + 1]):
        found |= tuples.is_ordered[np.int64(tuples.label[j])] != 0
    return found


@njit(cache=True, nogil=True)
def _delete_group(edges, chunk, tuples, before, out, i):
    """Delete all edges with the ends and label of a tuple; return False where there is no room for the operations."""
    u, label, v = np.int64(chunk.source[i]), np.int64(chunk.label[i]), np.int64(chunk.target[i])
    all_derived = np.int64(tuples.all_derived[i])
    if out.fields.count + tuples.first[all_derived + 1] - tuples.first[all_derived] + 1 > out.fields.room:
        return False
    place = _find_group(edges, u, label, v)
    if place < 0:
        return True
    group = id_at(edges.table, place)
    edge = np.int64(edges.youngest[group])
    is_held = edge >= 0 and edges.timestamp[edge] > tuples.bound[i]
    if is_held:
        before.timestamp[i] = edges.timestamp[edge]
        if tuples.is_read[label]:
            _emit(out, u, label, v, chunk.timestamp[i], 1, i)
        for j in range(tuples.first[all_derived], tuples.first[all_derived + 1]):
            _emit(out, u, np.int64(tuples.label[j]), v, chunk.timestamp[i], 1, i)
    while edge >= 0:
        older = np.int64(edges.older[edge])
        edges.group[edge] = -1
        edges.younger[edge] = -1
        edges.older[edge] = -1
        edges.timestamp[edge] = ABSENT_VERSION
        edges.derived_set[edge] = 0
        edge = older
    edges.youngest[group] = -1
    return True


@njit(cache=True, nogil=True)
def replace_edges(edges, chunk, tuples, before, out, first, count):
    """Apply tuples from `first` on, as `EdgesById.apply` says. Return the first for whose operations there is no room."""
    for i in range(first, count):
        edge, is_delete = np.int64(tuples.edge[i]), chunk.delete[i] != 0
        if edge < 0:
            if is_delete and not _delete_group(edges, chunk, tuples, before, out, i):
                return i
            continue
        bound, time, label = tuples.bound[i], chunk.timestamp[i], np.int64(chunk.label[i])
        is_held = edges.timestamp[edge] > bound
        old = np.int64(edges.derived_set[edge]) if is_held else np.int64(0)
        new = np.int64(0) if is_delete else np.int64(tuples.derived_set[i])
        leaving = tuples.first[old + 1] - tuples.first[old] + 1
        entering = tuples.first[new + 1] - tuples.first[new] + 1
        former = np.int64(edges.group[edge])
        needed = 2 * leaving + entering
        if former >= 0 and is_held and _is_ordered(tuples, np.int64(edges.label[former]), old):
            needed += leaving * _group_length(edges, former)
        if out.fields.count + needed > out.fields.room:
            return i
        if is_held:
            before.timestamp[i] = edges.timestamp[edge]
            before.label[i] = edges.label[np.int64(edges.group[edge])]
        is_late = not is_delete and time <= bound
        if not is_late:
            is_older = is_held and time < edges.timestamp[edge]
            if is_older and (not is_delete or chunk.delete[i] == DELETE_UNLESS_NEWER):
                continue
            group = np.int64(-1)
            if not is_delete:
                group = _group_of(edges, np.int64(chunk.source[i]), label, np.int64(chunk.target[i]))
            if former >= 0:
                left, own = edges.timestamp[edge], np.int64(edges.label[former])
                _unlink(edges, edge)
                stays = former == group
                if is_held:
                    if tuples.is_read[own] and (not stays or tuples.is_ordered[own]):
                        _leave_label(edges, tuples, out, former, own, False, left, bound, time, i)
                    for j in range(tuples.first[old], tuples.first[old + 1]):
                        derived = np.int64(tuples.label[j])
                        if not stays or tuples.is_ordered[derived] or not _has(tuples, new, derived):
                            _leave_label(edges, tuples, out, former, derived, True, left, bound, time, i)
                elif not is_delete:
                    edges.fields.lost = max(edges.fields.lost, left)
            if is_delete:
                edges.timestamp[edge] = ABSENT_VERSION
                edges.derived_set[edge] = 0
                continue
            edges.timestamp[edge] = time
            edges.derived_set[edge] = new
            _link(edges, edge, group)
        else:
            edges.fields.lost = max(edges.fields.lost, time)  # the graph gets it too, to know what is lost
        u, v = np.int64(chunk.source[i]), np.int64(chunk.target[i])
        if tuples.is_read[label]:
            _emit(out, u, label, v, time, 0, i)
        for j in range(tuples.first[new], tuples.first[new + 1]):
            _emit(out, u, np.int64(tuples.label[j]), v, time, 0, i)
    return count
