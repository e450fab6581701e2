"""Evaluation anew by a search of the product graph, from every vertex, over arrays (numba).

The batch algorithm of Mendelzon and Wood (1995): O(vertices × edges × states) a time, and nothing is kept.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from rpq import automata
from rpq.compiled.kernel_cache import njit
from rpq.workloads.baselines.window_edges import Edge


class ProductSearch:
    """Searches for the answers over a set of edges that it holds."""

    def __init__(self, expression: str) -> None:
        self._dfa = automata.compile(expression)
        self._ids: dict[str, int] = {}
        self._edges: dict[Edge, tuple[int, int, int, int]] = {}
        self.pairs()  # compiles, so that no evaluation does

    def change(self, added: Iterable[Edge], removed: Iterable[Edge]) -> None:
        """Take edges out and in."""
        for edge in removed:
            self._edges.pop(edge, None)
        for source, label, target in added:
            forward, backward = self._dfa.column(label, False), self._dfa.column(label, True)
            if forward >= 0 or backward >= 0:
                ends = (self._ids.setdefault(source, len(self._ids)), self._ids.setdefault(target, len(self._ids)))
                self._edges[source, label, target] = (*ends, forward, backward)

    def count(self) -> int:
        """How many pairs are answers. Evaluates anew."""
        return self._search(keep=False)[0]

    def pairs(self) -> set[tuple[str, str]]:
        """The answers."""
        names = list(self._ids)
        _, pairs, used = self._search(keep=True)
        sources, targets = used[pairs >> 32].tolist(), used[pairs & 0xFFFFFFFF].tolist()
        return {(names[source], names[target]) for source, target in zip(sources, targets, strict=True)}

    def _search(self, *, keep: bool) -> tuple[int, np.ndarray, np.ndarray]:
        """How many answers there are, which if they are kept (numbers in the last array), and the ids of the vertices."""
        columns = np.array(list(self._edges.values()), np.int64).reshape(-1, 4)
        source, target, forward, backward = columns.T
        ahead, behind = forward >= 0, backward >= 0
        start = np.concatenate([source[ahead], target[behind]])
        end = np.concatenate([target[ahead], source[behind]])
        symbol = np.concatenate([forward[ahead], backward[behind]])
        used, ends = np.unique(np.concatenate([start, end]), return_inverse=True)
        start, end = ends[: len(start)], ends[len(start) :]
        order = np.argsort(start, kind="stable")
        vertices = len(used)
        offsets = np.zeros(vertices + 1, np.int64)
        np.cumsum(np.bincount(start, minlength=vertices), out=offsets[1:])
        transitions = self._dfa.transitions.astype(np.int64)
        found, pairs = _search(offsets, end[order], symbol[order], transitions, self._dfa.accepting, keep)
        return int(found), pairs, used


@njit(cache=True)
def _search(offsets, end, symbol, transitions, accepting, keep):
    """(number of answers, source << 32 | target of each if they are kept)."""
    vertices, states = len(offsets) - 1, len(accepting)
    seen = np.zeros(vertices * states, np.int64)  # the root that reached a node last, counted from 1
    answered = np.zeros(vertices, np.int64)
    stack = np.empty(vertices * states + 1, np.int64)
    pairs = np.empty(1024 if keep else 0, np.int64)
    found = 0
    for root in range(vertices):
        stack[0] = root * states  # not seen yet: the empty path is no answer
        height = 1
        while height > 0:
            height -= 1
            vertex, state = stack[height] // states, stack[height] % states
            for place in range(offsets[vertex], offsets[vertex + 1]):
                after = transitions[state, symbol[place]]
                if after < 0:
                    continue
                node = end[place] * states + after
                if seen[node] == root + 1:
                    continue
                seen[node] = root + 1
                stack[height] = node
                height += 1
                if accepting[after] and answered[end[place]] != root + 1:
                    answered[end[place]] = root + 1
                    if keep:
                        if found == len(pairs):
                            grown = np.empty(2 * found, np.int64)
                            grown[:found] = pairs
                            pairs = grown
                        pairs[found] = root << 32 | end[place]
                    found += 1
    return found, pairs[:found] if keep else pairs
