"""Groups whose aggregates are counts, sums and averages of whole numbers: a kernel.

A group is an entry of row bags (`rpq.operators.bags.row_bags`) whose count is the number of its rows. For each aggregate the
sum of the numbers, their count, and the count of values that are unbound or not numbers are stored. Numbers are below 2³¹,
so that sums of 2³² rows fit into 64 bits. Other values (decimals, floats, larger integers) and more rows, which products may
have, are not summed here: `rpq.operators.relational.groups` converts these sums to exact sums and continues with them.

Groups are scattered in memory, and consecutive changes concern different groups, so the kernel prefetches those of later
changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from rpq.compiled.intrinsics import prefetch_at
from rpq.compiled.kernel_cache import njit
from rpq.compiled.views import view
from rpq.operators.bags.row_bags import RowBags, add_in_event, end_event, prefetch_entry, prefetch_place

LARGEST = 2**31
_MAX_ROWS = 2**32

NO_NUMBER = 2**62
"""The placeholder for a value that is unbound or not a number."""

SKIPPED_NUMBER = -NO_NUMBER
"""The placeholder for a value that is left out."""

# The figures of an aggregate of a group.
SUM, NUMBERS, OTHERS = range(3)
FIGURES = 3

HAD, HAS = 1, 2
"""A group had rows before an event, and has some after it."""

COUNTED, SUMMED, AVERAGED = range(3)
"""The kinds of aggregates."""

NO_VALUE = -1
"""A divisor that means that a summed value is not a number."""

_AHEAD = 8
"""The number of changes between a prefetch and the use of the memory."""
_OF_LINE = 8
"""The number of figures in a cache line."""


class GroupArray(NamedTuple):
    """The array for the kernels in addition to the bags."""

    figures: np.ndarray  # int64, FIGURES for each aggregate of an entry


class GroupChanges(NamedTuple):
    """Changes of rows for the kernels, passed as a view because a call of a kernel with an array counts a reference to
    it."""

    keys: np.ndarray  # int32, as many a change as the groups have
    weights: np.ndarray  # int64
    events: np.ndarray  # int64


class ChangedGroups(NamedTuple):
    """Groups that events changed: the first change of each, and its values after the event."""

    places: np.ndarray  # int64, ascending but for those of one event
    groups: np.ndarray  # int32: numbers of the groups, below `SummedGroups.room`
    presence: np.ndarray  # uint8: HAD and HAS
    dividends: np.ndarray  # int64 (aggregate, group)
    divisors: np.ndarray  # int64 (aggregate, group): of an average; else 0, or `NO_VALUE`


class GroupFigures:
    """Groups, which are entries of bags, with a row of figures (int64) for each."""

    def __init__(self, bags: RowBags, columns: int) -> None:
        self._bags = bags
        self._set_figures(np.zeros((int(bags.bags.fields.room), columns), np.int64))

    def _set_figures(self, figures: np.ndarray) -> None:
        self._figures = figures

    def _reserve(self, count: int) -> None:
        """Make room for `count` more groups. Amortised O(1) a group."""
        fields = self._bags.bags.fields
        if fields.used - fields.free + count > fields.room:
            used = int(fields.used)
            self._bags.make_room(count)
            room = int(self._bags.bags.fields.room)
            if room > len(self._figures):
                figures = np.zeros((room, self._figures.shape[1]), np.int64)  # pages take memory only when used
                figures[:used] = self._figures[:used]
                self._set_figures(figures)

    @property
    def room(self) -> int:
        """An upper bound of the numbers of groups, not included."""
        return len(self._figures)

    @property
    def entries(self) -> int:
        """The number of groups with rows."""
        return int(self._bags.bags.entry_count[0])

    @property
    def nbytes(self) -> int:
        """The number of bytes held."""
        return self._bags.nbytes + self._figures.nbytes

    def ids(self) -> np.ndarray:
        """Return the ids in keys, with duplicates. O(groups)."""
        return self._bags.rows(0)[0].reshape(-1)

    def check(self) -> None:
        """Assert that groups without rows have no figures."""
        self._bags.check()
        assert (self._figures[self._bags.bags.counts == 0] == 0).all(), "a group without rows has figures"


class SummedGroups(GroupFigures):
    """The groups of rows with `keys` keys, and their aggregates (`COUNTED`, …). Amortised O(changes)."""

    def __init__(self, keys: int, aggregates: Sequence[int]) -> None:
        super().__init__(RowBags([keys]), len(aggregates) * FIGURES)
        self._functions = np.array(aggregates, np.uint8)

    def _set_figures(self, figures: np.ndarray) -> None:
        super()._set_figures(figures)
        self._figures_view = view(GroupArray(figures.reshape(-1)))  # flat, as kernels index it, compiled or not

    def change(self, keys: np.ndarray, weights: np.ndarray, events: np.ndarray, numbers: np.ndarray) -> ChangedGroups | None:
        """Apply changes of rows with these keys. `numbers` is (aggregate, row), with placeholders for other values.

        Return None, without any effect, if there are so many rows that sums may not fit into 64 bits.
        """
        count = len(weights)
        self._reserve(count)
        shape = len(self._functions), count
        changed = ChangedGroups(
            np.empty(count, np.int64),
            np.empty(count, np.int32),
            np.empty(count, np.uint8),
            np.empty(shape, np.int64),
            np.empty(shape, np.int64),
        )
        changes = changes_view(keys, weights, events)
        some = change_groups(self._bags.view, self._figures_view, self._functions, changes, count, numbers, *changed)
        return None if some < 0 else ChangedGroups(*(array[..., :some] for array in changed))

    @property
    def state(self) -> tuple[RowBags, np.ndarray]:
        """The groups as entries of bags, and the figures of each entry."""
        return self._bags, self._figures


def changes_view(keys: np.ndarray, weights: np.ndarray, events: np.ndarray) -> Any:
    """Return the argument for a kernel for changes of rows with these keys, (row, key)."""
    return view(GroupChanges(np.ascontiguousarray(keys).reshape(-1), *map(np.ascontiguousarray, (weights, events))))


@njit(cache=True, nogil=True, forceinline=True)
def look_ahead(bags, state, columns, changes, count, width, i):
    """Prefetch the memory that later changes of `count` will need."""
    if i + 2 * _AHEAD < count:
        prefetch_place(bags, 0, changes.keys, (i + 2 * _AHEAD) * width)
    if i + _AHEAD < count:
        entry = prefetch_entry(bags, 0, changes.keys, (i + _AHEAD) * width)
        if entry >= 0:
            for place in range(entry * columns, (entry + 1) * columns, _OF_LINE):
                prefetch_at(state.figures, place)


@njit(cache=True, nogil=True)
def change_groups(bags, state, functions, changes, count, numbers, places, groups, presence, dividends, divisors):
    """Apply changes to groups. Return the number of changed groups written, or -1, without effect, if rows are too many."""
    aggregates = len(functions)
    rows = bags.total[0]
    for i in range(count):
        rows += abs(changes.weights[i])
        if rows >= _MAX_ROWS:
            return -1
    width, columns = np.int64(bags.width[0]), aggregates * FIGURES
    written = first = 0
    # The changes before `i` are added. The groups before `first` are written; those from there to `written` are the ones
    # that the present event changed.
    for i in range(count):
        look_ahead(bags, state, columns, changes, count, width, i)
        weight = changes.weights[i]
        changed = bags.fields.changed
        entry = add_in_event(bags, 0, changes.keys, i * width, weight)
        if bags.fields.changed != changed:
            places[written] = i
            groups[written] = entry
            written += 1
        for aggregate in range(aggregates):
            at = entry * columns + aggregate * FIGURES
            number = numbers[aggregate, i]
            if number == NO_NUMBER:
                state.figures[at + OTHERS] += weight
            elif number != SKIPPED_NUMBER:
                state.figures[at + SUM] += weight * number
                state.figures[at + NUMBERS] += weight
        if i + 1 < count and changes.events[i + 1] == changes.events[i]:
            continue
        for j in range(first, written):
            entry = np.int64(groups[j])
            presence[j] = (HAD if bags.prior_count[entry] > 0 else 0) | (HAS if bags.counts[entry] > 0 else 0)
            for aggregate in range(aggregates):
                at, function = entry * columns + aggregate * FIGURES, functions[aggregate]
                many = state.figures[at + NUMBERS]
                dividends[aggregate, j] = many if function == COUNTED else state.figures[at + SUM]
                divisors[aggregate, j] = many if function == AVERAGED else 0
                if function != COUNTED and state.figures[at + OTHERS] != 0:
                    divisors[aggregate, j] = NO_VALUE
        end_event(bags)
        first = written
    return written


@njit(cache=True, nogil=True)
def group_output(keys, of_changes, places, groups, presence, after, stored, always, before, rows, weights, events):
    """Write the changed output rows of groups, deletions of an event first, and return their number.

    `keys` and `of_changes` are the keys and events of the changes. A group without rows has output only with `always`.
    `after` is the new output of each group, (aggregate, group). It replaces the last output in `stored` (group, aggregate),
    which is written to `before`.
    """
    width, aggregates = keys.shape[1], after.shape[0]
    written, begin = 0, 0
    # The rows of the groups before `begin` are written, and `stored` has their new output. A turn is an event.
    while begin < len(places):
        event = of_changes[places[begin]]
        end = begin
        while end < len(places) and of_changes[places[end]] == event:
            group = np.int64(groups[end])
            for aggregate in range(aggregates):
                before[aggregate, end] = stored[group, aggregate]
                stored[group, aggregate] = after[aggregate, end]
            end += 1
        for sign in (-1, 1):
            for i in range(begin, end):
                had, has = always or presence[i] & HAD != 0, always or presence[i] & HAS != 0
                is_same = had and has
                for aggregate in range(aggregates):
                    is_same &= before[aggregate, i] == after[aggregate, i]
                if is_same or not (had if sign < 0 else has):
                    continue
                for column in range(width):
                    rows[written, column] = keys[places[i], column]
                for aggregate in range(aggregates):
                    rows[written, width + aggregate] = before[aggregate, i] if sign < 0 else after[aggregate, i]
                weights[written] = sign
                events[written] = event
                written += 1
        begin = end
    return written
