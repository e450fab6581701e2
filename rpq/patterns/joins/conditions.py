"""Shared conditions: which vertices can take part in a solution of which patterns, kept for all patterns at once.

With thousands of patterns a changing edge must not be tried with each atom that reads its relation. What rules most of
them out are constants a few edges away. So each pattern is seen as a tree (one that spans it, with a separate leaf for each
place of a constant), and for each of its atoms, in both directions, there is a *node*: the condition at the atom's end
under which the rest of the tree behind it may have a solution. A node is a set of *branches*: an edge of a relation,
outward or inward, to a vertex at which another node holds. A constant is a node that holds at its vertex. Equal nodes and
branches of all patterns are shared (`condition_graph.py`), so that thousands of patterns have some ten thousands of them.

Only branches that lead to a constant are kept. The look-ahead of the join checks that a vertex has an edge of a relation
at all; variables without a constant behind them hold nearly everywhere, and leaving them out makes the upkeep six times
cheaper, for a search that is hardly longer. So a condition is *necessary*, not sufficient: it decides which seeds are
begun and which values are descended into, and never which rows result. Hence rows do not depend on sharing.

The upkeep is counting. For each branch and vertex a counter has the number of neighbours at which the child holds; a
node holds where the counters of all its branches are above zero. A change spreads towards the parents, along the
adjacency lists; as trees are finite, counting is exact, for edges that enter and edges that leave alike:

- An edge that enters is in its lists already. First those of its branches are noted whose child holds now; their
  counters go up. Where a node begins to hold, the counters of its parents go up along all edges there, the new one
  included: it cannot be among those noted, as the node did not hold then. So each is counted once.
- An edge that leaves is reported first, then removed from its lists, then the same is done downward.

Relations are those of a label, a window and a stream, so windows need no treatment here: what expires is removed.

The nodes that hold at a vertex are stored in contiguous blocks, since with a hundred thousand patterns thousands hold at
many vertices. `seeds.py` finds the seeds of an edge by them.

`condition_graph.py` calls the functions that fill and clear branches and nodes between chunks, for the parents after their
children, while there are edges.

Kernels never allocate. Before a counter changes there is room for all that this one change can cause (a record and a frame
for each node with the branch); else they return NEED_CONDITIONS, and the same call goes on after Python has made room.
"""

from __future__ import annotations

import numpy as np

from rpq.compiled.intrinsics import wraps_around
from rpq.compiled.kernel_cache import njit
from rpq.compiled.prefetching import prefetch_at
from rpq.patterns.relations.adjacency import span
from rpq.patterns.tables import (
    ARENA,
    AT_BRANCH,
    AT_END,
    AT_POSITION,
    AT_VERTEX,
    BLOCK,
    BLOCK_PLACE,
    BLOCK_ROOM,
    BLOCKS,
    BRANCH,
    BRANCH_RELATION,
    BRANCH_SIDE,
    BUSY,
    CELL,
    CHILD,
    COMES,
    COUNTER_MASK,
    COUNTERS,
    DEPTH,
    DONE,
    FILL_RECORD,
    FIRST_BLOCK,
    FIRST_HELD,
    FIRST_NODE,
    FIRST_PARENT,
    FIRST_USE,
    FREE_BLOCK,
    FREE_RECORD,
    HELD_MASK,
    HELD_NODE,
    HELD_THERE,
    HELD_VERTEX,
    HELDS,
    LIVE_RECORDS,
    LOW,
    NEED_CONDITIONS,
    NEXT_BLOCK,
    NEXT_OF_NODE,
    NEXT_PARENT,
    NEXT_USE,
    NODE,
    NODES_A_BLOCK,
    OF_BRANCH,
    OF_NODE,
    ONLY,
    PARENTS_READ,
    PART,
    PART_END,
    PART_FIELDS,
    PENDING,
    PENDING_AT,
    PENDING_ROOM,
    PREVIOUS_OF_NODE,
    RECORD,
    RECORD_ROOM,
    RECORDS,
    RELATION_FIELDS,
    STACK,
    STACK_ROOM,
    STRIDE,
    USES,
    VERTEX,
    WORK,
)

AHEAD = 8
"""The number of counters that are prefetched ahead."""


@wraps_around
@njit(cache=True, nogil=True, forceinline=True)
def _hash(key):
    mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64((mixed ^ (mixed >> np.uint64(29))) >> np.uint64(3))


@njit(cache=True, nogil=True, forceinline=True)
def find(table, mask, key):
    """Return the index of a key's value in a table, or -1 if the key is absent."""
    place = _hash(key) & mask
    while True:
        held = table[2 * place]
        if held == key:
            return 2 * place + 1
        if held == 0:
            return np.int64(-1)
        place = (place + 1) & mask


@njit(cache=True, nogil=True, forceinline=True)
def _place(table, mask, key):
    """Return the index of a key's value, or an empty one where the key and its value can be put.

    The table must have room.
    """
    place = _hash(key) & mask
    while table[2 * place] != 0 and table[2 * place] != key:
        place = (place + 1) & mask
    return 2 * place + 1


@njit(cache=True, nogil=True)
def put(table, mask, key, value):
    """Set the value of a key; return whether the key is new. The table must have room."""
    place = _place(table, mask, key)
    is_new = table[place - 1] == 0
    table[place - 1] = key
    table[place] = value
    return is_new


@njit(cache=True, nogil=True)
def refill(old, table):
    """Fill an empty table with the keys of another whose value is not 0; return their number."""
    count = 0
    mask = len(table) // 2 - 1
    for i in range(0, len(old), 2):
        if old[i] != 0 and old[i + 1] != 0:
            put(table, mask, old[i], old[i + 1])
            count += 1
    return count


@njit(cache=True, nogil=True, forceinline=True)
def holds(conditions, node, vertex):
    """Return whether a node holds at a vertex."""
    if node == 0:
        return True
    place = find(conditions.held, conditions.state[HELD_MASK], node << 32 | vertex)
    return place >= 0 and conditions.held[place] != 0


@njit(cache=True, nogil=True, forceinline=True)
def nodes_in_first(held_there):
    """Return how many nodes are in the first block of a vertex at which `held_there` nodes hold."""
    return (held_there - 1) % NODES_A_BLOCK + 1 if held_there > 0 else np.int64(0)


@njit(cache=True, nogil=True, forceinline=True)
def _put_in_block(conditions, node, vertex):
    """Add a node to the nodes that hold at a vertex; return its place. There must be room."""
    state, base = conditions.state, vertex * VERTEX
    count, block = np.int64(conditions.vertex[base + HELD_THERE]), np.int64(conditions.vertex[base + FIRST_BLOCK])
    filled = count % NODES_A_BLOCK
    if filled == 0:
        after = block
        block = state[FREE_BLOCK]
        if block != 0:
            state[FREE_BLOCK] = np.int64(conditions.block[block * BLOCK + NEXT_BLOCK])
        else:
            block = state[BLOCKS]
            state[BLOCKS] += 1
        conditions.block[block * BLOCK + NEXT_BLOCK] = after
        conditions.vertex[base + FIRST_BLOCK] = block
    place = block * BLOCK + FIRST_NODE + filled
    conditions.block[place] = node
    conditions.vertex[base + HELD_THERE] = count + 1
    return place


@njit(cache=True, nogil=True, forceinline=True)
def _take_out_of_block(conditions, place, vertex):
    """Remove the node at a place from those that hold at a vertex: the last one of the first block takes the place."""
    state, base = conditions.state, vertex * VERTEX
    count, block = np.int64(conditions.vertex[base + HELD_THERE]), np.int64(conditions.vertex[base + FIRST_BLOCK])
    last = block * BLOCK + FIRST_NODE + (count - 1) % NODES_A_BLOCK
    if place != last:
        moved = np.int64(conditions.block[last])
        conditions.block[place] = moved
        record = conditions.held[find(conditions.held, state[HELD_MASK], moved << 32 | vertex)]
        conditions.record[record * RECORD + BLOCK_PLACE] = place
    conditions.vertex[base + HELD_THERE] = count - 1
    if (count - 1) % NODES_A_BLOCK == 0:
        conditions.vertex[base + FIRST_BLOCK] = conditions.block[block * BLOCK + NEXT_BLOCK]
        conditions.block[block * BLOCK + NEXT_BLOCK] = state[FREE_BLOCK]
        state[FREE_BLOCK] = block


@njit(cache=True, nogil=True, forceinline=True)
def begin_to_hold(conditions, node, vertex):
    """Make a node hold at a vertex, and push a frame for its parents. There must be room."""
    state, records, nodes = conditions.state, conditions.record, conditions.node
    record = state[FREE_RECORD]
    if record != 0:
        state[FREE_RECORD] = np.int64(records[record * RECORD + NEXT_OF_NODE])
    else:
        record = state[RECORDS]
        state[RECORDS] += 1
    state[LIVE_RECORDS] += 1
    base = record * RECORD
    key = node << 32 | vertex
    place = _place(conditions.held, state[HELD_MASK], key)
    if conditions.held[place - 1] == 0:
        conditions.held[place - 1] = key
        state[HELDS] += 1
    conditions.held[place] = record
    records[base + HELD_NODE] = node
    records[base + HELD_VERTEX] = vertex
    records[base + BLOCK_PLACE] = _put_in_block(conditions, node, vertex)
    after = np.int64(nodes[node * NODE + FIRST_HELD])
    records[base + NEXT_OF_NODE] = after
    records[base + PREVIOUS_OF_NODE] = 0
    if after != 0:
        records[after * RECORD + PREVIOUS_OF_NODE] = record
    nodes[node * NODE + FIRST_HELD] = record
    push(conditions, vertex, np.int64(nodes[node * NODE + FIRST_PARENT]), np.int64(0))


@njit(cache=True, nogil=True, forceinline=True)
def cease_to_hold(conditions, node, vertex, place):
    """Make a node cease to hold at a vertex; `place` is the index of its record in the table."""
    state, records, nodes = conditions.state, conditions.record, conditions.node
    record = conditions.held[place]
    conditions.held[place] = 0
    base = record * RECORD
    _take_out_of_block(conditions, np.int64(records[base + BLOCK_PLACE]), vertex)
    before, after = np.int64(records[base + PREVIOUS_OF_NODE]), np.int64(records[base + NEXT_OF_NODE])
    if before != 0:
        records[before * RECORD + NEXT_OF_NODE] = after
    else:
        nodes[node * NODE + FIRST_HELD] = after
    if after != 0:
        records[after * RECORD + PREVIOUS_OF_NODE] = before
    records[base + NEXT_OF_NODE] = state[FREE_RECORD]
    records[base + HELD_NODE] = 0
    state[FREE_RECORD] = record
    state[LIVE_RECORDS] -= 1


@njit(cache=True, nogil=True, forceinline=True)
def push(conditions, vertex, branch, only):
    """Push a frame: the counters of branches to a node are to change along the edges of a vertex."""
    if branch != 0:
        frame = conditions.state[DEPTH] * STACK
        conditions.state[DEPTH] += 1
        conditions.stack[frame + AT_VERTEX] = vertex
        conditions.stack[frame + AT_BRANCH] = branch
        conditions.stack[frame + ONLY] = only
        conditions.stack[frame + AT_POSITION] = -1


@njit(cache=True, nogil=True, forceinline=True)
def has_room(conditions, nodes):
    """Return whether there is room to change one counter and to make `nodes` nodes begin or cease to hold."""
    state = conditions.state
    most = state[COUNTER_MASK] + 1
    if 4 * (state[COUNTERS] + 1) > 3 * most or state[DEPTH] + nodes >= state[STACK_ROOM]:
        return False
    if state[RECORDS] + nodes > state[RECORD_ROOM] or state[BLOCKS] + nodes > state[BLOCK_ROOM]:
        return False
    most = state[HELD_MASK] + 1
    return 4 * (state[HELDS] + nodes) <= 3 * most


@njit(cache=True, nogil=True, forceinline=True)
def _count_up(conditions, branch, vertex):
    """Count one more neighbour at which the child of a branch holds. There must be room."""
    state, parts = conditions.state, conditions.part
    state[WORK] += 1
    key = branch << 32 | vertex
    place = _place(conditions.counter, state[COUNTER_MASK], key)
    if conditions.counter[place - 1] == 0:
        conditions.counter[place - 1] = key
        state[COUNTERS] += 1
    conditions.counter[place] += 1
    if conditions.counter[place] == 1:
        use = np.int64(conditions.branch[branch * BRANCH + FIRST_USE])
        while use != 0:
            node = np.int64(parts[use * PART_FIELDS + OF_NODE])
            if has_all(conditions, node, vertex, branch):
                begin_to_hold(conditions, node, vertex)
            use = np.int64(parts[use * PART_FIELDS + NEXT_USE])


@njit(cache=True, nogil=True, forceinline=True)
def has_all(conditions, node, vertex, known):
    """Return whether all branches of a node are satisfied at a vertex; the branch `known` is not checked."""
    for part in range(conditions.node[node * NODE + PART], conditions.node[node * NODE + PART_END]):
        branch = np.int64(conditions.part[part * PART_FIELDS + OF_BRANCH])
        if branch != known:
            place = find(conditions.counter, conditions.state[COUNTER_MASK], branch << 32 | vertex)
            if place < 0 or conditions.counter[place] == 0:
                return False
    return True


@njit(cache=True, nogil=True, forceinline=True)
def _count_down(conditions, branch, vertex):
    """Count one neighbour less at which the child of a branch holds."""
    state, parts = conditions.state, conditions.part
    state[WORK] += 1
    place = _place(conditions.counter, state[COUNTER_MASK], branch << 32 | vertex)
    conditions.counter[place] -= 1
    if conditions.counter[place] == 0:
        use = np.int64(conditions.branch[branch * BRANCH + FIRST_USE])
        while use != 0:
            node = np.int64(parts[use * PART_FIELDS + OF_NODE])
            held = find(conditions.held, state[HELD_MASK], node << 32 | vertex)
            if held >= 0 and conditions.held[held] != 0:
                cease_to_hold(conditions, node, vertex, held)
                push(conditions, vertex, np.int64(conditions.node[node * NODE + FIRST_PARENT]), np.int64(0))
            use = np.int64(parts[use * PART_FIELDS + NEXT_USE])


@njit(cache=True, nogil=True, forceinline=True)
def _change_counter(conditions, branch, vertex):
    """Change a counter in the direction of the whole change; return False, with nothing done, without room."""
    if not has_room(conditions, np.int64(conditions.branch[branch * BRANCH + USES])):
        return False
    if conditions.state[COMES] != 0:
        _count_up(conditions, branch, vertex)
    else:
        _count_down(conditions, branch, vertex)
    return True


@njit(cache=True, nogil=True)
def spread(relations, conditions):
    """Propagate what has changed to the parents until nothing is left; return DONE or NEED_CONDITIONS."""
    state, stack, branches = conditions.state, conditions.stack, conditions.branch
    while state[DEPTH] > 0:
        frame = (state[DEPTH] - 1) * STACK
        branch = stack[frame + AT_BRANCH]
        base = branch * BRANCH
        if stack[frame + AT_POSITION] < 0:
            # From the child to its parents: against the direction of the branch.
            fields = np.int64(branches[base + BRANCH_RELATION]) * RELATION_FIELDS + CELL + 1 - branches[base + BRANCH_SIDE]
            cell = stack[frame + AT_VERTEX] * relations.state[STRIDE] + relations.relation[fields]
            stack[frame + AT_POSITION], stack[frame + AT_END] = span(relations.lists, relations.state[ARENA], cell)
        if stack[frame + AT_POSITION] < stack[frame + AT_END]:
            position = stack[frame + AT_POSITION]
            if position + AHEAD < stack[frame + AT_END]:
                _prefetch_counter(conditions, branch << 32 | relations.lists[position + AHEAD] >> 32)
            parent = relations.lists[position] >> 32
            stack[frame + AT_POSITION] += 1
            if not _change_counter(conditions, branch, parent):
                stack[frame + AT_POSITION] -= 1
                return np.int64(NEED_CONDITIONS)
        else:
            following = np.int64(branches[base + NEXT_PARENT])
            if stack[frame + ONLY] != 0 or following == 0:
                state[DEPTH] -= 1
            else:
                stack[frame + AT_BRANCH] = following
                stack[frame + AT_POSITION] = -1
    return np.int64(DONE)


@njit(cache=True, nogil=True, forceinline=True)
def _note(conditions, relation, side, near, far):
    """Note the branches along an edge whose child holds at the far end; return False without room."""
    state, nodes, branches = conditions.state, conditions.node, conditions.branch
    bit = np.int64(1) << (2 * relation + side) % 31
    block = np.int64(conditions.vertex[far * VERTEX + FIRST_BLOCK])
    count = nodes_in_first(np.int64(conditions.vertex[far * VERTEX + HELD_THERE]))
    while block != 0:
        first = block * BLOCK + FIRST_NODE
        for place in range(first, first + count):
            node = np.int64(conditions.block[place]) * NODE
            if nodes[node + PARENTS_READ] & bit == 0:
                continue
            branch = np.int64(nodes[node + FIRST_PARENT])
            while branch != 0:
                base = branch * BRANCH
                if branches[base + BRANCH_RELATION] == relation and branches[base + BRANCH_SIDE] == side:
                    if state[PENDING] >= state[PENDING_ROOM]:
                        return False
                    conditions.pending[state[PENDING]] = branch << 32 | near
                    state[PENDING] += 1
                branch = np.int64(branches[base + NEXT_PARENT])
        block = np.int64(conditions.block[block * BLOCK + NEXT_BLOCK])
        count = np.int64(NODES_A_BLOCK)
    return True


@njit(cache=True, nogil=True, forceinline=True)
def _prefetch_counter(conditions, key):
    """Prefetch the memory of a counter."""
    prefetch_at(conditions.counter, 2 * (_hash(key) & conditions.state[COUNTER_MASK]))


@njit(cache=True, nogil=True)
def change_conditions(relations, conditions, relation, source, target, comes):
    """Update conditions after an edge entered its lists or was removed from them; return DONE or NEED_CONDITIONS."""
    state = conditions.state
    if state[BUSY] == 0:
        state[PENDING] = state[PENDING_AT] = state[DEPTH] = 0
        if not (_note(conditions, relation, 0, source, target) and _note(conditions, relation, 1, target, source)):
            return np.int64(NEED_CONDITIONS)
        state[COMES] = 1 if comes else 0
        state[BUSY] = 1
    while True:
        if spread(relations, conditions) != DONE:
            return np.int64(NEED_CONDITIONS)
        if state[PENDING_AT] == state[PENDING]:
            break
        if state[PENDING_AT] + AHEAD < state[PENDING]:
            _prefetch_counter(conditions, conditions.pending[state[PENDING_AT] + AHEAD])
        noted = conditions.pending[state[PENDING_AT]]
        if not _change_counter(conditions, noted >> 32, noted & LOW):
            return np.int64(NEED_CONDITIONS)
        state[PENDING_AT] += 1
    state[BUSY] = 0
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def let_hold(relations, conditions, node, vertex):
    """Make the node of a constant hold at its vertex unless it does already; return DONE or NEED_CONDITIONS."""
    if not holds(conditions, node, vertex):
        if not has_room(conditions, np.int64(1)):
            return np.int64(NEED_CONDITIONS)
        conditions.state[COMES] = 1
        begin_to_hold(conditions, node, vertex)
    return spread(relations, conditions)


@njit(cache=True, nogil=True)
def fill_branch(relations, conditions, branch):
    """Fill the counters of a new branch whose child is not new, from record FILL_RECORD of the child on.

    Returns DONE or NEED_CONDITIONS.
    """
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
    """Make a new node hold wherever all its branches, none of which is new, are satisfied.

    Returns DONE, or NEED_CONDITIONS, after which the same call goes on.
    """
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
    """Remove the counters of a branch that no node has any more; its child still holds where it did."""
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
    """Make a node hold nowhere; its parents are not updated."""
    while conditions.node[node * NODE + FIRST_HELD] != 0:
        record = np.int64(conditions.node[node * NODE + FIRST_HELD])
        vertex = np.int64(conditions.record[record * RECORD + HELD_VERTEX])
        place = find(conditions.held, conditions.state[HELD_MASK], node << 32 | vertex)
        cease_to_hold(conditions, node, vertex, place)
