"""How a bag of solutions changes in a chunk: rows of ids with weights, event by event.

A solution is a row of ids, one for each variable (`UNBOUND` where there is none; `rpq.sparql.network.term_ids` says whose
they are). A weight says how often the row comes, or, negative, goes. Events are numbered within the chunk, in order. Rows of
one event come in any order, and the same one may come and go in it: what the event does is their sum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

UNBOUND = -1
"""Stands where a variable is bound to nothing."""

Row = tuple[int, ...]
Change = tuple[Row, int]
"""A row and its weight."""


@dataclass(frozen=True, slots=True)
class DeltaBag:
    """Changes of a bag, in the order of events."""

    rows: np.ndarray  # int32 (change, column)
    weights: np.ndarray  # int64
    events: np.ndarray  # int64, ascending

    def __len__(self) -> int:
        return len(self.weights)

    def with_rows(self, rows: np.ndarray) -> DeltaBag:
        """The same changes of other rows, one for each."""
        return DeltaBag(rows, self.weights, self.events)

    def where(self, chosen: np.ndarray) -> DeltaBag:
        """Some of the changes, by a mask or by their places in order."""
        return DeltaBag(self.rows[chosen], self.weights[chosen], self.events[chosen])

    def select_columns(self, places: Sequence[int]) -> DeltaBag:
        """The same changes with these columns; -1 is one that is unbound."""
        if [*places] == [*range(self.rows.shape[1])]:
            return self
        if all(place >= 0 for place in places):
            return self.with_rows(self.rows.take(places, axis=1))
        columns = [self.rows[:, place] if place >= 0 else np.full(len(self), UNBOUND, np.int32) for place in places]
        return self.with_rows(np.stack(columns, axis=1))

    def changes(self) -> Iterator[tuple[int, Row, int]]:
        """(event, row, weight) one by one."""
        return zip(self.events.tolist(), map(tuple, self.rows.tolist()), self.weights.tolist(), strict=True)


def nothing(width: int) -> DeltaBag:
    """No change of a bag with so many columns."""
    return DeltaBag(np.zeros((0, width), np.int32), np.zeros(0, np.int64), np.zeros(0, np.int64))


def bag_of(changes: Sequence[tuple[int, Row, int]], width: int) -> DeltaBag:
    """Changes (event, row, weight) in the order of events."""
    if not changes:
        return nothing(width)
    events, rows, weights = zip(*changes, strict=True)
    table = np.array(rows, np.int32).reshape(len(rows), width)
    return DeltaBag(table, np.array(weights, np.int64), np.array(events, np.int64))


def merge_bags(bags: Sequence[DeltaBag]) -> DeltaBag:
    """All changes of bags with the same columns. O(changes log changes)."""
    some = [bag for bag in bags if len(bag)]
    if len(some) < 2:
        return some[0] if some else bags[0]
    rows = np.concatenate([bag.rows for bag in some])
    weights, events = np.concatenate([bag.weights for bag in some]), np.concatenate([bag.events for bag in some])
    order = np.argsort(events, kind="stable")
    return DeltaBag(rows[order], weights[order], events[order])


def group_by_event(*bags: DeltaBag) -> Iterator[tuple[int, list[list[Change]]]]:
    """The events of some bags in order: for each its changes of each bag."""
    found: dict[int, list[list[Change]]] = {}
    for place, bag in enumerate(bags):
        for event, row, weight in bag.changes():
            changes = found.get(event)
            if changes is None:
                changes = found[event] = [[] for _ in bags]
            changes[place].append((row, weight))
    return iter(sorted(found.items()))


Key = Any


class KeyedRows:
    """A bag of rows that are found by a key. All changes O(1)."""

    def __init__(self, key_of: Callable[[Row], Key]) -> None:
        self.key_of = key_of
        self._rows: dict[Key, dict[Row, int]] = {}
        self.different = 0
        """Different rows."""

    def clear(self) -> None:
        """Hold nothing."""
        self._rows.clear()
        self.different = 0

    def of(self, key: Key) -> dict[Row, int]:
        """The rows with a key, and how often they come."""
        return self._rows.get(key, _NOTHING)

    def count(self, row: Row) -> int:
        """How often a row comes."""
        return self.of(self.key_of(row)).get(row, 0)

    def add(self, key: Key, row: Row, weight: int) -> int:
        """Let a row come, or go; how often it comes then. Within an event that may be less than never."""
        rows = self._rows.get(key)
        if rows is None:
            rows = self._rows[key] = {}
        before = rows.get(row, 0)
        after = before + weight
        if after:
            rows[row] = after
            self.different += before == 0
        else:
            rows.pop(row, None)
            self.different -= before != 0
            if not rows:
                del self._rows[key]
        return after

    def counted(self) -> Iterator[tuple[Row, int]]:
        """All rows, and how often they come."""
        for rows in self._rows.values():
            yield from rows.items()

    def ids(self) -> Iterator[int]:
        """The ids in them."""
        for row, _ in self.counted():
            yield from row

    def check(self, what: str) -> None:
        """Assert that every row is there, and as often as counted."""
        counts = [count for _, count in self.counted()]
        assert len(counts) == self.different, (what, len(counts), self.different)
        assert all(count > 0 for count in counts), f"{what} has a row less than once: {counts}"
        assert all(self._rows.values()), f"{what} has a key without rows"
        assert all(self.key_of(row) == key for key, rows in self._rows.items() for row in rows), what


def net_of(changes: Iterable[Change]) -> list[Change]:
    """Each row once, with the sum of its weights; those that come to nothing left out."""
    changes = list(changes)
    if len(changes) < 2:
        return changes
    sums: dict[Row, int] = {}
    for row, weight in changes:
        sums[row] = sums.get(row, 0) + weight
    return [(row, weight) for row, weight in sums.items() if weight]


_NOTHING: dict[Row, int] = {}
