"""Topics of Kafka as a streaming DataFrame of edges, by Spark's connector, which keeps the offsets in Spark's checkpoint.

The first messages of a topic determine the layout of its values.  The layout is stored in the checkpoint, so that a stream
that continues reads messages as before, whatever its topics contain by then.  Messages are read as by `rpq run`.  Inside a
micro-batch, tuples of one timestamp are ordered by topic, partition and offset, combined into one integer, `sequence`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rpq.errors import InputError
from rpq.kafka.client import ClientSettings, is_producer_setting
from rpq.kafka.message_reader import MessageColumns, MessageEdges, MessageReader, metadata_names
from rpq.kafka.topic_names import TopicNames
from rpq.spark.columns import null_rows
from rpq.spark.errors import PipelineError
from rpq.spark.jvm import hadoop_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from rpq.readers.text.edge_rules import EdgeRules

REDACTED = "(?i)secret|password|token|access[.]?key|jaas"
"""A regular expression for the names of options whose values Spark never shows."""

_OTHER_NAMES = {"sasl.mechanisms": "sasl.mechanism", "ssl.ca.location": "ssl.truststore.location"}
_TRANSLATED = ("sasl.username", "sasl.password", "auto.offset.reset")
_IN_ONE_FILE = ("ssl.certificate.location", "ssl.key.location", "ssl.certificate.pem", "ssl.key.pem")
_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_FROM_END = ("latest", "largest", "end")


def connector_options(brokers: str, settings: Mapping[str, str]) -> dict[str, str]:
    """Return the options of Spark's connector for settings in librdkafka's names (`--kafka-config`).

    Unknown names are passed on unchanged, so that the names of Java's clients work too.  Raises `PipelineError` for settings
    that Java's clients do not support, and `KafkaError` for settings that users must not change.

    >>> connector_options("localhost:9092", {"ssl.ca.location": "ca.pem"})["kafka.ssl.truststore.type"]
    'PEM'
    """
    ClientSettings(brokers, settings)  # raises an error for settings that users must not change
    options = {
        "kafka.bootstrap.servers": brokers,
        "kafka.isolation.level": "read_committed",
        "startingOffsets": "latest" if settings.get("auto.offset.reset") in _FROM_END else "earliest",
    }
    for name, value in settings.items():
        if name in _IN_ONE_FILE:
            raise PipelineError(
                f"--kafka-config: {name}: Java's clients expect certificate and key in one file; specify it with "
                "ssl.keystore.type=PEM and ssl.keystore.location"
            )
        if name not in _TRANSLATED and not is_producer_setting(name):
            options[f"kafka.{_OTHER_NAMES.get(name, name)}"] = value
    if "ssl.ca.location" in settings:
        options["kafka.ssl.truststore.type"] = "PEM"
    if settings.get("ssl.endpoint.identification.algorithm") == "none":
        options["kafka.ssl.endpoint.identification.algorithm"] = ""
    if "sasl.username" in settings:
        options["kafka.sasl.jaas.config"] = _login(settings)
    return options


def _login(settings: Mapping[str, str]) -> str:
    """Return the JAAS configuration of a login for Java's clients."""
    mechanism = settings.get("sasl.mechanisms") or settings.get("sasl.mechanism") or "PLAIN"
    if mechanism not in _MODULES:
        raise PipelineError(
            f"--kafka-config: sasl.username with the mechanism {mechanism}: expected one of {', '.join(_MODULES)}, or "
            "sasl.jaas.config in the syntax of Java's clients"
        )
    name, password = (_quote(settings.get(key, "")) for key in ("sasl.username", "sasl.password"))
    return f"{_MODULES[mechanism]} required username={name} password={password};"


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


SEQUENCE = "sequence"
OFFSET_BITS, PARTITION_BITS, TOPIC_BITS = 44, 13, 6
"""The bits of a sequence for the offset, the partition and the topic."""

METADATA_COLUMNS = ("key", "headers", "time", "time_kind")


class ConnectorMessage:
    """A message of Spark's connector with the methods of a confluent-kafka message, which `MessageReader` calls."""

    __slots__ = ("_metadata", "_offset", "_partition", "_topic", "_value")

    def __init__(
        self, topic: str, partition: int, offset: int, value: bytes | None, metadata: Mapping[str, Any] | None = None
    ) -> None:
        self._topic, self._partition, self._offset = topic, partition, offset
        self._value, self._metadata = value, metadata

    def topic(self) -> str:
        return self._topic

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        return self._offset

    def value(self) -> bytes | None:
        return self._value

    def key(self) -> bytes | None:
        return None if self._metadata is None else self._metadata["key"]

    def headers(self) -> list[tuple[str, bytes]]:
        headers = None if self._metadata is None else self._metadata["headers"]
        return [(header["key"], header["value"]) for header in headers or ()]

    def timestamp(self) -> tuple[int, int]:
        if self._metadata is None or self._metadata["time"] is None:
            return 0, -1
        return self._metadata["time_kind"] + 1, self._metadata["time"]


def read_messages(rows: pa.RecordBatch | pa.Table) -> list[ConnectorMessage]:
    """Return rows with the columns topic, partition, offset, value and optionally `METADATA_COLUMNS` as messages."""
    columns = [rows.column(name).to_pylist() for name in ("topic", "partition", "offset", "value")]
    if "key" not in rows.schema.names:
        return [ConnectorMessage(*place) for place in zip(*columns, strict=True)]
    columns.append(rows.select(METADATA_COLUMNS).to_pylist())
    return [ConnectorMessage(*place) for place in zip(*columns, strict=True)]


class MessageTuples:
    """A function for `mapInArrow` that turns batches of messages into batches of tuples.

    `layouts` maps topics to the layouts of their values.  With `stops`, a message that is not a tuple raises `InputError`;
    otherwise the message is a row of nulls.
    """

    def __init__(
        self,
        columns: MessageColumns,
        layouts: Mapping[str, Mapping[str, Any]],
        *,
        integers: bool,
        stops: bool,
        rules: EdgeRules | None = None,
    ) -> None:
        self._columns = columns
        self._layouts = dict(layouts)
        self._stops = stops
        self._rules = rules
        vertex, text, number = pa.int64() if integers else pa.string(), pa.string(), pa.int64()
        types = {"source": vertex, "target": vertex, "label": text, "timestamp": number, "op": text, SEQUENCE: number}
        self._schema = pa.schema(list(types.items()))

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        readers = {
            topic: MessageReader(self._columns, layout=dict(layout), rules=self._rules)
            for topic, layout in self._layouts.items()
        }
        ranks = {topic: number for number, topic in enumerate(sorted(self._layouts))}
        for batch in batches:
            for topic in pc.unique(batch.column("topic")).to_pylist():
                rows = batch.filter(pc.equal(batch.column("topic"), topic))
                read = readers[topic].read(read_messages(rows))
                tuples = self._tuples(read, rows, ranks[topic])
                if tuples is not None:
                    yield tuples
                if read.bad:
                    yield null_rows(self._schema, len(read.bad))

    def _tuples(self, tuples: MessageEdges, rows: pa.RecordBatch, rank: int) -> pa.RecordBatch | None:
        if tuples.bad and self._stops:
            bad = tuples.bad[min(tuples.bad)]
            raise InputError(f"{bad.place}: {bad.reason}")
        if tuples.columns is None:
            return None
        found = tuples.columns
        vertex = self._schema.field("source").type
        deletes = found.column("delete") if "delete" in found.schema.names else pa.nulls(len(found), pa.bool_())
        ops = pc.if_else(pc.fill_null(deletes, False), "-", "+")
        columns = {
            "source": found.column("source").cast(vertex),
            "target": found.column("target").cast(vertex),
            "label": found.column("label").cast(pa.string()),
            "timestamp": found.column("timestamp").cast(pa.int64()),
            "op": ops.cast(pa.string()),
            SEQUENCE: pa.array(message_sequences(rank, rows, tuples.numbers)),
        }
        return pa.RecordBatch.from_pydict(columns)


def message_sequences(rank: int, rows: pa.RecordBatch, numbers: Sequence[int] | np.ndarray) -> np.ndarray:
    """Return the sequences of some messages of a topic, which sort by topic (its rank), partition and offset.

    Raises `InputError` if the rank, a partition or an offset is too large.
    """
    partitions = rows.column("partition").to_numpy().astype(np.int64)[numbers]
    offsets = rows.column("offset").to_numpy().astype(np.int64)[numbers]
    largest_values = ((rank, TOPIC_BITS), (partitions.max(initial=0), PARTITION_BITS), (offsets.max(initial=0), OFFSET_BITS))
    for what, (largest, bits) in zip(("topics", "partitions", "offsets"), largest_values, strict=True):
        if largest >> bits:
            raise InputError(f"too many {what}: a stream on Spark orders tuples by fewer than 2^{bits} of them")
    sequences: np.ndarray = (np.int64(rank) << (PARTITION_BITS + OFFSET_BITS)) | (partitions << OFFSET_BITS) | offsets
    return sequences


FILE = "rpq-topics.json"
FORMAT = 1
FIRST_MESSAGES = 20
"""The number of messages of a topic that are searched for a message that determines the layout."""
FIRST_EDGES = 10_000
"""The number of messages of a topic by which the labels of a new stream are counted."""


class TopicEdges(NamedTuple):
    """Edges of topics, with the columns source, target, label, timestamp, op and `sequence`, which orders equal timestamps.

    `time_unit` is the unit of the timestamps, if messages determine it.  `first_edges` returns the edges of the first
    `FIRST_EDGES` messages of each topic as a data frame; messages that are no tuples are left out.
    """

    edges: DataFrame
    sequence: str
    time_unit: str | None
    first_edges: Callable[[], DataFrame]


def topic_edges(
    session: SparkSession,
    topics: TopicNames,
    *,
    columns: MessageColumns,
    settings: Mapping[str, str],
    checkpoint: str,
    max_messages: int,
    on_error: str,
    rules: EdgeRules | None = None,
) -> TopicEdges:
    """Return a stream of the messages of topics as edges, at most `max_messages` per micro-batch.

    `settings` are those of clients in librdkafka's names.  With `rules` each message has several edges or none.  Raises
    `PipelineError` if the connector is missing, or if a topic has no message that determines the layout.
    """
    if len(topics.topics) > 1 << TOPIC_BITS:
        raise PipelineError(f"{len(topics.topics)} topics: a stream on Spark reads {1 << TOPIC_BITS} at most")
    options = connector_options(topics.brokers, settings)
    described = _columns_json(columns) | ({} if rules is None else {"edges_from": rules.digest})
    layouts = _stored_layouts(session, checkpoint, described)
    if layouts is None:
        layouts = {topic: _topic_layout(session, topic, options, columns, rules) for topic in topics.topics}
        content = {"format": FORMAT, "columns": described, "layouts": layouts}
        hadoop_files.write_text(session, _layouts_path(checkpoint), json.dumps(content) + "\n")
    if missing := [topic for topic in topics.topics if topic not in layouts]:
        raise PipelineError(
            f"the checkpoint {checkpoint} belongs to a stream of {', '.join(sorted(layouts))}, not of {missing[0]}; begin "
            "with a new checkpoint and a new output"
        )
    integers = {bool(layout.get("integers")) for layout in layouts.values()}
    if len(integers) > 1:
        kinds = ", ".join(f"{topic} {'integers' if layout.get('integers') else 'text'}" for topic, layout in layouts.items())
        raise PipelineError(f"vertices are of two kinds: {kinds}; all topics of a stream must have the same kind")
    vertex = "bigint" if integers == {True} else "string"
    stream = session.readStream.format("kafka").options(**options).option("subscribe", ",".join(topics.topics))
    stream = stream.option("maxOffsetsPerTrigger", max_messages).option("includeHeaders", _needs_metadata(columns, rules))
    options_of_tuples: Any = {"integers": vertex == "bigint", "rules": rules}
    read = MessageTuples(columns, layouts, stops=on_error == "stop", **options_of_tuples)
    schema = f"source {vertex}, target {vertex}, label string, timestamp bigint, op string, {SEQUENCE} bigint"
    edges = _columns(_load(stream), columns, rules).mapInArrow(read, schema)
    has_times = any(layout.get("times", "integers") != "integers" for layout in layouts.values())

    def first_edges() -> DataFrame:
        messages = [_first_messages(session, topic, options, columns, rules, FIRST_EDGES) for topic in topics.topics]
        lenient = MessageTuples(columns, layouts, stops=False, **options_of_tuples)
        return reduce(lambda one, other: one.union(other), messages).mapInArrow(lenient, schema)

    return TopicEdges(edges, SEQUENCE, columns.unit or ("us" if has_times else None), first_edges)


def coordinates() -> str:
    """Return the value of `--packages` for the connector of this Spark."""
    import pyspark

    return f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"


def _load(reader: Any) -> DataFrame:
    from pyspark.errors import AnalysisException

    try:
        frame: DataFrame = reader.load()
    except AnalysisException as error:
        if "kafka" not in str(error).lower():
            raise
        raise PipelineError(
            f"topics need Spark's connector, which is missing: add --packages {coordinates()} (or the latest published "
            "version before it), or the connector's jars with --conf spark.jars=FILE,FILE"
        ) from error
    return frame


def _needs_metadata(columns: MessageColumns, rules: EdgeRules | None) -> bool:
    return any(name not in ("@topic", "@partition", "@offset") for name in metadata_names(columns, rules))


def _columns(messages: DataFrame, columns: MessageColumns, rules: EdgeRules | None) -> DataFrame:
    """Return the places and values of messages, and `METADATA_COLUMNS` if columns of tuples or rules are read from them."""
    names = ["topic", "partition", "offset", "value"]
    if not _needs_metadata(columns, rules):
        return messages.select(*names)
    expressions = ("key", "headers", "unix_millis(timestamp)", "timestampType")
    renamed = [f"{one} AS {name}" for one, name in zip(expressions, METADATA_COLUMNS, strict=True)]
    return messages.selectExpr(*names, *renamed)


def _topic_layout(
    session: SparkSession, topic: str, options: Mapping[str, str], columns: MessageColumns, rules: EdgeRules | None
) -> dict[str, Any]:
    """Return the layout of the values of a topic, as its first messages determine it."""
    first = _first_messages(session, topic, options, columns, rules, FIRST_MESSAGES).toArrow()
    messages = sorted(read_messages(first), key=lambda message: (message.partition(), message.offset()))
    return layout_of_messages(topic, messages, columns, rules)


def _first_messages(
    session: SparkSession,
    topic: str,
    options: Mapping[str, str],
    columns: MessageColumns,
    rules: EdgeRules | None,
    count: int,
) -> DataFrame:
    """Return the first messages of a topic, whatever the offset from which the stream reads."""
    reader = session.read.format("kafka").options(**{**options, "startingOffsets": "earliest"}).option("subscribe", topic)
    reader = reader.option("includeHeaders", _needs_metadata(columns, rules))
    return _columns(_load(reader), columns, rules).limit(count)


def layout_of_messages(
    topic: str, messages: Sequence[Any], columns: MessageColumns, rules: EdgeRules | None = None
) -> dict[str, Any]:
    """Return the layout of a topic's values, as messages determine it.  Raises `PipelineError` if no message does."""
    reader = MessageReader(columns, rules=rules)
    bad = reader.read(messages).bad if messages else {}
    if reader.layout is None:
        reason = f": {bad[min(bad)].place}: {bad[min(bad)].reason}" if bad else " yet"
        raise PipelineError(f"{topic}: has no message that is a tuple{reason}; the first tuple determines the columns")
    return reader.layout


def _layouts_path(checkpoint: str) -> str:
    return hadoop_files.join(checkpoint, FILE)


def _columns_json(columns: MessageColumns) -> dict[str, Any]:
    """Return the sources of the columns as JSON values, after a round trip."""
    described: dict[str, Any] = json.loads(json.dumps(asdict(columns)))
    return described


def _stored_layouts(session: SparkSession, checkpoint: str, columns: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the layouts in a checkpoint, or None.  Raises `PipelineError` if they are damaged or for other columns."""
    text = hadoop_files.read_text(session, _layouts_path(checkpoint))
    if text is None:
        return None
    try:
        content = json.loads(text)
        if content["format"] != FORMAT:
            raise PipelineError(
                f"{_layouts_path(checkpoint)} is of format {content['format']}; this release reads format {FORMAT}"
            )
        before = content["columns"]
        layouts = {str(topic): dict(layout) for topic, layout in content["layouts"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise PipelineError(f"{_layouts_path(checkpoint)} is damaged: {problem}") from problem
    if before != columns:
        raise PipelineError(
            f"the checkpoint {checkpoint} belongs to a stream with other columns, label or time unit. Continue with the "
            "same options, or begin with a new checkpoint and a new output"
        )
    return layouts
