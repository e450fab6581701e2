"""What tasks of a replay run: a share's engine over all tuples, its answer changes as rows for Spark or as files.

A share is told by the key of its partition; its tuples come as envelopes, in the order of the stream.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

import rpq
from rpq.engine import Engine
from rpq.results.changes import Changes
from rpq.spark.envelopes import unpack, without_sequence
from rpq.spark.own_edges import OwnEdges
from rpq.spark.parquet_content import ParquetContent
from rpq.spark.shipped import Shipped
from rpq.spark.worker_limits import share_limit

PUSHED_ROWS = 1 << 14
"""Tuples pushed at once: their answer changes are in memory together."""

CHANGE_ROWS = 1 << 16
"""Answer changes handed to Spark at once."""


class Share(Shipped):
    """A share of the answers of queries: what its tasks need to know.

    `numbers` are those of the shares by the keys of partitions; `memory_limit` (bytes) is for one.
    """

    def __init__(
        self, queries: Sequence[rpq.Query], *, numbers: Mapping[int, int], threads: int, memory_limit: int | None
    ) -> None:
        self.queries = tuple(queries)
        self._numbers = dict(numbers)
        self._threads = threads
        self._memory_limit = memory_limit

    def changes(
        self, batches: Iterable[pa.RecordBatch], *, at_end: Callable[[Engine], None] | None = None
    ) -> Iterator[Changes]:
        """The answer changes of rows (partition, …, edges), of one or more partitions one after the other.

        `at_end` is called with the engine of each when it has had all its tuples.
        """
        key, engine, own = None, None, None
        for batch in batches:
            for partition, envelope in zip(batch["partition"].to_pylist(), batch["edges"], strict=True):
                if engine is None or partition != key:
                    if engine is not None and at_end is not None:
                        at_end(engine)
                    key, engine = partition, self._engine(self._numbers[partition])
                    own = OwnEdges(self.queries, share=(self._numbers[partition], len(self._numbers)))
                assert own is not None
                tuples = unpack([envelope.as_buffer()], keeps_order=True)
                table = without_sequence(tuples.table)
                for start in range(0, len(table), PUSHED_ROWS):
                    edges, time = own.in_order(table.slice(start, PUSHED_ROWS), engine.time)
                    if len(edges):
                        yield engine.push(edges)
                    if time is not None and (engine.time is None or time > engine.time):
                        yield engine.advance(time)
                if tuples.tick is not None and (engine.time is None or tuples.tick > engine.time):
                    yield engine.advance(tuples.tick)
        if engine is not None and at_end is not None:
            at_end(engine)

    def _engine(self, number: int) -> Engine:
        return Engine(
            *self.queries,
            share=(number, len(self._numbers)),
            threads=self._threads,
            memory_limit=share_limit(self._memory_limit, threads=self._threads),
        )


class RowBatches:
    """Gives answer changes as batches of rows.  For `mapInArrow`."""

    def __init__(self, share: Share) -> None:
        self._share = share

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for changes in self._share.changes(batches):
            yield from changes.to_arrow().to_batches(max_chunksize=CHANGE_ROWS)


class RowFiles:
    """Gives answer changes as the contents of Parquet files (`rpq.spark.parquet_content`).  For `mapInArrow`.

    `counted`, an accumulator, gets how many rows each query has of each op; `microseconds` as there.
    """

    def __init__(self, share: Share, *, counted: Any, microseconds: int | None) -> None:
        self._share = share
        self._counted = counted
        self._microseconds = microseconds

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        file = ParquetContent(microseconds=self._microseconds)
        found: Counter[tuple[str, str]] = Counter()

        def count(engine: Engine) -> None:
            for query in engine.queries:
                figures = engine.statistics(query.name)
                found.update({(query.name, "+"): figures.rows_added, (query.name, "-"): figures.rows_removed})

        for changes in self._share.changes(batches, at_end=count):
            if len(changes):
                file.write(changes.to_arrow())
            if file.is_full:
                yield _as_text(file.ended())
                file = ParquetContent(microseconds=self._microseconds)
        if file.rows:
            yield _as_text(file.ended())
        self._counted.add(found)


def _as_text(content: pa.Buffer) -> pa.RecordBatch:
    """A row of text that it is not: what takes it writes bytes as they are."""
    ends = pa.py_buffer(pa.array([0, content.size], pa.int32()).buffers()[1])
    return pa.RecordBatch.from_arrays([pa.StringArray.from_buffers(1, ends, content)], ["value"])
