"""A transaction that fails is sent again as a whole, and one that may have been committed is looked up.  Needs no broker."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from rpq.kafka import row_outputs as module
from rpq.kafka.client import ClientSettings, KafkaError
from rpq.kafka.partition_merge import TopicPartition
from rpq.kafka.row_outputs import Messages, RowMessages, TopicOutputs, Transactions
from rpq.kafka.topic_source import TopicSource


class Cause:
    """An error of the client."""

    _TIMED_OUT, _TRANSPORT, _FENCED, _STATE = -185, -195, -144, -172
    INVALID_PRODUCER_EPOCH, TOPIC_AUTHORIZATION_FAILED = 47, 29

    def __init__(self, kind: str, code: int = 1) -> None:
        self._kind, self._code = kind, code

    def retriable(self) -> bool:
        return self._kind == "retriable"

    def txn_requires_abort(self) -> bool:
        return self._kind == "abort"

    def fatal(self) -> bool:
        return self._kind == "fatal"

    def code(self) -> int:
        return self._code

    def name(self) -> str:
        return self._kind

    str = name


class Failed(Exception):
    """The error that the client raises."""


class Cluster:
    """Plays the client: `faults` are (call, error, whether the call takes effect nevertheless), used up one by one."""

    KafkaError, KafkaException = Cause, Failed

    def __init__(self, *faults: tuple[str, Cause, bool]) -> None:
        self.faults = list(faults)
        self.committed: list[bytes] = []
        self.offsets: dict[tuple[str, int], tuple[int, str]] = {}
        self.producers = 0
        self.room = 1 << 30  # of a producer's queue

    def TopicPartition(self, topic, partition, offset, metadata):  # noqa: N802 - as the client has it
        return SimpleNamespace(topic=topic, partition=partition, offset=offset, metadata=metadata)

    def Producer(self, settings):  # noqa: N802
        self.producers += 1
        return Played(self)


class Played:
    """A producer."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._open: list[bytes] | None = None
        self._queued = 0
        self._offsets = []

    def __len__(self) -> int:
        return 0

    def _do(self, call: str, effect) -> None:
        fault = next((fault for fault in self._cluster.faults if fault[0] == call), None)
        if fault is not None:
            self._cluster.faults.remove(fault)
        if fault is None or fault[2]:
            effect()
        if fault is not None:
            raise Failed(fault[1])

    def init_transactions(self, seconds) -> None:
        self._do("init", lambda: None)

    def begin_transaction(self) -> None:
        assert self._open is None
        self._open, self._offsets = [], []

    def produce(self, topic, value, key, headers=()) -> None:
        if self._queued == self._cluster.room:
            raise BufferError
        self._queued += 1
        self._do("produce", lambda: self._open.append(value))

    def poll(self, seconds) -> None:
        self._queued = 0

    def send_offsets_to_transaction(self, offsets, group, seconds) -> None:
        self._do("offsets", lambda: self._offsets.extend(offsets))

    def commit_transaction(self, seconds) -> None:
        def effect() -> None:
            self._cluster.committed += self._open
            self._cluster.offsets |= {(one.topic, one.partition): (one.offset, one.metadata) for one in self._offsets}
            self._open = None

        self._do("commit", effect)

    def abort_transaction(self, seconds) -> None:
        def effect() -> None:
            self._open = None

        self._do("abort", effect)


def made(monkeypatch, *faults, check=lambda: None) -> tuple[Cluster, Transactions]:
    cluster = Cluster(*faults)
    monkeypatch.setattr(module, "client", lambda: cluster)
    monkeypatch.setattr("rpq.kafka.client.client", lambda: cluster)

    def committed_round() -> int:
        return max((int(metadata.split()[2]) for _, metadata in cluster.offsets.values()), default=0)

    transactions = Transactions(
        ClientSettings("here:1"), name="n", run="r", group=lambda: None, committed_round=committed_round, check=check
    )
    transactions.begin()
    return cluster, transactions


FAULTS = {
    "a produce that fails in the middle": [("produce", Cause("abort"), False)],
    "a message that is refused since the transaction has failed": [("produce", Cause("state", Cause._STATE), False)],
    "one that is refused by a producer that is lost": [
        ("produce", Cause("state", Cause._STATE), False), ("abort", Cause("fatal"), False)
    ],
    "one that is refused since there is no transaction": [
        ("produce", Cause("state", Cause._STATE), False), ("abort", Cause("state", Cause._STATE), True)
    ],
    "offsets that are refused": [("offsets", Cause("abort"), False)],
    "a commit that is given up": [("commit", Cause("abort"), False)] * 2,
    "a commit that is told again": [("commit", Cause("retriable"), False), ("commit", Cause("retriable"), False)],
    "a producer that is lost before": [("commit", Cause("fatal"), False)],
    "a producer that is lost behind the commit": [("commit", Cause("fatal"), True)],
}


@pytest.mark.parametrize("faults", FAULTS.values(), ids=FAULTS)
def test_what_is_committed_is_there_once_and_in_order(monkeypatch, faults) -> None:
    cluster, transactions = made(monkeypatch, *faults)
    sent = []
    for number in range(1, 4):
        for part in range(3):
            value = b"%d.%d" % (number, part)
            sent.append(value)
            transactions.send("t", Messages([b"k"], [value]))
        transactions.commit({TopicPartition("e", 0): 10 * number}, number)
    assert cluster.committed == sent and transactions.committed == 9 and transactions.messages == 0
    assert cluster.offsets == {("e", 0): (30, "rpq r 3")} and not cluster.faults


def test_a_run_that_is_to_end_commits_what_it_has_but_does_not_wait_for_a_broker(monkeypatch) -> None:
    def check() -> None:
        raise InterruptedError

    cluster, transactions = made(monkeypatch, check=check)
    transactions.send("t", Messages([b"k"], [b"v"]))
    transactions.commit({TopicPartition("e", 0): 1}, 1)
    assert cluster.committed == [b"v"]
    cluster.faults.append(("commit", Cause("retriable"), False))
    transactions.send("t", Messages([b"k"], [b"w"]))
    with pytest.raises(InterruptedError):
        transactions.commit({TopicPartition("e", 0): 2}, 2)
    assert cluster.committed == [b"v"]


def test_a_producer_that_the_broker_refuses_ends_the_run(monkeypatch) -> None:
    with pytest.raises(KafkaError, match="here:1: fatal"):
        made(monkeypatch, ("init", Cause("fatal", 53), False))  # the transactional.id is not authorized


def test_a_message_that_the_broker_refuses_each_time_ends_the_run(monkeypatch) -> None:
    cluster, transactions = made(monkeypatch, *[("commit", Cause("abort", 10), False)] * 2)  # the message is too large
    transactions.send("t", Messages([b"k"], [b"v"]))
    with pytest.raises(KafkaError, match="here:1: abort"):
        transactions.commit({TopicPartition("e", 0): 1}, 1)
    assert cluster.committed == [] and len(cluster.faults) == 1


def test_a_run_that_is_to_end_does_not_send_again_and_again(monkeypatch) -> None:
    def check() -> None:
        raise InterruptedError

    cluster, transactions = made(monkeypatch, *[("commit", Cause("abort"), False)] * 3, check=check)
    transactions.send("t", Messages([b"k"], [b"v"]))
    with pytest.raises(InterruptedError):
        transactions.commit({TopicPartition("e", 0): 1}, 1)
    assert cluster.committed == [] and len(cluster.faults) == 1


@pytest.mark.parametrize("headers", [None, [[("n", b"1")]] * 17])
def test_a_queue_that_is_full_is_waited_for(monkeypatch, headers) -> None:
    cluster, transactions = made(monkeypatch)
    cluster.room = 5
    values = [b"%d" % number for number in range(17)]
    for number in (1, 2):
        transactions.send("t", Messages([b"k"] * 17, values, headers))
        transactions.commit({TopicPartition("e", 0): number}, number)
    assert cluster.committed == values * 2


def test_another_run_that_has_taken_over_ends_this_one(monkeypatch) -> None:
    cluster, transactions = made(monkeypatch, ("commit", Cause("fatal", Cause._FENCED), False))
    transactions.send("t", Messages([b"k"], [b"v"]))
    with pytest.raises(KafkaError, match="another run with the name n has taken over"):
        transactions.commit({TopicPartition("e", 0): 1}, 1)
    assert cluster.committed == [] and cluster.producers == 1


def test_a_run_that_ends_within_a_message_commits_the_rows_of_its_first_tuples(monkeypatch) -> None:
    """Its offset has not moved, and yet the next run begins behind these tuples."""
    cluster, transactions = made(monkeypatch)
    place, settings = TopicPartition("e", 0), ClientSettings("here:1")
    source = TopicSource(SimpleNamespace(on_error="stop", topics={}), settings)
    source._reader, source.ends = SimpleNamespace(layouts={}), {place: 7}
    outputs = TopicOutputs(RowMessages(destinations={}), settings=settings)
    outputs.transactions, outputs._source = transactions, source
    outputs.mark_committed()
    transactions.send("t", Messages([b"k"], [b"v"]))
    source.round, source.inside = 1, {place: 2}
    outputs.commit()
    assert cluster.committed == [b"v"] and cluster.offsets == {("e", 0): (7, "rpq r 1")}
    source.round = 2
    outputs.commit()  # nothing has moved since
    assert cluster.offsets == {("e", 0): (7, "rpq r 1")}
    source.round, source.ends, source.inside = 3, {place: 8}, {}
    outputs.commit()
    assert cluster.offsets == {("e", 0): (8, "rpq r 3")}
