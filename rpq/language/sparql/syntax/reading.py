"""The translation of a text in SPARQL 1.1, with the window clauses of RSP-QL, to a `SparqlQuestion`.

The window clauses are removed from the text (`window_clauses`), rdflib parses the rest (`grammar`), and the parse tree is
translated to the algebra as section 18.2 of the standard defines it (`groups`). Refused constructs raise (`source_text`).
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, Literal, NamedTuple

from rpq.errors import QueryError, SparqlError
from rpq.language.options import CHOICES
from rpq.language.sparql.algebra import (
    Conjunction,
    Dialect,
    Extend,
    Form,
    Group,
    Operator,
    SparqlQuestion,
    Values,
    WindowDeclaration,
    atoms_of,
    children,
    operators_of,
    possible_variables,
)
from rpq.language.sparql.report_time import with_report_time
from rpq.language.sparql.syntax.formulas import Prologue, VariableScope, source_name
from rpq.language.sparql.syntax.grammar import parse
from rpq.language.sparql.syntax.groups import GroupReader, Selection, apply_modifiers
from rpq.language.sparql.syntax.source_text import SourceText, foreign_words, refusal
from rpq.language.sparql.syntax.window_clauses import WindowClause, WindowClauses, WindowName, extract_clauses
from rpq.stream.names.terms import is_literal, read_literal

_FORMS: dict[str, Form] = {"SelectQuery": "select", "AskQuery": "ask", "ConstructQuery": "construct"}
_RESERVED = ("query", "timestamp", "op")
"""Columns that every result has."""


def read(
    text: str,
    *,
    paths: Literal["walk", "simple", "simple_cycle"] = "walk",
    matching: Literal["homomorphism", "isomorphism"] = "homomorphism",
    dataset: Sequence[str] = (),
    dialect: Dialect | None = None,
) -> SparqlQuestion:
    """Parse a text and return its question.

    Sequences in property paths are joins, unless `paths` are not walks. GRAPH with a variable reads the graphs of FROM
    NAMED, or those of the `dataset` in a query without FROM and FROM NAMED. The text tells its `dialect` unless it is given.
    Raises `SparqlError` with line and column for
    text that is invalid or refused, and `QueryError` if rdflib is not installed. O(length), some milliseconds.

    >>> question = read("SELECT ?x { ?x <a2q>/<c2a>+ ?y . ?y <c2q> 007 }")
    >>> question.columns, [str(one.atom) for one in question.body.inner.atoms]
    (('x',), ['?x a2q _:.1', '_:.1 c2a+ ?y', '?y c2q "007"^^<http://www.w3.org/2001/XMLSchema#integer>'])
    """
    if not isinstance(text, str):
        raise TypeError(f"a query in SPARQL is text, not {type(text).__name__}")
    source = SourceText.read(text)
    if matching == "isomorphism":
        message = "isomorphism is refused in SPARQL: write FILTER(?x != ?y) for variables that must differ"
        raise QueryError(message)
    if matching != "homomorphism" or paths not in CHOICES["paths"]:
        kinds = "'walk', 'simple' or 'simple_cycle'"
        raise QueryError(f"paths are {kinds}, matching is 'homomorphism', not {paths!r} and {matching!r}")
    clauses = extract_clauses(source, dialect)
    try:
        tree = parse(source, clauses.standard_text)
    except SparqlError as problem:
        raise foreign_words(source) or problem from None
    prologue = Prologue(source, tree[0])
    node = tree[1]
    if node.name == "DescribeQuery":
        raise refusal(source, "DESCRIBE", node.place)
    windows = _Windows(source, prologue, clauses)
    graphs = _graphs(source, prologue, node, windows.named)
    merged = [windows.name_of(one) for one in clauses.merged]
    reader = GroupReader(
        source,
        prologue,
        windows=tuple(windows.named),
        default=(*merged, None) if graphs.default_graphs or not merged else tuple(merged),
        named_graphs=graphs.named_graphs if graphs.are_given else None,
        dataset=tuple(dataset),
        uses={place: None if one is None else windows.name_of(one) for place, one in clauses.uses.items()},
        is_split=paths == "walk",
    )
    scope = VariableScope()
    body, columns = apply_modifiers(reader, Selection.of(node, is_whole=True), scope)
    body = with_report_time(body)
    form = _FORMS[node.name]
    template = reader.template(_template(node), scope) if form == "construct" else []
    question = SparqlQuestion(
        text=text,
        form=form,
        body=body,
        columns=columns if form == "select" else (),
        template=tuple(template),
        windows=tuple(windows.declared.values()),
        graphs=graphs.default_graphs,
        named_graphs=graphs.named_graphs,
        reads_dataset=reader.reads_dataset,
        dataset=tuple(dataset) if reader.reads_dataset else (),
        dialect=clauses.dialect,
        reporting=clauses.reporting,
        name=None if clauses.name is None else _name(prologue, clauses.name),
        warnings=(*prologue.warnings, *reader.warnings, *_unbound(columns, body), *_literals_beside_vertices(body)),
    )
    if form == "select":
        _check_columns(reader, columns)
    return question


class _Graphs(NamedTuple):
    """The graphs of FROM, and those of FROM NAMED."""

    default_graphs: tuple[str, ...]
    named_graphs: tuple[str, ...]

    @property
    def are_given(self) -> bool:
        return bool(self.default_graphs or self.named_graphs)


def _graphs(source: SourceText, prologue: Prologue, node: Any, windows: Sequence[str]) -> _Graphs:
    """Return the graphs of a query's dataset clauses. Raises `SparqlError` for one with the name of a window."""
    default, named = [], []
    for clause in node.datasetClause or ():
        if clause.named is None:
            default.append(prologue.iri(clause.default))
            continue
        named.append(name := prologue.iri(clause.named))
        if name in windows:
            raise source.error(f"<{name}> is a window and a graph", clause.place, "another name for one of the two")
    return _Graphs(tuple(dict.fromkeys(default)), tuple(dict.fromkeys(named)))


def _template(node: Any) -> Any:
    """Return the triples of a CONSTRUCT template; the short form CONSTRUCT WHERE uses the triples of its body."""
    if node.where is not None and node.where.name == "FakeGroupGraphPatten":
        return node.where.part[0].triples
    return node.template


class _Windows:
    """The windows of a text by their names; those without one, of C-SPARQL and CQELS, are named after stream and extent."""

    def __init__(self, source: SourceText, prologue: Prologue, clauses: WindowClauses) -> None:
        self._prologue = prologue
        self.declared: dict[str, WindowDeclaration] = {}
        for clause in clauses.named:
            assert clause.name is not None
            if (name := self.name_of(clause)) in self.declared:
                raise source.error(f"the window <{name}> is declared twice", clause.name.place, "another name")
            self._declare(name, clause)
        self.named = tuple(self.declared)
        for clause in clauses.windows:
            self._declare(self.name_of(clause), clause)

    def name_of(self, clause: WindowClause) -> str:
        """Return the name of a window."""
        if clause.name is not None:
            return _name(self._prologue, clause.name)
        stream = "any stream" if clause.stream is None else _name(self._prologue, clause.stream)
        return f"{stream} [{clause.extent}]"

    def _declare(self, name: str, clause: WindowClause) -> None:
        stream = None if clause.stream is None else _name(self._prologue, clause.stream)
        self.declared[name] = WindowDeclaration(name=name, stream=stream, extent=clause.extent)


def _name(prologue: Prologue, name: WindowName) -> str:
    """Return a name, which is a word, an IRI or prefixed."""
    return name.text if name.text.isidentifier() else prologue.iri_of_text(name.text, name.place)


def _check_columns(reader: GroupReader, columns: tuple[str, ...]) -> None:
    for name in columns:
        if name in _RESERVED:
            place = reader.formulas.places.get(name)
            raise reader.source.error(f"all rows have a column called {name}", place, f"another name than ?{name}")


def _unbound(columns: tuple[str, ...], body: Operator) -> list[str]:
    """Return a warning for each column that nothing binds."""
    inner = body
    while len(operands := children(inner)) == 1 and not isinstance(inner, Extend | Group):  # these bind variables
        (inner,) = operands
    bound = possible_variables(inner)
    warnings = []
    for name in columns:
        if name not in bound:
            near = get_close_matches(name, sorted(bound), 1)
            warnings.append(f"nothing binds ?{name}: its column is empty" + (f"; did you mean ?{near[0]}?" if near else ""))
    return warnings


def _literals_beside_vertices(body: Operator) -> list[str]:
    """Return a warning for each variable of VALUES with a literal that a triple would also find as a plain vertex."""
    in_triples = {name for one in atoms_of(body) for name in possible_variables(Conjunction((one,)))}
    warnings = {}
    for table in operators_of(body):
        if not isinstance(table, Values):
            continue
        for place, name in enumerate(table.variables):
            terms = (row[place] for row in table.rows)
            literals = (read_literal(term) for term in terms if term is not None and is_literal(term))
            lexical = next((one.text for one in literals if one is not None and not one.language), None)
            if lexical is not None and name in in_triples:
                warnings[name] = (
                    f"VALUES ?{source_name(name)} contains a literal, which is not the vertex {lexical} of a file of plain "
                    f"text; for that vertex write <{lexical}>"
                )
    return list(warnings.values())
