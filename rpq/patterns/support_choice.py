"""Whether a query is worth support lists, from what is measured while it runs.

What the join costs beyond its rows is the values that it looks at; what support lists cost is the entries that they
add and take out. Both are counted, over as many changes of edges as making the lists costs, so that a wrong guess
costs a part of what has been done anyway. A query that looks at many more values than it has changes and rows gets
them on trial; it keeps them where they at least halve its work. A trial that failed is repeated after twice as many
periods, so trials cost less and less; and at once where a change has come to cost twice what it did before that trial,
since what a hub costs grows with the stream and what its lists cost does not.
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
    failures: int = 0
    """Trials that came to nothing."""
    rest: int = 0
    """Periods until the next one."""
    cost_of_failure: float = 0.0
    """What a change cost before the last one."""
    cost_before: float | None = None
    """Work a change without support lists, while they are on trial."""
    kept_cost: float = 0.0
    """What it was when they were kept: dearer than twice that, they are not worth it any more."""
    measured: tuple[float, float, float] | None = None
    """Looks, rows and entries a change, in the last period."""


class SupportChoice:
    """Decides for the queries of tables. Between chunks."""

    def __init__(self, plan_tables: PlanTables) -> None:
        self.tables = plan_tables
        self._records: dict[int, _Record] = {}
        self._next = 0

    def review(self) -> None:
        """Give support lists to queries that need them, and take them from others.

        O(1), and once a period O(queries that ever cost anything).
        """
        changes = self._changes()
        if changes < self._next:
            return
        held = self.tables.store.relations.state
        period = max(SHORTEST, int(held[tables.LIVE] + held[tables.VERTICES]) // 4)
        self._next = changes + period
        self._records = {query: record for query, record in self._records.items() if self.tables.is_linked(query)}
        for query in sorted({*self._records} | self.tables.queries_at_work()):
            record = self._records.setdefault(query, _Record(changes - period))
            self._decide(query, record, changes - record.changes)
            record.changes = changes

    def _changes(self) -> int:
        """Changes of edges so far."""
        state = self.tables.plans.state
        return int(state[tables.INSERTED] + state[tables.DELETED] + state[tables.EXPIRED])

    def why(self, query: int) -> str:
        """Whether a query has support lists, and why."""
        record = self._records.get(query, _Record(0, measured=(0.0, 0.0, 0.0)))  # one that has done nothing has none
        if record.measured is None or self._changes() < SHORTEST:
            return f"not yet: it is judged after {SHORTEST:,} changes of edges or more"
        looks, rows, entries = record.measured
        cost = f"{looks:,.1f} values looked at and {rows:,.1f} rows a change"
        if self.tables.has_supports(query):
            kept = f"{cost}, {entries:,.1f} entries of lists changed; {looks + ENTRY * entries:,.1f} in all"
            if record.cost_before is not None:
                return f"on trial, because without them it took {record.cost_before:,.1f} a change"
            return f"kept, because they at least halve the work, which was {record.kept_cost:,.1f} a change: {kept}"
        if record.failures:
            return f"tried, and given up: they did not halve the work; tried again when that may have changed: {cost}"
        return f"none: {cost}, so there is nothing to gain"

    def _decide(self, query: int, record: _Record, changes: int) -> None:
        work = self.tables.take_work(query)
        cost = (work.looks + ENTRY * work.entries) / changes
        record.measured = work.looks / changes, work.rows / changes, work.entries / changes
        if not self.tables.has_supports(query):
            record.rest -= 1
            is_due = record.rest <= 0 or cost > 2 * record.cost_of_failure
            is_worth_it = work.looks > LOOKS_A_CHANGE * changes + LOOKS_A_ROW * work.rows
            if is_due and is_worth_it and self.tables.support(query, True):
                record.cost_before = cost
        elif record.cost_before is not None:
            if cost > record.cost_before / 2:
                self.tables.support(query, False)
                record.failures += 1
                record.rest, record.cost_of_failure = 1 << min(record.failures, 32), record.cost_before
            record.kept_cost = record.cost_before
            record.cost_before = None
        elif cost > 2 * record.kept_cost:
            # What it would be without them now is not known: they have to prove their worth again.
            self.tables.support(query, False)
