"""Conversion of what users push to columns: Arrow tables, pandas frames, mappings of columns, rows.

A column is an array (of Arrow, numpy, pandas, or anything that has the Arrow PyCapsule interface), whose type is right or
wrong as a whole, or a list of values, each of which is right or wrong (`rpq.stream.arrays.values`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from rpq.errors import InputError
from rpq.stream.arrays import arrow_compute as pc
from rpq.stream.arrays.event_grouping import end_of_event, event_times, first_of_events
from rpq.stream.arrays.fields import UNLESS_NEWER
from rpq.stream.arrays.numpy_arrays import numpy_array, refuse_mixed_scalars, text_array, text_bytes
from rpq.stream.arrays.plain_columns import (
    NUMBER,
    TEXT,
    add_problem,
    cast,
    check_names,
    fill_nulls,
    is_sound_ascii,
    is_utf8,
    padded_to_length,
    plain,
    plain_column,
    row_error,
    to_int64,
)
from rpq.stream.arrays.properties import column_of as property_column
from rpq.stream.arrays.values import (
    EMPTY,
    EXPECTATIONS,
    MISSING,
    booleans_of_text,
    deletes_of,
    deletes_of_ops,
    first_empty,
    is_missing,
    kind_of,
    moments_of_numpy,
    short_repr,
    streams_of,
    texts_of,
    vertices_of,
)
from rpq.stream.chunk import DELETE_UNLESS_NEWER
from rpq.stream.names.terms import OTHER_FORM, normal_form
from rpq.stream.stream_time import EARLIEST, AheadLimit, StreamTime, timestamps_as_integers
from rpq.stream.window import INT64_MAX

_NAMES = ("source", "target", "label", "timestamp")
_SORTED_NAMES = sorted(_NAMES)
_SORTED_NAMES_WITH_OP = sorted((*_NAMES, "op"))
_FEW_TUPLES = 1024
"""The number of tuples up to which labels stay texts: Arrow takes ten microseconds for a dictionary, but less a row."""
_OTHER_PARTS = (b"\\", b"\x7f", b"XMLSchema#string>")
"""Without any of these, and without control characters, all literals have their normal form."""


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Well-formed tuples, and the error that ended them, if any.

    `source` and `target` are int64 or string arrays, `label` strings or a dictionary of these, `timestamp` int64 and
    `delete` uint8. `stream` is a string array, null for tuples of the merged stream alone, or None if no tuple has a stream.
    `error` describes the first tuple that is not well-formed; the columns end before it. `times` is the kind of the stream's
    time as it is known after these tuples.
    """

    source: pa.Array
    target: pa.Array
    label: pa.Array
    timestamp: np.ndarray
    delete: np.ndarray
    error: InputError | None
    times: StreamTime
    stream: pa.Array | None = None  # text, or a dictionary of texts
    first: np.ndarray | None = None  # int64: the row of the first tuple of its event; None where each is one of its own
    edge: pa.Array | None = None  # where edges have ids: int64 or string, null for deletes without one
    properties: Mapping[str, pa.Array] = field(default_factory=dict)  # by name; a missing one is null
    reported_time: np.ndarray | None = None  # int64: the times of rows, where `timestamp` has the numbers of events
    texts: Any = None  # of few tuples, whose columns are arrays of string, their view (`rpq.stream.arrays.text_buffers`)

    def __len__(self) -> int:
        return len(self.timestamp)


class EdgeIds(NamedTuple):
    """The option that edges have ids, in a column edge, with the kind of the ids ("int64" or "string") if it is known."""

    kind: str | None


class ReadProperties(Protocol):
    """Returns the columns of properties that data has, of `count` rows; appends bad values to `problems`."""

    def __call__(
        self, data: Any, *, count: int, times: StreamTime, problems: list[InputError]
    ) -> Mapping[str, pa.Array]: ...


def columns_of(
    data: Any,
    *,
    times: StreamTime,
    latest: int,
    kind: str | None = None,
    stream: str | None = None,
    events: bool = False,
    ahead: AheadLimit | None = None,
    properties: ReadProperties | None = None,
    ids: EdgeIds | None = None,
) -> Columns:
    """Return the tuples of a table, record batch, pandas frame or mapping of columns.

    Columns are found by name: source, target, label, timestamp and optionally op ("+" or "-") or delete (bool), and stream
    (text or null); others are properties, which the function `properties` reads if it is given. Timestamps are integers,
    or dates and times, which become integers as `times` say; a timestamp above `latest` is an error. So are vertices that
    are not of `kind` ("int64" or "string"), if a kind is given. All tuples are of `stream`, if one is given. With
    `events` a column event is read (`rpq.stream.arrays.event_grouping`): then a tuple that is not well-formed ends the
    columns before its event. So does a tuple that is further `ahead` of the stream time than allowed. With `ids` a column
    edge has the id of each edge. A delete may lack an id; a delete with an id needs neither ends nor a label.
    """
    is_plain = type(data) is pa.RecordBatch and data.num_rows <= _FEW_TUPLES and kind != "int64" and stream is None
    if is_plain and not events and ahead is None and properties is None and ids is None:
        few = _columns_of_few(data, times, latest)
        if few is not None:
            return few
    stream_time = times
    tuple_columns, other_names = columns_by_name(data)
    column = tuple_columns.pop("event", None)
    event = column if events else None
    column = tuple_columns.pop("edge", None)
    edge = column if ids is not None else None
    if stream is not None:
        if "stream" in tuple_columns:
            raise InputError("the tuples have a column 'stream', and stream names one for all: give one of the two")
        check_stream(stream)
    missing = [name for name in _NAMES if name not in tuple_columns]
    if missing:
        names = [*tuple_columns, *other_names]
        raise InputError(
            f"no column {', '.join(map(repr, missing))}: tuples have the columns source, target, label, timestamp and "
            f"optionally op or delete, not {', '.join(map(str, names[:10])) or 'none'}{', …' if len(names) > 10 else ''}",
            column=missing[0],
        )
    if "op" in tuple_columns and "delete" in tuple_columns:
        raise InputError("the columns 'op' and 'delete' have the same meaning: give one of them", column="delete")
    if event is not None:
        tuple_columns["event"] = event
    read = {name: column if type(column) is list else _read(name, column) for name, column in tuple_columns.items()}
    count = len(read["source"])
    problems: list[InputError] = []
    column_problems: list[InputError] = []
    edge_ids, has_no_label = None, None
    if ids is not None:
        read["edge"] = [None] * count if edge is None else edge if type(edge) is list else _read("edge", edge)
    if {*map(len, read.values())} != {count}:
        lengths = ", ".join(f"{name} {len(column):,}" for name, column in read.items())
        raise InputError(f"the columns are of different lengths: {lengths}")
    if ids is not None:
        is_delete = _deletes(read, count, []) != 0
        edge_ids = _edge_ids(read.pop("edge"), ids.kind, is_delete, column_problems)
        is_by_id = is_delete & np.asarray(edge_ids.is_valid())
        if is_by_id.any():
            has_no_label = is_by_id & ~_present_values(read["label"])
            read |= _fill_ends(read, is_by_id, kind)
    source, target = map(_normal_forms, _ends(read["source"], read["target"], kind, problems))
    label = _labels(read["label"], problems)
    if has_no_label is not None and has_no_label.any():
        label = label.dictionary_decode() if pa.types.is_dictionary(label.type) else label
        label = pc.if_else(pa.array(has_no_label), "", label)
    delete = _deletes(read, count, column_problems)
    if ids is not None and (unless_newer := property_column(data, UNLESS_NEWER)[0]) is not None:
        delete = np.where(np.asarray(plain(unless_newer).fill_null(False)), np.uint8(DELETE_UNLESS_NEWER), delete)
    streams = _streams(read["stream"], column_problems) if "stream" in read else None
    if source.type != TEXT or count > _FEW_TUPLES:  # a stream of integers uses no kernels for texts
        label, streams = _encode_texts(label), None if streams is None else _encode_texts(streams)
    bad = min([one.row or 0 for one in (*problems, *column_problems)]) if problems or column_problems else count
    timestamp, times = timestamps_as_integers(read["timestamp"], times, latest, problems, end=bad)
    values = {} if properties is None else properties(data, count=count, times=times, problems=column_problems)
    problems += column_problems
    error = min(problems, key=lambda one: one.row or 0) if problems else None
    end = count if error is None else error.row or 0
    first = first_of_events(read["event"]) if event is not None else None
    if first is not None and error is not None and end < count:
        end = int(first[end])  # an event is applied as a whole or not at all
    if ahead is not None and end:
        if times.type != stream_time.type:
            ahead.max_ahead.check_timestamps(times)
        moments = timestamp[:end] if first is None else event_times(first[:end], timestamp[:end])
        found = ahead.first_ahead(moments)
        if found is not None:
            end, before = found
            row = end if first is None else end + int(np.argmax(timestamp[end : end_of_event(first, end)]))
            error = row_error(row, "timestamp", ahead.reason(int(timestamp[row]), before, times))
            if isinstance(read["timestamp"], list):  # tuples that are refused tell nothing about the stream's time
                timestamp, times = timestamps_as_integers(read["timestamp"][:end], stream_time, latest, [])
    # Where the first tuple is bad already, a column may be of no type.
    for name, vertices in (("source", source), ("target", target)) if end else ():
        expected = kind or ("string" if source.type == TEXT else "int64")
        if vertices.type != expected:
            raise InputError(
                f"column {name!r}: vertices of type {vertices.type} in a stream whose vertices are of type {expected}; "
                "one engine takes integers or text, not both",
                column=name,
            )
    if error is not None:
        source, target, label, timestamp, delete = source[:end], target[:end], label[:end], timestamp[:end], delete[:end]
        streams = None if streams is None else streams[:end]
        edge_ids = None if edge_ids is None else edge_ids[:end]
        values = {name: column[:end] for name, column in values.items()}
    if stream:
        streams = pa.DictionaryArray.from_arrays(np.zeros(end, np.int32), text_array([stream]))
    if first is not None:
        first = first[:end]
        timestamp = event_times(first, timestamp)
    return Columns(
        source=source,
        target=target,
        label=label,
        timestamp=timestamp,
        delete=delete,
        error=error,
        times=times,
        stream=streams,
        first=first,
        edge=edge_ids,
        properties=values,
    )


def _columns_of_few(data: pa.RecordBatch, times: StreamTime, latest: int) -> Columns | None:
    """Return the tuples of a batch whose columns are of the plainest types, and in which nothing is wrong.

    None for any other. This takes a third of what columns of any kind take, which is much of the time of a small push.
    """
    count = data.num_rows
    places = _plain_places(tuple(data.schema.names))
    if places is None or not count:
        return None
    columns = [data.column(place) for place in places]
    timestamp = columns.pop()
    if timestamp.type != NUMBER or timestamp.null_count or any(type(column) is not pa.StringArray for column in columns):
        return None
    from rpq.stream.arrays.text_buffers import view_of_texts  # numba, which readers of files do not need

    texts = view_of_texts(columns)
    if texts is None:
        return None
    numbers = numpy_array(timestamp)
    if numbers.item(numbers.argmin()) < EARLIEST or numbers.item(numbers.argmax()) > latest:
        return None
    return Columns(
        source=columns[0],
        target=columns[1],
        label=columns[2],
        timestamp=np.array(numbers),  # Arrow's are read-only, which is another type to the kernels
        delete=np.zeros(count, np.uint8),
        error=None,
        times=times.with_type(NUMBER),
        stream=columns[3] if len(columns) > 3 else None,
        texts=texts,
    )


@lru_cache(maxsize=16)
def _plain_places(names: tuple[str, ...]) -> tuple[int, ...] | None:
    """Return the places of source, target, label, maybe stream, and timestamp; None where there is more that is meant."""
    expected_names = ("source", "target", "label", "stream", "timestamp") if "stream" in names else _NAMES
    found = {name: place for place, name in enumerate(names) if name in EXPECTATIONS and name not in ("event", "edge")}
    is_fit = len(found) == len(expected_names) and found.keys() == {*expected_names} and len({*names}) == len(names)
    return tuple(found[name] for name in expected_names) if is_fit else None


def check_stream(stream: Any) -> None:
    """Raise `InputError` if a value is no name of a stream."""
    misfit = streams_of([stream])[1]
    if misfit is not None or stream is None:
        raise InputError(f"a stream is named by text: {misfit.reason if misfit else 'nothing is given'}", column="stream")


def with_event(data: Any, event: Any) -> Any:
    """Return columns with one more, that of events, or one event of all tuples. Raises `InputError`."""
    tuple_columns, other_names = columns_by_name(data)
    if "event" in tuple_columns:
        raise InputError("the tuples have a column 'event', and event makes them one: give one of the two", column="event")
    if isinstance(event, (bool, int, str)):
        event = [event] * max(map(len, tuple_columns.values()), default=0)
    if isinstance(data, Mapping):
        return {**data, "event": event}
    if isinstance(data, (pa.Table, pa.RecordBatch)):
        return {**dict(zip(data.schema.names, data.columns, strict=True)), "event": event}
    return {**tuple_columns, **{name: data[name] for name in other_names if isinstance(name, str)}, "event": event}


def only_tuple(data: Any) -> tuple[Any, ...] | None:
    """Return the values (source, target, label, timestamp, op) of data that are one tuple; None for any other."""
    if type(data) is dict:
        if len(data) != 5 and not (len(data) == 4 and "op" not in data):
            return None
        columns: list[Any] = [data.get(name) for name in (*_NAMES, "op")]
        if len(data) == 4:
            columns[4] = ["+"]
        if all(type(column) is list and len(column) == 1 for column in columns):
            return tuple(column[0] for column in columns)
    elif type(data) is pa.RecordBatch and data.num_rows == 1:
        names = data.schema.names
        if sorted(names) in (_SORTED_NAMES, _SORTED_NAMES_WITH_OP) and data.schema.field("timestamp").type == NUMBER:
            try:
                values = [data.column(name)[0].as_py() for name in names]
            except ValueError:  # text that is no UTF-8, or a time beyond those of Python: refused as in any column
                return None
            found = dict(zip(names, values, strict=True))
            return (*(found[name] for name in _NAMES), found.get("op", "+"))
    return None


def is_plain(
    source: Any, target: Any, label: Any, timestamp: Any, op: Any, *, kind: str | None, latest: int
) -> bool:
    """Return whether a tuple is valid and needs no conversion, as far as this can be checked quickly."""
    if type(timestamp) is not int or not EARLIEST <= timestamp <= latest or type(label) is not str or not label:
        return False
    if type(op) is not str or (op != "+" and op != "-"):
        return False
    vertex = type(source)
    if vertex is not type(target):
        return False
    if vertex is str:
        if kind == "int64" or not source or not target:
            return False
        if normal_form(source) != source or normal_form(target) != target:
            return False
        are_ascii = source.isascii() and target.isascii() and label.isascii()  # as most are
        return are_ascii or (is_utf8(source) and is_utf8(target) and is_utf8(label))
    if vertex is not int or kind == "string":
        return False
    return -(2**63) <= source < 2**63 and -(2**63) <= target < 2**63 and is_utf8(label)


def time_of(value: Any, *, times: StreamTime, latest: int) -> tuple[int, StreamTime]:
    """Return a stream time (an integer, a date or a time) as an integer, and the kind of time after it."""
    problems: list[InputError] = []
    numbers = np.zeros(0, np.int64)
    try:
        numbers, times = timestamps_as_integers([value], times, latest, problems)
    except InputError as problem:
        problems.append(problem)
    if problems:
        what = problems[0].message.removeprefix("row 0: ")
        raise InputError(f"the stream time: {what}", column="timestamp") from None
    return int(numbers[0]), times


def table_of_rows(rows: Iterable[tuple[Any, ...]]) -> tuple[dict[str, list[Any]], InputError | None]:
    """Return rows (source, target, label, timestamp[, op]) as columns, up to the first that is none, and its error."""
    columns: dict[str, list[Any]] = {name: [] for name in (*_NAMES, "op")}
    try:
        iterator = iter(rows)
    except TypeError:
        raise InputError(
            f"rows are an iterable of tuples (source, target, label, timestamp[, op]), not {short_repr(rows)}"
        ) from None
    appends = [column.append for column in columns.values()]
    for number, row in enumerate(iterator):
        if not isinstance(row, (tuple, list)) and (
            not isinstance(row, Sequence) or isinstance(row, (str, bytes, bytearray))
        ):
            return columns, _no_tuple(number, row)
        if not 4 <= len(row) <= 5:
            return columns, _no_tuple(number, row)
        for append, value in zip(appends, (*row, "+") if len(row) == 4 else row, strict=True):
            append(value)
    return columns, None


def _no_tuple(number: int, row: Any) -> InputError:
    message = f"row {number}: a tuple is (source, target, label, timestamp) or has an op as fifth, not {short_repr(row)}"
    return InputError(message, row=number)


# --- finding the columns -------------------------------------------------------------------------------------

def columns_by_name(data: Any) -> tuple[dict[str, Any], list[Any]]:
    """Return the columns that tuples have, by name, and the names of others."""
    if type(data) is not dict and isinstance(data, (pa.Table, pa.RecordBatch)):
        names = data.schema.names
        found = {name: data.column(place) for place, name in enumerate(names) if name in EXPECTATIONS}
        return found, _other_names(names, found)
    if type(data) is dict or isinstance(data, Mapping):
        found = {name: data[name] for name in EXPECTATIONS if name in data}
        return found, [] if len(found) >= len(_NAMES) else [name for name in data if name not in EXPECTATIONS]
    if hasattr(data, "columns") and hasattr(data, "iloc"):
        # Columns of a pandas frame are read one by one: Arrow refuses a whole frame for one column of odd objects.
        names = list(data.columns)
        places = [place for place, name in enumerate(names) if isinstance(name, str) and name in EXPECTATIONS]
        found = {names[place]: data.iloc[:, place] for place in places}
        return found, _other_names(names, found)
    if hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__"):
        try:
            table = pa.table(data)
        except MemoryError:
            raise
        except Exception as problem:  # of foreign code
            raise InputError(f"the {type(data).__name__} cannot be read as a table: {problem}") from problem
        return columns_by_name(table)
    raise InputError(
        "tuples come as an Arrow table or record batch, a pandas frame or a mapping of columns, "
        f"not {type(data).__name__}; rows are for push_rows"
    )


def _other_names(names: list[Any], columns: dict[str, Any]) -> list[Any]:
    """Return the names that are not those of `columns`. Raises `InputError` if one of `columns` occurs twice."""
    if len(columns) == len(names):
        return []
    read_names = [name for name in names if isinstance(name, str) and name in columns]
    for name in columns:
        if read_names.count(name) > 1:
            raise InputError(
                f"column {name!r} stands {read_names.count(name)} times in the table; it can be there once", column=name
            )
    return [name for name in names if not (isinstance(name, str) and name in columns)]


_OF_NUMBERS = {"source", "target", "timestamp"}
_OF_TEXTS = {"source", "target", "label", "op", "stream"}


def _read(name: str, column: Any) -> pa.Array | list[Any]:
    """Return a column as an array without chunks, or as a list of values that are still to be examined."""
    try:
        kind = type(column)
        if kind is pa.Int64Array and name in _OF_NUMBERS:
            return column
        if kind is pa.StringArray and name in _OF_TEXTS:
            if len(column) <= _FEW_TUPLES or not is_sound_ascii(column):
                column.validate(full=True)
            return column
    except pa.ArrowException:
        pass  # as below, with a message
    try:
        if isinstance(column, list):
            return column
        if isinstance(column, (pa.Array, pa.ChunkedArray)):
            return _sound(name, column)
        if isinstance(column, np.ndarray):
            read = _read_numpy(column)
            return read if isinstance(read, list) else _sound(name, read)
        if str(getattr(column, "dtype", "")) == "object":
            return list(column)
        if hasattr(column, "dtype") and hasattr(column.dtype, "categories"):
            refuse_mixed_scalars(column)
        if hasattr(column, "__arrow_array__") or hasattr(column, "__arrow_c_array__"):
            return _sound(name, pa.array(column))
        if hasattr(column, "__arrow_c_stream__"):
            return _sound(name, pa.chunked_array(column))
        if hasattr(column, "dtype") and hasattr(column, "array"):  # a pandas series or index
            return _sound(name, pa.array(column))
        if not isinstance(column, (str, bytes, bytearray, memoryview, Mapping, Set)):
            return list(column)
    except (MemoryError, InputError):
        raise
    except Exception as problem:  # of foreign code, and what Arrow finds wrong with an array
        reason = str(problem).strip().split("\n")[0]
        raise InputError(
            f"column {name!r} ({_kind_name(column)}) cannot be read: {reason}; {EXPECTATIONS[name]}", column=name
        ) from problem
    raise InputError(f"column {name!r} is a {type(column).__name__}, not an array or a list of values", column=name)


def _read_numpy(column: np.ndarray) -> pa.Array | list[Any]:
    if column.ndim != 1:
        raise ValueError(f"it has {column.ndim} dimensions, and a column has one")
    if column.dtype.kind in "OTU":
        values = column.tolist()
        if column.dtype.kind == "O" or np.ma.isMaskedArray(column):
            return values
        try:
            return pa.array(values, TEXT)
        except (pa.ArrowException, UnicodeEncodeError):  # one of them has a lone surrogate, or is missing
            return values
    if not column.dtype.isnative:
        column = column.astype(column.dtype.newbyteorder("="))
    if column.dtype.kind == "M" and np.datetime_data(column.dtype) not in _ARROW_UNITS:
        return moments_of_numpy(column)
    return pa.array(column)


_ARROW_UNITS = {(unit, 1) for unit in ("D", "s", "ms", "us", "ns")}


def _kind_name(column: Any) -> str:
    kind = getattr(column, "dtype", None)
    return type(column).__name__ if kind is None else f"{type(column).__name__} of {kind}"


def _sound(name: str, column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return an array in one piece, of a plain type that a column of this name can have; text is valid UTF-8."""
    column = plain_column(name, column)
    if pa.types.is_date64(column.type):
        column = cast(column, pa.date32(), safe=False)
    return column


# --- columns -------------------------------------------------------------------------------------------------

def _ends(source: Any, target: Any, kind: str | None, problems: list[InputError]) -> tuple[pa.Array, pa.Array]:
    """Return sources and targets. If lists contain both kinds, that of the stream decides, or else that of most values."""
    if not isinstance(source, list) and not isinstance(target, list):
        return _vertices(source, "source", problems), _vertices(target, "target", problems)
    columns = {"source": source, "target": target}
    lists = {name: column for name, column in columns.items() if isinstance(column, list)}
    found = {name: _vertices(column, name, problems) for name, column in columns.items() if name not in lists}
    if kind is None and lists:
        if found:
            kind = "string" if next(iter(found.values())).type == TEXT else "int64"
        elif len(set(map(type, source)).union(map(type, target))) > 1:
            kind = kind_of(source, target)
    for name, column in lists.items():
        found[name] = padded_to_length(vertices_of(column, kind, name), len(column), name, problems)
    return found["source"], found["target"]


def _vertices(array: pa.Array, name: str, problems: list[InputError]) -> pa.Array:
    if array.type == TEXT:
        return check_names(array, name, problems)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
        if array.type == TEXT:
            return check_names(array, name, problems)
    own = array.type
    if pa.types.is_null(own):
        if len(array):
            add_problem(problems, 0, name, MISSING)
        return pa.nulls(len(array), TEXT)
    array = fill_nulls(array, name, 0, problems)
    return to_int64(array, name, problems) if pa.types.is_uint64(own) else cast(array, NUMBER)


def _normal_forms(vertices: pa.Array) -> pa.Array:
    """Return vertices with literals in normal form, in which constants of queries meet them. O(total length)."""
    if vertices.type != TEXT or b'"' not in (data := text_bytes(vertices)):
        return vertices
    if not any(part in data for part in _OTHER_PARTS) and np.frombuffer(data, np.uint8).min() >= ord(" "):
        return vertices  # a search for bytes takes a fraction of the time of the expression
    may_be_other = pc.and_(pc.starts_with(vertices, '"'), pc.match_substring_regex(vertices, OTHER_FORM))
    others = vertices.filter(may_be_other)
    return pc.replace_with_mask(vertices, may_be_other, text_array([normal_form(term) for term in others.to_pylist()]))


def _edge_ids(column: Any, kind: str | None, is_delete: np.ndarray, problems: list[InputError]) -> pa.Array:
    """Return the ids of edges, null where none is given, which inserts may not have."""
    is_given = _present_values(column)
    if isinstance(column, list):
        ids = [value for value, is_there in zip(column, is_given.tolist(), strict=True) if is_there]
        array, misfit = vertices_of(ids, kind, "edge") if ids else (pa.array([], TEXT), None)
        places = np.flatnonzero(is_given)
        if misfit is not None:
            add_problem(problems, int(places[misfit.row]), "edge", misfit.reason.replace("vertices", "ids of edges"))
            is_given[places[misfit.row] :] = False
        array = array.take(pa.array(np.cumsum(is_given) - 1, mask=~is_given))
    else:
        array = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
        if pa.types.is_null(array.type):
            array = array.cast(TEXT)
        elif array.type == TEXT:
            empty = pc.index(pc.equal(array, ""), True).as_py()
            if empty >= 0:
                add_problem(problems, empty, "edge", EMPTY)
        elif pa.types.is_uint64(array.type):
            array = to_int64(array, "edge", problems)
        else:
            array = cast(array, NUMBER)
        found = "string" if array.type == TEXT else "int64"
        if kind not in (None, found) and array.null_count < len(array):
            row = int(np.argmax(is_given))
            reason = f"{short_repr(array[row].as_py())} is {found} in a stream whose ids of edges are of type {kind}"
            add_problem(problems, row, "edge", reason)
            array = pa.nulls(len(array), TEXT if kind == "string" else NUMBER)
    missing = np.flatnonzero(~is_given & ~is_delete)
    if len(missing):
        reason = 'nothing is given; where edges have ids (edges="id"), an insert needs one'
        add_problem(problems, int(missing[0]), "edge", reason)
    return array


def _present_values(column: Any) -> np.ndarray:
    """Return which values of a column are not missing."""
    if not isinstance(column, list):
        return np.asarray(column.is_valid())
    return np.array([not (is_missing(value) or value != value) for value in column], bool)  # NaN is none of pandas


def _fill_ends(read: Mapping[str, Any], is_by_id: np.ndarray, kind: str | None) -> dict[str, Any]:
    """Return ends and labels in which those of deletes by id, which have no meaning, are replaced by valid values."""
    if kind is None:
        end_columns = [read[name] for name in ("source", "target")]
        arrays = [one.type for one in end_columns if not isinstance(one, list) and not pa.types.is_null(one.type)]
        if arrays:
            kind = "int64" if any(map(pa.types.is_integer, arrays)) else "string"
        else:
            rest = [one for column in end_columns if isinstance(column, list) for one in column]
            kind = kind_of(rest) or "string"
    ends: int | str = 0 if kind == "int64" else "-"
    return {
        "source": _replace_rows(read["source"], is_by_id, ends),
        "target": _replace_rows(read["target"], is_by_id, ends),
        "label": _replace_rows(read["label"], is_by_id & ~_present_values(read["label"]), "-"),
    }


def _replace_rows(column: Any, rows: np.ndarray, value: int | str) -> Any:
    """Return a column with a value at these rows."""
    if isinstance(column, list):
        return [value if is_filled else one for one, is_filled in zip(column, rows.tolist(), strict=True)]
    if not rows.any():
        return column
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if column.null_count == len(column):
        column = pa.nulls(len(column), TEXT if isinstance(value, str) else NUMBER)
    if (column.type == TEXT) != isinstance(value, str):
        value = "-" if column.type == TEXT else 0
    return pc.if_else(pa.array(rows), pa.scalar(value, column.type), column)


def _labels(column: Any, problems: list[InputError]) -> pa.Array:
    """Return labels as an array of string, or a dictionary of strings."""
    array = column
    if isinstance(column, list):
        return padded_to_length(texts_of(column, "label"), len(column), "label", problems)
    if array.type == TEXT:
        return check_names(array, "label", problems)
    if pa.types.is_dictionary(array.type) and array.dictionary.null_count:
        array = array.dictionary_decode()
    if pa.types.is_null(array.type):
        array = array.cast(TEXT)
    if pa.types.is_dictionary(array.type) and first_empty(array.dictionary) is not None:
        array = array.dictionary_decode()  # whatever of the dictionary is used
    if pa.types.is_dictionary(array.type):
        if array.null_count:
            fill_nulls(array.indices, "label", 0, problems)
        return array
    return check_names(array, "label", problems)


def _streams(column: Any, problems: list[InputError]) -> pa.Array:
    """Return the names of streams; an empty one is none."""
    if isinstance(column, list):
        return padded_to_length(streams_of(column), len(column), "stream", problems)
    if column.null_count == len(column):
        return pa.nulls(len(column), TEXT)
    if column.type == TEXT and not column.null_count and first_empty(column) is None:
        return column
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    if first_empty(encoded.dictionary.drop_null()) is None:
        return encoded
    texts = encoded.dictionary_decode()
    return pc.if_else(pc.equal(texts, ""), pa.scalar(None, TEXT), texts)


def _encode_texts(texts: pa.Array) -> pa.DictionaryArray:
    return texts if pa.types.is_dictionary(texts.type) else texts.dictionary_encode()


def _deletes(read: dict[str, Any], count: int, problems: list[InputError]) -> np.ndarray:
    if "delete" in read:
        column = read["delete"]
        if isinstance(column, list):
            return padded_to_length(deletes_of(column), count, "delete", problems)
        if pa.types.is_null(column.type) and count:
            add_problem(problems, 0, "delete", MISSING)
            return np.zeros(count, np.uint8)
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if column.type == TEXT:
            texts = fill_nulls(column, "delete", "false", problems)
            column = booleans_of_text(texts)
            unknown = pc.index(column.is_null(), True).as_py()
            if unknown >= 0:
                what = short_repr(texts[unknown].as_py())
                add_problem(problems, unknown, "delete", f"{what} is neither; {EXPECTATIONS['delete']}")
            column = column.fill_null(False)
        if pa.types.is_null(column.type):
            column = column.cast(pa.bool_())
        return np.array(numpy_array(fill_nulls(column, "delete", False, problems).cast(pa.uint8())))
    if "op" not in read:
        return np.zeros(count, np.uint8)
    column = read["op"]
    if isinstance(column, list):
        return padded_to_length(deletes_of_ops(column), count, "op", problems)
    if pa.types.is_null(column.type):
        column = column.cast(TEXT)
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    values = encoded.dictionary.to_pylist()
    for code, value in enumerate(values):
        if value not in ("+", "-"):
            place = pc.index(encoded.indices, pa.scalar(code, encoded.indices.type)).as_py()
            if place >= 0:
                what = MISSING if value is None else f"{short_repr(value)} is no operation; {EXPECTATIONS['op']}"
                add_problem(problems, place, "op", what)
    is_delete = np.array([value == "-" for value in values] or [False], np.uint8)
    return is_delete[numpy_array(fill_nulls(encoded.indices, "op", 0, problems))]


# --- edges without time -------------------------------------------------------------------------------------

_STATIC_NAMES = ("source", "target", "label")


def static_columns(
    edges: Any, *, kind: str | None, properties: ReadProperties | None = None, ids: EdgeIds | None = None
) -> tuple[Columns, list[str]]:
    """Return the edges of a table, record batch, frame, mapping of columns, or rows (source, target, label) as columns.

    Their timestamps are 0. Vertices are of `kind`, if one is given. The function `properties` reads
    further columns, if it is given; the names of all further columns are returned as well. With `ids` there may be a column
    edge, which then has an id for each edge. Raises `InputError` at the first edge that is not well-formed.
    """
    property_names: list[str] = []
    if _is_table(edges):
        if not (isinstance(edges, (Mapping, pa.Table, pa.RecordBatch)) or hasattr(edges, "iloc")):
            edges = pa.table(edges)
        read = _columns_of_table(edges, may_have_ids=ids is not None)
        names = edges.schema.names if isinstance(edges, (pa.Table, pa.RecordBatch)) else [*getattr(edges, "columns", edges)]
        property_names = [name for name in names if isinstance(name, str) and name not in EXPECTATIONS]
    else:
        read, properties = _columns_of_rows(edges), None

    def read_others(
        data: Any, *, count: int, times: StreamTime, problems: list[InputError]
    ) -> Mapping[str, pa.Array]:
        """Return the properties of the edges as they were given."""
        return {} if properties is None else properties(edges, count=count, times=times, problems=problems)

    timeless = {**read, "timestamp": np.zeros(len(read["source"]), np.int64)}
    ids = ids if "edge" in read else None
    columns = columns_of(timeless, times=_NO_TIME, latest=INT64_MAX, kind=kind, properties=read_others, ids=ids)
    if columns.error is not None:
        raise columns.error
    return columns, property_names


_NO_TIME = StreamTime()


def _is_table(edges: Any) -> bool:
    exported = ("__arrow_c_stream__", "__arrow_c_array__", "iloc")
    return isinstance(edges, Mapping) or any(hasattr(edges, name) for name in exported)


def _columns_of_table(edges: Any, *, may_have_ids: bool) -> dict[str, Any]:
    tuple_columns, other_names = columns_by_name(edges)
    missing = [name for name in _STATIC_NAMES if name not in tuple_columns]
    if missing:
        names = ", ".join(map(str, [*tuple_columns, *other_names])) or "none"
        expected = "static edges have the columns source, target, label"
        raise InputError(f"no column {', '.join(map(repr, missing))}: {expected}, not {names}", column=missing[0])
    for name in ("op", "delete"):
        if name in tuple_columns:
            raise InputError(f"static edges are never deleted, and have no column {name!r}", column=name)
    if "edge" in tuple_columns and not may_have_ids:
        hint = "leave out the column 'edge', or use rpq.Engine(…, edges=\"id\")"
        raise InputError(f"static edges have ids where the edges of the stream have some: {hint}", column="edge")
    return {name: tuple_columns[name] for name in (*_STATIC_NAMES, "edge") if name in tuple_columns}


def _columns_of_rows(edges: Any) -> dict[str, Any]:
    columns: dict[str, list[Any]] = {name: [] for name in _STATIC_NAMES}
    try:
        rows = iter(edges)
    except TypeError:
        raise InputError(f"static edges are rows (source, target, label) or a table, not {short_repr(edges)}") from None
    for number, row in enumerate(rows):
        if not isinstance(row, Sequence) or isinstance(row, (str, bytes, bytearray)) or len(row) != len(_STATIC_NAMES):
            raise InputError(f"row {number}: a static edge is (source, target, label), not {short_repr(row)}", row=number)
        for column, value in zip(columns.values(), row, strict=True):
            column.append(value)
    return columns
