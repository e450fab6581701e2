"""The current version of each edge: the timestamp and the conditions that its last insert satisfied.

An edge that carries values may lose some of its derived labels by an insert: the version that the insert brings satisfies
other conditions than the one that it replaces. `EdgeVersions` knows edges by source, label and target, and returns for each
tuple what the edge was before it. An insert that is older than the version that is held changes nothing. Where each insert
is an edge of its own (`keeps_all`), the edges with equal ends and label are one version, whose timestamp is the largest.

A version takes 14 bytes and its place in the table five more. Its label and its set of derived labels are a *kind*, of which
there are few: two bytes. The upper halves of timestamps are equal for decades of seconds; they, and those of kinds, take
bytes only where they differ.

Where all edges are kept, what an edge was before matters to deletes alone. Inserts are then appended without a search, and
the first delete that follows, or a look at all versions, makes one of those with equal ends and label.

Versions expire with the longest window: one that has left it counts as absent, and `collect` forgets it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rpq.compiled.arrays.distinct_values import distinct_values
from rpq.compiled.arrays.hashing import clear, first_candidate, id_at, new_table, next_candidate, put, put_new
from rpq.compiled.arrays.lengthening import lengthen_fields
from rpq.compiled.arrays.tagged_hashing import (
    bits_of_ids,
    first_tagged,
    next_tagged,
    put_tagged,
    tagged_entries,
    tagged_id,
    tagged_table,
)
from rpq.compiled.kernel_cache import njit
from rpq.compiled.views import Record, bound, int64, view
from rpq.stream.chunk import Chunk, SingleTuple
from rpq.stream.edges.edge_store import LONG_AGO, key_hash

ABSENT_VERSION = int(LONG_AGO)
"""In place of the timestamp of an edge that is not held."""

_DELETED = -1
"""In place of the set of a version that was deleted."""

_HALF_OF_TIME = 32
_HALF_OF_KIND = 16


class _VersionCounts(Record):
    """The versions and kinds, and how they are stored."""

    _fields_ = (
        ("count", int64),
        ("entries", int64),
        ("bits", int64),  # of ids in an entry of the table
        ("in_table", int64),  # versions that the table has; those behind are inserts that were appended
        ("wide_times", int64),  # 1 where each version has an upper half of its timestamp, 0 where all have one in common
        ("wide_kinds", int64),
        ("kinds", int64),
        ("kind_entries", int64),
    )


class _Arrays(NamedTuple):
    """The versions by number, and the table that finds them."""

    source: np.ndarray  # int32 a version
    target: np.ndarray  # int32 a version
    time: np.ndarray  # uint32 a version: the lower half of its timestamp
    upper_time: np.ndarray  # int32 a version, or one for all
    kind: np.ndarray  # uint16 a version: the lower half of the number of its kind
    upper_kind: np.ndarray  # uint16 a version, or one for all
    kind_label: np.ndarray  # int32 a kind
    kind_set: np.ndarray  # int32 a kind: the number of the set of derived labels, or `_DELETED`
    kind_table: np.ndarray  # int32: from hashes to kinds, see `rpq/compiled/arrays/hashing.py`
    table: np.ndarray  # uint32: from hashes to versions, see `rpq/compiled/arrays/tagged_hashing.py`
    fields: _VersionCounts


_SINGLES = 64
"""Single tuples for which room is made at once."""


class PriorVersions(NamedTuple):
    """The state of the edge of each tuple before it; where all edges are kept, only deletes have one."""

    timestamp: np.ndarray  # int64: of the version, ABSENT_VERSION where none is held
    derived_set: np.ndarray  # int32: its set of derived labels, 0 where none is held
    is_effective: np.ndarray  # uint8: the tuple changes the edge: no insert that is late or older than the version held


def _absent_versions(count: int) -> PriorVersions:
    return PriorVersions(np.full(count, ABSENT_VERSION, np.int64), np.zeros(count, np.int32), np.zeros(count, np.uint8))


class EdgeVersions:
    """The versions of edges by source, label and target.

    >>> versions = EdgeVersions(keeps_all=False)
    >>> one = np.zeros(2, np.int32)
    >>> chunk = Chunk(one, one, one, np.array([5, 3]), np.zeros(2, np.uint8), one)
    >>> versions.apply(chunk, view(chunk), np.array([1, 2], np.int32), np.full(2, -10))
    PriorVersions(timestamp=array([-9223372036854775808,                    5]), derived_set=array([0, 1], dtype=int32), \
is_effective=array([1, 0], dtype=uint8))
    """

    def __init__(self, *, keeps_all: bool, capacity: int = 1024) -> None:
        self.keeps_all = keeps_all
        self._capacity = capacity
        self._live_after_collect = 0
        self._replace_one: Any = None
        self._append_one: Any = None
        self._room_for_singles = 0  # tuples that `apply_one` may take without asking whether there is room
        self._set_of_one, self._bound_of_one = np.zeros(1, np.int32), np.zeros(1, np.int64)
        self._before_one = _absent_versions(1)
        self._clear(capacity)

    def _clear(self, room: int) -> None:
        kinds = 16
        self._set(
            _Arrays(
                source=np.zeros(room, np.int32),
                target=np.zeros(room, np.int32),
                time=np.zeros(room, np.uint32),
                upper_time=np.zeros(1, np.int32),
                kind=np.zeros(room, np.uint16),
                upper_kind=np.zeros(1, np.uint16),
                kind_label=np.zeros(kinds, np.int32),
                kind_set=np.zeros(kinds, np.int32),
                kind_table=new_table(kinds),
                table=np.zeros(1, np.uint32),
                fields=_VersionCounts(),
            )
        )

    def _set(self, arrays: _Arrays) -> None:
        arrays.fields.entries = len(arrays.table)
        arrays.fields.kind_entries = len(arrays.kind_table)
        self._arrays = arrays
        self._view: Any = view(arrays)
        self._room_for_singles = 0

    @property
    def count(self) -> int:
        """The number of versions, those that have expired included."""
        return self._arrays.fields.count

    @property
    def nbytes(self) -> int:
        """The number of bytes held."""
        return sum(array.nbytes for array in self._arrays)

    def apply(self, chunk: Chunk, tuples: Any, derived_set: np.ndarray, bound: np.ndarray) -> PriorVersions:
        """Apply the tuples of a chunk, with its view, in order; return what their edges were before. O(tuples).

        `derived_set` (int32) is the set of derived labels that each insert has, `bound` (int64) the timestamp up to which
        edges have left every window at each tuple. Tuples with a source below 0 are left out.
        """
        count = len(derived_set)
        self._room_for_singles = 0
        more = int(np.count_nonzero(chunk.source >= 0))
        self._make_room(more)
        if self.keeps_all:
            derived_set = np.zeros(count, np.int32)  # what each of the edges satisfies is not kept
        sets = int(derived_set.max(initial=0)) + 2  # with `_DELETED`
        self._make_room_for_kinds(min(count, sets * (int(chunk.label.max(initial=0)) + 1)))
        self._make_room_for_times(chunk.timestamp)
        before = _absent_versions(count)
        if self.keeps_all and not chunk.delete.any():
            append_versions(self._view, tuples, derived_set, bound, count, before.is_effective)
            return before
        self._index_versions(more)
        replace_versions(self._view, tuples, derived_set, bound, self.keeps_all, count, *before)
        return before

    def apply_one(self, single: SingleTuple, derived_set: int, lower: int) -> PriorVersions:
        """Apply one tuple like `apply`; return what its edge was before, in arrays that the next call changes."""
        timestamp, before = single.chunk.timestamp, self._before_one
        self._set_of_one[0] = 0 if self.keeps_all else derived_set  # as `apply` does
        self._bound_of_one[0] = lower
        before.timestamp[0], before.derived_set[0], before.is_effective[0] = ABSENT_VERSION, 0, 0
        if not self._room_for_singles:
            self._make_room_for_singles()
        self._room_for_singles -= 1
        if timestamp.item(0) >> _HALF_OF_TIME != self._arrays.upper_time.item(0):
            self._make_room_for_times(timestamp)
        of_one = single.view, self._set_of_one, self._bound_of_one
        if self.keeps_all:
            if not single.chunk.delete.item(0):
                appended = self._view, *of_one, 1, before.is_effective
                if self._append_one is None:
                    self._append_one = bound(append_versions, *appended)
                self._append_one(*appended)
                return before
            self._index_versions(1)  # after which the view may be another one
        arguments = self._view, *of_one, self.keeps_all, 1, *before
        if self._replace_one is None:
            self._replace_one = bound(replace_versions, *arguments)
        self._replace_one(*arguments)
        return before

    def _make_room_for_singles(self) -> None:
        """Make room for some tuples of `apply_one`, each of which would ask three arrays otherwise."""
        some = max(1, min(_SINGLES, self._capacity))
        self._make_room(some)
        self._make_room_for_kinds(some)
        if not self.keeps_all:
            self._index_versions(some)
        self._room_for_singles = some

    def _make_room(self, more: int) -> None:
        """Make room for further versions."""
        arrays, room = self._arrays, len(self._arrays.source)
        missing = self.count + more - room
        if missing > 0:
            added = max(missing, room // 8)
            arrays = lengthen_fields(arrays, added, source=0, target=0, time=0, kind=0)
            if arrays.fields.wide_times:
                arrays = lengthen_fields(arrays, added, upper_time=0)
            if arrays.fields.wide_kinds:
                arrays = lengthen_fields(arrays, added, upper_kind=0)
            self._set(arrays)

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
        if not self.count:
            arrays.upper_time[0] = highest
        if lowest != arrays.upper_time[0] or highest != arrays.upper_time[0]:
            self._set(arrays._replace(upper_time=np.full(len(arrays.source), arrays.upper_time[0], np.int32)))
            arrays.fields.wide_times = 1

    def _index_versions(self, more: int = 0) -> None:
        """Put all versions into the table, with room for `more`, and merge those with equal ends and labels.

        O(versions appended), amortised.
        """
        needed, fields = self.count + more, self._arrays.fields
        distinct = 0 if self.keeps_all else self.count
        if tagged_entries(needed) > len(self._arrays.table):
            room = max(needed + needed // 4, len(self._arrays.source))
            self._set(self._arrays._replace(table=tagged_table(room)))
            distinct = max(distinct, fields.in_table)
            fields.bits, fields.in_table = bits_of_ids(room), 0
        if not fields.in_table:
            self._arrays.table[:] = 0
        if self.count > fields.in_table:
            index_versions(self._view, distinct)

    def live(self, bound: int) -> np.ndarray:
        """Return the numbers of the versions with a timestamp above a bound. O(versions)."""
        if self.keeps_all:
            self._index_versions()
        _, _, _, timestamp, _ = self.all_columns()
        return np.flatnonzero(timestamp > bound)

    def columns(self, numbers: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return source, label, target, timestamp and set of derived labels of versions."""
        return tuple(array[numbers] for array in self.all_columns())

    def all_columns(self) -> tuple[np.ndarray, ...]:
        """Return the same columns of all versions, those that have expired included. O(versions)."""
        arrays, count, kind = self._arrays, self.count, self._kinds()
        timestamp = arrays.time[:count].astype(np.int64)
        upper = arrays.upper_time[: count if arrays.fields.wide_times else 1].astype(np.int64)
        timestamp |= upper << _HALF_OF_TIME
        derived_set = arrays.kind_set[kind]
        is_deleted = derived_set == _DELETED
        timestamp[is_deleted], derived_set[is_deleted] = ABSENT_VERSION, 0
        return arrays.source[:count], arrays.kind_label[kind], arrays.target[:count], timestamp, derived_set

    def ends(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return source, label and target of all versions, some perhaps several times. O(versions)."""
        arrays, count = self._arrays, self.count
        return arrays.source[:count], arrays.kind_label[self._kinds()], arrays.target[:count]

    def _kinds(self) -> np.ndarray:
        """Return the kind of each version."""
        arrays, count = self._arrays, self.count
        kind = arrays.kind[:count].astype(np.int64)
        if arrays.fields.wide_kinds:
            kind |= arrays.upper_kind[:count].astype(np.int64) << _HALF_OF_KIND
        return kind

    @property
    def wants_collection(self) -> bool:
        """True if enough versions have arrived since the last collection to pay for another one."""
        return self.count > 2 * max(self._capacity, self._live_after_collect)

    def collect(self, bound: int) -> None:
        """Forget the versions with a timestamp up to a bound. O(versions)."""
        before = self.count
        self._room_for_singles = 0  # the table may have none of the versions now, which `apply_one` must find
        live = collect_versions(self._view, bound)
        if self.keeps_all and 4 * live > 3 * before:  # little has expired: perhaps there are many with equal ends
            self._index_versions()
            live = self.count
        if len(self._arrays.source) > 4 * max(live, self._capacity):
            self.load(*self.all_columns())
        self._live_after_collect = live

    def renumber(self, numbers: np.ndarray) -> None:
        """Replace the numbers of sets of derived labels by others."""
        source, label, target, timestamp, derived_set = self.all_columns()
        self.load(source, label, target, timestamp, numbers[derived_set])

    def load(
        self, source: np.ndarray, label: np.ndarray, target: np.ndarray, timestamp: np.ndarray, derived_set: np.ndarray
    ) -> None:
        """Replace all versions by these, of which no two have equal ends and labels unless all edges are kept."""
        count = len(source)
        # About as many as there were before will come until the next collection.
        room = max(self._capacity, count, min(len(self._arrays.source), 2 * count))
        derived_set = np.where(timestamp == ABSENT_VERSION, _DELETED, derived_set)
        kind_label, kind_set, kind = _pairs(label, derived_set)
        self._clear(room)
        self._make_room_for_kinds(len(kind_label))
        self._make_room_for_times(timestamp[derived_set != _DELETED])
        arrays = self._arrays
        arrays.source[:count], arrays.target[:count] = source, target
        arrays.time[:count] = timestamp & ((1 << _HALF_OF_TIME) - 1)
        arrays.kind[:count] = kind & ((1 << _HALF_OF_KIND) - 1)
        if arrays.fields.wide_times:
            arrays.upper_time[:count] = timestamp >> _HALF_OF_TIME
        if arrays.fields.wide_kinds:
            arrays.upper_kind[:count] = kind >> _HALF_OF_KIND
        arrays.kind_label[: len(kind_label)], arrays.kind_set[: len(kind_set)] = kind_label, kind_set
        arrays.fields.count, arrays.fields.kinds = count, len(kind_label)
        fill_kind_table(self._view)

    def _check(self) -> None:
        """Assert that the table finds each version, and no edge has two."""
        arrays = self._arrays
        in_table = arrays.fields.in_table
        source, label, target, _, _ = self.all_columns()
        keys = list(zip(*(column[:in_table].tolist() for column in (source, label, target)), strict=True))
        assert len(set(keys)) == in_table, "an edge has two versions"
        entries = arrays.table[(arrays.table > 0) & (in_table > 0)].astype(np.int64)
        numbers = np.sort((entries & ((1 << arrays.fields.bits) - 1)) - 1)
        assert numbers.tolist() == list(range(in_table)), "a version is not in the table"
        for number, (u, name, v) in enumerate(keys):
            assert version_number(self._view, u, name, v) == number, "the table does not find a version"
        kinds = arrays.fields.kinds
        pairs = list(zip(arrays.kind_label[:kinds].tolist(), arrays.kind_set[:kinds].tolist(), strict=True))
        assert len(set(pairs)) == kinds, "two kinds are equal"


def _pairs(label: np.ndarray, derived_set: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the different pairs of a label and a set, and the place of each pair among them."""
    least = int(derived_set.min(initial=0))
    sets = int(derived_set.max(initial=0)) - least + 1
    labels = int(label.max(initial=0)) + 1
    code, place = distinct_values(label.astype(np.int64) * sets + (derived_set - least), labels * sets)
    return code // sets, code % sets + least, place


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
        if (
            versions.source[number] == u
            and versions.target[number] == v
            and versions.kind_label[_kind_at(versions, number)] == label
        ):
            break
        place = next_tagged(versions.table, entries, bits, h, place)
    return place


@njit(cache=True, nogil=True)
def version_number(versions, u, label, v):
    """Return the number of the version that the table has of an edge, -1 if there is none."""
    place = _find(versions, key_hash(u, label, v), u, label, v)
    return tagged_id(versions.table, place, versions.fields.bits) if place >= 0 else np.int64(-1)


@njit(cache=True, nogil=True)
def append_versions(versions, tuples, derived_set, bound, count, is_effective):
    """Append inserts that are not late, whatever versions there are of their edges."""
    last_label, last_set, kind = np.int64(-1), np.int64(-1), np.int64(0)
    number = versions.fields.count
    for i in range(count):
        time = tuples.timestamp[i]
        if tuples.source[i] < 0 or time <= bound[i]:
            continue
        is_effective[i] = 1
        label, one = np.int64(tuples.label[i]), np.int64(derived_set[i])
        if label != last_label or one != last_set:
            last_label, last_set, kind = label, one, _kind_of(versions, label, one)
        versions.source[number] = tuples.source[i]
        versions.target[number] = tuples.target[i]
        _set_time(versions, number, time)
        _set_kind(versions, number, kind)
        number += 1
    versions.fields.count = number


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
            is_there = versions.kind_set[_kind_at(versions, number)] != _DELETED
            if is_there and _time_at(versions, number) > _time_at(versions, i):
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


@njit(cache=True, nogil=True)
def replace_versions(
    versions, tuples, derived_set, bound, keeps_all, count, before_timestamp, before_set, is_effective
):
    """Apply tuples in order, and write what their edges were before each, as `EdgeVersions.apply` says."""
    bits = versions.fields.bits
    for i in range(count):
        u, label, v = np.int64(tuples.source[i]), np.int64(tuples.label[i]), np.int64(tuples.target[i])
        if u < 0:
            continue
        h = key_hash(u, label, v)
        place = _find(versions, h, u, label, v)
        held_time, held_set, number = np.int64(ABSENT_VERSION), np.int64(0), np.int64(-1)
        if place >= 0:
            number = tagged_id(versions.table, place, bits)
            held_set = np.int64(versions.kind_set[_kind_at(versions, number)])
            if held_set != _DELETED:
                held_time = _time_at(versions, number)
        is_held = held_time > bound[i]
        if is_held:
            before_timestamp[i] = held_time
            before_set[i] = held_set
        if tuples.delete[i]:
            is_effective[i] = 1
            if place >= 0:
                _set_kind(versions, number, _kind_of(versions, label, np.int64(_DELETED)))
            continue
        time = tuples.timestamp[i]
        is_older = is_held and time < held_time
        if time <= bound[i] or (is_older and not keeps_all):
            continue
        is_effective[i] = 1
        if place < 0:
            number = versions.fields.count
            versions.fields.count = number + 1
            versions.fields.in_table = number + 1
            versions.source[number] = u
            versions.target[number] = v
            put_tagged(versions.table, place, bits, h, number)
        if not is_older:
            _set_time(versions, number, time)
            _set_kind(versions, number, _kind_of(versions, label, np.int64(derived_set[i])))
