"""The walks of docs/architecture.md are the calls that a push and a post make, in this order; a push makes each once."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import Any

import pytest

from tests.services.environments import ROOT

QUERIES = {
    "A tuple of a path query": "a/b",
    "A tuple of a pattern": "?x a ?y. ?y b ?z",
    "A tuple of an aggregate": "SELECT ?x (SUM(?y) AS ?sum) WHERE { ?x <a> ?z. ?z <b> ?y } GROUP BY ?x",
}

SCRIPT = """
import json, sys
import rpq

query, names = json.loads(sys.argv[1])
engine = rpq.Engine(rpq.Query(query, window=rpq.Window(size=10, slide=1)))
engine.push({"source": ["x", "z"], "target": ["y", "w"], "label": ["a", "b"], "timestamp": [1, 1]})
calls = []

def note(frame, event, argument):
    if event == "call" and "/rpq/" in frame.f_code.co_filename and frame.f_code.co_qualname in names:
        calls.append(frame.f_code.co_qualname)

sys.setprofile(note)
changes = engine.push({"source": ["y", "u"], "target": ["3", "v"], "label": ["b", "c"], "timestamp": [2, 2]})
sys.setprofile(None)
assert len(changes)
print(json.dumps(calls))
"""


POST = """
import json, sys, threading, time
from rpq.serve.service import Push, Service
from tests.services.served import Served

names = json.loads(sys.argv[1])
queued = names.index("Service.push") + 1
calls = []

def note(frame, event, argument):
    # The engine's thread waits inside of `_next` when the request arrives, so that this one is noted when it returns, with
    # the push. Until then the thread does other work, such as that of the follower, and commits this; it also does so where
    # nothing arrives for a second, which may be while the push is on its way.
    # Coroutines are called again whenever they go on: only the first time counts.
    name = frame.f_code.co_qualname
    if name in names and name not in calls and event == ("return" if name == "EngineThread._next" else "call"):
        if name == "EngineThread._next":
            is_step = any(isinstance(job, Push) for job in frame.f_locals["self"]._batch)
        else:
            is_step = name == names[0] or (calls and name in names[:queued]) or "EngineThread._next" in calls
        if is_step:
            calls.append(name)

def submit(service, job):
    time.sleep(0.01)
    return super(Service, service).submit(job)

# The engine's thread always does such work while a push is on its way, as by chance it may.
Service._idle_seconds = lambda service: 1e-4
Service.submit = submit
threading.setprofile(note)
with Served({"expression": "a/b", "window": 10, "slide": 1}) as served:
    with served.follow() as events:
        events.next("start")
        served.post(("x", "y", "a", 1), ("y", "z", "b", 2))
        assert events.next("changes")["changes"][0]["values"] == ["x", "z"]
threading.setprofile(None)
print(json.dumps(calls))
"""


def functions_of(walk: str) -> list[str]:
    """Return the functions that a walk names, in its order."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    steps = text.split(f"### {walk}\n")[1].split("\n#")[0]
    return [name for name in re.findall(r"`([\w.]+)`", steps) if name != "Changes"]


@pytest.mark.parametrize("walk", QUERIES)
def test_a_push_takes_the_steps_of_the_walk(walk: str) -> None:
    names = functions_of(walk)
    assert len(names) > 8
    assert run_script(SCRIPT, [QUERIES[walk], names]) == names


def test_a_post_takes_the_steps_of_the_walk() -> None:
    pytest.importorskip("msgspec", reason="the extra serve is not installed")
    names = functions_of("A post that becomes an event")
    assert len(names) == 11
    assert run_script(POST, names) == names


def run_script(script: str, argument: list[Any]) -> Any:
    """Run a script with plain Python in place of kernels; return what it prints as JSON."""
    run = subprocess.run(
        [sys.executable, "-c", script, json.dumps(argument)],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert not run.returncode, run.stderr
    return json.loads(run.stdout)
