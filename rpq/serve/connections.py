"""The connections of a server: limits on their number and on the time that they may idle.

uvicorn limits the time of idle connections only, which a single byte of a request evades, and asyncio logs a traceback for
each attempt to accept when descriptors are exhausted. Therefore connections are accepted here, and checked every second.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import re
import socket
import ssl
import sys
import time
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from rpq.serve.models import ServeLimits

LOG = logging.getLogger("rpq.serve")

LOOK_SECONDS = 1.0
"""Interval at which connections are checked, unless a limit is shorter."""

PAUSE_SECONDS = 0.5
"""Pause in accepting when descriptors are exhausted."""

LOG_SECONDS = 60.0
"""Interval at which a lasting condition is logged again."""

REFUSAL_SECONDS = 2.0
"""The seconds in which a refused connection may read the reason."""

MAX_REFUSALS = 64
"""Maximum number of refused connections that are sent the reason at a time; further ones are just closed."""

SPARE_DESCRIPTORS = 64
"""Descriptors for other uses than connections: files, topics, processes."""

CHANGES_PATH = "/changes"

_USED_UP = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


def _refusal(status: str, type_: str, message: str, *headers: str) -> bytes:
    body = f'{{"error":{{"type":"{type_}","message":"{message}"}}}}'
    head = [
        f"HTTP/1.1 {status}", "content-type: application/json", f"content-length: {len(body)}", *headers,
        "cache-control: no-store", "connection: close", "", body,
    ]  # fmt: skip
    return "\r\n".join(head).encode()


TOO_MANY_CONNECTIONS = _refusal(
    "503 Service Unavailable", "TooManyConnections", "the limit on connections is reached", "retry-after: 5"
)
TOO_SLOW = _refusal("408 Request Timeout", "RequestTooSlow", "the request did not arrive in time")


MAX_HEAD_BYTES, MAX_HEADERS = 1 << 16, 100
"""The most bytes and headers in the head of a request."""

_BARE_OR_FOLDED_LINE = re.compile(rb"(?<!\r)\n|\n[ \t]")


class StrictHttp(h11.Connection):
    """The parser of requests; it refuses what a proxy in front of the server may read differently (RFC 9112, 2.2, 5.2, 6.1).

    h11 accepts lines that end in LF alone, headers in several lines, and bodies with two lengths.
    """

    def next_event(self) -> Any:
        """Return the next event.  Raises `h11.RemoteProtocolError`; then the connection is closed."""
        if self.their_state is h11.IDLE:
            head, _, _ = self.trailing_data[0].partition(b"\r\n\r\n")
            if _BARE_OR_FOLDED_LINE.search(head):
                raise h11.RemoteProtocolError("a line of the head ends in LF alone, or continues the one before")
        event = super().next_event()
        if isinstance(event, h11.Request):
            names = {name for name, _ in event.headers}
            if b"transfer-encoding" in names and (b"content-length" in names or event.http_version < b"1.1"):
                raise h11.RemoteProtocolError("the request has two lengths, or is in chunks in HTTP/1.0")
            if len(event.headers) > MAX_HEADERS:
                raise h11.RemoteProtocolError(f"the request has over {MAX_HEADERS} headers")
        return event


class Connection(H11Protocol):
    """A connection that records since when it has been waiting for a request, or for its client to read."""

    def __init__(self, config: Config, state: ServerState, limits: ServeLimits) -> None:
        super().__init__(config=config, server_state=state, app_state={})
        self.conn = StrictHttp(h11.SERVER, MAX_HEAD_BYTES)
        self._limits = limits
        self._since = time.monotonic()
        self._has_begun = True  # a new client is expected to send a request
        self._unread = 0
        self.closed = asyncio.get_running_loop().create_future()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if not self.closed.done():
            self.closed.set_result(None)

    def data_received(self, data: bytes) -> None:
        if not self._has_begun and not self._is_answering:
            self._has_begun, self._since = True, time.monotonic()
        super().data_received(data)

    def on_response_complete(self) -> None:
        self._has_begun, self._since = False, time.monotonic()
        super().on_response_complete()

    @property
    def _is_answering(self) -> bool:
        """True if a request is in progress; then the application limits the time of its body."""
        return self.cycle is not None and not self.cycle.response_complete

    @property
    def _is_followed(self) -> bool:
        return self._is_answering and self.scope["path"] == CHANGES_PATH

    def close_if_idle(self, now: float) -> None:
        """Close the connection if it has waited too long: for a request, for the rest of one, or for its client to read."""
        unread = self.transport.get_write_buffer_size()
        if unread:
            is_same, self._unread = unread == self._unread, unread
            if not is_same or self._is_followed:  # followers that do not read are dropped for their lag
                self._since = now
            elif now - self._since > self._limits.idle_seconds:
                self.transport.abort()
            return
        if self._unread:
            self._unread, self._since = 0, now
        if self._is_answering or self.transport.is_closing():
            return
        if self._has_begun:
            if now - self._since > self._limits.request_seconds:
                self.transport.write(TOO_SLOW)
                self.transport.close()
        elif now - self._since > self._limits.idle_seconds:
            self.transport.close()


class _Refusal(asyncio.Protocol):
    """A connection above the limit: it is sent the reason, and then closed."""

    def __init__(self) -> None:
        self.closed = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        transport.write(TOO_MANY_CONNECTIONS)
        if transport.can_write_eof():
            transport.write_eof()  # closing at once would discard the reason if a request is arriving
        else:
            transport.close()
        asyncio.get_running_loop().call_later(REFUSAL_SECONDS, transport.abort)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(None)


class Connections:
    """An acceptor of connections, up to a limit, which closes those that wait for too long.

    `open` is the number of present connections, `refused` that of refused ones. `tls` may be replaced, for further ones.
    """

    def __init__(self, config: Config, state: ServerState, limits: ServeLimits, tls: ssl.SSLContext | None) -> None:
        self._config, self._state, self._limits, self.tls = config, state, limits, tls
        self.open = self.refused = 0
        self._refusals = self._refused_before = 0
        self._last_log = -LOG_SECONDS
        self._reserve: int | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._accepting: list[asyncio.Task[None]] = []

    def start(self, sockets: Sequence[socket.socket]) -> None:
        """Start to accept connections."""
        self._take_reserve()
        for listener in sockets:
            listener.setblocking(False)
            self._accepting.append(self._begin(self._accept(listener)))
        self._begin(self._close_idle_connections())

    async def stop_accepting(self) -> None:
        """Stop accepting; existing connections stay open and are checked."""
        await _cancel_all(self._accepting)
        if self._reserve is not None:
            os.close(self._reserve)
            self._reserve = None

    async def stop(self) -> None:
        """Cancel all tasks."""
        await _cancel_all(list(self._tasks))

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(listener)
            except OSError as error:
                if error.errno in _USED_UP:
                    self._refuse_waiting_clients(listener, error)
                    await asyncio.sleep(PAUSE_SECONDS)
                else:  # that connection is closed already
                    await asyncio.sleep(0)
                continue
            self._begin(self._serve(connection))
            await asyncio.sleep(0)  # to serve existing connections

    async def _serve(self, connection: socket.socket) -> None:
        """Serve a connection until it is closed."""
        loop = asyncio.get_running_loop()
        protocol: Connection | _Refusal
        if self.open < self._limits.connections:
            protocol = Connection(self._config, self._state, self._limits)
        else:
            self._log(f"there are {self.open:,} connections, which is the limit (--max-connections); others are refused")
            self.refused += 1
            if self._refusals >= MAX_REFUSALS:
                connection.close()
                return
            protocol = _Refusal()
        with self._count_open(protocol):
            try:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                # asyncio sets it only on sockets that declare TCP, which those of `create_server` do not: without it the
                # body of a response waits for 40 ms, until the client has acknowledged its head.
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                await loop.connect_accepted_socket(
                    lambda: protocol,
                    connection,
                    ssl=self.tls,
                    ssl_handshake_timeout=None if self.tls is None else self._limits.request_seconds,
                )
            except (OSError, ssl.SSLError):
                connection.close()  # it is closed, or not TLS
                return
            await protocol.closed

    @contextlib.contextmanager
    def _count_open(self, protocol: Connection | _Refusal) -> Iterator[None]:
        change = (1, 0) if isinstance(protocol, Connection) else (0, 1)
        self.open, self._refusals = self.open + change[0], self._refusals + change[1]
        try:
            yield
        finally:
            self.open, self._refusals = self.open - change[0], self._refusals - change[1]

    async def _close_idle_connections(self) -> None:
        shortest = min(self._limits.request_seconds, self._limits.idle_seconds)
        while True:
            await asyncio.sleep(min(LOOK_SECONDS, max(shortest / 4, 0.01)))
            now = time.monotonic()
            for connection in list(self._state.connections):
                if isinstance(connection, Connection):
                    connection.close_if_idle(now)

    # --- exhausted descriptors -------------------------------------------------------------------------------

    def _take_reserve(self) -> None:
        """Reserve a descriptor, which is released to refuse a client when there is no other."""
        with contextlib.suppress(OSError):
            self._reserve = os.open(os.devnull, os.O_RDONLY)

    def _refuse_waiting_clients(self, listener: socket.socket, error: OSError) -> None:
        """Refuse the waiting clients, which otherwise would not learn the reason."""
        self._log(
            f"no connection can be accepted: {error.strerror}; {self.open:,} are open, and others are refused "
            "until descriptors are free"
        )
        if self._reserve is None:
            self._take_reserve()
        for _ in range(MAX_REFUSALS):
            if self._reserve is None:
                return
            os.close(self._reserve)
            self._reserve = None
            try:
                connection, _ = listener.accept()
            except OSError:
                self._take_reserve()
                return
            self.refused += 1
            with connection, contextlib.suppress(OSError):
                connection.setblocking(False)
                if self.tls is None:
                    connection.send(TOO_MANY_CONNECTIONS)
                    connection.shutdown(socket.SHUT_WR)
                    connection.recv(1 << 16)
            self._take_reserve()

    def _log(self, message: str) -> None:
        now = time.monotonic()
        if now - self._last_log >= LOG_SECONDS:
            refused = self.refused - self._refused_before
            more = f"; {refused:,} were refused since the last message" if refused else ""
            LOG.warning("%s%s", message, more)
            self._last_log, self._refused_before = now, self.refused


async def _cancel_all(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class Repetitions(logging.Filter):
    """A filter that passes a repeated message a few times per period, so that bad requests do not fill the disk.

    The next message that passes states how many were left out.
    """

    def __init__(self, limit: int = 10, seconds: float = LOG_SECONDS) -> None:
        super().__init__()
        self._limit, self._seconds = limit, seconds
        self._began = 0.0
        self._counts: dict[tuple[str, str], int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        now = time.monotonic()
        if now - self._began > self._seconds:
            left_out = sum(max(0, count - self._limit) for count in self._counts.values())
            self._began, self._counts = now, {}
            if left_out:
                record.msg, record.args = f"{record.getMessage()} ({left_out:,} repeated messages were left out)", ()
        key = (record.name, str(record.msg).partition("\n")[0])  # messages of asyncio continue with details that differ
        self._counts[key] = self._counts.get(key, 0) + 1
        return self._counts[key] <= self._limit


def raise_file_limit(connections: int) -> int:
    """Raise the limit on open files as far as possible. Return the number of connections that it allows.

    >>> raise_file_limit(1)
    1
    """
    if sys.platform == "win32":
        return connections
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        open_files = len(os.listdir("/dev/fd"))
    except OSError:
        open_files = 32
    needed = connections + open_files + SPARE_DESCRIPTORS
    if soft != resource.RLIM_INFINITY and soft < needed:
        with contextlib.suppress(OSError, ValueError):
            raised = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
            resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
            soft = raised
    if soft == resource.RLIM_INFINITY:
        return connections
    return max(1, min(connections, soft - open_files - min(SPARE_DESCRIPTORS, soft // 4)))
