"""The time of a stream in which each event is evaluated by itself, with nothing stored between events: the event's number.

A window of one event that slides by one is then a window of time like any other. What leaves it when the next event arrives
is not reported, and rows have the time of their event, not its number.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from rpq.errors import QueryError
from rpq.stream.arrays.event_grouping import begins_of_events
from rpq.stream.columns import Columns
from rpq.stream.stream_time import windows_of
from rpq.stream.window import UnboundedWindow, Window

ONE_EVENT = Window(size=1, slide=1)


class EventClock:
    """The number of events so far, and the stream time: the largest timestamp among them.

    >>> clock = EventClock()
    >>> clock.number, clock.time
    (0, None)
    """

    def __init__(self) -> None:
        self.number = 0
        self.time: int | None = None

    def number_events(self, tuples: Columns) -> Columns:
        """Return tuples with the numbers of their events as timestamps, and the stream time of each as `reported_time`."""
        count = len(tuples)
        if not count:
            return tuples
        first = np.arange(count) if tuples.first is None else tuples.first
        begins = first if tuples.first is None else begins_of_events(first)
        time = np.maximum.accumulate(tuples.timestamp[begins])  # the tuples of an event have one time
        if self.time is not None:
            np.maximum(time, self.time, out=time)
        number = np.arange(self.number + 1, self.number + 1 + len(begins))
        if len(begins) < count:
            lengths = np.diff(begins, append=count)
            number, time = np.repeat(number, lengths), np.repeat(time, lengths)
        return replace(tuples, timestamp=number, reported_time=time, first=first)

    def note_applied(self, tuples: Columns) -> None:
        """Note that these tuples, which come from `number_events`, have been applied."""
        assert tuples.reported_time is not None
        self.number, self.time = int(tuples.timestamp[-1]), int(tuples.reported_time[-1])

    def advance(self, time: int) -> None:
        """Move the stream time without a tuple."""
        self.time = time if self.time is None else max(time, self.time)


def query_over_event(query: Any) -> Any:
    """Return a query over the window of one event. Raises `QueryError` unless its window is unbounded."""
    for window in windows_of(query):
        if window.kind != "unbounded":
            raise QueryError(
                f"query {query.name!r}: with events=\"alone\" a query is evaluated over one event, so its window is "
                f"rpq.UnboundedWindow(), not {window!r}; with rpq.Engine(…, events=\"window\") windows contain many events"
            )
    if getattr(query, "report", "change") != "change":
        raise QueryError(f"query {query.name!r}: with events=\"alone\" every event has its own report: leave out report")
    if getattr(query, "hold", None) is not None:
        raise QueryError(f"query {query.name!r}: with events=\"alone\" no answer outlives its event: leave out hold")
    return query.over(ONE_EVENT)


def query_over_unbounded_window(query: Any) -> Any:
    """Return the query from which `query_over_event` made this one."""
    return query.over(UnboundedWindow())
