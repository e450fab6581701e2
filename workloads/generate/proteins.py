"""A stream like interactions between proteins: one label, few vertices, so every tuple concerns every query.

Few proteins have most interactions. Timestamps are positions.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from rpq.workloads.generate.batches import BLOCK, blocks, named
from rpq.workloads.generate.draws import power_law, uniform

LABEL = "interacts"
EDGES_A_PROTEIN = 6
_ONE, _OTHER = range(2)


def like_biogrid(*, edges: int, seed: int) -> Iterator[pa.RecordBatch]:
    """That many tuples, some of which are of one edge."""
    proteins = max(20, edges // EDGES_A_PROTEIN)
    for position in blocks(edges, BLOCK):
        ends = [
            power_law(uniform(seed, purpose, position), proteins, head=30, exponent=1.3) for purpose in (_ONE, _OTHER)
        ]
        yield pa.record_batch(
            {
                "source": named("g", ends[0]),
                "target": named("g", np.where(ends[0] == ends[1], (ends[1] + 1) % proteins, ends[1])),
                "label": pa.array([LABEL]).take(pa.array(np.zeros(len(position), np.int64))),
                "timestamp": pa.array(position),
            }
        )
