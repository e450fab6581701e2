"""The constructor functions of section 17.5: `xsd:integer(?x)` and its kin."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial

from rpq.sparql.moments import Moment
from rpq.sparql.terms import XSD, is_blank, is_literal, literal_text, read_literal
from rpq.sparql.typed_values import (
    NUMBER_TYPES,
    NoValue,
    Number,
    NumberType,
    Text,
    Value,
    boolean_term,
    checked,
    number_term,
    promoted,
    rounded,
    value_of,
    written,
)


def text_of(term: str) -> str:
    """What STR gives: the lexical form of a literal, the text of an IRI. Raises `NoValue` for a blank node."""
    if is_blank(term):
        raise NoValue("a blank node has no text")
    literal = read_literal(term) if is_literal(term) else None
    return term if literal is None else literal.text


def to_string(term: str) -> str:
    """xsd:string: numbers and booleans as their types write them, everything else by its text.

    >>> to_string('"1.50"^^<http://www.w3.org/2001/XMLSchema#decimal>'), to_string("bob"), to_string("007")
    ('"1.5"', '"bob"', '"007"')
    """
    if not is_literal(term):
        return literal_text(text_of(term))
    try:
        value = value_of(term)
    except NoValue:
        return literal_text(text_of(term))
    if isinstance(value, Number):
        return literal_text(written(value))
    return literal_text(str(value).lower() if isinstance(value, bool) else text_of(term))


def to_boolean(term: str) -> str:
    """xsd:boolean."""
    value = _value(term, "boolean")
    if isinstance(value, Number):
        return boolean_term(not (value.amount == 0 or math.isnan(value.amount)))
    if isinstance(value, bool):
        return boolean_term(value)
    raise _impossible(term, "boolean")


def to_moment(term: str) -> str:
    """xsd:dateTime: of a string or a dateTime, which it leaves as it is written."""
    value = _value(term, "dateTime")
    if isinstance(value, Moment) and value.type == "dateTime":
        return literal_text(text_of(term).strip(" \t\n\r"), XSD + "dateTime")
    raise _impossible(term, "dateTime")


def to_number(type_: NumberType, term: str) -> str:
    """xsd:integer, decimal, float and double: fractions are cut off for integers, rounded for decimals.

    >>> print(to_number("integer", "-12.9"))
    "-12"^^<http://www.w3.org/2001/XMLSchema#integer>
    """
    value = _value(term, type_)
    if isinstance(value, bool):
        return number_term(checked(type_, int(value)))
    if not isinstance(value, Number):
        raise _impossible(term, type_)
    if type_ in ("float", "double"):
        return number_term(checked(type_, promoted(value, type_)))
    if not math.isfinite(value.amount):
        raise _impossible(term, type_)
    exact = Fraction(value.amount)
    return number_term(checked(type_, math.trunc(exact)) if type_ == "integer" else rounded(type_, exact))


def _value(term: str, type_: str) -> Value:
    """The value to be cast: that of a string is what its text, without blanks around it, is in the type."""
    value = value_of(term)
    if isinstance(value, Text):
        if value.language:
            raise _impossible(term, type_)
        return value_of(literal_text(value.text.strip(" \t\n\r"), XSD + type_))
    return value


def _impossible(term: str, type_: str) -> NoValue:
    return NoValue(f"{term} cannot be cast to xsd:{type_}")


CASTS: dict[str, Callable[[str], str]] = {
    XSD + "string": to_string,
    XSD + "boolean": to_boolean,
    XSD + "dateTime": to_moment,
    **{XSD + type_: partial(to_number, type_) for type_ in NUMBER_TYPES},
}
"""By their IRIs; each raises `NoValue`."""
