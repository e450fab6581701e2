"""The explanation of a query of any kind before it runs. `Engine.explain` explains running queries, with their figures.

The module imports what explains a kind of queries with the first query of this kind.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from rpq.language.conditions import parse_expression
from rpq.language.query import PatternQuery, Query, automaton_of

if TYPE_CHECKING:
    from rpq.operators.paths.explanation import Drawing, ExpressionExplanation
    from rpq.operators.patterns.explanation import Explanation
    from rpq.operators.relational.explanation import SparqlExplanation

    QueryExplanation: TypeAlias = ExpressionExplanation | Explanation | SparqlExplanation

__all__ = ["Drawing", "QueryExplanation", "explain_query", "explain_without_window"]


def explain_query(query: Query) -> QueryExplanation:
    """Return the explanation of a query. Raises `QueryError` if it cannot be evaluated.

    >>> from rpq.stream.window import Window
    >>> explain_query(Query("?x a ?y", window=Window(size=10, slide=1))).relations[0].name
    'a'
    """
    if type(query) is Query:
        from rpq.operators.paths.explanation import ExpressionExplanation

        return ExpressionExplanation(tree=parse_expression(query.expression), dfa=automaton_of(query.expression))
    if isinstance(query, PatternQuery):
        from rpq.operators.patterns.explanation import explain

        return explain(query)
    from rpq.operators.relational.explanation import explain_query as explain_algebra

    return explain_algebra(query, "")  # type: ignore[arg-type]  # SPARQL and MATCH


def explain_without_window(query: Query, *, identity: str = "") -> QueryExplanation:
    """Return the explanation of a query over any window. Raises `QueryError`.

    `identity` says when two inserts are the same edge. Of the windows of SPARQL, those that the text declares are explained.

    >>> from rpq.stream.window import UnboundedWindow
    >>> explain_without_window(Query("a/b*", window=UnboundedWindow())).dfa.accepts_empty
    False
    """
    explanation: Any = explain_query(query)
    if query.notation in ("path", "pattern"):
        more: dict[str, Any] = {"identity": identity}
    else:
        more = {"windows": tuple(one for one in explanation.windows if one[0] != "default")}
    found: QueryExplanation = replace(explanation, **more)
    return found
