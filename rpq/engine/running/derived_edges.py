"""The edges that tuples become: their own labels where these are read, and derived labels, as inserts and deletes.

A tuple becomes an edge with each derived label that its version satisfies, and deletes those that only the version before
it had. All of them are one event; `EdgeTable` returns them as operations.

Where the window is decided before the graph, `WindowEdges` knows what it holds. `WindowDerivation` then makes one chunk of
its changes, the links of edges that are vertices, and the outcomes of tuples, ordered by tuples and by the stages of each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from rpq.compiled.kernel_cache import njit
from rpq.compiled.views import view
from rpq.engine.running.condition_sets import ConditionSets
from rpq.engine.running.edge_vertex_links import EdgeVertexLinks, TupleEdges
from rpq.engine.running.outcome_counts import OutcomeCounts, lower_bounds
from rpq.stream.chunk import Chunk
from rpq.stream.edges.edge_table import Operations, PriorEdges
from rpq.stream.edges.edge_values import values_at
from rpq.stream.edges.window_edges import EVICTIONS, STAGES, ChunkEffects, Link, StagedChanges, WindowEdges


class DerivedChunk(NamedTuple):
    """The tuples of a chunk as edges with derived labels."""

    chunk: Chunk
    row: np.ndarray | None
    """int64: for each edge its tuple in the chunk; None where each tuple is one edge."""
    first: np.ndarray | None
    """int64: for each edge the place of the first of its event; None where each is an event of its own."""
    outcome: np.ndarray
    """uint8: the outcome of each tuple."""
    is_evicted: np.ndarray | None = None
    """bool: for each edge whether a window that is decided before the graph evicts it; None where no window is."""
    boundary: np.ndarray | None = None
    """int32: for each edge the boundary, below 0, at which it changes before its tuple; 0 for edges of the tuple itself."""

    def first_of_events(self, events: np.ndarray) -> np.ndarray:
        """Return `first` for events of several tuples, whose first tuples are `events` (int64, a tuple)."""
        of_edges = events if self.row is None else events[self.row]
        is_first = np.diff(of_edges, prepend=-1) != 0
        if self.boundary is not None:
            is_first |= np.diff(self.boundary, prepend=0) != 0
        return _first_of_runs(is_first)

    def first_of_parts(self, first: np.ndarray | None) -> np.ndarray | None:
        """Return `first` of events whose evictions are separate events, for queries that net events themselves.

        Such queries can then distinguish what only evictions remove.
        """
        if first is None or self.is_evicted is None or not self.is_evicted.any():
            return first
        is_first = first == np.arange(len(first))
        is_first[1:] |= self.is_evicted[1:] != self.is_evicted[:-1]
        return _first_of_runs(is_first)

    def in_streams(self, chunk: Chunk, named: Chunk, is_named: np.ndarray) -> tuple[Chunk, np.ndarray]:
        """Return these edges as readers of named streams see them, and which of them have another label there (uint8).

        `chunk` are the tuples, `named` the same tuples as such readers see them, and `is_named` which of them have another
        label there. Of the edges of a tuple, such readers see the one with its own label.
        """
        row = np.arange(len(self.chunk.label)) if self.row is None else self.row
        is_own = is_named[row] & (self.chunk.label == chunk.label[row])
        label = np.where(is_own, named.label[row], self.chunk.label)
        return self.chunk._replace(label=label, edge=np.empty(len(row), np.int32)), is_own.astype(np.uint8)


def _first_of_runs(is_first: np.ndarray) -> np.ndarray:
    """Return for each place that of the first one of its run, of which the first place is marked."""
    begins = np.flatnonzero(is_first)
    return np.repeat(begins, np.diff(begins, append=len(is_first)))


@njit(cache=True, nogil=True)
def rows_to_apply(tuples, is_edge, now, count, rows):
    """Write the rows of tuples that become edges or are needed to advance the time. Return their number."""
    following, is_behind, latest = np.int64(0), True, np.int64(-1)
    for i in range(count - 1, -1, -1):
        rows[i] = is_edge[i]
        if is_edge[i]:
            following, is_behind = tuples.timestamp[i], False
        elif not is_behind:
            rows[i] = following < now[i]
        elif latest < 0 or tuples.timestamp[i] >= tuples.timestamp[latest]:
            latest = np.int64(i)
    if latest >= 0:
        rows[latest] = 1
    applied = np.int64(0)
    for i in range(count):
        if rows[i]:
            rows[applied] = i
            applied += 1
    return applied


def chunk_of_operations(
    made: Operations,
    chunk: Chunk,
    tuples: Any,
    now: np.ndarray,
    *,
    outcome: np.ndarray,
    is_evicted: np.ndarray | None = None,
    boundary: np.ndarray | None = None,
) -> DerivedChunk:
    """Return operations on the graph as edges, with the tuples of a chunk and its view that are needed to move the time.

    Operations on one tuple are in order. `now` are the stream times after the tuples of the chunk, `is_evicted` says of each
    operation whether it is an eviction, and `boundary` is that of `DerivedChunk`.
    """
    own = made.row if boundary is None else made.row[boundary == 0]
    has_operations = np.bincount(own, minlength=len(chunk.label)) > 0
    rows = _rows_to_apply(tuples, has_operations.view(np.uint8), now)
    idle = rows[~has_operations[rows]]
    nothing = np.full(len(idle), -1, np.int32)
    row = np.concatenate([made.row, idle])
    order = np.argsort(row, kind="stable")
    moved = nothing, chunk.label[idle], nothing, chunk.timestamp[idle], np.ones(len(idle), np.uint8)
    columns = (np.concatenate([one, other])[order] for one, other in zip(made[:5], moved, strict=True))
    source, label, target, timestamp, delete = (np.ascontiguousarray(column) for column in columns)
    row = row[order]
    derived = Chunk(source, target, label, timestamp, delete, np.empty(len(row), np.int32))
    are_evicted = None if is_evicted is None else np.append(is_evicted, np.zeros(len(idle), bool))[order]
    is_first = np.diff(row, prepend=-1) != 0
    boundaries = None if boundary is None else np.append(boundary, np.zeros(len(idle), boundary.dtype))[order]
    if boundaries is not None:
        is_first |= np.diff(boundaries, prepend=0) != 0
    if are_evicted is None and is_first.all():
        return DerivedChunk(derived, None if len(row) == len(outcome) else row, None, outcome)
    return DerivedChunk(derived, row, _first_of_runs(is_first), outcome, are_evicted, boundaries)


def _rows_to_apply(tuples: Any, is_edge: np.ndarray, now: np.ndarray) -> np.ndarray:
    """Return the rows of tuples that become edges (uint8) or are needed to move the time. O(tuples).

    A tuple that becomes no edge is left out where the next one that does moves the time as far. Of those behind the last
    edge the one with the largest timestamp stays.
    """
    rows = np.empty(len(is_edge), np.int64)
    return rows[: rows_to_apply(tuples, is_edge, now, len(rows), rows)]


# --- windows that are decided before the graph -----------------------------------------------------------------


class WindowDerivation:
    """The derivation of edges from tuples over a window that is decided before the graph.

    With `keeps_values` edges get the values that witnesses show.
    """

    def __init__(
        self,
        edges: WindowEdges,
        *,
        sets: ConditionSets,
        links: EdgeVertexLinks,
        outcome_counts: OutcomeCounts,
        keeps_values: bool,
    ) -> None:
        self.edges = edges
        """The edges that the window holds."""
        self._sets = sets
        self._links = links
        self._outcome_counts = outcome_counts
        self._keeps_values = keeps_values

    def derive(
        self,
        chunk: Chunk,
        tuples: Any,
        now: np.ndarray,
        *,
        keys: Sequence[Any],
        number: np.ndarray,
        derived_set: np.ndarray,
        is_plain: np.ndarray,
        properties: Mapping[str, pa.Array],
        timestamp: np.ndarray,
        values: Iterable[str],
    ) -> DerivedChunk:
        """Return the tuples of a chunk, with its view, as the edges that the window holds and evicts.

        `now` are the times after them, `keys` and `number` those of the edges, `derived_set` their sets of derived labels,
        and `is_plain` says whether a query reads their label without a condition. `properties` and `timestamp` are what
        conditions see, and `values` the properties of edges that are vertices. O(tuples + changes).
        """
        is_read = self._outcome_counts.reads(chunk.label)
        applied = self.edges.apply(chunk, keys, now, derived_set=derived_set, is_read=is_read, is_plain=is_plain)
        outcome = self._judge(chunk, tuples, applied, now)
        if self._keeps_values:
            names = sorted(self._sets.properties)
            for row, one in applied.entered_edges:
                one.values = values_at(properties, names, row)
        links: list[tuple[int, TupleEdges]] = []
        if self._links.are_read:
            links = self._links.derive_in_window(chunk, properties, timestamp, applied, number=number, values=values)
        return self._derive_changes(chunk, tuples, now, applied, links, outcome)

    def expire(self, time: int) -> DerivedChunk | None:
        """Advance the time without a tuple. Return the edges that leave the window, or None if there are none."""
        if self.edges.counts:
            return None
        applied = self.edges.expire(time)
        if not applied.boundaries:
            return None
        links = self._links.departure_links(applied) if self._links.are_read else []
        nothing = Chunk(*(np.zeros(0, kind) for kind in (np.int32, np.int32, np.int32, np.int64, np.uint8, np.int32)))
        return self._derive_changes(nothing, view(nothing), np.zeros(0, np.int64), applied, links, np.zeros(0, np.uint8))

    def set_statics(
        self, keys: Sequence[Any], links: Sequence[list[Link]], *, begins: bool
    ) -> tuple[list[Link], list[Link]]:
        """Set the links of static edges. Return those of edges that are never hidden, and of edges that are not hidden now.

        `keys` are those of the edges, None for an edge that is never hidden. The last edge with a key replaces the others.
        """
        keyed = {key: of_edge for key, of_edge in zip(keys, links, strict=True) if key is not None}
        never = [link for key, of_edge in zip(keys, links, strict=True) if key is None for link in of_edge]
        return never, self.edges.set_statics(keyed, begins=begins)

    def values_of(self, ends: Link, derived: int | None) -> Mapping[str, Any] | None:
        """Return the values of the youngest edge with these ends, and with a derived label if given; None if unknown."""
        for edge in self.edges.youngest_first(*ends):
            if derived is None or derived in self._sets.labels_of(edge.derived_set):
                return edge.values
        return None

    def _judge(self, chunk: Chunk, tuples: Any, applied: ChunkEffects, now: np.ndarray) -> np.ndarray:
        """Count the outcomes of tuples; return those for the engine as a whole."""
        if self.edges.counts:
            self._outcome_counts.count(applied.outcome)
            return applied.outcome
        before = PriorEdges(applied.prior_timestamp, applied.prior_label)
        bounds = {self.edges.window: lower_bounds(self.edges.window, now)}
        return self._outcome_counts.judge(chunk, tuples, before, bounds)

    def _derive_changes(
        self,
        chunk: Chunk,
        tuples: Any,
        now: np.ndarray,
        applied: ChunkEffects,
        links: Iterable[tuple[int, TupleEdges]],
        outcome: np.ndarray,
    ) -> DerivedChunk:
        """Return the changes of the window and links, each with its stage, in the order of tuples and stages."""
        pieces = [applied.changes]
        for stage, (rows, source, label, target, delete) in links:
            begin = stage - stage % STAGES
            boundaries = [applied.boundaries[row, begin] for row in rows.tolist()] if begin else None
            times = chunk.timestamp[rows] if boundaries is None else np.array(boundaries, np.int64)
            stages = np.full(len(rows), stage, np.int32)
            pieces.append(StagedChanges(rows, stages, source, label, target, times, delete))
        changes = StagedChanges(*(np.concatenate([*column]) for column in zip(*pieces, strict=True)))
        order = np.lexsort((changes.stage, changes.row))
        ordered = StagedChanges(*(column[order] for column in changes))
        made = Operations(*ordered[2:], ordered.row)
        is_evicted: np.ndarray = ordered.stage % STAGES == EVICTIONS
        boundary: np.ndarray = ordered.stage // STAGES
        return chunk_of_operations(made, chunk, tuples, now, outcome=outcome, is_evicted=is_evicted, boundary=boundary)
