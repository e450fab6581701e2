"""RSPQ as it was published (Pacaci, Bonifati, Özsu 2020, algorithms 5 to 8): simple paths in spanning trees, compiled.

A node (vertex, state) may be in a tree several times, at the end of several paths from the root. It is *marked* while no
conflict is known below it; then the tree has it once, and other paths to it are pruned. A path that reaches a vertex first
in state s and later in state t, where s does not accept all words that t accepts, is a conflict: the nodes of the path lose
their marks, and the paths that were pruned at them are extended. With conflicts the work is exponential in the worst case,
so the number of steps is limited.

Without conflicts the algorithm finds the pairs of the engine. With conflicts it can miss pairs, which is a fault of the
publication: a path that returns to one of its own nodes is pruned (case 1 of section 4), and the nodes in between keep their
marks, because no conflict is *below* them. If the node to which it returns has lost its mark, other paths would have to
continue through it, but they are pruned at the marks (case 2). `docs/papers.md` has a stream of six edges on which this
misses a pair. With `as_published=False`, a path that returns to one of its own nodes without a mark also removes the marks
of its nodes, and no pair is missed.

Three things differ from the text. The root also contains the empty word, without which `(a|b|c)+` would have conflicts. An
edge that arrives again becomes younger here, so at a slide boundary a node without a mark is attached again to its own
parent. At a boundary, only a node that has left the tree and returns gets its lost mark back.
"""

from __future__ import annotations

import numpy as np

import rpq
from rpq.automata.dfa import suffix_containment
from rpq.compiled.kernel_cache import njit
from rpq.workloads.baselines.spanning_trees import (
    BOUND,
    CHAIN,
    EDGE,
    EDGE_TIME,
    EDGES,
    FOREVER,
    FREE_EDGE,
    FREE_NODE,
    IN_NEXT,
    NEXT,
    NODES,
    NONE,
    OUT_NEXT,
    PAIRS,
    PARENT,
    ROOT,
    SOURCE,
    STATE,
    SYMBOL,
    TARGET,
    TIME,
    VERTEX,
    SpanningTrees,
    _add_node,
    _enter_edge,
    _expire_edges,
    _find_edge,
    _find_node,
    _is_answer,
    _make_room,
    _push_node,
    _remove_node,
)

MARKED = EDGE + 1
"""The field of a node behind those of `spanning_trees`: 1 if it is marked."""
STEPS = 9
"""The field of `Forest.counts` behind those of `spanning_trees`: the steps that are left."""


class SimpleTrees(SpanningTrees):
    """The published algorithm for simple paths over a stream of inserts whose vertices are numbered; counts pairs.

    With `as_published=False` it is corrected so that it misses no pair.

    >>> window = rpq.Window(size=10, slide=5)
    >>> trees = SimpleTrees("a/b*", window, vertices=3, labels=["a", "b"], tuples=3)
    >>> trees.push(np.array([0, 1, 2]), np.array([1, 2, 0]), np.array([0, 1, 1]), np.array([0, 1, 2]))
    >>> trees.pairs
    2
    """

    def __init__(
        self,
        expression: str,
        window: rpq.Window,
        *,
        vertices: int,
        labels: list[str],
        tuples: int,
        as_published: bool = True,
    ) -> None:
        super().__init__(expression, window, vertices=vertices, labels=labels, tuples=tuples)
        dfa = rpq.automata.compile(expression)
        # The last state is the start, which also contains the empty word.
        transitions = np.vstack([dfa.transitions, dfa.transitions[:1]])
        self._contains = suffix_containment(transitions, np.append(dfa.accepting, True))
        self._forest = self._forest._replace(
            node=np.full((len(self._forest.node), MARKED + 1), NONE, np.int64), counts=np.append(self._forest.counts, 0)
        )
        self._as_published = as_published
        self.is_exhausted = False

    def push(
        self,
        sources: np.ndarray,
        targets: np.ndarray,
        labels: np.ndarray,
        times: np.ndarray,
        deletes: np.ndarray | None = None,
        *,
        steps: int = 1 << 62,
    ) -> None:
        """Insert edges in the order of their times.  After more than `steps`, stop and set `is_exhausted`.

        Raises `ValueError` for deletes.
        """
        if deletes is not None and deletes.any():
            raise ValueError("deletes are not part of this algorithm")
        bounds = times // self._window.slide * self._window.slide - self._window.size
        columns = (column.astype(np.int64) for column in (sources, targets, labels, times, bounds))
        self._forest.counts[STEPS] = steps
        self._forest = _push(self._forest, *columns, self._transitions, self._accepting, self._contains, self._as_published)
        self.is_exhausted |= bool(self._forest.counts[STEPS] < 0)


@njit(cache=True)
def _find_on_path(forest, number, vertex, state):
    """Follow the path from a node to its root; return the first state of a vertex on it, and whether it has this one."""
    node, first, is_there = forest.node, NONE, False
    while number != NONE:
        if node[number, VERTEX] == vertex:
            first = node[number, STATE]
            is_there |= first == state
        number = node[number, PARENT]
        forest.counts[STEPS] -= 1
    return first, is_there


@njit(cache=True)
def _has_child(forest, number, root, vertex, state, parent):
    """Return whether a node of a tree with a vertex and a state, of which `number` is the first, has this parent."""
    node = forest.node
    while number != NONE:
        is_same = node[number, ROOT] == root and node[number, VERTEX] == vertex and node[number, STATE] == state
        if is_same and node[number, PARENT] == parent:
            return True
        number = node[number, CHAIN]
        forest.counts[STEPS] -= 1
    return False


@njit(cache=True)
def _incoming(forest, stack, height, root, vertex, state, transitions):
    """Put a node on the stack for each path of its tree from which an edge leads to the node."""
    node, edge = forest.node, forest.edge
    number = forest.into[vertex]
    while number != NONE:
        for before in range(len(transitions)):
            if transitions[before, edge[number, SYMBOL]] == state:
                source = edge[number, SOURCE]
                other = _find_node(node, forest.node_chain, root, source, before)
                while other != NONE:
                    if node[other, ROOT] == root and node[other, VERTEX] == source and node[other, STATE] == before:
                        time = min(node[other, TIME], edge[number, EDGE_TIME])
                        stack = _push_node(stack, height, root, vertex, state, time, other, number)
                        height += 1
                    other = node[other, CHAIN]
                    forest.counts[STEPS] -= 1
        number = edge[number, IN_NEXT]
        forest.counts[STEPS] -= 1
    return stack, height


@njit(cache=True)
def _extend(forest, stack, height, transitions, accepting, contains, as_published, counts_pairs):
    """Extend paths by the nodes on the stack, and by all that follows (algorithms 6 and 7)."""
    while height > 0 and forest.counts[STEPS] >= 0:
        height -= 1
        forest.counts[STEPS] -= 1
        root, vertex, state, time = stack[height, 0], stack[height, 1], stack[height, 2], stack[height, 3]
        parent, edge = stack[height, 4], stack[height, 5]
        node = forest.node
        known = _find_node(node, forest.node_chain, root, vertex, state)
        if known != NONE and (node[known, MARKED] == 1 or _has_child(forest, known, root, vertex, state, parent)):
            continue
        first, is_there = _find_on_path(forest, parent, vertex, state)
        if is_there and as_published:
            continue
        if is_there or (first != NONE and not contains[first, state]):
            while parent != NONE:
                if node[parent, MARKED] == 1:
                    node[parent, MARKED] = 0
                    stack, height = _incoming(
                        forest, stack, height, root, node[parent, VERTEX], node[parent, STATE], transitions
                    )
                parent = node[parent, PARENT]
                forest.counts[STEPS] -= 1
            continue
        if counts_pairs and accepting[state] and vertex != root and not _is_answer(forest, root, vertex, accepting):
            forest.counts[PAIRS] += 1
        if forest.counts[FREE_NODE] == NONE and forest.counts[NODES] == len(forest.node):
            forest = _make_room(forest)
        added = _add_node(forest, root, vertex, state, time, parent, edge)
        forest.node[added, MARKED] = 1 if known == NONE else 0
        number = forest.out[vertex]
        while number != NONE:
            after = transitions[state, forest.edge[number, SYMBOL]]
            if after != NONE:
                younger = min(time, forest.edge[number, EDGE_TIME])
                stack = _push_node(stack, height, root, forest.edge[number, TARGET], after, younger, added, number)
                height += 1
            number = forest.edge[number, OUT_NEXT]
            forest.counts[STEPS] -= 1
    return forest, stack


@njit(cache=True)
def _expire(forest, stack, bound, transitions, accepting, contains, as_published):
    """Cut the nodes that left the window, and find other paths to those that were marked (algorithm 8)."""
    _expire_edges(forest, bound)
    node, start = forest.node, len(accepting) - 1
    found = 0
    for number in range(forest.counts[NODES]):
        found += node[number, ROOT] != NONE and node[number, TIME] <= bound
    cut, candidates, place = np.empty(found, np.int64), np.empty((found, 5), np.int64), 0
    for number in range(forest.counts[NODES]):
        if node[number, ROOT] != NONE and node[number, TIME] <= bound:
            cut[place] = number
            parent = node[number, PARENT]
            candidates[place, 0], candidates[place, 1] = node[number, ROOT], node[number, VERTEX]
            candidates[place, 2], candidates[place, 3] = node[number, STATE], node[number, MARKED]
            candidates[place, 4] = parent if node[parent, TIME] > bound else NONE
            place += 1
    for place in range(found):
        _remove_node(forest, cut[place])
    for place in range(found):
        root, vertex, state = candidates[place, 0], candidates[place, 1], candidates[place, 2]
        parent, height = candidates[place, 4], 0
        if candidates[place, 3] == 1:
            stack, height = _incoming(forest, stack, 0, root, vertex, state, transitions)
        elif parent != NONE:
            for symbol in range(transitions.shape[1]):
                edge = _find_edge(forest, forest.node[parent, VERTEX], vertex, symbol)
                if edge != NONE and transitions[forest.node[parent, STATE], symbol] == state:
                    time = min(forest.node[parent, TIME], forest.edge[edge, EDGE_TIME])
                    stack = _push_node(stack, height, root, vertex, state, time, parent, edge)
                    height += 1
        forest, stack = _extend(forest, stack, height, transitions, accepting, contains, as_published, False)
    for place in range(found):
        root = candidates[place, 0]
        if forest.tree_size[root] == 1:
            _remove_node(forest, _find_node(forest.node, forest.node_chain, root, root, start))
    return forest, stack


@njit(cache=True)
def _push(forest, sources, targets, symbols, times, bounds, transitions, accepting, contains, as_published):
    """Insert edges (algorithm 5), with the expiry at each boundary before them, until no steps are left."""
    counts, start = forest.counts, len(accepting) - 1
    stack = np.empty((1024, 6), np.int64)
    for row in range(len(sources)):
        if counts[STEPS] < 0:
            break
        if bounds[row] > counts[BOUND]:
            counts[BOUND] = bounds[row]
            forest, stack = _expire(forest, stack, bounds[row], transitions, accepting, contains, as_published)
        source, target, symbol = sources[row], targets[row], symbols[row]
        is_relevant = False
        for state in range(len(accepting)):
            is_relevant |= transitions[state, symbol] != NONE
        if not is_relevant:
            continue
        if counts[FREE_EDGE] == NONE and counts[EDGES] == len(forest.edge):
            forest = _make_room(forest)
        if not _enter_edge(forest, source, target, symbol, times[row]):
            continue
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
        forest, stack = _extend(forest, stack, height, transitions, accepting, contains, as_published, True)
    return forest
