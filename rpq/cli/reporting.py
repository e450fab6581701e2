"""Reports of a run: progress, the notice that kernels are compiled, and at its end figures, a summary and warnings.

People read stderr; programs read the JSON file of `--stats`.
"""

from __future__ import annotations

import json
import logging
import math
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import click

import rpq
from rpq.cli.options import shown_output
from rpq.cli.outputs.formats import N_QUADS_ENDINGS
from rpq.cli.request import RunRequest, RunSettings, has_default_window
from rpq.errors import RpqError
from rpq.files.destinations import open_replacement
from rpq.kafka.client import LOG, JsonEventLines, TextLines
from rpq.language.query import PatternQuery, Query
from rpq.language.readings import named_graphs_of, static_graphs_of
from rpq.run.table_names import is_table
from rpq.stream.durations import NANOSECONDS, length_text
from rpq.stream.window import size_and_slide

if TYPE_CHECKING:
    from rich.progress import Progress

    from rpq.engine.compilation import WarmUp
    from rpq.engine.engine import Engine

REFRESH_SECONDS = 0.5
"""The least time in seconds between two updates of the progress line."""


@contextmanager
def notice_after(seconds: float, text: Callable[[], str], *, shown: bool, done: int = 0, count: int = 0) -> Iterator[None]:
    """Print a notice to stderr if the block takes longer than `seconds` and the notice is to be `shown`.

    It is printed again whenever its text is another one `seconds` later. On a terminal a bar follows for a block of which
    `count` take place and `done` have ended.
    """
    if not shown:
        yield
        return
    has_ended = threading.Event()

    def watch() -> None:
        last = None
        with ExitStack() as bar:
            while not has_ended.wait(seconds):
                if (notice := text()) != last:
                    bar.close()
                    click.echo(notice, err=True)
                    if count and sys.stderr.isatty():
                        bar.enter_context(progress_bar()).add_task("", total=count, completed=done)
                last = notice

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        has_ended.set()
        watcher.join()


def progress_bar() -> Progress:
    """Return a bar on stderr with the part that is done and the time, which is removed at its end."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn

    return Progress(BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=Console(stderr=True), transient=True)


def compiling_notice(what: str = "") -> str:
    """Return the notice that kernels are being loaded, or compiled, and why; `what` says for what."""
    from rpq.engine.compilation import why_compiled

    why = why_compiled()
    return f"loading kernels{what} …" if why is None else f"compiling kernels{what} ({why}) …"


@dataclass(frozen=True, kw_only=True)
class InputProgress:
    """The progress of reading the input, in tuples and in bytes; `bytes_total` is None if its size is unknown."""

    tuples: int
    bytes_read: int
    bytes_total: int | None


class ProgressLine:
    """A line on the terminal: edges/s, edges in the window, index size, answers.  It needs stderr to be a terminal."""

    def __init__(self, *, shown: bool) -> None:
        self._live = None
        self._next = 0.0
        self._last = (time.perf_counter(), 0)
        if shown and sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live
            from rich.text import Text

            self._text = Text
            self._live = Live(console=Console(stderr=True), auto_refresh=False, transient=True)
            self._live.start()

    def update(self, engine: Engine | None, reading: Callable[[], InputProgress]) -> None:
        """Show the progress of the run, unless it was shown less than `REFRESH_SECONDS` ago."""
        now = time.perf_counter()
        if self._live is None or engine is None or now < self._next:
            return
        self._next = now + REFRESH_SECONDS
        figures, read = engine.statistics(), reading()
        before, tuples = self._last
        self._last = (now, read.tuples)
        done = f"{100 * read.bytes_read / read.bytes_total:3.0f} %  " if read.bytes_total else ""
        text = (
            f"{done}{read.tuples:,} tuples  {(read.tuples - tuples) / max(now - before, 1e-9):,.0f} edges/s  "
            f"window {figures.edges_live:,} edges  index {readable_bytes(figures.index_bytes)}  "
            f"{figures.answers_live:,} answers"
        )
        self._live.update(self._text(text, no_wrap=True, overflow="ellipsis"), refresh=True)

    def close(self) -> None:
        """Remove the line, so that later output begins in its place."""
        if self._live is not None:
            self._live.stop()
            self._live = None


def readable_bytes(size: float) -> str:
    """Format a number of bytes with a binary unit.

    >>> readable_bytes(512), readable_bytes(3 * 1024**2)
    ('512 B', '3.0 MiB')
    """
    if size < 1024:
        return f"{size:.0f} B"
    power = min(int(math.log2(size)) // 10, 4)
    return f"{size / 1024**power:.1f} {' KMGT'[power]}iB"


def compile_kernels(
    queries: Sequence[Query],
    *,
    integers: bool,
    threads: int = 1,
    witness: bool = False,
    quiet: bool = False,
) -> float:
    """Compile or load the kernels of queries over integers or texts as vertices, and return the seconds taken."""
    from rpq.engine.compilation import WarmUp
    from rpq.language.kinds import one_query_of_each_kind

    started, vertices = time.perf_counter(), "int64" if integers else "string"
    one_of_each = (WarmUp(query, vertices, threads, witness) for query in one_query_of_each_kind(queries))
    deque(compile_each([*one_of_each], quiet=quiet), maxlen=0)
    return time.perf_counter() - started


def compile_each(warm_ups: Sequence[WarmUp], *, quiet: bool = False) -> Iterator[None]:
    """Compile or load the kernels of queries, paths first, in as many processes as there are cores. Yield after each."""
    from rpq.engine.compilation import cores, warm_up_each
    from rpq.language.kinds import kind_of

    _ = rpq.Engine  # which registers the kinds
    in_turn = sorted(warm_ups, key=lambda one: kind_of(one.query).name != "path")
    steps = warm_up_each(in_turn, jobs=cores())
    for done, one in enumerate(in_turn):
        what = f" for a query of the kind {kind_of(one.query).name}, {done + 1} of {len(in_turn)}"
        with notice_after(1.0, partial(compiling_notice, what), shown=not quiet, done=done, count=len(in_turn)):
            next(steps)
        yield
    deque(steps, maxlen=0)


_IN_COMMON = frozenset({"vertices_live", "engine_seconds", "non_numeric"})
"""The fields of `Statistics` that queries of an engine share; all others are also reported for each query."""


def figures_of_engine(engine: Engine) -> dict[str, Any]:
    """Return the figures of all queries together; None for those that are not known yet."""
    figures = asdict(engine.statistics())
    return {name: None if isinstance(value, float) and math.isnan(value) else value for name, value in figures.items()}


def figures_of_queries(engine: Engine, request: RunRequest) -> list[dict[str, Any]]:
    """Return the figures of each query of a file, for summary and `--stats`."""
    outputs = {query.name: query.output and shown_output(query.output) for query in request.entries}
    found = []
    for query in engine.queries:
        figures = asdict(engine.statistics(query.name))
        window, slide = size_and_slide(query.window) if has_default_window(query) else (None, None)
        found.append(
            {
                "name": query.name,
                "expression": query.expression,
                "window": window,
                "slide": slide,
                "paths": query.paths,
                "semantics": query.semantics,
                "columns": list(query.columns),
                "output": outputs[query.name],
                **{name: value for name, value in figures.items() if name not in _IN_COMMON},
            }
        )
    return found


def pattern_explanations(engine: Engine) -> list[dict[str, Any]]:
    """Return the evaluation plan of each pattern with the counts of its steps; none if the engine failed in a tuple."""
    patterns = [query for query in engine.queries if isinstance(query, PatternQuery)]
    try:
        return [{"name": query.name, **engine.explain(query.name).to_dict()} for query in patterns]
    except RpqError:  # its counts are neither those before the tuple nor those after it
        return []


MAX_QUERIES = 10
"""The number of queries that the summary lists one by one; `--stats` has all."""


def write_stats(path: str, figures: dict[str, Any]) -> None:
    """Write the figures as JSON.  The file is replaced as a whole.  Raises `rpq.files.destinations.WriteError`."""
    text = json.dumps(figures, indent=2, ensure_ascii=False)
    with open_replacement(path) as file:
        file.write(f"{text}\n".encode())


def summary_text(figures: dict[str, Any]) -> str:
    """Return the summary: the figures in some lines of text."""
    counted = ("inserted", "refreshed", "deleted", "absent_deletes", "late", "passed_by", "irrelevant")
    tuples = ", ".join(f"{figures[name]:,} {name.replace('_', ' ')}" for name in counted if figures[name])
    if "queries" in figures:
        queries = _query_lines(figures["queries"])
    else:
        text = " ".join(figures["expression"].split())
        queries = [("query", f"{text}   {_window(figures)}, {figures['semantics']}")]
    lines = [
        *queries,
        ("ended", figures["ended"]),
        ("tuples", f"{figures['tuples']:,}" + (f": {tuples}" if tuples else "")),
        ("static", f"{figures['static_edges']:,} edges without time" if figures.get("static_edges") else ""),
        ("nodes", _node_text(figures)),
        ("rejected", f"{figures['rejected']:,} lines" if figures["rejected"] else ""),
        ("filtered", _filter_text(figures)),
        *_non_numeric_lines(figures.get("non_numeric") or {}),
        ("rows", f"{figures['rows_added']:,} added, {figures['rows_removed']:,} removed"),
        ("waiting", _waiting_line(figures)),
        ("answers", f"{figures['answers_live']:,} now"),
        (
            "window",
            f"{figures['edges_live']:,} edges, {figures['index_cells']:,} index cells, "
            f"{readable_bytes(figures['index_bytes'])}; peak memory {readable_bytes(figures['peak_memory_bytes'])}",
        ),
        (
            "conflicts",
            f"met by roots {figures['conflicts']:,} times, by {figures['conflicted_roots']:,} now; "
            f"{figures['pairs_in_doubt']:,} pairs in doubt now, {figures['searches']:,} searches, "
            f"{figures['roots_set_aside']:,} roots set aside now"
            if figures.get("conflicts")
            else "",
        ),
        (
            "time",
            f"{figures['engine_seconds']:.3f} s in the engine, {figures['total_seconds']:.3f} s in all"
            + (f", compiling apart {figures['compile_seconds']:.1f} s" if figures["compile_seconds"] >= 0.05 else ""),
        ),
        (
            "speed",
            f"{figures['tuples_per_second']:,.0f} tuples/s; latency p50 {_microseconds(figures['latency_p50_us'])}, "
            f"p99 {_microseconds(figures['latency_p99_us'])}",
        ),
    ]
    return "\n".join(f"{name:<10}{text}" for name, text in lines if text)


def _node_text(figures: dict[str, Any]) -> str:
    """Return the line about records of nodes."""
    if not figures.get("node_records"):
        return ""
    parts = [f"{figures[f'node_{name}']:,} {name}" for name in ("stale", "absent") if figures[f"node_{name}"]]
    return f"{figures['node_records']:,} records" + (f": {', '.join(parts)}" if parts else "")


def _waiting_line(figures: dict[str, Any]) -> str:
    """Return the line about rows that the next report contains, or would contain, and rows that have not held yet."""
    waiting, flushed = figures.get("rows_waiting"), figures.get("rows_flushed")
    if flushed:
        return f"{flushed:,} rows of the next report, written at the end of the input"
    return f"{waiting:,} rows until the next report, or until they have held" if waiting else ""


def _window(figures: Mapping[str, Any]) -> str:
    window, slide, unit = figures["window"], figures["slide"], figures["time_unit"]
    if slide is None:
        return "no default window" if window is None else f"window {window}"
    if isinstance(window, str):
        return f"window {window}, step {slide:,}"
    return f"window {length_text(window, unit)}, slide {length_text(slide, unit)}"


def _filter_text(figures: dict[str, Any]) -> str:
    """Return the line about tuples that `--where` left out."""
    undecided = figures.get("undecided")
    doubt = f", {undecided:,} of them because a value is missing or no number" if undecided else ""
    return f"{figures['filtered']:,} tuples{doubt}" if figures.get("filtered") else ""


def _non_numeric_lines(counts: Mapping[str, int]) -> list[tuple[str, str]]:
    """Return the lines about conditions and sums that read texts which are not numbers."""
    return [
        ("texts" if not place else "", f"{printable(text)}   {count:,} values are texts, not numbers")
        for place, (text, count) in enumerate(sorted(counts.items())[:MAX_QUERIES])
    ]


def _microseconds(value: float | None) -> str:
    return "unknown" if value is None or value != value else f"{value:,.1f} µs"


def _query_lines(figures: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Return the lines of the summary about each query, or about the first `MAX_QUERIES` of them."""
    lines = [
        (
            "query" if not number else "",
            f"{printable(query['name'])}   {query['rows_added']:,} rows added, "
            f"{query['rows_removed']:,} removed, {query['answers_live']:,} answers now",
        )
        for number, query in enumerate(figures[:MAX_QUERIES])
    ]
    return [*lines, ("", f"… and {len(figures) - MAX_QUERIES:,} more queries")] if len(figures) > MAX_QUERIES else lines


def printable(name: str) -> str:
    """Return a name that fits on one line of a terminal."""
    return name if name.isprintable() else repr(name)


def report_run(
    figures: dict[str, Any],
    settings: RunSettings,
    *,
    warnings: Sequence[str],
    rejections: Sequence[str],
    set_aside: Sequence[str],
    error: str | None,
) -> None:
    """Write the summary to stderr and the figures to the file of `--stats`; an `error` that ended the run comes last."""
    if not settings.quiet:
        click.echo(summary_text(figures), err=True)
        for message in warnings:
            click.echo(f"warning: {message}", err=True)
    try:
        if settings.stats:
            write_stats(settings.stats, figures)
    except OSError as problem:
        raise click.ClickException(str(problem)) from problem
    finally:
        for message in (*(f"rejected: {one}" for one in rejections), *(() if settings.quiet else set_aside)):
            click.echo(message, err=True)
        if settings.quiet and figures["rejected"]:
            click.echo(f"rejected: {figures['rejected']:,} lines", err=True)
        if error is not None:
            click.echo(f"Error: {error}", err=True)


@contextmanager
def log_to(handler: logging.Handler, logger: logging.Logger, level: int) -> Iterator[None]:
    """Send the records of a logger from `level` up to this handler alone in this block."""
    before = logger.level, logger.propagate
    logger.setLevel(level)
    logger.propagate = False
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before[0])
        logger.propagate = before[1]


@contextmanager
def log_to_stderr(settings: RunSettings) -> Iterator[None]:
    """Log events to stderr in this block; with --quiet, only warnings."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonEventLines() if settings.log == "json" else TextLines())
    level = logging.WARNING if settings.quiet else logging.INFO
    with log_to(handler, LOG, level), log_to(handler, logging.getLogger("rpq.run"), level):
        yield


def query_warnings(queries: Sequence[Query], settings: RunSettings) -> list[str]:
    """Return the warnings of queries."""
    names = (f"query {query.name!r}: " if settings.queries_file else "" for query in queries)
    by_query = zip(names, (getattr(query, "warnings", ()) for query in queries), strict=True)
    found = [name + warning for name, warnings in by_query for warning in warnings]
    found += _warnings_of_empty_reports(queries, settings)
    loaded = {*settings.static_graphs}
    if not loaded - {None} and any(getattr(query, "reads_dataset", False) for query in queries):
        found.append("GRAPH with a variable reads named graphs, and there are none: give them with --static '<graph>=FILE'")
    graphs = {graph for query in queries for graph in named_graphs_of(query)}
    if loaded and None not in loaded:  # otherwise edges without the name of a graph stand for those of FROM
        graphs |= {graph for query in queries for graph in static_graphs_of(query)}
    missing = sorted(graph for graph in graphs if graph not in loaded)
    advice = "there are no edges of the graph <{0}>: give them with --static '<{0}>=FILE'"
    return [*found, *map(advice.format, missing)]


def window_warnings(settings: RunSettings, unit: str | None) -> list[str]:
    """Return a warning about a plain number as the window where times, whose unit no option names, make it very short."""
    window = settings.window
    if settings.time_unit is not None or unit is None or window is None or not window.isdecimal():
        return []
    if int(window) * NANOSECONDS[unit] >= NANOSECONDS["s"]:
        return []
    what = f"--window {window} is {window} {unit}, the unit of the times of this input"
    return [f"{what}; a duration has a unit, such as 7d or 1h"]


def _warnings_of_empty_reports(queries: Sequence[Query], settings: RunSettings) -> list[str]:
    """Return the warnings about --report-empty where no row can represent an empty report."""
    if not settings.report_empty:
        return []
    whole = [query for query in queries if getattr(query, "reports_whole_answers", False)]
    if not whole:
        return ["--report-empty has no effect: no query reports whole answers, as REGISTER RSTREAM <name> AS makes it do"]
    if settings.output is not None and not is_table(settings.output) and settings.output.lower().endswith(N_QUADS_ENDINGS):
        return [f"--report-empty has no effect on {settings.output}: a row without values is no edge"]
    return []
