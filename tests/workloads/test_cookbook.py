"""The cookbook: each use case as it is pasted has the alerts that were planted, in MATCH and as a pattern."""

from __future__ import annotations

import csv
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

import rpq
from rpq.cli import main
from rpq.workloads.generate.command import USE_CASE_NAMES
from rpq.workloads.generate.use_cases import BLOCK_TUPLES, USE_CASES

pytest.importorskip("lark", reason="the extra match is not installed")

PAGE = (Path(__file__).parents[2] / "docs" / "cookbook.md").read_text("utf-8")
RECIPES = [section for section in re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:] if "```sh\n" in section]


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
