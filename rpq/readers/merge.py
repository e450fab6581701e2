"""Several streams to one by the timestamps of their heads.

The rule is that of a merge of files held in hand: of the lines on top, the one with the smallest timestamp goes next,
of equal ones that of the first stream.  Streams need not be sorted: a line that is late within its own stream comes
right after the line before it, because once the larger one was taken, the smaller goes before all other heads.

So the position of a line is decided by the largest timestamp *up to* it in its stream.  That running maximum never
falls, and ordering all lines by (running maximum, stream, line) is the merge by heads: a line is on top only after
all before it were taken, and it is taken when no other head is smaller, which is when all lines with a smaller
running maximum are gone.  Hence no loop over lines: of every stream one batch is held, all rows below the smallest
last running maximum are safe to go, and they are put in order by one stable sort.  Each round uses up a batch, so the
cost is O(rows · log streams) and the memory one batch a stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from rpq.errors import InputError
from rpq.readers.batch import LABEL_TYPE
from rpq.readers.column_names import EVENT, STREAM


class _Head:
    """A stream and its rows that were not taken yet, with their running maxima."""

    def __init__(self, stream: Iterable[pa.RecordBatch]) -> None:
        self._stream = iter(stream)
        self._highest = np.iinfo(np.int64).min
        self.batch: pa.RecordBatch | None = None
        self.keys = np.empty(0, np.int64)

    def refill(self) -> None:
        """Take the next batch that holds something; None at the end of the stream."""
        self.batch = next((batch for batch in self._stream if batch.num_rows), None)
        if self.batch is not None:
            times = self.batch.column("timestamp").to_numpy()
            self.keys = np.maximum(np.maximum.accumulate(times), self._highest)
            self._highest = self.keys[-1]

    def take(self, count: int) -> pa.RecordBatch:
        assert self.batch is not None
        taken, self.batch, self.keys = self.batch.slice(0, count), self.batch.slice(count), self.keys[count:]
        return taken


def merge_by_heads(streams: Sequence[Iterable[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of all streams, merged by the timestamps of their heads, ties in the order of the streams.

    A stream that raises does so when its next head is needed: all rows that come before were yielded.
    """
    if len(streams) == 1:  # whose rows stay as they are, types included
        yield from streams[0]
        return
    heads = [_Head(stream) for stream in streams]
    for head in heads:
        head.refill()
    while heads := [head for head in heads if head.batch is not None]:
        # The stream whose next head is unknown first: behind its last row nothing is certain.
        first = min(range(len(heads)), key=lambda place: heads[place].keys[-1])
        bound = heads[first].keys[-1]
        keys, parts = [], []
        for place, head in enumerate(heads):
            count = int(np.searchsorted(head.keys, bound, side="right" if place <= first else "left"))
            if count:
                keys.append(head.keys[:count])
                parts.append(head.take(count))
        yield parts[0] if len(parts) == 1 else in_order(parts, np.concatenate(keys))
        heads[first].refill()


def in_order(parts: Sequence[pa.RecordBatch], keys: np.ndarray) -> pa.RecordBatch:
    """Put the rows of all parts, one after the other, in the order of their keys; equal keys keep their order."""
    order = pa.array(np.argsort(keys, kind="stable"))
    names = ["source", "target", "label", "timestamp"]
    names += [name for name in ("delete", STREAM, EVENT) if any(name in part.schema.names for part in parts)]
    return pa.RecordBatch.from_arrays([_concatenated(parts, name).take(order) for name in names], names)


def _concatenated(parts: Sequence[pa.RecordBatch], name: str) -> pa.Array:
    arrays = [_column(part, name) for part in parts]
    if name in ("label", STREAM, EVENT) and len({array.type for array in arrays}) > 1:
        arrays = [array if array.type == LABEL_TYPE else array.dictionary_encode() for array in arrays]
    kinds = sorted({str(array.type) for array in arrays})
    if len(kinds) > 1:
        raise InputError(
            f"column '{name}' is {kinds[0]} in one input and {kinds[1]} in another; they must agree", column=name
        )
    return pa.concat_arrays(arrays)


def _column(part: pa.RecordBatch, name: str) -> pa.Array:
    if name == "delete" and name not in part.schema.names:
        return pa.array(np.zeros(part.num_rows, np.bool_))
    if name in (STREAM, EVENT) and name not in part.schema.names:
        return pa.nulls(part.num_rows, LABEL_TYPE)
    return part.column(name)
