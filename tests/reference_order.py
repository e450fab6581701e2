"""The oracle of paths in time order, by brute force on the snapshot multigraph of `tests.reference_properties`.

A walk is known by its first vertex, its last vertex, and the timestamps of its first and its last edge; of walks that agree
in these the one with the fewest edges counts. The walks of an expression are put together from those of its parts. Two walks
follow each other if the second begins where the first ends and its first edge comes after the last edge of the first: later,
or not earlier, at most the gap later, and the whole takes at most the span. Numbers in brackets, [E4.1], name the rule of
the contract that a line obeys:

[E4.1] order, gap and span; an inverse step is an edge like any other, [E4.3] edges of one timestamp follow each other under
`non_decreasing`, [E4.5] witness, [E4.6] count windows, [E5.1] lengths.

What the rules leave open is decided here, and so for every engine:

- A path of one edge respects any order, gap and span.
- An edge may be walked again where the order allows it: under `non_decreasing`, within one timestamp.
- A count window numbers inserts as they come; the order goes by timestamps, whatever the numbers.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from rpq import automata
from rpq.automata.expressions import Alternation, Concatenation, Expression, Inverse, Label, NegatedSet, Repetition
from tests.reference import Vertex
from tests.reference_patterns import Term, Variable
from tests.reference_properties import (
    CountedRunning,
    Edge,
    EdgeAtom,
    PropertyEngine,
    PropertyQuery,
    Running,
    Solution,
    labelled,
)


class PathOrder(NamedTuple):
    """The order in time of the edges of a path, with the largest gap and span, None for any [E4.1]."""

    strict: bool = True
    gap: int | None = None
    span: int | None = None

    def follows(self, last: int, first: int) -> bool:
        """Return whether an edge at `first` may come behind one at `last`."""
        return (first > last if self.strict else first >= last) and (self.gap is None or first - last <= self.gap)

    def admits(self, timestamps: Sequence[int]) -> bool:
        """Return whether the edges of a path may have these timestamps.

        >>> [PathOrder(gap=3, span=4).admits(times) for times in ([1, 3, 5], [1, 5], [1, 3, 6], [1, 1])]
        [True, False, False, False]
        """
        steps = itertools.pairwise(timestamps)
        span = timestamps[-1] - timestamps[0]
        return all(self.follows(*step) for step in steps) and (self.span is None or span <= self.span)


class Walk(NamedTuple):
    """A walk, as far as its continuation depends on it."""

    source: Vertex
    first: int
    last: int
    target: Vertex


def ordered_pairs(expression: str, edges: Iterable[Edge], order: PathOrder) -> set[tuple[Vertex, Vertex]]:
    """Return the pairs joined by a walk in time order that spells a word of the expression, conditions in brackets allowed.

    >>> edges = [Edge(1, "x", "a", "y", 2), Edge(2, "y", "a", "z", 3), Edge(3, "z", "a", "x", 1)]
    >>> sorted(ordered_pairs("a/a", edges, PathOrder()))
    [('x', 'z'), ('z', 'y')]
    """
    return set(ordered_lengths(expression, edges, order))


def ordered_lengths(expression: str, edges: Iterable[Edge], order: PathOrder) -> dict[tuple[Vertex, Vertex], int]:
    """Return the smallest number of edges of such a walk for each pair [E5.1].

    >>> edges = [Edge(1, "x", "a", "y", 1), Edge(2, "y", "a", "z", 2), Edge(3, "z", "a", "w", 3), Edge(4, "x", "a", "z", 3)]
    >>> ordered_lengths("a+", edges, PathOrder())["x", "z"], ordered_lengths("a+", edges, PathOrder())["x", "w"]
    (1, 3)
    """
    text, found = labelled(expression, edges)
    steps = [(edge.source, label, edge.target, edge.timestamp) for edge, label in found]
    walks, _has_empty = _walks(automata.parse(text), steps, order)
    return _least(((walk.source, walk.target), length) for walk, length in walks.items())


def _least(found: Iterable[tuple[Any, int]]) -> dict[Any, int]:
    """Return the smallest number of each key."""
    least: dict[Any, int] = {}
    for key, number in found:
        least[key] = min(number, least.get(key, number))
    return least


_Walks = dict[Walk, int]
"""Walks, each with its smallest number of edges."""
_Meaning = tuple[_Walks, bool]
"""The walks of an expression that have edges, and whether it has the empty one."""


def _walks(node: Expression, edges: list[tuple[Vertex, str, Vertex, int]], order: PathOrder) -> _Meaning:
    def steps(found: Iterable[tuple[Vertex, Vertex, int]]) -> _Meaning:
        return {Walk(x, time, time, y): 1 for x, y, time in found}, False

    def either(*parts: _Walks) -> _Walks:
        return _least(itertools.chain.from_iterable(part.items() for part in parts))

    def join(left: _Walks, right: _Walks) -> _Walks:
        glued = (
            (Walk(p.source, p.first, q.last, q.target), length + more)
            for p, length in left.items()
            for q, more in right.items()
            if p.target == q.source and order.follows(p.last, q.first)
        )
        return _least((walk, length) for walk, length in glued if order.span is None or walk.last - walk.first <= order.span)

    def concatenate(left: _Meaning, right: _Meaning) -> _Meaning:
        (p, p_empty), (q, q_empty) = left, right
        return either(join(p, q), p if q_empty else {}, q if p_empty else {}), p_empty and q_empty

    match node:
        case Label(name):
            return steps((s, t, time) for s, label, t, time in edges if label == name)
        case NegatedSet():
            ahead = [
                (s, t, time)
                for s, label, t, time in edges
                if False in node.directions and (label, False) not in node.members
            ]
            back = [
                (t, s, time) for s, label, t, time in edges if True in node.directions and (label, True) not in node.members
            ]
            return steps(ahead + back)
        case Inverse(Label() | NegatedSet() as step):
            forward, _ = _walks(step, edges, order)
            return {Walk(walk.target, walk.first, walk.last, walk.source): 1 for walk in forward}, False
        case Inverse(inner):  # the edges of a path are in order as the path goes, so its parts are turned around one by one
            return _walks(_inverse(inner), edges, order)
        case Alternation(parts):
            meanings = [_walks(part, edges, order) for part in parts]
            return either(*(found for found, _ in meanings)), any(empty for _, empty in meanings)
        case Concatenation(parts):
            result: _Meaning = {}, True
            for part in parts:
                result = concatenate(result, _walks(part, edges, order))
            return result
        case Repetition(inner, minimum, maximum):
            found, empty = _walks(inner, edges, order)
            result = {}, True
            for _ in range(minimum):
                result = concatenate(result, (found, empty))
            if maximum is not None:
                for _ in range(maximum - minimum):
                    result = concatenate(result, (found, True))
                return result
            closure = found
            while (longer := either(closure, join(closure, found))) != closure:
                closure = longer
            return concatenate(result, (closure, True))
    raise TypeError(node)


def _inverse(node: Expression) -> Expression:
    """Return the expression whose paths are those of `node` walked backwards."""
    match node:
        case Label() | NegatedSet():
            return Inverse(node)
        case Inverse(inner):
            return inner
        case Alternation(parts):
            return Alternation(tuple(map(_inverse, parts)))
        case Concatenation(parts):
            return Concatenation(tuple(map(_inverse, reversed(parts))))
        case Repetition(inner, minimum, maximum):
            return Repetition(_inverse(inner), minimum, maximum)
    raise TypeError(node)


class OrderedAtom(NamedTuple):
    """An atom over the paths of an expression that are in time order."""

    subject: Term
    expression: str
    object: Term
    order: PathOrder
    edge: None = None


@dataclass(frozen=True, kw_only=True)
class OrderQuery(PropertyQuery):
    """A query with paths in time order. In a window by `count`, `size` and `slide` are numbers of inserts.

    With `has_length` its answers are triples (source, target, length) [E5.1].
    """

    sources: frozenset[Vertex] | None = None
    targets: frozenset[Vertex] | None = None
    window: Literal["time", "count"] = "time"
    has_length: bool = False

    @classmethod
    def path(cls, expression: str, *, order: PathOrder, **options: Any) -> OrderQuery:
        """Return the query for the pairs of one path expression."""
        atom = OrderedAtom(Variable("source"), expression, Variable("target"), order)
        return cls(name=options.pop("name", expression), atoms=(atom,), select=("source", "target"), **options)

    def solutions(self, edges: Iterable[Edge]) -> Counter[Solution]:
        if not self.has_length:
            return super().solutions(edges)
        (atom,) = self.atoms
        found = ordered_lengths(atom.expression, edges := [*edges], atom.order)
        return Counter((*pair, found[pair]) for pair in self.pairs(atom, edges))

    def pairs(self, atom: EdgeAtom | OrderedAtom, edges: Iterable[Edge]) -> set[tuple[Vertex, Vertex]]:
        """Return the pairs of an atom, between `sources` and `targets`."""
        if not isinstance(atom, OrderedAtom):
            return super().pairs(atom, edges)
        return {
            (x, y)
            for x, y in self.ordered_pairs(atom, edges)
            if (self.sources is None or x in self.sources) and (self.targets is None or y in self.targets)
        }

    def ordered_pairs(self, atom: OrderedAtom, edges: Iterable[Edge]) -> set[tuple[Vertex, Vertex]]:
        """Return the pairs of an atom about paths in time order, whatever their ends."""
        return ordered_pairs(atom.expression, edges, atom.order)


class OrderEngine(PropertyEngine):
    """Queries for paths in time order over one stream.

    >>> engine = OrderEngine(OrderQuery.path("a/b", order=PathOrder(), size=10, slide=5), identity="parallel")
    >>> engine.insert("y", "b", "z", 1), engine.insert("x", "a", "y", 2), engine.insert("y", "b", "z", 3)
    ([], [], [Row(query='a/b', values=('x', 'z'), timestamp=3, op='+')])
    """

    def running_of(self, query: PropertyQuery) -> Running:
        return CountedRunning(query) if isinstance(query, OrderQuery) and query.window == "count" else Running(query)
