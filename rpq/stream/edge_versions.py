"""The current version of each edge: the timestamp and the conditions that its last insert satisfied.

An edge that carries values may lose some of its derived labels by an insert: the version that the insert brings satisfies
other conditions than the one that it replaces. `EdgeVersions` knows edges by source, label and target, and returns for each
tuple what the edge was before it. An insert that is older than the version that is held changes nothing; where each insert
is an edge of its own (`keeps_all`), it is one version more, and the largest timestamp counts.

Versions expire with the longest window: one that has left it counts as absent, and `collect` forgets it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rpq.compiled.arrays.hashing import clear, first_candidate, id_at, new_table, next_candidate, put, put_new, table_size
from rpq.compiled.kernel_cache import njit
from rpq.compiled.views import bound as compiled_for
from rpq.compiled.views import view
from rpq.stream.chunk import Chunk
from rpq.stream.edge_store import LONG_AGO, key_hash

ABSENT_VERSION = int(LONG_AGO)
"""In place of the timestamp of an edge that is not held."""

_COUNT = 0
_ENTRIES = 1
_FIELDS = 2


class _Arrays(NamedTuple):
    """The versions by number, and the table that finds them."""

    source: np.ndarray  # int32 a version
    label: np.ndarray  # int32 a version
    target: np.ndarray  # int32 a version
    timestamp: np.ndarray  # int64 a version, ABSENT_VERSION once deleted
    satisfied: np.ndarray  # int32 a version: the number of the set of derived labels that it has
    table: np.ndarray  # int32, see `rpq/compiled/arrays/hashing.py`
    fields: np.ndarray  # int64[_FIELDS]


class VersionsBefore(NamedTuple):
    """What the edges of tuples were before each of them."""

    timestamp: np.ndarray  # int64: of the version, ABSENT_VERSION where none is held
    satisfied: np.ndarray  # int32: its set of derived labels, 0 where none is held
    is_effective: np.ndarray  # uint8: the tuple changes the edge: no insert that is late or older than the version held


class EdgeVersions:
    """The versions of edges by source, label and target.

    >>> versions = EdgeVersions(keeps_all=False)
    >>> one = np.zeros(2, np.int32)
    >>> chunk = Chunk(one, one, one, np.array([5, 3]), np.zeros(2, np.uint8), one)
    >>> versions.apply(chunk, np.array([1, 2], np.int32), np.full(2, -10))
    VersionsBefore(timestamp=array([-9223372036854775808,                    5]), satisfied=array([0, 1], dtype=int32), \
is_effective=array([1, 0], dtype=uint8))
    """

    def __init__(self, *, keeps_all: bool, capacity: int = 1024) -> None:
        self.keeps_all = keeps_all
        self._capacity = capacity
        before = VersionsBefore(np.zeros(1, np.int64), np.zeros(1, np.int32), np.zeros(1, np.uint8))
        self._before_one = before, (np.zeros(1, np.int32), np.zeros(1, np.int64))
        self._replace_one: Any = None
        self._clear(capacity)

    def _clear(self, room: int) -> None:
        self._set(
            _Arrays(
                source=np.zeros(room, np.int32),
                label=np.zeros(room, np.int32),
                target=np.zeros(room, np.int32),
                timestamp=np.full(room, ABSENT_VERSION, np.int64),
                satisfied=np.zeros(room, np.int32),
                table=new_table(room),
                fields=np.zeros(_FIELDS, np.int64),
            )
        )
        self._live_after_collect = 0

    def _set(self, arrays: _Arrays) -> None:
        arrays.fields[_ENTRIES] = len(arrays.table)
        self._arrays = arrays
        self._view: Any = view(arrays)

    @property
    def count(self) -> int:
        """The number of versions, those that have expired included."""
        return int(self._arrays.fields[_COUNT])

    @property
    def nbytes(self) -> int:
        """The number of bytes held."""
        return sum(array.nbytes for array in self._arrays)

    def apply(self, chunk: Chunk, satisfied: np.ndarray, bound: np.ndarray) -> VersionsBefore:
        """Apply tuples in order; return what their edges were before. O(tuples).

        `satisfied` (int32) is the set of derived labels that each insert has, `bound` (int64) the timestamp up to which
        edges have left every window at each tuple. Tuples with a source below 0 are left out.
        """
        count = len(satisfied)
        self._make_room(count)
        before = VersionsBefore(
            np.full(count, ABSENT_VERSION, np.int64), np.zeros(count, np.int32), np.zeros(count, np.uint8)
        )
        replace_versions(self._view, view(chunk), satisfied, bound, self.keeps_all, count, *before)
        return before

    def apply_one(self, tuples: Any, satisfied: int, bound: int) -> VersionsBefore:
        """Apply the one tuple of a view like `apply`; the arrays that are returned hold until the next call."""
        self._make_room(1)
        before, arguments = self._before_one
        for array, nothing in zip(before, (ABSENT_VERSION, 0, 0), strict=True):
            array[0] = nothing
        arguments[0][0], arguments[1][0] = satisfied, bound
        one = self._view, tuples, *arguments, self.keeps_all, 1, *before
        if self._replace_one is None:
            self._replace_one = compiled_for(replace_versions, *one)
        self._replace_one(*one)
        return before

    def _make_room(self, more: int) -> None:
        arrays, needed = self._arrays, self.count + more
        room = len(arrays.source)
        if needed <= room:
            return
        added = max(needed - room, room // 2)
        self._set(
            arrays._replace(
                source=np.concatenate([arrays.source, np.zeros(added, np.int32)]),
                label=np.concatenate([arrays.label, np.zeros(added, np.int32)]),
                target=np.concatenate([arrays.target, np.zeros(added, np.int32)]),
                timestamp=np.concatenate([arrays.timestamp, np.full(added, ABSENT_VERSION, np.int64)]),
                satisfied=np.concatenate([arrays.satisfied, np.zeros(added, np.int32)]),
            )
        )
        if table_size(room + added) > len(arrays.table):
            self._set(self._arrays._replace(table=new_table(room + added)))
            fill_version_table(self._view)

    def live(self, bound: int) -> np.ndarray:
        """Return the numbers of the versions with a timestamp above a bound. O(versions)."""
        return np.flatnonzero(self._arrays.timestamp[: self.count] > bound)

    def columns(self, numbers: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return source, label, target, timestamp and set of derived labels of versions."""
        return tuple(array[numbers] for array in self._arrays[:5])

    def all_columns(self) -> tuple[np.ndarray, ...]:
        """Return views of the same columns of all versions, those that have expired included."""
        return tuple(array[: self.count] for array in self._arrays[:5])

    @property
    def wants_collection(self) -> bool:
        """Whether so many versions came since the last collection that looking for expired ones is paid for."""
        return self.count > 2 * max(self._capacity, self._live_after_collect)

    def collect(self, bound: int) -> None:
        """Forget the versions with a timestamp up to a bound. O(versions)."""
        live = self.live(bound)
        if len(live) < self.count:
            self.load(*self.columns(live))
        self._live_after_collect = len(live)

    def renumber(self, numbers: np.ndarray) -> None:
        """Replace the numbers of sets of derived labels by others."""
        self._arrays.satisfied[:] = numbers[self._arrays.satisfied]

    def load(
        self, source: np.ndarray, label: np.ndarray, target: np.ndarray, timestamp: np.ndarray, satisfied: np.ndarray
    ) -> None:
        """Replace all versions by these."""
        count = len(source)
        self._clear(max(self._capacity, count))
        for array, values in zip(self._arrays, (source, label, target, timestamp, satisfied), strict=False):
            array[:count] = values
        self._arrays.fields[_COUNT] = count
        fill_version_table(self._view)

    def _check(self) -> None:
        """Assert that the table finds each version, and no edge has two."""
        columns = self.columns(np.arange(self.count))
        keys = set(zip(*(column.tolist() for column in columns[:3]), strict=True))
        assert len(keys) == self.count, "an edge has two versions"
        numbers = np.sort(self._arrays.table[self._arrays.table > 0] - 1)
        assert numbers.tolist() == list(range(self.count)), "a version is not in the table"


@njit(cache=True, nogil=True)
def fill_version_table(versions):
    """Put all versions into the table, which is emptied first."""
    entries = versions.fields[_ENTRIES]
    clear(versions.table, entries)
    for number in range(versions.fields[_COUNT]):
        h = key_hash(np.int64(versions.source[number]), np.int64(versions.label[number]), np.int64(versions.target[number]))
        put_new(versions.table, entries, h, number)


@njit(cache=True, nogil=True)
def replace_versions(
    versions, tuples, satisfied, bound, keeps_all, count, before_timestamp, before_satisfied, is_effective
):
    """Apply tuples in order, and write what their edges were before each, as `EdgeVersions.apply` says."""
    entries = versions.fields[_ENTRIES]
    for i in range(count):
        u, label, v = np.int64(tuples.source[i]), np.int64(tuples.label[i]), np.int64(tuples.target[i])
        if u < 0:
            continue
        h = key_hash(u, label, v)
        place = first_candidate(versions.table, entries, h)
        number = np.int64(-1)
        while place >= 0:
            number = id_at(versions.table, place)
            if versions.source[number] == u and versions.target[number] == v and versions.label[number] == label:
                break
            place = next_candidate(versions.table, entries, place)
        is_held = place >= 0 and versions.timestamp[number] > bound[i]
        if is_held:
            before_timestamp[i] = versions.timestamp[number]
            before_satisfied[i] = versions.satisfied[number]
        if tuples.delete[i]:
            is_effective[i] = 1
            if place >= 0:
                versions.timestamp[number] = ABSENT_VERSION
                versions.satisfied[number] = 0
            continue
        time = tuples.timestamp[i]
        is_older = is_held and time < versions.timestamp[number]
        if time <= bound[i] or (is_older and not keeps_all):
            continue
        is_effective[i] = 1
        if place < 0:
            number = versions.fields[_COUNT]
            versions.fields[_COUNT] = number + 1
            versions.source[number] = u
            versions.label[number] = label
            versions.target[number] = v
            put(versions.table, place, number)
        if not is_older:
            versions.timestamp[number] = time
            versions.satisfied[number] = satisfied[i]
