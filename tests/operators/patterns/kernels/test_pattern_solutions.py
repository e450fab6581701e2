"""The bags of rows behind DISTINCT, products and literals, against counting anew."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from math import prod

import numpy as np
import pytest

from rpq.operators.patterns.rows.solutions import Place, Solutions
from rpq.rows.delta import Delta, ids_of_columns
from rpq.rows.weighted_rows import as_changes

SHAPES: dict[str, tuple[list[tuple[str, ...]], tuple[str, ...]]] = {
    "one part": ([("?x", "?y", "?z")], ("?z", "?x")),
    "one part as it is": ([("?x", "?y")], ("?x", "?y")),
    "two parts": ([("?x", "?y"), ("?z",)], ("?z", "?x")),
    "a condition": ([("?x", "?y"), ()], ("?y",)),
    "three parts": ([("?x",), ("?y", "?z"), ("?w",)], ("?w", "?y", "?x")),
}


def part_rows(width: int, runs: list[tuple[int, int, int, list[tuple[int, ...]]]]) -> Delta:
    """Runs (order, time, sign, rows) as a part delivers them."""
    rows = [row for *_, some in runs for row in some]
    return Delta(
        ids=ids_of_columns(np.array(rows, np.int32).reshape(len(rows), width)),
        times=np.array([time for _, time, _, _ in runs], np.int64),
        ends=np.cumsum([len(some) for *_, some in runs]),
        kinds=np.array([sign for _, _, sign, _ in runs], np.int8),
        orders=np.array([order for order, *_ in runs], np.int64),
    )


def changed(solutions: Solutions, parts: dict[Place, Delta], *, explicit: bool) -> Delta:
    """Change parts, as a pattern does."""
    events, changes = as_changes(parts.values())
    silent = None if explicit else events[:, 0] % 2 == 0
    return solutions.change(dict(zip(parts, changes, strict=True)), silent=silent).delta(events[:, 0], events[:, 1])


class Counted:
    """A model of `Solutions` that counts all products anew."""

    def __init__(self, columns, select, meanings, *, distinct, differ):
        self.columns, self.select, self.distinct, self.differ = columns, select, distinct, differ
        self.bags = [[Counter() for _ in columns] for _ in range(meanings)]

    def answer(self) -> Counter:
        found: Counter = Counter()
        for bags in self.bags:
            for rows in itertools.product(*bags):
                if self.differ and any({*a} & {*b} for a, b in itertools.combinations(rows, 2)):
                    continue
                value = dict(zip(itertools.chain(*self.columns), itertools.chain(*rows), strict=True))
                found[tuple(value[name] for name in self.select)] += prod(b[r] for b, r in zip(bags, rows, strict=True))
        found = +found
        return Counter(dict.fromkeys(found, 1)) if self.distinct else found


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("meanings", [1, 2])
@pytest.mark.parametrize(("distinct", "differ"), [(True, False), (False, False), (True, True), (False, True)])
def test_solutions(shape, meanings, distinct, differ):
    columns, select = SHAPES[shape]
    drawn = random.Random(f"{shape} {meanings} {distinct} {differ}")

    def row(part: int) -> tuple[int, ...]:
        return tuple(drawn.randrange(4) for _ in columns[part])

    wanted = Counted(columns, select, meanings, distinct=distinct, differ=differ)
    solutions = Solutions(
        select=select, meanings=meanings, most_parts=len(columns) + 1, distinct=distinct, isomorphism=differ
    )
    for meaning in range(meanings):
        for part, bag in enumerate(wanted.bags[meaning]):
            bag.update(row(part) for _ in range(drawn.randrange(5)))
        rows = [
            np.array([*bag.elements()], np.int32).reshape(bag.total(), len(names))
            for bag, names in zip(wanted.bags[meaning], columns, strict=True)
        ]
        solutions.put(meaning, columns, rows)
    order = 0
    for _ in range(60):
        before, expected, runs = wanted.answer(), [], {}
        for _ in range(drawn.randrange(1, 4)):
            order += 1
            # Under DISTINCT an event may be of both signs; else all of it comes, or all of it goes.
            sign = drawn.choice((1, -1))
            for _ in range(drawn.randrange(1, 4)):
                sign = drawn.choice((1, -1)) if distinct else sign
                meaning, part = drawn.randrange(meanings), drawn.randrange(len(columns))
                bag = wanted.bags[meaning][part]
                rows = [row(part) for _ in range(drawn.randrange(1, 4))]
                if sign < 0:
                    rows = [*(bag & Counter(rows)).elements()]
                bag.update(rows) if sign > 0 else bag.subtract(rows)
                wanted.bags[meaning][part] = +bag
                runs.setdefault(Place(meaning, part), []).append((order, 100 + order, sign, rows))
            after = wanted.answer()
            # A boundary has an even order: what leaves there is silent.
            expected += [(order, 100 + order, -1, lost) for lost in (before - after).elements() if order % 2]
            expected += [(order, 100 + order, 1, come) for come in (after - before).elements()]
            before = after
        parts = {place: part_rows(len(columns[place.part]), some) for place, some in runs.items()}
        found = changed(solutions, parts, explicit=False)
        changes, begin, rows = [], 0, found.as_lists()
        for at, time, sign, end in zip(*(array.tolist() for array in (found.orders, found.times, found.kinds, found.ends))):
            changes += [(at, time, sign, one) for one in rows[begin:end]]
            begin = end
        assert sorted(changes) == sorted(expected) and [one[:3] for one in changes] == sorted(one[:3] for one in changes)
        assert Counter(map(tuple, solutions.answers().tolist())) == before
        parts = {
            meaning: [
                np.array([*bag.elements()], np.int32).reshape(bag.total(), len(names))
                for bag, names in zip(bags, columns, strict=True)
            ]
            for meaning, bags in enumerate(wanted.bags)
        }
        solutions.check(dict.fromkeys(parts, columns), parts)
    assert solutions.nbytes > 0
    if meanings == 2:
        solutions.drop(1)
        wanted.bags[1] = [Counter() for _ in columns]
        assert Counter(map(tuple, solutions.answers().tolist())) == wanted.answer()
    solutions.drop(0)
    assert len(solutions.answers()) == 0


def test_memory_is_that_of_the_rows_there_are():
    """Rows that have gone make room for others."""
    solutions = Solutions(select=("?x",), meanings=1, most_parts=1, distinct=True, isomorphism=False)
    solutions.put(0, [("?x", "?y")], [np.zeros((0, 2), np.int32)])
    for number in range(200):
        rows = [(100 * number + i, i) for i in range(100)]
        for sign in (1, -1):
            changed(solutions, {Place(0, 0): part_rows(2, [(2 * number + 1, 0, sign, rows)])}, explicit=True)
    assert solutions.nbytes < 50_000


@pytest.mark.parametrize("distinct", [False, True])
def test_meanings_that_all_went_and_one_that_comes_back(distinct):
    """A literal whose vertices have no edge left, one meaning after the other."""
    columns = [("?x", "?y"), ("?z",)]
    rows = [np.array([[1, 2], [3, 4]], np.int32), np.array([[5]], np.int32)]
    solutions = Solutions(select=("?z", "?x"), meanings=2, most_parts=2, distinct=distinct, isomorphism=False)
    for meaning in (0, 1):
        solutions.put(meaning, columns, rows)
    solutions.drop(0)
    solutions.check({1: columns}, {1: rows})
    solutions.drop(1)
    solutions.check({}, {})
    assert not len(solutions.answers()) and solutions.nbytes == 0
    solutions.put(1, columns, rows)
    solutions.check({1: columns}, {1: rows})
    assert Counter(map(tuple, solutions.answers().tolist())) == Counter([(5, 1), (5, 3)])
