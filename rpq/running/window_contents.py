"""What the windows of a query that comes in mid-stream hold."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from rpq.stream.chunk import Chunk
from rpq.stream.snapshot import SnapshotGraph
from rpq.stream.window import AnyWindow

_NONE = np.zeros(0, np.int64)


class WindowContents:
    """The edges in windows now, once for all queries that have the same ones; nothing if these are to start `empty`."""

    def __init__(self, graph: SnapshotGraph, *, empty: bool) -> None:
        self._graph = graph
        self._live = _NONE if empty else None
        self._known: dict[Hashable, tuple[Chunk, list[np.ndarray]]] = {}

    def of(self, windows: Sequence[tuple[AnyWindow, Hashable]]) -> tuple[Chunk, list[np.ndarray]]:
        """The edges in any of a query's windows (each with its key), and for each window the slides at which they leave it.

        O(edges) the first time.
        """
        key = tuple(windows)
        if key not in self._known:
            if self._live is None:
                self._live = self._graph.live_edges()
            slides = [self._graph.slides(window, numbered, self._live) for window, numbered in windows]
            is_inside = np.zeros(len(self._live), bool)
            for (window, numbered), mine in zip(windows, slides, strict=True):
                is_inside |= mine > self._graph.current_slide(window, numbered)
            self._known[key] = self._graph.chunk_of(self._live[is_inside]), [mine[is_inside] for mine in slides]
        return self._known[key]
