"""The guard on the rows of one event: what is delivered before, what is not, and what can be done afterwards."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

import rpq
from tests.operators.patterns.pattern_twins import by_event, query_of, questions, rows_of, streams
from tests.reference_pattern_stream import PatternReference, RegistrationRefused, TooManyRows
from tests.stream.test_windows_random import KINDS, patterns, statics
from tests.twins import examples, tiny

W = rpq.Window(size=100, slide=1)
STAR = "?x a ?y . ?x b ?z"
HUB = [("hub", f"y{n}", "a", 1) for n in range(9)]


def short(changes: rpq.Changes) -> list[tuple]:
    return [tuple(row) for row in changes.rows()]


# --- examples worked by hand ------------------------------------------------------------------------------------------


def test_of_the_tuple_nothing_and_of_those_before_everything():
    # Tuple 10 brings nine rows to "star" and one to "edges".
    engine = rpq.Engine(rpq.Query(STAR, window=W, name="star"), rpq.Query("?x b ?y", window=W, name="edges"), max_rows=8)
    tuples = [*HUB, ("other", "q", "b", 2), ("hub", "z", "b", 3), ("other", "r", "b", 4)]
    with pytest.raises(rpq.RowLimitError, match="query 'star': tuple 10 of the batch would bring 9 rows") as caught:
        engine.push_rows(tuples)
    error = caught.value
    assert (error.query, error.row, error.number, error.limit) == ("star", 10, 9, 8)
    assert short(error.changes) == [("edges", "other", "q", 2, "+")] and error.changes.added == 1
    with pytest.raises(rpq.RpqError, match="limit on memory, rows or time.*accepts no further tuples"):
        engine.insert("other", "s", "b", 4)
    with pytest.raises(rpq.RpqError, match="accepts no further tuples"):
        engine.answers("star")


def test_as_many_as_are_allowed_are_told():
    engine = rpq.Engine(rpq.Query(STAR, window=W), max_rows=9)
    assert engine.push_rows([*HUB, ("hub", "z", "b", 3)]).added == 9
    with pytest.raises(rpq.RowLimitError):
        engine.push_rows([("hub", "y9", "a", 4), ("hub", "w", "b", 5)])
    assert rpq.Engine(rpq.Query(STAR, window=W), max_rows=None).push_rows([*HUB, ("hub", "z", "b", 3)]).added == 9


def test_when_time_alone_brings_them():
    engine = rpq.Engine(rpq.Query("?x a ?y", window=rpq.Window(size=10, slide=10), semantics="explicit"), max_rows=5)
    engine.push_rows(HUB)
    with pytest.raises(rpq.RowLimitError, match="moving the time would bring 9 rows") as caught:
        engine.advance(30)
    assert caught.value.row is None and short(caught.value.changes) == []


@pytest.mark.parametrize("query", [STAR, "?x a ?y . ?u b ?v", "(a|^a|b|^b)+"])
def test_a_query_that_would_begin_with_too_many_is_refused_and_the_engine_goes_on(query):
    engine = rpq.Engine(rpq.Query("?x b ?z . ?z a ?x", window=W, name="first"), max_rows=8)
    engine.push_rows([*HUB, ("hub", "z", "b", 3)])
    with pytest.raises(rpq.RowLimitError, match="registering it would bring .* remains usable") as caught:
        engine.register(rpq.Query(query, window=W, name="late"))
    assert caught.value.query == "late" and caught.value.row is None and caught.value.number > 8
    assert [query.name for query in engine.queries] == ["first"]
    engine._check()
    assert short(engine.insert("z", "hub", "a", 4)) == [("first", "hub", "z", 4, "+")]


def test_a_saved_state_goes_on_with_a_larger_limit(tmp_path):
    engine = rpq.Engine(rpq.Query(STAR, window=W), max_rows=8)
    engine.push_rows(HUB)
    engine.save(tmp_path / "state")
    with pytest.raises(rpq.RowLimitError):
        rpq.Engine.restore(tmp_path / "state", max_rows=8).insert("hub", "z", "b", 3)
    assert rpq.Engine.restore(tmp_path / "state", max_rows=9).insert("hub", "z", "b", 3).added == 9


def test_path_queries_are_guarded_too():
    stream = [("x", f"y{n}", "a", n) for n in range(20)]
    engine = rpq.Engine(rpq.Query("(a|^a)+", window=W), threads=2, max_rows=30)
    with pytest.raises(rpq.RowLimitError) as caught:
        engine.push_rows(stream)
    assert caught.value.row == 14 and caught.value.number == 31  # to y14 and from it: 15 vertices each, and itself
    wanted = rpq.Engine(rpq.Query("(a|^a)+", window=W)).push_rows(stream[:14])
    assert Counter(caught.value.changes.rows()) == Counter(wanted.rows())


def test_a_path_stops_early():
    """The last edge closes a ring of 300 vertices: 45,150 pairs, of which a few thousand are found."""
    ring = [(n, (n + 1) % 300, "a", 1) for n in range(300)]
    engine = rpq.Engine(rpq.Query("a+", window=W, name="q"), max_rows=1_000)
    for first in range(0, 299, 13):
        engine.push_rows(ring[first : first + 13])
    with pytest.raises(rpq.RowLimitError) as caught:
        engine.push_rows([(0, 1, "a", 2), ring[-1]])
    assert caught.value.row == 1 and 4_000 < caught.value.number < 20_000
    assert caught.value.changes.rows() == []
    engine = rpq.Engine(rpq.Query("a", window=W, name="first"), max_rows=1_000)
    engine.push_rows(ring)
    with pytest.raises(rpq.RowLimitError, match="registering it would bring .* remains usable") as caught:
        engine.register(rpq.Query("a+", window=W, name="late"))
    assert caught.value.query == "late" and 4_000 < caught.value.number < 20_000
    engine._check()
    assert short(engine.insert(7, 9, "a", 3)) == [("first", 7, 9, 3, "+")]


@pytest.mark.parametrize("query", ["?z b ?x . ?x a ?y", "b/a"])
def test_rows_that_cancel_out_within_an_event_are_none(query):
    engine = rpq.Engine(rpq.Query(query, window=W), events="window", max_rows=10)
    engine.push_rows([("hub", f"y{n}", "a", 1) for n in range(30)])  # which both tuples of the event find
    edge = {"source": ["z", "z"], "target": ["hub", "hub"], "label": ["b", "b"], "timestamp": [2, 2], "op": ["+", "-"]}
    assert engine.push(edge, event=True).rows() == []


def test_the_join_stops_early():
    """A hub with ten thousand edges on each side: their product is not found first, and takes no memory."""
    engine = rpq.Engine(rpq.Query("?x a ?y . ?y b ?z . ?y c ?w", window=W), memory_limit=150_000_000, max_rows=1_000_000)
    count = 10_000
    for label in "bc":
        source, target = ["hub"] * count, [f"{label}{n}" for n in range(count)]
        engine.push(source=source, target=target, label=[label] * count, timestamp=[1] * count)
    with pytest.raises(rpq.RowLimitError) as caught:
        engine.insert("x", "hub", "a", 2)
    assert 1_000_000 < caught.value.number < 1_100_000
    # The same while it is registered, and where the rows are made from those of parts.
    for text, options in (("?y b ?z . ?y c ?w", {}), ("?u b ?z . ?y c ?w", {"select": ["u", "z", "w"]})):
        engine = rpq.Engine(rpq.Query("b|c", window=W), memory_limit=200_000_000, max_rows=100_000)
        for label in "bc":
            source, target = ["hub"] * count, [f"{label}{n}" for n in range(count)]
            engine.push(source=source, target=target, label=[label] * count, timestamp=[1] * count, collect=False)
        with pytest.raises(rpq.RowLimitError) as caught:
            engine.register(rpq.Query(text, window=W, name="late", **options))
        assert caught.value.number > 100_000


def test_the_product_of_parts_stops_early():
    """Four million rows that one tuple would bring: hardly more than the limit are found, wherever it lies in its batch."""
    count = 2_000
    for before, distinct in ((0, False), (3, False), (0, True), (3, True)):
        query = rpq.Query("?u b ?z . ?y c ?w . ?p d ?q", window=W, name="q", distinct=distinct)
        engine = rpq.Engine(query, max_rows=1_000)
        for label in "bc":
            names = [f"{label}{n}" for n in range(count)]
            engine.push(source=["hub"] * count, target=names, label=[label] * count, timestamp=[1] * count)
        with pytest.raises(rpq.RowLimitError) as caught:
            engine.push_rows([("x", f"y{n}", "e", 2) for n in range(before)] + [("x", "y", "d", 2), ("x", "z", "d", 3)])
        assert caught.value.row == before and 1_000 < caught.value.number < 2_000
        assert caught.value.changes.rows() == []


def test_a_distinct_product_is_not_counted_to_its_end_when_it_is_registered():
    """Two hundred million solutions: it is refused after hardly more than the limit, and the engine goes on."""
    count = 600
    engine = rpq.Engine(rpq.Query("b|c|d", window=W, name="first"), max_rows=10_000)
    for label in "bcd":
        names = [f"{label}{n}" for n in range(count)]
        engine.push(source=["hub"] * count, target=names, label=[label] * count, timestamp=[1] * count, collect=False)
    for distinct in (True, False):
        late = rpq.Query("?u b ?z . ?y c ?w . ?p d ?q", window=W, name="late", distinct=distinct)
        with pytest.raises(rpq.RowLimitError, match="registering it would bring") as caught:
            engine.register(late)
        assert 10_000 < caught.value.number < 11_000
        # Of two meanings, too.
        engine.push_rows([("hub", "30", "d", 1), ("hub", '"30"', "d", 1)], collect=False)
        with pytest.raises(rpq.RowLimitError):
            engine.register(rpq.Query("?u b ?z . ?y c ?w . ?p d '\"30\"'", window=W, name="late", distinct=distinct))
    few = rpq.Query("?u b ?z . ?y c c1 . hub d ?q", window=W, name="few", select=["u", "y"], distinct=True)
    assert short(engine.register(few)) == [("few", "hub", "hub", 1, "+")]
    engine._check()


@pytest.mark.parametrize("distinct", [False, True])
def test_as_many_rows_of_a_product_as_are_allowed_are_told(distinct):
    query = rpq.Query("?u b ?z . ?y c ?w", window=W, name="q", select=["z", "w"], distinct=distinct)
    engine = rpq.Engine(query, max_rows=3)
    changes = engine.push_rows([("h", f"z{n}", "b", 1) for n in range(3)] + [("h", f"w{n}", "c", 1) for n in range(4)])
    assert changes.added == 12
    again = engine.push_rows([("g", "z0", "b", 1)] if distinct else [])  # four rows more, all of which are there
    assert again.added == 0
    with pytest.raises(rpq.RowLimitError, match="tuple 1 of the batch would bring 4 rows") as caught:
        engine.push_rows([("h", "w4", "c", 1), ("h", "z3", "b", 1)])
    assert caught.value.changes.added == 3


def test_what_is_no_limit():
    for limit in (-1, True, 1.5, "many"):
        with pytest.raises(rpq.QueryError, match="max_rows is a whole number of rows"):
            rpq.Engine(max_rows=limit)


# --- against the oracle -----------------------------------------------------------------------------------------------


def questions_of(name: str) -> st.SearchStrategy:
    """Patterns with reports, or over windows of any kind."""
    several = [questions(name, 2), questions(name, 2, reports=("slide", "time")), *(patterns(kind, name) for kind in KINDS)]
    return st.one_of(several)


@pytest.mark.ci
@examples(200)
@given(
    questions_of("one"),
    questions_of("two"),
    streams,
    statics,
    st.integers(0, 6),
    st.integers(1, 9),
    st.sampled_from((2, 16)),
    st.integers(0, 30),
)
def test_against_the_oracle(one, two, tuples, static, limit, size, capacity, ahead):
    """Both stop at the same tuple or moment, or neither does; and what is delivered by then is the same."""
    reference = PatternReference(one, two, static=static, row_limit=limit)
    engine = tiny(capacity)(query_of(one), query_of(two), max_rows=limit)
    if static:
        engine.load_static([(source, target, label) for source, label, target in static])
    for begin in range(0, len(tuples), size):
        wanted, stopped = [], None
        for place, one_tuple in enumerate(tuples[begin : begin + size]):
            try:
                if reference.time is None:  # what static edges bring comes before what the tuple does, but with it
                    wanted += reference.advance(one_tuple[3])
                wanted += reference.push(*one_tuple)
            except TooManyRows as refused:
                wanted = [] if place == begin == 0 else wanted
                stopped = place, refused
                break
        if stopped is None:
            assert by_event(rows_of(engine.push_rows(tuples[begin : begin + size]))) == by_event(wanted)
            continue
        with pytest.raises(rpq.RowLimitError) as caught:
            engine.push_rows(tuples[begin : begin + size])
        assert caught.value.row == stopped[0] and limit < caught.value.number
        assert by_event(rows_of(caught.value.changes)) == by_event(wanted)
        with pytest.raises(rpq.RpqError, match="accepts no further tuples"):
            engine.advance(10**6)
        event("stopped by a tuple")
        return
    try:
        reference.advance(engine.time + ahead)
    except TooManyRows:
        with pytest.raises(rpq.RowLimitError) as caught:
            engine.advance(engine.time + ahead)
        assert caught.value.row is None and caught.value.changes.rows() == []
        event("stopped by the time")
        return
    engine.advance(engine.time + ahead)
    try:
        reference.register(replace(two, name="late"))
    except TooManyRows:
        with pytest.raises(rpq.RowLimitError):
            engine.register(replace(query_of(two), name="late"))
        event("refused")
    except RegistrationRefused:
        return
    else:
        engine.register(replace(query_of(two), name="late"))
    engine._check()
    assert Counter(engine.answers("one")) == reference.answer("one")
    with tempfile.TemporaryDirectory() as folder:
        engine.save(Path(folder) / "state")


@examples(30)
@given(questions(), streams, st.integers(0, 4), st.integers(2, 3))
def test_a_share_is_stopped_by_rows_of_its_own(question, tuples, limit, shares):
    whole = tiny(2)(query_of(question), max_rows=None)
    events = by_event(rows_of(whole.push_rows(tuples)))
    for number in range(shares):
        part = tiny(2)(query_of(question), share=(number, shares), max_rows=limit)
        free = tiny(2)(query_of(question), share=(number, shares), max_rows=None)
        for one_tuple in tuples:
            # A boundary at the moment of the tuple is an event of its own.
            both = [rows_of(free.advance(one_tuple[3])), rows_of(free.push_rows([one_tuple]))]
            worst = max((sum(some.values()) for rows in both for _, some in by_event(rows)), default=0)
            rows = [row for some in both for row in some]
            if worst > limit:
                with pytest.raises(rpq.RowLimitError):
                    part.push_rows([one_tuple])
                break
            assert Counter(rows) == Counter(rows_of(part.push_rows([one_tuple])))
    event(f"events: {min(len(events), 5)}")
