"""The syntax tree of a MATCH text.

Values and conditions are trees of `rpq.language.where`, whose names are variables (`a`) and properties (`e.amount`), with
the nodes below, which filters of edges do not have. Every part has its place: `at` is an offset in the text, and `column` an
offset plus one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, Literal, NamedTuple

from rpq.language.where import Name, Node, WhereConstant

Dialect = Literal["gql", "cypher"]

LABELS_OF = "labels()"
"""The name of the labels of a node among its properties, which stands for the call of `labels`."""

AGGREGATES = ("count", "sum", "avg", "min", "max", "collect")

GRAPH_FUNCTIONS = ("id", "elementid", "type", "startnode", "endnode", "nodes", "relationships", "edges", "path_length")
"""Functions of nodes, edges and paths, which have one argument."""

# --- the tree ------------------------------------------------------------------------------------------------------


class LabelTree(NamedTuple):
    """A label expression: a name, `%`, or an operator (`!`, `&`, `|`) over others."""

    operator: Literal["name", "%", "!", "&", "|"]
    name: str = ""
    parts: tuple[LabelTree, ...] = ()


class Property(NamedTuple):
    """A property and its value in `{amount: 1}`."""

    name: str
    value: Any
    at: int

    @property
    def is_constant(self) -> bool:
        """True if the value is written, so that the entry reads the node or the edge alone."""
        return isinstance(self.value, WhereConstant)


@dataclass(frozen=True)
class NodePattern:
    """A node: `(a:Label {id: 'x'} WHERE …)`."""

    variable: str | None
    label: LabelTree | None
    properties: tuple[Property, ...]
    where: Node | None
    at: int
    same: tuple[NodePattern, ...] = ()
    """Other nodes that stand for the same vertex: those around a path without edges."""

    @property
    def is_bare(self) -> bool:
        """True if the node has no labels and no conditions."""
        return self.label is None and not self.properties and self.where is None and not self.same


class Quantifier(NamedTuple):
    """The number of repetitions of an edge or a path, at least `least`; without an upper bound, `most` is None."""

    least: int
    most: int | None
    text: str
    at: int
    is_cypher: bool = False
    """True if it is written as in Cypher, `*1..3`."""


Direction = Literal["right", "left", "either"]


@dataclass(frozen=True)
class EdgePattern:
    """An edge: `-[e:LABEL WHERE …]->{1,3}`."""

    variable: str | None
    label: LabelTree | None
    properties: tuple[Property, ...]
    where: Node | None
    direction: Direction
    quantifier: Quantifier | None
    at: int


@dataclass(frozen=True)
class QuantifiedGroup:
    """A quantified path in parentheses: `((x)-[:a]->(y)){1,3}`."""

    elements: tuple[Element, ...]
    where: Node | None
    quantifier: Quantifier
    at: int


Element = NodePattern | EdgePattern | QuantifiedGroup
PathMode = Literal["WALK", "TRAIL", "ACYCLIC", "SIMPLE"]


@dataclass(frozen=True)
class PathPattern:
    """A path of a clause, with the words before it."""

    is_any: bool
    mode: PathMode | None
    elements: tuple[Element, ...]
    at: int
    variable: str | None = None
    """The name of the path, as in `p = (a)-->(b)`."""
    is_shortest: bool = False
    """True for shortestPath(…) and ANY SHORTEST."""
    is_function: bool = False
    """True for shortestPath(…), whose conditions choose among the paths, not behind them."""


@dataclass(frozen=True)
class GraphPattern:
    """The paths and the condition of a clause, or of an EXISTS."""

    different_edges: bool | None
    """True if the edges of a solution must differ; None if the text does not specify it."""
    paths: tuple[PathPattern, ...]
    where: Node | None
    at: int


@dataclass(frozen=True)
class Clause:
    """MATCH or OPTIONAL MATCH."""

    is_optional: bool
    pattern: GraphPattern
    at: int


@dataclass(frozen=True)
class Unwind:
    """UNWIND: a row for each element of a list."""

    value: Any
    name: str
    at: int


@dataclass(frozen=True)
class SortItem:
    """A value of ORDER BY."""

    value: Any
    is_descending: bool


@dataclass(frozen=True)
class Item:
    """A column of WITH or RETURN. `text` is how its value is written."""

    value: Any
    name: str | None
    text: str
    at: int


@dataclass(frozen=True)
class Projection:
    """WITH or RETURN: its items, and which of the rows it passes on, in which order."""

    items: tuple[Item, ...]
    has_all: bool
    """True for `*`, which precedes the items."""
    is_distinct: bool
    order: tuple[SortItem, ...]
    skip: Any
    limit: Any
    where: Any
    """The condition behind WITH."""
    at: int


@dataclass(frozen=True)
class QueryPart:
    """Clauses up to a WITH, or up to RETURN."""

    clauses: tuple[Clause | Unwind, ...]
    projection: Projection


@dataclass(frozen=True)
class SingleQuery:
    """The parts of a text between UNIONs; the last one ends with RETURN."""

    parts: tuple[QueryPart, ...]
    at: int


@dataclass(frozen=True)
class MatchText:
    """A whole text: one query, or the UNION of several."""

    text: str
    queries: tuple[SingleQuery, ...]
    is_union_all: bool


# --- values that filters of edges do not have ----------------------------------------------------------------------


@dataclass(frozen=True)
class _Value:
    column: int = field(kw_only=True)


@dataclass(frozen=True)
class Null(_Value):
    """The constant null."""


@dataclass(frozen=True)
class Parameter(_Value):
    """A parameter, `$name`, and the keys behind it, as in `$event.data['id']`."""

    name: str
    keys: tuple[str | int, ...] = ()


@dataclass(frozen=True)
class ListOf(_Value):
    """A list of values, `[1, x]`."""

    values: tuple[Any, ...]


@dataclass(frozen=True)
class MapOf(_Value):
    """A map, `{days: 3}`, which stands as the argument of `duration`, `datetime` and `date` alone."""

    names: tuple[str, ...]
    values: tuple[Any, ...]


@dataclass(frozen=True)
class Attribute(_Value):
    """A property of a computed value, as in `nodes(p)[0].risk`; a property of a variable is a `Name`."""

    inner: Any
    name: str


@dataclass(frozen=True)
class Index(_Value):
    """An element of a list, counted from 0, or from the end with negative numbers."""

    inner: Any
    index: Any


@dataclass(frozen=True)
class ListSlice(_Value):
    """The elements of a list from one place up to, but without, another; None is the end."""

    inner: Any
    low: Any
    high: Any


@dataclass(frozen=True)
class InList(_Value):
    """A test for membership in a computed list; `In` has the members as they are written."""

    inner: Any
    source: Any


@dataclass(frozen=True)
class Case(_Value):
    """CASE: the value behind the first condition that holds, or, with a subject, the first value that equals it.

    `conditions[i]` belongs to `values[i]`; without an ELSE, `otherwise` is None.
    """

    subject: Any
    conditions: tuple[Any, ...]
    values: tuple[Any, ...]
    otherwise: Any


@dataclass(frozen=True)
class Comprehension(_Value):
    """`[x IN source WHERE where | value]`; without `value` it has the elements themselves."""

    variable: str
    source: Any
    where: Any
    value: Any


@dataclass(frozen=True)
class QuantifiedList(_Value):
    """`all(x IN source WHERE where)`, and any, none, single."""

    quantifier: Literal["all", "any", "none", "single"]
    variable: str
    source: Any
    where: Any


@dataclass(frozen=True)
class Reduce(_Value):
    """`reduce(accumulator = initial, variable IN source | value)`."""

    accumulator: str
    initial: Any
    variable: str
    source: Any
    value: Any


@dataclass(frozen=True)
class MatchExists:
    """A condition: whether a pattern has a match."""

    pattern: GraphPattern
    column: int
    node: Name | None = None
    """The node whose labels the condition tests, as in `a:Account`; None for a pattern in braces."""
    returned_values: tuple[Any, ...] = ()
    """The items after RETURN. They have no effect, but may name only variables in scope."""


@dataclass(frozen=True)
class CountOf(_Value):
    """`COUNT { … }`: the number of matches of a pattern."""

    pattern: GraphPattern


@dataclass(frozen=True)
class AggregateCall:
    """An aggregate; without an argument it counts rows."""

    function: str
    argument: Any
    is_distinct: bool
    column: int


# --- walking and changing trees ------------------------------------------------------------------------------------


def parts_of(tree: Any) -> tuple[Any, ...]:
    """Return the direct parts of a node of a tree: its fields, without numbers, texts and missing ones."""
    if isinstance(tree, tuple):
        return tree
    if is_dataclass(tree):
        return tuple(part for one in fields(tree) if (part := getattr(tree, one.name)) is not None)
    return ()


def walk(tree: Any) -> Iterator[Any]:
    """Yield a node of a tree and all nodes below it, also those in EXISTS. O(size).

    >>> [node.name for node in walk(Index(Name("xs", column=1), Name("i", column=4), column=1)) if isinstance(node, Name)]
    ['xs', 'i']
    """
    yield tree
    for part in parts_of(tree):
        yield from walk(part)


def change(tree: Any, of: Callable[[Any], Any]) -> Any:
    """Return a tree in which each node is what a function makes of it, from the leaves to the root. O(size)."""
    if isinstance(tree, tuple):
        parts = [change(part, of) for part in tree]
        return of(type(tree)(*parts) if hasattr(tree, "_fields") else tuple(parts))
    if not is_dataclass(tree):
        return of(tree)
    found = {one.name: getattr(tree, one.name) for one in fields(tree)}
    changed = {name: change(part, of) for name, part in found.items() if isinstance(part, tuple) or is_dataclass(part)}
    if any(changed[name] is not found[name] for name in changed):
        tree = replace(tree, **changed)  # type: ignore[type-var]
    return of(tree)
