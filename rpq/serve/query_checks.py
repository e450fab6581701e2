"""Queries of clients, compiled and explained in a process of its own: however hard one is, the server goes on.

The time of a query has a limit, and its work ends when its client goes away: then the process is killed, and the next query
gets a new one. Another thread could be ended by neither, and would keep the interpreter meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import pickle
import signal
import struct
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import IO, Any

from msgspec import UNSET

from rpq.errors import RpqError
from rpq.queries.query import Query
from rpq.serve.asked_queries import QueryDefaults, language_told, query_asked
from rpq.serve.models import Explained, Understood
from rpq.serve.problems import Problem, problem_of
from rpq.serve.query_pictures import explained
from rpq.serve.serve_limits import ServeLimits

LOG = logging.getLogger("rpq.serve")

MOST_WAITING = 16
"""Queries that wait for the one that is compiled, at most."""

START_SECONDS = 120.0
"""So long the process may take to start."""

MEMORY = 2 << 30
"""Bytes that the process may use beside what it begins with."""

_LENGTH = struct.Struct("!Q")
_START = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from rpq.serve.query_checks import work; work()"


@dataclass(eq=False)
class _Job:
    """Something for the process to do."""

    message: bytes
    seconds: float
    is_stopped: bool = False
    is_too_slow: bool = False


class QueryChecks:
    """Compiles and explains queries of clients, one after the other.

    All raise `Problem`: for what is wrong with a query, and for one that takes too long. A task that waits for one of
    them and is cancelled ends the work.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="rpq-check")
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._running: _Job | None = None
        self._waiting = 0

    async def compiled(self, fields: Any, defaults: QueryDefaults, limits: ServeLimits) -> Query:
        """The query that an object of JSON asks for."""
        return await self._done("compile", (_not_too_long(fields, limits), defaults), limits)

    async def checked(self, fields: Any, defaults: QueryDefaults, limits: ServeLimits) -> Understood:
        """What there is to tell of the query that an object of JSON asks for."""
        return await self._done("check", (_not_too_long(fields, limits), defaults), limits)

    async def explained(self, query: Query, running: str | None, limits: ServeLimits) -> Explained:
        """What a query means; `running` is what an engine explains of it."""
        return await self._done("explain", (query, running), limits)

    def close(self) -> None:
        """End what is under way, and the process."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            if self._running is not None:
                self._running.is_stopped = True
            self._kill()

    async def _done(self, what: str, arguments: tuple[Any, ...], limits: ServeLimits) -> Any:
        if self._waiting > MOST_WAITING:
            raise Problem(503, "TooManyChecks", "other queries are being compiled; ask again", None, {"Retry-After": "1"})
        job = _Job(pickle.dumps((what, arguments)), limits.check_seconds)
        self._waiting += 1
        try:
            kind, content = await asyncio.get_running_loop().run_in_executor(self._thread, self._run, job)
        except asyncio.CancelledError:
            self._stop(job)
            raise
        finally:
            self._waiting -= 1
        if kind == "problem":
            raise Problem(**content)
        if kind == "failed":
            LOG.error("a query could not be checked\n%s", content)
            raise Problem(500, "InternalError", "the server failed; its log says more")
        return content

    def _run(self, job: _Job) -> tuple[str, Any]:
        """Let the process do a job; in the thread."""
        with self._lock:
            if job.is_stopped:
                return "stopped", None
            self._running = job
        try:
            process = self._started(job)
            with self._limited(job, job.seconds):
                return _exchanged(process, job.message)
        except (OSError, EOFError) as error:
            with self._lock:
                self._kill()
            if job.is_stopped:
                return "stopped", None
            if job.is_too_slow:
                message = f"to compile and explain the query takes more than {job.seconds:g} seconds; expected a smaller one"
                return "problem", _told(Problem(422, "QueryTooLarge", message, {"field": "expression"}))
            if isinstance(error, EOFError):  # it was ended from outside, or its stack was too small
                message = "the process that compiles queries ended over this one; expected a smaller one"
                return "problem", _told(Problem(422, "QueryTooLarge", message, {"field": "expression"}))
            message = f"no process can be started to compile the query: {error.strerror or error}"
            return "problem", _told(Problem(503, "NoProcess", message, None, {"Retry-After": "5"}))
        finally:
            with self._lock:
                self._running = None

    def _started(self, job: _Job) -> subprocess.Popen[bytes]:
        """The process, which has said that it is ready."""
        with self._lock:
            if self._process is not None and self._process.poll() is None:
                return self._process
            self._kill()
            process = self._process = subprocess.Popen(
                [sys.executable, "-I", "-c", _START, json.dumps(sys.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
        with self._limited(job, START_SECONDS):
            assert process.stdout is not None
            _received(process.stdout)
        return process

    @contextlib.contextmanager
    def _limited(self, job: _Job, seconds: float) -> Any:
        """End the process after so many seconds."""

        def stop() -> None:
            job.is_too_slow = True
            self._stop(job, is_stopped=False)

        timer = threading.Timer(seconds, stop)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _stop(self, job: _Job, *, is_stopped: bool = True) -> None:
        """See that a job is not begun, or ends."""
        with self._lock:
            job.is_stopped = job.is_stopped or is_stopped
            if self._running is job and self._process is not None:
                self._process.kill()

    def _kill(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        for stream in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                stream.close()  # type: ignore[union-attr]
        process.wait()


def _not_too_long(fields: Any, limits: ServeLimits) -> Any:
    text = fields.get("expression") if isinstance(fields, Mapping) else None
    if isinstance(text, str) and len(text.encode(errors="surrogatepass")) > limits.expression_bytes:
        message = f"the text of the query has more than {limits.expression_bytes:,} bytes (--most-expression)"
        raise Problem(422, "QueryTooLarge", message, {"field": "expression"})
    return fields


def _told(problem: Problem) -> dict[str, Any]:
    return {
        "status": problem.status,
        "type": problem.type,
        "message": problem.message,
        "more": problem.more,
        "headers": problem.headers,
    }


# --- messages between the two ----------------------------------------------------------------------------------------


def _exchanged(process: subprocess.Popen[bytes], message: bytes) -> tuple[str, Any]:
    assert process.stdin is not None and process.stdout is not None
    _send(process.stdin, message)
    found: tuple[str, Any] = pickle.loads(_received(process.stdout))
    return found


def _send(stream: IO[bytes], message: bytes) -> None:
    stream.write(_LENGTH.pack(len(message)))
    stream.write(message)
    stream.flush()


def _received(stream: IO[bytes]) -> bytes:
    (length,) = _LENGTH.unpack(_exactly(stream, _LENGTH.size))
    return _exactly(stream, length)


def _exactly(stream: IO[bytes], length: int) -> bytes:
    found = stream.read(length)
    if len(found) < length:
        raise EOFError
    return found


# --- the process -----------------------------------------------------------------------------------------------------


def work() -> None:
    """Do what comes over standard input until it ends; the main function of the process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, with which this one ends
    source, sink = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what is printed is no message
    _limit_memory()
    for text in ("a/b*", "?x a ?y", "SELECT * { ?x <a> ?y }"):  # so that all is imported that a query needs
        _answer("check", ({"expression": text, "window": 1}, QueryDefaults(fields={})))
    _send(sink, b"")
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            what, arguments = pickle.loads(_received(source))
            _send(sink, pickle.dumps(_answer(what, arguments)))


def _answer(what: str, arguments: tuple[Any, ...]) -> tuple[str, Any]:
    text = arguments[0].get("expression") if isinstance(arguments[0], Mapping) else None
    try:
        return "done", _WORK[what](*arguments)
    except RecursionError:
        return "problem", _told(Problem(422, "QueryError", "the query is nested too deeply", {"field": "expression"}))
    except MemoryError:
        message = "the query takes too much memory; expected a smaller one"
        return "problem", _told(Problem(422, "QueryTooLarge", message, {"field": "expression"}))
    except (RpqError, ValueError) as error:
        return "problem", _told(problem_of(error, text if isinstance(text, str) else None))
    except Exception:
        return "failed", traceback.format_exc()


def _checked(fields: Any, defaults: QueryDefaults) -> Understood:
    query = query_asked(fields, defaults)
    about = explained(query)
    warnings = list(getattr(query, "warnings", ())) or UNSET
    return Understood(
        text=about.text, svg=about.svg, language=language_told(query), columns=list(query.columns), warnings=warnings
    )


_WORK: dict[str, Callable[..., Any]] = {"compile": query_asked, "check": _checked, "explain": explained}


def _limit_memory() -> None:
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        with open("/proc/self/statm", "rb") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
