"""The algebra of SPARQL 1.1 (section 18.2) over a streaming graph: what a query asks, as plain values.

====================  ==============================================================================================
operator              its solutions, a bag
====================  ==============================================================================================
`Conjunction`         the bindings of pattern atoms, each over its window; of no atoms: one solution, the empty one
`Join`                those of all parts that agree on the variables that they share
`LeftJoin`            those of the left, with each of the right that agrees and meets the condition, alone where none does
`Union`               those of every branch
`Filter`              those of the inner that the condition holds for
`SemiJoin`            those of the left for which the right has one (FILTER EXISTS), or none (FILTER NOT EXISTS)
`Minus`               those of the left without one of the right that agrees and shares a bound variable
`Extend`              those of the inner, with one more variable (BIND, AS)
`Values`              those that are written down
`Group`               one for each group of the inner, with aggregates of it
`Project`             those of the inner, cut to the columns
`Distinct`            those of the inner, each once
====================  ==============================================================================================

A variable is known by its name; one that a subselect keeps to itself has a name that no text can have (`x.1`), and so have
blank nodes (`_:b`) and the variables between the steps of a path (`_:.3`). A term is its text: an IRI as it is, a literal
in N-Triples form (`rpq.sparql.values.terms`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from rpq.queries.pattern import Atom, Blank, Constant, Term, Variable
from rpq.stream.durations import NANOSECONDS, duration_text
from rpq.stream.window import Window

Form = Literal["select", "ask", "construct"]
Reporting = Literal["ISTREAM", "DSTREAM", "RSTREAM"]
AggregateName = Literal["COUNT", "SUM", "AVG", "MIN", "MAX", "SAMPLE"]


# --- formulas: what SPARQL calls expressions -------------------------------------------------------------------------


@dataclass(frozen=True)
class Call:
    """A function or an operator with its arguments: `<`, `&&`, `STRLEN`, `IF`, `IN`, or the IRI of a cast."""

    function: str
    arguments: tuple[Formula, ...]


@dataclass(frozen=True)
class Exists:
    """A condition: a body has a solution that agrees with the bindings around it, or has none."""

    body: Operator
    is_negated: bool


@dataclass(frozen=True)
class Aggregate:
    """An aggregate of a group: a function over the values of a formula (None: over whole solutions, for COUNT(*))."""

    function: AggregateName
    argument: Formula | None
    is_distinct: bool


Formula = Variable | Constant | Call | Exists | Aggregate
"""Aggregates stand in formulas only while a query is read; then `Group` has them."""


# --- operators -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WindowAtom:
    """A pattern atom, and the name of the window that it reads; None is the default graph."""

    atom: Atom
    window: str | None = None


@dataclass(frozen=True)
class Conjunction:
    """Pattern atoms joined by shared variables: what goes to the pattern kernels as a whole."""

    atoms: tuple[WindowAtom, ...]


@dataclass(frozen=True)
class Join:
    """Two parts or more; no part is itself a join, and one at most a conjunction."""

    parts: tuple[Operator, ...]


@dataclass(frozen=True)
class LeftJoin:
    """OPTIONAL: `condition` sees both sides; None holds always."""

    left: Operator
    right: Operator
    condition: Formula | None


@dataclass(frozen=True)
class Union:
    """Two branches or more; no branch is itself a union."""

    branches: tuple[Operator, ...]


@dataclass(frozen=True)
class Filter:
    """One condition; several that hold together are several filters."""

    inner: Operator
    condition: Formula


@dataclass(frozen=True)
class SemiJoin:
    """FILTER EXISTS, or NOT EXISTS where `is_negated`: formulas on the right see the variables of the left."""

    left: Operator
    right: Operator
    is_negated: bool


@dataclass(frozen=True)
class Minus:
    """MINUS: the right side sees nothing of the left."""

    left: Operator
    right: Operator


@dataclass(frozen=True)
class Extend:
    """BIND and AS: unbound where the formula has no value."""

    inner: Operator
    variable: str
    formula: Formula


@dataclass(frozen=True)
class Values:
    """VALUES: rows of terms; None is UNDEF."""

    variables: tuple[str, ...]
    rows: tuple[tuple[str | None, ...], ...]


@dataclass(frozen=True)
class Group:
    """GROUP BY: a group for each combination of keys that there is; without keys one group, always."""

    inner: Operator
    keys: tuple[str, ...]
    aggregates: tuple[tuple[str, Aggregate], ...]


@dataclass(frozen=True)
class Project:
    """The columns, in order."""

    inner: Operator
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Distinct:
    """DISTINCT."""

    inner: Operator


Operator = Conjunction | Join | LeftJoin | Union | Filter | SemiJoin | Minus | Extend | Values | Group | Project | Distinct

UNIT = Conjunction(())
"""One solution, the empty one."""


# --- a whole question ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TimeExtent:
    """A time window: size and slide in nanoseconds; without a slide it is one unit of the stream's time."""

    size: int
    slide: int | None

    def window(self, unit: str) -> Window:
        """Return the window in the stream's unit (s, ms, us, ns). Raises `QueryError` where it is no whole number.

        >>> TimeExtent(7200 * 10**9, None).window("s")
        Window(size=7200, slide=1)
        """
        return Window(size=self.size, slide=self.slide or NANOSECONDS[unit], unit="ns").in_unit(unit)

    def __str__(self) -> str:
        return f"RANGE {duration_text(self.size)} STEP {'one unit' if self.slide is None else duration_text(self.slide)}"


@dataclass(frozen=True)
class CountExtent:
    """A window of the last `size` inserts, that moves every `step`."""

    size: int
    step: int

    def __str__(self) -> str:
        return f"COUNT {self.size} STEP {self.step}"


@dataclass(frozen=True)
class UnboundedExtent:
    """A window that nothing leaves but by a delete."""

    def __str__(self) -> str:
        return "UNBOUNDED"


Extent = TimeExtent | CountExtent | UnboundedExtent


@dataclass(frozen=True, kw_only=True)
class WindowDeclaration:
    """A named window: the stream that it is on (None: the merged one), and how far it reaches."""

    name: str
    stream: str | None
    extent: Extent


@dataclass(frozen=True, kw_only=True)
class Registration:
    """REGISTER: what each report gives, and the name of the stream that it makes."""

    reporting: Reporting
    name: str


@dataclass(frozen=True, kw_only=True)
class SparqlQuestion:
    """The question that a text in SPARQL asks.

    The solutions of `body` are the rows of SELECT, whose columns are `columns`; ASK asks whether there is one; CONSTRUCT
    makes the edges of `template` of each. `warnings` tell what may be meant otherwise.
    """

    text: str
    form: Form
    body: Operator
    columns: tuple[str, ...] = ()
    template: tuple[tuple[Term, str, Term], ...] = ()
    windows: tuple[WindowDeclaration, ...] = ()
    registration: Registration | None = None
    warnings: tuple[str, ...] = ()


# --- building --------------------------------------------------------------------------------------------------------


def name_of(term: Term) -> str | None:
    """Return the name under which a term of an atom is bound; None for a constant.

    >>> name_of(Variable("x")), name_of(Blank("b")), name_of(Constant("bob"))
    ('x', '_:b', None)
    """
    if isinstance(term, Variable):
        return term.name
    return f"_:{term.name}" if isinstance(term, Blank) else None


def make_join(*parts: Operator) -> Operator:
    """Return the join of parts: nested joins are flattened, conjunctions merged, and a single part is returned as it is.

    >>> make_join(UNIT, Values(("x",), ())) == Values(("x",), ())
    True
    """
    flat = [one for part in parts for one in (part.parts if isinstance(part, Join) else (part,))]
    atoms = tuple(atom for part in flat if isinstance(part, Conjunction) for atom in part.atoms)
    others = [part for part in flat if not isinstance(part, Conjunction)]
    kept = [Conjunction(atoms), *others] if atoms or not others else others
    return kept[0] if len(kept) == 1 else Join(tuple(kept))


def make_union(*branches: Operator) -> Operator:
    """Return the union of branches: nested unions are flattened, and a single branch is returned as it is."""
    flat = [one for branch in branches for one in (branch.branches if isinstance(branch, Union) else (branch,))]
    return flat[0] if len(flat) == 1 else Union(tuple(flat))


def conditions_of(formula: Formula) -> list[Formula]:
    """Return the conjuncts of a formula: the operands of its `&&`.

    An error and a false are one to a filter, so a filter may judge them one by one.
    """
    if isinstance(formula, Call) and formula.function == "&&":
        return [condition for argument in formula.arguments for condition in conditions_of(argument)]
    return [formula]


def make_filter(inner: Operator, formula: Formula) -> Operator:
    """Return a filter for each conjunct of a formula; a conjunct that is an EXISTS becomes a semi-join."""
    for condition in conditions_of(formula):
        if isinstance(condition, Exists):
            inner = SemiJoin(inner, condition.body, condition.is_negated)
        else:
            inner = Filter(inner, condition)
    return inner


Names = frozenset[str]


def possible_variables(operator: Operator) -> Names:
    """Return the variables that some solution may bind: those in scope. O(size)."""
    match operator:
        case Conjunction(atoms):
            return frozenset(name for one in atoms for name in _names(one))
        case Join(parts) | Union(parts):
            return frozenset().union(*map(possible_variables, parts))
        case LeftJoin(left, right):
            return possible_variables(left) | possible_variables(right)
        case Filter(inner) | Distinct(inner) | SemiJoin(inner) | Minus(inner):
            return possible_variables(inner)
        case Extend(inner, variable):
            return possible_variables(inner) | {variable}
        case Values(variables):
            return frozenset(variables)
        case Group(_, keys, aggregates):
            return frozenset(keys) | {name for name, _ in aggregates}
        case Project(_, columns):
            return frozenset(columns)


def certain_variables(operator: Operator) -> Names:
    """Return the variables that every solution binds. O(size)."""
    match operator:
        case Conjunction():
            return possible_variables(operator)
        case Join(parts):
            return frozenset().union(*map(certain_variables, parts))
        case Union(branches):
            return frozenset.intersection(*map(certain_variables, branches))
        case LeftJoin(inner) | Filter(inner) | Distinct(inner) | SemiJoin(inner) | Minus(inner):
            return certain_variables(inner)
        case Extend(inner, variable, formula):
            inner_names = certain_variables(inner)
            has_value = isinstance(formula, Constant) or (isinstance(formula, Variable) and formula.name in inner_names)
            return inner_names | {variable} if has_value else inner_names
        case Values(variables, rows):
            return frozenset(name for place, name in enumerate(variables) if all(row[place] is not None for row in rows))
        case Group(inner, keys, aggregates):
            return (certain_variables(inner) & frozenset(keys)) | {
                name for name, one in aggregates if one.function == "COUNT"
            }
        case Project(inner, columns):
            return certain_variables(inner) & frozenset(columns)


def variables_of(formula: Formula) -> Names:
    """Return the variables whose values a formula may depend on, including those that an EXISTS shares with its outside."""
    match formula:
        case Variable(name):
            return frozenset({name})
        case Constant():
            return frozenset()
        case Call(_, arguments):
            return frozenset().union(*map(variables_of, arguments))
        case Exists(body):
            return mentioned_variables(body)
        case Aggregate(_, argument):
            return frozenset() if argument is None else variables_of(argument)


def mentioned_variables(operator: Operator) -> Names:
    """Every variable that stands anywhere in an operator, bound or only looked at."""
    found = possible_variables(operator)
    for formula in formulas_of(operator):
        found |= variables_of(formula)
    for inner in children(operator):
        found |= mentioned_variables(inner)
    return found


def is_monotone(operator: Operator) -> bool:
    """Return whether more edges can only add solutions: no OPTIONAL, MINUS, NOT EXISTS, aggregate or EXISTS in a formula.

    EXISTS as a condition of its own only adds; inside another formula it may be negated.
    """
    if isinstance(operator, (LeftJoin, Minus, Group)) or (isinstance(operator, SemiJoin) and operator.is_negated):
        return False
    return all(map(is_monotone, children(operator))) and not any(map(has_exists, formulas_of(operator)))


def windows_read(operator: Operator) -> dict[str | None, tuple[WindowAtom, ...]]:
    """Return the atoms that read each window, in order, those in EXISTS included; None is the default graph. O(size)."""
    found: dict[str | None, list[WindowAtom]] = {}
    for one in atoms_of(operator):
        found.setdefault(one.window, []).append(one)
    return {window: tuple(atoms) for window, atoms in found.items()}


def atoms_of(operator: Operator) -> Iterator[WindowAtom]:
    """Return all atoms, those in EXISTS inside formulas included."""
    if isinstance(operator, Conjunction):
        yield from operator.atoms
    for inner in children(operator):
        yield from atoms_of(inner)
    for formula in formulas_of(operator):
        for body in bodies_of(formula):
            yield from atoms_of(body)


def reads_default(operator: Operator) -> bool:
    """Return whether an atom of it stands in no WINDOW."""
    return any(one.window is None for one in atoms_of(operator))


def children(operator: Operator) -> tuple[Operator, ...]:
    """Return the operators that an operator is made of, from left to right."""
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
    """Return the formulas that stand in an operator itself."""
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
    """Return the bodies of EXISTS in a formula."""
    if isinstance(formula, Exists):
        yield formula.body
    elif isinstance(formula, Call):
        for argument in formula.arguments:
            yield from bodies_of(argument)
    elif isinstance(formula, Aggregate) and formula.argument is not None:
        yield from bodies_of(formula.argument)


def aggregates_in(formula: Formula) -> Iterator[Aggregate]:
    """Return the aggregates in a formula, not those inside EXISTS."""
    if isinstance(formula, Aggregate):
        yield formula
    elif isinstance(formula, Call):
        for argument in formula.arguments:
            yield from aggregates_in(argument)


def has_exists(formula: Formula | None) -> bool:
    """Return whether there is an EXISTS in a formula."""
    return formula is not None and any(True for _ in bodies_of(formula))


def _names(one: WindowAtom) -> list[str]:
    return [name for term in (one.atom.subject, one.atom.object) if (name := name_of(term)) is not None]
