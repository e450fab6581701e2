"""The paths of many rows as JSON texts, written in bulk.

A name occurs in many paths: it is turned into JSON once, and kernels put the pieces together.
"""

from __future__ import annotations

from json.encoder import encode_basestring
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numba import njit

from rpq.index.delta import Part
from rpq.snapshot import Edges
from rpq.vertices import VertexDictionary

_FIRST, _COMMA, _LAST = 91, 44, 93  # brackets and comma as bytes


class Words(NamedTuple):
    """Texts by id, as UTF-8 one after the other; ids that were not asked for have none."""

    start: np.ndarray  # int64 an id
    length: np.ndarray  # int32 an id
    text: np.ndarray  # uint8


def paths_of(part: Part, edges: Edges, vertices: VertexDictionary, labels: list[str]) -> pa.Array:
    """The JSON of the path of every row of a part (as `Path.to_json`); empty for pairs that leave.

    O(total length of the texts + vertices).
    """
    count = len(part.pairs)
    kinds = np.repeat(part.kinds, np.diff(part.ends, prepend=0))
    used_vertices = np.zeros(vertices.count, np.uint8)
    used_labels = np.zeros(2 * len(labels), np.uint8)
    row_kinds = np.ascontiguousarray(kinds)
    _mark(part.pairs, row_kinds, part.paths, part.path_ends, edges.source, edges.target, edges.label, used_vertices, used_labels)
    ids = np.flatnonzero(used_vertices)
    names = vertices.names_of(ids).to_pylist()
    as_json = [encode_basestring(name) for name in names] if vertices.kind == "string" else list(map(str, names))
    vertex_words = _words(ids, as_json, vertices.count)
    steps = np.flatnonzero(used_labels)
    step_texts = [encode_basestring("^" * (step & 1) + labels[step >> 1]) for step in steps.tolist()]
    step_words = _words(steps, step_texts, 2 * len(labels))
    ends = np.zeros(count + 1, np.int64)
    arguments = (part.pairs, row_kinds, part.paths, part.path_ends, edges.source, edges.target, edges.label)
    _measure(*arguments, vertex_words.length, step_words.length, ends)
    data = np.empty(int(ends[-1]), np.uint8)
    _write(*arguments, *vertex_words, *step_words, ends, data)
    large = pa.LargeStringArray.from_buffers(count, pa.py_buffer(ends), pa.py_buffer(data))
    return large.cast(pa.string()) if ends[-1] < 1 << 31 else large


def _words(ids: np.ndarray, texts: list[str], count: int) -> Words:
    """The texts of ids below `count`."""
    encoded = [text.encode() for text in texts]
    lengths = np.array([len(text) for text in encoded], np.int64)
    start, length = np.zeros(count, np.int64), np.zeros(count, np.int32)
    start[ids] = np.cumsum(lengths) - lengths
    length[ids] = lengths
    return Words(start, length, np.frombuffer(b"".join(encoded) or b" ", np.uint8))


@njit(cache=True, nogil=True)
def _mark(pairs, kinds, paths, path_ends, source, target, label, used_vertices, used_labels):
    """Mark the vertices and the labels (label << 1 | against) that occur in paths."""
    begin = np.int64(0)
    for row in range(len(pairs)):
        if kinds[row] < 0:
            continue
        used_vertices[pairs[row] >> 32] = 1
        for i in range(begin, path_ends[row]):
            edge, against = paths[i] >> 1, paths[i] & 1
            used_vertices[source[edge] if against else target[edge]] = 1
            used_labels[np.int64(label[edge]) << 1 | against] = 1
        begin = path_ends[row]


@njit(cache=True, nogil=True)
def _measure(pairs, kinds, paths, path_ends, source, target, label, vertex_length, step_length, ends):
    """Where the text of each row ends."""
    begin = np.int64(0)
    for row in range(len(pairs)):
        size = np.int64(0)
        if kinds[row] >= 0:
            size = np.int64(vertex_length[pairs[row] >> 32]) + 2
            for i in range(begin, path_ends[row]):
                edge, against = paths[i] >> 1, paths[i] & 1
                size += np.int64(vertex_length[source[edge] if against else target[edge]]) + 4
                size += np.int64(step_length[np.int64(label[edge]) << 1 | against])
            begin = path_ends[row]
        ends[row + 1] = ends[row] + size


@njit(cache=True, nogil=True)
def _put(data, top, text, start, length):
    for i in range(length):
        data[top + i] = text[start + i]
    return top + length


@njit(cache=True, nogil=True)
def _separate(data, top):
    data[top] = _COMMA
    data[top + 1] = 32
    return top + 2


@njit(cache=True, nogil=True)
def _write(
    pairs, kinds, paths, path_ends, source, target, label,
    vertex_start, vertex_length, vertex_text, step_start, step_length, step_text, ends, data,
):  # fmt: skip
    """Write the texts; a path lies in `paths` with its last step first."""
    begin = np.int64(0)
    for row in range(len(pairs)):
        if kinds[row] < 0:
            continue
        top = ends[row]
        data[top] = _FIRST
        vertex = pairs[row] >> 32
        top = _put(data, top + 1, vertex_text, vertex_start[vertex], np.int64(vertex_length[vertex]))
        for i in range(path_ends[row] - 1, begin - 1, -1):
            edge, against = paths[i] >> 1, paths[i] & 1
            step = np.int64(label[edge]) << 1 | against
            top = _separate(data, top)
            top = _put(data, top, step_text, step_start[step], np.int64(step_length[step]))
            vertex = np.int64(source[edge] if against else target[edge])
            top = _separate(data, top)
            top = _put(data, top, vertex_text, vertex_start[vertex], np.int64(vertex_length[vertex]))
        data[top] = _LAST
        begin = path_ends[row]
