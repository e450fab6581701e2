"""Messages become tuples as lines of a file do, one by one or many at once; what is none says why.  Needs no broker."""

from __future__ import annotations

import json
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpq.errors import InputError
from rpq.kafka.client import ClientSettings, KafkaError, read_settings
from rpq.kafka.message_reader import MessageColumns, MessageReader
from rpq.kafka.partition_merge import TopicPartition
from rpq.kafka.row_outputs import RowMessages, TopicOutputs
from rpq.kafka.topic_names import one_cluster, topics_in
from rpq.kafka.topic_source import Journal, Round, read_journal
from rpq.readers import ColumnNames, WhereError, parse_where


@dataclass
class Sent:
    """A message as confluent_kafka gives it."""

    data: bytes | None
    beside: bytes | None = None
    at: int = 5_000
    pairs: tuple[tuple[str, bytes], ...] = ()
    number: int = 0

    def value(self) -> bytes | None:
        return self.data

    def key(self) -> bytes | None:
        return self.beside

    def timestamp(self) -> tuple[int, int]:
        return 1, self.at

    def headers(self) -> list[tuple[str, bytes]]:
        return list(self.pairs)

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self.number


def reader(columns: str | None = None, *, label: str | None = None, unit: str | None = None, **options) -> MessageReader:
    return MessageReader(MessageColumns.from_names(ColumnNames.parse(columns, label=label), unit), **options)


def edge(**fields) -> bytes:
    return json.dumps({"source": "x", "target": "y", "label": "a", "timestamp": 1, **fields}).encode()


GOOD = [edge(), edge(op="-"), b' {"source":"q",\n "target":"w", "label":"b","timestamp":2}\n', edge(timestamp=-5, more=[1])]
BAD = {
    b"": "blank", b"# no": "blank, or a comment", b"{": "JSON", b"[1]": "object", edge(timestamp="1"): "not an integer",
    edge(source=7): "not text", b'{"source":"a\nb","target":"y","label":"a","timestamp":1}': "JSON", b"\0\0\0\0\1x": "Avro",
    edge(op="?"): "operation",
}  # fmt: skip


@given(st.lists(st.sampled_from([*GOOD, *BAD, None]), max_size=30), st.lists(st.integers(1, 7), min_size=1))
def test_it_does_not_matter_how_messages_are_taken_together(values, sizes) -> None:
    values = [GOOD[0], *values]
    messages = [Sent(value, number=number) for number, value in enumerate(values)]
    whole = reader().read(messages)
    by_one = reader()
    rows, bad, start, size = [], {}, 0, iter(sizes * len(values))
    while start < len(messages):
        part = messages[start : start + next(size)]
        found = by_one.read(part)
        rows += found.columns.to_pylist() if found.columns is not None else []
        bad |= {start + number: one.reason for number, one in found.bad.items()}
        start += len(part)
    assert {number: one.reason for number, one in whole.bad.items()} == bad
    assert [number for number, value in enumerate(values) if value in GOOD] == whole.numbers.tolist()
    of_whole = [{"delete": False, **row} for row in whole.columns.to_pylist()]
    assert of_whole == [{"delete": False, **row} for row in rows]
    for number, reason in bad.items():
        assert (BAD[values[number]] if values[number] is not None else "tombstone") in reason


def test_integers_fields_and_times_are_told_by_the_first_message_and_by_a_later_reader_of_it() -> None:
    for values, layout, unit in [
        ([edge(source=1, target=2), edge(source=3, target=4)], {"integers": True}, None),
        ([b"x\ty\ta\t1", b"x\ty\ta\t2\t-"], {"separator": "\t"}, None),
        ([edge(timestamp="1970-01-01T00:00:09Z")], {"times": "aware"}, "s"),
        ([b'"x,1",y,a,1970-01-01T00:00:09'], {"times": "naive"}, "ms"),
    ]:
        first = reader(unit=unit)
        found = first.read([Sent(value) for value in values])
        assert layout.items() <= first.layout.items() and not found.bad
        later = reader(unit=unit, layout=json.loads(json.dumps(first.layout)))
        assert later.layout == first.layout and later.integers == first.integers
        assert later.read([Sent(value) for value in values]).columns.equals(found.columns)


def test_blanks_around_fields_are_a_warning_or_dropped() -> None:
    messages = [Sent(b"ann, bob, a, 1"), Sent(b"bob, cho, a, 2")]
    for trim, names, warnings in ((False, [" bob", " cho"], 1), (True, ["bob", "cho"], 0)):
        of = MessageReader(MessageColumns.from_names(ColumnNames(trim=trim)))
        for _ in range(2):
            found = of.read(messages)
        assert (found.columns.column("target").to_pylist(), len(of.warnings)) == (names, warnings)


def test_what_stands_beside_a_value_is_a_column_and_of_use_to_a_condition() -> None:
    where = parse_where("`@header.kind` == 'a' and `@time` > 1000 and target != 'z'")
    one = reader("source=@key,label=@header.kind,timestamp=@time,target=1", unit="s", where=where, stream="s")
    kind = (("kind", b"a"),)
    messages = [
        Sent(b"y", b"k", 7_900, kind), Sent(b"z", b"k", 7_900, kind), Sent(b"y", b"k", 900, kind), Sent(b"y", None, 1, kind),
        Sent(b"y", b"k", 7_900), Sent(b"y", b"\xff", 7_900, kind),
    ]  # fmt: skip
    found = one.read(messages)
    assert found.columns.to_pylist() == [{"source": "k", "target": "y", "label": "a", "timestamp": 7, "stream": "s"}]
    assert found.filtered == 2
    reasons = {number: bad.reason for number, bad in found.bad.items()}
    assert reasons == {
        3: "column '@key': is missing; expected a value",
        4: "column '@header.kind': is missing; expected a value",
        5: "column '@key': is not UTF-8 text",
    }  # fmt: skip


def test_columns_that_cannot_be_are_said() -> None:
    with pytest.raises(InputError, match="a time is a timestamp"):
        reader("source=@time")
    with pytest.raises(WhereError, match="nothing"):
        reader(where=parse_where("nothing > 1")).read([Sent(b"x,y,a,1")])
    assert "places" in reader("source=user").read([Sent(b"x,y,a,1")]).bad[0].reason
    for value, missing in (
        (b'{"user":"x","item":"y","ts":1}', "give --columns source=user,target=item,timestamp=ts --label LABEL"),
        (b'{"source":"x","target":"y","timestamp":1}', "column 'label': is missing; "),
        (b'{"source":"x","target":"y","timestamp":1}', "give --label LABEL"),
        (b"x,y,1", "where values have no label, give --label LABEL"),
    ):
        assert missing in reader().read([Sent(value)]).bad[0].reason
    assert "has no place" in reader("source=1").read([Sent(b"x,y,a,1")]).bad[0].reason


def test_uris_name_topics_of_one_cluster() -> None:
    assert topics_in("kafka://a,b:1/x,y").brokers == "a:9092,b:1"
    assert topics_in("KAFKA://[::1]:7/x").brokers == "[::1]:7"
    with pytest.raises(InputError, match="given twice"):
        topics_in("kafka://a/x,x")
    with pytest.raises(InputError, match="all topics of a run must be on one"):
        one_cluster(["kafka://a/x", "kafka://b/x"])


def test_settings_of_clients_are_read_and_secrets_are_in_no_message(tmp_path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("sasl.password=a = b\n\n# x\nlinger.ms=7\nfetch.min.bytes=9\n")
    given = read_settings(file)
    assert given == {"sasl.password": "a = b", "linger.ms": "7", "fetch.min.bytes": "9"}
    settings = ClientSettings("here:1", given)
    assert settings.redact("refused: a = b") == "refused: …" and "a = b" not in repr(settings)
    assert settings.producer()["linger.ms"] == "7" and "fetch.min.bytes" not in settings.producer()
    assert settings.consumer(enable_auto_commit=False)["enable.auto.commit"] is False
    for line, message in {"x": "expected NAME=VALUE", "a=1\na=2": "given twice"}.items():
        file.write_text(line)
        with pytest.raises(KafkaError, match=message):
            read_settings(file)
    with pytest.raises(KafkaError, match="bootstrap.servers cannot be set: the brokers are named in"):
        ClientSettings("here:1", {"bootstrap.servers": "there:1"})


def test_a_journal_ends_with_its_last_whole_round_and_shows_damage(tmp_path) -> None:
    path = tmp_path / "run.journal"
    journal = Journal(str(path), run="r")
    ends = [
        {TopicPartition("t", 0): 5},
        {TopicPartition("t", 1): 7, TopicPartition("t", 0): 9},
        {TopicPartition("t", 0): 11},
    ]
    sizes = [path.stat().st_size]
    for number, end in enumerate(ends, 1):
        journal.write(number, end)
        journal.synchronise()
        sizes.append(path.stat().st_size)
    rounds = [Round(number, end) for number, end in enumerate(ends, 1)]
    assert read_journal(str(path), run="r") == rounds
    content = path.read_bytes()
    for length in range(sizes[0], len(content) + 1):
        path.write_bytes(content[:length])
        assert read_journal(str(path), run="r") == rounds[: sum(size <= length for size in sizes) - 1]
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 1 << place % 8
        path.write_bytes(changed)
        with pytest.raises(KafkaError, match=r"run.journal: .*byte \d"):
            read_journal(str(path), run="r")
    path.write_bytes(content[: sizes[1]] + content[sizes[2] :])  # a round is missing
    with pytest.raises(KafkaError, match=f"at byte {sizes[1]} "):
        read_journal(str(path), run="r")
    path.write_bytes(content)
    with pytest.raises(KafkaError, match="of another run"):
        read_journal(str(path), run="s")
    journal.restart()
    journal.write(4, ends[0])
    journal.synchronise()
    journal.close()
    assert read_journal(str(path), run="r") == [Round(4, ends[0])]
    Journal(str(path), run="r", rounds=rounds[:2]).close()
    assert read_journal(str(path), run="r") == rounds[:2]
    assert read_journal(str(tmp_path / "none"), run="r") == []
    for other in (b"", b'[1,[["t",0,5]]]\n'):
        path.write_bytes(other)
        with pytest.raises(KafkaError, match="is not a journal of `rpq run`"):
            read_journal(str(path), run="r")


def test_what_stands_beside_a_message_may_delete():
    messages = [
        Sent(edge(), pairs=(("gone", b"true"),)),
        Sent(edge(op="?")),
        Sent(edge(delete="?", source="\\"), pairs=(("gone", b"0"),)),
        Sent(edge(), pairs=(("gone", b"yes"),)),
    ]
    found = reader("delete=@header.gone").read(messages)
    assert found.columns.column("delete").to_pylist() == [True, False, False]
    assert found.bad[3].reason == "column '@header.gone': 'yes' is not true or false; expected true, false, 1 or 0"
    found = reader("op=@header.gone").read([Sent(edge(delete=True, source="\\")), Sent(edge(), pairs=(("gone", b"-"),))])
    assert found.columns.column("delete").to_pylist() == [False, True]


def test_what_is_no_tuple_goes_to_a_topic_of_its_own_with_the_reason() -> None:
    sent = []
    outputs = TopicOutputs(RowMessages(destinations={}), settings=ClientSettings("localhost"), dead_letters="letters")
    outputs.transactions = SimpleNamespace(send=lambda topic, messages: sent.append((topic, messages)))
    messages = [Sent(edge()), Sent(edge(op="?"), beside=b"k", pairs=(("from", b"till"),), number=7)]
    (bad,) = reader().read(messages).bad.values()
    outputs.send_dead_letter(bad)
    ((topic, letters),) = sent
    assert outputs.topics == [topic] == ["letters"]
    assert (letters.keys, letters.values) == ([b"k"], [messages[1].data])
    (headers,) = letters.headers
    place = [("rpq.topic", b"t"), ("rpq.partition", b"0"), ("rpq.offset", b"7")]
    assert headers == [("from", b"till"), ("rpq.reason", bad.reason.encode()), *place] and "operation" in bad.reason


def properties_reader(columns: str | None = None, *, properties=("amount",), **options) -> MessageReader:
    return MessageReader(MessageColumns.from_names(ColumnNames.parse(columns, properties=properties)), **options)


def test_messages_without_places_of_their_properties_are_bad() -> None:
    found = properties_reader().read([Sent(b"x,y,a,1")])
    assert "has no place among the fields" in found.bad[0].reason
    found = properties_reader("edge=tx", properties=("edge",)).read([Sent(edge(tx=1)), Sent(edge()), Sent(edge(tx=1.5))])
    assert "an insert needs one" in found.bad[1].reason
    assert "expected text or an integer" in found.bad[2].reason


def test_messages_have_properties_and_ids_of_edges() -> None:
    values = [edge(amount=5, tx=1), edge(amount="x", tx="1"), edge(tx=2), edge(tx=7, op="-")]
    found = properties_reader("edge=tx", properties=("amount", "edge")).read([Sent(value) for value in values])
    assert found.columns["amount"].to_pylist() == ["5", "x", None, None]
    assert found.columns["edge"].to_pylist() == ["1", "1", "2", "7"]
    beside = properties_reader("edge=@key,amount=@header.fee", properties=("amount", "edge"))
    found = beside.read([Sent(edge(), b"t", pairs=(("fee", b"8"),)), Sent(edge(), b"u")])
    assert found.columns["edge"].to_pylist() == ["t", "u"] and found.columns["amount"].to_pylist() == ["8", None]


@pytest.mark.parametrize("taken", [1, 4])
def test_a_condition_on_messages_with_ids_leaves_out_edges_and_no_ids(taken: int) -> None:
    values = [edge(n=1, tx=1), edge(n=9, tx=2), edge(tx=1, op="-"), edge(n=2, tx=2)]
    read = properties_reader("edge=tx", properties=("edge",), where=parse_where("n > 5"))
    parts = [read.read([Sent(value) for value in values[start : start + taken]]) for start in range(0, 4, taken)]
    rows = [row for part in parts for row in part.columns.to_pylist()]
    assert [row.get("delete", False) for row in rows] == [True, False, True, True]
    assert [row.get("delete unless newer", False) for row in rows] == [True, False, False, True]
    assert sum(part.filtered for part in parts) == 2


def test_the_first_message_may_be_a_delete_by_id_alone() -> None:
    delete = json.dumps({"tx": 1, "op": "-", "timestamp": 1}).encode()
    found = properties_reader("edge=tx", properties=("edge",)).read([Sent(delete), Sent(edge(tx=2))])
    assert not found.bad
    assert found.columns["source"].to_pylist() == [None, "x"]
