r"""The text of a query: its code points, its tokens, their places in the original text, and the constructs that are refused.

Code point escapes (`\u00E9`) are replaced before anything else (SPARQL 1.1, section 19.2), so places in the parsed text and
in the original text differ; `SourceText` maps them. Refused constructs raise an error before a query runs, with the name of
the construct and what to write instead (`REFUSED`); they are never ignored.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from rpq.errors import SparqlError

TokenKind = Literal["iri", "string", "language", "variable", "prefixed", "word", "number", "sign"]

_ESCAPE = re.compile(r"\\(?:\\|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8}))")
_LINE_END = re.compile(r"\r\n|\r|\n")
_TOKEN = re.compile(
    r"""
    (?P<comment> \#[^\r\n]* ) | (?P<blank> \s+ )
    | (?P<iri> <[^<>"{}|^`\\\x00-\x20]*> )
    | (?P<string> '''(?:'{0,2}(?:[^'\\]|\\.))*''' | \"{3}(?:"{0,2}(?:[^"\\]|\\.))*\"{3}
                | '(?:[^'\\\r\n]|\\.)*' | "(?:[^"\\\r\n]|\\.)*" )
    | (?P<language> @[A-Za-z]+(?:-[A-Za-z0-9]+)* )
    | (?P<variable> [?$]\w+ )
    | (?P<prefixed> (?:[^\W\d_](?:[\w.-]*[\w-])?)?:(?:(?:[\w:-]|%[0-9A-Fa-f]{2}|\\.)(?:(?:[\w:.-]|%[0-9A-Fa-f]{2}|\\.)*
                    (?:[\w:-]|%[0-9A-Fa-f]{2}|\\.))?)? | _:\w(?:[\w.-]*[\w-])? )
    | (?P<word> [^\W\d]\w* )
    | (?P<number> (?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?![^\W\d]) )
    | (?P<sign> . )
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True)
class Token:
    """A piece of a query, with its place in the text that is parsed; braces around it are counted in `depth`."""

    kind: TokenKind
    text: str
    start: int
    depth: int

    @property
    def end(self) -> int:
        """The place behind it."""
        return self.start + len(self.text)

    def is_word(self, *words: str) -> bool:
        """Return whether it is one of these keywords, given in capitals."""
        return self.kind == "word" and self.text.upper() in words


@dataclass(frozen=True)
class SourceText:
    r"""A query as it was given, and as it is parsed.

    >>> source = SourceText.read('ASK { ?x <a> "\\u00E9" }')
    >>> source.parsed, source.place_of(source.parsed.index("}"))
    ('ASK { ?x <a> "é" }', (1, 23))
    """

    given: str
    parsed: str
    _starts: tuple[int, ...] = field(default=(), repr=False)
    """Places in `parsed` behind each escape that was replaced."""
    _shifts: tuple[int, ...] = field(default=(), repr=False)
    """By how much places in `given` are larger from there on."""

    @classmethod
    def read(cls, text: str) -> SourceText:
        """Replace the escapes. Raises `SparqlError` for one that is no character. O(length)."""
        pieces: list[str] = []
        starts: list[int] = []
        shifts: list[int] = []
        done = length = 0
        for escape in _ESCAPE.finditer(text):
            code = escape[1] or escape[2]
            if code is None:  # a backslash that is itself escaped
                continue
            number = int(code, 16)
            if number > 0x10FFFF or 0xD800 <= number < 0xE000:
                place = cls(text, text).place_of(escape.start())
                message = f"{escape[0]} is no character"
                raise SparqlError(message, text=text, line=place[0], column=place[1], expected="a code point of Unicode")
            pieces += [text[done : escape.start()], chr(number)]
            length += len(pieces[-2]) + 1
            done = escape.end()
            starts.append(length)
            shifts.append(done - length)
        return cls(text, "".join([*pieces, text[done:]]), tuple(starts), tuple(shifts))

    def place_of(self, place: int) -> tuple[int, int]:
        """Return the line and the column, both from 1, of a place in `parsed`; any line ends count. O(length)."""
        known = bisect_right(self._starts, place)
        place += self._shifts[known - 1] if known else 0
        ends = [end.end() for end in _LINE_END.finditer(self.given, 0, place)]
        return len(ends) + 1, place - (ends[-1] if ends else 0) + 1

    def error(self, message: str, place: int | None, expected: str | None = None) -> SparqlError:
        """Return an error that points to a place in `parsed`."""
        line, column = (None, None) if place is None else self.place_of(place)
        return SparqlError(message, text=self.given, line=line, column=column, expected=expected)

    def tokens(self) -> Iterator[Token]:
        """Return the tokens of `parsed`, comments left out. O(length)."""
        depth = 0
        for found in _TOKEN.finditer(self.parsed):
            kind: str = found.lastgroup or ""
            if kind in ("comment", "blank"):
                continue
            depth -= found[0] == "}"
            yield Token(kind, found[0], found.start(), depth)  # type: ignore[arg-type]
            depth += found[0] == "{"


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
    """Return the error for a construct of `REFUSED`, at a place of the text."""
    return source.error(f"{construct} is refused: {REFUSED[construct]}", place)


def foreign_words(source: SourceText) -> SparqlError | None:
    """Return the refusal of the first word of another streaming language, for a text that does not parse; else None."""
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
