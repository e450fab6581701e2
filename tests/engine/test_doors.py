"""Deletes and filters at every door: whichever way tuples come in, they mean the same.

semantics.md S5
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet as pq

from rpq import Engine, Query, Window
from rpq.errors import InputError
from rpq.kafka.message_reader import MessageColumns, MessageReader
from rpq.readers import ColumnNames, WhereError, open_reader, parse_where
from rpq.readers.rdf.rdf_format import RdfReading
from rpq.serve.feeds import FileFeed, Playback
from rpq.serve.requests import read_tuple_body
from rpq.spark.batch.spark_inputs import LineReader, RowReader
from rpq.spark.batch.splits import BAD, EDGE, LineOptions
from rpq.spark.envelopes import engine_columns, pack, unpack
from rpq.spark.errors import PipelineError
from rpq.spark.stream.topics import ConnectorMessage, MessageTuples, layout_of_messages
from tests.services.served import Served

Row = dict[str, Any]
_NUMBERS = ("timestamp", "amount")


@dataclass(frozen=True, kw_only=True)
class Door:
    """A way for rows to become batches of tuples, and the columns that it has besides those of a tuple."""

    open: Callable[..., Iterable[Any]]  # (rows, folder, *, where, columns)
    filters: bool = False
    maps: bool = False  # columns have other names if one says so
    null_is_no_delete: bool = False  # as a missing key of JSON


def names_in(rows: list[Row]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def typed(rows: list[Row]) -> pa.Table:
    types = {name: pa.int64() for name in _NUMBERS}
    columns = {name: [row.get(name) for row in rows] for name in names_in(rows)}
    return pa.table({name: pa.array(values, types.get(name)) for name, values in columns.items()})


def as_csv(rows: list[Row]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, names_in(rows), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def as_json_lines(rows: list[Row]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def as_stream(rows: list[Row]) -> bytes:
    table, sink = typed(rows), io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue()


def as_feather(rows: list[Row]) -> bytes:
    table, sink = typed(rows), io.BytesIO()
    with pa.ipc.new_file(sink, table.schema) as file:
        file.write_table(table)
    return sink.getvalue()


def as_parquet(rows: list[Row]) -> bytes:
    sink = io.BytesIO()
    pq.write_table(typed(rows), sink)
    return sink.getvalue()


def as_quads(rows: list[Row]) -> bytes:
    """Rows as statements, each in a graph that says whether it is deleted, and when."""
    iris = [[f"<urn:{row[name]}>" for name in ("source", "label", "target")] for row in rows]
    graphs = [f"<urn:rpq:{'delete' if row.get('delete') else 'insert'}:{row['timestamp']}>" for row in rows]
    return "".join(f"{' '.join(terms)} {graph} .\n" for terms, graph in zip(iris, graphs, strict=True)).encode()


def pushed(rows: list[Row], folder: Path, **_: Any) -> Iterable[Any]:
    return [typed(rows)]


def pushed_lists(rows: list[Row], folder: Path, **_: Any) -> Iterable[Any]:
    return [{name: [row.get(name) for row in rows] for name in names_in(rows)}]


def file_door(name: str, write: Callable[[list[Row]], bytes], **options: Any) -> Callable[..., Iterable[Any]]:
    def read(rows: list[Row], folder: Path, *, where: str | None = None, columns: str | None = None) -> Iterable[Any]:
        path = folder / name
        path.write_bytes(write(rows))
        names = {"columns": ColumnNames.parse(columns)} if columns else {}
        reader = open_reader(
            "edges" if not options else "rdf", path, where=parse_where(where) if where else None, **names, **options
        )
        for batch in reader:
            yield batch.columns

    return read


def http_door(type_: str, write: Callable[[list[Row]], bytes]) -> Callable[..., Iterable[Any]]:
    def read(rows: list[Row], folder: Path, **_: Any) -> Iterable[Any]:
        batch = read_tuple_body(write(rows), type_, stream=None, time_unit=None).columns
        return [] if batch is None else [batch]

    return read


def messages_of(write: Callable[[list[Row]], bytes], rows: list[Row]) -> list[ConnectorMessage]:
    values = write(rows).splitlines()
    return [ConnectorMessage("t", 0, offset, value) for offset, value in enumerate(values)]


def as_fields(rows: list[Row]) -> bytes:
    """Lines of CSV without a header, as the values of messages have none."""
    return as_csv(rows).partition(b"\n")[2]


def first_bad(bad: dict[int, Any]) -> InputError:
    one = bad[min(bad)]
    return InputError(f"{one.place}: {one.reason}")


def kafka_door(write: Callable[[list[Row]], bytes], by_place: bool = False) -> Callable[..., Iterable[Any]]:
    def read(rows: list[Row], folder: Path, *, where: str | None = None, columns: str | None = None) -> Iterable[Any]:
        if by_place:
            columns = ",".join(f"{name}={place}" for place, name in enumerate(rows[0], 1))
        names = MessageColumns.from_names(ColumnNames.parse(columns))
        found = MessageReader(names, where=parse_where(where) if where else None).read(messages_of(write, rows))
        if found.bad:
            raise first_bad(found.bad)
        return [] if found.columns is None else [found.columns]

    return read


def spark_files(name: str, write: Callable[[list[Row]], bytes]) -> Callable[..., Iterable[Any]]:
    def read(rows: list[Row], folder: Path, *, columns: str | None = None, **_: Any) -> Iterable[Any]:
        path = folder / name
        path.write_bytes(write(rows))
        if name.endswith(".parquet"):
            list(open_reader("edges", path, on_error="skip"))  # as `prepare` looks at the columns
            read = pq.read_table(path)
            places = {"file": [str(path)] * len(read), "row": list(range(len(read)))}
            table = pa.table({**{one: read[one] for one in read.column_names}, **places}).combine_chunks()
            staged = pa.Table.from_batches(RowReader("string", {str(path): 0})(table.to_batches()))
        else:
            lines = LineOptions(format="edges", names=ColumnNames.parse(columns) if columns else None)
            texts = path.read_bytes().removesuffix(b"\n").split(b"\n")
            of_file = {"file_path": [str(path)] * len(texts), "file_block_start": [0] * len(texts)}
            table = pa.table({"value": texts, **of_file, "is_last": [True] * len(texts)})
            reader = LineReader(lines, {str(path): (0, b"".join(text + b"\n" for text in texts[:2]))})
            staged = pa.Table.from_batches(reader(table.to_batches()))
        bad = [row for row in staged.to_pylist() if row["kind"] == BAD]
        if bad:
            place = f"row {bad[0]['line']}" if name.endswith(".parquet") else bad[0]["line"]
            raise InputError(f"{path}:{place}: column {bad[0]['field']!r}: {bad[0]['message']}")
        edges = staged.filter(pa.compute.equal(staged["kind"], EDGE))
        return packed(edges.select(["source", "target", "label", "timestamp", "op"]))

    return read


def packed(edges: pa.Table) -> Iterable[Any]:
    """Tuples as they come to a share."""
    envelopes = [envelope["edges"][0].as_py() for envelope in pack(edges.to_batches())]
    return [engine_columns(unpack(envelopes).table)]


def spark_topics(rows: list[Row], folder: Path, *, columns: str | None = None, **_: Any) -> Iterable[Any]:
    names = MessageColumns.from_names(ColumnNames.parse(columns))
    values = as_json_lines(rows).splitlines()
    layout = layout_of_messages("t", messages_of(as_json_lines, rows), names)
    batch = pa.record_batch(
        {
            "topic": ["t"] * len(rows),
            "partition": pa.array([0] * len(rows), pa.int32()),
            "offset": pa.array(range(len(rows)), pa.int64()),
            "value": pa.array(values, pa.binary()),
        }
    )
    made = pa.Table.from_batches(MessageTuples(names, {"t": layout}, integers=False, stops=True)(iter([batch])))
    return packed(made.drop_columns(["sequence"]))


CSV = "text/csv"
DOORS = {
    "push of a table": Door(open=pushed),
    "push of lists": Door(open=pushed_lists),
    "CSV": Door(open=file_door("edges.csv", as_csv), filters=True, maps=True),
    "JSON lines": Door(open=file_door("edges.jsonl", as_json_lines), filters=True, maps=True, null_is_no_delete=True),
    "Parquet": Door(open=file_door("edges.parquet", as_parquet), filters=True, maps=True),
    "Arrow": Door(open=file_door("edges.arrow", as_feather), filters=True, maps=True),
    "HTTP, CSV": Door(open=http_door(CSV, as_csv)),
    "HTTP, JSON lines": Door(open=http_door("application/x-ndjson", as_json_lines), null_is_no_delete=True),
    "HTTP, Arrow": Door(open=http_door("application/vnd.apache.arrow.stream", as_stream)),
    "Kafka, JSON": Door(open=kafka_door(as_json_lines), filters=True, maps=True, null_is_no_delete=True),
    "Kafka, CSV": Door(open=kafka_door(as_fields, by_place=True)),
    "Spark, CSV": Door(open=spark_files("edges.csv", as_csv), maps=True),
    "Spark, Parquet": Door(open=spark_files("edges.parquet", as_parquet)),
    "Spark, Kafka": Door(open=spark_topics, maps=True, null_is_no_delete=True),
}
RDF = Door(open=file_door("edges.nq", as_quads, rdf=RdfReading(time="graph-name", graph="event")), filters=True)


def edge(source: str, target: str, timestamp: int, **fields: Any) -> Row:
    return {"source": source, "target": target, "label": "a", "timestamp": timestamp, **fields}


def outcome(batches: Iterable[Any], expression: str = "a") -> list[tuple[Any, ...]]:
    """The rows of an engine to which the batches are pushed."""
    engine = Engine(Query(expression, window=Window(size=100, slide=10)))
    found = []
    for batch in batches:
        rows = engine.push(batch).to_arrow().to_pylist()
        found += [(row["op"], row["source"], row["target"], row["timestamp"]) for row in rows]
    return found


INSERTED = [("+", "x", "y", 1), ("+", "x", "z", 2)]
TAKEN_BACK = [*INSERTED, ("-", "x", "y", 3)]


def three(*values: Any, name: str = "delete") -> list[Row]:
    """Two edges, then the first again; each has one of these values."""
    edges = (("x", "y", 1), ("x", "z", 2), ("x", "y", 3))
    return [edge(*one, **{name: value}) for one, value in zip(edges, values, strict=True)]


every_door = pytest.mark.parametrize("door", DOORS.values(), ids=DOORS.keys())
filtering = {name: door for name, door in DOORS.items() if door.filters}
every_filter = pytest.mark.parametrize("door", filtering.values(), ids=filtering.keys())


@every_door
@pytest.mark.parametrize(
    "rows",
    [three(False, False, True), three("false", " 0", "TRUE"), three("+", "+", "-", name="op")],
    ids=["booleans", "text", "op"],
)
def test_a_column_takes_edges_back(tmp_path, door, rows):
    assert outcome(door.open(rows, tmp_path)) == TAKEN_BACK


@every_door
def test_what_is_neither_true_nor_false_is_refused(tmp_path, door):
    with pytest.raises(InputError, match="delete") as caught:
        outcome(door.open(three("false", "true", "no"), tmp_path))
    assert re.search("row 2|:4|:3|offset 2|line 3", str(caught.value)), caught.value


@every_door
def test_null_is_refused_but_where_a_key_may_be_missing(tmp_path, door):
    rows = three("false", "false", None)
    if door.null_is_no_delete:
        assert outcome(door.open(rows, tmp_path)) == INSERTED
        return
    with pytest.raises(InputError, match="delete"):
        outcome(door.open(rows, tmp_path))


@every_door
def test_op_and_delete_at_once_are_refused(tmp_path, door):
    rows = [{**row, "op": "+"} for row in three(False, False, False)]
    with pytest.raises((InputError, PipelineError), match="'delete'.*'op'|op.*delete.*(say the same|have the same meaning)"):
        outcome(door.open(rows, tmp_path))


mapping = {name: door for name, door in DOORS.items() if door.maps}


@pytest.mark.parametrize("door", mapping.values(), ids=mapping.keys())
def test_delete_goes_by_another_name(tmp_path, door):
    rows = three(False, False, True, name="gone")
    assert outcome(door.open(rows, tmp_path, columns="delete=gone")) == TAKEN_BACK
    if not door.null_is_no_delete:
        with pytest.raises(InputError, match="gone"):
            outcome(door.open(three(False, False, True), tmp_path, columns="delete=gone"))


@pytest.mark.parametrize("door", mapping.values(), ids=mapping.keys())
def test_of_op_and_delete_one_can_be_chosen(tmp_path, door):
    rows = [{**row, "op": "+"} for row in three(False, False, True)]
    assert outcome(door.open(rows, tmp_path, columns="delete=delete")) == TAKEN_BACK
    assert outcome(door.open(rows, tmp_path, columns="op=op")) == INSERTED
    with pytest.raises(InputError, match="op=op and delete=delete have the same meaning: use one of the two"):
        ColumnNames.parse("op=op,delete=delete")


@pytest.mark.parametrize("door", mapping.values(), ids=mapping.keys())
def test_a_column_that_is_called_delete_may_be_another_one(tmp_path, door):
    rows = [{"source": "x", "target": "y", "delete": "a", "timestamp": 1}]
    assert outcome(door.open(rows, tmp_path, columns="label=delete")) == INSERTED[:1]


# --- filters ---------------------------------------------------------------------------------------------------------


def amounts(**delete: Any) -> list[Row]:
    """One edge with a large amount, one with a small one, both taken back without an amount."""
    inserts = {name: "+" if name == "op" else False for name in delete}
    first, second = edge("x", "y", 1, **inserts, amount=2000), edge("x", "z", 2, **inserts, amount=5)
    return [first, second, edge("x", "y", 3, **delete), edge("x", "z", 4, **delete)]


@every_filter
@pytest.mark.parametrize("delete", [{"delete": True}, {"op": "-"}], ids=["delete", "op"])
def test_a_filter_that_names_a_property_lets_deletes_pass(tmp_path, door, delete):
    found = outcome(door.open(amounts(**delete), tmp_path, where="amount > 1000 and label = 'a'"))
    assert found == [("+", "x", "y", 1), ("-", "x", "y", 3)]


@every_filter
@pytest.mark.parametrize(
    ("where", "is_let_in"),
    [
        ("label = 'b'", False),
        ("timestamp < 3", False),
        ("op = '+'", False),
        ("delete or timestamp < 3", True),
    ],
)
def test_a_filter_of_the_columns_of_a_tuple_decides_about_deletes(tmp_path, door, where, is_let_in):
    rows = [edge("x", "y", 1, delete=False), edge("x", "y", 3, delete=True)]
    batches = list(door.open(rows, tmp_path, where=where))
    deletes = sum(sum(batch["delete"].to_pylist()) for batch in batches if "delete" in batch.schema.names)
    assert deletes == is_let_in


@every_filter
def test_a_column_of_a_tuple_by_another_name_decides_too(tmp_path, door):
    rows = [{**row, "user": row.pop("source")} for row in three(False, False, True)]
    found = outcome(door.open(rows, tmp_path, where="user = 'u'", columns="source=user"))
    assert found == []
    assert outcome(door.open(rows, tmp_path, where="user = 'x'", columns="source=user")) == TAKEN_BACK


def test_what_stands_in_graphs_of_deletes_is_filtered_alike(tmp_path):
    pytest.importorskip("pyoxigraph", reason="the extra rdf is not installed")
    rows = three(False, False, True)
    texts = [("+", "urn:x", "urn:y", 1), ("+", "urn:x", "urn:z", 2), ("-", "urn:x", "urn:y", 3)]
    assert outcome(RDF.open(rows, tmp_path), "<urn:a>") == texts
    assert outcome(RDF.open(rows, tmp_path, where="label = 'urn:a'"), "<urn:a>") == texts
    assert outcome(RDF.open(rows, tmp_path, where="op = '+'"), "<urn:a>") == texts[:2]
    with pytest.raises(WhereError, match="unknown column 'amount'"):
        RDF.open(rows, tmp_path, where="amount > 1000").__next__()


def test_the_command_takes_edges_back(tmp_path, rpq):
    edges = tmp_path / "edges.csv"
    edges.write_text("source,target,label,timestamp,gone,amount\na,b,t,1,false,2000\na,b,t,2,true,\n")
    options = ["--window", "10", "--slide", "1", "--where", "amount > 1000", "--output", "-"]
    status, out, _ = rpq("run", "t", "--input", str(edges), "--columns", "delete=gone", *options)
    assert (status, out.split()[1:]) == (0, ["a,b,1,+", "a,b,2,-"])


def test_a_value_that_is_no_boolean_is_a_bad_line(tmp_path, rpq):
    edges = tmp_path / "edges.csv"
    edges.write_text("source,target,label,timestamp,delete\na,b,t,1,false\na,b,t,2,yes\na,b,t,3,true\n")
    options = ["--window", "10", "--slide", "1", "--output", "-"]
    status, _, err = rpq("run", "t", "--input", str(edges), *options)
    assert status == 1
    assert f"{edges}:3: column 'delete': 'yes' is not true or false; expected true, false, 1 or 0" in err
    status, out, err = rpq("run", "t", "--input", str(edges), *options, "--on-error", "skip")
    assert (status, out.split()[1:]) == (0, ["a,b,1,+", "a,b,3,-"])


# --- Debezium --------------------------------------------------------------------------------------------------------

REFUSED = "says which records are deletes of Debezium, each of which would be read as an insert; "
HINT = "looks like the deletes of Debezium, which are read as inserts; "
POSTS = {
    "text/csv": as_csv,
    "application/x-ndjson": as_json_lines,
    "application/vnd.apache.arrow.stream": as_stream,
}
FILES = {"edges.csv": as_csv, "edges.jsonl": as_json_lines, "edges.parquet": as_parquet, "edges.arrow": as_feather}


@pytest.mark.parametrize("name", ["edges.csv", "edges.parquet"])
def test_deletes_of_debezium_that_are_not_read_are_refused_in_files(tmp_path, rpq, name):
    edges = tmp_path / name
    options = ["--window", "10", "--slide", "1", "--input", str(edges), "--output", "-"]
    edges.write_bytes(FILES[name](three("false", "false", "true", name="__deleted")))
    status, out, err = rpq("run", "a", *options)
    assert (status, out) == (1, "")
    assert "column '__deleted'" in err and f"{REFUSED}--changes debezium-rows reads deletes and updates of rows" in err
    status, out, err = rpq("run", "a", *options, "--columns", "delete=__deleted")
    assert (status, out.split()[1:]) == (0, ["x,y,1,+", "x,z,2,+", "x,y,3,-"])
    assert "Debezium" not in err
    status, out, err = rpq("run", "a", *options, "--where", "__deleted = 'false'")
    assert (status, out.split()[1:]) == (0, ["x,y,1,+", "x,z,2,+"]), "who filters them knows of them"


@pytest.mark.parametrize("name", ["edges.jsonl"])
def test_rules_read_the_deletes_of_debezium_or_are_refused(tmp_path, rpq, name):
    edges, rules = tmp_path / name, tmp_path / "edges.toml"
    edges.write_bytes(FILES[name](three("false", "false", "true", name="__deleted")))
    rules.write_text("[[edge]]\nlabel='a'\nsource='source'\ntarget='target'\ntimestamp='timestamp'\n")
    options = ["--window", "10", "--slide", "1", "--input", str(edges), "--output", "-", "--edges-from", str(rules)]
    status, out, err = rpq("run", "a", *options)
    assert (status, out) == (1, "") and f'delete = "__deleted" in {rules} deletes alone' in err
    rules.write_text(rules.read_text() + "delete='__deleted'\n")
    status, out, err = rpq("run", "a", *options)
    assert (status, out.split()[1:]) == (0, ["x,y,1,+", "x,z,2,+", "x,y,3,-"])


@pytest.mark.parametrize("type_", POSTS)
def test_deletes_of_debezium_that_are_not_read_are_told_of_posts(type_):
    def warnings(rows: list[Row]) -> list[str]:
        return read_tuple_body(POSTS[type_](rows), type_, stream=None, time_unit=None).warnings

    (warning,) = warnings(three("c", "u", "d", name="__op"))
    assert warning.startswith(f"the body: column '__op' {HINT}--changes debezium-rows reads them")
    assert warnings(three(False, False, True)) == []
    assert warnings([{**row, "__deleted": "false"} for row in three("+", "+", "-", name="op")]) == []


def test_deletes_of_debezium_that_are_not_read_are_told_of_messages():
    def warnings(rows: list[Row], columns: str | None = None) -> list[str]:
        reader = MessageReader(MessageColumns.from_names(ColumnNames.parse(columns)))
        reader.read(messages_of(as_json_lines, rows))
        return reader.warnings

    rows = three("false", "false", "true", name="__deleted")
    bad = MessageReader(MessageColumns.from_names(ColumnNames())).read(messages_of(as_json_lines, rows)).bad
    assert [f"column '__deleted': {REFUSED}--changes debezium-rows" in one.reason for one in bad.values()] == [True] * 3
    remedy = "--changes debezium-rows reads them as deletes and updates"
    assert warnings(three("c", "u", "d", name="__op")) == [f"column '__op' {HINT}{remedy}"]
    assert warnings(rows, "delete=__deleted") == warnings(rows, "op=@header.op") == warnings(three(False, False, True)) == []


@pytest.mark.parametrize("name", ["edges.csv"])
def test_operations_of_debezium_are_refused_with_what_to_do(tmp_path, rpq, name):
    edges = tmp_path / name
    edges.write_bytes(FILES[name](three("+", "+", "d", name="op")))
    status, _, err = rpq("run", "a", "--window", "10", "--slide", "1", "--input", str(edges), "--output", "-")
    assert status == 1
    assert "is not an operation; expected + or -; --changes reads those of Debezium in JSON" in err


def test_an_input_of_the_server_is_warned_of_in_its_log(tmp_path, caplog):
    edges = tmp_path / "edges.csv"
    edges.write_bytes(as_csv(three("c", "c", "d", name="__op")))
    with Served({"expression": "a", "window": 100, "slide": 10, "name": "q"}) as server:
        feed = FileFeed(server.service, open_reader("edges", edges), Playback(speed=None, time_unit=None))
        feed.start()
        assert feed.has_ended.wait(60)
        feed.stop()
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert [message.partition(" looks")[0] for message in warnings] == [f"{edges}: column '__op'"]
