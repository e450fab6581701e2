"""Time inside an engine, without the time in which numba compiles or loads kernels, and a log message when it compiles.

Kernels are compiled at their first call, in the middle of a push: seconds to half a minute on a machine that has never
run this version, which is not the engine's work.
"""

from __future__ import annotations

import logging
import threading
import time

from numba.core import event

from rpq.compiled.kernel_cache import why_compiled

_LOGGER = logging.getLogger("rpq")


class _Compiling(event.Listener):
    """The total time for which numba holds its lock, compiling or loading, in all threads."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.engine: Stopwatch | None = None  # the stopwatch that was started last
        self._lock = threading.Lock()
        self._depth = 0
        self._since = 0.0

    def on_start(self, event: event.Event) -> None:
        if event.kind == "numba:compile":
            if self.engine is not None:
                self.engine.log_once()
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
    """Return the seconds that numba has compiled or loaded in this process so far."""
    return _COMPILING.seconds


class Stopwatch:
    """The `seconds` of one engine; if several compile at once in a process, none of them includes compile time."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self._has_logged = False
        _COMPILING.engine = self

    def start(self) -> float:
        """Start the stopwatch. Return the argument for `stop`."""
        _COMPILING.engine = self
        return time.perf_counter() - _COMPILING.seconds

    def stop(self, started: float) -> None:
        """Add the time since `started`, except compile time."""
        seconds = time.perf_counter() - _COMPILING.seconds - started
        if seconds > 0:
            self.seconds += seconds
        _COMPILING.engine = None  # compiling outside this interval is not the engine's

    def log_once(self) -> None:
        """Log once that kernels are being compiled."""
        if not self._has_logged:
            self._has_logged = True
            why = why_compiled() or "they do not belong to this package"
            _LOGGER.warning("compiling kernels, which takes up to half a minute: %s", why)
