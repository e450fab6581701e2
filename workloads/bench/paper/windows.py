"""Windows and slides of several sizes: tail latency, and the time in expiry (figure 6)."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import rpq
from rpq.workloads import named_queries
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
from rpq.workloads.bench.streams import Stream

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FACTORS = (0.5, 1.0, 1.5, 2.0)
"""Multiples of the data set's window or slide: 5 to 20 million edges around the paper's 10, and slides likewise."""
LARGE_EDGES, LARGE_QUERIES = 40_000_000, ("Q2", "Q4", "Q11")
"""The stream at scale 1 whose windows are as large as the paper's, and queries of a star, of all labels and of none."""


def measure(settings: Settings, say: Say) -> ExperimentResult:
    """Measure both sweeps for every query."""
    records, streams, agree = [], [], True
    for stream in streams_of(settings, ["yago"], say):
        streams.append(stream.describe())
        for sweep, factor in [(sweep, factor) for sweep in ("window", "slide") for factor in FACTORS]:
            size, slide = stream.window.size, stream.window.slide
            window = rpq.Window(
                size=max(1, round(size * factor)) if sweep == "window" else size,
                slide=max(1, round(slide * factor)) if sweep == "slide" else slide,
            )
            say(f"{stream.name}: window {window.size:,}, slide {window.slide:,} …")
            for name, query in queries_of(settings, stream, window=window):
                run = measuring.run_median(query, stream, repeat=settings.repeat)
                expiry = expiry_of(query, stream)
                agree &= expiry.pop("rows_added") == run.rows_added
                records.append(
                    {
                        "sweep": sweep,
                        "window": window.size,
                        "slide": window.slide,
                        "query": name,
                        "expression": query.expression,
                        **measuring.run_record(run),
                        **expiry,
                    }
                )
    checks = {"rows do not depend on whether time moves by a tuple or before it": agree}
    if not settings.queries and records:
        checks["all queries are there"] = {r["query"] for r in records} == {*named_queries.names(stream.queries)}
    return ExperimentResult(records=records, streams=streams, checks=checks)


def expiry_of(query: rpq.Query, stream: Stream) -> Record:
    """Measure the seconds of moving the window: time advances to each boundary before the tuples after it are pushed."""
    engine = rpq.Engine(query)
    seconds, pushing, moved = 0.0, 0.0, 0
    for number, batch in measuring.slides(stream, query.window):
        if engine.time is not None and engine.time // query.window.slide < number:
            started = time.perf_counter()
            engine.advance(number * query.window.slide)
            seconds += time.perf_counter() - started
            moved += 1
        started = time.perf_counter()
        engine.push(batch, collect=False)
        pushing += time.perf_counter() - started
    return {
        "rows_added": engine.statistics().rows_added,
        "expiry_seconds": seconds,
        "expiry_ms_per_slide": seconds / moved * 1e3 if moved else None,
        "expiry_share": seconds / (seconds + pushing),
    }


def plot(figure: Figure, records: list[Record]) -> None:
    """Draw p99 and the time of an expiry against the window and against the slide."""
    figure.set_size_inches(10, 7.5)
    for axes, sweep, (key, name) in zip(
        figure.subplots(2, 2).flat,
        ("window", "slide") * 2,
        [("latency_p99_us", "p99 latency, µs")] * 2 + [("expiry_ms_per_slide", "an expiry, ms")] * 2,
        strict=True,
    ):
        plots.lines(axes, [record for record in records if record["sweep"] == sweep], sweep, key, by="query")
        axes.set(xlabel=f"{sweep}, edges", ylabel=name, ylim=(0, None))
    plots.legend_above(figure)


def measure_large(settings: Settings, say: Say) -> ExperimentResult:
    """Measure both sweeps over a generated stream with the paper's windows, 5 to 20 million edges."""
    return measure(replace(settings, data=None, edges=LARGE_EDGES, queries=settings.queries or LARGE_QUERIES), say)


COLUMNS = (
    Column(key="sweep", heading="sweep"),
    Column(key="window", heading="window", format=","),
    Column(key="slide", heading="slide", format=","),
    Column(key="query", heading="query"),
    Column(key="tuples_per_second", heading="tuples/s", format=",.0f"),
    Column(key="latency_p99_us", heading="p99, µs", format=",.2f"),
    Column(key="expiry_ms_per_slide", heading="an expiry, ms", format=",.3f"),
    Column(key="expiry_share", heading="expiry, of the time", format=".1%"),
)

EXPERIMENT = Experiment(
    name="windows",
    title="Windows and slides (figure 6)",
    how="p99 latency in the kernel, and the time of moving the window, measured by moving it separately from the tuples. "
    "The window and the slide of the data set, multiplied by 0.5 to 2, one at a time.",
    paper="Tail latency and the time of an expiry grow with the window. The slide does not change the latency; an expiry "
    "takes longer with a longer slide, so its share of the time stays the same.",
    columns=COLUMNS,
    measure=measure,
    plot=plot,
    repeat=3,
)


LARGE = Experiment(
    name="large-windows",
    title="Windows of 5 to 20 million edges (figure 6)",
    how=f"As `rpq bench windows`, over a generated stream of {LARGE_EDGES:,} edges at scale 1, so that windows and slides "
    "have as many edges as the paper's.",
    paper="Tail latency grows with the window; that of most queries over Yago2s is below a millisecond, with 32 cores.",
    columns=COLUMNS,
    measure=measure_large,
    plot=plot,
    repeat=1,
)
