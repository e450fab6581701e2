"""From vertex ids to names: turning what the indexes report into rows that outlive the ids."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from rpq.compiled.kernel_cache import njit
from rpq.paths.index.delta import Part
from rpq.results.changes import Block, Path
from rpq.stream.snapshot import Edges
from rpq.stream.vertices import VertexDictionary

_TARGET = (1 << 32) - 1


def block_of(parts: list[tuple[int, Part]], vertices: VertexDictionary, witnesses: list[pa.Array] | None) -> Block:
    """The rows of parts (number of the query, part), merged in time order. O(rows log rows), at most O(rows + vertices)."""
    query = np.concatenate([np.full(len(part.pairs), number, np.int32) for number, part in parts])
    pairs = np.concatenate([part.pairs for _, part in parts])
    lengths = [np.diff(part.ends, prepend=0) for _, part in parts]
    events = np.concatenate(lengths)
    times = np.concatenate([part.times for _, part in parts])
    kinds = np.concatenate([part.kinds for _, part in parts])
    timestamp, removed = np.repeat(times, events), np.repeat((kinds < 0).astype(np.uint8), events)
    paths = pa.chunked_array(witnesses).combine_chunks() if witnesses is not None else None
    if len(parts) > 1:
        orders = np.concatenate([part.orders for _, part in parts])
        sequence = np.lexsort((np.repeat(times, events), np.repeat(orders, events)))
        query, pairs, timestamp, removed = query[sequence], pairs[sequence], timestamp[sequence], removed[sequence]
        paths = paths.take(pa.array(sequence)) if paths is not None else None
    source, target, used = _renumbered(pairs, vertices.count)
    return Block(
        query=query,
        source=source,
        target=target,
        timestamp=timestamp,
        removed=removed,
        names=vertices.names_of(used),
        paths=paths,
    )


def pairs_as_names(pairs: np.ndarray, vertices: VertexDictionary) -> tuple[pa.Array, pa.Array]:
    """Sources and targets of pairs of ids."""
    source, target, used = _renumbered(pairs, vertices.count)
    names = vertices.names_of(used)
    return names.take(pa.array(source)), names.take(pa.array(target))


def path_of(start: int, steps: np.ndarray, edges: Edges, vertices: VertexDictionary, labels: list[str]) -> Path:
    """A path from its first vertex and its steps (edge << 1 | against)."""
    visited = [start]
    for step in steps.tolist():
        visited.append(int(edges.source[step >> 1] if step & 1 else edges.target[step >> 1]))
    names = vertices.names_of(np.array(visited)).to_pylist()
    words = ["^" * (step & 1) + labels[edges.label[step >> 1]] for step in steps.tolist()]
    return Path(tuple(names), tuple(words))


def _renumbered(pairs: np.ndarray, vertices: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(sources, targets, used): the ids that pairs use, which are below `vertices`, and places among them."""
    if len(pairs) * 16 > vertices:
        return _compact(pairs, vertices)
    # A few rows among many vertices: what is made must not be as long as the dictionary.
    used, place = np.unique(np.concatenate([pairs >> 32, pairs & _TARGET]), return_inverse=True)
    place = place.astype(np.int32)
    return place[: len(pairs)], place[len(pairs) :], used


@njit(cache=True, nogil=True)
def _compact(pairs, vertices):
    """(sources, targets, used): ids renumbered in the order of their first use."""
    place = np.full(vertices, -1, np.int32)
    used = np.empty(vertices, np.int32)
    source = np.empty(len(pairs), np.int32)
    target = np.empty(len(pairs), np.int32)
    count = 0
    for i in range(len(pairs)):
        u = pairs[i] >> 32
        v = pairs[i] & ((1 << 32) - 1)
        if place[u] < 0:
            place[u] = count
            used[count] = u
            count += 1
        if place[v] < 0:
            place[v] = count
            used[count] = v
            count += 1
        source[i] = place[u]
        target[i] = place[v]
    return source, target, used[:count].copy()
