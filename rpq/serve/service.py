"""The engine of a server, in a thread of its own: jobs go in, acknowledgements and changes come out.

All jobs that wait are done together: tuples that several have posted are pushed as one, what was done is put on disk at
once, and only then are they acknowledged and followers told.  While that goes on the next jobs gather.
"""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rpq.errors import ConflictBudgetError, InputError, LimitError, QueryError, RpqError
from rpq.kafka.run_lock import RunLock
from rpq.queries.kinds import undivided
from rpq.running.latency_counts import LatencyCounts
from rpq.serve.asked_queries import QueryDefaults, query_asked
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
    TooManyQueries,
    Waiter,
    settle,
)
from rpq.serve.posted_tuples import can_be_joined, joined
from rpq.serve.published import Published
from rpq.serve.serve_limits import ServeLimits
from rpq.serve.served_state import ServedState, read_served_state, write_served_state
from rpq.serve.tuple_journal import JournalError, TupleJournal, read_tuple_journal

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


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """How engines are made, at the beginning and from a checkpoint."""

    make: Callable[[], Engine]
    restore: Callable[[str], Engine]


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
    ) -> None:
        self._options = options
        self.defaults = defaults
        self.limits = limits
        self.checkpoint = checkpoint
        self._checkpoint_seconds = checkpoint_seconds
        self._jobs: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._journal: TupleJournal | None = None
        self._slice = FIRST_SLICE
        self._published: list[Published] = []
        self._acks: list[tuple[Waiter, Any, Exception | None]] = []
        self._last_save = time.monotonic()
        self._save_seconds = 0.0
        self._saved_position = 0
        self.failure: str | None = None
        self._is_cut_off = self._has_unsaved = False
        self.is_stopping = False
        self.progress: Any = None
        self.run = uuid.uuid4().hex[:8]
        self.position = 0
        self.tuples = 0
        self.late = 0
        self.resumed = False
        self.replayed = 0
        self.latencies: deque[float] = deque(maxlen=4096)
        self.latency = LatencyCounts()
        self.began = time.monotonic()
        self._lock = None if checkpoint is None else RunLock(checkpoint)
        try:
            self.engine: Engine = self._load()
        except BaseException:
            self._unlock()
            raise
        self.hub = ChangeHub(run=self.run, position=self.position, kept_rows=limits.kept_rows, lag_rows=limits.lag_rows)

    # --- state and journal -----------------------------------------------------------------------------------

    @property
    def has_integers(self) -> bool:
        """Whether vertices are integers, as far as it is known."""
        return self.engine._evaluation.vertices.kind == "int64"

    @property
    def journal_path(self) -> str:
        return f"{self.checkpoint}.journal"

    def _load(self) -> Engine:
        """The engine of the checkpoint with what the journal tells, or a new one.  Raises `JournalError` and others."""
        if self.checkpoint is None:
            return self._options.make()
        if not os.path.exists(self.checkpoint):
            if os.path.exists(self.journal_path):
                raise JournalError(
                    f"{self.journal_path}: is there, but not the checkpoint {self.checkpoint} that it belongs to; move it "
                    "away to start anew"
                )
            engine = self._options.make()
            self._write_state(engine)
        else:
            engine = self._options.restore(self.checkpoint)
            state = read_served_state(engine, self.checkpoint)
            self.run, self.position, self.progress = state.run, state.position, state.progress
            self.tuples, self.late = state.tuples, state.late
            self._saved_position = state.position
            self.resumed = True
            self._replay(engine)
            self._write_state(engine)
        if self._journal is None:
            self._journal = TupleJournal(self.journal_path, run=self.run, after=self.position)
        else:
            self._journal.restart(run=self.run, after=self.position)
        return engine

    def _replay(self, engine: Engine) -> None:
        """Do again what was done behind the checkpoint."""
        for record in read_tuple_journal(self.journal_path, run=self.run, after=self.position):
            if record.tuples is not None:
                try:
                    changes = engine.push(record.tuples, collect=False)
                except ConflictBudgetError as error:
                    changes = error.changes
                self.tuples += record.tuples.num_rows
                self.late += len(changes.late_rows)
                self.replayed += record.tuples.num_rows
                if record.done.get("progress") is not None:
                    self.progress = record.done["progress"]
            elif "registered" in record.done:
                query = query_asked(record.done["registered"], self.defaults)
                engine.register(query, start=record.done["start"])
            else:
                engine.unregister(record.done["dropped"])
            self.position = record.position

    def _write_state(self, engine: Engine) -> None:
        assert self.checkpoint is not None
        began = time.monotonic()
        state = ServedState(
            run=self.run, position=self.position, progress=self.progress, tuples=self.tuples, late=self.late
        )
        write_served_state(engine, self.checkpoint, state)
        self._saved_position = self.position
        self._last_save = time.monotonic()
        self._save_seconds = self._last_save - began

    def _save(self) -> None:
        """Write the checkpoint, and forget the journal."""
        self._write_state(self.engine)
        assert self._journal is not None
        self._journal.restart(run=self.run, after=self.position)

    def _is_time_to_save(self) -> bool:
        if self._journal is None or self.position == self._saved_position or self.failure is not None:
            return False
        passed = time.monotonic() - self._last_save
        if self._journal.bytes > MOST_JOURNAL:
            return passed > self._save_seconds
        return passed > max(self._checkpoint_seconds, self._save_seconds / CHECKPOINT_SHARE)

    @property
    def checkpoint_age(self) -> float | None:
        """Seconds since the checkpoint was written; None without one."""
        return None if self.checkpoint is None else time.monotonic() - self._last_save

    @property
    def journal_bytes(self) -> int | None:
        return None if self._journal is None else self._journal.bytes

    # --- the thread ------------------------------------------------------------------------------------------

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Work, and tell a loop what comes of it."""
        self._loop = loop
        self._thread = threading.Thread(target=self._work, name="rpq-engine")
        self._thread.start()

    def settle(self) -> None:
        """Put on disk what was done before it was started."""
        self._commit()

    def stop(self) -> None:
        """Do what waits, write the checkpoint and end; blocks."""
        self.is_stopping = True
        self._jobs.put(Stop())
        if self._thread is not None:
            self._thread.join()
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.release()

    def _work(self) -> None:
        while True:
            jobs = self._next()
            is_last = any(isinstance(job, Stop) for job in jobs)
            self._do([job for job in jobs if not isinstance(job, Stop)])
            try:
                if (is_last and self._journal is not None and self.failure is None) or self._is_time_to_save():
                    self._save()
            except (OSError, RpqError) as error:
                self._fail(f"the checkpoint cannot be written: {error}")
            if is_last:
                if self._journal is not None:
                    self._journal.close()
                return

    def _next(self) -> list[Any]:
        """All jobs that wait, not too many; none after a while in which none came."""
        try:
            jobs = [self._jobs.get(timeout=min(1.0, self._checkpoint_seconds))]
        except queue.Empty:
            return []
        rows = 0
        while len(jobs) < MOST_TOGETHER and rows < self._slice:
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                break
            jobs.append(job)
            rows += job.rows if isinstance(job, Push) else 0
        return jobs

    def _do(self, jobs: Sequence[Push | Call]) -> None:
        pushes: list[Push] = []
        for job in jobs:
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
        self._commit()

    def _call(self, job: Call) -> None:
        if self.failure is not None and not job.even_if_failed:
            self._acks.append((job.waiter, None, ServiceFailed(self.failure)))
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
        """Put on disk what was done; then acknowledge it and let followers know."""
        if self._journal is not None and not self._is_cut_off:
            try:
                self._journal.synchronise()
            except OSError as problem:
                self._cut_off(problem)
        if self._has_unsaved:
            self._has_unsaved = False
            self._acks = [(waiter, None, ServiceFailed(str(self.failure))) for waiter, _, _ in self._acks]
            self._published = []
        self.latency.committed()
        published, self._published = self._published, []
        acks, self._acks = self._acks, []
        if not published and not acks:
            return
        position = self.position
        for waiter, result, error in acks:
            if isinstance(waiter, Future):
                settle(waiter, result, error)
        of_loop = [ack for ack in acks if not isinstance(ack[0], Future)]
        if (of_loop or published) and self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._deliver, published, position, of_loop)

    def _deliver(self, published: Iterable[Published], position: int, acks: Iterable[tuple[Waiter, Any, Any]]) -> None:
        """In the loop's thread."""
        self.hub.publish(published, position=position)
        for waiter, result, error in acks:
            settle(waiter, result, error)

    def _cut_off(self, problem: OSError) -> None:
        """What was done cannot be saved: it is not acknowledged, and nothing more is done."""
        self._fail(f"{self.journal_path}: cannot be written: {problem.strerror or problem}")
        self._is_cut_off = self._has_unsaved = True

    def _fail(self, reason: str) -> None:
        if self.failure is None:
            LOG.error("%s", reason)
            self.failure = reason

    # --- tuples ----------------------------------------------------------------------------------------------

    def submit(self, job: Push | Call) -> None:
        """Let a job be done; from any thread."""
        self._jobs.put(job)

    async def push(self, columns: pa.RecordBatch, *, arrived: float | None = None) -> Applied:
        """Apply tuples; raises `NotApplied` and `ServiceFailed`."""
        waiter: asyncio.Future[Applied] = asyncio.get_running_loop().create_future()
        self.submit(Push(columns, waiter, arrived=time.monotonic() if arrived is None else arrived))
        return await waiter

    async def call(self, call: Callable[[], Any], *, even_if_failed: bool = False) -> Any:
        """Do something with the engine."""
        waiter: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.submit(Call(call, waiter, even_if_failed))
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
            tuples = joined([post.columns.slice(post.done) for post in together])
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
        if self._journal is not None:
            has_progress = any(post.progress is not None for post in posts)
            try:
                self._journal.write_tuples(self.position, tuples, self.progress if has_progress else None)
            except OSError as problem:
                self._cut_off(problem)
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
        if self._journal is None:
            self._fail(f"the engine met a limit, and there is no checkpoint to go on from: {error}")
            return
        try:
            self._journal.synchronise()
            self.tuples = self.late = 0
            self.engine = self._load()
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
        if message := undivided([query], self.engine.threads):
            LOG.warning("%s", message)
        self.position += 1
        asked = {**fields, "name": query.name}
        asked.pop("start", None)
        self._note({"registered": self._complete(asked), "start": start})
        self._publish(changes)
        return int(self.engine.statistics(query.name).answers_live)

    def _note(self, done: dict[str, Any]) -> None:
        """Write down what was done to the queries."""
        if self._journal is not None:
            try:
                self._journal.write_done(self.position, done)
            except OSError as problem:
                self._cut_off(problem)

    def _complete(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Fields with those that the server's options say now: later they may say something else."""
        return {**self.defaults.fields, **{name: value for name, value in asked.items() if value is not None}}

    def drop(self, name: str) -> None:
        """Take a query away.  In the engine's thread.  Raises `NoSuchQuery`."""
        self.see_that_there_is(name)
        self.engine.unregister(name)
        self.position += 1
        self._note({"dropped": name})
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self.hub.end_query, name)

    def see_that_there_is(self, name: str) -> Query:
        """The query of a name.  Raises `NoSuchQuery`."""
        import difflib

        names = [query.name for query in self.engine.queries]
        if name not in names:
            close = difflib.get_close_matches(name, names, n=1)
            raise NoSuchQuery(f"there is no query named {name!r}{f'; did you mean {close[0]!r}?' if close else ''}")
        return self.engine.queries[names.index(name)]
