"""From a changing edge to the seeds that it may bring to a solution.

Seeds are found by what they need: (relation, node at the source, node at the target). For the nodes that hold at the
target of an edge, and for none, there are groups of seeds. The nodes that hold at its source are marked; in a group the
entries whose node is marked are chosen, or, where these are far more than the nodes at the source, those are looked up one
by one. Seeds that need the same hang in one chain.
"""

import numpy as np

from rpq.compiled.kernel_cache import njit
from rpq.patterns.condition_tables import (
    AT_CANDIDATE,
    BLOCK,
    CANDIDATES,
    ENTRIES,
    ENTRY,
    ENTRY_MASK,
    ENTRY_NODE,
    ENTRY_SEED,
    FIRST_BLOCK,
    FIRST_ENTRY,
    FIRST_GROUP,
    FIRST_NODE,
    GROUP,
    GROUP_RELATION,
    GROUPS_READ,
    HELD_THERE,
    MARK,
    MARKED,
    NEXT_BLOCK,
    NEXT_ENTRY,
    NEXT_GROUP,
    NODE,
    NODES_A_BLOCK,
    VERTEX,
)
from rpq.patterns.conditions import find, nodes_in_first
from rpq.patterns.tables import ALIKE, SEED_FIELDS

WALKED = 8
"""So many entries are walked in the time in which one is looked up."""
_LAST_MARK = (1 << 31) - 1


@njit(cache=True, nogil=True, forceinline=True)
def _choose_entry(plans, entry):
    conditions = plans.conditions
    seed = np.int64(conditions.entry[entry * ENTRY + ENTRY_SEED])
    while seed >= 0:
        conditions.candidate[conditions.state[CANDIDATES]] = seed
        conditions.state[CANDIDATES] += 1
        seed = plans.seed[seed * SEED_FIELDS + ALIKE]


@njit(cache=True, nogil=True, forceinline=True)
def _choose_by_key(plans, group, node):
    conditions = plans.conditions
    place = find(conditions.entries, conditions.state[ENTRY_MASK], group << 32 | (node + 1))
    if place >= 0 and conditions.entries[place] != 0:
        _choose_entry(plans, conditions.entries[place])


@njit(cache=True, nogil=True)
def _mark_nodes(conditions, vertex):
    """Mark the nodes that hold at a vertex; the mark.

    Where numbers begin again a node may bear one of long ago, and seeds are begun that come to nothing.
    """
    mark = conditions.state[MARKED] % _LAST_MARK + 1
    conditions.state[MARKED] = mark
    block = np.int64(conditions.vertex[vertex * VERTEX + FIRST_BLOCK])
    count = nodes_in_first(np.int64(conditions.vertex[vertex * VERTEX + HELD_THERE]))
    while block != 0:
        first = block * BLOCK + FIRST_NODE
        for place in range(first, first + count):
            conditions.node[np.int64(conditions.block[place]) * NODE + MARK] = mark
        block = np.int64(conditions.block[block * BLOCK + NEXT_BLOCK])
        count = np.int64(NODES_A_BLOCK)
    conditions.node[MARK] = mark  # node 0 holds everywhere
    return mark


@njit(cache=True, nogil=True)
def _look_up_all(plans, group, vertex):
    """Choose the entries of a group by the nodes that hold at a vertex."""
    conditions = plans.conditions
    _choose_by_key(plans, group, np.int64(0))
    block = np.int64(conditions.vertex[vertex * VERTEX + FIRST_BLOCK])
    count = nodes_in_first(np.int64(conditions.vertex[vertex * VERTEX + HELD_THERE]))
    while block != 0:
        first = block * BLOCK + FIRST_NODE
        for place in range(first, first + count):
            _choose_by_key(plans, group, np.int64(conditions.block[place]))
        block = np.int64(conditions.block[block * BLOCK + NEXT_BLOCK])
        count = np.int64(NODES_A_BLOCK)


@njit(cache=True, nogil=True, forceinline=True)
def _choose_of_group(plans, group, source, mark):
    """The seeds of a group whose condition at the source holds."""
    conditions = plans.conditions
    if conditions.group[group * GROUP + ENTRIES] > WALKED * (conditions.vertex[source * VERTEX + HELD_THERE] + 1):
        _look_up_all(plans, group, source)
        return
    entry = np.int64(conditions.group[group * GROUP + FIRST_ENTRY])
    while entry != 0:
        if conditions.node[np.int64(conditions.entry[entry * ENTRY + ENTRY_NODE]) * NODE + MARK] == mark:
            _choose_entry(plans, entry)
        entry = np.int64(conditions.entry[entry * ENTRY + NEXT_ENTRY])


@njit(cache=True, nogil=True)
def choose_seeds(plans, relation, source, target):
    """Note the seeds that an edge of a relation may bring to a solution as candidates."""
    conditions = plans.conditions
    nodes, groups = conditions.node, conditions.group
    conditions.state[CANDIDATES] = conditions.state[AT_CANDIDATE] = 0
    mark = _mark_nodes(conditions, source)
    group = np.int64(conditions.open_group[relation])
    if group != 0:
        _choose_of_group(plans, group, source, mark)
    bit = np.int64(1) << relation % 31
    block = np.int64(conditions.vertex[target * VERTEX + FIRST_BLOCK])
    count = nodes_in_first(np.int64(conditions.vertex[target * VERTEX + HELD_THERE]))
    while block != 0:
        first = block * BLOCK + FIRST_NODE
        for place in range(first, first + count):
            node = np.int64(conditions.block[place]) * NODE
            if nodes[node + GROUPS_READ] & bit == 0:
                continue
            group = np.int64(nodes[node + FIRST_GROUP])
            while group != 0:
                if groups[group * GROUP + GROUP_RELATION] == relation:
                    _choose_of_group(plans, group, source, mark)
                group = np.int64(groups[group * GROUP + NEXT_GROUP])
        block = np.int64(conditions.block[block * BLOCK + NEXT_BLOCK])
        count = np.int64(NODES_A_BLOCK)


@njit(cache=True, nogil=True, forceinline=True)
def next_candidate(conditions):
    """The next of the candidates, -1 if there is none."""
    state = conditions.state
    if state[AT_CANDIDATE] >= state[CANDIDATES]:
        return np.int64(-1)
    state[AT_CANDIDATE] += 1
    return np.int64(conditions.candidate[state[AT_CANDIDATE] - 1])
