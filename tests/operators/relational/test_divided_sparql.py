"""Queries in SPARQL that the threads of one engine divide: rows, answers and counts are those of the oracle."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import rpq
from rpq.operators.relational.running_query import division_of
from tests.operators.relational.sparql_twins import Twins, questions, streams, warnings_of_rdflib
from tests.reference_sparql_syntax import write
from tests.strategies.sparql_strategies import edges
from tests.twins import examples, tiny

pytestmark = [warnings_of_rdflib, pytest.mark.filterwarnings("ignore::rpq.errors.ThreadsWarning")]

WINDOW = rpq.Window(size=20, slide=3)
DIVIDED = {
    "SELECT ?x (AVG(?y) AS ?m) (COUNT(*) AS ?c) { ?x <a> ?y } GROUP BY ?x": "?x",
    "SELECT ?x ?y ?z { ?x <a> ?y . ?x <b> ?z }": "?x",
    "SELECT ?x ?y { ?x <a> ?y FILTER NOT EXISTS { ?x <b> ?z } }": "?x",
    "SELECT ?x ?y ?z { ?x <a> ?y OPTIONAL { ?x <b> ?z } }": "?x",
    "SELECT DISTINCT ?x ?y { ?x <a> ?y . ?x <b> ?z }": "?x",
    "SELECT ?x (SUM(?y) AS ?s) { ?x <a> ?y . ?x <b> ?z FILTER(?y > 2) } GROUP BY ?x HAVING(SUM(?y) > 5)": "?x",
    "SELECT ?x (MIN(?y) AS ?m) { ?x <a> ?y } GROUP BY ?x": "?x",
    "SELECT ?x ?y {{ ?x <a> ?y } UNION { ?x <b> ?y } MINUS { ?x <c> ?z }}": "?x",
}
UNDIVIDED = (
    "SELECT (COUNT(*) AS ?n) { ?x <a> ?y }",
    "SELECT (AVG(?y) AS ?m) { ?x <a> ?y } GROUP BY ?x",
    "SELECT ?x ?y { ?x <a>+ ?y }",
    "ASK { ?x <a> ?y }",
)


@examples(60)
@given(questions(), streams(), st.integers(2, 9), st.lists(edges, max_size=3, unique=True), st.integers(2, 3))
def test_every_row_is_that_of_the_oracle(question, tuples, size, static, threads):
    note(f"{write(question.query)} over {question.window}")
    twins = Twins(question, static=static, threads=threads)
    for begin in range(0, len(tuples), size):
        twins.push(tuples[begin : begin + size])
    twins.compare_counts()


@examples(30)
@given(questions(), streams(), st.integers(0, 15), st.integers(1, 3), st.integers(1, 3))
def test_restoring_with_another_number_of_threads(question, tuples, place, before, after):
    note(f"{write(question.query)} over {question.window}")
    twins = Twins(question, threads=before)
    for number, one in enumerate(tuples):
        if number == place:
            twins.restore(threads=after)
        twins.push([one])
    twins.compare_counts()


@pytest.mark.parametrize("window", [WINDOW, rpq.CountWindow(size=30, step=4)])
@pytest.mark.parametrize("text", DIVIDED)
def test_divided_queries_have_the_rows_of_one_thread(text, window):
    query = rpq.Query(text, window=window, name="q")
    engines = [tiny(4)(query, threads=threads) for threads in (1, 2, 3)]
    ends = [f"v{i * i % 7}" if i % 3 else str(i % 9) for i in range(500)]
    tuples = [(end, str(i * 3 % 8), "abc"[i % 3], i // 4, "+-"[i % 13 == 12]) for i, end in enumerate(ends)]
    for begin in range(0, len(tuples), 120):
        one, *others = [engine.push_rows(tuples[begin : begin + 120]).rows() for engine in engines]
        assert all(Counter(rows) == Counter(one) for rows in others)
        assert all([row.timestamp for row in rows] == sorted(row.timestamp for row in rows) for rows in others)
    for engine in engines[1:]:
        engine._check()
        assert Counter(engine.answers()) == Counter(engines[0].answers())


def test_what_divides_a_query():
    assert {text: division_of(rpq.Query(text, window=WINDOW)) for text in DIVIDED} == DIVIDED
    assert [division_of(rpq.Query(text, window=WINDOW)) for text in UNDIVIDED] == [None] * len(UNDIVIDED)
