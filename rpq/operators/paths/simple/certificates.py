"""The known facts about pairs in doubt: for each a simple path, or the fact that there is none now.

A hash table from pair (source << 32 | target) to an *entry*. An entry with a path is an answer until an edge of the path
expires (`slide`) or is deleted; an entry without a path is *blocked*. The steps of all paths lie in one pool, and those over
the same edge are chained, so that a deleted edge finds the paths that it breaks; the blocked entries of a root are chained
too. Nothing is unlinked when an entry changes: a step counts only while it is in the current path of its entry, and a link
of a blocked entry only while it is blocked. `rebuilt` removes everything that no longer counts.
"""

from typing import NamedTuple

import numpy as np

from rpq.compiled.arrays.hashing import first_candidate, id_at, mix, new_table, next_candidate, put
from rpq.compiled.kernel_cache import njit
from rpq.compiled.views import Record, int64, view

EMPTY = -1
GONE = -2
BLOCKED = np.iinfo(np.int64).min
"""The slide of an entry without a path."""


class CertificateState(Record):
    """The progress of judging, counts, and the lengths of the arrays."""

    _fields_ = (
        ("entries", int64),  # number of entries, and of those among them that were removed
        ("top", int64),  # steps in the pool
        ("capacity", int64),  # capacity for entries
        ("pool", int64),  # capacity of the pool
        ("stamp", int64),  # number of the tuple or boundary that is being judged
        ("next_row", int64),  # next row of the event to be judged
        ("rows_end", int64),  # rows of the event that stay
        ("searches", int64),
        ("overdrawn", int64),  # number of roots in `overdrawn_root`
        ("step_of", int64),  # chain: the next step to look at, + 1; 0: not begun
        ("unblocked_pairs", int64),  # blocked pairs for which a path was found
        ("broken_paths", int64),  # paths that were broken
        ("replaced_paths", int64),  # of those, how many were replaced by another
        ("stage", int64),  # the stage of judging an insert
        ("table", int64),  # entries of the hash table
    )


# Values of `CertificateState.stage`: the part of the current insert that is judged next.
STAGE_ROWS = 0
STAGE_DOUBT = 1  # the pairs that the insert puts in doubt
STAGE_UNBLOCK = 2


class Certificates(NamedTuple):
    """Entries, paths, and the work spent on each root."""

    table: np.ndarray  # int32: from hashes of pairs to entries, see `rpq/compiled/arrays/hashing.py`
    key: np.ndarray  # int64 an entry: pair, EMPTY or GONE
    slide: np.ndarray  # int64 an entry: the absolute slide at which the path expires, or BLOCKED
    path_start: np.ndarray  # int64 an entry: the start of its path in the pool
    length: np.ndarray  # int64 an entry: the number of steps of its path
    answer_stamp: np.ndarray  # int64 an entry: the stamp at which it became an answer
    search_stamp: np.ndarray  # int64 an entry: the stamp at which it was last searched
    origins: np.ndarray  # uint64 an entry: the result of `search.origins` if it is blocked
    next_blocked: np.ndarray  # int64 an entry: next blocked entry of its root, -1 none
    is_chained: np.ndarray  # uint8 an entry: whether it is in the chain of its root
    step: np.ndarray  # int64 a step of the pool: edge << 1 | against
    owner: np.ndarray  # int64 a step of the pool: its entry
    chain: np.ndarray  # int64 a step of the pool: the next step over the same edge, or -1
    edge_chain: np.ndarray  # int64 an edge: the first step over it
    root_chain: np.ndarray  # int64 a vertex: first blocked entry of a root
    expansions: np.ndarray  # int64 a vertex: nodes expanded for it as a root
    expansion_stamp: np.ndarray  # int64 a vertex: the stamp of that number
    overdrawn_root: np.ndarray  # int64 a root that exceeded the budget: its vertex
    overdrawn_work: np.ndarray  # int64 a root that exceeded the budget: the nodes expanded for it
    fields: CertificateState


def new_certificates(capacity: int, pool: int, vertices: int, edges: int) -> Certificates:
    """Return an empty store with room for `capacity` entries."""
    none = np.full
    fields = CertificateState()
    fields.capacity = capacity
    fields.pool = pool
    table = new_table(capacity)
    fields.table = len(table)
    return Certificates(
        table=table,
        key=none(capacity, EMPTY, np.int64),
        slide=np.zeros(capacity, np.int64),
        path_start=np.zeros(capacity, np.int64),
        length=np.zeros(capacity, np.int64),
        answer_stamp=np.zeros(capacity, np.int64),
        search_stamp=np.zeros(capacity, np.int64),
        origins=np.zeros(capacity, np.uint64),
        next_blocked=none(capacity, -1, np.int64),
        is_chained=np.zeros(capacity, np.uint8),
        step=np.zeros(pool, np.int64),
        owner=np.zeros(pool, np.int64),
        chain=np.zeros(pool, np.int64),
        edge_chain=none(edges, -1, np.int64),
        root_chain=none(vertices, -1, np.int64),
        expansions=np.zeros(vertices, np.int64),
        expansion_stamp=np.zeros(vertices, np.int64),
        overdrawn_root=np.zeros(vertices, np.int64),
        overdrawn_work=np.zeros(vertices, np.int64),
        fields=fields,
    )


def rebuilt(old: Certificates, vertices: int, edges: int, room: int) -> Certificates:
    """Return the entries that are not obsolete, with room for more entries and steps."""
    entries = int((old.key >= 0).sum())
    steps = int(old.length[old.key >= 0].sum())
    capacity = max(16, 2 * (entries + room))
    # A path may have as many steps as there are vertices.
    new = new_certificates(capacity, 2 * steps + 8 * room + vertices, vertices, edges)
    for name in ("expansions", "expansion_stamp", "overdrawn_root", "overdrawn_work"):
        getattr(new, name)[: len(getattr(old, name))] = getattr(old, name)
    of_arrays = ("capacity", "pool", "table", "entries", "top", "step_of")
    for name, _ in CertificateState._fields_:
        if name not in of_arrays:
            setattr(new.fields, name, getattr(old.fields, name))
    _copy(view(old), old.step, view(new))
    return new


@njit(cache=True, nogil=True, forceinline=True)
def _probe(certificates, h, key):
    """Return the place of a pair in the table, or, if it is absent, the negative place for `put`."""
    entries = certificates.fields.table
    place = first_candidate(certificates.table, entries, h)
    while place >= 0 and certificates.key[id_at(certificates.table, place)] != key:
        place = next_candidate(certificates.table, entries, place)
    return place


@njit(cache=True, nogil=True)
def entry_of(certificates, key):
    """Return the entry of a pair, or -1."""
    place = _probe(certificates, mix(np.uint64(key)), key)
    return id_at(certificates.table, place) if place >= 0 else np.int64(-1)


@njit(cache=True, nogil=True)
def has_room(certificates, steps):
    """Return whether there is room for one more entry with a path of this number of steps."""
    fields = certificates.fields
    return fields.entries < fields.capacity and fields.top + steps <= fields.pool


@njit(cache=True, nogil=True)
def enter(certificates, key):
    """Return the entry of a pair. If there is none, create a blocked one; there must be room."""
    h = mix(np.uint64(key))
    place = _probe(certificates, h, key)
    if place >= 0:
        return id_at(certificates.table, place)
    entry = certificates.fields.entries
    certificates.fields.entries += 1
    put(certificates.table, place, entry)
    certificates.key[entry] = key
    certificates.slide[entry] = BLOCKED
    certificates.length[entry] = 0
    certificates.answer_stamp[entry] = 0
    certificates.search_stamp[entry] = 0
    certificates.origins[entry] = np.uint64(2**64 - 1)
    certificates.is_chained[entry] = 0
    return entry


@njit(cache=True, nogil=True)
def block(certificates, entry):
    """Mark an entry as blocked."""
    certificates.slide[entry] = BLOCKED
    certificates.length[entry] = 0
    if not certificates.is_chained[entry]:
        root = certificates.key[entry] >> 32
        certificates.is_chained[entry] = 1
        certificates.next_blocked[entry] = certificates.root_chain[root]
        certificates.root_chain[root] = entry


@njit(cache=True, nogil=True)
def certify(certificates, entry, path, length, slide):
    """Mark an entry as an answer until an absolute slide, with the first steps of `path`. There must be room."""
    fields = certificates.fields
    top = fields.top
    certificates.slide[entry] = slide
    certificates.path_start[entry] = top
    certificates.length[entry] = length
    for i in range(length):
        edge = path[i] >> 1
        certificates.step[top + i] = path[i]
        certificates.owner[top + i] = entry
        certificates.chain[top + i] = certificates.edge_chain[edge]
        certificates.edge_chain[edge] = top + i
    fields.top = top + length


@njit(cache=True, nogil=True)
def remove(certificates, entry):
    """Remove an entry."""
    certificates.key[entry] = GONE
    certificates.slide[entry] = BLOCKED
    certificates.length[entry] = 0


@njit(cache=True, nogil=True)
def holds(certificates, place):
    """Return whether a step of the pool is in the current path of its entry."""
    entry = certificates.owner[place]
    first = certificates.path_start[entry]
    return certificates.key[entry] >= 0 and first <= place and place < first + certificates.length[entry]


@njit(cache=True, nogil=True)
def _copy(old, steps, new):
    for place in range(old.fields.entries):
        key = old.key[place]
        if key < 0:
            continue
        entry = enter(new, key)
        new.answer_stamp[entry] = old.answer_stamp[place]
        new.search_stamp[entry] = old.search_stamp[place]
        new.origins[entry] = old.origins[place]
        if old.slide[place] == BLOCKED:
            root = key >> 32
            new.is_chained[entry] = 1
            new.next_blocked[entry] = new.root_chain[root]
            new.root_chain[root] = entry
        else:
            first = old.path_start[place]
            certify(new, entry, steps[first : first + old.length[place]], old.length[place], old.slide[place])
