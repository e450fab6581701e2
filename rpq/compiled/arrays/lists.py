"""Many short lists of 64-bit entries in one flat array.

The out-edges of a vertex and the blocks of a row are lists that grow and shrink one entry at a time, and
there are hundreds of thousands of them. Each is contiguous in the pool `entries`, in a region whose size
is a power of two; a list that outgrows its region moves to one twice as large, and its old region is added to
the chain of free regions of that size. Appending is amortised O(1); iterating over a list is a scan of memory.

Kernels never allocate: if the pool is full, `reserve` returns False without a change, the kernel returns to
Python, `lists_with_room` creates a larger pool (without gaps), and the kernel resumes.
"""

from typing import NamedTuple

import numpy as np

from rpq.compiled.arrays.lengthening import lengthen_fields
from rpq.compiled.growth import request
from rpq.compiled.kernel_cache import njit

_NONE = -1
_SIZE_CLASSES = 40
_MAX_ENTRIES = 1 << 32

# Fields of `Lists.fields`.
_TOP = 0  # the first unused entry of the pool
_CAPACITY = 1  # the number of entries of the pool


class Lists(NamedTuple):
    """Lists over one pool; list `i` is `entries[start[i] : start[i] + length[i]]`."""

    entries: np.ndarray  # int64, the pool
    start: np.ndarray  # uint32, one per list
    length: np.ndarray  # int32, one per list
    size_class: np.ndarray  # int8, one per list: its region has 1 << size_class entries; -1 for no region
    free: np.ndarray  # int64, one per size class: the first free region, which links to the next in its first entry
    fields: np.ndarray  # int64[2]: _TOP, _CAPACITY


def new_lists(count: int, capacity: int) -> Lists:
    """Return `count` empty lists over a pool of `capacity` entries."""
    request(8 * capacity + 9 * count)
    return Lists(
        entries=np.zeros(capacity, np.int64),
        start=np.zeros(count, np.uint32),
        length=np.zeros(count, np.int32),
        size_class=np.full(count, _NONE, np.int8),
        free=np.full(_SIZE_CLASSES, _NONE, np.int64),
        fields=np.array([0, capacity], np.int64),
    )


def with_count(lists: Lists, count: int) -> Lists:
    """Return the same lists followed by new empty lists, `count` in all."""
    return lengthen_fields(lists, count - len(lists.start), start=0, length=0, size_class=_NONE)


def lists_with_room(lists: Lists, room: int) -> Lists:
    """Return the same lists, packed, in a pool with room for at least `room` more entries than they occupy.

    Raises `MemoryError` for a pool of more than 2³² entries.
    """
    regions = lists.size_class[lists.size_class >= 0].astype(np.int64)
    occupied = int((np.int64(1) << regions).sum())
    capacity = occupied + max(room, occupied // 2)
    if capacity > _MAX_ENTRIES:
        raise MemoryError(f"lists that need a pool of {capacity:,} entries, which can have {_MAX_ENTRIES:,} at most")
    request(8 * capacity + lists.start.nbytes + lists.size_class.nbytes)
    packed = lists._replace(
        entries=np.zeros(capacity, np.int64),
        start=lists.start.copy(),
        size_class=lists.size_class.copy(),
        free=np.full(_SIZE_CLASSES, _NONE, np.int64),
        fields=np.array([0, capacity], np.int64),
    )
    _repack(lists, packed)
    return packed


def lists_bytes(lists: Lists) -> int:
    """Return the size of the lists and their pool in bytes."""
    return sum(array.nbytes for array in lists)


@njit(cache=True, nogil=True)
def _repack(old, new):
    for i in range(len(old.start)):
        if old.size_class[i] < 0:
            continue
        source = np.int64(old.start[i])
        target = new.fields[_TOP]
        new.start[i] = target
        new.fields[_TOP] = target + (1 << np.int64(old.size_class[i]))  # 1 << np.int8(7) is an int8 in plain Python
        for j in range(old.length[i]):
            new.entries[target + j] = old.entries[source + j]


@njit(cache=True, nogil=True, forceinline=True)
def _release_region(lists, start, size_class):
    lists.entries[start] = lists.free[size_class]
    lists.free[size_class] = start


@njit(cache=True, nogil=True)
def _take_region(lists, size_class):
    """Return the start of a free region, or -1 if the pool is full."""
    start = lists.free[size_class]
    if start >= 0:
        lists.free[size_class] = lists.entries[start]
        return start
    start = lists.fields[_TOP]
    if start + (1 << size_class) > lists.fields[_CAPACITY]:
        return np.int64(-1)
    lists.fields[_TOP] = start + (1 << size_class)
    return start


@njit(cache=True, nogil=True)
def reserve(lists, i, extra):
    """Make room for `extra` more entries in list `i`; return False, without a change, if the pool is full."""
    needed = lists.length[i] + extra
    old_class = np.int64(lists.size_class[i])
    if old_class >= 0 and needed <= (1 << old_class):
        return True
    new_class = old_class + 1
    while (1 << new_class) < needed:
        new_class += 1
    region = _take_region(lists, new_class)
    if region < 0:
        return False
    start = np.int64(lists.start[i])
    for j in range(lists.length[i]):
        lists.entries[region + j] = lists.entries[start + j]
    if old_class >= 0:
        _release_region(lists, start, old_class)
    lists.start[i] = region
    lists.size_class[i] = new_class
    return True


@njit(cache=True, nogil=True, forceinline=True)
def append(lists, i, entry):
    """Add an entry to list `i`, in which `reserve` has made room."""
    lists.entries[np.int64(lists.start[i]) + lists.length[i]] = entry
    lists.length[i] += 1


@njit(cache=True, nogil=True)
def truncate(lists, i, length):
    """Keep the first `length` entries of list `i`; an empty list releases its region."""
    lists.length[i] = length
    if length == 0 and lists.size_class[i] >= 0:
        _release_region(lists, np.int64(lists.start[i]), lists.size_class[i])
        lists.size_class[i] = -1
