"""Several edges of one record: the rules of `--edges-from`, over JSON lines, Parquet, fields, messages and posts.

semantics.md S13
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet as pq

from rpq import Engine, Query, Window
from rpq.cli.inputs import topic_input_of
from rpq.cli.request import RunSettings
from rpq.errors import InputError, WhereError
from rpq.kafka.message_reader import MessageColumns, MessageReader
from rpq.readers import ColumnNames, EdgeRules, open_reader, parse_where
from tests.kafka.messages.test_kafka_messages import Sent
from tests.readers.test_readers_nodes import rows_of
from tests.twins import examples

ECS = """
timestamp = "@timestamp"

[[edge]]
label = "spawned"
source = "process.parent.id"
target = "process.id"
when = "event.action = 'start'"
[edge.properties]
user = "user.name"

[[edge]]
label = "connected"
source = "process.id"
target = "destination.ip"

[[edge]]
label_from = "event.action"
source = "host"
target = "process.id"
when = "event.action in ('start', 'end')"
"""
START = {
    "@timestamp": 1,
    "event": {"action": "start"},
    "host": "h",
    "process": {"id": 7, "parent": {"id": "p1"}},
    "user": {"name": "root"},
}
CONNECT = {"@timestamp": 2, "event": {"action": "connect"}, "process": {"id": 7}, "destination": {"ip": "10.0.0.1"}}
NEITHER = {"@timestamp": 3, "event": {"action": "read"}, "process": {"id": 8}}
BAD = {"@timestamp": 4, "event": {"action": "end"}, "process": {"id": 8}}
EDGES = [
    ("p1", "7", "spawned", 1, "root"),
    ("h", "7", "start", 1, None),
    ("7", "10.0.0.1", "connected", 2, None),
]

ROOT = Path(__file__).parents[3]

FLAT = """
[[edge]]
label = "sent"
source = "from"
target = "to"
timestamp = "ts"
"""


def rules(text: str = ECS) -> EdgeRules:
    return EdgeRules.parse(text, file="edges.toml")


def written(tmp_path, records) -> str:
    path = tmp_path / "events.jsonl"
    path.write_text("".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in records))
    return str(path)


def edges_of(batches, *properties: str) -> list[tuple]:
    names = ("source", "target", "label", "timestamp", *properties)
    return [tuple(row[name] for name in names) for batch in batches for row in batch.to_pylist()]


def edges_in(path, text: str = ECS, *, properties: tuple[str, ...] = (), **options) -> list[tuple]:
    columns = ColumnNames(properties=properties)
    opened = open_reader("edges", path, rules=rules(text), columns=columns, **options)
    return edges_of((batch.columns for batch in opened), *properties)


def test_a_record_has_the_edges_that_apply_in_the_order_of_the_file(tmp_path):
    path = written(tmp_path, [START, NEITHER, CONNECT])
    assert edges_in(path, properties=("user",)) == EDGES


def test_with_a_condition_a_missing_end_is_an_error_of_the_line(tmp_path):
    path = written(tmp_path, [START, BAD, CONNECT])
    found = []
    with pytest.raises(InputError, match=r"events.jsonl:2: column 'host': is missing or null; .* \(edge 3\)") as caught:
        for batch in open_reader("edges", path, rules=rules()):
            found += edges_of([batch.columns])
    assert (caught.value.line, found) == (2, [one[:4] for one in EDGES[:2]])
    reader = open_reader("edges", path, rules=rules(), on_error="skip")
    assert edges_of(batch.columns for batch in reader) == [one[:4] for one in EDGES]
    assert reader.rejected == 1


@pytest.mark.parametrize(
    ("change", "column", "message"),
    [
        ({"@timestamp": None}, "@timestamp", r"is missing or null; expected a time \(edge 1 \('spawned'\)\)"),
        ({"@timestamp": "soon"}, "@timestamp", "'soon' is not an integer"),
        ({"process": {"id": {"x": 1}, "parent": {"id": "p"}}}, "process.id", "is missing"),
        ({"process": {"id": 7, "parent": {"id": ""}}}, "process.parent.id", "is missing"),
    ],
)
def test_bad_values_are_placed(tmp_path, change, column, message):
    path = written(tmp_path, [START, {**START, **change}])
    with pytest.raises(InputError, match=":2: .*" + message) as caught:
        edges_in(path)
    assert caught.value.column == column


def test_rows_of_parquet_have_the_same_edges(tmp_path):
    records = [{**dict.fromkeys(("destination", "user", "host")), **one} for one in (START, NEITHER, CONNECT)]
    table = pa.Table.from_pylist(records)
    path = tmp_path / "events.parquet"
    pq.write_table(table, path)
    assert edges_in(path, properties=("user",)) == EDGES
    pq.write_table(pa.Table.from_pylist([START, BAD, CONNECT, BAD], schema=table.schema), path)
    found = []
    with pytest.raises(InputError, match=r"events.parquet: row 1 \(counted from 0\): column 'host': is missing"):
        for batch in open_reader("edges", str(path), rules=rules()):
            found += edges_of([batch.columns])
    assert found == [one[:4] for one in EDGES[:2]]  # without the edge between the bad records
    pq.write_table(pa.Table.from_pylist([NEITHER]), path)
    with pytest.raises(InputError, match="column 'process.parent.id', the source of edge 1 .* is missing; found .*process"):
        edges_in(path)
    pq.write_table(pa.table({"ts": [1], "from": [b"\xff"], "to": ["d"]}), path)
    with pytest.raises(InputError, match=r"'from', the source of edge 1 \('sent'\) in edges.toml, has the type binary"):
        edges_in(path, FLAT)


def test_edges_belong_to_streams(tmp_path):
    text = EDGE + "stream='of'\n" + EDGE.replace("'a'", "'b'") + "op='op'"
    path = written(tmp_path, [{"x": 1, "y": 2, "t": 3, "of": "s"}, {"x": 1, "y": 2, "t": 4, "op": "-"}])
    found = [row for batch in open_reader("edges", path, rules=rules(text)) for row in batch.columns.to_pylist()]
    streams = [(one["label"], one["stream"], one["delete"]) for one in found]
    assert streams == [("a", "s", False), ("b", None, False), ("a", None, False), ("b", None, True)]


def test_fields_in_quotes_may_span_lines(tmp_path):
    (tmp_path / "e.csv").write_text('from,to,ts\n"x\ny",z,1\nx,,2\nu,v,3\n')
    assert edges_in(tmp_path / "e.csv", FLAT) == [("x\ny", "z", "sent", 1), ("u", "v", "sent", 3)]


def test_a_time_of_more_than_63_bits_is_an_error_of_its_record(tmp_path):
    path = str(tmp_path / "events.parquet")
    times = pa.array([1, 2**63 + 5, 3], pa.uint64())
    pq.write_table(pa.table({"ts": times, "from": ["a", "b", "c"], "to": ["d"] * 3}), path)
    reader = open_reader("edges", path, rules=rules(FLAT), on_error="skip")
    assert edges_of(batch.columns for batch in reader) == [("a", "d", "sent", 1), ("c", "d", "sent", 3)]
    assert reader.rejected == 1
    with pytest.raises(InputError, match="'9223372036854775813' does not fit 64 bits"):
        edges_in(path, FLAT)


def test_lines_of_fields_need_a_header_with_all_names(tmp_path):
    text = ECS.replace("@timestamp", "ts").replace("event.action", "what")
    for name in ("process.id", "process.parent.id", "user.name", "destination.ip"):
        text = text.replace(name, name.replace(".", "_"))
    path = tmp_path / "events.csv"
    path.write_text(
        "ts,what,host,process_id,process_parent_id,user_name,destination_ip\n"
        '1,start,h,7,p1,"root",\n3,read,,8,,,\n2,connect,,7,,,10.0.0.1\n'
    )
    assert edges_in(path, text, properties=("user",)) == EDGES
    path.write_text("ts,what,host,process_id,process_parent,user_name,destination_ip\n")
    with pytest.raises(InputError, match="column 'process_parent_id': is missing in the header; it is the source of edge 1"):
        edges_in(path, text)


def test_messages_have_edges_each_with_its_offset():
    reader = MessageReader(MessageColumns.from_names(ColumnNames(properties=("user",))), rules=rules())
    values = [START, NEITHER, BAD, CONNECT]
    tuples = reader.read([Sent(json.dumps(one).encode(), number=number) for number, one in enumerate(values)])
    assert edges_of([tuples.columns], "user") == EDGES
    assert tuples.numbers.tolist() == [0, 0, 3]
    assert list(tuples.bad) == [2]
    assert "column 'host': is missing" in tuples.bad[2].reason
    later = MessageReader(MessageColumns.from_names(ColumnNames()), rules=rules(), layout=reader.layout)
    assert edges_of([later.read([Sent(json.dumps(CONNECT).encode())]).columns]) == [EDGES[2][:4]]


ACCOUNTS = """
timestamp = "ts"

[[edge]]
label = "paid"
source = "payer"
target = "payee"

[[node]]
node = "account"
labels = ["Account"]
labels_from = "kinds"
op = "op"
[node.properties]
risk = "facts.risk"
id = "account_id"

[[node]]
node = "payer"
when = "payer = 'x' and amount > 5"
properties = {big = "amount"}
"""
PAYMENTS = [
    {"ts": 1, "account": "x", "kinds": ["New", "EU;NL"], "facts": {"risk": 4}},
    {"ts": 2, "payer": "x", "payee": "x", "amount": 9, "account": "y"},
    {"ts": 3, "account": "x", "op": "=", "kinds": "A; B", "facts": {"risk": None}, "account_id": "x"},
    {"ts": 4, "payer": "y", "payee": "x", "amount": 9},
]
FACTS = [
    {"node": "x", "labels": ["Account", "New", "EU;NL"], "op": "+", "timestamp": 1, "risk": "4"},
    {"node": "y", "labels": ["Account"], "op": "+", "timestamp": 2},
    {"node": "x", "op": "+", "timestamp": 2, "big": "9"},
    {"source": "x", "target": "x", "label": "paid", "timestamp": 2},
    {"node": "x", "labels": ["Account", "A", "B"], "op": "=", "timestamp": 3, "risk": None},
    {"source": "y", "target": "x", "label": "paid", "timestamp": 4},
]


def facts(batches) -> list[dict]:
    """Return tuples and records, without values that are null because those of other records are not."""
    found = rows_of(batches)
    return [{"op": "+"} | {name: value for name, value in row.items() if name != "labels" or value} for row in found]


@pytest.mark.parametrize("size", [1, 1000])
def test_a_record_has_the_records_of_nodes_that_apply_before_its_edges(tmp_path, size):
    expected = [{"op": "+"} | row for row in FACTS]
    path = written(tmp_path, PAYMENTS * size)
    opened = open_reader("edges", path, rules=rules(ACCOUNTS), where=parse_where("amount > 5 and timestamp <> 4"))
    assert facts(batch.columns for batch in opened) == expected[:-1] * size
    assert (opened.filtered, opened.undecided) == (size, 0)
    opened = open_reader("edges", path, rules=rules(ACCOUNTS), limit=2, drop_self_loops=True)
    assert facts(batch.columns for batch in opened) == [*expected[:3], *expected[4:]]
    reader = MessageReader(MessageColumns.from_names(ColumnNames()), rules=rules(ACCOUNTS))
    tuples = reader.read([Sent(json.dumps(one).encode(), number=number) for number, one in enumerate(PAYMENTS * size)])
    assert facts([tuples.columns]) == expected * size and tuples.numbers[:6].tolist() == [0, 1, 1, 1, 2, 3]


def test_an_engine_runs_over_records_of_nodes(tmp_path):
    engine = Engine(Query("paid/@[:Account and risk is null]", window=Window(size=10, slide=1)))
    opened = open_reader("edges", written(tmp_path, PAYMENTS), rules=rules(ACCOUNTS))
    rows = [row for changes in engine.run(opened) for row in changes.rows()]
    assert [(row.source, row.target, row.timestamp, row.op) for row in rows] == [("x", "x", 3, "+"), ("y", "x", 4, "+")]


def test_records_of_nodes_in_typed_columns_and_fields(tmp_path):
    text = "[[node]]\nnode='n'\nlabels_from='kinds'\ntimestamp='ts'\nproperties={risk='risk'}"
    table = pa.table({"n": ["x", None], "kinds": [["A"], ["B"]], "ts": [1, 2], "risk": [3, 4]})
    pq.write_table(table, tmp_path / "n.parquet")
    typed = open_reader("edges", str(tmp_path / "n.parquet"), rules=rules(text))
    assert rows_of(batch.columns for batch in typed) == [{"node": "x", "labels": ["A"], "timestamp": 1, "risk": 3}]
    (tmp_path / "n.csv").write_text("n,kinds,ts,risk\nx,A;B,1,\n")
    fields = open_reader("edges", str(tmp_path / "n.csv"), rules=rules(text))
    assert rows_of(batch.columns for batch in fields) == [{"node": "x", "labels": ["A", "B"], "timestamp": 1, "risk": None}]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"account_id": "z"}, "column 'account_id': 'z' is not the name of the node 'x'; the id of a node is its name"),
        ({"op": "?"}, r"column 'op': '\?' is not an operation of a node; expected \+, = or - \(node 1\)"),
        ({"kinds": [3]}, r"column 'kinds': '\[3\]' is no list of labels"),
        ({"ts": "soon"}, "column 'ts': 'soon' is not an integer"),
    ],
)
def test_bad_records_of_nodes_are_placed(tmp_path, change, message):
    path = written(tmp_path, [PAYMENTS[0], PAYMENTS[0] | change])
    with pytest.raises(InputError, match=":2: " + message):
        list(open_reader("edges", path, rules=rules(ACCOUNTS)))


def test_edges_have_ids_and_are_deleted(tmp_path):
    text = """
    [[edge]]
    label = "paid"
    source = "from"
    target = "to"
    timestamp = "ts"
    id = "tx"
    delete = "gone"
    """
    records = [
        {"from": "x", "to": "y", "ts": 1, "tx": 5},
        {"ts": 2, "tx": 5, "gone": True},
        {"ts": 3, "tx": 6},
        {"from": "x", "to": "y", "ts": 4},
    ]
    columns = ColumnNames(properties=("edge",))
    reader = open_reader("edges", written(tmp_path, records), rules=rules(text), columns=columns, on_error="skip")
    found = [row for batch in reader for row in batch.columns.to_pylist()]
    assert [(one["source"], one["timestamp"], bool(one.get("delete")), one["edge"]) for one in found] == [
        ("x", 1, False, "5"),
        (None, 2, True, "5"),
    ]
    assert "column 'tx': is empty" in reader.rejections[0]
    with pytest.raises(InputError, match="edge 1 .*, key 'id': is missing"):
        edges_in(written(tmp_path, records), text.replace('id = "tx"', ""), properties=("edge",))


def test_changes_of_tuples_of_openfga_are_edges_and_deletes(tmp_path):
    text = (ROOT / "examples" / "edge_rules" / "openfga.toml").read_text("utf-8")
    tuples = [
        ("user:anne", "member", "group:eng", "WRITE"),
        ("group:eng#member", "viewer", "document:x", "WRITE"),
        ("folder:f", "parent", "document:x", "WRITE"),
        ("user:*", "viewer", "folder:f", "WRITE"),
        ("group:eng#member", "viewer", "document:x", "DELETE"),
        ("user:*", "viewer", "folder:f", "DELETE"),
    ]
    records = [
        {
            "tuple_key": {"user": user, "relation": relation, "object": target},
            "operation": f"TUPLE_OPERATION_{operation}",
            "timestamp": f"2026-01-05T10:00:0{second}.000Z",
        }
        for second, (user, relation, target, operation) in enumerate(tuples)
    ]
    bad = records[0] | {"tuple_key": {"user": "#member", "relation": "viewer", "object": "x"}}
    path = written(tmp_path, [*records, bad])
    reader = open_reader("edges", path, rules=rules(text), time_unit="ms", on_error="skip")
    batches = [batch.columns for batch in reader]
    rows = [row for batch in batches for row in batch.to_pylist() if row["label"]]
    assert [(row["source"], row["label"], row["target"], row["delete"]) for row in rows] == [
        ("user:anne", "member", "group:eng", False),
        ("group:eng", "viewer", "document:x", False),
        ("document:x", "parent", "folder:f", False),
        ("group:eng", "viewer", "document:x", True),
    ]
    nodes = [row for row in rows_of(batches) if "node" in row]
    assert [(row["node"], row["op"]) for row in nodes] == [("folder:f", "+"), ("folder:f", "-")]
    assert "column 'tuple_key.user': is missing or null" in reader.rejections[0]


def test_a_condition_selects_among_edges_and_values_of_records(tmp_path):
    path = written(tmp_path, [START, CONNECT])
    where = parse_where("label <> 'spawned' and event.action = 'start'")
    assert edges_in(path, where=where) == [EDGES[1][:4]]
    with pytest.raises(WhereError, match="unknown column 'hots'; did you mean 'host'"):
        edges_in(path, where=parse_where("hots = 'h'"))


EDGE = "[[edge]]\nlabel='a'\nsource='x'\ntarget='y'\ntimestamp='t'\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = ", "edges.toml: is not TOML: "),
        ("", r"edges.toml: has no edges; expected a table \[\[edge\]\]"),
        ("[[edge]]\nlabel='a'\nsorce='x'", "edge 1 .'a'., key 'sorce': is not a key of an edge; .*did you mean 'source'"),
        ("sorce='x'\n[[edge]]", "the defaults, key 'sorce': is not a key"),
        ("[[edge]]\nlabel='a'\nsource='x'\ntimestamp='t'", "edge 1 .'a'., key 'target': is missing"),
        ("[[edge]]\nlabel=3\nsource='x'", "edge 1, key 'label': is 3; expected text"),
        ("[[edge]]\nsource='x'\ntarget='y'\ntimestamp='t'", "edge 1, key 'label': is missing; expected it, or label_from"),
        (EDGE + "when='a >'", "edge 1 .'a'., key 'when': column 4"),
        (EDGE + "properties={u=3}", "key 'properties': expected a table"),
        (EDGE + "op='o'\ndelete='d'", "key 'op': occurs together with delete"),
        (EDGE + "delete='d'\ndelete_when='d = 1'", "key 'delete': occurs together with delete_when"),
        ("[[node]]\nlabels='A'", "node 1, key 'node': is missing"),
        ("[[node]]\nnode='x'\nsource='y'", "node 1, key 'source': is not a key of a node"),
        ("[[node]]\nnode='x'\nlabels=[1]", "node 1, key 'labels': is .1.; expected a list of texts"),
        ("[[node]]\nnode='x'\nproperties={op='o'}", "node 1, key 'properties': op is no name of a property"),
        ("[[node]]\nnode='x'\nwhen='a >'", "node 1, key 'when': column 4"),
    ],
)
def test_errors_in_rules_name_the_edge_and_the_key(text, message):
    with pytest.raises(InputError, match=message):
        rules(text)


VALUES = st.sampled_from(["a", "b", "", None, 5, 5, 2**60, True, 2.5, [], {"x": 1}])
RECORDS = st.fixed_dictionaries(
    {"t": st.one_of(st.integers(-2, 2), st.integers(-2, 2), st.integers(-2, 2), VALUES)},
    optional={"s": VALUES, "n": st.fixed_dictionaries({}, optional={"s": VALUES, "k": VALUES}), "k": st.sampled_from("xy")},
)
RANDOM = """
timestamp = "t"
[[edge]]
label = "one"
source = "s"
target = "n.s"
[edge.properties]
p = "n.k"
[[edge]]
label_from = "k"
source = "n.s"
target = "s"
when = "k = 'x' and s is not null"
"""


def text_of(value) -> str | None:
    if isinstance(value, (list, dict)) or value in ("", None):
        return None
    return json.dumps(value) if not isinstance(value, str) else value


def expected_edges(record: dict) -> list[tuple] | None:
    """Return the edges of a record, one rule after the other; None for a bad record."""
    nested = record.get("n", {})
    source, target, time = text_of(record.get("s")), text_of(nested.get("s")), record["t"]
    is_time = isinstance(time, int) and not isinstance(time, bool)
    found = []
    if source and target:
        found.append((source, target, "one", time, text_of(nested.get("k")) or _as_text(nested.get("k"))))
    if record.get("k") == "x" and source:
        if not target:
            return None
        found.append((target, source, "x", time, None))
    return found if is_time or not found else None


def _as_text(value) -> str | None:
    return json.dumps(value, separators=(",", ":")) if isinstance(value, (list, dict)) else None


@examples(300)
@given(records=st.lists(RECORDS, min_size=1, max_size=6))
def test_edges_are_those_of_an_evaluation_record_by_record(records):
    data = "".join(json.dumps(one) + "\n" for one in [{"t": 0, "s": "a", "n": {"s": "b"}}, *records]).encode()
    reader = MessageReader(MessageColumns.from_names(ColumnNames(properties=("p",))), rules=rules(RANDOM))
    tuples = reader.read([Sent(line) for line in data.splitlines()])
    wanted = [expected_edges(one) for one in records]
    assert edges_of([tuples.columns], "p")[1:] == [edge for edges in wanted for edge in edges or ()]
    assert sorted(tuples.bad) == [number for number, edges in enumerate(wanted, 1) if edges is None]


def test_where_blocks_are_cut_does_not_matter(tmp_path):
    records = [START if number % 3 else CONNECT if number % 7 else BAD for number in range(300)]
    path = written(tmp_path, [{**one, "@timestamp": number} for number, one in enumerate(records)])
    found = []
    for batch_rows in (20, 1 << 17):
        reader = open_reader("edges", path, rules=rules(), on_error="skip", batch_rows=batch_rows)
        found.append((edges_of(batch.columns for batch in reader), reader.rejected))
    assert found[0] == found[1]
    assert found[0][1] == len([one for one in records if one is BAD])


def test_a_name_that_is_nearly_one_of_the_records_is_warned_of(tmp_path):
    path = written(tmp_path, [START, CONNECT])
    text = ECS.replace("process.parent.id", "process.parrent.id")
    reader = open_reader("edges", path, rules=rules(text), on_error="skip")
    list(reader)
    (warning,) = reader.warnings
    assert warning.endswith("the source of edge 1 ('spawned') in edges.toml; did you mean 'process.parent.id'?")
    reader = open_reader("edges", written(tmp_path, [CONNECT]), rules=rules())
    list(reader)
    assert reader.warnings == []


METADATA = """
[[edge]]
label = "spawned"
source = "@key.parent"
target = "@header.child"
timestamp = "@time"
when = "`@header.kind` = 'start' and pid > 3"
[edge.properties]
host = "@header.host"

[[edge]]
label_from = "@header.kind"
source = "@key.parent"
target = "pid"
timestamp = "at"
stream = "@topic"
"""
BESIDE_NAMES = ("key.parent", "header.child", "header.kind", "header.host", "topic", "time")


@st.composite
def messages_with_metadata(draw) -> tuple[Sent, dict]:
    """A message, and the record in which its metadata are values of their own, in microseconds."""
    kind, parent = draw(st.sampled_from(["start", "stop", "", None])), draw(st.sampled_from(["p", 7, "", None]))
    pid, child = draw(st.sampled_from([2, 5, None])), draw(st.sampled_from(["c", None]))
    value = {"at": draw(st.integers(0, 9)), **({} if pid is None else {"pid": pid})}
    headers = [(name, text.encode()) for name, text in (("kind", kind), ("child", child), ("host", "h")) if text is not None]
    at = draw(st.integers(0, 9))
    of_message = {"kind": kind, "child": child, "host": "h", "topic": "t", "time": at * 1000, "parent": parent}
    sent = Sent(json.dumps(value).encode(), json.dumps({"parent": parent}).encode(), at, tuple(headers))
    return sent, {**value, **of_message}


@examples(100)
@given(st.lists(messages_with_metadata(), max_size=12), st.integers(1, 5))
def test_metadata_of_messages_are_values_of_records(drawn, size):
    first = Sent(b'{"at": 0, "pid": 9}', b'{"parent": "p"}', 0, (("kind", b"start"), ("child", b"c"), ("host", b"h")))
    in_values = {"pid": 9, "at": 0, "kind": "start", "child": "c", "host": "h", "topic": "t", "time": 0, "parent": "p"}
    drawn = [(first, in_values), *drawn]
    text = METADATA
    for name in BESIDE_NAMES:
        text = text.replace(f"`@{name}`", name.rpartition(".")[2]).replace(f"@{name}", name.rpartition(".")[2])
    assert "@" not in text
    names = ColumnNames(properties=("host",))
    plain = MessageReader(MessageColumns.from_names(names, "us"), rules=rules(text))
    wanted = plain.read([Sent(json.dumps(record).encode()) for _, record in drawn])
    reader = MessageReader(MessageColumns.from_names(names, "us"), rules=rules(METADATA))
    rows, bad = [], []
    for start in range(0, len(drawn), size):
        found = reader.read([sent for sent, _ in drawn[start : start + size]])
        rows += [] if found.columns is None else found.columns.to_pylist()
        bad += [start + number for number in found.bad]
    assert bad == sorted(wanted.bad)
    assert [dict(row) for row in rows] == [dict(row) for row in wanted.columns.to_pylist()]


def test_a_record_of_metadata_alone_needs_nothing_in_its_value():
    text = EDGE.replace("'x'", "'@key'").replace("'y'", "'@header.to'").replace("'t'", "'@time'")
    columns = MessageColumns.from_names(ColumnNames(), rules=rules(text))
    assert columns.unit == "ms"
    sent = [Sent(b"{}", b"k", 7, (("to", b"z"),)), Sent(b'{"more": 1}', b"k", 8), Sent(b"{}", b"\xff", 9, (("to", b"z"),))]
    found = MessageReader(columns, rules=rules(text)).read(sent)
    assert edges_of([found.columns]) == [("k", "z", "a", 7)]
    assert found.bad[2].reason == "column '@key': is not UTF-8 text"


@pytest.mark.parametrize("form", ["debezium", "debezium-rows"])
def test_changes_of_rows_have_the_metadata_of_their_messages(form):
    text = "[[edge]]\nlabel='l'\nsource='@header.tenant'\ntarget='to'\nid='@key'\ntimestamp='@time'\n"
    read = replace(rules(text), changes=form)
    columns = MessageColumns.from_names(ColumnNames(properties=("edge",)), "ms", rules=read)
    rows = [{"to": "x"}, {"to": "y"}]
    values = [{"op": "c", "after": rows[0], "ts_ms": 1}, {"op": "u", "before": rows[0], "after": rows[1], "ts_ms": 2}]
    values.append({"op": "d", "before": rows[1], "after": None, "ts_ms": 3})
    if form == "debezium-rows":
        values = [{**rows[0], "__op": "c"}, {**rows[1], "__op": "u"}, {**rows[1], "__deleted": "true", "__ts_ms": 3}]
    sent = [
        Sent(json.dumps(value).encode(), key, at, (("tenant", b"a"),))
        for key, at, value in zip((b"k", b"k", b"k"), (5, 6, 7), values, strict=True)
    ]
    found = MessageReader(columns, rules=read).read(sent)
    assert not found.bad
    inserts = [row for row in found.columns.to_pylist() if not row["delete"]]
    assert [(row["source"], row["target"], row["timestamp"], row["edge"]) for row in inserts] == [
        ("a", "x", 5, "k"),
        ("a", "y", 6, "k"),
    ]
    (last,) = [row for row in found.columns.to_pylist() if row["delete"]]
    assert (last["edge"], last["timestamp"]) == ("k", 3)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (("'x'", "'@kye'"), "edge 1 .'a'., key 'source': '@kye' is not metadata of a message.*did you mean '@key'"),
        (("'y'", "'@time'"), 'key .target.: a time is a timestamp; expected timestamp = "@time"'),
        (("label", "when=\"`@haeder.kind` = 'x'\"\nlabel"), "key 'when': '@haeder.kind' is not metadata of a message"),
    ],
)
def test_topics_have_rules_whose_metadata_are_known(tmp_path, changed, message):
    (tmp_path / "edges.toml").write_text(EDGE.replace("'t'", "'@time'"))
    settings = RunSettings(inputs=("kafka://localhost/t",), format="jsonl", edges_from=str(tmp_path / "edges.toml"))
    topics = topic_input_of(settings, ())
    assert topics.rules.rules == rules(EDGE.replace("'t'", "'@time'")).rules
    assert topics.columns.unit == "ms"
    (tmp_path / "edges.toml").write_text(EDGE.replace(*changed))
    with pytest.raises(InputError, match=message):
        topic_input_of(settings, ())


def test_the_first_record_with_a_time_decides_whether_it_has_an_edge_or_not(tmp_path):
    path = written(tmp_path, [{"@timestamp": "2024-05-01T00:00:00Z"}, {**CONNECT, "@timestamp": "2024-05-01T00:00:01Z"}])
    reader = open_reader("edges", path, rules=rules(), time_unit="s")
    assert (reader.time_unit, edges_of(batch.columns for batch in reader)) == (
        "s",
        [("7", "10.0.0.1", "connected", 1714521601)],
    )
    path = written(tmp_path, [{"@timestamp": "2024-05-01T00:00:00Z"}, CONNECT])
    with pytest.raises(InputError, match="2: column '@timestamp': '2' is not a time"):
        edges_in(path)
