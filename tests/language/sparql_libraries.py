"""rdflib and pyoxigraph as oracles: what they answer to a query of the project on graphs.

Paths are given to them as the contract means them [2.1]: what it splits is written as joins and unions, what it takes
as a set of pairs is a predicate of its own, whose pairs brute force finds. Windows are named graphs. IRIs have to be
absolute; what the contract's rules of values add to SPARQL neither knows, so compare with an evaluation under
`STANDARD`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pyoxigraph
import rdflib

from rpq.automata.expressions import Alternation, Concatenation, Expression, Inverse, Label
from tests.reference import evaluate
from tests.reference_patterns import Graphs
from tests.reference_sparql import Solution, can_be_empty, columns, splits
from tests.reference_sparql_syntax import Column, Query, Select, Triple, Variable, Writer, write_term
from tests.reference_sparql_values import STANDARD, Literal, NoValue, Number, is_iri, literal, parts, value, written

Quad = tuple[str, str, str, str | None]


@dataclass
class LibraryWriter(Writer):
    """Writes a query for other engines, and remembers which paths it gave predicates of their own."""

    keyword: str = "GRAPH"
    clauses: bool = False
    predicates: dict[tuple[Expression, str | None], str] = field(default_factory=dict)
    middles: int = 0

    def __post_init__(self) -> None:
        self.triple = self.written

    def select(self, select: Select, clauses: str = "") -> str:
        if select.columns is None and columns(select):
            select = replace(select, columns=tuple(Column(Variable(name)) for name in columns(select)))
        return super().select(select, clauses)

    def written(self, triple: Triple, window: str | None) -> str:
        if isinstance(triple.path, Expression):
            return self.path(triple.path, triple.subject, triple.object, window)
        source, path, target = map(write_term, triple)
        return f'{{ {source} {path} {target} FILTER(!STRSTARTS(STR({path}), "pairs:")) }}'

    def path(self, path: Expression, source: object, target: object, window: str | None) -> str:
        sign = ""
        match path:
            case Inverse(inner) if splits(path) or isinstance(inner, Label):
                return self.path(inner, target, source, window)
            case Alternation(parts):
                return " UNION ".join(f"{{ {self.path(part, source, target, window)} }}" for part in parts) + " "
            case Concatenation(parts) if splits(path):
                ends = [source, *(self.middle() for _ in parts[1:]), target]
                return " ".join(self.path(part, x, y, window) for part, x, y in zip(parts, ends, ends[1:], strict=False))
            case Label(name):
                predicate = name
            case _:
                predicate = self.predicates.setdefault((path, window), f"pairs:{len(self.predicates)}")
                sign = "?" if can_be_empty(path) else ""
        return f"{write_term(source)} <{predicate}>{sign} {write_term(target)} ."

    def middle(self) -> Variable:
        self.middles += 1
        return Variable(f"middle_{self.middles}")


def prepared(query: Query, graphs: Graphs) -> tuple[str, set[Quad]]:
    """Return the text that both read, and the quads to ask it of."""
    writer = LibraryWriter()
    text = writer.query(query)
    quads = {(*edge, window) for window, edges in graphs.items() for edge in edges}
    for (path, window), predicate in writer.predicates.items():
        # The empty path joins a node with itself: rdflib finds it twice where an edge does so, too.
        found = (pair for pair in evaluate(path, graphs[window]) if pair[0] != pair[1] or not can_be_empty(path))
        quads |= {(x, predicate, y, window) for x, y in found}
    return text, quads


def by_pyoxigraph(query: Query, graphs: Graphs) -> Counter[Solution]:
    text, quads = prepared(query, graphs)
    return solutions(query, stored(quads).query(text))


def stored(quads: Iterable[Quad]) -> pyoxigraph.Store:
    """Return a store of pyoxigraph with these quads."""
    store = pyoxigraph.Store()
    for source, label, target, window in quads:
        graph = pyoxigraph.DefaultGraph() if window is None else pyoxigraph.NamedNode(window)
        store.add(pyoxigraph.Quad(_oxigraph(source), pyoxigraph.NamedNode(label), _oxigraph(target), graph))
    return store


def solutions(query: Query, found: Any) -> Counter[Solution]:
    """Return what pyoxigraph found for a query as the oracle writes it."""
    if query.form == "ASK":
        return Counter([()] if bool(found) else [])
    if query.form == "CONSTRUCT":
        return Counter({tuple(map(term, (t.subject, t.predicate, t.object))) for t in found})
    names = columns(query.select)
    return Counter(tuple(None if s[name] is None else term(s[name]) for name in names) for s in found)


@contextmanager
def literals_as_written() -> Iterator[None]:
    """Keep the text of rdflib's literals in this block, which is else that of their values: `1` for `01`."""
    before, rdflib.NORMALIZE_LITERALS = rdflib.NORMALIZE_LITERALS, False
    try:
        yield
    finally:
        rdflib.NORMALIZE_LITERALS = before


def by_rdflib(query: Query, graphs: Graphs) -> Counter[Solution]:
    text, quads = prepared(query, graphs)
    with literals_as_written():
        dataset = rdflib.Dataset()
        for source, label, target, window in quads:
            graph = dataset.default_graph if window is None else dataset.graph(rdflib.URIRef(window))
            graph.add((_rdflib(source), rdflib.URIRef(label), _rdflib(target)))
        found = dataset.query(text)
        if query.form == "ASK":
            return Counter([()] if found.askAnswer else [])
        if query.form == "CONSTRUCT":
            return Counter({tuple(map(term, triple)) for triple in found.graph})
        names = [rdflib.Variable(name) for name in columns(query.select)]
        return Counter(tuple(None if s.get(name) is None else term(s[name]) for name in names) for s in found.bindings)


def term(node: object) -> str:
    """Return a node of rdflib or pyoxigraph as a term of the oracle.

    >>> term(rdflib.Literal("a", lang="EN")), term(pyoxigraph.NamedNode("urn:x"))
    ('"a"@en', 'urn:x')
    """
    match node:
        case rdflib.Literal():
            return literal(str(node), None if node.datatype is None else str(node.datatype), node.language)
        case rdflib.BNode():
            return f"_:{node}"
        case pyoxigraph.Literal():
            return literal(node.value, None if node.language else node.datatype.value, node.language)
        case pyoxigraph.BlankNode():
            return f"_:{node.value}"
        case pyoxigraph.NamedNode():
            return node.value
    return str(node)


def canonical(found: str | None) -> str | None:
    """Return a term such that numbers of one value and type are one."""
    if found is None or not found.startswith('"'):
        return found
    try:
        known = value(found, STANDARD)
    except NoValue:
        return found
    return literal(written(known), known.rank) if isinstance(known, Number) else found


def alike(bag: Counter[Solution]) -> Counter[Solution]:
    """Return a bag with every number written in one way."""
    found: Counter[Solution] = Counter()
    for solution, number in bag.items():
        found[tuple(map(canonical, solution))] += number
    return found


def _parts(text: str) -> Literal | None:
    return None if is_iri(text) or text.startswith("_:") else parts(text)


def _oxigraph(text: str) -> pyoxigraph.NamedNode | pyoxigraph.BlankNode | pyoxigraph.Literal:
    if (known := _parts(text)) is None:
        return pyoxigraph.BlankNode(text[2:]) if text.startswith("_:") else pyoxigraph.NamedNode(text)
    if known.language:
        return pyoxigraph.Literal(known.lexical, language=known.language)
    return pyoxigraph.Literal(known.lexical, datatype=pyoxigraph.NamedNode(known.datatype))


def _rdflib(text: str) -> rdflib.term.Node:
    if (known := _parts(text)) is None:
        return rdflib.BNode(text[2:]) if text.startswith("_:") else rdflib.URIRef(text)
    if known.language:
        return rdflib.Literal(known.lexical, lang=known.language)
    # Without its type a string is another literal to rdflib; queries have none either.
    simple = known.datatype.endswith("#string")
    return rdflib.Literal(known.lexical, datatype=None if simple else rdflib.URIRef(known.datatype))
