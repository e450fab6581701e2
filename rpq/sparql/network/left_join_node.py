"""OPTIONAL: the rows of the left with each of the right that agrees and meets the condition, alone where none does.

On bags: LeftJoin(Ω1, Ω2, C) = Filter(C, Ω1 ⋈ Ω2) ∪ { μ1 | no μ2 is compatible with it and meets C } (§18.5). The first part
is a join; for the second it is held of each row of the left with how many of the right it is joined: it is alone while
these are none. What it was before an event and what it is after it are compared once, so that a partner replaced by another
within an event leaves no trace.

Without a condition, and where all shared variables are bound for sure, kernels do it (`MatchedRows`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np

from rpq.sparql.algebra import Formula
from rpq.sparql.network.agreement import Agreement
from rpq.sparql.network.delta_bags import DeltaBag, Row, bag_of, by_event, nothing
from rpq.sparql.network.formula_columns import Condition
from rpq.sparql.network.keyed_rows import KeyedRows, net_of
from rpq.sparql.network.nodes import Node
from rpq.sparql.network.term_ids import TermIds


class LeftJoinNode(Node):
    """The left join of two operators; `same` as `Agreement` has it."""

    def __init__(
        self, left: Node, right: Node, condition: Formula | None, terms: TermIds, *, same: Sequence[str] = ()
    ) -> None:
        self._agreement = Agreement(left, right, same=same)
        super().__init__(self._agreement.columns, left.sure, left, right)
        self._condition = None if condition is None else Condition(condition, self.columns, terms)
        is_plain = condition is None and not self._agreement.is_loose
        self._matched = self._agreement.matched("left join") if is_plain else None
        self._left = KeyedRows(self._agreement.key_of_left)
        self._right = KeyedRows(self._agreement.key_of_right)
        self._partners: dict[Row, int] = {}

    def begin(self) -> DeltaBag:
        if self._matched is not None:
            self._matched.clear()
        self._left.clear()
        self._right.clear()
        self._partners.clear()
        return nothing(self.width)

    def change(self, *changes: DeltaBag) -> DeltaBag:
        if self._matched is not None:
            return self._matched.change(*changes)
        found: list[tuple[int, Row, int]] = []
        for event, (lefts, rights) in by_event(*changes):
            before: dict[Row, int] = {}  # of rows of the left that this event touches, how often they were there alone
            for row, weight in net_of(rights):
                self._change_right(event, row, weight, before, found)
            for row, weight in net_of(lefts):
                self._change_left(event, row, weight, before, found)
            for row, count in before.items():
                if (difference := self._alone(row) - count) != 0:
                    found.append((event, self._agreement.alone(row), difference))
        return bag_of(found, self.width)

    def _alone(self, row: Row) -> int:
        """How often a row of the left is there without a partner."""
        return 0 if self._partners.get(row, 0) else self._left.count(row)

    def _matches(self, left: Row, right: Row) -> Row | None:
        """The row that two rows with one key make, None where they do not agree, or do not meet the condition."""
        if not self._agreement.agree(left, right):
            return None
        row = self._agreement.joined(left, right)
        if self._condition is not None and not self._condition.holding(np.array([row], np.int32).reshape(1, -1))[0]:
            return None
        return row

    def _change_right(
        self, event: int, row: Row, weight: int, before: dict[Row, int], found: list[tuple[int, Row, int]]
    ) -> None:
        key = self._agreement.key_of_right(row)
        for other, count in self._left.of(key).items():
            made = self._matches(other, row)
            if made is not None:
                if other not in before:
                    before[other] = self._alone(other)
                self._add_partners(other, weight)
                found.append((event, made, weight * count))
        self._right.add(key, row, weight)

    def _change_left(
        self, event: int, row: Row, weight: int, before: dict[Row, int], found: list[tuple[int, Row, int]]
    ) -> None:
        if row not in before:
            before[row] = self._alone(row)
        key = self._agreement.key_of_left(row)
        is_new = not self._left.count(row)
        partners = 0
        for other, count in self._right.of(key).items():
            made = self._matches(row, other)
            if made is not None:
                partners += count
                found.append((event, made, weight * count))
        after = self._left.add(key, row, weight)
        if is_new:
            self._add_partners(row, partners)
        elif not after:
            self._partners.pop(row, None)

    def _add_partners(self, row: Row, number: int) -> None:
        after = self._partners.get(row, 0) + number
        if after:
            self._partners[row] = after
        else:
            self._partners.pop(row, None)

    def forget(self, fresh: np.ndarray) -> None:
        if self._condition is not None:
            self._condition.forget(fresh)

    @property
    def entries(self) -> int:
        if self._matched is not None:
            return self._matched.entries
        return self._left.different + self._right.different + len(self._partners)

    @property
    def nbytes(self) -> int:
        of_condition = 0 if self._condition is None else self._condition.nbytes
        return of_condition + (super().nbytes if self._matched is None else self._matched.nbytes)

    def ids(self) -> Iterable[int] | np.ndarray:
        if self._matched is not None:
            return self._matched.ids()
        return chain(self._left.ids(), self._right.ids())

    def told(self) -> str:
        return f"optional on {', '.join(f'?{name}' for name in (*self._agreement.key, *self._agreement.loose)) or 'nothing'}"

    def keeps(self) -> str:
        return "both sides, and the partners of each row of the left"

    def _check(self) -> None:
        if self._matched is not None:
            self._matched.check()
        self._left.check("the left side")
        self._right.check("the right side")
        for row, _ in self._left.counted():
            key = self._agreement.key_of_left(row)
            partners = sum(count for other, count in self._right.of(key).items() if self._matches(row, other) is not None)
            assert partners == self._partners.get(row, 0), (row, partners, self._partners.get(row, 0))
        assert all(self._left.count(row) and count for row, count in self._partners.items()), self._partners
