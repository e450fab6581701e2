"""A run of the command, from its options to its exit status.

`execute` sets up a run of `rpq.run` over files or over topics, conducts it to its end, whatever ends it, and reports it.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from typing import Any

import click

import rpq
from rpq import __version__
from rpq.cli.checkpoint import POSITION
from rpq.cli.inputs import (
    FileSource,
    Interrupted,
    Interrupts,
    are_regular,
    node_files,
    open_input,
    topics_and_clients,
)
from rpq.cli.jobs import divided_engine
from rpq.cli.reporting import (
    InputProgress,
    ProgressLine,
    figures_of_engine,
    figures_of_queries,
    log_to_stderr,
    pattern_explanations,
    query_warnings,
    report_run,
    window_warnings,
)
from rpq.cli.request import MissingWindowError, RunRequest, RunSettings, has_default_window, read_request
from rpq.cli.run_outputs import output_names, row_messages
from rpq.cli.run_parts import RunParts
from rpq.cli.validation import check_request
from rpq.engine.machine_memory import peak_memory_bytes
from rpq.errors import ConflictBudgetError, InputError, LimitError, RpqError, WhereError
from rpq.kafka.client import KafkaError, KafkaUsageError
from rpq.kafka.topic_names import is_topic, one_topic
from rpq.run.checkpoint import AnotherRunError, Checkpoint, CheckpointError
from rpq.run.divided_run import DividedEngine, DividedRun
from rpq.run.loop import OutputError, Run, RunOutput
from rpq.stream.providers import without_login
from rpq.stream.window import size_and_slide


@dataclass(kw_only=True)
class CommandRun:
    """A run with everything that its report needs.

    `parts` are its parts besides source and sink.  `counts` returns the figures of its input, and `messages` the input's
    rejections and warnings.  `surroundings` are the context managers that are closed after it.  An error of a type in
    `recorded_errors` ends it; any other is an error of its options.  With `ends_at_sigterm` this signal is the usual end.
    """

    run: Run
    parts: RunParts
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
            *query_warnings(command_run.parts.queries, settings),
            *window_warnings(settings, command_run.parts.unit),
            *warnings,
            *command_run.parts.labels.warnings(),
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
    reader = run_input.reader
    try:
        parts = RunParts(request=request, unit=run_input.time_unit, started=started)
    except click.UsageError:
        run_input.refuse_missing(interrupts)
        raise
    run_input.check_checkpoint()
    opened = run_input.start(parts.queries, interrupts)
    parts.labels = opened.labels
    parts.compile(integers=opened.integers)
    is_installed = bool(run_input.sources)
    source = FileSource(opened, settings, queries=parts.queries, reader=reader, has_types=not is_installed)
    # Where the input may have no end, or the run can be resumed, rows are written in place.
    grows = settings.checkpoint is not None or not are_regular(settings.inputs)
    output = parts.outputs(check=interrupts.check, waits=not are_regular(settings.inputs), grows=grows)
    if output.is_transactional:
        run_input.check_transactions()
    options = parts.run_options(source, POSITION)
    if settings.jobs > 1:
        options["make_engine"] = lambda: divided_engine(
            parts,
            output,
            integers=source.integers,
            progress=lambda: (source.bytes_read, reader.bytes_total),
            check=interrupts.check,
        )
    run = (DividedRun if settings.jobs > 1 else Run)(
        source,
        output,
        **options,
        limit=settings.limit if is_installed else None,
        check=interrupts.check,
        # A resumed run has to undo the reports of the end.
        flush=settings.flush and (settings.checkpoint is None or output.is_cut_back),
        tick=lambda: progress.update(
            run.engine,
            lambda: InputProgress(tuples=source.tuples, bytes_read=source.bytes_read, bytes_total=reader.bytes_total),
        ),
    )
    with ExitStack() as stack:
        _lock_checkpoint(run.checkpoint, stack)
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
        if output.is_transactional:
            stack.enter_context(log_to_stderr(settings))
        stack.enter_context(interrupts)
        if isinstance(run.engine, DividedEngine):
            stack.callback(run.engine.close)
        surroundings = stack.pop_all()
    return CommandRun(
        run=run,
        surroundings=surroundings,
        parts=parts,
        counts=lambda: {
            **source.counts,
            "rejected": source.counts["rejected"] + run.rejected + parts.rejected_nodes,
        },
        messages=lambda: ([*parts.node_rejections, *reader.rejections], reader.warnings),
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
    parts = RunParts(request=request, unit=topics.columns.unit, started=started)
    for file in node_files(settings, topics.columns.unit):
        if file.has_times:
            reason = "its records have times; expected a topic of records with rules [[node]] of --edges-from, or no times"
            raise click.UsageError(f"--nodes {file.name}: {reason}")
    messages = row_messages(request, parts.queries)
    parts.compile(integers=False)
    surroundings = ExitStack()
    metrics: RunMetrics | None = None
    if settings.metrics is not None:
        try:
            metrics = RunMetrics(settings.metrics, memory=peak_memory_bytes)
        except KafkaError as error:
            raise click.ClickException(str(error)) from error
        surroundings.callback(metrics.close)
    letters = one_topic(settings.on_error) if is_topic(settings.on_error) else None
    source = TopicSource(topics, clients, check=check, watch=parts.labels.check)
    sink: RunOutput
    if messages is not None:
        sink = TopicOutputs(
            messages, settings=clients, witness=settings.witness, dead_letters=letters, check=check
        )
    else:
        sink = parts.outputs(check=check, waits=False, grows=True)
    run = TopicRun(
        source,
        sink,
        **parts.run_options(source, TOPIC_POSITION),
        limit=settings.limit,
        checkpoint_seconds=settings.checkpoint_every,
        check=check,
        tick=lambda: None if metrics is None else metrics.update(run),
    )

    def counts() -> dict[str, Any]:
        figures = asdict(run.figures(""))
        of_input = {name: figures[name] for name in ("rejected", "filtered", "undecided")}
        of_input["rejected"] += parts.rejected_nodes
        return {**of_input, "kafka": {name: figures[name] for name in ("messages", "rows_sent", "rounds", "seconds")}}

    return CommandRun(
        run=run,
        surroundings=surroundings,
        recorded_errors=(InputError, LimitError, ConflictBudgetError, OSError, OutputError, WhereError, KafkaError),
        parts=parts,
        counts=counts,
        messages=lambda: (parts.node_rejections, []),
        ends_at_sigterm=True,
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


def _figures(request: RunRequest, command_run: CommandRun) -> dict[str, Any]:
    """Return the figures for summary and `--stats`; window and slide are those of a single query.  There are no secrets."""
    settings, run, parts = request.settings, command_run.run, command_run.parts
    engine = run.engine or rpq.Engine(*parts.queries, **parts.options)
    query = engine.queries[0]
    figures = figures_of_engine(engine)
    window, slide = size_and_slide(query.window) if has_default_window(query) else (None, None)
    found: dict[str, Any] = {
        "expression": settings.expression,
        "inputs": list(map(without_login, settings.inputs)),
        "format": settings.format,
        "window": window,
        "slide": slide,
        "time_unit": parts.unit,
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
        "compile_seconds": parts.compile_seconds,
        "tuples_per_second": figures["tuples"] / figures["engine_seconds"] if figures["engine_seconds"] else 0.0,
        "peak_memory_bytes": peak_memory_bytes(),
        **({"patterns": explained} if (explained := pattern_explanations(engine)) else {}),
        "version": __version__,
        "labels_never_seen": parts.labels.missing_labels,
        **({"static_edges": parts.static_edges} if settings.static else {}),
    }
    if request.names_queries:
        found |= dict.fromkeys(("window", "slide", "paths", "semantics", "columns"))
        found["queries"] = figures_of_queries(engine, request)
    return found


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
