"""Settings of clients: what `--kafka-config` says in librdkafka's names, in those of Java, which Spark's connector takes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rpq.errors import InputError
from rpq.kafka.client_settings import ClientSettings, is_of_producers
from rpq.kafka.message_columns import MessageColumns
from rpq.kafka.message_tuples import MessageReader, Tuples
from rpq.kafka.topic_names import TopicNames
from rpq.spark.errors import PipelineError
from rpq.spark.jvm import hadoop_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

REDACTED = "(?i)secret|password|token|access[.]?key|jaas"
"""Names of options whose values Spark shows nowhere."""

_OTHER_NAMES = {"sasl.mechanisms": "sasl.mechanism", "ssl.ca.location": "ssl.truststore.location"}
_TAKEN = ("sasl.username", "sasl.password", "auto.offset.reset")
_IN_ONE_FILE = ("ssl.certificate.location", "ssl.key.location", "ssl.certificate.pem", "ssl.key.pem")
_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_FROM_END = ("latest", "largest", "end")


def connector_options(brokers: str, given: Mapping[str, str]) -> dict[str, str]:
    """Options of Spark's connector; names that are not known go through as they are, so that Java's are taken too.

    Raises `PipelineError` for what Java's clients have no word for, and `KafkaError` for what is not the user's to say.

    >>> connector_options("localhost:9092", {"ssl.ca.location": "ca.pem"})["kafka.ssl.truststore.type"]
    'PEM'
    """
    ClientSettings(brokers, given)  # refuses what is not to be set
    options = {
        "kafka.bootstrap.servers": brokers,
        "kafka.isolation.level": "read_committed",
        "startingOffsets": "latest" if given.get("auto.offset.reset") in _FROM_END else "earliest",
    }
    for name, value in given.items():
        if name in _IN_ONE_FILE:
            raise PipelineError(
                f"--kafka-config: {name}: Java's clients have certificate and key in one file; name it with "
                "ssl.keystore.type=PEM and ssl.keystore.location"
            )
        if name not in _TAKEN and not is_of_producers(name):
            options[f"kafka.{_OTHER_NAMES.get(name, name)}"] = value
    if "ssl.ca.location" in given:
        options["kafka.ssl.truststore.type"] = "PEM"
    if given.get("ssl.endpoint.identification.algorithm") == "none":
        options["kafka.ssl.endpoint.identification.algorithm"] = ""
    if "sasl.username" in given:
        options["kafka.sasl.jaas.config"] = _login(given)
    return options


def _login(given: Mapping[str, str]) -> str:
    """What signs in, in the words of Java's clients."""
    mechanism = given.get("sasl.mechanisms") or given.get("sasl.mechanism") or "PLAIN"
    if mechanism not in _MODULES:
        raise PipelineError(
            f"--kafka-config: sasl.username with the mechanism {mechanism}: expected one of {', '.join(_MODULES)}, or "
            "sasl.jaas.config in the words of Java's clients"
        )
    name, password = (_quoted(given.get(key, "")) for key in ("sasl.username", "sasl.password"))
    return f"{_MODULES[mechanism]} required username={name} password={password};"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


SEQUENCE = "sequence"
OFFSET_BITS, PARTITION_BITS, TOPIC_BITS = 44, 13, 6
"""Of a sequence: for how many offsets, partitions and topics there is room in it."""

METADATA_COLUMNS = ("key", "headers", "time", "time_kind")


class ConnectorMessage:
    """A message with the methods of confluent-kafka's, which is what a reader of messages knows."""

    __slots__ = ("_metadata", "_offset", "_partition", "_topic", "_value")

    def __init__(
        self, topic: str, partition: int, offset: int, value: bytes | None, beside: Mapping[str, Any] | None = None
    ) -> None:
        self._topic, self._partition, self._offset = topic, partition, offset
        self._value, self._metadata = value, beside

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
        given = None if self._metadata is None else self._metadata["headers"]
        return [(header["key"], header["value"]) for header in given or ()]

    def timestamp(self) -> tuple[int, int]:
        if self._metadata is None or self._metadata["time"] is None:
            return 0, -1
        return self._metadata["time_kind"] + 1, self._metadata["time"]


def read_messages(rows: pa.RecordBatch | pa.Table) -> list[ConnectorMessage]:
    """Rows with the columns topic, partition, offset, value and, where they are wanted, those beside them."""
    columns = [rows.column(name).to_pylist() for name in ("topic", "partition", "offset", "value")]
    if "key" not in rows.schema.names:
        return [ConnectorMessage(*place) for place in zip(*columns, strict=True)]
    columns.append(rows.select(METADATA_COLUMNS).to_pylist())
    return [ConnectorMessage(*place) for place in zip(*columns, strict=True)]


class MessageTuples:
    """Makes batches of tuples of batches of messages, in a worker; `layouts` tell by topic how its values are laid out.

    With `stops` a message that is no tuple raises `InputError`, else it is left out.
    """

    def __init__(
        self, columns: MessageColumns, layouts: Mapping[str, Mapping[str, Any]], *, integers: bool, stops: bool
    ) -> None:
        self._columns = columns
        self._layouts = dict(layouts)
        self._integers = integers
        self._stops = stops

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        readers = {topic: MessageReader(self._columns, layout=dict(layout)) for topic, layout in self._layouts.items()}
        ranks = {topic: number for number, topic in enumerate(sorted(self._layouts))}
        for batch in batches:
            for topic in pc.unique(batch.column("topic")).to_pylist():
                theirs = batch.filter(pc.equal(batch.column("topic"), topic))
                made = self._tuples(readers[topic].read(read_messages(theirs)), theirs, ranks[topic])
                if made is not None:
                    yield made

    def _tuples(self, tuples: Tuples, rows: pa.RecordBatch, rank: int) -> pa.RecordBatch | None:
        if tuples.bad and self._stops:
            bad = tuples.bad[min(tuples.bad)]
            raise InputError(f"{bad.place}: {bad.reason}")
        if tuples.columns is None:
            return None
        found = tuples.columns
        vertex = pa.int64() if self._integers else pa.string()
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
    """The places of some messages of a topic as integers, in the order of topic (by its rank), partition and offset.

    Raises `InputError` where one is too large for that.
    """
    partitions = rows.column("partition").to_numpy().astype(np.int64)[numbers]
    offsets = rows.column("offset").to_numpy().astype(np.int64)[numbers]
    most = ((rank, TOPIC_BITS), (partitions.max(initial=0), PARTITION_BITS), (offsets.max(initial=0), OFFSET_BITS))
    for what, (largest, bits) in zip(("topics", "partitions", "offsets"), most, strict=True):
        if largest >> bits:
            raise InputError(f"too many {what}: a stream on Spark takes less than 2^{bits} of them, to order tuples by")
    made: np.ndarray = (np.int64(rank) << (PARTITION_BITS + OFFSET_BITS)) | (partitions << OFFSET_BITS) | offsets
    return made


FILE = "rpq-topics.json"
FORMAT = 1
FIRST_MESSAGES = 20
"""So many messages of a topic are looked at for one that tells."""


class TopicEdges(NamedTuple):
    """Edges of topics: columns source, target, label, timestamp and op, and the one that orders those of one timestamp.

    `time_unit` is that of the timestamps, where messages tell it.
    """

    edges: DataFrame
    sequence: str
    time_unit: str | None


def topic_edges(
    session: SparkSession,
    topics: TopicNames,
    *,
    columns: MessageColumns,
    given: Mapping[str, str],
    checkpoint: str,
    max_messages: int,
    on_error: str,
) -> TopicEdges:
    """The messages of topics as they come, at most so many a micro-batch.

    `given` are settings of clients in librdkafka's names.  Raises `PipelineError` where the connector is missing, or a topic
    holds nothing that tells what its messages are.
    """
    if len(topics.topics) > 1 << TOPIC_BITS:
        raise PipelineError(f"{len(topics.topics)} topics: a stream on Spark reads {1 << TOPIC_BITS} at most")
    options = connector_options(topics.brokers, given)
    layouts = _stored_layouts(session, checkpoint, columns)
    if layouts is None:
        layouts = {topic: _topic_layout(session, topic, options, columns) for topic in topics.topics}
        kept = {"format": FORMAT, "columns": _columns_json(columns), "layouts": layouts}
        hadoop_files.write_text(session, _layouts_path(checkpoint), json.dumps(kept) + "\n")
    if missing := [topic for topic in topics.topics if topic not in layouts]:
        raise PipelineError(
            f"the checkpoint {checkpoint} belongs to a stream of {', '.join(sorted(layouts))}, not of {missing[0]}; begin "
            "with a new checkpoint and a new output"
        )
    integers = {bool(layout.get("integers")) for layout in layouts.values()}
    if len(integers) > 1:
        told = ", ".join(f"{topic} {'integers' if layout.get('integers') else 'text'}" for topic, layout in layouts.items())
        raise PipelineError(f"vertices are of two kinds: {told}; all topics of a stream have to agree")
    vertex = "bigint" if integers == {True} else "string"
    later = session.readStream.format("kafka").options(**options).option("subscribe", ",".join(topics.topics))
    later = later.option("maxOffsetsPerTrigger", max_messages).option("includeHeaders", _needs_metadata(columns))
    read = MessageTuples(columns, layouts, integers=vertex == "bigint", stops=on_error == "stop")
    schema = f"source {vertex}, target {vertex}, label string, timestamp bigint, op string, {SEQUENCE} bigint"
    edges = _columns(_load(later), columns).mapInArrow(read, schema)
    is_told = any(layout.get("times", "integers") != "integers" for layout in layouts.values())
    return TopicEdges(edges, SEQUENCE, columns.unit or ("us" if is_told else None))


def coordinates() -> str:
    """What `--packages` takes for the connector of this Spark."""
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
            f"topics need Spark's connector, which is not there: --packages {coordinates()} (or the newest before it that "
            "is published), or its jars with --conf spark.jars=FILE,FILE"
        ) from error
    return frame


def _needs_metadata(columns: MessageColumns) -> bool:
    return any(name not in ("@topic", "@partition", "@offset") for _, name in columns.beside)


def _columns(messages: DataFrame, columns: MessageColumns) -> DataFrame:
    """What of messages is needed: their places and values, and what stands beside them if any of it is a column."""
    names = ["topic", "partition", "offset", "value"]
    if not _needs_metadata(columns):
        return messages.select(*names)
    beside = ("key", "headers", "unix_millis(timestamp)", "timestampType")
    renamed = [f"{what} AS {name}" for what, name in zip(beside, METADATA_COLUMNS, strict=True)]
    return messages.selectExpr(*names, *renamed)


def _topic_layout(session: SparkSession, topic: str, options: Mapping[str, str], columns: MessageColumns) -> dict[str, Any]:
    """How the values of a topic are laid out, as its first messages tell it."""
    reader = session.read.format("kafka").options(**{**options, "startingOffsets": "earliest"}).option("subscribe", topic)
    reader = reader.option("includeHeaders", _needs_metadata(columns))
    first = _columns(_load(reader), columns).limit(FIRST_MESSAGES).toArrow()
    messages = sorted(read_messages(first), key=lambda message: (message.partition(), message.offset()))
    return layout_of_messages(topic, messages, columns)


def layout_of_messages(topic: str, messages: Sequence[Any], columns: MessageColumns) -> dict[str, Any]:
    """The layout of a topic's values, as messages tell it; raises `PipelineError` where none does."""
    reader = MessageReader(columns)
    bad = reader.read(messages).bad if messages else {}
    if reader.layout is None:
        why = f": {bad[min(bad)].place}: {bad[min(bad)].reason}" if bad else " yet"
        raise PipelineError(f"{topic}: holds no message that is a tuple{why}; the first one tells the columns")
    return reader.layout


def _layouts_path(checkpoint: str) -> str:
    return hadoop_files.join(checkpoint, FILE)


def _columns_json(columns: MessageColumns) -> dict[str, Any]:
    """Where columns are, as JSON values come back."""
    described: dict[str, Any] = json.loads(json.dumps(asdict(columns)))
    return described


def _stored_layouts(session: SparkSession, checkpoint: str, columns: MessageColumns) -> dict[str, Any] | None:
    """The layouts that a checkpoint keeps, of the same columns; None where there are none."""
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
    if before != _columns_json(columns):
        raise PipelineError(
            f"the checkpoint {checkpoint} belongs to a stream with other columns, label or time unit. Go on with what it "
            "was begun with, or begin with a new checkpoint and a new output"
        )
    return layouts
