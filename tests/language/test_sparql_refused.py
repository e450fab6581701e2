"""Texts that are not understood or refused: each error by its message, and with its place in the text."""

from __future__ import annotations

import pytest

import rpq
from rpq.errors import SparqlError
from rpq.language.sparql.syntax.reading import read
from rpq.language.sparql.syntax.source_text import REFUSED

pytest.importorskip("rdflib")

MARK = "▶"
"""Stands before the place that the error points to."""

REFUSALS = {
    "DESCRIBE": "# all of it\n▶DESCRIBE <a>",
    "SERVICE": "SELECT ?x { ?x <a> ?y ▶SERVICE <http://e/> { ?y <b> ?z } }",
    "SEQ": "SELECT ?x { { ?x <a> ?y } ▶SEQ { ?y <b> ?z } }",
    "FUTURE": "SELECT ?x { ?x <a> ?y ▶FUTURE { ?y <b> ?z } }",
    "WITH DEPTH": "SELECT ?x FROM STREAM s [NOW] FROM <g> ▶WITH DEPTH 1 { ?x <a> ?y }",
    "@": "SELECT ?x { ?x <a> ?y ▶@ ?t }",
    "f:timestamp": "PREFIX f: <http://larkc.eu/csparql/sparql/jena/ext#>\n"
    "SELECT ?x { ?x <a> ?y FILTER(1 < ▶f:timestamp(?x, <a>, ?y)) }",
    "GRAPH in CONSTRUCT WHERE": "CONSTRUCT WHERE { ?x <b> ?y . ▶GRAPH ?x { ?y <c> ?x } }",
    "GRAPH in WINDOW": "SELECT ?x FROM NAMED WINDOW <w> [RANGE 9] { WINDOW <w> { ?x <a> ?y ▶GRAPH ?g { ?y <b> ?z } } }",
    "NOW": "SELECT ?x { ?x <a> ?y FILTER(?y < ▶NOW()) }",
    "RAND": "SELECT ?x { ?x <a> ?y FILTER(▶rand() < 0.5) }",
    "UUID": "SELECT ?x (▶UUID() AS ?u) { ?x <a> ?y }",
    "STRUUID": "SELECT ?x { ?x <a> ?y BIND(▶STRUUID() AS ?u) }",
    "BNODE": "SELECT ?x { ?x <a> ?y BIND(▶BNODE() AS ?u) }",
    "a back-reference in a regular expression": 'SELECT ?x { ?x <a> ?y FILTER(REGEX(STR(?y), ▶"(a+)\\\\1", "i")) }',
    "look-around in a regular expression": 'SELECT ?x { ?x <a> ?y FILTER(REGEX(?y, ▶"^(?!a)")) }',
    "a repetition of more than 1,000 in a regular expression": "SELECT ?x { ?x <a> ?y FILTER(REGEX(?y, ▶'a{1001}')) }",
    "a regular expression that is too large": "SELECT (REPLACE(?y, ▶'(\\\\w{500}){2}', '') AS ?n) { ?x <a> ?y }",
    "DISTINCT in a path": "SELECT ?x { ?x ▶DISTINCT(<a>) ?y }",
    "DISTINCT in the call of a function": "SELECT ?x { ?x <a> ?y FILTER(▶<http://e/f>(DISTINCT ?x)) }",
    "INSERT": "▶INSERT DATA { <a> <b> <c> }",
    "DELETE": "PREFIX : <http://e/> ▶DELETE WHERE { ?x <b> <c> }",
    "a triple term": "ASK { ▶<< <a> <b> <c> >> <d> ?x }",
    "an update of graphs": "BASE <http://e/> PREFIX add: <http://e/> ▶CLEAR DEFAULT",
}

OTHERS = {
    # --- told of in words of their own
    "session windows are refused": "ASK FROM NAMED WINDOW <w> [▶SESSION PT1M] { ?x <a> ?y }",
    "P1M: years and months have no fixed length": "ASK FROM NAMED WINDOW <w> [RANGE ▶P1M] { ?x <a> ?y }",
    "10fortnights is not a duration": "ASK FROM NAMED WINDOW <w> [RANGE ▶10 fortnights] { ?x <a> ?y }",
    "RANGE and STEP are both durations, or both numbers": "ASK FROM NAMED WINDOW <w> [RANGE ▶10 STEP 5s] { ?x <a> ?y }",
    "unexpected TUMBLING; expected STEP or SLIDE":
        "ASK FROM NAMED WINDOW <w> [RANGE 10 TUMBLING] FROM NAMED WINDOW <v> [RANGE 10, ▶TUMBLING] { ?x <a> ?y }",
    "WINDOW with a variable reads all windows that the query declares": "SELECT ?x { ▶WINDOW ?w { ?x <a> ?y } }",
    "RSTREAM contradicts ISTREAM in line 1": "REGISTER ISTREAM <q> AS SELECT ▶RSTREAM ?x { ?x <a> ?y }",
    "PT is not a duration; expected an xsd:dayTimeDuration": "ASK FROM NAMED WINDOW <w> [RANGE ▶PT] { ?x <a> ?y }",
    "positive and fit into 64 bits": "ASK FROM NAMED WINDOW <w> [COUNT ▶9223372036854775808] { ?x <a> ?y }",
    "<s> has no window; expected a window, as in STREAM <s>": "SELECT ?x { STREAM ▶<s> { ?x <a> ?y } }",
    "LOG is refused": "ASK FROM NAMED WINDOW <w> ON ▶LOG <s> [START 0 END 9] { ?x <a> ?y }",
    "no window of time has this period": "REGISTER STREAM <q> ▶COMPUTED EVERY 10s AS SELECT ?x { ?x <a> ?y }",
    "reports at this period do not see RANGE 9s STEP 3s complete":
        "REGISTER QUERY q ▶COMPUTED EVERY 10s AS SELECT ?x FROM STREAM <s> [RANGE 9s STEP 3s] { ?x <a> ?y }",
    "a window that ends in the past is refused":
        "ASK FROM NAMED WINDOW <w> [▶FROM NOW-PT2H TO NOW-PT1H STEP PT1H] { WINDOW <w> { ?x <a> ?y } }",
    "?s may be any stream, but has no value":
        "SELECT ?s FROM NAMED WINDOW <w> ON ▶?s [RANGE 9] { WINDOW <w> { ?x <a> ?y } }",
    "unexpected PERIODIC; expected ON_WINDOW_CLOSE": "ASK FROM NAMED WINDOW <w> [RANGE 9 REPORT ▶PERIODIC] { ?x <a> ?y }",
    "a path may not cross from window to window":
        "SELECT ?x FROM STREAM <s> [RANGE 9] FROM STREAM <t> [RANGE 9] { ?x ▶<a>+ ?y }",
    "the size and slide of a window are positive": "ASK FROM NAMED WINDOW <w> [RANGE ▶PT0S] { ?x <a> ?y }",
    "unexpected EVERY; expected STEP, SLIDE, TUMBLING or ]": "ASK FROM NAMED WINDOW <w> [COUNT 3 ▶EVERY 2] { ?x <a> ?y }",
    "unexpected 1.5; expected a whole number": "ASK FROM NAMED WINDOW <w> [COUNT ▶1.5] { ?x <a> ?y }",
    "unexpected ?w; expected the name of a window": "ASK FROM NAMED WINDOW ▶?w [COUNT 3] { ?x <a> ?y }",
    "the query ends too early; expected ]": "ASK FROM NAMED WINDOW <w> [COUNT 3▶",
    "the window <w> is declared twice": "ASK FROM NAMED WINDOW <w> [COUNT 3] FROM NAMED WINDOW ▶<w> [COUNT 4] { ?x <a> ?y }",
    "there is no window <http://e/ww>; did you mean <http://e/w>?":
        "PREFIX : <http://e/> ASK FROM NAMED WINDOW :w [COUNT 3] { WINDOW ▶:ww { ?x <a> ?y } }",
    "unexpected SELECT; expected AS": "REGISTER RSTREAM <out> ▶SELECT ?x { ?x <a> ?y }",
    "REGISTER occurs twice": "REGISTER RSTREAM <o> AS ▶REGISTER ISTREAM <o> AS SELECT ?x { ?x <a> ?y }",
    # --- what SPARQL forbids
    "the prefix foaf: is not declared; write PREFIX foaf: <…>": "SELECT ?x { ?x ▶foaf:knows ?y }",
    "?y in SELECT is not a key of GROUP BY": "SELECT ?x ▶?y (COUNT(*) AS ?n) { ?x <a> ?y } GROUP BY ?x",
    "?x in SELECT is not a key of GROUP BY": "SELECT ▶(?x + 1 AS ?z) (COUNT(*) AS ?n) { ?x <a> ?y }",
    "?y in HAVING is not a key of GROUP BY": "SELECT ?x { ?x <a> ?y } GROUP BY ?x ▶HAVING (?y > 3)",
    "SELECT * cannot be grouped": "▶SELECT * { ?x <a> ?y } GROUP BY ?x",
    "an aggregate is not allowed in FILTER": "SELECT ?x { ?x <a> ?y ▶FILTER(COUNT(?y) > 1) }",
    "an aggregate is not allowed in GROUP BY": "SELECT (1 AS ?one) { ?x <a> ?y } GROUP BY ▶(COUNT(?y) AS ?n)",
    "an aggregate is not allowed in an aggregate": "SELECT ▶(SUM(COUNT(?y)) AS ?n) { ?x <a> ?y }",
    "_:b occurs in two groups": "SELECT ?x { ?x <a> _:b OPTIONAL { ▶_:b <c> ?x } }",
    "?y is already bound": "SELECT ?x { ?x <a> ?y BIND(1 AS ▶?y) }",
    "SELECT names ?x twice": "SELECT ?x ▶?x { ?x <a> ?y }",
    "VALUES has 2 variables and a row of 1": "SELECT ?x { ▶VALUES (?x ?y) { (1 2) (3) } }",
    "VALUES names a variable twice": "SELECT ?x { ▶VALUES (?x ?x) { (1 2) } }",
    # --- what this language forbids
    "there is no function <http://www.w3.org/2001/XMLSchema#int>":
        "PREFIX xsd: <http://www.w3.org/2001/XMLSchema#> SELECT ?x { ?x <a> ?y FILTER(▶xsd:int(?y) > 1) }",
    "takes one argument, not 2":
        "SELECT ?x { ?x <a> ?y FILTER(▶<http://www.w3.org/2001/XMLSchema#integer>(?y, 2) > 1) }",
    "the maximum 1 of a repetition is below its minimum 3": "SELECT ?x { ?x ▶<a>{3,1} ?y }",
    "the repetition has 2,000 steps": "SELECT ?x { ?x ▶<a>{2000} ?y }",
    "all rows have a column called timestamp": "SELECT ?x ▶?timestamp { ?x <a> ?timestamp }",
    # --- the grammar
    "unexpected }; expected": "SELECT ?x WHERE { ?x <p> ▶}",
    "unexpected ); expected a function": "SELECT ?x {\n  ?x <p> ?y\n  FILTER(?x > ▶)\n}",
    "unexpected OPTINAL: did you mean OPTIONAL?": "SELECT ?x { ?x <p> ?y ▶OPTINAL { ?x <q> ?z } }",
    "unexpected STRLENN: did you mean STRLEN?": "SELECT ?x { ?x <p> ?y FILTER(▶STRLENN(?x) > 3) }",
    "unexpected foo: a prefixed name has a colon": "SELECT ?x { ?x ▶foo ?y }",
    "the query ends too early; expected ASK, BASE, CONSTRUCT, PREFIX, SELECT": "▶",
    "unexpected '; expected": "SELECT ?x { ?x <p> ▶'abc }",
    "unexpected {; expected": "SELECT ?x { ?x <p>▶{x} ?y }",
    "unexpected <?a&&?b>, which reads as an IRI; for less-than, put a blank after <": "ASK { FILTER (?x▶<?a&&?b>?y) }",
    "\\uD800 is not a character": "SELECT ?x { ?x <p> '▶\\uD800' }",
}  # fmt: skip


def error_of(marked: str) -> tuple[SparqlError, int, int]:
    """The error of a text, and the line and column that it ought to point to."""
    before, mark, _ = marked.partition(MARK)
    assert mark, "every text has its place marked"
    with pytest.raises(SparqlError) as caught:
        read(marked.replace(MARK, ""))
        rpq.Query(marked.replace(MARK, ""), window=rpq.Window(size=10, slide=1))  # which knows when it reports
    return caught.value, before.count("\n") + 1, len(before.rpartition("\n")[2]) + 1


@pytest.mark.parametrize("construct", REFUSED)
def test_what_is_refused_is_refused_by_its_name_at_its_place(construct):
    error, line, column = error_of(REFUSALS[construct])
    assert error.message == f"{construct} is refused: {REFUSED[construct]}" and error.expected is None
    assert (error.line, error.column) == (line, column)


@pytest.mark.parametrize("message", OTHERS)
def test_what_is_wrong_is_told_with_its_place(message):
    error, line, column = error_of(OTHERS[message])
    text = error.message if error.expected is None else f"{error.message}; expected {error.expected}"
    assert message in text
    assert (error.line, error.column) == (line, column), str(error)


def test_the_error_shows_the_line_and_the_place():
    with pytest.raises(rpq.QueryError) as caught:
        read("PREFIX : <http://e/>\r\nSELECT ?x {\r\n\t?x :é\\u00e9 'ü' , ?y ; : ?z ORDER }")
    assert str(caught.value) == (
        "line 3, column 30: unexpected ORDER; expected BIND, FILTER, GRAPH, MINUS, OPTIONAL, VALUES, ,, . …\n"
        "   ?x :é\\u00e9 'ü' , ?y ; : ?z ORDER }\n"
        "                               ^"
    )


@pytest.mark.parametrize("text", [
    "SELECT ?x { ?x <a> ?y OPTIONAL { ?y <b> ?z FILTER(?z > ?x) } }",
    "SELECT ?x { ?x <a> ?y FILTER EXISTS { ?y <b> ?z { FILTER(?z > ?x) } } }",
    "SELECT ?x { ?x <a> _:b . FILTER(?x > 1) _:b <b> ?y }",
    "SELECT ?x { ?x <a> ?y BIND(1 AS ?z) MINUS { ?x <b> ?v BIND(2 AS ?u) } }",
    "SELECT (SAMPLE(?y) AS ?s) ?x { ?x <a> ?y } GROUP BY ?x HAVING (COUNT(?y) > 1 && ?x != 3)",
    "SELECT ?x { ?x <a> ?y FILTER(?x< ?a&&?b>?y || ?x <?a || ?x<=?a && ?b >= ?x) }",
    "SELECT ?x { ?x <http://e/a#b> '@ GRAPH WINDOW' . ?x <LIMIT> \"\"\"ORDER BY\"\"\" } # SEQ",
])  # fmt: skip
def test_what_only_looks_like_it_is_not_refused(text):
    assert read(text).columns


def test_a_path_that_is_nested_too_deep_is_refused():
    path = "<a>"
    for _ in range(101):
        path = f"(^{path})*" if len(path) % 2 else f"(^{path})+"
    with pytest.raises(SparqlError, match="nested"):
        read(f"SELECT ?x {{ ?x {path} ?y }}")


def test_what_is_nested_too_deep_to_be_parsed_is_refused():
    with pytest.raises(SparqlError, match="the query is nested too deep"):
        read(f"SELECT ?x {{ ?x <a> ?y FILTER({'(' * 500}1{')' * 500}) }}")


def test_options():
    with pytest.raises(rpq.QueryError, match=r"isomorphism is refused in SPARQL: write FILTER\(\?x != \?y\)"):
        read("ASK { ?x <a> ?y }", matching="isomorphism")
    with pytest.raises(rpq.QueryError, match="paths are 'walk', 'simple' or 'simple_cycle'"):
        read("ASK { ?x <a> ?y }", paths="trail")
    with pytest.raises(TypeError, match="a query in SPARQL is text, not int"):
        read(7)


UPDATES = [
    "insert { ?x <a> ?y } where { ?x <b> ?y }",
    "DELETE WHERE { ?x <a> ?y }",
    "# all of it\nLOAD <file> INTO GRAPH <g>",
    "DROP SILENT GRAPH <g>",
]


@pytest.mark.parametrize("update", UPDATES)
def test_an_update_is_refused_as_one_with_a_window_or_without(update):
    for window in (None, rpq.Window(size=10, slide=1)):
        with pytest.raises(SparqlError, match="is refused: this is a query language"):
            rpq.Query(update, window=window)


@pytest.mark.parametrize("text", ["delete/insert", "add{2}", "load where ?x"])
def test_the_words_of_updates_are_names_elsewhere(text):
    assert rpq.Query(text, window=rpq.Window(size=10, slide=1)).expression == text
