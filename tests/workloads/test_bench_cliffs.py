"""`rpq bench cliffs`: every line has a figure and a bound."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from rpq.workloads.bench.command import bench
from rpq.workloads.bench.comparisons.cliffs import LINES


def _records(tmp_path, *options):
    options = ["--edges", 1_000, "--repeat", 1, "--output", tmp_path, *options]
    ran = CliRunner().invoke(bench, ["cliffs", *map(str, options)], catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    return {record["name"]: record for record in json.loads((tmp_path / "cliffs.json").read_text())["records"]}


@pytest.mark.ci
def test_every_line_has_a_figure_and_a_bound(tmp_path):
    records = _records(tmp_path)
    assert [*records] == [*LINES]
    for record in records.values():
        assert record["measured"] > 0 and record["bound"] > 0
        above, below = (record[one] for one in ("measured", "bound"))
        assert record["is_met"] == (above >= below if record["sense"] == "at least" else above <= below)


def test_lines_are_selected_by_name(tmp_path):
    assert [*_records(tmp_path, "--only", "min-join-1,MIN-40000")] == ["MIN-JOIN-1", "MIN-40000"]
