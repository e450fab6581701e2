"""The oracle of MATCH against rows worked by hand."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.engine.nodes.node_queries import EdgeStep, step_in
from tests.reference_match import MatchOracle, Snapshot, told
from tests.reference_properties import Edge

pytest.importorskip("lark", reason="the extra match is not installed")


def snapshot_of(text: str) -> Snapshot:
    """Return the snapshot of steps that are separated by semicolons; the edges have the numbers 1, 2, …"""
    edges, nodes = [], {}
    for step in map(step_in, filter(None, map(str.strip, text.split(";")))):
        if isinstance(step, EdgeStep):
            edges.append(Edge(len(edges) + 1, step.source, step.label, step.target, step.timestamp, step.properties))
        else:
            nodes[step.node] = frozenset(step.labels), step.properties
    return Snapshot(edges, nodes)


CHAIN = "x T y 1 n=1; y T z 2 n=2; z T x 3 n=3"
PARALLEL = "x T y 1 n=1; x T y 2 n=2; y S z 3; node x :A risk=5; node y :B risk=1; node w :A risk=7"
STAR = "x T a 1 n=3; x T b 2 n=1; x T c 3 n=1; y T a 4 n=2; y S d 5"

CASES = [
    # graph, text, rows
    # bags, and different edges of a clause
    (PARALLEL, "MATCH (a)-[:T]->(b) RETURN a, b", [("x", "y"), ("x", "y")]),
    (PARALLEL, "MATCH (a)-[:T]->(b) RETURN DISTINCT a, b", [("x", "y")]),
    (PARALLEL, "MATCH (a)-[e:T]->(b), (a)-[f:T]->(b) RETURN e, f", [(1, 2), (2, 1)]),
    (PARALLEL, "MATCH (a)-[e:T]->(b) MATCH (a)-[f:T]->(b) RETURN e, f", [(1, 1), (1, 2), (2, 1), (2, 2)]),
    (PARALLEL, "MATCH (a)-[e:T]-(b) RETURN a, e", [("x", 1), ("x", 2), ("y", 1), ("y", 2)]),
    ("x T x 1", "MATCH (a)-[e]-(b) RETURN a, b", [("x", "x")]),
    # counted trails, of length zero too
    (CHAIN, "MATCH (a {id: 'x'})-[:T*1..2]->(b) RETURN b", [("y",), ("z",)]),
    (CHAIN, "MATCH (a {id: 'x'})-[:T*]->(b) RETURN b", [("y",), ("z",), ("x",)]),
    (PARALLEL, "MATCH (a)-[:T|S*2]->(b) RETURN a, b", [("x", "z"), ("x", "z")]),
    (PARALLEL, "MATCH (a)-[:T|S*2]->(b) RETURN DISTINCT a, b", [("x", "z")]),
    ("x T y 1; y T x 2", "MATCH (a {id: 'x'})-[:T*1..4]->(b) RETURN b", [("y",), ("x",)]),
    ("x T y 1; x T y 2", "MATCH (a)-[:T*2]-(b) RETURN a, b", [("x", "x"), ("x", "x"), ("y", "y"), ("y", "y")]),
    (PARALLEL, "MATCH (a:A)-[:T*0..1]->(b) RETURN a, b", [("x", "x"), ("x", "y"), ("x", "y"), ("w", "w")]),
    (PARALLEL, "MATCH (a:A)-[:T*0..1]->(b:B) RETURN a, b", [("x", "y"), ("x", "y")]),
    (CHAIN, "MATCH (a {id: 'x'})-[e:T]->(b)-[:T*1..3]->(c) RETURN b, c", [("y", "z"), ("y", "x")]),
    # pairs
    (PARALLEL, "MATCH ANY (a)-[:T]->+(b) RETURN a, b", [("x", "y")]),
    (CHAIN, "MATCH (a {id: 'x'}) WHERE EXISTS { (a)-[:T*2]->({id: 'z'}) } RETURN a", [("x",)]),
    (CHAIN, "MATCH p = shortestPath((a {id: 'x'})-[:T*]->(b)) RETURN b, length(p)", [("y", 1), ("z", 2), ("x", 3)]),
    (CHAIN, "MATCH p = shortestPath((a {id: 'x'})-[:T*]-(b)) RETURN b, length(p)", [("y", 1), ("z", 1)]),
    (
        "x T y 1 n=9; x T z 2 n=1; z T y 3 n=1",
        "MATCH p = shortestPath((a {id: 'x'})-[:T*]->(b {id: 'y'})) WHERE all(r IN relationships(p) WHERE r.n < 5) "
        "RETURN length(p)",
        [(2,)],
    ),
    # the universe, labels, records
    (PARALLEL, "MATCH (a) RETURN a", [("x",), ("y",), ("z",), ("w",)]),
    ("x type A 1; x T y 2", "MATCH (a) RETURN a, labels(a)", [("x", ("A",)), ("y", ())]),
    ("x type A 1; x T y 2", "MATCH (a:A)-->(b) WHERE NOT b:A RETURN a, b", [("x", "y")]),
    (PARALLEL, "MATCH (a) WHERE a.risk < 6 RETURN a, a.risk", [("x", 5), ("y", 1)]),
    # OPTIONAL MATCH
    (PARALLEL, "MATCH (a:A|B) OPTIONAL MATCH (a)-[e:S]->(b) RETURN a, b", [("x", None), ("y", "z"), ("w", None)]),
    (PARALLEL, "OPTIONAL MATCH (a:Z) RETURN a", [(None,)]),
    (PARALLEL, "OPTIONAL MATCH (a:Z) OPTIONAL MATCH (a)-[:T]->(b) RETURN a, b", [(None, None)]),
    # WITH
    (STAR, "MATCH (a)-[e:T]->(b) WITH a, count(*) AS n WHERE n > 1 RETURN a, n", [("x", 3)]),
    (STAR, "MATCH (a)-[e:T]->(b) WITH a, max(e.n) AS m MATCH (a)-[:S]->(c) RETURN a, m, c", [("y", 2, "d")]),
    (STAR, "MATCH (a)-[e:T]->(b) WITH b, e.n AS n ORDER BY n, b DESC LIMIT 2 RETURN b, n", [("c", 1), ("b", 1)]),
    (STAR, "MATCH (a)-[e:T]->(b) WITH b ORDER BY e.n DESC SKIP 1 LIMIT 1 RETURN b", [("a",)]),
    (STAR, "MATCH (a)-[e:T]->(b) WITH a WHERE e.n = 3 RETURN a", [("x",)]),
    (STAR, "MATCH (a)-[e:T]->(b) RETURN a, b LIMIT 2", [("x", "a"), ("x", "b")]),
    (STAR, "MATCH (a)-[e:T]->(b) RETURN a, count(*) ORDER BY count(*) LIMIT 1", [("y", 1)]),
    (STAR, "MATCH (a)-[e:T]->(b) WITH DISTINCT a RETURN *", [("x",), ("y",)]),
    (STAR, "MATCH (a)-[e:T]->(b) WITH *, e.n + 1 AS m WHERE m > 3 RETURN *", [("x", 1, "a", 4)]),
    # order
    ("x T y 1 n=2; x T z 2; x T w 3 n=1", "MATCH ()-[e]->(b) RETURN b ORDER BY e.n DESC LIMIT 1", [("z",)]),
    # collect
    (STAR, "MATCH (a)-[e:T]->(b) RETURN a, collect(b) AS l", [("x", ("a", "b", "c")), ("y", ("a",))]),
    (
        STAR,
        "MATCH (a)-[e:T]->(b) WITH a, b, e.n AS n ORDER BY n DESC RETURN a, collect(b) AS l",
        [("x", ("a", "b", "c")), ("y", ("a",))],
    ),
    (STAR, "MATCH (a)-[e:T]->(b) WITH b, e.n AS n ORDER BY n RETURN collect(b) AS l", [(("b", "c", "a", "a"),)]),
    (STAR, "MATCH (a)-[e:T]->(b) RETURN collect(DISTINCT e.n) AS l", [((1, 2, 3),)]),
    (STAR, "MATCH (a:Z) RETURN collect(a) AS l, count(a) AS n, sum(a.n) AS s, avg(a.n) AS v", [((), 0, 0, None)]),
    # UNWIND and UNION
    ("", "UNWIND [1, 2, 2] AS x RETURN x", [(1,), (2,), (2,)]),
    ("", "UNWIND null AS x RETURN x", []),
    ("", "UNWIND $xs AS x RETURN x + $y", [(4,), (5,)]),
    (
        STAR,
        "MATCH (a)-[:T]->(b) WITH collect(b) AS l UNWIND l AS c RETURN c, count(*) AS n",
        [("a", 2), ("b", 1), ("c", 1)],
    ),
    (STAR, "MATCH (a)-[:T]->() RETURN a UNION MATCH (a)-[:S]->() RETURN a", [("x",), ("y",)]),
    (STAR, "MATCH (a)-[:S]->() RETURN a UNION ALL MATCH (a)-[:S]->() RETURN a", [("y",), ("y",)]),
    # values
    ("", "RETURN 7 / 2, -7 / 2, -7 % 2, 7 / 2.0, 1 / 0, 'a' + 'b', [1] + 2", [(3, -3, -1, 3.5, None, "ab", (1, 2))]),
    ("", "RETURN CASE 2 WHEN 1 THEN 'a' WHEN 2 THEN 'b' END, CASE WHEN null THEN 1 ELSE 2 END", [("b", 2)]),
    ("", "RETURN CASE null WHEN null THEN 1 END, 1 IN [2, null], coalesce(null, 3)", [(None, None, 3)]),
    ("", "RETURN [x IN [1, 2, 3] WHERE x > 1 | x * x], [1, 2, 3][-1], [1, 2, 3][..2]", [((4, 9), 3, (1, 2))]),
    ("", "RETURN reduce(t = 0, x IN [1, 2] | t + x), all(x IN [] WHERE x > 1), none(x IN [1] WHERE x > 1)",
     [(3, True, True)]),
    ("", "RETURN single(x IN [1, 2] WHERE x > 1), any(x IN [1, null] WHERE x > 1), size([1, 2])", [(True, None, 2)]),
    ("", "RETURN 1 < 2 < 3, 3 > 2 > 2, 'abc' STARTS WITH 'ab', 'abc' =~ 'a.*', 'abc' CONTAINS 'x'",
     [(True, False, True, True, False)]),
    ("9 T 10 1", "MATCH (a)-[e]->(b) WHERE a < b RETURN a.id, type(e), id(e), endNode(e)", [("9", "T", 1, "10")]),
    # paths
    (
        "x T y 1 n=1; z S y 2 n=2",
        "MATCH p = (a)-[:T]->(b)<-[:S]-(c) RETURN p, nodes(p), relationships(p), length(p)",
        [("x-[T]->y<-[S]-z", ("x", "y", "z"), (1, 2), 2)],
    ),
    (CHAIN, "MATCH p = (a)-[:T*2]->(b) WHERE all(n IN nodes(p) WHERE n.id <> 'x') RETURN a", []),
    (CHAIN, "MATCH p = (a)-[:T*2]->(b) WHERE any(r IN relationships(p) WHERE r.n = 3) RETURN a", [("y",), ("z",)]),
    # subqueries
    (STAR, "MATCH (a)-[:S]->() RETURN a, COUNT { (a)-[:T]->() } AS n", [("y", 1)]),
    (STAR, "MATCH (a)-[:T]->(b) WHERE NOT (a)-[:S]->() AND b.id <> 'a' RETURN a, b", [("x", "b"), ("x", "c")]),
    (STAR, "MATCH (a)-[e:T]->(b) WHERE e.n = 2 OR exists((b)<-[:S]-()) RETURN a", [("y",)]),
    (STAR, "MATCH (a)-[:T]->(b) RETURN DISTINCT a, EXISTS { (a)-[f:S]->() } AS x", [("x", False), ("y", True)]),
]  # fmt: skip


@pytest.mark.parametrize(("graph", "text", "rows"), CASES)
def test_rows_of_cypher(graph, text, rows):
    oracle = MatchOracle(text=text, dialect="cypher", parameters={"xs": [1, 2], "y": 3})
    assert oracle.rows(snapshot_of(graph)) == Counter(tuple(map(told, row)) for row in rows)


@pytest.mark.parametrize(
    ("graph", "text", "rows"),
    [
        (PARALLEL, "MATCH (a)-[e:T]->(b), (a)-[f:T]->(b) RETURN e, f", [(1, 1), (1, 2), (2, 1), (2, 2)]),
        (PARALLEL, "MATCH DIFFERENT EDGES (a)-[e:T]->(b), (a)-[f:T]->(b) RETURN e, f", [(1, 2), (2, 1)]),
        (PARALLEL, "MATCH TRAIL (a)-[e:T]-(b)-[f:T]-(a) RETURN a, e, f",
         [("x", 1, 2), ("x", 2, 1), ("y", 1, 2), ("y", 2, 1)]),
        (CHAIN, "MATCH ACYCLIC (a)-[:T]->(b)-[:T]->(c)-[:T]->(d) RETURN a", []),
        (CHAIN, "MATCH SIMPLE (a)-[:T]->(b)-[:T]->(c)-[:T]->(d) RETURN a", [("x",), ("y",), ("z",)]),
        ("x T y 1; y T x 2", "MATCH ANY (a)-[:T]->{3}(b) RETURN a, b", [("x", "y"), ("y", "x")]),
        (CHAIN, "MATCH ANY (a) ((u)-[e:T]->(v) WHERE e.n < 3)+ (b) RETURN a, b", [("x", "y"), ("x", "z"), ("y", "z")]),
        (CHAIN, "MATCH ANY (a {id: 'x'}) (()-[:T]->()-[:T]->())* (b) RETURN b", [("x",), ("y",), ("z",)]),
        ("x T y 1; x S y 1; x type A 1", "MATCH (a)-[:!T]->(b) RETURN a, b", [("x", "y")]),
        ("", "RETURN 7 / 2", [(3.5,)]),
    ],
)  # fmt: skip
def test_rows_of_gql(graph, text, rows):
    assert MatchOracle(text=text).rows(snapshot_of(graph)) == Counter(rows)
