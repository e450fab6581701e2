"""Texts in C-SPARQL, CQELS and their kin have the rows of the texts in RSP-QL with the same meaning."""

from __future__ import annotations

import tempfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rpq
from tests.twins import examples, tiny

pytest.importorskip("rdflib")

STATIC = {"g": [("p", "q", "k"), ("q", "r", "a")], None: [("q", "p", "k"), ("r", "q", "k")]}

EVERY = "{ SELECT DISTINCT ?x ?y { { WINDOW <v> { ?x <a> ?y } } UNION { WINDOW <w> { ?x <a> ?y } } UNION { ?x <a> ?y } } }"

SAME = {
    # --- C-SPARQL
    "REGISTER QUERY q AS SELECT ?x FROM STREAM <s> [RANGE 6s STEP 3s] WHERE { ?x <a>/<b> ?y }":
        "REGISTER RSTREAM <q> AS SELECT ?x FROM NAMED WINDOW <w> ON <s> [RANGE PT6S STEP PT3S] "
        "{ WINDOW <w> { ?x <a>/<b> ?y } }",
    "SELECT ?x (COUNT(?y) AS ?n) FROM STREAM s [RANGE 6s TUMBLING] { ?x <a>+ ?y } GROUP BY ?x":
        "REGISTER RSTREAM <q> AS SELECT ?x (COUNT(?y) AS ?n) FROM NAMED WINDOW <w> ON <s> [RANGE PT6S STEP PT6S] "
        "{ WINDOW <w> { ?x <a>+ ?y } } GROUP BY ?x",
    "REGISTER STREAM q COMPUTED EVERY 4s AS CONSTRUCT { ?y <c> ?x } FROM STREAM <s> [RANGE 6s STEP 2s] { ?x <a> ?y }":
        "REGISTER RSTREAM <q> AS CONSTRUCT { ?y <c> ?x } FROM NAMED WINDOW <w> ON <s> [RANGE PT6S STEP PT4S] "
        "{ WINDOW <w> { ?x <a> ?y } }",
    "REGISTER QUERY q COMPUTED EVERY 4s AS SELECT ?x FROM STREAM s [RANGE 6s STEP 2s] { STREAM s { ?x <a> ?y } }":
        "REGISTER RSTREAM <q> AS SELECT ?x FROM NAMED WINDOW <w> ON <s> [RANGE PT6S STEP PT4S] { WINDOW <w> { ?x <a> ?y } }",
    "SELECT ?x FROM STREAM s [RANGE 1 STEP 1] { ?x <a> ?y }":
        "REGISTER RSTREAM <q> AS SELECT ?x FROM NAMED WINDOW <w> ON <s> [RANGE 1 STEP 1] { WINDOW <w> { ?x <a> ?y } }",
    "REGISTER QUERY q AS SELECT ?x ?z FROM STREAM <s> [RANGE 5s STEP 2s] FROM STREAM <t> [RANGE 3s STEP 1s] FROM <g> "
    "WHERE { ?x <a> ?y OPTIONAL { ?y <a> ?z } }":
        "REGISTER RSTREAM <q> AS SELECT ?x ?z FROM NAMED WINDOW <v> ON <s> [RANGE PT5S STEP PT2S] "
        f"FROM NAMED WINDOW <w> ON <t> [RANGE PT3S STEP PT1S] FROM <g> {{ {EVERY} "
        f"OPTIONAL {{ {EVERY.replace('?y', '?z').replace('?x', '?y')} }} }}",
    "REGISTER QUERY q AS SELECT ?x ?p FROM STREAM <s> [RANGE 5s STEP 2s] FROM STREAM <t> [RANGE 5s STEP 2s] { ?x ?p ?y }":
        "REGISTER RSTREAM <q> AS SELECT ?x ?p FROM NAMED WINDOW <v> ON <s> [RANGE PT5S STEP PT2S] "
        "FROM NAMED WINDOW <w> ON <t> [RANGE PT5S STEP PT2S] "
        "{ SELECT DISTINCT ?x ?p ?y { WINDOW ?w { ?x ?p ?y } } }",
    "REGISTER QUERY q AS SELECT ?x FROM STREAM <s> [RANGE TRIPLES 3] FROM NAMED <g> { ?x <a> ?y GRAPH <g> { ?x <k> ?z } }":
        "SELECT ?x FROM NAMED WINDOW <w> ON <s> [COUNT 3] FROM NAMED <g> "
        "{ WINDOW <w> { ?x <a> ?y } GRAPH <g> { ?x <k> ?z } }",
    # --- CQELS
    "SELECT ?x ?z FROM NAMED <g> { STREAM <s> [RANGE 5s] { ?x <a> ?y } STREAM ?any [RANGE 3s SLIDE 2s] { ?y <b> ?z } "
    "GRAPH <g> { ?u <k> ?v } ?y <k> ?w }":
        "SELECT ?x ?z FROM NAMED WINDOW <v> ON <s> [RANGE PT5S] FROM NAMED WINDOW <w> [RANGE PT3S STEP PT2S] "
        "{ WINDOW <v> { ?x <a> ?y } WINDOW <w> { ?y <b> ?z } GRAPH <g> { ?u <k> ?v } ?y <k> ?w }",
    "SELECT ?x (COUNT(*) AS ?n) { STREAM <s> [NOW] { ?x <a> ?y } STREAM <s> [TRIPLES 2] { ?y <a> ?z } } GROUP BY ?x":
        "SELECT ?x (COUNT(*) AS ?n) FROM NAMED WINDOW <v> ON <s> [RANGE 1 STEP 1] FROM NAMED WINDOW <w> ON <s> [COUNT 2] "
        "{ WINDOW <v> { ?x <a> ?y } WINDOW <w> { ?y <a> ?z } } GROUP BY ?x",
    "SELECT ?x { STREAM s [ALL] { ?x <a> ?y MINUS { ?y <b> ?z } } STREAM s [RANGE UNBOUNDED] { ?y <a> ?u } }":
        "SELECT ?x FROM NAMED WINDOW <w> ON <s> [UNBOUNDED] { WINDOW <w> { ?x <a> ?y MINUS { ?y <b> ?z } } "
        "WINDOW <w> { ?y <a> ?u } }",
    # --- others
    "REGISTER RSTREAM <q> AS SELECT ?x FROM NAMED WINDOW :w ON ?s [SLIDING 4 SLIDE 2 REPORT ON_WINDOW_CLOSE TICK "
    "TIME_DRIVEN] WHERE { WINDOW :w { ?x <a> ?y } }":
        "REGISTER RSTREAM <q> AS SELECT ?x FROM NAMED WINDOW <w> [RANGE 4 STEP 2] { WINDOW <w> { ?x <a> ?y } }",
    "REGISTER ISTREAM <q> AS SELECT ?x FROM NAMED WINDOW :w ON s [TUMBLING 4s] WHERE { WINDOW :w { ?x rdf:p ?y } }":
        "REGISTER ISTREAM <q> AS SELECT ?x FROM NAMED WINDOW <w> ON <s> [RANGE PT4S STEP PT4S] "
        "{ WINDOW <w> { ?x <http://www.w3.org/1999/02/22-rdf-syntax-ns#p> ?y } }",
}  # fmt: skip

NAMES = st.sampled_from("pqr")
LABELS = st.sampled_from(["a", "a", "b", "k", "http://www.w3.org/1999/02/22-rdf-syntax-ns#p"])


@st.composite
def streams(draw: st.DrawFn) -> list[tuple]:
    """Tuples of two streams in the order of time; some are deletes."""
    time, found = 0, []
    for _ in range(draw(st.integers(1, 14))):
        time += draw(st.sampled_from([0, 1, 1, 2, 5]))
        op = draw(st.sampled_from("+++-"))
        found.append((draw(NAMES), draw(NAMES), draw(LABELS), time, op, draw(st.sampled_from(["s", "s", "t"]))))
    return found


def rows(text: str, stream: list[tuple], cut: int | None = None, **options: str) -> list[tuple]:
    """The rows of a query after each tuple and at the end, in order of their values; before the tuple `cut` it restarts."""
    engine = tiny(2)(rpq.Query(text, name="q", **options), static=STATIC, time_unit="s")
    found = []
    for place, one in enumerate(stream):
        if place == cut:
            with tempfile.TemporaryDirectory() as folder:
                engine.save(f"{folder}/state")
                engine = type(engine).restore(f"{folder}/state")
        names = ("source", "target", "label", "timestamp", "op", "stream")
        changes = engine.push({name: [value] for name, value in zip(names, one, strict=True)})
        found.append(sorted(map(tuple, changes.rows()), key=str))
        engine._check()
    return [*found, sorted(map(tuple, engine.flush().rows()), key=str)]


@pytest.mark.parametrize("text", SAME)
def test_a_text_has_the_rows_of_the_text_in_rsp_ql(text):
    @examples(150)
    @given(streams(), st.integers(0, 8))
    def check(stream: list[tuple], cut: int) -> None:
        assert rows(text, stream, cut) == rows(SAME[text], stream)

    check()


def test_rows_worked_by_hand():
    stream = [("p", "q", "a", 1, "+", "s"), ("p", "r", "a", 2, "+", "t"), ("q", "r", "a", 4, "+", "s")]
    text = "SELECT ?x ?y FROM STREAM <s> [RANGE 2s STEP 2s] FROM STREAM <t> [RANGE 2s STEP 2s] { ?x <a> ?y }"
    assert rows(text, stream) == [[], [], [("q", "p", "q", 2, "="), ("q", "p", "r", 2, "=")], [("q", "q", "r", 4, "=")]]
    changes = [[("q", "p", "q", 1, "+")], [("q", "p", "r", 2, "+")], [("q", "q", "r", 4, "+")], []]
    assert rows(text, stream, language="cqels") == changes


def test_the_language_decides_what_is_reported_and_explain_tells_it():
    text = "SELECT ?x { STREAM <s> [RANGE 4s SLIDE 2s] { ?x <a> ?y } }"
    queries = [rpq.Query(text, name=language, language=language) for language in ("cqels", "csparql")]
    engine = rpq.Engine(*queries, rpq.Query(text, name="none"), time_unit="s")
    lines = [str(engine.explain(name)).splitlines()[0] for name in ("none", "cqels", "csparql")]
    assert [one.report for one in queries] == ["change", "slide"]
    assert lines == [
        "language     CQELS: every change is reported",
        "language     CQELS: every change is reported",
        "language     C-SPARQL: RSTREAM is reported at each STEP",
    ]


def test_a_prefix_that_is_usual_need_not_be_declared():
    query = rpq.Query("SELECT ?x { ?x :a ?y FILTER(?y < xsd:integer(3)) }", window=rpq.Window(size=9, slide=1))
    assert query.warnings == (
        "the prefix : is not declared: it is read as PREFIX : <>",
        "the prefix xsd: is not declared: it is read as PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>",
    )
    assert query.labels == {"a"}
