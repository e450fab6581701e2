"""Costs of cheapest paths: the engine gives the rows, answers and witnesses of the oracle.

semantics.md S16
"""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import rpq
from rpq.stream.arrays.properties import LOOSE_METADATA
from tests.engine.edges.edge_streams import apply, check_counts, check_shares, check_stream, drawn_tuples, push_one, restored
from tests.reference_cost import CostQuery, CountedCostQuery, costs, weight_of
from tests.reference_properties import Loose, PropertyEngine, Row, _selected
from tests.twins import examples, tiny

WINDOW = rpq.Window(size=10, slide=1)
EXPRESSIONS = (
    "a",
    "a+",
    "a/b*",
    "(a|b|c)+",
    "a/^a",
    "(a|^b)+",
    "a?/b",
    "^(a/b)+",
    "a{2,3}",
    "a[n > 1]+",
    "(a[n > 2]|b)+",
    "!(a|^b)[m = 'x' or n >= 0]+",
    "(!a|a[n > 2])+",
)
ENDS = st.none() | st.none() | st.frozensets(st.sampled_from("uvw"), max_size=2)
VALUES = {
    "int": st.sampled_from((None, -1, 0, 0, 1, 2, 3, 2**53 + 1, 2**60)),
    "float": st.sampled_from((None, -1.0, -0.0, 0.0, 0.1, 0.2, 0.3, 1e16, 1.0, float("nan"), float("inf"))),
    "decimal": st.sampled_from((None, *map(Decimal, ("-1", "0", "0.1", "0.2", "1", "2.55", "7.0001")))),
}


class Described:
    """The query of the oracle and that of the engine."""

    def __init__(self, name: str, what: str, *, counts: bool = False, **options: Any) -> None:
        self.oracle = CostQuery.path(what, name=name, cost="n", **options)
        size, slide = options.pop("size"), options.pop("slide")
        window: Any = rpq.Window(size=size, slide=slide)
        if counts:
            self.oracle, window = CountedCostQuery.of(self.oracle), rpq.CountWindow(size=size, step=slide)
        self.query = rpq.Query(what, window=window, name=name, cost="n", **options)


@st.composite
def described(draw, name: str, *, counts: bool = False, size: int | None = None, slide: int | None = None) -> Described:
    return Described(
        name,
        draw(st.sampled_from(EXPRESSIONS)),
        counts=counts,
        size=size or draw(st.integers(1, 9)),
        slide=slide or draw(st.integers(1, 4)),
        sources=draw(ENDS),
        targets=draw(ENDS),
    )


def rows_of(changes: rpq.Changes, queries: list[Described]) -> Counter:
    names = {one.query.name for one in queries}
    return Counter(
        Row(row.query, (row.source, row.target, as_told(row.cost)), row.timestamp, row.op)
        for row in changes.rows()
        if row.query in names
    )


def as_told(value: Any) -> tuple:
    return _selected("e.cost", frozenset(), {"e": _Told(value)})


class _Told:
    def __init__(self, value: Any) -> None:
        self.value = lambda name: value


def check(engine: rpq.Engine, oracle: PropertyEngine, queries: list[Described]) -> None:
    check_counts(engine, oracle, queries)
    for one in queries:
        name, solutions = one.query.name, oracle.solutions(one.query.name)
        answers = [*engine.answers(name)]
        assert Counter((x, y, as_told(cost)) for x, y, cost in answers) == solutions
        for x, y, cost in answers[:3]:
            path = engine.witness(x, y, cost, query=name)
            assert path is not None
            assert (path.vertices[0], path.vertices[-1]) == (x, y)
            steps = zip(path.vertices, path.labels, path.vertices[1:], strict=False)
            walked = [(v, label[1:], u) if label.startswith("^") else (u, label, v) for u, label, v in steps]
            edges = oracle.edges(name)
            some = [edge for edge in edges if (edge.source, edge.label, edge.target) in walked]
            (atom,) = one.oracle.atoms
            assert as_told(costs(atom.expression, some, "n")[x, y]) == as_told(cost), f"{path} does not cost {cost}"


def of_kind(data, rows: list[tuple], kind: str) -> list[tuple]:
    """Return tuples with other values of n, of a kind."""
    return [(*row[:4], row[4] | {"n": data.draw(VALUES[kind])}, *row[5:]) for row in rows]


@examples(200)
@given(data=st.data())
def test_random_streams(data):
    identity = data.draw(st.sampled_from(("triple", "parallel", "id")))
    queries = [data.draw(described(f"q{number}")) for number in range(data.draw(st.integers(1, 2)))]
    note([one.query for one in queries])
    oracle = PropertyEngine(*(one.oracle for one in queries), identity=identity)
    engine = tiny(data.draw(st.sampled_from((1, 2, 16))))(
        *(one.query for one in queries), edges=identity, threads=data.draw(st.sampled_from((1, 1, 2)))
    )
    check_stream(data, identity, engine, oracle, queries, rows_of=rows_of, check=check)


@examples(200)
@given(data=st.data(), kind=st.sampled_from(("int", "float", "decimal")))
def test_random_streams_of_single_tuples(data, kind):
    identity = data.draw(st.sampled_from(("triple", "parallel", "id")))
    queries = [data.draw(described(f"q{number}")) for number in range(data.draw(st.integers(1, 2)))]
    note([one.query for one in queries])
    oracle = PropertyEngine(*(one.oracle for one in queries), identity=identity)
    witness = data.draw(st.sampled_from((False, True)))
    engine = tiny(1)(*(one.query for one in queries), edges=identity, witness=witness)
    for row in of_kind(data, drawn_tuples(data, identity, 5, most=20), kind):
        note(row)
        expected = Counter(apply(oracle, row))
        assert rows_of(push_one(engine, row), queries) == expected
        check(engine, oracle, queries)
        if data.draw(st.integers(0, 9)) == 0:
            engine = restored(engine, threads=data.draw(st.sampled_from((1, 2))), witness=witness)


@examples(60)
@given(data=st.data())
def test_shares(data):
    identity = data.draw(st.sampled_from(("triple", "parallel", "id")))
    check_shares(data, identity, [data.draw(described(f"q{number}")) for number in range(2)], rows_of)


@examples(100)
@given(data=st.data())
def test_count_windows(data):
    identity = data.draw(st.sampled_from(("triple", "parallel", "id")))
    size, step = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 3))
    queries = [data.draw(described("q", counts=True, size=size, slide=step))]
    note([one.query for one in queries])
    oracle = PropertyEngine(*(one.oracle for one in queries), identity=identity)
    engine = tiny(data.draw(st.sampled_from((1, 16))))(*(one.query for one in queries), edges=identity)
    check_stream(data, identity, engine, oracle, queries, rows_of=rows_of, check=check)


@examples(60)
@given(data=st.data())
def test_queries_that_come_begin_with_the_edges_of_their_window(data):
    identity = data.draw(st.sampled_from(("triple", "parallel", "id")))
    first = data.draw(described("first"))
    atom = first.oracle.atoms[0].expression
    size, slide = first.oracle.size, first.oracle.slide
    second = Described("second", atom, size=size, slide=slide, sources=data.draw(ENDS), targets=None)
    oracle = PropertyEngine(first.oracle, second.oracle, identity=identity)
    engine = tiny(data.draw(st.sampled_from((1, 16))))(first.query, edges=identity)
    running = [first]
    for row in drawn_tuples(data, identity, 5, most=15):
        note(row)
        names = [one.query.name for one in running]
        expected = Counter(one for one in apply(oracle, row) if one.query in names)
        assert rows_of(push_one(engine, row), running) == expected
        if second not in running and data.draw(st.integers(0, 3)) == 0:
            running.append(second)
            solutions = oracle.solutions("second")
            expected = Counter({Row("second", values, oracle.time, "+"): count for values, count in solutions.items()})
            assert rows_of(engine.register(second.query), running) == expected
        engine._check()


def test_loose_values_are_floats_and_costs_texts() -> None:
    engine = rpq.Engine(rpq.Query("a+", window=WINDOW, cost="n"))
    columns = {"source": ["x", "y", "z"], "target": ["y", "z", "w"], "label": ["a"] * 3, "timestamp": [1, 2, 3]}
    field = pa.field("n", pa.string(), metadata=LOOSE_METADATA)
    data = pa.table(columns).append_column(field, pa.array(["2", " 0.5", "much"]))
    assert sorted((x, y, cost) for _, x, y, cost, _, _ in engine.push(data).rows()) == [
        ("x", "y", "2"),
        ("x", "z", "2.5"),
        ("y", "z", "0.5"),
    ]
    assert weight_of(_Told(Loose(" 0.5")), "n") == 0.5  # type: ignore[arg-type]


def test_a_sum_that_does_not_fit_is_an_error_only_where_it_is_an_answer() -> None:
    engine = rpq.Engine(rpq.Query("a/a/a", window=WINDOW, cost="n"))
    large = 2**62
    for source, target, value in (("x", "y", large), ("y", "z", large), ("x", "u", 1), ("u", "z", 2)):
        engine.insert(source, target, "a", 1, properties={"n": value})
    assert [tuple(row)[1:4] for row in engine.insert("z", "w", "a", 2, properties={"n": 3}).rows()] == [("x", "w", 6)]
    with pytest.raises(rpq.SumLimitError, match="tuple 0 of the batch makes a cost that does not fit") as error:
        engine.delete("x", "u", "a", 3)
    assert error.value.row == 0
    with pytest.raises(rpq.RpqError):
        engine.advance(9)


def test_columns_have_the_type_of_the_property() -> None:
    for value, kind in ((1, "int64"), (0.5, "double"), (Decimal("0.10"), "decimal128(38, 2)")):
        engine = rpq.Engine(rpq.Query("a", window=WINDOW, cost="n"))
        changes = engine.insert("x", "y", "a", 1, properties={"n": value})
        assert str(changes.to_arrow().schema.field("cost").type) == kind
        assert str(engine.answers().to_arrow().schema.field("cost").type) == kind
        assert [*engine.answers()] == [("x", "y", value)]
        assert [*engine.answers(limit=1)] == [("x", "y", value)]


def test_a_witness_shows_the_values_of_its_edges() -> None:
    engine = rpq.Engine(rpq.Query("a/^b", window=WINDOW, cost="n"), edges="parallel", witness=True)
    engine.insert("x", "y", "a", 1, properties={"n": 3})
    engine.insert("x", "y", "a", 2, properties={"n": 1})
    changes = engine.insert("z", "y", "b", 3, properties={"n": 2})
    assert changes.to_arrow(witness=True).to_pylist()[0]["path"] == '["x", "a", {"n": 1}, "y", "^b", {"n": 2}, "z"]'
    assert changes.to_arrow(witness=True).to_pylist()[0]["path_times"] == [2, 3]
    path = engine.witness("x", "z", 3)
    assert path is not None
    assert path.vertices == ("x", "y", "z") and path.labels == ("a", "^b")
    assert path.properties == ({"n": 1}, {"n": 2})
    assert engine.witness("x", "z", 5) is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cost": ""}, "cost='' is no property of an edge"),
        ({"cost": "timestamp"}, "cost='timestamp' is no property of an edge"),
        ({"cost": "source"}, "cost: 'source' is no property of an edge"),
        ({"cost": 5}, "cost is the name of a property of edges, not 5"),
        ({"cost": "n", "paths": "simple"}, "cost='n' cannot be combined with paths='simple'"),
        ({"cost": "n", "order": "increasing"}, "cost='n' cannot be combined with order='increasing'"),
        ({"cost": "n", "semantics": "implicit"}, "cost='n' cannot be combined with semantics=\"implicit\""),
        ({"cost": "n", "select": ("source", "target", "length")}, "select: the columns of a path query with a cost are"),
        ({"select": ("source", "target", "cost")}, "select: cost is a column where cost names a property of edges"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(options: dict, message: str) -> None:
    with pytest.raises(rpq.QueryError) as error:
        rpq.Query("a+", window=WINDOW, **options)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize("text", ["?x a ?y", "MATCH (x)-[:a]->(y) RETURN x", "SELECT * WHERE { ?x <a> ?y }"])
def test_other_notations_have_no_costs(text: str) -> None:
    with pytest.raises(rpq.QueryError, match="cost is an option of path queries"):
        rpq.Query(text, window=WINDOW, cost="n")


TESTED = {
    "a/@[risk > 1]": ("a", lambda u, v: v > 1),
    "(a/@[risk > 1])+": ("a+", lambda u, v: v > 1),
    "(@[risk > 1]/a)+": ("a+", lambda u, v: u > 1),
    "(@[risk > 1]/a/@[risk < 3])+": ("a+", lambda u, v: u > 1 and v < 3),
    "(^(@[risk > 1]/a)/@[risk < 3])+": ("^a+", lambda u, v: u > 1 and u < 3),
}
"""Expressions with tests, each as one without them over the edges whose ends have such risks."""


@examples(100)
@given(data=st.data(), text=st.sampled_from(sorted(TESTED)))
def test_tests_of_vertices(data, text):
    identity = data.draw(st.sampled_from(("triple", "parallel", "id")))
    plain, holds = TESTED[text]
    oracle = PropertyEngine(CostQuery.path("a", name="q", cost="n", size=9, slide=2), identity=identity)
    query = rpq.Query(text, window=rpq.Window(size=9, slide=2), name="q", cost="n")
    engine = tiny(data.draw(st.sampled_from((1, 16))))(query, edges=identity)
    risks = dict.fromkeys("uvw", float("nan"))  # of unknown vertices no test holds
    rows: Counter = Counter()
    for row in drawn_tuples(data, identity, 5, most=15):
        apply(oracle, row)
        changes = [*push_one(engine, row).rows()]
        if data.draw(st.booleans()):
            vertex = data.draw(st.sampled_from("uvw"))
            risks[vertex] = data.draw(st.integers(0, 4))
            note((row, vertex, risks[vertex]))
            changes += engine.set_node(vertex, properties={"risk": risks[vertex]}).rows()
        for change in changes:
            rows[change.source, change.target, change.cost] += 1 if change.op == "+" else -1
        fitting = [edge for edge in oracle.edges("q") if holds(risks[edge.source], risks[edge.target])]
        expected = {(x, y, cost) for (x, y), cost in costs(plain, fitting, "n").items()}
        assert set(engine.answers()) == expected
        assert {answer for answer, count in rows.items() if count} == expected
        engine._check()
        if data.draw(st.integers(0, 9)) == 0:
            engine = restored(engine)
