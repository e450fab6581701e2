"""The oracle of costs: the smallest sum of a property along a path, by Bellman and Ford's rounds on the product of automaton
and snapshot, a multigraph of `tests.reference_properties`. Numbers in brackets, [E5.1], name the rule of the contract that a
line obeys.

What the rules leave open is decided here, and so for every engine:

- An edge with a bad value is in the window all the same: it counts as inserted, and replaces an edge of its identity.
- A loose value that is a number is the nearest float; a sum of such values is told without a point where it is an integer.
- The empty path is no answer, but an edge may cost nothing.
"""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, fields
from decimal import Decimal
from typing import Any

from rpq import automata
from tests.reference import Vertex
from tests.reference_properties import CountedQuery, Edge, Loose, PropertyQuery, Solution, _number, _selected, labelled

Costs = dict[tuple[Vertex, Vertex], Any]


def weight_of(edge: Edge, cost: str) -> int | float | Decimal | None:
    """Return the value of an edge on a path, None where no path takes it: null, NaN or negative [E5.1]."""
    value = edge.value(cost)
    if isinstance(value, Loose):
        value = None if _number(value) is None else float(_number(value))
    if value is None or isinstance(value, (str, bool)) or value < 0 or value != value:
        return None
    return value + 0.0 if isinstance(value, float) else value


def costs(expression: str, edges: Iterable[Edge], cost: str) -> Costs:
    """Return the smallest sum of a property along a path that spells a word of the expression, for each such pair [E5.1].

    Sums are taken from the source on: of integers and decimals exactly, of floats rounded at each step.

    >>> costs("a+", [Edge(1, "x", "a", "y", 1, {"n": 5}), Edge(2, "y", "a", "z", 2, {"n": 7})], "n")
    {('x', 'y'): 5, ('x', 'z'): 12, ('y', 'z'): 7}
    """
    text, found = labelled(expression, edges)
    dfa = automata.compile(text)
    steps = []
    for edge, label in found:
        if (weight := weight_of(edge, cost)) is not None:
            steps.append((edge.source, label, False, edge.target, weight))
            steps.append((edge.target, label, True, edge.source, weight))

    def following(state: int, label: str, inverse: bool) -> int:
        column = dfa.column(label, inverse)
        return int(dfa.transitions[state, column]) if column >= 0 else -1

    answer: Costs = {}
    for root in {end for u, _, _, v, _ in steps for end in (u, v)}:
        best: dict[tuple[Vertex, int], Any] = {}
        begun = [(following(0, label, inverse), v, weight) for u, label, inverse, v, weight in steps if u == root]
        while begun:
            for state, vertex, total in begun:
                if state >= 0 and (best.get((vertex, state)) is None or total < best[vertex, state]):
                    best[vertex, state] = total
            begun = [
                (state, v, total)
                for (vertex, before), sum_ in best.items()
                for u, label, inverse, v, weight in steps
                if u == vertex and (state := following(before, label, inverse)) >= 0
                for total in [sum_ + weight]
                if best.get((v, state)) is None or total < best[v, state]
            ]
        for (vertex, state), total in best.items():
            if dfa.accepting[state]:
                answer[root, vertex] = min(total, answer.get((root, vertex), total))
    return dict(sorted(answer.items(), key=repr))


def told(total: Any, *, is_loose: bool = False) -> Any:
    """Return a cost as a row has it, with its type [E3.2]."""
    if is_loose:
        return "str", str(int(total)) if math.isfinite(total) and total == int(total) and total < 1e16 else repr(total)
    return _selected("e.cost", frozenset(), {"e": Edge(0, 0, "", 0, 0, {"cost": total})})


@dataclass(frozen=True, kw_only=True)
class CostQuery(PropertyQuery):
    """A path query whose answers have costs; its windows are explicit [E5.1]."""

    cost: str
    sources: frozenset | None = None
    targets: frozenset | None = None
    semantics: str = "explicit"

    def solutions(self, edges: Iterable[Edge]) -> Counter[Solution]:
        (atom,) = self.atoms
        edges = list(edges)
        is_loose = any(isinstance(edge.value(self.cost), Loose) for edge in edges)
        return Counter(
            (x, y, told(total, is_loose=is_loose))
            for (x, y), total in costs(atom.expression, edges, self.cost).items()
            if (self.sources is None or x in self.sources) and (self.targets is None or y in self.targets)
        )


@dataclass(frozen=True, kw_only=True)
class CountedCostQuery(CountedQuery, CostQuery):
    """A query with costs over a count window."""

    @classmethod
    def of(cls, query: CostQuery) -> "CountedCostQuery":  # type: ignore[override]
        """Return a query over a count window with the numbers of another one."""
        return cls(**{each.name: getattr(query, each.name) for each in fields(query)})
