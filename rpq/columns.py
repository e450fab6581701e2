"""Bringing what users push into columns: Arrow tables, pandas frames, mappings of columns, rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rpq.errors import InputError

EARLIEST = -(2**63) + 1
"""The smallest timestamp; the one below it means "never" inside the engine."""

_NAMES = ("source", "target", "label", "timestamp")
_MEANT = {
    "source": "vertices are integers of 64 bits or text, all of one kind",
    "target": "vertices are integers of 64 bits or text, all of one kind",
    "label": "labels are text",
    "timestamp": "timestamps are integers of 64 bits, or all of them dates or times",
    "op": "'+' inserts and '-' deletes",
    "delete": "it is true or false",
}
_SORTED_NAMES = sorted(_NAMES)
_SORTED_NAMES_WITH_OP = sorted((*_NAMES, "op"))
_FEW = 64
_UNFIT = (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeEncodeError)


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


def columns_of(data: Any, *, time_unit: str, latest: int, kind: str | None = None) -> Columns:
    """The tuples of a table, record batch, pandas frame or mapping of columns.

    Columns are found by name: source, target, label, timestamp and optionally op ("+" or "-") or delete (bool).
    Timestamps are integers, or dates and times, which become integers in `time_unit`; one above `latest` is an error.
    So are vertices that are not of `kind` ("int64" or "string"), if one is given.
    """
    if type(data) is dict and (few := _few_tuples(data, latest, kind)) is not None:
        return few
    problems: list[InputError] = []
    table = _table(data, problems)
    missing = [name for name in _NAMES if name not in table.column_names]
    if missing:
        raise InputError(
            f"no column {missing[0]!r}: tuples have the columns source, target, label, timestamp "
            f"and optionally op, not {', '.join(table.column_names) or 'none'}",
            column=missing[0],
        )
    source = _vertices(table["source"], "source", problems)
    target = _vertices(table["target"], "target", problems)
    label = _labels(table["label"], problems)
    timestamp = _timestamps(table["timestamp"], time_unit, latest, problems)
    delete = _deletes(table, problems)
    error = min(problems, key=lambda problem: problem.row or 0, default=None)
    end = len(table) if error is None else error.row
    # Where the first tuple is bad already, a column may be of no type.
    for name, vertices in (("source", source), ("target", target)) if end else ():
        expected = "int64" if pa.types.is_integer(source.type) else "string"
        if vertices.type != (kind or expected):
            raise InputError(
                f"column {name!r}: vertices of type {vertices.type} in a stream whose vertices are of type "
                f"{kind or expected}; one engine takes integers or text, not both",
                column=name,
            )
    return Columns(
        source=source[:end],
        target=target[:end],
        label=label[:end],
        timestamp=timestamp[:end],
        delete=delete[:end],
        error=error,
    )


def _few_tuples(data: dict[str, Any], latest: int, kind: str | None) -> Columns | None:
    """The tuples of a few short lists in which all is as it should be, else None.

    Finding out what lists hold is most of what pushing a single tuple costs; where nothing needs explaining it is quick.
    """
    lists = [data.get(name) for name in (*_NAMES, "op")]
    if len(data) != 5 or any(type(column) is not list for column in lists):
        return None
    source, target, label, timestamp, op = lists
    count = len(source)
    if not 0 < count <= _FEW or any(len(column) != count for column in lists):
        return None
    types = {type(vertex) for column in (source, target) for vertex in column}
    expected = {"int64": {int}, "string": {str}, None: {type(source[0])}}[kind]
    if types != expected or not types <= {int, str} or {type(time) for time in timestamp} != {int}:
        return None
    if {type(name) for name in label} != {str} or min(timestamp) < EARLIEST or max(timestamp) > latest:
        return None
    if any(one != "+" and one != "-" for one in op):
        return None
    vertex = pa.string() if types == {str} else pa.int64()
    try:
        return Columns(
            source=pa.array(source, vertex),
            target=pa.array(target, vertex),
            label=pa.array(label, pa.string()).dictionary_encode(),
            timestamp=np.array(timestamp, np.int64),
            delete=np.array([one == "-" for one in op], np.uint8),
            error=None,
        )
    except _UNFIT:
        return None


def only_tuple(data: Any) -> tuple[Any, ...] | None:
    """The values (source, target, label, timestamp, op) of data that hold one tuple and nothing else; None for any other."""
    if type(data) is dict:
        if len(data) != 5 and not (len(data) == 4 and "op" not in data):
            return None
        columns = [data.get(name) for name in (*_NAMES, "op")]
        if len(data) == 4:
            columns[4] = ["+"]
        if all(type(column) is list and len(column) == 1 for column in columns):
            return tuple(column[0] for column in columns)
    elif type(data) is pa.RecordBatch and data.num_rows == 1:
        names = data.schema.names
        if sorted(names) in (_SORTED_NAMES, _SORTED_NAMES_WITH_OP):
            values = [data.column(name)[0].as_py() for name in _NAMES]
            return (*values, data.column("op")[0].as_py() if len(names) == 5 else "+")
    return None


def is_plain(
    source: Any, target: Any, label: Any, timestamp: Any, op: Any, *, kind: str | None, latest: int
) -> bool:
    """Whether a tuple is well-formed and needs no conversion: no more is asked than what is quickly answered."""
    if type(timestamp) is not int or not EARLIEST <= timestamp <= latest or type(label) is not str:
        return False
    if op != "+" and op != "-":
        return False
    vertex = type(source)
    if vertex is not type(target):
        return False
    if vertex is str:
        return kind != "int64" and _is_utf8(source) and _is_utf8(target) and _is_utf8(label)
    return vertex is int and kind != "string" and -(2**63) <= source < 2**63 and -(2**63) <= target < 2**63 and _is_utf8(label)


def _is_utf8(text: str) -> bool:
    """Whether UTF-8 can hold a text: it has no lone surrogate."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def time_of(value: Any, *, time_unit: str, latest: int) -> int:
    """A stream time, given as an integer, a date or a time, as an integer in `time_unit`."""
    problems: list[InputError] = []
    try:
        times = _timestamps(pa.chunked_array([_array("timestamp", [value], problems)]), time_unit, latest, problems)
    except InputError as problem:
        problems.append(problem)
    if problems:
        raise InputError(f"the stream time: {problems[0].message.removeprefix('row 0: ')}", column="timestamp")
    return int(times[0])


def table_of_rows(rows: Iterable[tuple[Any, ...]]) -> tuple[dict[str, list[Any]], InputError | None]:
    """Rows (source, target, label, timestamp[, op]) as columns, up to the first that is not one, and what is wrong with it."""
    columns: dict[str, list[Any]] = {name: [] for name in (*_NAMES, "op")}
    for number, row in enumerate(rows):
        if not isinstance(row, Sequence) or isinstance(row, str) or not 4 <= len(row) <= 5:
            return columns, InputError(
                f"row {number}: a tuple is (source, target, label, timestamp) or has an op as fifth, not {row!r}", row=number
            )
        for name, value in zip(columns, (*row, "+") if len(row) == 4 else row, strict=True):
            columns[name].append(value)
    return columns, None


def _table(data: Any, problems: list[InputError]) -> pa.Table:
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    try:
        if hasattr(data, "columns") and hasattr(data, "index"):
            data = {name: data[name] for name in data.columns}
        if isinstance(data, Mapping):
            return pa.table({name: _array(name, column, problems) for name, column in data.items() if name in _MEANT})
        if hasattr(data, "__arrow_c_stream__"):
            return pa.table(data)
    except _UNFIT as problem:
        raise InputError(f"the columns do not make a table: {problem}") from problem
    raise InputError(
        f"tuples come as an Arrow table or record batch, a pandas frame or a mapping of columns, not {type(data).__name__}"
    )


def _array(name: str, column: Any, problems: list[InputError]) -> Any:
    """A column as an array; from the first value on that is of another type than those before it, nulls."""
    if isinstance(column, (pa.Array, pa.ChunkedArray)):
        return column
    try:
        array = pa.array(column)
    except _UNFIT:
        pass
    else:
        if not isinstance(column, (list, tuple)) or _is_uniform(array.type, column):
            return array
    values = list(column)

    def convert(count: int) -> None:
        if not _is_uniform(pa.array(values[:count]).type, values[:count]):
            raise pa.ArrowInvalid("not of one type")

    good = _longest_prefix(len(values), convert)
    _problem(problems, good, name, f"{values[good]!r} does not fit: {_MEANT[name]}")
    return pa.concat_arrays([pa.array(values[:good]), pa.nulls(len(values) - good, pa.array(values[:good]).type)])


def _is_uniform(kind: pa.DataType, values: Sequence[Any]) -> bool:
    """Whether Arrow gave values a type that all of them have: it makes floats of integers, bytes of text, times of integers."""
    if pa.types.is_temporal(kind):
        return not any(isinstance(value, int) for value in values)
    return not (pa.types.is_floating(kind) or pa.types.is_binary(kind))


def _longest_prefix(count: int, attempt: Callable[[int], Any]) -> int:
    """How many of `count` rows can be converted, where not all can. O(count log count)."""
    good, bad = 0, count
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            attempt(middle)
        except _UNFIT:
            bad = middle
        else:
            good = middle
    return good


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
            return _cast(_filled(array, 0), pa.int64())
        except pa.ArrowInvalid as problem:
            raise InputError(f"column {name!r}: {problem}; integer vertices have 64 bits", column=name) from problem
    if _is_text(kind):
        return _cast(_filled(array, ""), pa.string())
    raise InputError(f"column {name!r} is of type {kind}; vertices are integers or text", column=name)


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def _filled(array: pa.Array, value: Any) -> pa.Array:
    return array.fill_null(value) if array.null_count else array


def _cast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    # Casting to the type that it has takes Arrow ten microseconds, as long as all else takes for a single tuple.
    return array if array.type == kind else array.cast(kind)


def _labels(column: pa.ChunkedArray, problems: list[InputError]) -> pa.DictionaryArray:
    array = _flat(column)
    if pa.types.is_dictionary(array.type) and (array.dictionary.null_count or not _is_text(array.type.value_type)):
        array = array.dictionary_decode()
    if pa.types.is_null(array.type):
        array = array.cast(pa.string())
    _nulls(array, "label", problems)
    if not pa.types.is_dictionary(array.type):
        if not _is_text(array.type):
            raise InputError(f"column 'label' is of type {array.type}; labels are text", column="label")
        array = _cast(_filled(array, ""), pa.string()).dictionary_encode()
    return array


def _timestamps(column: pa.ChunkedArray, unit: str, latest: int, problems: list[InputError]) -> np.ndarray:
    array = _flat(column)
    _nulls(array, "timestamp", problems)
    if pa.types.is_null(array.type):
        return np.zeros(len(array), np.int64)
    if pa.types.is_date(array.type):
        array = array.cast(pa.timestamp("ms"))
    if pa.types.is_timestamp(array.type):
        target = pa.timestamp(unit, array.type.tz)
        options = pc.CastOptions(target, allow_time_truncate=True)
        try:
            array = pc.cast(array, options=options)
        except pa.ArrowInvalid:
            good = _longest_prefix(len(array), lambda count: pc.cast(array[:count], options=options))
            _problem(problems, good, "timestamp", f"{array[good]} does not fit into 64 bits in the unit {unit}")
            array = pa.concat_arrays([pc.cast(array[:good], options=options), pa.nulls(len(array) - good, target)])
        array = array.cast(pa.int64())
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
        times = _cast(filled, pa.int64()).to_numpy(zero_copy_only=False)
    early = times < EARLIEST
    if early.any():
        _problem(problems, int(np.argmax(early)), "timestamp", f"{EARLIEST - 1} is too small; at least {EARLIEST} is possible")
    late = times > latest
    if late.any():
        row = int(np.argmax(late))
        _problem(
            problems, row, "timestamp", f"{times[row]} and the size of the window exceed 64 bits; at most {latest} is possible"
        )
    return np.array(times)  # Arrow's are read-only, which is another type to the kernels


def _deletes(table: pa.Table, problems: list[InputError]) -> np.ndarray:
    if "delete" in table.column_names:
        array = _flat(table["delete"])
        _nulls(array, "delete", problems)
        if not pa.types.is_boolean(array.type):
            raise InputError(f"column 'delete' is of type {array.type}; it is true or false", column="delete")
        return np.array(_filled(array, False).cast(pa.uint8()).to_numpy())
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
