"""The formats `edges` and `jsonl`: source, target, label, timestamp and optionally op or delete, as text, JSON or Parquet.

Text: separated by tabs, commas or blanks, compressed or not, with or without a header.  The first line that is neither
blank nor a comment decides for its file:

* An object of JSON makes it JSON lines (`rpq.readers.text.jsonlines`), which the format `jsonl` takes for granted.
* It is a **header** if, cut at tabs, else at commas, else at blanks, its fields include each of `source`, `target`,
  `label` and `timestamp` once (in any order, upper or lower case), or the names that were given for them.  `op` or
  `delete`, and `stream`, are read if they are present, `event` if the reader has events, further columns only if a
  condition names them.
* Otherwise the **separator** is the first of tab, comma, blanks that cuts it into four or five fields, and the fields
  are source, target, label, timestamp and op in this order; each line may leave out op, which then is `+`.  Where one
  label was given for all edges, the lines have none, and one field less.  This first line must be complete: it is
  the only one whose fields in quotes cannot continue on the next line.

Vertices and labels are text (`007` is not `7`), timestamps plain int64 numbers, or times (`rpq.readers.fields`): the
first one decides.  Parquet is recognised by its first and last four bytes, whatever the name; a folder stands for the
Parquet files in it, one after the other, as described in `rpq.readers.parquet`.

Each input keeps the order of its lines; several are merged by the timestamps of their heads (`rpq.readers.inputs`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from rpq.errors import InputError
from rpq.readers.column_names import ColumnNames
from rpq.readers.input_format import Format, TextFormat
from rpq.readers.inputs import BATCH_ROWS, Input, InputsReader, SingleStreamInput, check_arguments, merge_by_heads
from rpq.readers.parquet import ParquetInput, is_typed
from rpq.readers.source import BYTE_ORDER_MARK, STANDARD_INPUT, Block
from rpq.readers.text.detection import Detection, detect
from rpq.readers.text.textfile import TextFile
from rpq.readers.where import Where

__all__ = ["EDGES", "JSON_LINES", "detect", "open_edges", "open_json_lines"]


def open_edges(
    paths: Sequence[str],
    *,
    on_error: str = "stop",
    batch_rows: int = BATCH_ROWS,
    columns: ColumnNames | None = None,
    where: Where | None = None,
    time_unit: str | None = None,
    streams: Sequence[str | None] | None = None,
    only_json: bool = False,
) -> InputsReader[Input]:
    """Open inputs in the format `edges`: text files, JSON lines, Parquet files or folders, `-` for standard input.

    `columns` are the names that the inputs have for those of a tuple, `where` selects tuples, and `time_unit` is the unit
    of times in text (microseconds by default; a pipe needs it).  `streams` are the names of the streams to which the tuples
    of inputs belong, one or None for each input.

    Raises `InputError` for an input that is missing, or where one has integer vertices and another text, or
    timestamps of different units, and `WhereError` for a condition that does not fit the columns of a file.
    """
    check_arguments(paths, on_error=on_error, batch_rows=batch_rows)
    detection = Detection(columns=columns or ColumnNames(), where=where, only_json=only_json, time_unit=time_unit)
    opened = [_open(path, detection, on_error=on_error, batch_rows=batch_rows) for path in paths]
    kinds = {one.vertex_type: one.name for one in opened if one.vertex_type is not None}
    if len(kinds) > 1:
        (kind, name), (other_kind, other_name) = kinds.items()
        raise InputError(
            f"{other_name}: vertices are {other_kind}, but {kind} in {name}; inputs that are read together must agree",
            file=other_name,
            column="source",
        )
    zones = {one.times: one.name for one in opened if one.times in ("naive", "aware")}
    if len(zones) > 1:
        raise InputError(
            f"{zones['naive']}: its times have no zone, but those of {zones['aware']} have one; inputs that are read "
            "together must agree",
            file=zones["naive"],
            column="timestamp",
        )
    named = zip(opened, streams or [None] * len(opened), strict=True)
    inputs = [one.input if stream is None else SingleStreamInput(one.input, stream) for one, stream in named]
    return InputsReader(inputs, combine=merge_by_heads, batch_rows=batch_rows)


def open_json_lines(
    paths: Sequence[str],
    *,
    on_error: str = "stop",
    batch_rows: int = BATCH_ROWS,
    columns: ColumnNames | None = None,
    where: Where | None = None,
    time_unit: str | None = None,
    streams: Sequence[str | None] | None = None,
) -> InputsReader[Input]:
    """Open inputs in the format `jsonl`: one object a line; the rest is as with `open_edges`."""
    return open_edges(
        paths,
        on_error=on_error,
        batch_rows=batch_rows,
        columns=columns,
        where=where,
        time_unit=time_unit,
        streams=streams,
        only_json=True,
    )


EDGES = Format(name="edges", open=open_edges, text=TextFormat(detect=detect))
JSON_LINES = Format(name="jsonl", open=open_json_lines)


@dataclass(frozen=True, kw_only=True)
class _OpenInput:
    """An input, and the kinds of its vertices and times, None where it cannot be read in advance."""

    name: str
    input: Input
    vertex_type: str | None
    times: str | None = None


def _open(path: str, detection: Detection, *, on_error: str, batch_rows: int) -> _OpenInput:
    if path != STANDARD_INPUT and not detection.only_json and (os.path.isdir(path) or is_typed(path)):
        parquet = ParquetInput(
            path, on_error=on_error, batch_rows=batch_rows, columns=detection.columns, where=detection.where
        )
        return _OpenInput(name=path, input=parquet, vertex_type=parquet.vertex_type)
    if path != STANDARD_INPUT and os.path.isfile(path):
        detection = detection.with_sample_of(path, stop=on_error == "stop")
    known = detection.known
    text = TextFile(
        path,
        detect=detection,
        on_error=on_error,
        batch_rows=batch_rows,
        time_unit=None if detection.times == "integers" else detection.unit,
        label=detection.columns.constant_label,
    )
    if known is None:
        return _OpenInput(name=text.name, input=text, vertex_type=None if detection.only_json else "text")
    return _OpenInput(
        name=text.name, input=text, vertex_type="integers" if known.json.integers else "text", times=known.times
    )


class InMemorySource:
    """Bytes in memory as a source of blocks; `name` is what messages call it."""

    def __init__(self, data: bytes, *, name: str) -> None:
        self.name = name
        self.position = len(data)
        self.size: int | None = len(data)
        self._data = data.removeprefix(BYTE_ORDER_MARK)

    def blocks(self, size: int) -> Iterator[Block]:
        """Yield the whole text as one block, whatever the size."""
        if self._data:
            yield Block(self._data, 1)


def read_tuples(
    data: bytes, *, name: str, only_json: bool, time_unit: str | None = None, columns: ColumnNames | None = None
) -> tuple[list[pa.RecordBatch], list[str]]:
    """Read all tuples of a text: JSON lines, or lines of fields with or without a header.  Return batches and warnings.

    Times in text need a `time_unit`, as those of a pipe do.  Raises `InputError` at a bad line.

    >>> batches, _ = read_tuples(b"x,y,a,1\\n", name="the body", only_json=False)
    >>> [batch.to_pylist() for batch in batches]
    [[{'source': 'x', 'target': 'y', 'label': 'a', 'timestamp': 1}]]
    """
    detection = Detection(columns=columns or ColumnNames(fixed=True), only_json=only_json, time_unit=time_unit)
    text = TextFile(InMemorySource(data, name=name), detect=detection)
    return list(text), text.warnings
