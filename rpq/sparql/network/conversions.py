"""Conversions between the runs of pattern kernels, changes of bags, and deltas of answers, as kernels over all rows.

The output of the pattern kernels becomes the change of a leaf, and a net change of the answer becomes rows with their ends.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rpq.arrays.hashing import clear, first_candidate, id_at, mixed, next_candidate, put, table_size
from rpq.compiled.intrinsics import wraps_around
from rpq.compiled.kernel_cache import njit
from rpq.patterns import tables
from rpq.patterns.rows.delivered import PartRows
from rpq.results.delta import Delta, IdRows
from rpq.sparql.network.bags import DeltaBag


def as_change(rows: PartRows, order: Sequence[int], events: np.ndarray) -> DeltaBag:
    """Return the rows of runs as changes, with their columns in this order; `events` are those of the runs. O(rows)."""
    count = rows.row_count
    values = rows.values.reshape(count, len(order))
    weights, of_rows = np.empty(count, np.int64), np.empty(count, np.int64)
    expand_runs(rows.runs, tables.RUN_ROWS, tables.RUN_SIGN, events, weights, of_rows)
    return DeltaBag(values, weights, of_rows).select_columns(order)


def as_delta(change: DeltaBag, orders: np.ndarray, times: np.ndarray) -> Delta:
    """Return a net change of the answer as a delta; `orders` and `times` are those of events. O(rows)."""
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


def number_events(moments: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the different (order, time) in order and the number of each given one among them. O(n) if they are sorted."""
    firsts, numbers = np.empty(len(moments), np.int64), np.empty(len(moments), np.int64)
    count = number_moments(moments, firsts, numbers)
    if count >= 0:
        return moments[firsts[:count]], numbers
    order = np.lexsort((moments[:, 1], moments[:, 0]))
    found, sorted_numbers = number_events(np.ascontiguousarray(moments[order]))
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
    """Write the end of each run of rows of one event and sign, counted by weight, and its last change; return how many."""
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


_PRIME = np.uint64(1099511628211)


def net_changes(bag: DeltaBag) -> DeltaBag:
    """Sum the weights of equal rows within each event, drop those that sum to 0, and put deletions first.

    In an event where nothing goes, or nothing comes, rows stay as they are. O(changes).
    """
    count = len(bag)
    if count < 2:
        return bag
    largest = int(np.bincount(bag.events - bag.events[0]).max()) if count > 2 else count
    if largest == 1:
        return bag
    places, weights = np.empty(count, np.int64), np.empty(count, np.int64)
    table = np.empty(table_size(largest), np.int32)
    rows = np.ascontiguousarray(bag.rows).reshape(-1)
    told = net_events(rows, bag.weights, bag.events, bag.rows.shape[1], table, places, weights)
    places = places[:told]
    return DeltaBag(bag.rows[places], weights[:told], bag.events[places])


@wraps_around
@njit(cache=True, nogil=True, forceinline=True)
def _hash(rows, at, width):
    h = _PRIME
    for i in range(at, at + width):
        h = (h ^ np.uint64(rows[i])) * _PRIME
        h ^= h >> np.uint64(29)
    return mixed(h)


@njit(cache=True, nogil=True, forceinline=True)
def _is_same(rows, one, other, width):
    i = np.int64(0)
    while i < width and rows[one * width + i] == rows[other * width + i]:
        i += 1
    return i == width


@njit(cache=True, nogil=True)
def net_events(rows, weights, events, width, table, places, sums):
    """Write the `places` of net changes and the net weight of each row; return how many there are.

    `sums` is as long as the changes: what each row comes to is added up at the first change of it in its event.
    """
    count, told, begin = len(weights), 0, 0
    net = np.empty(count, np.int64)
    while begin < count:
        end = begin
        comes = goes = False
        while end < count and events[end] == events[begin]:
            comes |= weights[end] > 0
            goes |= weights[end] < 0
            end += 1
        if not (comes and goes):
            for i in range(begin, end):
                places[told] = i
                sums[told] = weights[i]
                told += 1
            begin = end
            continue
        entries = np.int64(16)
        while entries < 2 * (end - begin):
            entries *= 2
        clear(table, entries)
        for i in range(begin, end):
            net[i] = 0
            place = first_candidate(table, entries, _hash(rows, i * width, width))
            while place >= 0 and not _is_same(rows, begin + id_at(table, place), i, width):
                place = next_candidate(table, entries, place)
            if place >= 0:
                net[begin + id_at(table, place)] += weights[i]
            else:
                put(table, place, i - begin)
                net[i] = weights[i]
        for sign in (-1, 1):
            for i in range(begin, end):
                if net[i] * sign > 0:
                    places[told] = i
                    sums[told] = net[i]
                    told += 1
        begin = end
    return told
