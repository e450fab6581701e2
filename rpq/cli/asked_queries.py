"""`--queries FILE`: many queries in one run, and the files that their rows go to."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from rpq.cli.settings import RunSettings
from rpq.cli.summary import ENGINE_FIGURES

if TYPE_CHECKING:
    from rpq.cli.outputs.query_outputs import QueryOutputs
    from rpq.engine import Engine
    from rpq.queries.query import Query
    from rpq.queries.query_file import AskedQuery
    from rpq.readers.deletions import Deletions

SHOWN = 10
"""How many queries the summary tells of, one by one; `--stats` has all."""

_OF_ENGINE = frozenset({"vertices_live", "engine_seconds"})
"""Figures that the queries of an engine have in common."""

_DEFAULTS = (
    *("--window", "--slide", "--paths", "--semantics", "--simple-budget", "--on-budget"),
    *("--source", "--target", "--output"),
)
"""Options that only say what queries do not say themselves: what matters is what comes of it."""

_IDENTITY = ("paths", "simple_budget", "on_budget", "semantics", "sources", "targets")


def read_asked(path: str, settings: RunSettings | None = None) -> list[AskedQuery]:
    """Read a file of queries; what they do not say is said by the options.  A usage error if anything is wrong with it."""
    from rpq.queries.query_file import QueryFileError, read_query_file

    try:
        asked = read_query_file(path, _defaults(settings) if settings else None, default_place="the options")
        for query in asked:
            _check_output(query, is_written=settings is not None)
    except QueryFileError as error:
        raise click.UsageError(str(error)) from error
    return asked


def _defaults(settings: RunSettings) -> dict[str, Any]:
    names = ("window", "slide", "paths", "semantics", "simple_budget", "on_budget", "sources", "targets", "output")
    values = {name: getattr(settings, name) for name in names}
    return {name: value for name, value in values.items() if value not in (None, ())}


def _check_output(asked: AskedQuery, *, is_written: bool) -> None:
    """Refuse an output that cannot be one, before any of them is opened; whether it can be written only where it will be."""
    from rpq.cli.outputs.sinks import SinkError, check_suffix
    from rpq.files.destinations import STANDARD_STREAM, WriteError, check_writable

    if asked.output is None:
        return
    try:
        check_suffix(asked.output)
        if is_written and asked.output != STANDARD_STREAM:
            check_writable(asked.output)
    except (SinkError, WriteError) as error:
        raise asked.error("output", str(error)) from error


def queries_of(asked: Sequence[AskedQuery], *, unit: str | None, integers: bool) -> list[Query]:
    """What the queries mean over a stream with this time unit and kind of vertices."""
    from rpq.queries.query_file import QueryFileError

    try:
        return [query.query(unit=unit, integers=integers) for query in asked]
    except QueryFileError as error:
        hint = "; --time-unit says the unit of the timestamps" if unit is None and error.field in ("window", "slide") else ""
        raise click.UsageError(f"{error}{hint}") from error


def kinds(queries: Sequence[Query]) -> list[Query]:
    """One query of each kind that may need kernels of its own: by the range of a window's slides, and what restricts it."""
    found = {
        ((query.window.size // query.window.slide).bit_length(), query.sources is None, query.targets is None): query
        for query in reversed(queries)
    }
    return list(found.values())


def deletions_of(settings: RunSettings, queries: Sequence[Query]) -> Deletions | None:
    """What makes up deletes, of edges that any query uses, in the longest of their windows."""
    if not settings.deletes:
        return None
    from functools import cache

    from rpq.readers.deletions import Deletions

    longest = max((query.window for query in queries), key=lambda window: window.size)
    automata = list({id(query.dfa): query.dfa for query in queries}.values())
    return Deletions(
        size=longest.size,
        slide=longest.slide,
        percent=settings.deletes,
        seed=settings.seed,
        is_relevant=cache(lambda label: any(dfa.is_relevant(label) for dfa in automata)),
    )


def output_names(settings: RunSettings, asked: Sequence[AskedQuery]) -> set[str]:
    """The names under which rows go out, of `asked` queries or of an expression."""
    given = [query.output for query in asked] if asked else [settings.output]
    return {output for output in given if output is not None}


def output_key(path: str) -> str:
    """What two names of the same output have in common."""
    return path if path == "-" else os.path.realpath(path)


def outputs_of(asked: Sequence[AskedQuery]) -> dict[str, AskedQuery]:
    """The outputs of queries: for each key the first query that names it."""
    first: dict[str, AskedQuery] = {}
    for query in asked:
        if query.output is not None:
            first.setdefault(output_key(query.output), query)
    return first


def output_options(asked: Sequence[AskedQuery]) -> list[tuple[str, str | None]]:
    """The outputs of queries, each once, behind what asks for it."""
    return [
        (f"{query.places['output']}, field output:" if "output" in query.places else "--output", query.output)
        for query in outputs_of(asked).values()
    ]


def identity_of(settings: RunSettings, asked: Sequence[AskedQuery], queries: Sequence[Query]) -> dict[str, Any]:
    """What must be the same for a run to go on from another's checkpoint: of each query, by name, and of other options."""
    asked_by_name = {
        query.name: {
            "query": query.expression,
            "window": query.window.size,
            "slide": query.window.slide,
            **{field: _as_json(getattr(query, field)) for field in _IDENTITY},
            "output": asked_query.output and output_key(asked_query.output),
        }
        for asked_query, query in zip(asked, queries, strict=True)
    }
    common = settings.identity(window=None, slide=None)
    return {**common, **dict.fromkeys(_DEFAULTS), "--queries": asked_by_name}


def _as_json(value: Any) -> Any:
    return sorted(map(str, value)) if isinstance(value, frozenset) else value


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What is different in the queries of a checkpoint and of a run, a line each; the first few of many.

    >>> differences({"x": {"query": "a"}, "y": {"query": "b"}}, {"x": {"query": "a*"}, "z": {"query": "b"}})
    ["query 'x': query was 'a', now 'a*'", "query 'y' is gone", "query 'z' is new"]
    """
    found = [
        f"query {name!r}: {field} was {_shown(value)}, now {_shown(new[name].get(field))}"
        for name, fields in old.items()
        if name in new
        for field, value in fields.items()
        if new[name].get(field) != value
    ]
    found += [f"query {name!r} is gone" for name in old if name not in new]
    found += [f"query {name!r} is new" for name in new if name not in old]
    return found if len(found) <= SHOWN else [*found[:SHOWN], f"and {len(found) - SHOWN:,} more"]


def _shown(value: Any) -> str:
    return "not given" if value is None else repr(value)


def open_query_outputs(
    asked: Sequence[AskedQuery], settings: RunSettings, positions: Mapping[str, int | None] | None, *, grows: bool
) -> QueryOutputs | None:
    """Open what the rows of queries go to; None if no query has an output.  `grows` as in `open_sink`."""
    from rpq.cli.outputs.query_outputs import QueryOutputs
    from rpq.cli.outputs.sinks import Sink, open_sink

    first = outputs_of(asked)
    if not first:
        return None
    _allow_open_files(len(first))
    sinks: dict[str, Sink] = {}
    try:
        for key, query in first.items():
            sinks[key] = open_sink(
                str(query.output),
                witness=settings.witness,
                several=True,
                resumable=settings.checkpoint is not None,
                grows=grows,
                position=positions[key] if positions is not None else None,
            )
    except BaseException:
        for sink in sinks.values():
            sink.discard()
        raise
    return QueryOutputs(sinks, {query.name: output_key(query.output) for query in asked if query.output is not None})


def figures_of(engine: Engine, asked: Sequence[AskedQuery]) -> list[dict[str, Any]]:
    """The figures of each query, for summary and `--stats`."""
    outputs = {query.name: query.output for query in asked}
    found = []
    for query in engine.queries:
        statistics = engine.statistics(query.name)
        found.append(
            {
                "name": query.name,
                "expression": query.expression,
                "window": query.window.size,
                "slide": query.window.slide,
                "paths": query.paths,
                "semantics": query.semantics,
                "output": outputs[query.name],
                **{name: getattr(statistics, name) for name in ENGINE_FIGURES if name not in _OF_ENGINE},
            }
        )
    return found


def summary_lines(figures: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Lines of the summary about each query, or about the first of many."""
    lines = [
        (
            "query" if not number else "",
            f"{printable(query['name'])}   {query['rows_added']:,} rows added, "
            + f"{query['rows_removed']:,} removed, {query['answers_live']:,} answers now",
        )
        for number, query in enumerate(figures[:SHOWN])
    ]
    return [*lines, ("", f"… and {len(figures) - SHOWN:,} more queries")] if len(figures) > SHOWN else lines


def printable(name: str) -> str:
    """A name on one line of a terminal."""
    return name if name.isprintable() else repr(name)


def _allow_open_files(count: int) -> None:
    """Raise the number of files that this process may have open, if it has to be and can be."""
    try:
        import resource
    except ImportError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = count + 100  # inputs, libraries, the other outputs
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise click.UsageError(
            f"the queries have {count:,} outputs, but this system lets a process open {hard:,} files; "
            "let queries share outputs, their rows have a column query"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
