"""A program that measures replays, micro-batches and the work of single shares in one session of Spark, or a whole command.

Its argument is the task as JSON; it prints a line of JSON for each figure.  `rpq bench spark` runs it as a separate process,
so that the processor time of everything that Spark starts can be determined.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

import rpq
from rpq.language.hypercube import Share
from rpq.run.time_division import TimeDivision
from rpq.spark.batch.chunks import ChunkEngines, ChunkPlan, Divider, Slicer, plan_chunks, unpack_slice
from rpq.spark.columns import TRIPLES
from rpq.spark.division import EdgeDivision, OwnEdges, engine_bytes
from rpq.spark.envelopes import engine_columns, pack, unpack
from rpq.spark.stream.window_log import MemoryChunks, WindowLog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PUSHED_ROWS = 1 << 14
CHUNK_SLICE_ROWS = 1 << 12
"""The number of tuples in a slice of a short stream, so that it can be cut into many chunks."""
_UTIME, _SESSION = 11, 3
"""The positions of the processor times and of the session of a process in its line of /proc, after its name."""

Figures = Iterator[dict[str, Any]]


def measure(task: Mapping[str, Any]) -> Figures:
    """Yield the figures of a task, "replay", "stream", "shares", "chunks" or "command"."""
    if task["what"] == "command":
        yield run_to_end(task["command"])
        return
    if task["what"] == "shares":
        yield from shares(task)
        return
    if task["what"] == "chunks":
        yield from chunks(task)
        return
    from rpq.spark.jvm.session import open_session

    session = open_session(
        master=task["master"], settings=task.get("settings", {}), py_files=tuple(task.get("py_files", ()))
    )
    try:
        yield from (replays if task["what"] == "replay" else micro_batches)(session, task)
    finally:
        session.stop()


def replays(session: SparkSession, task: Mapping[str, Any]) -> Figures:
    """Replay the queries in turn, `repeat` times each; the first replay of each starts workers and loads kernels."""
    from rpq.spark.batch.prepare import prepare
    from rpq.spark.batch.replay import replay_to
    from rpq.spark.workers.check import check_workers

    data, folder = task["data"], Path(task["folder"])
    if not os.path.exists(data):
        prepare(session, task["raw"], data)
    queries = [_query(one) for one in task["queries"]]
    check_workers(session, *queries)
    for run in range(task["repeat"]):
        for query in queries:
            cpu, started = processor_seconds(), time.perf_counter()
            rows = replay_to(session, data, str(folder / f"rows-{time.time_ns()}"), query)
            seconds = time.perf_counter() - started
            now = processor_seconds()
            yield {
                "query": query.name,
                "run": run,
                "seconds": seconds,
                "cpu_seconds": None if cpu is None or now is None else now - cpu,
                "rows": sum(rows.values()),
            }


def micro_batches(session: SparkSession, task: Mapping[str, Any]) -> Figures:
    """Yield the figures of the micro-batches of each stream of files, one file each."""
    for one in task["streams"]:
        yield from ({"stream": one["stream"], **figures} for figures in _micro_batches_of(session, one))


def _micro_batches_of(session: SparkSession, stream: Mapping[str, Any]) -> Figures:
    from rpq.spark.stream.plan import stream_to
    from rpq.spark.workers.check import check_workers

    query = _query(stream["query"])
    check_workers(session, query)
    schema = session.read.parquet(stream["data"]).schema
    edges = session.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(stream["data"])
    folder = Path(stream["folder"])
    writer = stream_to(edges, str(folder / "streamed"), query, checkpoint=str(folder / "state"))
    running = writer.trigger(availableNow=True).start()
    running.awaitTermination()
    for one in running.recentProgress:
        if one.numInputRows:
            counted = one.observedMetrics["rpq"]
            yield {
                "batch": one.batchId,
                "tuples": one.numInputRows,
                "rows": counted["rows"],
                "window_edges": counted["window"],
                "memory_bytes": counted["memory"],
                "seconds": one.durationMs["triggerExecution"] / 1000,
            }


def shares(task: Mapping[str, Any]) -> Figures:
    """Yield the processor seconds of one share of each query, for the numbers of shares in `counts`, without Spark.

    With so many shares that a share has no roots, the figure is the work that every share repeats.  A further figure per
    query is the cost of bringing tuples to a share: packing and unpacking them, and writing them to its log.
    """
    tuples = _without_dictionaries(pq.read_table(task["raw"]))
    for one in task["queries"]:
        query = _query(one)
        for count in task["counts"]:
            found = [_run_share(query, tuples, count) for _ in range(task["repeat"])]
            seconds, engine = min(found, key=lambda pair: pair[0])
            figures = engine.statistics()
            yield {
                "query": query.name,
                "shares": count,
                "cpu_seconds": seconds,
                "rows": figures.rows_added + figures.rows_removed,
                "tuples": len(tuples),
                "window_edges": figures.edges_live,
                "engine_bytes": engine_bytes(engine),
            }
        yield {"query": query.name, "shares": None, **_transport_figures(query, tuples)}


def chunks(task: Mapping[str, Any]) -> Figures:
    """Yield the processor seconds of all chunks of a replay, for the numbers of chunks in `counts`, without Spark.

    The first number is one.  Whatever they take in, as many chunks are made.
    """
    tuples = _without_dictionaries(pq.read_table(task["raw"]))
    count = len(tuples)
    places = {"op": ["+"] * count, "file": pa.nulls(count, pa.string()), "row": pa.array(range(count), pa.int64())}
    for name, column in places.items():
        tuples = tuples.append_column(name, pa.array(column))
    for query in map(_query, task["queries"]):
        division = TimeDivision([query])
        slicer = Slicer([query], [], division, whole=False)
        slices = pa.Table.from_batches(list(slicer(tuples.to_batches(max_chunksize=CHUNK_SLICE_ROWS))))
        listed = slices.drop_columns("edges").to_pylist()
        plans = [plan_chunks(listed, division, most=number, max_taken_in=float("inf")) for number in task["counts"]]
        turns = [[_run_chunks(query, plan, slices, listed) for plan in plans] for _ in range(task["repeat"] + 1)]
        edges = sum(one["tuples"] for one in listed)
        for plan, runs in zip(plans, zip(*turns[1:], strict=True), strict=True):
            figures = {"query": query.name, "chunks": len(plan.chunks), "edges": edges, "taken_in": runs[0][1] / edges}
            yield {**figures, "cpu_seconds": min(seconds for seconds, _ in runs)}


def _run_chunks(
    query: rpq.Query, plan: ChunkPlan, slices: pa.Table, listed: Sequence[Mapping[str, Any]]
) -> tuple[float, int]:
    """Return the processor seconds of the engines of all chunks, and the number of edges that they take in."""
    parts = {(one["file"], one["row"]): of_slice for one, of_slice in zip(listed, plan.parts, strict=True)}
    options: dict[str, Any] = {"shares": 1, "threads": 1, "memory_limit": None, "sizes": {}}
    engines = ChunkEngines([query], plan.chunks, edges=TRIPLES, **options)
    tasks: dict[int, list[pa.RecordBatch]] = {}
    taken_in = 0
    for batch in Divider(parts, engines.keys, 1, EdgeDivision([query], 1))(slices.to_batches()):
        tasks.setdefault(batch["partition"][0].as_py(), []).append(batch)
        taken_in += 0 if batch["is_own"][0].as_py() else len(unpack_slice(batch["edges"][0]))
    started = time.process_time()
    for batches in tasks.values():
        for _ in engines.changes(batches):
            pass
    return time.process_time() - started, taken_in


def _without_dictionaries(tuples: pa.Table) -> pa.Table:
    """Return tuples without dictionary encoding, as they arrive from Spark."""
    fields = [
        field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field for field in tuples.schema
    ]
    return tuples.cast(pa.schema(fields))


def _run_share(query: rpq.Query, tuples: pa.Table, count: int) -> tuple[float, rpq.Engine]:
    """Run the first of `count` shares over all tuples, and return its seconds and its engine."""
    engine, own = rpq.Engine(query, share=(0, count)), OwnEdges([query], share=Share(0, count))
    started = time.process_time()
    for begin in range(0, len(tuples), PUSHED_ROWS):
        edges, until = own.select_in_order(tuples.slice(begin, PUSHED_ROWS), engine.time)
        if len(edges):
            engine.push(edges, collect=False)
        if until is not None and (engine.time is None or until > engine.time):
            engine.advance(until)
    return time.process_time() - started, engine


def _transport_figures(query: rpq.Query, tuples: pa.Table) -> dict[str, Any]:
    """Return the processor seconds to pack tuples once, and to unpack and log them per share, and the size of the log."""
    if "op" not in tuples.column_names:
        tuples = tuples.append_column("op", pa.array(["+"] * len(tuples)))
    begun = time.process_time()
    envelopes = [one["edges"][0].as_py() for one in pack(tuples.to_batches(), [query])]
    packed = time.process_time()
    chunks = MemoryChunks()
    log = WindowLog(chunks=chunks, queries=[query])
    logged = 0
    for envelope in envelopes:
        arrived = engine_columns(unpack([envelope]).table)
        if len(arrived):
            log.append(arrived, time=int(arrived["timestamp"][-1].as_py()))
            logged += len(arrived)
    ended = time.process_time()
    return {
        "tuples": len(tuples),
        "pack_seconds": packed - begun,
        "carry_seconds": ended - packed,
        "kept": logged,
        "log_tuples": log.rows,
        "log_bytes": sum(map(len, chunks.values())),
    }


SAMPLE_SECONDS = 0.2


def run_to_end(command: Sequence[str]) -> dict[str, Any]:
    """Run a command in a session of its own; return its wall seconds, and the processor seconds of all its processes.

    Workers that Spark ends are lost to their parents, so the session is sampled, and the largest sum counts.
    """
    before, started, most = os.times(), time.perf_counter(), 0.0
    process = subprocess.Popen(command, stdout=sys.stderr, start_new_session=True)
    while process.poll() is None:
        most = max(most, processor_seconds(process.pid) or 0.0)
        time.sleep(SAMPLE_SECONDS)
    seconds, after = time.perf_counter() - started, os.times()
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    waited = after.children_user + after.children_system - before.children_user - before.children_system
    return {"seconds": seconds, "cpu_seconds": max(most, waited)}


def processor_seconds(session: int | None = None) -> float | None:
    """Return the processor seconds of all processes of a session, including ended children; None without /proc.

    It is the session of this process, or that of the id of its first process.
    """
    own, ticks = session or (os.getsid(0) if hasattr(os, "getsid") else None), 0
    if own is None or not os.path.exists("/proc/self/stat"):
        return None
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            fields = Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[_SESSION]) == own:
            ticks += sum(map(int, fields[_UTIME : _UTIME + 4]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _query(one: Mapping[str, Any]) -> rpq.Query:
    window = rpq.Window(size=one["size"], slide=one["slide"])
    return rpq.Query(one["expression"], window=window, name=one["name"])


def _main(arguments: Sequence[str]) -> None:
    for figures in measure(json.loads(arguments[0])):
        print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    _main(sys.argv[1:])
