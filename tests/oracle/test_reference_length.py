"""The oracle of lengths, on examples worked by hand.

semantics.md S16
"""

from __future__ import annotations

import pytest

from tests.reference import ReferenceEngine
from tests.reference_length import LengthQuery, lengths
from tests.strategies.drawn import graph


@pytest.mark.parametrize(
    ("expression", "edges", "expected"),
    [
        ("a", ["x a y"], "xy1"),
        ("a+", ["x a y", "y a z"], "xy1 xz2 yz1"),
        ("a+", ["x a y", "y a z", "x a z"], "xy1 xz1 yz1"),  # the direct edge is shorter
        ("a/b*", ["x a y", "y b z", "z b w", "y b w"], "xw2 xy1 xz2"),
        ("a/a", ["x a y", "y a z", "x a z"], "xz2"),  # the direct edge spells no word
        ("a+", ["x a y", "y a x"], "xx2 xy1 yx1 yy2"),  # (x, x) needs the cycle
        ("a+", ["x a x"], "xx1"),
        ("a{2,}", ["x a x"], "xx2"),  # a walk may take an edge again
        ("(a/a)+", ["x a y", "y a z", "z a w", "w a x"], "xx4 xz2 yw2 yy4 zx2 zz4 wy2 ww4"),
        ("a/^a", ["x a y"], "xx2"),  # there and back: two edges
        ("(a|b/b)", ["x a y", "x b z", "z b y"], "xy1"),  # of two words the shorter
        ("a?/b/c?", ["x b y", "x a z", "z b y", "y c y"], "xy1 zy1"),
        ("^(a/b)", ["x a y", "y b z"], "zx2"),
        ("!(b)+", ["x a y", "y c z", "x b z"], "xy1 xz2 yz1"),
        ("a*", [], ""),  # the empty path is no answer
    ],
)
def test_the_smallest_number_of_edges(expression: str, edges: list[str], expected: str) -> None:
    found = lengths(expression, graph(*edges))
    assert {f"{x}{y}{length}" for (x, y), length in found.items()} == set(expected.split())


def changes(engine: ReferenceEngine, *tuples: str) -> list[str]:
    rows = []
    for text in tuples:
        source, target, label, timestamp, *op = text.split()
        rows += engine.push(source, target, label, int(timestamp), *op)
    return [f"{row.op}{row.source}{row.target}{row.length}@{row.timestamp}" for row in rows]


def test_a_length_that_changes_is_a_row_that_leaves_and_one_that_enters() -> None:
    engine = ReferenceEngine(LengthQuery(name="q", expression="a+", size=10, slide=1))
    assert changes(engine, "x y a 1", "y z a 2") == ["+xy1@1", "+xz2@2", "+yz1@2"]
    assert sorted(changes(engine, "x z a 3")) == ["+xz1@3", "-xz2@3"]
    assert sorted(changes(engine, "x z a 4 -")) == ["+xz2@4", "-xz1@4"]


def test_expiry_lengthens_and_removes() -> None:
    engine = ReferenceEngine(LengthQuery(name="q", expression="a+", size=10, slide=1))
    changes(engine, "x z a 1", "x y a 3", "y z a 3")
    assert sorted(changes(engine, "u v b 12")) == ["+xz2@11", "-xz1@11"]
    assert sorted(changes(engine, "u v b 13")) == ["-xy1@13", "-xz2@13", "-yz1@13"]
