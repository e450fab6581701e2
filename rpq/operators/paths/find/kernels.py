"""Breadth-first searches in the product of the snapshot graph and an automaton.

A node is (vertex, state). The *forward* side knows the nodes that some word leads to from the source, the *backward* side
those from which some word leads to the target. A search for one path alternates between the two, edge by edge: the side
that has looked at fewer edges goes on, so a vertex with a million edges costs nothing where the other side is small. A
search for all ends has one side.

Nodes of the forward side are numbered from 0 up, those of the backward side from the last number down, each in the order of
its queue. A hash table finds them; its entries belong to one search, whose number they have, so nothing is cleared between
searches. If there is no room for another node, the search ends with `FULL`: it is repeated with more room.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rpq.compiled.arrays.hashing import home_of, mix
from rpq.compiled.intrinsics import wraps_around
from rpq.compiled.kernel_cache import njit
from rpq.compiled.views import Record, int64
from rpq.stream.edges.edge_store import COUNTED, STATIC
from rpq.stream.edges.outcomes import NOT_HELD

FORWARD, BACKWARD = 0, 1
NO_PATH, FOUND, FULL, OVER_BUDGET = 0, 1, 2, 3
_EXHAUSTED, _GOES_ON = 4, 5


class ExpressionSizes(Record):
    """The sizes of an automaton over labels."""

    _fields_ = (
        ("states", int64),
        ("classes", int64),
        ("labels", int64),  # label ids below this number may have letters
        ("guards", int64),
        ("accepting", int64),
        ("conditions", int64),
    )


class Letters(NamedTuple):
    """An automaton as tables. A *letter* is an edge of a label whose ends satisfy tests; an edge may have several."""

    letter_first: np.ndarray  # int32 a label id + 1: its letters
    forward: np.ndarray  # int16 a letter: the class of a step along such an edge, -1 none
    inverse: np.ndarray  # int16 a letter: the class of a step against it
    source: np.ndarray  # int32 a letter: the guard of the source of the edge, -1 none
    target: np.ndarray  # int32 a letter
    condition: np.ndarray  # int32 a letter: the condition that the edge has to satisfy, -1 none
    step: np.ndarray  # int32 a state * classes + class: the next state, -1 none
    step_back_first: np.ndarray  # int32 the same + 1: the states before it, in `step_back`
    step_back: np.ndarray  # int32
    accepting: np.ndarray  # uint8 a state
    accepting_states: np.ndarray  # int32
    uses: np.ndarray  # uint8 (side * states + state) * 2 + list: edges in the out-list (0) or the in-list (1) may lead on
    set_of: np.ndarray  # int32 a vertex: the set of guards that it satisfies
    holds: np.ndarray  # uint8 a set * guards + guard
    satisfied: np.ndarray  # uint8 an edge * conditions + condition
    sizes: ExpressionSizes


class SearchState(Record):
    """The state of a search."""

    _fields_ = (
        ("number", int64),  # of this search, as in the entries of the table
        ("room", int64),  # nodes
        ("entries", int64),  # of the table
        ("bound", int64),  # edges with a timestamp up to here have left the window
        ("column", int64),  # the count window in place of the bound, -1 none
        ("budget", int64),  # the edges that may be looked at
        ("looked", int64 * 2),  # a side: edges looked at
        ("end", int64 * 2),  # a side: its nodes
        ("head", int64 * 2),  # a side: the place in its queue of the node whose edges are looked at
        ("list", int64 * 2),  # a side: the next list of this node
        ("edge", int64 * 2),  # a side: the next edge, -1 none
        ("found", int64),  # ends
        ("last", int64),  # where the sides meet: the node from which one comes,
        ("step", int64),  # its step,
        ("met", int64),  # and the node of the other
    )


class Scratch(NamedTuple):
    """The arrays of a search."""

    table: np.ndarray  # int32: nodes, by hashes
    owner: np.ndarray  # int64 an entry of the table: the search
    vertex: np.ndarray  # int32 a node
    state: np.ndarray  # int32 a node
    parent: np.ndarray  # int32 a node: the one before it, -1 none
    edge: np.ndarray  # int64 a node: the step from there: edge << 1 | against
    found: np.ndarray  # int32: nodes that are ends
    fields: SearchState


@njit(cache=True, nogil=True, forceinline=True)
def _node(search, side, place):
    """Return the number of a node, given its place in the queue of its side."""
    return place if side == FORWARD else search.fields.room - 1 - place


@wraps_around
@njit(cache=True, nogil=True, forceinline=True)
def _look_up(search, vertex, state):
    """Return the entry with a node, or -1 - p if p is the place for it."""
    fields = search.fields
    place = home_of(fields.entries, mix((np.uint64(vertex) << np.uint64(32)) | np.uint64(state)))
    while search.owner[place] == fields.number:
        node = search.table[place]
        if search.vertex[node] == vertex and search.state[node] == state:
            return place
        place += 1
        if place == fields.entries:
            place = np.int64(0)
    return -1 - place


@njit(cache=True, nogil=True, forceinline=True)
def _enter(search, side, place, vertex, state, parent, step):
    """Enter a node at the place in the table that the search for it returned. Return `FULL` if there is no room."""
    fields = search.fields
    if fields.end[0] + fields.end[1] == fields.room:
        return FULL
    node = _node(search, side, fields.end[side])
    fields.end[side] += 1
    search.vertex[node] = vertex
    search.state[node] = state
    search.parent[node] = parent
    search.edge[node] = step
    search.table[-1 - place] = node
    search.owner[-1 - place] = fields.number
    return _GOES_ON


@njit(cache=True, nogil=True, forceinline=True)
def _is_live(edges, counted, fields, edge):
    """Return whether the window has an edge."""
    if edges.holders[edge] & STATIC != 0:
        return True
    if fields.column >= 0:
        return counted.leaves[edge * counted.fields[COUNTED] + fields.column] != NOT_HELD
    return edges.timestamp[edge] > fields.bound


@njit(cache=True, nogil=True, forceinline=True)
def _satisfies(letters, vertex, guard):
    return guard < 0 or letters.holds[letters.set_of[vertex] * letters.sizes.guards + guard] != 0


@njit(cache=True, nogil=True, forceinline=True)
def _step_to(edges, counted, search, side, vertex, state, node, edge, against):
    """Take a step to a node. Return `FOUND` if the other side has it, `FULL`, or `_GOES_ON`."""
    fields, step = search.fields, edge << 1 | against
    place = _look_up(search, vertex, state)
    if place < 0:  # whether the window has an edge matters only now
        if not _is_live(edges, counted, fields, edge):
            return _GOES_ON
        return _enter(search, side, place, vertex, state, node, step)
    other = np.int64(search.table[place])
    if (other < fields.end[FORWARD]) == (side == FORWARD) or not _is_live(edges, counted, fields, edge):
        return _GOES_ON
    fields.last, fields.step, fields.met = node, step, other
    return FOUND


@njit(cache=True, nogil=True)
def _look_at(edges, counted, letters, search, side, node, edge, against):
    """Take the steps over an edge from a node; `against` is whether paths pass it against its direction."""
    sizes = letters.sizes
    label = np.int64(edges.label[edge])
    if label >= sizes.labels:
        return _GOES_ON
    state, result = np.int64(search.state[node]), _GOES_ON
    source, target = np.int64(edges.source[edge]), np.int64(edges.target[edge])
    vertex = target if against == side else source
    for letter in range(np.int64(letters.letter_first[label]), np.int64(letters.letter_first[label + 1])):
        number = np.int64(letters.inverse[letter] if against else letters.forward[letter])
        if number < 0:
            continue
        if not (_satisfies(letters, source, letters.source[letter]) and _satisfies(letters, target, letters.target[letter])):
            continue
        condition = letters.condition[letter]
        if condition >= 0 and letters.satisfied[edge * sizes.conditions + condition] == 0:
            continue
        at = state * sizes.classes + number
        if side == FORWARD:
            if letters.step[at] >= 0:
                result = _step_to(edges, counted, search, side, vertex, np.int64(letters.step[at]), node, edge, against)
        else:
            for i in range(np.int64(letters.step_back_first[at]), np.int64(letters.step_back_first[at + 1])):
                before = np.int64(letters.step_back[i])
                result = _step_to(edges, counted, search, side, vertex, before, node, edge, against)
                if result != _GOES_ON:
                    break
        if result != _GOES_ON:
            break
    return result


@njit(cache=True, nogil=True)
def _go_on(edges, links, counted, letters, search, side):
    """Look at the next edge of a side. Return `FOUND`, `FULL`, `_EXHAUSTED` where there is none, or `_GOES_ON`."""
    fields = search.fields
    while fields.edge[side] < 0:
        if fields.list[side] == 2:
            fields.head[side] += 1
            fields.list[side] = 0
        if fields.head[side] == fields.end[side]:
            return _EXHAUSTED
        node = _node(search, side, fields.head[side])
        is_in = fields.list[side]
        if letters.uses[(side * letters.sizes.states + search.state[node]) * 2 + is_in]:
            vertex = search.vertex[node]
            fields.edge[side] = np.int64(links.first_in[vertex] if is_in else links.first_out[vertex])
        fields.list[side] += 1
    is_in, edge = fields.list[side] - 1, fields.edge[side]
    fields.edge[side] = np.int64(links.next_in[edge] if is_in else links.next_out[edge])
    fields.looked[side] += 1
    node = _node(search, side, fields.head[side])
    return _look_at(edges, counted, letters, search, side, node, edge, is_in ^ side)


@njit(cache=True, nogil=True)
def _begin(letters, search):
    """Begin a search without nodes."""
    fields = search.fields
    fields.number += 1
    for side in range(2):
        fields.end[side] = 0
        fields.head[side] = 0
        fields.list[side] = 0
        fields.edge[side] = -1
        fields.looked[side] = 0


@njit(cache=True, nogil=True)
def _enter_root(letters, search, side, vertex):
    """Enter the nodes with which paths begin at a vertex, or end there. Return `FULL` if there is no room."""
    result = _GOES_ON
    for i in range(1 if side == FORWARD else letters.sizes.accepting):
        state = np.int64(0 if side == FORWARD else letters.accepting_states[i])
        result = _enter(search, side, _look_up(search, vertex, state), vertex, state, np.int64(-1), np.int64(0))
        if result == FULL:
            break
    return result


@njit(cache=True, nogil=True)
def find_path(edges, links, counted, letters, search, source, target):
    """Search for a path between two vertices. Return `FOUND` with the nodes at which the sides meet, or why there is none.

    Each side has entered every node that its edges so far lead to, so once one has no more edges the two would have met.
    """
    fields = search.fields
    _begin(letters, search)
    if _enter_root(letters, search, FORWARD, source) == FULL or _enter_root(letters, search, BACKWARD, target) == FULL:
        return FULL
    while True:
        side = FORWARD if fields.looked[FORWARD] <= fields.looked[BACKWARD] else BACKWARD
        result = _go_on(edges, links, counted, letters, search, side)
        if result == _EXHAUSTED:
            return NO_PATH
        if fields.looked[FORWARD] + fields.looked[BACKWARD] > fields.budget:
            return OVER_BUDGET
        if result != _GOES_ON:
            return result


@njit(cache=True, nogil=True)
def find_ends(edges, links, counted, letters, search, side, root, ends, limit):
    """Search for the other ends of the paths from a root, or to it, up to `limit` of them, and write their nodes.

    `ends` are the vertices that count, ascending; all if there are none. Return `NO_PATH` where there are no more ends.
    """
    fields = search.fields
    _begin(letters, search)
    fields.found = 0
    if _enter_root(letters, search, side, root) == FULL:
        return FULL
    seen = fields.end[side]
    most = min(limit, len(ends)) if len(ends) else limit
    while fields.found < most:
        result = _go_on(edges, links, counted, letters, search, side)
        if result == _EXHAUSTED:
            return NO_PATH
        if fields.looked[side] > fields.budget:
            return OVER_BUDGET
        if result != _GOES_ON:
            return result
        # All nodes up to `seen` are among the ends, if they are ends.
        while seen < fields.end[side] and fields.found < most:
            node = _node(search, side, seen)
            seen += 1
            if _is_new_end(letters, search, side, node) and _is_among(ends, search.vertex[node]):
                search.found[fields.found] = node
                fields.found += 1
    return FOUND


@njit(cache=True, nogil=True)
def _is_new_end(letters, search, side, node):
    """Return whether a path ends in a node, and in no earlier one with its vertex."""
    state = np.int64(search.state[node])
    if side == BACKWARD:
        return state == 0
    if not letters.accepting[state]:
        return False
    for i in range(letters.sizes.accepting):
        other = np.int64(letters.accepting_states[i])
        if other != state:
            place = _look_up(search, np.int64(search.vertex[node]), other)
            if place >= 0 and search.table[place] < node:
                return False
    return True


@njit(cache=True, nogil=True)
def _is_among(ends, vertex):
    """Return whether a vertex is among ends, ascending; true where there are none."""
    if len(ends) == 0:
        return True
    low, high = 0, len(ends)
    while low < high:
        middle = (low + high) >> 1
        if ends[middle] < vertex:
            low = middle + 1
        else:
            high = middle
    return low < len(ends) and ends[low] == vertex
