"""Rows that nobody wants to see: they are counted, and take no memory."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

import rpq
from tests.operators.patterns.pattern_twins import long_streams, query_of, questions
from tests.twins import examples, tiny

W = rpq.Window(size=100, slide=1)


@pytest.mark.parametrize("other", [(), (rpq.Query("?x a ?y . ?y c ?z", window=W, select=["x"], distinct=True, name="few"),)])
def test_counted_rows_take_no_memory(other):
    """Three million rows of a hub, 36 MB of ids; beside a query whose solutions have to be seen to be counted, too."""
    engine = rpq.Engine(rpq.Query("?x a ?hub . ?hub b ?y", window=W, name="many"), *other)
    engine.push(source=[f"x{n}" for n in range(3_000)], target=["hub"] * 3_000, label=["a"] * 3_000, timestamp=[1] * 3_000)
    batch = {"source": ["hub"] * 1_001, "target": [f"y{n}" for n in range(1_001)], "timestamp": [2] * 1_001}
    labels = ["b"] * 1_000 + ["c"]
    tracemalloc.start()
    try:
        changes = engine.push(**batch, label=labels, collect=False)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert changes.added == 3_000_000 + 3_000 * len(other)
    assert engine.statistics("many").rows_added == 3_000_000
    assert peak < 16e6
    assert engine.insert("hub", "last", "b", 3).added == 3_000


@examples(60)
@given(questions("one"), questions("two", reports=("change", "slide")), long_streams, st.lists(st.booleans(), min_size=20))
def test_counts_are_those_of_the_rows_whoever_sees_them(one, two, tuples, seen):
    engines = [tiny(2)(query_of(one), query_of(two)) for _ in range(2)]
    for begin, is_seen in zip(range(0, len(tuples), 5), seen, strict=False):
        batch = tuples[begin : begin + 5]
        whole = engines[0].push_rows(batch)
        some = engines[1].push_rows(batch, collect=is_seen)
        assert (some.added, some.removed) == (whole.added, whole.removed)
        assert some.rows() == (whole.rows() if is_seen else [])
    for name in ("one", "two"):
        assert engines[0].statistics(name).rows_added == engines[1].statistics(name).rows_added
    event(f"rows: {min(engines[0].statistics().rows_added, 20)}")


def test_the_guard_counts_what_nobody_sees():
    engine = rpq.Engine(rpq.Query("?x a ?hub . ?hub b ?y", window=W, name="q"), max_rows=8)
    engine.push_rows([(f"x{n}", "hub", "a", 1) for n in range(9)], collect=False)
    with pytest.raises(rpq.RowLimitError) as caught:
        engine.push_rows([("x0", "other", "a", 2), ("other", "y", "b", 2), ("hub", "y", "b", 3)], collect=False)
    assert (caught.value.row, caught.value.number) == (2, 9)
    assert (caught.value.changes.added, caught.value.changes.rows()) == (1, [])


@pytest.mark.parametrize("max_rows", [159_999, 160_000])
def test_the_guard_counts_rows_that_were_written_over(max_rows):
    """The rows of one event are many times as many as the output has room for."""
    engine = rpq.Engine(rpq.Query("?x a ?hub . ?hub b ?y . ?hub c ?z", window=W, name="q"), max_rows=max_rows)
    edges = [(f"x{n}", "hub", "a", 1) for n in range(400)] + [("hub", f"y{n}", "b", 1) for n in range(400)]
    assert engine.push_rows(edges, collect=False).added == 0
    if max_rows == 160_000:
        assert engine.push_rows([("hub", "z", "c", 2)], collect=False).added == 160_000
        assert engine.insert("x400", "hub", "a", 3).added == 400
    else:
        with pytest.raises(rpq.RowLimitError) as caught:
            engine.push_rows([("hub", "z", "c", 2)], collect=False)
        assert (caught.value.row, caught.value.number) == (0, 160_000)
