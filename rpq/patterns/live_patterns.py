"""Patterns that run: chunks of a stream go in, pieces of rows come out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from rpq.compiled.views import bound, view
from rpq.patterns import drive, join, tables
from rpq.patterns.plan_tables import PlanTables
from rpq.patterns.relation import RelationStore
from rpq.patterns.row_writing import WIDEST
from rpq.patterns.support_choice import SupportChoice
from rpq.patterns.tables import DONE, NEED_CONDITIONS, NEED_OUTPUT, Changes, Output, Tuples
from rpq.patterns.wheel import NEVER

_NO_EVENTS = np.zeros(0, np.int64)
NO_CHANGES = Changes(
    order=_NO_EVENTS,
    time=_NO_EVENTS,
    sign=np.zeros(0, np.int8),
    relation=np.zeros(0, np.int32),
    first=_NO_EVENTS,
    end=_NO_EVENTS,
    pairs=_NO_EVENTS,
    spent=_NO_EVENTS,
)
"""Derived relations stay as they are."""
_NO_CHANGES = view(NO_CHANGES)


class Run(NamedTuple):
    """Rows of one query and one event (or of a piece of one)."""

    query: int
    order: int
    """2 * tuple of the chunk + 1, or 2 * tuple for a boundary before it."""
    time: int
    sign: int
    """1 they enter, -1 they leave."""
    rows: np.ndarray
    """int32, rows × columns: a view of the output, which the next piece overwrites."""


class LivePatterns:
    """The relations of a store under the plans of tables.

    `deliver` is called with each piece of the output. With `chooses` queries get support lists where they are worth it.
    `guard` is called before more memory is taken, with what for (a `NEED_` code), and may raise.
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
        guard: Callable[[int], None] | None = None,
    ) -> None:
        values = max(values, 2 * tables.SLOTS)  # a row fits in any case
        self.store = store
        self.plan_tables = plan_tables
        self.deliver = deliver
        self.chooses = chooses
        self.guard = guard
        self.choice = SupportChoice(plan_tables)
        self.output = Output(
            values=np.zeros(values + WIDEST, np.int32),
            runs=np.zeros(runs * tables.RUN, np.int64),
            state=np.array([0, values, 0, runs], np.int64),
        )
        self._output_view = view(self.output)
        self._ready: dict[Any, Any] = {}
        self._held: tuple[Any, Any] = (None, None)
        self._held_views: tuple[Any, Any, Any] = (None, None, None)

    def apply(self, tuples: Tuples) -> None:
        """Apply a chunk; its rows are delivered."""
        if len(tuples.source):
            self.store.have_vertices(int(max(tuples.source.max(), tuples.target.max())) + 1)
        self.apply_view(view(tuples), len(tuples.source))

    def apply_view(self, tuples: Any, count: int, changes: Changes = NO_CHANGES) -> None:
        """Apply the view of a chunk, for whose vertices there is room, and what it changes in derived relations."""
        state = self.plan_tables.plans.state
        state[tables.TUPLE] = state[tables.STARTED] = 0
        state[tables.PHASE] = tables.CROSSING
        self._call(drive.apply_tuples, tuples, count, self._expected(changes))
        if self.chooses:
            self.choice.review()

    def advance(self, time: int, changes: Changes = NO_CHANGES) -> None:
        """Move the stream time; rows of boundaries, and of changes of derived relations by then, are delivered."""
        self.plan_tables.plans.state[tables.ORDER] = 0
        self._call(drive.advance_to, int(time), self._expected(changes))

    def _expected(self, changes: Changes) -> Any:
        """The view of changes, which kernels are told of."""
        state, count = self.plan_tables.plans.state, len(changes.order)
        state[[tables.CHANGE, tables.CHANGES]] = 0, count
        state[tables.CHANGE_ORDER] = changes.order[0] if count else NEVER
        state[tables.CHANGE_PAIR] = changes.first[0] if count else 0
        state[tables.TIMED] = len(changes.spent)
        return view(changes) if count or len(changes.spent) else _NO_CHANGES

    def answers(self, query: int) -> None:
        """Deliver the rows of all solutions of a query, as if they entered now. O(edges, and what joining them costs).

        `deliver` may raise: the others are not enumerated then.
        """
        self.plan_tables.see_to_conditions()
        around = self.plan_tables.narrowest_seed(query)
        seed, relation = self.plan_tables.cheapest_seed(query) if around is None else around[:2]
        state = self.plan_tables.plans.state
        state[[tables.AT_ANSWER, tables.AT_STEP, tables.AT_EDGE]] = 1, tables.NONE, 0
        state[[tables.ORDER, tables.SIGN]] = 1, 1
        state[tables.EVENT_TIME] = self.store.relations.state[tables.STREAM_TIME]
        work = self.plan_tables.plans.seed[seed * tables.SEED_FIELDS :][[tables.LOOKED, tables.WRITTEN]]
        try:
            if around is None:
                self._call(join.enumerate_all, seed, relation)
            else:
                state[[tables.AT_ANSWER, tables.ANSWER_PLACE]] = around[3], 0
                self._call(join.enumerate_around, seed, relation, around[2])
        finally:
            # Asking for answers is no work that support lists would spare.
            self.plan_tables.plans.seed[seed * tables.SEED_FIELDS :][[tables.LOOKED, tables.WRITTEN]] = work

    @property
    def nbytes(self) -> int:
        """Bytes held by the output."""
        return sum(array.nbytes for array in self.output)

    def _call(self, kernel: Any, *arguments: Any) -> None:
        self.plan_tables.see_to_conditions()
        ready = self._ready.get(kernel)
        if ready is None:
            ready = self._ready[kernel] = bound(kernel, *self._views(), *arguments)
        while (code := ready(*self._views(), *arguments)) != DONE:
            if self.guard is not None:
                try:
                    self.guard(int(code))
                except BaseException:
                    self._hand_over()  # the rows of tuples before
                    raise
            if code == NEED_OUTPUT:
                self._hand_over()
            elif code == NEED_CONDITIONS:
                self.plan_tables.graph.grow()
                self.plan_tables.see_to_conditions()
            else:
                self.store.grow(code)
        self._hand_over()

    def _views(self) -> tuple[Any, Any, Any]:
        """What kernels are called with; made anew where arrays were replaced."""
        held = self.store.relations, self.plan_tables.plans
        if held[0] is not self._held[0] or held[1] is not self._held[1]:
            self._held = held
            self._held_views = view(held[0]), view(held[1]), self._output_view
        return self._held_views

    def _hand_over(self) -> None:
        state = self.output.state
        if state[tables.RUNS]:
            try:
                self.deliver(self)
            finally:
                state[tables.RUNS] = state[tables.VALUES] = 0

    def runs(self) -> list[Run]:
        """The runs of the current piece, in order."""
        found = []
        for row in self.output.runs[: self.output.state[tables.RUNS] * tables.RUN].reshape(-1, tables.RUN).tolist():
            query, order, time, sign, first, count = row
            if count:  # the last one may have come to nothing
                columns = len(self.plan_tables.columns(query))
                values = self.output.values[first : first + count * columns]
                found.append(Run(query, order, time, sign, values.reshape(count, columns)))
        return found
