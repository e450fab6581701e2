"""The jobs of a server's engine, their results and errors, and the thread that executes them."""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from rpq.errors import RpqError
from rpq.serve.changes import ChangeHub, Published


class ServiceFailed(RpqError):
    """The engine accepts no more jobs; the message gives the reason."""


class StorageUnavailable(RpqError):
    """A request cannot be saved now and was not executed; the message gives the reason.

    `is_full` distinguishes a full disk from other failures; a client may retry after `retry_after` seconds.
    """

    def __init__(self, message: str, *, is_full: bool, retry_after: int) -> None:
        super().__init__(message)
        self.is_full = is_full
        self.retry_after = retry_after


class NameTaken(RpqError):
    """There is a query of that name already."""


class NoSuchQuery(RpqError):
    """There is no query of that name."""


class TooManyQueries(RpqError):
    """The limit on registered queries is reached."""


@dataclass(frozen=True, kw_only=True)
class Applied:
    """The result of posted tuples; `position` is that of the last push."""

    tuples: int
    late: int
    time: Any
    position: int
    warnings: tuple[str, ...] = ()


class NotApplied(RpqError):
    """Only the first `applied` of the posted tuples were applied; `cause` is the error of the next one."""

    def __init__(self, cause: Exception, *, applied: int, position: int) -> None:
        super().__init__(str(cause))
        self.cause = cause
        self.applied = applied
        self.position = position


Waiter = asyncio.Future[Any] | Future[Any]


@dataclass(eq=False)
class Push:
    """Tuples to be pushed; `progress` returns how far an input has come after the given number of them.

    While they cannot be saved, tuples of an input wait (`waits_for_storage`), and others are refused.
    """

    columns: pa.RecordBatch
    waiter: Waiter
    progress: Callable[[int], Any] | None = None
    waits_for_storage: bool = False
    arrived: float = field(default_factory=time.monotonic)
    done: int = 0
    late: int = 0
    position: int = 0
    error: Exception | None = None
    warnings: list[str] = field(default_factory=list)
    _saved: tuple[int, int, int] = (0, 0, 0)

    def note_saved(self) -> None:
        """Note that everything done so far is on disk."""
        self._saved = self.done, self.late, self.position

    def take_back(self) -> None:
        """Undo the progress that is not on disk."""
        self.done, self.late, self.position = self._saved
        self.error = None

    @property
    def rows(self) -> int:
        return int(self.columns.num_rows)


@dataclass(eq=False)
class Call:
    """A function to be called in the engine's thread."""

    call: Callable[[], Any]
    waiter: Waiter
    even_if_failed: bool = False
    writes: bool = False
    """Whether it changes something that must be saved."""


class Stop:
    """The job that ends the thread."""


def settle(waiter: Waiter, result: Any, error: BaseException | None) -> None:
    """Set the result or error of a waiter, unless it is done or cancelled."""
    if waiter.done():
        return
    if error is not None:
        # An asyncio future refuses StopIteration, and a BaseException would end the event loop.
        is_plain = isinstance(error, Exception) and not isinstance(error, StopIteration)
        waiter.set_exception(error if is_plain else RuntimeError(f"the call raised {error!r}"))
    else:
        waiter.set_result(result)


LOG = logging.getLogger("rpq.serve")

MOST_TOGETHER = 256
"""Maximum number of jobs that are executed together."""

FAILED_SECONDS = 0.05
"""Pause of the thread after a failure, so that a repeated failure does not fill the log."""

Ack = tuple[Waiter, Any, Exception | None]


class EngineThread:
    """A thread that executes jobs of any thread with `_do_together`; results go to the thread of the event loop.

    Any exception that escapes from a job is a permanent failure: jobs in progress, waiting jobs and later ones are refused.
    """

    hub: ChangeHub

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Push | Call | Stop] = queue.SimpleQueue()
        self._batch: list[Push | Call | Stop] = []
        self._deferred: list[Push] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._published: list[Published] = []
        self._dropped: list[str] = []
        self._acks: list[Ack] = []
        self._told_position = 0
        self._has_ended = False
        self.failure: str | None = None
        self.is_stopping = False

    # --- what a subclass defines ---------------------------------------------------------------------

    def _do_together(self, jobs: Sequence[Push | Call]) -> None:
        """Execute jobs and deliver their results."""
        raise NotImplementedError

    def _do_between(self) -> None:
        """Do the work that is due between jobs, and after the last one."""

    def _forget(self) -> None:
        """Discard results that were not delivered."""

    def _most_rows(self) -> int:
        """Return the maximum number of tuples in jobs that are executed together."""
        raise NotImplementedError

    def _idle_seconds(self) -> float:
        """Return how long to wait for a job before `_do_between` is called."""
        return 1.0

    # --- jobs ------------------------------------------------------------------------------------------------

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start the thread; results are delivered to the event loop `loop`."""
        self._loop = loop
        self._thread = threading.Thread(target=self._work, name="rpq-engine")
        self._thread.start()

    def stop(self) -> None:
        """Execute the waiting jobs, then end the thread; blocks."""
        self.is_stopping = True
        self._jobs.put(Stop())
        if self._thread is not None:
            self._thread.join()

    @property
    def is_alive(self) -> bool:
        """Whether the engine's thread is running, or was not started yet."""
        return not self._has_ended and (self._thread is None or self._thread.is_alive())

    def submit(self, job: Push | Call) -> None:
        """Enqueue a job; any thread may call this."""
        self._jobs.put(job)
        if self._has_ended and not self.is_alive:
            self._refuse_waiting()

    async def push(self, columns: pa.RecordBatch, *, arrived: float | None = None) -> Applied:
        """Apply tuples.  Raises `NotApplied` and `ServiceFailed`."""
        waiter: asyncio.Future[Applied] = asyncio.get_running_loop().create_future()
        self.submit(Push(columns, waiter, arrived=time.monotonic() if arrived is None else arrived))
        return await waiter

    async def call(self, call: Callable[[], Any], *, even_if_failed: bool = False, writes: bool = False) -> Any:
        """Call a function in the engine's thread; `writes` marks `register` and `drop`, which must be saved."""
        waiter: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.submit(Call(call, waiter, even_if_failed, writes))
        return await waiter

    def _work(self) -> None:
        """Execute jobs until `Stop`; whatever is raised, every waiter gets a result."""
        try:
            while not self._has_ended:
                try:
                    self._do_all()
                except BaseException as error:
                    self._fail(f"the engine's thread failed: {error!r}; the server has to be started anew", error)
                    self._refuse_begun()
                    self._refuse_waiting()
                    time.sleep(FAILED_SECONDS)
        finally:
            self._has_ended = True
            self._refuse_begun()
            self._refuse_waiting()

    def _do_all(self) -> None:
        while not self._has_ended:
            self._next()
            jobs = [job for job in self._batch if not isinstance(job, Stop)]
            self._has_ended = len(jobs) < len(self._batch)
            self._do_together(jobs)
            self._batch = []
            self._do_between()

    def _next(self) -> None:
        """Take the waiting jobs, up to the limits; take none if none arrives within `_idle_seconds`."""
        self._batch = []
        try:
            self._batch.append(self._jobs.get(timeout=self._idle_seconds()))
        except queue.Empty:
            return
        rows = 0
        while len(self._batch) < MOST_TOGETHER and rows < self._most_rows():
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                break
            self._batch.append(job)
            rows += job.rows if isinstance(job, Push) else 0

    def _refuse_begun(self) -> None:
        """Refuse the jobs that were in progress when the service failed; nothing of them is saved."""
        self._forget()
        jobs, acks = [*self._deferred, *self._batch], self._acks
        self._has_ended |= any(isinstance(job, Stop) for job in jobs)
        self._deferred, self._batch, self._acks, self._published, self._dropped = [], [], [], [], []
        waiters = [waiter for waiter, _, _ in acks] + [job.waiter for job in jobs if not isinstance(job, Stop)]
        self._refuse(waiters)

    def _refuse_waiting(self) -> None:
        """Refuse the waiting jobs, after a failure or, then from any thread, after the thread has ended."""
        waiters: list[Waiter] = []
        while True:
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                break
            if isinstance(job, Stop):
                self._has_ended = True
            else:
                waiters.append(job.waiter)
        self._refuse(waiters)

    def _refuse(self, waiters: Iterable[Waiter]) -> None:
        ended = "the server is stopping" if self.is_stopping else "the engine's thread has ended"
        reason = self.failure or ended
        self._tell([], [(waiter, None, ServiceFailed(reason)) for waiter in waiters], [])

    def _tell(self, published: Sequence[Published], acks: Sequence[Ack], dropped: Sequence[str]) -> None:
        of_loop = [ack for ack in acks if not isinstance(ack[0], Future)]
        for waiter, result, error in acks:
            if isinstance(waiter, Future):
                settle(waiter, result, error)
        if (of_loop or published or dropped) and self._loop is not None:
            try:
                self._loop.call_soon_threadsafe(self._deliver, published, self._told_position, of_loop, dropped)
            except RuntimeError:  # the loop was closed: nobody waits
                LOG.debug("the loop is closed")

    def _deliver(
        self, published: Iterable[Published], position: int, acks: Iterable[Ack], dropped: Iterable[str]
    ) -> None:
        """Publish changes and settle waiters; runs in the thread of the event loop."""
        try:
            self.hub.publish(published, position=position)
            for name in dropped:
                self.hub.end_query(name)
        except Exception as problem:
            self._fail(f"changes cannot be told to followers: {problem!r}; the server has to be started anew", problem)
        finally:
            for waiter, result, error in acks:
                settle(waiter, result, error)

    def _fail(self, reason: str, error: BaseException | None = None) -> None:
        """Record the reason of a failure; no further jobs are accepted."""
        if self.failure is None:
            LOG.error("%s", reason, exc_info=error)
            self.failure = reason
