"""The snapshot graph: the edges in the window, each once, with the larger of its timestamps.

An edge has a dense id under which every query's index keeps its expiry (`edge_store.py`). An edge that expired or was
deleted keeps its place until `collect`, which builds the table anew: amortised O(1) a tuple, and nothing ever searches for
what has expired. Its id is given out again only after `collect`, before which the engine sweeps every index.

The graph keeps an edge while any window holds it over which a query reads its label, and static edges always. To tell
whether a query can be registered later, two numbers a label are remembered: the largest timestamps of an insert that was
lost, because it was irrelevant, late, or evicted, and of one that was passed by, because no query accepts it
(`edge_filter.py`). A new label is an entry in a few arrays and finds its group by a hash.
"""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from rpq.compiled.arrays.hashing import id_at, ids_in, new_table, table_size
from rpq.compiled.arrays.lengthening import lengthen_fields
from rpq.compiled.kernel_cache import njit
from rpq.compiled.views import bound, view
from rpq.stream.chunk import Chunk
from rpq.stream.edges.edge_filter import EdgeFilter
from rpq.stream.edges.edge_store import (
    BY_COUNT,
    HOLDERS,
    LONG_AGO,
    STATIC,
    UNBOUNDED,
    CountedWindows,
    EdgeCounts,
    Edges,
    Horizons,
    advance,
    fill_table,
    in_window,
    insert,
    key_hash,
    lose_labels,
    lose_unread,
    move_horizons,
    probe,
    resolve,
    resolve_with_streams,
)
from rpq.stream.edges.outcomes import NEVER, OUTCOME_COUNT
from rpq.stream.window import AnyWindow, CountWindow, Window

__all__ = ["Edges", "SnapshotGraph"]


class SnapshotGraph:
    """The edges of the window, by id. `outcomes` counts the outcomes of tuples for the engine as a whole."""

    def __init__(self, *, capacity: int = 1024) -> None:
        self.edges = Edges(
            source=np.full(capacity, -1, np.int32),
            target=np.zeros(capacity, np.int32),
            label=np.zeros(capacity, np.int32),
            timestamp=np.full(capacity, LONG_AGO, np.int64),
            holders=np.zeros(capacity, np.int32),
            table=new_table(capacity),
            degree=np.zeros(16, np.int32),
            label_degree=np.zeros(0, np.int32),
            fields=EdgeCounts(),
        )
        self.outcomes = np.zeros(OUTCOME_COUNT, np.int64)
        self._patience = 4 * capacity  # new edges before it is worth looking for those that have gone
        self._resolve_one: Any = None
        self._resolve_with_streams: Any = None
        self.horizons = Horizons(
            size=np.zeros(0, np.int64),
            slide=np.zeros(0, np.int64),
            member=np.zeros(0, np.uint8),
            is_read=np.zeros(0, np.uint8),
            horizon=np.zeros(0, np.int64),
            group=np.zeros(0, np.int32),
            lost=np.zeros(0, np.int64),
            passed_by=np.zeros(0, np.int64),
        )
        self.filter = EdgeFilter()
        """The edges that queries accept; what none accepts is passed by."""
        self.counted = CountedWindows()
        self.counted.make_room(capacity)
        self.statics = 0
        """The number of static edges."""
        self.collections = 0
        """The number of collections, in each of which ids of edges may become free."""
        self._keys: list[Hashable] = []  # a window: what tells a count window from others
        self._counts: list[list[int]] = []  # a group: the count windows over which its labels are read
        self._groups: dict[bytes, int] = {}  # the windows over which a group's labels are read, as bytes: its number

    @property
    def edges(self) -> Edges:
        """The arrays of the graph; assigning them replaces all."""
        return self._edges

    @edges.setter
    def edges(self, edges: Edges) -> None:
        edges.fields.table = len(edges.table)
        edges.fields.vertices = len(edges.degree)
        self._edges = edges
        self._edges_view = view(edges)

    @property
    def edges_view(self) -> Any:
        """The arrays as kernels take them."""
        return self._edges_view

    @property
    def horizons(self) -> Horizons:
        """The horizons, which say which edges are still in some window; assigning them replaces all arrays."""
        return self._horizons

    @horizons.setter
    def horizons(self, horizons: Horizons) -> None:
        self._horizons = horizons
        self._horizons_view = view(horizons)

    @property
    def time(self) -> int | None:
        """The stream time, None before the first tuple."""
        return self.edges.fields.time if self.edges.fields.has_time else None

    @property
    def capacity(self) -> int:
        """The number below which every edge id is."""
        return len(self.edges.source)

    @property
    def vertex_room(self) -> int:
        """The number below which vertex ids can be used."""
        return len(self.edges.degree)

    @property
    def edge_count(self) -> int:
        """The number of edges with an id: those in any window, and those that the next collection takes."""
        return int(self.edges.fields.count - self.edges.fields.free)

    @property
    def nbytes(self) -> int:
        """The number of bytes held."""
        return sum(array.nbytes for array in self.edges) + self.counted.nbytes + self.filter.nbytes

    def is_read(self, label: np.ndarray) -> np.ndarray:
        """Return whether any query reads labels (uint8 a label id given)."""
        return self.horizons.is_read[label]

    def live_edges(self) -> np.ndarray:
        """Return the ids of the edges in any window. O(ids)."""
        edges, count = self.edges, self.edges.fields.count
        if count == 0:
            return np.zeros(0, np.int64)
        horizon = self.horizons.horizon[self.horizons.group]
        is_live = edges.timestamp[:count] > horizon[edges.label[:count]]
        return np.flatnonzero(is_live | (edges.holders[:count] & HOLDERS != 0))

    def static_edges(self) -> np.ndarray:
        """Return the ids of the static edges. O(ids)."""
        return np.flatnonzero(self.edges.holders[: self.edges.fields.count] & STATIC)

    def set_windows(self, windows: Sequence[AnyWindow], read: np.ndarray, keys: Sequence[Hashable]) -> None:
        """Set the windows of queries, and which labels are `read` over which, (label, window).

        Count windows with equal `keys`, an entry a window, are one.
        """
        self._groups = {}
        self._keys = list(keys)
        counted = {key: window for key, window in zip(keys, windows, strict=True) if isinstance(window, CountWindow)}
        self.counted.settle(counted, self.capacity, self.edges.holders)
        self._counts = []
        self.counted.set_groups(self._counts)
        extents = {"count": BY_COUNT, "unbounded": UNBOUNDED}
        self.horizons = self.horizons._replace(
            size=np.array([one.size if isinstance(one, Window) else extents[one.kind] for one in windows], np.int64),
            slide=np.array([one.slide if isinstance(one, Window) else 1 for one in windows], np.int64),
            member=np.zeros(0, np.uint8),
            horizon=np.zeros(0, np.int64),
        )
        self.horizons.group[:] = 0  # labels beyond those given belong to groups that no longer exist
        self.edges.fields.windows = len(windows)
        self.edges.fields.groups = 0
        self.set_labels(np.arange(len(read)), read)
        if self.time is not None:
            move_horizons(self._edges_view, self._horizons_view)

    def set_labels(self, labels: np.ndarray, read: np.ndarray) -> None:
        """Set over which windows label ids are `read`: (label, window), boolean. O(labels · windows)."""
        room = len(self.horizons.is_read)
        if len(labels) and (needed := int(labels.max()) + 1) > room:
            more = max(needed - room, room, 16)
            self.edges = lengthen_fields(self.edges, more, label_degree=0)
            self.horizons = lengthen_fields(
                self.horizons, more, is_read=0, group=0, lost=LONG_AGO, passed_by=LONG_AGO
            )
        self.horizons.is_read[labels] = read.any(axis=1)
        for label, row in zip(labels.tolist(), np.ascontiguousarray(read, np.uint8), strict=True):
            self.horizons.group[label] = self._group(row)

    def lose(self, label: np.ndarray, chunk: Chunk) -> None:
        """Remember that the inserts of a chunk are not kept as edges with these labels (an id a tuple, -1: of none)."""
        lose_labels(self._horizons_view, label, chunk.delete, chunk.timestamp)

    def lose_unread(self, tuples: Any, count: int) -> None:
        """Remember like `lose` that the inserts of the view of a chunk are not kept whose labels no query reads."""
        lose_unread(self._horizons_view, tuples, count)

    def lose_one(self, label: int, timestamp: int) -> None:
        """Remember like `lose` that one insert is not kept as an edge with a label."""
        lost = self.horizons.lost
        if timestamp > lost.item(label):
            lost[label] = timestamp

    def forget_labels(self, labels: list[int]) -> None:
        """Release label ids, which no edge bears, for other labels."""
        self.horizons.lost[labels] = LONG_AGO
        self.horizons.passed_by[labels] = LONG_AGO
        self.filter.forget(labels)

    def _group(self, member: np.ndarray) -> int:
        """Return the number of the group of labels that are read over these windows (uint8 a window)."""
        windows = member.tobytes()
        if windows not in self._groups:
            self._groups[windows] = len(self._groups)
            self.edges.fields.groups = len(self._groups)
            self.horizons = self.horizons._replace(
                member=np.concatenate([self.horizons.member, member]),
                horizon=np.append(self.horizons.horizon, LONG_AGO if member.any() else NEVER),
            )
            if self.counted.keys:
                mine = {self._keys[window] for window in np.flatnonzero(member)}
                self._counts.append([place for place, key in enumerate(self.counted.keys) if key in mine])
                self.counted.set_groups(self._counts)
            if self.time is not None:
                move_horizons(self._edges_view, self._horizons_view)
        return self._groups[windows]

    def slides(self, window: AnyWindow, key: Hashable, edges: np.ndarray) -> np.ndarray:
        """Return the slides at which edges leave a window (the count window with that key); O(edges).

        For an edge that never leaves, it is beyond all others. For an edge that the window does not hold, it may be any
        slide up to the current one.
        """
        if isinstance(window, CountWindow):
            return self.counted.slides(key, edges)
        timestamp = self.edges.timestamp[edges]
        if isinstance(window, Window):
            return np.where(timestamp > LONG_AGO, -(-(timestamp + window.size) // window.slide), LONG_AGO)
        return np.where(timestamp > LONG_AGO, NEVER, LONG_AGO)

    def current_slide(self, window: AnyWindow, key: Hashable) -> int:
        """Return the slide of a window up to which edges have left it; there is a stream time."""
        if isinstance(window, CountWindow):
            return self.counted.number_of(key) // window.step
        return window.slide_number(self.time or 0) if isinstance(window, Window) else LONG_AGO

    def chunk_of(self, edges: np.ndarray) -> Chunk:
        """Return edges, given by id, as a chunk of inserts."""
        return Chunk(
            source=self.edges.source[edges],
            target=self.edges.target[edges],
            label=self.edges.label[edges],
            timestamp=self.edges.timestamp[edges],
            delete=np.zeros(len(edges), np.uint8),
            edge=edges.astype(np.int32),
        )

    def advance(self, time: int) -> None:
        """Move the stream time."""
        advance(self._edges_view, self._horizons_view, time)

    def make_room(self, tuples: int, vertices: int, *, expected: int = 0) -> None:
        """Make room for so many more tuples, with vertex ids below `vertices`.

        Arrays that must grow get room for `expected` further edges, too.
        """
        edges = self.edges
        if vertices > len(edges.degree):
            more = max(vertices - len(edges.degree), len(edges.degree) // 4)
            edges = lengthen_fields(edges, more, degree=0)
        needed = self.edge_count + tuples
        if needed > len(edges.source):
            more = max(needed + expected - len(edges.source), len(edges.source) // 4)
            edges = lengthen_fields(edges, more, source=0, target=0, label=0, timestamp=0, holders=0)
            self.counted.make_room(more)
            if table_size(len(edges.source)) > len(edges.table):
                self.edges = edges._replace(table=new_table(len(edges.source)))
                fill_table(self._edges_view)
                return
        if edges is not self.edges:
            self.edges = edges

    def resolve(self, tuples: Any, count: int, outcome: np.ndarray | None = None) -> np.ndarray:
        """Apply the tuples of the view of a chunk, for which there is room, writing its `edge`.

        Returns the outcome of each tuple (uint8), in the array `outcome` if there is one. O(tuples).
        """
        if outcome is None:
            outcome = np.empty(count, np.uint8)
        self.resolve_one(tuples, outcome, count=count)
        return outcome

    def resolve_uncounted(self, tuples: Any, count: int) -> None:
        """Resolve tuples, whose outcomes are counted elsewhere, like `resolve`."""
        outcomes = self.outcomes.copy()
        self.resolve(tuples, count)
        self.outcomes[:] = outcomes

    def resolve_uncounted_with_streams(self, tuples: Any, named: Any, is_named: np.ndarray, count: int) -> None:
        """Resolve tuples, whose outcomes are counted elsewhere, like `resolve_with_streams`."""
        outcomes = self.outcomes.copy()
        self.resolve_with_streams(tuples, named, is_named, count)
        self.outcomes[:] = outcomes

    def resolve_with_streams(
        self, tuples: Any, named: Any, is_named: np.ndarray, count: int, outcome: np.ndarray | None = None
    ) -> np.ndarray:
        """Resolve tuples like `resolve`, some of which are in the same event edges of a named stream (`is_named`, uint8).

        `named` is the view of a chunk of the same tuples with the labels of their streams. Its `edge` is written as well:
        that of the merged stream for a tuple that is not named. The outcome of a tuple is the stronger one of its two edges.
        """
        if outcome is None:
            outcome = np.empty(count, np.uint8)
        graph = self._edges_view, self._horizons_view, self.counted.view
        arguments = *graph, tuples, named, is_named, count, outcome, self.outcomes
        if self._resolve_with_streams is None:
            self._resolve_with_streams = bound(resolve_with_streams, *arguments)
        self._resolve_with_streams(*arguments)
        return outcome

    def timestamps_of(self, tuples: Any, count: int) -> np.ndarray:
        """Return the timestamps of the edges of tuples, given as the view of a chunk; `LONG_AGO` for one that has no id."""
        timestamp = np.empty(count, np.int64)
        _timestamps_of(self._edges_view, tuples, count, timestamp)
        return timestamp

    @property
    def is_full(self) -> bool:
        """True if there is no room for one more edge."""
        edges = self._edges
        return edges.fields.free == 0 and edges.fields.count == len(edges.source)

    def resolve_one(
        self, tuples: Any, outcome: np.ndarray, *, counts: np.ndarray | None = None, count: int = 1
    ) -> None:
        """Resolve a chunk of one tuple, as `resolve` does; count its outcome in `counts`, by default those of the graph."""
        outcomes = self.outcomes if counts is None else counts
        arguments = self._edges_view, self._horizons_view, self.counted.view, tuples, count, outcome, outcomes
        if self._resolve_one is None:
            self._resolve_one = bound(resolve, *arguments)
        self._resolve_one(*arguments)

    def enter(
        self, source: np.ndarray, target: np.ndarray, label: np.ndarray, timestamp: np.ndarray, vertices: int
    ) -> np.ndarray:
        """Enter saved edges, without regard to the time. Return their ids."""
        chunk = Chunk(
            source=source.astype(np.int32),
            target=target.astype(np.int32),
            label=label.astype(np.int32),
            timestamp=timestamp.astype(np.int64),
            delete=np.zeros(len(source), np.uint8),
            edge=np.empty(len(source), np.int32),
        )
        self.make_room(len(source), vertices)
        _enter(self._edges_view, self._horizons_view, view(chunk), len(source))
        return chunk.edge

    def enter_static(self, source: np.ndarray, target: np.ndarray, label: np.ndarray) -> None:
        """Enter static edges, for whose ends there is room. Being static does not put them into a window."""
        self.make_room(len(source), self.vertex_room)
        _enter_static(self._edges_view, self._horizons_view, source, target, label)
        self.statics = len(self.static_edges())

    def wants_collection(self) -> bool:
        """Return whether enough edges came since the last collection to pay for another one."""
        fields = self.edges.fields
        return bool(fields.new_edges > max(self.edge_count // 2, self._patience))

    def collect(self) -> np.ndarray:
        """Release the ids of edges that have left. Return the vertices that are no longer an end of an edge."""
        self.collections += 1
        return _collect(self._edges_view, self._horizons_view)

    def _check(self) -> None:
        """Assert that edges, table, degrees and free stack agree."""
        edges, fields = self.edges, self.edges.fields
        used = np.flatnonzero(edges.source[: fields.count] >= 0)
        free, following = [], fields.free_edge
        while following:
            free.append(following - 1)
            following = int(edges.target[following - 1])
        assert len(free) == fields.free, "free ids are miscounted"
        assert sorted(used.tolist() + free) == list(range(fields.count)), "an id is neither free nor in use, or both"
        assert ids_in(edges.table) == used.tolist(), "the table and the edges differ"
        keys = {(int(edges.source[e]), int(edges.label[e]), int(edges.target[e])) for e in used}
        assert len(keys) == len(used), "an edge has two ids"
        degree = np.zeros_like(edges.degree)
        np.add.at(degree, edges.source[used], 1)
        np.add.at(degree, edges.target[used], 1)
        assert (degree == edges.degree).all(), "a degree is wrong"
        label_degree = np.bincount(edges.label[used], minlength=len(edges.label_degree))
        assert (label_degree == edges.label_degree).all(), "a label's edges are miscounted"
        self.counted._check(edges.holders, used)
        assert self.statics == len(self.static_edges()), "static edges are miscounted"


@njit(cache=True, nogil=True)
def _enter(edges, horizons, chunk, count):
    for i in range(count):
        u, v = np.int64(chunk.source[i]), np.int64(chunk.target[i])
        chunk.edge[i], _ = insert(edges, horizons, u, v, np.int64(chunk.label[i]), chunk.timestamp[i])


@njit(cache=True, nogil=True)
def _timestamps_of(edges, chunk, count, timestamp):
    for i in range(count):
        timestamp[i] = LONG_AGO
        if chunk.source[i] >= 0:
            u, label, v = np.int64(chunk.source[i]), np.int64(chunk.label[i]), np.int64(chunk.target[i])
            place = probe(edges, key_hash(u, label, v), u, label, v)
            if place >= 0:
                timestamp[i] = edges.timestamp[id_at(edges.table, place)]


@njit(cache=True, nogil=True)
def _enter_static(edges, horizons, source, target, label):
    for i in range(len(source)):
        u, v, label_id = np.int64(source[i]), np.int64(target[i]), np.int64(label[i])
        place = probe(edges, key_hash(u, label_id, v), u, label_id, v)
        edge = id_at(edges.table, place) if place >= 0 else np.int64(-1)
        if edge < 0:
            edge, _ = insert(edges, horizons, u, v, label_id, np.int64(LONG_AGO))
        edges.holders[edge] |= STATIC


@njit(cache=True, nogil=True)
def _collect(edges, horizons):
    fields = edges.fields
    for edge in range(fields.count):
        if edges.source[edge] < 0:
            continue
        label = edges.label[edge]
        if not in_window(edges, horizons.horizon[horizons.group[label]], edge):
            horizons.lost[label] = max(horizons.lost[label], edges.timestamp[edge])
            if edges.holders[edge] != 0:
                edges.timestamp[edge] = LONG_AGO  # a static edge stays, without a window that holds it
                continue
            edges.degree[edges.source[edge]] -= 1
            edges.degree[edges.target[edge]] -= 1
            edges.label_degree[label] -= 1
            edges.source[edge] = -1
            edges.timestamp[edge] = LONG_AGO
            edges.target[edge] = fields.free_edge
            fields.free_edge = edge + 1
            fields.free += 1
    fill_table(edges)
    fields.new_edges = 0
    unused = np.empty(fields.vertices, np.int32)
    count = 0
    for vertex in range(fields.vertices):
        if edges.degree[vertex] == 0:
            unused[count] = vertex
            count += 1
    return unused[:count]
