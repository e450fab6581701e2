"""Answer changes as running queries report them: rows of vertex ids, which are valid only at the moment of the change.

An event may have rows of both kinds: an insert into a count window evicts edges in the same event, so that the answers that
it removes may be among those that it adds.  Such rows are netted: equal rows of opposite kinds in an event cancel out.  (A
time boundary only removes rows, and a tuple of a time window changes answers in one direction, so their rows are net
already.)
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


class Delta:
    """Answer changes of one chunk of tuples, as one worker of a running query found them.

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

    def as_lists(self) -> list[tuple[int, ...]]:
        """Return the rows as tuples with the ids in the order of the columns; meant for few rows."""
        values, order = self.ids
        return [tuple([row[place] for place in order]) for row in values.tolist()]

    def before(self, order: int) -> Self:
        """Return the events before a place in the order of the chunk.  O(log events)."""
        events = int(np.searchsorted(self.orders, order))
        return self._first(events, int(self.ends[events - 1]) if events else 0)

    def _first(self, events: int, rows: int) -> Self:
        """Return the first events, which have so many rows."""
        first = copy(self)
        if self._ids is not None:
            first._ids = self._ids._replace(values=self._ids.values[:rows])
        first.times, first.ends, first.kinds, first.orders = (
            array[:events] for array in (self.times, self.ends, self.kinds, self.orders)
        )
        if self.numbers is not None:
            first.numbers = self.numbers[:events]
        return first

    def lengths(self) -> np.ndarray:
        """Return the number of rows of each event."""
        lengths = self.ends.copy()
        lengths[1:] -= self.ends[:-1]
        return lengths

    def counts(self) -> np.ndarray:
        """Return the numbers of rows added and removed."""
        if not len(self.ends):
            return np.zeros(2, np.int64)
        removed = self.lengths()[self.kinds < 0].sum()
        return np.array([self.ends[-1] - removed, removed], np.int64)

    def apart(self) -> list[tuple[int, Delta]]:
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
        found = []
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
            found.append((int(numbers[first]), delta))
            row = end
        return found


def apart(deltas: Iterable[tuple[int, Delta]]) -> list[tuple[int, Delta]]:
    """Return pairs of number and delta in which each delta belongs to one query."""
    return [one for number, delta in deltas for one in ([(number, delta)] if delta.numbers is None else delta.apart())]


def net_rows(columns: np.ndarray, ends: np.ndarray, kinds: np.ndarray, orders: np.ndarray) -> np.ndarray:
    """Return a boolean for each row: whether it is left when equal rows of opposite kinds in an event cancel out.

    Rows of one event have the same place in the order of the chunk.  `columns` are (row, column); the other arguments are
    those of a `Delta`.  O(rows log rows) for the events that have rows of both kinds, O(events) otherwise.
    """
    kept = np.ones(len(columns), bool)
    mixed = np.intersect1d(orders[kinds > 0], orders[kinds < 0])
    if not len(mixed):
        return kept
    event = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))
    rows = np.flatnonzero(np.isin(orders, mixed)[event])
    mine, sign = columns[rows], kinds[event[rows]] > 0
    keys = np.column_stack([orders[event[rows]], mine])
    by_key = np.lexsort((sign, *keys.T[::-1]))
    keys, sign = keys[by_key], sign[by_key]
    is_first = np.ones(len(keys), bool)
    is_first[1:] = (keys[1:] != keys[:-1]).any(axis=1)
    group = np.cumsum(is_first) - 1
    begin = np.flatnonzero(is_first)
    added = np.add.reduceat(sign.astype(np.int64), begin)
    count = np.diff(begin, append=len(keys))
    cancelled = np.minimum(added, count - added)[group]
    # Within a group removed rows come first.
    place = np.arange(len(keys)) - begin[group]
    place = np.where(sign, place - (count - added)[group], place)
    kept[rows[by_key]] = place >= cancelled
    return kept


def ends_after_filter(kept: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Return where the rows of each event end if only the `kept` rows are left."""
    return np.append(0, np.cumsum(kept))[ends]


def net_rows_of_events(delta: Delta, first: np.ndarray) -> Delta:
    """Group the rows of a chunk by events of several tuples, and leave out rows that an event both removes and adds.

    `first` has for each tuple of the chunk the place of the first tuple of its event, which becomes the event's place in the
    order of the chunk. A boundary stays an event of its own. O(rows log rows) if there are rows of both kinds.
    """
    orders = np.where(delta.orders % 2 == 1, 2 * first[delta.orders // 2] + 1, delta.orders)
    if not len(orders):
        return delta
    sequence = np.lexsort((delta.kinds, delta.times, orders))
    ends = delta.ends
    values, places = delta.ids
    if (np.diff(sequence) != 1).any():
        begins, lengths = (ends - delta.lengths())[sequence], delta.lengths()[sequence]
        ends = np.cumsum(lengths)
        values = values[np.repeat(begins - (ends - lengths), lengths) + np.arange(ends[-1])]
    orders, times, kinds = orders[sequence], delta.times[sequence], delta.kinds[sequence]
    is_last = np.ones(len(orders), bool)
    is_last[:-1] = (orders[1:] != orders[:-1]) | (times[1:] != times[:-1]) | (kinds[1:] != kinds[:-1])
    orders, times, kinds, ends = (array[is_last] for array in (orders, times, kinds, ends))
    kept = net_rows(values, ends, kinds, orders)
    ends = ends_after_filter(kept, ends)
    some = np.diff(ends, prepend=0) > 0
    return Delta(
        ids=IdRows(values[kept], places), times=times[some], ends=ends[some], kinds=kinds[some], orders=orders[some]
    )


def without_boundaries(delta: Delta, times: np.ndarray) -> Delta:
    """Return the rows of tuples, without those of boundaries, each with the time in `times` of its tuple."""
    is_told = delta.orders % 2 == 1
    kept = np.repeat(is_told, delta.lengths())
    ends = ends_after_filter(kept, delta.ends)[is_told]
    values, places = delta.ids
    return Delta(
        ids=IdRows(values[kept], places),
        times=times[delta.orders[is_told] // 2],
        ends=ends,
        kinds=delta.kinds[is_told],
        orders=delta.orders[is_told],
    )
