"""An engine is never left with wrong answers: two threads at once, errors before and in the middle of a tuple.

semantics.md S13
"""

import threading

import pytest

import rpq

WINDOW = rpq.Window(size=1000, slide=10)


def engine_with(expression: str = "a+", **options) -> rpq.Engine:
    return rpq.Engine(rpq.Query(expression, window=WINDOW), **options)


def test_two_threads_in_one_engine_are_refused_and_harm_nothing() -> None:
    engine = engine_with("(a|b)+")
    batch = [(number % 60, number * 7 % 60, "ab"[number % 2], number // 100) for number in range(20_000)]
    refused, applied = [], []

    def work(first: int) -> None:
        for begin in range(first, len(batch), 2000):
            try:
                engine.push_rows(batch[begin : begin + 1000])
                applied.append(begin)
            except rpq.RpqError as error:
                refused.append(error)

    for _ in range(20):
        threads = [threading.Thread(target=work, args=(first,)) for first in (0, 1000)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if refused:
            break
    assert refused, "the threads never met"
    assert "one thread at a time" in str(refused[0])
    engine._check()
    assert engine.statistics().tuples == 1000 * len(applied)


@pytest.mark.parametrize(
    "call",
    [
        lambda engine: engine.push_rows([(1, 2, "a", 3)]),
        lambda engine: engine.push(source=[1], target=[2], label=["a"], timestamp=[3]),
        lambda engine: engine.insert(1, 2, "a", 3),
        lambda engine: engine.delete(1, 2, "a", 3),
        lambda engine: engine.advance(5),
        lambda engine: engine.register(rpq.Query("b", window=WINDOW)),
        lambda engine: engine.unregister("a+"),
        lambda engine: engine.answers(),
        lambda engine: engine.witness(1, 2),
        lambda engine: engine.statistics(),
        lambda engine: engine.save("never-written"),
        lambda engine: engine.set_aside(),
        lambda engine: engine.restore_root(1),
    ],
)
def test_every_call_is_refused_while_another_is_under_way(call) -> None:
    engine = engine_with()
    engine.insert(1, 2, "a", 0)
    inside, leave = threading.Event(), threading.Event()

    def rows():
        yield (1, 3, "a", 1)
        inside.set()
        leave.wait(20)

    other = threading.Thread(target=lambda: engine.push_rows(rows()))
    other.start()
    try:
        assert inside.wait(20)
        with pytest.raises(rpq.RpqError, match="another thread"):
            call(engine)
    finally:
        leave.set()
        other.join()
    assert engine.answers().pairs() == {(1, 2), (1, 3)}


def failing(engine: rpq.Engine, name: str, monkeypatch: pytest.MonkeyPatch, error: BaseException):
    """Make a method of a query's only worker, or of its index, fail once."""
    running = engine._evaluation.running.find("a+")
    (worker,), (index,) = running.part.workers, running.indexes

    def fail(*_args, **_options):
        monkeypatch.undo()
        raise error

    monkeypatch.setattr(worker if hasattr(worker, name) else index, name, fail)


@pytest.mark.parametrize("error", [MemoryError("no memory"), KeyboardInterrupt(), ValueError("a mistake")])
@pytest.mark.parametrize("several", [False, True])
def test_an_engine_that_failed_in_the_middle_says_so_ever_after(several: bool, error: BaseException, monkeypatch) -> None:
    engine = engine_with()
    engine.insert("x", "y", "a", 0)
    failing(engine, "apply", monkeypatch, error)
    tuples = [("y", "z", "a", 1)] * (2 if several else 1)
    with pytest.raises(type(error)):
        engine.push_rows(tuples)
    for call in (
        lambda: engine.push_rows(tuples),
        lambda: engine.insert("y", "z", "a", 1),
        lambda: engine.advance(7),
        lambda: engine.save("never-written"),
        lambda: engine.register(rpq.Query("b", window=WINDOW)),
        engine.answers,
        lambda: engine.witness("x", "y"),
    ):
        with pytest.raises(rpq.RpqError, match="failed in the middle"):
            call()


@pytest.mark.parametrize("several", [False, True])
def test_what_fails_before_the_first_tuple_changes_nothing(several: bool, monkeypatch) -> None:
    engine = rpq.Engine(rpq.Query("a+", window=WINDOW), rpq.Query("a/b", window=WINDOW, sources=["y"]))
    twin = rpq.Engine(*engine.queries)
    for one in (engine, twin):
        one.insert("x", "y", "a", 0)
    failing(engine, "make_room", monkeypatch, MemoryError("no memory"))
    tuples = [("y", f"new {number}", "a", 1) for number in range(2 if several else 1)]
    with pytest.raises(MemoryError):
        engine.push_rows(tuples)
    engine._check()
    assert engine.statistics().tuples == 1
    tuples += [(f"new {number}", "end", "b", 2) for number in range(2)]
    assert sorted(engine.push_rows(tuples).rows()) == sorted(twin.push_rows(tuples).rows())
    engine._check()


def test_a_source_that_no_text_can_name_leaves_no_trace() -> None:
    with pytest.raises(rpq.RpqError):
        engine = rpq.Engine(rpq.Query("a", window=WINDOW, sources=["x", "\ud800"]))
        engine.push_rows([("x", "y", "a", 1), ("y", "z", "a", 1)])
