"""An engine in a thread of its own, for the server and, as `AsyncEngine`, for asyncio programs.

`EngineThread` executes jobs in their order, and hands results and announcements to event loops. A `FollowerQueue` bounds the
changes that wait for a follower.
"""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import threading
import time
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar

from rpq.errors import RpqError

if TYPE_CHECKING:
    from rpq import Answers, Changes, Engine, Found, NodeFacts, Path, Query, Statistics, Witness
    from rpq.language.options import Vertex

LOG = logging.getLogger("rpq.serve")

FAILED_SECONDS = 0.05
"""Pause of the thread after a failure, so that a repeated failure does not fill the log."""


class EngineClosed(RpqError):
    """The engine was closed and accepts no more calls."""


class EngineFailed(RpqError):
    """A call ended the engine with an exception such as `SystemExit`; it accepts no more calls."""


Waiter = asyncio.Future[Any] | Future[Any]
"""A future that gets the result of a job: one of an event loop, or one that a thread waits for."""


@dataclass(eq=False)
class EngineCall:
    """A job: a function to be called in the engine's thread."""

    call: Callable[[], Any]
    waiter: Waiter
    even_if_failed: bool = False
    writes: bool = False
    """True if the job changes something that must be saved."""
    after_commit: bool = False
    """True if everything before must be saved when the job begins."""

    rows = 0
    """The number of tuples that it pushes."""


class Stop:
    """The job that ends the thread."""


class CallResult(NamedTuple):
    """The value or the error for a waiter."""

    waiter: Waiter
    value: Any = None
    error: Exception | None = None

    def deliver(self) -> None:
        """Set the value or error of the waiter, unless it is done or cancelled."""
        if self.waiter.done():
            return
        if self.error is None:
            self.waiter.set_result(self.value)
        elif isinstance(self.error, StopIteration):  # an asyncio future refuses it
            self.waiter.set_exception(RuntimeError(f"the call raised {self.error!r}"))
        else:
            self.waiter.set_exception(self.error)


class EngineThread:
    """A thread that executes calls one after the other, submitted by any thread.

    A result is delivered in the thread of the event loop that waits for it. An announcement is a function that is called in
    the thread of the event loop, before the results that are delivered with it.

    A `BaseException` that escapes from a job, or any exception from the thread's own work, is a permanent failure: jobs in
    progress, waiting jobs and later ones are refused, and `on_failure` is announced with the error that refuses them.

    A subclass may execute other jobs, several of them together, and do work between them.
    """

    failure_noun, failure_hint = "the engine failed in a call", "it accepts no more calls"

    def __init__(self, *, on_failure: Callable[[RpqError], object] | None = None) -> None:
        self._on_failure = on_failure
        self._jobs: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._batch: list[Any] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._start_lock = threading.Lock()
        self._announcements: list[Callable[[], object]] = []
        self._results: list[CallResult] = []
        self._has_ended = False
        self._progress: float | None = None
        self.failure: str | None = None
        self.is_stopping = False

    # --- in any thread ---------------------------------------------------------------------------------------

    def start(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """Start the thread if it is not running; announcements go to `loop`, or to that of the call that they belong to."""
        if self._thread is not None:
            return
        with self._start_lock:
            if self._thread is None:
                self._loop = loop
                self._thread = threading.Thread(target=self._work, name="rpq-engine", daemon=True)
                self._thread.start()

    def stop(self) -> None:
        """Execute the waiting jobs, then end the thread; blocks."""
        self.is_stopping = True
        self._jobs.put(Stop())
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    @property
    def is_alive(self) -> bool:
        """True if the engine's thread is running, or was not started yet."""
        return not self._has_ended and (self._thread is None or self._thread.is_alive())

    @property
    def busy_seconds(self) -> float:
        """How long the thread has been busy with one step of its work; 0 if it is idle."""
        since = self._progress
        return 0.0 if since is None else time.monotonic() - since

    def submit(self, job: Any) -> None:
        """Enqueue a job."""
        self._jobs.put(job)
        if self._has_ended and not self.is_alive:
            self._refuse(self._take_waiting())

    async def call(self, call: Callable[[], Any], *, even_if_failed: bool = False, writes: bool = False) -> Any:
        """Call a function in the engine's thread; `writes` says that it changes something that must be saved.

        Cancelling the caller does not cancel the call.
        """
        waiter: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.submit(EngineCall(call, waiter, even_if_failed, writes))
        return await waiter

    # --- for subclasses ----------------------------------------------------------------------------------------

    def _batch_limits(self) -> tuple[int, int]:
        """Return the number of jobs that are executed together, and the number of tuples from which no further job joins
        them."""
        return 1, 1

    def _idle_seconds(self) -> float | None:
        """Return how long to wait for a job before `_do_between` is called; None for any time."""
        return None

    def _execute(self, jobs: Sequence[Any]) -> None:
        """Execute jobs and deliver their results."""
        for job in jobs:
            self._call(job)
        self._deliver()

    def _do_between(self) -> None:
        """Do the pending work between jobs, and after the last one."""

    def _abandon(self) -> list[Any]:
        """Discard results that were not delivered. Return the jobs that were begun."""
        jobs, self._batch = self._batch, []
        return jobs

    def _refusal(self) -> RpqError:
        """Return the error for calls that are no longer accepted."""
        if self.failure is not None:
            return EngineFailed(self.failure)
        return EngineClosed("this engine was closed; it accepts no more calls")

    # --- in the engine's thread --------------------------------------------------------------------------------

    def announce(self, call: Callable[[], object]) -> None:
        """Add a function that is called in the event loop with the next delivery."""
        self._announcements.append(call)

    def _work(self) -> None:
        """Execute jobs until `Stop`. Every caller receives a result or an exception."""
        try:
            while not self._has_ended:
                try:
                    self._do_next()
                except BaseException as error:
                    self._fail(f"{self.failure_noun}: {error!r}; {self.failure_hint}", error)
                    self._refuse_all(error)
                    time.sleep(FAILED_SECONDS)
        finally:
            self._has_ended = True
            self._refuse_all()

    def _mark_progress(self) -> None:
        """Note that a step of the work begins."""
        self._progress = time.monotonic()

    def _do_next(self) -> None:
        self._progress = None
        self._next()
        self._mark_progress()
        jobs = [job for job in self._batch if not isinstance(job, Stop)]
        self._has_ended = len(jobs) < len(self._batch)
        self._execute(jobs)
        self._batch = []
        self._do_between()

    def _next(self) -> None:
        """Take the waiting jobs, up to the limits; take none if none arrives within `_idle_seconds`."""
        self._batch = []
        try:
            self._batch.append(self._jobs.get(timeout=self._idle_seconds()))
        except queue.Empty:
            return
        most_jobs, most_rows = self._batch_limits()
        rows = 0
        while len(self._batch) < most_jobs and rows < most_rows:
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                break
            self._batch.append(job)
            rows += 0 if isinstance(job, Stop) else job.rows

    def _call(self, job: EngineCall) -> None:
        if self.failure is not None and not job.even_if_failed:
            self._results.append(CallResult(job.waiter, error=self._refusal()))
            return
        try:
            result = CallResult(job.waiter, job.call())
        except Exception as error:
            result = CallResult(job.waiter, error=error)
        self._results.append(result)

    def _refuse_all(self, cause: BaseException | None = None) -> None:
        """Refuse the jobs that were begun when the thread failed or ended, and the waiting ones."""
        begun = self._abandon()
        waiters = [result.waiter for result in self._results] + [job.waiter for job in begun if not isinstance(job, Stop)]
        self._has_ended |= any(isinstance(job, Stop) for job in begun)
        self._announcements, self._results = [], []
        if self.failure is not None and self._on_failure is not None:
            self._announcements.append(partial(self._on_failure, self._refusal()))
        self._refuse([*waiters, *self._take_waiting()], cause)

    def _take_waiting(self) -> list[Waiter]:
        """Return the waiters of the waiting jobs."""
        waiters: list[Waiter] = []
        while True:
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                return waiters
            if isinstance(job, Stop):
                self._has_ended = True
            else:
                waiters.append(job.waiter)

    def _refuse(self, waiters: Iterable[Waiter], cause: BaseException | None = None) -> None:
        """Refuse jobs after a failure or, then from any thread, after the thread has ended."""
        announcements, self._announcements = self._announcements, []
        results = [CallResult(waiter, error=self._refusal()) for waiter in waiters]
        for result in results:
            assert result.error is not None
            result.error.__cause__ = cause
        self._hand_over(announcements, results)

    def _deliver(self) -> None:
        """Hand over the announcements and results since the last delivery."""
        announcements, self._announcements = self._announcements, []
        results, self._results = self._results, []
        self._hand_over(announcements, results)

    def _hand_over(self, announcements: Sequence[Callable[[], object]], results: Sequence[CallResult]) -> None:
        """Hand announcements and results to event loops, and results to the threads that wait for them."""
        by_loop: dict[asyncio.AbstractEventLoop, list[CallResult]] = {}
        if announcements and self._loop is not None:
            by_loop[self._loop] = []
        for result in results:
            if isinstance(result.waiter, Future):
                result.deliver()
            else:
                by_loop.setdefault(result.waiter.get_loop(), []).append(result)
        for loop, of_loop in by_loop.items():
            try:
                loop.call_soon_threadsafe(self._receive, announcements, of_loop)
            except RuntimeError:  # the loop was closed: no caller waits
                LOG.debug("the loop is closed")
            announcements = ()

    def _receive(self, announcements: Sequence[Callable[[], object]], results: Sequence[CallResult]) -> None:
        """Make announcements and deliver results; runs in the thread of an event loop."""
        try:
            for call in announcements:
                call()
        except Exception as problem:
            self._fail(f"changes cannot be sent to followers: {problem!r}; {self.failure_hint}", problem)
        finally:
            for result in results:
                result.deliver()

    def _fail(self, reason: str, error: BaseException | None = None) -> None:
        """Record the reason of a failure; no further jobs are accepted."""
        if self.failure is None:
            self.failure = reason


# --- followers -------------------------------------------------------------------------------------------------------

Item = TypeVar("Item")
Value = TypeVar("Value")


class FollowerTooSlow(RpqError):
    """A follower of changes was dropped because too many rows were waiting for it.

    `rows` is the number of rows that were waiting, and `limit` the maximum.

    >>> FollowerTooSlow("12 rows wait for this follower, and 10 may", rows=12, limit=10).limit
    10
    """

    def __init__(self, message: str, *, rows: int, limit: int) -> None:
        super().__init__(message)
        self.rows = rows
        self.limit = limit


class FollowerQueue(Generic[Item]):
    """A queue of items for one follower; only the thread of its event loop may use it.

    An item that arrives while more than `limit` rows are waiting ends the queue: waiting items are discarded, and `get`
    raises.  A single item may have more rows than the limit if the follower is not behind.
    """

    def __init__(self, *, limit: int) -> None:
        self.limit = limit
        self.rows = 0
        self.ended: Exception | None = None
        self._items: deque[tuple[Item, int]] = deque()
        self._came = asyncio.Event()
        self._call_ended: Callable[[], object] | None = None

    @property
    def is_idle(self) -> bool:
        """True if nothing is waiting, and everything that `get` returned has been sent."""
        return not self._items and not self.rows

    def put(self, item: Item, rows: int) -> None:
        """Append an item with its number of rows; O(1)."""
        if self.ended is not None:
            return
        if self.rows > self.limit:
            message = f"{self.rows:,} rows of changes wait for this follower, of at most {self.limit:,}: it reads too slowly"
            self.end(FollowerTooSlow(message, rows=self.rows, limit=self.limit))
            self._items.clear()
            return
        self._items.append((item, rows))
        self.rows += rows
        self._came.set()

    def end(self, reason: Exception) -> None:
        """End the queue: `get` raises the reason after it has returned the waiting items."""
        if self.ended is None:
            self.ended = reason
            if self._call_ended is not None:
                self._call_ended()
        self._came.set()

    def when_ended(self, call: Callable[[], object]) -> None:
        """Call a function when the queue ends, or now if it has ended."""
        if self.ended is None:
            self._call_ended = call
        else:
            call()

    async def get(self) -> list[tuple[Item, int]]:
        """Return all waiting items, at least one, each with its rows; raise the reason of the end if there are none."""
        while not self._items:
            if self.ended is not None:
                raise self.ended
            self._came.clear()
            await self._came.wait()
        items = list(self._items)
        self._items.clear()
        return items

    def note_sent(self, rows: int) -> None:
        """Record that `rows` rows of the items that `get` returned were sent."""
        self.rows -= rows


MAX_WAITING = 100_000
"""Default limit on the rows that wait for a follower."""


class _Followers:
    """The followers of the changes of an engine; only the thread of their event loop may use it."""

    def __init__(self) -> None:
        self.queues: set[FollowerQueue[Changes]] = set()
        self._end: Exception | None = None

    def add(self, *, limit: int) -> FollowerQueue[Changes]:
        """Return the queue of a new follower."""
        added: FollowerQueue[Changes] = FollowerQueue(limit=limit)
        if self._end is not None:
            added.end(self._end)
        self.queues.add(added)
        return added

    def publish(self, changes: Changes) -> None:
        """Pass changes to all followers."""
        if len(changes):
            for waiting in self.queues:
                waiting.put(changes, len(changes))

    def end(self, reason: Exception) -> None:
        """End all present and future followers."""
        self._end = self._end or reason
        for waiting in self.queues:
            waiting.end(reason)


class AsyncEngine:
    """An engine in a thread of its own: calls do not block the event loop, and are executed in order.

    - Tuples: `push`, `push_rows`, `insert`, `delete`, `advance`, `flush`; records of nodes: `push_nodes`
    - Queries: `queries`, `register`, `unregister`
    - Present state: `time`, `node`, `answers`, `witness`, `find`, `check`, `statistics`
    - Changes as they happen, from all callers: `follow`
    - To continue later: `save`

    The arguments are those of `rpq.Engine`, or `engine`, an existing engine that no other code may call from then on.  The
    methods mean the same as those of `rpq.Engine` and raise the same errors.  `async with` closes the engine.

    >>> import asyncio, rpq
    >>> from rpq.serve import AsyncEngine
    >>> async def main():
    ...     async with AsyncEngine(rpq.Query("a+", window=rpq.Window(size=10, slide=1))) as engine:
    ...         follower = engine.follow()
    ...         await engine.push_rows([("x", "y", "a", 1), ("y", "z", "a", 2)])
    ...         await engine.delete("x", "y", "a", 3)
    ...         async for changes in follower:
    ...             print(changes.added, changes.removed)
    ...             if changes.removed:
    ...                 break
    ...         return sorted(await engine.answers())
    >>> asyncio.run(main())
    3 0
    0 2
    [('y', 'z')]
    """

    def __init__(self, *queries: Query, engine: Engine | None = None, **options: Any) -> None:
        from rpq.engine.engine import Engine

        if engine is not None and (queries or options):
            raise RpqError("an AsyncEngine takes an engine, or the arguments of one, not both: register queries afterwards")
        self._engine = Engine(*queries, **options) if engine is None else engine
        self._followers = _Followers()
        self._thread = EngineThread(on_failure=self._followers.end)
        # The thread ends with this object too, or with the interpreter.
        weakref.finalize(self, self._thread.stop)

    async def __aenter__(self) -> AsyncEngine:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Wait for the calls in progress, then end all followers; later calls are refused.

        >>> import asyncio
        >>> engine = AsyncEngine()
        >>> asyncio.run(engine.close())
        """
        if self._thread.is_stopping:
            return
        self._thread.is_stopping = True
        await asyncio.get_running_loop().run_in_executor(None, self._thread.stop)
        self._followers.end(StopAsyncIteration())

    async def _call(self, call: Callable[[], Value]) -> Value:
        """Call a function in the engine's thread.  Cancelling the caller does not cancel the call."""
        if self._thread.is_stopping:
            raise EngineClosed("this engine was closed; it accepts no more calls")
        self._thread.start()
        result: Value = await self._thread.call(call)
        return result

    async def _change(self, call: Callable[[], Changes]) -> Changes:
        """Call a function and pass its changes to followers, also after an error or if the caller is cancelled."""

        def run_call() -> Changes:
            try:
                changes = call()
            except RpqError as error:
                if getattr(error, "changes", None) is not None:
                    self._thread.announce(partial(self._followers.publish, error.changes))  # type: ignore[attr-defined]
                raise
            self._thread.announce(partial(self._followers.publish, changes))
            return changes

        return await self._call(run_call)

    # --- tuples ----------------------------------------------------------------------------------------------

    async def push(self, data: Any = None, **columns: Any) -> Changes:
        """Apply tuples in the order given, as `Engine.push` does.

        >>> import asyncio, rpq
        >>> engine = AsyncEngine(rpq.Query("a+", window=rpq.Window(size=10, slide=1)))
        >>> asyncio.run(engine.push(source=["x"], target=["y"], label=["a"], timestamp=[1]))
        <Changes: 1 added, 0 removed: ('a+', 'x', 'y', 1, '+')>
        """
        return await self._change(lambda: self._engine.push(data, **columns))

    async def push_rows(self, rows: Iterable[tuple[Any, ...]]) -> Changes:
        """Apply tuples (source, target, label, timestamp[, op]).

        >>> import asyncio, rpq
        >>> engine = AsyncEngine(rpq.Query("a+", window=rpq.Window(size=10, slide=1)))
        >>> asyncio.run(engine.push_rows([("x", "y", "a", 1)])).added
        1
        """
        row_list = list(rows)  # in this thread, to which a generator may be bound
        return await self._change(lambda: self._engine.push_rows(row_list))

    async def insert(self, source: Vertex, target: Vertex, label: str, timestamp: Any) -> Changes:
        """Apply one insert.

        >>> import asyncio, rpq
        >>> engine = AsyncEngine(rpq.Query("a+", window=rpq.Window(size=10, slide=1)))
        >>> asyncio.run(engine.insert("x", "y", "a", 1)).added
        1
        """
        return await self._change(lambda: self._engine.insert(source, target, label, timestamp))

    async def delete(self, source: Vertex, target: Vertex, label: str, timestamp: Any) -> Changes:
        """Apply one delete.

        >>> import asyncio, rpq
        >>> engine = AsyncEngine(rpq.Query("a+", window=rpq.Window(size=10, slide=1)))
        >>> asyncio.run(engine.delete("x", "y", "a", 1)).removed
        0
        """
        return await self._change(lambda: self._engine.delete(source, target, label, timestamp))

    async def push_nodes(self, data: Any) -> Changes:
        """Apply records of nodes in the order given, as `Engine.push_nodes` does.

        >>> import asyncio, rpq
        >>> engine = AsyncEngine(rpq.Query("a/@[risk > 3]", window=rpq.Window(size=10, slide=1)))
        >>> asyncio.run(engine.push_nodes([{"node": "y", "risk": 4}])).added
        0
        """
        return await self._change(lambda: self._engine.push_nodes(data))

    async def advance(self, time: Any) -> Changes:
        """Move the stream time to `time` if that is later.

        >>> import asyncio, rpq
        >>> engine = AsyncEngine(rpq.Query("a+", window=rpq.Window(size=10, slide=1)))
        >>> asyncio.run(engine.advance(7))
        <Changes: 0 added, 0 removed>
        >>> engine.time
        7
        """
        return await self._change(lambda: self._engine.advance(time))

    async def flush(self) -> Changes:
        """Return the next report of each query that reports at slides or times, as if the stream ended here.

        >>> import asyncio, rpq
        >>> engine = AsyncEngine(rpq.Query("?x a ?y", window=rpq.Window(size=10, slide=5), report="slide"))
        >>> asyncio.run(engine.insert("x", "y", "a", 1))
        <Changes: 0 added, 0 removed>
        >>> asyncio.run(engine.flush())
        <Changes: 1 added, 0 removed: ('?x a ?y', 'x', 'y', 5, '+')>
        """
        return await self._change(self._engine.flush)

    # --- queries ---------------------------------------------------------------------------------------------

    @property
    def queries(self) -> tuple[Query, ...]:
        """The registered queries.

        >>> AsyncEngine().queries
        ()
        """
        return self._engine.queries

    async def register(
        self, query: Query | Iterable[Query], *, start: Literal["window", "empty"] = "window"
    ) -> Changes:
        """Add a query, or several as one step; followers receive the first rows, too.

        >>> import asyncio, rpq
        >>> engine = AsyncEngine()
        >>> asyncio.run(engine.register(rpq.Query("a+", window=rpq.Window(size=10, slide=1)))).added
        0
        """
        return await self._change(lambda: self._engine.register(query, start=start))

    async def unregister(self, name: str | Iterable[str]) -> None:
        """Remove a query, or several as one step.

        >>> import asyncio, rpq
        >>> engine = AsyncEngine(rpq.Query("a+", window=rpq.Window(size=10, slide=1)))
        >>> asyncio.run(engine.unregister("a+"))
        """
        await self._call(lambda: self._engine.unregister(name))

    # --- present state ---------------------------------------------------------------------------------------

    @property
    def time(self) -> Any:
        """The stream time; None before the first tuple.

        >>> AsyncEngine().time is None
        True
        """
        return self._engine.time

    async def node(self, name: Vertex) -> NodeFacts | None:
        """Return the facts of a node; None if it has no record.

        >>> import asyncio
        >>> asyncio.run(AsyncEngine().node("x")) is None
        True
        """
        return await self._call(lambda: self._engine.node(name))

    async def answers(
        self,
        query: str | None = None,
        *,
        source: Vertex | None = None,
        target: Vertex | None = None,
        limit: int | None = None,
        after: str | None = None,
    ) -> Answers:
        """Return the current answers of the query with that name (or of the only one), or some of them.

        >>> import asyncio, rpq
        >>> engine = AsyncEngine(rpq.Query("a+", window=rpq.Window(size=10, slide=1)))
        >>> len(asyncio.run(engine.answers()))
        0
        """
        return await self._call(
            lambda: self._engine.answers(query, source=source, target=target, limit=limit, after=after)
        )

    async def witness(self, *answer: Vertex | None, query: str | None = None) -> Path | Witness | None:
        """Return the edges behind an answer, which is given by the values of its columns; None if it is no answer.

        >>> import asyncio, rpq
        >>> engine = AsyncEngine(rpq.Query("a+", window=rpq.Window(size=10, slide=1)))
        >>> asyncio.run(engine.witness("x", "y")) is None
        True
        """
        return await self._call(lambda: self._engine.witness(*answer, query=query))

    async def find(self, expression: str, **options: Any) -> Found:
        """Return the pairs that a path expression has now, with the options of `Engine.find`.

        >>> import asyncio, rpq
        >>> engine = AsyncEngine(keep=rpq.UnboundedWindow())
        >>> len(asyncio.run(engine.find("a+", source="x")))
        0
        """
        return await self._call(lambda: self._engine.find(expression, **options))

    async def check(self, expression: str, source: Vertex, target: Vertex, **options: Any) -> Path | None:
        """Return a path that a path expression has now, with the options of `Engine.check`; None if there is none.

        >>> import asyncio, rpq
        >>> engine = AsyncEngine(keep=rpq.UnboundedWindow())
        >>> asyncio.run(engine.check("a+", "x", "y")) is None
        True
        """
        return await self._call(lambda: self._engine.check(expression, source, target, **options))

    async def statistics(self, query: str | None = None) -> Statistics:
        """Return counts and measures of the engine as a whole, or of one query.

        >>> import asyncio
        >>> asyncio.run(AsyncEngine().statistics()).tuples
        0
        """
        return await self._call(lambda: self._engine.statistics(query))

    async def save(self, path: str | os.PathLike[str], *, extra: Mapping[str, str] | None = None) -> None:
        """Write the state to a file, from which `rpq.Engine.restore` continues.

        >>> import asyncio, os, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     asyncio.run(AsyncEngine().save(os.path.join(folder, "engine.state")))
        ...     os.listdir(folder)
        ['engine.state']
        """
        await self._call(lambda: self._engine.save(path, extra=extra))

    # --- changes ---------------------------------------------------------------------------------------------

    def follow(self, *, most_waiting: int = MAX_WAITING) -> AsyncIterator[Changes]:
        """Return an iterator over the changes of all calls from now on: `async for changes in engine.follow()`.

        Calls do not wait for followers.  When more than `most_waiting` rows wait for this one, it is dropped with
        `FollowerTooSlow`.  The iterator ends when the engine is closed, or with `aclose()`.

        >>> import asyncio, rpq
        >>> async def main():
        ...     engine = AsyncEngine(rpq.Query("a+", window=rpq.Window(size=10, slide=1)))
        ...     changes = engine.follow()
        ...     await engine.insert("x", "y", "a", 1)
        ...     await engine.close()
        ...     return [row async for change in changes for row in change.rows()]
        >>> asyncio.run(main())
        [Change(query='a+', source='x', target='y', timestamp=1, op='+')]
        """
        return _ChangeIterator(self._followers.add(limit=most_waiting), self._followers.queues)


class _ChangeIterator:
    """The iterator of `follow`, which collects changes from its creation on, not only from the first `async for` on."""

    def __init__(self, waiting: FollowerQueue[Changes], followers: set[FollowerQueue[Changes]]) -> None:
        self._waiting = waiting
        self._followers = followers
        self._ready: list[tuple[Changes, int]] = []

    def __aiter__(self) -> _ChangeIterator:
        return self

    async def __anext__(self) -> Changes:
        if not self._ready:
            try:
                self._ready = (await self._waiting.get())[::-1]
            except (StopAsyncIteration, RpqError):
                self._followers.discard(self._waiting)
                raise
        changes, rows = self._ready.pop()
        self._waiting.note_sent(rows)
        return changes

    async def aclose(self) -> None:
        """End the iterator."""
        self._followers.discard(self._waiting)
        self._waiting.end(StopAsyncIteration())
        self._ready = []
