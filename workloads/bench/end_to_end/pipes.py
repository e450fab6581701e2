"""Latency through the command: from an event at its input to the row that the event causes at its output.

Events have their numbers as timestamps, so that the timestamp of a row identifies the event that caused it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import IO

import numpy as np
import pyarrow as pa

from rpq.workloads.bench.streams import Stream

EXPRESSION = "a2q/c2a"
WINDOW, SLIDE = 6_000, 200
RATE = 10_000  # events a second; the window is that of about 30 days on MathOverflow, the slide a day
EVENTS = 60_000
FULL = 1_000_000

HOW = (
    "Through the command: events are sent to a process `rpq run a2q/c2a` at 10,000 a second (ten a millisecond) or as fast "
    "as they are accepted, and the time is measured from just before an event is sent until its row is read. "
)


def lines_of(stream: Stream, count: int) -> list[bytes]:
    """Return the first tuples of a stream as JSON objects, with their numbers as timestamps; a short stream is repeated."""
    table = stream.table.select(["source", "target", "label"])
    table = pa.concat_tables([table] * -(-count // len(table))).slice(0, count)
    table = table.append_column("timestamp", pa.array(np.arange(count)))
    return [json.dumps(row, ensure_ascii=False).encode() for row in table.to_pylist()]


class Clock:
    """The times at which events were sent and rows received; `last` is the time of the last row."""

    def __init__(self, events: int) -> None:
        self.sent = np.zeros(events, np.int64)
        self.took: list[int] = []
        self.last = time.monotonic()

    def record(self, event: int, at: int) -> None:
        """Record the time of a row of an event."""
        self.took.append(at - int(self.sent[event]))
        self.last = time.monotonic()


def send_paced(lines: Sequence[bytes], rate: int | None, send: Callable[[Sequence[bytes]], None], clock: Clock) -> float:
    """Send lines at `rate` per second, or as fast as they are accepted; return the elapsed seconds."""
    step = 10 if rate is not None else 5_000
    began = time.perf_counter_ns()
    for start in range(0, len(lines), step):
        if rate is not None:
            ahead = start / rate - (time.perf_counter_ns() - began) / 1e9
            if ahead > 0:
                time.sleep(ahead)
        part = lines[start : start + step]
        clock.sent[start : start + len(part)] = time.perf_counter_ns()
        send(part)
    return (time.perf_counter_ns() - began) / 1e9


def command(*arguments: str) -> list[str]:
    """Return the command that runs the query over events."""
    options = ["--window", str(WINDOW), "--slide", str(SLIDE), "--format", "jsonl", "--quiet"]
    return [sys.executable, "-m", "rpq.cli", "run", EXPRESSION, *options, *arguments]


def through_pipes(lines: Sequence[bytes], rate: int | None) -> tuple[Clock, float]:
    """Measure from standard input to standard output; return the times, and the number of events per second."""
    process = subprocess.Popen(command("--input", "-", "--output", "-"), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None and process.stdout is not None
    clock = Clock(len(lines))
    reader = threading.Thread(target=_read_rows, args=(process.stdout, clock))
    reader.start()
    stdin = process.stdin

    def send(part: Sequence[bytes]) -> None:
        stdin.write(b"\n".join(part) + b"\n")
        stdin.flush()

    time.sleep(_start_seconds())
    began = time.perf_counter()
    send_paced(lines, rate, send, clock)
    stdin.close()
    reader.join()
    seconds = time.perf_counter() - began
    process.wait()
    return clock, len(lines) / seconds


def _start_seconds() -> float:
    """Return the seconds that a process needs before its first event, which are not part of a latency."""
    began = time.perf_counter()
    subprocess.run(command("--input", "-", "--output", "-"), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began + 0.5


def _read_rows(out: IO[bytes], clock: Clock) -> None:
    next(iter(out), None)  # the header
    for line in out:
        clock.record(int(line.split(b",")[2]), time.perf_counter_ns())
