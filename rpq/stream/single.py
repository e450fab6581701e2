"""A chunk of one tuple, which is filled in place: live programs push one at a time.

A chunk of thousands spreads what it costs to make arrays, views and Arrow columns. For one tuple that is nearly all
there is to pay; so its arrays and their view are made once, and its rows, of which there are few, are lists.
"""

from __future__ import annotations

import numpy as np

from rpq.compiled.views import view
from rpq.paths.index.delta import Part
from rpq.results.changes import Rows
from rpq.stream.chunk import Chunk
from rpq.stream.vertices import VertexDictionary

FEW = 64
"""Above so many rows columns are cheaper than lists."""


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


def rows_of(parts: list[tuple[int, Part]], vertices: VertexDictionary) -> Rows:
    """The rows of parts (number of the query, part), merged in time order. O(rows log rows)."""
    found = []
    for number, part in parts:
        pairs = part.pairs.tolist()
        begin = 0
        events = zip(part.orders.tolist(), part.times.tolist(), part.kinds.tolist(), part.ends.tolist(), strict=True)
        for order, time, kind, end in events:
            found += [(order, time, number, pair, kind < 0) for pair in pairs[begin:end]]
            begin = end
    if len(parts) > 1:
        found.sort(key=lambda row: row[:2])
    names: dict[int, int | str] = {}
    for _, _, _, pair, _ in found:
        for vertex in (pair >> 32, pair & 0xFFFFFFFF):
            if vertex not in names:
                names[vertex] = vertices.name_of(vertex)
    return Rows(
        query=[row[2] for row in found],
        source=[names[row[3] >> 32] for row in found],
        target=[names[row[3] & 0xFFFFFFFF] for row in found],
        timestamp=[row[1] for row in found],
        removed=[row[4] for row in found],
    )
