"""Kernels of graph patterns on examples worked by hand: plans, pieces, windows of any size, support lists."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpq.errors import QueryError
from rpq.operators.patterns import tables
from rpq.operators.patterns.joins.live_patterns import LivePatterns
from rpq.operators.patterns.joins.plan import Atom, plan_pattern
from rpq.operators.patterns.joins.plan_tables import PlanTables
from rpq.operators.patterns.relations.consistency import check
from rpq.operators.patterns.relations.relation import RelationStore
from rpq.operators.patterns.tables import Tuples
from tests.operators.patterns.kernels.label_readers import readers_of
from tests.twins import examples

a, b, c = range(3)


def chunk(rows) -> Tuples:
    """(source, label, target, time) or with True for a delete."""
    rows = [(*row, False)[:5] for row in rows]
    source, label, target, time, delete = (np.array(column) for column in zip(*rows, strict=True))
    kinds = np.int32, np.int32, np.int32, np.int64, np.uint8
    return Tuples(*(column.astype(kind) for column, kind in zip((source, target, label, time, delete), kinds, strict=True)))


class Stream:
    """One pattern over one window; `rows` are (sign, row, time)."""

    def __init__(self, atoms, kind="unbounded", size=1, slide=1, *, labels=3, values=1, explicit=True, **options) -> None:
        self.store = RelationStore(capacity=2)
        window = self.store.add_window(kind, size=size, slide=slide)
        self.store.read_labels([readers_of(self.store, [self.store.add_relation(window)]) for _ in range(labels)])
        self.tables = PlanTables(self.store)
        (part,) = plan_pattern(atoms, **options).parts
        self.tables.add(0, part, explicit=explicit)
        self.live = LivePatterns(self.store, self.tables, self.collect, values=values, runs=1)
        self.rows: list[tuple[int, tuple[int, ...], int]] = []
        self.pieces = 0

    def collect(self, live: LivePatterns) -> None:
        self.pieces += 1
        for run in live.runs():
            self.rows += [(run.sign, tuple(row), run.time) for row in run.rows.tolist()]

    def push(self, *rows) -> list[tuple[int, tuple[int, ...], int]]:
        self.rows = []
        self.live.apply(chunk(rows))
        check(self.store)
        return self.rows


# --- plans ------------------------------------------------------------------------------------------------------------


def test_a_plan_says_what_each_change_is_joined_with():
    triangle = plan_pattern([Atom("?x", a, "?y"), Atom("?y", b, "?z"), Atom("?z", a, "?x")])
    assert triangle.describe("abc".__getitem__).splitlines() == [
        "?x a ?y changes (if a into ?x, b from ?y):",
        "  ?z from the shortest of b from ?y, a into ?x",
        "?y b ?z changes (if a into ?y, a from ?z):",
        "  ?x from the shortest of a into ?y, a from ?z",
        "?z a ?x changes (if b into ?z, a from ?x):",
        "  ?y from the shortest of a from ?x before, b into ?z",
    ]


def test_parts_without_a_common_variable_and_conditions_stay_apart():
    plan = plan_pattern([Atom("?x", a, 7), Atom("?y", b, "?z"), Atom(7, b, 8), Atom(7, c, "?w")], select=["?z", "?x"])
    assert [part.variables for part in plan.parts] == [("?x",), ("?z", "?y"), ("?w",)]
    assert [part.columns for part in plan.parts] == [("?x",), ("?z",), ()]
    assert plan.conditions == (Atom(7, b, 8),)


def test_blank_nodes_are_bound_but_no_columns():
    plan = plan_pattern([Atom("?x", a, "_:b"), Atom("_:b", b, "?z")])
    assert plan.select == ("?x", "?z") and plan.parts[0].slots == ("?x", "?z", "_:b")


@pytest.mark.parametrize(
    ("select", "message"),
    [
        (["?q"], r"the pattern selects \?q, which is not one of its variables"),
        (["_:b"], "the pattern selects _:b, which is not one of its variables"),
        (["?x", "?x"], "the pattern selects a variable twice"),
    ],
)
def test_what_cannot_be_selected_is_refused(select, message):
    with pytest.raises(QueryError, match=message):
        plan_pattern([Atom("?x", a, "_:b")], select=select)


def test_too_many_atoms_are_refused():
    with pytest.raises(QueryError, match="33 atoms; at most 32"):
        plan_pattern([Atom(f"?{i}", a, f"?{i + 1}") for i in range(33)])


def test_only_sides_that_a_plan_walks_are_kept():
    stream = Stream([Atom("?x", a, "?y"), Atom("?y", b, "?z")])
    assert stream.store.relations.state.sides_stored == 2  # from ?y forward along b, backward along a


# --- joins ------------------------------------------------------------------------------------------------------------


@pytest.mark.ci
def test_an_edge_in_several_atoms_at_once_is_one_solution():
    stream = Stream([Atom("?x", a, "?y"), Atom("?y", a, "?z"), Atom("?z", a, "?x")])
    assert stream.push((5, a, 5, 1)) == [(1, (5, 5, 5), 1)]
    assert stream.push((5, a, 5, 1, True)) == [(-1, (5, 5, 5), 1)]


def test_the_longest_patterns_are_joined():
    stream = Stream([Atom(f"?{i}", a, f"?{i + 1}") for i in range(32)])
    rows = stream.push(*((i, a, i + 1, 1) for i in range(33)))
    assert rows == [(1, tuple(range(33)), 1), (1, tuple(range(1, 34)), 1)]


@pytest.mark.parametrize("columns", [0, 1, 3, 8, 9, 16, 17])
def test_rows_of_any_width_come_in_pieces(columns):
    # A star whose last ray has 300 values: the middle and all other rays are bound once.
    atoms = [Atom("?m", c, "?seed"), *(Atom("?m", b, f"?{i}") for i in range(max(columns - 2, 0))), Atom("?m", a, "?last")]
    select = ["?last", *(f"?{i}" for i in range(columns - 2)), "?m"][:columns]
    stream = Stream(atoms, select=select)
    stream.push(*((1, a, 1000 + i, 1) for i in range(300)), (1, b, 2, 1))
    rows = stream.push((1, c, 3, 2))
    wanted = [(1000 + i, *[2] * (columns - 2), 1)[:columns] for i in range(300)]
    if columns > 0:
        assert Counter(row for _, row, _ in rows) == Counter(wanted)
        assert stream.pieces >= 300 * columns // (2 * tables.SLOTS)
    else:
        assert len(rows) == 300


def test_new_patterns_compile_nothing():
    from rpq.operators.patterns.joins import updates

    stream = Stream([Atom("?x", a, "?y")])
    stream.push((1, a, 2, 1))
    before = len(getattr(updates.apply_tuples, "overloads", ()))
    part = plan_pattern([Atom("?x", a, "?y"), Atom("?y", b, "?x"), Atom("?y", b, 3)], isomorphism=True).parts[0]
    stream.tables.add(1, part, explicit=False)
    stream.push((2, b, 1, 1), (2, b, 3, 2))
    assert len(getattr(updates.apply_tuples, "overloads", ())) == before
    assert (1, (1, 2), 2) in stream.rows


def test_a_constant_may_be_a_vertex_that_no_edge_has_yet():
    stream = Stream([Atom("?x", a, 900), Atom(900, b, "?y"), Atom("?y", c, "?x")])
    assert stream.push((1, a, 2, 1), (3, c, 1, 1)) == []
    assert stream.push((1, a, 900, 2), (900, b, 3, 2)) == [(1, (1, 3), 2)]


def test_a_constant_is_a_vertex():
    with pytest.raises(ValueError, match="0 or more, not -1"):
        plan_pattern([Atom("?x", a, -1)])


def test_an_edge_from_a_vertex_to_itself_is_not_in_a_relation_without_loops():
    store = RelationStore()
    store.read_labels([readers_of(store, [store.add_relation(store.add_window("unbounded"), loopless=True)])])
    live = LivePatterns(store, PlanTables(store), lambda live: None)
    live.apply(chunk([(1, a, 1, 1), (1, a, 2, 1)]))
    assert store.edge_count == 1


# --- windows ----------------------------------------------------------------------------------------------------------


def test_a_count_window_loses_its_oldest_edge_to_a_new_one():
    stream = Stream([Atom("?x", a, "?y")], "count", 2)
    assert stream.push((1, a, 2, 1), (3, a, 4, 1), (1, a, 2, 2)) == [(1, (1, 2), 1), (1, (3, 4), 1)]
    assert stream.push((5, a, 6, 3)) == [(-1, (3, 4), 3), (1, (5, 6), 3)]


def test_boundaries_come_in_order_of_time_and_before_the_tuple():
    #   time    0    3    10   13   20         window of 10, slide 5
    #   1→2     +              - at 10
    #   3→4          +         - at 15
    stream = Stream([Atom("?x", a, "?y")], "time", 10, 5)
    stream.push((1, a, 2, 0), (3, a, 4, 3))
    assert stream.push((5, a, 6, 20)) == [(-1, (1, 2), 10), (-1, (3, 4), 15), (1, (5, 6), 20)]


def test_implicit_windows_are_silent_about_expiry_and_not_about_deletes():
    stream = Stream([Atom("?x", a, "?y")], "time", 10, 5, explicit=False)
    stream.push((1, a, 2, 0), (3, a, 4, 3))
    assert stream.push((3, a, 4, 10, True), (5, a, 6, 20)) == [(-1, (3, 4), 10), (1, (5, 6), 20)]


@examples(500)
@given(
    size=st.integers(0, 50).flatmap(lambda bits: st.integers(1, 1 << bits)),
    slide=st.integers(0, 40).flatmap(lambda bits: st.integers(1, 1 << bits)),
    start=st.integers(-(1 << 60), 1 << 60),
    steps=st.lists(st.integers(0, 52).flatmap(lambda bits: st.integers(0, 1 << bits)), max_size=30),
    late=st.integers(0, 1 << 20),
)
def test_edges_leave_at_their_boundary_whatever_its_size(size, slide, start, steps, late):
    """The timing wheel, over slides that differ in any byte."""
    stream = Stream([Atom("?x", a, "?y")], "time", size, slide)
    now, waiting = start, []
    for number, step in enumerate([0, *steps]):
        time = now + step - (late if number % 3 == 2 else 0)
        now = max(now, time)
        leaving = sorted((t, n) for t, n in waiting if t <= now)
        waiting = [(t, n) for t, n in waiting if t > now]
        expected = [(-1, (n, n), t) for t, n in leaving]
        leaves = -(-(time + size) // slide) * slide
        if leaves > now:
            waiting.append((leaves, number))
            expected.append((1, (number, number), now))
        stream.push((number, a, number, time))
        assert sorted(stream.rows, key=lambda row: (row[0], row[2], row[1])) == expected


# --- support lists ----------------------------------------------------------------------------------------------------

HUB = [Atom("?m", a, "?hub"), Atom("?n", a, "?hub"), Atom("?p", b, "?n"), Atom("?p", c, "?o")]
"""Of all that are at a hub, few are reached from someone with a `c`."""


def hub_stream(count: int) -> list[tuple[int, int, int, int]]:
    rows = []
    for i in range(count):
        rows.append((10 + i, a, i % 3, i))
        rows.append((10_000 + i % 50, b, 10 + i, i))
        if i % 400 == 0:
            rows.append((10_000 + i % 50, c, 9, i))
    return rows


def test_support_lists_are_kept_where_a_query_searches_in_vain():
    plain, choosing = (Stream(HUB, "time", 600, 10, values=1 << 16) for _ in range(2))
    plain.live.chooses = False
    rows = hub_stream(6_000)
    found = [[], []]
    for stream, into in zip((plain, choosing), found, strict=True):
        for first in range(0, len(rows), 500):
            stream.live.apply(chunk(rows[first : first + 500]))
            into += stream.rows
            stream.rows = []
        check(stream.store)
    assert choosing.tables.has_supports(0) and not plain.tables.has_supports(0)
    assert Counter(found[0]) == Counter(found[1]) and len(found[0]) > 1000
    looks = [stream.tables.take_work(0).looks for stream in (plain, choosing)]
    assert looks[1] < looks[0] / 4


def test_a_query_that_finds_what_it_looks_for_keeps_none():
    stream = Stream([Atom("?x", a, "?y"), Atom("?y", a, "?z")], "time", 600, 10, values=1 << 16)
    stream.live.apply(chunk([(i % 97, a, (i * 7) % 89, i) for i in range(9_000)]))
    stream.live.apply(chunk([(0, a, 1, 9_001)]))
    assert not stream.tables.has_supports(0)


def test_dropping_support_lists_leaves_nothing_behind():
    stream = Stream(HUB)
    stream.push(*hub_stream(50))
    for _ in range(3):
        assert stream.tables.support(0, True)
        check(stream.store)
        stream.tables.support(0, False)
        assert not stream.tables.has_supports(0)
        check(stream.store)
    size = stream.store.nbytes
    for keep in (True, False) * 3:
        stream.tables.support(0, keep)
    assert stream.store.nbytes == size
