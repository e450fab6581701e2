"""A process that keeps the engines of a share, while Python workers come and go.

Spark gives a task whichever of its workers has been idle for longest, so shares of one machine swap workers all the time,
and ends workers that were idle for a minute.  An engine in a worker would have to catch up, or be built again, as often as
not.  So on Linux each share of an executor has a process for its engines (`python -m rpq.spark.engine_host`), started by the
first worker that needs it; workers send tuples and get packed rows (`rpq.spark.engine_call`).

Nobody but the user of these processes is served, which the kernel tells of both ends of a connection.

It is a cache like any other: what is in it stands for the state that its token says, or is not used.  It ends with the
process that Spark started for its workers, and where nobody has called for `LONGEST_IDLE` seconds.
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
import struct
import sys
import threading
import time
import traceback
from collections.abc import Callable
from glob import glob
from multiprocessing.connection import Connection, Listener
from typing import Any

from rpq.errors import RpqError
from rpq.spark.share_engine import EngineCache, EngineHere, ShareOfAnswers

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
