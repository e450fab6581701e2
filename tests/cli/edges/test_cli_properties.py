"""`rpq run` over edges with properties: every format gives the rows of the oracle, and refusals say what to write.

semantics.md S14
"""

from __future__ import annotations

import csv
import functools
import io
import json
import random
from collections import Counter
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from rpq.cli import main
from rpq.cli.outputs.formats import SinkError
from rpq.cli.outputs.sinks import ParquetSink
from tests.reference_properties import PropertyEngine, PropertyQuery

EXPRESSION = "a[amount > 500]/(a[amount > 250]|b)*"
WINDOW = ("--window", 20, "--slide", 5)


def stream(count: int = 200, seed: int = 3) -> list[dict]:
    chance = random.Random(seed)
    return [
        {
            "source": chance.choice("stuvw"),
            "target": chance.choice("stuvw"),
            "label": chance.choice("aab"),
            "timestamp": number // 4 + chance.choice((0, 0, 0, -2, -30)),
            "op": chance.choice("+++-"),
            "amount": chance.choice((None, *range(0, 1000, 50))),
        }
        for number in range(count)
    ]


@functools.cache
def expected_of_stream(identity: str) -> Counter:
    return expected(stream(), identity)


def expected(edges: list[dict], identity: str) -> Counter:
    engine = PropertyEngine(PropertyQuery.path(EXPRESSION, name="q", size=20, slide=5), identity=identity)
    found: Counter = Counter()
    for edge in edges:
        ends = edge["source"], edge["label"], edge["target"], edge["timestamp"]
        rows = engine.insert(*ends, amount=edge["amount"]) if edge["op"] == "+" else engine.delete(*ends)
        found.update((*row.values, str(row.timestamp), row.op) for row in rows)
    return found


def write(path, edges: list[dict], *, amount: str = "amount") -> None:
    edges = [{**edge, amount: edge["amount"]} for edge in edges]
    names = ["source", "target", "label", "timestamp", "op", amount]
    table = pa.table({name: [edge[name] for edge in edges] for name in names})
    if path.suffix == ".csv":
        with open(path, "w") as file:
            print(*names, sep=",", file=file)
            for edge in edges:
                print(*("" if edge[name] is None else edge[name] for name in names), sep=",", file=file)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps({name: edge[name] for name in names}) + "\n" for edge in edges))
    else:
        pq.write_table(table, path)


def rows(text: str) -> Counter:
    return Counter(map(tuple, list(csv.reader(io.StringIO(text)))[1:]))


@pytest.mark.parametrize(
    ("name", "identity"), [("edges.csv", "triple"), ("edges.jsonl", "triple"), ("edges.parquet", "parallel")]
)
def test_rows_are_those_of_the_oracle(rpq, tmp_path, name, identity):
    write(tmp_path / name, stream())
    options = ("--input", tmp_path / name, *WINDOW, "--edges", identity, "--output", "-")
    code, out, err = rpq("run", EXPRESSION, *options)
    assert code == 0, err
    assert rows(out) == expected_of_stream(identity)


def test_a_property_may_have_another_name_in_the_input_beside_a_condition_on_it(rpq, tmp_path):
    write(tmp_path / "edges.csv", stream(), amount="fee")
    options = ("--input", tmp_path / "edges.csv", *WINDOW, "--columns", "amount=fee", "--output", "-")
    code, out, _ = rpq("run", EXPRESSION, *options)
    assert code == 0
    assert rows(out) == expected_of_stream("triple")
    code, out, _ = rpq("run", EXPRESSION, *options, "--where", "fee > 300")
    chosen = [edge for edge in stream() if edge["op"] == "-" or (edge["amount"] or 0) > 300]
    assert code == 0
    assert rows(out) == expected(chosen, "triple")


def test_a_run_goes_on_from_a_checkpoint(rpq, tmp_path):
    write(tmp_path / "edges.csv", stream())
    files = ("--input", tmp_path / "edges.csv", "--output", tmp_path / "rows.csv", "--checkpoint", tmp_path / "state")
    for limit in (("--limit", 90), ()):
        code, _, err = rpq("run", EXPRESSION, *files, *WINDOW, *limit)
        assert code == 0, err
    assert rows((tmp_path / "rows.csv").read_text()) == expected_of_stream("triple")
    code, _, err = rpq("run", EXPRESSION, *files, *WINDOW, "--edges", "parallel")
    assert code == 2
    assert "--edges" in err


def test_a_property_that_the_first_lines_lack_is_the_same_after_a_restart(rpq, tmp_path):
    tuples = [{"source": f"v{number}", "target": f"v{number + 1}", "label": "a", "timestamp": number} for number in range(4)]
    tuples[2]["amount"], tuples[3]["amount"] = 7, 10.5
    (tmp_path / "edges.jsonl").write_text("".join(json.dumps(one) + "\n" for one in tuples))
    text = "MATCH (x)-[e:a]->(y) RETURN x, e.amount AS amount, sum(e.amount) AS total, avg(e.amount) AS mean"
    run = ["run", text, "--input", tmp_path / "edges.jsonl", "--window", "9", "--slide", "1", "--quiet"]
    run += ["--semantics", "explicit", "--output"]
    assert rpq(*run, tmp_path / "whole.jsonl")[0] == 0
    for more in (["--limit", 2], []):
        assert rpq(*run, tmp_path / "rows.jsonl", "--checkpoint", tmp_path / "state", *more)[0] == 0
    assert (tmp_path / "rows.jsonl").read_text() == (tmp_path / "whole.jsonl").read_text()
    last = json.loads((tmp_path / "rows.jsonl").read_text().splitlines()[-1])
    assert (last["amount"], last["total"], last["mean"]) == ("10.5", "10.5", 10.5)


def test_late_tuples_are_written_with_their_properties(rpq, tmp_path):
    write(tmp_path / "edges.csv", stream(), amount="fee")
    options = ("--input", tmp_path / "edges.csv", *WINDOW, "--columns", "amount=fee", "--late", tmp_path / "late.csv")
    code, _, err = rpq("run", EXPRESSION, *options)
    assert code == 0, err
    found, time, late = list(csv.DictReader(io.StringIO((tmp_path / "late.csv").read_text()))), 0, []
    for edge in stream():
        time = max(time, edge["timestamp"])
        if edge["op"] == "+" and edge["timestamp"] <= time // 5 * 5 - 20:
            late.append({name: "" if value is None else str(value) for name, value in edge.items()})
    assert found == late
    assert any(edge["amount"] for edge in late)
    code, _, err = rpq("run", EXPRESSION, "--input", tmp_path / "late.csv", *WINDOW)  # a file like any other
    assert code == 0, err


def test_events_have_properties(rpq, tmp_path):
    lines = "x,y,a,1,900,g\ny,z,b,2,,g\nx,y,a,3,100,h\nu,y,a,2,700,h\n"
    (tmp_path / "edges.csv").write_text("source,target,label,timestamp,amount,e\n" + lines)
    options = ("--input", tmp_path / "edges.csv", *WINDOW, "--events", "window", "--columns", "event=e", "--output", "-")
    code, out, err = rpq("run", "a[amount > 500]/b", *options)
    assert code == 0, err
    assert rows(out) == Counter({("x", "z", "2", "+"): 1, ("x", "z", "3", "-"): 1, ("u", "z", "3", "+"): 1})


@pytest.mark.parametrize("name", ["edges.csv", "edges.parquet"])
def test_a_column_that_is_missing_is_an_error_at_the_start(rpq, tmp_path, name):
    write(tmp_path / name, stream())
    options = ("--input", tmp_path / name, *WINDOW, "--output", tmp_path / "rows.csv")
    code, _, err = rpq("run", "a[amont > 1]", *options)
    assert code == 1
    assert "column 'amont'" in err
    assert "is missing" in err
    assert "did you mean 'amount'?" in err
    assert not (tmp_path / "rows.csv").exists()


def test_a_file_without_a_header_has_no_properties(rpq, tmp_path):
    (tmp_path / "edges.csv").write_text("x,y,a,1\n")
    code, _, err = rpq("run", "a[n > 1]", "--input", tmp_path / "edges.csv", *WINDOW, "--output", "-")
    assert code == 1
    assert "no header" in err


def test_a_format_without_properties_is_refused(rpq, tmp_path):
    (tmp_path / "edges.csv").write_text("x,y,a,1\n")
    code, _, err = rpq("run", "a[n > 1]", "--input", tmp_path / "edges.csv", *WINDOW, "--format", "stackoverflow")
    assert code == 2
    assert "no properties" in err


def test_parquet_has_decimals_of_all_inputs(tmp_path):
    """A file has the digits of all inputs where these are known before its first rows are written; later ones must fit."""
    for number, (value, kind) in enumerate((("1.50", pa.decimal128(5, 2)), ("2.125", pa.decimal128(7, 3)))):
        columns = {"source": ["x"], "target": ["y"], "label": ["a"], "timestamp": [number]}
        pq.write_table(pa.table({**columns, "d": pa.array([value]).cast(kind)}), tmp_path / f"{number}.parquet")
    inputs = [part for number in range(2) for part in ("--input", str(tmp_path / f"{number}.parquet"))]
    output = tmp_path / "rows.parquet"
    options = ["--select", "e.d", "--window", "10", "--slide", "5", "--edges", "parallel", "--output", str(output)]
    result = CliRunner().invoke(main, ["run", "?x ?e:a ?y", *inputs, *options])
    assert result.exit_code == 0, result.output
    assert pq.read_table(output)["e.d"].to_pylist() == [Decimal("1.500"), Decimal("2.125")]
    sink = ParquetSink(str(tmp_path / "later.parquet"), ("d",), row_group_rows=1)
    sink.write(pa.table({"d": pa.array(["1.50"]).cast(pa.decimal128(5, 2))}))
    sink.write(pa.table({"d": pa.array(["2.500"]).cast(pa.decimal128(7, 3))}))
    with pytest.raises(SinkError, match="later rows have values that do not fit the types of its columns"):
        sink.write(pa.table({"d": pa.array(["2.125"]).cast(pa.decimal128(7, 3))}))
    sink.discard()


def test_witnesses_have_the_properties_that_queries_read(rpq, tmp_path):
    edges = tmp_path / "edges.csv"
    edges.write_text("source,target,label,timestamp,amount,note\nx,y,a,1,700,new\nz,y,b,2,,\n")
    code, out, err = rpq("run", "a[amount > 500]/^b", "--input", edges, *WINDOW, "--witness", "--output", "-")
    assert code == 0, err
    (row,) = csv.DictReader(io.StringIO(out))
    assert json.loads(row["path"]) == ["x", "a", {"amount": "700"}, "y", "^b", {}, "z"]


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_static_edges_have_properties(rpq, tmp_path, kind):
    stream_of = {"source": ["y"], "target": ["z"], "label": ["b"], "timestamp": [1], "amount": [700], "note": [None]}
    is_typed = kind == "parquet"
    edges = tmp_path / ("edges.parquet" if is_typed else "edges.csv")
    if is_typed:
        pq.write_table(pa.table(stream_of), edges)
    else:
        edges.write_text("source,target,label,timestamp,amount,note\ny,z,b,1,700,\n")
    static = pa.table({"source": ["x", "w"], "target": ["y", "y"], "label": ["a", "a"], "amount": [600, 400]})
    path = tmp_path / f"static.{kind}"
    if kind == "csv":
        path.write_text("source,target,label,amount\nx,y,a,600\nw,y,a,400\n")
    elif kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in static.to_pylist()))
    else:
        pq.write_table(static, path)
    text = "a[amount > 500 and note is null]/b[amount > 500]"
    files = ("--input", edges, "--static", path, "--output", "-")
    options = ("--static-format", "jsonl") if kind == "jsonl" else ()
    code, out, err = rpq("run", text, *files, *options, *WINDOW, "--edges", "parallel")
    assert code == 0, err
    assert rows(out) == Counter([("x", "z", "1", "+")])


def test_static_edges_have_ids(rpq, tmp_path):
    """An edge of the stream hides the static edge with its id; when it has left the window, that is back."""
    lines = "v,w,a,1,7,e\nx,y,b,2,,f\nx,z,b,200,,g\n"
    edges, path = tmp_path / "edges.csv", tmp_path / "static.csv"
    edges.write_text(f"source,target,label,timestamp,amount,edge\n{lines}")
    for content, first in (
        ("source,target,label,amount,edge\ns,x,a,9,e\nt,x,a,9,i\n", "t"),
        ("source,target,label,amount\ns,x,a,9\nt,x,a,9\n", "st"),
    ):
        path.write_text(content)
        files = ("--input", edges, "--static", path, "--output", "-")
        code, out, err = rpq("run", "a[amount > 8]/b", *files, *WINDOW, "--edges", "id")
        assert code == 0, err
        assert {row for row in rows(out) if row[3] == "+"} == {
            *((source, "y", "2", "+") for source in first), *((source, "z", "200", "+") for source in "st")
        }  # fmt: skip


def test_static_edges_may_lack_properties(rpq, tmp_path):
    (tmp_path / "edges.csv").write_text("source,target,label,timestamp,amount\ny,z,b,1,700\nw,y,a,2,\n")
    (tmp_path / "static.csv").write_text("source,target,label\nx,y,a\ny,v,b\n")
    files = ("--input", tmp_path / "edges.csv", "--static", tmp_path / "static.csv", "--output", "-")
    code, out, err = rpq("run", "a[amount is null]/b[amount > 500]", *files, *WINDOW, "--edges", "parallel")
    assert code == 0, err
    assert rows(out) == Counter([("x", "z", "1", "+"), ("w", "z", "2", "+")])
    code, out, err = rpq("run", "a[amount is null]/b[amount > 500]", *files, *WINDOW)
    assert code == 0, err
    assert rows(out) == Counter([("x", "z", "1", "+"), ("w", "z", "2", "+")])


def test_edge_variables_bind_static_edges(rpq, tmp_path):
    (tmp_path / "edges.csv").write_text("source,target,label,timestamp,amount\ny,z,b,1,700\n")
    (tmp_path / "static.csv").write_text("source,target,label\nx,y,a\n")
    files = ("--input", tmp_path / "edges.csv", "--static", tmp_path / "static.csv", "--output", "-")
    options = ("--edges", "parallel", "--select", "x,e,e.timestamp,f.amount", "--witness")
    code, out, err = rpq("run", "?x ?e:a ?y . ?y ?f:b ?z", *files, *WINDOW, *options)
    assert code == 0, err
    (row,) = csv.DictReader(io.StringIO(out))
    assert json.loads(row.pop("path")) == [["x", "a", None, "y"], ["y", "b", 1, "z"]]
    assert json.loads(row.pop("path_times")) == [None, 1]
    assert row == {"x": "x", "e": "-1", "e.timestamp": "", "f.amount": "700", "timestamp": "1", "op": "+"}


@pytest.mark.parametrize("unit", ["ms", None])
def test_durations_between_edges_need_a_unit(rpq, tmp_path, unit):
    """Beside `--time-unit` they are taken in filters and in conditions, and the run goes on from a checkpoint."""
    factor = 1000 if unit == "ms" else 1
    lines = f"u,v,a,0\nv,w,a,{600 * factor}\nv,x,a,{599 * factor}\nv,y,a,{601 * factor}\n"
    (tmp_path / "edges.csv").write_text(f"source,target,label,timestamp\n{lines}")
    soon = ("--filter", "?f.timestamp - ?e.timestamp <= '10m'", "--select", "z", "--edges", "parallel")
    window = ("--window", "1h", "--slide", "1m", "--time-unit", unit) if unit else ("--window", "3600", "--slide", "60")
    files = ("--input", tmp_path / "edges.csv", "--output", tmp_path / "rows.csv", "--checkpoint", tmp_path / "state")
    for limit in (("--limit", 2), ()):
        code, _, err = rpq("run", "?x ?e:a ?y . ?y ?f:a ?z", *files, *soon, *window, *limit)
        if unit is None:
            assert code != 0
            assert "the times of this input are plain numbers" in err
            return
        assert code == 0, err
    with (tmp_path / "rows.csv").open() as file:
        assert [row["z"] for row in csv.DictReader(file)] == ["w", "x"]


@pytest.mark.parametrize(
    ("query", "options", "text", "count"),
    [
        ("a[amount > 1000]+", (), "amount > 1000", 2),
        ("?x ?e:a[amount > 1000] ?y", (), "amount > 1000", 2),
        ("?x ?e:a ?y", ("--filter", "?e.amount * 2 > 1000"), "?e.amount * 2 > 1000", 2),
        ("MATCH (x)-[e:a]->(y)-[f:a]->(z) WHERE e.amount - f.n > 0 RETURN x", (), "e.amount - f.n > 0", 1),
        ("MATCH (x)-[e:a]->(y) RETURN sum(e.amount) AS total, max(e.amount) AS most", (), "e.amount", 2),
        ("a[amount > '1000']+", (), None, 0),
    ],
)
def test_texts_in_place_of_numbers_are_counted(tmp_path, query, options, text, count):
    (tmp_path / "edges.csv").write_text(
        'source,target,label,timestamp,amount,n\nv,w,a,1,"1,500.00",1\nw,x,a,2,2000,2\nx,y,a,3,,3\ny,z,a,4,n/a,4\ny,z,b,4,n/a,4\n'
    )
    files = ("--input", tmp_path / "edges.csv", "--output", tmp_path / "rows.csv", "--stats", tmp_path / "stats.json")
    result = CliRunner().invoke(main, list(map(str, ("run", query, *options, *files, *WINDOW))))
    assert result.exit_code == 0, result.output
    assert json.loads((tmp_path / "stats.json").read_text())["non_numeric"] == ({text: count} if text else {})
    assert (f"{text}   {count} values are texts" in result.output) == (text is not None)


def test_csv_json_and_parquet_give_the_same_rows_for_decimals(tmp_path):
    amounts = ["0.10", "19.99", "1234.56", "0.30", "20", "9007199254740993.0"]
    ends = [f"v{place}" for place in range(len(amounts))]
    columns = {"source": ends, "target": ends, "label": ["a"] * len(ends), "timestamp": [1] * len(ends)}
    table = pa.table({**columns, "amount": pa.array(map(Decimal, amounts), pa.decimal128(20, 2))})
    pq.write_table(table, tmp_path / "edges.parquet")
    rows = [dict(zip((*columns, "amount"), row, strict=True)) for row in zip(*columns.values(), amounts, strict=True)]
    with (tmp_path / "edges.csv").open("w") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    lines = [json.dumps(row).replace(f'"{row["amount"]}"', row["amount"]) for row in rows]
    (tmp_path / "edges.jsonl").write_text("".join(f"{line}\n" for line in lines))
    conditions = {
        "amount = 19.99": {1},
        "amount <= 0.1": {0},
        "amount between 0.1 and 0.3": {0, 3},
        "amount + 0.01 = 20": {1},
        "amount in (0.3, 9007199254740993)": {3, 5},
        "amount > 9007199254740992": {5},
    }
    for condition, expected_places in conditions.items():
        for name in ("edges.parquet", "edges.csv", "edges.jsonl"):
            files = ("--input", tmp_path / name, "--output", tmp_path / "rows.csv")
            result = CliRunner().invoke(main, list(map(str, ("run", f"a[{condition}]", *files, *WINDOW))))
            assert result.exit_code == 0, result.output
            found = {row["source"] for row in csv.DictReader(io.StringIO((tmp_path / "rows.csv").read_text()))}
            assert found == {ends[place] for place in expected_places}, (condition, name)
