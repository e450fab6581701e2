"""The current version of each edge by its identity, and what tuples change in the graph by it.

The snapshot graph has each (source, label, target) once, with the largest timestamp, and nothing of properties. `EdgeTable`
has the versions of edges: ends, label, timestamp, and the set of derived labels whose conditions the last insert satisfied.
For the tuples of a chunk it returns what their edges were before, and the *operations* on the graph: the inserts and deletes
of (source, label, target) that a tuple amounts to, also under derived labels. The key of an edge is its identity:

- `triple`: source, label and target. An insert replaces the version with its key, unless it is older.
- `parallel`: none, each insert is an edge of its own. Edges with equal ends and label are one version with the largest
  timestamp, as a delete removes them all. What was there before matters to deletes alone: inserts are appended without a
  search, and the first delete that follows, or a look at all versions, makes one of those with equal ends and label.
- `id`: an id, whatever the ends. The versions with equal ends and label are a list, the youngest first, to which the table
  leads. Where one leaves a label that others have, the operations bring the timestamp of the youngest that is left: a
  delete, and an insert with that timestamp. For labels of queries to which every edge counts (`is_ordered`) these are the
  inserts of all that are left. An insert in the order of time goes to the front of its list, and what is left of a label is
  found from the front: O(1) unless edges with equal ends satisfy other conditions.

A version takes 14 bytes and its place in the table five more; with ids its list takes another eight, and the
upper half of its timestamp four. The label and the set
of derived labels are a *kind*, of which there are few: two bytes. The upper halves of timestamps are equal for decades of
seconds; they, and those of kinds, take bytes only where they differ. Where edges have ids, the number of a version is that
of its id in a dictionary like that of vertices; otherwise versions are in the order of their arrival.

Versions expire with the longest window: one that has left it counts as absent, and `collect` forgets it, and its id.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from rpq.compiled.arrays.distinct_values import distinct_values
from rpq.compiled.arrays.hashing import clear, first_candidate, id_at, new_table, next_candidate, put, put_new
from rpq.compiled.arrays.lengthening import lengthen_fields
from rpq.compiled.arrays.tagged_hashing import (
    bits_of_ids,
    first_tagged,
    next_tagged,
    put_tagged,
    remove_tagged,
    tagged_entries,
    tagged_id,
    tagged_table,
)
from rpq.compiled.kernel_cache import njit
from rpq.compiled.views import Record, bound, int64, view
from rpq.stream.chunk import DELETE_UNLESS_NEWER, Chunk, SingleTuple
from rpq.stream.edges.edge_store import LONG_AGO, TIMELESS, key_hash
from rpq.stream.names.vertices import FREE, VertexDictionary

ABSENT_VERSION = int(LONG_AGO)
"""In place of the timestamp of an edge that is not held."""

_DELETED = -1
"""In place of the set of a version that was deleted, and of an id without a version."""

_HALF_OF_TIME = 32
_HALF_OF_KIND = 16


class _VersionCounts(Record):
    """The versions and kinds, and how they are stored."""

    _fields_ = (
        ("count", int64),  # versions, with ids the deleted ones too
        ("entries", int64),
        ("bits", int64),  # of numbers in an entry of the table
        ("in_table", int64),  # without ids the versions in the table; those behind are inserts that were appended
        ("used", int64),  # with ids the entries of the table that are not empty, of which some are of no version any more
        ("wide_times", int64),  # 1 where each version has an upper half of its timestamp, 0 where all have one in common
        ("wide_kinds", int64),
        ("kinds", int64),
        ("kind_entries", int64),
        ("lost", int64),  # with ids the largest timestamp of a lost insert
        ("keeps_all", int64),  # 1 where each insert is an edge of its own
        ("appends", int64),  # 1 where the tuples that come are inserts which no search is needed for
    )


class _BufferCounts(Record):
    """The number of operations, and the room."""

    _fields_ = (
        ("count", int64),
        ("room", int64),
    )


class _Arrays(NamedTuple):
    """The versions by number, and the table that finds them."""

    source: np.ndarray  # int32 a version
    target: np.ndarray  # int32 a version
    time: np.ndarray  # uint32 a version: the lower half of its timestamp
    upper_time: np.ndarray  # int32 a version, or one for all
    kind: np.ndarray  # uint16 a version: the lower half of the number of its kind
    upper_kind: np.ndarray  # uint16 a version, or one for all
    younger: np.ndarray  # int32 a version where edges have ids: the next younger one of its list, 0 for none
    older: np.ndarray  # int32 a version where edges have ids
    kind_label: np.ndarray  # int32 a kind
    kind_set: np.ndarray  # int32 a kind: the number of the set of derived labels, or `_DELETED`
    kind_table: np.ndarray  # int32: from hashes to kinds, see `rpq/compiled/arrays/hashing.py`
    table: np.ndarray  # uint32: from hashes to versions, of a list the youngest; see `rpq/compiled/arrays/tagged_hashing.py`
    fields: _VersionCounts


class _Tuples(NamedTuple):
    """The columns of tuples besides their chunk, and the sets of derived labels."""

    edge: np.ndarray  # int64 a tuple: with ids the number of its edge, -1 for a delete without one
    derived_set: np.ndarray  # int32 a tuple: the set of derived labels that its insert has
    all_derived: np.ndarray  # int32 a tuple: the set of all derived labels of its label, for deletes of several edges
    bound: np.ndarray  # int64 a tuple: the timestamp up to which edges have left every window
    is_plain: np.ndarray  # uint8 a tuple: the graph has edges with its label
    is_read: np.ndarray  # uint8 a label id: the graph has edges with it
    is_ordered: np.ndarray  # uint8 a label id: every edge counts, not the youngest of those with equal ends alone
    first: np.ndarray  # int64 a set: its place in `label`, and the end behind the last set
    label: np.ndarray  # int32: the derived labels of all sets, sorted in each


class PriorEdges(NamedTuple):
    """The state of the edge of each tuple before it; where each insert is an edge of its own, only deletes have one."""

    timestamp: np.ndarray  # int64: of the edge, or of the youngest that a delete removes; ABSENT_VERSION where none is held
    label: np.ndarray  # int32: its label; that of the tuple where none is held; the array of the chunk where all are equal


class Operations(NamedTuple):
    """Inserts and deletes of (source, label, target) in the order of their tuples; deletes have the time of the tuple."""

    source: np.ndarray  # int32
    label: np.ndarray  # int32
    target: np.ndarray  # int32
    timestamp: np.ndarray  # int64
    delete: np.ndarray  # uint8
    row: np.ndarray  # int64: the tuple

    def as_chunk(self) -> Chunk:
        """Return them as a chunk of edges that have no ids yet."""
        source, label, target, timestamp, delete, row = self
        return Chunk(
            source=source,
            target=target,
            label=label,
            timestamp=timestamp,
            delete=delete,
            edge=np.empty(len(row), np.int32),
        )


class _Buffer(NamedTuple):
    """The operations so far."""

    operations: Operations
    fields: _BufferCounts


_SINGLES = 64
"""Single tuples for which room is made at once."""


class _SingleTuple(NamedTuple):
    """The arrays and views of a single tuple, for as long as there are no new sets of derived labels."""

    sets: tuple[np.ndarray, np.ndarray]
    tuples: _Tuples
    before: PriorEdges
    buffer: _Buffer
    views: tuple[Any, Any, Any]


class EdgeTable:
    """The versions of edges by their identity.

    - Tuples: `apply`, `apply_one`, `name`
    - Versions: `live`, `columns`, `all_columns`, `ends`, `youngest_first`, `number_of`, `are_held`, `latest_departure`
    - Memory: `collect`, `renumber`, `load`, `enter`

    >>> edges = EdgeTable("id", capacity=4)
    >>> ids, zero = edges.name(pa.array([7, 7])), np.zeros(2, np.int32)
    >>> chunk = Chunk(zero, np.array([1, 2], np.int32), zero, np.array([3, 5]), np.zeros(2, np.uint8), zero)
    >>> sets, is_read = (np.zeros(2, np.int64), np.zeros(0, np.int32)), np.ones(1, np.uint8)
    >>> before, operations = edges.apply(
    ...     chunk, view(chunk), ids, derived_set=zero, all_derived=zero, bound=np.full(2, -10), is_plain=is_read[zero],
    ...     is_read=is_read, is_ordered=np.zeros(1, np.uint8), sets=sets,
    ... )
    >>> int(before.timestamp[1]), list(zip(operations.row.tolist(), operations.target.tolist(), operations.delete.tolist()))
    (3, [(0, 1, 0), (1, 1, 1), (1, 2, 0)])
    """

    def __init__(self, identity: Literal["triple", "parallel", "id"], *, capacity: int = 1024) -> None:
        self.names: VertexDictionary | None = None
        """The ids of edges; None where they have none."""
        if identity == "id":
            self.names = VertexDictionary(capacity=capacity)
            self.names.reserve(1)  # version 0 is none
        self._keeps_all = identity == "parallel"
        self._capacity = capacity
        self._live_after_collect = 0
        self._kernel: Any = None
        self._room_for_singles = 0  # tuples that `apply_one` may take without asking whether there is room
        self._single: _SingleTuple | None = None
        self._clear(capacity)

    def clear(self) -> None:
        """Forget all versions, but no ids."""
        self._clear(self._capacity)

    def _clear(self, room: int) -> None:
        kinds, has_ids = 16, self.names is not None
        of_ids = room if has_ids else 1
        fields = _VersionCounts(lost=ABSENT_VERSION, wide_times=has_ids, kinds=has_ids, keeps_all=self._keeps_all)
        self._set(
            _Arrays(
                source=np.zeros(room, np.int32),
                target=np.zeros(room, np.int32),
                time=np.zeros(room, np.uint32),
                upper_time=np.zeros(of_ids, np.int32),
                kind=np.zeros(room, np.uint16),
                upper_kind=np.zeros(1, np.uint16),
                younger=np.zeros(of_ids, np.int32),
                older=np.zeros(of_ids, np.int32),
                kind_label=np.zeros(kinds, np.int32),
                kind_set=np.full(kinds, _DELETED, np.int32),  # with ids kind 0 is that of ids without a version
                kind_table=new_table(kinds),
                table=np.zeros(1, np.uint32),
                fields=fields,
            )
        )
        if has_ids:
            self._arrays.source[0] = -1  # no key is equal to that of version 0
            fill_kind_table(self._view)

    def _set(self, arrays: _Arrays) -> None:
        arrays.fields.entries = len(arrays.table)
        arrays.fields.kind_entries = len(arrays.kind_table)
        self._arrays = arrays
        self._view: Any = view(arrays)
        self._room_for_singles = 0

    @property
    def nbytes(self) -> int:
        """The number of bytes held."""
        return sum(array.nbytes for array in self._arrays) + (0 if self.names is None else self.names.nbytes)

    @property
    def lost(self) -> int:
        """Where edges have ids, the largest timestamp of one that came too late or has left, ABSENT_VERSION for none."""
        return self._arrays.fields.lost

    @lost.setter
    def lost(self, timestamp: int) -> None:
        self._arrays.fields.lost = timestamp

    # --- tuples --------------------------------------------------------------------------------------------------

    def name(self, ids: pa.Array) -> np.ndarray:
        """Return the numbers (int32) of ids of edges, new ones for new ids; -1 for null. O(total length)."""
        assert self.names is not None
        is_there = np.asarray(ids.is_valid()).astype(np.uint8)
        if not is_there.any():
            return np.full(len(ids), -1, np.int32)
        filled = ids if not ids.null_count else ids.fill_null(0 if pa.types.is_integer(ids.type) else "")
        return self.names.intern(filled, is_there)[0]

    def apply(
        self,
        chunk: Chunk,
        tuples: Any,
        edge: np.ndarray,
        *,
        derived_set: np.ndarray,
        all_derived: np.ndarray,
        bound: np.ndarray,
        is_plain: np.ndarray,
        is_read: np.ndarray,
        is_ordered: np.ndarray,
        sets: tuple[np.ndarray, np.ndarray],
    ) -> tuple[PriorEdges, Operations]:
        """Apply the tuples of a chunk, with its view, in order.

        Return what their edges were before, and the operations on labels that are read. These include late inserts, so that
        the graph knows what is lost. `edge` and the other arguments are the fields of `_Tuples`. Without ids, tuples with a
        source below 0 are left out.

        O(tuples + operations), and O(edges with equal ends) where those of other conditions are younger than what is left.
        """
        count, (first, label) = len(chunk.label), sets
        lengths, more = np.diff(first), int(np.count_nonzero(chunk.source >= 0))
        self._room_for_singles = 0
        self._make_room(more)
        self._make_room_for_pairs(chunk.label, len(lengths))
        self._make_room_for_times(chunk.timestamp)
        appends = self._keeps_all and not chunk.delete.any()
        if not appends:
            self._index_versions(more)
        self._arrays.fields.appends = appends
        columns = np.asarray(edge, np.int64), derived_set, all_derived, bound, is_plain, is_read, is_ordered, first, label
        labels = chunk.label if self.names is None else chunk.label.copy()
        before = PriorEdges(np.full(count, ABSENT_VERSION, np.int64), labels)
        of_tuples, of_before, at = view(_Tuples(*columns)), view(before), 0
        buffer = _new_buffer(count + (int(lengths[derived_set].sum()) if len(label) else 0) + 16)
        while (at := self._run(tuples, of_tuples, of_before, view(buffer), at, count)) < count:
            # How many edges stay beside one that leaves is found by trying again: the room at least doubles.
            buffer = _longer_buffer(buffer, 2 * buffer.fields.room + 3 * (int(lengths.max()) + 1))
        made = buffer.fields.count
        return before, Operations(*(column[:made] for column in buffer.operations))

    def _run(self, *arguments: Any) -> int:
        """Call the kernel with these arguments behind the table."""
        if self._kernel is None:
            self._kernel = bound(replace_versions if self.names is None else replace_edges, self._view, *arguments)
        return int(self._kernel(self._view, *arguments))

    def apply_one(
        self,
        single: SingleTuple,
        *,
        derived_set: int,
        all_derived: int,
        lower: int,
        is_plain: bool,
        sets: tuple[np.ndarray, np.ndarray],
    ) -> tuple[int, list[int], list[int]]:
        """Apply one tuple without an id like `apply`.

        Return the timestamp of its edge before it, and the label of each operation and whether it deletes.
        """
        if self._single is None or self._single.sets is not sets:
            self._single = _new_single_tuple(sets)
        _, tuples, before, buffer, views = self._single
        tuples.derived_set[0], tuples.all_derived[0] = derived_set, all_derived
        tuples.bound[0], tuples.is_plain[0] = lower, is_plain
        before.timestamp[0] = ABSENT_VERSION
        buffer.fields.count = 0
        if not self._room_for_singles:
            self._make_room_for_singles()
        self._room_for_singles -= 1
        timestamp = single.chunk.timestamp
        if timestamp.item(0) >> _HALF_OF_TIME != self._arrays.upper_time.item(0):
            self._make_room_for_times(timestamp)
        appends = self._keeps_all and not single.chunk.delete.item(0)
        if self._keeps_all and not appends:
            self._index_versions(1)
        self._arrays.fields.appends = appends
        self._run(single.view, *views, 0, 1)
        made = buffer.fields.count
        label, delete = buffer.operations.label[:made].tolist(), buffer.operations.delete[:made].tolist()
        return before.timestamp.item(0), label, delete

    def _make_room_for_singles(self) -> None:
        """Make room for some tuples of `apply_one`, each of which would ask three arrays otherwise."""
        some = max(1, min(_SINGLES, self._capacity))
        self._make_room(some)
        self._make_room_for_kinds(some)
        if not self._keeps_all:
            self._index_versions(some)
        self._room_for_singles = some

    # --- room ----------------------------------------------------------------------------------------------------

    def _make_room(self, more: int) -> None:
        """Make room for further versions, or for those of all ids."""
        arrays, room = self._arrays, len(self._arrays.source)
        missing = (arrays.fields.count + more if self.names is None else len(self.names.names.length)) - room
        if missing > 0:
            added = max(missing, room // 8)
            arrays = lengthen_fields(arrays, added, source=0, target=0, time=0, kind=0)
            if arrays.fields.wide_times:
                arrays = lengthen_fields(arrays, added, upper_time=0)
            if arrays.fields.wide_kinds:
                arrays = lengthen_fields(arrays, added, upper_kind=0)
            if self.names is not None:
                arrays = lengthen_fields(arrays, added, younger=0, older=0)
            self._set(arrays)
        if self.names is not None:
            arrays.fields.count = self.names.count

    def _make_room_for_pairs(self, label: np.ndarray, largest_set: int) -> None:
        """Make room for the kinds of versions with these labels, with sets up to the one with the largest number."""
        self._make_room_for_kinds(min(len(label), (largest_set + 2) * (int(label.max(initial=0)) + 1)))

    def _make_room_for_kinds(self, more: int) -> None:
        arrays = self._arrays
        kinds = arrays.fields.kinds + more
        if kinds > 1 << _HALF_OF_KIND and not arrays.fields.wide_kinds:
            arrays = arrays._replace(upper_kind=np.zeros(len(arrays.source), np.uint16))
            arrays.fields.wide_kinds = 1
        if kinds > len(arrays.kind_label):
            room = max(kinds, 2 * len(arrays.kind_label))
            arrays = lengthen_fields(arrays, room - len(arrays.kind_label), kind_label=0, kind_set=0)
            arrays = arrays._replace(kind_table=new_table(room))
        if arrays is not self._arrays:
            self._set(arrays)
            fill_kind_table(self._view)

    def _make_room_for_times(self, timestamp: np.ndarray) -> None:
        """Make room for the upper halves of timestamps where they are not all equal."""
        arrays = self._arrays
        if arrays.fields.wide_times or not len(timestamp):
            return
        lowest, highest = int(timestamp.min()) >> _HALF_OF_TIME, int(timestamp.max()) >> _HALF_OF_TIME
        if not arrays.fields.count:
            arrays.upper_time[0] = highest
        if lowest != arrays.upper_time[0] or highest != arrays.upper_time[0]:
            self._set(arrays._replace(upper_time=np.full(len(arrays.source), arrays.upper_time[0], np.int32)))
            arrays.fields.wide_times = 1

    def _index_versions(self, more: int = 0) -> None:
        """Put all versions into the table, with room for `more`, and merge those with equal ends and labels.

        With ids only the youngest of each list are in the table. O(versions appended), amortised.
        """
        fields = self._arrays.fields
        if self.names is not None:
            room = len(self._arrays.source)  # more than there are lists, and some lists move before the table is full
            if tagged_entries(fields.used + more) > len(self._arrays.table) or bits_of_ids(room) != fields.bits:
                self._set(self._arrays._replace(table=tagged_table(room + room // 4 + more)))
                fields.bits = bits_of_ids(room)
                index_lists(self._view)
            return
        needed, distinct = fields.count + more, 0 if self._keeps_all else fields.count
        if tagged_entries(needed) > len(self._arrays.table):
            room = max(needed + needed // 4, len(self._arrays.source))
            self._set(self._arrays._replace(table=tagged_table(room)))
            distinct = max(distinct, fields.in_table)
            fields.bits, fields.in_table = bits_of_ids(room), 0
        if not fields.in_table:
            self._arrays.table[:] = 0
        if fields.count > fields.in_table:
            index_versions(self._view, distinct)

    # --- versions ------------------------------------------------------------------------------------------------

    def _numbers(self) -> np.ndarray:
        """Return the numbers of the versions that were not deleted, those that have left included. O(versions)."""
        return np.flatnonzero(self._arrays.kind_set[self._kinds(slice(self._arrays.fields.count))] != _DELETED)

    def live(self, bound: int) -> np.ndarray:
        """Return the numbers of the versions with a timestamp above a bound, without those of static edges. O(versions)."""
        if self._keeps_all:
            self._index_versions()
        numbers = self._numbers()
        return numbers[self._times(numbers) > max(bound, TIMELESS)]

    def columns(self, numbers: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return source, label, target, timestamp and set of derived labels of versions."""
        arrays, kind = self._arrays, self._kinds(numbers)
        ends = arrays.source[numbers], arrays.kind_label[kind], arrays.target[numbers]
        return *ends, self._times(numbers), arrays.kind_set[kind]

    def all_columns(self) -> tuple[np.ndarray, ...]:
        """Return the same columns of all versions, those that have left included, some perhaps twice. O(versions)."""
        return self.columns(self._numbers())

    def ends(self) -> tuple[np.ndarray, ...]:
        """Return source, label and target of all versions, without ids those of deleted ones too. O(versions)."""
        arrays = self._arrays
        numbers = slice(arrays.fields.count) if self.names is None else self._numbers()
        return arrays.source[numbers], arrays.kind_label[self._kinds(numbers)], arrays.target[numbers]

    def _kinds(self, numbers: np.ndarray | slice) -> np.ndarray:
        """Return the kinds of versions."""
        arrays = self._arrays
        kind: np.ndarray = arrays.kind[numbers].astype(np.int64)
        if arrays.fields.wide_kinds:
            kind |= arrays.upper_kind[numbers].astype(np.int64) << _HALF_OF_KIND
        return kind

    def _times(self, numbers: np.ndarray) -> np.ndarray:
        """Return the timestamps of versions."""
        arrays = self._arrays
        upper = arrays.upper_time[numbers if arrays.fields.wide_times else [0]].astype(np.int64)
        timestamp: np.ndarray = arrays.time[numbers].astype(np.int64) | (upper << _HALF_OF_TIME)
        return timestamp

    def latest_departure(self, bound: int) -> int:
        """Return the largest timestamp of an edge that came too late or has left, by a bound at present. O(versions)."""
        timestamps = self._times(self._numbers())
        return max(self.lost, int(timestamps[timestamps <= bound].max(initial=ABSENT_VERSION)))

    def youngest_first(self, source: int, label: int, target: int) -> Iterator[int]:
        """Yield the numbers of the versions with these ends and label, those that have left included."""
        number = int(version_number(self._view, source, label, target))
        while number > 0:
            yield number
            number = int(self._arrays.older[number])

    def number_of(self, source: int, label: int, target: int) -> int:
        """Return the youngest edge with these ends and label, -1 for none; a static one is none."""
        number = int(version_number(self._view, source, label, target)) if source >= 0 else -1
        return number if number >= 0 and self._times(np.array([number]))[0] > TIMELESS else -1

    def derived_set(self, number: int) -> int:
        """Return the set of derived labels of a version."""
        return int(self._arrays.kind_set[self._kinds(np.array([number]))[0]])

    def are_held(self, ids: np.ndarray, timestamps: np.ndarray) -> np.ndarray:
        """Return which edges have a current version with the timestamp given for them."""
        is_there = (ids >= 0) & (self._arrays.kind_set[self._kinds(ids)] != _DELETED)
        found: np.ndarray = is_there & (self._times(ids) == timestamps)
        return found

    # --- memory --------------------------------------------------------------------------------------------------

    @property
    def wants_collection(self) -> bool:
        """True if enough versions have arrived since the last collection to pay for another one."""
        used = self._arrays.fields.count if self.names is None else self.names.live
        return used > 2 * max(self._capacity, self._live_after_collect)

    def collect(self, bound: int, in_use: Iterable[int] = ()) -> None:
        """Forget the versions with a timestamp up to a bound, with their ids unless these are `in_use`. O(versions)."""
        if self.names is not None:
            self.lost = self.latest_departure(bound)
            unlink_versions(self._view, bound)
            is_gone = self.names.names.length[: self.names.count] != FREE
            is_gone[[0, *self._numbers(), *in_use]] = False
            self.names.release(np.flatnonzero(is_gone).astype(np.int32))
            self._live_after_collect = self.names.live
            return
        before = self._arrays.fields.count
        self._room_for_singles = 0  # the table may have none of the versions now, which `apply_one` must find
        live = int(collect_versions(self._view, bound))
        if self._keeps_all and 4 * live > 3 * before:  # little has expired: perhaps there are many with equal ends
            self._index_versions()
            live = self._arrays.fields.count
        if len(self._arrays.source) > 4 * max(live, self._capacity):
            self.load(self.all_columns())
        self._live_after_collect = live

    def renumber(self, numbers: np.ndarray) -> None:
        """Replace the numbers of sets of derived labels by others. O(versions)."""
        arrays, kind = self._arrays, self._kinds(slice(self._arrays.fields.count))
        derived_set = arrays.kind_set[kind]
        self._set_kinds(arrays.kind_label[kind], np.where(derived_set == _DELETED, _DELETED, numbers[derived_set]))

    def _set_kinds(self, label: np.ndarray, derived_set: np.ndarray) -> None:
        """Set the label and the set of each version, and forget all other kinds."""
        kind_label, kind_set, kind = _pairs(label, derived_set)
        self._arrays.fields.kinds = 0
        self._make_room_for_kinds(len(kind_label))
        arrays = self._arrays
        arrays.kind[: len(kind)] = kind & ((1 << _HALF_OF_KIND) - 1)
        if arrays.fields.wide_kinds:
            arrays.upper_kind[: len(kind)] = kind >> _HALF_OF_KIND
        arrays.kind_label[: len(kind_label)], arrays.kind_set[: len(kind_set)] = kind_label, kind_set
        arrays.fields.kinds = len(kind_label)
        fill_kind_table(self._view)

    def load(self, columns: tuple[np.ndarray, ...], ids: np.ndarray | None = None) -> None:
        """Replace all versions by those with these columns, and `ids` where edges have any.

        No two have equal ends and labels unless edges have ids, or all edges are kept. O(edges · log edges).
        """
        source, label, target, timestamp, derived_set = columns
        # About as many as there were before will come until the next collection.
        room, lost = max(self._capacity, len(source), min(len(self._arrays.source), 2 * len(source))), self.lost
        self._clear(room)
        self.lost = lost
        if ids is not None:
            order = np.argsort(timestamp, kind="stable")
            self.enter(tuple(column[order] for column in columns), ids[order])
            return
        self._make_room_for_times(timestamp)
        arrays, count = self._arrays, len(source)
        arrays.fields.count = count
        arrays.source[:count], arrays.target[:count] = source, target
        arrays.time[:count] = timestamp & ((1 << _HALF_OF_TIME) - 1)
        if arrays.fields.wide_times:
            arrays.upper_time[:count] = timestamp >> _HALF_OF_TIME
        self._set_kinds(label, derived_set)

    def enter(self, columns: tuple[np.ndarray, ...], ids: np.ndarray) -> None:
        """Set the versions of edges with these ids to those with these columns, the oldest first."""
        source, label, target, timestamp, derived_set = columns
        self._make_room(len(ids))
        self._make_room_for_pairs(label, int(derived_set.max(initial=0)))
        self._index_versions(len(ids))
        kinds = np.int32, np.int32, np.int32, np.int64, np.uint8, np.int32
        arrays = zip((source, target, label, timestamp, np.zeros(len(ids)), ids), kinds, strict=True)
        chunk = Chunk(*(np.ascontiguousarray(column, kind) for column, kind in arrays))
        enter_versions(self._view, view(chunk), np.ascontiguousarray(derived_set, np.int32), len(ids))

    def _check(self) -> None:
        """Assert that the table, lists, kinds and ids agree."""
        arrays, fields = self._arrays, self._arrays.fields
        kinds = list(zip(arrays.kind_label[: fields.kinds].tolist(), arrays.kind_set[: fields.kinds].tolist(), strict=True))
        assert len(set(kinds)) == len(kinds), "two kinds are equal"
        entries = arrays.table[arrays.table > 0].astype(np.int64)
        in_table = np.sort((entries & ((1 << fields.bits) - 1)) - 1)
        if self.names is None:
            expected = np.arange(fields.in_table)
            in_table = in_table[: len(in_table) if fields.in_table else 0]
        else:
            self.names._check()
            listed = self._numbers()
            assert (self.names.names.length[listed] != FREE).all(), "an edge has no id"
            expected = listed[arrays.younger[listed] == 0]
            in_table = in_table[in_table > 0]
        assert in_table.tolist() == expected.tolist(), "a version is not in the table"
        source, _, target, _, _ = self.columns(expected)
        keys = list(zip(source.tolist(), arrays.kind_label[self._kinds(expected)].tolist(), target.tolist(), strict=True))
        assert len(set(keys)) == len(keys), "an edge has two versions, or equal ends two lists"
        for number, key in zip(expected.tolist(), keys, strict=True):
            assert version_number(self._view, *key) == number, "the table does not find a version"
        if self.names is None:
            return
        in_lists = []
        for key in keys:
            younger, edges = 0, [*self.youngest_first(*key)]
            columns = self.columns(np.array(edges))
            assert {*zip(*(column.tolist() for column in columns[:3]), strict=True)} == {key}, "an edge is in another list"
            assert (columns[3][1:] <= columns[3][:-1]).all(), "an older edge comes first"
            for edge in edges:
                assert arrays.younger[edge] == younger, "a list leads back to another edge"
                younger = edge
            in_lists += edges
        assert sorted(in_lists) == listed.tolist(), "an edge is in no list, or in two"


def _pairs(label: np.ndarray, derived_set: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the different pairs of a label and a set, sorted, and the place of each pair among them."""
    least = int(derived_set.min(initial=0))
    sets = int(derived_set.max(initial=0)) - least + 1
    labels = int(label.max(initial=0)) + 1
    code, place = distinct_values(label.astype(np.int64) * sets + (derived_set - least), labels * sets)
    return code // sets, code % sets + least, place


def _new_buffer(room: int) -> _Buffer:
    types = (np.int32, np.int32, np.int32, np.int64, np.uint8, np.int64)
    return _Buffer(Operations(*(np.zeros(room, kind) for kind in types)), _BufferCounts(room=room))


def _longer_buffer(buffer: _Buffer, room: int) -> _Buffer:
    longer, made = _new_buffer(room), buffer.fields.count
    for column, values in zip(longer.operations, buffer.operations, strict=True):
        column[:made] = values[:made]
    longer.fields.count = made
    return longer


def _new_single_tuple(sets: tuple[np.ndarray, np.ndarray]) -> _SingleTuple:
    flags = np.zeros(1, np.uint8)
    columns = np.zeros(1, np.int64), np.zeros(1, np.int32), np.zeros(1, np.int32), np.zeros(1, np.int64), flags.copy()
    tuples = _Tuples(*columns, flags, flags, *sets)
    before, buffer = PriorEdges(np.zeros(1, np.int64), np.zeros(1, np.int32)), _new_buffer(2 * len(sets[1]) + 1)
    return _SingleTuple(sets, tuples, before, buffer, (view(tuples), view(before), view(buffer)))


@njit(cache=True, nogil=True, forceinline=True)
def _kind_hash(label, one):
    return key_hash(label, np.int64(0), one)


@njit(cache=True, nogil=True)
def fill_kind_table(versions):
    """Put all kinds into their table, which is emptied first."""
    entries = versions.fields.kind_entries
    clear(versions.kind_table, entries)
    for kind in range(versions.fields.kinds):
        h = _kind_hash(np.int64(versions.kind_label[kind]), np.int64(versions.kind_set[kind]))
        put_new(versions.kind_table, entries, h, kind)


@njit(cache=True, nogil=True)
def _kind_of(versions, label, one):
    """Return the kind of a label and a set, which is made if there is none."""
    entries = versions.fields.kind_entries
    place = first_candidate(versions.kind_table, entries, _kind_hash(label, one))
    while place >= 0:
        kind = id_at(versions.kind_table, place)
        if versions.kind_label[kind] == label and versions.kind_set[kind] == one:
            return kind
        place = next_candidate(versions.kind_table, entries, place)
    kind = versions.fields.kinds
    versions.fields.kinds = kind + 1
    versions.kind_label[kind] = label
    versions.kind_set[kind] = one
    put(versions.kind_table, place, kind)
    return kind


@njit(cache=True, nogil=True, forceinline=True)
def _kind_at(versions, number):
    upper = np.int64(versions.upper_kind[number * versions.fields.wide_kinds])
    return (upper << _HALF_OF_KIND) | np.int64(versions.kind[number])


@njit(cache=True, nogil=True, forceinline=True)
def _label_at(versions, number):
    return np.int64(versions.kind_label[_kind_at(versions, number)])


@njit(cache=True, nogil=True, forceinline=True)
def _set_at(versions, number):
    return np.int64(versions.kind_set[_kind_at(versions, number)])


@njit(cache=True, nogil=True, forceinline=True)
def _set_kind(versions, number, kind):
    versions.kind[number] = kind & np.int64(0xFFFF)
    if versions.fields.wide_kinds:
        versions.upper_kind[number] = kind >> _HALF_OF_KIND


@njit(cache=True, nogil=True, forceinline=True)
def _time_at(versions, number):
    upper = np.int64(versions.upper_time[number * versions.fields.wide_times])
    return (upper << _HALF_OF_TIME) | np.int64(versions.time[number])


@njit(cache=True, nogil=True, forceinline=True)
def _set_time(versions, number, time):
    versions.time[number] = time & np.int64(0xFFFFFFFF)
    if versions.fields.wide_times:
        versions.upper_time[number] = time >> _HALF_OF_TIME


@njit(cache=True, nogil=True, forceinline=True)
def _find(versions, h, u, label, v):
    """Return the place of a version in the table; a negative one, for `put_tagged`, if it is not there."""
    entries, bits = versions.fields.entries, versions.fields.bits
    place = first_tagged(versions.table, entries, bits, h)
    while place >= 0:
        number = tagged_id(versions.table, place, bits)
        if versions.source[number] == u and versions.target[number] == v and _label_at(versions, number) == label:
            break
        place = next_tagged(versions.table, entries, bits, h, place)
    return place


@njit(cache=True, nogil=True)
def version_number(versions, u, label, v):
    """Return the number of the version that the table has of an edge, -1 if there is none."""
    place = _find(versions, key_hash(u, label, v), u, label, v)
    return tagged_id(versions.table, place, versions.fields.bits) if place >= 0 else np.int64(-1)


@njit(cache=True, nogil=True)
def index_versions(versions, distinct):
    """Put versions that were appended into the table, which has room for them; of equal edges the youngest stays.

    The first `distinct` versions are of different edges.
    """
    entries, bits = versions.fields.entries, versions.fields.bits
    made = versions.fields.in_table
    for i in range(made, versions.fields.count):
        u, v, kind = np.int64(versions.source[i]), np.int64(versions.target[i]), _kind_at(versions, i)
        label = np.int64(versions.kind_label[kind])
        h = key_hash(u, label, v)
        if i < distinct:
            place = first_tagged(versions.table, entries, bits, h)
            while place >= 0:
                place = next_tagged(versions.table, entries, bits, h, place)
        else:
            place = _find(versions, h, u, label, v)
        if place < 0:
            put_tagged(versions.table, place, bits, h, made)
            number = made
            made += 1
        else:
            number = tagged_id(versions.table, place, bits)
            if _set_at(versions, number) != _DELETED and _time_at(versions, number) > _time_at(versions, i):
                continue
        if number != i:
            time = _time_at(versions, i)
            versions.source[number] = u
            versions.target[number] = v
            _set_time(versions, number, time)
            _set_kind(versions, number, kind)
    versions.fields.count = made
    versions.fields.in_table = made


@njit(cache=True, nogil=True)
def collect_versions(versions, bound):
    """Forget the versions that are deleted or have a timestamp up to a bound. Return the number of remaining versions.

    Unless all are, the table has none of them from then on.
    """
    kept = np.int64(0)
    for number in range(versions.fields.count):
        kind, time = _kind_at(versions, number), _time_at(versions, number)
        if time <= bound or versions.kind_set[kind] == _DELETED:
            continue
        if kept != number:
            versions.source[kept] = versions.source[number]
            versions.target[kept] = versions.target[number]
            _set_time(versions, kept, time)
            _set_kind(versions, kept, kind)
        kept += 1
    if kept != versions.fields.count:
        versions.fields.count = kept
        versions.fields.in_table = 0
    return kept


# --- lists of versions with equal ends and label, where edges have ids ----------------------------------------------


@njit(cache=True, nogil=True)
def index_lists(versions):
    """Put the youngest version of each list into the table, which is empty and has room for them."""
    entries, bits = versions.fields.entries, versions.fields.bits
    versions.fields.used = 0
    for number in range(1, versions.fields.count):
        if versions.younger[number] == 0 and _set_at(versions, number) != _DELETED:
            u, v = np.int64(versions.source[number]), np.int64(versions.target[number])
            h = key_hash(u, _label_at(versions, number), v)
            place = first_tagged(versions.table, entries, bits, h)
            while place >= 0:
                place = next_tagged(versions.table, entries, bits, h, place)
            put_tagged(versions.table, place, bits, h, number)
            versions.fields.used += 1


@njit(cache=True, nogil=True)
def _link(versions, number):
    """Enter a version into the list of its ends and label, before those that are not younger."""
    u, label, v = np.int64(versions.source[number]), _label_at(versions, number), np.int64(versions.target[number])
    time, bits, h = _time_at(versions, number), versions.fields.bits, key_hash(u, label, v)
    place = _find(versions, h, u, label, v)
    younger, older = np.int64(0), tagged_id(versions.table, place, bits) if place >= 0 else np.int64(0)
    while older > 0 and _time_at(versions, older) > time:
        younger, older = older, np.int64(versions.older[older])
    versions.younger[number] = younger
    versions.older[number] = older
    if older > 0:
        versions.younger[older] = number
    if younger > 0:
        versions.older[younger] = number
    elif place >= 0:
        put_tagged(versions.table, -1 - place, bits, h, number)
    else:
        put_tagged(versions.table, place, bits, h, number)
        versions.fields.used += 1


@njit(cache=True, nogil=True)
def _unlink(versions, number):
    """Take a version out of its list, and delete it. Return the youngest that is left in the list, 0 for none."""
    u, label, v = np.int64(versions.source[number]), _label_at(versions, number), np.int64(versions.target[number])
    bits, h = versions.fields.bits, key_hash(u, label, v)
    place = _find(versions, h, u, label, v)
    youngest = tagged_id(versions.table, place, bits)
    younger, older = np.int64(versions.younger[number]), np.int64(versions.older[number])
    if older > 0:
        versions.younger[older] = younger
    if younger > 0:
        versions.older[younger] = older
    else:
        youngest = older
        if older > 0:
            put_tagged(versions.table, -1 - place, bits, h, older)
        else:
            remove_tagged(versions.table, place)
    versions.younger[number] = 0
    versions.older[number] = 0
    _set_kind(versions, number, np.int64(0))
    return youngest


@njit(cache=True, nogil=True)
def enter_versions(versions, edges, derived_set, count):
    """Set versions, the oldest first."""
    for i in range(count):
        number = np.int64(edges.edge[i])
        if _set_at(versions, number) != _DELETED:
            _unlink(versions, number)
        versions.source[number] = edges.source[i]
        versions.target[number] = edges.target[i]
        _set_time(versions, number, edges.timestamp[i])
        _set_kind(versions, number, _kind_of(versions, np.int64(edges.label[i]), np.int64(derived_set[i])))
        _link(versions, number)


@njit(cache=True, nogil=True)
def unlink_versions(versions, bound):
    """Delete the versions with a timestamp up to a bound."""
    for number in range(1, versions.fields.count):
        if _set_at(versions, number) != _DELETED and _time_at(versions, number) <= bound:
            _unlink(versions, np.int64(number))


# --- tuples ---------------------------------------------------------------------------------------------------------


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


@njit(cache=True, nogil=True, forceinline=True)
def _size(tuples, number):
    return tuples.first[number + 1] - tuples.first[number]


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
def replace_versions(versions, chunk, tuples, before, out, first, count):
    """Apply tuples without ids from `first` on, as `EdgeTable.apply` says.

    Return the first for whose operations there is no room.
    """
    bits, keeps_all, appends = versions.fields.bits, versions.fields.keeps_all != 0, versions.fields.appends != 0
    last_label, last_set, kind = np.int64(-1), np.int64(-1), np.int64(0)
    for i in range(first, count):
        u, label, v = np.int64(chunk.source[i]), np.int64(chunk.label[i]), np.int64(chunk.target[i])
        if u < 0:
            continue
        time, bound, is_delete = chunk.timestamp[i], tuples.bound[i], chunk.delete[i] != 0
        h, place, number = np.uint64(0), np.int64(-1), np.int64(-1)
        held_time, held_set = np.int64(ABSENT_VERSION), np.int64(0)
        if not appends:
            h = key_hash(u, label, v)
            place = _find(versions, h, u, label, v)
            if place >= 0:
                number = tagged_id(versions.table, place, bits)
                held_set = _set_at(versions, number)
                if held_set != _DELETED:
                    held_time = _time_at(versions, number)
        is_held = held_time > bound
        is_older = is_held and not is_delete and time < held_time
        is_late = not is_delete and time <= bound
        is_effective = not is_late and (keeps_all or not is_older)
        old, new = np.int64(0), np.int64(0)
        if is_held and is_effective and (is_delete or not keeps_all):
            old = np.int64(tuples.all_derived[i]) if keeps_all else held_set
        if not is_delete and (is_effective or is_late):
            new = np.int64(tuples.derived_set[i])
        if out.fields.count + _size(tuples, old) + _size(tuples, new) + 1 > out.fields.room:
            return i
        if is_held:
            before.timestamp[i] = held_time
        if tuples.is_plain[i]:
            _emit(out, u, label, v, time, is_delete, i)
        for j in range(tuples.first[old], tuples.first[old + 1]):
            derived = np.int64(tuples.label[j])
            if not _has(tuples, new, derived):
                _emit(out, u, derived, v, time, True, i)
        for j in range(tuples.first[new], tuples.first[new + 1]):
            _emit(out, u, np.int64(tuples.label[j]), v, time, False, i)
        if is_delete:
            if number >= 0:
                _set_kind(versions, number, _kind_of(versions, label, np.int64(_DELETED)))
        elif is_effective:
            if number < 0:
                number = versions.fields.count
                versions.fields.count = number + 1
                versions.source[number] = u
                versions.target[number] = v
                if not appends:
                    versions.fields.in_table = number + 1
                    put_tagged(versions.table, place, bits, h, number)
            if not is_older:
                _set_time(versions, number, time)
                one = np.int64(0) if keeps_all else new  # what each of the edges satisfies is not kept
                if label != last_label or one != last_set:
                    last_label, last_set, kind = label, one, _kind_of(versions, label, one)
                _set_kind(versions, number, kind)
    return count


@njit(cache=True, nogil=True)
def _list_length(versions, youngest):
    """Return the number of versions in a list."""
    length = 0
    while youngest > 0:
        length += 1
        youngest = np.int64(versions.older[youngest])
    return length


@njit(cache=True, nogil=True)
def _leave_label(versions, tuples, out, youngest, u, label, v, is_derived, left, bound, time, row):
    """Emit the operations on a label after an edge with the timestamp `left` has left the list before `youngest`."""
    rest = youngest
    if tuples.is_ordered[label]:
        _emit(out, u, label, v, time, True, row)
        while rest > 0 and _time_at(versions, rest) > bound:
            if not is_derived or _has(tuples, _set_at(versions, rest), label):
                _emit(out, u, label, v, _time_at(versions, rest), False, row)
            rest = np.int64(versions.older[rest])
        return
    while rest > 0 and _time_at(versions, rest) > bound and is_derived and not _has(tuples, _set_at(versions, rest), label):
        rest = np.int64(versions.older[rest])
    best = _time_at(versions, rest) if rest > 0 else np.int64(ABSENT_VERSION)
    if best >= left:
        return
    _emit(out, u, label, v, time, True, row)
    if best > bound:
        _emit(out, u, label, v, best, False, row)


@njit(cache=True, nogil=True)
def _is_ordered(tuples, label, number):
    """Return whether every edge counts under a label or one of a set of derived labels."""
    found = tuples.is_ordered[label] != 0
    for j in range(tuples.first[number], tuples.first[number + 1]):
        found |= tuples.is_ordered[np.int64(tuples.label[j])] != 0
    return found


@njit(cache=True, nogil=True)
def _delete_list(versions, chunk, tuples, before, out, i):
    """Delete all edges with the ends and label of a tuple; return False where there is no room for the operations."""
    u, label, v = np.int64(chunk.source[i]), np.int64(chunk.label[i]), np.int64(chunk.target[i])
    all_derived, time = np.int64(tuples.all_derived[i]), chunk.timestamp[i]
    youngest = version_number(versions, u, label, v) if u >= 0 else np.int64(-1)
    statics, rest = np.int64(0), youngest
    while rest > 0:
        statics += _time_at(versions, rest) == TIMELESS
        rest = np.int64(versions.older[rest])
    if out.fields.count + (1 + statics) * (_size(tuples, all_derived) + 1) > out.fields.room:
        return False
    if youngest > 0 and _time_at(versions, youngest) > max(tuples.bound[i], np.int64(TIMELESS)):
        before.timestamp[i] = _time_at(versions, youngest)
        if tuples.is_plain[i]:
            _emit(out, u, label, v, time, True, i)
        for j in range(tuples.first[all_derived], tuples.first[all_derived + 1]):
            _emit(out, u, np.int64(tuples.label[j]), v, time, True, i)
    while youngest > 0 and _time_at(versions, youngest) > TIMELESS:
        youngest = _unlink(versions, youngest)
    while youngest > 0:  # static edges stay
        static = _set_at(versions, youngest)
        if tuples.is_plain[i]:
            _emit(out, u, label, v, np.int64(TIMELESS), False, i)
        for j in range(tuples.first[static], tuples.first[static + 1]):
            _emit(out, u, np.int64(tuples.label[j]), v, np.int64(TIMELESS), False, i)
        youngest = np.int64(versions.older[youngest])
    return True


@njit(cache=True, nogil=True)
def replace_edges(versions, chunk, tuples, before, out, first, count):
    """Apply tuples with ids from `first` on, as `EdgeTable.apply` says.

    Return the first for whose operations there is no room.
    """
    for i in range(first, count):
        edge, is_delete = tuples.edge[i], chunk.delete[i] != 0
        if edge < 0:
            if is_delete and not _delete_list(versions, chunk, tuples, before, out, i):
                return i
            continue
        bound, time = tuples.bound[i], chunk.timestamp[i]
        u, label, v = np.int64(chunk.source[i]), np.int64(chunk.label[i]), np.int64(chunk.target[i])
        former, own = _set_at(versions, edge), _label_at(versions, edge)
        is_there, left = former != _DELETED, _time_at(versions, edge)
        is_held = is_there and left > bound
        old = former if is_held else np.int64(0)
        new = np.int64(0) if is_delete else np.int64(tuples.derived_set[i])
        leaving = _size(tuples, old) + 1
        needed = 2 * leaving + _size(tuples, new) + 1
        from_u, from_v = np.int64(versions.source[edge]), np.int64(versions.target[edge])
        if is_held and _is_ordered(tuples, own, old):
            needed += leaving * _list_length(versions, version_number(versions, from_u, own, from_v))
        if out.fields.count + needed > out.fields.room:
            return i
        if is_held:
            before.timestamp[i] = left
            before.label[i] = own
        if is_delete or time > bound:
            if is_held and time < left and (not is_delete or chunk.delete[i] == DELETE_UNLESS_NEWER):
                continue
            if is_there:
                rest = _unlink(versions, edge)
                stays = not is_delete and from_u == u and own == label and from_v == v
                if is_held:
                    if tuples.is_read[own] and (not stays or tuples.is_ordered[own]):
                        _leave_label(versions, tuples, out, rest, from_u, own, from_v, False, left, bound, time, i)
                    for j in range(tuples.first[old], tuples.first[old + 1]):
                        derived = np.int64(tuples.label[j])
                        if not stays or tuples.is_ordered[derived] or not _has(tuples, new, derived):
                            _leave_label(versions, tuples, out, rest, from_u, derived, from_v, True, left, bound, time, i)
                elif not is_delete:
                    versions.fields.lost = max(versions.fields.lost, left)
            if is_delete:
                continue
            versions.source[edge] = u
            versions.target[edge] = v
            _set_time(versions, edge, time)
            _set_kind(versions, edge, _kind_of(versions, label, new))
            _link(versions, edge)
        else:
            versions.fields.lost = max(versions.fields.lost, time)  # the graph gets it too, to know what is lost
        if tuples.is_plain[i]:
            _emit(out, u, label, v, time, False, i)
        for j in range(tuples.first[new], tuples.first[new + 1]):
            _emit(out, u, np.int64(tuples.label[j]), v, time, False, i)
    return count
