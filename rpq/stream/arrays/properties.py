"""The properties of edges: columns of tuples beside those that every tuple has.

A property is a value of type bool, int64, float64, decimal, text or timestamp; null stands for a missing one. Its type is
fixed when a value is first seen, and another type later is an `InputError`. Decimals are of one type, which grows by the
digits that later columns need. A column that readers of text files mark as *loose* (`LOOSE_METADATA`) has texts that are
read as conditions need them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence, Set
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa

from rpq.errors import InputError
from rpq.stream.arrays.numpy_arrays import refuse_mixed_scalars
from rpq.stream.arrays.plain_columns import is_utf8, plain, row_error
from rpq.stream.arrays.values import is_missing, short_repr

LOOSE_METADATA = {b"rpq": b"loose"}
"""The metadata of the field of a column whose values are texts as they stand in a file."""

NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,17})?$"
"""The texts that are numbers among loose values."""

_KINDS = "properties are of type bool, int, float, decimal, string or timestamp"


class PropertyTypes:
    """The types of properties, as far as values were seen.

    >>> types, problems = PropertyTypes(), []
    >>> values = types.read({"amount": [5, None], "note": ["x", "y"]}, ["amount", "date"], count=2, problems=problems)
    >>> {name: column.to_pylist() for name, column in values.items()}, types.names
    ({'amount': [5, None]}, {'amount': 'int'})
    >>> values = types.read({"amount": [7, "much"]}, ["amount"], count=2, problems=problems)
    >>> values["amount"].to_pylist(), problems[0].message
    ([7, None], "row 1: column 'amount': 'much' is a string, and the values before are of type int")
    """

    def __init__(self, by_name: Mapping[str, pa.DataType] | None = None, loose: Collection[str] = ()) -> None:
        self.by_name: dict[str, pa.DataType] = dict(by_name or {})
        self.loose = set(loose)

    @property
    def names(self) -> dict[str, str]:
        """The names of the known types."""
        return {name: "loose" if name in self.loose else _name_of(kind) for name, kind in self.by_name.items()}

    def copy(self) -> PropertyTypes:
        """Return a copy, which can be changed independently."""
        return PropertyTypes(self.by_name, self.loose)

    def read(
        self, data: Any, names: Collection[str], *, count: int, problems: list[InputError]
    ) -> dict[str, pa.Array]:
        """Return the columns with these names that data has, in their types. A type that was open is fixed by this call.

        `data` is an Arrow table or record batch, a pandas frame, or a mapping of columns. The first value of a column that
        is of another type is added to `problems`, and the column is null from there on. Raises `InputError` for a column of
        a type that no property has.
        """
        found = {}
        for name in names:
            column, is_loose = column_of(data, name)
            if column is None:
                continue
            column = _with_length(name, column)
            if len(column) != count:
                raise InputError(
                    f"the columns are of different lengths: {name} {len(column):,}, and {count:,} tuples", column=name
                )
            array = self._convert_column(name, column, problems)
            if array is None:
                continue
            if is_loose:
                self.loose.add(name)
            found[name] = array
        return found

    def value_of_one(self, name: str, value: Any) -> int | float | str | None:
        """Return a number or a text as a value of its property; None if it does not fit the type of the property."""
        kind, type_of_value = self.by_name.get(name), type(value)
        if kind is None or name in self.loose:
            return None
        if type_of_value is int and -(2**63) <= value < 2**63:
            return int(value) if kind == pa.int64() else float(value) if kind == pa.float64() else None
        if type_of_value is float:
            return float(value) if kind == pa.float64() else None
        return str(value) if type_of_value is str and kind == pa.string() and is_utf8(value) else None

    def _convert_column(self, name: str, column: Any, problems: list[InputError]) -> pa.Array | None:
        """Return a column in the type of its property; None where it has no value and no type."""
        kind = self.by_name.get(name)
        if isinstance(column, (pa.Array, pa.ChunkedArray)):
            try:
                array = plain(column)
            except (pa.ArrowException, ValueError) as problem:
                reason = f"column {name!r} of type {column.type} cannot be read: {problem}"
                raise InputError(reason, column=name) from problem
        else:
            array = _array_of(name, column, kind, problems)
        if pa.types.is_null(array.type):
            return None
        array = _widen(name, array)
        if kind is None:
            self.by_name[name] = array.type
            return array
        if array.type == kind:
            return array
        if pa.types.is_decimal(kind) and pa.types.is_decimal(array.type):
            return self._decimals(name, array, kind, problems)
        if pa.types.is_timestamp(kind) and pa.types.is_timestamp(array.type) and kind.tz == array.type.tz:
            try:
                return array.cast(kind)
            except pa.ArrowInvalid:
                pass
        rows = np.flatnonzero(array.is_valid().to_numpy(zero_copy_only=False))
        if len(rows):
            row = int(rows[0])
            problems.append(row_error(row, name, _misfit(array[row].as_py(), array.type, kind)))
        return pa.nulls(len(array), kind)


    def _decimals(self, name: str, array: pa.Array, kind: pa.DataType, problems: list[InputError]) -> pa.Array:
        """Return decimals in the type of their property, which grows to contain all digits of their own type.

        If these are more digits than a decimal can have, the values have to fit the known type.
        """
        scale = max(kind.scale, array.type.scale)
        digits = scale + max(kind.precision - kind.scale, array.type.precision - array.type.scale)
        if digits <= _MAX_DIGITS:
            self.by_name[name] = decimal_type(digits, scale)
            return array.cast(self.by_name[name])
        for row in np.flatnonzero(array.is_valid().to_numpy(zero_copy_only=False)).tolist():
            try:
                array[row].cast(kind)
            except pa.ArrowInvalid:
                reason = (
                    f"{short_repr(array[row].as_py())} is beyond the values before, which are decimals of {kind.precision} "
                    f"digits with {kind.scale} behind the point; values of one property have at most {_MAX_DIGITS}"
                )
                problems.append(row_error(row, name, reason))
                array = pa.concat_arrays([array[:row], pa.nulls(len(array) - row, array.type)])
                break
        return array.cast(kind)


_MAX_DIGITS = 76
"""The largest number of digits of a decimal in Arrow."""


def decimal_type(precision: int, scale: int) -> pa.DataType:
    """Return the type of decimals with these digits: of 128 bits, or of 256 where they need it."""
    return pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)


def _misfit(value: Any, value_kind: pa.DataType, kind: pa.DataType) -> str:
    return f"{short_repr(value)} is {_article(_name_of(value_kind))}, and the values before are of type {_name_of(kind)}"


def _article(name: str) -> str:
    return f"an {name}" if name[0] in "aeiou" else f"a {name}"


def column_of(data: Any, name: str) -> tuple[Any, bool]:
    """Return a column, None if there is none, and whether its values are loose."""
    if isinstance(data, (pa.Table, pa.RecordBatch)):
        places = data.schema.get_all_field_indices(name)
        if len(places) > 1:
            raise InputError(f"column {name!r} stands {len(places)} times in the table; it can be there once", column=name)
        if not places:
            return None, False
        return data.column(places[0]), (data.schema.field(places[0]).metadata or {}).get(b"rpq") == b"loose"
    if isinstance(data, Mapping):
        return data.get(name), False
    if hasattr(data, "columns") and hasattr(data, "iloc"):
        places = [place for place, one in enumerate(data.columns) if one == name]
        return (data.iloc[:, places[0]] if places else None), False
    return column_of(pa.table(data), name)


_UNFIT = (pa.ArrowException, OverflowError, TypeError, ValueError)
"""The exceptions of Arrow for values that do not make an array."""


def _with_length(name: str, column: Any) -> Any:
    """Return a column that has a length. Raises `InputError` if it is neither an array nor a list of values."""
    if isinstance(column, (str, bytes, bytearray, memoryview, Mapping, Set)) or not (
        hasattr(column, "__iter__") or hasattr(column, "__arrow_c_array__") or hasattr(column, "__arrow_c_stream__")
    ):
        raise InputError(f"column {name!r} is a {type(column).__name__}, not an array or a list of values", column=name)
    if hasattr(column, "__len__"):
        return column
    return list(column) if _has_objects(column) else _array_of(name, column, None, [])


def _array_of(name: str, values: Any, kind: pa.DataType | None, problems: list[InputError]) -> pa.Array:
    """Return a list of values, or an array of numpy, pandas or Arrow's interface, as an Arrow array."""
    of_pandas = hasattr(values, "isna")  # where NaN stands for a missing value
    if not _has_objects(values):
        try:
            return _array_of_typed(values, of_pandas)
        except _UNFIT as problem:
            type_name = getattr(values, "dtype", type(values).__name__)
            reason = str(problem).strip().split("\n")[0]
            text = f"column {name!r} of type {type_name} cannot be read: {reason}; {_KINDS}"
            raise InputError(text, column=name) from problem
    array = None
    if of_pandas:
        with suppress(*_UNFIT):  # as below, with the row
            refuse_mixed_scalars(values)
            array = _array_of_typed(values, of_pandas)
    if array is None:
        values = values if isinstance(values, list) else list(values)
        if of_pandas:
            values = [None if is_missing(one) or _is_nan(one) else one for one in values]
        elif any(one.__name__ == "NAType" for one in set(map(type, values))):
            values = [None if is_missing(one) else one for one in values]
        try:
            array = _array_of_list(values)
        except _UNFIT:
            row, reason = _first_misfit(values, kind)
            problems.append(row_error(row, name, reason))
            array = pa.array([*values[:row], *[None] * (len(values) - row)])
    if kind is not None and pa.types.is_floating(kind) and pa.types.is_integer(array.type):
        return array.cast(pa.float64(), safe=False)
    return array


def _array_of_typed(values: Any, of_pandas: bool) -> pa.Array:
    if hasattr(values, "__arrow_c_stream__"):
        return plain(pa.chunked_array(values))
    return plain(pa.array(values, from_pandas=of_pandas))


def _has_objects(values: Any) -> bool:
    """Return whether values are Python objects: those of a list, or of an array or categories of type object."""
    kind = getattr(values, "dtype", None)
    if kind is None:
        return not (hasattr(values, "__arrow_c_array__") or hasattr(values, "__arrow_c_stream__"))
    return str(getattr(getattr(kind, "categories", None), "dtype", kind)) == "object"


def _is_nan(value: Any) -> bool:
    return isinstance(value, (float, np.floating)) and bool(value != value)


def _array_of_list(values: Sequence[Any]) -> pa.Array:
    refuse_mixed_scalars(values)
    return pa.array(values)


def _first_misfit(values: list[Any], kind: pa.DataType | None) -> tuple[int, str]:
    """Return the row of the first value that is not like those before, and what is wrong with it. O(rows · log rows)."""

    def is_unfit(end: int) -> bool:
        try:
            _array_of_list(values[:end])
        except _UNFIT:
            return True
        return False

    row = bisect_left(range(1, len(values)), True, key=is_unfit)
    kind = kind or _type_of(values[:row])
    own = _type_of(values[row : row + 1])
    if own is None:
        return row, f"{short_repr(values[row])} cannot be kept; {_KINDS}, and integers of 64 bits"
    return row, _misfit(values[row], own, kind or own)


def _type_of(values: Sequence[Any]) -> pa.DataType | None:
    """Return the type of values; None if they are all missing, or of none that Arrow has."""
    try:
        kind = _array_of_list(values).type
    except _UNFIT:
        return None
    return None if pa.types.is_null(kind) else kind


def _widen(name: str, array: pa.Array) -> pa.Array:
    """Return a column in the widest of the types that count as one: int64, float64, text, decimals of 128 bits."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return _widen(name, array.dictionary_decode())
    if pa.types.is_date(kind):
        return array.cast(pa.timestamp("s"))
    if pa.types.is_integer(kind):
        try:
            return array.cast(pa.int64())
        except pa.ArrowInvalid:
            raise InputError(f"column {name!r}: an integer is beyond 64 bits with a sign", column=name) from None
    if pa.types.is_floating(kind):
        return array.cast(pa.float64())
    if pa.types.is_decimal(kind):
        return array.cast(decimal_type(kind.precision, kind.scale))
    if pa.types.is_boolean(kind) or pa.types.is_string(kind) or pa.types.is_timestamp(kind):
        return array
    raise InputError(f"column {name!r} is of type {kind}; {_KINDS}", column=name)


def _name_of(kind: pa.DataType) -> str:
    if pa.types.is_integer(kind):
        return "int"
    if pa.types.is_floating(kind):
        return "float"
    if pa.types.is_decimal(kind):
        return "decimal"
    if pa.types.is_boolean(kind):
        return "bool"
    return "timestamp" if pa.types.is_timestamp(kind) else str(kind)
