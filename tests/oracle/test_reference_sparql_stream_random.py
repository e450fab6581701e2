"""The oracle of SPARQL over random streams: after every tuple its answer is that of pyoxigraph on the snapshot.

The rows, too: what has been told so far, summed, is the answer.
"""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from tests.language.sparql_libraries import alike, by_pyoxigraph
from tests.reference_pattern_stream import Row
from tests.reference_sparql_stream import SparqlReference, question
from tests.reference_sparql_syntax import write
from tests.reference_sparql_values import STANDARD
from tests.strategies.pattern_strategies import any_window
from tests.strategies.sparql_strategies import edges, queries
from tests.twins import examples

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # within rdflib


@st.composite
def streams(draw: st.DrawFn) -> list[tuple]:
    """Tuples in order and late, with deletes, some of a stream with a name; few edges, so that they come again."""
    known = draw(st.lists(edges, min_size=3, max_size=9, unique=True))
    steps = st.tuples(
        st.sampled_from([0, 0, 1, 1, 2, 7]),
        st.sampled_from([0, 0, 0, 2, 9]),
        st.sampled_from(known),
        st.sampled_from("+++-"),
        st.sampled_from([None, "s"]),
    )
    time, tuples = 0, []
    for ahead, behind, (source, label, target), op, stream in draw(st.lists(steps, min_size=5, max_size=15)):
        time += ahead
        tuples.append((source, target, label, time - behind, op, stream))
    return tuples


@st.composite
def questions(draw: st.DrawFn):
    windows = {"urn:w": draw(any_window()), "urn:v": draw(any_window())}
    default = draw(st.none() | any_window())
    return question(draw(queries(windows)), default, semantics=None, rules=STANDARD)


def summed(rows: list[Row]) -> Counter:
    total: Counter = Counter()
    for row in rows:
        total[row.values] += 1 if row.op == "+" else -1
    assert all(number >= 0 for number in total.values()), "a row left that had not come"
    return +total


def run(question, tuples, static, library) -> None:
    engine = SparqlReference(question, static=static)
    rows: list[Row] = []
    for one in tuples:
        rows += engine.push(*one)
        expected = alike(library(question.query, engine.graphs()))
        assert alike(engine.answer()) == expected
        if not question.is_implicit:
            assert alike(summed(rows)) == expected
    assert [row.timestamp for row in rows] == sorted(row.timestamp for row in rows)


@examples(40)
@given(questions(), streams(), st.lists(edges, max_size=3))
def test_the_answer_is_that_of_pyoxigraph_after_every_tuple(question, tuples, static):
    note(write(question.query))
    run(question, tuples, static, by_pyoxigraph)
