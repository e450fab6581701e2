"""Groups whose aggregate is the list of their values in order, COLLECT: kernels.

A counted bag (`rpq.operators.bags.row_bags`) has the values of groups: rows of the number of a group and a value. The *list*
of a group is an array of its entries in the bag, in order. The places of entries that an event adds or removes are found by
halving, and the members behind them move; then the text of the list is written, item by item. A value is a slot of a
`TextOrder`, where it has its sort key and, as the bytes that order equal texts, its item.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from rpq.compiled.arrays.lengthening import lengthen, lengthen_fields
from rpq.compiled.intrinsics import VECTOR, copy_vector
from rpq.compiled.kernel_cache import njit
from rpq.compiled.views import Record, int64, view
from rpq.language.sparql.algebra import Aggregate
from rpq.language.sparql.values.aggregates import collected_value, list_term
from rpq.operators.bags.row_bags import NONE, RowBags, add_in_event, end_event
from rpq.operators.relational.values.term_ids import TermIds
from rpq.operators.relational.values.text_order import Keys, TextOrder, key_of
from rpq.operators.relational.values.value_order import GAP
from rpq.rows.weighted_rows import UNBOUND

_BYTES_A_VALUE = 500
"""The approximate number of bytes of a value in a Python dictionary."""
_LEAST_UNUSED = 1024
"""The number of values without entries up to which they are not removed."""
_TOGETHER = 1 << 20
"""The number of bytes of the texts that are written together."""
_LEAST = 16
"""The least number of members for which there is room."""
_BEGIN, _END = (np.frombuffer(bytearray(part.encode() + bytes(VECTOR)), np.uint8) for part in list_term(["|"]).split("|"))
"""The text of lists before and behind items, and bytes that are copied with it."""
_COMMA = ord(",")


class ListCounts(Record):
    """The members of lists, and the progress of a call."""

    _fields_ = (
        ("used", int64),  # members in the lists, and the room behind them
        ("room", int64),  # members for which there is room
        ("applied", int64),  # changes that are in the bag
        ("moved", int64),  # of the entries that an event changed: those that are in the lists
        ("needed", int64),  # members for which room is needed
        ("written", int64),  # texts that are written
        ("end", int64),  # the end of the last one
        ("number", int64),  # of the last text, over all calls
    )


class Lists(NamedTuple):
    """The arrays of lists."""

    members: np.ndarray  # int32: entries
    start: np.ndarray  # int64 a group: its first member
    size: np.ndarray  # int64 a group: its members
    room: np.ndarray  # int64 a group: the members for which there is room
    length: np.ndarray  # int64 a group: the bytes of all items and a comma behind each
    item_length: np.ndarray  # int32 a value
    item: np.ndarray  # int32 a value: the number of its item, which other values may have
    last: np.ndarray  # int64 an item: the number of the last text that has it
    fields: ListCounts


_OF_GROUPS = ("start", "size", "room", "length")
"""The arrays with an element a group."""


class GroupedLists:
    """The lists of values of one COLLECT in groups.

    A change moves O(n) members of a list of n values; a text is O(its length). O(values) memory.
    """

    def __init__(self, aggregate: Aggregate, terms: TermIds) -> None:
        self._aggregate = aggregate
        self._terms = terms
        self._order = TextOrder(1)  # their `high` is 0: they are texts, in the order of their ranks
        self._slot_of: dict[str | None, int] = {None: UNBOUND}
        """The slots of values, by term."""
        self._items: dict[str, int] = {}
        """The numbers of items, if they are to be distinct."""
        self._bags = RowBags([2])
        self._bytes = np.empty(_TOGETHER, np.uint8)
        """The texts that are written together."""
        of_groups = {name: np.zeros(0, np.int64) for name in _OF_GROUPS}
        of_values = {name: np.zeros(0, np.int32) for name in ("item_length", "item")}
        members, last = np.zeros(0, np.int32), np.zeros(0, np.int64)
        self._set(Lists(members, **of_groups, **of_values, last=last, fields=ListCounts()))

    def values_of(self, terms: Sequence[str | None]) -> np.ndarray:
        """Return the values (int32) with these terms, `UNBOUND` for None, for the next call of `change`."""
        if len(self._slot_of) > 2 * self.entries + _LEAST_UNUSED:
            self._remove_unused()
        slots = self._slot_of
        if new := {*terms} - slots.keys():
            self._add([str(term) for term in new])
        return np.fromiter(map(slots.__getitem__, terms), np.int32, len(terms))

    def _add(self, terms: list[str]) -> None:
        """Assign slots to new terms."""
        values = [collected_value(term) for term in terms]
        keys = Keys.from_list([key_of((2, *value)) for value in values])
        slots, _ = self._order.insert_slots(np.arange(len(terms)), np.zeros(len(terms), np.int64), keys, GAP)
        places = self._order.texts.ids[slots].tolist()
        self._slot_of.update((terms[place], slot) for place, slot in zip(places, slots.tolist(), strict=True))
        self._lengthen("item_length", len(self._order.texts.rank))
        self._lists.item_length[slots] = [len(values[place][1].encode()) for place in places]
        if self._aggregate.is_distinct:
            self._lengthen("item", len(self._order.texts.rank))
            self._number_items(slots.tolist(), [values[place][1] for place in places])

    def _number_items(self, slots: list[int], items: list[str]) -> None:
        """Assign equal numbers to equal items of values."""
        self._lists.item[slots] = [self._items.setdefault(item, len(self._items)) for item in items]
        self._lengthen("last", len(self._items))

    def _remove_unused(self) -> None:
        """Remove the values that no group has."""
        used = {*self._bags.rows(0)[0][:, 1].tolist()}
        terms = {term: slot for term, slot in self._slot_of.items() if slot in used}
        unused = np.array([slot for slot in self._slot_of.values() if slot not in used and slot != UNBOUND], np.int64)
        self._order.remove(unused, np.zeros(len(unused), np.int64), self._order.texts.rank[unused])
        self._slot_of = {None: UNBOUND, **terms}
        if self._aggregate.is_distinct:
            self._items.clear()
            items = [collected_value(str(term))[1] for term in terms]
            self._number_items([*terms.values()], items)

    def _lengthen(self, name: str, size: int) -> None:
        """Make room for `size` elements of an array."""
        if size > (have := len(getattr(self._lists, name))):
            self._set(lengthen_fields(self._lists, max(size, 2 * have) - have, **{name: 0}))

    def _set(self, lists: Lists) -> None:
        self._lists = lists
        self._view = view(lists)

    def change(
        self,
        groups: int,
        of_changes: np.ndarray,
        weights: np.ndarray,
        events: np.ndarray,
        values: np.ndarray,
        places: np.ndarray,
        touched: np.ndarray,
    ) -> np.ndarray:
        """Apply changes in groups with these numbers, which are below `groups`. Return the ids (int32) of the lists of
        `touched` groups, each after the event with the change at its place."""
        self._bags.reserve(len(weights))
        for name in _OF_GROUPS:
            self._lengthen(name, groups)
        rows = np.column_stack([of_changes, values])
        if (events[1:] == events[:-1]).any():
            # Then an event changes the entries of one list after another, each in order.
            ranks = self._order.texts.rank
            by_value = np.lexsort((ranks[values] if len(ranks) else values, of_changes, events))
            rows, weights = rows[by_value], weights[by_value]
        count = len(places)
        self._terms.reserve_lists(count)
        offsets, ids = np.zeros(count + 1, np.int32), np.empty(count, np.int32)
        arguments = rows.reshape(-1), weights, events, places, touched, self._aggregate.is_distinct
        fields = self._lists.fields
        fields.applied = fields.written = 0
        while fields.written < count:
            first = fields.written
            fields.end = offsets[first] = 0
            views = self._bags.view, self._view, self._order.view, self._order.texts.arena
            has_members = change_lists(*views, *arguments, _BEGIN, _END, offsets, self._bytes)
            written = fields.written
            if written > first:
                buffers = pa.py_buffer(offsets[first : written + 1]), pa.py_buffer(self._bytes)
                ids[first:written] = self._terms.intern_lists(pa.StringArray.from_buffers(written - first, *buffers))
            elif has_members:
                needed = len(_BEGIN) + int(self._lists.length[touched[written]]) + len(_END) + VECTOR
                self._bytes = np.empty(max(needed + needed // 8, _TOGETHER), np.uint8)
            if not has_members:
                self._make_room()
        return ids

    def _make_room(self) -> None:
        """Make room for the members that are needed."""
        lists = self._lists
        rooms = lists.size + lists.size // 2
        members = lengthen(lists.members[:0], max(_LEAST, 2 * (int(rooms.sum()) + lists.fields.needed)))
        move_lists(self._view, rooms, members)
        lists.fields.room = len(members)
        self._set(lists._replace(members=members))

    @property
    def entries(self) -> int:
        """The number of distinct values of all groups."""
        return int(self._bags.bags.entry_count[0])

    @property
    def nbytes(self) -> int:
        """The number of bytes held, approximate for values in dictionaries."""
        arrays = sum(array.nbytes for array in self._lists[:-1]) + self._bytes.nbytes
        return self._bags.nbytes + self._order.nbytes + arrays + _BYTES_A_VALUE * len(self._slot_of)

    def check(self) -> None:
        """Assert that lists have the entries of their groups, in order, and nothing else."""
        self._bags.check()
        self._order._check()
        lists, bags, texts = self._lists, self._bags.bags, self._order.texts
        value_of = {slot: collected_value(term) for term, slot in self._slot_of.items() if term}
        for slot, value in value_of.items():
            key = bytes(texts.arena[texts.start[slot] :][: texts.length[slot]])
            assert key == key_of((2, *value)) and key.endswith(value[1].encode()), (key, value)
            assert lists.item_length[slot] == len(value[1].encode()), value
            assert not self._aggregate.is_distinct or lists.item[slot] == self._items[value[1]], value
        assert len(value_of) == len(self._slot_of) - 1 == len(self._order), "two values have one slot"
        rows = bags.rows.reshape(-1, 2)
        expected: dict[int, list[int]] = {}
        for entry in np.flatnonzero((bags.bag != NONE) & (bags.counts != 0)).tolist():
            expected.setdefault(int(rows[entry, 0]), []).append(entry)
        chunks = []
        for group, (start, size, room) in enumerate(zip(lists.start, lists.size, lists.room, strict=True)):
            entries = sorted(expected.pop(group, []), key=lambda entry: value_of[int(rows[entry, 1])])
            assert lists.members[start : start + size].tolist() == entries, "a list does not have the values of its group"
            length = sum(int(bags.counts[entry]) * (int(lists.item_length[rows[entry, 1]]) + 1) for entry in entries)
            assert lists.length[group] == length and room >= size, (group, length, room)
            chunks.append((int(start), int(start + room)))
        assert not expected, "a group has no list"
        ends = [0, *chain.from_iterable(sorted(chunk for chunk in chunks if chunk[0] < chunk[1])), lists.fields.used]
        assert ends == sorted(ends) and lists.fields.used <= len(lists.members), "lists overlap"


@njit(cache=True, nogil=True)
def change_lists(
    bags, lists, order, arena, rows, weights, events, places, groups, is_distinct, text_begin, text_end, offsets, texts
):  # fmt: skip
    """Apply changes, and write the texts of the lists of changed groups after each event, as long as there is room.

    Return False if `needed` members need room, otherwise True. The same call continues.
    """
    fields, count = lists.fields, len(weights)
    while True:
        # The changes before `applied` are in the bag. Of the entries that the last event changed, those before `moved` are
        # in lists, which otherwise are as before the event. The texts before `written` are written.
        while fields.moved < bags.fields.changed:
            if not _change_list(bags, lists, order):
                return False
        end_event(bags)
        fields.moved = 0
        while fields.written < len(places) and places[fields.written] < fields.applied:
            group = np.int64(groups[fields.written])
            if fields.end + len(text_begin) + lists.length[group] + len(text_end) + VECTOR > len(texts):
                return True
            _write_list(bags, lists, order, arena, group, is_distinct, text_begin, text_end, texts)
            fields.written += 1
            offsets[fields.written] = fields.end
        if fields.applied == count:
            return True
        event = events[fields.applied]
        while fields.applied < count and events[fields.applied] == event:
            i = fields.applied
            value = np.int64(rows[2 * i + 1])
            if value != UNBOUND:
                add_in_event(bags, 0, rows, 2 * i, weights[i])
                lists.length[rows[2 * i]] += weights[i] * (np.int64(lists.item_length[value]) + 1)
            fields.applied += 1


@njit(cache=True, nogil=True, forceinline=True)
def _value(bags, entry):
    """Return the value of an entry."""
    return np.int64(bags.rows[entry * bags.fields.stride + 1])


@njit(cache=True, nogil=True)
def _change_list(bags, lists, order):
    """Remove and add entries of one list that the event changed, in order, from `moved` on. Return whether there is room."""
    fields = lists.fields
    first, entering = fields.moved, 0
    group = np.int64(bags.rows[np.int64(bags.changed_entries[first]) * bags.fields.stride])
    last = first
    while last < bags.fields.changed:
        entry = np.int64(bags.changed_entries[last])
        if bags.rows[entry * bags.fields.stride] != group:
            break
        entering += 1 if bags.counts[entry] > 0 and bags.prior_count[entry] <= 0 else 0
        last += 1
    begin, size = lists.start[group], lists.size[group]
    if size + entering > lists.room[group]:
        fields.needed = 2 * (size + entering)
        if fields.used + fields.needed > fields.room:
            return False
        for i in range(size):
            lists.members[fields.used + i] = lists.members[begin + i]
        begin = fields.used
        lists.start[group], lists.room[group] = begin, fields.needed
        fields.used += fields.needed
    gone, following = np.int64(0), begin
    # The members before `following` are at their places without the `gone` ones.
    for i in range(first, last):
        entry = np.int64(bags.changed_entries[i])
        if bags.counts[entry] == 0 and bags.prior_count[entry] > 0:
            place = _place(bags, lists, order, following, begin + size, entry)
            if gone > 0:
                _move(lists, following, place, -gone)
            gone += 1
            following = place + 1
    if gone > 0:
        _move(lists, following, begin + size, -gone)
    size -= gone
    end, more = begin + size, np.int64(entering)
    # The members from `end` on are at their places with all that enter; `more` enter before.
    for i in range(last - 1, first - 1, -1):
        entry = np.int64(bags.changed_entries[i])
        if bags.counts[entry] > 0 and bags.prior_count[entry] <= 0:
            place = _place(bags, lists, order, begin, end, entry)
            _move(lists, place, end, more)
            end = place
            more -= 1
            lists.members[place + more] = entry
    lists.size[group] = size + entering
    fields.moved = last
    return True


@njit(cache=True, nogil=True, forceinline=True)
def _place(bags, lists, order, begin, end, entry):
    """Return the place from `begin` to `end` of the first member that is not before an entry."""
    rank = order.rank[_value(bags, entry)]
    while begin < end:
        middle = (begin + end) // 2
        if order.rank[_value(bags, np.int64(lists.members[middle]))] < rank:
            begin = middle + 1
        else:
            end = middle
    return begin


@njit(cache=True, nogil=True, forceinline=True)
def _move(lists, begin, end, by):
    """Move members by a number of places."""
    if by < 0:
        for i in range(begin, end):
            lists.members[i + by] = lists.members[i]
    else:
        for i in range(end - 1, begin - 1, -1):
            lists.members[i + by] = lists.members[i]


@njit(cache=True, nogil=True, forceinline=True)
def _write(part, begin, length, texts, at):
    """Copy bytes, and some bytes after them, to texts from `at` on. Return their end."""
    i = np.int64(0)
    while i < length:
        copy_vector(texts, np.uint64(at + i), part, np.uint64(begin + i))
        i += VECTOR
    return at + length


@njit(cache=True, nogil=True)
def _write_list(bags, lists, order, arena, group, is_distinct, text_begin, text_end, texts):
    """Write the text of a list, for which there is room."""
    fields = lists.fields
    at = first = _write(text_begin, 0, len(text_begin) - VECTOR, texts, fields.end)
    fields.number += 1
    for i in range(lists.start[group], lists.start[group] + lists.size[group]):
        entry = np.int64(lists.members[i])
        value, times = _value(bags, entry), bags.counts[entry]
        if is_distinct:
            item = np.int64(lists.item[value])
            times = 0 if lists.last[item] == fields.number else 1
            lists.last[item] = fields.number
        length = np.int64(lists.item_length[value])
        begin = order.start[value] + order.length[value] - length
        for _ in range(times):
            at = _write(arena, begin, length, texts, at)
            texts[at] = _COMMA
            at += 1
    if at > first:
        at -= 1
    fields.end = _write(text_end, 0, len(text_end) - VECTOR, texts, at)


@njit(cache=True, nogil=True)
def move_lists(lists, rooms, members):
    """Copy the members of all lists to another array, with this room for each."""
    used = np.int64(0)
    for group in range(len(rooms)):
        for i in range(lists.size[group]):
            members[used + i] = lists.members[lists.start[group] + i]
        lists.start[group], lists.room[group] = used, rooms[group]
        used += rooms[group]
    lists.fields.used = used
