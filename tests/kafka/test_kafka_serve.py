"""Topics as the input of `rpq serve`, with a real broker: merged by time, posted beside, and nothing lost by kills."""

from __future__ import annotations

import json
import os
import random
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

import rpq
from tests.services.kafka_topics import Topics, dealt, edges

pytest.importorskip("starlette", reason="the extra [serve] is not installed")

from rpq.kafka import topic_source
from rpq.kafka.client import ClientSettings
from rpq.kafka.message_reader import BadMessage
from rpq.kafka.partition_merge import LEAST, PartitionMerge, TopicPartition
from rpq.kafka.topic_reader import TopicInput
from rpq.kafka.topic_source import TopicPosition
from rpq.serve.feeds import TopicFeed, _progress_within
from tests.kafka.test_kafka_run import WINDOW, merged
from tests.services.served import Command, Served

PATH = "a/b*"
QUERY = [PATH, "--window", WINDOW.size, "--slide", WINDOW.slide, "--semantics", "explicit"]


def rows_of(tuples) -> list[tuple]:
    """Return the changes of an engine for tuples in this order: (op, timestamp, source, target)."""
    engine = rpq.Engine(rpq.Query(PATH, window=WINDOW, semantics="explicit"))
    made = engine.push_rows([(one["source"], one["target"], one["label"], one["timestamp"]) for one in tuples]).rows()
    return [(row.op, row.timestamp, row.source, row.target) for row in made]


def until(holds, seconds: float = 300.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def tuples_of(served: Command) -> int:
    return served.client.get("/statistics").json()["tuples"]


def test_partitions_are_followed_as_one_stream_in_the_order_of_their_times(kafka: Topics, tmp_path: Path) -> None:
    topic = kafka.new(3, name="edges")
    parts = dealt(edges(1500), 3)
    # Partitions that are at their end are waited for, but not for what comes before a time that all of them have.
    last = {"source": "-", "target": "-", "label": "-", "timestamp": 1500}
    expected = rows_of([*merged(parts), last])
    with Command(*QUERY, "--input", kafka.uri(topic), "--max-delay", "60s", log=tmp_path / "log") as served:
        with served.follow() as events:
            events.next("start")
            for number in (2, 0, 1):
                kafka.send(topic, [*parts[number], last], partition=number)
            found = events.rows(len(expected))
        assert [row[2] for row in found] == [row[1] for row in expected]
        assert sorted((op, time, *values) for _, op, time, values in found) == sorted(expected)
        assert served.client.get("/playback").status_code == 404
        assert served.end() == 0


def test_posts_go_on_beside_topics_and_what_is_no_tuple_is_left_out(kafka: Topics, tmp_path: Path) -> None:
    topic = kafka.new(name="edges")
    kafka.send(topic, [{"source": "x", "target": "y", "label": "a", "timestamp": 1}, "nonsense"])
    options = [*QUERY, "--input", kafka.uri(topic), "--max-delay", "0.1s", "--on-error", "skip"]
    with Command(*options, log=tmp_path / "log") as served:
        until(lambda: served.answers(PATH) == {("x", "y")})
        served.post(("y", "z", "b", 2))
        assert served.answers(PATH) == {("x", "y"), ("x", "z")}
        kafka.send(topic, [{"source": "z", "target": "w", "label": "b", "timestamp": 3}])
        until(lambda: ("x", "w") in served.answers(PATH))
        assert f"rejected: {topic}/0 at offset 1" in (tmp_path / "log").read_text()
        assert served.end() == 0


def test_a_restart_does_not_pass_over_what_is_no_tuple(kafka: Topics, tmp_path: Path) -> None:
    topic, log = kafka.new(name="edges"), tmp_path / "log"
    good = {"source": "x", "target": "y", "label": "a", "timestamp": 1}
    kafka.send(topic, [good, "nonsense", {**good, "target": "z"}])
    options = [*QUERY, "--input", kafka.uri(topic), "--max-delay", "0.1s", "--checkpoint", tmp_path / "state"]
    for ends in (1, 2):
        with Command(*options, log=log) as served:
            until(lambda ends=ends: log.read_text().count("reading the topics has ended") == ends)
            assert log.read_text().count(f"{topic}/0 at offset 1") == ends
            assert served.answers(PATH) == {("x", "y")}
            assert served.end() == 0
    with Command(*options, "--on-error", "skip", log=log) as served:
        until(lambda: served.answers(PATH) == {("x", "y"), ("x", "z")})
        assert served.end() == 0


def test_progress_is_before_a_bad_message_at_which_reading_stops() -> None:
    place = TopicPartition("t", 0)
    merge = PartitionMerge({place: (0, LEAST)}, max_delay=0.0)
    message = SimpleNamespace(topic=lambda: "t", partition=lambda: 0, offset=lambda: 1)
    merge.add(place, pa.RecordBatch.from_pydict({"timestamp": [5]}), np.array([0]), {1: BadMessage(message, "no")}, 2)
    merge.reached_end(place, 2)
    merge.release_all()
    part = merge.ready(10, stop_at_bad=True)
    assert part is not None and len(part.bad) == part.size == 1
    before = TopicPosition(run="r", ends={place: 0}, fronts={place: LEAST})
    found = [_progress_within(before, part, 1, stops=stops)["topics"] for stops in (True, False)]
    assert found == [[["t", 0, 1, 5]], [["t", 0, 2, 5]]]


def test_partitions_that_are_added_are_read_too(kafka: Topics, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(topic_source, "PARTITIONS_SECONDS", 0.2)
    topic = kafka.new(name="edges")
    one = {"source": "x", "target": "y", "label": "a", "timestamp": 1}
    kafka.send(topic, [one])
    path = {"expression": "a", "window": 40, "slide": 5, "name": "q"}
    source = TopicInput(brokers=kafka.broker.address, topics={topic: None}, max_delay=0.1)

    def fed(served: Served) -> TopicFeed:
        feed = TopicFeed(served.service, source, ClientSettings(source.brokers, {}))
        feed.start()
        return feed

    with Served(path, checkpoint=tmp_path / "state") as served:
        feed = fed(served)
        until(lambda: served.answers("q") == {("x", "y")})
        kafka.grow(topic, 2)
        kafka.send(topic, [{**one, "target": "z"}], partition=1)
        until(lambda: served.answers("q") == {("x", "y"), ("x", "z")})
        feed.stop()
    with Served(path, checkpoint=tmp_path / "state") as served:
        feed = fed(served)
        kafka.send(topic, [{**one, "target": "w"}])
        until(lambda: len(served.answers("q")) == 3)
        assert served.service.tuples == 3 and feed.error is None
        feed.stop()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--input", "kafka://{address}/{topic}"], "there is no topic 'no-such-topic'"),
        (["--input", "kafka://{address}/{topic}", "--input", "edges.csv"], "topics and files"),
        (["--input", "kafka://{address}/{topic}", "--kafka-config", "nothing.conf"], "nothing.conf"),
        (["--input", "kafka://{address}/"], "kafka://"),
    ],
)
def test_topics_that_cannot_be_are_refused(kafka: Topics, tmp_path: Path, options, said) -> None:
    given = [one.format(address=kafka.broker.address, topic="no-such-topic") for one in options]
    with pytest.raises(AssertionError, match=said):
        Command(*QUERY, *given, log=tmp_path / "log")
    assert "Traceback" not in (tmp_path / "log").read_text()


# --- kills -----------------------------------------------------------------------------------------------------------


class Producing:
    """Sends partitions side by side, in the order of their times: so much of them as is let go, slowly, or all at once."""

    def __init__(self, kafka: Topics, topic: str, parts, *, slices: int) -> None:
        numbered = [(one["timestamp"], number, one) for number, part in enumerate(parts) for one in part]
        self._stream = sorted(numbered, key=lambda entry: entry[:2])
        self._topic, self._slices, self._address = topic, slices, kafka.broker.address
        self._allowed = threading.Semaphore(0)
        self._hurry = threading.Event()
        self._thread = threading.Thread(target=self._produce)
        self._thread.start()

    def go_on(self) -> None:
        """Send one slice more."""
        self._allowed.release()

    def finish(self) -> None:
        """Send the rest, and wait until it is there."""
        self._hurry.set()
        self._allowed.release(self._slices)
        self._thread.join(180)

    def _produce(self) -> None:
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self._address, "enable.idempotence": True, "log_level": 0})
        slice_ = -(-len(self._stream) // self._slices)
        for place, (_, number, one) in enumerate(self._stream):
            if place % slice_ == 0:
                self._allowed.acquire()
            producer.produce(self._topic, json.dumps(one), partition=number)
            producer.poll(0)
            if place % 50 == 0:
                self._hurry.wait(0.05)
        producer.flush(120)


def killed_again_and_again(kafka: Topics, folder: Path, *, kills: int, messages: int, seed: int) -> None:
    drawn = random.Random(seed)
    topic = kafka.new(3, name="edges")
    stream = edges(messages, vertices=40, seed=seed)
    parts = dealt(stream, 3, seed=seed)
    options = ["a/b", "--window", 10 * messages, "--slide", 10, "--semantics", "explicit", "--input", kafka.uri(topic)]
    options += ["--checkpoint", folder / "state", "--checkpoint-every", "0.7s", "--max-delay", "0.5s"]
    producing = Producing(kafka, topic, parts, slices=kills + 1)
    posted = 0
    came = []
    try:
        for _ in range(kills):
            with Command(*options, log=folder / "log") as served:
                came.append(tuples_of(served))
                producing.go_on()
                until(lambda: tuples_of(served) > came[-1])
                # Posts are acknowledged in between: they are in the same journal.
                end = time.monotonic() + drawn.uniform(0.2, 2.0)
                while time.monotonic() < end:
                    assert served.post((f"p{posted}", f"q{posted}", "a", 0), (f"q{posted}", "r", "b", 0)).status_code == 200
                    posted += 1
                served.kill()
    finally:
        producing.finish()
    with Command(*options, log=folder / "log") as served:
        until(lambda: tuples_of(served) >= messages + 2 * posted)
        time.sleep(0.5)
        assert tuples_of(served) == messages + 2 * posted  # each once
        expected = rpq.Engine(rpq.Query("a/b", window=rpq.Window(size=10 * messages, slide=10)))
        expected.push_rows([(one["source"], one["target"], one["label"], one["timestamp"]) for one in stream])
        pairs = {*expected.answers().pairs()} | {(f"p{number}", "r") for number in range(posted)}
        assert served.answers("a/b") == pairs
        assert served.end() == 0
    assert posted and came == sorted(came) and came[-1] > 0
    # What came while it was told to end is in the checkpoint: the next one replays nothing.
    with Command(*options, log=folder / "log") as served:
        assert tuples_of(served) == messages + 2 * posted
        assert served.answers("a/b") == pairs


def test_killed_twice_each_message_is_there_once(kafka: Topics, tmp_path: Path) -> None:
    killed_again_and_again(kafka, tmp_path, kills=2, messages=2_000, seed=int(os.environ.get("RPQ_SEED", "3")))


@pytest.mark.long
def test_killed_ten_times_each_message_is_there_once(kafka: Topics, tmp_path: Path) -> None:
    killed_again_and_again(kafka, tmp_path, kills=10, messages=60_000, seed=21)
