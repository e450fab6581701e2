"""RAPQ in plain Python, to be read beside section 3 of Pacaci, Bonifati and Özsu (2020).

The names are the paper's: W has the edges in the window with their timestamps, Δ (`trees`) a spanning tree T_x for each
root x, and a node (v, t) of T_x means that a path from x to v leads the automaton from its start to state t. A node has the
smallest timestamp of the edges on its path in the tree, `ts`, and its parent, `pt`. δ(s, l) is the automaton's step.

Two things differ from the pseudocode. Algorithm 2 keeps the calls that it would make in a list, because paths may be longer
than Python's stack. And the root is a state of its own that no step enters, so that (x, x) is an answer only if a cycle
spells a word. `spanning_trees` has the same algorithms, compiled, with an index from nodes to trees.

    python -m rpq.cli bench algorithm rpq.workloads.baselines.rapq:RAPQ
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator
from dataclasses import dataclass

import rpq

Vertex = Hashable
Edge = tuple[Vertex, str, Vertex]
"""Source, label, target."""
Key = tuple[Vertex, int]
"""A vertex and a state."""
ROOT = -1


@dataclass
class Node:
    """A node of a tree: its timestamp, and the key of its parent."""

    ts: float
    pt: Key | None


class RAPQ:
    """A persistent query over a window; `insert` and `delete` return the pairs that enter and leave its answer.

    >>> query = RAPQ("a/b*", rpq.Window(size=10, slide=5))
    >>> query.insert("x", "y", "a", 1), query.insert("y", "z", "b", 3)
    ([('x', 'y')], [('x', 'z')])
    >>> query.delete("y", "z", "b", 4)
    [('x', 'z')]
    """

    def __init__(self, expression: str, window: rpq.Window) -> None:
        self.dfa = rpq.automata.compile(expression)
        if any(symbol.inverse for symbol in self.dfa.symbols):
            raise ValueError(f"{expression!r} has inverse steps, which the published algorithm does not follow")
        self.window = window
        self.bound: float = float("-inf")  # edges with larger timestamps are in the window
        self.W: dict[Edge, int] = {}
        self.out: dict[Vertex, set[Edge]] = defaultdict(set)
        self.into: dict[Vertex, set[Edge]] = defaultdict(set)
        self.trees: dict[Vertex, dict[Key, Node]] = {}
        self.δ: dict[str, list[tuple[int, int]]] = {}

    def insert(self, u: Vertex, v: Vertex, label: str, ts: int) -> list[tuple[Vertex, Vertex]]:
        """Algorithm 1, RAPQ: an edge arrives; return the pairs that it adds."""
        e = (u, label, v)
        if not self.steps(label) or ts <= self.bound:
            return []
        is_new = e not in self.W
        self.W[e] = max(ts, self.W.get(e, ts))
        if not is_new:
            return []  # the trees have its nodes; algorithm 3 looks at the new timestamp when they expire
        self.out[u].add(e)
        self.into[v].add(e)
        found = []
        for s, t in self.steps(label):
            if s == ROOT and u not in self.trees:
                self.trees[u] = {(u, ROOT): Node(float("inf"), None)}
            for x, tree in self.trees.items():
                if (u, s) in tree and (v, t) not in tree:
                    found += self.extend(x, (u, s), (v, t), e)
        return found

    def extend(self, x: Vertex, parent: Key, child: Key, e: Edge) -> list[tuple[Vertex, Vertex]]:
        """Algorithm 2, Insert: add a node to T_x, and what can be reached from it; return the pairs that are new."""
        tree, found, calls = self.trees[x], [], [(parent, child, e)]
        while calls:
            parent, child, e = calls.pop()
            if child in tree:
                continue
            v, t = child
            if self.dfa.accepting[t] and not self.is_answer(x, v):
                found.append((x, v))
            tree[child] = Node(min(self.W[e], tree[parent].ts), parent)
            calls += [(child, following, edge) for following, edge in self.after(v, t)]
        return found

    def advance(self, time: int) -> None:
        """Algorithm 3 for each tree, at a slide boundary: edges and nodes leave the window, without rows."""
        self.bound = self.window.lower_bound(time)
        for e in [e for e, ts in self.W.items() if ts <= self.bound]:
            self.remove(e)
        for x in [*self.trees]:
            self.expire(x)

    def expire(self, x: Vertex) -> list[tuple[Vertex, Vertex]]:
        """Algorithm 3, Expiry: cut expired nodes off T_x, and attach them to valid nodes; return the pairs that are lost."""
        tree = self.trees[x]
        expired = [key for key, node in tree.items() if node.ts <= self.bound]
        for key in expired:
            del tree[key]
        for v, t in expired:
            for e in self.into[v]:
                for s, following in self.steps(e[1]):
                    if following == t and (e[0], s) in tree:
                        self.extend(x, (e[0], s), (v, t), e)
        if len(tree) == 1:
            del self.trees[x]  # only the root is left
        return [(x, v) for v in {v for v, t in expired if self.dfa.accepting[t]} if not self.is_answer(x, v)]

    def delete(self, u: Vertex, v: Vertex, label: str, ts: int) -> list[tuple[Vertex, Vertex]]:
        """Algorithm 4, Delete: mark the subtrees below an edge as expired; return the pairs that are lost."""
        if (u, label, v) not in self.W:
            return []
        self.remove((u, label, v))
        lost = []
        for x, tree in [*self.trees.items()]:
            marked = [(v, t) for s, t in self.steps(label) if (v, t) in tree and tree[v, t].pt == (u, s)]
            for key in marked:  # grows by the subtree
                tree[key].ts = float("-inf")
                marked += [child for child, _ in self.after(*key) if child in tree and tree[child].pt == key]
            lost += self.expire(x) if marked else []
        return lost

    def remove(self, e: Edge) -> None:
        """Remove an edge from W."""
        del self.W[e]
        self.out[e[0]].remove(e)
        self.into[e[2]].remove(e)

    def steps(self, label: str) -> list[tuple[int, int]]:
        """Return the pairs (s, t) with t = δ(s, label); the root steps as state 0 does."""
        if label not in self.δ:
            column = self.dfa.column(label)
            targets = self.dfa.transitions[:, column].tolist() if column >= 0 else [-1]
            self.δ[label] = [(s, t) for s, t in [(ROOT, targets[0]), *enumerate(targets)] if t >= 0]
        return self.δ[label]

    def after(self, v: Vertex, t: int) -> Iterator[tuple[Key, Edge]]:
        """Yield the nodes of the product graph that follow (v, t), each with its edge."""
        for e in self.out[v]:
            for s, following in self.steps(e[1]):
                if s == t:
                    yield (e[2], following), e

    def is_answer(self, x: Vertex, v: Vertex) -> bool:
        """Return whether T_x has v in an accepting state."""
        tree = self.trees.get(x, {})
        return any((v, t) in tree for t in self.dfa.accepting.nonzero()[0].tolist())
