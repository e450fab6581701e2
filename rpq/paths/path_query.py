"""One query while it runs: its indexes, one a partition of the roots, and which vertices they may use."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from rpq.paths.index import layout
from rpq.paths.index.delta import DeltaIndex, Guard
from rpq.paths.program import Compiled
from rpq.paths.simple.layer import SimpleIndex
from rpq.queries.query import Query, Vertex
from rpq.stream.snapshot import SnapshotGraph
from rpq.stream.vertices import VertexDictionary


class RunningQuery:
    """A registered query: the trees of its roots, divided by the hash of the root's name over several indexes.

    `share` is (number, of how many): the engine answers only for that share of the roots; within it
    the roots are divided over `threads` indexes.
    """

    def __init__(
        self, query: Query, *, threads: int, share: tuple[int, int], witness: bool, capacity: int, guard: Guard
    ) -> None:
        self.query = query
        self.compiled = Compiled(query.dfa)
        self._threads = threads
        self._share = share
        self.simple = [
            SimpleIndex(
                self.compiled.program,
                query.window,
                budget=query.simple_budget,
                explicit=query.semantics == "explicit",
                witness=witness,
                capacity=capacity,
                guard=guard,
            )
            for _ in range(threads if query.paths == "simple" else 0)
        ]
        self.indexes: list[DeltaIndex] = [*self.simple] or [
            DeltaIndex(
                self.compiled.program,
                query.window,
                explicit=query.semantics == "explicit",
                witness=witness,
                capacity=capacity,
                guard=guard,
            )
            for _ in range(threads)
        ]
        self._forward = np.full(0, -1, np.int16)  # the class of a step along an edge, a label id
        self._inverse = np.full(0, -1, np.int16)
        self._is_root = [np.ones(0, np.uint8) for _ in range(threads)]
        self._is_target = np.ones(0, np.uint8)

    def set_labels(self, labels: np.ndarray, names: list[str]) -> None:
        """Take in label ids with their names. O(labels)."""
        if len(labels) == 0:
            return
        classes = np.array([self.compiled.classes_of(name) for name in names], np.int16)
        held = len(self._forward)
        if (needed := int(labels.max()) + 1) > held:
            more = np.full(max(needed - held, held, 16), -1, np.int16)
            self._forward = np.concatenate([self._forward, more])
            self._inverse = np.concatenate([self._inverse, more])
            for index in self.indexes:
                index.set_labels(self._forward, self._inverse)
        self._forward[labels], self._inverse[labels] = classes.T

    def wants(self, labels: np.ndarray) -> np.ndarray:
        """Whether label ids matter to the query (boolean)."""
        return (self._forward[labels] >= 0) | (self._inverse[labels] >= 0)

    def make_room(self, vertices: VertexDictionary, fresh: np.ndarray, graph: SnapshotGraph) -> None:
        """Let the ids of the dictionary and the graph be used; `fresh` ids are those of new names."""
        held = len(self._is_target)
        if vertices.count > held:
            more = np.ones(max(vertices.count - held, held // 2), np.uint8)
            self._is_target = np.concatenate([self._is_target, more])
            self._is_root = [np.concatenate([flags, more]) for flags in self._is_root]
        if len(fresh) and (self._threads * self._share[1] > 1 or self.query.sources is not None):
            admitted = _among(vertices, fresh, self.query.sources)
            # First by share, then by thread: what a share answers must not depend on the number of threads.
            rest, share = np.divmod(vertices.hashes(fresh), np.uint64(self._share[1]))
            thread = rest % np.uint64(self._threads)
            for number, flags in enumerate(self._is_root):
                flags[fresh] = admitted & (share == self._share[0]) & (thread == number)
        if len(fresh) and self.query.targets is not None:
            self._is_target[fresh] = _among(vertices, fresh, self.query.targets)
        for index, flags in zip(self.indexes, self._is_root, strict=True):
            index.make_room(len(self._is_target), graph.capacity, flags, self._is_target)

    @property
    def vertex_room(self) -> int:
        """Vertex ids below can be used."""
        return len(self._is_target)

    @property
    def is_divided(self) -> bool:
        """Whether not every vertex may be a root or a target of every index, so that new ones must be told."""
        ends = self.query.sources, self.query.targets
        return self._threads * self._share[1] > 1 or any(end is not None for end in ends)

    def total(self, field: int) -> int:
        """A counter of rows, which every index counts for its own."""
        return sum(int(index.state[field]) for index in self.indexes)

    def count(self, field: int) -> int:
        """A counter of tuples, which all indexes have in common."""
        return int(self.indexes[0].state[field])

    def figures(self, name: str) -> int:
        """One of the figures of simple paths."""
        return sum(index.figures()[name] for index in self.simple)

    @property
    def tuples(self) -> int:
        """Tuples seen since the query was registered."""
        fields = ("INSERTED", "REFRESHED", "DELETED", "ABSENT", "LATE", "IRRELEVANT")
        return sum(self.count(getattr(layout, field)) for field in fields)

    @property
    def index_bytes(self) -> int:
        """Bytes held by the index, without the buffers for rows."""
        return sum(index.nbytes - index.buffer_bytes for index in self.indexes)


def _among(vertices: VertexDictionary, ids: np.ndarray, names: Collection[Vertex] | None) -> np.ndarray:
    """Which ids have one of these names. O(the fewer of the two)."""
    if names is None:
        return np.ones(len(ids), bool)
    if len(ids) < len(names):
        return np.array([name in names for name in vertices.names_of(ids).to_pylist()], bool)
    wanted = {identity for identity in map(vertices.id_of, names) if identity >= 0}
    return np.isin(ids, np.fromiter(wanted, np.int64, len(wanted)))
