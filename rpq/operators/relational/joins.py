"""Joins, OPTIONAL, MINUS and EXISTS: operators over rows of two bags that agree on their shared variables.

Where the shared variables are bound in all rows, compiled kernels do the work (`rpq.operators.bags.matching`); otherwise
the rows of one key are compared in Python. References are to sections of SPARQL 1.1.

In a join by value (`ValueMatchNode`) a row of the left matches a row of the right if a comparison between their values
holds, such as `?f > ?m * 1.8` in a filter between two parts. A product with a filter above it would examine all pairs; here
kernels store the rows of each side in the order of the values that are compared, so that a change finds its partners by
search (`rpq.operators.bags.value_matching`). Rows of the two sides must also agree on shared columns, the key of the index.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from typing import Any

import numpy as np

from rpq.language.sparql.algebra import Call, Formula
from rpq.language.sparql.algebra_text import formula_text
from rpq.operators.bags.matching import MatchedRows, Mode
from rpq.operators.bags.value_matching import ValueMatches, ValueMode
from rpq.operators.relational.nodes import Node, name_by_place
from rpq.operators.relational.values.compared_values import ComparedValues, PlaceColumn, values_of
from rpq.operators.relational.values.formula_columns import Condition
from rpq.operators.relational.values.term_ids import TermIds
from rpq.rows.weighted_rows import UNBOUND, Row, WeightedRows

Key = Any
"""The key of a row: an id, or a tuple of ids."""

Change = tuple[Row, int]
"""A row and its weight."""


class Agreement:
    """The agreement of rows of a left and a right operator on their shared variables.

    Variables that both sides bind in all rows are the key. `same` are columns that must be equal even where they are
    unbound: they identify the outer row to which a row belongs. In the other shared columns (`optional_columns`) unbound
    agrees with everything.
    """

    def __init__(self, left: Node, right: Node, *, same: Sequence[str] = ()) -> None:
        shared = [name for name in left.columns if name in right.columns]
        key = [name for name in shared if name in same or (name in left.sure and name in right.sure)]
        optional = [name for name in shared if name not in key]
        self.key = tuple(key)
        self.optional_columns = tuple(optional)
        self.key_of_left = _taker([left.columns.index(name) for name in key])
        self.key_of_right = _taker([right.columns.index(name) for name in key])
        self._optional_places = [(left.columns.index(name), right.columns.index(name)) for name in optional]
        self._key_places = [left.columns.index(name) for name in key], [right.columns.index(name) for name in key]
        self._widths = left.width, right.width
        self._right_places = [place for place, name in enumerate(right.columns) if name not in shared]
        self.columns = (*left.columns, *(right.columns[place] for place in self._right_places))
        self.sure = left.sure | right.sure

    @property
    def parameters(self) -> Hashable:
        """The places of the columns that are compared."""
        return (*map(tuple, self._key_places), tuple(self._optional_places))

    def match_rows(self, mode: Mode) -> MatchedRows:
        """Return the compiled matching of rows; only if the key alone decides which rows agree."""
        return MatchedRows(mode, **self._layout())

    def match_by_value(self, mode: ValueMode, sign: str) -> ValueMatches:
        """Return the compiled matching of rows that agree on the key, and on whose values `left sign right` holds."""
        return ValueMatches(mode, sign, **self._layout())

    def _layout(self) -> dict[str, Any]:
        """Return the widths of rows of both sides, and the places of the key and of the columns that the right adds."""
        assert not self._optional_places
        left_keys, right_keys = self._key_places
        left_width, right_width = self._widths
        widths = {"left_width": left_width, "right_width": right_width}
        return {**widths, "left_keys": left_keys, "right_keys": right_keys, "more": self._right_places}

    @property
    def has_optional_columns(self) -> bool:
        """True if some columns may be unbound on one side, so that rows with equal keys may differ in them."""
        return bool(self._optional_places)

    def agree(self, left: Row, right: Row) -> bool:
        """Return whether rows with one key agree in the other columns."""
        for mine, other in self._optional_places:
            if left[mine] != right[other] and left[mine] != UNBOUND and right[other] != UNBOUND:
                return False
        return True

    def join_rows(self, left: Row, right: Row) -> Row:
        """Return the join of two rows that agree."""
        row = left + tuple([right[place] for place in self._right_places])
        if self._optional_places:
            values = list(row)
            for mine, other in self._optional_places:
                if values[mine] == UNBOUND:
                    values[mine] = right[other]
            row = tuple(values)
        return row

    def pad(self, left: Row) -> Row:
        """Return a row of the left with the columns of the right unbound."""
        return left + (UNBOUND,) * len(self._right_places)


def _taker(places: Sequence[int]) -> Callable[[Row], Key]:
    if not places:
        return lambda row: ()
    return itemgetter(*places)


class KeyedRows:
    """A bag of rows that are found by a key. All changes O(1)."""

    def __init__(self, key_of: Callable[[Row], Key]) -> None:
        self.key_of = key_of
        self._rows: dict[Key, dict[Row, int]] = {}
        self.distinct_count = 0
        """The number of different rows."""

    def clear(self) -> None:
        """Remove everything."""
        self._rows.clear()
        self.distinct_count = 0

    def of(self, key: Key) -> dict[Row, int]:
        """Return the rows with a key and their counts."""
        return self._rows.get(key, _NOTHING)

    def count(self, row: Row) -> int:
        """Return the count of a row."""
        return self.of(self.key_of(row)).get(row, 0)

    def add(self, key: Key, row: Row, weight: int) -> int:
        """Add to the count of a row and return the new count, which may be negative within an event."""
        rows = self._rows.get(key)
        if rows is None:
            rows = self._rows[key] = {}
        before = rows.get(row, 0)
        after = before + weight
        if after:
            rows[row] = after
            self.distinct_count += before == 0
        else:
            rows.pop(row, None)
            self.distinct_count -= before != 0
            if not rows:
                del self._rows[key]
        return after

    def rows_with_counts(self) -> Iterator[tuple[Row, int]]:
        """Yield all rows with their counts."""
        for rows in self._rows.values():
            yield from rows.items()

    def ids(self) -> Iterator[int]:
        """Yield the ids in the rows."""
        for row, _ in self.rows_with_counts():
            yield from row

    def check(self, name: str) -> None:
        """Assert that every row has a positive count, and that rows are counted right."""
        counts = [count for _, count in self.rows_with_counts()]
        assert len(counts) == self.distinct_count, (name, len(counts), self.distinct_count)
        assert all(count > 0 for count in counts), f"{name} has a row less than once: {counts}"
        assert all(self._rows.values()), f"{name} has a key without rows"
        assert all(self.key_of(row) == key for key, rows in self._rows.items() for row in rows), name


_NOTHING: dict[Row, int] = {}


def group_by_event(*bags: WeightedRows) -> Iterator[tuple[int, list[list[Change]]]]:
    """Return an iterator over events in order, each with its list of changes in each bag."""
    events: dict[int, list[list[Change]]] = {}
    for place, bag in enumerate(bags):
        for event, row, weight in bag.changes():
            changes = events.get(event)
            if changes is None:
                changes = events[event] = [[] for _ in bags]
            changes[place].append((row, weight))
    return iter(sorted(events.items()))


class MatchNode(Node):
    """An operator over the rows of a left and a right side, which are matched by their shared variables.

    If the key alone decides which rows agree, `match_rows` does the work in kernels. Otherwise the rows of both sides are
    stored by key, and `_change_event` of the subclass compares those of one key. If it `counts_partners`, the number of rows
    of the right with which a row of the left agrees is stored too.
    """

    def __init__(
        self,
        agreement: Agreement,
        columns: Sequence[str],
        sure: Collection[str],
        left: Node,
        right: Node,
        *,
        matched: MatchedRows | None,
        counts_partners: bool = False,
    ) -> None:
        super().__init__(columns, sure, left, right)
        self._agreement = agreement
        self._matched_rows = matched
        self._left = KeyedRows(agreement.key_of_left)
        self._right = KeyedRows(agreement.key_of_right)
        self._counts_partners = counts_partners and matched is None
        self._partners: dict[Row, int] = {}
        self._output: list[tuple[int, Row, int]] = []
        """(event, row, weight) of the present call."""

    @property
    def parameters(self) -> Hashable:
        return self._agreement.parameters

    def begin(self) -> WeightedRows:
        if self._matched_rows is not None:
            self._matched_rows.clear()
        self._left.clear()
        self._right.clear()
        self._partners.clear()
        return WeightedRows.empty(self.width)

    def change(self, *changes: WeightedRows) -> WeightedRows:
        if self._matched_rows is not None:
            return self._matched_rows.change(*changes)
        self._output = []
        for event, (lefts, rights) in group_by_event(*(change.net() for change in changes)):
            self._change_event(event, lefts, rights)
        return WeightedRows.of(self._output, self.width)

    @property
    def key(self) -> tuple[str, ...]:
        """The variables on which rows of both sides must agree: they are bound in all rows, or must be equal even if
        unbound."""
        return self._agreement.key

    @abstractmethod
    def _change_event(self, event: int, lefts: Sequence[Change], rights: Sequence[Change]) -> None:
        """Apply the net changes of an event, and add the changes of the result to the output."""

    def _agrees(self, left: Row, right: Row) -> bool:
        """Return whether rows with one key agree."""
        return self._agreement.agree(left, right)

    def _add_partners(self, row: Row, number: int) -> None:
        after = self._partners.get(row, 0) + number
        if after:
            self._partners[row] = after
        else:
            self._partners.pop(row, None)

    @property
    def entries(self) -> int:
        if self._matched_rows is not None:
            return self._matched_rows.entries
        return self._left.distinct_count + self._right.distinct_count + len(self._partners)

    @property
    def nbytes(self) -> int:
        return super().nbytes if self._matched_rows is None else self._matched_rows.nbytes

    def ids(self) -> Iterable[int] | np.ndarray:
        if self._matched_rows is not None:
            return self._matched_rows.ids()
        return chain(self._left.ids(), self._right.ids())

    def _key_text(self) -> str:
        return ", ".join(f"?{name}" for name in (*self._agreement.key, *self._agreement.optional_columns))

    def _check(self) -> None:
        if self._matched_rows is not None:
            self._matched_rows.check()
        self._left.check("the left side")
        self._right.check("the right side")
        if self._counts_partners:
            for row, _ in self._left.rows_with_counts():
                key = self._agreement.key_of_left(row)
                partners = sum(count for other, count in self._right.of(key).items() if self._agrees(row, other))
                assert partners == self._partners.get(row, 0), (row, partners, self._partners.get(row, 0))
            assert all(self._left.count(row) and count for row, count in self._partners.items()), self._partners


class JoinNode(MatchNode):
    """Join: the rows of both sides that agree on their shared variables; `same` as in `Agreement`.

    On bags: Join(Ω1, Ω2) = Ω1 ⋈ Ω2 = { μ1 ∪ μ2 | compatible }, with the product of their counts (§18.5). It is bilinear, so
    a change of one side is joined with the current rows of the other: Δ(L ⋈ R) = ΔL ⋈ R + (L + ΔL) ⋈ ΔR. Both sides are
    stored by key. A product is never stored multiplied out: its sides have one key.
    """

    def __init__(self, left: Node, right: Node, *, same: Sequence[str] = ()) -> None:
        agreement = Agreement(left, right, same=same)
        matched = None if agreement.has_optional_columns else agreement.match_rows("join")
        super().__init__(agreement, agreement.columns, agreement.sure, left, right, matched=matched)

    def _change_event(self, event: int, lefts: Sequence[Change], rights: Sequence[Change]) -> None:
        agreement = self._agreement
        for row, weight in lefts:
            key = agreement.key_of_left(row)
            for other, count in self._right.of(key).items():
                if agreement.agree(row, other):
                    self._output.append((event, agreement.join_rows(row, other), weight * count))
            self._left.add(key, row, weight)
        for row, weight in rights:
            key = agreement.key_of_right(row)
            for other, count in self._left.of(key).items():
                if agreement.agree(other, row):
                    self._output.append((event, agreement.join_rows(other, row), weight * count))
            self._right.add(key, row, weight)

    def describe(self) -> str:
        key = self._key_text()
        return f"join on {key}" if key else "product"

    def describe_state(self) -> str:
        return "both sides"


class LeftJoinNode(MatchNode):
    """OPTIONAL: the rows of the left with each row of the right that agrees and meets the condition, alone if there is none.

    On bags: LeftJoin(Ω1, Ω2, C) = Filter(C, Ω1 ⋈ Ω2) ∪ { μ1 | no μ2 is compatible with it and meets C } (§18.5). The first
    part is a join; for the second the number of partners of each row of the left is stored: the row is alone while that is
    0. The states before and after an event are compared once, so a partner that is replaced by another within an event
    leaves no trace. Without a condition, kernels do the work (`MatchedRows`). `same` is as in `Agreement`.
    """

    def __init__(
        self, left: Node, right: Node, condition: Formula | None, terms: TermIds, *, same: Sequence[str] = ()
    ) -> None:
        agreement = Agreement(left, right, same=same)
        is_plain = condition is None and not agreement.has_optional_columns
        matched = agreement.match_rows("left join") if is_plain else None
        super().__init__(agreement, agreement.columns, left.sure, left, right, matched=matched, counts_partners=True)
        self._condition = None if condition is None else Condition(condition, self.columns, terms)
        self._formula = None if condition is None else name_by_place(condition, self.columns)

    @property
    def parameters(self) -> Hashable:
        return super().parameters, self._formula

    def _change_event(self, event: int, lefts: Sequence[Change], rights: Sequence[Change]) -> None:
        before: dict[Row, int] = {}  # rows of the left that this event touches, with their counts without a partner
        for row, weight in rights:
            self._change_right(event, row, weight, before)
        for row, weight in lefts:
            self._change_left(event, row, weight, before)
        for row, count in before.items():
            if (difference := self._unmatched_count(row) - count) != 0:
                self._output.append((event, self._agreement.pad(row), difference))

    def _unmatched_count(self, row: Row) -> int:
        """Return how often a row of the left is in the output without a partner."""
        return 0 if self._partners.get(row, 0) else self._left.count(row)

    def _match(self, left: Row, right: Row) -> Row | None:
        """Return the join of two rows with one key, None if they disagree or the condition does not hold."""
        if not self._agreement.agree(left, right):
            return None
        row = self._agreement.join_rows(left, right)
        if self._condition is not None and not self._condition.mask(np.array([row], np.int32).reshape(1, -1))[0]:
            return None
        return row

    def _agrees(self, left: Row, right: Row) -> bool:
        return self._match(left, right) is not None

    def _change_right(self, event: int, row: Row, weight: int, before: dict[Row, int]) -> None:
        key = self._agreement.key_of_right(row)
        for other, count in self._left.of(key).items():
            joined = self._match(other, row)
            if joined is not None:
                if other not in before:
                    before[other] = self._unmatched_count(other)
                self._add_partners(other, weight)
                self._output.append((event, joined, weight * count))
        self._right.add(key, row, weight)

    def _change_left(self, event: int, row: Row, weight: int, before: dict[Row, int]) -> None:
        if row not in before:
            before[row] = self._unmatched_count(row)
        key = self._agreement.key_of_left(row)
        is_new = not self._left.count(row)
        partners = 0
        for other, count in self._right.of(key).items():
            joined = self._match(row, other)
            if joined is not None:
                partners += count
                self._output.append((event, joined, weight * count))
        after = self._left.add(key, row, weight)
        if is_new:
            self._add_partners(row, partners)
        elif not after:
            self._partners.pop(row, None)

    def forget(self, new_ids: np.ndarray) -> None:
        if self._condition is not None:
            self._condition.forget(new_ids)

    @property
    def nbytes(self) -> int:
        return super().nbytes + (0 if self._condition is None else self._condition.nbytes)

    def describe(self) -> str:
        return f"optional on {self._key_text() or 'nothing'}"

    def describe_state(self) -> str:
        return "both sides, and the partners of each row of the left"


class ExistsNode(MatchNode):
    """EXISTS, NOT EXISTS and MINUS: the rows of `left` with a row of `right` that agrees; without one where `is_negated`.

    On bags, with the counts of the left (§18.5, §18.6): Filter(exists(P), Ω) = { μ in Ω | P has a solution where the values
    of μ replace its variables }; Minus(Ω1, Ω2) = { μ in Ω1 | every μ' in Ω2 is not compatible with it, or shares no
    variable with it }.

    Of the right side only the presence of rows matters. The number of partners of each row of the left is stored; the row
    passes, or not, while that is 0. Where the shared variables are always bound, rows of one key have their partners in
    common, so only a key that gets its first partner or loses its last one changes the result (`MatchedRows`).

    With `mark`, the name of a column and the ids for false and true in it, every row of the left passes, and the column
    says whether it has a partner. `common` (MINUS) are columns of the left of which some must be bound on both sides for
    rows to agree, each with the column that says that it is a value from an outer group and no variable, if there is one.
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
        agreement = Agreement(left, right, same=same)
        self._is_negated = is_negated
        self._marks = None if mark is None else mark[1:]
        self._common: list[tuple[int, int, int]] | None = None
        if common is not None and not any(name in agreement.key and outer is None for name, outer in common):
            self._common = [
                (left.columns.index(name), right.columns.index(name), -1 if outer is None else left.columns.index(outer))
                for name, outer in common
            ]
        self._is_minus = common is not None
        self._is_simple = not agreement.has_optional_columns and self._common is None
        mode: Mode = "not exists" if is_negated else "exists"
        columns = left.columns if mark is None else (*left.columns, mark[0])
        super().__init__(
            agreement,
            columns,
            (*left.sure, *columns[left.width :]),
            left,
            right,
            matched=agreement.match_rows(mode) if self._is_simple and mark is None else None,
            counts_partners=not self._is_simple,
        )
        self._counts: dict[Key, int] = {}  # of keys of the right, where rows of one key agree

    @property
    def parameters(self) -> Hashable:
        common = None if self._common is None else tuple(self._common)
        return super().parameters, self._is_negated, self._marks, common

    def begin(self) -> WeightedRows:
        self._counts.clear()
        return super().begin()

    def _change_event(self, event: int, lefts: Sequence[Change], rights: Sequence[Change]) -> None:
        before: dict[Row, tuple[bool, int]] = {}  # rows of the left that this event touches: partners, how often
        if self._is_simple:
            self._change_keys(rights, before)
        else:
            self._change_right(rights, before)
        for row, weight in lefts:
            self._touch(row, before)
            self._change_left(row, weight)
        for row, (had, count) in before.items():
            self._write(event, row, (had, count), (self._has_partner(row), self._left.count(row)))

    def _write(self, event: int, row: Row, before: tuple[bool, int], after: tuple[bool, int]) -> None:
        """Add the change of a row of the left to the output.

        `before` and `after` the event are whether the row has a partner, and how often it is there.
        """
        if before == after:
            return
        if self._marks is not None:
            if before[0] == after[0]:
                self._output.append((event, (*row, self._marks[after[0]]), after[1] - before[1]))
            else:
                # A row that enters or leaves together with its partner changes only one side; weight 0 means no change.
                if before[1]:
                    self._output.append((event, (*row, self._marks[before[0]]), -before[1]))
                if after[1]:
                    self._output.append((event, (*row, self._marks[after[0]]), after[1]))
            return
        difference = (after[1] if after[0] != self._is_negated else 0) - (before[1] if before[0] != self._is_negated else 0)
        if difference:
            self._output.append((event, row, difference))

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
        for row, weight in rights:
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

    # --- stored rows -----------------------------------------------------------------------------------------

    @property
    def entries(self) -> int:
        return super().entries + len(self._counts)

    def ids(self) -> Iterable[int] | np.ndarray:
        if self._matched_rows is not None:
            return self._matched_rows.ids()
        keys = (key if isinstance(key, tuple) else (key,) for key in self._counts)
        return chain(self._marks or (), super().ids(), chain.from_iterable(keys))

    def describe(self) -> str:
        name = "minus" if self._is_minus else "not exists" if self._is_negated else "exists"
        return f"{name if self._marks is None else 'whether exists'} on {self._key_text() or 'nothing'}"

    def describe_state(self) -> str:
        return "the left side, and " + ("a count for each key of the right" if self._is_simple else "the right side")

    def _check(self) -> None:
        super()._check()
        assert all(count > 0 for count in self._counts.values()), self._counts


# --- joins by value ------------------------------------------------------------------------------------------


MIRRORED = {"=": "=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
"""The comparison that holds for two exchanged values if this one holds for them."""

_NAMES: dict[ValueMode, str] = {
    "join": "join",
    "rows": "rows with partners",
    "left join": "optional",
    "exists": "exists",
    "not exists": "not exists",
}


@dataclass(frozen=True)
class Comparison:
    """A comparison of a formula over the left side with a formula over the right side."""

    sign: str
    left: Formula
    right: Formula

    def __str__(self) -> str:
        return formula_text(Call(self.sign, (self.left, self.right)))

    def mirror(self) -> Comparison:
        """Return the same comparison with the sides exchanged."""
        return Comparison(MIRRORED[self.sign], self.right, self.left)


class ValueMatchNode(Node):
    """An operator over two sides whose rows match if they agree on shared columns and satisfy a comparison.

    - `join`: Filter(C, Ω1 ⋈ Ω2), which is bilinear as the join is: Δ = ΔL ⋈ R + (L + ΔL) ⋈ ΔR.
    - `rows`: the same without columns of the right: rows of the left, each as often as it has partners. An event that moves
      a value on the right, such as a mean, concerns only the rows between the old value and the new one.
    - `exists` and `not exists`: the rows of the left with a partner, or without one. A value that enters or leaves on the
      right matters only to values between the outermost ones before and after it: of `?g > ?f`, those between the two
      largest ?g.
    - `left join`: those of `join`, and those of `not exists` with the columns of the right unbound.

    A comparison with an error does not hold.
    """

    def __init__(self, mode: ValueMode, left: Node, right: Node, comparison: Comparison, terms: TermIds) -> None:
        agreement = Agreement(left, right)
        joins = mode in ("join", "left join")
        sure = agreement.sure if mode in ("join", "rows") else left.sure
        super().__init__(agreement.columns if joins else left.columns, sure, left, right)
        self._mode = mode
        self._comparison = comparison
        self._key = agreement.key
        formulas = name_by_place(comparison.left, left.columns), name_by_place(comparison.right, right.columns)
        self._parameters = mode, comparison.sign, *formulas, agreement.parameters
        self._matches = agreement.match_by_value(mode, comparison.sign)
        self._order = ComparedValues(self._matches, is_equality=comparison.sign == "=")
        self._values = [
            PlaceColumn(formula, side.columns, terms, self._order)
            for formula, side in ((comparison.left, left), (comparison.right, right))
        ]

    @property
    def parameters(self) -> Hashable:
        return self._parameters

    def begin(self) -> WeightedRows:
        self._matches.clear()
        self._order.clear()
        for column in self._values:
            column.clear()
        return WeightedRows.empty(self.width)

    def change(self, *changes: WeightedRows) -> WeightedRows:
        left, right = (change.net() for change in changes)
        left_values, right_values = values_of(self._order, self._values, (left.rows, right.rows))
        return self._matches.change(left, left_values, right, right_values)

    def forget(self, new_ids: np.ndarray) -> None:
        for column in self._values:
            column.forget(new_ids)

    @property
    def entries(self) -> int:
        return self._matches.entries

    @property
    def nbytes(self) -> int:
        return self._matches.nbytes + self._order.nbytes + sum(column.nbytes for column in self._values)

    def ids(self) -> Iterable[int] | np.ndarray:
        return self._matches.ids()

    def describe(self) -> str:
        key = "".join(f"?{column}, " for column in self._key)
        how = "search by value" if self._comparison.sign == "=" else "search in order"
        return f"{_NAMES[self._mode]} on {key}{self._comparison} ({how})"

    def describe_state(self) -> str:
        return "both sides, by the compared values"

    def _check(self) -> None:
        self._matches.check()
        self._order.check()
