"""The index of a path query with costs: an index of lengths in which edges have weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from rpq.compiled.arrays.lengthening import lengthen
from rpq.compiled.views import view
from rpq.language.protocol import SUM_TOO_LARGE
from rpq.operators.paths.costs import Costs
from rpq.operators.paths.index.path_delta import PathDelta
from rpq.operators.paths.lengths.kernels import NO_WALK
from rpq.operators.paths.lengths.length_index import LengthIndex
from rpq.operators.paths.lengths.progress import TOO_LARGE
from rpq.operators.paths.program import Program
from rpq.stream.chunk import NO_DETAILS, Chunk, ChunkDetails
from rpq.stream.edges.snapshot import Edges
from rpq.stream.window import AnyWindow

_CEILING = 2**51
"""The largest slide. Cells of costs are above it: the bits of a float are at most 2**63 - 2**52, those of infinity."""

_FEW_BITS = 47
"""Bits of floats that tell those within a bucket of the queue: 32 buckets for each power of two."""
_HALF_OF_BUCKETS = 128
_OF_INTEGERS = 4
"""The queue has buckets for costs of integers up to 2**4 times the largest weight."""


class CostIndex(LengthIndex):
    """An index of the smallest sums of a property along paths over links."""

    def __init__(self, program: Program, window: AnyWindow, *, costs: Costs, **options: Any) -> None:
        self._costs, self._scale = costs, costs.scale
        super().__init__(program, window, **options)
        self._set_weights(np.zeros(len(self.index.graph.expiry), np.int64))

    def _cells_for(self, span: int) -> tuple[np.dtype, int] | None:
        return (np.dtype(np.int64), _CEILING) if span < _CEILING // 2 else None

    def _set_weights(self, weights: np.ndarray) -> None:
        """Set the weights of edges by id. Their type changes only before there are any."""
        if weights.dtype != self._progress.weight.dtype:
            self._bound.clear()
        self._progress = self._progress._replace(weight=weights)
        self.index = self.index  # its views have the weights

    def _along_edges(self, chunk: Chunk) -> Chunk:
        """Return a chunk of links as one of the edges that are vertices, whose weights are noted."""
        program, vertices = self.index.program, self._costs.vertices
        is_read = (program.forward[chunk.label] >= 0) | (program.inverse[chunk.label] >= 0)
        is_read &= chunk.edge >= 0  # late tuples have no edge, nor have deletes of what is not there
        vertex, edge = chunk.target[is_read], chunk.edge[is_read]
        of_vertices = vertices.edges.weights(self._costs.name)
        self._keep_scale()
        weights, room = self._progress.weight, len(self.index.graph.expiry)
        if len(weights) < room or weights.dtype != of_vertices.dtype:
            self._set_weights(lengthen(weights, room - len(weights)).astype(of_vertices.dtype))
            weights = self._progress.weight
        weights[edge] = of_vertices[vertex]
        self._note_largest(weights[edge].max(initial=0))
        target = chunk.target.copy()
        target[is_read] = vertices.edges.all_columns.target[vertex]
        return chunk._replace(target=target)

    def _note_largest(self, weight: np.generic) -> None:
        """Divide the costs among the buckets of the queue so that a weight, the largest so far, lies in the first half."""
        fields = self._progress.fields
        is_float = self._progress.weight.dtype == np.float64
        fields.too_large = -1 if is_float else fields.lowest
        if is_float:
            first = (int(weight.view(np.int64)) >> _FEW_BITS) - _HALF_OF_BUCKETS
            fields.rank_shift, fields.rank_first = _FEW_BITS, max(first, fields.rank_first)
        else:
            fields.rank_first, fields.rank_shift = 0, max(int(weight).bit_length() - _OF_INTEGERS, fields.rank_shift)

    def _keep_scale(self) -> None:
        """Make costs and weights of decimals have as many digits as the property has now."""
        digits = self._costs.scale - self._scale
        if digits <= 0:
            return
        self._scale += digits
        table, fields, weights = self.index.table, self._progress.fields, self._progress.weight
        limit = (fields.zero - fields.lowest) // 10**digits
        for cells in (table.values, table.hops):
            costs = fields.zero - cells
            larger = np.where(costs > limit, fields.lowest, fields.zero - np.minimum(costs, limit) * 10**digits)
            cells[:] = np.where(cells == 0, 0, larger)
        most = np.iinfo(np.int64).max // 10**digits
        weights[:] = np.where(weights > most, np.iinfo(np.int64).max, np.minimum(weights, most) * 10**digits)

    def apply(self, chunk: Chunk, tuples: Any, edges: Edges, details: ChunkDetails = NO_DETAILS) -> None:
        """Apply the links of a chunk as `DeltaIndex.apply`, with rows net of its events."""
        along, count = self._along_edges(chunk), len(chunk.label)
        self._progress.fields.has_events = details.first is not None
        if details.first is not None:
            if count > len(self._progress.first):
                self._progress = self._progress._replace(first=np.zeros(2 * count, np.int64))
                self.index = self.index  # its views have the events
            self._progress.first[:count] = details.first
        super().apply(along, view(along), edges, details)
        self.run("flush")

    def _load(self, chunk: Chunk, relative: np.ndarray, *, quiet: bool) -> None:
        super()._load(self._along_edges(chunk), relative, quiet=quiet)

    def provide(self, code: int) -> None:
        """Provide what a kernel requested, or refuse a cost that is too large."""
        if code == TOO_LARGE:
            self.guard(SUM_TOO_LARGE, self._place)
        super().provide(code)

    def delta(self, *, before: int | None = None) -> PathDelta:
        """Return the changes as `DeltaIndex.delta`, in which costs have places."""
        delta = super().delta(before=before)
        if delta.walk_lengths is not None:
            delta.walk_lengths = self._costs.places(delta.walk_lengths)
        return delta

    def lengths_of(self, pairs: np.ndarray) -> np.ndarray:
        """Return the places of the costs of some answers, root << 32 | end; `NO_WALK` for a pair that is not an answer."""
        keys = super().lengths_of(pairs)
        return np.where(keys == NO_WALK, NO_WALK, self._costs.places(np.maximum(keys, 0)))
