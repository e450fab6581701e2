r"""Rows as lines of RDF: TSV and JSON as SPARQL's results have them, and N-Quads.

============================  ==============  ========================  =================================================
a value                       TSV             JSON of SPARQL            N-Quads
============================  ==============  ========================  =================================================
an IRI                        `<http://a>`    `uri`                     `<http://a>`
a literal                     `"chat"@fr`     `literal`, with its       `"chat"@fr`
                                              language or datatype
a blank node                  `_:f1.b0`       `bnode`                   `_:f1.b0`
another text, such as `bob`   `<urn:rpq:…>`   `uri`                     `<urn:rpq:text:bob>`
an integer                    `7`             `literal`, xsd:integer    `<urn:rpq:text:7>`, but `"7"^^<…integer>` for an
                                                                        object whose subject is a text
nothing                       an empty cell   no key                    the row is left out
timestamp                     `7`             `literal`, xsd:integer    the graph: `<urn:rpq:insert:7>` where op is +,
op, query, path               `"+"`           `literal`                 `<urn:rpq:delete:7>` where it is -
what was computed             the term that it is: a literal with its language or datatype, an IRI, a blank node
============================  ==============  ========================  =================================================

The format `rdf` reads such N-Quads again, with their times by the name of the graph.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rpq.files.lines import Lines
from rpq.readers.rdf.rdf_terms import is_resource, rdf_term
from rpq.results.typed_columns import holds_terms
from rpq.sparql.values.terms import RDF, XSD, literal_text, read_literal

TRIPLE = ("subject", "predicate", "object")
"""The columns of rows that are edges."""

EDGE = ("source", "label", "target")
"""The columns of rows that CONSTRUCT makes."""

PAIR = ("source", "target")
"""The columns of rows that are edges with the name of their query as the label."""

_INTEGER = f"{XSD}integer"
_GRAPHS = {"+": "insert", "-": "delete", "=": "answer"}
_LARGE = pa.large_string()

Cell = Callable[[str], "str | None"]


def tsv_lines(rows: pa.Table, *, computed: Collection[str] = ()) -> Iterator[pa.Buffer]:
    r"""Yield the rows of a table as TSV of SPARQL 1.1: terms as Turtle has them.

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
    """Yield the rows of a table as bindings of SPARQL's results in JSON, one a line.

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
    """Yield rows with the columns subject, predicate and object as N-Quads whose graphs tell times and ops.

    So are those with the columns source, label and target; without a label the predicate is the query's name.
    Those that are no triples of RDF are left out: something is not bound, the subject is a literal, the predicate no IRI.

    >>> rows = pa.table({"subject": ["http://a"], "predicate": ["knows"], "object": ['"x"'], "timestamp": [1], "op": ["+"]})
    >>> b"".join(buffer.to_pybytes() for buffer in quad_lines(rows))
    b'<http://a> <urn:rpq:text:knows> "x" <urn:rpq:insert:1> .\\n'
    """
    for batch in _not_empty(rows):
        names = batch.schema.names
        ends = TRIPLE[::2] if set(TRIPLE) <= set(names) else PAIR
        subject, target = (batch.column(name) for name in ends)
        # The label of an edge is the predicate; of the pairs of a path query it is the query's name.
        predicate = batch.column(TRIPLE[1] if ends != PAIR else EDGE[1] if EDGE[1] in names else "query")
        are_vertices = pa.types.is_integer(subject.type) or not pa.types.is_integer(target.type)
        is_text = TRIPLE[2] in computed and not holds_terms(batch.schema.field(TRIPLE[2]))
        of_text = literal_text if is_text else _term
        cells = [
            _cells(subject, _resource, _vertex),
            _cells(predicate, _iri, _vertex),
            _cells(target, of_text, _vertex if are_vertices else lambda n: literal_text(str(n), _INTEGER)),
        ]
        ops = pc.fill_null(_cells(batch.column("op"), lambda op: f"<urn:rpq:{_GRAPHS[op]}:", str), "")
        times = batch.column("timestamp").cast(_LARGE)
        graph = pc.binary_join_element_wise(ops, times, _scalar("> ."), _scalar(""))
        lines = pc.binary_join_element_wise(*cells, graph, _scalar(" "), null_handling="emit_null").drop_null()
        if len(lines):
            yield _content(lines, "\n")


def _not_empty(rows: pa.Table) -> list[pa.RecordBatch]:
    return [batch for batch in rows.to_batches() if batch.num_rows]


def _are_terms(schema: pa.Schema, computed: Collection[str]) -> list[bool]:
    """Which columns hold terms: those before the timestamp, but for the query's name and texts that it has computed."""
    names = schema.names
    end = names.index("timestamp") if "timestamp" in names else len(names)
    return [
        place < end and name != "query" and (name not in computed or holds_terms(field))
        for place, (name, field) in enumerate(zip(names, schema, strict=True))
    ]


def _term(text: str) -> str:
    """A vertex or what was computed, as N-Triples write it."""
    literal = read_literal(text) if text.startswith('"') else None
    return rdf_term(text) if literal is None else str(literal)


def _resource(text: str) -> str | None:
    term = rdf_term(text)
    return term if is_resource(term) else None


def _iri(text: str) -> str | None:
    term = rdf_term(text)
    return term if term.startswith("<") else None


def _vertex(number: int) -> str:
    return rdf_term(str(number))


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
    """The values of a column as texts, null where a value is or where it has none; each different one is made once."""
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    values = encoded.dictionary
    is_text = pa.types.is_string(values.type) or pa.types.is_large_string(values.type)
    made = [None if value is None else of_text(value) if is_text else of_number(value) for value in values.to_pylist()]
    return pa.array(made, _LARGE).take(encoded.indices)


def _scalar(text: str) -> pa.Scalar:
    return pa.scalar(text, _LARGE)


def _content(lines: pa.Array, end: str) -> pa.Buffer:
    """The lines one behind the other, each with its end."""
    ended = pc.binary_join_element_wise(lines, _scalar(""), _scalar(end))
    offsets = np.frombuffer(ended.buffers()[1], np.int64)
    first, last = int(offsets[ended.offset]), int(offsets[ended.offset + len(ended)])
    return ended.buffers()[2].slice(first, last - first) if last > first else pa.py_buffer(b"")


def _json_header(columns: Sequence[str]) -> bytes:
    variables = json.dumps(list(columns), ensure_ascii=False)
    return f'{{"head": {{"vars": {variables}}}, "results": {{"bindings": [\n'.encode()


TSV = Lines(header=lambda columns: ("\t".join(f"?{name}" for name in columns) + "\n").encode(), of=tsv_lines)
SPARQL_JSON_LINES = Lines(header=lambda columns: b"", of=bindings)
SPARQL_JSON = Lines(header=_json_header, of=partial(bindings, separator="\n,"), between=b",", footer=b"]}}\n")
N_QUADS = Lines(header=lambda columns: b"", of=quad_lines)

FORMS = (TSV, SPARQL_JSON_LINES, SPARQL_JSON, N_QUADS)


def computed_of(answers: Sequence[str]) -> frozenset[str]:
    """The columns that hold what was computed."""
    kinds = getattr(answers, "kinds", ())
    return frozenset(name for name, kind in zip(answers, kinds, strict=False) if kind == "text")


def with_computed(lines: Lines, answers: Sequence[str]) -> Lines:
    """The form for answers of which some columns hold what was computed: texts, unless a table has them as terms.

    Which these are their `kinds` tell, a name for each column ("text"), where the columns have that.
    """
    computed = computed_of(answers)
    if not computed or lines not in FORMS:
        return lines
    of: Callable[..., Iterator[pa.Buffer]] = lines.of
    return replace(lines, of=partial(of, computed=computed))
