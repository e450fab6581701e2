"""What a cluster of n shares can do with a query, on paper, from what one share costs.

For an edge, r is what every share repeats (names, snapshot graph, expiry), w what shares divide (the index and its rows),
c what carrying the edge to a share costs (unpacking, and in a stream the log of the window):

    edges a second = 1 / (r + c + w / n)

Memory of a share is what it repeats a live edge (graph, names, and in a stream the log) and its part of the index.
"""

from __future__ import annotations

from dataclasses import dataclass

MACHINES = (1, 2, 4, 8, 16, 32, 64)


@dataclass(frozen=True, kw_only=True)
class EdgeCosts:
    """Seconds an edge that are `repeated` in each share, `divided` over all, and what an edge `carried` to a share takes."""

    repeated: float
    divided: float
    carried: float

    def edges_per_second(self, shares: int) -> float:
        """How many edges a second all shares together take, one a core.

        >>> costs = EdgeCosts(repeated=1e-6, divided=8e-6, carried=1e-6)
        >>> [round(costs.edges_per_second(shares)) for shares in (1, 4, 10**9)]
        [100000, 250000, 500000]
        """
        return 1 / (self.repeated + self.carried + self.divided / shares)

    def efficiency(self, shares: int) -> float:
        """Which part of all cores' work is what one share alone would do.

        >>> round(EdgeCosts(repeated=1e-6, divided=8e-6, carried=1e-6).efficiency(6), 6)
        0.5
        """
        return self.edges_per_second(shares) / self.edges_per_second(1) / shares

    @property
    def half(self) -> float:
        """The number of shares at which half of the work is repetition: there replication stops paying.

        >>> round(EdgeCosts(repeated=1e-6, divided=8e-6, carried=1e-6).half, 6)
        6.0
        """
        fixed = self.repeated + self.carried
        return 2 + self.divided / fixed if fixed else float("inf")

    def processor_seconds(self, edges: int, shares: int) -> float:
        """Those that all shares together need for so many edges."""
        return edges * (shares * (self.repeated + self.carried) + self.divided)
