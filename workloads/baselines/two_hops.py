"""A manual join of two hops, as written for a stream processor without path queries: a state for each middle vertex.

The state contains the edges `first` that lead to the vertex and the edges `second` that leave it, each with its time.  An
edge that arrives is joined with the edges of the other kind that are in the window.  Each path of two edges is therefore
found when its later edge arrives, which is when its ends become an answer of `first/second`, unless another path connects
them already.  The join does not report that a path has left the window.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

State = dict[str, dict[str, int]]
"""The ends of edges and their times by label: values that every state store can serialise."""


@dataclass(frozen=True, kw_only=True)
class TwoHops:
    """A join of edges `first` and `second` in order of time, over a window of `size` that moves every `slide`.

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
        """Return whether the join uses an edge."""
        return edge["label"] in (self.first, self.second)

    def middle(self, edge: dict[str, Any]) -> str:
        """Return the middle vertex, at which an edge is joined with others."""
        return str(edge["target"] if edge["label"] == self.first else edge["source"])

    def empty(self) -> State:
        """Return the state of a vertex without edges."""
        return {self.first: {}, self.second: {}}

    def meet(self, state: State, edge: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Add an edge to the state of its vertex; yield the ends of the new paths there.  O(edges of the vertex)."""
        now = edge["timestamp"]
        bound = now // self.slide * self.slide - self.size
        is_first = edge["label"] == self.first
        own, others = state[edge["label"]], state[self.second if is_first else self.first]
        end = edge["source"] if is_first else edge["target"]
        own.pop(end, None)  # so that the edges of a vertex remain in the order of their times
        own[end] = now
        for edges in (own, others):
            while edges and edges[oldest := next(iter(edges))] <= bound:
                del edges[oldest]
        for other in others:
            source, target = (end, other) if is_first else (other, end)
            yield {"source": source, "target": target, "timestamp": now}
