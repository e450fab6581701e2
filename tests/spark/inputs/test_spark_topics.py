"""`rpq spark stream --input kafka://…`: topics of a real broker through Spark's connector, in the order of their places."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the extra spark is not installed")
pytest.importorskip("pandas")

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import rpq
from rpq.errors import InputError
from rpq.kafka.client import KafkaError
from rpq.kafka.message_reader import MessageColumns
from rpq.readers import EdgeRules
from rpq.readers.column_names import ColumnNames
from rpq.spark.cli import spark
from rpq.spark.errors import PipelineError
from rpq.spark.jvm.session import check_java
from rpq.spark.stream import topics
from rpq.spark.stream.topics import METADATA_COLUMNS, MessageTuples, connector_options, layout_of_messages, read_messages
from tests.services.kafka_broker import fetched, required_or_skipped
from tests.services.kafka_topics import dealt, edges

CONNECTOR = "4.2.0"
CONNECTOR_JARS = """
64539c45e5d39f7ddb747312c239f38f5208d08c1a0ddf7d70beb2fbd9373705 org/apache/spark/spark-sql-kafka-0-10_2.13/4.2.0/spark-sql-kafka-0-10_2.13-4.2.0.jar
641c7947afc8aa1189e433b7c2d305293993c8691bc1c2062d6d4f513b12518c org/apache/spark/spark-token-provider-kafka-0-10_2.13/4.2.0/spark-token-provider-kafka-0-10_2.13-4.2.0.jar
014b4ef36884478a932641818b080c36a8f8e2e92dc771e800c9d2694f4f83d8 org/apache/kafka/kafka-clients/3.9.2/kafka-clients-3.9.2.jar
f77a5060d6936a9144023584232f9de3f2248f1abfe156e9d31795f18770674f org/apache/commons/commons-pool2/2.13.1/commons-pool2-2.13.1.jar
4eae6e68cf44e9f709970355590ae981883edf6484608d747376a56cbb285432 org/scala-lang/modules/scala-parallel-collections_2.13/1.2.0/scala-parallel-collections_2.13-1.2.0.jar
""".split("\n")[1:-1]  # noqa: E501
"""The jars that `--packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0` brings beside what PySpark has: 11 MB."""

QUERY = rpq.Query("a/b*", window=rpq.Window(size=40, slide=5), semantics="explicit")
OPTIONS = ["a/b*", "--window", "40", "--slide", "5", "--semantics", "explicit"]


@pytest.fixture(scope="module")
def connector() -> str:
    """The jars of the connector, as a setting of Spark."""
    try:
        check_java()
    except PipelineError as missing:
        pytest.skip(str(missing))
    with required_or_skipped():
        folder = fetched(CONNECTOR_JARS, f"spark-kafka-{CONNECTOR}")
    return "spark.jars=" + ",".join(str(folder / Path(line.split()[1]).name) for line in CONNECTOR_JARS)


# --- messages to tuples ------------------------------------------------------------------------------------------


def batch(topic: str, *values: bytes | None, partition: int = 0, offset: int = 0, **beside: Any) -> pa.RecordBatch:
    """Messages of a partition as the connector gives them."""
    count = len(values)
    columns = {
        "topic": pa.array([topic] * count),
        "partition": pa.array([partition] * count, pa.int32()),
        "offset": pa.array(range(offset, offset + count), pa.int64()),
        "value": pa.array(values, pa.binary()),
    }
    if beside:
        columns |= {name: pa.array([beside.get(name)] * count) for name in METADATA_COLUMNS}
    return pa.RecordBatch.from_pydict(columns)


def tuples_of(
    *batches: pa.RecordBatch,
    names: str | None = None,
    label: str | None = None,
    stops: bool = True,
    rules: EdgeRules | None = None,
) -> list[tuple]:
    columns = MessageColumns.from_names(ColumnNames.parse(names, label=label), rules=rules)
    first = {one.column("topic")[0].as_py(): one for one in reversed(batches)}
    layouts = {topic: layout_of_messages(topic, read_messages(one), columns, rules) for topic, one in first.items()}
    integers = any(layout.get("integers") for layout in layouts.values())
    read = MessageTuples(columns, layouts, integers=integers, stops=stops, rules=rules)
    return [tuple(row.values()) for made in read(iter(batches)) for row in made.to_pylist()]


def test_messages_are_read_as_a_run_reads_them_and_know_their_places() -> None:
    read = tuples_of(
        batch("t", b'{"source":"x","target":"y","label":"a","timestamp":3}', b'{"source":"y","target":"z","label":"b",'
              b'"timestamp":4,"op":"-"}', partition=1, offset=7),
        batch("s", b"1,2,a,5", b"2,3,b,6"),
    )  # fmt: skip
    assert [row[:5] for row in read] == [
        ("x", "y", "a", 3, "+"), ("y", "z", "b", 4, "-"), ("1", "2", "a", 5, "+"), ("2", "3", "b", 6, "+"),
    ]  # fmt: skip
    # The topic decides first, then the partition, then the offset.
    places = {row[:2]: row[5] for row in read}
    assert sorted(places, key=lambda row: places[row]) == [("1", "2"), ("2", "3"), ("x", "y"), ("y", "z")]


def test_a_message_has_several_edges_by_rules() -> None:
    """Each with the place of its message, and text as vertices; a message without edges is no error, a bad one is."""
    rules = EdgeRules.parse(
        """
        timestamp = "at"
        [[edge]]
        label = "spawned"
        source = "process.parent"
        target = "process.id"
        when = "action = 'start'"
        [[edge]]
        label = "connected"
        source = "process.id"
        target = "ip"
        """,
        file="edges.toml",
    )
    start = b'{"at":3,"action":"start","process":{"id":7,"parent":"p"},"ip":"10.0.0.1"}'
    neither, bad = b'{"at":4,"action":"end","process":{"id":7}}', b'{"at":5,"action":"start","process":{"id":7}}'
    read = tuples_of(batch("t", neither, start, start, offset=4), rules=rules)
    edges_of_start = [("p", "7", "spawned", 3, "+"), ("7", "10.0.0.1", "connected", 3, "+")]
    assert [row[:5] for row in read] == 2 * edges_of_start
    assert [row[5] for row in read] == [5, 5, 6, 6]
    with pytest.raises(InputError, match=r"t/0 at offset 1: .*process.parent"):
        tuples_of(batch("t", start, bad), rules=rules)
    found = tuples_of(batch("t", start, bad, start), rules=rules, stops=False)
    assert len(found) == 5 and found.count((None,) * 6) == 1


def test_what_stands_beside_a_message_is_a_column_and_numbers_stay_numbers() -> None:
    beside = {"key": b"k", "headers": [{"key": "kind", "value": b"a"}], "time": 12_345, "time_kind": 0}
    names = "source=@key,label=@header.kind,timestamp=@time"
    assert tuples_of(batch("t", b'{"target":"y"}', **beside), names=names)[0][:5] == ("k", "y", "a", 12_345, "+")
    assert tuples_of(batch("t", b'{"source":1,"target":2,"timestamp":3}'), label="a")[0][:5] == (1, 2, "a", 3, "+")


def test_rules_read_what_stands_beside_a_message() -> None:
    """The columns of the connector that have it are selected, and the unit is that of times of messages."""
    rules = EdgeRules.parse(
        """
        timestamp = "@time"
        [[edge]]
        label = "sent"
        source = "@key"
        target = "to"
        when = "`@header.kind` = 'a'"
        """,
        file="edges.toml",
    )
    beside = {"key": b"k", "headers": [{"key": "kind", "value": b"a"}], "time": 12_345, "time_kind": 0}
    (edge,) = tuples_of(batch("t", b'{"to":"y"}', **beside), rules=rules)
    assert edge[:5] == ("k", "y", "sent", 12_345, "+")
    messages = SimpleNamespace(select=lambda *names: names, selectExpr=lambda *expressions: expressions)
    columns = MessageColumns.from_names(ColumnNames(), rules=rules)
    assert columns.unit == "ms"
    selected = topics._columns(messages, columns, rules)
    assert [expression.split()[-1] for expression in selected[4:]] == [*METADATA_COLUMNS]
    assert len(topics._columns(messages, MessageColumns.from_names(ColumnNames()), None)) == 4


def test_a_message_that_is_no_tuple_ends_it_with_its_place_or_is_left_out() -> None:
    good = b'{"source":"x","target":"y","label":"a","timestamp":3}'
    poisoned = batch("t", good, b"{", good, partition=2, offset=10)
    with pytest.raises(InputError, match="t/2 at offset 11: "):
        tuples_of(poisoned)
    found = tuples_of(poisoned, stops=False)
    assert len(found) == 3 and found.count((None,) * 6) == 1
    with pytest.raises(PipelineError, match="t: has no message that is a tuple: t/0 at offset 0: "):
        tuples_of(batch("t", b"{", None))
    with pytest.raises(InputError, match="too many offsets"):
        tuples_of(batch("t", good, offset=1 << 44))


def test_any_order_of_partitions_and_batches_gives_the_same_sequence() -> None:
    drawn = random.Random(3)
    places = [(topic, partition, offset) for topic in "abc" for partition in range(3) for offset in range(4)]
    drawn.shuffle(places)
    value = b'{"source":"x","target":"y","label":"a","timestamp":3}'
    read = tuples_of(*(batch(topic, value, partition=partition, offset=offset) for topic, partition, offset in places))
    by_sequence = np.argsort([row[5] for row in read])
    assert [places[number] for number in by_sequence] == sorted(places)


# --- settings ----------------------------------------------------------------------------------------------------


def test_settings_in_the_names_of_librdkafka_are_those_of_java() -> None:
    given = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": "SCRAM-SHA-512",
        "sasl.username": "rpq",
        "sasl.password": 'open "sesame" \\',
        "ssl.ca.location": "/etc/ca.pem",
        "linger.ms": "5",
        "auto.offset.reset": "latest",
    }
    options = connector_options("localhost:9092", given)
    assert options == {
        "kafka.bootstrap.servers": "localhost:9092",
        "kafka.isolation.level": "read_committed",
        "startingOffsets": "latest",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.ssl.truststore.location": "/etc/ca.pem",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="rpq" password="open \\"sesame\\" \\\\";',
    }
    with pytest.raises(PipelineError, match=r"ssl\.key\.location: Java's clients expect certificate and key in one file"):
        connector_options("localhost:9092", {"ssl.key.location": "key.pem"})
    with pytest.raises(PipelineError, match="with the mechanism OAUTHBEARER: expected one of PLAIN"):
        connector_options("localhost:9092", {"sasl.username": "rpq", "sasl.mechanisms": "OAUTHBEARER"})
    with pytest.raises(KafkaError, match="bootstrap.servers cannot be set"):
        connector_options("localhost:9092", {"bootstrap.servers": "other"})


REFUSED = [
    (["--input", "kafka://localhost/a", "--sequence", "n"], "ordered by topic, partition and offset"),
    (["--input", "folder", "--kafka-config", "f"], "--kafka-config applies to topics only; expected --input kafka://BROKER/TOPIC"),
    (["--input", "folder", "--max-messages", "5"], "--max-messages applies to topics only"),
]


@pytest.mark.parametrize(("options", "message"), REFUSED, ids=[message[:30] for _, message in REFUSED])
def test_what_does_not_go_together_is_refused(rpq, tmp_path, monkeypatch, options: list[str], message: str) -> None:
    monkeypatch.chdir(tmp_path)
    status, _, err = rpq("stream", *OPTIONS, *options, "--output", "rows", "--checkpoint", "state", command=spark)
    assert status == 2 and message in " ".join(err.split())


# --- on Spark ----------------------------------------------------------------------------------------------------


class TopicJob:
    """`rpq spark stream` over topics, as a process that can be killed with all that belongs to it."""

    def __init__(self, uri: str, folder: Path, *more: str) -> None:
        folder.mkdir(exist_ok=True)
        self.rows, self.state, self.log = folder / "rows", folder / "state", folder / "log"
        self._command = [sys.executable, "-m", "rpq.cli", "spark", "stream", *OPTIONS, "--input", uri, "--partitions", "2"]
        self._command += ["--output", str(self.rows), "--checkpoint", str(self.state)]
        self._command += ["--master", "local[2]", *more]

    def start(self, *more: str) -> subprocess.Popen:
        """Start it; what it says is in `log`."""
        with self.log.open("a") as log:
            return subprocess.Popen([*self._command, *more], start_new_session=True, stderr=log)

    def to_the_end(self) -> str:
        """Run until all that is there has been read; what it says."""
        process = self.start("--once")
        status, said = process.wait(), self.log.read_text()
        assert status == 0, said
        return said

    def offsets(self) -> int:
        """Return the number of micro-batches that have begun."""
        folder = self.state / "offsets"
        return sum(one.name.isdecimal() for one in folder.iterdir()) if folder.is_dir() else 0

    def found(self) -> Counter:
        """The rows in the sink, which are those that its log knows."""
        metadata = self.rows / "_spark_metadata"
        names = {
            Path(json.loads(line)["path"].removeprefix("file://")).name
            for log in metadata.iterdir()
            if not log.name.startswith(".")
            for line in log.read_text().splitlines()[1:]
        }
        tables = [pq.read_table(self.rows / name, partitioning=None) for name in sorted(names)]
        columns = ("source", "target", "timestamp", "op")
        return Counter(tuple(row[name] for name in columns) for table in tables for row in table.to_pylist())


def expected(messages: list[tuple[dict[str, Any], int, int]]) -> Counter:
    """The rows of messages (value, partition, offset) in the order of time, partition and offset."""
    engine = rpq.Engine(QUERY)
    ordered = sorted(messages, key=lambda message: (message[0]["timestamp"], *message[1:]))
    changes = engine.push_rows([tuple(value.values()) for value, _, _ in ordered])
    return Counter((row.source, row.target, row.timestamp, row.op) for row in changes.rows())


@pytest.mark.long
def test_a_topic_gives_the_rows_of_its_messages_in_order_and_secrets_are_kept_nowhere(kafka, connector, tmp_path) -> None:
    topic = kafka.new(2)
    stream = edges(400)
    for place, one in enumerate(stream):
        one["timestamp"] = place // 4  # several at a time
        one["op"] = "-" if place % 7 == 5 else "+"
    parts = dealt(stream, 2)
    for number, part in enumerate(parts):
        kafka.send(topic, part, partition=number)
    config = tmp_path / "client.properties"
    sign_in = "security.protocol=SASL_SSL\nsasl.mechanisms=PLAIN\nsasl.username=rpq\nsasl.password=open-sesame\n"
    config.write_text(f"{sign_in}ssl.ca.location={kafka.broker.authority}\n")
    stats = tmp_path / "stats.json"
    job = TopicJob(
        *(f"kafka://{kafka.broker.tls_address}/{topic}", tmp_path, "--conf", connector),
        *("--kafka-config", str(config), "--stats", str(stats)),
    )
    said = job.to_the_end()
    messages = [(one, number, offset) for number, part in enumerate(parts) for offset, one in enumerate(part)]
    assert job.found() == expected(messages)
    assert json.loads(stats.read_text())["tuples"] == len(stream)
    written = [path for path in job.state.rglob("*") if path.is_file()]
    assert len(written) > 5 and "open-sesame" not in said
    for path in (*written, job.log, stats):
        assert not path.exists() or b"open-sesame" not in path.read_bytes()


@pytest.mark.long
def test_without_the_connector_its_coordinates_are_named_and_with_them_it_is_fetched(kafka, connector, tmp_path) -> None:
    topic = kafka.new()
    kafka.send(topic, edges(100))
    without = TopicJob(kafka.uri(topic), tmp_path / "without")
    status, said = without.start("--once").wait(), without.log.read_text()
    assert status == 1 and "--packages org.apache.spark:spark-sql-kafka-0-10_2.13:" in said
    coordinates = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{CONNECTOR}"
    job = TopicJob(kafka.uri(topic), tmp_path, "--packages", coordinates, "--conf", f"spark.jars.ivy={tmp_path / 'ivy'}")
    job.to_the_end()
    assert job.found() == expected([(one, 0, offset) for offset, one in enumerate(edges(100))])


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2])
def test_a_stream_of_topics_that_is_killed_goes_on_where_it_stood(kafka, connector, tmp_path, seed: int) -> None:
    drawn = random.Random(seed)
    topic = kafka.new(2)
    parts = dealt(edges(6_000, seed=seed), 2, seed=seed)
    sent = [0, 0]
    job = TopicJob(kafka.uri(topic), tmp_path, "--conf", connector, "--max-messages", "500", "--max-delay", "2000")
    for kill in range(3):
        for number, part in enumerate(parts):
            until = len(part) * (kill + 1) // 4
            kafka.send(topic, part[sent[number] : until], partition=number)
            sent[number] = until
        enough = job.offsets() + drawn.randrange(1, 3)
        process = job.start()
        while process.poll() is None and job.offsets() < enough:
            time.sleep(0.01)
        time.sleep(drawn.uniform(0, 2))
        assert process.poll() is None, job.log.read_text()
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    for number, part in enumerate(parts):
        kafka.send(topic, part[sent[number] :], partition=number)
    # What lets all go that waits: later than any delay, and of a label that no query has.
    last = {"source": "v", "target": "v", "label": "tick", "timestamp": 10**6}
    kafka.send(topic, [last, {**last, "timestamp": 10**7}], partition=0)
    job.to_the_end()
    messages = [(one, number, offset) for number, part in enumerate(parts) for offset, one in enumerate(part)]
    messages.append((last, 0, len(parts[0])))
    assert job.found() == expected(messages)
