"""Expressions over links, by which the cheapest paths of a path expression are found.

For a path with a cost each edge of the stream is a vertex of its own, as for edge variables, with a link to it from its
source (`rpq.stream.names.stream_labels.EdgeEnd`), which stands for the edge. So parallel edges and versions are told from
each other, and the value of the property is that of a vertex.
"""

from __future__ import annotations

from dataclasses import replace

from rpq.automata.expressions import Alternation, Concatenation, Expression, Inverse, Label, NegatedSet, Repetition
from rpq.automata.symbols import ConditionLabel, Symbol
from rpq.errors import QueryError, WhereError
from rpq.language.conditions import condition_of
from rpq.stream.names.stream_labels import EDGE_ENDS, EdgeEnd, text_of


def weight_condition(cost: str) -> str:
    """Return the condition of the edges that paths may take: their property `cost` is a number that is not negative.

    Null and NaN do not satisfy it. Raises `QueryError` for a name that no property has.

    >>> weight_condition("amount"), weight_condition("in")
    ('amount >= 0', '`in` >= 0')
    """
    try:
        condition = condition_of(f"`{cost.replace('`', '``')}` >= 0") if cost else None
    except WhereError as error:
        raise QueryError(f"cost: {error.message}") from error
    if condition is None or condition.properties != {cost}:
        raise QueryError(f"cost={cost!r} is no property of an edge: name one, as in cost='amount'")
    return condition.text


def over_links(tree: Expression, cost: str) -> Expression:
    """Return the expression over links for the paths of an expression whose edges have a property as weight.

    >>> print(over_links(Concatenation((Label("a"), Inverse(Label("b")))), "n"))
    subject of a[n >= 0]/^subject of b[n >= 0]
    """
    return _links(tree, weight_condition(cost))


def _links(tree: Expression, condition: str) -> Expression:
    def with_condition(own: str | None) -> str:
        return condition if own is None else condition_of(f"({own}) and {condition}").text

    match tree:
        case Label(name):
            own = name.condition if isinstance(name, ConditionLabel) else None
            return _link(Label(ConditionLabel(text_of(name), with_condition(own))))
        case NegatedSet(members, own):
            parts = []
            for inverse in tree.directions:
                labels = tuple(Symbol(one.label) for one in members if one.inverse == inverse)
                link = _link(NegatedSet(labels, with_condition(own)))
                parts.append(Inverse(link) if inverse else link)
            return parts[0] if len(parts) == 1 else Alternation(tuple(parts))
        case Inverse(inner) | Repetition(inner):
            return replace(tree, inner=_links(inner, condition))
        case Alternation(parts):
            return Alternation(tuple(_links(part, condition) for part in parts))
        case Concatenation(parts):
            return Concatenation(tuple(_links(part, condition) for part in parts))
    return tree


def _link(step: Expression) -> Expression:
    """Return the links to the vertices of the edges of a step forward."""
    return Label(EdgeEnd(str(step), EDGE_ENDS[0]))
