"""Streams to files of the format `edges`: text with tabs or commas, gzip, or Parquet; batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

_OPS = pa.array(["+", "-"])


class OutputError(ValueError):
    """A name that does not say what to write."""


def write_stream(batches: Iterable[pa.RecordBatch], path: str) -> int:
    """Write the stream, `op` as the fifth column where it has deletes; the tuples written. Raises `OutputError`."""
    opened = _writer_of(path)
    written = 0
    with opened(path) as write:
        for batch in batches:
            write(_with_op(batch))
            written += batch.num_rows
    return written


def _with_op(batch: pa.RecordBatch) -> pa.RecordBatch:
    if "delete" not in batch.schema.names:
        return batch
    op = _OPS.take(batch.column("delete").cast(pa.int8()))
    return pa.RecordBatch.from_arrays([*batch.columns[:4], op], names=["source", "target", "label", "timestamp", "op"])


def _writer_of(path: str):  # type: ignore[no-untyped-def]  # a context manager's factory
    if path.endswith(".parquet"):
        return _parquet
    for ending, separator in ((".tsv", "\t"), (".csv", ",")):
        if path.removesuffix(".gz").endswith(ending):
            return lambda name: _text(name, separator)
    raise OutputError(f"{path}: expected a name that ends in .tsv, .csv, .tsv.gz, .csv.gz or .parquet")


@contextmanager
def _parquet(path: str) -> Iterator[Callable[[pa.RecordBatch], None]]:
    writer = None

    def write(batch: pa.RecordBatch) -> None:
        nonlocal writer
        writer = writer or pa.parquet.ParquetWriter(path, batch.schema, compression="zstd")
        writer.write_batch(batch)

    try:
        yield write
    finally:
        if writer is not None:
            writer.close()


@contextmanager
def _text(path: str, separator: str) -> Iterator[Callable[[pa.RecordBatch], None]]:
    options = pa.csv.WriteOptions(include_header=False, delimiter=separator, quoting_style="none")
    is_first = True
    with pa.output_stream(path, compression="gzip" if path.endswith(".gz") else None) as file:

        def write(batch: pa.RecordBatch) -> None:
            nonlocal is_first
            if is_first:
                file.write((separator.join(batch.schema.names) + "\n").encode())
                is_first = False
            pa.csv.write_csv(batch, file, options)

        yield write
