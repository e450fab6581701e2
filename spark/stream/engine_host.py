"""A process that owns the engines of a share while Python workers start and end, and a worker's connection to the process.

Spark runs a task in the worker that has been idle longest, so the shares of one machine swap workers all the time, and Spark
ends workers that were idle for a minute.  An engine inside a worker would have to catch up, or be rebuilt, about every
second micro-batch.  On Linux, therefore, each share of an executor has a process for its engines
(`python -m rpq.spark.stream.engine_host`), which is started by the first worker that needs it.  Workers send tuples to the
process and receive packed rows (`connect_engine`).

The process serves only its own user: the operating system reports to both sides which user is at the other end of a
connection.

The process is a cache: an engine in it is used only if the state contains its token (`rpq.spark.stream.processor`).  The
process ends with the process that Spark started for its workers, or when no worker has called for `LONGEST_IDLE` seconds.
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
from rpq.spark.stream.packed_rows import PackedRows
from rpq.spark.stream.share_engine import BatchOutcome, EngineCache, LocalEngine, ShareEngine, ShareSpec

LONGEST_IDLE = 900.0
_LOOK_EVERY = 1.0

ROWS, DONE, FAILED, UNKNOWN = "rows", "done", "failed", "asks"
"""The kinds of replies: packed rows, with more to follow; the result; an error; a request for the whole `ShareSpec`."""


class _CallerEnded(Exception):
    """The worker that called has ended."""


class _Call:
    """The host's end of a call from a worker.  Its methods raise `_CallerEnded` if the worker has ended."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def receive(self) -> bytes:
        """Return the next message of the worker."""
        message: bytes = self._until_caller_ends(self._connection.recv_bytes)
        return message

    def answer(self, kind: str, value: Any = None) -> None:
        """Send an answer to the worker."""
        content = pickle.dumps((kind, value))
        self._until_caller_ends(lambda: self._connection.send_bytes(content))

    def check_caller(self) -> None:
        """Raise `_CallerEnded` if the worker has ended.

        A worker that waits for an answer sends nothing, so readable data means the end of the connection.
        """
        if self._until_caller_ends(self._connection.poll):
            raise _CallerEnded

    @staticmethod
    def _until_caller_ends(operation: Callable[[], Any]) -> Any:
        try:
            return operation()
        except (EOFError, ConnectionError) as end:
            raise _CallerEnded from end


class _Host:
    """A server of workers, each in a thread of its own."""

    def __init__(self, files: str) -> None:
        self._files = files
        self._cache = EngineCache()
        self._specs: dict[bytes, ShareSpec] = {}
        self._calls = 0
        self._last_call = time.monotonic()
        self._lock = threading.Lock()

    def serve(self, connection: Connection) -> None:
        """Serve a worker until it ends the call."""
        self._count(1)
        try:
            with connection:
                if peer_user(connection) == os.getuid():
                    self._serve(_Call(connection))
        except _CallerEnded:
            pass  # the engine is dropped too, unless the worker has called `store`
        finally:
            self._count(-1)

    def _serve(self, call: _Call) -> None:
        engine: LocalEngine | None = None
        while True:
            try:
                if engine is None:
                    engine = LocalEngine(
                        self._receive_spec(call), self._cache, shares=len(glob(self._files)), check_caller=call.check_caller
                    )
                    call.answer(DONE)
                name, values = pickle.loads(call.receive())
                self._answer(call, engine, name, values)
            except _CallerEnded:
                raise
            except Exception as error:
                call.answer(FAILED, error_parts(error))

    def _receive_spec(self, call: _Call) -> ShareSpec:
        digest = call.receive()
        cached = self._specs.get(digest)  # at once, because the thread of another stream may replace the specifications
        if cached is not None:
            return cached
        call.answer(UNKNOWN)
        spec: ShareSpec = pickle.loads(call.receive())
        self._specs = {digest: spec}  # only the latest: a share may have many queries, which seldom change
        return spec

    @staticmethod
    def _answer(call: _Call, engine: LocalEngine, name: str, values: tuple[Any, ...]) -> None:
        if name == "apply":
            for packed in engine.apply(*values):
                call.answer(ROWS, packed)
            call.answer(DONE, engine.outcome)
        else:
            call.answer(DONE, getattr(engine, name)(*values))

    def _count(self, calls: int) -> None:
        with self._lock:
            self._calls += calls
            self._last_call = time.monotonic()

    def is_needed(self, parent: int) -> bool:
        """Return whether a worker may call again."""
        idle = 0.0 if self._calls else time.monotonic() - self._last_call
        return idle < LONGEST_IDLE and is_running(parent)


def peer_user(connection: Connection) -> int:
    """Return the id of the user whose process is at the other end of a connection."""
    with socket.socket(fileno=os.dup(connection.fileno())) as other:
        credentials = other.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", credentials)[1])


def is_running(process: int) -> bool:
    """Return whether a process is running."""
    return os.path.exists(f"/proc/{process}")


def error_parts(error: Exception) -> tuple[Any, ...]:
    """Return an error as its class, arguments and attributes, which can be pickled; other errors become their traceback."""
    if isinstance(error, RpqError):
        return type(error), error.args, {name: value for name, value in error.__dict__.items() if name != "changes"}
    return RuntimeError, ("".join(traceback.format_exception(error)),), {}


def restore_error(kind: type[Exception], values: tuple[Any, ...], attributes: dict[str, Any]) -> Exception:
    """Return the error with these parts (`error_parts`)."""
    error = kind.__new__(kind, *values)
    error.args = values
    error.__dict__.update(attributes, **({"changes": None} if "row" in attributes else {}))
    return error


def main(parent: int, files: str) -> None:
    """Serve the workers of a parent process at an address, and print the address.

    `files` is a pattern of the address files of all shares of the executor.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # as workers do
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
            except OSError:  # the caller has ended already, or too many connections are open
                time.sleep(0.1)
                continue
            threading.Thread(target=host.serve, args=(connection,), daemon=True).start()


_FILE = "rpq-engines-{}.json"
_GONE = (ConnectionError, EOFError)


@contextmanager
def connect_engine(spec: ShareSpec, cache: EngineCache) -> Iterator[ShareEngine]:
    """Yield the engine of a share: in a separate process if possible, otherwise in this process with `cache`."""
    folder = _folder()
    if folder is None:
        yield LocalEngine(spec, cache)
        return
    content = pickle.dumps(spec)
    connection = _connect_or_start(folder, spec.share[0])
    try:
        engine = _RemoteEngine(connection, content)
    except _OwnerEnded:  # the process was idle for too long, and ended before it received the first call
        connection.close()
        connection = _connect_or_start(folder, spec.share[0])
        engine = _RemoteEngine(connection, content)
    with connection:
        yield engine


class _OwnerEnded(PipelineError):
    """The process that owns an engine has ended during a call."""


class _RemoteEngine:
    """The engine of a share in another process, which receives the `ShareSpec` if the digest is unknown there."""

    outcome: BatchOutcome

    def __init__(self, connection: Connection, spec: bytes) -> None:
        self._connection = connection
        self._send(hashlib.blake2b(spec).digest())
        if self._receive()[0] == UNKNOWN:
            self._send(spec)
            self._receive()

    def take(self, stream: str, tokens: Collection[str]) -> str | None:
        token: str | None = self._call("take", stream, tokens)
        return token

    def build(self, edges: pa.Table | None, time: int | None) -> None:
        self._call("build", edges, time)

    def catch_up(self, missed: pa.Table | None, time: int) -> None:
        self._call("catch_up", missed, time)

    def apply(self, tuples: pa.Table, tick: int | None) -> Iterator[PackedRows]:
        kind, value = self._request("apply", tuples, tick)
        while kind == ROWS:
            yield value
            kind, value = self._receive()
        self.outcome = value

    def store(self, stream: str, token: str) -> int:
        return int(self._call("store", stream, token))

    def _call(self, name: str, *values: Any) -> Any:
        return self._request(name, *values)[1]

    def _request(self, name: str, *values: Any) -> tuple[str, Any]:
        self._send(pickle.dumps((name, values)))
        return self._receive()

    def _send(self, content: bytes) -> None:
        try:
            self._connection.send_bytes(content)
        except _GONE as problem:
            raise _ended_error() from problem

    def _receive(self) -> tuple[str, Any]:
        try:
            kind, value = self._connection.recv()
        except _GONE as problem:
            raise _ended_error() from problem
        if kind == FAILED:
            raise restore_error(*value)
        return kind, value


def _ended_error() -> _OwnerEnded:
    return _OwnerEnded(
        "the process that owns the engine of a share has ended; the next task of the share rebuilds the engine"
    )


def _folder() -> str | None:
    """Return the folder that the workers of an executor share, or None where workers have no process for engines."""
    from pyspark import SparkFiles, TaskContext

    if sys.platform != "linux" or TaskContext.get() is None:
        return None
    folder = SparkFiles.getRootDirectory()
    return folder if os.access(folder, os.W_OK) else None


def _parent() -> int:
    """Return the id of the process that started this worker; all workers end with it."""
    return os.getppid()


def _connect_or_start(folder: str, number: int) -> Connection:
    """Return a connection to the process that owns the engines of a share; start the process if it is not running.

    Raises
    ------
    PipelineError
        If the process does not start, or ends at once.
    """
    import fcntl

    path = os.path.join(folder, _FILE.format(number))
    with open(os.open(path, os.O_CREAT | os.O_RDWR, 0o600), "r+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with suppress(ValueError, TypeError, KeyError, OSError):
            entry = json.loads(file.read())
            if is_running(entry["parent"]):
                return _connect(entry["address"])
        parent = _parent()
        address = _start_host(parent, os.path.join(escape(folder), _FILE.format("*")))
        file.seek(0)
        file.truncate()
        json.dump({"address": address, "parent": parent}, file)
        file.flush()
        try:
            return _connect(address)
        except _GONE as problem:
            raise _ended_error() from problem


def _connect(address: str) -> Connection:
    """Return a connection to a process of this user.  Raises `OSError` if there is none, or it is another user's."""
    connection = Client(f"\0{address}", family="AF_UNIX")
    if peer_user(connection) != os.getuid():
        connection.close()
        raise ConnectionRefusedError("the process at the address belongs to another user")
    return connection


def _start_host(parent: int, files: str) -> str:
    """Start a process with the import paths of this one, and return its address."""
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-m", "rpq.spark.stream.engine_host", str(parent), files]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=variables, text=True)
    assert process.stdout is not None
    with process.stdout:
        address = process.stdout.readline().strip()
    if not address:
        raise PipelineError(f"the process for engines does not start: it ended with status {process.wait()}")
    return address


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
