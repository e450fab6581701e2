"""A thread that does jobs one after the other, whatever is raised in it: nobody who asked for one waits in vain."""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from typing import Any

import pyarrow as pa

from rpq.serve.change_hub import ChangeHub
from rpq.serve.engine_jobs import Applied, Call, Push, ServiceFailed, Stop, Waiter, settle
from rpq.serve.published import Published

LOG = logging.getLogger("rpq.serve")

MOST_TOGETHER = 256
"""Jobs that are done together, at most."""

FAILED_SECONDS = 0.05
"""So long the thread rests after a failure: what fails at once again should not fill the log."""

Ack = tuple[Waiter, Any, Exception | None]


class EngineThread:
    """Takes jobs from any thread, and lets `_do_together` do them in its own; the loop's thread is told what comes of it.

    An exception of any kind that leaves a job makes it fail for good: what was begun, waits, or comes later is refused.
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

    # --- what whoever has an engine says ---------------------------------------------------------------------

    def _do_together(self, jobs: Sequence[Push | Call]) -> None:
        """Do jobs, and tell what comes of them."""
        raise NotImplementedError

    def _do_between(self) -> None:
        """Do what is due between jobs, and behind the last."""

    def _forget(self) -> None:
        """Forget what was done and not told."""

    def _most_rows(self) -> int:
        """How many tuples of jobs are done together, at most."""
        raise NotImplementedError

    def _idle_seconds(self) -> float:
        """How long to wait for a job before what is due is done."""
        return 1.0

    # --- jobs ------------------------------------------------------------------------------------------------

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Work, and tell a loop what comes of it."""
        self._loop = loop
        self._thread = threading.Thread(target=self._work, name="rpq-engine")
        self._thread.start()

    def stop(self) -> None:
        """Do what waits, and end; blocks."""
        self.is_stopping = True
        self._jobs.put(Stop())
        if self._thread is not None:
            self._thread.join()

    @property
    def is_alive(self) -> bool:
        """Whether the engine's thread works, or was not started yet."""
        return not self._has_ended and (self._thread is None or self._thread.is_alive())

    def submit(self, job: Push | Call) -> None:
        """Let a job be done; from any thread."""
        self._jobs.put(job)
        if self._has_ended and not self.is_alive:
            self._refuse_waiting()

    async def push(self, columns: pa.RecordBatch, *, arrived: float | None = None) -> Applied:
        """Apply tuples; raises `NotApplied` and `ServiceFailed`."""
        waiter: asyncio.Future[Applied] = asyncio.get_running_loop().create_future()
        self.submit(Push(columns, waiter, arrived=time.monotonic() if arrived is None else arrived))
        return await waiter

    async def call(self, call: Callable[[], Any], *, even_if_failed: bool = False, writes: bool = False) -> Any:
        """Do something with the engine; `writes` is said of `register` and `drop`, which must be saved."""
        waiter: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.submit(Call(call, waiter, even_if_failed, writes))
        return await waiter

    def _work(self) -> None:
        """Do jobs until the last; whatever is raised, nobody waits in vain."""
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
        """Take all jobs that wait, not too many; none after a while in which none came."""
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
        """Refuse what was not done to its end when the service failed; nothing of it is saved."""
        self._forget()
        jobs, acks = [*self._deferred, *self._batch], self._acks
        self._has_ended |= any(isinstance(job, Stop) for job in jobs)
        self._deferred, self._batch, self._acks, self._published, self._dropped = [], [], [], [], []
        waiters = [waiter for waiter, _, _ in acks] + [job.waiter for job in jobs if not isinstance(job, Stop)]
        self._refuse(waiters)

    def _refuse_waiting(self) -> None:
        """Refuse what nobody does any more, after a failure or once the thread has ended; then from any thread."""
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
        """In the loop's thread."""
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
        """Take nothing more."""
        if self.failure is None:
            LOG.error("%s", reason, exc_info=error)
            self.failure = reason
