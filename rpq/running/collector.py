"""When an engine lets go of what has left every window: vertices and their names, edges, labels, trees."""

from __future__ import annotations

import numpy as np

from rpq.running.intake import Intake
from rpq.running.running_queries import RunningQueries
from rpq.stream.snapshot import SnapshotGraph
from rpq.stream.window import Window


class Collector:
    """Collects between chunks, often enough for memory to follow the windows, and seldom enough to cost little."""

    def __init__(self, intake: Intake, graph: SnapshotGraph, running: RunningQueries) -> None:
        self._intake = intake
        self._graph = graph
        self._running = running
        self._collected_at: int | None = None

    def collect_if_due(self) -> None:
        """Collect where enough tuples have come since the last time to pay for it."""
        held, labels = self._graph.held, self._intake.labels
        if self._graph.wants_collection() or self._intake.holds_unused_names(held) or labels.wants_to_forget():
            self.collect()

    def collect(self) -> None:
        """Let go of everything that has left every window."""
        intake, graph = self._intake, self._graph
        for worker in self._running.workers:
            worker.sweep()
        unused = graph.collect()
        unused = unused[unused < intake.vertices.count]
        held = self._running.held_vertices()
        if len(held):
            unused = np.setdiff1d(unused, held)
        intake.vertices.release(unused[intake.vertices.names.length[unused] >= 0])
        graph.forget_labels(intake.labels.forget(graph.edges.bearing, graph.horizons.lost))
        self._collected_at = graph.time
        intake.interned = 0

    def collect_if_quiet(self) -> None:
        """Collect where time alone has emptied a good part of the windows."""
        time = self._graph.time
        if self._collected_at is None:
            self._collected_at = time
        lengths = [window.size for window in self._running.read_windows if isinstance(window, Window)]
        if self._running.read_windows and not lengths:
            return  # time empties no other windows
        shortest = min(lengths, default=0)
        if time is not None and self._collected_at is not None and time - self._collected_at > shortest // 4:
            self.collect()
