"""The edges between equal vertices with equal labels, one by one.

The snapshot graph has each (source, label, target) once, with the largest timestamp. That is not enough for paths in time
order, for which an earlier parallel edge may be the one that fits. `ParallelEdges` notes the changes of the
graph under labels that such queries read, and returns the edges of the windows when a query is loaded or a state saved.

An insert is one edge more; a delete takes away all edges with its ends and label. Where one of several goes, the graph
gets a delete and the inserts of those that stay (`rpq.stream.edges.edge_table`).

When an edge leaves a window of time follows from its timestamp. For other contents, those of count windows and of queries
that began empty in mid-stream, a `ContentTracker` adds a column with the slide at which each edge leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from rpq.stream.chunk import Chunk
from rpq.stream.edges.outcomes import NEVER, NOT_HELD
from rpq.stream.window import AnyWindow, CountWindow, Window

_TYPES = (np.int32, np.int32, np.int32, np.int64, np.uint8)
_FEW = 32
_MAX_RECENT = 1024
_BYTES_OF_ONE = 240
"""About what a tuple of five integers takes in Python."""


class ParallelColumns(NamedTuple):
    """Edges as columns, and for each content that is tracked the slides at which they leave it."""

    source: np.ndarray
    label: np.ndarray
    target: np.ndarray
    timestamp: np.ndarray
    slides: Mapping[Hashable, np.ndarray]

    @classmethod
    def none(cls) -> ParallelColumns:
        """Return no edges."""
        source, label, target, timestamp = (np.zeros(0, dtype) for dtype in _TYPES[:4])
        return cls(source, label, target, timestamp, {})


class ContentTracker:
    """The content of a window from a moment of the stream on, for the labels whose flags `is_read` returns by their ids.

    >>> tracker = ContentTracker(CountWindow(size=2), lambda: np.array([1, 0], np.uint8))
    >>> tracker.slides(np.array([0, 0]), np.array([7, 9]), np.zeros(2, np.uint8))
    array([3, 4])
    >>> tracker.number
    2
    """

    def __init__(self, window: AnyWindow, is_read: Callable[[], np.ndarray]) -> None:
        self.window = window
        self.number = 0
        """The number of inserts that a count window has met."""
        self._is_read = is_read

    def slides(self, label: np.ndarray, timestamp: np.ndarray, delete: np.ndarray) -> np.ndarray:
        """Return the slides at which the next tuples leave, NOT_HELD for those that do not enter; number the inserts."""
        is_mine, window = (self._is_read()[label] != 0) & (delete == 0), self.window
        if isinstance(window, CountWindow):
            numbers = self.number + np.cumsum(is_mine)
            self.number += int(is_mine.sum())
            leaves = -(-(numbers + window.size) // window.step)
        elif isinstance(window, Window):
            leaves = -(-(timestamp + window.size) // window.slide)
        else:
            leaves = np.full(len(label), NEVER)
        return np.where(is_mine, leaves, NOT_HELD)

    def are_kept(self, slides: np.ndarray) -> np.ndarray:
        """Return which edges a count window holds, by the slides at which they leave; none for windows of time."""
        if not isinstance(self.window, CountWindow):
            return np.zeros(len(slides), bool)
        are_held: np.ndarray = slides > self.number // self.window.step
        return are_held


class ParallelEdges:
    """Edges, parallel ones too, in the order in which they came.

    >>> edges, same = ParallelEdges(capacity=4), np.zeros(3, np.int32)
    >>> edges.note(Chunk(same, same, same, np.array([3, 1, 5]), np.array([0, 0, 0], np.uint8), same), np.ones(1, np.uint8))
    >>> edges.columns(2, np.ones(1, np.uint8)).timestamp
    array([3, 5])
    """

    def __init__(self, *, capacity: int = 1024) -> None:
        self._capacity = capacity
        self._parts: list[tuple[np.ndarray, ...]] = []
        self._recent: list[tuple[int, int, int, int, int]] = []  # those that came one by one, behind the parts
        self._count = 0
        self._count_after_settling = 0
        self.trackers: dict[Hashable, ContentTracker] = {}
        """The contents that timestamps do not determine, by their keys, in the order of their columns."""

    @property
    def nbytes(self) -> int:
        """The number of bytes held."""
        settled = self._count - len(self._recent)
        of_one = sum(np.dtype(kind).itemsize for kind in _TYPES) + 8 * len(self.trackers)
        return settled * of_one + _BYTES_OF_ONE * len(self._recent)

    def track(self, key: Hashable, tracker: ContentTracker) -> None:
        """Track one more content, which has none of the edges so far. O(edges)."""
        self._settle_recent()
        self._parts = [(*part, np.full(len(part[0]), NOT_HELD)) for part in self._parts]
        self.trackers[key] = tracker

    def untrack(self, key: Hashable) -> None:
        """Stop tracking a content. O(edges)."""
        self._settle_recent()
        place = len(_TYPES) + [*self.trackers].index(key)
        self._parts = [part[:place] + part[place + 1 :] for part in self._parts]
        del self.trackers[key]

    @property
    def wants_collection(self) -> bool:
        """True if enough edges have arrived since the last collection to pay for another one."""
        return self._count > 2 * max(self._capacity, self._count_after_settling)

    def note(self, chunk: Chunk, is_selected: np.ndarray) -> None:
        """Note the inserts and deletes of a chunk whose labels `is_selected` marks (uint8 a label id). O(tuples)."""
        rows = np.flatnonzero((is_selected[chunk.label] != 0) & (chunk.source >= 0))
        columns = tuple(column[rows] for column in (chunk.source, chunk.label, chunk.target, chunk.timestamp, chunk.delete))
        if len(rows) < _FEW:  # parts of few edges would take more than the edges
            for one in zip(*(column.tolist() for column in columns), strict=True):
                self.note_one(*one)
        else:
            self._settle_recent()
            self._append(columns)
            self._count += len(rows)

    def note_one(self, source: int, label: int, target: int, timestamp: int, delete: int) -> None:
        """Note one insert or delete. O(1) on average."""
        self._recent.append((source, label, target, timestamp, delete))
        self._count += 1
        if len(self._recent) >= _MAX_RECENT:
            self._settle_recent()

    def _settle_recent(self) -> None:
        if self._recent:
            columns = zip(zip(*self._recent, strict=True), _TYPES, strict=True)
            self._append(tuple(np.array(column, dtype) for column, dtype in columns))
            self._recent = []

    def _append(self, columns: tuple[np.ndarray, ...]) -> None:
        _, label, _, timestamp, delete = columns
        slides = (tracker.slides(label, timestamp, delete) for tracker in self.trackers.values())
        self._parts.append((*columns, *slides))

    def load(
        self,
        source: np.ndarray,
        label: np.ndarray,
        target: np.ndarray,
        timestamp: np.ndarray,
        slides: Sequence[np.ndarray] = (),
    ) -> None:
        """Replace all edges by these, with the slides at which they leave each content that is tracked."""
        columns = source, label, target, timestamp, np.zeros(len(source))
        of_edges = (column.astype(dtype) for column, dtype in zip(columns, _TYPES, strict=True))
        self._parts, self._recent = [(*of_edges, *slides)], []
        self._count = self._count_after_settling = len(source)

    def columns(self, bound: int, is_timed: np.ndarray) -> ParallelColumns:
        """Return the edges that `collect` keeps. O(edges · log edges)."""
        self.collect(bound, is_timed)
        source, label, target, timestamp, _, *slides = self._parts[0]
        return ParallelColumns(source, label, target, timestamp, dict(zip(self.trackers, slides, strict=True)))

    def collect(self, bound: int, is_timed: np.ndarray) -> None:
        """Forget the edges that no window holds. O(edges · log edges).

        Windows of time read the labels whose flags `is_timed` are set (uint8 a label id), and of these hold the edges with a
        timestamp above the bound; which ones count windows hold, their trackers know.
        """
        self._settle_recent()
        empty = *(np.zeros(0, dtype) for dtype in _TYPES), *(np.zeros(0, np.int64) for _ in self.trackers)
        columns = [np.concatenate(one) for one in zip(empty, *self._parts, strict=True)]
        source, label, target, timestamp, delete, *slides = columns
        stays = (timestamp > bound) & (is_timed[label] != 0)
        for tracker, mine in zip(self.trackers.values(), slides, strict=True):
            stays |= tracker.are_kept(mine)
        stays &= delete == 0
        if delete.any():
            place = np.arange(len(source))
            order = np.lexsort((place, target, label, source))
            ends = np.stack([source[order], label[order], target[order]])
            begins = np.flatnonzero(np.append(True, (ends[:, 1:] != ends[:, :-1]).any(axis=0)))
            last = np.maximum.reduceat(np.where(delete[order] != 0, place[order], -1), begins)
            stays[order] &= place[order] > np.repeat(last, np.diff(begins, append=len(order)))
        remaining = tuple(column[stays] for column in columns)
        self._parts, self._count = [remaining], len(remaining[0])
        self._count_after_settling = self._count


def youngest_of_parallel(chunk: Chunk, slides: np.ndarray) -> np.ndarray:
    """Return the places of the last to leave of the inserts of each edge of the graph. O(inserts · log inserts)."""
    order = np.lexsort((chunk.timestamp, slides, chunk.edge))
    is_last = np.append(chunk.edge[order][1:] != chunk.edge[order][:-1], np.ones(min(1, len(order)), bool))
    youngest: np.ndarray = np.sort(order[is_last])
    return youngest


def edge_numbers(
    edges: tuple[np.ndarray, np.ndarray, np.ndarray], links: tuple[np.ndarray, np.ndarray, np.ndarray]
) -> np.ndarray:
    """Return the places of `links` (source, label, target) among `edges`, -1 where they are not. O(both · log).

    >>> one = np.array([1, 2])
    >>> edge_numbers((one, one, one), (np.array([2, 3, 2]), np.array([2, 3, 2]), np.array([2, 3, 2])))
    array([ 1, -1,  1])
    """
    count = len(edges[0])
    source, label, target = (np.concatenate(columns) for columns in zip(edges, links, strict=True))
    order = np.lexsort((target, label, source))  # stable, so a known one comes before its equals
    ends = np.stack([source[order], label[order], target[order]])
    begins = np.flatnonzero(np.append(len(order) > 0, (ends[:, 1:] != ends[:, :-1]).any(axis=0)))
    first = np.repeat(order[begins], np.diff(begins, append=len(order)))
    found = np.empty(len(order), np.int64)
    found[order] = np.where(first < count, first, -1)
    return found[count:]
