"""Graph patterns: their notation, and the columns of their rows.

A pattern consists of atoms separated by dots, as in `?x a2q/c2a* ?y . ?y c2q ?z`:

    pattern   atom ('.' atom)* '.'?        a dot is followed by a blank, or by the end
    atom      term ('?' name ':')? path term   a path as in `rpq.automata.parser`; blanks around it
            | term '(' path order ')' term     a path whose edges are in an order in time
            | vertex test                      a test alone
    order     'in' 'non-decreasing'? 'order' ('within' duration)? ('gap' duration)?   a duration is 6h, 500ms, or a number
    term      vertex test?
    vertex    '?' name                     a variable
            | '_:' name                    a blank node: a variable that cannot be selected
            | name | '<…>' | '"…"'         a constant, the vertex with that name
    test      '[' text ']'                 what the vertex has to satisfy (`rpq.language.conditions.node_test_of`)

In an expression, a `?` before a letter begins a variable; a `?` before a blank or an operator is a quantifier. A variable
before an expression of one step, `?e:transfer`, is an edge variable (`rpq.language.edge_variables`).

The test of a vertex is an atom of its own, behind the others: an edge from the vertex to itself, which is there while the
vertex satisfies the test (`rpq.stream.names.stream_labels.NodeTest`). A term that only tests have is a vertex with a record.
"""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NoReturn, TypeVar
from weakref import WeakValueDictionary

import rpq.automata as automata
from rpq.automata.expressions import Expression, Inverse, Label
from rpq.automata.parser import parse_name
from rpq.automata.symbols import LabelSymbol, bare_name_end, starts_name, write_name
from rpq.errors import ExpressionError, QueryError
from rpq.language.conditions import parse_expression_prefix, parse_node_test, with_hint
from rpq.language.edge_variables import BindingFilter, Value, is_one_step, read_filter, value_of
from rpq.language.time_order import TimeOrder, time_order
from rpq.stream.edges.edge_ends import Ends
from rpq.stream.names.stream_labels import EDGE_ENDS, EdgeEnd, NodeLabel, NodeTest, NodeValue
from rpq.stream.names.terms import lexical_form

_Member = TypeVar("_Member")

MAX_ATOMS = 32
_EDGE_VARIABLE = re.compile(r"\?(\w+):\s*")


@dataclass(frozen=True)
class Variable:
    """A variable `?name`."""

    name: str

    def __str__(self) -> str:
        return f"?{self.name}"


@dataclass(frozen=True)
class Blank:
    """A blank node `_:name`: a variable that cannot be selected."""

    name: str

    def __str__(self) -> str:
        return f"_:{self.name}"


@dataclass(frozen=True)
class Constant:
    """The vertex with a name. A name that begins with `"` also denotes the vertex named by its lexical form."""

    name: str

    def __str__(self) -> str:
        return self.name if self.name.startswith('"') else write_name(self.name)


Term = Variable | Blank | Constant


@dataclass(frozen=True)
class Atom:
    """A path expression between two terms.

    >>> [atom.edge for atom in parse_pattern("?x ^knows ?y . ?x knows* ?z")]
    [(Variable(name='y'), 'knows', Variable(name='x')), None]
    """

    subject: Term
    expression: Expression
    object: Term
    variable: str | None = None
    """The edge variable, which binds the edge."""
    order: TimeOrder | None = None
    """The order in time of the edges of a path."""

    @cached_property
    def edge(self) -> tuple[Term, LabelSymbol, Term] | None:
        """The ends and the label of an edge atom, in the direction of the edge.

        None for other atoms, and for atoms with an edge variable or an order.
        """
        if self.variable is not None or self.order is not None:
            return None
        if isinstance(self.expression, Label):
            return self.subject, self.expression.name, self.object
        if isinstance(self.expression, Inverse) and isinstance(self.expression.inner, Label):
            return self.object, self.expression.inner.name, self.subject
        return None

    @cached_property
    def fact(self) -> NodeLabel | None:
        """The label of an atom that reads facts of nodes, None for others.

        >>> [str(atom) for atom in parse_pattern("?x[3 < risk] a ?y") if atom.fact is not None]
        ['?x[risk > 3]']
        """
        label = self.expression.name if isinstance(self.expression, Label) else None
        return label if isinstance(label, NodeLabel) else None

    def __str__(self) -> str:
        if isinstance(self.fact, NodeTest):
            return f"{self.subject}[{self.fact.condition}]"
        named = "" if self.variable is None else f"?{self.variable}:"
        return f"{self.subject} {named}{self.reads} {self.object}"

    @property
    def reads(self) -> str:
        """The text between its terms, without an edge variable.

        >>> parse_pattern("?x ( a+ in order gap 90m ) ?y")[0].reads
        '(a+ in order gap 90m)'
        """
        return str(self.expression) if self.order is None else f"({self.expression} {self.order.text})"


def merge_overlapping(sets: Sequence[set[_Member]]) -> list[tuple[set[_Member], list[int]]]:
    """Merge sets that overlap, directly or through others. Return each union with the places of its sets, in order.

    >>> [(sorted(union), places) for union, places in merge_overlapping([{"x"}, {"y", "z"}, {"x", "w"}, set()])]
    [(['w', 'x'], [0, 2]), (['y', 'z'], [1]), ([], [3])]
    """
    parts: list[tuple[set[_Member], list[int]]] = []
    for place, union in enumerate(sets):
        places, disjoint = [place], []
        for part in parts:
            if part[0] & union:
                union = part[0] | union
                places += part[1]
            else:
                disjoint.append(part)
        parts = [*disjoint, (union, sorted(places))]
    return sorted(parts, key=lambda part: part[1][0])


def never_simple(atoms: Iterable[Atom]) -> tuple[str, ...]:
    """Return a warning for each atom that joins a term with itself, which no simple path does.

    A literal may stand for another vertex at each end.

    >>> print(*never_simple(parse_pattern("?x transfer{3,4} ?x")))  # doctest: +NORMALIZE_WHITESPACE
    ?x transfer{3,4} ?x never matches: no simple path leads from a vertex to itself; write paths="simple_cycle" for cycles
    that visit no other vertex twice, or paths="walk"
    """
    return tuple(
        f'{atom} never matches: no simple path leads from a vertex to itself; write paths="simple_cycle" for cycles that '
        'visit no other vertex twice, or paths="walk"'
        for atom in dict.fromkeys(atoms)
        if atom.fact is None
        and atom.subject == atom.object
        and not (isinstance(atom.subject, Constant) and len(vertices_of(atom.subject)) > 1)
    )


def parse_pattern(text: str) -> tuple[Atom, ...]:
    """Parse a pattern to its atoms. Raises `ExpressionError`, which points to the column. O(length).

    >>> [str(atom) for atom in parse_pattern("?x a2q / c2a* ?y . ?y knows bob")]
    ['?x a2q/c2a* ?y', '?y knows bob']
    >>> [str(atom) for atom in parse_pattern("?x[:Account] transfer ?y . ?y[risk > 3]")]
    ['?x transfer ?y', '?x[:Account]', '?y[risk > 3]']
    """
    try:
        return _atoms_of(text)
    except automata.ExpressionError as error:
        raise with_hint(error) from None


def _atoms_of(text: str) -> tuple[Atom, ...]:
    atoms: list[Atom] = []
    tests: list[Atom] = []
    place = _skip(text, 0)
    while place < len(text) or not (atoms or tests):
        if len(atoms) + len(tests) >= MAX_ATOMS:
            _fail(text, place, "too many atoms", f"at most {MAX_ATOMS}, tests of vertices among them")
        subject, test, place = _tested_term(text, place, "the subject of an atom")
        tests += test
        if test and (place == len(text) or text[place] == "."):
            place = _next_atom(text, place)
            continue
        variable, start = _edge_variable(text, place)
        expression, order, place = _expression(text, start)
        if variable is not None and order is not None:
            _fail(text, start, "an edge variable before a path in time order", "an expression without an order")
        if variable is not None and not is_one_step(expression):
            expected = "a label, ^, | or !(…), with conditions: an edge variable binds one edge"
            _fail(text, start, f"{expression} is no single step", expected)
        expected = "'/', '|', a quantifier (* + ? {n,m}), or the object of the atom"
        object_, test, place = _tested_term(text, _skip(text, place), expected)
        tests += test
        atoms.append(Atom(subject, expression, object_, variable, order))
        place = _next_atom(text, place)
    bound = {term for atom in atoms for term in (atom.subject, atom.object)}
    alone = dict.fromkeys(test.subject for test in tests if test.subject not in bound)
    tests += [_test_atom(term, "") for term in alone]
    return (*atoms, *dict.fromkeys(tests))


def _next_atom(text: str, place: int) -> int:
    """Return the place of the next atom, behind a dot; `place` is behind an atom and blanks."""
    if place == len(text):
        return place
    if text[place] != "." or not (text[place + 1 : place + 2].isspace() or place + 1 == len(text)):
        _fail(text, place, f"unexpected '{text[place]}'", "'.' and a blank before the next atom, or the end")
    return _skip(text, place + 1)


def _test_atom(term: Term, test: str) -> Atom:
    return Atom(term, Label(NodeTest("node", test)), term)


def _tested_term(text: str, place: int, expected: str) -> tuple[Term, list[Atom], int]:
    """Return a term, the atom of its test if it has one, and the position after them and blanks."""
    term, end = _term(text, place, expected)
    end = _skip(text, end)
    if not text.startswith("[", end):
        return term, [], end
    test, end = parse_node_test(text, end)
    if isinstance(term, Constant) and len(vertices_of(term)) > 1:
        _fail(text, place, "the test of a literal, which means two vertices", "the name of the vertex in <…>")
    return term, [_test_atom(term, test)], _skip(text, end)


_ORDER = re.compile(r"in\s+(non-decreasing\s+)?order(?=[\s)]|$)")
_TIME_BOUND = re.compile(r"(within|gap)(?=[\s)]|$)")
_LENGTH = re.compile(r"[^\s()]*")
_LENGTHS = {"within": "max_span", "gap": "max_gap"}
_ENCLOSED = "one pair of parentheses around the whole expression of the atom, as in ?x (a/b+ in order) ?y"


def _expression(text: str, start: int) -> tuple[Expression, TimeOrder | None, int]:
    """Return the expression of an atom, its order in time if it has one, and the position after it and blanks."""
    ordered = _split_order(text, start) if text.startswith("(", start) else None
    if ordered is not None:
        return ordered
    try:
        expression, place = parse_expression_prefix(text, start)
    except automata.ExpressionError as problem:
        if _ORDER.match(text, problem.column - 1):
            _fail(text, problem.column - 1, "an order in time inside an expression", _ENCLOSED)
        raise
    if _ORDER.match(text, place):
        _fail(text, place, "an order in time behind an expression", _ENCLOSED)
    return expression, None, place


def _split_order(text: str, start: int) -> tuple[Expression, TimeOrder | None, int] | None:
    """Return what `_expression` returns where the parenthesis at `start` encloses an order, else None."""
    try:
        expression, place = parse_expression_prefix(text, start + 1)
    except automata.ExpressionError:
        return None  # without the parenthesis it may be one
    found = _ORDER.match(text, place)
    if found is None:
        return None
    bounds: dict[str, str | int] = {}
    order = "increasing" if found[1] is None else "non_decreasing"
    place = _skip(text, found.end())
    while (bound := _TIME_BOUND.match(text, place)) is not None:
        name = _LENGTHS[bound[1]]
        if name in bounds or "max_gap" in bounds:
            message = f"{bound[1]!r} twice" if name in bounds else "'within' behind 'gap'"
            _fail(text, place, message, "within, then gap, each at most once")
        place = _skip(text, bound.end())
        length = _LENGTH.match(text, place)
        assert length is not None
        try:
            bounds[name] = int(length[0]) if length[0].isdecimal() else length[0]
            time_order(order, **bounds)
        except QueryError as problem:
            reason = str(problem).removeprefix(f"{name}: ").partition(": expected")[0]
            _fail(text, place, f"after '{bound[1]}': {reason}", "a duration such as 6h")
        place = _skip(text, length.end())
    if not text.startswith(")", place):
        message = f"unexpected '{text[place]}'" if place < len(text) else "the pattern ends too early"
        _fail(text, place, message, "within, gap, or the ')' that ends the path")
    place += 1
    if re.match(r"\s*(?:[*+/|{]|\?(?![\w:]))", text[place:]):
        _fail(text, _skip(text, place), "an operator behind an order in time", _ENCLOSED)
    return expression, time_order(order, **bounds), _skip(text, place)


def _edge_variable(text: str, place: int) -> tuple[str | None, int]:
    """Return the edge variable before an expression, if there is one, and where the expression begins."""
    found = _EDGE_VARIABLE.match(text, place)
    return (None, place) if found is None else (found[1], found.end())


def _term(text: str, place: int, expected: str) -> tuple[Term, int]:
    character = text[place : place + 1]
    if character == "?" and starts_name(text[place + 1 : place + 2] or "."):
        end = bare_name_end(text, place + 1)
        return Variable(text[place + 1 : end]), end
    if text.startswith("_:", place):
        end = bare_name_end(text, place)
        if end == place + 2:
            _fail(text, end, "a blank node without a name", "a name after _:")
        return Blank(text[place + 2 : end]), end
    if not character:
        _fail(text, place, "the pattern ends too early" if text.strip() else "the pattern is empty", expected)
    name, end = parse_name(text, place)
    if name is None:
        _fail(text, place, f"unexpected '{character}'", f"{expected}: ?variable, _:blank, or a name")
    return Constant(name), end


def _skip(text: str, place: int) -> int:
    while text[place : place + 1].isspace():
        place += 1
    return place


def _fail(text: str, place: int, message: str, expected: str) -> NoReturn:
    raise automata.ExpressionError(message, place + 1, expected, text)


# --- literals: constants in N-Triples form ------------------------------------------------------------------

def vertices_of(constant: Constant) -> list[str]:
    """Return the names of the vertices that a constant means; those of a literal include its lexical form."""
    name = constant.name
    return list(dict.fromkeys([name, lexical_form(name)])) if name.startswith('"') else [name]


# --- edges that atoms accept --------------------------------------------------------------------------------


def accepted_edges(atoms: Iterable[Atom]) -> dict[LabelSymbol, frozenset[Ends]]:
    """Return for each label of an edge atom which of its edges the edge atoms accept, by their ends.

    >>> from rpq.language.pattern import parse_pattern
    >>> {label: [*map(str, ends)] for label, ends in accepted_edges(parse_pattern("?x a h7 . ?x ^b ?x . ?x c ?y")).items()}
    {'a': ['any vertex to h7'], 'b': ['any vertex to itself'], 'c': ['any vertex to any vertex']}
    """
    found: dict[LabelSymbol, set[Ends]] = {}
    for source, label, target in (atom.edge for atom in atoms if atom.edge is not None):
        of_label = found.setdefault(label, set())
        of_label |= _ends_of(source, target)
    return {label: frozenset(ends) for label, ends in found.items()}


def _ends_of(source: Term | None, target: Term | None) -> set[Ends]:
    """Return the edges between two terms, by their ends. Only constants and loops restrict them."""
    if source is not None and source == target and not isinstance(source, Constant):
        return {Ends(None, None, is_loop=True)}
    sources, targets = (vertices_of(term) if isinstance(term, Constant) else [None] for term in (source, target))
    return {Ends(*ends) for ends in itertools.product(sources, targets)}


def accepted_edges_on_paths(
    paths: Iterable[tuple[Atom, automata.DFA]], label: LabelSymbol
) -> frozenset[Ends]:
    """Return which edges of a label can be steps of paths that atoms, each with its automaton, match.

    A step that can only be the first one of a path begins at the subject, and one that can only be the last one ends at the
    object.

    >>> from rpq.automata import compile
    >>> from rpq.language.pattern import parse_pattern
    >>> paths = [(atom, compile(str(atom.expression))) for atom in parse_pattern("h7 a/b*/^c ?x . ?y c+/^d h8")]
    >>> for label in "abcd":
    ...     print(label, *sorted(map(str, accepted_edges_on_paths(paths, label))), sep=": ")
    a: h7 to any vertex
    b: any vertex to any vertex
    c: any vertex to any vertex
    d: h8 to any vertex
    """
    found: set[Ends] = set()
    for atom, dfa in paths:
        for inverse in (False, True):
            column = dfa.column(label, inverse)
            at_ends = None if column < 0 else dfa.is_only_at_ends(column)
            if at_ends is None:
                continue
            only_first, only_last = at_ends
            begin, end = (atom.subject if only_first else None), (atom.object if only_last else None)
            found |= _ends_of(*((end, begin) if inverse else (begin, end)))
    return frozenset(found)


# --- patterns: atoms and columns ----------------------------------------------------------------------------

_SIGN = re.compile(r"\?[\w:]|_:|\.\s")
_RESERVED = ("query", "timestamp", "op")
"""Columns that every result has."""


@dataclass(frozen=True, kw_only=True)
class Pattern:
    """A graph pattern: its atoms, and its columns.

    >>> Pattern.read("?x a ?y . ?y ^b _:z", None).columns
    ('x', 'y')
    """

    atoms: tuple[Atom, ...]
    values: tuple[Value, ...]
    """The values that are the columns."""
    filter: BindingFilter | None = None

    @classmethod
    def read(cls, text: str, select: Sequence[str] | None, filter: str | None = None) -> Pattern:
        """Parse a pattern. Raises `QueryError`, for the text with a pointer to the column.

        O(length), or O(1) while a pattern with the same text exists.
        """
        is_plain = select is None or (isinstance(select, (tuple, list)) and all(isinstance(name, str) for name in select))
        is_plain = is_plain and (filter is None or isinstance(filter, str))
        key = (text, None if select is None else tuple(select), filter) if is_plain else None
        if key is not None and (cached := _patterns.get(key)) is not None:
            return cached
        atoms = read_atoms(text)
        variables = tuple(dict.fromkeys(term.name for term in _terms(atoms) if isinstance(term, Variable)))
        edges = _edge_variables(text, atoms, variables)
        if not variables:
            raise QueryError(f"the pattern {text} has no variable, so its rows have no columns; ASK says whether it holds")
        if select is None:
            values = tuple(Value("vertex", name) for name in variables)
        else:
            values = _check_selection(select, variables, edges, atoms)
        for value in values:
            if value.column in _RESERVED:
                raise QueryError(
                    f"all rows have a column called {value.column}: rename the variable ?{value.column}, or select others"
                )
        condition = None if filter is None else read_filter(filter, variables, edges)
        pattern = cls(atoms=atoms, values=values, filter=condition)
        if key is not None:
            _patterns[key] = pattern
        return pattern

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(value.column for value in self.values)

    @property
    def edge_variables(self) -> tuple[str, ...]:
        """The edge variables, in the order of the atoms."""
        return tuple(atom.variable for atom in self.atoms if atom.variable is not None)

    @property
    def has_values(self) -> bool:
        """True if solutions are more than the bindings of a join: there are edge variables, a filter, or properties."""
        return self.filter is not None or bool(self.edge_variables) or any(value.name for value in self.values)

    @property
    def properties(self) -> frozenset[str]:
        """The properties of edges that its columns and its filter read."""
        return frozenset(value.name for value in self._read_values if value.kind == "property")

    @property
    def _read_values(self) -> tuple[Value, ...]:
        return (*self.values, *(self.filter.values if self.filter is not None else ()))

    def to_join(self, *, paths: str) -> Pattern:
        """Return the pattern in which edges are vertices. Filter and columns are evaluated over its solutions.

        All variables and blank nodes are its columns. An edge variable becomes a variable with a name that no text has, and
        so does the value of a property of a vertex.

        >>> print(*Pattern.read("?x ?e:a ?y", None).to_join(paths="walk").atoms, sep=", ")
        ?x subject of a ?.e, ?.e object of a ?y
        """
        if not self.has_values:
            return self
        subject, object_ = EDGE_ENDS[2:] if paths == "simple" else EDGE_ENDS[:2]
        atoms: list[Atom] = []
        for atom in self.atoms:
            if atom.variable is None:
                atoms.append(atom)
                continue
            edge, text = Variable(edge_column(atom.variable)), str(atom.expression)
            atoms.append(Atom(atom.subject, Label(EdgeEnd(text, subject)), edge))
            atoms.append(Atom(edge, Label(EdgeEnd(text, object_)), atom.object))
        for variable, name in dict.fromkeys(value[1:] for value in self._read_values if value.kind == "fact"):
            atoms.append(Atom(Variable(variable), Label(NodeValue("value", name)), Variable(node_column(variable, name))))
        names = dict.fromkeys(_column_of(term) for term in _terms(atoms) if not isinstance(term, Constant))
        atoms = [replace(atom, subject=_as_variable(atom.subject), object=_as_variable(atom.object)) for atom in atoms]
        return Pattern(atoms=tuple(atoms), values=tuple(Value("vertex", name) for name in names))

    @cached_property
    def edge_labels(self) -> frozenset[LabelSymbol]:
        """The labels of the edge atoms, without those of facts."""
        return frozenset(atom.edge[1] for atom in self.atoms if atom.edge is not None and atom.fact is None)

    @cached_property
    def fact_labels(self) -> frozenset[LabelSymbol]:
        """The labels of the atoms that read facts of nodes."""
        return frozenset(atom.fact for atom in self.atoms if atom.fact is not None)

    @cached_property
    def accepted_edges(self) -> dict[LabelSymbol, frozenset[Ends]]:
        """For each label of an edge atom the edges that the edge atoms accept."""
        return accepted_edges(self.atoms)

    @property
    def orders(self) -> tuple[TimeOrder, ...]:
        """The orders in time of its path atoms."""
        return tuple(atom.order for atom in self.atoms if atom.order is not None)

    def in_unit(self, unit: str) -> Pattern:
        """Return the same pattern with orders in plain numbers of a stream's time unit. Raises `QueryError`."""
        ordered = (atom if atom.order is None else replace(atom, order=atom.order.in_unit(unit)) for atom in self.atoms)
        return replace(self, atoms=tuple(ordered))

    @cached_property
    def path_expressions(self) -> tuple[str, ...]:
        """The distinct expressions of the path atoms."""
        return tuple(dict.fromkeys(str(atom.expression) for atom in self.atoms if atom.edge is None))

    @cached_property
    def constants(self) -> tuple[Constant, ...]:
        """The constants, with repetitions."""
        return tuple(term for term in _terms(self.atoms) if isinstance(term, Constant))


_patterns: WeakValueDictionary[tuple[str, tuple[str, ...] | None, str | None], Pattern] = WeakValueDictionary()


def edge_column(variable: str) -> str:
    """Return the name of an edge variable among the columns of a join."""
    return f".{variable}"


def node_column(variable: str, property: str) -> str:
    """Return the name of the vertex that stands for a property of a vertex variable, among the columns of a join."""
    return f".{variable}.{property}"


def is_of_vertex(column: str) -> bool:
    """Return whether a column of a join is a variable or blank node, and no edge or value of a property."""
    return not column.startswith(".")


def _column_of(term: Term) -> str:
    return str(term) if isinstance(term, Blank) else term.name


def _as_variable(term: Term) -> Term:
    return Variable(str(term)) if isinstance(term, Blank) else term


def _edge_variables(text: str, atoms: Sequence[Atom], variables: Sequence[str]) -> tuple[str, ...]:
    """Return the edge variables of a pattern. Raises `QueryError` for one that occurs twice, or as a vertex."""
    found: list[str] = []
    for atom in atoms:
        if atom.variable is None:
            continue
        name = atom.variable
        if name in found:
            raise QueryError(f"{text}: ?{name} binds an edge in two atoms; name them apart and write filter='?{name} = ?…'")
        if name in variables:
            raise QueryError(f"{text}: ?{name} is an edge in {atom}, and a vertex too: rename one of them")
        found.append(name)
    return tuple(found)


def looks_like_a_pattern(text: str) -> bool:
    """Return whether a text contains a `?` before a letter, `_:`, or a dot before a blank.

    >>> [looks_like_a_pattern(text) for text in ("a?/b*", "?x a ?y", "a b . c d e")]
    [False, True, True]
    """
    return _SIGN.search(text) is not None


def has_edge_variables(text: Any) -> bool:
    """Return whether a text is a pattern with edge variables.

    >>> [has_edge_variables(text) for text in ("?x ?e:a ?y", "?x:e a ?y", "?x a+ ?y")]
    [True, False, False]
    """
    if not isinstance(text, str) or _EDGE_VARIABLE.search(text) is None:
        return False
    try:
        return any(atom.variable is not None for atom in parse_pattern(text))
    except automata.ExpressionError:
        return False


def selects_values(text: Any, select: Any) -> bool:
    """Return whether a pattern selects more than the vertices that are its variables, such as a property of one.

    >>> [selects_values("?x a ?y", select) for select in (["x", "x.risk"], ["x"], None)]
    [True, False, False]
    """
    if not isinstance(select, (tuple, list)) or not any("." in str(name) for name in select):
        return False
    try:
        return Pattern.read(text, select).has_values
    except QueryError:
        return False


def read_atoms(text: str) -> tuple[Atom, ...]:
    """Return the atoms of a pattern. Raises `ExpressionError`, with a pointer to the column."""
    try:
        return parse_pattern(text)
    except automata.ExpressionError as problem:
        raise ExpressionError(problem.message, problem.column, problem.expected, problem.expression) from None


def _check_selection(
    select: Any, variables: Sequence[str], edges: Sequence[str], atoms: Sequence[Atom]
) -> tuple[Value, ...]:
    if isinstance(select, (str, bytes)):
        raise QueryError(f"select is a collection of variables, as in ({select!r},), not one text")
    try:
        names = tuple(select)
    except TypeError:
        raise QueryError(f"select is a collection of variables, not {select!r}") from None
    if not names:
        raise QueryError("select names no variable: a row has at least one column")
    blanks = {term.name for term in _terms(atoms) if isinstance(term, Blank)}
    values: list[Value] = []
    for name in names:
        if not isinstance(name, str):
            raise QueryError(f"select: a variable is named by text, not by {name!r}")
        bare = name.removeprefix("?")
        if bare not in variables and name.removeprefix("_:") in blanks:
            raise QueryError(f"select: {name!r} is a blank node, which cannot be selected; write a variable in its place")
        value = value_of(bare, variables, edges)
        if isinstance(value, str):
            if "." in bare and bare.partition(".")[0] in (*edges, *variables):
                raise QueryError(f"select: {value}")
            near = difflib.get_close_matches(bare, [*variables, *edges], 1)
            names_text = ", ".join(map(repr, (*variables, *edges)))
            hint = f"did you mean {near[0]!r}?" if near else f"its variables are {names_text}"
            raise QueryError(f"select: the pattern has no variable {bare!r}; {hint}")
        values.append(value)
    if len({value.column for value in values}) < len(values):
        raise QueryError(f"select names a variable twice: {', '.join(map(repr, names))}")
    return tuple(values)


def _terms(atoms: Sequence[Atom]) -> list[Term]:
    return [term for atom in atoms for term in (atom.subject, atom.object)]
