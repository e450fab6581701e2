"""The syntaxes of RDF: their names, the suffixes of their files, and their parser."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from rpq.errors import InputError, did_you_mean, install_command
from rpq.readers.source import COMPRESSIONS


@dataclass(frozen=True, kw_only=True)
class RdfSyntax:
    """A syntax: its name, the suffixes of its files, and its name in pyoxigraph.

    With `has_graphs` triples may be in named graphs; with `is_line_based` each statement is a line; with `recovers` the
    parser continues after an error. With `has_local_blanks`, blank nodes without a label are referred to only within
    the statement of one subject. With `has_documents`, each line is a document of its own.
    """

    name: str
    endings: tuple[str, ...]
    member: str
    title: str
    has_graphs: bool = False
    is_line_based: bool = False
    recovers: bool = True
    has_local_blanks: bool = False
    has_documents: bool = False


SYNTAXES = (
    RdfSyntax(name="nt", endings=(".nt",), member="N_TRIPLES", title="N-Triples", is_line_based=True),
    RdfSyntax(name="nq", endings=(".nq",), member="N_QUADS", title="N-Quads", has_graphs=True, is_line_based=True),
    RdfSyntax(name="ttl", endings=(".ttl", ".turtle"), member="TURTLE", title="Turtle", has_local_blanks=True),
    RdfSyntax(name="trig", endings=(".trig",), member="TRIG", title="TriG", has_graphs=True, has_local_blanks=True),
    RdfSyntax(
        name="jsonld", endings=(".jsonld", ".json"), member="JSON_LD", title="JSON-LD", has_graphs=True, recovers=False
    ),
    RdfSyntax(
        name="ndjsonld",
        endings=(".ndjsonld", ".jsonldl", ".ndjson", ".jsonl"),
        member="JSON_LD",
        title="JSON-LD, one document a line",
        has_graphs=True,
        has_documents=True,
    ),
    RdfSyntax(name="rdf", endings=(".rdf", ".owl", ".xml"), member="RDF_XML", title="RDF/XML", recovers=False),
)
SYNTAX_OF_TYPE = {
    "application/n-quads": "nq",
    "application/n-triples": "nt",
    "text/turtle": "ttl",
    "application/trig": "trig",
    "application/ld+json": "jsonld",
    "application/rdf+xml": "rdf",
}
"""The names of syntaxes by media type."""

SYNTAX_NAMES = tuple(syntax.name for syntax in SYNTAXES)

_PLACE = re.compile(
    r"Parser error (?:at line \d+ (?:between columns \d+ and \d+|column \d+)|"
    r"between line \d+ column \d+ and line \d+ column \d+): "
)
_LINE = re.compile(r" \(line \d+\)$")


def syntax_by_name(name: str) -> RdfSyntax:
    """Return a syntax by its name; raise `InputError` for an unknown name."""
    found = next((syntax for syntax in SYNTAXES if syntax.name == name), None)
    if found is None:
        raise InputError(
            f"unknown syntax of RDF {name!r}: expected one of {', '.join(SYNTAX_NAMES)}{did_you_mean(name, SYNTAX_NAMES)}"
        )
    return found


def syntax_of(path: str) -> RdfSyntax:
    """Return the syntax by the suffix of a file name; N-Quads, which include N-Triples, for any other name.

    >>> syntax_of("events.ttl.gz").name, syntax_of("-").name
    ('ttl', 'nq')
    """
    return syntax_by_ending(path) or syntax_by_name("nq")


def syntax_by_ending(path: str) -> RdfSyntax | None:
    """Return the syntax by the suffix of a file name, before that of a compression; None for any other name."""
    name = path.lower()
    for compression in COMPRESSIONS:
        name = name.removesuffix(compression.suffix)
    return next((syntax for syntax in SYNTAXES if name.endswith(syntax.endings)), None)


def pyoxigraph() -> ModuleType:
    """Import pyoxigraph; raise `InputError` with the command to install it if it is missing."""
    try:
        import pyoxigraph as package
    except ImportError as error:
        raise InputError(
            f"the format rdf is parsed by pyoxigraph, which is not installed: {install_command('rdf')}"
        ) from error
    module: ModuleType = package
    return module


NO_BASE = "rpq-relative://no-base/"
"""The base for JSON-LD that has none. Without a base, the parser would leave out statements with relative IRIs."""

_NO_BASE_SCHEME = NO_BASE.partition("//")[0]
_UNRESOLVED = re.compile(rf"(?:.*\^\^)?<{_NO_BASE_SCHEME}(?:{NO_BASE.removeprefix(_NO_BASE_SCHEME)})?(.*)>", re.DOTALL)


def parser_of(data: Any, syntax: RdfSyntax, base: str | None = None) -> Any:
    """Return an iterator over the quads in bytes or in a binary file; relative IRIs refer to `base`.

    Raises `ValueError` if the base is not an absolute IRI.
    """
    package = pyoxigraph()
    if syntax.member == "JSON_LD":
        base = base or NO_BASE
    return package.parse(data, format=getattr(package.RdfFormat, syntax.member), base_iri=base)


def is_unresolved(data: bytes) -> bool:
    """Return whether lines of N-Quads may contain IRIs that had no base."""
    return f"<{_NO_BASE_SCHEME}".encode() in data


def unresolved_iri(terms: Iterable[str | None]) -> str | None:
    """Return the first IRI that had no base among terms in N-Quads, as it is relative to any base.

    >>> unresolved_iri(["<http://example.org/a>", f"<{NO_BASE}b>"])
    'b'
    """
    found = (_UNRESOLVED.fullmatch(term) for term in terms if term is not None)
    return next((one[1] for one in found if one is not None), None)


def parser_message(error: SyntaxError) -> str:
    """Return the message of a parser's error without its description of the place."""
    text = _LINE.sub("", str(error))
    message = _PLACE.sub("", text, count=1)
    if "LoadDocumentCallback" in message:
        message = "a JSON-LD @context is the address of a remote context, which is not loaded; expected the context itself"
    elif "No scheme found in an absolute IRI" in message:
        message += "; @base in the input or --rdf-base sets the base of relative IRIs"
    return f"at character {error.offset}: {message}" if error.offset else message
