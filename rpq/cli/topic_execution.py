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
from rpq.cli.inputs import Interrupted, Interrupts, LabelsSeen, load_static
from rpq.cli.outputs.sinks import columns_of
from rpq.cli.reporting import (
    compile_kernels,
    explanations_of,
    figures_of_engine,
    figures_of_queries,
    peak_memory_bytes,
    tell,
    warnings_of,
)
from rpq.cli.request import Asked, RunSettings, max_ahead_of
from rpq.cli.run_outputs import Outputs, open_outputs, output_names
from rpq.errors import ConflictBudgetError, InputError, LimitError, RpqError
from rpq.kafka.client import (
    LOG,
    ClientSettings,
    JsonLinesOfEvents,
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
from rpq.stream.window_text import told

_TOLD = ("messages", "rows_sent", "rounds", "seconds")
"""What figures tell of a run over topics alone."""


@dataclass
class _Ended:
    """What is told of a run that has ended."""

    rejections: list[str]
    set_aside: list[str]
    error: str | None = None
    ended: str = "end of input"
    exit_code: int = 0


@dataclass(frozen=True, kw_only=True)
class _SinkPosition:
    """Where outputs that are files stand, as they are opened."""

    output: Any
    late_bytes: int | None = None


@dataclass
class _Files:
    """Rows that go to files."""

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


def execute_topics(asked: Asked) -> int:
    """Run, write the summary, and return the exit status; usage errors are click's exceptions."""
    interrupts = Interrupts()
    with interrupts:
        return _execute(asked, interrupts)


def _execute(asked: Asked, interrupts: Interrupts) -> int:
    settings = asked.settings
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
    queries = asked.queries(unit=source.columns.unit, integers=False)
    if settings.upsert and any(query.semantics != "explicit" for query in queries):
        raise click.UsageError(f"--{UPSERT_NEEDS_EXPLICIT}")
    of_engines = {**_of_engines(settings), "max_ahead": max_ahead_of(settings, source.columns.unit)}
    compile_seconds = _compiled(asked, queries, integers=False)
    labels_seen = LabelsSeen(queries)
    files = _Files()
    static_edges = 0

    def make_engine(integers: bool) -> rpq.Engine:
        nonlocal static_edges
        asked_now = queries if not integers else asked.queries(unit=source.columns.unit, integers=True)
        if integers:
            _compiled(asked, asked_now, integers=True)
        engine = rpq.Engine(*asked_now, **of_engines)
        static_edges = load_static(settings, engine, labels_seen)
        return engine

    def open_sink(position: Any) -> _Files | None:
        grown = _SinkPosition(output=position) if position is not None else None
        files.outputs = open_outputs(asked, queries, grown, grows=True)  # type: ignore[arg-type]
        return files if files.outputs.rows is not None else None

    rows = _row_messages(asked, queries)
    metrics: RunMetrics | None = None
    try:
        metrics = None if settings.metrics is None else RunMetrics(settings.metrics, memory=peak_memory_bytes)
        run = TopicRun(
            source,
            settings=clients,
            make_engine=make_engine,
            restore=lambda path: rpq.Engine.restore(path, **of_engines),
            rows=rows,
            open_sink=(lambda position: None) if rows is not None else open_sink,
            witness=settings.witness,
            checkpoint=settings.checkpoint,
            checkpoint_seconds=settings.checkpoint_every,
            identity=identity_of(asked, queries),
            differences=partial(differences, unit=source.columns.unit),
            check=interrupts.check,
            watch=labels_seen.see,
            tick=metrics.update if metrics is not None else lambda run: None,
        )
        with _told_on_stderr(settings):
            ended = _run(run, interrupts, files)
    except KafkaUsageError as error:
        raise click.UsageError(str(error)) from error
    except RpqError as error:  # a broker, a checkpoint, or an output that cannot be gone on with
        raise click.ClickException(str(error)) from error
    finally:
        if metrics is not None:
            metrics.close()
    figures = _figures(run, ended, asked, queries, compile_seconds, time.perf_counter() - started - compile_seconds)
    figures |= {"labels_never_seen": labels_seen.never_seen}
    figures |= {"static_edges": static_edges} if settings.static else {}
    tell(ended, figures, settings, warnings=[*warnings_of(queries, settings), *labels_seen.warnings()])
    return ended.exit_code


def topic_input_of(settings: RunSettings) -> TopicInput:
    """What is read, and how.  Raises `InputError` and `WhereError`."""
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


def _row_messages(asked: Asked, queries: Sequence[Query]) -> RowMessages | None:
    """What makes messages of rows; None where they go to files, or nowhere."""
    if not any(map(is_topic, output_names(asked))):
        return None
    settings = asked.settings
    outputs = {entry.name: entry.output for entry in asked.entries} if asked.entries else {queries[0].name: settings.output}
    several = bool(asked.entries)
    destinations = {
        query.name: Destination(
            topic=one_topic(output), columns=columns_of(query.columns, witness=settings.witness, several=several)
        )
        for query in queries
        if (output := outputs[query.name]) is not None
    }
    return RowMessages(destinations=destinations, upsert=settings.upsert)


def _of_engines(settings: RunSettings) -> dict[str, Any]:
    return {
        "threads": settings.threads,
        "memory_limit": settings.memory_limit,
        "max_rows": settings.max_rows,
        "witness": settings.witness,
    }


def _compiled(asked: Asked, queries: Sequence[Query], *, integers: bool) -> float:
    settings = asked.settings
    return compile_kernels(
        queries,
        integers=integers,
        threads=settings.threads,
        witness=settings.witness,
        state=settings.checkpoint is not None,
        quiet=settings.quiet,
    )


def _run(run: TopicRun, interrupts: Interrupts, files: _Files) -> _Ended:
    """Work until the end, and say how it ended."""
    ended = _Ended(run.rejections, run.set_aside)
    # Messages are objects by the hundred thousand: the collector would go through all that is loaded by now, each time.
    gc.collect()
    gc.freeze()
    try:
        ended.ended = run.run()
    except Interrupted:
        received = interrupts.received or signal.SIGINT
        ended.ended = f"interrupted ({received.name})"
        ended.exit_code = 0 if received == signal.SIGTERM else 128 + received
    except KafkaError as error:
        if run.merge is None:  # it has not begun
            raise
        ended.ended, ended.error, ended.exit_code = "error", str(error), 1
    except (InputError, WhereError, LimitError, ConflictBudgetError, OSError) as error:
        ended.ended, ended.error, ended.exit_code = "error", str(error), 1
    finally:
        for sink in files.outputs.sinks:
            sink.close()
    return ended


@contextmanager
def _told_on_stderr(settings: RunSettings) -> Iterator[None]:
    """A block whose events are told on stderr; with --quiet, only those that somebody should look at."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLinesOfEvents() if settings.log == "json" else TextLines())
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
    run: TopicRun, ended: _Ended, asked: Asked, queries: Sequence[Query], compile_seconds: float, seconds: float
) -> dict[str, Any]:
    """What summary and `--stats` say; secrets are in none of it."""
    settings, query = asked.settings, queries[0]
    engine = run.engine or rpq.Engine(*queries, **_of_engines(settings))
    known = figures_of_engine(engine)
    counted = run.figures(ended.ended)
    window, slide = told(query.window)
    of_one = ("window", "slide", "paths", "semantics", "columns")
    no_single: Mapping[str, Any] = dict.fromkeys(of_one) if asked.entries else {}
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
        **({"patterns": explained} if (explained := explanations_of(engine)) else {}),
        **no_single,
        **({"queries": figures_of_queries(engine, asked)} if asked.entries else {}),
        "kafka": {name: value for name, value in asdict(counted).items() if name in _TOLD},
        "version": __version__,
    }
