"""A process that keeps the engines of a share while Python workers come and go, and a worker's connection to it.

Spark runs a task in whichever of its workers has been idle for longest, so the shares of one machine swap workers all the
time, and Spark ends workers that were idle for a minute.  An engine inside a worker would have to catch up, or be built
again, about every second micro-batch.  On Linux, therefore, each share of an executor has a process for its engines
(`python -m rpq.spark.stream.engine_host`), which the first worker that needs it starts.  Workers send tuples to the process
and receive packed rows (`engine_of`).

The process serves only its own user: the kernel reports the user at the other end of a connection to both sides.

The process is a cache: an engine in it is used only if its token is one of the state's (`rpq.spark.stream.processor`).  It
ends with the process that Spark started for its workers, or when no worker has called for `LONGEST_IDLE` seconds.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from glob import escape, glob
from multiprocessing.connection import Client, Connection, Listener
from typing import Any

import pyarrow as pa

from rpq.errors import RpqError
from rpq.spark.errors import PipelineError
from rpq.spark.stream.packed_rows import Packed
from rpq.spark.stream.share_engine import EngineCache, EngineHere, Outcome, ShareEngine, ShareOfAnswers

LONGEST_IDLE = 900.0
_LOOK_EVERY = 1.0

ROWS, DONE, FAILED, ASKS = "rows", "done", "failed", "asks"
"""What an answer begins with: packed rows, of which more come; the result; an error; that it is to be told what is asked."""


class _Gone(Exception):
    """The worker that called has ended."""


class _Call:
    """What a worker and this process say to one another.  Its methods raise `_Gone`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def heard(self) -> bytes:
        """What the worker says next."""
        said: bytes = self._told(self._connection.recv_bytes)
        return said

    def answer(self, kind: str, value: Any = None) -> None:
        """Tell the worker."""
        content = pickle.dumps((kind, value))
        self._told(lambda: self._connection.send_bytes(content))

    def go_on(self) -> None:
        """Nothing, while the worker waits for an answer; it says nothing then, so what can be read is its end."""
        if self._told(self._connection.poll):
            raise _Gone

    @staticmethod
    def _told(what: Callable[[], Any]) -> Any:
        try:
            return what()
        except (EOFError, ConnectionError) as end:
            raise _Gone from end


class _Host:
    """Serves workers, each in a thread of its own."""

    def __init__(self, files: str) -> None:
        self._files = files
        self._cache = EngineCache()
        self._known: dict[bytes, ShareOfAnswers] = {}
        self._calls = 0
        self._called_at = time.monotonic()
        self._lock = threading.Lock()

    def serve(self, connection: Connection) -> None:
        """Do what a worker asks until it ends the call."""
        self._count(1)
        try:
            with connection:
                if user_of(connection) == os.getuid():
                    self._serve(_Call(connection))
        except _Gone:
            pass  # so has the engine, unless it was kept
        finally:
            self._count(-1)

    def _serve(self, call: _Call) -> None:
        engine: EngineHere | None = None
        while True:
            try:
                if engine is None:
                    engine = EngineHere(self._asked(call), self._cache, shares=len(glob(self._files)), go_on=call.go_on)
                    call.answer(DONE)
                name, values = pickle.loads(call.heard())
                self._answer(call, engine, name, values)
            except _Gone:
                raise
            except Exception as error:
                call.answer(FAILED, failure(error))

    def _asked(self, call: _Call) -> ShareOfAnswers:
        digest = call.heard()
        if digest not in self._known:
            call.answer(ASKS)
            asked: ShareOfAnswers = pickle.loads(call.heard())
            self._known = {digest: asked}  # queries may be many, and another set of them is rare
            return asked
        return self._known[digest]

    @staticmethod
    def _answer(call: _Call, engine: EngineHere, name: str, values: tuple[Any, ...]) -> None:
        if name == "apply":
            for packed in engine.apply(*values):
                call.answer(ROWS, packed)
            call.answer(DONE, engine.outcome)
        else:
            call.answer(DONE, getattr(engine, name)(*values))

    def _count(self, calls: int) -> None:
        with self._lock:
            self._calls += calls
            self._called_at = time.monotonic()

    def is_needed(self, parent: int) -> bool:
        """Whether a worker may call again."""
        idle = 0.0 if self._calls else time.monotonic() - self._called_at
        return idle < LONGEST_IDLE and is_there(parent)


def user_of(connection: Connection) -> int:
    """The user whose process is at the other end of a connection."""
    with socket.socket(fileno=os.dup(connection.fileno())) as other:
        told = other.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", told)[1])


def is_there(process: int) -> bool:
    """Whether a process has not ended."""
    return os.path.exists(f"/proc/{process}")


def failure(error: Exception) -> tuple[Any, ...]:
    """An error as it can be sent: ours with what they say, of others their text."""
    if isinstance(error, RpqError):
        return type(error), error.args, {name: value for name, value in error.__dict__.items() if name != "changes"}
    return RuntimeError, ("".join(traceback.format_exception(error)),), {}


def raised(kind: type[Exception], values: tuple[Any, ...], attributes: dict[str, Any]) -> Exception:
    """The same error again."""
    error = kind.__new__(kind, *values)
    error.args = values
    error.__dict__.update(attributes, **({"changes": None} if "row" in attributes else {}))
    return error


def main(parent: int, files: str) -> None:
    """Serve the workers of a parent at an address, which is written out; `files` are those of all shares of the executor."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # workers do not end by it either
    host = _Host(files)
    address = f"rpq-{os.urandom(8).hex()}"
    with Listener(family="AF_UNIX", address=f"\0{address}", backlog=64) as listener:
        print(address, flush=True)
        os.dup2(2, 1)

        def watch() -> None:
            while host.is_needed(parent):
                time.sleep(_LOOK_EVERY)
            os._exit(0)

        threading.Thread(target=watch, daemon=True).start()
        while True:
            try:
                connection = listener.accept()
            except OSError:  # gone already, or more are open than may be
                time.sleep(0.1)
                continue
            threading.Thread(target=host.serve, args=(connection,), daemon=True).start()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])


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
    command = [sys.executable, "-m", "rpq.spark.stream.engine_host", str(parent), files]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=variables, text=True)
    assert process.stdout is not None
    with process.stdout:
        address = process.stdout.readline().strip()
    if not address:
        raise PipelineError(f"the process that keeps engines does not start: it ended with status {process.wait()}")
    return address
