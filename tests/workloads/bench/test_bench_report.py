"""`rpq bench report`: figures in texts come from results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from rpq.workloads.bench.command import bench
from rpq.workloads.bench.experiment import default_directory, write_result

ROOT = Path(__file__).parents[3]


@pytest.fixture
def results(tmp_path):
    records = [
        {"data": "yago", "query": "Q1", "expression": "a*", "tuples_per_second": 1234.5, "latency_p99_us": 7.25},
        {"data": "ldbc", "query": "Q4", "expression": "(a|b)*", "tuples_per_second": 99.0, "latency_p99_us": None},
    ]
    stream = {"name": "yago", "tuples": 1000, "origin": "generated", "window": 10, "slide": 1}
    machine = {
        "cpu": "a processor", "cores": 2, "calibration_ns_per_step": 3.5, "python": "3", "numba": "0", "commit": "abc",
        "date": "today",
    }  # fmt: skip
    result = {
        "experiment": "throughput", "how": "Just so.", "machine": machine, "settings": {"seed": 1, "repeat": 5},
        "streams": [stream], "facts": {"n": 3}, "checks": {}, "records": records,
    }  # fmt: skip
    folder = tmp_path / "results"
    write_result(folder, "throughput", result)
    (folder / "throughput.png").write_bytes(b"")
    return folder


def report(text: str, results: Path, *args: str) -> tuple[int, str, str]:
    file = results.parent / "TEXT.md"
    file.write_text(text, encoding="utf-8")
    ran = CliRunner().invoke(bench, ["report", str(file), "--results", str(results), *args])
    return ran.exit_code, ran.output, file.read_text(encoding="utf-8")


def test_sections_tables_and_values_are_filled_in_and_only_they(results):
    text = (
        "before\n<!-- bench throughput -->\nold\n<!-- /bench -->\nbetween "
        "<!-- bench throughput value=tuples_per_second where=data:yago,query:Q1 -->old<!-- /bench --> tuples, "
        "<!-- bench throughput value=max:latency_p99_us format=.2f -->old<!-- /bench --> µs, "
        "<!-- bench throughput value=machine:cores -->old<!-- /bench --> cores\n"
        "<!-- bench throughput columns=query,expression,rapq_ratio where=data:ldbc optional=yes --><!-- /bench -->\nafter\n"
    )
    status, out, made = report(text, results)
    assert status == 0, out
    assert "old" not in made and made.startswith("before\n") and made.endswith("<!-- /bench -->\nafter\n")
    assert "| yago | Q1 | a* | 1,234 |" in made or "| yago | Q1 | a* | 1,235 |" in made
    assert "| Q4 | (a\\|b)* |\n" in made and "7.25<!-- /bench --> µs" in made and "2<!-- /bench --> cores" in made
    assert "a processor, 2 cores" in made and "![" in made and "(results/throughput.png)" in made
    assert report(made, results, "--check")[0] == 0
    assert report(text, results, "--check")[0] == 1


def test_a_text_that_waits_for_a_result_is_left_as_it_is(results):
    text = "<!-- bench windows optional=yes -->\nNot measured yet.\n<!-- /bench -->"
    assert report(text, results)[::2] == (0, text)
    status, _, made = report(text.replace("windows", "throughput"), results)
    assert status == 0 and "| yago | Q1 |" in made and "Not measured" not in made


@pytest.mark.parametrize(
    "marker",
    [
        "<!-- bench nothing optional=yes --><!-- /bench -->",
        "<!-- bench windows --><!-- /bench -->",
        "<!-- bench nothing --><!-- /bench -->",
        "<!-- bench throughput -->",
        "<!-- bench throughput value=tuples_per_second --><!-- /bench -->",
        "<!-- bench throughput value=fact:missing --><!-- /bench -->",
        "<!-- bench throughput where=data:none --><!-- /bench -->",
    ],
)
def test_markers_that_cannot_be_filled_are_named(results, marker):
    status, out, made = report(marker, results)
    assert status == 1 and "TEXT.md" in out and made == marker


@pytest.mark.parametrize("path", sorted(default_directory().glob("*.json")), ids=lambda path: path.stem)
def test_committed_results_say_where_they_come_from(path):
    result = json.loads(path.read_text(encoding="utf-8"))
    assert result["machine"]["commit"] and result["machine"]["date"] and result["records"]
    assert all(result["checks"].values())


TEXTS = [ROOT / "README.md", ROOT / "spark" / "COSTS.md", *sorted((default_directory() / "tables").glob("*.md"))]


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.stem)
def test_committed_texts_show_the_committed_results(path):
    ran = CliRunner().invoke(bench, ["report", str(path), "--check"])
    assert ran.exit_code == 0, ran.output
