"""Records of nodes as well-formed columns.

A record has a vertex (`node`), and may have `labels`, an `op` (+ = -), a `timestamp`, and properties. In a table each record
states every property that is a column: a null takes it away. Rows are dictionaries, of which each states the properties that
it has; a table may say the same with a boolean column whose name is `STATED` and that of the property.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from rpq.errors import InputError
from rpq.stream.arrays.plain_columns import plain, row_error
from rpq.stream.arrays.properties import PropertyTypes, column_of
from rpq.stream.arrays.values import is_missing, short_repr
from rpq.stream.columns import columns_of
from rpq.stream.nodes.node_table import ADD, NO_TIME, OWN_COLUMNS, REMOVE, REPLACE
from rpq.stream.stream_time import AheadLimit, StreamTime, timestamps_as_integers
from rpq.stream.window import INT64_MAX

STATED = "\0"
"""The beginning of the names of columns that say which records state a property, or their labels."""

_OPS = {"+": ADD, "=": REPLACE, "-": REMOVE}


@dataclass(frozen=True, kw_only=True)
class NodeColumns:
    """Well-formed records. `error` is about the one behind them, None if there is none."""

    node: pa.Array
    op: np.ndarray
    """uint8"""
    timestamp: np.ndarray
    """int64; `NO_TIME` for records without one."""
    labels: list[list[str]] | None
    properties: Mapping[str, pa.Array]
    stated: Mapping[str, np.ndarray]
    """bool: which records state a property, for properties that some do not."""
    times: StreamTime
    error: InputError | None

    def __len__(self) -> int:
        return len(self.node)


def node_columns(
    data: Any,
    *,
    times: StreamTime,
    latest: int,
    kind: str | None,
    ahead: AheadLimit | None,
    types: PropertyTypes,
    kept: Collection[str] | None,
) -> NodeColumns:
    """Return the records of a table, record batch, pandas frame, mapping of columns, or rows (dictionaries).

    Vertices are of `kind`, if one is given. Timestamps become integers as `times` say, and are at most `latest` and at most
    as far `ahead` as allowed. The types of properties that are `kept` (None: all) are those of `types`, which this changes.
    Raises `InputError` for data that are no records at all.
    """
    data, stated = _table_of(data)
    names = _names_of(data)
    if "node" not in names:
        raise InputError(
            f"no column 'node': records have the columns node and optionally labels, op, timestamp and "
            f"properties, not {', '.join(map(str, names[:10])) or 'none'}",
            column="node",
        )
    node = column_of(data, "node")[0]
    count = len(node)
    problems: list[InputError] = []
    time, times = _timestamps(data, count, times, latest, ahead, problems)
    no_time = np.zeros(count, np.int64)
    tuples = {"source": node, "target": node, "label": ["node"] * count, "timestamp": no_time}

    properties = [name for name in names if name not in OWN_COLUMNS and not str(name).startswith(STATED)]
    found: dict[str, pa.Array] = {}
    table = data

    def read(data: Any, *, count: int, times: StreamTime, problems: list[InputError]) -> Mapping[str, pa.Array]:
        mine = [name for name in properties if name != "id" and (kept is None or name in kept)]
        found.update(types.read(table, mine, count=count, problems=problems))
        return {}

    columns = columns_of(tuples, times=StreamTime(), latest=INT64_MAX, kind=kind, properties=read)
    if columns.error is not None:
        problems.append(_of_node(columns.error))
    op, labels = _ops(data, count, problems), _labels(data, stated.get("labels"), count, problems)
    for name in properties:  # of a type that is all null
        if name not in found and name != "id" and (kept is None or name in kept):
            found[name] = pa.nulls(count, types.by_name.get(name, pa.string()))
    if "id" in properties:
        _check_id(column_of(data, "id")[0], stated.get("id"), columns.source, problems)
    error = _first_of(problems)
    row = None if error is None or error.column == "node" else error.row
    if error is not None and row is not None:
        name = short_repr(getattr(node[row], "as_py", lambda: node[row])())
        message = error.message.replace(f"row {row}: ", f"row {row}: node {name}: ", 1)
        error = InputError(message, row=row, column=error.column)
    end = count if error is None else min(error.row or 0, len(columns))
    return NodeColumns(
        node=columns.source[:end],
        op=op[:end],
        timestamp=time[:end],
        labels=None if labels is None else labels[:end],
        properties={name: column[:end] for name, column in found.items()},
        stated={name: mask[:end] for name, mask in stated.items() if name in found},
        times=times,
        error=error,
    )


def _table_of(data: Any) -> tuple[Any, dict[str, np.ndarray]]:
    """Return data as a table or a mapping of columns, and which records state which properties."""
    stated: dict[str, np.ndarray] = {}
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        names: dict[str, None] = {}
        for number, row in enumerate(data):
            if not isinstance(row, Mapping):
                raise InputError(
                    f"row {number}: a record is a mapping such as {{'node': 'x', 'risk': 4}}, not {short_repr(row)}",
                    row=number,
                )
            names |= dict.fromkeys(row)
        names.setdefault("node")
        for name in names:
            mask = np.array([name in row for row in data], bool)
            if not mask.all() and name not in ("node", "op", "timestamp"):
                stated[name] = mask
        return {name: [row.get(name) for row in data] for name in names}, stated
    if not isinstance(data, (pa.Table, pa.RecordBatch, Mapping)) and not hasattr(data, "iloc"):
        if not (hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")):
            raise InputError(
                "records of nodes come as an Arrow table or record batch, a pandas frame, a mapping of columns "
                f"or a list of dictionaries, not {type(data).__name__}"
            )
        data = pa.table(data)
    for name in _names_of(data):
        if isinstance(name, str) and name.startswith(STATED):
            column = plain(column_of(data, name)[0])
            stated[name[len(STATED) :]] = column.fill_null(False).to_numpy(zero_copy_only=False)
    return data, stated


def _names_of(data: Any) -> list[Any]:
    if isinstance(data, (pa.Table, pa.RecordBatch)):
        return list(data.schema.names)
    return list(data.columns) if hasattr(data, "iloc") else list(data)


def _first_of(problems: list[InputError]) -> InputError | None:
    return min(problems, key=lambda one: one.row or 0) if problems else None


def _of_node(error: InputError) -> InputError:
    """Return an error about the end of an edge as one about a node."""
    if error.column not in ("source", "target"):
        return error
    message = error.message.replace(f"column '{error.column}'", "column 'node'")
    return InputError(message, row=error.row, column="node")


def _timestamps(
    data: Any, count: int, times: StreamTime, latest: int, ahead: AheadLimit | None, problems: list[InputError]
) -> tuple[np.ndarray, StreamTime]:
    """Return the times of records (int64), `NO_TIME` for those without one, and the kind of time after them."""
    found = np.full(count, NO_TIME)
    column, _ = column_of(data, "timestamp")
    if column is None:
        return found, times
    if not isinstance(column, (list, pa.Array, pa.ChunkedArray)):
        column = pa.array(column, from_pandas=True)
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if isinstance(column, list):
        rows = np.array([row for row, value in enumerate(column) if value is not None], np.int64)
        some: Any = [column[row] for row in rows.tolist()]
    else:
        rows = np.flatnonzero(np.asarray(column.is_valid()))
        some = column.take(pa.array(rows))
    if not len(rows):
        return found, times
    mine: list[InputError] = []
    numbers, after = timestamps_as_integers(some, times, latest, mine)
    end = min((one.row or 0 for one in mine), default=len(rows))
    too_far = ahead.first_ahead(numbers[:end]) if ahead is not None and end else None
    if ahead is not None and too_far is not None:
        end, before = too_far
        mine = [row_error(end, "timestamp", ahead.reason(int(numbers[end]), before, after))]
    for one in mine:
        row = int(rows[one.row or 0])
        message = one.message.replace(f"row {one.row}: ", f"row {row}: ", 1)
        problems.append(InputError(message, row=row, column="timestamp"))
    found[rows] = numbers
    if end < len(rows):  # records that are refused say nothing about the stream's time
        after = timestamps_as_integers(some[:end], times, latest, [])[1] if end else times
    return found, after


def _list_of(column: Any) -> list[Any]:
    """Return the values of a column, None for missing ones."""
    values: list[Any] = column.to_pylist() if hasattr(column, "to_pylist") else list(column)
    return [None if is_missing(one) or (isinstance(one, float) and one != one) else one for one in values]


def _ops(data: Any, count: int, problems: list[InputError]) -> np.ndarray:
    column, _ = column_of(data, "op")
    if column is None:
        return np.zeros(count, np.uint8)
    values = _list_of(column)
    found = np.zeros(count, np.uint8)
    for row, value in enumerate(values):
        if value is None:
            continue
        code = _OPS.get(value) if isinstance(value, str) else None
        if code is None:
            what = f"{short_repr(value)} is no operation; + adds facts, = replaces all, - takes all away"
            problems.append(row_error(row, "op", what))
            break
        found[row] = code
    return found


def _labels(data: Any, stated: np.ndarray | None, count: int, problems: list[InputError]) -> list[list[str]] | None:
    """Return the labels of each record: lists of texts, or texts with semicolons."""
    column, _ = column_of(data, "labels")
    if column is None:
        return None
    if isinstance(column, (pa.Array, pa.ChunkedArray)) and pa.types.is_null(column.type):
        return None
    values = _list_of(column)
    found: list[list[str]] = []
    for row, value in enumerate(values):
        labels = value
        if value is None or (stated is not None and not stated[row]):
            labels = []
        elif isinstance(value, str):
            labels = [label.strip() for label in value.split(";") if label.strip()]
        elif hasattr(value, "__iter__") and not isinstance(value, (bytes, Mapping)):
            labels = list(value)
        if not isinstance(labels, list) or not all(isinstance(label, str) and label for label in labels):
            problems.append(row_error(row, "labels", f"{short_repr(value)} is not a list of texts, nor a text with ;"))
            break
        found.append(list(map(str, labels)))
    return found + [[] for _ in range(count - len(found))]


def _check_id(column: Any, stated: np.ndarray | None, node: pa.Array, problems: list[InputError]) -> None:
    """Refuse a property `id` that is not the name of the vertex."""
    values = _list_of(column)
    for row, (value, name) in enumerate(zip(values, node.to_pylist(), strict=False)):
        if (stated is None or stated[row]) and value is not None and str(value) != str(name):
            what = f"{short_repr(value)}, and the vertex is {short_repr(name)}: id is its name"
            problems.append(row_error(row, "id", what))
            break
