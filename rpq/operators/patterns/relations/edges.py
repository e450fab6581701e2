"""The edges of relations: the hash table of all edges, and kernels that enter, refresh and remove an edge.

An edge changes in its lists, the hash table and the order of expiry at once. A `label` is the number of that of an edge of
a relation of all labels, and `NO_LABEL` for other relations.
"""

from __future__ import annotations

import numpy as np

from rpq.compiled.intrinsics import prefetch_at, wraps_around
from rpq.compiled.kernel_cache import njit
from rpq.operators.patterns.relations.adjacency import add, remove, reserve
from rpq.operators.patterns.relations.wheel import link, unlink
from rpq.operators.patterns.tables import DONE, IN, LOW, NEED_ARENA, NEED_EDGES, NEED_TABLE, NO_LABEL, OUT
from rpq.stream.edges.outcomes import NOT_HELD

HASH = (1 << 31) - 1


@wraps_around
@njit(cache=True, nogil=True, forceinline=True)
def hash_of(relation, source, target, label):
    """Return a hash of 31 bits."""
    number = np.uint64(relation) | np.uint64(label + 1) << np.uint64(32)
    key = (np.uint64(source) << np.uint64(32) | np.uint64(target)) + number * np.uint64(0xC2B2AE3D27D4EB4F)
    key *= np.uint64(0x9E3779B97F4A7C15)
    return np.int64((key ^ (key >> np.uint64(32))) & np.uint64(HASH))


@njit(cache=True, nogil=True, forceinline=True)
def label_of(relations, relation, label):
    """Return the label, of these in the relation, of an edge with a label id."""
    return np.int64(relations.label_number[label]) if relations.relation[relation].has_labels != 0 else np.int64(NO_LABEL)


@njit(cache=True, nogil=True, forceinline=True)
def stored_label(relations, edge):
    """Return the label of an edge that is in a relation."""
    record = relations.edge[edge]
    has_labels = relations.relation[record.relation].has_labels != 0
    return np.int64(record.place[OUT]) if has_labels else np.int64(NO_LABEL)


@njit(cache=True, nogil=True, forceinline=True)
def find(relations, relation, source, target):
    """Return the number of an edge of a relation of one label, or 0 if the relation does not have it."""
    return find_labelled(relations, relation, source, target, np.int64(NO_LABEL))


@njit(cache=True, nogil=True, forceinline=True)
def find_labelled(relations, relation, source, target, label):
    """Return the number of an edge, or 0 if the relation does not have it."""
    table, mask = relations.table, relations.state.mask
    hashed = hash_of(relation, source, target, label)
    place = hashed & mask
    # No place from that of the hash to before `place` is free or has the edge. At most half of the table is full, so a free
    # place ends the search.
    while True:
        entry = table[place]
        if entry == 0:
            return np.int64(0)
        if entry >> 32 == hashed:
            edge = relations.edge[entry & LOW]
            is_of_label = label < 0 or edge.place[OUT] == label
            if edge.source == source and edge.target == target and edge.relation == relation and is_of_label:
                return entry & LOW
        place = (place + 1) & mask


@njit(cache=True, nogil=True, forceinline=True)
def enter(table, mask, hashed, edge):
    """Add an absent edge to the table, which must have room."""
    place = hashed & mask
    while table[place] != 0:
        place = (place + 1) & mask
    table[place] = hashed << 32 | edge


@njit(cache=True, nogil=True, forceinline=True)
def leave(relations, relation, source, target, label, edge):
    """Remove an edge from the table, and close the gap."""
    table = relations.table
    mask = relations.state.mask
    hashed = hash_of(relation, source, target, label)
    own_entry = hashed << 32 | edge
    gap = hashed & mask
    while table[gap] != own_entry:
        gap = (gap + 1) & mask
    place = gap
    # `gap` may be overwritten. The entries after it, up to `place`, are found from their hashes without passing it.
    while True:
        place = (place + 1) & mask
        entry = table[place]
        if entry == 0:
            break
        if (place - (entry >> 32)) & mask >= (place - gap) & mask:
            table[gap] = entry
            gap = place
    table[gap] = 0


@njit(cache=True, nogil=True)
def enter_all(old, table, mask):
    """Fill an empty table from another."""
    for i in range(len(old)):
        if old[i] != 0:
            enter(table, mask, old[i] >> 32, old[i] & LOW)


@njit(cache=True, nogil=True, forceinline=True)
def prefetch_edge(relations, relation, source, target, label):
    """Prefetch the place of an edge in the table."""
    prefetch_at(relations.table, hash_of(relation, source, target, label) & relations.state.mask)


@njit(cache=True, nogil=True, forceinline=True)
def prefetch_record(relations, relation, source, target):
    """Prefetch the record of the edge at that place, which most often is the edge that will be searched for."""
    entry = relations.table[hash_of(relation, source, target, np.int64(NO_LABEL)) & relations.state.mask]
    if entry != 0:
        prefetch_at(relations.edge, entry & LOW)


@njit(cache=True, nogil=True, forceinline=True)
def make_edge(relations, relation, source, target, label, time, expires):
    """Enter an edge that is not in the relation; return its number, or minus a `NEED_` code."""
    state, fields = relations.state, relations.relation[relation]
    if 2 * (state.live_edges + 1) > state.mask + 1:
        return np.int64(-NEED_TABLE)
    if not reserve(relations, relation, OUT, source) or not reserve(relations, relation, IN, target):
        return np.int64(-NEED_ARENA)
    edge = state.free_edge
    if edge != 0:
        state.free_edge = relations.edge[edge].next
    elif state.edges < state.edge_room:
        edge = state.edges
        state.edges += 1
    else:
        return np.int64(-NEED_EDGES)
    state.live_edges += 1
    fields.edges += 1
    record = relations.edge[edge]
    record.source = source
    record.target = target
    record.relation = relation
    if label >= 0:
        record.place[OUT] = label
    record.is_static = 0
    record.time = time
    record.expires = expires
    if expires != NOT_HELD:
        link(relations, fields.window, edge)
    else:
        record.previous = 0
        record.next = 0
    add(relations, relation, OUT, source, target, edge)
    add(relations, relation, IN, target, source, edge)
    enter(relations.table, state.mask, hash_of(relation, source, target, label), edge)
    return edge


@njit(cache=True, nogil=True, forceinline=True)
def make_younger(relations, edge, time, expires):
    """Refresh an edge with a later slide and time; smaller ones change nothing."""
    record = relations.edge[edge]
    record.time = max(record.time, time)
    if expires > record.expires:
        unlink(relations, edge)
        record.expires = expires
        link(relations, relations.relation[record.relation].window, edge)


@njit(cache=True, nogil=True)
def enter_window(relations, edge, time, expires):
    """Enter a static edge into the window, which does not hold it yet."""
    make_younger(relations, edge, time, expires)
    relations.relation[relations.edge[edge].relation].static_alone -= 1


@njit(cache=True, nogil=True)
def leave_window(relations, edge):
    """Remove a static edge from the window."""
    unlink(relations, edge)
    record = relations.edge[edge]
    record.previous = 0
    record.next = 0
    record.time = NOT_HELD
    record.expires = NOT_HELD
    relations.relation[record.relation].static_alone += 1


@njit(cache=True, nogil=True, forceinline=True)
def drop_edge(relations, edge):
    """Remove an edge from its relation."""
    state, record = relations.state, relations.edge[edge]
    source, target, relation = record.source, record.target, record.relation
    label = stored_label(relations, edge)
    unlink(relations, edge)
    remove(relations, relation, OUT, source, edge)
    remove(relations, relation, IN, target, edge)
    leave(relations, relation, source, target, label, edge)
    record.relation = -1
    record.next = state.free_edge
    state.free_edge = edge
    state.live_edges -= 1
    relations.relation[relation].edges -= 1
    if record.expires == NOT_HELD:
        relations.relation[relation].static_alone -= 1


@njit(cache=True, nogil=True)
def fill_side(relations, relation, side):
    """Enter the edges of a relation into the lists of a side that was not kept before; return False without room."""
    for edge in range(1, relations.state.edges):
        record = relations.edge[edge]
        if record.relation == relation:
            near, far = record.source, record.target
            if side == IN:
                near, far = far, near
            if not reserve(relations, relation, side, near):
                return False
            add(relations, relation, side, near, far, edge)
    return True


@njit(cache=True, nogil=True)
def enter_edges(relations, relation, source, target, label, time, expires, at):
    """Enter edges from number `at[0]` on into a relation whose window has none of them; return DONE or a `NEED_` code."""
    has_loops = relations.relation[relation].is_loopless == 0
    # The window has the edges before `at[0]`, except loops if the relation has none. An edge for which `make_edge` lacks
    # room is not in the relation, so the call resumes with it.
    while at[0] < len(source):
        i = at[0]
        if has_loops or source[i] != target[i]:
            u, v, one = np.int64(source[i]), np.int64(target[i]), np.int64(label[i])
            edge = find_labelled(relations, relation, u, v, one)
            if edge != 0:
                enter_window(relations, edge, time[i], expires[i])
            else:
                edge = make_edge(relations, relation, u, v, one, time[i], expires[i])
            if edge < 0:
                return -edge
        at[0] += 1
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def enter_static(relations, relation, source, target, label, at):
    """Make edges from number `at[0]` on static in a relation, whether it has them or not; return DONE or a `NEED_` code."""
    has_loops = relations.relation[relation].is_loopless == 0
    # The edges before `at[0]` are static, except loops if the relation has none. An edge for which `make_edge` lacks room is
    # not in the relation, so the call resumes with it.
    while at[0] < len(source):
        i = at[0]
        u, v, one = np.int64(source[i]), np.int64(target[i]), np.int64(label[i])
        if has_loops or u != v:
            edge = find_labelled(relations, relation, u, v, one)
            if edge == 0:
                never = np.int64(NOT_HELD)
                edge = make_edge(relations, relation, u, v, one, never, never)
                if edge < 0:
                    return -edge
                relations.relation[relation].static_alone += 1
            relations.edge[edge].is_static = 1
        at[0] += 1
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def drop_all(relations, relation):
    """Remove all edges from a relation."""
    for edge in range(1, relations.state.edges):
        if relations.edge[edge].relation == relation:
            drop_edge(relations, np.int64(edge))


@njit(cache=True, nogil=True)
def find_edges(relations, relation, source, target, label, found):
    """Write the numbers of edges, 0 for those that the relation does not have."""
    for i in range(len(source)):
        found[i] = find_labelled(relations, relation, np.int64(source[i]), np.int64(target[i]), np.int64(label[i]))


@njit(cache=True, nogil=True)
def find_expiries(relations, relation, source, target, label, found, absent):
    """Write the slides at which edges expire, `absent` for those that the relation does not have."""
    for i in range(len(source)):
        edge = find_labelled(relations, relation, np.int64(source[i]), np.int64(target[i]), np.int64(label[i]))
        found[i] = relations.edge[edge].expires if edge != 0 else absent
