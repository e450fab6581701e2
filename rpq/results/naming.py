"""From vertex ids to names: turning what running queries report into rows that outlive the ids. The one place for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from rpq.compiled.kernel_cache import njit
from rpq.results.block import Block, FewRows, Schema
from rpq.results.delta import Delta, IdRows
from rpq.stream.vertices import VertexDictionary

FEW = 64
"""Up to so many rows lists are cheaper than columns."""


def blocks_of(
    deltas: list[tuple[int, Delta]],
    columns: Sequence[Schema],
    vertices: VertexDictionary,
    witnesses: list[pa.Array] | None,
) -> list[Block]:
    """The rows of deltas (number of the query, delta), merged in time order: a block for each kind of `columns`.

    `columns` are given for each query. O(rows log rows), at most O(rows + vertices).
    """
    sequences = _sequences(deltas) if len(deltas) > 1 else None
    groups: dict[Schema, list[int]] = {}
    for place, (number, _) in enumerate(deltas):
        groups.setdefault(columns[number], []).append(place)
    blocks = []
    for names, places in groups.items():
        some = [deltas[place] for place in places]
        block = _block_of(names, some, vertices, None if witnesses is None else [witnesses[place] for place in places])
        if sequences is not None:
            sequence = np.concatenate([sequences[place] for place in places])
            block = block._replace(sequence=sequence).take(np.argsort(sequence))
        blocks.append(block if len(groups) > 1 else block._replace(sequence=None))
    return blocks


def few_rows_of(deltas: list[tuple[int, Delta]], vertices: VertexDictionary) -> FewRows:
    """The rows of deltas (number of the query, delta), merged in time order. O(rows log rows)."""
    rows = FewRows([], [], [], [])
    moments: list[tuple[int, int, int, bool]] = []
    first: dict[int, int] = {}  # of each query the place of its first delta: several threads may answer for one
    names: dict[int, int | str] = {}
    for place, (number, delta) in enumerate(deltas):
        begin = 0
        for ids in delta.as_lists():
            for vertex in ids:
                if vertex not in names:
                    names[vertex] = vertices.name_of(vertex)
            rows.values.append(tuple([names[vertex] for vertex in ids]))
        events = zip(delta.orders.tolist(), delta.times.tolist(), delta.kinds.tolist(), delta.ends.tolist(), strict=True)
        for order, time, kind, end in events:
            count = end - begin
            rows.query.extend([number] * count)
            rows.timestamp.extend([time] * count)
            rows.removed.extend([kind < 0] * count)
            moments += [(order, time, first.setdefault(number, place), kind > 0)] * count
            begin = end
    if len(deltas) == 1:
        return rows
    sequence = sorted(range(len(moments)), key=moments.__getitem__)
    ordered: list[list[Any]] = [[column[row] for row in sequence] for column in rows]
    return FewRows(*ordered)


def columns_of_names(rows: list[IdRows], vertices: VertexDictionary) -> list[pa.Array]:
    """The columns of rows of ids, of which there are some; all have the same columns."""
    order = rows[0].order
    places, used = _renumbered(np.concatenate([some.arranged(order) for some in rows]), vertices.count)
    names = vertices.names_of(used)
    return [names.take(pa.array(np.ascontiguousarray(places[:, place]))) for place in order]


def _block_of(
    columns: Schema, deltas: list[tuple[int, Delta]], vertices: VertexDictionary, witnesses: list[pa.Array] | None
) -> Block:
    """The rows of deltas with the same columns, one delta after the other."""
    lengths = np.concatenate([delta.lengths() for _, delta in deltas])
    order = deltas[0][1].ids.order  # other queries may have found their columns in another one
    places, used = _renumbered(np.concatenate([delta.ids.arranged(order) for _, delta in deltas]), vertices.count)
    return Block(
        columns=columns,
        query=np.repeat(np.array([n for n, _ in deltas], np.int32), [len(delta) for _, delta in deltas]),
        ids=IdRows(places, order),
        timestamp=np.repeat(np.concatenate([delta.times for _, delta in deltas]), lengths),
        removed=np.repeat(np.concatenate([delta.kinds < 0 for _, delta in deltas]).astype(np.uint8), lengths),
        names=vertices.names_of(used),
        witness=None if witnesses is None else pa.chunked_array(witnesses).combine_chunks(),
        sequence=None,
    )


def _sequences(numbered: list[tuple[int, Delta]]) -> list[np.ndarray]:
    """For each delta (with the number of its query) the places that its rows have among those of all."""
    deltas = [delta for _, delta in numbered]
    lengths = [delta.lengths() for delta in deltas]
    orders = np.concatenate([np.repeat(delta.orders, one) for delta, one in zip(deltas, lengths, strict=True)])
    times = np.concatenate([np.repeat(delta.times, one) for delta, one in zip(deltas, lengths, strict=True)])
    keys = [times, orders]
    if _are_of_both_kinds(numbered):
        # What leaves comes before what enters, though one thread after the other has told of both.
        numbers = [number for number, _ in numbered]
        firsts = np.repeat([numbers.index(number) for number in numbers], [len(delta) for delta in deltas])
        enters = np.concatenate([np.repeat(delta.kinds > 0, one) for delta, one in zip(deltas, lengths, strict=True)])
        keys = [enters, firsts, times, orders]
    place = np.empty(len(orders), np.int64)
    place[np.lexsort(keys)] = np.arange(len(orders))
    return np.split(place, np.cumsum([len(delta) for delta in deltas])[:-1])


def _are_of_both_kinds(numbered: list[tuple[int, Delta]]) -> bool:
    """Whether a query has several deltas, and an event with rows of both kinds."""
    if len({number for number, _ in numbered}) == len(numbered):
        return False
    orders = np.concatenate([delta.orders for _, delta in numbered])
    kinds = np.concatenate([delta.kinds for _, delta in numbered])
    return bool(np.isin(orders[kinds > 0], orders[kinds < 0]).any())


def _renumbered(ids: np.ndarray, vertices: int) -> tuple[np.ndarray, np.ndarray]:
    """(places, used): the ids that occur, all below `vertices`, and for each entry its place among them (int32)."""
    if ids.size * 8 > vertices:
        places, used = _compact(ids.reshape(-1), vertices)
        return places.reshape(ids.shape), used
    # A few rows among many vertices: what is made must not be as long as the dictionary.
    used, places = np.unique(ids, return_inverse=True)
    return places.reshape(ids.shape).astype(np.int32), used


@njit(cache=True, nogil=True)
def _compact(ids, vertices):
    """(places, used): ids renumbered in the order of their first use."""
    place = np.full(vertices, -1, np.int32)
    used = np.empty(vertices, np.int32)
    places = np.empty(len(ids), np.int32)
    count = 0
    for i in range(len(ids)):
        v = ids[i]
        if place[v] < 0:
            place[v] = count
            used[count] = v
            count += 1
        places[i] = place[v]
    return places, used[:count].copy()
