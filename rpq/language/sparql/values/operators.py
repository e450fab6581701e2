"""The operators of section 17.3: comparisons, arithmetic, and effective boolean values."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from rpq.language.sparql.values.moments import Duration, Moment, is_before, is_same
from rpq.language.sparql.values.typed_values import (
    LANGUAGE_STRING,
    NoValue,
    Number,
    OutOfRange,
    Text,
    Value,
    checked_number,
    common_number_type,
    number_term,
    number_type,
    promote_amount,
    rounded_number,
    value_of,
)
from rpq.stream.names.terms import XSD, is_blank, read_literal


def is_true(term: str) -> bool:
    """Return the effective boolean value of a term (section 17.2.2). Raises `NoValue`, also for IRIs and blank nodes.

    >>> is_true('""'), is_true('"abc"^^<http://www.w3.org/2001/XMLSchema#integer>'), is_true('"0.5"')
    (False, False, True)
    """
    literal = read_literal(term)
    if literal is None:
        raise NoValue(f"{term} is neither true nor false")
    if literal.datatype in (XSD + "string", LANGUAGE_STRING):
        return literal.text != ""
    if literal.datatype != XSD + "boolean" and number_type(literal.datatype) is None:
        raise NoValue(f"{term} is neither true nor false")
    try:
        value = value_of(term)
    except OutOfRange:
        raise
    except NoValue:  # not in the lexical space of its type
        return False
    if isinstance(value, Number):
        return not (value.amount == 0 or math.isnan(value.amount))
    return bool(value)


def number_of(term: str) -> Number:
    """Return the value of a term, which must be a number. Raises `NoValue`."""
    value = value_of(term)
    if not isinstance(value, Number):
        raise NoValue(f"{term} is not a number")
    return value


# --- comparisons -----------------------------------------------------------------------------------------------------


def is_equal(left: str, right: str) -> bool:
    """Return whether `left = right`. Values of different kinds are not equal; a term without a value equals only itself.

    Raises `NoValue` if equality is unknown: for two literals of which one has no known value, unless one has a language,
    and for numbers out of range. A blank node equals only itself.
    """
    if is_blank(left) or is_blank(right):
        return left == right
    try:
        first, second = value_of(left), value_of(right)
    except NoValue:
        if left == right:
            return True
        literals = [read_literal(term) for term in (left, right)]
        for term, literal in zip((left, right), literals, strict=True):
            if literal is None:
                value_of(term)  # raises for an IRI whose text is a number out of range
        if None in literals or any(literal and literal.language for literal in literals):
            return False  # a literal of unknown value is neither an IRI nor a string with a language
        raise
    return _are_equal(first, second)


def _are_equal(first: Value, second: Value) -> bool:
    if isinstance(first, Number) and isinstance(second, Number):
        type_ = common_number_type(first, second)
        return promote_amount(first, type_) == promote_amount(second, type_)
    if isinstance(first, Moment) and isinstance(second, Moment):
        same = is_same(first, second)
        if same is None:
            raise NoValue("the comparison of two dates depends on a missing zone")
        return same
    return type(first) is type(second) and first == second


def is_less(left: str, right: str) -> bool:
    """Return whether `left < right`. Raises `NoValue` if the two terms have no order."""
    first, second = value_of(left), value_of(right)
    if isinstance(first, Number) and isinstance(second, Number):
        type_ = common_number_type(first, second)
        return promote_amount(first, type_) < promote_amount(second, type_)
    if isinstance(first, Text) and isinstance(second, Text) and first.language == second.language:
        return first.text < second.text
    if isinstance(first, bool) and isinstance(second, bool):
        return first < second
    if isinstance(first, Moment) and isinstance(second, Moment) and first.type == second.type:
        before = is_before(first, second)
        if before is not None:
            return before
    if isinstance(first, Duration) and isinstance(second, Duration):
        if first.months == second.months:
            return first.seconds < second.seconds
        if first.seconds == second.seconds:
            return first.months < second.months
    raise NoValue(f"{left} and {right} have no order")


COMPARISONS: dict[str, Callable[[str, str], bool]] = {
    "=": is_equal,
    "!=": lambda left, right: not is_equal(left, right),
    "<": is_less,
    ">": lambda left, right: is_less(right, left),
    "<=": lambda left, right: is_less(left, right) or is_equal(left, right),
    ">=": lambda left, right: is_less(right, left) or is_equal(left, right),
}
"""The comparisons by their signs; each raises `NoValue`."""


# --- arithmetic ------------------------------------------------------------------------------------------------------


def calculate(sign: str, left: str, right: str) -> str:
    """Apply `+ - * /` to two terms. Raises `NoValue` for terms that are not numbers, and if no number is the exact result.

    A quotient of integers is a decimal; decimals are divided to 18 fractional digits, half to even.

    >>> print(calculate("/", "7", "2"), calculate("*", "0.5", "3e0"))
    "3.5"^^<http://www.w3.org/2001/XMLSchema#decimal> "1.5"^^<http://www.w3.org/2001/XMLSchema#double>
    """
    first, second = number_of(left), number_of(right)
    type_ = common_number_type(first, second)
    if sign == "/" and type_ == "integer":
        type_ = "decimal"
    # Both have the same type here, which mypy cannot see.
    one: Any = promote_amount(first, type_)
    other: Any = promote_amount(second, type_)
    if sign != "/":
        result = one + other if sign == "+" else one - other if sign == "-" else one * other
        return number_term(checked_number(type_, result))
    if type_ == "decimal":
        if other == 0:
            raise NoValue("a decimal is divided by zero")
        return number_term(rounded_number(type_, Fraction(one) / Fraction(other)))
    return number_term(checked_number(type_, _quotient(one, other)))


def _quotient(one: float, other: float) -> float:
    if other:
        return one / other
    if one == 0 or math.isnan(one):
        return math.nan
    return math.copysign(math.inf, one) * math.copysign(1, other)


# --- an order of all terms -------------------------------------------------------------------------------------------


def value_of_key(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the part of an `order_key` that equal values have in common."""
    return key if key[0] in (0, 5) else key[:-1]


def order_key(term: str) -> tuple[Any, ...]:
    """Return the sort key of a term in the total order that MIN, MAX and SAMPLE use.

    The order is: blank nodes, numbers by exact value (NaN last), strings and IRIs by code point, booleans, dates and times,
    and other terms. Equal values, and other terms, are ordered by text.

    >>> sorted(["b", "10", "9", '"a"', "_:x"], key=order_key)
    ['_:x', '9', '10', '"a"', 'b']
    """
    if is_blank(term):
        return (0, term)
    try:
        value = value_of(term)
    except NoValue:
        return (5, term)
    if isinstance(value, Number):
        amount = value.amount
        if isinstance(amount, float) and not math.isfinite(amount):
            return (1, 2 if math.isnan(amount) else 1 if amount > 0 else -1, 0, term)
        return (1, 0, amount, term)  # numbers of different types of Python are compared exactly
    if isinstance(value, Text):
        return (2, value.text, term)
    if isinstance(value, bool):
        return (3, value, term)
    return (4, value.type, value.instant, term) if isinstance(value, Moment) else (5, term)
