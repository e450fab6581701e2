"""The oracle of edges with values, on examples worked by hand."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest

from tests.reference_patterns import Constant, Variable
from tests.reference_properties import Edge, EdgeAtom, PropertyEngine, PropertyQuery, holds, pairs

X, Y, Z = map(Variable, "xyz")


def path(expression: str, *, size: int = 10, slide: int = 1, **options) -> PropertyQuery:
    return PropertyQuery.path(expression, name="q", size=size, slide=slide, **options)


def pattern(*atoms: EdgeAtom, select: tuple[str, ...], size: int = 10, **options) -> PropertyQuery:
    return PropertyQuery(name="q", atoms=atoms, select=select, size=size, slide=1, **options)


def texts(rows) -> list[str]:
    """Return rows as `+ x y @time`."""
    return [" ".join([row.op, *map(str, row.values), f"@{row.timestamp}"]) for row in rows]


@pytest.mark.parametrize(
    ("condition", "values", "expected"),
    [
        ("n > 1", {"n": 2}, True),
        ("n > 1", {}, False),
        ("not n > 1", {}, False),  # the negation of null is null
        ("n is null", {}, True),
        ("n > 1 or m = 'a'", {"m": "a"}, True),  # null or true
        ("n > 1 and m = 'a'", {"m": "b"}, False),
        ("n in (1, 2)", {"n": 3}, False),
        ("n / 0 = 1 or n / 0 <> 1", {"n": 3}, False),  # a division by zero is null
        ("n + 1 > 0", {"n": 2**63 - 1}, False),  # an overflow is null
        ("n = m", {"n": 2.0**53, "m": 2**53 + 1}, False),  # compared exactly
        ("n = 9007199254740993", {"n": 2.0**53}, True),  # a constant beside a float is the nearest float
        ("n = 9007199254740993", {"n": 2**53 + 1}, True),
        ("n = 0.1", {"n": 0.1}, True),
        ("n = 0.1", {"n": Decimal("0.1")}, True),
        ("n = m", {"n": Decimal("0.1"), "m": 0.1}, False),
        ("n + 0.01 = 20", {"n": Decimal("19.99")}, True),
        ("n * 0.1 = 0.3", {"n": 3}, True),
        ("n = 1.5", {"n": Decimal("1.5")}, True),
        ("n = n", {"n": math.nan}, False),
        ("timestamp >= 5", {"timestamp": 5}, True),
    ],
)
def test_conditions_have_three_values(condition, values, expected):
    assert holds(condition, values) is expected


def test_brackets_bind_to_the_step_before_them():
    edges = [
        Edge(1, "x", "a", "y", 1, {"n": 5}),
        Edge(2, "z", "a", "y", 1, {"n": 1}),
        Edge(3, "y", "b", "w", 1, {"n": 5}),
    ]
    assert pairs("a[n > 4]", edges) == {("x", "y")}
    assert pairs("^a[n < 4]", edges) == {("y", "z")}
    assert pairs("a/^a[n < 4]", edges) == {("x", "z"), ("z", "z")}
    assert pairs("(a[n > 4]|b)+", edges) == {("x", "y"), ("y", "w"), ("x", "w")}
    assert pairs("a[m = ']'] | b[n > 4]", edges) == {("y", "w")}


def test_a_negated_set_with_brackets():
    edges = [Edge(1, "x", "a", "y", 1, {"n": 5}), Edge(2, "x", "b", "y", 1, {"n": 5}), Edge(3, "y", "c", "z", 1, {"n": 1})]
    assert pairs("!(a)[n > 4]", edges) == {("x", "y")}  # by b
    assert pairs("!a[n < 4]", edges) == {("y", "z")}
    assert pairs("!()[n > 4]/!a", edges) == {("x", "z")}
    # A forward step that is not a, or an inverse step that is not c.
    assert pairs("!(a|^c)[n > 4]", edges) == {("x", "y"), ("y", "x")}


def test_a_replacement_moves_an_edge_out_of_a_predicate():
    engine = PropertyEngine(path("a[n > 4]"))
    assert texts(engine.insert("x", "a", "y", 1, n=5)) == ["+ x y @1"]
    assert texts(engine.insert("x", "a", "y", 2, n=4)) == ["- x y @2"]  # under implicit windows too
    assert texts(engine.insert("x", "a", "y", 3, n=6)) == ["+ x y @3"]
    assert engine.counts("q")["refreshed"] == 2


def test_an_older_version_changes_nothing():
    engine = PropertyEngine(path("a[n > 4]"))
    engine.insert("x", "a", "y", 5, n=5)
    assert engine.insert("x", "a", "y", 4, n=1) == []
    assert texts(engine.insert("x", "a", "y", 5, n=1)) == ["- x y @5"]  # at equal timestamps the later arrival wins
    assert engine.counts("q")["refreshed"] == 2


def test_a_late_version_is_dropped_before_it_could_replace():
    engine = PropertyEngine(path("a[n > 4]", size=3))
    engine.insert("x", "a", "y", 10, n=5)
    assert engine.insert("x", "a", "y", 7, n=1) == []
    assert engine.counts("q")["late"] == 1


def test_the_properties_of_the_younger_edge_hold_until_it_expires():
    engine = PropertyEngine(path("a[n > 4]", size=3, semantics="explicit"))
    engine.insert("x", "a", "y", 1, n=5)
    assert engine.insert("x", "a", "y", 3, n=6) == []
    assert engine.advance(5) == []
    assert texts(engine.advance(6)) == ["- x y @6"]


def test_parallel_edges_are_edges_of_their_own():
    engine = PropertyEngine(path("a[n > 4]", size=3, semantics="explicit"), identity="parallel")
    assert texts(engine.insert("x", "a", "y", 1, n=5)) == ["+ x y @1"]
    assert engine.insert("x", "a", "y", 3, n=4) == []  # the edge at 1 is still there
    assert texts(engine.advance(4)) == ["- x y @4"]
    assert engine.counts("q")["inserted"] == 2


def test_a_delete_without_an_id_removes_all_parallel_edges_and_counts_once():
    engine = PropertyEngine(path("a"), identity="parallel")
    engine.insert("x", "a", "y", 1, n=5)
    engine.insert("x", "a", "y", 2, n=4)
    assert texts(engine.delete("x", "a", "y", 3)) == ["- x y @3"]
    assert engine.counts("q")["deleted"] == 1
    engine.delete("x", "a", "y", 4)
    assert engine.counts("q")["absent_deletes"] == 1


def test_a_delete_by_id_ignores_its_ends():
    engine = PropertyEngine(path("a"), identity="id")
    engine.insert("x", "a", "y", 1, key=7)
    engine.insert("x", "a", "y", 2, key=8)
    assert engine.delete(None, None, None, 3, key=7) == []  # the edge 8 has the same ends
    assert texts(engine.delete("somebody", "b", "else", 4, key=8)) == ["- x y @4"]


def test_an_edge_with_the_same_id_may_have_other_ends_and_another_label():
    engine = PropertyEngine(path("a"), identity="id")
    engine.insert("x", "a", "y", 1, key=7)
    assert texts(engine.insert("x", "a", "z", 2, key=7)) == ["- x y @2", "+ x z @2"]
    assert texts(engine.insert("x", "b", "z", 3, key=7)) == ["- x z @3"]
    assert engine.counts("q")["refreshed"] == 2


def test_an_edge_with_a_label_that_is_not_read_keeps_its_id():
    engine = PropertyEngine(path("a"), identity="id")
    engine.insert("x", "b", "y", 1, key=7)
    assert texts(engine.insert("x", "a", "y", 2, key=7)) == ["+ x y @2"]
    assert [engine.counts("q")[count] for count in ("irrelevant", "refreshed")] == [1, 1]


def test_an_edge_variable_beside_an_anonymous_atom():
    named = pattern(EdgeAtom(X, "a", Y, "e"), EdgeAtom(Y, "b", Z), select=("x", "z", "e.n"))
    engine = PropertyEngine(named, identity="parallel")
    for amount in (5, 6):
        engine.insert("x", "a", "y", 1, n=amount)
    engine.insert("y", "b", "z", 1)
    assert texts(engine.insert("y", "b", "z", 2)) == []  # parallel edges without a variable count once
    assert engine.counts("q")["rows_added"] == 2  # one for each parallel edge with a variable


def test_a_self_loop_gives_one_binding_for_both_directions():
    query = pattern(EdgeAtom(X, "a|^a", Y, "e"), select=("x", "y", "e"))
    engine = PropertyEngine(query, identity="parallel")
    assert texts(engine.insert("x", "a", "x", 1)) == ["+ x x 1 @1"]
    assert texts(engine.insert("x", "a", "y", 2)) == ["+ x y 2 @2", "+ y x 2 @2"]


def test_a_condition_between_edges():
    """A transfer goes on within ten units of time and with nine tenths of the amount."""
    query = pattern(
        EdgeAtom(X, "t", Y, "e"),
        EdgeAtom(Y, "t", Z, "f"),
        select=("x", "z"),
        filter="?f.timestamp > ?e.timestamp and ?f.amount >= 0.9 * ?e.amount",
        size=100,
    )
    engine = PropertyEngine(query, identity="parallel")
    engine.insert("a", "t", "b", 1, amount=100)
    assert engine.insert("b", "t", "c", 2, amount=80) == []
    assert texts(engine.insert("b", "t", "d", 3, amount=95)) == ["+ a d @3"]
    assert engine.insert("b", "t", "e", 1, amount=95) == []  # not later


def test_a_selected_value_that_changes_brings_the_old_row_and_the_new_one():
    query = pattern(EdgeAtom(X, "a", Y, "e"), select=("x", "y", "e.n"))
    engine = PropertyEngine(query)
    assert texts(engine.insert("x", "a", "y", 1, n=5, m=1)) == ["+ x y ('int', 5) @1"]
    assert texts(engine.insert("x", "a", "y", 2, n=6, m=1)) == ["- x y ('int', 5) @2", "+ x y ('int', 6) @2"]
    assert engine.insert("x", "a", "y", 3, n=6, m=2) == []  # nothing selected changes


def test_selected_values_compare_by_type_and_value():
    query = pattern(EdgeAtom(X, "a", Y, "e"), select=("x", "e.n"), distinct=True)
    engine = PropertyEngine(query, identity="parallel")
    for value in (1, 1.0, True, math.nan, math.nan, 0.0, -0.0):
        engine.insert("x", "a", "y", 1, n=value)
    assert engine.counts("q")["rows_added"] == 5


def test_two_edge_variables_may_be_one_edge_unless_a_filter_says_otherwise():
    atoms = (EdgeAtom(X, "a", Y, "e"), EdgeAtom(X, "a", Y, "f"))
    both = PropertyEngine(pattern(*atoms, select=("e", "f")), identity="parallel")
    assert len(both.insert("x", "a", "y", 1)) == 1
    different = PropertyEngine(pattern(*atoms, select=("e", "f"), filter="?e <> ?f"), identity="parallel")
    assert different.insert("x", "a", "y", 1) == []
    assert texts(different.insert("x", "a", "y", 2)) == ["+ 1 2 @2", "+ 2 1 @2"]


def test_numbers_of_parallel_edges_count_late_and_irrelevant_inserts():
    query = pattern(EdgeAtom(X, "a", Y, "e"), select=("e",), size=3)
    engine = PropertyEngine(query, identity="parallel")
    engine.insert("x", "a", "y", 10)
    engine.insert("x", "b", "y", 10)  # irrelevant
    engine.insert("x", "a", "y", 5)  # late
    assert texts(engine.insert("x", "a", "y", 10)) == ["+ 4 @10"]


def test_a_constant_end_and_a_path_with_conditions_in_a_pattern():
    query = pattern(EdgeAtom(Constant("x"), "a[n > 1]+", Y), EdgeAtom(Y, "b", Z, "e"), select=("y", "z", "e.n"))
    engine = PropertyEngine(query)
    engine.insert("x", "a", "y", 1, n=2)
    engine.insert("y", "a", "w", 1, n=2)
    assert texts(engine.insert("w", "b", "v", 2, n=3)) == ["+ w v ('int', 3) @2"]
    assert texts(engine.insert("y", "a", "w", 3, n=0)) == ["- w v ('int', 3) @3"]
