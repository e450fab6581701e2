"""Names that reach into nested records: of JSON lines, Parquet and Arrow; a quick way that gives what the exact way gives.

semantics.md S13
"""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import feather
from pyarrow import parquet as pq

from rpq.errors import InputError
from rpq.language.predicate import UntypedColumn
from rpq.readers import ColumnNames, open_reader, parse_where
from rpq.readers.source import LineBlock
from rpq.readers.text.jsonlines import JsonLayout, JsonLines, parse_exact
from tests.twins import examples

MAPPING = "source=process.parent.id,target=process.id,label=event.action,timestamp=@timestamp"


def event(number: int, **further) -> dict:
    return {
        "@timestamp": number,
        "event": {"action": "start", "kind": ["event"]},
        "process": {"id": f"p{number}", "parent": {"id": f"p{number // 2}", "name": "sh"}, "args": ["-c", "ls"]},
        "hashes": [{"type": "md5", "value": f"m{number}"}, {"type": "sha1", "value": f"s{number}"}],
        **further,
    }


def edge(number: int) -> dict:
    return {"source": f"p{number // 2}", "target": f"p{number}", "label": "start", "timestamp": number}


def rows(reader) -> list[dict]:
    return [row for batch in reader for row in batch.columns.to_pylist()]


def written(tmp_path, kind: str, records: list[dict]):
    path = tmp_path / f"events.{kind}"
    if kind == "jsonl":
        path.write_text("".join(json.dumps(one) + "\n" for one in records))
    elif kind == "parquet":
        pq.write_table(pa.Table.from_pylist(records), path)
    else:
        feather.write_feather(pa.Table.from_pylist(records), str(path), compression="uncompressed")
    return path


KINDS = pytest.mark.parametrize("kind", ["jsonl", "parquet", "arrow"])


@KINDS
def test_names_reach_into_objects_and_lists(tmp_path, kind):
    path = written(tmp_path, kind, [event(1), event(2)])
    assert rows(open_reader("edges", path, columns=ColumnNames.parse(MAPPING))) == [edge(1), edge(2)]
    names = ColumnNames.parse("source=hashes[0].value,target=hashes[1].value,timestamp=@timestamp", label="same")
    assert [(one["source"], one["target"]) for one in rows(open_reader("edges", path, columns=names))] == [
        ("m1", "s1"),
        ("m2", "s2"),
    ]


@KINDS
def test_a_key_that_is_the_whole_name_comes_first(tmp_path, kind):
    flat = {"process.id": "flat", "process\\.id": "x", "process.parent.id": "parent"}
    path = written(tmp_path, kind, [event(1, **flat)])
    (found,) = rows(open_reader("edges", path, columns=ColumnNames.parse(MAPPING)))
    assert (found["source"], found["target"]) == ("parent", "flat")


@KINDS
def test_a_backslash_makes_a_dot_a_part_of_a_key(tmp_path, kind):
    path = written(tmp_path, kind, [event(1, **{"a.b": {"c.d": "x"}})])
    names = ColumnNames.parse(r"source=a\.b.c\.d,target=process.id,label=event.action,timestamp=@timestamp")
    assert rows(open_reader("edges", path, columns=names)) == [{**edge(1), "source": "x"}]


@KINDS
def test_properties_and_conditions_read_nested_values(tmp_path, kind):
    records = [event(number, payment={"amount": number * 10}) for number in (1, 2, 3)]
    names = ColumnNames.parse(MAPPING + ",amount=payment.amount", properties=("amount", "process.parent.name"))
    where = parse_where("payment.amount > 10 and `hashes[1].value` <> 's3'")
    found = rows(open_reader("edges", written(tmp_path, kind, records), columns=names, where=where))
    assert [(one["target"], str(one["amount"]), one["process.parent.name"]) for one in found] == [("p2", "20", "sh")]


@KINDS
def test_what_is_missing_is_named_together_with_nested_names_that_would_do(tmp_path, kind):
    with pytest.raises(InputError, match="the columns source, target, label and timestamp are missing") as caught:
        rows(open_reader("edges", written(tmp_path, kind, [event(1)])))
    expected = "give --columns source=process.parent.id,target=process.id,label=event.action,timestamp=@timestamp"
    assert str(caught.value).endswith(expected)
    assert "hashes[0].value" in str(caught.value)


@pytest.mark.parametrize(
    ("bad", "column", "message"),
    [
        (event(2, process={"id": "x"}), "process.parent.id", "is missing; found '@timestamp', .* 'process.id'"),
        (event(2, process={"id": "x"}), "process.parent.id", "; where records are of several kinds, --edges-from"),
        (event(2, process={"id": "x", "parent": {"id": None}}), "process.parent.id", "is null"),
        (event(2, process={"id": "x", "parent": "init"}), "process.parent.id", "is missing"),
        (event(2, process={"id": 5, "parent": {"id": "x"}}), "process.id", "5 is not text"),
        (event(2, event={"action": ""}), "event.action", "is empty"),
        (json.dumps(event(2)).replace('"id": "p2"', '"id": "x", "id": "y"'), "process.id", "occurs twice"),
        (json.dumps(event(2)).replace('"event":', '"process": {}, "event":'), "process.id", "occurs twice"),
    ],
)
def test_an_error_names_the_line_and_the_path(tmp_path, bad, column, message):
    path = tmp_path / "events.jsonl"
    bad = bad if isinstance(bad, str) else json.dumps(bad)
    path.write_text("\n".join([json.dumps(event(1)), bad, json.dumps(event(3))]) + "\n")
    found = []
    with pytest.raises(InputError, match=message) as caught:
        for batch in open_reader("edges", path, columns=ColumnNames.parse(MAPPING)):
            found += batch.columns.to_pylist()
    assert (caught.value.line, caught.value.column, found) == (2, column, [edge(1)])
    reader = open_reader("edges", path, columns=ColumnNames.parse(MAPPING), on_error="skip")
    assert rows(reader) == [edge(1), edge(3)]


NAMES = ColumnNames.parse(r"source=a.b,target=l[0].v,label=k\.x,timestamp=t.t.t,delete=m.delete,stream=a.s")
TEXTS = st.sampled_from(["u", "v", "é", "2024-01-01", 'q"', "a.b", ""])
VALUES = st.one_of(TEXTS, st.sampled_from([None, 0, 7, 2.5, True, [], {}, [1], {"v": "w"}]))


def often(usual: st.SearchStrategy, other: st.SearchStrategy = VALUES) -> st.SearchStrategy:
    return st.sampled_from([usual] * 9 + [other]).flatmap(lambda one: one)


def an_object(required: dict, **optional: st.SearchStrategy) -> st.SearchStrategy:
    return often(st.fixed_dictionaries(required, optional=optional))


RECORDS = st.fixed_dictionaries(
    {
        "a": an_object({"b": often(TEXTS)}, s=often(TEXTS), c=VALUES, z=VALUES),
        "l": often(st.lists(an_object({"v": often(TEXTS)}, w=VALUES), min_size=1, max_size=2)),
        "k.x": often(TEXTS),
        "t": an_object({"t": an_object({"t": often(st.integers(-3, 3))})}),
    },
    optional={
        "a.b": often(TEXTS),
        "a.c": VALUES,
        "l[0].v": often(TEXTS),
        "m": an_object({}, delete=st.sampled_from([True, False, "1", None])),
        "m.delete": VALUES,
        "l[1].w": VALUES,
    },
)


@examples(1000)
@given(
    found=st.lists(RECORDS, min_size=1, max_size=5),
    escape=st.sampled_from([("a.b", "a.b"), ("a.b", "a\\u002eb"), ("a.b", "\\u0061\\u002Eb"), ('"a"', '"\\u0061"')]),
    double=st.sampled_from([("", ""), ('"b":', '"b": null, "b":'), ('{"a":', '{"a": {}, "a":')]),
    further=st.sampled_from([(), ("a.c",), ("a.c", "l[1].w"), ("a.c", "l"), ("a", "l[1].w")]),
)
def test_the_quick_way_reads_nested_records_as_the_exact_way_does(found, escape, double, further):
    text = "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in found)
    data = text.replace(*double).replace(*escape).encode()
    layout = JsonLayout(names=NAMES, further=further)
    quick = JsonLines(layout)._parse_plain(data)
    if quick is None:
        return
    exact = parse_exact(LineBlock(data, 1), layout, stop=False)
    assert exact.errors == []
    assert len(exact) == len(quick)
    assert exact.columns.keys() == quick.columns.keys()
    for name, column in exact.columns.items():
        if name.startswith("="):
            assert UntypedColumn(quick.columns[name]).texts().to_pylist() == UntypedColumn(column).texts().to_pylist()
        else:
            assert quick.columns[name].to_pylist() == column.to_pylist()
