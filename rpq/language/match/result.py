"""RETURN: the columns of the rows of a MATCH text, groups and aggregates."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NoReturn

from rpq.language.edge_variables import Value
from rpq.language.match.node_facts import column_of_labels
from rpq.language.match.scope import Scope, ValueReader
from rpq.language.match.syntax import AggregateCall, Dialect, Item, MatchText, match_error
from rpq.language.pattern import Constant, Variable
from rpq.language.sparql import algebra
from rpq.language.sparql.algebra import (
    Aggregate,
    AggregateName,
    Distinct,
    EdgeValue,
    Extend,
    Formula,
    FunctionCall,
    Operator,
    Project,
)
from rpq.language.sparql.values.typed_values import integer_term
from rpq.language.where import Name

_RESERVED = ("query", "timestamp", "op")

ColumnSource = Literal["vertex", "number", "timestamp", "property", "fact", "count", "sum", "avg", "ends"]
"""The content of a column: a vertex, a value of it or of an edge, or an aggregate; "ends" is a least or greatest value."""


@dataclass(frozen=True)
class ReturnColumn:
    """A column of RETURN: its name, the kind of its content, and the value that it is derived from."""

    name: str
    source: ColumnSource
    value: Value | None

    @property
    def is_aggregate(self) -> bool:
        """True if the column has values of groups."""
        return self.source in ("count", "sum", "avg", "ends")


@dataclass(frozen=True)
class MatchResult:
    """The rows of a text: the operator whose bag they are, its columns, and the properties of edges that these read."""

    body: Operator
    columns: tuple[ReturnColumn, ...]
    variables: tuple[str, ...]
    """The variables of the operator whose values are the columns."""
    properties: frozenset[str]


def result_of(
    tree: MatchText, inner: Operator, scope: Scope, *, dialect: Dialect, values: ValueReader, has_labels_by_edges: bool
) -> MatchResult:
    """Return the rows that RETURN derives from the bindings of an operator. Raises `MatchError`. O(items · size).

    With `has_labels_by_edges` the operator binds, beside the labels of records, those of edges (`labels_by_edges`).
    """
    return _Items(tree, dialect, values, has_labels_by_edges).result(inner, scope)


@dataclass
class _Items:
    """The items of one RETURN."""

    _tree: MatchText
    _dialect: Dialect
    _values: ValueReader
    _has_labels_by_edges: bool
    _properties: set[str] = field(default_factory=set)

    def _fail(self, at: int, message: str) -> NoReturn:
        raise match_error(self._tree.text, at, message)

    def result(self, inner: Operator, scope: Scope) -> MatchResult:
        """Return the rows of all items."""
        items = self._tree.items
        columns: list[ReturnColumn] = []
        internals: list[str] = []
        keys: list[str] = []
        aggregates: dict[str, Aggregate] = {}
        finals: list[tuple[str, Formula]] = []
        is_grouped = any(isinstance(item.value, AggregateCall) for item in items)
        for number, item in enumerate(items):
            name = item.name or item.text
            if name in _RESERVED:
                self._fail(item.at, f"all rows have a column called {name}: write AS and another name behind it")
            if name in [one.name for one in columns]:
                self._fail(item.at, f"two columns are called {name}: write AS and another name behind one of them")
            if isinstance(item.value, AggregateCall):
                inner, column = self._add_aggregate(inner, scope, item.value, name, f".column {number}", aggregates, finals)
                columns.append(column)
                internals.append(f".column {number}")
                continue
            value = self._item_value(scope, item)
            inner, internal = self._extend(inner, value)
            if internal in internals:
                inner, internal = Extend(inner, f".column {number}", Variable(internal)), f".column {number}"
            columns.append(ReturnColumn(name, value.kind, value))
            internals.append(internal)
            keys.append(internal)
        if is_grouped:
            inner = algebra.Group(inner, tuple(keys), tuple(aggregates.items()))
            for internal, formula in finals:
                inner = Extend(inner, internal, formula)
        body: Operator = Project(inner, tuple(internals))
        if self._tree.is_distinct:
            body = Distinct(body)
        return MatchResult(body, tuple(columns), tuple(internals), frozenset(self._properties))

    def _item_value(self, scope: Scope, item: Item) -> Value:
        if not isinstance(item.value, Name):
            self._fail(
                item.at,
                f"{item.text} in RETURN is refused: return variables, properties and aggregates of them, and "
                "compute with the rows",
            )
        return self._values.value(scope, item.value)

    def _extend(
        self, inner: Operator, value: Value, *, is_summed: bool = False, is_number: bool = False
    ) -> tuple[Operator, str]:
        """Return an operator with a value as a column, and the name of the column."""
        if value.kind == "vertex":
            return inner, value.variable
        if value.kind == "property":
            self._properties.add(value.name)
        # A property may be called number.
        what = f"{value.name} of" if value.name else f"{value.kind} of the edge"
        name = f".{what} {value.variable}{' as a number' if is_number else ' in an aggregate' if is_summed else ''}"
        if name not in algebra.possible_variables(inner):
            by_edges = column_of_labels(value.variable) if value.is_list and self._has_labels_by_edges else None
            inner = Extend(inner, name, EdgeValue(value, is_summed, is_number, by_edges))
        return inner, name

    def _add_aggregate(
        self,
        inner: Operator,
        scope: Scope,
        item: AggregateCall,
        name: str,
        internal: str,
        aggregates: dict[str, Aggregate],
        finals: list[tuple[str, Formula]],
    ) -> tuple[Operator, ReturnColumn]:
        """Return the operator below the group with the argument of an aggregate, and the column of the aggregate."""
        if item.argument is None:
            aggregates[internal] = Aggregate("COUNT", None, False)
            return inner, ReturnColumn(name, "count", None)
        if not isinstance(item.argument, Name):
            self._fail(
                item.column - 1,
                f"{item.function} of a computed value is refused: it takes a variable, or a property of a node or an edge",
            )
        value = self._values.value(scope, item.argument)
        if value.is_list and item.function != "count":
            self._fail(item.column - 1, f"{item.function} of labels is refused: count them, or return a property")
        if value.kind == "number" and item.function != "count":
            self._fail(item.column - 1, f"{item.function} of an edge is refused: take one of its properties")
        if value.kind == "timestamp" and item.function in ("sum", "avg"):
            self._fail(
                item.column - 1,
                f"{item.function} of timestamps is refused: take min or max of them, or {item.function} of a property",
            )
        is_number = item.function in ("sum", "avg")
        inner, column = self._extend(inner, value, is_summed=item.function != "count", is_number=is_number)
        argument = Variable(column)
        if item.function == "count":
            aggregates[internal] = Aggregate("COUNT", argument, item.is_distinct)
            return inner, ReturnColumn(name, "count", value)
        if item.function in ("min", "max"):
            function: AggregateName = "MIN" if item.function == "min" else "MAX"
            aggregates[internal] = Aggregate(function, argument, item.is_distinct, skips_unbound=True)
            return inner, ReturnColumn(name, "ends", value)
        is_sum = item.function == "sum"
        total = Aggregate("SUM" if is_sum else "AVG", argument, item.is_distinct, skips_unbound=True)
        if is_sum and self._dialect == "cypher":
            aggregates[internal] = total
            return inner, ReturnColumn(name, "sum", value)
        # SPARQL's sum and average of no values are 0.
        whole, count, nothing = (f"{internal} {part}" for part in ("total", "count", "nothing"))
        aggregates[whole], aggregates[count] = total, Aggregate("COUNT", argument, item.is_distinct)
        is_some = FunctionCall(">", (Variable(count), Constant(integer_term(0))))
        finals.append((internal, FunctionCall("IF", (is_some, Variable(whole), Variable(nothing)))))
        return inner, ReturnColumn(name, "sum" if is_sum else "avg", value)
