"""Joins by value: a row of the left meets a row of the right if a comparison between their values holds.

The condition of a filter between two parts, such as `?f > ?m * 1.8`, decides which rows meet. A product with a filter above
it looks at all pairs; here kernels store the rows of each side in the order of the values that are compared, so that a
change finds its partners by search (`rpq.operators.bags.value_matching`). Rows of the two sides must also agree on shared
columns, which are the key of the index.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

import numpy as np

from rpq.language.sparql.algebra import Call, Formula
from rpq.language.sparql.algebra_text import formula_text
from rpq.operators.bags.value_matching import ValueMode
from rpq.operators.relational.joins import Agreement
from rpq.operators.relational.nodes import Node, name_by_place
from rpq.operators.relational.values.compared_values import ComparedValues, PlaceColumn, values_of
from rpq.operators.relational.values.term_ids import TermIds
from rpq.rows.weighted_rows import WeightedRows

MIRRORED = {"=": "=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
"""The comparison that holds of two values in the other order."""

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
    - `exists` and `not exists`: the rows of the left with a partner, or without one. A value that comes or goes on the right
      matters only to values between the outermost ones before and after it: of `?g > ?f`, those between the two largest ?g.
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
        self._matches = agreement.matched_by_value(mode, comparison.sign)
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

    def forget(self, fresh: np.ndarray) -> None:
        for column in self._values:
            column.forget(fresh)

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
