"""`rpq bench NAME`: run an experiment, show its table, and write its figures."""

from __future__ import annotations

import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rpq.cli.options import FORMATS, format_option, time_unit

if TYPE_CHECKING:
    from rpq.workloads.bench.experiment import Experiment, Settings

EXPERIMENTS = {
    "mathoverflow": ("comparisons.path_speed:MATHOVERFLOW", "Speed on MathOverflow, compared with other engines."),
    "ldbc": ("comparisons.path_speed:LDBC", "Speed on LDBC's updates, compared with other engines."),
    "general-engines": (
        "comparisons.general_engines:EXPERIMENT", "Path queries and patterns beside engines that run in the same hour."
    ),
    "patterns": ("comparisons.pattern_speed:EXPERIMENT", "Graph patterns, compared with other engines."),
    "finbench": (
        "comparisons.finbench:EXPERIMENT", "Three of LDBC FinBench's complex reads as standing queries, beside DuckDB."
    ),
    "permissions": (
        "comparisons.permission_speed:EXPERIMENT", "Permissions of users online, beside DuckDB and a search by hand."
    ),
    "sparql": (
        "comparisons.sparql_speed:EXPERIMENT", "SPARQL: an average, joins, negation, events, against reevaluation."
    ),
    "rsp-benchmarks": (
        "rdf_engines.rsp_benchmarks:EXPERIMENT", "SRBench and LSBench, beside stores of RDF that run in the same hour."
    ),
    "graph-events": (
        "rdf_engines.graph_events:EXPERIMENT", "Events that are graphs, alone and in windows, beside stores of RDF."
    ),
    "stream-operators": (
        "rdf_engines.stream_operators:EXPERIMENT", "Joins, aggregates, DISTINCT, negation, beside stores of RDF; memory."
    ),
    "pattern-state": (
        "rdf_engines.pattern_state:EXPERIMENT", "What patterns of four classes store, beside a store of all edges."
    ),
    "cliffs": ("comparisons.cliffs:EXPERIMENT", "Queries beyond the other tables, each with a bound."),
    "queries": ("comparisons.query_sets:EXPERIMENT", "Thousands of queries at once (TriC, Fig. 12 to 14)."),
    "growth": ("comparisons.query_sets:GROWTH", "Queries over 1 and 10 million edges (TriC, Fig. 12f, 13a, 14a, 14c)."),
    "latency": ("end_to_end.latency:EXPERIMENT", "Latency of the public API: one tuple at a time, small batches."),
    "throughput": ("paper.throughput:EXPERIMENT", "Throughput and tail latency of all queries and data sets (Fig. 4)."),
    "index": ("paper.index_size:EXPERIMENT", "Size of the index on the Stack Overflow stream (Fig. 5)."),
    "windows": ("paper.windows:EXPERIMENT", "Window and slide, and the time in expiry (Fig. 6)."),
    "large-windows": ("paper.windows:LARGE", "Windows of 5 to 20 million edges (Fig. 6)."),
    "automata": ("paper.states:AUTOMATA", "States of 100 minimal automata (Fig. 7)."),
    "states": ("paper.states:EXPERIMENT", "Throughput against states and index size (Fig. 8, 9)."),
    "deletes": ("paper.deletes:EXPERIMENT", "Explicit deletes of 2 to 10 % (Fig. 10)."),
    "reevaluation": ("paper.reevaluation:EXPERIMENT", "Against reevaluation: a SPARQL store, a search (Fig. 11)."),
    "spark": ("comparisons.spark_speed:EXPERIMENT", "The pipeline on Spark: replay, micro-batches, a model of a cluster."),
    "spark-commands": (
        "comparisons.spark_commands:EXPERIMENT", "Cold commands on Spark beside rpq run, and a model of their CPU time."
    ),
    "versions": ("versions:EXPERIMENT", "This version compared with another version, in turns."),
    "simple": ("paper.simple_paths:EXPERIMENT", "Simple path semantics (Table 4)."),
}  # fmt: skip
"""Name → the module below this package with its `Experiment`, and a line of help."""


class BenchGroup(click.Group):
    """A group whose commands are the experiments, imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*EXPERIMENTS, *_others()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        experiment = EXPERIMENTS.get(cmd_name)
        return _others().get(cmd_name) if experiment is None else _command(cmd_name, experiment[1])


def _others() -> dict[str, click.Command]:
    """Return the commands that are not experiments of the list, by their names."""
    return {command.name or "": command for command in (algorithm, run_all, queries_of_others, report)}


@click.group("bench", cls=BenchGroup, short_help="Repeat the experiments and measure this machine.")
def bench() -> None:
    """Repeat the paper's experiments, and measure the engine on this machine.

    Each experiment prints a table and writes NAME.json (with machine, versions, seeds, calibration and commit) and
    NAME.png. Without --data, experiments run on generated streams.
    """


def load(name: str) -> Experiment:
    """Return an experiment by its name.  Raises `KeyError` for an unknown name."""
    module, _, attribute = EXPERIMENTS[name][0].partition(":")
    experiment: Experiment = getattr(import_module(f"rpq.workloads.bench.{module}"), attribute)
    return experiment


@click.command("all", short_help="Run all experiments, each in its own process, and continue where a run ended.")
@click.option("--data", type=click.Path(path_type=Path, exists=True, file_okay=False), metavar="DIR",
              help="Folder of real data sets.  [default: streams are generated]")  # fmt: skip
@click.option("--only", metavar="NAME,NAME", default="", help="Run only these experiments.")
@click.option("--seconds", type=click.FloatRange(min=0, min_open=True),
              help="Time limit of a baseline for a query.  [default: that of each experiment]")  # fmt: skip
@click.option("--cold", "is_cold", is_flag=True, help="Also measure starts without compiled kernels.")
@click.option("--sketch", type=click.Path(path_type=Path, exists=True, file_okay=False), metavar="DIR",
              help="For patterns: the folder of the C++ sketch, prepared by its script.")  # fmt: skip
@click.option("--kafka", metavar="HOST:PORT", help="Brokers, on which latency and cliffs create topics.")
@click.option("--output", type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
              help="Folder for results.  [default: workloads/results of a checkout, or results]")  # fmt: skip
def run_all(
    data: Path | None,
    only: str,
    seconds: float | None,
    is_cold: bool,
    sketch: Path | None,
    kafka: str | None,
    output: Path | None,
) -> None:
    """Run all experiments except `versions`, which needs another installation.

    An experiment whose complete result in --output is of this commit is not run again, so the same command continues a run
    that was interrupted; experiments with --resume continue at the line at which they ended. An experiment that fails is
    named at the end, and does not stop the others.
    """
    from rpq.workloads.bench.experiment import default_directory, read_result
    from rpq.workloads.bench.machine import commit_of_checkout

    output = output or default_directory()
    names = list(filter(None, only.replace(" ", "").split(","))) or [name for name in EXPERIMENTS if name != "versions"]
    if unknown := [name for name in names if name not in EXPERIMENTS or name == "versions"]:
        raise click.UsageError(f"--only {unknown[0]}: no such experiment; expected some of {', '.join(EXPERIMENTS)}")
    commit, failed = commit_of_checkout(), []
    for name in names:
        try:
            earlier = read_result(output, name)
            measured = earlier["machine"]["commit"] if earlier.get("complete", True) else None
        except (FileNotFoundError, KeyError, ValueError):
            measured = None
        if commit is not None and measured == commit:
            click.echo(f"{name}: measured at {commit} already", err=True)
            continue
        started = time.monotonic()
        options = ["--output", str(output), "--resume"]
        options += [] if data is None else ["--data", str(data)]
        options += [] if seconds is None else ["--seconds", str(seconds)]
        options += ["--cold"] if is_cold else []
        options += [] if sketch is None else ["--sketch", str(sketch)]
        options += [] if kafka is None else ["--kafka", kafka]
        ran = subprocess.run([sys.executable, "-m", "rpq.cli", "bench", name, *options], check=False)
        if ran.returncode:
            failed.append(name)
        click.echo(f"{name}: {'failed' if ran.returncode else 'done'} in {time.monotonic() - started:.0f} s", err=True)
    if failed:
        raise click.ClickException(f"failed: {', '.join(failed)}")


@click.command("queries-of-others", short_help="Count which published queries run: unchanged, with an edit, or not.")
@click.option("--data", type=click.Path(path_type=Path, exists=True, file_okay=False), metavar="DIR", required=True,
              help="Folder with a folder of .rspql, .sparql or .rq files for each collection of queries.")  # fmt: skip
@click.option("--output", type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
              help="Folder for queries-of-others.md.  [default: workloads/results of a checkout, or results]")  # fmt: skip
def queries_of_others(data: Path, output: Path | None) -> None:
    """Run SPARQL and RSP-QL queries of other projects; write how many run unchanged, with an edit, or not at all."""
    from rpq.files.destinations import WriteError, open_replacement
    from rpq.workloads.bench.experiment import default_directory
    from rpq.workloads.bench.queries_of_others import collections_in, markdown

    collections = list(collections_in(data))
    if not collections:
        raise click.UsageError(f"--data {data}: no folder in it has files of queries; expected DIR/COLLECTION/QUERY.rspql")
    text = markdown(collections)
    output = output or default_directory()
    try:
        output.mkdir(parents=True, exist_ok=True)
        with open_replacement(output / "queries-of-others.md") as file:
            file.write(text.encode())
    except (OSError, WriteError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(text, nl=False)


@click.command("algorithm", short_help="Your own algorithm beside the engine: rows are compared, and drawn.")
@click.argument("algorithm", metavar="MODULE:CLASS")
@click.argument("expression", required=False)
@click.option("--input", "inputs", multiple=True, metavar="FILE", help="With EXPRESSION: files of the stream.")
@format_option(FORMATS)
@time_unit("if windows are durations or times are text")
@click.option("--window", metavar="W", help="With EXPRESSION: size of the window.")
@click.option("--slide", metavar="S", help="With EXPRESSION: step by which the window moves.")
@click.option("--data", type=click.Path(path_type=Path, exists=True, file_okay=False), metavar="DIR",
              help="Without EXPRESSION: folder of real data sets.  [default: streams are generated]")  # fmt: skip
@click.option("--edges", type=click.IntRange(min=100), default=100_000, show_default=True,
              help="Edges of a generated stream.")  # fmt: skip
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of generated streams.")
@click.option("--only", "--queries", "queries", metavar="Q1,Q2", default="", help="Run only these of the paper's queries.")
@click.option("--seconds", type=click.FloatRange(min=0, min_open=True), default=10.0, show_default=True,
              help="CPU time of the algorithm for a query.")  # fmt: skip
@click.option("--output", type=click.Path(path_type=Path, file_okay=False), metavar="DIR", default=Path("results"),
              show_default=True, help="Folder for algorithm.json and algorithm.png.")  # fmt: skip
def algorithm(
    algorithm: str,
    expression: str | None,
    inputs: tuple[str, ...],
    format: str,
    time_unit: str | None,
    window: str | None,
    slide: str | None,
    data: Path | None,
    edges: int,
    seed: int,
    queries: str,
    seconds: float,
    output: Path,
) -> None:
    """Run the class MODULE:CLASS beside the engine.

    With EXPRESSION, over the stream of --input; without, the paper's queries over its data sets, as in its figure 4.

    The class is created with an expression and an rpq.Window. Its method insert(source, target, label, timestamp) returns
    the pairs that enter the answer, delete(…), with the same arguments, those that leave it, and advance(time) is called
    before the first tuple of a slide. A module in the working folder is found; rpq.workloads.baselines.rapq:RAPQ is an
    example. The run ends where the rows differ from the engine's.
    """
    from rpq.errors import RpqError
    from rpq.language.query import Query
    from rpq.stream.window import Window, window_of
    from rpq.workloads.bench.comparisons.own_algorithm import Cases, experiment
    from rpq.workloads.bench.experiment import Settings, queries_of
    from rpq.workloads.bench.streams import open_streams, read_stream

    module, _, name = algorithm.partition(":")
    sys.path.insert(0, "")
    try:
        own = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise click.UsageError(f"{algorithm}: cannot be loaded: {error}; expected MODULE:CLASS") from error
    settings = Settings(output=output, data=data, edges=edges, seed=seed, seconds=seconds, queries=_names(queries))
    cases: Cases
    if expression is None:
        if inputs:
            raise click.UsageError("--input needs an EXPRESSION, with --window and --slide")
        streams = open_streams(["yago", "ldbc", "stackoverflow"], data=data, scale=1, seed=seed, edges=edges, say=_say)
        cases = ((stream, list(queries_of(settings, stream))) for stream in streams)
    else:
        try:
            of_time = window_of(window, slide, unit=time_unit) if inputs and window and slide else None
            if not isinstance(of_time, Window):
                raise click.UsageError("EXPRESSION needs --input, and --window and --slide in units of time")
            stream = read_stream(inputs, of_time, format=format, time_unit=time_unit)
            cases = [(stream, [(expression, Query(expression, window=of_time))])]
        except (RpqError, ValueError) as error:
            raise click.UsageError(str(error)) from error
    _measure(experiment(own, name, cases), settings)


@click.command("report", short_help="Update the tables and figures of a text from the results.")
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--results", type=click.Path(path_type=Path, exists=True, file_okay=False), metavar="DIR",
              help="Folder of the results.  [default: workloads/results of a checkout, or results]")  # fmt: skip
@click.option("--check", is_flag=True, help="Change nothing; fail if a file is out of date.")
def report(files: tuple[Path, ...], results: Path | None, check: bool) -> None:
    """Update the tables and figures between markers in FILES (by default README.md) from the results.

    \b
    <!-- bench mathoverflow -->   … a whole section …   <!-- /bench -->
    <!-- bench mathoverflow columns=query,engine_seconds where=query:Q1 -->   … a table …   <!-- /bench -->
    <!-- bench mathoverflow value=engine_seconds where=query:Q1 -->0.3<!-- /bench -->
    """
    from rpq.files.destinations import WriteError, open_replacement
    from rpq.workloads.bench.experiment import default_directory
    from rpq.workloads.bench.report import ReportError, fill_report

    for file in files or (Path("README.md"),):
        try:
            text = file.read_text(encoding="utf-8")
            filled = fill_report(text, results=results or default_directory(), file=file, load=load)
        except (ReportError, OSError) as error:
            raise click.ClickException(str(error)) from error
        if check and filled != text:
            raise click.ClickException(f"{file} differs from the results; update it with: rpq bench report {file}")
        if filled != text:
            try:
                with open_replacement(file) as output:
                    output.write(filled.encode())
            except WriteError as error:
                raise click.ClickException(str(error)) from error
        click.echo(f"{file}: {'unchanged' if filled == text else 'filled in'}", err=True)


def _command(name: str, help_text: str) -> click.Command:
    options: list[click.Parameter] = [
        click.Option(["--data"], type=click.Path(path_type=Path, exists=True, file_okay=False), metavar="DIR",
                     help="Folder of real data sets: stackoverflow/, ldbc/, yago/, gmark/, or their files directly."),
        click.Option(["--scale"], type=click.FloatRange(0, 100, min_open=True), default=1.0, show_default=True,
                     help="Part of each stream to use; for generated streams it can be more than 1."),
        click.Option(["--edges"], type=click.IntRange(min=100),
                     help="Edges of a generated stream at scale 1.  [default: 1000000, or less, as the experiment needs]"),
        click.Option(["--only", "--queries", "queries"], metavar="Q1,Q2", default="",
                     help="Run only these queries; for cliffs and versions, lines like 'MATCH-*'; for queries and growth, "
                     "figures like '12*', and sizes of sets."),
        click.Option(["--resume", "resumes"], is_flag=True,
                     help="For cliffs, queries, growth and spark-commands: measure only what --output lacks, or has of "
                     "another commit."),
        click.Option(["--repeat"], type=click.IntRange(min=1),
                     help="Number of runs, whose median counts.  [default: 1 to 7, by experiment]"),
        click.Option(["--sample"], type=click.IntRange(min=1), default=200, show_default=True,
                     help="Tuples pushed one at a time, in experiments that measure this."),
        click.Option(["--seconds"], type=click.FloatRange(min=0, min_open=True),
                     help="Time limit of a baseline for a query.  [default: 60, or less, as the experiment needs]"),
        click.Option(["--seed"], type=int, default=1, show_default=True, help="Seed of generated streams and samples."),
        click.Option(["--cold", "is_cold"], is_flag=True, help="Also measure a start without compiled kernels."),
        click.Option(["--other"], type=click.Path(path_type=Path, exists=True, dir_okay=False), metavar="PYTHON",
                     help="For versions: the Python of the installation to compare with."),
        click.Option(["--sketch"], type=click.Path(path_type=Path, exists=True, file_okay=False), metavar="DIR",
                     help="For patterns: the folder of the C++ sketch, prepared by its script."),
        click.Option(["--kafka"], metavar="HOST:PORT", help="For latency and cliffs: brokers, on which topics are created."),
        click.Option(["--output"], type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
                     help="Folder for results.  [default: workloads/results of a checkout, or results]"),
    ]  # fmt: skip
    return click.Command(
        name, params=options, callback=lambda **values: _run(name, values), short_help=help_text, help=help_text
    )


def _run(name: str, values: dict[str, Any]) -> None:
    from rpq.workloads.bench.experiment import Settings, default_directory

    values["output"] = values["output"] or default_directory()
    values["queries"] = _names(values["queries"])
    experiment = load(name)
    for setting in ("repeat", "edges", "seconds"):
        values[setting] = values[setting] or getattr(experiment, setting)
    _measure(experiment, Settings(**values))


def _names(text: str) -> tuple[str, ...]:
    return tuple(filter(None, text.replace(" ", "").split(",")))


def _say(text: str) -> None:
    click.echo(text, err=True)


def _measure(experiment: Experiment, settings: Settings) -> None:
    """Run an experiment, and print its table; end with an error if a check fails."""
    from rich.console import Console

    from rpq.cli.options import check_files
    from rpq.files.destinations import WriteError
    from rpq.workloads.bench.measure import RowsDifferError
    from rpq.workloads.bench.streams import StreamError
    from rpq.workloads.named_queries import UnknownQueryError

    try:
        settings.output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.UsageError(f"--output {settings.output}: cannot be created: {error.strerror or error}") from error
    check_files(written=[("--output", str(settings.output / f"{experiment.name}.{kind}")) for kind in ("json", "png")])
    try:
        result = experiment.run(settings, _say)
    except (StreamError, RowsDifferError, UnknownQueryError, WriteError) as error:
        raise click.ClickException(str(error)) from error
    console = Console()
    if not console.is_terminal:
        console = Console(width=400)
    console.print(experiment.table(result))
    machine = result["machine"]
    console.print(
        f"{machine['cpu']}, {machine['cores']} cores, load {machine['load_average']}; Python {machine['python']}, "
        f"numba {machine['numba']}, commit {machine['commit']}; calibration {machine['calibration_ns_per_step']} ns a step",
        highlight=False,
    )
    for key, value in result["facts"].items():
        console.print(f"{key}: {value}", highlight=False)
    broken = [check for check, holds in result["checks"].items() if not holds]
    if broken:
        raise click.ClickException("failed checks: " + "; ".join(broken))
