r"""The conversion between RDF terms and the texts of vertices, and canonical lines of N-Quads as columns.

==============================  =====================================  =======================================
text                            term                                   in N-Triples
==============================  =====================================  =======================================
`http://example.org/bob`        an IRI                                 `<http://example.org/bob>`
`"chat"@fr`, `"7"^^<http:…>`    a literal                              the text itself
`_:f1.b0`                       a blank node                           the text itself
`bob`, anything else            an IRI derived from the text           `<urn:rpq:text:bob>`
==============================  =====================================  =======================================

Characters that are not allowed in an IRI are percent-encoded, in UTF-8, so `J. Doe` is `<urn:rpq:text:J.%20Doe>`. Reading
reverses this: every text is restored, and no two texts have the same term. No name is empty, so `<urn:rpq:text:>` is an
ordinary IRI.

A line is canonical if it equals the canonical N-Quads of its statement: one blank between the terms and before the full
stop, no unnecessary escape, no datatype xsd:string, languages in lower case. `STATEMENT` and `STATEMENT_OF_GRAPH` match a
subset of these lines and nothing else: lines that match need no parser, only a few operations of Arrow over many lines at
once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import unquote_to_bytes

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rpq.stream.names.terms import read_literal

OF_TEXT = "urn:rpq:text:"
"""The prefix of IRIs that are derived from texts which are not terms of RDF."""

# These expressions have the same meaning in Python and in RE2 (Arrow). They match a subset of the terms of RDF that all
# parsers accept; other IRIs are parsed.
_LETTERS = "\u00a0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef\U00010000-\U0001fffd\U00020000-\U0002fffd\U00030000-\U0003fffd"
_CHARACTERS = rf"A-Za-z0-9\-._~!$&'()*+,;=:@{_LETTERS}"
_ENCODED = "%[0-9A-Fa-f]{2}"
IRI = (
    rf"[A-Za-z][A-Za-z0-9+.\-]*:"
    rf"(?://[A-Za-z0-9.\-_~]*(?::[0-9]*)?(?:[/?](?:[{_CHARACTERS}/?]|{_ENCODED})*)?"
    rf"|(?:/?(?:[{_CHARACTERS}?]|{_ENCODED})(?:[{_CHARACTERS}/?]|{_ENCODED})*)?)"
    rf"(?:#(?:[{_CHARACTERS}/?]|{_ENCODED})*)?"
)
BLANK = r"_:[A-Za-z0-9_](?:[A-Za-z0-9_\-.]*[A-Za-z0-9_\-])?"
STRING = r'"(?:[^"\\\x00-\x1f\x7f]|\\["\\nrtbf])*"'

_IRI = re.compile(IRI)
_BLANK = re.compile(BLANK)
_LITERAL = re.compile(
    rf'"(?:[^"\\\x00-\x1f\x7f\ud800-\udfff]|\\["\\nrtbf]|\\u00[01][0-9A-F]|\\u007F)*"'
    rf"(?:@[A-Za-z]{{1,8}}(?:-[A-Za-z0-9]{{1,8}})*|\^\^<{IRI}>)?"
)
_ESCAPED_CHARACTERS = re.compile(rf"[^A-Za-z0-9\-._~!$&'()*+,;=:@/{_LETTERS}]")


@lru_cache(maxsize=1 << 16)
def rdf_term(text: str) -> str:
    r"""Return the term of a vertex's text, in N-Triples.

    >>> rdf_term("http://example.org/bob"), rdf_term('"chat"@fr'), rdf_term("J. Doe")
    ('<http://example.org/bob>', '"chat"@fr', '<urn:rpq:text:J.%20Doe>')
    """
    if text.startswith('"'):
        literal = read_literal(text)
        if literal is not None and _LITERAL.fullmatch(written := str(literal)):
            return written
    elif text.startswith("_:"):
        if _BLANK.fullmatch(text):
            return text
    elif _IRI.fullmatch(text) and not text.startswith(OF_TEXT):
        return f"<{text}>"
    return f"<{OF_TEXT}{_percent_encode(text)}>"


def vertex_text(iri: str) -> str:
    """Return the text of an IRI, without its brackets: the IRI itself, unless it was derived from another text.

    >>> vertex_text("http://example.org/bob"), vertex_text("urn:rpq:text:J.%20Doe")
    ('http://example.org/bob', 'J. Doe')
    """
    if not iri.startswith(OF_TEXT):
        return iri
    encoded = iri.removeprefix(OF_TEXT)
    try:
        text = unquote_to_bytes(encoded).decode()
    except UnicodeDecodeError:
        return iri
    return text if text and rdf_term(text) == f"<{iri}>" else iri  # no name is empty


def _percent_encode(text: str) -> str:
    return _ESCAPED_CHARACTERS.sub(lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), text)


NAMES = ("subject", "predicate", "object", "graph")

_NODE = f"(?:<{IRI}>|{BLANK})"
_OBJECT = rf"(?:<{IRI}>|{BLANK}|{STRING}(?:@[a-z]{{2,3}}(?:-[a-z]{{2}})?|\^\^<{IRI}>)?)"
STATEMENT = rf"^{_NODE} <{IRI}> {_OBJECT} \.\r?\n?$"
STATEMENT_OF_GRAPH = rf"^{_NODE} <{IRI}> {_OBJECT} {_NODE} \.\r?\n?$"
STATEMENT_WITH_LITERAL = rf'^{_NODE} <{IRI}> {_OBJECT} (?:{_NODE}|"[0-9A-Za-z:.+-]*"(?:\^\^<{IRI}>)?) \.\r?\n?$'
IMPLICIT_DATATYPES = "^^<http://www.w3.org/2001/XMLSchema#string>", "^^<http://www.w3.org/1999/02/22-rdf-syntax-ns#"
"""Datatypes that canonical lines omit, or that are not allowed: a line with one of them is not canonical."""

ARROW_MINIMUM_LINES, ARROW_MINIMUM_BYTES = 1_000, 1 << 18
"""From so many lines or bytes on, Arrow's regular expressions are faster than Python's; Arrow compiles in milliseconds."""

_compile = lru_cache(re.compile)
_ANY = re.compile(
    r'(<[^<> ]*>|_:\S+) (<[^<> ]*>) (<[^<> ]*>|_:\S+|"(?:[^"\\]|\\.)*"(?:@[A-Za-z0-9-]+|\^\^<[^<> ]*>)?)'
    r"(?: (<[^<> ]*>|_:\S+))? \."
)
_TEXT = pa.string()


@dataclass(frozen=True, kw_only=True)
class LineKinds:
    """A classification of lines: canonical statements, and canonical statements with a graph."""

    canonical: np.ndarray
    of_graph: np.ndarray


def lines_of(data: bytes) -> pa.Array:
    """Return the lines of a block of text as an array, including their ends; the array shares the memory of the block.

    Raises `pa.ArrowInvalid` for lines that are not UTF-8.

    >>> lines_of(b"a\\nb").to_pylist()
    ['a\\n', 'b']
    """
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n")) + 1
    if len(data) and (not len(ends) or ends[-1] != len(data)):
        ends = np.append(ends, len(data))
    offsets = np.concatenate([np.zeros(1, np.int32), ends.astype(np.int32)])
    lines = pa.Array.from_buffers(_TEXT, len(ends), [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    lines.validate(full=True)
    return lines


def kinds_of(lines: pa.Array, data: bytes, *, graphs: bool, literal_graphs: bool = False) -> LineKinds:
    """Classify the lines of a block.

    Lines with a graph are canonical only with `graphs`; lines with a literal instead of the graph only with
    `literal_graphs`, and only if the literal is plain.
    """
    of_graph = np.zeros(len(lines), np.bool_)
    if graphs:
        of_graph = _matches(lines, STATEMENT_WITH_LITERAL if literal_graphs else STATEMENT_OF_GRAPH)
    canonical = of_graph.copy()
    if not of_graph.all():
        others = np.flatnonzero(~of_graph)
        canonical[others] = _matches(lines if len(others) == len(lines) else lines.take(pa.array(others)), STATEMENT)
    for datatype in IMPLICIT_DATATYPES:
        if datatype.encode() in data:
            canonical &= ~pc.match_substring(lines, datatype).to_numpy(zero_copy_only=False)
    return LineKinds(canonical=canonical, of_graph=of_graph & canonical)


def _matches(lines: pa.Array, pattern: str) -> np.ndarray:
    if len(lines) < ARROW_MINIMUM_LINES and lines.nbytes < ARROW_MINIMUM_BYTES:
        return np.array([_compile(pattern).match(line) is not None for line in lines.to_pylist()], np.bool_)
    return np.asarray(pc.match_substring_regex(lines, pattern))


def columns_of(lines: pa.Array, of_graph: np.ndarray) -> list[pa.Array]:
    """Return subjects, predicates, objects and graphs of canonical lines as texts of vertices; a missing graph is null."""
    parts = pc.split_pattern(lines, " ", max_splits=2).flatten()
    places = np.arange(0, len(parts), 3)
    subject, predicate, rest = (parts.take(pa.array(places + place)) for place in range(3))
    rest = pc.ascii_rtrim(rest, " .\r\n")  # no term ends with any of these
    if not of_graph.any():
        found, graph = rest, pa.nulls(len(lines), _TEXT)
    else:
        mask = pa.array(of_graph)
        ends = pc.split_pattern(rest if of_graph.all() else rest.filter(mask), " ", max_splits=1, reverse=True).flatten()
        found, graph = (ends.take(pa.array(np.arange(place, len(ends), 2))) for place in range(2))
        if not of_graph.all():
            found = pc.replace_with_mask(rest, mask, found)
            graph = pc.replace_with_mask(pa.nulls(len(lines), _TEXT), mask, graph)
    return [texts_of(subject), texts_of(predicate), texts_of(found), texts_of(graph)]


def texts_of(terms: pa.Array) -> pa.Array:
    """Convert terms in N-Triples to texts of vertices."""
    if terms.null_count == len(terms):
        return terms
    are_iris = pc.starts_with(terms, "<")
    texts = pc.ascii_trim(terms, "<>")
    if are_iris.true_count < len(terms):
        texts = pc.if_else(are_iris, texts, terms)
    are_derived = pc.starts_with(texts, OF_TEXT)
    if are_derived.true_count:
        encoded = texts.dictionary_encode()
        words = [vertex_text(text) for text in encoded.dictionary.to_pylist()]
        texts = pa.array(words, _TEXT).take(encoded.indices)
    return texts


def split_statement(line: str) -> tuple[str, str, str, str | None] | None:
    """Split a statement in canonical N-Quads into its terms; return None for features of RDF 1.2.

    >>> split_statement('<a:x> <a:p> "1 <2>" <a:g> .')
    ('<a:x>', '<a:p>', '"1 <2>"', '<a:g>')
    """
    found = _ANY.fullmatch(line)
    if found is None:
        return None
    tag = found[3].rpartition('"')[2].partition("^")[0] if found[3].startswith('"') else ""
    if "--" in tag:
        return None
    return found[1], found[2], found[3], found[4]
