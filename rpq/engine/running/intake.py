"""The ids of a stream: names get them, room is made for them, and those that have left every window are released.

`Intake` has the dictionaries of vertices and labels, and converts the tuples of a push to chunks of ids. `Room` makes room
for a chunk before it is applied, and ahead of it for what the rest of the push brings. `Collector` releases edges, names and
labels, so that their ids are given away again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from rpq.compiled.views import view
from rpq.engine.running.crew import Crew
from rpq.engine.running.limits import MemoryGuard
from rpq.engine.running.running_queries import RunningQueries
from rpq.stream.chunk import Chunk
from rpq.stream.columns import Columns
from rpq.stream.edges.edge_filter import EdgeFilter
from rpq.stream.edges.snapshot import SnapshotGraph
from rpq.stream.names.labels import LabelDictionary, ReadLabels
from rpq.stream.names.stream_labels import LabelSymbol, merged_name
from rpq.stream.names.vertices import FREE, VertexDictionary
from rpq.stream.nodes.node_table import NodeTable
from rpq.stream.window import INT64_MAX, Window

if TYPE_CHECKING:
    from rpq.engine.running.multigraph import Multigraph

_LEAST_ESTIMATED = 4096
"""The number of tuples from which on a chunk tells how many names and edges the rest of a push brings."""
_MAX_ROOM_AHEAD = 4
"""Room is made ahead for at most so many times the names or edges that there are: a chunk can bring more than all others."""
_LIMIT_SHARE_AHEAD = 16
"""Room is made ahead only below this fraction of the memory limit, to which also room that is never used counts."""

_NO_VERTICES = np.zeros(0, np.int32)
_NOBODY = np.zeros(0, np.uint8)
_NOTHING = np.zeros(0, np.int32)

AdmitLabels = Callable[[np.ndarray], None]
"""Registers new label ids in queries and graph."""


class NamelessChunk(NamedTuple):
    """Tuples of a push from `first` on, with ids for their labels."""

    tuples: Columns
    first: int
    labels: ReadLabels
    """The labels; a tuple `has_reader` only if the filter does not leave it out."""
    has_ends: bool
    """False for deletes by id alone, whose ends are of no kind."""
    expected_names: int = 0
    """An estimate of the new names in these tuples and those that follow; 0 if none is needed or known."""


class NamedChunk(NamedTuple):
    """The same tuples, with ids for the names of their ends; `new_ids` are those of new names."""

    nameless: NamelessChunk
    source: np.ndarray
    target: np.ndarray
    new_ids: np.ndarray


class IntakeChunk(NamedTuple):
    """A chunk, and the same tuples as readers of named streams see them, if there are such readers of any of them."""

    chunk: Chunk
    named: Chunk | None
    labels: ReadLabels
    room: int
    """The number of edges for which there is room in the graph."""


class _Growth(NamedTuple):
    """The numbers of new names and of new edges in a chunk of a number of tuples."""

    tuples: int = 1
    names: int = 0
    edges: int = 0


class _LargeChunk(NamedTuple):
    """The `size` tuples of a push before the tuple `end`."""

    tuples: Columns
    size: int
    end: int


class Room:
    """Room for tuples and for the ids of their names, in the dictionary, the graph and the queries.

    - Tuples: `make` makes room before they are applied; `needs` is whether a single tuple needs any
    - Vertices: `has_vertices` is whether there is room for all of the dictionary; `reset` follows the addition of queries
    - A push: `begin_chunk` comes before each chunk, `end_chunk` after it, and `abandon_chunk` after an exception
    - Names: `expected_names` is for how many of them the dictionary makes room, which may be in another thread

    Arrays that grew with each chunk of a push would be copied each time. Room is therefore also made ahead: for the names
    and edges of the tuples that follow, up to the end of the push or until a collection gives ids back. Their number is
    estimated from the last large chunk. The first `first_chunk` tuples of the next push find room, too: no other thread
    gives ids to their names.
    """

    def __init__(
        self,
        vertices: VertexDictionary,
        graph: SnapshotGraph,
        running: RunningQueries,
        *,
        crew: Crew,
        guard: MemoryGuard,
        first_chunk: int,
    ) -> None:
        self._vertices = vertices
        self._graph = graph
        self._running = running
        self._crew = crew
        self._guard = guard
        self._first_chunk = first_chunk
        self._vertex_room = 0  # there is room for vertex ids below this
        self._is_divided = False  # whether a query must be informed of every new vertex
        self._first_time: int | None = None  # of the first tuple
        self._growth = _Growth()  # by the last large chunk
        self._chunk: _LargeChunk | None = None  # the next chunk if it is large, until there is room for it
        self._edges_before: int | None = None  # the number of edges before the present chunk if it is large

    def make(self, count: int, new_ids: np.ndarray = _NO_VERTICES) -> None:
        """Make room for `count` more tuples; `new_ids` are the vertex ids of new names.

        The first call after `begin_chunk` is for the tuples of that chunk and all of its new names.
        """
        running, graph, vertices, expected = self._running, self._graph, self._vertices.count, 0
        if vertices > self._vertex_room and running.are_hosted:
            vertices = self._vertices.room  # what has an entry for each vertex grows with the dictionary
        chunk, self._chunk = self._chunk, None
        if chunk is not None and chunk.end < len(chunk.tuples) and (used := graph.edge_count + count) > graph.capacity:
            expected = self._estimate(self._growth.edges, used, graph.capacity, chunk.tuples, chunk.end)
        growth: list[Callable[[], None]] = running.growth(vertices)
        if growth:
            growth.append(partial(graph.make_room, count, vertices, expected=expected))
            self._crew.map(growth, lambda grow: grow())
        else:
            graph.make_room(count, vertices, expected=expected)
        running.make_room(self._vertices, new_ids, graph)
        self._vertex_room = min(graph.vertex_room, running.vertex_room)
        self._is_divided = running.is_divided
        if chunk is not None:
            edges = self._growth.edges * chunk.size // self._growth.tuples  # until they are known
            self._growth, self._edges_before = _Growth(chunk.size, len(new_ids), edges), graph.edge_count

    def needs(self, new_ids: list[int]) -> bool:
        """Return whether one more tuple, which brings these new vertex ids, needs any."""
        return self._graph.is_full or (bool(new_ids) and (self._is_divided or max(new_ids) >= self._vertex_room))

    @property
    def has_vertices(self) -> bool:
        """True if there is room for every vertex id of the dictionary."""
        return self._vertices.count <= self._vertex_room

    def reset(self) -> None:
        """Note that queries were added, which may have room for fewer vertex ids."""
        self._vertex_room = 0

    # --- ahead -----------------------------------------------------------------------------------------------

    def begin_chunk(self, tuples: Columns, first: int, count: int) -> None:
        """Note that the `count` tuples of a push from `first` on come next."""
        if not first and self._first_time is None and self._graph.time is None:
            self._first_time = int(tuples.timestamp[0])
        self._chunk = _LargeChunk(tuples, count, first + count) if count >= _LEAST_ESTIMATED else None

    def end_chunk(self) -> None:
        """Note that the graph has the edges of the chunk now."""
        if self._edges_before is not None:
            self._growth = self._growth._replace(edges=self._graph.edge_count - self._edges_before)
            self._edges_before = None

    def abandon_chunk(self) -> None:
        """Note that the push has ended with an exception, perhaps within a chunk."""
        self._chunk = self._edges_before = None

    def expected_names(self, tuples: Columns, first: int, count: int) -> int:
        """Return for how many new names to make room before those of `count` tuples of a push from `first` on get ids.

        Not called for the first chunk of a push: room for it was made in the push before.
        """
        if count < _LEAST_ESTIMATED:
            return 0
        used, room = self._vertices.live, self._vertices.room
        needed = self._growth.names * (count + self._first_chunk) // self._growth.tuples
        return 0 if used + needed <= room else self._estimate(self._growth.names, used + needed, room, tuples, first)

    def _estimate(self, growth: int, used: int, room: int, tuples: Columns, first: int) -> int:
        """Return for how many new names or edges to make room ahead, from the tuple `first` of a push on.

        The last large chunk brought `growth` of them, `used` is the number after the next chunk, and there is `room` now.
        Return 0 if there is a path query, or if arrays would become longer and the engine takes more than a small part of
        its memory limit.
        """
        if not self._running.are_hosted:  # an index of paths writes to every entry, used or not
            return 0
        following = self._count_before_reuse(tuples, first) + self._first_chunk
        expected = min(growth * following // self._growth.tuples, _MAX_ROOM_AHEAD * used)
        would_grow = expected > 0 and used + expected > room
        if would_grow and self._guard.nbytes > self._guard.limit // _LIMIT_SHARE_AHEAD:
            return 0
        return expected

    def _count_before_reuse(self, tuples: Columns, first: int) -> int:
        """Return how many tuples of a push from `first` on may come before ids of edges and names are reused.

        Collections (`Collector`) release ids when the window is full and half as many edges are new.
        """
        rest, times = len(tuples) - first, tuples.timestamp[first:]
        until_full = 0
        for window in self._running.read_windows:
            if not isinstance(window, Window):
                until_full = rest if window.kind == "unbounded" else max(until_full, window.size)
            elif self._first_time is not None:
                full = min(self._first_time + window.size, INT64_MAX)
                until_full = max(until_full, int(np.searchsorted(times, full)))
        return min(rest, until_full + self._graph.edge_count // 2)


class Intake:
    """The dictionaries that map names to ids.

    The ends of a tuple get no id, but -1, where no query reads its label or accepts its edge (the filter `edges`).
    """

    def __init__(
        self, vertices: VertexDictionary, *, capacity: int, edges: EdgeFilter, room: Room, admit_labels: AdmitLabels
    ) -> None:
        self.vertices = vertices
        self.labels = LabelDictionary(remembered=16 * capacity)
        self.interned = 0  # names that arrived since the last collection
        self._capacity = capacity
        self._filter = edges
        self._room = room
        self._admit_labels = admit_labels

    def chunk(self, chunk: NamelessChunk) -> IntakeChunk:
        """Return the tuples of `begin` with ids for names; there is room for all of them afterwards. O(tuples)."""
        return self.finish(self.name_ends(chunk))

    def begin(
        self,
        tuples: Columns,
        first: int,
        count: int,
        is_read: Callable[[np.ndarray], np.ndarray],
        *,
        keeps_all: bool = False,
        names: np.ndarray | None = None,
        read: np.ndarray | None = None,
    ) -> NamelessChunk:
        """Return tuples of a push with ids for their labels: the first of three steps, before `name_ends` and `finish`.

        `is_read` returns whether any query reads each of some label ids. `read`, if given, has the same for all label ids
        (uint8). With `keeps_all` the filter is ignored. `names` says which tuples get ids for their ends (uint8); by
        default those with a label that is read.
        """
        if read is not None and tuples.texts is not None and count == len(tuples):
            found = self.labels.read_labels(tuples.texts, count, has_streams=tuples.stream is not None, is_read=read)
            if found is not None:
                self._filter.leave_out(tuples.texts, found.label, found.has_reader)
                return NamelessChunk(tuples, first, found, has_ends=True)
        label = self._label_ids(tuples.label[first : first + count])
        of_streams = self._of_streams(tuples, first, label)
        has_reader = is_read(label)
        is_named, unread, named = _NOBODY, _NOTHING, 0
        if of_streams is not None:
            is_named = (of_streams >= 0).view(np.uint8)
            is_named &= is_read(of_streams)
            unread = of_streams.copy()
            unread[is_named.view(bool)] = -1
            has_reader = has_reader | is_named
            named = int(np.count_nonzero(is_named))
        if names is not None:
            has_reader = names
        sources, targets = (ends[first : first + count] for ends in (tuples.source, tuples.target))
        passed_by = None if keeps_all else self._filter.passed_by(label, sources, targets)
        if passed_by is not None:
            has_reader = has_reader & (passed_by == 0)
        has_ends = names is None or bool(names.any())
        labels = ReadLabels(label, has_reader, of_streams, is_named, unread, named)
        expected_names = self._room.expected_names(tuples, first, count) if first else 0
        return NamelessChunk(tuples, first, labels, has_ends, expected_names)

    def name_ends(self, chunk: NamelessChunk) -> NamedChunk:
        """Give ids to the names of the ends of tuples: the second step, which only changes the dictionary of vertices.

        If no other thread uses that dictionary, a thread can execute this step while others apply the preceding chunk.
        """
        tuples, first, labels, has_ends, expected_names = chunk
        end = first + len(labels.label)
        new_ids = np.zeros(0, np.int32)
        if expected_names:
            self.vertices.make_room(expected_names)
        if not has_ends:
            nothing = np.full(end - first, -1, np.int32)
            return NamedChunk(chunk, nothing, nothing.copy(), new_ids)
        if tuples.texts is not None and end - first == len(tuples):
            return NamedChunk(chunk, *self.vertices.intern_ends(tuples.texts, labels.has_reader))
        try:
            source, new_ids = self.vertices.intern(tuples.source[first:end], labels.has_reader)
            target, more = self.vertices.intern(tuples.target[first:end], labels.has_reader)
        except BaseException:
            self.vertices.release(new_ids)
            raise
        return NamedChunk(chunk, source, target, np.concatenate([new_ids, more]))

    def forget(self, chunk: NamedChunk) -> None:
        """Release the new names of a chunk that will not be applied."""
        self.vertices.release(chunk.new_ids)

    def finish(self, named_chunk: NamedChunk) -> IntakeChunk:
        """Make room for the tuples, and return them: the last step."""
        nameless, source, target, new_ids = named_chunk
        tuples, first, labels, _, _ = nameless
        label, has_reader, of_streams, is_named, _, named_tuples = labels
        count = len(label)
        try:
            room = int(np.count_nonzero(has_reader)) + named_tuples
            self._room.make(room, new_ids)
        except BaseException:
            # Workers may not know them: they are new again the next time.
            self.vertices.release(new_ids)
            raise
        self.interned += len(new_ids)
        chunk = Chunk(
            source=source,
            target=target,
            label=label,
            timestamp=tuples.timestamp[first : first + count],
            delete=tuples.delete[first : first + count],
            edge=np.empty(count, np.int32),
        )
        named = None
        if named_tuples:
            assert of_streams is not None
            label = label.copy()
            np.copyto(label, of_streams, where=is_named.view(bool))
            named = chunk._replace(label=label, edge=np.empty(count, np.int32))
        return IntakeChunk(chunk, named, labels, room)

    def _of_streams(self, tuples: Columns, first: int, label: np.ndarray) -> np.ndarray | None:
        """Return the ids (int32) of the labels of tuples in their streams, -1 without a stream; None where none has one."""
        if tuples.stream is None:
            return None
        found, new = self.labels.intern_in_streams(tuples.stream[first : first + len(label)], label)
        if new:
            self._admit_labels(np.array(new))
        return found

    def add_label(self, label: str) -> int:
        """Return the id of a label that has none."""
        number = self.labels.add(label)
        self._admit_labels(np.array([number]))
        return number

    def ends(self, source: int | str, target: int | str) -> tuple[int, int]:
        """Return the ids of the ends of one tuple, for which there is room afterwards."""
        vertices = self.vertices
        new_ids: list[int] = []
        try:
            u, is_new = vertices.intern_one(source)
            if is_new:
                new_ids.append(u)
            v, is_new = vertices.intern_one(target)
            if is_new:
                new_ids.append(v)
            if self._room.needs(new_ids):
                self._room.make(1, np.array(new_ids, np.int32))
        except BaseException:
            vertices.release(np.array(new_ids, np.int32))
            raise
        if new_ids:
            self.interned += len(new_ids)
        return u, v

    def holds_unused_names(self, edges: int) -> bool:
        """Return whether late tuples and deletes of absent edges, which bring names too, may have filled the dictionary."""
        return self.interned > max(4 * self._capacity, edges // 2, self.vertices.live // 2)

    def _label_ids(self, label: pa.Array) -> np.ndarray:
        ids, new = self.labels.intern(label)
        if new:
            self._admit_labels(np.array(new))
        return ids


class Collector:
    """Collection between chunks, often enough for memory to follow the windows, and seldom enough to cost little."""

    def __init__(self, intake: Intake, graph: SnapshotGraph, running: RunningQueries, nodes: NodeTable) -> None:
        self._intake = intake
        self._graph = graph
        self._running = running
        self._collected_at: int | None = None
        self.multigraph: Multigraph | None = None
        self.nodes = nodes
        self.upcoming_nodes = _NO_VERTICES
        """The vertices of the records of a push, which may not be in the table yet."""

    @property
    def is_due(self) -> bool:
        """True if enough tuples have arrived since the last collection to make another one worthwhile."""
        edges, labels = self._graph.edge_count, self._intake.labels
        if self.multigraph is not None and self.multigraph.wants_collection:
            return True
        return self._graph.wants_collection() or self._intake.holds_unused_names(edges) or labels.wants_to_forget()

    def collect_if_due(self, upcoming: NamedChunk | None = None) -> None:
        """Collect if this `is_due`; `upcoming` is that of `collect`."""
        if self.is_due:
            self.collect(upcoming)

    def collect(self, upcoming: NamedChunk | None = None) -> None:
        """Release everything that has left every window, except the ids that the `upcoming` tuples already have."""
        intake, graph = self._intake, self._graph
        self._drop_unused_facts()
        for worker in self._running.workers:
            worker.sweep()
        unused = graph.collect()
        unused = unused[unused < intake.vertices.count]
        retained, label_degree = self._running.retained_vertices(), graph.edges.label_degree
        if self.multigraph is not None:
            self.multigraph.collect(graph.time)
            twins = intake.vertices.edges.used_by_twins(unused)
            retained = np.concatenate([retained, self.multigraph.vertices(), twins])
            label_degree = self.multigraph.edges_per_label(label_degree)
        if len(self.nodes) or len(self.upcoming_nodes):
            retained = np.concatenate([retained, self.nodes.vertices, self.upcoming_nodes])
        if upcoming is not None:
            retained = np.concatenate([retained, upcoming.source, upcoming.target])
            label_degree = _with_labels(label_degree, upcoming.nameless.labels)
        if len(retained):
            are_retained = np.zeros(intake.vertices.count, bool)
            are_retained[retained[(retained >= 0) & (retained < len(are_retained))]] = True  # others are terms, or unbound
            unused = unused[~are_retained[unused]]
        released = unused[intake.vertices.names.length[unused] != FREE]
        intake.vertices.release(released)
        if self.multigraph is not None:
            self.multigraph.node_edges.release(released)
        lost = np.maximum(graph.horizons.lost, graph.horizons.passed_by)
        graph.forget_labels(intake.labels.forget(label_degree, lost))
        if self.multigraph is not None:
            self.multigraph.forget_labels()
        self._collected_at = graph.time
        intake.interned = 0

    def _drop_unused_facts(self) -> None:
        """Remove the edges that stand for facts of vertices without a record and without edges of the stream."""
        if self.multigraph is None or not self.multigraph.node_edges.are_read or self._graph.time is None:
            return
        gone = self.multigraph.node_edges.unused(self._graph)
        if len(gone.row):
            self._delete(gone.as_chunk())

    def _delete(self, deletes: Chunk) -> None:
        """Delete edges that no row depends on."""
        view_of_deletes = view(deletes)
        self._graph.resolve_uncounted(view_of_deletes, len(deletes.edge))
        for host in self._running.hosts:
            host.drop_edges(deletes, view_of_deletes, self._graph.edges)

    def drop_edges(self, texts: Sequence[LabelSymbol]) -> None:
        """Drop the edges with labels that no query accepts any longer; they are passed by now. O(edges)."""
        if not texts:
            return
        graph, labels, names = self._graph, self._intake.labels, self._intake.vertices.names_of
        merged_names = map(merged_name, labels.names)
        merged = np.array([labels.ids[name] if name in texts else -1 for name in merged_names])
        live = graph.live_edges()
        live = live[merged[graph.edges.label[live]] >= 0]
        label, source, target = (ends[live] for ends in (graph.edges.label, graph.edges.source, graph.edges.target))
        passed_by = graph.filter.passed_by(merged[label], names(source), names(target)) if len(live) else None
        if passed_by is None or not passed_by.any():
            return
        chunk = graph.chunk_of(live[passed_by != 0])
        np.maximum.at(graph.horizons.passed_by, merged[chunk.label], chunk.timestamp)
        self._delete(chunk._replace(delete=np.ones(len(chunk.edge), np.uint8)))

    def collect_if_quiet(self) -> None:
        """Collect if time alone has emptied a large part of the windows."""
        time = self._graph.time
        if self._collected_at is None:
            self._collected_at = time
        lengths = [window.size for window in self._running.read_windows if isinstance(window, Window)]
        if self._running.read_windows and not lengths:
            return  # time empties no other windows
        shortest = min(lengths, default=0)
        if time is not None and self._collected_at is not None and time - self._collected_at > shortest // 4:
            self.collect()


def _with_labels(label_degree: np.ndarray, labels: ReadLabels) -> np.ndarray:
    """Return the numbers of edges that have each label, as if tuples with `labels` were edges: these keep their ids."""
    label_degree = label_degree.copy()
    label_degree[labels.label] += 1
    if labels.of_streams is not None:
        label_degree[labels.of_streams[labels.of_streams >= 0]] += 1
    return label_degree
