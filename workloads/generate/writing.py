"""Writers of streams: text with tabs or commas, JSON lines, N-Triples, N-Quads, each with or without gzip; Parquet.

N-Triples and N-Quads are for streams of RDF. In N-Triples a line is a triple, and its position is its time; in N-Quads each
event is a graph, preceded by a triple with the time of the event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from rpq.files.compression import CompressionFrame, GzipFrame
from rpq.files.destinations import is_regular, open_replacement

GENERATED_AT = "http://www.w3.org/ns/prov#generatedAtTime"
"""The property whose value is the time of the event of a graph."""

_DATE_TIME = "http://www.w3.org/2001/XMLSchema#dateTime"


class NoRdfError(ValueError):
    """A stream that N-Triples and N-Quads cannot represent."""


def json_lines(batch: pa.RecordBatch) -> bytes:
    """Write each tuple as a JSON object with the columns as fields; names must not contain control characters.

    >>> json_lines(pa.RecordBatch.from_pydict({"source": ["a"], "timestamp": [1]}))
    b'{"source": "a", "timestamp": 1}\\n'
    """
    parts: list[pa.Array | pa.Scalar] = []
    for place, (name, column) in enumerate(zip(batch.schema.names, batch.columns, strict=True)):
        parts.append(pa.scalar(f'{", " if place else "{"}"{name}": '))
        if pa.types.is_integer(column.type):
            parts.append(column.cast(pa.string()))
        else:
            escaped = pc.replace_substring(pc.replace_substring(column, "\\", "\\\\"), '"', '\\"')
            parts += [pa.scalar('"'), escaped, pa.scalar('"')]
    return _join_lines([*parts, pa.scalar("}\n")])


def triple_lines(batch: pa.RecordBatch) -> bytes:
    """Write N-Triples. Raises `NoRdfError` for a stream with deletes or names of streams.

    >>> triple_lines(pa.RecordBatch.from_pydict({"source": ["urn:a"], "target": ['"1"'], "label": ["urn:p"]}))
    b'<urn:a> <urn:p> "1" .\\n'
    """
    return _join_lines([*_triple(batch), pa.scalar(" .\n")])


def quad_lines(batch: pa.RecordBatch) -> bytes:
    """Write N-Quads: each event is a graph after a triple with its time.

    Raises `NoRdfError` for a stream with deletes or names of streams, and for a stream without events.
    """
    parts = _triple(batch)
    if "event" not in batch.schema.names:
        raise NoRdfError("the stream has no events, which are the graphs of N-Quads; write N-Triples (.nt) instead")
    event = batch.column("event")
    numbers = event.dictionary_encode().indices.to_numpy()
    is_first = np.r_[True, numbers[1:] != numbers[:-1]]
    is_second_scale = pc.max(batch.column("timestamp")).as_py() < 10**11
    unit = "s" if is_second_scale else "ms"
    moment = pc.strftime(batch.column("timestamp").cast(pa.timestamp(unit)), format="%Y-%m-%dT%H:%M:%S")
    time_lines = pc.binary_join_element_wise("<", event, f'> <{GENERATED_AT}> "', moment, f'Z"^^<{_DATE_TIME}> .\n', "")
    before = pc.if_else(pa.array(is_first), time_lines, pa.scalar(""))
    return _join_lines([before, *parts, pa.scalar(" <"), event, pa.scalar("> .\n")])


def _triple(batch: pa.RecordBatch) -> list[pa.Array | pa.Scalar]:
    names = batch.schema.names
    if "op" in names or "delete" in names:
        raise NoRdfError("the stream has deletes, which N-Triples and N-Quads cannot represent; use .csv or .jsonl")
    if "stream" in names:
        raise NoRdfError(
            "the tuples have stream names, which N-Triples and N-Quads cannot represent: select one stream with --stream"
        )
    source, label, target = (batch.column(name) for name in ("source", "label", "target"))
    is_literal = pc.starts_with(target, '"')
    left, right = (pc.if_else(is_literal, pa.scalar(""), pa.scalar(mark)) for mark in "<>")
    return [pa.scalar("<"), source, pa.scalar("> <"), label, pa.scalar("> "), left, target, right]


def _join_lines(parts: list[pa.Array | pa.Scalar]) -> bytes:
    lines = pc.binary_join_element_wise(*parts, "")
    return b"".join(value.encode() for value in lines.to_pylist())


_OPS = pa.array(["+", "-"])
_PLAIN = ("source", "target", "label", "timestamp", "op")


class OutputError(ValueError):
    """A file name from which the format to write cannot be derived."""


def write_stream(batches: Iterable[pa.RecordBatch], path: str) -> int:
    """Write the stream, with `op` as the fifth column if it has deletes; return the number of tuples.

    Raises `OutputError` for a name without a known ending, and `rpq.files.destinations.WriteError` for a file that cannot be
    written.
    """
    open_writer = _writer_of(path)
    count = 0
    with open_replacement(path) as file, open_writer(file) as write:
        for batch in batches:
            write(_with_op(batch))
            count += batch.num_rows
    return count


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
        f"{path}: expected a name that ends in .tsv, .csv, .jsonl, .nt, .nq (each optionally with .gz) or .parquet, or -"
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
def _text(file: IO[bytes], separator: str, *, frame: CompressionFrame | None) -> Iterator[Callable[[pa.RecordBatch], None]]:
    is_first = True

    def put(data: bytes | pa.Buffer) -> None:
        file.write(frame.compress(data) if frame else data)

    def write(batch: pa.RecordBatch) -> None:
        nonlocal is_first
        if is_first:
            put((separator.join(batch.schema.names) + "\n").encode())
            is_first = False
        lines = pa.BufferOutputStream()
        # Literals of RDF contain quotes; all other names need no quoting.
        is_plain = "timestamp" in batch.schema.names and {*batch.schema.names} <= {*_PLAIN}
        style = "none" if is_plain else "needed"
        pa.csv.write_csv(batch, lines, pa.csv.WriteOptions(include_header=False, delimiter=separator, quoting_style=style))
        put(lines.getvalue())

    yield write
    if frame:
        file.write(frame.end())


@contextmanager
def _lines(
    file: IO[bytes], lines: Callable[[pa.RecordBatch], bytes], *, frame: CompressionFrame | None
) -> Iterator[Callable[[pa.RecordBatch], None]]:
    def write(batch: pa.RecordBatch) -> None:
        text = lines(batch)
        file.write(frame.compress(text) if frame else text)

    yield write
    if frame:
        file.write(frame.end())
