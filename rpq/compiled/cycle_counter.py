"""The processor's cycle counter, which kernels use to measure the latency of single tuples, and its rate."""

from __future__ import annotations

import time
from functools import cache

import numpy as np

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


NEVER = np.iinfo(np.int64).max
INTERRUPTED = -1
"""Deadlines that no tick reaches, and that every tick has passed."""

WORK_BETWEEN_CHECKS = 1 << 14
"""The number of steps that a kernel takes before it looks again whether its deadline has passed."""


def new_deadline() -> np.ndarray:
    """Return a deadline, which does not pass: the tick (int64[1]) after which kernels return before they are done.

    Kernels read it as they run, so that another thread can interrupt them with `INTERRUPTED`.
    """
    return np.full(1, NEVER)


@njit(cache=True, nogil=True, forceinline=True)
def has_passed(deadline):
    """Return whether a deadline has passed."""
    return cycles() > deadline[0]


@njit(cache=True)
def read_cycles():
    """Return the ticks of `cycles` now."""
    return cycles()


@cache
def ticks_per_second() -> float:
    """Return ticks of `cycles` per second, measured once over a fiftieth of a second; 0 if there is no cycle counter."""
    read_cycles()
    started, ticks = time.perf_counter(), read_cycles()
    while (elapsed := time.perf_counter() - started) < 0.02:
        pass
    return float((read_cycles() - ticks) / elapsed)
