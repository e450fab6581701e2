"""Values of fields: the error of a line, quoted values in messages, and times in ISO 8601 text.

`2024-05-01`, `2024-05-01T12:30`, `2024-05-01 12:30:15.25`, and after a time of day an optional zone: `Z`, `+02`, `+0200` or
`+02:00`.  A time with a zone is **aware**; a time without is **naive** and counts as UTC.  One file cannot have both,
because the same text would mean two times.  Times become integers in the unit of the stream; digits below the unit are
truncated towards the past.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

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
    """Quote a value for a message; long values are abbreviated."""
    if len(value) <= 60:
        return repr(value)
    return repr(value[:57]) + "..."


TimeKind = Literal["naive", "aware"]

DEFAULT_UNIT = "us"
"""The default unit of times in text, which is also the default of `rpq.Engine`."""

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


def times_of(texts: pa.Array, *, kind: TimeKind, unit: str) -> pa.Array | None:
    """Return the times as int64 in `unit`, or None if a text is not a time of this kind, or does not fit 64 bits.

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
    """Return whether times match the dates of their texts: Arrow before 22 lets nanoseconds of distant years wrap."""
    days = pc.divide(nanoseconds, _DAY)
    text_days = pc.utf8_slice_codeunits(texts, 0, 10).cast(pa.date32()).cast(pa.int32())
    furthest = pc.max(pc.abs(pc.subtract(days, text_days))).as_py()
    return furthest is None or furthest <= _DAY_TOLERANCE


def check_time(text: str, column: str, *, kind: TimeKind, unit: str) -> int:
    """Return the time in a field, in `unit`; raise `FieldError` if it is not a time of this kind."""
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
