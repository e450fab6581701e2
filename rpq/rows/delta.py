"""Changes of relations and answers as indexes store and sinks read them: rows of vertex ids, run-length encoded.

The ids are valid only at the moment of the change.  An event may have rows of both kinds: an insert into a count window
evicts edges in the same event, so that the answers that it removes may be among those that it adds.  Such rows are netted
by `rpq.rows.weighted_rows`, to whose form operators convert deltas.  (A time boundary only removes rows, and a tuple of a
time window changes answers in one direction, so their rows are net already.)
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np


class IdRows(NamedTuple):
    """Rows of vertex ids; column `c` of the query is `values[:, order[c]]`."""

    values: np.ndarray  # int32 (row, place in the row), contiguous
    order: tuple[int, ...]

    def reorder(self, order: tuple[int, ...]) -> IdRows:
        """Return the same rows with the columns of the query at these places."""
        if order == self.order:
            return self
        values = np.empty_like(self.values)
        values[:, order] = self.values[:, self.order]
        return IdRows(values, order)


def ids_of_columns(values: np.ndarray) -> IdRows:
    """Return rows whose columns are in the order of the query."""
    return IdRows(values, (*range(values.shape[1]),))


Position = tuple[int, ...]
"""A place among rows in the order of their ids: the ids of a row, and how many rows equal to it precede the place."""


def rows_after(rows: np.ndarray, position: Position | None, limit: int) -> tuple[np.ndarray, Position | None]:
    """Return the first `limit` rows behind a position, sorted by their ids, and the next position; None behind all rows.

    Ids stay the same while a row holds, so positions remain valid when rows come and go. O(rows + limit log limit) if few
    rows begin with the same id.

    >>> rows = np.array([[3, 1], [2, 2], [2, 2], [2, 1]])
    >>> page, position = rows_after(rows, None, 2)
    >>> page.tolist(), position
    ([[2, 1], [2, 2]], (2, 2, 1))
    >>> page, position = rows_after(rows, position, 2)
    >>> page.tolist(), position
    ([[2, 2], [3, 1]], None)
    """
    *last, copies = position or (0,)
    if position is not None:
        is_equal, is_later = np.ones(len(rows), bool), np.zeros(len(rows), bool)
        for column, value in zip(rows.T, last, strict=True):
            is_later |= is_equal & (column > value)
            is_equal &= column == value
        rows = np.concatenate([rows[is_equal][copies:], rows[is_later]])
    if not rows.shape[1] or len(rows) <= limit:
        page = rows
    else:
        first = rows[:, 0]
        page = rows[first <= np.partition(first, limit)[limit]]
    if rows.shape[1]:
        page = page[np.lexsort(page.T[::-1])]
    if len(rows) <= limit:
        return page, None
    page = page[:limit]
    end = page[-1].tolist()
    equal = int((page == end).all(axis=1).sum())
    return page, (*end, equal + (copies if end == last else 0))


class Delta:
    """Changes of one chunk of tuples, as one worker found them: of the answer of a query, or of a part of one.

    Rows `ends[i - 1] : ends[i]` of `ids` belong to event i, which has a time, a kind (1 added, -1 removed) and a place in
    the order of the chunk: twice the number of its tuple, plus one unless it is a boundary that this tuple crosses. The
    arrays may belong to the worker, whose next call overwrites them; with `is_lasting` the rows do not.

    Without `ids` the rows are only counted. `times`, `ends` and `orders` are int64, `kinds` int8. An instance is created for
    nearly every single tuple, so this is a plain class. If queries share a worker, `numbers` has the number of the query of
    each event (int32); otherwise it is None, and all events belong to one query.
    """

    __slots__ = ("_ids", "ends", "is_lasting", "kinds", "numbers", "orders", "times")

    def __init__(
        self,
        *,
        ids: IdRows | None,
        times: np.ndarray,
        ends: np.ndarray,
        kinds: np.ndarray,
        orders: np.ndarray,
        is_lasting: bool = False,
    ) -> None:
        self._ids = ids
        self.numbers: np.ndarray | None = None
        self.is_lasting = is_lasting
        self.times = times
        self.ends = ends
        self.kinds = kinds
        self.orders = orders

    @property
    def ids(self) -> IdRows:
        """The rows."""
        assert self._ids is not None
        return self._ids

    def __len__(self) -> int:
        if self._ids is None:
            return int(self.ends[-1]) if len(self.ends) else 0
        return len(self._ids.values)

    @property
    def nbytes(self) -> int:
        """The number of bytes of its rows."""
        return 0 if self._ids is None else self._ids.values.nbytes

    def without_ids(self) -> Delta:
        """Return the same events without their rows, whose number remains."""
        return Delta(ids=None, times=self.times, ends=self.ends, kinds=self.kinds, orders=self.orders)

    def as_lists(self) -> list[tuple[int, ...]]:
        """Return the rows as tuples with the ids in the order of the columns; meant for few rows."""
        values, order = self.ids
        return [tuple([row[place] for place in order]) for row in values.tolist()]

    def events_before(self, order: int) -> Self:
        """Return the events before a place in the order of the chunk.  O(log events)."""
        events = int(np.searchsorted(self.orders, order))
        return self._first_events(events, int(self.ends[events - 1]) if events else 0)

    def _first_events(self, events: int, rows: int) -> Self:
        """Return the first events, which have this number of rows."""
        first = copy(self)
        if self._ids is not None:
            first._ids = self._ids._replace(values=self._ids.values[:rows])
        first.times, first.ends, first.kinds, first.orders = (
            array[:events] for array in (self.times, self.ends, self.kinds, self.orders)
        )
        if self.numbers is not None:
            first.numbers = self.numbers[:events]
        return first

    def select(self, chosen: np.ndarray) -> Delta:
        """Return the rows chosen by a mask, and the events that have any of them.  O(rows + events)."""
        values, order = self.ids
        ends = ends_after_filter(chosen, self.ends)
        some = np.diff(ends, prepend=0) > 0
        return Delta(
            ids=IdRows(values[chosen], order),
            times=self.times[some],
            ends=ends[some],
            kinds=self.kinds[some],
            orders=self.orders[some],
            is_lasting=True,
        )

    def lengths(self) -> np.ndarray:
        """Return the number of rows of each event."""
        lengths = self.ends.copy()
        lengths[1:] -= self.ends[:-1]
        return lengths

    def counts(self) -> np.ndarray:
        """Return the numbers of rows added and removed."""
        if not len(self.ends):
            return np.zeros(2, np.int64)
        removed = self.lengths().dot(self.kinds < 0)
        return np.array([self.ends[-1] - removed, removed], np.int64)

    def split_by_query(self) -> list[tuple[int, Delta]]:
        """Split a delta of several queries into pairs of number and delta.  O(rows + events log events)."""
        assert self.numbers is not None
        sequence = np.argsort(self.numbers, kind="stable")
        lengths = self.lengths()
        begins, lengths = (self.ends - lengths)[sequence], lengths[sequence]
        ends = np.cumsum(lengths)
        values, order = self.ids
        values = values[np.repeat(begins - (ends - lengths), lengths) + np.arange(ends[-1] if len(ends) else 0)]
        numbers = self.numbers[sequence]
        cuts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)] if len(numbers) else [0]
        deltas = []
        row = 0
        for first, last in pairwise(cuts):
            mine, end = sequence[first:last], int(ends[last - 1])
            delta = Delta(
                ids=IdRows(values[row:end], order),
                times=self.times[mine],
                ends=ends[first:last] - row,
                kinds=self.kinds[mine],
                orders=self.orders[mine],
                is_lasting=True,
            )
            deltas.append((int(numbers[first]), delta))
            row = end
        return deltas


def split_by_query(deltas: Iterable[tuple[int, Delta]]) -> list[tuple[int, Delta]]:
    """Return pairs of number and delta in which each delta belongs to one query."""
    pairs = ([(number, delta)] if delta.numbers is None else delta.split_by_query() for number, delta in deltas)
    return [pair for some in pairs for pair in some]


def ends_after_filter(chosen: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Return where the rows of each event end if only the rows chosen by a mask are left."""
    return np.append(0, np.cumsum(chosen))[ends]


def without_boundaries(delta: Delta, times: np.ndarray) -> Delta:
    """Return the rows of tuples, without those of boundaries, each with the time in `times` of its tuple."""
    is_tuple = delta.orders % 2 == 1
    rows = delta.select(np.repeat(is_tuple, delta.lengths()))
    rows.times = times[rows.orders // 2]
    return rows
