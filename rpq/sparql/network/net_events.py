"""What is left of the changes of events when rows that come and go in one of them are left out: a kernel."""

from __future__ import annotations

import numpy as np

from rpq.arrays.hashing import clear, first_candidate, id_at, mixed, next_candidate, put, table_size
from rpq.compiled.intrinsics import wraps_around
from rpq.compiled.kernel_cache import njit
from rpq.sparql.network.delta_bags import DeltaBag

_PRIME = np.uint64(1099511628211)


def netted(bag: DeltaBag) -> DeltaBag:
    """What is left when rows that come and go in one event are left out; what goes comes first.

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
    """Write which changes are left (their `places`), and how often each row comes or goes; how many they are.

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
