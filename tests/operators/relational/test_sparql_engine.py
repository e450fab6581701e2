"""Queries in SPARQL through the engine, on examples worked by hand: a sentence of the contract each."""

from __future__ import annotations

import sys

import pytest

import rpq
from tests.calls import counted_calls
from tests.twins import collect

TEN = rpq.Window(size=10, slide=10)
ONE = rpq.Window(size=10, slide=1)


def engine(text: str, window=TEN, *, static=(), **options) -> rpq.Engine:
    made = rpq.Engine(rpq.Query(text, window=window, name="q", **options), time_unit="s")
    if static:
        made.load_static(list(static))
    return made


def push(running: rpq.Engine, *tuples: str) -> list[str]:
    """Push tuples written "source target label timestamp", with " -" for a delete and " on s" for a stream; the rows."""
    rows = []
    for text in tuples:
        text, _, stream = text.partition(" on ")
        source, target, label, timestamp, *op = text.split()
        values = (source, target, label, int(timestamp), *(op or "+"), stream or None)
        names = ("source", "target", "label", "timestamp", "op", "stream")
        rows += running.push({name: [value] for name, value in zip(names, values, strict=True)}).rows()
        running._check()
    return shown(rows)


def shown(rows) -> list[str]:
    found = []
    for _, *values, timestamp, op in rows:
        cells = " ".join("-" if value is None else str(value) for value in values)
        found.append(" ".join(filter(None, [op, cells, f"@{timestamp}"])))
    return found


# --- operators -------------------------------------------------------------------------------------------------------


def test_a_solution_comes_as_often_as_there_are_bindings_and_distinct_makes_it_once():
    #   x --a--> y, x --a--> z: two bindings of ?x
    rows = ["x y a 1", "x z a 2", "x y a 3 -", "x z a 4 -"]
    assert push(engine("SELECT ?x { ?x <a> ?y }"), *rows) == ["+ x @1", "+ x @2", "- x @3", "- x @4"]
    assert push(engine("SELECT DISTINCT ?x { ?x <a> ?y }"), *rows) == ["+ x @1", "- x @4"]


def test_optional_gives_way_to_a_partner_and_comes_back():
    running = engine("SELECT ?x ?z { ?x <a> ?y OPTIONAL { ?y <b> ?z } }", ONE)
    rows = push(running, "x y a 1", "y z b 2", "y w b 3", "y z b 4 -", "y w b 5 -", "u v c 20")
    assert rows == ["+ x - @1", "- x - @2", "+ x z @2", "+ x w @3", "- x z @4", "- x w @5", "+ x - @5", "- x - @11"]


def test_a_pattern_of_the_query_or_of_the_data_cannot_hold_up_the_stream():
    name, question = "a" * 45, 'REGEX(STR(?y), "^(a+)+$")'
    rows = [f"x {name}! a 1", f"x {name} a 2"]
    assert push(engine(f"SELECT ?y {{ ?x <a> ?y FILTER({question}) }}"), *rows) == [f"+ {name} @2"]
    # The subject is the pattern: what cannot be matched is an error, and so the filter fails.
    text = 'SELECT ?x { ?x <a> ?y FILTER(REGEX(?y, STR(?x)) || REPLACE(?y, STR(?x), "") = "") }'
    patterns = ["^(a+)+$", "(a)\\1", "(?=a)", "a{1001}", "(((", "\\w{900}" * 9, "^(a|aa)+!"]
    found = push(engine(text), *(f"{pattern} {name}! a 1" for pattern in patterns))
    assert found == ["+ ^(a|aa)+! @1"]


def test_without_the_package_that_matches_patterns_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(rpq.QueryError, match=r"REGEX and REPLACE need google-re2: pip install .*'google-re2>="):
        engine('SELECT ?x { ?x <a> ?y FILTER(REGEX(?y, "z")) }')
    assert push(engine("SELECT ?x { ?x <a> ?y FILTER(CONTAINS(?y, 'y')) }"), "x y a 1") == ["+ x @1"]


def test_negation_takes_away_and_expiry_brings_back():
    #   at 8 y --b--> z forbids it; b is gone at 20 as well as a; a comes again at 11
    running = engine("SELECT ?x { ?x <a> ?y FILTER NOT EXISTS { ?y <b> ?z } }")
    assert push(running, "x y a 1", "y z b 8", "x y a 11", "u v c 25") == ["+ x @1", "- x @8", "+ x @20"]


def test_exists_sees_the_values_around_it():
    #   the inner filter compares with ?n, which the body itself does not bind
    text = "SELECT ?x { ?x <n> ?n FILTER NOT EXISTS { ?y <n> ?m FILTER(?m > ?n) } }"
    assert push(engine(text), "x 3 n 1", "y 5 n 2", "y 5 n 3 -") == ["+ x @1", "- x @2", "+ y @2", "- y @3", "+ x @3"]


@pytest.mark.parametrize("path", ["<b>?", "<b>*", "!()?"])
def test_a_path_that_may_be_empty_joins_in_exists_what_is_equal_around_it(path):
    #   x has a loop, and a path from y to x only with the edge at 3
    running = engine(f"SELECT ?x ?y {{ ?x <a> ?y FILTER NOT EXISTS {{ ?y {path} ?x }} }}")
    assert push(running, "x x a 1", "x y a 2", "y x b 3") == ["+ x y @2", "- x y @3"]


def test_a_path_between_variables_that_may_be_empty_joins_nodes_alone_with_themselves():
    #   z is the middle of the path, and no node before 2
    running = engine("SELECT ?x { ?x <a>?/<b>? <z> }")
    assert push(running, "x y a 1", "x z c 2", "y z b 3", "x z c 4 -", "y z b 5 -") == [
        "+ z @2", "+ x @3", "+ y @3", "- x @5", "- y @5", "- z @5",
    ]  # fmt: skip
    assert push(engine("SELECT ?x { <z> <a>?/<b>? ?x }"), "x y a 1", "z x b 2") == ["+ x @2", "+ z @2"]
    assert push(engine("SELECT ?x { <z> <a>? ?y . ?y <b>? <z> . ?x <c> ?y }"), "x z c 1") == ["+ x @1"]
    assert push(engine("ASK { <z> <a>?/<b>? <z> }"), "x y c 1") == ["+ @1"]


@pytest.mark.parametrize("star", ["*", "+", ""])
def test_steps_of_a_path_around_an_alternative_are_not_multiplied(star):
    blocked = f"?u <member>{star}/<blocked>/^<parent>{star} ?d"
    path = f"?u <member>{star}/(<viewer>|<owner>)/^<parent>{star} ?d"
    running = engine(f"SELECT DISTINCT ?u ?d {{ {path} FILTER NOT EXISTS {{ {blocked} }} }}")
    members = [(f"u{number}", f"g{number}", "member", 1) for number in range(100)]
    running.push_rows([*members, *((f"d{number}", f"f{number}", "parent", 1) for number in range(100))])
    assert running.statistics().index_cells < 4_000  # of 100 · 100 pairs
    assert "+ u0 d0 @2" in push(running, "g0 f0 viewer 2")
    assert running.statistics().index_cells < 4_000
    assert "- u0 d0 @3" in push(running, "g0 f0 blocked 3")


@pytest.mark.parametrize(
    "restriction",
    ["VALUES ?{0} {{ <{1}> }}", "FILTER(?{0} IN (<{1}>, <none>))", "FILTER(sameTerm(?{0}, <{1}>) || ?{0} = <none>)"],
)
@pytest.mark.parametrize(("name", "vertex"), [("x", "v1"), ("y", "v98")])
def test_paths_begin_at_the_terms_that_a_variable_may_have(restriction, name, vertex):
    body = "?x <a>+ ?y FILTER NOT EXISTS { ?x <b>/<a>* ?y }"
    running = engine(f"SELECT ?x ?y {{ {body} {restriction.format(name, vertex)} }}")
    other = engine(f'SELECT ?x ?y {{ {body} FILTER(STR(?{name}) = "{vertex}") }}')
    edges = [*((f"v{number}", f"v{number + 1}", "a", 1) for number in range(99)), ("v1", "v98", "b", 1)]
    rows = running.push_rows(edges).rows()
    assert rows and sorted(rows) == sorted(other.push_rows(edges).rows())
    assert running.statistics().index_cells < other.statistics().index_cells / 8
    # The pairs of other roots come and go with a query.
    running.register(rpq.Query("ASK { ?x <a>+ ?y }", window=TEN, name="more"))
    cut = ["v40 v41 a 2 -", "v0 v1 b 2", "v40 v41 a 3"]
    assert sorted(push(running, *cut)) == sorted(push(other, *cut))
    running.unregister("more")
    collect(running)
    assert push(running, "v1 v98 b 4 -") == push(other, "v1 v98 b 4 -")


def test_a_condition_that_terms_of_columns_are_the_same_takes_no_work_for_each_row():
    running = engine("SELECT ?x ?z { ?x <a> ?y . ?y <a> ?z FILTER(!SAMETERM(?x, ?z)) }")
    running.push_rows([("x", "y", "a", 1), ("y", "x", "a", 1)])
    pushes = [[("y", f"{kind}{number}", "a", 1) for number in range(1_000)] for kind in "zw"]
    assert len(running.push_rows(pushes[0]).rows()) == 1_000  # and kernels are loaded
    with counted_calls() as calls:
        running.push_rows(pushes[1])
    assert calls.count < 25_000


def test_a_window_that_is_named_around_exists_is_that_in_it():
    windows = "FROM NAMED WINDOW <v> [RANGE 10] FROM NAMED WINDOW <w> [RANGE 5]"
    values = "VALUES ?w { <v> <w> <none> }"
    running = engine(f"SELECT ?w {windows} {{ {values} ?x <a> ?y FILTER EXISTS {{ WINDOW ?w {{ ?x <b> ?z }} }} }}")
    assert sorted(push(running, "x y a 1", "x y b 1")) == ["+ v @1", "+ w @1"]


def test_values_of_vertices_and_of_expressions():
    text = "SELECT ?x (?n * 2 AS ?twice) (STR(?x) AS ?s) { ?x <n> ?n FILTER(?n >= 2 && ?n < 10) }"
    assert push(engine(text), "x 007 n 1", "y 1 n 2", "z ten n 3") == ["+ x 14 x @1"]


def test_iris_are_equal_by_their_ids_and_other_terms_by_their_values():
    names = ("a", "_:b", "<c>", "7", "7.0", '"a"', '"7"^^<http://www.w3.org/2001/XMLSchema#integer>')
    rows = [f"{name} x p 1" for name in names]
    equal = push(engine("SELECT ?a ?b { ?a <p> ?x . ?b <p> ?x FILTER(?a = ?b) }"), *rows)
    unequal = push(engine("SELECT ?a ?b { ?a <p> ?x . ?b <p> ?x FILTER(?a != ?b) }"), *rows)
    assert len(equal) + len(unequal) == len(names) ** 2
    sevens, letters = names[3:5] + names[6:], (names[0], names[5])
    pairs = {(name, name) for name in names} | {(a, b) for some in (sevens, letters) for a in some for b in some}
    assert sorted(equal) == sorted(f"+ {a} {b} @1" for a, b in pairs)


def test_whether_iris_are_equal_is_not_evaluated_for_each_pair():
    running = engine("SELECT ?a ?b { ?a <p> ?x . ?b <p> ?x FILTER(?a != ?b) }")
    running.push(source=["v", "w"], target=["x", "x"], label=["p", "p"], timestamp=[1, 1], collect=False)
    people = [f"v{number}" for number in range(100)]
    with counted_calls() as calls:
        running.push(source=people, target=["y"] * 100, label=["p"] * 100, timestamp=[1] * 100, collect=False)
    assert calls.count < 9_900  # pairs


def test_a_literal_also_means_the_vertex_with_its_text():
    #   "30"^^xsd:integer and the vertex 30 of a text file
    running = engine("SELECT ?x { ?x <age> 30 }")
    literal = '"30"^^<http://www.w3.org/2001/XMLSchema#integer>'
    assert push(running, "x 30 age 1", f"y {literal} age 2", "z 31 age 3", "x 30 age 4 -") == ["+ x @1", "+ y @2", "- x @4"]


def test_a_variable_that_only_an_outer_group_binds_is_unbound_in_a_filter():
    rows = ("x 1 n 1", "y 2 m 2")
    assert push(engine("SELECT ?x ?y { ?x <n> ?n { ?y <m> ?m FILTER(?m > ?n) } }"), *rows) == []
    assert push(engine("SELECT ?x ?y { ?x <n> ?n { ?y <m> ?m FILTER(!BOUND(?n)) } }"), *rows) == ["+ x y @2"]
    assert push(engine("SELECT ?x ?y { ?x <n> ?n { ?y <m> ?m } FILTER(?m > ?n) }"), *rows) == ["+ x y @2"]


def test_values_mean_terms_and_not_vertices_with_their_text():
    rows = ("x 4 b 1", 'y "4"^^<http://www.w3.org/2001/XMLSchema#integer> b 2')
    assert push(engine("SELECT ?x { ?x <b> ?y VALUES ?y { 4 } }"), *rows) == ["+ y @2"]
    assert push(engine("SELECT ?x { ?x <b> ?y VALUES ?y { <4> } }"), *rows) == ["+ x @1"]


def test_a_select_without_variables_has_a_row_for_each_solution():
    text = "SELECT * { [] <a> <h> OPTIONAL { <h> <b> <k> } }"
    assert push(engine(text), "x h a 1", "y h a 1", "h k b 2", "x h a 3 -") == ["+ @1", "+ @1", "- @3"]
    assert push(engine("SELECT * { <x> <a> <y> }"), "x y a 1", "x y a 5", "k y b 30") == ["+ @1"]
    report = engine("REGISTER RSTREAM <r> AS SELECT * { [] <a> <h> }", rpq.Window(size=10, slide=5))
    assert push(report, "x h a 1", "y h a 1", "h k b 7") == ["= @5", "= @5"]


def test_repetitions_of_a_path_are_sets_of_pairs():
    # x -> y -> z, by two ways from y to z
    rows = ("x y a 1", "y z a 2", "y w a 3", "w z a 4", "x w a 5")
    assert sorted(push(engine("SELECT ?y { <x> <a>{2} ?y }"), *rows)) == ["+ w @3", "+ z @2"]
    assert sorted(push(engine("SELECT ?y { <x> <a>{2,3} ?y }"), *rows)) == ["+ w @3", "+ z @2"]
    assert sorted(push(engine("SELECT ?y { <x> <a>{,2} ?y }"), *rows)) == ["+ w @3", "+ x @1", "+ y @1", "+ z @2"]


def test_a_product_whose_condition_does_not_hold_costs_the_sum_of_its_parts():
    """Paper 001: two parts of 3,000 solutions each are 6,000 cells; the product would be 9 · 10⁶."""
    running = engine("SELECT ?x ?y { ?x <a> ?u . ?y <b> ?v . <s> <c> <t> }")
    number = 3_000
    for label in "ab":
        columns = {"source": [f"{label}{i}" for i in range(number)], "target": ["o"] * number}
        assert running.push(**columns, label=[label] * number, timestamp=[1] * number).added == 0
    assert running.statistics("q").index_cells < 10 * number
    assert running.statistics("q").index_bytes < 1_000 * number
    gone = [(f"b{i}", "o", "b", 1, "-") for i in range(1, number)]
    assert running.push_rows(gone).removed == 0
    changes = running.push_rows([("s", "t", "c", 1)])
    assert changes.added == number and changes.rows()[0][2] == "b0"
    running._check()
    assert running.push_rows([("s", "t", "c", 1, "-")]).removed == number


# --- groups ----------------------------------------------------------------------------------------------------------


def test_a_group_changes_its_row():
    text = "SELECT ?x (COUNT(*) AS ?n) (SUM(?y) AS ?s) (MAX(?y) AS ?m) { ?x <a> ?y } GROUP BY ?x"
    assert push(engine(text, ONE), "x 2 a 1", "x 3 a 2", "x 1 a 3", "x 3 a 4 -", "u v c 30") == [
        "+ x 1 2 2 @1", "- x 1 2 2 @2", "+ x 2 5 3 @2", "- x 2 5 3 @3", "+ x 3 6 3 @3", "- x 3 6 3 @4", "+ x 2 3 2 @4",
        "- x 2 3 2 @11", "+ x 1 1 1 @11", "- x 1 1 1 @13",
    ]  # fmt: skip


def test_without_keys_there_is_always_a_row():
    counting = engine("SELECT (COUNT(*) AS ?n) (AVG(?y) AS ?a) { ?x <a> ?y }")
    assert push(counting, "x 1 a 1", "x 2 a 2") == [
        "+ 0 0 @1", "- 0 0 @1", "+ 1 1 @1", "- 1 1 @2", "+ 2 1.5 @2",
    ]  # fmt: skip
    assert push(engine("SELECT (COUNT(*) AS ?n) { ?x <a> ?y } HAVING(COUNT(*) > 1)"), "x 1 a 1", "x 2 a 2") == ["+ 2 @2"]


def test_group_concat_has_the_texts_in_the_order_of_min_and_max():
    text = 'SELECT ?x (GROUP_CONCAT(?y; SEPARATOR=", ") AS ?g) { ?x <a> ?y } GROUP BY ?x'
    assert push(engine(text), "x 10 a 1", "x bob a 2", "x 9 a 3", "x bob a 4 -") == [
        "+ x 10 @1", "- x 10 @2", "+ x 10, bob @2", "- x 10, bob @3", "+ x 9, 10, bob @3", "- x 9, 10, bob @4",
        "+ x 9, 10 @4",
    ]  # fmt: skip
    pairs = "SELECT (GROUP_CONCAT({}?z) AS ?g) {{ ?x <a> ?y . ?y <b> ?z }}"
    stream = ["x y a 1", "w y a 1", "y 7 b 1"]
    assert push(engine(pairs.format("")), *stream)[-1] == "+ 7 7 @1"
    assert push(engine(pairs.format("DISTINCT ")), *stream)[-1] == "+ 7 @1"
    none = "SELECT (GROUP_CONCAT(?z) AS ?g) { ?x <a> ?y OPTIONAL { ?y <b> ?z } }"
    rows = push(engine(none), "x y a 1", "y 7 b 2", "v w a 3")
    assert rows == ["+ @1", "- @1", "+ - @1", "- - @2", "+ 7 @2", "- 7 @3", "+ - @3"]


def test_a_share_does_not_report_empty_answers():
    with pytest.raises(rpq.QueryError, match="a share cannot report that the whole answer is empty"):
        rpq.Engine(rpq.Query("REGISTER RSTREAM <w> AS SELECT ?x { ?x <a> ?y }", window=TEN), share=(0, 2), report_empty=True)


def test_the_first_rows_of_an_order_enter_and_leave():
    text = "SELECT ?x ?y { ?x <a> ?y } ORDER BY DESC(?y) LIMIT 2"
    assert push(engine(text), "x 1 a 1", "y 3 a 2", "z 2 a 3", "v 2 a 4", "w 10 a 5", "w 10 a 6 -", "y 3 a 7 -") == [
        "+ x 1 @1", "+ y 3 @2", "- x 1 @3", "+ z 2 @3",
        "- z 2 @4", "+ v 2 @4",  # of equal values the first by the columns
        "- v 2 @5", "+ w 10 @5", "- w 10 @6", "+ v 2 @6", "- y 3 @7", "+ z 2 @7",
    ]  # fmt: skip
    top = "SELECT ?x (COUNT(*) AS ?n) { ?x <a> ?y } GROUP BY ?x ORDER BY DESC(?n) LIMIT 1 OFFSET 1"
    assert push(engine(top), "x 1 a 1", "y 1 a 2", "y 2 a 3", "x 2 a 4", "x 3 a 5") == [
        "+ y 1 @2", "- y 1 @3", "+ x 1 @3", "- x 1 @4", "+ y 2 @4",
    ]  # fmt: skip
    assert push(engine("SELECT ?x { ?x <a> ?y } LIMIT 1"), "x 1 a 1", "x 2 a 2", "b 3 a 3", "x 1 a 4 -") == [
        "+ x @1", "- x @3", "+ b @3",
    ]  # fmt: skip
    different = "SELECT DISTINCT ?x { ?x <a> ?y } ORDER BY ?x OFFSET 1"
    assert push(engine(different), "x 1 a 1", "x 2 a 2", "b 3 a 3") == ["+ x @3"]
    assert push(engine("ASK { ?x <a> ?y } OFFSET 1"), "x 1 a 1", "x 2 a 2") == ["+ @2"]
    huge = 10**20
    assert push(engine(f"SELECT ?x {{ ?x <a> ?y }} LIMIT {huge}"), "x 1 a 1") == ["+ x @1"]
    for positions in ("LIMIT 0", f"OFFSET {huge}", f"LIMIT 1 OFFSET {huge}"):
        assert not push(engine(f"SELECT ?x {{ ?x <a> ?y }} {positions}"), "x 1 a 1")
    with_exists = "SELECT DISTINCT ?x { ?x <a> ?y } ORDER BY EXISTS { ?x <b> ?z } LIMIT 1"  # ?z is of EXISTS alone
    assert push(engine(with_exists), "x 1 a 1", "y 2 a 2", "x 4 b 3") == ["+ x @1", "- x @3", "+ y @3"]
    with pytest.raises(rpq.QueryError, match=r"no order by \?y, which it does not select"):
        engine("SELECT DISTINCT ?x { ?x <a> ?y } ORDER BY EXISTS { ?y <b> ?z } LIMIT 1")
    with pytest.raises(rpq.QueryError, match="expected the aggregate as a column"):
        engine("SELECT DISTINCT ?x { ?x <a> ?y } GROUP BY ?x ORDER BY SUM(?y) LIMIT 1")
    made = "CONSTRUCT { ?x <c> ?y } { ?x <a> ?y } ORDER BY ?y LIMIT 1"
    assert push(engine(made), "x 2 a 1", "x 1 a 2") == ["+ x c 2 @1", "- x c 2 @2", "+ x c 1 @2"]
    least = "SELECT ?z { ?x <b> ?z { SELECT ?x { ?x <a> ?y } ORDER BY ?y LIMIT 1 } }"
    assert push(engine(least), "x 1 a 1", "y 3 b 2", "x 2 b 3", "y 0 a 4") == ["+ 2 @3", "- 2 @4", "+ 3 @4"]
    with pytest.raises(rpq.QueryError, match="implicit windows.* LIMIT, OFFSET"):
        engine(least, semantics="implicit")


def test_having_sees_the_columns_of_select():
    columns = "SELECT ?x (COUNT(*) AS ?n) (?n * 2 AS ?m) { ?x <a> ?y } GROUP BY ?x HAVING "
    stream = ["x 1 a 1", "x 2 a 2", "y 1 a 3", "x 3 a 4"]
    for text in ("(?n > 1)", "(?m > 2)", "(?n > 1 && ?m > COUNT(*))"):
        assert push(engine(columns + text), *stream) == ["+ x 2 4 @2", "- x 2 4 @4", "+ x 3 6 @4"], text


def test_counts_are_integers_and_vertices_are_of_the_type_of_the_input():
    running = engine("SELECT ?x (COUNT(*) AS ?n) (SUM(?y) AS ?s) ?z { ?x <a> ?y OPTIONAL { ?y <b> ?z } } GROUP BY ?x ?z")
    changes = running.push_rows([(7, 8, "a", 1), (8, 9, "b", 2)])
    table = changes.to_arrow("q")
    assert [str(field.type) for field in table.schema] == ["string", "int64", "int64", "string", "int64", "int64", "string"]
    assert [row[1:] for row in changes.rows()] == [
        (7, 1, "8", None, 1, "+"),
        (7, 1, "8", None, 2, "-"),
        (7, 1, "8", 9, 2, "+"),
    ]
    assert list(running.answers()) == [(7, 1, "8", 9)]


# --- forms -----------------------------------------------------------------------------------------------------------


def test_ask_says_when_it_becomes_true_and_when_it_ceases_to_be():
    assert push(engine("ASK { ?x <a> ?y }"), "x y a 1", "u v a 2", "x y a 3 -", "u v a 4 -") == ["+ @1", "- @4"]


def test_construct_makes_edges_that_another_engine_takes():
    first = engine("CONSTRUCT { ?x <c> ?z . ?z <d> <k> } { ?x <a> ?y . ?y <b> ?z }")
    rows = push(first, "x y a 1", "y z b 2", "x w a 3", "w z b 4", "x y a 5 -", "w z b 6 -")
    assert rows == ["+ x c z @2", "+ z d k @2", "- x c z @6", "- z d k @6"]
    again = engine("CONSTRUCT { ?x <c> ?z } { ?x <a> ?z }")
    second = rpq.Engine(rpq.Query("c", window=rpq.Window(size=10, slide=10)))
    assert second.push(again.push_rows([("x", "y", "a", 1)]).to_arrow().drop_columns("query")).added == 1


def test_a_blank_node_of_a_template_is_named_by_the_solution():
    text = "CONSTRUCT { ?x <has> _:b . _:b <of> ?y ; <at> [] } { ?x <a> ?y OPTIONAL { ?y <b> ?z } }"
    rows = [row.split() for row in push(engine(text), "x y a 1", "v y a 2", "y z b 3", "x y a 4 -")]
    entered, left = ([tuple(row[1:4]) for row in rows if row[0] == op] for op in "+-")
    assert len({source for source, label, _ in entered if label == "of"}) == 4  # ?z belongs to the solution
    blanks = [one for triple in entered for one in triple if one.startswith("_:b")]
    assert len(blanks) == 4 * 4 and len({*blanks}) == 4 * 2 and len(left) == 9 and {*left} < {*entered}
    again = [row.split() for row in push(engine(text), "v y a 1", "y z b 2")]
    assert {tuple(row[1:4]) for row in again} < {*entered}  # in any run


# --- before the first tuple, windows, reports ------------------------------------------------------------------------


def test_an_answer_on_the_empty_graph_comes_before_the_first_tuple():
    assert push(engine("SELECT (COUNT(*) AS ?n) { ?x <a> ?y }"), "x y a 1") == ["+ 0 @1", "- 0 @1", "+ 1 @1"]
    assert push(engine("SELECT ?v { VALUES ?v { <u> } }"), "x y a 1") == ["+ u @1"]
    assert push(engine("ASK { FILTER NOT EXISTS { ?x <a> ?y } }"), "x y a 1") == ["+ @1", "- @1"]
    quiet = engine("SELECT (COUNT(*) AS ?n) { ?x <a> ?y }")
    assert list(quiet.answers()) == []
    assert shown(quiet.advance(5).rows()) == ["+ 0 @5"]
    assert list(quiet.answers()) == [(0,)]


def test_a_query_that_comes_in_mid_stream_tells_all_of_its_answer():
    running = engine("SELECT ?x { ?x <a> ?y }")
    push(running, "x 1 a 1", "x 2 a 2")
    other = rpq.Query("SELECT ?x (SUM(?y) AS ?s) { ?x <a> ?y } GROUP BY ?x", window=TEN, name="r")
    assert shown(running.register(other).rows()) == ["+ x 3 @2"]
    running.unregister("r")
    running.unregister("q")
    running._check()


def test_windows_of_a_query_have_their_own_lengths_and_streams():
    text = """SELECT ?x ?z FROM NAMED WINDOW <w> ON <s> [RANGE PT3S] FROM NAMED WINDOW <v> [COUNT 1]
              { ?x <a> ?y . WINDOW <w> { ?y <b> ?z } WINDOW <v> { ?k <c> ?l } }"""
    running = engine(text, rpq.Window(size=10, slide=1), semantics="explicit")
    rows = push(running, "x y a 1", "y z b 2", "k l c 2", "y z b 3 on s", "k m c 4", "u v d 7")
    # the edge of no stream is not in <w>; <v> holds one insert; b leaves <w> at 6
    assert rows == ["+ x z @3", "- x z @6"]


def test_implicit_windows_are_silent_and_what_is_not_monotone_is_explicit():
    assert push(engine("SELECT ?x { ?x <a> ?y }"), "x y a 1", "u v b 30") == ["+ x @1"]
    assert push(engine("SELECT ?x { ?x <a> ?y }", semantics="explicit"), "x y a 1", "u v b 30") == ["+ x @1", "- x @20"]
    assert push(engine("SELECT ?x { ?x <a> ?y MINUS { ?x <b> ?y } }"), "x y a 1", "u v b 30") == ["+ x @1", "- x @20"]
    with pytest.raises(rpq.QueryError, match="omit semantics"):
        rpq.Query("SELECT ?x { ?x <a> ?y MINUS { ?x <b> ?y } }", window=TEN, semantics="implicit")


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        #   slides at 0, 5, 10, …; the window (b − 10, b]
        ("ISTREAM", ["+ x @5", "+ u @10"]),
        ("DSTREAM", ["- x @15"]),
        ("RSTREAM", ["= x @5", "= u @10", "= x @10", "= u @15"]),
    ],
)
def test_heads_of_rsp_ql(operator, expected):
    text = f"REGISTER {operator} <r> AS SELECT ?x {{ ?x <a> ?y }}"
    running = engine(text, rpq.Window(size=10, slide=5))
    assert sorted(push(running, "x y a 3", "u y a 7", "k y b 16")) == sorted(expected)
    assert rpq.Query(text, window=TEN).name == "r"
    with pytest.raises(rpq.QueryError, match="report"):
        rpq.Query(text, window=TEN, report="time")


TUMBLING = "FROM NAMED WINDOW <w> ON <s> [RANGE 10 TUMBLING]"


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        #   reports at 0, 10, 20, …; each sees the triples of (b − 10, b], so that x and y never meet
        ("REGISTER STREAM <r> AS SELECT ?x", ["= x @10", "= y @20"]),
        ("REGISTER QUERY r AS SELECT ?x", ["= x @10", "= y @20"]),
        ("SELECT ISTREAM ?x", ["+ x @10", "+ y @20"]),
        ("REGISTER STREAM <r> AS SELECT DSTREAM ?x", ["- x @20", "- y @30"]),
        ("REGISTER STREAM <r> AS CONSTRUCT ISTREAM { ?x <is> <here> }", ["+ x is here @10", "+ y is here @20"]),
        ("REGISTER ISTREAM <r> AS ASK", ["+ @10"]),
    ],
)
def test_declared_windows_alone_decide_when_reports_are_told(head, expected):
    running = engine(f"{head} {TUMBLING} {{ WINDOW ?w {{ ?x <a> ?y }} }}", None)
    rows = ("x k a 9 on s", "y k a 11 on s", "other k a 12", "x k none 31 on s")
    assert push(running, *rows, "z k a 32 on s") == expected


def test_reports_are_told_at_each_step_of_several_windows():
    windows = "FROM NAMED WINDOW <v> [RANGE 4 STEP 4] FROM NAMED WINDOW <w> [RANGE 6 STEP 6]"
    running = engine(f"SELECT ISTREAM ?w ?x {windows} {{ WINDOW ?w {{ ?x <a> ?y }} }}", None)
    #   4: both windows have x; 6: that of w is left by it at 8 (v) and at 12 (w); y comes at 8
    assert sorted(push(running, "x k a 3", "y k a 7", "k k none 20")) == ["+ v x @4", "+ v y @8", "+ w x @4", "+ w y @8"]
    whole = engine(f"SELECT RSTREAM ?w ?x {windows} {{ WINDOW ?w {{ ?x <a> ?y }} }}", None)
    found = push(whole, "x k a 3", "y k a 7", "k k none 13")
    of_v, of_w = ["= v x @4", "= v x @6", "= v y @8"], ["= w x @4", "= w x @6", "= w x @8", "= w y @12", "= w y @8"]
    assert sorted(found) == of_v + of_w


def test_whole_reports_pass_over_the_steps_at_which_the_answer_is_empty():
    windows = "FROM NAMED WINDOW <v> [RANGE 4 STEP 2] FROM NAMED WINDOW <w> [RANGE 3 STEP 3]"
    whole = engine(f"SELECT RSTREAM ?w ?x {windows} {{ WINDOW ?w {{ ?x <a> ?y }} }}", None)
    night = 6 * 10**14  # steps that nothing could visit one by one
    reports = [whole.push_rows([("p", "q", "a", 1), ("r", "s", "a", night + 1)]), whole.advance(2 * night)]
    found = [tuple(row)[1:-1] for changes in reports for row in changes.rows()]
    #   both windows hold each edge at the three steps up to 4, and none of the steps from 6 on
    starts = (("p", 0), ("r", night))
    assert found == [(window, x, start + time) for x, start in starts for time in (2, 3, 4) for window in "vw"]


def test_queries_of_one_engine_name_the_same_graphs():
    ask = "ASK FROM <{}> {{ ?x <a> ?y }}"
    running = engine(ask.format("g"), None, static=[("x", "y", "a")])
    assert push(running, "k k none 1") == ["+ @1"]
    running.register(rpq.Query("ASK FROM <g> { ?y <a> ?x }", name="same"))
    with pytest.raises(rpq.QueryError, match="FROM <h>, and 'q' FROM <g>: edges without time that were loaded without"):
        running.register(rpq.Query(ask.format("h"), name="other"))
    assert "these graphs contain the edges without time" in rpq.Query(ask.format("g")).warnings[0]


# --- threads, shares, guards -----------------------------------------------------------------------------------------


def test_the_guard_on_rows_counts_what_is_told():
    query = rpq.Query("SELECT ?x ?y { ?x <a> ?u . ?y <b> ?v }", window=ONE, name="q")
    running = rpq.Engine(query, max_rows=9)
    running.push_rows([(f"x{i}", "u", "a", 1) for i in range(10)])
    with pytest.raises(rpq.RowLimitError) as caught:
        running.push_rows([("k", "u", "c", 1), ("y", "v", "b", 1)])
    assert (caught.value.query, caught.value.row, caught.value.number) == ("q", 1, 10)
    counted = rpq.Query("SELECT (COUNT(*) AS ?n) { ?x <a> ?u . ?y <b> ?v }", window=ONE)
    running = rpq.Engine(counted, max_rows=9)
    running.push_rows([(f"x{i}", "u", "a", 1) for i in range(10)])
    assert running.push_rows([("y", "v", "b", 1)]).added == 1


def test_a_term_that_was_a_vertex_keeps_its_id():
    text = "SELECT ?x ?n { { SELECT ?x (COUNT(*) AS ?n) { ?x <a> ?z } GROUP BY ?x } ?x <c> ?y }"
    two = '"2"^^<http://www.w3.org/2001/XMLSchema#integer>'
    counted = rpq.Query(text, window=rpq.UnboundedWindow(), name="q")
    engine = rpq.Engine(counted, rpq.Query("b", window=rpq.Window(size=5, slide=1)))
    engine.push_rows([(two, "z", "b", 1), ("u", "v", "a", 1), ("u", "w", "a", 2), ("k", "l", "b", 100)])
    collect(engine)
    engine.push_rows([(f"n{i}", f"m{i}", "b", 100) for i in range(5)])  # to which the ids of what has left are given
    ((_, subject, count, _, _),) = engine.push_rows([("u", "x", "c", 101)]).rows()
    assert (subject, count) == ("u", 2)


def test_rows_of_one_join_are_net_of_an_event():
    query = rpq.Query("SELECT ?x { ?x <a> ?y }", window=TEN, semantics="explicit")
    engine = rpq.Engine(query, events="window")
    assert len(engine.push(source=["u"], target=["v"], label=["a"], timestamp=[1]).rows()) == 1
    ends = {"source": ["u", "u"], "target": ["v", "w"], "label": ["a", "a"], "timestamp": [2, 2]}
    assert engine.push(ends | {"op": ["-", "+"], "event": [1, 1]}).rows() == []
    by_id = rpq.Engine(query, edges="id")
    assert [len(by_id.insert("u", end, "a", time, edge=1).rows()) for time, end in enumerate("vw")] == [1, 0]


def test_events_of_several_tuples_are_told_net():
    query = rpq.Query("SELECT ?x (COUNT(*) AS ?n) { ?x <a> ?y } GROUP BY ?x", window=rpq.UnboundedWindow(), name="q")
    tuples = {"source": ["x", "x", "z"], "target": ["y", "w", "y"], "label": ["a", "a", "a"], "timestamp": [1, 1, 2]}
    together = rpq.Engine(query, events="window")
    assert shown(together.push({**tuples, "event": ["e", "e", "f"]}).rows()) == ["+ x 2 @1", "+ z 1 @2"]
    alone = rpq.Engine(query, events="alone")
    assert shown(alone.push({**tuples, "event": ["e", "e", "f"]}).rows()) == ["+ x 2 @1", "+ z 1 @2"]
    assert shown(alone.push({**tuples, "event": ["g", "h", "h"]}).rows()) == ["+ x 1 @2", "+ x 1 @2", "+ z 1 @2"]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT ?x (COUNT(*) AS ?n) { ?x <a> ?y } GROUP BY ?x",
    ],
)
def test_an_order_alone_changes_no_row_and_is_warned_of(text):
    window = rpq.UnboundedWindow()
    plain = rpq.Query(text, window=window, name="q")
    ordered = rpq.Query(f"{text}\nORDER BY DESC(?x)", window=window, name="q")
    assert ordered.warnings == (*plain.warnings, ordered.warnings[-1])
    assert ordered.warnings[-1].startswith("line 2, column 1: ORDER BY without LIMIT or OFFSET changes no row")
    stream = [("x", "y", "a", 1), ("z", "y", "a", 2), ("x", "w", "a", 3), ("x", "y", "a", 4, "-")]
    rows = [rpq.Engine(query).push_rows(stream).rows() for query in (plain, ordered)]
    assert rows[0] == rows[1] and len(rows[0]) > 1
    subselect = f"SELECT ?x {{ {{ {text} ORDER BY ?x }} }}"
    assert "ORDER BY without" in rpq.Query(subselect, window=window).warnings[-1]


def test_an_order_by_what_is_not_grouped_is_refused():
    with pytest.raises(rpq.QueryError, match=r"\?y in ORDER BY"):
        rpq.Query("SELECT ?x { ?x <a> ?y } GROUP BY ?x ORDER BY ?y", window=rpq.UnboundedWindow())


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("SELECT ?x { ?x <a> ?y }", {"window": TEN, "sources": ["x"]}, "sources is an option of path queries"),
        ("SELECT ?x { ?x <a> ?y }", {"window": TEN, "distinct": True}, "distinct is an option of graph patterns"),
        ("SELECT ?x { ?x <a> ?y }", {"window": TEN, "on_budget": "set_aside"}, "on_budget"),
        ("SELECT ?x { ?x <a> ?y }", {"window": rpq.CountWindow(size=3), "report": "slide"}, "must be a time window"),
        ("SELECT ?x { ?x <a> ?y FILTER(?y < RAND()) }", {"window": TEN}, "RAND is refused"),
        ("SELECT ?x { ?x <a> ?y", {"window": TEN}, "line 1, column"),
    ],
)
def test_what_is_refused_is_refused_by_its_name(text, options, message):
    with pytest.raises(rpq.QueryError, match=message):
        rpq.Query(text, **options)


def test_a_window_in_durations_needs_a_stream_whose_unit_is_known():
    query = rpq.Query("SELECT ?x FROM NAMED WINDOW <w> [RANGE PT2S] { WINDOW <w> { ?x <a> ?y } }")
    with pytest.raises(rpq.InputError, match="time_unit"):
        rpq.Engine(query).push_rows([("x", "y", "a", 1)])
    running = rpq.Engine(query, time_unit="s")
    assert shown(running.push_rows([("x", "y", "a", 1)]).rows()) == ["+ x @1"]


def test_there_is_no_witness():
    running = engine("SELECT ?x { ?x <a> ?y }")
    push(running, "x y a 1")
    with pytest.raises(rpq.QueryError, match="no witness"):
        running.witness("x")


@pytest.mark.parametrize("report", ["change", "slide"])
def test_a_row_that_comes_and_goes_with_its_partner_leaves_groups_whole(report):
    text = "SELECT (COUNT(*) AS ?c) WHERE { ?x <n> ?y . FILTER (!((?y = ?y) && EXISTS { ?x <n> ?y })) }"
    engine = rpq.Engine(rpq.Query(text, window=rpq.Window(size=1, slide=1), name="q", report=report))
    rows = engine.push_rows([("x", "1", "n", 20)] * 2).rows()
    engine._check()
    rows += engine.advance(50).rows()
    engine._check()
    assert [tuple(row) for row in rows] == [("q", 0, 20, "+")]


def test_a_computed_literal_is_a_vertex_with_its_whole_text_and_no_other():
    two = '"2"^^<http://www.w3.org/2001/XMLSchema#integer>'
    running = engine("SELECT ?x ?n { { SELECT (COUNT(*) AS ?n) { ?y <a> ?z } } ?x <b> ?n }")
    assert push(running, f"p {two} b 1", "q 2 b 1", "u v a 1", "u w a 2") == ["+ p 2 @2"]


def test_a_template_with_graphs_makes_quads():
    text = "CONSTRUCT { GRAPH ?y { ?x <in> ?y } ?x <of> _:b GRAPH <g> { ?y <of> ?x } } { ?x <a> ?y }"
    engine = rpq.Engine(rpq.Query(text, window=rpq.Window(size=9, slide=9), name="q"))
    assert tuple(engine.queries[0].columns) == ("source", "label", "target", "graph")
    rows = [tuple(row)[1:] for row in engine.push_rows([("p", "q", "a", 1), ("r", '"1"', "a", 2)]).rows()]
    (blank, other) = (row[2] for row in rows if row[2].startswith("_:"))
    assert sorted(rows, key=str) == sorted(
        [("p", "in", "q", "q", 1, "+"), ("p", "of", blank, None, 1, "+"), ("q", "of", "p", "g", 1, "+")]
        + [("r", "of", other, None, 2, "+")],
        key=str,
    ), "a literal is neither a graph nor a subject"
    other_engine = rpq.Engine(rpq.Query("of", window=rpq.Window(size=9, slide=9)))
    made = rpq.Engine(rpq.Query(text, window=rpq.Window(size=9, slide=9))).push_rows([("p", "q", "a", 1)])
    assert other_engine.push(made.to_arrow()).added == 2


def test_now_is_the_time_of_the_report():
    text = "REGISTER RSTREAM <q> AS SELECT ?x (NOW() AS ?n) { ?x <until> ?t FILTER(?t > NOW()) }"
    stream = [("p", "12", "until", 1), ("q", "7", "until", 2), ("p", "r", "b", 16)]
    window = rpq.Window(size=50, slide=5)
    engine = rpq.Engine(rpq.Query(text, window=window))
    assert [tuple(row)[1:] for row in engine.push_rows(stream).rows()] == [
        ("p", "5", 5, "="), ("q", "5", 5, "="), ("p", "10", 10, "=")
    ]  # fmt: skip
    dated = rpq.Engine(rpq.Query(text.replace("?t > NOW()", "BOUND(?t)"), window=window), time_unit="ms")
    (first, *_) = dated.push_rows(stream).rows()
    assert (first.n, first.timestamp) == ("1970-01-01T00:00:00.005Z", 5)


@pytest.mark.parametrize("options", [{"report": "time"}])
def test_now_without_reports_at_slides_is_refused(options):
    with pytest.raises(rpq.QueryError, match="column 9: NOW is refused: .*REGISTER RSTREAM <name> AS.*--report slide"):
        rpq.Query("SELECT (NOW() AS ?n) { ?x <a> ?y }", window=rpq.Window(size=5, slide=5), **options)


def test_a_path_from_constants_that_begins_empty_is_restored(tmp_path):
    window = rpq.UnboundedWindow()
    running = rpq.Engine(rpq.Query("SELECT ?x { ?x <d> <1> }", window=window, name="other", semantics="explicit"))
    push(running, "5 1 d 1")
    text = "SELECT ?y { <1> <b> ?x . ?x <c>+ ?y }"
    running.register(rpq.Query(text, window=window, name="late", semantics="explicit"), start="empty")
    push(running, "1 2 b 2", "5 6 c 2")
    running.save(tmp_path / "state")
    again = rpq.Engine.restore(tmp_path / "state")
    for one in (running, again):
        assert push(one, "2 3 c 3") == ["+ 3 @3"]
        one._check()
