"""An engine and the oracle of graph patterns, driven side by side."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

import rpq
from tests.reference import Edge
from tests.reference_pattern_stream import PatternQuestion, PatternReference, RegistrationRefused, Row, Window
from tests.reference_patterns import Blank, Constant, Pattern, Term, Variable
from tests.strategies import pattern_strategies
from tests.twins import collect, tiny

Tuple = tuple[Any, Any, str, int, str]


def term_text(term: Term) -> str:
    match term:
        case Variable(name):
            return f"?{name}"
        case Blank(label):
            return f"_:{label}"
        case Constant(value):
            return f"'{value}'"
    raise TypeError(term)


def text_of(pattern: Pattern) -> str:
    return " . ".join(f"{term_text(a.subject)} {a.expression} {term_text(a.object)}" for a in pattern.atoms)


def window_of(window: Window) -> Any:
    """The same window, as the engine has it."""
    match window.kind:
        case "count":
            return rpq.CountWindow(size=window.size, step=window.slide)
        case "unbounded":
            return rpq.UnboundedWindow()
    return rpq.Window(size=window.size, slide=window.slide)


def query_of(question: PatternQuestion) -> rpq.Query:
    """The same question, put to the engine; that of a path from ?source to ?target as a path query."""
    pattern, window = question.pattern, window_of(question.window)
    (first, *others) = pattern.atoms
    if not others and (first.subject, first.object) == (Variable("source"), Variable("target")):
        semantics = question.semantics or "implicit"
        return rpq.Query(first.expression, name=question.name, window=window, paths=pattern.paths, semantics=semantics)
    return rpq.Query(
        text_of(pattern),
        name=question.name,
        window=window,
        select=pattern.select,
        distinct=pattern.distinct,
        matching=pattern.matching,
        paths=pattern.paths,
        semantics=question.semantics,
        report=question.report,
    )


@st.composite
def questions(
    draw: st.DrawFn, name: str = "q", most: int = 4, reports: tuple[str, ...] = ("change",), *, paths: bool = True
) -> PatternQuestion:
    """Patterns over one time window, some with path atoms if there may be `paths`."""
    report = draw(st.sampled_from(reports))
    pattern = draw(pattern_strategies.patterns(most=most))
    if not paths:
        atoms = tuple(a._replace(expression=a.expression if len(a.expression) < 2 else "^a") for a in pattern.atoms)
        pattern = replace(pattern, atoms=atoms)
    return PatternQuestion(
        name=name,
        pattern=pattern,
        window=Window(size=draw(st.integers(1, 12) | st.integers(12, 60)), slide=draw(st.integers(1, 5))),
        semantics=draw(st.sampled_from(["implicit", "explicit"] if report == "change" else [None, "explicit"])),
        report=report,
    )


streams = pattern_strategies.streams(12, 40).map(lambda tuples: [t[:5] for t in tuples])
long_streams = pattern_strategies.streams(40, 90).map(lambda tuples: [t[:5] for t in tuples])


def rows_of(changes: Any) -> list[Row]:
    return [Row(row[0], tuple(row[1:-2]), row[-2], row[-1]) for row in changes.rows()]


def by_event(rows: Sequence[Row]) -> list[tuple[int, Counter]]:
    """Rows of each moment, in order."""
    grouped: list[tuple[int, Counter]] = []
    for row in rows:
        if not grouped or grouped[-1][0] != row.timestamp:
            grouped.append((row.timestamp, Counter()))
        grouped[-1][1][row] += 1
    return grouped


class PatternTwins:
    """Every method does the same to both, and compares what they say."""

    def __init__(
        self, *questions: PatternQuestion, capacity: int = 2, threads: int = 1, static: Sequence[Edge] = ()
    ) -> None:
        self.kind = tiny(capacity)
        self.engine = self.kind(*map(query_of, questions), threads=threads)
        self.reference = PatternReference(*questions, static=static)
        if static:
            self.engine.load_static([(source, target, label) for source, label, target in static])
        self.questions = {question.name: question for question in questions}

    def push(self, tuples: Sequence[Tuple]) -> None:
        groups: list[list[Row]] = []
        for source, target, label, timestamp, op in tuples:
            if self.reference.time is None:  # what static edges alone bring
                begun = self.reference.advance(timestamp)
                groups += [[r for r in begun if r.query == name] for name in self.questions]
            boundaries = self.reference.advance(timestamp)
            groups += [[r for r in boundaries if r.timestamp == at] for at in sorted({r.timestamp for r in boundaries})]
            groups.append(self.reference.push(source, target, label, timestamp, op))
        self._compare(rows_of(self.engine.push_rows(tuples)), groups)

    def advance(self, time: int) -> None:
        begun: list[list[Row]] = []
        if self.reference.time is None:
            rows = self.reference.advance(time)
            begun = [[r for r in rows if r.query == name] for name in self.questions]
        rows = self.reference.advance(time)
        times = sorted({r.timestamp for r in rows})
        self._compare(rows_of(self.engine.advance(time)), begun + [[r for r in rows if r.timestamp == at] for at in times])

    def flush(self) -> None:
        """Compare what is reported if the stream ends here; neither changes."""
        expected: list[Row] = []
        reporting = [one for one in self.questions.values() if one.report != "change" and self.reference.time is not None]
        for boundary, name in sorted((one.reports_at(self.reference.time), one.name) for one in reporting):
            rows = deepcopy(self.reference).advance(boundary + 1)
            expected += [row for row in rows if row.query == name and row.timestamp <= boundary]
        times = sorted({r.timestamp for r in expected})
        self._compare(rows_of(self.engine.flush()), [[r for r in expected if r.timestamp == at] for at in times])

    def register(self, question: PatternQuestion, start: str) -> None:
        try:
            rows = self.reference.register(question, start)
        except RegistrationRefused as refused:
            try:
                self.engine.register(query_of(question), start=start)
            except rpq.RegistrationError as error:
                assert error.available_from == refused.available_from
            else:
                raise AssertionError("the engine took a query whose window is not there") from refused
            return
        self.questions[question.name] = question
        self._compare(rows_of(self.engine.register(query_of(question), start=start)), [rows])

    def unregister(self, name: str) -> None:
        self.reference.unregister(name)
        self.engine.unregister(name)
        del self.questions[name]
        self._compare([], [])

    def save_and_restore(self, threads: int = 1) -> None:
        with tempfile.TemporaryDirectory() as folder:
            self.engine.save(Path(folder) / "state")
            self.engine = self.kind.restore(Path(folder) / "state", threads=threads)
        self._compare([], [])

    def collect(self) -> None:
        collect(self.engine)
        self._compare([], [])

    def live_through(self, draw: st.DrawFn, others: Sequence[PatternQuestion], tuples: Sequence[Tuple]) -> None:
        """Push all tuples; as drawn, register and remove queries like these, save and restore the state, move time."""
        waiting = list(tuples)
        for number in range(draw(st.integers(2, 8))):
            what = draw(st.sampled_from(["push", "push", "one", "advance", "register", "leave", "restore", "collect"]))
            match what:
                case "push":
                    count = draw(st.integers(1, 8))
                    self.push(waiting[:count])
                    waiting = waiting[count:]
                case "one":
                    for _ in range(min(3, len(waiting))):
                        self.push([waiting.pop(0)])
                case "advance":
                    self.advance((self.engine.time or 0) + draw(st.integers(0, 15)))
                case "register":
                    other = replace(draw(st.sampled_from(others)), name=f"q{number}")
                    self.register(other, draw(st.sampled_from(["window", "empty"])))
                case "leave" if len(self.questions) > 1:
                    self.unregister(draw(st.sampled_from(sorted(self.questions))))
                case "restore":
                    self.save_and_restore(draw(st.integers(1, 3)))
                case "collect":
                    self.collect()
        self.push(waiting)

    def _compare(self, found: list[Row], groups: list[list[Row]]) -> None:
        begin = 0
        for group in groups:
            part = found[begin : begin + len(group)]
            assert Counter(part) == Counter(group), (part, group)
            for name in {r.query for r in part}:
                ops = [r.op for r in part if r.query == name]
                assert ops == sorted(ops, reverse=True), f"what leaves {name} comes first"
            begin += len(group)
        assert begin == len(found), f"more rows than there should be: {found[begin:]}"
        self.engine._check()
        for name in self.questions:
            assert Counter(self.engine.answers(name)) == self.reference.answer(name)
            figures, counts = self.engine.statistics(name), self.reference.counts(name)
            for figure, count in counts.items():
                assert getattr(figures, figure) == count, (name, figure)
