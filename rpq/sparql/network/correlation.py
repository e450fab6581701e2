"""What EXISTS says: whether its body has a solution when the variables of the row around it are replaced by their values.

Where replacing them comes to the same as joining with the row (`is_join`), the body is evaluated by itself. Else it is
evaluated for all rows at once (`rpq.sparql.network.planning`): the different values of the variables that it mentions are
*given* to it, beside a copy under another name that goes through all operators unchanged and says at the end which
row of outside a solution of the body is for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rpq.queries.pattern import Variable
from rpq.sparql.algebra import (
    Call,
    Conjunction,
    Distinct,
    Exists,
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
    Union,
    Values,
)
from rpq.sparql.scope import bodies_of, certain, mentioned, variables_of

Names = frozenset[str]


def copy_of(name: str) -> str:
    """The name under which the value of an outer variable goes through a body; none that a text can have."""
    return f".given {name}"


def has_exists(formula: Formula | None) -> bool:
    """Whether there is an EXISTS in a formula."""
    return formula is not None and any(True for _ in bodies_of(formula))


def is_join(body: Operator, outer: Names) -> bool:
    """Whether a body in which outer variables are replaced has the solutions that join with the row around it. O(size²).

    >>> from rpq.sparql.reading import read
    >>> bodies = [read(f"ASK {{ ?x <a> ?y FILTER EXISTS {{ {body} }} }}").body.right for body in (
    ...     "?y <b> ?z FILTER(?z > ?y)", "?y <b> ?z FILTER(?z > ?x)")]
    >>> [is_join(body, frozenset("xy")) for body in bodies]
    [True, False]
    """

    def sees_its_own(names: Names, inner: Operator) -> bool:
        """Whether what looks at names in an operator sees values of its own, which will have to agree with the outer."""
        return names & outer <= certain(inner)

    match body:
        case Conjunction() | Values() | Group():
            return True  # the values of a grouped subselect are compared when it is done
        case Join(parts) | Union(parts):
            return all(is_join(part, outer) for part in parts)
        case Filter(inner, condition):
            return is_join(inner, outer) and not has_exists(condition) and sees_its_own(variables_of(condition), inner)
        case Extend(inner, variable, formula):
            is_its_own = variable not in outer and not has_exists(formula)
            return is_its_own and is_join(inner, outer) and sees_its_own(variables_of(formula), inner)
        case Project(inner) | Distinct(inner):
            return is_join(inner, outer)
        case LeftJoin(left, right, condition):
            looked_at = mentioned(right) | (frozenset() if condition is None else variables_of(condition))
            are_joins = is_join(left, outer) and is_join(right, outer)
            return are_joins and not has_exists(condition) and sees_its_own(looked_at, left)
        case SemiJoin(left, right):
            return is_join(left, outer) and sees_its_own(mentioned(right), left)
        case Minus(left, right):
            return is_join(left, outer) and not mentioned(right) & outer


def exists_in(formula: Formula) -> list[Exists]:
    """Every EXISTS that stands in a formula itself, each once."""
    if isinstance(formula, Exists):
        return [formula]
    if isinstance(formula, Call):
        return [*dict.fromkeys(one for argument in formula.arguments for one in exists_in(argument))]
    return []


def without_exists(formula: Formula, names: Mapping[Exists, str]) -> Formula:
    """A formula with a variable in place of each EXISTS, by the `names` that these have."""
    if isinstance(formula, Exists):
        return Variable(names[formula])
    if isinstance(formula, Call):
        return replace(formula, arguments=tuple(without_exists(one, names) for one in formula.arguments))
    return formula
