"""Records of nodes among the tuples of a batch, in the order of the stream.

A row is a record where the column `RECORD` is true.  Its vertex is both source and target, its label is null, and its time
is `NO_TIME` if it has none, so that a merge by time passes it on at once.  Further columns begin with `NODE`: `LABELS` has
its labels as lists, `OP` its operation, and `VALUE + name` the value of a property, which the record names where `NAMED +
name` is true.  Other rows have nulls there.
So whatever merges, cuts or counts the rows of a stream treats records as tuples; only what pushes them, and what selects
tuples by a condition, distinguishes the two.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa

from rpq.stream.arrays.fields import DELETE
from rpq.stream.arrays.numpy_arrays import numpy_array
from rpq.stream.arrays.plain_columns import TEXTS
from rpq.stream.nodes.node_table import NO_TIME

NODE = "\0node "
RECORD, LABELS, OP, VALUE, NAMED = (NODE + name for name in ("record", "labels", "op", "value ", "named "))

LABELS_TYPE = pa.list_(pa.string())


def records_of(batch: pa.RecordBatch) -> np.ndarray | None:
    """Return which rows are records of nodes; None if the batch has tuples only.

    >>> records_of(pa.record_batch({"source": ["x"], "target": ["y"]}))
    """
    return numpy_array(batch.column(RECORD).fill_null(False)) if RECORD in batch.schema.names else None


def uniform_parts(batch: pa.RecordBatch) -> list[pa.RecordBatch]:
    """Return the batch cut where records follow tuples, or the reverse, and between records with and without a time.

    >>> batch = pa.record_batch({"source": ["x", "y", "z"], "timestamp": [1, 2, 3], RECORD: [False, True, True]})
    >>> [part.column("source").to_pylist() for part in uniform_parts(batch)]
    [['x'], ['y', 'z']]
    """
    records = records_of(batch)
    if records is None:
        return [batch]
    kinds = records * (1 + (numpy_array(batch.column("timestamp").view(pa.int64())) == NO_TIME))
    cuts = [0, *(np.flatnonzero(kinds[1:] != kinds[:-1]) + 1).tolist(), batch.num_rows]
    return [batch.slice(start, end - start) for start, end in pairwise(cuts)]


def are_records(part: pa.RecordBatch) -> bool:
    """Return whether the rows of a uniform part are records."""
    return RECORD in part.schema.names and bool(part.num_rows) and part.column(RECORD)[0].as_py() is True


def are_timeless(part: pa.RecordBatch) -> bool:
    """Return whether the rows of a uniform part are records without a time."""
    return are_records(part) and part.column("timestamp").view(pa.int64())[0].as_py() == NO_TIME


def tuples_of(part: pa.RecordBatch) -> pa.RecordBatch:
    """Return tuples without the columns of records."""
    return part.drop_columns([name for name in part.schema.names if name.startswith(NODE)])


def node_table(part: pa.RecordBatch) -> pa.RecordBatch:
    """Return records as `Engine.push_nodes` takes them.

    >>> rows = record_rows(pa.array(["x"]), pa.array([NO_TIME]), values={"risk": pa.array([3])})
    >>> node_table(pa.record_batch(rows)).to_pylist()
    [{'node': 'x', 'risk': 3}]
    """
    names = part.schema.names
    columns: dict[str, pa.Array] = {"node": part.column("source")}
    fields = [pa.field("node", columns["node"].type)]

    def add(name: str, column: pa.Array, metadata: dict[bytes, bytes] | None = None) -> None:
        columns[name] = column
        fields.append(pa.field(name, column.type, metadata=metadata))

    if part.column(LABELS).null_count < part.num_rows:
        add("labels", part.column(LABELS))
    if part.column(OP).null_count < part.num_rows:
        add("op", part.column(OP).fill_null("+"))
    times = part.column("timestamp")
    if not are_timeless(part):
        add("timestamp", times)
    for name in (name.removeprefix(VALUE) for name in names if name.startswith(VALUE)):
        named = part.column(NAMED + name).fill_null(False)
        if named.true_count:
            add(name, part.column(VALUE + name), part.schema.field(VALUE + name).metadata)
            if named.false_count:
                add("\0" + name, named)
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=pa.schema(fields))


def record_rows(
    vertices: pa.Array,
    times: pa.Array,
    *,
    labels: pa.Array | None = None,
    ops: pa.Array | None = None,
    values: dict[str, pa.Array],
    named: dict[str, pa.Array] | None = None,
) -> dict[str, pa.Array]:
    """Return the columns of rows for records; properties without an array in `named` are named by all of them."""
    count = len(vertices)
    every = pa.array(np.ones(count, np.bool_))
    rows = {
        "source": vertices,
        "target": vertices,
        "label": pa.nulls(count, TEXTS),
        "timestamp": times,
        DELETE: pa.array(np.zeros(count, np.bool_)),
        RECORD: every,
        LABELS: pa.nulls(count, LABELS_TYPE) if labels is None else labels,
        OP: pa.nulls(count, pa.string()) if ops is None else ops,
    }
    for name, column in values.items():
        rows |= {VALUE + name: column, NAMED + name: (named or {}).get(name, every)}
    return rows


def described_record(batch: pa.RecordBatch, row: int) -> str | None:
    """Return a description of a record for a message, which names the node itself; None for a tuple."""
    records = records_of(batch)
    if records is None or not records[row]:
        return None
    time = batch.column("timestamp")[row].as_py()
    return "at a record" if time == NO_TIME else f"at the record of time {time}"
