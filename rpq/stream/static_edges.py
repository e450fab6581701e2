"""Edges without time, as users give them, brought into columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rpq.errors import InputError
from rpq.stream.columns import Columns, columns_of, given_columns
from rpq.stream.stream_time import StreamTime
from rpq.stream.values import shown
from rpq.stream.window import INT64_MAX

_NAMES = ("source", "target", "label")


def static_columns(edges: Any, *, kind: str | None) -> Columns:
    """The edges of a table, record batch, frame or mapping of columns, or of rows (source, target, label), as columns.

    Timestamps, which they have none of, are 0. Vertices are of `kind`, if one is given. Raises `InputError` at the first
    edge that is not well-formed.
    """
    read = _columns_of_table(edges) if _is_table(edges) else _columns_of_rows(edges)
    timeless = {**read, "timestamp": np.zeros(len(read["source"]), np.int64)}
    columns = columns_of(timeless, times=_NONE, latest=INT64_MAX, kind=kind)
    if columns.error is not None:
        raise columns.error
    return columns


_NONE = StreamTime()


def _is_table(edges: Any) -> bool:
    exported = ("__arrow_c_stream__", "__arrow_c_array__", "iloc")
    return isinstance(edges, Mapping) or any(hasattr(edges, name) for name in exported)


def _columns_of_table(edges: Any) -> dict[str, Any]:
    given, others = given_columns(edges)
    missing = [name for name in _NAMES if name not in given]
    if missing:
        names = ", ".join(map(str, [*given, *others])) or "none"
        expected = "static edges have the columns source, target, label"
        raise InputError(f"no column {', '.join(map(repr, missing))}: {expected}, not {names}", column=missing[0])
    for name in ("op", "delete"):
        if name in given:
            raise InputError(f"static edges are never deleted, and have no column {name!r}", column=name)
    return {name: given[name] for name in _NAMES}


def _columns_of_rows(edges: Any) -> dict[str, Any]:
    columns: dict[str, list[Any]] = {name: [] for name in _NAMES}
    try:
        rows = iter(edges)
    except TypeError:
        raise InputError(f"static edges are rows (source, target, label) or a table, not {shown(edges)}") from None
    for number, row in enumerate(rows):
        if not isinstance(row, Sequence) or isinstance(row, (str, bytes, bytearray)) or len(row) != len(_NAMES):
            raise InputError(f"row {number}: a static edge is (source, target, label), not {shown(row)}", row=number)
        for column, value in zip(columns.values(), row, strict=True):
            column.append(value)
    return columns
