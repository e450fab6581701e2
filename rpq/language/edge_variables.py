"""Edge variables of patterns: the edges that they may bind, the values that rows select from these edges, and filters.

In `?x ?e:transfer[amount > 1000] ?y` the variable `?e` binds each edge of one step. Such an atom becomes two atoms: the
edge is a vertex between an edge from `?x` and one to `?y`, whose labels are the ends of the expression
(`rpq.stream.names.stream_labels.EdgeEnd`). So joins, parts and windows are those of patterns without edge variables
(`rpq.language.pattern.Pattern.to_join`); what remains is to evaluate the filter over bindings and to put values in place of
edges.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

from rpq.automata.expressions import Alternation, Expression, Inverse, Label, NegatedSet
from rpq.automata.symbols import ConditionLabel
from rpq.errors import QueryError, WhereError, did_you_mean
from rpq.language.conditions import NODE_COLUMNS, TUPLE_COLUMNS, check_types, condition_of, nodes_of, parse_expression
from rpq.language.where import (
    Arithmetic,
    Between,
    Call,
    Comparison,
    In,
    IsNull,
    Logical,
    Name,
    Node,
    Not,
    Where,
    parse_where,
)
from rpq.stream.names.stream_labels import EdgeEnd

if TYPE_CHECKING:
    from rpq.language.predicate import ColumnKind

# --- the steps that edge variables bind ----------------------------------------------------------------------

ALWAYS = ""
"""The condition that every edge satisfies."""


class _Side(NamedTuple):
    """The edges that one alternative of a step walks in one direction; `labels` are excluded where it is `is_negated`."""

    labels: frozenset[str]
    is_negated: bool
    is_inverse: bool
    condition: str


@dataclass(frozen=True)
class EdgeStep:
    """The expression of an edge variable, a step along an edge: a label, `^`, `|` or a negated set, with conditions.

    >>> step = step_of("a[n > 1]|^!b")
    >>> step.conditions_on("a"), step.conditions_on("b")
    (('n > 1', ''), (None, None))
    """

    text: str
    sides: tuple[_Side, ...]

    def conditions_on(self, label: str) -> tuple[str | None, str | None]:
        """Return the conditions under which an edge with a label is walked forward, and against its direction.

        `ALWAYS` admits every edge with the label, None no edge.
        """
        found: list[str | None] = []
        for inverse in (False, True):
            sides = [side for side in self.sides if side.is_inverse == inverse]
            mine = {side.condition for side in sides if (label in side.labels) != side.is_negated}
            if not mine:
                found.append(None)
            elif ALWAYS in mine:
                found.append(ALWAYS)
            else:
                found.append(next(iter(mine)) if len(mine) == 1 else condition_of(_disjunction(sorted(mine))).text)
        return found[0], found[1]

    @property
    def labels(self) -> frozenset[str]:
        """The labels that it names, whether edges with these labels are walked or those with others."""
        return frozenset().union(*(side.labels for side in self.sides))

    def walks(self, label: str) -> bool:
        """Return whether it may walk edges with a label, whatever their properties."""
        return self.conditions_on(label) != (None, None)

    @property
    def conditions(self) -> frozenset[str]:
        """All conditions on labels that it may have."""
        other = max(self.labels, default="") + "?"  # a label that it does not name
        found = {condition for label in {*self.labels, other} for condition in self.conditions_on(label)}
        return frozenset(condition for condition in found if condition)


def _disjunction(conditions: Sequence[str]) -> str:
    return " or ".join(f"({condition})" for condition in conditions)


@functools.lru_cache(maxsize=4096)
def step_of(text: str) -> EdgeStep:
    """Parse an expression of one step. Raises `ExpressionError`, and `ValueError` where its paths may be longer."""
    tree = parse_expression(text)
    return EdgeStep(text, tuple(_sides(tree, inverse=False)))


def labels_of_end(end: EdgeEnd) -> frozenset[str]:
    """Return the labels that the expression of an edge variable names.

    >>> sorted(labels_of_end(EdgeEnd("a|!(b)[n > 1]", "subject")))
    ['a', 'b']
    """
    return step_of(end.label or "").labels


def is_one_step(tree: Expression) -> bool:
    """Return whether all paths of an expression are single edges, judged by the form of the expression.

    >>> [is_one_step(parse_expression(text)) for text in ("a[n > 1]", "^(a|!b)", "a/b", "a?")]
    [True, True, False, False]
    """
    try:
        _sides(tree, inverse=False)
    except ValueError:
        return False
    return True


def _sides(tree: Expression, *, inverse: bool) -> list[_Side]:
    match tree:
        case Label(ConditionLabel(label, condition)):
            return [_Side(frozenset({label or ""}), False, inverse, condition)]
        case Label(name):
            return [_Side(frozenset({str(name)}), False, inverse, ALWAYS)]
        case Inverse(inner):
            return _sides(inner, inverse=not inverse)
        case Alternation(parts):
            return [side for part in parts for side in _sides(part, inverse=inverse)]
        case NegatedSet(members, condition):
            return [
                _Side(
                    frozenset(str(member.label) for member in members if member.inverse == direction),
                    True,
                    inverse != direction,
                    condition or ALWAYS,
                )
                for direction in tree.directions
            ]
    raise ValueError("the paths of the expression may have other lengths than one")


# --- values of bindings --------------------------------------------------------------------------------------

ValueKind = Literal["vertex", "number", "timestamp", "property", "fact", "label", "source", "target", "edge"]

_CALLS = {"label": "type", "source": "startNode", "target": "endNode", "edge": "edge"}


class Value(NamedTuple):
    """A value of a binding: a vertex, the number or id of an edge, its timestamp, or a property of an edge or a vertex.

    MATCH also has the label of an edge, the vertices at its ends, and the edge itself, whichever way it was walked.
    """

    kind: ValueKind
    variable: str
    name: str = ""
    """The name of the property; `id` is the name of a vertex."""

    @property
    def column(self) -> str:
        """The name of its column, and its name in a filter."""
        if self.kind in ("vertex", "number") and not self.name:
            return self.variable
        if self.kind in _CALLS:
            return f"{_CALLS[self.kind]}({self.variable})"
        return f"{self.variable}.{self.name or 'timestamp'}"

    @property
    def is_list(self) -> bool:
        """True for the labels of a vertex."""
        return self.kind == "fact" and self.name == "labels"

    @property
    def key(self) -> str:
        """The name of the property among those of edges and of vertices, which may have the same name."""
        return f"@{self.name}" if self.kind == "fact" else self.name


def value_of(entry: str, vertices: Sequence[str], edges: Sequence[str]) -> Value | str:
    """Parse an entry of `select` or a name in a filter. Return the value, or a message that says what is wrong with it.

    >>> value_of("e.amount", ["x"], ["e"]).kind, value_of("e", ["x"], ["e"]).kind, value_of("x", ["x"], ["e"]).kind
    ('property', 'number', 'vertex')
    >>> value_of("x.risk", ["x"], []).kind
    'fact'
    """
    variable, dot, attribute = entry.partition(".")
    is_of_edge, is_of_vertex = bool(dot) and variable in edges, bool(dot) and variable in vertices
    if entry in vertices:
        if is_of_edge or is_of_vertex:
            what = "the edge" if is_of_edge else "the vertex"
            return f"?{entry} is a variable, and may be {attribute!r} of {what} ?{variable} as well: rename the variable"
        return Value("vertex", entry)
    if entry in edges:
        return Value("number", entry)
    if is_of_edge and attribute == "timestamp":
        return Value("timestamp", variable)
    if is_of_edge and attribute:
        if attribute in TUPLE_COLUMNS:
            return f"?{entry}: {attribute!r} is no property of an edge; there are ?{variable}.timestamp and its properties"
        return Value("property", variable, attribute)
    if is_of_vertex and attribute == "id":
        return Value("vertex", variable, attribute)
    if is_of_vertex and attribute:
        if attribute in NODE_COLUMNS:
            return f"?{entry}: {attribute!r} is no property of a node; there are ?{variable}.id and its properties"
        return Value("fact", variable, attribute)
    names = [*vertices, *edges]
    shown = ", ".join(f"?{name}" for name in names) or "none"
    return f"the pattern has no variable ?{variable}{did_you_mean(variable, names)}; its variables are {shown}"


# --- filters -------------------------------------------------------------------------------------------------


class SameTerm(NamedTuple):
    """The condition that two variables of a filter stand for the same vertex or the same edge."""

    left: Value
    right: Value

    @property
    def column(self) -> str:
        """Its name among the columns over which a filter is evaluated."""
        return f"?{self.left.variable} = ?{self.right.variable}"


@dataclass(frozen=True)
class BindingFilter:
    """A condition on the values of bindings.

    `where` reads the columns of `values`, and one for each of `same_terms`, in place of comparisons of vertices or edges.
    """

    text: str
    where: Where
    values: tuple[Value, ...]
    same_terms: tuple[SameTerm, ...]

    def column_kinds(self, kind_of: Callable[[Value], ColumnKind], *, vertex: str = "untyped") -> dict[str, ColumnKind]:
        """Return the columns over which the filter is evaluated.

        `kind_of` returns those of properties and timestamps, `vertex` is the kind of vertices.
        """
        from rpq.language.predicate import ColumnKind  # imports Arrow

        kinds = {
            value.column: ColumnKind(key=value.column, kind=vertex) if value.kind == "vertex" else kind_of(value)
            for value in self.values
        }
        return kinds | {same.column: ColumnKind(key=same.column, kind="boolean") for same in self.same_terms}


def read_filter(text: str, vertices: Sequence[str], edges: Sequence[str]) -> BindingFilter:
    """Parse a filter. Raises `QueryError`, with a pointer to the column.

    >>> one = read_filter("?e.amount > 5 and ?x <> ?y", ["x", "y"], ["e"])
    >>> [value.column for value in one.values], [same.column for same in one.same_terms]
    (['e.amount'], ['?x = ?y'])
    """
    if not isinstance(text, str):
        raise QueryError(f"the filter of a pattern is text, not {text!r}")
    try:
        where = parse_where(text, variables=True)
        value_of_name = {}
        for node in nodes_of(where.tree):
            if isinstance(node, Name) and node.name not in value_of_name:
                value = value_of(node.name, vertices, edges)
                if isinstance(value, str):
                    raise where.error(value, node.column)
                value_of_name[node.name] = value
        return filter_of(where, value_of_name)
    except WhereError as error:
        pointed = str(error).removeprefix("--where: ")
        raise QueryError(f"filter: {pointed}") from None


def filter_of(where: Where, value_of_name: Mapping[str, Value]) -> BindingFilter:
    """Return the filter of a condition; `value_of_name` maps its names to values. Raises `WhereError`."""
    reader = _FilterReader(where, value_of_name)
    tree = reader.rewrite(where.tree)
    names = frozenset(node.name for node in nodes_of(tree) if isinstance(node, Name))
    rewritten = Where(where.text, tree, names)
    check_types(rewritten)
    values = tuple(value for name, value in value_of_name.items() if name in names)
    return BindingFilter(where.text, rewritten, values, tuple(reader.same_terms.values()))


class _FilterReader:
    """The comparisons of terms in a filter, which become columns of their own."""

    def __init__(self, where: Where, value_of_name: Mapping[str, Value]) -> None:
        self._where = where
        self._value_of_name = value_of_name
        self.same_terms: dict[str, SameTerm] = {}

    def _term(self, node: Node) -> Value | None:
        value = self._value_of_name[node.name] if isinstance(node, Name) else None
        return value if value is not None and value.kind in ("vertex", "number") else None

    def rewrite(self, node: Node) -> Node:
        """Return a node with columns in place of comparisons of terms. Raises `WhereError` for an edge elsewhere."""
        match node:
            case Comparison(sign, left, right) if sign in ("==", "!="):
                one, other = self._term(left), self._term(right)
                if one is not None and other is not None:
                    if one.kind != other.kind:
                        raise self._where.error("an edge is compared with a vertex", node.column)
                    same = SameTerm(one, other)
                    self.same_terms[same.column] = same
                    found: Node = Name(same.column, column=node.column)
                    return found if sign == "==" else Not(found, column=node.column)
        match node:
            case Name():
                if self._value_of_name[node.name].kind == "number":
                    raise self._where.error(
                        f"?{node.name} is an edge, which is compared with other edges by = and <>; its values are "
                        f"?{node.name}.timestamp and its properties, as ?{node.name}.amount",
                        node.column,
                    )
                return node
            case Logical():
                return replace(node, parts=tuple(map(self.rewrite, node.parts)))
            case Not() | IsNull():
                return replace(node, inner=self.rewrite(node.inner))
            case In(inner, values, column=column) if any(self._term(value) for value in (inner, *values)):
                parts = [self.rewrite(Comparison("==", inner, value, column=column)) for value in values]
                return parts[0] if len(parts) == 1 else Logical("or", tuple(parts), column=column)
            case In():
                return replace(node, inner=self.rewrite(node.inner), values=tuple(map(self.rewrite, node.values)))
            case Between():
                inner, low, high = map(self.rewrite, (node.inner, node.low, node.high))
                return replace(node, inner=inner, low=low, high=high)
            case Comparison() | Arithmetic():
                return replace(node, left=self.rewrite(node.left), right=self.rewrite(node.right))
            case Call():
                return replace(node, arguments=tuple(map(self.rewrite, node.arguments)))
        return node
