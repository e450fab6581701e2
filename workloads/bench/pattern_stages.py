"""Where the time of a pattern goes: before the kernels, in them, and behind them, of one run through a stream."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

import rpq
from rpq.compiled.cycle_counter import ticks_per_second
from rpq.running.statistics import latency_quantile

FIRST_TUPLES, MOST_TUPLES, FEWEST_TUPLES, MANY_ROWS = 4_096, 16_384, 64, 1 << 19
"""How a stream is cut, as the command cuts it: what it brings is to be written before it is too much to be held."""
_QUANTILES = {"p50": 0.5, "p99": 0.99, "maximum": 1.0}


@dataclass(frozen=True, kw_only=True)
class Stages:
    """CPU seconds of a run, and what it gave.

    `kernels` are the calls that apply tuples and write rows of ids; `before` is what comes ahead of them (columns taken
    in, names to ids, the snapshot graph), `total` all of it, from columns to rows of Arrow where they were wanted.
    `latency_us` are of tuples that an atom reads, timed in the kernels: p50, p99 and maximum.
    """

    total: float
    kernels: float
    before: float
    tuples: int
    rows_added: int
    rows_removed: int
    values: int
    latency_us: dict[str, float]
    names_bytes: int
    buffer_bytes: int


class _Watch:
    """Sums up the CPU time of calls."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def over(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """The same call, watched."""

        def watched(*arguments: Any, **named: Any) -> Any:
            started = time.process_time()
            try:
                return call(*arguments, **named)
            finally:
                self.seconds += time.process_time() - started

        return watched


def run_in_stages(query: rpq.Query, table: pa.Table, *, to_arrow: bool) -> Stages:
    """Push a stream through a fresh engine, `MOST_TUPLES` at a time, fewer where these bring more than `MANY_ROWS` rows.

    With `to_arrow` the rows of each push become a table, which is let go before the next.
    """
    engine = rpq.Engine(query)
    evaluation = engine._evaluation
    applying, delivering, telling = _Watch(), _Watch(), _Watch()
    for host in evaluation.running.hosts:
        host.apply = applying.over(host.apply)
        host._live.deliver = delivering.over(host._live.deliver)
    evaluation._deltas = telling.over(evaluation._deltas)  # type: ignore[method-assign]
    arrow = values = 0
    pushed = 0.0
    started = time.process_time()
    first, count = 0, FIRST_TUPLES
    while first < len(table):
        batch = table.slice(first, count)
        beginning = time.process_time()
        changes = engine.push(batch, collect=to_arrow)
        pushed += time.process_time() - beginning
        if to_arrow:
            arrow += changes.to_arrow().num_rows
        first += count
        count = max(FEWEST_TUPLES, min(MOST_TUPLES, 2 * count, count * MANY_ROWS // max(1, len(changes))))
        del changes
    total = time.process_time() - started
    figures = engine.statistics()
    if to_arrow and arrow != figures.rows_added + figures.rows_removed:
        raise AssertionError(f"{arrow} rows came out, of {figures.rows_added + figures.rows_removed}")
    values = (figures.rows_added + figures.rows_removed) * len(query.columns)
    (running,) = evaluation.running
    return Stages(
        total=total,
        kernels=applying.seconds - delivering.seconds,
        before=pushed - applying.seconds - telling.seconds,
        tuples=figures.tuples,
        rows_added=figures.rows_added,
        rows_removed=figures.rows_removed,
        values=values,
        latency_us=_latencies(running.figures().latency),
        names_bytes=evaluation.vertices.nbytes,
        buffer_bytes=sum(host._live.nbytes for host in evaluation.running.hosts),
    )


def _latencies(histogram: np.ndarray) -> dict[str, float]:
    rate = ticks_per_second() or 1.0
    return {name: latency_quantile(histogram, part, rate) for name, part in _QUANTILES.items()}
