"""Compiling the kernels, or loading them from the cache, before the first tuple."""

from __future__ import annotations

import time

from rpq.engine import Engine
from rpq.query import Query


def warm_up(query: Query, *, vertices: str = "string", witness: bool = False) -> float:
    """Run a tiny stream through every kernel that the query needs; the seconds it took.

    About ten seconds on a machine that has never run this version, well under one with a warm cache.
    `vertices` is "string" or "int64".
    """
    started = time.perf_counter()
    engine = Engine(
        Query("a", window=query.window, semantics="explicit"), memory_limit=1 << 60, witness=witness, _capacity=16
    )
    ends = ("x", "y") if vertices == "string" else (1, 2)
    engine.push_rows([(*ends, "a", 0), (*ends, "a", 0, "-"), (*ends, "a", 0)])
    engine.answers()
    engine.statistics()
    engine._collect()
    return time.perf_counter() - started
