"""Throughput and tail latency of all queries on all data sets (figure 4)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import rpq
from rpq.workloads import named_queries
from rpq.workloads.baselines.spanning_trees import SpanningTrees, numbered_columns
from rpq.workloads.bench import measure as measuring
from rpq.workloads.bench import plots
from rpq.workloads.bench.comparisons.path_speed import published_seconds
from rpq.workloads.bench.experiment import (
    Column,
    Experiment,
    ExperimentResult,
    Record,
    Say,
    Settings,
    figures_of_others,
    queries_of,
    streams_of,
)
from rpq.workloads.bench.streams import Stream

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DATA = ["yago", "ldbc", "stackoverflow"]
PUBLISHED = {"stackoverflow": "mathoverflow", "ldbc": "ldbc"}
"""Data set → the published figures of other engines for its whole stream."""
BASELINE_PART = 1 / 12
"""The part of the seconds of a baseline that the published algorithm has for one query."""
PIECE = 256
"""The number of tuples between two looks at the clock."""


def measure(settings: Settings, say: Say) -> ExperimentResult:
    """Measure every query of every data set: in batches for the throughput, one tuple at a time for the latency."""
    records, streams, checks = [], [], {}
    for stream in streams_of(settings, DATA, say):
        streams.append(stream.describe())
        for name, query in queries_of(settings, stream):
            say(f"{stream.name} {name} …")
            run = measuring.run_median(query, stream, repeat=settings.repeat)
            singly = single_pushes(query, stream, settings.sample)
            records.append(
                {
                    "data": stream.name,
                    "query": name,
                    "expression": query.expression,
                    **measuring.run_record(run),
                    "relevant_per_second": run.relevant / run.engine_seconds,
                    **singly,
                    **published_algorithm(query, stream, settings.seconds * BASELINE_PART),
                    **(published(name, stream) if settings.data is not None and settings.scale >= 1 else {}),
                }
            )
        if not settings.queries:
            done = {record["query"] for record in records if record["data"] == stream.name}
            checks[f"all queries of {stream.name} are there"] = done == {*named_queries.names(stream.queries)}
    checks["rows given equal the rows that the engine counts"] = all(r["rows_given"] == r["rows_counted"] for r in records)
    checks["the published algorithm counts the same rows"] = all(record["rapq_agrees"] for record in records)
    return ExperimentResult(records=records, streams=streams, checks=checks)


def published(name: str, stream: Stream) -> Record:
    """Return the published seconds of other engines for a query over the whole stream."""
    is_published = stream.name in PUBLISHED
    published_set: dict[str, Any] = figures_of_others(PUBLISHED[stream.name]) if is_published else {"queries": []}
    entry = next((query for query in published_set["queries"] if query["name"] == name), None)
    return {} if entry is None or published_set["edges"] != len(stream) else published_seconds(entry, published_set)


def published_algorithm(query: rpq.Query, stream: Stream, seconds: float) -> Record:
    """Run RAPQ as published, compiled, for some seconds of CPU, and the engine over the same tuples; compare their rows."""
    columns, vertices, labels = numbered_columns(stream.table)

    def trees() -> SpanningTrees:
        return SpanningTrees(query.expression, query.window, vertices=vertices, labels=labels, tuples=len(stream))

    trees().push(*(column[:1] for column in columns))  # compiles
    published, done, spent = trees(), 0, 0.0
    while done < len(stream) and spent < seconds:
        begun = time.process_time()
        published.push(*(column[done : done + PIECE] for column in columns))
        spent += time.process_time() - begun
        done = min(done + PIECE, len(stream))
    ours = measuring.run_median(query, stream.first(done), repeat=3)  # a single short run may take three times as long
    return {
        "rapq_tuples": done,
        "rapq_seconds": spent,
        "rapq_per_second": done / spent,
        "rapq_ratio": measuring.ratio(spent, ours.cpu_seconds),
        "rapq_rows": published.pairs,
        "rapq_agrees": (published.pairs, published.lost) == (ours.rows_added, ours.rows_removed),
    }


def single_pushes(query: rpq.Query, stream: Stream, sample: int) -> Record:
    """Measure latencies of relevant tuples that are pushed one at a time, into the window of the middle of the stream."""
    engine = rpq.Engine(query)
    middle = len(stream) // 2
    for batch in stream.first(middle).batches():
        engine.push(batch, collect=False)
    before = engine.statistics()
    pushed = measuring.push_singly(engine, stream.table.slice(middle), sample)
    after = engine.statistics()
    counted = after.rows_added + after.rows_removed - before.rows_added - before.rows_removed
    return {
        "push_p50_us": measuring.quantile(pushed.microseconds, 0.5),
        "push_p99_us": measuring.quantile(pushed.microseconds, 0.99),
        "pushed": len(pushed.microseconds),
        "rows_given": pushed.rows,
        "rows_counted": counted,
    }


def plot(figure: Figure, records: list[Record]) -> None:
    """Draw throughput above p99 latency, with a panel for each data set."""
    names = plots.values(records, "data")
    figure.set_size_inches(4.6 * len(names), 6.5)
    rows = figure.subplots(2, len(names), squeeze=False)
    for place, name in enumerate(names):
        chosen = [record for record in records if record["data"] == name]
        plots.bars(rows[0][place], chosen, "query", "relevant_per_second", label="relevant tuples a second")
        plots.bars(rows[1][place], chosen, "query", "latency_p99_us", label="p99 latency, µs")
        rows[0][place].set_title(name)
        plots.decades(rows[0][place])
        plots.decades(rows[1][place])


EXPERIMENT = Experiment(
    name="throughput",
    title="Throughput and tail latency (figure 4)",
    how="Tuples a second in batches, the median run of several, over all tuples and over those whose label the query "
    "uses. Latency: of relevant tuples, in the kernel and, for a sample, of a whole insert or delete. RAPQ: algorithms 1 "
    "to 3 as published, a tree for each root, compiled as the kernels are, over numbered vertices; it counts pairs "
    "(`workloads/baselines/spanning_trees.py`). It has a twelfth of --seconds of CPU for each query; this engine's seconds, "
    "names included, are those over the same tuples, the median of three runs. LM-SRPQ and S-PATH: published figures, "
    "seconds for the whole stream on another machine.",
    paper="Hundreds of edges a second on Stack Overflow, the hardest for its cycles and its few labels, up to tens of "
    "thousands on LDBC; p99 below 100 ms on Stack Overflow, below a millisecond for most queries elsewhere; Q11 fastest.",
    columns=(
        Column(key="data", heading="data"),
        Column(key="query", heading="query"),
        Column(key="expression", heading="expression"),
        Column(key="tuples_per_second", heading="tuples/s", format=",.0f"),
        Column(key="relevant_per_second", heading="relevant tuples/s", format=",.0f"),
        Column(key="latency_p50_us", heading="p50, µs", format=",.1f"),
        Column(key="latency_p99_us", heading="p99, µs", format=",.1f"),
        Column(key="push_p50_us", heading="push p50, µs", format=",.0f"),
        Column(key="push_p99_us", heading="push p99, µs", format=",.0f"),
        Column(key="rows_added", heading="rows", format=","),
        Column(key="engine_seconds", heading="s", format=".3f"),
        Column(key="LM-SRPQ_seconds", heading="LM-SRPQ, s", format=".1f"),
        Column(key="S-PATH_seconds", heading="S-PATH, s"),
        Column(key="others_seconds", heading="S-PATH, LM-SRPQ, s"),
        Column(key="rapq_tuples", heading="RAPQ, tuples (of the stream)", format=",", of="tuples"),
        Column(key="rapq_per_second", heading="RAPQ, tuples/s", format=",.0f"),
        Column(key="rapq_ratio", heading="RAPQ, × our CPU", format=",.1f"),
    ),
    measure=measure,
    plot=plot,
    repeat=3,
    seconds=24.0,
)
