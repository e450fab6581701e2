"""The walks of docs/architecture.md are the calls that a push makes, in this order and each once."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

from tests.environments import ROOT

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


def functions_of(walk: str) -> list[str]:
    """Return the functions that a walk names, in its order."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    steps = text.split(f"### {walk}\n")[1].split("\n#")[0]
    return [name for name in re.findall(r"`([\w.]+)`", steps) if name != "Changes"]


@pytest.mark.parametrize("walk", QUERIES)
def test_a_push_takes_the_steps_of_the_walk(walk: str) -> None:
    names = functions_of(walk)
    assert len(names) > 8
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps([QUERIES[walk], names])],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    assert json.loads(run.stdout) == names
