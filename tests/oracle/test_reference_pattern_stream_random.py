"""The oracle's streams against second opinions: windows read off the whole list of tuples, and the oracle of paths."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference import COUNTS, Edge, ReferenceEngine, ReferenceQuery
from tests.reference import RegistrationRefused as PathRefused
from tests.reference_pattern_stream import PatternQuestion, PatternReference, RegistrationRefused, Row, Window
from tests.reference_patterns import Atom, Ends, Labels, Pattern, Variable
from tests.strategies.pattern_strategies import EDGE_EXPRESSIONS, PATH_EXPRESSIONS, Tuple, alike, edges, questions, streams
from tests.twins import examples

STATIC = st.lists(edges, max_size=2)


def times_of(tuples: Sequence[Tuple]) -> list[int]:
    """τ after each tuple."""
    return [max(timestamp for _, _, _, timestamp, _, _ in tuples[: place + 1]) for place in range(len(tuples))]


def content(window: Window, labels: Labels, tuples: Sequence[Tuple], time: int) -> set[Edge]:
    """Return the content of a window at `time` after these tuples, by looking at all of them.

    An edge is there if, since its last delete, an insert came that was not late then and is not too old now, in time or in
    number.
    """
    met = [
        ((source, label, target), timestamp, op, moment)
        for (source, target, label, timestamp, op, stream), moment in zip(tuples, times_of(tuples), strict=True)
        if label in labels and window.stream in (None, stream)
    ]
    inserts = [place for place, (_, _, op, _) in enumerate(met) if op == "+"]
    deleted = {edge: place for place, (edge, _, op, _) in enumerate(met) if op == "-"}
    present = set()
    for number, place in enumerate(inserts, start=1):
        edge, timestamp, _, moment = met[place]
        if place < deleted.get(edge, -1):
            continue
        if window.kind == "time" and timestamp <= max(window.lower_bound(moment), window.lower_bound(time)):
            continue
        if window.kind == "count" and number <= window.lower_bound(len(inserts)):
            continue
        present.add(edge)
    return present


def graphs_of(
    question: PatternQuestion, static: Sequence[Edge], tuples: Sequence[Tuple], time: int
) -> dict[str | None, set[Edge]]:
    graphs = {
        name: content(window, question.pattern.labels_read(name), tuples, time)
        for name, window in question.all_windows.items()
    }
    return {**graphs, None: graphs.get(None, set()) | set(static)}


def of_use(
    question: PatternQuestion, static: Iterable[Edge], graphs: Mapping[str | None, Iterable[Edge]]
) -> dict[str | None, set[Edge]]:
    """The graphs without the edges that are passed by if no other query accepts them; static ones are in the default one."""
    always = set(static)
    return {
        name: {
            (source, label, target)
            for source, label, target in graph
            if (name is None and (source, label, target) in always)
            or any(ends.includes(Ends(source, target)) for ends in question.accepts(label))
        }
        for name, graph in graphs.items()
    }


def added_up(rows: Sequence[Row]) -> Counter:
    """The bag that rows lead to; asserts that nothing is taken away that is not there."""
    bag: Counter = Counter()
    for row in rows:
        bag[row.values] += 1 if row.op == "+" else -1
        assert bag[row.values] >= 0
    return +bag


def assert_well_formed(rows: Sequence[Row]) -> None:
    """Assert that the rows of one event are net, and "-" before "+"."""
    assert [row.op for row in rows] == sorted((row.op for row in rows), key="-+".index)
    ops = {op: {row.values for row in rows if row.op == op} for op in "+-"}
    assert not ops["+"] & ops["-"]


@given(question=questions() | questions(most=2), static=STATIC, tuples=streams())
@examples(120)
def test_the_answer_is_that_of_the_windows_and_the_sum_of_the_rows(question, static, tuples):
    engine = PatternReference(question, static=static)
    rows: list[Row] = []
    for place, (one, time) in enumerate(zip(tuples, times_of(tuples), strict=True)):
        rows += engine.advance(one[3])
        event = engine.push(*one)
        assert_well_formed(event)
        rows += event
        graphs = graphs_of(question, static, tuples[: place + 1], time)
        assert {name: set(graph) for name, graph in engine.graphs().items()} == of_use(question, static, graphs)
        assert engine.answer() == question.pattern.solutions(graphs) == added_up(rows)
        assert event == [] or {row.timestamp for row in event} == {time}
    assert [row.timestamp for row in rows] == sorted(row.timestamp for row in rows)
    for later in range(engine.time, engine.time + 20):
        rows += engine.advance(later)
        graphs = graphs_of(question, static, tuples, later)
        assert engine.answer() == question.pattern.solutions(graphs) == added_up(rows)
    counts = engine.counts()
    assert counts["tuples"] == len(tuples) == sum(counts[name] for name in COUNTS[1:8])


@pytest.mark.ci
@given(question=questions(most=2), static=STATIC, tuples=streams(shortest=12))
@examples(150)
def test_implicit_rows_are_the_explicit_ones_without_what_expires_or_is_evicted(question, static, tuples):
    explicit = PatternReference(question, static=static)
    implicit = PatternReference(replace(question, semantics="implicit"), static=static)
    for one in tuples:
        assert implicit.advance(one[3]) == [row for row in explicit.advance(one[3]) if row.op == "+"]
        assert implicit.push(*one) == [row for row in explicit.push(*one) if row.op == "+" or one[4] == "-"]
    assert implicit.answer() == explicit.answer()


@pytest.mark.parametrize("report", ["slide", "time"])
@given(data=st.data(), static=STATIC, tuples=streams(longest=15))
@examples(50)
def test_a_report_adds_up_to_the_window_at_its_time(report, data, static, tuples):
    question = data.draw(questions(report=report))
    engine = PatternReference(question, static=static)
    step = question.window.slide if report == "slide" else 1
    rows: list[Row] = []
    passed: list[tuple[int, list[Tuple]]] = []  # the moments that τ has exceeded, with the tuples up to then
    for place, one in enumerate(tuples):
        if engine.time is not None:
            passed += [(m, tuples[:place]) for m in range(engine.time, max(engine.time, one[3])) if m % step == 0]
        rows += engine.push(*one)
    passed += [(m, tuples) for m in range(engine.time, engine.time + 20) if m % step == 0]
    rows += engine.advance(engine.time + 20)
    assert {row.timestamp for row in rows} <= {moment for moment, _ in passed}
    for moment, before in passed:
        assert_well_formed([row for row in rows if row.timestamp == moment])
        answer = added_up([row for row in rows if row.timestamp <= moment])
        assert answer == question.pattern.solutions(graphs_of(question, static, before, moment))


@given(
    expression=st.sampled_from(EDGE_EXPRESSIONS + PATH_EXPRESSIONS),
    other=st.sampled_from(EDGE_EXPRESSIONS + PATH_EXPRESSIONS),
    windows=st.tuples(st.integers(1, 12), st.integers(1, 5), st.integers(1, 12), st.integers(1, 5)),
    paths=st.sampled_from(["walk", "simple"]),
    semantics=st.sampled_from(["implicit", "explicit"]),
    tuples=streams(),
    registered_at=st.integers(0, 20),
    left_at=st.integers(0, 20),
    start=st.sampled_from(["window", "empty"]),
)
@examples(120)
def test_a_path_query_is_the_pattern_with_one_atom(
    expression, other, windows, paths, semantics, tuples, registered_at, left_at, start
):
    def both(name: str, text: str, size: int, slide: int) -> tuple[ReferenceQuery, PatternQuestion]:
        query = ReferenceQuery(name=name, expression=text, size=size, slide=slide, semantics=semantics, paths=paths)
        pattern = Pattern(atoms=(Atom(Variable("source"), text, Variable("target")),), paths=paths)
        window = Window(size=size, slide=slide)
        return query, PatternQuestion(name=name, pattern=pattern, window=window, semantics=semantics)

    def same(path_rows, pattern_rows) -> bool:
        rows = Counter((row.query, (row.source, row.target), row.timestamp, row.op) for row in path_rows)
        return rows == Counter(map(tuple, pattern_rows))

    first, second = both("p", expression, *windows[:2]), both("q", other, *windows[2:])
    paths_engine, patterns_engine = ReferenceEngine(first[0]), PatternReference(first[1])
    refused = False
    for place, (*one, _) in enumerate(tuples):
        if place == left_at:
            paths_engine.unregister("p")
            patterns_engine.unregister("p")
        if place == registered_at:
            outcomes = []
            for engine, question in ((paths_engine, second[0]), (patterns_engine, second[1])):
                try:
                    outcomes.append(engine.register(question, start))
                except (PathRefused, RegistrationRefused) as refusal:
                    outcomes.append(refusal.available_from)
            refused = isinstance(outcomes[0], int)
            assert outcomes[0] == outcomes[1] if refused else same(*outcomes)
        assert same(paths_engine.push(*one), patterns_engine.push(*one))
        assert paths_engine.counts() == patterns_engine.counts()
        if place >= registered_at and not refused:
            assert paths_engine.counts("q") == patterns_engine.counts("q")
    assert paths_engine.time == patterns_engine.time


@pytest.mark.ci
@given(
    data=st.data(),
    new=questions(most=2),
    static=STATIC,
    tuples=streams(shortest=12, longest=30),
    asked_from=st.integers(0, 15),
    left_at=st.integers(0, 30),
)
@examples(200)
def test_what_was_not_kept_is_never_missed(data, new, static, tuples, asked_from, left_at):
    """A query registered in mid-stream has the answers that it would have had from the start."""
    old = data.draw(alike(new, "old") | alike(new, "old") | questions(name="old"))
    engine, whole = PatternReference(old, static=static), PatternReference(new, static=static)
    registered = False
    for place, one in enumerate(tuples):
        rows = engine.push(*one)
        whole_rows = whole.push(*one)
        if registered:
            assert [row for row in rows if row.query == "q"] == whole_rows
        elif place >= asked_from:
            try:
                assert added_up(engine.register(new)) == whole.answer()
                registered = True
            except RegistrationRefused as refusal:
                assert refusal.available_from is None or refusal.available_from > engine.time
        if place == left_at:
            engine.unregister("old")
        if registered:
            assert of_use(new, static, engine.graphs("q")) == of_use(new, static, whole.graphs("q"))
            assert engine.answer("q") == whole.answer()


@given(question=questions(), static=STATIC, tuples=streams(), begun=st.integers(0, 10))
@examples(60)
def test_a_query_that_starts_empty_is_one_of_a_new_engine(question, static, tuples, begun):
    keeper = Pattern(atoms=(Atom(Variable("x"), "!()", Variable("y")),))
    engine = PatternReference(PatternQuestion(name="keeper", pattern=keeper, window=Window(kind="unbounded")), static=static)
    for one in tuples[:begun]:
        engine.push(*one)
    fresh = PatternReference(question, static=static)
    fresh.register(PatternQuestion(name="keeper", pattern=keeper, window=Window(kind="unbounded")))
    registered = engine.register(question, start="empty")
    begin = [] if engine.time is None else fresh.advance(engine.time)
    assert registered == [row for row in begin if row.query == "q"]
    for one in tuples[begun:]:
        rows, fresh_rows = ([row for row in each.push(*one) if row.query == "q"] for each in (engine, fresh))
        assert rows == fresh_rows
        assert engine.counts("q") == fresh.counts("q")
