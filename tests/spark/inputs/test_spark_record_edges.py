"""Several edges of one record on Spark (`--edges-from`): the edges that `rpq run` makes of the same records.

semantics.md S13
"""

from __future__ import annotations

import json
import pickle
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the extra spark is not installed")
pytest.importorskip("pandas")

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

import rpq
import rpq.spark as pipeline
from rpq.errors import InputError
from rpq.readers import ColumnNames, EdgeRules, open_reader
from rpq.readers.key_paths import with_nested_fields
from rpq.spark.errors import PipelineError
from rpq.spark.record_edges import RecordReader, RecordTuples, rules_of
from tests.twins import examples

RULES = """
timestamp = "at"

[[edge]]
label = "spawned"
source = "process.parent"
target = "process.id"
when = "action = 'start'"
[edge.properties]
user = "user.name"

[[edge]]
label = "connected"
source = "process.id"
target = "ip"

[[edge]]
label_from = "action"
source = "host"
target = "process.id"
delete = "gone"
"""
PROCESS = pa.struct([("id", pa.int64()), ("parent", pa.string())])
SCHEMA = pa.schema(
    {
        "at": pa.int64(),
        "action": pa.string(),
        "process": PROCESS,
        "user": pa.struct([("name", pa.string())]),
        "ip": pa.string(),
        "host": pa.string(),
        "gone": pa.bool_(),
    }
)
RECORDS = st.lists(
    st.fixed_dictionaries(
        {
            "at": st.integers(-3, 9),
            "action": st.sampled_from(("start", "end", None)),
            "process": st.fixed_dictionaries(
                {"id": st.sampled_from((1, 2, None)), "parent": st.sampled_from(("1", "p", "", None))}
            ),
            "user": st.fixed_dictionaries({"name": st.sampled_from(("ann", None))}),
            "ip": st.sampled_from(("10.0.0.1", "1", None)),
            "host": st.sampled_from(("h", None)),
            "gone": st.sampled_from((True, False, False, None)),
        }
    ),
    min_size=1,
    max_size=12,
)


def rules(text: str = RULES) -> EdgeRules:
    return EdgeRules.parse(text, file="edges.toml")


def edges_of_run(path: Path, *, on_error: str) -> list[tuple]:
    """The edges that `rpq run` reads, with their user."""
    columns = ColumnNames(properties=("user",))
    read = open_reader("edges", str(path), rules=rules(), columns=columns, on_error=on_error)
    rows = [row for batch in read for row in batch.columns.to_pylist()]
    names = ("source", "target", "label", "timestamp", "user")
    return [(*(row[name] for name in names), "-" if row.get("delete") else "+") for row in rows]


@pytest.mark.parametrize("stops", [True, False], ids=["stop", "skip"])
def test_a_task_has_the_edges_of_the_command(tmp_path, stops):
    """In their order, which numbers tell; a bad record has none, or ends the task."""
    schema = with_nested_fields(SCHEMA, rules().all_names(["user"]))
    made = RecordReader(rules=rules(), schema=schema, unit="us", properties={"user": pa.string()})
    make = pickle.loads(pickle.dumps(RecordTuples(made, stops=stops)))

    @examples(80)
    @given(records=RECORDS)
    def check(records: list[dict]) -> None:
        table = pa.Table.from_pylist(records, schema=SCHEMA)
        pq.write_table(table, tmp_path / "records.parquet")
        try:
            expected = edges_of_run(tmp_path / "records.parquet", on_error="stop" if stops else "skip")
        except InputError:
            expected = None
        half = len(table) // 2
        batches = [
            pa.record_batch(
                {
                    "record": part.to_struct_array().combine_chunks() if len(part) else pa.array([], pa.struct(SCHEMA)),
                    "file": pa.array(["f"] * len(part), pa.string()),
                    "row": pa.array(range(first, first + len(part)), pa.int64()),
                }
            )
            for first, part in ((0, table.slice(0, half)), (half, table.slice(half)))
        ]
        if expected is None:
            with pytest.raises(InputError, match=r"^f: row \d+ \(counted from 0\): column '"):
                list(make(batches))
            return
        found = pa.Table.from_batches(list(make(batches)))
        found = found.filter(pc.is_valid(found["op"]))  # a row of nulls is a bad record
        names = [name for name in found.column_names if name not in ("file", "row")]
        assert names[:5] == ["source", "target", "label", "timestamp", "op"]
        rows = found["row"].to_pylist()
        assert rows == sorted(set(rows))
        columns = [found[name].to_pylist() for name in (*names[:4], names[5], "op")]
        assert list(zip(*columns, strict=True)) == expected

    check()


def event(at: int, action: str | None, id: int, parent: str | None, user: str | None, *ends: str | None) -> dict:
    ip, host = ends
    process = {"id": id, "parent": parent}
    return {"at": at, "action": action, "process": process, "user": {"name": user}, "ip": ip, "host": host}


EVENTS = [
    event(1, "start", 7, "p", "ann", None, "h"),
    event(2, None, 7, None, None, "10.0.0.1", None),
    event(3, "start", 8, "7", "bob", "10.0.0.2", "h"),
    event(3, "start", 9, None, "bob", None, "h"),
    event(4, "start", 9, "8", "eve", "10.0.0.2", "h"),
    event(5, "start", 8, "7", "bob", None, "h") | {"gone": True},
]
"""The fourth is bad: its condition says that there is a parent."""
GOOD = EVENTS[:3] + EVENTS[4:]


@pytest.fixture
def rule_file(tmp_path):
    (tmp_path / "edges.toml").write_text(RULES)
    return str(tmp_path / "edges.toml")


def written(folder: Path, events: list[dict], *, times: str = "integers") -> Path:
    """The events as Parquet, with times of a kind."""
    folder.mkdir()
    table = pa.Table.from_pylist(events, schema=SCHEMA)
    if times == "timestamps":
        stamps = table["at"].cast(pa.timestamp("s", "UTC")).cast(pa.timestamp("us", "UTC"))
        table = table.set_column(0, "at", stamps)
    elif times == "text":
        table = table.set_column(0, "at", pa.array([f"1970-01-01T00:00:{one['at']:02d}Z" for one in events]))
    pq.write_table(table, folder / "events.parquet")
    return folder


def query(text: str = "spawned+/connected", **options) -> rpq.Query:
    return rpq.Query(text, window=rpq.Window(size=10, slide=1), name="q", semantics="explicit", **options)


def rows_of_run(path: Path, asked: rpq.Query, *, on_error: str = "stop", **options) -> Counter:
    columns = ColumnNames(properties=("user",) if "user" in asked.expression else ())
    engine = rpq.Engine(asked, **options)
    read = open_reader("edges", str(path), rules=rules(), columns=columns, on_error=on_error, time_unit="s")
    return Counter(tuple(row.values()) for batch in read for row in engine.push(batch.columns).to_arrow().to_pylist())


def rows_of(frame) -> Counter:
    return Counter(tuple(row) for row in frame.collect())


def test_a_replay_has_the_rows_of_the_command(session, tmp_path, rule_file):
    """Of nested columns with properties, whatever the times are; a bad record ends it with its place."""
    asked = query("spawned[user = 'ann']/spawned+")
    data = written(tmp_path / "data", GOOD)
    wanted = rows_of_run(data, asked)
    assert wanted
    for options in ({"partitions": 1}, {"partitions": 3}):
        assert rows_of(pipeline.replay(session, str(data), asked, edges_from=rule_file, **options)) == wanted
    for times in ("timestamps", "text"):
        other = written(tmp_path / times, GOOD, times=times)
        found = pipeline.replay(session, str(other), asked, edges_from=rule_file, partitions=2, time_unit="s")
        seconds = found.selectExpr("query", "source", "target", "unix_seconds(timestamp)", "op")
        assert rows_of(seconds) == wanted
    bad = written(tmp_path / "bad", EVENTS)
    with pytest.raises(Exception, match=r"events.parquet: row 3 \(counted from 0\): column 'process.parent': is missing"):
        pipeline.replay(session, str(bad), asked, edges_from=rule_file, partitions=1).collect()
    for options, message in (
        ({"columns": "source=x"}, "columns: edges_from names the columns and labels of edges"),
        ({"label": "x"}, "label: edges_from names the columns"),
    ):
        with pytest.raises(PipelineError, match=message):
            pipeline.replay(session, str(data), asked, edges_from=rule_file, **options)
    with pytest.raises(PipelineError, match=r"column 'ip', the target of edge 2 .*edges.toml, is missing"):
        pipeline.replay(session, session.read.parquet(str(data)).drop("ip"), asked, edges_from=rule_file)


def test_a_prepared_data_set_has_the_edges_of_records(session, tmp_path, rule_file):
    """Bad records are kept apart, or end the preparation; the time of text is that of its first record."""
    data = tmp_path / "events.json"
    data.write_text("".join(json.dumps(one) + "\n" for one in EVENTS))
    statistics = pipeline.prepare(session, str(data), str(tmp_path / "out"), edges_from=rule_file)
    columns = ("source", "target", "label", "timestamp", "op")
    found = [tuple(row[name] for name in columns) for row in pq.read_table(tmp_path / "out").to_pylist()]
    assert found == [(*edge[:4], edge[5]) for edge in edges_of_run(data, on_error="skip")]
    assert statistics["rejected"] == 1
    (rejected,) = (tmp_path / "out" / "_rejected").glob("*.json")
    assert "expected a value, as the condition for this edge holds (edge 1 ('spawned'))" in rejected.read_text()
    with pytest.raises(InputError, match=r"column 'process.parent': is missing"):
        pipeline.prepare(session, str(data), str(tmp_path / "none"), edges_from=rule_file, on_error="stop")
    assert not (tmp_path / "none").exists()


def test_a_stream_has_the_rows_of_the_command(session, tmp_path, rule_file):
    """Its checkpoint knows the rules; with on_error skip a bad record has no edges."""
    data = written(tmp_path / "data", EVENTS)
    frame = session.readStream.schema(session.read.parquet(str(data)).schema).parquet(str(data))
    state, asked = str(tmp_path / "state"), query()
    options = {"partitions": 2, "checkpoint": state, "edges_from": rule_file, "on_error": "skip"}
    writer = pipeline.stream_to(frame, str(tmp_path / "rows"), asked, **options)
    stream = writer.trigger(availableNow=True).start()
    stream.awaitTermination()
    assert rows_of(session.read.parquet(str(tmp_path / "rows"))) == rows_of_run(data, asked, on_error="skip")
    assert [one.observedMetrics["rpq_rejected"]["rejected"] for one in stream.recentProgress if one.numInputRows] == [1]
    (tmp_path / "edges.toml").write_text(RULES.replace("connected", "reached"))
    with pytest.raises(PipelineError, match="the names of columns was"):
        pipeline.stream_to(frame, str(tmp_path / "rows"), asked, **options)
    columns = "at string, action string, process struct<id: bigint, parent: string>, ip string, host string, gone boolean"
    text = session.readStream.schema(columns)
    with pytest.raises(PipelineError, match="column 'at': timestamps are text"):
        pipeline.rpq_changes(text.parquet(str(data)), asked, edges_from=rule_file)


def test_rules_that_spark_does_not_have(tmp_path):
    (tmp_path / "edges.toml").write_text(RULES + "stream = 'where'\n")
    with pytest.raises(PipelineError, match=r"edge 3, key 'stream': on Spark tuples have no stream"):
        rules_of(str(tmp_path / "edges.toml"))
