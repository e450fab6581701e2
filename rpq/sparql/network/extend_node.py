"""BIND and AS: the rows with one more variable, unbound where its formula is an error.

On bags: Extend(Ω, v, e) = { μ ∪ {v → e(μ)} | μ in Ω, e(μ) no error } ∪ { μ | μ in Ω, e(μ) an error } (§18.5). Linear:
Δ Extend(Ω, v, e) = Extend(ΔΩ, v, e), as a formula has one value whenever it is asked. It holds no rows, but the values of
vertices that it has seen (`IdColumn`).
"""

from __future__ import annotations

import numpy as np

from rpq.queries.pattern import Constant, Variable
from rpq.sparql.algebra import Formula
from rpq.sparql.algebra_text import formula_text
from rpq.sparql.network.delta_bags import DeltaBag, nothing
from rpq.sparql.network.formula_columns import IdColumn
from rpq.sparql.network.nodes import Node
from rpq.sparql.network.term_ids import TermIds


class ExtendNode(Node):
    """BIND and AS: one more column, unbound where the formula has no value."""

    def __init__(self, inner: Node, name: str, formula: Formula, terms: TermIds) -> None:
        has_value = isinstance(formula, Constant) or (isinstance(formula, Variable) and formula.name in inner.sure)
        super().__init__((*inner.columns, name), {*inner.sure, *([name] if has_value else [])}, inner)
        self._text = f"?{name} = {formula_text(formula)}"
        self._values = IdColumn(formula, inner.columns, terms)
        self._sources = {column: column for column in inner.columns}
        if isinstance(formula, Variable):
            self._sources[name] = formula.name

    def sources(self) -> dict[str, str]:
        """Its columns that are in the input, with what they are called there."""
        return self._sources

    def change(self, *changes: DeltaBag) -> DeltaBag:
        (change,) = changes
        if not len(change):
            return nothing(self.width)
        rows = np.empty((len(change), self.width), np.int32)
        rows[:, :-1] = change.rows
        rows[:, -1] = self._values.ids_of(change.rows)
        return change.with_rows(rows)

    def forget(self, fresh: np.ndarray) -> None:
        self._values.forget(fresh)

    @property
    def nbytes(self) -> int:
        return self._values.nbytes

    def told(self) -> str:
        return f"bind {self._text}"
