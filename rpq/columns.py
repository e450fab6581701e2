"""Bringing what users push into columns: Arrow tables, pandas frames, mappings of columns, rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rpq.errors import InputError

_NAMES = ("source", "target", "label", "timestamp")


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Well-formed tuples, and the error that ended them, if any.

    `source` and `target` are int64 or string arrays, `label` a dictionary array of strings, `timestamp` int64 and
    `delete` uint8. `error` describes the first tuple that is not well-formed; the columns end before it.
    """

    source: pa.Array
    target: pa.Array
    label: pa.DictionaryArray
    timestamp: np.ndarray
    delete: np.ndarray
    error: InputError | None

    def __len__(self) -> int:
        return len(self.timestamp)


def columns_of(data: Any, *, time_unit: str, latest: int) -> Columns:
    """The tuples of a table, record batch, pandas frame or mapping of columns.

    Columns are found by name: source, target, label, timestamp and optionally op ("+" or "-") or delete (bool).
    Timestamps are integers, or dates and times, which become integers in `time_unit`; one above `latest` is an error.
    """
    table = _table(data)
    missing = [name for name in _NAMES if name not in table.column_names]
    if missing:
        raise InputError(
            f"no column {missing[0]!r}: tuples have the columns source, target, label, timestamp "
            f"and optionally op, not {', '.join(table.column_names) or 'none'}",
            column=missing[0],
        )
    problems: list[InputError] = []
    source = _vertices(table["source"], "source", problems)
    target = _vertices(table["target"], "target", problems)
    if pa.types.is_integer(source.type) != pa.types.is_integer(target.type) and len(table):
        raise InputError(
            f"sources are of type {source.type} and targets of type {target.type}; both are integers or both text",
            column="target",
        )
    label = _labels(table["label"], problems)
    timestamp = _timestamps(table["timestamp"], time_unit, latest, problems)
    delete = _deletes(table, problems)
    error = min(problems, key=lambda problem: problem.row or 0, default=None)
    end = len(table) if error is None else error.row
    return Columns(
        source=source[:end],
        target=target[:end],
        label=label[:end],
        timestamp=timestamp[:end],
        delete=delete[:end],
        error=error,
    )


def table_of_rows(rows: Iterable[tuple[Any, ...]]) -> dict[str, list[Any]]:
    """Rows (source, target, label, timestamp[, op]) as columns."""
    columns: dict[str, list[Any]] = {name: [] for name in (*_NAMES, "op")}
    for number, row in enumerate(rows):
        if not 4 <= len(row) <= 5:
            raise InputError(
                f"row {number}: a tuple is (source, target, label, timestamp) or has an op as fifth, not {row!r}", row=number
            )
        for name, value in zip(columns, (*row, "+") if len(row) == 4 else row, strict=True):
            columns[name].append(value)
    return columns


def _table(data: Any) -> pa.Table:
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    try:
        if isinstance(data, Mapping):
            return pa.table({name: _array(name, column) for name, column in data.items()})
        if hasattr(data, "__arrow_c_stream__"):
            return pa.table(data)
        if hasattr(data, "columns") and hasattr(data, "index"):
            return pa.Table.from_pandas(data, preserve_index=False)
    except pa.ArrowInvalid as problem:
        raise InputError(f"the columns do not make a table: {problem}") from problem
    raise InputError(
        f"tuples come as an Arrow table or record batch, a pandas frame or a mapping of columns, not {type(data).__name__}"
    )


def _array(name: str, column: Any) -> Any:
    if isinstance(column, (pa.Array, pa.ChunkedArray)):
        return column
    try:
        return pa.array(column)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as problem:
        raise InputError(f"column {name!r} is not of one type: {problem}", column=name) from problem


def _flat(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _problem(problems: list[InputError], row: int, column: str, what: str) -> None:
    problems.append(InputError(f"row {row}: column {column!r}: {what}", row=int(row), column=column))


def _nulls(array: pa.Array, name: str, problems: list[InputError]) -> None:
    if array.null_count:
        row = pc.index(pc.is_null(array), pa.scalar(True)).as_py()
        _problem(problems, row, name, "nothing is given; a value is needed")


def _vertices(column: pa.ChunkedArray, name: str, problems: list[InputError]) -> pa.Array:
    array = _flat(column)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    kind = array.type
    _nulls(array, name, problems)
    if pa.types.is_null(kind):
        return pa.array([""] * len(array), pa.string())
    if pa.types.is_integer(kind):
        try:
            return _filled(array, 0).cast(pa.int64())
        except pa.ArrowInvalid as problem:
            raise InputError(f"column {name!r}: {problem}; integer vertices have 64 bits", column=name) from problem
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return _filled(array, "").cast(pa.string())
    raise InputError(f"column {name!r} is of type {kind}; vertices are integers or text", column=name)


def _filled(array: pa.Array, value: Any) -> pa.Array:
    return array.fill_null(value) if array.null_count else array


def _labels(column: pa.ChunkedArray, problems: list[InputError]) -> pa.DictionaryArray:
    array = _flat(column)
    if pa.types.is_null(array.type):
        array = array.cast(pa.string())
    _nulls(array, "label", problems)
    if not pa.types.is_dictionary(array.type):
        if not (pa.types.is_string(array.type) or pa.types.is_large_string(array.type) or pa.types.is_string_view(array.type)):
            raise InputError(f"column 'label' is of type {array.type}; labels are text", column="label")
        array = _filled(array, "").cast(pa.string()).dictionary_encode()
    return array


def _timestamps(column: pa.ChunkedArray, unit: str, latest: int, problems: list[InputError]) -> np.ndarray:
    array = _flat(column)
    _nulls(array, "timestamp", problems)
    if pa.types.is_null(array.type):
        return np.zeros(len(array), np.int64)
    if pa.types.is_date(array.type):
        array = array.cast(pa.timestamp("ms"))
    if pa.types.is_timestamp(array.type):
        try:
            array = array.cast(pa.timestamp(unit, array.type.tz), safe=False).cast(pa.int64())
        except pa.ArrowInvalid as problem:
            raise InputError(f"column 'timestamp': {problem}", column="timestamp") from problem
    if not pa.types.is_integer(array.type):
        raise InputError(
            f"column 'timestamp' is of type {array.type}; timestamps are integers or dates and times", column="timestamp"
        )
    filled = _filled(array, 0)
    if pa.types.is_uint64(filled.type):
        beyond = filled.to_numpy() > np.uint64(2**63 - 1)
        if beyond.any():
            _problem(problems, int(np.argmax(beyond)), "timestamp", "does not fit into 64 bits with a sign")
        times = filled.to_numpy().astype(np.int64)
    else:
        times = filled.cast(pa.int64()).to_numpy(zero_copy_only=False)
    late = times > latest
    if late.any():
        row = int(np.argmax(late))
        _problem(
            problems, row, "timestamp", f"{times[row]} and the size of the window exceed 64 bits; at most {latest} is possible"
        )
    return np.ascontiguousarray(times)


def _deletes(table: pa.Table, problems: list[InputError]) -> np.ndarray:
    if "delete" in table.column_names:
        array = _flat(table["delete"])
        _nulls(array, "delete", problems)
        if not pa.types.is_boolean(array.type):
            raise InputError(f"column 'delete' is of type {array.type}; it is true or false", column="delete")
        return _filled(array, False).cast(pa.uint8()).to_numpy()
    if "op" not in table.column_names:
        return np.zeros(len(table), np.uint8)
    array = _flat(table["op"])
    _nulls(array, "op", problems)
    encoded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    values = encoded.dictionary.to_pylist()
    for code, value in enumerate(values):
        if value not in ("+", "-"):
            place = pc.index(encoded.indices, pa.scalar(code, encoded.indices.type)).as_py()
            if place >= 0:
                _problem(problems, place, "op", f"{value!r} is no operation; '+' inserts and '-' deletes")
    is_delete = np.array([value == "-" for value in values] or [False], np.uint8)
    return is_delete[_filled(encoded.indices, 0).to_numpy(zero_copy_only=False)]
