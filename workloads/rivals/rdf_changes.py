"""SPARQL over streams of RDF for rivals: a query without windows, the terms, and the changes of each of its windows.

A rival has no windows: it evaluates a query over a default graph, to which the file of changes adds the triples of all
windows and the static triples. Only if two windows of a query read the same predicate, each window is a named graph.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import rpq
from rpq.language.pattern import Variable
from rpq.language.sparql.algebra import windows_read
from rpq.language.sparql.query import SparqlQuery
from rpq.workloads.rivals.driver import Edge, WindowChanges, checksums, totals
from rpq.workloads.rivals.questions import RdfQuestion

NUMBERS = ("integer", "decimal", "float", "double")
"""The types of XML Schema whose literals are compared by value: engines write a computed number in different ways."""

NUMBER, UNBOUND = 2**64 - 2, 2**64 - 1
"""The codes of a number, and of an unbound value, in the checksum of a row."""

_XSD = "http://www.w3.org/2001/XMLSchema#"
_HEAD = re.compile(r"^\s*FROM NAMED WINDOW (\S+) ON \S+ \[[^\]]*\]\s*$", re.MULTILINE)
_TEMPLATE = re.compile(r"CONSTRUCT \{ (\S+) (\S+) (\S+) \}")
_LITERAL = re.compile(r'"(.*)"(?:\^\^<(.*)>)?', re.DOTALL)
_PLAIN_NUMBER = re.compile(r"[-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?")


def query_without_windows(text: str, *, graphs: bool) -> str:
    """Return a query for a store: windows are named graphs, or with `graphs=False` parts of the default graph.

    A template of one triple becomes a selection of its three terms.

    >>> text = "SELECT ?x\\nFROM NAMED WINDOW :w ON :s [RANGE 9 STEP 3]\\nWHERE { WINDOW :w { ?x :p ?y } ?y :q ?z }"
    >>> query_without_windows(text, graphs=True)
    'SELECT ?x\\nWHERE { GRAPH :w { ?x :p ?y } ?y :q ?z }'
    >>> query_without_windows(text, graphs=False)
    'SELECT ?x\\nWHERE { ?x :p ?y . ?y :q ?z }'
    """
    text = _TEMPLATE.sub(r"SELECT DISTINCT (\1 AS ?source) (\2 AS ?label) (\3 AS ?target)", _HEAD.sub("", text))
    text = re.sub(r"\n+", "\n", text)
    if graphs:
        return re.sub(r"\bWINDOW (\S+ \{)", r"GRAPH \1", text)
    while found := re.search(r"\bWINDOW \S+ \{", text):
        end = _closing_brace(text, found.end())
        body = text[found.end() : end].strip()
        if body.startswith("SELECT"):
            body = f"{{ {body} }}"
        elif not body.endswith((".", "}", ")")):
            body += " ."
        text = text[: found.start()] + body + text[end + 1 :]
    return text


def _closing_brace(text: str, place: int) -> int:
    depth = 1
    while depth:
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        place += 1
    return place - 1


class Terms:
    """The terms of a stream, each with a number, and the checksums of answers in which they occur.

    >>> table = pa.table({"source": ["urn:x"], "label": ["urn:p"], "target": ['"1.50"^^<%sdecimal>' % _XSD]})
    >>> terms, columns = Terms.of(table)
    >>> [column.tolist() for column in columns]
    [[0], [1], [2]]
    >>> terms.sums([pa.array(["urn:x"]), pa.array(["1.5"])])[1] == terms.sums([pa.array(["urn:x"]), table["target"]])[1]
    array([ True])
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = texts
        self._numbers = {text: number for number, text in enumerate(texts)}

    @classmethod
    def of(cls, table: pa.Table, *, further: Sequence[str] = ()) -> tuple[Terms, list[np.ndarray]]:
        """Return the terms of a table, then `further`, and the numbers of its sources, labels and targets."""
        names = ("source", "label", "target")
        chunks = [chunk.cast(pa.string()) for name in names for chunk in table[name].chunks]
        encoded = pa.chunked_array(chunks, pa.string()).combine_chunks().dictionary_encode()
        numbers = encoded.indices.to_numpy().astype(np.int64)
        return cls([*dict.fromkeys([*encoded.dictionary.to_pylist(), *further])]), np.split(numbers, len(names))

    def number(self, text: str) -> int:
        """Return the number of a term. Raises `KeyError` if the stream does not contain it."""
        return self._numbers[text]

    def write(self, path: Path) -> None:
        """Write a line for each term: its text and, of a literal, its type, with a tab between them."""
        with path.open("w", encoding="utf-8") as file:
            for text in self.texts:
                literal = _LITERAL.fullmatch(text)
                if literal is None:
                    file.write(f"{text}\n")
                else:
                    file.write(f"{literal[1]}\t{literal[2] or _XSD + 'string'}\n")

    def sums(self, columns: Sequence[pa.Array | pa.ChunkedArray]) -> tuple[np.ndarray, np.ndarray]:
        """Return the checksum of each row, and the sum of its numbers by the row's weight."""
        rows = len(columns[0]) if columns else 0
        values = np.zeros(rows)
        numbers = []
        for column in columns:
            if isinstance(column, pa.ChunkedArray):
                column = column.combine_chunks()
            column = column if pa.types.is_dictionary(column.type) else column.cast(pa.string()).dictionary_encode()
            cells = [self._cell(text) for text in column.dictionary.to_pylist()]
            places = column.indices.fill_null(len(cells)).to_numpy(zero_copy_only=False)
            numbers.append(np.array([number for number, _ in cells] + [UNBOUND], np.uint64)[places])
            values += np.array([value for _, value in cells] + [0.0])[places]
        checksum = checksums(numbers)
        return checksum, totals(checksum, values)

    def _cell(self, text: str) -> tuple[int, float]:
        literal = _LITERAL.fullmatch(text)
        if literal is not None and (literal[2] or "").removeprefix(_XSD) in NUMBERS:
            return NUMBER, float(literal[1])
        if _PLAIN_NUMBER.fullmatch(text):
            return NUMBER, float(text)
        return self._numbers[text], 0.0


@dataclass(frozen=True, kw_only=True)
class RdfStream:
    """A stream of triples in order of time, `slides` with the number of the slide of each, and static triples.

    Tuples of slides before `first_slide` are in a store before its seconds begin. If `are_graphs`, each slide is a graph
    which nothing else is in.
    """

    table: pa.Table
    slides: np.ndarray
    first_slide: int = 0
    static: pa.RecordBatch | None = None
    are_graphs: bool = False

    def parts(self) -> Iterator[tuple[int, pa.Table]]:
        """Yield the tuples before the first slide, if there are any, as one part, and then each slide with its number."""
        numbers = np.maximum(self.slides, self.first_slide - 1)
        cuts = np.flatnonzero(np.diff(numbers)) + 1
        for start, end in pairwise([0, *cuts.tolist(), len(numbers)]):
            yield int(numbers[start]), self.table.slice(start, end - start)


def write_rdf_changes(query: SparqlQuery, stream: RdfStream, folder: Path, *, epl: str = "") -> tuple[RdfQuestion, Terms]:
    """Write `changes.tsv` and `terms.tsv` for a query whose windows are in the unit of the stream; return both.

    With `epl` also `tuples.tsv`, what is pushed slide by slide, for an engine that keeps the windows of this statement.
    Tuples that no window of the query reads are left out, and static triples that nothing outside of its windows reads.
    """
    read = set(stream.table["label"].unique().to_pylist())
    labels = [[label for label in read if reading.labels.has(label)] for reading in query.readings]
    has_graphs = sum(map(len, labels)) > len({label for some in labels for label in some})
    tuples = len(stream.table)
    chosen = [_is_read(stream, reading.stream, some) for reading, some in zip(query.readings, labels, strict=True)]
    is_read = np.logical_or.reduce(chosen)
    table = stream.table.select(["source", "label", "target"]).filter(pa.array(is_read))
    graphs = [str(name) for name in query.windows] if has_graphs else []
    if not stream.are_graphs and not all(isinstance(reading.window, rpq.Window) for reading in query.readings):
        raise ValueError(f"{query.name}: rivals follow windows of time, or events alone")
    if stream.static is not None and windows_read(query.parsed.body).get(None):
        table = pa.concat_tables([table, pa.Table.from_batches([stream.static.select(table.column_names)])])
    terms, numbers = Terms.of(table, further=[*graphs, *_template_terms(query)])
    read_tuples = int(is_read.sum())
    columns = [np.zeros(tuples, np.int64) for _ in numbers]
    for column, some in zip(columns, numbers, strict=True):
        column[is_read] = some[:read_tuples]
    times = stream.table["timestamp"].to_numpy()
    with (folder / "changes.tsv").open("w", encoding="ascii") as file:
        for edge in zip(*(column[read_tuples:].tolist() for column in numbers), strict=True):
            file.write("\t".join(map(str, (stream.first_slide, "=", *edge))) + "\n")
        windows = [
            WindowChanges(reading.window) if isinstance(reading.window, rpq.Window) else None for reading in query.readings
        ]
        start = 0
        for slide, part in stream.parts():
            end = start + len(part)
            if stream.are_graphs:
                file.write(f"{slide}\t0\n")
            for number, (window, is_chosen) in enumerate(zip(windows, chosen, strict=True)):
                rows = start + np.flatnonzero(is_chosen[start:end])
                edges = zip(*(column[rows].tolist() for column in columns), strict=True)
                if window is None:
                    removed: list[Edge] = []
                    added: list[Edge] = list(dict.fromkeys(edges))
                else:
                    removed, added = window.slide(zip(edges, times[rows].tolist(), strict=True), int(times[end - 1]))
                graph = f"\t{terms.number(graphs[number])}" if graphs else ""
                for sign, changed in (("-", removed), ("=" if slide < stream.first_slide else "+", added)):
                    file.writelines(f"{slide}\t{sign}\t{s}\t{p}\t{o}{graph}\n" for s, p, o in changed)
            start = end
    if epl:
        with (folder / "tuples.tsv").open("w", encoding="ascii") as file:
            numbered = [stream.slides[is_read], *(column[is_read] for column in columns)]
            for slide, *cells in zip(*(column.tolist() for column in numbered), strict=True):
                file.write("\t".join(map(str, (slide, "=" if slide < stream.first_slide else "+", *cells))) + "\n")
    terms.write(folder / "terms.tsv")
    text = query_without_windows(str(query.expression), graphs=has_graphs)
    question = RdfQuestion(name=query.name, text=str(query.expression), sparql=text, terms=folder / "terms.tsv", epl=epl)
    return question, terms


def _is_read(stream: RdfStream, name: str | None, labels: Sequence[str]) -> np.ndarray:
    """Return for each tuple whether it belongs to the stream of this name, if any, and has one of the labels."""
    found = pc.is_in(stream.table["label"], pa.array(labels, pa.string()))
    if name is not None:
        found = pc.and_(found, pc.equal(stream.table["stream"], name))
    chosen: np.ndarray = found.to_numpy()
    return chosen


def _template_terms(query: SparqlQuery) -> list[str]:
    """Return the constants of a CONSTRUCT template, which answers have beside terms of the stream."""
    found = []
    for triple in query.parsed.template:
        terms = (triple.subject, triple.predicate, triple.object)
        found += [term if isinstance(term, str) else term.name for term in terms if not isinstance(term, Variable)]
    return found
