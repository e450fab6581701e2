"""The names in a MATCH text, and the values that conditions and items read by them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NoReturn

from rpq.errors import WhereError, did_you_mean
from rpq.language.conditions import NODE_COLUMNS, TUPLE_COLUMNS, condition_text
from rpq.language.edge_variables import BindingFilter, Value, filter_of
from rpq.language.match.condition_trees import condition_nodes, rename
from rpq.language.match.syntax import match_error
from rpq.language.match.tree import LABELS_OF, Dialect, Direction
from rpq.language.pattern import Constant
from rpq.language.where import Name, Node, parse_where

ColumnSource = Literal[
    "vertex",
    "number",
    "timestamp",
    "property",
    "fact",
    "label",
    "source",
    "target",
    "edge",
    "exists",
    "count",
    "sum",
    "avg",
    "ends",
    "computed",
]
"""The content of a column: a vertex, a value of it or of an edge, an aggregate, or a computed value; "ends" is a least or
greatest value."""


@dataclass(frozen=True)
class ResultColumn:
    """The content of a column of RETURN, or of a name behind WITH: its kind, and the value that it is derived from."""

    name: str
    source: ColumnSource
    value: Value | None = None
    tree: Any = None
    """The computed value, whose names are those of `inputs`."""
    inputs: tuple[ResultColumn, ...] = ()
    dialect: Dialect = "cypher"


@dataclass(frozen=True)
class NameBinding:
    """The meaning of a name.

    It is a vertex or an edge; a computed "value", with its column; a "path" of fixed length, whose `elements` are the names
    of its nodes and edges in turn; a "list" of nodes or of edges with names; the "shortest" path, whose element is the name
    of its length; or "inner", something inside a quantified path.
    """

    kind: Literal["vertex", "edge", "value", "path", "list", "shortest", "inner"]
    internal: str
    constant: Constant | None = None
    column: ResultColumn | None = None
    elements: tuple[str, ...] = ()
    directions: tuple[Direction, ...] = ()
    """The directions of the edges of a path."""
    may_be_null: bool = False


class Scope:
    """The names that can be used at a place, by their kinds."""

    def __init__(self, outer: Scope | None = None) -> None:
        self._outer = outer
        self.own: dict[str, NameBinding] = {}
        self.node_values: dict[tuple[str, str], None] = {}
        """The properties of its nodes that are read, with the internal names of the nodes."""
        self.guarded: dict[str, None] = {}
        """The internal names that may be null, of nodes that a body of EXISTS requires."""

    def has(self, internal: str) -> bool:
        """Return whether an internal name is that of one of its own names."""
        return any(binding.internal == internal for binding in self.own.values())

    def read_value(self, internal: str, property: str) -> None:
        """Add a property of a node to those that are read where the node is bound."""
        scope = self
        while scope._outer is not None and not scope.has(internal):
            scope = scope._outer
        scope.node_values[internal, property] = None

    def require(self, internal: str) -> None:
        """Add a name to those that a body of EXISTS requires to be bound."""
        scope = self
        while scope._outer is not None and not scope.has(internal):
            scope = scope._outer
        scope.guarded[internal] = None

    def get(self, name: str) -> NameBinding | None:
        """Return what a name stands for, None if it is unknown."""
        found = self.own.get(name)
        return self._outer.get(name) if found is None and self._outer is not None else found

    def names(self) -> list[str]:
        """Return all names."""
        own = [name for name in self.own if "#" not in name]
        return [*own, *(self._outer.names() if self._outer is not None else ())]


@dataclass(frozen=True)
class ValueReader:
    """The reader of values of nodes and edges in a text. A value that is refused raises a `MatchError` with its place."""

    text: str

    def _fail(self, at: int, message: str) -> NoReturn:
        raise match_error(self.text, at, message)

    def value(self, scope: Scope, name: Name) -> Value:
        """Return the value that a name in a condition or in RETURN stands for."""
        variable, dot, attribute = name.name.partition(".")
        at, binding = name.column - 1, scope.get(variable)
        if binding is None:
            names = scope.names()
            hint = did_you_mean(variable, names) or (f"; there are {', '.join(names)}" if names else "")
            self._fail(at, f"there is no variable {variable}{hint}")
        if binding.kind == "shortest":
            self._fail(at, f"{variable} is one of several shortest paths: read length({variable}) alone")
        if binding.kind == "path":
            self._fail(
                at, f"{variable} is a path here: read nodes({variable}), relationships({variable}) or length({variable})"
            )
        if binding.kind == "list":
            advice = f"read its elements, as in [x IN {variable} | x.p]"
            self._fail(at, f"{variable} is a list of edges or nodes here: {advice}")
        if binding.kind == "inner":
            self._fail(
                at,
                f"{variable} is inside a path of which only the ends are returned (a quantified one, or one behind ANY): "
                "read it in the WHERE inside its own brackets, or write the path edge by edge",
            )
        if binding.kind == "value":
            return Value("fact", binding.internal, attribute)
        if binding.kind == "vertex":
            if not dot or attribute == "id":
                return Value("vertex", binding.internal)
            if attribute == LABELS_OF:
                return Value("fact", binding.internal, "labels")
            self.check_node_property(attribute, at)
            return Value("fact", binding.internal, attribute)
        if not dot:
            return Value("number", binding.internal)
        if attribute == LABELS_OF:
            self._fail(at, f"labels({variable}) is refused: {variable} is an edge, and labels has those of a node")
        if attribute == "timestamp":
            return Value("timestamp", binding.internal)
        if attribute in TUPLE_COLUMNS:
            self._fail(at, f"{attribute!r} is no property of an edge; there are {variable}.timestamp and its properties")
        return Value("property", binding.internal, attribute)

    def filter(self, scope: Scope, condition: Node) -> BindingFilter:
        """Return a condition in the language of filters as a filter over the bindings of a block."""
        names = [node for node in condition_nodes(condition) if isinstance(node, Name)]
        values = {node: self.value(scope, node) for node in names}
        tree = rename(condition, {node: value.column for node, value in values.items()})
        try:
            text = condition_text(tree)
            return filter_of(parse_where(text), {value.column: value for value in values.values()})
        except WhereError as error:
            self._fail(condition.column - 1, error.message.replace("?", ""))

    def check_node_property(self, attribute: str, at: int) -> None:
        """Raise `MatchError` for a name that no property of a node has."""
        if attribute in NODE_COLUMNS or attribute.startswith(":"):
            self._fail(
                at,
                f"{attribute!r} is no property of a node; there are the properties of its records, and id, its name: the "
                "other columns of records have these names",
            )
