"""The notation of the text of a query.

A text that parses as a path expression is one (`select` is a label). Otherwise a text that begins with a keyword of SPARQL,
possibly after comments (`# …`), is SPARQL, and so is an update, which is refused. Otherwise a text whose first word is MATCH
or OPTIONAL MATCH is read as GQL. Otherwise a text with a `?` before a letter, `_:`, or a dot before a blank is a pattern.
Any other text is an invalid path expression.
"""

from __future__ import annotations

import re

import rpq.automata as automata
from rpq.language.options import Language
from rpq.language.pattern import looks_like_a_pattern

_SPARQL = re.compile(
    r"(?:\s|#[^\r\n]*[\r\n])*(?:base|prefix|select|ask|construct|describe|register)(?=[\s{<*]|$)", re.IGNORECASE
)

_MATCH = re.compile(
    r"(?:\s|//[^\r\n]*(?:[\r\n]|$)|/\*(?:[^*]|\*(?!/))*\*/)*(?:optional\s+)?"
    r"match(?![\w/|*+?{^!.])\s*(?=[^\s/|*+?{^!.)]|$)",
    re.IGNORECASE,
)

_GRAPH = r"(?:default|graph\s*(?:<[^>]*>|[\w.-]*:[\w.-]*)|<[^>]*>|[\w.-]*:[\w.-]*)"
_UPDATE = re.compile(
    r"(?:\s|#[^\r\n]*[\r\n])*(?:"
    r"(?:insert|delete)\s*(?:data\b|where\s*\{|\{)"
    rf"|with\s*(?:<[^>]*>|[\w.-]*:[\w.-]*)\s*(?:insert|delete)\b"
    rf"|load\s*(?:silent\s*)?<[^>]*>\s*(?:into\b|;|$)"
    rf"|(?:clear|drop)\s+(?:silent\s+)?(?:all|named|{_GRAPH})\s*(?:;|$)"
    rf"|create\s+(?:silent\s+)?{_GRAPH}\s*(?:;|$)"
    rf"|(?:copy|move|add)\s*(?:silent\s+)?{_GRAPH}\s*to\b)",
    re.IGNORECASE,
)
"""An update, which SPARQL refuses with an alternative; no pattern or path expression begins like this."""


def language_of(text: str) -> Language:
    """Return the notation of a text. O(length).

    >>> [language_of(text) for text in ("a2q/c2a*", "?x a2q ?y . ?y c2q ?z", "# why\\nASK { ?x <a2q> ?y }", "select")]
    ['path', 'pattern', 'sparql', 'path']
    >>> [language_of(text) for text in ("MATCH (a)-[:a2q]->(b) RETURN a", "match", "match/a")]
    ['gql', 'path', 'path']
    """
    is_sparql = _SPARQL.match(text) is not None or _UPDATE.match(text) is not None
    is_match = _MATCH.match(text) is not None
    if not (is_sparql or is_match or looks_like_a_pattern(text)):
        return "path"
    try:
        automata.parse(text)
    except automata.ExpressionError:
        return "sparql" if is_sparql else "gql" if is_match else "pattern"
    return "path"
