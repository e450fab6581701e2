"""The edges that tuples become: their own labels where these are read, and derived labels, as inserts and deletes.

A tuple becomes an edge with each derived label that its version satisfies, and deletes those that only the version before
it had. All of them are one event. Tuples of one kind become the same edges but for their ends: their kind is the set of
derived labels before and after, whether the own label is read, and whether the tuple is a delete. What a kind becomes (its
template) is determined once for a chunk.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from rpq.engine.running.condition_sets import ConditionSets
from rpq.stream.chunk import Chunk
from rpq.stream.edge_versions import ABSENT_VERSION, VersionsBefore
from rpq.stream.edges_by_id import Operations
from rpq.stream.labels import LabelDictionary
from rpq.stream.numpy_arrays import distinct_values

_OWN_LABEL = -1
"""In place of a derived label in a template: the label of the tuple."""


class TupleEdges(NamedTuple):
    """Edges that tuples become, each with the number of its tuple in the chunk."""

    row: np.ndarray  # int64
    source: np.ndarray  # int32
    label: np.ndarray  # int32
    target: np.ndarray  # int32
    delete: np.ndarray  # uint8


class DerivedChunk(NamedTuple):
    """The tuples of a chunk as edges with derived labels."""

    chunk: Chunk
    row: np.ndarray | None
    """int64: for each edge the tuple of the chunk that it is of; None where there is one for each."""
    first: np.ndarray | None
    """int64: for each edge the place of the first of its event; None where each is an event of its own."""
    outcome: np.ndarray
    """uint8: the outcome of each tuple."""
    evicted: np.ndarray | None = None
    """bool: for each edge whether a window that is decided before the graph evicts it; None where no window is."""
    boundary: np.ndarray | None = None
    """int32: for each edge the boundary of which it is, below 0, that its tuple crosses; 0 for the tuple itself."""

    def first_of_events(self, events: np.ndarray) -> np.ndarray:
        """Return `first` for events of several tuples, whose first tuples are `events` (int64, a tuple)."""
        of_edges = events if self.row is None else events[self.row]
        is_first = np.diff(of_edges, prepend=-1) != 0
        if self.boundary is not None:
            is_first |= np.diff(self.boundary, prepend=0) != 0
        begins = np.flatnonzero(is_first)
        return np.repeat(begins, np.diff(begins, append=len(of_edges)))

    def first_of_parts(self, first: np.ndarray | None) -> np.ndarray | None:
        """Return `first` of events whose evictions are events of their own, as queries see them that net events themselves.

        What evictions alone remove can then be told from the rest.
        """
        if first is None or self.evicted is None or not self.evicted.any():
            return first
        is_first = first == np.arange(len(first))
        is_first[1:] |= self.evicted[1:] != self.evicted[:-1]
        begins = np.flatnonzero(is_first)
        return np.repeat(begins, np.diff(begins, append=len(first)))

    def merge(self, more: TupleEdges, timestamp: np.ndarray) -> DerivedChunk:
        """Return these edges and further ones of the same tuples, which are one event with them.

        `timestamp` are those of the tuples.
        """
        before = np.arange(len(self.chunk.label)) if self.row is None else self.row
        row = np.concatenate([before, more.row])
        order = np.argsort(row, kind="stable")
        row = row[order]

        def merged(one: np.ndarray, other: np.ndarray) -> np.ndarray:
            column: np.ndarray = np.concatenate([one, other.astype(one.dtype)])[order]
            return column

        chunk = Chunk(
            source=merged(self.chunk.source, more.source),
            target=merged(self.chunk.target, more.target),
            label=merged(self.chunk.label, more.label),
            timestamp=merged(self.chunk.timestamp, timestamp[more.row]),
            delete=merged(self.chunk.delete, more.delete),
            edge=np.empty(len(row), np.int32),
        )
        is_first = np.append(True, row[1:] != row[:-1])
        return DerivedChunk(chunk, row, np.flatnonzero(is_first)[np.cumsum(is_first) - 1], self.outcome)


class _Template(NamedTuple):
    """The edges that tuples of one kind become: a label each, and whether it is deleted."""

    labels: list[int]
    deletes: list[int]


class EdgeDerivation:
    """The derivation of edges from tuples, whose sets of derived labels are numbers in `sets`.

    With `replaces` an insert replaces the edge with its ends and label, and deletes the derived labels that only that had.
    """

    def __init__(self, sets: ConditionSets, labels: LabelDictionary, *, replaces: bool) -> None:
        self._sets = sets
        self._labels = labels
        self._replaces = replaces

    def derive(
        self,
        chunk: Chunk,
        now: np.ndarray,
        *,
        satisfied: np.ndarray,
        before: VersionsBefore,
        is_late: np.ndarray,
        is_plain: np.ndarray,
        outcome: np.ndarray,
        has_more: Sequence[int] | np.ndarray,
    ) -> DerivedChunk:
        """Return the edges of tuples. Late ones are among them, so that the graph knows what is lost.

        `now` are the stream times after the tuples, `satisfied` the sets of derived labels that they have, `before` the
        versions of their edges before them, and `is_plain` says whether a query reads their label without a condition.
        The tuples at the places `has_more` become other edges too. O(tuples + edges).
        """
        is_delete = chunk.delete != 0
        is_effective = before.is_effective != 0
        new = np.where((is_effective | is_late) & ~is_delete & (chunk.source >= 0), satisfied, 0)
        if self._replaces:
            old = np.where(is_effective, before.satisfied, 0)
        else:
            old = np.zeros(len(new), np.int32)
            if is_delete.any():
                is_gone = is_effective & is_delete & (before.timestamp != ABSENT_VERSION)
                old = np.where(is_gone, self.whole_sets(chunk), old)
        is_edge = (old | new != 0) | is_plain
        if len(has_more):
            is_edge[has_more] = True
        rows = _rows_to_apply(is_edge, chunk.timestamp, now)
        if rows is not None:
            chunk = Chunk(*(column[rows] for column in chunk))
            old, new, is_plain, is_delete = (column[rows] for column in (old, new, is_plain, is_delete))
        sets = self._sets.count
        code = ((old.astype(np.int64) * sets + new) * 2 + is_plain) * 2 + is_delete
        used, place = distinct_values(code, sets * sets * 4)
        templates = [self._template(int(one), sets) for one in used.tolist()]
        lengths = np.array([len(template.labels) for template in templates])
        labels = np.array([label for template in templates for label in template.labels], np.int32)
        deletes = np.array([delete for template in templates for delete in template.deletes], np.uint8)
        if (lengths == 1).all():
            label = labels[place]
            own = label == _OWN_LABEL
            label[own] = chunk.label[own]
            return DerivedChunk(chunk._replace(label=label, delete=deletes[place]), rows, None, outcome)
        begins = np.cumsum(lengths) - lengths
        many = lengths[place]
        row = np.repeat(np.arange(len(place)), many)
        first = np.repeat(np.cumsum(many) - many, many)
        inside = np.repeat(begins[place], many) + np.arange(len(row)) - first
        label = labels[inside]
        own = label == _OWN_LABEL
        label[own] = chunk.label[row[own]]
        edges = Chunk(*(column[row] for column in chunk))._replace(label=label, delete=deletes[inside])
        return DerivedChunk(edges, row if rows is None else rows[row], first, outcome)

    def derive_one(
        self,
        label: int,
        *,
        satisfied: int,
        before: VersionsBefore,
        is_delete: bool,
        is_late: bool,
        is_plain: bool,
    ) -> tuple[list[int], list[int]]:
        """Return the labels of the edges of one tuple and whether each is deleted, like `derive`."""
        is_effective = bool(before.is_effective.item(0))
        new = satisfied if is_effective or is_late else 0
        old = 0
        if is_effective and self._replaces:
            old = before.satisfied.item(0)
        elif is_effective and is_delete and before.timestamp.item(0) != ABSENT_VERSION:
            old = self._sets.whole_set(str(self._labels.names[label]))
        if not (old or new):
            return [label], [int(is_delete)]
        sets = self._sets.count
        template = self._template(((old * sets + new) * 2 + is_plain) * 2 + is_delete, sets)
        return [label if one == _OWN_LABEL else one for one in template.labels], template.deletes

    def derive_statics(self, chunk: Chunk, values: Mapping[str, pa.Array]) -> TupleEdges:
        """Return static edges with these values under the derived labels that they have. O(edges · conditions)."""
        satisfied = self._sets.sets_of(chunk.label, self._labels.names, values, None)
        many = np.array([len(self._sets.labels_of(number)) for number in satisfied.tolist()], np.int64)
        row = np.repeat(np.arange(len(many)), many)
        label = np.array([one for number in satisfied.tolist() for one in self._sets.labels_of(number)], np.int32)
        return TupleEdges(row, chunk.source[row], label, chunk.target[row], np.zeros(len(row), np.uint8))

    def whole_sets(self, chunk: Chunk) -> np.ndarray:
        """Return for the tuples of a chunk the number of the set of all derived labels of their label (int32)."""
        whole = np.zeros(len(self._labels.names), np.int32)
        for label in np.unique(chunk.label[chunk.delete != 0]).tolist():
            name = self._labels.names[label]
            if isinstance(name, str):
                whole[label] = self._sets.whole_set(name)
        if len(whole) < len(self._labels.names):  # derived labels that are new
            whole = np.concatenate([whole, np.zeros(len(self._labels.names) - len(whole), np.int32)])
        sets: np.ndarray = whole[chunk.label]
        return sets

    def _template(self, code: int, sets: int) -> _Template:
        """Return the edges of tuples of a kind, deletes first.

        A tuple that becomes no other edge is one with its own label, which moves the time.
        """
        code, is_delete = divmod(code, 2)
        code, is_plain = divmod(code, 2)
        old, new = divmod(code, sets)
        inserted = self._sets.labels_of(new)
        deleted = [label for label in self._sets.labels_of(old) if label not in set(inserted)]
        is_alone = not inserted and not deleted
        labels = [*([_OWN_LABEL] if is_plain or is_alone else []), *deleted, *inserted]
        own = [is_delete] if is_plain or is_alone else []
        return _Template(labels, [*own, *[1] * len(deleted), *[0] * len(inserted)])


def chunk_of_operations(
    made: Operations,
    chunk: Chunk,
    now: np.ndarray,
    *,
    outcome: np.ndarray,
    has_more: Sequence[int] | np.ndarray = (),
    evicted: np.ndarray | None = None,
    boundary: np.ndarray | None = None,
) -> DerivedChunk:
    """Return operations on the graph as edges, with the tuples that are needed to move the time.

    `now` are the stream times after the tuples of the chunk. The tuples at the places `has_more` become other edges too.
    `evicted` says of each operation whether it is an eviction, and `boundary` is that of `DerivedChunk`.
    """
    own = made.row if boundary is None else made.row[boundary == 0]
    has_operations = np.bincount(own, minlength=len(chunk.label)) > 0
    if len(has_more):
        has_operations[has_more] = True
    rows = _rows_to_apply(has_operations, chunk.timestamp, now)
    idle = np.zeros(0, np.int64) if rows is None else rows[~has_operations[rows]]
    nothing = np.full(len(idle), -1, np.int32)
    row = np.concatenate([made.row, idle])
    order = np.argsort(row, kind="stable")
    moved = nothing, chunk.label[idle], nothing, chunk.timestamp[idle], np.ones(len(idle), np.uint8)
    columns = (np.concatenate([one, other])[order] for one, other in zip(made[:5], moved, strict=True))
    source, label, target, timestamp, delete = (np.ascontiguousarray(column) for column in columns)
    row = row[order]
    derived = Chunk(source, target, label, timestamp, delete, np.empty(len(row), np.int32))
    are_evicted = None if evicted is None else np.append(evicted, np.zeros(len(idle), bool))[order]
    is_first = np.diff(row, prepend=-1) != 0
    boundaries = None if boundary is None else np.append(boundary, np.zeros(len(idle), boundary.dtype))[order]
    if boundaries is not None:
        is_first |= np.diff(boundaries, prepend=0) != 0
    begins = np.flatnonzero(is_first)
    if len(begins) == len(row) and are_evicted is None:
        return DerivedChunk(derived, row, None, outcome)
    first = np.repeat(begins, np.diff(begins, append=len(row)))
    return DerivedChunk(derived, row, first, outcome, are_evicted, boundaries)


def _rows_to_apply(is_edge: np.ndarray, timestamp: np.ndarray, now: np.ndarray) -> np.ndarray | None:
    """Return the rows of tuples that become edges or are needed to move the time; None for all. O(tuples).

    A tuple that becomes no edge is left out where the next one that does moves the time as far. Of those behind the last
    edge the one with the largest timestamp stays.
    """
    idle = np.flatnonzero(~is_edge)
    if not len(idle):
        return None
    edges = np.flatnonzero(is_edge)
    following = np.searchsorted(edges, idle)
    behind = int(np.searchsorted(following, len(edges)))
    is_applied = is_edge.copy()
    is_needed = timestamp[edges[following[:behind]]] < now[idle[:behind]]
    is_applied[idle[:behind][is_needed]] = True
    if behind < len(idle):
        is_applied[idle[behind + int(np.argmax(timestamp[idle[behind:]]))]] = True
    return np.flatnonzero(is_applied)
