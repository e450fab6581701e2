"""What can be told of an operator without evaluating it: its variables, its windows, whether edges can only add to it."""

from __future__ import annotations

from collections.abc import Iterator

from rpq.queries.pattern import Constant, Variable
from rpq.sparql.algebra import (
    Aggregate,
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
    WindowAtom,
    name_of,
)

Names = frozenset[str]


def possible(operator: Operator) -> Names:
    """The variables that some solution may bind: those in scope. O(size)."""
    match operator:
        case Conjunction(atoms):
            return frozenset(name for one in atoms for name in _names(one))
        case Join(parts) | Union(parts):
            return frozenset().union(*map(possible, parts))
        case LeftJoin(left, right):
            return possible(left) | possible(right)
        case Filter(inner) | Distinct(inner) | SemiJoin(inner) | Minus(inner):
            return possible(inner)
        case Extend(inner, variable):
            return possible(inner) | {variable}
        case Values(variables):
            return frozenset(variables)
        case Group(_, keys, aggregates):
            return frozenset(keys) | {name for name, _ in aggregates}
        case Project(_, columns):
            return frozenset(columns)


def certain(operator: Operator) -> Names:
    """The variables that every solution binds. O(size)."""
    match operator:
        case Conjunction():
            return possible(operator)
        case Join(parts):
            return frozenset().union(*map(certain, parts))
        case Union(branches):
            return frozenset.intersection(*map(certain, branches))
        case LeftJoin(inner) | Filter(inner) | Distinct(inner) | SemiJoin(inner) | Minus(inner):
            return certain(inner)
        case Extend(inner, variable, formula):
            inner_names = certain(inner)
            has_value = isinstance(formula, Constant) or (isinstance(formula, Variable) and formula.name in inner_names)
            return inner_names | {variable} if has_value else inner_names
        case Values(variables, rows):
            return frozenset(name for place, name in enumerate(variables) if all(row[place] is not None for row in rows))
        case Group(inner, keys, aggregates):
            return (certain(inner) & frozenset(keys)) | {name for name, one in aggregates if one.function == "COUNT"}
        case Project(inner, columns):
            return certain(inner) & frozenset(columns)


def variables_of(formula: Formula) -> Names:
    """The variables whose values a formula may look at, those that an EXISTS shares with what is around it included."""
    match formula:
        case Variable(name):
            return frozenset({name})
        case Constant():
            return frozenset()
        case Call(_, arguments):
            return frozenset().union(*map(variables_of, arguments))
        case Exists(body):
            return mentioned(body)
        case Aggregate(_, argument):
            return frozenset() if argument is None else variables_of(argument)


def mentioned(operator: Operator) -> Names:
    """Every variable that stands anywhere in an operator, bound or only looked at."""
    found = possible(operator)
    for formula in formulas_of(operator):
        found |= variables_of(formula)
    for inner in children(operator):
        found |= mentioned(inner)
    return found


def is_monotone(operator: Operator) -> bool:
    """Whether more edges can only add solutions: no OPTIONAL, MINUS, NOT EXISTS or aggregate, and no EXISTS in a formula.

    EXISTS as a condition of its own only adds; inside another formula it may be negated.
    """
    if isinstance(operator, (LeftJoin, Minus, Group)) or (isinstance(operator, SemiJoin) and operator.is_negated):
        return False
    return all(map(is_monotone, children(operator))) and not any(map(_has_exists, formulas_of(operator)))


def windows_read(operator: Operator) -> dict[str | None, tuple[WindowAtom, ...]]:
    """The atoms that read each window, in order; the key None is the default graph. Bodies of EXISTS count. O(size)."""
    found: dict[str | None, list[WindowAtom]] = {}
    for one in atoms_of(operator):
        found.setdefault(one.window, []).append(one)
    return {window: tuple(atoms) for window, atoms in found.items()}


def atoms_of(operator: Operator) -> Iterator[WindowAtom]:
    """All atoms, those in EXISTS inside formulas included."""
    if isinstance(operator, Conjunction):
        yield from operator.atoms
    for inner in children(operator):
        yield from atoms_of(inner)
    for formula in formulas_of(operator):
        for body in bodies_of(formula):
            yield from atoms_of(body)


def reads_default(operator: Operator) -> bool:
    """Whether an atom of it stands in no WINDOW."""
    return any(one.window is None for one in atoms_of(operator))


def children(operator: Operator) -> tuple[Operator, ...]:
    """The operators that an operator is made of, from left to right."""
    match operator:
        case Join(parts) | Union(parts):
            return parts
        case LeftJoin(left, right) | SemiJoin(left, right) | Minus(left, right):
            return (left, right)
        case Filter(inner) | Extend(inner) | Group(inner) | Project(inner) | Distinct(inner):
            return (inner,)
        case _:
            return ()


def formulas_of(operator: Operator) -> tuple[Formula, ...]:
    """The formulas that stand in an operator itself."""
    match operator:
        case Filter(_, condition):
            return (condition,)
        case LeftJoin(_, _, condition):
            return () if condition is None else (condition,)
        case Extend(_, _, formula):
            return (formula,)
        case Group(_, _, aggregates):
            return tuple(one.argument for _, one in aggregates if one.argument is not None)
        case _:
            return ()


def bodies_of(formula: Formula) -> Iterator[Operator]:
    """The bodies of EXISTS in a formula."""
    if isinstance(formula, Exists):
        yield formula.body
    elif isinstance(formula, Call):
        for argument in formula.arguments:
            yield from bodies_of(argument)
    elif isinstance(formula, Aggregate) and formula.argument is not None:
        yield from bodies_of(formula.argument)


def aggregates_in(formula: Formula) -> Iterator[Aggregate]:
    """The aggregates in a formula, not those inside EXISTS."""
    if isinstance(formula, Aggregate):
        yield formula
    elif isinstance(formula, Call):
        for argument in formula.arguments:
            yield from aggregates_in(argument)


def _has_exists(formula: Formula) -> bool:
    return any(True for _ in bodies_of(formula))


def _names(one: WindowAtom) -> list[str]:
    return [name for term in (one.atom.subject, one.atom.object) if (name := name_of(term)) is not None]
