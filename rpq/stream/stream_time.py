"""Timestamps of a stream: plain numbers, dates or times; how they become integers, and how these are shown again.

Inside an engine time is a 64-bit integer in one unit. Which one, and of which type the timestamps of rows are, follows
from the unit that the engine was given, the windows of its queries, and the timestamps that come:

| unit given | windows      | timestamps    | inside                            | rows have     |
|------------|--------------|---------------|-----------------------------------|---------------|
| none       | numbers      | numbers       | these numbers                     | numbers       |
| none       | durations    | dates, times  | nanoseconds: 1677 to 2262         | dates, times  |
| none       | any other    |               | refused, with what to write       |               |
| yes        | any          | any           | in that unit; finer times floored | the type that came first |

Times keep the zone of those that came first, and their unit, which becomes finer where later ones or the boundaries of
a window's slides need it. Times with and without a zone are never mixed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd
from typing import Any, Literal, NamedTuple, Protocol, Self, TypeVar

import numpy as np
import pyarrow as pa

from rpq.errors import InputError, QueryError
from rpq.stream.arrays.numpy_arrays import arrow_array, numpy_array
from rpq.stream.arrays.plain_columns import NUMBER, add_problem, cast, fill_nulls, padded_to_length, to_int64
from rpq.stream.arrays.values import MISSING, kind_of_timestamp, short_repr, timestamps_of
from rpq.stream.durations import NANOSECONDS, TIME_UNITS, DurationError, duration_text, nanoseconds_of
from rpq.stream.window import INT64_MAX, AnyWindow, Window

_DAY = NANOSECONDS["d"]
_WRITE = 'write rpq.Window(size="30d", slide="1d")'


class WindowedQuery(Protocol):
    """A query, as far as time is concerned."""

    @property
    def name(self) -> str:
        """The name of the query, by which rows and calls refer to it."""

    @property
    def window(self) -> AnyWindow:
        """The window of the query."""

    def over(self, window: AnyWindow) -> Self:
        """Return the same query over another window."""


_Query = TypeVar("_Query", bound=WindowedQuery)


def windows_of(query: Any) -> tuple[AnyWindow, ...]:
    """Return the windows over which a query reads edges: one, or those of its `readings` (`rpq.language.readings`)."""
    readings = getattr(query, "readings", None)
    return (query.window,) if readings is None else tuple(reading.window for reading in readings)


def lengths_of(query: Any) -> tuple[tuple[AnyWindow, ...], tuple[tuple[str, int | str], ...]]:
    """Return the windows of a query and its other lengths of time, each a name and a number or the text of a duration."""
    return windows_of(query), tuple(getattr(query, "time_lengths", ()))


class _Length(NamedTuple):
    """A window, or another length of time, of a query."""

    query: str
    name: str
    text: str
    is_measured: bool


def _named_lengths(query: Any) -> list[_Length]:
    """Return the lengths of a query; count windows and unbounded ones have none."""
    windows, lengths = lengths_of(query)
    timed = [window for window in windows if isinstance(window, Window)]
    return [
        *(_Length(query.name, "the window", f"{window}", window.unit is not None) for window in timed),
        *(_Length(query.name, name, f"{length!r}", isinstance(length, str)) for name, length in lengths),
    ]


@dataclass(frozen=True, kw_only=True)
class StreamTime:
    """The kind of time in one stream, as far as it is known; methods return the same object, or one with further knowledge.

    `unit` is what the engine was given, `has_durations` whether its windows are durations (None: it has none), `grain` the
    largest length, in nanoseconds, of which all slides, and the times of `hold`, are multiples, `type` the Arrow type of the
    timestamps of rows (None before the first), `has_zone` whether times have a zone.
    """

    unit: str | None = None
    has_durations: bool | None = None
    grain: int = 0
    type: pa.DataType | None = None
    has_zone: bool | None = None

    def __post_init__(self) -> None:
        if self.unit not in (None, *TIME_UNITS):
            raise QueryError(f"time_unit is one of {', '.join(TIME_UNITS)}, or None, not {self.unit!r}")

    @property
    def inner_unit(self) -> str:
        """The unit of the integers that dates and times become."""
        return self.unit or "ns"

    @cached_property
    def is_of_numbers(self) -> bool:
        """True if timestamps are known to be plain numbers, and rows have such."""
        return self.type == NUMBER

    # --- queries ---------------------------------------------------------------------------------------------

    def with_queries(self, queries: Collection[WindowedQuery]) -> StreamTime:
        """Return the stream time with these queries alone.

        Raises `QueryError` where their windows do not fit together, or to the stream.
        """
        timed = [length for query in queries for length in _named_lengths(query)]  # other windows go with any unit
        measured = [length for length in timed if length.is_measured]
        plain = [length for length in timed if not length.is_measured]
        if self.unit is None and measured:
            durations = f"{measured[0].name} of query {measured[0].query!r} is in durations ({measured[0].text})"
            if plain:
                that = "that" if plain[0].name == measured[0].name else plain[0].name
                raise QueryError(
                    f"{durations}, {that} of {plain[0].query!r} in plain numbers ({plain[0].text}): give both in "
                    'durations, or tell the engine in which unit the numbers are: rpq.Engine(…, time_unit="s")'
                )
            if self.type == NUMBER:
                raise QueryError(f"{durations}, but the timestamps of this stream are plain numbers: {self._numbers_hint()}")
        if self.unit is None and plain and self.type is not None and self.type != NUMBER:
            raise QueryError(
                f"{plain[0].name} of query {plain[0].query!r} is in plain numbers ({plain[0].text}), but the timestamps "
                f"of this stream are dates or times: {_WRITE}"
            )
        per = NANOSECONDS[self.inner_unit]
        resolved = [self.resolve(query) for query in queries]
        slides = [window.slide for query in resolved for window in windows_of(query) if isinstance(window, Window)]
        holds = [hold for query in resolved if (hold := getattr(query, "hold", None)) is not None]
        grain = gcd(*(length * per for length in (*slides, *holds)))
        stream_time = replace(self, has_durations=bool(measured) if timed else None, grain=grain)
        return stream_time if self.type is None else replace(stream_time, type=stream_time._refine_type(self.type))

    def resolve(self, query: _Query) -> _Query:
        """Return a query whose windows, and other lengths of time, are in the integers of this stream.

        Raises `QueryError` where one is no whole number of these.

        A query with `readings` or other lengths has a method `in_unit`, which converts it to s, ms, us or ns.
        """
        windows, lengths = lengths_of(query)
        is_plain = all(window.unit is None for window in windows) and not any(isinstance(one, str) for _, one in lengths)
        if is_plain and (self.unit is None or not getattr(query, "reads_report_time", False)):
            return query
        if hasattr(query, "in_unit"):
            resolved: _Query = query.in_unit(self.inner_unit)
            return resolved
        return query.over(query.window.in_unit(self.inner_unit))

    # --- in --------------------------------------------------------------------------------------------------

    def with_type(self, time_type: pa.DataType) -> StreamTime:
        """Return the stream time after timestamps of a type. Raises `InputError` if they contradict those before."""
        if time_type == self.type or (self.is_of_numbers and pa.types.is_integer(time_type)):
            return self
        if pa.types.is_integer(time_type):
            if self.unit is not None or (self.type is None and not self.has_durations):
                return self if self.type is not None else replace(self, type=NUMBER)
            if self.type is not None:
                raise _timestamp_error(f"these are plain numbers, and those before were {_noun_of(self.type)}")
            raise _timestamp_error(f"these are plain numbers, and windows are in durations: {self._numbers_hint()}")
        if not (pa.types.is_timestamp(time_type) or pa.types.is_date(time_type)):
            raise _timestamp_error(f"it is of type {time_type}; timestamps are integers, or dates or times")
        if self.unit is None and self.type == NUMBER:
            raise _timestamp_error(f"these are {_noun_of(time_type)}, and those before were plain numbers")
        if self.unit is None and self.has_durations is False:
            raise _timestamp_error(
                f"these are {_noun_of(time_type)}, and windows are in plain numbers: {_WRITE}, or tell the engine in which "
                'unit they are: rpq.Engine(…, time_unit="s")'
            )
        zone = time_type.tz if pa.types.is_timestamp(time_type) else None
        zoned = zone is not None
        if self.has_zone is not None and self.has_zone != zoned:
            words = ("with a time zone", "without") if zoned else ("without a time zone", "with one")
            raise _timestamp_error(
                f"these are {_noun_of(time_type)} {words[0]}, and those before were {words[1]}: give all of them a zone "
                "(value.replace(tzinfo=datetime.UTC), if they are in UTC), or none"
            )
        if zone is not None and self.has_zone is None:
            _check_zone(zone)
        if self.type is None:
            return replace(self, type=self._refine_type(time_type), has_zone=zoned)
        if self.has_zone == zoned and (self.type == NUMBER or self._refine_type(self.type, time_type) == self.type):
            return self
        finer = self.type if self.type == NUMBER else self._refine_type(self.type, time_type)
        return replace(self, type=finer, has_zone=zoned)

    def integers(self, moments: pa.Array) -> tuple[np.ndarray, int | None]:
        """Return dates or times without nulls as integers of the stream, rounded down, and the first misfit row."""
        own = _unit_of(moments.type)
        if pa.types.is_date32(moments.type):
            numbers = numpy_array(moments.view(pa.int32())).astype(np.int64)
        else:
            numbers = numpy_array(moments.view(NUMBER))
        ours = NANOSECONDS[self.inner_unit]
        if own >= ours:
            factor = own // ours
            if factor == 1:
                return numbers, None
            outside = (numbers > INT64_MAX // factor) | (numbers < -(INT64_MAX // factor))
            return numbers * factor, int(np.argmax(outside)) if outside.any() else None
        return numbers // (ours // own), None

    # --- out -------------------------------------------------------------------------------------------------

    @property
    def column_type(self) -> pa.DataType:
        """The Arrow type of columns of timestamps."""
        return NUMBER if self.type is None else self.type

    def column(self, times: np.ndarray) -> pa.Array:
        """Return integers of the stream as an array of its type."""
        if self.type is None or self.type == NUMBER:
            return arrow_array(times)
        ours, own = NANOSECONDS[self.inner_unit], _unit_of(self.type)
        if own < ours and len(times) and max(-int(times.min()), int(times.max())) > INT64_MAX // (ours // own):
            # Finer times came later than these, which no longer fit into the unit that those made necessary.
            return arrow_array(times).view(pa.timestamp(self.inner_unit, self.type.tz))
        numbers = times // (own // ours) if own >= ours else times * (ours // own)
        if pa.types.is_date32(self.type):
            return arrow_array(numbers.astype(np.int32)).view(self.type)
        return arrow_array(numbers).view(self.type)

    def to_timestamp(self, time: int | None) -> Any:
        """Return one time of the stream as the type that came in: an integer, or a date or time."""
        if time is None or self.type is None or self.type == NUMBER:
            return time
        return python_values(self.column(np.array([time], np.int64)))[0]

    def to_integer(self, timestamp: Any) -> int | None:
        """Return a timestamp of the stream, or its text, as an integer, as `to_timestamp` takes it; None for anything else.

        >>> StreamTime().to_integer(7), StreamTime().to_integer("7"), StreamTime().to_integer("noon")
        (7, 7, None)
        """
        kind = NUMBER if self.type is None else self.type
        try:
            moments = pa.array([timestamp]).cast(kind) if isinstance(timestamp, str) else pa.array([timestamp], kind)
        except (pa.ArrowException, OverflowError):
            return None
        if moments.null_count:
            return None
        return int(moments[0].as_py()) if kind == NUMBER else int(self.integers(moments)[0][0])

    # --- saved states ----------------------------------------------------------------------------------------

    def to_json(self, queries: Collection[WindowedQuery]) -> dict[str, Any]:
        """Return the kind of the timestamps, and whether windows are durations, as JSON values."""
        kind, step, zone = None, None, None
        if self.type is not None:
            kind = "number" if self.type == NUMBER else "date" if pa.types.is_date32(self.type) else "time"
        if self.type is not None and kind == "time":
            step, zone = self.type.unit, self.type.tz
        windows = ((query.name, query.window) for query in queries if not hasattr(query, "original"))
        durations = {name: [one.size, one.slide] for name, one in windows if isinstance(one, Window) and one.unit}
        lengths_by_query = ((query.name, lengths_of(query)[1]) for query in queries)
        in_durations = {
            query: {name: nanoseconds_of(length) for name, length in lengths if isinstance(length, str)}
            for query, lengths in lengths_by_query
        }
        lengths = {query: by_name for query, by_name in in_durations.items() if by_name}
        return {
            "unit": self.unit,
            "kind": kind,
            "step": step,
            "zone": zone,
            "zoned": self.has_zone,
            "durations": durations,
            "lengths": lengths,
        }

    @classmethod
    def from_json(cls, described: dict[str, Any], running: Collection[_Query]) -> tuple[StreamTime, dict[str, _Query]]:
        """Return the stream time that `to_json` described, and the queries that run as they were given, by name.

        Raises `ValueError` if `described` cannot come from `to_json`.
        """
        try:
            windows = {
                name: Window(size=size, slide=slide, unit="ns") for name, (size, slide) in described["durations"].items()
            }
            kinds = {None: None, "number": NUMBER, "date": pa.date32()}
            is_time = described["kind"] == "time"
            time_type = pa.timestamp(described["step"], described["zone"]) if is_time else kinds[described["kind"]]
            original: dict[str, Any] = {query.name: getattr(query, "original", query) for query in running}
            original |= {name: original[name].over(window) for name, window in windows.items()}
            for name, lengths in described["lengths"].items():
                original[name] = original[name].with_lengths({one: duration_text(size) for one, size in lengths.items()})
            stream_time = cls(unit=described["unit"], type=time_type, has_zone=described["zoned"])
            stream_time = stream_time.with_queries(original.values())
            fits = all(stream_time.resolve(query) == one for query, one in zip(original.values(), running, strict=True))
            if is_time and described["zone"] is not None:
                _check_zone(described["zone"])
        except (KeyError, TypeError, AttributeError, QueryError, InputError) as problem:
            raise ValueError(f"its times are not understood: {problem!r}") from problem
        zoned = {None: (None,), "number": (None, False, True), "date": (False,), "time": (described["zone"] is not None,)}
        if not fits or stream_time.has_zone not in zoned[described["kind"]]:
            raise ValueError("its times do not fit to its queries")
        return stream_time, original

    # --- inside ----------------------------------------------------------------------------------------------

    def _refine_type(self, time_type: pa.DataType, input_type: pa.DataType | None = None) -> pa.DataType:
        """Return `time_type`, or a finer type if times of `input_type` or the boundaries of the slides need one."""
        if time_type == NUMBER:
            return time_type
        needed = _unit_of(time_type)
        if input_type is not None:
            needed = min(needed, max(_unit_of(input_type), NANOSECONDS[self.inner_unit]))
        if needed == _DAY and self.grain % _DAY == 0 and (input_type is None or pa.types.is_date(input_type)):
            return pa.date32()
        needed = min(needed, NANOSECONDS["s"])
        unit = next(unit for unit in TIME_UNITS if NANOSECONDS[unit] <= needed and self.grain % NANOSECONDS[unit] == 0)
        return pa.timestamp(unit, time_type.tz if pa.types.is_timestamp(time_type) else None)

    def _numbers_hint(self) -> str:
        return (
            'tell the engine in which unit the timestamps are, rpq.Engine(…, time_unit="s"), or give windows in the same '
            "plain numbers, rpq.Window(size=30, slide=1)"
        )


def python_values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Return the values of a column as Python's; times that `datetime` cannot hold as `numpy.datetime64`, zones in UTC.

    Nanoseconds are those of `pandas.Timestamp` where pandas is installed.
    """
    try:
        return column.to_pylist()
    except (ValueError, OverflowError):
        if not pa.types.is_timestamp(column.type):
            raise
        return list(column.cast(NUMBER).to_numpy().view(f"M8[{column.type.unit}]"))


def _unit_of(kind: pa.DataType) -> int:
    """Return the nanoseconds of one step of the integers of a type of dates or times."""
    if pa.types.is_date32(kind):
        return _DAY
    return NANOSECONDS[kind.unit]


def _noun_of(kind: pa.DataType) -> str:
    return "dates" if pa.types.is_date(kind) else "times"


def _timestamp_error(what: str) -> InputError:
    return InputError(f"column 'timestamp': {what}", column="timestamp")


def _check_zone(zone: str) -> None:
    try:
        pa.array([0], pa.timestamp("s", zone)).to_pylist()
    except (KeyError, ValueError, OSError) as problem:
        raise _timestamp_error(f"these are in the time zone {zone!r}, which is not known here") from problem


# --- how far a tuple may be ahead of the stream time -----------------------
#
# One timestamp in milliseconds among seconds moves the stream time by fifty thousand years: every window is empty then, and
# all that follows is late. With a limit such a tuple is a bad one (S13), and moves nothing.

_TIMES = re.compile(r"\s*([0-9]{1,18})\s*x\s*", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class MaxAhead:
    """The limit that the user gave as `value`.

    It is a `length` in the stream's unit or nanoseconds, or a number of `times` the longest window.

    >>> MaxAhead.of("1000x").times, MaxAhead.of("1d").length, MaxAhead.of(500).length
    (1000, 86400000000000, 500)
    """

    value: Any
    length: int = 0
    is_duration: bool = False
    times: int | None = None

    @classmethod
    def of(cls, limit: Any) -> Self | None:
        """Return the limit that a number, a duration or a text such as 1000x says; None for no limit.

        Raises `QueryError`.
        """
        if limit is None:
            return None
        if isinstance(limit, str) and (found := _TIMES.fullmatch(limit)) is not None and int(found[1]):
            return cls(value=limit, times=int(found[1]))
        is_duration = True
        try:
            length = nanoseconds_of(limit)
        except DurationError as problem:
            if isinstance(limit, (bool, str)) or not hasattr(limit, "__index__") or type(limit).__name__ == "timedelta64":
                expected = "a whole number of time units, a duration, or 1000x, a thousand times the longest window"
                raise QueryError(f"max_ahead is {expected}: {problem}") from problem
            length, is_duration = limit.__index__(), False
        if not 0 < length <= INT64_MAX:
            raise QueryError(f"max_ahead must be positive and fit into 64 bits, not {limit!r}")
        return cls(value=limit, length=length, is_duration=is_duration)

    def limit(self, times: StreamTime, windows: Iterable[AnyWindow]) -> int | None:
        """Return the limit in the integers of a stream, whose windows are these; None where none of them is of time.

        Raises `QueryError` if it does not fit the stream.
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

    def check_timestamps(self, times: StreamTime) -> None:
        """Raise `InputError` if timestamps turn out to be of a kind that the limit does not fit."""
        if (unfit := self.misfit(times)) is not None:
            raise InputError(f"column 'timestamp': {unfit}", column="timestamp")

    def misfit(self, times: StreamTime) -> str | None:
        """Return the reason why the limit does not fit the timestamps or windows of a stream; None if it does."""
        if self.times is not None or times.unit is not None:
            return None
        has_numbers = times.has_durations is False or times.is_of_numbers
        if self.is_duration and has_numbers:
            return (
                f"max_ahead is a duration ({self.value!r}), and the timestamps of this stream are plain numbers: give it in "
                'the same numbers, or tell the engine in which unit they are: rpq.Engine(…, time_unit="s")'
            )
        if not self.is_duration and (times.has_durations or (times.type is not None and not times.is_of_numbers)):
            return (
                f"max_ahead is a plain number ({self.value!r}), and the timestamps of this stream are dates or times: write "
                'a duration, as in max_ahead="1d"'
            )
        return None


class AheadLimit(NamedTuple):
    """The limit for tuples that come at the stream `time`, None before the first one: at most `longest` ahead of it."""

    max_ahead: MaxAhead
    longest: int
    time: int | None

    def first_ahead(self, timestamp: np.ndarray) -> tuple[int, int] | None:
        """Return the first row that is too far ahead, and the stream time before it; None where all may come.

        The first tuple of a stream is ahead of nothing. O(rows).
        """
        now = int(timestamp[0]) if self.time is None else self.time
        if int(timestamp.max()) - now <= self.longest:
            return None
        before = np.empty_like(timestamp)
        before[0] = now
        np.maximum.accumulate(timestamp[:-1], out=before[1:])
        np.maximum(before, now, out=before)
        ahead = (before <= INT64_MAX - self.longest) & (timestamp > before + self.longest)
        row = int(np.argmax(ahead))
        return (row, int(before[row])) if ahead[row] else None

    def reason(self, timestamp: int, before: int, times: StreamTime) -> str:
        """Return the message about a timestamp that is too far ahead of this stream time."""
        of_time = times.unit is not None or (times.type is not None and not times.is_of_numbers)
        limit_text = duration_text(self.longest * NANOSECONDS[times.inner_unit]) if of_time else str(self.longest)
        times_longest = f", {self.max_ahead.times:,} times the longest window" if self.max_ahead.times is not None else ""
        time, now = (_format_time(times, number) for number in (timestamp, before))
        return (
            f"{time} is further ahead of the stream time, {now}, than max_ahead allows ({limit_text}{times_longest}): "
            "expected a timestamp in the unit of those before"
        )


def _format_time(times: StreamTime, number: int) -> str:
    """Return a time as text, whichever years it is in."""
    if times.type is None or times.is_of_numbers:
        return str(number)
    return str(times.column(np.array([number]))[0].cast(pa.string()))


# --- timestamps as integers ---------------------------------------------------------------------------------

EARLIEST = -(2**63) + 1
"""The smallest timestamp; the one below it means "never" inside the engine."""

_COARSER = {"ns": "us", "us": "ms", "ms": "s", "s": "s"}


def timestamps_as_integers(
    column: Any, times: StreamTime, latest: int, problems: list[InputError], *, end: int | None = None, alike: bool = False
) -> tuple[np.ndarray, StreamTime]:
    """Return timestamps as integers, and the kind of time after them.

    `end` is the row at which tuples end for other reasons: later rows tell nothing about the stream's time. With `alike`,
    the values of a list are not divided by their kinds. Wrong values are added to `problems`. Raises `InputError` for a
    column that does not fit the stream at all.
    """
    count, mistakes = len(column), len(problems)
    if isinstance(column, list):
        taken = timestamps_of(column)
        if times.unit is not None and not alike and taken[1] is not None and taken[1].is_of_other_kind:
            return _read_mixed_times(column, times, latest, problems, count if end is None else end)
        array = padded_to_length(taken, count, "timestamp", problems)
    else:
        array = column
    if pa.types.is_null(array.type) and count:
        add_problem(problems, 0, "timestamp", MISSING)
    if count == 0 or any(one.row == 0 for one in problems[mistakes:]):
        return np.zeros(count, np.int64), times
    times = times.with_type(array.type)
    if pa.types.is_integer(array.type):
        array = fill_nulls(array, "timestamp", 0, problems)
        array = to_int64(array, "timestamp", problems) if pa.types.is_uint64(array.type) else cast(array, NUMBER)
        numbers = numpy_array(array)
    else:
        epoch = pa.array([0], pa.int32() if pa.types.is_date(array.type) else NUMBER).view(array.type)
        array = fill_nulls(array, "timestamp", epoch[0], problems) if array.null_count else array
        numbers, outside = times.integers(array)
        if outside is not None:
            unit = times.inner_unit
            coarser = _COARSER[unit]
            add_problem(
                problems,
                outside,
                "timestamp",
                f"{array[outside]} does not fit into 64 bits in the unit {unit} of the engine; "
                f"rpq.Engine(…, time_unit={coarser!r}) holds more",
            )
    if numbers[numbers.argmin()] < EARLIEST:  # a tenth of the time of `min`, which matters for few tuples
        add_problem(
            problems, int(np.argmin(numbers)), "timestamp", f"{EARLIEST - 1} is too small; at least {EARLIEST} is possible"
        )
    if numbers[numbers.argmax()] > latest:
        row = int(np.argmax(numbers > latest))
        time, last = (short_repr(times.to_timestamp(int(number))) for number in (numbers[row], latest))
        reason = f"{time} and the size of the window exceed 64 bits; at most {last} is possible"
        add_problem(problems, row, "timestamp", reason)
    return np.array(numbers), times  # Arrow's are read-only, which is another type to the kernels


def _read_mixed_times(
    values: list[Any], times: StreamTime, latest: int, problems: list[InputError], end: int
) -> tuple[np.ndarray, StreamTime]:
    """Return timestamps like `timestamps_as_integers`, of plain numbers and times in one list, which a unit allows.

    The result is that of pushing them one by one: the first value determines the type of the rows.
    """
    places: dict[int | None, list[int]] = {}
    for place, value in enumerate(values[:end]):
        places.setdefault(kind_of_timestamp(value), []).append(place)
    numbers = np.zeros(len(values), np.int64)
    for rows in places.values():  # the kind of the first value comes first
        rows = [row for row in rows if row < end]
        if not rows:
            continue
        found: list[InputError] = []
        try:
            some, times = timestamps_as_integers([values[row] for row in rows], times, latest, found, alike=True)
        except InputError as misfit:
            if not rows[0]:
                raise
            add_problem(problems, rows[0], "timestamp", misfit.message.removeprefix("column 'timestamp': "))
            end = rows[0]
            continue
        numbers[rows] = some
        for one in found:
            place = rows[one.row or 0]
            message = one.message.removeprefix(f"row {one.row}: ")
            problems.append(InputError(f"row {place}: {message}", row=place, column="timestamp"))
            end = min(end, place)
    return numbers, times


def report_steps(report: Literal["slide", "time"], windows: Iterable[AnyWindow]) -> tuple[int, ...]:
    """Return the steps of the reports of a query over some windows: the slides of those of time, or every unit of time.

    >>> report_steps("slide", [Window(size=9, slide=3), Window(size=3, slide=2), Window(size=3, slide=3)])
    (2, 3)
    """
    return (1,) if report == "time" else tuple(sorted({window.slide for window in windows if isinstance(window, Window)}))


def report_times(times: np.ndarray, steps: Sequence[int]) -> np.ndarray:
    """Return the times of the reports that cover changes at some times: the next multiples of a step, or the times.

    Beyond the last multiple that fits into 64 bits, which no stream time exceeds, reports have the largest time.

    >>> report_times(np.array([0, 1, 3, 5]), (2, 3)).tolist()
    [0, 2, 3, 6]
    """
    next_times = []
    for step in steps:
        into = times % step
        floor = times - into
        late = floor > INT64_MAX - step
        next_times.append(np.where(into == 0, times, np.where(late, INT64_MAX, floor + np.where(late, 0, step))))
    return next_times[0] if len(next_times) == 1 else np.minimum.reduce(next_times)


def report_boundaries(first: int, end: int, steps: Sequence[int]) -> np.ndarray:
    """Return the multiples of any of some steps that are at least `first` and less than `end`.

    >>> report_boundaries(1, 7, (2, 3)).tolist()
    [2, 3, 4, 6]
    """
    return np.unique(np.concatenate([np.arange(first + -first % step, end, step) for step in steps]))


def report_boundary(time: int, steps: Sequence[int]) -> int:
    """Return the first multiple of any of some steps from a time on.

    >>> [report_boundary(time, (2, 3)) for time in (1, 3, 5, 7)]
    [2, 3, 6, 8]
    """
    return min(time + -time % step for step in steps)
