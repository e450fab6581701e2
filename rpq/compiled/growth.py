"""Requests for memory before arrays grow, while an array and its longer copy exist at the same time.

Whoever makes arrays grow sets a guard for the time of it; the functions that allocate longer arrays request their bytes. A
guard that has no room for them raises, and then no array has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import local


class _Guard(local):
    request: Callable[[int], None] | None = None


_guard = _Guard()


@contextmanager
def guarded_growth(guard: Callable[[int], None], *, granted: int = 0) -> Iterator[None]:
    """Call `guard` before arrays grow in this thread, with the number of bytes of all new arrays so far; it may raise.

    The first `granted` bytes need no call.
    """
    taken, outer = 0, _guard.request

    def request_more(size: int) -> None:
        nonlocal taken, granted
        taken += size
        if taken > granted:
            guard(taken)
            granted = taken

    _guard.request = request_more
    try:
        yield
    finally:
        _guard.request = outer


def request(size: int) -> None:
    """Request the bytes of a new array from the guard of this thread, if there is one, which may raise."""
    if _guard.request is not None:
        _guard.request(size)
