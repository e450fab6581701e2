"""The functions of SPARQL 1.1 (section 17.4) that evaluate all their arguments, and casts (section 17.5), by name.

Functions map terms to a term and raise `NoValue` where SPARQL has an error. Those that look at their arguments one by one
(`&&`, IF, COALESCE, IN, BOUND, EXISTS) are in `rpq.language.sparql.values.formula_values`.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any
from urllib.parse import quote

from rpq.language.sparql.values.moments import MOMENTS, Moment, zone_text
from rpq.language.sparql.values.operators import COMPARISONS, calculate, is_true, number_of
from rpq.language.sparql.values.regular_expressions import compile_pattern, replace_matches
from rpq.language.sparql.values.typed_values import (
    NUMBER_TYPES,
    NoValue,
    Number,
    NumberType,
    Text,
    Value,
    boolean_term,
    checked_number,
    integer_term,
    number_term,
    number_text,
    promote_amount,
    rounded_number,
    value_of,
)
from rpq.stream.names.terms import XSD, is_blank, is_literal, literal_text, read_literal, resolve_iri


def text_of(term: str) -> str:
    """Return the lexical form of a literal or the text of an IRI, as STR does. Raises `NoValue` for a blank node."""
    if is_blank(term):
        raise NoValue("a blank node has no text")
    literal = read_literal(term) if is_literal(term) else None
    return term if literal is None else literal.text


def to_string(term: str) -> str:
    """Cast to xsd:string: numbers and booleans in the form of their types, everything else by its text.

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
        return literal_text(number_text(value))
    return literal_text(str(value).lower() if isinstance(value, bool) else text_of(term))


def to_boolean(term: str) -> str:
    """Cast to xsd:boolean."""
    value = _value(term, "boolean")
    if isinstance(value, Number):
        return boolean_term(not (value.amount == 0 or math.isnan(value.amount)))
    if isinstance(value, bool):
        return boolean_term(value)
    raise _impossible(term, "boolean")


def to_moment(type_: str, term: str) -> str:
    """Cast to xsd:dateTime, date or time: a string, which keeps its lexical form, or another moment that has the fields.

    >>> print(to_moment("date", '"2024-05-06T07:08:09.50+00:00"^^<http://www.w3.org/2001/XMLSchema#dateTime>'))
    "2024-05-06Z"^^<http://www.w3.org/2001/XMLSchema#date>
    """
    value = _value(term, type_)
    if not isinstance(value, Moment):
        raise _impossible(term, type_)
    if value.type == type_:
        return literal_text(text_of(term).strip(" \t\n\r"), XSD + type_)
    text = value.text_as(type_)
    if text is None:
        raise _impossible(term, type_)
    return literal_text(text, XSD + type_)


def to_number(type_: NumberType, term: str) -> str:
    """Cast to xsd:integer, decimal, float or double: integers are truncated, decimals rounded.

    >>> print(to_number("integer", "-12.9"))
    "-12"^^<http://www.w3.org/2001/XMLSchema#integer>
    """
    value = _value(term, type_)
    if isinstance(value, bool):
        return number_term(checked_number(type_, int(value)))
    if not isinstance(value, Number):
        raise _impossible(term, type_)
    if type_ in ("float", "double"):
        return number_term(checked_number(type_, promote_amount(value, type_)))
    if not math.isfinite(value.amount):
        raise _impossible(term, type_)
    exact = Fraction(value.amount)
    return number_term(checked_number(type_, math.trunc(exact)) if type_ == "integer" else rounded_number(type_, exact))


def _value(term: str, type_: str) -> Value:
    """Return the value to cast. The text of a string, stripped of blanks, is parsed as a value of the target type."""
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
    **{XSD + type_: partial(to_moment, type_) for type_ in MOMENTS},
    **{XSD + type_: partial(to_number, type_) for type_ in NUMBER_TYPES},
}
"""The casts by their IRIs; each raises `NoValue`."""


def string_of(term: str) -> Text:
    """Return the value of a term, which must be a string. Raises `NoValue`."""
    value = value_of(term)
    if not isinstance(value, Text):
        raise NoValue(f"{term} is not a string")
    return value


def plain_string_of(term: str) -> str:
    """Return the value of a term, which must be a string without a language. Raises `NoValue`."""
    value = string_of(term)
    if value.language:
        raise NoValue(f"{term} has a language")
    return value.text


def language_of(term: str) -> str:
    """Return the language tag of a term with its original case, or an empty string."""
    literal = read_literal(term) if is_literal(term) else None
    return "" if literal is None else literal.language


def strlen(term: str) -> str:
    """STRLEN: the number of code points."""
    return integer_term(len(string_of(term).text))


def substr(term: str, start: str, length: str | None = None) -> str:
    """SUBSTR: a substring from a position, where the first is 1.

    >>> substr('"foobar"', "4"), substr('"foobar"@en', "0", "3")
    ('"bar"', '"fo"@en')
    """
    text = string_of(term).text
    first = _integer(start)
    end = len(text) + 1 if length is None else first + _integer(length)
    return literal_text(text[max(first - 1, 0) : max(end - 1, 0)], language=language_of(term))


def concat(*terms: str) -> str:
    """CONCAT: the concatenation of strings, with a language if all of them have that language."""
    values = [string_of(term) for term in terms]
    languages = {value.language for value in values}
    language = language_of(terms[0]) if len(languages) == 1 else ""
    return literal_text("".join(value.text for value in values), language=language)


def strbefore(term: str, part: str) -> str:
    """STRBEFORE: the text before the first occurrence of a part, or an empty string without a language."""
    text, cut = _compatible(term, part)
    before, found, _ = text.partition(cut) if cut else ("", True, "")
    return literal_text(before, language=language_of(term)) if found else literal_text("")


def strafter(term: str, part: str) -> str:
    """STRAFTER: the text after the first occurrence of a part, or an empty string without a language."""
    text, cut = _compatible(term, part)
    _, found, after = text.partition(cut) if cut else ("", True, text)
    return literal_text(after, language=language_of(term)) if found else literal_text("")


def langmatches(language: str, range_text: str) -> str:
    """LANGMATCHES: basic filtering of RFC 4647.

    >>> [langmatches(f'"{one}"', '"FR"') == boolean_term(True) for one in ("fr-BE", "fr", "frr", "")]
    [True, True, False, False]
    """
    tag, range_ = plain_string_of(language).lower(), plain_string_of(range_text).lower()
    return boolean_term(tag != "" if range_ == "*" else tag == range_ or (tag.startswith(f"{range_}-") and range_ != ""))


def encode_for_uri(term: str) -> str:
    """ENCODE_FOR_URI: percent-encode the UTF-8 bytes of everything but letters, digits and `-_.~`."""
    return literal_text(quote(string_of(term).text.encode("utf-8", "surrogatepass"), safe="-_.~"))


def regex(term: str, pattern: str, flags: str = '""') -> str:
    """REGEX: whether a pattern matches anywhere in the text."""
    expression = compile_pattern(plain_string_of(pattern), plain_string_of(flags))
    return boolean_term(expression.matches(string_of(term).text))


def replace(term: str, pattern: str, replacement: str, flags: str = '""') -> str:
    """REPLACE: the text with every match replaced."""
    result = replace_matches(
        string_of(term).text, plain_string_of(pattern), plain_string_of(replacement), plain_string_of(flags)
    )
    return literal_text(result, language=language_of(term))


def string_map(change: Callable[[str], str]) -> Callable[[str], str]:
    """Return a function that changes the text of a string and keeps its language."""
    return lambda term: literal_text(change(string_of(term).text), language=language_of(term))


def string_test(predicate: Callable[[str, str], bool]) -> Callable[[str, str], str]:
    """Return a function that tests two strings with compatible languages."""
    return lambda left, right: boolean_term(predicate(*_compatible(left, right)))


def _compatible(left: str, right: str) -> tuple[str, str]:
    """Return two strings, the second of which has no language or that of the first (section 17.4.3.1.2)."""
    first, second = string_of(left), string_of(right)
    if second.language and second.language != first.language:
        raise NoValue(f"{left} and {right} are in different languages")
    return first.text, second.text


def _integer(term: str) -> int:
    number = number_of(term)
    if number.type != "integer":
        raise NoValue(f"{term} is not an integer")
    return int(number.amount)


_LANGUAGE = re.compile(r"[A-Za-z]+(?:-[A-Za-z0-9]+)*")
_ZONE = re.compile(r"(?:Z|[+-][0-9]{2}:[0-9]{2})$")


# --- terms -----------------------------------------------------------------------------------------------------------


def lang(term: str) -> str:
    """LANG: the language of a literal."""
    literal = read_literal(term)
    if literal is None:
        raise NoValue(f"{term} is not a literal")
    return literal_text(literal.language)


def datatype(term: str) -> str:
    """DATATYPE: the datatype of a literal."""
    literal = read_literal(term)
    if literal is None:
        raise NoValue(f"{term} is not a literal")
    return literal.datatype


def iri(term: str, base: str = "") -> str:
    """IRI: convert a string to an IRI, relative to the base of the query if there is one; IRIs do not change.

    >>> iri('"b"', "http://example.org/a"), iri('"b"'), iri("b")
    ('http://example.org/b', 'b', 'b')
    """
    if not is_literal(term) and not is_blank(term):
        return term
    resolved = resolve_iri(base, plain_string_of(term))
    if is_literal(resolved) or is_blank(resolved):
        raise NoValue(f"{resolved} is not an IRI")
    return resolved


def strdt(term: str, type_: str) -> str:
    """STRDT: a literal with a datatype."""
    if is_literal(type_) or is_blank(type_):
        raise NoValue("a datatype is an IRI")
    return literal_text(plain_string_of(term), type_)


def strlang(term: str, language: str) -> str:
    """STRLANG: a literal with a language, whose tag is lowercased."""
    tag = plain_string_of(language)
    if not _LANGUAGE.fullmatch(tag):
        raise NoValue(f"{tag!r} is not a language tag")
    return literal_text(plain_string_of(term), language=tag.lower())


def isnumeric(term: str) -> str:
    """ISNUMERIC: whether a term is a numeric literal; a vertex never is, whatever its text."""
    try:
        return boolean_term(is_literal(term) and isinstance(value_of(term), Number))
    except NoValue:
        return boolean_term(False)


# --- numbers ---------------------------------------------------------------------------------------------------------


def negate(term: str) -> str:
    """Unary minus."""
    number = number_of(term)
    return number_term(checked_number(number.type, -number.amount))


def unary_plus(term: str) -> str:
    """Unary plus: the number in its canonical form."""
    return number_term(number_of(term))


def absolute_value(term: str) -> str:
    """ABS."""
    number = number_of(term)
    amount: Any = number.amount  # whatever it is, abs knows it
    return number_term(checked_number(number.type, abs(amount)))


def round_with(step: Callable[[Fraction], int], term: str) -> str:
    """CEIL, FLOOR, ROUND: an integral value of the same type; floats keep their sign."""
    number = number_of(term)
    if isinstance(number.amount, float):
        if not math.isfinite(number.amount):
            return number_term(number)
        return number_term(Number(number.type, math.copysign(float(step(Fraction(number.amount))), number.amount)))
    return number_term(checked_number(number.type, step(Fraction(number.amount))))


def half_up(amount: Fraction) -> int:
    """Return the nearest integer, the larger of two.

    >>> half_up(Fraction(5, 2)), half_up(Fraction(-5, 2))
    (3, -2)
    """
    return math.floor(amount + Fraction(1, 2))


# --- dates and times -------------------------------------------------------------------------------------------------


def part_of_moment(field: Callable[[Moment], int | Fraction], *types: str) -> Callable[[str], str]:
    """YEAR, MONTH, DAY, HOURS, MINUTES, SECONDS: a field of a moment, for the `types` that have it."""

    def part(term: str) -> str:
        moment = _moment(term)
        if moment.type not in types:
            raise NoValue(f"{term} has no such part")
        amount = field(moment)
        return number_term(checked_number("integer" if isinstance(amount, int) else "decimal", amount))

    return part


def timezone(term: str) -> str:
    """TIMEZONE: the zone as a dayTimeDuration; an error if there is no zone."""
    moment = _moment(term)
    if moment.zone is None:
        raise NoValue(f"{term} has no zone")
    return literal_text(zone_text(moment.zone), XSD + "dayTimeDuration")


def tz(term: str) -> str:
    """TZ: the zone in its original form; empty if there is no zone."""
    has_zone = _moment(term).zone is not None  # the text of a date can end like a zone
    found = _ZONE.search(text_of(term))
    return literal_text(found[0] if found and has_zone else "")


def _moment(term: str) -> Moment:
    value = value_of(term)
    if not isinstance(value, Moment):
        raise NoValue(f"{term} is not a date or time")
    return value


# --- the table -------------------------------------------------------------------------------------------------------


def _hash(name: str) -> Callable[[str], str]:
    return lambda term: literal_text(hashlib.new(name, plain_string_of(term).encode()).hexdigest())


def _text_comparison(predicate: Callable[[str, str], bool]) -> Callable[[str, str], str]:
    return lambda left, right: boolean_term(predicate(left, right))


FUNCTIONS: dict[str, Callable[..., str]] = {
    "!": lambda term: boolean_term(not is_true(term)),
    **{sign: _text_comparison(predicate) for sign, predicate in COMPARISONS.items()},
    **{sign: partial(calculate, sign) for sign in "+-*/"},
    "unary -": negate,
    "unary +": unary_plus,
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
    "ABS": absolute_value,
    "CEIL": partial(round_with, math.ceil),
    "FLOOR": partial(round_with, math.floor),
    "ROUND": partial(round_with, half_up),
    "STRLEN": strlen,
    "SUBSTR": substr,
    "UCASE": string_map(str.upper),
    "LCASE": string_map(str.lower),
    "CONCAT": concat,
    "CONTAINS": string_test(lambda left, right: right in left),
    "STRSTARTS": string_test(str.startswith),
    "STRENDS": string_test(str.endswith),
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
"""The functions by their names in formulas, and casts by their IRIs."""
