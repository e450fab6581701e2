"""The oracle of nodes that carry facts, by brute force on (snapshot multigraph, node table).

The snapshot is that of `tests.reference_properties`. Beside it is a table of facts, which records change and no window
touches. After every tuple, every record and at every boundary the solutions are computed anew; the rows are the difference
between two bags. Numbers in brackets, [N1.2], name the rule of the contract that a line obeys:

[N1.1] the table, [N1.2] ops, [N1.3] times, [N1.4] rows of records, [N2.1] tests, [N2.2] patterns, [N2.3] path expressions,
[N2.4] MATCH.

What the rules leave open is decided here, and so for every engine:

- A record **touches** the facts that it names and, with `=`, all that its vertex has. It is stale if it names some fact, and
  every one that it touches is there and was set later. So `-`, which names none, never is.
- A label that a record adds again is set again, and has the later time.
- A test of a **constant** that no atom has holds if the constant has a record and satisfies the test.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from rpq import automata
from rpq.automata.expressions import Alternation, Concatenation, Expression, Inverse, Label, Repetition
from tests.reference import Vertex, is_relevant
from tests.reference_order import PathOrder, _inverse
from tests.reference_patterns import Atom, Binding, Term, Variable, extended
from tests.reference_patterns import Constant as ConstantTerm
from tests.reference_properties import (
    CountedRunning,
    Edge,
    EdgeAtom,
    Loose,
    PropertyEngine,
    PropertyQuery,
    Row,
    Running,
    Solution,
    Value,
    holds,
    labelled,
)

BEFORE_ALL = -math.inf
"""The time of facts that are there before the first tuple."""


class Fact(NamedTuple):
    """A value, and the time at which it was set; labels are facts with a name such as `:Account`."""

    value: Value
    time: float


@dataclass
class NodeTable:
    """The facts of the vertices with a record.

    >>> table = NodeTable()
    >>> table.record("x", 5, labels=["A"], risk=3), table.record("x", 4, risk=1), table.record("x", 6, risk=None)
    ('applied', 'stale', 'applied')
    >>> table.holds("risk is null and :A", "x"), table.holds("!:A", "y")
    (True, True)
    """

    facts: dict[Vertex, dict[str, Fact]] = field(default_factory=dict)

    def record(
        self, vertex: Vertex, time: float, op: str = "+", labels: Iterable[str] = (), **properties: Value
    ) -> Literal["applied", "stale", "absent"]:
        """Apply a record and return the verdict on it."""
        if op == "-" and vertex not in self.facts:
            return "absent"
        known = self.facts.setdefault(vertex, {})
        named: dict[str, Value] = {f":{label}": True for label in labels} | properties
        touched = set(named) | (set(known) if op != "+" else set())
        later = {name for name, fact in known.items() if fact.time > time}  # [N1.3] at one time the later arrival wins
        for name in touched - later:
            known.pop(name, None)
            if named.get(name) is not None:
                known[name] = Fact(named[name], time)
        if op == "-" and not known:
            del self.facts[vertex]
        return "stale" if named and touched <= later else "applied"  # [N1.3] one that names no fact never is

    def values(self, vertex: Vertex, more_labels: Iterable[str] = ()) -> dict[str, Value]:
        """Return what a test reads at a vertex, whose labels may come from edges too [N2.1]."""
        found = {name: fact.value for name, fact in self.facts.get(vertex, {}).items()}
        name = Loose(vertex) if isinstance(vertex, str) else vertex
        return found | {f":{label}": True for label in more_labels} | {"id": name}

    def holds(self, test: str, vertex: Vertex, more_labels: Iterable[str] = ()) -> bool:
        """Return whether a vertex satisfies a test; one without a record has no labels, and null for every property."""
        text, labels = _without_label_signs(test)
        return holds(text, dict.fromkeys(labels, False) | self.values(vertex, more_labels))


_LABELS = re.compile(r"""('[^']*')|(!?):(\w+(?:\s*[|&]\s*\w+)*)""")


def _without_label_signs(test: str) -> tuple[str, list[str]]:
    """Return a test in which labels are names of booleans, and these names.

    >>> _without_label_signs("risk > 3 and !:A|B")
    ('risk > 3 and not (`:A` or `:B`)', [':A', ':B'])
    """
    names: list[str] = []

    def replacement(found: re.Match[str]) -> str:
        if found[1]:
            return found[1]
        labels = [f":{label.strip()}" for label in re.split(r"[|&]", found[3])]
        names.extend(labels)
        text = (" and " if "&" in found[3] else " or ").join(f"`{label}`" for label in labels)
        return ("not " if found[2] else "") + (f"({text})" if len(labels) > 1 else text)

    return _LABELS.sub(replacement, test), names


# --- paths ---------------------------------------------------------------------------------------------------

_TEST = re.compile(r"""@\[((?:[^]'"]|'[^']*'|"[^"]*")*)\]""")
_BRACKETS = re.compile(r"""\[(?:[^]'"]|'[^']*'|"[^"]*")*\]""")
Walks = set[tuple]  # each begins with its first vertex and ends with its last one
Meaning = tuple[Walks, set[Vertex]]  # the walks that have edges, and the vertices at which a word without an edge holds


class Kind(NamedTuple):
    """The lengths and times of a walk of one edge, or of two walks that follow each other; None where the two make none."""

    step: Callable[[Edge, Vertex, Vertex], tuple | None]
    glue: Callable[[tuple, tuple], tuple | None]
    least: bool = False  # the second value is a length; of walks that agree in all others, the shortest one will do


def kind_of(paths: str, order: PathOrder | None, *, has_length: bool = False) -> Kind:
    """Return what walks of a query are known by."""

    def simple(path: tuple | None) -> tuple | None:
        is_cycle = paths == "simple_cycle" and len(path) > 1 and path[0] == path[-1]
        return path if len(set(path)) == len(path) - is_cycle else None

    def ordered(p: tuple, q: tuple) -> tuple | None:
        fits = order.follows(p[2], q[1]) and (order.span is None or q[2] - p[1] <= order.span)
        return (p[0], p[1], q[2], q[3]) if fits else None

    def counted(p: tuple, q: tuple) -> tuple | None:
        found = ordered((p[0], *p[2:]), (q[0], *q[2:]))
        return None if found is None else (found[0], p[1] + q[1], *found[1:])

    if order is not None and has_length:
        return Kind(lambda edge, x, y: (x, 1, edge.timestamp, edge.timestamp, y), counted, least=True)
    if order is not None:
        return Kind(lambda edge, x, y: (x, edge.timestamp, edge.timestamp, y), ordered)
    if paths in ("simple", "simple_cycle"):
        return Kind(lambda edge, x, y: simple((x, y)), lambda p, q: simple((*p, *q[1:])))
    if paths == "trail":
        return Kind(
            lambda edge, x, y: (x, frozenset([edge.key]), y), lambda p, q: None if p[1] & q[1] else (p[0], p[1] | q[1], q[2])
        )
    if has_length:
        return Kind(lambda edge, x, y: (x, 1, y), lambda p, q: (p[0], p[1] + q[1], q[2]), least=True)
    return Kind(lambda edge, x, y: (x, y), lambda p, q: (p[0], q[1]))


def walks(expression: str, edges: Iterable[Edge], test: Callable[[str, Vertex], bool], kind: Kind) -> Walks:
    """Return the walks that spell a word of an expression with conditions in brackets and tests `@[…]` [N2.3].

    A test is a step of length zero: it holds at the vertices that satisfy it. Words without an edge are dropped.

    >>> edges = [Edge(1, "x", "a", "y", 1), Edge(2, "y", "a", "z", 2)]
    >>> sorted(walks("a/@[t]/a|@[t]/a?", edges, lambda _, vertex: vertex == "y", kind_of("walk", None)))
    [('x', 'z'), ('y', 'z')]
    """
    edges = list(edges)
    tests: dict[str, str] = {}

    def replacement(found: re.Match[str]) -> str:
        tests[f"test{len(tests)}"] = found[1]
        return f"test{len(tests) - 1}"

    text, labels = labelled(_TEST.sub(replacement, expression), edges)
    vertices = {end for edge in edges for end in (edge.source, edge.target)}

    def least(found: Walks) -> Walks:
        if not kind.least:
            return found
        best: dict[tuple, tuple] = {}
        for walk in sorted(found, key=lambda walk: walk[1]):
            best.setdefault((walk[0], *walk[2:]), walk)
        return set(best.values())

    def join(left: Walks, right: Walks) -> Walks:
        return {kind.glue(p, q) for p in left for q in right if p[-1] == q[0]} - {None}

    def concatenate(left: Meaning, right: Meaning) -> Meaning:
        (p, p_at), (q, q_at) = left, right
        found = join(p, q) | {walk for walk in p if walk[-1] in q_at} | {walk for walk in q if walk[0] in p_at}
        return least(found), p_at & q_at

    def meaning(node: Expression) -> Meaning:
        match node:
            case Label(name) if name in tests:
                return set(), {vertex for vertex in vertices if test(tests[name], vertex)}
            case Label(name):
                return {kind.step(edge, edge.source, edge.target) for edge, label in labels if label == name} - {None}, set()
            case Inverse(Label(name)) if name in tests:
                return meaning(Label(name))
            case Inverse(Label(name)):
                return {kind.step(edge, edge.target, edge.source) for edge, label in labels if label == name} - {None}, set()
            case Inverse(inner):
                return meaning(_inverse(inner))
            case Alternation(parts):
                meanings = [meaning(part) for part in parts]
                return least(set().union(*(found for found, _ in meanings))), set().union(*(at for _, at in meanings))
            case Concatenation(parts):
                result: Meaning = set(), vertices
                for part in parts:
                    result = concatenate(result, meaning(part))
                return result
            case Repetition(inner, minimum, maximum):
                found, at = meaning(inner)
                result = set(), vertices
                for _ in range(minimum):
                    result = concatenate(result, (found, at))
                if maximum is not None:
                    for _ in range(maximum - minimum):
                        result = concatenate(result, (found, vertices))
                    return result
                closure = set(found)
                while (longer := least(closure | join(closure, found))) != closure:
                    closure = longer
                return concatenate(result, (closure, vertices))
        raise TypeError(node)

    return meaning(automata.parse(text))[0]


# --- queries -------------------------------------------------------------------------------------------------

class NodeAtom(NamedTuple):
    """An atom, with a variable for its edge or an order of its paths."""

    subject: Term
    expression: str
    object: Term
    edge: str | None = None
    order: PathOrder | None = None


@dataclass(frozen=True, kw_only=True)
class NodeQuery(PropertyQuery):
    """A pattern with tests of its terms; `select` and `filter` may name properties of vertices, as in `x.risk`.

    A term of `tests` that no atom has stands for the vertices with a record; in MATCH, where `node_label` names the label of
    the edges to node labels or None, for the *universe* [N2.4].
    """

    tests: tuple[tuple[Term, str], ...] = ()
    nodes: NodeTable = field(default_factory=NodeTable, compare=False)
    static: tuple[Edge, ...] = ()
    window: Literal["time", "count"] = "time"
    report: Literal["change", "slide", "time"] = "change"
    sources: frozenset[Vertex] | None = None
    targets: frozenset[Vertex] | None = None
    is_match: bool = False
    node_label: str | None = None

    @classmethod
    def path(cls, expression: str, *, order: PathOrder | None = None, **options: Any) -> NodeQuery:
        """Return the query for the pairs of one path expression, with `length` in `select` for triples."""
        atom = NodeAtom(Variable("source"), expression, Variable("target"), order=order)
        select = options.pop("select", ("source", "target"))
        return cls(name=options.pop("name", expression), atoms=(atom,), select=select, **options)

    def uses(self, label: str | None) -> bool:
        """Return whether the label is relevant, whatever conditions and tests say; the universe needs every label."""
        if label is None:
            return False
        if self.is_match and (label == self.node_label or any(term not in self._terms for term, _ in self.tests)):
            return True
        texts = [_BRACKETS.sub("", _TEST.sub("test", atom.expression)) for atom in self.atoms]
        return any(is_relevant(text, label) for text in texts)

    def solutions(self, edges: Iterable[Edge]) -> Counter[Solution]:
        """Return the bag of selected values on the snapshot and the table as it is."""
        graph = [*{edge.key: edge for edge in (*self.static, *edges)}.values()]
        if "length" in self.select:
            paths = sorted(self._paths(self.atoms[0], graph), key=lambda walk: -walk[1])
            return Counter((*pair, length) for pair, length in {(walk[0], walk[-1]): walk[1] for walk in paths}.items())
        found = Counter()
        for binding, chosen in self._bindings(graph):
            if self.filter is None or self._passes(binding, chosen, graph):
                found[tuple(self._selected(entry, binding, chosen, graph) for entry in self.select)] += 1
        return Counter(set(found)) if self.distinct else found

    @property
    def _terms(self) -> set[Term]:
        return {term for atom in self.atoms for term in (atom.subject, atom.object)}

    def _labels(self, vertex: Vertex, graph: Iterable[Edge]) -> set[str]:
        """Return the labels that edges give to a vertex [N2.4]."""
        return {edge.target for edge in graph if edge.label == self.node_label and edge.source == vertex}

    def _holds(self, test: str, vertex: Vertex, graph: list[Edge]) -> bool:
        return self.nodes.holds(test, vertex, self._labels(vertex, graph))

    def _paths(self, atom: NodeAtom, graph: list[Edge]) -> Walks:
        kind = kind_of(self.paths, atom.order, has_length="length" in self.select)
        timed = [edge for edge in graph if edge.timestamp is not None or atom.order is None]  # [E1.5]
        return {
            walk
            for walk in walks(atom.expression, timed, lambda test, vertex: self._holds(test, vertex, graph), kind)
            if (self.sources is None or walk[0] in self.sources) and (self.targets is None or walk[-1] in self.targets)
        }

    def _universe(self, graph: list[Edge]) -> set[Vertex]:
        """Return the vertices that a term without an atom can stand for."""
        found = set(self.nodes.facts)
        if self.is_match:
            found |= {edge.source for edge in graph} | {edge.target for edge in graph if edge.label != self.node_label}
        return found

    def _bindings(self, graph: list[Edge]) -> Iterator[tuple[Binding, dict[str, Edge]]]:
        choices: list[list] = []
        for atom in self.atoms:
            if atom.edge is None:
                choices.append([(pair, None) for pair in {(walk[0], walk[-1]) for walk in self._paths(atom, graph)}])
            else:
                choices.append([(w, edge) for edge in graph for w in self._paths(replace_edge(atom), [edge])])
        loose = list(dict.fromkeys(term for term, _ in self.tests if term not in self._terms))
        atoms = [Atom(atom.subject, "", atom.object) for atom in self.atoms] + [Atom(term, "", term) for term in loose]
        choices += [[((vertex, vertex), None) for vertex in self._universe(graph)] for _ in loose]
        names = [*(atom.edge for atom in self.atoms), *(None for _ in loose)]
        for choice in itertools.product(*choices):
            binding: Binding | None = frozenset()
            chosen = {}
            for atom, name, (pair, edge) in zip(atoms, names, choice, strict=True):
                binding = None if binding is None else extended(binding, atom, pair)
                if edge is not None:
                    chosen[name] = edge
            if binding is not None and all(self._holds(test, dict(binding)[term], graph) for term, test in self.tests):
                yield binding, chosen

    def _passes(self, binding: Binding, chosen: Mapping[str, Edge], graph: list[Edge]) -> bool:  # type: ignore[override]
        text = re.sub(r"\?(\w+(?:\.\w+)?)", r"`\1`", self.filter)
        names = set(re.findall(r"`([^`]+)`", text))
        return holds(text, {name: self._plain(name, binding, chosen, graph) for name in names})

    def _plain(self, name: str, binding: Binding, chosen: Mapping[str, Edge], graph: list[Edge]) -> Any:
        variable, _, attribute = name.partition(".")
        if variable in chosen:
            return chosen[variable].value(attribute) if attribute else chosen[variable].key
        vertex = dict(binding)[Variable(variable)]
        if attribute == "labels":  # [N2.4] ascending
            found = self.nodes.values(vertex, self._labels(vertex, graph))
            return tuple(sorted(label[1:] for label in found if label.startswith(":")))
        return self.nodes.values(vertex).get(attribute) if attribute else vertex

    def _selected(self, name: str, binding: Binding, chosen: Mapping[str, Edge], graph: list[Edge]) -> Any:
        """Return a value of a row with its type [E3.2]."""
        value = self._plain(name, binding, chosen, graph)
        if isinstance(value, float):
            value = "nan" if math.isnan(value) else value + 0.0
            return ("float", value)
        return (type(value).__name__, value) if "." in name else value


def replace_edge(atom: NodeAtom | EdgeAtom) -> NodeAtom:
    """Return an atom without its edge variable."""
    return NodeAtom(atom.subject, atom.expression, atom.object)


# --- streams -------------------------------------------------------------------------------------------------

class NodeEngine(PropertyEngine):
    """Queries over one stream of edges and records, and the stream time τ.

    >>> engine = NodeEngine(NodeQuery.path("a/@[risk > 3]", size=10, slide=5))
    >>> engine.insert("x", "a", "y", 1), engine.record("y", risk=4), engine.record("y", 7, risk=2)
    ([], [Row(query='a/@[risk > 3]', values=('x', 'y'), timestamp=1, op='+')], \
[Row(query='a/@[risk > 3]', values=('x', 'y'), timestamp=7, op='-')])
    """

    def __init__(self, *queries: NodeQuery, identity: str = "triple") -> None:
        self.nodes = NodeTable()
        self.node_counts: Counter[str] = Counter()
        super().__init__(*queries, identity=identity)

    def running_of(self, query: PropertyQuery) -> Running:
        kind = CountedRunning if query.window == "count" else Running
        return kind(replace(query, nodes=self.nodes))

    def record(
        self, vertex: Vertex, timestamp: int | None = None, op: str = "+", labels: Iterable[str] = (), **properties: Value
    ) -> list[Row]:
        """Process a record and return its rows, those of the boundaries that it crosses first."""
        rows = [] if timestamp is None else self.advance(timestamp)
        time = timestamp if timestamp is not None else BEFORE_ALL if self.time is None else self.time
        verdict = self.nodes.record(vertex, time, op, labels, **properties)
        self.node_counts["records"] += 1
        self.node_counts[verdict] += 1
        if self.time is None:  # [N1.3]
            return rows
        return rows + [row for running in self._running for row in self._event(running, self.time)]

    def register(self, query: NodeQuery) -> list[Row]:
        """Add a query that begins with the edges in the window of another one, which reads the same labels."""
        running = self.running_of(query)
        twin = self._running[0]
        assert (query.size, query.slide, query.window) == (twin.query.size, twin.query.slide, "time")
        running.edges = dict(twin.edges)
        self._running.append(running)
        return [] if self.time is None else self._event(running, self.time)

    def solutions(self, name: str) -> Counter[Solution]:
        """Return the solutions of a query now, whatever has been reported; before the first tuple there are none."""
        (running,) = (one for one in self._running if one.query.name == name)
        return Counter() if self.time is None else running.query.solutions(running.edges.values())

    def advance(self, time: int) -> list[Row]:
        """Move τ to `time` if that is later, and return the rows of boundaries and reports passed, in time order."""
        if self.time is None:  # [patterns 2.7]
            self.time = time
            return [row for running in self._running for row in self._event(running, time)]
        if time <= self.time:
            return []
        timed = [running for running in self._running if not isinstance(running, CountedRunning)]
        leaving = {
            -(-(edge.timestamp + running.query.size) // running.query.slide) * running.query.slide
            for running in timed
            for edge in running.edges.values()
        }
        leaving = {moment for moment in leaving if moment <= time}
        reports = {self._reports_at(running.query, moment) for running in timed for moment in leaving | {self.time}} - {None}
        rows: list[Row] = []
        for moment in sorted(leaving | {report for report in reports if report < time}):
            for running in self._running:
                if moment in leaving:
                    running.expire(moment)
                    rows += self._event(running, moment, silent=running.query.semantics == "implicit")
                if moment < time and self._reports_at(running.query, moment) == moment:
                    rows += running.rows(moment)
        self.time = time
        return rows

    @staticmethod
    def _reports_at(query: NodeQuery, time: int) -> int | None:
        if query.report == "change":
            return None
        return time if query.report == "time" else -(-time // query.slide) * query.slide

    @staticmethod
    def _event(running: Running, time: int, *, silent: bool = False) -> list[Row]:
        return running.rows(time, silent=silent) if running.query.report == "change" else []

    def _process(self, process: Any) -> list[Row]:
        rows: list[Row] = []
        for running in self._running:
            verdict = process(running)
            running.counts["tuples"] += 1
            running.counts[verdict] += 1
            rows += self._event(running, self.time)
        return rows


X, Y, Z = map(Variable, "xyz")


def constant(name: str) -> ConstantTerm:
    """Return the term that stands for the vertex with a name."""
    return ConstantTerm(name)
