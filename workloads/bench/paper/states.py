"""The states of the minimal automata of gMark's queries (figure 7).

Throughput against these states and against the size of the index (figures 8 and 9).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import rpq
from rpq import automata
from rpq.workloads.bench import measure as measuring
from rpq.workloads.bench import plots
from rpq.workloads.bench.experiment import Column, Experiment, ExperimentResult, Record, Say, Settings, streams_of
from rpq.workloads.gmark.queries import random_queries
from rpq.workloads.gmark.schema import SOCIAL, Schema, read_schema

if TYPE_CHECKING:
    from matplotlib.figure import Figure

QUERIES = 100
LOOKS = 16


def measure_automata(settings: Settings, say: Say) -> ExperimentResult:
    """Measure the states of a hundred automata of query size 2 to 20."""
    records = gmark_queries(settings)
    by_size = [
        {
            "size": size,
            "queries": sum(record["size"] == size for record in records),
            "mean_states": sum(r["states"] for r in records if r["size"] == size)
            / sum(record["size"] == size for record in records),
            "most_states": max(record["states"] for record in records if record["size"] == size),
        }
        for size in sorted({record["size"] for record in records})
    ]
    checks = {
        "there are a hundred different queries": len({record["expression"] for record in records}) == QUERIES,
        # A single automaton may be larger: two consecutive stars over the same labels add states in the subset construction.
        "the automata of a size are no larger than that on average": all(
            record["mean_states"] <= record["size"] + 1 for record in by_size
        ),
    }
    return ExperimentResult(records=by_size, streams=[], checks=checks, facts={"schema": _source(settings)})


def gmark_queries(settings: Settings, count: int = QUERIES) -> list[Record]:
    """Return random queries of the schema, with the states of their minimal automata."""
    found = random_queries(_schema(settings), count, seed=settings.seed)
    return [
        {"size": size, "expression": expression, "states": len(automata.compile(expression).accepting)}
        for size, expression in found
    ]


def _schema(settings: Settings) -> Schema:
    """Return the schema of the data set if it is present, otherwise that of the social network."""
    if settings.data is not None:
        for path in [*settings.data.glob("*network.xml"), *settings.data.glob("gmark/*network.xml")]:
            return read_schema(path)
    return SOCIAL


def _source(settings: Settings) -> str:
    return "the built-in social network" if _schema(settings) is SOCIAL else "the data set's network.xml"


def plot_automata(figure: Figure, records: list[Record]) -> None:
    """Draw states against the size of the query."""
    axes = figure.subplots()
    for key, label in (("mean_states", "mean"), ("most_states", "most")):
        axes.plot([r["size"] for r in records], [r[key] for r in records], "o-", label=label)
    axes.set(xlabel="size of the query", ylabel="states of the minimal automaton")
    axes.legend()


AUTOMATA = Experiment(
    name="automata",
    title="States of the minimal automata of 100 gMark queries (figure 7)",
    how="Queries of size 2 to 20 (labels, and occurrences of * and +), grouped and starred as the paper says.",
    paper="The automata do not grow exponentially with the query, although they could.",
    columns=(
        Column(key="size", heading="size", format="d"),
        Column(key="queries", heading="queries", format="d"),
        Column(key="mean_states", heading="mean states", format=".1f"),
        Column(key="most_states", heading="most states", format="d"),
    ),
    measure=measure_automata,
    plot=plot_automata,
)


def measure(settings: Settings, say: Say) -> ExperimentResult:
    """Measure a hundred queries (fewer below scale 1) on a gMark graph."""
    records, streams = [], []
    count = max(10, round(QUERIES * min(1.0, settings.scale)))
    for stream in streams_of(settings, ["gmark"], say):
        streams.append(stream.describe())
        for number, gmark_query in enumerate(gmark_queries(settings, count)):
            if number % 10 == 0:
                say(f"{stream.name}: query {number} of {count} …")
            query = rpq.Query(gmark_query["expression"], window=stream.window)
            run = measuring.run_median(query, stream, repeat=settings.repeat)
            peak = measuring.find_peak(query, stream, samples=LOOKS)
            records.append(
                {
                    "data": stream.name,
                    **gmark_query,
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
    return ExperimentResult(
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
