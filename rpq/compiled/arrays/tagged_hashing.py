"""A compact hash table from hashes to ids, four fifths full, for edges, of which there are many.

Linear probing over uint32 entries of any number. An entry is 0 or has `id + 1` in its lower bits and a *tag* in the others,
which are bits of the hash: an entry with another tag is skipped without reading its key, so that long searches stay in a
line or two of the cache. As in `hashing.py`, whose tables are larger and faster where they are small, the caller stores the
keys and iterates over candidates:

    place = first_tagged(table, entries, bits, h)
    while place >= 0 and key[tagged_id(table, place, bits)] != wanted:
        place = next_tagged(table, entries, bits, h, place)

ends at the id, or (`place < 0`) at the entry for a new id: `put_tagged(table, place, bits, h, id)`.

A caller that never gives out id 0, and whose key of it equals no other, can remove ids: the entry gets id 0, and the next
new key that meets it takes it (`place_for_new`). Such entries count as full until the table is rebuilt.
"""

import numpy as np

from rpq.compiled.arrays.hashing import home_of
from rpq.compiled.kernel_cache import njit

_REMOVED = 1
"""The entry of id 0, without a tag."""


def tagged_table(ids: int) -> np.ndarray:
    """Return an empty table for `ids` ids."""
    return np.zeros(tagged_entries(ids), np.uint32)


def tagged_entries(ids: int) -> int:
    """Return the number of entries of a table for `ids` ids."""
    return ids + ids // 4 + 2


def bits_of_ids(ids: int) -> int:
    """Return the number of bits that an id below `ids` occupies in an entry."""
    return max(1, ids.bit_length())


@njit(cache=True, nogil=True, forceinline=True)
def _tag(bits, h):
    return (h & np.uint64(0xFFFFFFFF)) >> np.uint64(bits)


@njit(cache=True, nogil=True, forceinline=True)
def _candidate(table, entries, bits, h, place):
    """Return the first place from one on with the tag of a hash, or -1 - p if the free place p comes before it."""
    tag = _tag(bits, h)
    entry = np.uint64(table[place])
    while entry != np.uint64(0) and (entry >> np.uint64(bits)) != tag:
        place += 1
        if place == entries:
            place = np.int64(0)
        entry = np.uint64(table[place])
    return place if entry != np.uint64(0) else -1 - place


@njit(cache=True, nogil=True, forceinline=True)
def first_tagged(table, entries, bits, h):
    """Return the first place whose id may have the key of a hash (uint64), or -1 - p if p is the free place for it."""
    return _candidate(table, entries, bits, h, home_of(entries, h))


@njit(cache=True, nogil=True, forceinline=True)
def next_tagged(table, entries, bits, h, place):
    """Return the next place after a candidate with another key, in the encoding of `first_tagged`."""
    return _candidate(table, entries, bits, h, np.int64(0) if place + 1 == entries else np.int64(place + 1))


@njit(cache=True, nogil=True, forceinline=True)
def tagged_id(table, place, bits):
    """Return the id of an entry that is not empty."""
    return np.int64(np.uint64(table[place]) & ((np.uint64(1) << np.uint64(bits)) - np.uint64(1))) - 1


@njit(cache=True, nogil=True, forceinline=True)
def put_tagged(table, place, bits, h, number):
    """Insert an id at the negative place that the search for its hash returned."""
    table[-1 - place] = np.uint32((_tag(bits, h) << np.uint64(bits)) | np.uint64(number + 1))


@njit(cache=True, nogil=True, forceinline=True)
def place_for_new(table, entries, h):
    """Return the place for an id whose key is not in the table, in the encoding of `first_tagged`.

    It is the first place that is free, or whose id was removed.
    """
    place = home_of(entries, h)
    while table[place] > _REMOVED:
        place += 1
        if place == entries:
            place = np.int64(0)
    return -1 - place


@njit(cache=True, nogil=True, forceinline=True)
def remove_tagged(table, place):
    """Replace the id at a place by id 0."""
    table[place] = _REMOVED
