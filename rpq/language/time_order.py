"""The order in time of the edges of a path: each later than the one before, or not earlier, within lengths of time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from rpq.errors import QueryError
from rpq.stream.durations import NANOSECONDS, DurationError, duration_text, nanoseconds_of
from rpq.stream.window import INT64_MAX

if TYPE_CHECKING:
    import numpy as np

Order = Literal["increasing", "non_decreasing"]

LENGTHS = ("max_gap", "max_span")
"""The options that bound an order by lengths of time."""

_MEANINGS = {
    "max_gap": "the largest time between one edge of a path and the next",
    "max_span": "the largest time between the first edge of a path and the last",
    "hold": "the time for which an answer has to hold before it is reported",
}


class TimeLength(NamedTuple):
    """A length of time in a query besides its windows: the name of the option, and a number or a duration as text."""

    name: str
    length: int | str


@dataclass(frozen=True, kw_only=True)
class TimeOrder:
    """An order in time of the edges of a path, with its bounds: numbers of the stream, or durations as text.

    >>> TimeOrder(order="increasing", max_gap="6h").in_unit("s")
    TimeOrder(order='increasing', max_gap=21600, max_span=None)
    """

    order: Order
    max_gap: int | str | None = None
    max_span: int | str | None = None

    @property
    def is_strict(self) -> bool:
        """True if no two consecutive edges may have the same timestamp."""
        return self.order == "increasing"

    @property
    def lengths(self) -> tuple[TimeLength, ...]:
        """The bounds that are set."""
        return tuple(TimeLength(name, length) for name, length in self._bounds if length is not None)

    @property
    def _bounds(self) -> tuple[tuple[str, int | str | None], ...]:
        return ("max_gap", self.max_gap), ("max_span", self.max_span)

    def in_unit(self, unit: str) -> TimeOrder:
        """Return the same order with bounds in plain numbers of a stream's time unit. Raises `QueryError`."""
        gap, span = (None if length is None else length_in_unit(name, length, unit) for name, length in self._bounds)
        return replace(self, max_gap=gap, max_span=span)

    @property
    def text(self) -> str:
        """The order as it stands in the path atom of a pattern.

        >>> TimeOrder(order="non_decreasing", max_gap="1h", max_span="6h").text
        'in non-decreasing order within 6h gap 1h'
        """
        words = ["in order" if self.is_strict else "in non-decreasing order"]
        words += [] if self.max_span is None else [f"within {self.max_span}"]
        words += [] if self.max_gap is None else [f"gap {self.max_gap}"]
        return " ".join(words)


def time_order(
    order: Any = None,
    max_gap: int | str | timedelta | np.timedelta64 | None = None,
    max_span: int | str | timedelta | np.timedelta64 | None = None,
) -> TimeOrder | None:
    """Return the order that options describe, None for no order. Raises `QueryError`.

    >>> time_order("increasing", max_span=timedelta(hours=6))
    TimeOrder(order='increasing', max_gap=None, max_span='6h')
    """
    if order is None:
        for name, length in zip(LENGTHS, (max_gap, max_span), strict=True):
            if length is not None:
                raise QueryError(
                    f'{name}, {_MEANINGS[name]}, is for paths in time order: pass order="increasing" or '
                    f'order="non_decreasing" with it, or leave out {name}'
                )
        return None
    if order not in get_args(Order):
        raise QueryError(f"the order of a path is 'increasing' or 'non_decreasing', or None for no order, not {order!r}")
    return TimeOrder(order=order, max_gap=_length("max_gap", max_gap), max_span=_length("max_span", max_span))


def hold_length(hold: int | str | timedelta | np.timedelta64 | None) -> int | str | None:
    """Return the time for which an answer has to hold as a plain number, or as the text of a duration. Raises `QueryError`.

    >>> hold_length(timedelta(minutes=10)), hold_length(600)
    ('10m', 600)
    """
    length = _length("hold", hold)
    if length == 0 or (isinstance(length, str) and not nanoseconds_of(length)):
        raise QueryError(f"hold is {_MEANINGS['hold']}, and longer than 0: leave it out to report answers at once")
    return length


def length_of_text(text: int | str) -> int | str:
    """Return a bound from a text: a number in the stream's unit if it is one, otherwise the text of a duration.

    >>> length_of_text("500"), length_of_text("6h")
    (500, '6h')
    """
    return int(text) if isinstance(text, str) and text.strip().isdecimal() else text


def length_in_unit(name: str, length: int | str, unit: str) -> int:
    """Return a bound in plain numbers of a stream's time unit. Raises `QueryError` if it is not a whole one."""
    if isinstance(length, int):
        return length
    value = nanoseconds_of(length)
    if value % NANOSECONDS[unit]:
        finer = next(one for one in ("s", "ms", "us", "ns") if value % NANOSECONDS[one] == 0)
        raise QueryError(
            f"{name}={length!r} is no whole number of {unit}; give the engine a finer unit: time_unit={finer!r}"
        )
    return min(value // NANOSECONDS[unit], INT64_MAX)


def _length(name: str, value: object) -> int | str | None:
    """Return a bound as a plain number or as the text of a duration."""
    if value is None:
        return None
    try:
        length = nanoseconds_of(value)
        is_duration = True
    except DurationError as problem:
        if isinstance(value, (str, timedelta)) or type(value).__name__ == "timedelta64":
            raise QueryError(f"{name}: {problem}") from problem
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise QueryError(
                f"{name} is {_MEANINGS[name]}: a whole number of time units, or a duration such as '6h' or "
                f"datetime.timedelta(hours=6), not {value!r}"
            ) from None
        length, is_duration = value.__index__(), False
    if length < 0 or length > INT64_MAX:
        raise QueryError(f"{name} is a length of time from 0 on that fits into 64 bits, not {value!r}")
    return duration_text(length) if is_duration else length
