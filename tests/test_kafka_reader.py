"""What a reader of topics does when its client answers late.  Needs no broker."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from rpq.kafka import topic_reader as module
from rpq.kafka.client_settings import ClientSettings
from rpq.kafka.message_columns import MessageColumns
from rpq.kafka.message_tuples import MessageReader
from rpq.kafka.partition_merge import LEAST, PartitionMerge, Place
from rpq.kafka.topic_reader import TopicReader
from rpq.readers import ColumnNames

PLACE = Place("t", 0)


class Cause:
    """An error of the client."""

    _TRANSPORT, _TIMED_OUT = -195, -185

    def retriable(self) -> bool:
        return True

    def code(self) -> int:
        return self._TRANSPORT

    def name(self) -> str:
        return "_TRANSPORT"

    str = name


class Failed(Exception):
    """What the client raises."""


class Message:
    """A message."""

    def __init__(self, number: int) -> None:
        self._number = number

    def error(self) -> None:
        return None

    def value(self) -> bytes:
        return b'{"source": "a", "target": "b", "label": "x", "timestamp": %d}' % self._number

    def offset(self) -> int:
        return self._number

    def partition(self) -> int:
        return PLACE.partition

    def topic(self) -> str:
        return PLACE.topic


class Played:
    """A consumer of a topic of five messages, whose broker is away when it is first asked what was committed."""

    def __init__(self, settings) -> None:
        self._left = [Message(number) for number in range(5)]
        self._faults = [Failed(Cause())]

    def list_topics(self, timeout):
        return SimpleNamespace(topics={PLACE.topic: SimpleNamespace(error=None, partitions={PLACE.partition: None})})

    def assign(self, partitions) -> None:
        pass

    def committed(self, partitions, timeout):
        if self._faults:
            raise self._faults.pop()
        return [SimpleNamespace(error=None, metadata="rpq r 1", offset=0, topic=PLACE.topic, partition=PLACE.partition)]

    def poll(self, seconds):
        return self._left.pop(0) if self._left else None

    def consume(self, most, seconds):
        taken, self._left = self._left[:most], self._left[most:]
        return taken


@pytest.fixture
def reader(monkeypatch) -> TopicReader:
    played = SimpleNamespace(
        Consumer=Played, KafkaException=Failed, KafkaError=Cause, Message=Message, TopicPartition=lambda *place: place
    )
    monkeypatch.setattr(module, "client", lambda: played)
    monkeypatch.setattr("rpq.kafka.client_settings.client", lambda: played)
    return TopicReader(
        ClientSettings("here:1"),
        {PLACE.topic: MessageReader(MessageColumns.of(ColumnNames()))},
        group="g",
        check=lambda: None,
        waits_forever=True,
    )


def test_a_message_that_comes_while_the_broker_is_asked_something_is_read(reader) -> None:
    reader.begin({PLACE: 0})
    assert reader.committed([PLACE], "r") == {PLACE: (0, 1)}
    merge = PartitionMerge({PLACE: (0, LEAST)}, max_delay=0)
    assert reader.fetch(merge, 100, 0) == 5 == reader.messages
    merge.reached_end(PLACE, 5)
    assert merge.ready(100).offsets.tolist() == [0, 1, 2, 3, 4]
