"""Lengths of time: numbers in the stream's unit, or with a unit of their own."""

from __future__ import annotations

import re
from fractions import Fraction

from rpq.errors import RpqError

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

    A number without a unit is in the stream's own.  Raises `DurationError` (a `ValueError`) where the text is not
    understood, where it has a unit and the stream has none, and where the result is no whole number that fits 64
    bits.  The sign is the caller's to judge.

    >>> parse_duration("30d", unit="s"), parse_duration("1.5h", unit="s"), parse_duration("500", unit=None)
    (2592000, 5400, 500)
    """
    if unit is not None and unit not in TIME_UNITS:
        raise DurationError(f"unknown time unit {unit!r} of the stream: expected one of {', '.join(TIME_UNITS)}")
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise DurationError(f"{text!r} is not a duration: {_EXPECTED}")
    number, own_unit = Fraction(match[1]), match[2]
    if own_unit:
        if own_unit not in NANOSECONDS:
            raise DurationError(f"{text!r} has the unknown unit {own_unit!r}: {_EXPECTED}")
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
