"""The oracle of paths in time order, on examples worked by hand.

semantics.md S15
"""

from __future__ import annotations

import pytest

from tests.reference_order import OrderedAtom, OrderEngine, OrderQuery, PathOrder, ordered_lengths, ordered_pairs
from tests.reference_patterns import Variable
from tests.reference_properties import Edge, EdgeAtom

STRICT, TIES = PathOrder(), PathOrder(strict=False)
X, Y, Z = map(Variable, "xyz")


def path(expression: str, order: PathOrder = STRICT, *, size: int = 10, slide: int = 1, **options) -> OrderQuery:
    return OrderQuery.path(expression, order=order, name="q", size=size, slide=slide, **options)


def edges_of(text: str) -> list[Edge]:
    """Return the edges of a text such as `x a y 1, y a z 2`, numbered."""
    rows = [one.split() for one in text.split(",")]
    return [Edge(number, s, label, t, int(time)) for number, (s, label, t, time) in enumerate(rows, 1)]


def texts(rows) -> list[str]:
    """Return rows as `+ x y @time`."""
    return [" ".join([row.op, *map(str, row.values), f"@{row.timestamp}"]) for row in rows]


def found(expression: str, edges: str, order: PathOrder = STRICT) -> list[str]:
    """Return the pairs as words `xy`."""
    return sorted("".join(pair) for pair in ordered_pairs(expression, edges_of(edges), order))


@pytest.mark.parametrize(
    ("expression", "edges", "order", "expected"),
    [
        # One after the other, or not.
        ("a/a", "x a y 1, y a z 2", STRICT, ["xz"]),
        ("a/a", "x a y 2, y a z 1", STRICT, []),
        ("a/a", "x a y 2, y a z 1", TIES, []),
        # Ties: only the order without strictness lets them follow each other, in any direction of arrival.
        ("a/a", "x a y 1, y a z 1", STRICT, []),
        ("a/a", "x a y 1, y a z 1", TIES, ["xz"]),
        ("a+", "y a z 1, x a y 1", TIES, ["xy", "xz", "yz"]),
        # A cycle of one timestamp may go round as often as the expression asks for.
        ("a{4}", "x a y 1, y a x 1", TIES, ["xx", "yy"]),
        ("a/a", "x a x 1", TIES, ["xx"]),
        ("a/a", "x a x 1", STRICT, []),  # a self-loop does not follow itself
        ("a+", "x a x 1", STRICT, ["xx"]),
        ("a/a", "x a x 1, x a x 2", STRICT, ["xx"]),
        # The path must respect the order in the direction in which it is walked.
        ("a/^a", "x a y 1, z a y 2", STRICT, ["xz"]),
        ("^a/a", "y a x 2, y a z 1", STRICT, ["zx"]),
        ("^(a/b)", "x a y 2, y b z 1", STRICT, ["zx"]),
        ("^(a/b)", "x a y 1, y b z 2", STRICT, []),
        ("a/^a", "x a y 1", STRICT, []),  # there and back would need the edge twice
        ("a/^a", "x a y 1", TIES, ["xx"]),
        ("a/^a", "x a y 1, x a y 2", STRICT, ["xx"]),  # the parallel edge alone makes it possible
        # A parallel edge that alone respects the order: y to z is there at 1 and at 3.
        ("a/b", "y b z 1, x a y 2, y b z 3", STRICT, ["xz"]),
        ("a/b/c", "x a y 2, y b z 1, y b z 3, y b z 5, z c w 4", STRICT, ["xw"]),
        # Closed walks: a ring has one vertex at which it can begin.
        ("a/a/a", "x a y 1, y a z 2, z a x 3", STRICT, ["xx"]),
        ("a+", "x a y 1, y a x 2", STRICT, ["xx", "xy", "yx"]),
        # The gap: any pair of neighbours may break it; one that is wide enough alone does not help.
        ("a/a", "x a y 1, y a z 4", PathOrder(gap=3), ["xz"]),
        ("a/a", "x a y 1, y a z 5", PathOrder(gap=3), []),
        ("a+", "x a y 1, y a z 4, z a w 8", PathOrder(gap=3), ["xy", "xz", "yz", "zw"]),
        ("a/b", "x a y 1, x a y 4, y b z 5", PathOrder(gap=1), ["xz"]),  # from the later of the parallel edges
        ("a/a", "x a y 1, y a z 1", PathOrder(strict=False, gap=0), ["xz"]),
        ("a/a", "x a y 1, y a z 2", PathOrder(strict=True, gap=0), []),
        # A path that goes round to wait: the gap is 2, and the loop at y carries it from 1 to 3 to 5.
        ("a/a*/b", "x a y 1, y a y 3, y b z 5", PathOrder(gap=2), ["xz", "yz"]),
        # The span: from the first edge to the last, whatever lies between.
        ("a+", "x a y 1, y a z 3, z a w 5", PathOrder(span=3), ["xy", "xz", "yw", "yz", "zw"]),
        ("a/b", "x a y 1, x a y 3, y b z 5", PathOrder(span=2), ["xz"]),  # from the later of the first edges
        ("a{3}", "x a y 1, y a z 3, z a w 5", PathOrder(gap=2, span=3), []),
        ("a{3}", "x a y 1, y a z 3, z a w 5", PathOrder(gap=2, span=4), ["xw"]),
        # One edge respects everything.
        ("a", "x a y 7", PathOrder(gap=0, span=0), ["xy"]),
        # Alternatives, negated sets, and the empty path, which is no answer.
        ("(a|b)+", "x a y 1, y b z 2", STRICT, ["xy", "xz", "yz"]),
        ("!b/!(a|^b)", "x a y 1, y c z 2", STRICT, ["xz"]),
        ("a*", "x a y 1", STRICT, ["xy"]),
        ("a?/b", "x a y 3, y b z 1", STRICT, ["yz"]),
    ],
)
def test_pairs(expression, edges, order, expected):
    assert found(expression, edges, order) == expected


@pytest.mark.parametrize(
    ("edges", "order", "expected"),
    [
        # The short way is not in order, or comes too late for what follows.
        ("x a y 1, y a z 2, x a z 3", STRICT, {"xy": 1, "xz": 1, "yz": 1}),
        ("x a y 1, y a z 2, x a z 4, z a w 3", STRICT, {"xy": 1, "xz": 1, "yz": 1, "zw": 1, "yw": 2, "xw": 3}),
        ("x a y 1, y a z 2, x a z 3, z a w 3", TIES, {"xy": 1, "xz": 1, "yz": 1, "zw": 1, "yw": 2, "xw": 2}),
        # From the parallel edge at 1 three steps lead to w, from the one at 4 none; the gap is kept by the loop at y.
        ("x a y 1, y a y 3, y a z 5", PathOrder(gap=2), {"xy": 1, "yy": 1, "yz": 1, "xz": 3}),
        ("x a y 1, x a y 4, y a y 3, y a z 5", PathOrder(gap=2), {"xy": 1, "yy": 1, "yz": 1, "xz": 2}),
        # Within the span only the younger first edge leads to z, and needs one edge more.
        ("x a z 1, x a y 3, y a z 4, z a w 6", PathOrder(span=3), {"xz": 1, "xy": 1, "yz": 1, "zw": 1, "yw": 2, "xw": 3}),
    ],
)
def test_lengths(edges, order, expected):
    found = ordered_lengths("a+", edges_of(edges), order)
    assert {"".join(pair): length for pair, length in found.items()} == expected


def test_a_length_grows_when_the_first_edge_expires():
    query = path("a+", size=5, semantics="explicit", has_length=True, sources=frozenset("x"), targets=frozenset("z"))
    engine = OrderEngine(query, identity="parallel")
    assert texts(engine.insert("x", "a", "z", 1)) == ["+ x z 1 @1"]
    engine.insert("x", "a", "y", 2)
    assert engine.insert("y", "a", "z", 3) == []
    assert texts(engine.advance(6)) == ["- x z 1 @6", "+ x z 2 @6"]
    assert texts(engine.insert("x", "a", "z", 6)) == ["- x z 2 @6", "+ x z 1 @6"]
    assert texts(engine.delete("x", "a", "z", 6)) == ["- x z 1 @6", "+ x z 2 @6"]
    assert texts(engine.advance(9)) == ["- x z 2 @7"]


def test_conditions_and_the_order_hold_of_the_same_edge():
    """Of two parallel edges one satisfies the condition and the other comes in time: there is no path."""
    edges = [Edge(1, "x", "a", "y", 1), Edge(2, "y", "b", "z", 0, {"n": 5}), Edge(3, "y", "b", "z", 2, {"n": 1})]
    assert ordered_pairs("a/b[n > 4]", edges, STRICT) == set()
    assert ordered_pairs("a/b[n < 4]", edges, STRICT) == {("x", "z")}


def test_the_newest_edge_is_the_last_of_a_path():
    engine = OrderEngine(path("a+"), identity="parallel")
    assert texts(engine.insert("y", "a", "z", 1)) == ["+ y z @1"]
    assert texts(engine.insert("x", "a", "y", 2)) == ["+ x y @2"]  # nothing leads on from y after 2
    assert texts(engine.insert("y", "a", "z", 3)) == ["+ x z @3"]  # y z is an answer already


def test_a_late_edge_completes_a_path():
    engine = OrderEngine(path("a/a"), identity="parallel")
    engine.insert("y", "a", "z", 5)
    assert texts(engine.insert("x", "a", "y", 3)) == ["+ x z @5"]
    assert engine.insert("w", "a", "y", 5) == []  # not later than the edge at 5
    assert texts(engine.insert("w", "a", "y", 4)) == ["+ w z @5"]


def test_a_late_edge_in_the_middle_completes_a_path():
    engine = OrderEngine(path("a/b/c"), identity="parallel")
    engine.insert("x", "a", "y", 1)
    engine.insert("z", "c", "w", 5)
    assert engine.insert("y", "b", "z", 6) == []
    assert texts(engine.insert("y", "b", "z", 3)) == ["+ x w @6"]


def test_an_edge_outside_the_window_is_late_and_completes_nothing():
    engine = OrderEngine(path("a/a", size=3), identity="parallel")
    engine.insert("y", "a", "z", 5)
    assert engine.insert("x", "a", "y", 2) == []
    assert engine.counts("q")["late"] == 1


def test_the_delete_of_the_middle_edge_takes_the_path_away():
    engine = OrderEngine(path("a/b/c"), identity="parallel")
    engine.insert("x", "a", "y", 1)
    engine.insert("y", "b", "z", 2)
    assert texts(engine.insert("z", "c", "w", 3)) == ["+ x w @3"]
    assert texts(engine.delete("y", "b", "z", 4)) == ["- x w @4"]  # under implicit windows too


def test_a_delete_by_id_leaves_the_parallel_edge():
    engine = OrderEngine(path("a/b"), identity="id")
    engine.insert("x", "a", "y", 2, "first")
    engine.insert("y", "b", "z", 3, "second")
    engine.insert("y", "b", "z", 1, "early")
    assert engine.delete(None, None, None, 4, "early") == []
    engine.insert("y", "b", "z", 4, "third")
    assert engine.delete(None, None, None, 5, "second") == []  # the third serves
    assert texts(engine.delete(None, None, None, 5, "third")) == ["- x z @5"]


def test_a_replacement_moves_an_edge_out_of_the_order():
    """With ids an edge that comes again has a new timestamp, with which it is no longer before the next."""
    engine = OrderEngine(path("a/b"), identity="id")
    engine.insert("x", "a", "y", 1, "first")
    assert texts(engine.insert("y", "b", "z", 2, "second")) == ["+ x z @2"]
    assert texts(engine.insert("x", "a", "y", 3, "first")) == ["- x z @3"]
    assert texts(engine.insert("y", "b", "z", 4, "second")) == ["+ x z @4"]
    assert engine.insert("x", "a", "y", 2, "first") == []  # an older version changes nothing


def test_the_first_edge_expires_first():
    engine = OrderEngine(path("a/b", size=5, semantics="explicit"), identity="parallel")
    engine.insert("x", "a", "y", 1)
    assert texts(engine.insert("y", "b", "z", 4)) == ["+ x z @4"]
    assert engine.advance(5) == []
    assert texts(engine.advance(6)) == ["- x z @6"]


def test_a_later_first_edge_keeps_the_pair():
    engine = OrderEngine(path("a/b", size=5, semantics="explicit"), identity="parallel")
    engine.insert("x", "a", "y", 1)
    engine.insert("y", "b", "z", 4)
    engine.insert("x", "a", "y", 5)  # which the edge at 4 does not follow
    assert texts(engine.insert("y", "b", "z", 6)) == ["- x z @6", "+ x z @6"]  # the boundary at 6 comes first
    assert texts(engine.advance(10)) == ["- x z @10"]


def test_pairs_that_expire_leave_silently_under_implicit_windows():
    engine = OrderEngine(path("a/b", size=5), identity="parallel")
    engine.insert("x", "a", "y", 1)
    engine.insert("y", "b", "z", 4)
    assert engine.advance(6) == []
    engine.insert("x", "a", "y", 6)
    assert texts(engine.insert("y", "b", "z", 7)) == ["+ x z @7"]  # and enter again


def test_a_count_window_numbers_inserts_and_orders_by_time():
    engine = OrderEngine(path("a/b", size=2, slide=1, window="count", semantics="explicit"), identity="parallel")
    engine.insert("y", "b", "z", 9)
    assert texts(engine.insert("x", "a", "y", 3)) == ["+ x z @9"]  # numbered 2, though it is older
    engine.insert("x", "c", "y", 3)  # has no number
    assert texts(engine.insert("u", "a", "y", 4)) == ["- x z @9"]  # evicts the edge at 9
    assert texts(engine.insert("y", "b", "z", 9)) == ["+ u z @9"]


def test_sources_and_targets():
    engine = OrderEngine(path("a+", sources=frozenset("x"), targets=frozenset("z")), identity="parallel")
    engine.insert("x", "a", "y", 1)
    assert texts(engine.insert("y", "a", "z", 2)) == ["+ x z @2"]


def test_a_pattern_joins_ordered_pairs_with_edges_of_any_time():
    atoms = (OrderedAtom(X, "a+", Y, PathOrder(gap=2)), EdgeAtom(Y, "b", Z))
    engine = OrderEngine(OrderQuery(name="q", atoms=atoms, select=("x", "y", "z"), size=10, slide=1), identity="parallel")
    engine.insert("y", "b", "z", 1)
    assert texts(engine.insert("x", "a", "w", 2)) == []
    assert texts(engine.insert("w", "a", "y", 4)) == ["+ w y z @4", "+ x y z @4"]
    assert texts(engine.insert("v", "a", "x", 5)) == []


def test_rings_of_three_respect_the_order_with_probability_one_half():
    """Of the six orders of three timestamps, three have a vertex from which they increase round the ring."""
    import itertools

    rings = [
        found("a/a/a", f"x a y {one}, y a z {two}, z a x {three}") for one, two, three in itertools.permutations((1, 2, 3))
    ]
    assert [len(ring) for ring in rings].count(1) == 3
