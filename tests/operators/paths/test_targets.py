"""Queries for few targets: the rows are those of the whole query to these targets, and they cost what few roots cost.

semantics.md S1 S7
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rpq
from rpq.operators.paths.direction import way_of
from tests.engine.test_engine_properties import SEEDS, cut, same_moments, stream
from tests.twins import assert_path, examples, tiny

EXPRESSIONS = ("a", "a/b*", "(a|^b)+", "a*/b*", "!a/b", "a/^b?", "!(a|^b)+", "(a/b)+", "^(a/c)*", "a/b*/c", "a{0}", "a{2,3}")
WINDOWS = ((1, 1), (20, 3), (7, 7), (40, 1), (4, 9))


def draw_query(data: st.DataObject, **options: object) -> rpq.Query:
    size, slide = data.draw(st.sampled_from(WINDOWS))
    return rpq.Query(
        data.draw(st.sampled_from(EXPRESSIONS)),
        name="q",
        window=rpq.Window(size=size, slide=slide),
        semantics=data.draw(st.sampled_from(("explicit", "implicit"))),
        paths=data.draw(st.sampled_from(("walk", "walk", "simple", "simple_cycle"))),
        **options,
    )


def of_targets(rows: Sequence[tuple], query: rpq.Query) -> list[tuple]:
    """The rows of a query without ends that are those of the query."""
    assert query.targets is not None
    selected = [tuple(row) for row in rows if query.sources is None or row[1] in query.sources]
    return [row for row in selected if row[2] in query.targets]


def whole_of(query: rpq.Query) -> rpq.Query:
    """The query for all pairs."""
    return rpq.Query(query.expression, name="q", window=query.window, semantics=query.semantics, paths=query.paths)


@examples(60)
@given(SEEDS, st.data())
def test_rows_are_those_of_the_whole_query_to_these_targets(seed: int, data: st.DataObject) -> None:
    tuples = stream(seed, count=80)
    ends = data.draw(st.frozensets(st.integers(0, 8), max_size=3))
    begins = data.draw(st.none() | st.just(frozenset(range(6))))
    query = draw_query(data, targets=ends, sources=begins)
    whole = rpq.Engine(whole_of(query))
    engine = tiny(data.draw(st.sampled_from((2, 4, 16))))(query, threads=data.draw(st.sampled_from((1, 2))))
    rows = [row for batch in cut(tuples, random.Random(seed), 4) for row in engine.push_rows(batch)]
    assert same_moments(rows, of_targets(list(whole.push_rows(tuples)), query))
    engine._check()
    assert engine.time is not None
    later = engine.time + 15
    assert same_moments(list(engine.advance(later)), of_targets(list(whole.advance(later)), query))
    expected = {(x, y) for x, y in whole.answers().pairs() if y in ends and (begins is None or x in begins)}
    assert engine.answers().pairs() == expected


@examples(20)
@given(SEEDS, st.data())
def test_every_row_has_a_path_in_the_right_direction(seed: int, data: st.DataObject) -> None:
    query = draw_query(data, targets=frozenset((1, 4)))
    engine = rpq.Engine(query, witness=True)
    present: dict[tuple, int] = {}
    for u, v, label, time, op in stream(seed, count=60):
        changes = engine.push_rows([(u, v, label, time, op)])
        if op == "-":
            present.pop((u, label, v), None)
        else:
            present[u, label, v] = max(time, present.get((u, label, v), time))
        assert engine.time is not None
        lower = query.window.lower_bound(engine.time)
        inside = [edge for edge, at in present.items() if at > lower]
        for row in changes.to_arrow(witness=True).to_pylist():
            if row["op"] == "+":
                path = json.loads(row["path"])
                assert_path(path[::2], path[1::2], (row["source"], row["target"]), query, inside)
        for pair in list(engine.answers().pairs())[:3]:
            found = engine.witness(*pair)
            assert_path(found.vertices, found.labels, pair, query, inside)


# By hand


def chain(length: int) -> list[tuple]:
    """v0 -a-> v1 -a-> … at time 0."""
    return [(f"v{i}", f"v{i + 1}", "a", 0) for i in range(length)]


WINDOW = rpq.Window(size=10, slide=1)


@pytest.mark.parametrize("paths", ["walk", "simple"])
def test_one_target_costs_one_tree(paths: str) -> None:
    engine = rpq.Engine(rpq.Query("a+", window=WINDOW, paths=paths, targets=["v50"]))
    assert len(engine.push_rows(chain(100)).rows()) == 50
    assert engine.statistics().index_cells == 50, "v0 to v49, not the trees of a hundred roots"
    assert engine.witness("v48", "v50") == rpq.Path(("v48", "v49", "v50"), ("a", "a"))


def test_fewer_targets_than_sources_are_the_roots() -> None:
    sources = [f"v{i}" for i in range(40)]
    engine = rpq.Engine(rpq.Query("a+", window=WINDOW, sources=sources, targets=["v50", "v60"]))
    assert len(engine.push_rows(chain(100)).rows()) == 80
    assert engine.statistics().index_cells == 50 + 60
    few = rpq.Engine(rpq.Query("a+", window=WINDOW, sources=["v30"], targets=["v50", "v60"]))
    assert [(row.source, row.target) for row in few.push_rows(chain(100)).rows()] == [("v30", "v50"), ("v30", "v60")]
    assert few.statistics().index_cells == 70, "from v30 on"


def test_rows_leave_and_come_back_turned_the_right_way() -> None:
    """Window 10, slide 1, a/^b*, explicit, to z:

    time     0        1        2        3        10                11
             x a y    z b y    -z b y   z b y    (x a y expires)   (z b y stays until 13)
    """
    query = rpq.Query("a/^b*", name="q", window=WINDOW, semantics="explicit", targets=["z"])
    engine = rpq.Engine(query, witness=True)
    rows = engine.push_rows([("x", "y", "a", 0), ("z", "y", "b", 1), ("z", "y", "b", 2, "-"), ("z", "y", "b", 3)])
    path = '["x", "a", "y", "^b", "z"]'
    assert rows.to_arrow(witness=True).drop_columns("query").to_pylist() == [
        {"source": "x", "target": "z", "timestamp": 1, "op": "+", "path": path, "path_times": [0, 1]},
        {"source": "x", "target": "z", "timestamp": 2, "op": "-", "path": "", "path_times": None},
        {"source": "x", "target": "z", "timestamp": 3, "op": "+", "path": path, "path_times": [0, 3]},
    ]
    assert engine.advance(11).rows() == [rpq.Change("q", "x", "z", 10, "-")]


def test_rows_are_turned_under_windows_of_count_too() -> None:
    """The last two inserts: the third takes the first away, and its row, in one event."""
    window = rpq.CountWindow(size=2)
    engine = rpq.Engine(rpq.Query("a/b", name="q", window=window, semantics="explicit", targets=["z"]), witness=True)
    changes = engine.push_rows([("x", "y", "a", 1), ("y", "z", "b", 1), ("w", "y", "a", 1)])
    assert [tuple(row) for row in changes.rows()] == [
        ("q", "x", "z", 1, "+"),
        ("q", "x", "z", 1, "-"),
        ("q", "w", "z", 1, "+"),
    ]
    assert [path for path in changes.to_arrow(witness=True)["path"].to_pylist() if path] == [
        '["x", "a", "y", "b", "z"]',
        '["w", "a", "y", "b", "z"]',
    ]


def test_shares_are_of_targets_where_these_are_the_roots() -> None:
    query = rpq.Query("a+", window=WINDOW, targets=[f"v{i}" for i in range(20)])
    parts = []
    for number in range(3):
        engine = rpq.Engine(query, share=(number, 3), threads=2)
        parts.append([(row.source, row.target) for row in engine.push_rows(chain(30)).rows()])
    targets = [{target for _, target in part} for part in parts]
    assert not (targets[0] & targets[1] or targets[0] & targets[2] or targets[1] & targets[2])
    assert sorted(pair for part in parts for pair in part) == sorted((f"v{i}", f"v{j}") for j in range(20) for i in range(j))


def test_an_automaton_that_is_much_larger_in_the_other_direction_is_not_taken() -> None:
    query = rpq.Query("(a|b){9}/a/(a|b)*", window=WINDOW, targets=["v15"])
    assert not way_of(query).is_reversed
    assert not way_of(rpq.Query("(a|b){20}/a/(a|b)*", window=WINDOW, targets=["v15"])).is_reversed, "it has too many states"
    assert way_of(rpq.Query("(a|b)*/a/(a|b){9}", window=WINDOW, targets=["v15"])).is_reversed
    engine = rpq.Engine(query)
    assert {row.source for row in engine.push_rows(chain(30)).rows()} == {f"v{i}" for i in range(6)}


def test_an_expression_that_gets_too_deep_when_it_is_reversed_is_followed_from_the_sources() -> None:
    deep = "(" * 98 + "a/b" + ")?" * 98
    query = rpq.Query(deep, window=WINDOW, targets=["z"])
    assert not way_of(query).is_reversed
    rows = rpq.Engine(query).push_rows([("x", "y", "a", 0), ("y", "z", "b", 0)]).rows()
    assert [(row.source, row.target) for row in rows] == [("x", "z")]


def test_simple_paths_with_conflicts_keep_their_budgets_and_what_is_set_aside() -> None:
    # x --a--> y --b--> u --c--> y: the conflict; the rest makes the search for (x, y) long.
    options = {"paths": "simple", "targets": ["y"], "simple_budget": 3}
    query = rpq.Query("a/b*/c", name="q", window=WINDOW, **options)
    engine = rpq.Engine(query)
    batch = [("x", "y", "a", 1), ("y", "u", "b", 1), ("u", "y", "c", 1), ("x", "v", "a", 2), ("v", "u", "b", 2)]
    with pytest.raises(rpq.ConflictBudgetError, match="the simple paths from 'x' took"):
        engine.push_rows([*batch, ("v", "w", "b", 2), ("w", "u", "b", 2)])
    assert engine.set_aside() == ["x"]
    assert not way_of(query).is_reversed
    assert not way_of(rpq.Query("a/b*", window=WINDOW, paths="simple", targets=["z"])).is_reversed, "^b*/^a has conflicts"
    assert way_of(rpq.Query("a/b*", window=WINDOW, targets=["z"])).is_reversed
