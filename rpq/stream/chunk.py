"""Tuples as kernels see them: columns of ids."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from rpq.compiled.views import view

DELETE_UNLESS_NEWER = 2
"""In place of 1 in `Chunk.delete`, where edges have ids: a delete that changes nothing if the edge is newer than it."""


class Chunk(NamedTuple):
    """Tuples with their names resolved by the snapshot graph."""

    source: np.ndarray  # int32 vertex id, -1 where no query reads the label, or none that does accepts the edge
    target: np.ndarray  # int32
    label: np.ndarray  # int32 label id
    timestamp: np.ndarray  # int64
    delete: np.ndarray  # uint8
    edge: np.ndarray  # int32 edge id; -1: nothing to insert or to delete


class ChunkDetails(NamedTuple):
    """Details of a chunk beside its tuples; the chunk itself is the merged stream."""

    named: Chunk | None = None
    """The same tuples as readers of named streams see them: where one reads the label in the tuple's stream, its `label` is
    the id of that `StreamLabel` and `edge` the edge there, else as in the chunk. None where there is no such tuple."""
    named_view: Any = None
    """The view of `named`."""
    first: np.ndarray | None = None
    """int64: for each tuple the place in the chunk of the first one of its event; None where each is an event of its own.
    No event goes beyond the chunk. Rows are net of the whole event, which has that tuple's place in the order of a delta."""
    counts_only: bool = False
    """True if rows are only counted, so that deltas may lack them."""
    has_edge_ids: bool = True
    """False if another thread applies the chunk to the graph meanwhile: the `edge` of tuples is not known yet."""
    wait_for_names: Callable[[], object] | None = None
    """Waits for another thread that gives ids to the names of the next chunk, after which names can be read; None if there
    is none."""


NO_DETAILS = ChunkDetails()


# --- a chunk of one tuple, which is filled in place: live programs push one at a time -----------------------
#
# A chunk of thousands spreads what it costs to make arrays, views and Arrow columns. For one tuple that is nearly all
# there is to pay; so its arrays and their view are made once.

class SingleTuple:
    """A chunk of one tuple, its view, and its outcome."""

    def __init__(self) -> None:
        self.chunk = Chunk(
            source=np.zeros(1, np.int32),
            target=np.zeros(1, np.int32),
            label=np.zeros(1, np.int32),
            timestamp=np.zeros(1, np.int64),
            delete=np.zeros(1, np.uint8),
            edge=np.zeros(1, np.int32),
        )
        self.view = view(self.chunk)
        self.outcome = np.zeros(1, np.uint8)

    def fill(self, source: int, target: int, label: int, timestamp: int, delete: bool) -> None:
        """Fill in the values of a tuple."""
        sources, targets, labels, timestamps, deletes, _ = self.chunk
        sources[0] = source
        targets[0] = target
        labels[0] = label
        timestamps[0] = timestamp
        deletes[0] = delete
