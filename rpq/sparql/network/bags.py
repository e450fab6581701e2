"""Bags of solutions: how a bag changes in a chunk (`DeltaBag`), and the bags that joins store in dictionaries (`KeyedRows`).

A solution is a row of ids, one for each variable (`UNBOUND` for none; see `rpq.sparql.network.term_ids`). A weight is how
often the row is inserted or, if negative, deleted. Events are numbered within the chunk, in ascending order. The rows of
one event are in any order, and a row may occur several times with weights of both signs: the effect of the event is their
sum.
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
        """Return the same changes with other rows, one for each change."""
        return DeltaBag(rows, self.weights, self.events)

    def where(self, chosen: np.ndarray) -> DeltaBag:
        """Return some of the changes, chosen by a mask or by ascending places."""
        return DeltaBag(self.rows[chosen], self.weights[chosen], self.events[chosen])

    def select_columns(self, places: Sequence[int]) -> DeltaBag:
        """Return the same changes with the columns at these places; -1 adds an unbound column."""
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
    """Return an empty change of a bag with `width` columns."""
    return DeltaBag(np.zeros((0, width), np.int32), np.zeros(0, np.int64), np.zeros(0, np.int64))


def bag_of(changes: Sequence[tuple[int, Row, int]], width: int) -> DeltaBag:
    """Return a bag of changes (event, row, weight), which are in the order of events."""
    if not changes:
        return nothing(width)
    events, rows, weights = zip(*changes, strict=True)
    table = np.array(rows, np.int32).reshape(len(rows), width)
    return DeltaBag(table, np.array(weights, np.int64), np.array(events, np.int64))


def merge_bags(bags: Sequence[DeltaBag]) -> DeltaBag:
    """Return all changes of bags with the same columns. O(changes log changes)."""
    some = [bag for bag in bags if len(bag)]
    if len(some) < 2:
        return some[0] if some else bags[0]
    rows = np.concatenate([bag.rows for bag in some])
    weights, events = np.concatenate([bag.weights for bag in some]), np.concatenate([bag.events for bag in some])
    order = np.argsort(events, kind="stable")
    return DeltaBag(rows[order], weights[order], events[order])


def group_by_event(*bags: DeltaBag) -> Iterator[tuple[int, list[list[Change]]]]:
    """Return an iterator over events in order, each with its list of changes in each bag."""
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
        """Remove everything."""
        self._rows.clear()
        self.different = 0

    def of(self, key: Key) -> dict[Row, int]:
        """Return the rows with a key and their counts."""
        return self._rows.get(key, _NOTHING)

    def count(self, row: Row) -> int:
        """Return the count of a row."""
        return self.of(self.key_of(row)).get(row, 0)

    def add(self, key: Key, row: Row, weight: int) -> int:
        """Add to the count of a row and return the new count, which may be negative within an event."""
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
        """Yield all rows with their counts."""
        for rows in self._rows.values():
            yield from rows.items()

    def ids(self) -> Iterator[int]:
        """Yield the ids in the rows."""
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
