"""`rpq run --edges id`: in every format, with conditions on the input, checkpoints and bad input, rows are the oracle's.

semantics.md S14
"""

from __future__ import annotations

import csv
import functools
import io
import json
import random
from collections import Counter
from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.reference_properties import PropertyEngine, PropertyQuery

EXPRESSION = "a[amount > 500]/(a[amount > 250]|b)*"
WINDOW = ("--window", 20, "--slide", 5)
IDS = ("--edges", "id", "--columns", "edge=tx")
NAMES = ("source", "target", "label", "timestamp", "op", "amount", "tx")
FILES = ["edges.csv", "edges.jsonl", "edges.parquet"]


def stream(count: int = 200, seed: int = 3) -> list[dict]:
    """Return tuples, some of which are deletes by id without ends, or with others, and deletes without an id."""
    chance = random.Random(seed)
    found = []
    for number in range(count):
        op = chance.choice("+++-")
        tx = chance.randrange(40) if op == "+" or chance.random() < 0.7 else None
        has_ends = op == "+" or tx is None or chance.random() < 0.5
        found.append(
            {
                "source": chance.choice("stuvw") if has_ends else None,
                "target": chance.choice("stuvw") if has_ends else None,
                "label": chance.choice("aabc") if has_ends else None,
                "timestamp": number // 4 + chance.choice((0, 0, 0, -2, -30)),
                "op": op,
                "amount": chance.choice((None, *range(0, 1000, 50))),
                "tx": tx,
            }
        )
    return found


def expected(edges: list[dict], keeps: Callable[[dict], bool] = lambda edge: True) -> Counter:
    """Return the rows of the oracle; an insert that a condition leaves out deletes an edge that is not newer."""
    engine = PropertyEngine(PropertyQuery.path(EXPRESSION, name="q", size=20, slide=5), identity="id")
    present: dict[int, int] = {}
    found: Counter = Counter()
    for edge in edges:
        ends = edge["source"], edge["label"], edge["target"], edge["timestamp"]
        if edge["op"] == "+" and keeps(edge):
            rows = engine.insert(*ends, edge["tx"], amount=edge["amount"])
        elif edge["op"] == "-":
            rows = engine.delete(*ends, edge["tx"])
        else:
            rows = engine.advance(edge["timestamp"])
            present = {one.key: one.timestamp for one in engine._running[0].edges.values()}
            if present.get(edge["tx"], 10**9) <= edge["timestamp"]:
                rows += engine.delete(*ends, edge["tx"])
        found.update((*row.values, str(row.timestamp), row.op) for row in rows)
    return found


@functools.cache
def expected_of_stream() -> Counter:
    return expected(stream())


def write(path, edges: list[dict]) -> None:
    table = pa.table({name: [edge[name] for edge in edges] for name in NAMES})
    if path.suffix in (".csv", ".tsv"):
        separator = "," if path.suffix == ".csv" else "\t"
        lines = [NAMES, *(["" if edge[name] is None else str(edge[name]) for name in NAMES] for edge in edges)]
        path.write_text("".join(separator.join(line) + "\n" for line in lines))
    elif path.suffix == ".jsonl":
        kept = ({name: value for name, value in edge.items() if value is not None or name == "tx"} for edge in edges)
        path.write_text("".join(json.dumps(edge) + "\n" for edge in kept))
    else:
        pq.write_table(table, path)


def rows(text: str) -> Counter:
    return Counter(map(tuple, list(csv.reader(io.StringIO(text)))[1:]))


@pytest.mark.parametrize("name", FILES)
def test_rows_are_those_of_the_oracle(rpq, tmp_path, name):
    write(tmp_path / name, stream())
    options = ("--input", tmp_path / name, *WINDOW, *IDS, "--output", "-")
    code, out, err = rpq("run", EXPRESSION, *options)
    assert code == 0, err
    assert rows(out) == expected_of_stream()
    assert sum(rows(out).values()) > 100
    chosen = ("--where", "amount > 300 or amount is null", "--stats", tmp_path / "s.json")
    code, out, err = rpq("run", EXPRESSION, *options, *chosen)
    assert code == 0, err
    wanted = expected(stream(), lambda edge: edge["amount"] is None or edge["amount"] > 300)
    assert rows(out) == wanted != expected_of_stream()
    figures = json.loads((tmp_path / "s.json").read_text())
    left_out = sum(edge["op"] == "+" and edge["amount"] is not None and edge["amount"] <= 300 for edge in stream())
    assert figures["filtered"] == left_out
    assert figures["tuples"] == len(stream())  # those that are left out may change an edge, and move the time


def test_a_condition_on_ends_keeps_deletes_by_id(rpq, tmp_path):
    name = "edges.parquet"
    write(tmp_path / name, [edge for edge in stream() if edge["op"] == "+" or edge["tx"] is not None])
    options = ("--input", tmp_path / name, *WINDOW, *IDS, "--output", "-", "--where", "source <> 's'")
    code, out, err = rpq("run", EXPRESSION, *options)
    assert code == 0, err
    selected = [edge for edge in stream() if edge["op"] == "+" or edge["tx"] is not None]
    assert rows(out) == expected(selected, lambda edge: edge["source"] != "s")


def test_a_run_goes_on_from_a_checkpoint(rpq, tmp_path):
    name = "edges.jsonl"
    write(tmp_path / name, stream())
    files = ("--input", tmp_path / name, "--output", tmp_path / "rows.csv", "--checkpoint", tmp_path / "state")
    for limit in (("--limit", 60), ()):
        code, _, err = rpq("run", EXPRESSION, *files, *WINDOW, *IDS, *limit)
        assert code == 0, err
    assert rows((tmp_path / "rows.csv").read_text()) == expected_of_stream()
    code, _, err = rpq("run", EXPRESSION, *files, *WINDOW, "--columns", "amount=amount")
    assert code == 2
    assert "--edges was id" in err


@pytest.mark.parametrize("name", FILES)
def test_an_insert_without_an_id_is_bad_input(rpq, tmp_path, name):
    edges = [{**edge, "op": "+", "source": "s", "target": "t", "label": "a", "tx": edge["tx"] or 1} for edge in stream(20)]
    edges[7]["tx"] = None
    write(tmp_path / name, edges)
    options = ("--input", tmp_path / name, *WINDOW, *IDS, "--output", "-")
    code, _, err = rpq("run", "a", *options)
    assert code == 1
    place = {"csv": ":9:", "jsonl": ":8:"}.get(name.partition(".")[2], ": row 7")
    assert f"{name}{place}" in err
    assert "'tx'" in err
    assert "an insert needs one" in err
    code, _, err = rpq("run", "a", *options, "--on-error", "skip")
    assert code == 0, err
    assert "an insert needs one" in err


def test_ids_in_parquet_are_texts_or_integers(rpq, tmp_path):
    table = pa.table({"source": ["s"], "target": ["t"], "label": ["a"], "timestamp": [1], "tx": [1.5]})
    pq.write_table(table, tmp_path / "edges.parquet")
    code, _, err = rpq("run", "a", "--input", tmp_path / "edges.parquet", *WINDOW, *IDS, "--output", "-")
    assert code == 1
    assert "'tx' has the type double; expected integers or text" in err


@pytest.mark.parametrize("value", [1.5, True])
def test_ids_in_json_are_texts_or_integers(rpq, tmp_path, value):
    edge = {"source": "s", "target": "t", "label": "a", "timestamp": 1}
    lines = [{**edge, "tx": 1}, {**edge, "tx": "x"}, {**edge, "tx": value}]
    (tmp_path / "edges.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    code, _, err = rpq("run", "a", "--input", tmp_path / "edges.jsonl", *WINDOW, *IDS, "--output", "-")
    assert code == 1
    assert "edges.jsonl:3: column 'tx'" in err
    assert "expected text or an integer" in err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (IDS[:2], "column 'edge': is missing; it has the ids of edges"),
        (("--columns", "edge=tx"), "--edges id"),
        ((*IDS, "--drop-self-loops"), "source <> target"),
        ((*IDS, "--format", "stackoverflow"), "no ids of edges"),
    ],
    ids=["missing", "columns", "loops", "format"],
)
def test_what_does_not_go_with_ids_is_refused(rpq, tmp_path, options, message):
    write(tmp_path / "edges.csv", stream(5))
    code, _, err = rpq("run", "a", "--input", tmp_path / "edges.csv", *WINDOW, *options, "--output", tmp_path / "rows.csv")
    assert code
    assert message in err
