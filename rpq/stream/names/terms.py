r"""Terms as texts: IRIs, blank nodes and literals, and the resolution of relative IRIs.

A term is one text, like a vertex: `"…"` in N-Triples form is a literal, `_:…` is a blank node, everything else is an IRI.
Every literal has exactly one text: `"`, `\` and control characters are escaped (as in the canonical N-Triples of RDF 1.2),
an xsd:string has no datatype, and a language tag keeps its case (constants of a query are lowercased, as the readers of
RDF do).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from rpq.automata.symbols import unescape

XSD = "http://www.w3.org/2001/XMLSchema#"
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
LOOSE_TYPE = "urn:x-rpq:loose"
"""The datatype of a text of which no column says whether it is a number."""

LIST_TYPE = "urn:x-rpq:list"
"""The datatype of literals that are lists of values (`rpq.stream.names.list_terms`)."""

_LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"(?:@([A-Za-z]+(?:-[A-Za-z0-9]+)*)|\^\^<([^<>]*)>)?', re.DOTALL)
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"(?:@[A-Za-z0-9-]+|\^\^<[^<>]*>)?', re.DOTALL)
"""The form of literals as the names of vertices: tags of languages need not be well-formed."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_KNOWN_ESCAPES = re.compile(r"""(?:[^\\]|\\(?:[tnrbf"'\\]|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}))*""")
_ESCAPED = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}
_ESCAPES = {code: f"\\u{code:04X}" for code in (*range(32), 127)} | {ord(one): text for one, text in _ESCAPED.items()}
OTHER_FORM = r"[\\\x00-\x1f\x7f]|\^\^<http://www\.w3\.org/2001/XMLSchema#string>$"
"""The parts of literals that may be in another form than the normal one: escapes, control characters, xsd:string."""
_may_be_other = re.compile(OTHER_FORM).search
_PARTS = re.compile(r"(?:([^:/?#]+):)?(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.DOTALL)


@dataclass(frozen=True)
class Literal:
    """A literal: its lexical form, its datatype (an IRI), and its language, which is empty except for rdf:langString."""

    text: str
    datatype: str = XSD + "string"
    language: str = ""

    def __str__(self) -> str:
        return literal_text(self.text, self.datatype, self.language)


def literal_text(text: str, datatype: str = XSD + "string", language: str = "") -> str:
    r"""Return a literal in N-Triples form.

    >>> print(literal_text("30", XSD + "integer"), literal_text('say "hello"', language="EN"))
    "30"^^<http://www.w3.org/2001/XMLSchema#integer> "say \"hello\""@EN
    """
    quoted = f'"{text.translate(_ESCAPES)}"'
    if language:
        return f"{quoted}@{language}"
    return quoted if datatype == XSD + "string" else f"{quoted}^^<{datatype}>"


def number_literal(text: str) -> str:
    """Return the literal of a number in SPARQL's grammar, with its original spelling.

    >>> number_literal("007")
    '"007"^^<http://www.w3.org/2001/XMLSchema#integer>'
    """
    name = "double" if "e" in text.lower() else "decimal" if "." in text else "integer"
    return literal_text(text, XSD + name)


@lru_cache(maxsize=4096)
def read_literal(term: str) -> Literal | None:
    """Parse a term as a literal. Return None for IRIs, blank nodes, and texts that only begin like a literal.

    >>> read_literal('"chat"@FR'), read_literal("bob")
    (Literal(text='chat', datatype='http://www.w3.org/1999/02/22-rdf-syntax-ns#langString', language='FR'), None)
    """
    found = _LITERAL.fullmatch(term) if term.startswith('"') else None
    if found is None:
        return None
    text = unescape(found[1])
    if found[2]:
        return Literal(text, RDF + "langString", found[2])
    return Literal(text, found[3] or XSD + "string")


def normal_form(term: str) -> str:
    r"""Return the one text of a literal, which may be spelled in other ways; return any other term unchanged.

    A text with an escape that N-Triples does not have is not changed either.

    >>> print(normal_form('"a\u0062c"^^<http://www.w3.org/2001/XMLSchema#string>'), normal_form("bob"))
    "abc" bob
    """
    literal = read_literal(term) if term.startswith('"') and _may_be_other(term) else None
    if literal is None or not _KNOWN_ESCAPES.fullmatch(term):
        return term
    text = str(literal)
    return term if _SURROGATE.search(text) else text  # which UTF-8 cannot hold


def lexical_form(name: str) -> str:
    r"""Return the text between the quotes of a literal in N-Triples form; return any other name unchanged.

    >>> lexical_form('"30"^^<http://www.w3.org/2001/XMLSchema#integer>'), lexical_form('"say \\"hello\\""@en')
    ('30', 'say "hello"')
    """
    found = _QUOTED.fullmatch(name) if name.startswith('"') else None
    return name if found is None else unescape(found[1])


def is_literal(term: str) -> bool:
    """Return whether a term is a literal, that is, begins with a quote."""
    return term.startswith('"')


def is_blank(term: str) -> bool:
    """Return whether a term is a blank node."""
    return term.startswith("_:")


def resolve_iri(base: str, reference: str) -> str:
    """Resolve a reference against a base IRI (RFC 3986, section 5.2, without normalisation).

    An IRI with a scheme does not change, even if its path contains dots (the W3C's test i18n/normalization-2).

    >>> resolve_iri("http://a/b/c/d;p?q", "../g"), resolve_iri("http://a/b", "urn:x"), resolve_iri("", "a2q")
    ('http://a/b/g', 'urn:x', 'a2q')
    """
    if not base:
        return reference
    scheme, authority, path, query, fragment = _parts(reference)
    base_scheme, base_authority, base_path, base_query, _ = _parts(base)
    if scheme is not None:
        return reference
    if authority is not None:
        return _compose_iri(base_scheme, authority, _without_dots(path), query, fragment)
    if not path:
        query = base_query if query is None else query
        return _compose_iri(base_scheme, base_authority, base_path, query, fragment)
    if not path.startswith("/"):
        before = base_path[: base_path.rfind("/") + 1]
        path = f"/{path}" if base_authority is not None and not base_path else before + path
    return _compose_iri(base_scheme, base_authority, _without_dots(path), query, fragment)


def _parts(reference: str) -> tuple[str | None, str | None, str, str | None, str | None]:
    found = _PARTS.fullmatch(reference)
    assert found is not None  # the expression matches every text
    return found[1], found[2], found[3], found[4], found[5]


def _compose_iri(scheme: str | None, authority: str | None, path: str, query: str | None, fragment: str | None) -> str:
    return "".join(
        [
            "" if scheme is None else f"{scheme}:",
            "" if authority is None else f"//{authority}",
            path,
            "" if query is None else f"?{query}",
            "" if fragment is None else f"#{fragment}",
        ]
    )


def _without_dots(path: str) -> str:
    segments: list[str] = []
    steps = path.split("/")
    for step in steps:
        if step == "..":
            if len(segments) > 1 or (segments and segments[0]):
                segments.pop()
        elif step != ".":
            segments.append(step)
    if steps[-1] in (".", "..") and (len(segments) < 2 or segments[-1]):
        segments.append("")
    return "/".join(segments)
