"""Commands as users type them, cold: `rpq run` and `rpq spark replay`, with a model of the processor time of the latter.

The model (`fit`) is a sum of terms for the parts of a replay.  With E edges, R rows, and m executors:

    CPU seconds = start + m · executor + E · read + R · row + own

`own` is the processor time of `rpq run` with one thread for the same rows, without its start: reading, the engine, writing.
`read` is an edge beyond that, `row` a row beyond that, `executor` a JVM with its Python.  The start of a session on one
machine, and that of the driver of a cluster, have each their own term.  The terms are fitted to every other line, and all
lines are compared with them.  Few tasks take in few edges again; many machines are computed with `CHUNKS`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rpq.errors import install_command
from rpq.workloads.bench.comparisons.path_speed import stream_of
from rpq.workloads.bench.experiment import Column, Experiment, ExperimentResult, Record, Say, Settings, earlier_result
from rpq.workloads.bench.machine import commit_of_checkout
from rpq.workloads.bench.streams import DAY_SECONDS, Stream, StreamError

NAME = "spark-commands"
MAX_DEVIATION = 0.25
CORES, MACHINES = 16, (2, 4, 8)
"""The cores of a machine, and the numbers of machines that are compared with one."""
CHUNKS = 3.3
"""The processor time of all chunks, as a multiple of one engine's, if they take in as much as a plan allows: no less than
`rpq bench spark` measures."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """A query over the first edges of the stream, with a window in days that slides by one day."""

    expression: str
    days: int
    part: float

    def words(self) -> list[str]:
        """Return the query as words of a command."""
        return [self.expression, "--window", str(self.days * DAY_SECONDS), "--slide", str(DAY_SECONDS)]


JOBS = {
    "1": Job(expression="a2q/c2a", days=30, part=0.002),
    "2": Job(expression="a2q/c2a*", days=30, part=0.01),
    "3": Job(expression="a2q/c2a*", days=30, part=0.1),
    "4": Job(expression="a2q/c2a*", days=30, part=1.0),
    "5": Job(expression="(a2q|c2a|c2q)*", days=5, part=1.0),
    "6": Job(expression="(a2q|c2a|c2q)*", days=64, part=1.0),
}
"""From a thousand rows of output to a hundred million, over MathOverflow."""

CLUSTER_JOBS, EXECUTORS = ("2", "4"), (1, 2, 4)


@dataclass(frozen=True, kw_only=True)
class CommandLine:
    """A command over a job: `rpq run` with one thread, or a replay by some tasks, each on an executor if there are some."""

    job: str
    tasks: int = 0
    executors: int = 0

    @property
    def name(self) -> str:
        """The name of the line, which continues it in a run that resumes."""
        where = f"{self.executors} executors" if self.executors else f"{self.tasks} tasks"
        return f"job {self.job}, {where if self.tasks else 'rpq run'}"

    def command(self, data: Path, output: Path, stats: Path) -> list[str]:
        """Return the command, from the word `rpq` on."""
        words = [*JOBS[self.job].words(), "--input", str(data), "--stats", str(stats), "--quiet"]
        if not self.tasks:
            return ["run", *words, "--threads", "1", "--output", f"{output}.parquet"]
        master = f"local-cluster[{self.executors},1,1024]" if self.executors else f"local[{self.tasks}]"
        return ["spark", "replay", *words, "--master", master, "--partitions", str(self.tasks), "--output", str(output)]


LINES = (
    *(CommandLine(job=job) for job in JOBS),
    *(CommandLine(job=job, tasks=2) for job in JOBS),
    *(CommandLine(job=job, tasks=count, executors=count) for job in CLUSTER_JOBS for count in EXECUTORS),
)


def measure(settings: Settings, say: Say) -> Iterator[ExperimentResult]:
    """Measure the lines; after each, yield all that are measured, with the model once half of the replays have its terms.

    A run that resumes measures the lines that are missing at this commit; code that is not committed may have changed since.
    """
    if find_spec("pyspark") is None:
        raise StreamError(f"PySpark is not installed; install it with: {install_command('spark')}")
    stream = stream_of("stackoverflow", settings, say)
    commit = commit_of_checkout()
    resumes = settings.resumes and not (commit or "").endswith("+")
    earlier = earlier_result(settings, NAME) if resumes else None
    records = earlier["records"] if earlier else []
    record_of_line = {one["name"]: one for one in records if "name" in one and one.get("commit") == commit}
    lines = [line for line in LINES if not settings.queries or line.job in settings.queries]
    with tempfile.TemporaryDirectory(prefix="rpq-bench-spark-") as place:
        folder = Path(place)
        for number, line in enumerate(lines, start=1):
            if line.name not in record_of_line:
                say(f"{number} of {len(lines)}: {line.name} …")
                record = _measure_line(line, _data(folder, stream, line.job), folder)
                record_of_line[line.name] = {**record, "commit": commit}
            yield _outcome([(one, record_of_line[one.name]) for one in lines if one.name in record_of_line], stream)


def _data(folder: Path, stream: Stream, job: str) -> Path:
    """Write the edges of a job as a data set, once."""
    count = max(1, round(len(stream.table) * JOBS[job].part))
    data = folder / f"edges-{count}"
    if not data.exists():
        data.mkdir()
        edges = stream.table.slice(0, count)
        plain = {name: edges[name].cast(pa.string()) for name in ("source", "target", "label")}
        pq.write_table(
            pa.table({**plain, "timestamp": edges["timestamp"], "op": ["+"] * len(edges)}), data / "0.parquet"
        )
    return data


def _measure_line(line: CommandLine, data: Path, folder: Path) -> Record:
    """Run a command in a session of its own; return its seconds, and the processor seconds of all that it started."""
    output, stats = folder / "rows", folder / "stats.json"
    load = os.getloadavg()[0]
    words = line.command(data, output, stats)
    cpu, seconds = _run_to_end([sys.executable, "-m", "rpq.cli", *words], folder / "messages", spark_home(folder))
    figures = json.loads(stats.read_text())
    each = figures["queries"].values() if "partitions" in figures else [figures]
    master = words[words.index("--master") + 1] if line.tasks else None
    shutil.rmtree(output, ignore_errors=True)
    Path(f"{output}.parquet").unlink(missing_ok=True)
    return {
        "name": line.name,
        "command": f"rpq spark replay --master {master}" if line.tasks else "rpq run --threads 1",
        "query": JOBS[line.job].expression,
        "days": JOBS[line.job].days,
        "edges": pq.read_metadata(data / "0.parquet").num_rows,
        "rows": sum(one["rows_added"] + one["rows_removed"] for one in each),
        "seconds": seconds,
        "cpu_seconds": cpu,
        "load": load,
    }


def spark_home(folder: Path) -> str:
    """Return a folder of links to PySpark's files, so that files that clusters leave there are removed with it."""
    home = folder / "spark"
    if not home.is_dir():
        home.mkdir()
        found = find_spec("pyspark")
        assert found is not None and found.origin is not None
        for entry in Path(found.origin).parent.iterdir():
            (home / entry.name).symlink_to(entry)
    return str(home)


def _run_to_end(command: Sequence[str], messages: Path, home: str) -> tuple[float, float]:
    """Run a command; return the processor seconds of everything that it starts, and its wall seconds."""
    paths = os.pathsep.join(path for path in sys.path if path)
    variables = {**os.environ, "PYTHONPATH": paths, "SPARK_HOME": home, "SPARK_LOCAL_IP": "127.0.0.1"}
    task = json.dumps({"what": "command", "command": command})
    with open(messages, "wb") as file:
        measuring = [sys.executable, "-m", "rpq.spark.benchmark", task]
        done = subprocess.run(measuring, stdout=subprocess.PIPE, stderr=file, env=variables, check=False)
    if done.returncode:
        raise StreamError(f"{' '.join(command)}: {messages.read_text(errors='replace')[-2000:]}")
    found = json.loads(done.stdout)
    return found["cpu_seconds"], found["seconds"]


TERMS = ("session", "driver", "executor", "read", "row")


def fit(terms: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    """Return the coefficients, none negative, with the least squares of relative deviations.

    >>> fit(np.array([[1.0, 1.0], [1.0, 2.0], [1.0, 4.0]]), np.array([3.0, 5.0, 9.0])).round(6).tolist()
    [1.0, 2.0]
    """
    scaled, ones = terms / seconds[:, None], np.ones(len(seconds))
    best, least = np.zeros(terms.shape[1]), np.inf
    for size in range(1, terms.shape[1] + 1):
        for chosen in map(list, combinations(range(terms.shape[1]), size)):
            some = np.linalg.lstsq(scaled[:, chosen], ones, rcond=None)[0]
            error = float(np.square(scaled[:, chosen] @ some - ones).sum())
            if (some >= 0).all() and error < least - 1e-12:
                best, least = np.zeros(terms.shape[1]), error
                best[chosen] = some
    return best


def _terms(line: CommandLine, record: Record) -> list[float]:
    """Return the factors of the coefficients of a replay, with edges and rows in millions."""
    edges, rows = record["edges"] / 1e6, record["rows"] / 1e6
    return [float(not line.executors), float(line.executors > 0), line.executors, edges, rows]


def _outcome(measured: Sequence[tuple[CommandLine, Record]], stream: Stream) -> ExperimentResult:
    """Return the lines, the model of the replays, and the numbers of machines of a cluster that pay off."""
    runs = {line.job: one for line, one in measured if not line.tasks}
    own = _own_seconds(runs)
    replays = [(line, one) for line, one in measured if line.tasks and line.job in own]
    checks = {
        f"job {job}: all commands have the same rows": len({one["rows"] for line, one in measured if line.job == job}) == 1
        for job in runs
    }
    records = [{"what": "command", **one} for _, one in measured]
    facts: dict[str, Any] = {}
    if len(replays) >= 2 * len(TERMS):
        found = _model(replays, own)
        facts = {f"{name}_seconds": value for name, value in zip(TERMS, found.tolist(), strict=True)}
        places = {one["name"]: one for one in records}
        deviations = []
        for number, (line, one) in enumerate(replays):
            seconds = float(np.dot(found, _terms(line, one)) + own[line.job])
            deviations.append(seconds / one["cpu_seconds"] - 1)
            places[line.name] |= {
                "modelled_cpu_seconds": seconds, "deviation": deviations[-1], "is_fitted": number % 2 == 0
            }  # fmt: skip
        largest = max(map(abs, deviations))
        reached = "reached" if largest <= MAX_DEVIATION else "missed"
        facts[f"model, at most {MAX_DEVIATION:.0%} from the CPU seconds measured"] = f"{largest:.0%}, {reached}"
        records += _machines(measured, own, found)
    return ExperimentResult(records=records, streams=[stream.describe()], checks=checks, facts=facts)


def _own_seconds(runs: Mapping[str, Record]) -> dict[str, float]:
    """Return the processor seconds of `rpq run` by job, without those of its start: the least of all jobs."""
    start = min((one["cpu_seconds"] for one in runs.values()), default=0.0)
    return {job: one["cpu_seconds"] - start for job, one in runs.items()}


def _model(replays: Sequence[tuple[CommandLine, Record]], own: Mapping[str, float]) -> np.ndarray:
    """Return the coefficients of the terms, fitted to every other line; `own` seconds have the coefficient one."""
    fitted = replays[::2]
    terms = np.array([_terms(line, one) for line, one in fitted])
    seconds = np.array([one["cpu_seconds"] - own[line.job] for line, one in fitted])
    return fit(terms, seconds)


def _machines(
    measured: Sequence[tuple[CommandLine, Record]], own: Mapping[str, float], coefficients: np.ndarray
) -> Iterator[Record]:
    """Yield the edges from which n machines beat one, by job.

    One machine runs `rpq run` with a job for each core.  Spark starts in the processor seconds of a driver and then of
    executors, all at once; then all cores divide the work of as many chunks, and what Spark adds for edges and rows.
    """
    _, driver, executor, million_read, million_row = coefficients.tolist()
    start, read, row = driver + executor, million_read / 1e6, million_row / 1e6
    alone = min((one["cpu_seconds"] for line, one in measured if not line.tasks), default=0.0)
    works = [(one, own[line.job]) for line, one in measured if not line.tasks and JOBS[line.job].part == 1]
    works.append(({"query": "any of 1 ms an edge", "edges": 1_000_000, "rows": 0}, 1_000.0))
    for one, seconds in works:
        edge, rows = seconds / one["edges"], one["rows"] / one["edges"]
        for machines in MACHINES:
            gain = CHUNKS * edge / CORES - (CHUNKS * edge + read + rows * row) / (CORES * machines)
            edges = (start - alone) / gain if gain > 0 else None
            yield {
                "what": "machines",
                "command": f"{machines} machines of {CORES} cores",
                "query": one["query"],
                "days": one.get("days"),
                "edges_to_win": edges,
                "rows_to_win": None if edges is None or not rows else edges * rows,
            }


EXPERIMENT = Experiment(
    name=NAME,
    title="Spark: commands as users type them, and a model of their processor time",
    how=(
        "Each command once, as a process of its own, from its start to its end, over the first edges of MathOverflow as a "
        "folder of Parquet, rows to Parquet. CPU seconds are those of all processes of the command, sampled. Executors: "
        "local-cluster[n,1,1024], a task each. Model: CPU seconds = session (or driver of a cluster) + executors · "
        "executor + million edges · read + million rows · row + CPU seconds of rpq run --threads 1 less its "
        "start; fitted to every other replay, none of the terms negative, and compared with all. Machines: the edges from "
        "which Spark beats rpq run --jobs 16 on one machine of 16 cores, if both divide their work evenly over all cores, "
        "the network is no limit, Spark starts in the CPU seconds of a driver and of an executor, and all chunks, of both, "
        "take 3.3 times the CPU seconds of one engine. The load is that of the machine before the command: above the number "
        "of its cores, wall seconds are too long."
    ),
    columns=(
        Column(key="command", heading="command"),
        Column(key="query", heading="query"),
        Column(key="days", heading="window, days", format=","),
        Column(key="edges", heading="edges", format=","),
        Column(key="rows", heading="rows", format=","),
        Column(key="seconds", heading="s", format=".1f"),
        Column(key="cpu_seconds", heading="CPU s", format=".1f"),
        Column(key="modelled_cpu_seconds", heading="CPU s, model", format=".1f"),
        Column(key="deviation", heading="deviation", format="+.0%"),
        Column(key="is_fitted", heading="fitted"),
        Column(key="edges_to_win", heading="edges to be faster", format=",.0f"),
        Column(key="rows_to_win", heading="rows", format=",.0f"),
        Column(key="load", heading="load", format=".1f"),
    ),
    measure=measure,
)
