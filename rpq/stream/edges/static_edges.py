"""Static edges one by one, with their values, where edges have an identity.

The snapshot graph knows static edges by source, label and target, as it does all edges. What conditions and edge variables
need beside that is here: parallel static edges, the values of their properties, and the vertices that edge variables bind.
The number of such an edge is -1, -2, … in the order in which they were loaded; where edges have ids, it may have one too.
An edge of the window may hide the static edge of its identity: `rpq.stream.edges.window_edges` knows which are hidden.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa

from rpq.stream.chunk import Chunk
from rpq.stream.names.edge_vertices import NO_VERTEX


class StaticEdges:
    """The static edges of an engine, in the order in which they were loaded; ids of vertices and labels never change."""

    def __init__(self) -> None:
        self.source = np.zeros(0, np.int32)
        self.label = np.zeros(0, np.int32)
        self.target = np.zeros(0, np.int32)
        self.vertex = np.zeros(0, np.int32)
        """The vertex that each is, where an edge variable may bind it, else NO_VERTEX."""
        self.twin = np.zeros(0, np.int32)
        """The vertex for the other direction, NO_VERTEX if there is none."""
        self.edge = np.zeros(0, np.int32)
        """The number of the id of each, -1 without one."""
        self.unread: frozenset[str] = frozenset()
        """The names of properties that edges had and that no query read when they were loaded."""
        self.read_properties: frozenset[str] | None = None
        """The properties whose values were read, if edges may have had others; None if all were read."""
        self._values: dict[str, pa.Array] = {}

    def __len__(self) -> int:
        return len(self.source)

    @property
    def nbytes(self) -> int:
        """The number of bytes held."""
        arrays = (self.source, self.label, self.target, self.vertex, self.twin, self.edge)
        of_values: int = sum(column.nbytes for column in self._values.values())
        return sum(array.nbytes for array in arrays) + of_values

    @property
    def number(self) -> np.ndarray:
        """The numbers of the edges (int64), of those that have an id the number of that."""
        return np.where(self.edge >= 0, self.edge, -1 - np.arange(len(self), dtype=np.int64))

    def add(
        self, chunk: Chunk, values: Mapping[str, pa.Array], property_names: Iterable[str], *, edge: np.ndarray | None = None
    ) -> None:
        """Add edges with the values that queries read. O(edges).

        `property_names` are the properties that the edges have, `edge` the numbers of their ids if they have ids.
        """
        before, count = len(self), len(chunk.source)
        self.source, self.label, self.target = (
            np.concatenate([mine, more])
            for mine, more in ((self.source, chunk.source), (self.label, chunk.label), (self.target, chunk.target))
        )
        none = np.full(count, NO_VERTEX, np.int32)
        self.edge = np.concatenate([self.edge, np.full(count, -1, np.int32) if edge is None else edge])
        self.vertex, self.twin = np.concatenate([self.vertex, none]), np.concatenate([self.twin, none])
        self.unread |= frozenset(property_names) - values.keys()
        for name in self._values.keys() | values.keys():
            new = values.get(name)
            kind = self._values[name].type if new is None else new.type
            earlier_values = self._values[name].cast(kind) if name in self._values else pa.nulls(before, kind)
            self._values[name] = pa.concat_arrays([earlier_values, pa.nulls(count, kind) if new is None else new])

    def load(
        self,
        ends: tuple[np.ndarray, np.ndarray, np.ndarray],
        vertex: np.ndarray,
        twin: np.ndarray,
        values: Mapping[str, pa.Array],
        edge: np.ndarray,
    ) -> None:
        """Set the edges, whose sources, labels and targets are `ends`, the vertices that they are, their values and ids."""
        self.source, self.label, self.target = ends
        self.edge = edge
        self.vertex, self.twin = vertex, twin
        self._values = dict(values)

    @property
    def properties(self) -> frozenset[str]:
        """The properties that have values here."""
        return frozenset(self._values)

    def lost_properties(self, properties: frozenset[str]) -> list[str]:
        """Return those of some properties that edges had, or may have had, but whose values were not read."""
        unknown = frozenset() if self.read_properties is None or not len(self) else properties - self.read_properties
        return sorted((self.unread & properties) | unknown)

    def values(self, types: Mapping[str, pa.DataType]) -> dict[str, pa.Array]:
        """Return the properties that are kept, in their types now."""
        return {name: column.cast(types.get(name, column.type)) for name, column in self._values.items()}

    def chunk(self) -> Chunk:
        """Return the edges as inserts without a time."""
        count = len(self)
        no_time, none = np.zeros(count, np.int64), np.zeros(count, np.uint8)
        return Chunk(self.source, self.target, self.label, no_time, none, np.empty(count, np.int32))
