"""A process that keeps the engines of a share, while Python workers come and go.

Spark gives a task whichever of its workers has been idle for longest, so shares of one machine swap workers all the time,
and ends workers that were idle for a minute.  An engine in a worker would have to catch up, or be built again, as often as
not.  So on Linux each share of an executor has a process for its engines (`python -m rpq.spark.engine_host`), started by the
first worker that needs it; workers send tuples and get packed rows (`rpq.spark.engine_call`).

It is a cache like any other: what is in it stands for the state that its token says, or is not used.  It ends with the
process that Spark started for its workers, and where nobody has called for `LONGEST_IDLE` seconds.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import traceback
from multiprocessing.connection import Connection, Listener
from typing import Any

from rpq.errors import RpqError
from rpq.spark.share_engine import EngineCache, EngineHere, ShareOfAnswers

LONGEST_IDLE = 900.0
_LOOK_EVERY = 1.0

ROWS, DONE, FAILED, ASKS = "rows", "done", "failed", "asks"
"""What an answer begins with: packed rows, of which more come; the result; an error; that it is to be told what is asked."""


class _Host:
    """Serves workers, each in a thread of its own."""

    def __init__(self) -> None:
        self._cache = EngineCache()
        self._known: dict[bytes, ShareOfAnswers] = {}
        self._calls = 0
        self._called_at = time.monotonic()

    def serve(self, connection: Connection) -> None:
        """Do what a worker asks until it ends the call."""
        self._calls += 1
        try:
            with connection:
                engine = EngineHere(self._asked(connection), self._cache)
                connection.send((DONE, None))
                while True:
                    name, values = connection.recv()
                    try:
                        self._answer(connection, engine, name, values)
                    except OSError:
                        raise
                    except Exception as error:
                        connection.send((FAILED, failure(error)))
        except (EOFError, OSError):
            pass  # it has gone; so has the engine, unless it was kept
        except Exception as error:  # of what it asked
            traceback.print_exception(error)
        finally:
            self._calls -= 1
            self._called_at = time.monotonic()

    def _asked(self, connection: Connection) -> ShareOfAnswers:
        digest = connection.recv_bytes()
        if digest not in self._known:
            connection.send((ASKS, None))
            self._known.clear()  # queries may be many, and another set of them is rare
            self._known[digest] = connection.recv()
        return self._known[digest]

    @staticmethod
    def _answer(connection: Connection, engine: EngineHere, name: str, values: tuple[Any, ...]) -> None:
        if name == "apply":
            for packed in engine.apply(*values):
                connection.send((ROWS, packed))
            connection.send((DONE, engine.outcome))
        else:
            connection.send((DONE, getattr(engine, name)(*values)))

    def is_needed(self, parent: int) -> bool:
        """Whether a worker may call again."""
        idle = 0.0 if self._calls else time.monotonic() - self._called_at
        return idle < LONGEST_IDLE and os.path.exists(f"/proc/{parent}")


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


def main(parent: int) -> None:
    """Serve the workers that have a key, which is read from standard input, at an address, which is written out."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # workers do not end by it either
    key = bytes.fromhex(sys.stdin.readline())
    host = _Host()
    address = f"rpq-{os.urandom(8).hex()}"
    with Listener(family="AF_UNIX", address=f"\0{address}", backlog=64, authkey=key) as listener:
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
            except Exception:  # not one of our workers, or gone already
                continue
            threading.Thread(target=host.serve, args=(connection,), daemon=True).start()


if __name__ == "__main__":
    main(int(sys.argv[1]))
