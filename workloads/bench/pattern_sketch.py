"""The C++ sketch of the same joins, run beside the engine: ratios are worth something only from one machine and hour.

The sketch is no part of this project. Its folder, which its own script fills, holds the program `patterns`, the
streams and `patterns.txt`, the list of the patterns by name.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from rpq.workloads.bench.streams import StreamError

_FOUND = re.compile(r"pos=(\d+) neg=(\d+) sec=([\d.]+).*\(\+(\d+)MB\)")
_EXPLICIT, _WITH_ROWS, _WITH_LOOK_AHEAD = "1", "2", "1"
_BY_A_SHELL = ("sh", "-c", '"$0" "$@"; exit $?')
"""A program's peak of memory begins with that of the process which starts it: a shell has a small one."""


@dataclass(frozen=True, kw_only=True)
class SketchRun:
    """What one run of the sketch printed: rows, CPU seconds, memory beyond its input."""

    rows_added: int
    rows_removed: int
    seconds: float
    megabytes: int


def run_sketch(folder: Path, name: str) -> SketchRun:
    """The faster of its two variants, look-ahead alone and support lists, for a pattern by name. Raises `StreamError`."""
    return min((_run(folder, name, lists) for lists in "01"), key=lambda run: run.seconds)


def _run(folder: Path, name: str, lists: str) -> SketchRun:
    arguments = [f"{folder}/", name, str(folder / "patterns.txt"), _EXPLICIT, _WITH_ROWS, lists, _WITH_LOOK_AHEAD]
    try:
        command = [*_BY_A_SHELL, str(folder.resolve() / "patterns"), *arguments]
        ran = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise StreamError(f"{folder}: the sketch does not run {name}: {error}") from error
    found = _FOUND.search(ran.stdout)
    if found is None:
        raise StreamError(f"{folder}: the sketch printed no figures of {name}: {ran.stdout.strip()!r}")
    added, removed, seconds, megabytes = found.groups()
    return SketchRun(rows_added=int(added), rows_removed=int(removed), seconds=float(seconds), megabytes=int(megabytes))
