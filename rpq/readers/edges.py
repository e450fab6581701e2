"""The formats `edges` and `jsonl`: source, target, label, timestamp and optionally op or delete, as text, JSON or Parquet.

Text: separated by tabs, commas or blanks, compressed or not, with or without a header.  The first line of a file that is
neither blank nor a comment determines its layout:

* A JSON object means JSON lines (`rpq.readers.text.jsonlines`), which the format `jsonl` assumes without detection.
* The line is a **header** if, split at tabs, else at commas, else at blanks, its fields include each of `source`, `target`,
  `label` and `timestamp` once (in any order and case), or the names that `columns` assigns to them.  `op` or `delete`, and
  `stream`, are read if they are present, `event` if the reader has events, other columns only if a condition uses them.
* Otherwise the **separator** is the first of tab, comma, blanks that splits the line into four or five fields, and the
  fields are source, target, label, timestamp and op in this order; any line may omit op, which defaults to `+`.  If one
  label applies to all edges, the lines have no label, and one field less.  The first line must be complete: its quoted
  fields, unlike those of other lines, cannot continue on the next line.

Vertices and labels are text (`007` is not `7`).  Timestamps are plain int64 numbers, or times (`rpq.stream.arrays.fields`);
the first timestamp decides.  Parquet is recognised by its first and last four bytes, whatever the file name; a folder stands
for the Parquet files in it, one after the other, as described in `rpq.readers.parquet`.

Each input keeps the order of its lines; several inputs are merged by the timestamps of their heads (`rpq.readers.inputs`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from rpq.errors import InputError
from rpq.language.where import Where
from rpq.readers.column_names import ColumnNames
from rpq.readers.input_format import Format, TextFormat
from rpq.readers.inputs import BATCH_ROWS, Input, InputsReader, SingleStreamInput, check_arguments, merge_by_heads
from rpq.readers.open_source import OpenSource
from rpq.readers.parquet import ParquetInput, SourceInput, finest_unit, is_typed
from rpq.readers.source import BYTE_ORDER_MARK, STANDARD_INPUT, LineBlock
from rpq.readers.text.changes import unsupported_form
from rpq.readers.text.detection import Detection, detect
from rpq.readers.text.edge_rules import EdgeRules
from rpq.readers.text.textfile import TextFile

__all__ = ["EDGES", "JSON_LINES", "detect", "open_edges"]


def open_edges(
    paths: Sequence[str | OpenSource],
    *,
    on_error: str = "stop",
    batch_rows: int = BATCH_ROWS,
    columns: ColumnNames | None = None,
    where: Where | None = None,
    time_unit: str | None = None,
    streams: Sequence[str | None] | None = None,
    only_json: bool = False,
    rules: EdgeRules | None = None,
) -> InputsReader[Input]:
    """Open inputs in the format `edges`: text, JSON lines, Parquet files or folders, `-` for standard input, sources.

    `columns` maps the columns of a tuple to the columns of the inputs, `where` selects tuples, and `time_unit` is the unit
    of times in text (microseconds by default; required for a pipe).  `streams` are the names of the streams of the inputs,
    one name or None for each input.  With `rules` (`rpq.readers.text.edge_rules`) each row, object or line is a record,
    from which the rules make edges; then `columns` only names properties.  With `only_json` each line is an object (the
    format `jsonl`).

    Raises `InputError` for a missing input, for inputs of which one has integer vertices and another text, and for
    timestamps of different units, and `WhereError` for a condition that does not fit the columns of a file.
    """
    check_arguments(paths, on_error=on_error, batch_rows=batch_rows)
    detection = Detection(
        columns=columns or ColumnNames(), where=where, only_json=only_json, time_unit=time_unit, rules=rules
    )
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
    typed = [one.input for one in opened if isinstance(one.input, ParquetInput) and one.input.has_typed_times]
    for parquet in typed:
        parquet.time_unit = finest_unit(one.time_unit for one in typed)
    named = zip(opened, streams or [None] * len(opened), strict=True)
    inputs = [one.input if stream is None else SingleStreamInput(one.input, stream) for one, stream in named]
    return InputsReader(inputs, combine=merge_by_heads, batch_rows=batch_rows)


EDGES = Format(name="edges", open=open_edges, text=TextFormat(detect=detect))
JSON_LINES = Format(name="jsonl", open=partial(open_edges, only_json=True))


@dataclass(frozen=True, kw_only=True)
class _OpenInput:
    """An input, and the kinds of its vertices and times, or None if it cannot be read in advance."""

    name: str
    input: Input
    vertex_type: str | None
    times: str | None = None


def _open(path: str | OpenSource, detection: Detection, *, on_error: str, batch_rows: int) -> _OpenInput:
    typed: dict[str, Any] = {
        "on_error": on_error,
        "batch_rows": batch_rows,
        "columns": detection.columns,
        "where": detection.where,
        "rules": detection.rules,
        "time_unit": detection.unit,
    }
    changes = None if detection.rules is None else detection.rules.changes
    if isinstance(path, OpenSource) and path.delivers == "edges":
        if detection.only_json:
            raise InputError(f"{path.name}: delivers edges, not text; leave out --format jsonl", file=path.name)
        if changes is not None:
            raise unsupported_form(f"edges in Arrow ({path.name})")
        return _OpenInput(name=path.name, input=SourceInput(path, **typed), vertex_type=None)
    is_file = isinstance(path, str) and path != STANDARD_INPUT
    if isinstance(path, str) and is_file and not detection.only_json and (os.path.isdir(path) or is_typed(path)):
        if changes is not None:
            raise unsupported_form(f"Parquet ({path})")
        parquet = ParquetInput(path, **typed)
        return _OpenInput(name=path, input=parquet, vertex_type=parquet.vertex_type)
    if isinstance(path, str) and is_file and os.path.isfile(path):
        detection = detection.with_sample_of(path, stop=on_error == "stop")
    sample = detection.sample
    text = TextFile(
        path,
        detect=detection,
        on_error=on_error,
        batch_rows=batch_rows,
        time_unit=None if detection.times == "integers" and changes is None else detection.unit,
        label=detection.columns.constant_label,
    )
    if sample is None or detection.rules is not None:
        is_known = not detection.only_json or detection.rules is not None
        return _OpenInput(name=text.name, input=text, vertex_type="text" if is_known else None, times=detection.times)
    return _OpenInput(
        name=text.name, input=text, vertex_type="integers" if sample.json.integers else "text", times=sample.times
    )


class InMemorySource:
    """Bytes in memory as a source of blocks; messages use `name`."""

    def __init__(self, data: bytes, *, name: str) -> None:
        self.name = name
        self.position = len(data)
        self.size: int | None = len(data)
        self._data = data.removeprefix(BYTE_ORDER_MARK)

    def blocks(self, size: int) -> Iterator[LineBlock]:
        """Yield the whole text as one block, regardless of `size`."""
        if self._data:
            yield LineBlock(self._data, 1)

    def chunks(self, size: int) -> Iterator[bytes]:
        """Yield the whole text, regardless of `size`."""
        if self._data:
            yield self._data

    def reopen(self) -> InMemorySource:
        """Return a source with the same text, which begins anew."""
        return self


def read_tuples(
    data: bytes,
    *,
    name: str,
    only_json: bool,
    time_unit: str | None = None,
    columns: ColumnNames | None = None,
    rules: EdgeRules | None = None,
) -> tuple[list[pa.RecordBatch], list[str]]:
    """Read all tuples of a text: JSON lines, or lines of fields with or without a header.  Return batches and warnings.

    Times in text require a `time_unit`, as in a pipe.  Raises `InputError` at a bad line.

    >>> batches, _ = read_tuples(b"x,y,a,1\\n", name="the body", only_json=False)
    >>> [batch.to_pylist() for batch in batches]
    [[{'source': 'x', 'target': 'y', 'label': 'a', 'timestamp': 1}]]
    """
    names = columns or ColumnNames(fixed=True)
    detection = Detection(columns=names, only_json=only_json, time_unit=time_unit, rules=rules)
    text = TextFile(InMemorySource(data, name=name), detect=detection, label=names.constant_label)
    return list(text), text.warnings
