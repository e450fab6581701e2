"""A run from topic to topic at full speed, for as many tuples as RPQ_SOAK_TUPLES says: neither memory nor files grow."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest

import rpq
from rpq.rows.table_formats import json_lines
from tests.kafka.kafka_process import ended, started
from tests.services.kafka_broker import free_ports

TUPLES = int(os.environ.get("RPQ_SOAK_TUPLES", "100000000"))
CHUNK = 50_000
AHEAD = 2_000_000
"""So many tuples are in the topic at most that the run has not read: what it has read the broker deletes."""

WINDOW, SLIDE, VERTICES = 20_000, 1_000, 20_000
RETENTION = {"retention.bytes": str(1 << 29), "segment.bytes": str(1 << 25)}
MEGABYTES = 64
"""By so much memory may differ between parts of a run: what an allocator keeps, and what waits between two readings."""

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="a process is measured in /proc")


class Reading(NamedTuple):
    """The resources of a process after a number of tuples."""

    tuples: int
    megabytes: float
    files: int


def chunk(number: int) -> pa.Table:
    """Some edges of a stream without end, in which as many vertices come as go."""
    drawn = np.random.default_rng(number)
    times = np.arange(number * CHUNK, (number + 1) * CHUNK)
    newest = times // 100
    names = [pa.array(newest - drawn.integers(0, VERTICES, CHUNK)).cast(pa.string()) for _ in range(2)]
    labels = pa.array(["a2q", "c2a"]).take(pa.array(drawn.integers(0, 2, CHUNK)))
    return pa.table({"source": names[0], "target": names[1], "label": labels, "timestamp": times})


def read_so_far(port: int) -> int:
    """Return the number of tuples that the run has pushed, according to its metrics."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as response:
            for line in response.read().decode().splitlines():
                if line.startswith("rpq_tuples_total "):
                    return int(float(line.split()[1]))
    except OSError:
        pass
    return 0


def reading(process: subprocess.Popen[bytes], tuples: int) -> Reading:
    about = Path(f"/proc/{process.pid}")
    pages = int((about / "statm").read_text().split()[1])
    return Reading(tuples, pages * os.sysconf("SC_PAGE_SIZE") / 1e6, len([*(about / "fd").iterdir()]))


@pytest.mark.long
def test_memory_and_files_are_flat(own_kafka, tmp_path) -> None:
    from confluent_kafka import Producer

    read, written = (own_kafka.new(name=name, config=RETENTION) for name in ("edges", "rows"))
    (port,), log, stats = free_ports(1), tmp_path / "log", tmp_path / "stats.json"
    process = started(
        *("--input", own_kafka.uri(read), "--output", own_kafka.uri(written), "--checkpoint", tmp_path / "run.state"),
        *("--checkpoint-every", "1s", "--metrics", f"127.0.0.1:{port}", "--stats", stats),
        query=["a2q/c2a", "--window", str(WINDOW), "--slide", str(SLIDE)],
        log=log,
    )
    refused: list[str] = []
    settings = {"bootstrap.servers": own_kafka.broker.address, "linger.ms": 20, "enable.idempotence": True}
    reports = {"on_delivery": lambda error, message: refused.append(error.str()), "delivery.report.only.error": True}
    producer = Producer({**settings, **reports})
    engine = rpq.Engine(rpq.Query("a2q/c2a", window=rpq.Window(size=WINDOW, slide=SLIDE)))
    sent = done = 0
    readings: list[Reading] = []

    def look() -> None:
        nonlocal done
        assert process.poll() is None, log.read_text()[-3000:]
        assert not refused, refused[0]
        done = read_so_far(port)
        if done:
            readings.append(reading(process, done))

    try:
        began = time.monotonic()
        while sent < TUPLES:
            table = chunk(sent // CHUNK)
            engine.push(table, collect=False)
            values = b"".join(buffer.to_pybytes() for buffer in json_lines(table)).split(b"\n")[:-1]
            for value in values:
                while True:
                    try:
                        producer.produce(read, value)
                        break
                    except BufferError:
                        producer.poll(0.1)
            producer.poll(0)
            sent += len(values)
            look()
            while sent - done > AHEAD:
                time.sleep(0.2)
                look()
        assert producer.flush(120) == 0
        until = time.monotonic() + 300
        while done < sent:
            assert time.monotonic() < until, f"{done:,} of {sent:,} tuples"
            time.sleep(0.2)
            look()
        seconds = time.monotonic() - began
        assert ended(process, signal.SIGTERM) == 0, log.read_text()[-3000:]
    finally:
        process.kill()
    figures = json.loads(stats.read_text())
    right = engine.statistics()
    assert figures["tuples"] == sent == right.tuples
    assert figures["kafka"]["rows_sent"] == right.rows_added > sent // 10
    # The first fifth fills windows, caches and queues.
    early = [one for one in readings if sent * 0.2 <= one.tuples < sent * 0.6]
    late = [one for one in readings if one.tuples >= sent * 0.6]
    assert len(early) > 3 and len(late) > 3
    summary = f"{sent / seconds:,.0f} tuples/s; {early[0]} … {late[-1]}"
    print(summary)
    assert max(one.megabytes for one in late) < max(one.megabytes for one in early) + MEGABYTES, summary
    # A checkpoint that is being written is a file more, for a moment; a file that is never closed is one more for ever.
    last = [one for one in readings if one.tuples >= sent * 0.8]
    assert min(one.files for one in last) <= min(one.files for one in early), summary
