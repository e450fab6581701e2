"""Join: the rows of both sides that agree on the variables that they share.

On bags: Join(Ω1, Ω2) = Ω1 ⋈ Ω2 = { μ1 ∪ μ2 | compatible }, as often as the product of their counts (§18.5). Bilinear, so a
change of one side is joined with what the other side is just then: Δ(L ⋈ R) = ΔL ⋈ R + (L + ΔL) ⋈ ΔR. Held are both sides,
by key. A product is never held multiplied out: its sides have one key.

Where all shared variables are bound for sure kernels do it (`MatchedRows`); else rows of one key are compared here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np

from rpq.sparql.network.agreement import Agreement
from rpq.sparql.network.delta_bags import Change, DeltaBag, Row, bag_of, by_event, nothing
from rpq.sparql.network.keyed_rows import KeyedRows
from rpq.sparql.network.nodes import Node


class JoinNode(Node):
    """The join of two operators; `same` as `Agreement` has it."""

    def __init__(self, left: Node, right: Node, *, same: Sequence[str] = ()) -> None:
        self._agreement = Agreement(left, right, same=same)
        super().__init__(self._agreement.columns, self._agreement.sure, left, right)
        self._matched = None if self._agreement.is_loose else self._agreement.matched("join")
        self._left = KeyedRows(self._agreement.key_of_left)
        self._right = KeyedRows(self._agreement.key_of_right)

    def begin(self) -> DeltaBag:
        if self._matched is not None:
            self._matched.clear()
        self._left.clear()
        self._right.clear()
        return nothing(self.width)

    def change(self, *changes: DeltaBag) -> DeltaBag:
        if self._matched is not None:
            return self._matched.change(*changes)
        found: list[tuple[int, Row, int]] = []
        for event, (lefts, rights) in by_event(*changes):
            self._change_left(event, lefts, found)
            self._change_right(event, rights, found)
        return bag_of(found, self.width)

    def _change_left(self, event: int, lefts: Iterable[Change], found: list[tuple[int, Row, int]]) -> None:
        agreement = self._agreement
        for row, weight in lefts:
            key = agreement.key_of_left(row)
            for other, count in self._right.of(key).items():
                if not agreement.is_loose or agreement.agree(row, other):
                    found.append((event, agreement.joined(row, other), weight * count))
            self._left.add(key, row, weight)

    def _change_right(self, event: int, rights: Iterable[Change], found: list[tuple[int, Row, int]]) -> None:
        agreement = self._agreement
        for row, weight in rights:
            key = agreement.key_of_right(row)
            for other, count in self._left.of(key).items():
                if not agreement.is_loose or agreement.agree(other, row):
                    found.append((event, agreement.joined(other, row), weight * count))
            self._right.add(key, row, weight)

    @property
    def entries(self) -> int:
        if self._matched is not None:
            return self._matched.entries
        return self._left.different + self._right.different

    @property
    def nbytes(self) -> int:
        return super().nbytes if self._matched is None else self._matched.nbytes

    def ids(self) -> Iterable[int] | np.ndarray:
        if self._matched is not None:
            return self._matched.ids()
        return chain(self._left.ids(), self._right.ids())

    def told(self) -> str:
        key = ", ".join(f"?{name}" for name in (*self._agreement.key, *self._agreement.loose))
        return f"join on {key}" if key else "product"

    def keeps(self) -> str:
        return "both sides"

    def _check(self) -> None:
        if self._matched is not None:
            self._matched.check()
        self._left.check("the left side")
        self._right.check("the right side")
