"""The edges of relations: the hash table of all edges, and kernels that enter, refresh and remove an edge.

An edge changes in its lists, the hash table and the order of expiry at once.
"""

from __future__ import annotations

import numpy as np

from rpq.compiled.intrinsics import wraps_around
from rpq.compiled.kernel_cache import njit
from rpq.compiled.prefetching import prefetch_at
from rpq.patterns.relations.adjacency import add, remove, reserve
from rpq.patterns.relations.wheel import link, unlink
from rpq.patterns.tables import (
    ABSENT_FROM_WINDOW,
    DONE,
    EDGE,
    EDGE_LONG,
    EDGE_ROOM,
    EDGES,
    EDGES_HELD,
    EXPIRES,
    FREE_EDGE,
    IN,
    LIVE,
    LOOPLESS,
    LOW,
    MASK,
    NEED_ARENA,
    NEED_EDGES,
    NEED_TABLE,
    NEXT,
    OUT,
    PREVIOUS,
    RELATION,
    RELATION_FIELDS,
    SOURCE,
    STATIC,
    STATIC_ALONE,
    TARGET,
    TIME,
    WINDOW,
)

HASH = (1 << 31) - 1


@wraps_around
@njit(cache=True, nogil=True, forceinline=True)
def hash_of(relation, source, target):
    """Return a hash of 31 bits."""
    key = (np.uint64(source) << np.uint64(32) | np.uint64(target)) + np.uint64(relation) * np.uint64(0xC2B2AE3D27D4EB4F)
    key *= np.uint64(0x9E3779B97F4A7C15)
    return np.int64((key ^ (key >> np.uint64(32))) & np.uint64(HASH))


@njit(cache=True, nogil=True, forceinline=True)
def find(relations, relation, source, target):
    """Return the number of an edge, or 0 if the relation does not have it."""
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
    """Add an absent edge to the table, which must have room."""
    place = hashed & mask
    while table[place] != 0:
        place = (place + 1) & mask
    table[place] = hashed << 32 | edge


@njit(cache=True, nogil=True, forceinline=True)
def leave(relations, relation, source, target, edge):
    """Remove an edge from the table, and close the gap."""
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
    """Prefetch the place of an edge in the table."""
    prefetch_at(relations.table, hash_of(relation, source, target) & relations.state[MASK])


@njit(cache=True, nogil=True, forceinline=True)
def prefetch_record(relations, relation, source, target):
    """Prefetch the record of the edge at that place, which most often is the edge that will be searched for."""
    held = relations.table[hash_of(relation, source, target) & relations.state[MASK]]
    if held != 0:
        prefetch_at(relations.edge, (held & LOW) * EDGE)


@njit(cache=True, nogil=True, forceinline=True)
def make_edge(relations, relation, source, target, time, expires):
    """Enter an edge that is not in the relation; return its number, or minus a `NEED_` code."""
    state, edges = relations.state, relations.edge
    if 2 * (state[LIVE] + 1) > state[MASK] + 1:
        return np.int64(-NEED_TABLE)
    if not reserve(relations, relation, OUT, source) or not reserve(relations, relation, IN, target):
        return np.int64(-NEED_ARENA)
    edge = state[FREE_EDGE]
    if edge != 0:
        state[FREE_EDGE] = np.int64(edges[edge * EDGE + NEXT])
    elif state[EDGES] < state[EDGE_ROOM]:
        edge = state[EDGES]
        state[EDGES] += 1
    else:
        return np.int64(-NEED_EDGES)
    state[LIVE] += 1
    relations.relation[relation * RELATION_FIELDS + EDGES_HELD] += 1
    record = edge * EDGE
    edges[record + SOURCE] = source
    edges[record + TARGET] = target
    edges[record + RELATION] = relation
    edges[record + STATIC] = 0
    relations.long[edge * EDGE_LONG + TIME] = time
    relations.long[edge * EDGE_LONG + EXPIRES] = expires
    if expires != ABSENT_FROM_WINDOW:
        link(relations, relations.relation[relation * RELATION_FIELDS + WINDOW], edge)
    else:
        edges[record + PREVIOUS] = 0
        edges[record + NEXT] = 0
    add(relations, relation, OUT, source, target, edge)
    add(relations, relation, IN, target, source, edge)
    enter(relations.table, state[MASK], hash_of(relation, source, target), edge)
    return edge


@njit(cache=True, nogil=True, forceinline=True)
def make_younger(relations, edge, time, expires):
    """Refresh an edge with a later slide and time; smaller ones change nothing."""
    held = relations.long
    held[edge * EDGE_LONG + TIME] = max(held[edge * EDGE_LONG + TIME], time)
    if expires > held[edge * EDGE_LONG + EXPIRES]:
        unlink(relations, edge)
        held[edge * EDGE_LONG + EXPIRES] = expires
        relation = np.int64(relations.edge[edge * EDGE + RELATION])
        link(relations, relations.relation[relation * RELATION_FIELDS + WINDOW], edge)


@njit(cache=True, nogil=True)
def enter_window(relations, edge, time, expires):
    """Enter a static edge into the window, which does not hold it yet."""
    relation = np.int64(relations.edge[edge * EDGE + RELATION])
    make_younger(relations, edge, time, expires)
    relations.relation[relation * RELATION_FIELDS + STATIC_ALONE] -= 1


@njit(cache=True, nogil=True)
def leave_window(relations, edge):
    """Remove a static edge from the window."""
    unlink(relations, edge)
    relations.edge[edge * EDGE + PREVIOUS] = 0
    relations.edge[edge * EDGE + NEXT] = 0
    relations.long[edge * EDGE_LONG + TIME] = ABSENT_FROM_WINDOW
    relations.long[edge * EDGE_LONG + EXPIRES] = ABSENT_FROM_WINDOW
    relation = np.int64(relations.edge[edge * EDGE + RELATION])
    relations.relation[relation * RELATION_FIELDS + STATIC_ALONE] += 1


@njit(cache=True, nogil=True, forceinline=True)
def drop_edge(relations, edge):
    """Remove an edge from its relation."""
    state, edges = relations.state, relations.edge
    record = edge * EDGE
    source, target = np.int64(edges[record + SOURCE]), np.int64(edges[record + TARGET])
    relation = np.int64(edges[record + RELATION])
    unlink(relations, edge)
    remove(relations, relation, OUT, source, edge)
    remove(relations, relation, IN, target, edge)
    leave(relations, relation, source, target, edge)
    edges[record + RELATION] = -1
    edges[record + NEXT] = state[FREE_EDGE]
    state[FREE_EDGE] = edge
    state[LIVE] -= 1
    relations.relation[relation * RELATION_FIELDS + EDGES_HELD] -= 1
    if relations.long[edge * EDGE_LONG + EXPIRES] == ABSENT_FROM_WINDOW:
        relations.relation[relation * RELATION_FIELDS + STATIC_ALONE] -= 1


@njit(cache=True, nogil=True)
def fill_side(relations, relation, side):
    """Enter the edges of a relation into the lists of a side that was not kept before; return False without room."""
    edges = relations.edge
    for edge in range(1, relations.state[EDGES]):
        record = edge * EDGE
        if edges[record + RELATION] == relation:
            near, far = np.int64(edges[record + SOURCE]), np.int64(edges[record + TARGET])
            if side == IN:
                near, far = far, near
            if not reserve(relations, relation, side, near):
                return False
            add(relations, relation, side, near, far, edge)
    return True


@njit(cache=True, nogil=True)
def enter_edges(relations, relation, source, target, time, expires, at):
    """Enter edges from number `at[0]` on into a relation whose window has none of them; return DONE or a `NEED_` code."""
    has_loops = relations.relation[relation * RELATION_FIELDS + LOOPLESS] == 0
    while at[0] < len(source):
        i = at[0]
        if has_loops or source[i] != target[i]:
            edge = find(relations, relation, np.int64(source[i]), np.int64(target[i]))
            if edge != 0:
                enter_window(relations, edge, time[i], expires[i])
            else:
                edge = make_edge(relations, relation, np.int64(source[i]), np.int64(target[i]), time[i], expires[i])
            if edge < 0:
                return -edge
        at[0] += 1
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def enter_static(relations, relation, source, target, at):
    """Make edges from number `at[0]` on static in a relation, whether it has them or not; return DONE or a `NEED_` code."""
    has_loops = relations.relation[relation * RELATION_FIELDS + LOOPLESS] == 0
    while at[0] < len(source):
        i = at[0]
        u, v = np.int64(source[i]), np.int64(target[i])
        if has_loops or u != v:
            edge = find(relations, relation, u, v)
            if edge == 0:
                never = np.int64(ABSENT_FROM_WINDOW)
                edge = make_edge(relations, relation, u, v, never, never)
                if edge < 0:
                    return -edge
                relations.relation[relation * RELATION_FIELDS + STATIC_ALONE] += 1
            relations.edge[edge * EDGE + STATIC] = 1
        at[0] += 1
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def drop_all(relations, relation):
    """Remove all edges from a relation."""
    for edge in range(1, relations.state[EDGES]):
        if relations.edge[edge * EDGE + RELATION] == relation:
            drop_edge(relations, np.int64(edge))


@njit(cache=True, nogil=True)
def find_edges(relations, relation, source, target, found):
    """Write the numbers of edges, 0 for those that the relation does not have."""
    for i in range(len(source)):
        found[i] = find(relations, relation, np.int64(source[i]), np.int64(target[i]))


@njit(cache=True, nogil=True)
def find_expiries(relations, relation, source, target, found, absent):
    """Write the slides at which edges expire, `absent` for those that the relation does not have."""
    for i in range(len(source)):
        edge = find(relations, relation, np.int64(source[i]), np.int64(target[i]))
        found[i] = relations.long[edge * EDGE_LONG + EXPIRES] if edge != 0 else absent
