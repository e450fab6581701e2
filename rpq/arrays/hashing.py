"""The one hash table: from a hash to the id of something whose key the caller keeps.

Open addressing over a power of two of int32 entries, at least twice as many as there are ids: `id + 1`, or 0 where an
entry is empty. The table knows no keys. The caller walks over the *candidates*, the ids that the search for a hash comes
by, and compares its own key with theirs:

    place = first_candidate(table, entries, h)
    while place >= 0 and key[id_at(table, place)] != wanted:
        place = next_candidate(table, entries, place)

ends at the id, or (`place < 0`) where it belongs: `put(table, place, id)`. Nothing is taken out one by one: who forgets
keys builds the table anew with `clear` and `put_new`, or lets a key that is gone equal no other. What was tried is in
`TUNING.md`.
"""

import numpy as np

from rpq.compiled.intrinsics import wraps_around
from rpq.compiled.kernel_cache import njit

_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


def new_table(ids: int) -> np.ndarray:
    """Return an empty table for so many ids."""
    return np.zeros(table_size(ids), np.int32)


def table_size(ids: int) -> int:
    """Return how many entries a table has for so many ids."""
    return 1 << max(4, (2 * ids - 1).bit_length())


def ids_in(table: np.ndarray) -> list[int]:
    """Return the ids in a table, sorted."""
    return sorted((table[table != 0] - 1).tolist())


@wraps_around
@njit(cache=True, nogil=True, forceinline=True)
def mixed(h):
    """Return a hash all of whose bits depend on all bits of a 64-bit number (the finalizer of SplitMix64)."""
    h ^= h >> np.uint64(30)
    h *= _MIX_1
    h ^= h >> np.uint64(27)
    h *= _MIX_2
    return h ^ (h >> np.uint64(31))


@njit(cache=True, nogil=True, forceinline=True)
def home_of(entries, h):
    """Return the place at which the search for a hash begins."""
    return np.int64(h & np.uint64(entries - 1))


@njit(cache=True, nogil=True, forceinline=True)
def id_at(table, place):
    """Return the id of an entry; -1 of an empty one."""
    return np.int64(table[place]) - 1


@njit(cache=True, nogil=True, forceinline=True)
def first_candidate(table, entries, h):
    """Return the first place whose id may have the key of a hash (uint64); -1 - the place for it, if there is none."""
    place = home_of(entries, h)
    return place if table[place] != 0 else -1 - place


@njit(cache=True, nogil=True, forceinline=True)
def next_candidate(table, entries, place):
    """Return the next place after one whose id has another key; as `first_candidate`."""
    place = (place + 1) & (entries - 1)
    return place if table[place] != 0 else -1 - place


@njit(cache=True, nogil=True, forceinline=True)
def put(table, place, number):
    """Enter an id at the negative place that the search for its hash ended with."""
    table[-1 - place] = number + 1


@njit(cache=True, nogil=True, forceinline=True)
def put_new(table, entries, h, number):
    """Enter an id whose key is not in the table."""
    place = first_candidate(table, entries, h)
    while place >= 0:
        place = next_candidate(table, entries, place)
    put(table, place, number)


@njit(cache=True, nogil=True, forceinline=True)
def clear(table, entries):
    """Take all ids out."""
    for place in range(entries):
        table[place] = 0
