"""Sliding windows over stream time."""

from dataclasses import dataclass

from rpq.errors import QueryError

INT64_MAX = 2**63 - 1


@dataclass(frozen=True, kw_only=True)
class Window:
    """A time-based sliding window of `size` time units that moves every `slide`.

    Units are those of the stream's timestamps. At stream time τ the window holds the edges with
    timestamp > ⌊τ/slide⌋·slide − size (Pacaci et al. 2020, definition 5). Slides are multiples of `slide`
    counted from 0, not from the first tuple; `size` need be no multiple of `slide` and may be smaller.

    >>> Window(size=30, slide=7).lower_bound(time=40)
    5
    """

    size: int
    slide: int

    def __post_init__(self) -> None:
        for name in ("size", "slide"):
            value = getattr(self, name)
            if isinstance(value, bool) or not hasattr(value, "__index__"):
                raise QueryError(f"the {name} of a window is a whole number of time units, not {value!r}")
            object.__setattr__(self, name, value.__index__())
            if not 0 < getattr(self, name) <= INT64_MAX:
                raise QueryError(f"the {name} of a window must be positive and fit into 64 bits, not {value}")

    def slide_number(self, time: int) -> int:
        """The number of the slide in which `time` lies: ⌊time/slide⌋.

        >>> Window(size=30, slide=7).slide_number(-1)
        -1
        """
        return time // self.slide

    def lower_bound(self, time: int) -> int:
        """At stream time `time` the window holds the edges with a larger timestamp than this."""
        return self.slide_number(time) * self.slide - self.size

    def expiry_slide(self, timestamp: int) -> int:
        """The number of the slide at which an edge leaves the window: ⌈(timestamp + size)/slide⌉.

        >>> window = Window(size=30, slide=7)
        >>> window.expiry_slide(5), window.lower_bound(time=5 * 7)
        (5, 5)
        """
        return -(-(timestamp + self.size) // self.slide)
