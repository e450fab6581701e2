"""A run of the command, from its options to its exit status.

`execute` sets up a run of `rpq.run` over files or over topics, conducts it to its end, whatever ends it, and reports it.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import click
import pyarrow as pa

import rpq
from rpq import __version__
from rpq.cli.checkpoint import POSITION, differences, identity_of
from rpq.cli.inputs import (
    FileSource,
    Interrupted,
    Interrupts,
    LabelMonitor,
    are_regular,
    load_static,
    open_input,
    topics_and_clients,
)
from rpq.cli.options import advice_for_command
from rpq.cli.outputs.sinks import with_times
from rpq.cli.reporting import (
    InputProgress,
    ProgressLine,
    compile_kernels,
    figures_of_engine,
    figures_of_queries,
    log_to_stderr,
    pattern_explanations,
    query_warnings,
    report_run,
    window_warnings,
)
from rpq.cli.request import MissingWindowError, RunRequest, RunSettings, has_default_window, max_ahead_of, read_request
from rpq.cli.run_outputs import FileOutputs, output_names, row_messages, table_outputs
from rpq.cli.validation import check_request
from rpq.engine.machine_memory import peak_memory_bytes
from rpq.errors import ConflictBudgetError, InputError, LimitError, QueryError, RpqError, WhereError
from rpq.kafka.client import KafkaError, KafkaUsageError
from rpq.kafka.topic_names import is_topic, one_topic
from rpq.language.readings import properties_of
from rpq.run.checkpoint import AnotherRunError, Checkpoint, CheckpointError, PositionFormat
from rpq.run.loop import OutputError, Run, RunOutput
from rpq.stream.sources import without_login
from rpq.stream.window import WindowTextError, size_and_slide, window_of

if TYPE_CHECKING:
    from rpq.language.query import Query


@dataclass(kw_only=True)
class CommandRun:
    """A run with everything that its report needs.

    `counts` returns the figures of its input, and `messages` the input's rejections and warnings.  `surroundings` are the
    context managers that are closed after it.  An error of a type in `recorded_errors` ends it; any other is an error of its
    options.  With `ends_at_sigterm` this signal is the usual end.
    """

    run: Run
    queries: Sequence[Query]
    engines: Engines
    compile_seconds: float
    counts: Callable[[], dict[str, Any]]
    messages: Callable[[], tuple[list[str], list[str]]] = lambda: ([], [])
    surroundings: ExitStack = field(default_factory=ExitStack)
    recorded_errors: tuple[type[Exception], ...] = (InputError, LimitError, ConflictBudgetError, OSError, OutputError)
    ends_at_sigterm: bool = False

    end_reason: str = "end of input"
    exit_code: int = 0
    is_output_gone: bool = False
    error: str | None = None

    @property
    def end_message(self) -> str:
        """The reason for the end of the run, as text for users."""
        if self.error is not None:
            return f"{self.end_reason}: {self.error}"
        return "nobody reads the output any more" if self.is_output_gone else self.end_reason

    def fail(self, error: Exception) -> None:
        """Record the error that ended the run; only the first one is kept."""
        self.end_reason, self.error = "error", self.error or str(error)
        self.exit_code = 1


@dataclass(kw_only=True)
class Engines:
    """The engines of a run, made anew or restored, with their static edges."""

    settings: RunSettings
    unit: str | None
    max_ahead: int | str | None
    labels: LabelMonitor
    static_edges: int = 0
    keep: rpq.Window | None = field(init=False)
    options: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        settings = self.settings
        self.keep = _retention_window(settings, self.unit)
        self.options = {
            "threads": settings.threads,
            "memory_limit": settings.memory_limit,
            "max_rows": settings.max_rows,
            "witness": settings.witness,
            "max_ahead": self.max_ahead,
            "report_empty": self.settings.report_empty,
        }

    def make(self, queries: Sequence[Query]) -> rpq.Engine:
        """Return a new engine.  Raises `InputError` for static edges that cannot be read."""
        try:
            engine = rpq.Engine(
                *queries,
                **self.options,
                keep=self.keep,
                events=self.settings.events,
                edges=self.settings.edges,
                time_unit=self.unit,  # type: ignore[arg-type]
            )
            properties = sorted(frozenset().union(*map(properties_of, queries)))
            self.static_edges = load_static(self.settings, engine, self.labels, properties=properties)
        except QueryError as error:
            raise click.UsageError(advice_for_command(str(error))) from error
        return engine

    def restore(self, path: str) -> rpq.Engine:
        """Return the engine of a checkpoint, which has its static edges already."""
        engine = rpq.Engine.restore(path, **self.options)
        self.static_edges = load_static(self.settings, None, self.labels)
        return engine


def execute(settings: RunSettings) -> int:
    """Execute a run, write the summary, and return the exit status; usage errors are click's exceptions."""
    try:
        request = read_request(settings)
    except MissingWindowError:
        if are_regular(settings.inputs):  # columns come first: the times among them may decide how windows are written
            open_input(settings).refuse_missing(Interrupts())
        raise
    check_request(request)
    _ = rpq.warm_up  # imports numba, which takes a while, before the time of the run is measured
    interrupts = Interrupts()
    if any(map(is_topic, settings.inputs)):
        with interrupts:
            command_run = set_up_topics(request, interrupts.check)
            command_run.surroundings.enter_context(log_to_stderr(settings))
            # Messages are objects by the hundred thousand; at each collection Python would traverse all that is loaded.
            gc.collect()
            gc.freeze()
            return _conduct(request, command_run, interrupts)
    return _conduct(request, _set_up_files(request, interrupts), interrupts)


def _conduct(request: RunRequest, command_run: CommandRun, interrupts: Interrupts) -> int:
    """Execute a run until it ends for any reason, and report it. Return the exit status."""
    settings = request.settings
    with command_run.surroundings:
        try:
            _execute(command_run, interrupts)
        except (AnotherRunError, KafkaUsageError, WhereError) as error:  # conditions over a pipe are checked when it is read
            raise click.UsageError(str(error)) from error
        except RpqError as error:  # of a broker, or of an output or a checkpoint that cannot be resumed
            raise click.ClickException(str(error)) from error
    if command_run.is_output_gone or command_run.error is not None:
        _discard_standard_output()
    rejections, warnings = command_run.messages()
    report_run(
        _figures(request, command_run),
        settings,
        warnings=[
            *query_warnings(command_run.queries, settings),
            *window_warnings(settings, command_run.engines.unit),
            *warnings,
            *command_run.engines.labels.warnings(),
        ],
        rejections=[*rejections, *command_run.run.rejections],
        set_aside=command_run.run.set_aside,
        error=command_run.error,
    )
    return command_run.exit_code


def _execute(command_run: CommandRun, interrupts: Interrupts) -> None:
    """Execute a run until it ends, or until an error, a signal or a closed pipe; then complete every output."""
    run, is_whole = command_run.run, False
    try:
        command_run.end_reason = run.execute()
        is_whole = True
    except Interrupted:
        received = interrupts.received or signal.SIGINT
        command_run.end_reason = f"interrupted ({received.name})"
        command_run.exit_code = 0 if command_run.ends_at_sigterm and received == signal.SIGTERM else 128 + received
        is_whole = bool(run.tuples or run.rejected or not command_run.exit_code)
    except BrokenPipeError:
        command_run.is_output_gone = is_whole = True
    except command_run.recorded_errors as error:
        if isinstance(error, (KafkaError, OutputError)) and not run.has_begun:
            raise
        command_run.fail(error)
    finally:
        for problem in run.sink.close(keeps_empty=is_whole):
            if isinstance(problem, BrokenPipeError):
                command_run.is_output_gone = True
            else:
                command_run.fail(problem)


def _set_up_files(request: RunRequest, interrupts: Interrupts) -> CommandRun:
    """Set up a run over files, whose signals are caught from then on."""
    settings = request.settings
    started = time.monotonic()
    run_input = open_input(settings, properties=request.further_columns)
    reader, unit = run_input.reader, run_input.time_unit
    try:
        queries = request.queries(unit=unit, integers=False)
    except click.UsageError:
        run_input.refuse_missing(interrupts)
        raise
    run_input.check_checkpoint()
    max_ahead = max_ahead_of(settings, unit)
    times = _time_type(settings, unit)
    identity = identity_of(request, queries)
    opened = run_input.start(queries, interrupts)
    engines = Engines(settings=settings, unit=unit, max_ahead=max_ahead, labels=opened.labels)
    if opened.integers:
        queries = request.queries(unit=unit, integers=True)
    compile_seconds = _compile(settings, queries, integers=opened.integers)
    checkpoint = _checkpoint(settings, POSITION, engines, identity)
    is_installed = bool(run_input.sources)
    source = FileSource(
        opened,
        settings,
        queries=queries,
        reader=reader,
        has_types=not is_installed,
    )

    def make_engine() -> rpq.Engine:
        if opened.integers or not source.integers:
            return engines.make(queries)
        of_integers = request.queries(unit=unit, integers=True)  # known at the first tuple only
        _compile(settings, of_integers, integers=True)
        return engines.make(of_integers)

    # Where the input may have no end, or the run can be resumed, rows are written in place.
    grows = settings.checkpoint is not None or not are_regular(settings.inputs)
    tables = table_outputs(
        request,
        queries,
        identity=identity,
        unit=unit,
        times=times,
        check=interrupts.check,
        waits=not are_regular(settings.inputs),
    )
    if tables is not None:
        run_input.check_transactions()
    run = Run(
        source,
        tables or FileOutputs(request, queries, grows=grows, times=times),
        make_engine=make_engine,
        names_queries=request.names_queries,
        limit=settings.limit if is_installed else None,
        checkpoint=checkpoint,
        started=started + compile_seconds,
        check=interrupts.check,
        # A resumed run has to undo the reports of the end, which a database cannot do.
        flush=settings.flush and (tables is None or settings.checkpoint is None),
        convert=partial(with_times, times=times),
        tick=lambda: progress.update(
            run.engine,
            lambda: InputProgress(tuples=source.tuples, bytes_read=source.bytes_read, bytes_total=reader.bytes_total),
        ),
    )
    with ExitStack() as stack:
        _lock_checkpoint(checkpoint, stack)
        try:
            run.restore()
        except AnotherRunError as error:
            raise click.UsageError(str(error)) from error
        except RpqError as error:
            raise click.ClickException(str(error)) from error
        progress = _progress(request)
        stack.callback(progress.close)
        for one in run_input.sources:
            stack.callback(one.close)
        if tables is not None:
            stack.enter_context(log_to_stderr(settings))
        stack.enter_context(interrupts)
        surroundings = stack.pop_all()
    return CommandRun(
        run=run,
        surroundings=surroundings,
        queries=queries,
        engines=engines,
        compile_seconds=compile_seconds,
        counts=lambda: {
            **source.counts,
            "rejected": source.counts["rejected"] + run.rejected,
        },
        messages=lambda: (reader.rejections, reader.warnings),
    )


def set_up_topics(request: RunRequest, check: Callable[[], None]) -> CommandRun:
    """Set up a run over topics, until `check` raises.  Its engine is made at the first tuple, when the type of vertices is
    known.
    """
    from rpq.kafka.metrics import RunMetrics
    from rpq.kafka.row_outputs import TopicOutputs
    from rpq.kafka.topic_run import POSITION as TOPIC_POSITION
    from rpq.kafka.topic_run import TopicRun
    from rpq.kafka.topic_source import TopicSource

    settings = request.settings
    started = time.monotonic()
    topics, clients = topics_and_clients(settings, properties=request.further_columns)
    unit = topics.columns.unit
    times = _time_type(settings, unit)
    queries = request.queries(unit=unit, integers=False)
    messages = row_messages(request, queries)
    labels = LabelMonitor(queries)
    engines = Engines(settings=settings, unit=unit, max_ahead=max_ahead_of(settings, unit), labels=labels)
    compile_seconds = _compile(settings, queries, integers=False)

    def make_engine() -> rpq.Engine:
        if not source.integers:
            return engines.make(queries)
        of_integers = request.queries(unit=unit, integers=True)
        _compile(settings, of_integers, integers=True)
        return engines.make(of_integers)

    surroundings = ExitStack()
    metrics: RunMetrics | None = None
    if settings.metrics is not None:
        try:
            metrics = RunMetrics(settings.metrics, memory=peak_memory_bytes)
        except KafkaError as error:
            raise click.ClickException(str(error)) from error
        surroundings.callback(metrics.close)
    letters = one_topic(settings.on_error) if is_topic(settings.on_error) else None
    source = TopicSource(topics, clients, check=check, watch=labels.check)
    identity = identity_of(request, queries)
    sink: RunOutput | None
    if messages is not None:
        sink = TopicOutputs(
            messages, settings=clients, witness=settings.witness, dead_letters=letters, check=check
        )
    else:
        of_run: dict[str, Any] = {"identity": identity, "unit": unit, "times": times, "check": check}
        sink = table_outputs(request, queries, **of_run, waits=False)
        sink = sink or FileOutputs(request, queries, grows=True, times=times)
    run = TopicRun(
        source,
        sink,
        make_engine=make_engine,
        names_queries=request.names_queries,
        limit=settings.limit,
        checkpoint=_checkpoint(settings, TOPIC_POSITION, engines, identity),
        checkpoint_seconds=settings.checkpoint_every,
        started=started + compile_seconds,
        check=check,
        tick=lambda: None if metrics is None else metrics.update(run),
        convert=partial(with_times, times=times),
    )

    def counts() -> dict[str, Any]:
        figures = asdict(run.figures(""))
        of_input = {name: figures[name] for name in ("rejected", "filtered", "undecided")}
        return {**of_input, "kafka": {name: figures[name] for name in ("messages", "rows_sent", "rounds", "seconds")}}

    return CommandRun(
        run=run,
        surroundings=surroundings,
        recorded_errors=(InputError, LimitError, ConflictBudgetError, OSError, OutputError, WhereError, KafkaError),
        queries=queries,
        engines=engines,
        compile_seconds=compile_seconds,
        counts=counts,
        ends_at_sigterm=True,
    )


def _time_type(settings: RunSettings, unit: str | None) -> pa.DataType | None:
    """Return the type of timestamps if they are written as times, or None.  Raises a usage error if they have no unit."""
    if settings.times is None:
        return None
    if unit is None:
        raise click.UsageError(
            f"--times {settings.times}: the timestamps of this input are plain numbers; expected --time-unit, the unit in "
            "which they count from 1970, or timestamps in ISO 8601"
        )
    return pa.timestamp(unit, "UTC")


def _checkpoint(
    settings: RunSettings, form: PositionFormat, engines: Engines, identity: dict[str, Any]
) -> Checkpoint | None:
    if settings.checkpoint is None:
        return None
    return Checkpoint(
        settings.checkpoint,
        form,
        identity=identity,
        differences=partial(differences, unit=engines.unit),
        restore=engines.restore,
    )


def _lock_checkpoint(checkpoint: Checkpoint | None, surroundings: ExitStack) -> None:
    """Lock the checkpoint until the surroundings are closed.  Raises an exception of click if another run uses it."""
    if checkpoint is None:
        return
    try:
        checkpoint.lock()
    except CheckpointError as error:
        raise click.ClickException(str(error)) from error
    except OSError:  # a folder that accepts no new file, in which the checkpoint itself is overwritten
        return
    surroundings.callback(checkpoint.release)


def _compile(settings: RunSettings, queries: Sequence[Query], *, integers: bool) -> float:
    return compile_kernels(
        queries,
        integers=integers,
        threads=settings.threads,
        witness=settings.witness,
        state=settings.checkpoint is not None,
        quiet=settings.quiet,
    )


def _figures(request: RunRequest, command_run: CommandRun) -> dict[str, Any]:
    """Return the figures for summary and `--stats`; window and slide are those of a single query.  There are no secrets."""
    settings, run, engines = request.settings, command_run.run, command_run.engines
    engine = run.engine or rpq.Engine(*command_run.queries, **engines.options)
    query = engine.queries[0]
    figures = figures_of_engine(engine)
    window, slide = size_and_slide(query.window) if has_default_window(query) else (None, None)
    found: dict[str, Any] = {
        "expression": settings.expression,
        "inputs": list(map(without_login, settings.inputs)),
        "format": settings.format,
        "window": window,
        "slide": slide,
        "time_unit": engines.unit,
        "paths": settings.paths,
        "semantics": query.semantics,
        "columns": list(query.columns),
        "threads": settings.threads,
        "resumed": run.resumed is not None,
        "ended": command_run.end_message,
        "exit_code": command_run.exit_code,
        **figures,
        "rows_flushed": run.rows_flushed,
        **command_run.counts(),
        "total_seconds": run.total_seconds,
        "compile_seconds": command_run.compile_seconds,
        "tuples_per_second": figures["tuples"] / figures["engine_seconds"] if figures["engine_seconds"] else 0.0,
        "peak_memory_bytes": peak_memory_bytes(),
        **({"patterns": explained} if (explained := pattern_explanations(engine)) else {}),
        "version": __version__,
        "labels_never_seen": engines.labels.missing_labels,
        **({"static_edges": engines.static_edges} if settings.static else {}),
    }
    if request.names_queries:
        found |= dict.fromkeys(("window", "slide", "paths", "semantics", "columns"))
        found["queries"] = figures_of_queries(engine, request)
    return found


def _retention_window(settings: RunSettings, unit: str | None) -> rpq.Window | None:
    """Return the window of `--keep`; it slides as the queries do, or by one unit of the stream's time."""
    if settings.keep is None:
        return None
    try:
        window = window_of(settings.keep, settings.slide or 1, unit=unit)
    except WindowTextError as error:
        raise click.BadParameter(str(error), param_hint="--keep") from error
    if not isinstance(window, rpq.Window):
        raise click.BadParameter("expected a time window, such as 30d", param_hint="--keep")
    return window


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
