"""A query whose work the threads of an engine divide by the values of one variable.

Each thread has a host of patterns with relations of its own, and runs the query over them. A vertex belongs to one thread,
by its id. An atom at which the *dividing variable* stands reads a relation that has only the edges whose end there belongs
to the thread; the other atoms read all edges. So each solution is found by one thread, that of the vertex which the variable
is bound to, and nothing is compared between threads. The variable is a column of the rows, so equal rows come from one
thread, and DISTINCT, netting and groups by the variable are right in each.

The cost is the maintenance of edges that several threads have. It is least where the variable stands in all atoms: then
each thread has its part of the edges alone. Without such a variable the threads that divide a pattern have all edges, and
each enumerates the solutions that its edges bring or take away when they change (`joins/delta_join.py`). So a solution may
enter in one thread and leave in another. If several of its edges expire at one boundary, the first of them takes it away, so
edges must expire in the same order in all threads (`relations/wheel.py`). Where solutions are compared or counted, a thread
keeps instead those whose values of two variables belong to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rpq.compiled.cycle_counter import LATENCY_BUCKETS
from rpq.language.protocol import Figures, PresentGraph, Resources, RunningQuery
from rpq.operators.patterns.hosted_query import HostedQuery
from rpq.operators.patterns.joins.plan import EDGE, PAIR
from rpq.operators.patterns.meanings import MeaningEdge, divided_end
from rpq.rows.delta import Delta, IdRows
from rpq.stream.chunk import Chunk
from rpq.stream.edges.snapshot import SnapshotGraph
from rpq.stream.json_values import JsonValue
from rpq.stream.names.stream_labels import LabelName
from rpq.stream.names.vertices import VertexDictionary

ALL_EDGES = "all edges"
"""In place of a variable: all threads have all edges, and divide the solutions once these are many."""
_WORDS: dict[str | None, str] = {EDGE: "the edges that change", PAIR: "the values of two variables"}
LARGEST_COST = 0.9
"""The maintenance work of one of two threads, relative to that of a single thread, from which division does not pay."""


def divide(edges: Sequence[MeaningEdge], columns: Sequence[str], *, may_copy: bool = True) -> str | None:
    """Return the column by whose values threads best divide a pattern that is one part, `ALL_EDGES`, or None for one thread.

    `edges` are those of its only meaning; columns are variables as plans name them. A column in all atoms is best, because
    no edge is in two threads. Otherwise all threads get all edges, which divides evenly however uneven the values of one
    variable are, or without `may_copy` it is the column that is fewest joins away from all atoms, if threads then have fewer
    edges than one. O(columns × atoms²).

    >>> divide([("?x", "a", "?y"), ("?x", "b", "?z")], ["?x", "?y", "?z"])
    '?x'
    >>> divide([("?x", "a", "?y"), ("?y", "b", "?z"), ("?z", "c", "?w")], ["?x", "?y", "?z", "?w"])
    'all edges'
    """

    def upkeep(name: str) -> float:
        """Return the number of relations of one of two threads; a relation of which it has half the edges counts as 0.5."""
        relations = {(read, divided_end((source, target), name)) for source, read, target in edges}
        return sum(1.0 if end is None else 0.5 for _, end in relations)

    whole = len({read for _, read, _ in edges})
    best = min(columns, key=lambda name: (_distance(edges, name), upkeep(name)), default=None)
    if best is not None and _distance(edges, best) == 0:
        return best
    if may_copy:
        return ALL_EDGES if len(columns) > 1 else None
    return best if best is not None and upkeep(best) <= LARGEST_COST * whole else None


def _distance(edges: Sequence[MeaningEdge], variable: str) -> int:
    """Return the sum over all edges of the number of joins between the edge and one with the variable."""
    reached_terms: set[object] = {variable}
    remaining = [{term for term in (source, target) if isinstance(term, str)} for source, _, target in edges]
    total = steps = 0
    while remaining:
        reached_edges = [terms for terms in remaining if terms & reached_terms]
        assert reached_edges, "the edges are not connected"
        total += steps * len(reached_edges)
        remaining = [terms for terms in remaining if not terms & reached_terms]
        reached_terms = reached_terms.union(*reached_edges)
        steps += 1
    return total


def start_lanes(resources: Resources, start: Callable[[Resources], HostedQuery]) -> list[HostedQuery]:
    """Start a query in the host of each thread, all or none."""
    lanes: list[HostedQuery] = []
    try:
        for host in resources.host.lanes:
            lanes.append(start(replace(resources, host=host)))  # noqa: PERF401  some may have begun
    except BaseException:
        for lane in reversed(lanes):
            lane.leave()
        raise
    return lanes


class DividedQuery(RunningQuery):
    """A query that runs in the hosts of several threads, each of which has some of its solutions."""

    def __init__(self, lanes: Sequence[HostedQuery]) -> None:
        self.lanes = tuple(lanes)
        """The parts of the threads that divide the query now, that of the first thread before others."""
        first = self.first = self.lanes[0]
        self.question = first.question
        self.report, self.report_content = first.report, first.report_content
        self.has_first_rows = first.has_first_rows
        self.term_texts = first.term_texts
        self.nets_events, self.holds_vertices = first.nets_events, first.holds_vertices
        self.has_witnesses, self.witnesses_are_of_now = first.has_witnesses, first.witnesses_are_of_now
        self.is_divided, self.needs_room = first.is_divided, first.needs_room

    def leave(self) -> None:
        for lane in self.lanes:
            lane.leave()

    @property
    def columns(self) -> tuple[str, ...]:
        return self.first.columns

    # --- input -----------------------------------------------------------------------------------------------

    def set_labels(self, labels: np.ndarray, names: Sequence[LabelName]) -> None:
        for lane in self.lanes:
            lane.set_labels(labels, names)

    def reads(self, labels: np.ndarray) -> np.ndarray:
        return self.first.reads(labels)

    def make_room(self, vertices: VertexDictionary, new_ids: np.ndarray, graph: SnapshotGraph) -> None:
        for lane in self.lanes:
            lane.make_room(vertices, new_ids, graph)
        self.vertex_room = min(lane.vertex_room for lane in self.lanes)

    def count_from(self, numbers: Sequence[int]) -> None:
        for lane in self.lanes:
            lane.count_from(numbers)

    def load_static(self, chunk: Chunk) -> None:
        for lane in self.lanes:
            lane.load_static(chunk)

    @property
    def has_content(self) -> bool:
        return all(lane.has_content for lane in self.lanes)

    def load(self, time: int, chunk: Chunk | None, *slides: np.ndarray, quiet: bool = False) -> list[Delta]:
        return [delta for lane in self.lanes for delta in lane.load(time, chunk, *slides, quiet=quiet)]

    def retained_vertices(self) -> np.ndarray:
        return np.unique(np.concatenate([lane.retained_vertices() for lane in self.lanes]))

    # --- output ----------------------------------------------------------------------------------------------

    def slides(self, edges: np.ndarray) -> list[np.ndarray]:
        # The edges that a thread does not have are outside of its window.
        return [np.max(of_lanes, axis=0) for of_lanes in zip(*(lane.slides(edges) for lane in self.lanes), strict=True)]

    def answers(self) -> list[IdRows]:
        return [rows for lane in self.lanes for rows in lane.answers()]

    def rows(self) -> np.ndarray:
        total: np.ndarray = np.sum([lane.rows() for lane in self.lanes], axis=0)
        return total

    def figures(self) -> Figures:
        figures = [lane.figures() for lane in self.lanes]

        def total(name: str) -> int:
            return sum(getattr(one, name) for one in figures)

        return Figures(
            counts=tuple(map(sum, zip(*(one.counts for one in figures), strict=True))),
            added=total("added"),
            removed=total("removed"),
            answers=total("answers"),
            edges=total("edges"),
            cells=total("cells"),
            nbytes=total("nbytes"),
            latency=np.sum([one.latency for one in figures], axis=0),
        )

    def witness(self, answer: tuple[int, ...], graph: PresentGraph) -> Any:
        found = (lane.witness(answer, graph) for lane in self.lanes)
        return next((witness for witness in found if witness is not None), None)

    def explain(self) -> Any:
        by = self.first.divided_by
        values = _WORDS.get(by, f"the values of {by}")
        text = f"{len(self.lanes)}, which divide it by {values}" if len(self.lanes) > 1 else "one, until its rows are many"
        return replace(self.first.explain(), threads=text)

    # --- saved states ----------------------------------------------------------------------------------------

    def to_state(self, name_of: Callable[[int], int | str]) -> dict[str, Any]:
        saved = [lane.to_state(name_of) for lane in self.lanes]
        counters = {name: sum(one["counters"][name] for one in saved) for name in saved[0]["counters"]}
        latency = np.zeros(LATENCY_BUCKETS, np.int64)
        for bucket, count in (entry for one in saved for entry in one["latency"]):
            latency[bucket] += count
        of_buckets = [(bucket, count) for bucket, count in enumerate(latency.tolist()) if count]
        return saved[0] | {"counters": counters, "rows": self.rows().tolist(), "latency": of_buckets}

    def restore(self, saved: JsonValue, load: Callable[[], None], id_of: Callable[[int | str], int]) -> None:
        for lane in self.lanes:
            lane.restore_origin(saved)
        self.first.restore(saved, load, id_of)
