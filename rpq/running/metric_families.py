"""Figures of an engine for Prometheus; prometheus-client is imported where it is used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rpq.running.latency_counts import BOUNDS, LatencyCounts

_COUNTERS = (
    "tuples", "inserted", "refreshed", "deleted", "absent_deletes", "late", "irrelevant", "rows_added", "rows_removed",
    "conflicts", "searches",
)  # fmt: skip
_GAUGES = (
    "answers_live", "edges_live", "vertices_live", "index_cells", "index_bytes", "conflicted_roots", "pairs_in_doubt",
    "roots_set_aside", "rows_waiting",
)  # fmt: skip
_OF_QUERIES = ("rows_added", "rows_removed", "answers_live", "index_cells", "index_bytes")


def engine_families(engine: Mapping[str, Any], queries: Mapping[str, Mapping[str, Any]]) -> Iterator[Any]:
    """The figures of an engine as a whole and of its queries, each the fields of `Statistics`."""
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
        for query, known in queries.items():
            family.add_metric([query], known[name])
        yield family


def latency_family(counts: LatencyCounts, about: str) -> Any:
    """Counts of tuples by latency as a histogram."""
    from prometheus_client.core import HistogramMetricFamily

    buckets, sofar = [], 0
    for bound, count in zip((*map(str, BOUNDS), "+Inf"), list(counts.counts), strict=True):
        sofar += count
        buckets.append((bound, sofar))
    return HistogramMetricFamily("rpq_latency_seconds", about, buckets=buckets, sum_value=counts.sum)
