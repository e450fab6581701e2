"""Batches of a reader cut elsewhere, so that no event is divided between two of them."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from rpq.readers.batch import Batch
from rpq.stream.event_grouping import whole_events


def in_whole_events(batches: Iterator[Batch]) -> Iterator[Batch]:
    """The same tuples, an event in one batch; the last event of a batch waits for what comes behind it.

    An error of the reader ends the stream in front of the event that it stands in. O(tuples).

    >>> def batch(events):
    ...     return Batch(columns=pa.RecordBatch.from_pydict({"event": events}), bytes_read=len(events))
    >>> [one.columns["event"].to_pylist() for one in in_whole_events(iter([batch(["g"]), batch(["g", "h"])]))]
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
