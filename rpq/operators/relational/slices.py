"""ORDER BY with LIMIT and OFFSET: the rows at some positions of an order, as changes of membership.

On bags: Slice(OrderBy(Ω, C), offset, limit) (§18.5). All rows of the input are stored in their order, in which no two
different ones have the same position: the values of the conditions, then the terms of the columns. An event enters its rows;
if one of them is not behind the slice, the rows of the slice are read again, and what has changed is emitted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from functools import lru_cache
from itertools import chain, groupby, islice
from operator import itemgetter
from typing import Any

from rpq.language.sparql.values.aggregates import Backwards
from rpq.language.sparql.values.operators import order_key, rank_key
from rpq.operators.relational.nodes import Node, places_of
from rpq.operators.relational.term_ids import TermIds
from rpq.rows.weighted_rows import Row, WeightedRows

_UNBOUND = (-1,)


class SliceNode(Node):
    """The rows of the input from position `offset` on, at most `limit` of them, with these columns.

    `order` are columns of the input, each ascending or, with True, descending. O(log rows) per change, and O(offset + limit)
    per event that changes the slice or what is before it; O(rows) memory.
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
        self._start()

    def _start(self) -> None:
        from sortedcontainers import SortedKeyList

        self._rows: Any = SortedKeyList(key=itemgetter(0))
        """The key and the row of each row of the input, as often as it occurs."""
        self._slice: Counter[Row] = Counter()

    @property
    def parameters(self) -> Hashable:
        return tuple(self._places), tuple(self._order), self._first, self._end

    def begin(self) -> WeightedRows:
        self._start()
        return WeightedRows.empty(self.width)

    def change(self, *changes: WeightedRows) -> WeightedRows:
        (change,) = changes
        keys = self._keys(change)
        rows = change.select_columns(self._places).rows.tolist()
        output: list[tuple[int, Row, int]] = []
        each = zip(change.events.tolist(), change.weights.tolist(), keys, map(tuple, rows), strict=True)
        for event, members in groupby(each, itemgetter(0)):
            # The bag cannot lose what it does not have: in an event what comes is before what goes.
            entered = sorted(members, key=lambda one: one[1] < 0)
            last = self._rows[self._end - 1][0] if self._end and len(self._rows) >= self._end else None
            for _, weight, key, row in entered:
                for _ in range(abs(weight)):
                    if weight > 0:
                        self._rows.add((key, row))
                    else:
                        self._rows.remove((key, row))
            if last is None or any(key <= last for _, _, key, _ in entered):
                before, self._slice = self._slice, self._members()
                output += [(event, row, -count) for row, count in (before - self._slice).items()]
                output += [(event, row, count) for row, count in (self._slice - before).items()]
        return WeightedRows.of(output, self.width)

    def _members(self) -> Counter[Row]:
        return Counter(row for _, row in islice(self._rows, self._first, self._end))

    def _keys(self, change: WeightedRows) -> list[tuple[Any, ...]]:
        """Return the keys of rows in the order of the input."""
        columns = []
        for place, is_descending in self._order:
            columns.append(map(_descending if is_descending else _rank, self._terms.texts(change.rows[:, place])))
        columns += [map(_position, self._terms.texts(change.rows[:, place])) for place in self._places]
        return [*zip(*columns, strict=True)] if columns else [()] * len(change)

    @property
    def entries(self) -> int:
        return len(self._rows)

    def ids(self) -> Iterable[int]:
        return chain.from_iterable(row for _, row in self._rows)

    def describe(self) -> str:
        until = "" if self._end is None else f" to {self._end:,}"
        order = f" ordered by {', '.join(self._text)}" if self._text else ""
        return f"rows {self._first + 1:,}{until or ' on'}{order}"

    def describe_state(self) -> str:
        return "all rows in their order"

    def _check(self) -> None:
        self._rows._check()
        assert self._slice == self._members(), (self._slice, self._members())


@lru_cache(maxsize=65_536)
def _rank(term: str | None) -> tuple[Any, ...]:
    return rank_key(term)


@lru_cache(maxsize=65_536)
def _descending(term: str | None) -> tuple[Any, ...]:
    """Return the sort key in reverse order; numbers are compared as numbers, which is several times as fast."""
    kind, *values = rank_key(term)
    return (-1, *(-value for value in values)) if kind == 1 else (-kind, Backwards((*values,)))


@lru_cache(maxsize=65_536)
def _position(term: str | None) -> tuple[Any, ...]:
    return _UNBOUND if term is None else order_key(term)
