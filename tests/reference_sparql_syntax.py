"""SPARQL queries as values: what the reader of the oracle gives, its evaluator reads and random tests draw.

The tree follows the text, not the algebra: a group keeps its elements in their order, and the evaluator does with them
what §18.2.2 of the standard says. `write` turns a tree into text again; `parse(write(query)) == query`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Literal, NamedTuple

from rpq.automata.expressions import Alternation, Concatenation, Expression, Inverse, Label, NegatedSet, Repetition
from tests.reference_pattern_stream import Window
from tests.reference_patterns import Blank, Constant, Term, Variable
from tests.reference_sparql_values import is_literal

__all__ = ["Blank", "Constant", "Term", "Variable", "Window"]


class Triple(NamedTuple):
    """A path from subject to object, or an edge with a variable as its predicate; in a template an edge."""

    subject: Term
    path: Expression | Term
    object: Term

    @property
    def terms(self) -> tuple[Term, ...]:
        """Its terms, in the order of the text."""
        return (self.subject, *([] if isinstance(self.path, Expression) else [self.path]), self.object)

    @property
    def expression(self) -> Expression:
        """Its path, which with a variable as predicate is one edge of any label."""
        return self.path if isinstance(self.path, Expression) else NegatedSet(())


# --- expressions ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Call:
    """A function, by its name in the grammar or its IRI, or an operator; IN has its alternatives as further arguments."""

    name: str
    arguments: tuple[Formula, ...]


@dataclass(frozen=True)
class Exists:
    """EXISTS or, with `negated`, NOT EXISTS."""

    group: Group
    negated: bool = False


@dataclass(frozen=True)
class Aggregate:
    """COUNT, SUM, AVG, MIN, MAX, SAMPLE or GROUP_CONCAT; without an argument COUNT(*)."""

    name: str
    argument: Formula | None
    distinct: bool = False
    separator: str = " "


Formula = Variable | Constant | Call | Exists | Aggregate


# --- groups ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Triples:
    triples: tuple[Triple, ...]


@dataclass(frozen=True)
class Filter:
    condition: Formula


@dataclass(frozen=True)
class Optional:
    group: Group


@dataclass(frozen=True)
class Union:
    """Groups of which each brings solutions; one alone is a group within the group."""

    groups: tuple[Group, ...]


@dataclass(frozen=True)
class Minus:
    group: Group


@dataclass(frozen=True)
class Bind:
    formula: Formula
    variable: Variable


@dataclass(frozen=True)
class Values:
    """Rows of terms, None for UNDEF."""

    variables: tuple[Variable, ...]
    rows: tuple[tuple[str | None, ...], ...]


@dataclass(frozen=True)
class InWindow:
    """A group that reads a window or, if it `is_graph`, a graph of edges without time, or each whose name a variable has."""

    name: str | Variable
    group: Group
    is_graph: bool = False


@dataclass(frozen=True)
class Group:
    elements: tuple[Element, ...] = ()


@dataclass(frozen=True)
class Column:
    """A selected variable, or with a formula `(formula AS ?variable)`."""

    variable: Variable
    formula: Formula | None = None


@dataclass(frozen=True)
class Condition:
    """A key of GROUP BY: a formula, perhaps with a name."""

    formula: Formula
    variable: Variable | None = None


@dataclass(frozen=True)
class Select:
    """A SELECT, of the query or within a group; without columns `*`."""

    columns: tuple[Column, ...] | None
    body: Group
    modifier: Literal["", "DISTINCT", "REDUCED"] = ""
    group_by: tuple[Condition, ...] = ()
    having: tuple[Formula, ...] = ()
    values: Values | None = None
    order: tuple[tuple[Formula, bool], ...] = ()  # True: descending
    limit: int | None = None
    offset: int = 0

    @property
    def is_slice(self) -> bool:
        """True if it has only the solutions at some positions."""
        return self.limit is not None or self.offset > 0


Element = Triples | Filter | Optional | Union | Minus | Bind | Values | InWindow | Select


@dataclass(frozen=True)
class Query:
    """A query: its form, its SELECT (of ASK and CONSTRUCT `*`), the template of CONSTRUCT, windows, the head of RSP-QL."""

    form: Literal["SELECT", "ASK", "CONSTRUCT"]
    select: Select
    template: tuple[Triple, ...] = ()
    windows: Mapping[str, Window] = field(default_factory=dict)
    operator: Literal["", "ISTREAM", "DSTREAM", "RSTREAM"] = ""
    name: str | None = None
    base: str = ""
    template_graphs: tuple[Term | None, ...] = ()
    """The graph of each triple of the template, None for the default graph; empty if all are there."""

    from_graphs: tuple[str, ...] = ()
    """The graphs of FROM."""
    from_named: tuple[str, ...] = ()
    """The graphs of FROM NAMED."""

    @property
    def makes_quads(self) -> bool:
        return any(graph is not None for graph in self.template_graphs)

    def __hash__(self) -> int:
        return hash((self.form, self.select, self.template))


# --- walking --------------------------------------------------------------------------------------------------------


def formulas_in(formula: Formula) -> Iterator[Formula]:
    """Yield a formula and all below it, without those inside the groups of EXISTS."""
    yield formula
    if isinstance(formula, Call):
        for argument in formula.arguments:
            yield from formulas_in(argument)
    elif isinstance(formula, Aggregate) and formula.argument is not None:
        yield from formulas_in(formula.argument)


def formulas_of(element: Element) -> tuple[Formula, ...]:
    """The formulas that an element has itself, without those of the groups within it."""
    match element:
        case Filter(condition):
            return (condition,)
        case Bind(formula, _):
            return (formula,)
        case Select():
            columns = [column.formula for column in element.columns or () if column.formula is not None]
            return (*columns, *_formulas_of_modifiers(element))
    return ()


def _formulas_of_modifiers(select: Select) -> list[Formula]:
    conditions = [condition.formula for condition in select.group_by]
    return [*conditions, *select.having, *(formula for formula, _ in select.order)]


def groups_of(element: Element) -> tuple[Group, ...]:
    """The groups within an element, those of EXISTS in its formulas too."""
    inside = [below.group for formula in formulas_of(element) for below in formulas_in(formula) if isinstance(below, Exists)]
    match element:
        case Optional(group) | Minus(group) | InWindow(_, group):
            inside.append(group)
        case Union(groups):
            inside += groups
        case Select():
            inside.append(element.body)
    return tuple(inside)


def elements_in(group: Group, window: str | None = None) -> Iterator[tuple[Element, str | None]]:
    """Yield the elements of a group and of all groups within it, with the window that they stand in."""
    for element in group.elements:
        yield element, window
        inner = element.name if isinstance(element, InWindow) else window
        for below in groups_of(element):
            yield from elements_in(below, inner)


def query_elements(query: Query) -> Iterator[tuple[Element, str | None]]:
    return elements_in(Group((query.select,)))


# --- writing --------------------------------------------------------------------------------------------------------


def write_term(term: Term | str) -> str:
    """Write a term: a literal as it is, an IRI in brackets."""
    if isinstance(term, Variable):
        return f"?{term.name}"
    if isinstance(term, Blank):
        return f"_:{term.label}"
    text = term.value if isinstance(term, Constant) else term
    return text if is_literal(text) else f"<{text}>"


def write_path(path: Expression, binding: int = 0) -> str:
    """Write a path in SPARQL's notation; `binding` is how tightly its surroundings bind."""
    match path:
        case Label(name):
            return f"<{name}>"
        case NegatedSet(members):
            inner = "|".join(f"{'^' if member.inverse else ''}<{member.label}>" for member in members)
            return f"!({inner})"
        case Inverse(inner):
            own, text = 2, "^" + write_path(inner, 3)
        case Repetition(inner, minimum, maximum):
            bounds = f"{{{minimum},{'' if maximum is None else maximum}}}"
            sign = {(0, None): "*", (1, None): "+", (0, 1): "?"}.get((minimum, maximum), bounds)
            own, text = 3, write_path(inner, 4) + sign
        case Concatenation(parts):
            own, text = 1, "/".join(write_path(part, 2) for part in parts)
        case Alternation(parts):
            own, text = 0, "|".join(write_path(part, 1) for part in parts)
        case _:
            raise TypeError(path)
    return text if own >= binding else f"({text})"


def write_predicate(triple: Triple) -> str:
    """Write what stands between the ends of a triple."""
    return write_path(triple.path) if isinstance(triple.path, Expression) else write_term(triple.path)


OPERATORS = ("||", "&&", "=", "!=", "<", ">", "<=", ">=", "+", "-", "*", "/")


@dataclass
class Writer:
    """Writes trees as text. `triple` and `window` may be replaced, to write for other engines."""

    triple: Callable[[Triple, str | None], str] = lambda triple, window: (
        f"{write_term(triple.subject)} {write_predicate(triple)} {write_term(triple.object)} ."
    )
    keyword: str = "WINDOW"
    clauses: bool = True
    _window: str | None = None

    def query(self, query: Query) -> str:
        head = f"BASE <{query.base}>\n" if query.base else ""
        if self.clauses and query.operator:
            head += f"REGISTER {query.operator} <{query.name}> AS\n"
        windows = [write_window(name, window) for name, window in query.windows.items()] if self.clauses else []
        windows += [f"FROM <{name}>" for name in query.from_graphs] + [f"FROM NAMED <{name}>" for name in query.from_named]
        clauses = "".join(f"{clause}\n" for clause in windows)
        if query.form == "SELECT":
            return head + self.select(query.select, clauses)
        if query.form == "CONSTRUCT":
            template = " ".join(
                Writer().triple(triple, None)
                if graph is None
                else f"GRAPH {write_term(graph)} {{ {Writer().triple(triple, None)} }}"
                for triple, graph in zip_longest(query.template, query.template_graphs)
            )
            text = f"{head}CONSTRUCT {{ {template} }}\n{clauses}WHERE {self.group(query.select.body)}"
        else:
            text = f"{head}ASK\n{clauses}{self.group(query.select.body)}"
        return "\n".join([text, *self.positions(query.select)])

    def select(self, select: Select, clauses: str = "") -> str:
        columns = "*" if select.columns is None else " ".join(map(self.column, select.columns))
        lines = [f"SELECT {select.modifier} {columns}\n{clauses}WHERE {self.group(select.body)}"]
        if select.group_by:
            lines.append("GROUP BY " + " ".join(map(self.condition, select.group_by)))
        lines += ["HAVING " + " ".join(f"({self.formula(f)})" for f in select.having)] if select.having else []
        lines += self.positions(select)
        lines += [self.element(select.values)] if select.values else []
        return "\n".join(lines)

    def positions(self, select: Select) -> list[str]:
        order = [f"{'DESC' if descending else 'ASC'}({self.formula(formula)})" for formula, descending in select.order]
        lines = [f"ORDER BY {' '.join(order)}"] if order else []
        lines += [] if select.limit is None else [f"LIMIT {select.limit}"]
        return [*lines, f"OFFSET {select.offset}"] if select.offset else lines

    def column(self, column: Column) -> str:
        name = write_term(column.variable)
        return name if column.formula is None else f"({self.formula(column.formula)} AS {name})"

    def condition(self, condition: Condition) -> str:
        if isinstance(condition.formula, Variable) and condition.variable is None:
            return write_term(condition.formula)
        return f"({self.formula(condition.formula)}{' AS ' + write_term(condition.variable) if condition.variable else ''})"

    def group(self, group: Group) -> str:
        return "{ " + " ".join(map(self.element, group.elements)) + " }"

    def element(self, element: Element) -> str:
        match element:
            case Triples(triples):
                return " ".join(self.triple(triple, self._window) for triple in triples)
            case Filter(condition):
                return f"FILTER ({self.formula(condition)})"
            case Optional(group):
                return f"OPTIONAL {self.group(group)}"
            case Union(groups):
                return " UNION ".join(map(self.group, groups))
            case Minus(group):
                return f"MINUS {self.group(group)}"
            case Bind(formula, variable):
                return f"BIND ({self.formula(formula)} AS {write_term(variable)})"
            case Values(variables, rows):
                names = " ".join(map(write_term, variables))
                lines = " ".join("(" + " ".join("UNDEF" if t is None else write_term(t) for t in r) + ")" for r in rows)
                return f"VALUES ({names}) {{ {lines} }}"
            case InWindow(name, group, is_graph):
                before, self._window = self._window, name
                text = f"{'GRAPH' if is_graph else self.keyword} {write_term(name)} {self.group(group)}"
                self._window = before
                return text
            case Select():
                return "{ " + self.select(element) + " }"
        raise TypeError(element)

    def formula(self, formula: Formula) -> str:
        match formula:
            case Variable() | Constant():
                return write_term(formula)
            case Exists(group, negated):
                return f"{'NOT ' if negated else ''}EXISTS {self.group(group)}"
            case Aggregate(name, argument, distinct):
                inner = "*" if argument is None else self.formula(argument)
                separator = f' ; SEPARATOR = "{formula.separator}"' if formula.separator != " " else ""
                return f"{name}({'DISTINCT ' if distinct else ''}{inner}{separator})"
            case Call("IN" | "NOT IN", (first, *others)):
                return f"({self.formula(first)} {formula.name} ({', '.join(map(self.formula, others))}))"
            case Call(name, (left, right)) if name in OPERATORS:
                return f"({self.formula(left)} {name} {self.formula(right)})"
            case Call("!" | "+" | "-", (inner,)):
                return f"({formula.name}({self.formula(inner)}))"
            case Call(name, arguments):
                return f"{'<' + name + '>' if ':' in name else name}({', '.join(map(self.formula, arguments))})"
        raise TypeError(formula)


def write_window(name: str, window: Window) -> str:
    """Write the clause of a window, a time window by durations of as many seconds as it has units."""
    stream = "" if window.stream is None else f" ON <{window.stream}>"
    match window.kind:
        case "time":
            extent = f"RANGE PT{window.size}S STEP PT{window.slide}S"
        case "count":
            extent = f"COUNT {window.size} STEP {window.slide}"
        case _:
            extent = "UNBOUNDED"
    return f"FROM NAMED WINDOW <{name}>{stream} [{extent}]"


def write(query: Query) -> str:
    return Writer().query(query)
