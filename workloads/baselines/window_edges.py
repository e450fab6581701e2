"""The content of a window as a set of edges, kept the plain way."""

from __future__ import annotations

from collections import deque

import rpq

Edge = tuple[str, str, str]
"""Source, label, target."""


class WindowEdges:
    """The edges of an insert-only stream in time order that are in the window, each with its largest timestamp.

    >>> edges = WindowEdges(rpq.Window(size=10, slide=1))
    >>> edges.insert(("x", "a", "y"), 1), edges.insert(("y", "a", "z"), 12)
    ((True, []), (True, [('x', 'a', 'y')]))
    """

    def __init__(self, window: rpq.Window) -> None:
        self._window = window
        self._latest: dict[Edge, int] = {}
        self._arrivals: deque[tuple[int, Edge]] = deque()

    def __len__(self) -> int:
        return len(self._latest)

    def __iter__(self):
        return iter(self._latest)

    def insert(self, edge: Edge, timestamp: int) -> tuple[bool, list[Edge]]:
        """Take an edge in: (whether it was not there, the edges that left because time moved)."""
        left = self.advance(timestamp)
        is_new = edge not in self._latest
        self._latest[edge] = timestamp
        self._arrivals.append((timestamp, edge))
        return is_new, left

    def advance(self, time: int) -> list[Edge]:
        """Move the time; the edges that left."""
        bound = self._window.lower_bound(time)
        left = []
        while self._arrivals and self._arrivals[0][0] <= bound:
            timestamp, edge = self._arrivals.popleft()
            if self._latest.get(edge) == timestamp:
                del self._latest[edge]
                left.append(edge)
        return left
