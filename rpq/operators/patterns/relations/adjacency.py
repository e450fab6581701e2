"""Neighbour lists: finding, adding and removing an entry, in the layout that `tables.py` explains."""

from __future__ import annotations

import numpy as np

from rpq.compiled.kernel_cache import njit
from rpq.operators.patterns.tables import CLASS, CLASS_SHIFT, CLASSES, LENGTH, LOW


@njit(cache=True, nogil=True, forceinline=True)
def place_of(relations, vertex, offset):
    """Return the place in `lists` of an offset in a vertex's record."""
    return vertex * relations.state.stride + offset


@njit(cache=True, nogil=True, forceinline=True)
def span(relations, vertex, offset):
    """Return the first place and the end of a vertex's list, whose header is at an offset in the vertex's record."""
    cell = place_of(relations, vertex, offset)
    header = relations.lists[cell]
    if header >= 0:
        return cell, cell + (1 if header > 0 else 0)
    fields = ~header
    start = relations.state.arena + ((fields >> 32) << 1)
    return start, start + (fields & LENGTH)


@njit(cache=True, nogil=True, forceinline=True)
def list_length(header):
    """Return the number of entries of a list."""
    return (1 if header > 0 else 0) if header >= 0 else ~header & LENGTH


@njit(cache=True, nogil=True, forceinline=True)
def _release_region(relations, start, size_class):
    relations.lists[relations.state.arena + start] = relations.free[size_class]
    relations.free[size_class] = start


@njit(cache=True, nogil=True)
def _enlarge(relations, cell, header):
    """Move a full list to a region twice as large; return False, with nothing changed, without room."""
    lists, state = relations.lists, relations.state
    arena = state.arena
    fields = ~header
    size_class = np.int64(1) if header > 0 else ((fields >> CLASS_SHIFT) & CLASS) + 1
    if size_class >= CLASSES:
        return False
    start = relations.free[size_class]
    if start >= 0:
        relations.free[size_class] = lists[arena + start]
    else:
        start = state.arena_top
        if start + (1 << size_class) > state.arena_room:
            return False
        state.arena_top = start + (1 << size_class)
    length = np.int64(1)
    if header > 0:
        lists[arena + start] = header
    else:
        length = fields & LENGTH
        old = (fields >> 32) << 1
        for i in range(length):
            lists[arena + start + i] = lists[arena + old + i]
        _release_region(relations, old, size_class - 1)
    lists[cell] = ~(start >> 1 << 32 | size_class << CLASS_SHIFT | length)
    return True


@njit(cache=True, nogil=True, forceinline=True)
def reserve_at(relations, cell):
    """Make room for one more entry in the list whose header is at `cell`; return False without room in the arena."""
    header = relations.lists[cell]
    if header == 0:
        return True
    if header < 0:
        fields = ~header
        if fields & LENGTH < np.int64(1) << ((fields >> CLASS_SHIFT) & CLASS):
            return True
    return _enlarge(relations, cell, header)


@njit(cache=True, nogil=True, forceinline=True)
def add_at(relations, cell, word, bit, entry):
    """Add an entry to a list in which room was reserved; return its place."""
    lists = relations.lists
    header = lists[cell]
    if header == 0:
        lists[cell] = entry
        lists[word] |= bit
        return np.int64(0)
    fields = ~header
    place = fields & LENGTH
    lists[relations.state.arena + ((fields >> 32) << 1) + place] = entry
    lists[cell] = header - 1
    return place


@njit(cache=True, nogil=True, forceinline=True)
def remove_at(relations, cell, word, bit, place):
    """Remove the entry at a place; return the entry that is there now, or 0, and how many are left."""
    lists = relations.lists
    header = lists[cell]
    moved, left = np.int64(0), np.int64(0)
    if header < 0:
        fields = ~header
        left = (fields & LENGTH) - 1
        region = (fields >> 32) << 1
        start = relations.state.arena + region
        if place != left:
            moved = lists[start + left]
            lists[start + place] = moved
        lists[cell] = header + 1
        if left <= 1:
            lists[cell] = lists[start] if left == 1 else 0
            _release_region(relations, region, (fields >> CLASS_SHIFT) & CLASS)
    else:
        lists[cell] = 0
    if left == 0:
        lists[word] &= ~bit
    return moved, left


@njit(cache=True, nogil=True, forceinline=True)
def reserve(relations, relation, side, vertex):
    """Make room for one more entry in the list of a relation's side; return False without room in the arena."""
    offset = relations.relation[relation].cell[side]
    return offset < 0 or reserve_at(relations, place_of(relations, vertex, offset))


@njit(cache=True, nogil=True, forceinline=True)
def add(relations, relation, side, vertex, neighbour, edge):
    """Add an edge to the list of a relation's side, in which room was reserved."""
    lists = relations.relation[relation]
    if lists.cell[side] >= 0:
        cell, word = place_of(relations, vertex, lists.cell[side]), place_of(relations, vertex, lists.word[side])
        relations.edge[edge].place[side] = add_at(relations, cell, word, lists.bit[side], neighbour << 32 | edge)


@njit(cache=True, nogil=True, forceinline=True)
def remove(relations, relation, side, vertex, edge):
    """Remove an edge from the list of a relation's side."""
    lists = relations.relation[relation]
    if lists.cell[side] >= 0:
        cell, word = place_of(relations, vertex, lists.cell[side]), place_of(relations, vertex, lists.word[side])
        place = np.int64(relations.edge[edge].place[side])
        moved, _ = remove_at(relations, cell, word, lists.bit[side], place)
        if moved != 0:
            relations.edge[moved & LOW].place[side] = place


@njit(cache=True, nogil=True)
def clear_header(relations, offset):
    """Empty the lists of all vertices under a header; their bits stay."""
    lists = relations.lists
    for vertex in range(relations.state.vertices):
        place = place_of(relations, vertex, offset)
        header = lists[place]
        if header < 0:
            _release_region(relations, (~header >> 32) << 1, (~header >> CLASS_SHIFT) & CLASS)
        lists[place] = 0
