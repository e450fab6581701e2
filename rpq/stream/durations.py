"""Lengths of time: numbers in the stream's unit, or with a unit of their own."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from rpq.errors import RpqError

if TYPE_CHECKING:
    from fractions import Fraction

NANOSECONDS = {
    "ns": 1,
    "us": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
    "d": 86_400 * 10**9,
    "w": 7 * 86_400 * 10**9,
}
"""The units of a duration; `m` is minutes."""

TIME_UNITS = ("s", "ms", "us", "ns")
"""The units that a stream's timestamps may have."""

_DURATION = re.compile(r"([+-]?[0-9]+(?:\.[0-9]+)?)\s*([^\W\d_]*)", re.ASCII)
_EXPECTED = (
    f"expected a whole number, or a number with one of {', '.join(NANOSECONDS)}, such as 30d, 10m (minutes), 500ms"
)


class DurationError(RpqError, ValueError):
    """A duration that is not understood, or has no exact value in the stream's unit."""


def parse_duration(text: str, *, unit: str | None) -> int:
    """Return a duration in the stream's time unit, which is `unit` or None if its timestamps are plain numbers.

    A number without a unit is in the stream's own. Raises `DurationError` (a `ValueError`) where the text is not
    understood, where it has a unit and the stream has none, and where the result is no whole number that fits 64
    bits. The caller checks the sign.

    >>> parse_duration("30d", unit="s"), parse_duration("1.5h", unit="s"), parse_duration("500", unit=None)
    (2592000, 5400, 500)
    """
    if unit is not None and unit not in TIME_UNITS:
        raise DurationError(f"unknown time unit {unit!r} of the stream: expected one of {', '.join(TIME_UNITS)}")
    number, own_unit = _number_and_unit(text)
    if own_unit:
        if unit is None:
            raise DurationError(
                f"{text!r} has a unit, but the timestamps of the stream have none: "
                "give a plain number, or say the stream's time unit"
            )
        number = number * NANOSECONDS[own_unit] / NANOSECONDS[unit]
    if number.denominator != 1:
        raise DurationError(f"{text!r} is no whole number of the stream's time unit{f' ({unit})' if unit else ''}")
    if not -(2**63) <= number < 2**63:
        raise DurationError(f"{text!r} does not fit 64 bits in the stream's time unit")
    return int(number)


def _number_and_unit(text: str) -> tuple[Fraction, str]:
    from fractions import Fraction  # with decimal, a tenth of the time of `import rpq`

    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise DurationError(f"{text!r} is not a duration: {_EXPECTED}")
    if match[2] and match[2] not in NANOSECONDS:
        raise DurationError(f"{text!r} has the unknown unit {match[2]!r}: {_EXPECTED}")
    return Fraction(match[1]), match[2]


def nanoseconds_of(duration: Any) -> int:
    """Return the nanoseconds of a duration: text with a unit, or a duration of Python, numpy or pandas.

    Raises `DurationError` where it is none, has no fixed length (months) or no whole number of nanoseconds.

    >>> nanoseconds_of("1.5h"), nanoseconds_of(timedelta(milliseconds=2))
    (5400000000000, 2000000)
    """
    if isinstance(duration, str):
        number, unit = _number_and_unit(duration)
        if not unit:
            raise DurationError(f"{duration!r} has no unit: write a number, or one of {', '.join(NANOSECONDS)} behind it")
        number *= NANOSECONDS[unit]
        if number.denominator != 1:
            raise DurationError(f"{duration!r} is no whole number of nanoseconds")
        return int(number)
    if isinstance(duration, timedelta):
        # The class of pandas that derives from it has nanoseconds as well.
        whole = (duration.days * 86_400 + duration.seconds) * 10**9 + duration.microseconds * 1000
        return whole + getattr(duration, "nanoseconds", 0)
    if type(duration).__module__ == "numpy" and type(duration).__name__ == "timedelta64":
        return _nanoseconds_of_numpy(duration)
    raise DurationError(f"{duration!r} is not a duration: {_EXPECTED}, or a datetime.timedelta")


def _nanoseconds_of_numpy(duration: Any) -> int:
    import numpy as np

    unit, count = np.datetime_data(duration.dtype)
    own = {"D": "d", "W": "w"}.get(unit, unit)
    if np.isnat(duration) or own not in NANOSECONDS:
        raise DurationError(f"{duration!r} has no fixed length in one of the units {', '.join(NANOSECONDS)}")
    return int(duration.astype(np.int64)) * count * NANOSECONDS[own]


def duration_text(nanoseconds: int) -> str:
    """Return a duration as text, in the largest unit in which it is a whole number; days at most.

    >>> duration_text(nanoseconds_of("1w")), duration_text(nanoseconds_of("1.5h"))
    ('7d', '90m')
    """
    unit = next(unit for unit in ("d", "h", "m", "s", "ms", "us", "ns") if nanoseconds % NANOSECONDS[unit] == 0)
    return f"{nanoseconds // NANOSECONDS[unit]}{unit}"


def length_text(length: int, unit: str | None) -> str:
    """Return a length of time in the stream's unit as text: a duration, or a number where the stream has no unit.

    >>> length_text(86_400_000_000, "us"), length_text(86_401, "s"), length_text(86_400, None)
    ('1d', '86401s', '86,400')
    """
    return f"{length:,}" if unit is None else duration_text(length * NANOSECONDS[unit])
