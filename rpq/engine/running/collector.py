"""The release of edges, names and labels that have left every window, so that their ids are given away again."""

from __future__ import annotations

import numpy as np

from rpq.engine.running.intake import Intake
from rpq.engine.running.multigraph import Multigraph
from rpq.engine.running.running_queries import RunningQueries
from rpq.stream.snapshot import SnapshotGraph
from rpq.stream.vertices import FREE
from rpq.stream.window import Window


class Collector:
    """Collection between chunks, often enough for memory to follow the windows, and seldom enough to cost little."""

    def __init__(self, intake: Intake, graph: SnapshotGraph, running: RunningQueries) -> None:
        self._intake = intake
        self._graph = graph
        self._running = running
        self._collected_at: int | None = None
        self.multigraph: Multigraph | None = None

    @property
    def is_due(self) -> bool:
        """True if enough tuples have come since the last collection to pay for another one."""
        edges, labels = self._graph.edge_count, self._intake.labels
        if self.multigraph is not None and self.multigraph.wants_collection:
            return True
        return self._graph.wants_collection() or self._intake.holds_unused_names(edges) or labels.wants_to_forget()

    def collect_if_due(self) -> None:
        """Collect where enough tuples have come since the last time to pay for it."""
        if self.is_due:
            self.collect()

    def collect(self) -> None:
        """Release everything that has left every window."""
        intake, graph = self._intake, self._graph
        for worker in self._running.workers:
            worker.sweep()
        unused = graph.collect()
        unused = unused[unused < intake.vertices.count]
        retained, bearing = self._running.retained_vertices(), graph.edges.bearing
        if self.multigraph is not None:
            self.multigraph.collect(graph.time)
            twins = intake.vertices.edges.used_by_twins(unused)
            retained = np.concatenate([retained, self.multigraph.vertices(), twins])
            bearing = self.multigraph.bearing(bearing)
        if len(retained):
            are_retained = np.zeros(intake.vertices.count, bool)
            are_retained[retained[(retained >= 0) & (retained < len(are_retained))]] = True  # others are terms, or unbound
            unused = unused[~are_retained[unused]]
        intake.vertices.release(unused[intake.vertices.names.length[unused] != FREE])
        lost = np.maximum(graph.horizons.lost, graph.horizons.passed_by)
        graph.forget_labels(intake.labels.forget(bearing, lost))
        if self.multigraph is not None:
            self.multigraph.forget_labels()
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
