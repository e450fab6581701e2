"""What is told when a run has ended: a summary, what was left out, what ended it, and a file of figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import click

from rpq.cli.settings import RunSettings
from rpq.cli.summary import summary_text, write_stats
from rpq.queries.kinds import single_thread_warning

if TYPE_CHECKING:
    from rpq.queries.query import Query


class Ended(Protocol):
    """A run that has ended: `error` if that was why, the first messages about what was left out, and about roots."""

    error: str | None
    set_aside: list[str]

    @property
    def rejections(self) -> list[str]: ...


def tell(session: Ended, figures: dict[str, Any], settings: RunSettings, *, warnings: Sequence[str]) -> None:
    """Write the figures to stderr and to the file of `--stats`, and what ended the run as the last line."""
    if not settings.quiet:
        click.echo(summary_text(figures), err=True)
        for message in warnings:
            click.echo(f"warning: {message}", err=True)
    try:
        if settings.stats:
            write_stats(settings.stats, figures)
    except OSError as error:
        raise click.ClickException(str(error)) from error
    finally:
        _report(session, figures, settings)


def warnings_of(queries: Sequence[Query], settings: RunSettings) -> list[str]:
    """What queries may mean otherwise than they are understood, and which of them the threads do not divide."""
    names = (f"query {query.name!r}: " if settings.queries_file else "" for query in queries)
    told = zip(names, (getattr(query, "warnings", ()) for query in queries), strict=True)
    threads = single_thread_warning(queries, settings.threads)
    return [*(name + warning for name, warnings in told for warning in warnings), *([threads] if threads else [])]


def _report(session: Ended, figures: dict[str, Any], settings: RunSettings) -> None:
    """Say on stderr what was left out, and what ended the run."""
    for message in session.rejections:
        click.echo(f"rejected: {message}", err=True)
    if not settings.quiet:
        for message in session.set_aside:
            click.echo(message, err=True)
    if settings.quiet and figures["rejected"]:
        click.echo(f"rejected: {figures['rejected']:,} lines", err=True)
    if session.error is not None:
        click.echo(f"Error: {session.error}", err=True)
