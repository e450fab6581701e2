"""Answer changes as the contents of Parquet files, made in Python: how they go through Spark without being rows there.

Half of the time that a row takes on its way to a file it would spend between Python and the JVM, and nearly all of the
rest in the JVM's writer.  A file goes as text without its end: Spark's sink for text writes a value as it is, bytes that
are no text too, and behind it the end of a line, which can be any text, that of a Parquet file too.  So files go wherever
Spark writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from rpq.files.table_formats import parquet_writer

if TYPE_CHECKING:
    import pyarrow.parquet as pq
    from pyspark.sql import DataFrame, DataFrameWriter

ROW_GROUP_ROWS = 1 << 20
ROW_GROUP_BYTES = 1 << 26
"""Answer changes that are written together, in memory."""

FILE_BYTES = 1 << 24
"""A file that has grown so large is ended: the JVM, often of 1 GB, holds several copies of it for each of its tasks."""

END_OF_FILE = "PAR1"
"""With these characters a Parquet file ends."""


def contents_writer(contents: DataFrame) -> DataFrameWriter:
    """What writes a column of contents as files, one each, with the ending `.txt`; call `text` on it."""
    return contents.write.option("lineSep", END_OF_FILE).option("compression", "none").option("maxRecordsPerFile", 1)


class ParquetContent:
    """A Parquet file of answer changes in memory.

    `microseconds` are those of a unit of the timestamps, where these are to be times.
    """

    def __init__(self, *, microseconds: int | None) -> None:
        self._microseconds = microseconds
        self._out = pa.BufferOutputStream()
        self._writer: pq.ParquetWriter | None = None
        self._held: list[pa.Table] = []
        self._held_rows = 0
        self._held_bytes = 0
        self.rows = 0
        """Those of the file."""

    @property
    def is_full(self) -> bool:
        """Whether it is time for another file."""
        return int(self._out.tell()) >= FILE_BYTES

    def write(self, changes: pa.Table) -> None:
        """Take answer changes in; some, for the type of vertices may not be known where there are none."""
        rows = self._timed(changes)
        if self._writer is None:
            self._writer = parquet_writer(self._out, rows.schema)
        self._held.append(rows)
        self._held_rows += len(rows)
        self._held_bytes += rows.nbytes
        self.rows += len(rows)
        if self._held_rows >= ROW_GROUP_ROWS or self._held_bytes >= ROW_GROUP_BYTES:
            self._write_held()

    def ended(self) -> pa.Buffer:
        """The content but for `END_OF_FILE`; there were some rows."""
        self._write_held()
        assert self._writer is not None
        self._writer.close()
        content = self._out.getvalue()
        length = content.size - len(END_OF_FILE)
        assert content.slice(length).to_pybytes() == END_OF_FILE.encode()
        return content.slice(0, length)

    def _timed(self, rows: pa.Table) -> pa.Table:
        if self._microseconds is None:
            return rows
        place = rows.schema.get_field_index("timestamp")
        scaled = pa.chunked_array(
            [pa.array(chunk.to_numpy() * self._microseconds) for chunk in rows["timestamp"].chunks], pa.int64()
        )
        return rows.set_column(place, "timestamp", scaled.cast(pa.timestamp("us", "UTC")))

    def _write_held(self) -> None:
        if self._held:
            assert self._writer is not None
            self._writer.write_table(pa.concat_tables(self._held), row_group_size=self._held_rows)
            self._held, self._held_rows, self._held_bytes = [], 0, 0
