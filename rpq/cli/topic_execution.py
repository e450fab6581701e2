"""The parts of a run over topics that the options of the command describe: its topics, its clients, its rows, its log."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import click

from rpq.cli.outputs.sinks import columns_of
from rpq.cli.request import RunRequest, RunSettings
from rpq.cli.run_outputs import output_names
from rpq.errors import InputError, RpqError
from rpq.kafka.client import LOG, ClientSettings, JsonEventLines, TextLines, client, read_settings
from rpq.kafka.from_topics import UPSERT_NEEDS_EXPLICIT
from rpq.kafka.message_reader import MessageColumns
from rpq.kafka.row_outputs import Destination, RowMessages
from rpq.kafka.topic_names import is_topic, one_cluster, one_topic, topics_in
from rpq.kafka.topic_reader import TopicInput
from rpq.queries.query import Query
from rpq.readers import ColumnNames, WhereError, parse_where


def topics_and_clients(settings: RunSettings) -> tuple[TopicInput, ClientSettings]:
    """Return the topics that the options name, and the settings of clients.  Raises errors of click."""
    try:
        client()
    except RpqError as error:
        raise click.ClickException(str(error)) from error
    try:
        given = read_settings(settings.kafka_config) if settings.kafka_config is not None else {}
        topics = topic_input_of(settings)
        return topics, ClientSettings(topics.brokers, given)
    except (WhereError, RpqError) as error:
        raise click.UsageError(str(error)) from error


def topic_input_of(settings: RunSettings) -> TopicInput:
    """Return the topics and how to read their messages.  Raises `InputError` and `WhereError`."""
    try:
        names = ColumnNames.parse(settings.columns, label=settings.label)
        columns = MessageColumns.of(names, settings.time_unit)
    except InputError as error:
        raise InputError(f"{'--columns' if settings.columns else '--label'}: {error}") from error
    streams: dict[str, str | None] = {}
    for number, uri in enumerate(settings.inputs):
        stream = settings.streams[number] if number < len(settings.streams) else None
        for topic in topics_in(uri).topics:
            if topic in streams:
                raise InputError(f"--input: the topic {topic} is given twice")
            streams[topic] = stream
    return TopicInput(
        brokers=one_cluster(settings.inputs)[0].brokers,
        topics=streams,
        columns=columns,
        where=parse_where(settings.where) if settings.where is not None else None,
        only_json=settings.format == "jsonl",
        max_delay=settings.max_delay,
        on_error="skip" if is_topic(settings.on_error) else settings.on_error,
        until_end=settings.until_end,
        limit=settings.limit,
    )


def row_messages(request: RunRequest, queries: Sequence[Query]) -> RowMessages | None:
    """Return the conversion of rows to messages; None if rows go to files, or nowhere.  Raises errors of click."""
    settings = request.settings
    if settings.upsert and any(query.semantics != "explicit" for query in queries):
        raise click.UsageError(f"--{UPSERT_NEEDS_EXPLICIT}")
    if not any(map(is_topic, output_names(request))):
        return None
    outputs = (
        {entry.name: entry.output for entry in request.entries} if request.entries else {queries[0].name: settings.output}
    )
    with_query = bool(request.entries)
    destinations = {
        query.name: Destination(
            topic=one_topic(output), columns=columns_of(query.columns, witness=settings.witness, with_query=with_query)
        )
        for query in queries
        if (output := outputs[query.name]) is not None
    }
    return RowMessages(destinations=destinations, upsert=settings.upsert)


@contextmanager
def log_to_stderr(settings: RunSettings) -> Iterator[None]:
    """Log events to stderr in this block; with --quiet, only warnings."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonEventLines() if settings.log == "json" else TextLines())
    before = LOG.level, LOG.propagate
    LOG.setLevel(logging.WARNING if settings.quiet else logging.INFO)
    LOG.propagate = False
    LOG.addHandler(handler)
    try:
        yield
    finally:
        LOG.removeHandler(handler)
        LOG.level, LOG.propagate = before
