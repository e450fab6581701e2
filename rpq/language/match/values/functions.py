"""The functions of values in MATCH by their names in lower case, as Cypher and GQL call them.

A function is null where an argument is null, of a type that it does not take, or outside its domain. Functions of texts take
the text of a loose value, functions of numbers its number.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rpq.language.match.values.operations import (
    equals,
    integer_or_null,
    loose_number,
    number_of,
    power,
    text_of,
    truth_of,
    written,
)
from rpq.language.match.values.times import (
    as_date,
    duration_of_fields,
    read_length,
    read_time,
    time_between,
    time_of_fields,
    with_zone,
)
from rpq.language.sparql.values.moments import Duration, Moment
from rpq.stream.names.list_terms import Loose


class Function(NamedTuple):
    """A function: the least and the greatest number of arguments (None: any), what it does, and the type of its result."""

    least: int
    most: int | None
    run: Callable[..., Any]
    result: str
    is_strict: bool = True
    """True if it is null where an argument is null, so that `run` never sees null."""


def _of_floats(function: Callable[..., float]) -> Callable[..., Any]:
    """Return a function of numbers that gives a float: NaN outside its domain, infinite beyond the floats."""

    def run(*values: Any) -> float | None:
        numbers = [number_of(value) for value in values]
        if None in numbers:
            return None
        try:
            return function(*map(float, numbers))
        except ValueError:
            return math.nan
        except OverflowError:
            return math.inf

    return run


def _logarithm(function: Callable[[float], float]) -> Callable[[float], float]:
    return lambda number: -math.inf if number == 0 else function(number)


def _absolute(value: Any) -> Any:
    if isinstance(value, Duration):
        return Duration(abs(value.months), abs(value.seconds))
    number = number_of(value)
    if type(number) is int:
        return integer_or_null(abs(number))
    return None if number is None else abs(number)


def _sign(value: Any) -> int | None:
    number = number_of(value)
    return None if number is None or number != number else (number > 0) - (number < 0)


def _rounded(mode: str) -> Callable[[Any], Any]:
    return lambda value: _round(value, 0, mode)


_MODES = {
    "UP": decimal.ROUND_UP,
    "DOWN": decimal.ROUND_DOWN,
    "CEILING": decimal.ROUND_CEILING,
    "FLOOR": decimal.ROUND_FLOOR,
    "HALF_UP": decimal.ROUND_HALF_UP,
    "HALF_DOWN": decimal.ROUND_HALF_DOWN,
    "HALF_EVEN": decimal.ROUND_HALF_EVEN,
}
_WIDE = decimal.Context(prec=1000, Emax=1000, Emin=-1000)


def _round(value: Any, digits: Any = None, mode: Any = "HALF_UP") -> Any:
    """Round a number to digits behind the point: a decimal to a decimal, others to a float.

    Without digits, halves are rounded towards positive infinity, otherwise away from zero, as in Cypher.
    """
    number, places = number_of(value), 0 if digits is None else number_of(digits)
    rounding = _MODES.get((text_of(mode) or "").upper())
    if number is None or type(places) is not int or abs(places) > 400 or rounding is None:
        return None
    if not math.isfinite(number):
        return float(number)
    exact = Decimal(repr(float(number))) if isinstance(number, float) else Decimal(number)
    if digits is None and exact < 0:
        rounding = decimal.ROUND_HALF_DOWN
    try:
        found = exact.quantize(Decimal((0, (1,), -places)), rounding, _WIDE)
    except decimal.DecimalException:
        return None
    return found if isinstance(number, Decimal) and isinstance(value, Decimal) else float(found)


def _to_integer(value: Any) -> int | None:
    if isinstance(value, bool):
        return int(value)
    number = loose_number(value) if isinstance(value, str) else number_of(value)
    if number is None or not math.isfinite(number) or abs(number) >= 2**64:
        return None
    return integer_or_null(int(number))


def _to_float(value: Any) -> float | None:
    number = loose_number(value) if isinstance(value, str) else number_of(value)
    return None if number is None else float(number)


def _to_number(value: Any) -> Any:
    return loose_number(value) if isinstance(value, str) else number_of(value)


def _to_boolean(value: Any) -> bool | None:
    if type(value) is int:
        return value != 0
    return truth_of(Loose(value.strip()) if isinstance(value, str) else value)


# --- texts -----------------------------------------------------------------------------------------------------------


def _of_texts(function: Callable[..., Any], count: int = 1) -> Callable[..., Any]:
    """Return a function whose first arguments are texts."""

    def run(*values: Any) -> Any:
        texts = [text_of(value) for value in values[:count]]
        return None if None in texts else function(*texts, *values[count:])

    return run


def _substring(text: str, start: Any, length: Any = None) -> str | None:
    first = number_of(start)
    count = len(text) if length is None else number_of(length)
    if type(first) is not int or type(count) is not int or first < 0 or count < 0:
        return None
    return text[first : first + count]


def _split(text: str, separators: Any) -> tuple[str, ...] | None:
    marks = [text_of(one) for one in separators] if isinstance(separators, tuple) else [text_of(separators)]
    if None in marks:
        return None
    if "" in marks:
        return tuple(text)
    parts = [text]
    for mark in marks:
        parts = [piece for part in parts for piece in part.split(mark)]
    return tuple(parts)


def _end(is_left: bool) -> Callable[[str, Any], str | None]:
    def run(text: str, count: Any) -> str | None:
        number = number_of(count)
        if type(number) is not int or number < 0:
            return None
        return text[:number] if is_left else text[max(len(text) - number, 0) :]

    return run


def _reverse(value: Any) -> Any:
    text = value if isinstance(value, tuple) else text_of(value)
    return None if text is None else text[::-1]


def _size(value: Any) -> int | None:
    text = value if isinstance(value, tuple) else text_of(value)
    return None if text is None else len(text)


@lru_cache(maxsize=65_536)
def _matches(text: str, pattern: str) -> bool | None:
    """Return whether a regular expression of RE2 matches somewhere, null for a text that is none."""
    try:
        found: bool = pc.match_substring_regex(pa.array([text]), pattern)[0].as_py()
    except pa.ArrowInvalid:
        return None
    return found


# --- lists -----------------------------------------------------------------------------------------------------------

MAX_RANGE = 1_000_000
"""The greatest number of elements of a range; a longer one is null."""
"""The largest number of elements of `range`."""


def _of_list(function: Callable[[tuple[Any, ...]], Any]) -> Callable[[Any], Any]:
    return lambda value: function(value) if isinstance(value, tuple) else None


def _range(start: Any, end: Any, step: Any = 1) -> tuple[int, ...] | None:
    first, last, by = (number_of(one) for one in (start, end, step))
    if type(first) is not int or type(last) is not int or type(by) is not int or by == 0:
        return None
    found = range(first, last + (1 if by > 0 else -1), by)
    return tuple(found) if len(found) <= MAX_RANGE else None


def _coalesce(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _null_if(value: Any, other: Any) -> Any:
    return None if equals(value, other) else value


def _is_nan(value: Any) -> bool | None:
    number = number_of(value)
    return None if number is None else bool(number != number)


def _is_empty(value: Any) -> bool | None:
    size = _size(value)
    return None if size is None else size == 0


# --- times -----------------------------------------------------------------------------------------------------------


def _moment_of(value: Any, name: str, *, has_zone: bool = False) -> Moment | None:
    """Return the time that a text, the fields of a map, or another time give to the function with a name."""
    if isinstance(value, dict):
        numbers = {field: number_of(one) for field, one in value.items()}
        if None in numbers.values() or not all(map(math.isfinite, numbers.values())):
            return None
        return time_of_fields("date" if name == "date" else "dateTime", numbers, has_zone=has_zone)
    text = text_of(value)
    return value if isinstance(value, Moment) else None if text is None else read_time(text)


def _date(value: Any) -> Moment | None:
    moment = _moment_of(value, "date")
    return None if moment is None else as_date(moment)


def _date_time(value: Any) -> Moment | None:
    moment = _moment_of(value, "datetime", has_zone=True)
    return None if moment is None else with_zone(moment, has_zone=True)


def _local_date_time(value: Any) -> Moment | None:
    moment = _moment_of(value, "localdatetime")
    return None if moment is None else with_zone(moment, has_zone=False)


def _duration(value: Any) -> Duration | None:
    if isinstance(value, dict):
        numbers = {field: number_of(one) for field, one in value.items()}
        if None in numbers.values() or not all(map(math.isfinite, numbers.values())):
            return None
        return duration_of_fields(numbers)
    text = text_of(value)
    return value if isinstance(value, Duration) else None if text is None else read_length(text)


def _between(first: Any, second: Any) -> Duration | None:
    if not isinstance(first, Moment) or not isinstance(second, Moment):
        return None
    return time_between(first, second)


# --- the table -------------------------------------------------------------------------------------------------------

_FLOAT_FUNCTIONS: dict[str, Callable[..., float]] = {
    "sqrt": math.sqrt,
    "exp": math.exp,
    "log": _logarithm(math.log),
    "ln": _logarithm(math.log),
    "log10": _logarithm(math.log10),
    "sin": math.sin,
    "cos": math.cos,
    "tan": math.tan,
    "cot": lambda number: 1 / math.tan(number) if number else math.inf,
    "asin": math.asin,
    "acos": math.acos,
    "atan": math.atan,
    "degrees": math.degrees,
    "radians": math.radians,
}

FUNCTIONS: dict[str, Function] = {
    **{name: Function(1, 1, _of_floats(function), "float") for name, function in _FLOAT_FUNCTIONS.items()},
    "atan2": Function(2, 2, _of_floats(math.atan2), "float"),
    "pi": Function(0, 0, lambda: math.pi, "float"),
    "e": Function(0, 0, lambda: math.e, "float"),
    "^": Function(2, 2, power, "float"),
    "abs": Function(1, 1, _absolute, "number"),
    "sign": Function(1, 1, _sign, "integer"),
    "ceil": Function(1, 1, _rounded("CEILING"), "rounded"),
    "ceiling": Function(1, 1, _rounded("CEILING"), "rounded"),
    "floor": Function(1, 1, _rounded("FLOOR"), "rounded"),
    "round": Function(1, 3, _round, "rounded"),
    "isnan": Function(1, 1, _is_nan, "boolean"),
    "tointeger": Function(1, 1, _to_integer, "integer"),
    "tofloat": Function(1, 1, _to_float, "float"),
    "tostring": Function(1, 1, written, "text"),
    "toboolean": Function(1, 1, _to_boolean, "boolean"),
    "tointegerornull": Function(1, 1, _to_integer, "integer"),
    "tofloatornull": Function(1, 1, _to_float, "float"),
    "tostringornull": Function(1, 1, written, "text"),
    "tobooleanornull": Function(1, 1, _to_boolean, "boolean"),
    "number": Function(1, 1, _to_number, "number"),
    "text": Function(1, 1, written, "text"),
    "toupper": Function(1, 1, _of_texts(str.upper), "text"),
    "upper": Function(1, 1, _of_texts(str.upper), "text"),
    "tolower": Function(1, 1, _of_texts(str.lower), "text"),
    "lower": Function(1, 1, _of_texts(str.lower), "text"),
    "trim": Function(1, 2, _of_texts(str.strip, 2), "text"),
    "btrim": Function(1, 2, _of_texts(str.strip, 2), "text"),
    "ltrim": Function(1, 2, _of_texts(str.lstrip, 2), "text"),
    "rtrim": Function(1, 2, _of_texts(str.rstrip, 2), "text"),
    "replace": Function(3, 3, _of_texts(str.replace, 3), "text"),
    "substring": Function(2, 3, _of_texts(_substring), "text"),
    "split": Function(2, 2, _of_texts(_split), "texts"),
    "left": Function(2, 2, _of_texts(_end(True)), "text"),
    "right": Function(2, 2, _of_texts(_end(False)), "text"),
    "starts_with": Function(2, 2, _of_texts(str.startswith, 2), "boolean"),
    "ends_with": Function(2, 2, _of_texts(str.endswith, 2), "boolean"),
    "contains": Function(2, 2, _of_texts(str.__contains__, 2), "boolean"),
    "matches": Function(2, 2, _of_texts(_matches, 2), "boolean"),
    "=~": Function(2, 2, _of_texts(lambda text, pattern: _matches(text, rf"\A(?:{pattern})\z"), 2), "boolean"),
    "reverse": Function(1, 1, _reverse, "same"),
    "size": Function(1, 1, _size, "integer"),
    "length": Function(1, 1, _size, "integer"),
    "char_length": Function(1, 1, _of_texts(len), "integer"),
    "character_length": Function(1, 1, _of_texts(len), "integer"),
    "isempty": Function(1, 1, _is_empty, "boolean"),
    "head": Function(1, 1, _of_list(lambda elements: elements[0] if elements else None), "element"),
    "last": Function(1, 1, _of_list(lambda elements: elements[-1] if elements else None), "element"),
    "tail": Function(1, 1, _of_list(lambda elements: elements[1:]), "same"),
    "range": Function(2, 3, _range, "integers"),
    "coalesce": Function(1, None, _coalesce, "common", is_strict=False),
    "nullif": Function(2, 2, _null_if, "same", is_strict=False),
    "date": Function(1, 1, _date, "date"),
    "datetime": Function(1, 1, _date_time, "datetime"),
    "localdatetime": Function(1, 1, _local_date_time, "localdatetime"),
    "duration": Function(1, 1, _duration, "duration"),
    "duration.between": Function(2, 2, _between, "duration"),
    "duration.inseconds": Function(2, 2, _between, "duration"),
}
"""The functions by name. `=~` and `^` are operators, as are `starts_with`, `ends_with` and `contains` in Cypher."""
