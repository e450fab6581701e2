"""The clauses of RSP-QL, C-SPARQL and CQELS that SPARQL does not have, removed from the text so that the rest is SPARQL.

    REGISTER (STREAM | QUERY | ISTREAM | DSTREAM | RSTREAM) name [COMPUTED EVERY length] AS
    (SELECT | CONSTRUCT | ASK) [ISTREAM | DSTREAM | RSTREAM]
    FROM NAMED WINDOW <name> [ON [STREAM] stream] '[' extent ']'      ON may also stand behind the brackets
    FROM [NAMED] STREAM stream '[' extent ']'                         C-SPARQL
        extent    (RANGE | SLIDING | SLIDE) length [[,] (STEP | SLIDE) length | TUMBLING] | TUMBLING length
                | (COUNT | ELEMENTS | ITEM | TRIPLES | RANGE TRIPLES) number [[,] (STEP | SLIDE) number | TUMBLING]
                | [RANGE] UNBOUNDED | ALL | NOW
    WINDOW (<name> | ?variable) { … }
    STREAM stream ['[' extent ']'] { … }                              CQELS, without an extent a stream of FROM STREAM

All but the last two are replaced by as many spaces, these by `GRAPH` and a name, so that places do not change. A length is
a number of units of the stream's time, or a duration: an xsd:dayTimeDuration (`PT2H`, `P1DT0.5S`), which has neither years
nor months, or as in other languages (`10s`, `5 m`). A stream is an IRI or a word, and behind ON or STREAM a variable for any
stream. REGISTER STREAM and REGISTER QUERY report the whole answer, as RSTREAM does, unless another word stands behind
SELECT, CONSTRUCT or ASK. FROM STREAM with a STEP is C-SPARQL, of which this holds also without REGISTER. Where no window of
C-SPARQL has a step of time, every change is reported, as in CQELS.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from rpq.errors import SparqlError
from rpq.language.sparql.algebra import CountExtent, Dialect, Extent, Reporting, TimeExtent, UnboundedExtent
from rpq.language.sparql.syntax.source_text import SourceText, Token, refusal
from rpq.stream.durations import DurationError, nanoseconds_of
from rpq.stream.window import INT64_MAX

Clause = TypeVar("Clause")

_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(\d{1,9}))?S)?)?", re.ASCII)
_YEARS_OR_MONTHS = re.compile(r"P(?=\d+[YM])[\dYMDTHS.]+", re.ASCII)
_EXTENT = "RANGE and a duration such as PT2H, COUNT and a number, or UNBOUNDED"
_CONTENTS = ("ISTREAM", "DSTREAM", "RSTREAM")
_COUNT_KEYWORDS = ("COUNT", "ELEMENTS", "ITEM", "TRIPLES")
"""Keywords of windows that contain a number of triples."""
_UNNAMED = "GRAPH <>"
"""What stands for STREAM and the name of a stream, which is as long at least."""


@dataclass(frozen=True)
class WindowName:
    """A name as it appears in the text, `<…>` or prefixed, with its place."""

    text: str
    place: int


@dataclass(frozen=True)
class WindowClause:
    """A window: its name (None in C-SPARQL and CQELS), its stream (None for the merged stream), and its extent."""

    name: WindowName | None
    stream: WindowName | None
    extent: Extent


@dataclass
class WindowClauses:
    """The clauses of a text, and the standard SPARQL that remains.

    `named` are those of FROM NAMED WINDOW, `of_streams` those of FROM STREAM. `uses` has the places of WINDOW and STREAM,
    each with the window that STREAM reads. `reporting` is the content of reports, None without reports, and `name` that of
    REGISTER.
    """

    named: list[WindowClause] = field(default_factory=list)
    of_streams: list[WindowClause] = field(default_factory=list)
    uses: dict[int, WindowClause | None] = field(default_factory=dict)
    name: WindowName | None = None
    reporting: Reporting | None = None
    dialect: Dialect = "rsp-ql"
    standard_text: str = ""

    @property
    def windows(self) -> list[WindowClause]:
        """All windows."""
        return [*self.named, *self.of_streams, *(one for one in self.uses.values() if one is not None)]

    @property
    def merged(self) -> list[WindowClause]:
        """The windows of FROM STREAM whose contents are in the default graph: all but those that STREAM reads."""
        return [one for one in self.of_streams if one not in self.uses.values()]


def extract_clauses(source: SourceText, dialect: Dialect | None = None) -> WindowClauses:
    """Remove the clauses that SPARQL does not have. The text tells its dialect unless that is given. O(length).

    Raises `SparqlError` at the place of an invalid clause.

    >>> text = "ASK FROM NAMED WINDOW <w> [RANGE PT2H STEP PT10M] { WINDOW <w> { ?x <a> ?y } }"
    >>> clauses = extract_clauses(SourceText.read(text))
    >>> clauses.standard_text[:4], clauses.standard_text.split(maxsplit=1)[1], str(clauses.named[0].extent)
    ('ASK ', '{ GRAPH  <w> { ?x <a> ?y } }', 'RANGE 2h STEP 10m')
    """
    return _ClauseExtractor(source).extract(dialect)


class _ClauseExtractor:
    """One pass over the tokens of a text."""

    def __init__(self, source: SourceText) -> None:
        self._source = source
        self._tokens: Sequence[Token] = list(source.tokens())
        self._next = 0
        self._characters = list(source.unescaped)
        self._period: tuple[Token, int, bool] | None = None

    def extract(self, dialect: Dialect | None) -> WindowClauses:
        found = WindowClauses()
        contents: list[Token] = []
        while self._next < len(self._tokens):
            token = self._tokens[self._next]
            following = [self._ahead(1), self._ahead(2)]
            if token.is_word("REGISTER") and not token.depth:
                if found.name is not None:
                    raise self._source.error("REGISTER occurs twice", token.start, "one REGISTER … AS per query")
                if following[0] and following[0].is_word(*_CONTENTS):
                    contents.append(following[0])
                found.name = self._blank_out(self._register)
            elif not token.depth and following[0] and following[0].is_word(*_CONTENTS):
                self._next += 1
                if token.is_word("SELECT", "CONSTRUCT", "ASK"):
                    contents.append(following[0])
                    self._blank_out(self._skip)
            elif token.is_word("FROM") and any(after and after.is_word("WINDOW") for after in following):
                found.named.append(self._blank_out(self._window))
            elif token.is_word("FROM") and self._has_stream(following):
                found.of_streams.append(self._blank_out(self._from_stream))
            elif token.is_word("WITH") and following[0] and following[0].is_word("DEPTH"):
                raise refusal(self._source, "WITH DEPTH", token.start)
            elif token.is_word("WINDOW") and token.depth:
                self._next += 1
                if following[0] and following[0].kind == "variable":
                    self._next += 1
                else:
                    self._name("the name of a window")
                self._characters[token.start : token.end] = "GRAPH "
                found.uses[token.start] = None
            elif token.is_word("STREAM") and token.depth and following[1] and following[1].text in ("[", "{"):
                found.uses[token.start] = self._blank_out(lambda: self._stream_window(found.of_streams))
                self._characters[token.start : token.start + len(_UNNAMED)] = _UNNAMED
            else:
                self._next += 1
        self._set_period(found)
        has_step = any(map(_has_step, found.of_streams)) or any(isinstance(one.extent, CountExtent) for one in found.merged)
        has_streams = found.of_streams or any(found.uses.values())
        found.dialect = dialect or ("csparql" if has_step else "cqels" if has_streams else "rsp-ql")
        found.reporting = self._reporting(found, contents)
        found.standard_text = "".join(self._characters)
        return found

    def _reporting(self, found: WindowClauses, contents: list[Token]) -> Reporting | None:
        """Return the content of reports: the one that a keyword names, otherwise what the dialect reports."""
        if len({token.text.upper() for token in contents}) > 1:
            first, second = contents[:2]
            message = f"{second.text} contradicts {first.text} in line {self._source.place_of(first.start)[0]}"
            raise self._source.error(message, second.start, "one of ISTREAM, DSTREAM and RSTREAM")
        if contents:
            return contents[0].text.upper()  # type: ignore[return-value]
        if found.dialect == "csparql":
            return "RSTREAM" if any(map(_has_step, found.windows)) or not found.windows else None
        return "RSTREAM" if found.name is not None and found.dialect == "rsp-ql" else None

    def _set_period(self, found: WindowClauses) -> None:
        """Make the period of COMPUTED EVERY the step of all windows of time, whose own steps must divide it."""
        if self._period is None:
            return
        token, period, is_number = self._period

        def with_period(one: WindowClause) -> WindowClause:
            if not isinstance(one.extent, TimeExtent):
                return one
            if one.extent.is_number != is_number or period % (one.extent.slide or 1):
                message = f"reports at this period do not see {one.extent} complete"
                expected = "a multiple of the STEP of each window, or windows without STEP"
                raise self._source.error(message, token.start, expected)
            return replace(one, extent=replace(one.extent, slide=period))

        found.named = [*map(with_period, found.named)]
        found.of_streams = [*map(with_period, found.of_streams)]
        found.uses = {place: None if one is None else with_period(one) for place, one in found.uses.items()}
        if not any(map(_has_step, found.windows)):
            raise self._source.error("no window of time has this period", token.start, "[RANGE 10s], for instance")

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
            self._next += 1
            self._word("EVERY", expected="EVERY")
            self._period = (token, *self._length())
        self._word("AS", expected="AS")
        return name

    def _window(self) -> WindowClause:
        self._next += 1
        self._word("NAMED", expected="NAMED, as in FROM NAMED WINDOW <name> ON <stream> [RANGE PT10S STEP PT1S]")
        self._word("WINDOW", expected="WINDOW")
        name = self._name("the name of a window")
        stream = self._stream()
        extent = self._extent_in_brackets()
        return WindowClause(name, stream or self._stream(), extent)

    def _has_stream(self, following: list[Token | None]) -> bool:
        """Return whether STREAM or NAMED STREAM follows."""
        first, second = following
        return first is not None and (
            first.is_word("STREAM") or (first.is_word("NAMED") and second is not None and second.is_word("STREAM"))
        )

    def _from_stream(self) -> WindowClause:
        """Read FROM [NAMED] STREAM with the name of a stream and an extent."""
        self._next += 2 if (token := self._ahead(1)) and token.is_word("NAMED") else 1
        self._word("STREAM", expected="STREAM")
        return WindowClause(None, self._stream_name(), self._extent_in_brackets())

    def _stream_window(self, of_streams: list[WindowClause]) -> WindowClause:
        """Read STREAM with the name of a stream, and an extent unless FROM STREAM has declared it."""
        self._next += 1
        place, stream = self._ahead(0), self._stream_name()
        if (token := self._ahead(0)) and token.text == "[":
            return WindowClause(None, stream, self._extent_in_brackets())
        declared = [one for one in of_streams if one.stream and stream and one.stream.text == stream.text]
        if not declared:
            assert place is not None
            message = f"{place.text} has no window"
            raise self._source.error(message, place.start, "a window, as in STREAM <s> [RANGE 10s] { … }, or FROM STREAM")
        return declared[0]

    def _stream(self) -> WindowName | None:
        """Read ON and the name of a stream, if they are next."""
        if not ((token := self._ahead(0)) and token.is_word("ON")):
            return None
        self._next += 1
        if (token := self._ahead(0)) and token.is_word("STREAM"):
            self._next += 1
        return self._stream_name()

    def _stream_name(self) -> WindowName | None:
        """Read the name of a stream; None for a variable, which may be any stream."""
        token = self._ahead(0)
        if token is not None and token.is_word("LOG"):
            raise self._source.error("LOG is refused: a window has the edges of a stream", token.start, "its name")
        if token is not None and token.kind == "word":
            self._next += 1
            return WindowName(token.text, token.start)
        if token is None or token.kind != "variable":
            return self._name("the name of a stream")
        self._next += 1
        if sum(one.kind == "variable" and one.text[1:] == token.text[1:] for one in self._tokens) > 1:
            message = f"{token.text} may be any stream, but has no value"
            raise self._source.error(message, token.start, "the name of a stream")
        return None

    def _extent_in_brackets(self) -> Extent:
        self._sign("[")
        extent = self._extent()
        if (token := self._ahead(0)) and token.is_word("REPORT"):
            self._next += 1
            words = ("ON_WINDOW_CLOSE", "NON_EMPTY_CONTENT")
            self._word(*words, expected="ON_WINDOW_CLOSE, as reports are made at each STEP")
        if (token := self._ahead(0)) and token.is_word("TICK"):
            self._next += 1
            self._word("TIME_DRIVEN", expected="TIME_DRIVEN, as time moves with the timestamps of the stream")
        self._sign("]")
        return extent

    def _extent(self) -> Extent:
        token = self._ahead(0)
        if token and token.is_word("SESSION"):
            raise self._source.error("session windows are refused", token.start, _EXTENT)
        if token and token.is_word("FROM"):
            message = "a window that ends in the past is refused: edges would have to enter it long after they arrived"
            raise self._source.error(message, token.start, "a window up to now, RANGE PT2H STEP PT1H")
        words = ("RANGE", "SLIDING", "SLIDE", "TUMBLING", *_COUNT_KEYWORDS, "UNBOUNDED", "ALL", "NOW")
        word = self._word(*words, expected=_EXTENT)
        if word == "RANGE" and (token := self._ahead(0)) and token.is_word("TRIPLES", "UNBOUNDED"):
            word = self._word(token.text.upper(), expected=_EXTENT)
        if word in ("UNBOUNDED", "ALL"):
            return UnboundedExtent()
        if word == "NOW":
            return TimeExtent(1, None, is_number=True)
        if word in _COUNT_KEYWORDS:
            size = self._number()
            return CountExtent(size, self._step(size, self._number) or 1)
        place = self._ahead(0)
        length, is_number = self._length()
        slide = (length, is_number) if word == "TUMBLING" else self._step((length, is_number), self._length)
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
        if token and token.text != "]" and not token.is_word("REPORT", "TICK"):
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
            if unit is None or unit.kind != "word" or unit.is_word("STEP", "SLIDE", "TUMBLING", "REPORT", "TICK", "AS"):
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



def _has_step(window: WindowClause) -> bool:
    """Return whether the text says when a window of time moves."""
    return isinstance(window.extent, TimeExtent) and window.extent.slide is not None
