"""DISTINCT: each row of the input once.

On bags: Distinct(Ω) = { μ | μ in Ω }, with the count 1 (§18.5). It is not linear: a row that comes again changes nothing.
Held is how often each row comes. A row enters when it first comes and leaves when it comes no more; an event in which it
does both changes nothing. Kernels do it (`CountedRows`).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from rpq.sparql.network.counted_rows import CountedRows
from rpq.sparql.network.delta_bags import DeltaBag, nothing
from rpq.sparql.network.nodes import Node


class DistinctNode(Node):
    """The different rows of an operator."""

    def __init__(self, inner: Node) -> None:
        super().__init__(inner.columns, inner.sure, inner)
        self._counts = CountedRows(self.width)

    def begin(self) -> DeltaBag:
        self._counts.clear()
        return nothing(self.width)

    def change(self, *changes: DeltaBag) -> DeltaBag:
        (change,) = changes
        return self._counts.change(change)

    @property
    def entries(self) -> int:
        return self._counts.entries

    @property
    def nbytes(self) -> int:
        return self._counts.nbytes

    def ids(self) -> Iterable[int] | np.ndarray:
        return self._counts.ids()

    def keeps(self) -> str:
        return "how often each row comes"

    def _check(self) -> None:
        self._counts.check()
