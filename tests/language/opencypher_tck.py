"""The features of the openCypher technology compatibility kit about MATCH, run over streams.

The features are no part of this repository: a jar of Maven Central has them, which is fetched into a cache folder once.
`python -m tests.language.opencypher_tck` writes `tests/language/opencypher_tck.md`: what passes, what is refused, and what
differs, and why.

A scenario creates a property graph. Here a node is a vertex, named by its property `id` if it has one; its labels and its
other properties are those of its record. A relationship is an edge whose label is its type, with its properties.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pyarrow as pa

import rpq
from tests.reference_match import MatchOracle, Snapshot
from tests.reference_properties import Edge
from tests.services.kafka_broker import fetched

VERSION = "1.0.0-M23"
JARS = (f"7edc3f7b1fb612feac47285157d67345a2dfaa2791ad83b6ba1699c7f4635a21 org/opencypher/tck/{VERSION}/tck-{VERSION}.jar",)
FOLDERS = (
    "clauses/match",
    "clauses/match-where",
    "clauses/return",
    "expressions/aggregation",
    "expressions/existentialSubqueries",
    "useCases/countingSubgraphMatches",
)
LIST = Path(__file__).with_suffix(".md")

Outcome = Literal["passes", "refused", "differs", "other set-up"]


@dataclass(frozen=True)
class Scenario:
    """A scenario of a feature, with the values of an example in place if it has examples."""

    name: str
    set_up: tuple[str, ...]
    query: str
    rows: tuple[tuple[str, ...], ...]
    """The cells of the expected table, with its header; nothing where an error is expected."""
    error: str | None
    parameters: tuple[tuple[str, str], ...] = ()
    has_unordered_lists: bool = False
    """True if the order of the elements of lists is not told."""


@cache
def jar() -> Path:
    """Return the jar with the features. Raises `tests.services.kafka_broker.NoBroker` where it cannot be had."""
    return fetched(JARS, f"opencypher-{VERSION}") / Path(JARS[0].split()[1]).name


@cache
def scenarios() -> tuple[Scenario, ...]:
    """Return all scenarios of the features."""
    found: list[Scenario] = []
    with zipfile.ZipFile(jar()) as archive:
        for name in sorted(archive.namelist()):
            folder, _, file = name.removeprefix("features/").rpartition("/")
            if folder in FOLDERS and file.endswith(".feature"):
                found += _scenarios_of(archive.read(name).decode(), file.removesuffix(".feature"))
    return tuple(found)


def _scenarios_of(text: str, feature: str) -> Iterator[Scenario]:
    background, *parts = re.split(r"^\s*Scenario(?: Outline)?: ", text, flags=re.MULTILINE)
    for part in parts:
        title, _, steps = part.partition("\n")
        number = re.match(r"\[(\d+)\]", title)
        steps, _, examples = steps.partition("Examples:")
        table = _cells(examples)
        for place, values in enumerate(table[1:] or [()], 1):
            mine = steps
            for column, value in zip(table[0], values, strict=True) if values else ():
                mine = mine.replace(f"<{column}>", value)
            suffix = f".{place}" if values else ""
            yield _scenario(background + mine, f"{feature}/{number[1] if number else title}{suffix}")


def _scenario(steps: str, name: str) -> Scenario:
    texts: dict[str, list[str]] = {}
    for kind, text in re.findall(r'(having executed|executing query):\s*"""(.*?)"""', steps, re.DOTALL):
        texts.setdefault(kind, []).append(text.strip())
    error = re.search(r"Then an? (\w+) should be raised", steps)
    expected = re.search(r"Then the result should be[^\n]*\n(.*?)(?=\n\s*And|\Z)", steps, re.DOTALL)
    rows = _cells(expected[1]) if expected else []
    parameters = re.search(r"parameters are:\n((?:\s*\|[^\n]*\n)+)", steps)
    return Scenario(
        name,
        tuple(texts.get("having executed", ())),
        texts["executing query"][0],
        tuple(rows),
        error[1] if error else None,
        tuple((row[0], row[1]) for row in _cells(parameters[1])) if parameters else (),
        "ignoring element order for lists" in steps,
    )


def _cells(text: str) -> list[tuple[str, ...]]:
    lines = [line.strip() for line in text.splitlines() if line.strip().startswith("|")]
    return [tuple(cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]) for line in lines]


# --- graphs ----------------------------------------------------------------------------------------------------------


class OtherSetUpError(Exception):
    """A set-up that is not CREATE of a pattern alone."""


class Relationship(NamedTuple):
    source: str
    target: str
    label: str
    properties: Mapping[str, Any]


@dataclass
class Graph:
    """The graph of a scenario."""

    nodes: dict[str, tuple[frozenset[str], Mapping[str, Any]]] = field(default_factory=dict)
    """The labels and properties of vertices by their names."""
    relationships: list[Relationship] = field(default_factory=list)

    def records(self) -> list[dict[str, Any]]:
        """Return the records of nodes."""
        found = []
        for name, (labels, properties) in self.nodes.items():
            own = {key: value for key, value in properties.items() if key != "id"}
            found.append({"node": name, **({"labels": sorted(labels)} if labels else {}), **own})
        return found

    def columns(self) -> dict[str, list[Any]]:
        """Return the columns of the stream."""
        edges = self.relationships
        names = sorted({name for edge in edges for name in edge.properties})
        return {
            "source": [edge.source for edge in edges],
            "target": [edge.target for edge in edges],
            "label": [edge.label for edge in edges],
            "timestamp": [*range(1, len(edges) + 1)],
            **{name: [edge.properties.get(name) for edge in edges] for name in names},
        }


_TOKEN = re.compile(
    r"\s*(?:(?P<word>[A-Za-z_]\w*(?:\.\w+)?)|(?P<number>-?\d+(?:\.\d+)?)|(?P<text>'[^']*'|\"[^\"]*\")|"
    r"(?P<sign><-\[|\]->|\]-|-\[|-->|<--|[(){}:,+]))"
)


class _Creation:
    """The reader of CREATE, whose patterns may read the variables of a row."""

    def __init__(self, text: str, graph: Graph, row: Mapping[str, Any]) -> None:
        self._graph = graph
        self._row = row
        self._tokens: list[str] = []
        place = 0
        while place < len(text):
            found = _TOKEN.match(text, place)
            if found is None:
                raise OtherSetUpError(text)
            self._tokens.append(found[0].strip())
            place = found.end()
            while place < len(text) and text[place].isspace():
                place += 1
        self._place = 0
        self._names: dict[str, str] = {name: value for name, value in row.items() if value in graph.nodes}

    def read(self) -> None:
        while self._place < len(self._tokens):
            self._take("CREATE")
            self._path()
            while self._next() == ",":
                self._take(",")
                self._path()

    def _next(self) -> str:
        return self._tokens[self._place] if self._place < len(self._tokens) else ""

    def _take(self, *wanted: str) -> str:
        token = self._next()
        if wanted and token.upper() not in wanted:
            raise OtherSetUpError(token)
        self._place += 1
        return token

    def _path(self) -> None:
        here = self._node()
        while self._next() in ("-[", "<-["):
            is_left = self._take() == "<-["
            labels, properties = self._filler()[1:]
            self._take("]-" if is_left else "]->")
            there = self._node()
            source, target = (there, here) if is_left else (here, there)
            self._graph.relationships.append(Relationship(source, target, labels[0], properties))
            here = there

    def _node(self) -> str:
        self._take("(")
        name, labels, properties = self._filler()
        self._take(")")
        if name in self._names:
            return self._names[name]
        vertex = str(properties.get("id", f"node {len(self._graph.nodes)}"))
        if vertex in self._graph.nodes:
            raise OtherSetUpError("two nodes with one id")
        self._graph.nodes[vertex] = frozenset(labels), properties
        if name:
            self._names[name] = vertex
        return vertex

    def _filler(self) -> tuple[str, list[str], dict[str, Any]]:
        name = self._take() if re.match(r"\w", self._next()) else ""
        labels, properties = [], {}
        while self._next() == ":":
            self._take(":")
            labels.append(self._take())
        if self._next() == "{":
            self._take("{")
            while self._next() != "}":
                key = self._take()
                self._take(":")
                properties[key] = self._value()
                while self._next() == "+":
                    self._take("+")
                    properties[key] += self._value()
                if self._next() == ",":
                    self._take(",")
            self._take("}")
        return name, labels, properties

    def _value(self) -> Any:
        token = self._take()
        name, _, attribute = token.partition(".")
        if name not in self._row:
            return literal(token)
        return self._graph.nodes[self._row[name]][1][attribute] if attribute else self._row[name]


def literal(text: str) -> Any:
    """Return the value of a literal. Raises `OtherSetUpError` for another text."""
    if text[:1] in ("'", '"'):
        return text[1:-1]
    if text.lower() in ("true", "false", "null"):
        return {"true": True, "false": False, "null": None}[text.lower()]
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise OtherSetUpError(text) from None


def execute(text: str, graph: Graph) -> None:
    """Execute CREATE, perhaps behind MATCH, UNWIND and DELETE, on a graph. Raises `OtherSetUpError`."""
    text = re.sub(r"//[^\n]*", "", text).strip()
    reading, deleted, creating = re.fullmatch(r"(.*?)(?:DELETE (\w+)\s*)?((?:CREATE.*)?)", text, re.DOTALL).groups()
    rows: list[dict[str, Any]] = [{}]
    if reading:
        names = [*dict.fromkeys(re.findall(r"(?:[(\[]|AS )(\w+)", reading))]
        names = [name for name in names if not name.isdigit()]
        edges = [
            Edge(number, one.source, one.label, one.target, number, one.properties)
            for number, one in enumerate(graph.relationships, 1)
        ]
        try:
            oracle = MatchOracle(text=f"{reading} RETURN {', '.join(names)}", dialect="cypher", node_label=None)
        except rpq.QueryError:
            raise OtherSetUpError(text) from None
        found = oracle.rows(Snapshot(edges, graph.nodes)).elements()
        rows = [dict(zip(names, row, strict=True)) for row in found]
    gone = {row[deleted] - 1 for row in rows} if deleted else set()
    graph.relationships = [one for place, one in enumerate(graph.relationships) if place not in gone]
    for row in rows:
        _Creation(creating, graph, row).read()


def graph_of(scenario: Scenario) -> Graph:
    """Return the graph that a scenario creates. Raises `OtherSetUpError`."""
    graph = Graph()
    for text in scenario.set_up:
        execute(text, graph)
    return graph


# --- rows ------------------------------------------------------------------------------------------------------------


class Shown(NamedTuple):
    """A node, a relationship, a path, a list or a map, as tables show them."""

    kind: Literal["node", "relationship", "path", "list", "map"]
    parts: tuple[Any, ...]


_CELL = re.compile(r"\s*('(?:[^'\\]|\\.)*'|<-\[|\]->|\]-|-\[|[-+\w.]+|[\[\](){}:,<>])")


class _Cells:
    """The reader of a cell of a table."""

    def __init__(self, text: str) -> None:
        self._tokens = _CELL.findall(text)
        self._place = 0

    def _next(self) -> str:
        return self._tokens[self._place] if self._place < len(self._tokens) else ""

    def _take(self) -> str:
        self._place += 1
        return self._tokens[self._place - 1]

    def value(self) -> Any:
        token = self._next()
        if token == "(":
            return self._entity(")")
        if token == "[":
            return self._entity("]") if self._tokens[self._place + 1] == ":" else self._list()
        if token == "{":
            return Shown("map", self._map())
        return self._path() if token == "<" else literal(self._take())

    def _entity(self, *ends: str) -> Shown:
        """Read a node or a relationship from its opening bracket to its closing one."""
        is_node = self._take() == "("
        labels = []
        while self._next() == ":":
            self._take()
            labels.append(self._take())
        properties = self._map() if self._next() == "{" else ()
        if self._take() not in ends:
            raise OtherSetUpError(str(self._tokens))
        return Shown("node" if is_node else "relationship", (tuple(sorted(labels)), properties))

    def _map(self) -> tuple[tuple[str, Any], ...]:
        found = []
        self._take()
        while self._next() != "}":
            name, _ = self._take(), self._take()
            found.append((name, self.value()))
            if self._next() == ",":
                self._take()
        self._take()
        return tuple(sorted(found))

    def _list(self) -> Shown:
        found = []
        self._take()
        while self._next() != "]":
            found.append(self.value())
            if self._next() == ",":
                self._take()
        self._take()
        return Shown("list", tuple(found))

    def _path(self) -> Shown:
        self._take()
        parts: list[Any] = [self._entity(")")]
        while self._next() != ">":
            is_left = self._next() == "<-["
            parts += [is_left, self._entity("]-", "]->"), self._entity(")")]
        return Shown("path", tuple(parts))


def cell(text: str) -> Any:
    """Return the value of a cell of a table. Raises `OtherSetUpError` where it cannot be read.

    >>> cell("[1, 'a', null]"), cell("(:A:B {name: 'x'})")
    (Shown(kind='list', parts=(1, 'a', None)), Shown(kind='node', parts=(('A', 'B'), (('name', 'x'),))))
    """
    return _Cells(text).value()


def shown(graph: Graph, value: Any, like: Any) -> Any:
    """Return a value of an answer as a table shows it, of the kind that the table has there."""
    kind = None if value is None or not isinstance(like, Shown) else like.kind
    if kind == "list" and isinstance(value, str):  # beside values of other kinds in its column
        value = json.loads(value)
    if kind == "list" and isinstance(value, (list, tuple)):
        of = like.parts if len(like.parts) == len(value) else (*like.parts[:1],) * len(value) or (None,) * len(value)
        return Shown("list", tuple(shown(graph, one, other) for one, other in zip(value, of, strict=True)))
    if kind == "node" and value in graph.nodes:
        return _shown_node(graph, value)
    if kind == "relationship":
        edge = graph.relationships[int(value) - 1]  # a text in a list beside nodes
        return Shown("relationship", ((edge.label,), tuple(sorted(edge.properties.items()))))
    if kind == "path" and isinstance(value, str):
        return _shown_path(graph, value)
    return value


def _shown_node(graph: Graph, name: str) -> Shown:
    labels, properties = graph.nodes[name]
    known = ((key, value) for key, value in properties.items() if value is not None)
    return Shown("node", (tuple(sorted(labels)), tuple(sorted(known))))


def _shown_path(graph: Graph, text: str) -> Shown:
    """Return a path, whose text has the names of nodes and the labels of relationships."""
    here, *steps = re.split(r"(<?-\[[^]]*\]->?)", text)
    parts: list[Any] = [_shown_node(graph, here)]
    for step, there in zip(steps[::2], steps[1::2], strict=True):
        is_left, label = step.startswith("<"), step.strip("<->")[1:-1]
        ends = (there, here) if is_left else (here, there)
        edges = [one for one in graph.relationships if (one.source, one.target) == ends and one.label == label]
        parts += [is_left, Shown("relationship", ((label,), tuple(sorted(edges[0].properties.items()))))]
        parts.append(_shown_node(graph, there))
        here = there
    return Shown("path", tuple(parts))


def likes(column: list[Any]) -> Any:
    """Return a cell that shows what a column has."""
    found = [one for one in column if isinstance(one, Shown)]
    return max(found, key=lambda one: len(one.parts), default=None)


def answer(
    query: rpq.Query, graph: Graph, header: tuple[str, ...], expected: list[tuple[Any, ...]]
) -> Counter[tuple[Any, ...]]:
    """Return the answer of a query over the stream of a graph, as a table with a header shows it.

    The columns of `RETURN *` have the order of the table.
    """
    engine = rpq.Engine(query, edges="parallel")
    if graph.nodes:
        engine.push_nodes(graph.records())
    if graph.relationships:
        engine.push(pa.table(graph.columns()))
    else:
        engine.advance(1)
    engine._check()
    columns = query.columns
    order = [columns.index(name) for name in header] if {*header} == {*columns} else range(len(columns))
    found = [tuple(row[place] for place in order) for row in engine.answers()]
    kinds = [likes(column) for column in map(list, zip(*expected, strict=True))] or [None] * len(columns)
    return Counter(tuple(shown(graph, value, kind) for value, kind in zip(row, kinds, strict=True)) for row in found)


def is_same(
    found: Counter[tuple[Any, ...]], expected: Counter[tuple[Any, ...]], *, has_unordered_lists: bool = False
) -> bool:
    """Return whether two answers are equal; names of vertices are texts, and the id of a node may be a number."""

    def plain(value: Any) -> Any:
        if isinstance(value, Shown) and value.kind == "list" and has_unordered_lists:
            return sorted(map(repr, map(plain, value.parts)))
        if isinstance(value, tuple):
            return [*map(plain, value)]
        return repr(float(value)) if _is_number(value) else value

    def texts(rows: Counter[tuple[Any, ...]]) -> Counter[str]:
        return Counter(repr(plain(row)) for row in rows.elements())

    return texts(found) == texts(expected)


def _is_number(value: Any) -> bool:
    if isinstance(value, (bool, tuple)):
        return False
    return re.fullmatch(r"-?\d+(\.\d+)?", str(value)) is not None


def outcome(scenario: Scenario) -> tuple[Outcome, str]:
    """Return how a scenario ends, and why unless it passes."""
    try:
        parameters = {name: literal(value) for name, value in scenario.parameters}
        query = rpq.Query(
            scenario.query,
            window=rpq.UnboundedWindow(),
            language="cypher",
            node_label=None,
            **{"parameters": parameters} if parameters else {},
        )
    except rpq.QueryError as error:
        if scenario.error is not None:
            return "passes", ""
        return "refused", getattr(error, "message", str(error)).splitlines()[0]
    if scenario.error is not None:
        return "differs", f"{scenario.error} is expected"
    try:
        graph = graph_of(scenario)
        expected = [tuple(cell(one) for one in row) for row in scenario.rows[1:]]
        if ".id" in scenario.query and not any("id" in properties for _, properties in graph.nodes.values()):
            raise OtherSetUpError("every vertex has an id")
    except OtherSetUpError:
        return "other set-up", ""
    try:
        found = answer(query, graph, scenario.rows[0], expected)
    except rpq.QueryError as error:
        return "refused", str(error).splitlines()[0]
    except rpq.InputError:  # a property with values of several types
        return "other set-up", ""
    if is_same(found, Counter(expected), has_unordered_lists=scenario.has_unordered_lists):
        return "passes", ""
    return "differs", f"{dict(found)} in place of {expected}"


REASONS = {
    "a quantified path": "a quantified path that counts",
    "path variable": "path variables",
    "parameters": "parameters",
    "a path has at least one edge": "paths of length zero",
    " is empty": "quantifiers that nothing satisfies",
    "in RETURN is refused": "computed values in RETURN",
    "lists and maps": "lists and maps",
    "a path as a condition": "a path as a condition",
    "is bound by an earlier OPTIONAL MATCH": "OPTIONAL MATCH of what an earlier one binds",
    "as the first clause": "OPTIONAL MATCH as the first clause",
    "inside a condition is refused": "EXISTS below OR",
    "is inside a path": "a variable inside a path",
    "different edges": "different edges beside a quantified path",
    "is an edge, whose labels": "labels of edges as conditions",
    "is an edge here, and an edge already": "an edge that an earlier clause binds",
    "a map is refused": "maps",
    "is a path here": "a path as a value of an expression",
    "unknown function": "other functions",
    "WITH in EXISTS": "WITH in EXISTS",
    "of a computed value": "aggregates of computed values",
    "two columns": "two columns of one name",
    "unexpected 'RETURN'": "RETURN without MATCH",
    "an edge has one label": "an edge has one label",
}
"""Parts of messages, and what is refused then."""


def reason(message: str) -> str:
    """Return what is refused, by the message."""
    for part, name in REASONS.items():
        if part in message:
            return name
    found = re.match(r"(\S+(?: \S+)?) is refused: ", message)
    if found is None:
        raise ValueError(f"nothing is named: {message}")
    return found[1]


def listing() -> str:
    """Return the text of the list."""
    ends: dict[str, dict[str, list[str]]] = {}
    for scenario in scenarios():
        how, why = outcome(scenario)
        if how == "passes" and scenario.error is not None:
            how, why = "errors", scenario.error
        group = reason(why) if how == "refused" else why if how in ("differs", "errors") else scenario.name.split("/")[0]
        ends.setdefault(how, {}).setdefault(group, []).append(scenario.name)
    titles = {
        "passes": "With the expected rows",
        "errors": "Refused where an error is expected",
        "refused": "Refused by name, with a hint at what to write",
        "differs": "With other rows",
        "other set-up": "Not run: the set-up is more than MATCH, UNWIND, DELETE and CREATE, two nodes have the same id, a "
        "property is a list or has values of several types, or the id of a node without one is read",
    }
    lines = [
        "# The technology compatibility kit of openCypher",
        "",
        f"The features of MATCH, RETURN, aggregates and EXISTS in org.opencypher:tck {VERSION}, evaluated over streams with",
        '`language="cypher"`. `python -m tests.language.opencypher_tck` writes this list; its docstring says how a graph',
        "becomes a stream. A scenario has the name of its feature and a number; an example of an outline has a second",
        "number.",
        "",
        "| result | scenarios |",
        "|---|---|",
        *(f"| {title} | {sum(map(len, ends[how].values()))} |" for how, title in titles.items() if how in ends),
    ]
    for how, title in titles.items():
        if how in ends:
            lines += ["", f"## {title}", ""]
            lines += [f"- {group} ({len(names)}): {', '.join(names)}" for group, names in sorted(ends[how].items())]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    LIST.write_text(listing(), encoding="utf-8")
