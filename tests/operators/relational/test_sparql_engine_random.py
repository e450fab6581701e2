"""The engine on random queries in SPARQL over random streams, against the oracle: every row, every answer, every count."""

from __future__ import annotations

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from tests.operators.relational.sparql_twins import (
    Twins,
    graph_questions,
    questions,
    streams,
    timed_questions,
    warnings_of_rdflib,
)
from tests.reference_pattern_stream import Window
from tests.reference_sparql_stream import question as asked
from tests.reference_sparql_syntax import write
from tests.strategies.sparql_strategies import edges
from tests.strategies.sparql_streams import compare, drawn, sizes, static_edges
from tests.twins import collect, examples

pytestmark = warnings_of_rdflib


@examples(120)
@given(questions(), streams(), st.sampled_from([1, 1, 2, 7]), st.integers(0, 30), st.lists(edges, max_size=3, unique=True))
def test_every_row_is_that_of_the_oracle(question, tuples, size, saved, static):
    note(f"{write(question.query)} over {question.window}")
    twins = Twins(question, static=static)
    for begin in range(0, len(tuples), size):
        if begin <= saved < begin + size:
            twins.restore()
        twins.push(tuples[begin : begin + size])
        collect(twins.engine)
    twins.compare_counts()


@examples(40)
@given(st.data(), st.sampled_from(["slide", "time"]), streams(), st.integers(1, 9), st.integers(0, 15), st.booleans())
def test_reports_are_those_of_the_oracle(data, report, tuples, size, saved, report_empty):
    question = data.draw(questions(report=report))
    note(f"{write(question.query)} over {question.window}, {report}")
    twins = Twins(question, report_empty=report_empty)
    for begin in range(0, len(tuples), size):
        twins.push(tuples[begin : begin + size])
        if begin <= saved < begin + size:
            twins.restore()
    twins.advance(tuples[-1][3] + 30)
    twins.compare_counts()


@examples(15)
@given(drawn, static_edges, sizes)
def test_answers_are_those_of_pyoxigraph(drawn_one, static, by):
    """`python -m tests.strategies.sparql_streams` compares thousands."""
    compare(*drawn_one, static, by)


named_graphs = st.dictionaries(st.sampled_from(["urn:x", "urn:y", "urn:g"]), st.lists(edges, max_size=5, unique=True))


@examples(40)
@given(graph_questions(), streams(), st.integers(1, 9), st.integers(0, 15), st.lists(edges, max_size=2), named_graphs)
def test_named_graphs_are_read_as_by_the_oracle(question, tuples, size, saved, static, graphs):
    note(f"{write(question.query)} over {question.window}")
    twins = Twins(question, static=static, graphs=graphs)
    for begin in range(0, len(tuples), size):
        twins.push(tuples[begin : begin + size])
        if begin <= saved < begin + size:
            twins.restore()
    twins.compare_counts()


@examples(40)
@given(timed_questions(), streams(), st.integers(1, 9), st.integers(0, 15), st.lists(edges, max_size=2, unique=True))
def test_the_time_of_a_report_is_that_of_the_oracle(question, tuples, size, saved, static):
    note(f"{write(question.query)} over {question.window}")
    twins = Twins(question, static=static)
    for begin in range(0, len(tuples), size):
        twins.push(tuples[begin : begin + size])
        if begin <= saved < begin + size:
            twins.restore()
    twins.flush()
    twins.advance(tuples[-1][3] + 30)
    twins.compare_counts()


@examples(30)
@given(st.data(), st.sampled_from(["slide", "time"]), streams(), st.integers(1, 9), st.lists(edges, max_size=2, unique=True))
def test_the_last_report_is_that_of_the_oracle_and_changes_nothing(data, report, tuples, size, static):
    others = data.draw(questions("s", report=data.draw(st.sampled_from(["slide", "time", "change"]))))
    question = data.draw(questions(report=report))
    note(f"{write(question.query)} over {question.window}, {report}; {write(others.query)} over {others.window}")
    twins = Twins(question, others, static=static)
    for begin in range(0, len(tuples), size):
        twins.push(tuples[begin : begin + size])
        twins.flush()
    twins.advance(tuples[-1][3] + 30)
    twins.compare_counts()


@examples(30)
@given(questions("q"), questions("r"), streams(), st.integers(0, 15), st.sampled_from(["window", "empty"]))
def test_registering_in_mid_stream_is_seen_as_the_contract_says(question, other, tuples, place, start):
    note(f"{write(question.query)} over {question.window}, {write(other.query)} over {other.window}")
    twins = Twins(question)
    for one in tuples[:place]:
        twins.push([one])
    twins.register(other, start)
    for one in tuples[place:]:
        twins.push([one])
    twins.compare_counts()
    twins.engine.unregister("q")
    twins.engine._check()


HIDDEN = [
    "SELECT * { ?x <urn:n> ?n { ?y <urn:n> ?m FILTER(?m > ?n) } }",
    "SELECT * { ?x <urn:n> ?n { ?y <urn:n> ?m FILTER(!BOUND(?n) || ?m > ?n) } }",
    "SELECT * { ?x <urn:a> ?y OPTIONAL { { ?y <urn:b> ?z FILTER(?x != ?z) } } }",
    "SELECT * { ?x <urn:a> ?y MINUS { ?y <urn:b> ?z FILTER(!BOUND(?x)) } }",
    "SELECT * { ?x <urn:a> ?y { SELECT ?y { ?y <urn:b> ?z FILTER(COALESCE(?x, ?y) = ?y) } } }",
    "SELECT ?x (COUNT(*) AS ?c) { ?x <urn:a> ?y { { ?y <urn:b> ?z FILTER(!BOUND(?x)) } UNION { ?y <urn:a> ?x } } }\n"
    "GROUP BY ?x",
]
"""Queries with a filter on a variable that only an outer group binds."""


EQUAL = [
    "SELECT ?t { <urn:y> <urn:t> ?t OPTIONAL { ?z ?p ?t OPTIONAL { <urn:y> <urn:t> ?t } FILTER(?n = ?n) } }",
    "SELECT * { { ?x <urn:a> ?y } UNION { ?x <urn:a> ?y . ?y ?p ?z } UNION { ?y ?p ?z } }",
    "SELECT ?x (COUNT(*) AS ?c) { ?x <urn:a> ?y OPTIONAL { ?x ?p ?z MINUS { ?x <urn:a> ?y } } } GROUP BY ?x",
]
"""Queries with a variable as predicate beside parts that are equal, which one operator evaluates."""


ENDS = st.sampled_from(["?x", "?x", "?y", "?y", "?z", "<urn:x>", "<urn:none>", "<urn:a>"])
MAYBE_EMPTY = st.sampled_from(
    ["<urn:a>?", "<urn:b>*", "<urn:a>?/<urn:b>?", "^<urn:b>?/<urn:a>*", "<urn:b>|<urn:b>?/<urn:a>?", "!()?", "<urn:b>", "?p"]
)


@st.composite
def maybe_empty_paths(draw) -> str:
    """A query with paths that may be empty between variables and constants, some of which are nodes."""
    triples = st.tuples(ENDS, MAYBE_EMPTY, ENDS).map(" ".join)
    body = " . ".join(draw(st.lists(triples, min_size=1, max_size=4)))
    wrapped = ["{}", "{}", "?x <urn:a> ?y FILTER NOT EXISTS {{ {} }}", "?x <urn:a> ?y OPTIONAL {{ {} }}"]
    head = draw(st.sampled_from(["SELECT *", "SELECT ?x", "SELECT DISTINCT ?x ?y", "ASK"]))
    return f"{head} {{ {draw(st.sampled_from(wrapped)).format(body)} }}"


@examples(40)
@given(maybe_empty_paths(), streams(longest=10), st.integers(1, 4), st.integers(0, 10))
def test_paths_that_may_be_empty_join_what_they_join_by_the_oracle_and_by_pyoxigraph(text, tuples, size, saved):
    question = asked(text, Window(size=10, slide=5))
    twins = Twins(question)
    for begin in range(0, len(tuples), size):
        twins.push(tuples[begin : begin + size])
        if begin <= saved < begin + size:
            twins.restore()
    twins.compare_counts()
    ends = {*text.replace("?x <urn:a> ?y", "").split()}
    if not ends & {"<urn:a>", "<urn:none>"}:  # pyoxigraph joins a term that is no node with nothing, not even with itself
        compare(question, tuples, [], [size])


POSITIONS = [
    "SELECT ?x ?z { ?x <urn:b> ?z { SELECT ?x { ?x <urn:a> ?y } ORDER BY DESC(?y) LIMIT 1 } }",
    "SELECT ?x { ?x <urn:a> ?y FILTER EXISTS { SELECT ?y { ?y <urn:b> ?z } ORDER BY ?z LIMIT 2 } }",
    "SELECT * { ?x <urn:a> ?y OPTIONAL { SELECT ?x (COUNT(*) AS ?n) { ?x <urn:b> ?z } GROUP BY ?x ORDER BY ?n LIMIT 1 } }",
    "SELECT ?y { ?x <urn:a> ?y } ORDER BY EXISTS { ?y <urn:b> ?z } ?y LIMIT 2 OFFSET 1",
    "SELECT ?x (SUM(?n) AS ?s) { ?x <urn:n> ?n } GROUP BY ?x ORDER BY DESC(?s) LIMIT 2",
    "SELECT (AVG(?n) AS ?s) { ?x <urn:a>|<urn:b> ?y . ?y <urn:n> ?n } GROUP BY ?x ORDER BY ?s LIMIT 1 OFFSET 1",
    "SELECT ?x (COUNT(*) AS ?c) { ?x ?p ?y } GROUP BY ?x ORDER BY DESC(COUNT(*)) ?x LIMIT 2",
    "SELECT ?x { ?x <urn:a> ?y OPTIONAL { ?x <urn:b> ?z } } LIMIT 5",
    "SELECT ?y { ?x <urn:a> ?y } ORDER BY ?y LIMIT 2 OFFSET 1",
    "SELECT ?y ((SUM(?n) + 1) AS ?s) { ?x <urn:a> ?y . ?x <urn:n> ?n } GROUP BY ?y ORDER BY DESC(SUM(?n) * 2) LIMIT 1",
]
"""Queries with positions of an order within, beside those that are drawn."""


@pytest.mark.parametrize("text", [*HIDDEN, *EQUAL, *POSITIONS])
@examples(12)
@given(streams(), st.integers(1, 4), st.integers(0, 15))
def test_chosen_texts_have_the_rows_of_the_oracle(text, tuples, size, saved):
    twins = Twins(asked(text, Window(size=10, slide=5)))
    for begin in range(0, len(tuples), size):
        twins.push(tuples[begin : begin + size])
        if begin <= saved < begin + size:
            twins.restore()
    twins.compare_counts()


def test_averages_of_integers_are_the_same_rows_when_decimals_come():
    """An average leaves the positions as it came there, though other sums continue it."""
    number = '"{}"^^<http://www.w3.org/2001/XMLSchema#{}>'
    twins = Twins(
        asked("SELECT (AVG(?n) AS ?s) { ?x <urn:n> ?n } GROUP BY ?x ORDER BY ?s LIMIT 1 OFFSET 1", Window(size=10, slide=5))
    )
    for source, target in (("urn:x", ("1", "integer")), ("urn:y", ("2", "integer")), ("urn:x", ("1.5", "decimal"))):
        twins.push([(source, number.format(*target), "urn:n", 20, "+", None)])
    twins.push([("urn:y", number.format(2, "integer"), "urn:n", 20, "-", None)])
