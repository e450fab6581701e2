"""Graphs from a gMark schema, as streams: each edge is drawn by itself, timestamps are positions.

gMark makes a whole graph relation by relation; here the relations are mixed as in a shuffled graph, edge by edge, in
bounded memory. The ends of the k-th edge of a relation follow its distributions: a side that is not zipfian goes
through its vertices in a fixed random order, again and again, so all have the same degree (gMark's uniform 1 to 1
exactly, others in the mean); a zipfian side is drawn by rank. Vertices are numbers, by type one range after the other.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from rpq.workloads.generate.batches import BLOCK, blocks
from rpq.workloads.generate.draws import power_law, spread, uniform
from rpq.workloads.gmark.schema import SOCIAL, Distribution, Schema

_RELATION, _ENDS = 0, 10


def like_gmark(*, edges: int, seed: int, schema: Schema = SOCIAL) -> Iterator[pa.RecordBatch]:
    """A graph of the schema with that many edges; labels as the schema has them, vertices as text."""
    size = schema.vertices_for(edges)
    counts = {name: max(1, round(part * size)) for name, part in schema.types.items()}
    starts = dict(zip(counts, np.concatenate([[0], np.cumsum([*counts.values()])]).tolist(), strict=False))
    weights = np.array([r.count(counts[r.source], counts[r.target]) for r in schema.relations])
    shares = np.cumsum(weights / weights.sum())[:-1]
    labels = pa.array([relation.label for relation in schema.relations])
    drawn = np.zeros(len(weights), np.int64)
    for number in blocks(edges, BLOCK):
        relation = np.searchsorted(shares, uniform(seed, _RELATION, number), side="right")
        source, target = np.empty(len(number), np.int64), np.empty(len(number), np.int64)
        for place in np.unique(relation):
            rows = np.flatnonzero(relation == place)
            kth = drawn[place] + np.arange(len(rows))
            drawn[place] += len(rows)
            of = schema.relations[place]
            purpose = _ENDS + 2 * int(place)
            source[rows] = starts[of.source] + _ends(kth, counts[of.source], of.outgoing, seed, purpose)
            target[rows] = starts[of.target] + _ends(kth, counts[of.target], of.incoming, seed, purpose + 1)
        yield pa.RecordBatch.from_pydict(
            {
                "source": pa.array(source).cast(pa.string()),
                "target": pa.array(target).cast(pa.string()),
                "label": labels.take(pa.array(relation)),
                "timestamp": number,
            }
        )


def _ends(kth: np.ndarray, size: int, side: Distribution, seed: int, purpose: int) -> np.ndarray:
    """Vertices of a type at one end of the edges of a relation; degrees with exponent α are ranks with 1 + 1 / (α − 1)."""
    if side.kind != "zipfian":
        return spread(kth, size, seed, purpose)
    steepness = 1 + 1 / max(side.exponent - 1, 0.1)
    ranks = power_law(uniform(seed, purpose, kth), float(size), head=max(1.0, size * 0.02), exponent=steepness)
    return spread(ranks, size, seed, purpose)
