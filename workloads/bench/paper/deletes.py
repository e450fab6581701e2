"""Explicit deletes, 2 to 10 % of the stream (figure 10)."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from rpq.workloads.bench import measure as measuring
from rpq.workloads.bench import plots
from rpq.workloads.bench.experiment import (
    Column,
    Experiment,
    ExperimentResult,
    Record,
    Say,
    Settings,
    queries_of,
    streams_of,
)
from rpq.workloads.bench.paper.throughput import BASELINE_PART, published_algorithm

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PERCENT = (0, 2, 4, 6, 8, 10)


def measure(settings: Settings, say: Say) -> ExperimentResult:
    """Measure all queries with growing shares of deletes of consumed edges."""
    records, streams = [], []
    for stream in streams_of(settings, ["yago"], say):
        streams.append(stream.describe())
        for name, query in queries_of(settings, stream):
            say(f"{stream.name} {name} …")
            base = None
            for percent in PERCENT:
                deleting = measuring.with_deletes(query, stream, percent, seed=settings.seed)
                run = measuring.run_median(query, deleting, repeat=settings.repeat)
                base = base or run
                records.append(
                    {
                        "data": stream.name,
                        "query": name,
                        "expression": query.expression,
                        "percent": percent,
                        "deletes": len(deleting) - len(stream),
                        **measuring.run_record(run),
                        "seconds_ratio": measuring.ratio(run.engine_seconds, base.engine_seconds),
                        "latency_ratio": measuring.ratio(run.latency_p99_us, base.latency_p99_us),
                        **published_algorithm(query, deleting, settings.seconds * BASELINE_PART),
                    }
                )
    checks = {
        "a stream without deletes removes no rows": all(not r["rows_removed"] for r in records if not r["percent"]),
        "more edges are deleted if more deletes are drawn": all(
            one["deletes"] <= other["deletes"]
            for one, other in pairwise(records)
            if one["query"] == other["query"]
        ),
        "the published algorithm counts the same rows": all(record["rapq_agrees"] for record in records),
    }
    return ExperimentResult(records=records, streams=streams, checks=checks)


def plot(figure: Figure, records: list[Record]) -> None:
    """Draw p99 and seconds against the share of deletes."""
    left, right = plots.panels(figure, 2)
    plots.lines(left, records, "percent", "latency_p99_us", by="query")
    plots.lines(right, records, "percent", "seconds_ratio", by="query")
    left.set(xlabel="deletes, %", ylabel="p99 latency, µs", ylim=(0, None))
    right.set(xlabel="deletes, %", ylabel="engine seconds, of those without deletes", ylim=(0, None))
    plots.legend_above(figure)


EXPERIMENT = Experiment(
    name="deletes",
    title="Explicit deletes (figure 10)",
    how="After an insert, with this probability, a delete of an edge drawn from the window follows. RAPQ: algorithms 1 to 4 "
    "as published, compiled, as in `rpq bench throughput`, over the same tuples as far as a twelfth of --seconds of CPU "
    "reaches; as many rows are added and removed as by this engine.",
    paper="Deletes cost, through the expiry procedure that they call, but the overhead soon flattens: windows and indexes "
    "get smaller, too.",
    columns=(
        Column(key="query", heading="query"),
        Column(key="expression", heading="expression"),
        Column(key="percent", heading="deletes, %", format="d"),
        Column(key="deletes", heading="deletes", format=","),
        Column(key="engine_seconds", heading="s", format=".3f"),
        Column(key="seconds_ratio", heading="ratio", format=".2f"),
        Column(key="latency_p99_us", heading="p99, µs", format=",.2f"),
        Column(key="latency_ratio", heading="ratio", format=".2f"),
        Column(key="rows_added", heading="rows added", format=","),
        Column(key="rows_removed", heading="removed", format=","),
        Column(key="rapq_tuples", heading="RAPQ, tuples (of the stream)", format=",", of="tuples"),
        Column(key="rapq_seconds", heading="RAPQ, s", format=".3f"),
        Column(key="rapq_ratio", heading="RAPQ, × our CPU", format=",.1f"),
    ),
    measure=measure,
    plot=plot,
    repeat=3,
)
