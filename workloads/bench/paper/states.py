"""Throughput of gMark's queries against the states of their automata and the size of the index (figures 8 and 9)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import rpq
from rpq.workloads.bench import measure as measuring
from rpq.workloads.bench import plots
from rpq.workloads.bench.experiment import Column, Experiment, Outcome, Record, Say, Settings, streams_of
from rpq.workloads.bench.paper.automaton_size import QUERIES, gmark_queries

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LOOKS = 16


def measure(settings: Settings, say: Say) -> Outcome:
    """Measure a hundred queries (fewer below scale 1) on a gMark graph."""
    records, streams = [], []
    count = max(10, round(QUERIES * min(1.0, settings.scale)))
    for stream in streams_of(settings, ["gmark"], say):
        streams.append(stream.describe())
        for number, known in enumerate(gmark_queries(settings, count)):
            if number % 10 == 0:
                say(f"{stream.name}: query {number} of {count} …")
            query = rpq.Query(known["expression"], window=stream.window)
            run = measuring.run_median(query, stream, repeat=settings.repeat)
            peak = measuring.find_peak(query, stream, samples=LOOKS)
            records.append(
                {
                    "data": stream.name,
                    **known,
                    **measuring.run_record(run),
                    "relevant_per_second": run.relevant / run.engine_seconds if run.relevant else None,
                    "cells": peak.cells,
                    "trees": peak.trees,
                }
            )
    checks = {
        "every query was run over the whole stream": all(r["tuples"] == streams[0]["tuples"] for r in records)
        and len(records) == count
    }
    return Outcome(
        records=records, streams=streams, checks=checks, facts={"most common number of states": most_common_states(records)}
    )


def most_common_states(records: list[Record]) -> int:
    """Return the number of states that most of the queries have."""
    return Counter(record["states"] for record in records).most_common(1)[0][0]


def plot(figure: Figure, records: list[Record]) -> None:
    """Draw throughput against states; against nodes, for the most common number of states."""
    left, right = plots.panels(figure, 2)
    plots.points(left, records, "states", "relevant_per_second")
    left.set(xlabel="states", ylabel="relevant tuples a second")
    states = most_common_states(records)
    alike = [record for record in records if record["states"] == states]
    plots.points(right, alike, "cells", "relevant_per_second", log_x=True)
    right.set_xlabel(f"nodes of the index, queries with {states} states")


EXPERIMENT = Experiment(
    name="states",
    title="Throughput against states and index size, gMark queries (figures 8 and 9)",
    how="Relevant tuples a second in batches; nodes of the index at the fullest of 16 moments.",
    paper="The number of states matters little; queries with as many states differ widely, and the larger the index, the "
    "lower the throughput.",
    columns=(
        Column(key="size", heading="size", format="d"),
        Column(key="states", heading="states", format="d"),
        Column(key="expression", heading="expression"),
        Column(key="tuples_per_second", heading="tuples/s", format=",.0f"),
        Column(key="relevant", heading="relevant", format=","),
        Column(key="relevant_per_second", heading="relevant tuples/s", format=",.0f"),
        Column(key="latency_p99_us", heading="p99, µs", format=",.1f"),
        Column(key="cells", heading="nodes", format=","),
        Column(key="trees", heading="trees", format=","),
        Column(key="rows_added", heading="rows", format=","),
    ),
    measure=measure,
    plot=plot,
    repeat=3,
)
