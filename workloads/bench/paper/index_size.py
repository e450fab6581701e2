"""The size of the index of all queries on the Stack Overflow stream (figure 5)."""

from __future__ import annotations

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

if TYPE_CHECKING:
    from matplotlib.figure import Figure

def measure(settings: Settings, say: Say) -> ExperimentResult:
    """Measure the largest size of the index, and the throughput."""
    records: list[Record] = []
    streams = []
    for stream in streams_of(settings, ["stackoverflow"], say):
        streams.append(stream.describe())
        for name, query in queries_of(settings, stream):
            say(f"{stream.name} {name} …")
            run = measuring.run_median(query, stream, repeat=settings.repeat)
            peak = measuring.find_peak(query, stream)
            records.append(
                {
                    "data": stream.name,
                    "query": name,
                    "expression": query.expression,
                    "trees": peak.trees,
                    "cells": peak.cells,
                    "index_bytes": peak.index_bytes,
                    "bytes_per_cell": peak.bytes_per_cell,
                    "edges": peak.edges,
                    "answers": peak.answers,
                    "tuples_per_second": run.tuples / run.engine_seconds,
                }
            )
    checks = {
        "every index has trees, as many cells as trees, and no more answers than cells": all(
            record["cells"] >= record["trees"] > 0 and record["cells"] >= record["answers"] for record in records
        )
    }
    return ExperimentResult(records=records, streams=streams, checks=checks)


def plot(figure: Figure, records: list[Record]) -> None:
    """Draw trees and nodes of each query, on logarithmic axes."""
    left, right = plots.panels(figure, 2)
    plots.bars(left, records, "query", "trees", label="trees")
    plots.bars(right, records, "query", "cells", label="nodes of all trees (live cells)")
    plots.decades(left)
    plots.decades(right)


EXPERIMENT = Experiment(
    name="index",
    title="Size of the index on the Stack Overflow stream (figure 5)",
    how="Trees (roots) and their nodes (live cells) at the fullest of 64 moments; bytes with free capacity.",
    paper="The queries with several stars, and those with a star over all three labels, have the largest indexes and the "
    "lowest throughput: the work grows with the index.",
    columns=(
        Column(key="query", heading="query"),
        Column(key="expression", heading="expression"),
        Column(key="trees", heading="trees", format=","),
        Column(key="cells", heading="nodes", format=","),
        Column(key="index_bytes", heading="bytes", format=","),
        Column(key="bytes_per_cell", heading="bytes a node", format=".2f"),
        Column(key="edges", heading="edges", format=","),
        Column(key="answers", heading="answers", format=","),
        Column(key="tuples_per_second", heading="tuples/s", format=",.0f"),
    ),
    measure=measure,
    plot=plot,
)
