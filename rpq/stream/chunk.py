"""Tuples as kernels see them: columns of ids."""

from typing import Any, NamedTuple

import numpy as np


class Chunk(NamedTuple):
    """Tuples with their names resolved by the snapshot graph."""

    source: np.ndarray  # int32 vertex id, -1 where the label is irrelevant to every query
    target: np.ndarray  # int32
    label: np.ndarray  # int32 label id
    timestamp: np.ndarray  # int64
    delete: np.ndarray  # uint8
    edge: np.ndarray  # int32 edge id; -1: nothing to insert or to delete


class ChunkDetails(NamedTuple):
    """What a chunk says beside its tuples to those that ask for it; the chunk itself is the merged stream."""

    named: Chunk | None = None
    """The same tuples as readers of named streams see them: where one reads the label in the tuple's stream, its `label` is
    the id of that `StreamLabel` and `edge` the edge there, else as in the chunk. None where there is no such tuple."""
    named_view: Any = None
    """The view of `named`."""
    first: np.ndarray | None = None
    """int64: for each tuple the place in the chunk of the first one of its event; None where each is an event of its own.
    No event goes beyond the chunk. Rows are net of the whole event, which has that tuple's place in the order of a delta."""


NO_DETAILS = ChunkDetails()
