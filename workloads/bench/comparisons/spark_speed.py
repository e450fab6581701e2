"""The pipeline on Spark: replay compared with `rpq run`, two cores with one, chunks, micro-batches, and a cluster's model.

The model (`EdgeCosts`) computes the speed of a stream in n shares from the costs of one share. For an edge, r is the work
that every share repeats (names, snapshot graph, expiry), w the work that shares divide (the index and its rows), and c the
cost of transporting the edge to a share (unpacking, and the log of the window):

    edges per second = 1 / (r + c + w / n)

A share needs memory for the repeated data of every live edge (graph, names, and in a stream the log) and for its part of
the index.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rpq.errors import install_command
from rpq.workloads.bench import plots
from rpq.workloads.bench.comparisons.path_speed import stream_of
from rpq.workloads.bench.comparisons.spark_commands import spark_home
from rpq.workloads.bench.experiment import Column, Experiment, ExperimentResult, Record, Say, Settings
from rpq.workloads.bench.measure import median, ratio
from rpq.workloads.bench.streams import DAY_SECONDS, Stream, StreamError
from rpq.workloads.named_queries import UnknownQueryError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MACHINES = (1, 2, 4, 8, 16, 32, 64)


@dataclass(frozen=True, kw_only=True)
class EdgeCosts:
    """Seconds per edge: those that each share repeats, those divided over all shares, and those of the transport to one."""

    repeated_seconds: float
    divided_seconds: float
    carried_seconds: float

    def edges_per_second(self, shares: int) -> float:
        """Return the edges per second of all shares together, with one share per core.

        >>> costs = EdgeCosts(repeated_seconds=1e-6, divided_seconds=8e-6, carried_seconds=1e-6)
        >>> [round(costs.edges_per_second(shares)) for shares in (1, 4, 10**9)]
        [100000, 250000, 500000]
        """
        return 1 / (self.repeated_seconds + self.carried_seconds + self.divided_seconds / shares)

    def efficiency(self, shares: int) -> float:
        """Return the part of the work of all cores that one share alone would do.

        >>> round(EdgeCosts(repeated_seconds=1e-6, divided_seconds=8e-6, carried_seconds=1e-6).efficiency(6), 6)
        0.5
        """
        return self.edges_per_second(shares) / self.edges_per_second(1) / shares

    @property
    def half(self) -> float:
        """The number of shares at which half of the work is repetition, so that replication stops paying.

        >>> round(EdgeCosts(repeated_seconds=1e-6, divided_seconds=8e-6, carried_seconds=1e-6).half, 6)
        6.0
        """
        fixed = self.repeated_seconds + self.carried_seconds
        return 2 + self.divided_seconds / fixed if fixed else float("inf")


QUERIES = (("a2q/c2a*", 30), ("(a2q|c2a|c2q)*", 5))
"""Expressions with their windows in days, which slide by one day."""

BATCH_EXPRESSION = "a2q/c2a"
BATCH, WINDOW, UNMEASURED, MEASURED = 100_000, 300_000, 20, 5
"""The tuples of a micro-batch and of its window, and the numbers of unmeasured and of measured micro-batches: three fill
the window, and for half a minute the JVM compiles code at the same time.
"""

SMALL_BATCH = 3_000
"""The tuples of a small micro-batch, whose time is that of Spark itself."""

WARMUP_REPLAYS = 4
"""The number of unmeasured replays, for the same reason."""

SHARES = (1, 2, 4, 8, 1000)
CHUNKS = (1, 8, 32)
MAX_REPLAY, LEAST_SPEEDUP, MAX_BATCH_SECONDS = 2.0, 1.6, 1.5
MAX_SMALL_SECONDS = 0.8
WINDOW_OF_MODEL = 100_000_000
GIGABYTE = 1e9

HOW = (
    "Replay: `rpq.spark.replay_to` in one session, wall seconds, the median of several after the first four: the very first"
    " starts Python workers, and during the others the JVM still compiles its code; for comparison the seconds that `rpq "
    "run --threads N --output rows.parquet` reports for the same prepared data: engine, reading and writing. With one core "
    "all processes (the JVM, its workers and `rpq run`) are restricted to one processor, because a session of `local[1]` "
    "would use more than one (its JVM compiles, collects and moves rows beside the worker). Micro-batches: 100,000 tuples "
    "of a2q and c2a each, over a window of 300,000 (timestamps are positions; the stream is repeated with other names of "
    "vertices), wall seconds of a trigger after the first twenty, Parquet to Parquet, two shares on local[2]; small ones "
    "have 3,000, and are measured after the first forty. Chunks: processor seconds of the engines of all chunks of a "
    "replay, one after the other, as a multiple of one engine's; taken in: the edges that they take in, by the number of "
    "all edges. Shares: "
    "processor seconds of one of n engines over the whole stream, with rows counted. With so many shares that a share has "
    "no roots, the remaining work is what every share repeats (r); the rest is divided (w); packing, unpacking and the log "
    "of the window are measured separately (c). The model: 1 / (r + c + w / n) edges a second, one share a core."
)

COLUMNS = (
    Column(key="what", heading="what"),
    Column(key="query", heading="query"),
    Column(key="cores", heading="cores", format=","),
    Column(key="rows", heading="rows", format=","),
    Column(key="first_seconds", heading="first, s", format=".2f"),
    Column(key="seconds", heading="s", format=".2f"),
    Column(key="run_seconds", heading="rpq run, s", format=".2f"),
    Column(key="times_run", heading="× rpq run", format=".2f"),
    Column(key="speedup", heading="× one core", format=".2f"),
    Column(key="tuples", heading="tuples", format=","),
    Column(key="window_edges", heading="window, tuples", format=","),
    Column(key="shares", heading="shares", format=","),
    Column(key="chunks", heading="chunks", format=","),
    Column(key="edges", heading="edges", format=","),
    Column(key="taken_in", heading="taken in", format=".2f"),
    Column(key="cpu_seconds", heading="CPU s", format=".2f"),
    Column(key="times_one", heading="× one engine", format=".2f"),
    Column(key="repeated_us", heading="r, µs", format=".2f"),
    Column(key="divided_us", heading="w, µs", format=".2f"),
    Column(key="carried_us", heading="c, µs", format=".2f"),
    Column(key="half", heading="n at which half is repetition", format=".1f"),
    Column(key="edges_per_second", heading="edges/s", format=",.0f"),
    Column(key="efficiency", heading="efficiency", format=".2f"),
    Column(key="share_gigabytes", heading="GB a share, window of 100 M edges", format=",.1f"),
)


def measure(settings: Settings, say: Say) -> ExperimentResult:
    """Measure replays, micro-batches and shares, and compute the model of a cluster."""
    if find_spec("pyspark") is None:
        raise StreamError(f"PySpark is not installed; install it with: {install_command('spark')}")
    stream = stream_of("stackoverflow", settings, say)
    queries = [
        {"expression": text, "name": text, "size": days * DAY_SECONDS, "slide": DAY_SECONDS}
        for text, days in QUERIES
        if not settings.queries or text in settings.queries
    ]
    if not queries:
        names = ", ".join(text for text, _ in QUERIES)
        raise UnknownQueryError(f"--only {','.join(settings.queries)}: expected some of {names}")
    with tempfile.TemporaryDirectory(prefix="rpq-bench-spark-") as folder:
        bench = _Bench(Path(folder), stream, queries, settings, say)
        replays, rows_agree = bench.replays()
        chunks = bench.chunks()
        batches, small = bench.micro_batches()
        shares, costs = bench.shares()
    records = [*replays, *chunks, *batches, *small, *shares, *_model_records(costs)]
    return ExperimentResult(
        records=records,
        streams=[stream.describe()],
        checks={"a replay gives as many rows as rpq run": rows_agree},
        facts=_bounds(replays, batches, small),
    )


class _Bench:
    """The measurements, with a folder for all their files."""

    def __init__(
        self, folder: Path, stream: Stream, queries: Sequence[Mapping[str, Any]], settings: Settings, say: Say
    ) -> None:
        self._folder, self._stream, self._queries = folder, stream, queries
        self._settings, self._say = settings, say
        self._raw, self._data = str(folder / "raw.parquet"), str(folder / "data")
        pq.write_table(stream.table, self._raw)

    def replays(self) -> tuple[list[Record], bool]:
        """Measure replays and `rpq run` with one core and two; return records, and whether all row counts are equal."""
        records, agree = [], True
        alone: dict[str, float] = {}
        for cores in (1, 2):
            self._say(f"replay, local[{cores}] …")
            with _limit_cores(cores):
                found = self._session("replay", master=f"local[{cores}]", repeat=self._settings.repeat + WARMUP_REPLAYS)
            for query in self._queries:
                own = [one for one in found if one["query"] == query["name"]]
                seconds = median(one["seconds"] for one in own[WARMUP_REPLAYS:])
                cpu = [one["cpu_seconds"] for one in own[WARMUP_REPLAYS:] if one["cpu_seconds"] is not None]
                self._say(f"rpq run --threads {cores}, {query['name']} …")
                with _limit_cores(cores):
                    runs = [self._run(query, cores) for _ in range(self._settings.repeat)]
                agree &= len({one["rows"] for one in own} | {rows for _, rows in runs}) == 1
                run_seconds = median(seconds for seconds, _ in runs)
                alone.setdefault(query["name"], seconds)
                records.append(
                    {
                        "what": "replay",
                        "query": query["name"],
                        "cores": cores,
                        "rows": own[0]["rows"],
                        "first_seconds": own[0]["seconds"],
                        "seconds": seconds,
                        # The time of workers that Spark ended during a replay is lost.
                        "cpu_seconds": max(cpu, default=None),
                        "run_seconds": run_seconds,
                        "times_run": ratio(seconds, run_seconds),
                        "speedup": ratio(alone[query["name"]], seconds),
                    }
                )
        return records, agree

    def micro_batches(self) -> tuple[list[Record], list[Record]]:
        """Measure large and small micro-batches, after those that fill the window and warm the JVM."""
        self._say("micro-batches, local[2] …")
        kinds = {"micro-batch": BATCH, "small micro-batch": SMALL_BATCH}
        scale = self._settings.scale
        # The JVM compiles the planning of small ones for longer, as there is less else to do.
        unmeasured = dict(zip(kinds, (UNMEASURED, 2 * UNMEASURED), strict=True))
        streams = [
            self._stream_of_batches(what, max(100, round(size * scale)), unmeasured[what] + MEASURED)
            for what, size in kinds.items()
        ]
        found = self._session("stream", master="local[2]", streams=streams)
        shown = ("tuples", "rows", "window_edges", "seconds")
        large, small = (
            [
                {"what": what, "query": BATCH_EXPRESSION, "cores": 2, **{name: one[name] for name in shown}}
                for one in found
                if one["stream"] == what and one["batch"] >= unmeasured[what]
            ]
            for what in kinds
        )
        return large, small

    def _stream_of_batches(self, what: str, size: int, count: int) -> dict[str, Any]:
        """Write the files of a stream of micro-batches; return its description."""
        window = WINDOW * size // BATCH
        folder = self._folder / what.replace(" ", "-")
        folder.mkdir()
        for number, table in enumerate(_batches(self._stream, size, count)):
            pq.write_table(table, folder / f"{number}.parquet")
            os.utime(folder / f"{number}.parquet", (10**9 + number,) * 2)
        query = {"expression": BATCH_EXPRESSION, "name": BATCH_EXPRESSION, "size": window, "slide": max(1, window // 30)}
        return {"stream": what, "data": str(folder), "query": query, "folder": str(self._folder / f"{folder.name}-rows")}

    def chunks(self) -> list[Record]:
        """Measure the engines of all chunks of a replay."""
        self._say("chunks …")
        found = self._session("chunks", counts=CHUNKS, repeat=min(5, self._settings.repeat))
        alone = {one["query"]: one["cpu_seconds"] for one in found if one["chunks"] == 1}
        return [{"what": "chunks", **one, "times_one": ratio(one["cpu_seconds"], alone[one["query"]])} for one in found]

    def shares(self) -> tuple[list[Record], dict[str, _Costs]]:
        """Measure the cost of a share, and derive the cost of an edge."""
        self._say("shares …")
        found = self._session("shares", counts=SHARES, repeat=min(3, self._settings.repeat))
        records, costs = [], {}
        for query in self._queries:
            own = [one for one in found if one["query"] == query["name"]]
            carried = next(one for one in own if one["shares"] is None)
            engines = {one["shares"]: one for one in own if one["shares"] is not None}
            costs[query["name"]] = _Costs(engines, carried)
            of_query = [
                {"what": "share", **{name: one[name] for name in ("query", "shares", "cpu_seconds", "rows", "tuples")}}
                for one in engines.values()
            ]
            of_query[-1] |= costs[query["name"]].figures()
            records += of_query
        return records, costs

    def _session(self, what: str, **task: Any) -> list[dict[str, Any]]:
        """Run a measuring process in a separate process group; return its result."""
        place = {"data": self._data, "raw": self._raw, "folder": str(self._folder), "queries": self._queries}
        command = [sys.executable, "-m", "rpq.spark.benchmark", json.dumps({"what": what, **place, **task})]
        paths = os.pathsep.join(path for path in sys.path if path)
        home = spark_home(self._folder)
        variables = {**os.environ, "PYTHONPATH": paths, "SPARK_HOME": home, "SPARK_LOCAL_IP": "127.0.0.1"}
        with open(self._folder / "spark.log", "wb+") as log:
            ran = subprocess.run(
                command, stdout=subprocess.PIPE, stderr=log, env=variables, start_new_session=True, check=False
            )
            log.seek(0)
            if ran.returncode:
                raise StreamError(f"Spark: {log.read().decode(errors='replace')[-2000:]}")
        return [json.loads(line) for line in ran.stdout.splitlines() if line.startswith(b"{")]

    def _run(self, query: Mapping[str, Any], threads: int) -> tuple[float, int]:
        """Return the seconds and the number of rows of `rpq run`."""
        output, stats = self._folder / "rows.parquet", self._folder / "stats.json"
        window = ["--window", str(query["size"]), "--slide", str(query["slide"]), "--threads", str(threads)]
        command = [sys.executable, "-m", "rpq.cli", "run", query["expression"], "--input", self._data, *window]
        command += ["--output", str(output), "--stats", str(stats), "--quiet"]
        subprocess.run(command, check=True)
        figures = json.loads(stats.read_text())
        output.unlink()
        return figures["total_seconds"], figures["rows_added"] + figures["rows_removed"]


@contextmanager
def _limit_cores(cores: int) -> Iterator[None]:
    """Limit processes that are started within a block to `cores` processors, if the system supports that."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:cores])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class _Costs:
    """The costs of an edge, derived from the measurements of shares."""

    def __init__(self, engines: Mapping[int, Mapping[str, Any]], carried: Mapping[str, Any]) -> None:
        self._alone, self._bare = engines[1], engines[max(engines)]
        self._carried = carried
        edges = self._alone["tuples"]
        repeated = self._bare["cpu_seconds"] / edges
        self.edge = EdgeCosts(
            repeated_seconds=repeated,
            divided_seconds=max(0.0, self._alone["cpu_seconds"] / edges - repeated),
            carried_seconds=carried["carry_seconds"] / edges,
        )

    def figures(self) -> Record:
        """Return the costs as values of a record."""
        return {
            "repeated_us": self.edge.repeated_seconds * 1e6,
            "divided_us": self.edge.divided_seconds * 1e6,
            "carried_us": self.edge.carried_seconds * 1e6,
            "half": self.edge.half,
        }

    def share_gigabytes(self, shares: int, edges: int) -> float:
        """Return the gigabytes of one of `shares` shares over a window of `edges` edges: engine and log."""
        bare = self._bare["engine_bytes"] / max(1, self._bare["window_edges"])
        index = max(0.0, self._alone["engine_bytes"] / max(1, self._alone["window_edges"]) - bare)
        log = self._carried["log_bytes"] / max(1, self._carried["log_tuples"])
        return edges * (bare + log + index / shares) / GIGABYTE


def _model_records(costs: Mapping[str, _Costs]) -> Iterator[Record]:
    """Yield the records of the model."""
    for name, cost in costs.items():
        for shares in MACHINES:
            yield {
                "what": "model",
                "query": name,
                "shares": shares,
                "edges_per_second": cost.edge.edges_per_second(shares),
                "efficiency": cost.edge.efficiency(shares),
                "share_gigabytes": cost.share_gigabytes(shares, WINDOW_OF_MODEL),
            }


def _bounds(replays: Sequence[Record], batches: Sequence[Record], small: Sequence[Record]) -> dict[str, Any]:
    """Describe whether a goal was reached."""
    two = [record for record in replays if record["cores"] == 2]
    times = max((record["times_run"] for record in replays), default=0.0)
    speedup = min((record["speedup"] for record in two), default=0.0)
    seconds, small_seconds = (median(record["seconds"] for record in records) for records in (batches, small))
    return {
        f"replay, at most {MAX_REPLAY:g} times rpq run": f"{times:.2f}, {_goal_text(times <= MAX_REPLAY)}",
        f"two cores, at least {LEAST_SPEEDUP:g} times one": f"{speedup:.2f}, {_goal_text(speedup >= LEAST_SPEEDUP)}",
        f"micro-batch, at most {MAX_BATCH_SECONDS:g} s": f"{seconds:.2f} s, {_goal_text(seconds <= MAX_BATCH_SECONDS)}",
        f"small micro-batch, at most {MAX_SMALL_SECONDS:g} s": f"{small_seconds:.2f} s, "
        f"{_goal_text(small_seconds <= MAX_SMALL_SECONDS)}",
    }


def _goal_text(holds: bool) -> str:
    return "reached" if holds else "missed"


def _batches(stream: Stream, size: int, count: int) -> Iterator[pa.Table]:
    """Yield `count` batches of `size` tuples that the query of micro-batches reads, with positions as timestamps."""
    labels = stream.table["label"].cast(pa.string())
    table = stream.table.filter(pc.is_in(labels, pa.array(BATCH_EXPRESSION.split("/"))))
    rounds = -(-size * count // len(table))
    ends = {
        end: pa.chunked_array(
            [chunk for number in range(rounds) for chunk in _rename_vertices(table[end], number).chunks], pa.string()
        ).combine_chunks()
        for end in ("source", "target")
    }
    label = pa.chunked_array([chunk for _ in range(rounds) for chunk in table["label"].cast(pa.string()).chunks])
    positions = pa.array(np.arange(rounds * len(table)))
    whole = pa.table({**ends, "label": label.combine_chunks(), "timestamp": positions})
    for number in range(count):
        yield whole.slice(number * size, size)


def _rename_vertices(names: pa.ChunkedArray, number: int) -> pa.ChunkedArray:
    return pc.binary_join_element_wise(pa.scalar(str(number)), names.cast(pa.string()), ":")


def plot(figure: Figure, records: list[Record]) -> None:
    """Draw the edges per second of the model over the number of shares."""
    axes = figure.subplots()
    modelled = [record for record in records if record["what"] == "model"]
    for name in plots.values(modelled, "query"):
        own = [record for record in modelled if record["query"] == name]
        shares = [record["shares"] for record in own]
        axes.plot(shares, [record["edges_per_second"] for record in own], marker="o", label=name)
    axes.set_xscale("log", base=2)
    axes.set_xticks(list(MACHINES), [str(count) for count in MACHINES])
    axes.set_xlabel("shares, one a core")
    axes.set_ylabel("edges a second")
    axes.legend(fontsize="small")


EXPERIMENT = Experiment(
    name="spark",
    title="Spark: replay beside rpq run, micro-batches, and a model of a cluster",
    how=HOW,
    columns=COLUMNS,
    measure=measure,
    plot=plot,
    repeat=3,
)
