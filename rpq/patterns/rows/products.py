"""Kernels for the solutions that changed rows of parts bring: products with the rows of the other parts, event by event.

A *meaning* has some parts, each with a bag of its rows; bag 0 counts the solutions, under DISTINCT. A row that is added to a
part, or removed from it, is combined with all rows of the other parts: each combination is a solution as often as the
product of the counts says. Kernels stop before a row, or before the end of an event, for which there is no room, and
the same call goes on there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rpq.compiled.kernel_cache import njit
from rpq.patterns.rows.row_bags import CHANGED, FREE, NONE, ROOM, STRIDE, USED, add, add_in_event, settle

# The codes of `change_parts`: finished, or what lacks room.
DONE, NEED_ENTRIES, NEED_ROWS = range(3)

INT64_MAX = np.iinfo(np.int64).max

# Fields of a run of changed rows.
ORDER = 0
TIME = 1
SIGN = 2
MEANING = 3
PART = 4
BEGIN = 5  # of its values
ROWS = 6
RUN = 7

# Fields of an event in the output.
EVENT_ORDER = 0
EVENT_TIME = 1
EVENT_SIGN = 2
EVENT_END = 3  # of its rows
EVENT = 4

# Fields of `Products.state`.
AT_RUN = 0
AT_ROW = 1
COLUMNS = 2  # of a solution
DISTINCT = 3
DIFFER = 4  # 1: values of different parts must be different
EXPLICIT = 5  # 1: solutions that leave at a boundary are reported
MOST_PARTS = 6
NEEDED = 7  # entries or rows for which there is no room
ROWS_TOLD = 8
EVENTS_TOLD = 9
TELLS = 10  # 0: solutions are only counted
KEEPS = 11  # 0: there is a single part, whose rows are not kept
MOST = 12  # limit of an event, which has one sign: after one more solution all ends, for good; -1 no limit
ENOUGH = 13  # number of solutions at which it stops
TURNED = 14  # under DISTINCT, how many solutions the event has added or removed so far
STOPPED = 15  # 1: under DISTINCT it has stopped, and the solutions so far are to be written
STATE = 16


class Products(NamedTuple):
    """The state of forming solutions. Part p of meaning m has bag 1 + m * MOST_PARTS + p."""

    parts: np.ndarray  # int32 a meaning: number of its parts; 0 it has no solutions
    select: np.ndarray  # int32, two a column: part, and place in its rows
    solution: np.ndarray  # int32: the solution that is being formed
    at: np.ndarray  # int32 a part: its entry in the combination; -1 none
    state: np.ndarray  # int64[STATE]


class SolutionChanges(NamedTuple):
    """Solutions that come or go."""

    rows: np.ndarray  # int32
    events: np.ndarray  # int64, EVENT an event


@njit(cache=True, nogil=True, forceinline=True)
def _bag(products, meaning, part):
    return 1 + meaning * products.state[MOST_PARTS] + part


@njit(cache=True, nogil=True)
def _combinations(bags, products, meaning, part):
    """Return how many solutions a row of a part can bring, or entries under DISTINCT; with no part, how many there are."""
    found = np.int64(1)
    for other in range(products.parts[meaning]):
        if other != part:
            bag = _bag(products, meaning, other)
            found *= bags.different[bag] if products.state[DISTINCT] else bags.total[bag]
    return found


@njit(cache=True, nogil=True, forceinline=True)
def _are_different(bags, first, width, second, second_width):
    for i in range(width):
        for j in range(second_width):
            if bags.rows[first + i] == bags.rows[second + j]:
                return False
    return True


@njit(cache=True, nogil=True)
def _is_apart(bags, products, meaning):
    """Return whether no value of one part is a value of another."""
    stride = bags.fields[STRIDE]
    for one in range(products.parts[meaning]):
        width = np.int64(bags.width[_bag(products, meaning, one)])
        for other in range(one):
            other_width = np.int64(bags.width[_bag(products, meaning, other)])
            if not _are_different(bags, products.at[one] * stride, width, products.at[other] * stride, other_width):
                return False
    return True


@njit(cache=True, nogil=True, forceinline=True)
def _is_limited(state, is_told):
    """Return whether more than `MOST` solutions are too many: silent ones do not count while others are reported."""
    return state[MOST] >= 0 and (is_told or state[TELLS] == 0)


@njit(cache=True, nogil=True)
def _combine(bags, products, told, meaning, part, amount, is_told):
    """Form all combinations with the entry `at[part]` (with no part: all there are), each `amount` times its count."""
    state, parts = products.state, np.int64(products.parts[meaning])
    stride, columns = bags.fields[STRIDE], state[COLUMNS]
    for other in range(parts):
        if other != part:
            products.at[other] = bags.first[_bag(products, meaning, other)]
            if products.at[other] == NONE:
                return
    while True:
        if state[DIFFER] == 0 or _is_apart(bags, products, meaning):
            times = np.int64(amount)
            for other in range(parts):
                if other != part:
                    times *= bags.counts[products.at[other]]
            for column in range(columns):
                entry = np.int64(products.at[products.select[2 * column]])
                products.solution[column] = bags.rows[entry * stride + products.select[2 * column + 1]]
            if state[DISTINCT] != 0:
                state[TURNED] += add_in_event(bags, 0, products.solution, 0, times)
                if _is_limited(state, is_told) and state[TURNED] > state[MOST]:
                    state[STOPPED] = 1
                    return
            elif is_told:
                for _ in range(abs(times)):
                    if state[ROWS_TOLD] >= state[ENOUGH]:
                        return
                    _tell(products, told)
        turning = np.int64(parts - 1)
        while turning >= 0:
            if turning != part:
                products.at[turning] = bags.next[products.at[turning]]
                if products.at[turning] != NONE:
                    break
                products.at[turning] = bags.first[_bag(products, meaning, turning)]
            turning -= 1
        if turning < 0:
            return


@njit(cache=True, nogil=True, forceinline=True)
def _tell(products, told):
    """Write the current solution."""
    columns = products.state[COLUMNS]
    at = products.state[ROWS_TOLD] * columns
    for column in range(columns):
        told.rows[at + column] = products.solution[column]
    products.state[ROWS_TOLD] += 1


@njit(cache=True, nogil=True)
def _end_run(products, told, order, time, sign, before):
    """Assign the solutions written since `before` to an event."""
    state = products.state
    if state[ROWS_TOLD] == before:
        return
    last = (state[EVENTS_TOLD] - 1) * EVENT
    if (
        state[EVENTS_TOLD] == 0
        or told.events[last + EVENT_ORDER] != order
        or told.events[last + EVENT_TIME] != time
        or told.events[last + EVENT_SIGN] != sign
    ):
        last += EVENT
        state[EVENTS_TOLD] += 1
        told.events[last + EVENT_ORDER] = order
        told.events[last + EVENT_TIME] = time
        told.events[last + EVENT_SIGN] = sign
    told.events[last + EVENT_END] = state[ROWS_TOLD]


@njit(cache=True, nogil=True)
def _tell_distinct(bags, products, told, order, time):
    """Write the solutions that the event has removed from the answer, then those that it has added; both net."""
    columns = products.state[COLUMNS]
    for sign in (-1, 1):
        if sign > 0 or products.state[EXPLICIT] != 0 or order % 2 != 0:
            before = products.state[ROWS_TOLD]
            for i in range(bags.fields[CHANGED]):
                entry = np.int64(bags.changed[i])
                was, is_there = bags.before[entry] > 0, bags.counts[entry] > 0
                if was != is_there and is_there == (sign > 0):
                    for column in range(columns):
                        products.solution[column] = bags.rows[entry * bags.fields[STRIDE] + column]
                    _tell(products, told)
            _end_run(products, told, order, time, sign, before)


@njit(cache=True, nogil=True)
def change_parts(bags, products, told, runs, count, values, room):
    """Add and remove rows of parts, from where it stopped; there is room for `room` solutions."""
    state, fields = products.state, bags.fields
    while state[AT_RUN] < count:
        run = state[AT_RUN] * RUN
        order, time, sign = runs[run + ORDER], runs[run + TIME], runs[run + SIGN]
        meaning, part = runs[run + MEANING], runs[run + PART]
        bag = _bag(products, meaning, part)
        width = np.int64(bags.width[bag])
        is_told = state[TELLS] != 0 and (sign > 0 or state[EXPLICIT] != 0 or order % 2 != 0)
        before = state[ROWS_TOLD]
        if state[AT_ROW] == 0 and (state[AT_RUN] == 0 or runs[run - RUN + ORDER] != order or runs[run - RUN + TIME] != time):
            state[ENOUGH] = before + state[MOST] + 1 if state[MOST] >= 0 and state[DISTINCT] == 0 else INT64_MAX
            state[TURNED] = 0
        while state[AT_ROW] < runs[run + ROWS] and state[STOPPED] == 0:
            needed = _combinations(bags, products, meaning, part)
            if state[DISTINCT] != 0 or not is_told:
                if _is_limited(state, is_told):
                    needed = min(needed, state[MOST] + 1 - state[TURNED])  # a new entry is a new solution
                state[NEEDED] = 1 + (needed if state[DISTINCT] != 0 else 0)
            else:
                needed = min(needed, state[ENOUGH] - state[ROWS_TOLD])
                state[NEEDED] = needed
                if state[ROWS_TOLD] + needed > room:
                    _end_run(products, told, order, time, sign, before)
                    return np.int64(NEED_ROWS)
                state[NEEDED] = 1
            if fields[USED] - fields[FREE] + state[NEEDED] > fields[ROOM]:
                _end_run(products, told, order, time, sign, before)
                return np.int64(NEED_ENTRIES)
            at = runs[run + BEGIN] + state[AT_ROW] * width
            if state[KEEPS] != 0:
                products.at[part] = add(bags, bag, values, at, sign)
                if state[DISTINCT] != 0 or is_told:
                    _combine(bags, products, told, meaning, part, sign, is_told)
            else:
                for column in range(state[COLUMNS]):
                    products.solution[column] = values[at + products.select[2 * column + 1]]
                add_in_event(bags, 0, products.solution, 0, sign)
            state[AT_ROW] += 1
            if state[ROWS_TOLD] >= state[ENOUGH]:
                _end_run(products, told, order, time, sign, before)
                return np.int64(DONE)
        _end_run(products, told, order, time, sign, before)
        following = run + RUN
        is_last = state[AT_RUN] + 1 == count or state[STOPPED] != 0
        is_over = is_last or runs[following + ORDER] != order or runs[following + TIME] != time
        if is_over and fields[CHANGED] != 0:
            if state[TELLS] != 0:
                if state[ROWS_TOLD] + fields[CHANGED] > room:
                    state[NEEDED] = fields[CHANGED]
                    return np.int64(NEED_ROWS)
                _tell_distinct(bags, products, told, order, time)
            settle(bags)
        if state[STOPPED] != 0:
            return np.int64(DONE)
        state[AT_RUN] += 1
        state[AT_ROW] = 0
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def tell_all(bags, products, told, meaning):
    """Write all solutions of a meaning, each as often as it occurs, up to `ENOUGH` of them. There must be room."""
    _combine(bags, products, told, meaning, np.int64(NONE), np.int64(1), True)


@njit(cache=True, nogil=True)
def count_all(bags, products, meaning):
    """Return an upper bound of the number of solutions of a meaning."""
    return _combinations(bags, products, meaning, np.int64(NONE))
