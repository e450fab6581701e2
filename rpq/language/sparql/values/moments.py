"""Dates, times and durations of XML Schema: parsing and comparison."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from typing import Literal

MomentType = Literal["dateTime", "date", "time"]

_ZONE = r"(?P<zone>Z|[+-](?:0[0-9]|1[0-3]):[0-5][0-9]|[+-]14:00)?"
_DATE = r"(?P<year>-?(?:[1-9][0-9]{3,}|0[0-9]{3}))-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})"
_TIME = r"(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2}(?:\.[0-9]+)?)"
MOMENTS: dict[str, re.Pattern[str]] = {
    "dateTime": re.compile(f"{_DATE}T{_TIME}{_ZONE}"),
    "date": re.compile(f"{_DATE}{_ZONE}"),
    "time": re.compile(f"{_TIME}{_ZONE}"),
}
"""The lexical forms of dateTime, date and time."""

_DURATION = re.compile(
    r"(-)?P(?:([0-9]+)Y)?(?:([0-9]+)M)?(?:([0-9]+)D)?(T(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+(?:\.[0-9]+)?)S)?)?"
)
_WIDEST_ZONE = 14 * 3600
_LAST_YEAR = 9999
_UNIX_DAY = date(1970, 1, 1).toordinal()


@dataclass(frozen=True, slots=True)
class Moment:
    """A dateTime, date or time: its fields, its zone in minutes or None, and its local time in seconds since year 1."""

    type: MomentType
    year: int
    month: int
    day: int
    hour: int
    minute: int
    second: Fraction
    zone: int | None
    seconds: Fraction

    @property
    def instant(self) -> Fraction:
        """Seconds since the first day of year 1 in UTC; moments without a zone count as UTC."""
        return self.seconds - 60 * self.zone if self.zone else self.seconds

    def text_as(self, type_: str) -> str | None:
        """Return the canonical form of the moment as another type, or None if it lacks a field that the type has.

        A date is, as a dateTime, the beginning of the day.
        """
        if self.type == "time" or (self.type == "date" and type_ == "time"):
            return None
        day, zone = f"{self.year:04}-{self.month:02}-{self.day:02}", zone_suffix(self.zone)
        whole, part = divmod(Fraction(self.second), 1)
        time = f"{self.hour:02}:{self.minute:02}:{whole:02}{'.' if part else ''}"
        while part:
            digit, part = divmod(10 * part, 1)
            time += str(digit)
        return {"date": day, "time": time, "dateTime": f"{day}T{time}"}[type_] + zone


@dataclass(frozen=True, slots=True)
class Duration:
    """A duration in months and seconds, which cannot be converted to each other."""

    months: int
    seconds: Fraction


def read_moment(type_: str, text: str) -> Moment | None:
    """Parse a text as a type of `MOMENTS`, or return None if it is invalid. 24:00:00 is the start of the next day.

    >>> read_moment("dateTime", "2024-02-29T12:30:00.5Z").second
    Fraction(1, 2)
    >>> read_moment("date", "2023-02-29") is None
    True
    """
    found = MOMENTS[type_].fullmatch(text)
    if found is None:
        return None
    fields = found.groupdict()
    year, month, day = (int(fields.get(name) or 1) for name in ("year", "month", "day"))
    hour, minute = (int(fields.get(name) or 0) for name in ("hour", "minute"))
    text_of_second = fields.get("second") or "0"
    second = Fraction(text_of_second if "." in text_of_second else int(text_of_second))
    if hour > 24 or minute > 59 or second >= 60 or (hour == 24 and (minute or second)) or not 1 <= year <= _LAST_YEAR:
        return None
    try:
        days = date(year, month, day).toordinal()
        if hour == 24:
            hour = 0
            if type_ == "dateTime":
                days += 1
                year, month, day = date.fromordinal(days).timetuple()[:3]
    except (ValueError, OverflowError):
        return None
    seconds = days * 86_400 + hour * 3600 + minute * 60 + second
    return Moment(type_, year, month, day, hour, minute, second, _minutes(fields["zone"]), seconds)  # type: ignore[arg-type]


def date_time_of(instant: int, ticks: int) -> str | None:
    """Return an instant, in numbers of which `ticks` are a second since 1970, as a dateTime in UTC; None outside its years.

    >>> date_time_of(1_714_564_800_500, 1000), date_time_of(10**12, 1)
    ('2024-05-01T12:00:00.5Z', None)
    """
    second, fraction = divmod(instant, ticks)
    days, second = divmod(second, 86_400)
    try:
        day = date.fromordinal(_UNIX_DAY + days).isoformat()
    except (ValueError, OverflowError):
        return None
    part = f".{fraction:0{len(str(ticks)) - 1}}".rstrip("0").rstrip(".") if fraction else ""
    return f"{day}T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}{part}Z"


def is_before(left: Moment, right: Moment) -> bool | None:
    """Return whether one moment is before another of its type, or None if that depends on a missing zone."""
    if (left.zone is None) != (right.zone is None) and abs(left.instant - right.instant) <= _WIDEST_ZONE:
        return None
    return left.instant < right.instant


def is_same(left: Moment, right: Moment) -> bool | None:
    """Return whether two moments are equal; they are not if only one of them has a zone.

    Return None for two dates if that depends on a missing zone (as in the W3C's test date-2).
    """
    if left.type == right.type == "date" and is_before(left, right) is None:
        return None
    return left.type == right.type and (left.zone is None) == (right.zone is None) and left.instant == right.instant


def read_duration(type_: str, text: str) -> Duration | None:
    """Parse a text as xsd:duration, dayTimeDuration or yearMonthDuration, or return None if it is invalid.

    >>> read_duration("dayTimeDuration", "-PT90M").seconds, read_duration("dayTimeDuration", "P1M")
    (Fraction(-5400, 1), None)
    """
    if type_ not in ("duration", "dayTimeDuration", "yearMonthDuration"):
        return None
    found = _DURATION.fullmatch(text)
    if found is None or text.endswith(("P", "T")):
        return None
    sign, years, months, days, time, hours, minutes, seconds = found.groups()
    if type_ == "dayTimeDuration" and (years or months):
        return None
    if type_ == "yearMonthDuration" and (days or time):
        return None
    factor = -1 if sign else 1
    whole = (int(days or 0) * 24 + int(hours or 0)) * 60 + int(minutes or 0)
    return Duration(factor * (12 * int(years or 0) + int(months or 0)), factor * (60 * whole + Fraction(seconds or 0)))


def zone_text(minutes: int) -> str:
    """Return a zone as a dayTimeDuration, in the form of TIMEZONE.

    >>> zone_text(-300), zone_text(0), zone_text(330)
    ('-PT5H', 'PT0S', 'PT5H30M')
    """
    hours, rest = divmod(abs(minutes), 60)
    parts = (f"{hours}H" if hours else "") + (f"{rest}M" if rest else "")
    return ("-" if minutes < 0 else "") + "PT" + (parts or "0S")


def zone_suffix(minutes: int | None) -> str:
    """Return the text of a zone at the end of a moment.

    >>> zone_suffix(-300), zone_suffix(0), zone_suffix(None)
    ('-05:00', 'Z', '')
    """
    if not minutes:
        return "" if minutes is None else "Z"
    hours, rest = divmod(abs(minutes), 60)
    return f"{'-' if minutes < 0 else '+'}{hours:02}:{rest:02}"


def _minutes(zone: str | None) -> int | None:
    if not zone:
        return None
    if zone == "Z":
        return 0
    return (-1 if zone[0] == "-" else 1) * (60 * int(zone[1:3]) + int(zone[4:]))
