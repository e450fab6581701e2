"""The lookup of seeds: in the chain of the relation that they read, and by the conditions that they need.

With conditions a seed belongs to an entry (the node that it needs at the source) of a group (its relation, and the node that
it needs at the target). Groups are chained at their node, those that need none there at their relation; an entry is looked
up by its group and node. Groups and entries are created with the first seed that needs them and removed with the last. Seeds
that need the same form one chain.

For a changing edge there are groups for the nodes that hold at its target, and for none. The nodes that hold at its source
are marked; in a group the entries whose node is marked are chosen, or, where there are far more entries than nodes at the
source, the entries of these nodes are looked up one by one.

Kernels never allocate: before seeds are linked there is room for a group and an entry of each.
"""

from __future__ import annotations

import numpy as np

from rpq.compiled.kernel_cache import njit
from rpq.patterns.joins.conditions import find, nodes_in_first, put
from rpq.patterns.tables import (
    ALIKE,
    ALIKE_BEFORE,
    AT_CANDIDATE,
    BLOCK,
    CANDIDATES,
    ENTRIES,
    ENTRY,
    ENTRY_COUNT,
    ENTRY_GROUP,
    ENTRY_KEYS,
    ENTRY_MASK,
    ENTRY_NODE,
    ENTRY_SEED,
    FIRST_BLOCK,
    FIRST_ENTRY,
    FIRST_GROUP,
    FIRST_NODE,
    FREE_ENTRY,
    FREE_GROUP,
    GROUP,
    GROUP_COUNT,
    GROUP_RELATION,
    GROUP_TARGET,
    GROUPS_READ,
    HELD_THERE,
    MARK,
    MARKED,
    NEEDS_SOURCE,
    NEEDS_TARGET,
    NEXT_BLOCK,
    NEXT_ENTRY,
    NEXT_GROUP,
    NEXT_SEED,
    NODE,
    NODES_A_BLOCK,
    NONE,
    ON,
    PREVIOUS_SEED,
    RELATION_FIELDS,
    SEED,
    SEED_ENTRY,
    SEED_FIELDS,
    SEED_RELATION,
    VERTEX,
)


@njit(cache=True, nogil=True)
def link_seeds(relations, plans, first, end):
    """Link seeds, so that they are found, in reverse order: chains are extended at their heads."""
    seeds = plans.seed
    for i in range(end - first):
        seed = end - 1 - i
        base = seed * SEED_FIELDS
        chain = seeds[base + SEED_RELATION] * RELATION_FIELDS + SEED
        after = relations.relation[chain]
        seeds[base + NEXT_SEED] = after
        seeds[base + PREVIOUS_SEED] = NONE
        if after != NONE:
            seeds[after * SEED_FIELDS + PREVIOUS_SEED] = seed
        relations.relation[chain] = seed
        if plans.conditions.state[ON]:
            _enter(plans, seed)


@njit(cache=True, nogil=True)
def unlink_seeds(relations, plans, first, end):
    """Unlink seeds. O(1) for each; where a group is left with fewer entries, O(these)."""
    seeds = plans.seed
    for seed in range(first, end):
        base = seed * SEED_FIELDS
        before, after = seeds[base + PREVIOUS_SEED], seeds[base + NEXT_SEED]
        if before != NONE:
            seeds[before * SEED_FIELDS + NEXT_SEED] = after
        else:
            relations.relation[seeds[base + SEED_RELATION] * RELATION_FIELDS + SEED] = after
        if after != NONE:
            seeds[after * SEED_FIELDS + PREVIOUS_SEED] = before
        if plans.conditions.state[ON]:
            _leave(plans, seed)


@njit(cache=True, nogil=True)
def _enter(plans, seed):
    conditions, base = plans.conditions, seed * SEED_FIELDS
    group = _group_of(conditions, plans.seed[base + SEED_RELATION], plans.seed[base + NEEDS_TARGET])
    entry = _entry_of(conditions, group, plans.seed[base + NEEDS_SOURCE])
    after = np.int64(conditions.entry[entry * ENTRY + ENTRY_SEED])
    plans.seed[base + ALIKE] = after
    plans.seed[base + ALIKE_BEFORE] = NONE
    plans.seed[base + SEED_ENTRY] = entry
    if after != NONE:
        plans.seed[after * SEED_FIELDS + ALIKE_BEFORE] = seed
    conditions.entry[entry * ENTRY + ENTRY_SEED] = seed


@njit(cache=True, nogil=True)
def _group_of(conditions, relation, target):
    """Return the group of a relation and a node at its targets; create it if missing."""
    head = target * NODE + FIRST_GROUP
    group = np.int64(conditions.node[head]) if target != 0 else np.int64(conditions.open_group[relation])
    while group != 0 and conditions.group[group * GROUP + GROUP_RELATION] != relation:
        group = np.int64(conditions.group[group * GROUP + NEXT_GROUP])
    if group != 0:
        return group
    state = conditions.state
    group = state[FREE_GROUP]
    if group != 0:
        state[FREE_GROUP] = np.int64(conditions.group[group * GROUP + NEXT_GROUP])
    else:
        group = state[GROUP_COUNT]
        state[GROUP_COUNT] += 1
    base = group * GROUP
    conditions.group[base + GROUP_RELATION] = relation
    conditions.group[base + GROUP_TARGET] = target
    conditions.group[base + FIRST_ENTRY] = 0
    conditions.group[base + ENTRIES] = 0
    if target != 0:
        conditions.group[base + NEXT_GROUP] = conditions.node[head]
        conditions.node[head] = group
        conditions.node[target * NODE + GROUPS_READ] |= np.int64(1) << relation % 31
    else:
        conditions.group[base + NEXT_GROUP] = 0
        conditions.open_group[relation] = group
    return group


@njit(cache=True, nogil=True)
def _entry_of(conditions, group, source):
    """Return the entry of a group and a node at its sources; create it if missing."""
    state, key = conditions.state, group << 32 | (source + 1)
    place = find(conditions.entries, state[ENTRY_MASK], key)
    if place >= 0 and conditions.entries[place] != 0:
        return conditions.entries[place]
    entry = state[FREE_ENTRY]
    if entry != 0:
        state[FREE_ENTRY] = np.int64(conditions.entry[entry * ENTRY + NEXT_ENTRY])
    else:
        entry = state[ENTRY_COUNT]
        state[ENTRY_COUNT] += 1
    base, head = entry * ENTRY, group * GROUP
    conditions.entry[base + ENTRY_NODE] = source
    conditions.entry[base + ENTRY_SEED] = NONE
    conditions.entry[base + NEXT_ENTRY] = conditions.group[head + FIRST_ENTRY]
    conditions.entry[base + ENTRY_GROUP] = group
    conditions.group[head + FIRST_ENTRY] = entry
    conditions.group[head + ENTRIES] += 1
    if put(conditions.entries, state[ENTRY_MASK], key, entry):
        state[ENTRY_KEYS] += 1
    return entry


@njit(cache=True, nogil=True)
def _leave(plans, seed):
    conditions, base = plans.conditions, seed * SEED_FIELDS
    before, after = plans.seed[base + ALIKE_BEFORE], plans.seed[base + ALIKE]
    if after != NONE:
        plans.seed[after * SEED_FIELDS + ALIKE_BEFORE] = before
    if before != NONE:
        plans.seed[before * SEED_FIELDS + ALIKE] = after
        return
    entry = plans.seed[base + SEED_ENTRY]
    conditions.entry[entry * ENTRY + ENTRY_SEED] = after
    if after == NONE:
        _drop_entry(conditions, entry)


@njit(cache=True, nogil=True)
def _drop_entry(conditions, entry):
    group = np.int64(conditions.entry[entry * ENTRY + ENTRY_GROUP])
    source = np.int64(conditions.entry[entry * ENTRY + ENTRY_NODE])
    put(conditions.entries, conditions.state[ENTRY_MASK], group << 32 | (source + 1), np.int64(0))
    _take_out(conditions.group, group * GROUP + FIRST_ENTRY, conditions.entry, ENTRY, NEXT_ENTRY, entry)
    conditions.entry[entry * ENTRY + NEXT_ENTRY] = conditions.state[FREE_ENTRY]
    conditions.state[FREE_ENTRY] = entry
    conditions.group[group * GROUP + ENTRIES] -= 1
    if conditions.group[group * GROUP + ENTRIES] == 0:
        _drop_group(conditions, group)


@njit(cache=True, nogil=True)
def _drop_group(conditions, group):
    target = np.int64(conditions.group[group * GROUP + GROUP_TARGET])
    if target == 0:
        conditions.open_group[conditions.group[group * GROUP + GROUP_RELATION]] = 0
    else:
        _take_out(conditions.node, target * NODE + FIRST_GROUP, conditions.group, GROUP, NEXT_GROUP, group)
    conditions.group[group * GROUP + NEXT_GROUP] = conditions.state[FREE_GROUP]
    conditions.state[FREE_GROUP] = group


@njit(cache=True, nogil=True)
def _take_out(heads, head, links, width, step, one):
    """Remove the record `one` from a linked list.

    The list begins at `heads[head]`; its records in `links` are `width` long, with the next record at `step`.
    """
    after = links[one * width + step]
    held = np.int64(heads[head])
    if held == one:
        heads[head] = after
        return
    while links[held * width + step] != one:
        held = np.int64(links[held * width + step])
    links[held * width + step] = after


WALKED = 8
"""The number of entries that are walked in the time in which one is looked up."""
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
    """Mark the nodes that hold at a vertex; return the mark.

    After the marks wrap around, a node may bear an old mark; then seeds are begun that have no solution.
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
    """Choose the seeds of a group whose condition at the source holds."""
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
    """Choose as candidates the seeds for which an edge of a relation may have solutions."""
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
    """Return the next candidate, or -1 if there is none."""
    state = conditions.state
    if state[AT_CANDIDATE] >= state[CANDIDATES]:
        return np.int64(-1)
    state[AT_CANDIDATE] += 1
    return np.int64(conditions.candidate[state[AT_CANDIDATE] - 1])
