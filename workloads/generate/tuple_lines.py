"""Tuples as lines of JSON, N-Triples or N-Quads: columns of text joined to one."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

GENERATED_AT = "http://www.w3.org/ns/prov#generatedAtTime"
"""The property that tells when the event was of which a graph is."""

_DATE_TIME = "http://www.w3.org/2001/XMLSchema#dateTime"


class NoRdfError(ValueError):
    """A stream that N-Triples and N-Quads cannot hold."""


def json_lines(batch: pa.RecordBatch) -> bytes:
    """An object a tuple, with the columns as its fields; names have no control characters.

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
    return _joined([*parts, pa.scalar("}\n")])


def triple_lines(batch: pa.RecordBatch) -> bytes:
    """N-Triples. Raises `NoRdfError` for a stream with deletes or names of streams.

    >>> triple_lines(pa.RecordBatch.from_pydict({"source": ["urn:a"], "target": ['"1"'], "label": ["urn:p"]}))
    b'<urn:a> <urn:p> "1" .\\n'
    """
    return _joined([*_triple(batch), pa.scalar(" .\n")])


def quad_lines(batch: pa.RecordBatch) -> bytes:
    """N-Quads: each event a graph, before it when it was. Raises `NoRdfError` as `triple_lines`, and without events."""
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
    return _joined([before, *parts, pa.scalar(" <"), event, pa.scalar("> .\n")])


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


def _joined(parts: list[pa.Array | pa.Scalar]) -> bytes:
    lines = pc.binary_join_element_wise(*parts, "")
    return b"".join(value.encode() for value in lines.to_pylist())
