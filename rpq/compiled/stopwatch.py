"""Time inside an engine, without the time that numba takes to compile kernels or to load them; and saying that it compiles.

Kernels are compiled when they are first called, in the middle of a push: seconds to a minute on a machine that has never
run this version, none of it the engine's work.
"""

from __future__ import annotations

import logging
import threading
import time

from numba.core import event

from rpq.compiled.kernel_cache import why_compiled

_LOGGER = logging.getLogger("rpq")


class _Compiling(event.Listener):
    """Sums up how long numba holds its lock, compiling or loading, whichever threads it is in."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.engine: Stopwatch | None = None  # the last that was started
        self._lock = threading.Lock()
        self._depth = 0
        self._since = 0.0

    def on_start(self, event: event.Event) -> None:
        if event.kind == "numba:compile":
            if self.engine is not None:
                self.engine.say_once()
            return
        with self._lock:
            if self._depth == 0:
                self._since = time.perf_counter()
            self._depth += 1

    def on_end(self, event: event.Event) -> None:
        if event.kind == "numba:compile":
            return
        with self._lock:
            self._depth -= 1
            if self._depth == 0:
                self.seconds += time.perf_counter() - self._since


_COMPILING = _Compiling()
event.register("numba:compile", _COMPILING)
event.register("numba:compiler_lock", _COMPILING)


def compiling_seconds() -> float:
    """Return the seconds that numba has taken in this process so far."""
    return _COMPILING.seconds


class Stopwatch:
    """The `seconds` of one engine; of a process in which several compile at once, none is charged for it."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self._has_said = False
        _COMPILING.engine = self

    def start(self) -> float:
        """Begin, and return what `stop` needs."""
        _COMPILING.engine = self
        return time.perf_counter() - _COMPILING.seconds

    def stop(self, started: float) -> None:
        """Add what has passed since `started`, compiling left out."""
        self.seconds += max(0.0, time.perf_counter() - _COMPILING.seconds - started)
        _COMPILING.engine = None  # what is compiled outside of it is not the engine's

    def say_once(self) -> None:
        """Log that kernels are being compiled, the first time."""
        if not self._has_said:
            self._has_said = True
            why = why_compiled() or "they are not this package's"
            _LOGGER.warning("compiling kernels, which takes up to a minute: %s", why)
