"""Conditions over batches of columns: the meaning of values, and the selection of rows.

* A column has a type, or its values are **untyped** (`UntypedColumn`), as are the additional columns of text files and JSON
  lines: such a value is text that can be read as a number (`12`, `-0.5`, `1e3`) or as true or false; an empty value is null.
  The other operand of a comparison determines the reading; two untyped values are compared as numbers if both are numbers,
  otherwise as text.
* Integers, decimals and floats are compared by their exact values, NaN as in IEEE 754.
* Incompatible types are an error before anything is read, not a condition that never holds.
* A result that cannot be determined is null: a comparison with null, text that is not a number, a division by zero.  As in
  SQL, `and`, `or` and `not` propagate null unless the other operand decides.  Rows for which the condition is null are
  removed, and counted.
* A difference of two times is a duration. Durations are written in quotes with a unit, `'10m'`, beside times whose unit is
  known: a time plus or minus a duration is a time, and durations can be compared, added, multiplied and divided.
* The result for a row depends on that row alone, never on other values of its column.  The division of the input into
  batches therefore does not matter.
* A delete passes whatever the condition: it usually lacks the columns in the condition, and without the delete its edge
  would remain.  Only a condition on nothing but columns that every tuple has (`tuple_kinds`) applies to deletes, too.
"""

from __future__ import annotations

import decimal
import functools
import json
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rpq.errors import did_you_mean
from rpq.language.where import (
    COMPARE,
    EXACT,
    MIRRORED,
    Arithmetic,
    Between,
    Call,
    Comparison,
    In,
    IsNull,
    Literal,
    Logical,
    Name,
    Node,
    Not,
    Where,
)
from rpq.stream.arrays.fields import DELETE, STREAM, FieldError, check_time, quote_value, time_kind
from rpq.stream.arrays.plain_columns import plain_type
from rpq.stream.durations import NANOSECONDS, DurationError, nanoseconds_of, parse_duration

_INTEGER = "^[+-]?[0-9]{1,19}$"
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"


class UntypedColumn:
    """Values without a column type: an array of text, or of int64, float64 or bool if the format has such values."""

    def __init__(self, values: pa.Array) -> None:
        self._values = values

    def texts(self) -> pa.Array:
        """Return the values as text; empty values are null."""
        values = self._values
        if pa.types.is_string(values.type):
            return pc.if_else(pc.equal(values, ""), pa.scalar(None, pa.string()), values)
        if pa.types.is_floating(values.type):
            return texts_of(values.to_pylist())
        return values.cast(pa.string())

    def numbers(self) -> tuple[pa.Array, ...]:
        """Return the values as one or more arrays of numbers. At most one of the arrays has a value in a row."""
        values = self._values
        if pa.types.is_boolean(values.type):
            return (pa.nulls(len(values), pa.float64()),)
        if not pa.types.is_string(values.type):
            return (values,)
        texts = self.texts()
        try:
            quick = texts.cast(pa.float64())
        except pa.ArrowInvalid:
            pass
        else:
            absolute = np.abs(quick.to_numpy(zero_copy_only=False))
            if bool((np.isnan(absolute) | (absolute < EXACT)).all()) and _nans(absolute) == quick.null_count:
                return (quick,)
        texts = pc.utf8_trim(texts, " \t")
        is_integer = pc.match_substring_regex(texts, _INTEGER)
        is_number = pc.and_(pc.invert(is_integer), pc.match_substring_regex(texts, _NUMBER))
        unsigned = pc.utf8_ltrim(texts, "+")
        nothing = pa.scalar(None, pa.string())
        return (
            *_integers(pc.if_else(is_integer, unsigned, nothing)),
            _floats(pc.if_else(is_number, unsigned, nothing)),
        )

    def booleans(self) -> pa.Array:
        """Return the values as booleans; other values are null."""
        if pa.types.is_boolean(self._values.type):
            return self._values
        texts = pc.utf8_lower(self.texts())
        is_boolean = pc.is_in(texts, pa.array(["true", "false"]))
        return pc.if_else(is_boolean, pc.equal(texts, "true"), pa.scalar(None, pa.bool_()))


def texts_of(values: Sequence[Any]) -> pa.Array:
    """Return JSON values as text.

    >>> texts_of(["a", 5, 5.0, 0.25, True, None, {"b": [1]}]).to_pylist()
    ['a', '5', '5', '0.25', 'true', None, '{"b":[1]}']
    """
    return pa.array([_text(value) for value in values], pa.string())


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return str(int(value)) if value.is_integer() and abs(value) < EXACT else repr(value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _nans(values: np.ndarray) -> int:
    return int(np.count_nonzero(np.isnan(values)))


def _integers(texts: pa.Array) -> tuple[pa.Array, ...]:
    try:
        return (texts.cast(pa.int64()),)
    except pa.ArrowInvalid:  # some numbers of nineteen digits do not fit into 64 bits and become floats
        values = [None if text is None else int(text) for text in texts.to_pylist()]
        fits = [value is not None and -(2**63) <= value < 2**63 for value in values]
        integers = [value if fit else None for value, fit in zip(values, fits, strict=True)]
        others = [None if fit or value is None else float(value) for value, fit in zip(values, fits, strict=True)]
        return pa.array(integers, pa.int64()), pa.array(others, pa.float64())


def _floats(texts: pa.Array) -> pa.Array:
    try:
        return texts.cast(pa.float64())
    except pa.ArrowInvalid:  # out of range
        values = [None if text is None else float(text) for text in texts.to_pylist()]
        return pa.array(values, pa.float64())


Columns: TypeAlias = Mapping[str, pa.Array]
Value: TypeAlias = Any
"""An Arrow array, an Arrow scalar, or an `UntypedColumn`."""

_COMPARE = {
    "==": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_EXACT = {
    "+": (pc.add_checked, operator.add),
    "-": (pc.subtract_checked, operator.sub),
    "*": (pc.multiply_checked, operator.mul),
}
_TEXT_FUNCTIONS = {
    "lower": pc.utf8_lower,
    "upper": pc.utf8_upper,
    "length": pc.utf8_length,
    "starts_with": pc.starts_with,
    "ends_with": pc.ends_with,
    "contains": pc.match_substring,
    "matches": pc.match_substring_regex,
}
_KINDS = {
    "number": "a number",
    "time": "a time",
    "duration": "a duration",
    "text": "text",
    "boolean": "true or false",
    "untyped": "text",
    "unknown": "a value of unknown type",
}
_NUMBERS = ("number", "time", "duration")
"""The kinds whose values are numbers."""


@dataclass(frozen=True, kw_only=True)
class ColumnKind:
    """A column in a condition: its `key` in a batch, and the kind of its values.

    `kind` is "number", "time" (integers in `unit`), "text", "boolean", "untyped", "unknown" (nulls, whose type is not known
    yet), or "op" and "delete", which are derived from a column of deletes that may be missing.  `of_tuple` marks the columns
    that every tuple has.
    """

    key: str
    kind: str
    unit: str | None = None
    of_tuple: bool = False


def tuple_kinds(*, vertex: str = "text", unit: str | None = None, has_stream: bool = True) -> dict[str, ColumnKind]:
    """Return the columns that every tuple has, for use in a condition; `vertex` is the kind of source and target."""
    kinds = {
        "source": ColumnKind(key="source", kind=vertex, of_tuple=True),
        "target": ColumnKind(key="target", kind=vertex, of_tuple=True),
        "label": ColumnKind(key="label", kind="text", of_tuple=True),
        "timestamp": ColumnKind(key="timestamp", kind="time", unit=unit, of_tuple=True),
        "op": ColumnKind(key=DELETE, kind="op", of_tuple=True),
        DELETE: ColumnKind(key=DELETE, kind="delete", of_tuple=True),
    }
    return {**kinds, STREAM: ColumnKind(key=STREAM, kind="text", of_tuple=True)} if has_stream else kinds


@dataclass(frozen=True)
class _Expression:
    kind: str
    run: Callable[[Columns], Value]
    unit: str | None = None
    literal: Any = None


class Predicate:
    """A condition bound to the columns of an input.  Raises `WhereError` for an unknown column or a wrong type."""

    def __init__(self, where: Where, columns: Mapping[str, ColumnKind]) -> None:
        self._where = where
        self._columns = columns
        used = [columns[name] for name in where.names if name in columns]
        self.keys = frozenset(one.key for one in used)
        self._keeps_deletes = not all(one.of_tuple for one in used)
        bound = self._condition(where.tree)
        self._run = bound.run

    def mask(self, columns: Columns, count: int) -> tuple[np.ndarray, int]:
        """Return the mask of the selected rows of `count`, and the number of rows for which the condition is null.

        The column "delete", if present, marks the deletes.
        """
        verdict = self._run(columns)
        if isinstance(verdict, pa.Scalar):
            verdict = pa.array([verdict.as_py()], pa.bool_()).take(pa.array(np.zeros(count, np.int8)))
        if self._keeps_deletes and DELETE in columns:
            verdict = pc.or_kleene(verdict, columns[DELETE])
        return verdict.fill_null(False).to_numpy(zero_copy_only=False), verdict.null_count

    def _bind(self, node: Node) -> _Expression:
        match node:
            case Literal(value):
                return _literal(value)
            case Name(name, column=column):
                return self._name(name, column)
            case Logical(word, parts):
                join = pc.and_kleene if word == "and" else pc.or_kleene
                runs = [self._condition(part).run for part in parts]
                return _Expression("boolean", lambda columns: functools.reduce(join, (run(columns) for run in runs)))
            case Not(inner):
                run = self._condition(inner).run
                return _Expression("boolean", lambda columns: pc.invert(run(columns)))
            case Comparison(sign, left, right, column=column):
                return self._compare(sign, self._bind(left), self._bind(right), column)
            case In(inner, values, column=column):
                bound = self._bind(inner)
                found = [self._compare("==", bound, self._bind(value), column).run for value in values]
                return _Expression(
                    "boolean", lambda columns: functools.reduce(pc.or_kleene, (run(columns) for run in found))
                )
            case Between(inner, low, high, column=column):
                bound = self._bind(inner)
                above = self._compare(">=", bound, self._bind(low), column).run
                below = self._compare("<=", bound, self._bind(high), column).run
                return _Expression("boolean", lambda columns: pc.and_kleene(above(columns), below(columns)))
            case IsNull(inner):
                some = self._bind(inner).run
                return _Expression("boolean", lambda columns: _is_null(some(columns)))
            case Arithmetic(sign, left, right, column=column):
                return self._calculate(sign, self._bind(left), self._bind(right), column)
            case Call(function, arguments, column=column):
                return self._call(function, [self._bind(argument) for argument in arguments], column)
        raise AssertionError(node)

    def _name(self, name: str, column: int) -> _Expression:
        kind = self._columns.get(name)
        if kind is None:
            listed = ", ".join(self._columns)
            raise self._where.error(
                f"unknown column {name!r}{did_you_mean(name, list(self._columns))}; the columns are {listed}", column
            )
        if kind.kind not in (*_KINDS, "op", DELETE):
            raise self._where.error(f"column {name!r} has the type {kind.kind}, which conditions do not support", column)
        key = kind.key
        if kind.kind == "unknown":
            return _Expression("unknown", lambda columns: columns[key])
        if kind.kind == "untyped":
            return _Expression("untyped", lambda columns: UntypedColumn(columns[key]))
        if kind.kind == "op":
            return _Expression(
                "text", lambda columns: pc.if_else(columns[key], "-", "+") if key in columns else pa.scalar("+")
            )
        if kind.kind == DELETE:
            return _Expression("boolean", lambda columns: columns[key] if key in columns else pa.scalar(False))
        return _Expression(kind.kind, lambda columns: _to_plain(columns[key]), unit=kind.unit)

    def _condition(self, node: Node) -> _Expression:
        """Bind a node that has to be a condition."""
        bound = self._bind(node)
        if bound.kind == "untyped":
            return _Expression("boolean", lambda columns: bound.run(columns).booleans())
        if bound.kind == "unknown":
            return _nulls_like(bound)
        if bound.kind != "boolean":
            raise self._where.error(f"is {_KINDS[bound.kind]}; expected a condition such as amount > 10", node.column)
        return bound

    def _compare(self, sign: str, left: _Expression, right: _Expression, column: int) -> _Expression:
        left, right = self._as_time(left, right, column), self._as_time(right, left, column)
        for one in (left, right):
            if one.kind == "unknown":
                return _nulls_like(one)
        compare = _COMPARE[sign]
        if {left.kind, right.kind} == {"time", "duration"} and (left.unit or right.unit):
            raise self._where.error(f"{_KINDS[left.kind]} is compared with {_KINDS[right.kind]}", column)
        kinds = {"number" if one.kind in _NUMBERS else one.kind for one in (left, right)}
        if kinds == {"untyped"}:

            def run(columns: Columns) -> Value:
                one, other = left.run(columns), right.run(columns)
                return pc.coalesce(_compare_numbers(sign, one, other), compare(one.texts(), other.texts()))

            return _Expression("boolean", run)
        typed = kinds - {"untyped"}
        if len(typed) > 1:
            hint = "; number(…) and text(…) convert one to the other" if typed == {"number", "text"} else ""
            raise self._where.error(f"{_KINDS[left.kind]} is compared with {_KINDS[right.kind]}{hint}", column)
        left, right = self._in_one_unit(left, right, column)
        kind = typed.pop()
        if kind == "number":
            return _Expression("boolean", lambda columns: _compare_numbers(sign, left.run(columns), right.run(columns)))
        cast = _texts if kind == "text" else _booleans
        return _Expression("boolean", lambda columns: compare(cast(left.run(columns)), cast(right.run(columns))))

    def _as_time(self, one: _Expression, other: _Expression, column: int) -> _Expression:
        """Convert a text literal that is compared with a time or a duration to one; return any other operand unchanged."""
        if other.kind == "duration":
            return self._as_duration(one, other, column)
        if other.kind != "time" or not isinstance(one.literal, str):
            return one
        kind = time_kind(one.literal)
        if kind is None or other.unit is None:
            reason = "is not a time" if kind is None else "is a time, but the times of this input are plain numbers"
            raise self._where.error(f"{quote_value(one.literal)} {reason}", column)
        try:
            return _literal(check_time(one.literal, "", kind=kind, unit=other.unit))
        except FieldError as error:
            raise self._where.error(error.message, column) from error

    def _as_duration(self, one: _Expression, other: _Expression, column: int) -> _Expression:
        """Convert a text literal beside a time or a duration to a duration; return any other operand unchanged."""
        if not isinstance(one.literal, str) or other.kind not in ("time", "duration", "unknown"):
            return one
        try:
            if other.kind == "unknown":
                nanoseconds_of(one.literal)
                return replace(one, kind="duration")
            if other.unit is None:
                text = quote_value(one.literal)
                raise DurationError(f"{text} is a duration, but the times of this input are plain numbers")
            return replace(_literal(parse_duration(one.literal, unit=other.unit)), kind="duration", unit=other.unit)
        except DurationError as error:
            raise self._where.error(str(error), column) from error

    def _in_one_unit(self, left: _Expression, right: _Expression, column: int) -> tuple[_Expression, _Expression]:
        """Return times or durations in the finer of their units; a time beyond 64 bits in it is null."""
        if left.unit == right.unit or "number" in (left.kind, right.kind) or "untyped" in (left.kind, right.kind):
            return left, right
        if left.unit is None or right.unit is None:
            with_unit, other = (left, right) if right.unit is None else (right, left)
            beside = f"{_KINDS[other.kind]} that is a plain number"
            raise self._where.error(f"{_KINDS[with_unit.kind]} in {with_unit.unit} beside {beside}", column)
        finer = min(left.unit, right.unit, key=NANOSECONDS.__getitem__)
        return _in_unit(left, finer), _in_unit(right, finer)

    def _calculate(self, sign: str, left: _Expression, right: _Expression, column: int) -> _Expression:
        left, right = self._as_duration(left, right, column), self._as_duration(right, left, column)
        for one in (left, right):
            if one.kind not in (*_NUMBERS, "untyped", "unknown"):
                raise self._where.error(f"{_KINDS[one.kind]} is not a number, so arithmetic does not apply", column)
        for one in (left, right):
            if one.kind == "unknown":
                return one
        left, right = self._in_one_unit(left, right, column)
        kind = _ARITHMETIC_KINDS.get((left.kind, sign, right.kind), "number")
        unit = (left.unit or right.unit) if kind != "number" else None
        return _Expression(
            kind, unit=unit, run=lambda columns: _calculate(sign, _number(left.run(columns)), _number(right.run(columns)))
        )

    def _call(self, function: str, arguments: list[_Expression], column: int) -> _Expression:
        arguments = [replace(one, kind="untyped", run=_untyped(one)) if one.kind == "unknown" else one for one in arguments]
        first = arguments[0]
        if function in ("number", "abs"):
            if function == "abs" and first.kind not in ("number", "duration", "untyped"):
                raise self._where.error(f"abs of {_KINDS[first.kind]}; expected a number", column)
            if function == "abs":
                kind = "duration" if first.kind == "duration" else "number"
                return _Expression(kind, lambda columns: pc.abs(_number(first.run(columns))), unit=first.unit)
            if first.kind == "duration":
                return replace(first, kind="number", unit=None)
            if first.kind in ("number", "time"):
                return first
            return _Expression("number", lambda columns: _convert(first.run(columns), _number))
        if function == "text":
            return _Expression("text", lambda columns: _convert(first.run(columns), UntypedColumn.texts))
        if first.kind not in ("text", "untyped"):
            raise self._where.error(
                f"{function} of {_KINDS[first.kind]}; expected text; text(…) converts to text", column
            )
        call, options = _TEXT_FUNCTIONS[function], []
        for argument in arguments[1:]:
            if not isinstance(argument.literal, str):
                raise self._where.error(f"the second argument of {function} must be a text in quotes", column)
            options.append(argument.literal)
        try:
            call(pa.array(["a"]), *options)
        except pa.ArrowInvalid as error:
            raise self._where.error(f"{options[0]!r} is not a regular expression: {error}", column) from error
        kind = {"lower": "text", "upper": "text", "length": "number"}.get(function, "boolean")
        return _Expression(kind, lambda columns: call(_texts(first.run(columns)), *options))


_ARITHMETIC_KINDS = {
    ("time", "-", "time"): "duration",
    ("time", "+", "duration"): "time",
    ("time", "-", "duration"): "time",
    ("duration", "+", "time"): "time",
    ("duration", "+", "duration"): "duration",
    ("duration", "-", "duration"): "duration",
    ("duration", "%", "duration"): "duration",
    ("duration", "*", "number"): "duration",
    ("number", "*", "duration"): "duration",
    ("duration", "/", "number"): "duration",
}
"""The kinds of results of arithmetic that are not plain numbers."""


def _in_unit(one: _Expression, unit: str) -> _Expression:
    """Return a time or a duration in a finer unit."""
    if one.unit is None or one.unit == unit:
        return one
    factor = pa.scalar(NANOSECONDS[one.unit] // NANOSECONDS[unit])
    return replace(one, unit=unit, run=lambda columns: _calculate("*", one.run(columns), factor))


def _nulls_like(one: _Expression) -> _Expression:
    """Return a condition that is null in each row; an operand of unknown type determines the number of rows."""
    return _Expression("boolean", lambda columns: pa.nulls(len(one.run(columns)), pa.bool_()))


def _untyped(one: _Expression) -> Callable[[Columns], Value]:
    return lambda columns: UntypedColumn(pa.nulls(len(one.run(columns)), pa.string()))


def kind_of_type(type_: pa.DataType) -> tuple[str, str | None]:
    """Return the kind and the unit of a typed column, as in `ColumnKind`."""
    original, type_ = type_, plain_type(type_)
    if pa.types.is_dictionary(type_):
        type_ = type_.value_type
    if pa.types.is_timestamp(type_):
        return "time", type_.unit
    if pa.types.is_date(type_):
        return "time", "s"
    if pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_):
        return "number", None
    if pa.types.is_boolean(type_):
        return "boolean", None
    if pa.types.is_string(type_):
        return "text", None
    return str(original), None


def _literal(value: int | float | str | bool) -> _Expression:
    kind = "boolean" if isinstance(value, bool) else "text" if isinstance(value, str) else "number"
    scalar = pa.scalar(value)
    return _Expression(kind, lambda columns: scalar, literal=value)


def _to_plain(column: pa.Array) -> pa.Array:
    """Convert a typed column to text, int64, float64, decimal or bool."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_date(column.type):
        column = column.cast(pa.timestamp("s"))
    type_ = column.type
    if pa.types.is_boolean(type_) or type_ in (pa.string(), pa.int64(), pa.float64()):
        return column
    if pa.types.is_timestamp(type_) or (pa.types.is_integer(type_) and type_ != pa.uint64()):
        return column.cast(pa.int64())
    if pa.types.is_floating(type_):
        return pc.cast(column, pa.float64(), safe=False)
    if type_ == pa.uint64():
        try:
            return column.cast(pa.int64())
        except pa.ArrowInvalid:
            return column.cast(pa.decimal128(20, 0))
    return column


def _convert(value: Value, convert: Callable[[UntypedColumn], pa.Array]) -> Value:
    """Convert values of any type as if they came from a text file: true becomes `true`, and text may be a number."""
    if isinstance(value, pa.Scalar):
        return convert(UntypedColumn(pa.array([value.as_py()], value.type)))[0]
    return convert(value if isinstance(value, UntypedColumn) else UntypedColumn(value))


def _texts(value: Value) -> Value:
    return value.texts() if isinstance(value, UntypedColumn) else value


def _booleans(value: Value) -> Value:
    return value.booleans() if isinstance(value, UntypedColumn) else value


def _is_null(value: Value) -> Value:
    value = _texts(value)
    return pa.scalar(not value.is_valid) if isinstance(value, pa.Scalar) else value.is_null()


def _numbers(value: Value) -> tuple[Value, ...]:
    return value.numbers() if isinstance(value, UntypedColumn) else (value,)


def _number(value: Value) -> Value:
    """Return numbers as one array; untyped numbers become floats."""
    if not isinstance(value, UntypedColumn):
        return value
    parts = [_float(part) for part in value.numbers()]
    return parts[0] if len(parts) == 1 else pc.coalesce(*parts)


def _float(value: Value) -> Value:
    return pc.cast(value, pa.float64(), safe=False)


def _common_type(one: Value, other: Value) -> tuple[Value, Value]:
    """Return two numbers with a common type, both integers or both floats; Arrow rejects large integers."""
    return (one, other) if one.type == other.type else (_float(one), _float(other))


def _compare_numbers(sign: str, left: Value, right: Value) -> Value:
    found = [_compare_exactly(sign, one, other) for one in _numbers(left) for other in _numbers(right)]
    return found[0] if len(found) == 1 else pc.coalesce(*found)


def _compare_exactly(sign: str, left: Value, right: Value) -> Value:
    """Compare numbers by their exact values: a conversion of an integer to a float may round it."""
    if left.type == right.type and not pa.types.is_decimal(left.type):
        return _COMPARE[sign](left, right)
    if pa.types.is_decimal(left.type) or pa.types.is_decimal(right.type):
        return _compare_decimals(sign, left, right)
    if pa.types.is_floating(left.type) and pa.types.is_integer(right.type):
        return _compare_exactly(MIRRORED[sign], right, left)
    order = _order_of_integers_and_floats(left, right)
    if isinstance(order, pa.Array):
        return _COMPARE[sign](order, pa.scalar(0.0))
    return pa.scalar(None if order is None else COMPARE[sign](order, 0), pa.bool_())


def _compare_decimals(sign: str, left: Value, right: Value) -> Value:
    """Compare decimals with numbers by their exact values, one by one where 256 bits do not hold both sides."""
    try:
        return _COMPARE[sign](_decimals(left), _decimals(right))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        pass
    if isinstance(left, pa.Scalar) and isinstance(right, pa.Scalar):
        return pa.scalar(_compare_one(sign, left.as_py(), right.as_py()), pa.bool_())
    size = max(len(one) for one in (left, right) if isinstance(one, pa.Array))
    rows = zip(_values(left, size), _values(right, size), strict=True)
    return pa.array([_compare_one(sign, *row) for row in rows], pa.bool_())


def _compare_one(sign: str, left: Any, right: Any) -> bool | None:
    """Compare two numbers by their exact values; None where one is missing. Python's decimals refuse to order NaN."""
    if left is None or right is None:
        return None
    if math.isnan(left) or math.isnan(right):
        return sign == "!="
    return bool(COMPARE[sign](left, right))


def _decimals(value: Value) -> Value:
    """Return numbers as decimals of the same values. Raises `ArrowInvalid` where the numbers have no scale in common."""
    if pa.types.is_decimal(value.type):
        return value
    if pa.types.is_integer(value.type):
        return value.cast(pa.decimal128(19, 0))
    number = value.as_py() if isinstance(value, pa.Scalar) else None
    if number is None or not math.isfinite(number):
        raise pa.ArrowInvalid("floats have no scale in common")
    return pa.scalar(decimal.Decimal(number))


def _order_of_integers_and_floats(integers: Value, floats: Value) -> Value:
    """Return for each row -1, 0 or 1, how an int64 compares with a float64; NaN where that is NaN, null where one is null.

    Rounding an integer to a float preserves the order, so the integer itself is compared only where its rounded value equals
    the float.
    """
    if isinstance(integers, pa.Scalar) and isinstance(floats, pa.Scalar):
        one, other = integers.as_py(), floats.as_py()
        if one is None or other is None:
            return None
        return math.nan if math.isnan(other) else (one > other) - (one < other)
    nulls = [pc.is_null(one) for one in (integers, floats)]
    one = np.asarray(_fill_nulls(integers, 0))
    other = np.asarray(_fill_nulls(floats, 0.0))
    rounded = one.astype(np.float64)
    order = np.where(np.isnan(other), np.nan, (rounded > other).astype(np.float64) - (rounded < other))
    equal = np.flatnonzero(rounded == other)
    equal = equal[np.abs(np.broadcast_to(rounded, order.shape)[equal]) >= EXACT]
    for row in equal.tolist():  # integers beyond 2^53 that round to just this float
        exact, number = int(np.broadcast_to(one, order.shape)[row]), int(np.broadcast_to(other, order.shape)[row])
        order[row] = (exact > number) - (exact < number)
    is_null = pc.or_(*nulls)
    mask = is_null.to_numpy(zero_copy_only=False) if isinstance(is_null, pa.Array) else np.full(len(order), is_null.as_py())
    return pa.array(order, mask=mask, from_pandas=False)


def _fill_nulls(value: Value, nothing: float) -> Any:
    """Return numbers as a numpy array or a number, with `nothing` in place of nulls."""
    if isinstance(value, pa.Scalar):
        return np.array([nothing if value.as_py() is None else value.as_py()])
    return pc.fill_null(value, pa.scalar(nothing, value.type)).to_numpy(zero_copy_only=False)


_WIDE = decimal.Context(prec=76)
"""The context of decimals of 256 bits."""


def _calculate_decimals(sign: str, left: Value, right: Value) -> Value:
    """Return sums, differences, products and remainders of decimals and integers, exactly; null where they are too long."""
    calculate = {"+": _WIDE.add, "-": _WIDE.subtract, "*": _WIDE.multiply, "%": _remainder}[sign]
    size = max((len(one) for one in (left, right) if isinstance(one, pa.Array)), default=1)
    found = []
    for one, other in zip(_values(left, size), _values(right, size), strict=True):
        is_nothing = one is None or other is None or (sign == "%" and not other)
        found.append(None if is_nothing else calculate(decimal.Decimal(one), decimal.Decimal(other)))
    try:
        values = pa.array(found, None if any(one is not None for one in found) else pa.decimal128(38, 0))
    except pa.ArrowInvalid:
        values = pa.array([None if one is None else float(one) for one in found], pa.float64())
    return values if isinstance(left, pa.Array) or isinstance(right, pa.Array) else values[0]


def _remainder(one: decimal.Decimal, other: decimal.Decimal) -> decimal.Decimal:
    rest = _WIDE.remainder(one, other)
    return _WIDE.add(rest, other) if rest and (rest < 0) != (other < 0) else rest


def _calculate(sign: str, left: Value, right: Value) -> Value:
    has_decimals = any(pa.types.is_decimal(one.type) for one in (left, right))
    if sign != "/" and has_decimals and not any(pa.types.is_floating(one.type) for one in (left, right)):
        return _calculate_decimals(sign, left, right)
    left, right = _common_type(left, right)
    if sign in _EXACT:
        checked, exact = _EXACT[sign]
        try:
            return checked(left, right)
        except pa.ArrowInvalid:  # results beyond 64 bits are null, and other rows are not affected
            size = max((len(one) for one in (left, right) if isinstance(one, pa.Array)), default=1)
            rows = zip(_values(left, size), _values(right, size), strict=True)
            values = [None if one is None or other is None else exact(one, other) for one, other in rows]
            return pa.array([one if one is None or -(2**63) <= one < 2**63 else None for one in values], pa.int64())
    if sign == "/":
        left, right = _float(left), _float(right)
    divisor = pc.if_else(pc.equal(right, 0), pa.scalar(None, right.type), right)
    if sign == "/":
        return pc.divide(left, divisor)
    if pa.types.is_floating(left.type):
        return pc.subtract(left, pc.multiply(pc.floor(pc.divide(left, divisor)), divisor))
    rest = pc.subtract(left, pc.multiply(pc.divide(left, divisor), divisor))  # truncated division: has the sign of left
    wrong = pc.and_(pc.not_equal(rest, 0), pc.not_equal(pc.less(rest, 0), pc.less(divisor, 0)))
    return pc.if_else(wrong, pc.add(rest, divisor), rest)


def _values(value: Value, size: int) -> list[Any]:
    return [value.as_py()] * size if isinstance(value, pa.Scalar) else value.to_pylist()
