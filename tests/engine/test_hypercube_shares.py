"""Shares that see the edges of their cells alone: the rows of all are those of one engine that sees everything.

Without Spark: an engine for each share, and what `OwnEdges` leaves for it of each batch.
"""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter

import pyarrow as pa
import pytest

pytest.importorskip("rdflib")

from hypothesis import event, given, reject
from hypothesis import strategies as st

import rpq
from rpq.language.hypercube import Share
from rpq.spark.division import EdgeDivision, OwnEdges, describe_division, division_warning
from tests.operators.patterns.pattern_twins import text_of
from tests.reference_patterns import Pattern
from tests.strategies.pattern_strategies import patterns as any_patterns
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


def check(
    query: rpq.Query, batches: list[list[tuple]], shares: int, sizes: dict[str, int] | None = None, edges: str = "triple"
) -> None:
    """Compare rows, row by row, and answers, and count the edges that shares get."""
    whole = rpq.Engine(query, edges=edges)
    all_shares = [Share.of(number, shares, sizes or {}) for number in range(shares)]
    parts = [rpq.Engine(query, share=share, edges=edges) for share in all_shares]
    owned = [OwnEdges([query], share=share) for share in all_shares]
    for rows in batches:
        found: Counter = Counter()
        names = ["source", "target", "label", "timestamp", "op"]
        table = pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))
        for part, own in zip(parts, owned, strict=True):
            own_edges, time = own.select_in_order(table, part.time)
            if len(own_edges):
                found.update(map(repr, part.push(own_edges).rows()))
            if time is not None and (part.time is None or time > part.time):
                found.update(map(repr, part.advance(time).rows()))
        assert found == Counter(map(repr, whole.push(table).rows()))
        check_copies(query, table, owned, sizes or {})
    assert Counter(whole.answers()) == Counter(row for part in parts for row in part.answers())
    for part in parts:
        part._check()


def check_copies(query: rpq.Query, edges: pa.Table, owned: list[OwnEdges], sizes: dict[str, int]) -> None:
    """An edge is in no more shares than its label is said to be."""
    if query.hypercube is None or not query.hypercube.is_divided or len(owned) == 1:
        return
    grid = query.hypercube.grid(len(owned), Share.of(0, 1, sizes).sizes)
    numbered = edges.append_column("row", pa.array(range(len(edges))))
    selected = [own.select(numbered)["row"].to_pylist() for own in owned]
    assert [rows.tolist() for rows in EdgeDivision([query], len(owned), sizes).rows(edges)] == selected
    copies = Counter(row for rows in selected for row in rows)
    labels = edges["label"].to_pylist()
    assert all(copies[row] <= grid.copies(label) for row, label in enumerate(labels))


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
def test_patterns_around_a_variable(query: rpq.Query, batches: list[list[tuple]], shares: int):
    event(describe_division(query).split(":")[0])
    check(query, batches, shares)


SIZES = st.none() | st.fixed_dictionaries({"a": st.sampled_from((0, 1, 100))}, optional={"b": st.just(10)})


@examples(60)
@given(any_patterns(), streams(), st.integers(1, 12), SIZES)
def test_patterns_of_any_shape(pattern: Pattern, batches: list[list[tuple]], shares: int, sizes: dict[str, int] | None):
    """Chains, cycles, stars, products, with paths, constants and blank nodes."""
    query = rpq.Query(
        text_of(pattern),
        window=WINDOW,
        name="q",
        select=pattern.select,
        distinct=pattern.distinct,
        matching=pattern.matching,
        paths=pattern.paths,
        semantics="explicit",
    )
    event(describe_division(query, shares=shares, sizes=sizes).split(":")[0])
    names = dict(zip("uvwxy", ("0", "1", "2", '"0"', "x"), strict=True))
    named = [[(names[one[0]], names[one[1]], *one[2:]) for one in batch] for batch in batches]
    check(query, named, shares, sizes)


CYCLES = ["?x a ?y . ?y a ?z . ?z a ?x", "?x a ?y . ?y b ?z . ?z c ?w", "?x a ?y . ?y a ?z . ?z b ?w . ?w a ?x"]


@pytest.mark.parametrize("text", CYCLES)
@pytest.mark.parametrize("shares", [5, 12])
def test_shares_of_cycles_and_chains_get_few_edges(text: str, shares: int):
    chooser, time, batches = random.Random(shares), 0, []
    for _ in range(4):
        batch = []
        for _ in range(60):
            time += chooser.random() < 0.2
            ends = f"v{chooser.randrange(15)}", f"v{chooser.randrange(15)}"
            batch.append((*ends, chooser.choice("aabbcc"), time, chooser.choice("++++-")))
        batches.append(batch)
    check(query_of_text(text), batches, shares)


def brute_force_load(query: rpq.Query, shares: int) -> float:
    """The expected part of all edges in a cell of the best grid, of all grids."""
    cube = query.hypercube
    labels = list(dict.fromkeys(read.label for read in cube.reads))
    loads = []
    for counts in itertools.product(range(1, shares + 1), repeat=len(cube.columns)):
        if math.prod(counts) <= shares:
            of = dict(zip((name for name, _ in cube.columns), counts, strict=True))
            loads.append(sum(load_of(query, label, of) for label in labels) / len(labels))
    return min(loads)


def load_of(query: rpq.Query, label: str, counts: dict[str, int]) -> float:
    absent = 1.0
    for read in query.hypercube.reads:
        if read.label == label:
            absent *= 1 - 1 / math.prod(counts.get(end, 1) for end in {*read[1:]})
    return 1 - absent


@pytest.mark.parametrize("text", [*CYCLES[:2], "?x a ?y . ?z b ?w", "?x a ?y . ?x b ?z . ?z c ?x"])
@pytest.mark.parametrize("shares", [6, 12])
def test_a_share_has_the_fewest_edges_that_a_grid_allows(text: str, shares: int):
    query = query_of_text(text)
    grid = query.hypercube.grid(shares)
    counts = dict(zip((name for name, _ in grid.cube.columns), grid.counts, strict=True))
    labels = list(dict.fromkeys(read.label for read in grid.cube.reads))
    load = sum(load_of(query, label, counts) for label in labels) / len(labels)
    assert load == pytest.approx(brute_force_load(query, shares))


def test_the_trees_of_paths_are_divided():
    """A share grows those with its coordinate at the root, so that each is in as many shares as other dimensions have."""
    query = query_of_text("?x a+ ?y . ?y b ?z")
    assert query.hypercube.grid(6).dimensions == {"x": 3, "y": 2}
    chooser = random.Random(3)
    rows = [(f"v{chooser.randrange(30)}", f"v{chooser.randrange(30)}", chooser.choice("aab"), 1) for _ in range(60)]

    def trees(**options) -> int:
        engine = rpq.Engine(query, **options)
        engine.push_rows(rows)
        (found,) = [one.trees for one in engine.explain("q").relations if one.trees is not None]
        return found

    assert sum(trees(share=(number, 6)) for number in range(6)) == 2 * trees()


def test_a_saved_share_knows_its_cell(tmp_path):
    """Also where sizes shape the grid."""
    query = query_of_text("?x a ?y . ?y b ?z . ?z c ?w")
    rows = [(f"v{n}", f"v{n + 1}", label, 1) for n in range(12) for label in "abc"]
    sizes, found = {"a": 1, "b": 1000, "c": 1000}, Counter()
    for number in range(4):
        engine = rpq.Engine(query, share=(number, 4, sizes))
        engine.push_rows(rows)
        engine.save(tmp_path / "share")
        restored = rpq.Engine.restore(tmp_path / "share")
        assert [*restored.answers()] == [*engine.answers()]
        found.update(restored.answers())
    assert found == Counter(dict.fromkeys(((f"v{n}", f"v{n + 1}", f"v{n + 2}", f"v{n + 3}") for n in range(10)), 1))


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
@given(questions(), streams(), st.integers(2, 6))
def test_questions_in_sparql(query: rpq.Query, batches: list[list[tuple]], shares: int):
    event(describe_division(query).split(":")[0])
    check(query, batches, shares)


@pytest.mark.parametrize(
    ("text", "dimensions"),
    [
        ("SELECT ?x ?y { ?x <a> ?y . ?y <b> ?z }", "y"),
        ("SELECT ?x ?z { ?x <a> ?y . ?y <b> ?z }", "x z"),
        ("SELECT ?x (COUNT(*) AS ?n) { ?x <a> ?y } GROUP BY ?x", "x"),
        ("SELECT ?x (COUNT(*) AS ?n) { ?x <a> ?y . ?y <b> ?z } GROUP BY ?x", "x"),
        ("SELECT ?x { ?x <a> ?y FILTER NOT EXISTS { ?z <b> ?x } }", "x"),
        ("SELECT ?x { ?x <a> ?y FILTER NOT EXISTS { ?y <b> ?z } }", "x"),
        ("SELECT ?x ?y { ?x <a> ?y FILTER NOT EXISTS { ?z <b> ?y } }", "y"),
        ("SELECT ?x { ?x <a> ?y FILTER(?y = <u> || NOT EXISTS { ?y <b> ?z }) }", "x"),
        ("SELECT ?x { ?x <a> ?y FILTER(?y = <u> || NOT EXISTS { ?x <b> ?z }) }", "x"),
        ("SELECT ?x { ?x <a> ?y { SELECT ?x (COUNT(*) AS ?n) { ?z <b> ?x } GROUP BY ?x } }", "x"),
        ("SELECT ?x { ?x <a> ?y { SELECT ?y (COUNT(*) AS ?n) { ?y <b> ?x } GROUP BY ?y } }", "x"),
        ("SELECT ?x { ?x <a> ?y { SELECT (COUNT(*) AS ?n) { ?z <b> ?x } } }", "x"),
        ("SELECT ?x { { ?x <a> ?y } UNION { ?y <b> ?x } }", "x"),
        ("SELECT ?x { { ?x <a> ?y } UNION { ?y <b> ?z } }", None),
        ("SELECT ?x { OPTIONAL { ?x <a> ?y } }", None),
        ("SELECT ?x { ?z <a> ?y OPTIONAL { ?x <b> ?y } ?x <c> ?z }", None),
        ("SELECT ?x { ?x <a> ?y MINUS { ?x <b> ?z } VALUES ?y { <u> UNDEF } }", "x"),
        ("SELECT ?x { ?x <a> ?y MINUS { ?y <b> ?z } }", "x"),
        ("SELECT ?x { VALUES ?x { <u> } }", None),
        ("SELECT ?x { ?x <a>+ ?y }", None),
        ("SELECT ?x { ?x <a>+ ?y . ?y <b> ?x }", "x"),
        ("SELECT ?x { ?x <a>* ?y . ?y <b> ?x }", None),
        ("SELECT (?y AS ?u) { ?x <a> ?y . ?y <a> ?z }", None),
        ("ASK { ?x <a> ?y }", None),
        ("CONSTRUCT { ?x <k> ?y } { ?x <a> ?y }", None),
    ],
)
def test_the_variables_that_divide_a_question(text: str, dimensions: str | None):
    cube = query_of_text(text).hypercube
    found = None if cube is None or not cube.is_divided else " ".join(cube.grid(4).dimensions)
    assert found == dimensions
    assert (division_warning(query_of_text(text)) is None) == (dimensions is not None)


# --- MATCH ------------------------------------------------------------------------------------------------------------

MATCHES = [
    ("MATCH (x)-[:a]->(y)-[:a]->(z)-[:a]->(x) RETURN x, y, z", "x y"),
    ("MATCH (x)-[:a]->(y)<-[:b]-(z) RETURN DISTINCT x, y", "y"),
    ("MATCH (x)-[e:a]->(y), (y)-[f:b]->(z) WHERE e.timestamp <= f.timestamp RETURN y, z, e.timestamp AS t", "y"),
    ("MATCH (x)-[:a]->(y) RETURN y, count(*) AS n, min(x) AS first", "y"),
    ("MATCH (x)-[:a]->(y) OPTIONAL MATCH (y)-[:b]->(z) RETURN y AS w, z", "y"),
    ("MATCH (x)-[:a]->(y) WHERE NOT EXISTS { (y)-[:b]->(x) } RETURN x, y", "x"),
    ("MATCH (x)-[:a]-(y)-[:b]->(z) RETURN y, z", "y"),
    ("MATCH (x)-[:a|b]->(y)-[:c]->(z) RETURN x, y, z", "y"),
    ("MATCH ANY (x)-[:a]->+(y) RETURN x, y", None),
    ("MATCH (x)-[:a]->(y) RETURN count(*) AS n", None),
]


@pytest.mark.parametrize("edges", ["triple", "parallel"])
@pytest.mark.parametrize(("text", "dimensions"), MATCHES)
def test_match_is_divided_as_a_pattern_is(text: str, dimensions: str | None, edges: str):
    pytest.importorskip("lark", reason="the extra match is not installed")
    query = query_of_text(text)
    cube = query.hypercube
    found = None if cube is None or not cube.is_divided else " ".join(cube.grid(4).dimensions)
    assert found == dimensions
    chooser, time, batches = random.Random(len(text)), 0, []
    for _ in range(4):
        batch = []
        for _ in range(40):
            time += chooser.random() < 0.3
            ends = chooser.choice(VERTICES), chooser.choice(VERTICES)
            batch.append((*ends, chooser.choice("aabbcz"), time - 20 * (chooser.random() < 0.05), chooser.choice("++++-")))
        batches.append(batch)
    check(query, batches, 8, edges=edges)
