"""MATCH texts with the rows that were worked out by hand, and what is refused, with the place and what to write instead."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import Any

import pyarrow as pa
import pytest

import rpq
from rpq.errors import MatchError
from rpq.language.match.syntax import REFUSED
from rpq.language.notation import language_of

EDGES = [
    ("a", "b", "T", 1, 10),
    ("a", "b", "T", 2, 20),
    ("b", "c", "T", 3, 30),
    ("c", "a", "T", 4, None),
    ("a", "c", "S", 5, 5),
    ("a", "P", "type", 6, None),
    ("c", "P", "type", 7, None),
    ("c", "Q", "type", 8, None),
]
WINDOW = rpq.Window(size=100, slide=1)


def answers(text: str, edges: list[tuple[Any, ...]] = EDGES, **options: Any) -> Counter[tuple[Any, ...]]:
    """Return the answer over edges, each of which is an edge of its own."""
    engine = rpq.Engine(rpq.Query(text, window=WINDOW, **options), edges="parallel")
    columns = ("source", "target", "label", "timestamp", "amount")
    engine.push(pa.table({name: [edge[place] for edge in edges] for place, name in enumerate(columns)}))
    engine._check()
    return Counter(map(tuple, engine.answers()))


PAIRS = [(one, other) for one in "abc" for other in "abc"]


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("MATCH (x)-[e:T]->(y) RETURN x, y", "ab ab bc ca"),
        ("match (x)-[:T]->(y) return distinct x, y", "ab bc ca"),
        ("MATCH (x)-[:T]->(y)-[:T]->(z) RETURN x, z", "ac ac ba cb cb"),
        ("MATCH (x:P)-[:T]->(y) RETURN x, y", "ab ab ca"),
        ("MATCH (x:P&Q)-[:T]->(y) RETURN x, y", "ca"),
        ("MATCH (x:P|Q)-[e]->(y) RETURN x, y", "ab ab ca ac"),
        ("MATCH (x:P) RETURN x", "a c"),
        ("MATCH (x)<-[e:T]-(y) RETURN x, e.amount", [("b", 10), ("b", 20), ("c", 30), ("a", None)]),
        ("MATCH (x {id: 'a'})-[e]-(y) RETURN y", "b b c c"),
        ("MATCH (x)-[e:T|S WHERE e.amount < 20]->(y) RETURN e.amount AS n", [(10,), (5,)]),
        ("MATCH (x)-[e:!T]->(y) RETURN x, y", "ac"),
        ("MATCH (x)-[:type]->(y) RETURN x, y", "aP cP cQ"),
        ("MATCH (x)-[:%]->(y) RETURN count(*) AS n", [(5,)]),
        ("MATCH (x)-[e:T {amount: 20}]->(y) RETURN x", "a"),
        ("MATCH (x)-[e:T]->(y)-[f:T]->() WHERE f.amount > e.amount RETURN e.amount, f.amount", [(10, 30), (20, 30)]),
        (
            "MATCH (x)-[e:T]->(y), (x)-[f:T]->(y) RETURN e.amount, f.amount",
            [(10, 10), (10, 20), (20, 10), (20, 20), (30, 30), (None, None)],
        ),
        ("MATCH (x)-[e:T]->(y), (x)-[f:T]->(y) WHERE e <> f RETURN e.amount, f.amount", [(10, 20), (20, 10)]),
        ("MATCH DIFFERENT EDGES (x)-[e:T]->(y), (x)-[f:T]->(y) RETURN e.amount, f.amount", [(10, 20), (20, 10)]),
        ("MATCH ANY (x)-[:T]->+(y) RETURN x, y", PAIRS),
        ("MATCH TRAIL (x)-[:T]->+(y) RETURN DISTINCT x, y", PAIRS),
        ("MATCH ANY TRAIL (x)-[:T]->{1,2}(m)-[:S]->(y) RETURN x, y", "bc cc"),
        ("MATCH TRAIL (x)-[:S]->(m)-[:T]->+(y) RETURN DISTINCT x, y", "aa ab ac"),
        ("MATCH ANY (x)-[e:T WHERE x:P]->(m)-[:T]->(y) RETURN x, y", "ac cb"),
        ("MATCH (x)-[:T|:S]->(y) RETURN x, y", "ab ab bc ca ac"),
        ("MATCH (x)-[:T]->(y) WHERE x:P RETURN x, y", "ab ab ca"),
        ("MATCH (x)-[:T]->(y) WHERE NOT (x:P) RETURN x, y", "bc"),
        ("MATCH (x)-[:T]->(y) WHERE x IS LABELED P&Q RETURN x, y", "ca"),
        ("MATCH (x)-[:T]->(y) WHERE x IS NOT LABELED P RETURN x, y", "bc"),
        ("MATCH (x)-[:T]->(y) WHERE NOT (x:Q OR y:Q) RETURN x, y", "ab ab"),
        ("MATCH (x)-[:T]->(y) WHERE EXISTS { MATCH (y)-[:S]->(z) RETURN z } RETURN x, y", "ca"),
        ("MATCH (x)-[:T]->{2,3}(y) RETURN DISTINCT x, y", "ac ba cb aa bb cc"),
        ("MATCH ANY (x)-[e:T WHERE e.amount > 10]->+(y) RETURN x, y", "ab ac bc"),
        ("MATCH ANY (x) (()-[:T]->()-[:S]->()){1,} (y) RETURN x, y", "cc"),
        ("MATCH ANY (x)-[:T]->(m:P)-[:S]->(y) RETURN x, y", "cc"),
        ("MATCH ANY (x)-[:T]->(m:P)-[:S]->(y) MATCH (x {id: 'b'})-[:T]->(z) RETURN x, y, z", []),
        ("MATCH ANY (x)-[:S]->(m:P)-[:T]->(y) MATCH (x {id: 'a'})-[:S]->(z) RETURN x, y, z", "aac"),
        ("MATCH (x)-[:T]->(y) WHERE NOT EXISTS { MATCH (y)-[:S]->() } RETURN x, y", "ab ab bc"),
        (
            "MATCH (x)-[e:T]->(y) WHERE NOT EXISTS { (y)-[f:T]->(z) WHERE f.amount > e.amount } RETURN x, y",
            "bc ca",
        ),
        (
            "MATCH (x)-[e:T]->(y) RETURN x, count(*) AS n, sum(e.amount) AS s",
            [("a", 2, 30), ("b", 1, 30), ("c", 1, None)],
        ),
        (
            "MATCH ()-[e:T]->() RETURN count(e.amount) AS n, avg(e.amount) AS m, min(e.amount) AS l, max(e.amount) AS h",
            [(3, 20.0, 10, 30)],
        ),
        (
            "MATCH (x)-[:T]->(y) OPTIONAL MATCH (y)-[g:S]->(z) RETURN DISTINCT x, y, z, g.amount",
            [("a", "b", None, None), ("b", "c", None, None), ("c", "a", "c", 5)],
        ),
        (
            "MATCH (x)-[e:T]->(y) OPTIONAL MATCH (y)-[f:T]->(z) WHERE f.amount > e.amount + 15 RETURN e.amount, z",
            [(10, "c"), (20, None), (30, None), (None, None)],
        ),
        (
            "MATCH (x)-[e:T]->(y) OPTIONAL MATCH (y)-[g:S]->(z) MATCH (x {id: 'c'})-[f:T]->(w) RETURN x, y, z, g.amount, w",
            [("c", "a", "c", 5, "a")],
        ),
        (
            "MATCH (x)-[:T]->(y) OPTIONAL MATCH (y)-[:S]->(z) WHERE NOT EXISTS { (w)-[:S]->(y) } MATCH (w)-[:S]->(y) "
            "RETURN x, y, z, w",
            [("b", "c", None, "a")],
        ),
        ("OPTIONAL MATCH (x)-[:S]->(y) MATCH (v:Q)-[:T]->(w) RETURN x, y, v, w", "acca"),
        ("MATCH SIMPLE (x)-[:T]->(y)-[:T]->(z)-[:T]->(w) RETURN DISTINCT x", "a b c"),
        (
            "MATCH TRAIL (x)-[e:T]-(y)-[f:T]-(x) RETURN x, e.amount, f.amount",
            [("a", 10, 20), ("a", 20, 10), ("b", 10, 20), ("b", 20, 10)],
        ),
        ("MATCH (x)-[e:T]->(y) WHERE x.id IN ['a', 'b'] AND e.timestamp >= 2 RETURN e.timestamp", [(2,), (3,)]),
        ("MATCH (x)-[e:T]->(y) WHERE e.amount IS NULL OR e.amount BETWEEN 15 AND 25 RETURN e", [(2,), (4,)]),
        ("MATCH (`x`)-[e:`T`]->(y) /* all */ RETURN x AS `the source`, y // of T", "ab ab bc ca"),
    ],
)
def test_rows(text, rows):
    expected = [tuple(row) for row in rows.split()] if isinstance(rows, str) else rows
    assert answers(text) == Counter(expected)


NODES = [
    {"node": "a", "labels": ["P", "R"], "risk": 4, "land": "X"},
    {"node": "b", "labels": ["Q"], "risk": 1, "land": "X"},
    {"node": "d", "labels": ["R"], "risk": 9},
]
"""By record or edge a has the labels P and R, b has Q, c has P and Q, d, which is in no edge, has R; c has no risk."""

RECORDS_ALONE: dict[str, Any] = {"node_label": None}


@pytest.mark.parametrize(
    ("text", "options", "rows"),
    [
        ("MATCH (x {risk: 4})-[:T]->(y) RETURN x, y", {}, "ab ab"),
        ("MATCH (x)-[:T]->(y {land: 'X', risk: 1}) RETURN x, y", {}, "ab ab"),
        ("MATCH (x WHERE x.risk > 3 AND x.land = 'X')-[:S]->(y) RETURN x, y", {}, "ac"),
        ("MATCH (x)-[:T]->(y) WHERE x.risk IS NULL RETURN x, y", {}, "ca"),
        ("MATCH (x)-[:T]->(y) WHERE NOT x.risk > 3 RETURN x, y", {}, "bc"),
        ("MATCH (x)-[:T]->(y) WHERE x.risk > 3 OR x.id = 'c' RETURN x, y", {}, "ab ab ca"),
        ("MATCH (x)-[:T]->(y) WHERE x.risk > y.risk RETURN x, y", {}, "ab ab"),
        ("MATCH (x)-[e:T]->(y) WHERE e.amount > x.risk * 4 RETURN x, e.amount", {}, [("a", 20), ("b", 30)]),
        ("MATCH (x)-[:T]->(y) WHERE x.land = y.land RETURN DISTINCT x.id, y.land AS l", {}, "aX"),
        ("MATCH (x)-[:T]->(y) RETURN x, y.risk", {}, [("a", 1), ("a", 1), ("b", None), ("c", 4)]),
        ("MATCH (x {id: 'a'})-[:T]->(y) RETURN DISTINCT x.land, y", {}, "Xb"),
        ("MATCH (x)-[:T]->(y) RETURN x.land, sum(y.risk) AS s", {}, [("X", 2), (None, 4)]),
        ("MATCH (x)-[:T]->(y) RETURN max(x.risk) AS h, avg(x.risk) AS m, count(x.land) AS n", {}, [(4, 3.0, 3)]),
        ("MATCH (x)-[:T]->(y) RETURN count(DISTINCT x.land) AS n", {}, [(1,)]),
        ("MATCH (x)-[:T]->(y) RETURN DISTINCT x, labels(x)", {}, [("a", "P R"), ("b", "Q"), ("c", "P Q")]),
        ("MATCH (x)-[:T]->(y) RETURN DISTINCT x, labels(x)", RECORDS_ALONE, [("a", "P R"), ("b", "Q"), ("c", "")]),
        ("MATCH (x) RETURN x, labels(x) AS l", {}, [("a", "P R"), ("b", "Q"), ("c", "P Q"), ("d", "R")]),
        (
            "MATCH (x)-[:T]->(y) OPTIONAL MATCH (y)-[:S]->(z) RETURN DISTINCT x, labels(z)",
            {},
            [("a", None), ("b", None), ("c", "P Q")],
        ),
        ("MATCH (x)-[:T]->(y) RETURN count(DISTINCT labels(x)) AS n", {}, [(3,)]),
        (
            "MATCH (x)-[:T]->(y) OPTIONAL MATCH (y)-[:S]->(z) WHERE z.risk IS NULL AND x.land = 'X' RETURN DISTINCT x, y, z",
            {},
            [("a", "b", None), ("b", "c", None), ("c", "a", None)],
        ),
        (
            "MATCH (x)-[:T]->(y) OPTIONAL MATCH (y)-[:S]->(z) WHERE y.risk > 3 RETURN DISTINCT x, y.risk, z, z.land, z.risk",
            {},
            [("a", 1, None, None, None), ("b", None, None, None, None), ("c", 4, "c", None, None)],
        ),
        (
            "MATCH (x)-[:T]->(y) OPTIONAL MATCH (y)-[:T]->(z) WHERE z.risk > x.risk RETURN DISTINCT x, z, z.risk",
            {},
            [("a", None, None), ("b", "a", 4), ("c", None, None)],
        ),
        ("MATCH (x)-[:T]->(y) WHERE EXISTS { (z)-[:T]->(x) WHERE z.risk > x.risk } RETURN x, y", {}, "bc"),
        ("MATCH (x)-[:T]->(y) WHERE EXISTS { (y)-[:S]->(z) WHERE x.land IS NULL } RETURN x, y", {}, "ca"),
        ("MATCH (x)-[:T]->(y) WHERE NOT EXISTS { (z)-[:T]->(x) WHERE z.risk > 3 } RETURN x, y", {}, "ab ab ca"),
        ("MATCH (x:P)-[:T]->(y) RETURN x, y", {}, "ab ab ca"),
        ("MATCH (x:P)-[:T]->(y) RETURN x, y", RECORDS_ALONE, "ab ab"),
        ("MATCH (x:P&R)-[:T]->(y) RETURN x, y", {}, "ab ab"),
        ("MATCH (x:P|R)-[:T]->(y:Q) RETURN x, y", {}, "ab ab"),
        ("MATCH (x:!P)-[:T]->(y) RETURN x, y", {}, "bc"),
        ("MATCH (x:!P)-[:T]->(y) RETURN x, y", RECORDS_ALONE, "bc ca"),
        ("MATCH (x:!(P|Q)) RETURN x", {}, "d"),
        ("MATCH (x:Q&!P) RETURN x", {}, "b"),
        ("MATCH (x)-[:T]->(y) WHERE x:P OR x.risk < 3 RETURN x, y", {}, "ab ab bc ca"),
        ("MATCH (x)-[:T]->(y) WHERE NOT (x:R OR x.risk < 3) RETURN x, y", {}, []),
        ("MATCH (x)-[:T]->(y) WHERE NOT (x:R OR x.risk > 3) RETURN x, y", RECORDS_ALONE, "bc"),
        ("MATCH (x)-[:T]->(y) WHERE x:R AND x.risk > 3 OR y.risk IS NULL RETURN x, y", RECORDS_ALONE, "ab ab bc"),
        ("MATCH (x)-[:T]->(y) WHERE x IS NOT LABELED R RETURN x, y", RECORDS_ALONE, "bc ca"),
        ("MATCH (x) RETURN x", {}, "a b c d"),
        ("MATCH (x) RETURN x", RECORDS_ALONE, "a b c d P Q"),
        ("MATCH () RETURN count(*) AS n", {}, [(4,)]),
        ("MATCH (x), (y) RETURN count(*) AS n", {}, [(16,)]),
        ("MATCH (x) RETURN x, x.risk", {}, [("a", 4), ("b", 1), ("c", None), ("d", 9)]),
        ("MATCH (x:Q) RETURN x", {}, "b c"),
        ("MATCH (x:Q) RETURN x", RECORDS_ALONE, "b"),
        ("MATCH (x {risk: 9}) RETURN x", {}, "d"),
        ("MATCH (x WHERE x.risk IS NULL) RETURN x", {}, "c"),
        ("MATCH (x:R), (y {risk: 1}) RETURN x, y", {}, "ab db"),
        ("MATCH (x {id: 'd'}) RETURN x", {}, "d"),
        ("MATCH (x {risk: 9}) OPTIONAL MATCH (y) WHERE y.land = 'X' RETURN x, y", {}, "da db"),
        ("MATCH (x {risk: 9}) OPTIONAL MATCH (y) WHERE y.risk > x.risk RETURN x, y", {}, [("d", None)]),
        ("MATCH ANY (x) ((:P)-[:T]->(m WHERE m.land = 'X'))+ (y) RETURN x, y", RECORDS_ALONE, "ab"),
        ("MATCH ANY (x) (()-[:T]->({land: 'X'})){1,2} (y) RETURN x, y", {}, "ab ca cb"),
        ("MATCH ANY (x {land: 'X'})-[:T]->+(y WHERE y.risk IS NULL) RETURN x, y", {}, "ac bc"),
        ("MATCH ANY (x)-[e:T]->(m WHERE m.risk < 3)-[:T]->(y) RETURN x, y", {}, "ac"),
    ],
)
def test_rows_beside_facts_of_nodes(text, options, rows):
    expected = Counter(tuple(row) for row in (rows.split() if isinstance(rows, str) else rows))
    columns = ("source", "target", "label", "timestamp", "amount")
    edges = pa.table({name: [edge[place] for edge in EDGES] for place, name in enumerate(columns)})
    for paths, nodes_first in product(("walk",) if "ANY" in text else ("walk", "simple"), (True, False)):
        engine = rpq.Engine(rpq.Query(text, window=WINDOW, paths=paths, **options), edges="parallel")
        if nodes_first:
            engine.push_nodes(NODES)
        engine.push(edges)
        if not nodes_first:
            engine.push_nodes(NODES)
        engine._check()
        found = [[" ".join(one) if isinstance(one, list) else one for one in row] for row in engine.answers()]
        assert Counter(map(tuple, found)) == expected, (paths, nodes_first)


LOOPS = [("a", "a", "T", 1, 1), ("a", "b", "T", 2, 2)]
FORKS = [("u", "x", "T", 1, 1), ("v", "x", "T", 2, 2), ("u", "y", "S", 3, 3), ("v", "y", "S", 4, 4)]
"""u and v lead to x by T and to y by S."""

LABELS = [("a", "A", "type", 1, 1), ("a", "B", "type", 2, 2), ("b", "B", "type", 3, 3), ("a", "b", "T", 4, 4)]
"""a has the labels A and B, b the label B."""

CHAINS = [("a", "b", "T", 1, -5), ("b", "c", "T", 2, 2), ("x", "b", "T", 3, 3), ("a", "y", "T", 4, 4), ("y", "z", "T", 5, 1)]
"""a and x lead by b to c, and a by y to z."""


@pytest.mark.parametrize(
    ("edges", "text", "rows"),
    [
        (FORKS, "MATCH (a)-[:T]->(b) WHERE EXISTS { (a {id: 'u'})-[:S]->(c) } RETURN a", "u"),
        (FORKS, "MATCH (a)-[:T]->(b) WHERE NOT EXISTS { (a {id: 'u'})-[:S]->(c) } RETURN a", "v"),
        (FORKS, "MATCH (a)-[:T]->(b) OPTIONAL MATCH (a {id: 'u'})-[:S]->(c) RETURN a, c", [("u", "y"), ("v", None)]),
        (
            FORKS,
            "MATCH (a)-[:T]->(b) WHERE EXISTS { (c)-[:S]->(d) WHERE EXISTS { (a {id: 'u'})-[:S]->(d) } } RETURN a",
            "u",
        ),
        (LABELS, "MATCH (z:A|B) RETURN z", "a b"),
        (LABELS, "MATCH (z:A|B) WHERE z.id <> 'b' RETURN z", "a"),
        (LABELS, "MATCH (z:A|B), (z)-[:T]->(y) RETURN z, y", "ab"),
        (LABELS, "MATCH (:A|B), (z:B) RETURN z", "a a b b"),
        (LABELS, "MATCH (:A|B {id: 'b'}), (z:B) RETURN z", "a b"),
        (LABELS, "MATCH (x)-[:T]->(y) OPTIONAL MATCH (w:A|B) RETURN x, w", "aa ab"),
        (LABELS, "MATCH (x)-[:T]->(y) WHERE EXISTS { (y:A|C) } RETURN x", []),
        (CHAINS, "MATCH ANY (a {id: 'a'})-[:T]->(m {id: 'b'})-[:T]->(b) RETURN a, b", "ac"),
        (CHAINS, "MATCH ANY (a)-[:T]->(m {id: 'b'})-[:T]->(b {id: 'c'}) RETURN a, b", "ac xc"),
        (CHAINS, "MATCH (a)-[`4`:T]->(b)-[:T]->(c) RETURN a, b, c", "abc ayz xbc"),
        (CHAINS, "MATCH (a)-[:T]->(`1`)-[:T]->(`2`) RETURN a, `1`, `2`", "abc ayz xbc"),
        (CHAINS, "MATCH ANY (a) ((m)-[:T]->(n)){2} (b) RETURN a, b", "ac xc az"),
        (CHAINS, "MATCH ANY (a)-[e:T]->(m {id: 'b'})-[f:T WHERE f.amount > e.amount]->(b) RETURN a, b", "ac"),
        (LOOPS, "MATCH ANY ACYCLIC (a)-[:T]->(b) RETURN a, b", "ab"),
        (LOOPS, "MATCH ANY SIMPLE (a)-[:T]->(b) RETURN a, b", "aa ab"),
        (CHAINS[:1], "MATCH DIFFERENT EDGES ANY (a)-[:T]-(b) RETURN a, b", "ab ba"),
        (CHAINS, "MATCH (a)-[e:T {amount: -5}]->(b) RETURN a, b", "ab"),
        (CHAINS, r"MATCH (a {id: '\u0061'})-[:T]->(b) RETURN b", "b y"),
        ([(-7, 1, "T", 1, 1), (7, 2, "T", 2, 2)], "MATCH (a {id: -7})-[:T]->(b) RETURN b", [(1,)]),
        ([(12, 1, "T", 1, 1), (12, 2, "T", 2, 2)], "MATCH (a)-[:T]->(b) RETURN sum(a) AS s", [(24,)]),
    ],
)
def test_rows_over_other_edges(edges, text, rows):
    expected = [tuple(row) for row in rows.split()] if isinstance(rows, str) else rows
    assert answers(text, edges) == Counter(expected)


def test_a_property_may_be_called_number():
    engine = rpq.Engine(rpq.Query("MATCH (a)-[e:T]->(b) RETURN e, max(e.number) AS most", window=WINDOW), edges="parallel")
    engine.insert("a", "b", "T", 5, properties={"number": 7})
    assert [*engine.answers()] == [(1, 7)]


@pytest.mark.parametrize(
    ("language", "given", "rows"),
    [
        ("gql", 5, [(None, "+"), (None, "-"), (5, "+")]),
        ("cypher", 5, [(0, "+"), (0, "-"), (5, "+")]),
        ("cypher", 5.5, [(0, "+"), (0, "-"), (5.5, "+")]),
    ],
)
def test_a_sum_is_a_number_before_its_property_has_a_type(language, given, rows):
    query = rpq.Query("MATCH (a)-[e:T]->(b) RETURN sum(e.w) AS s", window=WINDOW, language=language, semantics="explicit")
    engine = rpq.Engine(query, edges="parallel")
    found = [engine.insert("a", "b", "T", time, properties={"w": w}).rows() for time, w in enumerate([None, given])]
    assert [(row[1], row[-1]) for changes in found for row in changes] == rows


def test_a_sum_of_times_is_an_integer():
    engine = rpq.Engine(rpq.Query("MATCH (a)-[e:T]->(b) RETURN sum(e.at) AS s", window=WINDOW), edges="parallel")
    at = pa.array([7, 8], pa.timestamp("ms"))
    columns = {"source": ["a", "a"], "target": ["b", "b"], "label": ["T", "T"], "timestamp": [1, 2], "at": at}
    engine.push(pa.table(columns))
    assert [*engine.answers()] == [(15,)]


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("MATCH (x)-[:T*1..2]->(y) RETURN DISTINCT x, y", "ab bc ca ac ba cb"),
        ("MATCH (x)-[:T*]->(y) RETURN DISTINCT x, y", PAIRS),
        ("MATCH shortestPath((x)-[:T*]->(y)) RETURN x, y", PAIRS),
        ("MATCH (x)-[e:T]->(y), (x)-[f:T]->(y) RETURN e.amount, f.amount", [(10, 20), (20, 10)]),
        ("MATCH (x)-[e:T]->(y) MATCH (x)-[f:T]->(y) RETURN count(*) AS n", [(6,)]),
        ("MATCH (x)-[e:T]->(y) WHERE x.id = 'c' RETURN sum(e.amount) AS s", [(0,)]),
    ],
)
def test_rows_in_cypher(text, rows):
    expected = [tuple(row) for row in rows.split()] if isinstance(rows, str) else rows
    assert answers(text, language="cypher") == Counter(expected)


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("MATCH (a)-[e:T]->(b) RETRUN a", (1, 22), "did you mean 'RETURN'?"),
        ("MATCH (a)-[e:T]->(b)\nRETURN c", (2, 8), "there is no variable c; there are a, e, b"),
        ("MATCH (a)-[e:T]->(b) RETURN labels(e)", (1, 29), "e is an edge"),
        ("MATCH (a)-[e:T]->(b) RETURN labels(a.risk)", (1, 29), "the variable of a node"),
        ("MATCH (a)-[e:T]->(b) RETURN max(labels(a)) AS m", (1, 29), "max of labels"),
        ("MATCH (a)-[e:T]->(b) RETURN a.`labels()`", (1, 31), "write labels(a)"),
        ("MATCH (a)-[e:T]->(b) RETURN a.node", (1, 29), "'node' is no property of a node"),
        ("MATCH (a {labels: 'x'})-[e:T]->(b) RETURN a", (1, 11), "'labels' is no property of a node"),
        ("MATCH (a)-[e:T]->(b) WHERE a.`:P` = true RETURN a", (1, 28), "':P' is no property of a node"),
        ("MATCH (a {`:P`: true})-[e:T]->(b) RETURN a", (1, 11), "begins with a colon"),
        ("MATCH (a)-[e:T]->(b) WHERE a.risk > 'x' + 1 RETURN a", (1, 28), "text is not a number"),
        ("MATCH (a)-[:T]->{3,2}(b) RETURN DISTINCT a", (1, 17), "3"),
        ("MATCH (a)-[:T]->+(b) RETURN a", (1, 17), "needs ANY before it"),
        ("MATCH (a)-[:T*1..3]->(b) RETURN DISTINCT a", (1, 14), "write {1,3} behind the edge"),
        ("MATCH (a)~[:T]~(b) RETURN a", (1, 10), "-[…]- matches either"),
        ("MATCH ALL SHORTEST (a)-[:T]->+(b) RETURN a", (1, 7), "ANY SHORTEST"),
        ("MATCH ANY (a)-[e:T]->+(b) RETURN e.amount", (1, 34), "e is inside a path"),
        ("MATCH ANY (a)-[:T]->(m)-[:T]->(b) RETURN a, m", (1, 45), "m is inside a path"),
        ("MATCH ANY (a)-[e:T WHERE e.amount > a.id]->+(b) RETURN a", (1, 26), "its own edge alone"),
        ("MATCH ANY (a) (()-[:T]->(:P)){2} (b) RETURN a", (1, 25), "pass node_label=None"),
        ("MATCH ANY (a) ((x)-[:T]->(y WHERE y.n > x.n)){2} (b) RETURN a", (1, 35), "reads this node alone"),
        ("MATCH ACYCLIC (a)-[:T]->+(b) RETURN DISTINCT a", (1, 7), 'paths="simple",'),
        ("MATCH TRAIL (a)-[:T]->{2,3}(b) RETURN DISTINCT a", (1, 7), "leave TRAIL out"),
        ("MATCH TRAIL (a)-[:T]->+(b)-[:T|S]->+(c) RETURN DISTINCT a", (1, 7), "no label in common"),
        ("MATCH (a)-[e:T]->(b) WHERE e:T RETURN a", (1, 28), "stand in its brackets"),
        ("MATCH DIFFERENT EDGES (a)-[:T]->+(b)-[:T]->(c) RETURN DISTINCT a", (1, 26), "REPEATABLE ELEMENTS"),
        ("MATCH (a)-[e:T]->(b)-[e:T]->(c) RETURN a", (1, 21), "name them apart"),
        ("MATCH (a)-[a:T]->(b) RETURN a", (1, 10), "rename one of them"),
        ("MATCH (a)-[e:T&S]->(b) RETURN a", (1, 10), "an edge has one label"),
        ("MATCH (a:!(P&Q))-[e:T]->(b) RETURN a", (1, 7), "pass node_label=None"),
        ("MATCH (a:%)-[e:T]->(b) RETURN a", (1, 7), "% in the labels of a node"),
        ("MATCH (a)(b)-[e:T]->(c) RETURN a", (1, 10), "write an edge between them"),
        ("MATCH (a:P|Q&R)-[e:T]->(b) RETURN a", (1, 7), "write WHERE a:A OR a:B&C"),
        ("MATCH (a)-[e:T]->(b) WHERE EXISTS { (b)-[:S]->(z) RETURN count(*) } RETURN a", (1, 58), "even without a match"),
        ("MATCH (z)-[:S]->() MATCH ANY (a)-[e:T WHERE z:P]->(m)-[:T]->(b) RETURN a", (1, 45), "reads the path alone"),
        (
            "MATCH ANY (a)-[:T]->(m WHERE EXISTS { (m)-->(x) })-[:T]->(b), (b)-[:S]->(x) RETURN a",
            (1, 45),
            "reads the path alone",
        ),
        ("MATCH (a)-[e:T]->(b) WHERE count(*) > 5 RETURN a", (1, 28), "aggregates stand in WITH"),
        ("MATCH (a)-[e:T]->(b) WHERE sine(a) > 5 RETURN a", (1, 28), "unknown function 'sine'"),
        ("MATCH shortestPth((a)-[:T]->+(b)) RETURN a", (1, 7), "did you mean 'shortestPath'?"),
        ("MATCH (a)-[e:T]->(b) WHERE e.amount > $x RETURN a", (1, 39), "no value for the parameter $x"),
        ("MATCH (a)-[e:T]->(b) WHERE e > 5 RETURN a", (1, 28), "e.timestamp"),
        ("MATCH (a)-[e:T]->(b) RETURN sum(e.timestamp) AS n", (1, 29), "take min or max"),
        (r"MATCH (a {id: '\u00g1'})-[e:T]->(b) RETURN a", (1, 15), "four hexadecimal digits"),
        (r"MATCH (a {id: '\ud800'})-[e:T]->(b) RETURN a", (1, 15), r"\ud800 is no character"),
        ("MATCH ANY (a)-[:T]->(m)-[:T]->(m)-[:T]->(b) RETURN a", (1, 31), "m is inside a path"),
        ("MATCH ANY (a)-[e:T]->()-[e:T]->(b) RETURN a", (1, 24), "name them apart"),
        ("MATCH ANY (a) ((m)-[:T]->(n)){2} (b), (m)-[:S]->(c) RETURN a", (1, 39), "m is inside a path"),
        ("MATCH (a)-[e:T]->(b) RETURN a AS query", (1, 29), "a column called query"),
        ("MATCH (a)-[e:T]->(b) RETURN a, a", (1, 32), "two columns"),
        ("MATCH (a)-[e:T]->(b) RETURN a AS x WITH x", (1, 36), "unexpected"),
        ("MATCH (a)-[e:T]->(b", (1, 20), "the text ends too early"),
        ("MATCH (a)-[e:T]->(b) WHERE e.label = 'x' RETURN a", (1, 28), "no property of an edge"),
    ],
)
def test_what_is_refused_has_a_place_and_says_what_to_write(text, place, message):
    with pytest.raises(MatchError) as caught:
        rpq.Query(text, window=WINDOW)
    assert (caught.value.line, caught.value.column) == place
    assert message in str(caught.value)
    assert str(caught.value).splitlines()[-1].strip() == "^"


@pytest.mark.parametrize("word", sorted(REFUSED)[::4])
def test_each_refused_word_is_named(word):
    where = " WHERE a.id " if word in ("STARTS", "ENDS", "CONTAINS") else " WHERE a = b " if word == "XOR" else " "
    with pytest.raises(MatchError) as caught:
        rpq.Query(f"MATCH (a)-[e:T]->(b){where}{word} x RETURN a", window=WINDOW)
    assert caught.value.message == REFUSED[word]


def test_the_language_of_a_text():
    texts = {
        "MATCH (a)-->(b) RETURN a": "gql",
        "  // why\n/* and */ optional  match (a)-->(b) RETURN a": "gql",
        "Match(a)-->(b) RETURN a": "gql",
        "UNWIND $ids AS id MATCH (a {id: id}) RETURN a": "gql",
        "// why\nWITH 'x. y' AS text RETURN text": "gql",
        "RETURN 1 AS one": "gql",
        "MATHC (a)-[:T]->(b) RETURN a": "gql",
        "OPTINAL MATCH (a:P) RETURN a": "gql",
        "CREATE (a)-[:T]->(b)": "gql",
        "match": "path",
        "match/a*": "path",
        "match+": "path",
        "return / with*": "path",
        "a return b": "path",
        "?x match ?y": "pattern",
        "match a ?y . ?y with return": "pattern",
        "with a ?y": "pattern",
        "WITH <g> DELETE { ?x <a> ?y } WHERE {}": "sparql",
        "matches": "path",
    }
    assert {text: language_of(text) for text in texts} == texts


@pytest.mark.parametrize(
    ("text", "options", "hint"),
    [
        ("MATHC (a)-[:T]->(b) RETURN a", {}, "did you mean 'MATCH'?"),
        ("UNWND [1] AS x MATCH (a) RETURN a", {}, "did you mean 'UNWIND'?"),
        ("?x a ?y", {"language": "cypher"}, "unexpected '?'"),
        ("match/a", {"language": "gql"}, "unexpected '/'"),
    ],
)
def test_a_text_that_resembles_match_is_refused_as_one(text, options, hint):
    with pytest.raises(MatchError) as caught:
        rpq.Query(text, window=WINDOW, **options)
    assert hint in str(caught.value)


def test_a_count_window_takes_what_binds_edges_too():
    query = rpq.Query("MATCH (a)-[:T]->(b) RETURN a", window=rpq.CountWindow(size=2))
    engine = rpq.Engine(query)
    engine.push_rows([("a", "b", "T", 1), ("c", "b", "T", 2), ("d", "b", "T", 3), ("d", "e", "T", 4)])
    assert [*engine.answers()] == [("d",), ("d",)]
    text = "MATCH (a)-[e:T WHERE e.n > 1]->(b) RETURN a, e.n AS n"
    bound = rpq.Engine(rpq.Query(text, window=rpq.CountWindow(size=2), semantics="explicit"), edges="parallel")
    rows = [bound.insert(source, "b", "T", time, properties={"n": time}).rows() for time, source in enumerate("aaaca", 1)]
    shown = [[f"{row.op} {row.a} {row.n}" for row in of_one] for of_one in rows]
    assert shown == [[], ["+ a 2"], ["+ a 3"], ["- a 2", "+ c 4"], ["- a 3", "+ a 5"]]


def test_static_edges_go_with_what_binds_no_edge():
    texts = ["MATCH (a)-[:T]->(b)-[:T]->(c) RETURN a, b, c", "MATCH (a)-[:T]->(b) RETURN b, count(*) AS n"]
    engine = rpq.Engine(*(rpq.Query(text, window=WINDOW) for text in texts))
    engine.load_static([("a", "b", "T")])
    engine.push_rows([("b", "c", "T", 1), ("x", "b", "T", 2)])
    assert sorted(engine.answers(texts[0])) == [("a", "b", "c"), ("x", "b", "c")]
    assert sorted(engine.answers(texts[1])) == [("b", 2), ("c", 1)]


BOUND = "MATCH (x)-[e:T]->(y) OPTIONAL MATCH (y)-[f:T]->(z) RETURN e.who, x, f.n, z"


@pytest.mark.parametrize("language", ["gql", "cypher"])
@pytest.mark.parametrize("distinct", ["", "DISTINCT "])
@pytest.mark.parametrize(
    ("amounts", "average"),
    [
        ([0.1, 0.1, 0.1], 0.1),
        ([0.1, None, 0.1, 0.1], 0.1),
        ([1e308, 1e308, None], 1e308),
        ([2**62, 2**62 + 2, 2**62 + 4], float(2**62 + 2)),
        ([1, 2, None], 1.5),
        ([None], None),
    ],
)
def test_average_is_rounded_once(amounts, average, language, distinct):
    edges = [("a", "b", "T", number, amount) for number, amount in enumerate([*amounts, 99])]
    text = f"MATCH (x)-[e:T]->(y) RETURN x, avg({distinct}e.amount) AS m, count(e.amount) AS n"
    engine = rpq.Engine(rpq.Query(text, window=WINDOW, language=language), edges="id")
    columns = ("source", "target", "label", "timestamp", "amount")
    tuples = pa.table({name: [edge[place] for edge in edges] for place, name in enumerate(columns)})
    engine.push(tuples.append_column("edge", pa.array([*range(len(edges))])))
    engine.delete("a", "b", "T", len(edges), edge=len(amounts))
    assert set(engine.answers()) == {("a", average, len(amounts) - amounts.count(None))}


@pytest.mark.parametrize("numbers", [[5, 7, 9], ["a", "b", "c"], [None, None, 1.5], [None, None, "a"]])
@pytest.mark.parametrize("ids", [[1, 2, 3], ["one", "two", "three"]])
@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("MATCH (x)-[e:T]->(y) RETURN x, e, e.n AS n", {}),
        ("MATCH (x)-[e:T]->(y) RETURN min(x) AS x, max(e.n) AS n", {}),
        ("MATCH (x)-[e:T]->(y) RETURN x, sum(e.n) AS n", {"language": "cypher"}),
        ("?x ?e:T ?y", {"select": ["e", "e.n"]}),
    ],
)
def test_types_do_not_depend_on_batches(text, options, ids, numbers):
    """The first tuple has a label that no query reads; the last one deletes what the second one inserted."""
    whole = pa.table(
        {
            "source": ["a", "b", "c", "b"],
            "target": ["b", "c", "d", "c"],
            "label": ["other", "T", "T", "T"],
            "timestamp": [1, 2, 3, 4],
            "op": ["+", "+", "+", "-"],
            "edge": [*ids, ids[1]],
            "n": [*numbers, None],
        }
    )
    halves, singles = [whole.slice(0, 2), whole.slice(2)], [whole.slice(row, 1) for row in range(len(whole))]
    without_nulls = [one.drop_columns("n") if one["n"].null_count else one for one in singles]
    found = []
    for pushes in ([whole], halves, singles, without_nulls):
        engine = rpq.Engine(rpq.Query(text, window=WINDOW, name="q", **options), edges="id")
        found.append([tuple(row.values()) for one in pushes for row in engine.push(one).to_arrow("q").to_pylist()])
        inserted = Counter(row[:-2] for row in found[-1] if row[-1] == "+")
        inserted.subtract(row[:-2] for row in found[-1] if row[-1] == "-")
        assert +inserted == Counter(("q", *row) for row in engine.answers())
    assert found[1:] == found[:1] * 3


def pushed_one(engine: rpq.Engine, source: str, target: str, time: int, who: str, n: Any) -> Counter[tuple[Any, ...]]:
    """Push an edge with two properties; return the changes."""
    one = {"source": [source], "target": [target], "label": ["T"], "timestamp": [time], "who": [who], "n": [n]}
    return Counter(tuple(row.values()) for row in engine.push(pa.table(one)).to_arrow("bound").to_pylist())


def test_shares_divide_what_binds_edges_as_they_divide_patterns():
    """The first column of vertices says whose a row is, also where a vertex has the name, so the id, of an earlier value."""
    window = rpq.Window(size=3, slide=1)
    queries = [rpq.Query(BOUND, window=window, name="bound")]
    queries += [rpq.Query("?x T _:y", window=window, select=["x"], name="pattern", semantics="explicit")]
    shares = 3
    whole = rpq.Engine(*queries, edges="parallel")
    engines = [rpq.Engine(*queries, edges="parallel", share=(number, shares)) for number in range(shares)]
    edges = [
        ("x", "y", 1, "bob", 1), ("x", "y", 1, "u", 1), ("bob", "y", 2, "x", 2), ("carl", "x", 3, "bob", 3),
        ("bob", "bob", 4, "carl", 4), ("bob", "z", 6, "z", 4), ("z", "u", 9, "z", 4), ("u", "bob", 9, "u", None),
        *((f"v{number}", "bob", 10, "u", number) for number in range(8)),
    ]  # fmt: skip
    having_rows = set()
    for edge in edges:
        changes = [pushed_one(engine, *edge) for engine in engines]
        assert sum(changes, Counter()) == pushed_one(whole, *edge)
        having_rows |= {number for number, one in enumerate(changes) if one}
        for engine in engines:
            assert {row[1] for row in engine.answers("bound")} == {row[0] for row in engine.answers("pattern")}
    assert len(having_rows) > 1
    assert sum((Counter(engine.answers("bound")) for engine in engines), Counter()) == Counter(whole.answers("bound"))


def test_two_engines_with_one_query_have_columns_of_their_own():
    query = rpq.Query(BOUND, window=WINDOW, name="bound")
    integers, floats = (rpq.Engine(query, edges="parallel") for _ in range(2))
    pushed_one(integers, "x", "y", 1, "a", 1)
    pushed_one(integers, "y", "z", 1, "a", 2)
    pushed_one(floats, "x", "y", 1, "a", 1.5)
    assert sorted(integers.answers(), key=str) == [("a", "x", 2, "z"), ("a", "y", None, None)]


@pytest.mark.parametrize("identity", ["triple", "parallel"])
def test_a_query_goes_on_in_a_restored_engine(tmp_path, identity):
    texts = [
        "MATCH (x)-[e:T]->(y) OPTIONAL MATCH (y)-[f:T]->(z) WHERE f.amount > e.amount RETURN x, e.amount, z, f.timestamp",
        "MATCH (x)-[e:T]->(y) RETURN x, sum(e.amount) AS s, avg(e.amount) AS m",
        "MATCH (x)-[:T]->(y) RETURN x",
    ]
    queries = [rpq.Query(text, window=rpq.Window(size=3, slide=1), language="cypher") for text in texts]
    names = ("source", "target", "label", "timestamp", "amount")

    def push(engine: rpq.Engine, edges: list[tuple[Any, ...]]) -> list[Any]:
        changes = engine.push(pa.table({name: [edge[place] for edge in edges] for place, name in enumerate(names)}))
        return [row for text in texts for row in changes.to_arrow(text).to_pylist()]

    engine = rpq.Engine(*queries, edges=identity)
    push(engine, EDGES[:3])
    engine.save(tmp_path / "state")
    restored = rpq.Engine.restore(tmp_path / "state")
    assert push(restored, EDGES[3:6]) == push(engine, EDGES[3:6]) != []
    for text in texts:
        assert Counter(restored.answers(text)) == Counter(engine.answers(text))
    restored._check()


@pytest.mark.parametrize("option", [{"select": ["a"]}, {"sources": ["a"]}])
def test_options_that_the_text_expresses_are_refused(option):
    with pytest.raises(rpq.QueryError, match="in MATCH|MATCH has no"):
        rpq.Query("MATCH (a)-[:T]->(b) RETURN a", window=WINDOW, **option)


def test_the_label_of_labels_is_an_option():
    text = "MATCH (x:Q)-[:T]->(y) RETURN x"
    assert answers(text) == {("c",): 1}
    assert not answers(text, node_label="S")
    assert answers("MATCH (x:c)-[:T]->(y) RETURN DISTINCT x", node_label="S") == {("a",): 1}


def test_an_edge_has_no_number_where_inserts_replace_edges():
    query = rpq.Query("MATCH (a)-[e:T]->(b) RETURN e", window=WINDOW)
    with pytest.raises(rpq.QueryError, match="which has no number"):
        rpq.Engine(query)
