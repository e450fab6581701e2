"""The edges of each vertex, as lists through the edges of the snapshot graph.

Only searches in the present graph need them. They are built by the first search; each later one adds the edges that came in
between. An edge that left stays in its lists until the graph gives its id to another one, which happens only after a
collection: the lists are then built anew.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rpq.compiled.arrays.lengthening import lengthen_fields
from rpq.compiled.kernel_cache import njit
from rpq.compiled.views import bound, view
from rpq.stream.edges.snapshot import SnapshotGraph


class Links(NamedTuple):
    """The lists: edges by id, -1 for none."""

    first_out: np.ndarray  # int32 a vertex: its latest edge
    next_out: np.ndarray  # int32 an edge: the next edge with its source
    first_in: np.ndarray  # int32 a vertex
    next_in: np.ndarray  # int32 an edge: the next edge with its target


class EdgeLinks:
    """The lists of a graph."""

    def __init__(self, graph: SnapshotGraph) -> None:
        self._graph = graph
        self._links = Links(*(np.zeros(0, np.int32) for _ in range(4)))
        self._view: Any = None
        self._collections = -1
        self._count = 0  # the ids that were given out
        self._free = np.zeros(0, np.int32)  # the free ids at that time, in the order in which they are given out
        self._taken = 0  # of these
        self._link: Any = None

    @property
    def nbytes(self) -> int:
        """The number of bytes held."""
        return sum(array.nbytes for array in self._links) + self._free.nbytes

    def updated(self) -> Any:
        """Return the view of the lists with all edges. O(edges since the last call), and O(edges) after a collection."""
        graph = self._graph
        fields = graph.edges.fields
        if self._collections != graph.collections:
            self._collections, self._count, self._taken = graph.collections, 0, 0
            self._free = np.empty(fields.free, np.int32)
            _list_free(graph.edges_view, self._free)
            self._links = Links(*(np.zeros(0, np.int32) for _ in range(4)))
        taken = len(self._free) - fields.free
        if taken == self._taken and fields.count == self._count and len(self._links.first_out) == graph.vertex_room:
            return self._view
        links = self._links
        if (more := graph.vertex_room - len(links.first_out)) > 0:
            links = lengthen_fields(links, more, first_out=-1, first_in=-1)
        if (more := graph.capacity - len(links.next_out)) > 0:
            links = lengthen_fields(links, more, next_out=-1, next_in=-1)
        if links is not self._links:
            self._links, self._view = links, view(links)
        arguments = graph.edges_view, self._view, self._free, self._taken, taken, self._count, fields.count
        if self._link is None:
            self._link = bound(_link, *arguments)
        self._link(*arguments)
        self._taken, self._count = taken, fields.count
        return self._view

    def _check(self) -> None:
        """Assert that the lists have each edge once."""
        self.updated()
        links, edges = self._links, self._graph.edges
        for first, following, ends in (
            (links.first_out, links.next_out, edges.source),
            (links.first_in, links.next_in, edges.target),
        ):
            found = []
            for vertex, edge in enumerate(first.tolist()):
                while edge >= 0:
                    assert ends[edge] == vertex, "an edge is in the list of another vertex"
                    found.append(edge)
                    edge = int(following[edge])
            used = np.flatnonzero(edges.source[: edges.fields.count] >= 0).tolist()
            assert sorted(found) == used, "an edge is in no list, or in two"


@njit(cache=True, nogil=True)
def _list_free(edges, free):
    edge = edges.fields.free_edge
    for place in range(len(free)):
        free[place] = edge - 1
        edge = np.int64(edges.target[edge - 1])


@njit(cache=True, nogil=True, forceinline=True)
def _append(edges, links, edge):
    source, target = edges.source[edge], edges.target[edge]
    links.next_out[edge] = links.first_out[source]
    links.first_out[source] = edge
    links.next_in[edge] = links.first_in[target]
    links.first_in[target] = edge


@njit(cache=True, nogil=True)
def _link(edges, links, free, first_free, end_free, first, end):
    """Append the edges with ids that were free, and those with ids from `first` on."""
    for place in range(first_free, end_free):
        _append(edges, links, np.int64(free[place]))
    for edge in range(first, end):
        if edges.source[edge] >= 0:  # otherwise it is free
            _append(edges, links, edge)
