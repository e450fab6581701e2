"""The oracle of MATCH: the rows of a syntax tree by brute force on a snapshot (edges in a window, table of nodes).

It follows /nodes.md/ 3, with edges.md 6 and patterns.md for what that refers to, clause by clause:

- A **row** is a dictionary of variables. A clause makes of each row the rows with all its matches, WITH makes rows of rows.
- A **match** is a choice of an edge for every edge pattern, and of a walk for every quantified one. Under different edges
  (Cypher, and DIFFERENT EDGES) all edges of a clause differ: quantified patterns are trails, each a match of its own.
  Otherwise a quantified pattern is a set of pairs, and which walk joins a pair is not told.
- Behind **ANY** and in **shortestPath** matches with the same ends are one; shortestPath keeps a shortest one.
- The order of **collect** is that of the rows if the WITH before it has ORDER BY; of matches that a later clause made of
  one row, the values are ascending.

What the package refuses is not refused here: the oracle says what a text means. Times of reports are not covered.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Literal

from rpq.language import where
from rpq.language.match import tree
from rpq.language.match.syntax import parse
from tests.reference_match_values import (
    FUNCTIONS,
    Path,
    Relationship,
    Vertex,
    calculate,
    compare,
    conjunction,
    disjunction,
    element,
    equal,
    exclusive,
    is_in,
    is_number,
    negation,
    order_key,
)
from tests.reference_nodes import NodeQuery
from tests.reference_properties import Edge

Values = dict[str, Any]


@dataclass(frozen=True)
class Snapshot:
    """The edges of a window, and the labels and properties of the vertices with a record."""

    edges: Sequence[Edge]
    nodes: Mapping[str, tuple[frozenset[str], Mapping[str, Any]]] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """The values of variables, and the place of the row in the order of the last WITH if that has ORDER BY."""

    values: Values
    place: int = 0


@dataclass(frozen=True)
class _Walk:
    """A match so far: where it is, the variables, and the edges and vertices of the path that it is in."""

    at: Vertex | None
    values: Values
    edges: tuple[Relationship, ...] = ()
    vertices: tuple[Vertex, ...] = ()
    told: tuple[Any, ...] = ()
    """What tells the match from others."""
    used: frozenset[Hashable] = frozenset()
    """The keys of the edges of the paths before."""
    pending: tuple[tuple[tree.NodePattern | tree.EdgePattern, Any], ...] = ()
    """Elements whose conditions may read all variables of the clause, and what they are."""
    length: int = 0
    """The edges of shortest paths."""


@dataclass(frozen=True, kw_only=True)
class MatchOracle:
    """A text, and all that gives it a meaning beside the snapshot.

    >>> oracle = MatchOracle(text="MATCH (a)-[e:T]->(b) RETURN a, count(*) AS n, sum(e.amount) AS s")
    >>> edges = [Edge(1, "x", "T", "y", 1, {"amount": 5}), Edge(2, "x", "T", "z", 2)]
    >>> oracle.rows(Snapshot(edges))
    Counter({('x', 2, 5): 1})
    """

    text: str
    dialect: Literal["gql", "cypher"] = "gql"
    node_label: str | None = "type"
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def rows(self, snapshot: Snapshot) -> Counter[tuple[Any, ...]]:
        """Return the rows of the answer as an engine tells them, with how often each occurs."""
        return Counter(tuple(map(told, row)) for row in _Evaluation(self, snapshot).rows())


@dataclass(frozen=True, kw_only=True)
class MatchStreamQuery(NodeQuery):
    """A text over the window of a stream and its table of nodes, which `tests.reference_nodes.NodeEngine` runs."""

    atoms: tuple[Any, ...] = ()
    select: tuple[str, ...] = ()
    meaning: MatchOracle

    def uses(self, label: str | None) -> bool:
        """Return whether an edge is kept: each one, since the text decides what it reads."""
        return label is not None

    def solutions(self, edges: Iterable[Edge]) -> Counter[tuple[Any, ...]]:
        """Return the rows on the snapshot and the table as it is."""
        graph = {edge.key: edge for edge in (*self.static, *edges)}
        nodes = {}
        for vertex, facts in self.nodes.facts.items():
            labels = frozenset(name[1:] for name in facts if name.startswith(":"))
            nodes[vertex] = labels, {name: fact.value for name, fact in facts.items() if not name.startswith(":")}
        return self.meaning.rows(Snapshot([*graph.values()], nodes))


def told(value: Any) -> Any:
    """Return a value as an engine tells it: a vertex by its name, an edge by its id or number, a path as a text."""
    match value:
        case Vertex():
            return value.name
        case Relationship():
            return value.key
        case tuple():
            return tuple(map(told, value))
        case Path():
            return str(value)
        case float():
            return "nan" if value != value else value + 0.0
        case bool():
            return str(value)  # which Python would take for a number
    return value


class _Evaluation:
    """The evaluation of a text on a snapshot."""

    def __init__(self, oracle: MatchOracle, snapshot: Snapshot) -> None:
        self._oracle = oracle
        self._snapshot = snapshot
        self._is_cypher = oracle.dialect == "cypher"
        self._tree = parse(oracle.text)
        self._edges = [Relationship(edge.key, edge) for edge in snapshot.edges]
        ends = {Vertex(end) for edge in snapshot.edges for end in (edge.source, edge.target)}
        self._vertices = sorted(ends | {Vertex(name) for name in snapshot.nodes}, key=order_key)
        self._universe = {Vertex(name) for name in snapshot.nodes}
        self._universe |= {Vertex(edge.source) for edge in snapshot.edges}
        self._universe |= {Vertex(edge.target) for edge in snapshot.edges if edge.label != oracle.node_label}

    # --- clauses

    def rows(self) -> list[tuple[Any, ...]]:
        """Return the rows of the text."""
        found = [row for query in self._tree.queries for row in self._single(query)]
        return found if self._tree.is_union_all or len(self._tree.queries) == 1 else _distinct(found, tuple)

    def _single(self, query: tree.SingleQuery) -> list[tuple[Any, ...]]:
        rows, scope = [Row({})], []
        for part in query.parts:
            for clause in part.clauses:
                if isinstance(clause, tree.Unwind):
                    rows = [one for row in rows for one in self._unwind(clause, row)]
                    scope.append(clause.name)
                    continue
                rows = [one for row in rows for one in self._clause(clause, row)]
                scope += [name for name in names_of(clause.pattern) if name not in scope]
            rows, scope = self._project(part.projection, rows, scope)
        return [tuple(row.values[name] for name in scope) for row in rows]

    def _unwind(self, clause: tree.Unwind, row: Row) -> list[Row]:
        elements = self.value(clause.value, row.values)
        return [replace(row, values=row.values | {clause.name: one}) for one in elements or ()]

    def _clause(self, clause: tree.Clause, row: Row) -> list[Row]:
        found = [replace(row, values=values) for values in self.matches(clause.pattern, row.values)]
        if clause.is_optional and not found:
            missing = dict.fromkeys(names_of(clause.pattern))
            return [replace(row, values=missing | row.values)]
        return found

    def _project(self, projection: tree.Projection, rows: list[Row], scope: list[str]) -> tuple[list[Row], list[str]]:
        """Return the rows behind WITH or RETURN, and their columns."""
        items = [tree.Item(where.Name(name, column=0), name, name, 0) for name in scope] if projection.has_all else []
        items += projection.items
        names = [item.name or item.text for item in items]
        groups = self._groups(items, rows)
        found: list[tuple[Values, list[Row]]] = []
        for group in groups:
            values = group[0].values if group else {}
            own = [self.value(item.value, values, group) for item in items]
            found.append((dict(zip(names, own, strict=True)), group))
        if projection.is_distinct:
            found = _distinct(found, lambda one: tuple(one[0].values()))

        def seen(one: tuple[Values, list[Row]]) -> Values:
            """Return what ORDER BY and WHERE see: the columns, and behind them the variables before."""
            columns, group = one
            return (group[0].values if group else {}) | columns

        found.sort(key=lambda one: order_key(tuple(one[0].values())))
        for item in reversed(projection.order):
            found.sort(
                key=lambda one, item=item: order_key(self.value(item.value, seen(one), one[1])), reverse=item.is_descending
            )
        first = 0 if projection.skip is None else self.value(projection.skip, {})
        last = len(found) if projection.limit is None else first + self.value(projection.limit, {})
        kept = [
            Row(one[0], place if projection.order else 0)
            for place, one in enumerate(found[first:last])
            if projection.where is None or self.value(projection.where, seen(one), one[1]) is True
        ]
        return kept, names

    def _groups(self, items: Sequence[tree.Item], rows: list[Row]) -> list[list[Row]]:
        """Return the rows that make one row each time: the groups if an item aggregates, else each row alone."""
        keys = [item.value for item in items if not has_aggregate(item.value)]
        if len(keys) == len(items):
            return [[row] for row in rows]
        groups: dict[tuple[Any, ...], list[Row]] = {} if keys else {(): []}
        for row in rows:
            key = order_key(tuple(self.value(one, row.values) for one in keys))
            groups.setdefault(key if keys else (), []).append(row)
        return [*groups.values()]

    # --- patterns

    def matches(self, pattern: tree.GraphPattern, values: Values) -> list[Values]:
        """Return the variables of each match of a pattern."""
        differ = self._is_cypher if pattern.different_edges is None else pattern.different_edges
        walks = [_Walk(None, values)]
        for path in pattern.paths:
            walks = [longer for walk in walks for longer in self._along(path, walk, differ=differ)]
        choosing, others = self._conditions(pattern)
        walks = [
            walk
            for walk in walks
            if all(self._fits(element, value, walk.values) for element, value in walk.pending)
            and all(self.value(one, walk.values) is True for one in choosing)
        ]
        kept = _distinct(sorted(walks, key=lambda walk: walk.length), lambda walk: walk.told)
        names = {*values, *names_of(pattern)}
        found = [{name: value for name, value in walk.values.items() if name in names} for walk in kept]
        return [one for one in found if all(self.value(condition, one) is True for condition in others)]

    @staticmethod
    def _conditions(pattern: tree.GraphPattern) -> tuple[list[Any], list[Any]]:
        """Return the conditions of WHERE by which matches are chosen, and those on the shortest paths that were chosen."""
        if pattern.where is None:
            return [], []
        is_and = isinstance(pattern.where, where.Logical) and pattern.where.word == "and"
        conjuncts = pattern.where.parts if is_and else (pattern.where,)
        shortest = {path.variable for path in pattern.paths if path.is_shortest}

        def is_behind(condition: Any) -> bool:
            nodes = [*tree.walk(condition)]
            reads = any(isinstance(node, where.Name) and node.name in shortest for node in nodes)
            return reads and not any(isinstance(node, tree.QuantifiedList) for node in nodes)

        return [one for one in conjuncts if not is_behind(one)], [one for one in conjuncts if is_behind(one)]

    def _along(self, path: tree.PathPattern, before: _Walk, *, differ: bool) -> Iterator[_Walk]:
        """Yield the matches that extend another one by a path."""
        is_trail = differ or path.mode == "TRAIL" or path.is_function
        begin = replace(before, at=None, edges=(), vertices=())
        for walk in self._through(path.elements, begin, is_trail=is_trail):
            inner = walk.vertices[1:] if path.mode == "SIMPLE" and walk.vertices[0] == walk.at else walk.vertices
            if path.mode in ("ACYCLIC", "SIMPLE") and len({*inner}) < len(inner):
                continue
            is_undirected = any(getattr(one, "direction", "") == "either" for one in path.elements)
            if path.is_function and is_undirected and walk.edges and walk.vertices[0] == walk.at:
                continue
            if path.is_any:
                walk = replace(walk, told=(*before.told, walk.vertices[0], walk.at))
            if path.variable is not None:
                walk = replace(walk, values=walk.values | {path.variable: Path(walk.vertices, walk.edges)})
            used = walk.used | {edge.key for edge in walk.edges} if differ else walk.used
            yield replace(walk, used=used, length=walk.length + len(walk.edges) * path.is_shortest)

    def _through(self, elements: Sequence[tree.Element], walk: _Walk, *, is_trail: bool) -> Iterator[_Walk]:
        """Yield the walks that continue another one through elements of a path."""
        if not elements:
            yield walk
            return
        first, *others = elements
        if walk.at is None:
            known = None
            if isinstance(first, tree.NodePattern) and first.variable in walk.values:
                known = walk.values[first.variable]
                begins = [] if known is None else [known]
            else:
                is_alone = isinstance(first, tree.NodePattern) and not others
                begins = [one for one in self._vertices if not is_alone or one in self._universe]
            for vertex in begins:
                yield from self._through(elements, replace(walk, at=vertex, vertices=(vertex,)), is_trail=is_trail)
            return
        for longer in self._element(first, walk, is_trail=is_trail):
            yield from self._through(others, longer, is_trail=is_trail)

    def _element(self, element: tree.Element, walk: _Walk, *, is_trail: bool) -> Iterator[_Walk]:
        if isinstance(element, tree.NodePattern):
            values = walk.values if element.variable is None else {element.variable: walk.at} | walk.values
            is_same = element.variable is None or values[element.variable] == walk.at
            if is_same and self._has_labels(walk.at, element.label):
                yield from self._placed(replace(walk, values=values, told=(*walk.told, walk.at)), element, walk.at)
        elif element.quantifier is not None:
            yield from self._repeated(element, walk, is_trail=is_trail)
        else:
            for edge, end in self._steps(element, walk, is_trail=is_trail):
                values = walk.values if element.variable is None else {element.variable: edge} | walk.values
                if element.variable is None or values[element.variable] == edge:
                    longer = replace(walk, at=end, edges=(*walk.edges, edge), vertices=(*walk.vertices, end))
                    yield from self._placed(replace(longer, values=values, told=(*walk.told, edge.key)), element, edge)

    def _placed(self, walk: _Walk, element: tree.NodePattern | tree.EdgePattern, value: Any) -> Iterator[_Walk]:
        """Yield a walk whose last element is a vertex or an edge, if the conditions inside the element allow that.

        Conditions that read other variables wait until all of the clause are known.
        """
        conditions = [*(entry.value for entry in element.properties), element.where]
        names = {node.name for one in conditions for node in tree.walk(one) if isinstance(node, where.Name)}
        if {name.partition(".")[0] for name in names} <= {element.variable}:
            if self._fits(element, value, walk.values):
                yield walk
            return
        yield replace(walk, pending=(*walk.pending, (element, value)))

    def _steps(self, element: tree.EdgePattern, walk: _Walk, *, is_trail: bool) -> Iterator[tuple[Relationship, Vertex]]:
        """Yield the edges that leave a walk's end by an edge pattern, and where they lead; a self-loop is one step."""
        taken = walk.used | ({one.key for one in walk.edges} if is_trail else set())
        for one in self._edges:
            ends = Vertex(one.edge.source), Vertex(one.edge.target)
            ways = {"right": [ends], "left": [ends[::-1]], "either": dict.fromkeys([ends, ends[::-1]])}
            if one.key not in taken and self._has_label(one.edge.label, element.label):
                yield from ((one, end) for start, end in ways[element.direction] if start == walk.at)

    def _repeated(self, element: tree.EdgePattern | tree.QuantifiedGroup, walk: _Walk, *, is_trail: bool) -> Iterator[_Walk]:
        """Yield the walks that continue another one by a quantified pattern.

        They are all trails, or else one walk to each end over each set of edges, as conditions on all or any of the edges
        cannot tell more.
        """
        least, most = element.quantifier.least, element.quantifier.most
        seen: set[Any] = set()
        waiting = [(walk, 0)]
        while waiting:
            longer, count = waiting.pop()
            state = (longer.at, frozenset(longer.edges), frozenset(longer.vertices), min(count, most or least))
            if not is_trail and state in seen:
                continue
            seen.add(state)
            if count >= least and (count > 0 or longer.at in self._universe):
                steps = longer.edges[len(walk.edges) :], longer.vertices[len(walk.vertices) :]
                told = (*walk.told, steps) if is_trail else walk.told
                yield replace(longer, values=walk.values, told=told)
            if most is None or count < most:
                waiting += [(one, count + 1) for one in self._once(element, longer, is_trail=is_trail)]

    def _once(self, element: tree.EdgePattern | tree.QuantifiedGroup, walk: _Walk, *, is_trail: bool) -> Iterator[_Walk]:
        """Yield the walks that continue another one by one repetition, whose variables are its own."""
        outer = replace(walk, pending=())
        if isinstance(element, tree.EdgePattern):
            elements, condition = (replace(element, quantifier=None),), None
        else:
            elements, condition = element.elements, element.where
        for longer in self._through(elements, outer, is_trail=is_trail):
            if all(self._fits(one, value, longer.values) for one, value in longer.pending) and (
                condition is None or self.value(condition, longer.values) is True
            ):
                yield replace(longer, values=walk.values, told=walk.told, pending=walk.pending)

    # --- conditions on elements

    def _fits(self, element: tree.NodePattern | tree.EdgePattern, value: Any, values: Values) -> bool:
        """Return whether a vertex or an edge satisfies the properties and the WHERE inside its pattern."""
        for entry in element.properties:
            if equal(self.attribute(value, entry.name), self.value(entry.value, values)) is not True:
                return False
        return element.where is None or self.value(element.where, values) is True

    def labels(self, vertex: Vertex) -> set[str]:
        """Return the labels of a vertex: those of its record, and those that edges give."""
        found = set(self._snapshot.nodes.get(vertex.name, (frozenset(), {}))[0])
        if self._oracle.node_label is None:
            return found
        return found | {
            edge.target
            for edge in self._snapshot.edges
            if edge.label == self._oracle.node_label and edge.source == vertex.name
        }

    def _has_labels(self, vertex: Vertex, label: tree.LabelTree | None) -> bool:
        labels = self.labels(vertex) if label is not None else set()

        def holds(one: tree.LabelTree) -> bool:
            match one.operator:
                case "name":
                    return one.name in labels
                case "%":
                    return bool(labels)
                case "!":
                    return not holds(one.parts[0])
            return (all if one.operator == "&" else any)(map(holds, one.parts))

        return label is None or holds(label)

    def _has_label(self, name: str, label: tree.LabelTree | None) -> bool:
        """Return whether the label of an edge fits; `%`, and all but some, leave out the edges to labels of nodes."""
        if label is None or label.operator == "%":
            return name != self._oracle.node_label
        if label.operator == "name":
            return name == label.name
        if label.operator == "!":
            return name != self._oracle.node_label and not self._has_label(name, label.parts[0])
        return (all if label.operator == "&" else any)(self._has_label(name, part) for part in label.parts)

    # --- values

    def attribute(self, value: Any, name: str) -> Any:
        """Return a property of a vertex or an edge; null if there is none."""
        if isinstance(value, Vertex):
            if name == tree.LABELS_OF:
                return tuple(sorted(self.labels(value)))
            record = self._snapshot.nodes.get(value.name)
            return value if name == "id" else None if record is None else record[1].get(name)
        return None if value is None else value.edge.value(name)

    def value(self, node: Any, values: Values, group: Sequence[Row] = ()) -> Any:
        """Return a value, or the truth of a condition; the rows of a group are those that aggregates take."""

        def of(inner: Any, **more: Any) -> Any:
            return self.value(inner, values | more, group)

        match node:
            case where.WhereConstant():
                return self._constant(node)
            case where.Name():
                variable, _, attribute = node.name.partition(".")
                return values[node.name] if node.name in values else self.attribute(values[variable], attribute)
            case where.Logical():
                joined = {"and": conjunction, "or": disjunction, "xor": exclusive}[node.word]
                return joined([of(part) for part in node.parts])
            case where.Not():
                return negation(of(node.inner))
            case where.IsNull():
                return of(node.inner) is None
            case where.Between():
                inner = of(node.inner)
                return conjunction([compare(">=", inner, of(node.low)), compare("<=", inner, of(node.high))])
            case where.Comparison():
                return compare(node.sign, of(node.left), of(node.right))
            case where.Arithmetic():
                return calculate(node.sign, of(node.left), of(node.right), is_cypher=self._is_cypher)
            case where.Call(function="coalesce"):
                return next((one for one in map(of, node.arguments) if one is not None), None)
            case where.Call(function="^"):
                return calculate("^", *map(of, node.arguments), is_cypher=self._is_cypher)
            case where.Call():
                arguments = [*map(of, node.arguments)]
                return None if None in arguments else FUNCTIONS[node.function](*arguments)
            case tree.Null():
                return None
            case tree.Parameter():
                found = self._oracle.parameters[node.name]
                for key in node.keys:
                    found = found[key]
                return tuple(found) if isinstance(found, list) else found
            case tree.ListOf():
                return tuple(map(of, node.values))
            case tree.Attribute():
                return self.attribute(of(node.inner), node.name)
            case tree.Index():
                source, place = of(node.inner), of(node.index)
                return None if source is None or place is None else element(source, place)
            case tree.ListSlice():
                source, bounds = of(node.inner), [None if one is None else (of(one),) for one in (node.low, node.high)]
                if source is None or (None,) in bounds:
                    return None
                return source[slice(*(None if one is None else one[0] for one in bounds))]
            case tree.InList():
                return is_in(of(node.inner), of(node.source))
            case tree.Case():
                for condition, then in zip(node.conditions, node.values, strict=True):
                    holds = of(condition) if node.subject is None else equal(of(node.subject), of(condition))
                    if holds is True:
                        return of(then)
                return None if node.otherwise is None else of(node.otherwise)
            case tree.Comprehension():
                source, inner = of(node.source), node.value or where.Name(node.variable, column=0)
                if source is None:
                    return None
                elements = [{node.variable: one} for one in source]
                return tuple(of(inner, **one) for one in elements if node.where is None or of(node.where, **one) is True)
            case tree.QuantifiedList():
                source = of(node.source)
                if source is None:
                    return None
                truths = [of(node.where, **{node.variable: one}) for one in source]
                return {"all": conjunction, "any": disjunction, "single": _single}.get(
                    node.quantifier, lambda truths: negation(disjunction(truths))
                )(truths)
            case tree.Reduce():
                source, total = of(node.source), of(node.initial)
                for one in source or ():
                    total = of(node.value, **{node.accumulator: total, node.variable: one})
                return None if source is None else total
            case tree.MatchExists(node=where.Name() as name, pattern=pattern):
                found, label = values[name.name], pattern.paths[0].elements[0].label
                if isinstance(found, Relationship):
                    return self._has_label(found.edge.label, label)
                return None if found is None else self._has_labels(found, label)
            case tree.MatchExists():
                return bool(self.matches(node.pattern, values))
            case tree.CountOf():
                return len(self.matches(node.pattern, values))
            case tree.AggregateCall():
                return self._aggregate(node, group)
        raise TypeError(node)

    def _constant(self, node: where.WhereConstant) -> Any:
        """Return a constant: a number is a float if it is written as one, which the tree does not tell."""
        if isinstance(node.value, (str, bool)):
            return node.value
        written = re.match(r"[-\s(]*(\d+\.\d+|\.\d+|\d+)([eE][+-]?\d+)?", self._oracle.text[node.column - 1 :])
        is_integer = written is None or ("." not in written[1] and written[2] is None)
        return int(node.value) if is_integer else float(node.value)

    def _aggregate(self, node: tree.AggregateCall, group: Sequence[Row]) -> Any:
        if node.argument is None:
            return len(group)
        pairs = [(row.place, self.value(node.argument, row.values)) for row in group]
        pairs = sorted((one for one in pairs if one[1] is not None), key=lambda one: (one[0], order_key(one[1])))
        found = [one for _, one in pairs]
        if node.is_distinct:
            found = _distinct(found, lambda one: one)
        match node.function:
            case "count":
                return len(found)
            case "collect":
                return tuple(found)
            case "min" | "max":
                return (min if node.function == "min" else max)(found, key=order_key, default=None)
        assert all(map(is_number, found)), found
        total, is_integer = sum(map(Fraction, found)), all(isinstance(one, int) for one in found)
        if not found:
            return 0 if node.function == "sum" and self._is_cypher else None
        if node.function == "avg":
            return float(total / len(found))
        return (int(total) if -(2**63) <= total < 2**63 else None) if is_integer else float(total)


def names_of(pattern: tree.GraphPattern) -> list[str]:
    """Return the variables that a pattern binds for all that follows, in order of appearance."""
    found: list[str | None] = []
    for path in pattern.paths:
        elements = [one for one in path.elements if not isinstance(one, tree.QuantifiedGroup)]
        if path.is_any:
            elements = [path.elements[0], path.elements[-1]]
        read = [one for one in elements if isinstance(one, tree.NodePattern) or one.quantifier is None]
        found += [path.variable, *(one.variable for one in read)]
    return [name for name in dict.fromkeys(found) if name is not None]


def has_aggregate(node: Any) -> bool:
    """Return whether a value has an aggregate in it."""
    return any(isinstance(one, tree.AggregateCall) for one in tree.walk(node))


def _single(truths: Sequence[bool | None]) -> bool | None:
    count = truths.count(True)
    return False if count > 1 else None if None in truths else count == 1


def _distinct(found: Iterable[Any], values: Callable[[Any], Any]) -> list[Any]:
    """Return the first of those with equal values."""
    first: dict[Any, Any] = {}
    for one in found:
        first.setdefault(_hashed(values(one)), one)
    return [*first.values()]


def _hashed(value: Any) -> Any:
    """Return values as they are told apart: nested ones, and texts beside values of rows."""
    return tuple(map(_hashed, value)) if isinstance(value, tuple) else order_key(value)
