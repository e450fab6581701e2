"""Conversion of lists of values to arrays: the values that each column takes, and the first one that does not fit.

A list whose values are all of the plain type goes to Arrow as it is; only in other lists each value is examined.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from rpq.stream.arrays.numpy_arrays import integer_array, text_array, text_offsets
from rpq.stream.durations import NANOSECONDS

EXPECTATIONS = {
    "source": "vertices are integers of 64 bits or text, all of one kind",
    "target": "vertices are integers of 64 bits or text, all of one kind",
    "label": "labels are text",
    "timestamp": "timestamps are integers of 64 bits, or all of them dates or times",
    "op": "'+' inserts and '-' deletes",
    "delete": "it is true or false, or text that says so: true, false, 1, 0",
    "stream": "the names of streams are text, or null",
    "event": "equal values, one after the other, make one event",
    "edge": "ids of edges are integers of 64 bits or text, all of one kind",
}
MISSING = "nothing is given; a value is needed"
EMPTY = "is empty; expected a name"
"""The problem of an empty vertex or label.

In outputs an empty text stands for a missing value, so no name is empty, wherever tuples come from.
"""

BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
"""The texts of true and false, in lower case."""

_EPOCH = datetime.datetime(1970, 1, 1)
_EPOCH_DAY = _EPOCH.toordinal()
_MICROSECOND = datetime.timedelta(microseconds=1)
_STEPS = {**NANOSECONDS, "W": NANOSECONDS["w"], "D": NANOSECONDS["d"]}
_STEPS_BELOW = {"ps": 10**3, "fs": 10**6, "as": 10**9}


class Misfit(NamedTuple):
    """The first value of a column that does not fit: its row, and the problem.

    `is_of_other_kind` is true for a value that only the values before it exclude: a time among numbers, a number among
    times, a time that is too distant for the unit of the others.
    """

    row: int
    reason: str
    is_of_other_kind: bool = False


class _Unfit(Exception):
    """A value that does not fit, and why."""

    is_of_other_kind = False


class _TimeKindError(_Unfit):
    """A time among numbers, or a number among times."""

    is_of_other_kind = True


class _Moment(NamedTuple):
    """A date or time: nanoseconds since 1970 (in UTC, if there is a zone), and the step that its type is exact to."""

    nanoseconds: int
    step: int
    zone: datetime.tzinfo | None


def short_repr(value: Any) -> str:
    """Return the repr of a value for a message, abbreviated if it is long."""
    try:
        text = repr(value)
    except Exception:  # of foreign objects, and of integers with more than 4,300 digits
        text = f"a {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:77]}…"


def vertices_of(values: list[Any], kind: str | None, name: str) -> tuple[pa.Array, Misfit | None]:
    """Return an array of int64 or string: of `kind` or, if that is None, of the kind of the first value."""
    plain = _plain_texts(values) if kind != "int64" else None
    if plain is None and kind != "string":
        plain = _plain_integers(values)
    if plain is not None:
        return plain, None
    kind = kind or kind_of(values)
    expected_type = str if kind == "string" else int

    def vertex(value: Any) -> int | str:
        name_or_number = _integer(value, name) if isinstance(value, (int, np.integer)) else _name(value, name)
        if type(name_or_number) is not expected_type:
            raise _Unfit(
                f"{short_repr(value)} is {'int64' if expected_type is str else 'string'} in a stream whose vertices are of "
                f"type {kind}; one engine takes integers or text, not both"
            )
        return name_or_number

    good, misfit = _take_until_misfit(values, vertex, name)
    return pa.array(good, pa.string() if expected_type is str else pa.int64()), misfit


def kind_of(*columns: Any) -> str | None:
    """Return the kind of most vertices in some lists, "int64" or "string"; the first vertex decides a tie.

    None means that there are no vertices.
    """
    vertices = (value for values in columns for value in values if isinstance(value, (str, int, np.integer)))
    found = [isinstance(value, str) for value in vertices]
    if not found:
        return None
    texts = sum(found)
    return "string" if 2 * texts > len(found) or (2 * texts == len(found) and found[0]) else "int64"


def texts_of(values: list[Any], name: str) -> tuple[pa.Array, Misfit | None]:
    """Return an array of string."""
    if (plain := _plain_texts(values)) is not None:
        return plain, None
    good, misfit = _take_until_misfit(values, lambda value: _name(value, name), name)
    return pa.array(good, pa.string()), misfit


def streams_of(values: list[Any]) -> tuple[pa.Array, Misfit | None]:
    """Return an array of strings. Missing and empty values are null: they belong only to the merged stream."""
    good: list[str | None] = []
    for row, value in enumerate(values):
        if isinstance(value, pa.Scalar):
            value = value.as_py()
        try:
            is_none = value is None or is_missing(value) or (isinstance(value, float) and value != value)
            good.append(None if is_none else _text(value, "stream") or None)
        except _Unfit as unfit:
            return pa.array(good, pa.string()), Misfit(row, str(unfit))
    return pa.array(good, pa.string()), None


def deletes_of_ops(values: list[Any]) -> tuple[np.ndarray, Misfit | None]:
    """Return operations "+" and "-" as uint8: 1 for each delete."""
    if _are_all(values, str) and (used := set(values)) <= {"+", "-"}:
        return np.array([value == "-" for value in values] if "-" in used else [0] * len(values), np.uint8), None

    def delete(value: Any) -> bool:
        if not isinstance(value, str) or value not in ("+", "-"):
            raise _Unfit(f"{short_repr(value)} is no operation; {EXPECTATIONS['op']}")
        return value == "-"

    good, misfit = _take_until_misfit(values, delete, "op")
    return np.array(good, np.uint8), misfit


def deletes_of(values: list[Any]) -> tuple[np.ndarray, Misfit | None]:
    """Return truth values, or texts of truth values, as uint8."""

    def delete(value: Any) -> bool:
        truth = boolean_of_text(value) if isinstance(value, str) else value
        if not isinstance(truth, (bool, np.bool_)):
            raise _kind_error(value, "delete")
        return bool(truth)

    good, misfit = _take_until_misfit(values, delete, "delete")
    return np.array(good, np.uint8), misfit


def boolean_of_text(text: str) -> bool | None:
    """Return the truth value of a text: `true`, `1`, `false` or `0`, in any case, with blanks around it; otherwise None.

    >>> [boolean_of_text(text) for text in ("true", "FALSE", " 1", "0", "t", "")]
    [True, False, True, False, None, None]
    """
    return BOOLEANS.get(text.strip(" \t").lower())


def booleans_of_text(texts: pa.Array) -> pa.Array:
    """Return the truth values of texts, as `boolean_of_text` reads them; null for other texts and null."""
    encoded = texts if pa.types.is_dictionary(texts.type) else texts.dictionary_encode()
    truth_values = [None if text is None else boolean_of_text(text) for text in encoded.dictionary.to_pylist()]
    return pa.array(truth_values, pa.bool_()).take(encoded.indices)


def timestamps_of(values: list[Any]) -> tuple[pa.Array, Misfit | None]:
    """Return an array of int64, date32 or timestamp; its type is that of the first value, with the finest unit of all."""
    if (plain := _plain_integers(values)) is not None:
        return plain, None
    if _are_all(values, datetime.datetime) and len({id(value.tzinfo) for value in values}) == 1:
        zone = values[0].tzinfo
        if zone is None or all(value.utcoffset() is not None for value in values):
            return pa.array(values, pa.timestamp("us", None if zone is None else _name_of(zone, values[0]))), None
    first: list[int | _Moment] = []

    def timestamp(value: Any) -> int | _Moment:
        time = _integer(value, "timestamp") if isinstance(value, (int, np.integer)) else _moment(value)
        first[:] = first or [time]
        if isinstance(time, int) != isinstance(first[0], int):
            before = "integers" if isinstance(first[0], int) else "dates or times"
            raise _TimeKindError(f"{short_repr(value)} follows {before}; {EXPECTATIONS['timestamp']}")
        if isinstance(time, _Moment) and isinstance(first[0], _Moment) and (time.zone is None) != (first[0].zone is None):
            raise _Unfit(
                f"{short_repr(value)} has {'no' if time.zone is None else 'a'} time zone, unlike those before: give all of "
                "them a zone (value.replace(tzinfo=datetime.UTC), if they are in UTC), or none"
            )
        return time

    good, misfit = _take_until_misfit(values, timestamp, "timestamp")
    if not good or isinstance(good[0], int):
        return pa.array(good, pa.int64()), misfit
    return _moments(good, values, misfit)


def kind_of_timestamp(value: Any) -> int | None:
    """Return 0 for a number, the resolution of a time in nanoseconds, and None for other values."""
    if isinstance(value, pa.Scalar):
        value = value.as_py()
    if isinstance(value, (int, np.integer)):
        return 0
    try:
        return None if is_missing(value) else _moment(value).step
    except _Unfit:
        return None


def moments_of_numpy(column: np.ndarray) -> pa.Array:
    """Return an array of datetime64, whose unit Arrow lacks, in a unit that Arrow has, rounded down to nanoseconds."""
    unit, count = np.datetime_data(column.dtype)
    if unit in _STEPS_BELOW:
        per, missing = _STEPS_BELOW[unit], np.isnat(column)
        numbers = [number * count // per for number in column.astype(np.int64).tolist()]
        return pa.array(numbers, pa.int64(), mask=missing).view(pa.timestamp("ns"))
    target = {"Y": "D", "M": "D", "W": "D", "h": "s", "m": "s", "generic": "s"}.get(unit, unit)
    again = column.astype(f"M8[{target}]")
    if unit != "generic" and not np.array_equal(again.astype(column.dtype), column, equal_nan=True):
        raise ValueError(f"there are dates beyond what 64 bits hold in the unit {target}")
    return pa.array(again)


def _are_all(values: list[Any], kind: type) -> bool:
    """Return whether all values are of this very type: two passes in C, half the time of a set of the types."""
    return len(values) > 0 and list(map(type, values)).count(kind) == len(values)


def _plain_texts(values: list[Any]) -> pa.Array | None:
    """Return an array of text, if nothing else is there."""
    if not values or type(values[0]) is not str:
        return None
    try:
        array = text_array(values)
    except (TypeError, UnicodeEncodeError, pa.ArrowCapacityError):  # one of them is no text, or not valid in UTF-8
        return None
    return array if first_empty(array) is None else None


def first_empty(names: pa.Array) -> int | None:
    """Return the place of the first empty text of an array of string without nulls. O(length).

    >>> first_empty(pa.array(["x", "", ""])), first_empty(pa.array(["x"]))
    (1, None)
    """
    ends = text_offsets(names)
    are_empty = ends[1:] == ends[:-1]
    return int(np.argmax(are_empty)) if are_empty.any() else None


def _plain_integers(values: list[Any]) -> pa.Array | None:
    """Return an array of int64, if nothing else is there."""
    if not _are_all(values, int):
        return None
    try:
        return integer_array(values)
    except OverflowError:
        return None


def _take_until_misfit(values: list[Any], take: Callable[[Any], Any], name: str) -> tuple[list[Any], Misfit | None]:
    """Return the values as `take` gives them, up to the first that does not fit."""
    good: list[Any] = []
    for row, value in enumerate(values):
        if isinstance(value, pa.Scalar):
            value = value.as_py()
        try:
            if is_missing(value):
                raise _Unfit(MISSING)
            good.append(take(value))
        except _Unfit as unfit:
            return good, Misfit(row, str(unfit), unfit.is_of_other_kind)
    return good, None


def is_missing(value: Any) -> bool:
    """Return whether a value stands for a missing one."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):  # of pandas, which may not be installed
        return True
    return isinstance(value, np.datetime64) and bool(np.isnat(value))


def _kind_error(value: Any, name: str) -> _Unfit:
    hint = ""
    if name == "timestamp" and isinstance(value, str):
        hint = "; datetime.fromisoformat makes times of text"
    elif name in ("source", "target") and type(value).__name__ == "UUID":
        hint = "; str makes text of a UUID"
    return _Unfit(f"{short_repr(value)} is of type {type(value).__name__}; {EXPECTATIONS[name]}{hint}")


def _integer(value: Any, name: str) -> int:
    if isinstance(value, (bool, np.timedelta64)):  # which numpy counts among the integers
        raise _kind_error(value, name)
    number = int(value)
    if not -(2**63) <= number < 2**63:
        raise _Unfit(f"{short_repr(number)} does not fit into 64 bits with a sign")
    return number


def _name(value: Any, name: str) -> str:
    text = _text(value, name)
    if not text:
        raise _Unfit(EMPTY)
    return text


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise _kind_error(value, name)
    text = str.__str__(value)
    try:
        text.encode()
    except UnicodeEncodeError as problem:
        raise _Unfit(f"{short_repr(value)} is not text that UTF-8 can hold: it has a lone surrogate") from problem
    return text


def _moment(value: Any) -> _Moment:
    if isinstance(value, datetime.datetime):
        offset = value.utcoffset()
        naive = value.replace(tzinfo=None)
        if type(value) is not datetime.datetime and hasattr(value, "nanosecond"):
            naive, below = datetime.datetime(*naive.timetuple()[:6], naive.microsecond), value.nanosecond
            step = _STEPS[getattr(value, "unit", "ns")]
        else:
            below, step = 0, NANOSECONDS["us"]
        microseconds = (naive - _EPOCH - (offset or datetime.timedelta())) // _MICROSECOND
        return _Moment(microseconds * 1000 + below, step, None if offset is None else value.tzinfo)
    if isinstance(value, datetime.date):
        return _Moment((value.toordinal() - _EPOCH_DAY) * NANOSECONDS["d"], NANOSECONDS["d"], None)
    if isinstance(value, np.datetime64):
        unit, count = np.datetime_data(value.dtype)
        if unit in ("Y", "M"):
            value, unit, count = value.astype("M8[D]"), "D", 1
        number = int(value.astype(np.int64)) * count
        if unit in _STEPS_BELOW:
            return _Moment(number // _STEPS_BELOW[unit], 1, None)
        step = _STEPS[unit]
        return _Moment(number * step, NANOSECONDS["d"] if unit in ("D", "W") else min(step, NANOSECONDS["s"]), None)
    raise _kind_error(value, "timestamp")


def _moments(good: list[_Moment], values: list[Any], misfit: Misfit | None) -> tuple[pa.Array, Misfit | None]:
    """Return moments as an array in their finest unit, up to the first that does not fit into 64 bits."""
    step = min(moment.step for moment in good)
    if step == NANOSECONDS["d"] and any(abs(moment.nanoseconds // step) >= 2**31 for moment in good):
        step = NANOSECONDS["s"]
    numbers = [moment.nanoseconds // step for moment in good]
    for row, number in enumerate(numbers):
        if not -(2**63) <= number < 2**63:
            reason = f"{short_repr(values[row])} does not fit into 64 bits in the unit of those beside it"
            misfit = Misfit(row, reason, is_of_other_kind=True)
            del numbers[row:]
            break
    if step == NANOSECONDS["d"]:
        return pa.array(numbers, pa.int32()).view(pa.date32()), misfit
    unit = next(unit for unit in ("s", "ms", "us", "ns") if NANOSECONDS[unit] == step)
    zone = good[0].zone
    time_type = pa.timestamp(unit, None if zone is None else _name_of(zone, values[0]))
    return pa.array(numbers, pa.int64()).view(time_type), misfit


def _name_of(zone: datetime.tzinfo, value: Any) -> str:
    """Return Arrow's name of a zone, or the offset of the value if Arrow does not know the zone."""
    try:
        return pa.array([value]).type.tz or "UTC"
    except (ValueError, TypeError, AttributeError):
        minutes = int((zone.utcoffset(value) or datetime.timedelta()).total_seconds()) // 60
        return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"
