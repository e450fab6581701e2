"""Latency through the server: from events posted over HTTP to the resulting server-sent changes."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from rpq.workloads.bench.end_to_end.pipes import EXPRESSION, SLIDE, WINDOW, Clock

START_SECONDS = 120.0
QUIET_SECONDS = 2.0
"""The time after the last post after which no more rows are expected."""

FULL_PART = 5_000
HEADERS = {"Content-Type": "application/x-ndjson"}

HOW = (
    "Over HTTP: one client posts due events to `rpq serve` on this machine (or 5,000 at once, as soon as the previous ones "
    "are acknowledged), and another client follows its changes; the time is measured from the moment when an event is due, "
    "so it includes the wait for the previous post. "
)


def is_there() -> bool:
    """Return whether the extra `serve` is installed."""
    return find_spec("starlette") is not None and find_spec("uvicorn") is not None


def through_server(lines: Sequence[bytes], rate: int | None) -> tuple[Clock, float]:
    """Measure from posts to server-sent events; return the times, and the number of acknowledged events per second."""
    clock = Clock(len(lines))
    with tempfile.TemporaryDirectory(prefix="rpq-latency-") as folder, open(Path(folder) / "log", "wb+") as log:
        options = ["--window", str(WINDOW), "--slide", str(SLIDE), "--port", "0", "--max-lag", "100000000", "--quiet"]
        command = [sys.executable, "-m", "rpq.cli", "serve", EXPRESSION, *options]
        process = subprocess.Popen(command, stderr=log)
        try:
            address = _address(Path(folder) / "log", process)
            follower = http.client.HTTPConnection(address, timeout=600)
            follower.request("GET", "/changes")
            response = follower.getresponse()
            started = threading.Event()
            reader = threading.Thread(target=_follow, args=(response, clock, started), daemon=True)
            reader.start()
            started.wait(START_SECONDS)
            poster = http.client.HTTPConnection(address, timeout=600)
            _post(poster, [b'{"source":"-","target":"-","label":"-","timestamp":0}'])  # one-time work
            seconds = _post_paced(poster, lines, rate, clock)
            clock.last = time.monotonic()
            while time.monotonic() - clock.last < QUIET_SECONDS:
                time.sleep(0.05)
        finally:
            process.terminate()
            process.wait(60)
        reader.join(30)
    return clock, len(lines) / seconds


def _address(log: Path, process: subprocess.Popen[bytes]) -> str:
    until = time.monotonic() + START_SECONDS
    while (found := re.search(r"serving at http://([^/\s]+)/", log.read_text())) is None:
        if process.poll() is not None or time.monotonic() > until:
            raise RuntimeError(f"the server does not start: {log.read_text()}")
        time.sleep(0.02)
    return found[1]


def _post(poster: http.client.HTTPConnection, lines: Sequence[bytes]) -> None:
    poster.request("POST", "/tuples", b"\n".join(lines) + b"\n", HEADERS)
    response = poster.getresponse()
    content = response.read()
    if response.status != 200:
        raise RuntimeError(f"the server refuses: {content.decode(errors='replace')}")


def _post_paced(poster: http.client.HTTPConnection, lines: Sequence[bytes], rate: int | None, clock: Clock) -> float:
    """Post events at `rate` per second, or as fast as they are accepted; return the elapsed seconds."""
    began = time.perf_counter_ns()
    if rate is not None:
        clock.sent[:] = began + np.arange(len(lines)) * (1e9 / rate)
    done = 0
    while done < len(lines):
        if rate is None:
            end = min(done + FULL_PART, len(lines))
            clock.sent[done:end] = time.perf_counter_ns()
        else:
            end = min(int((time.perf_counter_ns() - began) / 1e9 * rate) + 1, len(lines))
            if end == done:
                time.sleep(0.0002)
                continue
        _post(poster, lines[done:end])
        done = end
    return (time.perf_counter_ns() - began) / 1e9


def _follow(response: http.client.HTTPResponse, clock: Clock, started: threading.Event) -> None:
    kind = b""
    for line in response:
        if line.startswith(b"event: "):
            kind = line[7:].strip()
            if kind == b"start":
                started.set()
        elif line.startswith(b"data: ") and kind == b"changes":
            at = time.perf_counter_ns()
            for change in json.loads(line[6:])["changes"]:
                clock.record(change["timestamp"], at)
