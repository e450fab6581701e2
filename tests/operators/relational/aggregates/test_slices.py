"""The rows at positions of an order, against all rows sorted after every event."""

from __future__ import annotations

import random
from collections import Counter
from functools import cmp_to_key

import numpy as np
import pytest

from rpq.language.sparql.values.operators import order_key, value_of_key
from rpq.operators.relational.nodes import LeafNode
from rpq.operators.relational.slices import SliceNode
from rpq.operators.relational.values import ordered_rows
from rpq.operators.relational.values.number_ids import DECIMAL, DOUBLE, FLOAT, INTEGER
from rpq.operators.relational.values.term_ids import TermIds
from rpq.rows.weighted_rows import UNBOUND, WeightedRows
from tests.operators.relational.aggregates.test_group_values import draw
from tests.twins import scaled

POSITIONS = [(0, 1), (0, 3), (2, 2), (0, None), (3, None), (1, 0), (5, 40), (2**70, 7)]
KINDS = [None, [INTEGER], [INTEGER, DECIMAL], [DOUBLE], [INTEGER, DECIMAL, FLOAT, DOUBLE]]
ORDERS = [[("v", True)], [("v", False)], [("v", True), ("w", False)], [], [("w", False), ("v", True)]]


def draw_number(chance: random.Random, terms: TermIds, kinds: list[int]) -> int:
    """Return the id of a number as a query computes it, of few values, or of a quotient."""
    kind = chance.choice(kinds)
    if kind == INTEGER:
        dividend, divisor = chance.choice([-3, 0, 1, 2, 7, 10**17]), chance.choice([0, 0, 0, 1, 3, 7, 2**30 + 3])
        return int(terms.quotients(np.array([dividend]), np.array([divisor]), as_terms=False)[0])
    high, low = 0, 0
    if kind == DECIMAL:
        units = chance.choice([-3, 0, 1, 2, 7, 7.5, 10**17, 10**17 + 1, 2.25]) * 10**18
        high, low = divmod(int(units), 2**64)
        low -= 2**64 if low >= 2**63 else 0
    else:
        low = int(np.float64(chance.choice([-0.0, 0.0, 2.0, 7.5, 1e17, -3.0, np.inf, -np.inf, np.nan])).view(np.int64))
    return int(terms.numbers(np.array([kind], np.int8), np.array([high]), np.array([low]), as_terms=False)[0])


def expected_rows(present, terms, order, columns, first, end):
    """Return the rows (columns) at the positions, as texts, with how often each is there."""

    def compare(one, other):
        for place, is_descending in order:
            texts = (terms.text(row[place]) for row in (one, other))
            left, right = ((-1,) if text is None else value_of_key(order_key(text)) for text in texts)
            if left != right:
                return (-1 if left < right else 1) * (-1 if is_descending else 1)
        for place in columns:
            left, right = (() if row[place] == UNBOUND else order_key(terms.text(row[place])) for row in (one, other))
            if left != right:
                return -1 if left < right else 1
        return 0

    rows = sorted(present.elements(), key=cmp_to_key(compare))
    return Counter(tuple(terms.text(row[place]) for place in columns) for row in rows[first:end])


@pytest.mark.parametrize("seed", range(scaled(4)))
@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_rows_at_positions_are_those_of_all_rows_sorted(order, seed, monkeypatch):
    monkeypatch.setattr(ordered_rows, "_SPARE", 1)  # so that the front is filled often
    chance = random.Random(f"{order}{seed}")
    kinds = KINDS[(seed + len(str(order))) % len(KINDS)]
    first, limit = chance.choice(POSITIONS)
    end = None if limit is None else first + limit
    terms = TermIds()
    leaf = LeafNode(("v", "g", "w"), "rows")
    columns = chance.choice([["g", "v"], ["g"], ["v"], ["w", "g"]])
    node = SliceNode(leaf, columns, order, first, limit, terms)
    places = [leaf.columns.index(name) for name in columns]
    of_order = [(leaf.columns.index(name), is_descending) for name, is_descending in order]
    present: Counter = Counter()
    answer: Counter = Counter()
    few = chance.random() < 0.5
    for _ in range(25):
        changes, after = [], []
        for event in range(chance.randrange(1, 5)):
            of_event = []
            if present and chance.random() < 0.3:  # a row leaves and comes back, perhaps alone
                row = chance.choice([*present])
                of_event = [(event, row, -1), (event, row, 1)]
            for _ in range(chance.randrange(0 if of_event else 1, 8)):
                rows = [row for row in present if present[row]]
                if rows and chance.random() < (0.6 if len(rows) > 30 else 0.4):
                    row = chance.choice(rows)
                    weight = -chance.randrange(1, present[row] + 1)
                else:
                    value = UNBOUND
                    if chance.random() > 0.05:
                        value = terms.intern(draw(chance)) if kinds is None else draw_number(chance, terms, kinds)
                    other = terms.intern(chance.choice(["1", '"1"', '"1"@en', "b", None] if few else [draw(chance)]))
                    row = (value, terms.intern(chance.choice("ABCDEFGH")), other)
                    weight = chance.randrange(1, 3)
                present[row] += weight
                of_event.append((event, row, weight))
            chance.shuffle(of_event)  # what goes may be before what comes
            present = +present
            changes += of_event
            after.append(expected_rows(present, terms, of_order, places, first, end))
        result = [*node.change(WeightedRows.from_changes(changes, 3)).changes()]
        for event, rows in enumerate(after):
            for _, row, weight in (one for one in result if one[0] == event):
                answer[tuple(map(terms.text, row))] += weight
            assert +answer == rows and min(answer.values(), default=0) >= 0
        node._check()
        ids = [identity for row in present for identity in row]
        node.discard_ids(terms.retain(np.concatenate([np.fromiter(node.ids(), np.int64), np.array(ids, np.int64)])))
    assert node.nbytes > 0 and node.entries >= len(present)
    if kinds in (None, [DOUBLE]) and "v" not in columns:
        assert not node._has_texts


def test_many_rows_are_filled_and_left_in_any_direction():
    for direction in (1, -1):
        terms = TermIds()
        node = SliceNode(LeafNode(("v",), "rows"), ["v"], [("v", direction < 0)], 2, 5, terms)
        count = 1_000
        ids = terms.quotients(direction * np.arange(count), np.zeros(count, np.int64), as_terms=False)
        rows, weights = ids.reshape(-1, 1), np.ones(count, np.int64)
        node.change(WeightedRows(rows, weights, np.arange(count)))
        answer = Counter({int(identity): 1 for identity in ids[2:7]})
        for begin in range(0, count - 10, 10):  # the first ones leave
            part = slice(begin, begin + 10)
            for _, (identity,), weight in node.change(WeightedRows(rows[part], -weights[part], np.arange(10))).changes():
                answer[identity] += weight
            if begin % 500 == 0:
                node._check()
            assert +answer == Counter({int(identity): 1 for identity in ids[begin + 12 : begin + 17]})
        assert not node._has_texts


def test_numbers_that_kernels_cannot_compare_are_compared_as_terms():
    terms = TermIds()
    node = SliceNode(LeafNode(("v",), "rows"), ["v"], [("v", True)], 0, 1, terms)
    one = terms.numbers(np.array([DECIMAL], np.int8), np.array([0]), np.array([10**17]), as_terms=False)
    other = terms.numbers(np.array([DOUBLE], np.int8), np.array([0]), np.array([0.1]).view(np.int64), as_terms=False)
    rows = np.stack([one, other])
    result = node.change(WeightedRows(rows, np.array([2, 1]), np.array([0, 1])))
    assert {*result.changes()} == {(0, (int(one[0]),), 1), (1, (int(one[0]),), -1), (1, (int(other[0]),), 1)}
    assert node._has_texts
    node._check()
    result = node.change(WeightedRows(rows[1:], np.array([-1]), np.array([0])))
    assert {*result.changes()} == {(0, (int(other[0]),), -1), (0, (int(one[0]),), 1)}
