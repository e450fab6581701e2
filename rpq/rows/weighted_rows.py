"""Changes of bags of rows: the one form in which operators exchange them, and the one place where they are netted.

A change is a row of ids, a weight and an event. The weight says how often the row is inserted or, if negative, deleted.
The effect of an event is the sum of its changes, whatever their order.

`Delta` is the run-length form of the same: consecutive rows of one event and sign share their weight, which is 1 or −1.
Indexes write changes in this form, and sinks read it. `as_changes` converts deltas, and `WeightedRows.delta` converts back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cache

import numpy as np

from rpq.compiled.arrays.hashing import clear, first_candidate, id_at, mix, next_candidate, put, table_size
from rpq.compiled.intrinsics import wraps_around
from rpq.compiled.kernel_cache import njit
from rpq.rows.delta import Delta, ids_of_columns

UNBOUND = -1
"""In place of an id where a column has no value."""

Row = tuple[int, ...]


class WeightedRows:
    """Changes of a bag, in the order of events; an instance does not change.

    Operators create several for every single tuple, so this is a plain class: a frozen dataclass takes four times as long.
    """

    __slots__ = ("events", "rows", "weights")

    def __init__(self, rows: np.ndarray, weights: np.ndarray, events: np.ndarray) -> None:
        self.rows = rows  # int32 (change, column)
        self.weights = weights  # int64, none of them 0
        self.events = events  # int64, ascending

    @staticmethod
    @cache
    def empty(width: int) -> WeightedRows:
        """Return the empty change of a bag with `width` columns."""
        return WeightedRows(np.zeros((0, width), np.int32), np.zeros(0, np.int64), np.zeros(0, np.int64))

    @classmethod
    def insertion_of(cls, rows: np.ndarray) -> WeightedRows:
        """Return the insertion of rows, (row, column), as one event."""
        return cls(rows, np.ones(len(rows), np.int64), np.zeros(len(rows), np.int64))

    @classmethod
    def from_changes(cls, changes: Sequence[tuple[int, Row, int]], width: int) -> WeightedRows:
        """Return changes (event, row, weight), which are in the order of events."""
        if not changes:
            return cls.empty(width)
        events, rows, weights = zip(*changes, strict=True)
        table = np.array(rows, np.int32).reshape(len(rows), width)
        return cls(table, np.array(weights, np.int64), np.array(events, np.int64))

    def __len__(self) -> int:
        return len(self.weights)

    def changes(self) -> Iterator[tuple[int, Row, int]]:
        """Yield (event, row, weight) one by one."""
        return zip(self.events.tolist(), map(tuple, self.rows.tolist()), self.weights.tolist(), strict=True)

    def with_rows(self, rows: np.ndarray) -> WeightedRows:
        """Return the same changes with other rows, one for each change."""
        return WeightedRows(rows, self.weights, self.events)

    def select(self, chosen: np.ndarray) -> WeightedRows:
        """Return some of the changes, chosen by a mask or by places in the order of events."""
        return WeightedRows(self.rows[chosen], self.weights[chosen], self.events[chosen])

    def select_columns(self, places: Sequence[int]) -> WeightedRows:
        """Return the same changes with the columns at these places; -1 adds an unbound column."""
        if [*places] == [*range(self.rows.shape[1])]:
            return self
        if all(place >= 0 for place in places):
            return self.with_rows(self.rows.take(places, axis=1))
        columns = [self.rows[:, place] if place >= 0 else np.full(len(self), UNBOUND, np.int32) for place in places]
        return self.with_rows(np.stack(columns, axis=1))

    # --- netting ---------------------------------------------------------------------------------------------

    def net_places(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the places and the weights of the changes that are left when opposite changes of an event cancel out.

        In an event with weights of one sign all changes are left. In another, each row is left at most once, at its first
        place and with the sum of its weights, deletions before insertions. O(changes).
        """
        count = len(self)
        largest = int(np.bincount(self.events - self.events[0]).max()) if count > 2 else count
        if largest < 2:
            return np.arange(count), self.weights
        places, weights = np.empty(count, np.int64), np.empty(count, np.int64)
        table = np.empty(table_size(largest), np.int32)
        rows = np.ascontiguousarray(self.rows).reshape(-1)
        left = net_events(rows, self.weights, self.events, self.rows.shape[1], table, places, weights)
        return places[:left], weights[:left]

    def net(self) -> WeightedRows:
        """Return the changes that are left when opposite changes of each event cancel out (`net_places`). O(changes)."""
        if len(self) < 2:
            return self
        places, weights = self.net_places()
        return self if weights is self.weights else WeightedRows(self.rows[places], weights, self.events[places])

    def consolidate(self) -> WeightedRows:
        """Return each row of an event once, with the sum of its weights, unless that is 0; in the order of events and rows.

        Here the events may be in any order. O(changes log changes).
        """
        if not len(self):
            return self
        order = np.lexsort([*(self.rows[:, column] for column in reversed(range(self.rows.shape[1]))), self.events])
        changes = self.select(order)
        is_first = np.ones(len(changes), bool)
        is_first[1:] = (changes.events[1:] != changes.events[:-1]) | (changes.rows[1:] != changes.rows[:-1]).any(axis=1)
        firsts = np.flatnonzero(is_first)
        sums = np.add.reduceat(changes.weights, firsts)
        some = sums != 0
        places = firsts[some]
        return WeightedRows(changes.rows[places], sums[some], changes.events[places])

    def delta(self, orders: np.ndarray, times: np.ndarray) -> Delta:
        """Return the changes as a delta; `orders` and `times` are those of events. O(rows).

        Within an event, changes of one sign should be adjacent.
        """
        count = len(self)
        ends, last, kinds = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.int8)
        runs = end_runs(self.weights, self.events, ends, last, kinds)
        ends, events = ends[:runs], self.events[last[:runs]]
        rows = self.rows
        if runs and ends[-1] != count:
            rows = np.repeat(rows, np.abs(self.weights), axis=0)
        return Delta(
            ids=ids_of_columns(np.ascontiguousarray(rows, np.int32)),
            times=times[events],
            ends=ends,
            kinds=kinds[:runs],
            orders=orders[events],
            is_lasting=True,
        )


def merge(changes: Sequence[WeightedRows]) -> WeightedRows:
    """Return all changes of bags with the same columns. O(changes log changes)."""
    some = [one for one in changes if len(one)]
    if len(some) < 2:
        return some[0] if some else changes[0]
    return sort_by_event(concatenate(some))


def concatenate(changes: Sequence[WeightedRows]) -> WeightedRows:
    """Return changes one behind the other, so that their events may be out of order."""
    if len(changes) == 1:
        return changes[0]
    return WeightedRows(
        np.concatenate([one.rows for one in changes]),
        np.concatenate([one.weights for one in changes]),
        np.concatenate([one.events for one in changes]),
    )


def sort_by_event(changes: WeightedRows) -> WeightedRows:
    """Return changes in the order of events."""
    if (changes.events[1:] >= changes.events[:-1]).all():
        return changes
    return changes.select(np.argsort(changes.events, kind="stable"))


# --- deltas --------------------------------------------------------------------------------------------------


def as_changes(deltas: Collection[Delta], *, first: np.ndarray | None = None) -> tuple[np.ndarray, list[WeightedRows]]:
    """Return the different events of deltas, int64 (event, 2), and the deltas as changes with the numbers of these events.

    An event is (place in the order of the chunk, time). If events have several tuples, `first` has for each tuple of the
    chunk the place of the first tuple of its event, which becomes the place of the event. A boundary stays an event of its
    own. O(rows + events), unless events are out of order.
    """
    runs = np.empty((sum([len(delta.ends) for delta in deltas]), 2), np.int64)
    begin = 0
    for delta in deltas:
        end = begin + len(delta.ends)
        runs[begin:end, 0], runs[begin:end, 1] = delta.orders, delta.times
        begin = end
    if first is not None:
        is_tuple = runs[:, 0] % 2 == 1
        runs[is_tuple, 0] = 2 * first[runs[is_tuple, 0] // 2] + 1
    events, numbers = number_events(runs)
    changes = []
    begin = 0
    for delta in deltas:
        end = begin + len(delta.ends)
        values, order = delta.ids
        weights, of_rows = np.empty(len(values), np.int64), np.empty(len(values), np.int64)
        expand_runs(delta.ends, delta.kinds, numbers[begin:end], weights, of_rows)
        rows = WeightedRows(values, weights, of_rows).select_columns(order)
        changes.append(rows if first is None else sort_by_event(rows))
        begin = end
    return events, changes


def net_delta(deltas: Collection[Delta], first: np.ndarray) -> Delta:
    """Return deltas of one query net of events of several tuples; `first` is that of `as_changes`. O(rows)."""
    events, changes = as_changes(deltas, first=first)
    return merge(changes).net().delta(events[:, 0], events[:, 1])


def number_events(moments: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the different (order, time) in order and the number of each given one among them. O(n) if they are sorted."""
    if len(moments) == 1:
        return moments, np.zeros(1, np.int64)
    firsts, numbers = np.empty(len(moments), np.int64), np.empty(len(moments), np.int64)
    count = number_moments(moments, firsts, numbers)
    if count >= 0:
        return moments[firsts[:count]], numbers
    order = np.lexsort((moments[:, 1], moments[:, 0]))
    events, sorted_numbers = number_events(np.ascontiguousarray(moments[order]))
    numbers[order] = sorted_numbers
    return events, numbers


# --- kernels -------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def expand_runs(ends, kinds, run_events, weights, events):
    """Write the weight and the event of each row of runs, which end at `ends`."""
    row = 0
    for run in range(len(ends)):
        while row < ends[run]:
            weights[row] = kinds[run]
            events[row] = run_events[run]
            row += 1


@njit(cache=True, nogil=True)
def end_runs(weights, events, ends, last, kinds):
    """Write the end of each run of rows of one event and sign, counted by weight, and its last change. Return the number of
    runs."""
    count = rows = 0
    # `rows` is the number of rows of the changes before `i`; the runs that end before `i`, `count` of them, are written.
    for i in range(len(weights)):
        rows += abs(weights[i])
        if i + 1 == len(weights) or events[i + 1] != events[i] or (weights[i + 1] > 0) != (weights[i] > 0):
            ends[count] = rows
            last[count] = i
            kinds[count] = 1 if weights[i] > 0 else -1
            count += 1
    return count


@njit(cache=True, nogil=True)
def number_moments(moments, firsts, numbers):
    """Write the first place of each different moment, and the number of that of each place; -1 where out of order."""
    count = np.int64(0)
    # There are `count` different moments before `i`, in order.
    for i in range(len(moments)):
        if i > 0:
            order, time = moments[i - 1, 0], moments[i - 1, 1]
            if moments[i, 0] < order or (moments[i, 0] == order and moments[i, 1] < time):
                return np.int64(-1)
        if i == 0 or moments[i, 0] != order or moments[i, 1] != time:
            firsts[count] = i
            count += 1
        numbers[i] = count - 1
    return count


_PRIME = np.uint64(1099511628211)


@wraps_around
@njit(cache=True, nogil=True, forceinline=True)
def hash_row(rows, at, width):
    """Return the hash of the row whose ids begin at a place."""
    h = _PRIME
    for i in range(at, at + width):
        h = (h ^ np.uint64(rows[i])) * _PRIME
        h ^= h >> np.uint64(29)
    return mix(h)


@njit(cache=True, nogil=True, forceinline=True)
def is_same_row(rows, one, other, width):
    """Return whether two rows, given by their numbers, are equal."""
    i = np.int64(0)
    while i < width and rows[one * width + i] == rows[other * width + i]:
        i += 1
    return i == width


@njit(cache=True, nogil=True)
def net_events(rows, weights, events, width, table, places, sums):
    """Write the `places` of net changes and the net weight of each row. Return the number of net changes.

    `sums` is as long as the changes: the sum of each row is computed at its first change in its event.
    """
    count, left, begin = len(weights), 0, 0
    net = np.empty(count, np.int64)
    # The net changes of the events before change `begin` are written, `left` of them.
    while begin < count:
        end = begin
        comes = goes = False
        while end < count and events[end] == events[begin]:
            comes |= weights[end] > 0
            goes |= weights[end] < 0
            end += 1
        if not (comes and goes):
            for i in range(begin, end):
                places[left] = i
                sums[left] = weights[i]
                left += 1
            begin = end
            continue
        entries = np.int64(16)
        while entries < 2 * (end - begin):
            entries *= 2
        entries = min(entries, np.int64(len(table)))
        clear(table, entries)
        # The table has the first change of each row among those from `begin` to before `i`; `net` is the sum of its weights
        # there, and 0 at the others.
        for i in range(begin, end):
            net[i] = 0
            place = first_candidate(table, entries, hash_row(rows, i * width, width))
            while place >= 0 and not is_same_row(rows, begin + id_at(table, place), i, width):
                place = next_candidate(table, entries, place)
            if place >= 0:
                net[begin + id_at(table, place)] += weights[i]
            else:
                put(table, place, i - begin)
                net[i] = weights[i]
        for sign in (-1, 1):
            for i in range(begin, end):
                if net[i] * sign > 0:
                    places[left] = i
                    sums[left] = net[i]
                    left += 1
        begin = end
    return left
