"""Sets of graph patterns over a stream, as in the experiments of TriC (Zervakis et al., EDBT 2020, section 6.1).

A pattern is a chain, a star or a cycle with equal probability. It is taken from edges of the stream, so that it has a
solution; some of its vertices become constants and the others variables. The parameters are those of the paper:

- `length`, ℓ: the average number of edges of a pattern, which has from ℓ − 2 to ℓ + 2 edges
- `overlap`, o: the part of chains and stars that begin with the first half of an earlier pattern of the same kind
- `selectivity`, σ: the part of patterns with a solution; in other patterns a constant is replaced so that there is none

A pattern of five variables over hubs would have millions of solutions, which is not useful: if there are more than
`solution_limit` solutions, further variables become constants.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from rpq.automata.symbols import write_name

Edge = tuple[str, str, str]
"""Source, label, target."""

KINDS: tuple[Literal["chain", "star", "cycle"], ...] = ("chain", "star", "cycle")
_STEPS = 3_000
"""The number of visited vertices from which a pattern counts as having too many solutions."""
_TRIES = 50
_OF_CHAINS, _OF_STARS = 0.3, 0.5
"""The initial part of vertices that are constants; the centre of a star counts as a vertex of a chain."""


class SetPattern(NamedTuple):
    """A pattern of a set."""

    kind: Literal["chain", "star", "cycle"]
    vertices: tuple[str, ...]
    """The vertices of the graph from which the pattern was taken; constants are written by name in the pattern."""
    is_constant: tuple[bool, ...]
    atoms: tuple[tuple[int, str, int], ...]
    """(Place of the source in `vertices`, label, place of the target) of each atom."""
    is_satisfied: bool

    @property
    def text(self) -> str:
        """The text of the pattern."""
        terms = [
            write_name(name) if constant else f"?x{place}"
            for place, (name, constant) in enumerate(zip(self.vertices, self.is_constant, strict=True))
        ]
        return " . ".join(f"{terms[source]} {write_name(label)} {terms[target]}" for source, label, target in self.atoms)


def query_set(
    edges: Iterable[Edge],
    count: int,
    *,
    seed: int,
    length: int = 5,
    overlap: float = 0.35,
    selectivity: float = 0.25,
    solution_limit: int = 1000,
    kinds: Sequence[Literal["chain", "star", "cycle"]] = KINDS,
) -> Iterator[SetPattern]:
    """Draw `count` patterns over a non-empty list of edges; equal seeds give equal patterns. About a millisecond each.

    >>> edges = [("u", "a", "v"), ("v", "b", "w"), ("w", "a", "x"), ("x", "b", "y")]
    >>> [drawn.text for drawn in query_set(edges, 2, seed=2, length=2, selectivity=1, kinds=("chain",))]
    ['v b ?x1', '?x1 a ?x0 . ?x2 b ?x1 . u a ?x2']
    """
    graph = _Graph(dict.fromkeys(edges))
    chance = random.Random(seed)
    earlier: dict[str, list[SetPattern]] = {kind: [] for kind in KINDS}
    total = satisfied = 0
    kind = chance.choice(kinds)
    while total < count:
        is_satisfied = satisfied < round(selectivity * (total + 1))
        size = chance.randint(max(1, length - 2), length + 2)
        same_kind = earlier[kind]
        base = chance.choice(same_kind) if kind != "cycle" and same_kind and chance.random() < overlap else None
        drawn = _draw(graph, chance, kind, size, base)
        if drawn is None:
            continue
        drawn = _narrow(graph, chance, drawn, solution_limit)
        satisfiable = drawn
        if drawn is not None and not is_satisfied:
            drawn = _unsatisfiable(graph, chance, drawn)
        if drawn is None or satisfiable is None:
            continue
        same_kind.append(satisfiable)
        total += 1
        satisfied += is_satisfied
        kind = chance.choice(kinds)
        yield drawn


class _Graph:
    """Edges by their ends."""

    def __init__(self, edges: Iterable[Edge]) -> None:
        self.edges = list(edges)
        self.neighbours: dict[str, list[tuple[str, str, bool]]] = {}
        """The neighbours of each vertex, with the label of the edge and whether it leads to the neighbour."""
        self.lists: dict[tuple[str, str, bool], list[str]] = {}
        self.labels: dict[tuple[str, str], str] = {}
        self.edge_set = set(self.edges)
        self.alike: dict[tuple[str, bool], list[str]] = {}
        """The vertices grouped by their first edge, which distinguishes for example persons from places."""
        for source, label, target in self.edges:
            self.labels.setdefault((source, target), label)
            for near, far, out in ((source, target, True), (target, source, False)):
                if near not in self.neighbours:
                    self.alike.setdefault((label, out), []).append(near)
                self.neighbours.setdefault(near, []).append((far, label, out))
                self.lists.setdefault((near, label, out), []).append(far)

    def same_sort(self, vertex: str) -> list[str]:
        """Return the vertices of the same sort."""
        _, label, out = self.neighbours[vertex][0]
        return self.alike[label, out]

    def count(self, drawn: SetPattern, solution_limit: int) -> int:
        """Return the number of solutions of a pattern, or some number larger than `solution_limit`."""
        bound = {i: name for i, name in enumerate(drawn.vertices) if drawn.is_constant[i]}
        steps = [0]

        def solutions(atoms: list[tuple[int, str, int]]) -> int:
            waiting = []
            for atom in atoms:
                x, label, y = atom
                if x not in bound or y not in bound:
                    waiting.append(atom)
                elif (bound[x], label, bound[y]) not in self.edge_set:
                    return 0
            if not waiting:
                return 1
            reached = [
                (len(found), found, y if x in bound else x)
                for x, label, y in waiting
                if x in bound or y in bound
                for found in [self.lists.get((bound[x], label, True) if x in bound else (bound[y], label, False), [])]
            ]
            if not reached:
                _, label, _ = waiting[0]
                reached = [(0, self.alike.get((label, True), [*self.neighbours]), waiting[0][0])]
            elif len(waiting) == 1:  # each of these vertices completes a solution
                total = min(len(reached[0][1]), max(1, min(solution_limit, _STEPS - steps[0]) + 1))
                steps[0] += total
                return solution_limit + 1 if steps[0] > _STEPS else total
            _, found, place = min(reached)
            total = 0
            for vertex in found:
                steps[0] += 1
                bound[place] = vertex
                total += solutions(waiting)
                if total > solution_limit or steps[0] > _STEPS:
                    total = max(total, solution_limit + 1)
                    break
            bound.pop(place, None)
            return total

        return solutions(list(drawn.atoms))


def _draw(
    graph: _Graph, chance: random.Random, kind: Literal["chain", "star", "cycle"], size: int, base: SetPattern | None
) -> SetPattern | None:
    """Draw a pattern of the graph; return None if no pattern was found."""
    vertices: list[str]
    atoms: list[tuple[int, str, int]]
    constants: list[bool]
    if base is not None:
        half = max(1, len(base.atoms) // 2)
        vertices, atoms, constants = [*base.vertices[: half + 1]], [*base.atoms[:half]], [*base.is_constant[: half + 1]]
    else:
        vertices, atoms = [chance.choice(graph.edges)[chance.choice((0, 2))]], []
        constants = [chance.random() < _OF_CHAINS]
    if any(vertex not in graph.neighbours for vertex in vertices):
        return None
    if kind == "cycle":
        return _cycle(graph, chance, vertices[0], size)
    while len(atoms) < size:
        place = 0 if kind == "star" else len(vertices) - 1
        neighbours = graph.neighbours[vertices[place]]
        fresh = [step for step in chance.sample(neighbours, min(8, len(neighbours))) if step[0] not in vertices]
        if not fresh:
            break
        far, label, out = fresh[0]
        vertices.append(far)
        atoms.append((place, label, len(vertices) - 1) if out else (len(vertices) - 1, label, place))
        constants.append(chance.random() < (_OF_STARS if kind == "star" else _OF_CHAINS))
    return SetPattern(kind, tuple(vertices), tuple(constants), tuple(atoms), True) if atoms else None


def _cycle(graph: _Graph, chance: random.Random, start: str, size: int) -> SetPattern | None:
    """Return a chain that is closed by an edge or by a common neighbour of its ends; None if there is no such chain."""
    vertices = [start]
    atoms: list[tuple[int, str, int]] = []
    for _ in range(chance.randint(1, max(1, min(size - 1, 4)))):
        neighbours = graph.neighbours[vertices[-1]]
        fresh = [step for step in chance.sample(neighbours, min(8, len(neighbours))) if step[0] not in vertices]
        if not fresh:
            break
        far, label, out = fresh[0]
        vertices.append(far)
        here, there = len(vertices) - 2, len(vertices) - 1
        atoms.append((here, label, there) if out else (there, label, here))
    last = len(vertices) - 1
    if last > 1:
        for here, there in ((last, 0), (0, last)):
            if (closing := graph.labels.get((vertices[here], vertices[there]))) is not None:
                return _close(chance, vertices, [*atoms, (here, closing, there)])
    near, far_end = sorted((0, last), key=lambda place: len(graph.neighbours[vertices[place]]))
    neighbours = graph.neighbours[vertices[near]]
    if last > 0 and len(neighbours) <= 300:
        for vertex, label, out in chance.sample(neighbours, len(neighbours)):
            if vertex in vertices:
                continue
            new = len(vertices)
            first = (near, label, new) if out else (new, label, near)
            for here, there in ((new, far_end), (far_end, new)):
                ends = (vertex, vertices[far_end]) if here == new else (vertices[far_end], vertex)
                if (second := graph.labels.get(ends)) is not None:
                    return _close(chance, [*vertices, vertex], [*atoms, first, (here, second, there)])
    return None


def _close(chance: random.Random, vertices: list[str], atoms: list[tuple[int, str, int]]) -> SetPattern:
    constants = tuple(chance.random() < _OF_CHAINS for _ in vertices)
    return SetPattern("cycle", tuple(vertices), constants, tuple(atoms), True)


def _narrow(graph: _Graph, chance: random.Random, drawn: SetPattern, solution_limit: int) -> SetPattern | None:
    """Replace variables by constants until there are few solutions, with at least one variable; None if that fails."""
    variables = [place for place, constant in enumerate(drawn.is_constant) if not constant]
    if not variables:
        constants = list(drawn.is_constant)
        constants[chance.randrange(len(constants))] = False
        return _narrow(graph, chance, drawn._replace(is_constant=tuple(constants)), solution_limit)
    chance.shuffle(variables)
    if len(variables) == len(drawn.is_constant):
        drawn = _with_constant(drawn, variables.pop(), None)
    while graph.count(drawn, solution_limit) > solution_limit:
        if len(variables) < 2:
            return None
        drawn = _with_constant(drawn, variables.pop(), None)
    return drawn


def _unsatisfiable(graph: _Graph, chance: random.Random, drawn: SetPattern) -> SetPattern | None:
    """Replace a vertex by a constant so that the pattern has no solution; return None if no such constant is found."""
    for _ in range(_TRIES):
        place = chance.randrange(len(drawn.vertices))
        changed = _with_constant(drawn, place, chance.choice(graph.same_sort(drawn.vertices[place])))
        if not all(changed.is_constant) and graph.count(changed, 0) == 0:
            return changed._replace(is_satisfied=False)
    return None


def _with_constant(drawn: SetPattern, place: int, name: str | None) -> SetPattern:
    constants, vertices = list(drawn.is_constant), list(drawn.vertices)
    constants[place] = True
    vertices[place] = vertices[place] if name is None else name
    return drawn._replace(is_constant=tuple(constants), vertices=tuple(vertices))
