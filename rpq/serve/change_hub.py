"""Where changes are kept for a while, and go to all who follow them; used in the thread of the event loop alone."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from rpq.errors import RpqError
from rpq.serve.published import Published, Wanted
from rpq.serve.waiting import Waiting

EVENT_ID = "([0-9]{1,18})([.][0-9]{1,9})?(-[0-9a-f]+)?"
"""A position, the part of it where there are several, and the run of the server that it is of."""


class Ended(RpqError):
    """A follower gets nothing more; the message says why."""


@dataclass(frozen=True)
class Place:
    """How far somebody has followed: all of a push by its number, or a part of it; `run` is whose numbers these are."""

    position: int
    part: int | None = None
    run: str | None = None

    @classmethod
    def of(cls, text: str) -> Place | None:
        """The place that the id of an event tells, or a number alone; None for what is none.

        >>> Place.of("17.2-5f3a"), Place.of("17"), Place.of("x")
        (Place(position=17, part=2, run='5f3a'), Place(position=17, part=None, run=None), None)
        """
        found = re.fullmatch(EVENT_ID, text.strip())
        if found is None:
            return None
        position, part, run = found.groups()
        return cls(int(position), int(part[1:]) if part else None, run[1:] if run else None)


@dataclass(frozen=True)
class Gap:
    """What somebody who comes back has missed for good: changes behind `after`, up to `position`."""

    after: int
    position: int
    message: str


class Follower:
    """One who follows: what waits for it, and of which queries."""

    def __init__(self, wanted: Wanted, *, lag_rows: int) -> None:
        self.wanted = wanted
        self.live = set(wanted or ())
        """Those of the queries that are still there."""
        self.waiting: Waiting[Published | None] = Waiting(limit=lag_rows)
        """Events, and None for a comment that keeps the connection alive."""
        self.skipped_parts = 0
        self.gap: Gap | None = None


class ChangeHub:
    """The last changes, up to `kept_rows` rows, and the followers.

    `position` is the number of the last push; what came up to `complete_after` is kept no more.
    """

    def __init__(self, *, run: str, position: int, kept_rows: int, lag_rows: int) -> None:
        self.run = run
        self.position = position
        self.complete_after = position
        self.followers: set[Follower] = set()
        self.dropped = 0
        self._kept: deque[Published] = deque()
        self._rows = 0
        self._kept_rows = kept_rows
        self._lag_rows = lag_rows
        self._end: Ended | None = None

    def publish(self, events: Iterable[Published], *, position: int) -> None:
        """Let all who follow have these; O(events · followers)."""
        for event in events:
            self._kept.append(event)
            self._rows += event.rows
            while self._rows > self._kept_rows:
                old = self._kept.popleft()
                self._rows -= old.rows
                self.complete_after = old.position
            for follower in self.followers:
                is_live = follower.waiting.ended is None
                follower.waiting.put(event, event.rows)
                self.dropped += is_live and follower.waiting.ended is not None
        self.position = position

    def follow(self, wanted: Wanted, after: Place | None) -> Follower:
        """A new follower, from now on or behind a place; its `gap` says what cannot be given any more."""
        follower = Follower(wanted, lag_rows=self._lag_rows)
        if after is not None:
            self._go_on(follower, after)
        if self._end is not None:
            follower.waiting.end(self._end)
        self.followers.add(follower)
        return follower

    def _go_on(self, follower: Follower, after: Place) -> None:
        whole = after.position - (after.part is not None)  # the last push of which nothing is asked for
        foreign = after.run is not None and after.run != self.run
        if foreign or after.position > self.position or whole < self.complete_after:
            why = "these are positions of another run of the server" if foreign or after.position > self.position else (
                f"changes are kept from position {self.complete_after + 1} on"
            )
            follower.gap = Gap(
                after.position,
                self.position,
                f"the changes behind position {after.position} cannot all be given: {why}; read the answers anew",
            )
            return
        for event in self._kept:
            if event.position > whole:
                if event.position == after.position:
                    follower.skipped_parts = after.part or 0
                # What is kept is no lag of this follower's.
                follower.waiting.put(event, 0)

    def leave(self, follower: Follower) -> None:
        """Follow no more."""
        self.followers.discard(follower)

    def end_query(self, name: str) -> None:
        """A query is there no more: who follows that alone is told."""
        for follower in self.followers:
            if name in follower.live:
                follower.live.discard(name)
                if not follower.live:
                    follower.waiting.end(Ended(f"the query {name!r} was dropped"))

    def end(self, reason: str) -> None:
        """End all who follow, and who will."""
        self._end = Ended(reason)
        for follower in self.followers:
            follower.waiting.end(self._end)
