"""Lengths of shortest walks: the engine gives the rows, answers and witnesses of the oracle.

semantics.md S16
"""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test

import rpq
from tests.engine.test_engine_random import EXPRESSIONS, NUMBERS, SIZES, SLIDES, TEXTS, Streams
from tests.reference_length import lengths
from tests.twins import examples, tiny

SELECT = ("source", "target", "length")
WINDOW = rpq.Window(size=10, slide=1)


@st.composite
def queries(draw, name: str, vertices: tuple) -> rpq.Query:
    ends = st.none() | st.none() | st.frozensets(st.sampled_from(vertices), max_size=4)
    return rpq.Query(
        draw(st.sampled_from(EXPRESSIONS)),
        window=rpq.Window(size=draw(SIZES), slide=draw(SLIDES)),
        name=name,
        select=SELECT,
        semantics="explicit",
        sources=draw(ends),
        targets=draw(ends),
    )


@pytest.mark.parametrize("vertices", [NUMBERS, TEXTS], ids=["integers", "texts"])
def test_streams(vertices: tuple) -> None:
    machine = type("LengthStreams", (Streams,), {"vertices": vertices, "queries": staticmethod(queries)})
    run_state_machine_as_test(machine, settings=examples(40))


def rows_of(changes: rpq.Changes) -> list[tuple]:
    return [tuple(row)[1:] for row in changes.rows()]


def test_one_event_has_the_old_length_and_the_new_one() -> None:
    engine = rpq.Engine(rpq.Query("a+", window=WINDOW, select=SELECT))
    engine.push_rows([("x", "y", "a", 1), ("y", "z", "a", 2)])
    assert rows_of(engine.insert("x", "z", "a", 3)) == [("x", "z", 2, 3, "-"), ("x", "z", 1, 3, "+")]
    assert rows_of(engine.delete("x", "z", "a", 4)) == [("x", "z", 1, 4, "-"), ("x", "z", 2, 4, "+")]
    assert sorted(engine.answers()) == [("x", "y", 1), ("x", "z", 2), ("y", "z", 1)]
    assert engine.answers().to_arrow().column("length").to_pylist() != []
    assert engine.answers().to_arrow().schema.field("length").type == "int64"


def test_expiry_changes_a_length_at_its_boundary() -> None:
    engine = rpq.Engine(rpq.Query("a+", window=WINDOW, select=SELECT))
    engine.push_rows([("x", "z", "a", 1), ("x", "y", "a", 3), ("y", "z", "a", 5)])
    assert rows_of(engine.advance(12)) == [("x", "z", 1, 11, "-"), ("x", "z", 2, 11, "+")]
    assert sorted(rows_of(engine.advance(100))) == [("x", "y", 1, 13, "-"), ("x", "z", 2, 13, "-"), ("y", "z", 1, 15, "-")]


def test_an_edge_that_stays_longer_changes_no_length() -> None:
    engine = rpq.Engine(rpq.Query("a+", window=WINDOW, select=SELECT))
    engine.push_rows([("x", "y", "a", 1), ("y", "z", "a", 2)])
    assert rows_of(engine.insert("x", "y", "a", 8)) == []
    assert rows_of(engine.insert("x", "z", "a", 1)) == [("x", "z", 2, 8, "-"), ("x", "z", 1, 8, "+")]  # late
    assert rows_of(engine.advance(11)) == [("x", "z", 1, 11, "-"), ("x", "z", 2, 11, "+")]


@pytest.mark.parametrize("capacity", [1, 256])
def test_a_long_chain_needs_wider_cells(capacity: int) -> None:
    window = rpq.Window(size=1000, slide=10)
    engine = tiny(capacity)(rpq.Query("a+", window=window, name="q", select=SELECT, sources=[0, 1]))
    engine.push_rows([(i, i + 1, "a", i) for i in range(300)])
    whole = {(root, i, i - root) for root in (0, 1) for i in range(root + 1, 301)}
    assert engine.answers().pairs() == whole
    engine._check()
    engine.insert(3, 290, "a", 300)
    assert engine.answers().pairs() == {(root, i, length - 286 * (i >= 290)) for root, i, length in whole}
    engine._check()
    assert engine.delete(3, 290, "a", 301).added == 2 * 11
    assert engine.answers().pairs() == whole
    engine.delete(0, 1, "a", 302)
    assert engine.answers().pairs() == {answer for answer in whole if answer[0] == 1}
    engine._check()


def test_a_witness_is_a_shortest_path() -> None:
    engine = rpq.Engine(rpq.Query("a+", window=WINDOW, select=SELECT), witness=True)
    engine.push_rows([("x", "y", "a", 1), ("y", "z", "a", 2), ("z", "w", "a", 3), ("x", "z", "a", 4)])
    assert engine.witness("x", "w", 2) == rpq.Path(("x", "z", "w"), ("a", "a"))
    assert engine.witness("x", "w", 3) is None
    assert engine.witness("x", "nobody", 1) is None


@given(
    expression=st.sampled_from(("a", "a+", "a/b*", "(a|b)+", "a/^a", "(a|^b)+", "a?/b")),
    seed=st.integers(0, 10**6),
    size=st.integers(1, 9),
    step=st.integers(1, 3),
    threads=st.sampled_from((1, 2)),
    capacity=st.sampled_from((1, 2, 16, 64)),
    witness=st.booleans(),
)
@examples(40)
def test_count_windows(expression: str, seed: int, size: int, step: int, threads: int, capacity: int, witness: bool) -> None:
    draw = random.Random(seed)
    query = rpq.Query(expression, window=rpq.CountWindow(size=size, step=step), select=SELECT, name="q")
    engine = tiny(capacity)(query, threads=threads, witness=witness)
    read, number, present, rows = set(query.labels), 0, {}, Counter()
    for time in range(40):
        batch = []
        for _ in range(draw.choice((1, 1, 3))):
            op = "-" if draw.random() < 0.2 else "+"
            batch.append((draw.randrange(4), draw.randrange(4), draw.choice("abc"), time, op))
        changes = engine.push_rows(batch)
        for u, v, label, _, op in batch:
            if label in read and op == "+":
                number += 1
                present = {edge: last for edge, last in present.items() if last > number // step * step - size}
                present[u, label, v] = number
            elif label in read:
                present.pop((u, label, v), None)
        for _, x, y, length, _, op in changes.rows():
            rows[x, y, length] += 1 if op == "+" else -1
        expected = {(*pair, length) for pair, length in lengths(expression, present).items()}
        assert engine.answers().pairs() == expected
        assert {answer: count for answer, count in rows.items() if count} == dict.fromkeys(expected, 1)
        engine._check()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"select": ["source", "length"]}, "select: the columns of a path query are source, target, or source"),
        ({"paths": "trail"}, "paths: 'trail', no edge twice, is not available: a walk"),
        ({"rings": "once"}, "rings='once', which reports a cycle once, is not available yet"),
        ({"select": "length"}, "select: expected a list of columns"),
        ({"select": SELECT, "paths": "simple"}, "select: length cannot be combined with paths='simple'"),
        ({"select": SELECT, "semantics": "implicit"}, 'select: length cannot be combined with semantics="implicit"'),
    ],
)
def test_what_is_not_there_is_refused_by_name(options: dict, message: str) -> None:
    with pytest.raises(rpq.QueryError) as error:
        rpq.Query("a+", window=WINDOW, **options)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize("text", ["?x a ?y", "MATCH (x)-[:a]->(y) RETURN x"])
def test_every_notation_refuses_trails_by_name(text: str) -> None:
    with pytest.raises(rpq.QueryError, match="paths: 'trail', no edge twice, is not available: a walk"):
        rpq.Query(text, window=WINDOW, paths="trail")  # type: ignore[arg-type]
