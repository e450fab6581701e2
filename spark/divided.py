"""By what shares divide a query, and what they cannot divide, so that more of them bring nothing."""

from __future__ import annotations

import rpq
from rpq.queries.query import PatternQuery
from rpq.sparql.query import SparqlQuery


def divided(query: rpq.Query) -> str:
    """By what the work of a query is divided over shares, or what is to be said where it is not.

    Paths are divided by the roots of their trees, patterns and questions in SPARQL by the first of their columns around
    which all lies that they read (`Query.centre`).  Of others only rows are divided, by their first column.

    >>> import rpq
    >>> window = rpq.Window(size=10, slide=1)
    >>> print(divided(rpq.Query("?x a ?y . ?y b ?z", window=window)))
    divided by ?y: a share sees the edges at its own vertices alone
    """
    if (told := undivided(query)) is not None:
        return told.removeprefix(f"query {query.name!r} is ")
    if query.centre is None:
        return "divided by the roots of the trees of its paths: a share sees all edges that are read"
    return f"divided by ?{query.centre.variable}: a share sees the edges at its own vertices alone"


def undivided(query: rpq.Query) -> str | None:
    """What is to be said of a query the work of which every share does as a whole; None of one that is divided.

    >>> import rpq
    >>> undivided(rpq.Query("a/b*", window=rpq.Window(size=10, slide=1))) is None
    True
    """
    if not isinstance(query, (PatternQuery, SparqlQuery)) or query.centre is not None:
        return None
    by = f"its rows are divided by ?{query.columns[0]}" if query.columns else "the first one tells its rows"
    return (
        f"query {query.name!r} is not divided, as {_why_not(query)}: every share evaluates all of it, and {by}; "
        "more shares do not make it faster"
    )


def _why_not(query: PatternQuery | SparqlQuery) -> str:
    if isinstance(query, SparqlQuery):
        return "no column of SELECT stands in every triple pattern that it reads, each an edge"
    if query.pattern.path_expressions:
        return f"it has a path ({query.pattern.path_expressions[0]})"
    if query.pattern.centres:
        return f"?{query.pattern.centres[0]}, which stands in all atoms, is no column: select it, and shares divide it"
    return "no variable stands in all atoms"
