"""Edges that are vertices: those that an edge variable may bind, with the values that filters and columns read of them.

Such a vertex has an id of the dictionary and no name. It stands for one version of an edge, so what is known of it never
changes: an insert that replaces an edge brings another vertex. An edge that an expression may walk both ways has two, one
for each direction (`twin`); both have the number of the edge. Where edges have ids, this number is that of the id in their
dictionary, and the versions of an edge have it in common.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from rpq.compiled.arrays.lengthening import lengthen
from rpq.stream import durations
from rpq.stream.arrays import arrow_compute as pc
from rpq.stream.arrays.properties import NUMBER, PropertyTypes
from rpq.stream.names.stream_labels import LabelName, text_of

NO_VERTEX = -1

NO_TIME = -(1 << 63)
"""In place of the timestamp of a static edge, which has none."""


class NumberName(NamedTuple):
    """The name of numbers that joins compare: a property, or the timestamp in the unit of the stream or in nanoseconds."""

    kind: str
    """`property`, `timestamp` or `nanoseconds`."""
    name: str = ""


NANOSECONDS = NumberName("nanoseconds")


class EdgeNames(Protocol):
    """The dictionary of the ids that edges have."""

    kind: str | None

    def names_of(self, ids: np.ndarray) -> pa.Array:
        """Return the names of ids."""


class EdgeVertexColumns(NamedTuple):
    """The columns of edges that are vertices, without their values."""

    source: np.ndarray  # int32
    label: np.ndarray  # int32
    target: np.ndarray  # int32
    timestamp: np.ndarray  # int64
    number: np.ndarray  # int64: the position of the insert among all inserts; -1, -2, … for static edges; or, where edges
    # have ids, the number of the id in `EdgeNames`
    twin: np.ndarray  # int32: the vertex for the other direction, NO_VERTEX if there is none


class EdgeVertices:
    """The edges that are vertices, by the ids of these.

    - `add`, `forget`, `take_current`, `take_numbered`
    - Values: `columns`, `timestamps`, `labels`, `numbers`, `identities`, `values`
    """

    def __init__(self) -> None:
        self.types = PropertyTypes()
        """The types of the properties of the stream."""
        self.unit: str | None = None
        """The unit of timestamps, None for plain numbers."""
        self.names: EdgeNames | None = None
        """The ids of edges; None where they have none."""
        self.label_names: Sequence[LabelName] = ()
        """The labels by id."""
        self.non_numeric: Counter[str] = Counter()
        """How often texts that are not numbers were compared with numbers, or summed, by condition or property."""
        self._counting, self._is_recomputed = Lock(), False
        self.have_identities = False
        """True if edges have ids, or numbers that tell them apart."""
        self.by_number = False
        """True if current edges are removed by their numbers, too."""
        self._room = 0
        self._columns = EdgeVertexColumns(*(np.zeros(0, dtype) for dtype in (np.int32,) * 3 + (np.int64,) * 2 + (np.int32,)))
        self._values: dict[str, np.ndarray] = {}
        self._number_names: tuple[NumberName, ...] = ()
        self._numbers = np.zeros(0)  # vertex by vertex, those with these names
        self._weights: dict[str, tuple[pa.DataType, np.ndarray]] = {}  # by property: their type, and weights by vertex
        self._is_current = np.zeros(0, bool)
        self._current: dict[tuple[int, ...], dict[int, None]] | None = None
        """The vertices of the current edges between two vertices with one label; None until a tuple takes some away."""
        self._current_by_number: dict[int, dict[int, None]] = {}
        """The vertices of the current edges by number, where `by_number` is set."""

    @property
    def nbytes(self) -> int:
        """The approximate number of bytes held."""
        weights = (array for _, array in self._weights.values())
        arrays = sum(array.nbytes for array in (*self._columns, *self._values.values(), self._numbers, *weights))
        return arrays + 500 * len(self._current or ()) + 300 * len(self._current_by_number)

    def count_non_numeric(self, text: str, count: int) -> None:
        """Count texts that are not numbers for a condition or a property. Threads may do so at the same time."""
        if count and not self._is_recomputed:
            with self._counting:
                self.non_numeric[text] += count

    @contextmanager
    def recomputation(self) -> Iterator[None]:
        """Count no texts in this block, in which rows are computed again."""
        self._is_recomputed = True
        try:
            yield
        finally:
            self._is_recomputed = False

    def _make_room(self, count: int) -> None:
        if count <= self._room:
            return
        more = max(count - self._room, self._room // 2)
        self._room += more
        self._is_current = lengthen(self._is_current, more)
        self._columns = EdgeVertexColumns(*(lengthen(array, more, NO_VERTEX) for array in self._columns))
        for name, values in self._values.items():
            self._values[name] = lengthen(values, more, None)
        self._numbers = lengthen(self._numbers, more * len(self._number_names), math.nan)
        for name, (kind, weights) in self._weights.items():
            self._weights[name] = kind, lengthen(weights, more)

    # --- edges -----------------------------------------------------------------------------------------------

    def add(self, ids: np.ndarray, columns: EdgeVertexColumns, values: Mapping[str, pa.Array]) -> None:
        """Add edges, with the properties that they have; they become current by `make_current`."""
        if not len(ids):
            return
        self._make_room(int(ids.max()) + 1)
        for mine, new_values in zip(self._columns, columns, strict=True):
            mine[ids] = new_values
        for name in values.keys() - self._values.keys():
            self._values[name] = np.full(self._room, None, object)
        for name, mine in self._values.items():
            mine[ids] = _objects(values[name]) if name in values else None
        if self._number_names:
            self._set_numbers(ids, values)
        for name, (kind, weights) in [*self._weights.items()]:
            if name not in values or values[name].null_count == len(ids):
                weights[ids] = 0
            elif values[name].type == kind:
                weights[ids] = self._weights_of(name, values[name])
            else:
                del self._weights[name]  # the type of the property has come, or has more digits now

    def _set_numbers(self, ids: np.ndarray, values: Mapping[str, pa.Array]) -> None:
        """Set the numbers of edges that have these properties: floats, NaN for all other values."""
        numbers = self._numbers.reshape(self._room, len(self._number_names))
        for place, (kind, name) in enumerate(self._number_names):
            if kind == "property":
                numbers[ids, place] = self._floats(name, values[name]) if name in values else math.nan
                continue
            factor = 1.0
            if kind == NANOSECONDS.kind:
                factor = math.nan if self.unit is None else float(durations.NANOSECONDS[self.unit])
            times = self._columns.timestamp[ids]
            numbers[ids, place] = np.where(times == NO_TIME, math.nan, factor * times)

    def _floats(self, name: str, values: pa.Array) -> np.ndarray | float:
        """Return values of a property as floats, NaN for what is no number."""
        kind = values.type
        if pa.types.is_string(kind) and name in self.types.loose:
            numbers = pc.if_else(pc.match_substring_regex(values, NUMBER), values, pa.scalar(None, pa.string()))
            values = pc.utf8_ltrim(numbers, "+")
        elif not (pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind)):
            return math.nan
        if kind != pa.float64():
            values = pc.cast(values, pa.float64(), safe=False)
        floats: np.ndarray = values.to_numpy(zero_copy_only=False)
        return floats

    def make_current(self, ids: np.ndarray) -> None:
        """Make edges current, until a delete or a replacement ends that."""
        self._is_current[ids] = True
        if self._current is not None:
            for key, number, vertex in zip(self._keys(ids), self.numbers(ids).tolist(), ids.tolist(), strict=True):
                self._enter(key, number, vertex)

    def make_one_current(self, key: tuple[int, ...], number: int, vertex: int) -> None:
        """Make one edge current: that with a number between two vertices with a label, (source, label, target)."""
        self._is_current[vertex] = True
        if self._current is not None:
            self._enter(key, number, vertex)

    def end(self, ids: np.ndarray) -> None:
        """Remove edges from the current ones."""
        if self._current is not None:
            self._remove(ids.tolist())
        self._is_current[ids] = False

    def _enter(self, key: tuple[int, ...], number: int, vertex: int) -> None:
        assert self._current is not None
        self._current.setdefault(key, {})[vertex] = None
        if self.by_number:
            self._current_by_number.setdefault(number, {})[vertex] = None

    def _remove(self, vertices: Sequence[int]) -> None:
        """Remove vertices from the current ones, by ends and by number."""
        assert self._current is not None
        ids = np.array(vertices, np.int64)
        self._is_current[ids] = False
        for key, number, vertex in zip(self._keys(ids), self.numbers(ids).tolist(), vertices, strict=True):
            _discard(self._current, key, vertex)
            if self.by_number:
                _discard(self._current_by_number, number, vertex)

    def _know_current(self) -> dict[tuple[int, ...], dict[int, None]]:
        """Return the current edges by their ends. From the first call on, this index is maintained."""
        if self._current is None:
            self._current = {}
            self.make_current(np.flatnonzero(self._is_current))
        return self._current

    def take_current(self, key: tuple[int, ...]) -> Sequence[int]:
        """Remove the edges between two vertices with a label from the current ones, and return their vertices."""
        current = self._know_current().pop(key, None)
        if current is None:
            return ()
        for vertex in current:
            self._is_current[vertex] = False
            if self.by_number:
                _discard(self._current_by_number, self._columns.number.item(vertex), vertex)
        return [*current]

    def take_numbered(self, number: int) -> Sequence[int]:
        """Remove the edge with this number from the current ones, where `by_number` is set, and return its vertices."""
        self._know_current()
        vertices = [*self._current_by_number.get(number, ())]
        if vertices:
            self._remove(vertices)
        return vertices

    def _keys(self, ids: np.ndarray) -> Iterable[tuple[int, ...]]:
        ends = (self._columns.source, self._columns.label, self._columns.target)
        return zip(*(column[ids].tolist() for column in ends), strict=True)

    def are_current(self, ids: np.ndarray) -> np.ndarray:
        """Return which vertices are those of current edges."""
        found: np.ndarray = self._is_current[ids]
        return found

    def used_by_twins(self, unused: np.ndarray) -> np.ndarray:
        """Return those of the vertices without edges whose twins have some. O(vertices)."""
        unused = unused[unused < self._room]
        is_unused = np.zeros(self._room, bool)
        is_unused[unused] = True
        twin = self._columns.twin[unused]
        found: np.ndarray = unused[(self._columns.source[unused] != NO_VERTEX) & (twin != NO_VERTEX) & ~is_unused[twin]]
        return found

    def forget(self, ids: np.ndarray) -> None:
        """Forget edges, whose ids become free."""
        ids = ids[ids < self._room]
        if self._current is not None:
            self._remove(ids[self._is_current[ids]].tolist())
        self._is_current[ids] = False
        self._columns.source[ids] = NO_VERTEX
        for mine in self._values.values():
            mine[ids] = None

    def keep_properties(self, names: Iterable[str]) -> None:
        """Drop the values of all other properties than these."""
        self._values = {name: values for name, values in self._values.items() if name in {*names}}

    # --- values ----------------------------------------------------------------------------------------------

    @property
    def all_columns(self) -> EdgeVertexColumns:
        """The columns of edges by vertex."""
        return self._columns

    def columns(self, ids: np.ndarray) -> EdgeVertexColumns:
        """Return the columns of edges, without their values."""
        return EdgeVertexColumns(*(array[ids] for array in self._columns))

    def targets(self, ids: np.ndarray) -> np.ndarray:
        """Return the targets of those of some vertices that are edges; any vertices for others."""
        found: np.ndarray = self._columns.target.take(ids, mode="clip")
        return found

    def timestamps(self, ids: np.ndarray) -> pa.Array:
        """Return the timestamps of edges as integers, null for static ones."""
        found = self._columns.timestamp[ids]
        return pa.array(found, mask=found == NO_TIME)

    def labels(self, ids: np.ndarray) -> pa.Array:
        """Return the labels of edges, as the tuples have them. O(ids)."""
        names = self.label_names
        return pa.array([text_of(names[label]) for label in self._columns.label[ids].tolist()], pa.string())

    def numbers(self, ids: np.ndarray) -> np.ndarray:
        """Return the numbers of edges (int64), which are equal for the two directions of one edge."""
        found: np.ndarray = self._columns.number[ids]
        return found

    def identities(self, ids: np.ndarray) -> pa.Array:
        """Return the ids of edges or, where they have none, their numbers; null for static edges without an id. O(ids)."""
        numbers = self.numbers(ids)
        if self.names is None:
            return pa.array(numbers)
        is_static = numbers < 0
        found = self.names.names_of(numbers[~is_static].astype(np.int32))
        if not is_static.any():
            return found
        places = pa.array(np.cumsum(~is_static) - 1, mask=is_static)
        return found.take(places)

    @property
    def identity_type(self) -> pa.DataType:
        """The type of `identities`; text while no id was seen."""
        return pa.int64() if self.names is None or self.names.kind == "int64" else pa.string()

    def values(self, name: str, ids: np.ndarray) -> pa.Array:
        """Return a property of edges, null for those that have none, in the type of the property. O(ids)."""
        values = self._values.get(name)
        kind = self.types.by_name.get(name, pa.string())
        if values is None:
            return pa.nulls(len(ids), kind)
        is_time = pa.types.is_timestamp(kind)
        array = pa.array(values[ids].tolist(), pa.int64() if is_time else kind, from_pandas=False)
        return array.cast(kind) if is_time else array

    def numbers_with(self, names: tuple[NumberName, ...]) -> np.ndarray:
        """Return the numbers with these names of all edges as floats, vertex by vertex: float64[vertices * names].

        Other values are NaN. While the names are the same and there is room, the array is the same, and `add` writes to it.
        """
        if names != self._number_names:
            self._number_names = names
            self._numbers = np.full(self._room * len(names), math.nan)
            ids = np.flatnonzero(self._columns.source != NO_VERTEX)
            self._set_numbers(ids, {name: self.values(name, ids) for name in self._values})
        return self._numbers

    def weights(self, name: str) -> np.ndarray:
        """Return the values of a property by vertex as numbers that are summed: float64, also of loose values, or int64, of
        decimals in units of the last digit. None of them is negative; others are 0.

        From the first call on, `add` maintains them, until the type of the property changes.
        """
        kind = self.types.by_name.get(name, pa.null())
        if name not in self._weights or self._weights[name][0] != kind:
            ids = np.flatnonzero(self._columns.source != NO_VERTEX)
            is_float = pa.types.is_floating(kind) or name in self.types.loose
            weights = np.zeros(self._room, np.float64 if is_float else np.int64)
            weights[ids] = self._weights_of(name, self.values(name, ids))
            self._weights[name] = kind, weights
        return self._weights[name][1]

    def _weights_of(self, name: str, values: pa.Array) -> np.ndarray | float:
        """Return values of a property as weights; the largest integer for a decimal that has too many digits."""
        if pa.types.is_decimal(values.type):
            words = np.frombuffer(values.fill_null(0).buffers()[1], np.int64).reshape(-1, 2)
            low, high = words[values.offset : values.offset + len(values)].T
            return np.where(high < 0, 0, np.where((high == 0) & (low >= 0), low, np.iinfo(np.int64).max))
        if pa.types.is_integer(values.type):
            return np.maximum(values.fill_null(0).to_numpy(zero_copy_only=False), 0)
        if name in self.types.loose:
            values = pc.utf8_trim(values, " \t")  # as conditions do
        return np.fmax(self._floats(name, values), 0.0) + 0.0

    @property
    def properties(self) -> list[str]:
        """The names of the properties of which values are held."""
        return sorted(self._values)

    def _check(self, is_nameless: np.ndarray) -> None:
        """Assert that current edges are vertices without a name, and known by their ends."""
        current = np.flatnonzero(self._is_current)
        assert is_nameless[current].all(), "a current edge is no vertex"
        if self._current is None:
            return
        assert sorted(vertex for vertices in self._current.values() for vertex in vertices) == current.tolist()
        for key, vertices in self._current.items():
            assert len({*vertices}) == len(vertices), "an edge is current twice"
            for vertex in vertices:
                columns = self._columns
                ends = columns.source[vertex], columns.label[vertex], columns.target[vertex]
                assert key == ends, "an edge has other ends"
        numbered = [(number, vertex) for number, vertices in self._current_by_number.items() for vertex in vertices]
        expected = [] if not self.by_number else list(zip(self.numbers(current).tolist(), current.tolist(), strict=True))
        assert sorted(numbered) == sorted(expected), "an edge has another number"


def _discard(vertices_of_key: dict[Any, dict[int, None]], key: Any, vertex: int) -> None:
    """Remove a vertex from those of a key, and the key with the last one."""
    del vertices_of_key[key][vertex]
    if not vertices_of_key[key]:
        del vertices_of_key[key]


def _objects(values: pa.Array) -> np.ndarray:
    """Return values as Python objects, times as integers."""
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.int64())
    found = np.empty(len(values), object)
    found[:] = values.to_pylist()
    return found
