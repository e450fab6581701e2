"""Values of fields: the error of a line, how a message shows a value, and times as text, after ISO 8601.

`2024-05-01`, `2024-05-01T12:30`, `2024-05-01 12:30:15.25`, and behind a time of day a zone: `Z`, `+02`, `+0200` or
`+02:00`.  A time with a zone is **aware**; one without, **naive**, is taken for UTC.  One file cannot have both: the same
text would be two times.  Times become integers in the unit of the stream; digits below the unit are cut off, towards the
past.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rpq.stream.durations import NANOSECONDS, TIME_UNITS


class FieldError(Exception):
    """An error in a line: its `message`, and the `column` (None if the line as a whole is wrong)."""

    def __init__(self, message: str, column: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.column = column


def quote_value(value: str | bytes) -> str:
    """Quote a value for a message; a long one is cut."""
    if len(value) <= 60:
        return repr(value)
    return repr(value[:57]) + "..."


TimeKind = Literal["naive", "aware"]

DEFAULT_UNIT = "us"
"""The unit that times become where nobody says one; that of `rpq.Engine` too."""

_EXAMPLES = {"naive": "2024-05-01T12:00:00", "aware": "2024-05-01T12:00:00Z"}

_DAY = NANOSECONDS["s"] * 86_400
_DAY_TOLERANCE = 2
"""Days by which a time may seem to miss the one that its text begins with; one that wrapped misses it by centuries."""


def time_kind(text: str) -> TimeKind | None:
    """Tell whether a text is a time, with a zone or without.

    >>> time_kind("2024-05-01"), time_kind("2024-05-01 12:30+02:00"), time_kind("20240501")
    ('naive', 'aware', None)
    """
    if len(text) < 10 or text[4] != "-":
        return None
    kinds: tuple[TimeKind, ...] = ("naive", "aware")
    return next((kind for kind in kinds if times_of(pa.array([text]), kind=kind, unit="s") is not None), None)


def times_of(texts: pa.Array, *, kind: TimeKind, unit: str) -> pa.Array | None:
    """Return the times as int64 in `unit`; None if a text is none of this kind, or does not fit 64 bits.

    >>> times_of(pa.array(["1970-01-01T00:00:01.5", "1969-12-31T23:59:59.5"]), kind="naive", unit="s").to_pylist()
    [1, -1]
    """
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
    """Return whether times are on the dates of their texts: Arrow before 22 lets nanoseconds of distant years wrap."""
    days = pc.divide(nanoseconds, _DAY)
    told = pc.utf8_slice_codeunits(texts, 0, 10).cast(pa.date32()).cast(pa.int32())
    furthest = pc.max(pc.abs(pc.subtract(days, told))).as_py()
    return furthest is None or furthest <= _DAY_TOLERANCE


def check_time(text: str, column: str, *, kind: TimeKind, unit: str) -> int:
    """Return the time in a field, in `unit`; raise `FieldError` if there is none of this kind."""
    stripped = text.strip(" \t")
    times = times_of(pa.array([stripped]), kind=kind, unit=unit) if text.isascii() else None
    if times is not None:
        return int(times[0].as_py())
    if not stripped:
        raise FieldError("is empty; expected a time", column)
    found = time_kind(stripped)
    if found is None:
        raise FieldError(f"{quote_value(text)} is not a time; expected one such as {_EXAMPLES[kind]}", column)
    if found == kind:
        raise FieldError(f"{quote_value(text)} does not fit 64 bits in the unit {unit}", column)
    has, others = ("a", "have none") if found == "aware" else ("no", "have one")
    raise FieldError(
        f"{quote_value(text)} has {has} zone, but the times before {others}; in one file all or none have a zone", column
    )
