"""A path query while it runs: an index for each thread, and which vertices each may use."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from rpq.compiled.cycle_counter import LATENCY_BUCKETS
from rpq.errors import ConflictBudgetError
from rpq.files.described import Damage, Described
from rpq.paths.budget import aside_of, budget_error
from rpq.paths.index import layout
from rpq.paths.index.delta_index import DeltaIndex, PathDelta, rows_of_pairs
from rpq.paths.index.numbered_index import NumberedIndex, index_over
from rpq.paths.path import Path, path_of
from rpq.paths.program import Compiled
from rpq.paths.which_judge import judge_for
from rpq.paths.which_way import way_of
from rpq.paths.witness_text import paths_of
from rpq.queries import written
from rpq.queries.division import Division
from rpq.queries.kinds import Kind
from rpq.queries.protocol import COUNTS, Figures, Overrun, Resources, RunningQuery
from rpq.queries.query import Query, Vertex
from rpq.results.changes import SetAside
from rpq.results.delta import Delta, IdRows
from rpq.stream.snapshot import Edges, SnapshotGraph
from rpq.stream.vertices import VertexDictionary

_ROWS = ("ADDED", "REMOVED")
_LARGEST_COUNT = 2**56
"""Counts can be added to one another, and go on, without coming near the end of 64 bits."""


class PathQuery(RunningQuery):
    """A registered path query: the trees of its roots, divided by the hash of the root's name over several indexes.

    The engine answers only for its share of the roots; within it the roots are divided over the threads. Roots are the
    sources of answers, or their targets (`rpq.paths.which_way`).
    """

    question: Query

    def __init__(self, query: Query, resources: Resources) -> None:
        self.question = query
        self._way = way_of(query)
        self._compiled = Compiled(self._way.dfa)
        self._division = Division(resources.threads, resources.share)
        program = self._compiled.program
        self.workers: Sequence[DeltaIndex] = [
            index_over(
                query.window,
                program,
                explicit=query.semantics == "explicit",
                witness=resources.witness,
                judge=judge_for(query, program, room=resources.capacity),
                turned=self._way.turned,
                capacity=resources.capacity,
                guard=resources.guard,
            )
            for _ in range(resources.threads)
        ]
        self.is_divided = not self._division.is_whole or query.sources is not None or query.targets is not None
        self._forward = np.full(0, -1, np.int16)  # the class of a step along an edge, a label id
        self._inverse = np.full(0, -1, np.int16)
        self._is_root = [np.ones(0, np.uint8) for _ in self.workers]
        self._is_end = np.ones(0, np.uint8)

    # --- what it reads ---------------------------------------------------------------------------------------

    def set_labels(self, labels: np.ndarray, names: Sequence[str]) -> None:
        if len(labels) == 0:
            return
        classes = np.array([self._compiled.classes_of(name) for name in names], np.int16)
        held = len(self._forward)
        if (needed := int(labels.max()) + 1) > held:
            more = np.full(max(needed - held, held, 16), -1, np.int16)
            self._forward = np.concatenate([self._forward, more])
            self._inverse = np.concatenate([self._inverse, more])
            for index in self.workers:
                index.set_labels(self._forward, self._inverse)
        self._forward[labels], self._inverse[labels] = classes.T

    def reads(self, labels: np.ndarray) -> np.ndarray:
        relevant: np.ndarray = (self._forward[labels] >= 0) | (self._inverse[labels] >= 0)
        return relevant[:, None]

    def make_room(self, vertices: VertexDictionary, fresh: np.ndarray, graph: SnapshotGraph) -> None:
        way, held = self._way, len(self._is_end)
        if vertices.count > held:
            more = np.ones(max(vertices.count - held, held // 2), np.uint8)
            self._is_end = np.concatenate([self._is_end, more])
            self._is_root = [np.concatenate([flags, more]) for flags in self._is_root]
            self.vertex_room = len(self._is_end)
        if len(fresh) and (not self._division.is_whole or way.roots is not None):
            admitted = _among(vertices, fresh, way.roots)
            for flags, owned in zip(self._is_root, self._division.owned(vertices.hashes(fresh)), strict=True):
                flags[fresh] = admitted & owned
        if len(fresh) and way.ends is not None:
            self._is_end[fresh] = _among(vertices, fresh, way.ends)
        for index, flags in zip(self.workers, self._is_root, strict=True):
            index.make_room(len(self._is_end), graph.capacity, flags, self._is_end)

    def count_from(self, numbers: Sequence[int]) -> None:
        for index in self.workers:
            if isinstance(index, NumberedIndex):
                index.count_from(numbers[0])

    # --- what it tells ---------------------------------------------------------------------------------------

    def slides(self, edges: np.ndarray) -> list[np.ndarray]:
        return [self.workers[0].slides(edges)]

    def answers(self) -> list[IdRows]:
        return [rows_of_pairs(index.answers(), turned=index.turned) for index in self.workers]

    def rows(self) -> np.ndarray:
        return np.array([self._total(layout.ADDED), self._total(layout.REMOVED)], np.int64)

    def figures(self) -> Figures:
        live = [index.live() for index in self.workers]
        return Figures(
            counts=tuple(self._count(name) for name in COUNTS),
            added=self._total(layout.ADDED),
            removed=self._total(layout.REMOVED),
            answers=sum(index[1] for index in live),
            edges=live[0][2],
            cells=sum(index[0] for index in live),
            nbytes=sum(index.nbytes - index.buffer_bytes for index in self.workers),
            latency=self.workers[0].index.latency,
            further={name: self._figure(name) for name in _OF_DOUBT},
        )

    def witness(
        self, answer: tuple[int, ...], edges: Edges, vertices: VertexDictionary, labels: list[str]
    ) -> Path | None:
        source, target = answer
        root, end = (target, source) if self._way.turned else (source, target)
        if not self._is_end[end]:
            return None
        for index in self.workers:
            steps = index.witness(root, end, edges)
            if steps is not None:
                if self._way.turned:  # last to first, and each taken the other way
                    steps = steps[::-1] ^ 1
                return path_of(source, steps, edges, vertices, labels)
        return None

    def witnesses(self, delta: Delta, edges: Edges, vertices: VertexDictionary, labels: list[str]) -> pa.Array:
        assert isinstance(delta, PathDelta)
        return paths_of(delta, edges, vertices, labels)

    # --- roots that are set aside ----------------------------------------------------------------------------

    @property
    def may_overrun(self) -> bool:
        return any(index.may_overrun for index in self.workers)

    def take_overruns(self) -> list[Overrun]:
        return [overrun for index in self.workers for overrun in index.take_overruns()]

    def overrun_error(self, report: SetAside) -> ConflictBudgetError | None:
        return budget_error(self.question, report)

    def set_aside(self) -> list[int]:
        return [root for index in self.workers for root in index.aside]

    def restore_root(self, root: int) -> list[tuple[str, Delta]]:
        return [(self.question.name, index.delta()) for index in self.workers if index.restore_root(root)]

    # --- to go on later --------------------------------------------------------------------------------------

    def saved(self, name_of: Callable[[int], Vertex]) -> dict[str, Any]:
        latency = self.workers[0].index.latency
        return {
            "counters": {name: self._total(getattr(layout, name)) for name in _ROWS}
            | {name: self._count(name) for name in COUNTS},
            "latency": [(int(bucket), int(latency[bucket])) for bucket in np.flatnonzero(latency)],
            "figures": {name: self._figure(name) for name in _FIGURES},
            "set_aside": [(name_of(root), size) for index in self.workers for root, size in index.aside.items()],
        }

    def restore(self, saved: Described, load: Callable[[], None], id_of: Callable[[Vertex], int]) -> None:
        counters = {name: saved["counters"][name].whole(0, _LARGEST_COUNT) for name in (*_ROWS, *COUNTS)}
        latency = [
            (bucket.whole(0, LATENCY_BUCKETS - 1), count.whole(0, _LARGEST_COUNT))
            for bucket, count in (entry.tuple_of(2) for entry in saved["latency"])
        ]
        if sum(count for _, count in latency) > _LARGEST_COUNT:
            raise Damage("more latencies were counted than there can be")
        figures = {name: saved["figures"][name].whole(0, _LARGEST_COUNT) for name in _FIGURES}
        aside = aside_of(saved["set_aside"], id_of) if "set_aside" in saved else {}
        for index in self.workers:
            index.set_aside(aside)
        load()
        if len(self.set_aside()) < len(aside):
            raise Damage("a root is set aside that meets no conflict")
        for index in self.workers:
            for name in COUNTS:
                index.state[getattr(layout, name)] = counters[name]
            if isinstance(index, NumberedIndex):
                index.set_verdicts([counters["INSERTED"], counters["REFRESHED"]])
        first = self.workers[0]
        for name in _ROWS:
            first.state[getattr(layout, name)] = counters[name]
        for i, index in enumerate(self.workers):
            index.set_figures(**{name: count if i == 0 else 0 for name, count in figures.items()})
        for bucket, count in latency:
            first.index.latency[bucket] = count

    # --- inside ----------------------------------------------------------------------------------------------

    def _total(self, field: int) -> int:
        """A counter of rows, which every index counts for its own."""
        return sum(int(index.state[field]) for index in self.workers)

    def _count(self, name: str) -> int:
        """A counter of tuples, which all indexes have in common."""
        return int(self.workers[0].state[getattr(layout, name)])

    def _figure(self, name: str) -> int:
        """One of `DoubtFigures`."""
        return sum(getattr(index.figures(), name) for index in self.workers)


_FIGURES = ("conflicts", "searches")
_OF_DOUBT = ("conflicts", "conflicted_roots", "pairs_in_doubt", "searches", "roots_set_aside")


def _among(vertices: VertexDictionary, ids: np.ndarray, names: Collection[Vertex] | None) -> np.ndarray:
    """Which ids have one of these names. O(the fewer of the two)."""
    if names is None:
        return np.ones(len(ids), bool)
    if len(ids) < len(names):
        return np.array([name in names for name in vertices.names_of(ids).to_pylist()], bool)
    wanted = {identity for identity in map(vertices.id_of, names) if identity >= 0}
    return np.isin(ids, np.fromiter(wanted, np.int64, len(wanted)))


KIND = Kind(name="path", question=Query, start=PathQuery, described=written.described, read=written.read)
