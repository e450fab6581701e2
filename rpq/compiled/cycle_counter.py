"""The processor's cycle counter, which kernels use to measure the latency of single tuples, and its rate."""

from __future__ import annotations

import time
from functools import cache

from rpq.compiled.intrinsics import cycles
from rpq.compiled.kernel_cache import njit

LATENCY_BUCKETS = 1024
"""The number of buckets in a histogram of ticks per tuple, 16 per octave; see `latency_quantile`."""


@njit(cache=True, nogil=True, forceinline=True)
def count_ticks(histogram, ticks):
    """Count a tuple that took `ticks` ticks in its bucket, 16 buckets per octave."""
    octave = 0
    scaled = max(ticks, 1)
    while scaled >= 32:
        scaled >>= 1
        octave += 1
    histogram[min(octave * 16 + scaled, LATENCY_BUCKETS - 1)] += 1


@njit(cache=True)
def _read():
    return cycles()


@cache
def ticks_per_second() -> float:
    """Return ticks of `cycles` per second, measured once over a fiftieth of a second; 0 if there is no cycle counter."""
    _read()
    started, ticks = time.perf_counter(), _read()
    while (elapsed := time.perf_counter() - started) < 0.02:
        pass
    return (_read() - ticks) / elapsed
