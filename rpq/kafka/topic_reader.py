"""The input of a run over topics: its description, its counts, and the reader that fetches messages into a merge."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from rpq.errors import InputError, did_you_mean
from rpq.kafka.client import ClientSettings, ConnectionLog, KafkaError, client, is_broker_away, log_event, log_warning
from rpq.kafka.message_reader import MessageColumns, MessageReader
from rpq.kafka.partition_merge import PartitionMerge, TopicPartition
from rpq.kafka.schema_registry import RegistryAwayError, SchemaRegistry
from rpq.language.where import Where
from rpq.readers.column_names import ColumnNames
from rpq.stream.gc_pause import gc_paused

if TYPE_CHECKING:
    from rpq.kafka.rdf_messages import RdfMessages
    from rpq.readers import EdgeRules, RdfReading


@dataclass(frozen=True, kw_only=True)
class TopicFigures:
    """The counts of a run over topics, except those of its engine.

    `messages` is the number of messages that were read, and `rejected` that of bad ones (`rejections` has the reasons of the
    first).  `filtered` and `undecided` have the same meaning as for files.  `rows_sent` rows were committed in `rounds`
    rounds.  `seconds` is the time from the first fetch to the last commit, 0 if the run failed.  `ended` is the reason for
    the end of the run.

    >>> TopicFigures(ended="end of input", messages=3, rejected=1, rejections=("t/0 at offset 2: …",)).rejected
    1
    """

    ended: str
    messages: int
    rejected: int
    rejections: tuple[str, ...] = ()
    filtered: int = 0
    undecided: int = 0
    rows_sent: int = 0
    rounds: int = 0
    seconds: float = 0.0


@dataclass(kw_only=True)
class TopicInput:
    """The input of a run: topics by name, each with the stream of its tuples, and the options for reading messages.

    With `rdf` a message is a document of RDF, with `rules` a record that becomes edges, otherwise a tuple.  A `registry`
    decodes the messages of records and tuples.
    """

    brokers: str
    topics: Mapping[str, str | None]
    columns: MessageColumns = field(default_factory=lambda: MessageColumns.from_names(ColumnNames()))
    where: Where | None = None
    only_json: bool = False
    rdf: RdfReading | None = None
    rules: EdgeRules | None = None
    registry: SchemaRegistry | None = None
    max_delay: float = 1.0
    on_error: str = "stop"
    until_end: bool = False


def reader_of(
    topics: TopicInput, stream: str | None, *, layout: dict[str, Any] | None = None
) -> MessageReader | RdfMessages:
    """Return a reader of the messages of one topic, whose tuples belong to a stream; it may have a known `layout`.

    Raises `InputError` or `WhereError`.
    """
    if topics.rdf is None:
        return MessageReader(
            topics.columns,
            stream=stream,
            where=topics.where,
            only_json=topics.only_json,
            layout=layout,
            rules=topics.rules,
            registry=topics.registry,
        )
    from rpq.kafka.rdf_messages import RdfMessages

    return RdfMessages(topics.rdf, topics.columns, stream=stream, where=topics.where, layout=layout)


ALERT = "SSL alert number"
"""OpenSSL's message if a broker rejects a certificate, which the client of Kafka takes for a lost connection."""

CALL_SECONDS = 5.0
START_SECONDS = 30.0
"""The time in seconds within which a cluster must be reached for the first time."""

MAX_WAITING = 300_000
"""The number of waiting tuples of a partition at which reading it is paused."""


class TopicReader:
    """A consumer that reads topics into a merge.

    `readers` are the readers of messages by topic, which may use a schema `registry`.  `check` raises an exception if the
    run must end.
    """

    def __init__(
        self,
        settings: ClientSettings,
        readers: Mapping[str, MessageReader | RdfMessages],
        *,
        group: str,
        check: Callable[[], None],
        waits_forever: bool,
        registry: SchemaRegistry | None = None,
    ) -> None:
        self._settings = settings
        self._registry = registry
        self._waits_forever = waits_forever
        self._readers = readers
        self._check = check
        self._is_away = False
        self._refused: str | None = None
        self._was_reached = self._has_hint = False
        self._paused: set[TopicPartition] = set()
        self._ended: set[TopicPartition] = set()
        self._polled: list[Any] = []
        self.messages = self.filtered = self.undecided = 0
        kafka = client()
        self._from_end = (settings.user_value("auto.offset.reset") or "earliest") in ("latest", "largest", "end")
        options = settings.consumer(
            group_id=group,
            enable_auto_commit=False,
            enable_auto_offset_store=False,
            enable_partition_eof=True,
            auto_offset_reset="error",
            error_cb=self._on_error,
        )
        self._log = ConnectionLog()
        self._consumer = settings.create_client(kafka.Consumer, {**options, "logger": self._log})
        self._deadline = None if waits_forever else time.monotonic() + START_SECONDS
        self._topics = self._all_topics()

    # --- topics and partitions -------------------------------------------------------------------------------

    def _on_error(self, error: Any) -> None:
        """Handle an error of a connection, as a callback of the client."""
        kafka = client()
        if error.code() == kafka.KafkaError._ALL_BROKERS_DOWN and not self._is_away:
            self._is_away = True
            log_warning("waiting for the broker", brokers=self._settings.brokers)
        elif error.code() in (kafka.KafkaError._AUTHENTICATION, kafka.KafkaError._SSL) or ALERT in error.str():
            self._refused = self._settings.redact(error.str())
            log_warning("the broker refuses", reason=self._refused)

    def _mark_reachable(self) -> None:
        if self._is_away:
            self._is_away = False
            log_event("the broker is back", brokers=self._settings.brokers)

    def _call_broker(self, call: Callable[[], Any]) -> Any:
        """Call the broker, and repeat the call while it cannot be reached: at first only for `START_SECONDS`."""
        kafka = client()
        while True:
            try:
                found = call()
            except kafka.KafkaException as error:
                cause = error.args[0]
                if not is_broker_away(cause):
                    raise KafkaError(f"{self._settings.brokers}: {self._settings.redact(cause.str())}") from None
                self._poll_errors()
                hint = self._hint()
                if self._refused is not None:
                    message = f"{self._settings.brokers}: the broker refuses the connection: {self._refused}"
                    raise KafkaError(message) from None
                if self._deadline is not None and time.monotonic() > self._deadline:
                    raise KafkaError(
                        f"{self._settings.brokers}: no broker answers: {hint or self._settings.redact(cause.str())}"
                    ) from None
                self._check()
                if not self._is_away:
                    self._is_away = True
                    log_warning("waiting for the broker", brokers=self._settings.brokers, reason=cause.name())
                continue
            self._deadline = self._refused = None
            self._was_reached = True
            self._mark_reachable()
            return found

    def _hint(self) -> str:
        """Return a hint on settings if a broker accepts connections but never answered; log it once."""
        hint = self._settings.hint_of_protocol() if self._log.is_cut and not self._was_reached else ""
        if hint and not self._has_hint:
            self._has_hint = True
            log_warning(hint, brokers=self._settings.brokers)
        return hint

    def _poll_errors(self) -> None:
        """Poll the client for errors.  If it returns a message instead, store it for the next fetch."""
        message = self._consumer.poll(0.1)
        if message is not None:
            self._polled.append(message)

    def _all_topics(self) -> Any:
        topics = self._call_broker(lambda: self._consumer.list_topics(timeout=CALL_SECONDS)).topics
        for topic in self._readers:
            if topic not in topics:
                names = [name for name in topics if not name.startswith("__")]
                raise InputError(f"{self._settings.brokers}: there is no topic {topic!r}{did_you_mean(topic, names)}")
            if topics[topic].error is not None:
                raise KafkaError(f"the topic {topic}: {self._settings.redact(topics[topic].error.str())}")
        return topics

    def places(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return all partitions, each with the first offset to read: that in `offsets`, or its beginning or end."""
        kafka = client()
        found: dict[TopicPartition, int] = {}
        for topic in self._readers:
            for number in sorted(self._topics[topic].partitions):
                place = TopicPartition(topic, number)
                partition = kafka.TopicPartition(topic, number)
                low, high = self._call_broker(partial(self._consumer.get_watermark_offsets, partition, timeout=CALL_SECONDS))
                if place not in offsets:
                    found[place] = high if self._from_end and not offsets else low
                elif offsets[place] < low or offsets[place] > high:
                    why = "deleted by the topic's retention" if offsets[place] < low else "the topic was created anew"
                    raise KafkaError(
                        f"{place}: the run continues at offset {offsets[place]}, but there are {low} to {high}: {why}; "
                        "remove the checkpoint to start anew"
                    )
                else:
                    found[place] = offsets[place]
        return found

    def committed_offsets(self, places: Sequence[TopicPartition], run: str) -> dict[TopicPartition, tuple[int, int]]:
        """Return the offsets that transactions of this run have committed, each with its round."""
        kafka = client()
        partitions = [kafka.TopicPartition(*place) for place in places]
        answer = self._call_broker(lambda: self._consumer.committed(partitions, timeout=CALL_SECONDS))
        found: dict[TopicPartition, tuple[int, int]] = {}
        for one in answer:
            if one.error is not None:
                raise KafkaError(f"the committed offset of {one.topic}/{one.partition}: {one.error.str()}")
            words = (one.metadata or "").split(" ")
            if one.offset >= 0 and words[:2] == ["rpq", run]:
                found[TopicPartition(one.topic, one.partition)] = one.offset, int(words[2])
        return found

    def begin(self, places: Mapping[TopicPartition, int]) -> None:
        """Start to read partitions at the given offsets."""
        kafka = client()
        self._polled = []
        self._consumer.assign([kafka.TopicPartition(*place, offset) for place, offset in places.items()])

    def new_partitions(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Return the partitions of the topics that are not in `partitions`; none if the broker does not answer now."""
        kafka = client()
        try:
            topics = self._consumer.list_topics(timeout=1.0).topics
        except kafka.KafkaException:
            return []
        current = [
            TopicPartition(topic, number)
            for topic in self._readers
            if topic in topics
            for number in topics[topic].partitions
        ]
        return sorted({*current} - {*partitions})

    def join(self, place: TopicPartition) -> None:
        """Start to read a new partition from its beginning."""
        self._consumer.incremental_assign([client().TopicPartition(*place, 0)])

    def group_metadata(self) -> Any:
        """Return the metadata of the consumer group whose offsets a transaction commits."""
        return self._consumer.consumer_group_metadata()

    def is_at_end(self, place: TopicPartition, position: int) -> bool:
        """Return whether the broker confirms that a partition has no more messages now."""
        return self.high(place, cached=False) == position

    def high(self, place: TopicPartition, *, cached: bool = True) -> int | None:
        """Return the offset after the last message of a partition; None if the broker does not answer now."""
        kafka = client()
        try:
            _, high = self._consumer.get_watermark_offsets(kafka.TopicPartition(*place), timeout=1.0, cached=cached)
        except kafka.KafkaException:
            return None
        return int(high) if high >= 0 else None

    @property
    def layouts(self) -> dict[str, Any]:
        """The layouts of the values of each topic, as far as they are known."""
        return {topic: reader.layout for topic, reader in self._readers.items() if reader.layout is not None}

    @property
    def integers(self) -> bool:
        return any(reader.integers for reader in self._readers.values())

    @property
    def finished_partitions(self) -> set[TopicPartition]:
        """The partitions whose end was reached at least once."""
        return self._ended

    # --- reading ---------------------------------------------------------------------------------------------

    def fetch(self, merge: PartitionMerge, message_limit: int, seconds: float) -> int:
        """Add new messages to the merge. Wait at most `seconds` for the first one. Return their number."""
        self._pause_partitions(merge)
        with gc_paused():
            return self._fetch(merge, message_limit, seconds)

    def _fetch(self, merge: PartitionMerge, message_limit: int, seconds: float) -> int:
        consumer = self._consumer
        if self._polled and self._registry is not None and (wait := self._registry.wait()):
            time.sleep(min(wait, seconds))
            return 0
        messages = [*self._polled, *consumer.consume(message_limit, 0)]
        self._polled = []
        if not messages and seconds:
            first = consumer.poll(seconds)
            if first is not None:
                messages = [first, *consumer.consume(message_limit, 0)]
        if messages:
            self._mark_reachable()
            self._dispatch(messages, merge)
        return len(messages) if not self._polled else 0

    def _pause_partitions(self, merge: PartitionMerge) -> None:
        """Pause the partitions of which too many tuples wait, and resume those of which fewer wait again."""
        kafka = client()
        for place in merge.places:
            waiting = merge.waiting_count(place)
            if waiting > MAX_WAITING and place not in self._paused:
                self._paused.add(place)
                self._consumer.pause([kafka.TopicPartition(*place)])
            elif waiting < MAX_WAITING // 2 and place in self._paused:
                self._paused.discard(place)
                self._consumer.resume([kafka.TopicPartition(*place)])

    def _dispatch(self, messages: Sequence[Any], merge: PartitionMerge) -> None:
        # `map` over a method of the class takes a third of the time of a loop over the messages.
        kind, received = client().Message, messages
        ends: list[tuple[TopicPartition, int]] = []
        if any(map(kind.error, messages)):
            pairs = list(zip(messages, map(kind.error, messages), strict=True))
            ends = [end for message, error in pairs if error is not None for end in self._event(message)]
            messages = [message for message, error in pairs if error is None]
        by_topic: dict[str, list[Any]] = {}
        if len(self._readers) == 1 and messages:
            by_topic = {messages[0].topic(): list(messages)}
        else:
            for message, topic in zip(messages, map(kind.topic, messages), strict=True):
                by_topic.setdefault(topic, []).append(message)
        for topic, theirs in by_topic.items():
            try:
                self._read_topic(topic, theirs, merge)
            except RegistryAwayError as error:
                self._on_registry_unavailable(error)
                self._polled += theirs
        if self._polled:
            # The end of a partition follows its messages, which are read again later.
            end = client().KafkaError._PARTITION_EOF
            self._polled += [one for one in received if one.error() is not None and one.error().code() == end]
            return
        for place, offset in ends:
            # Messages may have arrived after the end that was reported.
            if offset >= merge.position(place):
                merge.reached_end(place, offset)
                self._ended.add(place)

    def _on_registry_unavailable(self, error: RegistryAwayError) -> None:
        """Raise the error if the registry was never reached and a new run has waited for it long enough."""
        assert self._registry is not None
        since = self._registry.away_since
        may_wait = self._waits_forever or self._registry.was_reached
        if not may_wait and since is not None and time.monotonic() > since + START_SECONDS:
            raise error

    def _event(self, message: Any) -> list[tuple[TopicPartition, int]]:
        """Return the end of a partition that an error message reports.  Raises `KafkaError` for other lasting errors."""
        kafka = client()
        error = message.error()
        if error.code() == kafka.KafkaError._PARTITION_EOF:
            return [(TopicPartition(message.topic(), message.partition()), message.offset())]
        if error.code() in (kafka.KafkaError._AUTO_OFFSET_RESET, kafka.KafkaError.OFFSET_OUT_OF_RANGE):
            raise KafkaError(
                f"{message.topic()}/{message.partition()}: {self._settings.redact(error.str())}; messages were deleted "
                "before they were read"
            )
        if error.retriable() or error.code() in (kafka.KafkaError._TRANSPORT, kafka.KafkaError._ALL_BROKERS_DOWN):
            return []
        if error.code() == kafka.KafkaError.UNKNOWN_TOPIC_OR_PART and self._is_away:
            return []
        raise KafkaError(f"{message.topic()}: {self._settings.redact(error.str())}")

    def _read_topic(self, topic: str, messages: list[Any], merge: PartitionMerge) -> None:
        reader = self._readers[topic]
        tuples = reader.read(messages)
        for warning in reader.warnings:
            log_warning(warning, topic=topic)
        reader.warnings.clear()
        self.messages += len(messages)
        self.filtered += tuples.filtered
        self.undecided += tuples.undecided
        kind = client().Message
        offsets = np.fromiter(map(kind.offset, messages), np.int64, len(messages))
        places = [place for place in merge.places if place.topic == topic]
        if len(places) == 1:
            bad = {int(offsets[number]): one for number, one in tuples.bad.items()}
            merge.add(places[0], tuples.columns, offsets[tuples.numbers], bad, int(offsets[-1]) + 1)
            return
        partitions = np.fromiter(map(kind.partition, messages), np.int64, len(messages))
        of_rows = partitions[tuples.numbers]
        for number in np.unique(partitions).tolist():
            last = int(offsets[partitions == number][-1])
            rows = np.flatnonzero(of_rows == number)
            columns: pa.RecordBatch | None = tuples.columns
            if columns is not None and len(rows) < columns.num_rows:
                columns = columns.take(pa.array(rows)) if len(rows) else None
            bad = {int(offsets[place]): one for place, one in tuples.bad.items() if partitions[place] == number}
            merge.add(TopicPartition(topic, number), columns, offsets[tuples.numbers[rows]], bad, last + 1)

    def close(self) -> None:
        self._consumer.close()
