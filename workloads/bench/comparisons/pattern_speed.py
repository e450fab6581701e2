"""The table of graph patterns: patterns of edges compared with four published engines, and patterns with paths.

`run_in_stages` divides the time of a run into the time before, in and after the kernels. `run_sketch` runs a C++ sketch of
the same joins in turns with the engine, since ratios are meaningful only on the same machine at the same time. The sketch is
not part of this project: its folder, which its own script fills, contains the program `patterns`, the streams and
`patterns.txt`, the list of the patterns by name.
"""

from __future__ import annotations

import re
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import rpq
from rpq.compiled.cycle_counter import ticks_per_second
from rpq.engine.statistics import latency_quantile
from rpq.errors import QueryError
from rpq.workloads.bench import measure as measuring
from rpq.workloads.bench import plots
from rpq.workloads.bench.comparisons.path_speed import MEGABYTE, stream_of
from rpq.workloads.bench.experiment import Column, Experiment, ExperimentResult, Record, Say, Settings, figures_of_others
from rpq.workloads.bench.memory import resident_memory
from rpq.workloads.bench.streams import Stream, StreamError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_FOUND = re.compile(r"pos=(\d+) neg=(\d+) sec=([\d.]+).*\(\+(\d+)MB\)")
_EXPLICIT, _WITH_ROWS, _WITH_LOOK_AHEAD = "1", "2", "1"
_BY_A_SHELL = ("sh", "-c", '"$0" "$@"; exit $?')
"""A shell that starts the program: a process inherits the memory peak of its parent, and that of a shell is small."""


@dataclass(frozen=True, kw_only=True)
class SketchRun:
    """The output of one run of the sketch: rows, CPU seconds, and memory beyond its input."""

    rows_added: int
    rows_removed: int
    seconds: float
    megabytes: int


def run_sketch(folder: Path, name: str) -> SketchRun:
    """Run both variants of the sketch, with look-ahead only and with support lists; return the faster run.

    Raises `StreamError`.
    """
    return min((_run(folder, name, lists) for lists in "01"), key=lambda run: run.seconds)


def _run(folder: Path, name: str, lists: str) -> SketchRun:
    arguments = [f"{folder}/", name, str(folder / "patterns.txt"), _EXPLICIT, _WITH_ROWS, lists, _WITH_LOOK_AHEAD]
    try:
        command = [*_BY_A_SHELL, str(folder.resolve() / "patterns"), *arguments]
        ran = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise StreamError(f"{folder}: the sketch does not run {name}: {error}") from error
    found = _FOUND.search(ran.stdout)
    if found is None:
        raise StreamError(f"{folder}: the sketch printed no figures of {name}: {ran.stdout.strip()!r}")
    added, removed, seconds, megabytes = found.groups()
    return SketchRun(rows_added=int(added), rows_removed=int(removed), seconds=float(seconds), megabytes=int(megabytes))


FIRST_TUPLES, MAX_TUPLES, FEWEST_TUPLES, MANY_ROWS = 4_096, 16_384, 64, 1 << 19
"""The sizes of pushes, as the command chooses them: the rows of a push must fit in memory until they are written."""
_QUANTILES = {"p50": 0.5, "p99": 0.99, "maximum": 1.0}


@dataclass(frozen=True, kw_only=True)
class Stages:
    """CPU seconds of a run by stage, and its results.

    `kernels` is the time of calls that apply tuples and write rows of ids; `preparation` is the time before them (reading
    columns, names to ids, the snapshot graph); `total` is the whole time, from columns to rows of Arrow if these are
    requested. `latency_us` contains p50, p99 and maximum of tuples that an atom reads, measured in the kernels.
    """

    total: float
    kernels: float
    preparation: float
    tuples: int
    rows_added: int
    rows_removed: int
    values: int
    latency_us: dict[str, float]
    names_bytes: int
    buffer_bytes: int


class _Watch:
    """A sum of the CPU time of calls."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def watch(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a call so that its time is counted."""

        def timed_call(*arguments: Any, **named: Any) -> Any:
            started = time.process_time()
            try:
                return call(*arguments, **named)
            finally:
                self.seconds += time.process_time() - started

        return timed_call


def run_in_stages(query: rpq.Query, table: pa.Table, *, to_arrow: bool) -> Stages:
    """Push a stream through a fresh engine, `MAX_TUPLES` at a time, or fewer if these give more than `MANY_ROWS` rows.

    With `to_arrow`, the rows of each push are converted to a table, which is freed before the next push.
    """
    engine = rpq.Engine(query)
    evaluation = engine._evaluation
    applying, delivering, telling = _Watch(), _Watch(), _Watch()
    for host in evaluation.running.hosts:
        host.apply = applying.watch(host.apply)
        host._live.deliver = delivering.watch(host._live.deliver)
    evaluation._deltas = telling.watch(evaluation._deltas)  # type: ignore[method-assign]
    arrow = values = 0
    pushed = 0.0
    started = time.process_time()
    first, count = 0, FIRST_TUPLES
    while first < len(table):
        batch = table.slice(first, count)
        beginning = time.process_time()
        changes = engine.push(batch, collect=to_arrow)
        pushed += time.process_time() - beginning
        if to_arrow:
            arrow += changes.to_arrow().num_rows
        first += count
        count = max(FEWEST_TUPLES, min(MAX_TUPLES, 2 * count, count * MANY_ROWS // max(1, len(changes))))
        del changes
    total = time.process_time() - started
    figures = engine.statistics()
    if to_arrow and arrow != figures.rows_added + figures.rows_removed:
        raise AssertionError(f"{arrow} rows, expected {figures.rows_added + figures.rows_removed}")
    values = (figures.rows_added + figures.rows_removed) * len(query.columns)
    (running,) = evaluation.running
    return Stages(
        total=total,
        kernels=applying.seconds - delivering.seconds,
        preparation=pushed - applying.seconds - telling.seconds,
        tuples=figures.tuples,
        rows_added=figures.rows_added,
        rows_removed=figures.rows_removed,
        values=values,
        latency_us=_stage_latencies(running.figures().latency),
        names_bytes=evaluation.vertices.nbytes,
        buffer_bytes=sum(host._live.nbytes for host in evaluation.running.hosts),
    )


def _stage_latencies(histogram: np.ndarray) -> dict[str, float]:
    rate = ticks_per_second() or 1.0
    return {name: latency_quantile(histogram, part, rate) for name, part in _QUANTILES.items()}


ENGINES = ("GraphFlow", "TurboFlux", "SymBi", "RapidFlow")
MICROSECOND = 1e-6
MICROSECONDS_A_TUPLE, NANOSECONDS_A_VALUE = 0.4, 5.0
"""The allowed cost of rows of Arrow beyond the kernels."""

MIXED = (
    {"name": "M1", "data": "stackoverflow", "pattern": "?x a2q/c2a* ?y . ?y c2q ?z", "path": "a2q/c2a*"},
    {"name": "M2", "data": "ldbc", "pattern": "?p likes ?m . ?m replyOf+ ?post . ?post hasCreator ?q . ?p knows ?q",
     "path": "replyOf+"},
    {"name": "M3", "data": "stackoverflow", "pattern": "{busiest} a2q/c2a* ?y . ?y c2q ?z", "path": "a2q/c2a*"},
    {"name": "M4", "data": "stackoverflow", "pattern": "?x role moderator . ?x a2q/c2a* ?y", "path": "a2q/c2a*",
     "sources": 5},
)  # fmt: skip
"""Patterns with path atoms. {busiest} is the vertex with most edges of the first label. With `sources`, this number of such
vertices are moderators, by static edges, and the sources of the path query alone."""

HOW = (
    "CPU seconds of one thread, the fastest of several runs in fresh engines with warm kernels, without reading; explicit "
    "windows, every row written, pushes of 16,384 tuples, or fewer if these give more than half a million rows. Kernels: "
    "from ids to rows of ids. To rows: from columns of names to tables of Arrow with the names. Before: reading columns, "
    "names to ids, and the snapshot graph, per tuple, from text and from the same vertices as integers. Bound: the kernels, "
    "0.4 µs a tuple and 5 ns a value of a row. Latencies: of tuples that an atom reads, measured in the kernels, including "
    "those of paths. Memory: peak resident memory of a process that reads the stream batch by batch from a file, minus that "
    "of a process that has only loaded its kernels; it includes the dictionary of names and the buffer for rows, which are "
    "also shown separately. The sketch runs in turns with the engine: the better of its two variants, rows into a buffer. "
    "The seconds of other engines are quoted, from another machine. Patterns with paths: seconds of the pattern and of the "
    "path query alone, with rows counted, and the difference per row and per tuple."
)

COLUMNS = (
    Column(key="query", heading="query"),
    Column(key="pattern", heading="pattern"),
    Column(key="rows", heading="rows", format=","),
    Column(key="rows_as_expected", heading="as expected"),
    Column(key="kernel_seconds", heading="kernels, s", format=".3f"),
    Column(key="sketch_seconds", heading="sketch, s", format=".3f"),
    Column(key="sketch_ratio", heading="× sketch", format=".2f"),
    Column(key="arrow_seconds", heading="to rows, s", format=".3f"),
    Column(key="arrow_bound_seconds", heading="bound, s", format=".3f"),
    Column(key="before_text_us", heading="before, text, µs", format=".2f"),
    Column(key="before_integers_us", heading="before, integers, µs", format=".2f"),
    *(Column(key=f"{name}_seconds", heading=name, format=".3f") for name in ENGINES),
    Column(key="quoted_sketch_seconds", heading="sketch, quoted", format=".3f"),
    Column(key="latency_p50_us", heading="p50, µs", format=".1f"),
    Column(key="latency_p99_us", heading="p99, µs", format=".1f"),
    Column(key="latency_maximum_us", heading="max, µs", format=",.0f"),
    Column(key="memory_mb", heading="memory, MB", format=".1f"),
    Column(key="names_mb", heading="names, MB", format=".1f"),
    Column(key="row_buffer_mb", heading="row buffer, MB", format=".1f"),
    Column(key="sketch_mb", heading="sketch, MB", format=".0f"),
    Column(key="engine_seconds", heading="engine, s", format=".3f"),
    Column(key="path_seconds", heading="path alone, s", format=".3f"),
    Column(key="path_ratio", heading="× path", format=".2f"),
    Column(key="path_rows", heading="path rows", format=","),
    Column(key="beyond_path_ns_a_row", heading="beyond, ns a row", format=",.1f"),
    Column(key="beyond_path_us_a_tuple", heading="beyond, µs a tuple", format=".2f"),
)


def measure(settings: Settings, say: Say) -> ExperimentResult:
    """Measure the patterns of the published table, then patterns with paths if the engine evaluates them."""
    published_set = figures_of_others("patterns")
    is_whole = settings.scale >= 1 and settings.data is not None
    names = {name.upper() for name in settings.queries}
    selected = [*published_set["queries"], *(MIXED if takes_paths() else ())]
    selected = [published for published in selected if not names or published["name"] in names]
    streams = {name: stream_of(name, settings, say) for name in dict.fromkeys(published["data"] for published in selected)}
    records = []
    for published in selected:
        say(f"{published['name']} …")
        stream = streams[published["data"]]
        if "path" in published:
            records.append(_measure_mixed(published, stream, settings))
        else:
            records.append(_measure_edges(published, stream, settings, is_whole=is_whole))
    checks = {"rows of Arrow equal the rows counted": True}  # otherwise `run_in_stages` has raised an error
    if is_whole:
        checks["rows are as expected"] = all(record.get("rows_as_expected", True) for record in records)
    facts = {"others": published_set["source"], "patterns with paths": "measured" if takes_paths() else "not evaluated yet"}
    described = [stream.describe() for stream in streams.values()]
    return ExperimentResult(records=records, streams=described, checks=checks, facts=facts)


def takes_paths() -> bool:
    """Return whether the engine evaluates patterns with paths."""
    try:
        rpq.Query("?x a/b ?y . ?y c ?z", window=rpq.Window(size=1, slide=1))
    except QueryError:
        return False
    return True


def _measure_edges(published: Mapping[str, Any], stream: Stream, settings: Settings, *, is_whole: bool) -> Record:
    """Return all columns of the table for a pattern of single edges."""
    query = rpq.Query(published["pattern"], window=stream.window, semantics="explicit", name=published["name"])
    integers = as_integers(stream.table)
    for table in (stream.table, integers):
        rpq.warm_up(query, vertices="int64" if pa.types.is_integer(table["source"].type) else "string")
    counting, with_rows, with_integers, sketched = [], [], [], []
    for _ in range(settings.repeat):
        if settings.sketch is not None and is_whole:
            sketched.append(run_sketch(settings.sketch, published["name"]))
        counting.append(run_in_stages(query, stream.table, to_arrow=False))
        with_rows.append(run_in_stages(query, stream.table, to_arrow=True))
        with_integers.append(run_in_stages(query, integers, to_arrow=False))
    run = min(counting, key=lambda stages: stages.kernels)
    resident = resident_memory(query, stream)
    tuples = run.tuples
    return {
        "query": published["name"],
        "pattern": published["pattern"],
        "data": published["data"],
        "kind": "edges",
        "rows": run.rows_added + run.rows_removed,
        "rows_added": run.rows_added,
        "rows_removed": run.rows_removed,
        "kernel_seconds": min(stages.kernels for stages in (*counting, *with_rows, *with_integers)),
        "counting_seconds": min(stages.total for stages in counting),
        "arrow_seconds": min(stages.total for stages in with_rows),
        "arrow_bound_seconds": _bound(run, min(stages.kernels for stages in with_rows)),
        "before_text_us": min(stages.preparation for stages in (*counting, *with_rows)) / tuples / MICROSECOND,
        "before_integers_us": min(stages.preparation for stages in with_integers) / tuples / MICROSECOND,
        **{f"latency_{name}_us": value for name, value in _latencies(counting).items()},
        "memory_mb": resident.beyond_kernels / MEGABYTE,
        "kernels_mb": resident.kernels / MEGABYTE,
        "names_mb": run.names_bytes / MEGABYTE,
        "row_buffer_mb": run.buffer_bytes / MEGABYTE,
        **(_comparison(run, published, sketched, counting) if is_whole else {}),
    }


def _bound(run: Stages, kernels: float) -> float:
    """Return the allowed seconds for rows of Arrow: those of the kernels, and an allowance for each tuple and value."""
    return kernels + run.tuples * MICROSECONDS_A_TUPLE * MICROSECOND + run.values * NANOSECONDS_A_VALUE * 1e-9


def _latencies(runs: Sequence[Stages]) -> dict[str, float]:
    """Return the smallest value of all runs for each figure, because other load only increases latencies."""
    return {name: min(run.latency_us[name] for run in runs) for name in runs[0].latency_us}


def _comparison(
    run: Stages, published: Mapping[str, Any], sketched: Sequence[SketchRun], counted: Sequence[Stages]
) -> Record:
    """Return the figures of other engines, and the ratios to them."""
    expected = published["enter"], published["leave"]
    found = {(run.rows_added, run.rows_removed), *((one.rows_added, one.rows_removed) for one in sketched)}
    comparison: Record = {"rows_as_expected": found == {expected}}
    comparison |= {f"{name}_seconds": published["seconds"][name] for name in ENGINES}
    comparison["quoted_sketch_seconds"] = published["seconds"]["sketch"]
    if sketched:
        best = min(one.seconds for one in sketched)
        comparison["sketch_seconds"] = best
        comparison["sketch_mb"] = min(one.megabytes for one in sketched)
        comparison["sketch_ratio"] = measuring.ratio(min(stages.kernels for stages in counted), best)
    return comparison


def _measure_mixed(published: Mapping[str, Any], stream: Stream, settings: Settings) -> Record:
    """Measure a pattern with a path, and the path query alone."""
    constant = "{busiest}" in published["pattern"]
    busiest = _busiest(stream, published["path"].split("/")[0], published.get("sources", int(constant)))
    text = published["pattern"].format(busiest=busiest[0]) if constant else published["pattern"]
    static = () if constant else [(vertex, "moderator", "role") for vertex in busiest]
    query = rpq.Query(text, window=stream.window, semantics="explicit", name=published["name"])
    sources = busiest or None
    path = rpq.Query(published["path"], window=stream.window, semantics="explicit", sources=sources)
    for one in (query, path):
        measuring.warm_up(one, stream)
    runs: list[measuring.MeasuredRun] = []
    alone: list[measuring.MeasuredRun] = []
    for _ in range(settings.repeat + 1):
        runs.append(measuring.run_once(query, stream.batches(), static=static))
        alone.append(measuring.run_once(path, stream.batches()))
    rows = runs[0].rows_added + runs[0].rows_removed
    seconds, path_seconds = (min(run.cpu_seconds for run in some) for some in (runs, alone))
    return {
        "query": published["name"],
        "pattern": text,
        "data": published["data"],
        "kind": "paths",
        "rows": rows,
        "rows_added": runs[0].rows_added,
        "rows_removed": runs[0].rows_removed,
        "engine_seconds": seconds,
        "path_seconds": path_seconds,
        "path_ratio": measuring.ratio(seconds, path_seconds),
        "path_rows": alone[0].rows_added + alone[0].rows_removed,
        "beyond_path_ns_a_row": (seconds - path_seconds) / rows * 1e9 if rows else None,
        "beyond_path_us_a_tuple": (seconds - path_seconds) / stream.table.num_rows / MICROSECOND,
        "latency_p50_us": min(run.latency_p50_us for run in runs),
        "latency_p99_us": min(run.latency_p99_us for run in runs),
    }


def _busiest(stream: Stream, label: str, count: int) -> list[str]:
    """Return the sources with the most edges of a label; ties in the order of names."""
    table = stream.table
    sources = zip(table["source"].to_pylist(), table["label"].to_pylist(), strict=True)
    counts = Counter(str(source) for source, one in sources if one == label)
    return sorted(counts, key=lambda name: (-counts[name], name))[:count]


def as_integers(table: pa.Table) -> pa.Table:
    """Return the same tuples with an integer for each vertex, by its first appearance."""
    ends = pa.chunked_array([*table["source"].chunks, *table["target"].chunks]).combine_chunks().dictionary_encode()
    numbers = ends.indices.cast(pa.int64())
    count = table.num_rows
    return table.set_column(0, "source", numbers.slice(0, count)).set_column(1, "target", numbers.slice(count))


def plot(figure: Figure, records: list[Record]) -> None:
    """Draw the seconds of P1 to P6 for this and other engines, on a logarithmic axis."""
    shown = [record for record in records if record["query"].startswith("P")]
    axes = figure.subplots()
    systems = {
        "this engine, kernels": "kernel_seconds",
        "this engine, names to rows of Arrow": "arrow_seconds",
        "sketch (C++)": "sketch_seconds",
        **{f"{name} (C++{', counts only' if name == 'RapidFlow' else ''})": f"{name}_seconds" for name in ENGINES},
    }
    present = {name: key for name, key in systems.items() if any(record.get(key) for record in shown)}
    width = 0.8 / max(1, len(present))
    for number, (name, key) in enumerate(present.items()):
        places = [place + (number - (len(present) - 1) / 2) * width for place in range(len(shown))]
        axes.bar(places, [record.get(key) or 0.0 for record in shown], width, label=name)
    plots.decades(axes)
    axes.set_xticks(range(len(shown)), [record["query"] for record in shown])
    axes.set_ylabel("CPU seconds")
    if present:
        figure.legend(loc="outside upper center", ncols=4, fontsize="small")


EXPERIMENT = Experiment(
    name="patterns",
    title="Graph patterns: MathOverflow, 30 days that slide by the day; LDBC updates, 10 days that slide by the day",
    how=HOW,
    columns=COLUMNS,
    measure=measure,
    plot=plot,
)
