"""Path queries with lengths, costs or simple cycles, beside the same query without them; a path of a single label."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache
from time import process_time
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import rpq
from rpq.workloads.bench.comparisons.bounds import Figure, line, tuples_per_second
from rpq.workloads.bench.comparisons.path_speed import stream_of
from rpq.workloads.bench.experiment import Settings
from rpq.workloads.bench.measure import median
from rpq.workloads.bench.streams import Stream

_TEXT = "a2q/c2a*"
_WITH_LENGTH = ("source", "target", "length")
_SOURCES = 20


@cache
def _stream(settings: Settings) -> Stream:
    return stream_of("stackoverflow", settings, lambda text: None)


@cache
def _stream_with_amounts(settings: Settings) -> Stream:
    stream = _stream(settings)
    amounts = np.random.default_rng(7).integers(1, 1000, len(stream))
    return replace(stream, table=stream.table.append_column("amount", pa.array(amounts)))


def _busiest_sources(stream: Stream) -> list[Any]:
    return [vertex for vertex, _ in Counter(stream.table["source"].to_pylist()).most_common(_SOURCES)]


def _seconds(stream: Stream, *, edges: Any = "triple", **options: Any) -> float:
    """Return the CPU seconds of a fresh engine with explicit rows."""
    query = rpq.Query(_TEXT, window=stream.window, semantics="explicit", name="line", **options)
    engine = rpq.Engine(query, edges=edges)
    started = process_time()
    for batch in stream.batches():
        engine.push(batch, collect=False)
    return process_time() - started


def _times_as_long(
    settings: Settings, options: dict[str, Any], base: dict[str, Any], *, stream: Stream | None = None
) -> Figure:
    """Return the median over turns of the seconds with some options divided by those with others."""
    stream = _stream(settings) if stream is None else stream
    ratios = [_seconds(stream, **options) / _seconds(stream, **base) for _ in range(settings.repeat + 1)]
    return Figure(figure=median(ratios[1:]))  # the first one loads kernels


@line("LENGTH", f"{_TEXT} with the lengths of shortest paths", unit="× explicit without", sense="at most", bound=6)
def _with_lengths(settings: Settings) -> Figure:
    return _times_as_long(settings, {"select": _WITH_LENGTH}, {})


@line(
    "COST",
    f"{_TEXT} from {_SOURCES} vertices with the costs of cheapest paths over parallel edges",
    unit="× explicit without",
    sense="at most",
    bound=8,
)
def _with_costs(settings: Settings) -> Figure:
    stream = _stream_with_amounts(settings)
    base = {"sources": _busiest_sources(stream)}
    return _times_as_long(settings, base | {"cost": "amount", "edges": "parallel"}, base, stream=stream)


@line("SIMPLE-CYCLE", f"{_TEXT} with simple cycles", unit="× simple paths", sense="at most", bound=1.2)
def _with_simple_cycles(settings: Settings) -> Figure:
    return _times_as_long(settings, {"paths": "simple_cycle"}, {"paths": "simple"})


@line("ONE-LABEL", "path of a single label, an edge with it", unit="ns/edge", sense="at most", bound=750)
def _of_one_label(settings: Settings) -> Figure:
    """Return what names, labels, the graph and expiry take for an edge, which has no walks beside itself."""
    stream = _stream(settings)
    edges = pc.sum(pc.equal(stream.table["label"].cast("string"), "a2q")).as_py()
    return Figure(figure=1e9 * len(stream) / edges / tuples_per_second("a2q", stream, settings))
