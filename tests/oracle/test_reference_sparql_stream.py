"""The oracle of SPARQL over streams on examples worked by hand, a sentence of the contract each."""

from __future__ import annotations

import pytest

from tests.reference import Rejected
from tests.reference_pattern_stream import TooManyRows, Window
from tests.reference_sparql_stream import SparqlReference, question
from tests.strategies.drawn_sparql import push, shown

TEN = Window(size=10, slide=10)


def engine(text, window=TEN, static=(), row_limit=None, **options):
    return SparqlReference(question(text, window, **options), static=static, row_limit=row_limit)


# --- 2.6, 2.7 ---------------------------------------------------------------------------------------------------------


def test_a_monotone_query_is_implicit_by_default():
    #   x --a--> y at 1 is outside at 20; deleted before that it says so
    text = "SELECT ?x { ?x <a> ?y }"
    assert push(engine(text), "x y a 1", "u v b 30") == ["+ x @1"]
    assert push(engine(text), "x y a 1", "x y a 2 -") == ["+ x @1", "- x @2"]
    assert push(engine(text, semantics="explicit"), "x y a 1", "u v b 30") == ["+ x @1", "- x @20"]


@pytest.mark.parametrize(
    "body",
    [
        "{ ?x <a> ?y OPTIONAL { ?y <b> ?z } }",
        "{ ?x <a> ?y MINUS { ?y <b> ?z } }",
        "{ ?x <a> ?y FILTER NOT EXISTS { ?y <b> ?z } }",
        "{ ?x <a> ?y FILTER(!EXISTS { ?y <b> ?z }) }",
    ],
)
def test_what_is_not_monotone_is_explicit(body):
    assert push(engine(f"SELECT ?x {body}"), "x y a 1", "u v c 30") == ["+ x @1", "- x @20"]
    with pytest.raises(Rejected):
        question(f"SELECT ?x {body}", TEN, semantics="implicit")
    assert question("SELECT ?x { ?x <a> ?y FILTER EXISTS { ?y <b> ?z } }", TEN, semantics="implicit").is_implicit


def test_negation_takes_away_and_expiry_brings_back():
    #   x --a--> y, at 8 y --b--> z forbids it; b is gone at 20 as well as a; a comes again at 11
    rows = push(
        engine("SELECT ?x { ?x <a> ?y FILTER NOT EXISTS { ?y <b> ?z } }"), "x y a 1", "y z b 8", "x y a 11", "u v c 25"
    )
    assert rows == ["+ x @1", "- x @8", "+ x @20"]


def test_an_answer_on_the_empty_graph_comes_before_the_first_tuple():
    counting = engine("SELECT (COUNT(*) AS ?n) { ?x <a> ?y }")
    assert push(counting, "x y a 1") == ["+ 0 @1", "- 0 @1", "+ 1 @1"]
    assert push(engine("SELECT ?v { VALUES ?v { <u> } }"), "x y a 1") == ["+ u @1"]
    assert push(engine("ASK { FILTER NOT EXISTS { ?x <a> ?y } }"), "x y a 1") == ["+ @1", "- @1"]
    # static edges, which need no default window
    static = engine("SELECT ?x { ?x <a> ?y }", window=None, static=[("s", "a", "t")])
    assert push(static, "x y a 1") == ["+ s @1"]


def test_a_query_registered_in_mid_stream_begins_with_everything():
    running = engine("SELECT ?x { ?x <a> ?y }")
    push(running, "x y a 1")
    rows = running.register(question("SELECT (COUNT(*) AS ?n) { ?x <a> ?y }", TEN, name="count"))
    assert shown(running, rows) == ["count + 1 @1"]


# --- 2.8 --------------------------------------------------------------------------------------------------------------


def test_the_row_of_a_group_changes_once_an_event():
    text = "SELECT ?x (SUM(?n) AS ?s) { ?x <a> ?n } GROUP BY ?x"
    rows = push(engine(text), "x 1 a 1", "x 2.5 a 2", "y 7 a 3", "x 1 a 4 -", "x 2.5 a 5 -")
    assert rows == ["+ x 1 @1", "- x 1 @2", "+ x 3.5 @2", "+ y 7 @3", "- x 3.5 @4", "+ x 2.5 @4", "- x 2.5 @5"]


def test_a_group_whose_row_stays_brings_no_rows():
    text = "SELECT ?x (MAX(?n) AS ?m) { ?x <a> ?n } GROUP BY ?x"
    assert push(engine(text), "x 5 a 1", "x 3 a 2", "x 5 a 3 -") == ["+ x 5 @1", "- x 5 @3", "+ x 3 @3"]


# --- 2.3, 2.4, 2.5 ----------------------------------------------------------------------------------------------------

TWO_WINDOWS = """SELECT ?x ?z
    FROM NAMED WINDOW <hour> ON <s> [RANGE PT10S STEP PT5S] FROM NAMED WINDOW <last> [COUNT 2]
    { WINDOW <hour> { ?x <a> ?y } WINDOW <last> { ?y <b> ?z } }"""


def test_windows_of_one_query_have_their_own_streams_and_sizes():
    rows = push(
        engine(TWO_WINDOWS, window=None),
        "x y a 1",  # not of stream s
        "y z b 2",
        "x y a 3 on s",
        "u v b 4",
        "u w b 5",  # the third: y --b--> z is not among the last two; silent, for nothing was deleted
        "y z b 6",
    )
    assert rows == ["+ x z @3", "+ x z @6"]


def test_the_default_graph_is_window_and_static_edges_together():
    text = "SELECT ?x ?z FROM NAMED WINDOW <w> [UNBOUNDED] { ?x <a>+ ?z WINDOW <w> { ?x <a> ?y } }"
    running = engine(text, static=[("y", "a", "z")], semantics="explicit")
    assert push(running, "x y a 1", "x y a 2 -") == ["+ x y @1", "+ x z @1", "- x y @2", "- x z @2"]


def test_windows_that_are_missing_or_declared_twice_are_errors():
    for text in (
        "SELECT ?x { WINDOW <w> { ?x <a> ?y } }",
        "SELECT ?x FROM NAMED WINDOW <w> [COUNT 2] FROM NAMED WINDOW <w> [COUNT 3] { WINDOW <w> { ?x <a> ?y } }",
    ):
        with pytest.raises(Rejected, match="declared"):
            question(text)
    with pytest.raises(Rejected, match="unit of time"):
        question("SELECT ?x FROM NAMED WINDOW <w> [RANGE PT1S] { WINDOW <w> { ?x <a> ?y } }", unit=None)


# --- 2.9 --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        #   slides at 0, 5, 10, …; the window (b − 10, b]
        ("ISTREAM", ["r + x @5", "r + u @10"]),
        ("DSTREAM", ["r - x @15"]),
        ("RSTREAM", ["r = x @5", "r = u @10", "r = x @10", "r = u @15"]),
    ],
)
def test_heads_of_rsp_ql(operator, expected):
    text = f"REGISTER {operator} <r> AS SELECT ?x {{ ?x <a> ?y }}"
    running = engine(text, Window(size=10, slide=5))
    assert push(running, "x y a 3", "u y a 7", "k y b 16") == expected
    with pytest.raises(Rejected, match="report"):
        question(text, TEN, report="time")
    with pytest.raises(Rejected):
        question(text, Window(kind="count", size=3))


def test_a_report_at_slides_is_the_net_difference():
    #   x comes and goes within (0, 5]; what comes at 5 belongs to the report of 5
    running = engine("SELECT ?x { ?x <a> ?y }", Window(size=10, slide=5), report="slide")
    assert push(running, "x y a 1", "x y a 2 -", "u y a 5", "k y b 6") == ["+ u @5"]


# --- 2.10, 2.15 -------------------------------------------------------------------------------------------------------


def test_ask_has_one_answer_without_columns():
    assert push(engine("ASK { ?x <a> ?y }"), "x y a 1", "u v a 2", "x y a 3 -", "u v a 4 -") == ["+ @1", "- @4"]


def test_construct_gives_each_edge_while_it_has_a_binding():
    text = "CONSTRUCT { ?x <reaches> ?z } { ?x <a> ?y . ?y <b> ?z }"
    rows = push(engine(text), "x m a 1", "m z b 2", "x n a 3", "n z b 4", "m z b 5 -", "n z b 6 -")
    assert rows == ["+ x reaches z @2", "- x reaches z @6"]


def test_the_guard_stops_a_tuple_that_brings_too_many_rows():
    running = engine("SELECT ?x ?y { ?x <a> ?k . ?y <a> ?l }", row_limit=4)
    push(running, "x k a 1")
    with pytest.raises(TooManyRows):
        push(running, "u k a 2", "v k a 3")
    assert running.counts("q")["answers_live"] == 4
