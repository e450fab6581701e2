"""Path queries that share trees tell what each alone would."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rpq
from tests.twins import collect

WINDOW = rpq.Window(size=10, slide=3)
WINDOWS = (WINDOW, rpq.Window(size=7, slide=1), rpq.CountWindow(size=6, step=2), rpq.UnboundedWindow())
TEXTS = ("a", "a/b*", "a/b*/b*", "(a|b)+", "^b/a*", "a/!(a)", "a/(b/a)*", "(a/b)*/a?")
COUNTED = (
    "tuples", "inserted", "refreshed", "deleted", "absent_deletes", "late", "irrelevant", "rows_added", "rows_removed",
    "answers_live", "edges_live", "index_cells",
)  # fmt: skip

tuples = st.tuples(
    st.integers(0, 5), st.integers(0, 5), st.sampled_from("abc"), st.integers(-2, 8), st.sampled_from("++++-")
)
ends = st.none() | st.frozensets(st.integers(0, 6), max_size=3)


def row_counts(changes: Iterable[Any]) -> Counter[Any]:
    return Counter(map(tuple, changes))


@st.composite
def queries(draw: st.DrawFn, first: int = 0) -> list[rpq.Query]:
    """Few expressions and windows, and many that differ in their ends alone."""
    found = []
    for _ in range(draw(st.integers(1, 5))):
        text, window = draw(st.sampled_from(TEXTS)), draw(st.sampled_from(WINDOWS))
        semantics: Any = draw(st.sampled_from(["implicit", "explicit"]))
        paths: Any = draw(st.sampled_from(["walk", "walk", "simple", "simple_cycle"]))
        side = draw(st.sampled_from(["sources", "targets"]))
        for one in draw(st.lists(ends, min_size=1, max_size=4)):
            both: dict[str, Any] = {side: one, "sources" if side == "targets" else "targets": draw(st.none() | ends)}
            name = f"q{first + len(found)}"
            found.append(rpq.Query(text, name=name, window=window, semantics=semantics, paths=paths, **both))
    return found


@pytest.mark.ci
@given(st.data())
def test_sharing_trees_is_never_seen(data: st.DataObject) -> None:
    keep = rpq.Window(size=14, slide=1)
    options: dict[str, Any] = {"keep": keep, "threads": data.draw(st.sampled_from([1, 1, 2]))}
    options["_capacity"] = data.draw(st.sampled_from([1, 256]))
    options["share"] = data.draw(st.sampled_from([(0, 1), (0, 1), (1, 2)]))
    questions = data.draw(queries())
    shared, apart = (rpq.Engine(*questions, _sharing=sharing, **options) for sharing in ("auto", "never"))
    pairs = data.draw(st.lists(st.tuples(*[st.integers(0, 5)] * 2)))
    static = [(one, another, "ab"[(one + another) % 2]) for one, another in pairs]
    for engine in (shared, apart):
        engine.load_static(static)
    running = {query.name for query in questions}
    time = number = 0
    for batch in data.draw(st.lists(st.lists(tuples, max_size=12), min_size=1, max_size=5)):
        rows = []
        for source, target, label, step, op in batch:
            rows.append((source, target, label, time + step, op))
            time = max(time, time + step)
        for some in [rows] if data.draw(st.booleans()) else [[row] for row in rows]:
            assert row_counts(shared.push_rows(some)) == row_counts(apart.push_rows(some))
        shared._check()
        what = data.draw(st.sampled_from(["come", "go", "restore", "advance", "collect"]))
        if what == "come":
            number += 100
            more = [query for query in data.draw(queries(number)) if query.window.kind == "time"]
            start: Any = data.draw(st.sampled_from(["window", "window", "empty"]))
            assert row_counts(shared.register(more, start=start)) == row_counts(apart.register(more, start=start))
            running |= {query.name for query in more}
        elif what == "go" and running:
            gone = data.draw(st.lists(st.sampled_from(sorted(running)), unique=True))
            for engine in (shared, apart):
                engine.unregister(gone)
            running -= {*gone}
        elif what == "restore":
            with tempfile.TemporaryDirectory() as folder:
                shared.save(Path(folder) / "state")
                shared = rpq.Engine.restore(Path(folder) / "state", threads=data.draw(st.sampled_from([1, 2])))
        elif what == "advance":
            time += 5
            assert row_counts(shared.advance(time)) == row_counts(apart.advance(time))
        elif what == "collect":
            collect(shared)
        shared._check()
        for name in running:
            assert Counter(shared.answers(name)) == Counter(apart.answers(name))
            one, other = (engine.statistics(name) for engine in (shared, apart))
            assert [getattr(one, each) for each in COUNTED] == [getattr(other, each) for each in COUNTED], name
        assert shared.statistics().rows_added == apart.statistics().rows_added


@given(st.lists(tuples, max_size=30), st.data())
def test_sharing_trees_is_not_seen_in_events_and_limits(rows: list[Any], data: st.DataObject) -> None:
    events: Any = data.draw(st.sampled_from(["window", "alone"]))
    kinds = ("unbounded",) if events == "alone" else ("time", "unbounded")
    questions = [query for query in data.draw(queries()) if query.window.kind in kinds]
    most = data.draw(st.sampled_from([None, 3, 6]))
    made: list[Any] = []
    time = 0
    for source, target, label, step, op in rows:
        time += abs(step)
        made.append((source, target, label, time, op, f"{len(made) // 3}"))
    names = ("source", "target", "label", "timestamp", "op", "event")
    columns = dict(zip(names, map(list, zip(*made, strict=True)), strict=False))
    outcomes = []
    for sharing in ("auto", "never"):
        engine = rpq.Engine(*questions, events=events, max_rows=most, _sharing=sharing)  # type: ignore[arg-type]
        try:
            outcomes.append((row_counts(engine.push(columns)) if made else None, None))
        except rpq.RowLimitError as error:
            assert error.changes is not None
            outcomes.append((row_counts(error.changes), str(error)))
    assert outcomes[0] == outcomes[1]


def asking(count: int, text: str = "a/b*", **options: Any) -> list[rpq.Query]:
    return [rpq.Query(text, window=WINDOW, name=f"q{i}", sources=[i], **options) for i in range(count)]


def test_queries_from_many_sources_are_one_index() -> None:
    engine = rpq.Engine(*asking(50), rpq.Query("a/b*/b*", window=WINDOW, name="all"))
    found = engine.push_rows([(3, 4, "a", 1), (60, 4, "a", 1), (4, 5, "b", 2)])
    assert row_counts(found) == Counter(
        [("q3", 3, 4, 1, "+"), ("all", 3, 4, 1, "+"), ("all", 60, 4, 1, "+")]
        + [("q3", 3, 5, 2, "+"), ("all", 3, 5, 2, "+"), ("all", 60, 5, 2, "+")]
    )
    engine.unregister("all")
    assert row_counts(engine.push_rows([(5, 6, "b", 3)])) == Counter([("q3", 3, 6, 3, "+")])
    collect(engine)
    engine._check()


def test_expressions_that_differ_where_the_start_is_met_again() -> None:
    """The words of one are a part of those of the other; their automata differ in whether the start accepts."""
    texts = ("a/(b/a)*", "(a/b)*/a?")
    for form in ("{}", "?x {} ?y"):
        engine = rpq.Engine(*(rpq.Query(form.format(text), window=WINDOW, name=text) for text in texts))
        found = engine.push_rows([(1, 2, "a", 1), (2, 3, "b", 1)])
        assert row_counts(found) == Counter([(texts[0], 1, 2, 1, "+"), (texts[1], 1, 2, 1, "+"), (texts[1], 1, 3, 1, "+")])


def test_a_query_that_comes_is_told_the_trees_of_others() -> None:
    engine = rpq.Engine(*asking(2), keep=WINDOW)
    engine.push_rows([(0, 1, "a", 1), (1, 2, "b", 2), (7, 1, "a", 2)])
    again, other = (rpq.Query("a/b*", window=WINDOW, name=f"n{root}", sources=[root, 9]) for root in (0, 7))
    assert row_counts(engine.register([again, other])) == Counter(
        [("n0", 0, 1, 2, "+"), ("n0", 0, 2, 2, "+"), ("n7", 7, 1, 2, "+"), ("n7", 7, 2, 2, "+")]
    )
    assert engine.statistics("n7").rows_added == 2 and engine.statistics("n7").inserted == 0
    engine.push_rows([(9, 2, "a", 3)])
    assert sorted(engine.answers("n0")) == [(0, 1), (0, 2), (9, 2)]
    assert engine.statistics("n7").inserted == 1


def test_explain_tells_with_how_many_trees_are_shared() -> None:
    others = rpq.Query("a", window=WINDOW, name="alone"), rpq.Query("a/b*", window=WINDOW, targets=[1])
    engine = rpq.Engine(*asking(12), *others)
    explanation = engine.explain("q3")
    assert explanation.to_dict()["shared_with"] == 11
    assert "shared: its trees with 11 other queries" in str(explanation)
    assert "from sources, of which it names 1" in str(explanation)
    assert "shared: " not in str(engine.explain("alone")) and "all of them roots" in str(engine.explain("alone"))
    assert "from targets, of which it names 1" in str(engine.explain("a/b*"))
    engine.unregister([f"q{i}" for i in range(1, 11)])
    assert "with 1 other query" in str(engine.explain("q0"))


def test_witnesses_are_of_own_roots_alone() -> None:
    engine = rpq.Engine(*asking(3))
    engine.push_rows([(0, 5, "a", 1), (5, 6, "b", 2), (1, 5, "a", 2)])
    path = engine.witness(0, 6, query="q0")
    assert isinstance(path, rpq.Path) and path.vertices == (0, 5, 6)
    assert engine.witness(1, 6, query="q0") is None and engine.witness(1, 6, query="q1") is not None


@pytest.mark.parametrize("name", ["q0"])
def test_the_first_may_go(name: str) -> None:
    engine, apart = (rpq.Engine(*asking(5), _sharing=sharing) for sharing in ("auto", "never"))  # type: ignore[arg-type]
    rows = [(place % 5, place * 3 % 7, "ab"[place % 2], place // 4) for place in range(60)]
    for some in (rows[:30], rows[30:]):
        assert row_counts(engine.push_rows(some)) == row_counts(apart.push_rows(some))
        for one in (engine, apart):
            one.unregister(name) if name in {query.name for query in one.queries} else None
    assert engine.statistics().rows_added == apart.statistics().rows_added


def test_vertices_that_come_back_have_other_ids() -> None:
    engine, apart = (rpq.Engine(*asking(4), _sharing=sharing, _capacity=1) for sharing in ("auto", "never"))  # type: ignore[arg-type]
    for turn in range(40):
        rows = [((turn * 3 + one) % 11, turn * 7 % 13, "ab"[one % 2], turn * 8) for one in range(5)]
        assert row_counts(engine.push_rows(rows)) == row_counts(apart.push_rows(rows))
        collect(engine)
        engine._check()


@pytest.mark.parametrize("first", ["insert", "delete"])
@pytest.mark.parametrize("threads", [2])
def test_a_query_of_a_root_that_has_left_comes_and_goes(first: str, threads: int) -> None:
    """The name of the root has no vertex when the query comes: a delete gave it one, or an insert that has expired."""
    questions = [rpq.Query("a+", window=WINDOW, name=name, sources=["x"]) for name in "pq"]
    engine = rpq.Engine(*questions, threads=threads, _capacity=1)
    getattr(engine, first)("x", "y", "a", 1)
    engine.advance(1000)
    collect(engine)
    for name in "rst":
        engine.register(rpq.Query("a+", window=WINDOW, name=name, sources=["x", "z"]))
        engine._check()
    engine.unregister("r")
    engine._check()
    engine.insert("x", "y", "a", 1001)
    engine._check()
    engine.unregister("s")
    engine._check()
    assert {name: [*engine.answers(name)] for name in "pqt"} == {name: [("x", "y")] for name in "pqt"}
