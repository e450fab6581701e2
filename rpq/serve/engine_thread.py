"""The thread of an engine: it executes jobs in their order, and hands results and announcements to event loops."""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from rpq.errors import RpqError

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
class Call:
    """A job: a function to be called in the engine's thread."""

    call: Callable[[], Any]
    waiter: Waiter
    even_if_failed: bool = False
    writes: bool = False
    """True if the job changes something that must be saved."""

    rows = 0
    """The number of tuples that it pushes."""


class Stop:
    """The job that ends the thread."""


class Result(NamedTuple):
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
        self._results: list[Result] = []
        self._has_ended = False
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
        self.submit(Call(call, waiter, even_if_failed, writes))
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

    def _do_next(self) -> None:
        self._next()
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

    def _call(self, job: Call) -> None:
        if self.failure is not None and not job.even_if_failed:
            self._results.append(Result(job.waiter, error=self._refusal()))
            return
        try:
            result = Result(job.waiter, job.call())
        except Exception as error:
            result = Result(job.waiter, error=error)
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
        results = [Result(waiter, error=self._refusal()) for waiter in waiters]
        for result in results:
            assert result.error is not None
            result.error.__cause__ = cause
        self._hand_over(announcements, results)

    def _deliver(self) -> None:
        """Hand over the announcements and results since the last delivery."""
        announcements, self._announcements = self._announcements, []
        results, self._results = self._results, []
        self._hand_over(announcements, results)

    def _hand_over(self, announcements: Sequence[Callable[[], object]], results: Sequence[Result]) -> None:
        """Hand announcements and results to event loops, and results to the threads that wait for them."""
        by_loop: dict[asyncio.AbstractEventLoop, list[Result]] = {}
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

    def _receive(self, announcements: Sequence[Callable[[], object]], results: Sequence[Result]) -> None:
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
