"""The rows of the current event, from which a judge takes some away and to which it adds others.

A kernel that reports answers leaves its event open: the rows are in the output of the index from EVENT_OUT to OUT. They
become an event, with a time and a kind, when it is ended.
"""

from __future__ import annotations

import numpy as np

from rpq.paths.index import kernels, layout
from rpq.paths.index.judging import JudgedIndex


class EventRows:
    """The rows of the current event of an index."""

    def __init__(self, index: JudgedIndex) -> None:
        self._index = index

    def pairs(self) -> np.ndarray:
        """The pairs, source << 32 | target, as a part of the output."""
        index = self._index.index
        return index.output.pairs[index.state[layout.EVENT_OUT] : index.state[layout.OUT]]

    def keep(self, kept: np.ndarray) -> None:
        """Let only these (boolean) stay."""
        pairs, state = self.pairs(), self._index.state
        rows = pairs[kept]
        pairs[: len(rows)] = rows
        state[layout.OUT] = state[layout.EVENT_OUT] + len(rows)

    def append(self, pairs: np.ndarray) -> None:
        """Add rows."""
        state = self._index.state
        while int(state[layout.OUT]) + len(pairs) > len(self._index.index.output.pairs):
            self._index.provide(layout.NEED_OUTPUT)
        start = int(state[layout.OUT])
        self._index.index.output.pairs[start : start + len(pairs)] = pairs
        state[layout.OUT] = start + len(pairs)

    def end(self, kind: int, order: int, time: int | None = None) -> None:
        """Let them be an event of a kind (1 added, -1 removed), now or at a boundary, with witnesses if these are wanted."""
        index, state = self._index, self._index.state
        if state[layout.EVENTS] + 2 > len(index.index.output.event_time):
            index.provide(layout.NEED_OUTPUT)
        if index.index.settings[layout.WITNESS] and kind > 0:
            index.write_paths(int(state[layout.EVENT_OUT]))
        kernels.end_event(index.view, int(state[layout.TIME]) if time is None else time, kind, order)
