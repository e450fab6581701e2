"""The command over topics as a process: started, killed, asked to end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
QUERY = ["a/b*", "--window", "40", "--slide", "5", "--semantics", "explicit"]


def started(*arguments: object, log: Path | None = None, query: list[str] = QUERY) -> subprocess.Popen[bytes]:
    """Start `rpq run`; what it says goes to a file."""
    out = open(log, "ab") if log is not None else subprocess.PIPE  # noqa: SIM115
    command = [sys.executable, "-m", "rpq.cli", "run", *query, *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=out, env={**os.environ})


def ended(process: subprocess.Popen[bytes], how: signal.Signals | None = None, *, seconds: float = 120) -> int:
    """Wait for the end, having asked for it if a signal is given; the exit status."""
    if how is not None:
        process.send_signal(how)
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise
