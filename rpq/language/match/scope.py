"""The names in a MATCH text, and the values that conditions and items read by them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NoReturn

from rpq.errors import WhereError, did_you_mean
from rpq.language.conditions import NODE_COLUMNS, TUPLE_COLUMNS, condition_text
from rpq.language.edge_variables import BindingFilter, Value, filter_of
from rpq.language.match.condition_trees import condition_nodes, rename
from rpq.language.match.syntax import LABELS_OF, AggregateCall, MatchExists, match_error
from rpq.language.pattern import Constant
from rpq.language.where import Name, Node, parse_where


@dataclass(frozen=True)
class NameBinding:
    """The meaning of a name: a vertex, an edge, or something inside a quantified path."""

    kind: Literal["vertex", "edge", "inner"]
    internal: str
    constant: Constant | None = None


class Scope:
    """The names that can be used at a place, by their kinds."""

    def __init__(self, outer: Scope | None = None) -> None:
        self._outer = outer
        self.own: dict[str, NameBinding] = {}
        self.node_values: dict[tuple[str, str], None] = {}
        """The properties of its nodes that are read, with the internal names of the nodes."""

    def has(self, internal: str) -> bool:
        """Return whether an internal name is that of one of its own names."""
        return any(binding.internal == internal for binding in self.own.values())

    def read_value(self, internal: str, property: str) -> None:
        """Add a property of a node to those that are read where the node is bound."""
        scope = self
        while scope._outer is not None and not scope.has(internal):
            scope = scope._outer
        scope.node_values[internal, property] = None

    def get(self, name: str) -> NameBinding | None:
        """Return what a name stands for, None if it is unknown."""
        found = self.own.get(name)
        return self._outer.get(name) if found is None and self._outer is not None else found

    def names(self) -> list[str]:
        """Return all names."""
        return [*self.own, *(self._outer.names() if self._outer is not None else ())]


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
        if binding.kind == "inner":
            self._fail(
                at,
                f"{variable} is inside a path of which only the ends are returned (a quantified one, or one behind ANY): "
                "read it in the WHERE inside its own brackets, or write the path edge by edge",
            )
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
        """Return a condition as a filter over the bindings of a block."""
        value_of_name: dict[str, Value] = {}
        for node in condition_nodes(condition):
            if isinstance(node, (MatchExists, AggregateCall)):
                what = f"the aggregate {node.function}" if isinstance(node, AggregateCall) else "EXISTS"
                if isinstance(node, MatchExists) and node.node is not None:
                    what = "a label of a node"
                advice = (
                    "write it as a condition of its own, joined by AND, or by OR with others of its kind; NOT stands "
                    "before all of it"
                    if isinstance(node, MatchExists)
                    else "aggregates stand in RETURN; filter rows of groups after collecting them"
                )
                self._fail(node.column - 1, f"{what} inside a condition is refused: {advice}")
            if isinstance(node, Name):
                value = self.value(scope, node)
                if node.name.endswith(f".{LABELS_OF}"):
                    variable = node.name.partition(".")[0]
                    advice = f"write {variable}:A AND {variable}:B"
                    self._fail(node.column - 1, f"labels({variable}) in a condition is refused: {advice}")
                value_of_name[value.column] = value
        names = (node for node in condition_nodes(condition) if isinstance(node, Name))
        tree = rename(condition, {node: self.value(scope, node).column for node in names})
        try:
            text = condition_text(tree)
            return filter_of(parse_where(text), value_of_name)
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
