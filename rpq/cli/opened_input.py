"""The input of a run: opened, and looked at as far as it takes to know what its vertices are."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import click
import pyarrow as pa

from rpq.cli.interrupts import Interrupts, watched
from rpq.cli.labels_seen import LabelsSeen
from rpq.cli.settings import RunSettings
from rpq.errors import InputError
from rpq.queries.query import Query
from rpq.readers import Batch, ColumnNames, RdfReading, Reader, WhereError, open_reader, parse_where
from rpq.readers.batch import align_to_events
from rpq.readers.format_registry import format_by_name


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
        if self.settings.events:
            batches = align_to_events(batches)
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
    is_rdf = settings.format == "rdf"
    if settings.events and not is_rdf and "columns" not in format_by_name(settings.format).options:
        raise click.UsageError(
            f"--events: tuples of the format {settings.format} have no events; expected edges or jsonl with a column event, "
            "or rdf, where an event is a graph"
        )
    try:
        has_events = settings.events is not None and not is_rdf
        columns = ColumnNames.parse(settings.columns, label=settings.label, has_events=has_events)
    except InputError as error:
        raise click.UsageError(f"{'--columns' if settings.columns else '--label'}: {error}") from error
    graph = settings.rdf_graph
    if settings.events and is_rdf:
        if graph == "stream":
            raise click.UsageError("--events: an event of RDF is a graph, which --rdf-graph stream says is a stream")
        graph = "event"
    given: dict[str, Any] = {"syntax": settings.rdf_syntax, "time": settings.rdf_time, "graph": graph}
    of_rdf = {name: value for name, value in given.items() if value is not None}
    if of_rdf and not is_rdf:
        options = " and ".join(f"--rdf-{name}" for name in of_rdf)
        raise click.UsageError(f"{options}: the format is {settings.format}; expected --format rdf")
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
        rdf=RdfReading(**of_rdf) if of_rdf else None,
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
