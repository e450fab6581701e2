"""Conversion of rows from vertex ids, which may be reused, to names, which stay valid.

Many rows become blocks of columns, a few become lists.

Everything that running queries report is converted here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
import pyarrow as pa

from rpq.compiled.arrays.hashing import first_candidate, id_at, mix, new_table, next_candidate, put
from rpq.compiled.kernel_cache import njit
from rpq.rows.column_kernels import NameColumns, Region
from rpq.rows.delta import Delta, IdRows, ids_of_columns
from rpq.rows.typed_columns import ColumnKind, Texts, TypedColumns, kinds_of, terms_to_values, value_type
from rpq.stream.arrays.numpy_arrays import arrow_array, integer_array, text_array
from rpq.stream.names.vertices import VertexDictionary

Schema = tuple[str, ...]
"""The names of a query's columns; they are typed if not all values are vertices (`rpq.rows.typed_columns`)."""

WHOLE, EMPTY = 2, 3
"""Values of `removed`. `WHOLE`: the rows are the whole answer, not a change. `EMPTY`: the only row says that it is empty."""


class RowBlock(NamedTuple):
    """Rows of queries with the same columns, in time order; ids are positions in the `names` of the column's kind.

    Rows `ends[i - 1] : ends[i]` belong to event i, which has a query, a time, and whether it removes the rows.
    """

    columns: Schema
    ids: IdRows
    ends: np.ndarray  # int64, one for each event
    query: np.ndarray  # int32, one for each event, in the names of the queries
    timestamp: np.ndarray  # int64, one for each event
    removed: np.ndarray  # uint8, one for each event; WHOLE: its rows are the whole answer, not a change
    names: Mapping[ColumnKind, pa.Array]  # for typed columns the terms, null if unbound
    witness: pa.Array | None  # for each row, as `witness_array` gives them
    first: np.ndarray | None  # int64, one for each event: place of its first row in the chunk, if that has other blocks

    @property
    def row_count(self) -> int:
        """The number of rows of all events."""
        return len(self.ids.values)

    @property
    def nbytes(self) -> int:
        """The number of bytes of rows, names and witnesses."""
        of_names = sum(names.nbytes for names in self.names.values())
        return self.ids.values.nbytes + of_names + (0 if self.witness is None else self.witness.nbytes)

    def select_query(self, query: int) -> RowBlock:
        """Return the rows of one query."""
        events = self.query == query
        if events.all():
            return self
        rows = np.flatnonzero(np.repeat(events, self._lengths()))
        return self._replace(
            ids=IdRows(self.ids.values[rows], self.ids.order),
            ends=np.cumsum(self._lengths()[events]),
            query=self.query[events],
            timestamp=self.timestamp[events],
            removed=self.removed[events],
            witness=None if self.witness is None else self.witness.take(arrow_array(rows)),
            first=None if self.first is None else self.first[events],
        )

    def head(self, count: int) -> RowBlock:
        """Return the first `count` rows, or all."""
        if count >= self.row_count:
            return self
        events = int(np.searchsorted(self.ends, count)) + 1
        return self._replace(
            ids=IdRows(self.ids.values[:count], self.ids.order),
            ends=np.minimum(self.ends[:events], count),
            query=self.query[:events],
            timestamp=self.timestamp[:events],
            removed=self.removed[:events],
            witness=None if self.witness is None else self.witness.slice(0, count),
            first=None if self.first is None else self.first[:events],
        )

    def counts(self) -> tuple[int, int]:
        """Return the numbers of rows added and removed."""
        removed = int(self._lengths()[self.removed == 1].sum())
        return self.row_count - removed, removed

    def rows_by_query(self) -> dict[int, int]:
        """Return the number of rows of each query that has some, by the number of the query."""
        rows = np.bincount(self.query, self._lengths()).astype(np.int64)
        return {number: int(rows[number]) for number in rows.nonzero()[0].tolist()}

    def places(self) -> np.ndarray:
        """Return the places of the rows in their chunk, which may also have rows in other blocks."""
        assert self.first is not None
        lengths = self._lengths()
        return np.arange(self.row_count) + np.repeat(self.first - (self.ends - lengths), lengths)

    def _lengths(self) -> np.ndarray:
        return np.diff(self.ends, prepend=0)


class RowWitness(Protocol):
    """The witness of a row: a text in JSON, and the integer timestamps of its edges, None for edges without time."""

    @property
    def timestamps(self) -> Sequence[Any]: ...

    def to_json(self) -> str: ...


def witness_array(witnesses: Sequence[RowWitness | None]) -> pa.StructArray:
    """Return witnesses of rows as an array of texts (`path`, empty for none) and of the times of their edges (`times`)."""
    texts = pa.array(["" if one is None else one.to_json() for one in witnesses], pa.string())
    times = pa.array([None if one is None else list(one.timestamps) for one in witnesses], pa.list_(pa.int64()))
    return pa.StructArray.from_arrays([texts, times], names=["path", "times"])


class FewRows(NamedTuple):
    """A few rows of a single tuple, with their names, as lists; each list has an entry for each event, in time order."""

    query: list[int]
    lengths: list[int]
    """The number of rows of an event."""
    values: Sequence[Sequence[Sequence[int | str | None]]]
    """The columns of an event: the names of its rows; for typed columns the terms, None if unbound."""
    timestamp: list[int]
    kinds: list[int]
    """1: the rows are added, -1: removed; `WHOLE`: they are the whole answer."""

    def counts(self) -> tuple[int, int]:
        """Return the numbers of rows added and removed."""
        if len(self.kinds) == 1:
            return (0, self.lengths[0]) if self.kinds[0] < 0 else (self.lengths[0], 0)
        removed = sum([length for length, kind in zip(self.lengths, self.kinds, strict=True) if kind < 0])
        return sum(self.lengths) - removed, removed

    def blocks(self, columns: Sequence[Schema]) -> list[RowBlock]:
        """Return the rows as blocks; `columns` are those of each query."""
        groups: dict[Schema, list[int]] = {}
        for event, query in enumerate(self.query):
            groups.setdefault(columns[query], []).append(event)
        first = np.cumsum(self.lengths) - self.lengths
        blocks = []
        for schema, events in groups.items():
            width, ends = len(schema), np.cumsum([self.lengths[event] for event in events])
            places = np.arange(width * ends[-1], dtype=np.int32).reshape(width, ends[-1])
            names: list[Any] = [name for place in range(width) for event in events for name in self.values[event][place]]
            block = RowBlock(
                columns=schema,
                ids=IdRows(np.ascontiguousarray(places.T), (*range(width),)),
                ends=ends,
                query=np.array([self.query[event] for event in events], np.int32),
                timestamp=np.array([self.timestamp[event] for event in events], np.int64),
                removed=_SIGNS[[self.kinds[event] for event in events]],
                names=dict.fromkeys(kinds_of(schema), _array_of(names, may_be_null=isinstance(schema, TypedColumns))),
                witness=None,
                first=None if len(groups) == 1 else first[events],
            )
            blocks.append(block)
        return blocks


FEW = 1024
"""The number of rows of a single tuple up to which lists are cheaper than columns: for rows, and nearly so for tables."""

FEW_OF_CHUNK = 64
"""The same of a chunk of tuples, where nearly each row is one of another event."""
def _array_of(names: list[int | str | None], *, may_be_null: bool) -> pa.Array:
    """Return names as an array: all of them integers or all texts, unless they `may_be_null`; then all are texts."""
    if may_be_null:
        return pa.array(names, pa.string())
    if names and isinstance(names[0], int):
        return integer_array(cast(list[int], names))
    return text_array(cast(list[str], names))


_SIGNS = np.array([0, 0, WHOLE, EMPTY, 1], np.uint8)
"""The value of `removed` in a block by the kind of an event (1, `WHOLE`, `EMPTY`, or -1 from the end)."""


def blocks_of(
    deltas: list[tuple[int, Delta]],
    columns: Sequence[Schema],
    vertices: VertexDictionary,
    witnesses: list[pa.Array] | None,
    texts: Mapping[int, Texts],
) -> list[RowBlock]:
    """Merge the rows of deltas (number of the query, delta) in time order into a block for each kind of `columns`.

    `columns` are those of each query.  A query whose ids are not all those of vertices has `texts` for them, and a block of
    its own.  O(rows + events log events), at most O(rows + vertices).
    """
    order, first = _order_by_time(deltas) if len(deltas) > 1 else (None, None)
    groups: dict[tuple[Schema, Texts | None], list[int]] = {}
    for place, (number, delta) in enumerate(deltas):
        one = number if delta.numbers is None else int(delta.numbers[0])  # queries that share workers have equal columns
        groups.setdefault((columns[one], texts.get(one)), []).append(place)
    blocks = []
    for (names, texts_of), places in groups.items():
        block = _block_of(
            names,
            [deltas[place] for place in places],
            partial(_stable_names, vertices=vertices)
            if texts_of is None
            else partial(_stable_terms, texts=texts_of, kinds=kinds_of(names)),
            None if witnesses is None else [witnesses[place] for place in places],
            None if order is None else np.concatenate([order[place] for place in places]),
        )
        if first is not None and len(groups) > 1:
            block = block._replace(first=np.sort(np.concatenate([first[place] for place in places])))
        blocks.append(block)
    return blocks


def few_rows_of(deltas: list[tuple[int, Delta]], vertices: VertexDictionary, texts: Mapping[int, Texts]) -> FewRows:
    """Merge the rows of deltas (number of the query, delta) in time order; `texts` as in `blocks_of`.

    O(rows + events log events).
    """
    if len(deltas) == 1:  # as most are: what follows, for one delta, whose events are in time order
        number, delta = deltas[0]
        columns = _few_columns(delta, vertices, texts.get(number))
        if len(delta.ends) == 1:
            query = number if delta.numbers is None else delta.numbers.item(0)
            return FewRows([query], [delta.ends.item(0)], [columns], [delta.times.item(0)], [delta.kinds.item(0)])
        ends = delta.ends.tolist()
        events = [*zip([0, *ends], ends, strict=False)]
        return FewRows(
            [number] * len(ends) if delta.numbers is None else delta.numbers.tolist(),
            [end - begin for begin, end in events],
            [[column[begin:end] for column in columns] for begin, end in events],
            delta.times.tolist(),
            delta.kinds.tolist(),
        )
    values: list[Sequence[Sequence[int | str | None]]] = []
    rows = FewRows([], [], values, [], [])
    moments: list[tuple[int, int, int, bool]] = []
    first: dict[int, int] = {}  # the place of each query's first delta: several threads may answer for one query
    for place, (number, delta) in enumerate(deltas):
        columns = _few_columns(delta, vertices, texts.get(number))
        ends = delta.ends.tolist()
        numbers = [number] * len(ends) if delta.numbers is None else delta.numbers.tolist()
        begin = 0
        moved = zip(numbers, delta.orders.tolist(), delta.times.tolist(), delta.kinds.tolist(), ends, strict=True)
        for query, order, time, kind, end in moved:
            rows.query.append(query)
            rows.lengths.append(end - begin)
            values.append(columns if len(ends) == 1 else [column[begin:end] for column in columns])
            rows.timestamp.append(time)
            rows.kinds.append(kind)
            moments.append((order, time, first.setdefault(number, place), kind > 0))
            begin = end
    sequence = sorted(range(len(moments)), key=moments.__getitem__)
    merged: list[list[Any]] = [[column[event] for event in sequence] for column in rows]
    return FewRows(*merged)


def _few_columns(
    delta: Delta, vertices: VertexDictionary, texts: Texts | None
) -> Sequence[Sequence[int | str | None]]:
    """Return the columns of the rows of a delta as lists of names."""
    ids, columns_at = delta.ids
    if texts is None:
        names = vertices.names_of_few(ids)
        return [names[:, at].tolist() for at in columns_at]
    terms = texts.texts(ids.ravel())
    return [terms[at :: len(columns_at)] for at in columns_at]


def columns_of_names(
    rows: list[IdRows],
    vertices: VertexDictionary,
    *,
    columns: Schema,
    texts: Texts | None,
    times: Callable[[np.ndarray], pa.Array] | None = None,
) -> list[pa.Array]:
    """Return the columns of names for one or more arrays of rows with the same columns; `texts` as in `blocks_of`.

    `times` converts timestamps of edges.
    """
    order = rows[0].order
    merged = IdRows(np.concatenate([some.reorder(order).values for some in rows]), order)
    if texts is not None:
        kinds = kinds_of(columns)
        ids, terms = _stable_terms(merged, texts, kinds)
        vertex = pa.int64() if vertices.kind == "int64" else pa.string()
        found = []
        for place, (kind, at) in enumerate(zip(kinds, ids.order, strict=True)):
            distinct_values = terms_to_values(terms[kind], kind, vertex, value=value_type(columns, place), times=times)
            found.append(distinct_values.take(pa.array(ids.values[:, at])))
        return found
    ids, names = _stable_names(merged, vertices)
    ready = NameColumns(names["vertex"])
    count = len(ids.values)
    region = Region.of_rows(count, len(order) * ready.bytes_a_row, columns=len(order))
    return [ready.column(ids.values, place, 0, count, region) for place in order]


def _block_of(
    columns: Schema,
    deltas: list[tuple[int, Delta]],
    stable: Callable[[IdRows], tuple[IdRows, Mapping[ColumnKind, pa.Array]]],
    witnesses: list[pa.Array] | None,
    order: np.ndarray | None,
) -> RowBlock:
    """Return the rows of deltas with the same columns; events of several deltas are sorted by their numbers in `order`."""
    events = {
        "query": np.concatenate([_numbers_of(number, delta) for number, delta in deltas]),
        "timestamp": np.concatenate([delta.times for _, delta in deltas]),
        "removed": _SIGNS[np.concatenate([delta.kinds for _, delta in deltas])],
    }
    witness = None if witnesses is None else pa.chunked_array(witnesses).combine_chunks()
    if order is None or len(deltas) == 1:
        (_, delta), ends = deltas[0], deltas[0][1].ends.copy()
        values = delta.ids.values if delta.is_lasting else delta.ids.values.copy()
    else:
        lengths = np.concatenate([delta.lengths() for _, delta in deltas])
        by_time = np.argsort(order)
        events = {name: column[by_time] for name, column in events.items()}
        ends = np.cumsum(lengths[by_time])
        begins = np.empty_like(ends)
        begins[by_time] = ends - lengths[by_time]
        values = np.empty((ends[-1], len(columns)), np.int32)
        rows = None if witness is None else np.empty((ends[-1], 1), np.int32)
        event = row = 0
        for _, delta in deltas:
            mine = begins[event : event + len(delta.ends)]
            place_rows(delta.ids.reorder(deltas[0][1].ids.order).values, delta.ends, mine, values)
            if rows is not None:
                place_rows(np.arange(row, row + len(delta), dtype=np.int32).reshape(-1, 1), delta.ends, mine, rows)
            event, row = event + len(mine), row + len(delta)
        witness = witness if witness is None or rows is None else witness.take(arrow_array(rows.reshape(-1)))
    ids, names = stable(IdRows(values, deltas[0][1].ids.order))
    return RowBlock(
        columns=columns,
        ids=ids,
        ends=ends,
        **events,
        names=names,
        witness=witness,
        first=None,
    )


def _numbers_of(number: int, delta: Delta) -> np.ndarray:
    """Return the numbers of the queries of a delta's events."""
    return np.full(len(delta.ends), number, np.int32) if delta.numbers is None else delta.numbers


def _order_by_time(numbered: list[tuple[int, Delta]]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return for each delta the positions of its events among all in time order, and the positions of their first rows."""
    deltas = [delta for _, delta in numbered]
    orders, times = (np.concatenate([getattr(delta, name) for delta in deltas]) for name in ("orders", "times"))
    lengths = np.concatenate([delta.lengths() for delta in deltas])
    keys = [times, orders]
    if _are_of_both_kinds(numbered):
        # Removed rows come before added ones, also where several threads reported them.
        numbers = [number for number, _ in numbered]
        firsts = np.repeat([numbers.index(number) for number in numbers], [len(delta.ends) for delta in deltas])
        enters = np.concatenate([delta.kinds > 0 for delta in deltas])
        keys = [enters, firsts, times, orders]
    by_time = np.lexsort(keys)
    order, first = np.empty(len(by_time), np.int64), np.empty(len(by_time), np.int64)
    order[by_time] = np.arange(len(by_time))
    first[by_time] = np.cumsum(lengths[by_time]) - lengths[by_time]
    cuts = np.cumsum([len(delta.ends) for delta in deltas])[:-1]
    return np.split(order, cuts), np.split(first, cuts)


def _stable_names(ids: IdRows, vertices: VertexDictionary) -> tuple[IdRows, dict[ColumnKind, pa.Array]]:
    """Return ids as positions in names, which stay valid when ids are reused, and these names."""
    values, order = ids
    if values.size >= 2 * vertices.count:  # fewer names than ids: taking all is cheaper than renumbering the ids
        return ids, {"vertex": vertices.names_of(np.arange(vertices.count))}
    places, used = _renumber(values, vertices.count)
    return IdRows(places, order), {"vertex": vertices.names_of(used)}


def _stable_terms(ids: IdRows, texts: Texts, kinds: Sequence[ColumnKind]) -> tuple[IdRows, dict[ColumnKind, pa.Array]]:
    """Return ids as positions in the terms of their column's kind, and these terms, null for those that are unbound.

    Columns of different kinds seldom have equal terms, and their terms are converted in different ways.
    """
    values, order = ids
    if len({*kinds}) == 1:
        places, terms = _positions_in_terms(values, texts)
        return IdRows(places, order), {kinds[0]: terms}
    found, names = np.empty((len(values), len(kinds)), np.int32), {}
    for kind in dict.fromkeys(kinds):
        columns = [place for place, one in enumerate(kinds) if one == kind]
        found[:, columns], names[kind] = _positions_in_terms(values[:, [order[place] for place in columns]], texts)
    return ids_of_columns(found), names


def _positions_in_terms(ids: np.ndarray, texts: Texts) -> tuple[np.ndarray, pa.Array]:
    lowest, highest = int(ids.min(initial=0)), int(ids.max(initial=0))
    if highest - lowest < ids.size:  # mostly ids of vertices, with few others
        places, used = _compact((ids - lowest).reshape(-1), highest - lowest + 1)
        return places.reshape(ids.shape), texts.terms(used + np.int32(lowest))
    places, used = _compact_sparse(ids.reshape(-1), new_table(ids.size))
    return places.reshape(ids.shape), texts.terms(used)


def _are_of_both_kinds(numbered: list[tuple[int, Delta]]) -> bool:
    """Return whether a query has several deltas, and an event has both added and removed rows."""
    if len({number for number, _ in numbered}) == len(numbered):
        return False
    orders = np.concatenate([delta.orders for _, delta in numbered])
    kinds = np.concatenate([delta.kinds for _, delta in numbered])
    return bool(np.isin(orders[kinds > 0], orders[kinds < 0]).any())


def _renumber(ids: np.ndarray, vertices: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (places, used): the ids that occur, all below `vertices`, and for each entry its place among them (int32)."""
    if ids.size * 8 > vertices:
        places, used = _compact(ids.reshape(-1), vertices)
        return places.reshape(ids.shape), used
    # A few rows among many vertices: avoid arrays as long as the dictionary.
    places, used = _compact_sparse(ids.reshape(-1), new_table(ids.size))
    return places.reshape(ids.shape), used


@njit(cache=True, nogil=True)
def place_rows(rows, ends, begins, placed):
    """Copy the rows of each event to where they begin."""
    row = 0
    for event in range(len(ends)):
        at = begins[event]
        while row < ends[event]:
            for i in range(rows.shape[1]):
                placed[at, i] = rows[row, i]
            row += 1
            at += 1


@njit(cache=True, nogil=True)
def _compact(ids, vertices):
    """Return (places, used): ids renumbered in the order of their first use."""
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


@njit(cache=True, nogil=True)
def _compact_sparse(ids, table):
    """Return what `_compact` returns, by an empty hash table: ids may be any."""
    used = np.empty(len(ids), np.int32)
    places = np.empty(len(ids), np.int32)
    entries = len(table)
    count = np.int64(0)
    for i in range(len(ids)):
        found = first_candidate(table, entries, mix(np.uint64(ids[i])))
        while found >= 0 and used[id_at(table, found)] != ids[i]:
            found = next_candidate(table, entries, found)
        if found < 0:
            put(table, found, count)
            used[count] = ids[i]
            places[i] = count
            count += 1
        else:
            places[i] = id_at(table, found)
    return places, used[:count].copy()
