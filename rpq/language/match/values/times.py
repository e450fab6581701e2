"""Times and durations as values of MATCH: how they are read, made, added and taken apart.

A time is a `Moment`: a date, or a time of a date with or without a zone; without one it counts as UTC. A duration has months
and seconds; a day of a duration is 24 hours.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from fractions import Fraction
from typing import Any

from rpq.language.sparql.values.moments import (
    Duration,
    Moment,
    MomentType,
    date_time_of,
    read_duration,
    read_moment,
    zone_suffix,
)
from rpq.stream.durations import DurationError, nanoseconds_of
from rpq.stream.names.terms import XSD, Literal

_UNIX = date(1970, 1, 1).toordinal() * 86_400
_NANOSECOND = Fraction(1, 10**9)
_SECONDS: dict[str, int | Fraction] = {
    "weeks": 7 * 86_400,
    "days": 86_400,
    "hours": 3600,
    "minutes": 60,
    "seconds": 1,
    "milliseconds": Fraction(1, 1000),
    "microseconds": Fraction(1, 10**6),
    "nanoseconds": _NANOSECOND,
}
_MONTHS = {"years": 12, "months": 1}
_FIELDS = ("year", "month", "day", "hour", "minute", "second")

MAP_NAMES: dict[str, frozenset[str]] = {
    "date": frozenset({"year", "month", "day"}),
    "localdatetime": frozenset({*_FIELDS, "epochSeconds", "epochMillis"}),
    "datetime": frozenset({*_FIELDS, "epochSeconds", "epochMillis"}),
    "duration": frozenset({*_SECONDS, *_MONTHS}),
}
"""The names that a map may have which is the argument of a function."""


# --- reading and writing ---------------------------------------------------------------------------------------------


def read_time(text: str) -> Moment | None:
    """Return the date or time that a text in ISO 8601 is; None for another text.

    >>> read_time("2024-05-01T12:30").text_as("dateTime"), read_time("2024-05-01").type, read_time("soon")
    ('2024-05-01T12:30:00', 'date', None)
    """
    text = text.strip()
    for type_ in ("date", "dateTime"):
        if (found := read_moment(type_, text)) is not None:
            return found
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        return None
    is_date = len(text) < 11
    return read_moment("date" if is_date else "dateTime", parsed.date().isoformat() if is_date else parsed.isoformat())


def read_length(text: str) -> Duration | None:
    """Return the duration that a text is: `P1DT2H` of ISO 8601, or a number with a unit as in `10m`; None for another text.

    >>> read_length("PT90M") == read_length("90m") == read_length("1.5h"), read_length("P1W").seconds, read_length("x")
    (True, Fraction(604800, 1), None)
    """
    text = text.strip()
    if (weeks := re.fullmatch(r"(-?P)([0-9]+)W", text)) is not None:
        text = f"{weeks[1]}{7 * int(weeks[2])}D"
    if (found := read_duration("duration", text)) is not None:
        return found
    try:
        return Duration(0, Fraction(nanoseconds_of(text), 10**9))
    except DurationError:
        return None


def time_literal(value: Moment | Duration) -> Literal:
    """Return a time or a duration as a literal.

    >>> time_literal(read_length("90m")).text, time_literal(read_length("-P14MT0.5S")).text
    ('PT1H30M', '-P1Y2MT0.5S')
    """
    if isinstance(value, Moment):
        return Literal(value.text_as(value.type) or "", XSD + value.type)
    is_negative = value.months < 0 or value.seconds < 0
    if is_negative and (value.months > 0 or value.seconds > 0):  # which no text of XML Schema has
        value = Duration(0, value.seconds + value.months * _SECONDS_A_MONTH)
        is_negative = value.seconds < 0
    years, months = divmod(abs(value.months), 12)
    minutes, seconds = divmod(abs(value.seconds), 60)
    hours, minutes = divmod(int(minutes), 60)
    days, hours = divmod(hours, 24)
    second = _decimal_text(seconds)
    by_day = "".join(f"{count}{letter}" for count, letter in ((years, "Y"), (months, "M"), (days, "D")) if count)
    by_time = "".join(f"{count}{letter}" for count, letter in ((hours, "H"), (minutes, "M")) if count)
    by_time += f"{second}S" if seconds or not (by_day or by_time) else ""
    return Literal(f"{'-' if is_negative else ''}P{by_day}{'T' if by_time else ''}{by_time}", XSD + "duration")


_SECONDS_A_MONTH = 2_629_746
"""The average, by which months are compared with seconds."""


def _decimal_text(number: Fraction) -> str:
    """Return a number as text, to nanoseconds."""
    whole, part = divmod(number, 1)
    return f"{whole}" + (f".{int(part / _NANOSECOND):09}".rstrip("0").rstrip(".") if part else "")


def literal_time(literal: Literal) -> Moment | Duration | None:
    """Return the time or the duration that a literal is, None for others."""
    name = literal.datatype.removeprefix(XSD)
    if name in ("date", "dateTime"):
        return read_moment(name, literal.text)
    return read_duration(name, literal.text)


def nanoseconds_since_epoch(moment: Moment) -> int:
    """Return the nanoseconds since 1970, in UTC, rounded down."""
    return int((moment.instant - _UNIX) // _NANOSECOND)


def average_seconds(duration: Duration) -> Fraction:
    """Return the length of a duration with months of average length."""
    return duration.seconds + duration.months * _SECONDS_A_MONTH


# --- making ----------------------------------------------------------------------------------------------------------


def _moment(type_: MomentType, seconds: Fraction, zone: int | None) -> Moment | None:
    """Return a moment with these local seconds since year 1; None outside of the years 1 to 9999."""
    text = date_time_of(int((seconds - _UNIX) // _NANOSECOND), 10**9)
    if text is None:
        return None
    return read_moment(type_, text[:10] + zone_suffix(zone) if type_ == "date" else text[:-1] + zone_suffix(zone))


def as_date(moment: Moment) -> Moment | None:
    """Return the day of a time."""
    return read_moment("date", (moment.text_as("date") or "")[:10])


def with_zone(moment: Moment, *, has_zone: bool) -> Moment | None:
    """Return a time of a date, in its zone or else in UTC, or with the same fields without a zone."""
    zone = (moment.zone or 0) if has_zone else None
    return _moment("dateTime", moment.seconds, zone)


def time_of_fields(type_: MomentType, fields: Mapping[str, Any], *, has_zone: bool) -> Moment | None:
    """Return the time with fields of `MAP_NAMES`; the missing ones are the first of their kind. None where it has none."""
    zone = 0 if has_zone else None
    if "epochSeconds" in fields or "epochMillis" in fields:
        seconds = Fraction(fields.get("epochSeconds", 0)) + Fraction(fields.get("epochMillis", 0)) / 1000
        return _moment("dateTime", seconds + _UNIX, zone)
    if "year" not in fields:
        return None
    year, month, day, hour, minute, second = (int(fields.get(name, name in ("month", "day"))) for name in _FIELDS)
    text = f"{year:04}-{month:02}-{day:02}"
    suffix = zone_suffix(zone)
    return read_moment(type_, text if type_ == "date" else f"{text}T{hour:02}:{minute:02}:{second:02}{suffix}")


def duration_of_fields(fields: Mapping[str, Any]) -> Duration | None:
    """Return the duration with fields of `MAP_NAMES`; None for a part of a month.

    >>> duration_of_fields({"days": 1, "minutes": 30})
    Duration(months=0, seconds=Fraction(88200, 1))
    """
    months = sum((Fraction(fields[name]) * factor for name, factor in _MONTHS.items() if name in fields), Fraction())
    seconds = sum((Fraction(fields[name]) * factor for name, factor in _SECONDS.items() if name in fields), Fraction())
    return Duration(int(months), seconds) if months.denominator == 1 else None


# --- arithmetic ------------------------------------------------------------------------------------------------------


def add_duration(moment: Moment, duration: Duration, sign: int = 1) -> Moment | None:
    """Return the time a duration later, or earlier with the sign -1; None outside of the years 1 to 9999.

    Months come first, and end at the last day of a shorter month; a date moves by whole days.

    >>> add_duration(read_time("2024-01-31"), read_length("P1M")).text_as("date")
    '2024-02-29'
    """
    seconds = moment.seconds
    if duration.months:
        year, month = divmod(12 * moment.year + moment.month - 1 + sign * duration.months, 12)
        if not 1 <= year <= 9999:
            return None
        day = min(moment.day, calendar.monthrange(year, month + 1)[1])
        moved = date(year, month + 1, day).toordinal() - date(moment.year, moment.month, moment.day).toordinal()
        seconds += 86_400 * moved
    seconds += sign * duration.seconds
    return _moment(moment.type, seconds - seconds % 86_400 if moment.type == "date" else seconds, moment.zone)


def time_between(first: Moment, second: Moment) -> Duration:
    """Return the duration from one time to another."""
    return Duration(0, second.instant - first.instant)


def scaled(duration: Duration, factor: Fraction) -> Duration | None:
    """Return a multiple of a duration; None for a part of a month."""
    months = duration.months * factor
    return Duration(int(months), duration.seconds * factor) if months.denominator == 1 else None


TIME_PARTS: dict[str, Callable[[Moment], int]] = {
    "year": lambda moment: moment.year,
    "month": lambda moment: moment.month,
    "day": lambda moment: moment.day,
    "hour": lambda moment: moment.hour,
    "minute": lambda moment: moment.minute,
    "second": lambda moment: int(moment.second),
    "epochSeconds": lambda moment: nanoseconds_since_epoch(moment) // 10**9,
    "epochMillis": lambda moment: nanoseconds_since_epoch(moment) // 10**6,
}
"""The parts of times by name."""

DURATION_PARTS: dict[str, Callable[[Duration], int]] = {
    "months": lambda duration: duration.months,
    "days": lambda duration: int(duration.seconds / 86_400),
    "hours": lambda duration: int(duration.seconds / 3600),
    "minutes": lambda duration: int(duration.seconds / 60),
    "seconds": lambda duration: int(duration.seconds),
    "milliseconds": lambda duration: int(duration.seconds * 1000),
}
"""The length of a duration in whole units, without its months."""
