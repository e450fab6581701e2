"""`rpq spark`: preparing data sets, replaying them and running streams on Spark.

Importing this module imports click alone; PySpark is imported when a command runs.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from rpq.cli import options as shared
from rpq.cli.group import SeveralValuesCommand
from rpq.cli.request import check_window, queries_of, query_of_command, read_query_entries
from rpq.errors import QueryError, RpqError
from rpq.kafka.topic_names import is_topic
from rpq.language.options import OPTIONS, WrittenOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    import rpq
    from rpq.language.query_file import QueryEntry
    from rpq.readers.text.edge_rules import EdgeRules
    from rpq.spark.columns import EdgeColumns, EdgeExpressions
    from rpq.spark.stream.topics import TopicEdges

queries_file = click.option(
    "--queries",
    "queries_file",
    metavar="FILE",
    help="File with queries that have the same columns, .toml or .jsonl, instead of EXPRESSION.",
)


def check_query_options(options: dict[str, Any], *, check: Callable[[Sequence[rpq.Query]], None] | None = None) -> None:
    """Raise a usage error, before Spark starts, for missing, repeated or invalid queries, and for unsupported ones.

    `check` raises `QueryError` for unsupported queries.
    """
    expressions: tuple[str, ...] = options["expressions"]
    if options["queries_file"] is not None and expressions:
        raise click.UsageError("--queries replaces EXPRESSION: leave out EXPRESSION, or move it to the file")
    if options["queries_file"] is None and not expressions:
        raise click.UsageError("Missing argument 'EXPRESSION...' (or --queries FILE).")
    for entry in _entries(options):
        if check is not None and entry.parsed.notation != "sparql":  # which has no such values
            try:
                check([entry.parsed])
            except QueryError as error:
                raise click.UsageError(str(error)) from error
    if len(set(expressions)) < len(expressions):
        raise click.UsageError("an expression occurs twice")


def stream_check(options: dict[str, Any]) -> Callable[[Sequence[rpq.Query]], None]:
    """Return the function that raises `QueryError` for queries that a stream with these options cannot evaluate.

    Only edges in Parquet files have properties.
    """
    from rpq.spark.batch.replay import check_query_columns
    from rpq.spark.columns import check_supported_values

    edges = options["edges"]
    if is_topic(options["folder"]):
        return lambda queries: check_query_columns(queries, edges, "in topics on Spark")
    return lambda queries: check_supported_values(queries, edges)


def read_queries(options: dict[str, Any], *, unit: str | None, integers: bool) -> list[rpq.Query]:
    """Return the queries over a stream with a time unit, and with integers or text as vertices."""
    return queries_of(_entries(options), unit=unit, integers=integers)


def _entries(options: dict[str, Any]) -> list[QueryEntry]:
    shared_options = WrittenOptions(**{name: options[name] for name in OPTIONS if name in options})
    if options["queries_file"] is None:
        check_window(shared_options)
        return [query_of_command(shared_options, expression) for expression in options["expressions"]]
    entries = read_query_entries(options["queries_file"], shared_options)
    for entry in entries:
        if entry.output is not None:
            raise click.UsageError(str(entry.error("output", "on Spark, all queries write to the folder of --output")))
    return entries


MAX_MESSAGES = 200_000

topic_options = shared.combine_options(
    click.option("--kafka-config", metavar="FILE", help="For topics: librdkafka settings (TLS, SASL) as NAME=VALUE."),
    click.option(
        "--max-messages",
        type=click.IntRange(min=1),
        default=MAX_MESSAGES,
        show_default=True,
        help="For topics: the maximum number of messages per micro-batch.",
    ),
    click.option(
        "--packages",
        metavar="COORDINATES",
        help="Maven packages for Spark: for topics, its connector, org.apache.spark:spark-sql-kafka-0-10_2.13:VERSION.",
    ),
)

_TOPIC_DEFAULTS = {"kafka_config": None, "max_messages": MAX_MESSAGES}
_FILE_DEFAULTS = {
    "max_files": (1, "--max-messages bounds a micro-batch"),
    "sequence": (None, "tuples of one timestamp are ordered by topic, partition and offset"),
}


def check_topic_options(options: dict[str, Any]) -> None:
    """Raise a usage error for options of topics without topics, and for options of files with topics."""
    if is_topic(options["folder"]):
        if options["edges"] == "id":
            raise click.UsageError(
                "--edges id: edges in topics on Spark have no ids: leave it out, or let each insert be an edge of its own, "
                "with --edges parallel"
            )
        for name, (default, instead) in _FILE_DEFAULTS.items():
            if options[name] != default:
                raise click.UsageError(f"--{name.replace('_', '-')} applies to files, not to topics: {instead}")
        return
    for name, default in _TOPIC_DEFAULTS.items():
        if options[name] != default:
            raise click.UsageError(f"--{name.replace('_', '-')} applies to topics only; expected --input kafka://BROKER/TOPIC")


def topic_settings(options: dict[str, Any]) -> dict[str, str]:
    """Return the settings of a session that reads topics; none if the options name no topics."""
    if not options.get("packages") and not is_topic(options.get("folder")):
        return {}
    from rpq.spark.stream.topics import REDACTED

    packages = options.get("packages")
    return {"spark.redaction.regex": REDACTED, **({"spark.jars.packages": packages} if packages else {})}


def read_topics(session: SparkSession, options: dict[str, Any], rules: EdgeRules | None = None) -> TopicEdges:
    """Return the edges of the topics that are the input.  Raises `RpqError` for unsuitable topics or options."""
    from rpq.kafka.client import read_settings
    from rpq.kafka.message_reader import MessageColumns
    from rpq.kafka.topic_names import topics_in
    from rpq.readers.column_names import ColumnNames
    from rpq.spark.stream.topics import topic_edges

    names = ColumnNames.parse(options["columns"], label=options["label"])
    return topic_edges(
        session,
        topics_in(options["folder"]),
        columns=MessageColumns.from_names(names, options["time_unit"], rules=rules),
        settings=read_settings(options["kafka_config"]) if options["kafka_config"] else {},
        checkpoint=options["checkpoint"],
        max_messages=options["max_messages"],
        on_error=options["on_error"],
        rules=rules,
    )


_NOTICE_SECONDS = 8.0
"""The time after which a notice explains why workers take long to start."""


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
        help="Wheels or zips for the executors, e.g. this package. Can be repeated.",
    ),
    click.option(
        "--archives",
        multiple=True,
        metavar="FILE#NAME",
        help="An archive of a Python environment, which the executors run (PYSPARK_PYTHON is NAME/bin/python, unless it is "
        "set). Can be repeated, for other archives.",
    ),
    click.option("--conf", "conf", multiple=True, metavar="KEY=VALUE", help="Settings of Spark; can be repeated."),
    shared.stats(),
    shared.quiet,
)

_column_options = shared.combine_options(
    shared.columns("Names of the columns source, target, label, timestamp, op in the data."),
    click.option("--label", metavar="LABEL", help="The label of all edges, if the data has no column for it."),
    shared.edges_from,
)

_edges_option = click.option(
    "--edges",
    type=click.Choice(["triple", "parallel", "id"]),
    default="triple",
    show_default=True,
    help="Which inserts are the same edge: those with equal source, label and target (triple), none (parallel), or those "
    "with the same value in the column edge (id). An order in time needs one of the latter two.",
)

_SIZE = re.compile(r"(.+?)=([0-9]+)(?:,(?=.)|$)")


def _parse_sizes(context: click.Context, parameter: click.Parameter, text: str | None) -> dict[str, int] | None:
    """Return the numbers of edges of `LABEL=N,…` by label; a label may contain commas."""
    if text is None:
        return None
    found = {match[1]: int(match[2]) for match in _SIZE.finditer(text)}
    if not text or _SIZE.sub("", text):
        raise click.BadParameter(f"{text!r}: expected numbers by label, LABEL=N,LABEL=N,…, as in knows=1000,likes=20")
    return found


_sizes_option = click.option(
    "--sizes",
    cls=shared.Assignments,
    metavar="LABEL=N,...",
    callback=_parse_sizes,
    help="Numbers of edges by label, counted or estimated, by which patterns are divided.  [default: for a replay the "
    "statistics of the data set, for a stream its first tuples]",
)

_query_options = shared.combine_options(
    queries_file,
    shared.query_options("spark"),
    shared.time_unit("if not known"),
    click.option("--partitions", type=click.IntRange(min=1), help="Number of shares into which queries are divided."),
    _sizes_option,
)


@spark.command("prepare", cls=SeveralValuesCommand, short_help="Convert raw files to a sorted data set.")
@shared.input_option("Files to read, as names or URIs, with or without wildcards; folders of Parquet files.")
@click.option("--output", required=True, metavar="FOLDER", help="Folder for the data set.")
@shared.format_option(shared.BY_LINES)
@shared.on_error("Whether a bad line ends the command or goes to FOLDER/_rejected.", default="skip")
@click.option(
    "--vertices",
    type=click.Choice(["text", "ids"]),
    default="text",
    show_default=True,
    help="Whether vertices are names, or numbers with a separate table of names.",
)
@shared.drop_self_loops
@_column_options
@shared.time_unit("to which times in Parquet files are converted")
@click.option("--partitions", type=click.IntRange(min=1), help="Number of ranges of time that are sorted in parallel.")
@click.option("--rows-per-file", type=click.IntRange(min=1), help="Maximum number of tuples per file.")
@_session_options
def prepare_command(**options: Any) -> None:
    """Write a prepared data set: Parquet files in time order, statistics, and bad lines in a separate folder."""
    started = time.perf_counter()
    _check_new_output(options["output"])
    _check_files(options, read=options["inputs"])
    _check_inputs(options, options["inputs"])
    _rules(options)
    with _session(options, None) as session:
        from rpq.spark.batch.prepare import prepare

        _prepare_workers(session, [], False, options)
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
            **{name: options[name] for name in ("columns", "label", "time_unit", "edges_from")},
        )
    figures["total_seconds"] = time.perf_counter() - started
    span = figures["span"] or ("none", "none")
    _report(
        options,
        figures,
        _summary_text(
            {
                "data set": options["output"],
                "tuples": f"{figures['tuples']:,}, of them {figures['deletes']:,} deletes, {figures['duplicates']:,} "
                f"duplicates, {figures['self_loops']:,} self-loops",
                "graph": f"{figures['vertices_count']:,} vertices, {figures['edges']:,} edges",
                "labels": ", ".join(f"{label} {one['tuples']:,}" for label, one in figures["labels"].items()),
                "span": f"{span[0]} to {span[1]}" + (f" {figures['time_unit']}" if figures["time_unit"] else ""),
                "rejected": f"{figures['rejected']:,} lines, written to {options['output']}/_rejected"
                if figures["rejected"]
                else "",
                "time": f"{figures['total_seconds']:.1f} s",
            }
        ),
    )


@spark.command("replay", cls=SeveralValuesCommand, short_help="Run queries over a prepared data set.")
@click.argument("expressions", metavar="EXPRESSION...", nargs=-1)
@click.option("--input", "data", required=True, metavar="FOLDER", help="A prepared data set.")
@click.option("--output", required=True, metavar="FOLDER", help="Folder for the rows, as Parquet.")
@_edges_option
@click.option(
    "--nodes", metavar="FOLDER", help="Records of nodes, as Parquet: node, labels, op, timestamp, and properties."
)
@click.option("--names", is_flag=True, help="Write names instead of numbers, for a data set prepared with ids.")
@_column_options
@_query_options
@_session_options
def replay_command(**options: Any) -> None:
    """Run the queries EXPRESSION over a prepared data set, divided over tasks."""
    started = time.perf_counter()
    from rpq.spark.batch.replay import check_query_columns

    _check_new_output(options["output"])
    check_query_options(options, check=lambda queries: check_query_columns(queries, options["edges"], "on Spark"))
    _check_files(options, read=[options["data"]])
    read = [options["data"], *([] if options["nodes"] is None else [options["nodes"]])]
    _check_inputs(options, read, need_parquet=True)
    rules = _rules(options)
    with _session(options, options["partitions"]) as session:
        from rpq.spark.batch.replay import replay, replay_to
        from rpq.spark.columns import UNITS, edge_expressions, parse_column_names
        from rpq.spark.jvm.data_sets import edges_in, statistics_in
        from rpq.spark.jvm.session import share_count
        from rpq.spark.record_edges import record_columns

        partitions = share_count(session, options["partitions"])
        unit = statistics_in(session, options["data"]).get("time_unit") or options["time_unit"]
        named = {name: options[name] for name in ("columns", "label", "edges_from")}
        columns: EdgeColumns | EdgeExpressions
        if rules is None:
            schema = edges_in(session, options["data"]).schema
            parsed = parse_column_names(options["columns"], options["label"], has_ids=options["edges"] == "id")
            columns = edge_expressions(schema, sequence=None, time_unit="us", names=parsed)
        else:
            columns = record_columns(edges_in(session, options["data"]), rules, sequence=None, time_unit="us")
        if columns.is_time and unit not in UNITS:
            unit = "us"
        integers = columns.vertex == "bigint"
        queries = read_queries(options, unit=unit or options["time_unit"], integers=integers)
        _prepare_workers(session, queries, integers, options)
        replaying = time.perf_counter()
        chosen = {name: options[name] for name in ("edges", "sizes")}
        settings: dict[str, Any] = {"partitions": partitions, "time_unit": unit, **chosen, **named}
        if options["nodes"] is not None:
            settings["nodes"] = session.read.parquet(options["nodes"])
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
    times = f"{seconds:.1f} s by {by}, {figures['total_seconds']:.1f} s with Spark's start"
    _report(options, figures, _summary_text({**lines, "time": times}))


@spark.command("stream", cls=SeveralValuesCommand, short_help="Run queries over files or topics as they arrive.")
@click.argument("expressions", metavar="EXPRESSION...", nargs=-1)
@click.option(
    "--input",
    "folder",
    required=True,
    metavar="FOLDER",
    help="A folder in which Parquet files of edges appear, or topics: kafka://BROKER:PORT/TOPIC,TOPIC.",
)
@click.option("--output", required=True, metavar="FOLDER", help="Folder for the rows, as Parquet.")
@click.option("--checkpoint", required=True, metavar="FOLDER", help="Folder for the state, from which the stream continues.")
@_edges_option
@click.option("--sequence", metavar="COLUMN", help="Integers that order tuples of one timestamp.")
@click.option(
    "--max-delay",
    default="0",
    metavar="DURATION",
    help="How long tuples wait for earlier ones: 10m (minutes), or a number.  [default: 0]",
)
@click.option("--max-files", type=click.IntRange(min=1), default=1, show_default=True, help="Maximum files per micro-batch.")
@click.option("--once", is_flag=True, help="End when all files that exist now have been read.")
@shared.on_error("Whether a bad tuple ends the stream or is left out.")
@topic_options
@_column_options
@_query_options
@_session_options
def stream_command(**options: Any) -> None:
    """Run the queries EXPRESSION over files of edges, or messages of topics, as they arrive.

    Ctrl-C ends the stream; the same command continues it from its checkpoint.
    """
    check_query_options(options, check=stream_check(options))
    check_topic_options(options)
    files = [] if is_topic(options["folder"]) else [options["folder"]]
    _check_files(options, read=files)
    _check_inputs(options, files)
    rules = _rules(options)
    with _session(options, options["partitions"]) as session:
        from rpq.spark.columns import edge_columns, parse_column_names
        from rpq.spark.division import counted_labels
        from rpq.spark.jvm.session import SHUFFLE_PARTITIONS, share_count
        from rpq.spark.record_edges import record_columns
        from rpq.spark.stream import stream_identity
        from rpq.spark.stream.file_edges import file_edges, store_schema
        from rpq.spark.stream.plan import stream_to
        from rpq.spark.stream.run import label_sizes, run_stream, stream_summary

        # An existing stream continues with the same number of shares, even if the cluster has another size now.
        begun = stream_identity.read(session, options["checkpoint"]) or {}
        partitions = share_count(session, options["partitions"] or begun.get("shares"))
        session.conf.set(SHUFFLE_PARTITIONS, partitions)
        sequence, unit = options["sequence"], options["time_unit"]
        # Names of columns apply to messages when they are read, and their edges have the usual names.
        named: dict[str, Any] = {
            name: None if is_topic(options["folder"]) else options[name] for name in ("columns", "label", "edges_from")
        }
        names = parse_column_names(named["columns"], named["label"], has_ids=options["edges"] == "id")
        if is_topic(options["folder"]):
            topics = read_topics(session, options, rules)
            edges, first_edges, sequence = topics.edges, topics.first_edges, topics.sequence
            unit = unit or topics.time_unit
            rules = None
        else:
            found = file_edges(
                session,
                options["folder"],
                names=names,
                has_rules=rules is not None,
                max_files=options["max_files"],
                checkpoint=options["checkpoint"],
                is_begun=bool(begun),
            )
            edges, first_edges = found.edges, found.first_edges
        # Rules apply to a data frame whose rows are records.
        read: Callable[..., EdgeColumns] = partial(edge_columns, names=names)
        if rules is not None:
            read = partial(record_columns, rules=rules)
        columns = read(edges, sequence=None, time_unit="us", with_place=False)
        integers = columns.vertex == "bigint"
        unit = unit or ("us" if columns.is_time else None)
        queries = read_queries(options, unit=unit, integers=integers)
        sizes = options["sizes"]
        if sizes is None and not begun and (labels := counted_labels(queries, partitions)):
            first = first_edges()
            if rules is not None:
                first = record_columns(first, rules, sequence=None, time_unit="us", with_place=False, stops=False).tuples
            sizes = label_sizes(first, names, labels)
            if sizes and not options["quiet"]:
                click.echo(f"sizes of labels in the first tuples: {_sizes_text(sizes)} (--sizes for others)", err=True)
        writer = stream_to(
            edges,
            options["output"],
            *queries,
            partitions=partitions,
            sequence=sequence,
            time_unit=unit,
            on_error=options["on_error"],
            checkpoint=options["checkpoint"],
            max_delay=options["max_delay"],
            identity=options["edges"],
            sizes=sizes,
            **named,
        )
        if not is_topic(options["folder"]):
            store_schema(session, options["checkpoint"], found.schema)
        _prepare_workers(session, queries, integers, options)
        figures = run_stream(writer, session, options["checkpoint"], once=options["once"])
    _report(options, figures, _summary_text(stream_summary(figures)))
    if figures["ended"] == "interrupted":
        sys.exit(_INTERRUPTED)


@spark.command("explain", cls=SeveralValuesCommand, short_help="Show how shares divide queries.")
@click.argument("expressions", metavar="EXPRESSION...", nargs=-1)
@_query_options
def explain_command(**options: Any) -> None:
    """Show how shares divide the queries EXPRESSION, or why more shares do not make them faster.  Spark is not started.

    rpq explain shows everything else about a query.  Windows may be left out.
    """
    from rpq.cli.reporting import printable
    from rpq.spark.columns import queries_in_unit
    from rpq.spark.division import describe_division
    from rpq.spark.errors import PipelineError

    if options["queries_file"] is None and options["window"] is None and options["slide"] is None:
        options |= {"window": "1", "slide": "1"}
    check_query_options(options)
    unit = options["time_unit"] or "s"
    try:
        queries = queries_in_unit(read_queries(options, unit=unit, integers=False), unit)
    except PipelineError as error:
        raise click.UsageError(str(error)) from error
    division = {"shares": options["partitions"], "sizes": options["sizes"]}
    texts = [
        _summary_text({"query": printable(query.name), "shares": describe_division(query, **division)}) for query in queries
    ]
    click.echo("\n\n".join(texts))


@spark.command("rescale", short_help="Change the shares or queries of a stream.")
@click.argument("checkpoint", metavar="CHECKPOINT")
@click.option(
    "--partitions", type=click.IntRange(min=1), help="Number of shares into which roots are divided.  [default: as before]"
)
@click.option(
    "--queries", "queries_file", metavar="FILE", help="All queries from now on, .toml or .jsonl.  [default: as before]"
)
@click.option(
    "--sizes",
    cls=shared.Assignments,
    metavar="LABEL=N,...",
    callback=_parse_sizes,
    help="Numbers of edges by label, by which patterns are divided from now on.  [default: as before]",
)
@shared.time_unit("if not known")
@_session_options
def rescale_command(**options: Any) -> None:
    """Change the shares or the queries of the stream of CHECKPOINT, which must not be running.

    Rows continue as if nothing had happened; a new query begins with the answers over the edges in its window.
    """
    started = time.perf_counter()
    if all(options[name] is None for name in ("partitions", "queries_file", "sizes")):
        raise click.UsageError("expected --partitions, --queries or --sizes: the parts of the stream to change")
    options["expressions"] = ()
    if options["queries_file"] is not None:
        check_query_options(options)
    _check_files(options, read=[])
    with _session(options, options["partitions"]) as session:
        from rpq.spark.stream import stream_identity
        from rpq.spark.stream.rescale import rescale

        identity = stream_identity.read(session, options["checkpoint"]) or {}
        queries = []
        if options["queries_file"] is not None:
            unit = identity.get("time_unit") or options["time_unit"]
            queries = read_queries(options, unit=unit, integers=identity.get("vertices") == "bigint")
        figures = rescale(
            session, options["checkpoint"], *queries, partitions=options["partitions"], sizes=options["sizes"]
        )
    figures["total_seconds"] = time.perf_counter() - started
    before, now = figures["queries"]
    lines = {
        "shares": f"{figures['shares'][0]:,} before, {figures['shares'][1]:,} now",
        "sizes": _sizes_text(figures["sizes"]),
        "queries": ", ".join(now),
        "new": ", ".join(figures["added"]),
        "removed": ", ".join(name for name in before if name not in now),
        "time": f"{figures['total_seconds']:.1f} s",
    }
    _report(options, figures, _summary_text(lines))


def _sizes_text(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{label} {size:,}" for label, size in sizes.items())


def _prepare_workers(session: SparkSession, queries: list[rpq.Query], integers: bool, options: dict[str, Any]) -> None:
    """Check that workers have this package, compile its kernels once per machine, and warn of undivided queries."""
    from rpq.cli.reporting import compiling_notice, notice_after
    from rpq.spark.division import division_warning
    from rpq.spark.workers.check import check_workers

    with notice_after(_NOTICE_SECONDS, compiling_notice, shown=not options["quiet"]):
        workers = check_workers(session, *queries, integers=integers)
    if workers.compiled and not options["quiet"]:
        click.echo(str(workers), err=True)
    if not options["quiet"]:
        for query in queries:
            if (warning := division_warning(query)) is not None:
                click.echo(warning, err=True)


def _check_files(options: dict[str, Any], *, read: Sequence[str]) -> None:
    """Raise a usage error for files that cannot be written, and for files and folders that are equal or nested."""
    from rpq.cli.options import check_files, check_folders

    inputs = [("--input", path) for path in read]
    check_files(written=[("--stats", options["stats"])], read=inputs)
    folders = [(f"--{name}", options[name]) for name in ("output", "checkpoint") if options.get(name)]
    check_folders(written=folders, read=inputs)


def _check_inputs(options: dict[str, Any], inputs: Sequence[str], *, need_parquet: bool = False) -> None:
    """Raise a usage error, before Spark starts, for inputs on this machine that are missing or, if needed, are not Parquet.

    Spark reports what is missing on other file systems.
    """
    from rpq.spark.errors import PipelineError
    from rpq.spark.jvm.data_sets import check_local_data, local_files
    from rpq.spark.jvm.session import local_path

    settings = _settings(options)
    paths = [(uri, local_path(uri, master=options["master"], settings=settings)) for uri in inputs]
    for uri, path in paths:
        found = None if path is None else local_files(path)
        try:
            if found is not None and not found:
                raise PipelineError(f"{uri}: there is no such file or folder")
            if found is not None and need_parquet:
                check_local_data(found)
        except PipelineError as error:
            raise click.UsageError(f"--input {error}") from error


def _rules(options: dict[str, Any]) -> EdgeRules | None:
    """Return the rules of `--edges-from`, if it is given.  Raises a usage error."""
    if options["edges_from"] is None:
        return None
    from rpq.spark.errors import PipelineError
    from rpq.spark.record_edges import rules_of

    try:
        return rules_of(options["edges_from"], options["columns"], options["label"])
    except PipelineError as error:
        raise click.UsageError(f"--{str(error).replace('edges_from', 'edges-from')}") from error


def _check_new_output(output: str) -> None:
    if os.path.exists(output):
        raise click.UsageError(f"--output {output}: exists already; remove it or choose another name")


@contextmanager
def _session(options: dict[str, Any], partitions: int | None) -> Iterator[SparkSession]:
    """Open a session for a block; errors of this package and of Spark become those of the command."""
    from rpq.spark.errors import PipelineError, plain_message
    from rpq.spark.jvm.session import open_session

    try:
        session = open_session(
            master=options["master"],
            partitions=partitions,
            settings=_settings(options),
            py_files=options["py_files"],
            archives=options["archives"],
        )
    except PipelineError as error:
        raise click.UsageError(str(error)) from error
    except Exception as error:
        raise click.UsageError(f"Spark does not start: {plain_message(error)}") from error
    try:
        yield session
    except RpqError as error:
        raise click.ClickException(str(error)) from error
    except Exception as error:
        if not type(error).__module__.startswith(("pyspark", "py4j")):
            raise
        raise click.ClickException(plain_message(error)) from error
    finally:
        session.stop()


def _settings(options: dict[str, Any]) -> dict[str, str]:
    """Return the settings of a session: the command itself reports what has failed, unless Spark's log is asked for."""
    settings = {"spark.log.level": "FATAL", **topic_settings(options)}
    for pair in options["conf"]:
        key, equals, value = pair.partition("=")
        if not equals:
            raise click.UsageError(f"--conf {pair}: expected KEY=VALUE")
        settings[key] = value
    return settings


_INTERRUPTED = 130
"""The status of a command that Ctrl-C has ended."""


def _summary_text(lines: Mapping[str, Any]) -> str:
    """Return a summary of figures, one per line, without empty figures."""
    return "\n".join(f"{name:<12}{text}" for name, text in lines.items() if text)


def _report(options: dict[str, Any], figures: dict[str, Any], text: str) -> None:
    from rpq.cli.reporting import write_stats

    if not options["quiet"]:
        click.echo(text, err=True)
    if options["stats"]:
        try:
            write_stats(options["stats"], figures)
        except OSError as error:
            raise click.ClickException(str(error)) from error
