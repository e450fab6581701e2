"""Queries in MATCH against brute force, at every tuple of a stream with a window, deletes and parallel edges."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, assume, given
from hypothesis import strategies as st

import rpq
from tests.drawn_match import DrawnQuery, Edge, edge_streams, match_queries
from tests.twins import examples

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

    def take(self, row: tuple[Any, ...]) -> list[Edge]:
        """Take a tuple; return the edges of the window."""
        source, label, target, time, amount, op = row
        self.edges = [edge for edge in self.edges if edge.timestamp > time - self.size]
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
        asked = rpq.Query(
            query.text, window=rpq.Window(size=SIZE, slide=1), semantics="explicit", language=query.language, name="q"
        )
    except rpq.QueryError as error:
        assume("has two ids" not in str(error))  # which is refused, as nothing can match
        raise
    engines = [
        rpq.Engine(asked, edges=identity, threads=threads, share=(number, shares), _capacity=4 if threads > 1 else 16)
        for number in range(shares)
    ]
    snapshots = Snapshots(identity)
    told: list[Counter[tuple[Any, ...]]] = [Counter() for _ in engines]
    edges: list[Edge] = []
    for first in range(0, len(stream), chunk):
        rows = stream[first : first + chunk]
        for engine, told_by_share in zip(engines, told, strict=True):
            for row in engine.push(table(rows)).to_arrow("q").to_pylist():
                values = tuple(value for name, value in row.items() if name not in ("query", "timestamp", "op"))
                told_by_share[values] += 1 if row["op"] == "+" else -1
            engine._check()
        for row in rows:
            edges = snapshots.take(row)
        expected = plain(query.rows(edges))
        answers = sum((Counter(map(tuple, engine.answers())) for engine in engines), Counter())
        assert plain(answers) == expected, (query.text, edges)
        assert plain(sum((+one for one in told), Counter())) == expected, (query.text, edges)
        assert all(count >= 0 for one in told for count in one.values()), query.text


@examples(600, suppress_health_check=[*HealthCheck], phases=PHASES)
@given(match_queries(), edge_streams(), st.sampled_from(["parallel", "triple"]), st.integers(1, 5))
def test_answers_are_those_of_brute_force(query, stream, identity, chunk):
    check(query, stream, identity, chunk)


@examples(300, suppress_health_check=[*HealthCheck], phases=PHASES)
@given(match_queries(language="cypher"), edge_streams(), st.sampled_from(["parallel", "triple"]), st.integers(1, 5))
def test_answers_are_those_of_brute_force_in_cypher(query, stream, identity, chunk):
    check(query, stream, identity, chunk)


@pytest.mark.filterwarnings("ignore::rpq.errors.ThreadsWarning")
@examples(300, suppress_health_check=[*HealthCheck], phases=PHASES)
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
@pytest.mark.filterwarnings("ignore::rpq.errors.ThreadsWarning")
@examples(750, suppress_health_check=[*HealthCheck], phases=PHASES)
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
