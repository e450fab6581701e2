"""A server from the options of its command to its exit status."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import sys
from collections.abc import Sequence
from typing import Any

import click

import rpq
from rpq.automata.errors import ExpressionError
from rpq.cli.asked import entries_of
from rpq.cli.compiling import compile_kernels
from rpq.cli.labels_seen import LabelsSeen
from rpq.cli.named_inputs import named_inputs
from rpq.cli.opened_input import opened_input
from rpq.cli.settings import RunSettings
from rpq.cli.static_input import load_static
from rpq.errors import InputError, QueryError, RpqError, SparqlError
from rpq.kafka.topic_names import is_topic
from rpq.queries.kinds import undivided
from rpq.queries.language import OF_PATTERNS
from rpq.queries.query_file import AskedQuery
from rpq.serve.application import Application
from rpq.serve.asked_queries import FIELDS, QueryDefaults, query_asked
from rpq.serve.file_feed import FileFeed
from rpq.serve.guards import Admission
from rpq.serve.playback import Playback
from rpq.serve.ready_kernels import ReadyKernels
from rpq.serve.running_server import Feed, address_of, listening, run_server
from rpq.serve.serve_limits import ServeLimits
from rpq.serve.service import EngineOptions, Service
from rpq.stream.window_text import WindowTextError, window_of

SWITCH_SECONDS = 0.001
"""So long the engine's thread keeps the interpreter, at most, while a request waits."""

_DEFAULTS = ("window", "slide", "paths", "semantics", "simple_budget", "on_budget", "language", *OF_PATTERNS)


def serve_with(
    *,
    expressions: Sequence[str],
    host: str,
    port: int,
    token: str | None,
    hosts: Sequence[str],
    origins: Sequence[str],
    inputs: Sequence[str],
    playback_speed: float | None,
    checkpoint: str | None,
    checkpoint_every: float,
    most_body: int,
    most_queries: int,
    most_followers: int,
    most_lag: int,
    kept_changes: int,
    **options: Any,
) -> int:
    """Serve until a signal asks for the end; the exit status.  Usage errors are click's exceptions."""
    paths, streams = named_inputs(inputs)
    settings = RunSettings(inputs=paths, streams=streams, checkpoint=checkpoint, **options)
    limits = ServeLimits(
        body_bytes=most_body, queries=most_queries, followers=most_followers, lag_rows=most_lag, kept_rows=kept_changes
    )
    if token is not None and not token.strip():
        raise click.UsageError("--token: is empty; expected what nobody guesses")
    defaults = _defaults(settings)
    asked = _asked(expressions, settings, defaults)
    listener = _listening(host, port)
    with listener:
        _tell_on_stderr(settings.quiet)
        queries = [query_asked(fields, defaults) for fields in asked]
        compile_kernels(
            queries or [rpq.Query("a", window=rpq.Window(size=1, slide=1))],
            integers=False,
            threads=settings.threads,
            state=checkpoint is not None,
            quiet=settings.quiet,
        )
        service = _service(settings, defaults, limits, checkpoint_every)
        _register(service, asked, queries)
        playback, feeds = _feeds(service, settings, playback_speed)
        names = [*hosts, *([] if host in ("", "0.0.0.0", "::") else [host])]
        admission = Admission(hosts=names, origins=tuple(origins), token=token)
        kernels = ReadyKernels(threads=settings.threads, state=checkpoint is not None)
        application = Application(service, admission=admission, playback=playback, kernels=kernels)
        sys.setswitchinterval(SWITCH_SECONDS)
        # What is there by now stays: the collector need not go through it each time.
        gc.collect()
        gc.freeze()

        def ready(end: object) -> None:
            if token is None and listener.getsockname()[0] not in ("127.0.0.1", "::1"):
                warning = "whoever reaches this address may ask for everything; --token keeps others out"
                click.echo(f"warning: {warning}", err=True)
            # Of queries that are registered the service tells.
            if service.resumed and (message := undivided(service.engine.queries, settings.threads)):
                click.echo(f"warning: {message}", err=True)
            resumed = f", goes on at position {service.position:,}" if service.resumed else ""
            click.echo(f"serving at {address_of(listener)}{resumed}", err=True)

        ended = asyncio.run(run_server(service, application, [listener], feeds=feeds, ready=ready))
    if service.failure is not None:
        click.echo(f"Error: {service.failure}", err=True)
        return 1
    return 130 if ended == signal.SIGINT else 0


def _defaults(settings: RunSettings) -> QueryDefaults:
    values = {name: getattr(settings, name) for name in _DEFAULTS}
    usual = {"paths": "walk", "simple_budget": 10_000_000, "on_budget": "error", "distinct": False}
    fields = {name: value for name, value in values.items() if value is not None and value != usual.get(name)}
    fields = {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}
    settings.refuse_windows(unit=settings.time_unit)
    return QueryDefaults(fields=fields, time_unit=settings.time_unit)


def _asked(expressions: Sequence[str], settings: RunSettings, defaults: QueryDefaults) -> list[dict[str, Any]]:
    """The fields of the queries that the command line asks for."""
    if settings.queries_file is not None:
        if expressions:
            raise click.UsageError("--queries has all queries; put the others into it")
        return [_fields_of(entry) for entry in entries_of(settings.queries_file, settings)]
    found: list[dict[str, Any]] = [{"expression": expression} for expression in expressions]
    for fields in found:
        try:
            query_asked(fields, defaults)
        except (QueryError, ValueError) as error:
            of_text = error.__cause__ if isinstance(error.__cause__, (ExpressionError, SparqlError)) else error
            raise click.UsageError(f"{fields['expression']}: {of_text}") from error
    return found


def _fields_of(entry: AskedQuery) -> dict[str, Any]:
    values = {name: getattr(entry, name) for name in FIELDS if name != "expression"}
    fields = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
    return {"expression": entry.expression, **{name: value for name, value in fields.items() if value is not None}}


def _listening(host: str, port: int) -> Any:
    try:
        return listening(host, port)
    except OSError as error:
        raise click.UsageError(f"--host {host} --port {port}: cannot be served at: {error.strerror or error}") from error


def _tell_on_stderr(quiet: bool) -> None:
    for name in ("rpq.serve", "rpq.kafka", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.setLevel(logging.WARNING if quiet or name == "uvicorn.error" else logging.INFO)
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s", "%H:%M:%S"))
        logger.addHandler(handler)
        logger.propagate = False


def _service(settings: RunSettings, defaults: QueryDefaults, limits: ServeLimits, seconds: float) -> Service:
    of_engine: dict[str, Any] = {
        "threads": settings.threads,
        "memory_limit": settings.memory_limit,
        "max_rows": settings.max_rows,
    }
    keep = _kept(settings)

    def make() -> rpq.Engine:
        engine = rpq.Engine(keep=keep, time_unit=settings.time_unit, **of_engine)  # type: ignore[arg-type]
        load_static(settings, engine, LabelsSeen([]))
        return engine

    try:
        return Service(
            EngineOptions(make=make, restore=lambda path: rpq.Engine.restore(path, **of_engine)),
            defaults=defaults,
            limits=limits,
            checkpoint=settings.checkpoint,
            checkpoint_seconds=seconds,
        )
    except InputError as error:
        raise click.ClickException(str(error)) from error
    except (RpqError, OSError) as error:
        raise click.UsageError(str(error)) from error


def _kept(settings: RunSettings) -> rpq.Window | None:
    """The window all edges of which are kept."""
    if settings.keep is None:
        return None
    try:
        window = window_of(settings.keep, settings.slide or 1, unit=settings.time_unit)
    except WindowTextError as error:
        hint = "; --time-unit says the unit of the timestamps" if settings.time_unit is None else ""
        raise click.BadParameter(f"{error}{hint}", param_hint="--keep") from error
    if not isinstance(window, rpq.Window):
        raise click.BadParameter("what is kept is a window of time, such as 30d", param_hint="--keep")
    return window


def _register(service: Service, asked: Sequence[dict[str, Any]], queries: Sequence[rpq.Query]) -> None:
    """Register what the command line asks for, but for what runs already."""
    running = {query.name: query for query in service.engine.queries}
    try:
        for fields, query in zip(asked, queries, strict=True):
            before = running.get(query.name)
            if before is None:
                service.register(fields, query)
            elif before != query:
                raise click.UsageError(
                    f"{service.checkpoint}: has another query named {query.name!r}: {before!r}; give this one another name"
                )
        service.settle()
    except RpqError as error:
        raise click.UsageError(str(error)) from error


def _feeds(service: Service, settings: RunSettings, speed: float | None) -> tuple[Playback | None, list[Feed]]:
    if not settings.inputs:
        return None, []
    if any(map(is_topic, settings.inputs)):
        if not all(map(is_topic, settings.inputs)):
            raise click.UsageError("--input: are topics and files; give one of the two, and post the rest")
        from rpq.serve.topic_feed import topic_feed

        return None, [topic_feed(service, settings)]
    opened = opened_input(settings)
    playback = Playback(speed=speed, time_unit=opened.time_unit)
    return playback, [FileFeed(service, opened, playback, on_error=settings.on_error)]
