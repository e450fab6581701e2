"""The values of properties that witnesses show: those of each edge in the snapshot graph."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

ValuesOf = Callable[[int, Any, int], "Mapping[str, Any] | None"]
"""A function that returns the values of the edge with a source, a label (its name or id) and a target, None if unknown."""


class EdgeValues:
    """The values of edges by a key: the ends and label in the graph, or the id of the edge.

    >>> values = EdgeValues()
    >>> values.put((1, 2, 3), 7, {"amount": 5})
    >>> values.put((1, 2, 3), 6, {"amount": 4})  # older than the one that is held
    >>> values.of((1, 2, 3))
    {'amount': 5}
    >>> values.collect(7)
    >>> values.of((1, 2, 3)) is None
    True
    """

    def __init__(self) -> None:
        self._latest: dict[Any, tuple[int, Mapping[str, Any]]] = {}

    def __len__(self) -> int:
        return len(self._latest)

    @property
    def nbytes(self) -> int:
        """The approximate number of bytes in use."""
        return 500 * len(self._latest)

    def put(self, key: Any, timestamp: int, values: Mapping[str, Any]) -> None:
        """Set the values of an edge, unless a younger one with its key is known."""
        latest = self._latest.get(key)
        if latest is None or timestamp >= latest[0]:
            self._latest[key] = timestamp, values

    def replace(self, key: Any, timestamp: int, values: Mapping[str, Any]) -> None:
        """Set the values of an edge, whatever was known."""
        self._latest[key] = timestamp, values

    def drop(self, key: Any) -> None:
        """Forget the values of an edge, if there are any."""
        self._latest.pop(key, None)

    def of(self, key: Any) -> Mapping[str, Any] | None:
        """Return the values of an edge, None where they are not known."""
        latest = self._latest.get(key)
        return None if latest is None else latest[1]

    def columns(self, keys: Iterable[Any], types: Mapping[str, pa.DataType]) -> tuple[np.ndarray, dict[str, pa.Array]]:
        """Return for which of these edges values are known (uint8), and a column for each of the properties in `types`.

        >>> values = EdgeValues()
        >>> values.put((1, 2, 3), 7, {"amount": 5})
        >>> known, columns = values.columns([(1, 2, 3), (4, 2, 3)], {"amount": pa.int64()})
        >>> known.tolist(), columns["amount"].to_pylist()
        ([1, 0], [5, None])
        """
        of_edges = [self.of(key) for key in keys]
        names = sorted({name for values in of_edges for name in values or ()})
        found = {
            name: pa.array([(values or {}).get(name) for values in of_edges], _saved_type(types.get(name, pa.string())))
            for name in names
        }
        return np.array([values is not None for values in of_edges], np.uint8), found

    def load(
        self, keys: Iterable[Any], timestamps: Iterable[int], is_known: Iterable[int], columns: Mapping[str, pa.Array]
    ) -> None:
        """Set the values of edges from what `columns` returned of them."""
        names = sorted(columns)
        for row, (key, timestamp, has_values) in enumerate(zip(keys, timestamps, is_known, strict=True)):
            if has_values:
                self._latest[key] = timestamp, values_at(columns, names, row)

    def collect(self, bound: int, keys_in_use: Collection[Any] = ()) -> None:
        """Remove the edges with a timestamp up to a bound, except those with `keys_in_use`. O(edges)."""
        self._latest = {key: latest for key, latest in self._latest.items() if latest[0] > bound or key in keys_in_use}


def values_at(columns: Mapping[str, pa.Array], names: Iterable[str], row: int) -> dict[str, Any]:
    """Return the properties that a row has, without nulls.

    >>> values_at({"n": pa.array([1, None]), "m": pa.array(["x", "y"])}, ["m", "n"], 1)
    {'m': 'y'}
    """
    found = {name: _value_of(columns[name][row]) for name in names if name in columns}
    return {name: value for name, value in found.items() if value is not None}


def _saved_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of a column of values of a type, as `values_at` returns them."""
    return pa.string() if pa.types.is_timestamp(kind) and kind.unit == "ns" else kind


def _value_of(scalar: pa.Scalar) -> Any:
    """Return a value of Python; the text of a time that has too many digits for one."""
    if pa.types.is_timestamp(scalar.type) and scalar.type.unit == "ns" and scalar.is_valid:
        return str(scalar.cast(pa.string()).as_py())
    return scalar.as_py()
