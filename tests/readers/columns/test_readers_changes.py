"""Changes of a table as Debezium writes them (`--changes`): in every form they are the edges of the rows.

semantics.md S13
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpq.errors import InputError
from rpq.kafka.message_reader import MessageColumns, MessageReader
from rpq.readers import ColumnNames, EdgeRules, open_reader
from rpq.readers.edges import read_tuples
from rpq.readers.text.changes import SOURCE_TIME
from tests.kafka.messages.test_kafka_messages import Sent
from tests.readers.test_readers_nodes import rows_of
from tests.twins import examples

NAMES = "source=payer,target=payee"


def column(field, type_, **further):
    return {"type": type_, "optional": True, "field": field, **further}


DECIMAL = {"name": "org.apache.kafka.connect.data.Decimal", "version": 1, "parameters": {"scale": "2"}}
COLUMNS = [
    column("id", "int32"),
    column("payer", "string"),
    column("payee", "string"),
    column("amount", "bytes", **DECIMAL),
    column("at", "int64", name="io.debezium.time.Timestamp", version=1),
]
ROW = {"type": "struct", "fields": COLUMNS, "optional": True, "name": "bank.public.transfers.Value"}
SCHEMA = {"type": "struct", "fields": [{**ROW, "field": "before"}, {**ROW, "field": "after"}], "name": "Envelope"}


def row(number, payer, payee, at=1):
    return {"id": number, "payer": payer, "payee": payee, "amount": "A+g=", "at": at}


def envelope(op, before, after, time):
    source = {"version": "3.0.5.Final", "connector": "postgresql", "ts_ms": time, "table": "transfers", "lsn": 24023128}
    return {"before": before, "after": after, "source": source, "op": op, "ts_ms": time + 1, "transaction": None}


def reading(columns=NAMES, *, form="debezium", ids=False, properties=(), file=None):
    further = (*properties, *(("edge",) if ids else ()))
    if file is not None:
        return replace(EdgeRules.parse(file, file="e.toml"), changes=form), further
    names = ColumnNames.parse(columns, label="paid", properties=further)
    return EdgeRules.of_columns(names, changes=form, timestamp=SOURCE_TIME), further


def edges(changes, columns=NAMES, *, unit="ms", **options):
    """Read changes as lines and as messages, and compare the two; return the edges."""
    rules, properties = reading(columns, **options)
    lines = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in changes]
    names = ColumnNames(properties=properties)
    batches, _ = read_tuples(b"\n".join(lines) + b"\n", name="t", only_json=True, time_unit=unit, columns=names, rules=rules)
    found = [one for batch in batches for one in batch.to_pylist()]
    reader = MessageReader(MessageColumns.from_names(names, unit), rules=rules)
    tuples = reader.read([Sent(None if line == b"null" else line) for line in lines])
    assert not tuples.bad
    sent = [] if tuples.columns is None else tuples.columns.to_pylist()
    assert [{"delete": False, **one} for one in sent] == [{"delete": False, **one} for one in found]
    return found


def brief(found):
    sign = {True: "-", False: "+"}
    return [
        tuple(
            sign[one[name]] if name == "delete" else one[name]
            for name in ("delete", "source", "target", "timestamp", "edge")
            if name in one
        )
        for one in ({"delete": False, **one} for one in found)
    ]


CHANGES = [
    envelope("r", None, row(1, "ann", "bob", at=5), 10),
    envelope("c", None, row(2, "bob", "cid", at=6), 11),
    {"op": "m", "ts_ms": 12, "source": {"ts_ms": 12}, "message": {"prefix": "audit", "content": "Ymfy"}},
    envelope("u", row(2, "bob", "cid", at=6), row(2, "bob", "dan", at=6), 13),
    envelope("d", row(1, "ann", "bob", at=5), None, 14),
    b"null",
]


@pytest.mark.parametrize("has_schema", [False, True])
def test_envelopes_of_the_documentation(has_schema):
    changes = [{"schema": SCHEMA, "payload": one} if has_schema and isinstance(one, dict) else one for one in CHANGES]
    assert brief(edges(changes)) == [
        ("+", "ann", "bob", 10),
        ("+", "bob", "cid", 11),
        ("-", "bob", "cid", 13),
        ("+", "bob", "dan", 13),
        ("-", "ann", "bob", 14),
    ]
    by_id = [
        ("+", "ann", "bob", 5, "1"),
        ("+", "bob", "cid", 6, "2"),
        ("+", "bob", "dan", 6, "2"),
        ("-", "ann", "bob", 14, "1"),
    ]
    found = edges(changes, f"{NAMES},timestamp=at,edge=id", ids=True)
    assert brief(found) == by_id
    assert brief(edges([b"null", *changes])) == brief(edges(changes))
    amounts = {one["amount"] for one in edges(changes, properties=("amount",))}
    assert amounts == {"10.00" if has_schema else "A+g="}


def test_numbers_of_a_schema_have_its_unit():
    changes = [{"schema": SCHEMA, "payload": one} for one in CHANGES[:2]]
    assert [one["timestamp"] for one in edges(changes, f"{NAMES},timestamp=at", unit="us")] == [5000, 6000]
    with pytest.raises(InputError, match=r"t:1: column 'at': is a number without a unit.*--time-unit"):
        edges(CHANGES[:2], f"{NAMES},timestamp=at", unit=None)


@pytest.mark.parametrize("odd", ["no time", "2024-05-01", 10**25, 9 * 10**18])
@pytest.mark.parametrize("place", ["the row", "the change"])
def test_a_time_that_is_none_spoils_no_other_change(tmp_path, place, odd):
    columns = f"{NAMES},timestamp=at" if place == "the row" else NAMES
    bad = envelope("c", None, row(4, "x", "y", at=odd if place == "the row" else 7), 12)
    if place == "the change":
        bad["source"]["ts_ms"] = odd
    changes = [{"schema": SCHEMA, "payload": one} for one in (*CHANGES[:2], bad, CHANGES[3])]
    path = tmp_path / "changes.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in changes))
    reader = open_reader("edges", path, rules=reading(columns)[0], on_error="skip", time_unit="us")
    found = [one for batch in reader for one in batch.columns.to_pylist()]
    assert brief(found) == brief(edges([changes[place] for place in (0, 1, 3)], columns, unit="us"))
    assert reader.rejected == 1
    with pytest.raises(InputError, match="t:3: "):
        edges(changes, columns, unit="us")


def test_each_number_without_a_unit_is_refused(tmp_path):
    path = tmp_path / "changes.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in (*CHANGES[:2], CHANGES[3])))
    reader = open_reader("edges", path, rules=reading(f"{NAMES},timestamp=at")[0], on_error="skip")
    assert [batch.columns.num_rows for batch in reader] == []
    assert reader.rejected == 3


def test_unwrapped_rows_and_their_tombstones():
    def unwrapped(op, values, time):
        return {**values, "__op": op, "__source_ts_ms": time, "__deleted": str(op == "d").lower()}

    changes = [
        unwrapped("c", row(1, "ann", "bob"), 10),
        unwrapped("u", row(1, "ann", "cid"), 11),
        unwrapped("d", row(1, "ann", "cid"), 12),
    ]
    by_id = [("+", "ann", "bob", 10, "1"), ("+", "ann", "cid", 11, "1"), ("-", "ann", "cid", 12, "1")]
    assert brief(edges(changes, f"{NAMES},edge=id", form="debezium-rows", ids=True)) == by_id
    with_schema = [{"schema": ROW, "payload": one} for one in changes]
    assert brief(edges(with_schema, f"{NAMES},edge=id", form="debezium-rows", ids=True)) == by_id
    assert brief(edges([changes[0], changes[2]], form="debezium-rows")) == [("+", "ann", "bob", 10), ("-", "ann", "cid", 12)]
    with pytest.raises(InputError, match=r"t:2: column '__op': is u, an update.*expected --edges id"):
        edges(changes, form="debezium-rows")
    rules, properties = reading(f"{NAMES},edge=id", form="debezium-rows", ids=True)
    reader = MessageReader(MessageColumns.from_names(ColumnNames(properties=properties), "ms"), rules=rules)
    tuples = reader.read([Sent(json.dumps(changes[0]).encode()), Sent(None, b'{"schema": {}, "payload": {"id": 1}}')])
    assert not tuples.bad
    assert [(one["edge"], one["delete"]) for one in tuples.columns.to_pylist()] == [("1", False), ("1", True)]


TWO = """
source = "payer"
target = "payee"
timestamp = "__source_ts_ms"
id = "id"
[[edge]]
label = "paid"
[[edge]]
label = "large"
when = "amount > 5"
"""


def test_several_edges_of_a_row_follow_it():
    one, other = ({**row(1, "ann", "bob"), "amount": amount} for amount in (9, 3))
    changes = [envelope("c", None, one, 10), envelope("u", None, other, 11), envelope("d", {"id": 1}, None, 12)]
    found = edges(changes, file=TWO, ids=True)
    assert [("+-"[one["delete"]], one["label"], one["edge"]) for one in found] == [
        ("+", "paid", "1#1"),
        ("+", "large", "1#2"),
        ("-", "large", "1#2"),
        ("+", "paid", "1#1"),
        ("-", "paid", "1#1"),
        ("-", "large", "1#2"),
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (envelope("u", None, row(1, "a", "b"), 1), "column 'before': lacks the row before .*REPLICA IDENTITY FULL"),
        (envelope("d", {"id": 1}, None, 1), "column 'before': lacks the row before the change.*--edges id"),
        (envelope("t", None, None, 1), "column 'op': is t, a TRUNCATE"),
        (envelope("x", None, row(1, "a", "b"), 1), "column 'op': is not an operation of Debezium"),
        (envelope("c", None, row(1, None, "b"), 1), "column 'payer': is missing or null"),
        (envelope("c", None, row(1, "a", None), 1), "column 'payee': is missing or null.*--edges-from"),
        (envelope("c", None, row(1, "__debezium_unavailable_value", "b"), 1), "column 'payer': .* did not send it"),
        ({**row(1, "a", "b"), "__deleted": "true"}, "column 'op': is missing.*--changes debezium-rows"),
        (envelope("c", None, {"from": "a", "payee": "b"}, 1), "column 'payer': is not a column of the row, which has from"),
    ],
)
def test_changes_that_are_not_known_are_refused(change, message):
    with pytest.raises(InputError, match="t:1: " + message):
        edges([change])


def test_a_first_change_that_is_bad_is_refused_also_with_ids():
    with pytest.raises(InputError, match="t:1: column 'payee': is missing or null"):
        edges([envelope("c", None, row(1, "a", None), 1)], f"{NAMES},edge=id", ids=True)


def test_without_the_option_an_envelope_is_refused():
    for change in (CHANGES[0], {"schema": SCHEMA, "payload": CHANGES[0]}):
        with pytest.raises(InputError, match="--changes debezium reads"):
            read_tuples(json.dumps(change).encode(), name="t", only_json=True, columns=ColumnNames())


@examples(100)
@given(
    steps=st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from("abc"), st.sampled_from("abc"), st.booleans(), st.booleans()),
        min_size=1,
        max_size=12,
    )
)
def test_the_graph_of_random_changes_is_the_table(steps):
    table, changes = {}, []
    for time, (number, payer, payee, is_delete, has_schema) in enumerate(steps, 1):
        before, after = table.get(number), None if is_delete else row(number, payer, payee)
        if before is None and after is None:
            continue
        op = "d" if after is None else "c" if before is None else "u"
        one = envelope(op, before, after, time)
        changes.append({"schema": SCHEMA, "payload": one} if has_schema else one)
        table |= {number: after}
    changes.append(b"null")
    held = {}
    for one in edges(changes, f"{NAMES},edge=id", ids=True):
        held[one["edge"]] = None if one.get("delete") else (one["source"], one["target"])
    assert held == {str(number): at and (at["payer"], at["payee"]) for number, at in table.items()}
    graph = []
    for one in edges(changes):
        edge = (one["source"], one["target"])
        graph.remove(edge) if one.get("delete") else graph.append(edge)
    assert sorted(graph) == sorted((at["payer"], at["payee"]) for at in table.values() if at)


ONE = """
source = "payer"
target = "payee"
timestamp = "__source_ts_ms"
id = "id"
[[edge]]
label = "paid"
"""


@pytest.mark.parametrize("ids", [False, True])
@pytest.mark.parametrize("bad", [row(1, "ann", None), row(1, "ann", "__debezium_unavailable_value")])
def test_a_bad_row_after_an_update_leaves_none_of_the_edge_before_it(tmp_path, ids, bad):
    changes = [
        envelope("c", None, row(1, "ann", "bob"), 10),
        envelope("u", row(1, "ann", "bob"), bad, 11),
        envelope("c", None, row(2, "ann", "cho"), 12),
    ]
    path = tmp_path / "changes.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in changes))
    rules, properties = reading(f"{NAMES},edge=id" if ids else NAMES, ids=ids)
    names = ColumnNames(properties=properties)
    reader = open_reader("edges", path, rules=rules, columns=names, on_error="skip", time_unit="ms")
    found = [(one["delete"], one["timestamp"]) for batch in reader for one in batch.columns.to_pylist()]
    assert (found, reader.rejected) == ([(False, 10), (True, 11), (False, 12)], 1)
    messages = MessageReader(MessageColumns.from_names(names, "ms"), rules=rules)
    tuples = messages.read([Sent(json.dumps(one).encode(), number=number) for number, one in enumerate(changes)])
    assert tuples.columns.column("delete").to_pylist() == [False, True, False]
    assert [*tuples.bad] == [1] and tuples.numbers.tolist() == [0, 1, 2]


@pytest.mark.parametrize("ids", [False, True])
def test_an_end_may_become_null_and_a_value_again_by_a_rule(ids):
    with pytest.raises(InputError, match="column 'payee': is missing or null.*--edges-from"):
        edges([envelope("u", row(1, "ann", "bob"), row(1, "ann", None), 11)])
    changes = [
        envelope("c", None, row(1, "ann", "bob"), 10),
        envelope("u", row(1, "ann", "bob"), row(1, "ann", None), 11),
        envelope("u", row(1, "ann", None), row(1, "ann", "cho"), 12),
    ]
    found = [(one.get("delete", False), one["timestamp"]) for one in edges(changes, file=ONE, ids=ids)]
    assert [one for one in found if one != (True, 12)] == [(False, 10), (True, 11), (False, 12)]


NODES = """
timestamp = "__source_ts_ms"
[[edge]]
label = "paid"
source = "payer"
target = "payee"
when = "__table = 'transfers'"
[[node]]
node = "id"
when = "__table = 'accounts'"
properties = {risk = "risk"}
"""


@pytest.mark.parametrize("form", ["debezium", "debezium-rows"])
def test_rows_of_accounts_are_nodes_beside_the_edges_of_transfers(form):
    def change(op, table, time, before, after):
        source = {"table": table, "ts_ms": time}
        if form == "debezium":
            return {"op": op, "before": before, "after": after, "source": source, "ts_ms": time}
        deleted = str(op == "d").lower()
        return {**(after or before), "__op": op, "__table": table, "__source_ts_ms": time, "__deleted": deleted}

    paid = {"payer": "x", "payee": "y"}
    changes = [
        change("c", "accounts", 1, None, {"id": "x", "risk": 3}),
        change("r", "accounts", 1, None, {"id": "y", "risk": None}),
        change("c", "transfers", 2, None, paid),
        change("u", "accounts", 3, None, {"id": "x", "risk": 4}),  # without REPLICA IDENTITY FULL
        change("d", "transfers", 4, paid, None),
        change("d", "accounts", 5, {"id": "y"}, None),
    ]
    rules, _ = reading(form=form, file=NODES)
    reader = MessageReader(MessageColumns.from_names(ColumnNames(), "ms"), rules=rules)
    found = reader.read([Sent(json.dumps(one).encode()) for one in changes])
    assert not found.bad and found.numbers.tolist() == [0, 1, 2, 3, 4, 5]
    nodes = [(row["op"], row["node"], row["timestamp"], row["risk"]) for row in rows_of([found.columns]) if "node" in row]
    assert nodes == [("=", "x", 1, "3"), ("=", "y", 1, None), ("=", "x", 3, "4"), ("-", "y", 5, None)]
    paths = [(row["delete"], row["timestamp"]) for row in rows_of([found.columns]) if "source" in row]
    assert paths == [(False, 2), (True, 4)]


def test_an_update_that_renames_a_node_takes_the_old_one_away():
    rules, _ = reading(file=NODES)
    source = {"table": "accounts", "ts_ms": 2}
    change = {"op": "u", "before": {"id": "x", "risk": 3}, "after": {"id": "z", "risk": 3}, "source": source}
    [batch], _ = read_tuples(json.dumps(change).encode(), name="t", only_json=True, time_unit="ms", rules=rules)
    assert [(row["op"], row["node"]) for row in rows_of([batch])] == [("-", "x"), ("=", "z")]
