"""The oracle's terms and values: what SPARQL's functions, operators and aggregates give, as the contract words them.

A term is a text: a vertex's own (an IRI by its text, `_:x` a blank node) or a literal in N-Triples form, `"30"^^<…>`.
A function takes terms and returns one, or raises `NoValue`, which is SPARQL's error. Numbers in brackets name the
rule of the contract: [2.8] aggregates, [2.13] terms and values.

Under `STANDARD` an IRI has no value, as in SPARQL 1.1, so that the same code can be held against other engines; under
`CONTRACT` it has that of the number, or the string, that its text is. What neither the contract nor the standard says
is decided here:

- **Who sees values**: every function and operator that takes literals, casts too. sameTerm, isIRI, isBlank,
  isLiteral, isNumeric, BOUND, DATATYPE, LANG and the truth of a term look at the term itself: `FILTER(?x)` on an IRI
  is an error, isNumeric of the vertex `30` false. STR and xsd:string of an IRI are its own text; IRI of an IRI is
  itself.
- **Known values of different kinds** (number, string, string with language, boolean, date) are not equal, which is no
  error; of literals without a known value `=` is true for one and the same, else an error. Strings of one language
  have an order, booleans, dates and times as well. Of two times of which one has no zone, less than 14 hours apart,
  none is before the other: an error. They are not equal, but of dates that is an error as well.
- **Numbers**: a literal outside its range (64 bits; decimals of 18 fractional digits, ±2^127 units of the last) has
  no value; the results of `+ - *` must be inside exactly; a quotient of decimals is rounded, half to even, to 18
  digits. Bounds of xsd:byte and its kin are not looked at. With a float or double involved, comparisons and
  arithmetic are the floating ones.
- **Written form** of computed numbers: integers and decimals without superfluous zeros (`2`, `1.5`), floats and
  doubles as casts to xsd:string write them: `2.5`, `1`, `1.0E21`. Constants stay as they are written.
- **MIN, MAX, SAMPLE**: blank nodes, numbers (NaN last), strings (with or without language, and IRIs) by code point,
  booleans, dates and times (without a zone as in UTC), the rest; equal values, and the rest, by text. Numbers of all
  types by exact value.
- **SUM and AVG** of nothing are 0. Floats summed among themselves stay xsd:float. An integer SUM beyond 64 bits is
  unbound.
- **Languages** of a query's literals, and of those that functions make, are in small letters, as RDF readers write
  them. A string with a language is another than any other literal, be its type unknown.
"""

from __future__ import annotations

import hashlib
import math
import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import NamedTuple
from urllib.parse import quote, urljoin

import numpy

XSD = "http://www.w3.org/2001/XMLSchema#"
LANGUAGE_STRING = "http://www.w3.org/1999/02/22-rdf-syntax-ns#langString"
INTEGERS = (
    "integer nonPositiveInteger negativeInteger long int short byte nonNegativeInteger unsignedLong unsignedInt "
    "unsignedShort unsignedByte positiveInteger"
).split()
RANKS = ("integer", "decimal", "float", "double")  # what numbers are promoted to: the later one of two
UNIT = 10**18  # decimals are multiples of 1 / UNIT


@dataclass(frozen=True)
class Rules:
    """The rules for comparing terms: those of the contract or those of the standard [2.13]."""

    iris_have_values: bool = True
    literals_match_vertices: bool = True  # a literal constant in a triple pattern also means its lexical form


CONTRACT = Rules()
STANDARD = Rules(iris_have_values=False, literals_match_vertices=False)


class NoValue(Exception):
    """An error of SPARQL: the function has no value for these arguments."""


class Literal(NamedTuple):
    """The parts of a literal; without datatype and language it is a string."""

    lexical: str
    datatype: str = XSD + "string"
    language: str | None = None


class Number(NamedTuple):
    """A number of a type in RANKS: an int, an exact decimal, or a float."""

    rank: str
    value: int | Fraction | float


class Text(NamedTuple):
    """A string, perhaps in a language (in small letters)."""

    text: str
    language: str | None = None


class Moment(NamedTuple):
    """A dateTime, date or time: the seconds of its fields, its zone in minutes, and the fields, 0 where it has none."""

    type: str
    seconds: Fraction
    zone: int | None
    fields: tuple[int, int, int, int, int, Fraction]

    @property
    def instant(self) -> Fraction:
        return self.seconds - 60 * (self.zone or 0)


Value = Number | Text | Moment | bool


# --- terms ----------------------------------------------------------------------------------------------------------


def is_literal(term: str) -> bool:
    return term.startswith('"')


def is_blank(term: str) -> bool:
    return term.startswith("_:")


def is_iri(term: str) -> bool:
    return not is_literal(term) and not is_blank(term)


_LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"(?:@([A-Za-z0-9-]+)|\^\^<([^<>]*)>)?', re.DOTALL)
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_ESCAPED = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f"}


@cache
def parts(term: str) -> Literal:
    """Return the parts of a literal; NoValue for other terms, and for a text that only begins like one."""
    if (found := _LITERAL.fullmatch(term)) is None:
        raise NoValue(f"{term} is no literal")

    def character(escape: re.Match[str]) -> str:
        code = escape[0][1:]
        return chr(int(code[1:], 16)) if code[0] in "uU" else _ESCAPED.get(code, code)

    lexical = re.sub(r"\\(?:u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)", character, found[1])
    if found[2]:
        return Literal(lexical, LANGUAGE_STRING, found[2])
    return Literal(lexical, found[3] or XSD + "string")


def literal(lexical: str, datatype: str | None = None, language: str | None = None) -> str:
    """Return the term of a literal; a short name of a datatype is one of XSD.

    >>> literal("30", "integer"), literal("ja", language="de"), literal("a", "string")
    ('"30"^^<http://www.w3.org/2001/XMLSchema#integer>', '"ja"@de', '"a"')
    """
    written = '"' + "".join(_ESCAPES.get(c, c) for c in lexical) + '"'
    if language:
        return f"{written}@{language.lower()}"
    if datatype is None or datatype in ("string", XSD + "string"):
        return written
    return f"{written}^^<{datatype if ':' in datatype else XSD + datatype}>"


def text_of(term: str) -> str:
    """Return what STR gives: the lexical form of a literal, the text of an IRI."""
    if is_blank(term):
        raise NoValue("a blank node has no text")
    return parts(term).lexical if is_literal(term) else term


# --- values ---------------------------------------------------------------------------------------------------------

_INTEGER = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)")
_DOUBLE = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?INF|NaN")
_GRAMMAR = (  # the numbers of SPARQL's grammar, which has no `1.` and no INF
    ("integer", _INTEGER),
    ("decimal", re.compile(r"[+-]?[0-9]*\.[0-9]+")),
    ("double", re.compile(r"[+-]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)[eE][+-]?[0-9]+")),
)
_MOMENTS = {
    "dateTime": re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d(?:\.\d+)?)(Z|[+-]\d\d:\d\d)?"),
    "date": re.compile(r"(\d{4})-(\d\d)-(\d\d)()()()(Z|[+-]\d\d:\d\d)?"),
    "time": re.compile(r"()()()(\d\d):(\d\d):(\d\d(?:\.\d+)?)(Z|[+-]\d\d:\d\d)?"),
}

_CASTS_OF_MOMENTS = {("dateTime", "date"), ("dateTime", "time"), ("date", "dateTime")}


def value(term: str, rules: Rules = CONTRACT) -> Value:
    """Return the value of a literal, or of an IRI if the rules give it one; NoValue for what has none [2.13]."""
    if is_blank(term):
        raise NoValue("a blank node has no value")
    if is_iri(term):
        if not rules.iris_have_values:
            raise NoValue(f"<{term}> is an IRI")
        rank = next((rank for rank, form in _GRAMMAR if form.fullmatch(term)), None)
        return Text(term) if rank is None else _number(rank, term)
    lexical, datatype, language = parts(term)
    if language is not None:
        return Text(lexical, language.lower())
    if not datatype.startswith(XSD):
        raise NoValue(f"nothing is known of the type {datatype}")
    kind = datatype[len(XSD) :]
    if kind == "string":
        return Text(lexical)
    if kind == "boolean":
        if lexical not in ("true", "false", "1", "0"):
            raise NoValue(f"{lexical!r} is no boolean")
        return lexical in ("true", "1")
    if kind in INTEGERS and _INTEGER.fullmatch(lexical):
        return _number("integer", lexical)
    if kind == "decimal" and _DECIMAL.fullmatch(lexical):
        return _number("decimal", lexical)
    if kind in ("float", "double") and _DOUBLE.fullmatch(lexical):
        return _number(kind, lexical)
    if kind in _MOMENTS and (found := _MOMENTS[kind].fullmatch(lexical)):
        return _moment(kind, found)
    raise NoValue(f"{term} has no value that is known")


def _number(rank: str, lexical: str) -> Number:
    if rank == "integer":
        return checked(Number(rank, int(lexical)))
    if rank == "decimal":
        return checked(Number(rank, Fraction(Decimal(lexical))))
    return checked(Number(rank, float(lexical)))


def checked(number: Number) -> Number:
    """Return the number if its type can hold it exactly (a float rounded to its size), else raise NoValue [2.13]."""
    rank, amount = number
    if rank == "integer":
        inside = -(2**63) <= amount < 2**63
    elif rank == "decimal":
        units = Fraction(amount) * UNIT
        inside = units.denominator == 1 and -(2**127) <= units < 2**127
    else:
        return Number(rank, single(float(amount)) if rank == "float" else float(amount))
    if not inside:
        raise NoValue(f"{amount} is outside xsd:{rank}")
    return number


def single(amount: float) -> float:
    """Round to the nearest float of 32 bits."""
    try:
        return struct.unpack("f", struct.pack("f", amount))[0]
    except OverflowError:
        return math.copysign(math.inf, amount)


def _moment(kind: str, found: re.Match[str]) -> Moment:
    year, month, day, hour, minute = (int(part or 0) for part in found.groups()[:5])
    second = Fraction(found[6] or 0)
    try:
        days = date(year, month, day).toordinal() if kind != "time" else 0
    except ValueError:
        raise NoValue("there is no such day") from None
    if hour > 24 or minute > 59 or second >= 60 or (hour == 24 and (minute or second)):
        raise NoValue("there is no such time")
    zone = None if not found[7] else 0
    if found[7] and found[7] != "Z":
        zone = (1 if found[7][0] == "+" else -1) * (60 * int(found[7][1:3]) + int(found[7][4:]))
    return Moment(kind, days * 86400 + 3600 * hour + 60 * minute + second, zone, (year, month, day, hour, minute, second))


def number(term: str, rules: Rules) -> Number:
    found = value(term, rules)
    if not isinstance(found, Number):
        raise NoValue(f"{term} is no number")
    return found


def text(term: str, rules: Rules) -> Text:
    found = value(term, rules)
    if not isinstance(found, Text):
        raise NoValue(f"{term} is no string")
    return found


def plain(term: str, rules: Rules) -> str:
    """Return a string that has no language."""
    found = text(term, rules)
    if found.language is not None:
        raise NoValue(f"{term} has a language")
    return found.text


def truth(term: str, rules: Rules = CONTRACT) -> bool:
    """Return the effective boolean value of a term; of an IRI there is none, whatever its text."""
    known = parts(term)
    if known.datatype == XSD + "boolean" or known.datatype[len(XSD) :] in (*INTEGERS, *RANKS):
        try:
            found = value(term, rules)
        except NoValue:
            if _is_number_outside(known):
                raise
            return False
        return found if isinstance(found, bool) else not (found.value == 0 or found.value != found.value)
    if known.datatype in (XSD + "string", LANGUAGE_STRING):
        return known.lexical != ""
    raise NoValue(f"{term} is neither true nor false")


def _is_number_outside(known: Literal) -> bool:
    """A number that is one, but not one that can be held."""
    return _DECIMAL.fullmatch(known.lexical) is not None and known.datatype != XSD + "boolean"


# --- values as terms ------------------------------------------------------------------------------------------------


def of_boolean(truth: bool) -> str:
    return literal("true" if truth else "false", "boolean")


def of_number(number: Number) -> str:
    return literal(written(checked(number)), number.rank)


def of_text(text: str, language: str | None = None) -> str:
    return literal(text, language=language)


def written(number: Number) -> str:
    """Return the lexical form of a number as a cast to xsd:string writes it.

    >>> [written(Number("decimal", Fraction(3, 2))), written(Number("double", 1e21)), written(Number("double", 100.0))]
    ['1.5', '1.0E21', '100']
    """
    rank, amount = number
    if rank == "integer":
        return str(amount)
    if rank == "decimal":
        units = int(amount * UNIT)
        digits = f"{abs(units):019d}"
        fraction = digits[-18:].rstrip("0")
        return ("-" if units < 0 else "") + digits[:-18] + ("." + fraction if fraction else "")
    if math.isnan(amount) or math.isinf(amount):
        return "NaN" if math.isnan(amount) else "INF" if amount > 0 else "-INF"
    shortest = Decimal(repr(amount) if rank == "double" else str(numpy.float32(amount)))
    if amount == 0:
        return "-0" if math.copysign(1, amount) < 0 else "0"
    if Decimal("1e-6") <= abs(shortest) < Decimal("1e6"):
        plain = f"{shortest:f}"
        return plain.rstrip("0").rstrip(".") if "." in plain else plain
    digits = "".join(map(str, shortest.as_tuple().digits)).rstrip("0")
    sign = "-" if amount < 0 else ""
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{shortest.adjusted()}"


def rounded(amount: Fraction, rank: str) -> Number:
    """Return an exact result as a number of this type, rounded once, half to even."""
    if rank == "integer":
        return checked(Number(rank, int(amount)))
    if rank == "decimal":
        return checked(Number(rank, Fraction(round(amount * UNIT), UNIT)))
    try:
        nearest = amount.numerator / amount.denominator  # int / int rounds correctly
    except OverflowError:
        nearest = math.inf if amount > 0 else -math.inf
    return checked(Number(rank, nearest))


# --- operators ------------------------------------------------------------------------------------------------------


def _amount(number: Number, rank: str) -> int | Fraction | float:
    """The amount of a number that is promoted to this type, to calculate with."""
    if rank in ("float", "double") and number.rank in ("integer", "decimal"):
        return rounded(Fraction(number.value), rank).value
    return Fraction(number.value) if rank in ("integer", "decimal") else number.value


def equal(left: str, right: str, rules: Rules = CONTRACT) -> bool:
    """Return whether `left = right`."""
    try:
        a, b = value(left, rules), value(right, rules)
    except NoValue:
        if left == right:
            return True
        for iri in filter(is_iri, (left, right)):
            if rules.iris_have_values:
                value(iri, rules)  # a number that is too large is an error
        literals = list(filter(is_literal, (left, right)))
        if len(literals) == 2 and not any(parts(term).language for term in literals):
            raise
        return False  # a blank node is nothing but itself, and no IRI is a literal of unknown value
    if isinstance(a, Number) and isinstance(b, Number):
        rank = max(a.rank, b.rank, key=RANKS.index)
        return _amount(a, rank) == _amount(b, rank)
    if isinstance(a, Moment) and isinstance(b, Moment):
        if a.type != "date":  # as both libraries have it; they differ on dates, and W3C's test decides
            return a.type == b.type and (a.zone is None) == (b.zone is None) and a.instant == b.instant
        return a.type == b.type and comparable(a, b) and a.instant == b.instant
    return type(a) is type(b) and a == b


def less(left: str, right: str, rules: Rules = CONTRACT) -> bool:
    """Return whether `left < right`."""
    a, b = value(left, rules), value(right, rules)
    if isinstance(a, Number) and isinstance(b, Number):
        rank = max(a.rank, b.rank, key=RANKS.index)
        return _amount(a, rank) < _amount(b, rank)
    if isinstance(a, Text) and isinstance(b, Text) and a.language == b.language:
        return a.text < b.text
    if isinstance(a, Moment) and isinstance(b, Moment) and a.type == b.type:
        return comparable(a, b) and a.instant < b.instant
    if isinstance(a, bool) and isinstance(b, bool):
        return a < b
    raise NoValue(f"{left} and {right} have no order")


def comparable(a: Moment, b: Moment) -> bool:
    """Return True, or raise NoValue where the zone that one of them lacks would decide."""
    if (a.zone is None) != (b.zone is None) and abs(a.instant - b.instant) <= 14 * 3600:
        raise NoValue("times with and without a zone, less than 14 hours apart")
    return True


def arithmetic(operator: str, left: str, right: str, rules: Rules = CONTRACT) -> str:
    """Return what `+ - * /` give."""
    a, b = number(left, rules), number(right, rules)
    rank = max(a.rank, b.rank, key=RANKS.index)
    if operator == "/" and rank == "integer":
        rank = "decimal"
    x, y = _amount(a, rank), _amount(b, rank)
    if operator == "/":
        if rank == "decimal":
            if y == 0:
                raise NoValue("division by zero")
            return of_number(rounded(x / y, rank))
        with numpy.errstate(all="ignore"):
            return of_number(Number(rank, float(numpy.float64(x) / numpy.float64(y))))
    result = x + y if operator == "+" else x - y if operator == "-" else x * y
    return of_number(Number(rank, int(result) if rank == "integer" else result))


def sort_key(term: str, rules: Rules = CONTRACT) -> tuple:
    """Return what MIN and MAX go by [2.8, 2.13]."""
    if is_blank(term):
        return (0, term)
    try:
        found = value(term, rules)
    except NoValue:
        return (5, term)
    if isinstance(found, Number):
        amount = found.value
        if amount != amount:
            return (1, 2, 0, term)
        infinite = isinstance(amount, float) and math.isinf(amount)
        return (1, 1 if amount > 0 else -1, 0, term) if infinite else (1, 0, Fraction(amount), term)
    if isinstance(found, Text):
        return (2, found.text, term)
    return (3, found, term) if isinstance(found, bool) else (4, found.type, found.instant, term)


# --- aggregates -----------------------------------------------------------------------------------------------------


def aggregate(
    name: str, values: Sequence[str | None], rules: Rules = CONTRACT, separator: str = " "
) -> str | None:
    """Return COUNT, SUM, AVG, MIN, MAX, SAMPLE or GROUP_CONCAT of the values of a group.

    None is an unbound value, and an aggregate that is unbound.

    DISTINCT, which goes by term, is for the caller to apply [2.8].
    """
    bound = [term for term in values if term is not None]
    if name == "COUNT":
        return literal(str(len(bound)), "integer")
    if name == "SAMPLE":
        return min(bound, key=lambda term: sort_key(term, rules), default=None)
    if len(bound) < len(values):
        return None
    if name in ("MIN", "MAX"):
        choose = min if name == "MIN" else max
        return choose(bound, key=lambda term: sort_key(term, rules), default=None)
    if name == "GROUP_CONCAT":
        if any(map(is_blank, bound)):
            return None
        return of_text(separator.join(text_of(term) for term in sorted(bound, key=lambda term: sort_key(term, rules))))
    try:
        return _sum_or_average(name, [number(term, rules) for term in bound])
    except NoValue:
        return None


def _sum_or_average(name: str, numbers: list[Number]) -> str:
    rank = max((n.rank for n in numbers), key=RANKS.index, default="integer")
    if name == "AVG" and rank == "integer" and numbers:
        rank = "decimal"
    if not all(math.isfinite(n.value) for n in numbers):
        special = sum(float(n.value) for n in numbers if not math.isfinite(n.value))
        return of_number(Number(rank, special))
    total = sum((Fraction(n.value) for n in numbers), Fraction(0))
    return of_number(rounded(total / len(numbers) if name == "AVG" and numbers else total, rank))


# --- functions ------------------------------------------------------------------------------------------------------


def call(name: str, arguments: Sequence[str], rules: Rules = CONTRACT, base: str = "") -> str:
    """Return what a function or operator of SPARQL gives; names are those of the grammar, casts IRIs of XSD."""
    if name.startswith(XSD):
        return cast(name[len(XSD) :], arguments[0], rules)
    if name in ("+", "-", "*", "/") and len(arguments) == 2:
        return arithmetic(name, *arguments, rules)
    if name in _COMPARISONS:
        return of_boolean(_COMPARISONS[name](*arguments, rules))
    if name == "IRI":
        if is_iri(arguments[0]):
            return arguments[0]
        written = plain(arguments[0], rules)
        return urljoin(base, written) if base else written
    if name not in _FUNCTIONS:
        raise KeyError(name)
    return _FUNCTIONS[name](rules, *arguments)


_COMPARISONS: dict[str, Callable[[str, str, Rules], bool]] = {
    "=": equal,
    "!=": lambda a, b, rules: not equal(a, b, rules),
    "<": less,
    ">": lambda a, b, rules: less(b, a, rules),
    "<=": lambda a, b, rules: less(a, b, rules) or equal(a, b, rules),
    ">=": lambda a, b, rules: less(b, a, rules) or equal(a, b, rules),
}


def cast(kind: str, term: str, rules: Rules = CONTRACT) -> str:
    """Return a term as a literal of this type of XSD, as the constructor functions of §17.5 do."""
    if kind == "string":
        if is_iri(term):
            return of_text(term)
        try:
            found = value(term, rules)
        except NoValue:
            return of_text(text_of(term))
        if isinstance(found, Number):
            return of_text(written(found))
        return of_text(("true" if found else "false") if isinstance(found, bool) else parts(term).lexical)
    found = value(term, rules)
    if isinstance(found, Text):
        if found.language is not None:
            raise NoValue("a string with a language is cast to xsd:string alone")
        again = literal(found.text, kind)
        found = value(again)
    if kind == "boolean":
        if isinstance(found, Number):
            return of_boolean(not (found.value == 0 or found.value != found.value))
        if isinstance(found, bool):
            return of_boolean(found)
    elif kind in RANKS and isinstance(found, bool):
        return of_number(Number(kind, int(found)))
    elif kind in RANKS and isinstance(found, Number):
        if kind in ("float", "double"):
            return of_number(Number(kind, _amount(found, kind)))
        if not math.isfinite(found.value):
            raise NoValue(f"{found.value} is outside xsd:{kind}")
        exact = Fraction(found.value)
        return of_number(Number(kind, math.trunc(exact)) if kind == "integer" else rounded(exact, kind))
    elif kind in _MOMENTS and isinstance(found, Moment) and found.type == kind:
        return term if is_literal(term) and parts(term).datatype == XSD + kind else literal(text_of(term), kind)
    elif (found_type := getattr(found, "type", None), kind) in _CASTS_OF_MOMENTS:
        lexical = _MOMENTS[found_type].fullmatch(parts(term).lexical)
        assert isinstance(found, Moment) and lexical is not None
        days = found.seconds // 86400
        second = (lexical[6] or "00").rstrip("0" if "." in (lexical[6] or "") else "").rstrip(".")
        hour, minute = (0, 0) if found.fields[3] == 24 else found.fields[3:5]
        zone = "" if found.zone is None else "Z" if found.zone == 0 else lexical[7]
        clock = f"{hour:02}:{minute:02}:{second}"
        day = date.fromordinal(int(days)).isoformat()
        return literal({"date": day, "time": clock, "dateTime": f"{day}T{clock}"}[kind] + zone, kind)
    raise NoValue(f"{term} cannot be cast to xsd:{kind}")


def _both(rules: Rules, left: str, right: str) -> tuple[Text, Text]:
    """Two strings of which the second may have no other language than the first (§17.4.3.1.2)."""
    a, b = text(left, rules), text(right, rules)
    if b.language is not None and b.language != a.language:
        raise NoValue("strings of different languages")
    return a, b


def _language(term: str) -> str | None:
    return parts(term).language if is_literal(term) else None


def _on_text(change: Callable[[str], str]) -> Callable[..., str]:
    return lambda rules, term: of_text(change(text(term, rules).text), _language(term))


def _test(holds: Callable[[str, str], bool]) -> Callable[..., str]:
    def tested(rules: Rules, left: str, right: str) -> str:
        a, b = _both(rules, left, right)
        return of_boolean(holds(a.text, b.text))

    return tested


def _substring(rules: Rules, term: str, start: str, length: str | None = None) -> str:
    found, first = text(term, rules).text, _position(start, rules)
    end = len(found) + 1 if length is None else first + _position(length, rules)
    chosen = "".join(c for i, c in enumerate(found, 1) if first <= i < end)
    return of_text(chosen, _language(term))


def _position(term: str, rules: Rules) -> int:
    found = number(term, rules)
    if found.rank != "integer":
        raise NoValue(f"{term} is no integer")
    return int(found.value)


def _before_or_after(name: str) -> Callable[..., str]:
    def cut(rules: Rules, left: str, right: str) -> str:
        a, b = _both(rules, left, right)
        if b.text not in a.text:
            return of_text("")
        before, _, after = a.text.partition(b.text) if b.text else ("", "", a.text)
        return of_text(before if name == "STRBEFORE" else after, _language(left))

    return cut


def _concatenation(rules: Rules, *terms: str) -> str:
    found = [text(term, rules) for term in terms]
    languages = {one.language for one in found}
    alike = languages.pop() if len(languages) == 1 else None
    return of_text("".join(one.text for one in found), _language(terms[0]) if alike else None)


def _expression(pattern: str, flags: str) -> re.Pattern[str]:
    known = {"i": re.IGNORECASE, "s": re.DOTALL, "m": re.MULTILINE, "x": re.VERBOSE}
    if set(flags) - set(known) - {"q"}:
        raise NoValue(f"flags {flags!r}")
    try:
        return re.compile(re.escape(pattern) if "q" in flags else pattern, sum(known[f] for f in set(flags) - {"q"}))
    except re.error:
        raise NoValue(f"{pattern!r} is no regular expression") from None


def _regex(rules: Rules, term: str, pattern: str, flags: str = '""') -> str:
    compiled = _expression(plain(pattern, rules), plain(flags, rules))
    return of_boolean(compiled.search(text(term, rules).text) is not None)


def _replace(rules: Rules, term: str, pattern: str, replacement: str, flags: str = '""') -> str:
    compiled = _expression(plain(pattern, rules), plain(flags, rules))
    if compiled.search("") is not None:
        raise NoValue("a pattern that matches the empty string replaces nothing")
    template = re.sub(r"\\(?![$\\])", r"\\\\", plain(replacement, rules))
    template = re.sub(r"(?<!\\)\$(\d)", r"\\g<\1>", template).replace(r"\$", "$")
    try:
        return of_text(compiled.sub(template, text(term, rules).text), _language(term))
    except (re.error, IndexError):
        raise NoValue("the replacement speaks of a group that is not there") from None


def _moment_part(place: int, *types: str) -> Callable[..., str]:
    def part(rules: Rules, term: str) -> str:
        found = value(term, rules)
        if not isinstance(found, Moment) or found.type not in types:
            raise NoValue(f"{term} has no such part")
        amount = found.fields[place]
        return of_number(Number("decimal", amount) if place == 5 else Number("integer", amount))

    return part


def _zone(rules: Rules, term: str) -> Moment:
    found = value(term, rules)
    if not isinstance(found, Moment):
        raise NoValue(f"{term} is no time")
    return found


def _timezone(rules: Rules, term: str) -> str:
    found = _zone(rules, term)
    if found.zone is None:
        raise NoValue("a time without a zone")
    hours, minutes = divmod(abs(found.zone), 60)
    length = (f"{hours}H" if hours else "") + (f"{minutes}M" if minutes else "") or "0S"
    return literal(("-" if found.zone < 0 else "") + "PT" + length, "dayTimeDuration")


def _tz(rules: Rules, term: str) -> str:
    found = _zone(rules, term)
    return of_text((re.search(r"(Z|[+-]\d\d:\d\d)$", text_of(term)) or [""])[0] if found.zone is not None else "")


def _rounding(step: Callable[[Fraction], int]) -> Callable[..., str]:
    def change(rules: Rules, term: str) -> str:
        found = number(term, rules)
        if not math.isfinite(found.value):
            return of_number(found)
        whole = step(Fraction(found.value))
        if found.rank in ("float", "double"):
            return of_number(Number(found.rank, math.copysign(whole, found.value) if whole == 0 else float(whole)))
        return of_number(Number(found.rank, whole if found.rank == "integer" else Fraction(whole)))

    return change


def _signed(sign: int) -> Callable[..., str]:
    def change(rules: Rules, term: str) -> str:
        found = number(term, rules)
        return of_number(Number(found.rank, sign * found.value))

    return change


def _absolute(rules: Rules, term: str) -> str:
    found = number(term, rules)
    return of_number(Number(found.rank, abs(found.value)))


def _hashed(name: str) -> Callable[..., str]:
    return lambda rules, term: of_text(hashlib.new(name, plain(term, rules).encode()).hexdigest())


def _datatype(rules: Rules, term: str) -> str:
    return parts(term).datatype


def _typed(rules: Rules, term: str, datatype: str) -> str:
    if not is_iri(datatype):
        raise NoValue("a datatype is an IRI")
    return literal(plain(term, rules), datatype)


def _in_language(rules: Rules, term: str, language: str) -> str:
    tag = plain(language, rules)
    if not re.fullmatch(r"[A-Za-z]+(-[A-Za-z0-9]+)*", tag):
        raise NoValue(f"{tag!r} is no language")
    return literal(plain(term, rules), language=tag)


def _lang_matches(rules: Rules, language: str, wanted: str) -> str:
    tag, pattern = plain(language, rules).lower(), plain(wanted, rules).lower()
    return of_boolean(tag != "" if pattern == "*" else tag == pattern or tag.startswith(pattern + "-"))


def _is_numeric(rules: Rules, term: str) -> str:
    try:
        return of_boolean(isinstance(value(term, STANDARD), Number))
    except NoValue:
        return of_boolean(False)


_FUNCTIONS: dict[str, Callable[..., str]] = {
    "STR": lambda rules, term: of_text(text_of(term)),
    "LANG": lambda rules, term: of_text(parts(term).language or ""),
    "LANGMATCHES": _lang_matches,
    "DATATYPE": _datatype,
    "STRDT": _typed,
    "STRLANG": _in_language,
    "sameTerm": lambda rules, left, right: of_boolean(left == right),
    "isIRI": lambda rules, term: of_boolean(is_iri(term)),
    "isBLANK": lambda rules, term: of_boolean(is_blank(term)),
    "isLITERAL": lambda rules, term: of_boolean(is_literal(term)),
    "isNUMERIC": _is_numeric,
    "ABS": _absolute,
    "CEIL": _rounding(math.ceil),
    "FLOOR": _rounding(math.floor),
    "ROUND": _rounding(lambda amount: math.floor(amount + Fraction(1, 2))),
    "+": _signed(1),
    "-": _signed(-1),
    "STRLEN": lambda rules, term: of_number(Number("integer", len(text(term, rules).text))),
    "UCASE": _on_text(str.upper),
    "LCASE": _on_text(str.lower),
    "SUBSTR": _substring,
    "CONCAT": _concatenation,
    "CONTAINS": _test(lambda a, b: b in a),
    "STRSTARTS": _test(str.startswith),
    "STRENDS": _test(str.endswith),
    "STRBEFORE": _before_or_after("STRBEFORE"),
    "STRAFTER": _before_or_after("STRAFTER"),
    "ENCODE_FOR_URI": lambda rules, term: of_text(quote(text(term, rules).text, safe="-_.~")),
    "REGEX": _regex,
    "REPLACE": _replace,
    "YEAR": _moment_part(0, "dateTime", "date"),
    "MONTH": _moment_part(1, "dateTime", "date"),
    "DAY": _moment_part(2, "dateTime", "date"),
    "HOURS": _moment_part(3, "dateTime", "time"),
    "MINUTES": _moment_part(4, "dateTime", "time"),
    "SECONDS": _moment_part(5, "dateTime", "time"),
    "TIMEZONE": _timezone,
    "TZ": _tz,
    **{name: _hashed(name.lower()) for name in ("MD5", "SHA1", "SHA256", "SHA384", "SHA512")},
}
