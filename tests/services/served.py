"""A server for tests: in this process, in a thread of its own, or as the command in another one."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import httpx
import pyarrow as pa
import pytest

import rpq
from rpq.serve.application import Application
from rpq.serve.models import ServeLimits
from rpq.serve.operations import Admission
from rpq.serve.query_checks import QueryChecks
from rpq.serve.requests import QueryDefaults, parse_query
from rpq.serve.service import Service
from rpq.serve.serving import Tls, address_of, listening_socket, run_server
from rpq.serve.storage import EngineOptions, Storage

if TYPE_CHECKING:
    from rpq.readers.rdf.rdf_format import RdfDocuments

ROOT = Path(__file__).parents[2]
SECONDS = 200.0
READ_SECONDS = 300.0
"""So long a response may take: the first query of a kind waits for its kernels."""
CHECKS = QueryChecks()
"""Of all servers in this process: starting one takes most of a second."""

NDJSON = {"content-type": "application/x-ndjson"}

NO_AUTHORITIES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Reading the certificates of the system takes each client a tenth of a second."""


def lines(*tuples: tuple[Any, ...]) -> bytes:
    """Tuples (source, target, label, timestamp[, op]) as JSON lines."""
    names = ("source", "target", "label", "timestamp", "op")
    return b"".join(json.dumps(dict(zip(names, one))).encode() + b"\n" for one in tuples)


class Talk:
    """Requests to a server."""

    def __init__(self, url: str, verify: ssl.SSLContext = NO_AUTHORITIES, **headers: str) -> None:
        self.url = url.rstrip("/")
        self.client = httpx.Client(base_url=url, timeout=READ_SECONDS, headers=headers, verify=verify)

    def post(self, *tuples: tuple[Any, ...], key: str | None = None, **parameters: str) -> httpx.Response:
        headers = NDJSON if key is None else {**NDJSON, "idempotency-key": key}
        return self.client.post("/tuples", content=lines(*tuples), headers=headers, params=parameters)

    def register(self, expression: str, **fields: Any) -> httpx.Response:
        return self.client.post("/queries", json={"expression": expression, **fields})

    def of(self, name: str, what: str = "", **parameters: Any) -> httpx.Response:
        path = f"/queries/{quote(name, safe='')}" + (f"/{what}" if what else "")
        return self.client.get(path, params=parameters)

    def answers(self, name: str) -> set[tuple[Any, ...]]:
        return {tuple(row) for row in self.of(name, "answers", limit=1_000_000).json()["rows"]}

    def follow(
        self, *queries: str, after: str | None = None, header: str | None = None, message: str | None = None
    ) -> Events:
        return Events(self.client, queries, after, header, message)


class Events:
    """Server-sent events, as they come."""

    def __init__(
        self, client: httpx.Client, queries: tuple[str, ...], after: str | None, header: str | None, message: str | None
    ) -> None:
        parameters = [("query", name) for name in queries] + ([("after", after)] if after is not None else [])
        parameters += [("message", message)] if message is not None else []
        headers = {"last-event-id": header} if header is not None else {}
        self._stream = client.stream("GET", "/changes", params=parameters, headers=headers)
        self.response = self._stream.__enter__()
        self._lines = self.response.iter_lines() if self.response.status_code == 200 else iter(())
        self.id: str | None = None

    def __enter__(self) -> Events:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._stream.__exit__(None, None, None)

    def __iter__(self) -> Iterator[tuple[str, dict[str, Any]]]:
        kind, data = "message", ""
        for line in self._lines:
            name, _, value = line.partition(": ")
            if name == "id":
                self.id = value
            elif name == "event":
                kind = value
            elif name == "data":
                data += value
            elif not line and data:
                yield kind, json.loads(data)
                kind, data = "message", ""

    def next(self, kind: str) -> dict[str, Any]:
        """The next event, which is of this kind."""
        found, content = next(iter(self))
        assert found == kind, (found, content)
        return content

    def rows(self, count: int) -> list[tuple[Any, ...]]:
        """So many rows (query, op, timestamp, values), or more if the last event has more."""
        rows: list[tuple[Any, ...]] = []
        for kind, content in self:
            assert kind in ("start", "changes"), (kind, content)
            rows += [
                (row["query"], row["op"], row["timestamp"], tuple(row["values"])) for row in content.get("changes", ())
            ]
            if len(rows) >= count:
                break
        return rows


class Served(Talk):
    """A server in this process."""

    def __init__(
        self,
        *queries: dict[str, Any],
        checkpoint: Path | None = None,
        checkpoint_seconds: float = 3600.0,
        limits: ServeLimits | None = None,
        time_unit: str | None = None,
        admission: Admission | None = None,
        headers: dict[str, str] | None = None,
        tls: Tls | None = None,
        rdf: RdfDocuments | None = None,
        backups: Path | None = None,
        **of_engine: Any,
    ) -> None:
        self._tls = tls
        defaults = QueryDefaults(fields={}, time_unit=time_unit)
        keep, max_ahead = of_engine.pop("keep", None), of_engine.pop("max_ahead", None)
        edges, push_limit = of_engine.pop("edges", "triple"), of_engine.pop("push_limit", None)
        of_engine["_keeps_values"] = True
        self.service = Service(
            EngineOptions(
                make=lambda **more: rpq.Engine(keep=keep, time_unit=time_unit, edges=edges, **of_engine, **more),
                restore=lambda path, **more: rpq.Engine.restore(path, **of_engine, **more),
                max_ahead=max_ahead,
                push_limit=push_limit,
            ),
            defaults=defaults,
            limits=limits or ServeLimits(),
            checkpoint=None if checkpoint is None else os.fspath(checkpoint),
            checkpoint_seconds=checkpoint_seconds,
            documents=rdf,
        )
        running = {query.name for query in self.service.engine.queries}
        for fields in queries:
            query = parse_query(fields, defaults)
            if query.name not in running:
                self.service.register(fields, query)
        self.service.settle()
        folder = None if backups is None else os.fspath(backups)
        self.application = Application(self.service, admission=admission or Admission(), checks=CHECKS, backups=folder)
        self._listener = listening_socket("127.0.0.1", 0)
        # What the system holds back for a follower that does not read is no lag: it should not be much.
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        assert self._ready.wait(SECONDS)
        verify = NO_AUTHORITIES if tls is None else ssl.create_default_context(cafile=tls.certificate)
        super().__init__(address_of(self._listener, tls), verify=verify, **(headers or {}))

    def _run(self) -> None:
        def ready(end: Any) -> None:
            self._loop, self._end = asyncio.get_running_loop(), end
            self._ready.set()

        async def run() -> None:
            loop = asyncio.get_running_loop()
            later = loop.call_later
            # uvicorn looks each tenth of a second whether it shall end.
            loop.call_later = lambda delay, *given, **more: later(0.01 if delay == 0.1 else delay, *given, **more)  # type: ignore[method-assign]
            await run_server(self.service, self.application, [self._listener], tls=self._tls, ready=ready)

        asyncio.run(run())

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def connections(self) -> int:
        """Return the number of open connections, except those that are being refused."""
        assert self.application.figures.connections is not None
        return self.application.figures.connections.open

    def stop(self) -> None:
        """Ask for the end, as SIGTERM does, and wait for it."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._end, signal.SIGTERM)
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()
        self.client.close()


class Command(Talk):
    """The command `rpq serve` as a process."""

    def __init__(
        self,
        *arguments: object,
        log: Path,
        headers: dict[str, str] | None = None,
        verify: ssl.SSLContext = NO_AUTHORITIES,
        **environment: str,
    ) -> None:
        command = [sys.executable, "-m", "rpq.cli", "serve", *map(str, arguments), "--port", "0"]
        self.log = log
        start = log.stat().st_size if log.exists() else 0
        with open(log, "ab") as out:
            self.process = subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.PIPE, stdout=out, stderr=out, env={**os.environ, **environment}
            )
        end = time.monotonic() + SECONDS
        while (found := re.search(rb"serving at (https?://\S+?/)", log.read_bytes()[start:])) is None:
            if self.process.poll() is not None or time.monotonic() > end:
                self.kill()
                raise AssertionError(log.read_text()[-3000:])
            time.sleep(0.02)
        super().__init__(found[1].decode(), verify=verify, **(headers or {}))

    def __enter__(self) -> Command:
        return self

    def __exit__(self, *error: object) -> None:
        self.client.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        assert self.process.stdin is not None
        self.process.stdin.close()

    def kill(self) -> None:
        """End it as nothing can be kept from."""
        self.process.kill()
        self.process.wait()

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Ask for the end; the exit status."""
        self.process.send_signal(how)
        return self.process.wait(SECONDS)


    def reload(self, message: str) -> None:
        """Send SIGHUP, and wait for a message of the log."""
        start = self.log.stat().st_size
        self.process.send_signal(signal.SIGHUP)
        end = time.monotonic() + SECONDS
        while message not in self.log.read_text()[start:]:
            assert self.process.poll() is None and time.monotonic() < end, self.log.read_text()[-3000:]
            time.sleep(0.02)


RELOADED, NOT_RELOADED = "tokens, certificate and queries are reloaded", "nothing is reloaded: "
"""The messages of the log after SIGHUP."""


def arrow(**columns: Any) -> bytes:
    """Columns as a stream of Arrow."""
    sink = pa.BufferOutputStream()
    table = pa.table(columns)
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def alive_at_reload(served: Served, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Return a list that gets, at each reload of a checkpoint from now on, whether the present engine is still in memory."""
    found: list[bool] = []
    before, reload = weakref.ref(served.service.engine._evaluation), Storage.reload

    def note(self: Storage, **options: Any) -> Any:
        found.append(before() is not None)
        return reload(self, **options)

    monkeypatch.setattr(Storage, "reload", note)
    return found
