"""The notation of the text of a query, and the options for each notation.

A text that parses as a path expression is one (`select` is a label). Otherwise a text that begins with a keyword of SPARQL,
possibly after comments (`# …`), is SPARQL, and so is an update, which is refused. Otherwise a text whose first word is MATCH
or OPTIONAL MATCH is read as GQL. Otherwise a text with a `?` before a letter, `_:`, or a dot before a blank is a pattern.
Any other text is an invalid path expression.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, get_args

import rpq.automata as automata
from rpq.language.pattern import looks_like_a_pattern
from rpq.language.time_order import Order

Language = Literal["path", "pattern", "sparql", "gql", "cypher"]
Paths = Literal["walk", "simple", "simple_cycle"]
Semantics = Literal["implicit", "explicit"]
OnBudget = Literal["error", "set_aside"]
Matching = Literal["homomorphism", "isomorphism"]
Report = Literal["change", "slide", "time"]

CHOICES: Mapping[str, tuple[str, ...]] = {
    "paths": get_args(Paths),
    "semantics": get_args(Semantics),
    "on_budget": get_args(OnBudget),
    "order": get_args(Order),
    "matching": get_args(Matching),
    "report": get_args(Report),
    "language": get_args(Language),
}
"""The options of queries whose values are words, with these words."""

REFUSED_PATHS: Mapping[str, str] = {
    "trail": 'no edge twice, is not available: a walk (paths="walk") gives the same pairs where the expression repeats one '
    'label from once on, as in a+ or a{1,3}; paths="simple_cycle" is stricter, no vertex twice, except that the last may be '
    "the first",
}
"""Kinds of paths that are refused by name, with an explanation and what to write instead."""

REFUSED_OPTIONS: Mapping[str, str] = {
    "cost": 'the smallest sum of a property along a path, is not available yet: select=["source", "target", "length"] '
    "gives the smallest number of edges",
    "rings": 'which reports a cycle once, is not available yet: paths="simple_cycle" reports it from each of its vertices',
}
"""Options of queries that are refused by name, with an explanation and what to write instead."""

PATTERN_OPTIONS = ("select", "distinct", "matching", "report", "filter")
"""Options of patterns, of which path queries have `select` alone."""

PATH_OPTIONS = ("sources", "targets")
"""Options that only path queries have."""

ORDER_OPTIONS = ("order", "max_gap", "max_span")
"""Options of path queries that patterns express in the text."""

MATCH_OPTIONS = ("node_label",)
"""Options that only MATCH has."""

TEXT_OPTIONS = ("select", "distinct", "matching", "filter")
"""Options that SPARQL expresses in the text."""

_IN_ORDER = "?x (a+ in order within 6h gap 1h) ?y"
_UNSUITABLE: Sequence[tuple[Sequence[Language], Sequence[str], str]] = (
    (("path", "pattern", "sparql"), MATCH_OPTIONS,
     "is an option of MATCH; elsewhere an edge to a label is written, as in ?x type Account"),
    (("path",), [option for option in PATTERN_OPTIONS if option != "select"],
     "is an option of graph patterns (?x a ?y . ?y b ?z); {text} is a path"),
    (("pattern",), PATH_OPTIONS,
     "is an option of path queries; in a pattern, write a name instead of a variable, as in alice knows ?y"),
    (("pattern",), ORDER_OPTIONS,
     f"is an option of path queries; in a pattern, write it behind the expression of an atom, as in {_IN_ORDER}"),
    (("gql", "cypher"), ORDER_OPTIONS,
     "is an option of path queries, and MATCH has no paths in time order: write a pattern instead, as in "
     f"{_IN_ORDER}, or compare e.timestamp and f.timestamp in WHERE"),
    (("gql", "cypher"), PATH_OPTIONS, "is an option of path queries; in MATCH write (a {id: 'name'})"),
    (("gql", "cypher"), TEXT_OPTIONS,
     "is an option of graph patterns; in MATCH, write it in the text (RETURN DISTINCT a, WHERE a <> b)"),
    (("sparql",), ORDER_OPTIONS,
     f"is an option of path queries, and SPARQL has no paths in time order: write a pattern instead, as in {_IN_ORDER}"),
    (("sparql",), PATH_OPTIONS, "is an option of path queries; in SPARQL write VALUES or a FILTER"),
    (("sparql",), TEXT_OPTIONS,
     "is an option of graph patterns; in SPARQL, write it in the text (SELECT DISTINCT ?x, FILTER(?x != ?y))"),
)  # fmt: skip
"""The options that notations do not support, with the reason or an alternative; {text} is the text of the query."""

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


class UnsuitableOption(NamedTuple):
    """An option that the notation of a query does not support: its name, and the reason or an alternative."""

    option: str
    reason: str


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


def unsuitable_option(language: Language, text: str, option_names: Iterable[str]) -> UnsuitableOption | None:
    """Return the first option that a text in a notation does not support, with the reason, or None.

    >>> unsuitable_option("path", "a/b*", ["paths", "distinct"])
    UnsuitableOption(option='distinct', reason="is an option of graph patterns (?x a ?y . ?y b ?z); 'a/b*' is a path")
    """
    for option in option_names:
        for languages, options, reason in _UNSUITABLE:
            if language in languages and option in options:
                return UnsuitableOption(option, reason.replace("{text}", repr(text)))
    return None
