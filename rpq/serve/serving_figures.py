"""What a server counts: for the page, for those who list queries, and for Prometheus."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from rpq.cli.reporting import peak_memory_bytes
from rpq.running.statistics import engine_families, latency_family
from rpq.serve import models
from rpq.serve.asked_queries import query_told
from rpq.serve.json_values import json_value

if TYPE_CHECKING:
    from rpq.serve.connections import Connections
    from rpq.serve.service import Service

FRESH_SECONDS = 0.5
"""Figures are taken at most so often: those of a large index take a while."""

RATE_SECONDS = 5.0
"""Over how long tuples a second are counted."""


class ServingFigures:
    """The figures of a service, taken in the engine's thread when somebody asks for them."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.connections: Connections | None = None
        self._taken = -math.inf
        self._of_engine: dict[str, Any] = {}
        self._of_queries: dict[str, dict[str, Any]] = {}
        self._counted: list[tuple[float, int]] = [(time.monotonic(), 0)]

    async def _fresh(self) -> None:
        """See that the figures are not old."""
        if time.monotonic() - self._taken > FRESH_SECONDS:
            self._of_engine, self._of_queries = await self._service.call(self._take, even_if_failed=True)
            self._taken = time.monotonic()

    def _take(self) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        engine = self._service.engine
        of_engine = asdict(engine.statistics())
        of_engine["time"] = engine.time
        return of_engine, {query.name: asdict(engine.statistics(query.name)) for query in engine.queries}

    async def queries(self) -> models.Queries:
        """All queries, as responses tell them."""

        def told() -> list[models.Query]:
            engine = self._service.engine
            found = self._of_queries
            return [
                query_told(query, answers=(found.get(query.name) or asdict(engine.statistics(query.name)))["answers_live"])
                for query in engine.queries
            ]

        await self._fresh()
        return models.Queries(queries=await self._service.call(told, even_if_failed=True))

    async def statistics(self) -> models.Statistics:
        """What the page shows."""
        await self._fresh()
        service, engine = self._service, self._of_engine
        now = time.monotonic()
        self._counted.append((now, service.tuples))
        while len(self._counted) > 2 and now - self._counted[1][0] > RATE_SECONDS:
            self._counted.pop(0)
        began, counted = self._counted[0]
        seconds = now - began
        latencies = np.array(service.latencies) * 1e3
        return models.Statistics(
            time=json_value(engine["time"]),
            time_unit=service.defaults.time_unit,
            position=service.position,
            tuples=service.tuples,
            late=service.late,
            seconds=round(now - service.began, 3),
            tuples_per_second=round((service.tuples - counted) / seconds, 1) if seconds > 0 else 0.0,
            latency_ms={
                name: round(float(np.quantile(latencies, part)), 3) if len(latencies) else None
                for name, part in {"p50": 0.5, "p99": 0.99, "max": 1.0}.items()
            },
            memory_bytes=resident_bytes(),
            edges=engine["edges_live"],
            vertices=engine["vertices_live"],
            followers=len(service.hub.followers),
            followers_dropped=service.hub.dropped,
            failure=service.failure,
            storage=next((one.reason for one in (service.outage, service.checkpoint_outage) if one is not None), None),
            queries=[
                models.QueryFigures(
                    name=name,
                    answers=figures["answers_live"],
                    rows=figures["rows_added"] + figures["rows_removed"],
                    rows_added=figures["rows_added"],
                    rows_removed=figures["rows_removed"],
                    index_bytes=figures["index_bytes"],
                )
                for name, figures in self._of_queries.items()
            ],
        )

    async def metrics(self) -> tuple[bytes, str]:
        """The figures for Prometheus, and their content type."""
        from prometheus_client import CollectorRegistry
        from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
        from prometheus_client.registry import Collector

        await self._fresh()
        figures = self

        class Figures(Collector):
            def collect(self) -> Iterator[Any]:
                return figures._families()

        registry = CollectorRegistry()
        registry.register(Figures())
        return generate_latest(registry), CONTENT_TYPE_LATEST

    def _families(self) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        service = self._service
        yield from engine_families(self._of_engine, self._of_queries)
        yield GaugeMetricFamily("rpq_memory_bytes", "memory of the process that is resident", value=resident_bytes())
        yield CounterMetricFamily("rpq_pushes", "pushes so far: the position", value=service.position)
        yield GaugeMetricFamily("rpq_followers", "followers of changes now", value=len(service.hub.followers))
        yield CounterMetricFamily("rpq_followers_dropped", "followers that were too slow", value=service.hub.dropped)
        if self.connections is not None:
            yield GaugeMetricFamily("rpq_connections", "connections that are open", value=self.connections.open)
            about = "connections that were turned away: there were as many as may be"
            yield CounterMetricFamily("rpq_connections_refused", about, value=self.connections.refused)
        has_failed = service.failure is not None
        yield GaugeMetricFamily("rpq_failed", "whether the engine takes nothing more", value=int(has_failed))
        if service.checkpoint_age is not None:
            age = service.checkpoint_age
            yield GaugeMetricFamily("rpq_checkpoint_age_seconds", "time since the last checkpoint", value=age)
            outages = service.outage, service.checkpoint_outage
            about = "whether journal or checkpoint cannot be written now"
            yield GaugeMetricFamily("rpq_storage_unavailable", about, value=int(outages != (None, None)))
            yield GaugeMetricFamily("rpq_journal_bytes", "size of the journal", value=service.journal_bytes or 0)
        about = "seconds from when a post came until it was applied, and saved where there is a checkpoint"
        yield latency_family(service.latency, about)


def resident_bytes() -> int:
    """The memory that this process has resident now; the most it ever had, where the system does not say."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return peak_memory_bytes()
