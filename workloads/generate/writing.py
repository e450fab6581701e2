"""Streams to files: text with tabs or commas, JSON lines, N-Triples, N-Quads, each with gzip or without; Parquet.

N-Triples and N-Quads are for streams of RDF. In N-Triples a line is a triple, whose position is its time; in N-Quads each
event is a graph, whose time is given by a triple of its own in front of it.
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

from rpq.files.compression import Frame, GzipFrame
from rpq.files.destinations import is_regular, replacing

GENERATED_AT = "http://www.w3.org/ns/prov#generatedAtTime"
"""The property with the time of the event of a graph."""

_DATE_TIME = "http://www.w3.org/2001/XMLSchema#dateTime"


class NoRdfError(ValueError):
    """A stream that N-Triples and N-Quads cannot hold."""


def json_lines(batch: pa.RecordBatch) -> bytes:
    """Write each tuple as a JSON object with the columns as its fields; names have no control characters.

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
    """Write N-Quads: each event is a graph, its time a triple before it. Raises `NoRdfError` as `triple_lines` does, and
    for a stream without events.
    """
    parts = _triple(batch)
    if "event" not in batch.schema.names:
        raise NoRdfError("the stream has no events, which N-Quads have as graphs; N-Triples are the same without")
    event = batch.column("event")
    numbers = event.dictionary_encode().indices.to_numpy()
    is_first = np.r_[True, numbers[1:] != numbers[:-1]]
    is_second_scale = pc.max(batch.column("timestamp")).as_py() < 10**11
    unit = "s" if is_second_scale else "ms"
    moment = pc.strftime(batch.column("timestamp").cast(pa.timestamp(unit)), format="%Y-%m-%dT%H:%M:%S")
    told = pc.binary_join_element_wise("<", event, f'> <{GENERATED_AT}> "', moment, f'Z"^^<{_DATE_TIME}> .\n', "")
    before = pc.if_else(pa.array(is_first), told, pa.scalar(""))
    return _join_lines([before, *parts, pa.scalar(" <"), event, pa.scalar("> .\n")])


def _triple(batch: pa.RecordBatch) -> list[pa.Array | pa.Scalar]:
    names = batch.schema.names
    if "op" in names or "delete" in names:
        raise NoRdfError("the stream has deletes, which N-Triples and N-Quads cannot tell; .csv, .jsonl and .parquet can")
    if "stream" in names:
        raise NoRdfError(
            "the stream is several with names, which N-Triples and N-Quads cannot tell: take one of them with --stream"
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
    """Write the stream, with `op` as the fifth column where it has deletes; return the number of tuples.

    Raises `OutputError` for a name without a known ending, `rpq.files.destinations.WriteError` for a file that cannot be
    written.
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
