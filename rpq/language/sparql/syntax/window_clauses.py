"""The clauses of RSP-QL that SPARQL does not have, removed from the text so that the rest is SPARQL.

    REGISTER (STREAM | QUERY | ISTREAM | DSTREAM | RSTREAM) name AS
    (SELECT | CONSTRUCT | ASK) [ISTREAM | DSTREAM | RSTREAM]
    FROM NAMED WINDOW <name> [ON [STREAM] <stream>] '[' extent ']'      ON may also stand behind the brackets
        extent    RANGE length [[,] (STEP | SLIDE) length | TUMBLING]
                | (COUNT | ELEMENTS | TRIPLES | RANGE TRIPLES) number [[,] (STEP | SLIDE) number | TUMBLING]
                | UNBOUNDED
    WINDOW (<name> | ?variable) { … }

All but the last are replaced by as many spaces, and `WINDOW` by `GRAPH` and a space, so that places do not change. A length
is a number of units of the stream's time, or a duration: an xsd:dayTimeDuration (`PT2H`, `P1DT0.5S`), which has neither
years nor months, or as in other languages (`10s`, `5 m`). REGISTER STREAM and REGISTER QUERY report the whole answer, as
RSTREAM does, unless another word stands behind SELECT, CONSTRUCT or ASK.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from rpq.errors import SparqlError
from rpq.language.sparql.algebra import CountExtent, Extent, Reporting, TimeExtent, UnboundedExtent
from rpq.language.sparql.syntax.source_text import SourceText, Token
from rpq.stream.durations import DurationError, nanoseconds_of
from rpq.stream.window import INT64_MAX

Clause = TypeVar("Clause")

_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(\d{1,9}))?S)?)?", re.ASCII)
_YEARS_OR_MONTHS = re.compile(r"P(?=\d+[YM])[\dYMDTHS.]+", re.ASCII)
_EXTENT = "RANGE and a duration such as PT2H, COUNT and a number, or UNBOUNDED"
_CONTENTS = ("ISTREAM", "DSTREAM", "RSTREAM")
_COUNT_KEYWORDS = ("COUNT", "ELEMENTS", "TRIPLES")
"""Keywords of windows that contain a number of triples."""


@dataclass(frozen=True)
class WindowName:
    """A name as it appears in the text, `<…>` or prefixed, with its place."""

    text: str
    place: int


@dataclass(frozen=True)
class WindowClause:
    """`FROM NAMED WINDOW`: the name of a window, its stream (None for the merged stream), and its extent."""

    name: WindowName
    stream: WindowName | None
    extent: Extent


@dataclass(frozen=True)
class RegisterClause:
    """The rows that each report contains, and the name of the output stream; None without REGISTER."""

    reporting: Reporting
    name: WindowName | None


@dataclass(frozen=True)
class WindowClauses:
    """The clauses of a text, the standard SPARQL that remains, and the places of WINDOW in it."""

    windows: tuple[WindowClause, ...]
    register: RegisterClause | None
    standard_text: str
    uses: frozenset[int]


def extract_clauses(source: SourceText) -> WindowClauses:
    """Remove the clauses of RSP-QL from a text. Raises `SparqlError` at the place of an invalid clause. O(length).

    >>> text = "ASK FROM NAMED WINDOW <w> [RANGE PT2H STEP PT10M] { WINDOW <w> { ?x <a> ?y } }"
    >>> clauses = extract_clauses(SourceText.read(text))
    >>> clauses.standard_text[:4], clauses.standard_text.split(maxsplit=1)[1], str(clauses.windows[0].extent)
    ('ASK ', '{ GRAPH  <w> { ?x <a> ?y } }', 'RANGE 2h STEP 10m')
    """
    return _ClauseExtractor(source).extract()


class _ClauseExtractor:
    """One pass over the tokens of a text."""

    def __init__(self, source: SourceText) -> None:
        self._source = source
        self._tokens: Sequence[Token] = list(source.tokens())
        self._next = 0
        self._characters = list(source.unescaped)

    def extract(self) -> WindowClauses:
        windows: list[WindowClause] = []
        register: WindowName | None = None
        contents: list[Token] = []
        uses: set[int] = set()
        while self._next < len(self._tokens):
            token = self._tokens[self._next]
            following = [self._ahead(1), self._ahead(2)]
            if token.is_word("REGISTER") and not token.depth:
                if register is not None:
                    raise self._source.error("REGISTER occurs twice", token.start, "one REGISTER … AS per query")
                if following[0] and following[0].is_word(*_CONTENTS):
                    contents.append(following[0])
                register = self._blank_out(self._register)
            elif not token.depth and following[0] and following[0].is_word(*_CONTENTS):
                self._next += 1
                if token.is_word("SELECT", "CONSTRUCT", "ASK"):
                    contents.append(following[0])
                    self._blank_out(self._skip)
            elif token.is_word("FROM") and any(after and after.is_word("WINDOW") for after in following):
                windows.append(self._blank_out(self._window))
            elif token.is_word("FROM") and following[0] and following[0].is_word("STREAM"):
                raise self._source.error(
                    "FROM STREAM is C-SPARQL's", token.start, "FROM NAMED WINDOW <name> ON <stream> [RANGE PT10S STEP PT1S]"
                )
            elif token.is_word("WINDOW") and token.depth:
                self._next += 1
                if following[0] and following[0].kind == "variable":
                    self._next += 1
                else:
                    self._name("the name of a window")
                self._characters[token.start : token.end] = "GRAPH "
                uses.add(token.start)
            else:
                self._next += 1
        return WindowClauses(tuple(windows), self._reports(register, contents), "".join(self._characters), frozenset(uses))

    def _reports(self, name: WindowName | None, contents: list[Token]) -> RegisterClause | None:
        """Return the content of reports: the one that a keyword names, otherwise the whole answer if there is a REGISTER."""
        if len({token.text.upper() for token in contents}) > 1:
            first, second = contents[:2]
            message = f"{second.text} contradicts {first.text} in line {self._source.place_of(first.start)[0]}"
            raise self._source.error(message, second.start, "one of ISTREAM, DSTREAM and RSTREAM")
        if contents:
            return RegisterClause(contents[0].text.upper(), name)  # type: ignore[arg-type]
        return None if name is None else RegisterClause("RSTREAM", name)

    def _skip(self) -> None:
        self._next += 1

    def _blank_out(self, read: Callable[[], Clause]) -> Clause:
        start = self._tokens[self._next].start
        clause = read()
        end = self._tokens[self._next - 1].end
        for place in range(start, end):
            if self._characters[place] not in "\r\n":
                self._characters[place] = " "
        return clause

    def _register(self) -> WindowName:
        self._next += 1
        self._word("STREAM", "QUERY", *_CONTENTS, expected="STREAM, QUERY, ISTREAM, DSTREAM or RSTREAM")
        token = self._ahead(0)
        if token is not None and token.kind == "word" and not token.is_word("AS"):  # a plain word, as in C-SPARQL
            self._next += 1
            name = WindowName(token.text, token.start)
        else:
            name = self._name("the name of the output stream")
        token = self._ahead(0)
        if token is not None and token.is_word("COMPUTE", "COMPUTED"):
            message = f"{token.text} EVERY is refused: reports are made at each STEP of the windows"
            raise self._source.error(message, token.start, "AS, and the period as the STEP of a window")
        self._word("AS", expected="AS")
        return name

    def _window(self) -> WindowClause:
        self._next += 1
        self._word("NAMED", expected="NAMED, as in FROM NAMED WINDOW <name> ON <stream> [RANGE PT10S STEP PT1S]")
        self._word("WINDOW", expected="WINDOW")
        name = self._name("the name of a window")
        stream = self._stream()
        self._sign("[")
        extent = self._extent()
        self._sign("]")
        return WindowClause(name, stream or self._stream(), extent)

    def _stream(self) -> WindowName | None:
        """Read ON and the name of a stream, if they are next."""
        if not ((token := self._ahead(0)) and token.is_word("ON")):
            return None
        self._next += 1
        if (token := self._ahead(0)) and token.is_word("STREAM"):
            self._next += 1
        return self._name("the name of a stream")

    def _extent(self) -> Extent:
        token = self._ahead(0)
        if token and token.is_word("SESSION"):
            raise self._source.error("session windows are refused", token.start, _EXTENT)
        word = self._word("RANGE", *_COUNT_KEYWORDS, "UNBOUNDED", expected=_EXTENT)
        if word == "UNBOUNDED":
            return UnboundedExtent()
        if word == "RANGE" and (token := self._ahead(0)) and token.is_word("TRIPLES"):
            self._next += 1
            word = "TRIPLES"
        if word in _COUNT_KEYWORDS:
            size = self._number()
            return CountExtent(size, self._step(size, self._number) or 1)
        place = self._ahead(0)
        length, is_number = self._length()
        slide = self._step((length, is_number), self._length)
        if slide is None:
            return TimeExtent(length, None, is_number)
        if slide[1] != is_number:
            message = "RANGE and STEP are both durations, or both numbers of units of the stream's time"
            start = None if place is None else place.start
            raise self._source.error(message, start, "RANGE PT10S STEP PT2S, or RANGE 10000 STEP 2000")
        return TimeExtent(length, slide[0], is_number)

    def _step(self, size: Clause, read: Callable[[], Clause]) -> Clause | None:
        """Return the step of a window of a size; None if the text has none."""
        token = self._ahead(0)
        if token and token.text == ",":
            self._next += 1
            token = self._ahead(0)
            if not (token and token.is_word("STEP", "SLIDE")):
                raise self._unexpected("STEP or SLIDE")
        if token and token.is_word("TUMBLING"):
            self._next += 1
            return size
        if token and token.is_word("STEP", "SLIDE"):
            self._next += 1
            return read()
        if token and token.text != "]":
            raise self._unexpected("STEP, SLIDE, TUMBLING or ]")
        return None

    def _length(self) -> tuple[int, bool]:
        """Return a length of time, and whether it is a number of units of the stream's time rather than of nanoseconds."""
        token = self._ahead(0)
        # PT0.5S is several tokens, because the tokenizer separates numbers and signs.
        end = self._next
        while end < len(self._tokens) and (end == self._next or self._tokens[end].start == self._tokens[end - 1].end):
            if self._tokens[end].text in ("]", ","):
                break
            end += 1
        text = "".join(one.text for one in self._tokens[self._next : end])
        expected = "an xsd:dayTimeDuration such as PT2H, PT10M or P1DT0.5S, or a number of units of the stream's time"
        if token is None or not text:
            raise self._unexpected(expected)
        if text.isdecimal() and text.isascii():
            unit = self._tokens[end] if end < len(self._tokens) else None
            if unit is None or unit.kind != "word" or unit.is_word("STEP", "SLIDE", "TUMBLING"):
                self._next = end
                return self._positive(int(text), token), True
            end, text = end + 1, text + unit.text
        if _YEARS_OR_MONTHS.fullmatch(text):
            raise self._source.error(
                f"{text}: years and months have no fixed length, so they are refused", token.start, expected
            )
        found = _DURATION.fullmatch(text)
        if found is not None and any(found.groups()) and not text.endswith("T"):
            days, hours, minutes, seconds, fraction = found.groups(default="0")
            whole = ((int(days) * 24 + int(hours)) * 60 + int(minutes)) * 60 + int(seconds)
            nanoseconds = whole * 10**9 + int(fraction.ljust(9, "0"))
        else:
            try:
                nanoseconds = nanoseconds_of(text.lower())
            except DurationError:
                raise self._source.error(f"{text} is not a duration", token.start, expected) from None
        self._next = end
        return self._positive(nanoseconds, token), False

    def _number(self) -> int:
        token = self._ahead(0)
        if token is None or token.kind != "number" or not token.text.isdecimal():
            raise self._unexpected("a whole number")
        self._next += 1
        return self._positive(int(token.text), token)

    def _positive(self, value: int, token: Token) -> int:
        if not 0 < value <= INT64_MAX:
            raise self._source.error("the size and slide of a window are positive and fit into 64 bits", token.start)
        return value

    def _name(self, expected: str) -> WindowName:
        token = self._ahead(0)
        if token is None or token.kind not in ("iri", "prefixed") or token.text.startswith("_:"):
            raise self._unexpected(f"{expected}, as <name> or prefixed")
        self._next += 1
        return WindowName(token.text, token.start)

    def _word(self, *words: str, expected: str) -> str:
        token = self._ahead(0)
        if token is None or not token.is_word(*words):
            raise self._unexpected(expected)
        self._next += 1
        return token.text.upper()

    def _sign(self, sign: str) -> None:
        token = self._ahead(0)
        if token is None or token.text != sign:
            raise self._unexpected(sign)
        self._next += 1

    def _ahead(self, distance: int) -> Token | None:
        place = self._next + distance
        return self._tokens[place] if place < len(self._tokens) else None

    def _unexpected(self, expected: str) -> SparqlError:
        token = self._ahead(0)
        if token is None:
            return self._source.error("the query ends too early", len(self._source.unescaped), expected)
        return self._source.error(f"unexpected {token.text}", token.start, expected)

