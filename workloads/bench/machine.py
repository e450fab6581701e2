"""The machine and the versions of a measurement, and the speed of a fixed loop on it."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from rpq.compiled.kernel_cache import njit

PACKAGES = ("numba", "numpy", "pyarrow", "pyoxigraph", "matplotlib")
_BLOCKS, _LANES, _STEPS = 64, 64, 400_000


def describe_machine() -> dict[str, Any]:
    """Describe the processor, the versions, the commit, the time, and the nanoseconds of a calibration step."""
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "load_average": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **{name: _version(name) for name in PACKAGES},
        "commit": commit_of_checkout(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "calibration_ns_per_step": round(calibrate(), 3),
    }


def calibrate(repeat: int = 25) -> float:
    """Return the nanoseconds of a step of a fixed vector loop over 64 bytes, b = max(b, min(a, w)), the best of `repeat`.

    This is the step of the index on a dense block, in the first-level cache; it makes machines comparable.
    """
    source = np.random.default_rng(1).integers(0, 250, _BLOCKS * _LANES).astype(np.uint8)
    _steps(source, np.zeros_like(source), 1)
    best = float("inf")
    for _ in range(repeat):
        target = np.zeros_like(source)
        started = time.perf_counter()
        _steps(source, target, _STEPS)
        best = min(best, time.perf_counter() - started)
    return best / _STEPS * 1e9


@njit(cache=True)
def _steps(source, target, steps):
    one = np.uint64(1)  # offsets are unsigned: a signed offset could count from the end, which prevents vectorisation
    grown = np.uint64(0)
    for step in range(steps):
        first = (np.uint64(step) % np.uint64(_BLOCKS)) * np.uint64(_LANES)
        bound = np.uint8(step)
        more = np.uint8(0)
        place = first
        for _ in range(_LANES):
            value = min(source[place], bound)
            more |= np.uint8(value > target[place])
            target[place] = max(target[place], value)
            place += one
        grown += np.uint64(more)
    return grown


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def commit_of_checkout() -> str | None:
    """Return the commit of the checkout that contains this module, with a + if its code has been changed since."""
    root = Path(__file__).resolve().parents[2]
    try:
        ran = [
            subprocess.run(["git", "-C", str(root), *command], capture_output=True, text=True, check=True).stdout.strip()
            for command in (
                ["rev-parse", "--short", "HEAD"],
                ["status", "--porcelain", "-uno", "--", "automata", "rpq", "spark/*.py", "workloads/*.py"],
            )
        ]
    except (OSError, subprocess.CalledProcessError):
        return None
    return ran[0] + ("+" if ran[1] else "")
