"""`rpq bench queries-of-others`: which queries in a folder run, with which edits, and why the others do not."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from rpq.workloads.bench.command import bench
from rpq.workloads.bench.queries_of_others import outcome_of, run_query

pytest.importorskip("rdflib")

WINDOW = "FROM NAMED WINDOW <w> ON <s> [RANGE PT3S STEP PT1S]"
QUERIES = {
    "rsp/q1.rspql": f"REGISTER STREAM <q> AS SELECT ?x {WINDOW} {{ WINDOW ?w {{ ?x <a> ?y }} }}",
    "rsp/q2.rspql": f"SELECT ?x ?y FROM <g> {WINDOW} {{ ?x <b> ?z WINDOW <w> {{ ?x <a> ?y }} }} GROUP BY ?x",
    "rsp/q10.rspql": f"SELECT * {WINDOW} {{ WINDOW <w> {{ ?x <a> ?y }} SERVICE <t> {{ ?y <b> ?z }} }}",
    "plain/one.rq": "SELECT ?x { ?x <a>/<b> ?y } ORDER BY DESC(?x) ?y",
    "plain/README.md": "no query",
}
SCORE = """
| collection | queries | unchanged | with an edit | not at all | of these invalid |
|---|---:|---:|---:|---:|---:|
| plain | 1 | 1 | 0 | 0 | 0 |
| rsp | 3 | 1 | 1 | 1 | 1 |

## Edits

- rsp q2: ?y in GROUP BY

## Refusals

- rsp q10: line 1, column 89: SERVICE is refused: a query reads only its streams; pass constant edges with --static
"""


def test_a_folder_of_queries_has_a_score(tmp_path):
    for name, text in QUERIES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    output = tmp_path / "results"
    done = CliRunner().invoke(bench, ["queries-of-others", "--data", str(tmp_path), "--output", str(output)])
    assert done.exit_code == 0, done.output
    text = (output / "queries-of-others.md").read_text(encoding="utf-8")
    assert text == done.output and text.endswith(SCORE), text
    assert str(tmp_path) not in text


def test_a_folder_without_queries_is_an_error(tmp_path):
    done = CliRunner().invoke(bench, ["queries-of-others", "--data", str(tmp_path)])
    assert done.exit_code == 2 and "no folder in it has files of queries" in done.output


def test_to_run_is_more_than_to_be_read(monkeypatch):
    import rpq

    def refuse(self, *data, **options):
        raise rpq.QueryError("nothing is taken")

    monkeypatch.setattr(rpq.Engine, "push", refuse)
    assert outcome_of("q", "SELECT ?x { ?x <a> ?y }").problem == "nothing is taken"
    with pytest.raises(rpq.QueryError):
        run_query("SELECT ?x { ?x <a> ?y }")
