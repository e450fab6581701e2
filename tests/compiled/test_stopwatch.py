"""An engine that is compiling says so, once, and does not take it for its own work."""

from __future__ import annotations

import logging
from time import perf_counter
from typing import Any

import numpy as np
import pytest
from numba import njit

import rpq
from rpq.engine.running.evaluation import Evaluation
from rpq.operators.paths.index.delta_index import DeltaIndex


def ask() -> rpq.Query:
    return rpq.Query("a/b*", window=rpq.Window(size=10, slide=1), name="q")


def fresh_kernel() -> Any:
    """A function that is compiled at its first call, and takes some tenths of a second for it."""

    @njit
    def kernel(numbers):  # type: ignore[no-untyped-def]
        return numbers[::-1].cumsum()

    return kernel


@pytest.mark.ci
def test_compiling_is_said_once_and_counted_as_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rpq.warm_up(ask())
    engine = rpq.Engine(ask())
    before = engine.statistics().engine_seconds
    apply = Evaluation.apply
    compiled: list[float] = []

    def compiling(self: Evaluation, *args: Any, **options: Any) -> Any:
        began = perf_counter()
        fresh_kernel()(np.arange(10))
        compiled.append(perf_counter() - began)
        return apply(self, *args, **options)

    monkeypatch.setattr(Evaluation, "apply", compiling)
    caplog.clear()  # where the cache was cold, the warm-up has said it as well
    with caplog.at_level(logging.INFO, "rpq"):
        began = perf_counter()
        for time in range(3):
            engine.insert("x", "y", "a", 2 + time)
        passed = perf_counter() - began
    # Of what passes on a busy machine, any part may be the engine's, but not what was compiling.
    assert engine.statistics().engine_seconds - before < passed - sum(compiled) / 2
    assert [(record.name, record.levelname) for record in caplog.records] == [("rpq", "WARNING")]
    assert "compiling kernels" in caplog.records[0].getMessage()


def test_compiling_in_the_middle_of_a_tuple_is_no_latency(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = rpq.Engine(ask())
    engine.push_rows([("x", "y", "a", 1)])
    keep = DeltaIndex.keep_supports

    compiled: list[float] = []

    def compiling(self: DeltaIndex, edges: Any) -> None:
        began = perf_counter()
        fresh_kernel()(np.arange(10))
        compiled.append(perf_counter() - began)
        keep(self, edges)

    monkeypatch.setattr(DeltaIndex, "keep_supports", compiling)
    engine.push_rows([("x", "y", "a", 1, "-")])
    statistics = engine.statistics()
    assert statistics.deleted == 1
    assert statistics.latency_p99_us < sum(compiled) / 2 * 1e6
