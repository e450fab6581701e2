"""A worker's call to the process that keeps the engines of its share (`rpq.spark.engine_host`)."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from glob import escape
from multiprocessing.connection import Client, Connection
from typing import Any

import pyarrow as pa

from rpq.spark.engine_host import ASKS, FAILED, ROWS, is_there, raised, user_of
from rpq.spark.errors import PipelineError
from rpq.spark.packed_rows import Packed
from rpq.spark.share_engine import EngineCache, EngineHere, Outcome, ShareEngine, ShareOfAnswers

_FILE = "rpq-engines-{}.json"
_GONE = (ConnectionError, EOFError)


@contextmanager
def engine_of(asked: ShareOfAnswers, cache: EngineCache) -> Iterator[ShareEngine]:
    """The engine of a share: in the process that keeps it where there may be one, else in this one, with this cache."""
    folder = _folder()
    if folder is None:
        yield EngineHere(asked, cache)
        return
    content = pickle.dumps(asked)
    connection = _connected(folder, asked.share[0])
    try:
        engine = _EngineThere(connection, content)
    except _Ended:  # just now, as it does when nobody has called for long; nothing was asked of it
        connection.close()
        connection = _connected(folder, asked.share[0])
        engine = _EngineThere(connection, content)
    with connection:
        yield engine


class _Ended(PipelineError):
    """The process that keeps an engine has ended in a call."""


class _EngineThere:
    """The engine of a share in another process, which is told what is asked if it does not know it."""

    outcome: Outcome

    def __init__(self, connection: Connection, asked: bytes) -> None:
        self._connection = connection
        self._say(hashlib.blake2b(asked).digest())
        if self._answer()[0] == ASKS:
            self._say(asked)
            self._answer()

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
        self._say(pickle.dumps((name, values)))
        return self._answer()

    def _say(self, content: bytes) -> None:
        try:
            self._connection.send_bytes(content)
        except _GONE as problem:
            raise _ended() from problem

    def _answer(self) -> tuple[str, Any]:
        try:
            kind, told = self._connection.recv()
        except _GONE as problem:
            raise _ended() from problem
        if kind == FAILED:
            raise raised(*told)
        return kind, told


def _ended() -> _Ended:
    return _Ended("the process that keeps the engine of a share has ended; its next task builds the engine again")


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


def _connected(folder: str, number: int) -> Connection:
    """A connection to the process that keeps the engines of a share, which is started if it is not there.

    Raises `PipelineError`.
    """
    import fcntl

    path = os.path.join(folder, _FILE.format(number))
    with open(os.open(path, os.O_CREAT | os.O_RDWR, 0o600), "r+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with suppress(ValueError, TypeError, KeyError, OSError):
            told = json.loads(file.read())
            if is_there(told["parent"]):
                return _connection(told["address"])
        parent = _parent()
        address = _started(parent, os.path.join(escape(folder), _FILE.format("*")))
        file.seek(0)
        file.truncate()
        json.dump({"address": address, "parent": parent}, file)
        file.flush()
        try:
            return _connection(address)
        except _GONE as problem:
            raise _ended() from problem


def _connection(address: str) -> Connection:
    """A connection to a process of this user.  Raises `OSError`."""
    connection = Client(f"\0{address}", family="AF_UNIX")
    if user_of(connection) != os.getuid():
        connection.close()
        raise ConnectionRefusedError("another user's process is there")
    return connection


def _started(parent: int, files: str) -> str:
    """The address of a new process, which has the paths of this one."""
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-m", "rpq.spark.engine_host", str(parent), files]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=variables, text=True)
    assert process.stdout is not None
    with process.stdout:
        address = process.stdout.readline().strip()
    if not address:
        raise PipelineError(f"the process that keeps engines does not start: it ended with status {process.wait()}")
    return address
