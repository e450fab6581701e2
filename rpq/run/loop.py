"""The main loop of a run: slices of a source are pushed into an engine, and the rows are written to a sink.

A slice is pushed as a whole, and its rows are written as a whole.  Then engine, source and sink are at the same position;
only at such a point does a run commit, write a checkpoint, and react to signals.  Rows become final in one of two ways.  A
sink of files is truncated to the position of the checkpoint when a run is resumed.  A sink with transactions commits rows
together with the position of the source; a resumed run pushes again, without writing rows, what was committed after the
checkpoint: `RunOutput.last_commit` says how far that is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import pyarrow as pa

from rpq.engine.statistics import LatencyCounts
from rpq.errors import ConflictBudgetError, InputError, LimitError, RpqError, WhereError
from rpq.run.checkpoint import Checkpoint, Position
from rpq.stream.arrays.event_grouping import end_of_event, first_of_events
from rpq.stream.nodes.node_rows import are_records, node_table, tuples_of, uniform_parts

if TYPE_CHECKING:
    from rpq.engine.engine import Engine
    from rpq.rows.changes import Changes, SetAside

FIRST_SLICE, LEAST_SLICE = 4096, 16
"""The number of tuples in the first slice and in the smallest."""

MAX_MESSAGES = 10
"""The number of rejected tuples, and of roots set aside, that are reported one by one; all are counted."""

END_OF_INPUT = "end of input"
"""The way in which a run ends after its source has ended."""

NO_TUPLES = pa.RecordBatch.from_pydict({})

CHECKPOINT_SHARE = 0.1
"""The largest share of a run's time that checkpoints may take."""


class OutputError(RpqError):
    """An output that cannot be opened, or whose rows cannot be made final; nothing more is committed."""


@dataclass(kw_only=True)
class SliceSize:
    """The number of `tuples` in the next slice, adapted to targets for the `rows` and the `seconds` of a slice.

    >>> size = SliceSize(rows=1 << 18, seconds=0.25)
    >>> size.update(size.tuples, rows=0, seconds=0.01)
    >>> size.tuples
    16384
    """

    rows: int
    seconds: float
    limit: int | None = None
    tuples: int = field(default_factory=lambda: FIRST_SLICE)

    def update(self, tuples: int, *, rows: int, seconds: float) -> None:
        """Record the rows and the time of a slice of tuples."""
        growth = min(self.rows / max(rows, 1), self.seconds / max(seconds, 1e-9), 4.0)
        if tuples and (growth < 1 or tuples >= self.tuples):
            size = max(min(LEAST_SLICE, tuples), int(tuples * growth))
            self.tuples = size if self.limit is None else min(self.limit, size)


class PushOutcome(NamedTuple):
    """The outcome of one push: the `tuples` that were pushed, from row `start` of a slice on, and their changes.

    `error` is what ended the push, `changes` are then those of the tuples before it, or None, and `rejected_rows` the
    rows of the slice that are left out: those of a tuple, or of its whole event.
    """

    tuples: pa.RecordBatch
    start: int
    changes: Changes | None
    error: InputError | LimitError | ConflictBudgetError | None = None
    rejected_rows: range = range(0)

    @property
    def accepted_count(self) -> int:
        """The number of tuples that the engine accepted; 0 if an error does not say how many."""
        return self.tuples.num_rows if self.error is None else max(0, self.rejected_rows.start - self.start)


def push_accepted(
    push: Callable[[pa.RecordBatch], Changes],
    tuples: pa.RecordBatch,
    *,
    has_events: bool = False,
    divides: bool = True,
) -> Iterator[PushOutcome]:
    """Push tuples without those that the engine rejects; yield the outcome of each push.

    If it `divides` them, tuples and records of nodes (`rpq.stream.nodes.node_rows`) are pushed apart, in their order;
    `push_part` pushes either.  After an outcome with an `InputError` for a tuple the next push begins behind the rejected
    rows, unless the caller ends the iteration; any other error is the last outcome.  With `has_events` an event is accepted
    or rejected as a whole.

    >>> import rpq
    >>> engine = rpq.Engine(rpq.Query("a", window=rpq.Window(size=5, slide=1)), max_ahead=100)
    >>> tuples = pa.RecordBatch.from_pydict(
    ...     {"source": ["u", "u", "u"], "target": ["v", "w", "x"], "label": ["a"] * 3, "timestamp": [1, 1000, 2]}
    ... )
    >>> [(pushed.start, len(pushed.changes), pushed.rejected_rows) for pushed in push_accepted(engine.push, tuples)]
    [(0, 1, range(1, 2)), (2, 1, range(0, 0))]
    """
    start = end = 0
    for part in uniform_parts(tuples) if divides else [tuples]:
        end += part.num_rows
        while start < end:
            rest = tuples.slice(start, end - start)
            try:
                outcome = PushOutcome(rest, start, push(rest))
            except (InputError, LimitError, ConflictBudgetError) as error:
                rejected = range(0)
                if isinstance(error, InputError) and error.row is not None:
                    rejected = range(start + error.row, start + error.row + 1)
                    if has_events and "event" in rest.schema.names:
                        first = first_of_events(rest.column("event"))
                        rejected = range(start + int(first[error.row]), start + end_of_event(first, error.row))
                outcome = PushOutcome(rest, start, getattr(error, "changes", None), error, rejected)
            yield outcome
            if outcome.error is not None and not outcome.rejected_rows:
                return
            start = outcome.rejected_rows.stop if outcome.rejected_rows else end


def push_part(engine: Engine, part: pa.RecordBatch, *, collect: bool = True) -> Changes:
    """Push a part of a batch, either of tuples or of records of nodes, and return the changes."""
    return engine._push_part(part, collect=collect)


def cut_slices(
    tuples: pa.RecordBatch, slice_limit: Callable[[], int], *, has_events: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield consecutive parts of at most `slice_limit()` tuples; with `has_events`, or of one event."""
    first = first_of_events(tuples.column("event")) if has_events and "event" in tuples.schema.names else None
    start = 0
    while start < tuples.num_rows:
        end = min(start + slice_limit(), tuples.num_rows)
        if first is not None:
            end = end_of_event(first, end - 1)
        yield tuples.slice(start, end - start)
        start = end


class Rejection(Protocol):
    """A tuple that is left out, or a record that is not a tuple: its position and the reason."""

    @property
    def place(self) -> str: ...

    @property
    def reason(self) -> str: ...


class SourceSlice(Protocol):
    """Consecutive tuples of a source, pushed as a whole: `columns` (None if there are no tuples) and `bad` input among them.

    `size` is the number of tuples that were read.  `where` describes a row of `columns` in a message, and `rejected` gives
    the row of a tuple that the engine rejects, for the `reason`.
    """

    @property
    def columns(self) -> pa.RecordBatch | None: ...

    @property
    def bad(self) -> Sequence[Rejection]: ...

    @property
    def size(self) -> int: ...

    def place_of(self, row: int) -> str: ...

    def rejection(self, row: int, reason: str) -> Rejection: ...


def push_slice(
    part: SourceSlice,
    push: Callable[[pa.RecordBatch], Changes],
    *,
    stops: bool,
    has_events: bool = False,
    divides: bool = True,
    on_pushed: Callable[[PushOutcome], None] = lambda pushed: None,
    on_rejected: Callable[[Rejection, int], None],
) -> tuple[int | None, InputError | None]:
    """Push the tuples of a slice that the engine accepts.

    `on_pushed` is called with the outcome of each push, `on_rejected` with input that is left out and its number of tuples.
    With `stops`, the first rejected input ends the slice instead: its row and its error are returned, otherwise None twice.
    Raises `LimitError` and `ConflictBudgetError`, and an `InputError` that concerns no tuple.
    """
    columns, until = part.columns, None
    stop: InputError | None = None
    for pushed in () if columns is None else push_accepted(push, columns, has_events=has_events, divides=divides):
        on_pushed(pushed)
        error = pushed.error
        if error is None:
            continue
        row = None if error.row is None else pushed.start + error.row
        if row is None or row >= pushed.start + pushed.tuples.num_rows:
            raise error
        reason = str(error).removeprefix(f"row {error.row}: ")
        if stops or not isinstance(error, InputError):
            bad = part.rejection(row, reason)
            error.args = (f"{bad.place}: {bad.reason}",)
            if not isinstance(error, InputError):
                raise error
            until, stop = pushed.rejected_rows.start, error
            break
        count = len(pushed.rejected_rows)
        event = f"; its event of {count:,} tuples is left out" if count > 1 else ""
        on_rejected(part.rejection(row, reason + event), count)
    for bad in part.bad:
        if stops:
            if stop is None:
                until = 0 if columns is None else columns.num_rows
                stop = InputError(f"{bad.place}: {bad.reason}")
            break
        on_rejected(bad, 1)
    return until, stop


class SliceSource(Protocol):
    """The input of a run as slices, and the position between two of them.

    Readers of files and of installed sources (`rpq.Source`) implement it, and so do topics of Kafka.  With
    `stops` a tuple that is rejected ends the run; otherwise it is left out.  With `has_events` tuples come in events,
    each of which is accepted or rejected as a whole.  With `has_types` the type of vertices is known before the first tuple.
    """

    stops: bool
    has_events: bool = False
    has_types: bool = True
    is_quiet: bool = False
    """True if nothing has arrived since `slices` last yielded None."""

    def begin(self, position: Any) -> None:
        """Open the source at the position of a checkpoint, or at its beginning if that is None."""

    def slices(self, slice_limit: Callable[[], int]) -> Iterator[SourceSlice | None]:
        """Yield slices of about `slice_limit()` tuples until the source ends, and sometimes None while nothing arrives."""

    def advance(self, part: Any, until: int | None) -> None:
        """Move the position behind a slice, or to its row `until`."""

    def position(self) -> Any:
        """Return the position, as `begin` takes it, for a checkpoint."""

    def milestone(self, engine: Engine | None) -> Any:
        """Return a value that changes when the position has changed enough for another checkpoint."""

    def sequence(self) -> int:
        """Return the sequence number of the position, which grows with every slice and survives a restart."""

    def replay_until(self, last: int) -> Iterator[SourceSlice]:
        """Yield the slices again that follow the position, up to the one with the sequence number `last`."""

    def synchronise(self) -> None:
        """Put on disk what `replay_until` needs to yield the slices before the position."""
        return


class RunOutput(Protocol):
    """The output of a run: sinks (`rpq.Sink`), or topics, whose transactions contain the offsets of the source.

    It has rows if it `has_destination`.  If it `is_transactional`, rows become final in `commit`, together with the position
    of the source, whose number `last_commit` returns; otherwise they are final when they are written.
    """

    is_transactional: bool = False

    @property
    def has_destination(self) -> bool:
        """True if rows are written anywhere."""
        return True

    def begin(self, position: Any, source: Any) -> None:
        """Open the sink at the position of a checkpoint, or anew if that is None."""

    def invalid_tuple(self, tuples: pa.RecordBatch) -> InputError | None:
        """Return an error for the first tuple with a value that the output cannot store, or None.

        Such a tuple is bad input: its rows would end every later run over the same input.
        """
        return None

    def write(self, tuples: pa.RecordBatch, changes: Changes) -> None:
        """Write the rows of pushed tuples."""

    def is_due(self, *, quiet: bool) -> bool:
        """Return whether it is time for `commit`; `quiet` says that nothing arrives."""
        return True

    def commit(self) -> None:
        """Make all rows final, with the position of the source."""
        return

    def last_commit(self) -> int:
        """Return the number of the source's position (`SliceSource.sequence`) in the last commit of this run."""
        return 0

    def mark_committed(self) -> None:
        """Record that the present position of the source is that of the last commit."""
        return

    def position(self) -> Any:
        """Put everything written on disk, and return the position, as `begin` takes it, for a checkpoint."""

    def forget_before_checkpoint(self) -> None:
        """Remove what only an older checkpoint needs; one with the present position is on disk."""
        return

    def close(self, *, keeps_empty: bool = True) -> list[Exception]:
        """Release what `begin` has opened.  Returns the errors of outputs that could not be completed.

        Outputs without rows are left as they were unless the run `keeps_empty` ones.
        """
        return []


class Run:
    """A configured run: `restore` resumes from its checkpoint, and `execute` runs to the end of the source.

    `make_engine` creates the engine of a new run.  `checkpoint_seconds` is the least time between two checkpoints.  After
    each slice `tick` is called, and `check`, which raises an exception if the run must end.  With `flush`, reports that are
    pending at the end of the source are written there; the checkpoint precedes them, so a resumed run withdraws them.
    `convert` changes the columns of tuples for the engine.
    """

    slice_rows, slice_seconds = 1 << 20, 0.5
    """The target size of a slice, whose rows are in memory together, and its target time, for which a signal has to wait."""

    most_tuples: int | None = None
    """The largest number of tuples in a slice."""

    interrupting_errors: tuple[type[BaseException], ...] = (OSError, OutputError, WhereError, KeyboardInterrupt)
    """The errors after which nothing more is committed or saved."""

    def __init__(
        self,
        source: SliceSource,
        sink: RunOutput,
        *,
        make_engine: Callable[[], Engine],
        names_queries: bool = True,
        limit: int | None = None,
        checkpoint: Checkpoint | None = None,
        checkpoint_seconds: float = 0.0,
        started: float | None = None,
        check: Callable[[], None] = lambda: None,
        tick: Callable[[], None] = lambda: None,
        flush: bool = False,
        convert: Callable[[pa.RecordBatch], pa.RecordBatch] = lambda tuples: tuples,
    ) -> None:
        self.source, self.sink, self.checkpoint = source, sink, checkpoint
        self.engine: Engine | None = None
        self.resumed: Position | None = None
        self.tuples = self.rejected = 0
        self.has_begun = False
        self.is_consistent = False
        """True if engine, source and sink are at the same position."""
        self.rejections: list[str] = []
        """The first messages about rejected tuples."""
        self.set_aside: list[str] = []
        """The first messages about roots that were set aside."""
        self.latency = LatencyCounts()
        self.rows_flushed = 0
        """The number of rows of reports that were still waiting at the end of the source."""
        self.seconds = 0.0
        """The time from the first slice to the last commit; 0 if the run failed."""
        self._started = time.monotonic() if started is None else started
        self._make_engine = make_engine
        self._size = SliceSize(rows=self.slice_rows, seconds=self.slice_seconds, limit=self.most_tuples)
        self._names_queries = names_queries
        self._limit = limit
        self._checkpoint_seconds = checkpoint_seconds
        self._check, self._tick = check, tick
        self._flush = flush
        self._convert = convert
        self._seconds_before = 0.0

    def restore(self) -> None:
        """Restore engine and position from the checkpoint or, if there is none, create the engine as soon as possible.

        Raises `CheckpointError` and `StateFormatError` for a checkpoint that cannot be resumed, and what `make_engine` does.
        """
        saved = None if self.checkpoint is None else self.checkpoint.read()
        if saved is not None:
            engine, position = saved
            self.engine = engine if self.source.has_types or position.tuples else None
            self.resumed, self._seconds_before = position, position.total_seconds
            self.tuples, self.rejected = position.tuples, position.rejected
        elif self.source.has_types:
            self.engine = self._make_engine()

    def execute(self) -> str:
        """Execute the run to its end, and return how it ended.

        Raises `InputError` at a tuple that is rejected, `LimitError` and `ConflictBudgetError` as the engine does, the
        errors of source and sink, and whatever `check` raises.  By then all that was pushed before is committed and in the
        checkpoint, except after the `interrupting_errors` and those within a slice.
        """
        before = self.resumed or Position()
        self.source.begin(before.source)
        self.sink.begin(before.sink, self.source)
        self.has_begun = True
        self._saved_milestone = self.source.milestone(self.engine)
        self._next_save = time.monotonic() + self._checkpoint_seconds
        self._recover()
        self.is_consistent = True
        began = time.monotonic()
        try:
            ended = self._work()
        except BaseException as error:
            if not isinstance(error, self.interrupting_errors):
                try:
                    self._finish()
                except OSError:
                    if isinstance(error, RpqError):  # it came first
                        raise error from None
                    raise
            raise
        self._finish()
        if self._flush and ended == END_OF_INPUT and self.engine is not None:
            changes = self.engine.flush()
            self.rows_flushed = changes.added + changes.removed
            self.sink.write(NO_TUPLES, changes)
            self.sink.commit()
        self.seconds = time.monotonic() - began
        return ended

    def _recover(self) -> None:
        """Write the first checkpoint, or push the tuples again that were committed after that of a resumed run.

        Only sinks with transactions need either.
        """
        if self.checkpoint is None or not self.sink.is_transactional:
            return
        if self.resumed is None:  # from now on the run has a name that survives a crash
            self._write_checkpoint()
            return
        for part in self.source.replay_until(self.sink.last_commit()):
            self._push(part, again=True)
        self.sink.mark_committed()

    def _work(self) -> str:
        if self._limit is not None and self.tuples >= self._limit:
            return "limit"
        for part in self.source.slices(self._tuples_of_slice):
            if part is not None:
                self._push(part)
            if self.sink.is_due(quiet=self.source.is_quiet):
                self._commit()
            if self._is_time_to_save():
                self._save()
            self._tick()
            self._check()
            if self._limit is not None and self.tuples >= self._limit:
                return "limit"
        return END_OF_INPUT

    def _tuples_of_slice(self) -> int:
        """Return the number of tuples that the next slice may have."""
        return self._size.tuples if self._limit is None else min(self._size.tuples, self._limit - self.tuples)

    # --- a slice ---------------------------------------------------------------------------------------------

    def _push(self, part: SourceSlice, *, again: bool = False) -> None:
        """Push a slice, write its rows, and move the position behind it; `again` says that its rows were written before."""
        self.is_consistent = False
        began = time.monotonic()
        rows = 0
        rejected_before = self.rejected

        def write(pushed: PushOutcome) -> None:
            nonlocal rows
            if self.sink.is_transactional and isinstance(pushed.error, (LimitError, ConflictBudgetError)):
                # The rows of an incomplete slice are not final; those of the slices before it are.
                if not rows and self.rejected == rejected_before and not again:
                    self._commit()
                    self.is_consistent = False  # the engine has a part of this slice
            elif pushed.changes is not None and not again:
                rows += self._write(part, pushed)
            self.tuples += pushed.accepted_count

        def push(tuples: pa.RecordBatch) -> Changes:
            if self.engine is None:
                self.engine = self._make_engine()
            tuples = self._convert(tuples)
            checked = node_table(tuples) if are_records(tuples) else tuples_of(tuples)
            invalid, end = self.sink.invalid_tuple(checked), tuples.num_rows
            if invalid is not None:
                end = invalid.row or 0
                if self.source.has_events and "event" in tuples.schema.names:
                    end = int(first_of_events(tuples.column("event"))[end])
            changes = push_part(self.engine, tuples.slice(0, end), collect=not again and self.sink.has_destination)
            if invalid is not None:
                invalid.changes = changes
                raise invalid
            return changes

        until, stop = push_slice(
            part,
            push,
            stops=self.source.stops and not again,
            has_events=self.source.has_events,
            on_pushed=write,
            on_rejected=partial(self._reject, again=again),
        )
        self.source.advance(part, until)
        if not again:
            self._size.update(part.size, rows=rows, seconds=time.monotonic() - began)
            self.latency.note(part.size, began)
        self.is_consistent = True
        if stop is not None:
            raise stop

    def _write(self, part: SourceSlice, pushed: PushOutcome) -> int:
        """Write the changes of pushed tuples, and return the number of rows."""
        changes = pushed.changes
        assert changes is not None
        self.sink.write(pushed.tuples, changes)
        for report in changes.set_aside:
            query = f"query {report.query!r}: " if self._names_queries else ""
            where = "at a boundary" if report.row is None else part.place_of(pushed.start + report.row)
            self._on_set_aside(
                f"{query}root {report.root} set aside {where}, at time {report.timestamp}: "
                f"its search took {report.size:,} nodes",
                report,
            )
        return len(changes) if self.sink.has_destination else 0

    def _reject(self, bad: Rejection, tuples: int, *, again: bool) -> None:
        self.rejected += tuples
        if not again:
            self._on_rejected(bad)

    def _on_rejected(self, bad: Rejection) -> None:
        """Report input that was rejected."""
        if len(self.rejections) < MAX_MESSAGES:
            self.rejections.append(f"{bad.place}: {bad.reason}")

    def _on_set_aside(self, message: str, report: SetAside) -> None:
        """Report a root that was set aside."""
        if len(self.set_aside) < MAX_MESSAGES:
            self.set_aside.append(message)

    # --- commits and checkpoints -----------------------------------------------------------------------------

    @property
    def total_seconds(self) -> float:
        """The seconds that the run took so far, including those before the checkpoint that it was resumed from."""
        return self._seconds_before + time.monotonic() - self._started

    def _commit(self) -> None:
        self.is_consistent = False
        self.sink.commit()
        self.is_consistent = True
        self.latency.commit()

    def _is_time_to_save(self) -> bool:
        if self.checkpoint is None or time.monotonic() < self._next_save:
            return False
        return bool(self.source.milestone(self.engine) != self._saved_milestone)

    def _save(self) -> float:
        """Commit, write the checkpoint, and return the seconds that it took."""
        began = time.monotonic()
        self._commit()
        self._write_checkpoint()
        now = time.monotonic()
        self._next_save = now + max(self._checkpoint_seconds, (now - began) * (1 / CHECKPOINT_SHARE - 1))
        return now - began

    def _write_checkpoint(self) -> None:
        assert self.checkpoint is not None
        position = Position(
            source=self.source.position(),
            sink=self.sink.position(),
            tuples=self.tuples,
            rejected=self.rejected,
            total_seconds=self.total_seconds,
        )
        self.checkpoint.write(self.engine or self._make_engine(), position)
        self.sink.forget_before_checkpoint()
        self._saved_milestone = self.source.milestone(self.engine)

    def _finish(self) -> None:
        """Commit all pushed tuples and write the checkpoint, if engine, source and sink are at the same position."""
        if not self.is_consistent:
            return
        self._commit()
        if self.checkpoint is not None:
            self._save()
