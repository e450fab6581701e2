"""What the values of a column are: vertices of the stream, counts, or what an expression computed."""

from __future__ import annotations

from collections.abc import Mapping

from rpq.queries.pattern import Variable
from rpq.results.typed_columns import ColumnKind
from rpq.sparql.algebra import (
    Aggregate,
    Conjunction,
    Distinct,
    Extend,
    Filter,
    Formula,
    Group,
    Join,
    LeftJoin,
    Minus,
    Operator,
    Project,
    SemiJoin,
    SparqlQuestion,
    Union,
    Values,
)
from rpq.sparql.scope import possible


def column_kinds(question: SparqlQuestion) -> tuple[ColumnKind, ...]:
    """The kinds of the columns of a question.

    >>> from rpq.sparql.reading import read
    >>> column_kinds(read("SELECT ?x (COUNT(*) AS ?n) (SUM(?y) AS ?s) (MAX(?y) AS ?m) { ?x <a> ?y } GROUP BY ?x"))
    ('vertex', 'count', 'text', 'vertex')
    """
    if question.form == "construct":
        return ("vertex", "text", "vertex")
    kinds = _kinds(question.body)
    return tuple(kinds.get(name, "vertex") for name in question.columns)


def _kinds(operator: Operator) -> Mapping[str, ColumnKind]:
    match operator:
        case Conjunction() | Values():
            return dict.fromkeys(possible(operator), "vertex")
        case Join(parts) | Union(parts):
            return _either(*map(_kinds, parts))
        case LeftJoin(left, right):
            return _either(_kinds(left), _kinds(right))
        case Filter(inner) | Distinct(inner) | SemiJoin(inner) | Minus(inner) | Project(inner):
            return _kinds(inner)
        case Extend(inner, variable, formula):
            kinds = _kinds(inner)
            return {**kinds, variable: _kind(formula, kinds)}
        case Group(inner, _, aggregates):
            kinds = _kinds(inner)
            return {**kinds, **{name: _kind(one, kinds) for name, one in aggregates}}


def _kind(formula: Formula, kinds: Mapping[str, ColumnKind]) -> ColumnKind:
    match formula:
        case Variable(name):
            return kinds.get(name, "vertex")
        case Aggregate("COUNT"):
            return "count"
        case Aggregate("MIN" | "MAX" | "SAMPLE", Variable(name)):
            return kinds.get(name, "vertex")
    return "text"


def _either(*branches: Mapping[str, ColumnKind]) -> Mapping[str, ColumnKind]:
    """The kinds of what may come from several operators: computed, where one of them computes it."""
    found: dict[str, ColumnKind] = {}
    for kinds in branches:
        for name, kind in kinds.items():
            before = found.get(name, kind)
            found[name] = kind if before in (kind, "vertex") else before if kind == "vertex" else "text"
    return found
