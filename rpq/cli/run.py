"""`rpq run`: the options, what is wrong with them, and the way from there to a `Session`."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from importlib.metadata import entry_points
from itertools import chain
from typing import TYPE_CHECKING, Any

import click

from rpq.cli.asked_queries import (
    deletions_of,
    figures_of,
    identity_of,
    kinds,
    open_query_outputs,
    output_names,
    output_options,
    queries_of,
    read_asked,
)
from rpq.cli.input_options import input_options, open_input
from rpq.cli.settings import ByteSize, RunSettings, WrittenFile
from rpq.cli.several import SeveralValuesCommand

if TYPE_CHECKING:
    import rpq
    from rpq.cli.checkpoint import Position, Resumed
    from rpq.cli.outputs.query_outputs import QueryOutputs
    from rpq.cli.outputs.sinks import Sink
    from rpq.cli.session import Outputs, Session
    from rpq.queries.query_file import AskedQuery
    from rpq.readers import Batch, Reader

EPILOG = """\b
--input, --source and --target take several values in a row, and can be repeated.  EXPRESSION comes first, last, or
after -- (then it may start with a -):
  rpq run 'a2q/c2a*' --input sx-*.txt.gz --format stackoverflow --window 30d --slide 1d --output rows.csv
  rpq run --window 10 --slide 1 --source x y --input - -- 'knows+'
  rpq run --query Q2 --dataset stackoverflow --input sx-*.txt.gz --format stackoverflow --window 30d --slide 1d
  rpq run --queries queries.toml --input sx-*.txt.gz --format stackoverflow --window 30d --slide 1d --output rows.csv

\b
--queries: in TOML each query is a table [[query]], in JSON lines (.jsonl) an object on a line of its own, with the fields
  name (by default the expression), query (the expression), window, slide, paths, semantics, sources, targets (lists),
  simple_budget, on_budget, output (as --output; queries may share one).
What a query does not say is said by a table [defaults] of the TOML file, and what that does not by the options --window,
--slide, --paths, --semantics, --source, --target, --simple-budget, --on-budget, --output.  All outputs have a first
column query, the name.  A tuple is late if it is for every query.  Anything wrong with the file: nothing is run.
  [[query]]
  name = "experts"
  query = "a2q/c2a*"
  window = "10d"
  output = "experts.parquet"

\b
--output writes CSV (.csv) or JSON Lines (.jsonl), compressed if .gz or .zst follows, or Parquet (.parquet).  A file is
put in its place at the end, as a whole; one that was there stays until then, and for good if the run comes to nothing.
An error or Ctrl-C ends it with the rows so far.  Written as rows come are standard output, FIFOs and devices, text
while an input is no regular file, and all text with --checkpoint, which goes on where it stands.  Parquet with
--checkpoint collects rows in FILE.rows and is made from them at the end of each run.

\b
Exit status: 0 fine, 1 an error in the input, 2 an error in the options, 130 ended by Ctrl-C.
"""


class InputFailure(click.ClickException):
    """Ends with exit status 1."""

    exit_code = 1


@click.command("run", cls=SeveralValuesCommand, epilog=EPILOG, short_help="Run a query over a stream.")
@click.argument("expression", required=False)
@click.option("--query", metavar="NAME", help="In place of EXPRESSION: a query by its name, such as Q2.")
@click.option("--dataset", help="Over whose labels the --query is asked: stackoverflow, ldbc, yago, …")
@click.option("--queries", metavar="FILE", help="In place of EXPRESSION: many queries, .toml or .jsonl; see below.")
@click.option(
    "--input", "inputs", multiple=True, required=True, metavar="FILE...", help="Files to read; - is standard input."
)
@click.option(
    "--format", default="edges", show_default=True, help="Their format: edges, jsonl, stackoverflow, ldbc, yago, gmark."
)
@input_options
@click.option(
    "--window",
    metavar="W",
    help="Size of the window: 30d, 10m (minutes), 500ms, or a number in the stream's unit.",
)
@click.option("--slide", metavar="S", help="How far the window moves at once; as --window.")
@click.option(
    "--time-unit",
    type=click.Choice(["s", "ms", "us", "ns"]),
    help="Unit of the timestamps, where the format does not tell.",
)
@click.option(
    "--paths", type=click.Choice(["walk", "simple"]), default="walk", show_default=True, help="Which paths count."
)
@click.option(
    "--simple-budget",
    type=int,
    default=10_000_000,
    show_default=True,
    metavar="N",
    help="With simple paths: nodes that may be expanded for one root and one tuple or slide.",
)
@click.option(
    "--on-budget",
    type=click.Choice(["error", "set_aside"]),
    default="error",
    show_default=True,
    help="What to do where a root needs more: end, or go on without that root until its conflicts have left the window.",
)
@click.option(
    "--semantics",
    type=click.Choice(["implicit", "explicit"]),
    default="implicit",
    show_default=True,
    help="Whether pairs leave silently, or with a - row, when they expire.",
)
@click.option("--output", metavar="FILE", help="Where rows go: a name as below, or - for standard output.")
@click.option("--witness", is_flag=True, help="Add a column with a path for every + row.")
@click.option("--source", "sources", multiple=True, metavar="V...", help="Only pairs from these vertices.")
@click.option("--target", "targets", multiple=True, metavar="V...", help="Only pairs to these vertices.")
@click.option("--threads", type=click.IntRange(min=1), default=1, show_default=True, help="Threads of the engine.")
@click.option(
    "--memory-limit",
    type=ByteSize(),
    help="Bytes that the engine may use: 500M, 4G.  [default: a part of the machine's]",
)
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="Read the first N tuples only.")
@click.option("--drop-self-loops", is_flag=True, help="Leave out edges from a vertex to itself.")
@click.option(
    "--deletes",
    type=click.FloatRange(0, 100),
    default=0.0,
    metavar="PERCENT",
    help="After each insert, with this probability, delete an edge of the window.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Chooses the --deletes.")
@click.option(
    "--late",
    type=WrittenFile(),
    metavar="FILE",
    help="Where tuples go that came too late for the window, as CSV; .gz and .zst compress it.",
)
@click.option(
    "--on-error",
    type=click.Choice(["stop", "skip"]),
    default="stop",
    show_default=True,
    help="What to do at a bad line.",
)
@click.option(
    "--checkpoint", metavar="FILE", help="Where the run stands is kept here; if it is there, the run goes on from it."
)
@click.option(
    "--stats", type=WrittenFile(), metavar="FILE.json", help="Where the figures of the summary go; - is standard output."
)
@click.option("--quiet", is_flag=True, help="No progress, no summary.")
def run(expression: str | None, query: str | None, dataset: str | None, **options: Any) -> None:
    """Run the query EXPRESSION over a stream of edges.

    Rows (source, target, timestamp, op) tell when a pair of vertices begins (+) and ceases (-) to be joined by a path
    in the window that spells a word of the expression.  Without --output they are only counted.
    """
    try:
        one = asked_expression(expression, query, dataset, queries=options["queries"])
        status = execute(RunSettings(expression=one, **options))
    except KeyboardInterrupt:
        status = 130
    if status:
        sys.exit(status)


def asked_expression(
    expression: str | None, query: str | None, dataset: str | None, *, queries: str | None = None
) -> str | None:
    """The expression, given as such or by the name of a query and a data set; None where there is a file of queries."""
    if queries is not None:
        others = {"EXPRESSION": expression, "--query": query, "--dataset": dataset}
        given = " and ".join(name for name, value in others.items() if value is not None)
        if given:
            raise click.UsageError(f"--queries has all queries of the run; leave out {given}, or put it into {queries}")
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


def execute(settings: RunSettings) -> int:
    """Run, write the summary, and return the exit status; usage errors are click's exceptions."""
    asked = read_asked(settings.queries, settings) if settings.queries is not None else []
    _check(settings, asked)
    import rpq
    import rpq.readers
    from rpq.cli.interrupts import Interrupts, watched
    from rpq.cli.labels_seen import LabelsSeen
    from rpq.cli.progress import ProgressLine, compiling_notice, notice_after
    from rpq.cli.session import Session
    from rpq.cli.summary import summary_text, write_stats
    from rpq.errors import InputError, RpqError

    warm_up = rpq.warm_up  # brings in numba, which is no part of the run, nor are other imports
    started = time.perf_counter()
    try:
        reader = open_input(settings)
    except InputError as error:
        raise InputFailure(str(error)) from error
    queries = _queries(settings, asked, _time_unit(settings, reader))
    one = queries[0].window if not asked else None
    window, slide = (one.size, one.slide) if one else (None, None)
    identity = identity_of(settings, asked, queries) if asked else settings.identity(window=window, slide=slide)
    interrupts = Interrupts()
    are_files = all(map(_is_file, settings.inputs))
    labels_seen = LabelsSeen(query.expression for query in queries)
    batches = labels_seen.observed(watched(reader, interrupts, may_wait=not are_files))
    integers = False
    if are_files or settings.format == "jsonl":  # what else comes through a pipe is text
        batches, integers = _peek(batches)
    if integers:
        queries = _queries(settings, asked, _time_unit(settings, reader), integers=True)
    with notice_after(1.0, compiling_notice, shown=not settings.quiet):
        compile_seconds = sum(
            warm_up(
                query,
                vertices="int64" if integers else "string",
                threads=settings.threads,
                witness=settings.witness,
                state=settings.checkpoint is not None,
            )
            for query in kinds(queries)
        )
    resumed = _resumed(settings, identity)
    engine = (
        resumed.engine
        if resumed
        else rpq.Engine(*queries, threads=settings.threads, memory_limit=settings.memory_limit, witness=settings.witness)
    )
    session = Session(
        settings,
        engine=engine,
        reader=reader,
        batches=batches,
        open_outputs=lambda position: _open_outputs(settings, asked, position),
        deletions=deletions_of(settings, queries),
        identity=identity,
        position=resumed.position if resumed else None,
        started=started + compile_seconds,
    )
    is_shown = not settings.quiet and not ("-" in output_names(settings, asked) and sys.stdout.isatty())
    with interrupts:
        try:
            session.run(interrupts, ProgressLine(shown=is_shown))
        except RpqError as error:  # an output or a checkpoint that cannot be gone on with
            raise click.UsageError(str(error)) from error
    if session.is_output_gone or session.error is not None:
        _let_go_of_standard_output()
    figures = session.figures(compile_seconds=compile_seconds, window=window, slide=slide)
    figures["labels_never_seen"] = labels_seen.never_seen
    if asked:
        figures |= {"paths": None, "semantics": None, "queries": figures_of(engine, asked)}
    if not settings.quiet:
        click.echo(summary_text(figures), err=True)
        for message in labels_seen.warnings():
            click.echo(f"warning: {message}", err=True)
    if settings.stats:
        try:
            write_stats(settings.stats, figures)
        except OSError as error:
            _report(session, figures, settings)
            raise InputFailure(str(error)) from error
    _report(session, figures, settings)
    return session.exit_code


def _let_go_of_standard_output() -> None:
    """Throw away what standard output does not take, or Python complains of it when it ends."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _resumed(settings: RunSettings, identity: dict[str, Any]) -> Resumed | None:
    """The checkpoint to go on from, if there is one."""
    from rpq.cli.checkpoint import read_checkpoint
    from rpq.errors import RpqError

    if settings.checkpoint is None:
        return None
    try:
        return read_checkpoint(
            settings.checkpoint,
            identity,
            threads=settings.threads,
            memory_limit=settings.memory_limit,
            witness=settings.witness,
        )
    except RpqError as error:
        raise click.UsageError(str(error)) from error


def _report(session: Session, figures: dict[str, Any], settings: RunSettings) -> None:
    """Say on stderr what was left out, and what ended the run."""
    for message in session.rejections:
        click.echo(f"rejected: {message}", err=True)
    if not settings.quiet:
        for message in session.set_aside:
            click.echo(message, err=True)
    if settings.quiet and figures["rejected"]:
        click.echo(f"rejected: {figures['rejected']:,} lines", err=True)
    if session.error is not None:
        click.echo(f"Error: {session.error}", err=True)


def _check(settings: RunSettings, asked: list[AskedQuery]) -> None:
    """Refuse what is wrong whatever the input is, cheapest first."""
    from rpq import automata

    if settings.expression is not None:
        for option in ("window", "slide"):
            if getattr(settings, option) is None:
                raise click.UsageError(f"Missing option '--{option}'.")
        try:
            automata.parse(settings.expression)
        except automata.ExpressionError as error:
            raise click.UsageError(f"the expression is not understood\n{error}") from error
    outputs = output_names(settings, asked)
    if settings.checkpoint and "-" in outputs:
        raise click.UsageError(
            "--checkpoint needs an --output that is a file: what was written to standard output cannot be taken back, "
            "so rows since the last checkpoint would come twice"
        )
    if settings.witness and not outputs:
        raise click.UsageError("--witness needs an --output: paths are a column of the rows")
    _check_files(settings, asked)
    if settings.format != "edges":
        from rpq.readers import formats

        if settings.format not in formats():
            raise click.UsageError(f"unknown format {settings.format!r}: expected one of {', '.join(formats())}")


def _check_files(settings: RunSettings, asked: list[AskedQuery]) -> None:
    """Refuse files that cannot be written, and one file for two purposes, before any is opened."""
    from rpq.cli.named_files import check_files
    from rpq.cli.outputs.sinks import SinkError, check_suffix, rows_beside
    from rpq.files.destinations import is_regular

    outputs = output_options(asked) if asked else [("--output", settings.output)]
    written = [*outputs, *((f"--{name}", getattr(settings, name)) for name in ("late", "checkpoint", "stats"))]
    for option, path in outputs:
        if path is None:
            continue
        try:
            is_parquet = check_suffix(path) == ".parquet"
        except SinkError as error:
            raise click.UsageError(str(error)) from error
        if is_parquet and settings.checkpoint is not None:
            written.append((f"the rows of {option} in", rows_beside(path)))
    read = [("--input", path) for path in settings.inputs]
    check_files(written=written, read=[*read, ("--queries", settings.queries)] if settings.queries else read)
    for option, path in written:
        if settings.checkpoint is not None and path is not None and option != "--stats" and not is_regular(path):
            raise click.UsageError(f"{option} {path}: is no regular file; with --checkpoint it must be one")


def _time_unit(settings: RunSettings, reader: Reader) -> str | None:
    if settings.time_unit and reader.time_unit and settings.time_unit != reader.time_unit:
        raise click.UsageError(
            f"--time-unit {settings.time_unit}: the timestamps of this input are in {reader.time_unit}"
        )
    return settings.time_unit or reader.time_unit


def _queries(
    settings: RunSettings, asked: list[AskedQuery], unit: str | None, *, integers: bool = False
) -> list[rpq.Query]:
    """The queries of the run, of which all or one are `asked` in a file or by an expression."""
    lengths = _lengths(settings, unit)
    if asked:
        return queries_of(asked, unit=unit, integers=integers)
    return [_query(settings, lengths, integers=integers)]


def _lengths(settings: RunSettings, unit: str | None) -> dict[str, int]:
    """Window and slide, as far as they are given, in the stream's unit."""
    from rpq.stream.durations import DurationError, parse_duration

    lengths = {}
    for name in ("window", "slide"):
        if getattr(settings, name) is None:
            continue
        try:
            lengths[name] = parse_duration(getattr(settings, name), unit=unit)
        except DurationError as error:
            hint = "" if unit else "; --time-unit says the unit of the timestamps"
            raise click.UsageError(f"--{name}: {error}{hint}") from error
    return lengths


def _query(settings: RunSettings, lengths: dict[str, int], *, integers: bool) -> rpq.Query:
    """The query that an expression asks; `integers` tells what the vertices of the input are."""
    import rpq
    from rpq.errors import QueryError

    try:
        return rpq.Query(
            str(settings.expression),
            window=rpq.Window(size=lengths["window"], slide=lengths["slide"]),
            paths=settings.paths,
            simple_budget=settings.simple_budget,
            on_budget=settings.on_budget,
            semantics=settings.semantics,
            sources=_vertices("--source", settings.sources, integers),
            targets=_vertices("--target", settings.targets, integers),
        )
    except (QueryError, ValueError) as error:
        raise click.UsageError(str(error)) from error


def _vertices(option: str, texts: tuple[str, ...], integers: bool) -> frozenset[int | str] | None:
    if not texts:
        return None
    if not integers:
        return frozenset(texts)
    try:
        return frozenset(map(int, texts))
    except ValueError as error:
        raise click.UsageError(f"{option}: the vertices of this input are integers: {error}") from error


def _is_file(path: str) -> bool:
    return path != "-" and (os.path.isfile(path) or os.path.isdir(path))


def _peek(batches: Iterator[Batch]) -> tuple[Iterator[Batch], bool]:
    """Tell from the first batch whether vertices are integers, and give it back; errors come when it is read again."""
    import pyarrow as pa

    from rpq.errors import InputError
    from rpq.readers import WhereError

    try:
        first = next(batches, None)
    except (InputError, WhereError) as error:
        return _raising(error), False
    if first is None:
        return iter(()), False
    return chain([first], batches), pa.types.is_integer(first.columns.schema.field("source").type)


def _raising(error: Exception) -> Iterator[Batch]:
    raise error
    yield  # makes it a generator


def _open_outputs(settings: RunSettings, asked: list[AskedQuery], position: Position | None) -> Outputs:
    from rpq.cli.outputs.late import LateFile
    from rpq.cli.outputs.sinks import open_sink
    from rpq.cli.session import Outputs

    has_checkpoint = settings.checkpoint is not None
    is_followed = has_checkpoint or not all(map(_is_file, settings.inputs))
    late = None
    rows: Sink | QueryOutputs | None = None
    if settings.late is not None:
        late = LateFile(settings.late, grows=is_followed, position=position.late_bytes if position else None)
    try:
        if asked:
            rows = open_query_outputs(asked, settings, position.output if position else None, grows=is_followed)
        elif settings.output is not None:
            rows = open_sink(
                settings.output,
                witness=settings.witness,
                resumable=has_checkpoint,
                grows=is_followed,
                position=position.output if position else None,
            )
    except BaseException:
        if late is not None:
            late.sink.discard()
        raise
    return Outputs(rows=rows, late=late)
