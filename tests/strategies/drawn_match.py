"""MATCH texts drawn at random, and what they mean by brute force over the edges of a snapshot.

A drawn query is a text together with its meaning: functions over bindings that enumerate all choices of edges. Nothing here
knows how the engine reads or evaluates the text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

VERTICES = ("u", "v", "w")
LABELS = ("T", "S")
NODE_LABELS = ("A", "B")
NODE_LABEL = "type"


@dataclass(frozen=True)
class Edge:
    """An edge of the snapshot."""

    source: str
    label: str
    target: str
    timestamp: int
    amount: int | None
    number: int


Binding = dict[str, Any]
"""Vertices by the names of nodes, and edges by the names of edges; nothing for what an optional part lacks."""


@dataclass(frozen=True)
class Step:
    """An edge or a quantified part between two nodes: its text, and the edges that it may walk, forward and backward."""

    text: str
    labels: Callable[[str], bool]
    condition: Callable[[Edge], bool | None]
    direction: str
    variable: str | None
    least: int | None = None
    most: int | None = None
    inner: tuple[Step, ...] = ()
    """The edges of a path in parentheses that is repeated."""

    @property
    def is_quantified(self) -> bool:
        """Whether it stands for paths."""
        return self.least is not None

    def walks(self, edges: Iterable[Edge]) -> Iterator[tuple[str, str, Edge]]:
        """Yield each way in which an edge can be walked: start, end and edge."""
        for edge in edges:
            if not self.labels(edge.label) or self.condition(edge) is not True:
                continue
            ways = {(edge.source, edge.target)} if self.direction in ("right", "either") else set()
            if self.direction in ("left", "either"):
                ways.add((edge.target, edge.source))
            for start, end in sorted(ways):
                yield start, end, edge

    def pairs(self, edges: Sequence[Edge]) -> set[tuple[str, str]]:
        """Return the pairs that some path joins."""
        once = _composed(step.pairs(edges) for step in self.inner) if self.inner else self._joined(edges)
        if not self.is_quantified:
            return once
        assert self.least is not None
        found, power = set(), once
        last = self.most if self.most is not None else self.least + 40
        for length in range(1, last + 1):
            if length >= self.least:
                found |= power
            power = _composed((power, once))
        return found

    def _joined(self, edges: Iterable[Edge]) -> set[tuple[str, str]]:
        return {(start, end) for start, end, _ in self.walks(edges)}


def _composed(parts: Iterable[set[tuple[str, str]]]) -> set[tuple[str, str]]:
    """Return the pairs that parts join one behind the other."""
    first, *others = parts
    for part in others:
        first = {(one, other) for one, middle in first for begin, other in part if middle == begin}
    return first


@dataclass(frozen=True)
class NodeText:
    """A node: its text, its name, and what must hold of its vertex."""

    text: str
    name: str
    holds: Callable[[str, Sequence[Edge]], bool]


@dataclass(frozen=True)
class Path:
    """A path: nodes with steps between them; behind ANY only its ends are told."""

    nodes: tuple[NodeText, ...]
    steps: tuple[Step, ...]
    is_any: bool
    prefix: str = ""
    differs: str = ""

    @property
    def text(self) -> str:
        """The text of the path."""
        between = [part for node, step in zip(self.nodes[1:], self.steps, strict=True) for part in (step.text, node.text)]
        return self.prefix + "".join([self.nodes[0].text, *between])

    def bindings(self, before: Binding, edges: Sequence[Edge], *, as_set: bool) -> Iterator[Binding]:
        """Yield the bindings that extend another one by the path."""
        if self.is_any:
            pairs: dict[tuple[str, str], Binding] = {}
            for found in self._along(before, edges, as_set=True):
                ends = found[self.nodes[0].name], found[self.nodes[-1].name]
                pairs[ends] = before | {self.nodes[0].name: ends[0], self.nodes[-1].name: ends[1]}
            yield from pairs.values()
            return
        for found in self._along(before, edges, as_set=as_set):
            vertices = [found[node.name] for node in self.nodes]
            if self.differs == "ACYCLIC" and len({*vertices}) < len(vertices):
                continue
            if self.differs == "SIMPLE":
                inner = vertices[1:] if vertices[0] == vertices[-1] else vertices
                if len({*inner}) < len(inner):
                    continue
            numbers = [found[step.variable or f"#{id(step)}"].number for step in self.steps if not step.is_quantified]
            if self.differs == "TRAIL" and len({*numbers}) < len(numbers):
                continue
            yield found

    def _along(self, before: Binding, edges: Sequence[Edge], *, as_set: bool) -> Iterator[Binding]:
        def place(binding: Binding, node: NodeText, vertex: str) -> Binding | None:
            if binding.get(node.name, vertex) != vertex or not node.holds(vertex, edges):
                return None
            return binding | {node.name: vertex}

        def extend(binding: Binding, number: int, vertex: str) -> Iterator[Binding]:
            placed = place(binding, self.nodes[number], vertex)
            if placed is None:
                return
            if number == len(self.steps):
                yield placed
                return
            step = self.steps[number]
            if step.is_quantified:
                for start, end in sorted(step.pairs(edges)):
                    if start == vertex:
                        yield from extend(placed, number + 1, end)
                return
            for start, end, edge in step.walks(edges):
                if start == vertex:
                    yield from extend(placed | {step.variable or f"#{id(step)}": edge}, number + 1, end)

        vertices = {vertex for edge in edges for vertex in (edge.source, edge.target)}
        for vertex in sorted(vertices):
            yield from extend(before, 0, vertex)


Condition = tuple[str, Callable[[Binding, Sequence[Edge]], bool | None]]


@dataclass(frozen=True)
class Clause:
    """MATCH with its paths and conditions."""

    paths: tuple[Path, ...]
    conditions: tuple[Condition, ...]
    different: bool
    mode: str = ""

    @property
    def text(self) -> str:
        """The text behind MATCH."""
        where = f" WHERE {' AND '.join(text for text, _ in self.conditions)}" if self.conditions else ""
        return self.mode + ", ".join(path.text for path in self.paths) + where

    def bindings(self, before: Binding, edges: Sequence[Edge], *, as_set: bool) -> Iterator[Binding]:
        """Yield the bindings that extend another one by the clause."""
        found = [before]
        for path in self.paths:
            found = [more for one in found for more in path.bindings(one, edges, as_set=as_set)]
        for one in found:
            new = [value.number for name, value in one.items() if isinstance(value, Edge) and name not in before]
            if self.different and len({*new}) < len(new):
                continue
            if all(condition(one, edges) is True for _, condition in self.conditions):
                yield one


@dataclass
class DrawnQuery:
    """A drawn query."""

    clauses: tuple[Clause, ...]
    optional: tuple[Clause, ...]
    items: tuple[tuple[str, str, str], ...]
    """Of each item its text, the aggregate or nothing, and what it is of."""
    is_distinct: bool
    language: str
    optional_at: int
    """How many clauses stand before the optional ones."""
    text: str = field(init=False)

    def __post_init__(self) -> None:
        parts = [f"{'OPTIONAL ' * is_optional}MATCH {clause.text}" for is_optional, clause in self._in_order()]
        returned = ", ".join(text for text, _, _ in self.items)
        self.text = " ".join([*parts, "RETURN", "DISTINCT" if self.is_distinct else "", returned])

    def _in_order(self) -> list[tuple[bool, Clause]]:
        """Return the clauses in the order of the text, and whether each is optional."""
        clauses = [(False, clause) for clause in self.clauses]
        return [*clauses[: self.optional_at], *((True, clause) for clause in self.optional), *clauses[self.optional_at :]]

    def rows(self, edges: Sequence[Edge]) -> Counter[tuple[Any, ...]]:
        """Return the rows of the answer, with how often each occurs."""
        as_set = self.is_distinct and not any(function for _, function, _ in self.items)
        found: list[Binding] = [{}]
        for is_optional, clause in self._in_order():
            extended: list[Binding] = []
            for one in found:
                more = [*clause.bindings(one, edges, as_set=as_set)]
                extended += more or [one] * is_optional
            found = extended
        if any(function for _, function, _ in self.items):
            return self._grouped(found)
        rows = Counter(tuple(value_of(one, of) for _, _, of in self.items) for one in found)
        return Counter(dict.fromkeys(rows, 1)) if self.is_distinct else rows

    def _grouped(self, bindings: Sequence[Binding]) -> Counter[tuple[Any, ...]]:
        keys = [place for place, (_, function, _) in enumerate(self.items) if not function]
        groups: dict[tuple[Any, ...], list[Binding]] = {} if keys else {(): []}
        for one in bindings:
            groups.setdefault(tuple(value_of(one, self.items[place][2]) for place in keys), []).append(one)
        rows: Counter[tuple[Any, ...]] = Counter()
        for key, members in groups.items():
            waiting = iter(key)
            row = []
            for _, function, of in self.items:
                row.append(self._aggregate(function, of, members) if function else next(waiting))
            rows[tuple(row)] += 1
        return Counter(dict.fromkeys(rows, 1)) if self.is_distinct else rows

    def _aggregate(self, function: str, of: str, members: Sequence[Binding]) -> Any:
        if of == "*":
            return len(members)
        name, _, what = function.partition(" ")
        values = [value for one in members if (value := value_of(one, of)) is not None]
        if what == "DISTINCT":
            values = sorted({*values})
        if name == "count":
            return len(values)
        if not values:
            return 0 if name == "sum" and self.language == "cypher" else None
        if name == "avg":
            return float(Fraction(sum(values), len(values)))
        return {"sum": sum, "min": min, "max": max}[name](values)


def value_of(binding: Binding, name: str) -> Any:
    """Return the value of a variable or of a property, None where there is none."""
    variable, _, attribute = name.partition(".")
    value = binding.get(variable)
    if value is None or not attribute or attribute == "id":
        return value.number if isinstance(value, Edge) else value
    return getattr(value, attribute)


# --- strategies ------------------------------------------------------------------------------------------------------


def _compared(sign: str, left: Any, right: Any) -> bool | None:
    if left is None or right is None:
        return None
    return {"<": left < right, ">": left > right, "=": left == right, "<>": left != right, ">=": left >= right}[sign]


def has_label(vertex: str, label: str, edges: Sequence[Edge]) -> bool:
    """Return whether a vertex has a label."""
    return any((edge.source, edge.label, edge.target) == (vertex, NODE_LABEL, label) for edge in edges)


@st.composite
def label_conditions(draw: st.DrawFn, nodes: Sequence[str]) -> tuple[str, Callable[[Binding, Sequence[Edge]], bool]]:
    """Draw the condition that a node has a label."""
    node, label = draw(st.sampled_from(nodes)), draw(st.sampled_from(NODE_LABELS))
    text = draw(st.sampled_from([f"{node}:{label}", f"{node} IS LABELED {label}"]))
    return text, lambda one, edges: has_label(value_of(one, node), label, edges)


@st.composite
def node_texts(draw: st.DrawFn, names: Sequence[str], *, number: int, is_bare: bool = False) -> NodeText:
    """Draw a node, named or not."""
    name = draw(st.sampled_from([*names, ""]))
    if is_bare:
        return NodeText(f"({name})", name or f"#{number}", lambda vertex, edges: True)
    kind = draw(st.sampled_from(["", *[""] * 10, "A", "A", "A|B", "A&B", "id"]))
    if kind == "id":
        vertex_name = draw(st.sampled_from(VERTICES))
        where = draw(st.booleans()) and bool(name)
        text = f"({name} WHERE {name}.id = '{vertex_name}')" if where else f"({name} {{id: '{vertex_name}'}})"
        return NodeText(text, name or f"#{number}", lambda vertex, edges: vertex == vertex_name)

    def holds(vertex: str, edges: Sequence[Edge]) -> bool:
        found = [has_label(vertex, label, edges) for label in kind.replace("|", "&").split("&")] if kind else [True]
        return any(found) if "|" in kind else all(found)

    return NodeText(f"({name}{':' if kind else ''}{kind})", name or f"#{number}", holds)


_LABEL_TEXTS: dict[str, Callable[[str], bool]] = {
    "": lambda label: label != NODE_LABEL,
    ":%": lambda label: label != NODE_LABEL,
    ":T": lambda label: label == "T",
    ":S": lambda label: label == "S",
    ":T|S": lambda label: label in ("T", "S"),
    ":!T": lambda label: label not in ("T", NODE_LABEL),
    ":(T|S)&!S": lambda label: label == "T",
}


@st.composite
def steps(draw: st.DrawFn, variable: str | None, *, quantified: bool, language: str) -> Step:
    """Draw an edge, or a quantified one."""
    label = draw(st.sampled_from([":T", ":T", ":T", ":T|S", *_LABEL_TEXTS]))
    direction = draw(st.sampled_from(["right", "right", "left", "either"]))
    kind = draw(st.sampled_from(["", "", "", "", "", "where", "map", "time"]))
    limit = draw(st.integers(1, 3))
    name = variable or ""
    if kind in ("where", "time") and not name:
        name = "q" if quantified else "g"
    condition: Callable[[Edge], bool | None] = lambda edge: True  # noqa: E731
    inside = ""
    if kind == "where":
        inside, condition = f" WHERE {name}.amount >= {limit}", lambda edge: _compared(">=", edge.amount, limit)
    elif kind == "map":
        inside, condition = f" {{amount: {limit}}}", lambda edge: _compared("=", edge.amount, limit)
    elif kind == "time":
        inside, condition = f" WHERE {name}.timestamp > {5 * limit}", lambda edge: _compared(">", edge.timestamp, 5 * limit)
    least = most = None
    length = behind = ""
    inner: tuple[Step, ...] = ()
    if quantified:
        least, most = draw(st.sampled_from([(1, None), (1, 2), (2, 2), (2, 3), (3, None)]))
        behind = "+" if (least, most) == (1, None) else f"{{{least}}}" if least == most else f"{{{least},{most or ''}}}"
        if language == "cypher" and draw(st.booleans()):
            length, behind = f"*{least}..{most or ''}", ""
    if quantified and not length and not name and draw(st.integers(0, 3)) == 3:
        names = ["qa", "qb"][: draw(st.integers(1, 2))]
        inner = tuple(draw(steps(name, quantified=False, language=language)) for name in names)
        whole = "()".join(["", *(step.text for step in inner), ""])
        return Step(f"({whole}){behind}", lambda label: False, condition, "right", None, least, most, inner)
    left, right = {"right": ("-[", "]->"), "left": ("<-[", "]-"), "either": ("-[", "]-")}[direction]
    return Step(
        f"{left}{name}{label}{length}{inside}{right}{behind}",
        _LABEL_TEXTS[label],
        condition,
        direction,
        None if quantified else name or None,
        least,
        most,
    )


@st.composite
def clauses(
    draw: st.DrawFn,
    names: Sequence[str],
    edge_names: list[str],
    *,
    as_set: bool,
    language: str,
    paths: int = 2,
    begin: str | None = None,
    numbers: Iterator[int],
) -> Clause:
    """Draw a clause whose nodes have some of these names, and whose edges take names from a list."""
    different = language == "cypher" or draw(st.integers(0, 4)) == 4
    found = []
    for place in range(draw(st.sampled_from([1, 1, paths]))):
        may_quantify = not different
        is_any = may_quantify and draw(st.integers(0, 2)) == 2
        length = draw(st.integers(1, 2))
        mine: list[Step] = []
        for _ in range(length):
            quantified = may_quantify and (is_any or as_set) and draw(st.booleans())
            is_named = not quantified and not is_any and edge_names and draw(st.booleans())
            variable = edge_names.pop(0) if is_named else None
            step = draw(steps(variable, quantified=quantified, language=language))
            if step.variable in ("g", None) and not quantified:
                fresh = f"g{next(numbers)}"
                step = Step(
                    step.text.replace("[g", f"[{fresh}").replace(" g.", f" {fresh}."),
                    step.labels, step.condition, step.direction, fresh,
                )  # fmt: skip
            elif quantified:
                fresh = f"q{next(numbers)}"
                step = replace(step, text=step.text.replace("[q", f"[{fresh}").replace(" WHERE q", f" WHERE {fresh}"))
            mine.append(step)
        nodes = [draw(node_texts(names, number=next(numbers))) for _ in range(length + 1)]
        if is_any and length == 2:
            nodes[1] = draw(node_texts((), number=next(numbers), is_bare=True))
        if begin is not None and place == 0:
            nodes[0] = NodeText(f"({begin})", begin, lambda vertex, edges: True)
        differs = ""
        if not is_any and not any(step.is_quantified for step in mine):
            differs = draw(st.sampled_from(["", "", "", "", "", "TRAIL", "ACYCLIC", "SIMPLE", "WALK"]))
            if any(node.text.startswith("( {id") for node in nodes) and differs in ("ACYCLIC", "SIMPLE"):
                differs = ""
        prefix = draw(st.sampled_from(["ANY ", "ANY SHORTEST "])) if is_any else f"{differs} " if differs else ""
        found.append(Path(tuple(nodes), tuple(mine), is_any, prefix, differs))
    mode = "DIFFERENT EDGES " if different and language == "gql" else ""
    return Clause(tuple(found), (), different, mode)


def _names_of(clause: Clause) -> tuple[list[str], list[str]]:
    """Return the names of nodes and of edges that can be read outside a clause."""
    nodes, edges = [], []
    for path in clause.paths:
        named = (path.nodes[0], path.nodes[-1]) if path.is_any else path.nodes
        nodes += [node.name for node in named if not node.name.startswith("#")]
        edges += [step.variable for step in path.steps if step.variable is not None and f"[{step.variable}" in step.text]
        if path.is_any:
            edges = [name for name in edges if name not in [step.variable for step in path.steps]]
    return list(dict.fromkeys(nodes)), list(dict.fromkeys(edges))


@st.composite
def conditions(draw: st.DrawFn, nodes: Sequence[str], edges: Sequence[str]) -> Condition:
    """Draw a condition over names of nodes and edges."""
    kinds = ["id"] * bool(nodes) + ["nodes"] * (len(nodes) > 1) + ["value", "null", "or"] * bool(edges)
    kinds += ["values", "edges", "later"] * (len(edges) > 1)
    kind = draw(st.sampled_from(kinds))
    if kind == "id":
        node, chosen = draw(st.sampled_from(nodes)), draw(st.sets(st.sampled_from(VERTICES), min_size=1))
        listed = sorted(chosen)
        if len(listed) == 1:
            sign = draw(st.sampled_from(["=", "<>"]))
            return f"{node}.id {sign} '{listed[0]}'", lambda one, _: _compared(sign, value_of(one, node), listed[0])
        text = f"{node}.id IN [{', '.join(map(repr, listed))}]"
        return text, lambda one, _: None if value_of(one, node) is None else value_of(one, node) in chosen
    if kind == "nodes":
        left, right = draw(st.permutations(nodes))[:2]
        sign = draw(st.sampled_from(["=", "<>"]))
        return f"{left} {sign} {right}", lambda one, _: _compared(sign, value_of(one, left), value_of(one, right))
    edge, limit = draw(st.sampled_from(edges)), draw(st.integers(1, 4))
    if kind == "value":
        sign = draw(st.sampled_from(["<", ">", "<>", "="]))
        text = f"{edge}.amount {sign} {limit}"
        return text, lambda one, _: _compared(sign, value_of(one, f"{edge}.amount"), limit)
    if kind == "null":
        return f"{edge}.amount IS NULL", lambda one, _: value_of(one, f"{edge}.amount") is None
    if kind == "or":

        def either(one: Binding, _: Sequence[Edge]) -> bool | None:
            amount = value_of(one, f"{edge}.amount")
            return amount is None or amount > limit

        return f"({edge}.amount > {limit} OR {edge}.amount IS NULL)", either
    first, second = draw(st.permutations(edges))[:2]
    if kind == "edges":
        sign = draw(st.sampled_from(["=", "<>"]))

        def same(one: Binding, _: Sequence[Edge]) -> bool | None:
            if value_of(one, first) is None or value_of(one, second) is None:
                return None
            return _compared(sign, one[first].number, one[second].number)

        return f"{first} {sign} {second}", same
    what = "amount" if kind == "values" else "timestamp"
    return (
        f"{first}.{what} < {second}.{what}",
        lambda one, _: _compared("<", value_of(one, f"{first}.{what}"), value_of(one, f"{second}.{what}")),
    )


@st.composite
def match_queries(draw: st.DrawFn, *, language: str = "gql", is_numbered: bool = False) -> DrawnQuery:
    """Draw a query, which may return the edges themselves if they have numbers or ids."""
    numbers = iter(range(10_000))
    is_distinct, is_grouped = draw(st.booleans()), draw(st.integers(0, 3)) == 3
    as_set = is_distinct and not is_grouped
    edge_names = ["e", "f", "h"]
    found: list[Clause] = []
    for _ in range(draw(st.sampled_from([1, 1, 2]))):
        clause = draw(clauses("abc", edge_names, as_set=as_set, language=language, numbers=numbers, paths=2))
        found.append(clause)
    nodes = [name for clause in found for name in _names_of(clause)[0]]
    edges = [name for clause in found for name in _names_of(clause)[1]]
    nodes, edges = list(dict.fromkeys(nodes)), list(dict.fromkeys(edges))
    wanted: list[Condition] = []
    if nodes or edges:
        wanted = draw(st.lists(conditions(nodes, edges), max_size=2))
    if nodes and draw(st.integers(0, 2)) == 2:
        begin = draw(st.sampled_from(nodes))
        local = ["i"]
        inner = draw(clauses(("k",), local, as_set=True, language=language, paths=1, begin=begin, numbers=numbers))
        own_nodes, own_edges = _names_of(inner)
        if draw(st.booleans()) and (own_edges or edges):
            inner = Clause(
                inner.paths, (draw(conditions([*nodes, *own_nodes], [*edges, *own_edges])),), inner.different, inner.mode
            )
        negated = draw(st.booleans())
        body = inner

        def exists(one: Binding, edges: Sequence[Edge]) -> bool:
            return any(True for _ in body.bindings(one, edges, as_set=True)) != negated

        text = f"EXISTS {{ {inner.text} }}"
        if draw(st.booleans()):
            label, holds_label = draw(label_conditions(nodes))
            text, holds_body = f"({text} OR {label})", exists

            def exists(one: Binding, edges: Sequence[Edge]) -> bool:
                return (holds_body(one, edges) != negated or holds_label(one, edges)) != negated

        wanted.append((f"{'NOT ' * negated}{text}", exists))
    if nodes and draw(st.integers(0, 4)) == 4:
        text, holds = draw(label_conditions(nodes))
        is_without = draw(st.booleans())
        wanted.append((f"{'NOT ' * is_without}{text}", lambda one, edges: holds(one, edges) != is_without))
    last = found[-1]
    found[-1] = Clause(last.paths, tuple(wanted), last.different, last.mode)
    optional: list[Clause] = []
    optional_at = draw(st.integers(1, len(found)))
    before = [_names_of(clause) for clause in found[:optional_at]]
    nodes_before = list(dict.fromkeys(name for names, _ in before for name in names))
    edges_before = [name for _, names in before for name in names]
    if nodes_before and draw(st.integers(0, 2)) == 2:
        begin = draw(st.sampled_from(nodes_before))
        clause = draw(clauses(("m",), ["o"], as_set=as_set, language=language, paths=1, begin=begin, numbers=numbers))
        own_nodes, own_edges = _names_of(clause)
        if draw(st.booleans()):
            condition = draw(conditions([*nodes_before, *own_nodes], [*edges_before, *own_edges]))
            clause = Clause(clause.paths, (condition,), clause.different, clause.mode)
        optional.append(clause)
        nodes, edges = list(dict.fromkeys([*nodes, *own_nodes])), [*edges, *own_edges]
    plain = [*nodes, *(f"{name}.id" for name in nodes[:1])]
    plain += [f"{name}.{what}" for name in edges for what in ("amount", "timestamp")] + edges * is_numbered
    paths = [path for clause in (*found, *optional) for path in clause.paths if not path.is_any]
    assume(plain or not as_set or not any(step.is_quantified for path in paths for step in path.steps))  # pairs, not counted
    items: list[tuple[str, str, str]] = []
    if is_grouped or not plain:
        for number in range(draw(st.integers(1, 2))):
            numeric = [f"{name}.amount" for name in edges]
            function = draw(st.sampled_from(["count *", *(["sum", "avg", "min", "max", "count"] if numeric else [])]))
            if function == "count *":
                items.append((f"count(*) AS n{number}", "count", "*"))
                continue
            of, distinct = draw(st.sampled_from(numeric)), draw(st.sampled_from(["", "DISTINCT"]))
            items.append((f"{function}({distinct} {of}) AS n{number}", f"{function} {distinct}".strip(), of))
    if plain:
        for name in draw(st.lists(st.sampled_from(plain), min_size=0 if items else 1, max_size=3, unique=True)):
            items.append((f"{name} AS x{len(items)}", "", name))
    return DrawnQuery(tuple(found), tuple(optional), tuple(items), is_distinct, language, optional_at)


@st.composite
def edge_streams(draw: st.DrawFn, *, size: int = 18) -> list[tuple[str, str, str, int, int | None, str]]:
    """Draw tuples (source, label, target, timestamp, amount, op) whose timestamps do not fall."""
    found, time = [], 1
    for _ in range(draw(st.integers(size // 2, size))):
        time += draw(st.integers(0, 2))
        source = draw(st.sampled_from(VERTICES))
        label = draw(st.sampled_from([*LABELS, "T", NODE_LABEL]))
        target = draw(st.sampled_from(NODE_LABELS if label == NODE_LABEL else VERTICES))
        op = draw(st.sampled_from("+++++++-"))
        found.append((source, label, target, time, draw(st.one_of(st.none(), st.integers(1, 5))), op))
    return found
