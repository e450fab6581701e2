"""Measurements of one query on one stream: seconds, rows, latencies, and the content of the index at its peak."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

import pyarrow as pa

import rpq
from rpq.workloads.bench.deletions import Deletions
from rpq.workloads.bench.streams import Stream

SAMPLES = 64
"""The number of moments of a run at which the index is inspected."""


@dataclass(frozen=True, kw_only=True)
class MeasuredRun:
    """One run over the whole stream in a fresh engine; latencies are those of relevant tuples, measured in the kernels."""

    engine_seconds: float
    cpu_seconds: float
    tuples: int
    relevant: int
    rows_added: int
    rows_removed: int
    latency_p50_us: float
    latency_p99_us: float


@dataclass(frozen=True, kw_only=True)
class Peak:
    """The index at its fullest: the number of tuples before that moment, and its content."""

    tuple: int
    trees: int
    cells: int
    index_bytes: int
    edges: int
    vertices: int
    answers: int

    @property
    def bytes_per_cell(self) -> float | None:
        """The bytes of the index, including free capacity, per live cell."""
        return self.index_bytes / self.cells if self.cells else None


class RowsDifferError(Exception):
    """Two runs of the same query over the same stream gave different rows, so their figures are invalid."""


def run_once(
    query: rpq.Query,
    batches: Iterable[pa.RecordBatch],
    *,
    threads: int = 1,
    static: Sequence[tuple[str, str, str]] = (),
) -> MeasuredRun:
    """Push batches through a fresh engine with static edges, and count rows, as `rpq run` without an output does."""
    engine = rpq.Engine(query, threads=threads)
    engine.load_static(static)
    cpu = time.process_time()
    for batch in batches:
        engine.push(batch, collect=False)
    cpu = time.process_time() - cpu
    figures = engine.statistics()
    return MeasuredRun(
        engine_seconds=figures.engine_seconds,
        cpu_seconds=cpu,
        tuples=figures.tuples,
        relevant=figures.tuples - figures.irrelevant,
        rows_added=figures.rows_added,
        rows_removed=figures.rows_removed,
        latency_p50_us=figures.latency_p50_us,
        latency_p99_us=figures.latency_p99_us,
    )


def run_in_turn(query: rpq.Query, streams: Sequence[tuple[Stream, int]], *, repeat: int) -> list[list[MeasuredRun]]:
    """Run over each (stream, threads) in turn, `repeat` times with warm kernels; return the runs of each.

    A busy machine slows down all runs of a turn equally, so ratios within a turn are more reliable than seconds. Raises
    `RowsDifferError`.
    """
    for stream, threads in streams:
        warm_up(query, stream, threads=threads)
    turns = [
        [run_once(query, stream.batches(), threads=threads) for stream, threads in streams] for _ in range(repeat)
    ]
    columns = [list(runs) for runs in zip(*turns, strict=True)]
    for runs in columns:
        if len({(run.rows_added, run.rows_removed) for run in runs}) > 1:
            raise RowsDifferError(f"{query.name}: rows differ between runs: {[run.rows_added for run in runs]}")
    return columns


def median_run(runs: Sequence[MeasuredRun]) -> MeasuredRun:
    """Return the run with the median seconds."""
    return sorted(runs, key=lambda run: run.engine_seconds)[(len(runs) - 1) // 2]


def median_ratio(runs: Sequence[MeasuredRun], base: Sequence[MeasuredRun]) -> float | None:
    """Return the median of the ratios of seconds to those of `base`, turn by turn."""
    ratios = [ratio(run.engine_seconds, other.engine_seconds) for run, other in zip(runs, base, strict=True)]
    defined = [value for value in ratios if value is not None]
    return median(defined) if defined else None


def run_median(query: rpq.Query, stream: Stream, *, repeat: int) -> MeasuredRun:
    """Return the run with the median seconds of `repeat` runs with warm kernels. Raises `RowsDifferError`."""
    (runs,) = run_in_turn(query, [(stream, 1)], repeat=repeat)
    return median_run(runs)


def find_peak(query: rpq.Query, stream: Stream, *, samples: int = SAMPLES) -> Peak:
    """Inspect the index `samples` times in an unmeasured run; return the moment with the most live cells."""
    engine = rpq.Engine(query)
    done, fullest = 0, None
    for batch in stream.batches(max(1, -(-len(stream) // samples))):
        engine.push(batch, collect=False)
        done += batch.num_rows
        figures = engine.statistics()
        if fullest is None or figures.index_cells > fullest.cells:
            fullest = Peak(
                tuple=done,
                trees=engine.explain().trees,  # type: ignore[union-attr]  # of a path query
                cells=figures.index_cells,
                index_bytes=figures.index_bytes,
                edges=figures.edges_live,
                vertices=figures.vertices_live,
                answers=figures.answers_live,
            )
    assert fullest is not None
    return fullest


def first_delete_seconds(query: rpq.Query, stream: Stream, peak: Peak) -> float | None:
    """Return the seconds of the first delete: of the youngest relevant edge in the fullest window, or None without edge."""
    engine = rpq.Engine(query)
    pushed = stream.first(peak.tuple)
    for batch in pushed.batches():
        engine.push(batch, collect=False)
    is_relevant = query.reads
    for place in range(len(pushed) - 1, -1, -1):
        source, target, label = (pushed.table[name][place].as_py() for name in ("source", "target", "label"))
        if is_relevant(label):
            started = time.perf_counter()
            engine.delete(source, target, label, engine.time)
            return time.perf_counter() - started
    return None


def with_deletes(query: rpq.Query, stream: Stream, percent: float, *, seed: int) -> Stream:
    """Return the stream with generated deletes of edges in the window."""
    if not percent:
        return stream
    deletions = Deletions(
        size=query.window.size,
        slide=query.window.slide,
        percent=percent,
        seed=seed,
        is_relevant=query.reads,
    )
    table = pa.Table.from_batches([deletions.extend(batch) for batch in stream.batches()])
    return replace(stream, table=table, origin=f"{stream.origin}, {percent:g} % deletes, seed {seed}")


def warm_up(query: rpq.Query, stream: Stream, *, threads: int = 1) -> float:
    """Compile or load the kernels; return the seconds."""
    kind = "int64" if pa.types.is_integer(stream.table.schema.field("source").type) else "string"
    return rpq.warm_up(query, vertices=kind, threads=threads)


@dataclass(frozen=True, kw_only=True)
class SinglePushes:
    """Relevant tuples that were pushed one by one: the microseconds of each, and the number of rows of all pushes."""

    microseconds: list[float]
    rows: int


def push_singly(engine: rpq.Engine, tuples: pa.Table, relevant: int) -> SinglePushes:
    """Push tuples one by one through the API, with all its overhead, until `relevant` relevant tuples are pushed."""
    (query,) = engine.queries
    is_relevant = query.reads
    microseconds: list[float] = []
    rows = 0
    for row in range(tuples.num_rows):
        if len(microseconds) == relevant:
            break
        changes, seconds = push_one(engine, tuples, row)
        rows += changes.to_arrow().num_rows
        if is_relevant(tuples["label"][row].as_py()):
            microseconds.append(seconds * 1e6)
    return SinglePushes(microseconds=microseconds, rows=rows)


def push_one(engine: rpq.Engine, tuples: pa.Table, row: int) -> tuple[rpq.Changes, float]:
    """Insert or delete the tuple of a single row; return its changes and the seconds of the call."""
    values = {name: tuples[name][row].as_py() for name in tuples.column_names}
    apply = engine.delete if values.get("op") == "-" else engine.insert
    source, target, label, timestamp = (values[name] for name in ("source", "target", "label", "timestamp"))
    started = time.perf_counter()
    changes = apply(source, target, label, timestamp)
    return changes, time.perf_counter() - started


def quantile(values: list[float], part: float) -> float | None:
    """Return a quantile by rank, or None if there are no values.

    >>> quantile([3.0, 1.0, 2.0], 0.5)
    2.0
    """
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else None


def ratio(value: float | None, base: float | None) -> float | None:
    """Return value / base, or None if either is missing or base is 0."""
    return value / base if value is not None and base else None


def median(values: Iterable[float]) -> float:
    """Return the median."""
    return statistics.median(values)


def run_record(run: MeasuredRun) -> dict[str, Any]:
    """Return a run as the values of a record, with its speed over all tuples."""
    return {**asdict(run), "tuples_per_second": run.tuples / run.engine_seconds if run.engine_seconds else None}


def slides(stream: Stream, window: rpq.Window) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the stream, which is in time order, divided by slides of the window: (slide number, its tuples)."""
    timestamps = stream.table["timestamp"].to_numpy()
    numbers = timestamps // window.slide
    cuts = [0, *((numbers[1:] != numbers[:-1]).nonzero()[0] + 1).tolist(), len(timestamps)]
    for start, end in pairwise(cuts):
        for batch in stream.table.slice(start, end - start).combine_chunks().to_batches():
            yield int(numbers[start]), batch
