"""Running patterns, which turn chunks of a stream into pieces of rows, and the choice of queries with support lists.

The choice follows from measurements while a query runs. The cost of the join beyond its rows is the number of values that it
examines; the cost of support lists is the number of entries that are added and removed. Both are counted over as many
changes of edges as building the lists costs, so that a wrong guess costs a fraction of the other work. A query that
examines many more values than it has changes and rows gets support lists on trial, and keeps them if they at least halve its
work. A failed trial is repeated after twice as many periods, so trials cost less and less. It is repeated at once if the
cost of a change has doubled since then, because the cost of a hub grows with the stream and that of its lists does not.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from rpq.compiled.growth import guarded_growth, request
from rpq.compiled.views import bound, view
from rpq.operators.patterns import tables
from rpq.operators.patterns.joins import delta_join, updates
from rpq.operators.patterns.joins.condition_choice import ConditionChoice
from rpq.operators.patterns.joins.delta_join import WIDEST
from rpq.operators.patterns.joins.plan_tables import PlanTables
from rpq.operators.patterns.relations.relation import NOTHING_EXPECTED, RelationStore, Sizes
from rpq.operators.patterns.relations.wheel import NEVER
from rpq.operators.patterns.tables import (
    DONE,
    NEED_CONDITIONS,
    NEED_OUTPUT,
    NEED_TIME,
    NO_CHANGES,
    ChunkTuples,
    DerivedChanges,
    FoundRows,
    OutputState,
)

LOOKS_A_CHANGE = 40
"""A query that examines fewer values for each change of an edge gains nothing from support lists."""
LOOKS_A_ROW = 2
ENTRY = 20
"""The cost of changing an entry of a support list, in examined values."""
SHORTEST = 4096
"""The minimal number of changes of edges in a period."""


@dataclass(slots=True)
class _Record:
    """The measurements of a query at the beginning of its period."""

    changes: int
    failures: int = 0
    """Failed trials."""
    idle_periods: int = 0
    """Periods until the next trial."""
    cost_of_failure: float = 0.0
    """The cost of a change before the last failed trial."""
    cost_without_lists: float | None = None
    """The cost of a change without support lists, while these are on trial; otherwise None."""
    cost_before_choice: float = 0.0
    """The cost of a change before support lists were chosen. If a change costs more than twice that, they are dropped."""
    costs: tuple[float, float, float] | None = None
    """Looks, rows and entries for each change, in the last period."""


class SupportChoice:
    """The choice of queries that have support lists, revised between chunks."""

    def __init__(self, plan_tables: PlanTables) -> None:
        self.tables = plan_tables
        self._records: dict[int, _Record] = {}
        self._next = 0

    def review(self) -> None:
        """Add support lists to queries that benefit from them, and remove them from others.

        O(1), and once a period O(queries that have caused work).
        """
        changes = self.tables.changes
        if changes < self._next:
            return
        state = self.tables.store.relations.state
        period = max(SHORTEST, (state.live_edges + state.vertices) // 4)
        self._next = changes + period
        self._records = {query: record for query, record in self._records.items() if self.tables.is_linked(query)}
        for query in sorted({*self._records} | self.tables.queries_at_work()):
            record = self._records.setdefault(query, _Record(changes - period))
            self._choose_lists(query, record, changes - record.changes)
            record.changes = changes

    def why(self, query: int) -> str:
        """Return whether a query has support lists, and why, in words."""
        record = self._records.get(query, _Record(0, costs=(0.0, 0.0, 0.0)))  # a query without work has no record
        if record.costs is None or self.tables.changes < SHORTEST:
            return f"not yet: it is judged after {SHORTEST:,} changes of edges or more"
        looks, rows, entries = record.costs
        cost = f"{looks:,.1f} values looked at and {rows:,.1f} rows a change"
        if self.tables.has_supports(query):
            costs = f"{cost}, {entries:,.1f} entries of lists changed; {looks + ENTRY * entries:,.1f} in all"
            if record.cost_without_lists is not None:
                return f"on trial, because without them it took {record.cost_without_lists:,.1f} a change"
            before = record.cost_before_choice
            return f"kept, because they at least halve the work, which was {before:,.1f} a change: {costs}"
        if record.failures:
            return f"tried, and given up: they did not halve the work; tried again when that may have changed: {cost}"
        return f"none: {cost}, so there is nothing to gain"

    def _choose_lists(self, query: int, record: _Record, changes: int) -> None:
        work = self.tables.pop_work(query)
        cost = (work.looks + ENTRY * work.entries) / changes
        record.costs = work.looks / changes, work.rows / changes, work.entries / changes
        if not self.tables.has_supports(query):
            record.idle_periods -= 1
            is_due = record.idle_periods <= 0 or cost > 2 * record.cost_of_failure
            is_worth_it = work.looks > LOOKS_A_CHANGE * changes + LOOKS_A_ROW * work.rows
            if is_due and is_worth_it and self.tables.support(query, True):
                record.cost_without_lists = cost
        elif record.cost_without_lists is not None:
            if cost > record.cost_without_lists / 2:
                self.tables.support(query, False)
                record.failures += 1
                record.idle_periods, record.cost_of_failure = 1 << min(record.failures, 32), record.cost_without_lists
            record.cost_before_choice = record.cost_without_lists
            record.cost_without_lists = None
        elif cost > 2 * record.cost_before_choice:
            # The cost without support lists is not known now, so only a new trial can tell whether they pay.
            self.tables.support(query, False)


_NO_CHANGES = view(NO_CHANGES)
_REVIEW_PERIOD = 64
"""The number of tuples after which choices are reviewed. To check whether a review is due takes a twentieth of a tuple."""
_LARGE_CHUNK = 4096
"""The number of tuples from which the memory for the rest of their chunk is estimated from what they have taken."""


class RowRun(NamedTuple):
    """Rows of one query and one event, or of a piece of it."""

    query: int
    order: int
    """2 * tuple of the chunk + 1, or 2 * tuple for a boundary before it."""
    time: int
    sign: int
    """1: the rows enter, -1: they leave."""
    rows: np.ndarray
    """int32, rows × columns: a view of the output, which the next piece overwrites."""


class LivePatterns:
    """The relations of a store, and the plans that run over them.

    `deliver` is called with each piece of the output. With `chooses`, queries get support lists if these pay, and conditions
    are excluded that hold nearly everywhere, and at `fewest` vertices or more. `guard` is called before more memory is
    allocated, with the `NEED_` code for its purpose and the number of bytes, and may raise.
    """

    def __init__(
        self,
        store: RelationStore,
        plan_tables: PlanTables,
        deliver: Callable[[LivePatterns], None],
        *,
        values: int = 1 << 20,
        runs: int = 1 << 14,
        chooses: bool = True,
        fewest: int = 1,
        guard: Callable[[int, int], None] | None = None,
    ) -> None:
        values = max(values, 2 * tables.SLOTS)  # so that a row always fits
        self.store = store
        self.plan_tables = plan_tables
        self.deliver = deliver
        self.chooses = chooses
        self.guard = guard
        self.choice = SupportChoice(plan_tables)
        self.condition_choice = ConditionChoice(plan_tables, fewest=fewest)
        self._review_period = min(_REVIEW_PERIOD, max(1, fewest))
        self._tuples_since_review = 0  # tuples since the last review
        self.output = FoundRows(
            values=np.zeros(values + WIDEST, np.int32),
            runs=tables.RunRecord.zeros(runs),
            state=OutputState(value_room=values, run_room=runs),
        )
        self.nbytes = sum(array.nbytes for array in self.output)
        """The number of bytes of the output."""
        self._output_view = view(self.output)
        self._tuples = 0  # of the chunk that is applied
        self._sizes = NOTHING_EXPECTED  # when a large chunk began
        self._bound_kernels: dict[Any, Any] = {}
        self._viewed_plans: Any = None
        self._plans_view: Any = None

    def apply(self, tuples: ChunkTuples) -> None:
        """Apply a chunk and deliver its rows."""
        if len(tuples.source):
            self.store.make_room_for_vertices(int(max(tuples.source.max(), tuples.target.max())) + 1)
        self.apply_view(view(tuples), len(tuples.source))

    def apply_view(
        self, tuples: Any, count: int, changes: DerivedChanges = NO_CHANGES, *, overwrite_limit: int = 0
    ) -> None:
        """Apply the view of a chunk, for whose vertices there must be room, and its changes of derived relations.

        If rows are only counted, up to `overwrite_limit` values may be overwritten before a piece is delivered.
        """
        state = self.plan_tables.plans.state
        state.tuple = state.tuple_start = 0
        state.phase = tables.CROSSING
        self.output.state.overwrite_limit = overwrite_limit
        self._tuples = count
        if count > _LARGE_CHUNK:
            self._sizes = self.store.sizes()
        try:
            self._call(updates.apply_tuples, tuples, count, self._set_changes(changes))
        finally:
            self.output.state.overwrite_limit = self._tuples = 0
        self._tuples_since_review += count
        if self._tuples_since_review >= self._review_period and self.chooses:
            self._tuples_since_review = 0
            self.choice.review()
            self.condition_choice.review()

    def advance(self, time: int, changes: DerivedChanges = NO_CHANGES) -> None:
        """Advance the stream time. Deliver the rows of boundaries and of changes of derived relations up to that time."""
        self.plan_tables.plans.state.order = 0
        self._call(updates.advance_to, int(time), self._set_changes(changes))

    def _set_changes(self, changes: DerivedChanges) -> Any:
        """Set the changes of derived relations that the kernels apply. Return the view of the changes."""
        state = self.plan_tables.plans.state
        if changes is NO_CHANGES and state.change_order == NEVER and not state.timed_tuples:
            return _NO_CHANGES  # as before
        count = len(changes.order)
        state.change, state.changes = 0, count
        state.change_order = changes.order[0] if count else NEVER
        state.change_pair = changes.first[0] if count else 0
        state.timed_tuples = len(changes.ticks)
        return view(changes) if count or len(changes.ticks) else _NO_CHANGES

    def answers(self, query: int) -> None:
        """Deliver the rows of all solutions of a query, as if they entered now. O(edges, and the cost of joining them).

        If `deliver` raises, the other solutions are not enumerated.
        """
        self.plan_tables.update_conditions()
        narrowest = self.plan_tables.narrowest_seed(query)
        seed, relation = self.plan_tables.cheapest_seed(query) if narrowest is None else narrowest[:2]
        state = self.plan_tables.plans.state
        state.answer, state.step, state.edge = 1, tables.NONE, 0
        state.order = state.sign = 1
        state.event_time = self.store.relations.state.stream_time
        counts = self.plan_tables.plans.seed[seed]
        visited_values, written_rows = int(counts["visited_values"]), int(counts["written_rows"])
        try:
            if narrowest is None:
                self._call(delta_join.enumerate_edges, seed, relation)
            else:
                state.answer, state.answer_place = narrowest[3], 0
                self._call(delta_join.enumerate_at_records, seed, relation, narrowest[2])
        finally:
            # Support lists would not save the work of enumerating answers.
            counts = self.plan_tables.plans.seed[seed]
            counts["visited_values"], counts["written_rows"] = visited_values, written_rows

    def _call(self, kernel: Any, *arguments: Any) -> None:
        self.plan_tables.update_conditions()
        self.plan_tables.update_numbers()
        bound_kernel = self._bound_kernels.get(kernel)
        if bound_kernel is None:
            bound_kernel = self._bound_kernels[kernel] = bound(kernel, *self._views(), *arguments)
        while (code := bound_kernel(*self._views(), *arguments)) != DONE:
            try:
                if code == NEED_TIME:
                    if self.guard is not None:
                        self.guard(code, 0)
                    continue
                with nullcontext() if self.guard is None else guarded_growth(partial(self.guard, int(code))):
                    self._provide(code)
            except BaseException:
                self._deliver_output()  # the rows of earlier tuples
                raise
        self._deliver_output()

    def _provide(self, code: int) -> None:
        """Provide what a kernel requested when it returned `code`."""
        if code == NEED_OUTPUT:
            request(self.nbytes)  # of the copy of a piece
            self._deliver_output()
        elif code == NEED_CONDITIONS:
            self.plan_tables.graph.grow()
            self.plan_tables.update_conditions()
        else:
            self.store.grow(code, expected=self._expected_growth())

    def _expected_growth(self) -> Sizes:
        """Return an estimate of what the rest of a large chunk will add, from what its tuples have added so far."""
        applied = self.plan_tables.plans.state.tuple
        if self._tuples <= _LARGE_CHUNK or applied < _LARGE_CHUNK:
            return NOTHING_EXPECTED
        sizes, remaining = zip(self.store.sizes(), self._sizes, strict=True), self._tuples - applied
        return Sizes(*(max(0, now - before) * remaining // applied for now, before in sizes))

    def _views(self) -> tuple[Any, Any, Any]:
        """Return the views that kernels are called with. Views of arrays that were replaced are renewed."""
        if self._viewed_plans is not self.plan_tables.plans:
            self._viewed_plans = self.plan_tables.plans
            self._plans_view = view(self._viewed_plans)
        return self.store.view, self._plans_view, self._output_view

    def _deliver_output(self) -> None:
        state = self.output.state
        if state.runs:
            try:
                self.deliver(self)
            finally:
                state.runs = state.values = state.overwritten_values = 0

    def runs(self) -> list[RowRun]:
        """Return the runs of the current piece, in order."""
        found = []
        for query, order, time, sign, first, count in self.output.runs[: self.output.state.runs].tolist():
            if count:  # the last run may have no rows
                columns = len(self.plan_tables.columns(query))
                values = self.output.values[first : first + count * columns]
                found.append(RowRun(query, order, time, sign, values.reshape(count, columns)))
        return found
