"""From texts in SPARQL to the algebra: one construct after the other, as section 18.2 of the standard has them."""

from __future__ import annotations

import sys
import threading

import pytest

import rpq
from rpq.language.pattern import Blank, Constant, Variable
from rpq.language.sparql.algebra import (
    Conjunction,
    CountExtent,
    Exists,
    Extend,
    Filter,
    FunctionCall,
    Group,
    Join,
    Project,
    SemiJoin,
    TimeExtent,
    UnboundedExtent,
    Union,
    Values,
    atoms_of,
    certain_variables,
    is_monotone,
    possible_variables,
    windows_read,
)
from rpq.language.sparql.syntax.reading import read
from rpq.stream.names.terms import RDF, XSD

rdflib = pytest.importorskip("rdflib")

INTEGER = f"^^<{XSD}integer>"


def body(where: str, clauses: str = "", **options):
    """Return the algebra below the projection of `SELECT *`."""
    found = read(f"SELECT * {clauses} {{ {where} }}", **options).body
    assert isinstance(found, Project)
    return found.inner


def atoms(operator) -> list[str]:
    """The atoms of a conjunction, with their windows."""
    assert isinstance(operator, Conjunction)
    return [str(one.atom) + (f" @{one.window}" if one.window else "") for one in operator.atoms]


# --- triples and terms ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("$x <a> $y . ", ["?x a ?y"]),
        ("?x <a> ?y ; <b> ?z , <c> ; .", ["?x a ?y", "?x b ?z", "?x b c"]),
        ("?x a <T>", [f"?x <{RDF}type> T"]),
        ("?x <a> -05 , +1", [f'?x a "-05"{INTEGER}', f'?x a "+1"{INTEGER}']),
        ("?x <a> 1.50 , -1e3 , true", [f'?x a "1.50"^^<{XSD}decimal>', f'?x a "-1e3"^^<{XSD}double>',
                                        f'?x a "true"^^<{XSD}boolean>']),
        ("""?x <a> "b" , 'c'@en-GB , "7"^^<http://t>, '''d"e
f'''""", ['?x a "b"', '?x a "c"@en-gb', '?x a "7"^^<http://t>', '?x a "d\\"e\\nf"']),
        (f'?x <a> "007"{INTEGER}, "s"^^<{XSD}string>', [f'?x a "007"{INTEGER}', '?x a "s"']),
        ('?x <a> "t\\tn\\nq\\"b\\\\"', ['?x a "t\\tn\\nq\\"b\\\\"']),
        ("?x <a> '\\u00e9\\U0001F600\\\\u0041'", ['?x a "é😀\\\\u0041"']),
        ("?x <a> _:b . _:b <c> ?z", ["?x a _:b", "_:b c ?z"]),
        ("?x <a> [ <b> ?y ; <c> ?z ]", ["?x a _:.1", "_:.1 b ?y", "_:.1 c ?z"]),
        ("[ <b> ?y ]", ["_:.1 b ?y"]),
        ("?x <a> (1 ?y)", ["?x a _:.1", f'_:.1 <{RDF}first> "1"{INTEGER}', f"_:.1 <{RDF}rest> _:.2",
                           f"_:.2 <{RDF}first> ?y", f"_:.2 <{RDF}rest> <{RDF}nil>"]),
        ("?x <a> ?y # . ?y <b> ?z\n . ?y <http://e/#c> ?z", ["?x a ?y", "?y <http://e/#c> ?z"]),
    ],
)  # fmt: skip
def test_triples_are_atoms(where, expected):
    operator = read(f"ASK {{ {where} }}").body
    assert set(atoms(operator)) == set(expected) and len(atoms(operator)) == len(expected)


def test_prefixes_expand_and_iris_without_base_stay():
    question = read(
        """PREFIX : <http://e/> PREFIX foaf: <http://f/> PREFIX x: <y#>
        ASK { :a foaf:knows\\.b ?x ; x:%41-c:d <a2q> ; : foaf:1.5 }"""
    )
    assert atoms(question.body) == [
        "<http://e/a> <http://f/knows.b> ?x",
        "<http://e/a> <y#%41-c:d> a2q",
        "<http://e/a> <http://e/> <http://f/1.5>",
    ]


def test_a_base_is_for_what_comes_after_it():
    question = read(
        "PREFIX p: <q/> BASE <http://e/a/> PREFIX r: <s/> BASE <../b> ASK { p:1 r:2 <c> . <#d> <http://f> <?g> }"
    )
    assert atoms(question.body) == [
        "<q/1> <http://e/a/s/2> <http://e/c>",
        "<http://e/b#d> <http://f> <http://e/b?g>",
    ]


def test_a_block_of_hundreds_of_triples_is_read():
    where = " . ".join(f"?x{number} <a> ?x{number + 1}" for number in range(400))
    assert len(atoms(body(where))) == 400


def test_several_threads_read_at_once():
    found: list[int] = []

    def run():
        for number in range(5):
            found.append(len(atoms(body(" . ".join(f"?x <a> {one}" for one in range(number + 1))))))
            with pytest.raises(rpq.errors.SparqlError):
                read(f"SELECT * {{ ?x <a> {number} . ?y }}")

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == sorted([*range(1, 6)] * 2)


# --- property paths -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "expected"),
    {
        "<a>/<b>": ["?x a _:.1", "_:.1 b ?y"],
        "<a>/<b>/<c>": ["?x a _:.1", "_:.1 b _:.2", "_:.2 c ?y"],
        "^<a>": ["?y a ?x"],
        "^(<a>/<b>)": ["?y a _:.1", "_:.1 b ?x"],
        "^(^<a>)": ["?x a ?y"],
        "<a>+/<b>": ["?x a+ _:.1", "_:.1 b ?y"],
        "(<a>/<b>*)+/<c>": ["?x (a/b*)+ _:.1", "_:.1 c ?y"],
        "!(<a>|^<b>)": ["?x !(a|^b) ?y"],
        "!a": [f"?x !<{RDF}type> ?y"],
        "<a>{2,}/<b>": ["?x a{2,} _:.1", "_:.1 b ?y"],
        "^(<a>|<b>) { 1 , 3 }": ["?y (a|b){1,3} ?x"],
    }.items(),
)
def test_a_path_is_split_at_its_top(path, expected):
    assert atoms(read(f"ASK {{ ?x {path} ?y }}").body) == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    {
        "<a>*": ["?x !() _:.2", "_:.3 !() ?x", "?x a* ?y"],
        "^<a>?": ["?y !() _:.2", "_:.3 !() ?y", "?y a? ?x"],
        "<a>/<b>*": ["?x a _:.1", "_:.1 b* ?y", "?x a _:.1"],
        "<a>{,2}/<b>": ["?x a{,2} _:.1", "_:.1 b ?y", "_:.1 b ?y"],
    }.items(),
)
def test_a_path_that_may_be_empty_has_two_branches(path, expected):
    """One whose ends differ, and one in which they are one: a node of another atom, or any of the graph."""
    found = read(f"ASK {{ ?x {path} ?y }}").body
    assert isinstance(found, Union) and isinstance(found.branches[0], Filter) and isinstance(found.branches[1], Extend)
    assert sorted(str(one.atom) for one in atoms_of(found)) == sorted(expected)


def test_an_alternative_is_a_union():
    found = body("?x <a>|<b>/<c>|^<d>|<e>+ ?y . ?y <f> ?z")
    assert isinstance(found, Join) and atoms(found.parts[0]) == ["?y f ?z"]
    assert isinstance(found.parts[1], Union)
    branches = [atoms(branch) for branch in found.parts[1].branches]
    assert branches == [["?x a ?y"], ["?x b _:.1", "_:.1 c ?y"], ["?y d ?x"], ["?x e+ ?y"]]


def test_an_alternative_in_a_sequence_is_joined_through_its_variable():
    found = body("?x (<a>|<b>)/<c> ?y")
    assert isinstance(found, Join) and atoms(found.parts[0]) == ["_:.1 c ?y"]
    assert [atoms(one) for one in found.parts[1].branches] == [["?x a _:.1"], ["?x b _:.1"]]
    assert certain_variables(found) == {"x", "y", "_:.1"}


def test_nodes_are_read_only_where_nothing_binds_the_ends_of_a_path():
    def reads_all(text: str) -> bool:
        return any(one.predicate is not None for one in atoms_of(read(f"SELECT * {{ {text} }}").body))

    bound = ["?x <a>/<b>* <c>", "?x <b>* <c>", "?x <a> ?y . ?y <b>* ?z . ?z <c>* ?w", "?w <c>* ?z . ?y <b>* ?z . ?x <a> ?y"]
    assert not any(map(reads_all, bound))
    assert all(map(reads_all, ["?x <b>* ?y", "?x <a> ?y OPTIONAL { ?y <b>* ?z }", "?x <a> ?y . ?z <b>? ?w", "?x <b>* 3"]))


# --- groups ---------------------------------------------------------------------------------------------------------


def test_conjunctions_are_as_large_as_they_can_be():
    found = body("?x <a> ?y { ?y <b> ?z { ?z <c> ?w } } FILTER(?x != ?w) ?w <d> ?x")
    assert isinstance(found, Filter)
    assert atoms(found.inner) == ["?x a ?y", "?y b ?z", "?z c ?w", "?w d ?x"]


def test_a_union_is_flat():
    found = body("{ ?x <a> ?y } UNION { ?x <b> ?y } UNION { { ?x <c> ?y } UNION { ?z <d> ?y } }")
    assert [atoms(branch) for branch in found.branches] == [["?x a ?y"], ["?x b ?y"], ["?x c ?y"], ["?z d ?y"]]
    assert possible_variables(found) == {"x", "y", "z"} and certain_variables(found) == {"y"} and is_monotone(found)


def test_exists_by_itself_is_a_semi_join():
    found = body("?x <a> ?y FILTER(EXISTS { ?y <b> ?z FILTER(?z > ?x) } && ?y > 3) FILTER NOT EXISTS { ?x <c> ?w }")
    assert isinstance(found, SemiJoin) and found.is_negated and not is_monotone(found)
    assert isinstance(found.left, Filter) and isinstance(found.left.inner, SemiJoin)
    assert not found.left.inner.is_negated and is_monotone(found.left)


def test_exists_in_a_formula_stays_there():
    found = body("?x <a> ?y FILTER(?x > 3 || NOT EXISTS { ?y <b> ?z })")
    assert isinstance(found, Filter) and isinstance(found.condition, FunctionCall) and not is_monotone(found)
    assert isinstance(found.condition.arguments[1], Exists) and set(windows_read(found)) == {None}
    assert len(windows_read(found)[None]) == 2


# --- SELECT, groups of solutions, subselects ------------------------------------------------------------------------


def test_select_star_has_the_variables_in_the_order_of_the_text():
    question = read("SELECT * { ?c <a> ?b . { SELECT ?z ?a { ?q <b> ?z , ?a } } OPTIONAL { _:n <c> ?d } FILTER(?b > 3) }")
    assert question.columns == ("c", "b", "z", "a", "d")


def test_keys_that_are_formulas():
    group = read("SELECT ?k (SUM(?v) AS ?s) { ?x <v> ?v } GROUP BY (STR(?x) AS ?k) STRLEN(?v) (?v)").body.inner.inner
    assert isinstance(group, Group) and group.keys == ("k", ".key2", "v")
    assert group.inner == Extend(
        Extend(group.inner.inner.inner, "k", FunctionCall("STR", (Variable("x"),))),
        ".key2",
        FunctionCall("STRLEN", (Variable("v"),)),
    )


def test_what_a_subselect_keeps_to_itself_has_a_name_of_its_own():
    found = body("?x <a> ?y { SELECT ?x (COUNT(?y) AS ?n) { ?x <b> ?y { SELECT ?y { ?y <c> ?x } } } GROUP BY ?x }")
    assert isinstance(found, Join) and possible_variables(found) == {"x", "y", "n"}
    group = found.parts[1].inner.inner
    assert group.keys == ("x",) and possible_variables(group.inner) == {"x", "y.1"}
    innermost = group.inner.parts[1]
    assert isinstance(innermost, Project) and innermost.columns == ("y.1",) and atoms(innermost.inner) == ["?y.1 c ?x.2"]


def test_an_empty_column_is_told_of():
    question = read("SELECT ?x ?nmae { ?x <a> ?name }")
    assert question.warnings == ("nothing binds ?nmae: its column is empty; did you mean ?name?",)
    below_a_filter = read("SELECT ?z { { SELECT ?z { ?x <a> ?y } } FILTER(!BOUND(?z)) }")
    assert below_a_filter.warnings == ("nothing binds ?z: its column is empty",)


def test_a_literal_in_values_is_told_of_where_a_triple_finds_vertices():
    question = read("SELECT * { ?x <a> ?y . VALUES (?y ?z) { ('ab'@en 1) (UNDEF 2) (4 'ab'@en) (5 3) } }")
    (warning,) = question.warnings
    assert warning.startswith("VALUES ?y contains a literal, which is not the vertex 4 ") and warning.endswith("write <4>")
    assert read("SELECT * { ?x <a> ?y VALUES ?y { <4> 'ab'@en } }").warnings == ()


@pytest.mark.parametrize(
    ("text", "place"),
    {
        "SELECT ?x { ?x <a> ?y { ?y <b> ?z ▶FILTER(?z > ?x) } }": "?x",
        "SELECT ?x { { { ?y <b> ?z MINUS { ?y <c> ?v ▶FILTER(?v > ?w) } } ?y <d> ?w } ?x <a> ?y }": "?w",
        "SELECT ?x { ?x <a> ?y { SELECT ?x { ?x <b> ?z ▶FILTER(?z > ?y) } } }": "?y",
    }.items(),
)
def test_a_filter_on_a_variable_of_an_outer_group_is_told_of(text, place):
    column = text.index("▶") + 1
    (warning,) = read(text.replace("▶", "")).warnings
    assert warning.startswith(f"line 1, column {column}: the FILTER uses {place}, which only an outer group binds")


# --- ASK and CONSTRUCT ----------------------------------------------------------------------------------------------


def test_graphs_in_a_template():
    question = read("CONSTRUCT { ?x <b> ?y GRAPH ?x { ?y <b> ?x . } . GRAPH <g> { } [] <b> ?x . } { ?x <a> ?y }")
    x, y = Variable("x"), Variable("y")
    first, second, third = question.template
    assert (first, second) == ((x, "b", y, None), (y, "b", x, x))
    assert isinstance(third.subject, Blank) and third.graph is None
    assert question.makes_quads


# --- windows --------------------------------------------------------------------------------------------------------

SECOND = 10**9


@pytest.mark.parametrize(
    ("extent", "expected"),
    {
        "RANGE PT2H STEP PT10M": TimeExtent(7200 * SECOND, 600 * SECOND),
        "RANGE P1DT0.5S SLIDE PT1S": TimeExtent(86_400 * SECOND + SECOND // 2, SECOND),
        "RANGE PT1M TUMBLING": TimeExtent(60 * SECOND, 60 * SECOND),
        "COUNT 1000 STEP 10": CountExtent(1000, 10),
        "COUNT 7 TUMBLING": CountExtent(7, 7),
        "UNBOUNDED": UnboundedExtent(),
        "RANGE 10000 STEP 2000": TimeExtent(10_000, 2000, True),
        "RANGE 5 s, SLIDE 3s": TimeExtent(5 * SECOND, 3 * SECOND),
        "RANGE TRIPLES 100 SLIDE 7": CountExtent(100, 7),
    }.items(),
)
def test_windows_are_declared(extent, expected):
    question = read(f"SELECT * FROM NAMED WINDOW <w> ON <s> [{extent}] {{ WINDOW <w> {{ ?x <a> ?y }} }}")
    (declared,) = question.windows
    assert (declared.name, declared.stream, declared.extent) == ("w", "s", expected)
    assert atoms(question.body.inner) == ["?x a ?y @w"]


@pytest.mark.parametrize("clause", ["ON STREAM <s> [COUNT 3]", "[COUNT 3] ON <s>", "[COUNT 3] ON STREAM <s>"])
def test_a_window_is_declared_on_a_stream(clause):
    (declared,) = read(f"SELECT * FROM NAMED WINDOW <w> {clause} {{ WINDOW <w> {{ ?x <a> ?y }} }}").windows
    assert declared.stream == "s"


@pytest.mark.parametrize(
    ("head", "expected"),
    {
        "REGISTER QUERY Cars AS SELECT *": ("RSTREAM", "Cars"),
        "REGISTER DSTREAM <q> AS CONSTRUCT { ?x <b> ?y }": ("DSTREAM", "q"),
        "SELECT DSTREAM DISTINCT ?x": ("DSTREAM", None),
        "ASK ISTREAM": ("ISTREAM", None),
    }.items(),
)
def test_a_head_says_what_reports_contain(head, expected):
    question = read(f"{head} {{ ?x <a> ?y }}")
    assert (question.reporting, question.name) == expected


def test_a_window_with_a_variable_is_the_union_of_all_windows():
    found = body(
        "WINDOW ?w { ?x <a> _:b . _:b <c> ?y }", "FROM NAMED WINDOW <v> [COUNT 3] FROM NAMED WINDOW <w> [RANGE 30 STEP 10]"
    )
    assert isinstance(found, Union)
    for branch, window in zip(found.branches, "vw", strict=True):
        assert isinstance(branch, Extend) and (branch.variable, branch.formula) == ("w", Constant(window))
        assert atoms(branch.inner) == [f"?x a _:b @{window}", f"_:b c ?y @{window}"]
    bound = body("WINDOW ?w { ?x <in> ?w }", "FROM NAMED WINDOW <v> [COUNT 3]")
    assert isinstance(bound, Join) and bound.parts[1] == Values(("w",), (("v",),))


def test_from_names_graphs_without_time():
    question = read("BASE <http://e/> ASK FROM <g> FROM NAMED WINDOW <w> [COUNT 3] FROM <h> FROM <g> { ?x <a> ?y }")
    assert question.graphs == ("http://e/g", "http://e/h") and [one.name for one in question.windows] == ["http://e/w"]


def test_an_atom_reads_the_innermost_window():
    question = read(
        """PREFIX : <http://e/>
        REGISTER RSTREAM :out AS
        SELECT ?x # FROM NAMED WINDOW <none> [COUNT 1]
        FROM NAMED WINDOW :v ON :s [RANGE PT1H]
        FROM NAMED WINDOW :w [COUNT 3]
        WHERE {
            ?x <a> ?y .
            WINDOW :v { ?y <b>/<c> ?z . WINDOW :w { ?z <d> "WINDOW <w> {" } ?z <e>+ ?x }
            FILTER NOT EXISTS { WINDOW :w { ?x <f> ?y } }
        }"""
    )
    assert [(one.name, one.stream) for one in question.windows] == [("http://e/v", "http://e/s"), ("http://e/w", None)]
    assert (question.reporting, question.name) == ("RSTREAM", "http://e/out")
    read_by = {window: [str(one.atom) for one in found] for window, found in windows_read(question.body).items()}
    assert read_by == {
        None: ["?x a ?y"],
        "http://e/v": ["?y b _:.1", "_:.1 c ?z", "?z e+ ?x"],
        "http://e/w": ['?z d "WINDOW <w> {"', "?x f ?y"],
    }


def test_a_time_window_in_the_unit_of_the_stream():
    assert TimeExtent(7200 * SECOND, None).window("ms") == rpq.Window(size=7_200_000, slide=1)
    with pytest.raises(rpq.QueryError, match="no whole number of s"):
        TimeExtent(SECOND // 2, None).window("s")


# --- the package ----------------------------------------------------------------------------------------------------


def test_without_rdflib_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyparsing", None)
    with pytest.raises(rpq.QueryError, match=r"SPARQL needs rdflib: pip install '.*'rdflib>=\d+' 'sortedcontainers>="):
        read("ASK {}")
