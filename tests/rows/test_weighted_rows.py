"""Changes of bags: netting, and deltas and back, against sums by event and row."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rpq.rows.weighted_rows import WeightedRows, as_changes, net_delta
from tests.twins import examples

rows = st.tuples(st.integers(-1, 1), st.integers(0, 2))
changes = st.lists(st.tuples(st.integers(0, 3), rows, st.sampled_from([-2, -1, 1, 3])))


def sums(bag: WeightedRows) -> Counter:
    """The sum of the weights of each row of each event that is not 0."""
    total: Counter = Counter()
    for event, row, weight in bag.changes():
        total[event, row] += weight
    return Counter({key: weight for key, weight in total.items() if weight})


@examples(200)
@given(changes)
def test_netting_keeps_the_sums(drawn) -> None:
    bag = WeightedRows.from_changes(sorted(drawn, key=lambda change: change[0]), 2)
    net, once = bag.net(), bag.consolidate()
    assert sums(net) == sums(once) == sums(bag)
    keys = [(event, row) for event, row, _ in once.changes()]
    assert keys == sorted(set(keys)) and 0 not in once.weights
    for event in range(4):
        weights = net.weights[net.events == event]
        assert (np.diff(np.sign(weights)) >= 0).all() or len(set(np.sign(bag.weights[bag.events == event]))) == 1
        mixed = [row for at, row, _ in net.changes() if at == event]
        assert len(set(np.sign(weights))) < 2 or len(mixed) == len(set(mixed))


@examples(100)
@given(changes, st.lists(st.integers(0, 1), min_size=4, max_size=4))
def test_a_delta_is_the_same_changes(drawn, breaks) -> None:
    bag = WeightedRows.from_changes(sorted(drawn, key=lambda change: change[0]), 2).net()
    orders, times = 2 * np.arange(4) + 1, np.full(4, 7)
    delta = bag.delta(orders, times)
    assert len(delta) == np.abs(bag.weights).sum() and delta.counts().sum() == len(delta)
    events, (again,) = as_changes([delta])
    shown = WeightedRows(again.rows, again.weights, (events[:, 0][again.events] - 1) // 2)
    assert sums(shown) == sums(bag)
    # Tuples that are one event: the changes of the later ones are those of the first.
    first = np.maximum.accumulate(np.where(breaks, np.arange(4), 0))
    joined = WeightedRows(bag.rows, bag.weights, first[bag.events])
    events, (net,) = as_changes([net_delta([delta], first)])
    assert sums(WeightedRows(net.rows, net.weights, (events[:, 0][net.events] - 1) // 2)) == sums(joined)
