"""`rpq run` over topics: what it writes, says, refuses and measures, most of it as a process and with a real broker."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import urllib.request

import pytest

import rpq
from tests.kafka.kafka_process import ROOT, ended, started
from tests.kafka.test_kafka_run import expected, merged, unordered
from tests.services.kafka_broker import PASSWORD_OF_STORES, free_ports
from tests.services.kafka_topics import dealt, edges


def waited(holds, seconds: float = 90) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.ci
def test_sigterm_writes_a_checkpoint_and_ends_with_0_and_the_next_run_goes_on(kafka, tmp_path) -> None:
    read, written = kafka.new(2), kafka.new()
    parts = dealt(edges(600), 2)
    half = [part[: len(part) // 2] for part in parts]
    for number, part in enumerate(half):
        kafka.send(read, part, partition=number)
    config = tmp_path / "client.properties"
    config.write_text("# of the cluster\nclient.rack = here\nsasl.password = very-secret\n")
    stats, log, checkpoint = tmp_path / "stats.json", tmp_path / "log", tmp_path / "run.state"
    arguments = [
        *("--input", kafka.uri(read), "--output", kafka.uri(written), "--checkpoint", checkpoint),
        *("--kafka-config", config, "--stats", stats, "--log", "json", "--max-delay", "200ms"),
    ]
    process = started(*arguments, log=log)
    waited(lambda: (tmp_path / "log").exists() and "begins" in log.read_text())
    waited(lambda: len(kafka.rows(written)) == len(expected(merged(half))))
    assert ended(process, signal.SIGTERM) == 0
    figures = json.loads(stats.read_text())
    assert figures["ended"] == "interrupted (SIGTERM)" and figures["kafka"]["messages"] == sum(map(len, half))
    for number, part in enumerate(parts):
        kafka.send(read, part[len(part) // 2 :], partition=number)
    assert ended(started(*arguments, "--until-end", log=log)) == 0
    assert json.loads(stats.read_text())["resumed"]
    rows = kafka.rows(written)
    whole = [*merged(half), *merged([part[len(part) // 2 :] for part in parts])]
    assert unordered(rows) == unordered(expected(whole))
    events = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    assert {"time", "level", "event"} <= {*events[0]}
    assert [one["event"] for one in events if one["event"] in ("begins", "continues from its checkpoint")] == [
        "begins", "continues from its checkpoint",
    ]  # fmt: skip
    for file in (stats, log, checkpoint, tmp_path / "run.state.journal"):
        assert b"very-secret" not in file.read_bytes()
    other = started(*arguments, "--until-end", log=log, query=["a", "--window", "40", "--slide", "5"])
    assert ended(other) == 2 and "is the checkpoint of another run: EXPRESSION was a/b*, now a" in log.read_text()


@pytest.mark.ci
def test_who_signs_in_stands_in_the_file_of_settings_and_nowhere_else(kafka, tmp_path) -> None:
    read, written = kafka.new(), kafka.new()
    kafka.send(read, edges(100))
    config, stats, log, state = (tmp_path / name for name in ("client.properties", "stats.json", "log", "run.state"))
    secured = f"kafka://{kafka.broker.secured_address}"
    arguments = [
        *("--input", f"{secured}/{read}", "--output", f"{secured}/{written}", "--checkpoint", state),
        *("--kafka-config", config, "--stats", stats, "--until-end"),
    ]
    sign_in = "security.protocol=SASL_PLAINTEXT\nsasl.mechanisms=PLAIN\nsasl.username=rpq\nsasl.password="
    config.write_text(f"{sign_in}open-sesamy\n")
    assert ended(started(*arguments, log=log)) == 1
    assert "the broker refuses the connection: " in log.read_text() and "uthentication failed" in log.read_text()
    config.write_text(f"{sign_in}open-sesame\n")
    assert ended(started(*arguments, log=log)) == 0
    assert unordered(kafka.rows(written)) == unordered(expected(edges(100)))
    for file in (stats, log, state):
        assert b"open-sesam" not in file.read_bytes()


@pytest.mark.ci
def test_a_broker_is_believed_by_its_certificate_and_signed_in_to_over_tls(kafka, tmp_path) -> None:
    read, written = kafka.new(), kafka.new()
    kafka.send(read, edges(100))
    config, stats, log, state = (tmp_path / name for name in ("client.properties", "stats.json", "log", "run.state"))
    secured = f"kafka://{kafka.broker.tls_address}"
    arguments = [
        *("--input", f"{secured}/{read}", "--output", f"{secured}/{written}", "--checkpoint", state),
        *("--kafka-config", config, "--stats", stats, "--log", "json", "--until-end"),
    ]
    sign_in = "security.protocol=SASL_SSL\nsasl.mechanisms=PLAIN\nsasl.username=rpq\nsasl.password=open-sesame\n"
    config.write_text(sign_in)
    assert ended(started(*arguments, log=log)) == 1
    assert "the broker refuses the connection: " in log.read_text() and "certificate verify failed" in log.read_text()
    assert not state.exists() and not kafka.rows(written)
    config.write_text(f"{sign_in}ssl.ca.location={kafka.broker.authority}\n")
    assert ended(started(*arguments, log=log)) == 0
    assert unordered(kafka.rows(written)) == unordered(expected(edges(100)))
    for file in (stats, log, state, tmp_path / "run.state.journal"):
        assert b"open-sesame" not in file.read_bytes()


@pytest.mark.ci
def test_a_broker_may_want_a_certificate_of_the_client(kafka, tmp_path) -> None:
    read, written, config, log = kafka.new(), kafka.new(), tmp_path / "client.properties", tmp_path / "log"
    kafka.send(read, edges(100))
    secured = f"kafka://{kafka.broker.certified_address}"
    arguments = ["--input", f"{secured}/{read}", "--output", f"{secured}/{written}", "--kafka-config", config, "--until-end"]
    believed = f"security.protocol=ssl\nssl.ca.location={kafka.broker.authority}\n"
    with_key = f"{believed}ssl.keystore.location={kafka.broker.client_store}\nssl.keystore.password="
    for settings, status, message in (
        (believed, 1, "the broker refuses the connection: "),
        (f"{with_key}of-no-store\n", 2, "--kafka-config: "),
        (f"{with_key}{PASSWORD_OF_STORES}\n", 0, ""),
    ):
        config.write_text(settings)
        assert ended(started(*arguments, log=log)) == status
        said = log.read_text()
        assert message in said and "of-no-store" not in said and PASSWORD_OF_STORES not in said
    assert unordered(kafka.rows(written)) == unordered(expected(edges(100)))


@pytest.mark.ci
def test_a_checkpoint_is_for_one_run_at_a_time(kafka, tmp_path) -> None:
    read, written, log = kafka.new(), kafka.new(), tmp_path / "log"
    arguments = ["--input", kafka.uri(read), "--output", kafka.uri(written), "--checkpoint", tmp_path / "run.state"]
    process = started(*arguments, log=log)
    try:
        waited(lambda: log.exists() and "begins" in log.read_text())
        second = tmp_path / "second"
        assert ended(started(*arguments, log=second)) == 1
        assert "another run uses this checkpoint" in second.read_text()
    finally:
        assert ended(process, signal.SIGTERM) == 0


@pytest.mark.ci
def test_rows_of_topics_may_go_to_a_file_and_go_on_there_after_a_kill(kafka, tmp_path) -> None:
    read, log, output = kafka.new(), tmp_path / "log", tmp_path / "rows.csv"
    stream = edges(500)
    kafka.send(read, stream[:300])
    arguments = ["--input", kafka.uri(read), "--output", output, "--checkpoint", tmp_path / "run.state"]
    process = started(*arguments, "--checkpoint-every", "300ms", log=log)
    waited(lambda: output.exists() and output.read_text().count("\n") > 100 and "checkpoint written" in log.read_text())
    process.kill()
    process.wait()
    kafka.send(read, stream[300:])
    assert ended(started(*arguments, "--until-end", log=log)) == 0
    rows = [line.split(",") for line in output.read_text().splitlines()[1:]]
    assert sorted(rows) == sorted([str(value) for value in row.values()] for row in expected(stream))


@pytest.mark.ci
def test_metrics_are_prometheus_and_say_the_lag_of_partitions_and_the_rows_of_queries(kafka, tmp_path) -> None:
    read, written, (port,) = kafka.new(2), kafka.new(), free_ports(1)
    parts = dealt(edges(400), 2)
    for number, part in enumerate(parts):
        kafka.send(read, part, partition=number)
    queries = tmp_path / "queries.toml"
    queries.write_text(
        '[[query]]\nname = "paths"\nquery = "a/b*"\n'
        '[[query]]\nname = "pairs"\nquery = "?source a ?y . ?y b ?target"\nselect = ["source", "target"]\n'
    )
    log = tmp_path / "log"
    process = started(
        *("--input", kafka.uri(read), "--output", kafka.uri(written), "--metrics", f"127.0.0.1:{port}"),
        *("--max-delay", "100ms"),
        query=["--queries", str(queries), "--window", "40", "--slide", "5"],
        log=log,
    )
    found: dict[str, float] = {}

    def scraped() -> bool:
        assert process.poll() is None, log.read_text()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as response:
                lines = response.read().decode().splitlines()
        except OSError:
            return False
        found.update({line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if not line.startswith("#")})
        return found.get("rpq_tuples_total") == 400 and found.get("rpq_latency_seconds_count", 0) == 400

    try:
        waited(scraped)
        assert found[f'rpq_lag{{partition="1",topic="{read}"}}'] == 0
        assert found["rpq_messages_total"] == 400 and found["rpq_memory_bytes"] > 1e6
        engine = rpq.Engine(rpq.Query("a/b*", window=rpq.Window(size=40, slide=5)))
        engine.push_rows([tuple(one.values()) for one in merged(parts)])
        assert found['rpq_query_rows_added_total{query="paths"}'] == engine.statistics().rows_added
        assert found["rpq_rows_sent_total"] == found["rpq_rows_added_total"] + found["rpq_rows_removed_total"]
    finally:
        assert ended(process, signal.SIGTERM) == 0
    assert {row["query"] for row in kafka.rows(written)} == {"paths", "pairs"}


REFUSED = [
    (["--output", "kafka://localhost/rows", "--input", "edges.csv"], "rows are written to a topic only if the input is one"),
    (["--input", "kafka://localhost/a", "edges.csv"], "a run reads topics or files, not both"),
    (["--input", "kafka://localhost/a", "--format", "avro"], "--format avro: needs a schema registry"),
    (["--input", "kafka://localhost/a", "--format", "protobuf"], "messages in Protobuf are not read"),
    (["--input", "kafka://localhost/a", "--format", "ldbc"], "is a format of files; expected edges, jsonl, rdf, avro or"),
    (["--input", "kafka://localhost/a", "--format", "rdf"], "the triples have no time: --rdf-time says where it is"),
    (
        ["--input", "kafka://localhost/a", "--format", "rdf", "--rdf-time", "graph-name", "--columns", "timestamp=@time"],
        "both --rdf-time and --columns timestamp= set the time of a triple",
    ),
    (["--input", "kafka://localhost/a", "--format", "rdf", "--rdf-graph", "event"], "--rdf-graph event: a post or a"),
    (["--input", "kafka://localhost/a", "--drop-self-loops"], "--drop-self-loops applies to files"),
    (["--input", "kafka://one/a", "--output", "kafka://two/b"], "all topics of a run must be on one"),
    (["--input", "kafka://localhost/a b"], "is not the name of a topic"),
    (["--input", "kafka://localhost"], "is not a topic; expected kafka://BROKER"),
    (["--input", "kafka://u:hush@localhost/a"], "a URI has no login"),
    (["--input", "kafka://localhost/a", "--output", "kafka://localhost/a,b"], "names 2 topics; expected one"),
    (["--input", "kafka://localhost/a", "--output", "kafka://localhost/b", "--upsert"], "upsert needs semantics 'explicit'"),
    (["--input", "kafka://localhost/a", "--on-error", "letters"], "is not one of 'stop', 'skip'"),
    (["--input", "kafka://localhost/a", "--max-delay", "soon"], "is not a duration"),
    (["--input", "edges.csv", "--upsert"], "--upsert applies to topics"),
]


@pytest.mark.parametrize(("options", "message"), REFUSED, ids=[message[:40] for _, message in REFUSED])
def test_what_cannot_be_is_refused(rpq, tmp_path, monkeypatch, options: list[str], message: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "edges.csv").write_text("x,y,a,1\n")
    status, _, err = rpq("run", "a", "--window", "10", "--slide", "1", *options)
    assert status == 2 and message in " ".join(err.split()) and "hush" not in err


@pytest.mark.ci
def test_without_the_extra_it_is_named_and_nothing_imports_it_unasked(tmp_path) -> None:
    (tmp_path / "edges.csv").write_text("x,y,a,1\n")
    script = (
        "import sys\n"
        "sys.modules['confluent_kafka'] = None\n"
        "sys.modules['prometheus_client'] = None\n"
        "from rpq.cli import main\n"
        "main()\n"
    )
    base = [sys.executable, "-c", script, "run", "a", "--window", "10", "--slide", "1", "--input"]
    done = subprocess.run([*base, "kafka://localhost/a"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "pip install 'confluent-kafka>=2.8' 'prometheus-client>=0.20'" in done.stderr
    assert subprocess.run([*base, str(tmp_path / "edges.csv")], cwd=ROOT, capture_output=True, check=False).returncode == 0


@pytest.mark.ci
def test_messages_have_times_in_iso_8601_witnesses_and_texts_and_changes_are_read(kafka, tmp_path) -> None:
    read, written, log = kafka.new(), kafka.new(), tmp_path / "log"
    rows = [
        {"who": "x", "whom": "y", "at": "2024-03-01T10:00:00Z", "__op": "c", "__deleted": "false"},
        {"who": "y", "whom": "z", "at": "2024-03-01T10:00:01Z", "__op": "c", "__deleted": "false"},
        {"who": "x", "whom": "y", "at": "2024-03-01T10:00:02Z", "__op": "d", "__deleted": "true"},
    ]
    kafka.send(read, rows)
    command = [sys.executable, "-m", "rpq.cli", "run", "knows+", "--window", "1h", "--slide", "1m", "--quiet"]
    command += ["--semantics", "explicit"]
    command += ["--input", kafka.uri(read), "--output", kafka.uri(written), "--until-end", "--times", "iso", "--witness"]
    command += ["--message", "{timestamp}: {source} {op} {target} by {path_times}", "--time-unit", "s", "--label", "knows"]
    command += ["--changes", "debezium-rows", "--columns", "source=who,target=whom,timestamp=at"]
    with open(log, "w") as out:
        assert subprocess.run(command, cwd=ROOT, stdout=out, stderr=out).returncode == 0, log.read_text()
    found = kafka.rows(written)
    first, second = "2024-03-01T10:00:00Z", "2024-03-01T10:00:01Z"
    (longest,) = (row for row in found if (row["source"], row["target"], row["op"]) == ("x", "z", "+"))
    assert list(longest) == ["source", "target", "timestamp", "op", "path", "path_times", "message"]
    assert (longest["timestamp"], longest["path"]) == (second, ["x", "knows", "y", "knows", "z"])
    assert longest["path_times"] == [first, second]
    assert longest["message"] == f'{second}: x + z by ["{first}", "{second}"]'
    gone = {(row["source"], row["target"], row["timestamp"], row["path"]) for row in found if row["op"] == "-"}
    assert gone == {("x", "y", "2024-03-01T10:00:02Z", None), ("x", "z", "2024-03-01T10:00:02Z", None)}
