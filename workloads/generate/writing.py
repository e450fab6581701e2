"""Streams to files of the format `edges`: text with tabs or commas, gzip, or Parquet; batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import IO

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from rpq.files.compression import Frame, GzipFrame
from rpq.files.destinations import is_regular, replacing

_OPS = pa.array(["+", "-"])


class OutputError(ValueError):
    """A name that does not say what to write."""


def write_stream(batches: Iterable[pa.RecordBatch], path: str) -> int:
    """Write the stream, `op` as the fifth column where it has deletes; the tuples written.

    Raises `OutputError` for a name that does not say what to write, `rpq.files.destinations.WriteError` for a file that
    cannot be.
    """
    opened = _writer_of(path)
    written = 0
    with replacing(path) as file, opened(file) as write:
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
            return lambda file: _text(file, separator, frame=GzipFrame() if path.endswith(".gz") else None)
    if not is_regular(path):  # standard output, a FIFO
        return lambda file: _text(file, "\t", frame=None)
    raise OutputError(
        f"{path}: expected a name that ends in .tsv, .csv or .parquet (.tsv and .csv also with .gz behind), or -"
    )


@contextmanager
def _parquet(file: IO[bytes]) -> Iterator[Callable[[pa.RecordBatch], None]]:
    writer = None

    def write(batch: pa.RecordBatch) -> None:
        nonlocal writer
        writer = writer or pa.parquet.ParquetWriter(file, batch.schema, compression="zstd")
        writer.write_batch(batch)

    try:
        yield write
    finally:
        if writer is not None:
            writer.close()


@contextmanager
def _text(file: IO[bytes], separator: str, *, frame: Frame | None) -> Iterator[Callable[[pa.RecordBatch], None]]:
    options = pa.csv.WriteOptions(include_header=False, delimiter=separator, quoting_style="none")
    is_first = True

    def put(data: bytes | pa.Buffer) -> None:
        file.write(frame.compress(data) if frame else data)

    def write(batch: pa.RecordBatch) -> None:
        nonlocal is_first
        if is_first:
            put((separator.join(batch.schema.names) + "\n").encode())
            is_first = False
        lines = pa.BufferOutputStream()
        pa.csv.write_csv(batch, lines, options)
        put(lines.getvalue())

    yield write
    if frame:
        file.write(frame.end())
