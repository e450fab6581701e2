"""`rpq bench sparql` on small windows: its answers are those of pyoxigraph and DuckDB."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from rpq.workloads.bench.command import bench
from rpq.workloads.bench.comparisons import sparql_speed
from rpq.workloads.bench.comparisons.sparql_speed import QUESTIONS

pytest.importorskip("pyoxigraph")
pytest.importorskip("duckdb")


@pytest.mark.long
def test_the_table_of_sparql_agrees_with_what_is_evaluated_anew(tmp_path, monkeypatch):
    """The memory of the first question, which three processes measure, stands for that of the others."""
    measured = []
    resident_memory = sparql_speed.resident_memory

    def resident_memory_once(query, stream):
        if not measured:
            measured.append(resident_memory(query, stream))
        return measured[0]

    monkeypatch.setattr(sparql_speed, "resident_memory", resident_memory_once)
    options = ["--edges", 2_400, "--repeat", 1, "--sample", 5, "--seconds", 0.2, "--output", tmp_path]
    ran = CliRunner().invoke(bench, ["sparql", *map(str, options)], catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    result = json.loads((tmp_path / "sparql.json").read_text())
    assert all(result["checks"].values())
    records = {record["query"]: record for record in result["records"]}
    assert [*records] == [question.name for question in QUESTIONS]
    assert records["AVG"]["answers"] == 240
    for record in records.values():
        assert record["agree"] and record["rows"] and record["answers"] and record["tuples_per_second"] > 0
        assert record["pyoxigraph_ms"] > 0 and record["duckdb_ms"] > 0 and record["bytes_per_answer"] > 0
    for name in ("AVG", "NOT-EXISTS", "OPTIONAL"):  # what the kernels of patterns do keeps no bindings of its own
        record = records[name]
        assert record["bindings_kept"] == sum(one["bindings"] for one in record["operators"]) > 0
        assert record["bytes_per_binding"] > 20  # most of it is room for a chunk, where windows are so small
    assert "bytes_per_binding" not in records["JOIN"]
    # Of the answers of the join and of what has no partner each key with an `a` is in one.
    parts = records["JOIN"]["answers"] + records["NOT-EXISTS"]["answers"]
    assert records["OPTIONAL"]["answers"] == parts
    assert 1_600 <= parts <= 1_616  # two thirds of a window that is a slide longer just before it moves
    assert records["NY-Q1"]["events_per_second"] > 0 and records["NY-Q1"]["event_ratio"] > 0
    assert {"JOIN-3", "NOT-EXISTS", "OPTIONAL"} <= {*result["facts"]}
