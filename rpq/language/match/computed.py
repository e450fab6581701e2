"""Computed values in MATCH: columns of the algebra for what a value reads, and the formula over these columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, Self

from rpq.language.edge_variables import Value
from rpq.language.match.block import guard_of
from rpq.language.match.condition_trees import condition_nodes
from rpq.language.match.expansion import expand, substitute
from rpq.language.match.node_facts import column_of_labels
from rpq.language.match.scope import NameBinding, ResultColumn, Scope, ValueReader
from rpq.language.match.syntax import match_error
from rpq.language.match.tree import (
    Attribute,
    Case,
    Comprehension,
    CountOf,
    Dialect,
    Index,
    ListOf,
    ListSlice,
    MapOf,
    MatchExists,
    Null,
    QuantifiedList,
    Reduce,
    parts_of,
    walk,
)
from rpq.language.match.values.computation import Computation, Encoding, InputKind
from rpq.language.match.values.times import DURATION_PARTS, MAP_NAMES, TIME_PARTS
from rpq.language.pattern import Variable
from rpq.language.sparql import algebra
from rpq.language.sparql.algebra import EdgeValue, Exists, Extend, Filter, Formula, FunctionCall, Operator
from rpq.language.where import Arithmetic, Call, IsNull, Name


@dataclass
class ComputedValues:
    """The columns and formulas of the values in one text. `properties` and `selected` are the values of edges they read.

    `exists` returns the body of an EXISTS in a scope. `count` returns rows with a column for a `COUNT { … }`, and its name.
    """

    reader: ValueReader
    dialect: Dialect
    has_labels_by_edges: bool
    exists: Callable[[Scope, MatchExists], Operator]
    count: Callable[[Operator, Scope, CountOf], tuple[Operator, str]]
    new_column: Callable[[], str]
    properties: set[str] = field(default_factory=set)
    selected: dict[Value, None] = field(default_factory=dict)
    place: str = ""
    """What distinguishes the columns in the body of an EXISTS from those around it."""

    def _fail(self, at: int, message: str) -> NoReturn:
        raise match_error(self.reader.text, at, message)

    # --- what a value reads ----------------------------------------------------------------------------------------

    def values_read(self, scope: Scope, tree: Any) -> list[Value]:
        """Return the values of nodes and edges that a value reads, outside of EXISTS and COUNT."""
        found = []
        for name in free_names(expand(tree, scope.get)):
            binding = self._binding(scope, name)
            if binding.kind in ("vertex", "edge"):
                found.append(self.reader.value(scope, name))
            elif binding.kind == "value" and "." in name.name and not _is_time_part(name):
                found.append(Value("fact", binding.internal, name.name.partition(".")[2]))
        return found

    def _binding(self, scope: Scope, name: Name) -> NameBinding:
        binding = scope.get(name.name.partition(".")[0])
        if binding is None or binding.kind in ("inner", "path", "list", "shortest"):
            self.reader.value(scope, name)  # it says what is wrong
        assert binding is not None
        return binding

    def extend(
        self, inner: Operator, value: Value, *, is_summed: bool = False, is_number: bool = False, is_typed: bool = False
    ) -> tuple[Operator, str]:
        """Return an operator with a value of a node or an edge as a column, and the name of the column."""
        if value.kind == "vertex":
            return inner, value.variable
        if value.kind == "property":
            self.properties.add(value.name)
        self.selected[value] = None
        # A property may be called number.
        what = f"{value.name} of" if value.name else f"{value.kind} of the edge"
        use = " as a number" if is_number else " in an aggregate" if is_summed else " with its type" if is_typed else ""
        name = f".{what} {value.variable}{use}{self.place}"
        if name not in algebra.possible_variables(inner):
            by_edges = column_of_labels(value.variable) if value.is_list and self.has_labels_by_edges else None
            inner = Extend(inner, name, EdgeValue(value, is_summed, is_number, by_edges, is_typed=is_typed))
        return inner, name

    # --- formulas --------------------------------------------------------------------------------------------------

    def filter(self, inner: Operator, scope: Scope, condition: Any) -> Operator:
        """Return the rows for which a condition holds."""
        found, formula, _ = self.formula(inner, scope, condition, encoding="truth")
        return Filter(found, formula)

    def column(self, inner: Operator, scope: Scope, tree: Any) -> tuple[Operator, str, ResultColumn]:
        """Return an operator with a computed value as a column, the name of this column, and what it has."""
        found, formula, column = self.formula(inner, scope, tree, encoding="column")
        name = self.new_column()
        return Extend(found, name, formula), name, column

    def formula(
        self, inner: Operator, scope: Scope, tree: Any, *, encoding: Encoding = "value", order: Sequence[Any] = ()
    ) -> tuple[Operator, Formula, ResultColumn]:
        """Return an operator with the columns that a value reads, the formula of the value, and what a column of it has."""
        whole, inputs = self._with_inputs(expand((tree, *order), scope.get), scope)
        arguments: list[Formula] = []
        kinds: list[tuple[str, InputKind]] = []
        columns: list[ResultColumn] = []
        for name, source in inputs.items():
            inner, argument, kind, column = self._input(inner, scope, source)
            arguments.append(argument)
            kinds.append((name, kind))
            columns.append(replace(column, name=name))
        computation = Computation(whole[0], tuple(kinds), self.dialect, encoding, tuple(whole[1:]))
        return (
            inner,
            FunctionCall(computation, tuple(arguments)),
            ResultColumn("", "computed", None, whole[0], (*columns,), self.dialect),
        )

    def condition_across(
        self, left: Operator, right: Operator, scope: Scope, condition: Any
    ) -> tuple[Operator, Operator, Formula]:
        """Return both sides of a left join with the columns that its condition reads, and the condition."""
        (whole,), inputs = self._with_inputs(expand((condition,), scope.get), scope)
        sides = [left, right]
        arguments: list[Formula] = []
        kinds: list[tuple[str, InputKind]] = []
        for name, source in inputs.items():
            if not isinstance(source, Name):
                self._fail(
                    source.column - 1,
                    "EXISTS and COUNT beside values of rows before it are refused in an OPTIONAL MATCH: write WITH … WHERE",
                )
            for place, side in enumerate(sides):
                if self._base_column(scope, source) in algebra.possible_variables(side):
                    sides[place], argument, kind, _ = self._input(side, scope, source)
                    break
            else:
                self.reader.value(scope, source)
                raise AssertionError(source)
            arguments.append(argument)
            kinds.append((name, kind))
        return sides[0], sides[1], FunctionCall(Computation(whole, tuple(kinds), self.dialect, "truth"), tuple(arguments))

    def _base_column(self, scope: Scope, name: Name) -> str:
        binding = self._binding(scope, name)
        if binding.kind == "value":
            return binding.internal
        return algebra.column_of_value(self.reader.value(scope, name))

    def _with_inputs(self, tree: Any, scope: Scope) -> tuple[Any, dict[str, Any]]:
        """Return a tree in which names stand for inputs, and the name, the EXISTS or the COUNT behind each of them."""
        inputs: dict[str, Any] = {}

        def of(node: Any) -> Any:
            match node:
                case Call("id" | "elementid", (Name(name) as inner,)) if "." not in name:
                    binding = scope.get(name)
                    is_edge = binding is not None and binding.kind == "edge"
                    return replace(inner, name=f"{name}.{_OF_EDGES['id'] + '()' if is_edge else 'id'}")
                case Call("type" | "startnode" | "endnode" as function, (Name(name) as inner,)) if "." not in name:
                    return replace(inner, name=f"{name}.{_OF_EDGES[function]}()")
                case Name(name) if _is_time_part(node) and self._binding(scope, node).kind == "value":
                    owner, _, attribute = name.partition(".")
                    return Attribute(Name(owner, column=node.column), attribute, column=node.column)
                case MatchExists(node=Name(name) as inner) if _may_be_null(scope, name):
                    has_label = of(replace(node, node=None))
                    is_null = IsNull(inner, column=inner.column)
                    return Case(None, (is_null,), (Null(column=inner.column),), has_label, column=inner.column)
                case MatchExists() | CountOf():
                    body = f"{'EXISTS' if isinstance(node, MatchExists) else 'COUNT'} {len(inputs) + 1}"
                    inputs[body] = node
                    return Name(body, column=node.column)
            return node

        self._check(tree)
        whole = _change_outside_bodies(tree, of)
        for name in free_names(whole):
            inputs.setdefault(name.name, name)
        # An average is a float, whatever was averaged.
        averages = [
            name
            for name, source in inputs.items()
            if isinstance(source, Name) and (one := scope.get(source.name)) is not None and one.column is not None
            if one.column.source == "avg"
        ]
        for average in averages:
            whole = substitute(whole, average, Call("tofloat", (Name(average, column=1),), column=1))
        return whole, inputs

    def _check(self, tree: Any) -> None:
        """Raise `MatchError` for what is no value."""
        nodes = [*condition_nodes(tree)]
        dated: list[Any] = [one.arguments for one in nodes if isinstance(one, Call) and one.function in MAP_NAMES]
        for node in nodes:
            match node:
                case MapOf() if not any(node in arguments for arguments in dated):
                    allowed = ", ".join(f"{name}({{…}})" for name in MAP_NAMES)
                    self._fail(node.column - 1, f"a map is refused, other than in {allowed}: return its values as columns")
                case Attribute(_, part) if part.lower() not in (*TIME_PARTS, *DURATION_PARTS):
                    self._refuse_part(node.column, part)
                case Comprehension() | QuantifiedList() | Reduce():
                    for name in parts_of_elements(node):
                        if name.name.partition(".")[2].lower() not in (*TIME_PARTS, *DURATION_PARTS):
                            self._refuse_part(name.column, name.name)
                case Call("nodes" | "relationships" | "edges" | "path_length" as function):
                    advice = "read it before a WITH that groups"
                    what = f"{function} of another value than a path of fixed length"
                    self._fail(node.column - 1, f"{what} is refused: {advice}")

    def _refuse_part(self, column: int, part: str) -> NoReturn:
        advice = "collect the property itself, as in collect(e.amount), or UNWIND the nodes"
        self._fail(column - 1, f"{part}, a property of an element of a computed list, is refused: {advice}")

    def _input(self, inner: Operator, scope: Scope, source: Any) -> tuple[Operator, Formula, InputKind, ResultColumn]:
        """Return an operator with the column of an input, the argument, the kind of its terms, and what the column has."""
        if isinstance(source, MatchExists):
            body = self.exists(scope, source)
            for name in scope.guarded:
                if guard_of(name) not in algebra.possible_variables(inner):
                    inner = Extend(inner, guard_of(name), Variable(name))
            return inner, Exists(body, False), "value", ResultColumn("", "exists")
        if isinstance(source, CountOf):
            inner, name = self.count(inner, scope, source)
            return inner, Variable(name), "value", ResultColumn("", "count")
        attribute = source.name.partition(".")[2]
        binding = self._binding(scope, source)
        if binding.kind == "value" and not attribute:
            assert binding.column is not None
            is_vertex = binding.column.value is not None and binding.column.value.kind == "vertex"
            is_loose = binding.column.source == "ends" and not is_vertex
            return inner, Variable(binding.internal), "value" if is_loose else "computed", binding.column
        if binding.kind == "edge" and attribute in _ENDS_AND_LABELS:
            value = Value(_ENDS_AND_LABELS[attribute], binding.internal)
            inner, name = self.extend(inner, value, is_typed=value.kind != "number")
            kind_of_ends: InputKind = "vertex" if value.kind in ("source", "target") else "value"
            return inner, Variable(name), kind_of_ends, ResultColumn("", value.kind, value)
        if binding.kind == "value":
            value = Value("fact", binding.internal, attribute)
        else:
            value = self.reader.value(scope, source)
        inner, name = self.extend(inner, value, is_typed=value.kind != "number")
        kind: InputKind = "value"
        if value.kind == "vertex":
            kind = "name" if attribute else "vertex"
        elif value.kind == "number":
            kind = "edge"
        return inner, Variable(name), kind, ResultColumn("", value.kind, value)


_OF_EDGES = {"id": "number", "type": "label", "startnode": "source", "endnode": "target"}
_ENDS_AND_LABELS: dict[str, Any] = {f"{kind}()": kind for kind in _OF_EDGES.values()}


def parts_of_elements(tree: Comprehension | QuantifiedList | Reduce) -> list[Name]:
    """Return the names of properties that a value over a list reads of its elements."""
    nodes = walk(tuple(getattr(tree, name, None) for name in ("where", "value")))
    return [node for node in nodes if isinstance(node, Name) and node.name.startswith(f"{tree.variable}.")]


def may_be_node(column: ResultColumn) -> bool:
    """Return whether a computed value may be a node."""
    if column.source in ("vertex", "source", "target"):
        return True
    if column.value is not None and column.source == "ends":
        return column.value.kind == "vertex"
    return column.source == "computed" and _Nodes.of(column.inputs).is_one(column.tree)


@dataclass(frozen=True)
class _Nodes:
    """The names of values that may be nodes, and of those that may be lists of nodes."""

    single: frozenset[str]
    lists: frozenset[str]

    @classmethod
    def of(cls, columns: Sequence[ResultColumn]) -> Self:
        """Return the names of columns."""
        lists = (one.name for one in columns if one.tree is not None and cls.of(one.inputs).are_listed(one.tree))
        return cls(frozenset(one.name for one in columns if may_be_node(one)), frozenset(lists))

    def is_one(self, tree: Any) -> bool:
        """Return whether a value may be a node."""
        match tree:
            case Name(name):
                return name in self.single
            case Call("head" | "last", (inner,)) | Index(inner):
                return self.are_listed(inner)
            case Call("coalesce" | "nullif", arguments):
                return any(map(self.is_one, arguments))
            case Case(_, _, values, otherwise):
                return any(map(self.is_one, (*values, otherwise)))
            case Reduce(accumulator, initial, variable, source, value):
                return self._with(variable, source)._with(accumulator, ListOf((initial,), column=1)).is_one(value)
        return False

    def are_listed(self, tree: Any) -> bool:
        """Return whether a value may be a list of nodes."""
        match tree:
            case Name(name):
                return name in self.lists
            case ListOf(values):
                return any(map(self.is_one, values))
            case Call("tail" | "reverse" | "coalesce", arguments):
                return any(map(self.are_listed, arguments))
            case ListSlice(inner):
                return self.are_listed(inner)
            case Case(_, _, values, otherwise):
                return any(map(self.are_listed, (*values, otherwise)))
            case Arithmetic("+", left, right):
                return any(self.are_listed(one) or self.is_one(one) for one in (left, right))
            case Comprehension(variable, source, _, value):
                return self.are_listed(source) if value is None else self._with(variable, source).is_one(value)
        return False

    def _with(self, variable: str, source: Any) -> _Nodes:
        return replace(self, single=self.single | {variable}) if self.are_listed(source) else self


def _may_be_null(scope: Scope, name: str) -> bool:
    binding = scope.get(name)
    return binding is not None and binding.may_be_null


def _is_time_part(name: Name) -> bool:
    return name.name.partition(".")[2].lower() in TIME_PARTS


def _change_outside_bodies(tree: Any, of: Callable[[Any], Any]) -> Any:
    """Return a changed tree, in which EXISTS and COUNT are changed as a whole."""
    if isinstance(tree, (MatchExists, CountOf)):
        return of(tree)
    if isinstance(tree, tuple):
        return tuple(_change_outside_bodies(part, of) for part in tree)
    if not parts_of(tree):
        return of(tree)
    found = {name: _change_outside_bodies(part, of) for name, part in vars(tree).items()}
    changed = {name: part for name, part in found.items() if part is not getattr(tree, name)}
    return of(replace(tree, **changed) if changed else tree)


def free_names(tree: Any, hidden: frozenset[str] = frozenset()) -> list[Name]:
    """Return the names in a value, without those that lists in it bind and those inside EXISTS and COUNT."""
    if isinstance(tree, Name):
        return [] if tree.name.partition(".")[0] in hidden else [tree]
    if isinstance(tree, (MatchExists, CountOf)):
        return []
    if isinstance(tree, (Comprehension, QuantifiedList, Reduce)):
        bound = {tree.variable, tree.accumulator} if isinstance(tree, Reduce) else {tree.variable}
        outside = [tree.source, *([tree.initial] if isinstance(tree, Reduce) else [])]
        inside = [getattr(tree, name, None) for name in ("where", "value")]
        found = [name for part in outside for name in free_names(part, hidden)]
        return found + [name for part in inside for name in free_names(part, hidden | bound)]
    return [name for part in parts_of(tree) for name in free_names(part, hidden)]
