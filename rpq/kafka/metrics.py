"""Figures of a run over topics for Prometheus, served while it runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rpq.engine.statistics import engine_families, latency_family
from rpq.errors import install_command
from rpq.kafka.client import KafkaError

if TYPE_CHECKING:
    from rpq.kafka.topic_run import TopicRun

FRESH_SECONDS = 1.0
"""The least time in seconds between two collections of figures, which take a while for a large index."""


class RunMetrics:
    """A server of `http://HOST:PORT/metrics`.  After a request, the thread of the run calls `update` to collect the figures.

    Raises `KafkaError` if prometheus_client is not installed, or the port is not available.
    """

    def __init__(self, endpoint: str, *, memory: Any) -> None:
        try:
            from prometheus_client import start_http_server
            from prometheus_client.registry import Collector, CollectorRegistry
        except ImportError as error:
            raise KafkaError(
                f"--metrics needs the extra kafka: {install_command('kafka')} (prometheus-client is not installed)"
            ) from error
        self._memory = memory
        self._lock = threading.Lock()
        self._is_due = True
        self._collected_at = 0.0
        self._figures: dict[str, Any] = {}
        metrics = self

        class Figures(Collector):
            def collect(self) -> Iterator[Any]:
                return metrics.families()

        registry = CollectorRegistry()
        registry.register(Figures())
        host, _, port = endpoint.rpartition(":")
        try:
            self._server, self._thread = start_http_server(int(port), addr=host or "0.0.0.0", registry=registry)
        except OSError as error:
            raise KafkaError(f"--metrics {endpoint}: the port is not available: {error.strerror or error}") from error
        self.port = int(self._server.server_port)

    def update(self, run: TopicRun) -> None:
        """Collect the figures if they were requested since the last time."""
        now = time.monotonic()
        if not self._is_due or now - self._collected_at < FRESH_SECONDS:
            return
        counted = run.figures("")
        figures: dict[str, Any] = {
            "messages": counted.messages,
            "rejected": counted.rejected,
            "filtered": counted.filtered,
            "rows_sent": counted.rows_sent,
            "rounds": counted.rounds,
            "lag": run.source.lag(),
            "latency": run.latency.copy(),
            "checkpoint_age": None if run.checkpoint is None else run.checkpoint.age,
            "memory": self._memory(),
            "engine": {},
            "queries": {},
        }
        if run.engine is not None:
            figures["engine"] = asdict(run.engine.statistics())
            figures["queries"] = {query.name: asdict(run.engine.statistics(query.name)) for query in run.engine.queries}
        with self._lock:
            self._figures, self._collected_at, self._is_due = figures, now, False

    def families(self) -> Iterator[Any]:
        """Yield the families of the figures collected last."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        self._is_due = True
        with self._lock:
            figures = self._figures
        if not figures:
            return
        for name in ("messages", "rejected", "filtered", "rows_sent", "rounds"):
            yield CounterMetricFamily(f"rpq_{name}", f"{name.replace('_', ' ')} so far", value=figures[name])
        yield from engine_families(figures["engine"], figures["queries"])
        yield GaugeMetricFamily("rpq_memory_bytes", "resident memory of the process", value=figures["memory"])
        if figures["checkpoint_age"] is not None:
            age = figures["checkpoint_age"]
            yield GaugeMetricFamily("rpq_checkpoint_age_seconds", "time since the last checkpoint", value=age)
        lag = GaugeMetricFamily("rpq_lag", "messages that the engine has not received yet", labels=["topic", "partition"])
        for place, count in figures["lag"].items():
            lag.add_metric([place.topic, str(place.partition)], count)
        yield lag
        about = "seconds from when tuples could be pushed until their rows are committed"
        yield latency_family(figures["latency"], about)

    def close(self) -> None:
        """Stop the server."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)
