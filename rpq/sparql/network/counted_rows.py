"""Which rows a bag has under changes, each once: the kernel of DISTINCT."""

from __future__ import annotations

import numpy as np

from rpq.compiled.kernel_cache import njit
from rpq.patterns.rows.row_bags import CHANGED, FREE, NONE, ROOM, STRIDE, USED, RowBags, add_in_event, settle
from rpq.sparql.network.delta_bags import DeltaBag


class CountedRows:
    """A bag of rows; told is which are there. Amortised O(changes)."""

    def __init__(self, width: int) -> None:
        self._width = width
        self.clear()

    def clear(self) -> None:
        """Hold nothing."""
        self._bags = RowBags([self._width])

    def change(self, bag: DeltaBag) -> DeltaBag:
        """Let rows come and go; those that are there now and were not, or the other way round."""
        fields = self._bags.bags.fields
        if fields[USED] - fields[FREE] + len(bag) > fields[ROOM]:
            self._bags.make_room(len(bag))
        rows, weights, events, count = change_counted(
            self._bags.view, np.ascontiguousarray(bag.rows).reshape(-1), bag.weights, bag.events, self._width
        )
        return DeltaBag(rows[: count * self._width].reshape(count, self._width), weights[:count], events[:count])

    @property
    def entries(self) -> int:
        """Different rows."""
        return int(self._bags.bags.different.sum())

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._bags.nbytes

    def ids(self) -> np.ndarray:
        """The ids in them, some more than once. O(entries)."""
        return self._bags.rows(0)[0].reshape(-1)

    def check(self) -> None:
        """Assert the invariants."""
        self._bags.check()


@njit(cache=True, nogil=True)
def change_counted(bags, changes, change_weights, change_events, width):
    """Let rows come and go; (rows, weights, events, how many) of those that are there now and were not, or the reverse."""
    count, stride = len(change_weights), bags.fields[STRIDE]
    rows, weights, events = np.empty(count * width, np.int32), np.empty(count, np.int64), np.empty(count, np.int64)
    told = 0
    for i in range(count):
        add_in_event(bags, 0, changes, i * width, change_weights[i])
        if i + 1 < count and change_events[i + 1] == change_events[i]:
            continue
        for place in range(bags.fields[CHANGED]):
            entry = np.int64(bags.changed[place])
            was, is_there = bags.before[entry] > 0, bags.counts[entry] > 0
            if was != is_there:
                for column in range(width):
                    rows[told * width + column] = bags.rows[entry * stride + column]
                weights[told] = 1 if is_there else NONE
                events[told] = change_events[i]
                told += 1
        settle(bags)
    return rows, weights, events, told
