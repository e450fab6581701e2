"""The values of MATCH for the oracle: their kinds, comparison, order and functions, as nodes.md 3.2 and 3.3 word them.

Null is None, a list is a tuple, and a time is the integer of the stream. Nothing here is shared with the package.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from tests.reference_properties import Edge

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")


@dataclass(frozen=True)
class Vertex:
    """A vertex, which is also the value of its `id`."""

    name: str

    @property
    def number(self) -> Fraction | None:
        """The number that its name is, None for another text."""
        return Fraction(self.name) if _NUMBER.fullmatch(self.name) else None


@dataclass(frozen=True)
class Relationship:
    """An edge, known by its key."""

    key: Hashable
    edge: Edge = field(compare=False)


@dataclass(frozen=True)
class Path:
    """A path: vertices with edges between them."""

    vertices: tuple[Vertex, ...]
    edges: tuple[Relationship, ...]

    def __str__(self) -> str:
        text = self.vertices[0].name
        for start, relationship, end in zip(self.vertices, self.edges, self.vertices[1:], strict=False):
            edge = relationship.edge
            is_forward = (edge.source, edge.target) == (start.name, end.name)
            text += f"-[{edge.label}]->{end.name}" if is_forward else f"<-[{edge.label}]-{end.name}"
        return text


def is_number(value: Any) -> bool:
    """Return whether a value is a number, which a boolean is not."""
    return isinstance(value, (int, float, Fraction)) and not isinstance(value, bool)


# --- comparison ------------------------------------------------------------------------------------------------


def equal(left: Any, right: Any) -> bool | None:
    """Return whether values are equal; null where that is unknown, and false for values of different kinds.

    >>> equal(1, 1.0), equal("1", 1), equal((1, None), (1, 2)), equal((1, None), (2, None))
    (True, False, None, False)
    """
    if left is None or right is None:
        return None
    if isinstance(left, tuple) and isinstance(right, tuple):
        if len(left) != len(right):
            return False
        return conjunction([equal(one, other) for one, other in zip(left, right, strict=True)])
    if is_number(left) and is_number(right):
        return left == right
    if isinstance(left, Vertex) and not isinstance(right, Vertex):
        return equal(left.number if is_number(right) else left.name, right)
    if isinstance(right, Vertex) and not isinstance(left, Vertex):
        return equal(right, left)
    return type(left) is type(right) and left == right


def less(left: Any, right: Any) -> bool | None:
    """Return whether a value precedes another; null for values that have no order.

    >>> less(1, 2.5), less("b", "a"), less(1, "a"), less(Vertex("9"), Vertex("10"))
    (True, False, None, True)
    """
    if left is None or right is None:
        return None
    if is_number(left) and is_number(right):
        return left < right
    for kind in (str, bool):
        if isinstance(left, kind) and isinstance(right, kind):
            return left < right
    if isinstance(left, Vertex) or isinstance(right, Vertex):
        one, other = (Vertex(value) if isinstance(value, str) else value for value in (left, right))
        if isinstance(one, Vertex) and isinstance(other, Vertex):
            return order_key(one) < order_key(other)
        return less(one.number if isinstance(one, Vertex) else one, other.number if isinstance(other, Vertex) else other)
    return None


def compare(sign: str, left: Any, right: Any) -> bool | None:
    """Return the truth of a comparison whose sign is one of == != < <= > >=."""
    if sign == "==":
        return equal(left, right)
    if sign == "!=":
        return negation(equal(left, right))
    if sign in (">", ">="):
        return compare("<" if sign == ">" else "<=", right, left)
    if sign == "<" or less(left, right) is not False:
        return less(left, right)
    return equal(left, right)


def negation(value: bool | None) -> bool | None:
    """Return what `not` makes of a truth value."""
    return None if value is None else not value


def conjunction(values: Sequence[bool | None]) -> bool | None:
    """Return what `and` makes of truth values."""
    return False if False in values else None if None in values else True


def disjunction(values: Sequence[bool | None]) -> bool | None:
    """Return what `or` makes of truth values."""
    return negation(conjunction([negation(value) for value in values]))


def exclusive(values: Sequence[bool | None]) -> bool | None:
    """Return what `xor` makes of truth values."""
    return None if None in values else sum(map(bool, values)) % 2 == 1


def is_in(value: Any, elements: Sequence[Any] | None) -> bool | None:
    """Return whether a list has a value.

    >>> is_in(1, (1, None)), is_in(1, (2, None)), is_in(None, ())
    (True, None, False)
    """
    return None if elements is None else disjunction([equal(value, one) for one in elements])


# --- order and identity ----------------------------------------------------------------------------------------


def order_key(value: Any) -> tuple[Any, ...]:
    """Return a key by which values of all kinds sort, and by which DISTINCT and groups tell them apart.

    >>> values = [None, 2, math.nan, "b", 1.0, True, 1, ("x",), Vertex("v"), Vertex("3")]
    >>> sorted(values, key=order_key)
    [Vertex(name='3'), Vertex(name='v'), ('x',), 'b', True, 1, 1.0, 2, nan, None]
    """
    match value:
        case Vertex():
            return (1, 0, value.number, value.name) if value.number is not None else (1, 1, value.name)
        case Relationship():
            return (2, value.key)
        case tuple():
            return (3, tuple(map(order_key, value)))
        case Path():
            return (4, str(value))
        case str():
            return (6, value)
        case bool():
            return (7, value)
        case int() | float() | Fraction():
            return (9,) if math.isnan(value) else (8, value, isinstance(value, float))
    assert value is None, value
    return (10,)


# --- arithmetic and functions ----------------------------------------------------------------------------------


def calculate(sign: str, left: Any, right: Any, *, is_cypher: bool) -> Any:
    """Return the result of + - * / % or ^; null for other operands, and for what no integer of 64 bits holds.

    >>> [calculate("/", *pair, is_cypher=True) for pair in [(-7, 2), (7, 2.0), (7, 0)]]
    [-3, 3.5, None]
    >>> calculate("+", (1,), 2, is_cypher=True), calculate("+", "a", "b", is_cypher=True)
    ((1, 2), 'ab')
    """
    if left is None or right is None:
        return None
    if sign == "+" and (isinstance(left, tuple) or isinstance(right, tuple)):
        one, other = (value if isinstance(value, tuple) else (value,) for value in (left, right))
        return one + other
    if sign == "+" and (isinstance(left, str) or isinstance(right, str)):
        return left + right if isinstance(left, str) and isinstance(right, str) else None
    if not is_number(left) or not is_number(right):
        return None
    if sign == "^":
        return float(left) ** float(right)
    if sign in "/%" and right == 0:
        return None
    is_integer = isinstance(left, int) and isinstance(right, int)
    if sign == "/":
        if not (is_integer and is_cypher):
            return left / right
        return _in_64_bits(_truncated(left, right))
    if sign == "%":
        if is_cypher:
            return left - right * _truncated(left, right) if is_integer else math.fmod(left, right)
        return left % right
    result = {"+": left + right, "-": left - right, "*": left * right}[sign]
    return _in_64_bits(result) if is_integer else result


def _truncated(left: int, right: int) -> int:
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _in_64_bits(value: int) -> int | None:
    return value if -(2**63) <= value < 2**63 else None


def element(source: Sequence[Any], place: int) -> Any:
    """Return an element of a list, counted from the end if the place is negative; null outside."""
    return source[place] if -len(source) <= place < len(source) else None


def _text(value: Any) -> str | None:
    """Return the text of a value for functions of text: null for values that are none."""
    return value.name if isinstance(value, Vertex) else value if isinstance(value, str) else None


def _of_texts(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(first: Any, *others: Any) -> Any:
        text = _text(first)
        others = tuple(_text(one) if isinstance(one, Vertex) else one for one in others)
        return None if text is None else function(text, *others)

    return call


def _of_numbers(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(first: Any, *others: Any) -> Any:
        try:
            return function(first, *others) if is_number(first) else None
        except ValueError:
            return math.nan  # outside the domain

    return call


def _of_two_texts(function: Callable[[str, str], bool]) -> Callable[..., Any]:
    def call(*values: Any) -> bool | None:
        one, other = map(_text, values)
        return None if one is None or other is None else function(one, other)

    return call


def to_integer(value: Any) -> int | None:
    """Return a number, or the number that a text is, without its fraction."""
    number = to_float(value)
    return None if number is None or not math.isfinite(number) else value if isinstance(value, int) else int(number)


def to_float(value: Any) -> float | None:
    """Return a number, or the number that a text is, as a float."""
    if is_number(value):
        return float(value)
    text = _text(value)
    return float(text) if text is not None and _NUMBER.fullmatch(text.strip()) else None


def to_text(value: Any) -> str | None:
    """Return a text, a number or a boolean as a text."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if is_number(value) else _text(value)


def _to_boolean(value: Any) -> bool | None:
    return value if isinstance(value, bool) else {"true": True, "false": False}.get(str(_text(value)).lower())


def _size(value: Any) -> int | None:
    if isinstance(value, Path):
        return len(value.edges)
    text = _text(value)
    return len(value) if isinstance(value, tuple) else None if text is None else len(text)


def _reverse(value: Any) -> Any:
    text = _text(value)
    return value[::-1] if isinstance(value, tuple) else None if text is None else text[::-1]


def _id(value: Any) -> Any:
    return value if isinstance(value, Vertex) else value.key


def _round(value: float, digits: int | None = None) -> float:
    """Round halves up without digits, and else away from zero."""
    scaled = Fraction(value) * 10 ** (digits or 0)
    is_mirrored = digits is not None and scaled < 0
    whole = -math.floor(Fraction(1, 2) - scaled) if is_mirrored else math.floor(scaled + Fraction(1, 2))
    return float(Fraction(whole) / 10 ** (digits or 0))


def _substring(text: str, first: int, count: int | None = None) -> str | None:
    return None if min(first, count or 0) < 0 else text[first:][:count]


def _range(first: int, last: int, step: int = 1) -> tuple[int, ...] | None:
    return tuple(range(first, last + (1 if step > 0 else -1), step)) if step else None


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "toupper": _of_texts(str.upper),
    "upper": _of_texts(str.upper),
    "tolower": _of_texts(str.lower),
    "lower": _of_texts(str.lower),
    "trim": _of_texts(str.strip),
    "ltrim": _of_texts(str.lstrip),
    "rtrim": _of_texts(str.rstrip),
    "replace": _of_texts(str.replace),
    "left": _of_texts(lambda text, count: None if count < 0 else text[:count]),
    "right": _of_texts(lambda text, count: None if count < 0 else text[max(len(text) - count, 0) :]),
    "substring": _of_texts(_substring),
    "split": _of_texts(lambda text, between: tuple(text.split(between))),
    "starts_with": _of_two_texts(str.startswith),
    "ends_with": _of_two_texts(str.endswith),
    "contains": _of_two_texts(str.__contains__),
    "=~": _of_two_texts(lambda text, pattern: re.fullmatch(pattern, text) is not None),
    "tostring": to_text,
    "tointeger": to_integer,
    "tofloat": to_float,
    "toboolean": _to_boolean,
    "abs": _of_numbers(abs),
    "ceil": _of_numbers(lambda value: float(math.ceil(value))),
    "floor": _of_numbers(lambda value: float(math.floor(value))),
    "round": _of_numbers(_round),
    "sign": _of_numbers(lambda value: (value > 0) - (value < 0)),
    "sqrt": _of_numbers(math.sqrt),
    "size": _size,
    "length": _size,
    "char_length": _size,
    "reverse": _reverse,
    "head": lambda value: element(value, 0),
    "last": lambda value: element(value, -1),
    "tail": lambda value: value[1:],
    "range": _range,
    "id": _id,
    "elementid": _id,
    "type": lambda value: value.edge.label,
    "startnode": lambda value: Vertex(value.edge.source),
    "endnode": lambda value: Vertex(value.edge.target),
    "nodes": lambda value: value.vertices,
    "relationships": lambda value: value.edges,
}
"""Functions that are null if an argument is; `coalesce` is none of them."""
