"""Latency from topic to topic of Kafka, of the command and of other programs that read a topic and write another.

Also its speed over a full topic, of JSON or of Avro, whose schema a server of this process has.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from rpq.workloads.bench.end_to_end.pipes import WINDOW, Clock, command, send_paced

FULL = 200_000
"""The number of events at full load, where the time of each event is measured."""

START_SECONDS = 180.0
QUIET_SECONDS = 20.0
"""The time without rows after which a run counts as finished."""

DOUBLE_SECONDS = 0.3
"""The time to wait for unexpected additional rows."""

PROBE = (
    b'{"source":"probe","target":"between","label":"a2q","timestamp":%d}' % (-10 * WINDOW),
    b'{"source":"between","target":"probed","label":"c2a","timestamp":%d}' % (-10 * WINDOW),
)
"""Two edges that cause a row, with timestamps long before the first event: when the row arrives, a run is ready."""

HOW = (
    "From topic to topic, with a broker on this machine (`--kafka`): a consumer reads committed rows, or all of them where "
    "a line says so, the first events are sent after the row of two probe edges has arrived, and tuples/s are measured "
    "until the last row has arrived. A full topic: a run over a topic with a million events, on one core, from its first "
    "message to its last commit; in Avro the times are of the type timestamp-micros. "
)

Isolation = Literal["read_committed", "read_uncommitted"]

Start = Callable[[str, str, str], Sequence[str]]
"""A function that returns the command that reads a topic and writes another, with a folder for its files."""


class KafkaTopics:
    """Topics that exist for a measurement."""

    def __init__(self, brokers: str) -> None:
        from confluent_kafka.admin import AdminClient

        self.brokers = brokers
        self._admin = AdminClient({"bootstrap.servers": brokers})
        self._topics: list[str] = []

    def new(self) -> str:
        """Create a topic, and return its name."""
        from confluent_kafka.cimpl import NewTopic

        topic = f"rpq-bench-{uuid.uuid4().hex[:12]}"
        for creation in self._admin.create_topics([NewTopic(topic, 1, 1)]).values():
            creation.result()
        self._topics.append(topic)
        return topic

    def uri(self, topic: str) -> str:
        """Return the name of a topic for the command."""
        return f"kafka://{self.brokers}/{topic}"

    def close(self) -> None:
        """Delete the topics, and the topics that other programs derived from them."""
        topics = self._admin.list_topics(timeout=30).topics
        obsolete = [topic for topic in topics if any(name in topic for name in self._topics)]
        for deletion in self._admin.delete_topics(obsolete).values() if obsolete else ():
            deletion.result()

    def producer(self) -> Any:
        """Return a producer that sends without delay."""
        from confluent_kafka import Producer

        return Producer({"bootstrap.servers": self.brokers, "linger.ms": 1, "queue.buffering.max.messages": 5_000_000})

    def run(self, read: str, written: str, folder: str) -> list[str]:
        """Return the command that runs the query from topic to topic, with a checkpoint."""
        state = str(Path(folder) / "run.state")
        return command("--input", self.uri(read), "--output", self.uri(written), "--checkpoint", state)


class RowsOfTopic(threading.Thread):
    """A thread that reads rows at a level of isolation; `pairs` contains their ends."""

    def __init__(self, brokers: str, topic: str, clock: Clock, isolation: Isolation) -> None:
        super().__init__(daemon=True)
        self._brokers, self._topic, self._clock, self._isolation = brokers, topic, clock, isolation
        self.started, self.over = threading.Event(), threading.Event()
        self.pairs: set[tuple[str, str]] = set()

    def run(self) -> None:
        """Read rows until `over` is set."""
        from confluent_kafka import Consumer, TopicPartition

        settings = {"bootstrap.servers": self._brokers, "group.id": uuid.uuid4().hex, "isolation.level": self._isolation}
        consumer = Consumer({**settings, "fetch.wait.max.ms": 5, "enable.auto.commit": False})
        consumer.assign([TopicPartition(self._topic, 0, 0)])
        while not self.over.is_set():
            for message in _messages(consumer):
                at = time.perf_counter_ns()
                row = json.loads(message.value())
                if row["timestamp"] < 0:
                    self.started.set()
                    continue
                self._clock.record(row["timestamp"], at)
                self.pairs.add((row["source"], row["target"]))
        consumer.close()


def _messages(consumer: Any) -> Iterator[Any]:
    first = consumer.poll(0.1)
    found = [] if first is None else [first, *consumer.consume(10_000, 0)]
    return (message for message in found if message.error() is None)


def through_topics(
    topics: KafkaTopics,
    lines: Sequence[bytes],
    rate: int | None,
    *,
    rows: int,
    start: Start | None = None,
    isolation: Isolation = "read_committed",
) -> tuple[Clock, float, set[tuple[str, str]]]:
    """Send events through `start` (by default the command) until `rows` rows arrive; return times, tuples/s and pairs."""
    read, written = topics.new(), topics.new()
    clock, producer = Clock(len(lines)), topics.producer()
    reader = RowsOfTopic(topics.brokers, written, clock, isolation)

    def send(part: Sequence[bytes]) -> None:
        for line in part:
            producer.produce(read, line)
        producer.poll(0)

    with tempfile.TemporaryDirectory(prefix="rpq-latency-") as folder, open(Path(folder) / "log", "wb+") as log:
        process = subprocess.Popen((start or topics.run)(read, written, folder), stdout=log, stderr=log)
        try:
            reader.start()
            send(PROBE)
            until = time.monotonic() + START_SECONDS
            while not reader.started.wait(0.1):
                if process.poll() is not None or time.monotonic() > until:
                    raise RuntimeError(f"{' '.join(process.args)}: gives no row: {_end_of(log.name)}")  # type: ignore[arg-type]
            began = clock.last = time.monotonic()
            send_paced(lines, rate, send, clock)
            producer.flush(60)
            while len(clock.took) < rows and time.monotonic() - clock.last < QUIET_SECONDS:
                if process.poll() is not None:
                    raise RuntimeError(f"{' '.join(process.args)}: has ended: {_end_of(log.name)}")  # type: ignore[arg-type]
                time.sleep(0.02)
            seconds = max(clock.last - began, 1e-9)
            time.sleep(DOUBLE_SECONDS)
        finally:
            reader.over.set()
            _end_process(process)
            reader.join()
    return clock, len(lines) / seconds, reader.pairs


def _end_of(log: str) -> str:
    return Path(log).read_text(errors="replace")[-1000:]


def _end_process(process: subprocess.Popen[bytes]) -> None:
    """Terminate a process, and kill it if it does not end."""
    process.terminate()
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


AVRO = {
    "type": "record",
    "name": "Edge",
    "fields": [
        *({"name": name, "type": "string"} for name in ("source", "target", "label")),
        {"name": "timestamp", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    ],
}


def is_avro_there() -> bool:
    """Return whether the packages of the extra avro are installed."""
    return all(find_spec(name) is not None for name in ("confluent_kafka", "fastavro", "orjson"))


def in_avro(lines: Sequence[bytes]) -> list[bytes]:
    """Return events as messages in Avro, of a schema with the number 1."""
    import fastavro

    schema = fastavro.parse_schema(AVRO)
    found = []
    for line in lines:
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, schema, json.loads(line))
        found.append(b"\0\0\0\0\1" + stream.getvalue())
    return found


@contextmanager
def schema_server() -> Iterator[str]:
    """Serve the schema as a registry does; yield its URL."""
    content = json.dumps({"schema": json.dumps(AVRO)}).encode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()


def throughput(topics: KafkaTopics, lines: Sequence[bytes], *options: str) -> tuple[int, float]:
    """Measure a run on one core over a full topic; return the number of its rows and its tuples per second."""
    read, written = topics.new(), topics.new()
    producer = topics.producer()
    for start in range(0, len(lines), 10_000):
        for line in lines[start : start + 10_000]:
            producer.produce(read, line)
        producer.poll(0)
    producer.flush(120)
    with tempfile.TemporaryDirectory(prefix="rpq-latency-") as folder:
        stats = str(Path(folder) / "stats.json")
        arguments = [*topics.run(read, written, folder), *options, "--until-end", "--stats", stats]
        subprocess.run(arguments, check=True, preexec_fn=_on_one_core)
        figures = json.loads(Path(stats).read_text())
    return figures["kafka"]["rows_sent"], figures["tuples"] / figures["kafka"]["seconds"]


def _on_one_core() -> None:
    """Restrict this process with all its threads to one core, if the system supports this."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
