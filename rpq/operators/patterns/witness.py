"""The witness of a solution: a binding, and for each atom the edge or path that matches it.

A chain of atoms that is evaluated as one path has one walk, which spells a word of the concatenation of the atoms' non-empty
words. Wherever it can be cut into such words, there is a path for each atom, and the vertices between them are values of the
variables that no column shows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import rpq.automata as automata
from rpq.automata.dfa import DFA
from rpq.automata.symbols import LabelSymbol
from rpq.language.pattern import Atom, Constant
from rpq.language.query import PatternQuery
from rpq.operators.paths.index.delta_index import DeltaIndex
from rpq.operators.paths.path import json_properties
from rpq.operators.patterns.chains import Chain
from rpq.operators.patterns.joins.binding_search import Binding, find_binding, find_bindings
from rpq.operators.patterns.joins.plan import Component
from rpq.operators.patterns.meanings import Meaning, MeaningEdge, NamedVertex, PathRead, edge_step
from rpq.operators.patterns.pattern_host import PatternHost
from rpq.stream.edges.edge_values import ValuesOf
from rpq.stream.edges.snapshot import Edges
from rpq.stream.names.stream_labels import text_of

Vertex = int | str


@dataclass(frozen=True, kw_only=True)
class Step:
    """An edge behind an atom, with its time: the largest timestamp since it came in, None for a static edge.

    `against` is True if a path walks it from its target to its source. `properties` are the values of the edge that queries
    read, if the engine stores them (`Engine(witness=True)`); the comparison of steps ignores them.

    >>> print(Step(source="x", label="knows", target="y", timestamp=7))
    x -knows-> y @7
    >>> print(Step(source="x", label="knows", target="y", timestamp=None, against=True))
    y <-knows- x
    >>> print(Step(source="x", label="pays", target="y", timestamp=7, properties={"amount": 5}))
    x -pays-> y @7 {amount: 5}
    """

    source: Vertex
    label: str
    target: Vertex
    timestamp: Any
    against: bool = False
    properties: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)

    @property
    def ends(self) -> tuple[Vertex, Vertex]:
        """The vertices from which and to which it is walked.

        >>> Step(source="x", label="knows", target="y", timestamp=7, against=True).ends
        ('y', 'x')
        """
        return (self.target, self.source) if self.against else (self.source, self.target)

    @property
    def arrow(self) -> str:
        """Its label, as an arrow in the direction in which it is walked.

        >>> Step(source="x", label="knows", target="y", timestamp=7).arrow
        '-knows->'
        """
        return f"<-{self.label}-" if self.against else f"-{self.label}->"

    def __str__(self) -> str:
        first, last = self.ends
        return f"{first} {self.arrow} {last}{self.remarks}"

    @property
    def remarks(self) -> str:
        """Its time and properties as a text that follows its target.

        >>> Step(source="x", label="knows", target="y", timestamp=7).remarks
        ' @7'
        """
        values = facts_text(self.properties or {})
        return ("" if self.timestamp is None else f" @{self.timestamp}") + (f" {{{values}}}" if values else "")


@dataclass(frozen=True, kw_only=True)
class AtomWitness:
    """The edges that match an atom: one edge, or those of a path from its subject to its object.

    >>> step = Step(source="b", label="knows", target="a", timestamp=7, against=True)
    >>> print(AtomWitness(atom="?x ^knows ?y", steps=(step,)))
    ?x ^knows ?y: a <-knows- b @7
    """

    atom: str
    steps: tuple[Step, ...]

    def __str__(self) -> str:
        def pieces() -> Iterator[str]:
            yield str(self.steps[0].ends[0])
            for step in self.steps:
                yield f" {step.arrow} {step.ends[1]}{step.remarks}"

        return f"{self.atom}: {''.join(pieces())}"


@dataclass(frozen=True, kw_only=True)
class Witness:
    """The reason why a row is an answer of a pattern: a value for each variable and blank node, and edges for each atom.

    There are no edges for the tests of vertices.

    If several bindings give the row, it is any one of them. The value of an edge variable, whose name is in `edges`, is the
    id or the number of the edge, where edges have one. `facts` are those of its vertices that the query reads: properties of
    their records, and `labels`. The text has a line for the values, one for each atom, and one for each vertex with facts.

    >>> step = Step(source="ann", label="knows", target="bob", timestamp=7)
    >>> witness = Witness(binding=(("?x", "ann"),), atoms=(AtomWitness(atom="?x knows bob", steps=(step,)),))
    >>> print(witness)
    ?x = ann
    ?x knows bob: ann -knows-> bob @7
    """

    binding: tuple[tuple[str, Vertex], ...]
    atoms: tuple[AtomWitness, ...]
    edges: frozenset[str] = field(default=frozenset(), compare=False, repr=False)
    facts: tuple[tuple[Vertex, Mapping[str, Any]], ...] = field(default=(), compare=False, repr=False)

    def __getitem__(self, name: str) -> Vertex:
        """Return the value of a variable, or of a blank node (`_:name`).

        >>> Witness(binding=(("?x", "ann"), ("_:b", "bob")), atoms=())["x"]
        'ann'
        """
        values = dict(self.binding)
        return values[name] if name in values else values[f"?{name}"]

    def __str__(self) -> str:
        values = ", ".join(f"{name} = {value}" for name, value in self.binding)
        facts = (f"{vertex} {{{facts_text(facts)}}}" for vertex, facts in self.facts)
        return "\n".join([*([values] if values else []), *map(str, self.atoms), *facts])

    @property
    def vertices(self) -> tuple[Vertex, ...]:
        """Its vertices, each once: the values of variables, and the ends of edges.

        >>> step = Step(source="ann", label="knows", target="bob", timestamp=7)
        >>> Witness(binding=(("?x", "ann"),), atoms=(AtomWitness(atom="?x knows bob", steps=(step,)),)).vertices
        ('ann', 'bob')
        """
        bound = (value for name, value in self.binding if name not in self.edges)
        ends = (end for atom in self.atoms for step in atom.steps for end in step.ends)
        return tuple(dict.fromkeys((*bound, *ends)))

    @property
    def timestamps(self) -> tuple[Any, ...]:
        """The times of the edges of all atoms, in the order of the pattern.

        >>> step = Step(source="ann", label="knows", target="bob", timestamp=7)
        >>> Witness(binding=(), atoms=(AtomWitness(atom="ann knows bob", steps=(step,)),)).timestamps
        (7,)
        """
        return tuple(step.timestamp for atom in self.atoms for step in atom.steps)

    def with_times(self, time: Callable[[Any], Any]) -> Witness:
        """Return the witness with `time` applied to each timestamp.

        >>> step = Step(source="ann", label="knows", target="bob", timestamp=7)
        >>> witness = Witness(binding=(), atoms=(AtomWitness(atom="ann knows bob", steps=(step,)),))
        >>> print(witness.with_times("second {}".format))
        ann knows bob: ann -knows-> bob @second 7
        """
        return replace(
            self,
            atoms=tuple(
                replace(atom, steps=tuple(replace(step, timestamp=time(step.timestamp)) for step in atom.steps))
                for atom in self.atoms
            ),
        )

    def to_json(self) -> str:
        """Return a JSON list for each atom, in the order of the pattern: v0, label, time, v1 and so on.

        An edge that is walked against its direction has `^label`; its properties follow the time, if they are stored.

        >>> step = Step(source="ann", label="knows", target="bob", timestamp=7, against=True)
        >>> Witness(binding=(), atoms=(AtomWitness(atom="?x ^knows ann", steps=(step,)),)).to_json()
        '[["bob", "^knows", 7, "ann"]]'
        """
        atoms = []
        for atom in self.atoms:
            walked: list[Any] = [atom.steps[0].ends[0]]
            for step in atom.steps:
                values = [] if step.properties is None else [json_properties(step.properties)]
                walked += ["^" * step.against + step.label, step.timestamp, *values, step.ends[1]]
            atoms.append(walked)
        return json.dumps(atoms, ensure_ascii=False, default=str)


def facts_text(facts: Mapping[str, Any]) -> str:
    """Return values as a text.

    >>> facts_text({"risk": 4, "labels": ["Account", "Closed"]})
    'risk: 4, labels: [Account, Closed]'
    """
    shown = ((name, f"[{', '.join(value)}]" if isinstance(value, list) else value) for name, value in facts.items())
    return ", ".join(f"{name}: {value}" for name, value in shown)


_State = tuple[int, int]
"""The number of an atom, and the state of its automaton."""


def split_walk(chain: Chain, walk: Sequence[Step]) -> list[tuple[Step, ...]]:
    """Split a walk of a chain into the steps of each of its atoms, in the order of the walk, each from subject to object.

    O(steps · states of all automata).
    """
    automatons = [automata.compile(automata.nonempty(link.expression) or link.expression) for link in chain.links]
    ends = [0, *_ends(automatons, walk)]
    pieces = [walk[begin:end] for begin, end in pairwise(ends)]
    return [
        tuple(replace(step, against=not step.against) for step in reversed(piece)) if link.is_backwards else tuple(piece)
        for link, piece in zip(chain.links, pieces, strict=True)
    ]


def _ends(automatons: Sequence[DFA], walk: Sequence[Step]) -> list[int]:
    """Return how many steps of the walk each automaton and those before it have read."""
    # For each number of steps, the states reachable by them, with the state from which each was first reached.
    reached: list[dict[_State, _State]] = [{(0, 0): (0, 0)}]
    for step in walk:
        following: dict[_State, _State] = {}
        for number, state in reached[-1]:
            dfa = automatons[number]
            column = dfa.column(step.label, step.against)
            after = int(dfa.transitions[state, column]) if column >= 0 else -1
            if after >= 0:
                following.setdefault((number, after), (number, state))
                if dfa.accepting[after] and number + 1 < len(automatons):
                    following.setdefault((number + 1, 0), (number, state))
        reached.append(following)
    last = len(automatons) - 1
    at = next(state for state in reached[-1] if state[0] == last and automatons[last].accepting[state[1]])
    ends = [len(walk)]
    for steps in range(len(walk), 0, -1):
        before = reached[steps][at]
        if before[0] < at[0]:
            ends.append(steps)
        at = before
    return ends[::-1]


def witness_of(
    meanings: Sequence[tuple[Meaning, Sequence[Component]]],
    bound: Binding,
    *,
    question: PatternQuery,
    chains: Sequence[Chain],
    host: PatternHost,
    relation_of: Callable[[MeaningEdge], int],
    index_of: Callable[[PathRead], DeltaIndex],
    graph: WindowGraph,
) -> Witness | None:
    """Return the witness of an answer with these values of the columns; None if they are no answer.

    `meanings` come with the parts of their plans, one edge for each of the `chains` of atoms of the question that are
    evaluated. O(atoms), and O(edges) where the columns leave variables out.
    """
    relations = _HostRelations(host)
    for meaning, parts in meanings:
        binding = find_binding(relations, parts, bound, isomorphism=question.matching == "isomorphism")
        if binding is not None:
            values = {_term_text(name): graph.name_of(value) for name, value in binding.items()}
            steps: dict[int, tuple[Step, ...]] = {}
            for chain, edge in zip(chains, meaning.edges, strict=True):
                if chain.atom.fact is not None:
                    continue
                walk = steps_of_atom(chain.atom, edge, binding, host, relation_of, index_of, graph)
                pieces = split_walk(chain, walk) if len(chain.links) > 1 else [walk]
                for link, piece in zip(chain.links, pieces, strict=True):
                    steps[link.place] = piece
                    atom = question.pattern.atoms[link.place]
                    ends = (atom.subject, piece[0].ends[0]), (atom.object, piece[-1].ends[1])
                    values |= {str(term): value for term, value in ends if not isinstance(term, Constant)}
            atoms = [(place, atom) for place, atom in enumerate(question.pattern.atoms) if atom.fact is None]
            return Witness(
                binding=tuple(values.items()),
                atoms=tuple(AtomWitness(atom=str(atom), steps=steps[place]) for place, atom in atoms),
            )
    return None


def bindings_of(parts: Sequence[Component], bound: Binding, host: PatternHost, *, first: bool = False) -> Iterator[Binding]:
    """Yield all bindings of the parts of a meaning that agree with the `bound` ones; with `first`, perhaps only one."""
    return find_bindings(_HostRelations(host), parts, bound, first=first)


def _term_text(variable: str) -> str:
    """Return a variable or blank node of a plan as the pattern has it."""
    return variable.removeprefix("?") if variable.startswith("?_:") else variable


def steps_of_atom(
    atom: Atom,
    edge: tuple[str | NamedVertex, LabelSymbol | PathRead, str | NamedVertex],
    binding: Binding,
    host: PatternHost,
    relation_of: Callable[[MeaningEdge], int],
    index_of: Callable[[PathRead], DeltaIndex],
    graph: WindowGraph,
) -> tuple[Step, ...]:
    """Return the edge behind an atom, or those of a path from its subject to its object."""
    ends = [host.constants.id_of(end.name) if isinstance(end, NamedVertex) else binding[end] for end in (edge[0], edge[2])]
    first, last = ends
    assert first is not None and last is not None, "a meaning without one of its constants has no plan"
    reads = edge[1]
    if isinstance(reads, PathRead):
        return _path(index_of(reads), first, last, graph, is_reversed=reads.is_reversed)
    step = edge_step(atom.expression)
    assert step is not None, "what reads edges takes a step of one label"
    return (
        Step(
            source=graph.name_of(first),
            label=text_of(reads),
            target=graph.name_of(last),
            timestamp=host.store.time_of(relation_of(edge), first, last),
            against=step.inverse,
            properties=None if graph.values is None else graph.values(first, reads, last),
        ),
    )


def _path(index: DeltaIndex, first: int, last: int, graph: WindowGraph, *, is_reversed: bool) -> tuple[Step, ...]:
    """Return the edges of a path of an index; with `is_reversed`, from its last vertex to its first."""
    found = index.witness(first, last, graph.edges)
    assert found is not None, "a pair that holds has a path"
    steps = found.steps[::-1] ^ 1 if is_reversed else found.steps
    times = map(graph.time_of, (steps >> 1).tolist()) if found.times is None else found.times.tolist()
    edges = graph.edges
    return tuple(
        Step(
            source=graph.name_of(int(edges.source[step >> 1])),
            label=graph.labels[int(edges.label[step >> 1])],
            target=graph.name_of(int(edges.target[step >> 1])),
            timestamp=time,
            against=bool(step & 1),
            properties=None if graph.values is None else graph.values(*graph.ends_of(step >> 1)),
        )
        for step, time in zip(steps.tolist(), times, strict=True)
    )


@dataclass(frozen=True)
class WindowGraph:
    """The edges of the window by id, the names of their vertices and labels, and the times of edges behind paths."""

    edges: Edges
    name_of: Callable[[int], Vertex]
    labels: list[str]
    time_of: Callable[[int], int | None]
    values: ValuesOf | None = None

    def ends_of(self, edge: int) -> tuple[int, int, int]:
        """Return the ids of source, label and target of an edge."""
        return int(self.edges.source[edge]), int(self.edges.label[edge]), int(self.edges.target[edge])


@dataclass(frozen=True)
class _HostRelations:
    """The relations of a host in the form that the search for a binding needs."""

    host: PatternHost

    def holds(self, relation: int, source: int, target: int) -> bool:
        return self.host.store.holds(relation, source, target)

    def current_edges(self, relation: int) -> int:
        return self.host.store.current_edges(relation)

    def rows(self, part: Component, *, first: bool) -> list[tuple[int, ...]]:
        return self.host.rows_without_plans(part, first=first)
