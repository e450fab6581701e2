"""The types of the columns that values of MATCH give."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from rpq.language.match.tree import (
    Attribute,
    Case,
    Comprehension,
    Dialect,
    Index,
    InList,
    ListOf,
    ListSlice,
    MapOf,
    Null,
    QuantifiedList,
    Reduce,
)
from rpq.language.match.values.functions import FUNCTIONS
from rpq.language.match.values.times import DURATION_PARTS, TIME_PARTS
from rpq.language.where import Arithmetic, Between, Call, Comparison, In, IsNull, Logical, Name, Not, WhereConstant
from rpq.stream.arrays.properties import decimal_type
from rpq.stream.durations import NANOSECONDS

TypeOf = Callable[[str], pa.DataType | None]

_DIGITS = 38
_OF_FUNCTIONS = {
    "boolean": pa.bool_(),
    "integer": pa.int64(),
    "float": pa.float64(),
    "text": pa.string(),
    "texts": pa.list_(pa.string()),
    "integers": pa.list_(pa.int64()),
    "date": pa.timestamp("s"),
    "datetime": pa.timestamp("us", "UTC"),
    "localdatetime": pa.timestamp("us"),
    "duration": pa.duration("ns"),
}


def result_type(tree: Any, type_of: TypeOf, dialect: Dialect = "cypher") -> pa.DataType | None:
    """Return the type of the column of a value; `type_of` is that of a name, and None where one is not known yet.

    Integers beside floats are floats; other mixtures of types, and durations, are texts. So are values of texts of which
    only the stream says whether they are numbers (`+` of loose values).

    >>> from rpq.language.where import parse_where
    >>> types = {"n": pa.int64(), "x": pa.float64(), "when": pa.timestamp("s")}
    >>> [str(result_type(parse_where(text).tree, types.get)) for text in ("n * 2", "n + x", "n > 1", "when", "unknown + 1")]
    ['int64', 'double', 'bool', 'timestamp[s]', 'int64']
    """
    found = _Types(type_of, dialect).of(tree, {})
    return None if found is None or pa.types.is_null(found) else _column_type(found)


def _column_type(kind: pa.DataType) -> pa.DataType:
    """Return a type that columns have: texts stand for durations and for nulls alone."""
    if pa.types.is_list(kind):
        return pa.list_(_column_type(kind.value_type))
    return pa.string() if pa.types.is_null(kind) or pa.types.is_duration(kind) else kind


def common_type(types: Sequence[pa.DataType | None]) -> pa.DataType | None:
    """Return the type of values of several types, null for no type, and None if one is not known.

    >>> [str(common_type(types)) for types in ((pa.int64(), pa.float64()), (), (pa.bool_(), pa.int64()))]
    ['double', 'null', 'string']
    """
    if None in types:
        return None
    found = pa.null()
    for kind in types:
        found = _common_of_two(found, kind)
    return found


def _common_of_two(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    if one == other or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    if pa.types.is_list(one) and pa.types.is_list(other):
        return pa.list_(_common_of_two(one.value_type, other.value_type))
    if _is_number(one) and _is_number(other):
        return _type_of_sum(one, other)
    if pa.types.is_timestamp(one) and pa.types.is_timestamp(other) and one.tz == other.tz:
        return min(one, other, key=lambda kind: NANOSECONDS[kind.unit])
    return pa.string()


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _type_of_sum(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """Return the type of exact results of two types of numbers, which is float beside a float."""
    if pa.types.is_floating(one) or pa.types.is_floating(other):
        return pa.float64()
    scales = [kind.scale for kind in (one, other) if pa.types.is_decimal(kind)]
    return decimal_type(_DIGITS, max(scales)) if scales else pa.int64()


class _Types:
    """The types of trees; `bound` has those of variables that lists bind."""

    def __init__(self, type_of: TypeOf, dialect: Dialect) -> None:
        self._type_of = type_of
        self._truncates = dialect == "cypher"

    def of(self, tree: Any, bound: Mapping[str, pa.DataType | None]) -> pa.DataType | None:
        """Return the type of a tree; None while it is not known."""

        def of(part: Any) -> pa.DataType | None:
            return self.of(part, bound)

        match tree:
            case WhereConstant(value):
                return _type_of_constant(value)
            case Null() | MapOf():
                return pa.null()
            case Name(name):
                return self._of_name(name, bound)
            case Comparison() | Between() | In() | InList() | IsNull() | Not() | Logical() | QuantifiedList():
                return pa.bool_()
            case Arithmetic(sign, left, right):
                return self._of_arithmetic(sign, of(left), of(right))
            case Call(function, arguments):
                return _of_function(FUNCTIONS[function.lower()].result, [*map(of, arguments)])
            case ListOf(values):
                inner = common_type([*map(of, values)])
                return pa.list_(pa.string() if inner is None else inner)
            case ListSlice(inner):
                return of(inner)
            case Index(inner):
                return _element_type(of(inner))
            case Attribute(inner, name):
                return _of_attribute(of(inner), name)
            case Case(_, _, values, otherwise):
                return common_type([*map(of, values), pa.null() if otherwise is None else of(otherwise)])
            case Comprehension(variable, source, _, value):
                of_source = of(source)
                if value is None or of_source is None:
                    return of_source
                found = self.of(value, {**bound, variable: _element_type(of_source)})
                return None if found is None else pa.list_(found)
            case Reduce(accumulator, initial, variable, source, value):
                begun, element = of(initial), _element_type(of(source))
                first = self.of(value, {**bound, variable: element, accumulator: begun})
                return common_type([begun, first])
        raise TypeError(f"no value can be computed from {tree!r}")

    def _of_name(self, name: str, bound: Mapping[str, pa.DataType | None]) -> pa.DataType | None:
        if name in bound:
            return bound[name]
        inner, _, part = name.partition(".")
        if inner in bound:
            return _of_attribute(bound[inner], part)
        known = self._type_of(name)
        if known is None and part in TIME_PARTS and (of_inner := self._type_of(inner)) is not None:
            return _of_attribute(of_inner, part)
        return pa.null() if known is None else known  # a property that has no value yet leaves the type to the others

    def _of_arithmetic(self, sign: str, left: pa.DataType | None, right: pa.DataType | None) -> pa.DataType | None:
        if left is None or right is None:
            return None
        for one, other in ((left, right), (right, left)):
            if pa.types.is_null(one):
                return other
            if pa.types.is_list(one) and sign == "+":
                return pa.list_(_common_of_two(one.value_type, other.value_type if pa.types.is_list(other) else other))
            if pa.types.is_timestamp(one):
                return pa.duration("ns") if pa.types.is_timestamp(other) else one
        if pa.types.is_duration(left) or pa.types.is_duration(right):
            return pa.float64() if sign == "/" and pa.types.is_duration(right) else pa.duration("ns")
        if not _is_number(left) or not _is_number(right):  # a loose value is a text here, and may be a number
            return pa.string() if sign == "+" else pa.float64()
        if sign == "/":
            return pa.int64() if self._truncates and left == right == pa.int64() else pa.float64()
        if sign == "*" and pa.types.is_decimal(left) and pa.types.is_decimal(right):
            scale = left.scale + right.scale
            return decimal_type(max(_DIGITS, scale), scale)
        return _type_of_sum(left, right)


def _type_of_constant(value: int | float | Decimal | str | bool) -> pa.DataType:
    if isinstance(value, bool):
        return pa.bool_()
    if isinstance(value, str):
        return pa.string()
    return pa.int64() if isinstance(value, int) else pa.float64()


def _element_type(kind: pa.DataType | None) -> pa.DataType | None:
    if kind is None or not pa.types.is_list(kind):
        return None if kind is None else pa.null()
    return kind.value_type


def _of_attribute(kind: pa.DataType | None, name: str) -> pa.DataType | None:
    """Return the type of a part of a time or a duration; that of the id of a vertex is that of the vertex."""
    if kind is None or name == "id":
        return kind
    is_time = pa.types.is_timestamp(kind) and name in TIME_PARTS
    return pa.int64() if is_time or (pa.types.is_duration(kind) and name in DURATION_PARTS) else pa.null()


def _of_function(result: str, arguments: Sequence[pa.DataType | None]) -> pa.DataType | None:
    """Return the type of a result by the rule of a function."""
    if result in _OF_FUNCTIONS:
        return _OF_FUNCTIONS[result]
    if result == "common":
        return common_type(arguments)
    first = arguments[0]
    if result == "same" or first is None:
        return first
    if result == "element":
        return _element_type(first)
    if pa.types.is_decimal(first) or pa.types.is_duration(first):
        return first
    assert result in ("number", "rounded"), result
    return first if result == "number" and pa.types.is_integer(first) else pa.float64()
