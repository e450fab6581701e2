"""The request of a run: the options of `rpq run` as values, and the queries that they describe.

A run has one query, given as text, in a file, or by its name, or it has the queries of a file.  This module is imported for
the help of `rpq run`: engine and outputs are imported in functions only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Literal

import click

from rpq.language.options import OPTIONS, WrittenOptions
from rpq.language.query_file import ArgumentPlace, QueryEntry, QueryFileError, query_entry, read_query_file
from rpq.stream.durations import DurationError, parse_duration
from rpq.stream.window import CountWindow, UnboundedWindow, Window, WindowTextError, kind_of_text, window_of

if TYPE_CHECKING:
    from rpq.kafka import SchemaRegistry
    from rpq.language.query import Query
    from rpq.readers import EdgeRules

class MissingWindowError(click.UsageError):
    """A window, or its slide, that no option names."""


COMMAND = ArgumentPlace(file="", name_of=lambda field: OPTIONS[field].flag if field in OPTIONS else f"--{field}")
"""The options of a command as the place of a query."""


def check_window(settings: WrittenOptions) -> None:
    """Raise a usage error if there is no window, or a time window without a slide."""
    if settings.window is None:
        raise MissingWindowError(
            "Missing option '--window': how long an edge counts, such as --window 1h --slide 1m, --window count:1000 or "
            "--window unbounded."
        )
    if settings.slide is None and kind_of_text(settings.window) == "time":
        example = "1" if settings.window.isdecimal() else "1m"
        raise MissingWindowError(
            f"Missing option '--slide': the steps in which the window moves, such as --slide {example}."
        )


def query_of_command(settings: WrittenOptions, text: str, *, has_static: bool = False) -> QueryEntry:
    """Return the query of a text and the options of a command.  Raises a usage error.

    A text in SPARQL may declare all windows that it reads, or read static edges alone.
    """
    try:
        entry = query_entry({"query": text, **settings.given_options}, place=COMMAND)
    except QueryFileError as error:
        raise click.UsageError(str(error)) from error
    if entry.parsed.notation != "sparql" or settings.window is not None or settings.slide is not None:
        check_window(settings)
    elif not has_static:
        from rpq.language.sparql.algebra import reads_default

        if reads_default(entry.parsed.parsed.body):  # type: ignore[attr-defined]
            raise click.UsageError(
                "Missing option '--window', which patterns outside WINDOW <name> { … } read (or --static, the edges "
                "without time)."
            )
    return entry


def queries_of(entries: Iterable[QueryEntry], *, unit: str | None, integers: bool) -> list[Query]:
    """Return the queries for a stream with this time unit, and with integers or texts as vertices."""
    try:
        return [entry.query(unit=unit, integers=integers) for entry in entries]
    except QueryFileError as error:
        is_about_units = unit is None and "has a unit" in str(error)
        hint = "; --time-unit says the unit of the timestamps" if is_about_units else ""
        raise click.UsageError(f"{error}{hint}") from error


def has_default_window(query: Query) -> bool:
    """Return whether a query has a window that its text does not declare: always true, except for SPARQL."""
    return bool(getattr(query, "has_default", True))


def max_ahead_of(settings: RunSettings, unit: str | None, *, durations: bool = False) -> int | str | None:
    """Return the engine's `max_ahead`, the limit on how far a tuple may be ahead of the stream time, in this unit or in
    none.

    Raises a usage error for a duration that the unit cannot express; without a unit it stays a text with `durations`.
    """
    text = settings.max_ahead
    if text is None or isinstance(text, int) or text.endswith("x"):
        return text
    try:
        if unit is None and durations and not text.isdecimal():
            return text
        return parse_duration(text, unit=unit)
    except DurationError as error:
        raise click.BadParameter(f"{error}{unit_hint(unit)}", param_hint="--max-ahead") from error


def keep_window(settings: RunSettings, unit: str | None) -> Window | UnboundedWindow | None:
    """Return the window of `--keep`, None without it; it slides as the queries do, or by one unit of the stream's time."""
    if settings.keep is None:
        return None
    try:
        slide = None if kind_of_text(settings.keep) == "unbounded" else settings.slide or 1
        window = window_of(settings.keep, slide, unit=unit)
    except WindowTextError as error:
        raise click.BadParameter(f"{error}{unit_hint(unit)}", param_hint="--keep") from error
    if isinstance(window, CountWindow):
        raise click.BadParameter("expected a time window, such as 30d, or unbounded", param_hint="--keep")
    return window


def unit_hint(unit: str | None) -> str:
    """Return the end of a message about a duration that needs a unit, if there is none."""
    return "; --time-unit says the unit of the timestamps" if unit is None else ""


@dataclass(frozen=True, kw_only=True)
class RunSettings(WrittenOptions):
    """All options of `rpq run`, and of `rpq.run_topics`, where `rules` are those of `edges_from`.

    In a command there is an `expression`, with a window and a slide, or else a `queries_file`, for whose queries these are
    defaults.
    `streams` has a name or None for each of the `inputs`, and `static_graphs` for each of `static`.
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
    rdf_base: str | None = None
    events: Literal["window", "alone"] | None = None
    edges: Literal["triple", "parallel", "id"] = "triple"
    static: tuple[str, ...] = ()
    static_graphs: tuple[str | None, ...] = ()
    static_format: str = "edges"
    nodes: tuple[str, ...] = ()
    node_columns: str | None = None
    node_properties: str | None = None
    edge_properties: str | None = None
    time_unit: str | None = None
    columns: str | None = None
    label: str | None = None
    edges_from: str | None = None
    rules: EdgeRules | None = None
    changes: str | None = None
    time_format: str | None = None
    vertices: Literal["text"] | None = None
    trim: bool = False
    where: str | None = None
    times: Literal["iso"] | None = None
    message: str | None = None
    witness: bool = False
    threads: int = 1
    jobs: int = 1
    memory_limit: int | None = None
    max_rows: int | None = 10_000_000
    keep: str | None = None
    max_ahead: int | str | None = None
    limit: int | None = None
    flush: bool = True
    report_empty: bool = False
    drop_self_loops: bool = False
    late: str | None = None
    on_error: str = "stop"
    checkpoint: str | None = None
    stats: str | None = None
    quiet: bool = False
    kafka_config: str | Mapping[str, str] | None = None
    schema_registry: str | SchemaRegistry | None = None
    schema_registry_config: str | None = None
    max_delay: float = 1.0
    upsert: bool = False
    replace: bool = False
    webhook_batch: int = 100
    webhook_body: str | None = None
    webhook_secret: str | None = None
    webhook_give_up: float = 600.0
    webhook_failed: str | None = None
    until_end: bool = False
    checkpoint_every: float = 30.0
    metrics: str | None = None
    log: str = "text"


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """The queries of a run before its input is known: those of a file, one of the options, or `python_queries`."""

    settings: RunSettings
    entries: tuple[QueryEntry, ...]
    python_queries: tuple[Query, ...] = ()

    @property
    def names_queries(self) -> bool:
        """True if rows have a column with the name of the query: those of a file, and of several queries."""
        return self.settings.queries_file is not None or len(self.entries) > 1

    @property
    def further_columns(self) -> tuple[str, ...]:
        """The columns of an input besides those of every tuple: properties, and the ids of edges where they have some."""
        from rpq.language.readings import properties_of
        from rpq.stream.arrays.fields import EDGE

        properties = frozenset().union(*(properties_of(entry.parsed) for entry in self.entries))
        return (*sorted(properties), *((EDGE,) if self.settings.edges == "id" else ()))

    def queries(self, *, unit: str | None, integers: bool) -> list[Query]:
        """Return the queries for a stream with this time unit, and with integers or texts as vertices."""
        return [*self.python_queries] or queries_of(self.entries, unit=unit, integers=integers)


def query_text(
    expression: str | None,
    query: str | None,
    dataset: str | None,
    *,
    queries_file: str | None = None,
    query_file: str | None = None,
) -> str | None:
    """Return the query's text, given as such, in a file, or by name and data set; None if there is a file of queries."""
    if queries_file is not None:
        options = {"EXPRESSION": expression, "--query": query, "--dataset": dataset, "--query-file": query_file}
        used_options = " and ".join(name for name, value in options.items() if value is not None)
        if used_options:
            raise click.UsageError(f"--queries contains all queries; leave out {used_options}, or add it to {queries_file}")
        return None
    ways = {"EXPRESSION": expression, "--query": query, "--query-file": query_file}
    sources = [name for name, value in ways.items() if value is not None]
    if len(sources) > 1:
        raise click.UsageError(f"{' and '.join(sources)} are {'two' if len(sources) == 2 else 'three'} queries; give one")
    if not sources:
        raise click.UsageError(
            "Missing argument 'EXPRESSION' (or --query-file FILE, or --query NAME with --dataset, or --queries FILE)."
        )
    if (query is None) != (dataset is None):
        raise click.UsageError("--query needs --dataset, whose labels the query uses, and --dataset needs --query")
    if query_file is not None:
        return read_query_text(query_file)
    if query is None or dataset is None:
        return str(expression)
    data_sets = entry_points(group="rpq.queries")
    if dataset not in data_sets.names:
        raise click.UsageError(f"unknown data set {dataset!r}: expected one of {', '.join(sorted(data_sets.names))}")
    try:
        return str(data_sets[dataset].load()(query, dataset))
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def read_query_text(path: str) -> str:
    """Return the text of the one query in a file, without surrounding blanks."""
    try:
        with open(path, encoding="utf-8-sig") as file:
            text = file.read().strip()
    except OSError as error:
        raise click.UsageError(f"--query-file {path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise click.UsageError(f"--query-file {path}: is not text in UTF-8") from error
    if not text:
        raise click.UsageError(f"--query-file {path}: is empty; expected a path expression, a pattern, SPARQL or MATCH")
    return text


def read_request(settings: RunSettings) -> RunRequest:
    """Return the request of a run.  Raises a usage error for errors that do not depend on the input."""
    if settings.events == "alone" and settings.window is None:
        settings = replace(settings, window="unbounded")  # the window is the event as a whole
    if settings.queries_file is not None:
        return RunRequest(settings=settings, entries=tuple(read_query_entries(settings.queries_file, settings)))
    entry = query_of_command(settings, str(settings.expression), has_static=bool(settings.static))
    return RunRequest(settings=settings, entries=(replace(entry, output=settings.output),))


def read_query_entries(path: str, settings: WrittenOptions | None = None) -> list[QueryEntry]:
    """Read a file of queries, with the options as defaults.  Raises a usage error if the file is invalid."""
    defaults = {} if settings is None else settings.given_options
    if settings is not None and settings.output is not None:
        defaults["output"] = settings.output
    try:
        entries = read_query_file(path, defaults, default_place=COMMAND)
        _check_outputs(entries, are_written=settings is not None)
    except QueryFileError as error:
        raise click.UsageError(str(error)) from error
    return entries


def _check_outputs(entries: Sequence[QueryEntry], *, are_written: bool) -> None:
    """Check the outputs of queries before any of them is opened; permissions only where they `are_written`."""
    from rpq.cli.options import is_local
    from rpq.cli.outputs.sinks import SinkError, check_suffix
    from rpq.files.destinations import STANDARD_STREAM, WriteError, check_writable

    first: dict[str | None, QueryEntry] = {}  # the first query of each output, which thousands may share
    for entry in entries:
        first.setdefault(entry.output, entry)
    for entry in first.values():
        if entry.output is None or not is_local(entry.output):
            continue
        try:
            check_suffix(entry.output)
            if are_written and entry.output != STANDARD_STREAM:
                check_writable(entry.output)
        except (SinkError, WriteError) as error:
            raise entry.error("output", str(error)) from error
