"""RAPQ as it was published (Pacaci, Bonifati, Özsu 2020, algorithms 1 to 4): a spanning tree for each root, compiled.

The stream is in the order of time. A node (vertex, state) is in a tree at most once, with the smallest timestamp of the
edges on its path in the tree, and is not updated when a younger path appears. At a slide boundary the nodes whose timestamp
left the window are cut; a node is attached again if an edge in the window leads to it from a remaining node. The subtrees
below a deleted edge are treated in the same way.

Nodes, edges, hash chains and lists are records in flat arrays, so nothing is allocated for a node. Two things favour the
algorithm over its description: all trees are scanned in one pass over an array (with a delete, only what is below the edge
is looked at), and pairs are counted, not written. The start state has a copy that no step enters, so (x, x) is an answer
where a cycle spells a word, as in the engine.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

import rpq
from rpq.compiled.arrays.hashing import mix
from rpq.compiled.kernel_cache import njit

NONE = -1
FOREVER, EXPIRED = np.iinfo(np.int64).max, np.iinfo(np.int64).min
ROOT, VERTEX, STATE, TIME, CHAIN, NEXT, PREVIOUS, PARENT, EDGE = range(9)
"""The fields of a node; `NEXT` and `PREVIOUS` link the nodes of all trees with the same vertex and state, and `EDGE` is the
edge that leads to it from its parent."""
SOURCE, TARGET, SYMBOL, EDGE_TIME, EDGE_CHAIN, OUT_NEXT, OUT_PREVIOUS, IN_NEXT, IN_PREVIOUS = range(9)
"""The fields of an edge; it is linked with the other edges out of its source, and with those into its target."""
assert CHAIN == EDGE_CHAIN, "nodes and edges, which have three fields as their key, are chained alike"
NODES, FREE_NODE, EDGES, FREE_EDGE, OLDEST, ARRIVALS, BOUND, PAIRS, LOST = range(9)
"""The fields of `Forest.counts`: records in use with those freed, the first free record, the ends of the arrivals, the lower
bound of the window, and the pairs that entered and that a delete took."""


class Forest(NamedTuple):
    """All trees and the edges in the window: records, the first record of each hash chain and list, and counts."""

    node: np.ndarray
    node_chain: np.ndarray
    holders: np.ndarray
    """The first node of each vertex and state."""
    tree_size: np.ndarray
    edge: np.ndarray
    edge_chain: np.ndarray
    out: np.ndarray
    into: np.ndarray
    arrival: np.ndarray
    """The edge and the time of each insert, in order."""
    counts: np.ndarray


class SpanningTrees:
    """The published algorithm over a stream whose vertices are numbered; counts the pairs that enter and leave the answer.

    >>> window = rpq.Window(size=10, slide=5)
    >>> trees = SpanningTrees("a/b*", window, vertices=3, labels=["a", "b"], tuples=3)
    >>> trees.push(np.array([0, 1, 0]), np.array([1, 2, 1]), np.array([0, 1, 0]), np.array([0, 1, 12]))
    >>> trees.pairs
    4
    >>> trees.push(np.array([0]), np.array([1]), np.array([0]), np.array([13]), np.array([True]))
    >>> trees.lost
    2
    """

    def __init__(self, expression: str, window: rpq.Window, *, vertices: int, labels: list[str], tuples: int) -> None:
        dfa = rpq.automata.compile(expression)
        if any(symbol.inverse for symbol in dfa.symbols):
            raise ValueError(f"{expression!r} has inverse steps, which the published algorithm does not follow")
        columns = [dfa.column(label) for label in labels]
        steps = np.array([dfa.transitions[:, column] if column >= 0 else [NONE] * len(dfa.accepting) for column in columns])
        entered = np.vstack([steps.T, steps.T[:1]])  # the last state is the start
        self._transitions = entered.astype(np.int64).reshape(len(dfa.accepting) + 1, len(labels))
        self._accepting = np.append(dfa.accepting, False)
        self._window = window
        self._forest = Forest(
            node=np.full((1024, 9), NONE, np.int64),
            node_chain=np.full(1024, NONE, np.int64),
            holders=np.full(vertices * len(self._accepting), NONE, np.int64),
            tree_size=np.zeros(vertices, np.int64),
            edge=np.full((1024, 9), NONE, np.int64),
            edge_chain=np.full(1024, NONE, np.int64),
            out=np.full(vertices, NONE, np.int64),
            into=np.full(vertices, NONE, np.int64),
            arrival=np.empty((tuples, 2), np.int64),
            counts=np.array([0, NONE, 0, NONE, 0, 0, EXPIRED, 0, 0], np.int64),
        )

    def push(
        self,
        sources: np.ndarray,
        targets: np.ndarray,
        labels: np.ndarray,
        times: np.ndarray,
        deletes: np.ndarray | None = None,
    ) -> None:
        """Insert edges in the order of their times, or delete them.  Labels are positions in the list of labels."""
        bounds = times // self._window.slide * self._window.slide - self._window.size
        columns = (column.astype(np.int64) for column in (sources, targets, labels, times, bounds))
        deletes = np.zeros(len(times), np.bool_) if deletes is None else deletes.astype(np.bool_)
        self._forest = _push(self._forest, *columns, deletes, self._transitions, self._accepting)

    @property
    def pairs(self) -> int:
        """The number of pairs that entered the answer; those that left it and came back count again."""
        return int(self._forest.counts[PAIRS])

    @property
    def lost(self) -> int:
        """The number of pairs that left the answer because an edge was deleted."""
        return int(self._forest.counts[LOST])

    @property
    def nodes(self) -> int:
        """The number of nodes of all trees."""
        return int(self._forest.tree_size.sum())


def numbered_columns(table: pa.Table) -> tuple[list[np.ndarray], int, list[str]]:
    """Return source, target, label, timestamp and delete as numbers, the number of vertices, and the labels."""
    ends = pa.chunked_array([*table["source"].chunks, *table["target"].chunks]).combine_chunks().dictionary_encode()
    numbers = ends.indices.to_numpy().astype(np.int64)
    labels = table["label"].cast(pa.string()).combine_chunks().dictionary_encode()
    if isinstance(labels, pa.ChunkedArray):
        labels = labels.combine_chunks()
    size = table.num_rows
    columns: list[Any] = [numbers[:size], numbers[size:], labels.indices.to_numpy(), table["timestamp"].to_numpy()]
    columns.append(table["delete"].to_numpy() if "delete" in table.column_names else np.zeros(size))
    return [column.astype(np.int64) for column in columns], len(ends.dictionary), labels.dictionary.to_pylist()


@njit(cache=True, forceinline=True)
def _slot(first, second, third, chain):
    """Return the place of a key of three numbers in the array of hash chains."""
    key = np.uint64(first) << np.uint64(38) ^ np.uint64(second) << np.uint64(12) ^ np.uint64(third)
    return np.int64(mix(key) & np.uint64(len(chain) - 1))


@njit(cache=True)
def _find_node(node, chain, root, vertex, state):
    """Return the node of a tree, or NONE."""
    found = chain[_slot(root, vertex, state, chain)]
    while found != NONE:
        if node[found, ROOT] == root and node[found, VERTEX] == vertex and node[found, STATE] == state:
            return found
        found = node[found, CHAIN]
    return found


@njit(cache=True)
def _double(records):
    """Return nodes or edges, all of which are in use, with room for as many more, and the array of their hash chains."""
    larger = np.full((2 * len(records), records.shape[1]), NONE, np.int64)
    larger[: len(records)] = records
    chain = np.full(len(larger), NONE, np.int64)
    for number in range(len(records)):
        slot = _slot(larger[number, 0], larger[number, 1], larger[number, 2], chain)
        larger[number, CHAIN] = chain[slot]
        chain[slot] = number
    return larger, chain


@njit(cache=True)
def _make_room(forest):
    """Return the forest with room for one more node and one more edge."""
    node, edge, counts = forest.node, forest.edge, forest.counts
    node_chain, edge_chain = forest.node_chain, forest.edge_chain
    if counts[FREE_NODE] == NONE and counts[NODES] == len(node):
        node, node_chain = _double(node)
    if counts[FREE_EDGE] == NONE and counts[EDGES] == len(edge):
        edge, edge_chain = _double(edge)
    return Forest(
        node, node_chain, forest.holders, forest.tree_size, edge, edge_chain, forest.out, forest.into, forest.arrival, counts
    )


@njit(cache=True)
def _add_node(forest, root, vertex, state, time, parent, edge):
    """Add a node, for which there is room; return it."""
    node, counts = forest.node, forest.counts
    number = counts[FREE_NODE]
    if number != NONE:
        counts[FREE_NODE] = node[number, CHAIN]
    else:
        number = counts[NODES]
        counts[NODES] += 1
    node[number, ROOT], node[number, VERTEX], node[number, STATE], node[number, TIME] = root, vertex, state, time
    node[number, PARENT], node[number, EDGE] = parent, edge
    slot = _slot(root, vertex, state, forest.node_chain)
    node[number, CHAIN] = forest.node_chain[slot]
    forest.node_chain[slot] = number
    place = vertex * (len(forest.holders) // len(forest.out)) + state
    first = forest.holders[place]
    node[number, NEXT], node[number, PREVIOUS] = first, NONE
    if first != NONE:
        node[first, PREVIOUS] = number
    forest.holders[place] = number
    forest.tree_size[root] += 1
    return number


@njit(cache=True)
def _remove_node(forest, number):
    """Cut a node from its tree; its record becomes free."""
    node, counts = forest.node, forest.counts
    root, vertex, state = node[number, ROOT], node[number, VERTEX], node[number, STATE]
    slot = _slot(root, vertex, state, forest.node_chain)
    if forest.node_chain[slot] == number:
        forest.node_chain[slot] = node[number, CHAIN]
    else:
        before = forest.node_chain[slot]
        while node[before, CHAIN] != number:
            before = node[before, CHAIN]
        node[before, CHAIN] = node[number, CHAIN]
    after, before = node[number, NEXT], node[number, PREVIOUS]
    if before != NONE:
        node[before, NEXT] = after
    else:
        forest.holders[vertex * (len(forest.holders) // len(forest.out)) + state] = after
    if after != NONE:
        node[after, PREVIOUS] = before
    node[number, ROOT], node[number, CHAIN] = NONE, counts[FREE_NODE]
    counts[FREE_NODE] = number
    forest.tree_size[root] -= 1


@njit(cache=True)
def _find_edge(forest, source, target, symbol):
    """Return the edge in the window, or NONE."""
    edge, number = forest.edge, forest.edge_chain[_slot(source, target, symbol, forest.edge_chain)]
    while number != NONE:
        if edge[number, SOURCE] == source and edge[number, TARGET] == target and edge[number, SYMBOL] == symbol:
            return number
        number = edge[number, EDGE_CHAIN]
    return number


@njit(cache=True)
def _enter_edge(forest, source, target, symbol, time):
    """Put an edge into the window, for which there is room; return whether it is new."""
    edge, counts = forest.edge, forest.counts
    number, is_new = _find_edge(forest, source, target, symbol), False
    if number == NONE:
        is_new, number = True, counts[FREE_EDGE]
        slot = _slot(source, target, symbol, forest.edge_chain)
        if number != NONE:
            counts[FREE_EDGE] = edge[number, EDGE_CHAIN]
        else:
            number = counts[EDGES]
            counts[EDGES] += 1
        edge[number, SOURCE], edge[number, TARGET], edge[number, SYMBOL] = source, target, symbol
        edge[number, EDGE_CHAIN] = forest.edge_chain[slot]
        forest.edge_chain[slot] = number
        _link(edge, forest.out, source, number, OUT_NEXT)
        _link(edge, forest.into, target, number, IN_NEXT)
    edge[number, EDGE_TIME] = time
    forest.arrival[counts[ARRIVALS], 0], forest.arrival[counts[ARRIVALS], 1] = number, time
    counts[ARRIVALS] += 1
    return is_new


@njit(cache=True)
def _link(edge, heads, vertex, number, following):
    """Put an edge at the front of the list of a vertex; the field after `following` has the previous edge."""
    first = heads[vertex]
    edge[number, following], edge[number, following + 1] = first, NONE
    if first != NONE:
        edge[first, following + 1] = number
    heads[vertex] = number


@njit(cache=True)
def _unlink(edge, heads, vertex, number, following):
    after, before = edge[number, following], edge[number, following + 1]
    if before != NONE:
        edge[before, following] = after
    else:
        heads[vertex] = after
    if after != NONE:
        edge[after, following + 1] = before


@njit(cache=True)
def _expire_edges(forest, bound):
    """Remove the edges whose latest insert is no later than `bound`."""
    edge, counts = forest.edge, forest.counts
    while counts[OLDEST] < counts[ARRIVALS] and forest.arrival[counts[OLDEST], 1] <= bound:
        number = forest.arrival[counts[OLDEST], 0]
        counts[OLDEST] += 1
        if edge[number, EDGE_TIME] <= bound and edge[number, SOURCE] != NONE:
            _remove_edge(forest, number)


@njit(cache=True)
def _remove_edge(forest, number):
    """Remove an edge from the window; its record becomes free."""
    edge, counts = forest.edge, forest.counts
    source, target = edge[number, SOURCE], edge[number, TARGET]
    slot = _slot(source, target, edge[number, SYMBOL], forest.edge_chain)
    if forest.edge_chain[slot] == number:
        forest.edge_chain[slot] = edge[number, EDGE_CHAIN]
    else:
        before = forest.edge_chain[slot]
        while edge[before, EDGE_CHAIN] != number:
            before = edge[before, EDGE_CHAIN]
        edge[before, EDGE_CHAIN] = edge[number, EDGE_CHAIN]
    _unlink(edge, forest.out, source, number, OUT_NEXT)
    _unlink(edge, forest.into, target, number, IN_NEXT)
    edge[number, SOURCE], edge[number, EDGE_CHAIN] = NONE, counts[FREE_EDGE]
    counts[FREE_EDGE] = number


@njit(cache=True)
def _is_answer(forest, root, vertex, accepting):
    """Return whether a tree has the vertex in an accepting state."""
    found = False
    for state in range(len(accepting)):
        found |= accepting[state] and _find_node(forest.node, forest.node_chain, root, vertex, state) != NONE
    return found


@njit(cache=True)
def _push_node(stack, height, root, vertex, state, time, parent, edge):
    """Return the stack with a node to be added on top."""
    if height == len(stack):
        larger = np.empty((2 * height, 6), np.int64)
        larger[:height] = stack
        stack = larger
    stack[height, 0], stack[height, 1], stack[height, 2], stack[height, 3] = root, vertex, state, time
    stack[height, 4], stack[height, 5] = parent, edge
    return stack


@njit(cache=True)
def _insert(forest, stack, height, transitions, accepting, counter, change):
    """Add the nodes on the stack that their trees lack, with all that follows (algorithm 2).

    For each pair that enters the answer a counter changes.
    """
    while height > 0:
        height -= 1
        root, vertex, state, time = stack[height, 0], stack[height, 1], stack[height, 2], stack[height, 3]
        if _find_node(forest.node, forest.node_chain, root, vertex, state) != NONE:
            continue
        if change != 0 and accepting[state] and not _is_answer(forest, root, vertex, accepting):
            forest.counts[counter] += change
        if forest.counts[FREE_NODE] == NONE and forest.counts[NODES] == len(forest.node):
            forest = _make_room(forest)
        added = _add_node(forest, root, vertex, state, time, stack[height, 4], stack[height, 5])
        number = forest.out[vertex]
        while number != NONE:
            after = transitions[state, forest.edge[number, SYMBOL]]
            target = forest.edge[number, TARGET]
            if after != NONE and _find_node(forest.node, forest.node_chain, root, target, after) == NONE:
                younger = min(time, forest.edge[number, EDGE_TIME])
                stack = _push_node(stack, height, root, target, after, younger, added, number)
                height += 1
            number = forest.edge[number, OUT_NEXT]
    return forest, stack


@njit(cache=True)
def _expire(forest, stack, bound, transitions, accepting):
    """Cut the nodes that left the window, and attach again those to which an edge in the window leads (algorithm 3)."""
    _expire_edges(forest, bound)
    node = forest.node
    expired, found = np.empty(16, np.int64), 0
    for number in range(forest.counts[NODES]):
        if node[number, ROOT] != NONE and node[number, TIME] <= bound:
            expired = _append(expired, found, number)
            found += 1
    return _reconnect(forest, stack, expired[:found], transitions, accepting, 0)


@njit(cache=True)
def _delete(forest, stack, source, target, symbol, transitions, accepting):
    """Delete an edge, if it exists, and cut the subtrees below it, whose nodes are attached again (algorithm 4)."""
    deleted = _find_edge(forest, source, target, symbol)
    if deleted == NONE:
        return forest, stack
    node = forest.node
    expired, found = np.empty(16, np.int64), 0
    for state in range(len(accepting)):
        number = forest.holders[target * len(accepting) + state]
        while number != NONE:
            if node[number, EDGE] == deleted:
                node[number, TIME] = EXPIRED
                expired = _append(expired, found, number)
                found += 1
            number = node[number, NEXT]
    _remove_edge(forest, deleted)
    place = 0
    while place < found:
        parent = expired[place]
        place += 1
        number = forest.out[node[parent, VERTEX]]
        while number != NONE:
            after = transitions[node[parent, STATE], forest.edge[number, SYMBOL]]
            child = NONE
            if after != NONE:
                child = _find_node(node, forest.node_chain, node[parent, ROOT], forest.edge[number, TARGET], after)
            if child != NONE and node[child, PARENT] == parent and node[child, TIME] != EXPIRED:
                node[child, TIME] = EXPIRED
                expired = _append(expired, found, child)
                found += 1
            number = forest.edge[number, OUT_NEXT]
    return _reconnect(forest, stack, expired[:found], transitions, accepting, 1)


@njit(cache=True)
def _append(numbers, size, number):
    """Return an array with a number at position `size`."""
    if size == len(numbers):
        larger = np.empty(2 * size, np.int64)
        larger[:size] = numbers
        numbers = larger
    numbers[size] = number
    return numbers


@njit(cache=True)
def _reconnect(forest, stack, expired, transitions, accepting, change):
    """Cut nodes, and attach again those to which an edge in the window leads.

    The counter of lost pairs is raised by `change` for each pair that leaves the answer.
    """
    start = len(accepting) - 1
    candidates = np.empty((len(expired), 3), np.int64)
    for place in range(len(expired)):
        number = expired[place]
        for field in range(3):
            candidates[place, field] = forest.node[number, ROOT + field]
        root, vertex, state = candidates[place, 0], candidates[place, 1], candidates[place, 2]
        _remove_node(forest, number)
        if change != 0 and accepting[state] and not _is_answer(forest, root, vertex, accepting):
            forest.counts[LOST] += change
    for place in range(len(expired)):
        root, vertex, state = candidates[place, 0], candidates[place, 1], candidates[place, 2]
        if _find_node(forest.node, forest.node_chain, root, vertex, state) != NONE:
            continue
        number, height = forest.into[vertex], 0
        while number != NONE and height == 0:
            for before in range(len(accepting)):
                if transitions[before, forest.edge[number, SYMBOL]] == state:
                    parent = _find_node(forest.node, forest.node_chain, root, forest.edge[number, SOURCE], before)
                    if parent != NONE:
                        time = min(forest.node[parent, TIME], forest.edge[number, EDGE_TIME])
                        stack = _push_node(stack, height, root, vertex, state, time, parent, number)
                        height = 1
                        break
            number = forest.edge[number, IN_NEXT]
        forest, stack = _insert(forest, stack, height, transitions, accepting, LOST, -change)
    for place in range(len(expired)):
        root = candidates[place, 0]
        if forest.tree_size[root] == 1:
            _remove_node(forest, _find_node(forest.node, forest.node_chain, root, root, start))
    return forest, stack


@njit(cache=True)
def _push(forest, sources, targets, symbols, times, bounds, deletes, transitions, accepting):
    """Insert edges (algorithm 1), or delete them, with the expiry at each boundary before them."""
    counts, start = forest.counts, len(accepting) - 1
    stack = np.empty((1024, 6), np.int64)
    for row in range(len(sources)):
        if bounds[row] > counts[BOUND]:
            counts[BOUND] = bounds[row]
            forest, stack = _expire(forest, stack, bounds[row], transitions, accepting)
        source, target, symbol = sources[row], targets[row], symbols[row]
        is_relevant = False
        for state in range(len(accepting)):
            is_relevant |= transitions[state, symbol] != NONE
        if not is_relevant:
            continue
        if deletes[row]:
            forest, stack = _delete(forest, stack, source, target, symbol, transitions, accepting)
            continue
        if counts[FREE_EDGE] == NONE and counts[EDGES] == len(forest.edge):
            forest = _make_room(forest)
        if not _enter_edge(forest, source, target, symbol, times[row]):
            continue  # its trees have the node
        if transitions[start, symbol] != NONE and _find_node(forest.node, forest.node_chain, source, source, start) == NONE:
            if counts[FREE_NODE] == NONE and counts[NODES] == len(forest.node):
                forest = _make_room(forest)
            _add_node(forest, source, source, start, FOREVER, NONE, NONE)
        entered, height = _find_edge(forest, source, target, symbol), 0
        for state in range(len(accepting)):
            after = transitions[state, symbol]
            if after == NONE:
                continue
            number = forest.holders[source * len(accepting) + state]
            while number != NONE:
                time = min(forest.node[number, TIME], times[row])
                stack = _push_node(stack, height, forest.node[number, ROOT], target, after, time, number, entered)
                height += 1
                number = forest.node[number, NEXT]
        forest, stack = _insert(forest, stack, height, transitions, accepting, PAIRS, 1)
    return forest
