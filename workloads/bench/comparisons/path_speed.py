"""The comparison of path queries with other engines on two streams.

MathOverflow has dense windows, in which the index dominates the cost; LDBC's updates are a sparse stream, in which the edge
itself does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import rpq
from rpq.workloads import named_queries
from rpq.workloads.bench import measure, plots
from rpq.workloads.bench.experiment import Column, Experiment, ExperimentResult, Record, Say, Settings, figures_of_others
from rpq.workloads.bench.memory import cold_seconds, resident_memory, start_seconds
from rpq.workloads.bench.streams import DATA_SETS, Stream, generate, load_files

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DELETE_PERCENT = 5
MEGABYTE = 1e6

COLUMNS = (
    Column(key="query", heading="query"),
    Column(key="expression", heading="expression"),
    Column(key="engine_seconds", heading="s", format=".3f"),
    Column(key="cpu_seconds", heading="CPU s", format=".3f"),
    Column(key="sketch_seconds", heading="sketch", format=".2f"),
    Column(key="sketch_ratio", heading="× sketch", format=".2f"),
    Column(key="LM-SRPQ_seconds", heading="LM-SRPQ", format=".1f"),
    Column(key="S-PATH_seconds", heading="S-PATH"),
    Column(key="others_seconds", heading="S-PATH, LM-SRPQ"),
    Column(key="rows_added", heading="rows", format=","),
    Column(key="rows_as_expected", heading="as expected"),
    Column(key="deletes_seconds", heading="5 % deletes, s", format=".3f"),
    Column(key="deletes_ratio", heading="ratio", format=".2f"),
    Column(key="first_delete_ms", heading="first delete, ms", format=".1f"),
    Column(key="two_threads_seconds", heading="2 threads, s", format=".3f"),
    Column(key="two_threads_speedup", heading="2 threads, ×", format=".2f"),
    Column(key="latency_p50_us", heading="p50, µs", format=".1f"),
    Column(key="latency_p99_us", heading="p99, µs", format=".1f"),
    Column(key="peak_cells", heading="peak cells", format=","),
    Column(key="bytes_per_cell", heading="bytes a cell", format=".2f"),
    Column(key="resident_mb", heading="memory, MB", format=",.0f"),
    Column(key="LM-SRPQ_mb", heading="LM-SRPQ, MB", format=",.0f"),
)

HOW = (
    "Engine seconds (wall clock inside the engine, without reading) of the median run of several, each in a fresh "
    "engine with warm kernels; rows are counted, not stored. One thread, two threads and deletes take turns, and ratios are "
    "medians of the ratios within a turn. Peak cells and bytes a live cell: the index with its free capacity, inspected at "
    "64 moments of an unmeasured run. Memory: peak resident memory of a process that reads the stream batch by batch from a "
    "file, minus that of a process that only imports. First delete: a delete of the youngest edge in the fullest window of "
    "a stream without earlier deletes. Latencies: of relevant tuples, measured in the kernels."
)


def measure_speed(dataset: str, figures: str, settings: Settings, say: Say) -> ExperimentResult:
    """Measure the queries of a set of published figures on its data set."""
    published_set = figures_of_others(figures)
    stream = stream_of(dataset, settings, say)
    is_whole = settings.scale >= 1 and settings.data is not None
    selected = {name.upper() for name in settings.queries}
    records = []
    for published in published_set["queries"]:
        if selected and published["name"] not in selected:
            continue
        say(f"{published['name']} …")
        query = rpq.Query(named_queries.named_query(published["name"], stream.queries), window=stream.window)
        record = {"query": published["name"], **measure_query(query, stream, settings)}
        records.append(record | (_comparison(record, published, published_set) if is_whole else {}))
    expected = [record["rows_as_expected"] for record in records if record.get("rows_as_expected") is not None]
    facts: dict[str, Any] = {
        "others": published_set["source"],
        "start_seconds": measure.median(start_seconds("a/b*") for _ in range(min(3, settings.repeat))),
    }
    if settings.is_cold:
        facts["cold_start_seconds"] = cold_seconds("a/b*")
    checks = {
        "rows with two threads equal rows with one": all(r["two_threads_rows"] == r["rows_added"] for r in records),
    }
    if expected:
        checks["rows are as expected"] = all(expected)
    return ExperimentResult(records=records, streams=[stream.describe()], checks=checks, facts=facts)


def measure_query(query: rpq.Query, stream: Stream, settings: Settings) -> Record:
    """Return all columns of the table for one query, except the figures of other engines."""
    deleting = measure.with_deletes(query, stream, DELETE_PERCENT, seed=settings.seed)
    alone, together, removing = measure.run_in_turn(query, [(stream, 1), (stream, 2), (deleting, 1)], repeat=settings.repeat)
    run, two, deleted = map(measure.median_run, (alone, together, removing))
    peak = measure.find_peak(query, stream)
    first = measure.first_delete_seconds(query, stream, peak)
    resident = resident_memory(query, stream)
    return {
        "expression": query.expression,
        **measure.run_record(run),
        "deletes_seconds": deleted.engine_seconds,
        "deletes_ratio": measure.median_ratio(removing, alone),
        "deletes_rows_added": deleted.rows_added,
        "deletes_rows_removed": deleted.rows_removed,
        "deletes_latency_p99_us": deleted.latency_p99_us,
        "first_delete_ms": None if first is None else first * 1e3,
        "two_threads_seconds": two.engine_seconds,
        "two_threads_speedup": measure.median_ratio(alone, together),
        "two_threads_rows": two.rows_added,
        "peak_tuple": peak.tuple,
        "peak_cells": peak.cells,
        "peak_index_bytes": peak.index_bytes,
        "peak_edges": peak.edges,
        "bytes_per_cell": peak.bytes_per_cell,
        "resident_mb": resident.beyond_imports / MEGABYTE,
        "resident_imports_mb": resident.imports / MEGABYTE,
        "resident_kernels_mb": resident.kernels / MEGABYTE,
    }


def figure_text(figure: Any) -> float | str | None:
    """Return a published figure: a number, or bounds as text.

    >>> figure_text({"minimum": 150}), figure_text({"minimum": 0.2, "maximum": 0.5}), figure_text(3.5)
    ('> 150', '0.2 to 0.5', 3.5)
    """
    if not isinstance(figure, Mapping):
        return None if figure is None else float(figure)
    if "maximum" in figure:
        return f"{figure['minimum']:g} to {figure['maximum']:g}"
    return f"> {figure['minimum']:g}"


def _comparison(record: Record, published: Mapping[str, Any], published_set: Mapping[str, Any]) -> Record:
    """Return the figures of other engines for a query, and the ratios to them."""
    comparison: Record = {}
    if "rows" in published:
        comparison |= {"rows_expected": published["rows"], "rows_as_expected": published["rows"] == record["rows_added"]}
    comparison |= published_seconds(published, published_set)
    comparison["LM-SRPQ_mb"] = published.get("resident_mb")
    comparison["sketch_ratio"] = measure.ratio(record["engine_seconds"], published.get("seconds", {}).get("sketch"))
    return comparison


def published_seconds(published: Mapping[str, Any], published_set: Mapping[str, Any]) -> Record:
    """Return the seconds of other engines: those `published` for a query, and those of `published_set` for all queries."""
    seconds = {f"{system}_seconds": figure_text(figure) for system, figure in published.get("seconds", {}).items()}
    for figure in published_set.get("seconds", {}).values():
        seconds["others_seconds"] = figure_text(figure)
    return seconds


def stream_of(dataset: str, settings: Settings, say: Say) -> Stream:
    """Read the files of a data set; without a directory of data, generate a stream, without figures of other engines."""
    if settings.data is not None:
        return load_files(DATA_SETS[dataset], settings.data, scale=settings.scale)
    say("no --data: using a generated stream; the figures of other engines do not apply to it and are left out")
    edges = max(1000, round(settings.edges * settings.scale))
    return generate(DATA_SETS[dataset], edges=edges, seed=settings.seed)


def measure_ldbc(settings: Settings, say: Say) -> ExperimentResult:
    """Measure the six queries of the published table, over the insertions."""
    return measure_speed("ldbc", "ldbc", settings, say)


LDBC = Experiment(
    name="ldbc",
    title="LDBC updates, insertions only: 403,518 edges, window 10 days, slide 1 day",
    how=HOW,
    columns=COLUMNS,
    measure=measure_ldbc,
)


def measure_mathoverflow(settings: Settings, say: Say) -> ExperimentResult:
    """Measure the eight queries of the published table."""
    return measure_speed("stackoverflow", "mathoverflow", settings, say)


def plot_mathoverflow(figure: Figure, records: list[Record]) -> None:
    """Draw the seconds of each query for this and other engines, on a logarithmic axis."""
    axes = figure.subplots()
    systems = {
        "this engine": "engine_seconds",
        "sketch (C++)": "sketch_seconds",
        "LM-SRPQ (C++)": "LM-SRPQ_seconds",
        "S-PATH (C++; bars at 150 s: more)": "S-PATH_seconds",
    }
    present = {name: key for name, key in systems.items() if any(record.get(key) for record in records)}
    width = 0.8 / len(present)
    for number, (name, key) in enumerate(present.items()):
        values = [record.get(key) or 0.0 for record in records]
        heights = [150.0 if isinstance(value, str) else value for value in values]
        places = [place + (number - (len(present) - 1) / 2) * width for place in range(len(records))]
        axes.bar(places, heights, width, label=name)
    plots.decades(axes)
    axes.set_xticks(range(len(records)), [record["expression"] for record in records], rotation=20)
    axes.set_ylabel("engine seconds")
    axes.legend(fontsize="small")


MATHOVERFLOW = Experiment(
    name="mathoverflow",
    title="MathOverflow: 390,441 edges, window 30 days, slide 1 day",
    how=HOW,
    columns=COLUMNS,
    measure=measure_mathoverflow,
    plot=plot_mathoverflow,
)
