"""Conditions on the properties of edges, beside the same queries without them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, partial
from time import process_time

import numpy as np
import pyarrow as pa

import rpq
from rpq.language.readings import Identity
from rpq.workloads.bench.comparisons.bounds import Figure, line, window_of
from rpq.workloads.bench.comparisons.path_speed import stream_of
from rpq.workloads.bench.comparisons.sparql_speed import edge_a_moment
from rpq.workloads.bench.experiment import Settings
from rpq.workloads.bench.measure import RowsDifferError, median
from rpq.workloads.bench.streams import BATCH_ROWS, Stream

_AMOUNTS = 1_000
"""Amounts are drawn evenly from the integers below this."""


def with_amounts(stream: Stream, *, seed: int) -> Stream:
    """Return a stream whose edges have a property `amount`."""
    amounts = np.random.default_rng(seed).integers(_AMOUNTS, size=len(stream))
    return replace(stream, table=stream.table.append_column("amount", pa.array(amounts)))


@dataclass(frozen=True, kw_only=True)
class _Case:
    """A query over a stream, in an engine whose edges have this identity."""

    text: str
    stream: Stream
    edges: Identity

    def run(self) -> tuple[float, int, int]:
        """Return the CPU seconds of a fresh engine, and the rows added and removed."""
        engine = rpq.Engine(rpq.Query(self.text, window=self.stream.window, name="line"), edges=self.edges)
        seconds = 0.0
        for batch in self.stream.batches():
            started = process_time()
            engine.push(batch, collect=False)
            seconds += process_time() - started
        figures = engine.statistics()
        return seconds, figures.rows_added, figures.rows_removed


def _times_as_long(case: _Case, base: _Case, *, repeat: int) -> Figure:
    """Return the median over turns of the seconds of a case divided by those of its base. Raises `RowsDifferError`."""
    ratios = []
    for turn in range(repeat + 1):
        seconds, *rows = case.run()
        seconds_of_base, *rows_of_base = base.run()
        if rows != rows_of_base:
            raise RowsDifferError(f"{case.text}: {rows} rows, {rows_of_base} without the condition")
        if turn:  # the first one loads kernels
            ratios.append(seconds / seconds_of_base)
    return Figure(figure=median(ratios))


@cache
def _stream(settings: Settings) -> Stream:
    return with_amounts(stream_of("stackoverflow", settings, lambda text: None), seed=settings.seed)


def _filter_edges(stream: Stream, is_satisfied: np.ndarray, *, edges: Identity) -> Stream:
    """Return the edges of a stream that satisfy a condition.

    Under `triple`, an edge that does not satisfy it replaces one that does: a delete stands in its place.
    """
    ops = np.full(len(stream), "+")
    if edges == "triple":
        keys = [np.unique(np.asarray(stream.table[name]), return_inverse=True)[1] for name in ("source", "target", "label")]
        rows = np.lexsort((np.arange(len(stream)), *keys))
        is_same = np.logical_and.reduce([key[rows][1:] == key[rows][:-1] for key in keys])
        time, window = np.asarray(stream.table["timestamp"])[rows], stream.window
        is_live = time[:-1] > time[1:] // window.slide * window.slide - window.size
        is_delete = is_same & is_live & is_satisfied[rows][:-1] & ~is_satisfied[rows][1:]
        ops[rows[1:][is_delete]] = "-"
    table = stream.table.append_column("op", pa.array(ops)).filter(is_satisfied | (ops == "-"))
    return replace(stream, table=table.combine_chunks())


def _half_of_edges(settings: Settings, *, edges: Identity) -> Figure:
    """Compare a query half of whose edges satisfy its conditions with the query without them over those edges alone."""
    stream = _stream(settings)
    satisfied = _filter_edges(stream, np.asarray(stream.table["amount"]) > _AMOUNTS // 2, edges=edges)
    case = _Case(text=f"a2q[amount > {_AMOUNTS // 2}]/c2a[amount > {_AMOUNTS // 2}]*", stream=stream, edges=edges)
    base = _Case(text="a2q/c2a*", stream=satisfied, edges=edges)
    return _times_as_long(case, base, repeat=settings.repeat)


def _all_edges(settings: Settings, *, edges: Identity) -> Figure:
    """Compare a query whose conditions all edges satisfy with the same query without conditions, edges being triples."""
    stream = _stream(settings)
    case = _Case(text="a2q[amount >= 0]/c2a[amount >= 0]*", stream=stream, edges=edges)
    base = _Case(text="a2q/c2a*", stream=stream, edges="triple")
    return _times_as_long(case, base, repeat=settings.repeat)


_SINGLE_TUPLES = 4_000


def _one_by_one(settings: Settings, *, edges: Identity) -> Figure:
    """Compare the median CPU seconds of an `insert` with a property with those of one of a triple without conditions."""
    stream = _stream(settings)
    first, after = stream.first(len(stream) // 2), stream.table.slice(len(stream) // 2, _SINGLE_TUPLES)
    tuples = [*zip(*(after[name].to_pylist() for name in ("source", "target", "label", "timestamp")), strict=True)]
    amounts = after["amount"].to_pylist()

    def seconds_of(text: str, identity: Identity, properties: list[dict[str, int]]) -> float:
        engine = rpq.Engine(rpq.Query(text, window=stream.window, name="line"), edges=identity)
        for batch in first.batches():
            engine.push(batch, collect=False)
        seconds = []
        for one, values in zip(tuples, properties, strict=True):
            started = process_time()
            engine.insert(*one, properties=values)
            seconds.append(process_time() - started)
        return median(seconds)

    ratios = []
    for turn in range(settings.repeat + 1):
        seconds = seconds_of("a2q[amount >= 0]/c2a[amount >= 0]*", edges, [{"amount": amount} for amount in amounts])
        plain = seconds_of("a2q/c2a*", "triple", [{}] * len(tuples))
        if turn:  # the first one loads kernels
            ratios.append(seconds / plain)
    return Figure(figure=median(ratios))


for _edges in ("parallel", "triple"):
    line(
        f"CONDITION-HALF-{_edges.upper()}",
        f"a2q/c2a* with conditions that half of the edges satisfy, over all edges, {_edges}",
        unit="× over those edges",
        sense="at most",
        bound=1.3,
    )(partial(_half_of_edges, edges=_edges))
    line(
        f"CONDITION-ALL-{_edges.upper()}",
        f"a2q/c2a* with conditions that all edges satisfy, {_edges}",
        unit="× without conditions",
        sense="at most",
        bound=1.15,
    )(partial(_all_edges, edges=_edges))
    line(
        f"CONDITION-INSERT-{_edges.upper()}",
        f"one insert with a property: a2q/c2a* with conditions, {_edges}",
        unit="× without conditions",
        sense="at most",
        bound=3,
    )(partial(_one_by_one, edges=_edges))


_PER_QUERY = 1e-6
"""Seconds that an update may take for each query that it satisfies, beside its own."""




@dataclass(frozen=True, kw_only=True)
class _Thousands:
    """Figures of many queries with a condition each on the same label.

    CPU microseconds: of an update, less one for each query that it satisfies; and of the registration of a query.
    """

    update: float
    registration: float


@cache
def _thousands(settings: Settings) -> _Thousands:
    """Push edges of one label, each of which satisfies ten of the queries on average, through a full window."""
    stream = stream_of("stackoverflow", settings, lambda text: None)
    table = stream.table.filter(np.asarray(stream.table["label"]) == "a2q")
    table = table.slice(0, 2 * window_of(settings, 50_000))
    satisfied = np.random.default_rng(settings.seed).geometric(1 / 11, size=len(table)) - 1  # with a mean of ten
    table = table.append_column("amount", pa.array(satisfied)).combine_chunks()
    queries = max(100, window_of(settings, 10_000))
    started = process_time()
    engine = rpq.Engine(
        *(
            rpq.Query(f"?x a2q[amount > {number}] ?y", window=stream.window, name=f"amount {number}")
            for number in range(queries)
        ),
        edges="parallel",
    )
    registration = process_time() - started
    half = len(table) // 2
    engine.push(table.slice(0, half), collect=False)
    started = process_time()
    for batch in table.slice(half).to_batches(max_chunksize=BATCH_ROWS):
        engine.push(batch, collect=False)
    seconds = process_time() - started
    rows = int(np.minimum(satisfied[half:], queries).sum())
    return _Thousands(
        update=(seconds - rows * _PER_QUERY) / (len(table) - half) * 1e6, registration=registration / queries * 1e6
    )


line(
    "CONDITIONS-10000",
    "10,000 patterns with a condition each, of which an edge satisfies ten on average",
    unit="µs/tuple, satisfied queries apart",
    sense="at most",
    bound=3,
)(lambda settings: Figure(figure=_thousands(settings).update))
line(
    "CONDITIONS-10000-REGISTER", "the same: registering a query", unit="µs/query", sense="at most", bound=1_000
)(lambda settings: Figure(figure=_thousands(settings).registration))


@line("CONDITION-BYTES", "memory of an edge for one condition", unit="bytes", sense="at most", bound=24)
def _bytes_an_edge(settings: Settings) -> Figure:
    """Return the bytes that an engine holds more an edge than one without conditions; the property itself has eight."""
    stream = _stream(settings)
    window = rpq.UnboundedWindow()
    edge_bytes = []
    for text in ("a2q", "a2q[amount >= 0]"):
        engine = rpq.Engine(rpq.Query(text, window=window, name="line"))
        for batch in stream.batches():
            engine.push(batch, collect=False)
        edge_bytes.append(engine._evaluation.edge_bytes)
    return Figure(figure=(edge_bytes[1] - edge_bytes[0]) / engine.statistics().edges_live)


def _transfers(window: int, *, seed: int) -> Stream:
    """Return transfers with amounts between accounts whose degrees follow a Zipf distribution of exponent 0.8."""
    random, count, accounts = np.random.default_rng(seed), 2 * window, window // 4
    weights = np.arange(1, accounts + 1) ** -0.8
    source, other = (random.choice(accounts, count, p=weights / weights.sum()) for _ in range(2))
    target = np.where(source == other, (other + 1) % accounts, other)
    stream = edge_a_moment("transfers", window, pa.array(source), pa.array(["pays"] * count), pa.array(target))
    return with_amounts(stream, seed=seed)


def _ring(settings: Settings, *, length: int) -> Figure:
    """Return the CPU microseconds of a tuple, in pushes of 500, for rings in which amounts differ by 10 % at most."""
    stream = _transfers(window_of(settings, 10_000), seed=settings.seed)
    pattern = " . ".join(f"?x{place} ?e{place}:pays ?x{(place + 1) % length}" for place in range(length))
    conditions = (
        f"?e{place}.amount between 0.9 * ?e{place - 1}.amount and 1.1 * ?e{place - 1}.amount" for place in range(1, length)
    )
    query = rpq.Query(pattern, window=stream.window, filter=" and ".join(conditions), name="line")
    half, figures = len(stream) // 2, []
    for _ in range(settings.repeat + 1):  # the first one loads kernels
        engine = rpq.Engine(query, edges="parallel")
        engine.push(stream.table.slice(0, half), collect=False)
        started = process_time()
        for batch in stream.table.slice(half).to_batches(max_chunksize=500):
            engine.push(batch, collect=False)
        figures.append((process_time() - started) / half * 1e6)
    return Figure(figure=min(figures))


for _length, _bound in ((3, 100), (4, 300)):
    line(
        f"RING-{_length}",
        f"rings of {_length} transfers whose amounts differ by 10 % at most, degrees as in a Zipf distribution",
        unit="µs/tuple",
        sense="at most",
        bound=_bound,
    )(partial(_ring, length=_length))
