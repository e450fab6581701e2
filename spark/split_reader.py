"""Reading splits in tasks: every line becomes tuples or a bad line, and every split tells how many lines it had.

The three kinds of rows go to one staged data set, apart from one another in folders.  Where a line stands in its file,
and, in formats by position, in the stream, follows afterwards from the counts of the splits before.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet as pq

from rpq.readers import TextFormat
from rpq.readers.column_names import DELETE, TUPLE_COLUMNS
from rpq.readers.source import Block, count_lines
from rpq.readers.text.parsing import LineError, Rows
from rpq.readers.text.textfile import detect_block
from rpq.spark.splits import Split, blocks
from rpq.spark.text_formats import Head, Lines, head_of
from rpq.stream.plain_columns import with_plain_columns
from rpq.stream.values import booleans_of_text

EDGE, BAD, COUNTS = "edge", "bad", "counts"
LONGEST_TEXT = 10_000
"""Of a bad line so many characters are kept."""

Part = tuple[str, dict[str, pa.Array]]
"""Rows of a kind, as columns."""

_STRING, _LONG = pa.string(), pa.int64()


def staged_schema(vertex: str) -> str:
    """The columns of staged rows, in Spark's words; `vertex` is "string" or "bigint".

    `split` (`rpq.spark.splits.split_number`) and `row` put edges and bad lines in the order of the input.  An edge has
    `ordinal`, the place of its line among the data lines of its split; a bad line has `line`, counted from 1 in its split
    (in Parquet: the row in the file, from 0); counts have `lines` and `data_lines`.
    """
    return (
        f"kind string, split bigint, row bigint, source {vertex}, target {vertex}, label string, timestamp bigint, "
        "op string, ordinal bigint, line bigint, field string, message string, text string, lines bigint, "
        "data_lines bigint"
    )


def _arrow_schema(vertex: str) -> pa.Schema:
    types = {"string": _STRING, "bigint": _LONG}
    return pa.schema([(name, types[kind]) for name, kind in (one.split() for one in staged_schema(vertex).split(", "))])


class SplitReader:
    """What a task runs: takes rows (split, description), gives staged rows.  For `mapInArrow`."""

    def __init__(self, lines: Lines, vertex: str) -> None:
        self._lines = lines
        self._vertex = vertex

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number, text in zip(batch["split"].to_pylist(), batch["description"].to_pylist(), strict=True):
                split = Split(**json.loads(text))
                read = _read_parquet(split) if split.kind == "parquet" else _read_text(split, self._lines)
                yield from staged(read, split=number, vertex=self._vertex)


def staged(parts: Iterable[Part], *, split: int, vertex: str, first: int = 0) -> Iterator[pa.RecordBatch]:
    """Parts of a split as staged rows, numbered from `first` on."""
    schema = _arrow_schema(vertex)
    for kind, columns in _numbered(parts, first):
        size = len(next(iter(columns.values())))
        full = {
            **columns,
            "kind": pa.array([kind] * size, _STRING),
            "split": pa.array(np.full(size, split, np.int64)),
        }
        arrays = [
            full[field.name].cast(field.type) if field.name in full else pa.nulls(size, field.type) for field in schema
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def describe(split: Split) -> str:
    """A split as text, for the rows that a `SplitReader` takes."""
    return json.dumps(asdict(split))


def _numbered(parts: Iterable[Part], row: int) -> Iterator[Part]:
    """Number edges and bad lines within their split."""
    for kind, columns in parts:
        size = len(next(iter(columns.values())))
        yield kind, {**columns, "row": pa.array(np.arange(row, row + size))}
        row += size


def _read_text(split: Split, lines: Lines) -> Iterator[Part]:
    head, format = head_of(split.path, lines), lines.layout
    cut = ((whole, min(max(0, head.size - place), len(whole.data))) for place, whole in blocks(split))
    return parsed(cut, head, format, label=format.label(split.path) if format.label else None)


def parsed(beginnings: Iterable[tuple[Block, int]], head: Head, format: TextFormat, *, label: str | None) -> Iterator[Part]:
    """The lines of a split, in blocks of each of which so many bytes belong to the head of the file."""
    lines = data_lines = 0
    for whole, cut in beginnings:
        lines = whole.line - 1 + count_lines(whole.data) + (not whole.data.endswith(b"\n"))
        skipped = Block(whole.data[:cut], whole.line)
        block = Block(whole.data[cut:], whole.line + count_lines(skipped.data))
        errors: list[LineError] = []
        detect_block(skipped, format.detect, errors.append)  # lines before the one that tells the layout tell nothing
        data_lines += len(errors)
        if errors:
            yield BAD, _bad_lines(errors, whole)
        if not block.data or head.detected is None:
            continue
        for rows in head.detected.parser.parse(block, stop=False):
            if len(rows):
                yield EDGE, _edges(rows, label, data_lines)
            if rows.errors:
                yield BAD, _bad_lines(rows.errors, whole)
            data_lines += rows.data_lines
    yield COUNTS, {"lines": pa.array([lines]), "data_lines": pa.array([data_lines])}


def _edges(rows: Rows, label: str | None, first: int) -> dict[str, pa.Array]:
    size = len(rows)
    columns = {name: rows.columns[name] for name in ("source", "target")}
    columns["label"] = rows.columns["label"] if label is None else pa.array([label] * size, _STRING)
    if "timestamp" in rows.columns:
        columns["timestamp"] = rows.columns["timestamp"]
    else:
        ordinals = np.arange(size) if rows.ordinals is None else rows.ordinals
        columns["ordinal"] = pa.array(ordinals + first, _LONG)
    columns["op"] = _ops(rows.columns.get("delete"), size)
    return columns


def _ops(delete: pa.Array | None, size: int) -> pa.Array:
    if delete is None:
        return pa.array(["+"] * size, _STRING)
    return pc.if_else(delete, "-", "+")


def _bad_lines(errors: list[LineError], block: Block) -> dict[str, pa.Array]:
    texts = block.data.split(b"\n")
    return {
        "line": pa.array([bad.line for bad in errors], _LONG),
        "field": pa.array([bad.error.column for bad in errors], _STRING),
        "message": pa.array([bad.error.message for bad in errors], _STRING),
        "text": pa.array(
            [texts[bad.line - block.line].decode(errors="replace")[:LONGEST_TEXT] for bad in errors], _STRING
        ),
    }


def _read_parquet(split: Split) -> Iterator[Part]:
    """Row groups."""
    with pq.ParquetFile(split.path) as file:
        names = [name for name in (*TUPLE_COLUMNS, DELETE) if name in file.schema_arrow.names]
        first = sum(file.metadata.row_group(group).num_rows for group in range(split.start))
        row = first
        for batch in file.iter_batches(row_groups=list(range(split.start, split.end)), columns=names):
            yield from checked_rows(batch, row)
            row += batch.num_rows
    yield COUNTS, {"lines": pa.array([0]), "data_lines": pa.array([row - first])}


def checked_rows(batch: pa.RecordBatch, row: int) -> Iterator[Part]:
    """Rows with the columns of tuples, the first of which is number `row` of its file.

    One with a null, an empty name, an unknown op, or text in delete that is neither true nor false, is bad.
    """
    batch = with_plain_columns(batch)
    columns = {name: _plain(batch.column(name), name) for name in batch.schema.names}
    reasons = np.full(batch.num_rows, "", object)
    for name, column in columns.items():
        wrong = column.is_null()
        if pa.types.is_string(column.type):
            unfit = pc.invert(pc.is_in(column, pa.array(["+", "-"]))) if name == "op" else pc.equal(column, "")
            wrong = pc.or_(wrong, pc.fill_null(unfit, True))
        reasons[wrong.to_numpy(zero_copy_only=False) & (reasons == "")] = name
    bad = reasons != ""
    if not bad.all():
        good = pa.array(~bad)
        edges = {name: column.filter(good) for name, column in columns.items()}
        yield EDGE, {"op": _ops(edges.pop(DELETE, None), int((~bad).sum())), **edges}
    if bad.any():
        places = np.flatnonzero(bad)
        rows = batch.take(pa.array(places)).to_pylist()
        yield (
            BAD,
            {
                "line": pa.array(places + row),
                "field": pa.array(reasons[places].tolist(), _STRING),
                "message": pa.array(["is null, empty or no operation; expected a value"] * len(places), _STRING),
                "text": pa.array([json.dumps(one, default=str)[:LONGEST_TEXT] for one in rows], _STRING),
            },
        )


def _plain(column: pa.Array, name: str) -> pa.Array:
    """A plain column as text or int64; times become numbers in their unit, dates seconds, as `rpq.readers.parquet` says."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if name == "timestamp" and pa.types.is_date(column.type):
        column = column.cast(pa.timestamp("s" if pa.types.is_date32(column.type) else "ms"))
    if name == DELETE:
        return booleans_of_text(column) if column.type == _STRING else column
    return column.cast(_STRING if column.type == _STRING else _LONG)
