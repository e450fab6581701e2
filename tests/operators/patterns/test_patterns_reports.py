"""Patterns that report at boundaries, or once a moment: examples by hand, and against the oracle."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

import rpq
from tests.operators.patterns.pattern_twins import PatternTwins, long_streams, query_of, questions, rows_of, streams
from tests.twins import collect, examples, tiny

CHAIN = "?x a ?y . ?y b ?z"
REPORTS = ("slide", "slide", "time", "change")


def short(changes: rpq.Changes) -> list[tuple]:
    return [tuple(row)[1:] for row in changes.rows()]


# --- examples worked by hand ------------------------------------------------------------------------------------------


def test_at_boundaries_what_came_and_went_between_them_is_not_told():
    # window 10, slide 5: reports at 5, 10, 15, …
    #   time  1      2      3       5       6            9       21
    #         x a y  y b z  y b w   y b z-  → report 5   u b v   → reports 10 (nothing), 15 (x y w expires)
    engine = rpq.Engine(rpq.Query(CHAIN, window=rpq.Window(size=10, slide=5), report="slide"))
    first = [("x", "y", "a", 1), ("y", "z", "b", 2), ("y", "w", "b", 3), ("y", "z", "b", 5, "-")]
    assert short(engine.push_rows(first)) == []
    assert engine.statistics().rows_waiting == 1 and len(engine.answers()) == 1
    assert short(engine.insert("y", "q", "c", 6)) == [("x", "y", "w", 5, "+")]
    assert short(engine.insert("u", "v", "b", 9)) == []
    assert short(engine.advance(21)) == [("x", "y", "w", 15, "-")]
    figures = engine.statistics()
    assert (figures.rows_added, figures.rows_removed, figures.rows_waiting) == (1, 1, 0)


def test_a_report_is_told_when_the_time_exceeds_it_and_not_before():
    engine = rpq.Engine(rpq.Query("?x a ?y", window=rpq.Window(size=10, slide=5), report="slide"))
    engine.insert("x", "y", "a", 4)
    assert short(engine.insert("x", "z", "a", 5)) == []
    assert short(engine.advance(5)) == []
    assert Counter(short(engine.advance(6))) == Counter([("x", "y", 5, "+"), ("x", "z", 5, "+")])


def test_the_tuples_of_one_moment_are_one():
    engine = rpq.Engine(rpq.Query(CHAIN, window=rpq.Window(size=10, slide=1), report="time", select=["x"]))
    same = [("x", "y", "a", 1), ("y", "z", "b", 1), ("y", "w", "b", 1), ("x", "y", "a", 1, "-"), ("x", "y", "a", 1)]
    assert short(engine.push_rows([*same, ("p", "q", "c", 2)])) == [("x", 1, "+")] * 2
    assert short(engine.push_rows([("y", "z", "b", 3, "-"), ("y", "z", "b", 3), ("y", "w", "b", 4, "-")])) == []
    assert short(engine.advance(5)) == [("x", 4, "-")]


def test_rows_keep_their_names_when_no_edge_does():
    engine = tiny(2)(rpq.Query("?x a ?y", window=rpq.Window(size=5, slide=10), report="slide"))
    engine.insert("long", "ago", "a", 8)
    assert short(engine.advance(20)) == [("long", "ago", 10, "+")]  # it has expired, which report 20 will tell
    collect(engine)
    assert engine.statistics().vertices_live == 2
    for number in range(5):
        engine.insert(f"u{number}", f"v{number}", "a", 20)
    engine._check()
    wanted = [("long", "ago", 20, "-"), *((f"u{number}", f"v{number}", 20, "+") for number in range(5))]
    found = short(engine.advance(21))
    assert Counter(found) == Counter(wanted) and found[0] == wanted[0]
    collect(engine)
    assert engine.statistics().vertices_live == 10


def test_registered_in_mid_stream_and_taken_away():
    window = rpq.Window(size=10, slide=5)
    engine = rpq.Engine(rpq.Query("?x a ?y", window=window, name="all"))
    engine.push_rows([("x", "y", "a", 1), ("x", "z", "a", 3)])
    late = rpq.Query("?x a ?y", window=window, name="late", report="slide", distinct=True, select=("x",))
    assert engine.register(late).rows() == []
    assert [tuple(row) for row in engine.insert("q", "r", "b", 7).rows()] == [("late", "x", 5, "+")]
    engine.insert("p", "y", "a", 8)
    engine.unregister("late")
    assert engine.statistics().rows_waiting == 0
    assert [row for row in engine.advance(30).rows() if row[0] == "late"] == []


def test_saved_with_rows_that_wait(tmp_path):
    query = rpq.Query("?x a ?y", window=rpq.Window(size=3, slide=10), report="slide")
    engine = rpq.Engine(query)
    engine.push_rows([("x", "y", "a", 8), ("x", "gone", "a", 9), ("z", "x", "a", 9)])
    engine.delete("z", "x", "a", 9)
    engine.save(tmp_path / "state")
    other = rpq.Engine.restore(tmp_path / "state")
    assert other.queries[0].report == "slide" and other.statistics().rows_waiting == 2
    assert Counter(short(other.advance(11))) == Counter(short(engine.advance(11)))
    assert other.statistics().rows_added == 2


def test_the_last_report_moves_nothing():
    slow = rpq.Query("?x a ?y", window=rpq.Window(size=10, slide=10), report="slide", name="slow")
    quick = rpq.Query("?x a ?y", window=rpq.Window(size=3, slide=3), report="slide", name="quick")
    every = rpq.Query("?x a ?y", window=rpq.Window(size=3, slide=1), semantics="explicit", name="every")
    engine = rpq.Engine(slow, quick, every)
    assert not engine.flush().rows()  # nothing has come
    reports = []
    engine.on_change(reports.extend, query="slow")
    engine.insert("x", "y", "a", 7)
    wanted = [("quick", "x", "y", 9, "+"), ("slow", "x", "y", 10, "+")]
    assert [tuple(row) for row in engine.flush().rows()] == wanted
    assert [tuple(row) for row in reports] == wanted[1:] and engine.time == 7
    figures = engine.statistics()
    assert (figures.rows_added, figures.rows_waiting) == (1, 2)
    engine.delete("x", "y", "a", 9)  # the same report, with what has come since
    assert [tuple(row) for row in engine.flush().rows()] == []
    assert [tuple(row) for row in engine.advance(30).rows()] == []


def test_the_last_report_keeps_the_limit_on_rows():
    engine = rpq.Engine(rpq.Query("?x a ?y", window=rpq.Window(size=10, slide=10), report="slide"), max_rows=1)
    engine.insert("x", "y", "a", 7)
    assert len(engine.flush()) == 1
    engine.insert("x", "z", "a", 7)
    with pytest.raises(rpq.RowLimitError) as caught:
        engine.flush()
    assert not caught.value.changes
    engine.delete("x", "z", "a", 7)  # it goes on
    assert len(engine.flush()) == 1


# --- the question -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("report", ["slide"])
def test_reports_are_explicit(report):
    window = rpq.Window(size=10, slide=1)
    assert rpq.Query(CHAIN, window=window, report=report).semantics == "explicit"
    with pytest.raises(rpq.QueryError, match="are explicit"):
        rpq.Query(CHAIN, window=window, report=report, semantics="implicit")
    query = rpq.Query(CHAIN, window=window, report=report, semantics="explicit")
    assert query == rpq.Query(CHAIN, window=window, report=report) and "semantics" not in repr(query)
    assert repr(replace(query, name="other")) == f"Query({CHAIN!r}, window={window!r}, name='other', report={report!r})"
    with pytest.raises(rpq.QueryError, match="option of graph patterns"):
        rpq.Query("a/b", window=window, report=report)


# --- against the oracle -----------------------------------------------------------------------------------------------


@examples(60)
@given(questions(reports=REPORTS), streams, st.integers(1, 6), st.integers(1, 30), st.sampled_from((2, 16)))
def test_rows_and_answers(question, tuples, size, ahead, capacity):
    twins = PatternTwins(question, capacity=capacity)
    for begin in range(0, len(tuples), size):
        twins.push(tuples[begin : begin + size])
        twins.flush()
        twins.collect()
    event(f"waiting: {min(twins.engine.statistics().rows_waiting, 3)}")
    twins.advance(twins.engine.time + ahead)
    twins.collect()
    event(f"rows: {min(twins.engine.statistics().rows_added, 20)}")


@pytest.mark.ci
@examples(100)
@given(st.data(), questions("one", reports=REPORTS), questions("two", reports=REPORTS), streams)
def test_everything_that_can_happen(data, one, two, tuples):
    twins = PatternTwins(one)
    twins.live_through(data.draw, [one, two], tuples)


@examples(40)
@given(questions(reports=REPORTS[:3]), long_streams, st.integers(2, 3))
def test_shares_divide_the_rows_and_their_sum_is_the_answer(question, tuples, shares):
    query = query_of(question)
    whole = tiny(2)(query)
    parts = [tiny(2)(query, share=(number, shares)) for number in range(shares)]
    rows = rows_of(whole.push_rows(tuples)) + rows_of(whole.advance(whole.time + 10))
    found = [row for part in parts for row in rows_of(part.push_rows(tuples)) + rows_of(part.advance(whole.time))]
    assert Counter(rows) == Counter(found)
    total: Counter = Counter()
    for row in rows:
        total[row.values] += 1 if row.op == "+" else -1
    assert min(total.values(), default=0) >= 0
    if not whole.statistics().rows_waiting:
        assert +total == Counter(whole.answers())


def test_what_waits_counts_for_the_memory_limit():
    query = rpq.Query("?x a ?y", window=rpq.Window(size=10, slide=10**6), report="slide")
    tuples = [(n, n + 1, "a", 10 * n) for n in range(100_000)]
    engine = rpq.Engine(query, memory_limit=6_000_000)
    with pytest.raises(rpq.MemoryLimitError) as caught:
        engine.push_rows(tuples)
    assert caught.value.query == query.name and 0 < caught.value.row < len(tuples)
