"""Counts and measures of an engine or of one of its queries."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, kw_only=True)
class Statistics:
    """What has happened so far, and what is held now.

    tuples = inserted + refreshed + deleted + absent_deletes + late + irrelevant. Rows, answers and index are summed
    over the queries asked for. `engine_seconds` is wall-clock time inside the engine; latencies are over
    relevant tuples, timed inside the kernels (0 where there are none yet), accurate to a sixteenth of an octave.
    The last five are of simple paths: how often a root met its first conflict, how many roots have met one now, pairs
    that conflicts put in doubt now (for each of these a path is kept, or that there is none), searches for a simple path,
    and roots that are set aside now.
    """

    tuples: int
    inserted: int
    refreshed: int
    deleted: int
    absent_deletes: int
    late: int
    irrelevant: int
    rows_added: int
    rows_removed: int
    answers_live: int
    edges_live: int
    vertices_live: int
    index_cells: int
    index_bytes: int
    engine_seconds: float
    latency_p50_us: float
    latency_p99_us: float
    conflicts: int = 0
    conflicted_roots: int = 0
    pairs_in_doubt: int = 0
    searches: int = 0
    roots_set_aside: int = 0


def latency_quantile(histogram: np.ndarray, quantile: float, ticks_per_second: float) -> float:
    """Microseconds under which that part of the tuples stayed, from counts in 16 buckets an octave of ticks.

    >>> latency_quantile(np.zeros(1024, np.int64), 0.99, 1e9)
    0.0
    """
    total = histogram.sum()
    if total == 0:
        return 0.0
    bucket = int(np.searchsorted(np.cumsum(histogram), quantile * total))
    # Bucket 16 k + s with 16 ≤ s < 32 holds s·2^k to (s + 1)·2^k ticks: take the middle.
    octave = max(0, bucket // 16 - 1)
    ticks = (bucket - 16 * octave + 0.5) * 2.0**octave
    return float(ticks / ticks_per_second * 1e6)
