"""Topics in Avro and JSON Schema as a serializer writes them, with a real broker and a real registry that hangs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing

import pytest

pytest.importorskip("fastavro", reason="the extra avro is not installed")

from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

import rpq
from rpq import run_topics
from tests.kafka.messages.schema_registries import Apicurio, prefix, record
from tests.services.kafka_broker import required_or_skipped
from tests.services.kafka_topics import edges

TIME = {"type": "long", "logicalType": "timestamp-millis"}
END = record("End", {"id": "string"})
NARROW = record("Edge", {"from": END, "to": ["null", "string"], "at": TIME})
WIDE = record("Edge", {"note": ["null", "string"], "to": ["null", "string"], "from": END, "at": TIME})
OF_JSON = json.dumps({"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"})
KEY = record("EdgeKey", {"kind": {"type": "enum", "name": "Kind", "symbols": ["a", "b"]}})


@pytest.fixture(scope="module")
def apicurio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apicurio]:
    with required_or_skipped():
        registry = Apicurio(tmp_path_factory.mktemp("apicurio") / "log").wait()
    with closing(registry):
        yield registry


def messages_of(client: SchemaRegistryClient, topic: str, part: list[dict]) -> list[tuple[bytes, bytes]]:
    """Keys and values of edges: the first half in Avro, then those of a later schema, and of JSON Schema, in turn."""
    of_json = client.register_schema(f"{topic}-json", Schema(OF_JSON, "JSON"))
    names = {"subject.name.strategy": lambda context, _: f"{context.topic}-{context.field}"}
    key, narrow, wide = (AvroSerializer(client, json.dumps(schema), conf=names) for schema in (KEY, NARROW, WIDE))
    of_key, of_value = (SerializationContext(topic, field) for field in (MessageField.KEY, MessageField.VALUE))
    found = []
    for place, one in enumerate(part):
        fields = {"from": {"id": one["source"]}, "to": one["target"], "at": one["timestamp"]}
        if place >= len(part) // 2 and place % 2:
            at = f"1970-01-01T00:00:00.{one['timestamp']:03}Z"
            value = prefix(of_json) + json.dumps({**fields, "at": at}).encode()
        else:
            value = narrow(fields, of_value) if place < len(part) // 2 else wide({**fields, "note": "n"}, of_value)
        found.append((key({"kind": one["label"]}, of_key), value))
    return found


def test_what_the_registry_does_not_have_goes_to_the_dead_letters(kafka, apicurio) -> None:
    read, written, letters = kafka.new(), kafka.new(), kafka.new()
    client = SchemaRegistryClient({"url": apicurio.url})
    (_, good), *_ = messages_of(client, read, edges(2))
    kafka.send(read, [good, prefix(9999) + good[5:], good[:-2], b"{}", good])
    figures = run_topics(
        rpq.Query("a", window=rpq.Window(size=40, slide=5)),
        input=kafka.uri(read),
        output=kafka.uri(written),
        columns="source=from.id,target=to,timestamp=at",
        label="a",
        time_unit="ms",
        schema_registry=apicurio.url,
        on_error=kafka.uri(letters),
        until_end=True,
    )
    assert figures.messages == 5 and figures.rejected == 3 and len(kafka.rows(written)) == 1
    found = kafka.committed(letters)
    reasons = [letter.headers["rpq.reason"].decode() for letter in found]
    assert reasons[0] == f"is of schema 9999, which the schema registry at {apicurio.url} does not have"
    assert reasons[1].startswith("is cut off or damaged") and reasons[2].startswith("does not begin with the number")
    assert [letter.headers["rpq.offset"] for letter in found] == [b"1", b"2", b"3"]
