"""The notation of the text of a query.

A text that parses as a path expression is one (`select` is a label). Otherwise a text that begins with a keyword of SPARQL,
possibly after comments (`# …`), is SPARQL, and so is an update, which is refused. Otherwise a text that begins with MATCH,
OPTIONAL MATCH, WITH, UNWIND or RETURN, or has an edge of MATCH, `(a)-[…`, is read as GQL, unless it parses as a pattern. So
is a text with RETURN whose first word resembles one of these: its error names the word. Otherwise a text with a `?` before a
letter, `_:`, or a dot before a blank is a pattern. Any other text is an invalid path expression.
"""

from __future__ import annotations

import re

import rpq.automata as automata
from rpq.errors import QueryError, did_you_mean
from rpq.language.options import Language
from rpq.language.pattern import looks_like_a_pattern, read_atoms

_SPARQL = re.compile(
    r"(?:\s|#[^\r\n]*[\r\n])*(?:base|prefix|select|ask|construct|describe|register)(?=[\s{<*]|$)", re.IGNORECASE
)

_COMMENTS = r"(?:\s|//[^\r\n]*(?:[\r\n]|$)|/\*(?:[^*]|\*(?!/))*\*/)*"
_MATCH = re.compile(
    rf"{_COMMENTS}(?:(?:optional\s+)?match|with|unwind|return)(?![\w/|*+?{{^!.])\s*(?=[^\s/|*+?{{^!.)]|$)", re.IGNORECASE
)
_MATCH_EDGE = re.compile(r"\)\s*<?-[-\[>]")
_FIRST_WORD = re.compile(rf"{_COMMENTS}([^\W\d]\w*)[\s(].*\breturn\b", re.IGNORECASE | re.DOTALL)
_FIRST_WORDS = ("MATCH", "OPTIONAL", "WITH", "UNWIND")

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
    >>> [language_of(text) for text in ("MATCH (a)-[:a2q]->(b) RETURN a", "MTCH (a:P) RETURN a", "match", "match/a")]
    ['gql', 'gql', 'path', 'path']
    """
    is_sparql = _SPARQL.match(text) is not None or _UPDATE.match(text) is not None
    is_match = not is_sparql and _resembles_match(text)
    is_pattern = looks_like_a_pattern(text)
    if not (is_sparql or is_match or is_pattern):
        return "path"
    if _is_path(text):
        return "path"
    if is_sparql:
        return "sparql"
    return "gql" if is_match and not (is_pattern and _is_pattern(text)) else "pattern"


def _resembles_match(text: str) -> bool:
    if _MATCH.match(text) is not None or _MATCH_EDGE.search(text) is not None:
        return True
    first = _FIRST_WORD.match(text)
    return first is not None and did_you_mean(first[1].upper(), _FIRST_WORDS) != ""


def _is_path(text: str) -> bool:
    try:
        automata.parse(text)
    except automata.ExpressionError:
        return False
    return True


def _is_pattern(text: str) -> bool:
    try:
        read_atoms(text)
    except QueryError:
        return False
    return True
