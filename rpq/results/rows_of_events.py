"""The rows of events of several tuples: net of the whole event."""

from __future__ import annotations

import numpy as np

from rpq.results.delta import Delta, IdRows
from rpq.results.netting import ends_of_kept, net_rows


def net_of_events(delta: Delta, first: np.ndarray) -> Delta:
    """The rows of a chunk with those of one event brought together: what leaves and comes back in it is left out.

    `first` is, for each tuple of the chunk, the place of the first tuple of its event, which stands in the order of the
    chunk for the whole. A boundary stays an event of its own. O(rows log rows) where there are rows of both kinds.
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
    ends = ends_of_kept(kept, ends)
    some = np.diff(ends, prepend=0) > 0
    return Delta(
        ids=IdRows(values[kept], places), times=times[some], ends=ends[some], kinds=kinds[some], orders=orders[some]
    )


def of_tuples_alone(delta: Delta, times: np.ndarray) -> Delta:
    """The rows that tuples bring, without those of boundaries, each with the time that `times` has for its tuple."""
    is_told = delta.orders % 2 == 1
    kept = np.repeat(is_told, delta.lengths())
    ends = ends_of_kept(kept, delta.ends)[is_told]
    values, places = delta.ids
    return Delta(
        ids=IdRows(values[kept], places),
        times=times[delta.orders[is_told] // 2],
        ends=ends,
        kinds=delta.kinds[is_told],
        orders=delta.orders[is_told],
    )
