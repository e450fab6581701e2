"""A search in the product of the present graph and an automaton, with its arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from rpq.compiled.views import bound, view
from rpq.operators.paths.find.kernels import (
    BACKWARD,
    FORWARD,
    FOUND,
    FULL,
    OVER_BUDGET,
    Scratch,
    SearchState,
    find_ends,
    find_path,
)
from rpq.stream.edges.edge_links import EdgeLinks
from rpq.stream.edges.snapshot import SnapshotGraph

_BYTES_OF_NODE = 36
_KEPT_NODES = 1 << 16
"""The room that is kept from one search to the next."""


class OverBudget(Exception):  # users meet a `FindLimitError`
    """More edges than the budget allows would have to be looked at."""


class WindowBound(NamedTuple):
    """The edges of a graph that a window has: those later than `after`, or unless it is -1 of the count window `column`."""

    after: int
    column: int = -1


class ProductSearch:
    """Searches over one graph, one at a time. `request` is called before arrays take so many bytes."""

    def __init__(self, graph: SnapshotGraph, *, room: int, request: Callable[[int], None]) -> None:
        self._graph = graph
        self.links = EdgeLinks(graph)
        self._request = request
        self._least = room
        self._find_path: Any = None
        self._find_ends: Any = None
        self._state = SearchState()
        self._set_room(room)

    @property
    def nbytes(self) -> int:
        """The number of bytes held."""
        return self.links.nbytes + sum(array.nbytes for array in self._scratch)

    def _set_room(self, room: int) -> None:
        """Make room for this number of nodes."""
        self._request(room * _BYTES_OF_NODE)
        entries = 1 << (2 * room - 1).bit_length()
        self._state.room, self._state.entries = room, entries
        self._scratch = Scratch(
            table=np.empty(entries, np.int32),
            owner=np.zeros(entries, np.int64),
            vertex=np.empty(room, np.int32),
            state=np.empty(room, np.int32),
            parent=np.empty(room, np.int32),
            edge=np.empty(room, np.int64),
            found=np.empty(room, np.int32),
            fields=self._state,
        )
        self._view = view(self._scratch)

    def _begin(self, window: WindowBound, budget: int) -> None:
        if self._state.room > max(_KEPT_NODES, self._least):
            self._set_room(max(_KEPT_NODES, self._least))
        self._state.bound, self._state.column = window
        self._state.budget = budget

    def path(self, letters: Any, source: int, target: int, window: WindowBound, budget: int) -> list[int] | None:
        """Return the steps (edge << 1 | against) of a path between two vertices; None if there is none.

        `letters` is the view of `Letters`. Raises `OverBudget`. O(edges that the smaller side reaches).
        """
        self._begin(window, budget)
        while True:
            arguments = (
                self._graph.edges_view, self.links.updated(), self._graph.counted.view, letters, self._view, source, target
            )  # fmt: skip
            if self._find_path is None:
                self._find_path = bound(find_path, *arguments)
            result = self._find_path(*arguments)
            if result == FOUND:
                state = self._state
                first, last = state.last, state.met
                if first >= state.end[FORWARD]:  # the backward side has met the forward one
                    first, last = last, first
                return [*self._steps(first)[::-1], state.step, *self._steps(last)]
            if not self._goes_on(result):
                return None

    def ends(
        self,
        letters: Any,
        root: int,
        window: WindowBound,
        budget: int,
        *,
        is_target: bool,
        among: np.ndarray,
        limit: int,
    ) -> np.ndarray:
        """Return nodes at the other ends of the paths from a root, or if it `is_target` to it, up to `limit`.

        Only ends `among` some vertices (ascending) count, unless these are none. Raises `OverBudget`. O(edges reached).
        """
        self._begin(window, budget)
        while True:
            arguments = (
                self._graph.edges_view, self.links.updated(), self._graph.counted.view, letters, self._view,
                BACKWARD if is_target else FORWARD, root, among, limit,
            )  # fmt: skip
            if self._find_ends is None:
                self._find_ends = bound(find_ends, *arguments)
            if not self._goes_on(self._find_ends(*arguments)):
                return self._scratch.found[: self._state.found]

    def _goes_on(self, result: int) -> bool:
        """Return whether a search with this result has to be repeated, with more room. Raises `OverBudget`."""
        if result == OVER_BUDGET:
            raise OverBudget
        if result == FULL:
            self._set_room(2 * self._state.room)
        return result == FULL

    @property
    def looked(self) -> int:
        """The number of edges at which the last search looked."""
        return self._state.looked[FORWARD] + self._state.looked[BACKWARD]

    def vertices(self, nodes: np.ndarray) -> np.ndarray:
        """Return the vertices of nodes."""
        return self._scratch.vertex[nodes]

    def steps(self, node: int, *, is_target: bool) -> list[int]:
        """Return the steps of the path between the root of the last search, which `is_target` or source, and a node."""
        found = self._steps(node)
        return found if is_target else found[::-1]

    def _steps(self, node: int) -> list[int]:
        """Return the steps from a node to the root of its side, each in the direction of paths."""
        parent, edge = self._scratch.parent, self._scratch.edge
        steps = []
        while (before := parent.item(node)) >= 0:
            steps.append(edge.item(node))
            node = before
        return steps
