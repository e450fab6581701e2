"""SELECT: the rows of the input cut to some variables, each as often as the rows that it comes from together.

On bags: Project(Ω, V) = { μ cut to V | μ in Ω } (§18.5). A change is cut as a row is: Δ Project(Ω, V) = Project(ΔΩ, V).
It holds nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from rpq.sparql.network.delta_bags import DeltaBag
from rpq.sparql.network.nodes import Node, places_of


class ProjectNode(Node):
    """The rows of the input with columns chosen; those that it does not have are unbound.

    `sources` are the names that the columns have in the input, if these are others.
    """

    def __init__(self, columns: Sequence[str], inner: Node, *, sources: Sequence[str] | None = None) -> None:
        names = columns if sources is None else sources
        sure = [column for column, name in zip(columns, names, strict=True) if name in inner.sure]
        super().__init__(columns, sure, inner)
        self._places = places_of(names, inner.columns)
        self._sources = dict(zip(columns, names, strict=True))

    def sources(self) -> dict[str, str]:
        """Its columns, with what they are called in the input."""
        return self._sources

    def change(self, *changes: DeltaBag) -> DeltaBag:
        (change,) = changes
        return change.taking(self._places)

    def told(self) -> str:
        shown = (f"?{name}" if name == source else f"(?{source} AS ?{name})" for name, source in self._sources.items())
        return f"project {' '.join(shown)}".strip()
