"""The output of a reader: batches of columns, in the order of the stream, whose boundaries never divide an event."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from rpq.language.predicate import Predicate, UntypedColumn
from rpq.stream.arrays.event_grouping import whole_events
from rpq.stream.arrays.fields import DELETE, EDGE, UNLESS_NEWER
from rpq.stream.arrays.plain_columns import TEXTS
from rpq.stream.arrays.properties import LOOSE_METADATA
from rpq.stream.nodes.node_rows import NODE, VALUE, records_of

LABEL_TYPE = TEXTS
"""The type of a label column made from text: few labels, many rows."""


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Consecutive tuples of a stream as columns; never empty.

    `columns` contains `source` and `target` (both string, or both int64 if the input has integers), `label`
    (dictionary of strings, or string), `timestamp` (int64) and, only if there can be deletes, `delete`
    (bool; absent means that all rows are inserts).  No column contains nulls, with one exception: a delete with the id of an
    edge (column `edge`) may have null or any other text in place of names.  If tuples belong to streams, a column
    `stream` (dictionary of strings) is null for tuples without a stream; if there are events, so is `event`.
    Where rules make records of nodes, some rows are such records (`rpq.stream.nodes.node_rows`).
    `bytes_read` is the number of bytes of the whole input that had been read when the batch was created (a running total,
    for a progress bar).

    >>> columns = {"source": ["x"], "target": ["y"], "label": ["a"], "timestamp": [1]}
    >>> batch = Batch(columns=pa.RecordBatch.from_pydict(columns), bytes_read=24)
    >>> len(batch), batch.columns["source"].to_pylist()
    (1, ['x'])
    """

    columns: pa.RecordBatch
    bytes_read: int

    def __len__(self) -> int:
        return int(self.columns.num_rows)


class Reader(Protocol):
    """A stream of tuples that is read once, from its beginning to its end, by iterating over it.

    >>> import os, tempfile
    >>> from rpq.readers import open_reader
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with open(os.path.join(folder, "edges.csv"), "w") as file:
    ...         _ = file.write("source,target,label,timestamp\\nx,y,a,1\\ny,z,a,soon\\n")
    ...     reader = open_reader("edges", file.name, on_error="skip")
    ...     tuples = [len(batch) for batch in reader]
    >>> tuples, reader.rejected, reader.filtered, reader.undecided, reader.time_unit
    ([1], 1, 0, 0, None)
    >>> reader.bytes_read == reader.bytes_total, len(reader.rejections), reader.warnings
    (True, 1, [])
    """

    @property
    def time_unit(self) -> str | None:
        """The unit of the timestamps: "s", "ms", "us", "ns", or None for plain numbers."""

    @property
    def rejected(self) -> int:
        """The number of malformed lines (or rows) omitted so far; 0 unless errors are skipped."""

    @property
    def rejections(self) -> list[str]:
        """The messages for the first rejected lines, with line numbers."""

    @property
    def warnings(self) -> list[str]:
        """Warnings about columns that may have another meaning; complete after a batch of each input."""

    @property
    def filtered(self) -> int:
        """The number of tuples omitted so far because a condition on the input's columns does not hold."""

    @property
    def undecided(self) -> int:
        """The number of filtered tuples for which the condition is null: a value is missing, or is not a number."""

    @property
    def bytes_total(self) -> int | None:
        """The size of the whole input in bytes, or None if it is unknown (a pipe)."""

    @property
    def bytes_read(self) -> int:
        """The number of bytes of the input that have been read so far."""

    def __iter__(self) -> Iterator[Batch]:
        """Read the stream; raises `InputError` at a bad line, after yielding everything before it."""


def left_after_condition(batch: pa.RecordBatch, selected: np.ndarray) -> pa.RecordBatch:
    """Return the tuples that a condition selects.

    Where edges have ids, a tuple with an id always stays, because the window may contain an earlier version of the edge. An
    insert that the condition excludes becomes a delete of the edge, unless the edge in the window is newer.

    >>> batch = pa.record_batch({"source": ["x", "y"], "edge": ["e", "f"]})
    >>> left_after_condition(batch, np.array([True, False])).to_pylist()[1]
    {'source': 'y', 'edge': 'f', 'delete': True, 'delete unless newer': True}
    """
    names = batch.schema.names
    if EDGE not in names:
        return batch.filter(pa.array(selected))
    delete = np.asarray(batch.column(DELETE)) if DELETE in names else np.zeros(batch.num_rows, np.bool_)
    has_id = np.asarray(batch.column(EDGE).is_valid())
    is_left_out = ~selected & ~delete & has_id
    deletes = pa.array(delete | is_left_out)
    if DELETE in names:
        batch = batch.set_column(names.index(DELETE), DELETE, deletes)
    else:
        batch = batch.append_column(DELETE, deletes)
    return batch.append_column(UNLESS_NEWER, pa.array(is_left_out)).filter(pa.array(selected | has_id))


def align_to_events(batches: Iterator[Batch]) -> Iterator[Batch]:
    """Yield the same tuples in batches that do not divide an event; the last event of a batch waits for the next batch.

    An error of the reader ends the stream before the event that contains it. O(tuples).

    >>> def batch(events):
    ...     return Batch(columns=pa.RecordBatch.from_pydict({"event": events}), bytes_read=len(events))
    >>> [one.columns["event"].to_pylist() for one in align_to_events(iter([batch(["g"]), batch(["g", "h"])]))]
    [['g', 'g'], ['h']]
    """
    bytes_read = 0

    def tables() -> Iterator[pa.RecordBatch]:
        nonlocal bytes_read
        for batch in batches:
            bytes_read = batch.bytes_read
            yield batch.columns

    for table in whole_events(tables()):
        one = table.combine_chunks().to_batches() if isinstance(table, pa.Table) else [table]
        for columns in one:
            yield Batch(columns=columns, bytes_read=bytes_read)


def selection_mask(
    predicate: Predicate, columns: Mapping[str, pa.Array], batch: pa.RecordBatch
) -> tuple[np.ndarray, int]:
    """Return which rows of a batch a condition selects, all records of nodes among them, and for how many it is null.

    `columns` are those that the condition reads.
    """
    records = records_of(batch)
    if records is None:
        return predicate.mask(columns, batch.num_rows)
    selected, places = records.copy(), np.flatnonzero(~records)
    of_tuples = {name: column.take(pa.array(places)) for name, column in columns.items()}
    selected[places], undecided = predicate.mask(of_tuples, len(places))
    return selected, undecided


def node_columns(columns: dict[str, pa.Array], *, loose: bool) -> list[tuple[pa.Field, pa.Array]]:
    """Return the columns of records among those of a batch, with their fields; `loose` values are texts as in a file."""
    found = []
    for name, column in columns.items():
        if name.startswith(VALUE) and loose:
            texts = UntypedColumn(column).texts()
            found.append((pa.field(name, texts.type, metadata=LOOSE_METADATA), texts))
        elif name.startswith(NODE):
            found.append((pa.field(name, column.type), column))
    return found
