"""The engine of a server, in a thread of its own: jobs go in, acknowledgements and changes come out.

All jobs that wait are done together: tuples that several have posted are pushed as one, what was done is put on disk at
once, and only then are they acknowledged and followers told.  While that goes on the next jobs gather.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import queue
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from rpq.errors import ConflictBudgetError, InputError, LimitError, QueryError, RpqError
from rpq.running.latency_counts import LatencyCounts
from rpq.serve.asked_queries import QueryDefaults
from rpq.serve.change_hub import ChangeHub
from rpq.serve.engine_jobs import (
    Applied,
    Call,
    NameTaken,
    NoSuchQuery,
    NotApplied,
    Push,
    ServiceFailed,
    Stop,
    StorageUnavailable,
    TooManyQueries,
    Waiter,
    settle,
)
from rpq.serve.posted_tuples import can_be_joined, joined
from rpq.serve.published import Published
from rpq.serve.serve_limits import ServeLimits
from rpq.serve.served_state import ServedState
from rpq.serve.storage import EngineOptions, Loaded, Outage, Storage

if TYPE_CHECKING:
    from rpq.engine import Engine
    from rpq.queries.query import Query
    from rpq.results.changes import Changes

LOG = logging.getLogger("rpq.serve")

SLICE_ROWS, SLICE_SECONDS = 1 << 18, 0.25
"""Rows that a push is meant to bring, and engine time that it is meant to take, at most."""

FIRST_SLICE, LEAST_SLICE, MOST_SLICE = 4096, 64, 1 << 16
"""Tuples of a push: of the first, and of the smallest and largest that it may become."""

MOST_TOGETHER = 256
"""Jobs that are done together, at most."""

CHECKPOINT_SHARE = 0.1
"""The part of the time that checkpoints may take."""

MOST_JOURNAL = 256 << 20
"""Bytes of a journal after which a checkpoint is written, whatever the time."""

FAILED_SECONDS = 0.05
"""So long the thread rests after a failure: what fails at once again should not fill the log."""

Ack = tuple[Waiter, Any, Exception | None]


class _Unsaved(Exception):
    """What was done since the last commit cannot be put on disk."""


def _writes(job: Push | Call) -> bool:
    """Whether a job does what must be saved."""
    return isinstance(job, Push) or job.writes


class Service:
    """What a server does, without HTTP.

    - In the loop's thread: `push`, `call`; `hub` has the changes
    - In the engine's thread, by `call`: `register`, `drop`, `see_that_there_is`, and `engine` itself
    - From any thread: `submit`; what is only read, such as `position` and `failure`

    Raises `JournalError`, `ServedStateError` and what the engine raises for a checkpoint that it cannot go on from.
    """

    def __init__(
        self,
        options: EngineOptions,
        *,
        defaults: QueryDefaults,
        limits: ServeLimits,
        checkpoint: str | None = None,
        checkpoint_seconds: float = 30.0,
        damaged_journal: Literal["refuse", "set-aside"] = "refuse",
    ) -> None:
        self.defaults = defaults
        self.limits = limits
        self._checkpoint_seconds = checkpoint_seconds
        self._jobs: queue.SimpleQueue[Push | Call | Stop] = queue.SimpleQueue()
        self._batch: list[Push | Call | Stop] = []
        self._deferred: list[Push] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._slice = FIRST_SLICE
        self._published: list[Published] = []
        self._dropped: list[str] = []
        self._acks: list[Ack] = []
        self._is_engine_ahead = False
        self._has_ended = False
        self.failure: str | None = None
        self.is_stopping = False
        self.latencies: deque[float] = deque(maxlen=4096)
        self.latency = LatencyCounts()
        self.began = time.monotonic()
        self._storage = (
            None
            if checkpoint is None
            else Storage(checkpoint, options, defaults=defaults, sets_aside=damaged_journal == "set-aside")
        )
        try:
            if self._storage is None:
                loaded = Loaded(engine=options.make(), state=ServedState(run=uuid.uuid4().hex[:8], position=0))
            else:
                loaded = self._storage.load()
        except BaseException:
            if self._storage is not None:
                self._storage.close()
                self._storage.release()
            raise
        self._take(loaded)
        self._told_position = self.position
        self.run = loaded.state.run
        self.resumed = loaded.resumed
        self.hub = ChangeHub(run=self.run, position=self.position, kept_rows=limits.kept_rows, lag_rows=limits.lag_rows)

    # --- state and journal -----------------------------------------------------------------------------------

    def _take(self, loaded: Loaded) -> None:
        """Stand where a checkpoint and its journal do."""
        state = loaded.state
        self.engine: Engine = loaded.engine
        self.position, self.progress = state.position, state.progress
        self.tuples, self.late = state.tuples, state.late
        self.replayed = loaded.replayed

    @property
    def has_integers(self) -> bool:
        """Whether vertices are integers, as far as it is known."""
        return self.engine._evaluation.vertices.kind == "int64"

    @property
    def checkpoint(self) -> str | None:
        """The path of the checkpoint."""
        return None if self._storage is None else self._storage.path

    @property
    def checkpoint_age(self) -> float | None:
        """Seconds since the checkpoint was written; None without one."""
        return None if self._storage is None else self._storage.age

    @property
    def journal_bytes(self) -> int | None:
        return None if self._storage is None else self._storage.journal_bytes

    @property
    def outage(self) -> Outage | None:
        """Why nothing can be saved now, and what must be is refused."""
        return None if self._storage is None else self._storage.outage

    @property
    def checkpoint_outage(self) -> Outage | None:
        """Why no checkpoint can be written now; the journal goes on."""
        return None if self._storage is None else self._storage.checkpoint_outage

    @property
    def is_alive(self) -> bool:
        """Whether the engine's thread works, or was not started yet."""
        return not self._has_ended and (self._thread is None or self._thread.is_alive())

    def _keep_checkpoint(self, *, is_last: bool) -> None:
        """Write the checkpoint, where it is time to."""
        storage = self._storage
        if storage is None or self.failure is not None or self._is_engine_ahead:
            return
        if not is_last and not self._is_time_to_save(storage):
            return
        state = ServedState(
            run=self.run, position=self.position, progress=self.progress, tuples=self.tuples, late=self.late
        )
        began = time.monotonic()
        try:
            storage.save(self.engine, state)
        except OSError as error:
            storage.note_checkpoint_outage(error, least_wait=(time.monotonic() - began) / CHECKPOINT_SHARE)

    def _is_time_to_save(self, storage: Storage) -> bool:
        if storage.checkpoint_outage is not None:
            return storage.checkpoint_outage.is_due()
        if self.position == storage.saved_position:
            return False
        if storage.journal.size > MOST_JOURNAL:
            return storage.age > storage.save_seconds
        return storage.age > max(self._checkpoint_seconds, storage.save_seconds / CHECKPOINT_SHARE)

    # --- the thread ------------------------------------------------------------------------------------------

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Work, and tell a loop what comes of it."""
        self._loop = loop
        self._thread = threading.Thread(target=self._work, name="rpq-engine")
        self._thread.start()

    def settle(self) -> None:
        """Put on disk what was done before it was started.  Raises `StorageUnavailable`."""
        try:
            self._commit()
        except _Unsaved as problem:
            raise self._unavailable() from problem

    def stop(self) -> None:
        """Do what waits, write the checkpoint and end; blocks."""
        self.is_stopping = True
        self._jobs.put(Stop())
        if self._thread is not None:
            self._thread.join()
        if self._storage is not None:
            self._storage.close()
            self._storage.release()

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
            self._try_storage(for_write=any(map(_writes, jobs)))
            self._do(jobs)
            self._batch = []
            if self.is_stopping or self._has_ended:
                self._refuse_deferred()
            self._keep_checkpoint(is_last=self._has_ended)

    def _refuse_begun(self) -> None:
        """Refuse what was not done to its end when the service failed; nothing of it is saved."""
        if self._storage is not None:
            self._storage.discard()
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

    def _next(self) -> None:
        """Take all jobs that wait, not too many; none after a while in which none came."""
        self._batch = []
        seconds = min(1.0, self._checkpoint_seconds)
        if self.outage is not None and self.failure is None:
            seconds = min(seconds, max(0.01, self.outage.seconds_left))
        try:
            self._batch.append(self._jobs.get(timeout=seconds))
        except queue.Empty:
            return
        rows = 0
        while len(self._batch) < MOST_TOGETHER and rows < self._slice:
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                break
            self._batch.append(job)
            rows += job.rows if isinstance(job, Push) else 0

    def _do(self, jobs: Sequence[Push | Call]) -> None:
        """Do jobs, save what they did, and tell; where it cannot be saved it was not done."""
        try:
            self._do_in_order(jobs)
            self._commit()
        except _Unsaved:
            self._take_back()
            # What only reads is done again, without what was taken back.
            self._do_in_order(jobs)
            self._commit()

    def _do_in_order(self, jobs: Sequence[Push | Call]) -> None:
        pushes: list[Push] = []
        for job in jobs:
            if _writes(job) and self.outage is not None:
                self._put_off(job)
                continue
            if isinstance(job, Push):
                if pushes and not can_be_joined(pushes[-1].columns.schema, job.columns.schema):
                    self._push(pushes)
                    pushes = []
                pushes.append(job)
                continue
            self._push(pushes)
            pushes = []
            self._call(job)
        self._push(pushes)

    def _put_off(self, job: Push | Call) -> None:
        """Let a job wait for the disk, or refuse it."""
        if isinstance(job, Push):
            job.take_back()
            if job.done == job.rows:  # it was saved before the disk failed
                self._acknowledge(job)
                return
            if job.waits_for_storage and not self.is_stopping:
                self._deferred.append(job)
                return
        error: Exception = self._unavailable()
        if isinstance(job, Push) and job.done:
            error = NotApplied(error, applied=job.done, position=job.position)
        self._acks.append((job.waiter, None, error))

    def _unavailable(self) -> StorageUnavailable:
        """Why nothing can be saved, for those who are refused."""
        outage = self.outage
        if outage is None:  # just over
            return StorageUnavailable("what was not saved was taken back; send it again", is_full=False, retry_after=1)
        return StorageUnavailable(
            f"{outage.reason}; nothing of this was done, send it again later",
            is_full=outage.errno in (errno.ENOSPC, errno.EDQUOT),
            retry_after=outage.retry_after,
        )

    def _call(self, job: Call) -> None:
        if self.failure is not None and not job.even_if_failed:
            self._acks.append((job.waiter, None, ServiceFailed(self.failure)))
            return
        if self._is_engine_ahead and not job.even_if_failed:
            self._acks.append((job.waiter, None, self._unavailable()))
            return
        try:
            result = job.call()
        except Exception as error:
            if not isinstance(error, (RpqError, OSError)):
                LOG.exception("a call failed")
            self._acks.append((job.waiter, None, error))
        else:
            self._acks.append((job.waiter, result, None))

    def _commit(self) -> None:
        """Put on disk what was done; then acknowledge it and let followers know.  Raises `_Unsaved`."""
        if self._storage is not None:
            try:
                self._storage.synchronise()
            except OSError as problem:
                raise _Unsaved from problem
        if not self._is_engine_ahead:
            self._told_position = self.position
        for job in self._batch:
            if isinstance(job, Push):
                job.note_saved()
        self.latency.committed()
        published, self._published = self._published, []
        acks, self._acks = self._acks, []
        dropped, self._dropped = self._dropped, []
        self._tell(published, acks, dropped)

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

    def _take_back(self) -> None:
        """Nothing of what was done since the last commit could be saved: let the engine stand where the disk does."""
        self._published, self._acks, self._dropped = [], [], []
        for job in self._batch:
            if isinstance(job, Push):
                job.take_back()
        self._is_engine_ahead = True
        self._restore()

    def _restore(self) -> None:
        """Let the engine stand where the disk does; it stays ahead where that cannot be read now."""
        assert self._storage is not None
        self._storage.discard()
        try:
            self._take(self._storage.reload())
        except OSError as problem:
            LOG.error("the engine cannot be restored from %s now: %s", self.checkpoint, problem)
        except RpqError as problem:
            self._fail(f"the engine cannot be restored: {problem}")
        else:
            self._is_engine_ahead = False

    def _try_storage(self, *, for_write: bool) -> None:
        """See whether there can be saved again, where it is time to; then do what waits for that."""
        storage = self._storage
        if storage is None or self.failure is not None:
            return
        if storage.outage is not None and storage.outage.is_due(for_write=for_write):
            if self._is_engine_ahead:
                self._restore()
            if not self._is_engine_ahead:
                storage.check_room()
            else:
                storage.outage.again()
        if storage.outage is None and self._deferred:
            jobs, self._deferred = self._deferred, []
            self._batch = [*jobs, *self._batch]
            self._do(jobs)
            self._batch = [job for job in self._batch if job not in jobs]

    def _refuse_deferred(self) -> None:
        """Nobody waits any more for what the disk did not take."""
        jobs, self._deferred = self._deferred, []
        self._tell([], [(job.waiter, None, self._unavailable()) for job in jobs], [])

    def _fail(self, reason: str, error: BaseException | None = None) -> None:
        """Take nothing more."""
        if self.failure is None:
            LOG.error("%s", reason, exc_info=error)
            self.failure = reason

    # --- tuples ----------------------------------------------------------------------------------------------

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

    def _push(self, posts: list[Push]) -> None:
        """Push what was posted, as much at once as is good; in the order in which it came."""
        while posts:
            if self.failure is not None:
                self._acks += [(post.waiter, None, ServiceFailed(self.failure)) for post in posts]
                return
            together: list[Push] = []
            rows = 0
            for post in posts:
                if together and rows + post.rows - post.done > self._slice:
                    break
                together.append(post)
                rows += post.rows - post.done
            try:
                tuples = joined([post.columns.slice(post.done) for post in together])
            except Exception:  # what one client sends is no matter of others
                LOG.exception("tuples of several posts cannot be joined")
                together, tuples = together[:1], together[0].columns.slice(together[0].done)
            assert tuples is not None
            self._push_slice(together, tuples.slice(0, self._slice))
            while posts and (posts[0].error is not None or posts[0].done == posts[0].rows):
                self._acknowledge(posts.pop(0))

    def _push_slice(self, posts: list[Push], tuples: pa.RecordBatch) -> None:
        """One push: tuples of these posts, in their order."""
        began = time.perf_counter()
        error: Exception | None = None
        is_broken = False
        count = tuples.num_rows
        try:
            changes = self.engine.push(tuples)
        except InputError as problem:
            error, changes, count = problem, problem.changes, problem.row or 0
        except ConflictBudgetError as problem:
            changes = problem.changes
        except LimitError as problem:
            error, changes, count, is_broken = problem, problem.changes, problem.row or 0, True
        except Exception as problem:
            LOG.exception("a push failed")
            self._fail(f"the engine failed: {problem!r}")
            for post in posts:
                post.error = ServiceFailed(str(self.failure))
            return
        if count:
            self._applied(posts, tuples.slice(0, count), changes, until=count)
        self._adapt(tuples.num_rows, len(changes), time.perf_counter() - began)
        if error is not None:
            bad = next(post for post in posts if post.done < post.rows)
            if isinstance(error, InputError) and error.row is not None:
                error.args = (str(error).replace(f"row {error.row}:", f"row {bad.done}:", 1),)
                error.row = bad.done
            bad.error = NotApplied(error, applied=bad.done, position=self.position)
        if is_broken:
            self._recover(error)

    def _applied(self, posts: list[Push], tuples: pa.RecordBatch, changes: Changes, *, until: int) -> None:
        self.position += 1
        self.tuples += until
        self.late += len(changes.late_rows)
        late = changes.late_rows.tolist()
        warnings = [
            f"query {report.query!r}: root {report.root} set aside: its search took {report.size:,} nodes"
            for report in changes.set_aside
        ]
        start = 0
        for post in posts:
            taken = min(post.rows - post.done, until - start)
            if taken <= 0:
                break
            post.done += taken
            post.position = self.position
            post.late += sum(start <= row < start + taken for row in late) if late else 0
            post.warnings += warnings
            if post.progress is not None:
                self.progress = post.progress(post.done)
            start += taken
        if self._storage is not None:
            has_progress = any(post.progress is not None for post in posts)
            self._storage.note_tuples(self.position, tuples, self.progress if has_progress else None)
        self._publish(changes)

    def _publish(self, changes: Changes) -> None:
        if len(changes):
            self._published.append(Published(changes, position=self.position, time=self.engine.time, run=self.run))

    def _adapt(self, count: int, rows: int, seconds: float) -> None:
        growth = min(SLICE_ROWS / max(rows, 1), SLICE_SECONDS / max(seconds, 1e-9), 4.0)
        if growth < 1 or count >= self._slice:
            self._slice = min(MOST_SLICE, max(LEAST_SLICE, int(count * growth)))

    def _acknowledge(self, post: Push) -> None:
        self.latencies.append(time.monotonic() - post.arrived)
        self.latency.note(post.done, post.arrived)
        if post.error is not None:
            self._acks.append((post.waiter, None, post.error))
            return
        applied = Applied(
            tuples=post.rows,
            late=post.late,
            time=self.engine.time,
            position=post.position,
            warnings=tuple(dict.fromkeys(post.warnings)),
        )
        self._acks.append((post.waiter, applied, None))

    def _recover(self, error: Exception | None) -> None:
        """Go on without the tuple at which the engine met a limit, if there is a state to go on from."""
        if self._storage is None:
            self._fail(f"the engine met a limit, and there is no checkpoint to go on from: {error}")
            return
        self._commit()
        try:
            self._take(self._storage.reload())
        except (RpqError, OSError) as problem:
            self._fail(f"the engine met a limit ({error}), and cannot be restored: {problem}")

    # --- queries ---------------------------------------------------------------------------------------------

    def register(self, fields: dict[str, Any], query: Query, *, start: str = "window") -> int:
        """Add a query that was asked with these fields; its number of answers.  In the engine's thread.

        Raises what the engine raises, `NameTaken` and `TooManyQueries`.
        """
        if start not in ("window", "empty"):
            raise QueryError(f"a query starts from the 'window' or 'empty', not {start!r}")
        queries = self.engine.queries
        if any(one.name == query.name for one in queries):
            raise NameTaken(f"there is a query named {query.name!r} already; give this one another name, or drop that one")
        if len(queries) >= self.limits.queries:
            raise TooManyQueries(f"{len(queries):,} queries are registered, and {self.limits.queries:,} may be; drop one")
        changes = self.engine.register(query, start=start)  # type: ignore[arg-type]  # it was looked at
        asked = {**fields, "name": query.name}
        asked.pop("start", None)
        with self._or_fail():
            self.position += 1
            self._note({"registered": self._complete(asked), "start": start})
            self._publish(changes)
            return int(self.engine.statistics(query.name).answers_live)

    @contextmanager
    def _or_fail(self) -> Iterator[None]:
        """Behind what the engine has done: it is written down, or the service fails."""
        try:
            yield
        except BaseException as error:
            self._fail(f"what the engine did cannot be written down: {error!r}; the server has to be started anew", error)
            raise

    def _note(self, done: dict[str, Any]) -> None:
        """Write down what was done to the queries."""
        if self._storage is not None:
            self._storage.note_done(self.position, done)

    def _complete(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Fields with those that the server's options say now: later they may say something else."""
        return {**self.defaults.fields, **{name: value for name, value in asked.items() if value is not None}}

    def drop(self, name: str) -> None:
        """Take a query away.  In the engine's thread.  Raises `NoSuchQuery`."""
        self.see_that_there_is(name)
        self.engine.unregister(name)
        with self._or_fail():
            self.position += 1
            self._note({"dropped": name})
            self._dropped.append(name)

    def see_that_there_is(self, name: str) -> Query:
        """The query of a name.  Raises `NoSuchQuery`."""
        import difflib

        names = [query.name for query in self.engine.queries]
        if name not in names:
            close = difflib.get_close_matches(name, names, n=1)
            raise NoSuchQuery(f"there is no query named {name!r}{f'; did you mean {close[0]!r}?' if close else ''}")
        return self.engine.queries[names.index(name)]
