"""The snapshot graph: the edges in the window, each once, with the larger of its timestamps.

An edge is (source, label, target); a hash table (`rpq/arrays/hashing.py`) maps it to a dense id under which every
query's index keeps its expiry. An edge that expired or was deleted keeps its place until `collect`, which builds
the table anew: amortised O(1) a tuple, and nothing ever searches for what has expired. Its id is given
out again only after `collect`, before which the engine sweeps every index.

The graph keeps an edge while any window holds it over which a query reads its label. Labels that are read over the same
windows form a *group* with one horizon. To tell whether a query can be
registered later, one number a label is remembered: the largest timestamp of an insert that was lost, because it
was irrelevant, late, or evicted. A new label is an entry in a few arrays and finds its group by a hash.
"""

from typing import Any, NamedTuple

import numpy as np

from rpq.arrays.hashing import clear, first_candidate, id_at, ids_in, new_table, next_candidate, put, put_new, table_size
from rpq.compiled.intrinsics import wraps_around
from rpq.compiled.kernel_cache import njit
from rpq.compiled.views import bound, view
from rpq.stream.chunk import Chunk
from rpq.stream.window import Window

_LONG_AGO = np.iinfo(np.int64).min
_NEVER = np.iinfo(np.int64).max

# Fields of `Edges.fields`.
_COUNT = 0  # ids given out so far (high water)
_FREE = 1  # entries in the stack of free ids
_TIME = 2  # stream time, if _HAS_TIME
_HAS_TIME = 3
_NEXT = 4  # stream time at which a horizon may move
_NEW = 5  # edges entered since the last collection
_TABLE = 6  # entries of the hash table
_VERTICES = 7  # entries of `degree`
_WINDOWS = 8
_GROUPS = 9
_FIELDS = 10

# What became of a tuple.
INSERTED, REFRESHED, DELETED, ABSENT_DELETE, LATE, IRRELEVANT = range(6)


class Edges(NamedTuple):
    """The arrays of the snapshot graph."""

    source: np.ndarray  # int32 an edge, -1 free
    target: np.ndarray  # int32 an edge
    label: np.ndarray  # int32 an edge
    timestamp: np.ndarray  # int64 an edge, the smallest int64 once deleted
    table: np.ndarray  # int32: from hashes to edges, see `rpq/arrays/hashing.py`
    free: np.ndarray  # int32, stack
    degree: np.ndarray  # int32 a vertex: edges that name it
    bearing: np.ndarray  # int32 a label: edges that bear it
    fields: np.ndarray  # int64[_FIELDS]


class Horizons(NamedTuple):
    """Which edges are still in some window."""

    size: np.ndarray  # int64 a window
    slide: np.ndarray  # int64 a window
    member: np.ndarray  # uint8, groups × windows: the group's labels are read over the window
    wanted: np.ndarray  # uint8 a label: it is read over any window
    horizon: np.ndarray  # int64 a group: edges with a timestamp up to here have left every window
    group: np.ndarray  # int32 a label
    lost: np.ndarray  # int64 a label: largest timestamp of a lost insert, the smallest int64 for none


class SnapshotGraph:
    """Edges of the window by id. `outcomes` counts what became of the tuples, as the engine as a whole sees them."""

    def __init__(self, *, capacity: int = 1024) -> None:
        self.edges = Edges(
            source=np.full(capacity, -1, np.int32),
            target=np.zeros(capacity, np.int32),
            label=np.zeros(capacity, np.int32),
            timestamp=np.full(capacity, _LONG_AGO, np.int64),
            table=new_table(capacity),
            free=np.zeros(capacity, np.int32),
            degree=np.zeros(16, np.int32),
            bearing=np.zeros(0, np.int32),
            fields=np.zeros(_FIELDS, np.int64),
        )
        self.outcomes = np.zeros(6, np.int64)
        self._patience = 4 * capacity  # new edges before it is worth looking for those that have gone
        self._resolve_one: Any = None
        self.horizons = Horizons(
            size=np.zeros(0, np.int64),
            slide=np.zeros(0, np.int64),
            member=np.zeros(0, np.uint8),
            wanted=np.zeros(0, np.uint8),
            horizon=np.zeros(0, np.int64),
            group=np.zeros(0, np.int32),
            lost=np.zeros(0, np.int64),
        )
        self._groups: dict[bytes, int] = {}  # the windows over which a group's labels are read, as bytes: its number

    @property
    def edges(self) -> Edges:
        """The arrays; to replace some is to replace the whole."""
        return self._edges

    @edges.setter
    def edges(self, edges: Edges) -> None:
        edges.fields[_TABLE] = len(edges.table)
        edges.fields[_VERTICES] = len(edges.degree)
        self._edges = edges
        self._edges_view = view(edges)

    @property
    def horizons(self) -> Horizons:
        """Which edges are still in some window; to replace some arrays is to replace the whole."""
        return self._horizons

    @horizons.setter
    def horizons(self, horizons: Horizons) -> None:
        self._horizons = horizons
        self._horizons_view = view(horizons)

    @property
    def time(self) -> int | None:
        """The stream time, None before the first tuple."""
        return int(self.edges.fields[_TIME]) if self.edges.fields[_HAS_TIME] else None

    @property
    def capacity(self) -> int:
        """Every edge id is below."""
        return len(self.edges.source)

    @property
    def vertex_room(self) -> int:
        """Vertex ids below can be used."""
        return len(self.edges.degree)

    @property
    def held(self) -> int:
        """Edges that have an id: those in any window, and those that the next collection takes."""
        return int(self.edges.fields[_COUNT] - self.edges.fields[_FREE])

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(array.nbytes for array in self.edges)

    def wanted(self, label: np.ndarray) -> np.ndarray:
        """Whether any query is interested in labels (uint8 a label id given)."""
        return self.horizons.wanted[label]

    def live_edges(self) -> np.ndarray:
        """The ids of the edges in any window. O(ids)."""
        edges, count = self.edges, self.edges.fields[_COUNT]
        if count == 0:
            return np.zeros(0, np.int64)
        horizon = self.horizons.horizon[self.horizons.group]
        return np.flatnonzero(edges.timestamp[:count] > horizon[edges.label[:count]])

    def set_windows(self, windows: list[Window], read: np.ndarray) -> None:
        """What the graph is for from now on: windows of queries, and which labels are `read` over which: (label, window)."""
        self._groups = {}
        self.horizons = self.horizons._replace(
            size=np.array([window.size for window in windows], np.int64),
            slide=np.array([window.slide for window in windows], np.int64),
            member=np.zeros(0, np.uint8),
            horizon=np.zeros(0, np.int64),
        )
        self.edges.fields[_WINDOWS] = len(windows)
        self.edges.fields[_GROUPS] = 0
        self.set_labels(np.arange(len(read)), read)
        if self.time is not None:
            _move_horizons(self._edges_view, self._horizons_view)

    def set_labels(self, labels: np.ndarray, read: np.ndarray) -> None:
        """Take in label ids, and over which windows they are `read`: (label, window), boolean. O(labels · windows)."""
        held = len(self.horizons.wanted)
        if len(labels) and (needed := int(labels.max()) + 1) > held:
            more = max(needed - held, held, 16)
            self.edges = self.edges._replace(bearing=np.concatenate([self.edges.bearing, np.zeros(more, np.int32)]))
            self.horizons = self.horizons._replace(
                wanted=np.concatenate([self.horizons.wanted, np.zeros(more, np.uint8)]),
                group=np.concatenate([self.horizons.group, np.zeros(more, np.int32)]),
                lost=np.concatenate([self.horizons.lost, np.full(more, _LONG_AGO, np.int64)]),
            )
        self.horizons.wanted[labels] = read.any(axis=1)
        for label, row in zip(labels.tolist(), np.ascontiguousarray(read, np.uint8), strict=True):
            self.horizons.group[label] = self._group(row)

    def forget_labels(self, labels: list[int]) -> None:
        """Let these label ids, which no edge bears, be given to other labels."""
        self.horizons.lost[labels] = _LONG_AGO

    def _group(self, member: np.ndarray) -> int:
        """The number of the group of labels that are read over these windows (uint8 a window)."""
        windows = member.tobytes()
        if windows not in self._groups:
            self._groups[windows] = len(self._groups)
            self.edges.fields[_GROUPS] = len(self._groups)
            self.horizons = self.horizons._replace(
                member=np.concatenate([self.horizons.member, member]),
                horizon=np.append(self.horizons.horizon, _LONG_AGO if member.any() else _NEVER),
            )
            if self.time is not None:
                _move_horizons(self._edges_view, self._horizons_view)
        return self._groups[windows]

    def chunk_of(self, edges: np.ndarray) -> Chunk:
        """Edges, by id, as a chunk of inserts."""
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
        _advance(self._edges_view, self._horizons_view, time)

    def make_room(self, tuples: int, vertices: int) -> None:
        """Let so many more tuples be resolved, with vertex ids below `vertices`."""
        edges = self.edges
        if vertices > len(edges.degree):
            more = max(vertices - len(edges.degree), len(edges.degree) // 2)
            edges = edges._replace(degree=np.concatenate([edges.degree, np.zeros(more, np.int32)]))
        needed = self.held + tuples
        if needed > len(edges.source):
            more = max(needed - len(edges.source), len(edges.source) // 4)
            edges = edges._replace(
                source=np.concatenate([edges.source, np.full(more, -1, np.int32)]),
                target=np.concatenate([edges.target, np.zeros(more, np.int32)]),
                label=np.concatenate([edges.label, np.zeros(more, np.int32)]),
                timestamp=np.concatenate([edges.timestamp, np.full(more, _LONG_AGO, np.int64)]),
                free=np.concatenate([edges.free, np.zeros(more, np.int32)]),
            )
            if table_size(len(edges.source)) > len(edges.table):
                self.edges = edges._replace(table=new_table(len(edges.source)))
                _fill_table(self._edges_view)
                return
        if edges is not self.edges:
            self.edges = edges

    def resolve(self, tuples: Any, count: int) -> np.ndarray:
        """Apply the tuples of the view of a chunk, for which there is room, writing its `edge`.

        Returns what became of each tuple (uint8). O(tuples).
        """
        outcome = np.empty(count, np.uint8)
        _resolve(self._edges_view, self._horizons_view, tuples, count, outcome, self.outcomes)
        return outcome

    @property
    def is_full(self) -> bool:
        """Whether there is no room for one more edge."""
        fields = self.edges.fields
        return bool(fields[_FREE] == 0 and fields[_COUNT] == len(self.edges.source))

    def resolve_one(self, tuples: Any, outcome: np.ndarray) -> None:
        """As `resolve` for a chunk of one tuple."""
        if self._resolve_one is None:
            self._resolve_one = bound(_resolve, self._edges_view, self._horizons_view, tuples, 1, outcome, self.outcomes)
        self._resolve_one(self._edges_view, self._horizons_view, tuples, 1, outcome, self.outcomes)

    def enter(
        self, source: np.ndarray, target: np.ndarray, label: np.ndarray, timestamp: np.ndarray, vertices: int
    ) -> np.ndarray:
        """Enter edges as they were saved, whatever the time; their ids."""
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

    def wants_collection(self) -> bool:
        """Whether so many edges came since the last collection that the next one is paid for."""
        fields = self.edges.fields
        return bool(fields[_NEW] > max(self.held // 2, self._patience))

    def collect(self) -> np.ndarray:
        """Give back the ids of edges that have gone; the vertices that no edge names any more."""
        return _collect(self._edges_view, self._horizons_view)

    def _check(self) -> None:
        """Assert what must hold between edges, table, degrees and free stack."""
        edges, fields = self.edges, self.edges.fields
        used = np.flatnonzero(edges.source[: fields[_COUNT]] >= 0)
        free = edges.free[: fields[_FREE]].tolist()
        assert sorted(used.tolist() + free) == list(range(fields[_COUNT])), "an id is neither free nor in use, or both"
        assert ids_in(edges.table) == used.tolist(), "the table and the edges differ"
        keys = {(int(edges.source[e]), int(edges.label[e]), int(edges.target[e])) for e in used}
        assert len(keys) == len(used), "an edge has two ids"
        degree = np.zeros_like(edges.degree)
        np.add.at(degree, edges.source[used], 1)
        np.add.at(degree, edges.target[used], 1)
        assert (degree == edges.degree).all(), "a degree is wrong"
        bearing = np.bincount(edges.label[used], minlength=len(edges.bearing))
        assert (bearing == edges.bearing).all(), "a label's edges are miscounted"


@njit(cache=True, nogil=True)
def _move_horizons(edges, horizons):
    """Set the horizons and the time at which they may move next, without overflow."""
    fields = edges.fields
    time, windows, groups = fields[_TIME], fields[_WINDOWS], fields[_GROUPS]
    following = np.int64(_NEVER)
    for group in range(groups):
        horizons.horizon[group] = _NEVER
    for window in range(windows):
        size, slide = horizons.size[window], horizons.slide[window]
        into = time % slide
        boundary = time - into if time >= _LONG_AGO + into else np.int64(_LONG_AGO)
        bound = boundary - size if boundary >= _LONG_AGO + size else np.int64(_LONG_AGO)
        for group in range(groups):
            if horizons.member[group * windows + window]:
                horizons.horizon[group] = min(horizons.horizon[group], bound)
        following = min(following, time + (slide - into) if time <= _NEVER - (slide - into) else np.int64(_NEVER))
    fields[_NEXT] = following


@njit(cache=True, nogil=True)
def _advance(edges, horizons, time):
    fields = edges.fields
    if not fields[_HAS_TIME] or time > fields[_TIME]:
        fields[_TIME] = time
        if not fields[_HAS_TIME] or time >= fields[_NEXT]:
            fields[_HAS_TIME] = 1
            _move_horizons(edges, horizons)


@wraps_around
@njit(cache=True, nogil=True, forceinline=True)
def _key_hash(u, label, v):
    h = np.uint64(u) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(v) * np.uint64(0xC2B2AE3D27D4EB4F)
    h = (h ^ (h >> np.uint64(29))) + np.uint64(label) * np.uint64(0x165667B19E3779F9)
    h *= np.uint64(0xBF58476D1CE4E5B9)
    return h ^ (h >> np.uint64(32))


@njit(cache=True, nogil=True, forceinline=True)
def _probe(edges, h, u, label, v):
    """The place of an edge in the table; a negative one, for `put`, if it is not there."""
    entries = edges.fields[_TABLE]
    place = first_candidate(edges.table, entries, h)
    while place >= 0:
        edge = id_at(edges.table, place)
        if edges.source[edge] == u and edges.target[edge] == v and edges.label[edge] == label:
            break
        place = next_candidate(edges.table, entries, place)
    return place


@njit(cache=True, nogil=True)
def _insert(edges, horizons, u, v, label, time):
    """Enter an edge or make it younger; its id and whether it was in a window."""
    fields = edges.fields
    horizon = horizons.horizon[horizons.group[label]]
    h = _key_hash(u, label, v)
    place = _probe(edges, h, u, label, v)
    if place >= 0:
        edge = id_at(edges.table, place)
        held = edges.timestamp[edge]
        present = held > horizon
        if not present:
            horizons.lost[label] = max(horizons.lost[label], held)
        edges.timestamp[edge] = max(held, time) if present else time
        return edge, present
    if fields[_FREE] > 0:
        fields[_FREE] -= 1
        edge = np.int64(edges.free[fields[_FREE]])
    else:
        edge = fields[_COUNT]
        fields[_COUNT] += 1
    edges.source[edge] = u
    edges.target[edge] = v
    edges.label[edge] = label
    edges.timestamp[edge] = time
    put(edges.table, place, edge)
    edges.degree[u] += 1
    edges.degree[v] += 1
    edges.bearing[label] += 1
    fields[_NEW] += 1
    return edge, False


@njit(cache=True, nogil=True)
def _enter(edges, horizons, chunk, count):
    for i in range(count):
        u, v = np.int64(chunk.source[i]), np.int64(chunk.target[i])
        chunk.edge[i], _ = _insert(edges, horizons, u, v, np.int64(chunk.label[i]), chunk.timestamp[i])


@njit(cache=True, nogil=True)
def _resolve(edges, horizons, chunk, count, outcome, outcomes):
    for i in range(count):
        time = chunk.timestamp[i]
        _advance(edges, horizons, time)
        label = np.int64(chunk.label[i])
        horizon = horizons.horizon[horizons.group[label]]
        chunk.edge[i] = -1
        if horizon == _NEVER:
            result = IRRELEVANT
            if not chunk.delete[i]:
                horizons.lost[label] = max(horizons.lost[label], time)
        elif chunk.delete[i]:
            u, v = np.int64(chunk.source[i]), np.int64(chunk.target[i])
            place = _probe(edges, _key_hash(u, label, v), u, label, v)
            edge = id_at(edges.table, place) if place >= 0 else np.int64(-1)
            if edge >= 0 and edges.timestamp[edge] > horizon:
                edges.timestamp[edge] = _LONG_AGO
                chunk.edge[i] = edge
                result = DELETED
            else:
                result = ABSENT_DELETE
        elif time <= horizon:
            result = LATE
            horizons.lost[label] = max(horizons.lost[label], time)
        else:
            edge, present = _insert(edges, horizons, np.int64(chunk.source[i]), np.int64(chunk.target[i]), label, time)
            chunk.edge[i] = edge
            result = REFRESHED if present else INSERTED
        outcome[i] = result
        outcomes[result] += 1


@njit(cache=True, nogil=True)
def _fill_table(edges):
    entries = edges.fields[_TABLE]
    clear(edges.table, entries)
    for edge in range(edges.fields[_COUNT]):
        if edges.source[edge] >= 0:
            h = _key_hash(np.int64(edges.source[edge]), np.int64(edges.label[edge]), np.int64(edges.target[edge]))
            put_new(edges.table, entries, h, edge)


@njit(cache=True, nogil=True)
def _collect(edges, horizons):
    fields = edges.fields
    for edge in range(fields[_COUNT]):
        if edges.source[edge] < 0:
            continue
        label = edges.label[edge]
        if edges.timestamp[edge] <= horizons.horizon[horizons.group[label]]:
            horizons.lost[label] = max(horizons.lost[label], edges.timestamp[edge])
            edges.degree[edges.source[edge]] -= 1
            edges.degree[edges.target[edge]] -= 1
            edges.bearing[label] -= 1
            edges.source[edge] = -1
            edges.timestamp[edge] = _LONG_AGO
            edges.free[fields[_FREE]] = edge
            fields[_FREE] += 1
    _fill_table(edges)
    fields[_NEW] = 0
    unused = np.empty(fields[_VERTICES], np.int32)
    count = 0
    for vertex in range(fields[_VERTICES]):
        if edges.degree[vertex] == 0:
            unused[count] = vertex
            count += 1
    return unused[:count]
