"""Whether a variable is the centre of a question in SPARQL: its solutions around a vertex need the edges there alone."""

from __future__ import annotations

from rpq.queries.pattern import Centre, centre_at, stands_in_all
from rpq.sparql.algebra import (
    Conjunction,
    Distinct,
    Extend,
    Filter,
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
from rpq.sparql.scope import atoms_of, bodies_of, formulas_of


def sparql_centre(question: SparqlQuestion) -> Centre | None:
    """The first column of SELECT around which all that the question reads lies; None where there is none. O(size · columns).

    >>> from rpq.sparql.reading import read
    >>> sparql_centre(read("SELECT ?y (COUNT(*) AS ?n) { ?x <a> ?y OPTIONAL { ?y <b> ?z } } GROUP BY ?y")).variable
    'y'
    >>> sparql_centre(read("SELECT (COUNT(*) AS ?n) { ?x <a> ?y }")) is None
    True
    """
    if question.form != "select":
        return None
    for column, name in enumerate(question.columns):
        if _lies_around(question.body, name):
            return centre_at([one.atom for one in atoms_of(question.body)], name, column)
    return None


def _lies_around(operator: Operator, name: str) -> bool:
    """Whether every solution binds a variable to a vertex, and depends on the edges at that vertex alone."""
    if not all(_lies_around(body, name) for formula in formulas_of(operator) for body in bodies_of(formula)):
        return False
    match operator:
        case Conjunction(atoms):
            return stands_in_all([one.atom for one in atoms], name)
        case Join(parts):
            # What reads no edges is the same wherever it is evaluated.
            reading = [part for part in parts if not isinstance(part, Values)]
            return bool(reading) and all(_lies_around(part, name) for part in reading)
        case Union(branches):
            return all(_lies_around(branch, name) for branch in branches)
        case LeftJoin(left, right) | SemiJoin(left, right) | Minus(left, right):
            return _lies_around(left, name) and (isinstance(right, Values) or _lies_around(right, name))
        case Filter(inner) | Distinct(inner):
            return _lies_around(inner, name)
        case Extend(inner, variable):
            return variable != name and _lies_around(inner, name)
        case Group(inner, keys):
            return name in keys and _lies_around(inner, name)
        case Project(inner, columns):
            return name in columns and _lies_around(inner, name)
        case _:
            return False
