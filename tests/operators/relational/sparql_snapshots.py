"""Contents of the windows of a SPARQL query after a tuple of a stream in order of time, and pyoxigraph's answers there.

Found from the whole stream each time, with the words of the contract: the last tuple of an edge decides whether it is there
[design 2.4, 2.5], a time window holds what is younger than ⌊τ/slide⌋·slide − size, a count window the same of the numbers
of the inserts that it reads [2.3], ON a stream its tuples alone [2.4]; static edges belong to the default graph [2.5].
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyoxigraph

import rpq
from rpq.automata.expressions import Label, NegatedSet
from rpq.language.sparql.algebra import (
    CountExtent,
    Operator,
    SparqlQuestion,
    TimeExtent,
    atoms_of,
    bodies_of,
    children,
    formulas_of,
)
from rpq.language.sparql.syntax.reading import read
from rpq.language.sparql.syntax.source_text import SourceText
from rpq.language.sparql.syntax.window_clauses import extract_clauses
from rpq.stream.durations import NANOSECONDS, nanoseconds_of
from rpq.workloads.generate.rdf.rdf_streams import RDF_KINDS, rdf_stream
from rpq.workloads.sparql_queries import NamedSparql

Edge = tuple[str, str, str]


@dataclass(frozen=True)
class Extent:
    """Size and slide in the stream's unit, or in inserts; no size is no end."""

    size: int | None
    slide: int = 1
    counts: bool = False


@dataclass
class Tuples:
    """A stream in memory as numbers: edges that are the same have the same."""

    table: pa.Table

    def __post_init__(self) -> None:
        names = self.table.column_names
        self.times = self.table["timestamp"].to_numpy()
        self.deletes = self.table["delete"].to_numpy() if "delete" in names else np.zeros(len(self.times), bool)
        self.streams = np.array(self.table["stream"].to_pylist() if "stream" in names else [None] * len(self.times), object)
        self.labels = np.array(self.table["label"].to_pylist(), object)
        rows = zip(*(self.table[name].to_pylist() for name in ("source", "label", "target")), strict=True)
        self.edges: list[Edge] = list(rows)
        known: dict[Edge, int] = {}
        self.numbers = np.array([known.setdefault(edge, len(known)) for edge in self.edges])

    def held(self, extent: Extent, reads: Callable[[str], bool], stream: str | None, moment: int) -> list[Edge]:
        """The edges in a window after `moment` tuples."""
        chosen = np.array([reads(label) for label in self.labels[:moment]], bool)
        if stream is not None:
            chosen &= self.streams[:moment] == stream
        places = np.flatnonzero(chosen)
        # Of each edge the last tuple.
        _, last = np.unique(self.numbers[places][::-1], return_index=True)
        last = places[len(places) - 1 - last]
        last = last[~self.deletes[last]]
        if extent.size is not None:
            now, clock = self.times[moment - 1], self.times
            if extent.counts:
                clock = np.cumsum(chosen & ~self.deletes[:moment])
                now = clock[-1] if moment else 0
            last = last[clock[last] > now // extent.slide * extent.slide - extent.size]
        return [self.edges[place] for place in sorted(last)]


@dataclass
class Asked:
    """A named query over its stream."""

    named: NamedSparql
    tuples: Tuples
    static: pa.RecordBatch | None
    unit: str | None

    @classmethod
    def of(cls, named: NamedSparql, *, edges: int, seed: int = 1) -> Asked:
        kind = RDF_KINDS[named.stream]
        table = pa.Table.from_batches(rdf_stream(edges=edges, seed=seed, kind=named.stream)).combine_chunks()
        return cls(named, Tuples(table), kind.static and kind.static(seed=seed), kind.unit)

    @cached_property
    def question(self) -> SparqlQuestion:
        return read(self.named.text)

    @property
    def window(self) -> rpq.Window | rpq.UnboundedWindow | None:
        """The default window, in the stream's unit."""
        if not self.named.window:
            return None
        if self.named.window == ("unbounded",):
            return rpq.UnboundedWindow()
        size, slide = (nanoseconds_of(text) // NANOSECONDS[str(self.unit)] for text in self.named.window)
        return rpq.Window(size=size, slide=slide)

    def graphs(self, moment: int) -> dict[str | None, list[Edge]]:
        """Window → its edges after that many tuples; None → the default graph."""
        found: dict[str | None, list[Edge]] = {}
        for one in self.question.windows:
            found[one.name] = self.tuples.held(self._extent(one.extent), self._reads(one.name), one.stream, moment)
        default: list[Edge] = []
        if self.named.window:
            window = self.named.window
            extent = Extent(None)
            if window != ("unbounded",):
                size, slide = (nanoseconds_of(text) // NANOSECONDS[str(self.unit)] for text in window)
                extent = Extent(size, slide)
            default = self.tuples.held(extent, self._reads(None), None, moment)
        if self.static is not None:
            columns = (self.static.column(name).to_pylist() for name in ("source", "label", "target"))
            default = [*dict.fromkeys([*default, *zip(*columns, strict=True)])]
        found[None] = default
        return found

    def by_pyoxigraph(self, moment: int) -> Counter:
        return self.answer_on(self.graphs(moment))

    def answer_on(self, graphs: Mapping[str | None, list[Edge]]) -> Counter:
        return by_pyoxigraph(self.named.text, self.question, graphs)

    def _extent(self, extent: object) -> Extent:
        if isinstance(extent, TimeExtent):
            window = extent.window(str(self.unit))
            return Extent(window.size, window.slide)
        return Extent(extent.size, extent.step, counts=True) if isinstance(extent, CountExtent) else Extent(None)

    def _reads(self, window: str | None) -> Callable[[str], bool]:
        """Return whether the atoms over a window read a label."""
        labels: set[str] = set()
        admits_all = False
        for operator in all_operators(self.question.body):
            for one in atoms_of(operator):
                if one.window != window:
                    continue
                for expression in _leaves(one.atom.expression):
                    if isinstance(expression, NegatedSet):
                        admits_all = True
                    else:
                        labels.add(expression.name)
        return lambda label: admits_all or label in labels


def all_operators(body: Operator) -> list[Operator]:
    """An operator, and the bodies of EXISTS in its formulas."""
    found, waiting = [body], [body]
    while waiting:
        one = waiting.pop()
        inner = [exists for formula in formulas_of(one) for exists in bodies_of(formula)]
        waiting += [*children(one), *inner]
        found += inner
    return found


def _leaves(expression: object) -> list[Label | NegatedSet]:
    if isinstance(expression, Label | NegatedSet):
        return [expression]
    parts = getattr(expression, "parts", None) or (getattr(expression, "inner", None) or expression.expression,)  # type: ignore[attr-defined]
    return [leaf for part in parts for leaf in _leaves(part)]


# --- pyoxigraph ------------------------------------------------------------------------------------------------------


def by_pyoxigraph(text: str, question: SparqlQuestion, graphs: Mapping[str | None, list[Edge]]) -> Counter:
    """Rows as the engine gives them → how often; ASK gives () or nothing."""
    store = pyoxigraph.Store()
    for window, edges in graphs.items():
        graph = pyoxigraph.DefaultGraph() if window is None else pyoxigraph.NamedNode(window)
        store.extend(pyoxigraph.Quad(node(s), pyoxigraph.NamedNode(p), node(o), graph) for s, p, o in edges)
    found = store.query(extract_clauses(SourceText.read(text)).standard_text)
    if question.form == "ask":
        return Counter([()] if bool(found) else [])
    if question.form == "construct":
        return Counter({(shown(t.subject), shown(t.predicate), shown(t.object)) for t in found})
    return Counter(tuple(shown(solution[name]) for name in question.columns) for solution in found)


_LITERAL = re.compile(r'"(?P<lexical>.*)"(?:\^\^<(?P<type>[^>]*)>|@(?P<language>[\w-]+))?', re.DOTALL)


def node(text: str) -> pyoxigraph.NamedNode | pyoxigraph.Literal:
    """A vertex as a node; the literals of these streams have nothing escaped."""
    parts = _LITERAL.fullmatch(text)
    if parts is None:
        return pyoxigraph.NamedNode(text)
    datatype = parts["type"] and pyoxigraph.NamedNode(parts["type"])
    return pyoxigraph.Literal(parts["lexical"], datatype=datatype, language=parts["language"])


def shown(term: object) -> str | None:
    """A node as a vertex is written."""
    if term is None:
        return None
    return term.value if isinstance(term, pyoxigraph.NamedNode) else str(term)


__all__ = ["Asked", "Tuples", "by_pyoxigraph"]
