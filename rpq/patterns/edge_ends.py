"""Which vertices have an edge of a relation to some others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rpq.patterns import tables
from rpq.patterns.relation import RelationStore


def neighbours(store: RelationStore, relation: int, vertices: Sequence[int] | None, *, inward: bool) -> np.ndarray:
    """The sources of edges into some vertices, or (`inward`) the targets of those from them; None: into or from any.

    O(edges of all relations).
    """
    edges = store.relations.edge.reshape(-1, tables.EDGE)[1 : store.relations.state[tables.EDGES]]
    near, far = (tables.SOURCE, tables.TARGET) if inward else (tables.TARGET, tables.SOURCE)
    mine = edges[edges[:, tables.RELATION] == relation]
    return np.unique(mine[:, far] if vertices is None else mine[np.isin(mine[:, near], vertices), far])
