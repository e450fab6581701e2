"""A run over files, from its options to its exit status.

`execute` sets up a `Session`, which reads the input in slices.  A slice is pushed as a whole, and its rows and late tuples
are written as a whole.  Then engine, outputs and counts are consistent; only at such a point does the session write a
checkpoint, react to Ctrl-C, and update the progress line.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from types import TracebackType
from typing import TYPE_CHECKING, Any

import click
import numpy as np
import pyarrow as pa

import rpq
from rpq import __version__
from rpq.cli.checkpoint import AnotherRunError, Checkpoint, Position, identity_of, read_checkpoint, write_checkpoint
from rpq.cli.inputs import Interrupted, Interrupts, LabelMonitor, are_regular, load_static, open_input
from rpq.cli.reporting import (
    InputProgress,
    ProgressLine,
    compile_kernels,
    figures_of_engine,
    figures_of_queries,
    pattern_explanations,
    query_warnings,
    report_run,
)
from rpq.cli.request import RunRequest, RunSettings, has_default_window, max_ahead_of, read_request
from rpq.cli.run_outputs import Outputs, open_outputs, output_names
from rpq.cli.validation import check_request
from rpq.errors import ConflictBudgetError, InputError, LimitError, QueryError, RpqError
from rpq.kafka.topic_names import is_topic
from rpq.readers.deletions import Deletions
from rpq.readers.where import WhereError
from rpq.running.limits import peak_memory_bytes
from rpq.stream.event_grouping import end_of_event, first_of_events
from rpq.stream.window import WindowTextError, size_and_slide, window_of

if TYPE_CHECKING:
    from rpq.engine import Engine
    from rpq.readers import Batch, Reader
    from rpq.results.changes import Changes

SLICE_ROWS = 1 << 20
"""The target for the rows produced by a slice of input: all of them are in memory at once."""

SLICE_SECONDS = 0.5
"""The target for the engine time of a slice of input: Ctrl-C and progress wait for so long."""

FIRST_SLICE, LEAST_SLICE = 4096, 64
"""The number of tuples in the first slice and in the smallest; the size is adapted after each slice."""

MAX_MESSAGES = 10
"""The number of rejected tuples, and of roots set aside, that are reported one by one; all are counted."""

CHECKPOINT_SHARE = 0.1
"""The largest share of a run's time that checkpoints may take."""


class Session:
    """A run whose engine, reader and outputs are set up; `run` executes it.

    `position` is the position in the checkpoint that the run resumes from, or None.
    """

    def __init__(
        self,
        settings: RunSettings,
        *,
        engine: Engine,
        reader: Reader,
        batches: Iterator[Batch],
        open_outputs: Callable[[Position | None], Outputs],
        deletions: Deletions | None,
        identity: dict[str, Any],
        position: Position | None,
        started: float,
    ) -> None:
        self._settings = settings
        self.engine = engine
        self._reader = reader
        self._batches = batches
        self._open_outputs = open_outputs
        self._outputs = Outputs()
        self._deletions = deletions
        self._identity = identity
        self._read_checkpoint = position
        self._started = started
        self._before_seconds = position.total_seconds if position else 0.0
        self._tuples = 0
        self._bytes_read = 0
        self._last_tuple: list[Any] | None = None
        self._rejected = position.rejected if position else 0
        self._first_rejections: list[str] = []
        self.set_aside: list[str] = []
        """Messages about the first roots that were set aside."""
        self._slice = FIRST_SLICE
        self._is_consistent = True  # whether engine, outputs and counts are at the same tuple
        self._saved_slide: int | None = None
        lengths = [query.window.slide for query in engine.queries if query.window.kind == "time"]
        self._slide_length = min(lengths, default=None)
        self._next_save = 0.0
        self.ended = "end of input"
        self.exit_code = 0
        self.is_output_gone = False
        self.error: str | None = None

    def run(self, interrupts: Interrupts, progress: ProgressLine) -> None:
        """Process the input until it ends, or until an error, Ctrl-C or a closed pipe; then complete every output."""
        with ExitStack() as closing:
            closing.push(self._close_outputs)
            closing.callback(progress.close)
            try:
                self._skip_consumed()
                self._outputs = self._open_outputs(self._read_checkpoint)
                for batch in self._batches:
                    self._bytes_read = batch.bytes_read
                    for columns in self._slices(batch.columns):
                        self._push(columns)
                        progress.update(self.engine, self._reading)
                        interrupts.check()
            except Interrupted:
                received = interrupts.received
                self.ended = f"interrupted ({received.name if received else 'signal'})"
                self.exit_code = 128 + (received or 2)
            except BrokenPipeError:
                self._is_consistent = False
                self.is_output_gone = True
            except (InputError, LimitError, ConflictBudgetError, OSError) as error:
                self._is_consistent = self._is_consistent and not isinstance(error, OSError)
                self._fail(error)
            if self._settings.checkpoint and self._is_consistent:
                try:
                    self._save()
                except OSError as error:
                    self._fail(error)

    def figures(self, *, compile_seconds: float) -> dict[str, Any]:
        """Return the figures for summary and `--stats`; window and slide are those of the first query."""
        figures = figures_of_engine(self.engine)
        engine_seconds = figures["engine_seconds"]
        settings, query = self._settings, self.engine.queries[0]
        window, slide = size_and_slide(query.window) if has_default_window(query) else (None, None)
        return {
            "expression": settings.expression,
            "inputs": list(settings.inputs),
            "format": settings.format,
            "window": window,
            "slide": slide,
            "time_unit": settings.time_unit or self._reader.time_unit,
            "paths": settings.paths,
            "semantics": query.semantics,
            "columns": list(query.columns),
            "threads": settings.threads,
            "deletes": settings.deletes,
            "seed": settings.seed,
            "resumed": self._read_checkpoint is not None,
            "ended": self._ending(),
            "exit_code": self.exit_code,
            **figures,
            "rejected": self._reader.rejected + self._rejected,
            "filtered": self._reader.filtered,
            "undecided": self._reader.undecided,
            "total_seconds": self._total_seconds(),
            "compile_seconds": compile_seconds,
            "tuples_per_second": figures["tuples"] / engine_seconds if engine_seconds else 0.0,
            "peak_memory_bytes": peak_memory_bytes(),
            **({"patterns": explained} if (explained := pattern_explanations(self.engine)) else {}),
            "version": __version__,
        }

    def _ending(self) -> str:
        if self.error is not None:
            return f"{self.ended}: {self.error}"
        return "nobody reads the output any more" if self.is_output_gone else self.ended

    def _total_seconds(self) -> float:
        return self._before_seconds + time.perf_counter() - self._started

    def _reading(self) -> InputProgress:
        return InputProgress(tuples=self._tuples, bytes_read=self._bytes_read, bytes_total=self._reader.bytes_total)

    def _slices(self, columns: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield slices of a batch; no event is divided."""
        first = first_of_events(columns.column("event")) if self._has_events(columns) else None
        start = 0
        while start < columns.num_rows:
            end = min(start + self._slice, columns.num_rows)
            if first is not None:
                end = end_of_event(first, end - 1)
            yield columns.slice(start, end - start)
            start = end

    def _has_events(self, columns: pa.RecordBatch) -> bool:
        return self._settings.events is not None and "event" in columns.schema.names

    def _push(self, columns: pa.RecordBatch) -> None:
        """Push a slice and write its rows."""
        self._is_consistent = False
        tuples = self._deletions.extend(columns) if self._deletions else columns
        rows, seconds = self._push_all(tuples)
        growth = min(SLICE_ROWS / max(rows, 1), SLICE_SECONDS / max(seconds, 1e-9), 4.0)
        if growth < 1 or columns.num_rows >= self._slice:
            self._slice = max(LEAST_SLICE, int(columns.num_rows * growth))
        self._tuples += columns.num_rows
        self._last_tuple = _row(columns, columns.num_rows - 1)
        self._is_consistent = True
        if self._settings.checkpoint and self._is_time_to_save():
            self._save()

    def _push_all(self, tuples: pa.RecordBatch) -> tuple[int, float]:
        """Push all tuples that the engine accepts; return the number of rows produced, and the seconds taken."""
        count, began = 0, time.perf_counter()
        seconds = 0.0
        while True:
            try:
                changes = self.engine.push(tuples, collect=self._outputs.rows is not None)
            except (InputError, LimitError, ConflictBudgetError) as error:
                before: Changes | None = getattr(error, "changes", None)
                if before is not None:
                    self._write(tuples, before)
                    count += self._row_count(before)
                message = self._with_tuple(tuples, error)
                if not isinstance(error, InputError) or self._settings.on_error == "stop" or error.row is None:
                    error.args = (message,)
                    raise
                row, bad = error.row, 1
                if self._has_events(tuples):  # an event is accepted or rejected as a whole
                    first = first_of_events(tuples.column("event"))
                    row = end_of_event(first, error.row) - 1
                    bad = row + 1 - int(first[row])
                    message += f"; its event of {bad:,} tuples is left out" if bad > 1 else ""
                self._reject(message, bad)
                tuples = tuples.slice(row + 1)
                if not tuples.num_rows:
                    return count, seconds
                continue
            seconds += time.perf_counter() - began
            self._write(tuples, changes)
            return count + self._row_count(changes), seconds

    def _write(self, tuples: pa.RecordBatch, changes: Changes) -> None:
        if self._outputs.late is not None:
            self._outputs.late.write(tuples, np.asarray(changes.late_rows))
        if self._outputs.rows is not None and len(changes):
            for rows in changes.tables(witness=self._settings.witness, terms=self._outputs.wants_terms):
                self._outputs.rows.write(rows)
        for report in changes.set_aside[: MAX_MESSAGES - len(self.set_aside)]:
            query = f"query {report.query!r}: " if self._settings.queries_file else ""
            where = "at a boundary" if report.row is None else f"at the tuple {' '.join(map(str, _row(tuples, report.row)))}"
            self.set_aside.append(
                f"{query}root {report.root} set aside {where}, at time {report.timestamp}: "
                f"its search took {report.size:,} nodes"
            )

    def _row_count(self, changes: Changes) -> int:
        return len(changes) if self._outputs.rows is not None else 0

    def _reject(self, message: str, tuples: int) -> None:
        self._rejected += tuples
        if len(self._first_rejections) < MAX_MESSAGES:
            self._first_rejections.append(message)

    @property
    def rejections(self) -> list[str]:
        """The first messages about rejected lines and tuples."""
        return [*self._reader.rejections, *self._first_rejections]

    def _with_tuple(self, tuples: pa.RecordBatch, error: InputError | LimitError | ConflictBudgetError) -> str:
        """Return the error message with the tuple in place of its row number in the slice."""
        text = str(error)
        if error.row is None or error.row >= tuples.num_rows:
            return text
        values = " ".join(map(str, _row(tuples, error.row)))
        return f"at the tuple {values}: {text.removeprefix(f'row {error.row}: ')}"

    def _skip_consumed(self) -> None:
        """Skip the tuples that the checkpoint has consumed, and check that the last one is still the same."""
        if self._read_checkpoint is None:
            return
        left = self._read_checkpoint.tuples
        last: list[Any] | None = None
        self._is_consistent = False
        while left:
            batch = next(self._batches, None)
            if batch is None:
                raise AnotherRunError(
                    f"{self._settings.checkpoint}: has consumed {self._read_checkpoint.tuples:,} tuples, but the input has "
                    f"only {self._read_checkpoint.tuples - left:,}; it is another input, or --limit is smaller"
                )
            columns = batch.columns.slice(0, left)
            left -= columns.num_rows
            last = _row(columns, columns.num_rows - 1)
            if self._deletions:
                self._deletions.extend(columns)
            if columns.num_rows < batch.columns.num_rows:
                self._batches = _with_first(batch, columns.num_rows, self._batches)
        if last != self._read_checkpoint.last:
            raise AnotherRunError(
                f"{self._settings.checkpoint}: the last tuple that it has consumed was {self._read_checkpoint.last}, "
                f"but tuple {self._read_checkpoint.tuples:,} of the input is {last}; it is another input"
            )
        self._tuples, self._last_tuple = self._read_checkpoint.tuples, last
        self._saved_slide = self._slide()
        self._is_consistent = True

    def _slide(self) -> int | None:
        """Return the number of the current slide; the number of tuples where no window slides with time."""
        now = self.engine.time
        return None if now is None else self._tuples if self._slide_length is None else now // self._slide_length

    def _is_time_to_save(self) -> bool:
        return self._slide() != self._saved_slide and time.perf_counter() >= self._next_save

    def _save(self) -> None:
        began = time.perf_counter()
        position = Position(
            tuples=self._tuples,
            last=self._last_tuple,
            output=self._outputs.rows.commit() if self._outputs.rows else None,
            late_bytes=self._outputs.late.sink.commit() if self._outputs.late else None,
            rejected=self._rejected,
            total_seconds=self._total_seconds(),
        )
        assert self._settings.checkpoint is not None
        write_checkpoint(self._settings.checkpoint, self.engine, self._identity, position)
        now = time.perf_counter()
        self._saved_slide = self._slide()
        self._next_save = now + (now - began) * (1 / CHECKPOINT_SHARE - 1)

    def _close_outputs(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Complete every output with the rows so far; discard one that a failure left without rows."""
        has_failed = error is not None or self.error is not None
        came_to_nothing = not self._tuples and self.exit_code != 0
        for output in self._outputs.sinks:
            try:
                if not output.rows and (has_failed or came_to_nothing):
                    output.discard()
                else:
                    output.close()
            except BrokenPipeError:
                self.is_output_gone = True
            except OSError as problem:
                self._fail(problem)

    def _fail(self, error: Exception) -> None:
        """Record the error that ended the run; only the first one is kept."""
        self.ended, self.error = "error", self.error or str(error)
        self.exit_code = 1


def _row(columns: pa.RecordBatch, row: int) -> list[Any]:
    """Return a tuple as JSON values: source, target, label, timestamp, op."""
    values = [columns.column(name)[row].as_py() for name in ("source", "target", "label", "timestamp")]
    delete = "delete" in columns.schema.names and columns.column("delete")[row].as_py()
    return [*values, "-" if delete else "+"]


def _with_first(batch: Batch, start: int, rest: Iterator[Batch]) -> Iterator[Batch]:
    """Yield the rest of a batch, then the other batches."""
    yield replace(batch, columns=batch.columns.slice(start))
    yield from rest


def execute(settings: RunSettings) -> int:
    """Execute a run, write the summary, and return the exit status; usage errors are click's exceptions."""
    request = read_request(settings)
    check_request(request)
    _import_kernels()
    if any(map(is_topic, settings.inputs)):
        from rpq.cli.topic_execution import execute_topics

        return execute_topics(request)
    started = time.perf_counter()

    run_input = open_input(settings)
    queries = request.queries(unit=run_input.time_unit, integers=False)
    max_ahead = max_ahead_of(settings, run_input.time_unit)
    identity = identity_of(request, queries)
    interrupts = Interrupts()
    source = run_input.start(queries, interrupts)
    if source.integers:
        queries = request.queries(unit=run_input.time_unit, integers=True)

    compile_seconds = compile_kernels(
        queries,
        integers=source.integers,
        threads=settings.threads,
        witness=settings.witness,
        state=settings.checkpoint is not None,
        quiet=settings.quiet,
    )

    resumed = _read_checkpoint(settings, identity, run_input.time_unit, max_ahead)
    engine = resumed.engine if resumed else _new_engine(settings, queries, run_input.time_unit, max_ahead)
    static_edges = _load_static(settings, None if resumed else engine, source.labels)
    session = Session(
        settings,
        engine=engine,
        reader=run_input.reader,
        batches=source.batches,
        open_outputs=lambda position: _open_outputs(request, queries, position),
        deletions=_deletions(settings, queries),
        identity=identity,
        position=resumed.position if resumed else None,
        started=started + compile_seconds,
    )
    with interrupts:
        try:
            session.run(interrupts, _progress(request))
        except (AnotherRunError, WhereError) as error:  # conditions over a pipe are checked when its columns are known
            raise click.UsageError(str(error)) from error
        except RpqError as error:  # an output or a checkpoint that cannot be resumed
            raise click.ClickException(str(error)) from error
    if session.is_output_gone or session.error is not None:
        _discard_standard_output()

    figures = session.figures(compile_seconds=compile_seconds) | {"labels_never_seen": source.labels.missing}
    figures |= {"static_edges": static_edges} if settings.static else {}
    if request.entries:
        no_single = dict.fromkeys(("window", "slide", "paths", "semantics", "columns"))
        figures |= no_single | {"queries": figures_of_queries(session.engine, request)}
    warnings = [*query_warnings(queries, settings), *run_input.reader.warnings, *source.labels.warnings()]
    report_run(session, figures, settings, warnings=warnings)
    return session.exit_code


def _import_kernels() -> None:
    """Import numba, which takes a while, before the time of the run is measured."""
    _ = rpq.warm_up


def _read_checkpoint(
    settings: RunSettings, identity: dict[str, Any], unit: str | None, max_ahead: int | str | None
) -> Checkpoint | None:
    """Return the checkpoint to resume from, or None."""
    if settings.checkpoint is None:
        return None
    try:
        return read_checkpoint(
            settings.checkpoint,
            identity,
            threads=settings.threads,
            memory_limit=settings.memory_limit,
            max_rows=settings.max_rows,
            witness=settings.witness,
            unit=unit,
            max_ahead=max_ahead,
        )
    except AnotherRunError as error:
        raise click.UsageError(str(error)) from error
    except RpqError as error:
        raise click.ClickException(str(error)) from error


def _new_engine(
    settings: RunSettings, queries: Sequence[rpq.Query], unit: str | None, max_ahead: int | str | None
) -> rpq.Engine:
    keep = _retention_window(settings, unit)
    try:
        return rpq.Engine(
            *queries,
            threads=settings.threads,
            memory_limit=settings.memory_limit,
            max_rows=settings.max_rows,
            witness=settings.witness,
            keep=keep,
            max_ahead=max_ahead,
            events=settings.events,
        )
    except QueryError as error:
        raise click.UsageError(str(error)) from error


def _retention_window(settings: RunSettings, unit: str | None) -> rpq.Window | None:
    """Return the window of `--keep`; it slides as the queries do, or by one unit of the stream's time."""
    if settings.keep is None:
        return None
    try:
        window = window_of(settings.keep, settings.slide or 1, unit=unit)
    except WindowTextError as error:
        raise click.BadParameter(str(error), param_hint="--keep") from error
    if not isinstance(window, rpq.Window):
        raise click.BadParameter("what is kept is a window of time, such as 30d", param_hint="--keep")
    return window


def _load_static(settings: RunSettings, engine: rpq.Engine | None, labels: LabelMonitor) -> int:
    """Load the static edges and return their number; a restored engine, given as None, has them already."""
    if not settings.static:
        return 0
    try:
        return load_static(settings, engine, labels)
    except InputError as error:
        raise click.ClickException(str(error)) from error


def _open_outputs(request: RunRequest, queries: Sequence[rpq.Query], position: Position | None) -> Outputs:
    """Open the outputs; they are written in place where the input may have no end, or the run can be resumed."""
    settings = request.settings
    return open_outputs(
        request, queries, position, grows=settings.checkpoint is not None or not are_regular(settings.inputs)
    )


def _deletions(settings: RunSettings, queries: Sequence[rpq.Query]) -> Deletions | None:
    """Return the generator of deletes, which draws edges that a query uses from the longest window, or None."""
    if not settings.deletes:
        return None
    windows = [query.window for query in queries]
    if any(window.kind != "time" for window in windows):
        raise click.UsageError("--deletes are of edges in windows of time, not of count windows and unbounded ones")
    longest = max(windows, key=lambda window: window.size)
    asking = list({query.expression: query for query in queries}.values())  # thousands may have few distinct expressions
    return Deletions(
        size=longest.size,
        slide=longest.slide,
        percent=settings.deletes,
        seed=settings.seed,
        is_relevant=cache(lambda label: any(query.reads(label) for query in asking)),
    )


def _progress(request: RunRequest) -> ProgressLine:
    """Return the progress line; it is not shown on a terminal that shows rows."""
    shows_rows = "-" in output_names(request) and sys.stdout.isatty()
    return ProgressLine(shown=not request.settings.quiet and not shows_rows)


def _discard_standard_output() -> None:
    """Redirect standard output to the null device where it is closed, so that Python can flush it on exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
