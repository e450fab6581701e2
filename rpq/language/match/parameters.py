"""Parameters of MATCH texts, `$x`: their values, which take their places in the syntax tree before it is translated.

A value is a text, a number, true, false, null, a time, or a list of values. From a mapping or a list, keys choose
an element: `$event.data['id']`, `$pair[0]`.

Values are kept as JSON has them. A time is written as the call that makes it, `{"datetime": "2024-03-01T10:00:00Z"}`; `date`
and `duration` are written likewise.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from numbers import Integral, Real
from typing import Any

from rpq.errors import MatchError, QueryError, did_you_mean
from rpq.language.match.syntax import match_error
from rpq.language.match.tree import ListOf, MatchText, Null, Parameter, change, walk
from rpq.language.where import Call, WhereConstant, exact_number
from rpq.stream.durations import NANOSECONDS, nanoseconds_of

_TIMES = ("datetime", "date", "duration")

# --- the values ----------------------------------------------------------------------------------------------------


def parameter_values(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters as JSON values, a copy. Raises `QueryError` for a value of a type that no parameter has.

    >>> parameter_values({"risk": Decimal("0.5"), "since": date(2024, 3, 1), "ids": ("a", "b")})
    {'risk': 0.5, 'since': {'date': '2024-03-01'}, 'ids': ['a', 'b']}
    """
    if not isinstance(parameters, Mapping):
        raise QueryError(f"parameters: expected values by name, as in {{'x': 5}}, not {_shown(parameters)}")
    try:
        return _mapping(parameters, "")
    except RecursionError:
        raise QueryError("parameters: the values are nested too deeply") from None


def _mapping(values: Mapping[Any, Any], place: str) -> dict[str, Any]:
    for name in values:
        if not isinstance(name, str):
            raise QueryError(f"parameters: {f'{place}: ' if place else ''}names are texts, not {_shown(name)}")
        _check_text(name, place or "a name")
    return {str(name): _json_value(value, f"{place}.{name}" if place else name) for name, value in values.items()}


def _json_value(value: Any, place: str) -> Any:
    """Return a value as JSON has it; `place` is its name in errors."""
    match value:
        case None | bool():
            return value
        case str():
            _check_text(value, place)
            return str(value)
        case Integral():
            return int(value)
        case Decimal() | Real():
            return _json_number(value, place)
        case timedelta():
            return {"duration": _iso_duration(value)}
        case datetime() | date():
            return {"datetime" if isinstance(value, datetime) else "date": value.isoformat()}
        case list() | tuple():
            return [_json_value(element, f"{place}[{number}]") for number, element in enumerate(value)]
        case Mapping():
            return _mapping(value, place)
    expected = "a text, a number, True, False, None, a datetime, a date, a timedelta or a list"
    raise QueryError(f"parameters: {place} is {_shown(value)}; expected {expected}")


def _json_number(number: Any, place: str) -> int | float:
    as_float = float(number)
    if not math.isfinite(as_float):
        raise QueryError(f"parameters: {place} is {number}, which is no number of a query")
    if not isinstance(number, Decimal) or exact_number(repr(as_float)) == exact_number(str(number)):
        return as_float
    if number == number.to_integral_value():
        return int(number)
    raise QueryError(f"parameters: {place} is {number}, which has more digits than a float: write it in the text")


def _iso_duration(duration: timedelta) -> str:
    """Return a duration in ISO 8601.

    >>> _iso_duration(timedelta(minutes=1, milliseconds=500)), _iso_duration(timedelta(days=-1))
    ('PT60.5S', '-PT86400S')
    """
    nanoseconds = nanoseconds_of(duration)
    seconds, rest = divmod(abs(nanoseconds), NANOSECONDS["s"])
    return f"{'-' if nanoseconds < 0 else ''}PT{seconds}{f'.{rest:09}'.rstrip('0') if rest else ''}S"


def _check_text(text: str, place: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise QueryError(f"parameters: {place} has a lone surrogate: {text!r}") from None


def _shown(value: Any) -> str:
    text = repr(value)
    return f"{text if len(text) <= 60 else f'{text[:57]}…'} ({type(value).__name__})"


# --- parameters in a text ------------------------------------------------------------------------------------------


def parameters_in(tree: MatchText) -> frozenset[str]:
    """Return the names of the parameters of a text.

    >>> from rpq.language.match.syntax import parse
    >>> sorted(parameters_in(parse("MATCH (a {id: $user}) WHERE a.risk > $min.risk RETURN a LIMIT $n")))
    ['min', 'n', 'user']
    """
    return frozenset(node.name for node in walk(tree) if isinstance(node, Parameter))


def with_parameters(tree: MatchText, parameters: Mapping[str, Any]) -> MatchText:
    """Return the tree of a text with values, as `parameter_values` returns them, in place of its parameters. O(size).

    Raises `MatchError` at a parameter without a value, and `QueryError` for a value of which the text has no parameter.

    >>> from rpq.language.match.syntax import parse
    >>> tree = with_parameters(parse("MATCH (a {id: $user.name}) RETURN a"), {"user": {"name": "u1"}})
    >>> tree.queries[0].parts[0].clauses[0].pattern.paths[0].elements[0].properties[0].value.value
    'u1'
    """
    names = parameters_in(tree)
    if not names and not parameters:
        return tree

    def value_of(node: Any) -> Any:
        return _Place(tree.text, node).value_in(parameters) if isinstance(node, Parameter) else node

    found: MatchText = change(tree, value_of)
    if unknown := next((name for name in parameters if name not in names), None):
        known = f"its parameters are {', '.join(f'${name}' for name in sorted(names))}" if names else "it has no parameters"
        raise QueryError(f"parameters: the text has no ${unknown}: {known}{did_you_mean(unknown, sorted(names))}")
    return found


class _Place:
    """A parameter at its place in a text, for its value and errors."""

    def __init__(self, text: str, parameter: Parameter) -> None:
        self._text = text
        self._parameter = parameter
        self._shown = f"${parameter.name}"

    def value_in(self, parameters: Mapping[str, Any]) -> Any:
        """Return the node of the parameter's value, to which its keys lead. Raises `MatchError`."""
        name = self._parameter.name
        if name not in parameters:
            advice = f"pass parameters={{{name!r}: …}} (--param {name}=…)"
            raise self._error(f"there is no value for the parameter ${name}: {advice}{did_you_mean(name, [*parameters])}")
        value = parameters[name]
        for key in self._parameter.keys:
            if value is None:
                break  # as in Cypher, what null contains is null
            value = self._element(value, key)
            self._shown += f".{key}" if isinstance(key, str) else f"[{key}]"
        return self._node(value, self._shown)

    def _element(self, value: Any, key: str | int) -> Any:
        if isinstance(value, dict):
            if key in value:
                return value[key]
            raise self._error(f"the parameter {self._shown} has no key {key!r}{did_you_mean(str(key), [*value])}")
        if not isinstance(value, list) or not isinstance(key, int) or isinstance(key, bool):
            raise self._error(f"the parameter {self._shown} is {_kind_of(value)}, which has no key {key!r}")
        if not -len(value) <= key < len(value):
            raise self._error(f"the parameter {self._shown} has {len(value)} elements, and [{key}] is none of them")
        return value[key]

    def _node(self, value: Any, shown: str) -> Any:
        """Return the node of a value; in errors it is written as `shown`."""
        column = self._parameter.column
        match value:
            case None:
                return Null(column=column)
            case bool() | str():
                return WhereConstant(value, column=column)
            case int() | float():
                number = exact_number(repr(value))
                is_whole = isinstance(value, float) and isinstance(number, int)  # 2.0, which is no integer
                return WhereConstant(Decimal(f"{number}.0") if is_whole else number, column=column)
            case list():
                return ListOf(tuple(self._node(one, f"{shown}[{at}]") for at, one in enumerate(value)), column=column)
        names: Collection[str] = value
        if len(names) == 1 and (function := next(iter(names))) in _TIMES and isinstance(value[function], str):
            return Call(function, (WhereConstant(value[function], column=column),), column=column)
        key = next(iter(names), "key")
        raise self._error(f"the parameter {shown} is a mapping, which is no value: choose a key of it, as in {shown}.{key}")

    def _error(self, message: str) -> MatchError:
        return match_error(self._text, self._parameter.column - 1, message)


def _kind_of(value: Any) -> str:
    kinds = {bool: "true or false", str: "a text", int: "a number", float: "a number", list: "a list"}
    return kinds[type(value)]
