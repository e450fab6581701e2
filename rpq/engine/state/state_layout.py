"""The file layout of a saved state.

Under a seal (`sealed.py`): the length of a description (8 bytes), the description (JSON), and arrays one after the other.
The description contains the number of entries of each array, and every length is checked against the size of the file. All
parts begin at multiples of 8. Vertices are numbered: an edge contains the numbers of its ends in `names` and the number of
its label in the list of labels.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Any, NamedTuple

import numpy as np
import pyarrow as pa

from rpq.engine.state.sealed import HEADER_BYTES, SealedKind, damage_error, header_of, seal, verify
from rpq.stream.json_values import Damage, JsonValue

STATE = SealedKind(magic=b"RPQSTATE", noun="saved state of an engine", version=2)
_LENGTH = struct.Struct("<Q")
_TYPES: dict[str, np.dtype[Any]] = {"int32": np.dtype("<i4"), "int64": np.dtype("<i8"), "bytes": np.dtype("u1")}
_COLUMNS = ("source", "target", "label", "timestamp")
_STATIC = ("static_source", "static_target", "static_label")
_VERSIONS = ("version_source", "version_target", "version_label")
_PARALLEL = ("parallel_source", "parallel_target", "parallel_label")
_VERTICES = ("vertex_source", "vertex_label", "vertex_target", "vertex_twin")
_IDS = ("id", "id_ends", "id_bytes")
NODE_COLUMNS = {"vertex": pa.int32(), "labels": pa.list_(pa.string()), "times": pa.list_(pa.int64())}
"""The columns of the table of facts of nodes beside properties: the vertex, its labels, and when each was set."""

STATIC_COLUMNS = ("source", "label", "target", "vertex", "twin")
"""The columns of the table of static edges, beside their properties."""
COUNTED_COLUMNS = ("set", "number", "insert")
"""The columns of the table of edges of a window that is decided before the graph."""
_LARGEST_TEXT = 2**31 - 1
_PART_BYTES = 1 << 20


class EdgeVertexArrays(NamedTuple):
    """The edges that are vertices (`rpq.stream.names.edge_vertices`); ends and twins are numbers of vertices."""

    source: np.ndarray  # int32
    label: np.ndarray  # int32
    target: np.ndarray  # int32
    twin: np.ndarray  # int32, -1 without one
    timestamp: np.ndarray  # int64
    number: np.ndarray  # int64
    current: np.ndarray  # uint8: whether a delete of the edge takes it away; of two twins the first
    values: np.ndarray  # uint8: the properties, a record batch in Arrow's format for files

    @classmethod
    def none(cls) -> EdgeVertexArrays:
        """Return no edges."""
        types = (np.int32,) * 4 + (np.int64,) * 2 + (np.uint8,) * 2
        return cls(*(np.zeros(0, dtype) for dtype in types))

    def properties(self) -> pa.Table:
        """Return the properties, a row for each edge. Raises `Damage`."""
        return _table(self.values, len(self.source))


Content = tuple[np.ndarray, np.ndarray]
"""The edges that a window holds, by their places, and the slides at which they leave."""


class ContentArrays(NamedTuple):
    """The contents of some windows, one after the other."""

    end: np.ndarray  # int64: for each content the end of its edges in the other two arrays
    edge: np.ndarray  # int32
    slide: np.ndarray  # int64

    @classmethod
    def of(cls, contents: Sequence[Content]) -> ContentArrays:
        """Return the arrays of contents."""
        edge = np.concatenate([np.zeros(0, np.int32), *(edges for edges, _ in contents)], dtype=np.int32)
        slide = np.concatenate([np.zeros(0, np.int64), *(slides for _, slides in contents)])
        return cls(np.cumsum([len(edges) for edges, _ in contents], dtype=np.int64), edge, slide)

    def each(self) -> list[Content]:
        """Return each content."""
        return list(zip(np.split(self.edge, self.end)[:-1], np.split(self.slide, self.end)[:-1], strict=True))


class EdgeValueArrays(NamedTuple):
    """The values of edges that witnesses show: of those in windows, or where edges have ids of their current versions.

    The names of the fields are part of the format: they name the arrays in a file.
    """

    known: np.ndarray  # uint8: whether the values of the edge are known
    values: np.ndarray  # uint8: the properties, a record batch in Arrow's format for files

    def properties(self) -> pa.Table:
        """Return the properties, a row for each edge. Raises `Damage`."""
        return _table(self.values, len(self.known))


def table_bytes(columns: Mapping[str, pa.Array]) -> np.ndarray:
    """Return columns as bytes in Arrow's format for files; none for no columns."""
    sink = pa.BufferOutputStream()
    if columns:
        table = pa.table(dict(columns))
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    return np.frombuffer(sink.getvalue(), np.uint8)


def _table(content: np.ndarray, count: int | None) -> pa.Table:
    """Return the columns that `table_bytes` wrote, for this number of edges, or for any number with None. Raises
    `Damage`."""
    if not len(content):
        return pa.table({})
    try:
        with pa.ipc.open_file(pa.py_buffer(content)) as reader:
            table = reader.read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError) as problem:
        raise Damage(f"the values of edges are damaged: {problem}") from problem
    if table.num_columns and count is not None and len(table) != count:
        raise Damage(f"there are values of {len(table):,} edges, and {count:,} edges")
    return table


@dataclass(frozen=True, kw_only=True)
class StateEdges:
    """The edges of a window.

    `source` and `target` are indices of `names`, and `contents` are those of windows that do not follow from timestamps,
    each once however many queries have it. The static edges are separate, whether they are in a window or not. `version_…`
    are the edges whose current version an engine knows that keeps properties, whether a query has a use for them or not.
    Where edges have ids, `version_names` are those of these edges, and `version_set` the number of the set of derived labels
    of each. `parallel_…` are all edges that queries about paths in time order read, those with equal ends and label one by
    one, and `parallel_contents` are the contents of these queries that do not follow from timestamps.
    `vertices` are edges that are vertices, whose numbers follow those of `names`. `values` is None where none are kept.
    `statics` is a table of the static edges one by one, where edges have an identity (`StaticEdges`), else empty. `counted`
    is a table of what is known of the versions beside, where their window is decided before the graph (`WindowEdges`), else
    empty. `nodes` is a table of the facts of nodes, empty without any.

    Numbers are int32, timestamps and slides int64, with one entry per edge. `names` are int64 or text, or None if no
    vertex ever occurred.
    """

    names: pa.ChunkedArray | None
    source: np.ndarray
    target: np.ndarray
    label: np.ndarray
    timestamp: np.ndarray
    contents: ContentArrays
    static_source: np.ndarray
    static_target: np.ndarray
    static_label: np.ndarray
    version_source: np.ndarray
    version_target: np.ndarray
    version_label: np.ndarray
    version_timestamp: np.ndarray
    parallel_source: np.ndarray
    parallel_target: np.ndarray
    parallel_label: np.ndarray
    parallel_timestamp: np.ndarray
    parallel_contents: ContentArrays
    vertices: EdgeVertexArrays
    version_names: pa.ChunkedArray | None = None
    version_set: np.ndarray | None = None
    values: EdgeValueArrays | None = None
    statics: np.ndarray = field(default_factory=lambda: np.zeros(0, np.uint8))
    counted: np.ndarray = field(default_factory=lambda: np.zeros(0, np.uint8))
    nodes: np.ndarray = field(default_factory=lambda: np.zeros(0, np.uint8))

    def __len__(self) -> int:
        return len(self.source)

    def counted_table(self) -> pa.Table:
        """Return the table of the versions in a count window: `COUNTED_COLUMNS`. Raises `Damage`."""
        versions = len(self.version_source)
        if not len(self.counted):
            if versions:
                raise Damage("the edges of a count window have no numbers")
            return pa.table({name: pa.array([], pa.int64()) for name in COUNTED_COLUMNS})
        table = _table(self.counted, versions)
        if any(name not in table.schema.names or table[name].type != pa.int64() for name in COUNTED_COLUMNS):
            raise Damage("the edges of a count window lack a column")
        return table

    def node_table(self) -> pa.Table:
        """Return the facts of nodes: `NODE_COLUMNS`, and for each property `value.NAME` and `time.NAME`. Raises `Damage`."""
        table = _table(self.nodes, None)
        if len(self.nodes) and any(
            name not in table.schema.names or table[name].type != kind for name, kind in NODE_COLUMNS.items()
        ):
            raise Damage("the facts of nodes lack a column")
        return table

    def static_table(self) -> pa.Table:
        """Return the static edges one by one: source, label, target, vertex, twin, and `value.NAME`. Raises `Damage`."""
        table = _table(self.statics, None)
        kinds = {name: pa.int32() for name in STATIC_COLUMNS}
        if len(self.statics) and any(name not in table.schema.names or table[name].type != kinds[name] for name in kinds):
            raise Damage("the static edges lack a column")
        return table


@dataclass(frozen=True, kw_only=True)
class StateFile:
    """The content of a file; `content` is everything except the edges."""

    content: JsonValue
    edges: StateEdges


def write_file(file: IO[bytes], described: dict[str, Any], edges: StateEdges) -> None:
    """Write a state. O(bytes)."""
    parts = _content_parts(described, edges)
    for part in (seal(STATE, parts), *parts):
        file.write(part)


def _content_parts(described: dict[str, Any], edges: StateEdges) -> list[bytes | memoryview]:
    """Return the parts of a file after its header."""
    arrays = _arrays(edges)
    types = {dtype: name for name, dtype in _TYPES.items()}
    content = {
        "state": described,
        "arrays": {name: [types[array.dtype], len(array)] for name, array in arrays.items()},
    }
    text = json.dumps(content).encode()
    parts: list[bytes | memoryview] = [_LENGTH.pack(len(text)), text, _padding(len(text))]
    for array in arrays.values():
        parts += [np.ascontiguousarray(array).data.cast("B") if len(array) else b"", _padding(array.nbytes)]
    return parts


def read_file(path: str) -> StateFile:
    """Read a state. Raises `StateFormatError`, and `OSError` for a file that cannot be read. O(bytes).

    Checks that all parts are present and of the right type, that texts are UTF-8, and that numbers of vertices are in
    range.
    """
    with open(path, "rb") as file:
        head = file.read(HEADER_BYTES)
        try:
            header = header_of(STATE, head, os.fstat(file.fileno()).st_size, name=path)
            verify(STATE, header, _parts_of(file, header.length), name=path)
            file.seek(HEADER_BYTES)
            return _parse_content(file, header.length)
        except Damage as problem:
            raise damage_error(STATE, path, str(problem)) from problem


def copy_of(described: dict[str, Any], edges: StateEdges) -> StateFile:
    """Return what `read_file` returns of a file with this content, without a file. O(bytes)."""
    return _state_file(JsonValue.parse(json.dumps(described)), _arrays(edges))


# --- writing -----------------------------------------------------------------------------------------------------


def _arrays(edges: StateEdges) -> dict[str, np.ndarray]:
    """Return the arrays by their names in the file."""
    arrays: dict[str, np.ndarray] = {}
    if edges.names is not None and pa.types.is_integer(edges.names.type):
        arrays["names"] = np.array(edges.names, np.int64)
    elif edges.names is not None:
        arrays["name_ends"], arrays["name_bytes"] = _text_arrays(edges.names)
    arrays |= {name: getattr(edges, name) for name in _COLUMNS}
    for kind, contents in (("content", edges.contents), ("parallel_content", edges.parallel_contents)):
        if len(contents.end):
            arrays |= {f"{kind}_{name}": array for name, array in contents._asdict().items()}
    if len(edges.static_source):
        arrays |= {name: getattr(edges, name) for name in _STATIC}
    if len(edges.version_source):
        arrays |= {name: getattr(edges, name) for name in (*_VERSIONS, "version_timestamp")}
    if len(edges.parallel_source):
        arrays |= {name: getattr(edges, name) for name in (*_PARALLEL, "parallel_timestamp")}
    if len(edges.vertices.source):
        arrays |= {f"vertex_{name}": array for name, array in edges.vertices._asdict().items()}
    if len(edges.statics):
        arrays["statics"] = edges.statics
    if len(edges.counted):
        arrays["counted"] = edges.counted
    if len(edges.nodes):
        arrays["nodes"] = edges.nodes
    if edges.values is not None:
        arrays |= {f"value_{name}": array for name, array in edges.values._asdict().items()}
    if edges.version_names is not None and edges.version_set is not None and len(edges.version_source):
        arrays["version_set"] = edges.version_set
        if pa.types.is_integer(edges.version_names.type):
            arrays[_IDS[0]] = np.array(edges.version_names, np.int64)
        else:
            arrays[_IDS[1]], arrays[_IDS[2]] = _text_arrays(edges.version_names)
    return {name: array.astype(array.dtype.newbyteorder("<"), copy=False) for name, array in arrays.items()}


def _text_arrays(names: pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray]:
    """Return the end offset of each text, and the bytes of all texts."""
    ends, data, before = [np.zeros(0, np.int64)], [np.zeros(0, np.uint8)], 0
    for chunk in names.chunks:
        if not len(chunk):
            continue
        text = chunk.cast(pa.large_string())
        _, offsets, content = text.buffers()
        where = np.frombuffer(offsets, np.int64)[text.offset : text.offset + len(text) + 1]
        ends.append(where[1:] - where[0] + before)
        before = int(ends[-1][-1])
        if content is not None:
            data.append(np.frombuffer(content, np.uint8)[where[0] : where[-1]])
    return np.concatenate(ends), np.concatenate(data)


def _padding(length: int) -> bytes:
    return bytes(-length % 8)


# --- reading -----------------------------------------------------------------------------------------------------


def _parts_of(file: IO[bytes], length: int) -> Iterator[memoryview]:
    """Yield the next bytes of a file, up to `length` of them, in parts; each is valid until the next one."""
    room = memoryview(bytearray(min(length, _PART_BYTES)))
    while length and (count := file.readinto(room[: min(length, len(room))])):  # type: ignore[attr-defined]
        yield room[:count]
        length -= count


def _parse_content(file: IO[bytes], size: int) -> StateFile:
    """Parse the `size` bytes after the header of a file of this version. Raises `Damage`.

    The arrays are read one after another into the memory in which they remain: that of the whole file is not needed as well.
    """
    room = size - _LENGTH.size
    length = _LENGTH.unpack(file.read(_LENGTH.size))[0] if room >= 0 else 0
    if length > room:
        raise Damage(f"{max(room, 0):,} bytes are too few for a description")
    described = JsonValue.parse(file.read(length))
    at = _LENGTH.size + length
    arrays: dict[str, np.ndarray] = {}
    for name, described_array in described["arrays"].items():
        at += len(file.read(-at % 8))
        kind, count = described_array.tuple_of(2)
        array_type = _TYPES[kind.one_of(*_TYPES)]
        needed = count.integer(0) * array_type.itemsize
        if needed > size - at:
            raise Damage(f"{name} has {needed:,} bytes, but only {max(0, size - at):,} remain")
        array = np.empty(count.integer(), array_type)
        if file.readinto(array.view(np.uint8).data) != needed:  # type: ignore[attr-defined]
            raise Damage(f"{name} ended early: the file was changed while it was read")
        arrays[name] = array
        at += needed
    at += -at % 8
    if at != size:
        raise Damage(f"its arrays end at byte {at:,} of {size:,}")
    return _state_file(described["state"], arrays)


def _state_file(state: JsonValue, arrays: Mapping[str, np.ndarray]) -> StateFile:
    """Return the parts of a file. Raises `Damage`."""
    native = {name: np.ascontiguousarray(array, array.dtype.newbyteorder("=")) for name, array in arrays.items()}
    return StateFile(content=state, edges=_edges(_names(native, "names", "name_ends", "name_bytes"), native))


def _names(arrays: dict[str, np.ndarray], integers: str, ends: str, data: str) -> pa.ChunkedArray | None:
    """Return names from the array of integers, or those of texts; None if neither is there. Raises `Damage`."""
    if integers in arrays:
        return pa.chunked_array([_array(arrays, integers, np.int64)])
    if ends not in arrays:
        return None
    return pa.chunked_array(list(_texts(_array(arrays, ends, np.int64), _array(arrays, data, np.uint8))), pa.string())


def _texts(ends: np.ndarray, data: np.ndarray) -> Iterator[pa.StringArray]:
    """Yield the texts with these end offsets, in as few arrays as possible."""
    starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
    if (ends < starts).any() or (len(data) != ends[-1] if len(ends) else len(data)):
        raise Damage("the names of the vertices overlap or are outside the file")
    if len(ends) and int((ends - starts).max()) > _LARGEST_TEXT:
        raise Damage(f"the name of a vertex has more than {_LARGEST_TEXT:,} bytes")
    first = 0
    while first < len(ends):
        stop = int(np.searchsorted(ends, starts[first] + _LARGEST_TEXT, "right"))
        where = np.concatenate([starts[first : first + 1], ends[first:stop]])
        text = data[where[0] : where[-1]]
        offsets = pa.py_buffer((where - where[0]).astype(np.int32))
        array = pa.StringArray.from_buffers(stop - first, offsets, pa.py_buffer(np.ascontiguousarray(text)))
        try:
            array.validate(full=True)
        except pa.ArrowInvalid as problem:
            raise Damage(f"the name of a vertex is not UTF-8: {problem}") from problem
        yield array
        first = stop


def _array(arrays: dict[str, np.ndarray], name: str, dtype: type, count: int | None = None) -> np.ndarray:
    """Return an array after checking its type and length. Raises `Damage`."""
    if name not in arrays:
        raise Damage(f"{name} is missing")
    array = arrays[name]
    if array.dtype != np.dtype(dtype):
        raise Damage(f"{name} is of type {array.dtype}, not {np.dtype(dtype)}")
    if count is not None and len(array) != count:
        raise Damage(f"{name} has {len(array):,} entries for {count:,} edges")
    return array


def _contents(arrays: dict[str, np.ndarray], kind: str, edges: int) -> ContentArrays:
    """Return the contents of windows after checking that each has some of the edges, none twice. Raises `Damage`."""
    if f"{kind}_end" not in arrays:
        return ContentArrays.of([])
    end, edge = _array(arrays, f"{kind}_end", np.int64), _array(arrays, f"{kind}_edge", np.int32)
    contents = ContentArrays(end, edge, _array(arrays, f"{kind}_slide", np.int64, len(edge)))
    if not len(end) or (np.diff(end, prepend=0) < 0).any() or end[-1] != len(edge):
        raise Damage("the contents of windows overlap or are outside the file")
    if any(len(mine) and (mine[0] < 0 or mine[-1] >= edges or (np.diff(mine) <= 0).any()) for mine, _ in contents.each()):
        raise Damage("a window has an edge that does not exist, or has an edge twice")
    return contents


def _edges(names: pa.ChunkedArray | None, arrays: dict[str, np.ndarray]) -> StateEdges:
    """Return the edges after checking that all numbers are in range. Raises `Damage`."""
    count = len(_array(arrays, "source", np.int32))
    has_static = any(name in arrays for name in _STATIC)
    statics = len(_array(arrays, _STATIC[0], np.int32)) if has_static else 0
    static = {name: _array(arrays, name, np.int32, statics) if has_static else np.zeros(0, np.int32) for name in _STATIC}
    versions = len(_array(arrays, _VERSIONS[0], np.int32)) if _VERSIONS[0] in arrays else 0
    version = {name: _array(arrays, name, np.int32, versions) if versions else np.zeros(0, np.int32) for name in _VERSIONS}
    rows = len(_array(arrays, _PARALLEL[0], np.int32)) if _PARALLEL[0] in arrays else 0
    parallel = {name: _array(arrays, name, np.int32, rows) if rows else np.zeros(0, np.int32) for name in _PARALLEL}
    made = EdgeVertexArrays.none()
    if _VERTICES[0] in arrays:
        made_of_edges = len(_array(arrays, _VERTICES[0], np.int32))
        typed = ((name, array.dtype.type) for name, array in made._asdict().items() if name != "values")
        columns = {name: _array(arrays, f"vertex_{name}", dtype, made_of_edges) for name, dtype in typed}
        made = EdgeVertexArrays(**columns, values=_array(arrays, "vertex_values", np.uint8))
    version_names = _names(arrays, *_IDS)
    if version_names is not None and len(version_names) != versions:
        raise Damage(f"there are {len(version_names):,} ids of edges for {versions:,} edges")
    values = None
    if "value_known" in arrays:
        of_edges = count if version_names is None else versions
        is_known = _array(arrays, "value_known", np.uint8, of_edges)
        values = EdgeValueArrays(is_known, _array(arrays, "value_values", np.uint8))
    edges = StateEdges(
        names=names,
        vertices=made,
        values=values,
        statics=_array(arrays, "statics", np.uint8) if "statics" in arrays else np.zeros(0, np.uint8),
        counted=_array(arrays, "counted", np.uint8) if "counted" in arrays else np.zeros(0, np.uint8),
        nodes=_array(arrays, "nodes", np.uint8) if "nodes" in arrays else np.zeros(0, np.uint8),
        source=_array(arrays, "source", np.int32),
        target=_array(arrays, "target", np.int32, count),
        label=_array(arrays, "label", np.int32, count),
        timestamp=_array(arrays, "timestamp", np.int64, count),
        contents=_contents(arrays, "content", count),
        **static,
        **version,
        **parallel,
        parallel_timestamp=_array(arrays, "parallel_timestamp", np.int64, rows) if rows else np.zeros(0, np.int64),
        parallel_contents=_contents(arrays, "parallel_content", rows),
        version_timestamp=_array(arrays, "version_timestamp", np.int64, versions) if versions else np.zeros(0, np.int64),
        version_names=version_names,
        version_set=None if version_names is None else _array(arrays, "version_set", np.int32, versions),
    )
    with_names = 0 if names is None else len(names)
    vertices = with_names + len(made.source)
    named = np.zeros(vertices, bool)
    static_ends, version_ends = (edges.static_source, edges.static_target), (edges.version_source, edges.version_target)
    parallel_ends = edges.parallel_source, edges.parallel_target
    for end in (edges.source, edges.target, *static_ends, *version_ends, *parallel_ends):
        if ((end < 0) | (end >= vertices)).any():
            raise Damage(f"an edge has a vertex with a number outside 0 to {vertices - 1}")
        named[end] = True
    twins = made.twin[made.twin != -1]
    for end, first, bound in ((made.source, 0, with_names), (made.target, 0, with_names), (twins, with_names, vertices)):
        if ((end < first) | (end >= bound)).any():
            raise Damage(f"an edge that is a vertex has one with a number outside {first} to {bound - 1}")
        named[end] = True
    if len(edges.statics):  # those that edges of the window hide have no others
        table = edges.static_table()
        for name in ("source", "target", "vertex", "twin"):
            end = table[name].combine_chunks().to_numpy(zero_copy_only=False)
            named[end[(end >= 0) & (end < vertices)]] = True
    if len(edges.nodes):  # which need no edges
        end = edges.node_table()["vertex"].combine_chunks().to_numpy(zero_copy_only=False)
        if ((end < 0) | (end >= with_names)).any() or len(np.unique(end)) < len(end):
            raise Damage("facts of nodes are those of no vertex, or a vertex has them twice")
        named[end] = True
    if not named.all():
        raise Damage(f"vertex {int(np.argmin(named))} has no edge")
    return edges
