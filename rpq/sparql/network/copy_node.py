"""The rows of the input with some columns once more, under other names.

SPARQL has no such operator: a copy of the variables of an outer group goes through a body that is evaluated for all their
values at once (`rpq.sparql.network.correlation`). Δ Copy(Ω) = Copy(ΔΩ). It holds nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from rpq.sparql.network.delta_bags import DeltaBag
from rpq.sparql.network.nodes import Node, places_of


class CopyNode(Node):
    """The rows of the input with some columns once more, under other names."""

    def __init__(self, copies: Sequence[tuple[str, str]], inner: Node) -> None:
        names = [copy for copy, _ in copies]
        sure = [*inner.sure, *(copy for copy, name in copies if name in inner.sure)]
        super().__init__((*inner.columns, *names), sure, inner)
        self._places = [*range(inner.width), *places_of([name for _, name in copies], inner.columns)]

    def change(self, *changes: DeltaBag) -> DeltaBag:
        (change,) = changes
        return change.taking(self._places)
