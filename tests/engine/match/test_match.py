"""Queries in MATCH against brute force, at every tuple of a stream with a window, deletes and parallel edges."""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, assume, given
from hypothesis import strategies as st

import rpq
from tests.strategies.drawn_match import DrawnQuery, Edge, edge_streams, match_queries
from tests.twins import examples, tiny

SIZE = 12
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
"""Not shrinking, which takes minutes here; the text of a query says enough."""

COLUMNS = {"source": pa.string(), "target": pa.string(), "label": pa.string(), "timestamp": pa.int64()}
COLUMNS |= {"amount": pa.int64(), "op": pa.string()}


def table(rows: list[tuple[Any, ...]]) -> pa.Table:
    """Return tuples (source, label, target, timestamp, amount, op) as a table."""
    order = ("source", "label", "target", "timestamp", "amount", "op")
    return pa.table({name: pa.array([row[order.index(name)] for row in rows], kind) for name, kind in COLUMNS.items()})


class Snapshots:
    """The edges of a window after each tuple."""

    def __init__(self, identity: str, *, size: int = SIZE) -> None:
        self.identity = identity
        self.size = size
        self.edges: list[Edge] = []
        self.number = 0
        self.time: float = -math.inf

    def take(self, row: tuple[Any, ...]) -> list[Edge]:
        """Take a tuple; return the edges of the window."""
        source, label, target, time, amount, op = row
        self.time = max(self.time, time)
        self.edges = [edge for edge in self.edges if edge.timestamp > self.time - self.size]
        if time <= self.time - self.size:
            self.number += op == "+"  # late: it changes nothing, but has a number
            return self.edges
        ends = source, label, target
        if op == "-" or self.identity == "triple":
            self.edges = [edge for edge in self.edges if (edge.source, edge.label, edge.target) != ends]
        if op == "+":
            self.number += 1
            self.edges.append(Edge(source, label, target, time, amount, self.number))
        return self.edges


def plain(rows: Any) -> Counter[tuple[Any, ...]]:
    """Return rows with floats rounded, as exact quotients are not floats."""
    return Counter(
        {
            tuple(round(value, 9) if isinstance(value, float) else value for value in row): count
            for row, count in rows.items()
        }
    )


def check(
    query: DrawnQuery, stream: list[tuple[Any, ...]], identity: str, chunk: int, *, threads: int = 1, shares: int = 1
) -> None:
    """Check the answer and the sum of the changes after each chunk of a stream, of all shares together."""
    try:
        question = rpq.Query(
            query.text, window=rpq.Window(size=SIZE, slide=1), semantics="explicit", language=query.language, name="q"
        )
    except rpq.QueryError as error:
        assume("has two ids" not in str(error))  # which is refused, as nothing can match
        raise
    engines = [
        rpq.Engine(question, edges=identity, threads=threads, share=(number, shares), _capacity=4 if threads > 1 else 16)
        for number in range(shares)
    ]
    snapshots = Snapshots(identity)
    rows_of_engines: list[Counter[tuple[Any, ...]]] = [Counter() for _ in engines]
    edges: list[Edge] = []
    for first in range(0, len(stream), chunk):
        rows = stream[first : first + chunk]
        for engine, rows_of_share in zip(engines, rows_of_engines, strict=True):
            for row in engine.push(table(rows)).to_arrow("q").to_pylist():
                values = tuple(value for name, value in row.items() if name not in ("query", "timestamp", "op"))
                rows_of_share[values] += 1 if row["op"] == "+" else -1
            engine._check()
        for row in rows:
            edges = snapshots.take(row)
        expected = plain(query.rows(edges))
        answers = sum((Counter(map(tuple, engine.answers())) for engine in engines), Counter())
        assert plain(answers) == expected, (query.text, edges)
        assert plain(sum((+one for one in rows_of_engines), Counter())) == expected, (query.text, edges)
        assert all(count >= 0 for one in rows_of_engines for count in one.values()), query.text


@examples(400, suppress_health_check=[*HealthCheck], phases=PHASES)
@given(
    st.tuples(st.sampled_from(["parallel", "triple"]), st.sampled_from(["gql", "cypher"])).flatmap(
        lambda both: st.tuples(match_queries(language=both[1], is_numbered=both == ("parallel", "gql")), st.just(both[0]))
    ),
    edge_streams(),
    st.integers(1, 5),
)
def test_answers_are_those_of_brute_force(query_and_identity, stream, chunk):
    query, identity = query_and_identity
    check(query, stream, identity, chunk)


@examples(80, suppress_health_check=[*HealthCheck], phases=PHASES)
@given(
    st.sampled_from(["gql", "cypher"]).flatmap(lambda language: match_queries(language=language)),
    edge_streams(),
    st.sampled_from(["parallel", "triple"]),
    st.integers(1, 5),
    st.sampled_from([(2, 1), (1, 2), (1, 3), (2, 2)]),
)
def test_threads_and_shares_have_the_rows_between_them(query, stream, identity, chunk, division):
    threads, shares = division
    check(query, stream, identity, chunk, threads=threads, shares=shares)


@pytest.mark.ci
@examples(200, suppress_health_check=[*HealthCheck], phases=PHASES)
@given(
    st.sampled_from(["gql", "cypher"]).flatmap(lambda language: match_queries(language=language)),
    edge_streams(size=40),
    st.sampled_from(["parallel", "triple"]),
    st.integers(1, 7),
    st.sampled_from([(1, 1), (1, 1), (2, 1), (1, 2), (2, 3)]),
)
def test_answers_are_those_of_brute_force_on_longer_streams(query, stream, identity, chunk, division):
    threads, shares = division
    check(query, stream, identity, chunk, threads=threads, shares=shares)


def edges_behind(witness: Any, edges: list[Edge]) -> list[Edge]:
    """Return the edges of the window that a witness consists of, each of which it tells as it is."""
    found: dict[int, Edge] = {}
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
                and (step.properties is None or step.properties.get("amount", edge.amount) == edge.amount)
            ]
            assert alike, (str(witness), edges)
            found |= {edge.number: edge for edge in alike}
    return [edge for edge in edges if edge.number in found]


def check_witnesses(query: DrawnQuery, stream: list[tuple[Any, ...]], identity: str, *, threads: int, restored: int) -> None:
    """Check that the edges of the witness of each row give the row; the engine is saved and restored after some tuples."""
    try:
        question = rpq.Query(
            query.text, window=rpq.Window(size=SIZE, slide=1), semantics="explicit", language=query.language, name="q"
        )
    except rpq.QueryError as error:
        assume("has two ids" not in str(error))
        raise
    engine = rpq.Engine(question, edges=identity, threads=threads, witness=True)
    batched = tiny(1)(question, edges=identity, threads=threads, witness=True)
    parts = [batched.push(table(stream[: restored + 1]))]
    snapshots = Snapshots(identity)
    rows: list[Any] = []
    for place, tuple_ in enumerate(stream):
        changes = engine.push(table([tuple_])).to_arrow("q", witness=True).to_pylist()
        rows += changes
        edges = snapshots.take(tuple_)
        if place == restored:
            with tempfile.TemporaryDirectory() as folder:
                engine.save(f"{folder}/state")
                kinds = rpq.Engine, tiny(1)
                engine, batched = (kind.restore(f"{folder}/state", threads=threads, witness=True) for kind in kinds)
            if stream[restored + 1 :]:
                parts.append(batched.push(table(stream[restored + 1 :])))
        answers = Counter(map(tuple, engine.answers()))
        for row in answers:
            witness = engine.witness(*row)
            assert witness is not None, (query.text, row, edges)
            mine = edges_behind(witness, edges)
            assert query.rows(mine)[row], (query.text, row, str(witness), edges)
            named = {name: value for name, value in witness.binding if isinstance(value, str)}
            for (text, _, of), value in zip(query.items, row, strict=True):
                assert "." in of or named.get(of, value) == value, (query.text, text, str(witness))
        for row in changes:
            assert bool(row["path"]) == (row["op"] == "+"), (query.text, row)
        others = [(*row[:-1], "absent") for row in answers if isinstance(row[-1], str)]
        assert all(engine.witness(*row) is None for row in others), query.text
        engine._check()
    batched._check()
    in_batches = [row for part in parts for row in part.to_arrow("q", witness=True).to_pylist()]
    assert Counter(map(repr, in_batches)) == Counter(map(repr, rows)), query.text


@examples(80, suppress_health_check=[*HealthCheck], phases=PHASES)
@given(
    st.sampled_from(["gql", "cypher"]).flatmap(lambda language: match_queries(language=language)),
    edge_streams(size=14),
    st.sampled_from(["parallel", "triple"]),
    st.sampled_from([1, 1, 2]),
    st.integers(0, 20),
    st.randoms(use_true_random=False),
)
def test_the_edges_of_a_witness_give_its_row(query, stream, identity, threads, restored, random):
    query = replace(query, items=tuple(item for item in query.items if not item[1]))
    assume(query.items)  # a row of a group has no witness
    if identity == "parallel":  # where an edge does not replace another one, so that late ones are simple
        stream = [
            (*row[:3], row[3] - random.choice([0, 0, 0, 4, 30]), *row[4:]) if row[-1] == "+" else row for row in stream
        ]
    check_witnesses(query, stream, identity, threads=threads, restored=restored)


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


def test_rows_of_groups_have_no_witness():
    engine = rpq.Engine(rpq.Query("MATCH (x)-[:T]->(y) RETURN x, count(*) AS n", window=rpq.Window(size=5, slide=1)))
    engine.push(table([("u", "T", "v", 1, 7, "+")]))
    with pytest.raises(rpq.QueryError, match=r"MATCH with aggregates \(leave the aggregates out\)"):
        engine.witness("u", 1)


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
