"""Compiling the kernels, or loading them from the cache, before the first tuple."""

from __future__ import annotations

import tempfile
import time
from math import gcd
from pathlib import Path

from rpq.engine import Engine
from rpq.query import Query
from rpq.window import Window


def warm_up(
    query: Query, *, vertices: str = "string", threads: int = 1, witness: bool = False, state: bool = False
) -> float:
    """Run a tiny stream through every kernel that the query needs; the seconds it took.

    About half a minute on a machine that has never run this version, well under a second with a warm cache.
    `vertices` is "string" or "int64"; `threads` and `witness` are those of the engine to come; `state` tells
    that it will be saved and restored.
    """
    started = time.perf_counter()
    x, y = ("x", "y") if vertices == "string" else (1, 2)
    tiny = Query(
        "a",
        window=_plain(query.window),
        semantics="explicit",
        sources=None if query.sources is None else [x],
        targets=None if query.targets is None else [y],
    )
    engine = Engine(tiny, threads=threads, memory_limit=1 << 60, witness=witness, _capacity=16)
    engine.push_rows([(x, y, "a", 0), (x, y, "a", 0, "-"), (x, y, "a", 0)])
    engine.answers()
    engine.statistics()
    engine._evaluation.collect()
    if state:
        with tempfile.TemporaryDirectory(prefix="rpq-") as folder:
            engine.save(Path(folder) / "state")
            Engine.restore(Path(folder) / "state", threads=threads, memory_limit=1 << 60, witness=witness)
    engine.advance(engine._evaluation.latest)
    return time.perf_counter() - started


def _plain(window: Window) -> Window:
    """A window of as many slides, in plain numbers."""
    if window.unit is None:
        return window
    step = gcd(window.size, window.slide)
    return Window(size=window.size // step, slide=window.slide // step)
