"""The queries of a command on Spark: expressions, for which options say the rest, or those of a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from rpq.cli.request import QueryOptions, convert_windows
from rpq.queries.language import OF_PATHS, OF_PATTERNS

if TYPE_CHECKING:
    import rpq
    from rpq.queries.query_file import AskedQuery

_NAMES = ("language", "window", "slide", "paths", "semantics", *OF_PATHS, *OF_PATTERNS)

queries_file = click.option(
    "--queries",
    "queries_file",
    metavar="FILE",
    help="In place of EXPRESSION: queries with the same columns, .toml or .jsonl.",
)


def refuse_what_is_wrong(options: dict[str, Any]) -> None:
    """Refuse, before Spark starts, no query, two that are one, and what is not understood."""
    expressions: tuple[str, ...] = options["expressions"]
    if options["queries_file"] is not None:
        if expressions:
            raise click.UsageError("--queries has all queries; leave out EXPRESSION, or put it into the file")
        _entries(options)
        return
    if not expressions:
        raise click.UsageError("Missing argument 'EXPRESSION...' (or --queries FILE).")
    said = _said(options)
    said.refuse_missing()
    for expression in expressions:
        said.refuse_misspelt(expression)
    if len(set(expressions)) < len(expressions):
        raise click.UsageError("an expression is given twice")


def queries_asked(options: dict[str, Any], *, unit: str | None, integers: bool) -> list[rpq.Query]:
    """The queries, over a stream with this time unit, and with integers or texts as vertices."""
    from rpq.errors import QueryError

    if options["queries_file"] is None:
        return _said(options).queries(options["expressions"], unit=unit, integers=integers)
    try:
        return [convert_windows(entry.query(unit=unit, integers=integers), unit) for entry in _entries(options)]
    except QueryError as error:
        raise click.UsageError(str(error)) from error


def _entries(options: dict[str, Any]) -> list[AskedQuery]:
    from rpq.queries.query_file import QueryFileError, read_query_file

    said = _said(options)
    names = ("window", "slide", "paths", "semantics", "language")
    given = {name: value for name in names if (value := getattr(said, name)) is not None} | said.language_options
    try:
        entries = read_query_file(options["queries_file"], given, default_place="the options")
        for entry in entries:
            if entry.output is not None:
                raise entry.error("output", "all rows go to one place on Spark; --output says it")
    except QueryFileError as error:
        raise click.UsageError(str(error)) from error
    return entries


def _said(options: dict[str, Any]) -> QueryOptions:
    return QueryOptions(**{name: options[name] for name in _NAMES if name in options})
