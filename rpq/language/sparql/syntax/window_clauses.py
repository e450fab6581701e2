"""The clauses of RSP-QL that SPARQL does not have, removed from the text so that the rest is SPARQL.

    REGISTER ISTREAM|DSTREAM|RSTREAM <name> AS
    FROM NAMED WINDOW <name> [ON <stream>] '[' extent ']'
        extent    RANGE duration [(STEP | SLIDE) duration | TUMBLING]
                | COUNT number [(STEP | SLIDE) number | TUMBLING]
                | UNBOUNDED
    WINDOW <name> { … }

The first two are replaced by as many spaces, and `WINDOW` by `GRAPH` and a space, so that places do not change. A
duration is an xsd:dayTimeDuration (`PT2H`, `P1DT0.5S`), which has neither years nor months.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from rpq.errors import SparqlError
from rpq.language.sparql.algebra import CountExtent, Extent, Reporting, TimeExtent, UnboundedExtent
from rpq.language.sparql.syntax.source_text import SourceText, Token, refusal
from rpq.stream.durations import DurationError, nanoseconds_of
from rpq.stream.window import INT64_MAX

Clause = TypeVar("Clause")

_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(\d{1,9}))?S)?)?", re.ASCII)
_YEARS_OR_MONTHS = re.compile(r"P(?=\d+[YM])[\dYMDTHS.]+", re.ASCII)
_EXTENT = "RANGE and a duration such as PT2H, COUNT and a number, or UNBOUNDED"


@dataclass(frozen=True)
class Name:
    """A name as it appears in the text, `<…>` or prefixed, with its place."""

    text: str
    place: int


@dataclass(frozen=True)
class WindowClause:
    """`FROM NAMED WINDOW`: the name of a window, its stream (None for the merged stream), and its extent."""

    name: Name
    stream: Name | None
    extent: Extent


@dataclass(frozen=True)
class RegisterClause:
    """`REGISTER … AS`: the rows that each report contains, and the name of the output stream."""

    reporting: Reporting
    name: Name


@dataclass(frozen=True)
class WindowClauses:
    """The clauses of a text, the remaining text, and the places of WINDOW in the body."""

    windows: tuple[WindowClause, ...]
    register: RegisterClause | None
    rest: str
    uses: frozenset[int]


def extract_clauses(source: SourceText) -> WindowClauses:
    """Remove the clauses of RSP-QL from a text. Raises `SparqlError` at the place of an invalid clause. O(length).

    >>> text = "ASK FROM NAMED WINDOW <w> [RANGE PT2H STEP PT10M] { WINDOW <w> { ?x <a> ?y } }"
    >>> clauses = extract_clauses(SourceText.read(text))
    >>> clauses.rest[:4], clauses.rest.split(maxsplit=1)[1], str(clauses.windows[0].extent)
    ('ASK ', '{ GRAPH  <w> { ?x <a> ?y } }', 'RANGE 2h STEP 10m')
    """
    return _ClauseExtractor(source).extract()


class _ClauseExtractor:
    """One pass over the tokens of a text."""

    def __init__(self, source: SourceText) -> None:
        self._source = source
        self._tokens: Sequence[Token] = list(source.tokens())
        self._next = 0
        self._rest = list(source.parsed)

    def extract(self) -> WindowClauses:
        windows: list[WindowClause] = []
        register: RegisterClause | None = None
        uses: set[int] = set()
        while self._next < len(self._tokens):
            token = self._tokens[self._next]
            following = [self._ahead(1), self._ahead(2)]
            if token.is_word("REGISTER") and not token.depth:
                if register is not None:
                    raise self._source.error("REGISTER occurs twice", token.start, "one REGISTER … AS per query")
                register = self._blank_out(self._register)
            elif token.is_word("FROM") and any(after and after.is_word("WINDOW") for after in following):
                windows.append(self._blank_out(self._window))
            elif token.is_word("FROM") and following[0] and following[0].is_word("STREAM"):
                raise self._source.error(
                    "FROM STREAM is C-SPARQL's", token.start, "FROM NAMED WINDOW <name> ON <stream> [RANGE PT10S STEP PT1S]"
                )
            elif token.is_word("WINDOW") and token.depth:
                self._next += 1
                if following[0] and following[0].kind == "variable":
                    raise refusal(self._source, "a variable as the name of a window", token.start)
                self._name("the name of a window")
                self._rest[token.start : token.end] = "GRAPH "
                uses.add(token.start)
            else:
                self._next += 1
        return WindowClauses(tuple(windows), register, "".join(self._rest), frozenset(uses))

    def _blank_out(self, read: Callable[[], Clause]) -> Clause:
        start = self._tokens[self._next].start
        clause = read()
        end = self._tokens[self._next - 1].end
        for place in range(start, end):
            if self._rest[place] not in "\r\n":
                self._rest[place] = " "
        return clause

    def _register(self) -> RegisterClause:
        self._next += 1
        word = self._word("ISTREAM", "DSTREAM", "RSTREAM", expected="ISTREAM, DSTREAM or RSTREAM")
        name = self._name("the name of the output stream")
        self._word("AS", expected="AS")
        return RegisterClause(word, name)  # type: ignore[arg-type]

    def _window(self) -> WindowClause:
        self._next += 1
        self._word("NAMED", expected="NAMED, as in FROM NAMED WINDOW <name> ON <stream> [RANGE PT10S STEP PT1S]")
        self._word("WINDOW", expected="WINDOW")
        name = self._name("the name of a window")
        stream = None
        if (token := self._ahead(0)) and token.is_word("ON"):
            self._next += 1
            stream = self._name("the name of a stream")
        self._sign("[")
        extent = self._extent()
        self._sign("]")
        return WindowClause(name, stream, extent)

    def _extent(self) -> Extent:
        token = self._ahead(0)
        if token and token.is_word("SESSION"):
            raise self._source.error("session windows are refused", token.start, _EXTENT)
        word = self._word("RANGE", "COUNT", "UNBOUNDED", expected=_EXTENT)
        if word == "UNBOUNDED":
            return UnboundedExtent()
        read = self._duration if word == "RANGE" else self._number
        size = read()
        slide: int | None = None
        if (token := self._ahead(0)) and token.is_word("TUMBLING"):
            self._next += 1
            slide = size
        elif token and token.is_word("STEP", "SLIDE"):
            self._next += 1
            slide = read()
        elif token and token.text != "]":
            raise self._unexpected("STEP, SLIDE, TUMBLING or ]")
        return TimeExtent(size, slide) if word == "RANGE" else CountExtent(size, slide or 1)

    def _duration(self) -> int:
        token = self._ahead(0)
        # PT0.5S is several tokens, because the tokenizer separates numbers and signs.
        end = self._next
        while end < len(self._tokens) and (end == self._next or self._tokens[end].start == self._tokens[end - 1].end):
            if self._tokens[end].text == "]":
                break
            end += 1
        text = "".join(one.text for one in self._tokens[self._next : end])
        expected = "an xsd:dayTimeDuration such as PT2H, PT10M or P1DT0.5S"
        if token is None or not text:
            raise self._unexpected(expected)
        if _YEARS_OR_MONTHS.fullmatch(text):
            raise self._source.error(
                f"{text}: years and months have no fixed length, so they are refused", token.start, expected
            )
        found = _DURATION.fullmatch(text)
        if found is None or not any(found.groups()) or text.endswith("T"):
            raise self._source.error(f"{text} is not a duration", token.start, _rsp_ql_duration(text) or expected)
        days, hours, minutes, seconds, fraction = found.groups(default="0")
        whole = ((int(days) * 24 + int(hours)) * 60 + int(minutes)) * 60 + int(seconds)
        nanoseconds = whole * 10**9 + int(fraction.ljust(9, "0"))
        self._next = end
        return self._positive(nanoseconds, token)

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

    def _name(self, expected: str) -> Name:
        token = self._ahead(0)
        if token is None or token.kind not in ("iri", "prefixed") or token.text.startswith("_:"):
            raise self._unexpected(f"{expected}, as <name> or prefixed")
        self._next += 1
        return Name(token.text, token.start)

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
            return self._source.error("the query ends too early", len(self._source.parsed), expected)
        return self._source.error(f"unexpected {token.text}", token.start, expected)


def _rsp_ql_duration(text: str) -> str | None:
    """Return the form in RSP-QL of a duration of C-SPARQL or CQELS (`10s`)."""
    try:
        nanoseconds = nanoseconds_of(text.lower())
    except DurationError:
        return None
    seconds, rest = divmod(nanoseconds, 10**9)
    if rest or seconds <= 0:
        return None
    unit = next((unit for unit, length in (("H", 3600), ("M", 60)) if seconds % length == 0), "S")
    return f"PT{seconds // {'H': 3600, 'M': 60, 'S': 1}[unit]}{unit}"
