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

from tests.kafka_broker import Broker


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
        return Producer({"bootstrap.servers": self.broker.address, "linger.ms": 5, "log_level": 0})

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
        for value in values:
            data = json.dumps(value) if isinstance(value, Mapping) else value
            self._producer.produce(
                topic, data, key=key, partition=partition, headers=dict(headers or {}), timestamp=timestamp
            )
            self._producer.poll(0)
        assert self._producer.flush(60) == 0

    def committed(self, *topics: str) -> list[Message]:
        """All that is committed, partition by partition, up to where the topics end now."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.broker.address,
                "group.id": uuid.uuid4().hex,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "log_level": 0,
            }
        )
        found: list[Message] = []
        try:
            known = consumer.list_topics(timeout=30).topics
            parts = [TopicPartition(topic, number, 0) for topic in topics for number in known[topic].partitions]
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

    def rows(self, topic: str) -> list[dict[str, Any]]:
        """The committed values of a topic as JSON."""
        return [json.loads(message.value) for message in self.committed(topic) if message.value is not None]

    def until(self, topic: str, count: int, *, seconds: float = 60) -> list[dict[str, Any]]:
        """Wait until a topic has that many committed values."""
        until = time.monotonic() + seconds
        while len(rows := self.rows(topic)) < count:
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
