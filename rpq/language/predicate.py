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
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rpq.errors import did_you_mean
from rpq.language.where import (
    COMPARE,
    EXACT,
    MIRRORED,
    UNROUNDED,
    Arithmetic,
    Between,
    Call,
    Comparison,
    In,
    IsNull,
    Logical,
    Name,
    Node,
    Not,
    Where,
    WhereConstant,
    exact_number,
)
from rpq.stream.arrays.fields import DELETE, STREAM, FieldError, check_time, quote_value, time_kind
from rpq.stream.arrays.plain_columns import plain_type
from rpq.stream.arrays.properties import NUMBER, decimal_type
from rpq.stream.durations import NANOSECONDS, DurationError, nanoseconds_of, parse_duration


class UntypedColumn:
    """Values without a column type: an array of text, or of int64, float64 or bool if the format has such values."""

    def __init__(self, values: pa.Array) -> None:
        self._values = values

    def texts(self) -> pa.Array:
        """Return the values as text; empty values are null."""
        return self._texts

    @functools.cached_property
    def _texts(self) -> pa.Array:
        values = self._values
        if pa.types.is_string(values.type):
            return pc.if_else(pc.equal(values, ""), pa.scalar(None, pa.string()), values)
        if pa.types.is_floating(values.type):
            return texts_of(values.to_pylist())
        if pa.types.is_decimal(values.type):
            return pa.array([None if one is None else _number_text(one) for one in values.to_pylist()], pa.string())
        return values.cast(pa.string())

    def is_valid(self) -> pa.Array:
        """Return which values are not null."""
        return (self.texts() if pa.types.is_string(self._values.type) else self._values).is_valid()

    def numbers(self) -> ExactNumbers:
        """Return the values as numbers; other values are null."""
        values = self._values
        if pa.types.is_boolean(values.type):
            return ExactNumbers(pa.nulls(len(values), pa.int64()))
        if values.type in (pa.int64(), pa.float64()):
            return ExactNumbers(values)
        texts = self.texts()
        try:
            quick = texts.cast(pa.float64())
        except pa.ArrowInvalid:
            pass
        else:
            if int(np.count_nonzero(np.isfinite(_numpy(quick)))) == len(quick) - quick.null_count:
                return ExactNumbers(texts, quick)
        texts = pc.utf8_trim(texts, " \t")
        texts = pc.if_else(pc.match_substring_regex(texts, NUMBER), texts, pa.scalar(None, pa.string()))
        return ExactNumbers(pc.utf8_ltrim(texts, "+"))

    def booleans(self) -> pa.Array:
        """Return the values as booleans; other values are null."""
        if pa.types.is_boolean(self._values.type):
            return self._values
        texts = pc.utf8_lower(self.texts())
        is_boolean = pc.is_in(texts, pa.array(["true", "false"]))
        return pc.if_else(is_boolean, pc.equal(texts, "true"), pa.scalar(None, pa.bool_()))


class WrittenFloat(float):
    """A number of JSON that is another one than its nearest float; `text` is its notation."""

    text: str


def float_of(text: str) -> float:
    """Return a number of JSON as a float, as a `WrittenFloat` if the float represents another number.

    >>> type(float_of("0.10")), float_of("0.1000000000000000055511").text
    (<class 'float'>, '0.1000000000000000055511')
    """
    found = float(text)
    if repr(found) == text or Decimal(repr(found)) == Decimal(text):
        return found
    written = WrittenFloat(found)
    written.text = text
    return written


def texts_of(values: Sequence[Any]) -> pa.Array:
    """Return JSON values as text.

    >>> texts_of(["a", 5, 5.0, 0.25, True, None, {"b": [1]}]).to_pylist()
    ['a', '5', '5', '0.25', 'true', None, '{"b":[1]}']
    """
    return pa.array([_text(value) for value in values], pa.string())


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, WrittenFloat):
        return value.text
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return str(int(value)) if value.is_integer() and abs(value) < EXACT else repr(value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


class ExactNumbers:
    """Numbers as they are written, which no type of Arrow may hold: texts, or int64, or float64 in its shortest notation."""

    def __init__(self, values: pa.Array, floats: pa.Array | None = None) -> None:
        self._values = values
        self._floats = floats

    def __len__(self) -> int:
        return len(self._values)

    def is_null(self) -> pa.Array:
        """Return which numbers are missing."""
        return self._values.is_null()

    def texts(self) -> pa.Array:
        """Return the numbers as text."""
        return self._values.cast(pa.string())

    def floats(self) -> pa.Array:
        """Return the nearest floats."""
        if self._floats is None:
            self._floats = pc.cast(self._values, pa.float64(), safe=False)
        return self._floats

    def decimals(self) -> pa.Array:
        """Return the numbers as decimals of one type. Raises `ValueError` where none holds them all."""
        if pa.types.is_integer(self._values.type):
            return self._values.cast(pa.decimal128(19, 0))
        texts = self.texts()
        if pc.any(pc.match_substring(texts, "e", ignore_case=True)).as_py():
            raise pa.ArrowInvalid("an exponent determines no scale")
        point = _numpy(pc.find_substring(texts, ".").fill_null(-1))
        length = _numpy(pc.utf8_length(texts).fill_null(0))
        whole = int(np.where(point < 0, length, point).max(initial=1))
        scale = int(np.where(point < 0, 0, length - point - 1).max(initial=0))
        return texts.cast(decimal_type(whole + scale, scale))

    def numbers(self, rows: np.ndarray) -> list[int | Decimal | None]:
        """Return some of the numbers."""
        values = self._values.take(pa.array(rows))
        if pa.types.is_integer(values.type):
            return list(values.to_pylist())
        return [None if text is None else Decimal(text) for text in values.cast(pa.string()).to_pylist()]

    def are_floats(self, rows: np.ndarray) -> np.ndarray:
        """Return which of some numbers are known to be equal to their floats: integers of few digits."""
        floats = _numpy(self.floats())[rows]
        found: np.ndarray = (np.abs(floats) < EXACT) & (floats == np.rint(floats))
        if pa.types.is_string(self._values.type):  # 15 digits, of which a float is the float of one number alone
            texts = self._values.take(pa.array(rows))
            has_exponent = pc.match_substring(texts, "e", ignore_case=True)
            found &= _numpy(pc.and_not(pc.less_equal(pc.binary_length(texts), 15), has_exponent).fill_null(False))
        return found


def _numpy(values: pa.Array) -> np.ndarray:
    """Return values as a numpy array, in which a missing number is NaN."""
    found: np.ndarray = values.to_numpy(zero_copy_only=False)
    return found


def _number_text(number: Decimal) -> str:
    """Return a number as text, equal numbers as equal texts."""
    number = UNROUNDED.normalize(number)
    return format(number, "f") if abs(number.adjusted()) < 100 else str(number)


Columns: TypeAlias = Mapping[str, pa.Array]
Value: TypeAlias = Any
"""An Arrow array, an `UntypedColumn` or `ExactNumbers`; or a constant: text or a boolean as an Arrow scalar, a number as an
`int`, a `Decimal` or a `float`, or None."""

_COMPARE = {
    "==": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_CHECKED = {"+": pc.add_checked, "-": pc.subtract_checked, "*": pc.multiply_checked}
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
        self._non_numeric: list[np.ndarray] = []
        bound = self._condition(where.tree)
        self._run = bound.run

    def mask(self, columns: Columns, count: int) -> tuple[np.ndarray, int]:
        """Return the mask of the selected rows of `count`, and the number of rows for which the condition is null.

        The column "delete", if present, marks the deletes. Afterwards, `non_numeric` has the rows with a text in place of
        a number.
        """
        self._non_numeric.clear()
        verdict = self._run(columns)
        if isinstance(verdict, pa.Scalar):
            verdict = pa.array([verdict.as_py()], pa.bool_()).take(pa.array(np.zeros(count, np.int8)))
        if self._keeps_deletes and DELETE in columns:
            verdict = pc.or_kleene(verdict, columns[DELETE])
        return verdict.fill_null(False).to_numpy(zero_copy_only=False), verdict.null_count

    @property
    def non_numeric(self) -> np.ndarray | None:
        """The mask of the rows in which the last call of `mask` found a text where a number is needed; None for no row."""
        return functools.reduce(np.logical_or, self._non_numeric) if self._non_numeric else None

    def _bind(self, node: Node) -> _Expression:
        match node:
            case WhereConstant(value):
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
                return pc.coalesce(_compare_numbers(sign, _number(one), _number(other)), compare(one.texts(), other.texts()))

            return _Expression("boolean", run)
        typed = kinds - {"untyped"}
        if len(typed) > 1:
            hint = "; number(…) and text(…) convert one to the other" if typed == {"number", "text"} else ""
            raise self._where.error(f"{_KINDS[left.kind]} is compared with {_KINDS[right.kind]}{hint}", column)
        left, right = self._in_one_unit(left, right, column)
        kind = typed.pop()
        if kind == "number":
            left_run, right_run = self._numeric(left), self._numeric(right)
            return _Expression("boolean", lambda columns: _compare_numbers(sign, left_run(columns), right_run(columns)))
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
        left_run, right_run = self._numeric(left), self._numeric(right)
        return _Expression(kind, unit=unit, run=lambda columns: _calculate(sign, left_run(columns), right_run(columns)))

    def _numeric(self, one: _Expression) -> Callable[[Columns], Value]:
        """Return an operand as numbers; note the rows in which it is a text that is not a number."""

        def run(columns: Columns) -> Value:
            value = one.run(columns)
            numbers = _number(value)
            if isinstance(value, UntypedColumn):
                non_numeric = pc.and_(value.is_valid(), numbers.is_null())
                if non_numeric.true_count:
                    self._non_numeric.append(_numpy(non_numeric))
            return numbers

        return run

    def _call(self, function: str, arguments: list[_Expression], column: int) -> _Expression:
        arguments = [replace(one, kind="untyped", run=_untyped(one)) if one.kind == "unknown" else one for one in arguments]
        first = arguments[0]
        if function in ("number", "abs"):
            if function == "abs" and first.kind not in ("number", "duration", "untyped"):
                raise self._where.error(f"abs of {_KINDS[first.kind]}; expected a number", column)
            if function == "abs":
                kind = "duration" if first.kind == "duration" else "number"
                value = self._numeric(first)
                return _Expression(kind, lambda columns: _absolute(value(columns)), unit=first.unit)
            if first.kind == "duration":
                return replace(first, kind="number", unit=None)
            if first.kind in ("number", "time"):
                return first
            return _Expression("number", lambda columns: _numbers_of_any(first.run(columns)))
        if function == "text":
            return _Expression("text", lambda columns: _texts_of_any(first.run(columns)))
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
    factor = NANOSECONDS[one.unit] // NANOSECONDS[unit]
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


def _literal(value: int | Decimal | str | bool) -> _Expression:
    if not isinstance(value, (bool, str)):
        return _Expression("number", lambda columns: value, literal=value)
    scalar = pa.scalar(value)
    return _Expression("boolean" if isinstance(value, bool) else "text", lambda columns: scalar, literal=value)


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


def _untyped_values(value: Value) -> UntypedColumn:
    """Return values of any type as if they came from a text file: true becomes `true`, and text may be a number."""
    if isinstance(value, ExactNumbers):
        return UntypedColumn(value.texts())
    return value if isinstance(value, UntypedColumn) else UntypedColumn(value)


def _texts_of_any(value: Value) -> Value:
    """Return values of any type as texts."""
    if isinstance(value, (pa.Array, ExactNumbers, UntypedColumn)):
        return _untyped_values(value).texts()
    value = value.as_py() if isinstance(value, pa.Scalar) else value
    return pa.scalar(_number_text(value) if isinstance(value, Decimal) else _text(value), pa.string())


def _numbers_of_any(value: Value) -> Value:
    """Return values of any type as numbers, null for texts that are not numbers."""
    if not isinstance(value, pa.Scalar):
        return _untyped_values(value).numbers()
    (number,) = UntypedColumn(pa.array([value.as_py()], value.type)).numbers().numbers(np.zeros(1, np.int64))
    return number


def _texts(value: Value) -> Value:
    return value.texts() if isinstance(value, UntypedColumn) else value


def _booleans(value: Value) -> Value:
    return value.booleans() if isinstance(value, UntypedColumn) else value


def _is_null(value: Value) -> Value:
    value = _texts(value)
    if isinstance(value, (pa.Array, ExactNumbers)):
        return value.is_null()
    return pa.scalar(not value.is_valid if isinstance(value, pa.Scalar) else value is None)


# --- numbers -------------------------------------------------------------------------------------------------

_DIGITS = 1000
"""The most digits of a sum, a difference, a product or a remainder that is exact."""

_EXACT = decimal.Context(prec=_DIGITS, traps=[decimal.Inexact, decimal.InvalidOperation, decimal.Overflow])

_UNFIT = (ValueError, pa.ArrowNotImplementedError, pa.ArrowTypeError)
"""The exceptions for decimals that have no type in common."""


def _number(value: Value) -> Value:
    """Return numbers as int64, float64 or decimals of Arrow, as `ExactNumbers`, or as a constant."""
    if isinstance(value, UntypedColumn):
        return value.numbers()
    if isinstance(value, pa.Scalar):
        return value.as_py()
    return value.cast(pa.int64()) if isinstance(value, pa.Array) and value.type == pa.int32() else value


def _is_column(value: Value) -> bool:
    return isinstance(value, (pa.Array, ExactNumbers))


def _is_integer(value: Value) -> bool:
    return isinstance(value, int) or (isinstance(value, pa.Array) and pa.types.is_integer(value.type))


def _is_float(value: Value) -> bool:
    return isinstance(value, float) or (isinstance(value, pa.Array) and pa.types.is_floating(value.type))


def _float(value: Value) -> Value:
    """Return the nearest floats."""
    if isinstance(value, ExactNumbers):
        return value.floats()
    if not isinstance(value, pa.Array):
        return pa.scalar(float(value))
    if pa.types.is_decimal(value.type):  # Arrow rounds texts to the nearest float, decimals to one nearby
        value = value.cast(pa.string())
    return pc.cast(value, pa.float64(), safe=False)


def _decimals(value: Value) -> Value:
    """Return numbers as decimals of Arrow. Raises `ValueError` where they have no type in common."""
    if isinstance(value, ExactNumbers):
        return value.decimals()
    if not isinstance(value, pa.Array):
        return pa.scalar(Decimal(value))
    return value.cast(pa.decimal128(19, 0)) if pa.types.is_integer(value.type) else value


def _some(value: Value, rows: np.ndarray) -> list[Any]:
    """Return the numbers of some rows."""
    if isinstance(value, ExactNumbers):
        return value.numbers(rows)
    return list(value.take(pa.array(rows)).to_pylist()) if isinstance(value, pa.Array) else [value] * len(rows)


def _compare_numbers(sign: str, left: Value, right: Value) -> Value:
    """Compare numbers by their exact values; beside floats a constant is the nearest float."""
    if not _is_column(left) and not _is_column(right):
        return pa.scalar(_compare_one(sign, left, right), pa.bool_())
    if not _is_column(left):
        return _compare_numbers(MIRRORED[sign], right, left)
    if right is None:
        return pa.nulls(len(left), pa.bool_())
    if isinstance(left, pa.Array) and not _is_column(right):
        if pa.types.is_floating(left.type):
            return _COMPARE[sign](left, pa.scalar(float(right)))
        if not isinstance(right, float) or math.isfinite(right):
            return _compare_with_constant(sign, left, right if isinstance(right, int) else Decimal(right))
    elif isinstance(left, pa.Array) and isinstance(right, pa.Array):
        if left.type == right.type:
            return _COMPARE[sign](left, right)
        if not _is_float(left) and not _is_float(right):
            with suppress(*_UNFIT):
                return _COMPARE[sign](_decimals(left), _decimals(right))
    return _compare_by_floats(sign, left, right)


def _compare_one(sign: str, left: Any, right: Any) -> bool | None:
    """Compare two numbers by their exact values; None where one is missing. Python's decimals refuse to order NaN."""
    if left is None or right is None:
        return None
    if left != left or right != right:
        return sign == "!="
    return bool(COMPARE[sign](left, right))


def _compare_with_constant(sign: str, values: pa.Array, constant: int | Decimal) -> pa.Array:
    """Compare int64 or decimals with a constant: with the next lower number that their type has, if it has not this one."""
    is_integer = pa.types.is_integer(values.type)
    digits, scale = (19, 0) if is_integer else (values.type.precision, values.type.scale)
    number = Decimal(constant)
    if not number or number.adjusted() < digits - scale:
        low = number.quantize(Decimal((0, (1,), -scale)), rounding=decimal.ROUND_FLOOR, context=UNROUNDED)
        with suppress(pa.ArrowInvalid, OverflowError):
            bound = pa.scalar(int(low) if is_integer else low, values.type)
            if low == number:
                return _COMPARE[sign](values, bound)
            if sign not in ("==", "!="):
                return _COMPARE["<=" if sign in ("<", "<=") else ">"](values, bound)
    holds = sign == "!=" or (sign in ("<", "<=") and constant > 0) or (sign in (">", ">=") and constant < 0)
    return pc.if_else(values.is_valid(), pa.scalar(holds), pa.scalar(None, pa.bool_()))


def _compare_by_floats(sign: str, left: Value, right: Value) -> pa.Array:
    """Compare numbers of any types, exactly.

    Rounding to floats preserves the order, so the numbers themselves are compared only where their floats are equal.
    """
    size = len(left) if _is_column(left) else len(right)
    one, other = (np.broadcast_to(_floats_of(value), size) for value in (left, right))
    verdicts = COMPARE[sign](one, other)
    rows = np.flatnonzero(one == other)
    rows = rows[~(_are_floats(left, rows, one[rows]) & _are_floats(right, rows, one[rows]))]
    if len(rows):
        pairs = zip(_some(left, rows), _some(right, rows), strict=True)
        verdicts[rows] = [bool(_compare_one(sign, *pair)) for pair in pairs]
    is_null = np.zeros(size, bool)
    for value in (left, right):
        if _is_column(value):
            is_null |= _numpy(value.is_null())
    return pa.array(verdicts, mask=is_null)


def _floats_of(value: Value) -> np.ndarray:
    floats = _float(value)
    return _numpy(floats) if isinstance(floats, pa.Array) else np.array(floats.as_py())


def _are_floats(value: Value, rows: np.ndarray, floats: np.ndarray) -> np.ndarray:
    """Return which numbers of some rows are known to be equal to their floats."""
    if isinstance(value, ExactNumbers):
        return value.are_floats(rows)
    if _is_float(value):
        return np.ones(len(rows), bool)
    if _is_integer(value):
        found: np.ndarray = np.abs(floats) < EXACT
        return found
    return np.zeros(len(rows), bool)


def _calculate(sign: str, left: Value, right: Value) -> Value:
    """Return sums, differences, products and remainders, exactly unless an operand is a float, and quotients as floats.

    A result of integers beyond 64 bits is null, and so is another exact one with more than `_DIGITS` digits.
    """
    if not _is_column(left) and not _is_column(right):
        found = _calculate_one(sign, left, right)
        return exact_number(str(found)) if isinstance(found, Decimal) else found
    size = len(left) if _is_column(left) else len(right)
    if left is None or right is None:
        return pa.nulls(size, pa.int64())
    if sign == "/" or _is_float(left) or _is_float(right):
        return _calculate_floats(sign, _float(left), _float(right))
    if _is_integer(left) and _is_integer(right):
        return _calculate_integers(sign, left, right)
    if sign in _CHECKED:
        with suppress(*_UNFIT):
            return _CHECKED[sign](_decimals(left), _decimals(right))
    rows = np.arange(size)
    results = [_calculate_one(sign, *pair) for pair in zip(_some(left, rows), _some(right, rows), strict=True)]
    try:
        found = pa.array(results)
    except pa.ArrowInvalid:
        return ExactNumbers(pa.array([None if one is None else str(one) for one in results], pa.string()))
    return found.cast(pa.decimal128(1, 0)) if pa.types.is_null(found.type) else found


def _calculate_one(sign: str, left: Any, right: Any) -> Any:
    """Return the result for two numbers, a `Decimal` or a float; None for a missing one."""
    if left is None or right is None:
        return None
    if sign == "/" or isinstance(left, float) or isinstance(right, float):
        return _calculate_floats(sign, _float(left), _float(right)).as_py()
    calculate = {"+": _EXACT.add, "-": _EXACT.subtract, "*": _EXACT.multiply, "%": _remainder}[sign]
    try:
        return calculate(Decimal(left), Decimal(right))
    except decimal.DecimalException:
        return None


def _remainder(one: Decimal, other: Decimal) -> Decimal | None:
    if not other:
        return None
    rest = _EXACT.remainder(one, other)
    return _EXACT.add(rest, other) if rest and (rest < 0) != (other < 0) else rest


def _calculate_floats(sign: str, left: Value, right: Value) -> Value:
    if sign in _CHECKED:
        return _CHECKED[sign](left, right)
    divisor = pc.if_else(pc.equal(right, 0), pa.scalar(None, right.type), right)
    quotient = pc.divide(left, divisor)
    return quotient if sign == "/" else pc.subtract(left, pc.multiply(pc.floor(quotient), divisor))


def _calculate_integers(sign: str, left: Value, right: Value) -> pa.Array:
    if sign in _CHECKED:
        try:
            return _CHECKED[sign](left, right)
        except pa.ArrowInvalid:  # results beyond 64 bits are null, and other rows are not affected
            rows = np.arange(max(len(one) for one in (left, right) if isinstance(one, pa.Array)))
            pairs = zip(_some(left, rows), _some(right, rows), strict=True)
            results = [_calculate_one(sign, *pair) for pair in pairs]
            fits = [one is not None and -(2**63) <= one < 2**63 for one in results]
            return pa.array([int(one) if fit else None for one, fit in zip(results, fits, strict=True)], pa.int64())
    divisor = pc.if_else(pc.equal(right, 0), pa.scalar(None, pa.int64()), right)
    rest = pc.subtract(left, pc.multiply(pc.divide(left, divisor), divisor))  # truncated division: has the sign of left
    wrong = pc.and_(pc.not_equal(rest, 0), pc.not_equal(pc.less(rest, 0), pc.less(divisor, 0)))
    return pc.if_else(wrong, pc.add(rest, divisor), rest)


def _absolute(value: Value) -> Value:
    """Return absolute values; that of the least integer of 64 bits is null, as it is beyond them."""
    if not _is_column(value):
        return value if value is None or value >= 0 else _calculate("-", 0, value)
    if isinstance(value, ExactNumbers):
        return ExactNumbers(pc.utf8_ltrim(value.texts(), "-"))
    if not pa.types.is_integer(value.type):
        return pc.abs(value)
    return pc.if_else(pc.less(value, 0), _calculate("-", 0, value), value)
