"""Streams to files: text with tabs or commas, JSON lines, N-Triples, N-Quads, all with gzip or not; Parquet.

N-Triples and N-Quads are for streams of RDF: of the one a triple is a line, whose place is its time; of the other each event
is a graph, whose time a triple of its own tells before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import IO

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from rpq.files.compression import Frame, GzipFrame
from rpq.files.destinations import is_regular, replacing
from rpq.workloads.generate.tuple_lines import json_lines, quad_lines, triple_lines

_OPS = pa.array(["+", "-"])
_PLAIN = ("source", "target", "label", "timestamp", "op")


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
    place = batch.schema.get_field_index("delete")
    return batch.set_column(place, "op", op)


def _writer_of(path: str):  # type: ignore[no-untyped-def]  # a context manager's factory
    if path.endswith(".parquet"):
        return _parquet
    for ending, separator in ((".tsv", "\t"), (".csv", ",")):
        if path.removesuffix(".gz").endswith(ending):
            return lambda file: _text(file, separator, frame=GzipFrame() if path.endswith(".gz") else None)
    for ending, lines in ((".jsonl", json_lines), (".nt", triple_lines), (".nq", quad_lines)):
        if path.removesuffix(".gz").endswith(ending):
            return lambda file, lines=lines: _lines(file, lines, frame=GzipFrame() if path.endswith(".gz") else None)
    if not is_regular(path):  # standard output, a FIFO
        return lambda file: _text(file, "\t", frame=None)
    raise OutputError(
        f"{path}: expected a name that ends in .tsv, .csv, .jsonl, .nt, .nq (these also with .gz behind) or .parquet, or -"
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
    is_first = True

    def put(data: bytes | pa.Buffer) -> None:
        file.write(frame.compress(data) if frame else data)

    def write(batch: pa.RecordBatch) -> None:
        nonlocal is_first
        if is_first:
            put((separator.join(batch.schema.names) + "\n").encode())
            is_first = False
        lines = pa.BufferOutputStream()
        # Literals of RDF have quotes in them, other names have nothing that would need them.
        is_plain = "timestamp" in batch.schema.names and {*batch.schema.names} <= {*_PLAIN}
        style = "none" if is_plain else "needed"
        pa.csv.write_csv(batch, lines, pa.csv.WriteOptions(include_header=False, delimiter=separator, quoting_style=style))
        put(lines.getvalue())

    yield write
    if frame:
        file.write(frame.end())


@contextmanager
def _lines(
    file: IO[bytes], lines: Callable[[pa.RecordBatch], bytes], *, frame: Frame | None
) -> Iterator[Callable[[pa.RecordBatch], None]]:
    def write(batch: pa.RecordBatch) -> None:
        text = lines(batch)
        file.write(frame.compress(text) if frame else text)

    yield write
    if frame:
        file.write(frame.end())
