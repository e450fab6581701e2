"""Bags of rows of ids, counted by kernels: how often each row is in each bag, and which rows a bag has.

All bags of a query lie in one set of arrays. An *entry* is one row of one bag with its count. One hash table
(`rpq/compiled/arrays/hashing.py`) finds entries; the entries of a bag with a count form a list. An entry whose count has
become 0 stays, since it often recurs, until room is needed: then all such entries are freed at once, and the table is
rebuilt. An entry that an event changed has its count before the event, until `end_event` is called.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rpq.compiled.arrays.hashing import (
    clear,
    first_candidate,
    home_of,
    id_at,
    mix,
    new_table,
    next_candidate,
    put,
    put_new,
    table_size,
)
from rpq.compiled.arrays.lengthening import lengthen_fields
from rpq.compiled.intrinsics import prefetch_at, wraps_around
from rpq.compiled.kernel_cache import njit
from rpq.compiled.views import Record, int64, view


class BagCounts(Record):
    """The entries of the bags, and the room for them."""

    _fields_ = (
        ("used", int64),  # entries given out so far (high water)
        ("free", int64),  # entries in the stack of free ones
        ("room", int64),  # entries for which there is room
        ("table", int64),  # entries of the hash table
        ("stride", int64),  # columns that an entry has room for
        ("changed", int64),  # entries in `changed_entries`
    )


NONE = -1
_PRIME = np.uint64(1099511628211)


class Bags(NamedTuple):
    """The arrays of row bags."""

    rows: np.ndarray  # int32, STRIDE an entry
    bag: np.ndarray  # int32 an entry; -1 free
    counts: np.ndarray  # int64 an entry
    prior_count: np.ndarray  # int64 an entry: its count before the event; -1 if unchanged
    next: np.ndarray  # int32 an entry, in the list of its bag
    previous: np.ndarray  # int32 an entry
    free_entries: np.ndarray  # int32, stack
    changed_entries: np.ndarray  # int32: entries that the event changed
    table: np.ndarray  # int32
    width: np.ndarray  # int32 a bag: columns
    first_entry: np.ndarray  # int32 a bag: of its list
    entry_count: np.ndarray  # int64 a bag: entries in its list
    total: np.ndarray  # int64 a bag: rows
    fields: BagCounts


_OF_ENTRIES = {
    "bag": NONE,
    "counts": 0,
    "prior_count": NONE,
    "next": NONE,
    "previous": NONE,
    "free_entries": NONE,
    "changed_entries": NONE,
}


class RowBags:
    """Bags 0 … `len(widths) − 1` of rows, each bag with rows of its width, and their memory."""

    def __init__(self, widths: list[int], *, capacity: int = 16) -> None:
        stride = max([1, *widths])
        self.bags = Bags(
            rows=np.zeros(capacity * stride, np.int32),
            bag=np.full(capacity, NONE, np.int32),
            counts=np.zeros(capacity, np.int64),
            prior_count=np.full(capacity, NONE, np.int64),
            next=np.full(capacity, NONE, np.int32),
            previous=np.full(capacity, NONE, np.int32),
            free_entries=np.full(capacity, NONE, np.int32),
            changed_entries=np.full(capacity, NONE, np.int32),
            table=new_table(capacity),
            width=np.array(widths, np.int32),
            first_entry=np.full(len(widths), NONE, np.int32),
            entry_count=np.zeros(len(widths), np.int64),
            total=np.zeros(len(widths), np.int64),
            fields=BagCounts(room=capacity, stride=stride),
        )
        self.bags.fields.table = len(self.bags.table)
        self.view = view(self.bags)

    @property
    def nbytes(self) -> int:
        """The number of bytes held."""
        return sum(array.nbytes for array in self.bags)

    def reserve(self, entries: int) -> None:
        """Make room for `entries` more entries unless there is room."""
        fields = self.bags.fields
        if fields.used - fields.free + entries > fields.room:
            self.make_room(entries)

    def make_room(self, entries: int) -> None:
        """Make room for `entries` more entries. Amortised O(1) an entry."""
        fields = self.bags.fields
        size = fields.used - fields.free
        _free_empty(self.view)
        if fields.room + fields.free - fields.used < max(entries, size // 4):
            self._grow(max(entries, fields.room))

    def _grow(self, more: int) -> None:
        bags = self.bags
        bags = lengthen_fields(bags, more * bags.fields.stride, rows=0)
        self.bags = bags = lengthen_fields(bags, more, **_OF_ENTRIES)
        bags.fields.room += more
        if table_size(bags.fields.room) > len(bags.table):
            self.bags = bags = bags._replace(table=new_table(bags.fields.room))
            bags.fields.table = len(bags.table)
        self.view = view(bags)
        _fill_table(self.view)

    def rows(self, bag: int) -> tuple[np.ndarray, np.ndarray]:
        """Return (rows, counts) of a bag, in no particular order. O(entries)."""
        places = np.flatnonzero((self.bags.bag == bag) & (self.bags.counts != 0))
        rows = self.bags.rows.reshape(-1, self.bags.fields.stride)[places, : self.bags.width[bag]]
        return rows, self.bags.counts[places]

    def ids(self) -> np.ndarray:
        """Return the ids in the rows of all bags, with duplicates. O(entries)."""
        return np.concatenate([self.rows(bag)[0].reshape(-1) for bag in range(len(self.bags.width))])

    def check(self) -> None:
        """Assert the invariants between entries, lists and counts."""
        bags, fields = self.bags, self.bags.fields
        assert fields.changed == 0 and (bags.prior_count == NONE).all(), "an event was not settled"
        assert (bags.counts >= 0).all(), "the count of a row is negative"
        for bag in range(len(bags.width)):
            listed, entry, before = [], int(bags.first_entry[bag]), NONE
            while entry != NONE:
                assert bags.previous[entry] == before, "a list is linked one way only"
                listed.append(entry)
                before, entry = entry, int(bags.next[entry])
            places = np.flatnonzero((bags.bag == bag) & (bags.counts != 0))
            assert sorted(listed) == places.tolist(), "a row with a count is not listed"
            counts = len(places), bags.counts[places].sum()
            assert (bags.entry_count[bag], bags.total[bag]) == counts, "a bag is miscounted"


@wraps_around
@njit(cache=True, nogil=True, forceinline=True)
def _hash(bag, rows, at, width):
    h = np.uint64(bag + 1) * _PRIME
    for i in range(width):
        h = (h ^ np.uint64(rows[at + i])) * _PRIME
        h ^= h >> np.uint64(29)
    return mix(h)


@njit(cache=True, nogil=True, forceinline=True)
def _is_row(bags, entry, bag, rows, at, width):
    if bags.bag[entry] != bag:
        return False
    start = entry * bags.fields.stride
    i = np.int64(0)
    while i < width and bags.rows[start + i] == rows[at + i]:
        i += 1
    return i == width


@njit(cache=True, nogil=True, forceinline=True)
def prefetch_place(bags, bag, rows, at):
    """Prefetch the place of a row in the table."""
    h = _hash(bag, rows, at, np.int64(bags.width[bag]))
    prefetch_at(bags.table, home_of(bags.fields.table, h))


@njit(cache=True, nogil=True, forceinline=True)
def prefetch_entry(bags, bag, rows, at):
    """Prefetch the entry at that place, which most often is the row's; return its number, or -1."""
    h = _hash(bag, rows, at, np.int64(bags.width[bag]))
    entry = id_at(bags.table, home_of(bags.fields.table, h))
    if entry >= 0:
        prefetch_at(bags.rows, entry * bags.fields.stride)
        prefetch_at(bags.bag, entry)
        prefetch_at(bags.counts, entry)
        prefetch_at(bags.prior_count, entry)
    return entry


@njit(cache=True, nogil=True)
def find(bags, bag, rows, at):
    """Return the entry of a row, whose count may be 0, or -1."""
    width = np.int64(bags.width[bag])
    place = first_candidate(bags.table, bags.fields.table, _hash(bag, rows, at, width))
    while place >= 0 and not _is_row(bags, id_at(bags.table, place), bag, rows, at, width):
        place = next_candidate(bags.table, bags.fields.table, place)
    return id_at(bags.table, place) if place >= 0 else np.int64(NONE)


@njit(cache=True, nogil=True)
def add(bags, bag, rows, at, amount):
    """Change the count of a row by an amount, which may be negative; return its entry. There must be room for one."""
    fields = bags.fields
    width = np.int64(bags.width[bag])
    place = first_candidate(bags.table, fields.table, _hash(bag, rows, at, width))
    # The candidates before `place` are other rows. A negative place is free and the one for this row.
    while place >= 0 and not _is_row(bags, id_at(bags.table, place), bag, rows, at, width):
        place = next_candidate(bags.table, fields.table, place)
    if place >= 0:
        entry = id_at(bags.table, place)
    else:
        if fields.free > 0:
            fields.free -= 1
            entry = np.int64(bags.free_entries[fields.free])
        else:
            entry = fields.used
            fields.used += 1
        put(bags.table, place, entry)
        for i in range(width):
            bags.rows[entry * fields.stride + i] = rows[at + i]
        bags.bag[entry] = bag
        bags.counts[entry] = 0
    count = bags.counts[entry]
    bags.counts[entry] = count + amount
    bags.total[bag] += amount
    if count == 0:
        following = np.int64(bags.first_entry[bag])
        bags.next[entry] = following
        bags.previous[entry] = NONE
        if following != NONE:
            bags.previous[following] = entry
        bags.first_entry[bag] = entry
        bags.entry_count[bag] += 1
    elif count + amount == 0:
        before, following = np.int64(bags.previous[entry]), np.int64(bags.next[entry])
        if before != NONE:
            bags.next[before] = following
        else:
            bags.first_entry[bag] = following
        if following != NONE:
            bags.previous[following] = before
        bags.entry_count[bag] -= 1
    return entry


@njit(cache=True, nogil=True, forceinline=True)
def add_in_event(bags, bag, rows, at, amount):
    """Change a count like `add`; list the first change of a row in an event, with the count before. Return its entry."""
    entry = add(bags, bag, rows, at, amount)
    if bags.prior_count[entry] == NONE:
        bags.prior_count[entry] = bags.counts[entry] - amount
        bags.changed_entries[bags.fields.changed] = entry
        bags.fields.changed += 1
    return entry


@njit(cache=True, nogil=True)
def longer(array, count):
    """Return an array with the elements of another, and room for twice a number of them."""
    result = np.empty(2 * count, array.dtype)
    result[: len(array)] = array
    return result


@njit(cache=True, nogil=True)
def add_all(bags, bag, rows, at, count):
    """Count rows, from number `at[0]` on; return whether there was room for all."""
    width = np.int64(bags.width[bag])
    # The rows before `at[0]` are counted, so a call resumes with the first one that is not.
    while at[0] < count:
        if bags.fields.used - bags.fields.free >= bags.fields.room:
            return False
        add(bags, bag, rows, at[0] * width, np.int64(1))
        at[0] += 1
    return True


@njit(cache=True, nogil=True)
def empty(bags, bag):
    """Remove all rows from a bag."""
    # An entry whose count becomes 0 leaves the list, so the first one is another in each turn.
    while bags.first_entry[bag] != NONE:
        entry = np.int64(bags.first_entry[bag])
        add(bags, bag, bags.rows, entry * bags.fields.stride, -bags.counts[entry])


@njit(cache=True, nogil=True)
def end_event(bags):
    """End the event."""
    for i in range(bags.fields.changed):
        bags.prior_count[bags.changed_entries[i]] = NONE
    bags.fields.changed = 0


@njit(cache=True, nogil=True)
def _free_empty(bags):
    """Free the entries without a count, except those that the present event changed."""
    fields = bags.fields
    for entry in range(fields.used):
        if bags.bag[entry] != NONE and bags.counts[entry] == 0 and bags.prior_count[entry] == NONE:
            bags.bag[entry] = NONE
            bags.free_entries[fields.free] = entry
            fields.free += 1
    _fill_table(bags)


@njit(cache=True, nogil=True)
def _fill_table(bags):
    entries = bags.fields.table
    clear(bags.table, entries)
    for entry in range(bags.fields.used):
        bag = np.int64(bags.bag[entry])
        if bag != NONE:
            h = _hash(bag, bags.rows, entry * bags.fields.stride, np.int64(bags.width[bag]))
            put_new(bags.table, entries, h, entry)
