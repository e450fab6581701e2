"""The timestamps that edges had at each tuple of a chunk, once all of its tuples are applied.

Workers report the rows of a whole chunk, and by then the graph has the timestamps after its last tuple: an edge of a row may
have come again since. Witnesses therefore take the timestamps of their edges from here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rpq.compiled.kernel_cache import njit
from rpq.stream.chunk import Chunk
from rpq.stream.edges.edge_store import LONG_AGO
from rpq.stream.edges.outcomes import INSERTED
from rpq.stream.edges.snapshot import SnapshotGraph


class EdgeTimes:
    """The timestamps of edges at each tuple of a chunk: created before the graph applies it, complete after `note`."""

    def __init__(self, graph: SnapshotGraph, chunk: Chunk, view_of_chunk: Any) -> None:
        self._graph, self._chunk = graph, chunk
        self._before = graph.timestamps_of(view_of_chunk, len(chunk.edge))
        self._key = self._after = self._before[:0]

    def note(self, outcome: np.ndarray | None) -> None:
        """Note that the tuples are applied, and their outcomes; without these no edge is one of a count window.

        O(tuples log tuples).
        """
        edge = self._chunk.edge
        place = np.argsort(edge, kind="stable")
        place = place[np.searchsorted(edge[place], 0) :]  # the others changed no edge
        if not len(place):
            return
        ids = edge[place]
        self._key = ids.astype(np.int64) * len(edge) + place
        self._before = self._before[place]
        self._after = np.empty(len(place), np.int64)
        begins_anew = np.zeros(len(place), bool) if outcome is None else outcome[place] == INSERTED
        chunk = self._chunk
        _follow(ids, chunk.timestamp[place], chunk.delete[place], begins_anew, self._before, self._after)
        is_last = np.append(ids[1:] != ids[:-1], True)
        self._after[is_last] = self._graph.edges.timestamp[ids[is_last]]

    def at(self, edge: np.ndarray, order: np.ndarray) -> np.ndarray:
        """Return the timestamps of edges at places in the order of the chunk (`Delta.orders`).  O(edges log tuples)."""
        timestamp = self._graph.edges.timestamp[edge]
        count, last = len(self._chunk.edge), len(self._key) - 1
        if last < 0:
            return timestamp
        # A boundary comes before its tuple: it sees what the tuple before that left.
        behind = np.searchsorted(self._key, edge.astype(np.int64) * count + (order - 1) // 2, side="right")
        earlier, later = np.maximum(behind - 1, 0), np.minimum(behind, last)
        has_earlier = (behind > 0) & (self._key[earlier] // count == edge)
        has_later = (behind <= last) & (self._key[later] // count == edge)
        return np.where(has_earlier, self._after[earlier], np.where(has_later, self._before[later], timestamp))


@njit(cache=True, nogil=True)
def _follow(edge, timestamp, delete, begins_anew, before, after):
    """Write the timestamp of the edge of each tuple after that tuple; those of one edge follow each other."""
    time = np.int64(0)
    for i in range(len(edge)):
        if i == 0 or edge[i] != edge[i - 1]:
            time = before[i]
        if delete[i]:
            time = np.int64(LONG_AGO)
        elif begins_anew[i]:
            time = timestamp[i]
        else:
            time = max(time, timestamp[i])
        after[i] = time
