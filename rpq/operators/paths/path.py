"""Paths as users see them: the witnesses of answers, as values and as JSON text."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from json.encoder import encode_basestring
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from rpq.compiled.kernel_cache import njit
from rpq.operators.paths.index.layout import LOW_HALF
from rpq.operators.paths.index.path_delta import PathDelta
from rpq.stream.edges.edge_store import LONG_AGO, TIMELESS
from rpq.stream.edges.edge_values import ValuesOf
from rpq.stream.edges.snapshot import Edges
from rpq.stream.names.edge_vertices import EdgeVertexColumns
from rpq.stream.names.vertices import VertexDictionary


@dataclass(frozen=True)
class Path:
    """A path that answers a query: `vertices` v0, v1, … and between them `labels`, `^label` for a step against an edge.

    `timestamps` are those of its edges where an engine was asked for it, None for a static edge. `properties` are the values
    of its edges that queries read, where the engine keeps them (`Engine(witness=True)`), None for an edge whose values are
    not known. `facts` are those of its vertices that the query reads. None of these plays a part in whether paths are equal.

    >>> path = Path(("x", "y", "z"), ("knows", "^likes"))
    >>> path.vertices[-1], len(path.labels)
    ('z', 2)
    """

    vertices: tuple[int | str, ...]
    labels: tuple[str, ...]
    timestamps: tuple[Any, ...] = field(default=(), compare=False, repr=False)
    properties: tuple[Mapping[str, Any] | None, ...] = field(default=(), compare=False, repr=False)
    facts: tuple[tuple[int | str, Mapping[str, Any]], ...] = field(default=(), compare=False, repr=False)

    def with_times(self, time: Callable[[Any], Any]) -> Path:
        """Return the path with `time` applied to each timestamp.

        >>> Path(("x", "y"), ("knows",), (7,)).with_times("second {}".format).timestamps
        ('second 7',)
        """
        return replace(self, timestamps=tuple(None if one is None else time(one) for one in self.timestamps))

    def to_json(self) -> str:
        """Return the list v0, label, v1, … as JSON; behind each label the properties of the edge, where they are kept.

        >>> Path(("x", "y"), ("^knows",)).to_json()
        '["x", "^knows", "y"]'
        >>> Path(("x", "y"), ("pays",), properties=({"amount": 5},)).to_json()
        '["x", "pays", {"amount": 5}, "y"]'
        """
        steps: list[Any] = [self.vertices[0]]
        for place, (label, vertex) in enumerate(zip(self.labels, self.vertices[1:], strict=True)):
            steps += [label, *([json_properties(self.properties[place])] if self.properties else []), vertex]
        return json.dumps(steps, ensure_ascii=False)


def json_properties(properties: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return properties as JSON has them: its numbers, true and false, and texts for all other values.

    >>> json_properties({"amount": 5, "rate": math.nan})
    {'amount': 5, 'rate': 'nan'}
    """
    return None if properties is None else {name: _json_value(value) for name, value in properties.items()}


def _json_value(value: Any) -> Any:
    is_own = isinstance(value, (bool, int, str)) or (isinstance(value, float) and math.isfinite(value))
    return value if is_own else str(value)


def path_of(
    start: int,
    steps: np.ndarray,
    edges: Edges | EdgeVertexColumns,
    vertices: VertexDictionary,
    labels: list[str],
    values: ValuesOf | None = None,
    *,
    in_window: np.ndarray | None = None,
) -> Path:
    """Return a path from its first vertex and its steps (edge << 1 | against), with the `values` of edges where given.

    Static edges that the window does not hold have no timestamp, whatever it held before: `in_window` says which steps
    it holds, by default all.
    """
    taken = steps.tolist()
    visited = [start, *(int(edges.source[step >> 1] if step & 1 else edges.target[step >> 1]) for step in taken)]
    names = vertices.names_of(np.array(visited)).to_pylist()
    words = ["^" * (step & 1) + labels[edges.label[step >> 1]] for step in taken]
    times = np.where(True if in_window is None else in_window, edges.timestamp[steps >> 1], LONG_AGO).tolist()
    properties: tuple[Mapping[str, Any] | None, ...] = ()
    if values is not None:
        ends = ((int(column[step >> 1]) for column in (edges.source, edges.label, edges.target)) for step in taken)
        properties = tuple(values(*one) for one in ends)
    return Path(tuple(names), tuple(words), tuple(None if time <= TIMELESS else time for time in times), properties)


# --- the paths of many rows as JSON texts, written in bulk --------------------------------------------------
#
# A name occurs in many paths: it is turned into JSON once, and kernels put the pieces together.

_FIRST, _COMMA, _BLANK, _LAST = b"[, ]"


class Words(NamedTuple):
    """Texts as UTF-8, one after the other, and which of them stand in paths, in the order of the rows."""

    place: np.ndarray  # int64 a mention: its text
    start: np.ndarray  # int64 a text
    length: np.ndarray  # int64 a text
    text: np.ndarray  # uint8


TimesOf = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
"""A function from edges, places in the order of a chunk and stream times to the timestamps that the edges had there."""


def paths_of(
    delta: PathDelta, edges: Edges | EdgeVertexColumns, vertices: VertexDictionary, labels: list[str], times_of: TimesOf
) -> pa.StructArray:
    """Return the witness of every row of a delta: the JSON of its path and the times of its edges (as `witness_array`).

    O(total length of the texts + steps log steps).
    """
    lengths = np.diff(delta.ends, prepend=0)
    kinds = np.repeat(delta.kinds, lengths)
    added = np.flatnonzero(kinds >= 0)
    # Steps up to each row that adds a pair; those that leave have none.
    ends = np.zeros(len(added) + 1, np.int64)
    ends[1:] = delta.path_ends[added]
    steps = np.empty(int(ends[-1]), np.int64)
    visited = np.empty(len(added) + len(steps), np.int64)
    _follow(delta.pairs[added], delta.paths, ends, delta.is_reversed, edges.source, edges.target, visited, steps)
    ids, place = np.unique(visited, return_inverse=True)
    names = vertices.names_of(ids).to_pylist()
    names = [encode_basestring(name) for name in names] if vertices.kind == "string" else [str(name) for name in names]
    vertex_words = _words(place, names)
    used, place = np.unique(edges.label[steps >> 1].astype(np.int64) << 1 | steps & 1, return_inverse=True)
    step_words = _words(place, [encode_basestring("^" * (step & 1) + labels[step >> 1]) for step in used.tolist()])
    sizes = np.zeros(len(kinds) + 1, np.int64)
    _measure(ends, vertex_words.place, vertex_words.length, step_words.place, step_words.length, added, sizes)
    offsets = np.cumsum(sizes)
    data = np.empty(int(offsets[-1]), np.uint8)
    _write(ends, *vertex_words, *step_words, offsets[added], data)
    texts = pa.LargeStringArray.from_buffers(len(kinds), pa.py_buffer(offsets), pa.py_buffer(data))
    row_of_step = np.repeat(added, np.diff(ends))
    of_event = (np.repeat(column, lengths)[row_of_step] for column in (delta.orders, delta.times))
    times = times_of(steps >> 1, *of_event)
    is_known = times > TIMELESS
    values = pa.array(times, mask=None if is_known.all() else ~is_known)
    counts = np.zeros(len(kinds) + 1, np.int64)
    counts[added + 1] = np.diff(ends)
    of_rows = pa.LargeListArray.from_arrays(pa.array(np.cumsum(counts)), values, mask=pa.array(kinds < 0))
    if offsets[-1] < 1 << 31:  # so are the steps
        return pa.StructArray.from_arrays([texts.cast(pa.string()), of_rows.cast(pa.list_(pa.int64()))], ["path", "times"])
    return pa.StructArray.from_arrays([texts, of_rows], ["path", "times"])


def _words(place: np.ndarray, texts: list[str]) -> Words:
    """Return the place of each step, and the texts of all steps as one array of bytes."""
    encoded = [text.encode() for text in texts]
    lengths = np.array([len(text) for text in encoded], np.int64)
    return Words(
        place.astype(np.int64), np.cumsum(lengths) - lengths, lengths, np.frombuffer(b"".join(encoded) or b" ", np.uint8)
    )


@njit(cache=True, nogil=True)
def _follow(pairs, paths, ends, is_reversed, source, target, visited, steps):
    """Write the vertices and the steps (edge << 1 | against) of paths, first to last.

    In `paths` the last step from the root is first: if pairs are reversed, that is the first step of the path, taken the
    other way.
    """
    at = np.int64(0)
    step = np.int64(0)
    for row in range(len(pairs)):
        visited[at] = pairs[row] & LOW_HALF if is_reversed else pairs[row] >> 32
        at += 1
        for count in range(ends[row + 1] - ends[row]):
            taken = paths[ends[row] + count] ^ 1 if is_reversed else paths[ends[row + 1] - 1 - count]
            edge, against = taken >> 1, taken & 1
            visited[at] = source[edge] if against else target[edge]
            steps[step] = taken
            at += 1
            step += 1


@njit(cache=True, nogil=True)
def _measure(ends, vertex_place, vertex_length, step_place, step_length, added, sizes):
    """Write how many bytes the text of each row takes, at the row + 1."""
    for row in range(len(added)):
        # Two brackets, and a comma with a blank on both sides of a step.
        size = np.int64(2) + vertex_length[vertex_place[ends[row] + row]]
        for i in range(ends[row], ends[row + 1]):
            size += 4 + vertex_length[vertex_place[i + row + 1]] + step_length[step_place[i]]
        sizes[added[row] + 1] = size


@njit(cache=True, nogil=True)
def _put(data, top, text, start, length):
    for i in range(length):
        data[top + i] = text[start + i]
    return top + length


@njit(cache=True, nogil=True)
def _separate(data, top):
    data[top] = _COMMA
    data[top + 1] = _BLANK
    return top + 2


@njit(cache=True, nogil=True)
def _write(
    ends, vertex_place, vertex_start, vertex_length, vertex_text, step_place, step_start, step_length, step_text, tops, data,
):  # fmt: skip
    """Write the texts, each from its place in `tops` on."""
    for row in range(len(tops)):
        data[tops[row]] = _FIRST
        word = vertex_place[ends[row] + row]
        top = _put(data, tops[row] + 1, vertex_text, vertex_start[word], vertex_length[word])
        for i in range(ends[row], ends[row + 1]):
            word = step_place[i]
            top = _put(data, _separate(data, top), step_text, step_start[word], step_length[word])
            word = vertex_place[i + row + 1]
            top = _put(data, _separate(data, top), vertex_text, vertex_start[word], vertex_length[word])
        data[top] = _LAST
