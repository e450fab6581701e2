"""A SPARQL query as a user writes it: its text and options, windows, columns with their kinds, and how shares divide it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property
from typing import ClassVar, Literal, Self

import rpq.automata as automata
from rpq.automata.expressions import Label
from rpq.automata.symbols import LabelSymbol
from rpq.automata.transforms import accepts_empty
from rpq.errors import QueryError
from rpq.language.conditions import parse_expression
from rpq.language.hypercube import Hypercube, reads_of, undivided
from rpq.language.options import Language
from rpq.language.pattern import (
    Atom,
    Constant,
    Variable,
    accepted_edges,
    accepted_edges_on_paths,
    never_simple,
)
from rpq.language.query import Query, automaton_of, labels_of
from rpq.language.readings import LabelSet, Reading, from_clauses
from rpq.language.sparql.algebra import (
    Aggregate,
    Conjunction,
    CountExtent,
    Distinct,
    Extend,
    Extent,
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
    SparqlQuestion,
    TimeExtent,
    Union,
    Unwind,
    Values,
    WindowAtom,
    atoms_of,
    bodies_of,
    certain_variables,
    children,
    formulas_of,
    is_monotone,
    mentioned_variables,
    possible_variables,
    reads_default,
    windows_read,
)
from rpq.language.sparql.report_time import reads_report_time
from rpq.language.sparql.syntax.reading import read
from rpq.language.sparql.syntax.source_text import SourceText, refusal
from rpq.language.time_order import length_in_unit
from rpq.rows.typed_columns import ColumnKind, TypedColumns
from rpq.stream.edges.edge_ends import ALL, Ends
from rpq.stream.names.stream_labels import EdgeEnd, NodeLabel, text_of
from rpq.stream.window import AnyWindow, CountWindow, UnboundedWindow, Window

_TRIPLE = ("source", "label", "target")
_QUAD = (*_TRIPLE, "graph")
_NO_DEFAULT = "the query has no default window, so patterns outside WINDOW <name> { … } read only the edges without time"

_FROM = (
    "these graphs contain the edges without time of --static '<graph>=FILE' or load_static(…, graph=…); if there are none, "
    "those of --static FILE or load_static without a graph"
)
_NO_FROM = (
    "FROM NAMED without FROM: patterns outside GRAPH and WINDOW read the default window alone, not the edges without time"
)


class SparqlQuery(Query):
    """A persistent query in SPARQL 1.1, with the window clauses of RSP-QL. Create it with `Query`.

    - `expression`: the text of the query
    - `window`: the default window, which atoms outside WINDOW read; may be omitted if there are no such atoms
    - `language`: "csparql" or "cqels" for the reports of that language; by default FROM STREAM and STREAM <s> […] { … } tell
    - `paths`, `simple_budget`, `name`: as for a path query; the default name is that of REGISTER, or the text
    - `semantics`: "implicit" (the default for SELECT without OPTIONAL, MINUS, NOT EXISTS, aggregates, LIMIT, OFFSET and
      reports) or "explicit"
    - `report`: as for a pattern; REGISTER implies "slide"

    Raises `SparqlError` with line and column for text that is invalid or refused, and `QueryError`.

    >>> query = Query("SELECT ?x (COUNT(*) AS ?n) { ?x <a2q> ?y } GROUP BY ?x", window=Window(size=30, slide=1))
    >>> query.columns, query.semantics, sorted(query.labels)
    (('x', 'n'), 'explicit', ['a2q'])
    """

    _notation: ClassVar[Language] = "sparql"

    def _read(self) -> None:
        parsed = self._parse()
        object.__setattr__(self, "_parsed", parsed)
        object.__setattr__(self, "_declared", {one.name: _window_of(one.extent) for one in parsed.windows})
        object.__setattr__(self, "_unit", None)
        object.__setattr__(self, "_original", None)
        object.__setattr__(self, "_has_default", self.window is not None)
        object.__setattr__(self, "_automata", [automaton_of(path) for path in self._paths])  # shared while one has them

    def _parse(self) -> SparqlQuestion:
        """Return the parsed text."""
        return self._parse_over(())

    def _parse_over(self, dataset: Sequence[str]) -> SparqlQuestion:
        dialect = self.language if self.language in ("csparql", "cqels") else None
        return read(self.expression, paths=self.paths, dataset=dataset, dialect=dialect)

    def _check_options(self) -> None:
        self._set_default_window()
        self._check_report()
        if not self.name and self.parsed.name is not None:
            object.__setattr__(self, "name", self.parsed.name)
        super()._check_options()
        if self.semantics == "implicit" and not self._may_be_implicit:
            raise QueryError(
                "implicit windows, in which solutions expire silently, are for SELECT without OPTIONAL, MINUS, NOT EXISTS, "
                'aggregates, LIMIT, OFFSET and reports: omit semantics, or pass semantics="explicit"'
            )

    def _set_default_window(self) -> None:
        if self.window is None:
            object.__setattr__(self, "window", UnboundedWindow())

    def _check_report(self) -> None:
        if self.parsed.reporting is not None:
            if self.report == "time":
                raise QueryError('REGISTER reports at slides, not report="time"')
            object.__setattr__(self, "report", "slide")
        if self.hold is not None and self.reports_whole_answers:
            raise QueryError(
                f"hold={self.hold!r} is about answers that enter and leave, and REGISTER RSTREAM reports whole answers: "
                "write REGISTER ISTREAM, or leave out hold"
            )
        if self.report != "slide" and self.reads_report_time:
            source = SourceText.read(self.expression)
            place = next((token.start for token in source.tokens() if token.is_word("NOW")), None)
            raise refusal(source, "NOW", place)
        if self.report != "change" and not any(isinstance(window, Window) for window in self.report_windows):
            what = self.parsed.reporting or f"report={self.report!r}"
            raise QueryError(
                f"{what} reports at boundaries of the default window, which must be a time window, or of the windows of "
                "time that the text declares: pass window=rpq.Window(size=…, slide=…), or write [RANGE PT10S STEP PT1S]"
            )

    @property
    def report_windows(self) -> tuple[AnyWindow, ...]:
        """The windows at whose boundaries it reports: the default window, or without one all windows that the text declares.

        >>> text = "REGISTER RSTREAM <r> AS SELECT ?x FROM NAMED WINDOW <w> [RANGE 30 STEP 10] { WINDOW <w> { ?x <a> ?y } }"
        >>> Query(text).report_windows
        (Window(size=30, slide=10),)
        """
        return (self.window,) if self.has_default else tuple(self.windows.values())

    @property
    def _may_be_implicit(self) -> bool:
        parsed = self.parsed
        is_immediate = self.report == "change" and self.hold is None
        return is_immediate and parsed.form == "select" and is_monotone(parsed.body)

    @property
    def _usual_semantics(self) -> Literal["implicit", "explicit"]:
        return "implicit" if self._may_be_implicit else "explicit"

    # --- the parsed text ---------------------------------------------------------------------------------------

    @property
    def parsed(self) -> SparqlQuestion:
        """The parsed text."""
        parsed: SparqlQuestion = self._parsed  # type: ignore[attr-defined]
        return parsed

    @property
    def has_default(self) -> bool:
        """True if there is a default window."""
        has_default: bool = self._has_default  # type: ignore[attr-defined]
        return has_default

    @property
    def warnings(self) -> tuple[str, ...]:
        """Hints on parts of the query that may mean something other than intended.

        >>> Query("SELECT ?x ?z { ?x <a> ?y }", window=Window(size=1, slide=1)).warnings
        ('nothing binds ?z: its column is empty',)
        """
        no_default: tuple[str, ...] = ()
        if self.parsed.graphs:
            no_default = (f"{from_clauses(self.static_graphs)}: {_FROM}",)
        elif self.default_graphs is not None and reads_default(self.parsed.body):
            no_default = (_NO_FROM,)
        elif not self.has_default and reads_default(self.parsed.body):
            no_default = (_NO_DEFAULT,)
        atoms = [one.atom for one in atoms_of(self.parsed.body) if self.paths == "simple"]
        return (*self.parsed.warnings, *no_default, *never_simple(atoms))

    @cached_property
    def columns(self) -> TypedColumns:
        """The columns of the rows: those of SELECT, none for ASK, and source, label and target for CONSTRUCT.

        If the template has a graph, CONSTRUCT has the column graph, too.
        """
        return columns_of_question(self.parsed)

    @property
    def hypercube(self) -> Hypercube | None:
        """The division of the query among shares by columns of SELECT, or of its rows by the first column; None without one.

        >>> query = Query("SELECT ?x ?y { ?x <a> ?y . ?y <b> ?z }", window=Window(size=1, slide=1))
        >>> query.hypercube.grid(6).dimensions
        {'y': 6}
        """
        return sparql_hypercube(self.parsed)

    @property
    def dfa(self) -> automata.DFA:
        """The automaton of a path expression. Raises `QueryError`, because a SPARQL query has none."""
        raise QueryError("a query in SPARQL has no automaton as a whole")

    # --- windows and labels ----------------------------------------------------------------------------------

    @property
    def windows(self) -> Mapping[str | None, AnyWindow]:
        """All windows by name, including declared windows that nothing reads; None is the default window, if any."""
        windows: dict[str | None, AnyWindow] = {None: self.window} if self.has_default else {}
        windows.update(self._declared)  # type: ignore[attr-defined]
        return windows

    @property
    def readings(self) -> tuple[Reading, ...]:
        """The labels that the query reads over each of `windows`; empty for a window that edges do not leave."""
        streams: dict[str | None, str | None] = {one.name: one.stream for one in self.parsed.windows}
        atoms = windows_read(self.parsed.body)
        windows = self.windows.items()
        readings = [Reading(window, _labels(atoms.get(name, ())), streams.get(name)) for name, window in windows]
        return tuple(readings or [Reading(UnboundedWindow(), _labels(()))])

    @property
    def _paths(self) -> list[str]:
        """The expressions of its atoms, without those of the ends of edges that are vertices."""
        atoms = (one.atom for one in atoms_of(self.parsed.body))
        return [*dict.fromkeys(str(atom.expression) for atom in atoms if _derived_label(atom) is None)]

    @property
    def label_set(self) -> LabelSet:
        """The labels that the query reads in any window, as a set."""
        return _labels(atoms_of(self.parsed.body))

    @property
    def labels(self) -> frozenset[LabelSymbol] | None:
        """The labels of the atoms; None if a path may match labels that it does not name."""
        return None if self.label_set.others else self.label_set.named

    @property
    def named_labels(self) -> frozenset[LabelSymbol]:
        """The labels that the text names."""
        ends = {end for one in atoms_of(self.parsed.body) if (end := _derived_label(one.atom)) is not None}
        return frozenset(ends).union(*(automaton_of(path).labels for path in self._paths))

    def reads(self, label: LabelSymbol) -> bool:
        """Return whether an atom can match edges with a label."""
        return self.label_set.has(label)

    def accepts(self, label: LabelSymbol) -> frozenset[Ends]:
        """Return which edges of a label some atom accepts, by their ends; none where no atom reads the label.

        Where a window of the query is a count window, it accepts all edges of its labels.

        >>> query = Query("SELECT ?x { ?x <a> <h7> OPTIONAL { ?x <b>+ ?y } }", window=Window(size=1, slide=1))
        >>> [[str(ends) for ends in query.accepts(label)] for label in "abc"]
        [['any vertex to h7'], ['any vertex to any vertex'], []]
        """
        accepted = self._accepted_edges.get(label, frozenset())
        named, of_others = self._accepted_on_paths
        on_paths = of_others if isinstance(label, str) else accepted_edges_on_paths(self._path_atoms, label)
        on_paths = named.get(label, on_paths)
        accepted = accepted | on_paths if accepted else on_paths
        if not accepted or accepted == {ALL}:
            return accepted
        is_counted = any(window.kind == "count" for window in self.windows.values())
        return frozenset({ALL}) if is_counted else accepted

    @cached_property
    def _accepted_on_paths(self) -> tuple[dict[LabelSymbol, frozenset[Ends]], frozenset[Ends]]:
        """The edges that paths accept, by their ends: those with each label that a path names, and those with any other."""
        named = frozenset().union(*(dfa.labels for _, dfa in self._path_atoms))
        other = max(map(text_of, named), default="") + "?"
        of_named = {label: accepted_edges_on_paths(self._path_atoms, label) for label in named}
        return of_named, accepted_edges_on_paths(self._path_atoms, other)

    @cached_property
    def _path_atoms(self) -> list[tuple[Atom, automata.DFA]]:
        paths = dict.fromkeys(one.atom for one in atoms_of(self.parsed.body) if one.atom.edge is None)
        return [(atom, automaton_of(str(atom.expression))) for atom in paths]

    @cached_property
    def _accepted_edges(self) -> dict[LabelSymbol, frozenset[Ends]]:
        return accepted_edges([one.atom for one in atoms_of(self.parsed.body)])

    def over(self, window: AnyWindow) -> Self:
        """Return the same query with another default window."""
        other = copy(self)
        object.__setattr__(other, "window", window)
        object.__setattr__(other, "_has_default", True)
        object.__setattr__(other, "_original", None)
        return other

    @property
    def reads_dataset(self) -> bool:
        """True if GRAPH with a variable reads all named graphs of edges without time, since FROM NAMED names none.

        >>> Query("SELECT ?g { GRAPH ?g { ?x <a> ?y } }").reads_dataset
        True
        """
        return self.parsed.reads_dataset

    def over_dataset(self, graphs: Sequence[str]) -> Self:
        """Return the same query, whose GRAPH with a variable reads these graphs.

        >>> sorted(Query("SELECT ?g { GRAPH ?g { ?x <a> ?y } }").over_dataset(["g", "h"]).named_graphs)
        ['g', 'h']
        """
        if not self.reads_dataset or self.parsed.dataset == tuple(graphs):
            return self
        other = copy(self)
        for name in ("columns", "_path_atoms", "_accepted_on_paths", "_accepted_edges", "reads_report_time"):
            other.__dict__.pop(name, None)
        original = self._original  # type: ignore[attr-defined]
        object.__setattr__(other, "_original", None if original is None else original.over_dataset(graphs))
        object.__setattr__(other, "_parsed", self._parse_over(graphs))
        for path in other._paths:
            automaton_of(path)
        return other

    def in_unit(self, unit: str) -> Self:
        """Return the same query with windows in numbers of a unit of time (s, ms, us or ns). Raises `QueryError`.

        >>> text = "SELECT ?x FROM NAMED WINDOW <w> [RANGE PT2H] { WINDOW <w> { ?x <a> ?y } }"
        >>> Query(text).in_unit("s").windows["w"]
        Window(size=7200, slide=1)
        """
        other = copy(self)
        object.__setattr__(other, "window", self.window.in_unit(unit))
        for name, length in self.time_lengths:
            object.__setattr__(other, name, length_in_unit(name, length, unit))
        declared = {one.name: _window_of(one.extent, unit) for one in self.parsed.windows}
        object.__setattr__(other, "_declared", declared)
        object.__setattr__(other, "_unit", unit)
        object.__setattr__(other, "_original", self)
        return other

    @property
    def declares_durations(self) -> bool:
        """True if the text declares a window in durations, and not in the stream's unit.

        >>> Query("SELECT ?x FROM NAMED WINDOW <w> [RANGE PT2H] { WINDOW <w> { ?x <a> ?y } }").declares_durations
        True
        """
        return any(isinstance(one.extent, TimeExtent) and not one.extent.is_number for one in self.parsed.windows)

    @property
    def shows_removals(self) -> bool:
        """True if rows show which answers leave.

        >>> Query("REGISTER ISTREAM <r> AS ASK { ?x <a> ?y }", window=Window(size=9, slide=3)).shows_removals
        False
        """
        return self.parsed.shows_removals

    @property
    def reports_whole_answers(self) -> bool:
        """True if each report has the whole answer (RSTREAM).

        >>> Query("REGISTER RSTREAM <r> AS ASK { ?x <a> ?y }", window=Window(size=9, slide=3)).reports_whole_answers
        True
        """
        return self.parsed.reporting == "RSTREAM"

    @cached_property
    def reads_report_time(self) -> bool:
        """True if the text calls NOW(), whose value is the time of the report.

        >>> Query("ASK { ?x <a> ?y FILTER(?y < NOW()) }", window=Window(size=9, slide=3), report="slide").reads_report_time
        True
        """
        return reads_report_time(self.parsed.body)

    @property
    def static_graphs(self) -> frozenset[str]:
        """The names of the graphs that FROM names; empty without FROM.

        >>> sorted(Query("ASK FROM <g> FROM <h> { ?x <a> ?y }").static_graphs)
        ['g', 'h']
        """
        return frozenset(self.parsed.graphs)

    @property
    def default_graphs(self) -> tuple[str, ...] | None:
        """The graphs of FROM, whose static edges the default graph has; None if it has those without the name of a graph.

        That is so without FROM and FROM NAMED. In CQELS FROM NAMED does not count: it has a default graph beside its graphs.

        >>> Query("ASK FROM <g> { ?x <a> ?y }").default_graphs, Query("ASK { GRAPH <g> { ?x <a> ?y } }").default_graphs
        (('g',), None)
        """
        names_graphs = self.parsed.named_graphs and self.parsed.dialect != "cqels"
        return self.parsed.graphs if self.parsed.graphs or names_graphs else None

    @property
    def named_graphs(self) -> frozenset[str]:
        """The names of the graphs of static edges that GRAPH reads.

        >>> sorted(Query("ASK { GRAPH <g> { ?x <a> ?y } }").named_graphs)
        ['g']
        """
        windows = {None, *(one.name for one in self.parsed.windows)}
        return frozenset(name for name in windows_read(self.parsed.body) if name not in windows and name is not None)

    @property
    def unit(self) -> str | None:
        """The unit of time to which the windows were converted; None if they have their original unit."""
        unit: str | None = self._unit  # type: ignore[attr-defined]
        return unit

    @property
    def original(self) -> Self:
        """The same query with its original windows."""
        return self._original or self  # type: ignore[attr-defined]


def _window_of(extent: Extent, unit: str | None = None) -> AnyWindow:
    """Return the window of an extent in the stream's unit, or in nanoseconds without one."""
    if isinstance(extent, TimeExtent):
        return extent.window(unit)
    if isinstance(extent, CountExtent):
        return CountWindow(size=extent.size, step=extent.step)
    return UnboundedWindow()


def _derived_label(atom: Atom) -> EdgeEnd | NodeLabel | None:
    """Return the label of an atom that reads the ends of edges that are vertices, or facts of nodes; None for others."""
    label = atom.expression.name if isinstance(atom.expression, Label) else None
    return label if isinstance(label, (EdgeEnd, NodeLabel)) else None


def _labels(atoms: Iterable[WindowAtom]) -> LabelSet:
    all_atoms = [one.atom for one in atoms]
    ends: frozenset[LabelSymbol] = frozenset(end for atom in all_atoms if (end := _derived_label(atom)) is not None)
    paths = [automaton_of(str(atom.expression)) for atom in all_atoms if _derived_label(atom) is None]
    named = ends.union(*(path.labels for path in paths))
    conditions = frozenset().union(*(path.conditions_of_others for path in paths))
    return LabelSet.of(named, lambda label: label in ends or any(path.is_relevant(label) for path in paths), conditions)


def sparql_hypercube(question: SparqlQuestion) -> Hypercube | None:
    """Return how shares divide a question, by columns of SELECT, or only its rows, by the first column; None without one.

    O(size · columns).

    >>> from rpq.language.sparql.syntax.reading import read
    >>> cube = sparql_hypercube(read("SELECT ?y (COUNT(*) AS ?n) { ?x <a> ?y OPTIONAL { ?y <b> ?z } } GROUP BY ?y"))
    >>> cube.columns, cube.is_divided
    ((('y', 0),), True)
    >>> sparql_hypercube(read("SELECT (COUNT(*) AS ?n) { ?x <a> ?y }")).is_divided
    False
    """
    columns = columns_of_question(question)
    kinds = column_kinds(question)
    vertices = [(name, place) for place, name in enumerate(columns) if kinds[place] == "vertex"]
    cube = hypercube_by(question.body, vertices) if question.form == "select" else None
    return cube or (undivided(columns[0], 0) if columns else None)


def hypercube_by(body: Operator, columns: Iterable[tuple[str, int]]) -> Hypercube | None:
    """Return how shares divide the solutions of an operator by some of its columns; None if no column divides them."""
    atoms = [*_whole_edges([one.atom for one in atoms_of(body) if one.atom.fact is None])]
    if any(accepts_empty(atom.expression) for atom in atoms):
        return None
    bound = _bound_by_edges(body)
    found = tuple((name, place) for name, place in columns if name in bound and _divides(body, name))
    if not found:
        return None
    reads, paths = reads_of(atoms)
    return Hypercube(columns=found, reads=reads, paths=labels_of(paths))


def _whole_edges(atoms: Sequence[Atom]) -> Iterator[Atom]:
    """Yield atoms, with one atom from source to target in place of the two, one behind the other, of a bound edge."""
    subject: Atom | None = None
    for atom in atoms:
        end = _derived_label(atom)
        if end is None:
            yield atom
        elif subject is None:
            subject = atom
        else:
            yield Atom(subject.subject, parse_expression(end.label or ""), atom.object)
            subject = None


def _bound_by_edges(operator: Operator) -> frozenset[str]:
    """Return the variables that an edge binds in every solution."""
    match operator:
        case Conjunction(atoms):
            edges = (one.atom for one in atoms if one.atom.fact is None)
            terms = (term for edge in edges for term in (edge.subject, edge.object))
            return frozenset(term.name for term in terms if isinstance(term, Variable))
        case Join(parts):
            return frozenset().union(*map(_bound_by_edges, parts))
        case Union(branches):
            return frozenset.intersection(*map(_bound_by_edges, branches))
        case LeftJoin(inner) | Filter(inner) | Distinct(inner) | SemiJoin(inner) | Minus(inner) | Extend(inner):
            return _bound_by_edges(inner)
        case Group(inner, columns) | Project(inner, columns):
            return _bound_by_edges(inner) & frozenset(columns)
        case _:
            return frozenset()


def _divides(operator: Operator, name: str) -> bool:
    """Return whether a solution depends only on edges that have its own value of a variable at each of its occurrences.

    An operator that removes or extends solutions must read edges with the same value, and one that merges solutions, such as
    a group or a projection, must keep different values apart.
    """
    for formula in formulas_of(operator):
        for body in bodies_of(formula):
            is_known = name not in mentioned_variables(body) or name in _bound_in_operands(operator)
            if not (is_known and _divides(body, name)):
                return False
    match operator:
        case Conjunction() | Values():
            return True
        case Join(parts) | Union(parts):
            return all(_divides(part, name) for part in parts)
        case LeftJoin(left, right) | SemiJoin(left, right) | Minus(left, right):
            is_known = name not in mentioned_variables(right) or name in certain_variables(left)
            return is_known and _divides(left, name) and _divides(right, name)
        case Filter(inner) | Distinct(inner):
            return _divides(inner, name)
        case Extend(inner, variable):
            return variable != name and _divides(inner, name)
        case Group(inner, columns) | Project(inner, columns):
            return (name in columns or name not in mentioned_variables(inner)) and _divides(inner, name)
        case _:
            return False


def _bound_in_operands(operator: Operator) -> frozenset[str]:
    """Return the variables that are bound in all solutions which formulas of an operator see."""
    operands = children(operator)
    return certain_variables(operands[0]) if operands else frozenset()


def columns_of_question(question: SparqlQuestion) -> TypedColumns:
    """Return the columns of the rows of a question.

    >>> from rpq.language.sparql.syntax.reading import read
    >>> columns_of_question(read("CONSTRUCT { GRAPH <g> { ?x <b> ?y } } { ?x <a> ?y }"))
    ('source', 'label', 'target', 'graph')
    """
    made = _QUAD if question.makes_quads else _TRIPLE
    return TypedColumns(made if question.form == "construct" else question.columns, column_kinds(question))


def column_kinds(question: SparqlQuestion) -> tuple[ColumnKind, ...]:
    """Return the kinds of the columns of a question.

    >>> from rpq.language.sparql.syntax.reading import read
    >>> column_kinds(read("SELECT ?x (COUNT(*) AS ?n) (SUM(?y) AS ?s) (MAX(?y) AS ?m) { ?x <a> ?y } GROUP BY ?x"))
    ('vertex', 'count', 'text', 'vertex')
    """
    if question.form == "construct":
        return ("vertex", "text", "vertex", "text") if question.makes_quads else ("vertex", "text", "vertex")
    kinds = _kinds(question.body)
    return tuple(kinds.get(name, "vertex") for name in question.columns)


def _kinds(operator: Operator) -> Mapping[str, ColumnKind]:
    match operator:
        case Conjunction(atoms):
            labels = {one.predicate.name for one in atoms if one.predicate is not None}
            return {name: "text" if name in labels else "vertex" for name in possible_variables(operator)}
        case Values():
            return dict.fromkeys(possible_variables(operator), "vertex")
        case ReportTime():
            return dict.fromkeys(possible_variables(operator), "text")
        case Join(parts) | Union(parts):
            return _merge_kinds(*map(_kinds, parts))
        case LeftJoin(left, right):
            return _merge_kinds(_kinds(left), _kinds(right))
        case Filter(inner) | Distinct(inner) | SemiJoin(inner) | Minus(inner) | Project(inner) | Slice(inner):
            return _kinds(inner)
        case Unwind(inner, variable):
            return {**_kinds(inner), variable: "text"}
        case Extend(inner, variable, formula, is_joined):
            kinds = _kinds(inner)
            is_term = is_joined and isinstance(formula, Constant)  # an end of a path that may be empty, or a window's name
            return {**kinds, variable: "vertex" if is_term else _kind(formula, kinds)}
        case Group(inner, _, aggregates):
            kinds = _kinds(inner)
            return {**kinds, **{name: _kind(one, kinds) for name, one in aggregates}}


def _kind(formula: Formula, kinds: Mapping[str, ColumnKind]) -> ColumnKind:
    match formula:
        case Variable(name):
            return kinds.get(name, "vertex")
        case Aggregate("COUNT"):
            return "count"
        case Aggregate("MIN" | "MAX" | "SAMPLE", Variable(name)):
            return kinds.get(name, "vertex")
    return "text"


def _merge_kinds(*branches: Mapping[str, ColumnKind]) -> Mapping[str, ColumnKind]:
    """Merge the kinds of the columns of several operators; a column of two kinds is text."""
    found: dict[str, ColumnKind] = {}
    for kinds in branches:
        for name, kind in kinds.items():
            found[name] = kind if found.get(name, kind) == kind else "text"
    return found
