"""Edges as Arrow streams in a binary column: how tuples travel to the partitions.

Between Spark and a stateful processor rows go through pandas, text as Python objects, once a partition.  Packed, a
micro-batch is a handful of rows, replicated as bytes and read without a copy.  The columns of an envelope are source
and target (string or int64), label (string), timestamp (int64), delete (bool) and, where the stream has one, sequence
(int64).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rpq.errors import InputError

ROWS = 1 << 16
"""At most so many tuples in an envelope: some megabytes."""

SCHEMA = "edges binary"
_SEQUENCE = "sequence"


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
    """
    table = pa.concat_tables([pa.ipc.open_stream(envelope).read_all() for envelope in envelopes])
    keys = [~table["delete"].to_numpy(zero_copy_only=False)]
    if _SEQUENCE in table.column_names:
        keys.append(table[_SEQUENCE].to_numpy())
    order = np.lexsort([*keys, table["timestamp"].to_numpy()])
    return table.select(["source", "target", "label", "timestamp", "delete"]).take(pa.array(order))


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
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(table)
    return pa.record_batch({"edges": pa.array([out.getvalue().to_pybytes()], pa.binary())})
