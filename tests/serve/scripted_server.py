"""A server that says to the page what a test wants it to: the contract of `rpq serve` without an engine behind it."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from rpq.serve.operations import Admission, GuardedApplication

PAGE = Path(__file__).parents[2] / "rpq" / "serve" / "page"


class ScriptedServer:
    """One query `q`, whose answers a test adds and takes away; a context manager. `query` has fields of its description.

    `time` is the time in statistics, by default the position. `kept_from` is the first position from which followers can go
    on; those who ask for an earlier one get a gap.  Unless `counts` statistics do not tell how many answers there are, by
    which the page sees what its stream does not tell in time.
    """

    def __init__(self, *, token: str | None = None, **query: Any) -> None:
        self.token = token
        self.query = {
            "name": "q", "expression": "a/b*", "language": "path", "window": 100, "slide": 10,
            "columns": ["source", "target"], "options": {}, **query,
        }  # fmt: skip
        self.time: int | str | None = None
        self.answers: dict[tuple[str, ...], int] = {}
        self.witnesses: dict[tuple[str, str], list[dict[str, Any]]] = {}
        self.position = 0
        self.kept_from = 0
        self.counts = True
        self.requests: list[str] = []
        self._log: list[tuple[int, bytes]] = []
        self._followers: set[asyncio.Queue[tuple[int, bytes] | None]] = set()
        with closing(socket.socket()) as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}/"

    def __enter__(self) -> ScriptedServer:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def start(self) -> None:
        """Listen, at the same port as before."""
        routes = [
            Route("/", lambda request: FileResponse(PAGE / "index.html")),
            Mount("/page", StaticFiles(directory=PAGE)),
            Route("/queries", self._queries),
            Route("/queries/q/answers", self._answers),
            Route("/queries/q/witness", self._witness),
            Route("/statistics", self._statistics),
            Route("/changes", self._changes),
        ]
        guarded = GuardedApplication(Starlette(routes=routes), Admission())
        # Without a configuration of logging, which would last: records of later servers would not reach `caplog`.
        config = uvicorn.Config(guarded, port=self.port, log_config=None, access_log=False, timeout_graceful_shutdown=1)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        deadline = time.monotonic() + 20
        while not self._server.started:
            assert time.monotonic() < deadline and self._thread.is_alive(), "the scripted server does not start"
            time.sleep(0.01)
        self._loop = self._server.servers[0].get_loop()

    def stop(self) -> None:
        """Listen no more, and let followers go."""
        self._send(None)
        self._server.should_exit = True
        self._thread.join(10)

    def change(self, *changes: tuple[str, ...]) -> None:
        """One push that changes the answers: (op, source, target)."""
        self.position += 1
        for op, *values in changes:
            if op == "+":
                self.answers[*values] = self.position
            else:
                del self.answers[*values]
        described = [{"query": "q", "op": op, "timestamp": self.position, "values": values} for op, *values in changes]
        data = json.dumps({"position": self.position, "time": self.position, "changes": described})
        event = f"id: {self.position}\nevent: changes\ndata: {data}\n\n".encode()
        self._log.append((self.position, event))
        self._send((self.position, event))

    def cut(self) -> None:
        """Break the streams of changes off."""
        self._send(None)

    def _send(self, event: tuple[int, bytes] | None) -> None:
        self._loop.call_soon_threadsafe(lambda: [follower.put_nowait(event) for follower in self._followers])

    def _refusal(self, request: Request) -> Response | None:
        self.requests.append(str(request.url.path))
        if self.token is None or request.headers.get("authorization") == f"Bearer {self.token}":
            return None
        return JSONResponse({"error": {"type": "TokenMissing", "message": "this server requires its token"}}, 401)

    async def _queries(self, request: Request) -> Response:
        return self._refusal(request) or JSONResponse({"queries": [{**self.query, "answers": len(self.answers)}]})

    async def _answers(self, request: Request) -> Response:
        rows = list(self.answers)[: int(request.query_params["limit"])]
        of_all = {"cursor": None, "total": len(self.answers), "time": 1, "position": self.position}
        answers = {"columns": self.query["columns"], "rows": rows, **of_all}
        return self._refusal(request) or JSONResponse(answers)

    async def _witness(self, request: Request) -> Response:
        source, target = request.query_params.getlist("value")
        if (source, target) not in self.answers:
            return JSONResponse({"error": {"type": "NoSuchAnswer", "message": "this is no answer"}}, 404)
        edge = {"source": source, "target": target, "label": "a", "timestamp": 1}
        return self._refusal(request) or JSONResponse({"edges": self.witnesses.get((source, target), [edge])})

    async def _statistics(self, request: Request) -> Response:
        of_query = {"name": "q", "answers": len(self.answers) if self.counts else None, "rows": 0}
        content = {
            "time": self.time or self.position, "position": self.position, "tuples": self.position, "late": 0,
            "seconds": 1.0, "tuples_per_second": 0.0, "latency_ms": {"p50": 0.1, "p99": 0.4, "max": 1},
            "memory_bytes": 50_000_000, "queries": [of_query],
        }  # fmt: skip
        return self._refusal(request) or JSONResponse(content)

    async def _changes(self, request: Request) -> Response:
        refused = self._refusal(request)
        if refused:
            return refused
        last = request.headers.get("last-event-id")
        follower: asyncio.Queue[tuple[int, bytes] | None] = asyncio.Queue()
        self._followers.add(follower)
        return StreamingResponse(self._events(follower, None if last is None else int(last)), media_type="text/event-stream")

    async def _events(self, follower: asyncio.Queue[tuple[int, bytes] | None], last: int | None) -> AsyncIterator[bytes]:
        yield b": hello\n\n"
        sent = -1 if last is None else last
        if last is not None and last < self.kept_from:
            gap = {"message": "these changes are no longer kept", "from": last, "to": self.position}
            yield f"id: {self.position}\nevent: gap\ndata: {json.dumps(gap)}\n\n".encode()
            sent = self.position
        for position, event in list(self._log) if last is not None else ():
            if position > sent:
                yield event
                sent = position
        try:
            while (item := await follower.get()) is not None:
                if item[0] > sent:
                    yield item[1]
        finally:
            self._followers.discard(follower)
