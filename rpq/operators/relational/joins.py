"""Joins, OPTIONAL, MINUS and EXISTS: operators over rows of two bags that agree on their shared variables.

Compiled kernels match rows by the shared variables that are bound in all rows (`rpq.operators.bags.matching`). What else
decides, such as variables that may be unbound, is then compared for all pairs at once. References are to sections of SPARQL
1.1.

In a join by value (`ValueMatchNode`) a row of the left matches a row of the right if a comparison between their values
holds, such as `?f > ?m * 1.8` in a filter between two parts. A product with a filter above it would examine all pairs; here
kernels store the rows of each side in the order of the values that are compared, so that a change finds its partners by
search (`rpq.operators.bags.value_matching`). Rows of the two sides must also agree on shared columns, the key of the index.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rpq.language.sparql.algebra import Formula, FunctionCall
from rpq.language.sparql.algebra_text import formula_text
from rpq.operators.bags.matching import MatchedRows, Mode
from rpq.operators.bags.value_matching import ValueMatches, ValueMode
from rpq.operators.relational.nodes import Node, name_by_place, places_of
from rpq.operators.relational.values.compared_values import ComparedValues, PlaceColumn, values_of
from rpq.operators.relational.values.formula_columns import FormulaCondition
from rpq.operators.relational.values.term_ids import TermIds
from rpq.rows.weighted_rows import UNBOUND, WeightedRows, merge


class Agreement:
    """The agreement of rows of a left and a right operator on their shared variables.

    Variables that both sides bind in all rows are the key. `same` are columns that must be equal even where they are
    unbound: they identify the outer row to which a row belongs. In the other shared columns (`optional_columns`) unbound
    agrees with everything.

    Kernels find the *pairs* of rows with one key. A pair has the columns of the left, those that only the right has, and
    the optional columns of the right.
    """

    def __init__(self, left: Node, right: Node, *, same: Sequence[str] = ()) -> None:
        shared = [name for name in left.columns if name in right.columns]
        self.key = tuple(name for name in shared if name in same or (name in left.sure and name in right.sure))
        self.optional_columns = tuple(name for name in shared if name not in self.key)
        self._left_columns = left.columns
        self._keys = places_of(self.key, left.columns), places_of(self.key, right.columns)
        self._widths = left.width, right.width
        own = [name for name in right.columns if name not in shared]
        self._more = places_of([*own, *self.optional_columns], right.columns)
        self.columns = (*left.columns, *own)
        self.sure = left.sure | right.sure
        self._optional_places = [
            (left.columns.index(name), len(self.columns) + number) for number, name in enumerate(self.optional_columns)
        ]

    @property
    def parameters(self) -> Hashable:
        """The places of the columns that are compared."""
        return (*map(tuple, self._keys), tuple(self._optional_places), tuple(self._more))

    def match_rows(self, mode: Mode) -> MatchedRows:
        """Return the compiled matching of rows by the key. Its joined rows are pairs."""
        return MatchedRows(mode, **self._layout())

    def match_by_value(self, mode: ValueMode, sign: str) -> ValueMatches:
        """Return the compiled matching of rows that agree on the key, and on whose values `left sign right` holds."""
        assert not self.has_optional_columns
        return ValueMatches(mode, sign, **self._layout())

    def match_left(self, mode: Mode) -> MatchedRows:
        """Return the compiled matching of rows of the left with those rows of the left that have partners."""
        width = self._widths[0]
        places = range(width)
        return MatchedRows(mode, left_width=width, right_width=width, left_keys=places, right_keys=places, more=())

    def _layout(self) -> dict[str, Any]:
        """Return the widths of rows of both sides, and the places of the key and of the columns that the right adds."""
        (left_width, right_width), (left_keys, right_keys) = self._widths, self._keys
        widths = {"left_width": left_width, "right_width": right_width}
        return {**widths, "left_keys": left_keys, "right_keys": right_keys, "more": self._more}

    @property
    def has_optional_columns(self) -> bool:
        """True if some columns may be unbound on one side, so that rows with equal keys may differ in them."""
        return bool(self.optional_columns)

    def filter_pairs(self, pairs: WeightedRows) -> WeightedRows:
        """Return the pairs that agree in the optional columns, too."""
        if not self._optional_places:
            return pairs
        agree = np.ones(len(pairs), bool)
        for mine, other in self._optional_places:
            left, right = pairs.rows[:, mine], pairs.rows[:, other]
            agree &= (left == right) | (left == UNBOUND) | (right == UNBOUND)
        return pairs.select(agree)

    def join_pairs(self, pairs: WeightedRows) -> WeightedRows:
        """Return the joins of pairs that agree, with the columns of the result."""
        if not self._optional_places:
            return pairs
        rows = pairs.rows[:, : len(self.columns)].copy()
        for mine, other in self._optional_places:
            is_unbound = rows[:, mine] == UNBOUND
            rows[is_unbound, mine] = pairs.rows[is_unbound, other]
        return pairs.with_rows(rows)

    def lefts(self, pairs: WeightedRows) -> WeightedRows:
        """Return the rows of the left of pairs."""
        return pairs.with_rows(pairs.rows[:, : self._widths[0]])

    def pad(self, lefts: WeightedRows) -> WeightedRows:
        """Return rows of the left with the columns of the right unbound."""
        return lefts.select_columns(places_of(self.columns, self._left_columns))

    def place_of_right(self, name: str) -> int:
        """Return the place in pairs of the value that the right has for a shared column."""
        optional = {self._left_columns[mine]: other for mine, other in self._optional_places}
        return optional.get(name, self._left_columns.index(name))


class MatchNode(Node):
    """An operator over the rows of a left and a right side, which kernels match by their shared variables."""

    def __init__(
        self,
        agreement: Agreement,
        columns: Sequence[str],
        sure: Collection[str],
        left: Node,
        right: Node,
        *matched: MatchedRows,
    ) -> None:
        super().__init__(columns, sure, left, right)
        self._agreement = agreement
        self._matched = matched

    @property
    def parameters(self) -> Hashable:
        return self._agreement.parameters

    def begin(self) -> WeightedRows:
        for matched in self._matched:
            matched.clear()
        return WeightedRows.empty(self.width)

    @property
    def entries(self) -> int:
        return sum(matched.entries for matched in self._matched)

    @property
    def nbytes(self) -> int:
        return sum(matched.nbytes for matched in self._matched)

    def ids(self) -> Iterable[int] | np.ndarray:
        return np.concatenate([matched.ids() for matched in self._matched])

    def _key_text(self) -> str:
        return ", ".join(f"?{name}" for name in (*self._agreement.key, *self._agreement.optional_columns))

    def _check(self) -> None:
        for matched in self._matched:
            matched.check()


class JoinNode(MatchNode):
    """Join: the rows of both sides that agree on their shared variables; `same` as in `Agreement`.

    On bags: Join(Ω1, Ω2) = Ω1 ⋈ Ω2 = { μ1 ∪ μ2 | compatible }, with the product of their counts (§18.5). It is bilinear, so
    a change of one side is joined with the current rows of the other: Δ(L ⋈ R) = ΔL ⋈ R + (L + ΔL) ⋈ ΔR. Both sides are
    stored by key. A product is never stored multiplied out: its sides have one key.
    """

    def __init__(self, left: Node, right: Node, *, same: Sequence[str] = ()) -> None:
        agreement = Agreement(left, right, same=same)
        super().__init__(agreement, agreement.columns, agreement.sure, left, right, agreement.match_rows("join"))

    def change(self, *changes: WeightedRows) -> WeightedRows:
        return self._agreement.join_pairs(self._agreement.filter_pairs(self._matched[0].change(*changes)))

    def describe(self) -> str:
        key = self._key_text()
        return f"join on {key}" if key else "product"

    def describe_state(self) -> str:
        return "both sides"


class LeftJoinNode(MatchNode):
    """OPTIONAL: the rows of the left with each row of the right that agrees and meets the condition, alone if there is none.

    On bags: LeftJoin(Ω1, Ω2, C) = Filter(C, Ω1 ⋈ Ω2) ∪ { μ1 | no μ2 is compatible with it and meets C } (§18.5). If the key
    alone decides which rows agree, one kernel finds both parts. Otherwise the second part are the rows of the left that
    equal the left of no row of the first part. `same` is as in `Agreement`.
    """

    def __init__(
        self, left: Node, right: Node, condition: Formula | None, terms: TermIds, *, same: Sequence[str] = ()
    ) -> None:
        agreement = Agreement(left, right, same=same)
        self._is_plain = condition is None and not agreement.has_optional_columns
        if self._is_plain:
            matched = [agreement.match_rows("left join")]
        else:
            matched = [agreement.match_rows("join"), agreement.match_left("not exists")]
        super().__init__(agreement, agreement.columns, left.sure, left, right, *matched)
        self._condition = None if condition is None else FormulaCondition(condition, self.columns, terms)
        self._formula = None if condition is None else name_by_place(condition, self.columns)

    @property
    def parameters(self) -> Hashable:
        return super().parameters, self._formula

    def change(self, *changes: WeightedRows) -> WeightedRows:
        pairs = self._matched[0].change(*changes)
        if self._is_plain:
            return pairs
        pairs = self._agreement.filter_pairs(pairs)
        joined = self._agreement.join_pairs(pairs)
        if self._condition is not None and len(joined):
            holds = self._condition.mask(joined.rows)
            pairs, joined = pairs.select(holds), joined.select(holds)
        alone = self._matched[1].change(changes[0], self._agreement.lefts(pairs))
        return merge([joined, self._agreement.pad(alone)])

    def discard_ids(self, new_ids: np.ndarray) -> None:
        if self._condition is not None:
            self._condition.discard_ids(new_ids)

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

    Of the right side only the presence of rows matters. If the key alone decides which rows agree, rows of one key have
    their partners in common, so only a key that gets its first partner or loses its last one changes the result. Otherwise
    the pairs of rows are joined, and the partners of each row of the left are counted.

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
                (left.columns.index(name), agreement.place_of_right(name), left._place(outer or ""))
                for name, outer in common
            ]
        self._is_minus = common is not None
        self._is_simple = not agreement.has_optional_columns and self._common is None
        mode: Mode = "not exists" if is_negated and mark is None else "exists"
        columns = left.columns if mark is None else (*left.columns, mark[0])
        if self._is_simple:
            matched = [agreement.match_rows(mode)]
        else:
            matched = [agreement.match_left(mode), agreement.match_rows("join")]
        super().__init__(agreement, columns, (*left.sure, *columns[left.width :]), left, right, *matched)

    @property
    def parameters(self) -> Hashable:
        common = None if self._common is None else tuple(self._common)
        return super().parameters, self._is_negated, self._marks, common

    def change(self, *changes: WeightedRows) -> WeightedRows:
        left, right = changes
        if not self._is_simple:
            pairs = self._agreement.filter_pairs(self._matched[1].change(left, right))
            right = self._agreement.lefts(pairs if self._common is None else pairs.select(self._have_common(pairs.rows)))
        passing = self._matched[0].change(left, right)
        if self._marks is None:
            return passing
        gone = WeightedRows(passing.rows, -passing.weights, passing.events)
        others = merge([left, gone]).net()
        return merge([_with_column(rows, mark) for rows, mark in zip((others, passing), self._marks, strict=True)])

    def _have_common(self, pairs: np.ndarray) -> np.ndarray:
        """Return which pairs have a value in common, of the columns `common`."""
        assert self._common is not None
        found = np.zeros(len(pairs), bool)
        for mine, other, outer in self._common:
            is_bound = (pairs[:, mine] != UNBOUND) & (pairs[:, other] != UNBOUND)
            found |= is_bound if outer < 0 else is_bound & (pairs[:, outer] == UNBOUND)
        return found

    def ids(self) -> Iterable[int] | np.ndarray:
        return np.concatenate([np.array(self._marks or (), np.int32), super().ids()])

    def describe(self) -> str:
        name = "minus" if self._is_minus else "not exists" if self._is_negated else "exists"
        return f"{name if self._marks is None else 'whether exists'} on {self._key_text() or 'nothing'}"

    def describe_state(self) -> str:
        return "the left side, and " + ("a count for each key of the right" if self._is_simple else "the right side")


def _with_column(changes: WeightedRows, identity: int) -> WeightedRows:
    """Return changes with one more column that has an id everywhere."""
    return changes.with_rows(np.column_stack([changes.rows, np.full(len(changes), identity, np.int32)]))


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
class FormulaComparison:
    """A comparison of a formula over the left side with a formula over the right side."""

    sign: str
    left: Formula
    right: Formula

    def __str__(self) -> str:
        return formula_text(FunctionCall(self.sign, (self.left, self.right)))

    def mirror(self) -> FormulaComparison:
        """Return the same comparison with the sides exchanged."""
        return FormulaComparison(MIRRORED[self.sign], self.right, self.left)


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

    def __init__(self, mode: ValueMode, left: Node, right: Node, comparison: FormulaComparison, terms: TermIds) -> None:
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

    def discard_ids(self, new_ids: np.ndarray) -> None:
        for column in self._values:
            column.discard_ids(new_ids)

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
