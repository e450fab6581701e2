"""How far ahead of the stream time a tuple may be before it is taken for a mistake.

One timestamp in milliseconds among seconds moves the stream time by fifty thousand years: every window is empty then, and
all that follows is late. With a limit such a tuple is a bad one (S13), and moves nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa

from rpq.errors import InputError, QueryError
from rpq.stream.durations import NANOSECONDS, DurationError, duration_text, nanoseconds_of
from rpq.stream.stream_time import StreamTime
from rpq.stream.window import INT64_MAX, AnyWindow, Window

_TIMES = re.compile(r"\s*([0-9]{1,18})\s*x\s*", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class MaxAhead:
    """A limit as it is `given`: a `length` in the stream's unit, or in nanoseconds, or so many `times` the longest window.

    >>> MaxAhead.of("1000x").times, MaxAhead.of("1d").length, MaxAhead.of(500).length
    (1000, 86400000000000, 500)
    """

    given: Any
    length: int = 0
    is_duration: bool = False
    times: int | None = None

    @classmethod
    def of(cls, given: Any) -> Self | None:
        """The limit that a number, a duration or a text such as 1000x says; None for no limit. Raises `QueryError`."""
        if given is None:
            return None
        if isinstance(given, str) and (found := _TIMES.fullmatch(given)) is not None and int(found[1]):
            return cls(given=given, times=int(found[1]))
        is_duration = True
        try:
            length = nanoseconds_of(given)
        except DurationError as problem:
            if isinstance(given, (bool, str)) or not hasattr(given, "__index__") or type(given).__name__ == "timedelta64":
                expected = "a whole number of time units, a duration, or 1000x, a thousand times the longest window"
                raise QueryError(f"max_ahead is {expected}: {problem}") from problem
            length, is_duration = given.__index__(), False
        if not 0 < length <= INT64_MAX:
            raise QueryError(f"max_ahead must be positive and fit into 64 bits, not {given!r}")
        return cls(given=given, length=length, is_duration=is_duration)

    def limit(self, times: StreamTime, windows: Iterable[AnyWindow]) -> int | None:
        """The limit in the integers of a stream, whose windows are these; None where none of them is of time.

        Raises `QueryError` where it does not go with the stream.
        """
        if self.times is not None:
            longest = max((window.size for window in windows if isinstance(window, Window)), default=0)
            return min(self.times * longest, INT64_MAX) or None
        if (unfit := self.misfit(times)) is not None:
            raise QueryError(unfit)
        if not self.is_duration:
            return self.length
        unit = times.inner_unit
        if self.length % NANOSECONDS[unit]:
            raise QueryError(f"max_ahead, {duration_text(self.length)}, is no whole number of the stream's unit, {unit}")
        return self.length // NANOSECONDS[unit]

    def refuse_unfit(self, times: StreamTime) -> None:
        """Raise `InputError` where timestamps turn out to be of a kind that the limit does not go with."""
        if (unfit := self.misfit(times)) is not None:
            raise InputError(f"column 'timestamp': {unfit}", column="timestamp")

    def misfit(self, times: StreamTime) -> str | None:
        """Why the limit does not go with the timestamps of a stream, or its windows; None where it does."""
        if self.times is not None or times.unit is not None:
            return None
        has_numbers = times.measured is False or times.is_of_numbers
        if self.is_duration and has_numbers:
            return (
                f"max_ahead is a duration ({self.given!r}), and the timestamps of this stream are plain numbers: give it in "
                'the same numbers, or tell the engine in which unit they are: rpq.Engine(…, time_unit="s")'
            )
        if not self.is_duration and (times.measured or (times.type is not None and not times.is_of_numbers)):
            return (
                f"max_ahead is a plain number ({self.given!r}), and the timestamps of this stream are dates or times: write "
                'a duration, as in max_ahead="1d"'
            )
        return None


class AheadLimit(NamedTuple):
    """The limit for tuples that come now, `most` in integers of the stream; its time is `now`, None before the first one."""

    max_ahead: MaxAhead
    most: int
    now: int | None

    def first_ahead(self, timestamp: np.ndarray) -> tuple[int, int] | None:
        """The first row that is too far ahead, and the stream time that the rows before it make; None where all may come.

        The first tuple of a stream is ahead of nothing. O(rows).
        """
        now = int(timestamp[0]) if self.now is None else self.now
        if int(timestamp.max()) - now <= self.most:
            return None
        before = np.empty_like(timestamp)
        before[0] = now
        np.maximum.accumulate(timestamp[:-1], out=before[1:])
        np.maximum(before, now, out=before)
        ahead = (before <= INT64_MAX - self.most) & (timestamp > before + self.most)
        row = int(np.argmax(ahead))
        return (row, int(before[row])) if ahead[row] else None

    def reason(self, timestamp: int, before: int, times: StreamTime) -> str:
        """What is wrong with a timestamp, at this stream time."""
        of_time = times.unit is not None or (times.type is not None and not times.is_of_numbers)
        most = duration_text(self.most * NANOSECONDS[times.inner_unit]) if of_time else str(self.most)
        times_longest = f", {self.max_ahead.times:,} times the longest window" if self.max_ahead.times is not None else ""
        time, now = (_written(times, number) for number in (timestamp, before))
        return (
            f"{time} is further ahead of the stream time, {now}, than max_ahead allows ({most}{times_longest}): expected a "
            "timestamp in the unit of those before"
        )


def _written(times: StreamTime, number: int) -> str:
    """A time as text, whichever years it is in."""
    if times.type is None or times.is_of_numbers:
        return str(number)
    return str(times.column(np.array([number]))[0].cast(pa.string()))
