"""Shares that see the edges at their own vertices alone: the rows of all are those of one engine that sees everything.

Without Spark: an engine for each share, and what `OwnEdges` leaves for it of each batch.
"""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

pytest.importorskip("rdflib")

from hypothesis import event, given, reject
from hypothesis import strategies as st

import rpq
from rpq.spark.division import OwnEdges, describe_division, division_warning
from tests.twins import examples

WINDOW = rpq.Window(size=12, slide=4)
VERTICES = ["u", "v", "w", "x", "y"]
STEPS = st.sampled_from((0, 0, 0, 1, 1, 2, 5, 14, -1, -3, -20))


@st.composite
def streams(draw: st.DrawFn) -> list[list[tuple]]:
    """Batches with deletes of what was there, and late tuples."""
    time, there, batches = 0, [], []
    for _ in range(draw(st.integers(2, 5))):
        batch = []
        for _ in range(draw(st.integers(1, 9))):
            timestamp = time + draw(STEPS)
            time = max(time, timestamp)
            if there and draw(st.integers(0, 3)) == 0:
                batch.append((*draw(st.sampled_from(there)), timestamp, "-"))
                continue
            ends = draw(st.tuples(st.sampled_from(VERTICES), st.sampled_from(VERTICES)))
            there.append((*ends, draw(st.sampled_from("aabbcz"))))
            batch.append((*there[-1], timestamp, "+"))
        batches.append(sorted(batch, key=lambda one: one[3]) if draw(st.booleans()) else batch)
    return batches


def check(query: rpq.Query, batches: list[list[tuple]], shares: int) -> None:
    """Compare rows, row by row, and answers."""
    whole = rpq.Engine(query)
    parts = [rpq.Engine(query, share=(number, shares)) for number in range(shares)]
    owned = [OwnEdges([query], share=(number, shares)) for number in range(shares)]
    for rows in batches:
        found: Counter = Counter()
        names = ["source", "target", "label", "timestamp", "op"]
        table = pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))
        for part, own in zip(parts, owned, strict=True):
            edges, time = own.select_in_order(table, part.time)
            if len(edges):
                found.update(map(repr, part.push(edges).rows()))
            if time is not None and (part.time is None or time > part.time):
                found.update(map(repr, part.advance(time).rows()))
        assert found == Counter(map(repr, whole.push(table).rows()))
    assert Counter(whole.answers()) == Counter(row for part in parts for row in part.answers())


# --- patterns ---------------------------------------------------------------------------------------------------------


@st.composite
def patterns(draw: st.DrawFn) -> rpq.Query:
    """Atoms of which most have ?c, which is a column at any place, or none."""
    atoms = []
    for number in range(draw(st.integers(1, 3))):
        other = draw(st.sampled_from(("?y", "?z", "u", "?c")))
        ends = [draw(st.sampled_from(("?c", "?c", "?c", "?y"))), other if number or other != "u" else "?y"]
        if draw(st.booleans()):
            ends.reverse()
        atoms.append(f"{ends[0]} {draw(st.sampled_from(('a', 'b', '^a')))} {ends[1]}")
    text = " . ".join(atoms)
    names = [name for name in "cyz" if f"?{name}" in text]
    select = draw(st.permutations(names))[: draw(st.integers(1, len(names)))]
    return rpq.Query(
        text,
        window=WINDOW,
        name="q",
        select=tuple(select),
        distinct=draw(st.booleans()),
        semantics=draw(st.sampled_from(("explicit", "implicit"))),
        matching=draw(st.sampled_from(("homomorphism", "homomorphism", "isomorphism"))),
    )


@examples(60)
@given(patterns(), streams(), st.integers(2, 3))
def test_patterns(query: rpq.Query, batches: list[list[tuple]], shares: int):
    event(describe_division(query).split(":")[0])
    check(query, batches, shares)


# --- SPARQL -----------------------------------------------------------------------------------------------------------

TRIPLES = ("?c <a> ?y", "?y <b> ?c", "?c <b> ?z", "?z <a> ?c", "?c <a> <u>", "?c <a> ?c", "?y <b> ?z", "?c <a>/<b> ?y")


@st.composite
def groups(draw: st.DrawFn, depth: int = 2) -> str:
    """Draw the text between braces, which mostly reads edges at ?c."""
    triples = st.sampled_from(TRIPLES[:6] * 3 + TRIPLES)
    parts = [f"{draw(triples)} ." for _ in range(draw(st.integers(1, 2)))]
    for _ in range(draw(st.integers(0, 2)) if depth else 0):
        inner = draw(groups(depth=depth - 1))
        shapes = ["OPTIONAL {{ {} }}", "MINUS {{ {} }}", "FILTER NOT EXISTS {{ {} }}", "FILTER EXISTS {{ {} }}"]
        shapes += ["{{ {} }} UNION {{ ?c <b> ?w }}", "{{ SELECT ?c (COUNT(*) AS ?n) {{ {} }} GROUP BY ?c }}"]
        shapes += ["{{ SELECT ?y (COUNT(*) AS ?n) {{ {} }} GROUP BY ?y }}"]
        parts.append(draw(st.sampled_from(shapes)).format(inner))
    more = ("", "FILTER(?c != ?y)", "VALUES ?c { <u> <v> }", "BIND(STR(?c) AS ?s)")
    return " ".join([*parts, draw(st.sampled_from(more)) if depth == 2 else ""])


@st.composite
def questions(draw: st.DrawFn) -> rpq.Query:
    """Questions with ?c among the columns, or without it."""
    head, tail = draw(
        st.sampled_from(
            (("?c ?y", ""), ("?y ?c", ""), ("DISTINCT ?c", ""), ("?y", ""), ("(COUNT(*) AS ?m) ?c", " GROUP BY ?c"))
            + (("(COUNT(?y) AS ?m) ?y", " GROUP BY ?y"), ("(COUNT(*) AS ?m)", ""))
        )
    )
    try:
        return query_of_text(f"SELECT {head} {{ {draw(groups())} }}{tail}")
    except rpq.QueryError:  # a name that has a value already, or is not in scope
        reject()


def query_of_text(text: str) -> rpq.Query:
    return rpq.Query(text, window=WINDOW, name="q")


@pytest.mark.ci
@examples(60)
@given(questions(), streams(), st.integers(2, 3))
def test_questions_in_sparql(query: rpq.Query, batches: list[list[tuple]], shares: int):
    event(describe_division(query).split(":")[0])
    check(query, batches, shares)


@pytest.mark.parametrize(
    ("text", "centre"),
    [
        ("SELECT ?x ?y { ?x <a> ?y . ?y <b> ?z }", "y"),
        ("SELECT ?x (COUNT(*) AS ?n) { ?x <a> ?y } GROUP BY ?x", "x"),
        ("SELECT ?x { ?x <a> ?y FILTER NOT EXISTS { ?z <b> ?x } }", "x"),
        ("SELECT ?x { ?x <a> ?y FILTER NOT EXISTS { ?y <b> ?z } }", None),
        ("SELECT ?x { ?x <a> ?y FILTER(?y = <u> || NOT EXISTS { ?y <b> ?z }) }", None),
        ("SELECT ?x { ?x <a> ?y FILTER(?y = <u> || NOT EXISTS { ?x <b> ?z }) }", "x"),
        ("SELECT ?x { ?x <a> ?y { SELECT ?x (COUNT(*) AS ?n) { ?z <b> ?x } GROUP BY ?x } }", "x"),
        ("SELECT ?x { ?x <a> ?y { SELECT (COUNT(*) AS ?n) { ?z <b> ?x } } }", None),
        ("SELECT ?x { { ?x <a> ?y } UNION { ?y <b> ?x } }", "x"),
        ("SELECT ?x { { ?x <a> ?y } UNION { ?y <b> ?z } }", None),
        ("SELECT ?x { OPTIONAL { ?x <a> ?y } }", None),
        ("SELECT ?x { ?x <a> ?y MINUS { ?x <b> ?z } VALUES ?y { <u> UNDEF } }", "x"),
        ("SELECT ?x { ?x <a> ?y MINUS { ?y <b> ?z } }", None),
        ("SELECT ?x { VALUES ?x { <u> } }", None),
        ("SELECT ?x { ?x <a>+ ?y }", None),
        ("SELECT (?y AS ?u) { ?x <a> ?y . ?y <a> ?z }", None),
        ("ASK { ?x <a> ?y }", None),
        ("CONSTRUCT { ?x <k> ?y } { ?x <a> ?y }", None),
    ],
)
def test_the_centre_of_a_question(text: str, centre: str | None):
    found = query_of_text(text).centre
    assert (None if found is None else found.variable) == centre
    assert (division_warning(query_of_text(text)) is None) == (centre is not None)
