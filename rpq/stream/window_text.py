"""Windows as texts say them: `30d` with a slide, `count:1000` with a step or none, `unbounded`."""

from __future__ import annotations

from typing import Literal

from rpq.errors import QueryError
from rpq.stream.durations import DurationError, parse_duration
from rpq.stream.window import AnyWindow, CountWindow, UnboundedWindow, Window

COUNT = "count:"
UNBOUNDED = "unbounded"


class WindowTextError(QueryError):
    """A window that is not understood; `field` tells whether it is its size ("window") or its "slide"."""

    def __init__(self, message: str, *, field: Literal["window", "slide"], is_missing: bool = False) -> None:
        super().__init__(message)
        self.field = field
        self.is_missing = is_missing


def kind_of_text(window: int | str) -> Literal["time", "count", "unbounded"]:
    """Which kind of window a text says.

    >>> [kind_of_text(text) for text in ("30d", 30, "count:1000", "unbounded")]
    ['time', 'time', 'count', 'unbounded']
    """
    if isinstance(window, str) and window.strip().startswith(COUNT):
        return "count"
    return "unbounded" if isinstance(window, str) and window.strip() == UNBOUNDED else "time"


def window_of(
    window: int | str | None, slide: int | str | None, *, unit: str | None, durations: bool = False
) -> AnyWindow:
    """The window that texts (or plain numbers) say, over a stream whose timestamps have this unit, or none.

    Without a unit, lengths of time stay that where `durations` are wanted, and are else refused. Raises `WindowTextError`.

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
        is_kept = unit is None and durations and isinstance(value, str) and not value.strip().isdigit()
        return value if is_kept else length_of(value, unit=unit, field=field)

    size, step = length(window, "window"), length(slide, "slide")
    try:
        return Window(size=size, slide=step)
    except QueryError as error:
        raise WindowTextError(str(error), field="window") from error


def told(window: AnyWindow) -> tuple[int | str, int | None]:
    """What `window_of` makes a window of, in the stream's unit: its size and its slide.

    >>> told(Window(size=30, slide=1)), told(CountWindow(size=1000, step=10)), told(UnboundedWindow())
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
    """The size or the slide of a window of time in the stream's unit. Raises `WindowTextError`.

    >>> length_of("1.5h", unit="s", field="window")
    5400
    """
    if isinstance(value, int):
        return value  # what is not positive the window refuses
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
