"""Lists of neighbours: finding, adding and removing an entry, in the layout that `tables.py` explains."""

import numpy as np

from rpq.kernel_cache import njit
from rpq.patterns.tables import (
    ARENA,
    ARENA_ROOM,
    ARENA_TOP,
    BIT,
    CELL,
    CLASS,
    CLASS_SHIFT,
    EDGE,
    LENGTH,
    LOW,
    PLACE,
    RELATION_FIELDS,
    STRIDE,
    WORD,
)


@njit(cache=True, nogil=True, forceinline=True)
def span(lists, arena, cell):
    """First place and end of the list whose header is at `cell`."""
    header = lists[cell]
    if header >= 0:
        return cell, cell + (1 if header > 0 else 0)
    held = ~header
    start = arena + ((held >> 32) << 1)
    return start, start + (held & LENGTH)


@njit(cache=True, nogil=True, forceinline=True)
def list_length(header):
    """The entries of a list."""
    return (1 if header > 0 else 0) if header >= 0 else ~header & LENGTH


@njit(cache=True, nogil=True, forceinline=True)
def _release_region(relations, start, size_class):
    relations.lists[relations.state[ARENA] + start] = relations.free[size_class]
    relations.free[size_class] = start


@njit(cache=True, nogil=True)
def _enlarge(relations, cell, header):
    """Move a list that is full to a region twice as large; False, and nothing changed, without room."""
    lists, state = relations.lists, relations.state
    arena = state[ARENA]
    held = ~header
    size_class = np.int64(1) if header > 0 else ((held >> CLASS_SHIFT) & CLASS) + 1
    start = relations.free[size_class]
    if start >= 0:
        relations.free[size_class] = lists[arena + start]
    else:
        start = state[ARENA_TOP]
        if start + (1 << size_class) > state[ARENA_ROOM]:
            return False
        state[ARENA_TOP] = start + (1 << size_class)
    length = np.int64(1)
    if header > 0:
        lists[arena + start] = header
    else:
        length = held & LENGTH
        old = (held >> 32) << 1
        for i in range(length):
            lists[arena + start + i] = lists[arena + old + i]
        _release_region(relations, old, size_class - 1)
    lists[cell] = ~(start >> 1 << 32 | size_class << CLASS_SHIFT | length)
    return True


@njit(cache=True, nogil=True, forceinline=True)
def reserve(relations, relation, side, vertex):
    """Make room for one entry more in a list; False without room in the arena."""
    offset = relations.relation[relation * RELATION_FIELDS + CELL + side]
    if offset < 0:
        return True
    cell = vertex * relations.state[STRIDE] + offset
    header = relations.lists[cell]
    if header == 0:
        return True
    if header < 0:
        held = ~header
        if held & LENGTH < np.int64(1) << ((held >> CLASS_SHIFT) & CLASS):
            return True
    return _enlarge(relations, cell, header)


@njit(cache=True, nogil=True, forceinline=True)
def add(relations, relation, side, vertex, neighbour, edge):
    """Add an entry to a list in which room was reserved."""
    lists = relations.lists
    fields = relation * RELATION_FIELDS + side
    offset = relations.relation[fields + CELL]
    if offset < 0:
        return
    record = vertex * relations.state[STRIDE]
    entry = neighbour << 32 | edge
    header = lists[record + offset]
    place = np.int64(0)
    if header == 0:
        lists[record + offset] = entry
        lists[record + relations.relation[fields + WORD]] |= relations.relation[fields + BIT]
    else:
        held = ~header
        place = held & LENGTH
        lists[relations.state[ARENA] + ((held >> 32) << 1) + place] = entry
        lists[record + offset] = header - 1
    relations.edge[edge * EDGE + PLACE + side] = place


@njit(cache=True, nogil=True, forceinline=True)
def remove(relations, relation, side, vertex, edge):
    """Take the entry of an edge out of a list."""
    lists, edges = relations.lists, relations.edge
    fields = relation * RELATION_FIELDS + side
    offset = relations.relation[fields + CELL]
    if offset < 0:
        return
    record = vertex * relations.state[STRIDE]
    header = lists[record + offset]
    left = np.int64(0)
    if header < 0:
        held = ~header
        left = (held & LENGTH) - 1
        region = (held >> 32) << 1
        start = relations.state[ARENA] + region
        place = np.int64(edges[edge * EDGE + PLACE + side])
        if place != left:
            last = lists[start + left]
            lists[start + place] = last
            edges[(last & LOW) * EDGE + PLACE + side] = place
        lists[record + offset] = header + 1
        if left <= 1:
            lists[record + offset] = lists[start] if left == 1 else 0
            _release_region(relations, region, (held >> CLASS_SHIFT) & CLASS)
    else:
        lists[record + offset] = 0
    if left == 0:
        lists[record + relations.relation[fields + WORD]] &= ~relations.relation[fields + BIT]
