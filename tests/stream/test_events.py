"""Events of several tuples: rows are net of the whole event; with windows across them, or each event by itself.

patterns.md 2.2; paper 000
"""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

import rpq
from tests.operators.patterns.pattern_twins import query_of, rows_of
from tests.operators.patterns.pattern_twins import questions as patterns
from tests.reference_pattern_stream import PatternQuestion, PatternReference, Row, Window
from tests.strategies import pattern_strategies
from tests.stream.test_windowed_streams import questions as windowed
from tests.stream.test_windowed_streams import windowed_pattern
from tests.twins import examples, tiny

W = rpq.Window(size=10, slide=1)


# --- what is an event -------------------------------------------------------------------------------------------------

VALUES = ["g", "g", None, None, "h", "g", "g"]


@pytest.mark.parametrize(
    "values",
    [
        VALUES,
        pa.array(VALUES).dictionary_encode(),
        pd.Series(VALUES),
        [1, 1, None, None, 2, 1, 1],
        pa.array([1, 1, None, None, 2, 1, 1]),
        ["g", "g", float("nan"), float("nan"), "h", "g", "g"],
    ],
    ids=lambda values: type(values).__name__,
)
def test_equal_values_one_after_the_other_are_an_event(values: Any) -> None:
    tuples = {"source": ["x"] * 7, "target": list("abcdefg"), "label": ["a"] * 7, "timestamp": [3, 5, 6, 7, 7, 6, 9]}
    engine = rpq.Engine(rpq.Query("a", window=W), events="window")
    rows = engine.push(tuples, event=values).rows()
    assert [(row.target, row.timestamp) for row in rows] == list(zip("abcdefg", [5, 5, 6, 7, 7, 9, 9], strict=True))
    again = rpq.Engine(rpq.Query("a", window=W), events="window").push({**tuples, "event": values}).rows()
    assert again == rows


@pytest.mark.parametrize("text", ["a", "?x a ?y", "SELECT ?x ?y { ?x <a> ?y }"])
def test_an_event_whose_delete_is_behind_an_insert_reports_what_it_removes(text: str) -> None:
    engine = rpq.Engine(rpq.Query(text, window=W), events="window")
    engine.push_rows([("x", "y", "a", 1)])
    tuples = {"source": ["u", "x"], "target": ["v", "y"], "label": ["a", "a"], "timestamp": [2, 2], "op": ["+", "-"]}
    rows = engine.push(tuples, event=True).rows()
    assert {(*row[1:3], row.op) for row in rows} == {("u", "v", "+"), ("x", "y", "-")}


def test_what_leaves_and_comes_back_in_an_event_was_never_gone() -> None:
    engine = rpq.Engine(rpq.Query("?x a ?y . ?y b ?z", window=W, name="p"), rpq.Query("a/b", window=W), events="window")
    engine.push_rows([("x", "y", "a", 1), ("y", "z", "b", 1)])
    renewed = {"source": ["x", "x"], "target": ["y", "y"], "label": ["a", "a"], "timestamp": [2, 2], "op": ["-", "+"]}
    assert engine.push(renewed, event=True).rows() == []
    assert [row.op for row in engine.push(renewed).rows()] == ["-", "-", "+", "+"]
    passing = {**renewed, "op": ["+", "-"], "target": ["w", "w"]}
    assert engine.push(passing, event="g").rows() == []
    assert engine.statistics().rows_added == 4 and engine.statistics().rows_removed == 2


def test_engines_that_know_no_events_do_not_look_at_the_column() -> None:
    tuples = {"source": ["x", "x"], "target": ["y", "y"], "label": ["a", "a"], "timestamp": [2, 2], "op": ["+", "-"]}
    engine = rpq.Engine(rpq.Query("a", window=W))
    assert len(engine.push({**tuples, "event": ["g", "g"]})) == 2
    with pytest.raises(rpq.InputError, match="an engine with events: rpq.Engine"):
        engine.push(tuples, event=["g", "g"])
    with pytest.raises(rpq.InputError, match="have a column 'event', and event makes them one"):
        rpq.Engine(rpq.Query("a", window=W), events="window").push({**tuples, "event": ["g", "g"]}, event=True)


def test_of_an_event_all_comes_or_nothing() -> None:
    engine = rpq.Engine(rpq.Query("a", window=W), events="window")
    tuples = {"source": ["x", "y", "z"], "target": ["x", "y", None], "label": ["a"] * 3, "timestamp": [1, 2, 3]}
    with pytest.raises(rpq.InputError, match="row 2: column 'target'") as caught:
        engine.push({**tuples, "event": ["g", "h", "h"]})
    assert [row.source for row in caught.value.changes.rows()] == ["x"]
    assert engine.time == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"events": "together"}, "events are 'window' or 'alone'"),
        ({"events": "window", "witness": True}, "have no witnesses"),
    ],
)
def test_what_is_no_way_to_have_events_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(rpq.QueryError, match=message):
        rpq.Engine(rpq.Query("a", window=W), **options)


def test_a_path_over_a_count_window_is_explicit() -> None:
    counts = rpq.CountWindow(size=3)
    with pytest.raises(rpq.QueryError, match='give semantics="explicit"'):
        rpq.Engine(rpq.Query("a", window=counts), events="window")
    rpq.Engine(rpq.Query("a", window=counts, semantics="explicit"), events="window")


# --- against the oracle -----------------------------------------------------------------------------------------------


def in_events(tuples: list[Any], lengths: list[int]) -> list[list[Any]]:
    """Tuples as events of these lengths, again and again, each of one time."""
    found, begin, place = [], 0, 0
    while begin < len(tuples):
        some = tuples[begin : begin + lengths[place % len(lengths)]]
        time = max(one[3] for one in some)
        found.append([(*one[:3], time, *one[4:]) for one in some])
        begin, place = begin + len(some), place + 1
    return found


def columns_of(events: list[list[Any]], *, streams: bool) -> dict[str, list[Any]]:
    names = ["source", "target", "label", "timestamp", "op", "stream"][: 6 if streams else 5]
    tuples = [one[: len(names)] for some in events for one in some]
    columns = dict(zip(names, map(list, zip(*tuples, strict=True)), strict=True))
    return {**columns, "event": [number for number, some in enumerate(events) for _ in some]}


class EventOracle:
    """The oracle of patterns, whose answers before and after an event make its rows."""

    def __init__(self, questions: list[PatternQuestion]) -> None:
        self.questions = {question.name: question for question in questions}
        self.reference = PatternReference(*questions)

    def push(self, some: list[Any]) -> list[list[Row]]:
        time = some[0][3]
        if self.reference.time is None:
            self.reference.advance(time)
        boundaries = self.reference.advance(time)
        groups = [[row for row in boundaries if row.timestamp == at] for at in sorted({row.timestamp for row in boundaries})]
        before = {name: self.reference.answer(name) for name in self.questions}
        for one in some:
            self.reference.push(*one[:4], *one[4:])
        rows: list[Row] = []
        for name, question in self.questions.items():
            after = self.reference.answer(name)
            silent = question.is_implicit and all(one[4] == "+" for one in some)
            gone = Counter() if silent else before[name] - after
            moment = self.reference.time
            rows += [Row(name, values, moment, "-") for values in gone.elements()]
            rows += [Row(name, values, moment, "+") for values in (after - before[name]).elements()]
        return [*groups, rows]


def check_rows(found: list[Row], groups: list[list[Row]]) -> None:
    begin = 0
    for group in groups:
        part = found[begin : begin + len(group)]
        assert Counter(part) == Counter(group), (part, group)
        for name in {row.query for row in part}:
            ops = [row.op for row in part if row.query == name]
            assert ops == sorted(ops, reverse=True), f"what leaves {name} comes first"
        begin += len(group)
    assert begin == len(found), f"more rows than there should be: {found[begin:]}"


@st.composite
def over_windows(draw: st.DrawFn, name: str) -> PatternQuestion:
    """A pattern over one window of any kind, in the notation of patterns; or a path."""
    question = draw(patterns(name, paths=False))
    if draw(st.booleans()):
        return draw(patterns(name))
    window = draw(pattern_strategies.any_window().filter(lambda window: window.stream is None))
    return PatternQuestion(name=name, pattern=question.pattern, window=window, semantics=question.semantics)


lengths = st.lists(st.integers(1, 5), min_size=1, max_size=4)


@examples(120)
@given(over_windows("one"), patterns("two"), windowed("three"), pattern_strategies.streams(12, 40), lengths, st.data())
def test_rows_are_net_of_events(one, two, three, tuples, sizes, data):
    events = in_events(tuples, sizes)
    oracle = EventOracle([one, two, three])
    engine = tiny(2)(query_of(one), query_of(two), windowed_pattern(three), events="window")
    begin = 0
    while begin < len(events):
        some = events[begin : begin + data.draw(st.integers(1, 4))]
        begin += len(some)
        groups = [group for one_event in some for group in oracle.push(one_event)]
        check_rows(rows_of(engine.push(columns_of(some, streams=True))), groups)
        for name in oracle.questions:
            assert Counter(engine.answers(name)) == oracle.reference.answer(name)
        if data.draw(st.integers(0, 5)) == 0:
            with tempfile.TemporaryDirectory() as folder:
                engine.save(Path(folder) / "state")
                engine = type(engine).restore(Path(folder) / "state")
        engine._check()
    figures = engine.statistics()
    event(f"rows: {min(figures.rows_added, 20)}")


# --- each by itself ---------------------------------------------------------------------------------------------------


def by_itself(question: PatternQuestion) -> PatternQuestion:
    """The same pattern over everything of the event."""
    windows = {name: Window(kind="unbounded", stream=window.stream) for name, window in question.windows.items()}
    default = Window(kind="unbounded", stream=question.window.stream if question.window else None)
    return PatternQuestion(
        name=question.name,
        pattern=question.pattern,
        window=default,
        windows=windows,
        semantics=question.semantics,
    )


@pytest.mark.ci
@examples(120)
@given(patterns("one"), windowed("two"), pattern_strategies.streams(12, 40), lengths, st.data())
def test_each_event_by_itself(one, two, tuples, sizes, data):
    one, two = by_itself(one), by_itself(two)
    events = in_events(tuples, sizes)
    path = rpq.Query("(a|b)+", window=rpq.UnboundedWindow(), name="path", semantics=one.semantics)
    questions = [one, two]
    engine = tiny(2)(path, query_of(one), windowed_pattern(two), events="alone")
    time, begin = None, 0
    while begin < len(events):
        some = events[begin : begin + data.draw(st.integers(1, 4))]
        begin += len(some)
        groups = []
        for event_ in some:
            time = event_[0][3] if time is None else max(time, event_[0][3])
            fresh = PatternReference(*questions)
            for tuple_ in event_:
                fresh.push(*tuple_)
            groups.append([Row(q.name, values, time, "+") for q in questions for values in fresh.answer(q.name).elements()])
        rows = rows_of(engine.push(columns_of(some, streams=True)))
        check_rows([row for row in rows if row.query != "path"], groups)
        assert engine.time == time
        assert all(row.op == "+" for row in rows)
        assert all(not engine.answers(name) for name in engine._original_queries)
        assert engine.statistics().edges_live == 0
        if data.draw(st.integers(0, 5)) == 0:
            with tempfile.TemporaryDirectory() as folder:
                engine.save(Path(folder) / "state")
                engine = type(engine).restore(Path(folder) / "state")
        engine._check()


def test_nothing_is_kept_between_events() -> None:
    engine = rpq.Engine(
        rpq.Query("?x a ?y . ?y b ?z", window=rpq.UnboundedWindow(), name="p"),
        rpq.Query("a/b", window=rpq.UnboundedWindow(), semantics="explicit"),
        events="alone",
    )
    taxi = {"source": ["x", "y"], "target": ["y", "z"], "label": ["a", "b"], "timestamp": [5, 7]}
    rows = engine.push({**taxi, "event": ["g", "g"]}).rows()
    assert {tuple(row) for row in rows} == {("p", "x", "y", "z", 7, "+"), ("a/b", "x", "z", 7, "+")}
    assert engine.push({**taxi, "event": ["g", "h"]}).rows() == []
    assert engine.push(taxi).rows() == []  # without a column each tuple is one
    assert len(engine.push(taxi, event=True)) == 2
    assert engine.insert("y", "z", "b", 3).rows() == [] and engine.time == 7
    assert engine.advance(9).rows() == [] and engine.time == 9
    assert [row.timestamp for row in engine.push(taxi, event=True).rows()] == [9, 9]
    figures = engine.statistics()
    assert (figures.rows_added, figures.rows_removed, figures.late, figures.edges_live) == (6, 0, 0, 0)
    late = engine.register(rpq.Query("a", window=rpq.UnboundedWindow(), name="late"))
    assert late.rows() == [] and len(engine.push(taxi, event=True)) == 3


def test_times_are_told_as_they_came() -> None:
    engine = rpq.Engine(rpq.Query("a/b", window=rpq.UnboundedWindow()), events="alone")
    times = pd.to_datetime(["2026-01-01T00:00:00Z", "2026-01-01T00:00:05Z"])
    table = {"source": ["x", "y"], "target": ["y", "z"], "label": ["a", "b"], "timestamp": times}
    (row,) = engine.push(table, event=True).rows()
    assert row.timestamp == times[1] == engine.time
    with tempfile.TemporaryDirectory() as folder:
        engine.save(Path(folder) / "state")
        engine = rpq.Engine.restore(Path(folder) / "state")
    assert engine.time == times[1] and engine.queries[0].window == rpq.UnboundedWindow()
    (row,) = engine.push(table, event=True).rows()
    assert row.timestamp == times[1]


def test_what_each_event_brings_beside_static_edges() -> None:
    engine = rpq.Engine(rpq.Query("?x a ?y . ?y role ?z", window=rpq.UnboundedWindow()), events="alone")
    engine.load_static([("y", "admin", "role")])
    tuples = {"source": ["x", "x"], "target": ["y", "w"], "label": ["a", "a"], "timestamp": [1, 1]}
    for _ in range(2):
        assert [tuple(row)[1:-2] for row in engine.push(tuples, event=True).rows()] == [("x", "y", "admin")]


@pytest.mark.parametrize("window", [W, rpq.CountWindow(size=3)], ids=str)
def test_windows_across_events_are_refused_there(window: Any) -> None:
    with pytest.raises(rpq.QueryError, match="so its window is rpq.UnboundedWindow"):
        rpq.Engine(rpq.Query("a", window=window), events="alone")


@examples(40)
@given(patterns("q"), pattern_strategies.streams(12, 40), lengths, st.integers(1, 7), st.sampled_from(["window", "alone"]))
def test_batches_do_not_divide_events(question, tuples, sizes, size, mode):
    query = query_of(by_itself(question) if mode == "alone" else question)
    table = pa.table(columns_of(in_events(tuples, sizes), streams=False))
    wanted = tiny(2)(query, events=mode).push(table).rows()
    batches = table.to_batches(max_chunksize=size)
    found = [row for changes in tiny(2)(query, events=mode).run(batches) for row in changes.rows()]
    assert Counter(found) == Counter(wanted)
    assert [row.timestamp for row in found] == [row.timestamp for row in wanted]


@pytest.mark.parametrize("mode", ["window", "alone"])
def test_the_guard_on_rows_counts_what_an_event_brings(mode: str) -> None:
    """Rows that come to nothing within the event count for nothing; of an event that brings too many nothing is told."""
    window = rpq.UnboundedWindow()
    queries = rpq.Query("?x a ?y", window=window, name="p"), rpq.Query("a", window=window, name="path")
    tuples = {"source": list("uvwx"), "target": list("uvwx"), "label": ["a"] * 4, "timestamp": [1, 2, 3, 4]}
    engine = rpq.Engine(*queries, events=mode, max_rows=2)
    passing = {name: [values[0]] * 6 for name, values in tuples.items()} | {"op": list("+-+-+-")}
    assert engine.push(passing, event=True).rows() == []
    with pytest.raises(rpq.RowLimitError, match="3 rows") as caught:
        engine.push(tuples, event=["g", "h", "h", "h"])
    assert {(row.query, row.timestamp) for row in caught.value.changes.rows()} == {("p", 1), ("path", 1)}
