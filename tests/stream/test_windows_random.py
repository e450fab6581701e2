"""Windows of time, of count and without bounds, with static edges, against the oracle: patterns and path queries."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.operators.patterns.pattern_twins import PatternTwins, query_of, questions, streams
from tests.reference_pattern_stream import PatternQuestion, Window
from tests.reference_patterns import Atom, Pattern, Variable
from tests.strategies import pattern_strategies
from tests.strategies.pattern_strategies import LABELS, VERTICES
from tests.twins import examples, tiny

KINDS = ("time", "count", "unbounded")

edges = st.tuples(st.sampled_from(VERTICES), st.sampled_from(LABELS), st.sampled_from(VERTICES))
statics = st.just([]) | st.lists(edges, max_size=6, unique=True)


@st.composite
def windows(draw: st.DrawFn, kind: str) -> Window:
    if kind == "unbounded":
        return Window(kind="unbounded")
    size = st.integers(1, 12) if kind == "time" else st.integers(1, 5) | st.integers(5, 15)
    return Window(kind=kind, size=draw(size), slide=draw(st.integers(1, 4)))


@st.composite
def patterns(draw: st.DrawFn, kind: str, name: str = "q") -> PatternQuestion:
    """Patterns, some with path atoms."""
    return replace(draw(questions(name, most=3)), window=draw(windows(kind)))


@st.composite
def paths(draw: st.DrawFn, kind: str, name: str = "q") -> PatternQuestion:
    """Path queries, as patterns of one atom."""
    expressions = pattern_strategies.EDGE_EXPRESSIONS + pattern_strategies.PATH_EXPRESSIONS
    atom = Atom(Variable("source"), draw(st.sampled_from(expressions)), Variable("target"))
    return PatternQuestion(
        name=name,
        pattern=Pattern(atoms=(atom,), paths=draw(st.sampled_from(["walk", "simple", "simple_cycle"]))),
        window=draw(windows(kind)),
        semantics=draw(st.sampled_from(["implicit", "explicit"])),
    )


def any_question(name: str) -> st.SearchStrategy[PatternQuestion]:
    return st.one_of([make(kind, name) for make in (patterns, paths) for kind in KINDS])


@examples(250)
@given(any_question("q"), streams, statics, st.integers(1, 6), st.integers(1, 20), st.sampled_from((2, 16)))
def test_rows_answers_and_counts(question, tuples, static, size, ahead, capacity):
    twins = PatternTwins(question, capacity=capacity, static=static)
    for begin in range(0, len(tuples), size):
        twins.push(tuples[begin : begin + size])
    twins.advance(twins.engine.time + ahead)
    twins.collect()


@pytest.mark.ci
@examples(200)
@given(st.data(), any_question("one"), any_question("two"), streams, statics)
def test_everything_that_can_happen(data, one, two, tuples, static):
    """Queries come and go, the engine is saved and restored, time moves; in any order."""
    questions = (one, two) if data.draw(st.booleans()) else (one,)
    twins = PatternTwins(*questions, static=static, threads=data.draw(st.sampled_from((1, 1, 2))))
    twins.live_through(data.draw, [one, two], tuples)


@examples(60)
@given(any_question("q"), streams, statics, st.integers(2, 3))
def test_shares_divide_the_rows(question, tuples, static, shares):
    query = query_of(question)
    rows_of_all: list = []
    whole = tiny(2)(query)
    parts = [tiny(2)(query, share=(number, shares)) for number in range(shares)]
    for engine in (whole, *parts):
        engine.load_static([(source, target, label) for source, label, target in static])
    rows = whole.push_rows(tuples).rows()
    for part in parts:
        rows_of_all += part.push_rows(tuples).rows()
    assert Counter(rows) == Counter(rows_of_all)
    assert Counter(whole.answers()) == Counter(row for part in parts for row in part.answers())
