"""The oracle of costs, on examples worked by hand.

semantics.md S16
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest

from tests.reference_cost import CostQuery, costs
from tests.reference_properties import Edge, Loose, PropertyEngine


def graph(text: str, values: Any) -> list[Edge]:
    """Return edges written as `x a y`, with these values of n."""
    edges = (one.split() for one in text.split(", "))
    return [Edge(key, u, label, v, key, {"n": n}) for key, ((u, label, v), n) in enumerate(zip(edges, values, strict=True))]


@pytest.mark.parametrize(
    ("expression", "edges", "values", "expected"),
    [
        ("a", "x a y", [3], {"xy": 3}),
        ("a", "x a y", [0], {"xy": 0}),
        ("a+", "x a y, y a z, x a z", [1, 2, 4], {"xy": 1, "yz": 2, "xz": 3}),  # two edges are cheaper than one
        ("a+", "x a y, y a z, x a z", [1, 2, 2], {"xy": 1, "yz": 2, "xz": 2}),
        ("a", "x a y, x a y", [5, 4], {"xy": 4}),  # the cheaper of parallel edges
        ("a/a", "x a y, y a z, x a z", [1, 2, 0], {"xz": 3}),  # the direct edge spells no word
        ("a{3}", "x a x", [2], {"xx": 6}),  # an edge that is taken again counts again
        ("a+", "x a y, y a x", [0, 0], {"xy": 0, "yx": 0, "xx": 0, "yy": 0}),  # a cycle that costs nothing
        ("a/^a", "x a y, z a y", [2, 5], {"xx": 4, "xz": 7, "zx": 7, "zz": 10}),
        ("(a|b/b)", "x a y, x b z, z b y", [9, 1, 2], {"xy": 3}),
        ("a[n > 1]+", "x a y, y a z, x a z", [1, 2, 9], {"yz": 2, "xz": 9}),
        ("!(b)+", "x a y, y c z, x b z", [1, 1, 0], {"xy": 1, "yz": 1, "xz": 2}),
        ("!(a|^b)", "x c y", [2], {"xy": 2, "yx": 2}),
        ("a+", "x a y, y a z, x a z", [-1, 2, None], {"yz": 2}),  # neither negative nor null
        ("a+", "x a y, y a z", [math.nan, 0.5], {"yz": 0.5}),
        ("a+", "x a y, y a z", [math.inf, 0.5], {"xy": math.inf, "xz": math.inf, "yz": 0.5}),
        ("a/a", "x a y, y a z", [Decimal("0.1"), Decimal("0.2")], {"xz": Decimal("0.3")}),
        ("a/b/b", "x a y, y b z, z b w", [1e16, 1.0, 1.0], {"xw": 1e16}),  # from the source on: 1 is lost twice
        ("b/b/a", "x b y, y b z, z a w", [1.0, 1.0, 1e16], {"xw": 1e16 + 2}),
        ("a+", "x a y, y a z", [Loose("2"), Loose("much")], {"xy": 2.0}),
    ],
)  # fmt: skip
def test_the_smallest_sum(expression: str, edges: str, values: list, expected: dict) -> None:
    found = costs(expression, graph(edges, values), "n")
    assert {f"{x}{y}": cost for (x, y), cost in found.items()} == expected


def test_a_cost_that_changes_is_a_row_that_leaves_and_one_that_enters() -> None:
    engine = PropertyEngine(CostQuery.path("a+", size=10, slide=1, cost="n"))

    def rows(found: list) -> list[str]:
        return [f"{row.op}{row.values[0]}{row.values[1]}{row.values[2][1]}@{row.timestamp}" for row in found]

    assert rows(engine.insert("x", "a", "y", 1, n=1)) == ["+xy1@1"]
    assert rows(engine.insert("y", "a", "z", 2, n=2)) == ["+xz3@2", "+yz2@2"]
    assert rows(engine.insert("x", "a", "z", 3, n=1)) == ["-xz3@3", "+xz1@3"]
    assert rows(engine.insert("x", "a", "z", 4, n=9)) == ["-xz1@4", "+xz3@4"]  # it replaces the edge
    assert rows(engine.insert("x", "a", "z", 5, n=None)) == []
    assert rows(engine.delete("y", "a", "z", 6)) == ["-xz3@6", "-yz2@6"]
    assert rows(engine.advance(11)) == ["-xy1@11"]
