"""Values of fields: the error of a line, quoted values in messages, and times in ISO 8601 text.

`2024-05-01`, `2024-05-01T12:30`, `2024-05-01 12:30:15.25`, and after a time of day an optional zone: `Z`, `+02`, `+0200` or
`+02:00`.  A time with a zone is **aware**; a time without is **naive** and counts as UTC.  One file cannot have both,
because the same text would mean two times.  Times become integers in the unit of the stream; digits below the unit are
truncated towards the past.

Other times have a **format** that the user gives: `epoch`, seconds since 1970 with or without a fraction, or one of
`datetime.strptime` such as `%d/%m/%Y %I:%M %p`, in UTC unless it has a zone (`%z`).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import ROUND_FLOOR, Decimal, InvalidOperation
from typing import Literal

import numpy as np
import pyarrow as pa

from rpq.stream.arrays import arrow_compute as pc
from rpq.stream.durations import NANOSECONDS, TIME_UNITS

DELETE = "delete"
"""The alternative to op in inputs with named columns: true or false for - and +. A tuple has one of the two."""

STREAM = "stream"
"""An optional column of inputs with named columns: the stream of a tuple, or null."""


EDGE = "edge"
"""The column of inputs whose edges have ids: the id of the edge of a tuple; null for deletes without one."""

UNLESS_NEWER = "delete unless newer"
"""A column that readers add where edges have ids: true for an insert that a condition left out.

It is a delete of its edge, unless that is newer.
"""


class FieldError(Exception):
    """An error in a line: its `message`, and the `column` (None if the line as a whole is wrong)."""

    def __init__(self, message: str, column: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.column = column


def quote_value(value: str | bytes) -> str:
    """Quote a value for a message; long values are abbreviated.

    >>> quote_value("x"), len(quote_value(1000 * "x"))
    ("'x'", 62)
    """
    if len(value) <= 60:
        return repr(value)
    return repr(value[:57]) + "..."


TimeKind = Literal["naive", "aware"]

DEFAULT_UNIT = "us"
"""The default unit of times in text, which is also the default of `rpq.Engine`."""

EPOCH = "epoch"
"""The format of times that are seconds since 1970, with or without a fraction."""

_PLAIN_SECONDS = "^(?P<sign>[+-]?)(?P<whole>[0-9]{1,18})(?:[.](?P<part>[0-9]*))?$"
_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
"""The digits of a fraction of a second in each unit."""

_BEGIN = datetime(1970, 1, 1, tzinfo=UTC)

_FOREIGN = re.compile(
    r"(?P<one>\d{1,2})(?P<mark>[/.-])(?P<two>\d{1,2})[/.-](?P<year>\d{4})"
    r"(?P<gap>[ T,]+)?(?P<time>\d{1,2}:\d{2}(?P<seconds>:\d{2})?)?(?P<half>\s*[AaPp]\.?[Mm]\.?)?"
)
_TIMELIKE = re.compile(
    r"\d{1,4}[/-]\d{1,2}[/-]\d{1,4}|\d{1,2}:\d{2}|\b(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\b.*\d",
    re.IGNORECASE,
)
_HALF = re.compile(r"(?P<date>\d{4}-\d{2}-\d{2})(?P<gap>[ T])\d{1,2}:\d{2}(?P<seconds>:\d{2})?\s*[AaPp][Mm]")

_EXAMPLES = {"naive": "2024-05-01T12:00:00", "aware": "2024-05-01T12:00:00Z"}

_DAY = NANOSECONDS["s"] * 86_400
_DAY_TOLERANCE = 2
"""Days by which a time may differ from the date in its text; a wrapped time differs by centuries."""


def time_kind(text: str) -> TimeKind | None:
    """Return whether a text is a time with a zone, a time without, or no time.

    >>> time_kind("2024-05-01"), time_kind("2024-05-01 12:30+02:00"), time_kind("20240501")
    ('naive', 'aware', None)
    """
    if len(text) < 10 or text[4] != "-":
        return None
    kinds: tuple[TimeKind, ...] = ("naive", "aware")
    return next((kind for kind in kinds if times_of(pa.array([text]), kind=kind, unit="s") is not None), None)


def check_time_format(text: str) -> str:
    """Return a format of times unchanged; raise `ValueError` if it is none.

    >>> check_time_format("%d/%m/%Y %H:%M")
    '%d/%m/%Y %H:%M'
    """
    if text == EPOCH:
        return text
    try:
        datetime.strptime(datetime(2024, 5, 1).strftime(text), text)
    except (ValueError, re.error) as error:
        raise ValueError(f"{text!r} is no format of times: {error}; expected epoch, or such as %d/%m/%Y %H:%M:%S") from None
    if not {"%Y", "%y", "%c", "%x", "%G"} & set(re.findall("%.", text)):
        raise ValueError(f"{text!r} has no year (%Y); expected epoch, or such as %d/%m/%Y %H:%M:%S")
    return text


def format_hint(text: str) -> str:
    """Return advice for a time in another notation than ISO 8601: the options that read it, or an empty text.

    >>> print(format_hint("24/12/2024 03:10 PM"))
    ; --time-format '%d/%m/%Y %I:%M %p' reads it
    >>> print(format_hint("1591367999.305988"))
    ; --time-format epoch reads seconds with a fraction
    >>> print(format_hint("24 Dec 2024"))
    ; --time-format describes times in other notations, as in strptime: '%d %b %Y'
    """
    text = text.strip(" \t")
    if re.fullmatch(r"[+-]?[0-9]+[.][0-9]*", text):
        return f"; --time-format {EPOCH} reads seconds with a fraction"
    if (half := _HALF.fullmatch(text)) is not None:
        seconds = ":%S" if half["seconds"] else ""
        blank = " " if re.search(r"\s[AaPp][Mm]", text) else ""
        return f"; --time-format '%Y-%m-%d{half['gap']}%I:%M{seconds}{blank}%p' reads it"
    found = _FOREIGN.fullmatch(text)
    if found is None:
        if time_kind(text) is not None or _TIMELIKE.search(text) is None:
            return ""
        return "; --time-format describes times in other notations, as in strptime: '%d %b %Y'"
    clock = ("%I:%M" if found["half"] else "%H:%M") + (":%S" if found["seconds"] else "") if found["time"] else ""
    half_day = (" " if (found["half"] or "").startswith(" ") else "") + "%p" if found["half"] else ""
    formats = [
        "'" + found["mark"].join(order) + (found["gap"] or "") + clock + half_day + "'"
        for order, month in ((("%d", "%m", "%Y"), found["two"]), (("%m", "%d", "%Y"), found["one"]))
        if 1 <= int(month) <= 12
    ]
    if len(formats) < 2:
        return f"; --time-format {formats[0]} reads it" if formats else ""
    return f"; --time-format {formats[0]} reads it with the day first, {formats[1]} with the month first"


def _epochs(texts: pa.Array, unit: str) -> pa.Array | None:
    """Return seconds with or without a fraction as int64 in `unit`, rounded down; None if a text is something else."""
    digits = _DIGITS[unit]
    parts = pc.extract_regex(texts, _PLAIN_SECONDS)
    if parts.null_count:
        return _epochs_one_by_one(texts, digits)
    part = pc.utf8_rpad(parts.field("part"), digits, "0")
    rest = pc.utf8_slice_codeunits(part, digits)
    try:
        number = pc.multiply_checked(parts.field("whole").cast(pa.int64()), pa.scalar(10**digits, pa.int64()))
        if digits:
            number = pc.add_checked(number, pc.utf8_slice_codeunits(part, 0, digits).cast(pa.int64()))
    except pa.ArrowInvalid:
        return None
    is_negative = pc.equal(parts.field("sign"), "-")
    if not pc.any(is_negative).as_py():
        return number
    has_rest = pc.match_substring_regex(rest, "[1-9]")
    return pc.if_else(is_negative, pc.subtract(pc.negate(number), has_rest.cast(pa.int64())), number)


def _epochs_one_by_one(texts: pa.Array, digits: int) -> pa.Array | None:
    values = []
    for text in texts.to_pylist():
        try:
            number = Decimal(text).scaleb(digits).to_integral_value(ROUND_FLOOR)
            value = int(number) if abs(number.adjusted()) < 20 or not number else 1 << 63
        except (InvalidOperation, ValueError, OverflowError):
            return None
        if "_" in text or not -(1 << 63) <= value < 1 << 63:
            return None
        values.append(value)
    return pa.array(values, pa.int64())


def _parse_times(texts: pa.Array, format: str, unit: str) -> pa.Array | None:
    """Return times in a format of `strptime` as int64 in `unit`; None if a text is none.  O(different texts), in Python."""
    encoded = texts.dictionary_encode()
    values = []
    for text in encoded.dictionary.to_pylist():
        try:
            time = datetime.strptime(text, format)
        except ValueError:
            return None
        since = (time if time.tzinfo is not None else time.replace(tzinfo=UTC)) - _BEGIN
        microseconds = (since.days * 86_400 + since.seconds) * 10**6 + since.microseconds
        value = microseconds * 1000 // NANOSECONDS[unit]
        if not -(1 << 63) <= value < 1 << 63:
            return None
        values.append(value)
    return pa.array(values, pa.int64()).take(encoded.indices)


def times_of(texts: pa.Array, *, kind: str, unit: str) -> pa.Array | None:
    """Return the times as int64 in `unit`, or None if a text is not a time of this kind, or does not fit 64 bits.

    The kind is "naive", "aware", or a format.

    >>> times_of(pa.array(["1970-01-01T00:00:01.5", "1969-12-31T23:59:59.5"]), kind="naive", unit="s").to_pylist()
    [1, -1]
    >>> times_of(pa.array(["1591367999.305988", "-0.5"]), kind="epoch", unit="ms").to_pylist()
    [1591367999305, -500]
    """
    if kind == EPOCH:
        return _epochs(texts, unit)
    if kind not in _EXAMPLES:
        return _parse_times(texts, kind, unit)
    finer = [unit, *(one for one in TIME_UNITS if NANOSECONDS[one] < NANOSECONDS[unit])]
    for parsed in finer:  # Arrow refuses digits below the unit, and nanoseconds of distant years
        try:
            times = texts.cast(pa.timestamp(parsed, "UTC" if kind == "aware" else None))
        except pa.ArrowInvalid:
            continue
        numbers = times.cast(pa.int64())
        if parsed == "ns" and not _match_dates(numbers, texts):
            continue
        if parsed == unit:
            return numbers
        ratio = NANOSECONDS[unit] // NANOSECONDS[parsed]
        return pa.array(np.floor_divide(numbers.to_numpy(zero_copy_only=False), ratio))
    return None


def _match_dates(nanoseconds: pa.Array, texts: pa.Array) -> bool:
    """Return whether times match the dates of their texts: Arrow before 22 lets nanoseconds of distant years wrap."""
    days = pc.divide(nanoseconds, _DAY)
    text_days = pc.utf8_slice_codeunits(texts, 0, 10).cast(pa.date32()).cast(pa.int32())
    furthest = pc.max(pc.abs(pc.subtract(days, text_days))).as_py()
    return furthest is None or furthest <= _DAY_TOLERANCE


def check_time(text: str, column: str, *, kind: str, unit: str) -> int:
    """Return the time in a field, in `unit`; raise `FieldError` if it is not a time of this kind."""
    stripped = text.strip(" \t")
    is_format = kind not in _EXAMPLES
    times = times_of(pa.array([stripped]), kind=kind, unit=unit) if is_format or text.isascii() else None
    if times is not None:
        return int(times[0].as_py())
    if not stripped:
        raise FieldError("is empty; expected a time", column)
    if is_format:
        message = f"is not a time of --time-format {kind}, or does not fit 64 bits in the unit {unit}"
        raise FieldError(f"{quote_value(text)} {message}", column)
    found = time_kind(stripped)
    if found is None:
        hint = format_hint(stripped)
        raise FieldError(f"{quote_value(text)} is not a time; expected one such as {_EXAMPLES[kind]}{hint}", column)
    if found == kind:
        raise FieldError(f"{quote_value(text)} does not fit 64 bits in the unit {unit}", column)
    has, others = ("a", "have none") if found == "aware" else ("no", "have one")
    raise FieldError(
        f"{quote_value(text)} has {has} zone, but the times before {others}; in one file all or none have a zone", column
    )
