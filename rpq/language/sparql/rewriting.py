"""The optimisation of the algebra: pushes filters down and merges conjunctions.

No rule changes the bag of solutions. A filter moves past another operator only if the values of its variables cannot change:
each variable that it uses is bound below whenever it is bound at all. Filters are not pushed into a conjunction.
"""

from __future__ import annotations

from dataclasses import replace

from rpq.language.sparql.algebra import (
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
    ReportTime,
    SemiJoin,
    Slice,
    Union,
    Unwind,
    Values,
    certain_variables,
    has_exists,
    make_join,
    make_union,
    possible_variables,
    variables_of,
)


def rewrite(operator: Operator) -> Operator:
    """Return the operator with filters pushed down and conjunctions merged. O(size · depth).

    >>> from rpq.language.sparql.algebra_text import algebra_text
    >>> from rpq.language.sparql.syntax.reading import read
    >>> body = read("SELECT ?x { { ?x <a> ?y FILTER(?y > 3) } { ?x <b> ?z OPTIONAL { ?z <c> ?w } } FILTER(?z < 5) }").body
    >>> print(algebra_text(rewrite(body)))
    project ?x           binds x
      join               binds x, y, z, perhaps w
        filter ?y > 3    binds x, y
          conjunction    binds x, y
            ?x a ?y
        optional         binds x, z, perhaps w
          filter ?z < 5  binds x, z
            conjunction  binds x, z
              ?x b ?z
          conjunction    binds w, z
            ?z c ?w
    """
    match operator:
        case Filter(inner, condition):
            return _push_filter(rewrite(inner), condition)
        case Join(parts):
            return _join([rewrite(part) for part in parts])
        case Union(branches):
            return make_union(*map(rewrite, branches))
        case LeftJoin(left, right) | SemiJoin(left, right) | Minus(left, right):
            return replace(operator, left=rewrite(left), right=rewrite(right))
        case Extend(inner) | Unwind(inner) | Group(inner) | Project(inner) | Distinct(inner) | Slice(inner):
            return replace(operator, inner=rewrite(inner))
        case Conjunction() | Values() | ReportTime():
            return operator


def is_filtered_conjunction(operator: Operator) -> bool:
    """Return whether an operator is a conjunction with zero or more filters, none of them with EXISTS."""
    while isinstance(operator, Filter) and not has_exists(operator.condition):
        operator = operator.inner
    return isinstance(operator, Conjunction)


def _join(parts: list[Operator]) -> Operator:
    """Return a join. Filters on its conjunctions are lifted above it if that merges several conjunctions into one."""
    conditions: list[Formula] = []
    found = [one for part in parts for one in (part.parts if isinstance(part, Join) else (part,))]
    conjunctions = sum(map(is_filtered_conjunction, found))
    parts_left: list[Operator] = []
    for place, part in enumerate(found):
        other_variables = frozenset().union(*(possible_variables(one) for other, one in enumerate(found) if other != place))
        while conjunctions > 1 and is_filtered_conjunction(part) and isinstance(part, Filter):
            if not _sees_the_same(part.condition, part.inner, other_variables):
                break
            conditions.append(part.condition)
            part = part.inner
        parts_left.append(part)
    operator = make_join(*parts_left)
    for condition in conditions:
        operator = _push_filter(operator, condition)
    return operator


def _push_filter(operator: Operator, condition: Formula) -> Operator:
    """Push a filter into an operator whose own filters are already pushed down."""
    if has_exists(condition):  # the body of an EXISTS can use every variable around it
        return Filter(operator, condition)
    names = variables_of(condition)
    match operator:
        case Join(parts):
            for place, part in enumerate(parts):
                other_parts = (*parts[:place], *parts[place + 1 :])
                other_variables = frozenset().union(*map(possible_variables, other_parts))
                if names & possible_variables(part) and _sees_the_same(condition, part, other_variables):
                    return make_join(*parts[:place], _push_filter(part, condition), *parts[place + 1 :])
        case Union(branches):
            return make_union(*(_push_filter(branch, condition) for branch in branches))
        case LeftJoin(left, right) if _sees_the_same(condition, left, possible_variables(right)):
            return replace(operator, left=_push_filter(left, condition))
        case SemiJoin(left) | Minus(left):
            return replace(operator, left=_push_filter(left, condition))
        case (Extend(inner, variable) | Unwind(inner, variable)) if variable not in names:
            return replace(operator, inner=_push_filter(inner, condition))
        case Distinct(inner):
            return Distinct(_push_filter(inner, condition))
        case Project(inner, columns) if names & possible_variables(inner) <= frozenset(columns):
            return replace(operator, inner=_push_filter(inner, condition))
        case Filter(inner, other) if not isinstance(inner, Conjunction):
            return Filter(_push_filter(inner, condition), other)
    return Filter(operator, condition)


def _sees_the_same(condition: Formula, part: Operator, other_variables: frozenset[str]) -> bool:
    """Return whether a condition has the same value in a part and in its join with others: the part binds its variables."""
    return variables_of(condition) & other_variables <= certain_variables(part)
