"""The oracle of lengths: the smallest number of edges of a walk, by brute force on the snapshot graph of `tests.reference`.

The walks of an expression are known by their ends and their smallest length, and are put together from those of its parts:
no automaton is involved. Numbers in brackets, [E5.1], name the rule of the contract that a line obeys.

What the rules leave open is decided here, and so for every engine:

- An answer is a triple (source, target, length): a length that changes is an answer that leaves and one that enters, in one
  event; a change of length that an event takes back is none.
- The empty path is no answer, so no length is 0.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from rpq import automata
from rpq.automata.expressions import Alternation, Concatenation, Expression, Inverse, Label, NegatedSet, Repetition
from tests.reference import Edge, ReferenceQuery, Vertex

Lengths = dict[tuple[Vertex, Vertex], int]


class LengthRow(NamedTuple):
    """One change of an answer."""

    query: str
    source: Vertex
    target: Vertex
    length: int
    timestamp: int
    op: str


def lengths(expression: str, edges: Iterable[Edge]) -> Lengths:
    """Return the smallest number of edges of a walk that spells a word of the expression, for each pair that has one [E5.1].

    >>> lengths("a/b*", [(1, "a", 2), (2, "b", 3), (3, "b", 4), (2, "b", 4)])
    {(1, 2): 1, (1, 3): 2, (1, 4): 2}
    """
    found, _has_empty = _meaning(automata.parse(expression), set(edges))
    return dict(sorted(found.items(), key=repr))


def _least(*parts: Lengths) -> Lengths:
    found: Lengths = {}
    for part in parts:
        for pair, length in part.items():
            found[pair] = min(length, found.get(pair, length))
    return found


def _join(left: Lengths, right: Lengths) -> Lengths:
    found: Lengths = {}
    for (x, y), length in left.items():
        for (z, w), more in right.items():
            if y == z:
                found[x, w] = min(length + more, found.get((x, w), length + more))
    return found


def _concatenate(left: tuple[Lengths, bool], right: tuple[Lengths, bool]) -> tuple[Lengths, bool]:
    (p, p_empty), (q, q_empty) = left, right
    return _least(_join(p, q), p if q_empty else {}, q if p_empty else {}), p_empty and q_empty


def _meaning(node: Expression, edges: set[Edge]) -> tuple[Lengths, bool]:
    """Return the smallest lengths of the walks that have edges, and whether there is the empty one."""
    match node:
        case Label(name):
            return {(s, t): 1 for s, label, t in edges if label == name}, False
        case NegatedSet():
            ahead = {(s, t): 1 for s, label, t in edges if False in node.directions and (label, False) not in node.members}
            back = {(t, s): 1 for s, label, t in edges if True in node.directions and (label, True) not in node.members}
            return ahead | back, False
        case Inverse(inner):
            found, empty = _meaning(inner, edges)
            return {(y, x): length for (x, y), length in found.items()}, empty
        case Alternation(parts):
            meanings = [_meaning(part, edges) for part in parts]
            return _least(*(found for found, _ in meanings)), any(empty for _, empty in meanings)
        case Concatenation(parts):
            result: tuple[Lengths, bool] = {}, True
            for part in parts:
                result = _concatenate(result, _meaning(part, edges))
            return result
        case Repetition(inner, minimum, maximum):
            found, empty = _meaning(inner, edges)
            result = {}, True
            for _ in range(minimum):
                result = _concatenate(result, (found, empty))
            if maximum is not None:
                for _ in range(maximum - minimum):
                    result = _concatenate(result, (found, True))
                return result
            closure = found
            while (longer := _least(closure, _join(closure, found))) != closure:
                closure = longer
            return _concatenate(result, (closure, True))
    raise TypeError(node)


@dataclass(frozen=True, kw_only=True)
class LengthQuery(ReferenceQuery):
    """A query whose answers have lengths; its windows are explicit [E5.1]."""

    semantics: str = "explicit"

    def row(self, answer: tuple, time: int, op: str) -> LengthRow:
        """Return the change of an answer as a row."""
        return LengthRow(self.name, *answer, time, op)

    def answer(self, edges: Iterable[Edge]) -> set[tuple[Vertex, Vertex, int]]:
        return {
            (x, y, length)
            for (x, y), length in lengths(self.expression, edges).items()
            if (self.sources is None or x in self.sources) and (self.targets is None or y in self.targets)
        }
