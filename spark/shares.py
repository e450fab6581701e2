"""What tasks of a replay run: a share's engine over all tuples, its answer changes as rows for Spark or as files.

A share is told by the key of its partition; its tuples come as envelopes, in the order of the stream.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyarrow import parquet as pq

import rpq
from rpq.engine import Engine
from rpq.results.changes import Changes
from rpq.spark.envelopes import unpack, without_sequence
from rpq.spark.own_edges import OwnEdges
from rpq.spark.shipped import Shipped
from rpq.spark.worker_limits import share_limit

PUSHED_ROWS = 1 << 14
"""Tuples pushed at once: their answer changes are in memory together."""

CHANGE_ROWS = 1 << 16
"""Answer changes handed to Spark at once."""

ROW_GROUP_ROWS = 1 << 20
"""Answer changes that are written together."""

FILE_BYTES = 1 << 27
"""A file that has grown so large is ended."""

END_OF_FILE = "PAR1"
"""With these characters a Parquet file ends."""


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
    """Gives answer changes as the contents of Parquet files without their last four characters.  For `mapInArrow`.

    Half of the time that a row takes on its way to a file it would spend between Python and the JVM, and nearly all of
    the rest in the JVM's writer.  `counted`, an accumulator, gets how many rows each query has of each op; `microseconds`
    are those of a unit of the timestamps where they are to be times.
    """

    def __init__(self, share: Share, *, counted: Any, microseconds: int | None) -> None:
        self._share = share
        self._counted = counted
        self._microseconds = microseconds

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        file: _ParquetFile | None = None
        found: Counter[tuple[str, str]] = Counter()

        def count(engine: Engine) -> None:
            for query in engine.queries:
                figures = engine.statistics(query.name)
                found.update({(query.name, "+"): figures.rows_added, (query.name, "-"): figures.rows_removed})

        for changes in self._share.changes(batches, at_end=count):
            if not len(changes):  # nor is the type of vertices known before the first tuple
                continue
            rows = self._timed(changes.to_arrow())
            if file is None:
                file = _ParquetFile(rows.schema)
            file.write(rows)
            if file.size >= FILE_BYTES:
                yield file.ended()
                file = None
        if file is not None:
            yield file.ended()
        self._counted.add(found)

    def _timed(self, rows: pa.Table) -> pa.Table:
        if self._microseconds is None:
            return rows
        place = rows.schema.get_field_index("timestamp")
        scaled = pa.chunked_array(
            [pa.array(chunk.to_numpy() * self._microseconds) for chunk in rows["timestamp"].chunks], pa.int64()
        )
        return rows.set_column(place, "timestamp", scaled.cast(pa.timestamp("us", "UTC")))


class _ParquetFile:
    """A Parquet file in memory."""

    def __init__(self, schema: pa.Schema) -> None:
        self._out = pa.BufferOutputStream()
        self._writer = pq.ParquetWriter(self._out, schema, compression="zstd", compression_level=1)
        self._held: list[pa.Table] = []
        self._rows = 0

    @property
    def size(self) -> int:
        return int(self._out.tell())

    def write(self, rows: pa.Table) -> None:
        self._held.append(rows)
        self._rows += len(rows)
        if self._rows >= ROW_GROUP_ROWS:
            self._write_held()

    def ended(self) -> pa.RecordBatch:
        """The content but for the end, as a row."""
        self._write_held()
        self._writer.close()
        content = self._out.getvalue()
        length = content.size - len(END_OF_FILE)
        assert content.slice(length).to_pybytes() == END_OF_FILE.encode()
        # Text that it is not: what takes it writes bytes as they are.
        ends = pa.py_buffer(pa.array([0, length], pa.int32()).buffers()[1])
        return pa.RecordBatch.from_arrays([pa.StringArray.from_buffers(1, ends, content.slice(0, length))], ["value"])

    def _write_held(self) -> None:
        if self._held:
            self._writer.write_table(pa.concat_tables(self._held), row_group_size=self._rows)
            self._held, self._rows = [], 0
