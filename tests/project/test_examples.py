"""Every script of `examples/`, run in a folder of its own, prints what its first lines say; the notebook, what it shows."""

from __future__ import annotations

import ast
import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
ON_SPARK = [script for script in EXAMPLES if "spark" in script.name]


def needs_spark() -> None:
    pytest.importorskip("pyspark", reason="the extra spark is not installed")
    from rpq.spark.errors import PipelineError
    from rpq.spark.jvm.session import check_java

    try:
        check_java()
    except PipelineError as missing:
        pytest.skip(str(missing))


def promised(script: Path) -> list[str]:
    """Return the output that the docstring of a script announces: the lines of the last block in it."""
    text = ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or ""
    return [line.removeprefix("    ") for line in re.findall(r"^    .+$", text, re.MULTILINE)]


def code_cells() -> list[dict[str, Any]]:
    """Return the cells of the notebook that are code."""
    notebook = json.loads((ROOT / "examples" / "spark_notebook.ipynb").read_text(encoding="utf-8"))
    assert notebook["nbformat"] == 4
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 5


@pytest.mark.long
def test_the_example_on_spark_prints_what_it_says_in_the_session_of_tests(session, monkeypatch, tmp_path, capsys) -> None:
    (script,) = ON_SPARK
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(type(session), "stop", lambda _: None)
    runpy.run_path(str(script))
    assert capsys.readouterr().out.splitlines() == promised(script)


@pytest.mark.long
def test_the_notebook_prints_what_it_shows_in_the_session_of_tests(session, monkeypatch, capsys) -> None:
    pytest.importorskip("lark", reason="the extra match is not installed")
    monkeypatch.setattr(type(session), "stop", lambda _: None)
    names: dict[str, object] = {}
    for cell in code_cells():
        exec("".join(cell["source"]), names)
        assert capsys.readouterr().out == "".join(line for output in cell["outputs"] for line in output["text"])


def test_the_notebook_can_be_opened_and_uses_what_is_public() -> None:
    cells = code_cells()
    assert len(cells) > 5
    for cell in cells:
        assert cell["execution_count"] is None
        assert_public("".join(cell["source"]))


@pytest.mark.ci
@pytest.mark.parametrize(
    "script",
    # Long by itself: it starts a JVM.
    [pytest.param(script, marks=[pytest.mark.long] * (script in ON_SPARK)) for script in EXAMPLES],
    ids=lambda script: script.stem,
)
def test_an_example_prints_what_it_says(script: Path, tmp_path: Path) -> None:
    if script in ON_SPARK:
        needs_spark()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8", "SPARK_LOCAL_IP": "127.0.0.1"}
    ran = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    printed, expected = ran.stdout.splitlines(), promised(script)
    assert expected
    if script.stem == "queries_to_parquet":  # of a stream whose figures may depend on the version of numpy
        printed, expected = ([re.sub(r"[\d,]+", "9", line) for line in lines] for lines in (printed, expected))
    assert printed == expected


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda script: script.stem)
def test_an_example_uses_what_is_public(script: Path) -> None:
    assert_public(script.read_text(encoding="utf-8"))


def assert_public(text: str) -> None:
    """Assert that a program uses what is public of the package alone."""
    import rpq
    import rpq.readers
    import rpq.spark

    public = {"rpq": rpq.__all__, "rpq.readers": rpq.readers.__all__, "rpq.spark": rpq.spark.__all__}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] == "rpq":
            assert {name.name for name in node.names} <= {*public.get(str(node.module), ())}
        elif isinstance(node, ast.Import):
            assert {name.name for name in node.names if name.name.split(".")[0] == "rpq"} <= {"rpq"}
        elif isinstance(node, ast.Attribute):
            assert not node.attr.startswith("_"), node.attr
            if isinstance(node.value, ast.Name) and node.value.id == "rpq":
                assert node.attr in rpq.__all__
