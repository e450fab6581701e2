"""The README is true: its Python prints what it shows, and its commands run as they are pasted."""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"(?<!-->\n)^```sh\n(.*?)```", README, re.DOTALL | re.MULTILINE)
EXAMPLES = re.findall(r"^```python\n(.*?)^```\n\n```\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize(("code", "shown"), EXAMPLES, ids=range(len(EXAMPLES)))
def test_the_python_prints_what_the_readme_says(code: str, shown: str) -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {})
    assert [line.rstrip() for line in printed.getvalue().splitlines()] == [line.rstrip() for line in shown.splitlines()]


@pytest.mark.ci
@pytest.mark.parametrize("block", COMMANDS, ids=range(len(COMMANDS)))
def test_commands_work_as_they_are_pasted(block: str, tmp_path: Path) -> None:
    (tmp_path / "rpq").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m rpq.cli "$@"\n')
    (tmp_path / "rpq").chmod(0o755)
    environment = {**os.environ, "PATH": os.pathsep.join([str(tmp_path), os.environ["PATH"]]), "PYTHONPATH": str(ROOT)}
    command = ["bash", "-euo", "pipefail", "-c", block]
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert len(ran.stdout.splitlines()) > 1
