"""The page on the server: what it shows can be pasted."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.services.served import ROOT, Command

BLOCK = re.compile(r"```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
PAGE = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
(SERVING,) = re.findall(r"^rpq serve (.*)$", PAGE, re.MULTILINE)
COMMANDS = [
    command
    for language, block in BLOCK.findall(PAGE)
    if language == "sh"
    for command in block.replace("\\\n", " ").splitlines()
    if command.startswith("curl ")
]


@pytest.mark.ci
@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_every_command_of_the_page_works(tmp_path: Path) -> None:
    arguments = [str(tmp_path / one) if one.endswith(".state") else one for one in shlex.split(SERVING)]
    with Command(*arguments, log=tmp_path / "log") as served:
        assert len(COMMANDS) == 8
        for command in COMMANDS:
            command = command.replace("http://127.0.0.1:8000", served.url)
            if "/changes" in command:
                # It was dropped by then.
                assert served.register("?x a2q ?y . ?y c2a+ ?z", window="7d", name="near").status_code == 201
                followed = subprocess.run(
                    ["bash", "-c", command.replace("curl -N", "curl -sN --max-time 2")], capture_output=True, check=False
                )
                assert b"event: start" in followed.stdout
                continue
            done = subprocess.run(
                ["bash", "-c", command.replace("curl ", "curl -s -w '\\n%{http_code}' ", 1)], capture_output=True, text=True
            )
            body, _, status = done.stdout.rpartition("\n")
            expected = ["404"] if "witness" in command else ["200", "201", "204"]  # nobody was near yet
            assert status in expected, (command, done.stdout)
            if "/tuples" in command:
                (documented,) = (block for language, block in BLOCK.findall(PAGE) if language == "json" and "late" in block)
                assert json.loads(body) == json.loads(documented)
        assert served.end() == 0


def test_an_error_is_as_the_page_says(tmp_path: Path) -> None:
    (documented,) = (block for language, block in BLOCK.findall(PAGE) if language == "json" and "error" in block)
    with Command(log=tmp_path / "log") as served:
        assert served.client.post("/check", json={"expression": "a/b||c", "window": 10}).json() == json.loads(documented)
        served.end()


def test_the_options_that_the_page_names_are_there() -> None:
    from rpq.serve.command import serve

    known = {name for parameter in serve.params for name in parameter.opts}
    others = {"--json", "--data-binary", "--page", "--message"}
    assert set(re.findall(r"--[a-z][a-z-]+", PAGE)) - others <= known


def test_the_command_of_the_readme_serves(tmp_path: Path) -> None:
    (arguments,) = re.findall(r"^rpq serve (.*)$", README, re.MULTILINE)
    given = [str(tmp_path / one) if one.endswith(".state") else one for one in shlex.split(arguments)]
    with Command(*given, log=tmp_path / "log") as served:
        assert served.client.get("/readyz").status_code == 200 and served.end() == 0
