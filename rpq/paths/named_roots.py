"""The roots that queries named: which vertices they are now, and who reads them.

A name may have no vertex yet, and an id that a vertex had may be given to another one when it has left every window.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import numpy as np

from rpq.paths.root_readers import RootReaders
from rpq.queries.query import Vertex
from rpq.stream.vertices import VertexDictionary


class NamedRoots:
    """Names of roots, with their vertices and readers; readers are small numbers."""

    def __init__(self) -> None:
        self.readers = RootReaders()
        """By vertex."""
        self._of_name: dict[Vertex, list[int]] = {}  # readers
        self._id_of: dict[Vertex, int] = {}  # the vertices that names are or were last
        self._name_of: dict[int, Vertex] = {}  # and the other way round

    def __bool__(self) -> bool:
        """Whether any is named."""
        return bool(self._of_name)

    @property
    def vertex_count(self) -> int:
        """How many are vertices."""
        return len(self._name_of)

    def ids(self, names: Iterable[Vertex]) -> np.ndarray:
        """The vertices (int64) that some of these names are. O(names)."""
        found = [self._id_of[name] for name in names if name in self._id_of]
        return np.array(found, np.int64)

    def name_of(self, root: int) -> Vertex | None:
        """The name by which a vertex is a root, if it is one."""
        return self._name_of.get(root)

    def add(self, names: Iterable[Vertex], reader: int) -> None:
        """Let a reader want these, whatever vertices they will be (`meet`, `meet_one`). O(names)."""
        for name in names:
            self._of_name.setdefault(name, []).append(reader)

    def remove(self, names: Iterable[Vertex], reader: int) -> int:
        """Let a reader want these no more; how many vertices nobody wants now. O(names, and their readers)."""
        left = 0
        for name in names:
            readers = self._of_name[name]
            readers.remove(reader)
            if (root := self._id_of.get(name)) is not None:
                self.readers.remove(root, reader)
            if readers:
                continue
            del self._of_name[name]
            if root is not None:
                del self._name_of[root], self._id_of[name]
                left += 1
        return left

    def meet(self, vertices: VertexDictionary, fresh: np.ndarray) -> np.ndarray:
        """Know which of the vertices that come are roots: those (int64). O(the fewer of the two)."""
        if len(fresh) < len(self._of_name):
            names = vertices.names_of(fresh).to_pylist()
            met = [(root, name) for root, name in zip(fresh.tolist(), names, strict=True) if name in self._of_name]
        else:
            ids = [(vertices.id_of(name), name) for name in self._of_name]
            met = [(root, name) for root, name in ids if root >= 0 and root not in self._name_of]
        for root, name in met:
            self._name(root, name)
        return np.array([root for root, _ in met], np.int64)

    def meet_one(self, root: int, name: Vertex, reader: int) -> None:
        """Know that a vertex is a root which a reader wants."""
        if self._id_of.get(name) != root:
            self._name(root, name)
        elif reader not in self.readers.of(root):
            self.readers.add(root, [reader])

    def forget(self, ids: np.ndarray) -> None:
        """Those of these ids that were roots are other vertices now."""
        for root in ids[self.readers.has(ids)].tolist():
            self._forget(root)

    def _name(self, root: int, name: Vertex) -> None:
        """The id is the vertex of that name now, which others want as a root."""
        if (before := self._id_of.get(name)) is not None:
            self._forget(before)
        self._id_of[name], self._name_of[root] = root, name
        self.readers.add(root, self._of_name[name])

    def _forget(self, root: int) -> None:
        """The id is another vertex now, or its vertex has another one."""
        del self._id_of[self._name_of.pop(root)]
        self.readers.forget(root)

    def _check(self, wanted: Mapping[int, Collection[Vertex]]) -> None:
        """Assert the invariants; `wanted` are the names by their readers."""
        self.readers._check()
        assert {root: name for name, root in self._id_of.items()} == self._name_of, "a root has another name"
        for name, root in self._id_of.items():
            assert sorted(self.readers.of(root).tolist()) == sorted(self._of_name[name]), "a root is read by others"
        pairs = {(name, reader) for reader, names in wanted.items() for name in names}
        assert pairs == {(name, reader) for name, readers in self._of_name.items() for reader in readers}
