"""All functions and operators that take the values of their arguments: by name, from terms to a term.

Those that look at their arguments one by one (`&&`, IF, COALESCE, IN, BOUND, EXISTS) are in `rpq.sparql.formula_values`.
Each function raises `NoValue` where SPARQL has an error.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

from rpq.sparql.casts import CASTS, text_of
from rpq.sparql.moments import Moment, zone_text
from rpq.sparql.operators import COMPARISONS, calculated, is_true, number_of
from rpq.sparql.string_functions import (
    changed,
    concat,
    encode_for_uri,
    langmatches,
    plain_string_of,
    regex,
    replace,
    strafter,
    strbefore,
    strlen,
    substr,
    tested,
)
from rpq.sparql.terms import XSD, is_blank, is_literal, literal_text, read_literal, resolved
from rpq.sparql.typed_values import NoValue, Number, boolean_term, checked, number_term, value_of

_LANGUAGE = re.compile(r"[A-Za-z]+(?:-[A-Za-z0-9]+)*")
_ZONE = re.compile(r"(?:Z|[+-][0-9]{2}:[0-9]{2})$")


# --- terms -----------------------------------------------------------------------------------------------------------


def lang(term: str) -> str:
    """LANG: the language of a literal."""
    literal = read_literal(term)
    if literal is None:
        raise NoValue(f"{term} is no literal")
    return literal_text(literal.language)


def datatype(term: str) -> str:
    """DATATYPE: the datatype of a literal."""
    literal = read_literal(term)
    if literal is None:
        raise NoValue(f"{term} is no literal")
    return literal.datatype


def iri(term: str, base: str = "") -> str:
    """IRI: an IRI is itself, a string is one, relative to the base of the query if that has one.

    >>> iri('"b"', "http://example.org/a"), iri('"b"'), iri("b")
    ('http://example.org/b', 'b', 'b')
    """
    if not is_literal(term) and not is_blank(term):
        return term
    made = resolved(base, plain_string_of(term))
    if is_literal(made) or is_blank(made):
        raise NoValue(f"{made} is no IRI")
    return made


def strdt(term: str, type_: str) -> str:
    """STRDT: a literal of a datatype."""
    if is_literal(type_) or is_blank(type_):
        raise NoValue("a datatype is an IRI")
    return literal_text(plain_string_of(term), type_)


def strlang(term: str, language: str) -> str:
    """STRLANG: a literal in a language, whose tag is in small letters then."""
    tag = plain_string_of(language)
    if not _LANGUAGE.fullmatch(tag):
        raise NoValue(f"{tag!r} is no language")
    return literal_text(plain_string_of(term), language=tag.lower())


def isnumeric(term: str) -> str:
    """ISNUMERIC: whether a term is a literal that is a number; a vertex is none, whatever its text."""
    try:
        return boolean_term(is_literal(term) and isinstance(value_of(term), Number))
    except NoValue:
        return boolean_term(False)


# --- numbers ---------------------------------------------------------------------------------------------------------


def negated(term: str) -> str:
    """Unary minus."""
    number = number_of(term)
    return number_term(checked(number.type, -number.amount))


def kept(term: str) -> str:
    """Unary plus: the number, as numbers are written."""
    return number_term(number_of(term))


def absolute(term: str) -> str:
    """ABS."""
    number = number_of(term)
    amount: Any = number.amount  # whatever it is, abs knows it
    return number_term(checked(number.type, abs(amount)))


def whole(step: Callable[[Fraction], int], term: str) -> str:
    """CEIL, FLOOR, ROUND: a whole number of the same type; floats keep their sign."""
    number = number_of(term)
    if isinstance(number.amount, float):
        if not math.isfinite(number.amount):
            return number_term(number)
        return number_term(Number(number.type, math.copysign(float(step(Fraction(number.amount))), number.amount)))
    return number_term(checked(number.type, step(Fraction(number.amount))))


def half_up(amount: Fraction) -> int:
    """The nearest whole number, of two the larger.

    >>> half_up(Fraction(5, 2)), half_up(Fraction(-5, 2))
    (3, -2)
    """
    return math.floor(amount + Fraction(1, 2))


# --- dates and times -------------------------------------------------------------------------------------------------


def part_of_moment(field: Callable[[Moment], int | Fraction], *types: str) -> Callable[[str], str]:
    """YEAR, MONTH, DAY, HOURS, MINUTES, SECONDS: a field of moments of the types that have it."""

    def part(term: str) -> str:
        moment = _moment(term)
        if moment.type not in types:
            raise NoValue(f"{term} has no such part")
        amount = field(moment)
        return number_term(checked("integer" if isinstance(amount, int) else "decimal", amount))

    return part


def timezone(term: str) -> str:
    """TIMEZONE: the zone as a dayTimeDuration; an error without one."""
    moment = _moment(term)
    if moment.zone is None:
        raise NoValue(f"{term} has no zone")
    return literal_text(zone_text(moment.zone), XSD + "dayTimeDuration")


def tz(term: str) -> str:
    """TZ: the zone as it is written; empty without one."""
    has_zone = _moment(term).zone is not None  # a date may end like one
    found = _ZONE.search(text_of(term))
    return literal_text(found[0] if found and has_zone else "")


def _moment(term: str) -> Moment:
    value = value_of(term)
    if not isinstance(value, Moment):
        raise NoValue(f"{term} is no date or time")
    return value


# --- the table -------------------------------------------------------------------------------------------------------


def _hash(name: str) -> Callable[[str], str]:
    return lambda term: literal_text(hashlib.new(name, plain_string_of(term).encode()).hexdigest())


def _compared(holds: Callable[[str, str], bool]) -> Callable[[str, str], str]:
    return lambda left, right: boolean_term(holds(left, right))


FUNCTIONS: dict[str, Callable[..., str]] = {
    "!": lambda term: boolean_term(not is_true(term)),
    **{sign: _compared(holds) for sign, holds in COMPARISONS.items()},
    **{sign: partial(calculated, sign) for sign in "+-*/"},
    "unary -": negated,
    "unary +": kept,
    "STR": lambda term: literal_text(text_of(term)),
    "LANG": lang,
    "LANGMATCHES": langmatches,
    "DATATYPE": datatype,
    "IRI": iri,
    "STRDT": strdt,
    "STRLANG": strlang,
    "SAMETERM": lambda left, right: boolean_term(left == right),
    "ISIRI": lambda term: boolean_term(not is_literal(term) and not is_blank(term)),
    "ISBLANK": lambda term: boolean_term(is_blank(term)),
    "ISLITERAL": lambda term: boolean_term(is_literal(term)),
    "ISNUMERIC": isnumeric,
    "ABS": absolute,
    "CEIL": partial(whole, math.ceil),
    "FLOOR": partial(whole, math.floor),
    "ROUND": partial(whole, half_up),
    "STRLEN": strlen,
    "SUBSTR": substr,
    "UCASE": changed(str.upper),
    "LCASE": changed(str.lower),
    "CONCAT": concat,
    "CONTAINS": tested(lambda left, right: right in left),
    "STRSTARTS": tested(str.startswith),
    "STRENDS": tested(str.endswith),
    "STRBEFORE": strbefore,
    "STRAFTER": strafter,
    "ENCODE_FOR_URI": encode_for_uri,
    "REGEX": regex,
    "REPLACE": replace,
    "YEAR": part_of_moment(lambda moment: moment.year, "dateTime", "date"),
    "MONTH": part_of_moment(lambda moment: moment.month, "dateTime", "date"),
    "DAY": part_of_moment(lambda moment: moment.day, "dateTime", "date"),
    "HOURS": part_of_moment(lambda moment: moment.hour, "dateTime", "time"),
    "MINUTES": part_of_moment(lambda moment: moment.minute, "dateTime", "time"),
    "SECONDS": part_of_moment(lambda moment: moment.second, "dateTime", "time"),
    "TIMEZONE": timezone,
    "TZ": tz,
    **{name: _hash(name.lower()) for name in ("MD5", "SHA1", "SHA256", "SHA384", "SHA512")},
    **CASTS,
}
"""By the names that formulas have for them, casts by their IRIs."""
