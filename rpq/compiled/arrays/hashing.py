"""A hash table from hashes to ids, whose keys the caller stores.

Open addressing over int32 entries, at least twice as many as there are ids and at most three times: `id + 1`, or 0 for an
empty entry. The upper 32 bits of a hash are spread over the entries. The table does not store keys. The caller iterates over
the *candidates*, the ids on the probe sequence of a hash, and compares its own key with their keys:

    place = first_candidate(table, entries, h)
    while place >= 0 and key[id_at(table, place)] != wanted:
        place = next_candidate(table, entries, place)

ends at the id, or (`place < 0`) at the entry for a new id: `put(table, place, id)`. Single ids cannot be removed: to forget
keys, rebuild the table with `clear` and `put_new`, or ensure that no key equals a forgotten one. `TUNING.md` lists the
alternatives that were measured.
"""

import numpy as np

from rpq.compiled.intrinsics import wraps_around
from rpq.compiled.kernel_cache import njit

_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


def new_table(ids: int) -> np.ndarray:
    """Return an empty table for `ids` ids."""
    return np.zeros(table_size(ids), np.int32)


def table_size(ids: int) -> int:
    """Return the number of entries of a table for `ids` ids: a power of two, or half as many again.

    >>> table_size(1_000), table_size(1_100)
    (2048, 3072)
    """
    entries = 1 << max(4, (2 * ids - 1).bit_length())
    return entries // 4 * 3 if entries // 4 * 3 >= max(16, 2 * ids) else entries


def ids_in(table: np.ndarray) -> list[int]:
    """Return the ids in a table, sorted."""
    return sorted((table[table != 0] - 1).tolist())


@wraps_around
@njit(cache=True, nogil=True, forceinline=True)
def mix(h):
    """Return a hash all of whose bits depend on all bits of a 64-bit number (the finalizer of SplitMix64)."""
    h ^= h >> np.uint64(30)
    h *= _MIX_1
    h ^= h >> np.uint64(27)
    h *= _MIX_2
    return h ^ (h >> np.uint64(31))


@njit(cache=True, nogil=True, forceinline=True)
def home_of(entries, h):
    """Return the first place on the probe sequence of a hash."""
    return np.int64(((h >> np.uint64(32)) * np.uint64(entries)) >> np.uint64(32))


@njit(cache=True, nogil=True, forceinline=True)
def id_at(table, place):
    """Return the id of an entry, or -1 for an empty entry."""
    return np.int64(table[place]) - 1


@njit(cache=True, nogil=True, forceinline=True)
def first_candidate(table, entries, h):
    """Return the first place whose id may have the key of a hash (uint64), or -1 - p if p is the free place for it."""
    place = home_of(entries, h)
    return place if table[place] != 0 else -1 - place


@njit(cache=True, nogil=True, forceinline=True)
def next_candidate(table, entries, place):
    """Return the next place after a candidate with another key, in the encoding of `first_candidate`."""
    place += 1
    if place == entries:
        place = np.int64(0)
    return place if table[place] != 0 else -1 - place


@njit(cache=True, nogil=True, forceinline=True)
def put(table, place, number):
    """Insert an id at the negative place that the search for its hash returned."""
    table[-1 - place] = number + 1


@njit(cache=True, nogil=True, forceinline=True)
def put_new(table, entries, h, number):
    """Insert an id whose key is not in the table."""
    place = first_candidate(table, entries, h)
    while place >= 0:
        place = next_candidate(table, entries, place)
    put(table, place, number)


@njit(cache=True, nogil=True, forceinline=True)
def clear(table, entries):
    """Remove all ids."""
    for place in range(entries):
        table[place] = 0
