"""Restricted variables: those that VALUES or conditions allow only certain terms, so that paths need no other roots.

What restricts a variable stays where it is. Here the conjunctions are told of it, below joins, filters and EXISTS:

    VALUES ?u { <ann> } ?u <a>* ?d FILTER NOT EXISTS { ?u <b>* ?d }    both paths begin at ann alone
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rpq.language.pattern import Constant, Variable
from rpq.language.sparql.algebra import (
    Conjunction,
    Distinct,
    Extend,
    Filter,
    Formula,
    FunctionCall,
    Group,
    Join,
    LeftJoin,
    Minus,
    Operator,
    Project,
    SemiJoin,
    Slice,
    Union,
    Unwind,
    Values,
    certain_variables,
    conditions_of,
    possible_variables,
)
from rpq.language.sparql.values.typed_values import NoValue, Text, boolean_term, value_of
from rpq.stream.names.terms import literal_text

Terms = frozenset[str]
Restrictions = Mapping[str, Terms]
"""The terms that variables may have, by name; all terms for others."""


@dataclass(frozen=True)
class OneOf:
    """The function of a term that says whether it is one of some."""

    terms: Terms

    def __call__(self, *terms: str | None) -> str:
        """Return a boolean term."""
        return boolean_term(terms[0] in self.terms)

    def __str__(self) -> str:
        return "one of " + ", ".join(sorted(self.terms)[:3]) + (", …" if len(self.terms) > 3 else "")


def restrict(operator: Operator, around: Restrictions) -> Operator:
    """Return an operator whose conjunctions know the terms that their variables may have.

    Solutions with other terms than those `around` are of no use. O(size · depth).
    """
    known = _meet(around, restrictions_of(operator))
    match operator:
        case Conjunction():
            found = {name: terms for name, terms in known.items() if name in possible_variables(operator)}
            return replace(operator, restricted=tuple(sorted(found.items())))
        case Join(parts):
            return replace(operator, parts=tuple(restrict(part, known) for part in parts))
        case Union(branches):
            return replace(operator, branches=tuple(restrict(branch, known) for branch in branches))
        case Filter(inner) | Distinct(inner):
            return replace(operator, inner=restrict(inner, known))
        case Project(inner, columns):
            return replace(operator, inner=restrict(inner, _of(known, frozenset(columns))))
        case Extend(inner, variable, formula):
            inside = _of(known, possible_variables(inner) - {variable})
            if isinstance(formula, Variable) and variable in known:
                inside = _meet(inside, {formula.name: known[variable]})
            return replace(operator, inner=restrict(inner, inside))
        case LeftJoin(left, right) | SemiJoin(left, right) | Minus(left, right):
            left = restrict(left, known)
            shared = _of(_meet(known, restrictions_of(left)), certain_variables(left))
            return replace(operator, left=left, right=restrict(right, shared))
        case Group(inner) | Slice(inner) | Unwind(inner):
            return replace(operator, inner=restrict(inner, {}))
    return operator


def restrictions_of(operator: Operator) -> Restrictions:
    """Return variables that every solution binds to one of some terms."""
    match operator:
        case Values(variables, rows):
            columns = {name: [row[place] for row in rows] for place, name in enumerate(variables)}
            return {name: frozenset(column) for name, column in columns.items() if None not in column}  # type: ignore[arg-type]
        case Filter(inner, condition):
            return _meet(restrictions_of(inner), *map(_restrictions_by, conditions_of(condition)))
        case Join(parts):
            return _meet(*map(restrictions_of, parts))
        case Union(branches):
            return _either([*map(restrictions_of, branches)])
        case LeftJoin(inner) | SemiJoin(inner) | Minus(inner) | Distinct(inner) | Extend(inner):
            return restrictions_of(inner)
        case Project(inner, columns):
            return _of(restrictions_of(inner), frozenset(columns))
    return {}


def _restrictions_by(condition: Formula) -> Restrictions:
    """Return variables that have one of some terms wherever a condition holds."""
    match condition:
        case FunctionCall("||", arguments):
            return _either([*map(_restrictions_by, arguments)])
        case FunctionCall("SAMETERM", (Variable(name), Constant(term)) | (Constant(term), Variable(name))):
            return {name: frozenset([term])}
        case FunctionCall("=", (Variable(name), Constant(term)) | (Constant(term), Variable(name))):
            terms = [term]
        case FunctionCall("IN", (Variable(name), *arguments)) if all(isinstance(one, Constant) for one in arguments):
            terms = [one.name for one in arguments if isinstance(one, Constant)]
        case _:
            return accepted_names(condition)
    equal = [*map(_terms_equal_to, terms)]
    return {} if None in equal else {name: frozenset().union(*(one for one in equal if one is not None))}


def accepted_names(condition: Formula) -> Restrictions:
    """Return the names of vertices that satisfy a condition of MATCH on one name, by its variable; none for others."""
    if isinstance(condition, FunctionCall) and len(condition.arguments) == 1:
        (argument,), names = condition.arguments, getattr(condition.function, "accepted_names", None)
        if isinstance(argument, Variable) and names is not None:
            return {argument.name: names}
    return {}


def _terms_equal_to(term: str) -> Terms | None:
    """Return the terms whose value is that of a term, or None if these may be many: numbers have many notations."""
    try:
        value = value_of(term)
    except NoValue:
        return None
    if not isinstance(value, Text) or value.language:
        return None
    return frozenset([value.text, literal_text(value.text)])


def _of(restrictions: Restrictions, names: Terms) -> Restrictions:
    return {name: terms for name, terms in restrictions.items() if name in names}


def _meet(*found: Restrictions) -> Restrictions:
    met: dict[str, Terms] = {}
    for name, terms in (one for restrictions in found for one in restrictions.items()):
        met[name] = met.get(name, terms) & terms
    return met


def _either(found: Sequence[Restrictions]) -> Restrictions:
    names = frozenset.intersection(*map(frozenset, found))
    return {name: frozenset().union(*(restrictions[name] for restrictions in found)) for name in names}
