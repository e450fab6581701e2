"""Whether an event brings more rows to one query than the guard on rows allows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rpq.results.delta import Delta, apart


class Excess(NamedTuple):
    """A query to which a tuple of the chunk, `place`, brings too many rows in one event."""

    query: str
    number: int
    place: int


def excess_of(deltas: Sequence[tuple[int, Delta]], names: Sequence[str], limit: int) -> Excess | None:
    """The first event that brings more than `limit` rows to one of the queries with these names.

    O(deltas), and O(events) where all rows are too many.
    """
    if sum([len(delta) for _, delta in deltas]) <= limit:
        return None
    deltas = apart(deltas)
    found: list[tuple[int, int, Excess]] = []
    by_number: dict[int, list[Delta]] = {}
    for number, delta in deltas:
        by_number.setdefault(number, []).append(delta)
    for number, mine in by_number.items():
        if sum(map(len, mine)) <= limit:
            continue
        orders, times, lengths = (
            np.concatenate(arrays)
            for arrays in ([d.orders for d in mine], [d.times for d in mine], [d.lengths() for d in mine])
        )
        moments, event = np.unique(np.stack([orders, times]), axis=1, return_inverse=True)
        rows = np.bincount(event, lengths).astype(np.int64)
        for first in np.flatnonzero(rows > limit)[:1].tolist():
            order, time = moments[:, first].tolist()
            found.append((order, time, Excess(names[number], int(rows[first]), order // 2)))
    return min(found)[2] if found else None
