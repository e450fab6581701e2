"""Basic graph pattern: the bindings of a part of a conjunction, which the kernels of patterns find (§18.3 of SPARQL 1.1).

A leaf of the network: what the kernels tell of their rows that come and go is its change. It holds nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from rpq.sparql.network.delta_bags import DeltaBag
from rpq.sparql.network.nodes import Node


class LeafNode(Node):
    """The bindings of a part of a conjunction, which the kernels of patterns find."""

    def __init__(self, columns: Sequence[str], text: str) -> None:
        super().__init__(columns, columns)
        self._text = text

    def change(self, *changes: DeltaBag) -> DeltaBag:
        """What the kernels found is its change."""
        (change,) = changes
        return change

    def told(self) -> str:
        return f"bindings of {self._text}"
