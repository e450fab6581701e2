"""The oracle of edges that carry values: properties, identity, conditions on edges, edge variables, by brute force.

The snapshot of a query is a multigraph: a set of edges, each with a key. After every tuple and at every slide boundary the
solutions are computed anew from it; the rows are the difference between two bags of solutions. A path query is the pattern
with one atom between `?source` and `?target`. Numbers in brackets, [E1.3], name the rule of the contract that a line obeys:

[E1.1] properties, [E1.2] identity, [E1.3] replacement, [E1.4] deletes, [E1.6] relevance, [E2.1] conditions, [E2.2] brackets,
[E3.1] edge variables, [E3.2] selected values, [E3.3] conditions between edges. [S3] and its like are those of
`tests.reference`.

What the rules leave open is decided here, and so for every engine:

- Under `id`, a delete whose id no window holds is **irrelevant** where its label is null or not read, and absent otherwise.
- A **replacement** is relevant to a query if it reads the label before or the label after; it counts as refreshed.
- The **rows** of an event are the difference of two bags, so a replacement that changes no selected value brings none.
"""

from __future__ import annotations

import itertools
import math
import operator
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal, NamedTuple

from rpq.language import where
from tests.reference import Vertex, evaluate, is_relevant
from tests.reference_patterns import Atom, Binding, Term, Variable, extended

COUNTS = "tuples inserted refreshed deleted absent_deletes late irrelevant rows_added rows_removed".split()
class Loose(str):
    """A value of a text file: the number that it represents where a number is needed, else a text [E2.1]."""


class Constant(Fraction):
    """A number of a condition: exact, but beside a float the nearest float [E2.1]."""


Value = bool | int | float | Decimal | Fraction | str | None
Solution = tuple[Hashable, ...]
Identity = Literal["triple", "parallel", "id"]


class Edge(NamedTuple):
    """An edge of the multigraph; `key` is its triple, its number or its id [E1.2]."""

    key: Hashable
    source: Vertex
    label: str
    target: Vertex
    timestamp: int
    properties: Mapping[str, Value] = {}

    def value(self, name: str) -> Value:
        """Return a property, or the timestamp; a missing property is null [E1.1]."""
        return self.timestamp if name == "timestamp" else self.properties.get(name)


class Row(NamedTuple):
    """One change of the bag of solutions."""

    query: str
    values: Solution
    timestamp: int
    op: str


def holds(condition: str, values: Mapping[str, Value]) -> bool:
    """Return whether a condition is true of these values; null is not true [E2.1].

    >>> holds("amount > 10 and not cash", {"amount": 11, "cash": False}), holds("amount > 10", {})
    (True, False)
    """
    return _evaluate(where.parse_where(condition).tree, values, condition) is True


_COMPARE = {"==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_CONSTANT = re.compile(r"([-\s(]*)([\d.]+(?:[eE][+-]?\d+)?)")


def _evaluate(node: where.Node, values: Mapping[str, Value], text: str) -> Value:
    """Return the value of a node of a text in three-valued logic; None is null."""

    def value(inner: where.Node) -> Value:
        return _evaluate(inner, values, text)

    match node:
        case where.WhereConstant(str() | bool() as found):
            return found
        case where.WhereConstant():  # the digits themselves, whatever the parser made of them
            found = _CONSTANT.match(text, node.column - 1)
            return Constant(0) if found is None else Constant((-1) ** found[1].count("-") * Fraction(found[2]))
        case where.Name():
            return values.get(node.name)
        case where.Not():
            found = value(node.inner)
            return None if found is None else not found
        case where.Logical():
            found = [value(part) for part in node.parts]
            decisive = node.word == "or"  # true decides an `or`, false decides an `and`
            return decisive if decisive in found else None if None in found else not decisive
        case where.IsNull():
            return value(node.inner) is None
        case where.In():
            comparisons = [_compare("==", value(node.inner), value(one)) for one in node.values]
            return True if True in comparisons else None if None in comparisons else False
        case where.Between():
            inner, low, high = map(value, (node.inner, node.low, node.high))
            inside = [_compare(">=", inner, low), _compare("<=", inner, high)]
            return False if False in inside else None if None in inside else True
        case where.Comparison():
            return _compare(node.sign, value(node.left), value(node.right))
        case where.Arithmetic():
            return _calculate(node.sign, value(node.left), value(node.right))
    raise TypeError(node)


def _compare(sign: str, left: Value, right: Value) -> bool | None:
    """Compare numbers by their exact values, and NaN as IEEE does [E2.1]."""
    one, other = _operand(left, right), _operand(right, left)
    if one is None or other is None:
        return None
    if isinstance(one, float) and isinstance(other, Constant):
        other = _float(other)
    if isinstance(other, float) and isinstance(one, Constant):
        one = _float(one)
    return _COMPARE[sign](one, other)


def _operand(value: Value, other: Value) -> Value:
    """Return an operand of a comparison: a loose value beside a number is one, and so are two that represent numbers."""
    if isinstance(value, Loose):
        is_text = isinstance(other, str) and not (isinstance(other, Loose) and None not in map(_number, (value, other)))
        return (str(value) or None) if is_text else _number(value)
    return _number(value)


def _number(value: Value) -> Value:
    """Return a number that Python compares by its exact value, None for a loose value that is none."""
    if isinstance(value, Loose):
        found = value.strip(" \t")
        return Fraction(found) if _NUMBER.fullmatch(found) else None
    return Fraction(value) if isinstance(value, Decimal) else value


def _float(value: Value) -> float:
    """Return the nearest float."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _calculate(sign: str, left: Value, right: Value) -> Value:
    """Calculate exactly, but with floats beside a float, and for a quotient; integers have 64 bits [E2.1]."""
    one, other = _number(left), _number(right)
    if one is None or other is None:
        return None
    if sign == "/" or isinstance(one, float) or isinstance(other, float):
        one, other = _float(one), _float(other)
    if sign in "/%" and other == 0:
        return None
    calculate = {"+": operator.add, "-": operator.sub, "*": operator.mul, "%": operator.mod, "/": operator.truediv}[sign]
    result = calculate(one, other)
    if isinstance(one, Constant) and isinstance(other, Constant):
        return Constant(result)
    if sign != "/" and _is_integer(left) and _is_integer(right):
        return int(result) if -(2**63) <= result < 2**63 else None
    return result


def _is_integer(value: Value) -> bool:
    """Return whether a value is an integer of 64 bits."""
    if isinstance(value, Constant):
        return value.denominator == 1 and -(2**63) <= value < 2**63
    return isinstance(value, int)


def pairs(expression: str, edges: Iterable[Edge], paths: str = "walk") -> set[tuple[Vertex, Vertex]]:
    """Return the pairs joined by a path whose steps satisfy the conditions in brackets behind their labels [E2.2].

    Each step with brackets becomes a label of its own, which an edge has if its label and its properties fit; so an edge may
    have several labels, and parallel edges that satisfy a step give one pair.

    >>> edges = [Edge(1, "x", "a", "y", 1, {"n": 5}), Edge(2, "y", "a", "z", 2, {"n": 7}), Edge(3, "y", "a", "w", 3)]
    >>> sorted(pairs("a[n > 4]+", edges))
    [('x', 'y'), ('x', 'z'), ('y', 'z')]
    """
    text, found = labelled(expression, edges)
    return evaluate(text, {(edge.source, label, edge.target) for edge, label in found}, paths)


def labelled(expression: str, edges: Iterable[Edge]) -> tuple[str, list[tuple[Edge, str]]]:
    """Return an expression without brackets, and each edge with each label that it has there."""
    edges = list(edges)
    text, steps = _with_labels_for_steps(expression)
    found = [(edge, edge.label) for edge in edges]
    for name, step in steps.items():
        fitting = [edge for edge in edges if is_relevant(step.labels, edge.label) and holds(step.condition, _values(edge))]
        found += [(edge, name) for edge in fitting]
    return text, found


def _values(edge: Edge) -> dict[str, Value]:
    return {**edge.properties, "timestamp": edge.timestamp}


class _Step(NamedTuple):
    """The edges that a step walks: an expression of one forward step for their labels, and the condition on them."""

    labels: str
    condition: str


def _with_labels_for_steps(expression: str) -> tuple[str, dict[str, _Step]]:
    """Replace each step with brackets and each negated set by new labels; return the text, and what each label means."""
    steps: dict[str, _Step] = {}

    def replacement(found: re.Match[str]) -> str:
        if found["set"] is None:
            if found["condition"] is None:
                return found[0]  # a label without brackets, or a number
            sides = [(found["label"], "")]
        else:  # `!(a|^b)` is a forward step that is not a, or an inverse step that is not b [S12]
            members = found["set"].strip("()").split("|")
            forward = [member for member in members if not member.startswith("^")]
            inverse = [member[1:] for member in members if member.startswith("^")]
            sides = [(f"!({'|'.join(side)})", sign) for side, sign in ((forward, ""), (inverse, "^")) if side]
        names = []
        for labels, sign in sides:
            name = f"step{len(steps)}"
            steps[name] = _Step(labels, found["condition"] or "true")
            names.append(sign + name)
        return f"({'|'.join(names)})"

    text = re.sub(
        r"""(?:!(?P<set>\([^()]*\)|\^?\w+)|(?P<label>\w+))(?:\[(?P<condition>(?:[^]'"]|'[^']*'|"[^"]*")*)\])?""",
        replacement,
        expression,
    )
    return text, steps


_BRACKETS = re.compile(r"""\[(?:[^]'"]|'[^']*'|"[^"]*")*\]""")


class EdgeAtom(NamedTuple):
    """An atom; with `edge`, a variable, each edge that fits is a binding of its own [E3.1]."""

    subject: Term
    expression: str
    object: Term
    edge: str | None = None


@dataclass(frozen=True, kw_only=True)
class PropertyQuery:
    """A pattern over a window of `size` that moves by `slide`; `select` has entries such as `x`, `e` or `e.amount`."""

    name: str
    atoms: tuple[EdgeAtom, ...]
    size: int
    slide: int
    select: tuple[str, ...]
    filter: str | None = None
    distinct: bool = False
    semantics: Literal["implicit", "explicit"] = "implicit"
    paths: Literal["walk", "simple", "simple_cycle"] = "walk"

    @classmethod
    def path(cls, expression: str, **options: Any) -> PropertyQuery:
        """Return the query for the pairs of one path expression."""
        atom = EdgeAtom(Variable("source"), expression, Variable("target"))
        return cls(name=options.pop("name", expression), atoms=(atom,), select=("source", "target"), **options)

    def uses(self, label: str | None) -> bool:
        """Return whether the label is relevant, whatever the conditions say [E1.6]."""
        if label is None:
            return False
        return any(is_relevant(_BRACKETS.sub("", atom.expression), label) for atom in self.atoms)

    def solutions(self, edges: Iterable[Edge]) -> Counter[Solution]:
        """Return the bag of selected values."""
        edges = list(edges)
        found = (self.solution(binding, chosen) for binding, chosen in self._bindings(edges))
        bag = Counter(one for one in found if one is not None)
        return Counter(set(bag)) if self.distinct else bag

    def solution(self, binding: Binding, chosen: Mapping[str, Edge]) -> Solution | None:
        """Return the selected values of a binding, None if the filter does not hold for it."""
        if self.filter is not None and not self._passes(binding, chosen):
            return None
        return tuple(_selected(entry, binding, chosen) for entry in self.select)

    def pairs(self, atom: EdgeAtom, edges: Iterable[Edge]) -> set[tuple[Vertex, Vertex]]:
        """Return the pairs of an atom without an edge variable."""
        return pairs(atom.expression, edges, self.paths)

    def _bindings(self, edges: list[Edge]) -> Iterator[tuple[Binding, dict[str, Edge]]]:
        """Yield each choice of a pair for every atom, and of an edge for every edge variable."""
        choices = []
        for atom in self.atoms:
            if atom.edge is None:
                choices.append([(pair, None) for pair in self.pairs(atom, edges)])
            else:  # an edge gives at most one binding for each pair of ends
                choices.append([(pair, edge) for edge in edges for pair in pairs(atom.expression, [edge], self.paths)])
        for choice in itertools.product(*choices):
            binding: Binding | None = frozenset()
            chosen = {}
            for atom, (pair, edge) in zip(self.atoms, choice, strict=True):
                binding = None if binding is None else extended(binding, Atom(atom.subject, "", atom.object), pair)
                if edge is not None:
                    chosen[atom.edge] = edge
            if binding is not None:
                yield binding, chosen

    def _passes(self, binding: Binding, chosen: Mapping[str, Edge]) -> bool:
        """Return whether the filter holds; `?e = ?f` compares the identity of edges, `?x = ?y` that of vertices [E3.3]."""
        text = re.sub(r"\?(\w+(?:\.\w+)?)", r"`\1`", self.filter)
        names = where.parse_where(text).names
        return holds(text, {name: _plain(name, binding, chosen) for name in names})


def _plain(name: str, binding: Binding, chosen: Mapping[str, Edge]) -> Any:
    variable, _, attribute = name.partition(".")
    if variable in chosen:
        return chosen[variable].value(attribute) if attribute else chosen[variable].key
    return dict(binding)[Variable(variable)]


def _selected(name: str, binding: Binding, chosen: Mapping[str, Edge]) -> Hashable:
    """Return a value of a row with its type: rows compare both; NaN equals NaN, and -0.0 is 0.0 [E3.2]."""
    value = _plain(name, binding, chosen)
    if isinstance(value, float):
        value = "nan" if math.isnan(value) else value + 0.0
        return ("float", value)
    return (type(value).__name__, value) if "." in name else value


@dataclass(frozen=True, kw_only=True)
class StaticQuery(PropertyQuery):
    """A query that reads static edges besides those of its window [E1.5].

    An edge of the window hides the static edge with its key. Of static edges with one key the last is there, as an insert
    replaces the edge with its key [E1.3].
    """

    static: tuple[Edge, ...] = ()

    @classmethod
    def of(cls, query: PropertyQuery, static: Iterable[Edge]) -> StaticQuery:
        """Return a query with static edges, which have no timestamp."""
        return cls(**{each.name: getattr(query, each.name) for each in fields(query)}, static=tuple(static))

    def solutions(self, edges: Iterable[Edge]) -> Counter[Solution]:
        return super().solutions({edge.key: edge for edge in (*self.static, *edges)}.values())


@dataclass(frozen=True, kw_only=True)
class CountedQuery(PropertyQuery):
    """A query over the last `size` inserts with labels that it reads, moving at every `slide`-th of them."""

    @classmethod
    def of(cls, query: PropertyQuery) -> CountedQuery:
        """Return a query over a count window with the numbers of another one."""
        return cls(**{each.name: getattr(query, each.name) for each in fields(query)})


@dataclass(frozen=True, kw_only=True)
class CountedStaticQuery(CountedQuery, StaticQuery):
    """A query over a count window that reads static edges besides."""

    @classmethod
    def of(cls, query: StaticQuery) -> CountedStaticQuery:  # type: ignore[override]
        """Return a query over a count window with the numbers and static edges of another one."""
        return cls(**{each.name: getattr(query, each.name) for each in fields(query)})


@dataclass
class Running:
    """A registered query: its multigraph by keys, its solutions, its counts."""

    query: PropertyQuery
    edges: dict[Hashable, Edge] = field(default_factory=dict)
    solutions: Counter[Solution] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)

    def insert(self, edge: Edge, time: int, identity: Identity) -> str:
        """Insert or replace an edge and return the verdict on it [E1.3]."""
        previous = self.edges.get(edge.key)
        relevant = self.query.uses(edge.label) or (previous is not None and self.query.uses(previous.label))
        if not relevant and identity != "id":
            return "irrelevant"
        if edge.timestamp <= time // self.query.slide * self.query.slide - self.query.size:
            return "late" if relevant else "irrelevant"
        if previous is None or previous.timestamp <= edge.timestamp:  # at equal timestamps the later arrival wins
            self.edges[edge.key] = edge
        return "irrelevant" if not relevant else "inserted" if previous is None else "refreshed"

    def delete(self, source: Vertex, label: str | None, target: Vertex, key: Hashable | None) -> str:
        """Remove the edge with this key or, without one, all edges with these ends and this label [E1.4]."""
        if key is not None:
            gone = [key] if key in self.edges else []
        else:
            gone = [one.key for one in self.edges.values() if (one.source, one.label, one.target) == (source, label, target)]
        relevant = self.query.uses(label) or any(self.query.uses(self.edges[one].label) for one in gone)
        for one in gone:
            del self.edges[one]
        return "irrelevant" if not relevant else "deleted" if gone else "absent_deletes"

    def next_boundary(self) -> int | None:
        """Return the next boundary at which an edge leaves; None if there is no edge."""
        size, slide = self.query.size, self.query.slide
        return min((-(-(edge.timestamp + size) // slide) * slide for edge in self.edges.values()), default=None)

    def expire(self, boundary: int) -> None:
        """Drop the edges that are outside the window at a boundary."""
        bound = boundary // self.query.slide * self.query.slide - self.query.size
        self.edges = {key: edge for key, edge in self.edges.items() if edge.timestamp > bound}

    def rows(self, time: int, *, silent: bool = False) -> list[Row]:
        """Bring the solutions up to date and return the changes, `-` before `+`; `silent` drops those with `-` [S6]."""
        before, self.solutions = self.solutions, self.query.solutions(self.edges.values())
        gone, new = before - self.solutions, self.solutions - before
        rows = [] if silent else [Row(self.query.name, one, time, "-") for one in sorted(gone.elements(), key=repr)]
        rows += [Row(self.query.name, one, time, "+") for one in sorted(new.elements(), key=repr)]
        self.counts["rows_added"] += new.total()
        self.counts["rows_removed"] += 0 if silent else gone.total()
        return rows


@dataclass
class CountedRunning(Running):
    """A registered query over a count window. `edges` are in the order of their last inserts, whose numbers are `numbers`.

    - Only an insert with a label that the query reads has a number. Another one takes away the edge with its id, if the
      window holds that and it is not newer.
    - An insert that is older than the held edge gives it the next number [E1.3].
    - In implicit windows a row `-` is reported as often as the event would bring it **without its evictions**, too.
    """

    numbers: dict[Hashable, int] = field(default_factory=dict)
    number: int = 0
    unevicted: list[Edge] | None = None
    """The edges that the window would have behind an insert without its evictions."""

    def insert(self, edge: Edge, time: int, identity: Identity) -> str:
        previous = self.edges.get(edge.key)
        is_read = self.query.uses(edge.label)
        if previous is None and not is_read:
            return "irrelevant"
        if previous is None or previous.timestamp <= edge.timestamp:
            self.edges.pop(edge.key, None)
            if is_read:
                self.edges[edge.key] = edge
        if is_read:
            self.number += 1
            self.numbers[edge.key] = self.number
            self.unevicted = [*self.edges.values()]
            bound = self.number // self.query.slide * self.query.slide - self.query.size
            self.edges = {key: one for key, one in self.edges.items() if self.numbers[key] > bound}
        return "inserted" if previous is None else "refreshed"

    def next_boundary(self) -> int | None:
        return None

    def expire(self, boundary: int) -> None:
        """Ignore the passing of time, which moves nothing here."""

    def rows(self, time: int, *, silent: bool = False) -> list[Row]:
        before, unevicted = self.solutions, self.unevicted
        rows = super().rows(time)
        if self.query.semantics == "explicit" or unevicted is None:
            self.unevicted = None
            return rows
        removed = self.removed(before, self.solutions)
        self.unevicted = None
        lost = [Row(self.query.name, one, time, "-") for one in sorted(removed.elements(), key=repr)]
        self.counts["rows_removed"] += len(lost) - sum(row.op == "-" for row in rows)
        return lost + [row for row in rows if row.op == "+"]

    def removed(self, before: Counter[Solution], after: Counter[Solution]) -> Counter[Solution]:
        """Return what is reported as removed of what an event takes: an eviction may bring back what a replacement took."""
        unevicted = before if self.unevicted is None else self.query.solutions(self.unevicted)
        return (before - unevicted) & (before - after)


class PropertyEngine:
    """Queries over one stream of edges that carry values, and the stream time τ.

    >>> query = PropertyQuery.path("a[n > 4]/b", size=10, slide=5)
    >>> engine = PropertyEngine(query)
    >>> engine.insert("x", "a", "y", 1, n=5), engine.insert("y", "b", "z", 2)
    ([], [Row(query='a[n > 4]/b', values=('x', 'z'), timestamp=2, op='+')])
    >>> engine.insert("x", "a", "y", 3, n=4)
    [Row(query='a[n > 4]/b', values=('x', 'z'), timestamp=3, op='-')]
    """

    def __init__(self, *queries: PropertyQuery, identity: Identity = "triple") -> None:
        self.identity: Identity = identity
        self.time: int | None = None
        self._running = [self.running_of(query) for query in queries]
        self._inserts = 0

    def running_of(self, query: PropertyQuery) -> Running:
        """Return the state in which a query begins."""
        return CountedRunning(query) if isinstance(query, CountedQuery) else Running(query)

    def insert(
        self, source: Vertex, label: str, target: Vertex, timestamp: int, key: Hashable = None, **properties: Value
    ) -> list[Row]:
        """Process an insert and return its rows, those of the boundaries that it crosses first."""
        assert (key is not None) == (self.identity == "id"), "an insert has an id if edges have ids [E1.2]"
        rows = self.advance(timestamp)
        self._inserts += 1  # irrelevant and late inserts count
        key = {"triple": (source, label, target), "parallel": self._inserts, "id": key}[self.identity]
        edge = Edge(key, source, label, target, timestamp, properties)
        return rows + self._process(lambda running: running.insert(edge, self.time, self.identity))

    def delete(
        self, source: Vertex, label: str | None, target: Vertex, timestamp: int, key: Hashable | None = None
    ) -> list[Row]:
        """Process a delete and return its rows, those of the boundaries that it crosses first."""
        rows = self.advance(timestamp)
        return rows + self._process(lambda running: running.delete(source, label, target, key))

    def _process(self, process: Any) -> list[Row]:
        rows: list[Row] = []
        for running in self._running:
            verdict = process(running)
            running.counts["tuples"] += 1
            running.counts[verdict] += 1
            rows += running.rows(self.time)
        return rows

    def advance(self, time: int) -> list[Row]:
        """Move τ to `time` if that is later, and return the rows of the boundaries crossed, in time order [S3]."""
        if self.time is None:
            self.time = time
            return []
        rows: list[Row] = []
        while True:
            boundaries = (running.next_boundary() for running in self._running)
            boundary = min((one for one in boundaries if one is not None), default=None)
            if boundary is None or boundary > time:
                break
            for running in self._running:
                running.expire(boundary)
                rows += running.rows(boundary, silent=running.query.semantics == "implicit")
        self.time = max(self.time, time)
        return rows

    def solutions(self, name: str) -> Counter[Solution]:
        """Return the solutions of a query now."""
        (running,) = (one for one in self._running if one.query.name == name)
        return running.solutions.copy()

    def edges(self, name: str) -> list[Edge]:
        """Return the edges in the window of a query."""
        (running,) = (one for one in self._running if one.query.name == name)
        return [*running.edges.values()]

    def counts(self, name: str) -> dict[str, int]:
        """Return the counts of a query [S11]."""
        (running,) = (one for one in self._running if one.query.name == name)
        return {count: running.counts[count] for count in COUNTS}
