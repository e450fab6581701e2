r"""Terms of RDF as vertices' texts, and texts as terms: `rdf_term` and `vertex_text`.

==============================  =====================================  =======================================
a text                          is the term                            as N-Triples write it
==============================  =====================================  =======================================
`http://example.org/bob`        an IRI                                 `<http://example.org/bob>`
`"chat"@fr`, `"7"^^<http:…>`    a literal                              the text itself
`_:f1.b0`                       a blank node                           the text itself
`bob`, anything else            an IRI made of it                      `<urn:rpq:text:bob>`
==============================  =====================================  =======================================

What an IRI made of a text cannot hold is percent-encoded in it, in UTF-8, so `J. Doe` is `<urn:rpq:text:J.%20Doe>`. Reading
undoes this: each text comes back as it was, and no two texts are one term.
No name is empty, so `<urn:rpq:text:>` is an IRI as any other.
"""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import unquote_to_bytes

from rpq.sparql.values.terms import read_literal

OF_TEXT = "urn:rpq:text:"
"""How the IRIs begin that are made of texts which are no terms of RDF."""

# What follows is written so that Python and RE2 (Arrow) read it alike. It takes a part of what RDF allows, all of which
# parsers let pass; an IRI that it does not take is looked at by one.
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
_NOT_KEPT = re.compile(rf"[^A-Za-z0-9\-._~!$&'()*+,;=:@/{_LETTERS}]")


@lru_cache(maxsize=1 << 16)
def rdf_term(text: str) -> str:
    r"""The term that a vertex's text is, as N-Triples write it.

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
    return f"<{OF_TEXT}{_encoded(text)}>"


def vertex_text(iri: str) -> str:
    """The text that an IRI, without its brackets, stands for: itself, unless it was made of another text.

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


def is_resource(term: str) -> bool:
    """Whether a term, as N-Triples write it, is an IRI or a blank node."""
    return not term.startswith('"')


def _encoded(text: str) -> str:
    return _NOT_KEPT.sub(lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), text)
