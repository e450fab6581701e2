"""Topics of a broker as tests use them: made anew for each, filled, and read as whoever reads only what is committed."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pytest

if not os.environ.get("RPQ_NEEDS_KAFKA"):
    pytest.importorskip("confluent_kafka", reason="the extra kafka is not installed")

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from tests.services.kafka_broker import Broker


class Message(NamedTuple):
    """A message as it stands in a topic."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: dict[str, bytes]


class Topics:
    """Topics of one broker."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
        self._producer = self._new_producer()

    def _new_producer(self) -> Producer:
        # Without idempotence a batch that is sent again may come after later ones.
        settings = {"bootstrap.servers": self.broker.address, "enable.idempotence": True, "linger.ms": 5, "log_level": 0}
        return Producer(settings)

    def close(self) -> None:
        self._producer.flush(5)

    def new(self, partitions: int = 1, *, name: str = "topic", config: Mapping[str, str] | None = None) -> str:
        """A topic with a name of its own."""
        topic = f"{name}-{uuid.uuid4().hex[:8]}"
        for made in self._admin.create_topics([NewTopic(topic, partitions, 1, config=dict(config or {}))]).values():
            made.result()
        return topic

    def grow(self, topic: str, partitions: int) -> None:
        """Raise the number of partitions of a topic."""
        for grown in self._admin.create_partitions([NewPartitions(topic, partitions)]).values():
            grown.result()
        self._producer = self._new_producer()  # the one before knows no more than there were
        until = time.monotonic() + 60
        while len(self._producer.list_topics(topic, 10).topics[topic].partitions) < partitions:
            assert time.monotonic() < until, "the broker does not tell the new partitions"
            time.sleep(0.05)

    def uri(self, *topics: str) -> str:
        return f"kafka://{self.broker.address}/{','.join(topics)}"

    def send(
        self,
        topic: str,
        values: Iterable[Mapping[str, Any] | bytes | str | None],
        *,
        partition: int = 0,
        key: bytes | None = None,
        headers: Mapping[str, bytes] | None = None,
        timestamp: int = 0,
    ) -> None:
        """Put messages into a partition, mappings as JSON; all are there when this returns."""
        failures: list[str] = []
        for value in values:
            data = json.dumps(value) if isinstance(value, Mapping) else value
            self._producer.produce(
                topic,
                data,
                key=key,
                partition=partition,
                headers=dict(headers or {}),
                timestamp=timestamp,
                on_delivery=lambda error, _: error is None or failures.append(error.str()),
            )
            self._producer.poll(0)
        assert self._producer.flush(60) == 0 and not failures, failures[:3]

    def _new_consumer(self, isolation: str) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self.broker.address,
                "group.id": uuid.uuid4().hex,
                "isolation.level": isolation,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "log_level": 0,
            }
        )

    def _wait_for_transactions(self, parts: Sequence[TopicPartition], seconds: float) -> None:
        """Wait until no transaction is open in these partitions: the broker marks its end after it has answered a commit."""
        stable, last = (self._new_consumer(isolation) for isolation in ("read_committed", "read_uncommitted"))
        until = time.monotonic() + seconds
        try:
            for part in parts:
                while (
                    stable.get_watermark_offsets(part, timeout=30) != last.get_watermark_offsets(part, timeout=30)
                    and time.monotonic() < until
                ):
                    time.sleep(0.02)
        finally:
            stable.close()
            last.close()

    def committed(self, *topics: str, patience: float = 5.0) -> list[Message]:
        """All that is committed, partition by partition, up to where the topics end now.

        Commits that the broker is still writing are waited for, at most so many seconds.
        """
        consumer = self._new_consumer("read_committed")
        found: list[Message] = []
        try:
            known = consumer.list_topics(timeout=30).topics
            parts = [TopicPartition(topic, number, 0) for topic in topics for number in known[topic].partitions]
            if patience:
                self._wait_for_transactions(parts, patience)
            consumer.assign(parts)
            waiting = {(part.topic, part.partition) for part in parts}
            until = time.monotonic() + 60
            while waiting:
                assert time.monotonic() < until, f"not at the end yet: {waiting}"
                for message in consumer.consume(10_000, 0.1):
                    place = message.topic(), message.partition()
                    if message.error() is not None:
                        waiting.discard(place)
                        continue
                    headers = dict(message.headers() or [])
                    found.append(Message(*place, message.offset(), message.key(), message.value(), headers))
        finally:
            consumer.close()
        return sorted(found, key=lambda message: message[:3])

    def rows(self, topic: str, *, patience: float = 5.0) -> list[dict[str, Any]]:
        """The committed values of a topic as JSON."""
        found = self.committed(topic, patience=patience)
        return [json.loads(message.value) for message in found if message.value is not None]

    def until(self, topic: str, count: int, *, seconds: float = 60) -> list[dict[str, Any]]:
        """Wait until a topic has that many committed values."""
        until = time.monotonic() + seconds
        while len(rows := self.rows(topic, patience=0)) < count:
            assert time.monotonic() < until, f"{len(rows)} of {count} values after {seconds} s"
            time.sleep(0.1)
        return rows


def edges(count: int, *, vertices: int = 20, seed: int = 0, step: int = 1) -> list[dict[str, Any]]:
    """Edges between some vertices, one each `step`."""
    import random

    drawn = random.Random(seed)
    return [
        {
            "source": f"v{drawn.randrange(vertices)}",
            "target": f"v{drawn.randrange(vertices)}",
            "label": drawn.choice("ab"),
            "timestamp": place * step,
        }
        for place in range(count)
    ]


def dealt(tuples: Sequence[Mapping[str, Any]], partitions: int, *, seed: int = 0) -> list[list[Mapping[str, Any]]]:
    """The same tuples dealt over partitions, each in order."""
    import random

    drawn = random.Random(seed)
    found: list[list[Mapping[str, Any]]] = [[] for _ in range(partitions)]
    for one in tuples:
        found[drawn.randrange(partitions)].append(one)
    return found
