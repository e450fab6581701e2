"""The lookup of seeds: in the chain of the relation that they read, and by the conditions that they need.

With conditions, a seed belongs to an entry (the node that it needs at the source) of a group (its relation, and the node
that it needs at the target). Groups are chained at their node, or, if they need no node at the target, stored with their
relation. An entry is looked up by its group and node. Groups and entries are created with the first seed that needs them and
removed with the last. Seeds with the same needs form one chain.

The groups for a changing edge are those of the nodes that hold at its target, and the one that needs none. The nodes that
hold at its source are marked. In a group, the entries with a marked node are chosen; if there are far more entries than
nodes at the source, the entries of these nodes are looked up one by one.

Kernels never allocate: before seeds are linked, there must be room for a group and an entry of each.
"""

from __future__ import annotations

import numpy as np

from rpq.compiled.intrinsics import wraps_around
from rpq.compiled.kernel_cache import njit
from rpq.operators.patterns.joins.conditions import first_place, next_place
from rpq.operators.patterns.tables import NONE, group_bit


@wraps_around
@njit(cache=True, nogil=True, forceinline=True)
def _hash(key):
    mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64((mixed ^ (mixed >> np.uint64(29))) >> np.uint64(3))


@njit(cache=True, nogil=True, forceinline=True)
def _find(table, mask, key):
    """Return the index of a key's value in a table, or -1 if the key is absent."""
    place = _hash(key) & mask
    # No place from that of the hash to before `place` is free or has the key.
    while True:
        present = table[2 * place]
        if present == key:
            return 2 * place + 1
        if present == 0:
            return np.int64(-1)
        place = (place + 1) & mask


@njit(cache=True, nogil=True, forceinline=True)
def _place(table, mask, key):
    """Return the index of a key's value, or the index of a free place for it. The table must have room."""
    place = _hash(key) & mask
    while table[2 * place] != 0 and table[2 * place] != key:
        place = (place + 1) & mask
    return 2 * place + 1


@njit(cache=True, nogil=True)
def _put(table, mask, key, value):
    """Set the value of a key. Return whether the key is new. The table must have room."""
    place = _place(table, mask, key)
    is_new = table[place - 1] == 0
    table[place - 1] = key
    table[place] = value
    return is_new


@njit(cache=True, nogil=True)
def refill(old, table):
    """Fill an empty table with the keys of another table whose value is not 0. Return their number."""
    count = 0
    mask = len(table) // 2 - 1
    for i in range(0, len(old), 2):
        if old[i] != 0 and old[i + 1] != 0:
            _put(table, mask, old[i], old[i + 1])
            count += 1
    return count


@njit(cache=True, nogil=True)
def link_seeds(relations, plans, first, end):
    """Link seeds, so that changes of their relations find them. They are linked in reverse, since chains grow at their
    heads."""
    for i in range(end - first):
        number = end - 1 - i
        seed = plans.seed[number]
        relation = relations.relation[seed.relation]
        seed.next = relation.first_seed
        seed.previous = NONE
        if seed.next != NONE:
            plans.seed[seed.next].previous = number
        relation.first_seed = number
        if plans.conditions.state.is_enabled:
            _enter(plans, number)


@njit(cache=True, nogil=True)
def unlink_seeds(relations, plans, first, end):
    """Unlink seeds. O(1) for each; O(entries of its group) if an entry is removed."""
    for number in range(first, end):
        seed = plans.seed[number]
        if seed.previous != NONE:
            plans.seed[seed.previous].next = seed.next
        else:
            relations.relation[seed.relation].first_seed = seed.next
        if seed.next != NONE:
            plans.seed[seed.next].previous = seed.previous
        if plans.conditions.state.is_enabled:
            _leave(plans, seed)


@njit(cache=True, nogil=True)
def _enter(plans, number):
    conditions, seed = plans.conditions, plans.seed[number]
    group = _group_of(conditions, seed.relation, seed.needs_target)
    seed.entry = _entry_of(conditions, group, seed.needs_source)
    entry = conditions.entry[seed.entry]
    seed.next_alike = entry.seed
    seed.previous_alike = NONE
    if entry.seed != NONE:
        plans.seed[entry.seed].previous_alike = number
    entry.seed = number


@njit(cache=True, nogil=True)
def _group_of(conditions, relation, target):
    """Return the group of a relation and a node at its targets. Create it if missing."""
    state, node = conditions.state, conditions.node[target]
    number = node.first_group if target != 0 else np.int64(conditions.open_group[relation])
    while number != 0 and conditions.group[number].relation != relation:
        number = conditions.group[number].next
    if number != 0:
        return number
    number = state.free_group
    if number != 0:
        state.free_group = conditions.group[number].next
    else:
        number = state.groups
        state.groups += 1
    group = conditions.group[number]
    group.relation = relation
    group.target = target
    group.first_entry = 0
    group.entries = 0
    if target != 0:
        group.next = node.first_group
        node.first_group = number
        node.groups_read |= group_bit(relation)
    else:
        group.next = 0
        conditions.open_group[relation] = number
    return number


@njit(cache=True, nogil=True)
def _entry_of(conditions, group, source):
    """Return the entry of a group and a node at its sources. Create it if missing."""
    state, key = conditions.state, group << 32 | (source + 1)
    place = _find(conditions.entries, state.entry_mask, key)
    if place >= 0 and conditions.entries[place] != 0:
        return conditions.entries[place]
    number = state.free_entry
    if number != 0:
        state.free_entry = conditions.entry[number].next
    else:
        number = state.entries
        state.entries += 1
    entry, head = conditions.entry[number], conditions.group[group]
    entry.node = source
    entry.seed = NONE
    entry.next = head.first_entry
    entry.group = group
    head.first_entry = number
    head.entries += 1
    if _put(conditions.entries, state.entry_mask, key, number):
        state.entry_keys += 1
    return number


@njit(cache=True, nogil=True)
def _leave(plans, seed):
    if seed.next_alike != NONE:
        plans.seed[seed.next_alike].previous_alike = seed.previous_alike
    if seed.previous_alike != NONE:
        plans.seed[seed.previous_alike].next_alike = seed.next_alike
        return
    plans.conditions.entry[seed.entry].seed = seed.next_alike
    if seed.next_alike == NONE:
        _drop_entry(plans.conditions, seed.entry)


@njit(cache=True, nogil=True)
def _drop_entry(conditions, number):
    entry = conditions.entry[number]
    group = conditions.group[entry.group]
    _put(conditions.entries, conditions.state.entry_mask, entry.group << 32 | (entry.node + 1), np.int64(0))
    group.first_entry = _unlink(conditions.entry, group.first_entry, number)
    entry.next = conditions.state.free_entry
    conditions.state.free_entry = number
    group.entries -= 1
    if group.entries == 0:
        _drop_group(conditions, entry.group)


@njit(cache=True, nogil=True)
def _drop_group(conditions, number):
    group = conditions.group[number]
    if group.target == 0:
        conditions.open_group[group.relation] = 0
    else:
        node = conditions.node[group.target]
        node.first_group = _unlink(conditions.group, node.first_group, number)
    group.next = conditions.state.free_group
    conditions.state.free_group = number


@njit(cache=True, nogil=True)
def _unlink(records, first, number):
    """Remove a record from the chain of records that begins with `first`. Return the first record of the new chain."""
    if first == number:
        return records[number].next
    previous = records[first]
    while previous.next != number:
        previous = records[previous.next]
    previous.next = records[number].next
    return first


WALKED_ENTRIES = 8
"""The number of entries that can be examined in the time in which one is looked up."""
_LAST_MARK = (1 << 31) - 1


@njit(cache=True, nogil=True, forceinline=True)
def _choose_entry(plans, entry):
    conditions = plans.conditions
    seed = conditions.entry[entry].seed
    while seed >= 0:
        conditions.candidate[conditions.state.candidates] = seed
        conditions.state.candidates += 1
        seed = plans.seed[seed].next_alike


@njit(cache=True, nogil=True, forceinline=True)
def _choose_by_key(plans, group, node):
    conditions = plans.conditions
    place = _find(conditions.entries, conditions.state.entry_mask, group << 32 | (node + 1))
    if place >= 0 and conditions.entries[place] != 0:
        _choose_entry(plans, conditions.entries[place])


@njit(cache=True, nogil=True)
def _mark_nodes(conditions, vertex):
    """Mark the nodes that hold at a vertex. Return the mark.

    After the marks wrap around, a node may bear an old mark. Then seeds are begun that have no solution.
    """
    mark = conditions.state.marked_edges % _LAST_MARK + 1
    conditions.state.marked_edges = mark
    place = first_place(conditions, vertex)
    while place != 0:
        conditions.node[conditions.block[place]].mark = mark
        place = next_place(conditions, place)
    conditions.node[0].mark = mark  # node 0 holds everywhere
    return mark


@njit(cache=True, nogil=True)
def _look_up_entries(plans, group, vertex):
    """Choose the entries of a group by the nodes that hold at a vertex."""
    conditions = plans.conditions
    _choose_by_key(plans, group, np.int64(0))
    place = first_place(conditions, vertex)
    while place != 0:
        _choose_by_key(plans, group, np.int64(conditions.block[place]))
        place = next_place(conditions, place)


@njit(cache=True, nogil=True, forceinline=True)
def _choose_of_group(plans, group, source, mark):
    """Choose the seeds of a group whose condition at the source holds."""
    conditions = plans.conditions
    if conditions.group[group].entries > WALKED_ENTRIES * (conditions.vertex[source].count + 1):
        _look_up_entries(plans, group, source)
        return
    number = conditions.group[group].first_entry
    while number != 0:
        entry = conditions.entry[number]
        if conditions.node[entry.node].mark == mark:
            _choose_entry(plans, number)
        number = entry.next


@njit(cache=True, nogil=True)
def choose_seeds(plans, relation, source, target):
    """Choose as candidates the seeds for which an edge of a relation may have solutions."""
    conditions = plans.conditions
    conditions.state.candidates = conditions.state.next_candidate = 0
    mark = _mark_nodes(conditions, source)
    group = np.int64(conditions.open_group[relation])
    if group != 0:
        _choose_of_group(plans, group, source, mark)
    bit = group_bit(relation)
    place = first_place(conditions, target)
    # Candidates are chosen from the group that needs no node at the target and from those of the nodes before `place`.
    while place != 0:
        node = conditions.node[conditions.block[place]]
        group = node.first_group if node.groups_read & bit != 0 else np.int64(0)
        while group != 0:
            if conditions.group[group].relation == relation:
                _choose_of_group(plans, group, source, mark)
            group = conditions.group[group].next
        place = next_place(conditions, place)


@njit(cache=True, nogil=True, forceinline=True)
def next_candidate(conditions):
    """Return the next candidate, or -1 if there is none."""
    state = conditions.state
    if state.next_candidate >= state.candidates:
        return np.int64(-1)
    state.next_candidate += 1
    return np.int64(conditions.candidate[state.next_candidate - 1])
