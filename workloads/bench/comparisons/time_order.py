"""Paths in an order in time, beside the same query without it, and beside the stream in order without deletes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from time import process_time
from typing import Literal

import numpy as np
import pyarrow as pa

import rpq
from rpq.workloads.bench.comparisons.bounds import Figure, line
from rpq.workloads.bench.comparisons.path_speed import stream_of
from rpq.workloads.bench.experiment import Settings
from rpq.workloads.bench.measure import median
from rpq.workloads.bench.streams import DAY_SECONDS, Stream

_TEXT = "(a2q|c2a|c2q)+"
_CHANGED = 0.05
"""The part of the edges that come late, or of the inserts that a delete follows."""
_SINGLE_TUPLES = 4_000


@dataclass(frozen=True, kw_only=True)
class _Case:
    """A query over a stream."""

    stream: Stream
    is_ordered: bool = True
    gap: int | None = None
    span: int | None = None
    roots: int | None = None
    """The number of sources; None: all vertices."""

    def engine(self) -> rpq.Engine:
        """Return a fresh engine."""
        order: Literal["increasing"] | None = "increasing" if self.is_ordered else None
        names = self.stream.table["source"]
        query = rpq.Query(
            _TEXT,
            window=self.stream.window,
            order=order,
            max_gap=self.gap,
            max_span=self.span,
            sources=None if self.roots is None else names[:: len(names) // self.roots].to_pylist(),
            name="line",
        )
        return rpq.Engine(query, edges="parallel")

    def run(self) -> float:
        """Return the CPU seconds of a fresh engine."""
        engine = self.engine()
        started = process_time()
        for batch in self.stream.batches():
            engine.push(batch, collect=False)
        return process_time() - started

    def seconds_of_insert(self) -> float:
        """Return the median CPU seconds of an `insert` and of reading its rows, behind the first half of the stream."""
        middle, engine = len(self.stream) // 2, self.engine()
        for batch in self.stream.first(middle).batches():
            engine.push(batch, collect=False)
        after = self.stream.table.slice(middle, _SINGLE_TUPLES)
        columns = (after[name].to_pylist() for name in ("source", "target", "label", "timestamp"))
        seconds = []
        for one in zip(*columns, strict=True):
            started = process_time()
            engine.insert(*one).rows()
            seconds.append(process_time() - started)
        return median(seconds)


def _times_as_long(case: _Case, base: _Case, settings: Settings) -> Figure:
    """Return the median over turns of the seconds of a case divided by those of its base."""
    ratios = [case.run() / base.run() for _ in range(settings.repeat + 1)]
    return Figure(figure=median(ratios[1:]))  # the first one loads kernels


@cache
def _stream(settings: Settings) -> Stream:
    return stream_of("stackoverflow", settings, lambda text: None)


def _late(settings: Settings) -> Stream:
    """Return the stream with some edges up to a slide late."""
    stream, random = _stream(settings), np.random.default_rng(settings.seed)
    arrival = np.asarray(stream.table["timestamp"]).copy()
    is_late = random.random(len(arrival)) < _CHANGED
    arrival[is_late] += random.integers(0, stream.window.slide, is_late.sum())
    return replace(stream, table=stream.table.take(pa.array(np.argsort(arrival, kind="stable"))).combine_chunks())


def _with_deletes(settings: Settings) -> Stream:
    """Return the stream with deletes of edges among the last thousands before them."""
    stream, random = _stream(settings), np.random.default_rng(settings.seed)
    count = len(stream)
    at = np.flatnonzero(random.random(count) < _CHANGED)
    deleted = np.maximum(0, at - random.integers(0, 5_000, len(at)))
    rows = np.concatenate([np.arange(count), deleted])
    order = np.argsort(np.concatenate([np.arange(count), at]), kind="stable")
    table = stream.table.select(["source", "target", "label", "timestamp"]).take(pa.array(rows[order]))
    times = np.asarray(stream.table["timestamp"])[np.concatenate([np.arange(count), at])[order]]
    table = table.set_column(3, "timestamp", pa.array(times))
    ops = np.where(order >= count, "-", "+")
    return replace(stream, table=table.append_column("op", pa.array(ops)).combine_chunks())


@line("ORDER", f"{_TEXT} in strict order of time", unit="× without the order", sense="at most", bound=0.2)
def _ordered(settings: Settings) -> Figure:
    stream = _stream(settings)
    return _times_as_long(_Case(stream=stream), _Case(stream=stream, is_ordered=False), settings)


@line("ORDER-GAP", f"{_TEXT} in order, with a gap of six hours", unit="× without a gap", sense="at most", bound=3)
def _with_gap(settings: Settings) -> Figure:
    stream = _stream(settings)
    return _times_as_long(_Case(stream=stream, gap=6 * 3600), _Case(stream=stream), settings)


@line("ORDER-SPAN", f"{_TEXT} in order, within a span of the window", unit="× without a span", sense="at most", bound=3)
def _with_span(settings: Settings) -> Figure:
    stream = _stream(settings)
    return _times_as_long(_Case(stream=stream, span=stream.window.size), _Case(stream=stream), settings)


@line("ORDER-SPAN-20", "the same from 20 sources, within three days", unit="× without a span", sense="at most", bound=3)
def _with_span_from_sources(settings: Settings) -> Figure:
    stream = _stream(settings)
    return _times_as_long(_Case(stream=stream, span=3 * DAY_SECONDS, roots=20), _Case(stream=stream, roots=20), settings)


@line("ORDER-INSERT", f"one insert and its rows: {_TEXT} in order", unit="× without the order", sense="at most", bound=1)
def _one_by_one(settings: Settings) -> Figure:
    ordered, base = (_Case(stream=_stream(settings), is_ordered=is_ordered) for is_ordered in (True, False))
    ratios = [ordered.seconds_of_insert() / base.seconds_of_insert() for _ in range(settings.repeat + 1)]
    return Figure(figure=median(ratios[1:]))  # the first one loads kernels


@line("ORDER-LATE", f"{_TEXT} in order, 5 % of the edges late by up to a slide", unit="× in order", sense="at most", bound=5)
def _with_late_edges(settings: Settings) -> Figure:
    return _times_as_long(_Case(stream=_late(settings)), _Case(stream=_stream(settings)), settings)


@line("ORDER-DELETES", f"{_TEXT} in order, with 5 % deletes", unit="× without deletes", sense="at most", bound=10)
def _deleted(settings: Settings) -> Figure:
    return _times_as_long(_Case(stream=_with_deletes(settings)), _Case(stream=_stream(settings)), settings)
