"""FILTER: the rows for which a condition holds; where it is an error it does not.

On bags: Filter(C, Ω) = { μ in Ω | C(μ) is true }, each as often as in Ω (§18.5). Linear: Δ Filter(C, Ω) = Filter(C, ΔΩ). It
holds no rows, but what the condition says of vertices that it has seen (`Condition`).
"""

from __future__ import annotations

import numpy as np

from rpq.sparql.algebra import Formula
from rpq.sparql.algebra_text import formula_text
from rpq.sparql.network.delta_bags import DeltaBag
from rpq.sparql.network.formula_columns import Condition
from rpq.sparql.network.nodes import Node
from rpq.sparql.network.term_ids import TermIds


class FilterNode(Node):
    """FILTER: the rows for which a condition holds."""

    def __init__(self, inner: Node, condition: Formula, terms: TermIds) -> None:
        super().__init__(inner.columns, inner.sure, inner)
        self._text = formula_text(condition)
        self._condition = Condition(condition, inner.columns, terms)

    def change(self, *changes: DeltaBag) -> DeltaBag:
        (change,) = changes
        if not len(change):
            return change
        return change.where(self._condition.holding(change.rows))

    def forget(self, fresh: np.ndarray) -> None:
        self._condition.forget(fresh)

    @property
    def nbytes(self) -> int:
        return self._condition.nbytes

    def told(self) -> str:
        return f"filter {self._text}"
