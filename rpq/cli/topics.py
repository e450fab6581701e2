"""Runs over topics of Kafka from Python: `rpq.run_topics`, with the options of `rpq run` as arguments."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

import click

from rpq.cli.execution import set_up_topics
from rpq.cli.options import named_inputs
from rpq.cli.request import COMMAND, RunRequest, RunSettings
from rpq.cli.validation import check_request
from rpq.errors import InputError, RpqError
from rpq.kafka.topic_names import checked_topic
from rpq.kafka.topic_run import TopicRun
from rpq.language.protocol import MAX_ROWS
from rpq.language.query_file import QueryEntry
from rpq.run.table_names import is_table
from rpq.stream.arrays.fields import check_time_format
from rpq.stream.durations import duration_text, nanoseconds_of

if TYPE_CHECKING:
    from rpq.kafka import SchemaRegistry, TopicFigures
    from rpq.language.query import Query
    from rpq.readers import EdgeRules, RdfReading


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
    edges: Literal["triple", "parallel", "id"] = "triple",
    rdf: RdfReading | None = None,
    rules: EdgeRules | None = None,
    schema_registry: str | SchemaRegistry | None = None,
    changes: Literal["debezium", "debezium-rows"] | None = None,
    time_format: str | None = None,
    text_vertices: bool = False,
    trim: bool = False,
    max_delay: float = 1.0,
    on_error: str = "stop",
    upsert: bool = False,
    replace: bool = False,
    witness: bool = False,
    message: str | None = None,
    until_end: bool = False,
    limit: int | None = None,
    threads: int = 1,
    memory_limit: int | None = None,
    max_rows: int | None = MAX_ROWS,
    max_ahead: int | str | timedelta | None = None,
    checkpoint_seconds: float = 30.0,
    check: Callable[[], None] = lambda: None,
) -> TopicFigures:
    """Run queries from topics to topics or tables, exactly once, until `check` raises or, with `until_end`, the topics end.

    `input` is one or several URIs `kafka://BROKER/TOPIC,TOPIC`, or `NAME=kafka://…` for the tuples of a stream.  `output` is
    one URI for all queries, or a mapping of their names to URIs: topics, or tables of one database
    (`postgresql://HOST/DATABASE?table=NAME`), whose rows the run makes equal to the answers.  With a `checkpoint`, a later
    run resumes where this one ended, also after a crash.  `kafka_config` has librdkafka's settings, as a mapping or a file.
    A tuple waits for other partitions for at most `max_delay` seconds.

    A message is a tuple, with the properties that queries read, and with edges="id" the id of an edge, as further fields.
    With `rdf` a message is a document of RDF; its triples get their times as `rdf` determines, or from
    columns="timestamp=@time".  With `rules` it is a record, from which the rules make edges.  With `changes` it is a change
    of a row of a table, whose edge has the `columns`, or whose edges the `rules` name.  A `schema_registry` (its URL) has
    the schemas of messages in Avro or JSON Schema.  `on_error` is "stop", "skip", or a topic for bad messages.

    With `upsert`, rows that leave are tombstones; with `replace`, a new run empties tables that have rows.  `message` is a
    text with columns in braces, which becomes a column `message`.  `time_format`, `text_vertices` and `trim` are
    the options of the command, and `edges`, `threads`, `memory_limit`, `max_rows`, `max_ahead` and `witness` those of an
    engine.  Raises `InputError`, `KafkaError` and `OutputError` (which are `RpqError`s), and the errors of an engine.

    >>> import rpq
    >>> query = rpq.Query("a2q/c2a", window=rpq.Window(size=30, slide=1))
    >>> rpq.run_topics(query, input="edges.csv", output="kafka://localhost/rows")
    Traceback (most recent call last):
    rpq.errors.InputError: edges.csv: is not a topic; expected kafka://BROKER[:PORT]/TOPIC
    """
    if not queries:
        raise InputError("run_topics: expected at least one query")
    paths, streams = named_inputs([input] if isinstance(input, str) else input)
    outputs = [output if isinstance(output, str) else output[query.name] for query in queries]
    for uri in (*paths, *(one for one in outputs if not is_table(one))):
        checked_topic(uri)
    of_rdf = {} if rdf is None else {f"rdf_{name}": getattr(rdf, name) for name in ("syntax", "time", "graph", "base")}
    settings = RunSettings(
        inputs=paths,
        streams=streams,
        format="edges" if rdf is None else "rdf",
        **of_rdf,
        edges=edges,
        time_unit=time_unit,
        columns=columns,
        label=label,
        rules=rules,
        changes=changes,
        time_format=None if time_format is None else check_time_format(time_format),
        vertices="text" if text_vertices else None,
        trim=trim,
        where=where,
        output=outputs[0],
        message=message,
        witness=witness,
        threads=threads,
        memory_limit=memory_limit,
        max_rows=max_rows,
        max_ahead=duration_text(nanoseconds_of(max_ahead)) if isinstance(max_ahead, timedelta) else max_ahead,
        limit=limit,
        on_error=on_error,
        checkpoint=None if checkpoint is None else os.fspath(checkpoint),
        quiet=True,
        kafka_config=os.fspath(kafka_config) if isinstance(kafka_config, os.PathLike) else kafka_config,
        schema_registry=schema_registry,
        max_delay=max_delay,
        upsert=upsert,
        replace=replace,
        until_end=until_end,
        checkpoint_every=checkpoint_seconds,
    )
    entries = (
        QueryEntry(place=COMMAND, places={}, name=query.name, expression=query.expression, parsed=query, output=one)
        for query, one in zip(queries, outputs, strict=True)
    )
    try:
        request = RunRequest(settings=settings, entries=tuple(entries), python_queries=queries)
        check_request(request)
        run = set_up_topics(request, check).run
        assert isinstance(run, TopicRun)
        return run.figures(run.execute())
    except click.ClickException as error:
        if isinstance(error.__cause__, RpqError):
            raise error.__cause__ from None
        raise InputError(re.sub(r"--([a-z-]+)", lambda flag: flag[1].replace("-", "_"), error.message)) from None
