"""What SPARQL has and this language refuses: the construct by its name, and what to write instead.

What is refused is told before a run, never ignored.
"""

from __future__ import annotations

from rpq.errors import SparqlError
from rpq.sparql.source_text import SourceText, Token

REFUSED = {
    "ORDER BY": "a stream of changes has no order of rows: sort what you collect",
    "LIMIT": "which rows would stay is not determined in a stream of changes",
    "OFFSET": "which rows would go is not determined in a stream of changes",
    "GROUP_CONCAT": "the order of its parts is not determined",
    "DESCRIBE": "write CONSTRUCT with the edges that you want",
    "SERVICE": "a query reads its streams alone; give what is fixed with --static",
    "FROM": "a query reads its streams; give edges without time with --static",
    "FROM NAMED": "a query reads its streams; give edges without time with --static, name windows with FROM NAMED WINDOW",
    "GRAPH": "named graphs are windows here: FROM NAMED WINDOW <name> ON <stream> […] and WINDOW <name> { … }",
    "STREAM": "write FROM NAMED WINDOW <name> ON <stream> [RANGE PT10S STEP PT1S] and WINDOW <name> { … }",
    "SEQ": "the order of edges in time cannot be asked for; use windows",
    "@": "times of edges cannot be used in a query; use windows",
    "f:timestamp": "times of edges cannot be used in a query; use windows",
    "NOW": "its value would change between two events",
    "RAND": "its value would not be the same when a solution leaves",
    "UUID": "its value would not be the same when a solution leaves",
    "STRUUID": "its value would not be the same when a solution leaves",
    "BNODE": "its value would not be the same when a solution leaves",
    "a back-reference in a regular expression": "it can take exponential time; compare parts that STRBEFORE gives",
    "look-around in a regular expression": "XPath has none; join several REGEX by && and !",
    "a repetition of more than 1,000 in a regular expression": "write * or +, and bound the length by STRLEN",
    "a regular expression that is too large": "join several REGEX by ||, or write * or + in place of a large repetition",
    "a variable as a predicate": "a query names the labels that it reads; several are written a|b, all but some !(a|b)",
    "a blank node in a CONSTRUCT template": "it would be another one each time; use a variable or an IRI",
    "a variable as the name of a window": "a query names the windows that it reads: WINDOW <name> { … }",
    "DISTINCT in a path": "closures and negated sets are sets of pairs already; use SELECT DISTINCT",
    "DISTINCT in the call of a function": "it stands in aggregates alone",
    "INSERT": "this is a language of queries: edges come with the stream",
    "DELETE": "this is a language of queries: edges leave with the stream",
    "an update of graphs": "this is a language of queries: edges come and leave with the stream",
}
"""What is refused, by the name that the error has for it, and why, or what to write instead."""

_STREAMING_WORDS = {"SEQ": "SEQ", "EQUALS": "SEQ", "OPTIONALSEQ": "SEQ", "EQUALSOPTIONAL": "SEQ", "STREAM": "STREAM"}
"""Keywords of other languages of this field."""

_UPDATES = ("LOAD", "CLEAR", "DROP", "CREATE", "COPY", "MOVE", "ADD")
"""Words with which an update begins, beside INSERT and DELETE."""


def refusal(source: SourceText, construct: str, place: int | None) -> SparqlError:
    """The error for a construct of `REFUSED`, at a place of the text."""
    return source.error(f"{construct} is refused: {REFUSED[construct]}", place)


def foreign_words(source: SourceText) -> SparqlError | None:
    """The refusal of the first word or sign that only other languages over streams have, for a text that does not parse."""
    before: Token | None = None
    is_prologue = True
    for token in source.tokens():
        if is_prologue and token.is_word(*_UPDATES) and not (before and before.is_word("PREFIX")):
            return refusal(source, "an update of graphs", token.start)
        is_prologue &= token.kind != "word" or token.is_word("BASE", "PREFIX") or bool(before and before.is_word("PREFIX"))
        if not token.depth and token.is_word("INSERT", "DELETE") and (before is None or not before.is_word("BY")):
            return refusal(source, token.text.upper(), token.start)
        if token.depth and token.kind == "word" and token.text.upper() in _STREAMING_WORDS:
            return refusal(source, _STREAMING_WORDS[token.text.upper()], token.start)
        is_time = token.text == "@" or (token.kind == "language" and (before is None or before.kind != "string"))
        if token.depth and is_time:
            return refusal(source, "@", token.start)
        before = token
    return None
