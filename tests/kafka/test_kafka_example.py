"""The compose file of `examples/kafka`: its steps without Docker, with a broker of the tests; and the page's commands."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

import rpq
from rpq.workloads.generate.interactions import Interactions, generate_interactions
from tests.kafka.kafka_process import ROOT, ended
from tests.services.kafka_broker import free_ports

COMPOSE = ROOT / "examples" / "kafka" / "compose.yaml"


def steps(address: str, folder: Path, port: int) -> dict[str, list[str]]:
    """The commands of the services, here."""
    yaml = pytest.importorskip("yaml")
    services = yaml.safe_load(COMPOSE.read_text())["services"]
    found = {name: [str(word) for word in service.get("command", [])] for name, service in services.items()}
    changes = {"broker:9092": address, "/source/": f"{ROOT}/", "/data/": f"{folder}/", "=9100": f"=127.0.0.1:{port}"}
    for words in found.values():
        for number, word in enumerate(words):
            for old, new in changes.items():
                word = word.replace(old, new)
            words[number] = word
        if words:
            words[:1] = [sys.executable] if words[0] == "python" else [sys.executable, "-m", "rpq.cli"]
    return found


def test_the_steps_of_the_compose_file_give_the_current_answer(kafka, tmp_path) -> None:
    (port,) = free_ports(1)
    commands = steps(kafka.broker.address, tmp_path, port)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    produced = subprocess.run([*commands["producer"], "3000"], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert produced.returncode == 0 and "3,000 edges are in the topic edges" in produced.stdout, produced.stderr
    tuples = generate_interactions(Interactions(edges=3000, seed=1))
    day = 86_400
    engine = rpq.Engine(rpq.Query("a2q/c2a", window=rpq.Window(size=30 * day, slide=day), semantics="explicit"))
    count = len(engine.push(tuples, collect=False))
    with open(tmp_path / "log", "ab") as log:
        process = subprocess.Popen(commands["rpq"], cwd=tmp_path, env=environment, stderr=log)
    try:
        until = time.monotonic() + 90
        while len(kafka.committed("answers")) < count:
            assert process.poll() is None and time.monotonic() < until, (tmp_path / "log").read_text()
            time.sleep(0.2)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as response:
            assert b"rpq_messages_total" in response.read()
    finally:
        assert ended(process, signal.SIGTERM) == 0
    current = {}
    for message in kafka.committed("answers"):
        current[message.key] = message.value
    pairs = {tuple(json.loads(key)[1:]) for key, value in current.items() if value is not None}
    assert pairs == engine.answers().pairs() != set()


def test_options_that_the_page_names_are_there() -> None:
    text = (ROOT / "docs" / "kafka.md").read_text()
    from rpq.cli.run import run
    from rpq.spark.cli import stream_command

    known = {name for parameter in (*run.params, *stream_command.params) for name in parameter.opts}
    assert {*re.findall(r"--[a-z][a-z-]+", text)} <= known | {"--isolation-level"}
