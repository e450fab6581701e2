"""A chunk of one tuple, which is filled in place: live programs push one at a time.

A chunk of thousands spreads what it costs to make arrays, views and Arrow columns. For one tuple that is nearly all
there is to pay; so its arrays and their view are made once.
"""

from __future__ import annotations

import numpy as np

from rpq.compiled.views import view
from rpq.stream.chunk import Chunk


class SingleTuple:
    """A chunk of one tuple, its view, and what became of it."""

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
        """Make it this tuple."""
        chunk = self.chunk
        chunk.source[0] = source
        chunk.target[0] = target
        chunk.label[0] = label
        chunk.timestamp[0] = timestamp
        chunk.delete[0] = delete
