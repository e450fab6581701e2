"""Tests and properties of vertices in patterns: what is refused, isomorphism, constants, shares, explanations.

semantics.md S17, semantics-patterns.md P15
"""

from __future__ import annotations

import random

import pytest

import rpq
from rpq.language.hypercube import reads_of
from rpq.language.readings import node_properties_of, node_tests_of, node_values_of, properties_of, readings_of
from rpq.operators.patterns.explanation import explain
from rpq.stream.names.stream_labels import NodeTest, NodeValue

WINDOW = rpq.Window(size=6, slide=1)


def query(text: str, **options: object) -> rpq.Query:
    return rpq.Query(text, window=WINDOW, **{"name": "q", "semantics": "explicit", **options})


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("@[risk > 3]", 1, "without an edge"),
        ("(@[risk > 3])*", 1, "without an edge"),
        ("a/@[node = 'x']", 5, "'node' is no property"),
        ("a/@[risk >]/b", 11, "unexpected the end"),
        ("a[:A]", 3, "only nodes have labels"),
        ("a/@[k = '\x1f']", 10, "U\\+001F"),
        ("/".join(f"@[n > {n}]" for n in range(13)) + "/a", 1, "13 tests"),
        ("/".join(f"@[n > {n}]/a[n > {n}]" for n in range(7)), 1, "7 conditions and there are 7 tests"),
        ("?x[] a ?y", 4, "is empty"),
        ("?x[:A] [:B] a ?y", 8, "unexpected"),
        ("?x a ?y[risk > 3", 8, "not closed"),
        ("?x a ?y . ?x @[risk > 3] ?y", 14, "without an edge"),
        ("""?x a '"y"'[risk > 3]""", 6, "the test of a literal"),
        (" . ".join(f"?x a ?y{n}[:A]" for n in range(17)), 247, "too many atoms"),
    ],
)
def test_errors_point_to_the_place(text: str, column: int, message: str) -> None:
    with pytest.raises(rpq.ExpressionError, match=message) as caught:
        query(text)
    assert caught.value.column == column


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"select": ["x", "x.labels"]}, "'labels' is no property of a node"),
        ({"select": ["z.risk"]}, "no variable 'z.risk'"),
        ({"filter": "?x.risk > 'a' + 1"}, "number"),
        ({"filter": "?z.risk > 1"}, r"no variable \?z"),
    ],
)
def test_refused_values(options: dict, message: str) -> None:
    with pytest.raises(rpq.QueryError, match=message):
        query("?x a ?y", **options)


def test_readings_have_what_queries_read() -> None:
    one = query(
        "?x[:A] (a[n > 1]/@[risk > 3 and id <> 'u'])+ ?y . ?y b u[kind = 'k']", select=["x.color"], filter="?y.size > ?y.id"
    )
    plain, facts = readings_of(one)
    assert plain.window == WINDOW
    assert plain.labels.plain.named == {"a", "b"}
    assert facts.window == rpq.UnboundedWindow()
    assert facts.labels.named == {
        *(NodeTest("node", text) for text in (":A", "kind = 'k'")),
        *(NodeValue("value", name) for name in ("color", "size")),
    }
    assert node_tests_of(one) == {":A", "kind = 'k'", "id != 'u' and risk > 3"}
    assert node_values_of(one) == {"color", "size"}
    assert node_properties_of(one) == {"color", "kind", "risk", "size"}
    assert properties_of(one) == {"n"}
    assert query("?x a ?y").readings is None


def test_shares_are_divided_by_edges_alone() -> None:
    plain, tested = query("?x a ?y . ?y b ?z"), query("?x[:A] a ?y . ?y b ?z[risk > 3]")
    assert tested.hypercube == plain.hypercube
    assert query("?x[:A]").hypercube.grid(4).dimensions == {"x": 4}
    assert query("?x a ?y", select=["x.id", "x", "y"]).hypercube.columns == (("x", 0), ("y", 2))
    assert reads_of(plain.pattern.atoms)[0] == plain.hypercube.reads


def test_an_explanation_says_where_tests_are_decided() -> None:
    text = str(explain(query("?x[risk > 3] (a/@[:A])+ ?y . ?z[:B]")))
    assert "?x[risk > 3]: a test of the vertex" in text
    assert "?z[]: the vertex has a record" in text
    engine = rpq.Engine(query("?x[risk > 3] a ?y", select=["x.risk"]))
    engine.insert("u", "v", "a", 1)
    engine.set_node("u", properties={"risk": 5})
    assert "node[risk > 3]: read by atom 2, 1 edge" in str(engine.explain("q"))


def random_steps(engine: rpq.Engine, seed: int, risk: dict[str, int | None]):  # type: ignore[no-untyped-def]
    """Yield after each of some random tuples and records; `risk` has the property of the vertices with a record."""
    draw, time = random.Random(seed), 0
    for _ in range(40):
        kind = draw.random()
        time += draw.choice((0, 0, 1))
        ends = draw.choice("uvwx"), draw.choice("uvwx"), draw.choice("aab")
        vertex = draw.choice("uvwxy")
        if kind < 0.65:
            engine.insert(*ends, time)
        elif kind < 0.7:
            engine.delete(*ends, time)
        elif kind < 0.95:
            risk[vertex] = draw.choice((None, 0, 2, 3, 5))
            labels = draw.choice(((), ("A",)))
            engine.set_node(vertex, labels=labels, properties={"risk": risk[vertex]}, replace=True)
        else:
            risk.pop(vertex, None)
            engine.remove_node(vertex)
        yield


@pytest.mark.parametrize("seed", range(12))
def test_isomorphism_is_between_vertices_alone(seed: int) -> None:
    """Values of properties may be equal, and a vertex is not different from itself in its tests."""
    text = "?x[risk > 1] a ?y . ?y a ?z[not :A]"
    options = {"matching": "isomorphism"}
    engine = rpq.Engine(
        query(text, name="all"),
        query(text, name="different", **options),
        query(text, name="values", select=["x", "y", "z", "x.risk", "z.risk"], **options),
        query(text, name="filtered", filter="?x.risk >= ?z.risk", **options),
        _capacity=1,
    )
    risk: dict[str, int | None] = {}
    for _ in random_steps(engine, seed, risk):
        engine._check()
        different = {row for row in engine.answers("all") if len({*row}) == 3}
        assert {*engine.answers("different")} == different
        assert {*engine.answers("values")} == {(*row, risk.get(row[0]), risk.get(row[2])) for row in different}
        values = [(row, risk.get(row[0]), risk.get(row[2])) for row in different]
        assert {*engine.answers("filtered")} == {row for row, x, z in values if None not in (x, z) and x >= z}


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("test", ["risk is null", "risk < 4", "!:A or risk is null"])
def test_constants(test: str, seed: int) -> None:
    """A constant that an edge binds need not have a record; one that only a test has must."""
    plain = f"?y[{test}] a ?x"
    engine = rpq.Engine(
        query(plain, name="any", select=["y", "x"]),
        query(f"u[{test}] a ?x", name="bound"),
        query(f"?y[{test}]", name="records"),
        query(f"?x a ?y . u[{test}]", name="alone"),
        query("?x a ?y", name="edges"),
        _capacity=1,
    )
    for _ in random_steps(engine, seed, {}):
        engine._check()
        assert {*engine.answers("bound")} == {(x,) for y, x in engine.answers("any") if y == "u"}
        edges = {*engine.answers("edges")} if ("u",) in engine.answers("records") else set()
        assert {*engine.answers("alone")} == edges


@pytest.mark.parametrize("seed", range(6))
def test_simple_paths_and_merged_chains(seed: int) -> None:
    chain = "?x[:A] a+/@[risk < 4] ?m . ?m b ?y"
    engine = rpq.Engine(
        query("?x[risk > 1] a ?y[risk < 9]", name="walks"),
        query("?x[risk > 1] a ?y[risk < 9]", name="simple", paths="simple"),
        query("?x[risk > 1] a ?x", name="loops", paths="simple"),
        query(chain, name="chain", select=["x", "y"], distinct=True),
        query(chain, name="whole", select=["x", "m", "y"]),
        _capacity=1,
    )
    for _ in random_steps(engine, seed, {}):
        engine._check()
        assert {*engine.answers("simple")} == {row for row in engine.answers("walks") if row[0] != row[1]}
        assert len(engine.answers("loops")) == 0
        assert {*engine.answers("chain")} == {(x, y) for x, _, y in engine.answers("whole")}
        for row in engine.answers("chain"):
            assert [len(atom.steps) > 0 for atom in engine.witness(*row, query="chain").atoms] == [True, True]
