"""Windows: the part of a stream that a query reads, by time, by number, or all of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, ClassVar, Literal

from rpq.errors import QueryError
from rpq.stream.durations import NANOSECONDS, DurationError, duration_text, nanoseconds_of, parse_duration

if TYPE_CHECKING:
    import numpy as np

INT64_MAX = 2**63 - 1
_LARGEST_COUNT = 2**56


@dataclass(frozen=True, init=False, repr=False)
class Window:
    """A time-based sliding window of `size` that moves every `slide`: both plain numbers, or both durations.

    Numbers are whole and in the unit of the stream's timestamps. Durations are text ("30d", "10m" (minutes), "1.5h",
    "500ms"; units ns, us, ms, s, m, h, d, w), `datetime.timedelta`, and those of numpy and pandas; they go with
    timestamps that are dates or times, or with an engine that has the `time_unit` of its timestamps.
    Durations are stored in nanoseconds, with "ns" as `unit`, which otherwise is None. Raises `QueryError`.

    At stream time τ the window holds the edges with timestamp > ⌊τ/slide⌋·slide − size (Pacaci et al. 2020, definition
    5). Slides are multiples of `slide` counted from 0 (1970 in UTC, for dates and times), not from the first tuple;
    `size` need be no multiple of `slide` and may be smaller.

    >>> Window(size=30, slide=7).lower_bound(time=40)
    5
    >>> Window(size="2w", slide=timedelta(days=1))
    Window(size='14d', slide='1d')
    """

    size: int
    slide: int
    unit: Literal["ns"] | None
    kind: ClassVar[Literal["time"]] = "time"

    def __init__(
        self,
        *,
        size: int | str | timedelta | np.timedelta64,
        slide: int | str | timedelta | np.timedelta64,
        unit: Literal["ns"] | None = None,
    ) -> None:
        if unit not in (None, "ns"):
            raise QueryError(f"""the unit of a window is None or "ns", not {unit!r}; write Window(size="30d", slide="1d")""")
        lengths = {name: _length(name, value) for name, value in (("size", size), ("slide", slide))}
        if unit is None and len({measured for _, measured in lengths.values()}) > 1:
            raise QueryError(
                f"size and slide of a window are both plain numbers or both durations, not {size!r} and {slide!r}"
            )
        is_duration = unit is not None or lengths["size"][1]
        for name, (value, _) in lengths.items():
            if value <= 0 or (value > INT64_MAX and not is_duration):
                value_text = duration_text(value) if is_duration else value
                raise QueryError(f"the {name} of a window must be positive and fit into 64 bits, not {value_text}")
            object.__setattr__(self, name, value)
        object.__setattr__(self, "unit", "ns" if is_duration else None)

    def __repr__(self) -> str:
        return f"Window(size={self.text('size')}, slide={self.text('slide')})"

    def text(self, name: Literal["size", "slide"]) -> str:
        """Return the size or the slide as one would write it: `30` or `'30d'`.

        >>> Window(size=30, slide=1).text("size"), Window(size="720h", slide="1h").text("size")
        ('30', "'30d'")
        """
        value: int = getattr(self, name)
        return str(value) if self.unit is None else repr(duration_text(value))

    def in_unit(self, unit: str) -> Window:
        """Return the same window in plain numbers of a stream's time unit (s, ms, us or ns). Raises `QueryError`.

        >>> Window(size="30d", slide="1d").in_unit("s")
        Window(size=2592000, slide=86400)
        """
        if self.unit is None:
            return self
        for name, value in (("size", self.size), ("slide", self.slide)):
            if value % NANOSECONDS[unit]:
                finer = next(one for one in ("s", "ms", "us", "ns") if value % NANOSECONDS[one] == 0)
                raise QueryError(
                    f"the {name} of a window, {duration_text(value)}, is no whole number of {unit}; "
                    f"give the engine a finer unit: time_unit={finer!r}"
                )
            if value // NANOSECONDS[unit] > INT64_MAX:
                coarser = next(one for one in ("us", "ms", "s") if value // NANOSECONDS[one] <= INT64_MAX or one == "s")
                raise QueryError(
                    f"the {name} of a window, {duration_text(value)}, does not fit into 64 bits in the unit {unit}; "
                    f"give the engine a coarser one: time_unit={coarser!r}"
                )
        return Window(size=self.size // NANOSECONDS[unit], slide=self.slide // NANOSECONDS[unit])

    @property
    def reach(self) -> int:
        """The time after its timestamp at which an edge leaves, up to a slide.

        >>> Window(size=30, slide=7).reach
        30
        """
        return self.size

    def slide_number(self, time: int) -> int:
        """Return the number of the slide in which `time` lies: ⌊time/slide⌋.

        >>> Window(size=30, slide=7).slide_number(-1)
        -1
        """
        return time // self.slide

    def lower_bound(self, time: int) -> int:
        """Return the time after which edges are in the window at stream time `time`.

        >>> Window(size=30, slide=7).lower_bound(time=42)
        12
        """
        return self.slide_number(time) * self.slide - self.size

    def expiry_slide(self, timestamp: int) -> int:
        """Return the number of the slide at which an edge leaves the window: ⌈(timestamp + size)/slide⌉.

        >>> window = Window(size=30, slide=7)
        >>> window.expiry_slide(5), window.lower_bound(time=5 * 7)
        (5, 5)
        """
        return -(-(timestamp + self.size) // self.slide)


@dataclass(frozen=True, kw_only=True)
class CountWindow:
    """The last `size` inserts that a query meets, moving at every `step`-th of them.

    The inserts whose labels the query reads are numbered 1, 2, …; the insert of an edge that is in the window gives it the
    new number; deletes have none. After insert N the window holds the edges with numbers > ⌊N/step⌋·step − size: it is a
    `Window` over these numbers. An edge is evicted by the insert that moves the window past it, as one event with that
    insert; time moves nothing, and nothing is late. Both are plain whole numbers, at least 1. Raises `QueryError`.

    >>> CountWindow(size=1000, step=10).lower_bound(1005)
    0
    >>> CountWindow(size=3)
    CountWindow(size=3, step=1)
    """

    size: int
    step: int = 1
    kind: ClassVar[Literal["count"]] = "count"
    unit: ClassVar[None] = None

    def __post_init__(self) -> None:
        for name in ("size", "step"):
            value = getattr(self, name)
            if isinstance(value, bool) or not hasattr(value, "__index__"):
                raise QueryError(f"the {name} of a count window is a whole number of inserts, not {value!r}")
            number = value.__index__()
            if not 0 < number <= _LARGEST_COUNT:
                raise QueryError(f"the {name} of a count window is a number of inserts from 1 to 2^56, not {number}")
            object.__setattr__(self, name, number)

    def in_unit(self, unit: str) -> CountWindow:
        """Return the same window: it has no time, and so no unit of time.

        >>> CountWindow(size=3).in_unit("s")
        CountWindow(size=3, step=1)
        """
        return self

    @property
    def reach(self) -> int:
        """The time after its timestamp at which an edge leaves: 0, because the window does not depend on time.

        >>> CountWindow(size=3).reach
        0
        """
        return 0

    @property
    def numbers(self) -> Window:
        """The same window over the numbers of inserts, as if they were times.

        >>> CountWindow(size=1000, step=10).numbers
        Window(size=1000, slide=10)
        """
        return Window(size=self.size, slide=self.step)

    def lower_bound(self, number: int) -> int:
        """Return the number above which the window holds edges after insert `number`.

        >>> CountWindow(size=3, step=2).lower_bound(5)
        1
        """
        return number // self.step * self.step - self.size


@dataclass(frozen=True, kw_only=True)
class UnboundedWindow:
    """Every edge since the beginning of the stream: an edge leaves only by a delete, and nothing is late.

    >>> UnboundedWindow()
    UnboundedWindow()
    """

    kind: ClassVar[Literal["unbounded"]] = "unbounded"
    unit: ClassVar[None] = None

    def in_unit(self, unit: str) -> UnboundedWindow:
        """Return the same window: it has no time, and so no unit of time.

        >>> UnboundedWindow().in_unit("s")
        UnboundedWindow()
        """
        return self

    @property
    def reach(self) -> int:
        """The time after its timestamp at which an edge leaves: 0, because the window does not depend on time.

        >>> UnboundedWindow().reach
        0
        """
        return 0


AnyWindow = Window | CountWindow | UnboundedWindow
"""The windows that a query can have."""


def _length(name: str, value: object) -> tuple[int, bool]:
    """Return a size or slide, and whether it is a duration (in nanoseconds)."""
    try:
        return nanoseconds_of(value), True
    except DurationError as problem:
        if isinstance(value, (str, timedelta)) or type(value).__name__ == "timedelta64":
            raise QueryError(f"the {name} of a window: {problem}") from problem
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise QueryError(
            f"the {name} of a window is a whole number of time units, or a duration such as '30d' or "
            f"datetime.timedelta(days=30), not {value!r}"
        )
    return value.__index__(), False


# --- windows as text: `30d` with a slide, `count:1000` with a step or none, `unbounded` ---------------------

COUNT = "count:"
UNBOUNDED = "unbounded"


class WindowTextError(QueryError):
    """A window that is not understood; `field` tells whether it is its size ("window") or its "slide"."""

    def __init__(self, message: str, *, field: Literal["window", "slide"], is_missing: bool = False) -> None:
        super().__init__(message)
        self.field = field
        self.is_missing = is_missing


def kind_of_text(window: int | str) -> Literal["time", "count", "unbounded"]:
    """Return the kind of window that a text describes.

    >>> [kind_of_text(text) for text in ("30d", 30, "count:1000", "unbounded")]
    ['time', 'time', 'count', 'unbounded']
    """
    if isinstance(window, str) and window.strip().startswith(COUNT):
        return "count"
    return "unbounded" if isinstance(window, str) and window.strip() == UNBOUNDED else "time"


def window_of(
    window: int | str | None, slide: int | str | None, *, unit: str | None, durations: bool = False
) -> AnyWindow:
    """Parse a window given as texts or plain numbers, over a stream whose timestamps have this unit, or none.

    Without a unit, durations remain durations if `durations` are allowed, else they are refused. Raises `WindowTextError`.

    >>> window_of("30d", "1d", unit="s"), window_of("count:1000", None, unit=None), window_of("unbounded", None, unit="s")
    (Window(size=2592000, slide=86400), CountWindow(size=1000, step=1), UnboundedWindow())
    """
    if window is None:
        raise WindowTextError("is missing", field="window", is_missing=True)
    kind = kind_of_text(window)
    if kind == "unbounded":
        if slide is not None:
            raise WindowTextError(f"a window without bounds does not slide; leave out {slide!r}", field="slide")
        return UnboundedWindow()
    if kind == "count":
        inserts = _inserts(str(window).strip().removeprefix(COUNT), str(window), "window")
        every = 1 if slide is None else slide if isinstance(slide, int) else _inserts(slide, slide, "slide")
        if every < 1:
            raise WindowTextError(f"the step of a count window is positive, not {slide!r}", field="slide")
        return CountWindow(size=inserts, step=every)
    if slide is None:
        raise WindowTextError("is missing", field="slide", is_missing=True)

    def length(value: int | str, field: Literal["window", "slide"]) -> int | str:
        is_duration = unit is None and durations and isinstance(value, str) and not value.strip().isdigit()
        return value if is_duration else length_of(value, unit=unit, field=field)

    size, step = length(window, "window"), length(slide, "slide")
    try:
        return Window(size=size, slide=step)
    except QueryError as error:
        raise WindowTextError(str(error), field="window") from error


def size_and_slide(window: AnyWindow) -> tuple[int | str, int | None]:
    """Return the size and the slide of which `window_of` makes a window, in the stream's unit.

    >>> windows = Window(size=30, slide=1), CountWindow(size=1000, step=10), UnboundedWindow()
    >>> tuple(map(size_and_slide, windows))
    ((30, 1), ('count:1000', 10), ('unbounded', None))
    """
    match window:
        case CountWindow(size=size, step=step):
            return f"{COUNT}{size}", step
        case UnboundedWindow():
            return UNBOUNDED, None
        case _:
            return window.size, window.slide


def length_of(value: int | str, *, unit: str | None, field: Literal["window", "slide"]) -> int:
    """Return the size or the slide of a window of time in the stream's unit. Raises `WindowTextError`.

    >>> length_of("1.5h", unit="s", field="window")
    5400
    """
    if isinstance(value, int):
        return value  # `Window` refuses values that are not positive
    try:
        length = parse_duration(value, unit=unit)
    except DurationError as error:
        raise WindowTextError(str(error), field=field) from error
    if length <= 0:
        raise WindowTextError(f"a length of time must be positive, not {value!r}", field=field)
    return length


def _inserts(number: str, text: str, field: Literal["window", "slide"]) -> int:
    number = number.strip()
    if not (number.isascii() and number.isdigit()) or len(number) > 18 or not int(number):
        what = "count:1000, the last 1000 inserts" if field == "window" else "10, to move at every tenth insert"
        raise WindowTextError(f"{text!r} is no number of inserts: expected such as {what}", field=field)
    return int(number)
