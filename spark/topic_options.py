"""What `rpq spark stream` is told of topics, and where that does not go together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from rpq.cli import options as shared
from rpq.kafka.topic_names import is_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rpq.spark.topic_edges import TopicEdges

MAX_MESSAGES = 200_000

topic_options = shared.combine_options(
    click.option("--kafka-config", metavar="FILE", help="Of topics: name=value lines in librdkafka's names (TLS, SASL)."),
    click.option(
        "--max-messages",
        type=click.IntRange(min=1),
        default=MAX_MESSAGES,
        show_default=True,
        help="Of topics: messages a micro-batch.",
    ),
    click.option(
        "--packages",
        metavar="COORDINATES",
        help="What Spark gets from Maven: for topics its connector, org.apache.spark:spark-sql-kafka-0-10_2.13:VERSION.",
    ),
)

_DEFAULTS = {"kafka_config": None, "max_messages": MAX_MESSAGES}
_OF_FILES = {
    "files": ("parquet", "messages are objects of JSON or fields, as the first one tells"),
    "max_files": (1, "--max-messages bounds a micro-batch"),
    "sequence": (None, "tuples of one timestamp are ordered by topic, partition and offset"),
}


def refuse_of_topics(options: dict[str, Any]) -> None:
    """Raise a usage error where options of topics are given without them, or those of files with them."""
    if is_topic(options["folder"]):
        for name, (default, instead) in _OF_FILES.items():
            if options[name] != default:
                raise click.UsageError(f"--{name.replace('_', '-')} goes with files, not with topics: {instead}")
        return
    for name, default in _DEFAULTS.items():
        if options[name] != default:
            raise click.UsageError(f"--{name.replace('_', '-')} is of topics; expected --input kafka://BROKER/TOPIC")


def settings_of_topics(options: dict[str, Any]) -> dict[str, str]:
    """The settings of a session that reads topics."""
    if not options.get("packages") and not is_topic(options.get("folder")):
        return {}
    from rpq.spark.connector_settings import REDACTED

    packages = options.get("packages")
    return {"spark.redaction.regex": REDACTED, **({"spark.jars.packages": packages} if packages else {})}


def edges_of_topics(session: SparkSession, options: dict[str, Any]) -> TopicEdges:
    """The topics that are the input; raises `RpqError` where something is wrong with them."""
    from rpq.kafka.client import read_settings
    from rpq.kafka.message_reader import MessageColumns
    from rpq.kafka.topic_names import topics_in
    from rpq.readers.column_names import ColumnNames
    from rpq.spark.topic_edges import topic_edges

    return topic_edges(
        session,
        topics_in(options["folder"]),
        columns=MessageColumns.of(ColumnNames.parse(options["columns"], label=options["label"]), options["time_unit"]),
        given=read_settings(options["kafka_config"]) if options["kafka_config"] else {},
        checkpoint=options["checkpoint"],
        max_messages=options["max_messages"],
        on_error=options["on_error"],
    )
