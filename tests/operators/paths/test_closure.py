"""The index of bits gives the rows of the Δ index, whichever of the two is in use, and whenever that changes."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rpq
from rpq.operators.paths.closure import closure_index
from rpq.operators.paths.closure.closure_index import ClosureIndex
from rpq.operators.paths.index import columns
from rpq.operators.paths.path_query import PathQuery
from tests.twins import Twins, assert_path, collect, examples, scaled, search, tiny

TEXTS = ("a", "a/b", "a/b*", "a*", "(a|b)*", "(a|b|c)+", "a*/b*", "a/b*/c*", "^a/b*", "(a/^b)+", "a?/(b|^c)*", "(a/b)+/c?")
WINDOWS = ((10, 3), (7, 1), (40, 10), (5, 20), (300, 1))

tuples = st.tuples(
    st.integers(0, 6), st.integers(0, 6), st.sampled_from("abcd"), st.integers(-4, 4), st.sampled_from("+" * 9 + "-")
)
ends = st.none() | st.frozensets(st.integers(0, 7), min_size=1, max_size=4)


@pytest.fixture(autouse=True, scope="module")
def small_windows_are_loaded_as_bits_and_any_order_of_columns_pays_off() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(closure_index, "_FEW_EDGES", 1)
        patch.setattr(columns, "_GAIN", 0)
        yield


def indexes(engine: rpq.Engine) -> Iterator[ClosureIndex]:
    """The indexes of an engine that may keep bits."""
    for running in engine._evaluation.running:
        assert isinstance(running, PathQuery)
        yield from (index for index in running.indexes if isinstance(index, ClosureIndex))


def _grant(size: int, place: int) -> None:
    """Allow an index to grow."""


def _refuse_bits(index: ClosureIndex, size: int, place: int) -> None:
    """Allow an index to grow if it keeps cells."""
    if index.has_bits:
        raise rpq.MemoryLimitError("no room", query="q", row=0, size=size, limit=0)


@given(st.data())
@examples(30)
def test_rows_are_those_of_the_window_while_indexes_change(data: st.DataObject) -> None:
    questions = []
    for i in range(data.draw(st.integers(1, 2))):
        size, slide = data.draw(st.sampled_from(WINDOWS))
        sides: dict[str, Any] = {"sources": data.draw(ends), "targets": data.draw(ends)}
        sides["semantics"] = data.draw(st.sampled_from(("implicit", "explicit")))
        text = data.draw(st.sampled_from(TEXTS))
        questions.append(rpq.Query(text, window=rpq.Window(size=size, slide=slide), name=f"q{i}", **sides))
    twins = Twins(*questions, capacity=data.draw(st.sampled_from((1, 2, 16))), threads=data.draw(st.sampled_from((1, 1, 2))))
    time = 0
    for batch in data.draw(st.lists(st.lists(tuples, max_size=scaled(30)), min_size=1, max_size=6)):
        for index in indexes(twins.engine):
            index.guard = _grant
            what = data.draw(st.sampled_from(("bits", "bits", "bits that may not grow", "cells", "as it is")))
            if what.startswith("bits"):
                index.use_bits()
                assert index.has_bits
                index.guard = _grant if what == "bits" else partial(_refuse_bits, index)
            elif what == "cells":
                index.use_cells()
                assert not index.has_bits
                index.order_columns(twins.engine._evaluation.graph.edges)
            index._check()
        rows = []
        for source, target, label, step, op in batch:
            rows.append((source, target, label, time + step, op))
            time = max(time, time + step)
        step = data.draw(st.sampled_from((1, 5, 40)))
        for i in range(0, len(rows), step):
            twins.push(rows[i : i + step])
            twins.engine._check()
        what = data.draw(st.sampled_from(("nothing", "advance", "restore", "collect")))
        if what == "advance":
            time += data.draw(st.integers(1, 12))
            twins.advance(time)
        elif what == "restore":
            with tempfile.TemporaryDirectory() as folder:
                twins.save_and_restore(Path(folder) / "state", data.draw(st.sampled_from((1, 2))))
        elif what == "collect":
            collect(twins.engine)
        twins.check()
        for question in questions:
            twins.check_witnesses(question.name, 4)


STEPS = ((8, 3), (30, 10), (12, 40), (5, 1))
COUNTS = (rpq.UnboundedWindow(), *(rpq.CountWindow(size=size, step=step) for size, step in STEPS))


@given(st.data())
@examples(20)
def test_windows_without_time_give_the_rows_of_cells_while_indexes_change(data: st.DataObject) -> None:
    window, text = data.draw(st.sampled_from(COUNTS)), data.draw(st.sampled_from(TEXTS))
    sides: dict[str, Any] = {"sources": data.draw(ends), "targets": data.draw(ends)}
    semantics = data.draw(st.sampled_from(("implicit", "explicit")))
    query = rpq.Query(text, window=window, semantics=semantics, name="q", **sides)
    capacity, threads = data.draw(st.sampled_from((1, 16))), data.draw(st.sampled_from((1, 1, 2)))
    engine, cells = (tiny(capacity)(query, threads=threads) for _ in range(2))
    held: dict[tuple[int, str, int], int] = {}
    number = time = 0
    for batch in data.draw(st.lists(st.lists(tuples, max_size=scaled(30)), min_size=1, max_size=6)):
        for index in indexes(engine):
            if data.draw(st.booleans()):
                index.use_bits()
            else:
                index.use_cells()
                index.order_columns(engine._evaluation.graph.edges)
            index._check()
        rows = []
        for source, target, label, step, op in batch:
            time = max(0, time + step)
            rows.append((source, target, label, time, op))
            if label not in text:
                continue
            number += op == "+"
            held.pop((source, label, target), None)
            if op == "+":
                held[source, label, target] = number
        step = data.draw(st.sampled_from((1, 5, 40)))
        for i in range(0, len(rows), step):
            assert Counter(engine.push_rows(rows[i : i + step])) == Counter(cells.push_rows(rows[i : i + step]))
            engine._check()
        if data.draw(st.booleans()):
            with tempfile.TemporaryDirectory() as folder:
                engine.save(Path(folder) / "state")
                engine = tiny(capacity).restore(Path(folder) / "state", threads=data.draw(st.sampled_from((1, 2))))
        bound = window.lower_bound(number) if isinstance(window, rpq.CountWindow) else 0
        live = {edge for edge, last in held.items() if last > bound}
        answers = engine.answers("q").pairs()
        assert answers == cells.answers("q").pairs() == search(query, live)
        for pair in sorted(answers)[:4]:
            path = engine.witness(*pair)
            assert path is not None
            assert_path(path.vertices, path.labels, pair, query, live)


def _edges(count: int, *, vertices: int, seed: int) -> list[tuple[int, int, str, int]]:
    chance = random.Random(seed)
    return [(chance.randrange(vertices), chance.randrange(vertices), chance.choice("ab"), i) for i in range(count)]


def _pushed(query: rpq.Query, rows: list[tuple[int, int, str, int]], size: int) -> tuple[rpq.Engine, int]:
    engine = rpq.Engine(query)
    count = sum(len(engine.push_rows(rows[i : i + size])) for i in range(0, len(rows), size))
    return engine, count


@pytest.mark.parametrize("semantics", ["implicit", "explicit"])
@pytest.mark.parametrize("text", ["(a|b)*", "a*/b*"])
def test_bits_and_cells_give_the_same_rows_of_a_long_stream(text: str, semantics: Any) -> None:
    chance = random.Random(2)
    rows: list[tuple[int, int, str, int, str]] = []
    for edge in _edges(2500, vertices=160, seed=2):
        rows.append((*edge, "+"))
        if chance.random() < 0.2:
            source, target, label, *_ = chance.choice(rows[-600:])
            rows.append((source, target, label, edge[3], "-"))
    query = rpq.Query(text, window=rpq.Window(size=1500, slide=100), semantics=semantics, name="q")
    engines = [rpq.Engine(query), rpq.Engine(query)]
    for engine, keep in zip(engines, (ClosureIndex.use_bits, ClosureIndex.use_cells), strict=True):
        (index,) = indexes(engine)
        index.guard = _grant
        keep(index)
    for i in range(0, len(rows), 200):
        with_bits, with_cells = (Counter(engine.push_rows(rows[i : i + 200])) for engine in engines)
        assert with_bits == with_cells
    assert next(indexes(engines[0])).has_bits
    engines[0]._check()
    assert engines[0].answers("q").pairs() == engines[1].answers("q").pairs()


def test_bits_come_where_boundaries_are_few_and_cells_stay_where_they_are_many() -> None:
    rows = _edges(6000, vertices=220, seed=1)
    window = 1500
    engine, count = _pushed(rpq.Query("(a|b)*", window=rpq.Window(size=window, slide=300), name="q"), rows, 500)
    assert [index.has_bits for index in indexes(engine)] == [True]
    engine._check()
    left = {(u, label, v) for u, v, label, time in rows if time > (len(rows) - 1) // 300 * 300 - window}
    assert {*engine.answers("q").pairs()} == search(engine.queries[0], left)
    # Small chunks never change the kind.
    alone, same = _pushed(rpq.Query("(a|b)*", window=rpq.Window(size=window, slide=300), name="q"), rows, 100)
    assert [index.has_bits for index in indexes(alone)] == [False]
    assert count == same
    every, _ = _pushed(rpq.Query("(a|b)*", window=rpq.Window(size=window, slide=1), name="q"), rows[:3000], 500)
    assert [index.has_bits for index in indexes(every)] == [False]


def test_a_witness_lasts_as_long_as_its_answer_and_leaves_bits_as_they_are() -> None:
    engine = rpq.Engine(rpq.Query("a+/b", window=rpq.Window(size=20, slide=2), name="q"))
    (index,) = indexes(engine)
    index.use_bits()
    short = [("x", "u", "a", 0), ("u", "z", "b", 9)]
    long = [("x", "v", "a", 4), ("v", "w", "a", 5), ("w", "v", "a", 9), ("w", "z", "b", 6)]
    engine.push_rows([*short, *long])
    path = engine.witness("x", "z")
    assert path is not None and path.vertices == ("x", "v", "w", "z")
    assert engine.witness("u", "z") is None
    engine.advance(24)
    assert engine.witness("x", "z") is None
    assert index.has_bits


@pytest.mark.parametrize("semantics", ["implicit", "explicit"])
def test_bits_without_room_to_grow_change_to_cells_in_the_middle_of_a_tuple(semantics: Any) -> None:
    chance = random.Random(5)
    rows: list[tuple[int, int, str, int, str]] = []
    for edge in _edges(600, vertices=70, seed=4):
        rows.append((*edge, "+"))
        if chance.random() < 0.2:
            rows.append((*chance.choice(rows[-100:])[:3], edge[3], "-"))
    query = rpq.Query("(a|b)*", window=rpq.Window(size=300, slide=60), semantics=semantics, name="q")
    engine, cells = (rpq.Engine(query, _capacity=1) for _ in range(2))
    (index,) = indexes(engine)
    kept: Counter[bool] = Counter()

    def refuse_some(size: int, place: int) -> None:
        if chance.random() < 0.5:
            _refuse_bits(index, size, place)

    for i in range(0, len(rows), 10):
        index.guard = _grant
        index.use_bits()
        index.guard = refuse_some
        assert Counter(engine.push_rows(rows[i : i + 10])) == Counter(cells.push_rows(rows[i : i + 10]))
        kept[index.has_bits] += 1
        engine._check()
    assert min(kept[True], kept[False]) > 5


def test_rows_of_bits_get_wider_with_more_roots_and_cells_come_back_where_these_take_less_memory() -> None:
    engine = rpq.Engine(rpq.Query("a+", window=rpq.UnboundedWindow(), name="q"))
    rows = [(f"u{i}", f"v{i}", "a", i) for i in range(1500)]  # a root and a row each
    (index,) = indexes(engine)
    index.use_bits()
    engine.push_rows(rows[:200])
    assert index.has_bits
    assert len(engine.push_rows(rows[200:])) == 1300
    assert not index.has_bits
    engine._check()
    assert engine.answers("q").pairs() == {(u, v) for u, v, *_ in rows}


def test_memory_does_not_depend_on_the_order_in_which_edges_of_many_graphs_arrive() -> None:
    rows = [(100 * graph + i, 100 * graph + i + 1, "a", 0) for graph in range(500) for i in range(20)]
    shuffled = random.Random(1).sample(rows, len(rows))
    query = rpq.Query("a+", window=rpq.UnboundedWindow(), name="q")
    engines = [_pushed(query, some, 500)[0] for some in (rows, shuffled)]
    one, other = (engine.statistics().index_bytes for engine in engines)
    assert other < 2 * one
    for engine in engines:
        engine._check()
    with tempfile.TemporaryDirectory() as folder:
        engines[1].save(Path(folder) / "state")
        restored = rpq.Engine.restore(Path(folder) / "state")
    restored._check()
    assert restored.statistics().index_bytes < 2 * one
    assert restored.answers("q").pairs() == engines[0].answers("q").pairs() == engines[1].answers("q").pairs()
