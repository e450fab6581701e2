"""A worker's call to the process that keeps the engines of its share (`rpq.spark.engine_host`)."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import secrets
import subprocess
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection
from typing import Any

import pyarrow as pa

from rpq.spark.engine_host import ASKS, FAILED, ROWS, raised
from rpq.spark.errors import PipelineError
from rpq.spark.packed_rows import Packed
from rpq.spark.share_engine import EngineCache, EngineHere, Outcome, ShareEngine, ShareOfAnswers

_GONE = (ConnectionError, FileNotFoundError, EOFError, AuthenticationError)


@contextmanager
def engine_of(asked: ShareOfAnswers, cache: EngineCache) -> Iterator[ShareEngine]:
    """The engine of a share: in the process that keeps it where there may be one, else in this one, with this cache."""
    folder = _folder()
    if folder is None:
        yield EngineHere(asked, cache)
        return
    content = pickle.dumps(asked)
    connection = _connected(os.path.join(folder, f"rpq-engines-{asked.share[0]}.json"))
    with connection:
        connection.send_bytes(hashlib.blake2b(content).digest())
        if connection.recv()[0] == ASKS:
            connection.send_bytes(content)
            connection.recv()
        yield _EngineThere(connection)


class _EngineThere:
    """The engine of a share in another process."""

    outcome: Outcome

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def take(self, stream: str, tokens: Collection[str]) -> str | None:
        found: str | None = self._call("take", stream, tokens)
        return found

    def build(self, edges: pa.Table | None, time: int | None) -> None:
        self._call("build", edges, time)

    def catch_up(self, missed: pa.Table | None, time: int) -> None:
        self._call("catch_up", missed, time)

    def apply(self, tuples: pa.Table, tick: int | None) -> Iterator[Packed]:
        kind, told = self._ask("apply", tuples, tick)
        while kind == ROWS:
            yield told
            kind, told = self._answer()
        self.outcome = told

    def keep(self, stream: str, token: str) -> int:
        return int(self._call("keep", stream, token))

    def _call(self, name: str, *values: Any) -> Any:
        return self._ask(name, *values)[1]

    def _ask(self, name: str, *values: Any) -> tuple[str, Any]:
        try:
            self._connection.send((name, values))
        except OSError as problem:
            raise _ended() from problem
        return self._answer()

    def _answer(self) -> tuple[str, Any]:
        try:
            kind, told = self._connection.recv()
        except (EOFError, OSError) as problem:
            raise _ended() from problem
        if kind == FAILED:
            raise raised(*told)
        return kind, told


def _ended() -> PipelineError:
    return PipelineError("the process that keeps the engine of a share has ended; its next task builds the engine again")


def _folder() -> str | None:
    """Where workers of an executor find what they have in common; None where there is no such process for them."""
    from pyspark import SparkFiles, TaskContext

    if sys.platform != "linux" or TaskContext.get() is None:
        return None
    folder = SparkFiles.getRootDirectory()
    return folder if os.access(folder, os.W_OK) else None


def _parent() -> int:
    """The process without which there are no workers: what started this one."""
    return os.getppid()


def _connected(path: str) -> Connection:
    """A connection to the process of which a file tells, which is started if it is not there.  Raises `PipelineError`."""
    import fcntl

    with open(os.open(path, os.O_CREAT | os.O_RDWR, 0o600), "r+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with suppress(ValueError, KeyError, *_GONE):
            told = json.loads(file.read())
            return Client("\0" + told["address"], family="AF_UNIX", authkey=bytes.fromhex(told["key"]))
        key = secrets.token_hex(32)
        address = _started(key)
        file.seek(0)
        file.truncate()
        json.dump({"address": address, "key": key}, file)
        file.flush()
        try:
            return Client("\0" + address, family="AF_UNIX", authkey=bytes.fromhex(key))
        except _GONE as problem:
            raise _ended() from problem


def _started(key: str) -> str:
    """The address of a new process, which has the paths of this one."""
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-m", "rpq.spark.engine_host", str(_parent())]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=variables, text=True)
    assert process.stdin is not None and process.stdout is not None
    with suppress(BrokenPipeError), process.stdin:
        process.stdin.write(key + "\n")
    with process.stdout:
        address = process.stdout.readline().strip()
    if not address:
        raise PipelineError(f"the process that keeps engines does not start: it ended with status {process.wait()}")
    return address
