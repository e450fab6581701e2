"""Throughput and tail latency of all queries on all data sets (figure 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import rpq
from rpq.workloads import named_queries
from rpq.workloads.bench import measure as measuring
from rpq.workloads.bench import plots
from rpq.workloads.bench.experiment import Column, Experiment, Outcome, Record, Say, Settings, queries_of, streams_of
from rpq.workloads.bench.streams import Stream

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DATA = ["yago", "ldbc", "stackoverflow"]


def measure(settings: Settings, say: Say) -> Outcome:
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
                }
            )
        if not settings.queries:
            done = {record["query"] for record in records if record["data"] == stream.name}
            checks[f"all queries of {stream.name} are there"] = done == {*named_queries.names(stream.queries)}
    checks["rows given equal the rows that the engine counts"] = all(r["rows_given"] == r["rows_counted"] for r in records)
    return Outcome(records=records, streams=streams, checks=checks)


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
    "uses. Latency: of relevant tuples, in the kernel and, for a sample, of a whole insert or delete.",
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
    ),
    measure=measure,
    plot=plot,
)
