"""Bodies of requests: as large, and as slow, as they may be."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from json import loads
from typing import Any

from starlette.requests import Request

from rpq.serve.problems import Problem
from rpq.serve.serve_limits import ServeLimits

BODY_SECONDS = 120.0
"""So long a body may be on its way."""


class RequestBodies:
    """Reads bodies, and counts those that wait."""

    def __init__(self, limits: ServeLimits) -> None:
        self._limits = limits
        self.waiting_bytes = 0

    @contextlib.asynccontextmanager
    async def read(self, request: Request) -> AsyncIterator[bytes]:
        """The body of a request, which must not be too large, nor compressed; it counts as waiting as long as it is held."""
        coding = request.headers.get("content-encoding", "identity").strip().lower()
        if coding not in ("", "identity"):
            raise Problem(415, "CodingRefused", f"bodies are not read in the coding {coding}; send them as they are")
        limits = self._limits
        too_large = Problem(413, "BodyTooLarge", f"the body has more than {limits.body_bytes:,} bytes; send it in parts")
        length = request.headers.get("content-length", "")
        if length.isdecimal() and int(length) > limits.body_bytes:
            raise too_large
        parts: list[bytes] = []
        size = 0
        try:
            try:
                async with asyncio.timeout(BODY_SECONDS), asyncio.timeout(limits.request_seconds) as pause:
                    async for part in request.stream():
                        pause.reschedule(asyncio.get_running_loop().time() + limits.request_seconds)
                        parts.append(part)
                        size += len(part)
                        self.waiting_bytes += len(part)
                        if size > limits.body_bytes:
                            raise too_large
                        if self.waiting_bytes > limits.waiting_bytes:
                            message = "more tuples wait for the engine than may; send these again"
                            raise Problem(503, "TooMuchWaits", message, None, {"Retry-After": "1"})
            except TimeoutError:
                seconds = f"{BODY_SECONDS:.0f} seconds, or no part of it came in {limits.request_seconds:g}"
                message = f"the body was not there after {seconds}"
                raise Problem(408, "BodyTooSlow", message, None, {"Connection": "close"}) from None
            yield b"".join(parts)
        finally:
            self.waiting_bytes -= size

    async def json(self, request: Request) -> Any:
        type_ = content_type(request)
        if type_ != "application/json":
            raise Problem(415, "TypeRefused", f"expected application/json, not {type_ or 'no content type'}")
        async with self.read(request) as body:
            try:
                return loads(body, parse_constant=_refuse_constant)
            except (ValueError, RecursionError) as error:
                raise Problem(400, "NoJson", f"the body is no JSON: {error}") from error


def content_type(request: Request) -> str:
    """The media type of a body, without its parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is no JSON")
