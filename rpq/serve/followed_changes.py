"""The response to one who follows changes: server-sent events, until one of the two ends it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor

from starlette.types import Receive, Scope, Send

from rpq.serve.change_hub import ChangeHub, Follower
from rpq.serve.json_values import json_text
from rpq.serve.published import Published
from rpq.serve.waiting import FollowerTooSlow

PING_SECONDS = 15.0
GOODBYE_SECONDS = 5.0
"""So long a follower that was dropped may take to read why."""

WRITTEN = 1 << 16
"""Bytes that are written at once, about."""


def event_text(kind: str, content: object, *, id: str | None = None) -> bytes:
    """An event as text.

    >>> event_text("end", {"reason": "x"})
    b'event: end\\ndata: {"reason":"x"}\\n\\n'
    """
    head = b"" if id is None else b"id: %s\n" % id.encode()
    return head + b"event: %s\ndata: %s\n\n" % (kind.encode(), json_text(content))


class FollowedChanges:
    """An application of ASGI that is one response: the changes that a follower of a hub is to have.

    What takes long to encode is encoded by `encoder`, once for all followers; `begin` is the first event.
    """

    def __init__(self, hub: ChangeHub, follow: Callable[[], Follower], encoder: Executor, begin: bytes) -> None:
        self._hub = hub
        self._follow = follow
        self._encoder = encoder
        self._begin = begin

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        follower = self._follow()
        try:
            streaming = asyncio.ensure_future(self._stream(follower, send))
            leaving = asyncio.ensure_future(left(receive))
            dropped = asyncio.ensure_future(self._dropped(follower))
            await asyncio.wait((streaming, leaving, dropped), return_when=asyncio.FIRST_COMPLETED)
            if not streaming.done() and not leaving.done():  # it is too slow: why, it may read for a while
                await asyncio.wait((streaming, leaving), timeout=GOODBYE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            for task in (streaming, leaving, dropped):
                task.cancel()
            await asyncio.gather(streaming, leaving, dropped, return_exceptions=True)
        finally:
            self._hub.leave(follower)

    async def _dropped(self, follower: Follower) -> None:
        """Wait until a follower was dropped."""
        while follower.waiting.ended is None:
            await follower.waiting.ending.wait()

    async def _stream(self, follower: Follower, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})

        async def write(text: bytes, *, more: bool = True) -> None:
            await send({"type": "http.response.body", "body": text, "more_body": more})

        gap = follower.gap
        if gap is None:
            await write(self._begin)
        else:
            content = {"message": gap.message, "from": gap.after, "to": gap.position}
            await write(self._begin + event_text("gap", content, id=f"{gap.position}-{self._hub.run}"))
        while True:
            try:
                items = await asyncio.wait_for(follower.waiting.get(), PING_SECONDS)
            except TimeoutError:
                await write(b": ping\n\n")
                continue
            except Exception as ended:
                await write(event_text("end", {"reason": str(ended)}), more=False)
                return
            await self._write_all(follower, items, write)

    async def _write_all(self, follower: Follower, items: list[tuple[Published, int]], write: Callable[..., object]) -> None:
        """Write events, some of them at once; where the follower is dropped on the way, what is left is not."""
        buffer: list[bytes] = []
        size = rows = 0
        for event, counted in items:
            if follower.waiting.ended is not None and isinstance(follower.waiting.ended, FollowerTooSlow):
                return
            parts = await self._parts(event, follower)
            for part in parts:
                buffer.append(part)
                size += len(part)
                if size > WRITTEN:
                    await write(b"".join(buffer))  # type: ignore[misc]
                    buffer, size = [], 0
            rows += counted
            if not buffer:
                follower.waiting.taken(rows)
                rows = 0
        if buffer:
            await write(b"".join(buffer))  # type: ignore[misc]
        follower.waiting.taken(rows)

    async def _parts(self, event: Published, follower: Follower) -> list[bytes]:
        if event.is_encoded(follower.wanted):
            parts = event.parts(follower.wanted)
        else:
            loop = asyncio.get_running_loop()
            parts = await loop.run_in_executor(self._encoder, event.parts, follower.wanted)
        if follower.skipped_parts:
            parts, follower.skipped_parts = parts[follower.skipped_parts :], 0
        return parts


async def left(receive: Receive) -> None:
    """Wait until the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
