"""`run_topics`: queries from topics to topics, from Python."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from rpq.errors import InputError
from rpq.kafka.client import ClientSettings, client, read_settings
from rpq.kafka.message_reader import MessageColumns
from rpq.kafka.row_outputs import Destination, RowMessages, TopicOutputs
from rpq.kafka.topic_names import checked_topic, is_topic, one_cluster, one_topic, topics_in
from rpq.kafka.topic_reader import TopicFigures, TopicInput
from rpq.kafka.topic_run import CHECKPOINT_SECONDS, TopicRun
from rpq.queries.protocol import MOST_ROWS
from rpq.readers.column_names import ColumnNames
from rpq.readers.where import parse_where

if TYPE_CHECKING:
    from rpq.queries.query import Query

UPSERT_NEEDS_EXPLICIT = (
    "upsert needs semantics 'explicit': with 'implicit' answers that expire leave without a row, and would stay in the topic"
)


def run_topics(
    *queries: Query,
    input: str | Iterable[str],
    output: str | Mapping[str, str],
    checkpoint: str | os.PathLike[str] | None = None,
    kafka_config: Mapping[str, str] | str | os.PathLike[str] | None = None,
    columns: str | None = None,
    label: str | None = None,
    where: str | None = None,
    time_unit: str | None = None,
    max_delay: float = 1.0,
    on_error: str = "stop",
    upsert: bool = False,
    witness: bool = False,
    until_end: bool = False,
    limit: int | None = None,
    threads: int = 1,
    memory_limit: int | None = None,
    max_rows: int | None = MOST_ROWS,
    max_ahead: int | str | timedelta | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    check: Callable[[], None] = lambda: None,
) -> TopicFigures:
    """Run queries from topics to topics, exactly once, until `check` raises; with `until_end`, until the topics end.

    `input` is one or several URIs `kafka://BROKER/TOPIC,TOPIC`, or `NAME=kafka://…` for the tuples of a stream; `output` is
    one URI for all queries, or one for each by its name.  With a `checkpoint` a later run resumes where this one ended, also
    after a crash.  `kafka_config` has librdkafka's settings, as a mapping or a file.  A tuple waits for other partitions for
    at most `max_delay` seconds.  `on_error` is "stop", "skip", or a topic for messages that are no tuples.  With `upsert`
    rows that leave are tombstones.  `threads`, `memory_limit`, `max_rows`, `max_ahead` and `witness` are those of an engine.
    Raises `InputError`, `KafkaError` (an `RpqError`), and the errors of an engine.

    >>> import rpq
    >>> from rpq.kafka import run_topics
    >>> query = rpq.Query("a2q/c2a", window=rpq.Window(size=30, slide=1))
    >>> run_topics(query, input="edges.csv", output="kafka://localhost/rows")
    Traceback (most recent call last):
    rpq.errors.InputError: edges.csv: is no topic; expected kafka://BROKER[:PORT]/TOPIC
    """
    from rpq.engine import Engine

    inputs = [input] if isinstance(input, str) else list(input)
    streams: dict[str, str | None] = {}
    uris = []
    for text in inputs:
        name, equals, uri = text.partition("=")
        stream, uri = (name, uri) if equals and is_topic(uri) else (None, text)
        uris.append(checked_topic(uri))
        streams |= dict.fromkeys(topics_in(uri).topics, stream)
    outputs = {query.name: output if isinstance(output, str) else output[query.name] for query in queries}
    letters = [checked_topic(on_error)] if on_error not in ("stop", "skip") else []
    cluster = one_cluster([*uris, *map(checked_topic, outputs.values()), *letters])[0]
    given = kafka_config if isinstance(kafka_config, Mapping) or kafka_config is None else read_settings(kafka_config)
    client()
    messages = MessageColumns.of(ColumnNames.parse(columns, label=label), time_unit)
    destinations = {
        query.name: Destination(
            topic=one_topic(outputs[query.name]),
            columns=(*(("query",) * (len(queries) > 1)), *query.columns, "timestamp", "op", *(("path",) * witness)),
        )
        for query in queries
    }
    if upsert and any(query.semantics != "explicit" for query in queries):
        raise InputError(UPSERT_NEEDS_EXPLICIT)
    of_engine: dict[str, Any] = {
        "threads": threads,
        "memory_limit": memory_limit,
        "max_rows": max_rows,
        "witness": witness,
        "max_ahead": max_ahead,
    }
    clients = ClientSettings(cluster.brokers, given)
    run = TopicRun(
        TopicInput(
            brokers=cluster.brokers,
            topics=streams,
            columns=messages,
            where=parse_where(where) if where is not None else None,
            max_delay=max_delay,
            on_error="skip" if letters else on_error,
            until_end=until_end,
            limit=limit,
        ),
        TopicOutputs(
            RowMessages(destinations=destinations, upsert=upsert),
            settings=clients,
            witness=witness,
            dead_letters=one_topic(on_error) if letters else None,
            check=check,
        ),
        settings=clients,
        make_engine=lambda integers: Engine(*queries, **of_engine),
        restore=lambda path: Engine.restore(path, **of_engine),
        checkpoint=None if checkpoint is None else os.fspath(checkpoint),
        checkpoint_seconds=checkpoint_seconds,
        identity={
            "queries": [repr(query) for query in queries],
            "input": sorted(streams),
            "output": sorted(topics_in(one).identity for one in outputs.values()),
            "columns": [columns, label, where, time_unit, upsert, *([] if max_ahead is None else [str(max_ahead)])],
        },
        differences=_differences,
        check=check,
    )
    return run.figures(run.execute())


def _differences(old: Mapping[str, object], new: Mapping[str, object]) -> list[str]:
    return [f"{name} was {old.get(name)}, now {value}" for name, value in new.items() if old.get(name) != value]
