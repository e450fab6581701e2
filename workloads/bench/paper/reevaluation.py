"""Incremental evaluation compared with evaluation from scratch (figure 11)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

import rpq
from rpq.errors import install_command
from rpq.workloads import named_queries
from rpq.workloads.baselines.reevaluation import (
    Baseline,
    BaselineProcess,
    Edge,
    InsertedEdges,
    ProductSearch,
    SparqlStore,
    TimeIsUpError,
)
from rpq.workloads.bench import measure as measuring
from rpq.workloads.bench import plots
from rpq.workloads.bench.experiment import (
    Column,
    Experiment,
    ExperimentResult,
    Record,
    Say,
    Settings,
    queries_of,
    streams_of,
)
from rpq.workloads.bench.streams import Stream

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COMPARED = 10
"""The number of evaluations of a sample whose pairs are compared."""
NEIGHBOURS = 30
"""The number of tuples before a sampled one that are inserted one by one, without being timed."""


def measure(settings: Settings, say: Say) -> ExperimentResult:
    """Measure both baselines and the engine on the same sample of tuples."""
    records: list[Record] = []
    streams, checks = [], {}
    for stream in streams_of(settings, ["yago", "stackoverflow"], say):
        streams.append(stream.describe())
        for name, query in queries_of(settings, stream):
            whole = measuring.run_median(query, stream, repeat=settings.repeat)
            batch_us = whole.engine_seconds / max(1, whole.relevant) * 1e6
            for system, make in baselines(name, query, stream, say).items():
                say(f"{stream.name} {name}: {system} …")
                description: Record = {"data": stream.name, "query": name, "expression": query.expression, "system": system}
                record = description | compare(query, stream, make, settings) | {"batch_mean_us": batch_us}
                records.append(record | {"batch_ratio": record["baseline_mean_us"] / batch_us})
    checks["baselines and engine agree on the answers"] = all(record["agree"] is not False for record in records)
    checks["answers were compared wherever a baseline came to an end"] = all(
        record["compared"] or record["stopped"] for record in records
    )
    return ExperimentResult(records=records, streams=streams, checks=checks)


def baselines(name: str, query: rpq.Query, stream: Stream, say: Say) -> dict[str, Callable[[], Baseline]]:
    """Return the baselines that are installed, by name."""
    found: dict[str, Callable[[], Baseline]] = {"search": partial(ProductSearch, query.expression)}
    try:
        import pyoxigraph  # noqa: F401
    except ImportError:
        say(f"no SPARQL store: pyoxigraph is missing; install it with: {install_command('bench')}")
        return found
    labels = named_queries.BINDINGS[stream.queries].labels_of(name)
    return found | {"pyoxigraph": partial(SparqlStore, named_queries.TEMPLATES[name], labels)}


def compare(query: rpq.Query, stream: Stream, make: Callable[[], Baseline], settings: Settings) -> Record:
    """Run engine and baseline to the middle of the stream, then time both on sampled relevant tuples.

    Both also receive the tuples between two sampled tuples, without measurement. For a sampled tuple, the baseline changes
    its edges and evaluates the query, until its time is used up; the engine's inserts are timed in a run of their own.
    """
    middle = len(stream) // 2
    relevant = _relevant_rows(query, stream)
    sampled = _sample(relevant[relevant >= middle], settings)
    timing = _Timing(insert_seconds(query, stream, sampled), seconds=settings.seconds)
    engine = _engine_at(query, stream, middle)
    window: InsertedEdges[Edge] = InsertedEdges(query.window)
    feed = _Feed(stream, relevant, window)
    done = middle
    with BaselineProcess(make) as baseline:
        baseline.change(*feed.up_to(middle))
        timing.warm(baseline)
        for row in sampled:
            if timing.is_over:
                break
            engine.push(stream.table.slice(done, row + 1 - done), collect=False)
            baseline.change(*feed.up_to(row))
            done = row + 1
            timing.evaluate(baseline, feed.up_to(done), lambda: engine.answers().pairs(), query)
    return timing.figures() | {"edges": len(window)}


def insert_seconds(query: rpq.Query, stream: Stream, sampled: list[int]) -> list[float]:
    """Return the seconds of `insert` for the tuples in some rows of the second half, in the order of the stream.

    The tuples just before each are inserted one by one too: an engine that receives single tuples has its code in the
    cache, which a table of many rows, or another program that evaluates in between, would displace.
    """
    done = len(stream) // 2
    engine = _engine_at(query, stream, done)
    seconds: list[float] = []
    for row in sampled:
        near = max(done, row - NEIGHBOURS)
        engine.push(stream.table.slice(done, near - done), collect=False)
        for before in range(near, row):
            measuring.push_one(engine, stream.table, before)
        seconds.append(measuring.push_one(engine, stream.table, row)[1])
        done = row + 1
    return seconds


def _engine_at(query: rpq.Query, stream: Stream, tuples: int) -> rpq.Engine:
    """Return an engine that has the first tuples of the stream."""
    engine = rpq.Engine(query)
    for batch in stream.first(tuples).batches():
        engine.push(batch, collect=False)
    return engine


class _Timing:
    """The seconds of evaluations, until the time of the baseline is used up, beside those of the engine's inserts."""

    def __init__(self, inserted: list[float], *, seconds: float) -> None:
        self._inserted = inserted
        self._seconds = seconds
        self._every = max(1, len(inserted) // COMPARED)
        self._spent = 0.0
        self._stopped = False
        self._evaluated: list[float] = []
        self._agreements: list[bool] = []

    @property
    def is_over(self) -> bool:
        """True if the baseline's time is used up."""
        return self._stopped or self._spent >= self._seconds

    def warm(self, baseline: BaselineProcess) -> None:
        """Evaluate once without counting it."""
        try:
            baseline.evaluate([], [], seconds=self._seconds)
        except TimeIsUpError:
            self._stopped = True

    def evaluate(
        self,
        baseline: BaselineProcess,
        change: tuple[list[Edge], list[Edge]],
        answers: Callable[[], set[Any]],
        query: rpq.Query,
    ) -> None:
        """Measure the time of an evaluation; compare the pairs of some evaluations."""
        try:
            elapsed = baseline.evaluate(*change, seconds=self._seconds)
            self._evaluated.append(elapsed)
            self._spent += elapsed
            if (len(self._evaluated) - 1) % self._every == 0:
                pairs = baseline.pairs(seconds=self._seconds)
                self._agreements.append(_without_empty(pairs, query) == _without_empty(answers(), query))
        except TimeIsUpError:
            self._stopped = True

    def figures(self) -> Record:
        """Return means and tails in microseconds; for a baseline that never finished, the time when it was stopped."""
        evaluated = self._evaluated or [self._seconds]
        ours, theirs = float(np.mean(self._inserted)), float(np.mean(evaluated))
        p99, their_p99 = measuring.quantile(self._inserted, 0.99), measuring.quantile(evaluated, 0.99)
        return {
            "sampled": len(self._inserted),
            "evaluated": len(self._evaluated),
            "stopped": self._stopped,
            "push_mean_us": ours * 1e6,
            "push_p99_us": p99 and p99 * 1e6,
            "baseline_mean_us": theirs * 1e6,
            "baseline_p99_us": their_p99 and their_p99 * 1e6,
            "throughput_ratio": theirs / ours,
            "latency_ratio": measuring.ratio(their_p99, p99),
            "compared": len(self._agreements),
            "agree": all(self._agreements) if self._agreements else None,
        }


class _Feed:
    """A feed of the relevant tuples of a stream to a window, in order, which reports the changes of the window."""

    def __init__(self, stream: Stream, relevant: np.ndarray, window: InsertedEdges[Edge]) -> None:
        self._table = stream.table
        self._relevant = relevant
        self._window = window
        self._next = 0

    def up_to(self, row: int) -> tuple[list[Edge], list[Edge]]:
        """Return the edges that were added and removed by the tuples before `row`."""
        last = int(np.searchsorted(self._relevant, row))
        rows = self._table.take(self._relevant[self._next : last]).to_pydict()
        self._next = last
        changed: dict[Edge, bool] = {}
        for source, label, target, timestamp in zip(
            *(rows[n] for n in ("source", "label", "target", "timestamp")), strict=True
        ):
            is_new, left = self._window.insert((source, label, target), timestamp)
            changed |= dict.fromkeys(left, False)
            if is_new:
                changed[source, label, target] = True
        if row:
            # Time advances with every tuple, relevant or not.
            changed |= dict.fromkeys(self._window.advance(self._table["timestamp"][row - 1].as_py()), False)
        return [edge for edge, is_new in changed.items() if is_new], [edge for edge, is_new in changed.items() if not is_new]


def _relevant_rows(query: rpq.Query, stream: Stream) -> np.ndarray:
    is_relevant = query.reads
    labels = stream.table["label"].to_pylist()
    used = {label for label in set(labels) if is_relevant(label)}
    return np.flatnonzero([label in used for label in labels])


def _sample(rows: np.ndarray, settings: Settings) -> list[int]:
    """Draw a seeded sample in the order of the stream, smaller than requested if there are too few rows."""
    random = np.random.default_rng(settings.seed)
    return sorted(random.choice(rows, min(settings.sample, len(rows)), replace=False).tolist())


def _without_empty(pairs: set[Any], query: rpq.Query) -> set[Any]:
    """Return the pairs without those of zero-length paths, which SPARQL counts and the engine does not."""
    return {pair for pair in pairs if pair[0] != pair[1]} if query.dfa.accepts_empty else pairs


def plot(figure: Figure, records: list[Record]) -> None:
    """Draw the speedup over each baseline, a panel for each data set."""
    names = plots.values(records, "data")
    for axes, name in zip(plots.panels(figure, len(names)), names, strict=True):
        for number, system in enumerate(plots.values(records, "system")):
            chosen = [record for record in records if record["data"] == name and record["system"] == system]
            axes.bar(
                [place + 0.4 * number - 0.2 for place in range(len(chosen))],
                [record["batch_ratio"] for record in chosen],
                0.4,
                label=system,
            )
            axes.set_xticks(range(len(chosen)), [record["query"] for record in chosen], fontsize="small")
        axes.set(title=name, ylabel="an evaluation / a tuple in batches")
        plots.decades(axes)
    plots.legend_above(figure)


EXPERIMENT = Experiment(
    name="reevaluation",
    title="Against evaluating anew for each tuple (figure 11)",
    how="From the middle of the stream on, sampled relevant tuples: one call of `insert`, in a run of the engine alone that "
    f"inserts the {NEIGHBOURS} tuples before each one by one, compared with the change of a store and an evaluation of "
    "the query over the window (counting the distinct pairs); a baseline stops when its time is used up, and is ended if a "
    "single evaluation takes longer (the ratio is then a lower bound). "
    "In batches: engine seconds per relevant tuple of a whole run. Pairs are compared without zero-length matches. Ratios: "
    "theirs / ours.",
    paper="Up to three orders of magnitude more throughput and less latency than Virtuoso, which evaluates the path over "
    "the whole window for each tuple, on Yago2s.",
    columns=(
        Column(key="data", heading="data"),
        Column(key="query", heading="query"),
        Column(key="expression", heading="expression"),
        Column(key="system", heading="against"),
        Column(key="sampled", heading="tuples", format=","),
        Column(key="evaluated", heading="evaluated", format=","),
        Column(key="stopped", heading="ended early"),
        Column(key="edges", heading="edges in window", format=","),
        Column(key="push_mean_us", heading="insert, µs", format=",.0f"),
        Column(key="baseline_mean_us", heading="anew, µs", format=",.0f"),
        Column(key="throughput_ratio", heading="ratio", format=",.1f"),
        Column(key="latency_ratio", heading="p99 ratio", format=",.1f"),
        Column(key="batch_mean_us", heading="in batches, µs", format=",.1f"),
        Column(key="batch_ratio", heading="ratio", format=",.0f"),
        Column(key="compared", heading="compared", format=","),
        Column(key="agree", heading="agree"),
    ),
    measure=measure,
    plot=plot,
    seconds=3.0,
)
