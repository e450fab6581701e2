"""The types of the columns of a MATCH text, which follow from those of a stream."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import NamedTuple

import pyarrow as pa

from rpq.language.match.scope import ResultColumn
from rpq.language.match.values.value_types import result_type


class StreamTypes(NamedTuple):
    """The types of a stream: of vertices, timestamps, numbers or ids of edges, and of properties by their keys."""

    vertex: pa.DataType
    time: pa.DataType
    identity: pa.DataType
    property: Callable[[str], pa.DataType | None]
    """The type of a property, None while it has no value."""
    loose: Container[str] = ()
    """The keys of properties that only their values type."""


def type_of(column: ResultColumn, types: StreamTypes) -> pa.DataType | None:
    """Return the type of a column in a stream with these types, None if it is not known yet."""
    if column.tree is not None and column.source != "avg":
        of_inputs = {one.name: type_of(one, types) for one in column.inputs}
        found = result_type(column.tree, of_inputs.get, column.dialect)
        return _type_of_sum(found) if column.source == "sum" else found
    match column.source:
        case "avg":
            return pa.float64()
        case "count":
            return pa.int64()
        case "exists":
            return pa.bool_()
        case "label":
            return pa.string()
        case "vertex" | "source" | "target":
            return types.vertex
    value = column.value
    assert value is not None
    if value.kind == "timestamp":
        return types.time
    if value.kind == "vertex":
        return types.vertex if column.source != "sum" or pa.types.is_integer(types.vertex) else None
    if value.kind == "number":
        return types.identity
    if value.is_list:
        return pa.list_(pa.string())
    kind = types.property(value.key) if value.name else None
    if column.source == "sum":
        return pa.string() if value.key in types.loose else _type_of_sum(kind)
    return kind


def _type_of_sum(kind: pa.DataType | None) -> pa.DataType:
    """Return the type of the sum of values of a type.

    In Cypher the sum of values that are no numbers, or of nulls without a type yet, may be 0. Times are summed as integers
    in their unit.
    """
    if kind is not None and pa.types.is_decimal(kind):
        return pa.decimal128(38, kind.scale)
    return kind if kind is not None and (pa.types.is_integer(kind) or pa.types.is_floating(kind)) else pa.int64()
