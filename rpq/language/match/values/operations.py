"""The operators of values in MATCH: comparisons, three-valued logic, arithmetic, and the order of all values.

A value is None (null), a boolean, an int of 64 bits, a float, a `Decimal`, a text, a time (`Moment`), a `Duration`, a
`Vertex`, an `EdgeRef`, a tuple (a list), or `Loose`: a value of a text file, which the other operand makes a number, true or
false, or a text. Beside another loose value it is a number if both are. Where it cannot be read as the other operand
requires, the result is null, as `rpq.language.predicate` defines it for columns.
"""

from __future__ import annotations

import decimal
import math
import operator
import re
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any

from rpq.language.match.values.times import (
    add_duration,
    average_seconds,
    nanoseconds_since_epoch,
    read_length,
    read_time,
    scaled,
    time_between,
    time_literal,
)
from rpq.language.sparql.values.moments import Duration, Moment
from rpq.language.sparql.values.operators import order_key
from rpq.language.where import COMPARE, UNROUNDED, exact_number
from rpq.stream.names.list_terms import EdgeRef, Loose, Vertex, VertexName

Truth = bool | None

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,17})?")
_EXACT = decimal.Context(
    prec=1000, Emin=-1000, Emax=1000, traps=[decimal.Inexact, decimal.InvalidOperation, decimal.Overflow, decimal.Subnormal]
)
"""The context of exact results, which have at most this number of digits."""
_MAX_CACHED = 65_536


class WrittenNumber(float):
    """A number with a point or an exponent as it is written: a float, which is compared exactly."""

    exact: Decimal

    def __new__(cls, exact: Decimal) -> WrittenNumber:
        """Create the number."""
        found = super().__new__(cls, exact)
        found.exact = exact
        return found


_NUMBERS = frozenset({int, float, Decimal, WrittenNumber})
_FLOATS = frozenset({float, WrittenNumber})
_PLAIN = frozenset({int, float, str, bool})
"""The types whose values Python compares as MATCH does."""


# --- reading ---------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=_MAX_CACHED)
def loose_number(text: str) -> int | Decimal | None:
    """Return the exact number that a text is, None for another text.

    >>> loose_number("12"), loose_number(" -0.50"), loose_number("n/a")
    (12, Decimal('-0.5'), None)
    """
    text = text.strip(" \t")
    return exact_number(text) if _NUMBER.fullmatch(text) else None


def number_of(value: Any) -> Any:
    """Return a value as a number, None where it is none."""
    if type(value) in _NUMBERS:
        return value
    return loose_number(value.text) if isinstance(value, Loose) else None


def text_of(value: Any) -> str | None:
    """Return a text, or that of a loose value, None for other values."""
    if type(value) is str:
        return value
    return value.text if isinstance(value, Loose) else None


def truth_of(value: Any) -> Truth:
    """Return the truth of a value as a condition, None (null) for a value that is neither true nor false."""
    if value is True or value is False:
        return value
    return _TRUTHS.get(value.text.lower()) if isinstance(value, Loose) else None


_TRUTHS = {"true": True, "false": False}


def written(value: Any) -> str | None:
    """Return a text, a number, a boolean, a time or a duration as text; None for other values.

    >>> written(1.0), written(True), written(Decimal("1.50"))
    ('1.0', 'true', '1.5')
    """
    if isinstance(value, (str, Loose)):
        return text_of(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return float_text(value)
    if isinstance(value, (int, Decimal)):
        return decimal_text(value) if isinstance(value, Decimal) else str(value)
    return time_literal(value).text if isinstance(value, (Moment, Duration)) else None


def decimal_text(value: Decimal) -> str:
    """Return a decimal as text, equal ones as equal texts; with an exponent if it has a hundred digits or more.

    >>> decimal_text(Decimal("1.50")), decimal_text(Decimal("1E+2")), decimal_text(Decimal("1e400"))
    ('1.5', '100', '1E+400')
    """
    value = UNROUNDED.normalize(value)
    return format(value, "f") if abs(value.adjusted()) < 100 else str(value)


def float_text(value: float) -> str:
    """Return a float as XML Schema writes it."""
    if math.isfinite(value):
        return float.__repr__(value + 0.0)
    return "NaN" if value != value else "INF" if value > 0 else "-INF"


# --- comparisons -----------------------------------------------------------------------------------------------------

_DIFFERENT = object()
"""The result for values of different types, which are not equal and have no order."""


def _numbers(left: Any, right: Any) -> tuple[Any, Any]:
    """Return two numbers that Python compares by their exact values."""
    if type(left) is WrittenNumber and type(right) not in _FLOATS:
        left = left.exact
    if type(right) is WrittenNumber and type(left) not in _FLOATS:
        right = right.exact
    if left != left or right != right:  # Python's decimals refuse to order NaN
        return math.nan, math.nan
    return left, right


def _comparable(left: Any, right: Any) -> Any:
    """Return a pair of values that Python compares, `_DIFFERENT`, or None where the comparison is null."""
    of_left, of_right = type(left), type(right)
    if of_left in _NUMBERS and of_right in _NUMBERS:
        return _numbers(left, right)
    if of_left is of_right:
        return _comparable_alike(of_left, left, right)
    if isinstance(left, Loose):
        return _beside_loose(left, right)
    if isinstance(right, Loose):
        found = _beside_loose(right, left)
        return (found[1], found[0]) if isinstance(found, tuple) else found
    for text, other, is_mirrored in ((left, right, False), (right, left, True)):
        if isinstance(text, str) and isinstance(other, (Moment, Duration)):
            read = read_time(text) if isinstance(other, Moment) else read_length(text)
            if read is None:
                return None
            return _comparable_alike(type(other), *((other, read) if is_mirrored else (read, other)))
    return _DIFFERENT


def _comparable_alike(of_both: type, left: Any, right: Any) -> Any:
    if of_both is str or of_both is bool:
        return left, right
    if of_both is Loose:
        numbers = loose_number(left.text), loose_number(right.text)
        return (left.text, right.text) if None in numbers else numbers
    if of_both is Vertex:
        return name_order(left.name), name_order(right.name)
    if of_both is VertexName:
        return name_order(left.text), name_order(right.text)
    if of_both is EdgeRef:
        return name_order(left.identity), name_order(right.identity)
    if of_both is Moment:
        return left.instant, right.instant
    if of_both is Duration:
        if left.months == right.months:
            return left.seconds, right.seconds
        return (left.months, right.months) if left.seconds == right.seconds else _DIFFERENT
    return _DIFFERENT


def _beside_loose(loose: Loose, other: Any) -> Any:
    """Return a loose value as the other one requires, and this."""
    if type(other) in _NUMBERS:
        number = loose_number(loose.text)
        return None if number is None else _numbers(number, other)
    if isinstance(other, Loose):
        return _comparable_alike(Loose, loose, other)
    if isinstance(other, str):
        return loose.text, other
    if isinstance(other, bool):
        truth = truth_of(loose)
        return None if truth is None else (truth, other)
    if isinstance(other, Moment):
        moment = read_time(loose.text)
        return None if moment is None else (moment.instant, other.instant)
    if isinstance(other, Duration):
        length = read_length(loose.text)
        return None if length is None else _comparable_alike(Duration, length, other)
    return _DIFFERENT


name_order = lru_cache(maxsize=_MAX_CACHED)(order_key)
"""The key of the name of a vertex in the order of vertices."""


def equals(left: Any, right: Any) -> Truth:
    """Return whether two values are equal, None (null) where this is not known.

    >>> equals(1, 1.0), equals(1, "1"), equals(None, None), equals((1, None), (1, 2)), equals((1, None), (2, 2))
    (True, False, None, None, False)
    """
    if type(left) is type(right) and type(left) in _PLAIN:
        return bool(left == right)
    if left is None or right is None:
        return None
    if type(left) is tuple and type(right) is tuple:
        if len(left) != len(right):
            return False
        return all_of(equals(*pair) for pair in zip(left, right, strict=True))
    pair = _comparable(left, right)
    if pair is _DIFFERENT:
        return False
    return None if pair is None else bool(pair[0] == pair[1])


def _differs(left: Any, right: Any) -> Truth:
    found = equals(left, right)
    return None if found is None else not found


def _ordered(sign: str) -> Callable[[Any, Any], Truth]:
    compare = COMPARE[sign]

    def holds(left: Any, right: Any) -> Truth:
        if type(left) is type(right) and type(left) in _PLAIN:
            return bool(compare(left, right))
        if left is None or right is None:
            return None
        if type(left) is tuple and type(right) is tuple:
            for one, other in zip(left, right, strict=False):
                is_equal = equals(one, other)
                if is_equal is None:
                    return None
                if not is_equal:
                    return holds(one, other)
            return bool(compare(len(left), len(right)))
        pair = _comparable(left, right)
        return None if pair is None or pair is _DIFFERENT else bool(compare(*pair))

    return holds


COMPARISONS: dict[str, Callable[[Any, Any], Truth]] = {
    "==": equals,
    "!=": _differs,
    **{sign: _ordered(sign) for sign in ("<", "<=", ">", ">=")},
}
"""The comparisons by their signs; values of different types have no order."""


def all_of(truths: Any) -> Truth:
    """Return whether all are true: false if one is false, else null if one is null."""
    is_null = False
    for truth in truths:
        if truth is False:
            return False
        is_null |= truth is None
    return None if is_null else True


def any_of(truths: Any) -> Truth:
    """Return whether one is true: true if one is true, else null if one is null."""
    is_null = False
    for truth in truths:
        if truth is True:
            return True
        is_null |= truth is None
    return None if is_null else False


def negation(truth: Truth) -> Truth:
    """Return the negation of a truth."""
    return None if truth is None else not truth


# --- arithmetic ------------------------------------------------------------------------------------------------------


def integer_or_null(number: int) -> int | None:
    """Return an integer, None beyond 64 bits."""
    return number if -(2**63) <= number < 2**63 else None


def _on_numbers(left: Any, right: Any, exact: Callable[[Any, Any], Any], on_floats: Callable[[Any, Any], Any]) -> Any:
    """Apply an operation to two numbers: exactly to integers and decimals, otherwise to the nearest floats."""
    of_left, of_right = type(left), type(right)
    if of_left is int and of_right is int:
        return integer_or_null(exact(left, right))
    if of_left is Decimal or of_right is Decimal:
        left = left.exact if of_left is WrittenNumber else left
        right = right.exact if of_right is WrittenNumber else right
        if type(left) is not float and type(right) is not float:
            with decimal.localcontext(_EXACT):
                try:
                    return exact(left, right)
                except decimal.DecimalException:
                    return None
    return on_floats(float(left), float(right))


def _add(left: Any, right: Any) -> Any:
    if type(left) is int and type(right) is int:
        return integer_or_null(left + right)
    if left is None or right is None:
        return None
    if type(left) is tuple or type(right) is tuple:
        return (left if type(left) is tuple else (left,)) + (right if type(right) is tuple else (right,))
    for moment, other in ((left, right), (right, left)):
        if isinstance(moment, Moment):
            length = _length_of(other)
            return None if length is None else add_duration(moment, length)
    if isinstance(left, Duration) or isinstance(right, Duration):
        return _add_durations(left, right, 1)
    one, other = number_of(left), number_of(right)
    if one is not None and other is not None:
        return _on_numbers(one, other, operator.add, operator.add)
    if type(left) is str or type(right) is str or (isinstance(left, Loose) and isinstance(right, Loose)):
        first, second = (None if isinstance(value, bool) else written(value) for value in (left, right))
        return None if first is None or second is None else first + second
    return None


def _subtract(left: Any, right: Any) -> Any:
    if type(left) is int and type(right) is int:
        return integer_or_null(left - right)
    if isinstance(left, Moment):
        if isinstance(right, Moment):
            return time_between(right, left)
        length = _length_of(right)
        return None if length is None else add_duration(left, length, -1)
    if isinstance(left, Duration) or isinstance(right, Duration):
        return _add_durations(left, right, -1)
    one, other = number_of(left), number_of(right)
    return None if one is None or other is None else _on_numbers(one, other, operator.sub, operator.sub)


def _length_of(value: Any) -> Duration | None:
    """Return a duration, also one that is a text, as in `'10m'`."""
    if isinstance(value, Duration):
        return value
    return read_length(value) if isinstance(value, str) else None


def _add_durations(left: Any, right: Any, sign: int) -> Duration | None:
    one = Duration(0, Fraction()) if type(left) is int and left == 0 else _length_of(left)  # `-d` is `0 - d`
    other = _length_of(right)
    if one is None or other is None:
        return None
    return Duration(one.months + sign * other.months, one.seconds + sign * other.seconds)


def _multiply(left: Any, right: Any) -> Any:
    if type(left) is int and type(right) is int:
        return integer_or_null(left * right)
    for length, factor in ((left, right), (right, left)):
        if isinstance(length, Duration):
            number = _finite(number_of(factor))
            return None if number is None else scaled(length, number)
    one, other = number_of(left), number_of(right)
    return None if one is None or other is None else _on_numbers(one, other, operator.mul, operator.mul)


def _finite(number: Any) -> Fraction | None:
    if number is None or not math.isfinite(number):
        return None
    return Fraction(number.exact if type(number) is WrittenNumber else number)


def _divide(left: Any, right: Any, *, truncates: bool) -> Any:
    if isinstance(left, Duration):
        if isinstance(right, Duration):
            return None if not average_seconds(right) else float(average_seconds(left) / average_seconds(right))
        number = _finite(number_of(right))
        return None if not number else scaled(left, 1 / number)
    one, other = number_of(left), number_of(right)
    if one is None or other is None or other == 0:
        return None
    if truncates and type(one) is int and type(other) is int:
        quotient = abs(one) // abs(other)
        return integer_or_null(quotient if (one < 0) == (other < 0) else -quotient)
    return float(one) / float(other)


def _remainder(left: Any, right: Any, *, truncates: bool) -> Any:
    """Return the remainder of a division: with the sign of the left number if it truncates, else with that of the right."""
    one, other = number_of(left), number_of(right)
    if one is None or other is None or other == 0:
        return None

    def rest(one: Any, other: Any) -> Any:
        found = abs(one) % abs(other)
        found = -found if one < 0 else found
        return found if truncates or not found or (found < 0) == (other < 0) else found + other

    def rest_of_floats(one: float, other: float) -> float:
        if math.isinf(one):
            return math.nan
        return math.fmod(one, other) if truncates else one % other

    return _on_numbers(one, other, rest, rest_of_floats)


def power(left: Any, right: Any) -> float | None:
    """Return a power of a number, a float; null for a negative power of zero.

    >>> power(2, 10), power(-8, 0.5), power(10, 1000)
    (1024.0, nan, inf)
    """
    one, other = number_of(left), number_of(right)
    if one is None or other is None or (one == 0 and other < 0):
        return None
    try:
        return math.pow(one, other)
    except OverflowError:
        return -math.inf if one < 0 and other % 2 == 1 else math.inf
    except ValueError:
        return math.nan


def arithmetic(sign: str, *, truncates: bool) -> Callable[[Any, Any], Any]:
    """Return the operation with a sign; with `truncates` a quotient of integers is one, and has the remainder of that.

    >>> arithmetic("/", truncates=True)(-7, 2), arithmetic("/", truncates=False)(-7, 2)
    (-3, -3.5)
    """
    if sign == "/":
        return lambda left, right: _divide(left, right, truncates=truncates)
    if sign == "%":
        return lambda left, right: _remainder(left, right, truncates=truncates)
    return _ARITHMETIC[sign]


_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {"+": _add, "-": _subtract, "*": _multiply, "^": power}


# --- the order of all values -----------------------------------------------------------------------------------------

_VERTEX, _EDGE, _LIST, _TIME, _DURATION, _TEXT, _BOOLEAN, _NUMBER_KEY, _NAN, _NULL = "ABCEFGHIJK"
_EXPONENT = 10**18
_COMPLEMENT = str.maketrans("0123456789", "9876543210")


def sort_key(value: Any) -> str:
    r"""Return a text whose order by code point is that of all values.

    The order is: vertices, edges, lists, times, durations, texts, booleans, numbers, NaN, null. Different values have
    different keys, equal numbers with the integer first. A key has no character U+0000.

    >>> values = [None, 2.5, 1.0, True, "b", (1, 2), "a", (1,), 1, -3, Vertex("10"), Vertex("9"), float("nan")]
    >>> print(*sorted(values, key=sort_key))
    Vertex(name='9') Vertex(name='10') (1,) (1, 2) a b True -3 1 1.0 2.5 nan None
    """
    of_value = type(value)
    if of_value is str:
        return _TEXT + _escape(value)
    if of_value in _NUMBERS:
        if value != value:
            return _NAN
        return _NUMBER_KEY + number_key(value) + _TAGS[of_value]
    if value is None:
        return _NULL
    if of_value is bool:
        return _BOOLEAN + ("1" if value else "0")
    if of_value is tuple:
        parts = (sort_key(one).replace("\x01", "\x01\x7f") for one in value)
        return _LIST + "".join(f"+{part}\x01" for part in parts) + "!"
    if of_value is Vertex:
        return _VERTEX + _name_key(value.name)
    if of_value is VertexName:
        return _VERTEX + _name_key(value.text)
    if of_value is EdgeRef:
        return _EDGE + _name_key(value.identity)
    if of_value is Loose:
        number = loose_number(value.text)
        text = _escape(value.text)
        return _TEXT + text if number is None else f"{_NUMBER_KEY}{number_key(number)}d{text}"
    literal = time_literal(value)
    if of_value is Moment:
        return f"{_TIME}{nanoseconds_since_epoch(value) + 10**20:021}{literal.text}"
    return _DURATION + number_key(Decimal(int(average_seconds(value) * 10**9))) + literal.text


_TAGS: dict[type, str] = {int: "a", Decimal: "b", float: "c", WrittenNumber: "c"}


def _escape(text: str) -> str:
    """Return a text without U+0000, in the same order."""
    if "\x00" not in text and "\x01" not in text:
        return text
    return text.replace("\x01", "\x01\x03").replace("\x00", "\x01\x02")


def number_key(number: int | float | Decimal) -> str:
    """Return a text in the order of exact numbers: the sign, the exponent, and all digits.

    >>> numbers = [0.1, Decimal("0.1"), 2, 10, -10, -2.5, 0, float("inf"), float("-inf"), Decimal("1e400")]
    >>> [*map(str, sorted(numbers, key=number_key))]
    ['-inf', '-10', '-2.5', '0', '0.1', '0.1', '2', '10', '1E+400', 'inf']
    """
    if not number:
        return "2"
    if isinstance(number, int):
        is_negative, digits = number < 0, str(abs(number))
        adjusted = len(digits) - 1
    else:
        sign, parts, exponent = Decimal(number).as_tuple()
        is_negative, digits = bool(sign), "".join(map(str, parts))
        if not isinstance(exponent, int):  # infinite
            return "0" if is_negative else "4"
        adjusted = exponent + len(digits) - 1
    digits = digits.rstrip("0")
    if is_negative:
        return f"1{_EXPONENT - adjusted:019}{digits.translate(_COMPLEMENT)}~"
    return f"3{_EXPONENT + adjusted:019}{digits} "


def _name_key(name: str) -> str:
    """Return a text in the order of `name_order`."""
    rank, *parts = name_order(name)
    text = _escape(name)
    if rank == 1:
        kind, amount = parts[0], parts[1]
        if kind:
            return f"1{'5' if kind == 2 else number_key(kind * math.inf)}{text}"
        return f"1{number_key(amount if isinstance(amount, float) else _decimal(Fraction(amount)))}{text}"
    if rank == 2:
        return f"2{_escape(parts[0])}\x01\x01{'~' if parts[0] == name else text}"  # other names are literals, with a quote
    if rank == 4:
        return f"4{parts[0]} {int(parts[1] * 10**9) + 10**20:021}{text}"
    return f"{rank}{int(parts[0])}{text}" if rank == 3 else f"{rank}{text}"


def _decimal(number: Fraction) -> Decimal:
    """Return a fraction whose denominator is a power of ten at most."""
    with decimal.localcontext(_EXACT):
        return Decimal(number.numerator) / Decimal(number.denominator)
