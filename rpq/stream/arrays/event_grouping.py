"""Events of several tuples: consecutive tuples with equal values in the column `event` are one event.

An event has one time, the largest timestamp of its tuples, which all of them get: an event is a small graph that arrives at
once. A tuple without a value is an event of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from rpq.errors import InputError
from rpq.stream.arrays import arrow_compute as pc
from rpq.stream.arrays.plain_columns import TEXT, TEXTS, plain, plain_type
from rpq.stream.arrays.values import EXPECTATIONS


def first_of_events(column: Any) -> np.ndarray:
    """Return for each tuple the row of the first one of its event (int64), from the column `event`.

    >>> first_of_events(["g", "g", None, None, "h", "g"]).tolist()
    [0, 0, 2, 3, 4, 5]
    """
    begins = np.ones(len(column), bool)
    if isinstance(column, list):
        begins[1:] = [after is None or after != before for before, after in pairwise(column)]
    elif pa.types.is_string(column.type) or pa.types.is_integer(column.type):
        begins[1:] = pc.fill_null(pc.not_equal(column[1:], column[:-1]), True).to_numpy(zero_copy_only=False)
    elif len(column):
        try:
            encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        except pa.ArrowException as problem:
            raise InputError(f"column 'event' of type {column.type} cannot be read: {problem}", column="event") from None
        codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        begins[1:] = (codes[1:] != codes[:-1]) | (codes[1:] < 0)
    rows = np.flatnonzero(begins)
    return np.repeat(rows, np.diff(rows, append=len(begins)))


def begins_of_events(first: np.ndarray) -> np.ndarray:
    """Return the rows of the first tuples of events, from `first_of_events`. O(tuples).

    An event can have millions of tuples: no array with an integer for each is made.

    >>> begins_of_events(np.array([0, 0, 2, 3, 3])).tolist()
    [0, 2, 3]
    """
    begins = np.ones(len(first), bool)
    np.not_equal(first[1:], first[:-1], out=begins[1:])
    return np.flatnonzero(begins)


def event_times(first: np.ndarray, timestamp: np.ndarray) -> np.ndarray:
    """Return the time of its event for each tuple: the largest of its timestamps.

    >>> event_times(np.array([0, 0, 2]), np.array([4, 7, 5])).tolist()
    [7, 7, 5]
    """
    if not len(first):
        return timestamp
    begins = begins_of_events(first)
    lengths = np.diff(begins, append=len(first))
    return np.repeat(np.maximum.reduceat(timestamp, begins), lengths)


def end_of_event(first: np.ndarray, row: int) -> int:
    """Return the row behind the last tuple of an event, of which `row` is a tuple. O(log tuples)."""
    return int(np.searchsorted(first, first[row], "right"))


def whole_events(batches: Iterable[Any]) -> Iterator[Any]:
    """Yield Arrow tables and record batches cut such that no event is divided between two.

    Other data, and tables without a column event, are yielded unchanged. O(tuples), and O(tuples · batches) of an event.

    >>> batches = [pa.table({"event": [1, 2]}), pa.table({"event": [2, 3]})]
    >>> [table["event"].to_pylist() for table in whole_events(batches)]
    [[1], [2, 2], [3]]
    """
    last_event: pa.Table | None = None
    for batch in batches:
        if not isinstance(batch, (pa.Table, pa.RecordBatch)) or "event" not in batch.schema.names:
            if last_event is not None:
                yield last_event
                last_event = None
            yield batch
            continue
        table = _plain(pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch)
        table = table if last_event is None else _concatenate(last_event, table)
        if not len(table):
            continue
        events = table["event"].combine_chunks()
        events = events.combine_chunks() if isinstance(events, pa.ChunkedArray) else events
        begin = int(first_of_events(events)[-1]) if events[-1].is_valid else len(table)
        if begin:
            yield table[:begin]
        last_event = table[begin:] if begin < len(table) else None
    if last_event is not None:
        yield last_event


def _plain(table: pa.Table) -> pa.Table:
    """Return a table whose columns of tuples are plain, because Arrow cannot concatenate tables of some other layouts."""
    for place, field in enumerate(table.schema):
        if field.name in EXPECTATIONS and plain_type(field.type) != field.type:
            table = table.set_column(place, field.name, plain(table.column(place)))
    return table


def _concatenate(first: pa.Table, second: pa.Table) -> pa.Table:
    """Concatenate two tables, of which only one may have a column of deletes, and whose layouts may differ."""
    for name, insert in (("delete", False), ("op", "+")):
        if (name in first.schema.names) != (name in second.schema.names):
            lacking = second if name in first.schema.names else first
            filled = lacking.append_column(name, pa.array([insert] * len(lacking)))
            first, second = (first, filled) if lacking is second else (filled, second)
    for name in {*first.schema.names} & {*second.schema.names} & {*EXPECTATIONS}:
        kinds = {first.schema.field(name).type, second.schema.field(name).type}
        if kinds == {TEXT, TEXTS}:
            place, other = first.schema.get_field_index(name), second.schema.get_field_index(name)
            first = first.set_column(place, name, first.column(place).cast(TEXT))
            second = second.set_column(other, name, second.column(other).cast(TEXT))
    return pa.concat_tables([first, second], promote_options="permissive")
