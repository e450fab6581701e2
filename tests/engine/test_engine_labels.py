"""Labels follow the window and the queries: memory, cost and what is known of a label that went.

semantics.md S9, S10
"""

import resource

import numpy as np
import pyarrow as pa
import pytest

import rpq
from rpq.stream.names import labels
from tests.calls import counted_calls
from tests.twins import collect

WINDOW = rpq.Window(size=100, slide=10)


def push_fresh_labels(engine: rpq.Engine, first: int, count: int) -> None:
    """Edges every one of which has a label of its own, at the rate of ten a unit of time."""
    numbers = np.arange(first, first + count)
    labels = pa.array([f"label {number}" for number in numbers])
    engine.push(source=numbers % 97, target=numbers % 89, label=labels, timestamp=numbers // 10)


@pytest.mark.long
def test_a_million_labels_take_no_memory_and_no_more_time() -> None:
    engine = rpq.Engine(rpq.Query("a|!b", window=WINDOW))
    push_fresh_labels(engine, 0, 200_000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    work = []
    for first in range(200_000, 1_000_000, 200_000):
        with counted_calls() as calls:
            push_fresh_labels(engine, first, 200_000)
        work.append(calls.count)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before * 1.05
    assert work[-1] < 1.2 * work[0]


@pytest.mark.ci
def test_an_id_that_is_used_again_means_the_new_label() -> None:
    engine = rpq.Engine(rpq.Query("a|b", window=WINDOW), _capacity=1)
    engine.insert(1, 2, "a", 0)
    for number in range(500):  # a and b go, others take their ids
        engine.insert(1, 2, f"other {number}", 1000 + number)
    for number in range(500):
        engine.insert(3, 4 + number, "ab"[number % 2], 1500 + number // 50)
        engine.insert(3, 4 + number, f"another {number}", 1500 + number // 50)
        engine._check()
    assert engine.answers().pairs() == {(3, 4 + number) for number in range(500)}
    assert engine.statistics().irrelevant == 1000


def test_labels_of_edges_in_the_window_stay() -> None:
    engine = rpq.Engine(rpq.Query("first/!x", window=WINDOW, semantics="explicit"), _capacity=1)
    engine.insert(0, 1, "first", 50)
    for number in range(400):
        engine.insert(1, 2 + number, f"label {number}", 50)
    assert len(engine.answers()) == 400
    engine._check()
    removed = engine.advance(150)
    assert removed.removed == 400
    engine.insert(1, 0, "b", 1000)
    collect(engine)
    engine._check()


def test_a_query_that_would_need_a_forgotten_loss_is_refused() -> None:
    engine = rpq.Engine(rpq.Query("a", window=WINDOW), _capacity=1)
    for number in range(200):
        engine.insert(1, 2, f"lost {number}", number)
    collect(engine)
    # An insert of "lost 3" was lost at 3; that is not known any more, but it cannot have been after `forgotten`.
    with pytest.raises(rpq.RegistrationError) as caught:
        engine.register(rpq.Query("'lost 3'", window=rpq.Window(size=199, slide=1)))
    forgotten = caught.value.available_from - 199
    assert 3 < forgotten < 199
    with pytest.raises(rpq.RegistrationError):
        engine.register(rpq.Query("'lost 3'", window=rpq.Window(size=199 - forgotten + 1, slide=1)))
    engine.register(rpq.Query("'lost 3'", window=rpq.Window(size=199 - forgotten, slide=1)))
    # Of labels that are remembered the very time is known, and "a" was never lost.
    with pytest.raises(rpq.RegistrationError):
        engine.register(rpq.Query("'lost 198'", window=rpq.Window(size=2, slide=1)))
    engine.register(rpq.Query("'lost 198'", window=rpq.Window(size=1, slide=1)))


def test_what_is_known_of_labels_survives_a_restore(tmp_path) -> None:
    engine = rpq.Engine(rpq.Query("a|'kept 1'", window=WINDOW), _capacity=1)
    for number in range(200):
        engine.insert(1, 2, f"lost {number}", number)
    engine.insert(1, 2, "kept 1", 199)
    engine.save(tmp_path / "state")
    restored = rpq.Engine.restore(tmp_path / "state")
    assert restored.answers().pairs() == engine.answers().pairs() == {(1, 2)}
    for one in (engine, restored):
        with pytest.raises(rpq.RegistrationError) as caught:
            one.register(rpq.Query("'lost 190'", window=rpq.Window(size=50, slide=1)))
        assert caught.value.available_from == 240
    restored._check()


def test_edges_are_counted_after_queries_over_several_windows_came_and_went() -> None:
    moment = rpq.Window(size=1, slide=1)
    engine = rpq.Engine(rpq.Query("a", window=moment), rpq.Query("a/b/c", window=moment))
    engine.push_rows([("x", "x", "a", 0), ("x", "x", "b", 0)])
    engine.push_rows([("x", "x", "c", 0)])
    engine.register(rpq.Query("a", window=rpq.Window(size=1, slide=2), name="later"))
    engine.unregister("a")
    assert engine.statistics().edges_live == 3


def test_labels_in_streams_come_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labels, "_MAX_KNOWN", 60)
    window = "FROM NAMED WINDOW <w> ON <s1> [RANGE 20 STEP 1]"
    query = rpq.Query(f"SELECT ?x ?y {window} {{ WINDOW <w> {{ ?x <b1> ?y }} }}", semantics="explicit", name="q")
    engine = rpq.Engine(query, _capacity=1)
    held: dict[tuple[int, int], int] = {}
    for first in range(0, 1500, 30):
        numbers = np.arange(first, first + 30)
        streams = [None if number % 5 == 0 else f"s{number % 4}" for number in numbers.tolist()]
        names = [f"b{number % 3}" if number % 2 else f"other {number}" for number in numbers.tolist()]
        changes = engine.push(source=numbers % 7, target=numbers % 11, label=names, timestamp=numbers, stream=streams)
        for row in changes:
            held[row.x, row.y] = held.get((row.x, row.y), 0) + (1 if row.op == "+" else -1)
        engine._check()
        assert {pair for pair, count in held.items() if count} == {
            (number % 7, number % 11)
            for number in range(max(0, numbers[-1] - 19), first + 30)
            if number % 5 and number % 4 == 1 and number % 2 and number % 3 == 1
        }
