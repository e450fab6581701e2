"""GROUP BY with aggregates: one row for each group of the input.

On bags: AggregateJoin(Aggregation(e, f, Group(keys, Ω)), …) = { key → f of the values of e in the rows with that key }
(§18.5.1); HAVING is a filter above it. A group stores how many rows are in it, an accumulator for each aggregate
(`rpq.language.sparql.values.aggregates`), and its output row. An event changes accumulators; then the output row of each
group that it touched is computed again, and the difference is emitted. Without keys there is one group, whether or not it
has rows. Counts, sums and averages are maintained by kernels: of small integers by `SummedGroups`, and once another
number has arrived by `ExactSums`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from rpq.language.sparql.algebra import Aggregate
from rpq.language.sparql.algebra_text import formula_text
from rpq.language.sparql.values.aggregates import Accumulator, accumulator
from rpq.language.sparql.values.typed_values import NoValue
from rpq.operators.relational.exact_sums import INTEGER, NO_AMOUNT, NO_RESULT, Amounts, ChangedSums, ExactSums
from rpq.operators.relational.formula_columns import UNFIT, AmountColumn, NumberColumn, ValueColumn
from rpq.operators.relational.group_sums import (
    AVERAGED,
    COUNTED,
    NO_NUMBER,
    NO_VALUE,
    SUMMED,
    ChangedGroups,
    SummedGroups,
    group_output,
)
from rpq.operators.relational.nodes import Node, places_of
from rpq.operators.relational.term_ids import TermIds
from rpq.rows.weighted_rows import UNBOUND, Row, WeightedRows

_SUMMED_AS = {"COUNT": COUNTED, "SUM": SUMMED, "AVG": AVERAGED}


@dataclass
class _Group:
    """One group."""

    accumulators: list[Accumulator]
    rows: int = 0
    output: Row | None = field(default=None)


class GroupNode(Node):
    """The groups of an operator by `keys`, with their `aggregates`."""

    def __init__(
        self, inner: Node, keys: Sequence[str], aggregates: Sequence[tuple[str, Aggregate]], terms: TermIds
    ) -> None:
        names = [name for name, _ in aggregates]
        counts = [name for name, one in aggregates if one.function == "COUNT"]
        super().__init__((*keys, *names), [*(key for key in keys if key in inner.sure), *counts], inner)
        self._keys = places_of(keys, inner.columns)
        self._aggregates = [one for _, one in aggregates]
        self._terms = terms
        self._values = [
            None if one.argument is None else ValueColumn(one.argument, inner.columns, terms) for one in self._aggregates
        ]
        # What COUNT(DISTINCT *) looks at: the variables of the query.
        self._shown = [place for place, name in enumerate(inner.columns) if not name.startswith(("_:", "."))]
        self._groups: dict[Row, _Group] = {}
        self.is_isolated = False
        """Whether its rows meet no others: their numbers need not be the terms that others may be."""
        self._numbers: list[NumberColumn | None] = []
        self._amounts: list[AmountColumn | None] = []
        self._summed: SummedGroups | None = None
        self._exact: ExactSums | None = None
        if all(one.function in _SUMMED_AS and not one.is_distinct for one in self._aggregates):
            self._summed_as = [_SUMMED_AS[one.function] for one in self._aggregates]
            self._numbers = [
                None if one.argument is None else NumberColumn(one.argument, inner.columns, terms)
                for one in self._aggregates
            ]
            self._amounts = [
                None if one.argument is None or one.function == "COUNT" else AmountColumn(one.argument, inner.columns, terms)
                for one in self._aggregates
            ]

    def begin(self) -> WeightedRows:
        self._groups.clear()
        self._summed = SummedGroups(len(self._keys), self._summed_as) if self._numbers else None
        self._exact = None
        self._output_ids = np.zeros((0, len(self._aggregates)), np.int32)
        if self._keys:
            return WeightedRows.of([], self.width)
        if self._summed is not None:
            zeros = np.zeros((len(self._aggregates), 1), np.int64)
            self._output_ids = np.ascontiguousarray(self._ids(zeros, zeros).T)
            return WeightedRows.of([(0, tuple(self._output_ids[0].tolist()), 1)], self.width)
        group = self._groups[()] = self._new()
        group.output = self._row((), group)
        return WeightedRows.of([(0, group.output, 1)], self.width)

    def change(self, *changes: WeightedRows) -> WeightedRows:
        """Return the change of the groups, which is net within each event, deletions first."""
        (change,) = changes
        if not len(change):
            return WeightedRows.of([], self.width)
        if self._summed is not None:
            summed = self._change_sums(change, self._summed)
            if summed is not None:
                return summed
            self._continue_exactly(self._summed)
        if self._exact is not None:
            return self._change_exactly(change, self._exact)
        # Aggregates cannot lose what they do not have: in an event what comes is before what goes.
        change = change.where(np.lexsort((change.weights < 0, change.events)))
        keys = map(tuple, change.select_columns(self._keys).rows.tolist())
        values = zip(
            *(
                self._column(column, one.is_distinct, change.rows)
                for column, one in zip(self._values, self._aggregates, strict=True)
            ),
            strict=True,
        )
        if not self._values:
            values = iter([()] * len(change))  # type: ignore[assignment]
        output: list[tuple[int, Row, int]] = []
        touched: dict[Row, _Group] = {}
        current = int(change.events[0])
        weights, events = change.weights.tolist(), change.events.tolist()
        for key, row_values, weight, event in zip(keys, values, weights, events, strict=True):
            if event != current:
                self._settle(current, touched, output)
                touched, current = {}, event
            group = touched.get(key)
            if group is None:
                group = self._groups.get(key)
                if group is None:
                    group = self._groups[key] = self._new()
                touched[key] = group
            group.rows += weight
            for one, value in zip(group.accumulators, row_values, strict=True):
                change_value = one.insert if weight > 0 else one.delete
                for _ in range(abs(weight)):
                    change_value(value)
        self._settle(current, touched, output)
        result = WeightedRows.of(output, self.width)
        return result.where(np.lexsort((result.weights, result.events)))

    # --- sums of whole numbers -------------------------------------------------------------------------------

    def _change_sums(self, change: WeightedRows, summed: SummedGroups) -> WeightedRows | None:
        """Return the change by kernels, or None, without any effect, if a number cannot be summed by them."""
        numbers = np.zeros((len(self._aggregates), len(change)), np.int64)
        for place, (column, one) in enumerate(zip(self._numbers, self._aggregates, strict=True)):
            if one.function == "COUNT":
                if (values := self._values[place]) is not None:
                    numbers[place, ~values.are_bound(change.rows)] = NO_NUMBER
            elif column is not None:
                numbers[place] = column.array_of(change.rows)
                if numbers[place].max() == UNFIT:
                    return None
        keys = np.ascontiguousarray(change.select_columns(self._keys).rows)
        groups = summed.change(keys, change.weights, change.events, numbers)
        return self._output(keys, change.events, groups, self._ids(groups.dividends, groups.divisors), summed.room)

    def _output(
        self, keys: np.ndarray, of_changes: np.ndarray, groups: ChangedGroups | ChangedSums, after: np.ndarray, room: int
    ) -> WeightedRows:
        """Return the change of the output rows of groups that changes with these keys and events touched."""
        if self._keys and room > len(self._output_ids):
            more = np.zeros((room - len(self._output_ids), len(self._aggregates)), np.int32)
            self._output_ids = np.concatenate([self._output_ids, more])
        always = not self._keys  # and its number is 0 then, which it has without rows too
        numbers_of = np.zeros_like(groups.groups) if always else groups.groups
        count = 2 * len(numbers_of)
        rows, weights = np.empty((count, self.width), np.int32), np.empty(count, np.int64)
        events = np.empty(count, np.int64)
        of_groups = groups.places, numbers_of, groups.there, after, self._output_ids, always, np.empty_like(after)
        count = group_output(keys, of_changes, *of_groups, rows, weights, events)
        return WeightedRows(rows[:count], weights[:count], events[:count])

    def _ids(self, dividends: np.ndarray, divisors: np.ndarray) -> np.ndarray:
        """Return the ids (int32) of aggregates of groups, (aggregate, group)."""
        make = self._terms.quotients if self.is_isolated else self._terms.quotients_as_terms
        ids = np.empty(dividends.shape, np.int32)
        for place, (of_aggregate, by) in enumerate(zip(dividends, divisors, strict=True)):
            is_none = by == NO_VALUE
            if is_none.any():
                of_aggregate, by = np.where(is_none, 0, of_aggregate), np.where(is_none, 0, by)
            ids[place] = make(of_aggregate, by)
            ids[place, is_none] = UNBOUND
        return ids

    # --- sums of numbers of any type -------------------------------------------------------------------------

    def _continue_exactly(self, summed: SummedGroups) -> None:
        """Replace the sums of small integers by exact sums of any numbers."""
        self._exact = ExactSums.of_integers(len(self._keys), self._summed_as, *summed.state)
        self._summed = None
        results = self._exact.results()
        # The group without keys has its output before it has rows; others without rows have none that counts.
        count = self._exact.room if self._keys else 1
        ids = self._ids_of_results(*(array[:, :count] for array in (results.types, results.high, results.low)))
        self._output_ids = np.ascontiguousarray(ids.T)

    def _change_exactly(self, change: WeightedRows, exact: ExactSums) -> WeightedRows:
        shape = len(self._aggregates), len(change)
        amounts = Amounts(np.zeros(shape, np.int8), np.zeros(shape, np.int64), np.zeros(shape, np.int64))
        for place, (values, column) in enumerate(zip(self._values, self._amounts, strict=True)):
            if column is not None:
                found = column.array_of(change.rows)
                for array, name in zip(amounts, ("kinds", "high", "low"), strict=True):
                    array[place] = found[name]
            elif values is not None:
                amounts.kinds[place, ~values.are_bound(change.rows)] = NO_AMOUNT
        keys = np.ascontiguousarray(change.select_columns(self._keys).rows)
        groups = exact.change(keys, change.weights, change.events, amounts)
        after = self._ids_of_results(groups.types, groups.high, groups.low)
        return self._output(keys, change.events, groups, after, exact.room)

    def _ids_of_results(self, types: np.ndarray, high: np.ndarray, low: np.ndarray) -> np.ndarray:
        """Return the ids (int32) of aggregates of groups, (aggregate, group)."""
        ids = np.full(types.shape, UNBOUND, np.int32)
        has_result = types != NO_RESULT
        kinds, high, low = types[has_result], high[has_result], low[has_result]
        are_integers = kinds == INTEGER  # as quotients, an integer is the dividend
        high, low = np.where(are_integers, low, high), np.where(are_integers, 0, low)
        ids[has_result] = self._terms.numbers(kinds, high, low, as_terms=not self.is_isolated)
        return ids

    # --- any aggregates --------------------------------------------------------------------------------------

    def _new(self) -> _Group:
        return _Group([accumulator(one) for one in self._aggregates])

    def _column(self, column: ValueColumn | None, is_distinct: bool, rows: np.ndarray) -> Sequence[Hashable]:
        if column is not None:
            return column.of(rows)
        if not is_distinct:
            return [True] * len(rows)
        # Terms, not ids: what a group holds for itself keeps no id alive.
        texts = [self._terms.texts(rows[:, place]) for place in self._shown]
        return [*zip(*texts, strict=True)] if texts else [()] * len(rows)

    def _settle(self, event: int, touched: dict[Row, _Group], output: list[tuple[int, Row, int]]) -> None:
        """Append the changes of the output rows of groups that an event touched."""
        for key, group in touched.items():
            row = None
            if group.rows or not self._keys:
                row = self._row(key, group)
            else:
                del self._groups[key]
            if row != group.output:
                if group.output is not None:
                    output.append((event, group.output, -1))
                if row is not None:
                    output.append((event, row, 1))
                group.output = row

    def _row(self, key: Row, group: _Group) -> Row:
        return (*key, *(self._terms.intern(_result(one)) for one in group.accumulators))

    def forget(self, fresh: np.ndarray) -> None:
        for column in (*self._values, *self._numbers, *self._amounts):
            if column is not None:
                column.forget(fresh)

    @property
    def entries(self) -> int:
        sums = self._summed or self._exact
        return len(self._groups) if sums is None else sums.entries

    @property
    def nbytes(self) -> int:
        sums = self._summed or self._exact
        of_groups = super().nbytes if sums is None else sums.nbytes + self._output_ids.nbytes
        columns = (*self._values, *self._numbers, *self._amounts)
        return of_groups + sum(column.nbytes for column in columns if column is not None)

    def ids(self) -> Iterable[int] | np.ndarray:
        if (sums := self._summed or self._exact) is not None:
            return np.concatenate([sums.keys(), self._output_ids.reshape(-1)])
        return chain.from_iterable(group.output for group in self._groups.values() if group.output is not None)

    def describe(self) -> str:
        keys = " ".join(f"?{name}" for name in self.columns[: len(self._keys)])
        names = self.columns[len(self._keys) :]
        texts = [f"?{name} = {formula_text(one)}" for name, one in zip(names, self._aggregates, strict=True)]
        return ", ".join([f"group by {keys}" if keys else "one group", *texts])

    def describe_state(self) -> str:
        return "for each group its row and its aggregates"

    def _check(self) -> None:
        if (sums := self._summed or self._exact) is not None:
            sums.check()
        for key, group in self._groups.items():
            assert group.rows > 0 or not self._keys, (key, group.rows)
            assert group.output == self._row(key, group), (key, group.output)


def _result(one: Accumulator) -> str | None:
    try:
        return one.result()
    except NoValue:
        return None
