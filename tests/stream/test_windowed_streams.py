"""Several windows and named streams below SPARQL, against the oracle of patterns: random patterns over random streams.

patterns.md 2.3, 2.4, 2.5, 2.6, 2.9, 2.15
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st

import rpq
from rpq.language.readings import LabelSet, Reading
from tests.engine.kinds.windowed_query import WindowedPattern
from tests.operators.patterns.pattern_twins import by_event, query_of, rows_of, text_of, window_of
from tests.operators.patterns.pattern_twins import questions as patterns_of_one_window
from tests.reference import COUNTS, Edge
from tests.reference_pattern_stream import PatternQuestion, PatternReference, RegistrationRefused, Row
from tests.reference_patterns import Blank, Pattern, Variable
from tests.strategies import pattern_strategies
from tests.twins import collect, examples, tiny

Tuple = tuple[Any, Any, str, int, str, str | None]


def windowed_pattern(question: PatternQuestion) -> WindowedPattern:
    """The same question, put to the engine."""
    windows = question.all_windows
    names = [*windows]
    labels = {name: question.pattern.labels_read(name) for name in names}
    return WindowedPattern(
        text=text_of(question.pattern),
        places=tuple(names.index(atom.window) if atom.window in names else None for atom in question.pattern.atoms),
        readings=tuple(Reading(window_of(windows[name]), LabelSet(*labels[name]), windows[name].stream) for name in names),
        default=names.index(None) if None in names else None,
        name=question.name,
        explicit=not question.is_implicit,
        report=question.report,
        paths=question.pattern.paths,
    )


def columns_of(tuples: Sequence[Tuple]) -> dict[str, list[Any]]:
    names = ("source", "target", "label", "timestamp", "op", "stream")
    return dict(zip(names, map(list, zip(*tuples, strict=True)), strict=True))


def rows_of_changes(rows: Sequence[Any]) -> list[Row]:
    """Rows in the order of time, as the oracle has them."""
    return sorted((Row(row[0], tuple(row[1:-2]), row[-2], row[-1]) for row in rows), key=lambda row: row.timestamp)


class WindowedTwins:
    """Every method does the same to an engine and to the oracle, and compares what they say."""

    def __init__(self, *questions: PatternQuestion, capacity: int = 2, static: Sequence[Edge] = ()) -> None:
        self.kind = tiny(capacity)
        self.engine = self.kind(*map(windowed_pattern, questions))
        self.reference = PatternReference(*questions, static=static)
        if static:
            self.engine.load_static([(source, target, label) for source, label, target in static])
        self.questions = {question.name: question for question in questions}

    def push(self, tuples: Sequence[Tuple]) -> None:
        if not tuples:
            return
        groups: list[list[Row]] = []
        for source, target, label, timestamp, op, stream in tuples:
            groups += self._boundaries(timestamp)
            groups.append(self.reference.push(source, target, label, timestamp, op, stream))
        self._compare(rows_of(self.engine.push(columns_of(tuples))), groups)

    def advance(self, time: int) -> None:
        groups = self._boundaries(time)
        self._compare(rows_of(self.engine.advance(time)), groups)

    def _boundaries(self, time: int) -> list[list[Row]]:
        begun: list[list[Row]] = []
        if self.reference.time is None:
            rows = self.reference.advance(time)
            begun = [[row for row in rows if row.query == name] for name in self.questions]
        rows = self.reference.advance(time)
        return begun + [[row for row in rows if row.timestamp == at] for at in sorted({row.timestamp for row in rows})]

    def register(self, question: PatternQuestion, start: str) -> None:
        try:
            rows = self.reference.register(question, start)
        except RegistrationRefused as refused:
            with pytest.raises(rpq.RegistrationError) as caught:
                self.engine.register(windowed_pattern(question), start=start)
            assert caught.value.available_from == refused.available_from
            return
        self.questions[question.name] = question
        self._compare(rows_of(self.engine.register(windowed_pattern(question), start=start)), [rows])

    def unregister(self, name: str) -> None:
        self.reference.unregister(name)
        self.engine.unregister(name)
        del self.questions[name]
        self._compare([], [])

    def save_and_restore(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            self.engine.save(Path(folder) / "state")
            self.engine = self.kind.restore(Path(folder) / "state")
        self._compare([], [])

    def collect(self) -> None:
        collect(self.engine)
        self._compare([], [])

    def _compare(self, found: list[Row], groups: list[list[Row]]) -> None:
        begin = 0
        for group in groups:
            part = found[begin : begin + len(group)]
            assert Counter(part) == Counter(group), (part, group)
            for name in {row.query for row in part}:
                ops = [row.op for row in part if row.query == name]
                assert ops == sorted(ops, reverse=True), f"what leaves {name} comes first"
            begin += len(group)
        assert begin == len(found), f"more rows than there should be: {found[begin:]}"
        self.engine._check()
        for name, question in self.questions.items():
            wanted = self.reference.counts(name)
            figures = self.engine.statistics(name)
            counts = {key: getattr(figures, key) for key in wanted}
            assert counts == wanted
            if question.report == "change":
                assert Counter(self.engine.answers(name)) == self.reference.answer(name)
        figures, wanted = self.engine.statistics(), self.reference.counts()
        # The engine as a whole holds an edge of a stream and of the merged stream as two, and so does the oracle.
        assert {key: getattr(figures, key) for key in COUNTS} == {key: wanted[key] for key in COUNTS}


def is_connected(pattern: Pattern) -> bool:
    reached, waiting = set(), [pattern.atoms[0].subject]
    while waiting:
        term = waiting.pop()
        if term not in reached:
            reached.add(term)
            waiting += [t for a in pattern.atoms if term in (a.subject, a.object) for t in (a.subject, a.object)]
    return all(atom.subject in reached for atom in pattern.atoms)


@st.composite
def questions(draw: st.DrawFn, name: str = "q", report: str = "change", most: int = 4) -> PatternQuestion:
    """Connected patterns of variables over a default window, perhaps absent, and two others."""
    base = draw(pattern_strategies.questions(name, report, most=most))
    windows = {"w": base.windows["w"], "v": draw(pattern_strategies.any_window())}
    default = base.window
    names = [key for key, window in {None: default, **windows}.items()]
    variables = [Variable(letter) for letter in "xyzw"]
    atoms = []
    for atom in base.pattern.atoms:
        subject, target = (
            term if isinstance(term, Variable) else variables[len(str(term)) % 3] for term in (atom.subject, atom.object)
        )
        window = draw(st.sampled_from(names))
        atoms.append(atom._replace(subject=subject, object=target, window=window))
    pattern = Pattern(atoms=tuple(atoms), paths=base.pattern.paths)
    assume(is_connected(pattern) and not any(isinstance(term, Blank) for a in atoms for term in (a.subject, a.object)))
    semantics = draw(st.sampled_from(["implicit", "explicit"])) if report == "change" else None
    return PatternQuestion(name=name, pattern=pattern, window=default, windows=windows, semantics=semantics, report=report)


streams = pattern_strategies.streams(12, 40)


@examples(150)
@given(questions(), streams, st.integers(1, 6), st.integers(1, 20), st.sampled_from((2, 16)))
def test_rows_answers_and_counts(question, tuples, size, ahead, capacity):
    twins = WindowedTwins(question, capacity=capacity)
    for begin in range(0, len(tuples), size):
        twins.push(tuples[begin : begin + size])
    twins.advance(twins.engine.time + ahead)
    twins.collect()
    event(f"rows: {min(twins.engine.statistics().rows_added, 20)}")
    event(f"streams: {len({window.stream for window in question.all_windows.values()})}")


@pytest.mark.ci
@examples(150)
@given(st.data(), questions("one"), questions("two"), streams)
def test_everything_that_can_happen(data, one, two, tuples):
    """Queries come and go, the engine is saved and restored, time moves; in any order."""
    twins = WindowedTwins(one)
    draw, waiting = data.draw, list(tuples)
    for number in range(draw(st.integers(2, 8))):
        match draw(st.sampled_from(["push", "push", "advance", "register", "alike", "leave", "restore", "collect"])):
            case "push":
                count = draw(st.integers(1, 8))
                twins.push(waiting[:count])
                waiting = waiting[count:]
            case "advance":
                twins.advance((twins.engine.time or 0) + draw(st.integers(0, 15)))
            case "register":
                other = replace(draw(st.sampled_from([one, two])), name=f"q{number}")
                twins.register(other, draw(st.sampled_from(["window", "empty"])))
            case "alike":
                twins.register(draw(pattern_strategies.alike(one, f"q{number}")), "window")
            case "leave" if len(twins.questions) > 1:
                twins.unregister(draw(st.sampled_from(sorted(twins.questions))))
            case "restore":
                twins.save_and_restore()
            case "collect":
                twins.collect()
    twins.push(waiting)


@pytest.mark.ci
@examples(80)
@given(st.sampled_from(["slide", "time"]).flatmap(lambda report: questions(report=report)), streams, st.integers(1, 6))
def test_reports_are_at_boundaries_of_the_default_window(question, tuples, size):
    twins = WindowedTwins(question)
    for begin in range(0, len(tuples), size):
        twins.push(tuples[begin : begin + size])
        if begin % 4 == 0:
            twins.save_and_restore()
    twins.advance(twins.engine.time + 30)
    event(f"rows: {min(twins.engine.statistics().rows_added, 20)}")


static = st.lists(pattern_strategies.edges, max_size=4)


@pytest.mark.ci
@examples(80)
@given(st.data(), questions("one"), questions("two"), static, streams, st.integers(1, 6))
def test_static_edges_are_of_the_default_graph_alone(data, one, two, edges, tuples, size):
    """A path over the default window runs across both, unless that is ON a stream, which is refused."""
    one, two = (
        replace(question, window=question.window and replace(question.window, stream=None)) for question in (one, two)
    )
    twins = WindowedTwins(one, static=edges)
    for begin in range(0, len(tuples), size):
        twins.push(tuples[begin : begin + size])
        match data.draw(st.sampled_from(["", "", "register", "restore"])):
            case "register":
                twins.register(replace(two, name=f"q{begin}"), data.draw(st.sampled_from(["window", "empty"])))
            case "restore":
                twins.save_and_restore()


# --- beside queries of the merged stream, and what must not be seen ----------------------------------------------------


@pytest.mark.ci
@examples(60)
@given(questions("one"), patterns_of_one_window("two"), streams, st.integers(1, 9), st.integers(1, 3))
def test_what_reads_the_merged_stream_does_not_see_names(one, two, tuples, size, threads):
    """Nor does it matter how the tuples are cut into batches, or which engine has which of the queries."""
    plain = [query_of(two), rpq.Query("!(a|^b)/b*", window=rpq.Window(size=7, slide=2), name="path", semantics="explicit")]
    alone, together = tiny(2)(*plain, threads=threads), tiny(16)(windowed_pattern(one), *plain)
    by_windows = tiny(2)(windowed_pattern(one))
    merged, found, windowed = [], [], []
    for begin in range(0, len(tuples), size):
        some = tuples[begin : begin + size]
        merged += alone.push_rows([one[:5] for one in some]).rows()
        windowed += by_windows.push(columns_of(some)).rows()
    for begin in range(0, len(tuples), 5):
        found += together.push(columns_of(tuples[begin : begin + 5])).rows()
    assert by_event(rows_of_changes(found)) == by_event(rows_of_changes([*merged, *windowed]))
    for name in ("two", "path"):
        assert Counter(together.answers(name)) == Counter(alone.answers(name))
        mine, others = together.statistics(name), alone.statistics(name)
        assert [getattr(mine, key) for key in COUNTS] == [getattr(others, key) for key in COUNTS]


# --- by hand ----------------------------------------------------------------------------------------------------------


def over(stream: str | None, window: Any, *labels: str) -> Reading:
    return Reading(window, LabelSet(frozenset(labels), others=False), stream)


def test_a_stream_has_its_own_inserts_and_deletes() -> None:
    """A delete on stream s takes the edge from s and from the merged stream, and not from stream t."""
    hour, day = rpq.Window(size=10, slide=1), rpq.Window(size=100, slide=1)
    queries = [
        WindowedPattern(text="?x a ?y", places=(0,), readings=(over(stream, window, "a"),), name=name)
        for name, stream, window in (("merged", None, hour), ("s", "s", day), ("t", "t", day))
    ]
    engine = rpq.Engine(*queries)

    def counts(op: str, time: int, stream: str | None) -> list[str]:
        changes = engine.push(source=["x"], target=["y"], label=["a"], timestamp=[time], op=[op], stream=[stream])
        return sorted(f"{row.query}{row.op}" for row in changes.rows())

    assert counts("+", 1, "s") == ["merged+", "s+"]
    assert counts("+", 2, "t") == ["t+"]
    assert counts("-", 3, "s") == ["merged-", "s-"]
    assert counts("-", 4, None) == []
    assert counts("+", 5, None) == ["merged+"]
    assert counts("-", 6, "t") == ["merged-", "t-"]
    assert counts("+", 7, "u") == ["merged+"]
    assert [engine.statistics(name).tuples for name in ("merged", "s", "t")] == [7, 7, 7]
    figures = engine.statistics()
    assert (figures.inserted, figures.refreshed, figures.deleted, figures.absent_deletes) == (3, 1, 2, 1)


def test_a_tuple_is_late_where_every_window_that_reads_it_refuses_it() -> None:
    short, long = rpq.Window(size=5, slide=1), rpq.Window(size=50, slide=1)
    both = WindowedPattern(
        text="?x a ?y . ?y a ?z", places=(0, 1), readings=(over(None, short, "a"), over("s", long, "a")), name="q"
    )
    engine = rpq.Engine(both)
    columns = {"source": ["u"], "target": ["v"], "label": ["a"]}
    engine.push(**columns, timestamp=[40])
    assert engine.push(**columns, timestamp=[20], stream=["s"]).late_rows.tolist() == []
    assert engine.push(**columns, timestamp=[20]).late_rows.tolist() == [0]
    assert engine.push(**columns, timestamp=[20], stream=["t"]).late_rows.tolist() == [0]
    figures = engine.statistics("q")
    assert (figures.inserted, figures.late, figures.refreshed) == (2, 2, 0)


def test_what_was_lost_is_known_by_stream() -> None:
    window = rpq.Window(size=10, slide=1)
    on = {
        stream: WindowedPattern(text="?x a ?y", places=(0,), readings=(over(stream, window, "a"),), name=stream)
        for stream in ("s", "t")
    }
    engine = rpq.Engine(on["s"])
    engine.push(source=["x"], target=["y"], label=["a"], timestamp=[5], stream=["t"])
    engine.push(source=["x"], target=["z"], label=["a"], timestamp=[6], stream=["s"])
    with pytest.raises(rpq.RegistrationError) as caught:
        engine.register(on["t"])
    assert caught.value.available_from == 15
    assert len(engine.register(replace(on["s"], name="again"))) == 1
    engine.advance(15)
    assert engine.register(on["t"]).rows() == []


def test_streams_that_nobody_reads_leave_nothing_behind() -> None:
    engine = tiny(2)(rpq.Query("a/b", window=rpq.Window(size=10, slide=1)))
    for begin in range(0, 4000, 100):
        numbers = range(begin, begin + 100)
        engine.push(
            source=[f"x{n}" for n in numbers],
            target=[f"y{n}" for n in numbers],
            label=["a"] * 100,
            timestamp=list(numbers),
            stream=[f"stream {n}" for n in numbers],
        )
    assert engine.statistics().vertices_live < 600
    engine._check()


def test_a_path_across_static_edges_and_a_named_stream_is_refused() -> None:
    query = WindowedPattern(text="?x a+ ?y", places=(0,), readings=(over("s", rpq.Window(size=10, slide=1), "a"),), name="q")
    engine = rpq.Engine(query)
    engine.load_static([("x", "y", "a")])
    with pytest.raises(rpq.QueryError, match="does not run across static edges yet"):
        engine.push(source=["y"], target=["z"], label=["a"], timestamp=[1], stream=["s"])


def test_reports_without_a_default_window_of_time_are_refused() -> None:
    for default, window in ((None, rpq.Window(size=10, slide=1)), (0, rpq.CountWindow(size=3))):
        query = WindowedPattern(
            text="?x a ?y", places=(0,), readings=(over("s", window, "a"),), default=default, report="slide", name="q"
        )
        engine = rpq.Engine()
        with pytest.raises(rpq.QueryError, match="reports at boundaries of its window, which has to be one of time"):
            engine.register(query)
        assert engine.queries == () and engine.register(replace(query, report="change")).rows() == []
