"""Graph patterns in the engine, against the oracle: random patterns of edge atoms over random streams."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

import rpq
from rpq.operators.patterns.joins import live_patterns
from rpq.operators.patterns.rows import delivered_rows
from tests.engine.test_engine_properties import cut
from tests.operators.patterns.pattern_twins import (
    PatternTwins,
    by_event,
    long_streams,
    query_of,
    questions,
    rows_of,
    streams,
    text_of,
)
from tests.twins import examples, tiny

W = rpq.Window(size=10, slide=1)


# --- against the oracle -----------------------------------------------------------------------------------------------


@examples(150)
@given(questions(), streams, st.integers(1, 6), st.integers(1, 20), st.sampled_from((2, 16)))
def test_rows_and_answers(question, tuples, size, ahead, capacity):
    twins = PatternTwins(question, capacity=capacity)
    for begin in range(0, len(tuples), size):
        twins.push(tuples[begin : begin + size])
    twins.advance(twins.engine.time + ahead)
    twins.collect()
    event(f"rows: {min(twins.engine.statistics().rows_added, 20)}")


@pytest.mark.ci
@examples(100)
@given(st.data(), questions("one"), questions("two"), streams)
def test_everything_that_can_happen(data, one, two, tuples):
    """Queries come and go, the engine is saved and restored, time moves; in any order."""
    twins = PatternTwins(one)
    twins.live_through(data.draw, [one, two], tuples)


@pytest.mark.ci
@examples(60)
@given(questions(), questions("two"), long_streams, st.integers(1, 9), st.floats(0, 1))
def test_with_support_lists_that_come_and_go(question, two, tuples, size, halving):
    """The cost of queries is measured in such short periods that choices are made all the time."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(live_patterns, "SHORTEST", 1)
        patched.setattr(live_patterns, "LOOKS_A_CHANGE", -1)
        patched.setattr(live_patterns, "LOOKS_A_ROW", -1)
        patched.setattr(live_patterns, "ENTRY", halving)
        twins = PatternTwins(question, two)
        for begin in range(0, len(tuples), size):
            twins.push(tuples[begin : begin + size])
        twins.unregister("two")
        twins.save_and_restore()


@examples(100)
@given(
    size=st.integers(0, 50).flatmap(lambda bits: st.integers(1, 1 << bits)),
    slide=st.integers(0, 40).flatmap(lambda bits: st.integers(1, 1 << bits)),
    start=st.integers(-(1 << 60), 1 << 60),
    steps=st.lists(st.integers(0, 52).flatmap(lambda bits: st.integers(0, 1 << bits)), max_size=30),
    late=st.integers(0, 1 << 20),
)
def test_edges_leave_at_their_boundary_whatever_its_size(size, slide, start, steps, late):
    """The timing wheel, over slides that differ in any byte."""
    query = rpq.Query("?x a ?y", window=rpq.Window(size=size, slide=slide), semantics="explicit", name="q")
    engine = tiny(2)(query)
    now, waiting = start, []
    for number, step in enumerate([0, *steps]):
        time = now + step - (late if number % 3 == 2 else 0)
        now = max(now, time)
        expected = [("q", n, n, t, "-") for t, n in sorted(waiting) if t <= now]
        waiting = [(t, n) for t, n in waiting if t > now]
        leaves = -(-(time + size) // slide) * slide
        if leaves > now:
            waiting.append((leaves, number))
            expected.append(("q", number, number, now, "+"))
        found = engine.push_rows([(number, number, "a", time)]).rows()
        assert sorted(found, key=lambda row: (row.op == "+", row.timestamp, row.x)) == expected


# --- what must not be seen --------------------------------------------------------------------------------------------


@examples(40)
@given(questions(), long_streams, st.integers(0, 2**32), st.integers(1, 3), st.integers(2, 5))
def test_batches_and_threads(question, tuples, seed, threads, pieces):
    query = query_of(question)
    whole, parts = tiny(64)(query), tiny(2)(query, threads=threads)
    wanted = rows_of(whole.push_rows(tuples))
    found = [row for some in cut(tuples, random.Random(seed), pieces) for row in rows_of(parts.push_rows(some))]
    assert by_event(found) == by_event(wanted)
    assert Counter(parts.answers()) == Counter(whole.answers())


@examples(40)
@given(questions(), long_streams, st.integers(2, 3))
def test_shares_divide_the_rows(question, tuples, shares):
    query = query_of(question)
    whole = tiny(2)(query)
    parts = [tiny(2)(query, share=(number, shares)) for number in range(shares)]
    rows = whole.push_rows(tuples).rows()
    assert Counter(rows) == Counter(row for part in parts for row in part.push_rows(tuples).rows())
    assert Counter(whole.answers()) == Counter(row for part in parts for row in part.answers())
    assert whole.statistics().answers_live == sum(part.statistics().answers_live for part in parts)


@examples(40)
@given(questions("one"), questions("two"), long_streams)
def test_beside_each_other_and_a_path_query(one, two, tuples):
    path = rpq.Query("(a|b)+", window=rpq.Window(size=7, slide=2), name="path", semantics="explicit")
    together = tiny(2)(path, query_of(one), query_of(two))
    rows = together.push_rows(tuples).rows()
    assert [row.timestamp for row in rows] == sorted(row.timestamp for row in rows)
    for query in (path, query_of(one), query_of(two)):
        alone = tiny(2)(query).push_rows(tuples)
        mine = [row for row in rows if row.query == query.name]
        assert by_event(alone.rows()) == by_event(mine)


@examples(40)
@given(questions(), streams, st.randoms(use_true_random=False))
def test_order_of_atoms_and_names_of_variables(question, tuples, shuffled):
    pattern = question.pattern
    engine = tiny(2)(query_of(question))
    atoms = shuffled.sample(pattern.atoms, len(pattern.atoms))
    other = replace(question, pattern=replace(pattern, atoms=tuple(atoms), select=pattern.columns))
    renamed = text_of(other.pattern).replace("?", "?other_")
    query = rpq.Query(
        renamed,
        name="q",
        window=query_of(question).window,
        select=[f"other_{name}" for name in pattern.columns],
        distinct=pattern.distinct,
        matching=pattern.matching,
        paths=pattern.paths,
        semantics=question.semantics,
    )
    wanted, found = engine.push_rows(tuples), tiny(2)(query).push_rows(tuples)
    assert by_event(rows_of(found)) == by_event(rows_of(wanted))


@pytest.mark.parametrize("block", [1])
def test_rows_of_one_push_fill_several_blocks_of_memory(monkeypatch, block):
    monkeypatch.setattr(delivered_rows, "_BLOCK", block)
    engine = tiny(2)(rpq.Query("?x a ?y . ?x b ?z", window=W, name="star", semantics="explicit"), max_rows=None)
    count = 60
    tuples = [(0, number, label, 1) for label in "ab" for number in range(count)]
    wanted = sorted((0, y, z) for y in range(count) for z in range(count))
    for time, op in ((1, "+"), (30, "-")):
        table = engine.push_rows([*tuples] if time == 1 else [(1, 1, "a", time)]).to_arrow()
        assert set(table["op"].to_pylist()) == {op}
        assert sorted(zip(*(table[name].to_pylist() for name in "xyz"), strict=True)) == wanted


def test_rows_in_several_blocks_of_memory_are_counted_for_their_share(monkeypatch):
    monkeypatch.setattr(delivered_rows, "_BLOCK", 1)
    rows, hubs = 300, range(4)  # a tuple brings 900 values, more than the kernels write at once
    tuples = [(hub, 10 + y, "a", 1) for hub in hubs for y in range(rows)] + [(hub, 9, "b", 1) for hub in hubs]

    def push(limit: int) -> rpq.Changes:
        query = rpq.Query("?x a ?y . ?x b ?z", window=W, name="star")
        return tiny(2)(query, share=(0, 2), max_rows=limit).push_rows(tuples)

    own = {row.x for row in push(rows).rows()}
    assert 0 < len(own) < len(hubs)
    with pytest.raises(rpq.RowLimitError) as caught:
        push(rows - 1)
    assert caught.value.row == rows * len(hubs) + min(own)
