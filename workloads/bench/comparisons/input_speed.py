"""Lines of inputs: how fast JSON lines of a file become tuples, and values of Avro, with a schema registry, on one core.

Without the packages of the extra `avro` the table has no lines of Avro.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from io import BytesIO
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rpq.readers import ColumnNames, open_reader
from rpq.workloads.bench.comparisons.bounds import Figure, line, window_of
from rpq.workloads.bench.end_to_end.kafka_topics import KafkaTopics, in_avro, is_avro_there, schema_server, throughput
from rpq.workloads.bench.end_to_end.pipes import lines_of
from rpq.workloads.bench.experiment import Settings
from rpq.workloads.bench.streams import DATA_SETS, generate

_PARTY = {"type": "record", "name": "Party", "fields": [{"name": name, "type": "string"} for name in ("id", "bank")]}
_TRANSFER = {
    "type": "record",
    "name": "Transfer",
    "fields": [
        {"name": "payer", "type": _PARTY},
        {"name": "payee", "type": "Party"},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["pays", "refunds"]}},
        {"name": "booked", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "amount", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}]},
    ],
}
_COLUMNS = "source=payer.id,target=payee.id,label=kind,timestamp=booked"
_FETCH = 20_000


def _json_lines(settings: Settings, *, is_nested: bool) -> Figure:
    """Return the records per CPU second of a file of transfers, flat ones, or with nested parties, a time and an amount.

    The seconds are those of all threads together.
    """
    count = window_of(settings, 500_000)
    parties = [f"u{number * 7_919 % 50_021}" for number in range(count)]
    records = (
        {"payer": {"id": payer, "bank": "B"}, "payee": {"id": payee, "bank": "B"}, "kind": kind, "booked": at, "sum": at}
        if is_nested
        else {"source": payer, "target": payee, "label": kind, "timestamp": at}
        for payer, payee, kind, at in zip(parties, reversed(parties), cycle(("pays", "refunds")), range(count), strict=False)
    )
    columns = "source=payer.id,target=payee.id,label=kind,timestamp=booked" if is_nested else None
    names = ColumnNames.parse(columns, properties=("sum",) if is_nested else ())
    seconds = []
    with TemporaryDirectory(prefix="rpq-input-") as folder:
        path = Path(folder) / "records.jsonl"
        path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
        for _ in range(settings.repeat + 1):  # the first one loads kernels
            started = time.process_time()
            read = sum(batch.columns.num_rows for batch in open_reader("jsonl", str(path), columns=names))
            seconds.append(time.process_time() - started)
            assert read == count, f"{read:,} of {count:,} records"
    return Figure(figure=count / min(seconds[1:]))


for _name, _what, _bound in (
    ("FLAT", "flat JSON lines of a file to tuples", 500_000),
    ("NESTED", "nested JSON lines of a file to tuples with a property", 250_000),
):
    line(f"JSON-{_name}", _what, unit="records/s", bound=_bound)(
        partial(_json_lines, is_nested=_name == "NESTED")
    )


@dataclass(frozen=True)
class _Message:
    """A message as the client of Kafka returns it."""

    content: bytes

    def value(self) -> bytes:
        return self.content

    def headers(self) -> None:
        return None


def _messages(count: int) -> list[_Message]:
    """Return transfers with two nested records, a time and a decimal each."""
    import fastavro

    schema = fastavro.parse_schema(_TRANSFER)
    found = []
    for number in range(count):
        stream = BytesIO(b"\0\0\0\0\1")
        stream.seek(5)
        parties = ({"id": f"u{number * step % 50_021}", "bank": "B"} for step in (7_919, 7_907))
        fields = dict(zip(("payer", "payee"), parties, strict=True))
        kind, amount = ("pays", "refunds")[number % 2], Decimal(number).scaleb(-2)
        record = {**fields, "kind": kind, "booked": 1_700_000_000_000 + number, "amount": amount}
        fastavro.schemaless_writer(stream, schema, record)
        found.append(_Message(stream.getvalue()))
    return found


def _of_avro(settings: Settings, *, read: Callable[[Any], Callable[[Sequence[_Message]], object]]) -> Figure:
    """Return the messages per CPU second of the fastest of several runs."""
    from confluent_kafka.schema_registry import Schema

    from rpq.kafka import SchemaRegistry

    registry = SchemaRegistry("mock://bench")
    registry.client.register_schema("transfers", Schema(json.dumps(_TRANSFER), "AVRO"))
    messages = _messages(window_of(settings, 200_000))
    parts = [messages[start : start + _FETCH] for start in range(0, len(messages), _FETCH)]
    seconds = []
    for _ in range(settings.repeat + 1):  # the first one loads kernels
        take = read(registry)
        started = time.process_time()
        for part in parts:
            take(part)
        seconds.append(time.process_time() - started)
    return Figure(figure=len(messages) / min(seconds[1:]))


def _decoding(registry: Any) -> Callable[[Sequence[_Message]], object]:
    return lambda part: registry.decode_values(part, [message.content for message in part])


def _tuples(registry: Any) -> Callable[[Sequence[_Message]], object]:
    from rpq.kafka.message_reader import MessageColumns, MessageReader

    names = ColumnNames.parse(_COLUMNS, properties=("amount",))
    return MessageReader(MessageColumns.from_names(names, "ms"), registry=registry).read


def _of_topic(settings: Settings) -> Figure:
    """Return the messages per second of the command over a full topic, on one core, from its first to its last commit."""
    assert settings.kafka is not None
    stream = generate(DATA_SETS["stackoverflow"], edges=2 * window_of(settings, 500_000), seed=settings.seed)
    messages = in_avro(lines_of(stream, window_of(settings, 500_000)))
    topics = KafkaTopics(settings.kafka)
    try:
        with schema_server() as url:
            _, speed = throughput(topics, messages, "--format", "avro", "--schema-registry", url)
    finally:
        topics.close()
    return Figure(figure=speed)


if is_avro_there():
    line("AVRO", "nested records of Avro decoded, a time and a decimal in each", unit="records/s", bound=100_000)(
        partial(_of_avro, read=_decoding)
    )
    line("AVRO-TUPLES", "the same to tuples with a property", bound=75_000)(partial(_of_avro, read=_tuples))
    line("AVRO-TOPIC", "messages of Avro from a topic to rows in another, wall clock", bound=50_000, needs_brokers=True)(
        _of_topic
    )
