"""Counts, measures and latencies of an engine or of one of its queries, for users and for Prometheus."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from rpq.compiled.cycle_counter import LATENCY_BUCKETS, ticks_per_second
from rpq.engine.running.evaluation import Evaluation
from rpq.rows.answers import html_table
from rpq.stream.nodes.node_table import NodeTable


@dataclass(frozen=True, kw_only=True, repr=False)
class Statistics:
    """Counts and measures of an engine or of one query: totals since the beginning, and present sizes.

    - `tuples` = `inserted` + `refreshed` + `deleted` + `absent_deletes` + `late` + `passed_by` + `irrelevant`
    - `rows_added`, `rows_removed`, `answers_live`, `index_cells` and `index_bytes` are sums over the queries
    - `engine_seconds` is wall-clock time inside the engine, without compiling or loading kernels
    - `latency_p50_us` and `latency_p99_us` are quantiles over relevant tuples, timed inside the kernels, with an accuracy of
      a sixteenth of an octave; 0 before the first such tuple
    - `rows_waiting` counts the rows that wait for the next report of queries with `report="slide"` or `"time"`, or until
      they have held for the time of `hold`
    - With simple paths, `conflicts` counts the first conflicts of roots so far, `conflicted_roots` the roots that have a
      conflict now, `pairs_in_doubt` the pairs for which a path, or the lack of one, is stored because of conflicts,
      `searches` the searches for a simple path, and `roots_set_aside` the roots that are set aside now

    - `node_records` counts records of nodes, of which `node_stale` changed nothing, as all they touch was set later, and
      `node_absent` removed nodes without a record; `node_bytes` is the size of the facts: of the engine as a whole
    - `non_numeric` counts, by condition, how often a text such as `1,500.00` was found where a number is needed, and by
      property how often it was to be summed: counts of all queries since the engine was made or restored

    The repr omits figures that are 0.

    >>> import rpq
    >>> engine = rpq.Engine(rpq.Query("a+", window=rpq.Window(size=10, slide=1)))
    >>> engine.push_rows([("x", "y", "a", 1), ("x", "y", "a", 2), ("x", "y", "b", 3)]).added
    1
    >>> figures = engine.statistics()
    >>> figures.tuples, figures.inserted, figures.refreshed, figures.irrelevant
    (3, 1, 1, 1)
    """

    tuples: int
    inserted: int
    refreshed: int
    deleted: int
    absent_deletes: int
    late: int
    passed_by: int
    irrelevant: int
    rows_added: int
    rows_removed: int
    answers_live: int
    edges_live: int
    vertices_live: int
    index_cells: int
    index_bytes: int
    engine_seconds: float
    latency_p50_us: float
    latency_p99_us: float
    conflicts: int = 0
    conflicted_roots: int = 0
    pairs_in_doubt: int = 0
    searches: int = 0
    roots_set_aside: int = 0
    rows_waiting: int = 0
    node_records: int = 0
    node_stale: int = 0
    node_absent: int = 0
    node_bytes: int = 0
    non_numeric: Mapping[str, int] = field(default_factory=dict)

    def __repr__(self) -> str:
        figures = ", ".join(f"{name}={text}" for name, text in self._figure_texts().items() if text not in ("0", "{}"))
        return f"Statistics({figures})"

    def _repr_html_(self) -> str:
        return html_table("statistics", ["figure", "value"], self._figure_texts().items())

    def _figure_texts(self) -> dict[str, str]:
        """Return the figures as text; seconds and microseconds with four digits."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return {name: f"{value:.4g}" if isinstance(value, float) else str(value) for name, value in values.items()}


_OF_NODES = ("node_records", "node_stale", "node_absent", "node_bytes")
_FURTHER = tuple(one.name for one in fields(Statistics) if one.default == 0 and one.name not in _OF_NODES)
"""The figures that only some kinds of queries have, summed over these queries: the fields with a default."""


def statistics_of(evaluation: Evaluation, name: str | None, *, rows_before: np.ndarray, seconds: float) -> Statistics:
    """Return the figures of the query `name`, or of all queries. `rows_before` counts the rows of unregistered queries."""
    queries = evaluation.running
    chosen = [queries.figures_of(running) for running in (queries if name is None else [queries.find(name)])]
    if name is None:
        graph, multigraph = evaluation.graph, evaluation.multigraph
        counts: Sequence[int] = evaluation.outcomes.tolist()
        edges_live = len(graph.live_edges()) if multigraph is None else multigraph.edges_live(graph.time)
    else:
        counts, edges_live = chosen[0].counts, chosen[0].edges
        if evaluation.multigraph is not None:
            counts = evaluation.multigraph.outcome_counts.counts(queries.find(name).question.name).tolist()
    before = rows_before.tolist() if name is None else (0, 0)
    latency = sum((figures.latency for figures in chosen), np.zeros(LATENCY_BUCKETS, np.int64))
    rate = ticks_per_second() or 1.0
    inserted, refreshed, deleted, absent, late, passed_by, irrelevant = counts
    return Statistics(
        tuples=sum(counts),
        inserted=inserted,
        refreshed=refreshed,
        deleted=deleted,
        absent_deletes=absent,
        late=late,
        passed_by=passed_by,
        irrelevant=irrelevant,
        rows_added=sum(figures.added for figures in chosen) + before[0],
        rows_removed=sum(figures.removed for figures in chosen) + before[1],
        answers_live=sum(figures.answers for figures in chosen),
        edges_live=edges_live,
        vertices_live=evaluation.vertices.live,
        index_cells=sum(figures.cells for figures in chosen),
        index_bytes=sum(figures.nbytes for figures in chosen),
        engine_seconds=seconds,
        latency_p50_us=latency_quantile(latency, 0.5, rate),
        latency_p99_us=latency_quantile(latency, 0.99, rate),
        non_numeric=dict(evaluation.vertices.edges.non_numeric),
        **({} if name is not None else _figures_of_nodes(evaluation.nodes)),
        **{further: sum(figures.further.get(further, 0) for figures in chosen) for further in _FURTHER},
    )


def _figures_of_nodes(nodes: NodeTable) -> dict[str, int]:
    applied, stale, absent = nodes.counts.tolist()
    return dict(zip(_OF_NODES, (applied + stale + absent, stale, absent, nodes.nbytes), strict=True))


def add_totals(total: Statistics, before: Statistics, after: Statistics) -> Statistics:
    """Return the figures `after` with the totals of `total` and of the time since `before`."""
    totals = {name: getattr(total, name) + getattr(after, name) - getattr(before, name) for name in _TOTALS}
    counts = Counter(total.non_numeric)
    counts.update(after.non_numeric)
    counts.subtract(before.non_numeric)
    return replace(after, **totals, non_numeric=dict(counts))


def latency_quantile(histogram: np.ndarray, quantile: float, ticks_per_second: float) -> float:
    """Return a quantile of latencies in microseconds, from counts in 16 buckets an octave.

    >>> latency_quantile(np.zeros(1024, np.int64), 0.99, 1e9)
    0.0
    """
    total = histogram.sum()
    if total == 0:
        return 0.0
    bucket = int(np.searchsorted(np.cumsum(histogram), quantile * total))
    # Bucket 16 k + s with 16 ≤ s < 32 holds s·2^k to (s + 1)·2^k ticks: take the middle.
    octave = max(0, bucket // 16 - 1)
    ticks = (bucket - 16 * octave + 0.5) * 2.0**octave
    return float(ticks / ticks_per_second * 1e6)


# --- latencies ----------------------------------------------------------------------------------------------

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""The upper bounds of the buckets, in seconds; one more bucket counts longer latencies."""


class LatencyCounts:
    """Counts of tuples by latency; O(rounds)."""

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.sum = 0.0
        self._waiting: list[tuple[int, float]] = []

    def copy(self) -> LatencyCounts:
        """Return the counts so far."""
        other = LatencyCounts()
        other.counts, other.sum = list(self.counts), self.sum
        return other

    def note(self, count: int, since: float) -> None:
        """Record that `count` tuples have been in the engine since the time `since`."""
        if count:
            self._waiting.append((count, since))

    def commit(self) -> None:
        """Count all recorded tuples as committed now."""
        now = time.monotonic()
        for count, since in self._waiting:
            seconds = now - since
            self.counts[bisect_left(BOUNDS, seconds)] += count
            self.sum += count * seconds
        self._waiting = []


# --- Prometheus: prometheus-client is imported where it is used ---------------------------------------------

_COUNTERS = (
    "tuples", "inserted", "refreshed", "deleted", "absent_deletes", "late", "passed_by", "irrelevant",
    "rows_added", "rows_removed", "conflicts", "searches", "node_records", "node_stale", "node_absent",
)  # fmt: skip
_TOTALS = (*_COUNTERS, "engine_seconds")
_GAUGES = (
    "answers_live", "edges_live", "vertices_live", "index_cells", "index_bytes", "conflicted_roots", "pairs_in_doubt",
    "roots_set_aside", "rows_waiting", "node_bytes",
)  # fmt: skip
_OF_QUERIES = ("rows_added", "rows_removed", "answers_live", "index_cells", "index_bytes")


def engine_families(engine: Mapping[str, Any], queries: Mapping[str, Mapping[str, Any]]) -> Iterator[Any]:
    """Yield the figures of an engine as a whole and of its queries, each the fields of `Statistics`."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    for name in _COUNTERS:
        yield CounterMetricFamily(f"rpq_{name}", f"{name.replace('_', ' ')} so far", value=engine.get(name, 0))
    for name in _GAUGES:
        yield GaugeMetricFamily(f"rpq_{name}", f"{name.replace('_', ' ')} now", value=engine.get(name, 0))
    seconds = engine.get("engine_seconds", 0.0)
    yield CounterMetricFamily("rpq_engine_seconds", "time inside the engine, in seconds", value=seconds)
    for name in _OF_QUERIES:
        kind = CounterMetricFamily if name.startswith("rows_") else GaugeMetricFamily
        family = kind(f"rpq_query_{name}", f"{name.replace('_', ' ')} of a query", labels=["query"])
        for query, figures in queries.items():
            family.add_metric([query], figures[name])
        yield family


def latency_family(counts: LatencyCounts, about: str) -> Any:
    """Return the counts as a Prometheus histogram."""
    from prometheus_client.core import HistogramMetricFamily

    buckets, sofar = [], 0
    for bound, count in zip((*map(str, BOUNDS), "+Inf"), list(counts.counts), strict=True):
        sofar += count
        buckets.append((bound, sofar))
    return HistogramMetricFamily("rpq_latency_seconds", about, buckets=buckets, sum_value=counts.sum)
