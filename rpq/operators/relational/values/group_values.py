"""Groups whose aggregates depend on distinct values, MIN, MAX, SAMPLE, COUNT(DISTINCT …) and COLLECT: kernels.

For each argument of aggregates, a counted bag (`rpq.operators.bags.row_bags`) has the values of groups: rows of the number
of a group and a value. An entry that enters or leaves this bag changes the number of values of its group, and perhaps the
least and the greatest value, which are the roots of pairing heaps (Fredman, Sedgewick, Sleator and Tarjan 1986). The nodes
of heaps are the entries of the bag, which are removed as soon as their count is 0. Values are compared by labels
(`rpq.operators.relational.values.value_order`). COLLECT has lists instead (`rpq.operators.relational.values.group_lists`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rpq.compiled.arrays.lengthening import lengthen
from rpq.compiled.kernel_cache import njit
from rpq.compiled.views import view
from rpq.operators.bags.row_bags import NONE, RowBags, add_in_event, end_event
from rpq.operators.relational.values.group_lists import GroupedLists
from rpq.operators.relational.values.group_sums import HAD, HAS
from rpq.operators.relational.values.value_order import ValueOrder, is_before
from rpq.rows.weighted_rows import UNBOUND

LEAST, GREATEST = range(2)
"""The ends of the values of a group: each has a heap."""


class Heaps(NamedTuple):
    """The heaps of one end: the children of a node are a list."""

    root: np.ndarray  # int32 a group; -1 it has no values
    child: np.ndarray  # int32 an entry: its first child
    next: np.ndarray  # int32 an entry: the next child of its parent
    previous: np.ndarray  # int32 an entry: the child before it, of the first one its parent


class OfGroups(NamedTuple):
    """The arrays of groups for one argument."""

    distinct_values: np.ndarray  # int64 a group: their number
    unbound_rows: np.ndarray  # int64 a group: the number of rows in which it has no value


class TouchedGroups(NamedTuple):
    """Groups that events changed, as in `group_sums.ChangedGroups`."""

    places: np.ndarray  # int64
    groups: np.ndarray  # int32
    presence: np.ndarray  # uint8


class ChangedValues(NamedTuple):
    """The aggregates of an argument in groups that events changed."""

    distinct_values: np.ndarray  # int64
    unbound_rows: np.ndarray  # int64
    ends: np.ndarray  # int32 (end, group): the id of the least and the greatest value, or `UNBOUND`


@dataclass(frozen=True, kw_only=True)
class Argument:
    """The needs of the aggregates of one argument: the number of columns of its values, and which ends of them."""

    width: int = 1
    ends: tuple[int, ...] = ()
    skips_unbound: bool = True
    """True if `UNBOUND` is no value, as in a single column."""


class GroupedValues:
    """The groups of rows with `keys` keys, and the values of arguments in them.

    A change is O(1) for a value that a group has already, and for a new value if no end is needed; otherwise it is
    amortised O(log values).
    """

    def __init__(self, keys: int, arguments: list[Argument], order: ValueOrder, lists: Sequence[GroupedLists] = ()) -> None:
        self._bags = RowBags([keys])
        self._arguments = [_Values(argument, order) for argument in arguments]
        self._lists = lists

    def change(
        self,
        keys: np.ndarray,
        weights: np.ndarray,
        events: np.ndarray,
        values: list[np.ndarray],
        of_lists: Sequence[np.ndarray] = (),
    ) -> tuple[TouchedGroups, list[ChangedValues], list[np.ndarray]]:
        """Apply changes of rows with these keys, and return what results for each argument and the ids of each list.

        `values` are those of each argument, int32 (row, column), and `of_lists` those of each list, int32.
        """
        count = len(weights)
        self._bags.reserve(count)
        touched = TouchedGroups(np.empty(count, np.int64), np.empty(count, np.int32), np.empty(count, np.uint8))
        of_changes = np.empty(count, np.int32)
        keys = np.ascontiguousarray(keys).reshape(-1)
        some = number_groups(self._bags.view, keys, weights, events, of_changes, *touched)
        touched = TouchedGroups(*(array[:some] for array in touched))
        room = self.room
        changed = [
            argument.change(room, of_changes, weights, events, of_argument, touched)
            for argument, of_argument in zip(self._arguments, values, strict=True)
        ]
        ids = [
            one.change(room, of_changes, weights, events, of_list, touched.places, touched.groups)
            for one, of_list in zip(self._lists, of_lists, strict=True)
        ]
        return touched, changed, ids

    @property
    def room(self) -> int:
        """An upper bound of the numbers of groups, not included."""
        return int(self._bags.bags.fields.room)

    @property
    def entries(self) -> int:
        """The number of groups with rows, plus that of their distinct values of each argument."""
        of_values = sum(argument.entries for argument in self._arguments) + sum(one.entries for one in self._lists)
        return int(self._bags.bags.entry_count[0]) + of_values

    @property
    def nbytes(self) -> int:
        """The number of bytes held, without the order of values."""
        of_values = sum(argument.nbytes for argument in self._arguments) + sum(one.nbytes for one in self._lists)
        return self._bags.nbytes + of_values

    def ids(self) -> np.ndarray:
        """Return the ids in keys and values, with duplicates. O(entries)."""
        return np.concatenate([self._bags.ids(), *(argument.ids() for argument in self._arguments)])

    def check(self) -> None:
        """Assert that heaps have the values of groups, in order, and nothing else."""
        self._bags.check()
        for argument in self._arguments:
            argument.check(self._bags.bags.counts)
        for one in self._lists:
            one.check()


class _Values:
    """The values of one argument in all groups."""

    def __init__(self, argument: Argument, order: ValueOrder) -> None:
        self._argument = argument
        self._order = order
        self._bags = RowBags([1 + argument.width])
        self._room = 0
        self._groups = OfGroups(np.zeros(0, np.int64), np.zeros(0, np.int64))
        self._heaps = [Heaps(*(np.zeros(0, np.int32) for _ in Heaps._fields)) for _ in (LEAST, GREATEST)]
        self._set_views()

    def _set_views(self) -> None:
        arrays = [*self._groups, *(array for heaps in self._heaps for array in heaps)]
        self._bytes = sum(array.nbytes for array in arrays)
        self._groups_view = view(self._groups)
        self._heap_views = [view(heaps) for heaps in self._heaps]

    def _make_room(self, groups: int, changes: int) -> None:
        self._bags.reserve(changes)
        entries = int(self._bags.bags.fields.room)
        if groups <= len(self._groups.distinct_values) and entries <= self._room:
            return
        self._room = entries
        self._groups = OfGroups(*(lengthen(array, groups - len(array)) for array in self._groups))
        for end in self._argument.ends:
            heaps = self._heaps[end]
            links = (lengthen(array, entries - len(array), NONE) for array in heaps[1:])
            self._heaps[end] = Heaps(lengthen(heaps.root, groups - len(heaps.root), NONE), *links)
        self._set_views()

    def change(
        self,
        groups: int,
        of_changes: np.ndarray,
        weights: np.ndarray,
        events: np.ndarray,
        values: np.ndarray,
        touched: TouchedGroups,
    ) -> ChangedValues:
        """Apply changes in groups with these numbers, which are below `groups`."""
        count, some = len(weights), len(touched.places)
        self._make_room(groups, count)
        if self._argument.ends:
            self._order.include(np.ascontiguousarray(values[:, 0]))
        rows = np.empty((count, 1 + self._argument.width), np.int32)
        rows[:, 0] = of_changes
        rows[:, 1:] = values
        changed = ChangedValues(np.empty(some, np.int64), np.empty(some, np.int64), np.full((2, some), UNBOUND, np.int32))
        change_values(
            self._bags.view,
            self._groups_view,
            *self._heap_views,
            LEAST in self._argument.ends,
            GREATEST in self._argument.ends,
            self._order.view,
            rows.reshape(-1),
            1 + self._argument.width,
            self._argument.skips_unbound,
            weights,
            events,
            touched.places,
            touched.groups,
            *changed,
        )
        return changed

    @property
    def entries(self) -> int:
        return int(self._bags.bags.entry_count[0])

    @property
    def nbytes(self) -> int:
        return self._bags.nbytes + self._bytes

    def ids(self) -> np.ndarray:
        return self._bags.rows(0)[0][:, 1:].reshape(-1)

    def check(self, counts: np.ndarray) -> None:
        self._bags.check()
        bags = self._bags.bags
        present = np.flatnonzero((bags.bag != NONE) & (bags.counts != 0))
        rows = bags.rows.reshape(-1, int(bags.fields.stride))
        of_groups: dict[int, set[int]] = {}
        for entry in present.tolist():
            of_groups.setdefault(int(rows[entry, 0]), set()).add(entry)
        groups = len(self._groups.distinct_values)
        expected = [len(of_groups.get(group, ())) for group in range(groups)]
        assert self._groups.distinct_values.tolist() == expected, "different values are miscounted"
        has_rows = counts[:groups] > 0
        assert (self._groups.unbound_rows[~has_rows] == 0).all(), "a group without rows has unbound values"
        if self._argument.ends:
            self._order.check(rows[present, 1])
        for end in self._argument.ends:
            heaps = self._heaps[end]
            for group, root in enumerate(heaps.root.tolist()):
                assert _members(heaps, root) == of_groups.get(group, set()), "a heap does not have the values of its group"
            for entry in present.tolist():
                child = int(heaps.child[entry])
                while child != NONE:
                    pair = (entry, child) if end == LEAST else (child, entry)
                    one, other = (int(rows[each, 1]) for each in pair)
                    assert self._order.label(one) < self._order.label(other), "a heap is out of order"
                    child = int(heaps.next[child])


def _members(heaps: Heaps, root: int) -> set[int]:
    """Return the entries of a heap."""
    members, waiting = set(), [] if root == NONE else [root]
    while waiting:
        entry = waiting.pop()
        members.add(entry)
        before, child = entry, int(heaps.child[entry])
        while child != NONE:
            assert heaps.previous[child] == before, "a heap is linked one way only"
            waiting.append(child)
            before, child = child, int(heaps.next[child])
    return members


@njit(cache=True, nogil=True)
def number_groups(bags, keys, weights, events, of_changes, places, groups, presence):
    """Count the rows of groups, and write the group of each change. Return the number of changed groups written."""
    width, count = np.int64(bags.width[0]), len(weights)
    written = first = 0
    # The changes before `i` are counted. The groups from `first` to `written` are the ones that the present event changed.
    for i in range(count):
        weight = weights[i]
        changed = bags.fields.changed
        entry = add_in_event(bags, 0, keys, i * width, weight)
        of_changes[i] = entry
        if bags.fields.changed != changed:
            places[written] = i
            groups[written] = entry
            written += 1
        if i + 1 < count and events[i + 1] == events[i]:
            continue
        for j in range(first, written):
            entry = np.int64(groups[j])
            presence[j] = (HAD if bags.prior_count[entry] > 0 else 0) | (HAS if bags.counts[entry] > 0 else 0)
        end_event(bags)
        first = written
    return written


@njit(cache=True, nogil=True)
def change_values(
    bags, state, least, greatest, has_least, has_greatest, labels, rows, width, skips_unbound, weights, events,
    places, groups, distinct_values, unbound_rows, ends,
):  # fmt: skip
    """Apply changes of values of groups, and write the results of the changed groups after each event."""
    count, j = len(weights), 0
    # The changes before `i` are counted. Numbers of distinct values and heaps are as before the present event; the results
    # before `j` are written.
    for i in range(count):
        if skips_unbound and rows[i * width + 1] == UNBOUND:
            state.unbound_rows[rows[i * width]] += weights[i]
        else:
            add_in_event(bags, 0, rows, i * width, weights[i])
        if i + 1 < count and events[i + 1] == events[i]:
            continue
        for k in range(bags.fields.changed):
            entry = np.int64(bags.changed_entries[k])
            has = bags.counts[entry] > 0
            if has != (bags.prior_count[entry] > 0):
                group = np.int64(bags.rows[entry * bags.fields.stride])
                state.distinct_values[group] += 1 if has else -1
                if has_least:
                    _update_heap(least, bags, labels, group, entry, has, False)
                if has_greatest:
                    _update_heap(greatest, bags, labels, group, entry, has, True)
        end_event(bags)
        while j < len(places) and places[j] <= i:
            group = np.int64(groups[j])
            distinct_values[j] = state.distinct_values[group]
            unbound_rows[j] = state.unbound_rows[group]
            if has_least:
                ends[LEAST, j] = _root_value(least, bags, group)
            if has_greatest:
                ends[GREATEST, j] = _root_value(greatest, bags, group)
            j += 1


@njit(cache=True, nogil=True, forceinline=True)
def _root_value(heaps, bags, group):
    root = np.int64(heaps.root[group])
    return UNBOUND if root == NONE else np.int64(bags.rows[root * bags.fields.stride + 1])


@njit(cache=True, nogil=True)
def _update_heap(heaps, bags, labels, group, entry, enters, is_reversed):
    """Add an entry to the heap of a group (`enters`), or remove it."""
    root = np.int64(heaps.root[group])
    if enters:
        heaps.child[entry] = NONE
        heaps.next[entry] = NONE
        heaps.previous[entry] = NONE
        heaps.root[group] = entry if root == NONE else _meld(heaps, bags, labels, root, entry, is_reversed)
        return
    rest = _meld_list(heaps, bags, labels, np.int64(heaps.child[entry]), is_reversed)
    if entry == root:
        heaps.root[group] = rest
        return
    before, following = np.int64(heaps.previous[entry]), np.int64(heaps.next[entry])
    if heaps.child[before] == entry:
        heaps.child[before] = following
    else:
        heaps.next[before] = following
    if following != NONE:
        heaps.previous[following] = before
    if rest != NONE:
        heaps.root[group] = _meld(heaps, bags, labels, root, rest, is_reversed)


@njit(cache=True, nogil=True, forceinline=True)
def _meld(heaps, bags, labels, one, other, is_reversed):
    """Make one of two roots the first child of the other, and return the other."""
    stride = bags.fields.stride
    value, other_value = np.int64(bags.rows[one * stride + 1]), np.int64(bags.rows[other * stride + 1])
    if is_before(labels, other_value, value) != is_reversed:  # values of a group differ
        one, other = other, one
    child = np.int64(heaps.child[one])
    heaps.next[other] = child
    heaps.previous[other] = one
    if child != NONE:
        heaps.previous[child] = other
    heaps.child[one] = other
    heaps.next[one] = NONE
    heaps.previous[one] = NONE
    return one


@njit(cache=True, nogil=True)
def _meld_list(heaps, bags, labels, first, is_reversed):
    """Meld the children in a list: first in pairs, then the pairs from the last on. Return the root, or `NONE`."""
    pairs = np.int64(NONE)  # the last pair, from which `next` leads to those before
    # The children before `first` are melded in pairs.
    while first != NONE:
        second = np.int64(heaps.next[first])
        if second == NONE:
            following, melded = np.int64(NONE), first
        else:
            following = np.int64(heaps.next[second])
            melded = _meld(heaps, bags, labels, first, second, is_reversed)
        heaps.next[melded] = pairs
        pairs = melded
        first = following
    if pairs == NONE:
        return pairs
    root, pairs = pairs, np.int64(heaps.next[pairs])
    # `root` is the heap of the pairs after `pairs`.
    while pairs != NONE:
        following = np.int64(heaps.next[pairs])
        root = _meld(heaps, bags, labels, root, pairs, is_reversed)
        pairs = following
    heaps.next[root] = NONE
    heaps.previous[root] = NONE
    return root
