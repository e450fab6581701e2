"""The edges that tuples become where the window is decided before the graph: those that it holds, brings back and evicts.

`WindowEdges` knows what the window holds. Here its changes, the links of edges that are vertices, and the outcomes of tuples
become one chunk of derived edges, in the order of tuples and of the stages of each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from rpq.compiled.views import view
from rpq.engine.running.condition_sets import ConditionSets
from rpq.engine.running.derived_edges import DerivedChunk, TupleEdges, chunk_of_operations
from rpq.engine.running.edge_vertex_links import EdgeVertexLinks
from rpq.engine.running.outcome_counts import OutcomeCounts, lower_bounds
from rpq.stream.chunk import Chunk
from rpq.stream.edge_values import values_at
from rpq.stream.edges_by_id import EdgesBefore, Operations
from rpq.stream.window_edges import EVICTIONS, STAGES, Applied, Link, StagedChanges, WindowEdges


class WindowDerivation:
    """The derivation of edges from tuples over a window that is decided before the graph.

    With `keeps_values` edges get the values that witnesses tell.
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
        satisfied: np.ndarray,
        is_plain: np.ndarray,
        properties: Mapping[str, pa.Array],
        timestamp: np.ndarray,
        values: Iterable[str],
    ) -> DerivedChunk:
        """Return the tuples of a chunk, with its view, as the edges that the window holds and evicts.

        `now` are the times after them, `keys` and `number` those of the edges, `satisfied` their sets of derived labels, and
        `is_plain` says whether a query reads their label without a condition. `properties` and `timestamp` are what
        conditions see, and `values` the properties of edges that are vertices. O(tuples + changes).
        """
        is_read = self._outcome_counts.reads(chunk.label)
        applied = self.edges.apply(chunk, keys, now, satisfied=satisfied, is_read=is_read, is_plain=is_plain)
        outcome = self._judge(chunk, tuples, applied, now)
        if self._keeps_values:
            names = sorted(self._sets.properties)
            for row, one in applied.entered:
                one.values = values_at(properties, names, row)
        links: list[tuple[int, TupleEdges]] = []
        if self._links.are_read:
            links = self._links.derive_in_window(chunk, properties, timestamp, applied, number=number, values=values)
        return self._derived(chunk, tuples, now, applied, links, outcome)

    def expire(self, time: int) -> DerivedChunk | None:
        """Let time pass without a tuple; return what leaves the window, None for nothing."""
        if self.edges.counts:
            return None
        applied = self.edges.expire(time)
        if not applied.boundaries:
            return None
        links = self._links.links_of_left(applied) if self._links.are_read else []
        nothing = Chunk(*(np.zeros(0, kind) for kind in (np.int32, np.int32, np.int32, np.int64, np.uint8, np.int32)))
        return self._derived(nothing, view(nothing), np.zeros(0, np.int64), applied, links, np.zeros(0, np.uint8))

    def set_statics(
        self, keys: Sequence[Any], links: Sequence[list[Link]], *, begins: bool
    ) -> tuple[list[Link], list[Link]]:
        """Set what static edges are in the graph; return that of those that are never hidden, and of those that are not now.

        `keys` are those of the edges, None for one that no edge hides; of those with a key the last is the edge.
        """
        keyed = {key: of_edge for key, of_edge in zip(keys, links, strict=True) if key is not None}
        never = [link for key, of_edge in zip(keys, links, strict=True) if key is None for link in of_edge]
        return never, self.edges.set_statics(keyed, begins=begins)

    def values_of(self, ends: Link, derived: int | None) -> Mapping[str, Any] | None:
        """Return the values of the youngest edge with these ends, and with a derived label if given; None if unknown."""
        for edge in self.edges.youngest_first(*ends):
            if derived is None or derived in self._sets.labels_of(edge.satisfied):
                return edge.values
        return None

    def _judge(self, chunk: Chunk, tuples: Any, applied: Applied, now: np.ndarray) -> np.ndarray:
        """Count the outcomes of tuples; return those for the engine as a whole."""
        if self.edges.counts:
            self._outcome_counts.count(applied.outcome)
            return applied.outcome
        before = EdgesBefore(applied.timestamp_before, applied.label_before)
        bounds = {self.edges.window: lower_bounds(self.edges.window, now)}
        return self._outcome_counts.judge(chunk, tuples, before, bounds)

    def _derived(
        self,
        chunk: Chunk,
        tuples: Any,
        now: np.ndarray,
        applied: Applied,
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
        evicted: np.ndarray = ordered.stage % STAGES == EVICTIONS
        boundary: np.ndarray = ordered.stage // STAGES
        return chunk_of_operations(made, chunk, tuples, now, outcome=outcome, evicted=evicted, boundary=boundary)
