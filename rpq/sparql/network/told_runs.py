"""Between runs of rows and changes of bags: kernels, as each goes over every row.

What the kernels of patterns wrote becomes a change of a leaf, and a change of the answer becomes rows with their ends.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rpq.compiled.kernel_cache import njit
from rpq.patterns import tables
from rpq.patterns.rows.delivered import PartRows
from rpq.results.delta import Delta, IdRows
from rpq.sparql.network.delta_bags import DeltaBag


def as_change(rows: PartRows, order: Sequence[int], events: np.ndarray) -> DeltaBag:
    """The rows of runs, whose events are numbered, with their columns in this order. O(rows)."""
    count = rows.row_count
    values = rows.values.reshape(count, len(order))
    weights, of_rows = np.empty(count, np.int64), np.empty(count, np.int64)
    expand_runs(rows.runs, tables.RUN_ROWS, tables.RUN_SIGN, events, weights, of_rows)
    return DeltaBag(values, weights, of_rows).taking(order)


def as_delta(change: DeltaBag, orders: np.ndarray, times: np.ndarray) -> Delta:
    """A net change of the answer as rows; `orders` and `times` are those of events. O(rows)."""
    count = len(change)
    ends, last, kinds = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.int8)
    runs = end_runs(change.weights, change.events, ends, last, kinds)
    ends, events = ends[:runs], change.events[last[:runs]]
    rows = change.rows
    if runs and ends[-1] != count:
        rows = np.repeat(rows, np.abs(change.weights), axis=0)
    return Delta(
        ids=IdRows(np.ascontiguousarray(rows, np.int32), tuple(range(rows.shape[1]))),
        times=times[events],
        ends=ends,
        kinds=kinds[:runs],
        orders=orders[events],
        is_lasting=True,
    )


def numbered(moments: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The different (order, time) in order, and for each given one its number among them. O(n) where they are in order."""
    firsts, numbers = np.empty(len(moments), np.int64), np.empty(len(moments), np.int64)
    count = number_moments(moments, firsts, numbers)
    if count >= 0:
        return moments[firsts[:count]], numbers
    order = np.lexsort((moments[:, 1], moments[:, 0]))
    found, sorted_numbers = numbered(np.ascontiguousarray(moments[order]))
    numbers[order] = sorted_numbers
    return found, numbers


@njit(cache=True, nogil=True)
def expand_runs(runs, rows, sign, events, weights, of_rows):
    """Write for each row of runs its weight and its event; `rows` and `sign` are columns of runs."""
    row = 0
    for run in range(len(runs)):
        for _ in range(runs[run, rows]):
            weights[row] = runs[run, sign]
            of_rows[row] = events[run]
            row += 1


@njit(cache=True, nogil=True)
def end_runs(weights, events, ends, last, kinds):
    """Write where rows of one event and one sign end, counted as often as they come, and their last change; how many."""
    count = rows = 0
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
