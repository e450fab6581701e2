"""Rows that are written in the query: VALUES, or the one empty solution of an empty group (§18.2.4.3, §18.5).

They are there from the beginning, and nothing changes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from rpq.sparql.network.delta_bags import UNBOUND, DeltaBag, Row, nothing
from rpq.sparql.network.nodes import Node


class RowsNode(Node):
    """Rows that are written in the query (VALUES, or the one empty solution)."""

    def __init__(self, columns: Sequence[str], rows: Sequence[Row]) -> None:
        sure = [name for place, name in enumerate(columns) if all(row[place] != UNBOUND for row in rows)]
        super().__init__(columns, sure)
        self._rows = np.array(rows, np.int32).reshape(len(rows), len(columns))

    def begin(self) -> DeltaBag:
        """They are there from the beginning."""
        count = len(self._rows)
        return DeltaBag(self._rows, np.ones(count, np.int64), np.zeros(count, np.int64))

    def change(self, *changes: DeltaBag) -> DeltaBag:
        return nothing(self.width)

    def ids(self) -> Iterable[int] | np.ndarray:
        return self._rows.reshape(-1).tolist()

    def told(self) -> str:
        return f"{len(self._rows)} written row{'' if len(self._rows) == 1 else 's'}"
