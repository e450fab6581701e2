"""`rpq spark`: preparing data sets, replaying them and running streams on Spark.

Importing this imports click alone: PySpark comes when a command runs.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from rpq.cli.settings import WrittenFile
from rpq.cli.several import SeveralValuesCommand

if TYPE_CHECKING:
    import rpq

_WORKERS = "Every node must have this package installed and see the files under the same names."


@click.group("spark", short_help="Prepare, replay and stream on Spark.")
def spark() -> None:
    """Prepare data sets, replay them and run streams on Spark, on one machine or on a cluster."""


def _options(*options: Callable[..., Any]) -> Callable[..., Any]:
    def apply(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            function = option(function)
        return function

    return apply


_session_options = _options(
    click.option("--master", default="local[*]", show_default=True, help="Where Spark runs: local[4], spark://…, yarn."),
    click.option("--conf", "conf", multiple=True, metavar="KEY=VALUE", help="Settings of Spark; can be repeated."),
    click.option("--log", metavar="FILE", help="Where Spark's messages go.  [default: a temporary file]"),
    click.option("--stats", type=WrittenFile(), metavar="FILE.json", help="Where the figures of the summary go."),
    click.option("--quiet", is_flag=True, help="No progress, no summary."),
)

_query_options = _options(
    click.option("--window", required=True, metavar="W", help="Size of the window: 30d, 10m (minutes), or a number."),
    click.option("--slide", required=True, metavar="S", help="How far the window moves at once; as --window."),
    click.option("--time-unit", type=click.Choice(["s", "ms", "us", "ns"]), help="Unit of the timestamps, if not known."),
    click.option(
        "--paths", type=click.Choice(["walk", "simple"]), default="walk", show_default=True, help="Which paths count."
    ),
    click.option(
        "--semantics",
        type=click.Choice(["implicit", "explicit"]),
        default="implicit",
        show_default=True,
        help="Whether pairs leave silently, or with a - row, when they expire.",
    ),
    click.option("--source", "sources", multiple=True, metavar="V...", help="Only pairs from these vertices."),
    click.option("--target", "targets", multiple=True, metavar="V...", help="Only pairs to these vertices."),
    click.option("--partitions", type=click.IntRange(min=1), help="How many parts the roots are divided into."),
)


@spark.command("prepare", cls=SeveralValuesCommand, short_help="Make a sorted data set of raw files.")
@click.option("--input", "inputs", multiple=True, required=True, metavar="FILE...", help="Files to read.")
@click.option("--output", required=True, metavar="FOLDER", help="The data set to make.")
@click.option(
    "--format", default="edges", show_default=True, help="Their format: edges, stackoverflow, ldbc, yago, gmark."
)
@click.option(
    "--on-error",
    type=click.Choice(["stop", "skip"]),
    default="skip",
    show_default=True,
    help="Whether bad lines are kept aside, in FOLDER/_rejected, or end it.",
)
@click.option(
    "--vertices",
    type=click.Choice(["text", "ids"]),
    default="text",
    show_default=True,
    help="Names, or numbers with a table of names beside them.",
)
@click.option("--drop-self-loops", is_flag=True, help="Leave out edges from a vertex to itself.")
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
    _refuse_misspelt(options["expressions"])
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
@click.option(
    "--on-error", type=click.Choice(["stop", "skip"]), default="stop", show_default=True, help="At a bad tuple."
)
@_query_options
@_session_options
def stream_command(**options: Any) -> None:
    """Run the queries EXPRESSION over files of edges as they arrive; Ctrl-C ends it, and it can be gone on with."""
    from rpq.spark.console import session_for

    _refuse_misspelt(options["expressions"])
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
    import rpq
    from rpq.errors import QueryError
    from rpq.stream.durations import DurationError, parse_duration

    unit = unit or options["time_unit"]
    lengths = {}
    for name in ("window", "slide"):
        try:
            lengths[name] = parse_duration(options[name], unit=unit)
        except DurationError as error:
            hint = "" if unit else "; --time-unit says the unit of the timestamps"
            raise click.UsageError(f"--{name}: {error}{hint}") from error
    try:
        sources, targets = (
            frozenset(map(int, options[name]) if integers else options[name]) if options[name] else None
            for name in ("sources", "targets")
        )
        window = rpq.Window(size=lengths["window"], slide=lengths["slide"])
        return [
            rpq.Query(
                one,
                window=window,
                paths=options["paths"],
                semantics=options["semantics"],
                sources=sources,
                targets=targets,
            )
            for one in expressions
        ]
    except (QueryError, ValueError) as error:
        raise click.UsageError(str(error)) from error


def _warm_up(queries: list[rpq.Query], integers: bool, options: dict[str, Any]) -> None:
    """Compile once, here, what else every worker on this machine would compile at the same time."""
    import rpq
    from rpq.cli.progress import compiling_notice, notice_after

    with notice_after(1.0, compiling_notice, shown=not options["quiet"]):
        rpq.warm_up(queries[0], vertices="int64" if integers else "string")


def _refuse_misspelt(expressions: tuple[str, ...]) -> None:
    from rpq import automata

    for expression in expressions:
        try:
            automata.parse(expression)
        except automata.ExpressionError as error:
            raise click.UsageError(f"the expression is not understood\n{error}") from error
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
