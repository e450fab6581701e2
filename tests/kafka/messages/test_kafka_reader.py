"""The reader of topics when its client answers late. Needs no broker."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from types import SimpleNamespace

import pytest

from rpq.kafka import topic_reader as module
from rpq.kafka.client import ClientSettings
from rpq.kafka.message_reader import MessageColumns, MessageReader
from rpq.kafka.partition_merge import LEAST, PartitionMerge, TopicPartition
from rpq.kafka.schema_registry import RegistryAwayError
from rpq.kafka.topic_reader import TopicReader
from rpq.readers import ColumnNames

PLACE = TopicPartition("t", 0)


class Cause:
    """An error of the client."""

    _TRANSPORT, _TIMED_OUT, _PARTITION_EOF = -195, -185, -191

    def retriable(self) -> bool:
        return True

    def code(self) -> int:
        return self._TRANSPORT

    def name(self) -> str:
        return "_TRANSPORT"

    str = name


class Failed(Exception):
    """The error that the client raises."""


class Message:
    """A message, or the end of the topic."""

    def __init__(self, number: int, failure: SimpleNamespace | None = None) -> None:
        self._number = number
        self._failure = failure

    def error(self) -> SimpleNamespace | None:
        return self._failure

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
    monkeypatch.setattr("rpq.kafka.client.client", lambda: played)
    return TopicReader(
        ClientSettings("here:1"),
        {PLACE.topic: MessageReader(MessageColumns.from_names(ColumnNames()))},
        group="g",
        check=lambda: None,
        waits_forever=True,
    )


def test_a_message_that_comes_while_the_broker_is_asked_something_is_read(reader) -> None:
    reader.begin({PLACE: 0})
    assert reader.committed_offsets([PLACE], "r") == {PLACE: (0, 1)}
    merge = PartitionMerge({PLACE: (0, LEAST)}, max_delay=0)
    assert reader.fetch(merge, 100, 0) == 5 == reader.messages
    merge.reached_end(PLACE, 5)
    assert merge.ready(100).offsets.tolist() == [0, 1, 2, 3, 4]


class Registry:
    """A schema registry of messages that are JSON already: away, until `is_back`."""

    away_since, was_reached, is_back = 0.0, False, False

    def wait(self) -> float:
        return 0.0 if self.is_back else 0.001

    def decode_values(self, messages, values):
        if not self.is_back:
            raise RegistryAwayError("here: no schema registry answers")
        return values, {}


def reader_of_registry(registry: Registry, *, waits_forever: bool) -> TopicReader:
    messages = MessageReader(MessageColumns.from_names(ColumnNames()), registry=registry)
    return TopicReader(
        ClientSettings("here:1"),
        {PLACE.topic: messages},
        group="g",
        check=lambda: None,
        waits_forever=waits_forever,
        registry=registry,
    )


def test_messages_whose_registry_is_away_wait_and_so_does_the_end_behind_them(reader) -> None:
    registry = Registry()
    one = reader_of_registry(registry, waits_forever=True)
    one.begin({PLACE: 0})
    one._consumer._left.append(Message(5, SimpleNamespace(code=lambda: Cause._PARTITION_EOF)))
    merge = PartitionMerge({PLACE: (0, LEAST)}, max_delay=0)
    for _ in range(3):
        assert one.fetch(merge, 4, 0.001) == one.messages == merge.position(PLACE) == 0
        assert not one.finished_partitions and merge.ready(100) is None
    registry.is_back = True
    assert one.fetch(merge, 100, 0) == 6 and one.messages == 5
    assert one.finished_partitions == {PLACE}
    assert merge.ready(100).offsets.tolist() == [0, 1, 2, 3, 4]


def test_a_new_run_waits_for_its_registry_as_long_as_for_a_broker(reader, monkeypatch) -> None:
    monkeypatch.setattr(module, "START_SECONDS", 0.0)
    registry = Registry()
    merge = PartitionMerge({PLACE: (0, LEAST)}, max_delay=0)
    with pytest.raises(RegistryAwayError, match="no schema registry answers"):
        reader_of_registry(registry, waits_forever=False).fetch(merge, 4, 0)
    registry.was_reached = True
    assert reader_of_registry(registry, waits_forever=False).fetch(merge, 4, 0) == 0


# --- a real client, and a listener that is no broker -----------------------------------------------------------------


@pytest.mark.parametrize("answers", [False, True])
def test_a_listener_that_wants_a_login_is_met_with_a_hint(rpq, monkeypatch, answers):
    """One that ends the connection at once, and one that first tells its versions, as those with SASL do."""
    pytest.importorskip("confluent_kafka")
    monkeypatch.setattr(module, "START_SECONDS", 0.3)
    monkeypatch.setattr(module, "CALL_SECONDS", 0.2)
    with Impostor(answers=answers) as listener:
        topic = f"kafka://127.0.0.1:{listener.port}/t"
        status, _, said = rpq("run", "a", "--window", 10, "--slide", 1, "--input", topic, "--until-end")
    assert status == 1
    error = " ".join(said.split("Error: ")[1].split())
    assert "the broker closes plaintext connections" in error and "security.protocol=SASL_SSL" in error
    assert "sasl.username" in error and "--kafka-config" in error


def test_where_nobody_listens_there_is_no_hint(rpq, monkeypatch):
    pytest.importorskip("confluent_kafka")
    monkeypatch.setattr(module, "START_SECONDS", 0.2)
    monkeypatch.setattr(module, "CALL_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    topic = f"kafka://127.0.0.1:{port}/t"
    status, _, said = rpq("run", "a", "--window", 10, "--slide", 1, "--input", topic, "--until-end")
    assert status == 1 and "no broker answers" in said and "security.protocol" not in said


class Impostor:
    """A listener that ends connections; before that it may tell that it knows the first version of three requests."""

    def __init__(self, *, answers: bool) -> None:
        self._answers = answers
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._listen, daemon=True)

    def __enter__(self) -> Impostor:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(10)

    def _listen(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection, contextlib.suppress(OSError):
                request_bytes = connection.recv(4096)
                while self._answers and len(request_bytes) >= 12:
                    _, request, version, number = struct.unpack("!ihhi", request_bytes[:12])
                    if request != 18:  # ApiVersions
                        break
                    known = struct.pack("!9h", 18, 0, 0, 3, 0, 5, 17, 0, 1)
                    response = struct.pack("!ihi", number, 35, 0) if version else struct.pack("!ihi", number, 0, 3) + known
                    connection.sendall(struct.pack("!i", len(response)) + response)
                    request_bytes = connection.recv(4096)
