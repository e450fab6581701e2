"""A server from its socket to its end."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import signal
import socket
import ssl
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import uvicorn

from rpq.errors import RpqError
from rpq.serve.application import Application
from rpq.serve.connections import Connections
from rpq.serve.serve_limits import ServeLimits
from rpq.serve.service import Service

LOG = logging.getLogger("rpq.serve")

GRACE_SECONDS = 8.0
"""So long responses that are under way may take at the end."""


class Feed(Protocol):
    """A source of tuples beside those that are posted."""

    def start(self) -> None: ...

    def stop(self) -> None: ...


DAY = 86_400


class TlsError(RpqError):
    """A certificate or key that nothing can be served with."""


@dataclass(frozen=True, kw_only=True)
class Tls:
    """A certificate, with those that it depends on, and its key: two files in PEM."""

    certificate: str
    key: str

    @cached_property
    def context(self) -> ssl.SSLContext:
        """What connections are made with. Raises `TlsError`."""
        for path in (self.certificate, self.key):
            try:
                with open(path, "rb"):
                    pass
            except OSError as error:
                raise TlsError(f"{path}: cannot be read: {error.strerror or error}") from error

        def refuse_encrypted() -> str:
            raise TlsError(f"{self.key}: is encrypted; expected a key without a pass phrase")

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            context.load_cert_chain(self.certificate, self.key, password=refuse_encrypted)
        except ssl.SSLError as error:
            if error.reason == "KEY_VALUES_MISMATCH":
                raise TlsError(f"{self.key}: is not the key of the certificate {self.certificate}") from error
            raise TlsError(
                f"{self.certificate} and {self.key}: expected a certificate and its key in PEM "
                f"({error.reason or 'neither is found'})"
            ) from error
        return context


class _Server(uvicorn.Server):
    """One that leaves signals to whoever runs it, and accepting to `Connections`."""

    def __init__(self, config: uvicorn.Config, limits: ServeLimits, tls: Tls | None) -> None:
        super().__init__(config)
        self.servers = []
        self.connections = Connections(config, self.server_state, limits, None if tls is None else tls.context)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self.connections.start(sockets or [])
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self.connections.stop_accepting()
        await super().shutdown(sockets)
        await self.connections.stop()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def run_server(
    service: Service,
    application: Application,
    sockets: Sequence[socket.socket],
    *,
    feeds: Sequence[Feed] = (),
    tls: Tls | None = None,
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
        http="h11",
        timeout_keep_alive=DAY,  # that, and more, is looked at by `Connections`
        timeout_graceful_shutdown=int(GRACE_SECONDS),
    )
    server = _Server(config, service.limits, tls)
    application.figures.connections = server.connections
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
    family, address = _resolved(host, port)
    return socket.create_server(address, family=family, backlog=2048, reuse_port=False)


def is_of_this_machine(host: str) -> bool:
    """Whether only programs of this machine reach an address.  Raises `OSError`.

    >>> is_of_this_machine("127.0.0.1"), is_of_this_machine("::1"), is_of_this_machine("0.0.0.0"), is_of_this_machine("::")
    (True, True, False, False)
    """
    address = ipaddress.ip_address(_resolved(host, 0)[1][0].partition("%")[0])
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def _resolved(host: str, port: int) -> tuple[int, tuple[str, int]]:
    """The family and address that a name, or a text of an address, stands for."""
    family, _, _, _, address = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    return family, (str(address[0]), int(address[1]))


def address_of(listener: socket.socket, tls: Tls | None = None) -> str:
    """Where a socket listens, as a browser wants it."""
    found: Any = listener.getsockname()
    host, port = found[0], found[1]
    scheme = "http" if tls is None else "https"
    return f"{scheme}://[{host}]:{port}/" if ":" in host else f"{scheme}://{host}:{port}/"
