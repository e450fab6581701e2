"""What a run is asked: one expression, given as such or by the name of a query, or the queries of a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

import click

from rpq.cli.query_options import refuse_misspelt
from rpq.cli.settings import RunSettings

if TYPE_CHECKING:
    from rpq.queries.query import Query
    from rpq.queries.query_file import AskedQuery


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a run is asked, as far as that is known before the input is: `entries` of a file, none for an expression."""

    settings: RunSettings
    entries: tuple[AskedQuery, ...] = ()

    def queries(self, *, unit: str | None, integers: bool) -> list[Query]:
        """What that means over a stream with this time unit, and with integers or texts as vertices."""
        from rpq.queries.query_file import QueryFileError

        if not self.entries:
            return self.settings.queries([str(self.settings.expression)], unit=unit, integers=integers)
        self.settings.lengths(unit=unit)  # what is wrong with the options is told of them, not of each query
        try:
            return [entry.query(unit=unit, integers=integers) for entry in self.entries]
        except QueryFileError as error:
            is_about_units = unit is None and error.field in ("window", "slide")
            hint = "; --time-unit says the unit of the timestamps" if is_about_units else ""
            raise click.UsageError(f"{error}{hint}") from error


def expression_asked(
    expression: str | None, query: str | None, dataset: str | None, *, queries_file: str | None = None
) -> str | None:
    """The expression, given as such or by the name of a query and a data set; None where there is a file of queries."""
    if queries_file is not None:
        others = {"EXPRESSION": expression, "--query": query, "--dataset": dataset}
        given = " and ".join(name for name, value in others.items() if value is not None)
        if given:
            raise click.UsageError(f"--queries has all queries of the run; leave out {given}, or put it into {queries_file}")
        return None
    if expression is not None and query is not None:
        raise click.UsageError("EXPRESSION and --query are two queries; give one")
    if expression is None and query is None:
        raise click.UsageError("Missing argument 'EXPRESSION' (or --query NAME with --dataset, or --queries FILE).")
    if (query is None) != (dataset is None):
        raise click.UsageError("--query and --dataset go together: a query has a name, a data set its labels")
    if query is None or dataset is None:
        return str(expression)
    known = entry_points(group="rpq.queries")
    if dataset not in known.names:
        raise click.UsageError(f"unknown data set {dataset!r}: expected one of {', '.join(sorted(known.names))}")
    try:
        return str(known[dataset].load()(query, dataset))
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def asked_of(settings: RunSettings) -> Asked:
    """Read what is asked; a usage error if anything is wrong with it, whatever the input is."""
    if settings.queries_file is not None:
        return Asked(settings=settings, entries=tuple(entries_of(settings.queries_file, settings)))
    for option in ("window", "slide"):
        if getattr(settings, option) is None:
            raise click.UsageError(f"Missing option '--{option}'.")
    refuse_misspelt(str(settings.expression))
    return Asked(settings=settings)


def entries_of(path: str, settings: RunSettings | None = None) -> list[AskedQuery]:
    """Read a file of queries; what they do not say is said by the options.  A usage error if anything is wrong with it."""
    from rpq.queries.query_file import QueryFileError, read_query_file

    try:
        entries = read_query_file(path, _defaults(settings) if settings else None, default_place="the options")
        _check_outputs(entries, are_written=settings is not None)
    except QueryFileError as error:
        raise click.UsageError(str(error)) from error
    return entries


def _defaults(settings: RunSettings) -> dict[str, Any]:
    names = ("window", "slide", "paths", "semantics", "simple_budget", "on_budget", "sources", "targets", "output")
    values = {name: getattr(settings, name) for name in names}
    return {name: value for name, value in values.items() if value not in (None, ())}


def _check_outputs(entries: Sequence[AskedQuery], *, are_written: bool) -> None:
    """Refuse outputs that cannot be, before any of them is opened; whether one can be written only where it will be."""
    from rpq.cli.outputs.sinks import SinkError, check_suffix
    from rpq.files.destinations import STANDARD_STREAM, WriteError, check_writable

    for entry in entries:
        if entry.output is None:
            continue
        try:
            check_suffix(entry.output)
            if are_written and entry.output != STANDARD_STREAM:
                check_writable(entry.output)
        except (SinkError, WriteError) as error:
            raise entry.error("output", str(error)) from error
