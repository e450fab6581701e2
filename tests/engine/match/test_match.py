"""Queries in MATCH drawn at random against brute force, over streams of edges and records of nodes.

semantics.md S17
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, assume, given, note
from hypothesis import strategies as st

import rpq
from tests.engine.edges.edge_streams import restored, static_columns, static_of
from tests.engine.nodes.node_queries import Described, changes_of, push_together, rows_of, told
from tests.engine.nodes.test_node_streams import check, check_stream, latest, pushed
from tests.reference_nodes import NodeEngine
from tests.reference_properties import Edge
from tests.strategies.drawn_match import StreamQuery, drawn_steps, match_queries, stream_queries
from tests.twins import examples, tiny

PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
"""Not shrinking, as texts and streams are drawn by their seeds."""

CHECKS = {"suppress_health_check": [*HealthCheck], "phases": PHASES}
IDENTITIES = st.sampled_from(("triple", "parallel", "id"))


def table(rows: list[tuple[Any, ...]]) -> pa.Table:
    """Return tuples (source, label, target, timestamp, amount, op) as a table."""
    order = ("source", "label", "target", "timestamp", "amount", "op")
    return pa.table({name: [row[place] for row in rows] for place, name in enumerate(order)})


def noted(query: StreamQuery) -> StreamQuery:
    """Return a query, which is shown where a test fails."""
    note((query.query.expression, query.drawn.language, query.drawn.parameters, query.query.window, query.query.semantics))
    return query


def check_queries(data: Any, *, most: int = 2, **options: Any) -> None:
    """Check that an engine has the rows of the oracle."""
    identity = data.draw(IDENTITIES)
    names = [f"q{place}" for place in range(data.draw(st.integers(1, most)))]
    queries = [noted(data.draw(stream_queries(name, identity, **options))) for name in names]
    oracle = NodeEngine(*(one.oracle for one in queries), identity=identity)
    engine = rpq.Engine(
        *(one.query for one in queries),
        edges=identity,
        threads=data.draw(st.sampled_from((1, 1, 2))),
        _capacity=data.draw(st.sampled_from((1, 2, 16))),
    )
    check_stream(data, identity, [engine], oracle, queries, draw_batch=drawn_steps)


@examples(400, **CHECKS)
@given(data=st.data())
def test_rows_are_those_of_brute_force(data):
    check_queries(data)


@pytest.mark.ci
@examples(400, **CHECKS)
@given(data=st.data())
def test_rows_of_many_texts_are_those_of_brute_force(data):
    check_queries(data, most=4)


@examples(100, **CHECKS)
@given(data=st.data())
def test_reports(data):
    check_queries(data, report=data.draw(st.sampled_from(("slide", "time"))))


@examples(100, **CHECKS)
@given(data=st.data())
def test_shares_have_the_rows_between_them(data):
    identity, count = data.draw(IDENTITIES), data.draw(st.integers(2, 3))
    query = noted(data.draw(stream_queries("q", identity)))
    oracle = NodeEngine(query.oracle, identity=identity)
    engines = [rpq.Engine(query.query, edges=identity, share=(number, count), _capacity=1) for number in range(count)]
    check_stream(data, identity, engines, oracle, [query], draw_batch=drawn_steps)


@examples(50, **CHECKS)
@given(data=st.data())
def test_static_edges(data):
    edges = data.draw(
        st.lists(
            st.tuples(*[st.sampled_from("uvw")] * 2, st.sampled_from("TS"), st.just({"amount": 2})), min_size=1, max_size=3
        )
    )
    query = noted(data.draw(stream_queries("q", "parallel")))
    note(edges)
    object.__setattr__(query.oracle, "static", static_of(edges))
    engine = rpq.Engine(query.query, edges="parallel", _capacity=data.draw(st.sampled_from((1, 16))))
    engine.load_static(static_columns(edges))
    oracle = NodeEngine(query.oracle, identity="parallel")
    check_stream(data, "parallel", [engine], oracle, [query], draw_batch=drawn_steps)


KEEPING = "!()[amount is null or rate is null or note is null or amount >= 0]"
"""A path expression that reads every label and property."""


@examples(100, **CHECKS)
@given(data=st.data())
def test_queries_that_come(data):
    """A query that comes begins with the answers that the table and the window give, or is refused until it can."""
    identity = data.draw(IDENTITIES)
    extent = {"size": data.draw(st.integers(1, 9)), "slide": data.draw(st.integers(1, 4))}
    running: list[Any] = [Described(KEEPING, name="q0", **extent), data.draw(stream_queries("q1", identity, **extent))]
    second = noted(data.draw(stream_queries("q2", identity, **extent)))
    oracle = NodeEngine(*(one.oracle for one in running), identity=identity)
    engine = rpq.Engine(*(one.query for one in running), edges=identity, _capacity=data.draw(st.sampled_from((1, 16))))
    time = 5
    for _ in range(data.draw(st.integers(1, 6))):
        steps = drawn_steps(data, identity, time)
        time = latest(steps, time)
        note(steps)
        expected = Counter(row for step in steps for row in told(oracle, step))
        assert pushed(data, engine, steps, running) == expected
        check(engine, oracle, running)
        if second not in running and data.draw(st.booleans()):
            try:
                changes = engine.register(second.query)
            except rpq.RegistrationError as refused:
                assert refused.available_from is None or refused.available_from > oracle.time
                continue
            note("registered")
            running.append(second)
            assert rows_of(changes, running) == Counter(oracle.register(second.oracle))
            check(engine, oracle, running)


def test_most_texts_are_taken():
    """More texts are taken than refused, so that the random tests see the whole language."""
    counts: Counter[str] = Counter()

    @examples(1000, **CHECKS)
    @given(st.sampled_from(["gql", "cypher"]).flatmap(lambda dialect: match_queries(dialect=dialect)))
    def count(drawn: Any) -> None:
        try:
            StreamQuery(drawn, "q")
        except rpq.QueryError:
            counts["refused"] += 1
        else:
            counts["taken"] += 1

    count()
    assert counts["refused"] < counts["taken"], counts


def edges_behind(witness: Any, edges: Iterable[Edge]) -> list[Edge]:
    """Return the edges of the window that a witness consists of, each of which it tells as it is."""
    found: dict[Any, Edge] = {}
    for atom in witness.atoms:
        assert atom.steps, witness
        for step, following in zip(atom.steps, atom.steps[1:], strict=False):
            assert step.ends[1] == following.ends[0], witness
        for step in atom.steps:
            alike = [
                edge
                for edge in edges
                if (edge.source, edge.label, edge.target, edge.timestamp)
                == (step.source, step.label, step.target, step.timestamp)
                and all(edge.properties.get(name, value) == value for name, value in (step.properties or {}).items())
            ]
            assert alike, (str(witness), edges)
            found |= {edge.key: edge for edge in alike}
    return [edge for edge in edges if edge.key in found]


@examples(100, **CHECKS)
@given(data=st.data())
def test_the_edges_of_a_witness_give_its_row(data):
    """The edges of each witness, beside the table of nodes, give the row; batches and restored engines tell the same."""
    identity, threads = data.draw(IDENTITIES), data.draw(st.sampled_from((1, 1, 2)))
    query = noted(data.draw(stream_queries("q", identity, is_plain=True)))
    engines = [kind(query.query, edges=identity, threads=threads, witness=True) for kind in (rpq.Engine, tiny(1))]
    oracle = NodeEngine(query.oracle, identity=identity)
    time = 5
    for _ in range(data.draw(st.integers(1, 5))):
        steps = drawn_steps(data, identity, time)
        time = latest(steps, time)
        note(steps)
        singly: list[dict[str, Any]] = []
        for step in steps:
            told(oracle, step)
            rows = changes_of(engines[0], step).to_arrow("q", witness=True).to_pylist()
            singly += rows
            check_witnesses(engines[0], oracle, query)
        in_batch = push_together(engines[1], steps).to_arrow("q", witness=True).to_pylist()
        assert Counter(map(repr, in_batch)) == Counter(map(repr, singly))
        if data.draw(st.integers(0, 3)) == 0:
            engines = [restored(engine, threads=threads, witness=True) for engine in engines]
            note("restored")


def check_witnesses(engine: rpq.Engine, oracle: NodeEngine, query: StreamQuery) -> None:
    """Check that the edges of the witness of each row give the row."""
    (running,) = oracle._running
    for row in Counter(map(tuple, engine.answers())):
        try:
            witness = engine.witness(*row)
        except rpq.QueryError:
            assume(False)
        assert witness is not None, row
        mine = edges_behind(witness, [*running.edges.values()])
        assert running.query.solutions(mine)[query.cells(row)], (row, str(witness))
    engine._check()


def test_a_witness_of_static_edges_and_of_optional_ones():
    text = "MATCH (x)-[e:T]->(y:A) OPTIONAL MATCH (y)-[f:S]->(z) RETURN x, e, y, f.amount, z"
    engine = rpq.Engine(rpq.Query(text, window=rpq.Window(size=5, slide=1), name="q"), edges="parallel")
    engine.load_static([("v", "A", "type"), ("v", "w", "S")])
    engine.push(table([("u", "T", "v", 1, 7, "+"), ("w", "T", "v", 2, 8, "+"), ("v", "S", "u", 3, 4, "+")]))
    (static,) = (row for row in engine.answers() if row[0] == "u" and row[-1] == "w")
    witness = engine.witness(*static)
    assert [(step.label, step.timestamp) for atom in witness.atoms for step in atom.steps] == [
        ("type", None), ("T", 1), ("S", None)
    ]  # fmt: skip
    assert dict(witness.binding)["z"] == "w" and engine.witness(*static[:-1], "u") is None
    assert engine.witness("u", static[1], "v", 4, "u") is not None
    assert engine.witness("u", static[1], "v", None, None) is None  # it has partners
    assert engine.witness("u", 99, "v", 4, "u") is None


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("MATCH (x)-[:T]->(y) RETURN x, count(*) AS n", ("u", 1)),
        ("MATCH (x) RETURN x", ("u",)),
        ("MATCH (x)-->(y) RETURN DISTINCT x, y", ("u", "v")),
    ],
)
def test_rows_of_groups_and_of_all_edges_have_no_witness(text, answer):
    engine = rpq.Engine(rpq.Query(text, window=rpq.Window(size=5, slide=1), node_label=None))
    engine.push(table([("u", "T", "v", 1, 7, "+")]))
    with pytest.raises(rpq.QueryError, match=r"MATCH with aggregates \(leave the aggregates out\)"):
        engine.witness(*answer)


# --- facts of nodes --------------------------------------------------------------------------------------------------

WINDOW = rpq.Window(size=5, slide=1)
ACCOUNTS = [
    {"node": "u", "labels": ["Account", "Closed"], "risk": 4, "land": "X"},
    {"node": "v", "labels": ["Account"], "risk": 1},
    {"node": "w", "risk": 9},
]
RISKS_OF_TWO = {"u": {"risk": 4}, "v": {"risk": 1}}
RISKS = RISKS_OF_TWO | {"w": {"risk": 9}}


@pytest.mark.parametrize(
    ("text", "answer", "facts"),
    [
        (
            "MATCH (x:Account)-[e:T]->(y WHERE y.risk < 3) RETURN x, e, y",
            ("u", 1, "v"),
            {"u": {"risk": 4, "labels": ["Account"]}, "v": {"risk": 1, "labels": ["Account"]}},
        ),
        ("MATCH (x)-[:T]->(y) RETURN x.land, y", ("X", "v"), {"u": {"land": "X"}}),
        ("MATCH (x)-[:T]->(y) WHERE x.risk > y.risk RETURN x", ("u",), RISKS_OF_TWO),
        ("MATCH (x)-[:T]->(y) OPTIONAL MATCH (y)-[:S]->(z) RETURN x, z.risk", ("u", None), RISKS_OF_TWO),
        ("MATCH (x {risk: 9}) RETURN x", ("w",), {"w": {"risk": 9}}),
        ("MATCH (x)-[:T]->(y) WHERE EXISTS { (y)-[:T]->(z) WHERE z.risk = 9 } RETURN x", ("u",), RISKS),
        ("MATCH ANY (x)((a)-[:T]->(b WHERE b.risk > 0)){2}(y) RETURN x, y", ("u", "w"), RISKS),
    ],
)
@pytest.mark.parametrize("are_kept", [True, False])
def test_a_witness_has_the_facts_that_the_query_reads(text, answer, facts, are_kept):
    engine = rpq.Engine(rpq.Query(text, window=WINDOW), edges="parallel", witness=are_kept)
    engine.push_nodes(ACCOUNTS)
    engine.push(table([("u", "T", "v", 1, 7, "+"), ("v", "T", "w", 2, 8, "+")]))
    witness = engine.witness(*answer)
    assert dict(witness.facts) == facts
    assert all(f"{name} {{" in str(witness) for name in facts)


def test_facts_of_vertices_that_went_are_not_those_of_others():
    """An operator held the row of a vertex whose id another one got."""
    engine = rpq.Engine(rpq.Query("MATCH (x) RETURN x, x.risk", window=WINDOW), _capacity=1)
    engine.push_rows([("v", "w", "T", 9), ("late", "later", "T", -1)])
    changes = engine.push_nodes([{"node": "new", "timestamp": 16, "risk": 2}])
    assert [tuple(row)[1:] for row in changes.rows()] == [("new", 2, 16, "+")]


def test_every_vertex_cannot_be_told_of_a_stream_that_lost_edges():
    engine = rpq.Engine(rpq.Query("T+", window=WINDOW))
    engine.push_rows([("u", "v", "T", 1), ("v", "w", "S", 2)])
    with pytest.raises(rpq.QueryError, match="not stored"):
        engine.register(rpq.Query("MATCH (x) RETURN x", window=WINDOW))
    engine.register(rpq.Query("MATCH (x {risk: 1}) RETURN x", window=WINDOW, name="tested"))
    assert engine.set_node("z", properties={"risk": 1}).added == 1


def test_labels_by_records_are_read_from_the_first_record_on():
    engine = rpq.Engine(rpq.Query("MATCH (x:P)-[:T]->(y) RETURN x, y", window=WINDOW, name="q"))
    assert "in brackets" not in str(engine.explain())
    assert engine.push_rows([("u", "v", "T", 1), ("w", "v", "T", 1), ("w", "P", "type", 1)]).added == 1
    assert [tuple(row) for row in engine.set_node("u", labels=["P"]).rows()] == [("q", "u", "v", 1, "+")]
    explained = str(engine.explain())
    assert "?x[:P]" in explained and "tests in brackets are decided for each record" in explained
    assert "facts of nodes" not in explained.partition("algebra")[0]


def test_values_of_an_optional_path_are_null_without_it():
    values = "length(p) AS l, size(nodes(p)) AS s, relationships(p) AS r"
    text = f"MATCH (x)-[:S]->(y) OPTIONAL MATCH p = (x)-[:T]->(z) RETURN {values}"
    engine = rpq.Engine(rpq.Query(text, window=WINDOW, language="cypher", name="q"), edges="parallel")
    changes = engine.push_rows([("u", "v", "S", 1), ("u", "w", "T", 2)])
    rows = [(*tuple(row)[1:3], row.op) for row in changes.rows()]
    assert rows == [(None, None, "+"), (None, None, "-"), (1, 2, "+")]
    assert [row.r is None for row in changes.rows()] == [True, True, False]


@pytest.mark.parametrize(
    ("path", "rows"),
    [
        ("(x)-[:T*0..]->(y)", [("u", "u"), ("u", "v"), ("v", "v")]),
        ("shortestPath((x)-[:T*0..2]->(y))", [("u", "u"), ("u", "v"), ("v", "v")]),
        ("(x)-[:T*1..]->(y)", [("u", "v")]),
    ],
)
def test_conditions_on_all_nodes_hold_for_paths_of_length_zero(path, rows):
    text = f"MATCH p = {path} WHERE all(n IN nodes(p) WHERE n.risk > 1) RETURN DISTINCT x, y"
    engine = rpq.Engine(rpq.Query(text, window=WINDOW, language="cypher", name="q"))
    changes = engine.push_nodes([{"node": name, "timestamp": 1, "risk": 3} for name in "uv"]).rows()
    changes += engine.push_rows([("w", "u", "T", 1), ("u", "v", "T", 2)]).rows()
    assert sorted(tuple(row)[1:3] for row in changes) == rows


@pytest.mark.parametrize("condition", ["id(a) IN ['v1', 'none']", "a.id = 'v1'"])
def test_paths_begin_at_the_nodes_that_a_condition_names(condition):
    """A condition that names no node has the same rows, and paths from all nodes."""
    text = "MATCH ANY (a)-[:T]->*(b) WHERE {} AND NOT EXISTS {{ MATCH ANY (a)-[:S]->()-[:T]->*(b) }} RETURN DISTINCT a, b"
    queries = [
        rpq.Query(text.format(one), window=rpq.UnboundedWindow(), name="q", semantics="explicit", node_label=None)
        for one in (condition, "id(a) ENDS WITH 'v1'")
    ]
    engines = [rpq.Engine(query) for query in queries]
    edges = [("v1", "v90", "S", 0), *((f"v{number}", f"v{number + 1}", "T", number) for number in range(99))]
    rows = [engine.push_rows(edges).rows() + engine.delete("v1", "v90", "S", 99).rows() for engine in engines]
    assert len(rows[0]) == 99 and sorted(rows[0]) == sorted(rows[1])
    assert engines[0].statistics().index_cells < engines[1].statistics().index_cells / 8
    query = rpq.Query(text.format(condition).replace("->*", "->+"), window=rpq.UnboundedWindow(), name="q")
    with_witness = rpq.Engine(query, witness=True)
    with_witness.push_rows(edges)
    assert [step.target for step in with_witness.witness("v1", "v3").atoms[0].steps] == ["v2", "v3"]
