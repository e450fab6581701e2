"""A run over topics of Kafka, from its options to its exit status."""

from __future__ import annotations

import gc
import logging
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import click
import pyarrow as pa

import rpq
from rpq import __version__
from rpq.cli.checkpoint import differences, identity_of
from rpq.cli.inputs import Interrupted, Interrupts, LabelMonitor, load_static
from rpq.cli.outputs.sinks import columns_of
from rpq.cli.reporting import (
    compile_kernels,
    figures_of_engine,
    figures_of_queries,
    pattern_explanations,
    query_warnings,
    report_run,
)
from rpq.cli.request import RunRequest, RunSettings, max_ahead_of
from rpq.cli.run_outputs import Outputs, open_outputs, output_names
from rpq.errors import ConflictBudgetError, InputError, LimitError, RpqError
from rpq.kafka.client import (
    LOG,
    ClientSettings,
    JsonEventLines,
    KafkaError,
    KafkaUsageError,
    TextLines,
    client,
    read_settings,
)
from rpq.kafka.from_topics import UPSERT_NEEDS_EXPLICIT
from rpq.kafka.message_reader import MessageColumns
from rpq.kafka.metrics import RunMetrics
from rpq.kafka.row_outputs import Destination, RowMessages
from rpq.kafka.topic_names import is_topic, one_cluster, one_topic, topics_in
from rpq.kafka.topic_reader import TopicInput
from rpq.kafka.topic_run import TopicRun
from rpq.queries.query import Query
from rpq.readers import ColumnNames, WhereError, parse_where
from rpq.running.limits import peak_memory_bytes
from rpq.stream.window import size_and_slide

_TOPIC_FIGURES = ("messages", "rows_sent", "rounds", "seconds")
"""The figures that only runs over topics have."""


@dataclass
class _Outcome:
    """The outcome of a run over topics."""

    rejections: list[str]
    set_aside: list[str]
    error: str | None = None
    ended: str = "end of input"
    exit_code: int = 0


@dataclass(frozen=True, kw_only=True)
class _SinkPosition:
    """The position at which outputs that are files are opened."""

    output: Any
    late_bytes: int | None = None


@dataclass
class _FileOutputs:
    """The output of rows to files."""

    outputs: Outputs = field(default_factory=Outputs)

    @property
    def wants_terms(self) -> bool:
        return self.outputs.wants_terms

    def write(self, rows: pa.Table) -> None:
        assert self.outputs.rows is not None
        self.outputs.rows.write(rows)

    def commit(self) -> Any:
        assert self.outputs.rows is not None
        return self.outputs.rows.commit()


def execute_topics(request: RunRequest) -> int:
    """Execute a run, write the summary, and return the exit status; usage errors are click's exceptions."""
    interrupts = Interrupts()
    with interrupts:
        return _execute(request, interrupts)


def _execute(request: RunRequest, interrupts: Interrupts) -> int:
    settings = request.settings
    started = time.perf_counter()
    try:
        client()
    except KafkaError as error:
        raise click.ClickException(str(error)) from error
    try:
        given = read_settings(settings.kafka_config) if settings.kafka_config is not None else {}
        source = topic_input_of(settings)
        clients = ClientSettings(source.brokers, given)
    except WhereError as error:
        raise click.UsageError(str(error)) from error
    except RpqError as error:
        raise click.UsageError(str(error)) from error
    queries = request.queries(unit=source.columns.unit, integers=False)
    if settings.upsert and any(query.semantics != "explicit" for query in queries):
        raise click.UsageError(f"--{UPSERT_NEEDS_EXPLICIT}")
    engine_options = {**_engine_options(settings), "max_ahead": max_ahead_of(settings, source.columns.unit)}
    compile_seconds = _compile(request, queries, integers=False)
    labels = LabelMonitor(queries)
    files = _FileOutputs()
    static_edges = 0

    def make_engine(integers: bool) -> rpq.Engine:
        nonlocal static_edges
        new_queries = queries if not integers else request.queries(unit=source.columns.unit, integers=True)
        if integers:
            _compile(request, new_queries, integers=True)
        engine = rpq.Engine(*new_queries, **engine_options)
        static_edges = load_static(settings, engine, labels)
        return engine

    def open_sink(position: Any) -> _FileOutputs | None:
        grown = _SinkPosition(output=position) if position is not None else None
        files.outputs = open_outputs(request, queries, grown, grows=True)  # type: ignore[arg-type]
        return files if files.outputs.rows is not None else None

    rows = _row_messages(request, queries)
    metrics: RunMetrics | None = None
    try:
        metrics = None if settings.metrics is None else RunMetrics(settings.metrics, memory=peak_memory_bytes)
        run = TopicRun(
            source,
            settings=clients,
            make_engine=make_engine,
            restore=lambda path: rpq.Engine.restore(path, **engine_options),
            rows=rows,
            open_sink=(lambda position: None) if rows is not None else open_sink,
            witness=settings.witness,
            checkpoint=settings.checkpoint,
            checkpoint_seconds=settings.checkpoint_every,
            identity=identity_of(request, queries),
            differences=partial(differences, unit=source.columns.unit),
            check=interrupts.check,
            watch=labels.check,
            tick=metrics.update if metrics is not None else lambda run: None,
        )
        with _log_to_stderr(settings):
            ended = _run(run, interrupts, files)
    except KafkaUsageError as error:
        raise click.UsageError(str(error)) from error
    except RpqError as error:  # of a broker, or of a checkpoint or an output that cannot be resumed
        raise click.ClickException(str(error)) from error
    finally:
        if metrics is not None:
            metrics.close()
    figures = _figures(run, ended, request, queries, compile_seconds, time.perf_counter() - started - compile_seconds)
    figures |= {"labels_never_seen": labels.missing}
    figures |= {"static_edges": static_edges} if settings.static else {}
    report_run(ended, figures, settings, warnings=[*query_warnings(queries, settings), *labels.warnings()])
    return ended.exit_code


def topic_input_of(settings: RunSettings) -> TopicInput:
    """Return the topics and how to read their messages.  Raises `InputError` and `WhereError`."""
    try:
        names = ColumnNames.parse(settings.columns, label=settings.label)
        columns = MessageColumns.of(names, settings.time_unit)
    except InputError as error:
        raise InputError(f"{'--columns' if settings.columns else '--label'}: {error}") from error
    streams: dict[str, str | None] = {}
    for number, uri in enumerate(settings.inputs):
        stream = settings.streams[number] if number < len(settings.streams) else None
        for topic in topics_in(uri).topics:
            if topic in streams:
                raise InputError(f"--input: the topic {topic} is given twice")
            streams[topic] = stream
    to_letters = is_topic(settings.on_error)
    return TopicInput(
        brokers=one_cluster(settings.inputs)[0].brokers,
        topics=streams,
        columns=columns,
        where=parse_where(settings.where) if settings.where is not None else None,
        only_json=settings.format == "jsonl",
        max_delay=settings.max_delay,
        on_error="skip" if to_letters else settings.on_error,
        dead_letters=one_topic(settings.on_error) if to_letters else None,
        until_end=settings.until_end,
        limit=settings.limit,
    )


def _row_messages(request: RunRequest, queries: Sequence[Query]) -> RowMessages | None:
    """Return the conversion of rows to messages; None if rows go to files, or nowhere."""
    if not any(map(is_topic, output_names(request))):
        return None
    settings = request.settings
    outputs = (
        {entry.name: entry.output for entry in request.entries} if request.entries else {queries[0].name: settings.output}
    )
    with_query = bool(request.entries)
    destinations = {
        query.name: Destination(
            topic=one_topic(output), columns=columns_of(query.columns, witness=settings.witness, with_query=with_query)
        )
        for query in queries
        if (output := outputs[query.name]) is not None
    }
    return RowMessages(destinations=destinations, upsert=settings.upsert)


def _engine_options(settings: RunSettings) -> dict[str, Any]:
    return {
        "threads": settings.threads,
        "memory_limit": settings.memory_limit,
        "max_rows": settings.max_rows,
        "witness": settings.witness,
    }


def _compile(request: RunRequest, queries: Sequence[Query], *, integers: bool) -> float:
    settings = request.settings
    return compile_kernels(
        queries,
        integers=integers,
        threads=settings.threads,
        witness=settings.witness,
        state=settings.checkpoint is not None,
        quiet=settings.quiet,
    )


def _run(run: TopicRun, interrupts: Interrupts, files: _FileOutputs) -> _Outcome:
    """Execute the run to its end, and return the outcome."""
    ended = _Outcome(run.rejections, run.set_aside)
    # Messages are objects by the hundred thousand; at each collection Python would traverse all that is loaded so far.
    gc.collect()
    gc.freeze()
    try:
        ended.ended = run.run()
    except Interrupted:
        received = interrupts.received or signal.SIGINT
        ended.ended = f"interrupted ({received.name})"
        ended.exit_code = 0 if received == signal.SIGTERM else 128 + received
    except KafkaError as error:
        if run.merge is None:  # the run has not begun
            raise
        ended.ended, ended.error, ended.exit_code = "error", str(error), 1
    except (InputError, WhereError, LimitError, ConflictBudgetError, OSError) as error:
        ended.ended, ended.error, ended.exit_code = "error", str(error), 1
    finally:
        for sink in files.outputs.sinks:
            sink.close()
    return ended


@contextmanager
def _log_to_stderr(settings: RunSettings) -> Iterator[None]:
    """Log events to stderr in this block; with --quiet, only warnings."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonEventLines() if settings.log == "json" else TextLines())
    before = LOG.level, LOG.propagate
    LOG.setLevel(logging.WARNING if settings.quiet else logging.INFO)
    LOG.propagate = False
    LOG.addHandler(handler)
    try:
        yield
    finally:
        LOG.removeHandler(handler)
        LOG.level, LOG.propagate = before


def _figures(
    run: TopicRun, ended: _Outcome, request: RunRequest, queries: Sequence[Query], compile_seconds: float, seconds: float
) -> dict[str, Any]:
    """Return the figures for summary and `--stats`.  They contain no secrets."""
    settings, query = request.settings, queries[0]
    engine = run.engine or rpq.Engine(*queries, **_engine_options(settings))
    known = figures_of_engine(engine)
    counted = run.figures(ended.ended)
    window, slide = size_and_slide(query.window)
    of_one = ("window", "slide", "paths", "semantics", "columns")
    no_single: Mapping[str, Any] = dict.fromkeys(of_one) if request.entries else {}
    return {
        "expression": settings.expression,
        "inputs": list(settings.inputs),
        "format": settings.format,
        "window": window,
        "slide": slide,
        "time_unit": run.source.columns.unit,
        "paths": settings.paths,
        "semantics": query.semantics,
        "columns": list(query.columns),
        "threads": settings.threads,
        "resumed": run.resumed,
        "ended": ended.ended if ended.error is None else f"{ended.ended}: {ended.error}",
        "exit_code": ended.exit_code,
        **known,
        "rejected": counted.rejected,
        "filtered": counted.filtered,
        "undecided": counted.undecided,
        "total_seconds": seconds,
        "compile_seconds": compile_seconds,
        "tuples_per_second": known["tuples"] / known["engine_seconds"] if known["engine_seconds"] else 0.0,
        "peak_memory_bytes": peak_memory_bytes(),
        **({"patterns": explained} if (explained := pattern_explanations(engine)) else {}),
        **no_single,
        **({"queries": figures_of_queries(engine, request)} if request.entries else {}),
        "kafka": {name: value for name, value in asdict(counted).items() if name in _TOPIC_FIGURES},
        "version": __version__,
    }
