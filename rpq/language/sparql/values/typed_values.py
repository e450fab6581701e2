"""The typed values of terms, on which comparisons, arithmetic and functions operate.

The value of an IRI, vertex or constant alike, is a number if its text is a number in SPARQL's grammar, otherwise the string
of its text. The value of a literal follows from its datatype; a literal outside the lexical space of its type, or of an
unknown type, has no value. Integers have 64 bits, decimals 18 fractional digits and 128 bits in all, both exact; numbers
beyond these limits have no value.
"""

from __future__ import annotations

import math
import re
import struct
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Literal

from rpq.language.sparql.values.moments import MOMENTS, Duration, Moment, read_duration, read_moment
from rpq.stream.names.terms import RDF, XSD, is_blank, is_literal, literal_text, read_literal

NumberType = Literal["integer", "decimal", "float", "double"]

NUMBER_TYPES: tuple[NumberType, ...] = ("integer", "decimal", "float", "double")
"""In the order of promotion: the result of two numbers of different types has the later type."""

INTEGER_TYPES = frozenset(
    "integer nonPositiveInteger negativeInteger long int short byte nonNegativeInteger unsignedLong unsignedInt "
    "unsignedShort unsignedByte positiveInteger".split()
)
"""xsd:integer and the types derived from it; the bounds of the derived types are not checked."""

DECIMAL_UNIT = 10**18
"""Every decimal is an integer multiple of 1 / `DECIMAL_UNIT`."""

_SINGLE_DIGITS = 6
"""Decimals with this number of digits are further apart than 32-bit floats, so rounding to them also finds shorter
decimals."""
_LEAST_NORMAL_SINGLE = 2.0**-126
"""Below this, 32-bit floats are further apart."""
_MAX_CACHED = 65_536
_MAX_DIGITS = 40
"""The limit before and after the decimal point, which exceeds the digits of a decimal."""

_INTEGER = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)")
_DOUBLE = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?INF|NaN")
_NUMBERS: tuple[tuple[NumberType, re.Pattern[str]], ...] = (
    ("integer", _INTEGER),
    ("decimal", re.compile(r"[+-]?[0-9]*\.[0-9]+")),
    ("double", re.compile(r"[+-]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)[eE][+-]?[0-9]+")),
)
_LEXICAL: dict[NumberType, re.Pattern[str]] = {
    "integer": _INTEGER, "decimal": _DECIMAL, "float": _DOUBLE, "double": _DOUBLE,
}  # fmt: skip


class NoValue(Exception):
    """An error value of SPARQL: the expression has no value; a filter is not satisfied, a result is unbound."""


class OutOfRange(NoValue):
    """A number that its type cannot represent here."""


@dataclass(frozen=True, slots=True)
class Number:
    """A number of a type: an int, an exact fraction for a decimal, or a float (rounded to 32 bits for xsd:float)."""

    type: NumberType
    amount: int | Fraction | float


@dataclass(frozen=True, slots=True)
class Text:
    """A string, and its language in lower case, or an empty language."""

    text: str
    language: str = ""


Value = Number | Text | Moment | Duration | bool


@lru_cache(maxsize=_MAX_CACHED)
def value_of(term: str) -> Value:
    """Return the value of a term. Raises `NoValue` if the term has no value.

    >>> value_of("007"), value_of("bob"), value_of('"1.50"^^<http://www.w3.org/2001/XMLSchema#decimal>')
    (Number(type='integer', amount=7), Text(text='bob', language=''), Number(type='decimal', amount=Fraction(3, 2)))
    """
    if is_blank(term):
        raise NoValue("a blank node has no value")
    if not is_literal(term):
        type_ = next((one for one, form in _NUMBERS if form.fullmatch(term)), None)
        return Text(term) if type_ is None else _number(type_, term)
    literal = read_literal(term)
    if literal is None:
        raise NoValue(f"{term} is not a term")
    if literal.language:
        return Text(literal.text, literal.language.lower())
    value = _read_value(literal.text, literal.datatype) if literal.datatype.startswith(XSD) else None
    if value is None:
        raise NoValue(f"{term} has no value")
    return value


def _read_value(text: str, datatype: str) -> Value | None:
    name = datatype[len(XSD) :]
    if name == "string":
        return Text(text)
    if name == "boolean":
        return {"true": True, "1": True, "false": False, "0": False}.get(text)
    type_ = number_type(datatype)
    if type_ is not None:
        return _number(type_, text) if _LEXICAL[type_].fullmatch(text) else None
    return read_moment(name, text) if name in MOMENTS else read_duration(name, text)


def number_type(datatype: str) -> NumberType | None:
    """Return the number type of a datatype, or None for a datatype that is not numeric.

    >>> number_type(XSD + "byte"), number_type(XSD + "date")
    ('integer', None)
    """
    name = datatype[len(XSD) :] if datatype.startswith(XSD) else ""
    if name in INTEGER_TYPES:
        return "integer"
    return next((one for one in NUMBER_TYPES if one == name), None)


def _number(type_: NumberType, text: str) -> Number:
    if type_ in ("float", "double"):
        return checked_number(type_, float(text))
    whole, _, parts = text.lstrip("+-").partition(".")
    whole, parts = whole.lstrip("0"), parts.rstrip("0")
    if len(whole) > _MAX_DIGITS or len(parts) > _MAX_DIGITS:  # Python is slow for millions of digits
        raise OutOfRange(f"a number of {len(text):,} characters does not fit into xsd:{type_}")
    amount = Fraction(int(whole + parts or 0), 10 ** len(parts))
    return checked_number(type_, -amount if text.startswith("-") else amount)


def checked_number(type_: NumberType, amount: int | Fraction | float) -> Number:
    """Return an amount as a number of a type; floats are rounded to 32 bits. Raises `NoValue` if it does not fit exactly.

    >>> checked_number("integer", 2**63)
    Traceback (most recent call last):
        ...
    rpq.language.sparql.values.typed_values.OutOfRange: 9223372036854775808 does not fit into xsd:integer
    """
    if type_ == "double":
        return Number(type_, float(amount))
    if type_ == "float":
        return Number(type_, single(float(amount)))
    if type_ == "integer":
        whole = int(amount)
        if -(2**63) <= whole < 2**63:
            return Number(type_, whole)
    else:
        exact = Fraction(amount)
        units, rest = divmod(exact.numerator * DECIMAL_UNIT, exact.denominator)
        if not rest and -(2**127) <= units < 2**127:
            return Number(type_, exact)
    raise OutOfRange(f"{amount} does not fit into xsd:{type_}")


def single(amount: float) -> float:
    """Return the nearest 32-bit float.

    >>> single(0.1)
    0.10000000149011612
    """
    try:
        nearest: float = struct.unpack("f", struct.pack("f", amount))[0]
    except OverflowError:
        return math.copysign(math.inf, amount)
    return nearest


def rounded_number(type_: NumberType, amount: Fraction) -> Number:
    """Return an exact amount as a number of a type, rounded once: half to even, decimals to 18 digits. Raises `NoValue`."""
    if type_ == "decimal":
        return checked_number(type_, Fraction(round(amount * DECIMAL_UNIT), DECIMAL_UNIT))
    if type_ == "integer":
        return checked_number(type_, int(amount))
    try:
        nearest = amount.numerator / amount.denominator  # Python rounds this once
    except OverflowError:
        nearest = math.inf if amount > 0 else -math.inf
    return checked_number(type_, nearest)


def promote_amount(number: Number, type_: NumberType) -> int | Fraction | float:
    """Return the amount of a number, converted to a type of the same or a later rank."""
    if type_ in ("float", "double"):
        return number.amount if isinstance(number.amount, float) else rounded_number(type_, Fraction(number.amount)).amount
    return number.amount if type_ == number.type else Fraction(number.amount)


def common_number_type(left: Number, right: Number) -> NumberType:
    """Return the type to which two numbers are promoted."""
    return max(left.type, right.type, key=NUMBER_TYPES.index)


# --- values as terms -------------------------------------------------------------------------------------------------


def boolean_term(value: bool) -> str:
    """Return the literal of a boolean."""
    return TRUE if value else FALSE


def number_term(number: Number) -> str:
    """Return the literal of a computed number."""
    return literal_text(number_text(number), XSD + number.type)


def integer_term(amount: int) -> str:
    """Return the literal of an integer. Raises `NoValue` beyond 64 bits."""
    return number_term(checked_number("integer", amount))


def number_text(number: Number) -> str:
    """Return the text of a computed number, in the form of a cast to xsd:string, without superfluous zeros.

    >>> [number_text(one) for one in (Number("decimal", Fraction(3, 2)), Number("double", 1e21), Number("double", 100.0))]
    ['1.5', '1.0E21', '100']
    """
    amount = number.amount
    if isinstance(amount, float):
        return _float_text(amount, is_single=number.type == "float")
    if number.type == "integer":
        return str(amount)
    return decimal_text(int(amount * DECIMAL_UNIT))


def decimal_text(units: int) -> str:
    """Return the text of a decimal, from its units of 10⁻¹⁸.

    >>> decimal_text(-15 * 10**17)
    '-1.5'
    """
    digits = f"{abs(units):019d}"
    fraction = digits[-18:].rstrip("0")
    return ("-" if units < 0 else "") + digits[:-18] + (f".{fraction}" if fraction else "")


def _float_text(amount: float, *, is_single: bool) -> str:
    if math.isnan(amount):
        return "NaN"
    if math.isinf(amount):
        return "INF" if amount > 0 else "-INF"
    if amount == 0:
        return "-0" if math.copysign(1, amount) < 0 else "0"
    text = _shortest_single(amount) if is_single else repr(amount)
    if "e" not in text and abs(float(text)) < 1e6:  # as most are
        return text.removesuffix(".0")
    shortest = Decimal(text)
    if Decimal("1e-6") <= abs(shortest) < Decimal("1e6"):
        plain = f"{shortest:f}"
        return plain.rstrip("0").rstrip(".") if "." in plain else plain
    digits = "".join(map(str, shortest.as_tuple().digits)).rstrip("0")
    return f"{'-' if amount < 0 else ''}{digits[0]}.{digits[1:] or '0'}E{shortest.adjusted()}"


def _shortest_single(amount: float) -> str:
    """Return the shortest decimal whose nearest 32-bit float is `amount`."""
    for digits in range(_SINGLE_DIGITS if abs(amount) >= _LEAST_NORMAL_SINGLE else 1, 9):
        text = f"{amount:.{digits}g}"
        if single(float(text)) == amount:
            return text
    return f"{amount:.9g}"


TRUE = literal_text("true", XSD + "boolean")
FALSE = literal_text("false", XSD + "boolean")
LANGUAGE_STRING = RDF + "langString"
