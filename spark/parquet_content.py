"""Answer changes as the contents of Parquet files, written in Python, which pass through Spark without becoming rows there.

A row would spend half of its time between Python and the JVM, and nearly all of the rest in the JVM's writer.  Instead, a
task returns a whole file as a text value, without its last bytes.  Spark's text sink writes a value unchanged, even bytes
that are not text, followed by a line separator.  The separator can be any text, so it is set to the last bytes of a Parquet
file.  In this way files can be written wherever Spark writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from rpq.rows.table_formats import parquet_writer

if TYPE_CHECKING:
    import pyarrow.parquet as pq
    from pyspark.sql import DataFrame, DataFrameWriter

ROW_GROUP_ROWS = 1 << 20
ROW_GROUP_BYTES = 1 << 26
"""The rows and the bytes in memory at which a row group is written."""

FILE_BYTES = 1 << 24
"""The size at which a file ends.  The JVM, often of 1 GB, has several copies of a file in memory for each of its tasks."""

END_OF_FILE = "PAR1"
"""The last characters of a Parquet file."""


def contents_writer(contents: DataFrame) -> DataFrameWriter:
    """Return a writer that writes each value of a column of contents as a file with the ending `.txt`, by its `text`."""
    return contents.write.option("lineSep", END_OF_FILE).option("compression", "none").option("maxRecordsPerFile", 1)


class ParquetContent:
    """A Parquet file of answer changes in memory.

    `microseconds` is the unit of the timestamps in microseconds if they are converted to times, otherwise None.
    """

    def __init__(self, *, microseconds: int | None) -> None:
        self._microseconds = microseconds
        self._out = pa.BufferOutputStream()
        self._writer: pq.ParquetWriter | None = None
        self._pending: list[pa.Table] = []
        self._pending_rows = 0
        self._pending_bytes = 0
        self.rows = 0
        """The number of rows of the file."""

    @property
    def is_full(self) -> bool:
        """True if the file has reached its size, so that the next rows belong to another file."""
        return int(self._out.tell()) >= FILE_BYTES

    def write(self, changes: pa.Table) -> None:
        """Add at least one answer change: without changes, the type of vertices may be unknown."""
        rows = self._with_times(changes)
        if self._writer is None:
            self._writer = parquet_writer(self._out, rows.schema)
        self._pending.append(rows)
        self._pending_rows += len(rows)
        self._pending_bytes += rows.nbytes
        self.rows += len(rows)
        if self._pending_rows >= ROW_GROUP_ROWS or self._pending_bytes >= ROW_GROUP_BYTES:
            self._write_pending()

    def finish(self) -> pa.Buffer:
        """Return the content without `END_OF_FILE`.  The file has at least one row."""
        self._write_pending()
        assert self._writer is not None
        self._writer.close()
        content = self._out.getvalue()
        length = content.size - len(END_OF_FILE)
        assert content.slice(length).to_pybytes() == END_OF_FILE.encode()
        return content.slice(0, length)

    def _with_times(self, rows: pa.Table) -> pa.Table:
        if self._microseconds is None:
            return rows
        place = rows.schema.get_field_index("timestamp")
        scaled = pa.chunked_array(
            [pa.array(chunk.to_numpy() * self._microseconds) for chunk in rows["timestamp"].chunks], pa.int64()
        )
        return rows.set_column(place, "timestamp", scaled.cast(pa.timestamp("us", "UTC")))

    def _write_pending(self) -> None:
        if self._pending:
            assert self._writer is not None
            self._writer.write_table(pa.concat_tables(self._pending), row_group_size=self._pending_rows)
            self._pending, self._pending_rows, self._pending_bytes = [], 0, 0
