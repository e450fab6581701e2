"""The options of `rpq run` that say what the input looks like and which of it is wanted, and the way to a reader."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rpq.cli.settings import RunSettings
    from rpq.readers import Reader


def input_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --columns, --label and --where to a command."""
    options = (
        click.option(
            "--columns",
            metavar="COLUMN=NAME,...",
            help="Names that the input has for source, target, label, timestamp, op.",
        ),
        click.option("--label", metavar="LABEL", help="The label of all edges, where the input has no column for it."),
        click.option(
            "--where",
            metavar="CONDITION",
            help="Only tuples for which it holds: \"amount > 1000 and kind in ('buy', 'sell')\".",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def open_input(settings: RunSettings) -> Reader:
    """Open what the settings speak of.  Raises `InputError`, and click's exceptions where an option is wrong."""
    from rpq.errors import InputError
    from rpq.readers import ColumnNames, WhereError, open_reader, parse_where

    try:
        columns = ColumnNames.parse(settings.columns, label=settings.label)
    except InputError as error:
        raise click.UsageError(f"{'--columns' if settings.columns else '--label'}: {error}") from error
    try:
        return open_reader(
            settings.format,
            settings.inputs,
            on_error=settings.on_error,
            limit=settings.limit,
            drop_self_loops=settings.drop_self_loops,
            columns=columns,
            where=parse_where(settings.where) if settings.where is not None else None,
            time_unit=settings.time_unit,
        )
    except WhereError as error:
        raise click.UsageError(str(error)) from error
    except InputError as error:
        if error.file is None:  # not about an input, but about what was asked for
            raise click.UsageError(str(error)) from error
        raise
