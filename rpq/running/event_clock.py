"""Answering each event by itself, with nothing kept between them: time is the number of the event.

A window of one event that slides by one is then a window of time like any other. What leaves it when the next event comes is
not told, and rows have the time of their event, not its number.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from rpq.errors import QueryError
from rpq.stream.columns import Columns
from rpq.stream.stream_time import windows_of
from rpq.stream.window import UnboundedWindow, Window

ONE_EVENT = Window(size=1, slide=1)


class EventClock:
    """How many events there were, and the stream time: the largest timestamp among them.

    >>> clock = EventClock()
    >>> clock.number, clock.time
    (0, None)
    """

    def __init__(self) -> None:
        self.number = 0
        self.time: int | None = None

    def numbered(self, tuples: Columns) -> Columns:
        """Tuples with the numbers of their events as timestamps, and the stream time of each as what is told."""
        count = len(tuples)
        if not count:
            return tuples
        rows = np.arange(count, dtype=np.int64)
        first = rows if tuples.first is None else tuples.first
        number = self.number + np.cumsum(first == rows)
        time = np.maximum.accumulate(tuples.timestamp)
        if self.time is not None:
            time = np.maximum(time, self.time)
        return replace(tuples, timestamp=number, told=time, first=first)

    def went_by(self, tuples: Columns) -> None:
        """These tuples, which are `numbered`, have been applied."""
        assert tuples.told is not None
        self.number, self.time = int(tuples.timestamp[-1]), int(tuples.told[-1])

    def advance(self, time: int) -> None:
        """Move the stream time without a tuple."""
        self.time = time if self.time is None else max(time, self.time)


def over_one_event(query: Any) -> Any:
    """A query over the window of one event. Raises `QueryError` where it has another window than an unbounded one."""
    for window in windows_of(query):
        if window.kind != "unbounded":
            raise QueryError(
                f"query {query.name!r}: where each event is answered by itself, nothing is there but the event, so a window "
                f"is rpq.UnboundedWindow(), not {window!r}; with rpq.Engine(…, events=\"window\") windows hold many events"
            )
    if getattr(query, "report", "change") != "change":
        raise QueryError(f"query {query.name!r}: where each event is answered by itself, each has a report of its own")
    return query.over(ONE_EVENT)


def as_asked(query: Any) -> Any:
    """The query that `over_one_event` made this of."""
    return query.over(UnboundedWindow())
