"""Runs over files that several processes evaluate (`--jobs`)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import click
import pyarrow as pa

from rpq.cli.inputs import FileSlice, are_regular
from rpq.cli.options import is_local
from rpq.cli.request import RunRequest, RunSettings, read_request
from rpq.cli.run_outputs import SinkOutputs, output_names
from rpq.cli.run_parts import RunParts
from rpq.engine.machine_memory import default_limit
from rpq.errors import QueryError
from rpq.kafka.topic_names import is_topic
from rpq.run.divided_run import DividedEngine

if TYPE_CHECKING:
    from rpq.engine.engine import Engine


@dataclass(frozen=True, kw_only=True)
class RunWork:
    """The input of a process that evaluates chunks of a run: options, the unit of times, and the kind of vertices."""

    settings: RunSettings
    unit: str | None
    integers: bool

    @cached_property
    def _parts(self) -> RunParts:
        memory_limit = self.settings.memory_limit or default_limit() // self.settings.jobs
        settings = replace(self.settings, memory_limit=memory_limit, quiet=True)
        return RunParts(request=read_request(settings), unit=self.unit, started=time.monotonic())

    def make_engine(self) -> Engine:
        """Return a new engine with the queries and the static edges of the run."""
        return self._parts.make(integers=self.integers)

    def open_output(self, folder: str) -> SinkOutputs:
        """Return the outputs of a chunk, as parts of those of the run in files of a folder."""
        parts = self._parts
        return SinkOutputs(parts.request, parts.queries, grows=False, times=parts.times, parts=folder)

    def slice_of(self, tuples: pa.RecordBatch) -> FileSlice:
        """Return tuples as a slice of the input."""
        return FileSlice(columns=tuples)


def divided_engine(
    parts: RunParts,
    output: SinkOutputs,
    *,
    integers: bool,
    progress: Callable[[], tuple[int, int | None]],
    check: Callable[[], None],
) -> DividedEngine:
    """Return the engine of a run with `--jobs`, whose chunks are appended to `output`. Raises a usage error."""
    try:
        return DividedEngine(
            parts.make(integers=integers),
            RunWork(settings=parts.settings, unit=parts.unit, integers=integers),
            jobs=parts.settings.jobs,
            append=output.append,
            progress=progress,
            check=check,
        )
    except QueryError as error:
        raise click.UsageError(f"--jobs: {error}") from error


def check_jobs(request: RunRequest) -> None:
    """Raise a usage error for options that several jobs exclude."""
    settings = request.settings
    if settings.jobs == 1:
        return
    if any(map(is_topic, settings.inputs)) or not are_regular(settings.inputs):
        raise click.UsageError("--jobs needs files as input, which can be read to their end; use --threads for others")
    if settings.checkpoint is not None:
        raise click.UsageError("--jobs: parts of the stream are evaluated at the same time; leave out --checkpoint")
    if not all(map(is_local, output_names(request))):
        raise click.UsageError("--jobs writes rows to files, part by part; use --threads for topics, tables and other sinks")
