"""The log of a server: ids of requests, JSON lines, and who registered or dropped which query."""

from __future__ import annotations

import json
import logging
import re
from contextvars import ContextVar
from datetime import datetime
from uuid import uuid4

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

REQUEST_ID: ContextVar[str | None] = ContextVar("request_id", default=None)
"""The id of the request that is being answered."""

_WELL_FORMED = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")

AUDIT, LIFECYCLE = logging.getLogger("rpq.serve.audit"), logging.getLogger("rpq.serve.lifecycle")
"""The logs of changes of queries, and of the start and end of the server, which also --quiet leaves."""
for _log in (AUDIT, LIFECYCLE):
    _log.setLevel(logging.INFO)


class RequestIds:
    """An ASGI application that gives each request an id, that of its header or a new one, and returns it in the response."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get("x-request-id", "")
        request_id = given if _WELL_FORMED.fullmatch(given) else uuid4().hex
        REQUEST_ID.set(request_id)  # of this task, which is that of the request

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["X-Request-Id"] = request_id
            await send(message)

        await self._app(scope, receive, send_with_id)


class JsonLines(logging.Formatter):
    """A format with a JSON object on each line, with the local time and its offset from UTC."""

    def format(self, record: logging.LogRecord) -> str:
        content = {
            "time": datetime.fromtimestamp(record.created).astimezone().isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "request_id": REQUEST_ID.get(),
        }
        if record.exc_info:
            content["exception"] = self.formatException(record.exc_info)
        return json.dumps({**getattr(record, "fields", {}), **content}, ensure_ascii=False, default=str)


def audit(action: str, query: str | None, *, by: str, outcome: str = "done") -> None:
    """Log who registered or dropped a query, or tried to.  A query that is not understood has no name."""
    fields = {"action": action, "query": query, "by": by, "outcome": outcome}
    where = "" if (request := REQUEST_ID.get()) is None else f", request {request}"
    AUDIT.info("%s %r by %s%s: %s", action, query, by, where, outcome, extra={"fields": fields})
