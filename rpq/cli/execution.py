"""A run from its options to its exit status, step by step."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from functools import cache
from typing import Any

import click

import rpq
from rpq.cli.asked import Asked, asked_of
from rpq.cli.checkpoint import AnotherRunError, Position, Resumed, read_checkpoint
from rpq.cli.compiling import compile_kernels
from rpq.cli.identity import identity_of
from rpq.cli.interrupts import Interrupts
from rpq.cli.labels_seen import LabelsSeen
from rpq.cli.opened_input import are_regular, opened_input
from rpq.cli.progress import ProgressLine
from rpq.cli.refusals import refuse
from rpq.cli.run_figures import figures_of_queries
from rpq.cli.run_outputs import Outputs, open_outputs, output_names
from rpq.cli.session import Session
from rpq.cli.settings import RunSettings, max_ahead_of
from rpq.cli.static_input import load_static
from rpq.cli.told import tell, warnings_of
from rpq.errors import InputError, QueryError, RpqError
from rpq.kafka.topic_names import is_topic
from rpq.readers.deletions import Deletions
from rpq.readers.where import WhereError
from rpq.stream.window import WindowTextError, window_of


def execute(settings: RunSettings) -> int:
    """Run, write the summary, and return the exit status; usage errors are click's exceptions."""
    asked = asked_of(settings)
    refuse(asked)
    _import_kernels()
    if any(map(is_topic, settings.inputs)):
        from rpq.cli.topic_execution import execute_topics

        return execute_topics(asked)
    started = time.perf_counter()

    opened = opened_input(settings)
    queries = asked.queries(unit=opened.time_unit, integers=False)
    max_ahead = max_ahead_of(settings, opened.time_unit)
    identity = identity_of(asked, queries)
    interrupts = Interrupts()
    begun = opened.begun(queries, interrupts)
    if begun.integers:
        queries = asked.queries(unit=opened.time_unit, integers=True)

    compile_seconds = compile_kernels(
        queries,
        integers=begun.integers,
        threads=settings.threads,
        witness=settings.witness,
        state=settings.checkpoint is not None,
        quiet=settings.quiet,
    )

    resumed = _resumed(settings, identity, opened.time_unit, max_ahead)
    engine = resumed.engine if resumed else _new_engine(settings, queries, opened.time_unit, max_ahead)
    static_edges = _load_static(settings, None if resumed else engine, begun.labels_seen)
    session = Session(
        settings,
        engine=engine,
        reader=opened.reader,
        batches=begun.batches,
        open_outputs=lambda position: _open_outputs(asked, queries, position),
        deletions=_deletions(settings, queries),
        identity=identity,
        position=resumed.position if resumed else None,
        started=started + compile_seconds,
    )
    with interrupts:
        try:
            session.run(interrupts, _progress(asked))
        except (AnotherRunError, WhereError) as error:  # of a pipe, conditions are held against its columns late
            raise click.UsageError(str(error)) from error
        except RpqError as error:  # an output or a checkpoint that cannot be gone on with
            raise click.ClickException(str(error)) from error
    if session.is_output_gone or session.error is not None:
        _let_go_of_standard_output()

    figures = session.figures(compile_seconds=compile_seconds) | {"labels_never_seen": begun.labels_seen.never_seen}
    figures |= {"static_edges": static_edges} if settings.static else {}
    if asked.entries:
        no_single = dict.fromkeys(("window", "slide", "paths", "semantics", "columns"))
        figures |= no_single | {"queries": figures_of_queries(session.engine, asked)}
    warnings = [*warnings_of(queries, settings), *opened.reader.warnings, *begun.labels_seen.warnings()]
    tell(session, figures, settings, warnings=warnings)
    return session.exit_code


def _import_kernels() -> None:
    """Bring in numba, which takes a while and is no part of the run."""
    _ = rpq.warm_up


def _resumed(
    settings: RunSettings, identity: dict[str, Any], unit: str | None, max_ahead: int | str | None
) -> Resumed | None:
    """The checkpoint to go on from, if there is one."""
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
    keep = _kept(settings, unit)
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


def _kept(settings: RunSettings, unit: str | None) -> rpq.Window | None:
    """The window all edges of which are kept; it slides as the queries do, or by one unit of the stream's time."""
    if settings.keep is None:
        return None
    try:
        window = window_of(settings.keep, settings.slide or 1, unit=unit)
    except WindowTextError as error:
        raise click.BadParameter(str(error), param_hint="--keep") from error
    if not isinstance(window, rpq.Window):
        raise click.BadParameter("what is kept is a window of time, such as 30d", param_hint="--keep")
    return window


def _load_static(settings: RunSettings, engine: rpq.Engine | None, labels_seen: LabelsSeen) -> int:
    """Load the edges without time, which an engine that was restored has already; how many there are."""
    if not settings.static:
        return 0
    try:
        return load_static(settings, engine, labels_seen)
    except InputError as error:
        raise click.ClickException(str(error)) from error


def _open_outputs(asked: Asked, queries: Sequence[rpq.Query], position: Position | None) -> Outputs:
    """Open the outputs; those who read them while the run lasts may follow where the input does not end, or is resumed."""
    settings = asked.settings
    return open_outputs(asked, queries, position, grows=settings.checkpoint is not None or not are_regular(settings.inputs))


def _deletions(settings: RunSettings, queries: Sequence[rpq.Query]) -> Deletions | None:
    """What makes up deletes, of edges that any query uses, in the longest of their windows."""
    if not settings.deletes:
        return None
    windows = [query.window for query in queries]
    if any(window.kind != "time" for window in windows):
        raise click.UsageError("--deletes are of edges in windows of time, not of count windows and unbounded ones")
    longest = max(windows, key=lambda window: window.size)
    asking = list({query.expression: query for query in queries}.values())  # thousands may ask for a few expressions
    return Deletions(
        size=longest.size,
        slide=longest.slide,
        percent=settings.deletes,
        seed=settings.seed,
        is_relevant=cache(lambda label: any(query.reads(label) for query in asking)),
    )


def _progress(asked: Asked) -> ProgressLine:
    """The line of progress, which a terminal that shows rows has no place for."""
    shows_rows = "-" in output_names(asked) and sys.stdout.isatty()
    return ProgressLine(shown=not asked.settings.quiet and not shows_rows)


def _let_go_of_standard_output() -> None:
    """Throw away what standard output does not take, or Python complains of it when it ends."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
