r"""The text of a query: its code points, its tokens, and where each stands in what was given.

Code point escapes (`\u00E9`) are replaced before anything else (SPARQL 1.1, section 19.2), so places in the text that is
parsed and in the text that was given differ; `SourceText` knows both.
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
        """Whether it is one of these keywords, given in capitals."""
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
        """The line and the column, both from 1, of a place in `parsed`; line ends are those of any system. O(length)."""
        known = bisect_right(self._starts, place)
        place += self._shifts[known - 1] if known else 0
        ends = [end.end() for end in _LINE_END.finditer(self.given, 0, place)]
        return len(ends) + 1, place - (ends[-1] if ends else 0) + 1

    def error(self, message: str, place: int | None, expected: str | None = None) -> SparqlError:
        """An error that points to a place in `parsed`."""
        line, column = (None, None) if place is None else self.place_of(place)
        return SparqlError(message, text=self.given, line=line, column=column, expected=expected)

    def tokens(self) -> Iterator[Token]:
        """The tokens of `parsed`, comments left out. O(length)."""
        depth = 0
        for found in _TOKEN.finditer(self.parsed):
            kind: str = found.lastgroup or ""
            if kind in ("comment", "blank"):
                continue
            depth -= found[0] == "}"
            yield Token(kind, found[0], found.start(), depth)  # type: ignore[arg-type]
            depth += found[0] == "{"
