"""Answers as responses: JSON, CSV, Arrow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from msgspec import Raw

from rpq.files.table_formats import csv_lines, json_arrays
from rpq.results.answers import Answers
from rpq.serve import models
from rpq.serve.json_values import json_text, json_value


@dataclass(frozen=True, kw_only=True)
class AnswersRead:
    """The answers of a query at a position, of which `limit` are wanted."""

    columns: tuple[str, ...]
    answers: Answers
    limit: int
    time: Any
    position: int

    @property
    def table(self) -> pa.Table:
        return self.answers.to_arrow().slice(0, self.limit)


@dataclass(frozen=True)
class AnswerFormat:
    """How answers are written; O(limit)."""

    media_type: str
    write: Callable[[AnswersRead], bytes]


def _as_json(found: AnswersRead) -> bytes:
    if not found.columns:  # an ASK that holds
        rows = [b"[]"] * min(len(found.answers), found.limit)
    elif all(_is_plain(column.type) for column in found.table.columns):
        rows = [buffer.to_pybytes().rstrip(b"\n").replace(b"\n", b",") for buffer in json_arrays(found.table)]
    else:
        values = zip(*(column.to_pylist() for column in found.table.columns), strict=True)
        rows = [json_text([json_value(value) for value in row]) for row in values]
    told = models.Answers(
        columns=list(found.columns),
        rows=[Raw(row) for row in rows],  # type: ignore[misc]
        total=len(found.answers),
        time=json_value(found.time),
        position=found.position,
    )
    return json_text(told)


def _as_csv(found: AnswersRead) -> bytes:
    header = pa.table({str(number): [name] for number, name in enumerate(found.columns)})
    table = found.table
    texts = [column if _is_plain(column.type) else _as_text(column) for column in table.columns]
    body = pa.table(texts, names=table.column_names) if texts else table
    return b"".join(buffer.to_pybytes() for one in (header, body) for buffer in csv_lines(one))


def _is_plain(type_: pa.DataType) -> bool:
    return pa.types.is_integer(type_) or pa.types.is_string(type_) or pa.types.is_large_string(type_)


def _as_text(column: pa.ChunkedArray) -> pa.Array:
    values = (json_value(value) for value in column.to_pylist())
    return pa.array([None if value is None else str(value) for value in values], pa.string())


def _as_arrow(found: AnswersRead) -> bytes:
    table = found.table.replace_schema_metadata({"rpq.total": str(len(found.answers)), "rpq.position": str(found.position)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


FORMATS = {
    "json": AnswerFormat("application/json", _as_json),
    "csv": AnswerFormat("text/csv; charset=utf-8", _as_csv),
    "arrow": AnswerFormat("application/vnd.apache.arrow.stream", _as_arrow),
}
