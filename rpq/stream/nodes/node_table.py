"""The facts of nodes: labels and properties by vertex id, each with the time at which it was set.

Facts have no window. A record changes no fact that was set later than its own time; what is taken away leaves no time
behind. Most tables are loaded without times: then no times are stored.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from rpq.stream.arrays.properties import PropertyTypes

ADD, REPLACE, REMOVE = 0, 1, 2
"""The operations of records: + adds facts, = replaces all, - takes all away."""

APPLIED, STALE, ABSENT = 0, 1, 2
"""The outcomes of records: a stale one touches only facts that were set later, an absent one removes an unknown vertex."""

NO_TIME = int(np.iinfo(np.int64).min)
"""The time of a record without one; before the first tuple, its facts are set at this time, earlier than all others."""

OWN_COLUMNS = ("node", "labels", "op", "timestamp")
"""The columns of records that are no properties."""


class NodeRecords(NamedTuple):
    """Records of different vertices, in order of arrival."""

    vertex: np.ndarray
    """int32"""
    op: np.ndarray
    """uint8"""
    time: np.ndarray
    """int64: the times at which facts are set."""
    labels: Sequence[Sequence[str]] | None
    """The labels that each states; None if none states any."""
    properties: Mapping[str, pa.Array]
    """Values by property; a null takes the property away."""
    stated: Mapping[str, np.ndarray]
    """bool: which records state a property, for properties that some do not."""

    def slice(self, first: int, end: int) -> NodeRecords:
        """Return some consecutive records."""
        return NodeRecords(
            self.vertex[first:end],
            self.op[first:end],
            self.time[first:end],
            None if self.labels is None else self.labels[first:end],
            {name: column.slice(first, end - first) for name, column in self.properties.items()},
            {name: mask[first:end] for name, mask in self.stated.items()},
        )

    def of_different_vertices(self) -> Iterator[tuple[int, NodeRecords]]:
        """Yield parts in each of which no vertex stands twice, with the place of their first record. O(records)."""
        order = np.argsort(self.vertex, kind="stable")
        is_again = np.append(False, self.vertex[order][1:] == self.vertex[order][:-1])
        earlier = np.full(len(order), -1, np.int64)
        earlier[order[is_again]] = order[np.flatnonzero(is_again) - 1]
        first = 0
        for place in np.flatnonzero(earlier >= 0).tolist():
            if earlier[place] >= first:
                yield first, self.slice(first, place)
                first = place
        yield first, self.slice(first, len(order))


class _Property:
    """The values of one property by vertex id."""

    def __init__(self, kind: pa.DataType, room: int) -> None:
        plain = {pa.int64(): np.int64, pa.float64(): np.float64, pa.bool_(): np.bool_}
        dtype: type = np.int64 if pa.types.is_timestamp(kind) else plain.get(kind, object)
        self.values: np.ndarray = np.zeros(room, dtype)
        self.is_there = np.zeros(room, bool)
        self.time: np.ndarray | None = None

    def grow(self, room: int) -> None:
        more = room - len(self.values)
        self.values = np.append(self.values, np.zeros(more, self.values.dtype))
        self.is_there = np.append(self.is_there, np.zeros(more, bool))
        if self.time is not None:
            self.time = np.append(self.time, np.full(more, NO_TIME))

    def set(self, ids: np.ndarray, values: pa.Array, time: np.ndarray) -> None:
        """Set values that are not null, at these times."""
        if not len(ids):
            return
        self.values[ids] = _numpy_of(values, self.values.dtype)
        self.is_there[ids] = True
        if self.time is None and (time != NO_TIME).any():
            self.time = np.full(len(self.values), NO_TIME)
        if self.time is not None:
            self.time[ids] = time

    def drop(self, ids: np.ndarray) -> None:
        self.is_there[ids] = False
        if self.values.dtype.kind == "O":
            self.values[ids] = 0

    def is_later(self, ids: np.ndarray, time: np.ndarray) -> np.ndarray:
        """Return which vertices have a value that was set after a time (bool)."""
        if self.time is None:
            return np.zeros(len(ids), bool)
        found: np.ndarray = self.is_there[ids] & (self.time[ids] > time)
        return found

    def column(self, ids: np.ndarray, kind: pa.DataType) -> pa.Array:
        """Return values in their type, null where there is none."""
        is_missing = ~self.is_there[ids]
        values = self.values[ids]
        if values.dtype == object:
            values[is_missing] = None
            return pa.array(values, kind)
        if pa.types.is_timestamp(kind):
            return pa.array(values, pa.int64(), mask=is_missing).cast(kind)
        return pa.array(values, kind, mask=is_missing)

    @property
    def nbytes(self) -> int:
        return self.values.nbytes + self.is_there.nbytes + (0 if self.time is None else self.time.nbytes)


def _numpy_of(values: pa.Array, dtype: np.dtype) -> np.ndarray:
    """Return values without nulls as an array; equal texts are one object."""
    if dtype.kind == "O":
        encoded = values.dictionary_encode() if pa.types.is_string(values.type) else None
        if encoded is None:
            found = np.empty(len(values), object)
            found[:] = values.to_pylist()
            return found
        texts = np.empty(len(encoded.dictionary), object)
        texts[:] = encoded.dictionary.to_pylist()
        return texts[encoded.indices.to_numpy()]
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.int64())
    return values.to_numpy(zero_copy_only=False).astype(dtype, copy=False)


class NodeTable:
    """The facts of vertices that have a record.

    >>> table = NodeTable()
    >>> time, ids = np.array([5]), np.array([0], np.int32)
    >>> values = {"risk": pa.array([4])}
    >>> table.types.by_name["risk"] = pa.int64()
    >>> table.apply(NodeRecords(ids, np.array([ADD], np.uint8), time, [["Account"]], values, {})).tolist()
    [0]
    >>> table.column("risk", np.arange(2)).to_pylist(), table.labels_of(0)
    ([4, None], ('Account',))
    >>> table.apply(NodeRecords(ids, np.array([REMOVE], np.uint8), time - 1, None, {}, {})).tolist(), table.labels_of(0)
    ([0], ('Account',))
    """

    def __init__(self, properties: Collection[str] | None = None) -> None:
        self.kept = None if properties is None else frozenset(properties)
        """The names of the properties that are kept; None for all."""
        self.types = PropertyTypes()
        self.counts = np.zeros(3, np.int64)
        """The number of records with each outcome."""
        self._is_known = np.zeros(0, bool)
        self._properties: dict[str, _Property] = {}
        self._label_sets: list[tuple[str, ...]] = [()]
        self._numbers: dict[tuple[str, ...], int] = {(): 0}
        self._label_set = np.zeros(0, np.int32)
        self._label_time: np.ndarray | None = None  # of all labels of a vertex, except for those of `_label_times`
        self._label_times: dict[int, dict[str, int]] = {}
        self.known = 0
        """The number of vertices with a record."""

    def __len__(self) -> int:
        return self.known

    @property
    def nbytes(self) -> int:
        """The number of bytes held, without the Python objects of texts and decimals."""
        arrays = self._is_known.nbytes + self._label_set.nbytes
        arrays += 0 if self._label_time is None else self._label_time.nbytes
        return arrays + sum(one.nbytes for one in self._properties.values()) + 300 * len(self._label_times)

    def make_room(self, vertices: int) -> None:
        """Make room for vertex ids below a number."""
        room = len(self._is_known)
        if vertices <= room:
            return
        more = max(vertices, room + room // 2, 64) - room
        self._is_known = np.append(self._is_known, np.zeros(more, bool))
        self._label_set = np.append(self._label_set, np.zeros(more, np.int32))
        if self._label_time is not None:
            self._label_time = np.append(self._label_time, np.full(more, NO_TIME))
        for one in self._properties.values():
            one.grow(room + more)

    # --- records ---------------------------------------------------------------------------------------------

    def apply(self, records: NodeRecords) -> np.ndarray:
        """Apply records of different vertices; return the outcome of each (uint8). O(records · properties)."""
        ids, op, time = records.vertex, records.op, records.time
        if not len(ids):
            return np.zeros(0, np.uint8)
        self.make_room(int(ids.max()) + 1)
        was_known = self._is_known[ids]
        takes_rest, removes = op != ADD, op == REMOVE
        names_fact, is_free = np.zeros(len(ids), bool), np.zeros(len(ids), bool)
        for name in {**self._properties, **dict.fromkeys(records.properties)}:
            column = records.properties.get(name)
            held = self._properties.get(name)
            if held is None:
                if column is None or not self._keeps(name):
                    continue
                if column.null_count == len(column):
                    is_free |= self._stated(records, name) & ~removes  # takes away what is not there
                    names_fact |= self._stated(records, name) & ~removes
                    continue
                held = self._properties[name] = _Property(self.types.by_name[name], len(self._is_known))
            stated = np.zeros(len(ids), bool) if column is None else self._stated(records, name) & ~removes
            is_later, was_there = held.is_later(ids, time), held.is_there[ids]
            names_fact |= stated
            is_free |= (stated | (takes_rest & was_there)) & ~is_later
            takes = was_there & ~is_later & (takes_rest | stated)
            if column is not None:
                sets = stated & column.is_valid().to_numpy(zero_copy_only=False) & ~is_later
                rows = np.flatnonzero(sets)
                is_whole = len(rows) == len(ids)
                held.set(ids if is_whole else ids[rows], column if is_whole else column.take(pa.array(rows)), time[rows])
                takes &= ~sets
            held.drop(ids[takes])
        self._apply_labels(records, names_fact, is_free)
        has_facts = self._label_set[ids] != 0
        for held in self._properties.values():
            has_facts |= held.is_there[ids]
        is_known = ~removes | (was_known & has_facts)
        self._is_known[ids] = is_known
        self.known += int(np.count_nonzero(is_known)) - int(np.count_nonzero(was_known))
        outcome = np.zeros(len(ids), np.uint8)
        outcome[names_fact & ~is_free] = STALE
        outcome[removes & ~was_known] = ABSENT
        self.counts += np.bincount(outcome, minlength=3)
        return outcome

    def _keeps(self, name: str) -> bool:
        return self.kept is None or name in self.kept

    def _stated(self, records: NodeRecords, name: str) -> np.ndarray:
        stated = records.stated.get(name)
        return np.ones(len(records.vertex), bool) if stated is None else stated

    def _apply_labels(self, records: NodeRecords, names_fact: np.ndarray, is_free: np.ndarray) -> None:
        """Apply the labels of records, and note which records state one, and which may change one."""
        ids, op = records.vertex, records.op
        states = np.zeros(len(ids), bool)
        if records.labels is not None:
            states = np.array([bool(labels) for labels in records.labels], bool) & (op != REMOVE)
        names_fact |= states
        rows = np.flatnonzero(states | ((op != ADD) & (self._label_set[ids] != 0)))
        if not len(rows):
            return
        if self._label_time is None and (records.time[rows] != NO_TIME).any():
            self._label_time = np.full(len(self._is_known), NO_TIME)
        for row, vertex, number, time, one_op in zip(
            rows.tolist(),
            ids[rows].tolist(),
            self._label_set[ids[rows]].tolist(),
            records.time[rows].tolist(),
            op[rows].tolist(),
            strict=True,
        ):
            stated = () if records.labels is None or one_op == REMOVE else records.labels[row]
            held = self._label_sets[number]
            if self._label_time is None:
                new: Collection[str] = {*held, *stated} if one_op == ADD else stated
                is_free[row] = True
            else:
                times = self._label_times.get(vertex) or dict.fromkeys(held, int(self._label_time[vertex]))
                is_free[row] |= any(times.get(label, time) <= time for label in stated)
                if one_op != ADD:
                    is_free[row] |= any(set_at <= time for set_at in times.values())
                    times = {label: set_at for label, set_at in times.items() if set_at > time}
                times = times | {label: time for label in stated if times.get(label, time) <= time}
                self._set_label_times(vertex, times)
                new = times
            key = tuple(sorted({*new}))
            if key != held:
                self._label_set[vertex] = self._number_of(key)

    def _set_label_times(self, vertex: int, times: dict[str, int]) -> None:
        assert self._label_time is not None
        self._label_times.pop(vertex, None)
        if len({*times.values()}) > 1:
            self._label_times[vertex] = times
        else:
            self._label_time[vertex] = next(iter(times.values()), NO_TIME)

    def _number_of(self, labels: tuple[str, ...]) -> int:
        number = self._numbers.get(labels)
        if number is None:
            number = self._numbers[labels] = len(self._label_sets)
            self._label_sets.append(labels)
        return number

    # --- facts -----------------------------------------------------------------------------------------------

    @property
    def vertices(self) -> np.ndarray:
        """The ids of the vertices with a record (int32), ascending. O(ids)."""
        return np.flatnonzero(self._is_known).astype(np.int32)

    @property
    def properties(self) -> list[str]:
        """The names of the properties that vertices had."""
        return [*self._properties]

    def are_known(self, ids: np.ndarray) -> np.ndarray:
        """Return which vertices have a record (bool)."""
        self.make_room(int(ids.max(initial=-1)) + 1)
        found: np.ndarray = self._is_known[ids]
        return found

    def labels_of(self, vertex: int) -> tuple[str, ...]:
        """Return the labels of a vertex, ascending."""
        return self._label_sets[self._label_set[vertex]] if vertex < len(self._label_set) else ()

    def have_label(self, label: str, ids: np.ndarray) -> np.ndarray:
        """Return which vertices have a label (bool)."""
        self.make_room(int(ids.max(initial=-1)) + 1)
        has_label = np.array([label in labels for labels in self._label_sets], bool)
        found: np.ndarray = has_label[self._label_set[ids]]
        return found

    def label_lists(self, ids: np.ndarray) -> list[tuple[str, ...]]:
        """Return the labels of vertices."""
        self.make_room(int(ids.max(initial=-1)) + 1)
        return [self._label_sets[number] for number in self._label_set[ids].tolist()]

    def column(self, name: str, ids: np.ndarray) -> pa.Array:
        """Return a property of vertices, null where they have none, in its type. O(ids)."""
        held = self._properties.get(name)
        kind = self.types.by_name.get(name, pa.string())
        if held is None:
            return pa.nulls(len(ids), kind)
        self.make_room(int(ids.max(initial=-1)) + 1)
        return held.column(ids, kind)

    # --- saved states ----------------------------------------------------------------------------------------

    def times_of(self, name: str, ids: np.ndarray) -> np.ndarray:
        """Return the times at which a property of vertices was set (int64)."""
        held = self._properties[name]
        return np.full(len(ids), NO_TIME) if held.time is None else held.time[ids]

    def label_times(self, ids: Iterable[int]) -> list[list[int]]:
        """Return for each vertex the times at which its labels were set, in the order of the labels."""
        found = []
        for vertex in ids:
            labels, times = self.labels_of(vertex), self._label_times.get(vertex)
            base = NO_TIME if self._label_time is None else int(self._label_time[vertex])
            found.append([base if times is None else times[label] for label in labels])
        return found

    def restore(
        self,
        ids: np.ndarray,
        labels: Sequence[Sequence[str]],
        label_times: Sequence[Sequence[int]],
        properties: Mapping[str, tuple[pa.Array, np.ndarray]],
    ) -> None:
        """Set the facts of vertices that have none, with the times at which they were set; types are known."""
        self.make_room(int(ids.max(initial=-1)) + 1)
        self._is_known[ids] = True
        self.known = len(ids)
        for name, (values, time) in properties.items():
            held = self._properties[name] = _Property(self.types.by_name[name], len(self._is_known))
            rows = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
            held.set(ids[rows], values.take(pa.array(rows)), time[rows])
        if any(time != NO_TIME for times in label_times for time in times):
            self._label_time = np.full(len(self._is_known), NO_TIME)
        for vertex, of_vertex, times in zip(ids.tolist(), labels, label_times, strict=True):
            if of_vertex:
                self._label_set[vertex] = self._number_of(tuple(of_vertex))
                if self._label_time is not None:
                    self._set_label_times(vertex, dict(zip(of_vertex, times, strict=True)))
