"""`rpq spark`: preparing data sets, replaying them and running streams on Spark.

Importing this imports click alone: PySpark comes when a command runs.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from rpq.cli import options as shared
from rpq.cli.query_options import QueryOptions
from rpq.cli.several import SeveralValuesCommand
from rpq.queries.language import OF_PATHS, OF_PATTERNS

if TYPE_CHECKING:
    import rpq

_WORKERS = "Every node must have this package installed and see the files under the same names."


@click.group("spark", short_help="Prepare, replay and stream on Spark.")
def spark() -> None:
    """Prepare data sets, replay them and run streams on Spark, on one machine or on a cluster."""


_session_options = shared.together(
    click.option("--master", default="local[*]", show_default=True, help="Where Spark runs: local[4], spark://…, yarn."),
    click.option("--conf", "conf", multiple=True, metavar="KEY=VALUE", help="Settings of Spark; can be repeated."),
    click.option("--log", metavar="FILE", help="Where Spark's messages go.  [default: a temporary file]"),
    shared.stats(),
    shared.quiet,
)

_query_options = shared.together(
    shared.language,
    shared.window_and_slide("30d, 10m (minutes), or a number"),
    shared.time_unit("if not known"),
    shared.paths,
    shared.semantics,
    shared.of_patterns,
    shared.sources_and_targets,
    click.option("--partitions", type=click.IntRange(min=1), help="How many parts the roots are divided into."),
)
_QUERY_OPTIONS = ("language", "window", "slide", "paths", "semantics", *OF_PATHS, *OF_PATTERNS)


@spark.command("prepare", cls=SeveralValuesCommand, short_help="Make a sorted data set of raw files.")
@shared.several_inputs("Files to read.")
@click.option("--output", required=True, metavar="FOLDER", help="The data set to make.")
@shared.format_of(shared.BY_LINES)
@shared.on_error("Whether bad lines are kept aside, in FOLDER/_rejected, or end it.", default="skip")
@click.option(
    "--vertices",
    type=click.Choice(["text", "ids"]),
    default="text",
    show_default=True,
    help="Names, or numbers with a table of names beside them.",
)
@shared.drop_self_loops
@click.option("--partitions", type=click.IntRange(min=1), help="How many ranges of time are sorted at once.")
@click.option("--rows-per-file", type=click.IntRange(min=1), help="At most so many tuples in a file.")
@_session_options
def prepare_command(**options: Any) -> None:
    """Make a prepared data set: Parquet files in time order, statistics, bad lines kept aside."""
    from rpq.spark.console import Progress, session_for, summary_text, tasks_shown

    started = time.perf_counter()
    _refuse_existing(options["output"])
    _check_files(options, read=options["inputs"])
    with session_for(options["master"], None, _settings(options), _log(options)) as session:
        from rpq.spark.preparing import prepare

        with tasks_shown(session, Progress(shown=not options["quiet"]), "preparing"):
            figures = prepare(
                session,
                options["inputs"],
                options["output"],
                format=options["format"],
                on_error=options["on_error"],
                vertices=options["vertices"],
                drop_self_loops=options["drop_self_loops"],
                partitions=options["partitions"],
                rows_per_file=options["rows_per_file"] or 0,
            )
    figures["total_seconds"] = time.perf_counter() - started
    span = figures["span"] or ("none", "none")
    _finish(
        options,
        figures,
        summary_text(
            {
                "data set": options["output"],
                "tuples": f"{figures['tuples']:,}, of them {figures['deletes']:,} deletes, {figures['duplicates']:,} "
                f"duplicates, {figures['self_loops']:,} self-loops",
                "graph": f"{figures['vertices_count']:,} vertices, {figures['edges']:,} edges",
                "labels": ", ".join(f"{label} {one['tuples']:,}" for label, one in figures["labels"].items()),
                "span": f"{span[0]} to {span[1]}" + (f" {figures['time_unit']}" if figures["time_unit"] else ""),
                "rejected": f"{figures['rejected']:,} lines, kept in {options['output']}/_rejected"
                if figures["rejected"]
                else "",
                "time": f"{figures['total_seconds']:.1f} s",
            }
        ),
    )


@spark.command("replay", cls=SeveralValuesCommand, short_help="Run queries over a prepared data set.")
@click.argument("expressions", metavar="EXPRESSION...", nargs=-1, required=True)
@click.option("--input", "data", required=True, metavar="FOLDER", help="A prepared data set.")
@click.option("--output", required=True, metavar="FOLDER", help="Where rows go, as Parquet.")
@click.option("--names", is_flag=True, help="Of a data set prepared with ids, give names.")
@_query_options
@_session_options
def replay_command(**options: Any) -> None:
    """Run the queries EXPRESSION over a prepared data set, the roots divided over tasks."""
    from rpq.spark.console import Progress, session_for, summary_text, tasks_shown

    started = time.perf_counter()
    _refuse_existing(options["output"])
    _refuse_expressions(options)
    _check_files(options, read=[options["data"]])
    with session_for(options["master"], options["partitions"], _settings(options), _log(options)) as session:
        from rpq.spark.preparing import read_statistics, vertex_type
        from rpq.spark.replaying import replay

        unit = read_statistics(options["data"]).get("time_unit")
        integers = vertex_type(options["data"]) == "bigint"
        queries = _queries(options, options["expressions"], unit, integers=integers)
        _warm_up(queries, integers, options)
        with tasks_shown(session, Progress(shown=not options["quiet"]), "replaying"):
            changes = replay(
                session, options["data"], *queries, partitions=options["partitions"], names=options["names"]
            )
            changes.write.parquet(options["output"])
            counted = session.read.parquet(options["output"]).groupBy("query", "op").count().collect()
    rows = {(row["query"], row["op"]): int(row["count"]) for row in counted}
    figures = {
        "queries": {
            query.name: {"rows_added": rows.get((query.name, "+"), 0), "rows_removed": rows.get((query.name, "-"), 0)}
            for query in queries
        },
        "partitions": options["partitions"],
        "total_seconds": time.perf_counter() - started,
    }
    lines = {
        f"query {number}": f"{name}   {found['rows_added']:,} rows added, {found['rows_removed']:,} removed"
        for number, (name, found) in enumerate(figures["queries"].items(), 1)
    }
    _finish(options, figures, summary_text({**lines, "time": f"{figures['total_seconds']:.1f} s"}))


@spark.command("stream", cls=SeveralValuesCommand, short_help="Run queries over files as they arrive.")
@click.argument("expressions", metavar="EXPRESSION...", nargs=-1, required=True)
@click.option("--input", "folder", required=True, metavar="FOLDER", help="A folder in which files of edges appear.")
@click.option(
    "--files",
    type=click.Choice(["parquet", "csv", "tsv"]),
    default="parquet",
    show_default=True,
    help="What the files are; csv and tsv with a header.",
)
@click.option("--output", required=True, metavar="FOLDER", help="Where rows go, as Parquet.")
@click.option("--checkpoint", required=True, metavar="FOLDER", help="Where the stream stands; it goes on from there.")
@click.option("--sequence", metavar="COLUMN", help="Integers that order tuples of one timestamp.")
@click.option("--max-files", type=click.IntRange(min=1), default=1, show_default=True, help="Files a micro-batch.")
@click.option("--once", is_flag=True, help="End when all files that are there have been read.")
@shared.on_error("At a bad tuple.")
@_query_options
@_session_options
def stream_command(**options: Any) -> None:
    """Run the queries EXPRESSION over files of edges as they arrive; Ctrl-C ends it, and it can be gone on with."""
    from rpq.spark.console import session_for

    _refuse_expressions(options)
    _check_files(options, read=[options["folder"]])
    partitions = options["partitions"] or max(1, os.cpu_count() or 1)
    with session_for(options["master"], partitions, _settings(options), _log(options)) as session:
        from rpq.spark.stream_run import Stream

        edges = Stream.edges(session, options["folder"], options["files"], options["max_files"])
        integers = edges.schema["source"].dataType.simpleString() != "string"
        typed = edges.schema["timestamp"].dataType.simpleString() in ("timestamp", "timestamp_ntz", "date")
        unit = options["time_unit"] or ("us" if typed else None)
        queries = _queries(options, options["expressions"], unit, integers=integers)
        _warm_up(queries, integers, options)
        stream = Stream(
            edges,
            queries,
            partitions=partitions,
            sequence=options["sequence"],
            time_unit=unit,
            on_error=options["on_error"],
        )
        figures = stream.run(
            output=options["output"], checkpoint=options["checkpoint"], once=options["once"], shown=not options["quiet"]
        )
    _finish(options, figures, Stream.summary(figures))
    if figures["ended"] == "interrupted":
        sys.exit(130)


def _queries(
    options: dict[str, Any], expressions: tuple[str, ...], unit: str | None, *, integers: bool
) -> list[rpq.Query]:
    return _said(options).queries(expressions, unit=unit or options["time_unit"], integers=integers)


def _said(options: dict[str, Any]) -> QueryOptions:
    return QueryOptions(**{name: options[name] for name in _QUERY_OPTIONS})


def _warm_up(queries: list[rpq.Query], integers: bool, options: dict[str, Any]) -> None:
    """Compile once, here, what else every worker on this machine would compile at the same time."""
    from rpq.cli.compiling import compile_kernels

    compile_kernels(queries, integers=integers, quiet=options["quiet"])


def _refuse_expressions(options: dict[str, Any]) -> None:
    expressions: tuple[str, ...] = options["expressions"]
    said = _said(options)
    said.refuse_missing()
    for expression in expressions:
        said.refuse_misspelt(expression)
    if len(set(expressions)) < len(expressions):
        raise click.UsageError("an expression is given twice")


def _check_files(options: dict[str, Any], *, read: Sequence[str]) -> None:
    """Refuse files that cannot be written, and folders and files that are, or lie in, one another."""
    from rpq.cli.named_files import check_files
    from rpq.files.destinations import WriteError, check_folder_writable
    from rpq.files.distinct import is_read_with

    inputs = [("--input", path) for path in read]
    check_files(written=[("--log", options["log"]), ("--stats", options["stats"])], read=inputs)
    made = [(f"--{name}", options[name]) for name in ("output", "checkpoint") if options.get(name)]
    local = [(option, path) for option, path in made if "://" not in path]
    for option, folder in local:
        for other, path in [*inputs, *made]:
            if option != other and is_read_with(folder, path):
                raise click.UsageError(f"{option} {folder} is {other} {path}, or lies in it; each needs a place of its own")
        try:
            check_folder_writable(folder)
        except WriteError as error:
            raise click.UsageError(f"{option} {error}") from error


def _refuse_existing(output: str) -> None:
    if os.path.exists(output):
        raise click.UsageError(f"--output {output}: exists already; remove it or choose another name")


def _settings(options: dict[str, Any]) -> dict[str, str]:
    settings = {}
    for pair in options["conf"]:
        key, equals, value = pair.partition("=")
        if not equals:
            raise click.UsageError(f"--conf {pair}: expected KEY=VALUE")
        settings[key] = value
    return settings


def _log(options: dict[str, Any]) -> str:
    if options["log"] is None:
        descriptor, path = tempfile.mkstemp(prefix="rpq-spark-", suffix=".log")
        os.close(descriptor)
        options["log"] = path
    return str(options["log"])


def _finish(options: dict[str, Any], figures: dict[str, Any], text: str) -> None:
    from rpq.cli.summary import write_stats

    if not options["quiet"]:
        click.echo(text, err=True)
    if options["stats"]:
        try:
            write_stats(options["stats"], figures)
        except OSError as error:
            raise click.ClickException(str(error)) from error
