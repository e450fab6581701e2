"""The processor's cycle counter, with which kernels time single tuples: how long they took, and its rate."""

from __future__ import annotations

import time
from functools import cache

from rpq.compiled.intrinsics import cycles
from rpq.compiled.kernel_cache import njit

LATENCY_BUCKETS = 1024
"""The buckets of a histogram of ticks a tuple, 16 an octave: see `rpq.running.statistics.latency_quantile`."""


@njit(cache=True, nogil=True, forceinline=True)
def count_ticks(histogram, spent):
    """Count a tuple that took so many ticks: 16 buckets an octave."""
    octave = 0
    scaled = max(spent, 1)
    while scaled >= 32:
        scaled >>= 1
        octave += 1
    histogram[min(octave * 16 + scaled, LATENCY_BUCKETS - 1)] += 1


@njit(cache=True)
def _read():
    return cycles()


@cache
def ticks_per_second() -> float:
    """Return ticks of `cycles` a second, measured once over a fiftieth of a second; 0 where the processor has no counter."""
    _read()
    started, ticks = time.perf_counter(), _read()
    while (elapsed := time.perf_counter() - started) < 0.02:
        pass
    return (_read() - ticks) / elapsed
