"""A join of two hops by hand, as one writes it for a stream processor that has no paths: a state for each middle vertex.

Edges `first` that lead to the vertex and edges `second` that leave it are kept in the state, each with its time; an edge
that comes meets those of the other kind that are in the window.  So each path of two edges is found when its later edge
comes, which is when its ends become an answer of `first/second`, if no other path joins them already.  That a path has left
the window is nowhere said.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

State = dict[str, dict[str, int]]
"""The ends of edges and their times by label: values that every state store can serialise."""


@dataclass(frozen=True, kw_only=True)
class TwoHops:
    """Joins edges `first` and `second` over a sliding window of `size` that moves every `slide`; times are ordered.

    >>> join = TwoHops(first="a", second="b", size=10, slide=1)
    >>> state = join.empty()
    >>> list(join.meet(state, {"source": "x", "target": "y", "label": "a", "timestamp": 1}))
    []
    >>> list(join.meet(state, {"source": "y", "target": "z", "label": "b", "timestamp": 2}))
    [{'source': 'x', 'target': 'z', 'timestamp': 2}]
    """

    first: str
    second: str
    size: int
    slide: int

    def is_joined(self, edge: dict[str, Any]) -> bool:
        """Return whether an edge is of either kind."""
        return edge["label"] in (self.first, self.second)

    def middle(self, edge: dict[str, Any]) -> str:
        """Return the vertex at which an edge meets others."""
        return str(edge["target"] if edge["label"] == self.first else edge["source"])

    def empty(self) -> State:
        """Return the state of a vertex that has met no edge."""
        return {self.first: {}, self.second: {}}

    def meet(self, state: State, edge: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Put an edge into its vertex's state; the ends of the paths that it makes there.  O(edges of the vertex)."""
        now = edge["timestamp"]
        bound = now // self.slide * self.slide - self.size
        is_first = edge["label"] == self.first
        own, others = state[edge["label"]], state[self.second if is_first else self.first]
        end = edge["source"] if is_first else edge["target"]
        own.pop(end, None)  # so that a vertex's edges stay in the order of their times
        own[end] = now
        for edges in (own, others):
            while edges and edges[oldest := next(iter(edges))] <= bound:
                del edges[oldest]
        for other in others:
            source, target = (end, other) if is_first else (other, end)
            yield {"source": source, "target": target, "timestamp": now}
