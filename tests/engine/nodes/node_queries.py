"""Queries that read facts of nodes, for the oracle and for the engine; streams of edges and records, and their rows."""

from __future__ import annotations

import copy
import functools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

import rpq
from tests.engine.edges.edge_streams import as_batch
from tests.engine.edges.test_edge_variables import value_of
from tests.reference_nodes import NodeAtom, NodeEngine, NodeQuery, PathOrder
from tests.reference_patterns import Constant, Term, Variable
from tests.reference_properties import Row, Value

_TERM = re.compile(r"""((?:\?|_:)?\w+)(?:\[((?:[^]'"]|'[^']*')*)\])?""")


def term_of(text: str) -> tuple[Term, str | None]:
    """Return a term and its test; a blank node is a variable that nobody selects."""
    name, test = _TERM.fullmatch(text).groups()
    return (Variable(name.removeprefix("?").removeprefix("_:")) if name[0] in "?_" else Constant(name)), test


def words_of(atom: str) -> list[str]:
    """Split an atom at the spaces outside brackets, parentheses and quotes.

    >>> words_of("?x[n > 1] (a/@[m = 'a b'] in order)+ ?y")
    ['?x[n > 1]', "(a/@[m = 'a b'] in order)+", '?y']
    """
    return re.findall(r"""(?:\((?:[^()\[\]]|\[(?:[^]'"]|'[^']*')*\])*\)|\[(?:[^]'"]|'[^']*')*\]|[^\s()\[\]])+""", atom)


class Described:
    """The query of the oracle and that of the engine.

    `what` is a path expression or a pattern. With `match` that is the text of the engine, whose meaning `what` is.
    """

    def __init__(
        self,
        what: str,
        *,
        name: str = "q",
        size: int = 10,
        slide: int = 1,
        select: str | None = None,
        filter: str | None = None,
        semantics: str = "implicit",
        paths: str = "walk",
        order: PathOrder | None = None,
        match: str | None = None,
        node_label: str | None = "type",
        window: str = "time",
        report: str = "change",
        distinct: bool = False,
        **ends: frozenset,
    ) -> None:
        own = {"semantics": semantics, "paths": paths, "name": name}
        extent = rpq.Window(size=size, slide=slide) if window == "time" else rpq.CountWindow(size=size, step=slide)
        oracle = {**own, "size": size, "slide": slide, "window": window, "report": report, **ends}
        engine = {**own, "window": extent, **ends}
        if report != "change":
            engine["report"] = report
            oracle["semantics"] = engine["semantics"] = "explicit"
        if distinct:
            oracle["distinct"] = engine["distinct"] = True
        is_pattern = "?" in re.sub(r"\[[^]]*\]", "", what) and re.search(r"\?\w+\s*(\[|\s|:|$)", what) is not None
        if not is_pattern:
            if select is not None:
                oracle["select"] = engine["select"] = tuple(select.split())
            if order is not None:
                engine["order"] = "increasing" if order.strict else "non_decreasing"
                engine |= {
                    name: value for name, value in (("max_gap", order.gap), ("max_span", order.span)) if value is not None
                }
            self.oracle = NodeQuery.path(what, order=order, **oracle)
            self.text, self.options = what, engine
            return
        atoms, tests = [], []
        for text in what.split(" . "):
            words = words_of(text)
            for word in {words[0], words[-1]}:
                term, test = term_of(word)
                if test is not None or len(words) == 1:
                    tests.append((term, test or "true"))
            if len(words) == 3:
                named = re.fullmatch(r"\?(\w+):(.*)", words[1])
                atoms.append(
                    NodeAtom(
                        term_of(words[0])[0],
                        named[2] if named else words[1],
                        term_of(words[2])[0],
                        named[1] if named else None,
                    )
                )
        columns = tuple((select or " ".join(dict.fromkeys(re.findall(r"\?(\w+)(?![\w:])", what)))).split())
        if match is None:
            engine |= {"select": columns, "filter": filter}
        else:
            oracle |= {"is_match": True, "node_label": node_label}
            engine |= {} if node_label == "type" else {"node_label": node_label}
        self.oracle = NodeQuery(atoms=tuple(atoms), tests=tuple(tests), select=columns, filter=filter, **oracle)
        self.text = match or what
        self.options = {key: value for key, value in engine.items() if match is None or key not in ("paths", "distinct")}

    def named(self, name: str) -> Described:
        """Return the same query under another name."""
        other = copy.copy(self)
        other.__dict__.pop("query", None)
        other.oracle, other.options = replace(self.oracle, name=name), self.options | {"name": name}
        return other

    @functools.cached_property
    def query(self) -> rpq.Query:
        return rpq.Query(self.text, **self.options)

    def cells(self, values: Sequence[object]) -> tuple[object, ...]:
        """Return the values of a row as the oracle tells them: with their types; labels are a list."""
        return tuple(
            ("tuple", tuple(value)) if isinstance(value, list) else value_of(column, value)
            for column, value in zip(self.oracle.select, values, strict=True)
        )


class EdgeStep(NamedTuple):
    """A tuple."""

    source: str | None
    label: str | None
    target: str | None
    timestamp: int
    properties: dict[str, Value]
    op: str = "+"
    edge: str | None = None


class NodeStep(NamedTuple):
    """A record of a node."""

    node: str
    timestamp: int | None
    op: str = "+"
    labels: tuple[str, ...] = ()
    properties: Mapping[str, Value] = MappingProxyType({})


class Advance(NamedTuple):
    """Time that passes."""

    timestamp: int


class Register(NamedTuple):
    """A query that comes in mid-stream."""

    query: Described


Step = EdgeStep | NodeStep | Advance | Register


def told(oracle: NodeEngine, step: Step) -> list[Row]:
    """Return the rows of the oracle for a step."""
    match step:
        case EdgeStep(source, label, target, timestamp, properties, "+", edge):
            return oracle.insert(source, label, target, timestamp, edge, **properties)
        case EdgeStep(source, label, target, timestamp, _, _, edge):
            return oracle.delete(source, label, target, timestamp, edge)
        case NodeStep(node, timestamp, op, labels, properties):
            return oracle.record(node, timestamp, op, labels, **properties)
        case Advance(timestamp):
            return oracle.advance(timestamp)
        case Register(query):
            return oracle.register(query.oracle)


def changes_of(engine: rpq.Engine, step: Step) -> rpq.Changes:
    """Return what the engine tells of a step."""
    match step:
        case EdgeStep(source, label, target, timestamp, properties, "+", edge):
            return engine.insert(source, target, label, timestamp, edge=edge, properties=properties)
        case EdgeStep(source, label, target, timestamp, _, _, edge):
            return engine.delete(source, target, label, timestamp, edge=edge)
        case NodeStep(node, timestamp, "-"):
            return engine.remove_node(node, timestamp=timestamp)
        case NodeStep(node, timestamp, op, labels, properties):
            return engine.set_node(node, labels=labels, properties=dict(properties), timestamp=timestamp, replace=op == "=")
        case Advance(timestamp):
            return engine.advance(timestamp)
        case Register(query):
            return engine.register(query.query)


def push_together(engine: rpq.Engine, steps: Sequence[EdgeStep] | Sequence[NodeStep], *, arrow: bool = False) -> rpq.Changes:
    """Push steps of one kind in one batch and return what the engine tells of them."""
    if isinstance(steps[0], EdgeStep):
        rows = [(one.source, one.label, one.target, one.timestamp, one.properties, one.op, one.edge) for one in steps]
        return engine.push(as_batch(rows, arrow=arrow))
    records = [
        {"node": one.node, "op": one.op, "timestamp": one.timestamp, **one.properties}
        | ({"labels": list(one.labels)} if one.labels else {})
        for one in steps
    ]
    return engine.push_nodes(records)


def rows_of(changes: rpq.Changes, queries: list[Described]) -> Counter[Row]:
    """Return the rows of the engine as those of the oracle."""
    found: Counter[Row] = Counter()
    for one in queries:
        table = changes.to_arrow(one.query.name)
        columns = [table[column].to_pylist() for column in (*one.query.columns, "timestamp", "op")]
        rows = zip(*columns, strict=True)
        found.update(Row(one.query.name, one.cells(row[:-2]), *row[-2:]) for row in rows)
    return found


def answers_of(engine: rpq.Engine, query: Described) -> Counter[tuple]:
    """Return the answers of the engine as those of the oracle."""
    return Counter(query.cells(row) for row in engine.answers(query.query.name))


# --- as text -------------------------------------------------------------------------------------------------


def value_in(text: str) -> Value:
    """Return the value that a text such as `4`, `0.5`, `'a'`, `true`, `null` stands for."""
    if text.startswith("'"):
        return text.strip("'")
    if text in ("true", "false", "null"):
        return {"true": True, "false": False, "null": None}[text]
    return float(text) if "." in text else int(text)


def step_in(text: str) -> Step | None:
    """Return the step that a text stands for.

    >>> step_in("x a y 1 n=5"), step_in("node= y :A risk=null @7"), step_in("to 9")
    (EdgeStep(source='x', label='a', target='y', timestamp=1, properties={'n': 5}, op='+', edge=None), \
NodeStep(node='y', timestamp=7, op='=', labels=('A',), properties={'risk': None}), Advance(timestamp=9))
    """
    words = text.split()
    values = {word.split("=")[0]: value_in(word.split("=")[1]) for word in words[1:] if "=" in word}
    if words[0] == "to":
        return Advance(int(words[1]))
    if words[0].startswith("node"):
        times = [int(word[1:]) for word in words if word.startswith("@")]
        labels = tuple(word[1:] for word in words if word.startswith(":"))
        return NodeStep(words[1], times[0] if times else None, words[0][4:] or "+", labels, values)
    op = "-" if words[0] == "-" else "+"
    source, label, target, timestamp = words[1:5] if op == "-" else words[:4]
    edge = str(values.pop("edge")) if "edge" in values else None
    return EdgeStep(source, label, target, int(timestamp), values, op, edge)


def steps_in(text: str, second: Described | None = None) -> Iterator[tuple[Step, list[str]]]:
    """Yield the steps in lines, each with the rows that are written after three spaces or more."""
    for line in filter(None, map(str.strip, text.splitlines())):
        what, *rows = re.split(r"\s{3,}", line, maxsplit=1)
        step = Register(second) if what == "register" else step_in(what)
        yield step, sorted(rows[0].split(", ")) if rows else []


def shown(row: Row) -> str:
    """Write a row as `+ x y 4 @1`, led by the name of its query unless that is q."""
    values = [str(value[1] if isinstance(value, tuple) else value) for value in row.values]
    return " ".join([*([row.query] if row.query != "q" else []), row.op, *values, f"@{row.timestamp}"])
