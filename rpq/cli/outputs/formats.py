r"""The formats of output files, by the ending of their names, and the lines of the RDF formats.

CSV and JSON Lines come from `rpq.rows.table_formats`.  TSV and JSON follow SPARQL 1.1's results; N-Quads have edges only:

============================  ==============  ========================  =================================================
value                         TSV             JSON of SPARQL            N-Quads
============================  ==============  ========================  =================================================
IRI                           `<http://a>`    `uri`                     `<http://a>`
literal                       `"chat"@fr`     `literal`, with its       `"chat"@fr`
                                              language or datatype
blank node                    `_:f1.b0`       `bnode`                   `_:f1.b0`
other text, such as `bob`     `<urn:rpq:…>`   `uri`                     `<urn:rpq:text:bob>`
integer                       `7`             `literal`, xsd:integer    `<urn:rpq:text:7>`, but `"7"^^<…integer>` for an
                                                                        object whose subject is a text
null                          an empty cell   no key                    the row is left out
timestamp                     `7`             `literal`, xsd:integer    the graph: `<urn:rpq:insert:7>` where op is +,
op, query, path               `"+"`           `literal`                 `<urn:rpq:delete:7>` where it is -; that of a quad
                                                                        is its own
computed value                its term: a literal with its language or datatype, an IRI, a blank node
============================  ==============  ========================  =================================================

The input format `rdf` reads such N-Quads, with their times from the name of the graph.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from types import ModuleType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rpq.errors import RpqError
from rpq.files import destinations
from rpq.files.compression import FRAMES
from rpq.rows.table_formats import CSV, JSON_LINES, MESSAGE, LineFormat, value_texts
from rpq.rows.typed_columns import WITNESS_COLUMNS, holds_terms
from rpq.stream.names.terms import RDF, XSD, literal_text, read_literal
from rpq.stream.providers import scheme_of
from rpq.stream.sinks import SINKS

TRIPLE = ("subject", "predicate", "object")
"""The columns of rows that are edges."""

EDGE = ("source", "label", "target")
"""The columns of rows that CONSTRUCT makes."""

QUAD = (*EDGE, "graph")
"""The columns of rows that CONSTRUCT makes, where its template has graphs."""

PAIR = ("source", "target")
"""The columns of rows that are edges whose label is the name of their query."""

_INTEGER = f"{XSD}integer"
_GRAPHS = {"+": "insert", "-": "delete", "=": "answer", "0": "empty"}
_LARGE = pa.large_string()

Cell = Callable[[str], "str | None"]


def tsv_lines(rows: pa.Table, *, computed: Collection[str] = ()) -> Iterator[pa.Buffer]:
    r"""Yield the rows of a table as TSV of SPARQL 1.1, with terms in Turtle's syntax.

    >>> rows = pa.table({"x": ["http://a", '"chat"@fr'], "timestamp": [1, 2], "op": ["+", "-"]})
    >>> print(b"".join(buffer.to_pybytes() for buffer in tsv_lines(rows)).decode().expandtabs(12), end="")
    <http://a>  1           "+"
    "chat"@fr   2           "-"
    """
    for batch in _not_empty(rows):
        cells = [
            pc.fill_null(_cells(column, _term if is_term else literal_text, str), "")
            for column, is_term in zip(batch.columns, _are_terms(batch.schema, computed), strict=True)
        ]
        yield _content(pc.binary_join_element_wise(*cells, _scalar("\t")), "\n")


def bindings(rows: pa.Table, *, separator: str = "\n", computed: Collection[str] = ()) -> Iterator[pa.Buffer]:
    """Yield the rows of a table as bindings of SPARQL's results in JSON, one on each line.

    >>> for buffer in bindings(pa.table({"x": ['"chat"@fr', "http://a", None], "y": ["bob"] * 3})):
    ...     print(buffer.to_pybytes().decode(), end="")
    {"x": {"type": "literal", "value": "chat", "xml:lang": "fr"}, "y": {"type": "uri", "value": "urn:rpq:text:bob"}}
    {"x": {"type": "uri", "value": "http://a"}, "y": {"type": "uri", "value": "urn:rpq:text:bob"}}
    {"y": {"type": "uri", "value": "urn:rpq:text:bob"}}
    """
    for batch in _not_empty(rows):
        members, names = [], batch.schema.names
        for name, column, is_term in zip(names, batch.columns, _are_terms(batch.schema, computed), strict=True):
            key = f"{json.dumps(name, ensure_ascii=False)}: "
            values = _cells(column, _json_term if is_term else _json_literal, _json_integer)
            members.append(pc.binary_join_element_wise(_scalar(key), values, _scalar("")))
        inside = pc.binary_join_element_wise(*members, _scalar(", "), null_handling="skip")
        objects = pc.binary_join_element_wise(_scalar("{"), inside, _scalar("}"), _scalar(""))
        yield pa.py_buffer(separator.join(objects.to_pylist()).encode() + b"\n")


def quad_lines(rows: pa.Table, *, computed: Collection[str] = ()) -> Iterator[pa.Buffer]:
    """Yield rows as N-Quads whose graphs give times and ops.

    The columns are subject, predicate and object, or source, label and target; without a label the predicate is the query's
    name.  With a column graph behind the label they are quads, which have graphs of their own, or none, and neither time nor
    op.  Rows that are no triples of RDF are left out: a value is null, the subject is a literal, or the predicate no IRI.

    >>> rows = pa.table({"subject": ["http://a"], "predicate": ["knows"], "object": ['"x"'], "timestamp": [1], "op": ["+"]})
    >>> b"".join(buffer.to_pybytes() for buffer in quad_lines(rows))
    b'<http://a> <urn:rpq:text:knows> "x" <urn:rpq:insert:1> .\\n'
    """
    for batch in _not_empty(rows):
        names = batch.schema.names
        ends = TRIPLE[::2] if set(TRIPLE) <= set(names) else PAIR
        subject, target = (batch.column(name) for name in ends)
        # The predicate is the label of an edge, or the name of the path query whose answer a pair is.
        predicate = batch.column(TRIPLE[1] if ends != PAIR else EDGE[1] if EDGE[1] in names else "query")
        are_vertices = pa.types.is_integer(subject.type) or not pa.types.is_integer(target.type)
        is_text = TRIPLE[2] in computed and not holds_terms(batch.schema.field(TRIPLE[2]))
        of_text = literal_text if is_text else _term
        cells = [
            _cells(subject, _resource, _vertex),
            _cells(predicate, _iri, _vertex),
            _cells(target, of_text, _vertex if are_vertices else lambda n: literal_text(str(n), _INTEGER)),
        ]
        if _are_quads(names):
            graphs = _cells(batch.column(QUAD[3]), _resource, _vertex)
            named = pc.binary_join_element_wise(graphs, _scalar("."), _scalar(" "))
            graph = pc.coalesce(named, _scalar("."))
        else:
            ops = pc.fill_null(_cells(batch.column("op"), lambda op: f"<urn:rpq:{_GRAPHS[op]}:", str), "")
            times = batch.column("timestamp").cast(_LARGE)
            graph = pc.binary_join_element_wise(ops, times, _scalar("> ."), _scalar(""))
        lines = pc.binary_join_element_wise(*cells, graph, _scalar(" "), null_handling="emit_null").drop_null()
        if len(lines):
            yield _content(lines, "\n")


def _are_quads(names: Sequence[str]) -> bool:
    """Return whether rows with these columns, those of every output among them, are quads."""
    return tuple(name for name in names if name not in (QUERY_COLUMN, *LAST_COLUMNS)) == QUAD


def _not_empty(rows: pa.Table) -> list[pa.RecordBatch]:
    return [batch for batch in rows.to_batches() if batch.num_rows]


def _are_terms(schema: pa.Schema, computed: Collection[str]) -> list[bool]:
    """Return for each column whether it holds terms: all before the timestamp, except query names and computed texts."""
    names = schema.names
    end = names.index("timestamp") if "timestamp" in names else len(names)
    return [
        place < end and name != "query" and (name not in computed or holds_terms(field))
        for place, (name, field) in enumerate(zip(names, schema, strict=True))
    ]


@cache
def _rdf() -> ModuleType:
    """Return the module of the terms of RDF, whose regular expressions only outputs of RDF compile."""
    from rpq.readers.rdf import canonical_lines

    return canonical_lines


def _rdf_term(text: str) -> str:
    """Return a vertex's text in N-Triples form."""
    term: str = _rdf().rdf_term(text)
    return term


def _term(text: str) -> str:
    """Return a vertex or a computed value in N-Triples form."""
    literal = read_literal(text) if text.startswith('"') else None
    return _rdf_term(text) if literal is None else str(literal)


def _resource(text: str) -> str | None:
    term = _rdf_term(text)
    return None if term.startswith('"') else term


def _iri(text: str) -> str | None:
    term = _rdf_term(text)
    return term if term.startswith("<") else None


def _vertex(number: int) -> str:
    return _rdf_term(str(number))


def _json_term(text: str) -> str:
    term = _term(text)
    if term.startswith("<"):
        return _json(type="uri", value=term[1:-1])
    return _json(type="bnode", value=term[2:]) if term.startswith("_:") else _json_literal_of(term)


def _json_literal_of(term: str) -> str:
    literal = read_literal(term)
    assert literal is not None  # what `rdf_term` gives is well-formed
    if literal.language:
        return _json(type="literal", value=literal.text, **{"xml:lang": literal.language})
    if literal.datatype in (f"{XSD}string", f"{RDF}langString"):
        return _json_literal(literal.text)
    return _json(type="literal", value=literal.text, datatype=literal.datatype)


def _json_literal(text: str) -> str:
    return _json(type="literal", value=text)


def _json_integer(number: int) -> str:
    return _json(type="literal", value=str(number), datatype=_INTEGER)


def _json(**members: str) -> str:
    return json.dumps(members, ensure_ascii=False)


def _cells(column: pa.Array, of_text: Cell, of_number: Callable[[int], str | None]) -> pa.Array:
    """Convert each distinct value of a column to text once; null for nulls and for values that have no text."""
    column = value_texts(column) if pa.types.is_list(column.type) else column
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    values = encoded.dictionary
    is_text = pa.types.is_string(values.type) or pa.types.is_large_string(values.type)
    texts = [None if value is None else of_text(value) if is_text else of_number(value) for value in values.to_pylist()]
    return pa.array(texts, _LARGE).take(encoded.indices)


def _scalar(text: str) -> pa.Scalar:
    return pa.scalar(text, _LARGE)


def _content(lines: pa.Array, end: str) -> pa.Buffer:
    """Return the lines, each with its end, as one buffer."""
    ended = pc.binary_join_element_wise(lines, _scalar(""), _scalar(end))
    offsets = np.frombuffer(ended.buffers()[1], np.int64)
    first, last = int(offsets[ended.offset]), int(offsets[ended.offset + len(ended)])
    return ended.buffers()[2].slice(first, last - first) if last > first else pa.py_buffer(b"")


def _json_header(columns: Sequence[str]) -> bytes:
    variables = json.dumps(list(columns), ensure_ascii=False)
    return f'{{"head": {{"vars": {variables}}}, "results": {{"bindings": [\n'.encode()


TSV = LineFormat(header=lambda columns: ("\t".join(f"?{name}" for name in columns) + "\n").encode(), encode=tsv_lines)
SPARQL_JSON_LINES = LineFormat(header=lambda columns: b"", encode=bindings)
SPARQL_JSON = LineFormat(header=_json_header, encode=partial(bindings, separator="\n,"), between=b",", footer=b"]}}\n")
N_QUADS = LineFormat(header=lambda columns: b"", encode=quad_lines)

FORMS = (TSV, SPARQL_JSON_LINES, SPARQL_JSON, N_QUADS)


def computed_columns(answers: Sequence[str]) -> frozenset[str]:
    """Return the columns that hold computed values."""
    kinds = getattr(answers, "kinds", ())
    return frozenset(name for name, kind in zip(answers, kinds, strict=False) if kind == "text")


def with_computed_columns(lines: LineFormat, answers: Sequence[str]) -> LineFormat:
    """Return the format for answers with computed columns, which are texts unless a table has them as terms.

    Computed columns are those whose kind is "text" in the `kinds` of the answers, if they have that attribute.
    """
    computed = computed_columns(answers)
    if not computed or lines not in FORMS:
        return lines
    encode: Callable[..., Iterator[pa.Buffer]] = lines.encode
    return replace(lines, encode=partial(encode, computed=computed))


LAST_COLUMNS = ("timestamp", "op")
"""The columns of every output, after those of the query."""

COLUMNS = (*PAIR, *LAST_COLUMNS)
"""The columns of an output of path queries."""

QUERY_COLUMN = "query"
"""The first column of outputs of several queries."""

TEXT_FORMS = {".csv": CSV, ".jsonl": JSON_LINES, ".tsv": TSV, ".srjl": SPARQL_JSON_LINES, ".nq": N_QUADS}
WHOLE_FORMS = {".srj": SPARQL_JSON}
"""Formats with a footer, which cannot be written in compressed frames."""

ENDINGS = (*(form + packed for form in TEXT_FORMS for packed in ("", *FRAMES)), *WHOLE_FORMS, ".parquet")
"""The endings of the names of output files."""

RDF_ENDINGS = (".tsv", ".srj", ".nq")
"""The beginnings of the endings of the formats of SPARQL and RDF."""

N_QUADS_ENDINGS = tuple(ending for ending in ENDINGS if ending.startswith(".nq"))


class SinkError(RpqError):
    """An output that cannot be opened or resumed."""


def columns_of(
    answers: Sequence[str] = PAIR, *, witness: bool, with_query: bool = False, message: bool = False
) -> tuple[str, ...]:
    """Return the columns of an output for `answers`.

    `with_query` adds the query's name, `witness` the path and the times of its edges, and `message` a text.

    >>> columns_of(witness=True, with_query=True)
    ('query', 'source', 'target', 'timestamp', 'op', 'path', 'path_times')
    >>> columns_of(("x", "y", "z"), witness=False)
    ('x', 'y', 'z', 'timestamp', 'op')
    """
    further = (*(WITNESS_COLUMNS if witness else ()), *(MESSAGE,) * message)
    return (*(QUERY_COLUMN,) * with_query, *answers, *LAST_COLUMNS, *further)


def check_edges(path: str, answers: Sequence[str]) -> None:
    """Raise `SinkError` if answers with these columns are no edges, and so cannot become N-Quads."""
    if not set(TRIPLE) <= set(answers) and tuple(answers) not in (PAIR, EDGE, QUAD):
        raise SinkError(
            f"{path}: N-Quads are edges: expected the columns {', '.join(TRIPLE)}, or {' and '.join(PAIR)}, "
            f"not {', '.join(answers) or 'none'}"
        )


def check_suffix(path: str) -> str:
    """Return the ending of an output's name in lower case.  Raises `SinkError` for an unknown ending, and for a URL."""
    if (scheme := scheme_of(path)) is not None:
        raise SinkError(
            f"URLs of {scheme}:// are not written; expected the path of a file, - for standard output, kafka://BROKER/TOPIC "
            "or postgresql://HOST/DATABASE?table=NAME; or install a package with a sink for "
            f"{scheme} (entry point {SINKS.group})"
        )
    ending = next((ending for ending in ENDINGS if path.lower().endswith(ending)), None)
    if ending is not None:
        return ending
    if path == destinations.STANDARD_STREAM or not (destinations.is_regular(path) or os.path.isdir(path)):
        return ".csv"
    raise SinkError(
        f"{path}: the ending determines the format: expected a name that ends in .csv, .parquet, .jsonl, .tsv, .srj, "
        ".srjl or .nq (all but .parquet and .srj also followed by .gz or .zst), or -"
    )


def check_end(path: str, position: int) -> None:
    """Raise `SinkError` if no row can begin at a position of a format with a footer: the file was changed."""
    if not os.path.exists(path):
        return
    with open(path, "rb") as file:
        file.seek(position)
        if file.read(1) not in (b"", b",", b"{", b"]"):
            raise SinkError(f"{path}: does not have the rows from which the checkpoint continues; it was changed")
