"""A run over topics (`run_topics`): `rpq.run` with a checkpoint of offsets, the replay of rounds, and a log.

A slice is a round.  Its rows go into the open transaction, which is committed with the offsets of its rounds.  Checkpoints
are rarer, and are written after a commit.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from rpq.errors import InputError
from rpq.kafka.client import ClientSettings, KafkaError, KafkaUsageError, client, log_event, log_warning, read_settings
from rpq.kafka.message_reader import BadMessage, MessageColumns
from rpq.kafka.partition_merge import TopicPartition
from rpq.kafka.row_outputs import RowMessages, TopicDestination, TopicOutputs
from rpq.kafka.schema_registry import RDF_HAS_NO_REGISTRY, SchemaRegistry
from rpq.kafka.topic_names import checked_topic, is_topic, one_cluster, one_topic, topics_in
from rpq.kafka.topic_reader import TopicFigures, TopicInput
from rpq.kafka.topic_source import TopicPosition, TopicSource
from rpq.language.protocol import MAX_ROWS
from rpq.language.readings import properties_of
from rpq.language.where import parse_where
from rpq.readers.column_names import ColumnNames
from rpq.readers.text.changes import SOURCE_TIME
from rpq.readers.text.edge_rules import EdgeRules
from rpq.rows.table_formats import MESSAGE, MessageTemplate
from rpq.rows.typed_columns import WITNESS_COLUMNS
from rpq.run.checkpoint import AnotherRunError, Checkpoint, CheckpointError, Position, PositionFormat
from rpq.run.loop import OutputError, Rejection, Run, RunOutput
from rpq.run.table_names import is_table, one_database, table_in
from rpq.run.table_output import PostgresTables, TableOutputs, answer_tables
from rpq.stream.arrays.fields import DEFAULT_UNIT, EDGE, check_time_format
from rpq.stream.json_values import JsonValue

if TYPE_CHECKING:
    from rpq.language.query import Query
    from rpq.readers import RdfReading
    from rpq.rows.changes import SetAside

CHECKPOINT_SECONDS = 30.0


def _encode_position(position: Position) -> dict[str, Any]:
    topics: TopicPosition = position.source
    return {
        "run": topics.run,
        "round": topics.round,
        "partitions": [[*place, end, topics.fronts[place]] for place, end in sorted(topics.ends.items())],
        "inside": [[*place, count] for place, count in sorted(topics.inside.items())],
        "layouts": topics.layouts,
        "output": None if position.sink is None else position.sink["output"],
        "counts": {"rejected": position.rejected, "tuples": position.tuples},
        "total_seconds": position.total_seconds,
    }


def _decode_position(content: JsonValue) -> Position:
    parts = [[value.value for value in part] for part in content["partitions"]]
    places = [TopicPartition(str(topic), int(number)) for topic, number, _, _ in parts]
    topics = TopicPosition(
        run=str(content["run"].value),
        round=content["round"].integer(0),
        ends=dict(zip(places, (int(end) for _, _, end, _ in parts), strict=True)),
        fronts=dict(zip(places, (int(front) for *_, front in parts), strict=True)),
        layouts=content["layouts"].value,
        inside={TopicPartition(str(topic), int(number)): int(count) for topic, number, count in content["inside"].value},
    )
    return Position(
        source=topics,
        sink={"output": content["output"].value, "late_bytes": None},
        tuples=content["counts"]["tuples"].integer(0),
        rejected=content["counts"]["rejected"].integer(0),
        total_seconds=content["total_seconds"].number(),
    )


POSITION = PositionFormat(
    key="rpq kafka",
    encode=_encode_position,
    decode=_decode_position,
    foreign="is not a checkpoint of a run over topics of Kafka; name another file, or remove it",
)


class TopicRun(Run):
    """A run from a `TopicSource`; `execute` drives it to its end, with `until_end` to the end of the topics."""

    source: TopicSource
    slice_rows, slice_seconds, most_tuples = 1 << 18, 0.25, 100_000
    # After an error of Kafka, or of the output, nothing can be committed.
    interrupting_errors = (KafkaError, OSError, OutputError)

    def execute(self) -> str:
        """Execute the run as `Run.execute` does.  Raises `KafkaError`, also for a checkpoint that cannot be resumed."""
        try:
            if self.checkpoint is not None:
                self.checkpoint.lock()
            self.restore()
            return super().execute()
        except AnotherRunError as error:
            raise KafkaUsageError(str(error)) from error
        except CheckpointError as error:
            raise KafkaError(str(error)) from error
        finally:
            if self.sink.is_transactional:
                self.sink.close()
            self.source.close()
            if self.checkpoint is not None:
                self.checkpoint.release()

    def _recover(self) -> None:
        """Recover as `Run` does, then replay the journal.  Write a first checkpoint if the sink has no transactions."""
        if self.checkpoint is None:
            return
        source, round_before, tuples_before = self.source, self.source.round, self.tuples
        began = time.monotonic()
        if self.sink.is_transactional:
            source.open_journal(f"{self.checkpoint.path}.journal", is_new=self.resumed is None)
            super()._recover()
        elif self.resumed is None:
            self._write_checkpoint()
        if rounds := source.round - round_before:
            seconds = round(time.monotonic() - began, 3)
            log_event("replayed", rounds=rounds, tuples=self.tuples - tuples_before, seconds=seconds)

    def _write_checkpoint(self) -> None:
        super()._write_checkpoint()
        if self.source.journal is not None:
            self.source.journal.restart()

    def _save(self) -> float:
        seconds = super()._save()
        log_event("checkpoint written", round=self.source.round, seconds=round(seconds, 3))
        return seconds

    def _on_rejected(self, bad: Rejection) -> None:
        """Report and log a bad message, and send it to the topic of dead letters."""
        super()._on_rejected(bad)
        assert isinstance(bad, BadMessage)
        message = bad.message
        place = {"topic": message.topic(), "partition": message.partition(), "offset": message.offset()}
        log_warning("rejected", **place, reason=bad.reason)
        if isinstance(self.sink, TopicOutputs):
            self.sink.send_dead_letter(bad)

    def _on_set_aside(self, message: str, report: SetAside) -> None:
        super()._on_set_aside(message, report)
        log_warning(message, time=report.timestamp)

    def figures(self, ended: str) -> TopicFigures:
        """Return the counts of the run."""
        reader = self.source.reader if self.has_begun else None
        transactions = self.sink.transactions if isinstance(self.sink, TopicOutputs) else None
        return TopicFigures(
            ended=ended,
            messages=reader.messages if reader is not None else 0,
            rejected=self.rejected,
            rejections=tuple(self.rejections),
            filtered=reader.filtered if reader is not None else 0,
            undecided=reader.undecided if reader is not None else 0,
            rows_sent=transactions.committed if transactions is not None else 0,
            rounds=self.source.round,
            seconds=self.seconds,
        )


UPSERT_NEEDS_EXPLICIT = (
    "upsert needs semantics 'explicit': with 'implicit' no row reports an expired answer, which would remain in the topic"
)

TABLES_NEED_EXPLICIT = (
    "tables need semantics 'explicit': with 'implicit' no row reports an expired answer, which would remain in the table"
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
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
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
    >>> from rpq.kafka import run_topics
    >>> query = rpq.Query("a2q/c2a", window=rpq.Window(size=30, slide=1))
    >>> run_topics(query, input="edges.csv", output="kafka://localhost/rows")
    Traceback (most recent call last):
    rpq.errors.InputError: edges.csv: is not a topic; expected kafka://BROKER[:PORT]/TOPIC
    """
    from rpq.engine.engine import Engine

    inputs = [input] if isinstance(input, str) else list(input)
    streams: dict[str, str | None] = {}
    uris = []
    for text in inputs:
        name, equals, uri = text.partition("=")
        stream, uri = (name, uri) if equals and is_topic(uri) else (None, text)
        uris.append(checked_topic(uri))
        streams |= dict.fromkeys(topics_in(uri).topics, stream)
    outputs = {query.name: output if isinstance(output, str) else output[query.name] for query in queries}
    are_tables = any(map(is_table, outputs.values()))
    letters = [checked_topic(on_error)] if on_error not in ("stop", "skip") else []
    if are_tables:
        given_besides = {"upsert": upsert, "witness": witness, "message": message is not None, "on_error": bool(letters)}
        _check_tables(queries, [*outputs.values()], [name for name, is_given in given_besides.items() if is_given])
    elif replace:
        raise InputError("replace: applies to tables; expected output='postgresql://…'")
    written = [] if are_tables else map(checked_topic, outputs.values())
    cluster = one_cluster([*uris, *written, *letters])[0]
    settings = read_settings(kafka_config) if isinstance(kafka_config, (str, os.PathLike)) else kafka_config
    client()
    registry = SchemaRegistry(schema_registry) if isinstance(schema_registry, str) else schema_registry
    if registry is not None and rdf is not None:
        raise InputError(RDF_HAS_NO_REGISTRY)
    further = sorted(frozenset().union(*(properties_of(query) for query in queries)))
    names = ColumnNames.parse(
        columns,
        label=label,
        properties=(*further, *((EDGE,) if edges == "id" else ())),
        time_format=time_format if time_format is None else check_time_format(time_format),
        text_vertices=text_vertices,
        trim=trim,
    )
    if changes is not None:
        if rules is None:
            rules = EdgeRules.of_columns(names, changes=changes, timestamp=SOURCE_TIME)
        rules = dataclasses.replace(rules, changes=changes)
        names = dataclasses.replace(names, renamed=(), constant_label=None)
        time_unit = time_unit or DEFAULT_UNIT
    messages = MessageColumns.from_names(names, time_unit, rules=rules)
    rows = None if are_tables else _row_messages(queries, outputs, upsert=upsert, witness=witness, message=message)
    of_engine: dict[str, Any] = {
        "threads": threads,
        "memory_limit": memory_limit,
        "max_rows": max_rows,
        "witness": witness,
        "max_ahead": max_ahead,
    }
    clients = ClientSettings(cluster.brokers, settings)
    source = TopicSource(
        TopicInput(
            brokers=cluster.brokers,
            topics=streams,
            columns=messages,
            where=parse_where(where) if where is not None else None,
            rdf=rdf,
            rules=rules,
            registry=registry,
            max_delay=max_delay,
            on_error="skip" if letters else on_error,
            until_end=until_end,
        ),
        clients,
        check=check,
    )
    identity = {
        "queries": [repr(query) for query in queries],
        "input": sorted(streams),
        "output": sorted((table_in(one) if are_tables else topics_in(one)).identity for one in outputs.values()),
        "columns": [columns, label, where, time_unit, upsert, *([] if max_ahead is None else [str(max_ahead)])],
        **({} if edges == "triple" else {"edges": edges}),
        **({} if rdf is None else {"rdf": repr(rdf)}),
        **({} if rules is None else {"rules": rules.identity}),
        **({} if registry is None else {"schema registry": registry.identity}),
        **({} if time_format is None else {"time_format": time_format}),
        **({"text_vertices": True} if text_vertices else {}),
        **({"trim": True} if trim else {}),
        **({} if message is None else {"message": message}),
    }
    sink: RunOutput
    if rows is None:
        tables = answer_tables(
            ((query.name, query.columns, outputs[query.name]) for query in queries), names_queries=len(queries) > 1
        )
        database = PostgresTables(tables, identity=identity, differences=_differences, replaces=replace)
        sink = TableOutputs(tables, database, label=tables[0].name.place, check=check)
    else:
        dead_letters = one_topic(on_error) if letters else None
        sink = TopicOutputs(rows, settings=clients, witness=witness, dead_letters=dead_letters, check=check)
    run = TopicRun(
        source,
        sink,
        make_engine=lambda: Engine(*queries, **of_engine, edges=edges, time_unit=messages.unit),  # type: ignore[arg-type]
        limit=limit,
        checkpoint=None
        if checkpoint is None
        else Checkpoint(
            os.fspath(checkpoint),
            POSITION,
            identity=identity,
            differences=_differences,
            restore=lambda path: Engine.restore(path, **of_engine),
        ),
        checkpoint_seconds=checkpoint_seconds,
        check=check,
    )
    return run.figures(run.execute())


def _differences(old: Mapping[str, object], new: Mapping[str, object]) -> list[str]:
    return [f"{name} was {old.get(name)}, now {value}" for name, value in new.items() if old.get(name) != value]


def _row_messages(
    queries: Sequence[Query], outputs: Mapping[str, str], *, upsert: bool, witness: bool, message: str | None
) -> RowMessages:
    """Return the conversion of the rows of these queries to messages.  Raises `InputError`."""
    if upsert and any(query.semantics != "explicit" for query in queries):
        raise InputError(UPSERT_NEEDS_EXPLICIT)
    of_witness = WITNESS_COLUMNS if witness else ()
    destinations = {
        query.name: TopicDestination(
            topic=one_topic(outputs[query.name]),
            columns=(
                *(("query",) * (len(queries) > 1)),
                *(*query.columns, "timestamp", "op"),
                *(*of_witness, *((MESSAGE,) * (message is not None))),
            ),
        )
        for query in queries
    }
    template = None if message is None else MessageTemplate(message)
    try:
        for query in queries if template is not None else ():
            template.check(("query", *query.columns, "timestamp", "op", *of_witness))  # type: ignore[union-attr]
    except ValueError as error:
        raise InputError(f"message: {error}") from error
    return RowMessages(destinations=destinations, upsert=upsert, witness=witness, message=template)


def _check_tables(queries: Sequence[Query], outputs: Sequence[str], besides: Sequence[str]) -> None:
    """Raise `InputError` unless all outputs are tables of one database, and for options that do not apply to tables."""
    for one in outputs:
        if not is_table(one):
            raise InputError(f"{one}: rows go to tables of a database or to topics, not both")
    one_database(outputs)
    if besides:
        raise InputError(f"{besides[0]}: applies to topics; a table contains the current answers, without further columns")
    if any(query.semantics != "explicit" for query in queries):
        raise InputError(TABLES_NEED_EXPLICIT)
