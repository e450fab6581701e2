"""The edges of a window whose content is decided before the graph, because an edge that leaves it changes other edges.

Where edges have an identity, the effect of an insert depends on the edges in the window. The graph knows these for windows
of time, but not for count windows; and a static edge that an edge of its identity hides comes back when that edge leaves.
In both cases the content of the window is decided here: for each tuple `WindowEdges` returns the inserts and deletes of
(source, label, target) that the tuple amounts to, also under the derived labels whose conditions the edges satisfy.
Evictions are deletes with a mark. To the graph and to queries the window is unbounded.

- An insert of an edge that the window holds replaces that edge, unless the insert is older; in a count window the edge then
  gets the number of the insert, and nothing else changes.
- In a count window an insert with a label that no query reads has no number. Where edges have ids, it removes the edge with
  its id, unless that edge is newer. A window of time holds it like any other edge.
- A static edge is there while the window holds no edge with its key.
- The changes of a tuple come in three stages: what its replacement or delete removes, what its insert adds, and what is
  evicted. Before the third stage the graph is therefore the one without any eviction. Each boundary of a window of time that
  a tuple crosses is an event of its own with the same stages; these are below those of the tuple, by three for each event.

An edge is a Python object, of which there are as many as the window has: about a kilobyte each.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rpq.stream.chunk import DELETE_UNLESS_NEWER, Chunk
from rpq.stream.edges.edge_store import TIMELESS
from rpq.stream.edges.edge_table import ABSENT_VERSION
from rpq.stream.edges.outcomes import IRRELEVANT, OUTCOME_OF
from rpq.stream.names.edge_vertices import NO_VERTEX
from rpq.stream.window import AnyWindow, CountWindow, Window

LOSSES, GAINS, EVICTIONS = range(3)
"""The stages of the changes of a tuple."""
STAGES = 3

Link = tuple[int, int, int]
"""An edge of the graph: source, label, target."""


class WindowEdge:
    """An edge that the window holds."""

    __slots__ = (
        "derived_set", "is_plain", "key", "label", "number", "source", "target", "timestamp", "twin", "values", "vertex",
    )  # fmt: skip

    def __init__(
        self, key: Hashable, ends: Link, timestamp: int, *, derived_set: int, is_plain: bool, number: int
    ) -> None:
        self.key = key
        self.source, self.label, self.target = ends
        self.timestamp = timestamp
        self.derived_set = derived_set
        """The number of its set of derived labels."""
        self.is_plain = is_plain
        """True if the graph has the edge under its own label."""
        self.number = number
        """The number of its last insert."""
        self.vertex = self.twin = NO_VERTEX
        self.values: dict[str, Any] | None = None
        """The values that witnesses show, where they are kept."""

    @property
    def ends(self) -> Link:
        """The source, label and target."""
        return self.source, self.label, self.target


class StagedChanges(NamedTuple):
    """Changes of the graph, each of a tuple and a stage."""

    row: np.ndarray  # int64: the tuple
    stage: np.ndarray  # int32: below 0 for boundaries that the tuple crosses
    source: np.ndarray  # int32
    label: np.ndarray  # int32
    target: np.ndarray  # int32
    timestamp: np.ndarray  # int64
    delete: np.ndarray  # uint8


class ChunkEffects(NamedTuple):
    """The effects of the tuples of a chunk."""

    changes: StagedChanges
    outcome: np.ndarray
    """uint8: the outcome of each tuple for queries over a count window that all read its label, or none."""
    entered_edges: list[tuple[int, WindowEdge]]
    """The edges that entered, each with its tuple."""
    departed_edges: list[tuple[int, int, WindowEdge]]
    """The edges that left, each with tuple and stage."""
    boundaries: dict[tuple[int, int], int]
    """The times of the boundaries that tuples cross, by tuple and first stage."""
    prior_timestamp: np.ndarray
    """int64: for each tuple the timestamp of its edge before it, or of the youngest that it deletes; else ABSENT_VERSION."""
    prior_label: np.ndarray
    """int32: the label of that edge, that of the tuple where there is none."""


class _Changes:
    """The changes that the tuples of a chunk bring, as they are found."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int, int, int, int, int, int]] = []
        self.entered_edges: list[tuple[int, WindowEdge]] = []
        self.departed_edges: list[tuple[int, int, WindowEdge]] = []
        self.boundaries: dict[tuple[int, int], int] = {}

    def insert(self, row: int, stage: int, link: Link, timestamp: int) -> None:
        """Add an insert."""
        self.rows.append((row, stage, *link, timestamp, 0))

    def delete(self, row: int, stage: int, link: Link, time: int) -> None:
        """Add a delete."""
        self.rows.append((row, stage, *link, time, 1))

    def move_time(self, row: int, stage: int, label: int, time: int) -> None:
        """Add a delete of no edge, which moves the time of the graph."""
        self.delete(row, stage, (-1, label, -1), time)

    def reveal(self, row: int, label: int, links: Sequence[Link], time: int) -> None:
        """Add the inserts of a static edge that a tuple with this time brings back."""
        if links:
            self.move_time(row, LOSSES, label, time)  # as these inserts do not
        for link in links:
            self.insert(row, GAINS, link, TIMELESS)

    def graph_changes(self) -> StagedChanges:
        """Return the changes of the graph."""
        arrays = np.array(self.rows, np.int64).reshape(len(self.rows), 7).T
        kinds = (np.int64, np.int32, np.int32, np.int32, np.int32, np.int64, np.uint8)
        return StagedChanges(*(np.ascontiguousarray(array, kind) for array, kind in zip(arrays, kinds, strict=True)))


class WindowEdges:
    """The edges of a window, in the order of their last inserts, and the static edges that they hide.

    `labels_of` returns the ids of the derived labels of a set, and `are_ordered` which label ids queries about paths in time
    order read (uint8): of these the graph gets every edge; where one of several goes, it gets a delete and those that stay.
    With `keeps_all` edges under labels that no query reads are held too, in a window that does not count.
    """

    def __init__(
        self,
        window: AnyWindow,
        *,
        labels_of: Callable[[int], tuple[int, ...]],
        are_ordered: Callable[[], np.ndarray] = lambda: np.zeros(0, np.uint8),
        keeps_all: bool = False,
        capacity: int = 1024,
    ) -> None:
        self.window = window
        self.number = 0
        """The number of the last insert."""
        self.is_begun = False
        """True if static edges are in the graph, where nothing hides them."""
        self._labels_of = labels_of
        self._are_ordered = are_ordered
        self._ordered_labels = np.zeros(0, np.uint8)  # as of the last tuples
        self._keeps_all = keeps_all
        self._capacity = capacity
        self._edges: dict[Hashable, WindowEdge] = {}
        self._by_ends: dict[Link, dict[Hashable, None]] = {}
        self._links: dict[Link, dict[Hashable, int]] = {}
        """For each edge of the graph the keys of the edges that are it, with their timestamps."""
        self._statics: dict[Hashable, list[Link]] = {}
        """The edges of the graph that static edges are, by their keys."""
        self._departures: list[tuple[int, int, Hashable]] = []
        """A heap of the times at which edges leave a window of time, with their numbers and keys; some may be gone."""
        self._since_collect = 0

    def __len__(self) -> int:
        return len(self._edges)

    @property
    def nbytes(self) -> int:
        """The approximate number of bytes held."""
        return 1000 * (len(self._edges) + len(self._statics))

    def __iter__(self) -> Iterator[WindowEdge]:
        return iter(self._edges.values())

    @property
    def counts(self) -> bool:
        """True if this is a count window."""
        return isinstance(self.window, CountWindow)

    # --- static edges ----------------------------------------------------------------------------------------

    def set_statics(self, links: Mapping[Hashable, Sequence[Link]], *, begins: bool = False) -> list[Link]:
        """Set the links of static edges in the graph, by their keys. Return the links of those that no edge hides.

        Before static edges begin, the graph has none of them. Afterwards a static edge keeps its links and may get more.
        """
        if not self.is_begun:
            self._statics = {key: [*of_edge] for key, of_edge in links.items()}
            self.is_begun = begins
            return [link for key in self._statics if key not in self._edges for link in self._reveal(key)]
        for key, of_edge in links.items():
            mine = self._statics.setdefault(key, [])
            new = [link for link in of_edge if link not in mine]
            mine += new
            if key not in self._edges:
                self._enter(key, new)
        return [link for key, of_edge in self._statics.items() if key not in self._edges for link in of_edge]

    def _enter(self, key: Hashable, links: Sequence[Link]) -> list[Link]:
        """Add the links of the static edge with a key to the graph. Return those that the graph did not have."""
        new = [link for link in links if link not in self._links]
        for link in links:
            self._links.setdefault(link, {})[key] = TIMELESS
        return new

    def _reveal(self, key: Hashable | None) -> list[Link]:
        """Bring the static edge with a key back. Return the links that are new in the graph."""
        return self._enter(key, self._statics.get(key, ())) if self.is_begun else []

    def _hide(self, key: Hashable) -> list[Link]:
        """Hide the static edge with a key. Return its links."""
        links = self._statics.get(key, []) if self.is_begun else []
        self._forget(key, links)
        return links

    # --- tuples ----------------------------------------------------------------------------------------------

    def apply(
        self,
        chunk: Chunk,
        keys: Sequence[Hashable],
        now: np.ndarray,
        *,
        derived_set: np.ndarray,
        is_read: np.ndarray,
        is_plain: np.ndarray,
    ) -> ChunkEffects:
        """Apply tuples in order. O(tuples + changes).

        `keys` are those of the edges, None for a delete without one, and `now` the stream times after the tuples. `is_read`
        says of each tuple whether a query reads its label, and `is_plain` whether one does without a condition.
        """
        changes, self._ordered_labels = _Changes(), self._are_ordered()
        outcome = np.full(len(chunk.label), IRRELEVANT, np.uint8)
        prior_timestamp, prior_label = np.full(len(outcome), ABSENT_VERSION, np.int64), chunk.label.copy()
        ends = chunk.source, chunk.label, chunk.target
        columns = (*ends, chunk.timestamp, chunk.delete, derived_set, is_read, is_plain, now)
        tuples = zip(keys, *(column.tolist() for column in columns), strict=True)
        for row, (key, u, label, v, time, delete, labels, read, plain, moment) in enumerate(tuples):
            self._expire(row, moment, changes)
            if delete:
                removed, outcome[row] = self._delete(row, key, (u, label, v), time, delete, read, changes)
                if removed:
                    before = max(removed, key=lambda edge: edge.timestamp)
                    prior_timestamp[row], prior_label[row] = before.timestamp, before.label
                continue
            previous = self._edges.get(key)
            if previous is not None:
                prior_timestamp[row], prior_label[row] = previous.timestamp, previous.label
            if (not read and previous is None and (self.counts or not self._keeps_all)) or self._is_late(time, moment):
                continue
            outcome[row] = OUTCOME_OF[False][previous is not None][False]
            if previous is not None and time < previous.timestamp:
                if read and self.counts:
                    self._number(previous)
                    self._evict(row, time, changes)
                continue
            is_held = read or not self.counts
            touched: list[Link] = []
            before_it = time
            if previous is not None:
                touched, before_it = self._remove(previous), previous.timestamp
                changes.departed_edges.append((row, LOSSES, previous))
            elif is_held:
                touched, before_it = self._hide(key), TIMELESS
            gained: list[Link] = []
            if is_held:
                edge = WindowEdge(key, (u, label, v), time, derived_set=labels, is_plain=bool(plain), number=0)
                gained = self._add(edge)
                changes.entered_edges.append((row, edge))
            else:
                changes.reveal(row, label, self._reveal(key), time)
            self._lose(row, LOSSES, touched, before_it, time, changes, skip=gained)
            for link in gained:
                changes.insert(row, GAINS, link, time if self._is_ordered(link) else self._time_of(link))
            if read and self.counts:
                self._evict(row, time, changes)
        self._since_collect += len(chunk.label)
        return ChunkEffects(
            changes.graph_changes(),
            outcome,
            changes.entered_edges,
            changes.departed_edges,
            changes.boundaries,
            prior_timestamp,
            prior_label,
        )

    def expire(self, time: int) -> ChunkEffects:
        """Advance the time without a tuple; return the changes, of a tuple 0 that is none."""
        changes = _Changes()
        self._expire(0, time, changes)
        none, no_times, no_labels = np.zeros(0, np.uint8), np.zeros(0, np.int64), np.zeros(0, np.int32)
        departed, boundaries = changes.departed_edges, changes.boundaries
        return ChunkEffects(changes.graph_changes(), none, [], departed, boundaries, no_times, no_labels)

    def _is_late(self, timestamp: int, now: int) -> bool:
        return isinstance(self.window, Window) and timestamp <= self.window.lower_bound(now)

    def _delete(
        self, row: int, key: Hashable | None, ends: Link, time: int, delete: int, read: int, changes: _Changes
    ) -> tuple[list[WindowEdge], int]:
        """Delete an edge, or all with some ends. Return them, and the outcome."""
        if key is None:
            removed = [self._edges[one] for one in self._by_ends.get(ends, ())]
        else:
            previous = self._edges.get(key)
            is_newer = previous is not None and delete == DELETE_UNLESS_NEWER and time < previous.timestamp
            removed = [] if previous is None or is_newer else [previous]
            read = read or previous is not None
        for edge in removed:
            touched = self._remove(edge)
            changes.departed_edges.append((row, LOSSES, edge))
            changes.reveal(row, edge.label, self._reveal(edge.key), time)
            self._lose(row, LOSSES, touched, edge.timestamp, time, changes)
        return removed, OUTCOME_OF[True][bool(removed)][False] if removed or read else IRRELEVANT

    def _number(self, edge: WindowEdge) -> None:
        """Give an edge the next number, which makes it the last to leave a count window."""
        self.number += 1
        edge.number = self.number
        self._edges.pop(edge.key, None)
        self._edges[edge.key] = edge

    def _evict(self, row: int, time: int, changes: _Changes) -> None:
        """Evict the edges whose last inserts are too far back."""
        assert isinstance(self.window, CountWindow)
        bound, evicted = self.window.lower_bound(self.number), []
        for oldest in self:
            if oldest.number > bound:
                break
            evicted.append(oldest)
        self._evict_together(row, 0, evicted, time, changes)

    def _expire(self, row: int, now: int, changes: _Changes) -> None:
        """Remove the edges whose time is over, each boundary in an event of its own."""
        if not self._departures or self._departures[0][0] > now:
            return
        events: dict[int, list[WindowEdge]] = {}
        while self._departures and self._departures[0][0] <= now:
            boundary, number, key = heapq.heappop(self._departures)
            edge = self._edges.get(key)
            if edge is not None and edge.number == number:
                events.setdefault(boundary, []).append(edge)
        for place, (boundary, edges) in enumerate(events.items()):
            stage = STAGES * (place - len(events))
            changes.boundaries[row, stage] = boundary
            changes.move_time(row, stage, edges[0].label, boundary)
            self._evict_together(row, stage, edges, boundary, changes)

    def _evict_together(self, row: int, stage: int, edges: Sequence[WindowEdge], time: int, changes: _Changes) -> None:
        """Evict edges in one event, whose stages begin with `stage`."""
        touched: dict[Link, int] = {}
        for edge in edges:
            for link in self._remove(edge):
                touched[link] = max(touched.get(link, edge.timestamp), edge.timestamp)
            changes.departed_edges.append((row, stage + EVICTIONS, edge))
        for edge in edges:
            revealed = [link for link in self._reveal(edge.key) if link not in touched]
            if revealed:
                changes.move_time(row, stage + LOSSES, edge.label, time)  # as these inserts do not
            for link in revealed:
                changes.insert(row, stage + GAINS, link, TIMELESS)
        for link, before in touched.items():
            self._lose(row, stage + EVICTIONS, [link], before, time, changes)

    # --- edges of the graph ----------------------------------------------------------------------------------

    def _links_of(self, edge: WindowEdge) -> list[Link]:
        u, own, v = edge.ends
        labels = self._labels_of(edge.derived_set)
        return [(u, label, v) for label in ((own, *labels) if edge.is_plain else labels)]

    def _add(self, edge: WindowEdge) -> list[Link]:
        self._number(edge)
        if isinstance(self.window, Window):
            boundary = self.window.expiry_slide(edge.timestamp) * self.window.slide
            heapq.heappush(self._departures, (boundary, edge.number, edge.key))
        self._by_ends.setdefault(edge.ends, {})[edge.key] = None
        links = self._links_of(edge)
        for link in links:
            self._links.setdefault(link, {})[edge.key] = edge.timestamp
        return links

    def _remove(self, edge: WindowEdge) -> list[Link]:
        """Remove an edge. Return its links."""
        del self._edges[edge.key]
        of_ends = self._by_ends[edge.ends]
        del of_ends[edge.key]
        if not of_ends:
            del self._by_ends[edge.ends]
        links = self._links_of(edge)
        self._forget(edge.key, links)
        return links

    def _forget(self, key: Hashable, links: Sequence[Link]) -> None:
        """Remove links of the edge with a key from the graph."""
        for link in links:
            of_link = self._links[link]
            del of_link[key]
            if not of_link:
                del self._links[link]

    def _is_ordered(self, link: Link) -> bool:
        return bool(link[1] < len(self._ordered_labels) and self._ordered_labels[link[1]])

    def _time_of(self, link: Link) -> int:
        return max(self._links[link].values())

    def _lose(
        self,
        row: int,
        stage: int,
        touched: Sequence[Link],
        before: int,
        time: int,
        changes: _Changes,
        skip: Sequence[Link] = (),
    ) -> None:
        """Add the deletes of those links that only an edge with the timestamp `before` had.

        Where parallel edges are left that are older, the graph gets their timestamp. The edges in `skip` follow later, of
        paths in time order the last one of each.
        """
        for link in touched:
            if link not in self._links:
                changes.delete(row, stage, link, time)
            elif self._is_ordered(link):
                changes.delete(row, stage, link, time)
                times = [*self._links[link].values()]
                for each in times[:-1] if link in skip else times:
                    changes.insert(row, stage, link, each)
            elif link not in skip and (youngest := self._time_of(link)) < before:
                changes.delete(row, stage, link, time)
                changes.insert(row, stage, link, youngest)

    # --- what is held ----------------------------------------------------------------------------------------

    def youngest_first(self, source: int, label: int, target: int) -> list[WindowEdge]:
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
        rows = [(one.source, one.label, one.target, one.timestamp, one.derived_set) for one in self]
        columns = np.array(rows, np.int64).reshape(len(rows), 5).T
        kinds = (np.int32, np.int32, np.int32, np.int64, np.int32)
        return tuple(np.ascontiguousarray(column, kind) for column, kind in zip(columns, kinds, strict=True))

    def ends(self) -> tuple[np.ndarray, ...]:
        """Return source, label and target of all edges. O(edges)."""
        return self.all_columns()[:3]

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

    def forget_vertices(self, ids: np.ndarray) -> None:
        """Note that vertices are released; some may stand for edges that no query binds any longer. O(edges + ids)."""
        released = {*ids.tolist()}
        for edge in self if released else ():
            if edge.vertex in released:
                edge.vertex = edge.twin = NO_VERTEX

    def renumber(self, numbers: np.ndarray) -> None:
        """Replace the numbers of sets of derived labels by others."""
        for edge in self:
            edge.derived_set = int(numbers[edge.derived_set])

    def load(self, edges: Sequence[WindowEdge], number: int) -> None:
        """Set the edges, which are in the order of their numbers, and the number of the last insert, in a new object."""
        for edge in edges:
            self.number = edge.number - 1
            self._add(edge)
        self.number = number

    def _check(self) -> None:
        """Assert that edges, ends and links agree, and that a count window holds no edge that has left."""
        numbers = [edge.number for edge in self]
        assert numbers == sorted(set(numbers)), "edges are in another order than their numbers"
        if isinstance(self.window, CountWindow):
            assert all(number > self.window.lower_bound(self.number) for number in numbers), "an edge has left the window"
        if isinstance(self.window, Window):
            leaving = {(number, key) for _, number, key in self._departures}
            assert all((edge.number, edge.key) in leaving for edge in self), "an edge never leaves"
        assert all(key == edge.key for key, edge in self._edges.items()), "an edge has another key"
        assert sorted((edge.ends, str(edge.key)) for edge in self) == sorted(
            (ends, str(key)) for ends, keys in self._by_ends.items() for key in keys
        ), "edges have other ends"
        links: dict[Link, dict[Hashable, int]] = {}
        for edge in self:
            for link in self._links_of(edge):
                links.setdefault(link, {})[edge.key] = edge.timestamp
        for key, of_static in self._statics.items():
            for link in of_static if self.is_begun and key not in self._edges else ():
                links.setdefault(link, {})[key] = TIMELESS
        assert links == self._links, "edges of the graph are counted wrong"
