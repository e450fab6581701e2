"""What a run is asked: one query, given as such, in a file, or by its name, or the queries of a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

import click

from rpq.cli.query_options import in_unit_of_stream, is_sparql
from rpq.cli.settings import RunSettings
from rpq.kafka.topic_names import is_topic
from rpq.queries.language import language_of

if TYPE_CHECKING:
    from rpq.queries.query import Query
    from rpq.queries.query_file import QueryEntry


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a run is asked, as far as that is known before the input is: `entries` of a file, none for an expression."""

    settings: RunSettings
    entries: tuple[QueryEntry, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the answers to an expression."""
        from rpq.queries.query import columns_of_text

        text = str(self.settings.expression)
        language = self.settings.language or language_of(text)
        return columns_of_text(language, text, select=self.settings.select, paths=self.settings.paths)

    def queries(self, *, unit: str | None, integers: bool) -> list[Query]:
        """What that means over a stream with this time unit, and with integers or texts as vertices."""
        from rpq.errors import QueryError
        from rpq.queries.query_file import QueryFileError

        if not self.entries:
            return self.settings.queries([str(self.settings.expression)], unit=unit, integers=integers)
        self.settings.refuse_windows(unit=unit)  # what is wrong with the options is told of them, not of each query
        try:
            found = []
            for entry in self.entries:
                query = entry.query(unit=unit, integers=integers)
                try:
                    found.append(in_unit_of_stream(query, unit))
                except QueryError as error:
                    raise entry.place.error(str(error), field="query") from error
            return found
        except QueryFileError as error:
            is_about_units = unit is None and error.field in ("window", "slide")
            hint = "; --time-unit says the unit of the timestamps" if is_about_units else ""
            raise click.UsageError(f"{error}{hint}") from error


def expression_asked(
    expression: str | None,
    query: str | None,
    dataset: str | None,
    *,
    queries_file: str | None = None,
    query_file: str | None = None,
) -> str | None:
    """The query as text: given as such, in a file, or by its name and a data set; None where there is a file of queries."""
    if queries_file is not None:
        others = {"EXPRESSION": expression, "--query": query, "--dataset": dataset, "--query-file": query_file}
        given = " and ".join(name for name, value in others.items() if value is not None)
        if given:
            raise click.UsageError(f"--queries has all queries of the run; leave out {given}, or put it into {queries_file}")
        return None
    ways = {"EXPRESSION": expression, "--query": query, "--query-file": query_file}
    asked = [name for name, value in ways.items() if value is not None]
    if len(asked) > 1:
        raise click.UsageError(f"{' and '.join(asked)} are {'two' if len(asked) == 2 else 'three'} queries; give one")
    if not asked:
        raise click.UsageError(
            "Missing argument 'EXPRESSION' (or --query-file FILE, or --query NAME with --dataset, or --queries FILE)."
        )
    if (query is None) != (dataset is None):
        raise click.UsageError("--query and --dataset go together: a query has a name, a data set its labels")
    if query_file is not None:
        return _text_in(query_file)
    if query is None or dataset is None:
        return str(expression)
    known = entry_points(group="rpq.queries")
    if dataset not in known.names:
        raise click.UsageError(f"unknown data set {dataset!r}: expected one of {', '.join(sorted(known.names))}")
    try:
        return str(known[dataset].load()(query, dataset))
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def _text_in(path: str) -> str:
    """The text of one query in a file, without blanks around it."""
    try:
        with open(path, encoding="utf-8-sig") as file:
            text = file.read().strip()
    except OSError as error:
        raise click.UsageError(f"--query-file {path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise click.UsageError(f"--query-file {path}: is no text in UTF-8") from error
    if not text:
        raise click.UsageError(f"--query-file {path}: is empty; expected a path expression, a pattern, or SPARQL")
    return text


def asked_of(settings: RunSettings) -> Asked:
    """Read what is asked; a usage error if anything is wrong with it, whatever the input is."""
    if settings.events == "alone" and settings.window is None:
        settings = replace(settings, window="unbounded")  # all of the event
    if settings.queries_file is not None:
        return Asked(settings=settings, entries=tuple(entries_of(settings.queries_file, settings)))
    text = str(settings.expression)
    if not is_sparql(text, settings.language):
        settings.refuse_missing(text)
    settings.refuse_misspelt(text)
    settings.refuse_missing(text, has_static=bool(settings.static))
    return Asked(settings=settings)


def entries_of(path: str, settings: RunSettings | None = None) -> list[QueryEntry]:
    """Read a file of queries; what they do not say is said by the options.  A usage error if anything is wrong with it."""
    from rpq.queries.query_file import QueryFileError, read_query_file

    try:
        entries = read_query_file(path, _defaults(settings) if settings else None, default_place="the options")
        _check_outputs(entries, are_written=settings is not None)
    except QueryFileError as error:
        raise click.UsageError(str(error)) from error
    return entries


def _defaults(settings: RunSettings) -> dict[str, Any]:
    names = ("window", "slide", "paths", "semantics", "simple_budget", "on_budget", "language", "output")
    values = {name: getattr(settings, name) for name in names}
    return {name: value for name, value in values.items() if value is not None} | settings.of_one_kind


def _check_outputs(entries: Sequence[QueryEntry], *, are_written: bool) -> None:
    """Refuse outputs that cannot be, before any of them is opened; whether one can be written only where it will be."""
    from rpq.cli.outputs.sinks import SinkError, check_suffix
    from rpq.files.destinations import STANDARD_STREAM, WriteError, check_writable

    first: dict[str | None, QueryEntry] = {}  # of each output, which thousands may have
    for entry in entries:
        first.setdefault(entry.output, entry)
    for entry in first.values():
        if entry.output is None or is_topic(entry.output):
            continue
        try:
            check_suffix(entry.output)
            if are_written and entry.output != STANDARD_STREAM:
                check_writable(entry.output)
        except (SinkError, WriteError) as error:
            raise entry.error("output", str(error)) from error
