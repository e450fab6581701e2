"""The choice of branches that are counted. Branches that hold nearly everywhere are excluded while the stream runs.

A few hundred of ten thousand branches have most of the records: they hold at most of the vertices that have an edge of their
relation at all, which the look-ahead of the join checks anyway. A condition is necessary, not sufficient, so excluding a
branch changes no row; the join begins a few more seeds and examines a few more values.

A branch is excluded if it holds at a twentieth or more of the vertices that have such an edge, or, if many seeds need it, at
a fifth: without the branch, an edge begins a seed for each of these, at most five times as many seeds as with it. An
excluded branch is not counted, so the number of vertices at which it would hold is unknown, but it is at most the number of
edges to vertices of its child. When this has become a small part, the branch is counted again.
"""

from __future__ import annotations

import numpy as np

from rpq.operators.patterns.joins.plan_tables import PlanTables

COMMON = 0.2
"""The fraction of the vertices with an edge of a relation from which a branch is excluded."""
COMMON_TO_FEW = 0.05
"""The same fraction for a branch with at most `FEW_USERS` users."""
FEW_USERS = 16
RARE = 1 / 8
"""The fraction of the above number of vertices below which a branch is counted again."""
_PIECE = 1 << 12


class ConditionChoice:
    """The choice of branches that are counted, reviewed between chunks.

    A branch that holds at fewer than `fewest` vertices is counted in any case.
    """

    def __init__(self, plan_tables: PlanTables, *, fewest: int) -> None:
        self.tables = plan_tables
        self._fewest = max(1, fewest)
        self._next = 0

    def review(self) -> None:
        """Exclude branches that hold nearly everywhere, and count those again that no longer do.

        O(1), and amortised O(1) a change of an edge.
        """
        graph = self.tables.graph
        if not graph.is_on or graph.is_stale or self._now() < self._next:
            return
        if self._now() < self._least_period():
            self._next = self._least_period()
            return
        candidates = self._candidates()
        common = [
            branch
            for branch, node, extent in graph.branches(self._fewest)
            if extent >= _least_part(graph.users(node)) * candidates[branch.relation][branch.side]
        ]
        rare = []
        for branch in graph.excluded_branches():
            # Every part that needs the branch needs its child.
            part = RARE * _least_part(graph.users(branch.child))
            edge_limit = int(part * candidates[branch.relation][branch.side])
            if graph.count_edges(branch, edge_limit) <= edge_limit:
                rare.append(branch)
        if common or rare:
            self.tables.choose_branches(common=common, rare=rare)
        relations = self.tables.store.relations.state
        period = (relations.live_edges + relations.vertices + graph.conditions.state.records) // 4
        self._next = self._now() + max(period, self._least_period())

    def _least_period(self) -> int:
        """Return the number of changes compared to whose cost rewriting the plans of all parts costs little."""
        return self._fewest * (1 + len(self.tables.queries()))

    def _now(self) -> int:
        """Return the time, in changes of edges and records created."""
        return self.tables.changes + self.tables.graph.conditions.state.records

    def _candidates(self) -> list[tuple[int, int]]:
        """Return the numbers of vertices with edges of each relation, out of them and into them. O(records of vertices).

        For a side whose lists are not stored, it is the number of edges.
        """
        relations, state = self.tables.store.relations, self.tables.store.relations.state
        records = relations.lists[: state.arena].reshape(state.vertices, state.stride)
        pieces = (records[first : first + _PIECE] for first in range(0, len(records), _PIECE))
        full = sum((np.count_nonzero(piece, axis=0) for piece in pieces), np.zeros(state.stride, np.int64)).tolist()
        cells, edges = relations.relation["cell"].tolist(), relations.relation["edges"].tolist()
        return [
            (full[out] if out >= 0 else count, full[into] if into >= 0 else count)
            for (out, into), count in zip(cells, edges, strict=True)
        ]


def _least_part(users: int) -> float:
    """Return the fraction of the vertices from which a branch with this number of users is excluded."""
    return COMMON if users > FEW_USERS else COMMON_TO_FEW
