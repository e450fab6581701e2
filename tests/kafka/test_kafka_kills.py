"""Killed at any moment, the broker too, a run goes on as if nothing had been: exactly once, in the same order."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from pathlib import Path

import pytest

import rpq
from tests.kafka.kafka_process import ended, started
from tests.kafka.test_kafka_run import QUERY, expected, merged, unordered
from tests.services.kafka_topics import dealt, edges

PARTITIONS = 3


def produce(kafka, topic: str, parts, hurry: threading.Event, finished: threading.Event) -> None:
    """Send the partitions side by side, in the order of their times, slowly until there is a hurry."""
    stream = sorted((one["timestamp"], number, one) for number, part in enumerate(parts) for one in part)
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": kafka.broker.address, "enable.idempotence": True, "log_level": 0})
    for place, (_, number, one) in enumerate(stream):
        producer.produce(topic, json.dumps(one), partition=number)
        producer.poll(0)
        if place % 40 == 0:
            hurry.wait(0.1)
    assert producer.flush(120) == 0
    finished.set()


def begun(log: Path) -> int:
    """Return how often the run has started or continued."""
    log_text = log.read_text() if log.exists() else ""
    return log_text.count('"begins"') + log_text.count('"continues from its checkpoint"')


def until(holds, seconds: float = 120) -> None:
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def killed_again_and_again(kafka, folder: Path, *, kills: int, restarts: int, messages: int, seed: int) -> None:
    drawn = random.Random(seed)
    read, written = kafka.new(PARTITIONS, name="edges"), kafka.new(2, name="rows")
    stream = edges(messages, vertices=25, seed=seed)
    for place, one in enumerate(stream):
        one["timestamp"] = place  # no two alike: rows of one tuple have no order among themselves
    parts = dealt(stream, PARTITIONS, seed=seed)
    arguments = [
        *("--input", kafka.uri(read), "--output", kafka.uri(written), "--checkpoint", folder / "run.state"),
        *("--checkpoint-every", "1.5s", "--max-delay", "30s", "--log", "json"),
    ]
    log = folder / "run.log"
    finished = threading.Event()
    hurry = threading.Event()
    producer = threading.Thread(target=produce, args=(kafka, read, parts, hurry, finished))
    producer.start()
    process, before = started(*arguments, log=log), 0
    what = ["kill"] * kills + ["broker"] * restarts
    drawn.shuffle(what)
    try:
        for one in what:
            until(lambda: begun(log) > before or process.poll() is not None)
            time.sleep(drawn.uniform(0.1, 2.0))
            assert process.poll() is None, log.read_text()[-3000:]
            if one == "kill":
                before = begun(log)
                process.kill()
                process.wait()
                process = started(*arguments, log=log)
            else:
                kafka.broker.stop(drawn.choice([signal.SIGKILL, signal.SIGTERM]))
                time.sleep(drawn.uniform(0.1, 2.0))
                kafka.broker.start()
        until(lambda: begun(log) > before or process.poll() is not None)
        hurry.set()
        producer.join(180)
        assert finished.is_set()
        assert ended(process, signal.SIGTERM) == 0, log.read_text()[-3000:]
        process = started(*arguments, "--until-end", log=log)
        assert ended(process, seconds=180) == 0, log.read_text()[-3000:]
    finally:
        hurry.set()
        process.kill()
    rows = kafka.rows(written)
    right = expected(merged(parts))
    log_text = log.read_text()
    assert len(rows) == len(right), log_text[-3000:]
    assert unordered(rows) == unordered(right), log_text[-3000:]
    assert "replayed" in log_text or "continues from its checkpoint" in log_text
    of_keys: dict[bytes, list[bytes]] = {}
    for message in kafka.committed(written):
        of_keys.setdefault(message.key, []).append(message.value)
    engine = rpq.Engine(QUERY)
    made: dict[tuple[str, str], list[tuple[int, str]]] = {}
    ordered = merged(parts)
    for row in engine.push_rows([tuple(one.values()) for one in ordered]).rows():
        made.setdefault((row.source, row.target), []).append((row.timestamp, row.op))
    for key, values in of_keys.items():
        _, source, target = json.loads(key)
        assert [(v["timestamp"], v["op"]) for v in map(json.loads, values)] == made[source, target]


def test_killed_once_with_the_broker_restarted_once(own_kafka, tmp_path) -> None:
    seed = int(os.environ.get("RPQ_SEED", "1"))
    killed_again_and_again(own_kafka, tmp_path, kills=1, restarts=1, messages=4_000, seed=seed)


@pytest.mark.long
def test_killed_ten_times_with_the_broker_restarted_twice(own_kafka, tmp_path) -> None:
    killed_again_and_again(own_kafka, tmp_path, kills=10, restarts=2, messages=12_000, seed=12)
