"""The edges that tuples become: their own labels where these are read, and derived labels, as inserts and deletes.

A tuple becomes an edge with each derived label that its version satisfies, and deletes those that only the version before
it had. All of them are one event; `EdgeTable` returns them as operations.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rpq.compiled.kernel_cache import njit
from rpq.stream.chunk import Chunk
from rpq.stream.edges.edge_table import Operations


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
    unread: Chunk | None = None
    """The edges that no query reads, from which edges with tests of their ends follow when a record comes; None for none."""

    def are_boundaries(self, before: int | None) -> np.ndarray | None:
        """Return which edges, of those `before` a place, change at a boundary (bool); None where none does."""
        return None if self.boundary is None else self.boundary[:before] < 0

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
    if len(idle) or (made.row[1:] < made.row[:-1]).any():
        nothing = np.full(len(idle), -1, np.int32)
        moved = nothing, chunk.label[idle], nothing, chunk.timestamp[idle], np.ones(len(idle), np.uint8), idle
        order = np.argsort(np.append(made.row, idle), kind="stable")
        made = Operations(*(np.append(one, other)[order] for one, other in zip(made, moved, strict=True)))
        is_evicted = None if is_evicted is None else np.append(is_evicted, np.zeros(len(idle), bool))[order]
        boundary = None if boundary is None else np.append(boundary, np.zeros(len(idle), boundary.dtype))[order]
    source, label, target, timestamp, delete, row = made
    derived = Chunk(source, target, label, timestamp, delete, np.empty(len(row), np.int32))
    is_first = np.diff(row, prepend=-1) != 0
    if boundary is not None:
        is_first |= np.diff(boundary, prepend=0) != 0
    if is_evicted is None and is_first.all():
        return DerivedChunk(derived, None if len(row) == len(outcome) else row, None, outcome)
    return DerivedChunk(derived, row, _first_of_runs(is_first), outcome, is_evicted, boundary)


def _rows_to_apply(tuples: Any, is_edge: np.ndarray, now: np.ndarray) -> np.ndarray:
    """Return the rows of tuples that become edges (uint8) or are needed to move the time. O(tuples).

    A tuple that becomes no edge is left out where the next one that does moves the time as far. Of those behind the last
    edge the one with the largest timestamp stays.
    """
    rows = np.empty(len(is_edge), np.int64)
    return rows[: rows_to_apply(tuples, is_edge, now, len(rows), rows)]
