"""Lengths at the command: the option, files of queries, checkpoints, formats, and what is refused.

semantics.md S16
"""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest

EDGES = """source,target,label,timestamp
x,y,knows,1
y,z,knows,2
x,z,knows,3
u,v,likes,13
"""
WINDOW = ("--window", "10", "--slide", "1")
SELECT = ("--select", "source,target,length")
ROWS = ["x,y,1,1,+", "x,z,2,2,+", "y,z,1,2,+", "x,z,2,3,-", "x,z,1,3,+", "x,y,1,11,-", "y,z,1,12,-", "x,z,1,13,-"]


@pytest.fixture
def run(rpq, tmp_path):
    """Run queries over the edges; return (exit status, standard output, standard error)."""
    (tmp_path / "edges.csv").write_text(EDGES)
    return lambda *arguments: rpq("run", *arguments, "--input", tmp_path / "edges.csv", *WINDOW)


def rows(result: tuple[int, str, str]) -> list[str]:
    status, out, err = result
    assert status == 0, err
    return out.splitlines()


def test_rows_have_lengths(run, tmp_path):
    header, *found = rows(run("knows+", *SELECT, "--output", "-"))
    assert header == "source,target,length,timestamp,op"
    assert sorted(found) == sorted(ROWS)
    assert found[3:5] == ROWS[3:5]
    assert run("knows+", *SELECT, "--output", tmp_path / "rows.parquet")[0] == 0
    table = pq.read_table(tmp_path / "rows.parquet")
    assert str(table.schema.field("length").type) == "int64"
    assert table.column("length").to_pylist()[3:5] == [2, 1]


def test_rows_have_costs(run, rpq, tmp_path):
    values = (9, 2, 30, 1)
    edges = [f"{edge},{value}" for edge, value in zip(EDGES.splitlines()[1:], values, strict=True)]
    (tmp_path / "edges.csv").write_text("\n".join(["source,target,label,timestamp,fee", *edges, ""]))
    header, *found = rows(run("knows+", "--cost", "fee", "--output", "-"))
    assert header == "source,target,cost,timestamp,op"
    entered = ["x,y,9,1,+", "x,z,11,2,+", "y,z,2,2,+"]
    assert sorted(found) == sorted([*entered, "x,z,11,11,-", "x,y,9,11,-", "x,z,30,11,+", "y,z,2,12,-", "x,z,30,13,-"])
    queries = tmp_path / "queries.jsonl"
    queries.write_text(json.dumps({"name": "q", "query": "knows+", "cost": "fee"}))
    assert len(rows(run("--queries", queries, "--output", "-"))) == 9
    assert "cost         the smallest sum of fee along a path" in rpq("explain", "--queries", queries)[1]


def test_a_file_of_queries(run, rpq, tmp_path):
    queries = tmp_path / "queries.jsonl"
    queries.write_text(json.dumps({"name": "q", "query": "knows+", "select": ["source", "target", "length"]}))
    assert sorted(rows(run("--queries", queries, "--output", "-"))[1:]) == sorted(f"q,{row}" for row in ROWS)
    explained = rpq("explain", "--queries", queries)[1]
    assert "length       the smallest number of edges of a path" in explained
    assert "semantics    explicit" in explained
    queries.write_text(json.dumps({"name": "q", "query": "knows+", "hold": "10m"}))
    assert "hold         10m" in rpq("explain", "--queries", queries)[1]
    queries.write_text(json.dumps({"query": "knows+", "select": ["length"]}))
    assert "line 1, field select: the columns of a path query are" in run("--queries", queries, "--output", "-")[2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("knows+", "--select", "source,target,cost"), "--select: cost is a column where cost names a property of edges"),
        (("knows+", "--cost", "amount", "--paths", "simple"), "cannot be combined with paths='simple'"),
        (("knows+", "--paths", "trail"), "'trail', no edge twice, is not available: a walk"),
        (("knows+", *SELECT, "--semantics", "implicit"), 'length cannot be combined with semantics="implicit"'),
        (("knows+", *SELECT, "--paths", "simple"), "length cannot be combined with paths='simple'"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, message, run):
    status, _, err = run(*arguments)
    assert status != 0
    assert message in " ".join(err.split())


def test_a_checkpoint_without_lengths_is_refused(run, tmp_path):
    options = ("--semantics", "explicit", "--checkpoint", tmp_path / "checkpoint", "--output", tmp_path / "rows.csv")
    assert run("knows+", *SELECT, *options)[0] == 0
    status, _, err = run("knows+", *options)
    assert status != 0
    assert "--select" in err
