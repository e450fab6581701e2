"""This version of the engine against another one that is installed elsewhere: what a change of the code cost.

A host's speed moves by more in an hour than most changes do. So the two take turns, run by run, each in a process of its
own that stays, and what counts is the ratio within a turn.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from rpq.workloads import named_queries
from rpq.workloads.bench import measure
from rpq.workloads.bench.experiment import Column, Experiment, Outcome, Record, Say, Settings
from rpq.workloads.bench.result_files import figures_of_others
from rpq.workloads.bench.speed import stream_of
from rpq.workloads.bench.streams import StreamError

_TABLES = {"stackoverflow": "mathoverflow", "ldbc": "ldbc"}
"""Data sets, and the figures that name the queries of their tables."""

# Runs in either version: what is called here is public and there since the first one.
_WORKER = """
import sys, time
import pyarrow as pa
import rpq
with pa.memory_map(sys.argv[1]) as file:
    batches = pa.ipc.open_file(file)
    batches = [batches.get_batch(number) for number in range(batches.num_record_batches)]
for line in sys.stdin:
    expression, size, slide = line.split()
    engine = rpq.Engine(rpq.Query(expression, window=rpq.Window(size=int(size), slide=int(slide))))
    cpu = time.process_time()
    for batch in batches:
        engine.push(batch, collect=False)
    cpu = time.process_time() - cpu
    figures = engine.statistics()
    print(figures.engine_seconds, cpu, figures.rows_added, figures.rows_removed, flush=True)
"""


class Worker:
    """A process of one version, which holds a stream and runs queries over it."""

    def __init__(self, python: str, stream: Path) -> None:
        self._python = python
        self._process = subprocess.Popen(
            [python, "-c", _WORKER, str(stream)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, expression: str, size: int, slide: int) -> tuple[float, float, tuple[int, int]]:
        """Engine seconds, CPU seconds, and rows added and removed of one run in a fresh engine."""
        assert self._process.stdin is not None and self._process.stdout is not None
        print(expression, size, slide, file=self._process.stdin, flush=True)
        line = self._process.stdout.readline().split()
        if len(line) != 4:
            raise StreamError(f"{self._python} could not run {expression}; its message is above")
        return float(line[0]), float(line[1]), (int(line[2]), int(line[3]))

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


@contextmanager
def workers(pythons: list[str], batches: Iterator[pa.RecordBatch]) -> Iterator[list[Worker]]:
    """A process for each Python, all of which hold the same stream."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as closing:
        path = Path(folder) / "stream.arrow"
        first = next(batches)
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, first.schema) as writer:
            for batch in (first, *batches):
                writer.write_batch(batch)
        started = [Worker(python, path) for python in pythons]
        for worker in started:
            closing.callback(worker.close)
        yield started


def compare(ours: Worker, theirs: Worker, query: tuple[str, int, int], turns: int) -> Record:
    """Runs of both in turn, each being the first as often as the other."""
    ours.run(*query), theirs.run(*query)  # compiles, or loads kernels
    mine: list[tuple[float, float, tuple[int, int]]] = []
    others: list[tuple[float, float, tuple[int, int]]] = []
    for turn in range(turns):
        for runs, worker in ((mine, ours), (others, theirs))[:: 1 if turn % 2 else -1]:
            runs.append(worker.run(*query))
    seconds = [one[0] / other[0] for one, other in zip(mine, others, strict=True)]
    processor = [one[1] / other[1] for one, other in zip(mine, others, strict=True)]
    return {
        "before_seconds": measure.median(run[0] for run in others),
        "after_seconds": measure.median(run[0] for run in mine),
        "ratio": measure.median(seconds),
        "lowest_ratio": min(seconds),
        "highest_ratio": max(seconds),
        "fastest_ratio": min(run[0] for run in mine) / min(run[0] for run in others),
        "cpu_ratio": measure.median(processor),
        "rows": mine[0][2][0],
        "rows_equal": len({run[2] for run in (*mine, *others)}) == 1,
    }


def measure_versions(settings: Settings, say: Say) -> Outcome:
    """The queries of the tables of speed, on their streams."""
    if settings.other is None:
        raise StreamError("give --other: the Python of another installation of rpq")
    wanted = {name.upper() for name in settings.queries}
    records: list[Record] = []
    streams: list[dict[str, Any]] = []
    for dataset, figures in _TABLES.items():
        stream = stream_of(dataset, settings, say)
        streams.append(stream.describe())
        names = [known["name"] for known in figures_of_others(figures)["queries"] if not wanted or known["name"] in wanted]
        with workers([sys.executable, str(settings.other)], iter(stream.batches())) as (ours, theirs):
            for name in names:
                say(f"{dataset} {name} …")
                expression = named_queries.named_query(name, stream.queries)
                asked = (expression.replace(" ", ""), stream.window.size, stream.window.slide)
                found = compare(ours, theirs, asked, settings.repeat)
                records.append({"dataset": dataset, "query": name, "expression": expression, **found})
    return Outcome(
        records=records,
        streams=streams,
        checks={"rows are equal": all(record["rows_equal"] for record in records)},
        facts={"median of the ratios": round(measure.median(record["ratio"] for record in records), 4)},
    )


EXPERIMENT = Experiment(
    name="versions",
    title="This version against another one, turn by turn",
    how=(
        "Two processes, one for each version, take turns over the same stream, each run in a fresh engine, kernels warm, "
        "rows counted and not kept. Ratio: the median over the turns of this version's engine seconds divided by the "
        "other's in the same turn; of the fastest runs; and of CPU seconds. Below 1 this version is faster."
    ),
    columns=(
        Column(key="dataset", heading="data set"),
        Column(key="query", heading="query"),
        Column(key="expression", heading="expression"),
        Column(key="before_seconds", heading="other, s", format=".3f"),
        Column(key="after_seconds", heading="this, s", format=".3f"),
        Column(key="ratio", heading="ratio", format=".3f"),
        Column(key="lowest_ratio", heading="lowest", format=".3f"),
        Column(key="highest_ratio", heading="highest", format=".3f"),
        Column(key="fastest_ratio", heading="fastest runs", format=".3f"),
        Column(key="cpu_ratio", heading="CPU", format=".3f"),
        Column(key="rows", heading="rows", format=","),
    ),
    measure=measure_versions,
)
