"""The table of graph patterns: what it measures, and that other rows than the expected ones are no figure."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from rpq.workloads.bench.command import bench
from rpq.workloads.bench.comparisons import pattern_speed
from rpq.workloads.bench.experiment import figures_of_others
from tests.operators.patterns.test_patterns_engine_real import LDBC, MATHOVERFLOW


def run(output: Path, *options: object):
    arguments = ["patterns", "--repeat", 1, "--output", output, *options]
    return CliRunner().invoke(bench, [*map(str, arguments)], catch_exceptions=False)


@pytest.mark.ci
def test_other_rows_than_expected_are_an_error(tmp_path):
    files = tmp_path / "stackoverflow"
    files.mkdir()
    for label in ("a2q", "c2a", "c2q"):
        (files / f"sx-small-{label}.txt").write_text("1 2 100\n2 3 200\n3 1 300\n")
    sketch = tmp_path / "sketch"
    sketch.mkdir()
    program = sketch / "patterns"
    program.write_text('#!/bin/sh\n[ "$2" = P1 ] && [ -d "$1" ] && echo "P1 pos=526037 neg=524897 sec=0.25 rss (+7MB)"\n')
    program.chmod(0o755)
    ran = run(tmp_path, "--data", tmp_path, "--sketch", sketch, "--queries", "P1")
    assert ran.exit_code == 1 and "failed checks: rows are as expected" in ran.output
    (record,) = json.loads((tmp_path / "patterns.json").read_text())["records"]
    assert (record["rows_added"], record["rows_as_expected"]) == (3, False)
    assert (record["sketch_seconds"], record["sketch_mb"], record["GraphFlow_seconds"]) == (0.25, 7, 0.077)
    program.write_text("#!/bin/sh\necho nothing\n")
    ran = run(tmp_path, "--data", tmp_path, "--sketch", sketch, "--queries", "P1")
    assert ran.exit_code == 1 and "printed no figures of P1" in ran.output


def test_the_figures_of_others_are_those_that_the_kernels_are_tested_with():
    others = figures_of_others("patterns")
    assert "patterns.md" in others["source"]
    counts = {known["name"]: (known["enter"], known["leave"]) for known in others["queries"]}
    assert list(counts.values()) == [*MATHOVERFLOW.values(), *LDBC.values()]
    for known in others["queries"]:
        assert {*known["seconds"]} == {*others["systems"]} == {*pattern_speed.ENGINES, "sketch"}
