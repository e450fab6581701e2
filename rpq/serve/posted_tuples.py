"""What is posted to tuples: JSON lines and CSV are read as files are, Arrow comes as it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from rpq.errors import InputError
from rpq.readers.batch import LABEL_TYPE
from rpq.readers.column_names import ColumnNames
from rpq.readers.edges import read_tuples
from rpq.readers.fields import FieldError
from rpq.readers.inputs import order_rows
from rpq.stream.columns import check_stream, columns_by_name
from rpq.stream.plain_columns import plain_column

NAME = "the body"
"""What messages call the body of a request."""

JSON_LINES = ("application/x-ndjson", "application/jsonl")
CSV = ("text/csv", "text/tab-separated-values")
ARROW = ("application/vnd.apache.arrow.stream",)
TYPES = (*JSON_LINES, *CSV, *ARROW)

POSTED = {
    JSON_LINES[0]: {
        "type": "string",
        "description": "An object a line: source, target, label, timestamp[, op or delete][, stream].",
        "examples": ['{"source":"x","target":"y","label":"a","timestamp":1}\n'],
    },
    CSV[0]: {
        "type": "string",
        "description": "Fields in that order, or with a header in any.",
        "examples": ["source,target,label,timestamp\nx,y,a,1\n"],
    },
    ARROW[0]: {"description": "A stream of Arrow's IPC format, with these columns."},
}
"""Schemas of the bodies, by content type."""

_NAMES = ("source", "target", "label", "timestamp", "op", "delete", "stream")


class Posted(NamedTuple):
    """The tuples of a body, None where there are none, and what may be meant otherwise than it is read."""

    columns: pa.RecordBatch | None
    warnings: list[str]


def read_posted(body: bytes, type_: str, *, stream: str | None, time_unit: str | None) -> Posted:
    """The tuples of a body of one of `TYPES`, in the order that they have in it.

    `stream` is the one that all of them belong to.  Raises `InputError`, with the line where there are lines: then none of
    them is to be taken.  O(bytes).
    """
    if stream is not None:
        check_stream(stream)
    if type_ in ARROW:
        columns, warnings = _of_arrow(body)
    else:
        only_json = type_ in JSON_LINES
        batches, warnings = read_tuples(body, name=NAME, only_json=only_json, time_unit=time_unit)
        columns = joined(batches)
    if columns is None or stream is None:
        return Posted(columns, warnings)
    if "stream" in columns.schema.names:
        raise InputError("the tuples have a column 'stream', and all are said to be of one: give one of the two")
    named = pa.DictionaryArray.from_arrays(pa.array(np.zeros(columns.num_rows, np.int32)), pa.array([stream]))
    return Posted(columns.append_column("stream", named.cast(LABEL_TYPE)), warnings)


def joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch | None:
    """Batches of one kind as one; None where they have no rows."""
    held = [batch for batch in batches if batch.num_rows]
    if len(held) < 2:
        return held[0] if held else None
    return order_rows(held, np.zeros(sum(batch.num_rows for batch in held), np.int8))


def can_be_joined(first: pa.Schema, second: pa.Schema) -> bool:
    """Whether tuples with these columns may be pushed as one."""
    return first == second and "op" not in first.names


def _of_arrow(body: bytes) -> Posted:
    """The columns of a tuple in a stream of Arrow's IPC format."""
    try:
        with pa.ipc.open_stream(pa.BufferReader(body)) as reader:
            table = reader.read_all()
        table.validate(full=True)  # what comes from outside may point anywhere
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, OSError, EOFError, MemoryError) as error:
        raise InputError(f"{NAME}: is no stream of Arrow's IPC format: {str(error) or 'it is damaged'}") from error
    given, unknown = columns_by_name(table)
    try:
        ColumnNames(fixed=True).refuse_missing([*given, *map(str, unknown)], there=list(given))
    except FieldError as error:
        place = "" if error.column is None else f"column '{error.column}' "
        raise InputError(f"{NAME}: {place}{error.message}", column=error.column) from error
    warnings = [f"{NAME}: {warning}" for warning in ColumnNames().deletes_not_read(table.schema.names)]
    if not table.num_rows:
        return Posted(None, warnings)
    # Plain types from here on: what others post beside it goes to the engine as one with it.
    columns = {name: plain_column(name, given[name]) for name in _NAMES if name in given}
    return Posted(pa.RecordBatch.from_arrays([*columns.values()], [*columns]), warnings)
