"""A server from its socket to its end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import uvicorn

from rpq.serve.application import Application
from rpq.serve.service import Service

LOG = logging.getLogger("rpq.serve")

GRACE_SECONDS = 8.0
"""So long responses that are under way may take at the end."""


class Feed(Protocol):
    """A source of tuples beside those that are posted."""

    def start(self) -> None: ...

    def stop(self) -> None: ...


class _Server(uvicorn.Server):
    """One that leaves signals to whoever runs it."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def run_server(
    service: Service,
    application: Application,
    sockets: Sequence[socket.socket],
    *,
    feeds: Sequence[Feed] = (),
    ready: Callable[[Callable[[signal.Signals], None]], None] = lambda end: None,
) -> signal.Signals | None:
    """Serve until a signal asks for the end; then tell followers, finish what was begun, and write the checkpoint.

    Returns the signal.  `ready` is called when it serves, with a function that asks for the end as a signal does.
    """
    loop = asyncio.get_running_loop()
    config = uvicorn.Config(
        application.asgi,
        log_config=None,
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=int(GRACE_SECONDS),
    )
    server = _Server(config)
    received: list[signal.Signals] = []

    def end(number: signal.Signals) -> None:
        if received:
            server.force_exit = True
        received.append(number)
        service.is_stopping = True
        service.hub.end("the server is stopping")
        server.should_exit = True

    installed = []
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError, ValueError, RuntimeError):
            loop.add_signal_handler(number, end, number)
            installed.append(number)
    service.start(loop)
    for feed in feeds:
        feed.start()
    serving = asyncio.ensure_future(server.serve(sockets=list(sockets)))
    try:
        while not server.started and not serving.done():
            await asyncio.sleep(0.01)
        ready(end)
        await serving
    finally:
        for number in installed:
            loop.remove_signal_handler(number)
        for feed in feeds:
            await loop.run_in_executor(None, feed.stop)
        await loop.run_in_executor(None, service.stop)
        application.close()
    return received[0] if received else None


def listening(host: str, port: int) -> socket.socket:
    """A socket at an address.  Raises `OSError`."""
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    return socket.create_server(address[:2], family=family, backlog=2048, reuse_port=False)


def address_of(listener: socket.socket) -> str:
    """Where a socket listens, as a browser wants it."""
    found: Any = listener.getsockname()
    host, port = found[0], found[1]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
