"""GROUP BY with aggregates: one row for each group of the input.

On bags: AggregateJoin(Aggregation(e, f, Group(keys, Ω)), …) = { key → f of the values of e in the rows with that key }
(§18.5.1); HAVING is a filter above it. A group stores how many rows are in it, an accumulator for each aggregate
(`rpq.language.sparql.values.aggregates`), and its output row. An event changes accumulators; then the output row of each
group that it touched is computed again, and the difference is emitted. Without keys there is one group, whether or not it
has rows.

Kernels maintain aggregates: `SummedGroups` counts, sums and averages of small integers, and once another number has arrived
`ExactSums`; `GroupedValues` MIN, MAX, SAMPLE, COUNT(DISTINCT …) and COLLECT. Where a group has aggregates of both, each
counts its rows. Only GROUP_CONCAT, SUM and AVG of distinct values, and other aggregates of such a query, are left to
accumulators.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np

from rpq.language.sparql.algebra import ALWAYS_BOUND, Aggregate, AggregateName, Formula
from rpq.language.sparql.algebra_text import formula_text
from rpq.language.sparql.values.aggregates import Accumulator, accumulator, list_term
from rpq.language.sparql.values.typed_values import NoValue
from rpq.operators.relational.nodes import Node, name_by_place, places_of
from rpq.operators.relational.values.exact_sums import NO_AMOUNT, NO_RESULT, SKIPPED, Amounts, ChangedSums, ExactSums
from rpq.operators.relational.values.formula_columns import UNFIT, AmountColumn, IdColumn, NumberColumn, ValueColumn
from rpq.operators.relational.values.group_lists import GroupedLists
from rpq.operators.relational.values.group_sums import (
    AVERAGED,
    COUNTED,
    NO_NUMBER,
    NO_VALUE,
    SKIPPED_NUMBER,
    SUMMED,
    ChangedGroups,
    SummedGroups,
    group_output,
)
from rpq.operators.relational.values.group_values import (
    GREATEST,
    LEAST,
    Argument,
    ChangedValues,
    GroupedValues,
    TouchedGroups,
)
from rpq.operators.relational.values.term_ids import TermIds
from rpq.operators.relational.values.value_order import ValueOrder
from rpq.rows.weighted_rows import UNBOUND, Row, WeightedRows

_SUMMED_AS = {"COUNT": COUNTED, "SUM": SUMMED, "AVG": AVERAGED}
_ENDS: dict[AggregateName, tuple[int, ...]] = {"MIN": (LEAST,), "MAX": (GREATEST,), "SAMPLE": (LEAST,), "COUNT": ()}
"""The aggregates of distinct values, with the ends of the values that they need."""


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
        bound = [name for name, one in aggregates if one.function in ALWAYS_BOUND]
        super().__init__((*keys, *names), [*(key for key in keys if key in inner.sure), *bound], inner)
        self._keys = places_of(keys, inner.columns)
        self._formulas = tuple(name_by_place(one, inner.columns) for _, one in aggregates)
        self._aggregates = [one for _, one in aggregates]
        self._terms = terms
        self._values = [
            None if one.argument is None else ValueColumn(one.argument, inner.columns, terms) for one in self._aggregates
        ]
        # COUNT(DISTINCT *) counts combinations of the variables of the query.
        self._visible_places = [place for place, name in enumerate(inner.columns) if not name.startswith(("_:", "."))]
        self._groups: dict[Row, _Group] = {}
        self.is_isolated = False
        """True if its rows are joined with no others, so that their numbers need not be ids of terms."""
        self._summed_groups: SummedGroups | None = None
        self._exact: ExactSums | None = None
        self._by_value: GroupedValues | None = None
        self._lists: list[GroupedLists] = []
        self._of_sums = [
            place for place, one in enumerate(self._aggregates) if one.function in _SUMMED_AS and not one.is_distinct
        ]
        self._of_lists = [place for place, one in enumerate(self._aggregates) if one.function == "COLLECT"]
        compiled = {*self._of_sums, *self._of_lists}
        self._of_values = [place for place, one in enumerate(self._aggregates) if place not in compiled]
        self._is_compiled = all(self._aggregates[place].function in _ENDS for place in self._of_values)
        if not self._is_compiled:
            self._of_sums, self._of_values, self._of_lists = [], [], []
        summed = [self._aggregates[place] for place in self._of_sums]
        self._summed_as = [_SUMMED_AS[one.function] for one in summed]
        self._numbers = [
            None if one.argument is None else NumberColumn(one.argument, inner.columns, terms) for one in summed
        ]
        self._amounts = [
            None if one.argument is None or one.function == "COUNT" else AmountColumn(one.argument, inner.columns, terms)
            for one in summed
        ]
        self._order = ValueOrder(terms)
        # Aggregates of one argument share its values.
        self._ids_of: dict[Formula | None, IdColumn | None] = {}
        self._ends: dict[Formula | None, tuple[int, ...]] = {}
        for one in (self._aggregates[place] for place in self._of_values):
            if one.argument not in self._ids_of:
                column = None if one.argument is None else IdColumn(one.argument, inner.columns, terms)
                self._ids_of[one.argument] = column
            self._ends[one.argument] = (*self._ends.get(one.argument, ()), *_ENDS[one.function])

    @property
    def parameters(self) -> Hashable:
        return tuple(self._keys), self._formulas, tuple(self._visible_places), self.is_isolated

    def begin(self) -> WeightedRows:
        self._groups.clear()
        keys = len(self._keys)
        self._summed_groups = self._exact = self._by_value = None
        has_values = bool(self._of_values or self._of_lists)
        if self._is_compiled and (self._of_sums or not has_values):
            self._summed_groups = SummedGroups(keys, self._summed_as)
        if has_values:
            arguments = [
                Argument(ends=tuple({*ends}))
                if formula is not None
                else Argument(width=len(self._visible_places), skips_unbound=False)
                for formula, ends in self._ends.items()
            ]
            self._lists = [GroupedLists(self._aggregates[place], self._terms) for place in self._of_lists]
            self._by_value = GroupedValues(keys, arguments, self._order, self._lists)
        self._output_ids = np.zeros((0, len(self._aggregates)), np.int32)
        if self._keys:
            return WeightedRows.from_changes([], self.width)
        if self._is_compiled:
            zeros = np.zeros((len(self._aggregates), 1), np.int64)
            self._output_ids = np.ascontiguousarray(self._ids(zeros, zeros).T)
            has_none = [place for place in self._of_values if self._aggregates[place].function != "COUNT"]
            self._output_ids[:, has_none] = UNBOUND
            self._output_ids[:, self._of_lists] = self._terms.intern(list_term(()))
            return WeightedRows.from_changes([(0, tuple(self._output_ids[0].tolist()), 1)], self.width)
        group = self._groups[()] = self._new()
        group.output = self._row((), group)
        return WeightedRows.from_changes([(0, group.output, 1)], self.width)

    def change(self, *changes: WeightedRows) -> WeightedRows:
        """Return the change of the groups, which is net within each event, deletions first."""
        (change,) = changes
        if not len(change):
            return WeightedRows.from_changes([], self.width)
        if self._is_compiled:
            return self._change_by_kernels(change)
        # Aggregates cannot remove values that they do not have, so within an event added rows precede removed rows.
        change = change.select(np.lexsort((change.weights < 0, change.events)))
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
                self._append_changes(current, touched, output)
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
        self._append_changes(current, touched, output)
        result = WeightedRows.from_changes(output, self.width)
        return result.select(np.lexsort((result.weights, result.events)))

    # --- aggregates by kernels -------------------------------------------------------------------------------

    def _change_by_kernels(self, change: WeightedRows) -> WeightedRows:
        keys = np.ascontiguousarray(change.select_columns(self._keys).rows)
        groups: TouchedGroups | ChangedGroups | ChangedSums | None = None
        after, room = None, 0
        if self._by_value is not None:
            values = [self._values_of(column, change.rows) for column in self._ids_of.values()]
            terms = [self._column(self._values[place], False, change.rows) for place in self._of_lists]
            of_lists = [one.values_of(of_list) for one, of_list in zip(self._lists, terms, strict=True)]
            groups, changed, ids = self._by_value.change(keys, change.weights, change.events, values, of_lists)
            after = np.empty((len(self._aggregates), len(groups.places)), np.int32)
            for place, of_list in zip(self._of_lists, ids, strict=True):
                after[place] = of_list
            of_arguments = dict(zip(self._ids_of, changed, strict=True))
            for place in self._of_values:
                one = self._aggregates[place]
                after[place] = self._ids_of_values(one, of_arguments[one.argument])
            room = self._by_value.room
        if self._summed_groups is not None or self._exact is not None:
            # These are the same groups in the same order, under other numbers.
            groups, of_sums, room = self._change_sums(keys, change)
            if after is None:
                after = of_sums
            else:
                after[self._of_sums] = of_sums
        assert groups is not None and after is not None
        return self._output(keys, change.events, groups, after, room)

    def _values_of(self, column: IdColumn | None, rows: np.ndarray) -> np.ndarray:
        """Return the values of an argument, int32 (row, column); of solutions all columns."""
        return rows[:, self._visible_places] if column is None else column.ids_of(rows).reshape(-1, 1)

    def _ids_of_values(self, aggregate: Aggregate, changed: ChangedValues) -> np.ndarray:
        """Return the ids (int32) of an aggregate of different values, of groups."""
        if aggregate.function == "COUNT":
            return self._ids_of_numbers(changed.distinct_values, np.zeros(len(changed.distinct_values), np.int64))
        (end,) = _ENDS[aggregate.function]
        if aggregate.function == "SAMPLE" or aggregate.skips_unbound:
            return changed.ends[end]
        return np.where(changed.unbound_rows > 0, UNBOUND, changed.ends[end])

    def _change_sums(self, keys: np.ndarray, change: WeightedRows) -> tuple[ChangedGroups | ChangedSums, np.ndarray, int]:
        """Return the changed groups, the ids of their counts, sums and averages, and the bound of numbers of groups."""
        if self._summed_groups is not None:
            numbers = self._small_numbers(change)
            groups = None if numbers is None else self._summed_groups.change(keys, change.weights, change.events, numbers)
            if groups is not None:
                return groups, self._ids(groups.dividends, groups.divisors), self._summed_groups.room
            self._continue_exactly(self._summed_groups)
        assert self._exact is not None
        sums = self._exact.change(keys, change.weights, change.events, self._all_amounts(change))
        return sums, self._ids_of_results(sums.types, sums.high, sums.low), self._exact.room

    def _small_numbers(self, change: WeightedRows) -> np.ndarray | None:
        """Return the summed values as small integers (aggregate, row), or None if some value is not a small integer."""
        numbers = np.zeros((len(self._of_sums), len(change)), np.int64)
        for row, (place, column) in enumerate(zip(self._of_sums, self._numbers, strict=True)):
            one, values = self._aggregates[place], self._values[place]
            if one.function == "COUNT":
                if values is not None:
                    numbers[row, ~values.are_bound(change.rows)] = NO_NUMBER
            elif column is not None:
                numbers[row] = column.array_of(change.rows)
                if numbers[row].max() == UNFIT:
                    return None
                if one.skips_unbound and values is not None:
                    numbers[row, ~values.are_bound(change.rows)] = SKIPPED_NUMBER
        return numbers

    def _output(
        self,
        keys: np.ndarray,
        of_changes: np.ndarray,
        groups: TouchedGroups | ChangedGroups | ChangedSums,
        after: np.ndarray,
        room: int,
    ) -> WeightedRows:
        """Return the change of the output rows of groups that changes with these keys and events touched."""
        if self._keys and room > len(self._output_ids):
            more = np.zeros((room - len(self._output_ids), len(self._aggregates)), np.int32)
            self._output_ids = np.concatenate([self._output_ids, more])
        always = not self._keys  # the only group, which has number 0 even without rows
        numbers_of = np.zeros_like(groups.groups) if always else groups.groups
        count = 2 * len(numbers_of)
        rows, weights = np.empty((count, self.width), np.int32), np.empty(count, np.int64)
        events = np.empty(count, np.int64)
        of_groups = groups.places, numbers_of, groups.presence, after, self._output_ids, always, np.empty_like(after)
        count = group_output(keys, of_changes, *of_groups, rows, weights, events)
        return WeightedRows(rows[:count], weights[:count], events[:count])

    def _ids(self, dividends: np.ndarray, divisors: np.ndarray) -> np.ndarray:
        """Return the ids (int32) of aggregates of groups, (aggregate, group)."""
        ids = np.empty(dividends.shape, np.int32)
        for place, (of_aggregate, by) in enumerate(zip(dividends, divisors, strict=True)):
            is_none = by == NO_VALUE
            if not is_none.any():
                ids[place] = self._ids_of_numbers(of_aggregate, by)
                continue
            ids[place] = self._ids_of_numbers(np.where(is_none, 0, of_aggregate), np.where(is_none, 0, by))
            ids[place, is_none] = UNBOUND
        return ids

    def _ids_of_numbers(self, dividends: np.ndarray, divisors: np.ndarray) -> np.ndarray:
        """Return the ids (int32) of quotients, or of integers where the divisor is 0."""
        return self._terms.quotients(dividends, divisors, as_terms=not self.is_isolated)

    # --- sums of numbers of any type -------------------------------------------------------------------------

    def _continue_exactly(self, summed: SummedGroups) -> None:
        """Replace the sums of small integers by exact sums of any numbers."""
        self._exact = ExactSums.of_integers(len(self._keys), self._summed_as, *summed.state)
        self._summed_groups = None
        results = self._exact.results()
        # The group without keys has an output even without rows; other groups without rows have none.
        count = self._exact.room if self._keys else 1
        ids = self._ids_of_results(*(array[:, :count] for array in (results.types, results.high, results.low)))
        output = np.zeros((count, len(self._aggregates)), np.int32)
        output[: len(self._output_ids)] = self._output_ids
        output[:, self._of_sums] = ids.T
        self._output_ids = output

    def _all_amounts(self, change: WeightedRows) -> Amounts:
        """Return the summed values as numbers of any type; the arrays are (aggregate, row)."""
        shape = len(self._of_sums), len(change)
        amounts = Amounts(np.zeros(shape, np.int8), np.zeros(shape, np.int64), np.zeros(shape, np.int64))
        for row, (place, column) in enumerate(zip(self._of_sums, self._amounts, strict=True)):
            one, values = self._aggregates[place], self._values[place]
            if column is not None:
                found = column.array_of(change.rows)
                for array, name in zip(amounts, ("kinds", "high", "low"), strict=True):
                    array[row] = found[name]
            if values is not None and (column is None or one.skips_unbound):
                amounts.kinds[row, ~values.are_bound(change.rows)] = NO_AMOUNT if column is None else SKIPPED
        return amounts

    def _ids_of_results(self, types: np.ndarray, high: np.ndarray, low: np.ndarray) -> np.ndarray:
        """Return the ids (int32) of aggregates of groups, (aggregate, group)."""
        ids = np.full(types.shape, UNBOUND, np.int32)
        has_result = types != NO_RESULT
        kinds, high, low = types[has_result], high[has_result], low[has_result]
        ids[has_result] = self._terms.numbers(kinds, high, low, as_terms=not self.is_isolated)
        return ids

    # --- any aggregates --------------------------------------------------------------------------------------

    def _new(self) -> _Group:
        return _Group([accumulator(one) for one in self._aggregates])

    def _column(self, column: ValueColumn | None, is_distinct: bool, rows: np.ndarray) -> Sequence[Any]:
        if column is not None:
            return column.evaluate(rows)
        if not is_distinct:
            return [True] * len(rows)
        # Terms, not ids: a group does not keep the ids of its values in use.
        texts = [self._terms.texts(rows[:, place]) for place in self._visible_places]
        return [*zip(*texts, strict=True)] if texts else [()] * len(rows)

    def _append_changes(self, event: int, touched: dict[Row, _Group], output: list[tuple[int, Row, int]]) -> None:
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

    def discard_ids(self, new_ids: np.ndarray) -> None:
        for column in self._columns:
            column.discard_ids(new_ids)
        self._order.discard_ids(new_ids)

    @property
    def _columns(self) -> list[ValueColumn | NumberColumn | AmountColumn]:
        columns = (*self._values, *self._numbers, *self._amounts, *self._ids_of.values())
        return [column for column in columns if column is not None]

    @property
    def _kernels(self) -> list[SummedGroups | ExactSums | GroupedValues]:
        """The owner of the groups where kernels maintain the aggregates."""
        return [one for one in (self._summed_groups, self._exact, self._by_value) if one is not None]

    @property
    def entries(self) -> int:
        return sum(one.entries for one in self._kernels) if self._is_compiled else len(self._groups)

    @property
    def nbytes(self) -> int:
        total = super().nbytes
        if self._is_compiled:
            total = sum(one.nbytes for one in self._kernels) + self._output_ids.nbytes + self._order.nbytes
        return total + sum(column.nbytes for column in self._columns)

    def ids(self) -> Iterable[int] | np.ndarray:
        if self._is_compiled:
            return np.concatenate([*(one.ids() for one in self._kernels), self._output_ids.reshape(-1)])
        return chain.from_iterable(group.output for group in self._groups.values() if group.output is not None)

    def describe(self) -> str:
        keys = " ".join(f"?{name}" for name in self.columns[: len(self._keys)])
        names = self.columns[len(self._keys) :]
        texts = [f"?{name} = {formula_text(one)}" for name, one in zip(names, self._aggregates, strict=True)]
        return ", ".join([f"group by {keys}" if keys else "one group", *texts])

    def describe_state(self) -> str:
        return "for each group its row and its aggregates"

    def _check(self) -> None:
        for one in self._kernels:
            one.check()
        for key, group in self._groups.items():
            assert group.rows > 0 or not self._keys, (key, group.rows)
            assert group.output == self._row(key, group), (key, group.output)


def _result(one: Accumulator) -> str | None:
    try:
        return one.result()
    except NoValue:
        return None
