"""The parts of a run besides its source and its sink, which runs over files and over topics share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import click
import pyarrow as pa

import rpq
from rpq.cli.checkpoint import differences, identity_of
from rpq.cli.inputs import FileSource, LabelMonitor, load_nodes, load_static, node_properties
from rpq.cli.options import advice_for_command
from rpq.cli.outputs.sinks import with_times
from rpq.cli.reporting import compile_kernels
from rpq.cli.request import RunRequest, RunSettings, keep_window, max_ahead_of
from rpq.cli.run_outputs import SinkOutputs, sink_outputs
from rpq.errors import QueryError
from rpq.language.readings import properties_of
from rpq.run.checkpoint import Checkpoint, PositionFormat

if TYPE_CHECKING:
    from rpq.kafka.topic_source import TopicSource


@dataclass(kw_only=True)
class RunParts:
    """The parts of a run besides its source and its sink: queries, engines with their static edges, and the checkpoint.

    `unit` is that of the input's timestamps, and `started` the time at which the run began.  Raises errors of click.
    """

    request: RunRequest
    unit: str | None
    started: float
    labels: LabelMonitor = field(init=False)
    static_edges: int = 0
    compile_seconds: float = 0.0
    has_integers: bool = False
    rejected_nodes: int = 0
    node_rejections: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        settings = self.settings = self.request.settings
        self.queries = self.request.queries(unit=self.unit, integers=False)
        self.labels = LabelMonitor(self.queries, has_nodes=bool(settings.nodes))
        self.times = _time_type(settings, self.unit)
        self.keep = keep_window(settings, self.unit)
        self.identity = identity_of(self.request, self.queries)
        self.options: dict[str, Any] = {
            "threads": settings.threads,
            "memory_limit": settings.memory_limit,
            "max_rows": settings.max_rows,
            "witness": settings.witness,
            "max_ahead": max_ahead_of(settings, self.unit),
            "report_empty": settings.report_empty,
        }
        # An option of a new engine alone: a state knows the properties that were kept.
        self.node_options: dict[str, Any] = {}
        if (names := node_properties(settings)) is not None:
            self.node_options["node_properties"] = names

    def compile(self, *, integers: bool) -> None:
        """Compile the kernels of the queries, over integers or texts as vertices."""
        if integers:
            self.queries, self.has_integers = self.request.queries(unit=self.unit, integers=True), True
        self.compile_seconds += compile_kernels(
            self.queries,
            integers=integers,
            threads=self.settings.threads,
            witness=self.settings.witness,
            quiet=self.settings.quiet,
        )

    def outputs(self, *, check: Callable[[], None], waits: bool, grows: bool) -> SinkOutputs:
        """Return the output of a run whose rows do not go to topics."""
        return sink_outputs(
            self.request,
            self.queries,
            identity=self.identity,
            unit=self.unit,
            times=self.times,
            check=check,
            waits=waits,
            grows=grows,
        )

    def run_options(self, source: FileSource | TopicSource, form: PositionFormat) -> dict[str, Any]:
        """Return the options of the run from a source, besides those of this kind of source."""
        checkpoint = None
        if self.settings.checkpoint is not None:
            checkpoint = Checkpoint(
                self.settings.checkpoint,
                form,
                identity=self.identity,
                differences=partial(differences, unit=self.unit),
                restore=self.restore,
            )
        return {
            "make_engine": lambda: self.make(integers=source.integers),
            "names_queries": self.request.names_queries,
            "checkpoint": checkpoint,
            "started": self.started + self.compile_seconds,
            "convert": partial(with_times, times=self.times),
        }

    def make(self, *, integers: bool) -> rpq.Engine:
        """Return a new engine.  Raises `InputError` for static edges that cannot be read."""
        if integers and not self.has_integers:  # which may be known at the first tuple only
            self.compile(integers=True)
        try:
            engine = rpq.Engine(
                *self.queries,
                **self.options,
                **self.node_options,
                keep=self.keep,
                events=self.settings.events,
                edges=self.settings.edges,
                time_unit=self.unit,  # type: ignore[arg-type]
            )
            properties = sorted(frozenset().union(*map(properties_of, self.queries)))
            self.static_edges = load_static(self.settings, engine, self.labels, properties=properties)
            if self.settings.nodes:
                nodes = load_nodes(self.settings, engine, unit=self.unit, integers=integers)
                self.rejected_nodes, self.node_rejections = nodes
        except QueryError as error:
            raise click.UsageError(advice_for_command(str(error))) from error
        return engine

    def restore(self, path: str) -> rpq.Engine:
        """Return the engine of a checkpoint, which has its static edges already."""
        engine = rpq.Engine.restore(path, **self.options)
        self.static_edges = load_static(self.settings, None, self.labels)
        return engine


def _time_type(settings: RunSettings, unit: str | None) -> pa.DataType | None:
    """Return the type of timestamps if they are written as times, or None.  Raises a usage error if they have no unit."""
    if settings.times is None:
        return None
    if unit is None:
        raise click.UsageError(
            f"--times {settings.times}: the timestamps of this input are plain numbers; expected --time-unit, the unit in "
            "which they count from 1970, or timestamps in ISO 8601"
        )
    return pa.timestamp(unit, "UTC")
