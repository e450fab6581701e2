"""SRBench and LSBench beside stores of RDF (Le-Phuoc 2016, tables 1 and 2): speed and memory of twelve queries."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa

import rpq
from rpq.language.sparql.query import SparqlQuery
from rpq.workloads.bench.experiment import Experiment, ExperimentResult, Say, Settings
from rpq.workloads.bench.memory import resident_memory
from rpq.workloads.bench.rdf_engines.comparison import (
    COLUMNS,
    HOW,
    MEMORY,
    QueryLine,
    compare_lines,
    kind_stream,
    plot_by,
    select_names,
)
from rpq.workloads.bench.streams import Stream
from rpq.workloads.generate.rdf.rdf_streams import RDF_KINDS
from rpq.workloads.rivals.rdf_changes import RdfStream
from rpq.workloads.sparql_queries import named_sparql

PERIODS = {"sensors": 600, "linked-stream": 100}
"""The slides, at whose ends stores evaluate: SRBench's STEP in seconds, LSBench's smallest window in milliseconds."""

PUBLISHED = {
    "SR-Q1": 25_147, "SR-Q4": 20_161, "SR-Q5": 13_966, "SR-Q8": 22_278, "SR-Q10": 29_463,
    "LSB-Q1": 118_924, "LSB-Q2": 96_789, "LSB-Q3": 88_647, "LSB-Q4": 60_467, "LSB-Q5": 52_890, "LSB-Q6": 44_391,
    "LSB-Q10": 103_698,
}  # fmt: skip
"""Triples per second of CQELS, on the machine of the paper."""

PUBLISHED_MB = {
    "SR-Q1": 206, "SR-Q4": 327, "SR-Q5": 370, "SR-Q8": 248, "SR-Q10": 218,
    "LSB-Q1": 374, "LSB-Q2": 370, "LSB-Q3": 380, "LSB-Q4": 398, "LSB-Q5": 389, "LSB-Q6": 402, "LSB-Q10": 370,
}  # fmt: skip
"""Megabytes of CQELS (table 2 of the paper)."""


def measure(settings: Settings, say: Say) -> Iterator[ExperimentResult]:
    """Yield the table after each query."""
    return compare_lines(lines(settings), settings, say)


def lines(settings: Settings) -> Iterator[QueryLine]:
    """Yield the queries that the settings select over a stream of `settings.edges` tuples."""
    edges = round(settings.edges * settings.scale)
    streams = {}
    for name in select_names(settings, list(PUBLISHED)):
        definition = named_sparql(name)
        if definition.stream not in streams:
            streams[definition.stream] = kind_stream(definition.stream, edges, settings.seed)
        table, static, origin = streams[definition.stream]
        query = SparqlQuery(definition.text, name=name, semantics="explicit").in_unit(str(RDF_KINDS[definition.stream].unit))
        times = table["timestamp"].to_numpy()
        period = PERIODS[definition.stream]
        longest = max(window.size for window in query.windows.values() if isinstance(window, rpq.Window))
        # Windows are full when measuring begins, or half of the stream is over.
        start = min(int(times[0]) + longest, (int(times[0]) + int(times[-1])) // 2)
        first = start // period + 1
        window = rpq.Window(size=longest, slide=period)
        before = table.slice(0, int(np.searchsorted(times // period, first)))
        full = Stream(name=name, queries="", table=before, window=window, origin="")
        yield QueryLine(
            query=query,
            about=definition.about,
            stream=RdfStream(table=table, slides=times // period, first_slide=first, static=static),
            origin=origin,
            published_speed=PUBLISHED[name],
            published_mb=PUBLISHED_MB[name],
            memory=partial(_memory, query, full, static),
        )


def _memory(query: SparqlQuery, full: Stream, static: pa.RecordBatch | None) -> int:
    return resident_memory(query, full, static=static).beyond_kernels


EXPERIMENT = Experiment(
    name="rsp-benchmarks",
    title="SRBench and LSBench beside stores of RDF",
    how=HOW
    + " Slides are of 10 minutes in SRBench and of 100 ms in LSBench. Published: CQELS on the machine of the paper, with "
    "count windows in place of those of the queries." + MEMORY,
    paper="CQELS (Le-Phuoc 2016, table 1): 14,000 to 119,000 triples a second, 10 to 200 times more than by re-evaluation. "
    "Table 2: 206 to 402 MB for these queries.",
    columns=COLUMNS,
    measure=measure,
    plot=plot_by("query"),
    repeat=1,
    edges=300_000,
    seconds=2.0,
)
