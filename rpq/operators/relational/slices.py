"""ORDER BY with LIMIT and OFFSET: the rows at some positions of an order, as changes of membership.

On bags: Slice(OrderBy(Ω, C), offset, limit) (§18.5). All rows of the input are stored, and no two different ones have the
same position: they are ordered by the values of the conditions, then by the terms of the columns. Kernels maintain the rows
at the positions (`rpq.operators.relational.values.ordered_rows`). If they meet numbers that they cannot compare, all rows
are sorted by Python from then on, which takes 20 to 50 times as long.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from functools import lru_cache
from itertools import chain, groupby, islice
from operator import itemgetter
from typing import Any

import numpy as np

from rpq.language.sparql.values.aggregates import Backwards
from rpq.language.sparql.values.operators import order_key, rank_key
from rpq.operators.relational.nodes import BYTES_AN_ENTRY, Node, places_of
from rpq.operators.relational.values.ordered_rows import OrderedRows
from rpq.operators.relational.values.term_ids import TermIds
from rpq.rows.weighted_rows import Row, WeightedRows

_UNBOUND = (-1,)


class SliceNode(Node):
    """The rows of the input from position `offset` on, at most `limit` of them, with these columns.

    `order` are columns of the input, each ascending or, with True, descending. O(1) per change behind the positions,
    O(offset + limit) per event that changes rows at the positions or before them; O(rows) memory.
    """

    def __init__(
        self,
        inner: Node,
        columns: Sequence[str],
        order: Sequence[tuple[str, bool]],
        offset: int,
        limit: int | None,
        terms: TermIds,
    ) -> None:
        super().__init__(columns, inner.sure, inner)
        self._places = places_of(columns, inner.columns)
        self._order = [(inner.columns.index(name), is_descending) for name, is_descending in order]
        self._first, self._end = offset, None if limit is None else offset + limit
        self._terms = terms
        self._text = [f"?{name}{' descending' if is_descending else ''}" for name, is_descending in order]
        self.begin()

    @property
    def parameters(self) -> Hashable:
        return tuple(self._places), tuple(self._order), self._first, self._end

    def begin(self) -> WeightedRows:
        self._rows: OrderedRows | SortedRows = OrderedRows(
            self.inputs[0].width, self._order, self._places, self._terms, first=self._first, end=self._end
        )
        return WeightedRows.empty(self.width)

    def change(self, *changes: WeightedRows) -> WeightedRows:
        (change,) = changes
        if not len(change):
            return WeightedRows.empty(self.width)
        result = self._rows.change(change)
        if result is None:
            assert isinstance(self._rows, OrderedRows)
            done = change.select(np.arange(len(change)) < self._rows.applied)
            rows, counts = self._rows.rows()
            nothing = np.zeros(len(rows) + len(done), np.int64)
            before = WeightedRows(
                np.concatenate([rows, done.rows]), np.concatenate([counts, -done.weights]), nothing
            ).consolidate()
            self._rows = SortedRows(self._order, self._places, self._terms, first=self._first, end=self._end)
            self._rows.change(before)
            result = self._rows.change(change)
        return result

    def forget(self, new_ids: np.ndarray) -> None:
        if isinstance(self._rows, OrderedRows):
            self._rows.order.forget(new_ids)

    @property
    def entries(self) -> int:
        return self._rows.entries

    @property
    def nbytes(self) -> int:
        return self._rows.nbytes

    def ids(self) -> Iterable[int] | np.ndarray:
        return self._rows.ids()

    def describe(self) -> str:
        until = "" if self._end is None else f" to {self._end:,}"
        order = f" ordered by {', '.join(self._text)}" if self._text else ""
        return f"rows {self._first + 1:,}{until or ' on'}{order}"

    def describe_state(self) -> str:
        return "all rows in their order"

    def _check(self) -> None:
        self._rows.check()


class SortedRows:
    """The rows at positions `first` … `end` of an order, as in `OrderedRows`, but compared by Python.

    O(log rows) per change, and O(end) per event that changes the rows at the positions or before them.
    """

    def __init__(
        self,
        order: Sequence[tuple[int, bool]],
        columns: Sequence[int],
        terms: TermIds,
        *,
        first: int,
        end: int | None,
    ) -> None:
        from sortedcontainers import SortedKeyList

        self._order = order
        self._columns = columns
        self._terms = terms
        self._first, self._end = first, end
        self._rows: Any = SortedKeyList(key=itemgetter(0))
        """The key, the output columns and all columns of each row, as often as it occurs."""
        self._slice: Counter[Row] = Counter()

    def change(self, change: WeightedRows) -> WeightedRows:
        """Return the change of the rows at the positions that changes of the bag cause."""
        keys = self._keys(change)
        rows = change.select_columns(self._columns).rows.tolist()
        output: list[tuple[int, Row, int]] = []
        events, weights, wholes = change.events.tolist(), change.weights.tolist(), change.rows.tolist()
        each = zip(events, weights, keys, map(tuple, rows), wholes, strict=True)
        for event, members in groupby(each, itemgetter(0)):
            # The bag cannot remove rows that it does not have, so within an event added rows precede removed rows.
            entered = sorted(members, key=lambda one: one[1] < 0)
            last = self._rows[self._end - 1][0] if self._end and len(self._rows) >= self._end else None
            for _, weight, *entry in entered:
                for _ in range(abs(weight)):
                    if weight > 0:
                        self._rows.add(tuple(entry))
                    else:
                        self._rows.remove(tuple(entry))
            if last is None or any(key <= last for _, _, key, *_ in entered):
                before, self._slice = self._slice, self._members()
                output += [(event, row, -count) for row, count in (before - self._slice).items()]
                output += [(event, row, count) for row, count in (self._slice - before).items()]
        return WeightedRows.of(output, len(self._columns))

    def _members(self) -> Counter[Row]:
        count = len(self._rows)  # positions of a text can be larger than any that islice takes
        end = count if self._end is None else min(self._end, count)
        return Counter(row for _, row, _ in islice(self._rows, min(self._first, count), end))

    def _keys(self, change: WeightedRows) -> list[tuple[Any, ...]]:
        """Return the keys of rows in the order of the input."""
        columns = []
        for place, is_descending in self._order:
            columns.append(map(_descending if is_descending else _rank, self._terms.texts(change.rows[:, place])))
        columns += [map(_position, self._terms.texts(change.rows[:, place])) for place in self._columns]
        return [*zip(*columns, strict=True)] if columns else [()] * len(change)

    @property
    def entries(self) -> int:
        """The number of rows."""
        return len(self._rows)

    @property
    def nbytes(self) -> int:
        """The approximate number of bytes held."""
        return BYTES_AN_ENTRY * self.entries

    def ids(self) -> Iterable[int]:
        """Return the ids in the rows, with duplicates. O(rows)."""
        return chain.from_iterable(whole for _, _, whole in self._rows)

    def check(self) -> None:
        """Assert that rows are in order, and that those at the positions are output."""
        self._rows._check()
        assert self._slice == self._members(), (self._slice, self._members())


@lru_cache(maxsize=65_536)
def _rank(term: str | None) -> tuple[Any, ...]:
    return rank_key(term)


@lru_cache(maxsize=65_536)
def _descending(term: str | None) -> tuple[Any, ...]:
    """Return the sort key for the reverse order. Numbers are compared as numbers, which is several times as fast."""
    kind, *values = rank_key(term)
    return (-1, *(-value for value in values)) if kind == 1 else (-kind, Backwards((*values,)))


@lru_cache(maxsize=65_536)
def _position(term: str | None) -> tuple[Any, ...]:
    return _UNBOUND if term is None else order_key(term)
