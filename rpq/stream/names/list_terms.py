"""Lists of values as terms: literals of the type `LIST_TYPE`, whose text is JSON without blanks.

Texts, integers, floats, booleans, null and lists are themselves; a float always has a point, an exponent, or is `NaN`,
`Infinity` or `-Infinity`. Other values are objects with one key that names their kind: `{"vertex":"bob"}`,
`{"decimal":"1.5"}`, `{"dateTime":"2024-05-01T12:00:00Z"}`. A list is a tuple here, so that it can be shared.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from rpq.stream.names.terms import LIST_TYPE, XSD, Literal, lexical_form, literal_text


@dataclass(frozen=True)
class Vertex:
    """A vertex among values."""

    name: str


@dataclass(frozen=True)
class EdgeRef:
    """An edge among values: its id, or its number as a text."""

    identity: str


@dataclass(frozen=True)
class Loose:
    """A value of a text file: a number, true or false, or a text, as whatever it is used with requires."""

    text: str


class VertexName(Loose):
    """The name of a vertex as a value."""


_TEXT_OF_KIND: dict[str, Any] = {"vertex": Vertex, "edge": EdgeRef, "name": VertexName, "loose": Loose, "decimal": Decimal}


def encode_list(values: Iterable[Any]) -> str:
    """Return the literal of a list. Times and durations are `Literal`s of XML Schema.

    >>> print(lexical_form(encode_list([1, 2.0, "a", None, (True,), Vertex("bob"), Decimal("0.5")])))
    [1,2.0,"a",null,[true],{"vertex":"bob"},{"decimal":"0.5"}]
    """
    return literal_text(item_json(tuple(values)), LIST_TYPE)


def item_json(value: Any) -> str:
    """Return a value as it stands in a list."""
    return _encoder.encode(value)


def decode_list(text: str) -> tuple[Any, ...]:
    """Return the values of a list, given as a literal or as the text of one. Raises `ValueError` for other texts.

    >>> decode_list('[1,[2.0],{"vertex":"bob"}]')
    (1, (2.0,), Vertex(name='bob'))
    """
    found = _frozen(_decoder.decode(lexical_form(text)))
    if not isinstance(found, tuple):
        raise ValueError(f"{text} is not a list")
    return found


def display_list(text: str) -> list[Any]:
    """Return the values of a list as a user sees them: vertices, edges and loose values by their texts, times in ISO 8601.

    >>> display_list('[1,{"vertex":"bob"},[{"dateTime":"2024-05-01T12:00:00Z"}]]')
    [1, 'bob', ['2024-05-01T12:00:00Z']]
    """
    return [_displayed(value) for value in decode_list(text)]


def display_text(text: str) -> str:
    """Return a list as a user sees it, in JSON.

    >>> display_text('[1,{"vertex":"bob"},{"decimal":"0.50"}]')
    '[1, "bob", 0.50]'
    """
    return _text(display_list(text))


def _mark(value: Any) -> dict[str, str]:
    """Return the object for a value that JSON does not have."""
    match value:
        case Vertex(name):
            return {"vertex": name}
        case EdgeRef(identity):
            return {"edge": identity}
        case VertexName(text):
            return {"name": text}
        case Loose(text):
            return {"loose": text}
        case Decimal():
            return {"decimal": str(value)}
        case Literal(text, datatype):
            return {datatype.removeprefix(XSD): text}
    raise TypeError(f"{value!r} is no value of a list")


_encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_mark)


def _unmark(pairs: list[tuple[str, str]]) -> Any:
    ((kind, text),) = pairs
    of_kind = _TEXT_OF_KIND.get(kind)
    return Literal(text, XSD + kind) if of_kind is None else of_kind(text)


_decoder = json.JSONDecoder(object_pairs_hook=_unmark)


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def _displayed(value: Any) -> Any:
    match value:
        case tuple():
            return [_displayed(one) for one in value]
        case Vertex(text) | EdgeRef(text) | Loose(text):
            return text
        case Literal(text):
            return text
    return value


def _text(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value))}]"
    return str(value) if isinstance(value, Decimal) else json.dumps(value, ensure_ascii=False)
