"""Every script of `examples/` prints what its first lines say, run by itself in a folder of its own."""

from __future__ import annotations

import ast
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

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


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 5


def test_the_example_on_spark_prints_what_it_says_in_the_session_of_tests(session, monkeypatch, tmp_path, capsys) -> None:
    (script,) = ON_SPARK
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(type(session), "stop", lambda _: None)
    runpy.run_path(str(script))
    assert capsys.readouterr().out.splitlines() == promised(script)


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
    import rpq
    import rpq.readers
    import rpq.spark

    public = {"rpq": rpq.__all__, "rpq.readers": rpq.readers.__all__, "rpq.spark": rpq.spark.__all__}
    for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] == "rpq":
            assert {name.name for name in node.names} <= {*public.get(str(node.module), ())}
        elif isinstance(node, ast.Import):
            assert {name.name for name in node.names if name.name.split(".")[0] == "rpq"} <= {"rpq"}
        elif isinstance(node, ast.Attribute):
            assert not node.attr.startswith("_"), node.attr
            if isinstance(node.value, ast.Name) and node.value.id == "rpq":
                assert node.attr in rpq.__all__
