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
in N-Triples form (`rpq.sparql.terms`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rpq.queries.pattern import Atom, Blank, Constant, Term, Variable
from rpq.sparql.window_clauses import Extent, Reporting

Form = Literal["select", "ask", "construct"]
AggregateName = Literal["COUNT", "SUM", "AVG", "MIN", "MAX", "SAMPLE"]


# --- formulas: what SPARQL calls expressions -------------------------------------------------------------------------


@dataclass(frozen=True)
class Call:
    """A function or an operator with its arguments: `<`, `&&`, `STRLEN`, `IF`, `IN`, or the IRI of a cast."""

    function: str
    arguments: tuple[Formula, ...]


@dataclass(frozen=True)
class Exists:
    """Whether a body has a solution that agrees with the bindings around it, or has none."""

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
    """What a text in SPARQL asks.

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
    """The name under which a term of an atom is bound; None for a constant.

    >>> name_of(Variable("x")), name_of(Blank("b")), name_of(Constant("bob"))
    ('x', '_:b', None)
    """
    if isinstance(term, Variable):
        return term.name
    return f"_:{term.name}" if isinstance(term, Blank) else None


def joined(*parts: Operator) -> Operator:
    """The join of parts: those that are joins dissolve, conjunctions become one, and what is alone stands alone.

    >>> joined(UNIT, Values(("x",), ())) == Values(("x",), ())
    True
    """
    flat = [one for part in parts for one in (part.parts if isinstance(part, Join) else (part,))]
    atoms = tuple(atom for part in flat if isinstance(part, Conjunction) for atom in part.atoms)
    others = [part for part in flat if not isinstance(part, Conjunction)]
    kept = [Conjunction(atoms), *others] if atoms or not others else others
    return kept[0] if len(kept) == 1 else Join(tuple(kept))


def united(*branches: Operator) -> Operator:
    """The union of branches: those that are unions dissolve, and what is alone stands alone."""
    flat = [one for branch in branches for one in (branch.branches if isinstance(branch, Union) else (branch,))]
    return flat[0] if len(flat) == 1 else Union(tuple(flat))


def conditions_of(formula: Formula) -> list[Formula]:
    """The conditions that hold together where a formula does: what stands between its `&&`.

    An error and a false are one to a filter, so a filter may judge them one by one.
    """
    if isinstance(formula, Call) and formula.function == "&&":
        return [condition for argument in formula.arguments for condition in conditions_of(argument)]
    return [formula]


def filtered(inner: Operator, formula: Formula) -> Operator:
    """The solutions for which a formula holds, condition by condition; EXISTS by itself is a semi-join."""
    for condition in conditions_of(formula):
        if isinstance(condition, Exists):
            inner = SemiJoin(inner, condition.body, condition.is_negated)
        else:
            inner = Filter(inner, condition)
    return inner
