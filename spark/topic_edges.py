"""Topics of Kafka as a streaming DataFrame of edges, by Spark's connector; how far they are read is in Spark's checkpoint.

The first messages of a topic tell how its values are laid out.  That is kept in the checkpoint, so that a stream that goes
on reads them as before, whatever its topics hold by then.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

from rpq.kafka.message_reader import MessageColumns, MessageReader
from rpq.kafka.topic_names import TopicNames
from rpq.spark import hadoop_files
from rpq.spark.arrived_messages import BESIDE_COLUMNS, SEQUENCE, TOPIC_BITS, TuplesOfMessages, messages_in
from rpq.spark.connector_settings import connector_options
from rpq.spark.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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
    layouts = _kept(session, checkpoint, columns)
    if layouts is None:
        layouts = {topic: _layout(session, topic, options, columns) for topic in topics.topics}
        kept = {"format": FORMAT, "columns": _described(columns), "layouts": layouts}
        hadoop_files.write_text(session, _place(checkpoint), json.dumps(kept) + "\n")
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
    later = later.option("maxOffsetsPerTrigger", max_messages).option("includeHeaders", _needs_beside(columns))
    read = TuplesOfMessages(columns, layouts, integers=vertex == "bigint", stops=on_error == "stop")
    schema = f"source {vertex}, target {vertex}, label string, timestamp bigint, op string, {SEQUENCE} bigint"
    edges = _columns(_opened(later), columns).mapInArrow(read, schema)
    is_told = any(layout.get("times", "integers") != "integers" for layout in layouts.values())
    return TopicEdges(edges, SEQUENCE, columns.unit or ("us" if is_told else None))


def coordinates() -> str:
    """What `--packages` takes for the connector of this Spark."""
    import pyspark

    return f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"


def _opened(reader: Any) -> DataFrame:
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


def _needs_beside(columns: MessageColumns) -> bool:
    return any(name not in ("@topic", "@partition", "@offset") for _, name in columns.beside)


def _columns(messages: DataFrame, columns: MessageColumns) -> DataFrame:
    """What of messages is needed: their places and values, and what stands beside them if any of it is a column."""
    names = ["topic", "partition", "offset", "value"]
    if not _needs_beside(columns):
        return messages.select(*names)
    beside = ("key", "headers", "unix_millis(timestamp)", "timestampType")
    renamed = [f"{what} AS {name}" for what, name in zip(beside, BESIDE_COLUMNS, strict=True)]
    return messages.selectExpr(*names, *renamed)


def _layout(session: SparkSession, topic: str, options: Mapping[str, str], columns: MessageColumns) -> dict[str, Any]:
    """How the values of a topic are laid out, as its first messages tell it."""
    reader = session.read.format("kafka").options(**{**options, "startingOffsets": "earliest"}).option("subscribe", topic)
    reader = reader.option("includeHeaders", _needs_beside(columns))
    first = _columns(_opened(reader), columns).limit(FIRST_MESSAGES).toArrow()
    messages = sorted(messages_in(first), key=lambda message: (message.partition(), message.offset()))
    return layout_told_by(topic, messages, columns)


def layout_told_by(topic: str, messages: Sequence[Any], columns: MessageColumns) -> dict[str, Any]:
    """The layout of a topic's values, as messages tell it; raises `PipelineError` where none does."""
    reader = MessageReader(columns)
    bad = reader.read(messages).bad if messages else {}
    if reader.layout is None:
        why = f": {bad[min(bad)].place}: {bad[min(bad)].reason}" if bad else " yet"
        raise PipelineError(f"{topic}: holds no message that is a tuple{why}; the first one tells the columns")
    return reader.layout


def _place(checkpoint: str) -> str:
    return hadoop_files.inside(checkpoint, FILE)


def _described(columns: MessageColumns) -> dict[str, Any]:
    """Where columns are, as JSON values come back."""
    described: dict[str, Any] = json.loads(json.dumps(asdict(columns)))
    return described


def _kept(session: SparkSession, checkpoint: str, columns: MessageColumns) -> dict[str, Any] | None:
    """The layouts that a checkpoint keeps, of the same columns; None where there are none."""
    text = hadoop_files.read_text(session, _place(checkpoint))
    if text is None:
        return None
    try:
        content = json.loads(text)
        if content["format"] != FORMAT:
            raise PipelineError(f"{_place(checkpoint)} is of format {content['format']}; this release reads format {FORMAT}")
        before = content["columns"]
        layouts = {str(topic): dict(layout) for topic, layout in content["layouts"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise PipelineError(f"{_place(checkpoint)} is damaged: {problem}") from problem
    if before != _described(columns):
        raise PipelineError(
            f"the checkpoint {checkpoint} belongs to a stream with other columns, label or time unit. Go on with what it "
            "was begun with, or begin with a new checkpoint and a new output"
        )
    return layouts
