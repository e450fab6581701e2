"""The algebra of SPARQL 1.1 (section 18.2) over a streaming graph, as plain values.

====================  ==============================================================================================
operator              its solutions, a bag
====================  ==============================================================================================
`Conjunction`         the matches of pattern atoms, each over its window; without atoms: one empty solution
`Join`                combinations of one solution of each part that agree on their shared variables
`LeftJoin`            left solutions extended by each agreeing right solution that meets the condition, or unextended
`Union`               the solutions of all branches
`Filter`              the inner solutions for which the condition holds
`SemiJoin`            left solutions with an agreeing right solution (FILTER EXISTS), or without (FILTER NOT EXISTS)
`Minus`               left solutions for which no right solution agrees and shares a bound variable
`Extend`              the inner solutions with one more variable (BIND, AS)
`Unwind`              the inner solutions, once for each element of a list, which one more variable has (UNWIND of Cypher)
`Values`              the rows of a table in the query
`ReportTime`          one solution, with the time of the report as NOW()
`Group`               one solution for each group of inner solutions, with the aggregates of the group
`Project`             the inner solutions, restricted to the columns
`Distinct`            the inner solutions without duplicates
`Slice`               the inner solutions at some positions of an order (ORDER BY, LIMIT, OFFSET), restricted to the columns
====================  ==============================================================================================

A variable is identified by its name. Variables that a subselect does not project have names that no query text can contain
(`x.1`), as do blank nodes (`_:b`) and the variables between the steps of a path (`_:.3`). A term is identified by its text:
an IRI as it is, a literal in N-Triples form (`rpq.stream.names.terms`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, assert_never

from rpq.automata.expressions import NegatedSet
from rpq.language import edge_variables
from rpq.language.linear_comparisons import LinearComparison
from rpq.language.pattern import Atom, Blank, Constant, Term, Variable, edge_column, node_column
from rpq.stream.durations import NANOSECONDS, duration_text
from rpq.stream.window import Window

Form = Literal["select", "ask", "construct"]
Reporting = Literal["ISTREAM", "DSTREAM", "RSTREAM"]
Dialect = Literal["rsp-ql", "csparql", "cqels"]
AggregateName = Literal["COUNT", "SUM", "AVG", "MIN", "MAX", "SAMPLE", "GROUP_CONCAT", "COLLECT"]

ALWAYS_BOUND: frozenset[AggregateName] = frozenset({"COUNT", "COLLECT"})
"""The aggregates that every group has."""


# --- formulas, which SPARQL calls expressions ------------------------------------------------------------------------


class TermFunction(Protocol):
    """A function from terms, None for those that are unbound, to a term. Its text is what it computes."""

    def __call__(self, *terms: str | None) -> str:
        """Return the result. Raises `NoValue`."""


@dataclass(frozen=True)
class FunctionCall:
    """A function or an operator with its arguments: `<`, `&&`, `STRLEN`, `IF`, `IN`, or the IRI of a cast.

    In MATCH it is a function of terms, in place of the name of one.
    """

    function: str | TermFunction
    arguments: tuple[Formula, ...]


@dataclass(frozen=True)
class Exists:
    """A condition: whether the body has a solution that agrees with the bindings around it, or has none if negated."""

    body: Operator
    is_negated: bool


@dataclass(frozen=True)
class Aggregate:
    """An aggregate of a group: a function over the values of a formula (None for COUNT(*), which counts solutions)."""

    function: AggregateName
    argument: Formula | None
    is_distinct: bool
    skips_unbound: bool = False
    """True if SUM, AVG, MIN and MAX are those of the bound values, as in MATCH; otherwise they are unbound where a value is.
    """
    separator: str = " "
    """The text between the values of GROUP_CONCAT."""


@dataclass(frozen=True)
class EdgeCondition:
    """A condition on vertices and on values of edges, in the language of filters of patterns; SPARQL has none."""

    filter: edge_variables.BindingFilter


@dataclass(frozen=True)
class EdgeValue:
    """A value of a node or an edge, which is a vertex among the bindings (`rpq.language.edge_variables`); SPARQL has none.

    Where it `is_summed`, it is a number or a text for aggregates; for those that need a number it `is_number`. To the labels
    of a node those in a text are added which the variable `more` has, with `BETWEEN_LABELS` between them. Where it
    `is_typed`, it is the literal of its type, for functions; loose values and identities of edges are plain texts.
    """

    value: edge_variables.Value
    is_summed: bool = False
    is_number: bool = False
    more: str | None = None
    is_typed: bool = False


BETWEEN_LABELS = "\0"
"""The character between labels in a text; the names of vertices do not have it."""


Formula = Variable | Constant | FunctionCall | Exists | Aggregate | EdgeCondition | EdgeValue
"""Aggregates occur in formulas only during parsing; afterwards they are part of `Group`."""


# --- operators -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WindowAtom:
    """A pattern atom, and the name of the window, or else the graph, that it reads (None for the default graph).

    With a `predicate` it matches the edges of all labels, which this variable has; the expression is then `!()`.
    """

    atom: Atom
    window: str | None = None
    predicate: Variable | None = None

    @classmethod
    def of_every_label(cls, subject: Term, predicate: Variable, object_: Term, window: str | None = None) -> WindowAtom:
        """Return the atom of a triple whose predicate is a variable.

        >>> WindowAtom.of_every_label(Variable("s"), Variable("p"), Variable("o")).atom.reads
        '!()'
        """
        return cls(Atom(subject, NegatedSet(()), object_), window, predicate)


@dataclass(frozen=True)
class Conjunction:
    """Pattern atoms joined by shared variables, which the pattern kernels evaluate as a whole.

    Solutions for which one of the `comparisons`, over its variables, does not hold are not needed.
    """

    atoms: tuple[WindowAtom, ...]
    comparisons: tuple[LinearComparison, ...] = ()
    restricted: tuple[tuple[str, frozenset[str]], ...] = ()
    """Variables with the only terms that are of use; their solutions with other terms may be left out."""


@dataclass(frozen=True)
class Join:
    """Two or more parts; no part is itself a join, and at most one is a conjunction."""

    parts: tuple[Operator, ...]


@dataclass(frozen=True)
class LeftJoin:
    """OPTIONAL: the variables of both sides are in scope in `condition`, which is always true if it is None."""

    left: Operator
    right: Operator
    condition: Formula | None


@dataclass(frozen=True)
class Union:
    """Two or more branches; no branch is itself a union."""

    branches: tuple[Operator, ...]


@dataclass(frozen=True)
class Filter:
    """FILTER with one condition; a conjunction of conditions becomes several filters."""

    inner: Operator
    condition: Formula


@dataclass(frozen=True)
class SemiJoin:
    """FILTER EXISTS, or NOT EXISTS if `is_negated`; the variables of the left are in scope in formulas on the right."""

    left: Operator
    right: Operator
    is_negated: bool


@dataclass(frozen=True)
class Minus:
    """MINUS; the variables of the left are not in scope on the right."""

    left: Operator
    right: Operator


@dataclass(frozen=True)
class Extend:
    """BIND and AS; the variable is unbound where the formula has no value."""

    inner: Operator
    variable: str
    formula: Formula
    is_joined: bool = False
    """True to compare a value of the variable from the row around EXISTS with that of the formula, False to replace it."""


@dataclass(frozen=True)
class Unwind:
    """UNWIND of Cypher: each solution once for each element of a list, the value of the formula; no solution for null.

    The variable has the element, and is unbound for null. SPARQL has none.
    """

    inner: Operator
    variable: str
    formula: Formula


@dataclass(frozen=True)
class Values:
    """VALUES: rows of terms; None is UNDEF."""

    variables: tuple[str, ...]
    rows: tuple[tuple[str | None, ...], ...]


@dataclass(frozen=True)
class ReportTime:
    """One solution, in which the variable `NOW` has the time of the report, which differs from report to report."""


NOW = ".now"
"""The variable that has the time of the report."""


@dataclass(frozen=True)
class Group:
    """GROUP BY: a group for each combination of keys that occurs; without keys, always one group."""

    inner: Operator
    keys: tuple[str, ...]
    aggregates: tuple[tuple[str, Aggregate], ...]


@dataclass(frozen=True)
class Project:
    """The columns of SELECT, in order."""

    inner: Operator
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Distinct:
    """DISTINCT."""

    inner: Operator


@dataclass(frozen=True)
class Slice:
    """ORDER BY, LIMIT and OFFSET: the solutions from position `offset` of their order on, at most `limit` of them.

    The order is that of the variables in `order`, each ascending or, with True, descending, by value; solutions that agree
    in these are in the order of the `columns`, by value and then by text: so the position of a solution is determined.
    """

    inner: Operator
    columns: tuple[str, ...]
    order: tuple[tuple[str, bool], ...]
    offset: int
    limit: int | None


Operator = (
    Conjunction
    | Join
    | LeftJoin
    | Union
    | Filter
    | SemiJoin
    | Minus
    | Extend
    | Unwind
    | Values
    | ReportTime
    | Group
    | Project
    | Distinct
    | Slice
)

UNIT = Conjunction(())
"""One empty solution."""


# --- a whole query ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TimeExtent:
    """A time window: size and slide in nanoseconds, or in units of the stream's time where they are plain numbers.

    Without a slide, the slide is one unit of the stream's time.
    """

    size: int
    slide: int | None
    is_number: bool = False

    def window(self, unit: str | None = None) -> Window:
        """Return the window in the stream's unit (s, ms, us, ns). Raises `QueryError` if it is not a whole number of units.

        Without a unit, durations are in nanoseconds, and a slide of one unit is one.

        >>> TimeExtent(7200 * 10**9, None).window("s"), TimeExtent(7200, 60, True).window("s")
        (Window(size=7200, slide=1), Window(size=7200, slide=60))
        """
        if self.is_number:
            return Window(size=self.size, slide=self.slide or 1)
        if unit is None:
            return Window(size=self.size, slide=self.slide or 1, unit="ns")
        return Window(size=self.size, slide=self.slide or NANOSECONDS[unit], unit="ns").in_unit(unit)

    def __str__(self) -> str:
        text = str if self.is_number else duration_text
        return f"RANGE {text(self.size)} STEP {'one unit' if self.slide is None else text(self.slide)}"


@dataclass(frozen=True)
class CountExtent:
    """A window of the last `size` inserts, which moves every `step` inserts."""

    size: int
    step: int

    def __str__(self) -> str:
        return f"COUNT {self.size} STEP {self.step}"


@dataclass(frozen=True)
class UnboundedExtent:
    """A window that edges leave only by deletes."""

    def __str__(self) -> str:
        return "UNBOUNDED"


Extent = TimeExtent | CountExtent | UnboundedExtent


@dataclass(frozen=True, kw_only=True)
class WindowDeclaration:
    """A named window: its stream (None for the merged stream) and its extent."""

    name: str
    stream: str | None
    extent: Extent


class TemplateTriple(NamedTuple):
    """A triple of the template of CONSTRUCT, and the graph in which it is; None for the default graph."""

    subject: Term
    predicate: str | Variable
    object: Term
    graph: Variable | Constant | None = None

    @property
    def terms(self) -> tuple[Term, ...]:
        """Its terms; the predicate is among them if it is a variable."""
        return tuple(term for term in self if term is not None and not isinstance(term, str))


@dataclass(frozen=True, kw_only=True)
class SparqlQuestion:
    """The parsed form of a query text.

    The solutions of `body` are the rows of SELECT, with `columns`; ASK returns whether there is a solution; CONSTRUCT
    creates the edges of `template` for each solution. `graphs` are those of FROM, and `named_graphs` those of FROM NAMED,
    whose edges have no time. A query that `reads_dataset` has a GRAPH with a variable that reads all named graphs, which are
    those of the `dataset`. `reporting` is the content of each report, None if every change is reported, and `name` that of
    REGISTER. `warnings` report constructs that may not mean what was intended.
    """

    text: str
    form: Form
    body: Operator
    columns: tuple[str, ...] = ()
    template: tuple[TemplateTriple, ...] = ()
    windows: tuple[WindowDeclaration, ...] = ()
    graphs: tuple[str, ...] = ()
    named_graphs: tuple[str, ...] = ()
    reads_dataset: bool = False
    dataset: tuple[str, ...] = ()
    dialect: Dialect = "rsp-ql"
    reporting: Reporting | None = None
    name: str | None = None
    warnings: tuple[str, ...] = ()

    @property
    def makes_quads(self) -> bool:
        """True if a triple of the template is in a graph."""
        return any(triple.graph is not None for triple in self.template)

    @property
    def shows_removals(self) -> bool:
        """True if rows show which answers leave."""
        return self.reporting in (None, "DSTREAM")


# --- building --------------------------------------------------------------------------------------------------------


def name_of(term: Term) -> str | None:
    """Return the name under which an atom binds a term, or None for a constant.

    >>> name_of(Variable("x")), name_of(Blank("b")), name_of(Constant("bob"))
    ('x', '_:b', None)
    """
    if isinstance(term, Variable):
        return term.name
    return f"_:{term.name}" if isinstance(term, Blank) else None


def make_join(*parts: Operator) -> Operator:
    """Return the join of parts. Nested joins are flattened, conjunctions merged, and a single part is returned unchanged.

    >>> make_join(UNIT, Values(("x",), ())) == Values(("x",), ())
    True
    """
    flat = [one for part in parts for one in (part.parts if isinstance(part, Join) else (part,))]
    atoms = tuple(atom for part in flat if isinstance(part, Conjunction) for atom in part.atoms)
    others = [part for part in flat if not isinstance(part, Conjunction)]
    operands = [Conjunction(atoms), *others] if atoms or not others else others
    return operands[0] if len(operands) == 1 else Join(tuple(operands))


def make_union(*branches: Operator) -> Operator:
    """Return the union of branches. Nested unions are flattened, and a single branch is returned unchanged."""
    flat = [one for branch in branches for one in (branch.branches if isinstance(branch, Union) else (branch,))]
    return flat[0] if len(flat) == 1 else Union(tuple(flat))


def conditions_of(formula: Formula) -> list[Formula]:
    """Return the conjuncts of a formula, that is, the operands of its `&&`.

    A filter treats an error like false, so it can evaluate the conjuncts one by one.
    """
    if isinstance(formula, FunctionCall) and formula.function == "&&":
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
    """Return the variables that a solution may bind, that is, those in scope. O(size)."""
    match operator:
        case Conjunction(atoms):
            return frozenset(name for one in atoms for name in _names(one))
        case Join(parts) | Union(parts):
            return frozenset().union(*map(possible_variables, parts))
        case LeftJoin(left, right):
            return possible_variables(left) | possible_variables(right)
        case Filter(inner) | Distinct(inner) | SemiJoin(inner) | Minus(inner):
            return possible_variables(inner)
        case Extend(inner, variable) | Unwind(inner, variable):
            return possible_variables(inner) | {variable}
        case Values(variables):
            return frozenset(variables)
        case ReportTime():
            return frozenset({NOW})
        case Group(_, keys, aggregates):
            return frozenset(keys) | {name for name, _ in aggregates}
        case Project(_, columns) | Slice(_, columns):
            return frozenset(columns)


def certain_variables(operator: Operator) -> Names:
    """Return the variables that every solution binds. O(size)."""
    match operator:
        case Conjunction() | ReportTime():
            return possible_variables(operator)
        case Join(parts):
            return frozenset().union(*map(certain_variables, parts))
        case Union(branches):
            return frozenset.intersection(*map(certain_variables, branches))
        case LeftJoin(inner) | Filter(inner) | Distinct(inner) | SemiJoin(inner) | Minus(inner) | Unwind(inner):
            return certain_variables(inner)
        case Extend(inner, variable, formula):
            inner_names = certain_variables(inner)
            has_value = isinstance(formula, Constant) or (isinstance(formula, Variable) and formula.name in inner_names)
            return inner_names | {variable} if has_value else inner_names
        case Values(variables, rows):
            return frozenset(name for place, name in enumerate(variables) if all(row[place] is not None for row in rows))
        case Group(inner, keys, aggregates):
            return (certain_variables(inner) & frozenset(keys)) | {
                name for name, one in aggregates if one.function in ALWAYS_BOUND
            }
        case Project(inner, columns) | Slice(inner, columns):
            return certain_variables(inner) & frozenset(columns)


def variables_of(formula: Formula) -> Names:
    """Return the variables on which the value of a formula may depend, including those that an EXISTS shares."""
    match formula:
        case Variable(name):
            return frozenset({name})
        case Constant():
            return frozenset()
        case FunctionCall(_, arguments):
            return frozenset().union(*map(variables_of, arguments))
        case Exists(body):
            return mentioned_variables(body)
        case Aggregate(_, argument):
            return frozenset() if argument is None else variables_of(argument)
        case EdgeCondition(condition):
            compared = (one for same in condition.same_terms for one in (same.left, same.right))
            return frozenset(map(column_of_value, (*condition.values, *compared)))
        case EdgeValue(value, more=more):
            return frozenset({column_of_value(value)} if more is None else {column_of_value(value), more})


def column_of_value(value: edge_variables.Value) -> str:
    """Return the variable of a value: that of the vertex, of the edge as a vertex, or of what stands for the property.

    >>> column_of_value(edge_variables.Value("property", "e", "amount"))
    '.e'
    """
    if value.kind == "fact":
        return node_column(value.variable, value.name)
    return value.variable if value.kind == "vertex" else edge_column(value.variable)


def binding_of_value(value: edge_variables.Value) -> str:
    """Return the variable of the vertex or the edge that has a value.

    >>> binding_of_value(edge_variables.Value("fact", "x", "risk"))
    'x'
    """
    return value.variable if value.kind == "fact" else column_of_value(value)


def mentioned_variables(operator: Operator) -> Names:
    """Return every variable that occurs anywhere in an operator, bound or used."""
    found = possible_variables(operator)
    for formula in formulas_of(operator):
        found |= variables_of(formula)
    for inner in children(operator):
        found |= mentioned_variables(inner)
    return found


def variables_in_order(operator: Operator) -> tuple[str, ...]:
    """Return every variable that occurs in an operator, in the order of first occurrence, which no renaming changes.

    >>> from rpq.language.sparql.syntax.reading import read
    >>> variables_in_order(read("SELECT ?a ?c { ?c <x> ?b BIND(?b + ?d AS ?a) }").body)
    ('c', 'b', 'd', 'a')
    """
    return tuple(dict.fromkeys(_occurrences(operator)))


def _occurrences(operator: Operator) -> Iterator[str]:
    for inner in children(operator):
        yield from _occurrences(inner)
    for formula in formulas_of(operator):
        yield from _occurrences_in_formula(formula)
    match operator:
        case Conjunction(atoms):
            for one in atoms:
                yield from _names(one)
        case Extend(_, variable) | Unwind(_, variable):
            yield variable
        case Values(variables):
            yield from variables
        case ReportTime():
            yield NOW
        case Group(_, keys, aggregates):
            yield from keys
            yield from (name for name, _ in aggregates)
        case Join() | LeftJoin() | Union() | Filter() | SemiJoin() | Minus() | Project() | Distinct() | Slice():
            pass  # they bind no variable that an operand does not
        case _:
            assert_never(operator)


def _occurrences_in_formula(formula: Formula) -> Iterator[str]:
    match formula:
        case Variable(name):
            yield name
        case FunctionCall(_, arguments):
            for argument in arguments:
                yield from _occurrences_in_formula(argument)
        case Exists(body):
            yield from _occurrences(body)
        case Aggregate(_, argument) if argument is not None:
            yield from _occurrences_in_formula(argument)
        case EdgeCondition() | EdgeValue():
            yield from sorted(variables_of(formula))


def is_monotone(operator: Operator) -> bool:
    """Return whether more edges can only add solutions.

    There is no OPTIONAL, MINUS, NOT EXISTS, aggregate, LIMIT or OFFSET, and no EXISTS in a formula.
    EXISTS as a condition of its own is monotone; inside another formula it may be negated.
    """
    match operator:
        case LeftJoin() | Minus() | Group() | Slice() | SemiJoin(is_negated=True):
            return False
        case Conjunction() | Values() | ReportTime() | Join() | Union() | Filter() | SemiJoin() | Extend():
            pass
        case Project() | Distinct() | Unwind():
            pass
        case _:
            assert_never(operator)
    return all(map(is_monotone, children(operator))) and not any(map(has_exists, formulas_of(operator)))


def windows_read(operator: Operator) -> dict[str | None, tuple[WindowAtom, ...]]:
    """Return the atoms that read each window or graph, in order, also in EXISTS; None is the default graph. O(size)."""
    found: dict[str | None, list[WindowAtom]] = {}
    for one in atoms_of(operator):
        found.setdefault(one.window, []).append(one)
    return {window: tuple(atoms) for window, atoms in found.items()}


def operators_of(operator: Operator) -> Iterator[Operator]:
    """Yield an operator and all operators in it, including those in EXISTS inside formulas."""
    yield operator
    for inner in children(operator):
        yield from operators_of(inner)
    for formula in formulas_of(operator):
        for body in bodies_of(formula):
            yield from operators_of(body)


def atoms_of(operator: Operator) -> Iterator[WindowAtom]:
    """Yield all atoms, including those in EXISTS inside formulas."""
    for one in operators_of(operator):
        if isinstance(one, Conjunction):
            yield from one.atoms


def reads_default(operator: Operator) -> bool:
    """Return whether an atom of an operator is outside every WINDOW and GRAPH."""
    return any(one.window is None for one in atoms_of(operator))


def children(operator: Operator) -> tuple[Operator, ...]:
    """Return the direct operands of an operator, from left to right."""
    match operator:
        case Join(parts) | Union(parts):
            return parts
        case LeftJoin(left, right) | SemiJoin(left, right) | Minus(left, right):
            return (left, right)
        case Filter(inner) | Extend(inner) | Unwind(inner) | Group(inner) | Project(inner) | Distinct(inner) | Slice(inner):
            return (inner,)
        case Conjunction() | Values() | ReportTime():
            return ()


def formulas_of(operator: Operator) -> tuple[Formula, ...]:
    """Return the formulas of an operator, without those of its operands."""
    match operator:
        case Filter(_, condition):
            return (condition,)
        case LeftJoin(_, _, condition):
            return () if condition is None else (condition,)
        case Extend(_, _, formula) | Unwind(_, _, formula):
            return (formula,)
        case Group(_, _, aggregates):
            return tuple(one.argument for _, one in aggregates if one.argument is not None)
        case Conjunction() | Join() | SemiJoin() | Union() | Minus() | Values() | ReportTime():
            return ()
        case Project() | Distinct() | Slice():
            return ()


def bodies_of(formula: Formula) -> Iterator[Operator]:
    """Yield the bodies of EXISTS in a formula."""
    if isinstance(formula, Exists):
        yield formula.body
    elif isinstance(formula, FunctionCall):
        for argument in formula.arguments:
            yield from bodies_of(argument)
    elif isinstance(formula, Aggregate) and formula.argument is not None:
        yield from bodies_of(formula.argument)


def aggregates_in(formula: Formula) -> Iterator[Aggregate]:
    """Yield the aggregates in a formula, except those inside EXISTS."""
    if isinstance(formula, Aggregate):
        yield formula
    elif isinstance(formula, FunctionCall):
        for argument in formula.arguments:
            yield from aggregates_in(argument)


def has_exists(formula: Formula | None) -> bool:
    """Return whether a formula contains an EXISTS."""
    return formula is not None and any(True for _ in bodies_of(formula))


def _names(one: WindowAtom) -> list[str]:
    terms = [one.atom.subject, *([] if one.predicate is None else [one.predicate]), one.atom.object]
    return [name for term in terms if (name := name_of(term)) is not None]
