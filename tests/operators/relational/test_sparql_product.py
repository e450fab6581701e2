"""The product of parts, under random changes: it is that of the bags that the parts are, event by event."""

from __future__ import annotations

from collections import Counter
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from rpq.operators.relational.nodes import LeafNode, ProductNode
from rpq.rows.weighted_rows import WeightedRows
from tests.twins import examples

WIDTHS = 2, 0, 1
change = st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 1), st.sampled_from([1, 2, -1]))


def multiplied(parts) -> Counter:
    found = Counter()
    for rows in product(*(part.items() for part in parts)):
        row, weight = (), 1
        for values, count in rows:
            row, weight = row + values, weight * count
        found[row] += weight
    return +found


@examples(150)
@given(st.lists(st.lists(st.lists(change, max_size=4), max_size=4), max_size=5))
def test_the_product_changes_with_its_parts(chunks):
    node = ProductNode(*(LeafNode([f"{part}{column}" for column in range(width)], "") for part, width in enumerate(WIDTHS)))
    node.begin()
    parts, answer = [Counter() for _ in WIDTHS], Counter()
    for events in chunks:
        found = [[] for _ in WIDTHS]
        after = []
        for event, changes in enumerate(events):
            for part, one, other, weight in changes:
                row = (one, other)[: WIDTHS[part]]
                if parts[part][row] + weight >= 0:
                    parts[part][row] += weight
                    found[part].append((event, row, weight))
            after.append(multiplied([+part for part in parts]))
        output = node.change(*(WeightedRows.of(mine, width) for mine, width in zip(found, WIDTHS, strict=True)))
        for event in range(len(events)):
            for number, row, weight in output.changes():
                if number == event:
                    answer[row] += weight
            assert all(count >= 0 for count in answer.values())
            answer = +answer
            assert answer == after[event]
        node._check()
    assert node.entries == sum(len(+part) for part in parts)
