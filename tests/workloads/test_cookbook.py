"""The cookbook: each use case as it is pasted has the alerts that were planted, in MATCH and as a pattern.

The recipes for own data run as they are pasted, too.
"""

from __future__ import annotations

import csv
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import rpq
from rpq.cli import main
from rpq.workloads.generate.command import USE_CASE_NAMES
from rpq.workloads.generate.use_cases import BLOCK_TUPLES, USE_CASES

pytest.importorskip("lark", reason="the extra match is not installed")

ROOT = Path(__file__).parents[2]
PAGE = (Path(__file__).parents[2] / "docs" / "cookbook.md").read_text("utf-8")
RECIPES = [section for section in re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:] if "--truth" in section]


def blocks(recipe: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", recipe, re.MULTILINE | re.DOTALL)


def commands(recipe: str) -> list[list[str]]:
    """Return the arguments of the commands of a recipe: that which generates, MATCH, and the pattern."""
    (block,) = blocks(recipe, "sh")
    words = shlex.split(block.replace("\\\n", " "))
    starts = [place for place, word in enumerate(words) if word == "rpq"]
    return [words[start + 1 : end] for start, end in zip(starts, [*starts[1:], len(words)], strict=True)]


def alerts(path: Path) -> list[tuple[str, ...]]:
    with path.open(encoding="utf-8", newline="") as file:
        return [tuple(row) for row in csv.reader(file)]


@pytest.mark.parametrize("recipe", RECIPES, ids=USE_CASE_NAMES)
def test_a_recipe_finds_what_is_planted(recipe, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    generate, match, pattern = commands(recipe)
    assert match[1].startswith("MATCH ") and rpq.language.notation.language_of(pattern[1]) == "pattern"
    for command in (generate, match, pattern):
        ran = CliRunner().invoke(main, command)
        assert ran.exit_code == 0, ran.output
    truth, of_match, of_pattern = (alerts(Path(name)) for name in ("truth.csv", "alerts.csv", "of-pattern.csv"))
    assert len(truth) > 50
    assert of_match[0] == of_pattern[0] == truth[0]
    assert sorted(of_match) == sorted(of_pattern) == sorted(truth)
    (shown,) = blocks(recipe, "text")
    lines = Path("alerts.csv").read_text("utf-8").splitlines()
    assert shown.splitlines() == lines[: len(shown.splitlines())] and len(shown.splitlines()) > 2


@pytest.mark.parametrize("recipe", RECIPES, ids=USE_CASE_NAMES)
def test_another_seed_has_other_alerts_and_no_others(recipe, tmp_path, monkeypatch):
    seed = 2
    monkeypatch.chdir(tmp_path)
    generate, match, _ = commands(recipe)
    for command in ([*generate, "--seed", str(seed), "--edges", "1500"], match):
        ran = CliRunner().invoke(main, command)
        assert ran.exit_code == 0, ran.output
    case = USE_CASES[generate[1]]
    rows = [tuple(map(str, row.values())) for row in case.truth(edges=1500, seed=seed).to_pylist()]
    assert sorted(alerts(Path("alerts.csv"))[1:]) == sorted(rows) != sorted(
        tuple(map(str, row.values())) for row in case.truth(edges=1500, seed=1).to_pylist()
    )


@pytest.mark.parametrize("name", USE_CASES)
def test_a_truth_has_a_case_in_each_whole_block(name):
    case = USE_CASES[name]
    assert case.truth(edges=BLOCK_TUPLES - 1, seed=1).num_rows == 0
    assert case.truth(edges=2 * BLOCK_TUPLES, seed=1).num_rows >= 2


@pytest.fixture
def recipe(tmp_path, monkeypatch):
    """In a folder with the examples: a function that returns the section of a recipe for own data."""
    monkeypatch.chdir(tmp_path)
    Path("examples").symlink_to(ROOT / "examples")
    Path("bin").mkdir()
    for name, words in (("python", ""), ("rpq", " -m rpq.cli")):
        command = Path("bin", name)
        command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)}{words} "$@"\n')
        command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pages = PAGE + (ROOT / "docs" / "own-data.md").read_text("utf-8")
    return lambda title: next(part for part in pages.split("\n## ") if part.startswith(title))


def pasted(block: str) -> str:
    """Run a block in a shell; return its output."""
    ran = subprocess.run(["bash", "-euo", "pipefail", "-c", block], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.mark.ci
def test_the_recipe_of_permissions_has_the_same_rows_in_both_languages(recipe):
    section = recipe("Who may see which documents")
    (block,) = blocks(section, "sh")
    pasted(block)
    shown = blocks(section, "text")[0]
    assert Path("seen.csv").read_text("utf-8") == Path("of-sparql.csv").read_text("utf-8") == shown
    assert [row[0] for row in alerts(Path("public.csv"))] == ["d", "document:y"]


@pytest.mark.ci
def test_the_recipe_of_a_bank_finds_the_money_behind_alerts(recipe):
    pytest.importorskip("pandas")
    section = recipe("Files of a bank")
    prepare, query = blocks(section, "sh")
    pasted(prepare)
    (shown,) = blocks(section, "text")
    assert pasted(query) == shown
    found = {(row[0], row[2]) for row in alerts(Path("suspects.csv"))[1:]}
    large = [number for number in range(30) if number % 3]  # the alerted accounts that pass on more than a little
    assert found == {(f"AC{100 + number:04}", f"AC{to + number:04}") for number in large for to in (130, 160)}


@pytest.mark.ci
@pytest.mark.skipif(os.name == "nt", reason="ends a server by a signal")
def test_the_recipe_of_logons_answers(recipe):
    pytest.importorskip("uvicorn")
    section = recipe("Logons of hosts")
    prepare, serve, posts = blocks(section, "sh")
    pasted(prepare)
    with subprocess.Popen([*shlex.split(serve), "--port", "0"], stderr=subprocess.PIPE, text=True) as server:
        try:
            address = next(line.split()[-1] for line in server.stderr if line.startswith("serving at"))
            answers = pasted(posts.replace("http://127.0.0.1:8000/", address))
        finally:
            server.terminate()
    (shown,) = blocks(section, "json")
    assert answers.startswith('{"tuples":3010,') and answers.endswith(shown.strip()) and Path("logons.state").exists()


@pytest.mark.ci
def test_the_recipe_of_an_own_algorithm_draws_a_figure(recipe):
    pytest.importorskip("matplotlib")
    (block,) = blocks(recipe("A figure of the paper"), "sh")
    pasted(block)
    records = json.loads(Path("results/algorithm.json").read_text())["records"]
    assert [record["query"] for record in records] == ["Q2", "Q11"] * 3 and min(record["reached"] for record in records) < 1
    assert Path("results/algorithm.png").stat().st_size > 5_000
