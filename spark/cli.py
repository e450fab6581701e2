"""`rpq spark`: preparing data sets, replaying them and running streams on Spark.

Importing this imports click alone: PySpark comes when a command runs.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import click

from rpq.cli import options as shared
from rpq.cli.group import SeveralValuesCommand
from rpq.kafka.topic_names import is_topic
from rpq.spark.queries_asked import queries_asked, queries_file, refuse_what_is_wrong
from rpq.spark.topic_options import edges_of_topics, refuse_of_topics, settings_of_topics, topic_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    import rpq

_NOTICE_SECONDS = 8.0
"""So long workers may take to start before it is said what takes so long."""


@click.group("spark", short_help="Prepare, replay and stream on Spark.")
def spark() -> None:
    """Prepare data sets, replay them and run streams on Spark, on one machine or on a cluster."""


_session_options = shared.combine_options(
    click.option("--master", default="local[*]", show_default=True, help="Where Spark runs: local[4], spark://…, yarn."),
    click.option(
        "--py-files",
        "py_files",
        multiple=True,
        metavar="FILE",
        help="Wheels or zips for the executors: of this package, where they lack it. Can be repeated.",
    ),
    click.option("--conf", "conf", multiple=True, metavar="KEY=VALUE", help="Settings of Spark; can be repeated."),
    click.option("--log", metavar="FILE", help="Where Spark's messages go.  [default: a temporary file, kept if it fails]"),
    shared.stats(),
    shared.quiet,
)

_column_options = shared.combine_options(
    click.option(
        "--columns", metavar="COLUMN=NAME,...", help="Names that the data has for source, target, label, timestamp, op."
    ),
    click.option("--label", metavar="LABEL", help="The label of all edges, where the data has no column for it."),
)

_query_options = shared.combine_options(
    queries_file,
    shared.language,
    shared.window_and_slide("30d, 10m (minutes), or a number"),
    shared.time_unit("if not known"),
    shared.paths,
    shared.semantics,
    shared.pattern_options,
    shared.sources_and_targets,
    click.option("--partitions", type=click.IntRange(min=1), help="How many parts the roots are divided into."),
)


@spark.command("prepare", cls=SeveralValuesCommand, short_help="Make a sorted data set of raw files.")
@shared.input_option("Files to read, by names or URIs, with wildcards or not; folders of Parquet files.")
@click.option("--output", required=True, metavar="FOLDER", help="The data set to make.")
@shared.format_option(shared.BY_LINES)
@shared.on_error("Whether bad lines are kept aside, in FOLDER/_rejected, or end it.", default="skip")
@click.option(
    "--vertices",
    type=click.Choice(["text", "ids"]),
    default="text",
    show_default=True,
    help="Names, or numbers with a table of names beside them.",
)
@shared.drop_self_loops
@_column_options
@shared.time_unit("if Parquet files have times: what they become")
@click.option("--partitions", type=click.IntRange(min=1), help="How many ranges of time are sorted at once.")
@click.option("--rows-per-file", type=click.IntRange(min=1), help="At most so many tuples in a file.")
@_session_options
def prepare_command(**options: Any) -> None:
    """Make a prepared data set: Parquet files in time order, statistics, bad lines kept aside."""
    from rpq.spark.console import Progress, summary_text, tasks_shown

    started = time.perf_counter()
    _refuse_existing(options["output"])
    _check_files(options, read=options["inputs"])
    with _session(options, None) as session:
        from rpq.spark.preparing import prepare

        _ready(session, [], False, options)
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
                **{name: options[name] for name in ("columns", "label", "time_unit")},
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
@click.argument("expressions", metavar="EXPRESSION...", nargs=-1)
@click.option("--input", "data", required=True, metavar="FOLDER", help="A prepared data set.")
@click.option("--output", required=True, metavar="FOLDER", help="Where rows go, as Parquet.")
@click.option("--names", is_flag=True, help="Of a data set prepared with ids, give names.")
@_column_options
@_query_options
@_session_options
def replay_command(**options: Any) -> None:
    """Run the queries EXPRESSION over a prepared data set, the roots divided over tasks."""
    from rpq.spark.console import Progress, summary_text, tasks_shown

    started = time.perf_counter()
    _refuse_existing(options["output"])
    refuse_what_is_wrong(options)
    _check_files(options, read=[options["data"]])
    with _session(options, options["partitions"]) as session:
        from rpq.spark.edge_columns import UNITS, edge_columns, names_given
        from rpq.spark.prepared import edges_in, statistics_in
        from rpq.spark.replaying import replay, replay_to
        from rpq.spark.slots import shares_of

        partitions = shares_of(session, options["partitions"])
        unit = statistics_in(session, options["data"]).get("time_unit") or options["time_unit"]
        named = {name: options[name] for name in ("columns", "label")}
        data = edges_in(session, options["data"])
        columns = edge_columns(data, sequence=None, time_unit="us", names=names_given(**named))
        if columns.is_time and unit not in UNITS:
            unit = "us"
        integers = columns.vertex == "bigint"
        queries = queries_asked(options, unit=unit or options["time_unit"], integers=integers)
        _ready(session, queries, integers, options)
        replaying = time.perf_counter()
        settings = {"partitions": partitions, "time_unit": unit, **named}
        with tasks_shown(session, Progress(shown=not options["quiet"]), "replaying"):
            if options["names"]:
                changes = replay(session, options["data"], *queries, names=True, **settings)
                changes.write.parquet(options["output"])
                counted = session.read.parquet(options["output"]).groupBy("query", "op").count().collect()
                rows = {(row["query"], row["op"]): int(row["count"]) for row in counted}
            else:
                rows = replay_to(session, options["data"], options["output"], *queries, **settings)
        seconds = time.perf_counter() - replaying
    figures: dict[str, Any] = {
        "queries": {
            query.name: {"rows_added": rows.get((query.name, "+"), 0), "rows_removed": rows.get((query.name, "-"), 0)}
            for query in queries
        },
        "partitions": partitions,
        "seconds": seconds,
        "total_seconds": time.perf_counter() - started,
    }
    lines = {
        f"query {number}": f"{name}   {found['rows_added']:,} rows added, {found['rows_removed']:,} removed"
        for number, (name, found) in enumerate(figures["queries"].items(), 1)
    }
    by = f"{partitions} {'share' if partitions == 1 else 'shares'}"
    told = f"{seconds:.1f} s by {by}, {figures['total_seconds']:.1f} s with Spark's start"
    _finish(options, figures, summary_text({**lines, "time": told}))


@spark.command("stream", cls=SeveralValuesCommand, short_help="Run queries over files or topics as they arrive.")
@click.argument("expressions", metavar="EXPRESSION...", nargs=-1)
@click.option(
    "--input",
    "folder",
    required=True,
    metavar="FOLDER",
    help="A folder in which files of edges appear, or topics: kafka://BROKER:PORT/TOPIC,TOPIC.",
)
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
@click.option(
    "--max-delay",
    default="0",
    metavar="DURATION",
    help="So long tuples wait for earlier ones: 10m (minutes), or a number.  [default: 0]",
)
@click.option("--max-files", type=click.IntRange(min=1), default=1, show_default=True, help="Files a micro-batch.")
@click.option("--once", is_flag=True, help="End when all files that are there have been read.")
@shared.on_error("At a bad tuple.")
@topic_options
@_column_options
@_query_options
@_session_options
def stream_command(**options: Any) -> None:
    """Run the queries EXPRESSION over files of edges, or messages of topics, as they arrive; Ctrl-C ends it, and it can be
    gone on with."""
    refuse_what_is_wrong(options)
    refuse_of_topics(options)
    _check_files(options, read=[] if is_topic(options["folder"]) else [options["folder"]])
    with _session(options, options["partitions"]) as session:
        from rpq.spark import stream_identity
        from rpq.spark.edge_columns import edge_columns, names_given
        from rpq.spark.slots import SHUFFLE_PARTITIONS, shares_of
        from rpq.spark.stream_run import Stream

        # A stream that was begun goes on with as many shares, whatever the cluster has now.
        begun = stream_identity.read(session, options["checkpoint"]) or {}
        partitions = shares_of(session, options["partitions"] or begun.get("shares"))
        session.conf.set(SHUFFLE_PARTITIONS, partitions)
        sequence, unit = options["sequence"], options["time_unit"]
        # The columns of messages are named where they are read.
        named = {name: None if is_topic(options["folder"]) else options[name] for name in ("columns", "label")}
        if is_topic(options["folder"]):
            edges, sequence, told = edges_of_topics(session, options)
            unit = unit or told
        else:
            stamps = "timestamp" if (names := names_given(**named)) is None else names["timestamp"]
            edges = Stream.edges(session, options["folder"], options["files"], options["max_files"], timestamps=stamps)
        columns = edge_columns(edges, sequence=None, time_unit="us", with_place=False, names=names_given(**named))
        integers = columns.vertex == "bigint"
        unit = unit or ("us" if columns.is_time else None)
        queries = queries_asked(options, unit=unit, integers=integers)
        stream = Stream(
            edges,
            queries,
            partitions=partitions,
            sequence=sequence,
            time_unit=unit,
            on_error=options["on_error"],
            checkpoint=options["checkpoint"],
            output=options["output"],
            max_delay=options["max_delay"],
            **named,
        )
        _ready(session, queries, integers, options)
        figures = stream.run(once=options["once"], shown=not options["quiet"])
    _finish(options, figures, Stream.summary(figures))
    if figures["ended"] == "interrupted":
        sys.exit(figures["status"])


@spark.command("explain", cls=SeveralValuesCommand, short_help="Tell by what shares divide queries.")
@click.argument("expressions", metavar="EXPRESSION...", nargs=-1)
@_query_options
def explain_command(**options: Any) -> None:
    """Tell by what shares divide the queries EXPRESSION, or why more shares do not make them faster.  Spark is not started.

    What else they mean, rpq explain tells.  Windows may be left out.
    """
    from rpq.cli.reporting import printable
    from rpq.spark.console import summary_text
    from rpq.spark.divided import divided
    from rpq.spark.errors import PipelineError
    from rpq.spark.in_numbers import in_numbers

    if options["queries_file"] is None and options["window"] is None and options["slide"] is None:
        options |= {"window": "1", "slide": "1"}
    refuse_what_is_wrong(options)
    unit = options["time_unit"] or "s"
    try:
        queries = in_numbers(queries_asked(options, unit=unit, integers=False), unit)
    except PipelineError as error:
        raise click.UsageError(str(error)) from error
    told = [summary_text({"query": printable(query.name), "shares": divided(query)}) for query in queries]
    click.echo("\n\n".join(told))


@spark.command("rescale", short_help="Let a stream go on with other shares or queries.")
@click.argument("checkpoint", metavar="CHECKPOINT")
@click.option(
    "--partitions", type=click.IntRange(min=1), help="How many parts the roots are divided into.  [default: as before]"
)
@click.option(
    "--queries", "queries_file", metavar="FILE", help="All queries from now on, .toml or .jsonl.  [default: as before]"
)
@shared.time_unit("if not known")
@_session_options
def rescale_command(**options: Any) -> None:
    """Let the stream of CHECKPOINT, which must not run, go on with other shares or other queries.

    Its rows go on as if nothing had been; queries that are new begin with the answers over what their windows hold.
    """
    started = time.perf_counter()
    if options["partitions"] is None and options["queries_file"] is None:
        raise click.UsageError("expected --partitions or --queries: what is to be another")
    options["expressions"] = ()
    if options["queries_file"] is not None:
        refuse_what_is_wrong(options)
    _check_files(options, read=[])
    with _session(options, options["partitions"]) as session:
        from rpq.spark import stream_identity
        from rpq.spark.console import Progress, summary_text, tasks_shown
        from rpq.spark.rescaling import rescale

        said = stream_identity.read(session, options["checkpoint"]) or {}
        queries = []
        if options["queries_file"] is not None:
            unit = said.get("time_unit") or options["time_unit"]
            queries = queries_asked(options, unit=unit, integers=said.get("vertices") == "bigint")
        with tasks_shown(session, Progress(shown=not options["quiet"]), "rescaling"):
            figures = rescale(session, options["checkpoint"], *queries, partitions=options["partitions"])
    figures["total_seconds"] = time.perf_counter() - started
    before, now = figures["queries"]
    lines = {
        "shares": f"{figures['shares'][0]:,} before, {figures['shares'][1]:,} now",
        "queries": ", ".join(now),
        "new": ", ".join(figures["added"]),
        "gone": ", ".join(name for name in before if name not in now),
        "time": f"{figures['total_seconds']:.1f} s",
    }
    _finish(options, figures, summary_text(lines))


def _ready(session: SparkSession, queries: list[rpq.Query], integers: bool, options: dict[str, Any]) -> None:
    """See to it that workers have this package and compiled kernels, once a machine, before it is their turn."""
    from rpq.cli.reporting import compiling_notice, notice_after
    from rpq.spark.divided import undivided
    from rpq.spark.workers import check_workers

    with notice_after(_NOTICE_SECONDS, compiling_notice, shown=not options["quiet"]):
        workers = check_workers(session, *queries, integers=integers)
    if workers.compiled and not options["quiet"]:
        click.echo(str(workers), err=True)
    if not options["quiet"]:
        for query in queries:
            if (told := undivided(query)) is not None:
                click.echo(told, err=True)


def _check_files(options: dict[str, Any], *, read: Sequence[str]) -> None:
    """Refuse files that cannot be written, and folders and files that are, or lie in, one another."""
    from rpq.cli.options import check_files
    from rpq.files.destinations import WriteError, check_folder_writable, is_read_with

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


def _session(options: dict[str, Any], partitions: int | None) -> AbstractContextManager[SparkSession]:
    from rpq.spark.console import session_for

    return session_for(options["master"], partitions, _settings(options), options["log"], options["py_files"])


def _settings(options: dict[str, Any]) -> dict[str, str]:
    settings = settings_of_topics(options)
    for pair in options["conf"]:
        key, equals, value = pair.partition("=")
        if not equals:
            raise click.UsageError(f"--conf {pair}: expected KEY=VALUE")
        settings[key] = value
    return settings


def _finish(options: dict[str, Any], figures: dict[str, Any], text: str) -> None:
    from rpq.cli.reporting import write_stats

    if not options["quiet"]:
        click.echo(text, err=True)
    if options["stats"]:
        try:
            write_stats(options["stats"], figures)
        except OSError as error:
            raise click.ClickException(str(error)) from error
