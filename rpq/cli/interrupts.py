"""Ctrl-C and `kill` as a wish to end, not as an exception somewhere in the middle."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterable, Iterator
from queue import Empty, Queue
from types import FrameType, TracebackType
from typing import TypeVar

import pyarrow as pa

Item = TypeVar("Item")

POLL_SECONDS = 0.1
"""So long a wish to end may be overlooked while nothing comes in."""

_SIGNALS = ("SIGINT", "SIGTERM")


class Interrupted(Exception):
    """The wish to end, raised between two batches."""


class Interrupts:
    """Catches SIGINT and SIGTERM for the time of a `with` block.

    The first one sets `received`, for `check` to see; a second one does what it always does.  Outside of the main
    thread, where Python knows no signals, nothing is caught.
    """

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self._before: dict[int, object] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            pa.enable_signal_handlers(False)  # or Arrow cancels what it is reading
            for name in _SIGNALS:
                if hasattr(signal, name):
                    number = getattr(signal, name)
                    self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before:
            self._give_back()
            pa.enable_signal_handlers(True)

    def check(self) -> None:
        """Raise `Interrupted` if a signal has come."""
        if self.received is not None:
            raise Interrupted

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self.received = signal.Signals(number)
        self._give_back()

    def _give_back(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)  # type: ignore[arg-type]


def watched(items: Iterable[Item], interrupts: Interrupts, *, may_wait: bool) -> Iterator[Item]:
    """Yield the items; raise `Interrupted` instead of the next one if a signal has come.

    Where the next item may never come (`may_wait`) another thread waits for it.  A signal does not reliably end a
    blocking read: CPython may note it just before the read begins, or in another thread, and act on it after.
    """
    source = iter(_from_thread(items, interrupts) if may_wait else items)
    while True:
        interrupts.check()
        try:
            item = next(source)
        except StopIteration:
            return
        yield item


def _from_thread(items: Iterable[Item], interrupts: Interrupts) -> Iterator[Item]:
    queue: Queue[tuple[str, object]] = Queue(maxsize=1)

    def fetch() -> None:
        try:
            for item in items:
                queue.put(("item", item))
        except BaseException as error:
            queue.put(("error", error))
        else:
            queue.put(("end", None))

    # A daemon: where nothing comes any more, the process ends without it.
    threading.Thread(target=fetch, name="input", daemon=True).start()
    while True:
        try:
            kind, value = queue.get(timeout=POLL_SECONDS)
        except Empty:
            interrupts.check()
            continue
        if kind == "end":
            return
        if kind == "error":
            raise value  # type: ignore[misc]
        yield value  # type: ignore[misc]
