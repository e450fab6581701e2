"""The edges between equal vertices with equal labels, one by one.

The snapshot graph has each (source, label, target) once, with the largest timestamp. That is not enough for paths in time
order, for which an earlier parallel edge may be the one that fits. `ParallelEdges` notes what the graph is told of the
labels that such queries read, and returns the edges of the windows when a query is loaded or a state saved.

An insert is one edge more; a delete takes away all edges with its ends and label. Where one of several goes, the graph is
told a delete and the inserts of those that stay (`rpq.stream.edges_by_id`).
"""

from __future__ import annotations

import numpy as np

from rpq.stream.chunk import Chunk

_TYPES = (np.int32, np.int32, np.int32, np.int64, np.uint8)
_FEW = 32
_MOST_RECENT = 1024
_BYTES_OF_ONE = 240
"""About what a tuple of five integers takes in Python."""


class ParallelEdges:
    """Edges, parallel ones too, in the order in which they came.

    >>> edges, same = ParallelEdges(capacity=4), np.zeros(3, np.int32)
    >>> edges.note(Chunk(same, same, same, np.array([3, 1, 5]), np.array([0, 0, 0], np.uint8), same), np.ones(1, np.uint8))
    >>> edges.columns(2)[3]
    array([3, 5])
    """

    def __init__(self, *, capacity: int = 1024) -> None:
        self._capacity = capacity
        self._parts: list[tuple[np.ndarray, ...]] = []
        self._recent: list[tuple[int, int, int, int, int]] = []  # those that came one by one, behind the parts
        self._count = 0
        self._count_after_settling = 0

    @property
    def nbytes(self) -> int:
        """The number of bytes held."""
        settled = self._count - len(self._recent)
        return settled * sum(np.dtype(kind).itemsize for kind in _TYPES) + _BYTES_OF_ONE * len(self._recent)

    @property
    def wants_collection(self) -> bool:
        """True if so many edges came since the last collection that looking for old ones is paid for."""
        return self._count > 2 * max(self._capacity, self._count_after_settling)

    def note(self, chunk: Chunk, is_mine: np.ndarray) -> None:
        """Note the inserts and deletes of a chunk whose labels are among those wanted (uint8 a label id). O(tuples)."""
        rows = np.flatnonzero((is_mine[chunk.label] != 0) & (chunk.source >= 0))
        columns = tuple(column[rows] for column in (chunk.source, chunk.label, chunk.target, chunk.timestamp, chunk.delete))
        if len(rows) < _FEW:  # parts of few edges would take more than the edges
            for one in zip(*(column.tolist() for column in columns), strict=True):
                self.note_one(*one)
        else:
            self._settle_recent()
            self._parts.append(columns)
            self._count += len(rows)

    def note_one(self, source: int, label: int, target: int, timestamp: int, delete: int) -> None:
        """Note one insert or delete. O(1) on average."""
        self._recent.append((source, label, target, timestamp, delete))
        self._count += 1
        if len(self._recent) >= _MOST_RECENT:
            self._settle_recent()

    def _settle_recent(self) -> None:
        if self._recent:
            columns = zip(zip(*self._recent, strict=True), _TYPES, strict=True)
            self._parts.append(tuple(np.array(column, dtype) for column, dtype in columns))
            self._recent = []

    def load(self, source: np.ndarray, label: np.ndarray, target: np.ndarray, timestamp: np.ndarray) -> None:
        """Replace all edges by these."""
        columns = source, label, target, timestamp, np.zeros(len(source))
        self._parts, self._recent = [tuple(column.astype(dtype) for column, dtype in zip(columns, _TYPES, strict=True))], []
        self._count = self._count_after_settling = len(source)

    def columns(self, bound: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return source, label, target and timestamp of the edges that are younger than a bound. O(edges · log edges)."""
        self.collect(bound)
        source, label, target, timestamp, _ = self._parts[0]
        return source, label, target, timestamp

    def collect(self, bound: int, is_mine: np.ndarray | None = None) -> None:
        """Forget the edges with a timestamp up to a bound, and those with labels that are not wanted any more."""
        self._settle_recent()
        empty = tuple(np.zeros(0, dtype) for dtype in _TYPES)
        source, label, target, timestamp, delete = (np.concatenate(one) for one in zip(empty, *self._parts, strict=False))
        stays = (delete == 0) & (timestamp > bound)
        if is_mine is not None:
            stays &= is_mine[label] != 0
        if delete.any():
            place = np.arange(len(source))
            order = np.lexsort((place, target, label, source))
            ends = np.stack([source[order], label[order], target[order]])
            begins = np.flatnonzero(np.append(True, (ends[:, 1:] != ends[:, :-1]).any(axis=0)))
            last = np.maximum.reduceat(np.where(delete[order] != 0, place[order], -1), begins)
            stays[order] &= place[order] > np.repeat(last, np.diff(begins, append=len(order)))
        kept = source[stays], label[stays], target[stays], timestamp[stays], delete[stays]
        self._parts, self._count = [kept], len(kept[0])
        self._count_after_settling = self._count


def youngest_of_parallel(chunk: Chunk) -> np.ndarray:
    """Return the places of the youngest of the inserts of each edge of the graph. O(inserts · log inserts)."""
    order = np.lexsort((chunk.timestamp, chunk.edge))
    is_last = np.append(chunk.edge[order][1:] != chunk.edge[order][:-1], np.ones(min(1, len(order)), bool))
    youngest: np.ndarray = np.sort(order[is_last])
    return youngest


def edge_numbers(
    known: tuple[np.ndarray, np.ndarray, np.ndarray], wanted: tuple[np.ndarray, np.ndarray, np.ndarray]
) -> np.ndarray:
    """Return for wanted (source, label, target) their places among known ones, -1 where they are not. O(both · log).

    >>> one = np.array([1, 2])
    >>> edge_numbers((one, one, one), (np.array([2, 3, 2]), np.array([2, 3, 2]), np.array([2, 3, 2])))
    array([ 1, -1,  1])
    """
    count = len(known[0])
    source, label, target = (np.concatenate(columns) for columns in zip(known, wanted, strict=True))
    order = np.lexsort((target, label, source))  # stable, so a known one comes before its equals
    ends = np.stack([source[order], label[order], target[order]])
    begins = np.flatnonzero(np.append(len(order) > 0, (ends[:, 1:] != ends[:, :-1]).any(axis=0)))
    first = np.repeat(order[begins], np.diff(begins, append=len(order)))
    found = np.empty(len(order), np.int64)
    found[order] = np.where(first < count, first, -1)
    return found[count:]
