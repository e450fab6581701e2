"""An engine for asyncio: calls are awaited, changes followed, and nobody is held."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

import rpq
from rpq.serve import AsyncEngine, FollowerTooSlow

QUERY = rpq.Query("a+", window=rpq.Window(size=1000, slide=10), semantics="explicit")


def test_it_does_what_an_engine_does(tmp_path):
    async def main():
        async with AsyncEngine(QUERY) as engine:
            assert (await engine.push(source=["x"], target=["y"], label=["a"], timestamp=[1])).added == 1
            assert (await engine.push_rows([("y", "z", "a", 2)])).added == 2
            assert (await engine.insert("z", "w", "a", 3)).added == 3
            assert (await engine.delete("z", "w", "a", 4)).removed == 3
            assert (await engine.register(rpq.Query("a", window=QUERY.window))).added == 2
            assert [query.name for query in engine.queries] == ["a+", "a"]
            await engine.unregister("a")
            assert await engine.witness("x", "z") == rpq.Path(("x", "y", "z"), ("a", "a"))
            assert (await engine.statistics()).tuples == 4
            assert (await engine.advance(5000)).removed == 3 and engine.time == 5000
            await engine.save(tmp_path / "state")
        assert rpq.Engine.restore(tmp_path / "state").time == 5000
        with pytest.raises(rpq.RpqError, match="closed"):
            await engine.insert("x", "y", "a", 1)

    asyncio.run(main())


def test_all_who_follow_have_all_changes_of_all_callers():
    async def main():
        engine = AsyncEngine(QUERY)
        followers = [engine.follow() for _ in range(5)]

        async def rows(follower):
            return [row async for changes in follower for row in changes.rows()]

        reading = [asyncio.ensure_future(rows(follower)) for follower in followers]
        await asyncio.gather(*(engine.insert("x", str(number), "a", number) for number in range(50)))
        with pytest.raises(rpq.InputError):
            await engine.push_rows([("y", "1", "a", 60), ("y", "2", "a", "soon")])
        await engine.close()
        found = await asyncio.gather(*reading)
        assert all(one == found[0] for one in found)
        assert [row.target for row in found[0] if row.source == "x"] == [str(number) for number in range(50)]
        assert ("y", "1") in {(row.source, row.target) for row in found[0]}  # of the tuples before the bad one

    asyncio.run(main())


def test_the_loop_goes_on_while_the_engine_works(monkeypatch):
    released = threading.Event()

    async def main():
        async with AsyncEngine(QUERY) as engine:
            push = rpq.Engine.push
            monkeypatch.setattr(rpq.Engine, "push", lambda self, *args, **named: released.wait(30) and push(self, **named))
            pushing = asyncio.ensure_future(engine.push(source=["x"], target=["y"], label=["a"], timestamp=[1]))
            began = time.monotonic()
            for _ in range(20):
                await asyncio.sleep(0.001)
            assert not pushing.done() and time.monotonic() - began < 10
            released.set()
            assert (await pushing).added == 1

    asyncio.run(main())


def test_a_call_that_is_cancelled_is_done_and_told():
    async def main():
        async with AsyncEngine(QUERY) as engine:
            follower = engine.follow()
            call = asyncio.ensure_future(engine.insert("x", "y", "a", 1))
            await asyncio.sleep(0)
            call.cancel()
            changes = await asyncio.wait_for(anext(follower), 30)
            assert changes.added == 1 and len(await engine.answers()) == 1

    asyncio.run(main())


def test_a_slow_follower_is_dropped_and_nobody_waits():
    async def main():
        async with AsyncEngine(QUERY) as engine:
            slow, quick = engine.follow(most_waiting=10), engine.follow()
            for number in range(20):
                await engine.insert("x", str(number), "a", number)
            with pytest.raises(FollowerTooSlow) as caught:
                await anext(slow)
            assert caught.value.limit == 10 and caught.value.rows > 10
            assert sum([(await anext(quick)).added for _ in range(20)]) == 20
            await quick.aclose()
            with pytest.raises(StopAsyncIteration):
                await anext(quick)
            large = engine.follow(most_waiting=10)
            await engine.push_rows([("y", str(number), "a", 30) for number in range(100)])  # who is not behind gets it
            assert (await anext(large)).added == 100

    asyncio.run(main())


def test_an_engine_that_there_is_can_be_taken():
    engine = rpq.Engine(QUERY)
    engine.insert("x", "y", "a", 1)

    async def main():
        async with AsyncEngine(engine=engine) as taken:
            return sorted(await taken.answers())

    assert asyncio.run(main()) == [("x", "y")]
    with pytest.raises(rpq.RpqError, match="not both"):
        AsyncEngine(QUERY, engine=engine)


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
def test_what_no_engine_raises_ends_it_and_everybody_is_told(monkeypatch, error):
    def push(*given: object, **options: object) -> None:
        raise error

    async def main():
        engine = AsyncEngine(QUERY)
        follower = engine.follow()
        with monkeypatch.context() as patched:
            patched.setattr("rpq.engine.engine.Engine.push_rows", push)
            with pytest.raises(rpq.RpqError, match="the engine failed in a call"):
                await engine.push_rows([("x", "y", "a", 1)])
        for call in (lambda: engine.insert("x", "y", "a", 1), engine.answers, lambda: anext(follower)):
            with pytest.raises(rpq.RpqError, match="it accepts no more calls"):
                await asyncio.wait_for(call(), 60)
        with pytest.raises(rpq.RpqError, match="it accepts no more calls"):
            await anext(engine.follow())
        await engine.close()

    asyncio.run(main())


@pytest.mark.parametrize("error", [StopIteration("bang"), ZeroDivisionError("bang")])
def test_what_a_call_raises_its_caller_gets_and_the_engine_goes_on(monkeypatch, error):
    def push(*given: object, **options: object) -> None:
        raise error

    async def main():
        async with AsyncEngine(QUERY) as engine:
            with monkeypatch.context() as patched:
                patched.setattr("rpq.engine.engine.Engine.push_rows", push)
                with pytest.raises((RuntimeError, ZeroDivisionError), match="bang"):
                    await asyncio.wait_for(engine.push_rows([("x", "y", "a", 1)]), 60)
            assert (await engine.insert("x", "y", "a", 1)).added == 1

    asyncio.run(main())
