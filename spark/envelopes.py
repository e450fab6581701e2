"""Edges as packed tables (`rpq.spark.packed`) in a binary column: how tuples travel to the partitions.

Between Spark and a stateful processor rows go through pandas, text as Python objects, once a partition.  Packed, a
micro-batch is a handful of rows, replicated as bytes.  The columns of an envelope are source
and target (string or int64), label (string), timestamp (int64), delete (bool) and, where the stream has one, sequence
(int64).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rpq.errors import InputError
from rpq.spark.packed import packed, unpacked

ROWS = 1 << 16
"""At most so many tuples in an envelope: some megabytes."""

SCHEMA = "edges binary"
_SEQUENCE = "sequence"
_COLUMNS = ("source", "target", "label", "timestamp", "delete")


def pack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Turn batches with the columns of an edge (op as text) into envelopes; raises `InputError` at what is none.

    A function for `mapInArrow`.
    """
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        if batch.num_rows:
            held.append(batch)
            rows += batch.num_rows
        if rows >= ROWS:
            yield _envelope(held)
            held, rows = [], 0
    if held:
        yield _envelope(held)


def unpack(envelopes: Iterable[bytes]) -> pa.Table:
    """The tuples of a micro-batch in the order in which they are applied.

    By timestamp; ties by sequence where there is one, else, and among equal sequences, deletes before inserts.
    Raises `StateFormatError` for an envelope that is not as it was packed.
    """
    table = pa.concat_tables([unpacked(envelope, columns=_COLUMNS, name="an envelope of edges") for envelope in envelopes])
    keys = [~table["delete"].to_numpy(zero_copy_only=False)]
    if _SEQUENCE in table.column_names:
        keys.append(table[_SEQUENCE].to_numpy())
    order = np.lexsort([*keys, table["timestamp"].to_numpy()])
    return table.select(list(_COLUMNS)).take(pa.array(order))


def _envelope(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    table = pa.Table.from_batches(batches).combine_chunks()
    for name in table.column_names:
        if table[name].null_count:
            raise InputError(f"column {name!r}: a tuple has no {name}; expected a value in every row", column=name)
    wrong = table.filter(pc.invert(pc.is_in(table["op"], pa.array(["+", "-"]))))
    if len(wrong):
        raise InputError(f"column 'op': {wrong['op'][0].as_py()!r} is no operation; '+' inserts, '-' deletes", column="op")
    delete = pc.equal(table["op"], "-")
    table = table.drop_columns(["op"]).append_column("delete", delete)
    return pa.record_batch({"edges": pa.array([packed(table)], pa.binary())})
