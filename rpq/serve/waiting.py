"""What waits for a follower of changes, up to a limit: who is too slow is dropped, and nobody waits for it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from rpq.errors import RpqError

Item = TypeVar("Item")


class FollowerTooSlow(RpqError):
    """A follower of changes was dropped, since more rows waited for it than may.

    `rows` waited for it, `limit` may.

    >>> FollowerTooSlow("12 rows wait for this follower, and 10 may", rows=12, limit=10).limit
    10
    """

    def __init__(self, message: str, *, rows: int, limit: int) -> None:
        super().__init__(message)
        self.rows = rows
        self.limit = limit


class Waiting(Generic[Item]):
    """Items that wait for one follower; used in the thread of its event loop alone.

    What comes while more than `limit` rows wait already ends it: what waits is let go of, and `get` raises.  One item may
    have more rows than the limit, for a follower that is not behind.
    """

    def __init__(self, *, limit: int) -> None:
        self.limit = limit
        self.rows = 0
        self.ended: Exception | None = None
        self._items: deque[tuple[Item, int]] = deque()
        self._came = asyncio.Event()
        self._call_ended: Callable[[], object] | None = None

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits, and all that `get` gave has gone."""
        return not self._items and not self.rows

    def put(self, item: Item, rows: int) -> None:
        """Let an item wait; O(1)."""
        if self.ended is not None:
            return
        if self.rows > self.limit:
            message = f"{self.rows:,} rows of changes wait for this follower, and {self.limit:,} may: it reads too slowly"
            self.end(FollowerTooSlow(message, rows=self.rows, limit=self.limit))
            self._items.clear()
            return
        self._items.append((item, rows))
        self.rows += rows
        self._came.set()

    def end(self, reason: Exception) -> None:
        """Let `get` raise the reason, once it has given what waits."""
        if self.ended is None:
            self.ended = reason
            if self._call_ended is not None:
                self._call_ended()
        self._came.set()

    def when_ended(self, call: Callable[[], object]) -> None:
        """Call something once it is ended, or now if it is."""
        if self.ended is None:
            self._call_ended = call
        else:
            call()

    async def get(self) -> list[tuple[Item, int]]:
        """All that waits, at least one item, each with its rows; raises the reason of the end where nothing does."""
        while not self._items:
            if self.ended is not None:
                raise self.ended
            self._came.clear()
            await self._came.wait()
        items = list(self._items)
        self._items.clear()
        return items

    def taken(self, rows: int) -> None:
        """So many rows of what `get` gave have gone: they wait no more."""
        self.rows -= rows
