"""The edges of a count window that have an identity: the last inserts, which replace each other.

A count window numbers the inserts with labels that its queries read, and holds an edge until its last insert is too far
back. Where edges have an identity, what an insert replaces depends on what the window holds, so the window is decided here,
before the graph: for each tuple `CountedEdges` returns the inserts and deletes of (source, label, target) that the tuple
amounts to, also under the derived labels whose conditions the edges satisfy. Evictions are deletes with a mark. To the
graph and to queries the window is unbounded.

- An insert of an edge that the window holds replaces that edge, unless the insert is older; then the edge in the window
  gets the number of the insert, and nothing else changes.
- An insert with a label that no query reads has no number. Where edges have ids, it removes the edge with its id, unless
  that edge is newer.
- The changes of a tuple come in three stages: what its replacement or delete takes, what its insert brings, and what is
  evicted. So the graph before the third is the one without any eviction.

An edge is a Python object, of which there are as many as the window has: about a kilobyte each.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from rpq.stream.chunk import DELETE_UNLESS_NEWER, Chunk
from rpq.stream.edge_vertices import NO_VERTEX
from rpq.stream.outcomes import ABSENT, DELETED, INSERTED, IRRELEVANT, REFRESHED
from rpq.stream.window import CountWindow

LOSSES, GAINS, EVICTIONS = range(3)
"""The stages of the changes of a tuple."""

_Link = tuple[int, int, int]
"""An edge of the graph: source, label, target."""


class CountedEdge:
    """An edge that a count window holds."""

    __slots__ = (
        "is_plain", "key", "label", "number", "satisfied", "source", "target", "timestamp", "twin", "values", "vertex",
    )  # fmt: skip

    def __init__(
        self, key: Hashable, ends: _Link, timestamp: int, *, satisfied: int, is_plain: bool, number: int
    ) -> None:
        self.key = key
        self.source, self.label, self.target = ends
        self.timestamp = timestamp
        self.satisfied = satisfied
        """The number of its set of derived labels."""
        self.is_plain = is_plain
        """True if the graph has the edge under its own label."""
        self.number = number
        """The number of its last insert."""
        self.vertex = self.twin = NO_VERTEX
        self.values: dict[str, Any] | None = None
        """The values that witnesses tell, where they are kept."""

    @property
    def ends(self) -> _Link:
        """The source, label and target."""
        return self.source, self.label, self.target


class StagedChanges(NamedTuple):
    """Changes of the graph, each of a tuple and a stage."""

    row: np.ndarray  # int64: the tuple
    stage: np.ndarray  # int8
    source: np.ndarray  # int32
    label: np.ndarray  # int32
    target: np.ndarray  # int32
    timestamp: np.ndarray  # int64
    delete: np.ndarray  # uint8


class Applied(NamedTuple):
    """The effects of the tuples of a chunk."""

    changes: StagedChanges
    outcome: np.ndarray  # uint8 a tuple
    entered: list[tuple[int, CountedEdge]]
    """The edges that entered, each with its tuple."""
    left: list[tuple[int, int, CountedEdge]]
    """The edges that left, each with tuple and stage."""


class CountedEdges:
    """The edges of a count window, in the order of their last inserts.

    `labels_of` returns the ids of the derived labels of a set.
    """

    def __init__(
        self,
        window: CountWindow,
        *,
        labels_of: Callable[[int], tuple[int, ...]],
        capacity: int = 1024,
    ) -> None:
        self.window = window
        self.number = 0
        """The number of the last insert."""
        self._labels_of = labels_of
        self._capacity = capacity
        self._edges: dict[Hashable, CountedEdge] = {}
        self._by_ends: dict[_Link, dict[Hashable, None]] = {}
        self._links: dict[_Link, dict[Hashable, int]] = {}
        """For each edge of the graph the keys of the edges that are it, with their timestamps."""
        self._since_collect = 0

    def __len__(self) -> int:
        return len(self._edges)

    @property
    def nbytes(self) -> int:
        """The approximate number of bytes held."""
        return 1000 * len(self._edges)

    def __iter__(self) -> Iterator[CountedEdge]:
        return iter(self._edges.values())

    # --- tuples ----------------------------------------------------------------------------------------------

    def apply(
        self, chunk: Chunk, keys: Sequence[Hashable], *, satisfied: np.ndarray, is_read: np.ndarray, is_plain: np.ndarray
    ) -> Applied:
        """Apply tuples in order. O(tuples + changes).

        `keys` are those of the edges, None for a delete without one. `is_read` says of each tuple whether a query reads its
        label, and `is_plain` whether one does without a condition.
        """
        changes: list[tuple[int, int, int, int, int, int, int]] = []
        entered: list[tuple[int, CountedEdge]] = []
        left: list[tuple[int, int, CountedEdge]] = []
        outcome = np.full(len(chunk.label), IRRELEVANT, np.uint8)
        columns = (chunk.source, chunk.label, chunk.target, chunk.timestamp, chunk.delete, satisfied, is_read, is_plain)
        tuples = zip(keys, *(column.tolist() for column in columns), strict=True)
        for row, (key, u, label, v, time, delete, labels, read, plain) in enumerate(tuples):
            if delete:
                outcome[row] = self._delete(row, key, (u, label, v), time, delete, read, changes, left)
                continue
            previous = self._edges.get(key)
            if not read and previous is None:
                continue
            if previous is not None and time < previous.timestamp:
                outcome[row] = REFRESHED
                if read:
                    self._number(previous)
                    self._evict(row, time, changes, left)
                continue
            outcome[row] = INSERTED if previous is None else REFRESHED
            touched: list[_Link] = []
            before = time
            if previous is not None:
                touched, before = self._remove(previous), previous.timestamp
                left.append((row, LOSSES, previous))
            gained: list[_Link] = []
            if read:
                edge = CountedEdge(key, (u, label, v), time, satisfied=labels, is_plain=bool(plain), number=0)
                gained = self._add(edge)
                entered.append((row, edge))
            self._lose(row, LOSSES, touched, before, time, changes, skip=gained)
            changes += [(row, GAINS, *link, self._time_of(link), 0) for link in gained]
            if read:
                self._evict(row, time, changes, left)
        self._since_collect += len(chunk.label)
        arrays = np.array(changes, np.int64).reshape(len(changes), 7).T
        kinds = (np.int64, np.int8, np.int32, np.int32, np.int32, np.int64, np.uint8)
        made = StagedChanges(*(np.ascontiguousarray(array, kind) for array, kind in zip(arrays, kinds, strict=True)))
        return Applied(made, outcome, entered, left)

    def _delete(
        self,
        row: int,
        key: Hashable | None,
        ends: _Link,
        time: int,
        delete: int,
        read: int,
        changes: list[Any],
        left: list[tuple[int, int, CountedEdge]],
    ) -> int:
        if key is None:
            gone = [self._edges[one] for one in self._by_ends.get(ends, ())]
        else:
            previous = self._edges.get(key)
            is_newer = previous is not None and delete == DELETE_UNLESS_NEWER and time < previous.timestamp
            gone = [] if previous is None or is_newer else [previous]
            read = read or previous is not None
        for edge in gone:
            touched = self._remove(edge)
            left.append((row, LOSSES, edge))
            self._lose(row, LOSSES, touched, edge.timestamp, time, changes)
        return int(DELETED if gone else ABSENT if read else IRRELEVANT)

    def _number(self, edge: CountedEdge) -> None:
        """Give an edge the next number, which makes it the last to leave."""
        self.number += 1
        edge.number = self.number
        self._edges.pop(edge.key, None)
        self._edges[edge.key] = edge

    def _evict(self, row: int, time: int, changes: list[Any], left: list[tuple[int, int, CountedEdge]]) -> None:
        bound = self.window.lower_bound(self.number)
        while True:
            oldest = next(iter(self._edges.values()))
            if oldest.number > bound:
                return
            touched = self._remove(oldest)
            left.append((row, EVICTIONS, oldest))
            self._lose(row, EVICTIONS, touched, oldest.timestamp, time, changes)

    # --- edges of the graph ----------------------------------------------------------------------------------

    def _links_of(self, edge: CountedEdge) -> list[_Link]:
        u, own, v = edge.ends
        labels = self._labels_of(edge.satisfied)
        return [(u, label, v) for label in ((own, *labels) if edge.is_plain else labels)]

    def _add(self, edge: CountedEdge) -> list[_Link]:
        self._number(edge)
        self._by_ends.setdefault(edge.ends, {})[edge.key] = None
        links = self._links_of(edge)
        for link in links:
            self._links.setdefault(link, {})[edge.key] = edge.timestamp
        return links

    def _remove(self, edge: CountedEdge) -> list[_Link]:
        """Remove an edge; return what it was in the graph."""
        del self._edges[edge.key]
        of_ends = self._by_ends[edge.ends]
        del of_ends[edge.key]
        if not of_ends:
            del self._by_ends[edge.ends]
        links = self._links_of(edge)
        for link in links:
            of_link = self._links[link]
            del of_link[edge.key]
            if not of_link:
                del self._links[link]
        return links

    def _time_of(self, link: _Link) -> int:
        return max(self._links[link].values())

    def _lose(
        self,
        row: int,
        stage: int,
        touched: Sequence[_Link],
        before: int,
        time: int,
        changes: list[Any],
        skip: Sequence[_Link] = (),
    ) -> None:
        """Add the deletes of what an edge with the timestamp `before` alone was in the graph.

        Where parallel edges are left that are older, the graph gets their timestamp.
        """
        for link in touched:
            if link not in self._links:
                changes.append((row, stage, *link, time, 1))
            elif link not in skip and (youngest := self._time_of(link)) < before:
                changes.append((row, stage, *link, time, 1))
                changes.append((row, stage, *link, youngest, 0))

    # --- what is held ----------------------------------------------------------------------------------------

    def youngest_first(self, source: int, label: int, target: int) -> list[CountedEdge]:
        """Return the edges with these ends and label, the youngest first."""
        edges = [self._edges[key] for key in self._by_ends.get((source, label, target), ())]
        return sorted(edges, key=lambda edge: edge.timestamp, reverse=True)

    def live(self, bound: int) -> np.ndarray:
        """Return the places of the edges in the order of their numbers, whatever the bound on timestamps."""
        return np.arange(len(self._edges))

    def columns(self, places: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return source, label, target, timestamp and set of derived labels of edges. O(edges)."""
        return tuple(column[places] for column in self.all_columns())

    def all_columns(self) -> tuple[np.ndarray, ...]:
        """Return the same columns of all edges. O(edges)."""
        rows = [(one.source, one.label, one.target, one.timestamp, one.satisfied) for one in self]
        columns = np.array(rows, np.int64).reshape(len(rows), 5).T
        kinds = (np.int32, np.int32, np.int32, np.int64, np.int32)
        return tuple(np.ascontiguousarray(column, kind) for column, kind in zip(columns, kinds, strict=True))

    def keys(self) -> list[Hashable]:
        """Return the keys of the edges, in the order of their numbers."""
        return [*self._edges]

    @property
    def wants_collection(self) -> bool:
        """True if enough tuples came since the last collection to pay for another one."""
        return self._since_collect > 2 * max(self._capacity, len(self._edges))

    def collect(self, bound: int) -> None:
        """Note a collection; the window forgets edges as they leave."""
        self._since_collect = 0

    def renumber(self, numbers: np.ndarray) -> None:
        """Replace the numbers of sets of derived labels by others."""
        for edge in self:
            edge.satisfied = int(numbers[edge.satisfied])

    def load(self, edges: Sequence[CountedEdge], number: int) -> None:
        """Set the edges, which are in the order of their numbers, and the number of the last insert, in a new object."""
        for edge in edges:
            own = edge.number
            self._add(edge)
            edge.number = own
        self.number = number

    def _check(self) -> None:
        """Assert that edges, ends and links agree, and that the window holds no edge that has left."""
        numbers = [edge.number for edge in self]
        assert numbers == sorted(set(numbers)), "edges are in another order than their numbers"
        assert all(number > self.window.lower_bound(self.number) for number in numbers), "an edge has left the window"
        assert all(key == edge.key for key, edge in self._edges.items()), "an edge has another key"
        assert sorted((edge.ends, str(edge.key)) for edge in self) == sorted(
            (ends, str(key)) for ends, keys in self._by_ends.items() for key in keys
        ), "edges have other ends"
        links: dict[_Link, dict[Hashable, int]] = {}
        for edge in self:
            for link in self._links_of(edge):
                links.setdefault(link, {})[edge.key] = edge.timestamp
        assert links == self._links, "edges of the graph are counted wrong"
