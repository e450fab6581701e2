"""The response to one who follows changes: server-sent events, until one of the two ends it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import Executor

from starlette.responses import StreamingResponse
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
    """An application of ASGI that is one response, and has to be called: the changes that a follower of a hub is to have.

    What takes long to encode is encoded by `encoder`, once for all followers, which share the bytes of events; a response
    that frames each event itself, as those of sse-starlette, has nothing to do here. `begin` is the first event.
    """

    def __init__(self, hub: ChangeHub, follower: Follower, encoder: Executor, begin: bytes) -> None:
        self._hub = hub
        self._follower = follower
        self._encoder = encoder
        self._begin = begin

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        follower = self._follower
        chunks = self._chunks(follower)
        response = StreamingResponse(chunks, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})
        loop = asyncio.get_running_loop()
        ping = loop.create_task(self._ping(follower))
        try:
            async with asyncio.timeout(None) as patience:
                follower.waiting.when_ended(lambda: patience.reschedule(loop.time() + GOODBYE_SECONDS))
                await response(scope, receive, send)
        except TimeoutError:
            if not patience.expired():
                raise
        finally:
            ping.cancel()
            self._hub.leave(follower)

    async def _chunks(self, follower: Follower) -> AsyncIterator[bytes]:
        """Yield events as they come, some of them at once; what was yielded is sent when the next chunk is asked for."""
        gap = follower.gap
        if gap is None:
            yield self._begin
        else:
            content = {"message": gap.message, "from": gap.after, "to": gap.position}
            yield self._begin + event_text("gap", content, id=f"{gap.position}-{self._hub.run}")
        while True:
            try:
                items = await follower.waiting.get()
            except Exception as ended:
                yield event_text("end", {"reason": str(ended)})
                return
            buffer: list[bytes] = []
            size = rows = 0
            for event, counted in items:
                if isinstance(follower.waiting.ended, FollowerTooSlow):
                    break  # what is left it is not to have
                for part in await self._parts(event, follower):
                    buffer.append(part)
                    size += len(part)
                    if size > WRITTEN:
                        yield b"".join(buffer)
                        buffer, size = [], 0
                rows += counted
                if not buffer:
                    follower.waiting.taken(rows)
                    rows = 0
            else:
                if buffer:
                    yield b"".join(buffer)
                follower.waiting.taken(rows)

    async def _ping(self, follower: Follower) -> None:
        """Send comments, which keep a connection alive; a timeout for each wait would cost more than what is waited for."""
        while True:
            await asyncio.sleep(PING_SECONDS)
            if follower.waiting.is_idle:
                follower.waiting.put(None, 0)

    async def _parts(self, event: Published | None, follower: Follower) -> list[bytes]:
        if event is None:
            return [b": ping\n\n"]
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
