"""The pages on the server: what they show can be pasted."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from rpq.serve.command import serve
from tests.services.served import ROOT, Command, Served

BLOCK = re.compile(r"```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
PAGE = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")
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
        assert COMMANDS
        bodies: dict[str, str] = {}
        for command in COMMANDS:
            command = command.replace("http://127.0.0.1:8000", served.url)
            if "/changes" in command:
                following = shlex.split(command.replace("-N", "-sN --max-time 60", 1))
                follower = subprocess.Popen(following, stdout=subprocess.PIPE, text=True)
                assert follower.stdout is not None
                events = follower.stdout.readline()
                continue
            done = subprocess.run(
                ["bash", "-c", command.replace("curl ", "curl -s -w '\\n%{http_code}' ", 1)], capture_output=True, text=True
            )
            body, _, status = done.stdout.rpartition("\n")
            assert status in ("200", "201", "204"), (command, done.stdout)
            bodies[command.replace(served.url, "")] = body
        (posted,) = (body for command, body in bodies.items() if "ndjson" in command)
        (documented,) = (block for language, block in BLOCK.findall(PAGE) if language == "json" and "late" in block)
        assert json.loads(posted) == json.loads(documented)
        (answers,) = (body for command, body in bodies.items() if "/answers" in command)
        assert json.loads(answers)["rows"] == [["ann", "bob", "cho"]]
        with follower:
            events += follower.stdout.read()  # up to the end of the query
        (documented,) = re.findall(r"^```\n(id: .*?)^```", PAGE, re.DOTALL | re.MULTILINE)
        shown = re.sub(r"(?m)^(id: \d+)-.*", r"\1", events).strip()
        assert shown == re.sub(r"(?m)^(id: \d+)-.*", r"\1", documented).strip()
        assert served.end() == 0


RUNNING = (ROOT / "docs" / "running.md").read_text(encoding="utf-8")


@pytest.mark.ci
@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_a_server_is_run_backed_up_and_restored_as_the_page_says(tmp_path: Path) -> None:
    blocks = BLOCK.findall(RUNNING)
    (config,) = (block for language, block in blocks if language == "toml")
    backup, restore = (block for language, block in blocks if language == "sh")
    (shown,) = (json.loads(block) for language, block in blocks if language == "json")
    assert re.search("^ExecStart=/opt/rpq/bin/rpq serve --config /etc/rpq/server.toml$", RUNNING, re.MULTILINE)
    (tmp_path / "queries.toml").write_text("[[query]]\nquery = 'a+'\nwindow = '7d'\nslide = '1d'\nsemantics = 'explicit'\n")

    def here(text: str) -> str:
        return text.replace("/var/lib/rpq", str(tmp_path)).replace("/etc/rpq", str(tmp_path))

    (tmp_path / "server.toml").write_text(here(config))
    options = ["--config", str(tmp_path / "server.toml")]
    with Command(*options, log=tmp_path / "log") as served:
        served.post(("x", "y", "a", 1), key="one")
        url = ["bash", "-c", backup.replace("http://127.0.0.1:8000", served.url).replace("curl ", "curl -s ")]
        written = json.loads(subprocess.run(url, capture_output=True, text=True, check=True).stdout)
        assert written.keys() == shown.keys() and re.sub(r"\d+", "0", written["name"]) == re.sub(r"\d+", "0", shown["name"])
        served.post(("y", "z", "a", 2), key="two")
        served.kill()
    commands = here(restore).replace(shown["name"], written["name"]).replace("--owner=rpq ", "")
    subprocess.run(["bash", "-euc", "systemctl() { :; }\n" + commands], check=True)
    with Command(*options, log=tmp_path / "log") as served:
        assert served.answers("a+") == {("x", "y")}
        assert served.post(("x", "y", "a", 1), key="one").json()["position"] == written["position"]
        assert served.post(("y", "z", "a", 2), key="two").json()["position"] == written["position"] + 1


def test_the_container_has_options_that_there_are() -> None:
    yaml = pytest.importorskip("yaml")
    (compose,) = (yaml.safe_load(block) for language, block in BLOCK.findall(RUNNING) if language == "yaml")
    command, *options = compose["services"]["rpq"]["command"]
    known = {name for one in serve.params for name in one.opts}
    assert command == "serve" and {option.partition("=")[0] for option in options} <= known


def test_an_error_is_as_the_page_says() -> None:
    (documented,) = (block for language, block in BLOCK.findall(PAGE) if language == "json" and "error" in block)
    with Served() as served:
        assert served.client.post("/check", json={"expression": "a/b||c", "window": 10}).json() == json.loads(documented)
