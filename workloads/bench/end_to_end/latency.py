"""Latency through the public API: one tuple at a time, and small batches, with a million names in the dictionary."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

import rpq
from rpq.errors import install_command
from rpq.workloads.bench import measure as measuring
from rpq.workloads.bench.end_to_end import http_server as served
from rpq.workloads.bench.end_to_end import kafka_topics as through_topics
from rpq.workloads.bench.end_to_end import pipes as through
from rpq.workloads.bench.end_to_end import stream_processors as neighbours
from rpq.workloads.bench.experiment import Column, Experiment, ExperimentResult, Record, Say, Settings
from rpq.workloads.bench.streams import BATCH_ROWS, DATA_SETS, Stream, generate, load_files

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMES = 1_000_000
SINGLES = 20_000
SEGMENTS = 4
BATCH = 1_000
EXPRESSION = "a2q/c2a"

HOW = (
    "Wall-clock time of a call of the engine's public API and of reading its rows (`rows()`), with a2q/c2a over 30 days; "
    "relevant tuples only. For a million names in the dictionary, half a million edges between separate vertices are pushed "
    "first; the tuples are those of the stream after four places. Deletes are of edges in the window, the youngest first, "
    "without the very first delete, which builds the supports. "
    "Names that come and go: inserts of two new names each into an empty engine until there are a million names, and then "
    "until as many have left the window again, so that tables grow, edges are collected and names released in between. "
    + through.HOW
    + served.HOW
    + through_topics.HOW
    + neighbours.HOW
)

COLUMNS = (
    Column(key="call", heading="call"),
    Column(key="names", heading="names", format=","),
    Column(key="calls", heading="calls", format=","),
    Column(key="rows", heading="rows", format=","),
    Column(key="p50_us", heading="p50, µs", format=",.1f"),
    Column(key="p99_us", heading="p99, µs", format=",.1f"),
    Column(key="p999_us", heading="p99.9, µs", format=",.1f"),
    Column(key="maximum_us", heading="max, µs", format=",.0f"),
    Column(key="tuples_per_second", heading="tuples/s", format=",.0f"),
)

Tuple = tuple[str, str, str, int]
Call = Callable[[rpq.Engine, Tuple], rpq.Changes]

CALLS: dict[str, Call] = {
    "insert": lambda engine, one: engine.insert(*one),
    "push_rows, one row": lambda engine, one: engine.push_rows([one]),
    "push, one row": lambda engine, one: engine.push(source=[one[0]], target=[one[1]], label=[one[2]], timestamp=[one[3]]),
}


def measure(settings: Settings, say: Say) -> ExperimentResult:
    """Measure single tuples by every call, deletes, new and expiring names, and batches."""
    stream = _stream(settings, say)
    query = rpq.Query(EXPRESSION, window=stream.window)
    measuring.warm_up(query, stream)
    names = max(2, round(NAMES * settings.scale))
    singles = max(SEGMENTS, round(SINGLES * settings.scale))
    records = []
    for call, push in CALLS.items():
        say(f"{call} …")
        records.append(_single_tuples(call, push, query, stream, names=names, calls=singles))
    say("delete …")
    records.append(_deletes(query, stream, names=names, calls=singles))
    say("insert, new names …")
    records.append(_new_names(query, names=names))
    say(f"push, {BATCH:,} rows …")
    records += [_batches(query, stream, names=count) for count in (0, names)]
    inserts = [record["rows"] for record in records if record["call"] in CALLS]
    by_command, checks = _through_command(settings, stream, say)
    return ExperimentResult(
        records=[*records, *by_command],
        streams=[stream.describe()],
        checks={"every call gives the same rows": len(set(inserts)) == 1, **checks},
    )


def _through_command(settings: Settings, stream: Stream, say: Say) -> tuple[list[Record], dict[str, bool]]:
    """Measure events through pipes, over HTTP and, with a broker, through topics; return records and checks."""
    paced = through.lines_of(stream, max(200, round(through.EVENTS * settings.scale)))
    full = through.lines_of(stream, max(200, round(through.FULL * settings.scale)))
    ways: dict[str, Callable[[list[bytes], int | None], tuple[through.Clock, float]]] = {}
    ways["stdin → stdout"] = through.through_pipes
    if served.is_there():
        ways["HTTP → SSE"] = served.through_server
    else:
        say(f"HTTP to server-sent events is left out; install it with: {install_command('serve')}")
    records, are_same = [], True
    for way, send in ways.items():
        for load, lines, rate in ((f"{through.RATE:,}/s", paced, through.RATE), ("full load", full, None)):
            say(f"{way}, {load} …")
            clock, speed = send(lines, rate)
            are_same &= len(clock.took) == _rows_of(lines)
            records.append(_record_of_events(f"{way}, {load}", clock, lines, speed))
    if settings.kafka is None:
        say("no --kafka HOST:PORT: the measurement from topic to topic is left out")
        return records, {"the command gives the engine's rows": are_same}
    topics = through_topics.KafkaTopics(settings.kafka)
    try:
        by_topics, checks = _by_topics(topics, paced, full[: max(200, round(through_topics.FULL * settings.scale))], say)
        say("Kafka → Kafka, a full topic …")
        of_topics = {"Kafka → Kafka, a full topic": through_topics.throughput(topics, full)}
        if through_topics.is_avro_there():
            say("Kafka → Kafka, a full topic in Avro …")
            with through_topics.schema_server() as url:
                options = ("--format", "avro", "--schema-registry", url)
                avro = through_topics.throughput(topics, through_topics.in_avro(full), *options)
            of_topics["Kafka → Kafka, a full topic in Avro"] = avro
        else:
            say(f"messages in Avro are left out; install them with: {install_command('avro')}")
    finally:
        topics.close()
    full_topics: list[Record] = [
        {"call": call, "calls": len(full), "rows": rows, "tuples_per_second": speed}
        for call, (rows, speed) in of_topics.items()
    ]
    are_same &= all(rows == _rows_of(full) for rows, _ in of_topics.values())
    return [*records, *by_topics, *full_topics], {"the command gives the engine's rows": are_same, **checks}


def _by_topics(
    topics: through_topics.KafkaTopics, paced: list[bytes], full: list[bytes], say: Say
) -> tuple[list[Record], dict[str, bool]]:
    """Measure events from topic to topic, through the command and other processors; return records and checks."""
    records: list[Record] = []
    are_all_there, are_same = True, True
    for load, lines, rate in ((f"{through.RATE:,}/s", paced, through.RATE), ("full load", full, None)):
        expected, joined = _rows_of(lines), neighbours.rows_of(lines)
        ours: set[tuple[str, str]] | None = None
        for name in (None, *neighbours.NEIGHBOURS):
            way = "Kafka → Kafka" if name is None else f"Kafka → {name} → Kafka"
            if name is not None and not neighbours.is_there(name):
                say(f"{name} is left out; install it with: {install_command('bench-kafka')}")
                records.append({"call": f"{way}, {load}: not installed"})
                continue
            say(f"{way}, {load} …")
            start = None if name is None else neighbours.start_process(name, topics)
            rows = expected if name is None else joined
            clock, speed, pairs = through_topics.through_topics(topics, lines, rate, rows=rows, start=start)
            records.append(_record_of_events(f"{way}, {load}", clock, lines, speed))
            are_all_there &= len(clock.took) == rows
            ours = pairs if ours is None else ours
            are_same &= pairs == ours
    way = "Kafka → Kafka, read uncommitted"
    say(f"{way}, {through.RATE:,}/s …")
    clock, speed, _ = through_topics.through_topics(
        topics, paced, through.RATE, rows=_rows_of(paced), isolation="read_uncommitted"
    )
    records.append(_record_of_events(f"{way}, {through.RATE:,}/s", clock, paced, speed))
    return records, {
        "rows that pass through topics arrive exactly once": are_all_there,
        "the neighbours give the same pairs": are_same,
    }


def _record_of_events(call: str, clock: through.Clock, lines: list[bytes], speed: float) -> Record:
    record = _record(call, clock.took, names=0, rows=len(clock.took))
    return {**record, "names": None, "calls": len(lines), "tuples_per_second": speed}


def _rows_of(lines: list[bytes]) -> int:
    """Return the number of rows of an engine for these events."""
    window = rpq.Window(size=through.WINDOW, slide=through.SLIDE)
    engine = rpq.Engine(rpq.Query(EXPRESSION, window=window))
    table = pa.json.read_json(pa.BufferReader(b"\n".join(lines)))
    return sum(engine.push(batch, collect=False).added for batch in table.to_batches(max_chunksize=BATCH_ROWS))


def _stream(settings: Settings, say: Say) -> Stream:
    dataset = DATA_SETS["stackoverflow"]
    if settings.data is not None:
        return load_files(dataset, settings.data)
    say("no --data: using a generated stream")
    return generate(dataset, edges=max(4_000, round(settings.edges * settings.scale)), seed=settings.seed)


def _with_names(query: rpq.Query, names: int, time: int) -> rpq.Engine:
    """Return an engine whose window contains edges between `names` separate vertices, all at one time."""
    engine = rpq.Engine(query, memory_limit=1 << 60)
    for first in range(0, names // 2, BATCH_ROWS):
        numbers = range(first, min(names // 2, first + BATCH_ROWS))
        label = pa.array(["a2q"] * len(numbers)).dictionary_encode()
        engine.push(
            source=[f"from {number}" for number in numbers],
            target=[f"to {number}" for number in numbers],
            label=label,
            timestamp=np.full(len(numbers), time),
            collect=False,
        )
    return engine


def _segments(query: rpq.Query, stream: Stream, *, names: int) -> Iterator[tuple[rpq.Engine, pa.Table]]:
    """Yield, for places in the stream, an engine with the window before and `names` more names, and the tuples after."""
    timestamps = stream.table["timestamp"].to_numpy()
    for part in range(SEGMENTS):
        place = int(len(stream) * (part + 1) / (SEGMENTS + 1))
        now = int(timestamps[place])
        engine = _with_names(query, names, now)
        first = int(np.searchsorted(timestamps, now - query.window.size))
        engine.push(stream.table.slice(first, place - first), collect=False)
        last = int(np.searchsorted(timestamps, now + query.window.size - query.window.slide))
        yield engine, stream.table.slice(place, last - place)


def _relevant(tuples: pa.Table, query: rpq.Query) -> list[Tuple]:
    is_relevant = pc.is_in(tuples["label"].cast(pa.string()), value_set=pa.array(EXPRESSION.split("/")))
    columns = (tuples.filter(is_relevant)[name].to_pylist() for name in ("source", "target", "label", "timestamp"))
    return list(zip(*columns, strict=True))


def _single_tuples(call: str, push: Call, query: rpq.Query, stream: Stream, *, names: int, calls: int) -> Record:
    """Measure relevant tuples of the stream by one call."""
    nanoseconds: list[int] = []
    rows = 0
    for engine, tuples in _segments(query, stream, names=names):
        for one in _relevant(tuples, query)[: calls // SEGMENTS]:
            started = time.perf_counter_ns()
            rows += len(push(engine, one).rows())
            nanoseconds.append(time.perf_counter_ns() - started)
    return _record(call, nanoseconds, names=names, rows=rows)


def _deletes(query: rpq.Query, stream: Stream, *, names: int, calls: int) -> Record:
    """Measure deletes of edges of the window, the youngest first."""
    nanoseconds: list[int] = []
    rows = 0
    for engine, tuples in _segments(query, stream, names=names):
        edges = _relevant(tuples, query)[: calls // SEGMENTS + 1]
        engine.push_rows(edges, collect=False)
        for number, (source, target, label, _) in enumerate(reversed(edges)):
            now = engine.time
            started = time.perf_counter_ns()
            rows += len(engine.delete(source, target, label, now).rows())
            if number:
                nanoseconds.append(time.perf_counter_ns() - started)
    return _record("delete", nanoseconds, names=names, rows=rows)


def _new_names(query: rpq.Query, *, names: int) -> Record:
    """Measure inserts of two new names each: the first half fills the window, the second half expires the first."""
    engine = rpq.Engine(query, memory_limit=1 << 60)
    edges = names // 2
    nanoseconds: list[int] = []
    rows = 0
    for number in range(2 * edges):
        one = (f"from {number}", f"to {number}", "a2q", number * query.window.size // edges)
        started = time.perf_counter_ns()
        rows += len(engine.insert(*one).rows())
        nanoseconds.append(time.perf_counter_ns() - started)
    return _record("insert, names that come and go", nanoseconds, names=names, rows=rows)


def _batches(query: rpq.Query, stream: Stream, *, names: int) -> Record:
    """Measure record batches of a thousand rows of all labels; over the whole stream if `names` is 0."""
    nanoseconds: list[int] = []
    rows = tuples_pushed = 0
    parts = _segments(query, stream, names=names) if names else [(rpq.Engine(query), stream.table)]
    for engine, tuples in parts:
        for batch in tuples.combine_chunks().to_batches(max_chunksize=BATCH):
            if batch.num_rows < BATCH:
                continue
            started = time.perf_counter_ns()
            changes = engine.push(batch)
            nanoseconds.append(time.perf_counter_ns() - started)
            rows += len(changes)
            tuples_pushed += batch.num_rows
    return _record(f"push, {BATCH:,} rows", nanoseconds, names=names, rows=rows, tuples=tuples_pushed)


def _record(call: str, nanoseconds: list[int], *, names: int, rows: int, tuples: int | None = None) -> Record:
    values = np.sort(np.array(nanoseconds, np.float64)) / 1e3
    quantiles: dict[str, Any] = {
        key: float(values[min(len(values) - 1, int(part * len(values)))]) if len(values) else None
        for key, part in (("p50_us", 0.5), ("p99_us", 0.99), ("p999_us", 0.999), ("maximum_us", 1.0))
    }
    total = float(values.sum())
    tuples = len(values) if tuples is None else tuples
    return {
        "call": call,
        "names": names,
        "calls": len(values),
        "rows": rows,
        **quantiles,
        "tuples_per_second": tuples / total * 1e6 if total else None,
    }


def plot(figure: Figure, records: list[Record]) -> None:
    """Draw quantiles of each call, on a logarithmic axis."""
    axes = figure.subplots()
    shown = [record for record in records if record.get("p50_us") is not None and record.get("names") is not None]
    quantiles = {"p50": "p50_us", "p99": "p99_us", "p99.9": "p999_us", "maximum": "maximum_us"}
    for name, key in quantiles.items():
        axes.plot([record[key] for record in shown], range(len(shown)), "o", label=name)
    axes.set_yticks(range(len(shown)), [f"{record['call']} ({record['names']:,} names)" for record in shown])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel("microseconds a call")
    axes.legend(fontsize="small")


EXPERIMENT = Experiment(
    name="latency",
    title="Latency of the public API: a2q/c2a over 30 days",
    paper="The paper measures single tuples inside its engine (figure 4b); an application waits for the whole call.",
    how=HOW,
    columns=COLUMNS,
    measure=measure,
    plot=plot,
)
