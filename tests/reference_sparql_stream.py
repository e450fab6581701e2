"""The oracle of SPARQL over streams: the machinery of patterns (`tests.reference_pattern_stream`) around a query.

Windows, streams, static edges, reports, registering and the guard are those of patterns; what SPARQL adds is here.
Numbers in brackets name rules of the contract: [2.6] implicit and explicit, [2.7] before the first tuple, [2.9] the
heads of RSP-QL, [2.10] ASK and CONSTRUCT. Decided here:

- **implicit** is the default for what is monotone (`tests.reference_sparql.is_monotone`): no OPTIONAL, MINUS,
  aggregates, nor NOT EXISTS; EXISTS as a condition or part of a conjunction is monotone, EXISTS within other formulas
  is taken for not monotone.
- **RSTREAM** gives the whole answer, with op "=", at every boundary of the default window (without it, of all windows
  of time with a name) that τ exceeds from the
  first tuple's moment on, whether or not something changed; **ISTREAM** and **DSTREAM** the rows of the difference to
  the report before. Rows that a head leaves out are not counted; those of op "=" are counted as added.
- **NOW()** is the time of the report [2.9]: at a boundary that; between two, of answers that are asked for, the next one.
  Reports are then told at every boundary from the first tuple's moment on. It is a dateTime in UTC, of seconds.
- A **WINDOW of the query** and one of the same name given apart are one declared twice: an error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any, Literal

from tests.reference import Edge, Rejected
from tests.reference_pattern_stream import PatternQuestion, PatternReference, Row, TooManyRows, Window, next_multiple
from tests.reference_sparql import SparqlPattern, is_monotone
from tests.reference_sparql_checks import check
from tests.reference_sparql_parser import Refused, parse
from tests.reference_sparql_syntax import Query
from tests.reference_sparql_values import CONTRACT, Rules, literal


class SparqlQuestion(PatternQuestion):
    """A query over its windows; the default one, which may be left out, is given apart."""

    @property
    def is_implicit(self) -> bool:
        return self.report == "change" and self.semantics != "explicit" and is_monotone(self.query)

    @property
    def query(self) -> Query:
        return self.pattern.query


def question(
    text: str | Query,
    window: Window | None = None,
    *,
    name: str = "q",
    windows: Mapping[str, Window] | None = None,
    semantics: Literal["implicit", "explicit"] | None = None,
    report: Literal["change", "slide", "time"] = "change",
    paths: Literal["walk", "simple", "simple_cycle"] = "walk",
    unit: Fraction | int | None = 1,
    rules: Rules = CONTRACT,
) -> SparqlQuestion:
    """Return the question that a text asks; raise Rejected for what is refused.

    >>> from tests.reference_sparql_stream import question
    >>> asked = question("SELECT ?x { ?x <a> ?y FILTER NOT EXISTS { ?y <a> ?x } }", Window(size=10))
    >>> asked.is_implicit, asked.pattern.columns
    (False, ('x',))
    """
    query = parse(text, unit=unit) if isinstance(text, str) else text
    check(query)
    if twice := set(query.windows) & set(windows or {}):
        raise Rejected(f"window {min(twice)!r} is declared twice")
    if query.operator:
        if report == "time":
            raise Rejected(f'REGISTER {query.operator} reports at slides, not report="time"')
        report = "slide"
    pattern = SparqlPattern(query=query, paths=paths, rules=rules)
    if pattern.calls_now and report != "slide":
        raise Refused("NOW")
    if semantics == "implicit" and not is_monotone(query):
        raise Rejected("a query that is not monotone is explicit")
    return SparqlQuestion(
        name=query.name or name,
        pattern=pattern,
        window=window,
        windows={**query.windows, **(windows or {})},
        semantics=semantics,
        report=report,
    )


class SparqlReference(PatternReference):
    """Registered SPARQL queries over streams; questions of patterns may stand beside them.

    >>> engine = SparqlReference(question("SELECT (COUNT(*) AS ?n) { ?x <a> ?y }", Window(size=10, slide=10)))
    >>> [(row.op, row.values[0][:3], row.timestamp) for row in engine.push("x", "y", "a", 1)]
    [('+', '"0"', 1), ('-', '"0"', 1), ('+', '"1"', 1)]
    """

    def advance(self, time: int) -> list[Row]:
        """Move τ, by way of the boundaries at which somebody wants the whole answer [2.9]."""
        if self.time is None:
            return super().advance(time)
        rows: list[Row] = []
        before = self.time
        streams = [running for running in self._running.values() if _operator(running) == "RSTREAM"]
        timed = [running for running in self._running.values() if _calls_now(running)]
        boundaries = {
            boundary
            for running in [*streams, *timed]
            for window in running.question.reporting_windows
            for boundary in range(next_multiple(before, window.slide), time, window.slide)
        }
        for boundary in sorted(boundaries):
            rows += super().advance(boundary)
            for running in streams:
                if any(boundary % window.slide == 0 for window in running.question.reporting_windows):
                    rows += self._whole(running, boundary)
        return rows + super().advance(time)

    report_empty = False
    """True if an empty whole answer is a row without values, of op "0"."""

    _now: int | None = None
    """The time of the report that is told; None between reports."""

    def __init__(self, *questions: PatternQuestion, **options: Any) -> None:
        self.named: dict[str, set[Edge]] = {}
        super().__init__(*questions, **options)

    def load_graph(self, name: str, edges: Iterable[Edge]) -> None:
        """Add edges without time of a named graph [2.5]."""
        assert self.time is None
        self.named.setdefault(name, set()).update(edges)

    def graphs(self, name: str | None = None) -> dict[str | None, dict[Edge, int | None]]:
        return self._graphs(self._named(name))

    def _graphs(self, running: Any) -> dict[str | None, dict[Edge, int | None]]:
        """Return what a query reads: FROM says of which graphs the static edges of the default graph are."""
        static = self.static
        query = running.question.query if isinstance(running.question, SparqlQuestion) else None
        if query is not None and (query.from_graphs or query.from_named):
            static = frozenset(e for g in query.from_graphs for e in self.named.get(g, self.static))
        return {**{name: dict.fromkeys(edges) for name, edges in self.named.items()}, **running.graphs(static)}

    def _answer(self, running: Any) -> Counter:
        if self.time is None or not isinstance(running.question, SparqlQuestion):
            return super()._answer(running)
        now = None
        if _calls_now(running):
            now = _date_time(running.question.reports_at(self.time) if self._now is None else self._now)
        return running.question.pattern.solutions(self._graphs(running), now, sorted(self.named))

    def _whole(self, running: Any, time: int) -> list[Row]:
        self._now = time
        try:
            return self._whole_at(running, time)
        finally:
            self._now = None

    def _whole_at(self, running: Any, time: int) -> list[Row]:
        rows = [Row(running.question.name, values, time, "=") for values in self._answer(running).elements()]
        if self.report_empty and not rows:
            rows = [Row(running.question.name, (None,) * len(running.question.pattern.columns), time, "0")]
        if self.row_limit is not None and len(rows) > self.row_limit:
            raise TooManyRows(running.question.name, len(rows), self.row_limit)
        for counts in (running.counts, self._counts):
            counts["rows_added"] += len(rows)
        return sorted(rows, key=repr)

    def _tell(self, running: Any, time: int, *, silent: bool = False) -> list[Row]:
        operator = _operator(running)
        if operator == "RSTREAM":
            return []
        self._now = time
        try:
            rows = super()._tell(running, time, silent=silent or operator == "ISTREAM")
        finally:
            self._now = None
        if operator == "DSTREAM":
            left_out = sum(row.op == "+" for row in rows)
            for counts in (running.counts, self._counts):
                counts["rows_added"] -= left_out
            rows = [row for row in rows if row.op == "-"]
        return rows


def _calls_now(running: Any) -> bool:
    return isinstance(running.question, SparqlQuestion) and running.question.pattern.calls_now


def _date_time(seconds: int) -> str:
    moment = datetime(1970, 1, 1) + timedelta(seconds=seconds)
    return literal(moment.isoformat() + "Z", "dateTime")


def _operator(running: Any) -> str:
    return running.question.query.operator if isinstance(running.question, SparqlQuestion) else ""
