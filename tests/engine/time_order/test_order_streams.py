"""Paths in time order over long streams: what batches of tuples bring is what brute force says of the windows behind them.

semantics.md S15
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rpq
from tests.engine.edges.edge_streams import drawn_tuples
from tests.engine.time_order.test_order import EXPRESSIONS, orders
from tests.engine.time_order.test_order import described as described_order
from tests.reference_order import OrderEngine, ordered_pairs
from tests.reference_properties import Edge
from tests.strategies.order_streams import ForwardQuery, NetEngine, Tuple, pairs_by_time, run
from tests.twins import examples, scaled, tiny

VERTICES = st.sampled_from("uvw")
EDGES = st.lists(
    st.tuples(VERTICES, st.sampled_from("aab"), VERTICES, st.integers(0, 8), st.sampled_from((None, 1, 2))), max_size=9
)


@examples(600)
@given(EDGES, st.sampled_from(EXPRESSIONS), orders())
def test_walks_forward_are_the_walks_of_the_oracle(drawn, expression, order):
    edges = [Edge(number, *one[:4], {"n": one[4]}) for number, one in enumerate(drawn)]
    assert pairs_by_time(expression, edges, order) == ordered_pairs(expression, edges, order)


@pytest.mark.parametrize("identity", ["parallel", "id"])
@examples(200)
@given(data=st.data())
def test_the_rows_of_a_batch_are_those_of_its_tuples(identity, data):
    """The changes of a batch, from three snapshots, are the sum of the oracle's tuple by tuple."""
    query = data.draw(described_order("q", counted=True)).oracle
    oracle, batches = OrderEngine(query, identity=identity), NetEngine(ForwardQuery.of(query), identity=identity)
    time = 5
    for _ in range(2):
        rows = drawn_tuples(data, identity, time, most=12)
        time = max(time, *(row[3] for row in rows))
        expected: dict = {}
        for source, label, target, timestamp, properties, op, edge in rows:
            if op == "+":
                changes = oracle.insert(source, label, target, timestamp, edge, **properties)
            else:
                changes = oracle.delete(source, label, target, timestamp, edge)
            for change in changes:
                expected[change.values] = expected.get(change.values, 0) + (1 if change.op == "+" else -1)
            batches.apply(Tuple(source, label, target, timestamp, properties, op, edge))
        assert batches.nets["q"].end() == {solution: count for solution, count in expected.items() if count}
        counts = oracle.counts("q")
        assert {**batches.counts("q"), "rows_added": 0, "rows_removed": 0} == {**counts, "rows_added": 0, "rows_removed": 0}


@pytest.mark.parametrize("seed", range(scaled(20)))
def test_short_streams(seed):
    done = run(seed, 400, sizes=(20, 60))
    assert done.tuples >= 400


@pytest.mark.long
def test_a_hundred_thousand_tuples():
    """`python -m tests.strategies.order_streams` compares millions."""
    streams = [run(seed, 2000) for seed in range(1000, 1050)]
    assert sum(stream.tuples for stream in streams) >= 100_000
    assert sum(stream.rows for stream in streams) >= 10_000


@pytest.mark.parametrize("order", ["increasing", "non_decreasing"])
def test_in_a_count_window_a_gap_decides_which_departure_lasts(order):
    """The path over the newest departure would last longer, but it leaves too long after the edge before it."""
    window = rpq.CountWindow(size=4)
    query = rpq.Query("(a|b)+", window=window, order=order, max_gap=9, semantics="explicit", name="q")
    engine = tiny(1)(query, edges="parallel")
    engine.push_rows([("x", "y", "b", 113), ("z", "x", "b", 112), ("y", "x", "b", 115), ("x", "u", "a", 123)])
    engine._check()
    assert ("z", "u") in set(engine.answers())  # by y: from x at 113, not at 123
    rows = engine.insert("v", "w", "a", 124).rows()  # evicts the edge from x to y
    assert ("q", "z", "u", 124, "-") in rows
    engine._check()


def test_after_a_delete_paths_from_a_gap_in_a_count_window_are_found_again():
    query = rpq.Query("a+", window=rpq.CountWindow(size=31), order="increasing", max_gap=1, name="q")
    engine = tiny(1)(query, edges="parallel")
    engine.push_rows([("u", "v", "a", 258), ("v", "v", "a", 264)])
    engine.delete("u", "v", "a", 264)
    engine._check()
    assert set(engine.answers()) == {("v", "v")}
