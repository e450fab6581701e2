"""Conditions of patterns that come and go, while there are edges: what is new is filled, and what is not needed forgotten.

`condition_graph.py` calls these between chunks, the parents after their children; `conditions.py` has the upkeep.
"""

import numpy as np

from rpq.compiled.kernel_cache import njit
from rpq.patterns.adjacency import span
from rpq.patterns.condition_tables import (
    BRANCH,
    BRANCH_RELATION,
    BRANCH_SIDE,
    CHILD,
    COMES,
    COUNTER_MASK,
    FILL_RECORD,
    FIRST_HELD,
    HELD_MASK,
    HELD_VERTEX,
    NEXT_OF_NODE,
    NODE,
    OF_BRANCH,
    PART,
    PART_FIELDS,
    RECORD,
)
from rpq.patterns.conditions import begin_to_hold, cease_to_hold, find, has_all, has_room, holds, push, spread
from rpq.patterns.tables import ARENA, CELL, DONE, NEED_CONDITIONS, RELATION_FIELDS, STRIDE


@njit(cache=True, nogil=True)
def let_hold(relations, conditions, node, vertex):
    """Let the node of a constant hold at its vertex, if it does not yet. DONE or NEED_CONDITIONS."""
    if not holds(conditions, node, vertex):
        if not has_room(conditions, np.int64(1)):
            return np.int64(NEED_CONDITIONS)
        conditions.state[COMES] = 1
        begin_to_hold(conditions, node, vertex)
    return spread(relations, conditions)


@njit(cache=True, nogil=True)
def fill_branch(relations, conditions, branch):
    """Count for a new branch whose child is not new, from record FILL_RECORD of that on. DONE or NEED_CONDITIONS."""
    state = conditions.state
    state[COMES] = 1
    while True:
        if spread(relations, conditions) != DONE:
            return np.int64(NEED_CONDITIONS)
        record = state[FILL_RECORD]
        if record == 0:
            return np.int64(DONE)
        if not has_room(conditions, np.int64(1)):
            return np.int64(NEED_CONDITIONS)
        push(conditions, np.int64(conditions.record[record * RECORD + HELD_VERTEX]), branch, np.int64(1))
        state[FILL_RECORD] = np.int64(conditions.record[record * RECORD + NEXT_OF_NODE])


@njit(cache=True, nogil=True)
def fill_node(relations, conditions, node):
    """Let a new node hold where all its branches, none of which is new, are. DONE or NEED_CONDITIONS: call it again."""
    state = conditions.state
    state[COMES] = 1
    branch = np.int64(conditions.part[np.int64(conditions.node[node * NODE + PART]) * PART_FIELDS + OF_BRANCH])
    base = branch * BRANCH
    fields = np.int64(conditions.branch[base + BRANCH_RELATION]) * RELATION_FIELDS + CELL + 1
    fields -= conditions.branch[base + BRANCH_SIDE]
    while True:
        if spread(relations, conditions) != DONE:
            return np.int64(NEED_CONDITIONS)
        record = state[FILL_RECORD]
        if record == 0:
            return np.int64(DONE)
        vertex = np.int64(conditions.record[record * RECORD + HELD_VERTEX])
        cell = vertex * relations.state[STRIDE] + relations.relation[fields]
        position, end = span(relations.lists, relations.state[ARENA], cell)
        while position < end:
            parent = relations.lists[position] >> 32
            if not holds(conditions, node, parent) and has_all(conditions, node, parent, branch):
                if not has_room(conditions, np.int64(1)):
                    return np.int64(NEED_CONDITIONS)
                begin_to_hold(conditions, node, parent)
            position += 1
        state[FILL_RECORD] = np.int64(conditions.record[record * RECORD + NEXT_OF_NODE])


@njit(cache=True, nogil=True)
def clear_branch(relations, conditions, branch):
    """Forget the counters of a branch that no node has any more, while its child holds where it did."""
    base = branch * BRANCH
    fields = np.int64(conditions.branch[base + BRANCH_RELATION]) * RELATION_FIELDS + CELL + 1
    fields -= conditions.branch[base + BRANCH_SIDE]
    record = np.int64(conditions.node[np.int64(conditions.branch[base + CHILD]) * NODE + FIRST_HELD])
    while record != 0:
        vertex = np.int64(conditions.record[record * RECORD + HELD_VERTEX])
        cell = vertex * relations.state[STRIDE] + relations.relation[fields]
        position, end = span(relations.lists, relations.state[ARENA], cell)
        while position < end:
            key = branch << 32 | (relations.lists[position] >> 32)
            place = find(conditions.counter, conditions.state[COUNTER_MASK], key)
            if place >= 0:
                conditions.counter[place] = 0
            position += 1
        record = np.int64(conditions.record[record * RECORD + NEXT_OF_NODE])


@njit(cache=True, nogil=True)
def clear_node(conditions, node):
    """Let a node hold nowhere, whatever its parents are."""
    while conditions.node[node * NODE + FIRST_HELD] != 0:
        record = np.int64(conditions.node[node * NODE + FIRST_HELD])
        vertex = np.int64(conditions.record[record * RECORD + HELD_VERTEX])
        place = find(conditions.held, conditions.state[HELD_MASK], node << 32 | vertex)
        cease_to_hold(conditions, node, vertex, place)
