"""Bags of rows by key: what joins hold of their inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from rpq.sparql.network.delta_bags import Change, Row

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
