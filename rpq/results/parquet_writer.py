"""How answer changes are written as Parquet."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


def parquet_writer(file: Any, schema: pa.Schema) -> pq.ParquetWriter:
    """A writer of tables of answer changes to a file (a path, or what Arrow writes to).

    Of text there are no statistics: they take a third of the time, and vertices are in no order that they could tell.

    >>> changes = pa.table({"source": ["x"], "timestamp": [3]})
    >>> out = pa.BufferOutputStream()
    >>> with parquet_writer(out, changes.schema) as writer:
    ...     writer.write_table(changes)
    >>> columns = pq.ParquetFile(pa.BufferReader(out.getvalue())).metadata.row_group(0)
    >>> [columns.column(place).is_stats_set for place in range(2)]
    [False, True]
    """
    others = [field.name for field in schema if not pa.types.is_string(field.type)]
    return pq.ParquetWriter(file, schema, compression="zstd", compression_level=1, write_statistics=others)
