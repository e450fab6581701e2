"""The sink of a run over topics: rows as messages, in transactions that carry the offsets of the source.

The key of a message is the query and its binding, the value is the row as a JSON object:

    ["a2q/c2a","ann","bob"]  →  {"source": "ann", "target": "bob", "timestamp": 25, "op": "+"}

With upsert, a row that leaves is a tombstone, a key without a value, so that a compacted topic contains the current answers.

Rows and offsets are in one transaction: both are in Kafka, or neither is.  The messages of a transaction stay in memory
until it is committed, and are sent again if the broker aborts it.  A run waits while the broker cannot be reached.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count, repeat
from operator import length_hint
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from rpq.kafka.client import ClientSettings, KafkaError, client, is_broker_away, log_event, log_warning
from rpq.kafka.partition_merge import TopicPartition
from rpq.rows.column_kernels import joined_lines
from rpq.rows.table_formats import MESSAGE, MessageTemplate, array_pieces, json_cells, object_pieces
from rpq.rows.typed_columns import WITNESS_COLUMNS
from rpq.run.loop import RunOutput

if TYPE_CHECKING:
    import pyarrow as pa

    from rpq.kafka.message_reader import BadMessage
    from rpq.kafka.topic_source import TopicSource
    from rpq.rows.changes import Changes


@dataclass(frozen=True)
class Messages:
    """Messages as columns, in order: their keys, values (None is a tombstone) and, if any message has some, headers.

    Columns need less memory and time than an object for each message.
    """

    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    headers: Sequence[list[tuple[str, Any]]] | None = None

    def __len__(self) -> int:
        return len(self.keys)

    def part(self, start: int, end: int) -> Messages:
        """Return the messages from `start` to `end`."""
        headers = None if self.headers is None else self.headers[start:end]
        return Messages(self.keys[start:end], self.values[start:end], headers)


QUERY = "query"
NOT_IN_KEYS = frozenset({"timestamp", "op", *WITNESS_COLUMNS})


@dataclass(frozen=True, kw_only=True)
class TopicDestination:
    """The topic of a query's rows, and the columns in its values."""

    topic: str
    columns: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class RowMessages:
    """A conversion of rows to messages.  `destinations` are by the names of queries; rows of other queries are dropped.

    With `witness`, the column `path` of rows is JSON.  With `message`, rows get a column of messages.
    """

    destinations: Mapping[str, TopicDestination]
    upsert: bool = False
    witness: bool = False
    message: MessageTemplate | None = None

    def convert(self, rows: pa.Table) -> list[tuple[str, Messages]]:
        """Convert a table of rows with a column `query` to messages, by topic, in the order of the rows."""
        if not rows.num_rows:
            return []
        if self.message is not None:
            rows = self.message.with_messages(rows)
        names = pc.unique(rows.column(QUERY)).to_pylist()
        destinations = {name: self.destinations[name] for name in names if name in self.destinations}
        if not destinations:
            return []
        kinds = set(destinations.values())
        if len(destinations) == len(names) and len(kinds) == 1:
            (only,) = kinds
            return [(only.topic, self._messages(rows, only.columns))]
        # Rows of several queries that share a topic keep their order there.
        found = []
        for kind in dict.fromkeys(destinations.values()):
            theirs = pa.array([name for name, one in destinations.items() if one == kind])
            part = rows.filter(pc.is_in(rows.column(QUERY), value_set=theirs))
            found.append((kind.topic, self._messages(part, kind.columns)))
        return found

    def _messages(self, rows: pa.Table, columns: Sequence[str]) -> Messages:
        beside = NOT_IN_KEYS | ({MESSAGE} if self.message is not None else frozenset())
        binding = [name for name in rows.column_names if name not in beside]
        keys: list[bytes | None] = []
        values: list[bytes | None] = []
        for batch in rows.combine_chunks().to_batches():
            cells = {
                name: json_cells(batch.column(name), is_json=self.witness and name == WITNESS_COLUMNS[0])
                for name in {*binding, *columns}
            }
            keys += _lines(array_pieces(cells[name] for name in binding))
            values += _lines(object_pieces(columns, (cells[name] for name in columns)))
        if self.upsert:
            leaves = pc.equal(rows.column("op"), "-").to_pylist()
            values = [None if is_gone else value for is_gone, value in zip(leaves, values, strict=True)]
        return Messages(keys, values)


def _lines(pieces: Sequence[str | pa.Array]) -> list[bytes]:
    return joined_lines(pieces).split(b"\n")[:-1]


CALL_SECONDS = 5.0
"""The timeout of a call to the broker, after which `check` is called."""

CHUNK = 10_000
MAX_QUEUED = 200_000

RESEND_SECONDS = 0.1
"""The pause before the messages of a transaction are sent again a second time."""

LASTING = frozenset({10, 18, 29, 44, 87})
"""Errors of Kafka's protocol with which a broker refuses a message each time: size, size of a batch, authorization, policy,
invalid record."""


class Transactions:
    """The transactions of one producer, one after the other; `name` is its transactional.id.

    `committed_round` returns the round of this run to which the committed offsets belong.  `check` raises an exception if
    the run must end.
    """

    def __init__(
        self,
        settings: ClientSettings,
        *,
        name: str,
        run: str,
        group: Callable[[], Any],
        committed_round: Callable[[], int],
        check: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._name = name
        self._run = run
        self._group = group
        self._committed_round = committed_round
        self._check = check
        self._producer: Any = None
        self._is_open = False
        self._pending: list[tuple[str, Messages]] = []
        self._began = 0.0
        self._is_away = False
        self.messages = 0
        """The number of messages that are not committed yet."""
        self.committed = 0

    def begin(self) -> None:
        """Become the only producer of this name; the broker aborts open transactions of others.  Waits for the broker."""
        kafka = client()
        settings = self._settings.producer(transactional_id=self._name, error_cb=lambda error: None)
        self._producer = self._settings.create_client(kafka.Producer, settings)
        self._require(lambda: self._producer.init_transactions(CALL_SECONDS))
        self._is_open = False

    def check_topics(self, topics: list[str]) -> None:
        """Raise `KafkaError` for a topic that does not exist and that the broker does not create."""
        for topic in topics:
            for attempt in range(10):
                found = self._require(partial(self._producer.list_topics, topic, timeout=CALL_SECONDS))
                error = found.topics[topic].error
                if error is None:
                    break
                if attempt == 9 or error.code() == client().KafkaError.TOPIC_AUTHORIZATION_FAILED:
                    why = self._settings.redact(error.str())
                    raise KafkaError(f"--output: the topic {topic} of {self._settings.brokers}: {why}; create it first")
                time.sleep(0.2)

    def send(self, topic: str, messages: Messages) -> None:
        """Add messages, in order."""
        if not messages:
            return
        self._pending.append((topic, messages))
        self.messages += len(messages)
        kafka = client()
        try:
            if self._is_open:
                self._produce(topic, messages)
            else:
                self._send_all()
        except kafka.KafkaException as error:
            # The transaction has failed; its messages are sent again at the commit.
            self._recover(error)

    @property
    def age(self) -> float:
        """Seconds since the transaction was begun; 0 if none is open."""
        return time.monotonic() - self._began if self._is_open else 0.0

    def commit(self, ends: Mapping[TopicPartition, int], number: int) -> None:
        """Commit all messages, together with the offsets `ends` of partitions after round `number`."""
        kafka = client()
        offsets = [
            kafka.TopicPartition(place.topic, place.partition, end, metadata=f"rpq {self._run} {number}")
            for place, end in ends.items()
        ]
        for attempt in count():
            try:
                if not self._is_open:
                    self._send_all()
                self._retry(lambda: self._producer.send_offsets_to_transaction(offsets, self._group(), CALL_SECONDS))
                self._retry(lambda: self._producer.commit_transaction(CALL_SECONDS))
                break
            except kafka.KafkaException as error:
                if self._recover(error) and self._committed_round() >= number:
                    break
                if attempt:  # once, they are sent again at any rate
                    self._check()
                    time.sleep(RESEND_SECONDS)
        self.committed += self.messages
        self._is_open, self._pending, self.messages = False, [], 0

    def close(self) -> None:
        """Abort the open transaction, unless that takes longer than a second."""
        if self._producer is None:
            return
        kafka = client()
        try:
            if self._is_open:
                self._producer.purge()
                self._producer.abort_transaction(1.0)
        except kafka.KafkaException:
            pass  # the next run aborts it when it begins
        self._producer = None

    def _send_all(self) -> None:
        """Begin a transaction with all messages that are not committed yet."""
        self._producer.begin_transaction()
        self._is_open, self._began = True, time.monotonic()
        for topic, messages in self._pending:
            self._produce(topic, messages)

    def _produce(self, topic: str, messages: Messages) -> None:
        """Pass messages to the client as fast as it accepts them."""
        producer = self._producer
        start, patient_until = 0, time.monotonic() + CALL_SECONDS
        while start < len(messages):
            end = min(start + CHUNK, len(messages))
            taken = 0 if len(producer) > MAX_QUEUED else self._enqueue(topic, messages.part(start, end))
            start += taken
            if taken:
                patient_until = time.monotonic() + CALL_SECONDS
            elif time.monotonic() > patient_until:
                self._check()
            producer.poll(0 if start == end else 0.01)

    def _enqueue(self, topic: str, messages: Messages) -> int:
        """Put messages into the queue of the client. Return the number of messages that fit."""
        produce = self._producer.produce
        values = iter(messages.values)
        try:
            # Only C functions are called here: a message costs neither a Python object nor bytecode.
            if messages.headers is None:
                deque(map(produce, repeat(topic), values, messages.keys), maxlen=0)
            else:
                for value, key, headers in zip(values, messages.keys, messages.headers, strict=True):
                    produce(topic, value, key, headers=headers)
        except BufferError:
            return len(messages) - length_hint(values) - 1
        return len(messages)

    def _recover(self, error: Any) -> bool:
        """Restore a state of the producer in which a transaction can begin.

        Return whether the last transaction may have been committed.
        """
        kafka = client()
        cause = error.args[0]
        if not isinstance(cause, kafka.KafkaError):
            raise KafkaError(f"{self._settings.brokers}: {self._settings.redact(error)}") from None
        if cause.code() in LASTING:
            raise KafkaError(f"{self._settings.brokers}: {self._settings.redact(cause.str())}") from None
        # In a transaction that has failed, the error of a message only names the state, not the cause.
        if cause.txn_requires_abort() or cause.code() == kafka.KafkaError._STATE:
            log_warning("transaction aborted, its messages are sent again", reason=self._settings.redact(cause.str()))
            try:
                self._retry(lambda: self._producer.abort_transaction(CALL_SECONDS))
            except kafka.KafkaException as problem:
                if problem.args[0].code() != kafka.KafkaError._STATE:  # this one means that no transaction is open
                    return self._recover(problem)
            self._is_open = False
            return False
        if not cause.fatal():
            raise KafkaError(f"{self._settings.brokers}: {self._settings.redact(cause.str())}") from None
        fenced = {kafka.KafkaError._FENCED, kafka.KafkaError.INVALID_PRODUCER_EPOCH}
        if cause.code() in fenced and self.age < 10:
            raise KafkaError(
                f"another run with the name {self._name} has taken over; only one run at a time can use a checkpoint or a "
                "transactional.id"
            ) from None
        log_warning("producer begins anew", reason=self._settings.redact(cause.str()))
        self._is_open = False
        self.begin()
        return True

    def _require(self, call: Callable[[], Any]) -> Any:
        """Call the broker as `_retry` does.  Raises `KafkaError` if it refuses."""
        try:
            return self._retry(call)
        except client().KafkaException as error:
            raise KafkaError(f"{self._settings.brokers}: {self._settings.redact(error.args[0].str())}") from None

    def _retry(self, call: Callable[[], Any]) -> Any:
        """Repeat a call while the broker cannot be reached, unless the run must end."""
        kafka = client()
        while True:
            try:
                found = call()
            except kafka.KafkaException as error:
                cause = error.args[0]
                if not is_broker_away(cause) or cause.fatal() or cause.txn_requires_abort():
                    raise
                # Checked only here: a run that must end still commits its messages if that needs no waiting.
                self._check()
                if not self._is_away:
                    log_warning("waiting for the broker", brokers=self._settings.brokers, reason=cause.name())
                self._is_away = True
                time.sleep(0.1)
                continue
            if self._is_away:
                log_event("the broker is back", brokers=self._settings.brokers)
                self._is_away = False
            return found


COMMIT_SECONDS = 0.1
"""The longest duration of a transaction while messages keep arriving."""

QUIET_COMMIT_SECONDS = 1.0
"""The longest time for which offsets without rows wait to be committed."""


class TopicOutputs(RunOutput):
    """The sink of a run whose rows are messages, committed in transactions together with the offsets of the source."""

    is_transactional = True

    def __init__(
        self,
        rows: RowMessages,
        *,
        settings: ClientSettings,
        witness: bool = False,
        dead_letters: str | None = None,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self.rows = rows
        self.transactions: Transactions | None = None
        self._settings = settings
        self._witness = witness
        self._dead_letters = dead_letters
        self._check = check
        self._source: TopicSource | None = None
        self._committed: dict[TopicPartition, tuple[int, int]] = {}  # offsets, and tuples of the messages there
        self._committed_at = 0.0

    def begin(self, position: None, source: TopicSource) -> None:
        """Become the only producer of the run, and check the topics.  Waits for the broker."""
        self._source = source
        self.transactions = Transactions(
            self._settings,
            name=self._settings.user_value("transactional.id") or source.group,
            run=source.run,
            group=source.reader.group_metadata,
            committed_round=source.committed_round,
            check=self._check,
        )
        self.transactions.begin()
        self.transactions.check_topics(self.topics)
        self.mark_committed()

    def last_commit(self) -> int:
        """Return the last round to which the committed offsets belong."""
        assert self._source is not None
        return self._source.committed_round()

    def mark_committed(self) -> None:
        """Record that the position of the source is committed."""
        assert self._source is not None
        self._committed, self._committed_at = self._source.position().progress, time.monotonic()

    @property
    def topics(self) -> list[str]:
        """The topics to which messages are sent."""
        found = {destination.topic for destination in self.rows.destinations.values()}
        return [*sorted(found), *([self._dead_letters] if self._dead_letters else ())]

    def write(self, tuples: pa.RecordBatch, changes: Changes) -> None:
        """Send the rows of changes."""
        assert self.transactions is not None
        for rows in changes.tables(witness=self._witness) if len(changes) else ():
            for topic, messages in self.rows.convert(rows):
                self.transactions.send(topic, messages)

    def is_due(self, *, quiet: bool) -> bool:
        """Return whether to commit: rows or offsets have waited long enough, or rows wait and all messages are taken."""
        assert self.transactions is not None and self._source is not None
        if self.transactions.age >= COMMIT_SECONDS or (self._source.is_caught_up and self.transactions.messages):
            return True
        is_quiet = time.monotonic() - self._committed_at > QUIET_COMMIT_SECONDS
        return is_quiet and self._source.position().progress != self._committed

    def commit(self) -> None:
        """Commit all messages, and the offsets that have changed since the last commit, also those within a message."""
        assert self.transactions is not None and self._source is not None
        progress = self._source.position().progress
        moved = {place: now[0] for place, now in progress.items() if now != self._committed.get(place, (0, 0))}
        if moved:
            self._source.synchronise()
            self.transactions.commit(moved, self._source.round)
        self.mark_committed()

    def position(self) -> None:
        """Return None, because the broker stores the position."""

    def close(self, *, keeps_empty: bool = True) -> list[Exception]:
        """Abort the open transaction."""
        if self.transactions is not None:
            self.transactions.close()
        return []

    def send_dead_letter(self, bad: BadMessage) -> None:
        """Send a bad message to the topic of dead letters, with the reason and its place as headers."""
        if self._dead_letters is None:
            return
        assert self.transactions is not None
        about = {
            "rpq.reason": bad.reason,
            "rpq.topic": bad.message.topic(),
            "rpq.partition": str(bad.message.partition()),
            "rpq.offset": str(bad.message.offset()),
        }
        headers = [*(bad.message.headers() or ()), *((name, text.encode()) for name, text in about.items())]
        self.transactions.send(self._dead_letters, Messages([bad.message.key()], [bad.message.value()], [headers]))
