"""The request of a run: the options of `rpq run` as values, and the queries that they describe.

A run has one query, given as text, in a file, or by its name, or it has the queries of a file.  This module is imported for
the help of `rpq run`: engine and outputs are imported in functions only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Literal

import click

from rpq.language.notation import MATCH_OPTIONS, ORDER_OPTIONS, PATH_OPTIONS, PATTERN_OPTIONS, language_of
from rpq.stream.durations import DurationError, parse_duration

if TYPE_CHECKING:
    from rpq.language.notation import Language, Matching, OnBudget, Paths, Report, Semantics
    from rpq.language.query import Query
    from rpq.language.query_file import QueryEntry
    from rpq.language.time_order import Order
    from rpq.stream.window import AnyWindow, WindowTextError

OPTION_OF = {
    "sources": "--source",
    "targets": "--target",
    **{name: f"--{name.replace('_', '-')}" for name in (*ORDER_OPTIONS, *PATTERN_OPTIONS, *MATCH_OPTIONS)},
}
"""The command's options by the query's names for them, for options that belong to one kind of queries."""

NOUN = {"path": "expression", "pattern": "pattern"}


class MissingWindowError(click.UsageError):
    """A window, or its slide, that no option names."""


@dataclass(frozen=True, kw_only=True)
class QueryOptions:
    """The options of queries.  `window` and `slide` are texts, since their meaning depends on the input's time unit."""

    window: str | None = None
    slide: str | None = None
    paths: Paths = "walk"
    simple_budget: int = 10_000_000
    on_budget: OnBudget = "error"
    semantics: Semantics | None = None
    sources: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    language: Language | None = None
    select: tuple[str, ...] | None = None
    distinct: bool = False
    matching: Matching | None = None
    report: Report | None = None
    filter: str | None = None
    order: Order | None = None
    max_gap: str | None = None
    max_span: str | None = None
    node_label: str | None = None

    @property
    def language_options(self) -> dict[str, Any]:
        """The given options that belong to queries in some notations alone, by their names in a query."""
        names = (*PATH_OPTIONS, *ORDER_OPTIONS, *PATTERN_OPTIONS, *MATCH_OPTIONS)
        return {name: value for name in names if (value := getattr(self, name)) not in (None, (), False)}

    def refuse_missing(self, text: str | None = None, *, has_static: bool = False) -> None:
        """Raise a usage error if there is no window, or a time window without a slide.

        A text in SPARQL may declare all windows that it reads, or read static edges alone.
        """
        from rpq.stream.window import kind_of_text

        if text is not None and self.window is None and self.slide is None and is_sparql(text, self.language):
            from rpq.language.sparql.algebra import reads_default
            from rpq.language.sparql.syntax.reading import read

            if has_static or not reads_default(read(text, paths=self.paths).body):
                return
            raise click.UsageError(
                "Missing option '--window', which patterns outside WINDOW <name> { … } read (or --static, the edges "
                "without time)."
            )
        if self.window is None:
            raise MissingWindowError(
                "Missing option '--window': how long an edge counts, such as --window 1h --slide 1m, --window count:1000 or "
                "--window unbounded."
            )
        if self.slide is None and kind_of_text(self.window) == "time":
            example = "1" if self.window.isdecimal() else "1m"
            raise MissingWindowError(
                f"Missing option '--slide': the steps in which the window moves, such as --slide {example}."
            )

    def any_window(self, *, unit: str | None) -> AnyWindow:
        """Return the window in the stream's unit.  Raises a usage error for a text that is no window."""
        from rpq.stream.window import WindowTextError, window_of

        try:
            return window_of(self.window, self.slide, unit=unit)
        except WindowTextError as error:
            raise _bad_window(error, unit) from error

    def refuse_windows(self, *, unit: str | None) -> None:
        """Raise a usage error for texts of window or slide that are invalid; queries may supply a missing one."""
        from rpq.stream.window import WindowTextError, kind_of_text, length_of

        if self.window is not None and (self.slide is not None or kind_of_text(self.window) != "time"):
            self.any_window(unit=unit)
            return
        try:
            if self.window is not None:
                length_of(self.window, unit=unit, field="window")
            if self.slide is not None:
                length_of(self.slide, unit=unit, field="slide")
        except WindowTextError as error:
            raise _bad_window(error, unit) from error

    def queries(self, expressions: Iterable[str], *, unit: str | None, integers: bool) -> list[Query]:
        """Return the queries of expressions, for a stream with this time unit and with integers or texts as vertices."""
        from rpq.errors import QueryError
        from rpq.language.query import query_in
        from rpq.language.time_order import LENGTHS, length_of_text

        texts = list(expressions)
        if self.window is None and self.slide is None and all(is_sparql(text, self.language) for text in texts):
            window = None  # the text may declare all that it reads
        else:
            window = self.any_window(unit=unit)
        try:
            ends = {
                name: _vertices(OPTION_OF[name], value, integers)
                for name in PATH_OPTIONS
                if (value := getattr(self, name)) != ()
            }
            lengths = {
                name: length_of_text(value) for name in LENGTHS if (value := getattr(self, name)) is not None
            }
            queries = [
                query_in(
                    self.language,
                    expression,
                    window=window,
                    paths=self.paths,
                    simple_budget=self.simple_budget,
                    on_budget=self.on_budget,
                    **({} if self.semantics is None else {"semantics": self.semantics}),
                    **{**self.language_options, **ends, **lengths},
                )
                for expression in texts
            ]
            return [convert_windows(query, unit) for query in queries]
        except (QueryError, ValueError) as error:
            raise click.UsageError(str(error)) from error

    def refuse_misspelt(self, text: str) -> None:
        """Raise a usage error that points to a syntax error, or names an option that does not apply to the query."""
        from rpq.errors import ExpressionError, QueryError
        from rpq.language.conditions import parse_expression
        from rpq.language.notation import language_of, unsuitable_option
        from rpq.language.pattern import Pattern
        from rpq.language.query import selected_columns

        language = self.language or language_of(text)
        try:
            if language == "path":
                parse_expression(text)
                selected_columns(self.select, text)
            elif language == "sparql":
                from rpq.language.sparql.syntax.reading import read

                read(text, paths=self.paths)
            elif language in ("gql", "cypher"):
                from rpq.language.query import query_in
                from rpq.stream.window import UnboundedWindow

                options = {} if self.node_label is None else {"node_label": self.node_label}
                query_in(language, text, window=UnboundedWindow(), paths=self.paths, **options)
            else:
                Pattern.read(text, self.select, self.filter)
        except ExpressionError as error:
            raise click.UsageError(f"the {NOUN[language]} is not understood\n{error}") from error
        except QueryError as error:
            option = "--" * str(error).startswith(("select", "filter"))
            raise click.UsageError(f"{option}{error}") from error
        if misfit := unsuitable_option(language, text, self.language_options):
            raise click.UsageError(f"{OPTION_OF[misfit.option]} {misfit.reason}")
        if language != "path" and self.on_budget != "error":
            raise click.UsageError(
                f"--on-budget {self.on_budget} applies to path queries: answers of a pattern need all of its paths"
            )


def convert_windows(query: Query, unit: str | None) -> Query:
    """Convert windows that a query's text declares as durations, and bounds of an order in time, to the stream's unit.

    Raises `QueryError`.
    """
    from rpq.errors import QueryError

    if any(isinstance(length, str) for _, length in query.time_lengths):
        if unit is None:
            name, length = next(one for one in query.time_lengths if isinstance(one.length, str))
            raise QueryError(f"{name}: {length} is a duration, and the unit of timestamps is unknown; expected --time-unit")
        return query.in_unit(unit)
    if not getattr(query, "declares_durations", False):  # only SPARQL declares windows
        return query
    if unit is None:
        raise QueryError(
            "the text declares windows in durations (RANGE PT2H), and the unit of the timestamps is unknown; expected "
            "--time-unit"
        )
    converted: Query = query.in_unit(unit)
    return converted


def has_default_window(query: Query) -> bool:
    """Return whether a query has a window that its text does not declare: always true, except for SPARQL."""
    return bool(getattr(query, "has_default", True))


def is_sparql(text: str, language: Language | None) -> bool:
    """Return whether a text is in SPARQL; with `language` None this is detected from the text."""
    from rpq.language.notation import language_of

    return (language or language_of(text)) == "sparql"


def _bad_window(error: WindowTextError, unit: str | None) -> click.UsageError:
    if error.is_missing:
        return click.UsageError(f"Missing option '--{error.field}'.")
    hint = "; --time-unit says the unit of the timestamps" if unit is None and "has a unit" in str(error) else ""
    return click.UsageError(f"--{error.field}: {error}{hint}")


def _vertices(option: str, texts: tuple[str, ...], integers: bool) -> frozenset[int | str] | None:
    if not texts:
        return None
    if not integers:
        return frozenset(texts)
    try:
        return frozenset(map(int, texts))
    except ValueError as error:
        raise click.UsageError(f"{option}: the vertices of this input are integers: {error}") from error


def max_ahead_of(settings: RunSettings, unit: str | None, *, durations: bool = False) -> int | str | None:
    """Return the engine's `max_ahead`, the limit on how far a tuple may be ahead of the stream time, in this unit or in
    none.

    Raises a usage error for a duration that the unit cannot express; without a unit it stays a text with `durations`.
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
    """All options of `rpq run`.

    There is an `expression`, with a window and a slide, or else a `queries_file`, for whose queries these are defaults.
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
    time_unit: str | None = None
    columns: str | None = None
    label: str | None = None
    edges_from: str | None = None
    changes: str | None = None
    time_format: str | None = None
    vertices: Literal["text"] | None = None
    trim: bool = False
    where: str | None = None
    output: str | None = None
    times: Literal["iso"] | None = None
    message: str | None = None
    witness: bool = False
    threads: int = 1
    memory_limit: int | None = None
    max_rows: int | None = 10_000_000
    keep: str | None = None
    max_ahead: str | None = None
    limit: int | None = None
    flush: bool = True
    report_empty: bool = False
    drop_self_loops: bool = False
    late: str | None = None
    on_error: str = "stop"
    checkpoint: str | None = None
    stats: str | None = None
    quiet: bool = False
    kafka_config: str | None = None
    schema_registry: str | None = None
    schema_registry_config: str | None = None
    max_delay: float = 1.0
    upsert: bool = False
    replace: bool = False
    until_end: bool = False
    checkpoint_every: float = 30.0
    metrics: str | None = None
    log: str = "text"


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """The queries of a run before its input is known: the `entries` of a file, or none for an expression."""

    settings: RunSettings
    entries: tuple[QueryEntry, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the answers to the expression."""
        from rpq.language.query import columns_of_text

        text = str(self.settings.expression)
        language = self.settings.language or language_of(text)
        return columns_of_text(language, text, select=self.settings.select, paths=self.settings.paths)

    @property
    def properties(self) -> tuple[str, ...]:
        """The names of the properties of edges that the queries read."""
        from rpq.language.query import properties_in

        text = str(self.settings.expression)
        texts: list[tuple[Language, str, QueryEntry | RunSettings]]
        texts = [(entry.language, entry.expression, entry) for entry in self.entries]
        texts = texts or [(self.settings.language or language_of(text), text, self.settings)]
        found = (properties_in(language, text, select=one.select, filter=one.filter) for language, text, one in texts)
        return tuple(sorted(frozenset().union(*found)))

    @property
    def further_columns(self) -> tuple[str, ...]:
        """The columns of an input besides those of every tuple: properties, and the ids of edges where they have some."""
        from rpq.stream.arrays.fields import EDGE

        return (*self.properties, *((EDGE,) if self.settings.edges == "id" else ()))

    def queries(self, *, unit: str | None, integers: bool) -> list[Query]:
        """Return the queries for a stream with this time unit, and with integers or texts as vertices."""
        from rpq.errors import QueryError
        from rpq.language.query_file import QueryFileError

        if not self.entries:
            return self.settings.queries([str(self.settings.expression)], unit=unit, integers=integers)
        self.settings.refuse_windows(unit=unit)  # an error in an option is reported for the option, not for each query
        try:
            found = []
            for entry in self.entries:
                query = entry.query(unit=unit, integers=integers)
                try:
                    found.append(convert_windows(query, unit))
                except QueryError as error:
                    raise entry.place.error(str(error), field="query") from error
            return found
        except QueryFileError as error:
            is_about_units = unit is None and error.field in ("window", "slide")
            hint = "; --time-unit says the unit of the timestamps" if is_about_units else ""
            raise click.UsageError(f"{error}{hint}") from error


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
    text = str(settings.expression)
    if not is_sparql(text, settings.language):
        settings.refuse_missing(text)
    settings.refuse_misspelt(text)
    settings.refuse_missing(text, has_static=bool(settings.static))
    return RunRequest(settings=settings)


def read_query_entries(path: str, settings: RunSettings | None = None) -> list[QueryEntry]:
    """Read a file of queries, with the options as defaults.  Raises a usage error if the file is invalid."""
    from rpq.language.query_file import QueryFileError, read_query_file

    try:
        entries = read_query_file(path, _defaults(settings) if settings else None, default_place="the options")
        _check_outputs(entries, are_written=settings is not None)
    except QueryFileError as error:
        raise click.UsageError(str(error)) from error
    return entries


def _defaults(settings: RunSettings) -> dict[str, Any]:
    names = ("window", "slide", "paths", "semantics", "simple_budget", "on_budget", "language", "output")
    values = {name: getattr(settings, name) for name in names}
    return {name: value for name, value in values.items() if value is not None} | settings.language_options


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
