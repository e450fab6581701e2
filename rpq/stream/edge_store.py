"""How the snapshot graph lies in memory, and the kernels over it.

An edge is (source, label, target); a hash table (`rpq/arrays/hashing.py`) maps it to a dense id. Labels that are read
over the same windows form a *group* with one horizon: an edge is there by its time if its timestamp is larger. It may
also be there because a count window holds it (`counted.py`), and an edge that is *static* keeps its place without being
in any window.
"""

from typing import NamedTuple

import numpy as np

from rpq.arrays.hashing import clear, first_candidate, home_of, id_at, next_candidate, put, put_new
from rpq.compiled.intrinsics import wraps_around
from rpq.compiled.kernel_cache import njit
from rpq.compiled.prefetching import prefetch_at

LONG_AGO = np.iinfo(np.int64).min
NEVER = np.iinfo(np.int64).max
NEVER_BY_TIME = NEVER - 1
"""The horizon of labels that count windows alone read: no edge is there by its time."""

# Fields of `Edges.fields`.
COUNT = 0  # ids given out so far (high water)
FREE = 1  # entries in the stack of free ids
TIME = 2  # stream time, if HAS_TIME
HAS_TIME = 3
NEXT = 4  # stream time at which a horizon may move
NEW = 5  # edges entered since the last collection
TABLE = 6  # entries of the hash table
VERTICES = 7  # entries of `degree`
WINDOWS = 8
GROUPS = 9
FIELDS = 10

STATIC = 1 << 30
HOLDERS = STATIC - 1
"""Of `Edges.held`: how many count windows hold the edge; above that whether it is static."""


class Edges(NamedTuple):
    """The arrays of the snapshot graph."""

    source: np.ndarray  # int32 an edge, -1 free
    target: np.ndarray  # int32 an edge
    label: np.ndarray  # int32 an edge
    timestamp: np.ndarray  # int64 an edge, the smallest int64 once deleted
    held: np.ndarray  # int32 an edge: what holds it but its time, see `HOLDERS`
    table: np.ndarray  # int32: from hashes to edges, see `rpq/arrays/hashing.py`
    free: np.ndarray  # int32, stack
    degree: np.ndarray  # int32 a vertex: edges that name it
    bearing: np.ndarray  # int32 a label: edges that bear it
    fields: np.ndarray  # int64[FIELDS]


class Horizons(NamedTuple):
    """Which edges are still in some window by their time."""

    size: np.ndarray  # int64 a window; BY_COUNT and UNBOUNDED for those that are none of time
    slide: np.ndarray  # int64 a window
    member: np.ndarray  # uint8, groups × windows: the group's labels are read over the window
    wanted: np.ndarray  # uint8 a label: it is read over any window
    horizon: np.ndarray  # int64 a group: edges with a timestamp up to here have left every window of time
    group: np.ndarray  # int32 a label
    lost: np.ndarray  # int64 a label: largest timestamp of a lost insert, the smallest int64 for none


BY_COUNT, UNBOUNDED = 0, -1


@njit(cache=True, nogil=True)
def move_horizons(edges, horizons):
    """Set the horizons and the time at which they may move next, without overflow."""
    fields = edges.fields
    time, windows, groups = fields[TIME], fields[WINDOWS], fields[GROUPS]
    following = np.int64(NEVER)
    for group in range(groups):
        horizons.horizon[group] = NEVER
    for window in range(windows):
        size, slide = horizons.size[window], horizons.slide[window]
        if size in (BY_COUNT, UNBOUNDED):
            bound = np.int64(NEVER_BY_TIME) if size == BY_COUNT else np.int64(LONG_AGO)
            for group in range(groups):
                if horizons.member[group * windows + window]:
                    horizons.horizon[group] = min(horizons.horizon[group], bound)
            continue
        into = time % slide
        boundary = time - into if time >= LONG_AGO + into else np.int64(LONG_AGO)
        bound = boundary - size if boundary >= LONG_AGO + size else np.int64(LONG_AGO)
        for group in range(groups):
            if horizons.member[group * windows + window]:
                horizons.horizon[group] = min(horizons.horizon[group], bound)
        following = min(following, time + (slide - into) if time <= NEVER - (slide - into) else np.int64(NEVER))
    fields[NEXT] = following


@njit(cache=True, nogil=True)
def advance(edges, horizons, time):
    fields = edges.fields
    if not fields[HAS_TIME] or time > fields[TIME]:
        fields[TIME] = time
        if not fields[HAS_TIME] or time >= fields[NEXT]:
            fields[HAS_TIME] = 1
            move_horizons(edges, horizons)


@wraps_around
@njit(cache=True, nogil=True, forceinline=True)
def key_hash(u, label, v):
    h = np.uint64(u) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(v) * np.uint64(0xC2B2AE3D27D4EB4F)
    h = (h ^ (h >> np.uint64(29))) + np.uint64(label) * np.uint64(0x165667B19E3779F9)
    h *= np.uint64(0xBF58476D1CE4E5B9)
    return h ^ (h >> np.uint64(32))


@njit(cache=True, nogil=True, forceinline=True)
def probe(edges, h, u, label, v):
    """The place of an edge in the table; a negative one, for `put`, if it is not there."""
    entries = edges.fields[TABLE]
    place = first_candidate(edges.table, entries, h)
    while place >= 0:
        edge = id_at(edges.table, place)
        if edges.source[edge] == u and edges.target[edge] == v and edges.label[edge] == label:
            break
        place = next_candidate(edges.table, entries, place)
    return place


@njit(cache=True, nogil=True, forceinline=True)
def prefetch_edge_of(edges, u, label, v):
    """Ask for the memory that finding or entering an edge will need."""
    prefetch_at(edges.table, home_of(edges.fields[TABLE], key_hash(u, label, v)))
    prefetch_at(edges.degree, u)
    prefetch_at(edges.degree, v)


@njit(cache=True, nogil=True)
def insert(edges, horizons, u, v, label, time):
    """Enter an edge or make it younger; its id and whether it was in a window."""
    fields = edges.fields
    horizon = horizons.horizon[horizons.group[label]]
    h = key_hash(u, label, v)
    place = probe(edges, h, u, label, v)
    if place >= 0:
        edge = id_at(edges.table, place)
        held = edges.timestamp[edge]
        present = held > horizon or edges.held[edge] & HOLDERS != 0
        if not present:
            horizons.lost[label] = max(horizons.lost[label], held)
        edges.timestamp[edge] = max(held, time) if present else time
        return edge, present
    if fields[FREE] > 0:
        fields[FREE] -= 1
        edge = np.int64(edges.free[fields[FREE]])
    else:
        edge = fields[COUNT]
        fields[COUNT] += 1
    edges.source[edge] = u
    edges.target[edge] = v
    edges.label[edge] = label
    edges.timestamp[edge] = time
    edges.held[edge] = 0
    put(edges.table, place, edge)
    edges.degree[u] += 1
    edges.degree[v] += 1
    edges.bearing[label] += 1
    fields[NEW] += 1
    return edge, False


@njit(cache=True, nogil=True)
def fill_table(edges):
    entries = edges.fields[TABLE]
    clear(edges.table, entries)
    for edge in range(edges.fields[COUNT]):
        if edges.source[edge] >= 0:
            h = key_hash(np.int64(edges.source[edge]), np.int64(edges.label[edge]), np.int64(edges.target[edge]))
            put_new(edges.table, entries, h, edge)
