"""The one hash table: from a hash to the id of something whose key the caller keeps.

Open addressing over a power of two of entries, at least twice as many as there are ids. An entry is
`tag << 32 | id + 1`, the tag being the upper half of the hash, and 0 where it is empty. So nearly every entry of another
key is passed over without a look at that key, which lies elsewhere in memory. The table knows no keys: the caller
walks over the *candidates*, the ids whose tags fit, and compares its own key with theirs.

    place = first_candidate(table, entries, h)
    while place >= 0 and key[id_at(table, place)] != wanted:
        place = next_candidate(table, entries, h, place)

ends at the id, or (`place < 0`) where it belongs: `put(table, place, h, id)`. Nothing is taken out one by one: who
forgets keys builds the table anew with `clear` and `put_new`, or lets a key that is gone equal no other. What was tried
is in `TUNING.md`.
"""

import numpy as np

from rpq.compiled.intrinsics import wraps_around
from rpq.compiled.kernel_cache import njit

_ID = (1 << 32) - 1
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


def new_table(ids: int) -> np.ndarray:
    """An empty table (int64 an entry) for so many ids."""
    return np.zeros(table_size(ids), np.int64)


def table_size(ids: int) -> int:
    """How many entries a table has for so many ids."""
    return 1 << max(4, (2 * ids - 1).bit_length())


def ids_in(table: np.ndarray) -> list[int]:
    """The ids in a table, sorted."""
    return sorted(((table[table != 0] & _ID) - 1).tolist())


@wraps_around
@njit(cache=True, nogil=True, forceinline=True)
def mixed(h):
    """A hash all of whose bits depend on all bits of a 64-bit number (the finalizer of SplitMix64)."""
    h ^= h >> np.uint64(30)
    h *= _MIX_1
    h ^= h >> np.uint64(27)
    h *= _MIX_2
    return h ^ (h >> np.uint64(31))


@njit(cache=True, nogil=True, forceinline=True)
def home_of(entries, h):
    """The place at which the search for a hash begins."""
    return np.int64(h & np.uint64(entries - 1))


@njit(cache=True, nogil=True, forceinline=True)
def id_at(table, place):
    """The id of an entry; -1 of an empty one."""
    return (table[place] & _ID) - 1


@njit(cache=True, nogil=True, forceinline=True)
def _candidate_from(table, entries, h, place):
    tag = np.int64(h >> np.uint64(32))
    while True:
        entry = table[place]
        if entry == 0:
            return -1 - place
        if (entry >> 32) & _ID == tag:
            return place
        place = (place + 1) & (entries - 1)


@njit(cache=True, nogil=True, forceinline=True)
def first_candidate(table, entries, h):
    """The first place whose id may have the key of a hash (uint64); -1 - the place where it belongs, if there is none."""
    return _candidate_from(table, entries, h, home_of(entries, h))


@njit(cache=True, nogil=True, forceinline=True)
def next_candidate(table, entries, h, place):
    """The next place after one whose id has another key; as `first_candidate`."""
    return _candidate_from(table, entries, h, (place + 1) & (entries - 1))


@njit(cache=True, nogil=True, forceinline=True)
def put(table, place, h, number):
    """Enter an id at the negative place that the search for its hash ended with."""
    table[-1 - place] = np.int64(h >> np.uint64(32)) << 32 | (number + 1)


@njit(cache=True, nogil=True, forceinline=True)
def put_new(table, entries, h, number):
    """Enter an id whose key is not in the table."""
    place = home_of(entries, h)
    while table[place] != 0:
        place = (place + 1) & (entries - 1)
    put(table, -1 - place, h, number)


@njit(cache=True, nogil=True, forceinline=True)
def clear(table, entries):
    """Take all ids out."""
    for place in range(entries):
        table[place] = 0
