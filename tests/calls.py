"""Work counted instead of timed: what a busy machine cannot change."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Calls:
    """The number of function calls of a block of code."""

    count = 0


@contextmanager
def counted_calls() -> Iterator[Calls]:
    """Count the calls of functions, of Python and of C, in the block.

    Loops within one kernel or one function of C count as one call: what is found is work that Python does for each element.

    >>> with counted_calls() as few:
    ...     _ = [abs(number) for number in range(10)]
    >>> with counted_calls() as many:
    ...     _ = [abs(number) for number in range(1_000)]
    >>> many.count - few.count
    990
    """
    calls = Calls()

    def count(frame: FrameType, event: str, argument: object) -> None:
        calls.count += event in ("call", "c_call")

    before, collects = sys.getprofile(), gc.isenabled()
    gc.disable()  # what other tests left behind is not the work of this block
    sys.setprofile(count)
    try:
        yield calls
    finally:
        sys.setprofile(before)
        if collects:
            gc.enable()
