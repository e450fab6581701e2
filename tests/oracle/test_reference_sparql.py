"""The oracle of SPARQL on graphs worked by hand: a sentence of the contract each, and what is refused."""

from __future__ import annotations

import pytest

from tests.reference import Edge
from tests.reference_pattern_stream import Window
from tests.reference_sparql import SparqlPattern
from tests.reference_sparql_checks import check
from tests.reference_sparql_parser import Refused, parse
from tests.reference_sparql_stream import question


def edge(text: str) -> Edge:
    """An edge written "x a y", where the target may be a literal with blanks."""
    source, label, target = text.split(" ", 2)
    return source, label, target


def written(values: tuple) -> str:
    return " ".join("-" if value is None else str(value) for value in values)


def solved(text: str, *edges: str, paths: str = "walk") -> dict[str, int]:
    """Rows of a query over edges, as they are shown, an unbound value as "-" -> how often they come."""
    query = parse(text)
    check(query)
    pattern = SparqlPattern(query=query, paths=paths)
    found: dict[str, int] = {}
    for solution, number in pattern.solutions({None: [*map(edge, edges)]}).items():
        row = written(pattern.shown(solution))
        found[row] = found.get(row, 0) + number
    return found


# --- 2.1 paths --------------------------------------------------------------------------------------------------------

#   x --a--> m --b--> z      x --a--> n --b--> z
DIAMOND = ("x a m", "x a n", "m b z", "n b z")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("<a>/<b>", {"x z": 2}),  # a join: a bag
        ("<a>/<b>*", {"x m": 1, "x n": 1, "x z": 2}),  # a join with a set
        ("<a>/<b>+", {"x z": 2}),
        ("(<a>/<b>)+", {"x z": 1}),  # a closure is a set
        ("<a>*", {"x m": 1, "x n": 1, "x x": 1, "m m": 1, "n n": 1, "z z": 1}),  # every node with itself
        ("<a>?", {"x m": 1, "x n": 1, "x x": 1, "m m": 1, "n n": 1, "z z": 1}),
        ("^(<a>/<b>)", {"z x": 2}),
        ("<a>|!<b>", {"x m": 2, "x n": 2}),  # a union: a bag
        ("!(<b>|^<a>)", {"x m": 1, "x n": 1, "z m": 1, "z n": 1}),
    ],
)
def test_paths(path, expected):
    assert solved(f"SELECT ?p ?q {{ ?p {path} ?q }}", *DIAMOND) == expected


def test_a_constant_is_joined_with_itself_whether_or_not_it_is_there():
    assert solved("SELECT ?p { ?p <a>* <k> }", *DIAMOND) == {"k": 1}
    assert solved("SELECT ?p { ?p <a>/<b>* <n> }", *DIAMOND) == {"x": 1}
    assert solved("SELECT ?p { ?p <a>* ?q VALUES ?q { <k> } }", *DIAMOND) == {}


def test_a_variable_as_a_predicate_has_the_label_of_each_edge():
    assert solved("SELECT ?p ?q { <x> ?p ?m . ?m ?q <z> }", *DIAMOND) == {"a b": 2}
    assert solved("SELECT ?p { ?x ?p ?x }", "u a u", "u b v") == {"a": 1}


def test_under_simple_paths_nothing_is_split():
    assert solved("SELECT ?p ?q { ?p <a>/<b> ?q }", *DIAMOND, paths="simple") == {"x z": 1}
    assert solved("SELECT ?p { ?p <a> ?p }", "u a u", paths="simple") == {}


# --- 2.2, 2.3, 2.13 ---------------------------------------------------------------------------------------------------


def test_a_literal_constant_also_means_the_vertex_of_its_lexical_form():
    integer = "^^<http://www.w3.org/2001/XMLSchema#integer>"
    edges = "u age 30", f'v age "30"{integer}', "w age 030"
    assert solved("SELECT ?p { ?p <age> 30 }", *edges) == {"u": 1, "v": 1}
    assert solved("SELECT ?p { ?p <age> 030 }", *edges) == {"w": 1}
    assert solved("SELECT ?p { ?p <age> 30 }", "u age 30", f'u age "30"{integer}') == {"u": 2}  # as a union
    assert solved("SELECT ?p { ?p <age> ?n FILTER(?n = 30) }", *edges) == {"u": 1, "v": 1, "w": 1}
    assert solved("SELECT ?p { ?p <age> ?n VALUES ?n { 30 } }", *edges) == {"v": 1}  # VALUES gives terms


def test_all_columns_are_in_the_order_of_the_text():
    assert solved("SELECT * { ?q ^<b> ?m . ?p <a> ?m }", *DIAMOND) == {"z m x": 1, "z n x": 1}


def test_columns_show_vertices_counts_and_texts():
    pattern = question(
        "SELECT ?x (COUNT(*) AS ?n) (MAX(?v) AS ?m) (SUM(?v) AS ?s) { ?x <a> ?v } GROUP BY ?x", Window(size=9)
    ).pattern
    (solution,) = pattern.solutions({None: [("x", "a", '"7"^^<http://www.w3.org/2001/XMLSchema#byte>')]})
    assert pattern.shown(solution) == ("x", 1, '"7"^^<http://www.w3.org/2001/XMLSchema#byte>', "7")


# --- 2.11 -------------------------------------------------------------------------------------------------------------

BODY = "{ ?x <a> ?y }"
REFUSED = [
    (f"DESCRIBE ?x {BODY}", "DESCRIBE"),
    ("SELECT ?x { SERVICE <s> { ?x <a> ?y } }", "SERVICE"),
    *((f"SELECT ({name}() AS ?n) {BODY}", name) for name in ("RAND", "UUID", "STRUUID", "BNODE")),
    (f"SELECT (<f:timestamp>(?x) AS ?t) {BODY}", "f:timestamp"),
    (f"SELECT ?x FROM NAMED WINDOW <w> [RANGE PT0.5S] {BODY}", "no multiple"),
    (f"SELECT ?y (COUNT(*) AS ?n) {BODY} GROUP BY ?x", "[?]y, which is not grouped"),
    ("SELECT ?x { ?x <a> _:b OPTIONAL { _:b <a> ?x } }", "_:b in two groups"),
    (f"SELECT (?x AS ?op) {BODY}", "a column called op"),
]


def test_now_is_refused_without_reports():
    with pytest.raises(Refused, match="NOW"):
        question(f"SELECT (NOW() AS ?n) {BODY}", Window(size=9))
    assert question(f"SELECT (NOW() AS ?n) {BODY}", Window(size=9), report="slide").pattern.calls_now


@pytest.mark.parametrize(("text", "construct"), REFUSED)
def test_what_is_refused_is_refused_by_name(text, construct):
    with pytest.raises(Refused, match=construct):
        check(parse(text))


@pytest.mark.parametrize(
    "body",
    [
        "{ ?x <a> ?y OPTIONAL { ?u <b> ?v FILTER(?x = ?u) } }",
        "{ ?x <a> ?y FILTER EXISTS { ?u <b> ?v FILTER(?x = ?u) } }",
        "{ ?x <a> _:b FILTER(?x = ?x) _:b <a> ?x }",  # a filter does not end the pattern
        "{ { ?x <a> ?y BIND(1 AS ?z) } UNION { ?x <b> ?y BIND(2 AS ?z) } }",
    ],
)
def test_their_neighbours_are_not(body):
    check(parse("SELECT ?x " + body))
