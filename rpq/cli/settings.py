"""The options of `rpq run` as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import click

from rpq.cli.query_options import QueryOptions
from rpq.stream.durations import DurationError, parse_duration


def max_ahead_of(settings: RunSettings, unit: str | None, *, durations: bool = False) -> int | str | None:
    """How far ahead of the stream time a tuple may be, for an engine over timestamps of this unit, or of none.

    A usage error for a length that is none there; without a unit it may be a duration where `durations` are.
    """
    text = settings.max_ahead
    if text is None or text.endswith("x"):
        return text
    try:
        if unit is None and durations and not text.isdecimal():
            return text
        return parse_duration(text, unit=unit)
    except DurationError as error:
        hint = "; --time-unit says the unit of the timestamps" if unit is None else ""
        raise click.BadParameter(f"{error}{hint}", param_hint="--max-ahead") from error


@dataclass(frozen=True, kw_only=True)
class RunSettings(QueryOptions):
    """There is an `expression`, with a window and a slide, or else a file of `queries`, for which these are defaults.

    `streams` are those that the inputs belong to, each a name or None.
    """

    expression: str | None = None
    query_file: str | None = None
    queries_file: str | None = None
    inputs: tuple[str, ...]
    streams: tuple[str | None, ...] = ()
    format: str
    rdf_syntax: str | None = None
    rdf_time: str | None = None
    rdf_graph: Literal["stream", "event"] | None = None
    events: Literal["window", "alone"] | None = None
    static: tuple[str, ...] = ()
    static_format: str = "edges"
    time_unit: str | None = None
    columns: str | None = None
    label: str | None = None
    where: str | None = None
    output: str | None = None
    witness: bool = False
    threads: int = 1
    memory_limit: int | None = None
    max_rows: int | None = 10_000_000
    keep: str | None = None
    max_ahead: str | None = None
    limit: int | None = None
    drop_self_loops: bool = False
    deletes: float = 0.0
    seed: int = 0
    late: str | None = None
    on_error: str = "stop"
    checkpoint: str | None = None
    stats: str | None = None
    quiet: bool = False
    kafka_config: str | None = None
    max_delay: float = 1.0
    upsert: bool = False
    until_end: bool = False
    checkpoint_every: float = 30.0
    metrics: str | None = None
    log: str = "text"
