"""The hash table of edges: is (source, target) in a relation, and as which edge?"""

import numpy as np

from rpq.compiled.intrinsics import wraps_around
from rpq.compiled.kernel_cache import njit
from rpq.compiled.prefetching import prefetch_at
from rpq.patterns.tables import EDGE, LOW, MASK, RELATION, SOURCE, TARGET

HASH = (1 << 31) - 1


@wraps_around
@njit(cache=True, nogil=True, forceinline=True)
def hash_of(relation, source, target):
    """31 bits."""
    key = (np.uint64(source) << np.uint64(32) | np.uint64(target)) + np.uint64(relation) * np.uint64(0xC2B2AE3D27D4EB4F)
    key *= np.uint64(0x9E3779B97F4A7C15)
    return np.int64((key ^ (key >> np.uint64(32))) & np.uint64(HASH))


@njit(cache=True, nogil=True, forceinline=True)
def find(relations, relation, source, target):
    """The edge, or 0."""
    table, edges = relations.table, relations.edge
    mask = relations.state[MASK]
    wanted = hash_of(relation, source, target)
    place = wanted & mask
    while True:
        held = table[place]
        if held == 0:
            return np.int64(0)
        if held >> 32 == wanted:
            edge = held & LOW
            record = edge * EDGE
            is_between = edges[record + SOURCE] == source and edges[record + TARGET] == target
            if is_between and edges[record + RELATION] == relation:
                return edge
        place = (place + 1) & mask


@njit(cache=True, nogil=True, forceinline=True)
def enter(table, mask, hashed, edge):
    """Add an edge that is not there; there is room."""
    place = hashed & mask
    while table[place] != 0:
        place = (place + 1) & mask
    table[place] = hashed << 32 | edge


@njit(cache=True, nogil=True, forceinline=True)
def leave(relations, relation, source, target, edge):
    """Take an edge out, and close the gap."""
    table = relations.table
    mask = relations.state[MASK]
    hashed = hash_of(relation, source, target)
    wanted = hashed << 32 | edge
    gap = hashed & mask
    while table[gap] != wanted:
        gap = (gap + 1) & mask
    place = gap
    while True:
        place = (place + 1) & mask
        held = table[place]
        if held == 0:
            break
        if (place - (held >> 32)) & mask >= (place - gap) & mask:
            table[gap] = held
            gap = place
    table[gap] = 0


@njit(cache=True, nogil=True)
def enter_all(old, table, mask):
    """Fill an empty table from another."""
    for i in range(len(old)):
        if old[i] != 0:
            enter(table, mask, old[i] >> 32, old[i] & LOW)


@njit(cache=True, nogil=True, forceinline=True)
def prefetch_edge(relations, relation, source, target):
    """Ask for the place of an edge in the table."""
    prefetch_at(relations.table, hash_of(relation, source, target) & relations.state[MASK])


@njit(cache=True, nogil=True, forceinline=True)
def prefetch_record(relations, relation, source, target):
    """Ask for the record of the edge that lies at that place, most often the one that is looked for."""
    held = relations.table[hash_of(relation, source, target) & relations.state[MASK]]
    if held != 0:
        prefetch_at(relations.edge, (held & LOW) * EDGE)
