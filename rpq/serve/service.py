"""The engine of a server in a thread of its own: it takes jobs and delivers acknowledgements and changes.

All waiting jobs are executed together: the tuples of several posts are pushed as one batch, and one write puts the results
on disk; only then are the jobs acknowledged and their changes sent to followers.  Meanwhile the next jobs accumulate.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import math
import time
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rpq.compiled.cycle_counter import INTERRUPTED, new_deadline
from rpq.engine.statistics import LatencyCounts
from rpq.errors import ConflictBudgetError, InputError, LimitError, PushLimitError, QueryError, RpqError, did_you_mean
from rpq.language.readings import properties_of
from rpq.readers.node_files import are_integers, with_integers
from rpq.run.loop import CHECKPOINT_SHARE, SliceSize, push_part
from rpq.serve.changes import ChangeHub, PublishedChanges, QueryEnd
from rpq.serve.engine_thread import CallResult, EngineCall, EngineThread, Waiter
from rpq.serve.models import ServeLimits, json_value
from rpq.serve.requests import (
    NAME,
    KeyReused,
    NameTaken,
    NoSuchQuery,
    NotApplied,
    PostKey,
    Problem,
    QueryDefaults,
    ServiceBusy,
    ServiceFailed,
    StorageUnavailable,
    TooManyQueries,
    can_concatenate,
    concatenate,
    parse_query,
    problem_of,
)
from rpq.serve.storage import (
    EngineOptions,
    KeyedPost,
    LoadedEngine,
    NoStorage,
    ServedState,
    Storage,
    copy_checkpoint,
    note_post,
)
from rpq.stream.arrays.fields import EDGE
from rpq.stream.nodes.node_rows import are_records, uniform_parts

if TYPE_CHECKING:
    from rpq.engine.engine import Engine
    from rpq.language.query import Query
    from rpq.readers.column_names import ColumnNames
    from rpq.readers.rdf.rdf_format import RdfDocuments
    from rpq.readers.rdf.times import Kind
    from rpq.readers.text.edge_rules import EdgeRules
    from rpq.rows.changes import Changes
    from rpq.stream.stream_time import AheadLimit

LOG = logging.getLogger("rpq.serve")

MAX_TOGETHER = 256
"""Maximum number of jobs that are executed together."""

SLICE_ROWS, SLICE_SECONDS = 1 << 18, 0.25
"""The upper bounds for the rows that a push produces and for its time in the engine, to which its size is adapted."""

MAX_SLICE = 1 << 16
"""Maximum number of tuples of a push."""

MAX_JOURNAL = 256 << 20
"""Size of a journal, in bytes, above which a checkpoint is written before its time."""

MAX_EXCESSIVE, LEAST_HOLD = 64, 1.0
"""The number of tuples that are not tried again so soon, and the least seconds for which they are not."""

DROP_SECONDS, INTERRUPT_SECONDS, MAX_DROP_SECONDS = 1.0, 0.1, 20.0
"""Seconds for which the drop of a query waits for the engine, the interval at which it then interrupts the engine, and the
seconds after which its client gets an answer in any case."""


@dataclass(eq=False)
class Drop(EngineCall):
    """A call that drops the query `name`. It does not wait for tuples, not even for one that is being applied."""

    name: str = ""


@dataclass(frozen=True, kw_only=True)
class PostResult:
    """The result of posted tuples; `position` is that of the last push."""

    tuples: int
    late: int
    time: Any
    position: int
    warnings: tuple[str, ...] = ()


@dataclass(eq=False)
class TuplePush:
    """Tuples to be pushed; `progress` returns the progress of their input after the given number of them.

    While they cannot be saved, tuples of an input wait (`waits_for_storage`), and others are refused. Of posts with the same
    `key`, each continues after the tuples that were applied before.
    """

    columns: pa.RecordBatch
    waiter: Waiter
    progress: Callable[[int], Any] | None = None
    waits_for_storage: bool = False
    key: PostKey | None = None
    arrival_time: float = field(default_factory=time.monotonic)
    applied: int = 0
    late: int = 0
    position: int = 0
    time: Any = None
    error: Exception | None = None
    warnings: list[str] = field(default_factory=list)
    _saved_progress: tuple[int, int, int, Any] = (0, 0, 0, None)

    def note_saved(self) -> None:
        """Note that everything done so far is on disk."""
        self._saved_progress = self.applied, self.late, self.position, self.time

    def take_back(self) -> None:
        """Undo the progress that is not on disk."""
        self.applied, self.late, self.position, self.time = self._saved_progress
        self.error = None

    @property
    def rows(self) -> int:
        return int(self.columns.num_rows)


class ExcessiveTuples:
    """The tuples at which the engine reached a limit, which are refused if clients soon post them again.

    After each such tuple the engine is restored, and all clients wait for that. One that repeats its post would stop the
    server for all others. Therefore the same tuple, with whatever timestamp, is applied again only after ten times as long
    as it took to restore the engine (`CHECKPOINT_SHARE`).

    >>> from rpq import RowLimitError
    >>> excessive = ExcessiveTuples()
    >>> columns = {"source": ["w", "x"], "target": ["y", "y"], "label": ["a", "a"], "timestamp": [1, 1]}
    >>> tuples = pa.RecordBatch.from_pydict(columns)
    >>> error = RowLimitError("tuple 1 of the batch has too many rows", query="a", row=1, number=11, limit=10)
    >>> excessive.add(tuples.slice(1), error, seconds=2.0, now=100.0)
    >>> excessive.first(tuples, now=119.0)[0], excessive.first(tuples, now=121.0)
    (1, None)
    """

    def __init__(self) -> None:
        self._tuples: dict[Hashable, tuple[float, dict[str, pa.Scalar], Problem]] = {}

    def add(self, refused: pa.RecordBatch, error: LimitError, *, seconds: float, now: float) -> None:
        """Add a tuple at which the engine met an error, and took so many `seconds` to be restored."""
        problem = problem_of(error)
        problem.message = problem.message.replace(f"tuple {error.row} of the batch", "this tuple", 1)
        columns = _comparable_columns(refused)
        fields = {name: column[0] for name, column in columns.items() if column[0].is_valid}
        key = frozenset(fields.items())
        self._tuples.pop(key, None)
        self._tuples[key] = now + max(LEAST_HOLD, seconds / CHECKPOINT_SHARE), fields, problem
        if len(self._tuples) > MAX_EXCESSIVE:
            del self._tuples[next(iter(self._tuples))]

    def first(self, tuples: pa.RecordBatch, *, now: float) -> tuple[int, Problem] | None:
        """Return the row of the first tuple that is not to be applied yet, and the problem to report; None for no such row.

        O(rows) for each of the tuples that are refused now; O(1) most often, when there are none.
        """
        if not self._tuples:
            return None
        self._tuples = {key: value for key, value in self._tuples.items() if value[0] > now}
        columns = _comparable_columns(tuples) if self._tuples else {}
        found: tuple[int, Problem] | None = None
        for until, fields, problem in self._tuples.values():
            row = _first_equal(columns, fields)
            if row is None or (found is not None and found[0] < row):
                continue
            message = f"{problem.message} (as a short time ago: the same tuple is not tried again at once)"
            headers = {"Retry-After": str(max(1, math.ceil(until - now)))}
            found = row, Problem(problem.status, problem.type, message, problem.more, headers)
        return found


def _comparable_columns(tuples: pa.RecordBatch) -> dict[str, pa.Array]:
    """Return the columns but for the timestamps, with null for values that mean the same as a missing one.  O(rows)."""
    columns = {}
    for name, column in zip(tuples.schema.names, tuples.columns, strict=True):
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if name == "op" and column.type in (pa.string(), pa.large_string()):
            column = pc.if_else(pc.equal(column, "+"), pa.scalar(None, column.type), column)
        elif name == "delete" and pa.types.is_boolean(column.type):
            column = pc.if_else(column, column, pa.scalar(None, column.type))
        if name != "timestamp":
            columns[name] = column
    return columns


def _first_equal(columns: Mapping[str, pa.Array], fields: Mapping[str, pa.Scalar]) -> int | None:
    """Return the first row that has these fields and no others; None for no such row.  O(rows)."""
    if not fields.keys() <= columns.keys():
        return None
    is_equal = np.ones(1, bool)
    for name, column in columns.items():
        if name not in fields:
            is_equal = is_equal & np.asarray(column.is_null())
        elif column.type == fields[name].type:
            is_equal = is_equal & np.asarray(pc.equal(column, fields[name]).fill_null(False))
        else:
            return None
        if not is_equal.any():
            return None
    return int(is_equal.argmax())


class _CommitFailed(Exception):
    """The results since the last commit cannot be put on disk."""


def _writes(job: TuplePush | EngineCall) -> bool:
    """Return whether a job changes something that must be saved."""
    return isinstance(job, TuplePush) or job.writes


class Service(EngineThread):
    """The server without HTTP.

    - In the thread of the event loop: `push`, `call`; `hub` has the changes
    - In the engine's thread, by `call`: `register`, `drop`, `find_query`, and `engine` itself
    - From any thread: `submit`, and reading attributes such as `position` and `failure`

    Raises `JournalError`, `ServedStateError` and the errors of the engine for a checkpoint that cannot be resumed.
    """

    failure_noun, failure_hint = "the engine's thread failed", "restart the server"

    def __init__(
        self,
        options: EngineOptions,
        *,
        defaults: QueryDefaults,
        limits: ServeLimits,
        checkpoint: str | None = None,
        checkpoint_seconds: float = 30.0,
        documents: RdfDocuments | None = None,
        rules: EdgeRules | None = None,
        names: ColumnNames | None = None,
    ) -> None:
        super().__init__(on_failure=lambda error: self.hub.end(str(error)))
        self.names = names
        """The format of times and the kind of vertices in posts, if they are not the usual ones."""
        self.rules = rules
        """The rules that make edges of posted records, if these are no tuples."""
        self.documents = documents
        """The reader of posted documents of RDF, if these have times."""
        self.defaults = defaults
        self.limits = limits
        self._deadline = new_deadline()  # of all engines in turn: one can be interrupted while it loads
        self._options = options = replace(
            options,
            make=partial(options.make, _deadline=self._deadline),
            restore=partial(options.restore, _deadline=self._deadline),
        )
        self.input_columns: Sequence[str] | None = None
        """The properties that the input beside posts is read with; None if there is no such input."""
        self._checkpoint_seconds = checkpoint_seconds
        self._slice = SliceSize(rows=SLICE_ROWS, seconds=SLICE_SECONDS, limit=MAX_SLICE)
        self._has_engine = True
        self._excessive = ExcessiveTuples()
        self._deferred: list[TuplePush] = []
        self._drops: deque[Drop] = deque()  # those that wait; each is also among the jobs
        self._query_names: set[str] = set()
        self._left_out: set[str] = set()  # queries without which the engine was restored, because they are to be dropped
        self._published: list[PublishedChanges | QueryEnd] = []
        self._posts: dict[str, KeyedPost] = {}
        self.latencies: deque[float] = deque(maxlen=4096)
        self.latency = LatencyCounts()
        self.began = time.monotonic()
        self.storage: Storage | NoStorage = NoStorage(options)
        if checkpoint is not None:
            self.storage = Storage(checkpoint, options, defaults=defaults)
        try:
            loaded = self.storage.load()
        except BaseException:
            self.storage.close()
            raise
        self._set_engine(loaded)
        self.run = loaded.state.run
        self.is_resumed = loaded.is_resumed
        self.hub = ChangeHub(
            run=self.run, position=self.position, history_rows=limits.history_rows, lag_rows=limits.lag_rows
        )

    def with_vertices(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """Return posted records of nodes, with integers as vertices if the stream has integers.  Raises `InputError`.

        Before the first tuple, integers alone are integers.
        """
        is_open = self.engine._evaluation.vertices.kind is None
        return with_integers(records, NAME) if self.has_integers or (is_open and are_integers(records)) else records

    # --- state and journal -----------------------------------------------------------------------------------

    def _set_engine(self, loaded: LoadedEngine) -> None:
        """Set the engine and the counters to a loaded state."""
        state = loaded.state
        self.engine: Engine = loaded.engine
        self.engine.max_ahead = self._options.max_ahead
        self.engine.push_limit = self._options.push_limit
        self._query_names = {query.name for query in self.engine.queries} | self._left_out
        self.position, self.progress = state.position, state.progress
        self.tuples, self.late = state.tuples, state.late
        self._posts = dict(state.posts)
        self.replayed_tuples = loaded.replayed_tuples
        self.ahead_limit: AheadLimit | None = self.engine._ahead_limit()
        """How far tuples may be ahead of the stream time, as of the last commit."""
        if self.documents is not None:
            self.documents.kind = state.rdf_times or self.documents.kind
        self._set_further_columns()

    def _set_further_columns(self) -> None:
        """Set which columns tuples have besides those of every tuple: properties that queries read, and ids of edges."""
        properties = self.engine._evaluation.edge_properties.union(*map(properties_of, self.engine.queries))
        self.further_columns = (*sorted(properties), *((EDGE,) if self.engine.edges == "id" else ()))

    @property
    def _rdf_times(self) -> Kind | None:
        return None if self.documents is None else self.documents.kind

    @property
    def has_integers(self) -> bool:
        """True if vertices are integers, as far as the engine knows."""
        return self.engine._evaluation.vertices.kind == "int64"

    def _write_checkpoint_if_due(self, *, is_last: bool) -> None:
        """Write the checkpoint if it is due."""
        storage = self.storage
        if isinstance(storage, NoStorage) or self.failure is not None or not self._has_engine:
            return
        if not is_last and not self._is_time_to_save(storage):
            return
        began = time.monotonic()
        try:
            storage.save(self.engine, self._state())
        except OSError as error:
            storage.note_checkpoint_outage(error, least_wait=(time.monotonic() - began) / CHECKPOINT_SHARE)

    def _state(self) -> ServedState:
        """Return what a checkpoint contains now besides the state of the engine."""
        return ServedState(
            run=self.run,
            position=self.position,
            progress=self.progress,
            tuples=self.tuples,
            late=self.late,
            rdf_times=self._rdf_times,
            posts=self._posts,
        )

    async def back_up(self, folder: str) -> tuple[str, int, int]:
        """Write a checkpoint, and a copy of it into a folder; return the name of the copy, its bytes and its position.

        Other requests wait for the checkpoint, but not for the copy.  Raises `StorageUnavailable`.
        """

        def save() -> tuple[BinaryIO, int]:
            assert isinstance(self.storage, Storage)
            if self.position != self.storage.saved_position:
                self.storage.save(self.engine, self._state())
            return open(self.storage.path, "rb"), self.position  # it is this file still when another one has its name

        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[tuple[BinaryIO, int]] = loop.create_future()
        try:
            self.submit(EngineCall(save, waiter, after_commit=True))
            file, position = await waiter
            name, size = await loop.run_in_executor(None, partial(copy_checkpoint, file, folder, position=position))
        except OSError as error:
            raise StorageUnavailable(f"no backup was written: {error}", number=error.errno, retry_after=5) from error
        return name, size, position

    def _is_time_to_save(self, storage: Storage) -> bool:
        if storage.checkpoint_outage is not None:
            return storage.checkpoint_outage.is_due()
        if self.position == storage.saved_position:
            return False
        if storage.journal.size > MAX_JOURNAL:
            return storage.age > storage.save_seconds
        return storage.age > max(self._checkpoint_seconds, storage.save_seconds / CHECKPOINT_SHARE)

    # --- the thread ------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Save and publish the changes before the start of the thread.  Raises `StorageUnavailable`."""
        published = self._published
        try:
            self._commit()
        except _CommitFailed as problem:
            raise self._unavailable() from problem
        self.hub.publish(published, position=self.position)  # there is no event loop yet, in which it is done otherwise

    def stop(self) -> None:
        """Execute the waiting jobs, write the checkpoint and end; blocks."""
        super().stop()
        self.storage.close()

    async def push(self, columns: pa.RecordBatch, *, arrived: float, key: PostKey | None = None) -> PostResult:
        """Apply tuples, those of a post with a `key` only once.  Raises `NotApplied`, `ServiceFailed` and `KeyReused`."""
        waiter: asyncio.Future[PostResult] = asyncio.get_running_loop().create_future()
        self.submit(TuplePush(columns, waiter, key=key, arrival_time=arrived))
        return await waiter

    async def drop_at_once(self, name: str) -> None:
        """Drop a query, before tuples that wait. Interrupt a tuple that takes long, which is then applied without the query.

        Raises `NoSuchQuery`, and `ServiceBusy` if the engine cannot be restored so soon; the query is dropped later then.
        """
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        job = Drop(partial(self.drop, name), waiter, writes=True, name=name)
        self._drops.append(job)
        self.submit(job)
        began, wait = time.monotonic(), DROP_SECONDS
        while not (await asyncio.wait({waiter}, timeout=wait))[0]:
            if time.monotonic() - began > MAX_DROP_SECONDS:
                raise ServiceBusy(f"the engine is busy; query {name!r} is dropped as soon as possible")
            wait = INTERRUPT_SECONDS
            if self.storage.path is not None and name in self._query_names and name not in self._left_out:
                self.interrupt()
        waiter.result()

    def interrupt(self) -> None:
        """Interrupt what the engine evaluates now. Call this repeatedly: the next call of the engine goes on."""
        self._deadline[0] = INTERRUPTED

    def _batch_limits(self) -> tuple[int, int]:
        return MAX_TOGETHER, self._slice.tuples

    def _idle_seconds(self) -> float:
        seconds = min(1.0, self._checkpoint_seconds)
        if self.storage.outage is not None and self.failure is None:
            seconds = min(seconds, max(0.01, self.storage.outage.seconds_left))
        return seconds

    def _execute(self, jobs: Sequence[TuplePush | EngineCall]) -> None:
        self._try_storage(for_write=any(map(_writes, jobs)))
        self._do(jobs)

    def _do_between(self) -> None:
        if self.is_stopping or self._has_ended:
            self._refuse_deferred()
        self._write_checkpoint_if_due(is_last=self._has_ended)

    def _abandon(self) -> list[Any]:
        self.storage.discard()
        jobs, self._deferred, self._published = self._deferred, [], []
        return [*jobs, *super()._abandon()]

    def _refusal(self) -> RpqError:
        ended = "the server is stopping" if self.is_stopping else "the engine's thread has ended"
        return ServiceFailed(self.failure or ended)

    def _fail(self, reason: str, error: BaseException | None = None) -> None:
        if self.failure is None:
            LOG.error("%s", reason, exc_info=error)
        super()._fail(reason, error)

    def _do(self, jobs: Sequence[TuplePush | EngineCall]) -> None:
        """Execute jobs, save their results and deliver them; if they cannot be saved, undo them."""
        try:
            self._do_in_order(jobs)
            self._commit()
        except _CommitFailed:
            self._take_back()
            # Jobs that only read are executed again, on the state without the undone operations.
            drops = [job for job in self._batch if isinstance(job, Drop)]
            self._drops.extend(drops)
            self._do_in_order([*jobs, *(job for job in drops if job not in jobs)])
            self._commit()

    def _do_in_order(self, jobs: Sequence[TuplePush | EngineCall]) -> None:
        pushes: list[TuplePush] = []
        for job in jobs:
            if isinstance(job, Drop):
                if job not in self._drops:
                    continue  # it was executed before the tuples ahead of it
                self._drops.remove(job)
            if _writes(job) and self.storage.outage is not None:
                self._defer(job)
                continue
            if isinstance(job, TuplePush):
                is_repeated = job.key is not None and any(job.key.text == one.key.text for one in pushes if one.key)
                if pushes and (is_repeated or not can_concatenate(pushes[-1].columns.schema, job.columns.schema)):
                    self._push(pushes)
                    pushes = []
                if job.key is None or not self._is_known(job, job.key):
                    pushes.append(job)
                continue
            self._push(pushes)
            pushes = []
            if job.after_commit:
                self._commit()
            self._call(job)
        self._push(pushes)

    def _is_known(self, post: TuplePush, key: PostKey) -> bool:
        """Continue a post after the tuples that one with its key applied; return True if it needs nothing more."""
        known = self._posts.get(key.text)
        if known is None or self.failure is not None or not self._has_engine:
            return False
        if known.digest != key.digest:
            reason = f"the Idempotency-Key {key.text!r} is that of another post, of position {known.position:,}"
            self._results.append(CallResult(post.waiter, error=KeyReused(f"{reason}; give each post a key of its own")))
            return True
        _, post.applied, post.late, post.position, post.time = known
        if is_done := post.applied >= post.rows:
            self._acknowledge(post)
        return is_done

    def _defer(self, job: TuplePush | EngineCall) -> None:
        """Defer a job until the disk can be written, or refuse it."""
        if isinstance(job, TuplePush):
            job.take_back()
            if job.applied == job.rows:  # it was saved before the disk failed
                self._acknowledge(job)
                return
            if job.waits_for_storage and not self.is_stopping:
                self._deferred.append(job)
                return
        error: Exception = self._unavailable()
        if isinstance(job, TuplePush) and job.applied:
            error = NotApplied(error, applied=job.applied, position=job.position)
        self._results.append(CallResult(job.waiter, error=error))

    def _unavailable(self) -> StorageUnavailable:
        """Return the error for jobs that are refused because nothing can be saved."""
        outage = self.storage.outage
        if outage is None:  # just over
            return StorageUnavailable("unsaved changes were undone; send them again", retry_after=1)
        return StorageUnavailable(
            f"{outage.reason}; nothing of this request was done; send it again later",
            number=outage.errno,
            retry_after=outage.retry_after,
        )

    def _call(self, job: EngineCall) -> None:
        if self.failure is None and not self._has_engine and not job.even_if_failed:
            self._results.append(CallResult(job.waiter, error=self._unavailable()))
            return
        self._mark_progress()
        super()._call(job)
        error = self._results[-1].error
        if error is not None and self._has_engine and self.failure is None and self.engine._evaluation.midway:
            self._recover(error)

    def _execute_drops(self) -> None:
        """Execute the drops that wait, before the jobs ahead of them."""
        while self._drops and self._has_engine:
            job = self._drops.popleft()
            self._batch.append(job)
            self._call(job)

    def _commit(self) -> None:
        """Put results on disk, then acknowledge them and publish the changes.  Raises `_CommitFailed`."""
        try:
            self.storage.synchronise()
        except OSError as problem:
            raise _CommitFailed from problem
        for job in self._batch:
            if isinstance(job, TuplePush):
                job.note_saved()
        if self._has_engine:
            self.ahead_limit = self.engine._ahead_limit()
        self.latency.commit()
        published, self._published = self._published, []
        if (published or self._results) and self._has_engine:
            self.announce(partial(self.hub.publish, published, position=self.position))
        if self.failure is not None:
            self.announce(partial(self.hub.end, self.failure))
        self._deliver()

    def _take_back(self) -> None:
        """Undo everything since the last commit, which could not be saved, and restore the engine from disk."""
        self._published, self._results = [], []
        for job in self._batch:
            if isinstance(job, TuplePush):
                job.take_back()
        self._restore()

    def _restore(self) -> None:
        """Restore the engine from disk; there is none if that cannot be read now."""
        self.storage.discard()
        try:
            self._reload()
        except OSError as problem:
            LOG.error("the engine cannot be restored from %s now: %s", self.storage.path, problem)
        except RpqError as problem:
            self._fail(f"the engine cannot be restored: {problem}")

    def _reload(self) -> None:
        """Replace the engine by the one on disk.  Raises the errors of `Storage.reload`; then there is an empty engine.

        There is one, too, if the server ends meanwhile. Queries that are to be dropped are not restored.
        """
        from rpq.engine.engine import Engine

        self.engine, self._has_engine = Engine(), False  # memory that is full has no room for two
        gc.unfreeze()  # the first engine was frozen (`serve_with`), and would never be collected
        gc.collect()
        while not self._has_engine:
            drops = [*self._drops] if self.storage.outage is None else []  # otherwise drops are refused
            self._left_out = {job.name for job in drops} & self._query_names
            try:
                self._set_engine(self.storage.reload(without=self._left_out))
                self._has_engine = True
            except PushLimitError:  # interrupted by the end of the server, or by the drop of a query
                if self.is_stopping:
                    return

    def _try_storage(self, *, for_write: bool) -> None:
        """Try to end an outage if a retry is due; then execute the deferred jobs."""
        storage = self.storage
        if self.failure is not None:
            return
        if storage.outage is not None and storage.outage.is_due(for_write=for_write):
            if not self._has_engine:
                self._restore()
            if self._has_engine:
                storage.check_room()
            else:
                storage.outage.note_failure()
        if storage.outage is None and self._deferred:
            jobs, self._deferred = self._deferred, []
            self._batch = [*jobs, *self._batch]
            self._do(jobs)
            self._batch = [job for job in self._batch if job not in jobs]

    def _refuse_deferred(self) -> None:
        """Refuse the jobs that wait for the disk."""
        jobs, self._deferred = self._deferred, []
        self._results += [CallResult(job.waiter, error=self._unavailable()) for job in jobs]
        self._deliver()

    # --- tuples ----------------------------------------------------------------------------------------------

    def _push(self, posts: list[TuplePush]) -> None:
        """Push posted tuples in the order of their arrival, in slices of an adapted size."""
        while posts:
            self._execute_drops()
            if self.failure is not None:
                self._results += [CallResult(post.waiter, error=self._refusal()) for post in posts]
                return
            if not self._has_engine:  # the end of the server has interrupted it
                for post in posts:
                    post.error = NotApplied(self._refusal(), applied=post.applied, position=self.position)
                    self._acknowledge(post)
                return
            together: list[TuplePush] = []
            rows = 0
            for post in posts:
                if together and rows + post.rows - post.applied > self._slice.tuples:
                    break
                together.append(post)
                rows += post.rows - post.applied
            try:
                tuples = concatenate([post.columns.slice(post.applied) for post in together])
            except Exception:  # tuples of one client must not affect those of others
                LOG.exception("tuples of several posts cannot be joined")
                together, tuples = together[:1], together[0].columns.slice(together[0].applied)
            assert tuples is not None
            self._push_slice(together, tuples.slice(0, self._slice.tuples))
            while posts and (posts[0].error is not None or posts[0].applied == posts[0].rows):
                self._acknowledge(posts.pop(0))

    def _push_slice(self, posts: list[TuplePush], tuples: pa.RecordBatch) -> None:
        """Push one slice, the tuples of these posts in their order."""
        began = time.perf_counter()
        self._mark_progress()
        error: Exception | None = None
        broken_by: LimitError | None = None
        refused = self._first_excessive(posts, tuples)
        if refused is not None:
            tuples, error = tuples.slice(0, refused[0]), refused[1]
            if not tuples.num_rows:
                self._refuse_next(posts, error)
                return
        tuples = uniform_parts(tuples)[0]
        count = tuples.num_rows
        try:
            changes = push_part(self.engine, tuples)
        except InputError as problem:
            error, changes, count = problem, problem.changes, problem.row or 0
        except ConflictBudgetError as problem:
            changes = problem.changes
        except LimitError as problem:
            broken_by, changes, count = problem, problem.changes, problem.row or 0
            is_tried_again = (
                isinstance(problem, PushLimitError)
                and self.storage.path is not None
                and (problem.limit is None or tuples.num_rows > 1)
            )
            error = None if is_tried_again else problem
        except Exception as problem:
            LOG.exception("a push failed")
            self._fail(f"the engine failed: {problem!r}")
            for post in posts:
                post.error = ServiceFailed(str(self.failure))
            return
        if count:
            self._note_applied(posts, tuples.slice(0, count), changes, until=count)
        self._slice.update(tuples.num_rows, rows=len(changes), seconds=time.perf_counter() - began)
        if error is not None:
            self._refuse_next(posts, error)
        if broken_by is not None:
            if error is None:
                self._slice.tuples = 1  # only a tuple that takes too long by itself is refused
            self._recover(broken_by, tuples.slice(count, 1) if error is not None else None)

    def _first_excessive(self, posts: Sequence[TuplePush], tuples: pa.RecordBatch) -> tuple[int, Problem] | None:
        """Return the row of the first tuple of a client that is not to be tried again now, and the problem to report.

        An input is read once: what it has is not a repetition.
        """
        now, start = time.monotonic(), 0
        for is_input, group in groupby(posts, key=lambda post: post.waits_for_storage):
            count = sum(post.rows - post.applied for post in group)
            found = None if is_input else self._excessive.first(tuples.slice(start, count), now=now)
            if found is not None:
                return start + found[0], found[1]
            start += count
        return None

    def _refuse_next(self, posts: Sequence[TuplePush], error: Exception) -> None:
        """Report an error about the first tuple that was not applied to its client."""
        bad = next(post for post in posts if post.applied < post.rows)
        if isinstance(error, (InputError, LimitError)) and error.row is not None:
            place = "row {}:" if isinstance(error, InputError) else "tuple {} of the batch"
            error.args = (str(error).replace(place.format(error.row), place.format(bad.applied), 1),)
            error.row = bad.applied
        bad.error = NotApplied(error, applied=bad.applied, position=self.position)

    def _note_applied(self, posts: list[TuplePush], tuples: pa.RecordBatch, changes: Changes, *, until: int) -> None:
        self.position += 1
        self.tuples += 0 if are_records(tuples) else until
        self.late += len(changes.late_rows)
        late = changes.late_rows.tolist()  # in order
        warnings = [
            f"query {report.query!r}: root {report.root} set aside: its search took {report.size:,} nodes"
            for report in changes.set_aside
        ]
        keyed: dict[str, KeyedPost] = {}
        start = 0
        for post in posts:
            taken = min(post.rows - post.applied, until - start)
            if taken <= 0:
                break
            post.applied += taken
            post.position, post.time = self.position, self.engine.time
            post.late += bisect_left(late, start + taken) - bisect_left(late, start)
            post.warnings += warnings
            if post.progress is not None:
                self.progress = post.progress(post.applied)
            if post.key is not None:
                known = KeyedPost(post.key.digest, post.applied, post.late, post.position, json_value(post.time))
                keyed[post.key.text] = known
                note_post(self._posts, post.key.text, known)
            start += taken
        has_progress = any(post.progress is not None for post in posts)
        progress = self.progress if has_progress else None
        self.storage.note_tuples(self.position, tuples, progress, self._rdf_times, keyed)
        self._publish(changes)

    def _publish(self, changes: Changes) -> None:
        if len(changes):
            self._published.append(PublishedChanges(changes, position=self.position, time=self.engine.time, run=self.run))

    def _acknowledge(self, post: TuplePush) -> None:
        self.latencies.append(time.monotonic() - post.arrival_time)
        self.latency.note(post.applied, post.arrival_time)
        if post.error is not None:
            self._results.append(CallResult(post.waiter, error=post.error))
            return
        applied = PostResult(
            tuples=post.rows,
            late=post.late,
            time=post.time,
            position=post.position,
            warnings=tuple(dict.fromkeys(post.warnings)),
        )
        self._results.append(CallResult(post.waiter, applied))

    def _recover(self, error: Exception, refused: pa.RecordBatch | None = None) -> None:
        """Resume from the saved state after an error that broke the engine; fail without a checkpoint.

        `refused` is the tuple that caused the error, if it is not to be applied again.
        """
        if self.is_stopping and isinstance(error, PushLimitError) and error.limit is None:
            self._commit()
            self._has_engine = False  # the state on disk is complete
            return
        self._mark_progress()
        if self.storage.path is None:
            self._fail(f"the engine reached a limit, and there is no checkpoint from which it could continue: {error}")
            return
        error.__traceback__ = None  # its frames have the engine
        self._commit()
        began = time.monotonic()
        try:
            self._reload()
        except (RpqError, OSError) as problem:
            self._fail(f"the engine reached a limit ({error}), and cannot be restored: {problem}")
            return
        now = time.monotonic()
        if refused is not None and refused.num_rows and isinstance(error, LimitError):
            seconds = now - began + (error.limit or 0.0 if isinstance(error, PushLimitError) else 0.0)
            self._excessive.add(refused, error, seconds=seconds, now=now)
        self._execute_drops()

    # --- queries ---------------------------------------------------------------------------------------------

    def register(self, fields: dict[str, Any], query: Query, *, start: str = "window") -> int:
        """Register a query that a request described by these fields; return its number of answers.

        Must be called in the engine's thread.  Raises the errors of the engine, `NameTaken` and `TooManyQueries`.
        """
        if start not in ("window", "empty"):
            raise QueryError(f"a query starts from the 'window' or 'empty', not {start!r}")
        queries = self.engine.queries
        if any(one.name == query.name for one in queries):
            raise NameTaken(f"there is a query named {query.name!r} already; give this one another name, or drop that one")
        if len(queries) >= self.limits.queries:
            raise TooManyQueries(f"{len(queries):,} queries are registered; the limit is {self.limits.queries:,}: drop one")
        properties = properties_of(query)
        if self.input_columns is not None and (missing := properties.difference(self.input_columns)):
            raise QueryError(
                f"query {query.name!r} reads {', '.join(sorted(missing))}, and the server does not read this from its "
                "input; pass a query that reads it as an argument of rpq serve when the server starts"
            )
        try:
            changes = self.engine.register(query, start=start)  # type: ignore[arg-type]  # it was looked at
        except ConflictBudgetError as problem:  # it is registered, without the answers of roots that were set aside
            changes = problem.changes
            LOG.warning("%s", problem)
        if properties:
            self._set_further_columns()
        registered = {**fields, "name": query.name}
        registered.pop("start", None)
        self._query_names.add(query.name)
        with self._or_fail():
            self.position += 1
            self.storage.note_query_change(self.position, {"registered": self._complete(registered), "start": start})
            self._publish(changes)
            return int(self.engine.statistics(query.name).answers_live)

    def replace_queries(
        self, before: Sequence[Query], after: Sequence[tuple[dict[str, Any], Query]]
    ) -> tuple[list[str], list[str]]:
        """Replace queries by others, each with its fields; return the names of the queries that were dropped and registered.

        Queries of `before` that `after` lacks, or has otherwise, are dropped, except those of clients. Queries of `after`
        that do not run are registered; if one is refused, all others are dropped again. Must be called in the engine's
        thread. Raises the errors of `register`.
        """
        running = {query.name: query for query in self.engine.queries}
        wanted = {query.name: query for _, query in after}
        dropped = [one.name for one in before if running.get(one.name) == one and wanted.get(one.name) != one]
        added = [(fields, query) for fields, query in after if running.get(query.name) != query]
        changed = [(fields, query) for fields, query in added if query.name in dropped]
        # A changed query runs under another name until it has its own: the edges that it starts with stay.
        names = [f"{query.name} (to be renamed)" for _, query in changed]
        published, registered = len(self._published), list[str]()
        try:
            for name, (fields, _) in zip(names, changed, strict=True):
                renamed = {**fields, "name": name}
                self.register(renamed, parse_query(renamed, self.defaults))
                registered.append(name)
            del self._published[published:]
            for fields, query in added:
                if query.name not in dropped:
                    self.register(fields, query)
                    registered.append(query.name)
        except RpqError:
            for name in registered:
                self.drop(name)
            del self._published[published:]
            raise
        for name in dropped:
            self.drop(name)
        try:
            for fields, query in changed:
                self.register(fields, query)
        finally:
            for name in names:
                self.drop(name)
        return dropped, [query.name for _, query in added]

    @contextmanager
    def _or_fail(self) -> Iterator[None]:
        """Make the service fail if recording a completed change raises an exception."""
        try:
            yield
        except BaseException as error:
            self._fail(f"the changes of the engine cannot be saved: {error!r}; {self.failure_hint}", error)
            raise

    def _complete(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Return the fields completed with the current defaults of the server, which may differ after a restart."""
        return {**self.defaults.fields, **{name: value for name, value in fields.items() if value is not None}}

    def drop(self, name: str) -> None:
        """Drop a query.  Must be called in the engine's thread.  Raises `NoSuchQuery`."""
        query = None if name in self._left_out else self.find_query(name)
        if query is not None:
            self.engine.unregister(name)
        self._left_out.discard(name)
        self._query_names.discard(name)
        self._excessive = ExcessiveTuples()  # without the query, there may be room for them
        if query is None or properties_of(query):
            self._set_further_columns()
        with self._or_fail():
            self.position += 1
            self.storage.note_query_change(self.position, {"dropped": name})
            self._published.append(QueryEnd(name, self.position))

    def require_engine(self) -> None:
        """Raise the reason if the engine cannot be restored now, so that nothing is known of its queries."""
        if not self._has_engine:
            raise self._unavailable() if self.failure is None else self._refusal()

    def find_query(self, name: str) -> Query:
        """Return the query with a name.  Raises `NoSuchQuery`, or why nothing is known of queries."""
        self.require_engine()
        names = [query.name for query in self.engine.queries]
        if name not in names:
            raise NoSuchQuery(f"there is no query named {name!r}{did_you_mean(name, names)}")
        return self.engine.queries[names.index(name)]
