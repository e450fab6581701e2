"""Ctrl-C and `kill` as a wish to end, not as an exception somewhere in the middle."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType

_SIGNALS = ("SIGINT", "SIGTERM")


class Interrupted(BaseException):
    """The wish to end, while waiting for input.  No `Exception`: nobody on the way is to swallow it."""


class Interrupts:
    """Catches SIGINT and SIGTERM for the time of a `with` block.

    The first one sets `received` and, only if it comes in a `waiting()` block, where nothing can be left half done,
    raises `Interrupted` there.  A second one does what it always does.  Outside of the main thread, where Python
    knows no signals, nothing is caught.
    """

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self._waiting = False
        self._before: dict[int, object] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for name in _SIGNALS:
                if hasattr(signal, name):
                    number = getattr(signal, name)
                    self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)  # type: ignore[arg-type]

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """A block that may take for ever and can be left at any moment."""
        self._waiting = True
        try:
            if self.received is not None:
                raise Interrupted
            yield
        finally:
            self._waiting = False

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self.received = signal.Signals(number)
        for each, handler in self._before.items():
            signal.signal(each, handler if handler is not None else signal.SIG_DFL)  # type: ignore[arg-type]
        if self._waiting:
            self._waiting = False
            raise Interrupted
