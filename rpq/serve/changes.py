"""The changes of one push as followers get them: encoded once, when the first of them needs it."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections import deque
from collections.abc import AsyncIterator, Iterable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from rpq.errors import RpqError
from rpq.rows.changes import Changes
from rpq.rows.table_formats import MessageTemplate, json_arrays
from rpq.serve.engine_thread import FollowerQueue, FollowerTooSlow
from rpq.serve.models import EVENT_ID, json_text, json_value

PART_ROWS = 1000
"""The maximum number of rows of an event; the changes of a large push are divided into several events."""

FEW_ROWS = 64
"""The number of rows up to which rows are encoded one by one; more are encoded column by column."""

MAX_SHARED = 32
"""The maximum number of encodings of an event, for different queries and texts, that are stored for further followers."""

Selection = frozenset[str] | None
"""The names of the queries whose changes a follower receives; None for all queries."""


@dataclass(frozen=True)
class RowText:
    """The text that a follower requests for each row of a query with these columns."""

    template: MessageTemplate
    columns: tuple[str, ...]

    def add_to(self, line: bytes) -> bytes:
        """Return the JSON object of a row with a last member `message`."""
        row = json.loads(line)
        values = {**row, **dict(zip(self.columns, row["values"], strict=False))}
        return b'%s,"message":%s}' % (line[:-1], json_text(self.template.message(values)))


class PublishedChanges:
    """The changes of push `position`; `time` is the stream time after it, `run` the run of the server that numbered it."""

    def __init__(self, changes: Changes, *, position: int, time: Any, run: str) -> None:
        self.position = position
        self.rows = len(changes)
        self._changes: Changes | None = changes
        self._head = b'{"position":%d,"time":%s,"changes":[' % (position, json_text(json_value(time)))
        self._run = run
        self._lock = threading.Lock()
        self._rows_by_query: dict[str, int] | None = None
        self._lines: tuple[list[bytes], np.ndarray | None, list[str]] | None = None
        self._parts: dict[tuple[Selection, RowText | None], list[bytes]] = {}

    def id_of(self, part: int, parts: int) -> str:
        """Return the event id of a part: position, part and run; the last part has no part number."""
        return f"{self.position}-{self._run}" if part == parts else f"{self.position}.{part}-{self._run}"

    def rows_of(self, selection: Selection) -> int:
        """Return the number of rows of these queries; must be called before `parts`.  O(events), the first time."""
        if selection is None:
            return self.rows
        if self._rows_by_query is None:
            assert self._changes is not None
            self._rows_by_query = self._changes._rows_by_query()
        return sum(self._rows_by_query.get(name, 0) for name in selection)

    def is_encoded(self, selection: Selection, text: RowText | None = None) -> bool:
        """Return whether `parts` is cheap: already encoded, or a few rows."""
        return (selection, text) in self._parts or self.rows <= FEW_ROWS

    def parts(self, selection: Selection, text: RowText | None = None) -> list[bytes]:
        """Return the server-sent events for followers of these queries; the list is empty if none of the rows are theirs.

        With a `text` rows have a message.  O(rows), the first time; may be called from any thread.
        """
        key = selection, text
        found = self._parts.get(key)
        if found is None:
            with self._lock:
                found = self._parts.get(key)
                if found is None:
                    found = self._encode(selection, text)
                    if len(self._parts) >= MAX_SHARED:
                        del self._parts[next(iter(self._parts))]
                    self._parts[key] = found
        return found

    def _encode(self, selection: Selection, text: RowText | None) -> list[bytes]:
        if self._lines is None:
            assert self._changes is not None
            self._lines = _lines_of(self._changes)
            self._changes = None
        lines = _rows_of_queries(*self._lines, selection)
        if text is not None:
            lines = [text.add_to(line) for line in lines]
        count = -(-len(lines) // PART_ROWS)
        return [
            b"id: %s\nevent: changes\ndata: %s%s]}\n\n"
            % (self.id_of(part, count).encode(), self._head, b",".join(lines[(part - 1) * PART_ROWS : part * PART_ROWS]))
            for part in range(1, count + 1)
        ]


def _lines_of(changes: Changes) -> tuple[list[bytes], np.ndarray | None, list[str]]:
    """Return the rows as JSON objects in the order of time, the number of each row's query (None: all 0), and the names."""
    if len(changes) <= FEW_ROWS:
        return _one_by_one(changes)
    tables = [table for table in changes.tables() if table.num_rows]
    if not all(map(_is_plain, tables)):
        return _one_by_one(changes)
    names = sorted({name for table in tables for name in pc.unique(table["query"]).to_pylist()})
    lines = [line for table in tables for line in _lines_of_table(table)]
    if len(names) == 1:
        return lines, None, names
    numbers = np.concatenate([pc.index_in(table["query"], pa.array(names)).to_numpy() for table in tables])
    if len(tables) > 1:
        times = np.concatenate([table["timestamp"].to_numpy() for table in tables])
        order = np.argsort(times, kind="stable")
        lines, numbers = [lines[place] for place in order.tolist()], numbers[order]
    return lines, numbers, names


def _one_by_one(changes: Changes) -> tuple[list[bytes], np.ndarray | None, list[str]]:
    rows = changes.rows()
    places: dict[str, int] = {}
    numbers = [places.setdefault(row[0], len(places)) for row in rows]
    lines = [
        json_text(
            {
                "query": row[0],
                "op": row[-1],
                "timestamp": json_value(row[-2]),
                "values": [json_value(value) for value in row[1:-2]],
            }
        )
        for row in rows
    ]
    return lines, None if len(places) == 1 else np.array(numbers, np.int64), [*places]


def _is_plain(table: pa.Table) -> bool:
    """Return whether all values are integers and texts."""
    return all(pa.types.is_integer(field.type) or pa.types.is_string(field.type) for field in table.schema)


def _lines_of_table(table: pa.Table) -> Iterable[bytes]:
    columns = table.column_names
    beside = b"".join(buffer.to_pybytes() for buffer in json_arrays(table.select(["query", "op", "timestamp"])))
    values = b"".join(buffer.to_pybytes() for buffer in json_arrays(table.select(columns[1:-2])))
    if len(columns) == 3:  # an ASK has no columns
        values = b"[]\n" * table.num_rows
    for one, of_it in zip(beside.splitlines(), values.splitlines(), strict=True):
        query, op, timestamp = _split_row(one)
        yield b'{"query":%s,"op":%s,"timestamp":%s,"values":%s}' % (query, op, timestamp, of_it)


def _split_row(line: bytes) -> tuple[bytes, bytes, bytes]:
    """Return the three values of `["name","+",7]`; the name may contain any characters."""
    rest, _, timestamp = line[1:-1].rpartition(b",")
    query, _, op = rest.rpartition(b",")
    return query, op, timestamp


def encode_rows(changes: Changes, selection: Selection) -> list[bytes]:
    """Return the rows of some queries as JSON objects, in the order of time. O(rows)."""
    lines, numbers, names = _lines_of(changes) if len(changes) else ([], None, [])
    return _rows_of_queries(lines, numbers, names, selection)


def _rows_of_queries(lines: list[bytes], numbers: np.ndarray | None, names: list[str], selection: Selection) -> list[bytes]:
    if selection is None or not lines:
        return lines
    if numbers is None:
        return lines if names[0] in selection else []
    of_them = np.array([name in selection for name in names])
    return [lines[place] for place in np.flatnonzero(of_them[numbers]).tolist()]


class FollowerEnded(RpqError):
    """A follower receives nothing more; the message gives the reason."""


@dataclass(frozen=True)
class ChangePosition:
    """The position of a client in the changes: a push, or a part of it; `run` is the run of the server that numbered it."""

    position: int
    part: int | None = None
    run: str | None = None

    @classmethod
    def of(cls, text: str) -> ChangePosition | None:
        """Parse the id of an event, or a position alone; return None if the text is neither.

        >>> ChangePosition.of("17.2-5f3a"), ChangePosition.of("17"), ChangePosition.of("x")
        (ChangePosition(position=17, part=2, run='5f3a'), ChangePosition(position=17, part=None, run=None), None)
        """
        found = re.fullmatch(EVENT_ID, text.strip())
        if found is None:
            return None
        position, part, run = found.groups()
        return cls(int(position), int(part[1:]) if part else None, run[1:] if run else None)


@dataclass(frozen=True)
class Gap:
    """The changes that a returning follower has lost: those after `after`, up to `position`."""

    after: int
    position: int
    message: str


@dataclass(frozen=True)
class QueryEnd:
    """The end of a query, which was dropped at a position."""

    name: str
    position: int


MAX_ENDS = 10_000
"""Maximum number of dropped queries whose positions are stored; positions before the others are not resumed from."""


class Follower:
    """A follower of changes: its queries, the text that it requests for each row, and the events that wait for it."""

    def __init__(self, selection: Selection, *, lag_rows: int, text: RowText | None = None) -> None:
        self.selection = selection
        self.text = text
        self.live = set(selection or ())
        """The queries among them that are still registered."""
        self.queue: FollowerQueue[PublishedChanges | None] = FollowerQueue(limit=lag_rows)
        """Events, and None for a comment that keeps the connection alive."""
        self.skipped_parts = 0
        self.gap: Gap | None = None


class ChangeHub:
    """The most recent changes, up to `history_rows` rows, and their followers; only the thread of the event loop may use it.

    `position` is the number of the last push; changes up to `complete_after` are no longer stored.
    """

    def __init__(self, *, run: str, position: int, history_rows: int, lag_rows: int) -> None:
        self.run = run
        self.position = position
        self.complete_after = position
        self.followers: set[Follower] = set()
        self.dropped = 0
        self._history: deque[PublishedChanges] = deque()
        self._ends: dict[str, int] = {}  # the position at which each name was last dropped
        self._rows = 0
        self._history_rows = history_rows
        self._lag_rows = lag_rows
        self._end: FollowerEnded | None = None

    def publish(self, events: Iterable[PublishedChanges | QueryEnd], *, position: int) -> None:
        """Pass events to the followers of their queries, in order, and end the followers whose queries have all ended.

        O(events · followers).
        """
        for event in events:
            if isinstance(event, QueryEnd):
                self._end_query(event)
                continue
            self._history.append(event)
            self._rows += event.rows
            while self._rows > self._history_rows:
                old = self._history.popleft()
                self._rows -= old.rows
                self.complete_after = max(self.complete_after, old.position)
            for follower in self.followers:
                is_live = follower.queue.ended is None
                if rows := event.rows_of(follower.selection):
                    follower.queue.put(event, rows)
                self.dropped += is_live and follower.queue.ended is not None
        self.position = position

    def follow(
        self, selection: Selection, after: ChangePosition | None, text: RowText | None = None, *, known_at: int | None = None
    ) -> Follower:
        """Return a new follower, from now on or from a place on; its `gap` says which changes are no longer available.

        `known_at` is a position at which all of its queries were registered.
        """
        follower = Follower(selection, lag_rows=self._lag_rows, text=text)
        if after is not None:
            self._resume(follower, after)
        for name in sorted(selection or ()):
            if known_at is not None and self._ends.get(name, 0) > known_at:
                self._end_query_of(follower, name)
        if self._end is not None:
            follower.queue.end(self._end)
        self.followers.add(follower)
        return follower

    def _resume(self, follower: Follower, after: ChangePosition) -> None:
        whole = after.position - (after.part is not None)  # the last push that the follower has completely
        why = self._reason_for_gap(follower.selection, after, whole)
        if why is not None:
            follower.gap = Gap(
                after.position,
                self.position,
                f"the changes after position {after.position} are not all available: {why}; read the answers again",
            )
            return
        for event in self._history:
            if event.position > whole:
                if event.position == after.position:
                    follower.skipped_parts = after.part or 0
                # Kept events do not count as lag of this follower.
                follower.queue.put(event, 0)

    def _reason_for_gap(self, selection: Selection, after: ChangePosition, whole: int) -> str | None:
        """Return why a follower cannot continue behind push `whole`; None if it can."""
        if after.position > self.position or (after.run is not None and after.run != self.run):
            return "these are positions of another run of the server"
        if whole < self.complete_after:
            return f"changes are stored from position {self.complete_after + 1} on"
        for name in sorted(selection or ()):
            if (end := self._ends.get(name, 0)) > whole:
                return f"the query {name!r} was dropped at position {end}, and another one has its name now"
        return None

    def leave(self, follower: Follower) -> None:
        """Remove a follower."""
        self.followers.discard(follower)

    def _end_query(self, end: QueryEnd) -> None:
        """Record that a query was dropped; end the followers that have no other query."""
        self._ends.pop(end.name, None)
        self._ends[end.name] = end.position
        if len(self._ends) > MAX_ENDS:
            self.complete_after = max(self.complete_after, self._ends.pop(next(iter(self._ends))))
        for follower in self.followers:
            self._end_query_of(follower, end.name)

    def _end_query_of(self, follower: Follower, name: str) -> None:
        if name in follower.live:
            follower.live.discard(name)
            if not follower.live:
                follower.queue.end(FollowerEnded(f"the query {name!r} was dropped"))

    def end(self, reason: str) -> None:
        """End all present and future followers."""
        self._end = FollowerEnded(reason)
        for follower in self.followers:
            follower.queue.end(self._end)


PING_SECONDS = 15.0
GOODBYE_SECONDS = 5.0
"""The seconds in which a dropped follower may read the reason."""

CHUNK_BYTES = 1 << 16
"""Approximate size of a chunk, in bytes."""


def event_text(kind: str, content: object, *, id: str | None = None) -> bytes:
    """Return a server-sent event as bytes.

    >>> event_text("end", {"reason": "x"})
    b'event: end\\ndata: {"reason":"x"}\\n\\n'
    """
    head = b"" if id is None else b"id: %s\n" % id.encode()
    return head + b"event: %s\ndata: %s\n\n" % (kind.encode(), json_text(content))


class FollowedChanges:
    """The ASGI response that streams the changes of a hub to one follower.

    Large events are encoded by `encoder`, once for all followers, which share the bytes; so a response that frames each
    event itself, as those of sse-starlette do, is of no use here. `begin` is the first event.
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
                follower.queue.when_ended(lambda: patience.reschedule(loop.time() + GOODBYE_SECONDS))
                await response(scope, receive, send)
        except TimeoutError:
            if not patience.expired():
                raise
        finally:
            ping.cancel()
            self._hub.leave(follower)

    async def _chunks(self, follower: Follower) -> AsyncIterator[bytes]:
        """Yield chunks of one or more events as they arrive; a chunk has been sent when the next one is requested."""
        gap = follower.gap
        if gap is None:
            yield self._begin
        else:
            content = {"message": gap.message, "from": gap.after, "to": gap.position}
            yield self._begin + event_text("gap", content, id=f"{gap.position}-{self._hub.run}")
        while True:
            try:
                items = await follower.queue.get()
            except Exception as ended:
                yield event_text("end", {"reason": str(ended)})
                return
            buffer: list[bytes] = []
            size = rows = 0
            for event, counted in items:
                if isinstance(follower.queue.ended, FollowerTooSlow):
                    break  # the rest is discarded
                for part in await self._parts(event, follower):
                    buffer.append(part)
                    size += len(part)
                    if size > CHUNK_BYTES:
                        yield b"".join(buffer)
                        buffer, size = [], 0
                rows += counted
                if not buffer:
                    follower.queue.note_sent(rows)
                    rows = 0
            else:
                if buffer:
                    yield b"".join(buffer)
                follower.queue.note_sent(rows)

    async def _ping(self, follower: Follower) -> None:
        """Send comments, which keep the connection alive; a timeout for each wait would cost more than the events."""
        while True:
            await asyncio.sleep(PING_SECONDS)
            if follower.queue.is_idle:
                follower.queue.put(None, 0)

    async def _parts(self, event: PublishedChanges | None, follower: Follower) -> list[bytes]:
        if event is None:
            return [b": ping\n\n"]
        if event.is_encoded(follower.selection, follower.text):
            parts = event.parts(follower.selection, follower.text)
        else:
            loop = asyncio.get_running_loop()
            parts = await loop.run_in_executor(self._encoder, event.parts, follower.selection, follower.text)
        if follower.skipped_parts:
            parts, follower.skipped_parts = parts[follower.skipped_parts :], 0
        return parts


async def wait_for_disconnect(receive: Receive) -> None:
    """Wait until the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
