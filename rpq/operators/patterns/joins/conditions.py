"""Shared conditions: which vertices can take part in solutions of which patterns, maintained for all patterns at once.

With thousands of patterns, a changing edge must not be tried with each atom that reads its relation. Constants a few edges
away rule out most of these atoms. So each pattern is treated as a tree (a spanning tree, with a separate leaf for each place
of a constant). For each of its atoms, in both directions, there is a *node*: the condition at the end of the atom under
which the part of the tree behind this end may have a solution. A node is a set of *branches*. A branch is an edge of a
relation, outward or inward, to a vertex at which another node holds. A constant is a node that holds at its vertex. Equal
nodes and branches of all patterns are shared (`condition_graph.py`), so thousands of patterns have some ten thousand of
them.

Only branches that lead to a constant are stored. The look-ahead of the join checks that a vertex has an edge of a relation
at all; conditions without a constant hold nearly everywhere, and excluding them makes the upkeep six times cheaper, while
the search is hardly longer. For the same reason, a branch that turns out to hold nearly everywhere is excluded while the
stream runs (`condition_choice.py`). So a condition is *necessary*, not sufficient: it decides which seeds are begun and
which values are examined further, never which rows result. Hence rows do not depend on sharing.

Conditions are maintained by counting. Each branch is also a node by itself, whose record at a vertex has the number of
neighbours at which the child holds; a node has a record where it holds. A node of several branches holds where all of them
do; nearly all nodes have one. A change spreads towards the parents, along the adjacency lists. As trees are finite, counting
is exact, both for edges that enter and for edges that leave:

- An edge that enters is in its lists already. First, those of its branches are noted whose child holds now; their counts are
  increased. Where a node begins to hold, the counts of its parents are increased along all edges there, including the new
  one: this edge was not noted for them, since the node did not hold then. So each is counted once.
- An edge that leaves is reported first, then removed from its lists; then counts are decreased in the same way.

Relations are those of a label, a window and a stream, so windows need no treatment here: edges that expire are removed.

The nodes that hold at a vertex are stored in contiguous blocks, since with a hundred thousand patterns thousands hold at
many vertices. `seeds.py` uses them to find the seeds of an edge.

`condition_graph.py` calls the functions that fill and clear branches and nodes between chunks, for the parents after their
children, while there are edges.

Kernels never allocate. Before a count changes, there must be room for everything that this change can cause (a record and a
frame for each node with the branch). Otherwise they return NEED_CONDITIONS, and the same call resumes after Python has made
room.
"""

from __future__ import annotations

import numpy as np

from rpq.compiled.arrays.hashing import home_of, mix
from rpq.compiled.arrays.tagged_hashing import (
    first_tagged,
    next_tagged,
    place_for_new,
    put_tagged,
    remove_tagged,
    tagged_id,
)
from rpq.compiled.intrinsics import prefetch_at
from rpq.compiled.kernel_cache import njit
from rpq.operators.patterns.relations.adjacency import list_length, place_of, span
from rpq.operators.patterns.tables import BLOCK, DONE, LOW, NEED_CONDITIONS, NODES_A_BLOCK, parent_bit

AHEAD = 8
"""The number of counts by which the prefetching of records is ahead."""


@njit(cache=True, nogil=True, forceinline=True)
def _record_hash(node, vertex):
    return mix(np.uint64(node << 32 | vertex))


@njit(cache=True, nogil=True)
def _find_record(conditions, node, vertex):
    """Return the place in `record_table` of the record of a node at a vertex, a negative one if it does not hold there."""
    state, table, h = conditions.state, conditions.record_table, _record_hash(node, vertex)
    place = first_tagged(table, state.table_entries, state.table_bits, h)
    while place >= 0:
        record = conditions.record[tagged_id(table, place, state.table_bits)]
        if record.node == node and record.vertex == vertex:
            break
        place = next_tagged(table, state.table_entries, state.table_bits, h, place)
    return place


@njit(cache=True, nogil=True)
def _enter_record(conditions, node, vertex, number):
    """Enter the record of a node at a vertex into `record_table`, in which there must be room."""
    state, table, h = conditions.state, conditions.record_table, _record_hash(node, vertex)
    place = place_for_new(table, state.table_entries, h)
    state.table_used += 1 if table[-1 - place] == 0 else 0
    put_tagged(table, place, state.table_bits, h, number)


@njit(cache=True, nogil=True)
def fill_record_table(conditions):
    """Enter all records into `record_table`, which is empty and has room for them."""
    conditions.state.table_used = 0
    for number in range(1, conditions.state.records):
        record = conditions.record[number]
        if record.node != 0:
            _enter_record(conditions, record.node, record.vertex, number)


@njit(cache=True, nogil=True, forceinline=True)
def holds(conditions, node, vertex):
    """Return whether a node holds at a vertex."""
    return node == 0 or _find_record(conditions, node, vertex) >= 0


@njit(cache=True, nogil=True, forceinline=True)
def first_place(conditions, vertex):
    """Return the place in `block` of the first node that holds at a vertex, or 0 if there is none.

    The walk begins with the last node of the first block, which is the only one that is not full.
    """
    nodes = conditions.vertex[vertex]
    return nodes.first_block * BLOCK + (nodes.count - 1) % NODES_A_BLOCK + 1 if nodes.count > 0 else np.int64(0)


@njit(cache=True, nogil=True, forceinline=True)
def next_place(conditions, place):
    """Return the place of the next node that holds at a vertex, or 0 if there is none."""
    previous = place - 1
    if previous & (BLOCK - 1) != 0:
        return previous
    block = np.int64(conditions.block[previous])
    return block * BLOCK + NODES_A_BLOCK if block != 0 else np.int64(0)


@njit(cache=True, nogil=True, forceinline=True)
def _put_in_block(conditions, node, vertex):
    """Add a node to the nodes that hold at a vertex. Return its place. There must be room."""
    state, nodes = conditions.state, conditions.vertex[vertex]
    if nodes.count % NODES_A_BLOCK == 0:
        block = state.free_block
        if block != 0:
            state.free_block = np.int64(conditions.block[block * BLOCK])
        else:
            block = state.blocks
            state.blocks += 1
        conditions.block[block * BLOCK] = nodes.first_block
        nodes.first_block = block
    nodes.count += 1
    place = first_place(conditions, vertex)
    conditions.block[place] = node
    return place


@njit(cache=True, nogil=True, forceinline=True)
def _remove_from_block(conditions, place, vertex):
    """Remove the node at a place from those that hold at a vertex. The last node of the first block takes its place."""
    state, nodes = conditions.state, conditions.vertex[vertex]
    last = first_place(conditions, vertex)
    if place != last:
        moved = np.int64(conditions.block[last])
        conditions.block[place] = moved
        found = _find_record(conditions, moved, vertex)
        conditions.record[tagged_id(conditions.record_table, found, state.table_bits)].place = place
    nodes.count -= 1
    if nodes.count % NODES_A_BLOCK == 0:
        block = nodes.first_block
        nodes.first_block = conditions.block[block * BLOCK]
        conditions.block[block * BLOCK] = state.free_block
        state.free_block = block


@njit(cache=True, nogil=True, forceinline=True)
def begin_to_hold(conditions, node, vertex):
    """Make a node hold at a vertex, and push a frame for its parents. There must be room."""
    state, records, holder = conditions.state, conditions.record, conditions.node[node]
    number = state.free_record
    if number != 0:
        state.free_record = records[number].next
    else:
        number = state.records
        state.records += 1
    _enter_record(conditions, node, vertex, number)
    record = records[number]
    record.node = node
    record.vertex = vertex
    record.place = _put_in_block(conditions, node, vertex)
    record.neighbours = 1
    record.next = holder.first_record
    record.previous = 0
    if holder.first_record != 0:
        records[holder.first_record].previous = number
    holder.first_record = number
    push(conditions, vertex, holder.first_parent, np.int64(0))


@njit(cache=True, nogil=True, forceinline=True)
def cease_to_hold(conditions, node, vertex, place):
    """Make a node cease to hold at a vertex. `place` is the place of its record in `record_table`."""
    state, records = conditions.state, conditions.record
    number = tagged_id(conditions.record_table, place, state.table_bits)
    remove_tagged(conditions.record_table, place)
    record = records[number]
    _remove_from_block(conditions, record.place, vertex)
    if record.previous != 0:
        records[record.previous].next = record.next
    else:
        conditions.node[node].first_record = record.next
    if record.next != 0:
        records[record.next].previous = record.previous
    record.next = state.free_record
    record.node = 0
    state.free_record = number


@njit(cache=True, nogil=True, forceinline=True)
def push(conditions, vertex, branch, is_single):
    """Push a frame, to change the counts of a branch, and unless `is_single` of its successors in the chain, along the edges
    of a vertex."""
    if branch != 0:
        frame = conditions.stack[conditions.state.depth]
        conditions.state.depth += 1
        frame.vertex = vertex
        frame.branch = branch
        frame.is_single = is_single
        frame.position = -1


@njit(cache=True, nogil=True, forceinline=True)
def has_room(conditions, nodes):
    """Return whether there is room for `nodes` nodes to begin or cease to hold."""
    state = conditions.state
    if state.depth + nodes >= state.stack_room:
        return False
    if state.records + nodes > state.record_room or state.blocks + nodes > state.block_room:
        return False
    return state.table_used + nodes <= state.table_room


@njit(cache=True, nogil=True, forceinline=True)
def _count_up(conditions, branch, vertex):
    """Count one more neighbour at which the child of a branch holds. There must be room."""
    state, parts, node = conditions.state, conditions.part, conditions.branch[branch].node
    state.work += 1
    place = _find_record(conditions, node, vertex)
    if place >= 0:
        conditions.record[tagged_id(conditions.record_table, place, state.table_bits)].neighbours += 1
        return
    begin_to_hold(conditions, node, vertex)
    use = conditions.branch[branch].first_use
    # The nodes of several branches that use this one, up to before `use`, hold here if all their branches do.
    while use != 0:
        if satisfies_all(conditions, parts[use].node, vertex, branch):
            begin_to_hold(conditions, parts[use].node, vertex)
        use = parts[use].next_use


@njit(cache=True, nogil=True)
def satisfies_all(conditions, node, vertex, satisfied_branch):
    """Return whether a vertex satisfies all branches of a node. `satisfied_branch` is not checked."""
    for part in range(conditions.node[node].part, conditions.node[node].part_end):
        branch = conditions.part[part].branch
        if branch != satisfied_branch and not holds(conditions, conditions.branch[branch].node, vertex):
            return False
    return True


@njit(cache=True, nogil=True, forceinline=True)
def _count_down(conditions, branch, vertex):
    """Count one neighbour fewer at which the child of a branch holds."""
    state, parts, node = conditions.state, conditions.part, conditions.branch[branch].node
    state.work += 1
    place = _find_record(conditions, node, vertex)
    record = conditions.record[tagged_id(conditions.record_table, place, state.table_bits)]
    record.neighbours -= 1
    if record.neighbours != 0:
        return
    _end(conditions, node, vertex, place)
    use = conditions.branch[branch].first_use
    # The nodes of several branches that use this one, up to before `use`, do not hold here.
    while use != 0:
        place = _find_record(conditions, parts[use].node, vertex)
        if place >= 0:
            _end(conditions, parts[use].node, vertex, place)
        use = parts[use].next_use


@njit(cache=True, nogil=True, forceinline=True)
def _end(conditions, node, vertex, place):
    """Make a node cease to hold at a vertex, and push a frame for its parents."""
    cease_to_hold(conditions, node, vertex, place)
    push(conditions, vertex, conditions.node[node].first_parent, np.int64(0))


@njit(cache=True, nogil=True, forceinline=True)
def _change_count(conditions, branch, vertex):
    """Change a count in the direction of the current change. Return False without room; then nothing has changed."""
    if not has_room(conditions, conditions.branch[branch].uses + 1):
        return False
    if conditions.state.is_increase != 0:
        _count_up(conditions, branch, vertex)
    else:
        _count_down(conditions, branch, vertex)
    return True


@njit(cache=True, nogil=True, forceinline=True)
def _parents(relations, conditions, branch, vertex):
    """Return the span of the list of vertices that reach a vertex by an edge of a branch."""
    edges = conditions.branch[branch]
    return span(relations, vertex, relations.relation[edges.relation].cell[1 - edges.side])


@njit(cache=True, nogil=True)
def spread(relations, conditions):
    """Propagate changes to the parents until there are none. Return DONE or NEED_CONDITIONS."""
    state = conditions.state
    # The stack is all that is left: a frame stands for the counts of its branch from `position` on (-1: all) and, unless it
    # is single, of the branches after it. Without room the count at `position` has not changed, so the call resumes with it.
    while state.depth > 0:
        frame = conditions.stack[state.depth - 1]
        branch = frame.branch
        if frame.position < 0:
            frame.position, frame.end = _parents(relations, conditions, branch, frame.vertex)
        if frame.position < frame.end:
            position = frame.position
            if position + AHEAD < frame.end:
                _prefetch_record(conditions, branch, relations.lists[position + AHEAD] >> 32)
            parent = relations.lists[position] >> 32
            frame.position += 1
            if not _change_count(conditions, branch, parent):
                frame.position -= 1
                return np.int64(NEED_CONDITIONS)
        else:
            next_branch = conditions.branch[branch].next_parent
            if frame.is_single != 0 or next_branch == 0:
                state.depth -= 1
            else:
                frame.branch = next_branch
                frame.position = -1
    return np.int64(DONE)


@njit(cache=True, nogil=True, forceinline=True)
def _collect_branches(conditions, relation, side, near, far):
    """Collect the branches along an edge whose child holds at the far end. Return False without room."""
    state, bit = conditions.state, parent_bit(relation, side)
    place = first_place(conditions, far)
    # The branches of the nodes before `place` are noted. Without room all are noted again later, as `is_busy` is 0.
    while place != 0:
        node = conditions.node[conditions.block[place]]
        number = node.first_parent if node.parents_read & bit != 0 else np.int64(0)
        while number != 0:
            branch = conditions.branch[number]
            if branch.relation == relation and branch.side == side:
                if state.pending >= state.pending_room:
                    return False
                conditions.pending[state.pending] = number << 32 | near
                state.pending += 1
            number = branch.next_parent
        place = next_place(conditions, place)
    return True


@njit(cache=True, nogil=True, forceinline=True)
def _prefetch_record(conditions, branch, vertex):
    """Prefetch the entry of the record of a branch at a vertex."""
    h = _record_hash(conditions.branch[branch].node, vertex)
    prefetch_at(conditions.record_table, home_of(conditions.state.table_entries, h))


@njit(cache=True, nogil=True)
def change_conditions(relations, conditions, relation, source, target, enters):
    """Update conditions after an edge was added to its lists (`enters`) or removed from them. Return DONE or
    NEED_CONDITIONS."""
    state = conditions.state
    if state.is_busy == 0:
        state.pending = state.next_pending = state.depth = 0
        if not _collect_branches(conditions, relation, 0, source, target):
            return np.int64(NEED_CONDITIONS)
        if not _collect_branches(conditions, relation, 1, target, source):
            return np.int64(NEED_CONDITIONS)
        state.is_increase = 1 if enters else 0
        state.is_busy = 1
    # The noted counts before `next_pending` have changed; what follows from them is done or on the stack. `is_busy` prevents
    # a call that resumes from noting branches again, where nodes may hold by now that did not before.
    while True:
        if spread(relations, conditions) != DONE:
            return np.int64(NEED_CONDITIONS)
        if state.next_pending == state.pending:
            break
        if state.next_pending + AHEAD < state.pending:
            later = conditions.pending[state.next_pending + AHEAD]
            _prefetch_record(conditions, later >> 32, later & LOW)
        noted = conditions.pending[state.next_pending]
        if not _change_count(conditions, noted >> 32, noted & LOW):
            return np.int64(NEED_CONDITIONS)
        state.next_pending += 1
    state.is_busy = 0
    return np.int64(DONE)


@njit(cache=True, nogil=True)
def hold_constant(relations, conditions, node, vertex):
    """Make the node of a constant hold at its vertex, unless it does already. Return DONE or NEED_CONDITIONS."""
    if not holds(conditions, node, vertex):
        if not has_room(conditions, np.int64(1)):
            return np.int64(NEED_CONDITIONS)
        conditions.state.is_increase = 1
        begin_to_hold(conditions, node, vertex)
    return spread(relations, conditions)


@njit(cache=True, nogil=True)
def fill_branch(relations, conditions, branch):
    """Fill the counts of a new branch whose child is not new, from record `state.fill_record` of the child on.

    Return DONE or NEED_CONDITIONS.
    """
    state = conditions.state
    state.is_increase = 1
    # The records of the child before `fill_record` are counted, except for what is on the stack.
    while True:
        if spread(relations, conditions) != DONE:
            return np.int64(NEED_CONDITIONS)
        if state.fill_record == 0:
            return np.int64(DONE)
        if not has_room(conditions, np.int64(1)):
            return np.int64(NEED_CONDITIONS)
        record = conditions.record[state.fill_record]
        push(conditions, record.vertex, branch, np.int64(1))
        state.fill_record = record.next


@njit(cache=True, nogil=True)
def fill_node(relations, conditions, node):
    """Make a new node of several branches, none of which is new, hold wherever all of them are satisfied.

    Continue with record `state.fill_record` of the first branch. Return DONE, or NEED_CONDITIONS, after which the same call
    resumes.
    """
    state = conditions.state
    state.is_increase = 1
    branch = conditions.part[conditions.node[node].part].branch
    # The node holds at the vertices of the records before `fill_record` if it should; what follows is done or on the stack.
    while True:
        if spread(relations, conditions) != DONE:
            return np.int64(NEED_CONDITIONS)
        if state.fill_record == 0:
            return np.int64(DONE)
        record = conditions.record[state.fill_record]
        if satisfies_all(conditions, node, record.vertex, branch):
            if not has_room(conditions, np.int64(1)):
                return np.int64(NEED_CONDITIONS)
            begin_to_hold(conditions, node, record.vertex)
        state.fill_record = record.next


@njit(cache=True, nogil=True)
def clear_node(conditions, node):
    """Make a node hold nowhere, without updating its parents."""
    while conditions.node[node].first_record != 0:
        vertex = conditions.record[conditions.node[node].first_record].vertex
        cease_to_hold(conditions, node, vertex, _find_record(conditions, node, vertex))


@njit(cache=True, nogil=True)
def count_edges(relations, conditions, relation, side, child, limit):
    """Return the number of edges along which a branch leads to its child, or some number above `limit`."""
    cell = relations.relation[relation].cell[1 - side]
    number, count = np.int64(conditions.node[child].first_record), np.int64(0)
    while number != 0 and count <= limit:
        record = conditions.record[number]
        count += list_length(relations.lists[place_of(relations, record.vertex, cell)])
        number = np.int64(record.next)
    return count
