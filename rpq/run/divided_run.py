"""A run in several processes, each of which evaluates chunks of the stream (`rpq.run.time_division`).

One process reads the input: it checks each tuple as an engine does, stores slices of tuples in temporary files, and cuts the
stream into chunks. The others evaluate chunks and write the rows of each to files of its own, which the reading process
appends to the outputs in the order of the stream. So rows, rejected tuples and errors are those of one process: the first
error in the order of the stream ends the run.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from rpq.engine.statistics import Statistics, add_totals
from rpq.errors import InputError, RpqError
from rpq.readers.inputs import order_rows
from rpq.run.loop import (
    END_OF_INPUT,
    NO_TUPLES,
    PushOutcome,
    Run,
    RunOutput,
    SliceSize,
    SourceSlice,
    cut_slices,
    push_part,
    push_slice,
)
from rpq.run.time_division import TimeDivision, TimeRange
from rpq.stream.arrays.numpy_arrays import numpy_array
from rpq.stream.nodes.node_rows import are_records, node_table, records_of, tuples_of
from rpq.stream.nodes.node_table import NO_TIME
from rpq.stream.stream_time import EARLIEST

if TYPE_CHECKING:
    from rpq.engine.engine import Engine, StreamFacts
    from rpq.rows.changes import Changes

_CHUNKS_PER_JOB = 4
"""The number of chunks for each process: more even the load, and take in more windows."""
_MAX_TAKEN_IN = 0.5
"""The largest number of tuples that a chunk takes in, as a share of its own."""
_CHUNK_TUPLES = 1 << 20
"""The number of tuples in a chunk of an input of unknown size."""
_SECONDS_BETWEEN_CHECKS = 0.2
_PROCESS_ENDED = (
    "a process that evaluates a part of the stream was ended by the system, as happens when memory is short; use fewer jobs"
)


class ChunkWork(Protocol):
    """The input of a process that evaluates chunks. It is pickled, and so has no state of the reading process."""

    def make_engine(self) -> Engine:
        """Return a new engine with the queries and the static edges of the run."""

    def open_output(self, folder: str) -> RunOutput:
        """Return the output of a chunk, in files of a folder."""

    def slice_of(self, tuples: pa.RecordBatch) -> SourceSlice:
        """Return tuples as a slice of the input, for messages."""


class _Tuples(NamedTuple):
    """Some rows of a file of tuples."""

    path: str
    begin: int
    end: int

    def read(self) -> pa.RecordBatch:
        with pa.memory_map(self.path) as file:
            batch: pa.RecordBatch = pa.ipc.open_file(file).get_batch(0)
        return batch.slice(self.begin, self.end - self.begin)


@dataclass(frozen=True, kw_only=True)
class _Chunk:
    """A part of the stream: its own tuples, those that it takes in before them, and the times at its two cuts."""

    folder: str
    own: list[_Tuples]
    taken_in: list[_Tuples]
    times: TimeRange


class _Evaluated(NamedTuple):
    """The figures of a chunk, of all queries under None, before and after its own tuples, and the number of rows that were
    flushed; and the error that ended it."""

    flushed_rows: int
    before: dict[str | None, Statistics]
    after: dict[str | None, Statistics]
    error: tuple[type[RpqError], tuple[Any, ...], dict[str, Any]] | None


def _ignore_interrupts() -> None:
    """Ignore signals of the terminal, at which the reading process ends the run."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _import_engine(work: ChunkWork) -> None:
    """Import what a process needs, with the first engine."""
    work.make_engine()


def _evaluate(work: ChunkWork, chunk: _Chunk, flush: bool) -> _Evaluated:
    """Evaluate a chunk in this process, and write its rows; with `flush` those of reports that wait at its end, too."""
    engine = work.make_engine()
    output = work.open_output(chunk.folder)
    output.begin(None, None)
    size = SliceSize(rows=Run.slice_rows, seconds=Run.slice_seconds)
    error, flushed_rows = None, 0
    before = _figures(engine)
    try:
        chunk.times.begin(engine, _slices(chunk.taken_in, size, engine))
        before = _figures(engine)
        for tuples in _slices(chunk.own, size, engine):
            _push(work, engine, output, tuples, size)
        output.write(NO_TUPLES, chunk.times.end(engine))
        if flush:
            changes = engine.flush()
            flushed_rows = changes.added + changes.removed
            output.write(NO_TUPLES, changes)
    except RpqError as problem:
        error = type(problem), problem.args, {**vars(problem), "changes": None}
    output.close()
    return _Evaluated(flushed_rows, before, _figures(engine), error)


def _push(work: ChunkWork, engine: Engine, output: RunOutput, tuples: pa.RecordBatch, size: SliceSize) -> None:
    began, rows = time.monotonic(), 0

    def write(pushed: PushOutcome) -> None:
        nonlocal rows
        if pushed.changes is not None:
            output.write(pushed.tuples, pushed.changes)
            rows += pushed.changes.added + pushed.changes.removed

    push = partial(push_part, engine, collect=output.has_destination)
    push_slice(work.slice_of(tuples), push, stops=True, on_pushed=write, on_rejected=lambda bad, count: None)
    size.update(tuples.num_rows, rows=rows, seconds=time.monotonic() - began)


def _slices(parts: Sequence[_Tuples], size: SliceSize, engine: Engine) -> Iterator[pa.RecordBatch]:
    for part in parts:
        yield from cut_slices(part.read(), lambda: size.tuples, has_events=engine._events is not None)


def _figures(engine: Engine) -> dict[str | None, Statistics]:
    names = [query.name for query in engine.queries]
    return {name: engine.statistics(name) for name in (None, *names)}


class DividedEngine:
    """The engine of a divided run: it checks the tuples that it is pushed, and other processes evaluate them.

    `reading` is a new engine, which knows the queries and gets no tuples. `append` appends the rows of a chunk, which are in
    files of a folder. `progress` returns the numbers of bytes read and of all bytes, None if it is unknown. `check` is
    called while it waits, and raises an exception if the run must end. Close it.
    """

    def __init__(
        self,
        reading: Engine,
        work: ChunkWork,
        *,
        jobs: int,
        append: Callable[[str], None],
        progress: Callable[[], tuple[int, int | None]],
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self.queries = reading.queries
        self._reading, self._work, self._append, self._progress = reading, work, append, progress
        self._check = check
        self.flushed_rows = 0
        self._jobs = jobs
        self._division = TimeDivision([reading._times.resolve(query) for query in self.queries])
        self._totals = _figures(reading)
        self._folder = tempfile.TemporaryDirectory(prefix="rpq-")
        # Started afresh: the threads of this process must not be forked.
        self._pool = ProcessPoolExecutor(jobs, get_context("spawn"), initializer=_ignore_interrupts)
        for _ in range(jobs):  # so that processes have started when the first chunk is complete
            self._pool.submit(_import_engine, work)
        self._running: deque[tuple[_Chunk, Future[_Evaluated]]] = deque()
        self._tuples = self._files = self._chunks = 0
        self._pending: list[tuple[StreamFacts, pa.RecordBatch, np.ndarray]] = []
        """The parts of the present slice, each with the facts before it and its times."""
        self._slices: deque[tuple[StreamFacts, _Tuples, _Tuples | None]] = deque()
        """The slices that later chunks may take in, each with the facts before it, and its records of nodes."""
        self._records: list[_Tuples] = []
        """All records of nodes before these slices, which each chunk takes in."""
        self._is_finished = False
        self._begin_chunk(None, [], None, None)

    def _begin_chunk(
        self, begins_at: int | None, taken_in: list[_Tuples], facts: StreamFacts | None, loads_at: int | None
    ) -> None:
        self._own: list[_Tuples] = []
        self._own_count = 0
        self._begin = begins_at, taken_in, facts, loads_at

    # --- tuples ----------------------------------------------------------------------------------------------

    def push(self, tuples: pa.RecordBatch, *, collect: bool = True) -> Changes:
        """Check tuples of the present slice, and keep them. Return no changes.

        Raises `InputError` at the first invalid tuple.
        """
        facts = self._reading._facts()
        nothing = self._reading._advance_to(None)
        checked = self._reading._pass(tuples)
        if count := len(checked):
            self._pending.append((facts, tuples.slice(0, count), checked.timestamp))
        if checked.error is not None:
            checked.error.changes = nothing
            raise checked.error
        return nothing

    def _push_part(self, part: pa.RecordBatch, *, collect: bool = True) -> Changes:
        """Push tuples or records of nodes."""
        return self._push_records(part) if are_records(part) else self.push(tuples_of(part), collect=collect)

    def _push_records(self, part: pa.RecordBatch) -> Changes:
        """Check records of nodes as `push` does tuples, and keep them with the times at which they count."""
        facts = self._reading._facts()
        nothing = self._reading._advance_to(None)
        error = None
        try:
            self._reading.push_nodes(node_table(part))
        except InputError as problem:
            if problem.row is None:
                raise
            part, error = part.slice(0, problem.row), problem
        if part.num_rows:
            place = part.schema.names.index("timestamp")
            own = numpy_array(part.column(place).view(pa.int64()))
            now = np.maximum.accumulate(np.maximum(own, NO_TIME if facts.time is None else facts.time))
            times = np.where(own == NO_TIME, now, own)
            kept = pa.array(times).view(part.column(place).type)
            self._pending.append((facts, part.set_column(place, "timestamp", kept), times))
        if error is not None:
            error.changes = nothing
            raise error
        return nothing

    def end_slice(self) -> None:
        """Add the present slice to the chunk. Raises the error that ended a chunk."""
        if not self._pending:
            return
        parts, self._pending = self._pending, []
        times = np.concatenate([part[2] for part in parts])
        rows = [part[1] for part in parts]
        self._add(parts[0][0], rows[0] if len(rows) == 1 else order_rows(rows, np.arange(len(times))), times)

    def _store(self, tuples: pa.RecordBatch) -> _Tuples:
        path = os.path.join(self._folder.name, f"tuples-{self._files}.arrow")
        self._files += 1
        with pa.OSFile(path, "wb") as file, pa.ipc.new_file(file, tuples.schema) as writer:
            writer.write_batch(tuples)
        return _Tuples(path, 0, tuples.num_rows)

    def _add(self, facts: StreamFacts, tuples: pa.RecordBatch, times: np.ndarray) -> None:
        whole = self._store(tuples)
        of_nodes = records_of(tuples)
        records = None if of_nodes is None else self._store(tuples.filter(pa.array(of_nodes)))
        self._slices.append((facts, whole, records))
        self._tuples += tuples.num_rows
        begin = 0
        if self._own_count + tuples.num_rows >= self._chunk_tuples():
            cuts = self._division.cuts(times, before=facts.time)
            if len(cuts):
                begin = int(cuts[0])
                before = int(times[:begin].max(initial=EARLIEST if facts.time is None else facts.time))
                begin = begin if self._cut(whole._replace(end=begin), int(times[begin]), before) else 0
        self._own.append(whole._replace(begin=begin))
        self._own_count += tuples.num_rows - begin

    def _chunk_tuples(self) -> int:
        """Return about how many tuples a chunk should have."""
        done, total = self._progress()
        if not total or not done:
            return _CHUNK_TUPLES
        return int(self._tuples * total / done / (self._jobs * _CHUNKS_PER_JOB))

    def _cut(self, last: _Tuples, time: int, before: int) -> bool:
        """End the chunk with some tuples, before one with this time. Return False if the next one took in too many."""
        bound = self._division.lower_bound(time=time, before=before)
        while len(self._slices) > 1 and (following := self._slices[1][0].time) is not None and following <= bound:
            _, _, records = self._slices.popleft()
            self._records += [] if records is None else [records]
        taken_in = [tuples for _, tuples, _ in self._slices]
        taken_in[-1] = last
        own_count = self._own_count + last.end - last.begin
        if sum(tuples.end - tuples.begin for tuples in taken_in) > _MAX_TAKEN_IN * own_count:
            return False
        self._own.append(last)
        self._submit(ends_at=time)
        loads_at = self._division.loads_at(time=time, before=before)
        self._begin_chunk(time, [*self._records, *taken_in], self._slices[0][0], loads_at)
        return True

    def _submit(self, *, ends_at: int | None, flush: bool = False) -> None:
        begins_at, taken_in, facts, loads_at = self._begin
        folder = os.path.join(self._folder.name, f"chunk-{self._chunks}")
        self._chunks += 1
        os.mkdir(folder)
        times = TimeRange(facts=facts, begins_at=begins_at, ends_at=ends_at, loads_at=loads_at)
        chunk = _Chunk(folder=folder, own=self._own, taken_in=taken_in, times=times)
        try:
            self._running.append((chunk, self._pool.submit(_evaluate, self._work, chunk, flush)))
        except BrokenProcessPool:
            self.close()
            raise RpqError(_PROCESS_ENDED) from None
        while self._running and (self._running[0][1].done() or len(self._running) > 2 * self._jobs):
            self._receive()

    def _receive(self) -> None:
        """Append the rows of the first chunk that is running, and wait for it. Raises the error that ended it."""
        chunk, future = self._running[0]
        while not wait([future], timeout=_SECONDS_BETWEEN_CHECKS).done:
            self._check()
        self._running.popleft()
        try:
            evaluated = future.result()
        except BrokenProcessPool:
            self.close()
            raise RpqError(_PROCESS_ENDED) from None
        self._append(chunk.folder)
        shutil.rmtree(chunk.folder)
        self.flushed_rows = evaluated.flushed_rows
        self._totals = {
            name: add_totals(total, evaluated.before[name], evaluated.after[name]) for name, total in self._totals.items()
        }
        if evaluated.error is not None:
            kind, args, attributes = evaluated.error
            error = kind.__new__(kind, *args)
            error.__dict__.update(attributes, row=None)  # its message names the tuple, and these rows are another slice
            self.close()
            raise error
        needed = {one.path for _, *stored in self._slices for one in stored if one is not None}
        needed |= {one.path for one in self._records}
        for running, _ in self._running:
            needed |= {tuples.path for tuples in (*running.own, *running.taken_in)}
        for path in {tuples.path for tuples in (*chunk.own, *chunk.taken_in)} - needed:
            os.remove(path)

    def finish(self, *, flush: bool) -> None:
        """Evaluate the last chunk, and append the rows of all. Raises the error that ended a chunk.

        With `flush` reports that are waiting at the end of the stream are made.
        """
        if not self._is_finished:
            self.end_slice()
            self._is_finished = True
            self._submit(ends_at=None, flush=flush)
        while self._running:
            self._receive()

    def close(self) -> None:
        """Discard the chunks whose rows were not appended, and the files."""
        self._is_finished = True
        self._pending.clear()
        self._running.clear()
        self._pool.shutdown(cancel_futures=True)
        self._folder.cleanup()

    # --- figures ---------------------------------------------------------------------------------------------

    def statistics(self, name: str | None = None) -> Statistics:
        """Return the figures of the chunks that were evaluated; present sizes are those at the end of the last of them."""
        return self._totals[name]

    def explain(self, name: str) -> Any:
        """Raise `RpqError`: the counts of plans are in several engines."""
        raise RpqError(f"query {name!r}: its plan has counts in each process")

    @property
    def _now(self) -> int | None:
        return self._reading._now


class DividedRun(Run):
    """A run whose engine is a `DividedEngine`."""

    most_tuples = 1 << 15

    def _push(self, part: SourceSlice, *, again: bool = False) -> None:
        super()._push(part, again=again)
        assert isinstance(self.engine, DividedEngine)
        self.is_consistent = False
        self.engine.end_slice()
        self.is_consistent = True

    def _work(self) -> str:
        assert isinstance(self.engine, DividedEngine)
        try:
            ended = super()._work()
            self.engine.finish(flush=self._flush and ended == END_OF_INPUT)
        except Exception as error:
            if not isinstance(error, RpqError):  # a signal, after which nobody waits for the other chunks
                self.engine.close()
            raise
        self._flush, self.rows_flushed = False, self.engine.flushed_rows
        return ended

    def _finish(self) -> None:
        if isinstance(self.engine, DividedEngine):
            self.engine.finish(flush=False)
        super()._finish()
