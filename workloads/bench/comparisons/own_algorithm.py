"""Somebody's own algorithm beside the engine: the same rows, tuples a second, and how much of a stream it reached."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import rpq
from rpq.workloads.bench import measure as measuring
from rpq.workloads.bench import plots
from rpq.workloads.bench.experiment import Column, Experiment, ExperimentResult, Record, Say, Settings
from rpq.workloads.bench.streams import Stream

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Pairs = Iterable[tuple[Hashable, Hashable]]
Cases = Iterable[tuple[Stream, Sequence[tuple[str, rpq.Query]]]]
"""Streams, each with named queries."""
PIECE = 256
"""The number of tuples between two comparisons of the rows, and two looks at the clock."""


class Algorithm(Protocol):
    """The methods of a class that is run beside the engine; it is created for each query with an expression and a window.

    A late edge, whose timestamp is outside the window, is never inserted.
    """

    def insert(self, source: Hashable, target: Hashable, label: str, timestamp: int) -> Pairs:
        """Insert an edge; return the pairs that enter the answer."""

    def delete(self, source: Hashable, target: Hashable, label: str, timestamp: int) -> Pairs:
        """Delete an edge, which may be absent; return the pairs that leave the answer."""

    def advance(self, time: int) -> object:
        """Move the window, before the first tuple of each slide; pairs that expire leave without rows."""


AlgorithmClass = Callable[[str, rpq.Window], Algorithm]
"""Creates an algorithm from an expression and a window."""


def experiment(algorithm: AlgorithmClass, name: str, cases: Cases) -> Experiment:
    """Return the experiment that runs an algorithm, which has this name in its table and figure, over streams."""

    def measure(settings: Settings, say: Say) -> Iterator[ExperimentResult]:
        records: list[Record] = []
        described: list[dict[str, object]] = []
        for stream, queries in cases:
            described.append(stream.describe())
            for label, query in queries:
                say(f"{stream.name} {label} …")
                run = {"data": stream.name, "query": label, "expression": query.expression}
                records.append(run | run_beside(algorithm, query, stream, seconds=settings.seconds))
                yield ExperimentResult(
                    records=records, streams=described, facts={"algorithm": name}, checks={"rows are equal": True}
                )

    def plot(figure: Figure, records: list[Record]) -> None:
        names = plots.values(records, "data")
        for axes, data in zip(plots.panels(figure, len(names)), names, strict=True):
            chosen = [record for record in records if record["data"] == data]
            for offset, key, label in ((-0.2, "engine_per_second", "engine"), (0.2, "own_per_second", name)):
                places = [place + offset for place in range(len(chosen))]
                axes.bar(places, [record[key] for record in chosen], 0.4, label=label)
            plots.decades(axes)
            plots.reached(axes, [(place + 0.2, record["own_per_second"], record["reached"])
                                 for place, record in enumerate(chosen)])  # fmt: skip
            axes.set_xticks(range(len(chosen)), [record["query"] for record in chosen], fontsize="small")
            axes.set_title(data)
        figure.axes[0].set_ylabel("tuples a second of CPU")
        plots.legend_above(figure)

    return Experiment(
        name="algorithm",
        title=f"{name} beside the engine",
        how="Both read the same tuples in pieces of 256, until the algorithm has used --seconds of CPU for a query; after "
        "each piece their rows are compared. The engine's seconds are those of a run of its own over the tuples reached.",
        columns=COLUMNS,
        measure=measure,
        plot=plot,
        seconds=10.0,
    )


COLUMNS = (
    Column(key="data", heading="data"),
    Column(key="query", heading="query"),
    Column(key="expression", heading="expression"),
    Column(key="tuples", heading="tuples (of the stream)", format=",", of="stream_tuples"),
    Column(key="rows", heading="rows, equal", format=","),
    Column(key="own_seconds", heading="own, s", format=".3f"),
    Column(key="engine_seconds", heading="engine, s", format=".3f"),
    Column(key="own_per_second", heading="own, tuples/s", format=",.0f"),
    Column(key="engine_per_second", heading="engine, tuples/s", format=",.0f"),
    Column(key="ratio", heading="own, × engine", format=",.1f"),
)


def run_beside(algorithm_class: AlgorithmClass, query: rpq.Query, stream: Stream, *, seconds: float) -> Record:
    """Run an algorithm for some seconds of CPU, and the engine over the same tuples.  Raises `RowsDifferError`."""
    measuring.warm_up(query, stream)
    window = stream.window
    algorithm, engine = algorithm_class(query.expression, window), rpq.Engine(query)
    now = bound = -math.inf
    done, rows, spent = 0, 0, 0.0
    while done < len(stream) and spent < seconds:
        piece = stream.table.slice(done, PIECE)
        own: Counter[tuple[Any, ...]] = Counter()
        tuples = piece.to_pylist()
        begun = time.process_time()
        for edge in tuples:
            source, target, label, timestamp = edge["source"], edge["target"], edge["label"], edge["timestamp"]
            now = max(now, timestamp)
            if window.lower_bound(now) > bound:
                bound = window.lower_bound(now)
                algorithm.advance(now)
            if edge.get("delete"):
                own.update((*pair, now, "-") for pair in algorithm.delete(source, target, label, timestamp))
            elif timestamp > bound:
                own.update((*pair, now, "+") for pair in algorithm.insert(source, target, label, timestamp))
        spent += time.process_time() - begun
        wanted = Counter((row.source, row.target, row.timestamp, row.op) for row in engine.push(piece))
        if own != wanted:
            missing, extra = (sorted(map(str, rows)) for rows in (wanted - own, own - wanted))
            raise measuring.RowsDifferError(
                f"{query.expression}, {stream.name}: the rows of the tuples {done + 1} to {done + len(tuples)} differ: "
                f"{len(missing)} are missing{', such as ' + missing[0] if missing else ''}; "
                f"{len(extra)} are not the engine's{', such as ' + extra[0] if extra else ''}"
            )
        rows += own.total()
        done += len(tuples)
    ours = measuring.run_median(query, stream.first(done), repeat=3)
    return {
        "tuples": done,
        "stream_tuples": len(stream),
        "reached": done / len(stream),
        "rows": rows,
        "own_seconds": spent,
        "engine_seconds": ours.cpu_seconds,
        "own_per_second": done / spent if spent else None,
        "engine_per_second": done / ours.cpu_seconds if ours.cpu_seconds else None,
        "ratio": measuring.ratio(spent, ours.cpu_seconds),
    }
