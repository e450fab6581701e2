"""EXISTS, NOT EXISTS and MINUS: the rows of the left for which the right has a row that agrees, or has none.

On bags, each row of the left as often as there (§18.5, §18.6): Filter(exists(P), Ω) = { μ in Ω | P has a solution where the
values of μ stand for its variables }; Minus(Ω1, Ω2) = { μ in Ω1 | every μ' in Ω2 is not compatible with it, or shares no
variable with it }.

The right side is a bag whose counts do not matter, only whether there is one. Of each row of the left it is held how many
of the right agree with it; it passes, or not, while these are none. Where all shared variables are bound for sure the
rows of one key have them in common, and only a key that gets its first partner or loses its last changes the result:
kernels do that (`MatchedRows`).

With a column of its own (`mark`) every row of the left passes, and the column says whether there is one: a formula that has
EXISTS in it looks at that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np

from rpq.sparql.network.agreement import Agreement, Key
from rpq.sparql.network.delta_bags import UNBOUND, Change, DeltaBag, Row, bag_of, by_event, nothing
from rpq.sparql.network.keyed_rows import KeyedRows, net_of
from rpq.sparql.network.matched_rows import Mode
from rpq.sparql.network.nodes import Node


class ExistsNode(Node):
    """The rows of `left` with a row of `right` that agrees; without one where `is_negated`.

    `mark` is the name of the column, and the ids that stand in it for false and true. `common` (MINUS) are columns of the
    left of which some must be bound on both sides for rows to agree, each with the column that says that it is a value
    from an outer group and no variable, if there is one.
    """

    def __init__(
        self,
        left: Node,
        right: Node,
        *,
        is_negated: bool = False,
        mark: tuple[str, int, int] | None = None,
        same: Sequence[str] = (),
        common: Sequence[tuple[str, str | None]] | None = None,
    ) -> None:
        self._agreement = agreement = Agreement(left, right, same=same)
        columns = left.columns if mark is None else (*left.columns, mark[0])
        super().__init__(columns, (*left.sure, *columns[left.width :]), left, right)
        self._is_negated = is_negated
        self._marks = None if mark is None else mark[1:]
        self._common: list[tuple[int, int, int]] | None = None
        if common is not None and not any(name in agreement.key and outer is None for name, outer in common):
            self._common = [
                (left.columns.index(name), right.columns.index(name), -1 if outer is None else left.columns.index(outer))
                for name, outer in common
            ]
        self._is_minus = common is not None
        self._is_simple = not agreement.is_loose and self._common is None
        mode: Mode = "not exists" if is_negated else "exists"
        self._matched = agreement.matched(mode) if self._is_simple and mark is None else None
        self._left = KeyedRows(agreement.key_of_left)
        self._right = KeyedRows(agreement.key_of_right)
        self._partners: dict[Row, int] = {}  # of rows of the left, where rows of one key may disagree
        self._counts: dict[Key, int] = {}  # of keys of the right, where they do not

    def begin(self) -> DeltaBag:
        if self._matched is not None:
            self._matched.clear()
        for held in (self._left, self._right, self._partners, self._counts):
            held.clear()
        return nothing(self.width)

    def change(self, *changes: DeltaBag) -> DeltaBag:
        if self._matched is not None:
            return self._matched.change(*changes)
        found: list[tuple[int, Row, int]] = []
        change_right = self._change_keys if self._is_simple else self._change_right
        for event, (lefts, rights) in by_event(*changes):
            before: dict[Row, tuple[bool, int]] = {}  # rows of the left that this event touches: partners, how often
            if rights:
                change_right(rights, before)
            for row, weight in lefts:
                self._touch(row, before)
                self._change_left(row, weight)
            for row, (had, count) in before.items():
                self._tell(event, row, (had, count), (self._has_partner(row), self._left.count(row)), found)
        return bag_of(found, self.width)

    def _tell(
        self, event: int, row: Row, before: tuple[bool, int], after: tuple[bool, int], found: list[tuple[int, Row, int]]
    ) -> None:
        if before == after:
            return
        if self._marks is not None:
            if before[0] == after[0]:
                found.append((event, (*row, self._marks[after[0]]), after[1] - before[1]))
            else:
                found.append((event, (*row, self._marks[before[0]]), -before[1]))
                found.append((event, (*row, self._marks[after[0]]), after[1]))
            return
        difference = (after[1] if after[0] != self._is_negated else 0) - (before[1] if before[0] != self._is_negated else 0)
        if difference:
            found.append((event, row, difference))

    def _has_partner(self, row: Row) -> bool:
        if self._is_simple:
            return self._agreement.key_of_left(row) in self._counts
        return row in self._partners

    def _touch(self, row: Row, before: dict[Row, tuple[bool, int]]) -> None:
        if row not in before:
            before[row] = self._has_partner(row), self._left.count(row)

    # --- where a key decides ---------------------------------------------------------------------------------

    def _change_keys(self, rights: Iterable[Change], before: dict[Row, tuple[bool, int]]) -> None:
        sums: dict[Key, int] = {}
        for row, weight in rights:
            key = self._agreement.key_of_right(row)
            sums[key] = sums.get(key, 0) + weight
        for key, weight in sums.items():
            count = self._counts.get(key, 0)
            after = count + weight
            if bool(count) != bool(after):
                for row in self._left.of(key):
                    self._touch(row, before)
            if after:
                self._counts[key] = after
            else:
                self._counts.pop(key, None)

    # --- where rows of one key may disagree ------------------------------------------------------------------

    def _agrees(self, left: Row, right: Row) -> bool:
        if not self._agreement.agree(left, right):
            return False
        if self._common is None:
            return True
        return any(
            left[mine] != UNBOUND and right[other] != UNBOUND and (outer < 0 or left[outer] == UNBOUND)
            for mine, other, outer in self._common
        )

    def _change_right(self, rights: Iterable[Change], before: dict[Row, tuple[bool, int]]) -> None:
        for row, weight in net_of(rights):
            key = self._agreement.key_of_right(row)
            for other in self._left.of(key):
                if self._agrees(other, row):
                    self._touch(other, before)
                    self._add_partners(other, weight)
            self._right.add(key, row, weight)

    def _change_left(self, row: Row, weight: int) -> None:
        key = self._agreement.key_of_left(row)
        is_new = not self._left.count(row)
        after = self._left.add(key, row, weight)
        if self._is_simple:
            return
        if is_new:
            self._add_partners(row, sum(count for other, count in self._right.of(key).items() if self._agrees(row, other)))
        elif not after:
            self._partners.pop(row, None)

    def _add_partners(self, row: Row, number: int) -> None:
        after = self._partners.get(row, 0) + number
        if after:
            self._partners[row] = after
        else:
            self._partners.pop(row, None)

    # --- what it holds ---------------------------------------------------------------------------------------

    @property
    def entries(self) -> int:
        if self._matched is not None:
            return self._matched.entries
        return self._left.different + self._right.different + len(self._partners) + len(self._counts)

    @property
    def nbytes(self) -> int:
        return super().nbytes if self._matched is None else self._matched.nbytes

    def ids(self) -> Iterable[int] | np.ndarray:
        if self._matched is not None:
            return self._matched.ids()
        keys = (key if isinstance(key, tuple) else (key,) for key in self._counts)
        marks = self._marks or ()
        return chain(marks, self._left.ids(), self._right.ids(), chain.from_iterable(keys))

    def told(self) -> str:
        key = ", ".join(f"?{name}" for name in (*self._agreement.key, *self._agreement.loose)) or "nothing"
        what = "minus" if self._is_minus else "not exists" if self._is_negated else "exists"
        return f"{what if self._marks is None else 'whether exists'} on {key}"

    def keeps(self) -> str:
        return "the left side, and " + ("a count for each key of the right" if self._is_simple else "the right side")

    def _check(self) -> None:
        if self._matched is not None:
            self._matched.check()
        self._left.check("the left side")
        self._right.check("the right side")
        assert all(count > 0 for count in self._counts.values()), self._counts
        if not self._is_simple:
            for row, _ in self._left.counted():
                key = self._agreement.key_of_left(row)
                partners = sum(count for other, count in self._right.of(key).items() if self._agrees(row, other))
                assert partners == self._partners.get(row, 0), (row, partners, self._partners.get(row, 0))
            assert all(self._left.count(row) for row in self._partners), self._partners
