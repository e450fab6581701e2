"""Paths in time order over long streams: what batches of tuples bring is what brute force says of the windows behind them.

semantics.md S15
"""

from __future__ import annotations

import pytest

import rpq
from tests.twins import tiny


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
