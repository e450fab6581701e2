"""A baseline in a process of its own, which can be ended when its time is up.

An evaluation of a path inside a store cannot be interrupted, and on dense graphs it can take hours. The process is
this module run as a program; it reads pickled requests from its input and writes pickled answers to its output.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, BinaryIO, Protocol

from rpq.workloads.baselines.window_edges import Edge

Pairs = set[tuple[str, str]]


class Baseline(Protocol):
    """Evaluates a query anew over edges that it is told of."""

    def change(self, added: list[Edge], removed: list[Edge]) -> None:
        """Take edges in and out."""

    def count(self) -> int:
        """Evaluate; how many pairs there are."""

    def pairs(self) -> Pairs:
        """Evaluate; the pairs."""


class TimeIsUpError(Exception):
    """A baseline did not answer in time and was ended."""


class Confined:
    """A baseline made by `make` (a function that can be pickled, such as a partial of a class) in its own process."""

    def __init__(self, make: Callable[[], Baseline]) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        command = [sys.executable, "-m", "rpq.workloads.baselines.confined"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        self._send(make)

    def __enter__(self) -> Confined:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self._process.kill()
        self._process.communicate()

    def change(self, added: list[Edge], removed: list[Edge]) -> None:
        """Take edges in and out, untimed."""
        self._ask("change", (added, removed), None)

    def evaluate(self, added: list[Edge], removed: list[Edge], *, seconds: float) -> float:
        """Take edges in and out and evaluate; the seconds both took. Raises `TimeIsUpError` beyond `seconds`."""
        taken, _ = self._ask("evaluate", (added, removed), seconds)
        return taken

    def pairs(self, *, seconds: float) -> Pairs:
        """The pairs. Raises `TimeIsUpError`."""
        _, found = self._ask("pairs", (), seconds)
        return found

    def _ask(self, request: str, arguments: tuple[Any, ...], seconds: float | None) -> Any:
        timer = threading.Timer(seconds, self._process.kill) if seconds is not None else None
        if timer is not None:
            timer.start()
        try:
            self._send((request, arguments))
            assert self._process.stdout is not None
            return pickle.load(self._process.stdout)
        except (EOFError, BrokenPipeError, pickle.UnpicklingError) as error:
            raise TimeIsUpError(f"not done in {seconds:g} s" if seconds is not None else "ended") from error
        finally:
            if timer is not None:
                timer.cancel()

    def _send(self, message: Any) -> None:
        assert self._process.stdin is not None
        pickle.dump(message, self._process.stdin)
        self._process.stdin.flush()


def _serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer requests with (seconds, result) until there are no more."""
    baseline: Baseline = pickle.load(requests)()
    while True:
        try:
            request, arguments = pickle.load(requests)
        except EOFError:
            return
        result: int | Pairs | None = None
        started = time.perf_counter()
        if request == "pairs":
            result = baseline.pairs()
        else:
            baseline.change(*arguments)
            if request == "evaluate":
                result = baseline.count()
        pickle.dump((time.perf_counter() - started, result), answers)
        answers.flush()


if __name__ == "__main__":
    _serve(sys.stdin.buffer, sys.stdout.buffer)
