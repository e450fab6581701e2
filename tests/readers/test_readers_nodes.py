"""Files of records of nodes, alone and merged with tuples: names of columns, values, times, and errors with their place.

semantics.md S8, S13
"""

from __future__ import annotations

import gzip
import json

import pyarrow as pa
import pytest
from pyarrow import parquet as pq

from rpq.errors import InputError
from rpq.readers import open_reader
from rpq.readers.node_files import NodeFile, NodeFileColumns, NodeMerge
from rpq.stream.nodes.node_rows import are_records, node_table, tuples_of, uniform_parts


def rows_of(batches) -> list[dict]:
    """Return tuples and records in the order of the stream; a record has the properties that it names."""
    found = []
    for part in (part for batch in batches for part in uniform_parts(batch)):
        for row in (node_table(part) if are_records(part) else tuples_of(part)).to_pylist():
            named = {name: value for name, value in row.items() if row.get("\0" + name) is not False}
            found.append({name: value for name, value in named.items() if not name.startswith("\0")})
    return found


def records(path, columns: NodeFileColumns | None = None, **options) -> list[dict]:
    return rows_of(NodeFile(str(path), columns or NodeFileColumns(), unit=None, **options).batches(integers=False))


def test_fields_are_loose_values_and_an_empty_one_is_null(tmp_path):
    path = tmp_path / "accounts.csv.gz"
    path.write_bytes(gzip.compress(b'account,kind,risk,note\nx,Account; New,3,"a, b"\ny,,4.5,\n'))
    file = NodeFile(str(path), NodeFileColumns.parse("node=account,labels=kind"), unit=None)
    [batch] = file.batches(integers=False)
    table = node_table(batch)
    assert table.to_pylist() == [
        {"node": "x", "labels": ["Account", "New"], "risk": "3", "note": "a, b"},
        {"node": "y", "labels": None, "risk": "4.5", "note": None},
    ]
    assert table.schema.field("risk").metadata == {b"rpq": b"loose"} and not file.has_times


@pytest.mark.parametrize("padding", ["", "x" * 40_000])  # several blocks, which have keys of their own
def test_an_object_names_its_keys_alone(tmp_path, padding):
    lines = [
        {"node": "x", "labels": ["A;B", "C"], "risk": 3, "home": {"city": "Rome"}, "note": padding},
        {"node": "y", "risk": None, "op": "="},
        *[{"node": "z", "note": padding}] * 3,
        {"node": 7, "late": True},
    ]
    path = tmp_path / "nodes.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    first, second, *_, last = records(path)
    assert {**first, "op": "+", "note": ""} == {
        "node": "x", "labels": ["A;B", "C"], "op": "+", "risk": "3", "home.city": "Rome", "note": ""
    }  # fmt: skip
    assert (second["op"], second["risk"], "home.city" in second, "note" in second) == ("=", None, False, False)
    assert (last["node"], last["late"], "risk" in last) == ("7", "true", False)


def test_typed_columns_keep_their_types(tmp_path):
    table = pa.table({"id": ["x", "y"], "labels": [["A"], None], "risk": [1, None], "home": [{"zip": 5}, {"zip": 6}]})
    for name, write in (("n.parquet", pq.write_table), ("n.arrow", write_arrow)):
        write(table, tmp_path / name)
        found = records(tmp_path / name, NodeFileColumns.parse("node=id"))
        assert [one | {"labels": one["labels"] or None} for one in found] == [
            {"node": "x", "labels": ["A"], "risk": 1, "home.zip": 5},
            {"node": "y", "labels": None, "risk": None, "home.zip": 6},
        ]
    kept = NodeFileColumns.parse("node=id", properties=["home.zip"])
    assert "risk" not in records(tmp_path / "n.parquet", kept)[0]


def write_arrow(table, path):
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


def test_records_come_before_tuples_of_the_same_time(tmp_path):
    edges, first, second = (tmp_path / name for name in ("edges.csv", "first.csv", "second.jsonl"))
    edges.write_text("source,target,label,timestamp\nx,y,a,1\ny,z,a,5\nz,x,a,5\n")
    first.write_text("node,risk,timestamp\nx,1,1\ny,2,5\nz,3,9\n")
    second.write_text('{"node":"x","kind":"late","timestamp":5}\n{"node":"y"}\n{"node":"z","timestamp":2}\n')
    files = [NodeFile(str(path), NodeFileColumns(), unit=None) for path in (first, second)]
    merged = rows_of(batch.columns for batch in NodeMerge(open_reader("edges", str(edges), limit=2), files))
    found = [(row.get("node") or row["source"] + row["target"], row.get("timestamp")) for row in merged]
    assert found == [("x", 1), ("xy", 1), ("y", 5), ("x", 5), ("y", None), ("z", 2), ("yz", 5), ("z", 9)]
    assert "risk" not in merged[3] and "kind" not in merged[0]


def test_nodes_are_integers_where_vertices_are(tmp_path):
    edges, nodes = tmp_path / "edges.jsonl", tmp_path / "nodes.csv"
    edges.write_text('{"source":1,"target":2,"label":"a","timestamp":1}\n')
    nodes.write_text("node,risk,timestamp\n2,1,1\n")
    file = NodeFile(str(nodes), NodeFileColumns(), unit=None)
    merged = rows_of(batch.columns for batch in NodeMerge(open_reader("edges", str(edges)), [file]))
    assert [row.get("node", row.get("source")) for row in merged] == [2, 1]
    nodes.write_text("node,risk,timestamp\nx,1,1\n")
    with pytest.raises(InputError, match="the node 'x' is not an integer"):
        list(NodeMerge(open_reader("edges", str(edges)), [NodeFile(str(nodes), NodeFileColumns(), unit=None)]))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("risk\n1\n", ":1: column 'node': is missing; found risk"),
        ("node,risk\nx,1\n,2\n", ":3: column 'node': is missing or null"),
        ("node,op\nx,+\ny,?\n", ":3: column 'op': '?' is not an operation of a node; expected +, = or -"),
        ("node,id\nx,x\ny,z\n", ":3: column 'id': 'z' is not the name of the node 'y'"),
        ("node,timestamp\nx,1\ny,soon\n", ":3: column 'timestamp': 'soon' is not an integer"),
        ("node,risk\nx,1\ny\n", ":3: found 1 field, expected 2"),
        ("node,risk,risk\nx,1,1\n", ":1: column 'risk': occurs twice"),
        ('{"node":"x"}\n{"node":"y","labels":[1]}\n', ":2: column 'labels': '[1]' is no list of labels"),
        ('{"node":"x"}\n{"risk":1}\n', ":2: column 'node': is missing or null"),
        ('{"node":"x"}\n{"node":["x"]}\n', ":2: column 'node': is missing or null"),
        ('{"node":"x","timestamp":"2024-05-01"}\n', "records of nodes have times"),
    ],
)
def test_bad_records_are_placed(tmp_path, text, message):
    path = tmp_path / "nodes"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        NodeFile(str(path), NodeFileColumns(), unit=None).check_unit()
        records(path)
    assert message in str(caught.value)


def test_bad_records_are_left_out(tmp_path):
    path = tmp_path / "nodes.csv"
    path.write_text("node,op\nx,+\ny,?\nz,-\n")
    file = NodeFile(str(path), NodeFileColumns(), unit=None, on_error="skip")
    assert [row["node"] for row in rows_of(file.batches(integers=False))] == ["x", "z"]
    assert file.input.rejected == 1


@pytest.mark.parametrize(
    ("names", "message"),
    [("risk=r", "'risk' is not one of node"), ("node", "is not COLUMN=NAME"), ("node=a,node=b", "mapped twice")],
)
def test_names_of_columns_are_those_of_records(names, message):
    with pytest.raises(InputError, match=message):
        NodeFileColumns.parse(names)
