"""The input of a run: opened, and looked at as far as it takes to know what its vertices are."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import click
import pyarrow as pa

from rpq.cli.interrupts import Interrupts, watched
from rpq.cli.labels_seen import LabelsSeen
from rpq.cli.settings import RunSettings
from rpq.errors import InputError
from rpq.queries.query import Query
from rpq.readers import Batch, ColumnNames, Reader, WhereError, open_reader, parse_where


@dataclass(frozen=True, kw_only=True)
class OpenedInput:
    """What is read, and the unit of its timestamps as the reader or else an option tells it."""

    settings: RunSettings
    reader: Reader
    time_unit: str | None

    def begun(self, queries: Sequence[Query], interrupts: Interrupts) -> BegunInput:
        """Begin to read, for queries whose labels are looked for, until an interrupt.

        The vertices of a pipe are not looked at where they are text anyway: its first line may be long in coming.
        """
        are_files = are_regular(self.settings.inputs)
        labels_seen = LabelsSeen(queries)
        batches = labels_seen.observed(watched(self.reader, interrupts, may_wait=not are_files))
        integers = False
        if are_files or self.settings.format == "jsonl":
            batches, integers = _peek(batches)
        return BegunInput(batches=batches, integers=integers, labels_seen=labels_seen)


@dataclass(frozen=True, kw_only=True)
class BegunInput:
    """The tuples of an input, whether its vertices are integers, and the labels that have come so far."""

    batches: Iterator[Batch]
    integers: bool
    labels_seen: LabelsSeen


def opened_input(settings: RunSettings) -> OpenedInput:
    """Open what the settings speak of; a usage error, or another one of click's, if that cannot be."""
    try:
        reader = _open(settings)
    except InputError as error:
        if error.file is None:  # not about an input, but about what was asked for
            raise click.UsageError(str(error)) from error
        raise click.ClickException(str(error)) from error
    except WhereError as error:
        raise click.UsageError(str(error)) from error
    if settings.time_unit and reader.time_unit and settings.time_unit != reader.time_unit:
        raise click.UsageError(
            f"--time-unit {settings.time_unit}: the timestamps of this input are in {reader.time_unit}"
        )
    return OpenedInput(settings=settings, reader=reader, time_unit=settings.time_unit or reader.time_unit)


def are_regular(inputs: Sequence[str]) -> bool:
    """Whether all inputs are files and folders, which do not keep anybody waiting."""
    return all(path != "-" and (os.path.isfile(path) or os.path.isdir(path)) for path in inputs)


def _open(settings: RunSettings) -> Reader:
    try:
        columns = ColumnNames.parse(settings.columns, label=settings.label)
    except InputError as error:
        raise click.UsageError(f"{'--columns' if settings.columns else '--label'}: {error}") from error
    return open_reader(
        settings.format,
        settings.inputs,
        on_error=settings.on_error,
        limit=settings.limit,
        drop_self_loops=settings.drop_self_loops,
        columns=columns,
        where=parse_where(settings.where) if settings.where is not None else None,
        time_unit=settings.time_unit,
        streams=settings.streams,
    )


def _peek(batches: Iterator[Batch]) -> tuple[Iterator[Batch], bool]:
    """Tell from the first batch whether vertices are integers, and give it back; errors come when it is read again."""
    try:
        first = next(batches, None)
    except (InputError, WhereError) as error:
        return _raising(error), False
    if first is None:
        return iter(()), False
    return chain([first], batches), pa.types.is_integer(first.columns.schema.field("source").type)


def _raising(error: Exception) -> Iterator[Batch]:
    raise error
    yield  # makes it a generator
