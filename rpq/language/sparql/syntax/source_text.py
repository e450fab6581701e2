r"""The text of a query: its code points, its tokens, their places in the original text, and the constructs that are refused.

Code point escapes (`\u00E9`) are replaced before anything else (SPARQL 1.1, section 19.2), so places in the unescaped text
and in the original text differ; `SourceText` maps them. Refused constructs raise an error before a query runs, which names
the construct and an alternative (`REFUSED`); they are never ignored.
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
    """A token of a query, with its place in the unescaped text and the number of braces around it (`depth`)."""

    kind: TokenKind
    text: str
    start: int
    depth: int

    @property
    def end(self) -> int:
        """The place after the token."""
        return self.start + len(self.text)

    def is_word(self, *words: str) -> bool:
        """Return whether the token is one of these keywords, which are passed in capitals."""
        return self.kind == "word" and self.text.upper() in words


@dataclass(frozen=True)
class SourceText:
    r"""A query in its original text and in its unescaped text, where code point escapes are replaced.

    >>> source = SourceText.read('ASK { ?x <a> "\\u00E9" }')
    >>> source.unescaped, source.place_of(source.unescaped.index("}"))
    ('ASK { ?x <a> "é" }', (1, 23))
    """

    original: str
    unescaped: str
    _starts: tuple[int, ...] = field(default=(), repr=False)
    """Places in `unescaped` after each replaced escape."""
    _shifts: tuple[int, ...] = field(default=(), repr=False)
    """The offset from places in `unescaped` to places in `original`, from each of these places on."""

    @classmethod
    def read(cls, text: str) -> SourceText:
        """Replace the escapes. Raises `SparqlError` for an escape that is not a character. O(length)."""
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
                message = f"{escape[0]} is not a character"
                raise SparqlError(message, text=text, line=place[0], column=place[1], expected="a code point of Unicode")
            pieces += [text[done : escape.start()], chr(number)]
            length += len(pieces[-2]) + 1
            done = escape.end()
            starts.append(length)
            shifts.append(done - length)
        return cls(text, "".join([*pieces, text[done:]]), tuple(starts), tuple(shifts))

    def place_of(self, place: int) -> tuple[int, int]:
        """Return the line and the column, both from 1, of a place in `unescaped`. All kinds of line ends count.
        O(length)."""
        known = bisect_right(self._starts, place)
        place += self._shifts[known - 1] if known else 0
        ends = [end.end() for end in _LINE_END.finditer(self.original, 0, place)]
        return len(ends) + 1, place - (ends[-1] if ends else 0) + 1

    def error(self, message: str, place: int | None, expected: str | None = None) -> SparqlError:
        """Return an error at a place in `unescaped`."""
        line, column = (None, None) if place is None else self.place_of(place)
        return SparqlError(message, text=self.original, line=line, column=column, expected=expected)

    def tokens(self) -> Iterator[Token]:
        """Yield the tokens of `unescaped`, without comments. O(length)."""
        depth = 0
        for found in _TOKEN.finditer(self.unescaped):
            kind: str = found.lastgroup or ""
            if kind in ("comment", "blank"):
                continue
            depth -= found[0] == "}"
            yield Token(kind, found[0], found.start(), depth)  # type: ignore[arg-type]
            depth += found[0] == "{"


REFUSED = {
    "DESCRIBE": "write CONSTRUCT with the edges that you want",
    "SERVICE": "a query reads only its streams; pass constant edges with --static",
    "GRAPH in CONSTRUCT WHERE": "its body is its template; write CONSTRUCT { GRAPH <g> { … } } WHERE { GRAPH <g> { … } }",
    "GRAPH in WINDOW": "a window holds edges of a stream, which has no graphs; write GRAPH beside WINDOW for edges "
    "without time",
    "SEQ": "SPARQL cannot refer to the order of edges in time; a pattern can, with ?f.timestamp > ?e.timestamp in its "
    "filter, and so can MATCH",
    "FUTURE": "an answer has edges that have arrived",
    "WITH DEPTH": "a query reads all edges without time of its graphs; pass those that it may read with --static",
    "@": "SPARQL cannot use times of edges; the filter of a pattern can, as ?e.timestamp, and so can MATCH",
    "a triple term": "a statement about a triple would not say which of its edges is meant; write conditions on edges in a "
    "pattern, ?x a[weight > 3] ?y, or in MATCH",
    "f:timestamp": "SPARQL cannot use times of edges; the filter of a pattern can, as ?e.timestamp, and so can MATCH",
    "NOW": "its value would change between two events; it is the time of the report where a query reports at slides: write "
    "REGISTER RSTREAM <name> AS before SELECT, or pass report=\"slide\" (--report slide)",
    "RAND": "its value would differ when a solution leaves",
    "UUID": "its value would differ when a solution leaves",
    "STRUUID": "its value would differ when a solution leaves",
    "BNODE": "its value would differ when a solution leaves",
    "a back-reference in a regular expression": "it can take exponential time; compare the results of STRBEFORE",
    "look-around in a regular expression": "XPath has none; combine several REGEX with && and !",
    "a repetition of more than 1,000 in a regular expression": "write * or +, and bound the length with STRLEN",
    "a regular expression that is too large": "combine several REGEX with ||, or write * or + for a large repetition",
    "DISTINCT in a path": "closures and negated sets are sets of pairs already; use SELECT DISTINCT",
    "DISTINCT in the call of a function": "it is allowed in aggregates only",
    "INSERT": "this is a query language: edges arrive with the stream",
    "DELETE": "this is a query language: the stream deletes edges",
    "an update of graphs": "this is a query language: the stream inserts and deletes edges",
}
"""The refused constructs by their names in error messages, each with the reason or an alternative."""

_STREAMING_WORDS = {"SEQ": "SEQ", "EQUALS": "SEQ", "OPTIONALSEQ": "SEQ", "EQUALSOPTIONAL": "SEQ", "FUTURE": "FUTURE"}
"""Keywords of other streaming query languages, by the construct that is refused."""

_UPDATES = ("LOAD", "CLEAR", "DROP", "CREATE", "COPY", "MOVE", "ADD")
"""Keywords that begin an update, besides INSERT and DELETE."""


def refusal(source: SourceText, construct: str, place: int | None) -> SparqlError:
    """Return the error for a construct of `REFUSED`, at a place in the text."""
    return source.error(f"{construct} is refused: {REFUSED[construct]}", place)


def foreign_words(source: SourceText) -> SparqlError | None:
    """Return the refusal of the first keyword of another streaming language in a text that does not parse, or None."""
    before: Token | None = None
    is_prologue, is_short = True, False
    for token in source.tokens():
        if token.is_word("CONSTRUCT") and not token.depth:
            is_short = True
        elif not token.depth and token.text == "{":
            is_short &= bool(before and before.is_word("WHERE"))
        if is_short and token.depth and token.is_word("GRAPH"):
            return refusal(source, "GRAPH in CONSTRUCT WHERE", token.start)
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
        if before and before.text == "<" and before.end == token.start and (token.text == "<" or token.kind == "iri"):
            return refusal(source, "a triple term", before.start)
        before = token
    return None
