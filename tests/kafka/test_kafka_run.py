"""From topics to topics with a real broker, from Python: what arrives is what the engine says of the same stream."""

from __future__ import annotations

import json
import threading
import time

import pytest

import rpq
from rpq import run_topics
from rpq.errors import InputError
from rpq.kafka.client import KafkaError
from tests.services.kafka_topics import dealt, edges

WINDOW = rpq.Window(size=40, slide=5)
QUERY = rpq.Query("a/b*", window=WINDOW, semantics="explicit")


def expected(tuples, *queries: rpq.Query, named: bool = False) -> list[dict]:
    """Return the changes of an engine for tuples in this order."""
    engine = rpq.Engine(*(queries or (QUERY,)))
    rows = [(one["source"], one["target"], one["label"], one["timestamp"], one.get("op", "+")) for one in tuples]
    made = engine.push_rows(rows).rows()
    return [{name: value for name, value in row._asdict().items() if named or name != "query"} for row in made]


def merged(parts) -> list[dict]:
    """Partitions in the order of (timestamp, partition, offset)."""
    numbered = [(number, place, one) for number, part in enumerate(parts) for place, one in enumerate(part)]
    placed = [(one["timestamp"], number, place, one) for number, place, one in numbered]
    return [one for *_, one in sorted(placed, key=lambda entry: entry[:3])]


def unordered(rows) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


def test_a_topic_of_accounts_and_one_of_transfers_are_one_stream(kafka, tmp_path) -> None:
    accounts, transfers, written = kafka.new(name="accounts"), kafka.new(name="transfers"), kafka.new()
    rules = rpq.readers.EdgeRules.parse(
        "timestamp='t'\n[[edge]]\nlabel='paid'\nsource='from'\ntarget='to'\n"
        "[[node]]\nnode='account'\nop='op'\nproperties={risk='risk'}\n",
        file="rules.toml",
    )
    kafka.send(accounts, [{"t": at, "account": f"v{at % 5}", "risk": at * 7 % 6} for at in range(0, 60, 2)])
    kafka.send(accounts, [{"t": 60, "account": "v1", "op": "-"}])
    kafka.send(transfers, [{"t": at, "from": f"v{at % 4}", "to": f"v{at * 3 % 5}"} for at in range(60)])
    query = rpq.Query("(paid/@[risk > 2])+", window=rpq.Window(size=20, slide=1))
    engine = rpq.Engine(query)
    rows = []
    for at in range(61):
        if at % 2 == 0 and at < 60:
            rows += engine.set_node(f"v{at % 5}", properties={"risk": at * 7 % 6}, timestamp=at).rows()
        if at == 60:
            rows += engine.remove_node("v1", timestamp=60).rows()
        else:
            rows += engine.insert(f"v{at % 4}", f"v{at * 3 % 5}", "paid", at).rows()
    same = {"input": kafka.uri(accounts) + "," + transfers, "output": kafka.uri(written), "rules": rules, "until_end": True}
    for limit in (30, 50, None):
        run_topics(query, **same, checkpoint=tmp_path / "state", limit=limit)
    expected_rows = [{name: value for name, value in row._asdict().items() if name != "query"} for row in rows]
    assert unordered(kafka.rows(written)) == unordered(expected_rows) and len(rows) > 20


@pytest.mark.ci
def test_rows_come_in_order_with_query_and_binding_as_key(kafka) -> None:
    read, written = kafka.new(name="edges"), kafka.new(name="rows")
    stream = edges(300)
    kafka.send(read, stream)
    figures = run_topics(QUERY, input=kafka.uri(read), output=kafka.uri(written), until_end=True)
    rows = kafka.rows(written)
    assert [row["timestamp"] for row in rows] == [row["timestamp"] for row in expected(stream)]
    assert unordered(rows) == unordered(expected(stream)) and rows
    assert figures.messages == 300 and figures.rows_sent == len(rows) and figures.ended == "end of input"
    first = kafka.committed(written)[0]
    value = json.loads(first.value)
    assert json.loads(first.key) == ["a/b*", value["source"], value["target"]]


def test_partitions_are_one_stream_in_the_order_of_their_times(kafka) -> None:
    read, written = kafka.new(4), kafka.new()
    parts = dealt(edges(2000, step=3), 4)
    for number in (3, 0, 2, 1):
        kafka.send(read, parts[number], partition=number)
    run_topics(QUERY, input=kafka.uri(read), output=kafka.uri(written), until_end=True)
    assert unordered(kafka.rows(written)) == unordered(expected(merged(parts)))


def test_topics_may_be_streams_and_queries_have_topics_of_their_own(kafka) -> None:
    one, other = kafka.new(name="a"), kafka.new(name="b")
    parts = dealt(edges(400), 2)
    kafka.send(one, parts[0])
    kafka.send(other, parts[1])
    queries = rpq.Query("a/b*", window=WINDOW, name="paths"), rpq.Query("?x a ?y . ?y b ?z", window=WINDOW, name="pattern")
    outputs = {"paths": kafka.new(), "pattern": kafka.new()}
    run_topics(
        *queries,
        input=[f"first={kafka.uri(one)}", f"second={kafka.uri(other)}"],
        output={name: kafka.uri(topic) for name, topic in outputs.items()},
        until_end=True,
    )
    for query in queries:
        rows = kafka.rows(outputs[query.name])
        assert unordered(rows) == unordered(expected(merged(parts), query, named=True)) and rows


def test_upsert_leaves_the_current_answer_in_a_compacted_topic(kafka) -> None:
    read, written = kafka.new(), kafka.new()
    stream = edges(500)
    kafka.send(read, stream)
    run_topics(QUERY, input=kafka.uri(read), output=kafka.uri(written), until_end=True, upsert=True)
    current: dict[bytes, bytes] = {}
    for message in kafka.committed(written):
        if message.value is None:
            assert current.pop(message.key)
        else:
            current[message.key] = message.value
    engine = rpq.Engine(QUERY)
    engine.push_rows([tuple(one.values()) for one in stream], collect=False)
    assert {tuple(json.loads(key)[1:]) for key in current} == engine.answers().pairs() != set()
    with pytest.raises(InputError, match="upsert needs semantics 'explicit'"):
        run_topics(rpq.Query("a", window=WINDOW), input=kafka.uri(read), output=kafka.uri(written), upsert=True)


BAD = [b"\x00\x00\x00\x00\x07avro", None, b"{", {"source": "x", "target": "y", "label": "a"}, b"  "]


@pytest.mark.parametrize("place", range(len(BAD)))
def test_a_poison_message_stops_the_run_behind_what_came_before(kafka, tmp_path, place: int) -> None:
    read, written = kafka.new(2), kafka.new()
    good = [{"source": "x", "target": f"y{number}", "label": "a", "timestamp": number} for number in range(6)]
    kafka.send(read, [good[0], good[2], BAD[place], good[5]])
    kafka.send(read, [good[1], good[3], good[4]], partition=1)
    checkpoint = tmp_path / "run.state"
    for _ in range(2):
        with pytest.raises(InputError, match=f"{read}/0 at offset 2: ") as caught:
            run_topics(QUERY, input=kafka.uri(read), output=kafka.uri(written), until_end=True, checkpoint=checkpoint)
        assert [row["target"] for row in kafka.rows(written)] == ["y0", "y1", "y2"]
    assert ("Avro" in str(caught.value)) == (place == 0)
    run_topics(
        QUERY, input=kafka.uri(read), output=kafka.uri(written), until_end=True, checkpoint=checkpoint, on_error="skip"
    )
    assert [row["target"] for row in kafka.rows(written)] == [f"y{number}" for number in range(6)]


def test_poison_messages_go_to_a_dead_letter_topic_with_the_reason(kafka) -> None:
    read, written, letters = kafka.new(), kafka.new(), kafka.new()
    good = {"source": "x", "target": "y", "label": "a", "timestamp": 1}
    kafka.send(read, [*BAD[:2], good, *BAD[2:]], key=b"k", headers={"trace": b"7"})
    figures = run_topics(
        QUERY, input=kafka.uri(read), output=kafka.uri(written), until_end=True, on_error=kafka.uri(letters)
    )
    assert len(kafka.rows(written)) == 1 and figures.rejected == 5
    found = kafka.committed(letters)
    assert [letter.value for letter in found][:3] == BAD[:3] and all(letter.key == b"k" for letter in found)
    assert [letter.headers["rpq.offset"] for letter in found] == [b"0", b"1", b"3", b"4", b"5"]
    assert all(letter.headers["trace"] == b"7" and letter.headers["rpq.topic"] == read.encode() for letter in found)
    assert "timestamp" in found[3].headers["rpq.reason"].decode()


def test_an_idle_partition_is_told_and_not_waited_for_for_ever(kafka, caplog) -> None:
    read, written = kafka.new(3), kafka.new()
    stream = edges(50)
    kafka.send(read, stream, partition=1)
    ends = time.monotonic() + 6

    def check() -> None:
        if time.monotonic() > ends:
            raise InterruptedError

    with caplog.at_level("INFO", logger="rpq.kafka"), pytest.raises(InterruptedError):
        run_topics(QUERY, input=kafka.uri(read), output=kafka.uri(written), max_delay=1.5, check=check)
    assert unordered(kafka.rows(written)) == unordered(expected(stream))
    idle = [record.fields["partition"] for record in caplog.records if "idle" in record.getMessage()]
    assert sorted(idle) == [f"{read}/0", f"{read}/2"]


def test_what_comes_later_than_the_delay_is_out_of_order_and_what_comes_within_it_is_not(kafka) -> None:
    read, written = kafka.new(2), kafka.new()
    first = [{"source": "x", "target": "y", "label": "a", "timestamp": time_} for time_ in (1, 100)]
    late = {"source": "y", "target": "z", "label": "b", "timestamp": 90}
    kafka.send(read, first[:1], partition=1)
    kafka.send(read, first, partition=0)
    stop = threading.Event()

    def check() -> None:
        if stop.is_set():
            raise InterruptedError

    def run() -> None:
        with pytest.raises(InterruptedError):
            run_topics(QUERY, input=kafka.uri(read), output=kafka.uri(written), max_delay=8.0, check=check)

    worker = threading.Thread(target=run)
    worker.start()
    try:
        kafka.until(written, 1)
        time.sleep(0.5)
        assert len(kafka.rows(written)) == 1  # the tuple of time 100 waits for partition 1
        kafka.send(read, [late], partition=1)
        assert kafka.until(written, 4)[-1]["timestamp"] == 100
        kafka.send(read, [{**late, "target": "w", "timestamp": 85}], partition=1)
        assert kafka.until(written, 5)[-1] == {"source": "x", "target": "w", "timestamp": 100, "op": "+"}
    finally:
        stop.set()
        worker.join(30)


def test_what_cannot_be_is_said(kafka, tmp_path) -> None:
    read, written = kafka.new(name="edges"), kafka.new()
    with pytest.raises(InputError, match=f"there is no topic '{read}x'; did you mean '{read}'"):
        run_topics(QUERY, input=kafka.uri(f"{read}x"), output=kafka.uri(written), until_end=True)
    with pytest.raises(KafkaError, match="--output: the topic missing-one"):
        run_topics(QUERY, input=kafka.uri(read), output=kafka.uri("missing-one"), until_end=True)
    with pytest.raises(InputError, match="a URI has no login") as caught:
        run_topics(QUERY, input="kafka://me:secret@localhost/t", output=kafka.uri(written))
    assert "secret" not in str(caught.value)
    settings = {"sasl.pasword": "hidden"}
    with pytest.raises(KafkaError, match="did you mean 'sasl.password'") as wrong:
        run_topics(QUERY, input=kafka.uri(read), output=kafka.uri(written), kafka_config=settings)
    assert "hidden" not in str(wrong.value)
    with pytest.raises(InputError, match="'@kei' is not metadata of a message.*did you mean '@key'"):
        run_topics(QUERY, input=kafka.uri(read), output=kafka.uri(written), columns="source=@kei")


def test_a_journal_that_was_lost_is_not_passed_over(kafka, tmp_path) -> None:
    read, written = kafka.new(), kafka.new()
    kafka.send(read, edges(200))
    checkpoint = tmp_path / "run.state"
    saved = {}

    def check() -> None:
        # A crash: the files are as they are while rows are committed that are in no checkpoint.
        if kafka.rows(written, patience=0):
            saved["state"], saved["journal"] = checkpoint.read_bytes(), (tmp_path / "run.state.journal").read_bytes()
            raise InterruptedError

    with pytest.raises(InterruptedError):
        run_topics(QUERY, input=kafka.uri(read), output=kafka.uri(written), checkpoint=checkpoint, check=check)
    assert b'[["' in saved["journal"]
    options = {"input": kafka.uri(read), "output": kafka.uri(written), "checkpoint": checkpoint, "until_end": True}
    checkpoint.write_bytes(saved["state"])
    (tmp_path / "run.state.journal").unlink()
    with pytest.raises(KafkaError, match="run.state.journal: does not contain the order of the rounds 1 to"):
        run_topics(QUERY, **options)
    checkpoint.write_bytes(saved["state"])
    (tmp_path / "run.state.journal").write_bytes(saved["journal"])
    run_topics(QUERY, **options)
    assert unordered(kafka.rows(written)) == unordered(expected(edges(200)))


def test_messages_that_were_deleted_unread_end_the_run(kafka, tmp_path) -> None:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    read, written = kafka.new(), kafka.new()
    kafka.send(read, edges(50))
    options = {"input": kafka.uri(read), "output": kafka.uri(written), "checkpoint": tmp_path / "state", "until_end": True}
    run_topics(QUERY, **options)
    kafka.send(read, edges(50))
    admin = AdminClient({"bootstrap.servers": kafka.broker.address})
    for made in admin.delete_records([TopicPartition(read, 0, 80)]).values():
        made.result()
    with pytest.raises(KafkaError, match=f"{read}/0: the run continues at offset 50, but there are 80 to 100: deleted"):
        run_topics(QUERY, **options)


def test_a_limit_ends_the_run_behind_what_is_whole_and_every_time_there(kafka, tmp_path) -> None:
    read, written = kafka.new(), kafka.new()
    star = [{"source": f"s{number}", "target": "hub", "label": "a", "timestamp": number} for number in range(60)]
    kafka.send(read, [*star, {"source": "hub", "target": "y", "label": "b", "timestamp": 61}])
    options = {"input": kafka.uri(read), "output": kafka.uri(written), "checkpoint": tmp_path / "state", "until_end": True}
    query = rpq.Query("a/b", window=rpq.Window(size=100, slide=1))
    small = {"max_rows": 20}
    for _ in range(2):
        with pytest.raises(rpq.RowLimitError, match=f"{read}/0 at offset 60: "):
            run_topics(query, **options, **small)
        assert kafka.rows(written) == []
    run_topics(query, **options)
    assert len(kafka.rows(written)) == 60


@pytest.mark.ci
def test_a_run_leaves_no_file_and_no_thread_open(kafka, tmp_path) -> None:
    import gc
    import os

    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("there is no /proc")
    read = kafka.new(2)
    kafka.send(read, edges(200))

    def held() -> tuple[int, int]:
        gc.collect()
        return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))

    found = []
    for number in range(4):
        run_topics(
            QUERY, input=kafka.uri(read), output=kafka.uri(kafka.new()), until_end=True, checkpoint=tmp_path / str(number)
        )
        found.append(held())
    assert found[-1] <= found[0], found


@pytest.mark.ci
def test_changes_of_a_table_are_edges_and_rows_have_times_witnesses_and_messages(kafka) -> None:
    """Debezium's updates replace rows by id, deletes and tombstones take them back; epochs and vertices are texts."""

    def change(op, number, before, after, second):
        def row(ends):
            return None if ends is None else {"id": number, "payer": ends[0], "payee": ends[1], "at": f"{second}.5"}

        return {"before": row(before), "after": row(after), "op": op, "source": {"ts_ms": second * 1000}}

    read, written = kafka.new(name="server.public.transfers"), kafka.new()
    changes = [change("c", 7, None, ("x", 5), 1), change("c", 8, None, (5, "z"), 2), change("u", 8, (5, "z"), (5, "w"), 3)]
    kafka.send(read, [*changes, change("d", 7, ("x", 5), None, 4), None])
    run_topics(
        rpq.Query("paid+", window=rpq.Window(size="1h", slide="1m"), semantics="explicit"),
        input=kafka.uri(read),
        output=kafka.uri(written),
        changes="debezium",
        columns="source=payer,target=payee,edge=id,timestamp=at",
        label="paid",
        edges="id",
        time_format="epoch",
        time_unit="ms",
        text_vertices=True,
        witness=True,
        message="{source} paid {target} {op} {path_times}",
        until_end=True,
    )
    rows = kafka.rows(written)
    told = sorted((row["timestamp"], row["op"], row["source"], row["target"]) for row in rows)
    assert told == [
        (1500, "+", "x", "5"),
        (2500, "+", "5", "z"),
        (2500, "+", "x", "z"),
        (3500, "+", "5", "w"),
        (3500, "+", "x", "w"),
        (3500, "-", "5", "z"),
        (3500, "-", "x", "z"),
        (4000, "-", "x", "5"),
        (4000, "-", "x", "w"),
    ]
    (last,) = (row for row in rows if (row["op"], row["source"], row["target"]) == ("+", "x", "w"))
    assert last["path"] == ["x", "paid", "5", "paid", "w"] and last["path_times"] == [1500, 3500]
    assert last["message"] == "x paid w + [1500, 3500]"
    assert {(row["path"], row["path_times"]) for row in rows if row["op"] == "-"} == {(None, None)}


@pytest.mark.ci
def test_the_format_of_times_is_part_of_a_run(kafka, tmp_path) -> None:
    read, written = kafka.new(), kafka.new()
    kafka.send(read, [{"source": 1, "target": "y", "label": "a", "timestamp": "07/03/2024 01:30 PM"}])
    options = {"input": kafka.uri(read), "output": kafka.uri(written), "until_end": True, "checkpoint": tmp_path / "run"}
    query = rpq.Query("a", window=rpq.Window(size="1h", slide="1m"))
    with pytest.raises(rpq.RpqError, match="%d/%m/%Y %I:%M %p' reads it with the day first"):
        run_topics(query, **options | {"checkpoint": None}, time_unit="s", text_vertices=True)
    run_topics(query, **options, time_unit="s", text_vertices=True, time_format="%d/%m/%Y %I:%M %p")
    assert [(row["source"], row["timestamp"]) for row in kafka.rows(written)] == [("1", 1_709_818_200)]
    with pytest.raises(rpq.RpqError, match="--time-format was .*, now "):
        run_topics(query, **options, time_unit="s", time_format="%m/%d/%Y %I:%M %p")
