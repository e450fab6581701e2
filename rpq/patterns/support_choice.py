"""Whether a query is worth support lists, from what is measured while it runs.

What the join costs beyond its rows is the values that it looks at; what support lists cost is the entries that they
add and take out. Both are counted, over as many changes of edges as making the lists costs, so that a wrong guess
costs a part of what has been done anyway. A query that looks at many more values than it has changes and rows gets
them on trial; it keeps them where they at least halve its work. A trial that failed is repeated after twice as many
changes, so trials cost less and less: a stream may change.
"""

from __future__ import annotations

from dataclasses import dataclass

from rpq.patterns import tables
from rpq.patterns.plan_tables import PlanTables

LOOKS_A_CHANGE = 40
"""A query that looks at fewer values for each change of an edge has nothing to gain."""
LOOKS_A_ROW = 2
ENTRY = 20
"""What changing an entry of a support list costs, in values looked at."""
SHORTEST = 4096
"""Changes of edges in a period, at least."""


@dataclass(slots=True)
class _Record:
    """What was measured of a query when its period began."""

    changes: int
    periods: int = 1
    """How many it lasts."""
    cost_before: float | None = None
    """Work a change without support lists, while they are on trial."""
    kept_cost: float = 0.0
    """What it was when they were kept: dearer than twice that, they are not worth it any more."""


class SupportChoice:
    """Decides for the queries of tables. Between chunks."""

    def __init__(self, plan_tables: PlanTables) -> None:
        self.tables = plan_tables
        self._records: dict[int, _Record] = {}
        self._next = 0

    def review(self) -> None:
        """Give support lists to queries that need them, and take them from others. O(1), and O(queries) once a period."""
        state = self.tables.plans.state
        changes = int(state[tables.INSERTED] + state[tables.DELETED] + state[tables.EXPIRED])
        if changes < self._next:
            return
        held = self.tables.store.relations.state
        period = max(SHORTEST, int(held[tables.LIVE] + held[tables.VERTICES]) // 4)
        self._next = changes + period
        queries = self.tables.queries()
        self._records = {query: record for query, record in self._records.items() if query in queries}
        for query in queries:
            record = self._records.setdefault(query, _Record(changes - period))
            if changes - record.changes >= period * record.periods:
                self._decide(query, record, changes - record.changes)
                record.changes = changes

    def _decide(self, query: int, record: _Record, changes: int) -> None:
        work = self.tables.take_work(query)
        cost = (work.looks + ENTRY * work.entries) / changes
        if not self.tables.has_supports(query):
            if work.looks > LOOKS_A_CHANGE * changes + LOOKS_A_ROW * work.rows and self.tables.support(query, True):
                record.cost_before = cost
        elif record.cost_before is not None:
            if cost > record.cost_before / 2:
                self.tables.support(query, False)
                record.periods *= 2
            record.kept_cost = record.cost_before
            record.cost_before = None
        elif cost > 2 * record.kept_cost:
            # What it would be without them now is not known: they have to prove their worth again.
            self.tables.support(query, False)
