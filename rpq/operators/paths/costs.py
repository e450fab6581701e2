"""Costs in rows: the type of a sum, an id for each, and its text. Paths along edges in place of paths along links.

The index knows a cost as an integer, its *key*: an integer itself, a decimal in units of its last digit, or the bits of a
float. Ids of costs are valid until the rows of a push have their texts.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from rpq.language.protocol import PresentGraph
from rpq.operators.paths.index.path_delta import PathDelta
from rpq.operators.paths.path import Path, path_of
from rpq.rows.typed_columns import texts_to_values, value_texts
from rpq.stream.edges.edge_values import values_at
from rpq.stream.edges.snapshot import Edges
from rpq.stream.names.edge_vertices import NO_VERTEX
from rpq.stream.names.vertices import FREE, VertexDictionary

_DIGITS = 38
"""The digits of a sum of decimals."""


class Costs:
    """The costs of paths by one property, for all queries of an engine: the texts of ids in their rows."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.vertices = VertexDictionary(capacity=1)
        self._keys = VertexDictionary(capacity=16)
        self._waiting: list[np.ndarray] = []

    @property
    def type(self) -> pa.DataType | None:
        """The type of costs; None while no value was seen. Loose values are floats, whose texts are those of numbers."""
        kind = self.vertices.edges.types.by_name.get(self.name)
        return pa.decimal128(_DIGITS, kind.scale) if kind is not None and pa.types.is_decimal(kind) else kind

    @property
    def scale(self) -> int:
        """The digits of decimals behind the point; 0 for other values."""
        kind = self.type
        return int(kind.scale) if kind is not None and pa.types.is_decimal(kind) else 0

    def targets(self) -> np.ndarray:
        """Return the targets of edges that are vertices: the graph has only links from their sources. O(vertices)."""
        targets = self.vertices.edges.all_columns.target
        return np.unique(targets[self.vertices.edges.all_columns.source != NO_VERTEX])

    # --- rows --------------------------------------------------------------------------------------------------

    def places(self, keys: np.ndarray) -> np.ndarray:
        """Return the places of costs (int64), from which their ids follow (`id_of_length`)."""
        ids, _ = self._keys.intern(pa.array(keys), np.ones(len(keys), np.uint8))
        return ids.astype(np.int64)

    def retain(self, waiting: np.ndarray) -> None:
        """Exempt the ids in waiting rows of one query from the next `release`."""
        self._waiting.append(-1 - waiting[waiting < 0])

    def release(self) -> None:
        """Forget all ids that no `retain` has exempted. Call this once after the calls of `retain`."""
        if self._waiting:
            is_unused = self._keys.names.length[: self._keys.count] != FREE
            is_unused[np.concatenate(self._waiting)] = False
            self._keys.release(np.flatnonzero(is_unused))
        self._waiting.clear()

    def place_of(self, value: Any) -> int | None:
        """Return the place of a cost, given as a value or a text; None if it is none."""
        kind = self.type or pa.int64()
        is_loose = pa.types.is_string(kind)
        number = texts_to_values([str(value)], pa.float64() if is_loose else kind)[0].as_py()
        if number is None:
            return None
        key = number * 10**self.scale if isinstance(number, Decimal) else number
        key = np.float64(key).view(np.int64) if isinstance(key, float) else int(key)
        return int(self.places(np.array([key]))[0]) if 0 <= key < 2**63 else None

    def texts(self, ids: np.ndarray) -> list[str | None]:
        """Return the names of vertices and the texts of costs. O(ids)."""
        is_vertex = ids >= 0
        texts = np.empty(len(ids), object)
        texts[is_vertex] = [str(name) for name in self.vertices.names_of(ids[is_vertex]).to_pylist()]
        texts[~is_vertex] = self._texts_of_keys(self._keys.names.number[-1 - ids[~is_vertex]])
        return list(texts)

    def terms(self, ids: np.ndarray) -> pa.Array:
        """Return the texts as an array. O(ids)."""
        return pa.array(self.texts(ids), pa.string())

    def _texts_of_keys(self, keys: np.ndarray) -> list[str | None]:
        kind = self.type or pa.int64()
        if pa.types.is_decimal(kind):
            return value_texts(pa.array([Decimal(key).scaleb(-kind.scale) for key in keys.tolist()], kind))
        if pa.types.is_integer(kind):
            return value_texts(pa.array(keys))
        texts = value_texts(pa.array(keys.view(np.float64)))
        return texts if pa.types.is_floating(kind) else [(text or "").removesuffix(".0") for text in texts]


# --- paths ---------------------------------------------------------------------------------------------------------


def edge_steps(steps: np.ndarray, edges: Edges) -> np.ndarray:
    """Return the steps along edges that are vertices, vertex << 1 | against, for those along links to them."""
    return edges.target[steps >> 1].astype(np.int64) << 1 | steps & 1


def without_links(delta: PathDelta, edges: Edges) -> PathDelta:
    """Return changes with paths along edges that are vertices, in place of paths along links."""
    found = copy(delta)
    found.paths = edge_steps(delta.paths, edges)
    return found


def cheapest_path(source: int, steps: np.ndarray, graph: PresentGraph) -> Path:
    """Return the path of steps along links, first to last, with the values of its edges where witnesses show them."""
    taken = edge_steps(steps, graph.edges)
    edges = graph.vertices.edges
    path = path_of(source, taken, edges.all_columns, graph.vertices, graph.labels)
    if graph.values is None:
        return path
    columns = {name: edges.values(name, taken >> 1) for name in edges.properties if not name.startswith("@")}
    return replace(path, properties=tuple(values_at(columns, columns, row) for row in range(len(taken))))
