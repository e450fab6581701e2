"""UNION: the rows of all branches, each as often as they have it together.

On bags: Union(Ω1, Ω2) = { μ | μ in Ω1 or μ in Ω2 }, counts added (§18.5). Linear: Δ Union(Ω1, Ω2) = Union(ΔΩ1, ΔΩ2). It
holds nothing.
"""

from __future__ import annotations

from collections.abc import Collection

from rpq.sparql.network.delta_bags import DeltaBag, together
from rpq.sparql.network.nodes import Node, places_of


class UnionNode(Node):
    """UNION: the rows of all branches."""

    def __init__(self, columns: Collection[str], *branches: Node) -> None:
        names = tuple(columns)
        sure = frozenset(names).intersection(*(branch.sure for branch in branches))
        super().__init__(names, sure, *branches)
        self._places = [places_of(names, branch.columns) for branch in branches]

    def change(self, *changes: DeltaBag) -> DeltaBag:
        return together([change.taking(places) for change, places in zip(changes, self._places, strict=True)])
