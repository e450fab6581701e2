"""Queries in MATCH against ladybug, an embedded database that reads Cypher, on the snapshots of streams.

Texts are drawn from the part of the grammar that both read: WITH, UNWIND, UNION, OPTIONAL MATCH, EXISTS, CASE, arithmetic,
aggregates and lists over properties of nodes and edges. Where ladybug (release 0.22) differs, brute force decides:

- It matches by homomorphism along walks, which our texts ask for with REPEATABLE ELEMENTS. Different edges and counted
  trails are for brute force alone.
- It has one label of a node, and refuses conditions inside elements; equal rows have no order, so LIMIT is not compared,
  and lists are compared sorted.
- An edge from a vertex to itself matches an undirected one twice.
- The sum of nothing is null (the texts coalesce it), and `+` of texts that an OPTIONAL MATCH lacks is an empty text.
- Over snapshots of 200 edges it loses or invents rows of some texts with three edges and an EXISTS.
"""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from random import Random
from typing import Any

import pytest

import rpq
from tests.engine.nodes.node_queries import EdgeStep, NodeStep, Step, changes_of, told
from tests.reference_nodes import NodeEngine
from tests.strategies.drawn_match import REPEATABLE, Profile, StreamQuery, drawn_query
from tests.twins import scaled

ladybug = pytest.importorskip("ladybug")

VERTICES = "uvwxyz"
PROFILE = Profile(is_common=True, has_node_label=False)


def drawn(random: Random, name: str, size: int) -> StreamQuery:
    """Draw a query that is not refused."""
    while True:
        try:
            return StreamQuery(drawn_query(random, PROFILE), name, size=size)
        except rpq.QueryError:
            continue


def stream(random: Random, size: int) -> list[Step]:
    """Draw edges, deletes and records in order of time, behind a record of each vertex."""
    time = 1
    steps: list[Step] = [NodeStep(name, None) for name in VERTICES]
    for _ in range(size):
        time += random.randint(0, 1)
        if random.random() < 0.3:
            facts = {"risk": random.choice((None, 0, 1, 2, 3)), "score": random.choice((None, 0.5, 1.5))}
            facts["land"] = random.choice((None, "x", "y"))
            steps.append(NodeStep(random.choice(VERTICES), time, "+", (), facts))
            continue
        values = {"amount": random.choice((None, 1, 2, 3, 4)), "rate": random.choice((None, 0.5, 2.5))}
        values["note"] = random.choice((None, "x", "xy"))
        op = "-" if random.random() < 0.15 else "+"
        steps.append(EdgeStep(random.choice(VERTICES), random.choice("TTS"), random.choice(VERTICES), time, values, op))
    return steps


class Database:
    """A snapshot in ladybug."""

    def __init__(self) -> None:
        self._connection = ladybug.Connection(ladybug.Database(":memory:"))
        self._connection.execute("CREATE NODE TABLE N(id STRING, risk INT64, score DOUBLE, land STRING, PRIMARY KEY(id))")
        kinds = "amount INT64, rate DOUBLE, note STRING, timestamp INT64"
        for label in "TS":
            self._connection.execute(f"CREATE REL TABLE {label}(FROM N TO N, {kinds})")

    def load(self, oracle: NodeEngine) -> None:
        """Replace the nodes and edges by those of the oracle."""
        self._connection.execute("MATCH (n) DETACH DELETE n")
        for name, facts in oracle.nodes.facts.items():
            self._create(f"(:N {_map(facts)})", {"id": name, **{one: fact.value for one, fact in facts.items()}})
        for edge in oracle._running[0].edges.values():
            known = {one: value for one, value in edge.properties.items() if value is not None}
            values = {**known, "timestamp": edge.timestamp, "one": edge.source, "other": edge.target}
            made = f"(x)-[:{edge.label} {_map({**known, 'timestamp': 0}, first='')}]->(y)"
            self._create(made, values, "MATCH (x:N {id: $one}), (y:N {id: $other}) ")

    def _create(self, made: str, values: dict[str, Any], found: str = "") -> None:
        self._connection.execute(f"{found}CREATE {made}", values)

    def rows(self, query: StreamQuery) -> Counter[tuple[Any, ...]] | None:
        """Return the rows of a query, None if ladybug refuses it."""
        text = query.drawn.text.replace(REPEATABLE, "")
        try:
            return Counter(map(plain, self._connection.execute(text, query.drawn.parameters).get_all()))
        except RuntimeError:
            return None


def _map(values: dict[str, Any], *, first: str = "id: $id") -> str:
    return f"{{{', '.join([*([first] if first else []), *(f'{name}: ${name}' for name in values)])}}}"


def plain(row: Any) -> tuple[Any, ...]:
    """Return a row with sorted lists, floats that are rounded, and sums of any type as numbers."""

    def value(one: Any) -> Any:
        if isinstance(one, (list, tuple)):
            return tuple(sorted(map(value, one), key=repr))
        if isinstance(one, (float, Decimal)):
            return round(float(one), 9)
        return str(one) if isinstance(one, bool) else one

    return tuple(map(value, row))


def check(seed: int, *, queries: int, size: int, moments: int, window: int) -> tuple[int, int]:
    """Compare queries at moments of a stream; return how many answers were equal, and how many brute force decided."""
    random = Random(seed)
    drawn_queries = [drawn(random, f"q{number}", window) for number in range(queries)]
    engine = rpq.Engine(*(one.query for one in drawn_queries), edges="parallel")
    oracle = NodeEngine(*(one.oracle for one in drawn_queries), identity="parallel")
    database, equal, decided = Database(), 0, 0
    steps = stream(random, size)
    length = -(-len(steps) // moments)
    for place, step in enumerate(steps, 1):
        changes_of(engine, step)
        told(oracle, step)
        if place % length and place < len(steps):
            continue
        database.load(oracle)
        for one in drawn_queries:
            mine = Counter(map(plain, engine.answers(one.query.name)))
            if mine == database.rows(one):
                equal += 1
                continue
            decided += 1
            assert mine == Counter(map(plain, oracle.solutions(one.query.name).elements())), (seed, one.drawn.text, place)
    return equal, decided


@pytest.mark.parametrize("seed", range(scaled(6)))
def test_answers_are_those_of_a_database(seed):
    equal, decided = check(seed, queries=8, size=24, moments=3, window=14)
    assert equal > 5 * decided


@pytest.mark.long
def test_answers_at_fifty_moments_of_a_hundred_streams_are_those_of_a_database():
    counts = [check(seed, queries=1, size=150, moments=50, window=20) for seed in range(1000, 1100)]
    equal, decided = (sum(one) for one in zip(*counts, strict=True))
    assert equal > 10 * decided
