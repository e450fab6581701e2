"""Messages of a schema registry are the tuples of the same records in JSON; what cannot be decoded says why.  No broker."""

from __future__ import annotations

import datetime
import json
import sys
from contextlib import closing
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("fastavro", reason="the extra avro is not installed")
pytest.importorskip("orjson", reason="the extra avro is not installed")

from confluent_kafka.schema_registry import Schema, SchemaReference

from rpq.cli.checkpoint import differences, identity_of
from rpq.cli.request import RunSettings, read_request
from rpq.errors import InputError
from rpq.kafka import SchemaRegistry
from rpq.kafka.client import KafkaError, KafkaUsageError
from rpq.kafka.message_reader import MessageColumns, MessageReader
from rpq.kafka.schema_registry import RegistryAwayError
from rpq.language.where import parse_where
from rpq.readers import ColumnNames, EdgeRules
from tests.kafka.messages.schema_registries import HttpRegistry, avro, prefix, record, registered
from tests.kafka.messages.test_kafka_messages import Sent

COLUMNS = "source=from.id,target=to,label=kind,timestamp=ts"
USER = record("User", {"id": "string"})
TRANSFER = record("Transfer", {"from": USER, "to": "string", "kind": "string", "ts": "long"})
TO = ["null", "string"]
WIDER = record("Transfer", {"amount": ["null", "double"], "from": USER, "to": TO, "ts": "long", "kind": "string"})


def value(number: int = 1, **fields):
    return {"from": {"id": "x"}, "to": "y", "kind": "a", "ts": number, **fields}


def registry_with(*schemas, **options) -> SchemaRegistry:
    """A registry of the client's own, of which the schemas have the numbers 1, 2, …"""
    registry = SchemaRegistry("mock://here", **options)
    for number, schema in enumerate(schemas):
        one = schema if isinstance(schema, Schema) else Schema(json.dumps(schema), "AVRO")
        registry.client.register_schema(f"s{number}", one)
    return registry


def reader(registry: SchemaRegistry | None, columns: str = COLUMNS, *, properties=(), label=None, unit=None, **options):
    names = ColumnNames.parse(columns, properties=properties, label=label)
    return MessageReader(MessageColumns.from_names(names, unit), registry=registry, only_json=True, **options)


def rows(found) -> list[dict]:
    return [] if found.columns is None else found.columns.to_pylist()


def of_guid(registry: SchemaRegistry, number: int) -> bytes:
    (guid,) = (one.guid for one in registry.client._store.schema_id_index.values() if one.schema_id == number)
    return b"\1" + bytes.fromhex(guid.replace("-", ""))


def sent(registry: SchemaRegistry, one: dict, dress: int) -> Sent:
    """A record in the dress of its writer: one of two schemas of Avro or one of JSON Schema, with a number or a GUID."""
    schema = (TRANSFER, WIDER, None)[dress % 3]
    if schema is TRANSFER:
        one = {name: field for name, field in one.items() if name != "amount"}
    data = json.dumps(one, indent=dress % 2 or None).encode() if schema is None else avro(schema, one, None)
    guid = of_guid(registry, dress % 3 + 1)
    kinds = ((prefix(dress % 3 + 1) + data, ()), (guid + data, ()), (data, (("__value_schema_id", guid),)))
    return Sent(kinds[dress // 3][0], pairs=kinds[dress // 3][1])


texts = st.text(st.characters(codec="utf-8"), max_size=4)
records = st.fixed_dictionaries(
    {
        "from": st.fixed_dictionaries({"id": texts}),
        "to": texts,
        "kind": st.sampled_from(["a", "b"]),
        "ts": st.integers(0, 2**40),
        "amount": st.none() | st.floats(-1e6, 1e6),
    }
)


@given(st.lists(st.tuples(records, st.integers(0, 8)), min_size=1, max_size=12), st.integers(1, 12))
def test_messages_in_any_dress_are_the_tuples_of_their_records(drawn, taken) -> None:
    """Schemas change in mid-topic; the rows, and which messages are bad, are those of the same records in JSON."""
    registry = registry_with(TRANSFER, WIDER, Schema('{"type": "object"}', "JSON"))
    messages = [sent(registry, one, dress) for one, dress in drawn]
    plain = [{name: field for name, field in one.items() if name != "amount" or dress % 3} for one, dress in drawn]
    where = {"where": parse_where("amount is null or amount < 1000")}
    decoded, direct = (reader(one, properties=("amount",), **where) for one in (registry, None))
    expected = direct.read([Sent(json.dumps(one).encode()) for one in plain])
    found = [decoded.read(messages[start : start + taken]) for start in range(0, len(messages), taken)]
    assert [row for part in found for row in rows(part)] == rows(expected)
    bad = [start * taken + number for start, part in enumerate(found) for number in sorted(part.bad)]
    assert bad == sorted(expected.bad)


@given(st.integers(0, 60), st.binary(max_size=3), st.integers(0, 2))
def test_damaged_messages_are_bad_and_those_beside_them_are_read(place, bytes_there, removed) -> None:
    registry = registry_with(WIDER)
    good = avro(WIDER, value(amount=2.5), 1)
    damaged = good[:place] + bytes_there + good[place + removed :]
    found = reader(registry).read([Sent(good), Sent(damaged), Sent(good)])
    assert set(found.bad) <= {1}
    assert len(rows(found)) + len(found.bad) == 3
    cut = reader(registry).read([Sent(good), Sent(good[: min(place, len(good) - 1)])])
    assert [*cut.bad] == [1]


def test_what_is_no_message_of_the_registry_says_so() -> None:
    registry = registry_with(TRANSFER, Schema('syntax = "proto3";', "PROTOBUF"), Schema('{"type": "rekord"}', "AVRO"))
    good = avro(TRANSFER, value(), 1)
    bad = {
        json.dumps(value()).encode(): "does not begin with the number of a schema",
        b"": "does not begin with the number of a schema",
        prefix(9): "is of schema 9, which the schema registry at mock://here does not have",
        prefix(2) + b"..": "is of schema 2, which is Protobuf; expected Avro or JSON Schema",
        prefix(3) + b"..": "is of schema 3, which is not a valid schema of Avro: {'type': 'rekord'}",
        good[:-1]: "is cut off or damaged, or not of schema 1: ",
        good + b"..": "is not of schema 1, which describes all but its last 2 bytes",
    }
    found = reader(registry).read([Sent(good), *map(Sent, bad)])
    assert len(rows(found)) == 1
    for number, reason in enumerate(bad.values(), 1):
        assert found.bad[number].reason.startswith(reason)
    assert found.bad[1].place == "t/0 at offset 0"
    (without,) = reader(None).read([Sent(good)]).bad.values()
    assert "begins with the byte 0" in without.reason and "--schema-registry URL" in without.reason
    (null,) = reader(registry_with(WIDER)).read([Sent(avro(WIDER, value(to=None), 1))]).bad.values()
    assert "is null; expected a value" in null.reason
    (text,) = reader(registry_with("string")).read([Sent(avro("string", "x", 1))]).bad.values()
    assert "is not an object" in text.reason


def test_a_format_is_of_one_type_of_schemas() -> None:
    schemas = TRANSFER, Schema('{"type": "object"}', "JSON")
    messages = [Sent(avro(TRANSFER, value(1), 1)), Sent(prefix(2) + json.dumps(value(2)).encode())]
    for format, other in (("avro", 1), ("json-schema", 0)):
        found = reader(registry_with(*schemas, format=format)).read(messages)
        assert [*found.bad] == [other] and len(rows(found)) == 1
    assert found.bad[0].reason == "is of schema 1, which is Avro; expected JSON Schema"


def test_logical_types_are_what_they_stand_for() -> None:
    long = {"type": "long"}
    types = {
        "millis": ({**long, "logicalType": "timestamp-millis"}, 1_700_000_000_123, "2023-11-14T22:13:20.123000Z"),
        "micros": ({**long, "logicalType": "timestamp-micros"}, 1_700_000_000_123_456, "2023-11-14T22:13:20.123456Z"),
        "nanos": ({**long, "logicalType": "timestamp-nanos"}, 1_700_000_000_123_456_789, "2023-11-14T22:13:20.123456789Z"),
        "local": ({**long, "logicalType": "local-timestamp-millis"}, 5, "1970-01-01T00:00:00.005000"),
        "debezium": ({**long, "connect.name": "io.debezium.time.MicroTimestamp"}, -1, "1969-12-31T23:59:59.999999"),
        "beyond": ({**long, "logicalType": "timestamp-micros"}, 2**63 - 1, str(2**63 - 1)),
        "before": ({**long, "connect.name": "io.debezium.time.NanoTimestamp"}, -1, "1969-12-31T23:59:59.999999999"),
        "never": ({"type": "int", "connect.name": "io.debezium.time.Date"}, 2**31 - 1, str(2**31 - 1)),
        "day": ({"type": "int", "logicalType": "date"}, datetime.date(2020, 1, 2), "2020-01-02"),
        "connect": ({"type": "int", "connect.name": "io.debezium.time.Date"}, 366, "1971-01-02"),
        "price": ({"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}, Decimal("-12.30"), "-12.30"),
        "noon": ({"type": "int", "logicalType": "time-millis"}, datetime.time(12, 30), "12:30:00"),
        "code": ({"type": "fixed", "name": "Code", "size": 2}, b"\xff\xfe", "//4="),
        "uuid": ({"type": "string", "logicalType": "uuid"}, "6a1f0a5c-0000-4000-8000-000000000000", None),
        "blob": ("bytes", b"\xff\xfe", "//4="),
        "state": ({"type": "enum", "name": "State", "symbols": ["OPEN", "SHUT"]}, "SHUT", "SHUT"),
        "flag": ("boolean", True, "true"),
        "either": (["null", "long", "string"], 7, "7"),
        "tags": ({"type": "map", "values": "string"}, {"k": "v"}, '{"k":"v"}'),
    }
    fields = {name: type_ for name, (type_, _, _) in types.items()}
    schema = record("All", {**fields, "list": {"type": "array", "items": USER}})
    data = avro(schema, {name: given for name, (_, given, _) in types.items()} | {"list": [{"id": "u"}, {"id": "v"}]}, 1)
    names = [name for name in types if name != "tags"]
    columns = "source=list[1].id,target=tags.k,timestamp=micros"
    found = reader(registry_with(schema), columns, label="l", unit="ms", properties=names).read([Sent(data)])
    (row,) = rows(found)
    assert [row[name] for name in ("source", "target", "timestamp")] == ["v", "v", 1_700_000_000_123]
    assert {name: row[name] for name in names} == {name: types[name][2] or types[name][1] for name in names}


def test_a_schema_may_refer_to_others() -> None:
    outer = record("Transfer", {"from": "User", "to": "User", "kind": "string", "ts": "long"})
    references = [SchemaReference("User", "s0", 1)]
    registry = registry_with(USER, Schema(json.dumps(outer), "AVRO", references))
    named: dict = {}
    avro(USER, {"id": ""}, None, named)
    data = avro(outer, value(to={"id": "y"}), 2, named)
    found = reader(registry, "source=from.id,target=to.id,label=kind,timestamp=ts").read([Sent(data)])
    assert rows(found) == [{"source": "x", "target": "y", "label": "a", "timestamp": 1}]


def test_keys_are_decoded_and_values_in_them_are_columns() -> None:
    key = record("Key", {"id": "long", "of": USER})
    registry = registry_with(TRANSFER, key, "string")
    data = avro(TRANSFER, value(), 1)
    guid = of_guid(registry, 2)
    keys = [
        (avro(key, {"id": 7, "of": {"id": "u"}}, 2), ()),
        (avro(key, {"id": 8, "of": {"id": "v"}}, None), (("__key_schema_id", guid),)),
        (b'{"id": 9, "of": {"id": "w"}}', ()),
    ]
    messages = [Sent(data, one, pairs=pairs) for one, pairs in keys]
    found = reader(registry, f"{COLUMNS},edge=@key.id,owner=@key.of.id", properties=("edge", "owner")).read(messages)
    assert [(row["edge"], row["owner"]) for row in rows(found)] == [("7", "u"), ("8", "v"), ("9", "w")]
    other = "source=@key,target=to,label=kind,timestamp=ts"
    found = reader(registry, other).read([Sent(data, avro("string", "k", 3)), Sent(data, b"plain"), Sent(data, prefix(9))])
    assert [row["source"] for row in rows(found)] == ["k", "plain"]
    assert found.bad[2].reason.startswith("column '@key': is of schema 9, which")
    found = reader(registry, f"{COLUMNS},owner=@key.id", properties=("owner",)).read([Sent(data, b"plain"), Sent(data)])
    assert found.bad[0].reason.startswith("column '@key.id': is missing: the key is not JSON")
    assert [row["owner"] for row in rows(found)] == [None]


def test_several_edges_are_made_of_a_record() -> None:
    text = """
        timestamp = "ts"
        [[edge]]
        label = "paid"
        source = "from.id"
        target = "to"
        [[edge]]
        label = "used"
        source = "from.id"
        target = "kind"
        when = "amount > 1"
    """
    rules = EdgeRules.parse(text, file="edges.toml")
    names = MessageColumns.from_names(ColumnNames())
    messages = [Sent(avro(WIDER, value(number, amount=amount), 1)) for number, amount in ((1, 2.5), (2, 0.5), (3, None))]
    found = MessageReader(names, rules=rules, registry=registry_with(WIDER)).read(messages)
    edges = [(row["label"], row["target"]) for row in rows(found)]
    assert edges == [("paid", "y"), ("used", "a"), ("paid", "y"), ("paid", "y")]
    assert found.numbers.tolist() == [0, 0, 1, 2]


# --- a registry over HTTP ----------------------------------------------------------------------------------------


def test_each_schema_is_asked_for_once_with_the_login(monkeypatch) -> None:
    with closing(HttpRegistry([registered(TRANSFER), registered({"type": "object"}, "JSON")])) as http:
        values = avro(TRANSFER, value(), 1), prefix(2) + json.dumps(value()).encode(), prefix(7), prefix(7)
        messages = [*map(Sent, values)]
        one = SchemaRegistry(http.url.replace("//", "//me:se%3Acret@"))
        found = reader(one).read(messages * 2)
        assert len(rows(found)) == 4 and len(found.bad) == 4
        login = "Basic bWU6c2U6Y3JldA=="  # me:se:cret
        assert http.requests == [(f"/schemas/ids/{number}", login) for number in (1, 2, 7)]
        assert "cret" not in repr(one)
        monkeypatch.setenv("RPQ_SCHEMA_REGISTRY_LOGIN", "me:se:cret")
        reader(SchemaRegistry(http.url)).read(messages)
        assert http.requests[-1] == ("/schemas/ids/7", login)


def test_a_registry_that_refuses_or_is_none_ends_the_run() -> None:
    message = Sent(avro(TRANSFER, value(), 1))
    with closing(HttpRegistry([registered(TRANSFER)])) as http:
        for answer, hint in ((401, "RPQ_SCHEMA_REGISTRY_LOGIN"), (404, "/apis/ccompat/v7"), (422, "refuses")):
            http.answer = answer
            with pytest.raises(KafkaError, match=hint) as raised:
                reader(SchemaRegistry(http.url)).read([message])
            assert http.url in str(raised.value) and not isinstance(raised.value, RegistryAwayError)


def test_a_registry_that_is_away_is_asked_again_and_its_messages_are_read_then(monkeypatch) -> None:
    message = Sent(avro(TRANSFER, value(), 1))
    with closing(HttpRegistry([registered(TRANSFER)])) as http:
        registry = SchemaRegistry(http.url, {"basic.auth.user.info": "me:secret"})
        http.answer = 503
        read = reader(registry)
        with pytest.raises(RegistryAwayError, match=f"{http.url}: no schema registry answers: as told"):
            read.read([message])
        assert 0 < registry.wait() <= 0.5 and registry.away_since is not None
        with pytest.raises(RegistryAwayError, match="as told"):  # it waits: no further request
            read.read([message])
        assert len(http.requests) == 1
        http.answer, registry._next_call = None, 0.0
        assert len(rows(read.read([message]))) == 1
        assert registry.away_since is None and not registry.wait() and registry.was_reached
    nobody = SchemaRegistry(http.url)
    waits = []
    for _ in range(7):
        with pytest.raises(RegistryAwayError, match="Connection refused"):
            reader(nobody).read([message])
        waits.append(round(nobody.wait(), 1))
        nobody._next_call = 0.0
    assert waits == [0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


def test_settings_of_the_registry_are_checked_without_secrets() -> None:
    for url, config, message in (
        ("ftp://me:secret@here", {}, "here: is not a URL; expected one such as http://"),
        ("me:secret@here", {}, "here: is not a URL; expected one such as http://"),
        ("http://me:secret@here", {"basic.auth.user.info": "a:b"}, "give one of the two"),
        ("http://here", {"max.retries": "3"}, "max.retries cannot be set"),
        ("http://here", {"timeout": "soon"}, "timeout is 'soon'; expected a number"),
        ("http://here", {"basic.auth": "me:secret"}, "Unrecognized properties: basic.auth"),
        ("http://here", {"ssl.ca.location": "/nowhere.pem"}, "No such file"),
    ):
        with pytest.raises(KafkaUsageError, match=message) as raised:
            SchemaRegistry(url, config)
        assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--format", "avro"], "--format avro: needs a schema registry"),
        (["--schema-registry-config", "x"], "needs a schema registry"),
        (["--format", "rdf", "--schema-registry", "http://here", "--rdf-time", "urn:t"], "documents of RDF have no"),
        (["--format", "protobuf", "--schema-registry", "http://here"], "messages in Protobuf are not read"),
        (["--format", "yago", "--schema-registry", "http://here"], "expected edges, jsonl, rdf, avro or json-schema"),
        (["--schema-registry", "here:8081"], "here:8081: is not a URL; expected one such as http://"),
    ],
)
def test_options_that_do_not_go_together_are_refused(rpq, options, message) -> None:
    common = ["run", "a", "--window", 10, "--slide", 1, "--input", "kafka://localhost:1/t"]
    status, _, said = rpq(*common, *options)
    assert status == 2 and message in " ".join(said.split())


def test_files_have_no_schema_registry(rpq, tmp_path) -> None:
    (tmp_path / "e.csv").write_text("x,y,a,1\n")
    common = ["run", "a", "--window", 10, "--slide", 1, "--input", tmp_path / "e.csv", "--schema-registry", "http://here"]
    status, _, said = rpq(*common)
    assert status == 2 and "--schema-registry applies to topics" in said


def test_a_server_without_topics_has_no_schema_registry(rpq) -> None:
    pytest.importorskip("starlette", reason="the extra serve is not installed")
    status, _, said = rpq("serve", "--port", 0, "--schema-registry", "http://here")
    assert status == 2 and "--schema-registry applies to topics" in said


def test_a_checkpoint_is_of_a_run_with_a_registry_or_without() -> None:
    def identity(**options) -> dict:
        settings = RunSettings(expression="a", window="10", slide="1", inputs=("kafka://here/t",), format="edges", **options)
        request = read_request(settings)
        return identity_of(request, request.queries(unit=None, integers=False))

    here, there = (identity(schema_registry=f"http://{name}") for name in ("here", "there"))
    assert differences(identity(), here) == ["--schema-registry was not given, now given"]
    assert not differences(here, there)


def test_without_its_packages_the_extra_is_named(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "orjson", None)
    with pytest.raises(KafkaError, match="need the extra avro: .*orjson"):
        SchemaRegistry("http://here")


def test_run_topics_refuses_rdf_beside_a_registry() -> None:
    import rpq
    from rpq import run_topics
    from rpq.readers import RdfReading

    query = rpq.Query("a", window=rpq.Window(size=10, slide=1))
    topics = {"input": "kafka://localhost:1/t", "output": "kafka://localhost:1/u"}
    with pytest.raises(InputError, match="have no schema in a registry"):
        run_topics(query, **topics, rdf=RdfReading(), schema_registry="http://here")
