"""The oracle of SPARQL against rdflib and pyoxigraph: bags on random graphs, for queries of every shape."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import assume, given, note
from hypothesis import strategies as st

from tests.language.sparql_libraries import alike, by_pyoxigraph, by_rdflib, prepared, solutions, stored
from tests.reference_sparql import Evaluation
from tests.reference_sparql_parser import parse
from tests.reference_sparql_syntax import Window, write
from tests.reference_sparql_values import STANDARD
from tests.strategies.sparql_strategies import graphs, queries, suits_rdflib
from tests.twins import examples

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # within rdflib
WINDOWS = {"urn:w": Window(size=10), "urn:v": Window(kind="count", size=3)}


def write_template(query):
    """The text of a CONSTRUCT before its body, otherwise nothing."""
    return write(query).partition("}")[0] if query.form == "CONSTRUCT" else ""


@examples(60)
@given(queries(WINDOWS))
def test_what_is_written_is_read_again(query):
    text = write(query)
    again = parse(text)
    assert write(again) == text  # as text: triples that stand side by side are read as one pattern
    assert again.windows == query.windows


@examples(60)
@given(queries(WINDOWS), graphs, graphs, graphs)
def test_solutions_are_those_of_pyoxigraph(query, default, first, second):
    assume(not any(word in write(query) for word in ("GROUP_CONCAT", "LIMIT", "OFFSET")))  # their orders are not the same
    assume("_:" not in write_template(query))  # nor are the names of blank nodes
    given_graphs = {None: default, "urn:w": first, "urn:v": second}
    note(prepared(query, given_graphs)[0])
    assert alike(Evaluation(query, given_graphs, STANDARD).answer()) == alike(by_pyoxigraph(query, given_graphs))


SHORT = ":a", ":b", "!:a", "!^:b", "!(:a|^:b)", "<urn:a>"
NODES = "?x", "?y", "?z", ":x", "_:k", "[ :a ?y ; ^:b ?z ]", "[ :n 2 ]"
LITERALS = "1", "1.5", "'ab'@en", '"""b"""', '"\\u0061b"', "?n"


@st.composite
def path_texts(draw: st.DrawFn, depth: int = 1) -> str:
    """A path with parentheses where they change what it means, as well."""

    def step() -> str:
        inner = draw(st.sampled_from(SHORT)) if draw(st.integers(0, depth)) == 0 else f"({draw(path_texts(depth - 1))})"
        return draw(st.sampled_from(["", "", "^"])) + inner + draw(st.sampled_from(["", "", "", "*", "+", "?"]))

    return "|".join("/".join(step() for _ in range(draw(st.integers(1, 2)))) for _ in range(draw(st.integers(1, 2))))


@st.composite
def abbreviated(draw: st.DrawFn) -> str:
    """A query with prefixes, lists of predicates and objects, and nodes without labels."""
    objects = {kind: st.lists(st.sampled_from(kind), min_size=1, max_size=2).map(" , ".join) for kind in (NODES, LITERALS)}
    lists = st.tuples(path_texts(), objects[NODES]) | st.tuples(st.sampled_from([":n", ":t", "?p"]), objects[LITERALS])
    text = " ".join((draw(st.sampled_from(["?x", "?y", ":y", "[]", "[ :a ?x ]"])), *draw(lists)))
    for sign in draw(st.lists(st.sampled_from([";", ". ?x", ". :x"]), max_size=1)):
        text += " ".join(("", sign, *draw(lists)))
    return f"PREFIX : <urn:> SELECT DISTINCT ?x ?y ?z ?p {{ {text} }}"


@examples(100)
@given(abbreviated(), graphs)
def test_paths_and_abbreviations_are_read_as_pyoxigraph_reads_them(text, default):
    default = [*default, ("urn:x", "urn:a", "urn:y")]  # pyoxigraph joins no constant with itself that is not in the graph
    store = stored({(*edge, None) for edge in default})
    query = parse(text)
    ours = Evaluation(query, {None: default}, STANDARD).answer()
    assert alike(ours) == alike(solutions(query, store.query(text)))


CONCATENATED = [
    'SELECT ?x (GROUP_CONCAT(DISTINCT STR(?n) ; SEPARATOR = "|") AS ?g) { ?x <urn:a> ?y . ?y <urn:n> ?n } GROUP BY ?x',
    'SELECT ?y (GROUP_CONCAT(STR(?n) ; SEPARATOR = "|") AS ?g) { ?x <urn:a> ?y OPTIONAL { ?x <urn:n> ?n } } GROUP BY ?y',
]


@pytest.mark.parametrize("text", CONCATENATED)
@examples(20)
@given(graphs)
def test_the_parts_of_group_concat_are_those_of_pyoxigraph(text, default):
    query = parse(text)

    def parts(answer):
        return Counter(
            (*row[:-1], None if row[-1] is None else tuple(sorted(str(row[-1]).strip('"').split("|"))))
            for row in alike(answer).elements()
        )

    ours, theirs = Evaluation(query, {None: default}, STANDARD).answer(), by_pyoxigraph(query, {None: default})
    assert parts(ours) == parts(theirs)


@examples(30)
@given(queries(WINDOWS), graphs, graphs, graphs)
def test_solutions_are_those_of_rdflib(query, default, first, second):
    assume(suits_rdflib(query) and not any(word in write(query) for word in ("LIMIT", "OFFSET")))
    assume("_:" not in write_template(query))
    given_graphs = {None: default, "urn:w": first, "urn:v": second}
    note(prepared(query, given_graphs)[0])
    assert alike(Evaluation(query, given_graphs, STANDARD).answer()) == alike(by_rdflib(query, given_graphs))


ORDERED = [
    "SELECT ?n { ?x <urn:n> ?n } ORDER BY ?n LIMIT 3 OFFSET 1",
    "SELECT ?c { SELECT ?x (COUNT(?y) AS ?c) { ?x <urn:a> ?y } GROUP BY ?x ORDER BY DESC(COUNT(?y)) LIMIT 2 }",
    "SELECT ?n { ?x <urn:a> ?y OPTIONAL { ?x <urn:n> ?n } } ORDER BY ?n LIMIT 2",
]


@pytest.mark.parametrize("text", ORDERED)
@examples(20)
@given(graphs)
def test_the_values_at_positions_of_an_order_are_those_of_pyoxigraph(text, default):
    query = parse(text)
    ours, theirs = Evaluation(query, {None: default}, STANDARD).answer(), by_pyoxigraph(query, {None: default})
    assert alike(ours) == alike(theirs)
