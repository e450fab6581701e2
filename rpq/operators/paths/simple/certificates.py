"""The facts about pairs in doubt: for each, a simple path, or the fact that none exists now.

A hash table from pair (source << 32 | target) to an *entry*. An entry with a path is an answer,
until the first edge of the path expires (`slide`) or is deleted; an entry without one is *blocked*. The steps of all
paths lie in one pool, and those over the same edge are chained, so that a deleted edge finds the paths it breaks; the
blocked entries of a root are chained too. Nothing is unlinked when an entry changes: a step counts only while it lies in
the present path of its entry, a blocked entry only while it is blocked. `rebuilt` drops what no longer counts.
"""

from typing import NamedTuple

import numpy as np

from rpq.compiled.arrays.hashing import first_candidate, id_at, mixed, new_table, next_candidate, put
from rpq.compiled.kernel_cache import njit

EMPTY = -1
GONE = -2
BLOCKED = np.iinfo(np.int64).min
"""The slide of an entry without a path."""

# Fields of `Certificates.fields`.
USED = 0  # entries given out, those among them that are gone
TOP = 1  # steps in the pool
CAPACITY = 2  # entries that there is room for
POOL = 3  # capacity of the pool
STAMP = 4  # number of the tuple or boundary that is being judged
NEXT = 5  # next row of the event to be judged
ROWS_END = 6  # rows of the event that stay
SEARCHES = 7
OVERDRAWN = 8  # roots in `over`
STEP_OF = 9  # chain: the next step to look at, + 1; 0: not begun
UNBLOCKED = 10  # blocked pairs for which a path was found
BROKEN = 11  # paths that broke
REPLACED = 12  # of those, how many were replaced by another
STAGE = 13  # how far the judging of an insert has come
TABLE = 14  # entries of the hash table
FIELDS = 15

# Values of `Certificates.fields[STAGE]`: what is still to be judged of the current insert.
ITS_ROWS = 0
ITS_DOUBT = 1  # the pairs that it put in doubt
WHAT_IT_UNBLOCKS = 2


class Certificates(NamedTuple):
    """Entries, paths, and the work of roots so far."""

    table: np.ndarray  # int32: from hashes of pairs to entries, see `rpq/compiled/arrays/hashing.py`
    key: np.ndarray  # int64 an entry: pair, EMPTY or GONE
    slide: np.ndarray  # int64 an entry: the absolute slide at which the path expires, or BLOCKED
    first: np.ndarray  # int64 an entry: its path begins here in the pool
    length: np.ndarray  # int64 an entry: steps of its path
    born: np.ndarray  # int64 an entry: stamp at which it became an answer
    looked: np.ndarray  # int64 an entry: stamp at which it was last searched
    origins: np.ndarray  # uint64 an entry: `search.origins`, if it is blocked
    following: np.ndarray  # int64 an entry: next blocked entry of its root, -1 none
    listed: np.ndarray  # uint8 an entry: it is in the chain of its root
    step: np.ndarray  # int64 the pool: edge << 1 | against
    owner: np.ndarray  # int64 the pool: entry
    chain: np.ndarray  # int64 the pool: next step over the same edge, -1 none
    edge_chain: np.ndarray  # int64 an edge: first step over it
    root_chain: np.ndarray  # int64 a vertex: first blocked entry of a root
    spent: np.ndarray  # int64 a vertex: nodes expanded for it as a root
    spent_at: np.ndarray  # int64 a vertex: at that stamp
    over: np.ndarray  # int64 a vertex: list of roots that went over the budget
    over_work: np.ndarray  # int64 a vertex: what they had spent
    fields: np.ndarray  # int64[FIELDS]


def new_certificates(capacity: int, pool: int, vertices: int, edges: int) -> Certificates:
    """Return an empty store with room for `capacity` entries."""
    none = np.full
    fields = np.zeros(FIELDS, np.int64)
    fields[CAPACITY] = capacity
    fields[POOL] = pool
    table = new_table(capacity)
    fields[TABLE] = len(table)
    return Certificates(
        table=table,
        key=none(capacity, EMPTY, np.int64),
        slide=np.zeros(capacity, np.int64),
        first=np.zeros(capacity, np.int64),
        length=np.zeros(capacity, np.int64),
        born=np.zeros(capacity, np.int64),
        looked=np.zeros(capacity, np.int64),
        origins=np.zeros(capacity, np.uint64),
        following=none(capacity, -1, np.int64),
        listed=np.zeros(capacity, np.uint8),
        step=np.zeros(pool, np.int64),
        owner=np.zeros(pool, np.int64),
        chain=np.zeros(pool, np.int64),
        edge_chain=none(edges, -1, np.int64),
        root_chain=none(vertices, -1, np.int64),
        spent=np.zeros(vertices, np.int64),
        spent_at=np.zeros(vertices, np.int64),
        over=np.zeros(vertices, np.int64),
        over_work=np.zeros(vertices, np.int64),
        fields=fields,
    )


def rebuilt(old: Certificates, vertices: int, edges: int, room: int) -> Certificates:
    """Return the same entries without obsolete ones, with room for more entries and steps."""
    entries = int((old.key >= 0).sum())
    steps = int(old.length[old.key >= 0].sum())
    capacity = max(16, 2 * (entries + room))
    # A path may have as many steps as there are vertices.
    new = new_certificates(capacity, 2 * steps + 8 * room + vertices, vertices, edges)
    for name in ("spent", "spent_at", "over", "over_work"):
        getattr(new, name)[: len(getattr(old, name))] = getattr(old, name)
    capacities = new.fields[[CAPACITY, POOL, TABLE]]
    new.fields[:] = old.fields
    new.fields[[CAPACITY, POOL, TABLE]] = capacities
    new.fields[[USED, TOP, STEP_OF]] = 0
    _copy(old, new)
    return new


@njit(cache=True, nogil=True, forceinline=True)
def _probe(certificates, h, key):
    """Return the place of a pair in the table; a negative one, for `put`, if it is not there."""
    entries = certificates.fields[TABLE]
    place = first_candidate(certificates.table, entries, h)
    while place >= 0 and certificates.key[id_at(certificates.table, place)] != key:
        place = next_candidate(certificates.table, entries, place)
    return place


@njit(cache=True, nogil=True)
def entry_of(certificates, key):
    """Return the entry of a pair, or -1."""
    place = _probe(certificates, mixed(np.uint64(key)), key)
    return id_at(certificates.table, place) if place >= 0 else np.int64(-1)


@njit(cache=True, nogil=True)
def has_room(certificates, steps):
    """Return whether one more entry with a path of that many steps fits."""
    fields = certificates.fields
    return fields[USED] < fields[CAPACITY] and fields[TOP] + steps <= fields[POOL]


@njit(cache=True, nogil=True)
def enter(certificates, key):
    """Return the entry of a pair, made (blocked) if there is none; there is room."""
    h = mixed(np.uint64(key))
    place = _probe(certificates, h, key)
    if place >= 0:
        return id_at(certificates.table, place)
    entry = certificates.fields[USED]
    certificates.fields[USED] += 1
    put(certificates.table, place, entry)
    certificates.key[entry] = key
    certificates.slide[entry] = BLOCKED
    certificates.length[entry] = 0
    certificates.born[entry] = 0
    certificates.looked[entry] = 0
    certificates.origins[entry] = np.uint64(2**64 - 1)
    certificates.listed[entry] = 0
    return entry


@njit(cache=True, nogil=True)
def block(certificates, entry):
    """Mark an entry as blocked."""
    certificates.slide[entry] = BLOCKED
    certificates.length[entry] = 0
    if not certificates.listed[entry]:
        root = certificates.key[entry] >> 32
        certificates.listed[entry] = 1
        certificates.following[entry] = certificates.root_chain[root]
        certificates.root_chain[root] = entry


@njit(cache=True, nogil=True)
def certify(certificates, entry, path, length, slide):
    """Mark an entry as an answer until an absolute slide, with the first steps of `path`; there is room."""
    fields = certificates.fields
    top = fields[TOP]
    certificates.slide[entry] = slide
    certificates.first[entry] = top
    certificates.length[entry] = length
    for i in range(length):
        edge = path[i] >> 1
        certificates.step[top + i] = path[i]
        certificates.owner[top + i] = entry
        certificates.chain[top + i] = certificates.edge_chain[edge]
        certificates.edge_chain[edge] = top + i
    fields[TOP] = top + length


@njit(cache=True, nogil=True)
def remove(certificates, entry):
    """Forget an entry."""
    certificates.key[entry] = GONE
    certificates.slide[entry] = BLOCKED
    certificates.length[entry] = 0


@njit(cache=True, nogil=True)
def holds(certificates, place):
    """Return whether a step of the pool lies in the present path of its entry."""
    entry = certificates.owner[place]
    first = certificates.first[entry]
    return certificates.key[entry] >= 0 and first <= place and place < first + certificates.length[entry]


@njit(cache=True, nogil=True)
def _copy(old, new):
    for place in range(old.fields[USED]):
        key = old.key[place]
        if key < 0:
            continue
        entry = enter(new, key)
        new.born[entry] = old.born[place]
        new.looked[entry] = old.looked[place]
        new.origins[entry] = old.origins[place]
        if old.slide[place] == BLOCKED:
            root = key >> 32
            new.listed[entry] = 1
            new.following[entry] = new.root_chain[root]
            new.root_chain[root] = entry
        else:
            first = old.first[place]
            certify(new, entry, old.step[first : first + old.length[place]], old.length[place], old.slide[place])
