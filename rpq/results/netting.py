"""Net rows: what leaves and comes back within one event was never gone.

An insert into a count window evicts edges in the same event, so that the answers it takes away may be among those that it
brings. (A time boundary only takes and a tuple of a time window changes in one direction, so that rows are net as they are.)
"""

from __future__ import annotations

import numpy as np


def net_rows(columns: np.ndarray, ends: np.ndarray, kinds: np.ndarray, orders: np.ndarray) -> np.ndarray:
    """Which rows are left when equal rows of opposite kinds with the same place in the order of the chunk cancel out.

    `columns` are (row, column); the others are those of a `Delta`. Boolean, a row. O(rows log rows) of the events that
    have rows of both kinds, O(events) otherwise.
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
    # Within a group those that leave come first.
    place = np.arange(len(keys)) - begin[group]
    place = np.where(sign, place - (count - added)[group], place)
    kept[rows[by_key]] = place >= cancelled
    return kept


def ends_of_kept(kept: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Where the rows of each event end when only those that are `kept` are left."""
    return np.append(0, np.cumsum(kept))[ends]
