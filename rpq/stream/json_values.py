"""JSON values with checks of their types and ranges."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any, TypeVar

_Text = TypeVar("_Text", bound=str)

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1


class Damage(ValueError):
    """An error in content that was read.  A caller converts it to an error with the name of the file."""


class JsonValue:
    """A value, and its path in the whole content.

    >>> content = JsonValue.parse(b'{"queries": [{"size": 30}]}')
    >>> content["queries"][0]["size"].integer(1)
    30
    >>> content["queries"][0]["size"].text()
    Traceback (most recent call last):
    rpq.stream.json_values.Damage: queries[0].size is 30, not text
    """

    def __init__(self, value: Any, place: str = "") -> None:
        self._value = value
        self._place = place

    @property
    def value(self) -> Any:
        """The value, unchecked."""
        return self._value

    @classmethod
    def parse(cls, text: bytes | str, place: str = "") -> JsonValue:
        """Parse a JSON text.  Raises `Damage`."""
        try:
            return cls(json.loads(text), place)
        except (ValueError, RecursionError) as problem:
            raise Damage(f"{place or 'its description'} is not readable: {problem}") from problem

    def __getitem__(self, key: str | int) -> JsonValue:
        """Return a field of an object, or an element of a list that is long enough."""
        if isinstance(key, int):
            return JsonValue(self._list()[key], f"{self._place}[{key}]")
        if not isinstance(self._value, dict):
            raise self._wrong("fields with names")
        if key not in self._value:
            raise Damage(f"{self._child_place(key)} is missing")
        return JsonValue(self._value[key], self._child_place(key))

    def __contains__(self, key: str) -> bool:
        return isinstance(self._value, dict) and key in self._value

    def __iter__(self) -> Iterator[JsonValue]:
        """Iterate over the elements of a list."""
        return (JsonValue(value, f"{self._place}[{i}]") for i, value in enumerate(self._list()))

    def items(self) -> Iterator[tuple[str, JsonValue]]:
        """Return the names and values of an object."""
        if not isinstance(self._value, dict):
            raise self._wrong("fields with names")
        return ((name, JsonValue(value, self._child_place(name))) for name, value in self._value.items())

    @property
    def is_none(self) -> bool:
        """True if the value is null."""
        return self._value is None

    def tuple_of(self, count: int) -> list[JsonValue]:
        """Return the elements of a list of this length."""
        if len(self._list()) != count:
            raise self._wrong(f"a list of {count}")
        return list(self)

    def integer(self, least: int = INT64_MIN, most: int = INT64_MAX) -> int:
        """Return an integer in a range, both ends included."""
        if type(self._value) is not int or not least <= self._value <= most:
            raise self._wrong(f"a whole number from {least} to {most}")
        return self._value

    def integers(self, least: int, most: int) -> list[int]:
        """Return a list of integers in a range, both ends included, which is faster than one by one."""
        values = self._list()
        if not all(type(value) is int and least <= value <= most for value in values):
            raise self._wrong(f"whole numbers from {least} to {most}")
        return values

    def number(self) -> float:
        """Return a finite number that is not negative."""
        if type(self._value) not in (int, float) or not 0 <= self._value < math.inf:
            raise self._wrong("a number from 0 on")
        try:
            return float(self._value)
        except OverflowError:
            raise self._wrong("a number of 64 bits") from None

    def flag(self) -> bool:
        """Return a boolean."""
        if not isinstance(self._value, bool):
            raise self._wrong("true or false")
        return self._value

    def text(self) -> str:
        """Return a text."""
        if not isinstance(self._value, str):
            raise self._wrong("text")
        return self._value

    def unicode(self) -> str:
        """Return a text that can be written as UTF-8."""
        text = self.text()
        try:
            text.encode()
        except UnicodeEncodeError:
            raise self._wrong("text that can be written as UTF-8") from None
        return text

    def vertex(self) -> int | str:
        """Return a vertex: an integer of any size, or a text."""
        if type(self._value) is int:
            return self._value
        if not isinstance(self._value, str):
            raise self._wrong("a vertex, which is a whole number or text")
        return self.unicode()

    def one_of(self, *options: _Text) -> _Text:
        """Return the value if it is one of these texts."""
        for text in options:
            if self._value == text:
                return text
        raise self._wrong(" or ".join(options))

    def _list(self) -> list[Any]:
        if not isinstance(self._value, list):
            raise self._wrong("a list")
        return self._value

    def _child_place(self, name: str) -> str:
        return f"{self._place}.{name}" if self._place else name

    def _wrong(self, expected: str) -> Damage:
        shown = repr(self._value)
        shown = shown if len(shown) <= 60 else f"{shown[:57]}…"
        return Damage(f"{self._place or 'its description'} is {shown}, not {expected}")
